//! Play-out buffers and voice quality (metrics §18).

use crate::metrics::all_packets::AllPackets;
use crate::metrics::dejitter::{approximate, dejitter, reference_delay};
use crate::metrics::known::StreamFacts;
use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::{Dejitter, Summary};
use serde::{Deserialize, Serialize};

/// Play-out buffers and voice quality.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlayOutMetric;

impl Metric for PlayOutMetric {
    const SCALARS: &'static [Scalar] = &[
    Scalar::new("mos", "best MOS", ScalarUnit::Plain { decimals: 2 }, ScalarGetter::Real(|s| s.dejitter().as_ref()?.best_mos()))
        .about("best mean opinion score of speech over the buffer sizes of the de-jitter curve")
        .source("G.107 Annex B")
        .higher_is_better()
        .only(Applies::TWO_CLOCKS)
        .headline(),
    Scalar::new("buffer", "buffer for 1% late", ScalarUnit::Time, ScalarGetter::Whole(|s| s.dejitter().as_ref()?.buffer_for_1pct_late_ns))
        .about("smallest play-out buffer for which at most 1 % of packets are late")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
    Scalar::new("buffer-best", "buffer for best MOS", ScalarUnit::Time, ScalarGetter::Real(|s| ns(s.dejitter().as_ref()?.best_buffer_ms)))
        .about("smallest buffer of the curve with the best mean opinion score")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
    Scalar::new("buffer-1pct-loss", "buffer for 1% loss", ScalarUnit::Time, ScalarGetter::Real(|s| ns(s.dejitter().as_ref()?.smallest_buffer_for_1pct_loss_ms)))
        .about("smallest buffer of the curve with at most 1 % total loss; undefined if the network alone loses more")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
    Scalar::new("adaptive-loss", "adaptive buffer loss", ScalarUnit::Packets, ScalarGetter::Count(|s| s.dejitter().as_ref()?.adaptive_total_loss))
        .about("packets lost with an adaptive buffer, including those lost by the network")
        .source("Ramjee et al. 1994, algorithm 1")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
    Scalar::new("adaptive-buffer", "adaptive buffer mean", ScalarUnit::Time, ScalarGetter::Real(|s| s.dejitter().as_ref()?.adaptive_mean_buffer_ns))
        .about("mean play-out offset of an adaptive buffer above the minimum delay")
        .source("Ramjee et al. 1994, algorithm 1")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
];

    type Found = Option<Dejitter>;

    fn begin(_: &Session) -> PlayOutMetric {
        PlayOutMetric
    }

    fn found(&self, stream: &EndedStream<'_>) -> Option<Dejitter> {
        let StreamFacts { clock, counted, .. } = stream.known;
        let delays = stream.sketch().filter(|_| stream.known.has_two_clocks())?.delays;
        let min = delays.min()?;
        let reference = reference_delay(clock, Some(min))?;
        Some(approximate(delays, min, counted.sent, reference, &stream.known.receiver()))
    }

    fn found_of_all(stream: &EndedStream<'_>, all: &AllPackets<'_>) -> Option<Dejitter> {
        let StreamFacts { clock, counted, .. } = stream.known;
        if !stream.known.has_two_clocks() {
            return None;
        }
        let reference = reference_delay(clock, all.smallest())?;
        dejitter(&all.series, all.sample(), counted.sent, reference, &stream.known.receiver())
    }

    fn write(found: Option<Dejitter>, _: &EndedStream<'_>, to: &mut Summary) {
        to.dejitter = found;
    }
}
fn ns(milliseconds: Option<f64>) -> Option<f64> {
    milliseconds.map(|ms| ms * 1e6)
}
