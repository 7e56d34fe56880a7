//! [`Zone`]: the time zone of dates and periods. [`WeekHours`]: hours of a week, such as business hours.

use crate::PoolPeriod;
use crate::error::ArchiveError;
use core::fmt;
use core::str::FromStr;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// Length of an hour in ns.
const HOUR: i64 = 3_600_000_000_000;
/// Minutes of a day.
const DAY_MINUTES: i64 = 24 * 60;
/// Days of a week as people write them, beginning with Monday.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A time zone: `UTC`, a name of the time zone database such as `Europe/Oslo`, or a fixed offset such as `+05:30`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Default for Zone {
    fn default() -> Zone {
        Zone { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Zone {
    type Err = ArchiveError;

    fn from_str(text: &str) -> Result<Zone, ArchiveError> {
        if text.eq_ignore_ascii_case("utc") {
            return Ok(Zone::default());
        }
        let zone = match text.as_bytes().first() {
            Some(b'+' | b'-') => offset(text).map(TimeZone::fixed),
            _ => TimeZone::get(text).ok(),
        };
        let zone = zone.ok_or_else(|| {
            let database = match jiff::tz::db().is_definitively_empty() {
                true => " (this host has no time zone database: install tzdata, or give an offset)",
                false => "",
            };
            ArchiveError::Usage(format!(
                "'{text}' is not a time zone: write UTC, a name such as Europe/Oslo, or an offset such as +05:30{database}"
            ))
        })?;
        let name = zone.iana_name().unwrap_or(text).to_owned();
        Ok(Zone { name, zone })
    }
}

/// Reads an offset from UTC: `+05:30` or `-4`.
fn offset(text: &str) -> Option<Offset> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("-", rest) => (-1, rest),
        (_, rest) => (1, rest),
    };
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let number = |text: &str| text.parse::<i32>().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit()));
    let (hours, minutes) = (number(hours)?, number(minutes).filter(|minutes| *minutes < 60)?);
    Offset::from_seconds(sign * (hours.checked_mul(3600)? + minutes * 60)).ok()
}

impl Zone {
    /// Returns true for UTC, in which roll-ups are stored.
    pub fn is_utc(&self) -> bool {
        self.zone == TimeZone::UTC
    }

    pub(crate) fn date(&self, at: i64) -> Date {
        self.civil(at).date()
    }

    fn civil(&self, at: i64) -> DateTime {
        let at = Timestamp::from_nanosecond(at.into()).unwrap_or_default();
        self.zone.to_datetime(at)
    }

    /// Returns the first instant of a civil time, ns since 1970; `None` beyond the years that such times have.
    fn instant(&self, date: Date, minutes: i64) -> Option<i64> {
        let (date, minutes) = match minutes >= DAY_MINUTES {
            true => (date.tomorrow().ok()?, minutes - DAY_MINUTES),
            false => (date, minutes),
        };
        let time = Time::new((minutes / 60) as i8, (minutes % 60) as i8, 0, 0).ok()?;
        self.instant_of(date.to_datetime(time))
    }

    /// Returns the first instant of a civil time, ns since 1970; `None` beyond the years that such times have.
    pub(crate) fn instant_of(&self, civil: DateTime) -> Option<i64> {
        let at = self.zone.to_timestamp(civil).ok()?;
        i64::try_from(at.as_nanosecond()).ok()
    }

    /// Returns the instant at which a date begins, ns since 1970.
    pub(crate) fn start(&self, date: Date) -> Option<i64> {
        self.instant(date, 0)
    }

    /// Returns the start of the period of this zone that contains `at`, and the start of the next one. Hours are those of UTC in
    /// zones whose offset is whole hours.
    pub(crate) fn around(&self, period: PoolPeriod, at: i64) -> (i64, i64) {
        let date = self.date(at);
        let between = |first: Date, next: Option<Date>| Some((self.start(first)?, self.start(next?)?));
        let found = match period {
            PoolPeriod::Hour if !self.is_utc() => {
                // The offset moves the start of hours; it is the same within an hour of its start in all zones of the database.
                let seconds =
                    Timestamp::from_nanosecond(at.into()).map_or(0, |at| self.zone.to_offset(at).seconds());
                let since_start = (at.rem_euclid(HOUR) + i64::from(seconds) * 1_000_000_000).rem_euclid(HOUR);
                let from = at.saturating_sub(since_start);
                Some((from, from.saturating_add(HOUR)))
            }
            PoolPeriod::Day if !self.is_utc() => between(date, date.tomorrow().ok()),
            PoolPeriod::Month if !self.is_utc() => {
                let first = date.first_of_month();
                between(first, first.checked_add(1.month()).ok())
            }
            PoolPeriod::Year if !self.is_utc() => {
                let first = date.first_of_year();
                between(first, first.checked_add(1.year()).ok())
            }
            _ => None,
        };
        found.unwrap_or_else(|| period.around(at))
    }

    /// Formats a time as `2026-11-23 10:00:00`.
    pub fn show(&self, at: i64) -> String {
        self.civil(at).to_string().replace('T', " ").chars().take(19).collect()
    }
}

/// Hours of each week in a time zone: `mon-fri,08:00-18:00`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeekHours {
    text: String,
    /// Days on which the hours begin, from Monday on.
    days: [bool; 7],
    /// First minute of the day.
    from: i64,
    /// Minute of the day at which the hours end; more than a day's minutes if that is on the next day.
    until: i64,
    zone: Zone,
}

impl fmt::Display for WeekHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for WeekHours {
    type Err = ArchiveError;

    fn from_str(text: &str) -> Result<WeekHours, ArchiveError> {
        week_hours(text).ok_or_else(|| {
            ArchiveError::Usage(format!(
                "'{text}' are not hours of a week: write for example mon-fri,08:00-18:00, 22:00-06:00, or sat,sun"
            ))
        })
    }
}

fn week_hours(text: &str) -> Option<WeekHours> {
    let (mut days, mut hours) = ([false; 7], None);
    for part in text.split([',', ' ']).filter(|part| !part.is_empty()) {
        if part.contains(':') {
            let (from, until) = part.split_once('-')?;
            let range = (minute(from).filter(|m| *m < DAY_MINUTES)?, minute(until)?);
            if hours.replace(range).is_some() {
                return None;
            }
            continue;
        }
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let day = |name: &str| DAYS.iter().position(|day| name.to_ascii_lowercase() == *day);
        let (first, last) = (day(first)?, day(last)?);
        let count = (last + 7 - first) % 7 + 1;
        (first..first + count).for_each(|day| days[day % 7] = true);
    }
    if !days.contains(&true) {
        hours?;
        days = [true; 7];
    }
    let (from, until) = hours.unwrap_or((0, DAY_MINUTES));
    let until = if until <= from { until + DAY_MINUTES } else { until };
    Some(WeekHours { text: text.to_owned(), days, from, until, zone: Zone::default() })
}

/// Reads a time of day, `08:00` to `24:00`, as minutes.
fn minute(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| text.parse::<i64>().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit()));
    let minutes = number(hours)? * 60 + number(minutes).filter(|minutes| *minutes < 60)?;
    (minutes <= DAY_MINUTES).then_some(minutes)
}

impl WeekHours {
    /// Returns the same hours in a time zone.
    pub fn in_zone(self, zone: Zone) -> WeekHours {
        WeekHours { zone, ..self }
    }

    fn has(&self, day: Weekday) -> bool {
        self.days[usize::try_from(day.to_monday_zero_offset()).unwrap_or(0) % 7]
    }

    /// Returns the hours that begin on `date`: start and end, ns since 1970; `None` if none begin.
    fn on(&self, date: Date) -> Option<(i64, i64)> {
        if !self.has(date.weekday()) {
            return None;
        }
        // The hours are at most one day long, so they end on the next day at the latest.
        let end = match self.until > DAY_MINUTES {
            true => self.zone.instant(date.tomorrow().ok()?, self.until - DAY_MINUTES)?,
            false => self.zone.instant(date, self.until)?,
        };
        Some((self.zone.instant(date, self.from)?, end))
    }

    /// Returns true if `at` (ns since 1970) is within these hours.
    pub fn contains(&self, at: i64) -> bool {
        let today = self.zone.date(at);
        let days = [today.yesterday().ok(), Some(today)];
        days.into_iter().flatten().filter_map(|date| self.on(date)).any(|(from, to)| from <= at && at < to)
    }

    /// Returns the hours within `start..end` (ns since 1970), which should not be much longer than a year.
    pub(crate) fn within(&self, start: i64, end: i64) -> Vec<(i64, i64)> {
        let (mut date, last) = (self.zone.date(start), self.zone.date(end.saturating_sub(1)));
        let mut all = Vec::new();
        if let Ok(before) = date.yesterday() {
            date = before;
        }
        while date <= last {
            if let Some((from, to)) = self.on(date) {
                let (from, to) = (from.max(start), to.min(end));
                if from < to {
                    all.push((from, to));
                }
            }
            let Ok(next) = date.tomorrow() else { break };
            date = next;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_nanosecond() as i64
    }

    fn zone(text: &str) -> Zone {
        text.parse().unwrap()
    }

    #[test]
    fn periods_of_a_zone_begin_at_its_midnight() {
        let of = |name: &str, period, at: &str| zone(name).around(period, ns(at));
        // The clocks of Oslo go back on 25 October 2026: that day has 25 hours.
        assert_eq!(
            of("Europe/Oslo", PoolPeriod::Day, "2026-10-25T12:00:00Z"),
            (ns("2026-10-24T22:00:00Z"), ns("2026-10-25T23:00:00Z"))
        );
        assert_eq!(
            of("-04:30", PoolPeriod::Hour, "2026-03-01T00:10:00Z"),
            (ns("2026-02-28T23:30:00Z"), ns("2026-03-01T00:30:00Z"))
        );
        assert_eq!(
            of("+1", PoolPeriod::Month, "2026-02-28T23:30:00Z"),
            (ns("2026-02-28T23:00:00Z"), ns("2026-03-31T23:00:00Z"))
        );
        for (_, period) in PoolPeriod::NAMES {
            for name in ["UTC", "+05:30", "America/New_York"] {
                for at in [i64::MIN, -1, 0, ns("2026-10-25T01:30:00Z"), i64::MAX] {
                    let (from, to) = zone(name).around(period, at);
                    assert!(from <= at && at <= to, "{name} {period:?} {at}");
                }
            }
        }
        for bad in ["", "Mars/Olympus", "+99", "+5:99", "-", "+-1:00", "../../etc/passwd"] {
            assert!(bad.parse::<Zone>().is_err(), "{bad}");
        }
    }

    #[test]
    fn hours_of_a_week_follow_days_and_the_clocks_of_their_zone() {
        let hours = |text: &str| text.parse::<WeekHours>().unwrap().in_zone(zone("Europe/Oslo"));
        let work = hours("mon-fri,08:00-18:00");
        for (at, is_within) in [
            ("2026-11-23T07:00:00Z", true),  // Monday, 08:00
            ("2026-11-23T06:59:59Z", false), // Monday, 07:59:59
            ("2026-11-23T17:00:00Z", false), // Monday, 18:00
            ("2026-11-22T12:00:00Z", false), // Sunday
            ("2026-07-06T06:00:00Z", true),  // Monday in summer, 08:00
        ] {
            assert_eq!(work.contains(ns(at)), is_within, "{at}");
        }
        let week = (ns("2026-11-22T23:00:00Z"), ns("2026-11-29T23:00:00Z"));
        assert_eq!(work.within(week.0, week.1).len(), 5);
        let night = hours("fri 22:00-06:00");
        assert!(night.contains(ns("2026-11-28T04:59:00Z")) && !night.contains(ns("2026-11-28T05:00:00Z")));
        assert_eq!(
            night.within(ns("2026-11-28T00:00:00Z"), week.1),
            [(ns("2026-11-28T00:00:00Z"), ns("2026-11-28T05:00:00Z"))]
        );
        let weekend = hours("sat,sun");
        assert_eq!(
            weekend.within(week.0, week.1).iter().map(|(a, b)| (b - a) / 3_600_000_000_000).sum::<i64>(),
            48
        );
        assert!(hours("sat-mon").contains(ns("2026-11-23T12:00:00Z")));
        for bad in [
            "",
            ",",
            "mon-fri,8-18",
            "noon",
            "08:00-25:00",
            "08:00",
            "24:00-06:00",
            "08:00-09:00,10:00-11:00",
        ] {
            assert!(bad.parse::<WeekHours>().is_err(), "{bad}");
        }
    }
}
