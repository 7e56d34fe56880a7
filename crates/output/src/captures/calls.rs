//! [`CallsReport`]: RTP streams and calls of captures, in all requested formats.

use crate::error::Result;
use crate::pages;
use crate::report::{AnalysedStream, Drawings, Report, ReportStreams, ReportTable};
use crate::screen;
use crate::text::{self as stream_text, PageOptions};
use jitlat_core::{Direction, Summary};
use jitlat_instruments::Analysed;
use jitlat_instruments::passive::RtpOutcome;
use jitlat_passive::rtp::{RtpCall, RtpResult};
use jitlat_report::Section;
use jitlat_report::text::screen::{CapturedCalls, Screen, ScreenStream};
use jitlat_report::{FirstScreen, call_section, text};
use jitlat_store::passive::{CallInput, rtp_document};
use serde_json::Value;

/// Report of RTP streams and calls.
pub struct CallsReport {
    result: RtpResult,
    /// All streams, in the order of the result, then their packets between two points.
    runs: Vec<AnalysedStream>,
    /// Streams of the call that is drawn, each with its index in `runs`, from where its samples were moved.
    drawn: Vec<AnalysedStream>,
    drawn_from: Vec<usize>,
    /// For each stream of the result, the index in `runs` of its packets between two points; `None` if the second point
    /// did not see it. Empty for one point.
    between: Vec<Option<usize>>,
    /// Index of the call that is drawn.
    which: usize,
    /// True if the report is about one call only.
    is_one: bool,
    section: Option<Section>,
    packets: u64,
    skipped: u64,
    drops: u64,
    notes: Vec<String>,
}

impl CallsReport {
    /// Creates the report of all calls, or of the call with the index `only`.
    pub fn new(outcome: RtpOutcome, only: Option<usize>) -> CallsReport {
        let RtpOutcome { result, streams, between, packets, skipped, drops, notes } = outcome;
        let mut runs: Vec<AnalysedStream> = streams.into_iter().map(AnalysedStream::from).collect();
        let mut add = |of: Option<Analysed>| {
            runs.push(of?.into());
            Some(runs.len() - 1)
        };
        let indices: Vec<Option<usize>> = between.into_iter().map(&mut add).collect();
        for (n, call) in result.calls.iter().enumerate() {
            for (k, stream) in call.streams.iter().enumerate() {
                let before = if result.calls.len() > 1 { format!("call {} ", n + 1) } else { String::new() };
                let name = |run: &mut AnalysedStream, label: &str| {
                    run.label = format!("{before}{label}");
                    run.heading = format!("== {}\n", run.label);
                    run.file_ending = run.label.replace(", ", "-").replace(' ', "-");
                };
                runs.get_mut(stream.stream).into_iter().for_each(|run| name(run, &call.label(k)));
                let of = indices.get(stream.stream).copied().flatten().and_then(|index| runs.get_mut(index));
                of.into_iter().for_each(|run| name(run, &call.label_between(k)));
            }
        }
        let mut report = CallsReport {
            is_one: only.is_some() || result.calls.len() == 1,
            result,
            runs,
            drawn: Vec::new(),
            drawn_from: Vec::new(),
            between: indices,
            which: 0,
            section: None,
            packets,
            skipped,
            drops,
            notes,
        };
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method is not general in its lifetime"
        )]
        let worst = report.with(|calls| calls.worst());
        report.which = only.or(worst).unwrap_or(0);
        report.section = report.with(|calls| call_section(calls, report.which));
        report.move_samples();
        report
    }

    /// Moves the samples of the drawn call's streams from `runs` to `drawn`.
    fn move_samples(&mut self) {
        let Some(call) = self.result.calls.get(self.which) else { return };
        let own = call.streams.iter().enumerate().map(|(k, s)| (s.stream, call.label(k)));
        let between = call.streams.iter().enumerate().filter_map(|(k, s)| {
            Some((self.between.get(s.stream).copied().flatten()?, call.label_between(k)))
        });
        for (index, label) in own.chain(between) {
            let Some(run) = self.runs.get_mut(index) else { continue };
            let analysed = Analysed {
                session: run.session.clone(),
                summary: run.summary.clone(),
                samples: std::mem::take(&mut run.samples),
            };
            self.drawn.push(AnalysedStream {
                label,
                heading: run.heading.clone(),
                file_ending: run.file_ending.clone(),
                ..analysed.into()
            });
            self.drawn_from.push(index);
        }
    }

    /// Calls `show` with the calls and the figures of all streams.
    fn with<T>(&self, show: impl FnOnce(&CapturedCalls<'_>) -> T) -> T {
        let mut streams: Vec<ScreenStream<'_>> = screen::streams(&self.runs);
        for (own, index) in screen::streams(&self.drawn).into_iter().zip(&self.drawn_from) {
            streams.get_mut(*index).into_iter().for_each(|stream| *stream = own);
        }
        let between: Vec<Option<ScreenStream<'_>>> =
            self.between.iter().map(|index| streams.get((*index)?).copied()).collect();
        let CallsReport { result, drops, notes, .. } = self;
        show(&CapturedCalls { result, streams: &streams, between: &between, drops: *drops, notes })
    }

    fn summaries_between(&self) -> Vec<Option<&Summary>> {
        self.between.iter().map(|index| self.runs.get((*index)?).map(|run| &run.summary)).collect()
    }

    /// Returns the screen report: one call in detail, or all calls with one line per stream.
    pub fn screen(&self) -> Screen {
        self.with(|calls| match self.is_one {
            true => Screen::of_call(calls, self.which),
            false => Screen::of_calls(calls),
        })
    }

    /// Returns the verdict in one line.
    pub fn line(&self) -> String {
        match self.is_one {
            true => stream_text::line(&self.drawn).trim_end().to_owned() + &self.silent() + "\n",
            false => self.screen().headline() + "\n",
        }
    }

    /// States that a direction of the call has no packets; empty otherwise.
    fn silent(&self) -> String {
        let silent = self.result.calls.get(self.which).and_then(RtpCall::silent_direction);
        silent.map_or(String::new(), |direction| {
            let name = match direction {
                Direction::Up => "up",
                Direction::Down => "down",
            };
            format!(" {name}: Unknown: no packet was captured.")
        })
    }

    /// Returns the full report: the RTP and RTCP figures of the calls and, if the report is about one call, all figures
    /// of its streams.
    pub fn full_text(&self) -> String {
        let all: Vec<usize> = (0..self.result.calls.len()).collect();
        let shown = if self.is_one { std::slice::from_ref(&self.which) } else { &all[..] };
        let calls = text::calls(&self.result, shown);
        match self.is_one {
            true => format!("{calls}\n{}", stream_text::page(&self.drawn, PageOptions::default())),
            false => calls,
        }
    }

    /// Returns the streams to which conditions apply, also those between two points: those of the call if the report is
    /// about one call, otherwise all.
    pub fn judged(&self) -> &[AnalysedStream] {
        if self.is_one { &self.drawn } else { &self.runs }
    }
}

impl Report for CallsReport {
    fn json(&self) -> Result<Value> {
        let CallsReport { result, packets, skipped, drops, .. } = self;
        let summaries: Vec<&Summary> = self.runs.iter().map(|run| &run.summary).collect();
        let between = self.summaries_between();
        let (packets, skipped, drops) = (*packets, *skipped, *drops);
        let of = CallInput { result, summaries: &summaries, between: &between, packets, skipped, drops };
        Ok(serde_json::to_value(rtp_document(of, &self.notes))?)
    }

    fn streams(&self) -> &[AnalysedStream] {
        self.judged()
    }

    fn table(&self) -> Option<ReportTable> {
        let only = self.is_one.then_some(self.which);
        Some(self.with(|calls| table(&self.result, calls, only)))
    }

    fn section(&self) -> Option<&Section> {
        self.section.as_ref()
    }

    fn page(&self) -> Result<String> {
        Ok(pages::page(&self.drawn, self.section()))
    }

    fn first_screen(&self) -> Option<FirstScreen> {
        pages::first_screen(&self.drawn, self.section())
    }

    fn draw(&self, each: &mut Drawings<'_>) -> Result<()> {
        ReportStreams::of(&self.drawn).draw(each)
    }
}

/// Returns a table with one line per stream, of all calls or of the call with the index `only`.
fn table(result: &RtpResult, calls: &CapturedCalls<'_>, only: Option<usize>) -> ReportTable {
    let mut lines = ReportTable::new();
    let calls_shown = result.calls.iter().enumerate().filter(|(n, _)| only.is_none_or(|only| only == *n));
    for (n, call) in calls_shown {
        for (k, of) in call.streams.iter().enumerate() {
            let (Some(s), Some(shown)) = (result.streams.get(of.stream), calls.streams.get(of.stream)) else {
                continue;
            };
            let or_empty = |text: Option<String>| text.unwrap_or_default();
            let answer = shown.summary.answer.as_ref();
            let signalling = call.signalling.as_ref();
            let cells = [
                ("call", (n + 1).to_string()),
                ("call_id", or_empty(signalling.map(|c| c.call_id.clone()))),
                ("direction", call.label(k)),
                ("from", s.from.to_string()),
                ("to", s.to.to_string()),
                ("ssrc", format!("{:08x}", s.ssrc)),
                ("codec", s.codec()),
                ("clock_rate", or_empty(s.clock_rate.map(|rate| rate.to_string()))),
                ("first_ns", s.first.0.to_string()),
                ("last_ns", s.last.0.to_string()),
                ("packets", s.packets.to_string()),
                ("expected", s.expected.to_string()),
                ("lost", s.lost.to_string()),
                ("duplicates", s.duplicates.to_string()),
                ("reordered", s.reordered.to_string()),
                ("max_delta_ns", or_empty(s.max_delta_ns.map(|span| span.0.to_string()))),
                ("jitter_mean_ns", or_empty(s.jitter.map(|j| format!("{:.0}", j.mean_ns)))),
                ("jitter_max_ns", or_empty(s.jitter.map(|j| format!("{:.0}", j.max_ns)))),
                ("silences", s.silences.to_string()),
                ("events", s.events.to_string()),
                ("severity", or_empty(answer.map(|a| a.severity.name().to_owned()))),
                ("buffer_ns", or_empty(answer.and_then(|a| a.buffer_ns).map(|ns| ns.to_string()))),
                ("mos", or_empty(shown.summary.best_mos().map(|mos| format!("{mos:.3}")))),
            ];
            lines.push(cells.map(|(name, value)| (name.to_owned(), value)).to_vec());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::analysis::Options;
    use jitlat_core::answer::Severity;
    use jitlat_instruments::passive::{RtpCaptures, RtpSource};
    use jitlat_instruments::{Stop, Unobserved};
    use std::path::PathBuf;

    /// Analyses the example of a call: nothing is wrong up, packets are lost down.
    fn call() -> RtpOutcome {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rtp/call.pcap");
        let source = RtpSource::Files(vec![PathBuf::from(path)]);
        let options: Options = jitlat_verdict::options();
        RtpCaptures::default().analyse(&source, &options, &Stop::default(), &mut Unobserved).unwrap()
    }

    #[test]
    fn losses_between_two_points_are_part_of_the_verdict() {
        let mut outcome = call();
        // Both points see a good stream up, and packets are lost between them.
        let lossy = outcome.streams.pop().unwrap();
        outcome.streams.push(outcome.streams[0].clone());
        let alone = CallsReport::new(outcome.clone(), None);
        assert_eq!(alone.json().unwrap()["calls"][0]["severity"], "good");
        outcome.between = vec![Some(lossy), None];
        let report = CallsReport::new(outcome, None);
        assert_eq!(report.json().unwrap()["calls"][0]["severity"], "fair");
        assert_eq!(report.with(|calls| calls.severity(&calls.result.calls[0])), Severity::Fair);
        let labels: Vec<&str> = report.judged().iter().map(|run| &*run.label).collect();
        assert_eq!(labels, ["up", "down", "up, between"]);
        assert!(report.judged()[2].samples.seq.len() > 400, "drawn");
        assert!(report.line().contains("up, between: Fair"), "{}", report.line());
        let screen = report.screen().show(&screen::options());
        assert!(screen.contains("Up, between: Fair"), "{screen}");
        assert!(report.full_text().contains("== up, between"));
    }

    #[test]
    fn an_answered_call_without_packets_of_one_side_is_not_good() {
        let mut outcome = call();
        outcome.result.calls[0].streams.retain(|s| s.direction == Direction::Up);
        let report = CallsReport::new(outcome, None);
        assert_eq!(report.json().unwrap()["calls"][0]["severity"], "unknown");
        let screen = report.screen().show(&screen::options());
        assert!(screen.contains("Down: Unknown: no packet was captured"), "{screen}");
        assert!(screen.contains("Up: Good"), "{screen}");
        assert!(report.line().contains("down: Unknown"), "{}", report.line());
    }

    #[test]
    fn scores_of_another_codec_are_left_out() {
        let of = |name: &str| {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rtp/call.pcap");
            let formats = [0, 8].map(|n| format!("{n}={name}/8000").parse().unwrap()).to_vec();
            let captures = RtpCaptures { formats, ..RtpCaptures::default() };
            let source = RtpSource::Files(vec![PathBuf::from(path)]);
            let options: Options = jitlat_verdict::options();
            let outcome = captures.analyse(&source, &options, &Stop::default(), &mut Unobserved).unwrap();
            CallsReport::new(outcome, None).screen().show(&screen::options())
        };
        let [own, other] = [of("PCMU"), of("G729")];
        let scores =
            |screen: &str| screen.lines().any(|line| line.starts_with("For") && line.contains("MOS"));
        assert!(scores(&own), "{own}");
        assert!(!scores(&other), "the line would have the score of G.711: {other}");
        assert!(other.contains(" 4.10"), "the score of G.729: {other}");
    }
}
