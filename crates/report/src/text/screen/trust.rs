//! Reliability of the figures: the clocks, the sender, the sample, and other reasons to doubt a figure.

use super::ScreenStream;
use super::content::{is_reported, sender};
use super::rows::{DelayKnowledge, MIN_PACKETS_FOR_P99, shown_queue, without_step};
use crate::interface::describe;
use crate::text::two_way::describe_far_report;
use crate::text::{count, printable};
use jitlat_core::answer::CauseId;
use jitlat_core::metrics::schedule_error::HandedOver;
use jitlat_core::summary::{Coverage, Summary, Warning};
use jitlat_core::units::eng3;

/// Codes of warnings whose content is already in other lines or in the verdict.
const SAID: [&str; 9] = [
    "few_packets",
    "clocks_unknown",
    "sender_late",
    "negative_delay",
    "nothing_received",
    "path_change",
    "stall_suspect",
    "tail_unknown",
    "tcp",
];

/// Codes of warnings that come first, because the figures do not cover the whole test, a firewall explains losses, or
/// the figures are those of another class of service.
const FIRST: [&str; 9] = [
    "incomplete",
    "tail_without_rows",
    "requests_prohibited",
    "log_not_stored",
    "schedule_stretched",
    "receiver_drops",
    "wait_refused",
    "request_dscp_changed",
    "request_ecn_changed",
];

/// Returns the notes about `streams`, the most important first.
pub(super) fn of(streams: &[ScreenStream<'_>], labels: &[String]) -> Vec<String> {
    let warnings = sorted(streams, labels);
    let (later, first): (Vec<_>, Vec<_>) = warnings.into_iter().partition(|(later, _)| *later);
    let mut lines: Vec<String> = first.into_iter().map(|(_, text)| text).collect();
    let fallback = streams.iter().find_map(|s| s.summary.two_way.as_ref()?.fallback());
    lines.extend(fallback.map(printable));
    let received: Vec<&Summary> =
        streams.iter().map(|s| s.summary).filter(|s| s.counts.unique_valid > 0).collect();
    if let Some(s) = received.first() {
        let same = received.iter().all(|other| kind(other) == kind(s));
        lines.extend(local_queue(&received).map(str::to_owned));
        let compared = same || received.len() == 1;
        lines.extend(clocks(s).into_iter().filter(|_| compared && !is_reported(s)));
        lines.extend(clock_steps(&received));
    }
    lines.extend(received.iter().find_map(|s| jitlat_verdict::jitter_note(s)));
    lines.extend(streams.iter().flat_map(|s| reported(s.summary)));
    let from: Vec<(&str, &Summary)> = streams
        .iter()
        .zip(labels)
        .map(|(stream, label)| (named(label, stream.summary), stream.summary))
        .filter(|(_, s)| s.counts.unique_valid > 0)
        .collect();
    lines.extend(senders(&from));
    lines.extend(lost_stamps(&from));
    lines.extend(hosts(streams, labels));
    // Explain first why the headline and a profile differ, because readers notice the contradiction.
    let answers = received.iter().filter_map(|s| s.answer.as_ref());
    lines.extend(answers.filter_map(jitlat_verdict::grade_note).next().map(str::to_owned));
    lines.extend(sample(&received));
    lines.extend(later.into_iter().map(|(_, text)| text));
    lines.extend(received.first().and_then(|s| interface(s)));
    // Notes about this kind of test follow those about this particular test.
    lines.extend(other_traffic(&received));
    lines
}

/// Explains why the jitter of a stream is larger than its buffer, for each stream for which this is the case.
pub(super) fn jitter(streams: &[ScreenStream<'_>], labels: &[String]) -> Vec<String> {
    let of = |(stream, label): (&ScreenStream<'_>, &String)| {
        let note = jitlat_verdict::jitter_note(stream.summary)?;
        Some(if streams.len() > 1 { format!("{label}: {note}") } else { note })
    };
    streams.iter().zip(labels).filter_map(of).collect()
}

/// Describes the radio of the test's interface; `None` if it has none.
fn interface(s: &Summary) -> Option<String> {
    s.session.client.interface.as_ref().filter(|interface| interface.is_radio()).and_then(|i| describe(i))
}

/// Returns a note for each stream whose hosts are graded worse than good.
fn hosts(streams: &[ScreenStream<'_>], labels: &[String]) -> Vec<String> {
    let several = streams.len() > 1;
    let one = |(stream, label): (&ScreenStream<'_>, &String)| {
        let note = jitlat_verdict::host_note(stream.summary.answer.as_ref()?)?;
        Some(if several { format!("{label}: {note}") } else { note })
    };
    streams.iter().zip(labels).filter_map(one).collect()
}

/// Describes the far host's report of a one-way test.
fn reported(s: &Summary) -> Vec<String> {
    let Some(report) = s.two_way.as_ref().and_then(|t| t.far_report) else { return Vec::new() };
    let mut said = describe_far_report(&report);
    if let (Some(min), Some(mean), Some(max)) = (report.min, report.mean, report.max) {
        let [min, mean, max] = [min, mean, max].map(|t| eng3(t.0 as f64));
        said.insert(
            0,
            format!("delay from the server's clock and this host's clock: {min} to {max}, mean {mean}"),
        );
    }
    said
}

/// True if other lines or the verdict already contain the content of `warning`.
fn is_said(warning: &Warning, s: &Summary) -> bool {
    let incomplete = s.answer.as_ref().is_some_and(|a| a.names(CauseId::IncompleteLog));
    let without_reason = warning.code == "incomplete" && s.session.reason.is_none();
    SAID.contains(&&*warning.code) || incomplete && without_reason
}

/// Returns the warnings about `streams`.
pub(super) fn warnings(streams: &[ScreenStream<'_>], labels: &[String]) -> Vec<String> {
    sorted(streams, labels).into_iter().map(|(_, text)| text).collect()
}

/// Returns each warning once. The flag before it is true if the warning follows the other notes, false if it precedes
/// them.
fn sorted(streams: &[ScreenStream<'_>], labels: &[String]) -> Vec<(bool, String)> {
    let mut warnings: Vec<(bool, String)> = Vec::new();
    for (stream, label) in streams.iter().zip(labels) {
        for warning in stream.summary.warnings.iter().filter(|w| !is_said(w, stream.summary)) {
            let later = !FIRST.contains(&&*warning.code);
            let same = streams.iter().all(|s| s.summary.warnings.contains(warning));
            let text = match streams.len() {
                0 | 1 => warning.text.clone(),
                _ if same => warning.text.clone(),
                _ => format!("{label}: {}", warning.text),
            };
            if !warnings.iter().any(|(_, said)| *said == text) {
                warnings.push((later, text));
            }
        }
    }
    warnings
}

/// Key that determines the line about clocks.
fn kind(s: &Summary) -> (std::mem::Discriminant<DelayKnowledge>, Option<i64>) {
    (std::mem::discriminant(&DelayKnowledge::of(s)), s.clock.offset_ns)
}

fn clocks(s: &Summary) -> Option<String> {
    if let Some(t) = &s.two_way {
        let far = if t.processing.is_some() { "without" } else { "with" };
        return Some(format!("delay: round trip {far} the far host's time, one clock, {}", stamps(s)));
    }
    Some(match DelayKnowledge::of(s) {
        DelayKnowledge::One => format!("delay: path only, one clock, {}", stamps(s)),
        DelayKnowledge::Bounded(_, error) if s.clock.offset_ns.is_some() => format!(
            "delay: path only, {}; clock error +/- {} ({})",
            stamps(s),
            eng3(error),
            count(s.clock.probes as u64, "probe")
        ),
        DelayKnowledge::Bounded(_, error) => format!(
            "delay: path only, {}; clock error +/- {} as reported by the hosts",
            stamps(s),
            eng3(error)
        ),
        DelayKnowledge::Unbounded(_) => {
            "delay: corrected by a clock offset of unknown error; jitter and loss are not affected".to_owned()
        }
        DelayKnowledge::Unknown => {
            "clock offset unknown: no absolute delay; jitter, loss and buffer are not affected".to_owned()
        }
        DelayKnowledge::Contradicted => {
            "clock probes and delays contradict each other: no absolute delay; jitter and loss are not affected"
                .to_owned()
        }
        DelayKnowledge::Set => {
            "a clock was set during the test: no absolute delay; loss is not affected".to_owned()
        }
    })
}

/// States that the jitter of the table excludes steps of a clock; `None` if no clock was set.
fn clock_steps(received: &[&Summary]) -> Option<String> {
    let ways = received.iter().filter_map(|s| s.two_way.as_ref()).flat_map(|t| [&t.up, &t.down]);
    let ways = ways.flatten().filter_map(|way| way.without_clock_step.as_ref());
    let step = received.iter().find_map(|s| without_step(s)).or(ways.into_iter().next())?;
    Some(jitlat_verdict::without_clock_step(step))
}

/// Describes the sources of the timestamps.
fn stamps(s: &Summary) -> &'static str {
    let (sent, arrived) = (&s.stamps.sent, &s.stamps.arrived);
    let all = |c: &Coverage| c.user + c.kernel + c.hardware + c.wire;
    match (sent, arrived) {
        _ if all(sent) + all(arrived) == 0 => "unknown stamps",
        _ if sent.user + arrived.user > 0 => "program stamps (host delays included)",
        _ if sent.hardware > 0 && arrived.hardware > 0 => "adapter stamps",
        _ if sent.wire > 0 && arrived.wire > 0 => "capture stamps",
        _ => "kernel stamps",
    }
}

/// Explains the row of the local queue: the path's delay does not include that queue.
fn local_queue(received: &[&Summary]) -> Option<&'static str> {
    let queue = received.iter().find_map(|s| shown_queue(s))?;
    Some(match queue.bounded {
        0 => "local queue: delay in the sending host, in addition to the path's delay",
        _ => "local queue: upper bound of the delay in the sending host, in addition to the path's delay",
    })
}

/// Name of the sender: its host if both directions are shown, otherwise the stream.
fn named<'a>(label: &'a str, s: &Summary) -> &'a str {
    if matches!(label, "up" | "down") { sender(s).unwrap_or(label) } else { label }
}

/// States how many packets lack the requested kernel send stamp; `None` if none do.
fn lost_stamps(received: &[(&str, &Summary)]) -> Option<String> {
    let lost: u64 = received.iter().filter_map(|(_, s)| s.stamps.sent_lost).sum();
    (lost > 0).then(|| {
        format!(
            "departure stamps missing: {}, which have the program's send times instead",
            count(lost, "packet")
        )
    })
}

/// Lists the profiles whose traffic differs from that of the test; `None` if there are none.
fn other_traffic(received: &[&Summary]) -> Option<String> {
    let profiles = received.iter().find_map(|s| s.answer.as_ref())?.profiles.iter();
    let limits = profiles.filter_map(|(name, suits)| Some((name.as_str(), suits.limits.as_deref()?)));
    jitlat_verdict::other_traffic(limits)
}

/// Describes the punctuality of the senders of `received`, each with its name; `None` if it is unknown.
fn senders(received: &[(&str, &Summary)]) -> Option<String> {
    // A single packet is punctual by definition: the schedule is anchored at the earliest one.
    let several = || received.iter().filter(|(_, s)| s.counts.unique_valid > 1);
    let errors: Vec<_> =
        several().filter_map(|(who, s)| Some((*who, s.schedule_error.as_ref()?.of_program()))).collect();
    let has_p99 = several().all(|(_, s)| s.counts.unique_valid >= MIN_PACKETS_FOR_P99);
    let (share, of) = match has_p99 {
        true => ("99 %", (|e| e.p99) as fn(&HandedOver) -> i64),
        false => ("all", (|e| e.max) as fn(&HandedOver) -> i64),
    };
    let late: u64 = errors.iter().map(|(_, e)| e.over_half_period).sum();
    let most = errors.iter().map(|(_, e)| e.max).max()?;
    let each = errors.iter().map(|(who, e)| match errors.len() {
        1 => eng3(of(e) as f64),
        _ => format!("{} ({who})", eng3(of(e) as f64)),
    });
    let late = match late {
        0 => String::new(),
        n => format!("; {n} more than half a period late, at most {}", eng3(most as f64)),
    };
    Some(format!("{share} sent within {} of schedule{late}", each.collect::<Vec<_>>().join(", ")))
}

fn sample(received: &[&Summary]) -> Option<String> {
    let n = received.iter().map(|s| s.counts.unique_valid).min()?;
    let packets = match received.len() {
        1 => count(n, "packet"),
        _ => format!("{} each", count(n, "packet")),
    };
    let resolved = match n {
        ..MIN_PACKETS_FOR_P99 => format!("{packets}: too few for a 99th percentile"),
        MIN_PACKETS_FOR_P99..1000 => format!("{packets}: enough for the 99th percentile, not for the 99.9th"),
        _ => format!("{packets}: enough for the 99.9th percentile"),
    };
    let skewed = received.iter().any(|s| s.pdv_deskewed.is_some() && without_step(s).is_none());
    let skewed = if skewed { "; jitter excludes the clocks' drift" } else { "" };
    Some(format!("{resolved}{skewed}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::analysis::{Options, analyze};
    use jitlat_core::{Direction, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime};

    /// Returns the note about a sender whose last packet left 3 ms late.
    fn note(packets: i64) -> Option<String> {
        let period = Span::millis(20);
        let spec = TestSpec::new(
            Direction::Up,
            Transport::Udp,
            packets.unsigned_abs(),
            80,
            period,
            Schedule::Periodic,
        );
        let mut session = Session::new(spec.unwrap());
        session.sent = u32::try_from(packets).ok();
        let records = (0..packets).map(|k| {
            let late = if k + 1 == packets && k > 0 { Span::millis(3) } else { Span::ZERO };
            let sent = WallTime(1_795_865_378_000_000_000) + period.times(k) + late;
            PacketRecord::one_way(k, sent, sent + Span::millis(5))
        });
        senders(&[("up", &analyze(&session, records, &Options::default()))])
    }

    #[test]
    fn few_packets_have_no_99th_percentile_and_one_has_no_lateness() {
        assert_eq!(note(1), None);
        assert_eq!(note(5).as_deref(), Some("all sent within 3.00 ms of schedule"));
        assert_eq!(note(400).as_deref(), Some("99 % sent within 0 ns of schedule"));
    }
}
