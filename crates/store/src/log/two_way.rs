//! Lines of a log that only two-way tests have: [`TwoWay`] ⇄ text.

use super::escape::{escape, unescape};
use core::fmt::Display;
use core::str::FromStr;
use jitlat_core::Span;
use jitlat_core::time::StampSource;
use jitlat_core::twoway::{
    Directions, FarReport, LossRun, LossSide, MarkedSlowdown, NotAnswers, TcpStats, TwoWay,
};
use std::collections::BTreeMap;

/// Returns the keys and values of all lines about `facts`, in order.
pub(super) fn facts(facts: &TwoWay) -> Vec<(String, Vec<String>)> {
    let one = |v: Option<String>| v.into_iter().collect::<Vec<String>>();
    let span = |s: Option<Span>| one(s.map(|s| s.0.to_string()));
    [
        ("two_way", vec![escape(&facts.protocol)]),
        ("wait", span(facts.wait)),
        ("timeout", span(facts.timeout)),
        ("far_clock", one(facts.far_clock.then(|| "yes".to_owned()))),
        ("far_resolution", span(facts.far_resolution)),
        ("processing_apart", one(facts.processing_apart.then(|| "yes".to_owned()))),
        ("answer_dscp", one(facts.answer_dscp.map(|d| d.to_string()))),
        ("request_dscp", one(marks_text(&facts.request_dscp))),
        ("marked_slowdown", one(facts.marked_slowdown.map(slowdown_text))),
        ("request_ecn", one(marks_text(&facts.request_ecn))),
        ("directions", one(facts.directions.filter(|d| d.stateful).map(|d| directions_text(&d)))),
        ("losses", facts.losses.chunks(LOSSES_PER_LINE).map(losses_text).collect()),
        ("not_answers", one(not_answers_text(&facts.not_answers))),
        ("far_report", one(facts.far_report.map(|r| far_report_text(&r)))),
        ("tcp", one(facts.tcp.map(|t| tcp_text(&t)))),
        ("skipped", one(Some(facts.skipped).filter(|n| *n > 0).map(|n| n.to_string()))),
        ("remark", facts.remarks.iter().map(|r| escape(r)).collect()),
    ]
    .map(|(key, values)| (key.to_owned(), values))
    .into()
}

/// Parses one line. `None` if the key does not belong to two-way tests.
pub(super) fn line(to: &mut Option<Box<TwoWay>>, key: &str, value: &str) -> Option<Result<(), String>> {
    if key == "two_way" {
        to.get_or_insert_default().protocol = unescape(value);
        return Some(Ok(()));
    }
    // The line that declares a two-way test must precede all other lines.
    let facts = to.as_deref_mut()?;
    Some(match key {
        "wait" => number(value).map(|v| facts.wait = v.map(Span)),
        "timeout" => number(value).map(|v| facts.timeout = v.map(Span)),
        "far_clock" => {
            facts.far_clock = value.trim() == "yes";
            Ok(())
        }
        "far_resolution" => number(value).map(|v| facts.far_resolution = v.map(Span)),
        "processing_apart" => {
            facts.processing_apart = value.trim() == "yes";
            Ok(())
        }
        "answer_dscp" => number(value).map(|v| facts.answer_dscp = v),
        "marked_slowdown" => optional(value, slowdown).map(|s| facts.marked_slowdown = s),
        "request_dscp" => optional(value, marks).map(|m| facts.request_dscp = m.unwrap_or_default()),
        "request_ecn" => optional(value, marks).map(|m| facts.request_ecn = m.unwrap_or_default()),
        "directions" => optional(value, directions).map(|d| facts.directions = d),
        "losses" if value == "-" => {
            facts.losses.clear();
            Ok(())
        }
        "losses" => losses(value).map(|more| facts.losses.extend(more)),
        "not_answers" => optional(value, not_answers).map(|n| facts.not_answers = n.unwrap_or_default()),
        "far_report" => optional(value, far_report).map(|r| facts.far_report = r),
        "tcp" => optional(value, tcp).map(|t| facts.tcp = t),
        "skipped" => number(value).map(|v| facts.skipped = v.unwrap_or(0)),
        "remark" if value == "-" => {
            facts.remarks.clear();
            Ok(())
        }
        "remark" => {
            facts.remarks.push(unescape(value));
            Ok(())
        }
        _ => return None,
    })
}

fn number<T: FromStr>(value: &str) -> Result<Option<T>, String> {
    match value.trim() {
        "-" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("'{text}' is not a number")),
    }
}

fn optional<T>(value: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if value.trim() == "-" { Ok(None) } else { read(value).map(Some) }
}

/// Joins pairs as `key=value`, separated by spaces.
fn join_pairs(pairs: &[(&str, Option<String>)]) -> String {
    let pairs: Vec<String> =
        pairs.iter().filter_map(|(k, v)| v.as_ref().map(|v| format!("{k}={v}"))).collect();
    pairs.join(" ")
}

/// Formats counts by value as `46:990 0:10`; `None` if there are none.
fn marks_text(marks: &BTreeMap<u8, u64>) -> Option<String> {
    let marks: Vec<String> = marks.iter().map(|(value, n)| format!("{value}:{n}")).collect();
    (!marks.is_empty()).then(|| marks.join(" "))
}

/// Formats a slowdown as `rounds=2 requests=310 period=80000000`.
fn slowdown_text(slowdown: MarkedSlowdown) -> String {
    let MarkedSlowdown { rounds, requests, period } = slowdown;
    format!("rounds={rounds} requests={requests} period={}", period.0)
}

fn slowdown(text: &str) -> Result<MarkedSlowdown, String> {
    let value = |key: &str| {
        let found = text.split_ascii_whitespace().find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        found.and_then(|value| value.parse::<i64>().ok()).filter(|value| *value >= 0)
    };
    let facts = || {
        let [rounds, requests] = [value("rounds")?, value("requests")?].map(i64::unsigned_abs);
        Some(MarkedSlowdown { rounds, requests, period: Span(value("period")?) })
    };
    facts().ok_or_else(|| format!("'{text}' is not 'rounds=N requests=N period=NS'"))
}

fn marks(text: &str) -> Result<BTreeMap<u8, u64>, String> {
    let one = |mark: &str| {
        let (value, n) = mark.split_once(':')?;
        Some((value.parse().ok()?, n.parse().ok()?))
    };
    let read = |mark| one(mark).ok_or_else(|| format!("'{mark}' is not a value with its count (46:990)"));
    text.split_ascii_whitespace().map(read).collect()
}

fn some(value: impl Display) -> Option<String> {
    Some(value.to_string())
}

/// Returns the value of the key `name` in `text`; `None` if it is absent.
fn value_of<T: FromStr>(text: &str, name: &str) -> Result<Option<T>, String> {
    let found = text.split_ascii_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
    found.map(|v| v.parse().map_err(|_| format!("{name}='{v}' is not a number"))).transpose()
}

/// Returns the value of the key `name` in `text`; 0 if it is absent.
fn count<T: FromStr + Default>(text: &str, name: &str) -> Result<T, String> {
    value_of(text, name).map(Option::unwrap_or_default)
}

fn directions_text(d: &Directions) -> String {
    join_pairs(&[
        ("up_lost", some(d.up_lost)),
        ("down_lost", some(d.down_lost)),
        ("unknown_lost", some(d.unknown_lost)),
        ("up_duplicates", some(d.up_duplicates)),
        ("down_duplicates", some(d.down_duplicates)),
        ("up_reordered", some(d.up_reordered)),
        ("down_reordered", some(d.down_reordered)),
    ])
}

fn directions(text: &str) -> Result<Directions, String> {
    Ok(Directions {
        stateful: true,
        up_lost: count(text, "up_lost")?,
        down_lost: count(text, "down_lost")?,
        unknown_lost: count(text, "unknown_lost")?,
        up_duplicates: count(text, "up_duplicates")?,
        down_duplicates: count(text, "down_duplicates")?,
        up_reordered: count(text, "up_reordered")?,
        down_reordered: count(text, "down_reordered")?,
    })
}

/// Number of loss runs per line.
const LOSSES_PER_LINE: usize = 16;

/// Formats runs as `up:20+3 down:60`: direction, first sequence number, and the number of requests unless it is 1.
fn losses_text(runs: &[LossRun]) -> String {
    let runs: Vec<String> = runs
        .iter()
        .map(|run| {
            let more = if run.length == 1 { String::new() } else { format!("+{}", run.length) };
            format!("{}:{}{more}", way_name(run.side), run.first)
        })
        .collect();
    runs.join(" ")
}

fn way_name(way: LossSide) -> &'static str {
    match way {
        LossSide::Up => "up",
        LossSide::Down => "down",
        LossSide::Either => "either",
    }
}

fn losses(text: &str) -> Result<Vec<LossRun>, String> {
    let run = |item: &str| {
        let (name, run) = item.split_once(':')?;
        let side =
            [LossSide::Up, LossSide::Down, LossSide::Either].into_iter().find(|s| way_name(*s) == name)?;
        let (first, length) = run.split_once('+').unwrap_or((run, "1"));
        let run = LossRun { first: first.parse().ok()?, length: length.parse().ok()?, side };
        (run.length > 0).then_some(run)
    };
    let runs = text.split_ascii_whitespace();
    runs.map(|w| run(w).ok_or_else(|| format!("'{w}' is not a run of losses"))).collect()
}

fn not_answers_text(n: &NotAnswers) -> Option<String> {
    (*n != NotAnswers::default()).then(|| {
        join_pairs(&[
            ("foreign", some(n.foreign)),
            ("malformed", some(n.malformed)),
            ("forged", some(n.forged)),
            ("unmatched", some(n.unmatched)),
            ("other_port", Some(n.other_port).filter(|n| *n > 0).and_then(some)),
            ("refused", some(n.refused)),
            ("prohibited", some(n.prohibited)),
        ])
    })
}

fn not_answers(text: &str) -> Result<NotAnswers, String> {
    Ok(NotAnswers {
        foreign: count(text, "foreign")?,
        malformed: count(text, "malformed")?,
        forged: count(text, "forged")?,
        unmatched: count(text, "unmatched")?,
        other_port: count(text, "other_port")?,
        refused: count(text, "refused")?,
        prohibited: count(text, "prohibited")?,
    })
}

fn far_report_text(r: &FarReport) -> String {
    let span = |s: Option<Span>| s.map(|s| s.0.to_string());
    join_pairs(&[
        ("received", some(r.received)),
        ("min", span(r.min)),
        ("mean", span(r.mean)),
        ("max", span(r.max)),
        ("stddev", span(r.stddev)),
        ("out_of_order", some(r.out_of_order)),
        ("errors", some(r.errors)),
        ("duplicates", r.duplicates.map(|d| d.to_string())),
        ("stamps", r.stamps.map(|s| s.letter().to_string())),
        ("highest_seq", r.highest_seq.map(|s| s.to_string())),
        ("wraps", some(r.wraps)),
        ("timed_out", some(u8::from(r.timed_out))),
    ])
}

fn far_report(text: &str) -> Result<FarReport, String> {
    let span = |name| value_of(text, name).map(|v| v.map(Span));
    let letter: Option<char> = value_of(text, "stamps")?;
    Ok(FarReport {
        received: count(text, "received")?,
        min: span("min")?,
        mean: span("mean")?,
        max: span("max")?,
        stddev: span("stddev")?,
        out_of_order: count(text, "out_of_order")?,
        errors: count(text, "errors")?,
        duplicates: value_of(text, "duplicates")?,
        stamps: letter.and_then(|l| StampSource::ALL.into_iter().find(|s| s.letter() == l)),
        highest_seq: value_of(text, "highest_seq")?,
        wraps: count(text, "wraps")?,
        timed_out: count::<u8>(text, "timed_out")? != 0,
    })
}

fn tcp_text(t: &TcpStats) -> String {
    join_pairs(&[
        ("retransmissions", some(t.retransmissions)),
        ("srtt_min_us", some(t.srtt_min_us)),
        ("srtt_max_us", some(t.srtt_max_us)),
        ("srtt_last_us", some(t.srtt_last_us)),
        ("cwnd_min", some(t.cwnd_min)),
        ("cwnd_max", some(t.cwnd_max)),
        ("mss", some(t.mss)),
    ])
}

fn tcp(text: &str) -> Result<TcpStats, String> {
    Ok(TcpStats {
        retransmissions: count(text, "retransmissions")?,
        srtt_min_us: count(text, "srtt_min_us")?,
        srtt_max_us: count(text, "srtt_max_us")?,
        srtt_last_us: count(text, "srtt_last_us")?,
        cwnd_min: count(text, "cwnd_min")?,
        cwnd_max: count(text, "cwnd_max")?,
        mss: count(text, "mss")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_comes_back() {
        let before = TwoWay {
            protocol: "lamp".into(),
            wait: Some(Span(0)),
            timeout: Some(Span::seconds(2)),
            far_clock: true,
            far_resolution: Some(Span(1_000_000)),
            processing_apart: true,
            answer_dscp: Some(8),
            marked_slowdown: Some(MarkedSlowdown { rounds: 2, requests: 310, period: Span::millis(80) }),
            request_dscp: [(0, 10), (46, 990)].into(),
            request_ecn: [(3, 1000)].into(),
            directions: Some(Directions {
                stateful: true,
                up_lost: 1,
                down_reordered: 7,
                ..Directions::default()
            }),
            losses: (0..40u32)
                .map(|k| LossRun {
                    first: 10 * k,
                    length: k % 3 + 1,
                    side: [LossSide::Up, LossSide::Down, LossSide::Either][k as usize % 3],
                })
                .collect(),
            not_answers: NotAnswers { forged: 3, other_port: 4, prohibited: 5, ..NotAnswers::default() },
            far_report: Some(FarReport {
                received: 5,
                min: Some(Span(-6)),
                duplicates: Some(0),
                stamps: Some(StampSource::Kernel),
                highest_seq: Some(65_535),
                timed_out: true,
                ..FarReport::default()
            }),
            tcp: Some(TcpStats { retransmissions: 8, mss: 1448, ..TcpStats::default() }),
            skipped: 6,
            remarks: vec!["a\nb".into(), "c".into()],
        };
        let mut after = None;
        for (key, values) in facts(&before) {
            values.iter().for_each(|v| line(&mut after, &key, v).unwrap().unwrap());
        }
        assert_eq!(after.as_deref(), Some(&before));
    }

    #[test]
    fn nothing_is_said_of_a_one_way_test() {
        let mut none = None;
        assert!(line(&mut none, "wait", "3").is_none() && none.is_none());
        assert!(line(&mut none, "two_way", "icmp").unwrap().is_ok());
        assert!(line(&mut none, "directions", "up_lost=x").unwrap().is_err());
        for nonsense in ["up", "up:", "there:3", "up:3+0", "up:-1", "up:4294967296"] {
            assert!(line(&mut none, "losses", nonsense).unwrap().is_err(), "{nonsense}");
        }
    }
}
