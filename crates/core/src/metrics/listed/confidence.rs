//! How reliable a mean is (metrics §17), and how many packets are near the middle.

use crate::metrics::all_packets::AllPackets;
use crate::metrics::metric::Metric;
use crate::metrics::stream::Stream;
use crate::metrics::{bootstrap, confidence};
use crate::scalars::{Applies, Scalar, Take, Unit};
use crate::session::Session;
use crate::summary::{Inference, Summary, Within};
use serde::{Deserialize, Serialize};

/// One end of a Student interval of the mean.
macro_rules! student {
    ($field:ident, $level:literal, low) => {
        student!(
            $field,
            0,
            concat!("latency-mean-", $level, "-low"),
            concat!("mean, ", $level, "% from"),
            $level,
            "lower"
        )
    };
    ($field:ident, $level:literal, high) => {
        student!(
            $field,
            1,
            concat!("latency-mean-", $level, "-high"),
            concat!("mean, ", $level, "% to"),
            $level,
            "upper"
        )
    };
    ($field:ident, $end:literal, $key:expr, $label:expr, $level:literal, $side:literal) => {
        Scalar::new($key, $label, Unit::Time, Take::Real(|s| Some(s.test()?.inference.$field?[$end])))
            .about(concat!(
                $side,
                " end of Student's ",
                $level,
                " % interval of the mean delay: of independent packets only"
            ))
            .lower_is_better()
            .only(Applies::WHOLE)
    };
}

/// The uncertainty of the mean.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Confidence;

impl Metric for Confidence {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "autocorrelation",
            "autocorrelation",
            Unit::Plain { decimals: 3 },
            Take::Real(|s| s.test()?.inference.acf1_send_order),
        )
        .about("lag-1 autocorrelation of delay in send order")
        .only(Applies::WHOLE),
        Scalar::new(
            "effective-n",
            "effective sample",
            Unit::Packets,
            Take::Real(|s| s.test()?.inference.effective_n),
        )
        .about("independent packets that would give the mean the same precision")
        .higher_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "latency-mean-low",
            "mean at least",
            Unit::Time,
            Take::Real(|s| Some(s.test()?.inference.batch?.ci95[0])),
        )
        .about("lower end of the 95 % interval of the mean delay, by batches")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "latency-mean-high",
            "mean at most",
            Unit::Time,
            Take::Real(|s| Some(s.test()?.inference.batch?.ci95[1])),
        )
        .about("upper end of the 95 % interval of the mean delay, by batches")
        .lower_is_better()
        .only(Applies::WHOLE),
        student!(mean_ci90, "90", low),
        student!(mean_ci90, "90", high),
        student!(mean_ci95, "95", low),
        student!(mean_ci95, "95", high),
        student!(mean_ci99, "99", low),
        student!(mean_ci99, "99", high),
    ];

    type Found = Inference;

    fn begin(_: &Session) -> Confidence {
        Confidence
    }

    fn found(&self, stream: &Stream<'_>) -> Inference {
        confidence::of_mean(stream.moments())
    }

    fn found_of_all(stream: &Stream<'_>, all: &AllPackets<'_>) -> Inference {
        let mut inference = confidence::inference(&all.series, all.sample(), all.moments());
        if let Some(seed) = stream.known.options.bootstrap {
            inference.bootstrap = bootstrap::intervals(&all.series, &inference, seed);
        }
        inference
    }

    fn write(found: Inference, _: &Stream<'_>, to: &mut Summary) {
        to.inference = found;
    }
}
/// Shares of packets near the middle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NearMiddle;

impl Metric for NearMiddle {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "within-mean",
            "near the mean",
            Unit::Share,
            Take::Real(|s| Some(s.test()?.within?.of_mean)),
        )
        .about("share of packets whose delay is within `--within` of the mean")
        .higher_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "within-median",
            "near the median",
            Unit::Share,
            Take::Real(|s| Some(s.test()?.within?.of_median)),
        )
        .about("share of packets whose delay is within `--within` of the median")
        .higher_is_better()
        .only(Applies::WHOLE),
    ];

    type Found = Option<Within>;

    fn begin(_: &Session) -> NearMiddle {
        NearMiddle
    }

    fn found(&self, _: &Stream<'_>) -> Option<Within> {
        None
    }

    fn found_of_all(stream: &Stream<'_>, all: &AllPackets<'_>) -> Option<Within> {
        Within::new(all.sample(), all.moments().mean(), stream.known.options.within?)
    }

    fn write(found: Option<Within>, _: &Stream<'_>, to: &mut Summary) {
        to.within = found;
    }
}
