//! Notes about the reliability of the captures at one or two points.

use super::part::{ConnectionsPart, FoundConnection, PointPair, PointRead};
use crate::numbers::count;
use crate::verdict::list_prefixes;

/// Returns all notes.
pub(super) fn describe(found: &ConnectionsPart) -> Vec<String> {
    let points = found.points.iter().zip(found.not_followed);
    let copies = |c: &FoundConnection| c.connection.up.copies.saturating_add(c.connection.down.copies);
    let copies = found.connections.iter().map(copies).fold(0, u64::saturating_add);
    let mut notes: Vec<String> = points
        .zip([copies, 0])
        .flat_map(|((point, left), copies)| describe_point(point, left, copies.max(point.recording.copies)))
        .collect();
    if let (Some(pair), [first, second]) = (&found.pair, &found.points[..]) {
        notes.extend(describe_points([&first.name, &second.name], pair));
    }
    notes
}

fn describe_point(p: &PointRead, not_followed: u64, copies: u64) -> Vec<String> {
    let mut notes = p.notes.clone();
    notes.extend(p.recording.notes(copies));
    notes.extend(p.recording.describe_foreign(p.packets));
    if not_followed > 0 {
        notes.push(format!(
            "{} not analysed, because only 131072 connections are followed",
            count(not_followed, "segment")
        ));
    }
    if p.drops > 0 {
        notes.push(format!("the capture dropped {}, which appear as gaps", count(p.drops, "packet")));
    }
    notes
}

fn describe_points(names: [&str; 2], pair: &PointPair) -> Vec<String> {
    let sides = &pair.sides;
    let mut notes = vec![format!(
        "two capture points: {} near {}, {} near {}",
        names[0],
        list_prefixes(&sides[0].reference),
        names[1],
        list_prefixes(&sides[1].monitor)
    )];
    if pair.is_exchanged {
        notes.push(format!(
            "the captures were given in the other order: {} is the first point, because the clients are on its side",
            names[0]
        ));
    }
    if pair.direction_assumed {
        notes.push("which point is nearer to the client is uncertain: it was derived only from the clocks of the captures".to_owned());
    }
    if pair.is_translated() {
        notes.push(
            "addresses are translated between the points: results of the second point cover only packets seen at both"
                .to_owned(),
        );
    }
    if pair.same_times {
        notes.push(
            "every segment has the same timestamp at both points: is this the same capture twice?".to_owned(),
        );
    }
    if pair.unrecognised > 0 {
        notes.push(format!(
            "{}: no segment was recognised at both points, although both hosts answered each other: a device between the \
             points rewrites sequence numbers or contents, or only one point is on the path; what happened between the \
             points is unknown",
            count(pair.unrecognised, "connection")
        ));
    }
    for ((long, longest), name) in pair.long.iter().zip(names) {
        if *long > 0 && pair.long.iter().any(|other| other.0 == 0) {
            notes.push(format!(
                "{name}: {} of up to {longest} bytes, captured before the adapter segmented them, match nothing: capture with \
                 `ethtool -K IFACE tso off gso off gro off lro off`",
                count(*long, "segment")
            ));
        }
    }
    notes
}
