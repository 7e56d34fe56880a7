//! [`FlowAnalyzer`]: results of each flow, or of each pair of prefixes, in bounded memory.
//!
//! Pairs are made from the packets of a single flow, so that a flow's round trip does not depend on the class
//! of service of others.

pub(super) mod key;

use super::matcher::MatchObserver;
use super::pairing::{Pairer, Record};
use super::spread::SpanSpread;
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};
pub use key::{FlowKey, FlowNumbers, Grouping, MAX_FLOWS, OTHER_FLOWS, OTHER_FLOWS_NAME, UNKNOWN_FLOW};
use serde::Serialize;

fn round_trips(of: &SpanSpread) -> Option<FlowRtt> {
    let f = of.figures(0)?;
    Some(FlowRtt { min: f.min, median: f.median, mean: f.mean, p95: f.p95, max: f.max })
}

/// Round trips of a flow, in ns. Extremes and mean are exact; quantiles are exact for up to 256 values and at
/// most 1/64 too high for more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowRtt {
    /// Smallest value.
    pub min: i64,
    /// Median.
    pub median: i64,
    /// Mean.
    pub mean: f64,
    /// 95th percentile.
    pub p95: i64,
    /// Largest value.
    pub max: i64,
}

/// Results for one direction of a flow. Delays are `None` without matched packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowDirection {
    /// Number of packets recognised at both points.
    pub matched: u64,
    /// Number of bytes in the packets recognised at both points, including IP headers.
    pub bytes: u64,
    /// Number of packets that did not arrive.
    pub lost: u64,
    /// Number of duplicates that arrived.
    pub duplicates: u64,
    /// Smallest raw delay, including the clock offset, in ns.
    pub delay_raw_min_ns: Option<i64>,
    /// Mean delay above the smallest, in ns.
    pub delay_variation_mean_ns: Option<f64>,
    /// Median delay above the smallest, in ns; at most 1/64 too high.
    pub delay_variation_median_ns: Option<i64>,
    /// 95th percentile of the delay above the smallest, in ns; at most 1/64 too high.
    pub delay_variation_p95_ns: Option<i64>,
    /// Largest delay above the smallest, in ns.
    pub delay_variation_max_ns: Option<i64>,
}

/// Results for one flow, or one pair of prefixes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowFigures {
    /// Addresses and ports of the flow; `None` for flows beyond [`MAX_FLOWS`].
    #[serde(skip)]
    pub key: Option<FlowKey>,
    /// Key as text; "others" for flows beyond [`MAX_FLOWS`], "unknown" for packets seen only at a point that
    /// does not know flows.
    pub flow: String,
    /// Number of synthetic pairs made from the flow's packets.
    pub pairs: u64,
    /// Round trips of the flow's synthetic pairs; `None` without pairs.
    pub rtt_ns: Option<FlowRtt>,
    /// Results for packets from the reference to the monitor point.
    pub out: FlowDirection,
    /// Results for packets from the monitor to the reference point.
    #[serde(rename = "in")]
    pub back: FlowDirection,
    /// Time of the first packet, on the reference clock.
    pub first: WallTime,
    /// Time of the last packet, on the reference clock.
    pub last: WallTime,
}

#[derive(Clone, Debug)]
struct FlowState {
    pairer: Pairer,
    rtt: SpanSpread,
    directions: [FlowDirection; 2],
    /// Raw delays in each direction.
    delays: [SpanSpread; 2],
    span: Option<(WallTime, WallTime)>,
}

impl Default for FlowState {
    fn default() -> FlowState {
        FlowState {
            pairer: Pairer::default(),
            rtt: SpanSpread::of_flow(),
            directions: Default::default(),
            delays: [SpanSpread::of_flow(), SpanSpread::of_flow()],
            span: None,
        }
    }
}

/// A [`MatchObserver`] that computes the results of each flow.
#[derive(Clone, Debug, Default)]
pub struct FlowAnalyzer {
    /// States of the flows, by flow number.
    states: Vec<FlowState>,
    others: FlowState,
    unknown: FlowState,
    max_turnaround: Option<Span>,
}

impl FlowAnalyzer {
    /// Creates an analyser that omits pairs whose packets are more than `max_turnaround` apart at the
    /// monitor.
    pub fn new(max_turnaround: Option<Span>) -> FlowAnalyzer {
        FlowAnalyzer { max_turnaround, ..FlowAnalyzer::default() }
    }

    /// Returns the results of all flows that have packets, sorted by bytes, largest first. `keys` contains the keys by
    /// flow number.
    pub fn figures(&self, keys: &[FlowKey]) -> Vec<FlowFigures> {
        let named = self.states.iter().zip(keys).map(|(s, key)| (s, Some(key), key.to_string()));
        let rest =
            [(&self.others, None, OTHER_FLOWS_NAME.to_owned()), (&self.unknown, None, "unknown".to_owned())];
        let has_packets = named.chain(rest).filter(|(s, ..)| s.has_packets());
        let mut list: Vec<FlowFigures> = has_packets.map(|(s, key, name)| s.figures(key, name)).collect();
        list.sort_by(|a, b| {
            (b.out.bytes + b.back.bytes, &a.flow).cmp(&(a.out.bytes + a.back.bytes, &b.flow))
        });
        list
    }

    #[inline]
    fn state(&mut self, flow: u32) -> &mut FlowState {
        let n = flow as usize;
        if n >= MAX_FLOWS {
            return if flow == UNKNOWN_FLOW { &mut self.unknown } else { &mut self.others };
        }
        if n >= self.states.len() {
            self.states.resize_with(n + 1, FlowState::default);
        }
        &mut self.states[n]
    }
}

impl FlowState {
    /// True if the flow has any packets.
    fn has_packets(&self) -> bool {
        self.span.is_some() || self.directions.iter().any(|w| w.lost + w.duplicates > 0)
    }

    fn figures(&self, key: Option<&FlowKey>, flow: String) -> FlowFigures {
        let direction = |w: usize| {
            let counts = self.directions[w];
            let Some(raw) = self.delays[w].figures(0) else { return counts };
            let Some(above) = self.delays[w].figures(raw.min) else { return counts };
            FlowDirection {
                delay_raw_min_ns: Some(raw.min),
                delay_variation_mean_ns: Some(above.mean),
                delay_variation_median_ns: Some(above.median),
                delay_variation_p95_ns: Some(above.p95),
                delay_variation_max_ns: Some(above.max),
                ..counts
            }
        };
        let (first, last) = self.span.unwrap_or((WallTime(0), WallTime(0)));
        FlowFigures {
            key: key.copied(),
            flow,
            pairs: self.rtt.count(),
            rtt_ns: round_trips(&self.rtt),
            out: direction(0),
            back: direction(1),
            first,
            last,
        }
    }
}

impl MatchObserver for FlowAnalyzer {
    fn record(&mut self, r: Record) {
        let limit = self.max_turnaround;
        let s = self.state(r.flow);
        if let Some(pair) = s.pairer.push(r)
            && limit.is_none_or(|m| pair.turnaround() <= m)
        {
            s.rtt.push(pair.rtt().0);
        }
    }

    fn arrived(&mut self, _seq: u64, r: Record, copy: bool) {
        let s = self.state(r.flow);
        let w = r.direction as usize;
        if copy {
            s.directions[w].duplicates += 1;
            return;
        }
        s.directions[w].matched += 1;
        s.directions[w].bytes += u64::from(r.length);
        s.delays[w].push(r.delay().0);
        let span = s.span.get_or_insert((r.reference, r.reference));
        *span = (span.0.min(r.reference), span.1.max(r.reference));
    }

    fn lost(&mut self, direction: Direction, _seq: u64, _sent: WallTime, flow: u32) {
        self.state(flow).directions[direction as usize].lost += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::key::tests::key;
    use super::*;

    #[test]
    fn each_flow_makes_its_own_pairs() {
        let mut flows = FlowAnalyzer::new(None);
        let record = |direction, at: i64, delay: i64, flow| {
            let (r, m) = if direction == Direction::Up { (at, at + delay) } else { (at + delay, at) };
            Record {
                direction,
                reference: WallTime(r * 1_000_000),
                monitor: WallTime(m * 1_000_000),
                length: 100,
                flow,
            }
        };
        for (direction, at, delay, flow) in [
            (Direction::Up, 0, 10, 0),
            (Direction::Up, 1, 10, 1),
            (Direction::Down, 12, 20, 0),
            (Direction::Down, 13, 400, 1),
        ] {
            flows.record(record(direction, at, delay, flow));
            flows.arrived(0, record(direction, at, delay, flow), false);
        }
        flows.lost(Direction::Up, 9, WallTime(0), 1);
        flows.lost(Direction::Down, 10, WallTime(0), UNKNOWN_FLOW);
        let keys = [0, 1].map(|n| key([10, 0, 0, n], [1, 1, 1, 1], Direction::Up, Grouping::Flow));
        let mut f = flows.figures(&keys);
        let unknown = f.pop().unwrap();
        assert_eq!((unknown.flow.as_str(), unknown.back.lost), ("unknown", 1));
        let rtt: Vec<_> = f.iter().map(|f| f.rtt_ns.unwrap().median / 1_000_000).collect();
        assert_eq!((rtt, f[1].out.lost, f[0].out.lost, f[0].pairs), (vec![30, 410], 1, 0, 1));
        assert!(f[0].flow.starts_with("udp 10.0.0.0:"), "{}", f[0].flow);
    }

    fn record(direction: Direction, reference: i64, monitor: i64, length: u32, flow: u32) -> Record {
        Record { direction, reference: WallTime(reference), monitor: WallTime(monitor), length, flow }
    }

    #[test]
    fn flows_come_with_the_largest_first_and_their_counts() {
        let mut flows = FlowAnalyzer::new(None);
        for (r, copy) in [
            (record(Direction::Up, 10, 40, 100, 0), false),
            (record(Direction::Up, 20, 55, 30, 1), false),
            (record(Direction::Down, 90, 60, 90, 1), false),
            (record(Direction::Up, 21, 99, 30, 1), true),
            (record(Direction::Up, 22, 99, 30, 1), true),
            (record(Direction::Up, 30, 62, 10, 1), false),
            (record(Direction::Up, 1, 9, 30, 2), true),
        ] {
            flows.arrived(0, r, copy);
        }
        let keys = [0, 1, 2, 3].map(|n| key([10, 0, 0, n], [1, 1, 1, 1], Direction::Up, Grouping::Flow));
        let figures = flows.figures(&keys);
        let order: Vec<_> = figures.iter().map(|f| (f.out.bytes, f.back.bytes)).collect();
        assert_eq!(order, [(40, 90), (100, 0), (0, 0)], "a flow of copies alone is one, too");
        let first = &figures[0];
        assert_eq!((first.out.matched, first.out.duplicates, first.back.matched), (2, 2, 1));
        assert_eq!((first.first, first.last), (WallTime(20), WallTime(90)));
        assert_eq!((first.out.delay_raw_min_ns, first.out.delay_variation_max_ns), (Some(32), Some(3)));
    }

    #[test]
    fn pairs_too_far_apart_at_the_monitor_are_left_out() {
        let pairs = |most| {
            let mut flows = FlowAnalyzer::new(most);
            for r in [record(Direction::Up, 10, 40, 1, 0), record(Direction::Down, 90, 60, 1, 0)] {
                flows.record(r);
                flows.arrived(0, r, false);
            }
            flows.figures(&[key([10, 0, 0, 1], [1, 1, 1, 1], Direction::Up, Grouping::Flow)])[0].pairs
        };
        assert_eq!([None, Some(Span(20)), Some(Span(19))].map(pairs), [1, 1, 0]);
    }
}
