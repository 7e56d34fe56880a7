//! Trimmed means, stability, and the formula of RPM.

use jitlat_core::Span;
use jitlat_core::metrics::objectives::lower_mean;

/// Times of a foreign probe: a request on a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignTimes {
    /// Time of the TCP handshake.
    pub tcp: Span,
    /// Time of the TLS handshake per round trip of it: all of it with TLS 1.3, half of it with TLS 1.2; `None`
    /// without TLS.
    pub tls: Option<Span>,
    /// Time from the request to the end of the answer.
    pub http: Span,
}

/// Trimmed means of the times of probes, in ns: of the lower 95 %, so that single outliers do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrimmedMeans {
    /// TCP handshakes of foreign probes.
    pub tcp_ns: Option<f64>,
    /// TLS handshakes of foreign probes, per round trip; `None` without TLS.
    pub tls_ns: Option<f64>,
    /// Requests of foreign probes.
    pub http_ns: Option<f64>,
    /// Requests of self probes, on load-generating connections.
    pub self_ns: Option<f64>,
}

impl TrimmedMeans {
    /// Computes the means of `foreign` and `own` probes.
    pub fn of(foreign: &[ForeignTimes], own: &[Span]) -> TrimmedMeans {
        let mean = |times: &mut dyn Iterator<Item = Span>| lower_mean(times.map(|t| t.0 as f64).collect());
        TrimmedMeans {
            tcp_ns: mean(&mut foreign.iter().map(|f| f.tcp)),
            tls_ns: mean(&mut foreign.iter().filter_map(|f| f.tls)),
            http_ns: mean(&mut foreign.iter().map(|f| f.http)),
            self_ns: mean(&mut own.iter().copied()),
        }
    }

    /// Returns RPM of foreign probes: of the mean of their two or three terms.
    pub fn foreign_rpm(&self) -> Option<f64> {
        let (tcp, http) = (self.tcp_ns?, self.http_ns?);
        let mean = self.tls_ns.map_or((tcp + http) / 2.0, |tls| (tcp + tls + http) / 3.0);
        per_minute(mean)
    }

    /// Returns RPM of self probes.
    pub fn self_rpm(&self) -> Option<f64> {
        per_minute(self.self_ns?)
    }

    /// Returns RPM: the mean of both; `None` unless there are probes of both kinds.
    pub fn rpm(&self) -> Option<f64> {
        Some((self.foreign_rpm()? + self.self_rpm()?) / 2.0)
    }
}

/// Returns the number of round trips per minute if each takes `ns`; `None` unless `ns` is positive.
fn per_minute(ns: f64) -> Option<f64> {
    (ns > 0.0).then_some(60e9 / ns)
}

/// True if the standard deviation of the last `count` of `values` is less than `tolerance` times the newest one. The
/// deviation is that of the population, as in goresponsiveness; the draft does not state which.
pub fn is_stable(values: &[f64], count: usize, tolerance: f64) -> bool {
    let Some(last) = values.len().checked_sub(count).map(|from| &values[from..]) else { return false };
    let Some(newest) = last.last() else { return false };
    let mean = last.iter().sum::<f64>() / last.len() as f64;
    let variance = last.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / last.len() as f64;
    variance.sqrt() < tolerance * newest
}

/// Class of a number of round trips per minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RpmClass {
    /// 6000 and more: at most 10 ms per round trip.
    Excellent,
    /// 1000 and more: at most 60 ms.
    Good,
    /// 300 and more: at most 200 ms.
    Fair,
    /// Below 300.
    Poor,
}

impl RpmClass {
    /// Returns the class of `rpm`.
    pub fn of(rpm: f64) -> RpmClass {
        match rpm {
            6000.0.. => RpmClass::Excellent,
            1000.0.. => RpmClass::Good,
            300.0.. => RpmClass::Fair,
            _ => RpmClass::Poor,
        }
    }

    /// Returns the name in lowercase.
    pub fn name(self) -> &'static str {
        match self {
            RpmClass::Excellent => "excellent",
            RpmClass::Good => "good",
            RpmClass::Fair => "fair",
            RpmClass::Poor => "poor",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(tls: Option<i64>) -> TrimmedMeans {
        let foreign =
            ForeignTimes { tcp: Span::millis(20), tls: tls.map(Span::millis), http: Span::millis(40) };
        TrimmedMeans::of(&[foreign], &[Span::millis(60)])
    }

    #[test]
    fn rpm_is_the_mean_of_both_kinds() {
        let with_tls = means(Some(30));
        assert_eq!(with_tls.foreign_rpm(), Some(2000.0));
        assert_eq!(with_tls.self_rpm(), Some(1000.0));
        assert_eq!((with_tls.rpm(), means(None).rpm()), (Some(1500.0), Some(1500.0)));
        assert_eq!(TrimmedMeans::of(&[], &[Span::millis(60)]).rpm(), None);
        assert_eq!(TrimmedMeans::of(&[], &[Span::ZERO]).self_rpm(), None);
    }

    #[test]
    fn one_slow_probe_in_twenty_does_not_count() {
        let mut own = vec![Span::millis(20); 19];
        own.push(Span::millis(400));
        assert_eq!(TrimmedMeans::of(&[], &own).self_rpm(), Some(3000.0));
    }

    #[test]
    fn values_are_stable_below_the_tolerance_only() {
        assert!(is_stable(&[1.0, 100.0, 100.0, 104.0, 102.0], 4, 0.05));
        assert!(!is_stable(&[80.0, 100.0, 110.0, 120.0], 4, 0.05));
        assert!(!is_stable(&[100.0; 3], 4, 0.05), "too few");
        assert!(!is_stable(&[0.0; 4], 4, 0.05), "a deviation of zero is not less than zero");
        // Deviation 5 at a newest value of 105 and of 95.
        assert!(is_stable(&[95.0, 105.0], 2, 0.05) && !is_stable(&[105.0, 95.0], 2, 0.05));
    }

    #[test]
    fn classes_begin_at_their_limits() {
        let classes = [299.9, 300.0, 999.9, 1000.0, 5999.9, 6000.0].map(RpmClass::of);
        use RpmClass::{Excellent, Fair, Good, Poor};
        assert_eq!(classes, [Poor, Fair, Fair, Good, Good, Excellent]);
    }
}
