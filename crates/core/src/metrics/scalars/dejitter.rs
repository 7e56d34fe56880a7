//! Play-out buffers and voice quality: the figures that are fields of the summary.

use crate::metrics::entry::Metric;
use crate::scalars::{Applies, Scalar, Take, Unit};

/// Play-out buffers and voice quality.
pub const METRIC: Metric = Metric::of_fields(&[
    Scalar::new("mos", "best MOS", Unit::Plain { decimals: 2 }, Take::Real(|s| s.dejitter().as_ref()?.best_mos()))
        .about("best mean opinion score of speech over the buffer sizes of the de-jitter curve")
        .source("G.107 Annex B")
        .higher_is_better()
        .only(Applies::TWO_CLOCKS)
        .headline(),
    Scalar::new("buffer", "buffer for 1% late", Unit::Time, Take::Whole(|s| s.dejitter().as_ref()?.buffer_for_1pct_late_ns))
        .about("smallest play-out buffer that at most 1 % of packets come too late for")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
    Scalar::new("buffer-best", "buffer of best MOS", Unit::Time, Take::Real(|s| ns(s.dejitter().as_ref()?.best_buffer_ms)))
        .about("smallest buffer of the curve with the best mean opinion score")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
    Scalar::new("buffer-1pct-loss", "buffer for 1% loss", Unit::Time, Take::Real(|s| ns(s.dejitter().as_ref()?.smallest_buffer_for_1pct_loss_ms)))
        .about("smallest buffer of the curve with at most 1 % lost in all; undefined if the network alone loses more")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
    Scalar::new("adaptive-loss", "adaptive buffer loss", Unit::Packets, Take::Count(|s| s.dejitter().as_ref()?.adaptive_total_loss))
        .about("packets an adaptive buffer would leave out, lost ones included")
        .source("Ramjee et al. 1994, algorithm 1")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
    Scalar::new("adaptive-buffer", "adaptive buffer mean", Unit::Time, Take::Real(|s| s.dejitter().as_ref()?.adaptive_mean_buffer_ns))
        .about("mean play-out offset of an adaptive buffer above the minimum delay")
        .source("Ramjee et al. 1994, algorithm 1")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
]);

fn ns(milliseconds: Option<f64>) -> Option<f64> {
    milliseconds.map(|ms| ms * 1e6)
}
