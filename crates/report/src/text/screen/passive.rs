//! Screen report of captured traffic.

use super::rows::{ScreenTable, describe_buffer, describe_loss, row_of};
use super::{Screen, Timeline, content, trust};
use crate::text::count;
use crate::text::passive::describe_bounds;
use jitlat_core::summary::{Level, Summary};
use jitlat_core::units::eng3;
use jitlat_passive::verdict::list_prefixes;
use jitlat_passive::{CapturePoint, MatchedFigures, PassiveResult};

impl Screen {
    /// Creates the screen report of two captures: `ways` are the judged figures of OUT and IN if the packets were retained,
    /// `round_trips` is the timeline of the pairs, `notes` are added to those of the result.
    pub fn of_captures(
        r: &PassiveResult,
        ways: Option<[&Summary; 2]>,
        round_trips: Timeline,
        notes: &[String],
    ) -> Screen {
        let s = &r.summary;
        let rtt = s.rtt_ns.map(|f| [f.median as f64, f.p99 as f64, f.p99.saturating_sub(f.min) as f64]);
        let mut rows = vec![row_of("round trip", rtt, rtt.map(|_| "none".to_owned()), None)];
        let offset = s.clocks.offset_ns.zip(s.clocks.offset_bound_ns);
        for (label, way, sign) in [("out", &s.out, 1.0), ("in", &s.back, -1.0)] {
            let variation = way.delay_variation_ns.map(|d| d.p99 as f64);
            let delay = way.delay_raw_ns.zip(offset).zip(variation).map(|((d, (offset, _)), variation)| {
                [d.median as f64 - sign * offset, d.p99 as f64 - sign * offset, variation]
            });
            let error = offset.map_or("unknown".to_owned(), |(_, bound)| eng3(bound));
            let losses = match (r.offload(), way.loss_bounds) {
                (Some(_), _) => Some("unknown".to_owned()),
                (None, Some(bounds)) => Some(describe_bounds(bounds)),
                (None, None) => lost(way),
            };
            let mut row = row_of(label, delay, Some(error), losses);
            if delay.is_none() {
                row.figures[3] = variation.map_or_else(|| "-".to_owned(), eng3);
            }
            rows.push(row);
        }
        let samples = Default::default();
        let streams: Vec<super::ScreenStream<'_>> = ways
            .into_iter()
            .flat_map(|ways| ["out", "in"].into_iter().zip(ways))
            .map(|(label, summary)| super::ScreenStream { label, summary, samples: &samples })
            .collect();
        let labels = ["out", "in"].map(str::to_owned);
        for (row, stream) in rows.iter_mut().skip(1).zip(&streams) {
            let answer = stream.summary.answer.as_ref();
            row.severity = answer.map(|a| a.severity);
            row.figures[5] = describe_buffer(answer.and_then(|a| a.buffer_ns));
        }
        let offload = r.explain_offload();
        let mut lead = vec![offload.clone().map_or_else(|| found(r), |text| (Level::Bad, text))];
        if r.is_measured() && offload.is_none() {
            lead.extend(content::lead(&streams, &labels));
        }
        let mut said = r.notes();
        said.extend(notes.iter().cloned());
        if r.is_measured() {
            let clocks =
                "a round trip adds the delays of a packet out and the next one in, so clock offsets cancel";
            said.push(clocks.to_owned());
            said.extend(trust::jitter(&streams, &labels));
            said.extend(trust::warnings(&streams, &labels));
        }
        Screen {
            lead,
            title: format!(
                "captures at {} (reference) and {} (monitor)",
                list_prefixes(&r.plan.sides[0].reference),
                list_prefixes(&r.plan.sides[1].monitor)
            ),
            table: ScreenTable::of_rows(&rows),
            courses: if round_trips.is_empty() {
                Vec::new()
            } else {
                vec![("round trip".into(), round_trips)]
            },
            why: content::why(&streams, &labels),
            uses: content::uses(&streams, &labels, content::Relation::Directions),
            trust: said,
            full: "--verbose",
            ..Screen::default()
        }
    }
}

/// Returns the result in one sentence, with its level.
fn found(r: &PassiveResult) -> (Level, String) {
    let s = &r.summary;
    if !r.is_measured() {
        return (Level::Bad, "Nothing measured: no packet was recognised at both points.".to_owned());
    }
    let Some(rtt) = s.rtt_ns else {
        return (Level::Note, "No round trips: packets in both directions are needed.".to_owned());
    };
    let lost = ways_of(r).into_iter().zip(["out", "in"]).map(|((w, source), way)| {
        let lost = match w.counts.lost {
            0 => format!("none {way}"),
            n => format!("{n} of {} {way}", n + w.counts.matched),
        };
        match (w.undecided(source), w.loss_bounds) {
            (n @ 1.., Some(bounds)) => {
                format!("{lost}, and {n} of unknown fate, so {} are lost", describe_bounds(bounds))
            }
            _ => lost,
        }
    });
    let lost: Vec<String> = lost.collect();
    let is_undecided = s.out.loss_bounds.is_some() || s.back.loss_bounds.is_some();
    let separator = if is_undecided { "; " } else { ", " };
    let text = format!(
        "{}: half within {}, 99 % within {}. Packets lost: {}.",
        count(s.pairs, "round trip"),
        eng3(rtt.median as f64),
        eng3(rtt.p99 as f64),
        lost.join(separator)
    );
    (Level::Good, text)
}

/// Returns the figures of both directions, each with the point that its packets pass first.
fn ways_of(r: &PassiveResult) -> [(&MatchedFigures, CapturePoint); 2] {
    [(&r.summary.out, CapturePoint::Reference), (&r.summary.back, CapturePoint::Monitor)]
}

fn lost(way: &MatchedFigures) -> Option<String> {
    let (lost, all) = (way.counts.lost, way.counts.lost + way.counts.matched);
    (all > 0).then(|| describe_loss(lost, all, None))
}
