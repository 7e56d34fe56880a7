//! [`TimeWindow`]: days and hours in which a test runs, in UTC.

use jitlat_core::time::SECOND;
use jitlat_core::{Span, WallTime};
use std::fmt;

/// Length of a day in ns.
pub const DAY: i64 = 86_400 * SECOND;
/// Length of a week in ns.
pub const WEEK: i64 = 7 * DAY;
/// Monday, 5 January 1970, 00:00 UTC: origin of days and weeks.
pub const MONDAY: WallTime = WallTime(4 * DAY);

/// Names of days, Monday first.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Days and hours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeWindow {
    /// Days, Monday first; `None`: every day.
    days: Option<[bool; 7]>,
    /// Open hours: start and end, in ns since the beginning of the day; empty: all day.
    hours: Vec<(i64, i64)>,
}

impl TimeWindow {
    /// True if the window is always open.
    pub fn is_always(&self) -> bool {
        self.days.is_none() && self.hours.is_empty()
    }

    /// True if the window is open `at` ns after a Monday, 00:00.
    pub fn is_open(&self, at: i64) -> bool {
        let at = at.rem_euclid(WEEK);
        let day = (at / DAY) as usize;
        self.days.is_none_or(|days| days[day])
            && (self.hours.is_empty()
                || self.hours.iter().any(|(from, to)| (*from..*to).contains(&(at % DAY))))
    }

    /// Returns the open hours of a day (0 = Monday): start and end, in ns since its beginning.
    fn hours_of(&self, day: usize) -> Vec<(i64, i64)> {
        match (self.days.is_none_or(|days| days[day]), self.hours.is_empty()) {
            (false, _) => Vec::new(),
            (true, true) => vec![(0, DAY)],
            (true, false) => self.hours.clone(),
        }
    }

    /// Adds a day or a range of days, such as `mon` or `mon-fri`.
    ///
    /// # Errors
    /// A text that explains what to write.
    pub fn add_days(&mut self, text: &str) -> Result<(), String> {
        let day = |name: &str| {
            let name = name.trim().to_ascii_lowercase();
            DAYS.iter().position(|d| *d == name).ok_or_else(|| {
                format!(
                    "'{}' is not a day: write mon, tue, wed, thu, fri, sat, sun, or mon-fri",
                    name.escape_debug()
                )
            })
        };
        let (from, to) = match text.split_once('-') {
            Some((from, to)) => (day(from)?, day(to)?),
            None => (day(text)?, day(text)?),
        };
        let days = self.days.get_or_insert([false; 7]);
        let mut k = from;
        loop {
            days[k] = true;
            if k == to {
                return Ok(());
            }
            k = (k + 1) % 7;
        }
    }

    /// Adds a range of hours, such as `08:00-18:00`, or `22:00-06:00` over midnight.
    ///
    /// # Errors
    /// A text that explains what to write.
    pub fn add_hours(&mut self, text: &str) -> Result<(), String> {
        let wrong = || {
            format!(
                "'{}' is not a range of hours: write 08:00-18:00, in UTC; 24:00 ends a day",
                text.escape_debug()
            )
        };
        let time = |text: &str| -> Option<i64> {
            let (h, m) = text.trim().split_once(':')?;
            let (h, m): (i64, i64) = (h.parse().ok()?, m.parse().ok()?);
            let at = (h * 60 + m) * 60 * SECOND;
            ((0..60).contains(&m) && (0..=DAY).contains(&at)).then_some(at)
        };
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let (from, to) = time(from).zip(time(to)).ok_or_else(wrong)?;
        if from < to {
            self.hours.push((from, to));
        } else if from > to {
            self.hours.extend([(from, DAY), (0, to)]);
        } else {
            return Err(format!("'{text}' is empty: leave out 'hours' for the whole day"));
        }
        Ok(())
    }
}

impl fmt::Display for TimeWindow {
    /// Formats the window as in the file: `mon, tue 08:00-18:00`; empty if it is always open.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.days.iter().flat_map(|days| DAYS.iter().zip(days).filter(|(_, open)| **open));
        let days: Vec<&str> = days.map(|(name, _)| *name).collect();
        let time = |at: i64| format!("{:02}:{:02}", at / (3600 * SECOND), at / (60 * SECOND) % 60);
        let hours: Vec<String> =
            self.hours.iter().map(|(from, to)| format!("{}-{}", time(*from), time(*to))).collect();
        let parts = [days.join(", "), hours.join(", ")];
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        f.write_str(&parts.join(" "))
    }
}

/// Returns the total time between `from` and `to` in which at least one of `windows` is open.
pub fn open_between(windows: &[&TimeWindow], from: WallTime, to: WallTime) -> Span {
    let (from, to) = (from - MONDAY, to - MONDAY);
    if to <= from || windows.iter().any(|window| window.is_always()) {
        return Span((to - from).0.max(0));
    }
    let mut sum = 0i64;
    for day in from.0.div_euclid(DAY)..=to.0.div_euclid(DAY) {
        let begin = day.saturating_mul(DAY);
        let mut open: Vec<(i64, i64)> =
            windows.iter().flat_map(|window| window.hours_of(day.rem_euclid(7) as usize)).collect();
        open.sort_unstable();
        let mut until = from.0;
        for (a, b) in open {
            let (a, b) = ((begin + a).max(until), (begin + b).min(to.0));
            sum += (b - a).max(0);
            until = until.max(b);
        }
    }
    Span(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_window_is_shown_as_in_the_file() {
        let mut window = TimeWindow::default();
        assert_eq!(window.to_string(), "");
        window.add_hours("22:30-06:00").unwrap();
        window.add_days("sat-sun").unwrap();
        assert_eq!(window.to_string(), "sat, sun 22:30-24:00, 00:00-06:00");
    }

    #[test]
    fn closed_hours_are_no_time() {
        let mut night = TimeWindow::default();
        night.add_hours("22:00-06:00").unwrap();
        let mut weekend = TimeWindow::default();
        weekend.add_days("sat-sun").unwrap();
        let at = |d, h| MONDAY + Span(hour(d, h));
        let open = |windows: &[&TimeWindow], from, to| open_between(windows, from, to).0 / hour(0, 1);
        assert_eq!(open(&[&night], at(0, 0), at(1, 0)), 8);
        assert_eq!(open(&[&night], at(0, 5), at(0, 23)), 2);
        assert_eq!(open(&[&weekend], at(0, 0), at(14, 0)), 96);
        assert_eq!(open(&[&night, &weekend], at(5, 0), at(6, 0)), 24);
        assert_eq!(open(&[&night, &TimeWindow::default()], at(0, 0), at(3, 0)), 72);
        assert_eq!(open(&[&night], at(3, 0), at(2, 0)), 0);
        assert_eq!(open(&[], at(0, 0), at(2, 0)), 0);
    }

    proptest! {
        #[test]
        fn open_time_is_that_of_its_minutes(from in 0i64..20_000, long in 0i64..20_000, a in 0i64..24, b in 0i64..24, day in 0usize..7) {
            let mut windows = [TimeWindow::default(), TimeWindow::default()];
            if a != b {
                windows[0].add_hours(&format!("{a:02}:00-{b:02}:30")).unwrap();
            }
            windows[0].add_days("mon-wed").unwrap();
            windows[1].add_days(DAYS[day]).unwrap();
            const MINUTE: i64 = 60 * SECOND;
            let minutes = (from..from + long).filter(|m| windows.iter().any(|w| w.is_open(m * MINUTE))).count();
            let [one, other] = &windows;
            let open = open_between(&[one, other], MONDAY + Span(from * MINUTE), MONDAY + Span((from + long) * MINUTE));
            prop_assert_eq!(open.0, minutes as i64 * MINUTE);
        }
    }

    fn hour(day: i64, hour: i64) -> i64 {
        day * DAY + hour * 3600 * SECOND
    }

    #[test]
    fn days_and_hours_open_and_close() {
        let mut window = TimeWindow::default();
        assert!(window.is_always() && window.is_open(0));
        window.add_days("fri-mon").unwrap();
        window.add_hours("22:00-06:00").unwrap();
        let open = [(4, 22), (4, 0), (0, 23), (6, 5)];
        let closed = [(4, 6), (4, 21), (1, 23), (3, 0)];
        assert!(open.iter().all(|(d, h)| window.is_open(hour(*d, *h))));
        assert!(!closed.iter().any(|(d, h)| window.is_open(hour(*d, *h))));
    }

    #[test]
    fn what_is_no_day_or_hour_says_what_to_write() {
        let mut window = TimeWindow::default();
        assert!(window.add_days("monday").unwrap_err().contains("mon-fri"));
        for bad in ["8-18", "08:00", "25:00-26:00", "10:70-11:00", "08:00-08:00"] {
            assert!(window.add_hours(bad).is_err(), "{bad}");
        }
    }
}
