//! The first line of a log: its date of creation as text, as written by [`units::utc_date`].
//!
//! [`units::utc_date`]: jitlat_core::units::utc_date

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jitlat_core::WallTime;

/// Parses a date such as `Fri Jul 3 19:46:11 UTC 2009`: in UTC or GMT, with any spacing, with or without the day of the
/// week. `None` if it is not a date.
pub fn parse_date(text: &str) -> Option<WallTime> {
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let fields = match fields.as_slice() {
        [_, rest @ ..] if rest.len() == 5 => rest,
        rest => rest,
    };
    let [month, day, time, "UTC" | "GMT" | "Z", year] = fields else { return None };
    let moment = DateTime::strptime("%b %d %H:%M:%S %Y", format!("{month} {day} {time} {year}")).ok()?;
    let nanos = moment.to_zoned(TimeZone::UTC).ok()?.timestamp().as_nanosecond();
    i64::try_from(nanos).ok().map(WallTime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::units::utc_date;

    #[test]
    fn a_date_is_read_as_it_was_written() {
        let at = WallTime(1_246_650_371_000_000_000);
        assert_eq!(utc_date(at), "Fri Jul 3 19:46:11 UTC 2009");
        for text in [
            "Fri Jul 3 19:46:11 UTC 2009",
            "Fri Jul  3 19:46:11 GMT 2009",
            "Fri Jul 03 19:46:11 UTC 2009",
            "Jul 3 19:46:11 GMT 2009",
        ] {
            assert_eq!(parse_date(text), Some(at), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_date_is_none() {
        for text in [
            "",
            "command SENDING",
            "Fri Jul 3 19:46:11 EST 2009",
            "Fri Jul 3 19:46:11 UTC 99999",
            "Fri Jul 32 19:46:11 UTC 2009",
            "a b c d e f g",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }
}
