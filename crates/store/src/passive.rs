//! Analyses of captures, as JSON (`docs/formats/passive-json.md`) and as lines.
//!
//! * [`spp_document`], [`tcp_document`] – the whole analysis as one object; [`stream_traffic`] – the part about a
//!   test's own stream
//! * [`write_sizes`] – round trips by packet size, one line each
//! * [`PairLines`] – one line per pair, in the format of the CAIA tool
//! * [`write_tcp_event`] – one line per event of a TCP connection
//! * [`read_pings`] – round trips of ping, to compare with

mod lines;
mod pings;
mod sizes;

pub use lines::{PairColumns, PairLines, write_tcp_event};
pub use pings::{PingsError, read_pings};
pub use sizes::write_sizes;

use jitlat_core::passive::link::fit_sizes;
use jitlat_core::passive::pipeline::CaptureFacts;
use jitlat_core::passive::tcp::{BetweenPoints, Connection, TcpResult, explain_delays};
use jitlat_core::passive::verdict::describe_identity;
use jitlat_core::passive::{LinkQuestion, PassiveResult, PingFigures, PingSource, Prefix, StreamTraffic};
use jitlat_core::summary::Summary;
use serde_json::{Value, json};
use std::path::Path;

/// Passive round trips. `ping` has the round trips of ping in the same time, `link` the question about the link, `ways`
/// the figures of both ways, `notes` further notes.
///
/// # Errors
/// A value that JSON cannot hold.
pub fn spp_document(
    r: &PassiveResult,
    ping: PingFigures,
    link: Option<&LinkQuestion>,
    ways: &[&Summary],
    notes: &[String],
) -> serde_json::Result<Value> {
    let side = |p: &[Prefix]| p.iter().map(ToString::to_string).collect::<Vec<_>>();
    let capture = |f: &CaptureFacts| {
        json!({
            "frames": f.frames, "ip_packets": f.packets, "between_the_sides": f.ours,
            "too_short": f.too_short, "truncated": f.truncated, "malformed": f.malformed,
            "disordered": f.disordered, "capture_drops": f.drops,
            "first_ns": f.span.map(|s| s.0), "last_ns": f.span.map(|s| s.1),
        })
    };
    Ok(json!({
        "instrument": "spp",
        "version": 1,
        "reference_addresses": side(&r.plan.sides[0].reference),
        "monitor_addresses": side(&r.plan.sides[1].monitor),
        "identity": describe_identity(&r.identity),
        "captures": { "reference": capture(&r.captures[0]), "monitor": capture(&r.captures[1]) },
        "summary": r.summary,
        "sizes": sizes::values(&r.sizes, link)?,
        "link": match link {
            Some(LinkQuestion::Compare(link)) => serde_json::to_value(link)?,
            Some(LinkQuestion::Fit { tunnel }) => serde_json::to_value(fit_sizes(&r.sizes, *tunnel))?,
            None => Value::Null,
        },
        "ping_rtt_ns": ping[PingSource::Capture as usize],
        "ping_file_rtt_ns": ping[PingSource::File as usize],
        "flows": r.flows,
        "directions": ways,
        "notes": r.notes().iter().chain(notes).collect::<Vec<_>>(),
    }))
}

/// The TCP connections in captures.
///
/// # Errors
/// A value that JSON cannot hold.
pub fn tcp_document(r: &TcpResult) -> serde_json::Result<Value> {
    Ok(json!({
        "instrument": "tcp",
        "version": 1,
        "segments": r.first.segments,
        "capture_drops": r.first.drops,
        "notes": r.notes,
        "connections": tcp_connections(r)?,
    }))
}

/// A test's own stream as captured at this host, for the summary of the test. `saved` is the file with the packets.
///
/// # Errors
/// A value that JSON cannot hold.
pub fn stream_traffic(s: &StreamTraffic, saved: Option<&Path>) -> serde_json::Result<Value> {
    Ok(json!({
        "interface": s.interface,
        "file": saved,
        "sent": s.sent,
        "received": s.received,
        "capture_drops": s.tcp.first.drops,
        "tcp_segments": s.tcp.first.segments,
        "connections": tcp_connections(&s.tcp)?,
        "delays": s.delays.iter().map(|(direction, causes)| json!({
            "direction": direction,
            "explained": causes,
        })).collect::<Vec<_>>(),
        "notes": s.notes,
    }))
}

/// The connections alone, each with the result from two points and with what delayed its data, as text.
///
/// # Errors
/// A value that JSON cannot hold.
pub fn tcp_connections(r: &TcpResult) -> serde_json::Result<Vec<Value>> {
    let one = |(c, between): (&Connection, Option<&BetweenPoints>)| {
        let mut value = serde_json::to_value(c)?;
        if let Some(object) = value.as_object_mut() {
            object.insert("between".to_owned(), serde_json::to_value(between)?);
            object.insert("explained".to_owned(), explain_delays(c, between).into());
        }
        Ok(value)
    };
    r.connections().map(one).collect()
}
