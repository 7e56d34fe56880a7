//! Report of a unidirectional test: ASCII numbers separated by `-`.

use core::fmt;
use core::str::FromStr;
use jitlat_core::Span;
use jitlat_core::time::StampSource;
use jitlat_core::twoway::FarReport;

/// Statistics reported by the server. Times are in microseconds, as in the format of the report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LampReport {
    /// Minimum latency in µs; `None` if no packet with a valid time arrived.
    pub min_us: Option<u64>,
    /// Mean latency in µs.
    pub mean_us: f64,
    /// Maximum latency in µs.
    pub max_us: u64,
    /// Number of unique packets received.
    pub received: u64,
    /// Number of packets that arrived after a packet sent later.
    pub out_of_order: u64,
    /// Number of packets with a zero or negative latency.
    pub errors: u64,
    /// Kind of the server's timestamps; `None` if not reported.
    pub stamps: Option<StampSource>,
    /// Sample variance of the latency in µs².
    pub variance_us2: f64,
    /// Highest sequence number, which wraps; `None` if no packet arrived.
    pub highest_seq: Option<u16>,
    /// Number of times that the sequence number wrapped.
    pub wraps: u64,
    /// True if the session ended because of silence, not because of a STOP.
    pub timed_out: bool,
    /// Number of duplicates; `None` if the server does not count them.
    pub duplicates: Option<u64>,
}

/// Error: the text is not a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a LaMP report")]
pub struct NotAReport;

fn type_code(stamps: Option<StampSource>) -> u8 {
    match stamps {
        None => 0,
        Some(StampSource::User) => 1,
        Some(StampSource::Kernel) => 2,
        Some(StampSource::Hardware | StampSource::Wire) => 4,
    }
}

impl From<&LampReport> for FarReport {
    fn from(r: &LampReport) -> FarReport {
        // Values that were not measured are missing, not zero. A latency above a century is invalid.
        let some = r.min_us.is_some();
        let us = |us: f64| Span((us * 1e3).clamp(0.0, 4e18).round() as i64);
        FarReport {
            received: r.received,
            min: r.min_us.map(|m| us(m as f64)),
            mean: some.then(|| us(r.mean_us)),
            max: some.then(|| us(r.max_us as f64)),
            stddev: (some && r.received - r.errors.min(r.received) > 1)
                .then(|| us(r.variance_us2.max(0.0).sqrt())),
            out_of_order: r.out_of_order,
            errors: r.errors,
            duplicates: r.duplicates,
            stamps: r.stamps,
            highest_seq: r.highest_seq,
            wraps: r.wraps,
            timed_out: r.timed_out,
        }
    }
}

impl fmt::Display for LampReport {
    /// Formats the thirteen fields of revision 2.0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let highest = self.highest_seq.map_or(-1, i64::from);
        write!(
            f,
            "{}-{:.5}-{}-{}-{}-{}-{}-{:.5}-{}-{}-{}-{}-{}",
            self.min_us.unwrap_or(u64::MAX),
            self.mean_us,
            self.max_us,
            self.received,
            self.out_of_order,
            self.errors,
            type_code(self.stamps),
            self.variance_us2,
            highest,
            self.wraps,
            u8::from(self.timed_out),
            u8::from(self.duplicates.is_some()),
            self.duplicates.unwrap_or(0),
        )
    }
}

impl FromStr for LampReport {
    type Err = NotAReport;

    /// Parses the 13 fields of the current LaTe, and the 6, 7 or 8 fields of older releases, with or without
    /// a final NUL.
    fn from_str(text: &str) -> Result<LampReport, NotAReport> {
        let text = text.trim_end_matches('\0');
        // The ninth field may be negative; an empty part then precedes its digits.
        let mut fields: Vec<String> = Vec::new();
        let mut minus = false;
        for piece in text.split('-') {
            if piece.is_empty() && !minus {
                minus = true;
                continue;
            }
            fields.push(if minus { format!("-{piece}") } else { piece.to_owned() });
            minus = false;
        }
        let count = fields.len();
        if minus || ![6, 7, 8, 13].contains(&count) {
            return Err(NotAReport);
        }
        // Older releases lack the errors (6 or 7 fields), the variance (6 fields), and all later fields.
        let has_errors = count >= 8;
        let mut next = fields.into_iter();
        let mut field = || next.next().ok_or(NotAReport);
        let int = |s: String| s.parse::<u64>().map_err(|_| NotAReport);
        let real = |s: String| s.parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0).ok_or(NotAReport);
        let min = int(field()?)?;
        let mut report = LampReport {
            min_us: (min != u64::MAX).then_some(min),
            mean_us: real(field()?)?,
            max_us: int(field()?)?,
            received: int(field()?)?,
            out_of_order: int(field()?)?,
            errors: if has_errors { int(field()?)? } else { 0 },
            stamps: match int(field()?)? {
                1 => Some(StampSource::User),
                2 | 3 => Some(StampSource::Kernel),
                4 => Some(StampSource::Hardware),
                _ => None,
            },
            variance_us2: if count > 6 { real(field()?)? } else { 0.0 },
            highest_seq: None,
            wraps: 0,
            timed_out: false,
            duplicates: None,
        };
        if count == 13 {
            report.highest_seq = match field()?.parse::<i64>().map_err(|_| NotAReport)? {
                -1 => None,
                n => Some(u16::try_from(n).map_err(|_| NotAReport)?),
            };
            report.wraps = int(field()?)?;
            report.timed_out = int(field()?)? != 0;
            let looked = int(field()?)? != 0;
            let duplicates = int(field()?)?;
            report.duplicates = looked.then_some(duplicates);
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reports_of_the_reference_program() {
        for text in [
            "71-112.20000-161-5-0-0-1-1589.20000-4-0-0-1-0",
            "63-74.00000-110-5-0-0-1-407.50000-4-0-0-1-0",
            "18446744073709551615-0.00000-0-0-0-0-1-0.00000--1-0-1-1-0",
        ] {
            let report: LampReport = text.parse().unwrap();
            assert_eq!(report.to_string(), text);
            assert_eq!(format!("{text}\0").parse::<LampReport>().unwrap(), report);
        }
    }

    #[test]
    fn what_a_report_says_in_nanoseconds() {
        let report: LampReport = "71-112.25-161-5-0-0-1-16.00000-4-0-0-1-0".parse().unwrap();
        let far = FarReport::from(&report);
        let us = |us: f64| Some(Span((us * 1e3) as i64));
        assert_eq!((far.min, far.mean, far.max, far.stddev), (us(71.0), us(112.25), us(161.0), us(4.0)));
        // Five packets with four errors leave a single latency, which has no deviation.
        let lone = FarReport::from(&LampReport { errors: 4, ..report });
        assert_eq!((lone.mean, lone.stddev), (us(112.25), None));
        let none = FarReport::from(&LampReport { min_us: None, ..report });
        assert_eq!((none.min, none.mean, none.max, none.stddev), (None, None, None, None));
    }

    #[test]
    fn older_releases() {
        let six: LampReport = "10-12.5-20-5-1-2".parse().unwrap();
        assert_eq!((six.errors, six.stamps, six.out_of_order), (0, Some(StampSource::Kernel), 1));
        let eight: LampReport = "10-12.5-20-5-1-3-1-4.25".parse().unwrap();
        assert_eq!((eight.errors, eight.variance_us2), (3, 4.25));
    }

    #[test]
    fn what_is_no_report() {
        for bad in ["", "1-2-3", "a-b-c-d-e-f", "1-2-3-4-5-6-", "1-NaN-3-4-5-6", "--1-2-3-4-5-6"] {
            assert!(bad.parse::<LampReport>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[0-9a-z.\\-\\x00]{0,80}") {
            let _ = text.parse::<LampReport>();
        }
    }
}
