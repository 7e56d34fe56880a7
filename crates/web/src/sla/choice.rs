//! [`ReportChoice`]: month, hours, paths and targets of a report, from the parameters of the address.

use crate::page::encoded;
use crate::problem::Problem;
use crate::query::Query;
use crate::times::CalendarUnit;
use crate::zone::PageZone;
use jiff::civil::{Date, DateTime};
use jitlat_verdict::{PROFILES, Profile};
use std::fmt::Write;

/// Default share of lost packets, in percent, above which a path counts as not available during a test.
const DEFAULT_LOST_PERCENT: f64 = 20.0;

/// Month, hours, paths and targets of a report.
#[derive(Clone, Debug)]
pub struct ReportChoice {
    pub zone: PageZone,
    /// Month, such as `2026-11`.
    pub month: String,
    /// Start and end of the month in the zone, ns since 1970.
    pub span: (i64, i64),
    /// First hour of a day that counts, 0…23, and the first after it that does not, 1…24.
    pub hours: (i8, i8),
    /// True if only Monday to Friday count.
    pub only_workdays: bool,
    /// Profile whose limits of delay and loss are the targets.
    pub profile: &'static Profile,
    /// Share of lost packets, in percent, above which a path counts as not available during a test.
    pub lost_percent: f64,
    /// Part of the name or address of one end; empty: any.
    pub host: String,
    /// Site of one end; empty: any.
    pub site: String,
}

impl ReportChoice {
    /// Reads the parameters of an address. `last` is the start of the newest test, whose month is the default unless the test is
    /// later than `now`, because a clock was wrong.
    ///
    /// # Errors
    /// [`Problem::Wrong`] for values that have no meaning.
    pub fn new(query: &Query, last: i64, now: i64) -> Result<ReportChoice, Problem> {
        let zone = query.zone()?;
        let wrong = |text: &str| Problem::Wrong(text.to_owned());
        let usual = CalendarUnit::Month.name(last.min(now), &zone);
        let month = query.get("month").unwrap_or(&usual).to_owned();
        let first: Option<Date> = format!("{month}-01").parse().ok();
        let first = first.filter(|_| month.len() == 7).and_then(|date| zone.at(DateTime::from(date)));
        let first = first.ok_or_else(|| wrong("month must be a month, such as 2026-11."))?;
        let hour = |name: &str, usual: i8| query.get(name).map_or(Some(usual), |text| text.parse().ok());
        let hours = hour("open", 0).zip(hour("close", 24));
        let hours = hours
            .filter(|(open, close)| *open >= 0 && open < close && *close <= 24)
            .ok_or_else(|| wrong("open and close must be hours of a day, such as 8 and 18."))?;
        let profile = query.get("profile").unwrap_or("voice");
        let profile = PROFILES.iter().find(|known| known.name == profile).ok_or_else(|| {
            let names: Vec<&str> = PROFILES.iter().map(|known| &*known.name).collect();
            Problem::Wrong(format!("profile must be one of {}.", names.join(", ")))
        })?;
        let lost_percent = query.get("lost").map_or(Some(DEFAULT_LOST_PERCENT), |text| text.parse().ok());
        let lost_percent = lost_percent
            .filter(|percent: &f64| (0.0..=100.0).contains(percent))
            .ok_or_else(|| wrong("lost must be a percentage, such as 20."))?;
        let text = |name: &str| query.get(name).unwrap_or_default().to_owned();
        Ok(ReportChoice {
            span: CalendarUnit::Month.around(first, &zone),
            zone,
            month,
            hours,
            only_workdays: query.get("workdays").is_some(),
            profile,
            lost_percent,
            host: text("name"),
            site: text("site"),
        })
    }

    /// True if a time counts.
    pub fn is_open(&self, at: i64) -> bool {
        let local = self.zone.local(at);
        let (open, close) = self.hours;
        (open..close).contains(&local.hour())
            && (!self.only_workdays || local.weekday().to_monday_one_offset() <= 5)
    }

    /// Returns the hours of the month that count and have begun, as starts in ns since 1970.
    pub fn open_hours(&self, now: i64) -> Vec<i64> {
        let (mut at, end) = (self.span.0, self.span.1.min(now));
        let mut all = Vec::new();
        while at < end && all.len() < 1000 {
            if self.is_open(at) {
                all.push(at);
            }
            at = CalendarUnit::Hour.around(at, &self.zone).1;
        }
        all
    }

    /// Describes the times that count.
    pub fn hours_text(&self) -> String {
        let days = if self.only_workdays { "Monday to Friday" } else { "all days" };
        match self.hours {
            (0, 24) => format!("{days}, all hours, {}", self.zone.name),
            (open, close) => format!("{days}, {open}:00 to {close}:00, {}", self.zone.name),
        }
    }

    /// Returns the parameters of an address with the same choice.
    pub fn parameters(&self) -> String {
        let (open, close) = self.hours;
        let (month, zone, profile) = (&self.month, encoded(&self.zone.name), &self.profile.name);
        let mut text = format!(
            "?month={month}&zone={zone}&profile={profile}&open={open}&close={close}&lost={}",
            self.lost_percent
        );
        if self.only_workdays {
            text.push_str("&workdays=1");
        }
        for (name, value) in [("name", &self.host), ("site", &self.site)] {
            if !value.is_empty() {
                let _ = write!(text, "&{name}={}", encoded(value));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::{DAY, HOUR};

    /// 2025-11-23 12:13:20 UTC.
    const NEWEST: i64 = 1_763_900_000_000_000_000;

    fn choice(query: &str) -> Result<ReportChoice, Problem> {
        ReportChoice::new(&Query::parse(query), NEWEST, i64::MAX)
    }

    #[test]
    fn business_hours_are_those_of_the_zone() {
        let all = choice("").unwrap();
        assert_eq!((all.month.as_str(), all.span.1 - all.span.0), ("2025-11", 30 * DAY));
        assert_eq!(all.open_hours(i64::MAX).len(), 720);
        let business = choice("month=2025-11&open=8&close=18&workdays=1&zone=Asia/Kolkata").unwrap();
        if business.zone.is_utc() {
            return; // This system has no zones.
        }
        // November 2025 has 20 workdays.
        let hours = business.open_hours(i64::MAX);
        assert_eq!(hours.len(), 200);
        assert_eq!(business.zone.text(hours[0]), "2025-11-03 08:00:00");
        assert!(hours.iter().all(|at| business.is_open(*at) && business.is_open(at + HOUR - 1)));
        assert_eq!(business.open_hours(hours[9] + 1).len(), 10, "only hours that have begun");
    }

    #[test]
    fn the_usual_month_has_begun() {
        let month = |now: i64| ReportChoice::new(&Query::default(), NEWEST, now).unwrap().month;
        assert_eq!(
            (month(NEWEST + 90 * DAY), month(NEWEST - 40 * DAY)),
            ("2025-11".into(), "2025-10".into())
        );
    }

    #[test]
    fn values_without_a_meaning_are_refused() {
        for wrong in [
            "month=2025",
            "month=2025-13",
            "month=x",
            "open=9&close=9",
            "open=-1",
            "close=25",
            "profile=x",
            "lost=101",
            "lost=NaN",
        ] {
            assert!(choice(wrong).is_err(), "{wrong}");
        }
    }
}
