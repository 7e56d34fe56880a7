//! Table of the screen report: one row per stream or, if that is too wide, one column per stream.

use super::layout::MAX_STREAMS;
use super::{ScreenStream, Timeline};
use crate::text::above_zero;
use crate::text::is_one_host;
use crate::text::page::{WordStyle, mark};
use jitlat_core::answer::{CauseId, JitterWithoutStep, Severity};
use jitlat_core::summary::{Distribution, LocalQueue, Percent, Summary};
use jitlat_core::summary::{NoInterval, ShareInterval};
use jitlat_core::twoway::{DirectionResult, FarReport};
use jitlat_core::units::eng3;
use jitlat_verdict as verdict;

const P99: Percent = Percent(99_000);
/// Minimum number of packets for a 99th percentile.
pub(super) const MIN_PACKETS_FOR_P99: u64 = 100;
const P90: Percent = Percent(90_000);
/// Minimum number of packets for a 90th percentile.
const MIN_PACKETS_FOR_P90: u64 = 10;

/// Basis of a delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DelayKnowledge {
    /// Send and receive times are from the same clock.
    One,
    /// Two clocks: the subtracted correction, and its maximum error, in ns.
    Bounded(i64, f64),
    /// Two clocks: the subtracted correction, whose error is unknown.
    Unbounded(i64),
    /// Two clocks whose offset is unknown.
    Unknown,
    /// Two clocks whose estimated offset contradicts the delays.
    Contradicted,
    /// Two clocks, one of which was set during the test.
    Set,
}

impl DelayKnowledge {
    /// Returns the basis of a test's delays.
    pub(super) fn of(s: &Summary) -> DelayKnowledge {
        if s.is_round_trip() {
            return DelayKnowledge::One;
        }
        if without_step(s).is_some() {
            return DelayKnowledge::Set;
        }
        if is_one_host(s) {
            return DelayKnowledge::One;
        }
        match s.correction() {
            Some((shift, error)) => DelayKnowledge::checked(shift, error, s.latency.min),
            None => match s.clock.correction_ns {
                Some(shift) => DelayKnowledge::Unbounded(shift),
                None => DelayKnowledge::Unknown,
            },
        }
    }

    fn of_way(s: &Summary, way: &DirectionResult) -> DelayKnowledge {
        if way.without_clock_step.is_some() {
            return DelayKnowledge::Set;
        }
        if is_one_host(s) {
            return DelayKnowledge::One;
        }
        match (way.clock.correction_ns, way.clock.bound_ns) {
            (Some(shift), Some(error)) => DelayKnowledge::checked(shift, error, way.latency.min),
            (Some(shift), None) => DelayKnowledge::Unbounded(shift),
            _ => DelayKnowledge::Unknown,
        }
    }

    /// Checks an estimated clock offset: a corrected delay cannot be negative by more than the error.
    fn checked(shift: i64, error: f64, least: Option<i64>) -> DelayKnowledge {
        match least {
            Some(least) if (least.saturating_sub(shift) as f64) < -error => DelayKnowledge::Contradicted,
            _ => DelayKnowledge::Bounded(shift, error),
        }
    }

    /// Correction subtracted from raw delays; `None` if absolute delays are meaningless.
    fn shift(self) -> Option<i64> {
        match self {
            DelayKnowledge::One => Some(0),
            DelayKnowledge::Bounded(shift, _) | DelayKnowledge::Unbounded(shift) => Some(shift),
            DelayKnowledge::Unknown | DelayKnowledge::Contradicted | DelayKnowledge::Set => None,
        }
    }

    fn error(self) -> String {
        match self {
            DelayKnowledge::One => "none".to_owned(),
            DelayKnowledge::Bounded(_, error) => eng3(error),
            DelayKnowledge::Unbounded(_) | DelayKnowledge::Unknown | DelayKnowledge::Contradicted => {
                "unknown".to_owned()
            }
            DelayKnowledge::Set => "clock set".to_owned(),
        }
    }
}

/// Figures of a stream as text; `-` if undefined.
#[derive(Clone, Debug)]
pub(super) struct FigureRow {
    pub label: String,
    /// Verdict; `None` if the stream is not judged separately.
    pub severity: Option<Severity>,
    /// Figures in the order of [`HEADS`], without the verdict; of [`SMALL_HEADS`] if `small`.
    pub figures: [String; 6],
    /// True if there are too few packets for percentiles beyond the 90th.
    pub small: bool,
}

/// Headings of the columns, without the first.
const HEADS: [&str; 7] = ["verdict", "delay p50", "p99", "+/-", "jitter p99", LOST, "buffer"];

/// Headings of the columns, without the first, for a stream with too few packets for percentiles beyond the 90th.
const SMALL_HEADS: [&str; 7] = ["verdict", "delay min", "mean", "p90", "max", "+/-", LOST];

/// Heading of the losses without intervals.
const LOST: &str = "lost";
/// Heading of the losses with their intervals.
const LOST_WITH_INTERVAL: &str = "lost (95 %)";

impl FigureRow {
    /// Returns the row of a stream. If the stream is `alone`, the rows of the two directions of its round trips follow,
    /// if known.
    pub(super) fn of_stream(label: &str, s: &Summary, alone: bool) -> Vec<FigureRow> {
        if let Some(report) = s.two_way.as_ref().and_then(|t| t.far_report) {
            return vec![FigureRow::of_far_report(label, s, &report)];
        }
        // For a few packets, as ping sends them, extremes say more than percentiles, most of which are undefined.
        let small = alone && s.is_round_trip() && (1..MIN_PACKETS_FOR_P99).contains(&s.counts.sent);
        let shown = if small { small_figures } else { figures };
        let whole = FigureRow {
            label: label.to_owned(),
            severity: s.answer.as_ref().map(|a| a.severity),
            small,
            figures: shown(RowFigures {
                clocks: DelayKnowledge::of(s),
                delay: &s.latency,
                jitter: jitter(without_step(s), s.pdv_deskewed.as_ref().unwrap_or(&s.pdv)),
                lost: lost(s),
                buffer: s.answer.as_ref().and_then(|a| a.buffer_ns),
            }),
        };
        let ways =
            s.two_way.as_ref().filter(|_| alone).map(|t| [("up", t.up.as_ref()), ("down", t.down.as_ref())]);
        let ways = ways.into_iter().flatten().filter_map(|(label, way)| {
            let way = way?;
            Some(FigureRow {
                label: label.to_owned(),
                severity: None,
                small,
                figures: shown(RowFigures {
                    clocks: DelayKnowledge::of_way(s, way),
                    delay: &way.latency,
                    jitter: jitter(
                        way.without_clock_step.as_ref(),
                        way.pdv_deskewed.as_ref().unwrap_or(&way.pdv),
                    ),
                    lost: lost_on(way),
                    buffer: None,
                }),
            })
        });
        let queue = shown_queue(s).map(|q| {
            let error = if q.bounded > 0 { "at most" } else { "none" };
            let none = || "-".to_owned();
            let figures = match small {
                true => [none(), none(), none(), none(), error.to_owned(), none()],
                false => [eng3(q.median), eng3(q.p99 as f64), error.to_owned(), none(), none(), none()],
            };
            FigureRow { label: "local queue".to_owned(), severity: None, figures, small }
        });
        std::iter::once(whole).chain(queue).chain(ways).collect()
    }
}

/// Returns the time that packets spent in the sending host's own queue, if it is significant.
pub(super) fn shown_queue(s: &Summary) -> Option<&LocalQueue> {
    s.local_queue.as_ref().filter(|_| s.answer.as_ref().is_some_and(|a| a.names(CauseId::LocalQueue)))
}

impl FigureRow {
    /// Returns the row of a one-way test for which the far host reports counts and the extremes of the delays.
    fn of_far_report(label: &str, s: &Summary, report: &FarReport) -> FigureRow {
        let (sent, lost) = (s.counts.sent, s.counts.sent.saturating_sub(report.received));
        let loss = (sent > 0).then(|| describe_loss(lost, sent, None));
        let severity = s.answer.as_ref().map(|a| a.severity);
        FigureRow { severity, ..row_of(label, None, Some("unknown".to_owned()), loss) }
    }
}

/// Returns the 99th percentile of `d`, in ns; `None` if there are too few packets.
fn p99(d: &Distribution) -> Option<f64> {
    d.percentile(P99).filter(|_| d.n >= MIN_PACKETS_FOR_P99).map(|ns| ns as f64)
}

/// Returns the 99th percentile of the jitter, in ns: that of `without` if a clock was set, otherwise that of `raw`.
fn jitter(without: Option<&JitterWithoutStep>, raw: &Distribution) -> Option<f64> {
    without.map_or_else(|| p99(raw), |without| Some(without.p99_ns as f64))
}

/// Returns the jitter without the clock step; `None` if no clock was set during the stream.
pub(super) fn without_step(s: &Summary) -> Option<&JitterWithoutStep> {
    s.answer.as_ref()?.without_clock_step.as_ref()
}

struct RowFigures<'a> {
    clocks: DelayKnowledge,
    delay: &'a Distribution,
    /// 99th percentile of the jitter, in ns; `None` if there are too few packets.
    jitter: Option<f64>,
    lost: Option<String>,
    buffer: Option<i64>,
}

fn figures(of: RowFigures<'_>) -> [String; 6] {
    let [median, p99] = delays(&of, [of.delay.median, p99(of.delay)]);
    let error = if of.delay.n == 0 { "-".to_owned() } else { of.clocks.error() };
    [
        median,
        p99,
        error,
        of.jitter.map_or_else(|| "-".to_owned(), eng3),
        of.lost.unwrap_or_else(|| "-".to_owned()),
        describe_buffer(of.buffer),
    ]
}

/// Returns the figures of a stream with few packets, in the order of [`SMALL_HEADS`].
fn small_figures(of: RowFigures<'_>) -> [String; 6] {
    let d = of.delay;
    let p90 = d.percentile(P90).filter(|_| d.n >= MIN_PACKETS_FOR_P90).map(|ns| ns as f64);
    let [min, max] = [d.min, d.max].map(|ns| ns.map(|ns| ns as f64));
    let [min, mean, p90, max] = delays(&of, [min, d.mean, p90, max]);
    let error = if d.n == 0 { "-".to_owned() } else { of.clocks.error() };
    [min, mean, p90, max, error, of.lost.unwrap_or_else(|| "-".to_owned())]
}

/// Formats delays in ns, corrected if necessary.
fn delays<const N: usize>(of: &RowFigures<'_>, raw: [Option<f64>; N]) -> [String; N] {
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), eng3);
    let shift = of.clocks.shift();
    let corrected = |raw: Option<f64>| raw.zip(shift).map(|(ns, shift)| ns - shift as f64);
    // No packet arrives before it was sent: if the median is negative, only its upper bound is known, and the
    // row shows upper bounds.
    let is_bound = corrected(of.delay.median).is_some_and(|ns| ns <= 0.0);
    let delay = |raw: Option<f64>| match (corrected(raw), of.clocks) {
        (Some(ns), DelayKnowledge::Bounded(_, error)) if is_bound || ns <= 0.0 => {
            format!("<{}", eng3(ns + error))
        }
        (corrected, _) => time(corrected),
    };
    raw.map(delay)
}

/// Returns a row of three times in ns: median of the delay, 99th percentile of the delay, and 99th percentile of the
/// jitter. `error` describes the basis of the delay.
pub(super) fn row_of(
    label: &str,
    ns: Option<[f64; 3]>,
    error: Option<String>,
    lost: Option<String>,
) -> FigureRow {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let [p50, p99, jitter] = [0, 1, 2].map(|k| dash(ns.map(|ns| eng3(ns[k]))));
    let figures = [p50, p99, dash(error), jitter, dash(lost), "-".to_owned()];
    FigureRow { label: label.to_owned(), severity: None, figures, small: false }
}

/// Describes the loss of a stream; `None` if it cannot be observed.
fn lost(s: &Summary) -> Option<String> {
    if !s.loss_observable() || s.counts.sent == 0 {
        return None;
    }
    Some(describe_loss(s.counts.lost, s.counts.sent, Some(&s.loss.events)))
}

fn lost_on(way: &DirectionResult) -> Option<String> {
    let (sent, lost) = (way.sent.filter(|n| *n > 0)?, way.lost?);
    Some(describe_loss(lost, sent, way.loss.as_ref().map(|loss| &loss.events)))
}

/// Formats a loss: `0.40 % (0.11-1.40)`, `0.40 % (1 event)`, `none (<0.75 %)`, `all (>99 %)`. Without `events`, the
/// positions of the losses are unknown, and the interval is omitted.
pub(super) fn describe_loss(lost: u64, sent: u64, events: Option<&ShareInterval>) -> String {
    // Three packets or fewer do not bound the loss ratio in a useful way.
    if sent <= 3 && (lost == 0 || lost >= sent) {
        return if lost == 0 { "none" } else { "all" }.to_owned();
    }
    if lost == 0 {
        return format!("none (<{} %)", percent(3.0 / sent as f64));
    }
    if lost >= sent {
        // Round down, because it is a lower bound.
        let least = (1000.0 * (1.0 - 3.0 / sent as f64)).floor().max(0.0) / 10.0;
        return format!("all (>{least} %)");
    }
    let share = lost as f64 / sent as f64;
    // Format the interval with as many digits as the share.
    let digits = percent(share).split_once('.').map_or(0, |(_, digits)| digits.len());
    let end = |share: f64| format!("{:.digits$}", (100.0 * share).clamp(0.0, 100.0));
    let range = match events {
        Some(ShareInterval { ci95: Some([low, high]), .. }) => {
            format!(" ({}-{})", above_zero(100.0 * low, digits), end(*high))
        }
        Some(ShareInterval { absent: Some(NoInterval::OneEvent), .. }) => " (1 event)".to_owned(),
        _ => String::new(),
    };
    format!("{} %{range}", percent(share))
}

/// Formats the recommended buffer, as in the verdict.
pub(super) fn describe_buffer(ns: Option<i64>) -> String {
    match ns {
        None => "-".to_owned(),
        Some(ns) if ns <= verdict::severity::MIN_BUFFER_NS => "<1 ms".to_owned(),
        Some(ns) => verdict::time(ns as f64),
    }
}

/// Formats a share in percent with two significant digits: `0.014`, `0.40`, `3.2`, `31`.
pub(super) fn percent(share: f64) -> String {
    let value = (100.0 * share).clamp(0.0, 100.0);
    match value {
        0.0 => "0".to_owned(),
        ..0.0995 => format!("{value:.3}"),
        ..0.995 => format!("{value:.2}"),
        ..9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Returns the timeline of a stream's delay, and true if only the difference from its minimum is known. `None` without
/// packets.
pub(super) fn course(stream: &ScreenStream<'_>) -> Option<(Timeline, bool)> {
    let s = stream.summary;
    let course = Timeline::of(stream.samples, s.counts.sent, s.header.period, without_step(s));
    let shift = shown_shift(s);
    (!course.is_empty()).then(|| (course.shifted(shift.unwrap_or(0)), shift.is_none()))
}

/// Value subtracted from raw delays in drawings, in ns; `None` if only differences of delays are meaningful.
pub fn shown_shift(s: &Summary) -> Option<i64> {
    // Ignore an estimate that makes delays negative: it is wrong.
    DelayKnowledge::of(s).shift().filter(|shift| s.latency.min.is_some_and(|min| min >= *shift))
}

/// A line of a table: its cells, each with its style.
pub(super) type StyledCells = Vec<(String, Option<WordStyle>)>;

/// The table of a screen.
#[derive(Clone, Debug, Default)]
pub(super) struct ScreenTable {
    /// Headings of the columns, without that of the names.
    pub heads: Vec<String>,
    /// Name and cells of each line.
    pub lines: Vec<(String, StyledCells)>,
    /// Maximum width of a name, in columns.
    pub name: usize,
    /// Maximum number of lines displayed.
    pub most: usize,
}

/// Maximum width of the name of a stream, in columns.
const MAX_NAME_COLUMNS: usize = 12;

impl ScreenTable {
    /// Creates a table of streams or directions, one per line.
    pub(super) fn of_rows(rows: &[FigureRow]) -> ScreenTable {
        let judged = rows.iter().any(|row| row.severity.is_some());
        let small = rows.first().is_some_and(|row| row.small);
        let heads = match (small, judged) {
            (true, true) => &SMALL_HEADS[..],
            (true, false) => &SMALL_HEADS[1..],
            (false, true) => &HEADS[..],
            // Without a verdict there is no recommended buffer.
            (false, false) => &HEADS[1..HEADS.len() - 1],
        };
        // Where only counts are known, no row has an interval.
        let lost = if small { 5 } else { 4 };
        let has_interval =
            rows.iter().any(|row| row.figures[lost].ends_with(')') && !row.figures[lost].ends_with("event)"));
        let named =
            |head: &str| if head == LOST && has_interval { LOST_WITH_INTERVAL } else { head }.to_owned();
        let line = |row: &FigureRow| {
            let verdict = row.severity.map_or((String::new(), None), |severity| {
                (severity.name().to_owned(), Some(mark(severity.into()).1))
            });
            let mut cells: StyledCells = if judged { vec![verdict] } else { Vec::new() };
            cells.extend(row.figures.iter().map(|text| (text.clone(), None)));
            cells.truncate(heads.len());
            (row.label.clone(), cells)
        };
        ScreenTable {
            heads: heads.iter().map(|head| named(head)).collect(),
            lines: rows.iter().map(line).collect(),
            name: MAX_NAME_COLUMNS,
            most: MAX_STREAMS,
        }
    }

    /// Returns the headings and the first `n` lines of the table, as rows, or as columns if rows do not fit
    /// into `width`. `None` if neither fits.
    pub(super) fn laid_out(&self, n: usize, width: usize) -> Option<Vec<StyledCells>> {
        let heads = self.heads.iter().map(|head| (head.clone(), Some(WordStyle::Heading)));
        let head = std::iter::once((String::new(), None)).chain(heads).collect();
        let line = |(name, cells): &(String, StyledCells)| {
            std::iter::once((name.clone(), None)).chain(cells.iter().cloned()).collect()
        };
        let mut lines: Vec<StyledCells> = vec![head];
        lines.extend(self.lines.iter().take(n).map(line));
        aligned(&lines, width).or_else(|| aligned(&turned(&lines), width))
    }
}

fn turned(lines: &[StyledCells]) -> Vec<StyledCells> {
    let columns = lines.first().map_or(0, Vec::len);
    (0..columns).map(|k| lines.iter().filter_map(|line| line.get(k).cloned()).collect()).collect()
}

/// Pads the cells to the width of their column: the first column left-aligned, the others right-aligned. `None` if the
/// lines do not fit into `width`.
fn aligned(lines: &[StyledCells], width: usize) -> Option<Vec<StyledCells>> {
    let columns = lines.first().map_or(0, Vec::len);
    let widest = |k: usize| lines.iter().filter_map(|l| l.get(k)).map(|c| c.0.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|k| widest(k).unwrap_or(0)).collect();
    let room = width.checked_sub(widths.iter().sum())?;
    let gap = (room / columns.saturating_sub(1).max(1)).min(3);
    if gap == 0 {
        return None;
    }
    let pad = |line: &StyledCells| {
        let cell = |(k, (text, look)): (usize, &(String, Option<WordStyle>))| match k {
            0 => (format!("{text:<0$}", widths[0]), *look),
            _ => (format!("{text:>0$}", widths[k] + gap), *look),
        };
        line.iter().enumerate().map(cell).collect()
    };
    Some(lines.iter().map(pad).collect())
}
