//! [`BetweenPoints`]: what two capture points show of a connection that each alone cannot.

use super::{Connection, DirectionFigures};
use crate::passive::flows::FlowKey;
use crate::passive::{FlowFigures, FlowWay, Prefix};
use core::net::SocketAddr;
use serde::Serialize;
use std::collections::HashMap;

/// The fate of one direction's segments at and between two points.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectionBetween {
    /// Lost before the first point that the data passes, from the gaps seen there.
    pub lost_before: Option<u64>,
    /// Lost between the points: seen at one, not at the other.
    pub lost_between: u64,
    /// Lost after the last point, from retransmissions of data that had passed.
    pub lost_after: Option<u64>,
    /// Duplicates made by the path between them.
    pub duplicates: u64,
    /// Segments seen at both.
    pub at_both: u64,
    /// One-way delay between the points above its smallest, of each segment.
    pub delay_variation_median_ns: Option<i64>,
    /// See above.
    pub delay_variation_p95_ns: Option<i64>,
    /// See above.
    pub delay_variation_max_ns: Option<i64>,
    /// Smallest one-way delay, clock offset included.
    pub delay_raw_min_ns: Option<i64>,
}

impl DirectionBetween {
    /// From the figures at the point that the data passes first and at the other, as far as known.
    fn new(
        way: &FlowWay,
        first: Option<&DirectionFigures>,
        last: Option<&DirectionFigures>,
    ) -> DirectionBetween {
        DirectionBetween {
            lost_before: first.map(|d| d.lost_before),
            lost_between: way.lost,
            lost_after: last.map(|d| d.lost_after),
            duplicates: way.duplicates,
            at_both: way.matched,
            delay_variation_median_ns: way.delay_variation_median_ns,
            delay_variation_p95_ns: way.delay_variation_p95_ns,
            delay_variation_max_ns: way.delay_variation_max_ns,
            delay_raw_min_ns: way.delay_raw_min_ns,
        }
    }
}

/// What two points show of a connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BetweenPoints {
    /// Data from the client.
    pub up: DirectionBetween,
    /// Data from the server.
    pub down: DirectionBetween,
    /// Smallest round trip from the first point to the second and back.
    pub rtt_min_ns: Option<i64>,
    /// Its median.
    pub rtt_median_ns: Option<i64>,
}

fn ends(key: &FlowKey) -> Option<[SocketAddr; 2]> {
    let end = |(prefix, port): (Prefix, Option<u16>)| Some(SocketAddr::new(prefix.address()?, port?));
    Some([end(key.reference)?, end(key.monitor)?])
}

/// Combines what both points saw of `connections` (those of the first point, in order). `second` are the other point's
/// connections, `flows` the fate of the segments between them.
pub fn put_together(
    connections: &[Connection],
    second: &[Connection],
    flows: &[FlowFigures],
) -> Vec<Option<BetweenPoints>> {
    let there: HashMap<(SocketAddr, SocketAddr), &Connection> =
        second.iter().flat_map(|c| [((c.client, c.server), c), ((c.server, c.client), c)]).collect();
    let flows: HashMap<[SocketAddr; 2], &FlowFigures> =
        flows.iter().filter_map(|f| Some((ends(&f.key?)?, f))).collect();
    let of_connection = |c: &Connection| {
        let near = flows.get(&[c.client, c.server]);
        let flow = near.or_else(|| flows.get(&[c.server, c.client]))?;
        // Directions of the other point by sender, whichever end it considers the client.
        let other = there.get(&(c.client, c.server)).map(|o| match o.client == c.client {
            true => [&o.up, &o.down],
            false => [&o.down, &o.up],
        });
        // Data from the client pass the first point first where the client is on its side.
        let [up, down] = match near.is_some() {
            true => [
                DirectionBetween::new(&flow.out, Some(&c.up), other.map(|o| o[0])),
                DirectionBetween::new(&flow.back, other.map(|o| o[1]), Some(&c.down)),
            ],
            false => [
                DirectionBetween::new(&flow.back, other.map(|o| o[0]), Some(&c.up)),
                DirectionBetween::new(&flow.out, Some(&c.down), other.map(|o| o[1])),
            ],
        };
        let rtt = flow.rtt_ns;
        Some(BetweenPoints { up, down, rtt_min_ns: rtt.map(|r| r.min), rtt_median_ns: rtt.map(|r| r.median) })
    };
    connections.iter().map(of_connection).collect()
}
