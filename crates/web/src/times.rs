//! Formats of times for people and addresses, and periods of the calendar of a time zone.

use crate::zone::PageZone;
use jiff::ToSpan;
use jiff::civil::{Date, DateTime};
use jitlat_archive::utc;
use std::time::{SystemTime, UNIX_EPOCH};

pub const SECOND: i64 = 1_000_000_000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;

/// Sentence at the end of pages whose times are UTC.
pub const ALL_UTC: &str = "All times are UTC.";

/// Current time, ns since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    i64::try_from(since).unwrap_or(i64::MAX)
}

/// Formats a time for an address: `2026-11-23T10:00:00Z`, rounded down to seconds.
pub fn address(at: i64) -> String {
    utc(at).replace(' ', "T") + "Z"
}

/// Formats a time for an address, rounded up to seconds.
pub fn address_after(at: i64) -> String {
    address(at.saturating_add(SECOND - 1))
}

/// Formats a length of time, rounded down: `3 min`.
pub fn length(ns: i64) -> String {
    let ns = ns.max(0);
    match ns {
        ..MINUTE => format!("{} s", ns / SECOND),
        MINUTE..HOUR => format!("{} min", ns / MINUTE),
        HOUR..DAY => format!("{} h", ns / HOUR),
        _ => format!("{} d", ns / DAY),
    }
}

/// Formats the age of a time: `3 min ago`. A time after `now`, by more than clocks usually differ, is `in the future`: a clock
/// is or was wrong.
pub fn ago(at: i64, now: i64) -> String {
    let age = now.saturating_sub(at);
    if age < -MINUTE { "in the future".to_owned() } else { format!("{} ago", length(age)) }
}

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CalendarUnit {
    Hour,
    Day,
    Month,
    Year,
}

impl CalendarUnit {
    /// All units, longest first.
    pub const ALL: [CalendarUnit; 4] =
        [CalendarUnit::Year, CalendarUnit::Month, CalendarUnit::Day, CalendarUnit::Hour];

    /// Returns the start and end of the unit of `zone` that contains `at`.
    pub fn around(self, at: i64, zone: &PageZone) -> (i64, i64) {
        let local = zone.local(at).datetime();
        let date = local.date();
        let start = |date: Date| zone.at(DateTime::from(date));
        let between = |first: Date, next: Option<Date>| Some((start(first)?, start(next?)?));
        let found = match self {
            CalendarUnit::Hour => {
                // The shift makes this right for zones whose offset is not whole hours, too.
                let shift = zone.offset(at);
                let begun =
                    at.saturating_add(shift).div_euclid(HOUR).saturating_mul(HOUR).saturating_sub(shift);
                Some((begun, begun.saturating_add(HOUR)))
            }
            CalendarUnit::Day => between(date, date.tomorrow().ok()),
            CalendarUnit::Month => {
                between(date.first_of_month(), date.first_of_month().checked_add(1.month()).ok())
            }
            CalendarUnit::Year => {
                between(date.first_of_year(), date.first_of_year().checked_add(1.year()).ok())
            }
        };
        found.unwrap_or((at, i64::MAX))
    }

    /// Name of the unit that contains `at`: `2026`, `2026-11`, `2026-11-23`, `10:00`.
    pub fn name(self, at: i64, zone: &PageZone) -> String {
        let text = zone.text(at);
        match self {
            CalendarUnit::Hour => text.chars().skip(11).take(5).collect(),
            CalendarUnit::Day => text.chars().take(10).collect(),
            CalendarUnit::Month => text.chars().take(7).collect(),
            CalendarUnit::Year => text.chars().take(4).collect(),
        }
    }
}

/// Returns about `most` ticks for a time axis at round times of `zone`, with their labels.
pub fn ticks(from: i64, to: i64, most: i64, zone: &PageZone) -> Vec<(i64, String)> {
    let span = to.saturating_sub(from).max(1);
    let steps = [
        SECOND,
        5 * SECOND,
        15 * SECOND,
        MINUTE,
        2 * MINUTE,
        5 * MINUTE,
        10 * MINUTE,
        30 * MINUTE,
        HOUR,
        3 * HOUR,
        6 * HOUR,
        12 * HOUR,
        DAY,
        2 * DAY,
        7 * DAY,
    ];
    if let Some(step) = steps.into_iter().find(|step| span / step <= most) {
        let shift = zone.offset(from);
        let mut local = from.saturating_add(shift).div_euclid(step).saturating_add(1).saturating_mul(step);
        let mut all = Vec::new();
        while all.len() < 100 {
            // The difference to UTC changes within the axis in spring and autumn.
            let at = local.saturating_sub(zone.offset(local.saturating_sub(shift)));
            if at >= to {
                break;
            }
            let text = utc(local);
            let midnight = local.rem_euclid(DAY) == 0;
            let (skip, take) = match step {
                _ if midnight => (5, 5),
                DAY.. => (5, 5),
                MINUTE.. => (11, 5),
                _ => (11, 8),
            };
            if at > from {
                all.push((at, text.chars().skip(skip).take(take).collect()));
            }
            local = local.saturating_add(step);
        }
        return all;
    }
    let unit = if span / (30 * DAY) <= most { CalendarUnit::Month } else { CalendarUnit::Year };
    let mut all = Vec::new();
    let mut at = unit.around(from, zone).1;
    while at < to && all.len() < 1000 {
        all.push((at, unit.name(at, zone)));
        at = unit.around(at, zone).1;
    }
    let every = all.len().div_ceil(usize::try_from(most.max(1)).unwrap_or(1)).max(1);
    all.into_iter().step_by(every).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2025-11-23 12:13:20 UTC.
    const AT: i64 = 1_763_900_000 * SECOND;

    #[test]
    fn periods_are_those_of_the_calendar() {
        let of = |unit: CalendarUnit| {
            (address(unit.around(AT, &PageZone::default()).0), unit.name(AT, &PageZone::default()))
        };
        assert_eq!(of(CalendarUnit::Hour), ("2025-11-23T12:00:00Z".into(), "12:13".into()));
        assert_eq!(of(CalendarUnit::Month), ("2025-11-01T00:00:00Z".into(), "2025-11".into()));
        let zone = PageZone::default();
        assert_eq!(CalendarUnit::Year.name(CalendarUnit::Year.around(AT, &zone).1, &zone), "2026");
        assert_eq!(address_after(AT + 1), "2025-11-23T12:13:21Z");
        assert_eq!(address_after(AT), address(AT));
    }

    #[test]
    fn an_axis_has_few_ticks_at_round_times() {
        for span in [10 * SECOND, HOUR, DAY, 30 * DAY, 365 * DAY, 9000 * DAY] {
            let all = ticks(AT, AT + span, 8, &PageZone::default());
            assert!((1..=10).contains(&all.len()), "{span}: {all:?}");
            assert!(all.iter().all(|(at, _)| (AT..AT + span).contains(at)));
        }
        assert_eq!(ticks(AT, AT + HOUR, 8, &PageZone::default())[0].1, "12:20");
        assert!(ticks(i64::MIN, i64::MAX, 8, &PageZone::default()).len() < 20, "no limit is passed");
    }
    #[test]
    fn a_time_after_now_has_no_age() {
        let said = [0, 3 * MINUTE, -SECOND, -40 * DAY].map(|age| ago(100 * DAY - age, 100 * DAY));
        assert_eq!(said, ["0 s ago", "3 min ago", "0 s ago", "in the future"]);
    }

    #[test]
    fn days_and_ticks_are_those_of_the_zone() {
        let Some(oslo) = PageZone::named("Europe/Oslo") else { return };
        let (start, end) = CalendarUnit::Day.around(AT, &oslo);
        assert_eq!((oslo.text(start), end - start), ("2025-11-23 00:00:00".to_owned(), DAY));
        // The day on which summer time ends has 25 hours.
        let october = oslo.parse("2025-10-26T12:00", 0).unwrap();
        let (start, end) = CalendarUnit::Day.around(october, &oslo);
        assert_eq!(end - start, 25 * HOUR);
        for (at, label) in ticks(start, end, 9, &oslo) {
            assert!(oslo.text(at).contains(&label), "{label}: {}", oslo.text(at));
        }
    }
}
