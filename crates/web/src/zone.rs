//! [`PageZone`]: time zone in which a page shows and reads times.

use crate::times::{self, SECOND};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use jitlat_archive::{ArchiveError, When, utc};
use jitlat_core::WallTime;

/// Longest name of a zone.
const MAX_CHARS: usize = 64;
/// Name of the zone of pages whose reader has chosen none.
pub const UTC: &str = "UTC";

/// Time zone in which a page shows and reads times.
#[derive(Clone, Debug)]
pub struct PageZone {
    /// Name in the IANA database, such as `Europe/Oslo`.
    pub name: String,
    zone: TimeZone,
}

impl Default for PageZone {
    fn default() -> PageZone {
        PageZone { name: UTC.to_owned(), zone: TimeZone::UTC }
    }
}

impl PageZone {
    /// Returns the zone with this name; `None` if this system does not know it.
    pub fn named(name: &str) -> Option<PageZone> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_+-/".contains(c);
        if name.is_empty() || name.len() > MAX_CHARS || !name.chars().all(fits) {
            return None;
        }
        if name == UTC {
            return Some(PageZone::default());
        }
        TimeZone::get(name).ok().map(|zone| PageZone { name: name.to_owned(), zone })
    }

    /// True if times are UTC.
    pub fn is_utc(&self) -> bool {
        self.name == UTC
    }

    /// Returns a time (ns since 1970) as date and time of this zone.
    pub fn local(&self, at: i64) -> Zoned {
        Timestamp::from_nanosecond(at.into()).unwrap_or_default().to_zoned(self.zone.clone())
    }

    /// Returns the time (ns since 1970) of a date and time of this zone; `None` outside the range of times.
    pub fn at(&self, local: DateTime) -> Option<i64> {
        let zoned = local.to_zoned(self.zone.clone()).ok()?;
        i64::try_from(zoned.timestamp().as_nanosecond()).ok()
    }

    /// Returns the difference to UTC at a time, in ns.
    pub fn offset(&self, at: i64) -> i64 {
        i64::from(self.local(at).offset().seconds()).saturating_mul(SECOND)
    }

    /// Formats a time: `2026-11-23 10:00:00`.
    pub fn text(&self, at: i64) -> String {
        if self.is_utc() { utc(at) } else { utc(at.saturating_add(self.offset(at))) }
    }

    /// Formats a time for a field of a form: `2026-11-23T10:00:00`.
    pub fn field(&self, at: i64) -> String {
        self.text(at).replace(' ', "T")
    }

    /// Parses a time: a date or a time of this zone, one with an offset, or a time before `now`.
    ///
    /// # Errors
    /// [`ArchiveError::Usage`].
    pub fn parse(&self, text: &str, now: i64) -> Result<i64, ArchiveError> {
        let is_local = text.as_bytes().first().is_some_and(u8::is_ascii_digit)
            && text.contains('-')
            && text.parse::<Timestamp>().is_err();
        let local = text.parse::<DateTime>().ok().filter(|_| is_local).and_then(|local| self.at(local));
        match local {
            Some(at) => Ok(at),
            None => When::parse(text, WallTime(now)).map(|when| when.0.0),
        }
    }

    /// Returns the sentence about the zone for the end of a page.
    pub fn sentence(&self) -> String {
        if self.is_utc() {
            times::ALL_UTC.to_owned()
        } else {
            format!("All times are in the zone {}.", self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2025-11-23 12:13:20 UTC.
    const AT: i64 = 1_763_900_000 * SECOND;

    #[test]
    fn times_of_a_zone_are_read_and_shown() {
        let utc = PageZone::named("UTC").unwrap();
        assert_eq!(utc.text(AT), "2025-11-23 12:13:20");
        assert_eq!(utc.parse("2025-11-23T12:13:20Z", AT).unwrap(), AT);
        assert_eq!(utc.parse("36h", AT).unwrap(), AT - 36 * times::HOUR);
        let Some(oslo) = PageZone::named("Europe/Oslo") else { return };
        assert_eq!(oslo.text(AT), "2025-11-23 13:13:20");
        assert_eq!(oslo.parse("2025-11-23T13:13:20", AT).unwrap(), AT);
        assert_eq!(oslo.parse("2025-11-23T12:13:20Z", AT).unwrap(), AT);
        assert_eq!(oslo.text(oslo.parse("2025-11-23", AT).unwrap()), "2025-11-23 00:00:00");
        assert!(oslo.parse("soon", AT).is_err());
    }

    #[test]
    fn only_names_are_zones() {
        for hostile in ["", "../../etc/passwd", "/etc/localtime", "a b", "Europe/Nowhere", &"x".repeat(99)] {
            assert!(PageZone::named(hostile).is_none(), "{hostile}");
        }
    }
}
