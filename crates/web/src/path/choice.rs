//! [`ViewChoice`]: period, quantity, time zone and overlays that the reader of a path's page has chosen, from the parameters of
//! the address.

use crate::page::encoded;
use crate::problem::Problem;
use crate::query::Query;
use crate::times::{self, DAY, HOUR};
use crate::zone::PageZone;
use jitlat_core::distribution::log_histogram::LogHistogram;
use jitlat_core::pool::Pool;
use std::fmt::Write;

/// Default length of the displayed period, which ends with the newest test.
const DEFAULT_SPAN_NS: i64 = 7 * DAY;

/// Kind of delay that is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownQuantity {
    /// Delay as measured.
    Delay,
    /// Delay above the smallest delay of the same test.
    Jitter,
}

impl ShownQuantity {
    pub const NAMES: [(&str, ShownQuantity); 2] =
        [("delay", ShownQuantity::Delay), ("jitter", ShownQuantity::Jitter)];

    fn name(self) -> &'static str {
        ShownQuantity::NAMES.iter().find(|(_, shown)| *shown == self).map_or("delay", |(name, _)| name)
    }

    pub fn of(self, pool: &Pool) -> &LogHistogram {
        match self {
            ShownQuantity::Delay => pool.delays(),
            ShownQuantity::Jitter => pool.variations(),
        }
    }
}

/// A period that ends now, or with the newest test if the stream has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct RecentRange {
    /// Name in addresses.
    pub name: &'static str,
    pub title: &'static str,
    length_ns: i64,
}

/// All recent ranges.
pub const RANGES: [RecentRange; 5] = [
    RecentRange { name: "1h", title: "1 h", length_ns: HOUR },
    RecentRange { name: "24h", title: "24 h", length_ns: DAY },
    RecentRange { name: "7d", title: "7 d", length_ns: 7 * DAY },
    RecentRange { name: "30d", title: "30 d", length_ns: 30 * DAY },
    RecentRange { name: "1y", title: "1 y", length_ns: 365 * DAY },
];

/// Choice of the reader.
#[derive(Clone, Debug)]
pub struct ViewChoice {
    pub shown: ShownQuantity,
    pub zone: PageZone,
    /// True if the period one week earlier is drawn, too.
    pub has_week: bool,
    /// Sender and receiver of another path that is drawn, too.
    pub other: Option<[String; 2]>,
    /// Recent range, if the address names one.
    pub range: Option<&'static RecentRange>,
}

impl ViewChoice {
    /// Reads the parameters of an address.
    ///
    /// # Errors
    /// [`Problem::Wrong`] for values that have no meaning.
    pub fn new(query: &Query) -> Result<ViewChoice, Problem> {
        let shown = match query.get("show") {
            None => ShownQuantity::Delay,
            Some(text) => ShownQuantity::NAMES
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, shown)| *shown)
                .ok_or_else(|| Problem::Wrong("show must be 'delay' or 'jitter'.".to_owned()))?,
        };
        let range = query.get("range").map(|name| {
            RANGES.iter().find(|range| range.name == name).ok_or_else(|| {
                let names: Vec<&str> = RANGES.iter().map(|range| range.name).collect();
                Problem::Wrong(format!("range must be one of {}.", names.join(", ")))
            })
        });
        let other = query.get("src2").zip(query.get("dst2"));
        Ok(ViewChoice {
            shown,
            zone: query.zone()?,
            has_week: query.get("week").is_some(),
            other: other.map(|(src, dst)| [src.to_owned(), dst.to_owned()]),
            range: range.transpose()?,
        })
    }

    /// Returns start and end of the period, in ns since 1970. The stream's first and last tests start at `first` and `last`; the
    /// last one is drawn until `end`.
    ///
    /// # Errors
    /// [`Problem::Wrong`] for times that have no meaning.
    pub fn span(
        &self,
        query: &Query,
        (first, last, end): (i64, i64, i64),
        now: i64,
    ) -> Result<(i64, i64), Problem> {
        let when = |name: &str| query.get(name).map(|text| self.zone.parse(text, now)).transpose();
        let (from, to) = match (when("from")?, when("to")?, self.range) {
            (None, None, Some(range)) => {
                let to = if last > now.saturating_sub(range.length_ns) { now.max(last) } else { end };
                let to = to.div_euclid(times::SECOND).saturating_add(1).saturating_mul(times::SECOND);
                (to.saturating_sub(range.length_ns), to)
            }
            (from, to, _) => {
                let to = to.unwrap_or(end);
                let least = first.div_euclid(times::SECOND) * times::SECOND;
                let usual = end.saturating_sub(DEFAULT_SPAN_NS).max(least).min(to);
                (from.unwrap_or(usual), to)
            }
        };
        if from >= to {
            return Err(Problem::Wrong("The end must be after the beginning.".to_owned()));
        }
        Ok((from, to))
    }

    /// Returns the parameters of an address that shows `shown` of the stream `id` with the same zone and overlays.
    pub fn parameters(&self, id: i64, shown: ShownQuantity) -> String {
        let mut text = format!("?stream={id}");
        if shown != ShownQuantity::Delay {
            let _ = write!(text, "&show={}", shown.name());
        }
        if !self.zone.is_utc() {
            let _ = write!(text, "&zone={}", encoded(&self.zone.name));
        }
        if self.has_week {
            text.push_str("&week=1");
        }
        if let Some([src, dst]) = &self.other {
            let _ = write!(text, "&src2={}&dst2={}", encoded(src), encoded(dst));
        }
        text
    }
}

/// Returns the parameters of a period for an address, rounded to whole seconds.
pub fn period((from, to): (i64, i64)) -> String {
    format!("&from={}&to={}", times::address(from), times::address_after(to))
}
