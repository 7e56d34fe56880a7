//! Screen report of captured calls: both directions of one call, or several calls with a line for each stream.

use super::rows::{ScreenTable, StyledCells, course, describe_buffer, describe_loss};
use super::{Screen, ScreenStream, content, trust};
use crate::text::count;
use crate::text::page::mark;
use jitlat_core::answer::{CauseId, Severity};
use jitlat_core::spec::Direction;
use jitlat_core::summary::{Level, Percent, Summary};
use jitlat_core::time::Span;
use jitlat_core::units::{duration, eng3};
use jitlat_passive::rtp::{CallStream, ClockRateSource, RtpCall, RtpResult, RtpStream, modelled_codec};

/// Maximum width of the name of a stream, in columns.
const MAX_NAME_COLUMNS: usize = 34;
/// Maximum number of lines of the table.
const MAX_LINES: usize = 8;
/// Percentile of the jitter in the table.
const P99: Percent = Percent(99_000);
/// Percentile that is the median.
const P50: Percent = Percent(50_000);

/// Captured calls with the figures of their streams.
#[derive(Clone, Copy, Debug)]
pub struct CapturedCalls<'a> {
    /// Streams and calls.
    pub result: &'a RtpResult,
    /// Figures of each stream, in the order of the result.
    pub streams: &'a [ScreenStream<'a>],
    /// Figures of each stream between two points; `None` for a stream that the second point did not see. Empty for one
    /// point.
    pub between: &'a [Option<ScreenStream<'a>>],
    /// Number of packets that the capture missed.
    pub drops: u64,
    /// Notes about the capture.
    pub notes: &'a [String],
}

impl<'a> CapturedCalls<'a> {
    /// Returns the worst verdict on the streams of the call, of their tests at one point and between two. A direction
    /// without packets is unknown; streams that repair others do not count.
    pub fn severity(&self, call: &RtpCall) -> Severity {
        let own = call.media(&self.result.streams).filter_map(|s| self.summary(s.stream));
        let between = call.media(&self.result.streams).filter_map(|s| self.between(s.stream));
        let answers = own.chain(between).filter_map(|summary| summary.answer.as_ref());
        let silent = call.silent_direction().map(|_| Severity::Unknown);
        let all = answers.map(|a| a.severity).chain(silent);
        all.max_by_key(|s| s.doubt()).unwrap_or(Severity::Unknown)
    }

    /// Returns the index of the call with the worst verdict; of several, the one with most packets. `None` without calls.
    pub fn worst(&self) -> Option<usize> {
        let packets = |call: &RtpCall| -> u64 {
            call.streams.iter().filter_map(|s| self.result.streams.get(s.stream)).map(|s| s.packets).sum()
        };
        let calls = self.result.calls.iter().enumerate();
        calls.max_by_key(|(_, call)| (self.severity(call).doubt(), packets(call))).map(|(k, _)| k)
    }

    fn summary(&self, stream: usize) -> Option<&'a Summary> {
        self.streams.get(stream).map(|s| s.summary)
    }

    /// Returns the figures of a stream between two points; `None` if there are none.
    fn between(&self, stream: usize) -> Option<&'a Summary> {
        self.between.get(stream).copied().flatten().map(|of| of.summary)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.drops > 0 {
            notes.push(format!(
                "the capture itself missed {}: some of the lost packets may be among them",
                count(self.drops, "packet")
            ));
        }
        notes.extend(self.notes.iter().cloned().chain(self.result.notes()));
        notes
    }
}

impl Screen {
    /// Creates the screen report of all calls. The worst ones come first.
    pub fn of_calls(calls: &CapturedCalls<'_>) -> Screen {
        let mut order: Vec<usize> = (0..calls.result.calls.len()).collect();
        // The sort is stable: equally bad calls stay in the order of time.
        order.sort_by_key(|k| std::cmp::Reverse(calls.severity(&calls.result.calls[*k]).doubt()));
        let all = order.len() as u64;
        let affected =
            order.iter().filter(|k| calls.severity(&calls.result.calls[**k]) > Severity::Good).count();
        let unknown =
            order.iter().filter(|k| calls.severity(&calls.result.calls[**k]) == Severity::Unknown).count();
        let worst = order.first().map_or(Severity::Unknown, |k| calls.severity(&calls.result.calls[*k]));
        let text = match (affected, unknown) {
            (0, 0) => format!("Nothing is wrong with the {}.", count(all, "call")),
            (0, n) if n as u64 == all => format!("No verdict on the {}.", count(all, "call")),
            (0, n) => {
                format!("Nothing is wrong with {} of the {all} calls; no verdict on {n}.", all - n as u64)
            }
            (1, _) => format!("1 of {} has problems; it is first.", count(all, "call")),
            (n, _) => format!("{n} of {} have problems; the worst is first.", count(all, "call")),
        };
        let lines = order.iter().flat_map(|k| {
            let call = &calls.result.calls[*k];
            let name = move |s: &CallStream| {
                let stream = calls.result.streams.get(s.stream)?;
                Some(format!("{} {} > {}", k + 1, stream.from.ip(), stream.to.ip()))
            };
            let own = call.streams.iter().filter_map(move |s| {
                let (severity, f) = figures(calls, s.stream)?;
                let [codec, _, lost, jitter, _, buffer, mos] = f;
                Some((name(s)?, cells(severity, [codec, lost, jitter, buffer, mos])))
            });
            let between = call.streams.iter().filter_map(move |s| {
                let summary = calls.between(s.stream)?;
                let severity = summary.answer.as_ref().map_or(Severity::Unknown, |a| a.severity);
                let [_, lost, jitter, buffer] = path_figures(summary);
                let dash = || "-".to_owned();
                Some((name(s)? + ", between", cells(severity, [dash(), lost, jitter, buffer, dash()])))
            });
            own.chain(between)
        });
        let mut trust = calls.notes();
        trust.extend(calls.streams.iter().find_map(|stream| jitlat_verdict::jitter_note(stream.summary)));
        trust.push("--call N shows one call; the number before a stream is that of its call".to_owned());
        trust.push(
            "MOS: with the best play-out buffer; one capture point does not see the path's delay".to_owned(),
        );
        let changes = calls.streams.iter().filter_map(|stream| {
            let causes = &stream.summary.answer.as_ref()?.causes;
            let changes = causes.iter().filter(|cause| cause.id == CauseId::RouteChange);
            changes.filter_map(|cause| cause.magnitude_ns).map(i64::saturating_abs).max()
        });
        let changes: Vec<i64> = changes.collect();
        let mut lead = vec![(Level::from(worst), text)];
        if let Some(most) = changes.iter().max() {
            let of = count(changes.len() as u64, "stream");
            lead.push((Level::Note, format!("The delay of {of} changed by up to {}.", eng3(*most as f64))));
        }
        Screen {
            lead,
            title: format!(
                "{} in {}",
                count(calls.result.streams.len() as u64, "RTP stream"),
                count(all, "call")
            ),
            table: ScreenTable {
                heads: ["verdict", "codec", "lost", "jitter p99", "buffer", "MOS"]
                    .map(str::to_owned)
                    .to_vec(),
                lines: lines.collect(),
                name: MAX_NAME_COLUMNS,
                most: MAX_LINES,
            },
            trust,
            ..Screen::default()
        }
    }

    /// Creates the screen report of the call with the index `which`; empty if there is none.
    pub fn of_call(calls: &CapturedCalls<'_>, which: usize) -> Screen {
        let Some(call) = calls.result.calls.get(which) else { return Screen::default() };
        let shown: Vec<(&RtpStream, ScreenStream<'_>)> = call
            .media(&calls.result.streams)
            .filter_map(|s| Some((calls.result.streams.get(s.stream)?, *calls.streams.get(s.stream)?)))
            .collect();
        // One point sees only what was lost before it: the packets between two points are judged like a stream.
        let own = shown.iter().map(|(_, stream)| *stream);
        let of_points =
            call.media(&calls.result.streams).filter_map(|s| calls.between.get(s.stream).copied().flatten());
        let streams: Vec<ScreenStream<'_>> = own.chain(of_points).collect();
        let labels: Vec<String> = streams.iter().map(|s| s.label.to_owned()).collect();
        let courses = streams.iter().take(shown.len()).zip(&labels).filter_map(|(stream, label)| {
            let (course, relative) = course(stream)?;
            Some((label.clone(), if relative { course.relative() } else { course }))
        });
        let first = call.streams.first().map(|s| s.direction);
        let both = call.streams.iter().any(|s| Some(s.direction) != first);
        let relation = if both { content::Relation::Directions } else { content::Relation::Separate };
        let mut trust = calls.notes();
        trust.extend(trust::jitter(&streams, &labels));
        trust.extend(shown.iter().zip(&labels).flat_map(|((stream, _), label)| facts(stream, label)));
        let between = call.media(&calls.result.streams).zip(&labels);
        trust.extend(between.filter_map(|(s, label)| one_way_delay(calls.between(s.stream)?, label)));
        trust.extend(repairs(call, &calls.result.streams));
        trust.extend(on_hold(call));
        trust.push(delay(call));
        trust.extend(trust::warnings(&streams, &labels));
        let mut lead = content::lead(&streams, &labels);
        if let (Some(silent), [(_, text)]) = (call.silent_direction(), &mut lead[..]) {
            *text = format!("{}: {text}", heading(silent.reversed()));
        }
        lead.extend(silent(call));
        Screen {
            lead,
            title: title(call, &calls.result.streams),
            table: table(calls, call),
            courses: courses.collect(),
            why: content::why(&streams, &labels),
            uses: content::uses(&streams, &labels, relation),
            trust,
            ..Screen::default()
        }
    }
}

fn heading(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "Up",
        Direction::Down => "Down",
    }
}

/// Describes a direction that has no packets.
fn silent(call: &RtpCall) -> Option<(Level, String)> {
    let name = heading(call.silent_direction()?);
    let text = format!(
        "{name}: Unknown: no packet was captured; none was sent (one-way audio), or they take another path."
    );
    Some((Severity::Unknown.into(), text))
}

/// Describes the streams that repair others: their losses are not losses of the media.
fn repairs(call: &RtpCall, streams: &[RtpStream]) -> Vec<String> {
    let all = call.streams.iter().enumerate();
    let repairs = all.filter_map(|(k, s)| Some((k, streams.get(s.stream).filter(|s| s.is_repair())?)));
    repairs
        .map(|(k, s)| {
            format!(
                "{}: {} that repair others ({}): not part of the verdict",
                call.label(k),
                count(s.packets, "packet"),
                s.codec()
            )
        })
        .collect()
}

/// Describes the times in which the call is on hold.
fn on_hold(call: &RtpCall) -> Option<String> {
    let holds = &call.signalling.as_ref()?.holds;
    let first = holds.first()?;
    let ended: Span = holds.iter().filter_map(|hold| Some(hold.to? - hold.from)).fold(Span(0), |a, b| a + b);
    Some(match (holds.len(), first.to) {
        (1, None) => "on hold: the session descriptions allow at most one side to send".to_owned(),
        (n, _) => format!("on hold {}, for {}", count(n as u64, "time"), duration(ended)),
    })
}

/// Returns the title: `call from alice@example.com to bob@example.com, 35 s, answered after 2.1 s`.
pub(crate) fn title(call: &RtpCall, streams: &[RtpStream]) -> String {
    let [caller, called] = call.ends(streams);
    let long =
        call.span(streams).map_or(String::new(), |(first, last)| format!(", {}", duration(last - first)));
    let Some(signalled) = &call.signalling else {
        return format!("call, up from {caller} to {called}{long}");
    };
    // Without the invitation, it is unknown who called, and how long the answer took.
    let Some(invited) = signalled.invited else { return format!("call between {caller} and {called}{long}") };
    let answered = signalled
        .answered
        .map_or(String::new(), |at| format!(", answered after {}", eng3((at - invited).0 as f64)));
    format!("call from {caller} to {called}{long}{answered}")
}

/// Creates the table of a call, with one line per stream.
fn table(calls: &CapturedCalls<'_>, call: &RtpCall) -> ScreenTable {
    let heads =
        ["verdict", "codec", "packets", "lost", "jitter p99", "RFC 3550", "buffer", "MOS"].map(str::to_owned);
    let line = |(k, s): (usize, &CallStream)| {
        let (severity, figures) = figures(calls, s.stream)?;
        Some((call.label(k), cells(severity, figures)))
    };
    let between = |(k, s): (usize, &CallStream)| {
        let summary = calls.between(s.stream)?;
        let severity = summary.answer.as_ref().map_or(Severity::Unknown, |a| a.severity);
        let [packets, lost, jitter, buffer] = path_figures(summary);
        let dash = || "-".to_owned();
        let figures = [dash(), packets, lost, jitter, dash(), buffer, dash()];
        Some((call.label_between(k), cells(severity, figures)))
    };
    let streams = call.streams.iter().enumerate();
    let lines = streams.clone().filter_map(line).chain(streams.filter_map(between)).collect();
    ScreenTable { heads: heads.to_vec(), lines, name: MAX_NAME_COLUMNS, most: MAX_LINES }
}

fn cells<const N: usize>(severity: Severity, figures: [String; N]) -> StyledCells {
    let mut cells: StyledCells = vec![(severity.name().to_owned(), Some(mark(severity.into()).1))];
    cells.extend(figures.map(|text| (text, None)));
    cells
}

/// Returns the verdict on a stream, and its codec, packets, losses, jitter (99th percentile, and mean by RFC 3550), buffer
/// and MOS.
fn figures(calls: &CapturedCalls<'_>, stream: usize) -> Option<(Severity, [String; 7])> {
    let (s, shown) = (calls.result.streams.get(stream)?, calls.streams.get(stream)?.summary);
    let severity = shown.answer.as_ref().map_or(Severity::Unknown, |a| a.severity);
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let [_, lost, jitter, buffer] = path_figures(shown);
    let figures = [
        s.codec(),
        s.packets.to_string(),
        lost,
        jitter,
        dash(s.jitter.map(|j| eng3(j.mean_ns))),
        buffer,
        dash(shown.best_mos().filter(|_| is_speech(s)).map(|mos| format!("{mos:.2}"))),
    ];
    Some((severity, figures))
}

/// Returns the number of packets received, losses, jitter and buffer in `s`.
fn path_figures(s: &Summary) -> [String; 4] {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let lost = match s.counts.tail_unknown && s.loss.ratio.is_none() {
        true => Some("unknown".to_owned()),
        false => (s.counts.sent > 0).then(|| describe_loss(s.counts.lost, s.counts.sent, None)),
    };
    let without = s.answer.as_ref().and_then(|answer| answer.without_clock_step.as_ref());
    let jitter = match without {
        Some(without) => Some(without.p99_ns),
        None => s.pdv_deskewed.as_ref().unwrap_or(&s.pdv).percentiles.at(P99),
    };
    [
        s.counts.received.to_string(),
        dash(lost),
        dash(jitter.map(|ns| eng3(ns as f64))),
        describe_buffer(s.answer.as_ref().and_then(|a| a.buffer_ns)),
    ]
}

/// Describes the one-way delay of a stream between two points; `None` without packets.
fn one_way_delay(s: &Summary, label: &str) -> Option<String> {
    let [median, p99] = [P50, P99].map(|percent| s.latency.percentiles.at(percent));
    let (median, p99) = median.zip(p99)?;
    if s.answer.as_ref().is_some_and(|answer| answer.without_clock_step.is_some()) {
        return Some(format!(
            "{label}, between the points: the one-way delay is unknown, because a clock was set"
        ));
    }
    Some(match s.correction() {
        Some((shift, error)) => format!(
            "{label}, between the points: one-way delay {} at the median, {} at the 99th percentile, +/- {}",
            eng3(median.saturating_sub(shift) as f64),
            eng3(p99.saturating_sub(shift) as f64),
            eng3(error)
        ),
        None => format!(
            "{label}, between the points: the one-way delay is unknown, because the clock difference is unknown"
        ),
    })
}

/// True if the clock rate of the stream is known and is not that of video.
fn is_speech(s: &RtpStream) -> bool {
    s.clock_rate.is_some_and(|rate| rate != 90_000)
}

/// Describes the facts about a stream from RTCP, payload types and silences.
fn facts(s: &RtpStream, label: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if s.over_tcp {
        let missing = match s.not_recorded {
            0 => String::new(),
            n => format!(
                "; the capture does not contain the segments of {}, so that their fate is unknown",
                count(n, "packet")
            ),
        };
        lines.push(format!("{label}: over TCP, where a lost segment delays the packets behind it{missing}"));
    }
    match (s.clock_rate_source, s.clock_rate) {
        (Some(ClockRateSource::Estimated), Some(rate)) => lines.push(format!(
            "{label}: clock rate {rate} Hz estimated from the timestamps; --payload-type gives the codec"
        )),
        (_, None) => lines.push(format!(
            "{label}: clock rate unknown, so there is no jitter: --payload-type TYPE=CODEC/RATE gives it"
        )),
        _ => {}
    }
    let codec = s.codec();
    if is_speech(s) && modelled_codec(&codec).is_none() {
        lines.push(format!("{label}: MOS as of G.711 with concealment: {codec} has no published figures"));
    }
    if let Some(r) = s.rtcp.reported {
        let jitter =
            r.max_jitter_ns.map_or(String::new(), |ns| format!(", jitter up to {}", eng3(ns as f64)));
        lines.push(format!("{label}: the receiver reports {} lost{jitter} (RTCP)", r.lost));
    }
    if let Some(v) = &s.rtcp.voip {
        let mos = v.mos_lq.or(v.mos_cq).map_or(String::new(), |mos| format!(", MOS {mos:.1}"));
        lines.push(format!(
            "{label}: the receiver reports {:.1} % lost, {:.1} % too late for its buffer of {} ms{mos} (XR)",
            100.0 * v.loss_rate,
            100.0 * v.discard_rate,
            v.buffer_ms
        ));
    }
    let mut more = Vec::new();
    if s.silences > 0 {
        more.push(format!("{} of {} in all", count(s.silences, "silence"), eng3(s.silence_ns.0 as f64)));
    }
    if s.events > 0 {
        more.push(count(s.events, "telephone event"));
    }
    if s.restarts > 0 {
        more.push(format!("begins a new numbering {}", count(s.restarts, "time")));
    }
    if s.clock_sets > 0 {
        more.push(format!("sets its media clock {}", count(s.clock_sets, "time")));
    }
    if !more.is_empty() {
        lines.push(format!("{label}: {}; none of this is loss or jitter", more.join(", ")));
    }
    lines
}

/// Describes what is known about the delay of the path.
fn delay(call: &RtpCall) -> String {
    match call.round_trip_ns {
        Some(round_trip) => format!(
            "MOS counts half of the smallest round trip, {} (RTCP), as the path's delay",
            eng3(round_trip.0 as f64)
        ),
        None => "MOS is at most this: one capture point does not see the path's delay, only its variation"
            .to_owned(),
    }
}
