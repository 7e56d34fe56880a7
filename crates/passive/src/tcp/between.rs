//! [`BetweenPoints`]: results for a connection that need two capture points.

use super::{DirectionFigures, ObservedConnection};
use crate::flows::FlowKey;
use crate::{FlowDirection, FlowFigures, Sides};
use core::net::SocketAddr;
use jitlat_core::prefix::Prefix;
use jitlat_core::spec::Direction;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Losses, duplicates and delays of one direction's segments, at and between two points. Values that are unknown are
/// `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectionBetween {
    /// Number of segments lost before the first point that the data passes, from the gaps seen there.
    pub lost_before: Option<u64>,
    /// Number of segments lost between the points: seen at the first, not at the second.
    pub lost_between: u64,
    /// Number of segments lost after the last point, from retransmissions of data that had passed it.
    pub lost_after: Option<u64>,
    /// Number of duplicates made by the path between the points.
    pub duplicates: u64,
    /// Number of segments seen at both points.
    pub at_both: u64,
    /// Median one-way delay of the segments between the points, above the smallest, in ns.
    pub delay_variation_median_ns: Option<i64>,
    /// 95th percentile of the one-way delay above the smallest, in ns.
    pub delay_variation_p95_ns: Option<i64>,
    /// Largest one-way delay above the smallest, in ns.
    pub delay_variation_max_ns: Option<i64>,
    /// Smallest one-way delay, including the clock offset, in ns.
    pub delay_raw_min_ns: Option<i64>,
}

impl DirectionBetween {
    /// Combines the statistics of the point that the data passes first with those of the other point; a point's
    /// statistics are `None` if unknown.
    fn new(
        direction: &FlowDirection,
        first: Option<&DirectionFigures>,
        last: Option<&DirectionFigures>,
    ) -> DirectionBetween {
        DirectionBetween {
            lost_before: first.map(|d| d.lost_before),
            lost_between: direction.lost,
            lost_after: last.map(|d| d.lost_after),
            duplicates: direction.duplicates,
            at_both: direction.matched,
            delay_variation_median_ns: direction.delay_variation_median_ns,
            delay_variation_p95_ns: direction.delay_variation_p95_ns,
            delay_variation_max_ns: direction.delay_variation_max_ns,
            delay_raw_min_ns: direction.delay_raw_min_ns,
        }
    }
}

/// Results for a connection at two points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BetweenPoints {
    /// Data from the client.
    pub up: DirectionBetween,
    /// Data from the server.
    pub down: DirectionBetween,
    /// Smallest round trip from the first point to the second and back, in ns; `None` if unknown.
    pub rtt_min_ns: Option<i64>,
    /// Median round trip from the first point to the second and back, in ns; `None` if unknown.
    pub rtt_median_ns: Option<i64>,
}

fn ends(key: &FlowKey) -> Option<[SocketAddr; 2]> {
    let end = |(prefix, port): (Prefix, Option<u16>)| Some(SocketAddr::new(prefix.address()?, port?));
    Some([end(key.reference)?, end(key.monitor)?])
}

/// A side has the clients if the connections in the other direction have fewer segments by this factor.
const MIN_MAJORITY: u64 = 10;

/// Returns true if the clients are on the side of the monitor point, false if they are on the side of the reference
/// point, and `None` if this is unknown or both sides have clients. `connections` are those of the monitor point, and
/// `sides` the addresses that it sees at the two ends. The flows have the addresses that the reference point sees, so
/// that only the sides show where the clients are if a device between the points translates addresses.
pub fn are_clients_at_monitor(
    connections: &[ObservedConnection],
    flows: &[FlowFigures],
    sides: &Sides,
) -> Option<bool> {
    let known: HashSet<[SocketAddr; 2]> = flows.iter().filter_map(|f| ends(&f.key?)).collect();
    let direction = |c: &ObservedConnection| match [[c.client, c.server], [c.server, c.client]]
        .map(|ends| known.contains(&ends))
    {
        [true, _] => Some(Direction::Up),
        [_, true] => Some(Direction::Down),
        _ => sides.direction_between(c.client.ip(), c.server.ip()),
    };
    let segments = |c: &ObservedConnection| c.up.segments.saturating_add(c.down.segments);
    let of = |wanted: Direction| -> u64 {
        connections.iter().filter(|c| direction(c) == Some(wanted)).map(segments).sum()
    };
    let (at_reference, at_monitor) = (of(Direction::Up), of(Direction::Down));
    let (fewer, more) = (at_reference.min(at_monitor), at_reference.max(at_monitor));
    (more > fewer.saturating_mul(MIN_MAJORITY)).then_some(at_monitor > at_reference)
}

/// Comparison of a connection at two points.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// The connection was seen at only one point.
    AtOnePoint,
    /// Both hosts answered each other, but no segment was recognised at both points: a device between them rewrites
    /// sequence numbers or contents, or the connection passes only one of them.
    NothingRecognised,
    /// Results for the connection.
    Compared(Box<BetweenPoints>),
}

impl Comparison {
    /// Returns the results; `None` if there are none.
    pub fn compared(self) -> Option<BetweenPoints> {
        match self {
            Comparison::Compared(between) => Some(*between),
            Comparison::AtOnePoint | Comparison::NothingRecognised => None,
        }
    }
}

/// True if both hosts answered each other in a connection of which at most the first segment was recognised at both
/// points. That segment alone proves nothing: a device may change only the sequence numbers of the other host.
fn is_unrecognised(c: &ObservedConnection, flow: &FlowFigures) -> bool {
    let matched = flow.out.matched.saturating_add(flow.back.matched);
    let lost = flow.out.lost.saturating_add(flow.back.lost);
    matched <= 1 && lost > matched && [&c.up, &c.down].iter().all(|d| d.segments > 1)
}

/// Combines the results of both points for `connections` (those of the first point, in order). `second` are
/// the other point's connections, `flows` the fates of the segments between the points. `is_reference` is true if the
/// first point is the reference point of the flows.
pub fn put_together(
    connections: &[ObservedConnection],
    second: &[ObservedConnection],
    flows: &[FlowFigures],
    is_reference: bool,
) -> Vec<Comparison> {
    let there: HashMap<(SocketAddr, SocketAddr), &ObservedConnection> =
        second.iter().flat_map(|c| [((c.client, c.server), c), ((c.server, c.client), c)]).collect();
    let flows: HashMap<[SocketAddr; 2], &FlowFigures> =
        flows.iter().filter_map(|f| Some((ends(&f.key?)?, f))).collect();
    let of_connection = |c: &ObservedConnection| {
        let near = flows.get(&[c.client, c.server]);
        let Some(flow) = near.or_else(|| flows.get(&[c.server, c.client])) else {
            return Comparison::AtOnePoint;
        };
        if is_unrecognised(c, flow) {
            return Comparison::NothingRecognised;
        }
        // Directions of the other point by sender, regardless of which end it considers the client.
        let other = there.get(&(c.client, c.server)).map(|o| match o.client == c.client {
            true => [&o.up, &o.down],
            false => [&o.down, &o.up],
        });
        let [from_client, from_server] = match near.is_some() {
            true => [&flow.out, &flow.back],
            false => [&flow.back, &flow.out],
        };
        // Data from the client passes the first point first if the client is on its side.
        let [up, down] = match near.is_some() == is_reference {
            true => [
                DirectionBetween::new(from_client, Some(&c.up), other.map(|o| o[0])),
                DirectionBetween::new(from_server, other.map(|o| o[1]), Some(&c.down)),
            ],
            false => [
                DirectionBetween::new(from_client, other.map(|o| o[0]), Some(&c.up)),
                DirectionBetween::new(from_server, Some(&c.down), other.map(|o| o[1])),
            ],
        };
        let rtt = flow.rtt_ns;
        let (rtt_min_ns, rtt_median_ns) = (rtt.map(|r| r.min), rtt.map(|r| r.median));
        Comparison::Compared(Box::new(BetweenPoints { up, down, rtt_min_ns, rtt_median_ns }))
    };
    connections.iter().map(of_connection).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowRtt, Grouping, LinkType, decode};
    use jitlat_core::time::WallTime;

    fn connection(client: &str, server: &str, up: u64, down: u64) -> ObservedConnection {
        let of = |n| DirectionFigures { lost_before: n, lost_after: n + 1, ..DirectionFigures::default() };
        ObservedConnection {
            client: client.parse().unwrap(),
            server: server.parse().unwrap(),
            first: WallTime(0),
            last: WallTime(9),
            handshake_server_ns: None,
            handshake_client_ns: None,
            up: of(up),
            down: of(down),
        }
    }

    /// A flow between 10.0.0.1:5000 behind the first point and 10.0.0.2:5001, with 7 packets lost from 10.0.0.1 and
    /// 8 towards it.
    fn flow(grouping: Grouping) -> FlowFigures {
        let ip = [
            0x45, 0, 0, 28, 0, 7, 0x40, 0, 64, 6, 1, 2, 10, 0, 0, 1, 10, 0, 0, 2, 0x13, 0x88, 0x13, 0x89, 0,
            8, 3, 4,
        ];
        let key = FlowKey::of(&decode(LinkType::RAW, &ip, 28).unwrap(), Direction::Up, grouping);
        let direction = |lost| FlowDirection {
            lost,
            matched: 10 * lost,
            duplicates: lost + 1,
            ..FlowDirection::default()
        };
        let rtt = FlowRtt { min: 5, median: 6, mean: 6.5, p95: 7, max: 8 };
        FlowFigures {
            key: Some(key),
            flow: key.to_string(),
            pairs: 1,
            rtt_ns: Some(rtt),
            out: direction(7),
            back: direction(8),
            first: WallTime(0),
            last: WallTime(9),
        }
    }

    const A: &str = "10.0.0.1:5000";
    const B: &str = "10.0.0.2:5001";

    fn losses(d: &DirectionBetween) -> (Option<u64>, u64, Option<u64>, u64, u64) {
        (d.lost_before, d.lost_between, d.lost_after, d.duplicates, d.at_both)
    }

    fn between(near: ObservedConnection, far: &[ObservedConnection]) -> Option<BetweenPoints> {
        let [between] = put_together(&[near], far, &[flow(Grouping::Flow)], true).try_into().unwrap();
        between.compared()
    }

    #[test]
    fn losses_lie_before_between_and_behind_the_points() {
        // A client behind the first point: its data passes the first point first.
        let b = between(connection(A, B, 10, 20), &[connection(A, B, 30, 40)]).unwrap();
        assert_eq!(losses(&b.up), (Some(10), 7, Some(31), 8, 70));
        assert_eq!(losses(&b.down), (Some(40), 8, Some(21), 9, 80));
        assert_eq!((b.rtt_min_ns, b.rtt_median_ns), (Some(5), Some(6)));
        // A client behind the second point.
        let b = between(connection(B, A, 10, 20), &[connection(B, A, 30, 40)]).unwrap();
        assert_eq!(losses(&b.up), (Some(30), 8, Some(11), 9, 80));
        assert_eq!(losses(&b.down), (Some(20), 7, Some(41), 8, 70));
    }

    #[test]
    fn the_first_point_may_be_the_monitor_of_the_flows() {
        let of = |client: &str, server: &str| {
            let flows = [flow(Grouping::Flow)];
            let (mut own, other) = (connection(client, server, 10, 20), connection(client, server, 30, 40));
            own.up.segments = 1;
            let clients = are_clients_at_monitor(std::slice::from_ref(&own), &flows, &Sides::default());
            let between = put_together(&[own], &[other], &flows, false).remove(0).compared().unwrap();
            (clients, losses(&between.up), losses(&between.down))
        };
        // The server is at the reference point, the client at the first one.
        let (clients, up, down) = of(B, A);
        assert_eq!((clients, up), (Some(true), (Some(10), 8, Some(31), 9, 80)));
        assert_eq!(down, (Some(40), 7, Some(21), 8, 70));
        assert_eq!(of(A, B).0, Some(false));
        assert_eq!(are_clients_at_monitor(&[], &[flow(Grouping::Flow)], &Sides::default()), None);
    }

    #[test]
    fn behind_a_translation_the_sides_show_where_the_clients_are() {
        let prefix = |text: &str| vec![Prefix::from(text.parse::<std::net::IpAddr>().unwrap())];
        let sides = Sides { reference: prefix("198.51.100.7"), monitor: prefix("192.168.1.9") };
        let of = |client: &str, server: &str| {
            let mut own = connection(client, server, 10, 20);
            own.up.segments = 100;
            are_clients_at_monitor(&[own], &[flow(Grouping::Flow)], &sides)
        };
        assert_eq!(of("192.168.1.9:40000", "198.51.100.7:80"), Some(true));
        assert_eq!(of("198.51.100.7:40000", "192.168.1.9:80"), Some(false));
        assert_eq!(of("203.0.113.1:40000", "192.168.1.9:80"), None);
    }

    #[test]
    fn clients_on_both_sides_say_nothing_about_the_order_of_the_points() {
        let of = |segments: [u64; 2]| {
            let mut both = [connection(A, B, 0, 0), connection(B, A, 0, 0)];
            both.iter_mut().zip(segments).for_each(|(c, n)| c.up.segments = n);
            are_clients_at_monitor(&both, &[flow(Grouping::Flow)], &Sides::default())
        };
        assert_eq!([[100, 90], [90, 100], [100, 11]].map(of), [None; 3]);
        assert_eq!([[100, 1], [1, 100]].map(of), [Some(false), Some(true)]);
    }

    #[test]
    fn a_connection_of_which_no_segment_is_recognised_is_not_lost() {
        let of = |answers: u64, matched: u64| {
            let mut rewritten = flow(Grouping::Flow);
            (rewritten.out.matched, rewritten.back.matched) = (matched, 0);
            let mut c = connection(A, B, 0, 0);
            (c.up.segments, c.down.segments) = (9, answers);
            put_together(&[c], &[], &[rewritten], true).remove(0)
        };
        assert_eq!(of(9, 0), Comparison::NothingRecognised);
        assert_eq!(of(9, 1), Comparison::NothingRecognised);
        // Without answers the packets may in fact be lost; recognised packets can be compared.
        assert!(of(0, 0).compared().is_some() && of(9, 2).compared().is_some());
    }

    #[test]
    fn the_points_may_disagree_on_who_is_the_client() {
        let b = between(connection(A, B, 10, 20), &[connection(B, A, 30, 40)]).unwrap();
        assert_eq!((b.up.lost_after, b.down.lost_before), (Some(41), Some(30)));
        let alone = between(connection(A, B, 10, 20), &[]).unwrap();
        assert_eq!(
            (alone.up.lost_before, alone.up.lost_after, alone.down.lost_before),
            (Some(10), None, None)
        );
    }

    #[test]
    fn a_connection_without_a_flow_of_its_own_is_known_at_one_point_alone() {
        assert_eq!(between(connection(A, "10.0.0.3:80", 1, 2), &[]), None);
        let prefixes = flow(Grouping::Prefix { v4: 24, v6: 64 });
        assert_eq!(put_together(&[connection(A, B, 1, 2)], &[], &[prefixes], true), [Comparison::AtOnePoint]);
        assert!(put_together(&[], &[], &[], true).is_empty());
    }
}
