//! Causes in the verdicts on calls that are found only in the whole recording: steps of its clock, which packets of other
//! hosts confirm or refute, and periods in which one direction has no packets.

use jitlat_core::Span;
use jitlat_core::analysis::Samples;
use jitlat_core::answer::{Answer, Cause, CauseId, Severity};
use jitlat_core::time::WallTime;
use jitlat_core::units::{duration, eng3};
use jitlat_passive::recording::{RecordedStep, describe_step};
use jitlat_passive::rtp::{OneSided, RtpStream};

/// Removes changes of the delay that are only the remainder of a corrected step of the recording's clock: they happened
/// at the same time, and are not larger than the error of the step's size. Causes count seconds from `first`.
pub(super) fn leave_out_rests(answer: &mut Answer, steps: &[&RecordedStep], first: WallTime) {
    const NEAR: Span = Span::seconds(1);
    let is_rest = |cause: &Cause| {
        let (size, time) = (cause.magnitude_ns.unwrap_or(0), first + Span((cause.from_s * 1e9) as i64));
        cause.id == CauseId::RouteChange
            && steps.iter().any(|step| {
                (step.at - time).0.saturating_abs() <= NEAR.0
                    && step.error_ns.is_some_and(|error| size.saturating_abs() <= error.0)
            })
    };
    let before = answer.causes.len();
    answer.causes.retain(|cause| !is_rest(cause));
    let is_named = answer.causes.iter().any(|cause| cause.id == CauseId::RouteChange);
    if answer.causes.len() < before && !is_named {
        let headline = &answer.headline;
        let begin = ["the path became ", "the delay rose by ", "the delay fell by "];
        if let Some(from) = begin.iter().find_map(|clause| headline.find(clause)) {
            let rest = &headline[from..];
            let end = rest.find("; ").or(rest.rfind('.')).unwrap_or(rest.len());
            answer.headline = format!("{}nothing is wrong{}", &headline[..from], &rest[end..]);
        }
    }
}

/// Returns the cause for a step of the recording's clock, in a stream that began at `first`.
pub(super) fn of_step(step: &RecordedStep, first: WallTime) -> Cause {
    let at = (step.at - first).as_seconds().max(0.0);
    Cause {
        from_s: at,
        to_s: at,
        magnitude_ns: Some(step.by_ns.0),
        because: format!("{} at {at:.1} s: times after it are corrected", describe_step(step)),
        ..Cause::new(CauseId::CaptureClock, Severity::Good, 0.95)
    }
}

/// True if the delays of a stream did not change by `size` ns at `time`, as they would have after a step of the
/// recording's clock. False if there are too few packets to decide.
pub(super) fn did_not_move(samples: &Samples, time: WallTime, size: i64) -> bool {
    let size = size.saturating_abs();
    shift_at(samples, time)
        .is_some_and(|(shift, spread)| spread < size.saturating_mul(4) && shift.saturating_abs() < size / 2)
}

/// Returns the change of the median delay of a stream at `time`, and the spread of the delays around it, both in ns;
/// `None` if there are too few packets.
pub(super) fn shift_at(samples: &Samples, time: WallTime) -> Option<(i64, i64)> {
    /// Length of the periods before and after the change whose packets are compared, and length of the part next to the
    /// change that is left out, because the time of a change is known only to within a few packets.
    const COMPARED: Span = Span::seconds(3);
    const NEAR: Span = Span(500_000_000);
    /// Minimum number of packets on each side.
    const ENOUGH: usize = 25;
    let arrivals =
        || samples.sent.iter().zip(&samples.delay).map(|(sent, delay)| (sent.saturating_add(*delay), *delay));
    let spread = |from: Span, to: Span| -> Option<(i64, i64)> {
        let within = (time + from).0..(time + to).0;
        let mut delays: Vec<i64> =
            arrivals().filter(|(at, _)| within.contains(at)).map(|(_, delay)| delay).collect();
        delays.sort_unstable();
        let [low, high] = [delays.len() / 4, delays.len() * 3 / 4].map(|k| delays.get(k).copied());
        let middle = *delays.get(delays.len() / 2)?;
        (delays.len() >= ENOUGH).then_some((middle, high?.saturating_sub(low?)))
    };
    let back = |span: Span| Span(span.0.saturating_neg());
    let (before, around) = spread(back(COMPARED), back(NEAR))?;
    let (after, around_after) = spread(NEAR, COMPARED)?;
    Some((after.saturating_sub(before), around.max(around_after)))
}

/// Replaces clock steps in `answer`, which is about one direction between two points, by changes of the path if the
/// delay of the other direction, in `other`, did not change by the same amount. Causes count seconds from `first`.
pub(super) fn refute_clock_step(answer: &mut Answer, other: &Samples, first: WallTime) {
    let mut refuted = 0;
    for cause in answer.causes.iter_mut().filter(|cause| cause.id == CauseId::ClockStep) {
        let (Some(by), time) = (cause.magnitude_ns, first + Span((cause.from_s * 1e9) as i64)) else {
            continue;
        };
        let Some((shift, spread)) = shift_at(other, time) else { continue };
        // A clock step lengthens the delay of one direction by as much as it shortens the delay of the other.
        let rest = by.saturating_abs().saturating_sub(shift.saturating_abs()).saturating_abs();
        if rest > 2_000_000.max(spread).max(by.saturating_abs() / 4) {
            let how = if by < 0 { "shorter" } else { "longer" };
            cause.id = CauseId::RouteChange;
            cause.confidence = 0.8;
            cause.because = format!(
                "the path became {} {how} at {:.1} s: the other direction did not change by as much, so no clock was set",
                eng3(by.saturating_abs() as f64),
                cause.from_s
            );
            refuted += 1;
        }
    }
    if refuted > 0 && !answer.causes.iter().any(|cause| cause.id == CauseId::ClockStep) {
        answer.without_clock_step = None;
        answer.headline = answer.headline.replace(
            "nothing is wrong with the path; a clock was set by ",
            "the delay of the path changed by ",
        );
    }
}

/// True if the queue that this cause describes lasts until the end of the stream, which takes `length` seconds.
pub(super) fn never_ends(cause: &Cause, length: f64) -> bool {
    cause.id == CauseId::Queue && cause.to_s + 1.0 >= length
}

/// Returns the time `seconds` after the first packet of `stream`.
pub(super) fn at(stream: &RtpStream, seconds: f64) -> WallTime {
    stream.first + Span((seconds * 1e9) as i64)
}

/// Adds a cause to the answer about a stream that began at `first`: the part of the call in which the direction of this
/// stream has no packets, although the other direction has.
pub(super) fn add_one_sided(answer: &mut Answer, part: &OneSided, first: WallTime) {
    let which = if part.is_end { "last" } else { "first" };
    let missing = duration(part.missing);
    let because =
        format!("no packet in the {which} {missing} of the call, while the other direction has packets");
    let from = (part.from - first).as_seconds();
    let cause = Cause {
        from_s: from,
        to_s: from + part.missing.as_seconds(),
        magnitude_ns: Some(part.missing.0),
        because: format!("{because}: none was sent (one-way audio), or they take another path"),
        ..Cause::new(CauseId::Outage, part.severity, 0.5)
    };
    if part.severity.doubt() > answer.severity.doubt() {
        answer.severity = part.severity;
        answer.headline = match part.severity {
            Severity::Unknown => format!("No verdict on the whole call: {because}."),
            severity => format!("{}: {because}.", capitalised(severity.name())),
        };
    }
    answer.causes.push(cause);
}

pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_clock_step_is_no_change_of_the_path() {
        let step = RecordedStep {
            at: WallTime(6_400_000_000),
            by_ns: Span(70_400_000),
            error_ns: Some(Span(2_000_000)),
            proven: true,
        };
        let of = |from_s: f64, ns: i64| {
            let change = Cause {
                from_s,
                magnitude_ns: Some(ns),
                ..Cause::new(CauseId::RouteChange, Severity::Good, 0.9)
            };
            let mut answer = Answer {
                complete: true,
                host: None,
                severity: Severity::Good,
                headline:
                    "Good: the path became 449 us shorter at 6.3 s: a route change; set a buffer of 5.0 ms."
                        .to_owned(),
                buffer_ns: None,
                without_clock_step: None,
                causes: vec![change],
                profiles: std::collections::BTreeMap::new(),
                qoo: None,
            };
            leave_out_rests(&mut answer, &[&step], WallTime(0));
            (answer.causes.len(), answer.headline.contains("route change"), answer.headline)
        };
        assert_eq!(
            of(6.3, -449_000),
            (0, false, "Good: nothing is wrong; set a buffer of 5.0 ms.".to_owned())
        );
        assert!(of(6.3, 3_000_000).1 && of(8.0, 449_000).1, "too large, or at another time");
    }

    #[test]
    fn packets_of_another_host_show_that_the_clock_stood() {
        let samples = |interval: i64, moved: i64| {
            let of = |k: i64| {
                (k * interval, 8_000_000 * (k % 3) + if k * interval > 5_000_000_000 { moved } else { 0 })
            };
            let all: Vec<(i64, i64)> = (0..10_000_000_000 / interval).map(of).collect();
            Samples {
                seq: (0..all.len() as u32).collect(),
                sent: all.iter().map(|(sent, _)| *sent).collect(),
                delay: all.iter().map(|(_, delay)| *delay).collect(),
                ..Samples::default()
            }
        };
        let stood =
            |interval, moved| did_not_move(&samples(interval, moved), WallTime(5_000_000_000), 5_000_000);
        assert!(stood(20_000_000, 0));
        assert!(!stood(20_000_000, 5_000_000), "it moved by as much");
        assert!(!stood(1_000_000_000, 0), "comfort noise: too few packets");
    }

    #[test]
    fn the_other_direction_refutes_a_step_of_a_clock() {
        let samples = |moved: i64| {
            let all: Vec<i64> = (0..500).map(|k| k * 20_000_000).collect();
            Samples {
                seq: (0..500).collect(),
                delay: all.iter().map(|sent| if *sent > 5_000_000_000 { moved } else { 0 }).collect(),
                sent: all,
                ..Samples::default()
            }
        };
        let of = |moved: i64| {
            let step = Cause {
                from_s: 5.0,
                magnitude_ns: Some(20_000_000),
                ..Cause::new(CauseId::ClockStep, Severity::Good, 0.9)
            };
            let mut answer = Answer {
                complete: true,
                host: None,
                severity: Severity::Good,
                headline: "Good: nothing is wrong with the path; a clock was set by 20 ms at 5.0 s."
                    .to_owned(),
                buffer_ns: None,
                without_clock_step: None,
                causes: vec![step],
                profiles: std::collections::BTreeMap::new(),
                qoo: None,
            };
            refute_clock_step(&mut answer, &samples(moved), WallTime(0));
            (answer.causes[0].id, answer.headline)
        };
        assert_eq!(of(-20_000_000).0, CauseId::ClockStep);
        let (id, headline) = of(-8_000_000);
        assert_eq!(id, CauseId::RouteChange);
        assert_eq!(headline, "Good: the delay of the path changed by 20 ms at 5.0 s.");
    }
}
