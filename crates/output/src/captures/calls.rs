//! [`CallsReport`]: RTP streams and calls of captures, in all requested formats.

use crate::error::Result;
use crate::pages;
use crate::report::{AnalysedStream, Drawings, Report, ReportStreams, ReportTable};
use crate::screen;
use crate::text::{self as stream_text, PageOptions};
use jitlat_core::Summary;
use jitlat_instruments::passive::RtpOutcome;
use jitlat_passive::rtp::RtpResult;
use jitlat_report::Section;
use jitlat_report::text::screen::{CapturedCalls, Screen, ScreenStream};
use jitlat_report::{FirstScreen, call_section, text};
use jitlat_store::passive::{CallInput, rtp_document};
use serde_json::Value;

/// Report of RTP streams and calls.
pub struct CallsReport {
    result: RtpResult,
    /// All streams, in the order of the result.
    runs: Vec<AnalysedStream>,
    /// Streams of the call that is drawn; their samples were moved from `runs`.
    drawn: Vec<AnalysedStream>,
    /// Packets of each stream between two points, in the order of the result; `None` for a stream that the second point
    /// did not see. Empty for one point.
    between: Vec<Option<AnalysedStream>>,
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
        for (n, call) in result.calls.iter().enumerate() {
            for (k, stream) in call.streams.iter().enumerate() {
                let Some(run) = runs.get_mut(stream.stream) else { continue };
                let label = call.label(k);
                run.label = if result.calls.len() > 1 { format!("call {} {label}", n + 1) } else { label };
                run.heading = format!("== {}\n", run.label);
                run.file_ending = run.label.replace(' ', "-");
            }
        }
        let mut report = CallsReport {
            is_one: only.is_some() || result.calls.len() == 1,
            result,
            runs,
            drawn: Vec::new(),
            between: between.into_iter().map(|of| of.map(AnalysedStream::from)).collect(),
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
        for (k, stream) in call.streams.iter().enumerate() {
            let Some(run) = self.runs.get_mut(stream.stream) else { continue };
            let drawn = AnalysedStream {
                label: call.label(k),
                heading: run.heading.clone(),
                ..jitlat_instruments::Analysed {
                    session: run.session.clone(),
                    summary: run.summary.clone(),
                    samples: std::mem::take(&mut run.samples),
                }
                .into()
            };
            self.drawn.push(drawn);
        }
    }

    /// Calls `show` with the calls and the figures of all streams.
    fn with<T>(&self, show: impl FnOnce(&CapturedCalls<'_>) -> T) -> T {
        let mut streams: Vec<ScreenStream<'_>> = screen::streams(&self.runs);
        if let Some(call) = self.result.calls.get(self.which) {
            for (drawn, stream) in self.drawn.iter().zip(&call.streams) {
                if let Some(own) = streams.get_mut(stream.stream) {
                    *own = ScreenStream {
                        label: &drawn.label,
                        summary: &drawn.summary,
                        samples: &drawn.samples,
                    };
                }
            }
        }
        let between = self.summaries_between();
        let CallsReport { result, drops, notes, .. } = self;
        show(&CapturedCalls { result, streams: &streams, between: &between, drops: *drops, notes })
    }

    fn summaries_between(&self) -> Vec<Option<&Summary>> {
        self.between.iter().map(|of| of.as_ref().map(|run| &run.summary)).collect()
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
            true => stream_text::line(&self.drawn),
            false => self.screen().headline() + "\n",
        }
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

    /// Returns the streams to which conditions apply: those of the call if the report is about one call, otherwise all.
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
        Some(self.with(|calls| table(&self.result, calls)))
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

/// Returns a table with one line per stream.
fn table(result: &RtpResult, calls: &CapturedCalls<'_>) -> ReportTable {
    let mut lines = ReportTable::new();
    for (n, call) in result.calls.iter().enumerate() {
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
