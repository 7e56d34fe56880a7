//! Reordering (metrics §13).

use super::percent;
use crate::metrics::OnePass;
use crate::metrics::all_packets::AllPackets;
use crate::metrics::density::{StayBack, THRESHOLD};
use crate::metrics::metric::{AcceptedPackets, Metric};
use crate::metrics::occupancy::Occupancy;
use crate::metrics::reorder::{ReorderCounter, ReorderDensity, reordering};
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarSource, ScalarUnit};
use crate::session::Session;
use crate::spec::Transport;
use crate::summary::{Reordering, Summary};
use serde::{Deserialize, Serialize};

/// The metric of reordered packets (RFC 4737, RFC 5236).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReorderMetric {
    overtaking: ReorderCounter,
    stay_back: StayBack,
    occupancy: Occupancy,
}

/// Maximum number of discontinuities that are stored when the analysis runs in constant memory.
const MAX_DISCONTINUITIES: usize = 8192;

impl Metric for ReorderMetric {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "reorder-extent-max",
            "reordering extent",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| s.test()?.reordering.extent_hist.keys().next_back().copied()),
        )
        .about(
            "largest number of arrivals from the first packet sent later to the reordered packet",
        )
        .source("RFC 4737 §4.2")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "reorder-late-max",
            "reordering late time",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.test()?.reordering.max_late_time_ns),
        )
        .about("largest time from the first arrival of a packet sent later to the arrival of the reordered packet")
        .source("RFC 4737 §4.3")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "reorder-offset-max",
            "reordering offset",
            ScalarUnit::Bytes,
            ScalarGetter::Count(|s| s.test()?.reordering.max_byte_offset),
        )
        .about("largest payload to buffer for a reordered packet")
        .source("RFC 4737 §4.4")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "reorder-free-runs",
            "reordering-free runs",
            ScalarUnit::Count,
            ScalarGetter::Count(|s| Some(s.test()?.reordering.free_runs)),
        )
        .about("completed runs of packets in order")
        .source("RFC 4737 §4.6")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "reorder-three-late",
            "three or more late",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| density(s).map(|d| d.three_or_more_late)),
        )
        .about("share of packets displaced by three or more positions, which a TCP sender counts as lost")
        .source("RFC 5236 §4")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "reorder-late-ratio",
            "displaced late",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| density(s).map(|d| d.percent_late / 100.0)),
        )
        .about("share of packets that arrived after their position in send order")
        .source("RFC 5236 §4")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "reorder-early-ratio",
            "displaced early",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| density(s).map(|d| d.percent_early / 100.0)),
        )
        .about("share of packets that arrived before their position in send order")
        .source("RFC 5236 §4")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "reorder-displacement",
            "mean displacement",
            ScalarUnit::Packets,
            ScalarGetter::Real(|s| density(s).map(|d| d.mean_displacement)),
        )
        .about("mean distance of a packet from its position in send order, in arrivals")
        .source("RFC 5236 §4")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "reorder-entropy",
            "reordering entropy",
            ScalarUnit::Plain { decimals: 3 },
            ScalarGetter::Real(|s| density(s).map(|d| d.entropy)),
        )
        .about("entropy of the reorder density, in nats")
        .source("RFC 5236 §4")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "reorder-occupancy",
            "reorder buffer",
            ScalarUnit::Packets,
            ScalarGetter::Real(|s| density(s).map(|d| d.mean_occupancy)),
        )
        .about("mean occupancy of a reorder buffer that skips lost packets")
        .source("RFC 5236 §5")
        .lower_is_better()
        .only(Applies::WHOLE),
    ];

    type Found = Reordering;

    fn begin(_: &Session) -> ReorderMetric {
        ReorderMetric {
            overtaking: ReorderCounter::bounded(MAX_DISCONTINUITIES),
            stay_back: StayBack::new(THRESHOLD, 0),
            occupancy: Occupancy::new(THRESHOLD, 0),
        }
    }

    fn push(&mut self, packets: &AcceptedPackets<'_>) {
        let mut at = 0;
        for run in packets.runs() {
            self.overtaking.push_run(run.clone(), |k| packets.arrived(at + k));
            self.stay_back.push_run(run.clone());
            self.occupancy.push_run(run.clone());
            at += run.len();
        }
    }

    fn join(&mut self, later: ReorderMetric, lead: &ReorderMetric) {
        self.overtaking.join(later.overtaking, &lead.overtaking);
        self.stay_back.join(later.stay_back, &lead.stay_back);
        self.occupancy.join(later.occupancy, &lead.occupancy);
    }

    fn mark(&mut self) {
        self.overtaking.mark();
    }

    fn is_possible(&self, n: u64) -> bool {
        self.overtaking.is_possible(n, MAX_DISCONTINUITIES)
            && self.stay_back.is_possible(n, THRESHOLD)
            && self.occupancy.is_possible(n, THRESHOLD)
    }

    fn found(&self, stream: &EndedStream<'_>) -> Reordering {
        Reordering {
            observable: is_observable(stream),
            rd_fd_dt128: self.stay_back.clone().finish(),
            rbd_fb_bt128: self.occupancy.histogram(),
            ..self.overtaking.output()
        }
    }

    fn found_of_all(stream: &EndedStream<'_>, all: &AllPackets<'_>) -> Reordering {
        let payload = stream.known.session.spec.payload();
        Reordering { observable: is_observable(stream), ..reordering(&all.series, payload) }
    }

    fn write(found: Reordering, stream: &EndedStream<'_>, to: &mut Summary) {
        to.counts.out_of_sequence = found.reordered;
        to.counts.out_of_sequence_pct = percent(found.reordered, stream.known.counted.accepted);
        to.reordering = found;
    }
}
fn density(source: &ScalarSource<'_>) -> Option<ReorderDensity> {
    source.test()?.reordering.density
}

/// Returns false for TCP, which delivers data in order and thus hides reordering.
fn is_observable(stream: &EndedStream<'_>) -> bool {
    stream.known.session.spec.transport() == Transport::Udp
}
