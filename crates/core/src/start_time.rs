//! [`StartTime`]: the time at which a test is to begin.

use crate::time::{SECOND, Span, WallTime};
use crate::units::civil;
use core::fmt;
use core::str::FromStr;

/// Start of a test, on the wall clock (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartTime {
    /// A date and time.
    At(WallTime),
    /// Next occurrence of a time of day, as the time since midnight.
    TimeOfDay(Span),
    /// Next occurrence of a second of a minute, as the time since the beginning of the minute.
    SecondOfMinute(Span),
    /// Next multiple of this time, counted from midnight.
    Multiple(Span),
}

const DAY: Span = Span::seconds(86_400);
const MINUTE: Span = Span::seconds(60);

/// Reason why a start time cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartTimeError {
    /// The text is not a start time.
    #[error(
        "'{0}' is not a time: write 2026-11-28T19:30:00Z, 19:30 or 19:30:00 (UTC), :30 or +10s (the next multiple)"
    )]
    Form(String),
    /// The time is in the past.
    #[error("the start time passed {} s ago: give a later one", .0.0 / SECOND)]
    Past(Span),
    /// The time is too soon: the test cannot be set up before it.
    #[error("the start time is less than {} s away, too soon to set up the test: give a later one", .0.0 / SECOND)]
    Near(Span),
}

impl StartTime {
    /// Returns the start of a test that is requested at `now`. Of a time that repeats, this is the first one at least `setup`
    /// after `now`.
    ///
    /// # Errors
    /// [`StartTimeError`] if a date and time is before `now`, or less than `setup` after it.
    pub fn after(self, now: WallTime, setup: Span) -> Result<WallTime, StartTimeError> {
        let (every, phase) = match self {
            StartTime::At(at) if at < now => return Err(StartTimeError::Past(now - at)),
            StartTime::At(at) if at - now < setup => return Err(StartTimeError::Near(setup)),
            StartTime::At(at) => return Ok(at),
            StartTime::TimeOfDay(time) => (DAY, time),
            StartTime::SecondOfMinute(second) => (MINUTE, second),
            StartTime::Multiple(every) => (every, Span::ZERO),
        };
        let earliest = now + setup;
        let midnight = WallTime(earliest.0.div_euclid(DAY.0) * DAY.0);
        let since = (earliest - midnight - phase).0;
        let periods = since.div_euclid(every.0) + i64::from(since.rem_euclid(every.0) > 0);
        let next = midnight + phase + Span(periods.saturating_mul(every.0));
        // Multiples begin again at midnight.
        let tomorrow = midnight + DAY;
        Ok(if matches!(self, StartTime::Multiple(_)) { next.min(tomorrow) } else { next })
    }
}

impl FromStr for StartTime {
    type Err = StartTimeError;

    fn from_str(text: &str) -> Result<StartTime, StartTimeError> {
        read(text.trim()).ok_or_else(|| StartTimeError::Form(text.to_owned()))
    }
}

fn read(text: &str) -> Option<StartTime> {
    if let Some(every) = text.strip_prefix('+') {
        let every = crate::quantity::duration(every).ok()?;
        return Some(StartTime::Multiple(every)).filter(|_| every > Span::ZERO && every <= DAY);
    }
    if let Some(second) = text.strip_prefix(':') {
        return number(second, 60).map(|second| StartTime::SecondOfMinute(Span::seconds(second)));
    }
    let Some((date, time)) = text.split_once(['T', ' ']) else {
        return time_of_day(text).map(StartTime::TimeOfDay);
    };
    let time = time_of_day(time.strip_suffix('Z')?)?;
    Some(StartTime::At(midnight(date)? + time))
}

/// Parses two digits below `limit`.
fn number(digits: &str, limit: i64) -> Option<i64> {
    let is_number = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|n| is_number && *n < limit)
}

/// Parses `19:30`, `19:30:00` or `19:30:00.25`.
fn time_of_day(text: &str) -> Option<Span> {
    let (text, fraction) =
        text.split_once('.').map_or((text, None), |(text, fraction)| (text, Some(fraction)));
    let mut parts = text.split(':');
    let (hour, minute) = (number(parts.next()?, 24)?, number(parts.next()?, 60)?);
    let second = parts.next().map(|second| number(second, 60));
    if parts.next().is_some() || second == Some(None) || fraction.is_some() && second.is_none() {
        return None;
    }
    let nanos = match fraction {
        None => 0,
        Some(digits) if (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{digits:0<9}").parse().ok()?
        }
        Some(_) => return None,
    };
    Some(Span::seconds(3600 * hour + 60 * minute + second.flatten().unwrap_or(0)) + Span(nanos))
}

/// Parses `2026-11-28`; the result is the midnight before it, UTC.
fn midnight(date: &str) -> Option<WallTime> {
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let year: i64 = year.parse().ok().filter(|n| year.len() == 4 && (1970..2200).contains(n))?;
    let (month, day) = (number(month, 13)?, number(day, 32)?);
    if parts.next().is_some() {
        return None;
    }
    // The estimate is at most a few days off: a day nearby has this date, unless the date does not exist.
    let near = ((year - 1970) as f64 * 365.2425 + (month - 1) as f64 * 30.44) as i64 + day;
    let days = (near - 5..near + 5).find(|days| civil(*days) == (year, month, day))?;
    Some(WallTime(days * DAY.0))
}

impl fmt::Display for StartTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = |span: &Span| (span.0 / SECOND / 3600, span.0 / SECOND / 60 % 60, span.0 / SECOND % 60);
        match self {
            StartTime::At(at) => write!(f, "{} s since 1970", at.0 / SECOND),
            StartTime::TimeOfDay(time) => {
                let (hour, minute, second) = clock(time);
                write!(f, "{hour:02}:{minute:02}:{second:02} UTC")
            }
            StartTime::SecondOfMinute(second) => write!(f, ":{:02}", second.0 / SECOND),
            StartTime::Multiple(every) => {
                write!(f, "the next multiple of {} s", every.0 as f64 / SECOND as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28, at this second since midnight.
    fn at(second: i64) -> WallTime {
        WallTime((20_785 * 86_400 + second) * SECOND)
    }

    #[test]
    fn a_repeating_time_leaves_time_for_the_setup() {
        let setup = Span::seconds(2);
        let next = |text: &str, now: i64| text.parse::<StartTime>().unwrap().after(at(now), setup);
        let noon = 43_200;
        assert_eq!(next("2026-11-28T12:00:00Z", noon - 10), Ok(at(noon)));
        assert_eq!(next("2026-11-28 12:00:00.5Z", noon - 10), Ok(at(noon) + Span::millis(500)));
        assert_eq!(next("2026-11-28T12:00:00Z", noon + 10), Err(StartTimeError::Past(Span::seconds(10))));
        assert_eq!(next("2026-11-28T12:00:00Z", noon - 1), Err(StartTimeError::Near(setup)));
        assert_eq!(next("2028-02-29T00:00:00Z", 0).map(|at| at.0), Ok(1_835_395_200 * SECOND));
        assert_eq!(next("12:00", noon - 2), Ok(at(noon)));
        assert_eq!(next("12:00", noon - 1), Ok(at(noon + 86_400)));
        assert_eq!(next("00:00:01", 86_398), Ok(at(86_401)));
        assert_eq!(next(":30", noon + 28), Ok(at(noon + 30)));
        assert_eq!(next(":30", noon + 29), Ok(at(noon + 90)));
        assert_eq!(next(":00", noon + 1), Ok(at(noon + 60)));
        assert_eq!(next("+10s", noon + 1), Ok(at(noon + 10)));
        assert_eq!(next("+10s", noon + 9), Ok(at(noon + 20)));
        assert_eq!(next("+500ms", noon), Ok(at(noon + 2)));
        // 7 s do not divide a day, and multiples begin again at midnight.
        assert_eq!(next("+7s", 86_390), Ok(at(86_394)));
        assert_eq!(next("+7s", 86_393), Ok(at(86_400)));
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "12",
            "24:00",
            "12:60",
            "1:00",
            "12:00:00:00",
            "12:00.5",
            ":60",
            ":5",
            "+0s",
            "+2d",
            "+x",
            "2026-11-28",
            "2026-11-28T12:00:00",
            "2026-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "26-11-28T12:00:00Z",
            "2026-11-28T12:00:00+01:00",
            "12:00:00.",
        ] {
            assert!(text.parse::<StartTime>().is_err(), "{text}");
        }
    }
}
