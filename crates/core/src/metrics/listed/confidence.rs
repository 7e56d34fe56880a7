//! Precision of the mean (metrics §17), and shares of packets near the mean and the median.

use crate::metrics::all_packets::AllPackets;
use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::metrics::{bootstrap, confidence};
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::{Inference, Summary, Within};
use serde::{Deserialize, Serialize};

/// One limit of a Student-t interval of the mean.
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
        Scalar::new(
            $key,
            $label,
            ScalarUnit::Time,
            ScalarGetter::Real(|s| Some(s.test()?.inference.$field?[$end])),
        )
        .about(concat!(
            $side,
            " limit of Student's ",
            $level,
            " % interval of the mean delay, assuming independent packets"
        ))
        .lower_is_better()
        .only(Applies::WHOLE)
    };
}

/// Precision of the mean.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConfidenceMetric;

impl Metric for ConfidenceMetric {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "autocorrelation",
            "autocorrelation",
            ScalarUnit::Plain { decimals: 3 },
            ScalarGetter::Real(|s| s.test()?.inference.acf1_send_order),
        )
        .about("lag-1 autocorrelation of delay in send order")
        .only(Applies::WHOLE),
        Scalar::new(
            "effective-n",
            "effective sample",
            ScalarUnit::Packets,
            ScalarGetter::Real(|s| s.test()?.inference.effective_n),
        )
        .about("number of independent packets that would give the mean the same precision")
        .higher_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "latency-mean-low",
            "mean from (batches)",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| Some(s.test()?.inference.batch?.ci95[0])),
        )
        .about("lower limit of the 95 % interval of the mean delay, from batch means")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "latency-mean-high",
            "mean to (batches)",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| Some(s.test()?.inference.batch?.ci95[1])),
        )
        .about("upper limit of the 95 % interval of the mean delay, from batch means")
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

    fn begin(_: &Session) -> ConfidenceMetric {
        ConfidenceMetric
    }

    fn found(&self, stream: &EndedStream<'_>) -> Inference {
        confidence::of_mean(stream.moments())
    }

    fn found_of_all(stream: &EndedStream<'_>, all: &AllPackets<'_>) -> Inference {
        let mut inference = confidence::inference(&all.series, all.sample(), all.moments());
        if let Some(seed) = stream.known.options.bootstrap {
            inference.bootstrap = bootstrap::intervals(&all.series, &inference, seed);
        }
        inference
    }

    fn write(found: Inference, _: &EndedStream<'_>, to: &mut Summary) {
        to.inference = found;
    }
}
/// Shares of packets near the mean and the median.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NearMedian;

impl Metric for NearMedian {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "within-mean",
            "near the mean",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| Some(s.test()?.within?.of_mean)),
        )
        .about("share of packets whose delay is within `--within` of the mean")
        .higher_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "within-median",
            "near the median",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| Some(s.test()?.within?.of_median)),
        )
        .about("share of packets whose delay is within `--within` of the median")
        .higher_is_better()
        .only(Applies::WHOLE),
    ];

    type Found = Option<Within>;

    fn begin(_: &Session) -> NearMedian {
        NearMedian
    }

    fn found(&self, _: &EndedStream<'_>) -> Option<Within> {
        None
    }

    fn found_of_all(stream: &EndedStream<'_>, all: &AllPackets<'_>) -> Option<Within> {
        Within::new(all.sample(), all.moments().mean(), stream.known.options.within?)
    }

    fn write(found: Option<Within>, _: &EndedStream<'_>, to: &mut Summary) {
        to.within = found;
    }
}
