//! [`add`]: judges the stretches of a stream one after another, in constant memory. [`judgement`]: judges the whole
//! stream.

use super::case::{Begin, Case};
use super::causes::queue::of_queue;
use super::causes::{FoundCause, RULES, merge_of_kind};
use super::causes::{receiver_stall, sender_stall};
use super::clock_bounds::{error_of_one_way, is_one_host, smallest_one_way};
use super::judge::{CaseFindings, conclude};
use super::outcome;
use super::profiles::Profile;
use super::sentences::causes::{outage, queue};
use super::severity::{Experience, Waits, of_outage};
use super::steps::StepReason;
use super::tcp_limits::Limits;
use jitlat_core::answer::{CauseId, Severity};
use jitlat_core::evidence::{
    Evidence, Judgement, MAX_CAUSES_PER_KIND, StretchFindings, StretchSeam, WholeStream,
};

/// Adds the findings of the next stretch. `seam` maps its packet numbers to sequence numbers of the stream. `origin` is
/// the send time of the stream's first packet, and `due` the due time of the stretch's first packet, which is used if
/// none was received; both in ns. Returns the first packet, as a position in the stretch, of each cause that lasts to
/// the end of the stretch, ascending.
pub fn add(
    so_far: &mut StretchFindings,
    material: &Evidence<'_>,
    seam: &StretchSeam,
    origin: i64,
    due: i64,
) -> Vec<u32> {
    let mut case = Case::new(material);
    let at = match material.series.range(0..material.series.len()).next() {
        Some(packet) => {
            let sent = packet.sent.saturating_sub(origin) as f64 / 1e9;
            sent - case.seconds(packet.seq.into())
        }
        None => due.saturating_sub(origin) as f64 / 1e9,
    };
    let left_out = seam.left_out as f64 / 1e9;
    case.begin = Begin { at, again_until: case.seconds(seam.again.into()), left_out };
    let packets = case.known.sent as f64;
    // The times in a case begin at the first packet received.
    let before = (-case.seconds(0)).max(0.0);
    for mut found in RULES.iter().flat_map(|rule| (rule.find)(&case)) {
        let cause = &mut found.cause;
        if cause.packets[1] < seam.again.into() && !is_share_of_packets(cause.id) {
            continue;
        }
        let goes_on = cause.packets[0] < seam.again.into();
        if cause.id == CauseId::Outage && cause.packets[0] == 0 {
            cause.from_s -= before;
            cause.to_s -= before;
        }
        cause.from_s = case.begin.of(cause.from_s);
        cause.to_s = case.begin.of(cause.to_s);
        cause.packets = cause.packets.map(|seq| seam.number_of(seq));
        found.harm *= packets;
        take(so_far, found, goes_on.then_some(seam));
    }
    let first = material.series.position_of(seam.again.into());
    let (mut least, mut new) = (i64::MAX, Vec::with_capacity(case.delays.len()));
    case.each_wait(|k, wait| {
        least = least.min(wait);
        if k >= first {
            new.push(wait);
        }
    });
    new.iter_mut().for_each(|wait| *wait = wait.saturating_sub(least));
    so_far.waits.add_all(&new);
    let again = |seq: u64| seq < seam.again.into();
    let others = case.losses.others();
    let lost_before = others.runs.iter().map(|(_, run)| run).chain(&case.lost_at_steps);
    let lost_before: u64 = lost_before.filter(|run| again(run.start)).map(|run| run.len).sum();
    let came_before = material.came.iter().take_while(|seq| again((*seq).into())).count() as u64;
    let [sent, lost] = case.sent_and_lost();
    let lost = lost.saturating_sub(lost_before);
    so_far.stretches += 1;
    so_far.sent = so_far.sent.saturating_add(sent.saturating_sub(came_before + lost_before));
    so_far.lost = so_far.lost.saturating_add(lost);
    so_far.bursts += case.scattered.pattern().burst_ratio * lost as f64;
    so_far.effects += case.scattered.design_effect() * lost as f64;
    so_far.was_set |= case.was_set();
    so_far.end = at + case.duration;
    lasting(&case)
}

/// Adds `new` to the findings. If the cause began before the stretch in which it was found, `seam` is given.
fn take(so_far: &mut StretchFindings, new: FoundCause, seam: Option<&StretchSeam>) {
    let id = new.cause.id;
    // If a level continues, both stretches report it. The later report replaces the earlier one: only the end of a
    // level shows whether a queue or a route change caused it.
    let is_level = |id| matches!(id, CauseId::Queue | CauseId::RouteChange);
    let lasted = |last: &FoundCause, seam: &StretchSeam| {
        is_level(last.cause.id)
            && last.cause.packets[1].saturating_add(seam.again.into()) >= seam.first.into()
            && last.cause.packets[0].abs_diff(new.cause.packets[0]) <= seam.again.into()
    };
    if let Some(seam) = seam.filter(|_| is_level(id))
        && let Some(place) = so_far.found.iter().rposition(|last| lasted(last, seam))
    {
        let last = std::mem::replace(&mut so_far.found[place], new);
        return extend_back(&mut so_far.found[place], &last);
    }
    let Some(place) = so_far.found.iter().rposition(|f| f.cause.id == id) else {
        return so_far.found.push(new);
    };
    let last = &mut so_far.found[place];
    if is_share_of_packets(id) {
        return both(last, new);
    }
    // A cause at the end of one stretch that continues in the next stretch is a single cause.
    if matches!(id, CauseId::Outage | CauseId::Queue)
        && new.cause.packets[0] <= last.cause.packets[1].saturating_add(1)
    {
        return join(last, &new);
    }
    so_far.found.push(new);
    if so_far.found.iter().filter(|f| f.cause.id == id).count() > MAX_CAUSES_PER_KIND {
        merge_kind(so_far, id);
    }
}

/// Merges the causes of one kind if there are too many, or if this kind is always reported as one cause.
fn merge_kind(so_far: &mut StretchFindings, id: CauseId) {
    let (same, others) = std::mem::take(&mut so_far.found).into_iter().partition(|f| f.cause.id == id);
    so_far.found = others;
    so_far.found.extend(merge_of_kind(id, same));
}

/// Limit, in seconds: if a TCP connection held packets back for at least this time, the stretches of the stream must
/// not be judged without knowledge of the connection's limits.
const MIN_LIMITED: f64 = 1e-3;

/// Returns the verdict on the `whole` stream; `None` if it depends on facts that were unknown when its stretches were
/// judged: refused, dropped, skipped or unrecorded packets, the limits of a TCP connection, or a discovered path MTU.
pub fn judgement(
    mut so_far: StretchFindings,
    whole: &WholeStream<'_>,
    profiles: &[Profile],
) -> Option<Judgement> {
    let WholeStream { session, known, clock, received, min, short, round_trip } = *whole;
    let by_hosts = session.unsent.max(session.receiver_drops.unwrap_or(0));
    let refused = by_hosts as f64 >= 1e-3 * known.sent as f64 && by_hosts > 0;
    let limited = session.path_mtu.is_some() || Limits::of(&session.tcp).total() >= MIN_LIMITED;
    if refused || limited || !session.unrecorded.is_empty() || !session.skipped.is_empty() {
        return None;
    }
    keep_worst_loss_cause(&mut so_far);
    let duration = so_far.end;
    let length = |f: &FoundCause| f.cause.magnitude_ns.unwrap_or(0) as f64 / 1e9;
    let total: f64 = so_far.found.iter().filter(|f| f.cause.id == CauseId::Outage).map(length).sum();
    for f in &mut so_far.found {
        f.harm /= known.sent.max(1) as f64;
        if f.cause.id == CauseId::Outage {
            f.cause.severity = of_outage(length(f), total, duration);
        }
        if f.cause.id == CauseId::Queue && f.cause.count == 1 {
            let packets = f.cause.packets[1].saturating_sub(f.cause.packets[0]) + 1;
            let height = f.cause.magnitude_ns.unwrap_or(0);
            f.cause.severity = of_queue(height, packets as f64 / known.sent.max(1) as f64);
        }
        if f.cause.id == CauseId::IncompleteLog {
            f.harm = known.unknown as f64 / (known.unknown + known.sent).max(1) as f64;
            f.cause.magnitude = Some(f.harm);
        }
        f.whole_test &= so_far.stretches == 1;
    }
    for law in so_far.found.iter_mut().filter(|f| is_share_of_packets(f.cause.id)) {
        let cause = &mut law.cause;
        if short.is_some_and(|first| cause.packets[1].saturating_add(1) >= first.into()) {
            (cause.to_s, cause.packets[1]) = (duration, known.sent.saturating_sub(1));
        }
    }
    let kinds: std::collections::BTreeSet<CauseId> = so_far.found.iter().map(|f| f.cause.id).collect();
    kinds.into_iter().filter(|id| !is_share_of_packets(*id)).for_each(|id| merge_kind(&mut so_far, id));
    let lived = Experience {
        waits: Waits::new(&so_far.waits.quantiles(), 0, so_far.waits.len()),
        sent: so_far.sent,
        lost: so_far.lost,
        burst_ratio: if so_far.lost > 0 { so_far.bursts / so_far.lost as f64 } else { 1.0 },
        loss_effect: if so_far.lost > 0 { so_far.effects / so_far.lost as f64 } else { 1.0 },
        base_ns: min.and_then(|min| match is_one_host(session) {
            true if !round_trip && !so_far.was_set => Some(min as f64),
            _ => smallest_one_way(min, clock, round_trip, so_far.was_set),
        }),
        base_error_ns: error_of_one_way(clock, round_trip, is_one_host(session)),
    };
    let found = so_far.found;
    let touched = (found.iter().map(affected_share).sum::<f64>() * known.sent as f64) as u64;
    let findings = CaseFindings {
        found,
        lived,
        with_hosts: None,
        known,
        received,
        duration,
        touched,
        gaps: Severity::Good,
        was_set: so_far.was_set,
        shifts: Vec::new(),
        quality: outcome::not_recorded(),
    };
    Some(conclude(findings, session, profiles))
}

/// Returns the share of packets that a stall affected. A stall of the receiver affects none if the kernel stamped the
/// arrivals.
fn affected_share(found: &FoundCause) -> f64 {
    match found.cause.id {
        CauseId::SenderStall => found.harm / sender_stall::HARM_PER_SHARE,
        CauseId::ReceiverStall if found.cause.confidence < receiver_stall::PROVEN => found.harm,
        _ => 0.0,
    }
}

/// Removes all but the most harmful of random, bursty, periodic and policed loss: several of these may have been found
/// in different stretches.
fn keep_worst_loss_cause(so_far: &mut StretchFindings) {
    let of_loss = |f: &&FoundCause| {
        matches!(
            f.cause.id,
            CauseId::RandomLoss | CauseId::BurstyLoss | CauseId::Policing | CauseId::PeriodicLoss
        )
    };
    let most = so_far.found.iter().filter(of_loss).map(|f| f.harm).fold(0.0, f64::max);
    so_far.found.retain(|f| !of_loss(&f) || f.harm >= most);
}

/// Returns the first packet of each queue that lasts to the end of `case`, and of each change to a longer route that is
/// not reversed.
fn lasting(case: &Case<'_>) -> Vec<u32> {
    let n = case.delays.len();
    let queues = case.episodes.queues.iter().filter(|q| q.to + MAX_PACKETS_AFTER >= n).map(|q| q.from);
    let routes: Vec<_> = case.steps.iter().filter(|(_, r)| *r == StepReason::Route).map(|(s, _)| s).collect();
    let back = |k: usize| {
        let change = routes[k].change;
        routes[k + 1..].iter().any(|s| s.change.saturating_add(change).abs() <= change.abs() / 4)
    };
    let levels = (0..routes.len()).filter(|k| routes[*k].change > 0 && !back(*k)).map(|k| routes[k].place);
    let places = queues.chain(levels).filter(|place| *place < n);
    let mut begins: Vec<u32> =
        places.filter_map(|place| u32::try_from(case.delays.seq(place)).ok()).collect();
    begins.sort_unstable();
    begins
}

/// Maximum number of packets after a queue that still counts as lasting to the end of the stretch.
const MAX_PACKETS_AFTER: usize = 16;

/// Returns true for causes that describe a share of packets rather than an event in time.
fn is_share_of_packets(id: CauseId) -> bool {
    matches!(
        id,
        CauseId::RandomLoss
            | CauseId::BurstyLoss
            | CauseId::Policing
            | CauseId::PeriodicLoss
            | CauseId::Reordering
            | CauseId::Duplication
            | CauseId::SizeDependent
            | CauseId::ClockSkew
    )
}

/// Merges `new`, the same cause in the next stretch, into `last`. Its share becomes the mean of both shares, weighted
/// by packets.
fn both(last: &mut FoundCause, new: FoundCause) {
    let span = |f: &FoundCause| (f.cause.packets[1].saturating_sub(f.cause.packets[0]) + 1) as f64;
    let (here, there) = (span(last), span(&new));
    let cause = &mut last.cause;
    cause.magnitude = cause
        .magnitude
        .zip(new.cause.magnitude)
        .map(|(a, b)| (a * here + b * there) / (here + there))
        .or(cause.magnitude);
    if new.cause.severity > cause.severity {
        cause.because = new.cause.because;
    }
    cause.magnitude_ns = cause.magnitude_ns.max(new.cause.magnitude_ns);
    cause.severity = cause.severity.max(new.cause.severity);
    cause.confidence = cause.confidence.max(new.cause.confidence);
    (cause.to_s, cause.packets[1]) = (new.cause.to_s, new.cause.packets[1]);
    cause.count = cause.count.max(new.cause.count);
    last.harm += new.harm;
}

/// Extends the queue or route change `new` of the next stretch back to the start of `last`.
fn extend_back(new: &mut FoundCause, last: &FoundCause) {
    let cause = &mut new.cause;
    new.harm += last.harm;
    (cause.from_s, cause.packets[0]) = (last.cause.from_s, last.cause.packets[0]);
    if cause.id == CauseId::Queue && last.cause.id == CauseId::Queue {
        cause.magnitude_ns = cause.magnitude_ns.max(last.cause.magnitude_ns);
        cause.severity = cause.severity.max(last.cause.severity);
        cause.because = queue(cause.from_s, cause.to_s, cause.magnitude_ns.unwrap_or(0));
    }
}

/// Joins two parts of an outage or a queue that was split at the end of a stretch.
fn join(last: &mut FoundCause, new: &FoundCause) {
    let cause = &mut last.cause;
    (cause.to_s, cause.packets[1]) = (new.cause.to_s, new.cause.packets[1]);
    cause.severity = cause.severity.max(new.cause.severity);
    last.harm += new.harm;
    if cause.id == CauseId::Outage {
        let length = 1e9 * (cause.to_s - cause.from_s);
        let lost = cause.packets[1].saturating_sub(cause.packets[0]) + 1;
        cause.magnitude_ns = Some(length as i64);
        cause.because = outage(cause.from_s, length, lost);
    } else {
        cause.magnitude_ns = cause.magnitude_ns.max(new.cause.magnitude_ns);
        cause.because = queue(cause.from_s, cause.to_s, cause.magnitude_ns.unwrap_or(0));
    }
}
