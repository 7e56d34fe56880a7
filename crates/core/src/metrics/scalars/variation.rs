//! Variation of delay between consecutive packets: the figures that are fields of the summary.

use crate::metrics::entry::Metric;
use crate::scalars::{Scalar, Take, Unit};

/// Variation between consecutive packets.
pub const IPDV: Metric = Metric::of_fields(&[
    Scalar::new("ipdv-mean", "IPDV mean", Unit::Time, Take::Real(|s| s.ipdv().mean))
        .about("mean variation between consecutive packets: the trend, not the spread")
        .source("RFC 3393")
        .headline(),
    Scalar::new("ipdv-stddev", "IPDV std dev", Unit::Time, Take::Real(|s| s.ipdv().stddev))
        .about("standard deviation of the variation between consecutive packets, with its tails")
        .source("RFC 3393")
        .lower_is_better()
        .headline(),
    Scalar::new("ipdv-iqr", "IPDV IQR", Unit::Time, Take::Whole(|s| s.ipdv().iqr))
        .about("interquartile range of the variation between consecutive packets: the bulk")
        .source("RFC 3393")
        .lower_is_better()
        .headline(),
    Scalar::new("ipdv-mean-abs", "mean absolute IPDV", Unit::Time, Take::Real(|s| s.ipdv().mean_abs))
        .about("mean absolute delay variation of consecutive packets")
        .source("RFC 5481")
        .lower_is_better()
        .openmetrics("ipdv_mean_absolute"),
    Scalar::new("ipdv-min", "IPDV min", Unit::Time, Take::Whole(|s| s.ipdv().min))
        .about("smallest variation between consecutive packets")
        .source("RFC 3393"),
    Scalar::new("ipdv-p0.1", "IPDV 0.1%", Unit::Time, Take::Whole(|s| s.ipdv().p0_1))
        .about("0.1th percentile of the variation between consecutive packets")
        .source("RFC 3393"),
    Scalar::new("ipdv-median", "IPDV median", Unit::Time, Take::Real(|s| s.ipdv().median))
        .about("median variation between consecutive packets")
        .source("RFC 3393"),
    Scalar::new("ipdv-p99.9", "IPDV 99.9%", Unit::Time, Take::Whole(|s| s.ipdv().p99_9))
        .about("99.9th percentile of the variation between consecutive packets")
        .source("RFC 3393")
        .lower_is_better(),
    Scalar::new("ipdv-max", "IPDV max", Unit::Time, Take::Whole(|s| s.ipdv().max))
        .about("largest variation between consecutive packets")
        .source("RFC 3393")
        .lower_is_better(),
]);

/// RTP jitter.
pub const RFC3550: Metric = Metric::of_fields(&[
    Scalar::new("rfc3550-mean", "RTP jitter", Unit::Time, Take::Real(|s| s.rfc3550_jitter().map(|j| j.mean)))
        .about("mean of the running RTP jitter")
        .source("RFC 3550 §6.4.1")
        .lower_is_better()
        .headline()
        .openmetrics("rtp_jitter_mean"),
    Scalar::new(
        "rfc3550-max",
        "RTP jitter, largest",
        Unit::Time,
        Take::Real(|s| s.rfc3550_jitter().map(|j| j.max)),
    )
    .about("largest running RTP jitter")
    .source("RFC 3550 §6.4.1")
    .lower_is_better()
    .openmetrics("rtp_jitter_max"),
    Scalar::new(
        "rfc3550-final",
        "RTP jitter, last",
        Unit::Time,
        Take::Real(|s| s.rfc3550_jitter().map(|j| j.last)),
    )
    .about("RTP jitter after the last packet: of about the last 16 packets")
    .source("RFC 3550 §6.4.1")
    .lower_is_better()
    .openmetrics("rtp_jitter_final"),
]);

/// MAPDV2.
pub const MAPDV2: Metric =
    Metric::of_fields(&[Scalar::new("mapdv2", "MAPDV2", Unit::Time, Take::Real(|s| *s.mapdv2()))
        .about("mean positive plus mean negative deviation from a running mean of gain 1/16")
        .source("G.1020, as RFC 5481 §6.7 describes it")
        .lower_is_better()]);
