//! The clocks, and delay corrected by the clock estimate: figures that are fields of the summary.

use crate::distribution::percentile::Percent;
use crate::metrics::entry::Metric;
use crate::scalars::{Applies, Scalar, ScalarSource, Take, Unit};

/// Corrected delay, and the clocks.
pub const CLOCK: Metric = Metric::of_fields(&[
    Scalar::new(
        "latency-corrected-min",
        "corrected min",
        Unit::Time,
        Take::Whole(|s| s.latency_corrected().and_then(|c| c.min)),
    )
    .about("smallest delay corrected by the clock estimate")
    .lower_is_better()
    .only(Applies::TWO_CLOCKS),
    Scalar::new(
        "latency-corrected-mean",
        "corrected mean",
        Unit::Time,
        Take::Real(|s| s.latency_corrected().and_then(|c| c.mean)),
    )
    .about("mean delay corrected by the clock estimate")
    .lower_is_better()
    .only(Applies::TWO_CLOCKS),
    Scalar::new(
        "latency-corrected-median",
        "corrected median",
        Unit::Time,
        Take::Real(|s| s.latency_corrected().and_then(|c| c.median)),
    )
    .about("median delay corrected by the clock estimate")
    .lower_is_better()
    .only(Applies::TWO_CLOCKS),
    Scalar::new(
        "latency-corrected-max",
        "corrected max",
        Unit::Time,
        Take::Whole(|s| s.latency_corrected().and_then(|c| c.max)),
    )
    .about("largest delay corrected by the clock estimate")
    .lower_is_better()
    .only(Applies::TWO_CLOCKS),
    Scalar::new("clock-error", "clock error", Unit::Time, Take::Whole(|s| s.clock().offset_ns))
        .about("estimated clock of the server less that of the client")
        .source("RFC 5905 §8")
        .only(Applies::TWO_CLOCKS),
    Scalar::new("clock-bound", "clock error bound", Unit::Time, Take::Real(|s| s.clock().bound_ns))
        .about("largest possible error of the clock estimate, if no delay is negative")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS)
        .openmetrics("clock_error_bound"),
    Scalar::new("control-rtt-min", "control RTT min", Unit::Time, Take::Whole(|s| s.clock().min_rtt_ns))
        .about("minimum round-trip time of the control channel")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
    Scalar::new(
        "client-clock-step",
        "client clock set by",
        Unit::Time,
        Take::Whole(|s| s.test()?.clock.client.step_ns),
    )
    .about("how far the client's clock was set during the test")
    .only(Applies::TESTS),
    Scalar::new(
        "server-clock-step",
        "server clock set by",
        Unit::Time,
        Take::Whole(|s| s.test()?.clock.server.step_ns),
    )
    .about("how far the server's clock was set during the test")
    .only(Applies::TESTS),
]);

/// Relative skew of the clocks, and jitter without it.
pub const SKEW: Metric = Metric::of_fields(&[
    Scalar::new("skew", "clock skew", Unit::Ppm, Take::Real(|s| s.skew_hull().as_ref().map(|h| h.alpha_ppm)))
        .about("slope of the lower hull of delay over send time: the clocks' relative skew, where it is one")
        .source("Moon, Skelly and Towsley 1999")
        .only(Applies::TWO_CLOCKS),
    Scalar::new("pdv-deskewed-p99", "jitter 99%, no skew", Unit::Time, Take::Whole(|s| deskewed(s, 99_000)))
        .about("99th percentile of PDV with the skew of the clocks taken out, where it matters")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
    Scalar::new("pdv-deskewed-max", "jitter max, no skew", Unit::Time, Take::Whole(|s| deskewed(s, 100_000)))
        .about("largest PDV with the skew of the clocks taken out, where it matters")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
]);

fn deskewed(source: &ScalarSource<'_>, percent: u32) -> Option<i64> {
    source.pdv_deskewed().as_ref()?.percentile(Percent(percent))
}
