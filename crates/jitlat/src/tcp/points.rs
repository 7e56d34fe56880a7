//! One capture point, and what a second one adds.

use crate::spp::join::Joined;
use anyhow::Result;
use jitlat_core::passive::flows::FlowKey;
use jitlat_core::passive::packet::decode;
use jitlat_core::passive::tcp::{Connection, DirectedEvent, DirectionFigures, EventKind, TcpAnalyzer};
use jitlat_core::passive::{FlowFigures, FlowWay, Packet};
use jitlat_core::time::Span;
use jitlat_net::capture::Capture;
use jitlat_report::figure::TcpTrace;
use serde::Serialize;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What one point saw.
pub struct Point {
    pub connections: Vec<Connection>,
    pub segments: u64,
    pub not_followed: u64,
    pub packets: u64,
    pub skipped: u64,
    pub drops: u64,
    pub notes: Vec<String>,
}

/// Reads the captures of one point; `wanted` chooses packets, `hear` is told every event.
pub fn read(
    captures: &[PathBuf],
    wanted: impl Fn(&Packet<'_>) -> bool,
    mut hear: impl FnMut(&DirectedEvent) -> Result<bool>,
) -> Result<Point> {
    let mut capture = Capture::open(captures)?;
    let mut analyzer = TcpAnalyzer::default();
    let (mut packets, mut skipped) = (0u64, 0u64);
    'frames: while let Some(f) = capture.next_frame() {
        let Ok(p) = decode(f.link, f.data, f.wire_length) else {
            skipped += 1;
            continue;
        };
        packets += 1;
        if !wanted(&p) {
            continue;
        }
        for seen in analyzer.push(f.at, &p) {
            if !hear(&seen)? {
                break 'frames;
            }
        }
    }
    let mut connections = analyzer.finish();
    connections.sort_by_key(|c| std::cmp::Reverse(c.up.bytes + c.down.bytes));
    Ok(Point {
        connections,
        segments: analyzer.segments(),
        not_followed: analyzer.not_followed(),
        packets,
        skipped,
        drops: capture.drops(),
        notes: capture.notes().to_vec(),
    })
}

/// The course of one connection, for figures: data from the client, data from the server.
pub fn trace(captures: &[PathBuf], of: &Connection) -> Result<[TcpTrace; 2]> {
    let mut capture = Capture::open(captures)?;
    let mut analyzer = TcpAnalyzer::default();
    let mut traces: [TcpTrace; 2] = Default::default();
    while let Some(f) = capture.next_frame() {
        let Ok(p) = decode(f.link, f.data, f.wire_length) else { continue };
        let ours = p.ports().is_some_and(|(a, b)| {
            let ends = (SocketAddr::new(p.src(), a), SocketAddr::new(p.dst(), b));
            ends == (of.client, of.server) || ends == (of.server, of.client)
        });
        if !ours {
            continue;
        }
        for seen in analyzer.push(f.at, &p) {
            if let (EventKind::Fast | EventKind::Timeout | EventKind::Probe, Some(waited)) =
                (seen.event.kind, seen.event.waited)
            {
                traces[usize::from(seen.from != of.client)].again(f.at.0, waited.0);
            }
        }
        for (t, s) in traces.iter_mut().zip(analyzer.status(f.at, &p).into_iter().flatten()) {
            if let Some(rtt) = s.rtt_ack {
                t.by_ack(f.at.0, rtt.0);
            }
            if let Some(rtt) = s.rtt_timestamp {
                t.by_timestamp(f.at.0, rtt.0);
            }
            if let Some(bytes) = s.in_flight {
                t.flight(f.at.0, bytes, s.window);
            }
        }
    }
    Ok(traces)
}

/// What became of one direction's segments at and between two points.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Leg {
    /// Before the first of the points that the data passes, by the gaps seen there.
    pub lost_before: Option<u64>,
    /// Between the points: seen at the one, never at the other.
    pub lost_between: u64,
    /// After the last of the points, by what was sent again although it had passed.
    pub lost_after: Option<u64>,
    /// Copies that the path between them made.
    pub duplicates: u64,
    /// Segments seen at both.
    pub at_both: u64,
    /// One-way delay between the points above its least, of each segment.
    pub delay_variation_median_ns: Option<i64>,
    /// See above.
    pub delay_variation_p95_ns: Option<i64>,
    /// See above.
    pub delay_variation_max_ns: Option<i64>,
    /// The least one-way delay, clock offset included.
    pub delay_raw_min_ns: Option<i64>,
}

/// What two points say of a connection.
#[derive(Clone, Debug, Serialize)]
pub struct Between {
    /// Data from the client.
    pub up: Leg,
    /// Data from the server.
    pub down: Leg,
    /// Least round trip from the first point to the second and back.
    pub rtt_min_ns: Option<i64>,
    /// Its median.
    pub rtt_median_ns: Option<i64>,
}

fn ends(key: &FlowKey) -> Option<[SocketAddr; 2]> {
    let end = |(prefix, port): (jitlat_core::passive::Prefix, Option<u16>)| {
        Some(SocketAddr::new(prefix.address()?, port?))
    };
    Some([end(key.reference)?, end(key.monitor)?])
}

/// Puts together what both points saw of `connections`, those of the first point.
pub fn between(connections: &[Connection], second: &Point, joined: &Joined) -> Vec<Option<Between>> {
    let there: HashMap<(SocketAddr, SocketAddr), &Connection> = second
        .connections
        .iter()
        .flat_map(|c| [((c.client, c.server), c), ((c.server, c.client), c)])
        .collect();
    let flows: HashMap<[SocketAddr; 2], &FlowFigures> =
        joined.flows.iter().filter_map(|f| Some((ends(&f.key?)?, f))).collect();
    let one = |c: &Connection| {
        let near = flows.get(&[c.client, c.server]);
        let f = near.or_else(|| flows.get(&[c.server, c.client]))?;
        let other = there.get(&(c.client, c.server));
        // Lanes of the other point by who sends, whichever end it takes for the client.
        let lanes = other.map(|o| if o.client == c.client { [&o.up, &o.down] } else { [&o.down, &o.up] });
        // Data from the client pass the first point first where the client is on its side.
        let client_near = near.is_some();
        let leg =
            |way: &FlowWay, here: &DirectionFigures, there: Option<&DirectionFigures>, here_first: bool| {
                let (before, after) = if here_first { (Some(here), there) } else { (there, Some(here)) };
                Leg {
                    lost_before: before.map(|l| l.lost_before),
                    lost_between: way.lost,
                    lost_after: after.map(|l| l.lost_after),
                    duplicates: way.duplicates,
                    at_both: way.matched,
                    delay_variation_median_ns: way.delay_variation_median_ns,
                    delay_variation_p95_ns: way.delay_variation_p95_ns,
                    delay_variation_max_ns: way.delay_variation_max_ns,
                    delay_raw_min_ns: way.delay_raw_min_ns,
                }
            };
        let (up, down) = if client_near { (&f.out, &f.back) } else { (&f.back, &f.out) };
        Some(Between {
            up: leg(up, &c.up, lanes.map(|l| l[0]), client_near),
            down: leg(down, &c.down, lanes.map(|l| l[1]), !client_near),
            rtt_min_ns: f.rtt_ns.map(|r| r.min),
            rtt_median_ns: f.rtt_ns.map(|r| r.median),
        })
    };
    connections.iter().map(one).collect()
}

/// Time of a connection, at least a nanosecond.
pub fn duration(c: &Connection) -> Span {
    (c.last - c.first).max(Span(1))
}
