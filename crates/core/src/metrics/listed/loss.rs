//! Loss (metrics §10 and §11).

use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::{Loss, Summary};
use serde::{Deserialize, Serialize};

/// Loss and its clustering.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LossMetric;

impl Metric for LossMetric {
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "a path to the method has a single lifetime, but any lifetime is required"
    )]
    const SCALARS: &'static [Scalar] = &[
        Scalar::new("loss", "lost", ScalarUnit::Share, ScalarGetter::Real(|s| s.loss_ratio()))
            .about("lost packets divided by packets sent")
            .source("RFC 7680")
            .lower_is_better()
            .headline(),
        Scalar::new(
            "loss-low",
            "loss at least",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| Some(s.loss()?.events.ci95?[0])),
        )
        .about(
            "lower limit of the 95 % interval of the loss ratio, from the sizes and distances of loss events",
        )
        .lower_is_better(),
        Scalar::new(
            "loss-high",
            "loss at most",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| Some(s.loss()?.events.ci95?[1])),
        )
        .about(
            "upper limit of the 95 % interval of the loss ratio, from the sizes and distances of loss events",
        )
        .lower_is_better(),
        Scalar::new(
            "loss-bound",
            "loss below",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| s.loss()?.rule_of_three),
        )
        .about("upper limit of the loss ratio with 95 % confidence if nothing was lost: 3/N")
        .lower_is_better(),
        Scalar::new(
            "loss-runs",
            "loss runs",
            ScalarUnit::Count,
            ScalarGetter::Count(|s| Some(s.loss()?.periods)),
        )
        .about("loss bursts (consecutive losses)")
        .source("RFC 3357 §4")
        .lower_is_better(),
        Scalar::new(
            "loss-run-longest",
            "longest loss",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.loss()?.longest())),
        )
        .about("length of the longest loss burst")
        .source("RFC 3357 §6.3")
        .lower_is_better()
        .headline()
        .alias("loss-run"),
        Scalar::new(
            "loss-run-mean",
            "mean loss run",
            ScalarUnit::Packets,
            ScalarGetter::Real(|s| s.loss()?.gilbert.mean_burst),
        )
        .about("mean length of a loss burst")
        .source("RFC 3357 §6.3")
        .lower_is_better(),
        Scalar::new(
            "burst-ratio",
            "burst ratio",
            ScalarUnit::Plain { decimals: 2 },
            ScalarGetter::Real(|s| s.loss()?.gilbert.burst_ratio),
        )
        .about("mean length of loss bursts divided by the mean length for random loss at the same ratio; above 1 is bursty")
        .source("G.107 §3.5")
        .lower_is_better(),
        Scalar::new(
            "loss-noticeable",
            "noticeable loss",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| s.loss()?.noticeable_rate_99),
        )
        .about("losses at most 99 packets after the previous loss, divided by all losses")
        .source("RFC 3357 §6.1")
        .lower_is_better(),
        Scalar::new(
            "loss-conditional",
            "loss after loss",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| s.loss()?.gilbert.clp),
        )
        .about("probability of loss after a lost packet")
        .lower_is_better(),
        Scalar::new(
            "loss-correlation",
            "loss correlation",
            ScalarUnit::Plain { decimals: 3 },
            ScalarGetter::Real(|s| s.loss()?.lag1),
        )
        .about("correlation between the losses of neighbouring packets")
        .lower_is_better(),
        Scalar::new(
            "loss-runs-z",
            "runs test z",
            ScalarUnit::Plain { decimals: 2 },
            ScalarGetter::Real(|s| s.loss()?.runs_test?.z),
        )
        .about("standard score of the Wald-Wolfowitz runs test; below -1.96 losses come in bursts"),
        Scalar::new("gilbert-p", "Gilbert p", ScalarUnit::Share, ScalarGetter::Real(|s| s.loss()?.gilbert.p))
            .about("simple Gilbert model: probability of loss after a received packet")
            .lower_is_better(),
        Scalar::new("gilbert-q", "Gilbert q", ScalarUnit::Share, ScalarGetter::Real(|s| s.loss()?.gilbert.q))
            .about("simple Gilbert model: probability of reception after a lost packet")
            .higher_is_better(),
        Scalar::new(
            "gilbert1960-p",
            "Gilbert 1960 p",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| Some(s.loss()?.gilbert1960?.p)),
        )
        .about("Gilbert's model of 1960: probability of changing from the good state to the bad"),
        Scalar::new(
            "gilbert1960-r",
            "Gilbert 1960 r",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| Some(s.loss()?.gilbert1960?.r)),
        )
        .about("Gilbert's model of 1960: probability of changing from the bad state to the good"),
        Scalar::new(
            "gilbert1960-h",
            "Gilbert 1960 h",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| Some(s.loss()?.gilbert1960?.h)),
        )
        .about("Gilbert's model of 1960: probability of reception in the bad state"),
        Scalar::new(
            "bursts",
            "loss bursts",
            ScalarUnit::Count,
            ScalarGetter::Count(|s| Some(s.loss()?.burst_gap_gmin16.burst_count)),
        )
        .about("bursts of losses with fewer than 16 packets received between them")
        .source("RFC 3611 §4.7.2")
        .lower_is_better(),
        Scalar::new(
            "burst-density",
            "burst density",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| Some(s.loss()?.burst_gap_gmin16.burst_density)),
        )
        .about("losses in bursts divided by packets in bursts")
        .source("RFC 3611 §4.7.2")
        .lower_is_better(),
        Scalar::new(
            "gap-density",
            "gap density",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| Some(s.loss()?.burst_gap_gmin16.gap_density)),
        )
        .about("losses in gaps divided by packets in gaps")
        .source("RFC 3611 §4.7.2")
        .lower_is_better(),
        Scalar::new(
            "burst-duration",
            "mean burst",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| Some(s.loss()?.burst_gap_gmin16.mean_burst_duration_ms? * 1e6)),
        )
        .about("mean duration of a burst of loss")
        .source("RFC 3611 §4.7.2")
        .lower_is_better(),
        Scalar::new(
            "gap-duration",
            "mean gap",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| Some(s.loss()?.burst_gap_gmin16.mean_gap_duration_ms? * 1e6)),
        )
        .about("mean duration of a gap between bursts of loss")
        .source("RFC 3611 §4.7.2")
        .higher_is_better(),
    ];

    type Found = Loss;

    fn begin(_: &Session) -> LossMetric {
        LossMetric
    }

    fn found(&self, stream: &EndedStream<'_>) -> Loss {
        stream.loss()
    }

    fn write(found: Loss, _: &EndedStream<'_>, to: &mut Summary) {
        to.loss = found;
    }
}
