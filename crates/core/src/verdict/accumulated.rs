//! [`Accumulated`]: what the stretches of a stream showed, one after another, in constant memory.

use super::answer::CauseId;
use super::case::{Begin, Case, smallest_one_way};
use super::causes::queue::{of_queue, waited};
use super::causes::{Found, RULES, merge_if_many};
use super::judge::{Evidence, Judgement, conclude};
use super::known::Known;
use super::material::Material;
use super::numbers::{moment, time};
use super::profiles::Profile;
use super::severity::{Experience, Waits, of_outage};
use super::steps::Reason;
use crate::distribution::{LogHistogram, Precision};
use crate::metrics::clock::ClockEstimate;
use crate::session::Session;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Causes of one kind that are kept apart until they are put together.
const KEPT: usize = 64;

/// What the numbers of the packets of a stretch stand for: the first few may have been shown before.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seam {
    /// So many packets at the begin of the stretch were judged with an earlier one.
    pub again: u32,
    /// Number in the stream of the packet that follows them.
    pub first: u32,
    /// Number in the stream of the first of them.
    pub from: u32,
    /// They are as much later than they were, in ns: what lies between them and the others is left out.
    pub left_out: i64,
}

impl Seam {
    /// The place in the stretch of packet `seq` of the stream; None of one that belongs to an earlier stretch.
    pub fn place(&self, seq: u32) -> Option<u32> {
        Some(seq.checked_sub(self.first)?.saturating_add(self.again))
    }

    /// The number in the stream of the packet at `place` of the stretch.
    pub fn number(&self, place: u32) -> u32 {
        match place.checked_sub(self.again) {
            Some(after) => self.first.saturating_add(after),
            None => self.from.saturating_add(place),
        }
    }

    fn number_of(&self, place: u64) -> u64 {
        match place.checked_sub(self.again.into()) {
            Some(after) => after.saturating_add(self.first.into()),
            None => place.saturating_add(self.from.into()),
        }
    }

    /// As much of `places` as lies on one side of what is left out.
    pub fn within(&self, places: Range<u32>) -> Range<u32> {
        match self.again {
            _ if self.left_out == 0 => places,
            again if places.start + places.end < 2 * again => places.start..places.end.min(again),
            again => places.start.max(again)..places.end,
        }
    }
}

/// What the stretches so far showed. Each was judged by itself, with what lasted from
/// the one before: what only several together would show (a drift that one does not resolve) is not found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Accumulated {
    stretches: u64,
    /// Times and numbers are those of the stream; `harm` is in packets.
    found: Vec<Found>,
    /// Beyond the smallest delay of each stretch, in ns.
    waits: LogHistogram,
    /// Packets whose fate is known, and those of them that were lost, outages apart.
    sent: u64,
    lost: u64,
    /// Burst ratios, each times the losses of its stretch.
    bursts: f64,
    /// Whether a clock was set.
    was_set: bool,
    /// Where the last stretch ended, in seconds.
    end: f64,
}

/// What is known of the whole stream when it has ended.
pub(crate) struct Whole<'a> {
    pub session: &'a Session,
    pub known: Known,
    pub clock: &'a ClockEstimate,
    pub received: u64,
    /// Smallest delay, in ns.
    pub min: Option<i64>,
    /// Number of the first packet of the last stretch if that is too short to show a law.
    pub short: Option<u32>,
    pub round_trip: bool,
    pub profiles: &'a [Profile],
}

impl Default for Accumulated {
    fn default() -> Accumulated {
        Accumulated {
            stretches: 0,
            found: Vec::new(),
            waits: LogHistogram::new(Precision::STREAM),
            sent: 0,
            lost: 0,
            bursts: 0.0,
            was_set: false,
            end: 0.0,
        }
    }
}

impl Accumulated {
    /// Number of stretches.
    pub fn stretches(&self) -> u64 {
        self.stretches
    }

    /// Adds the next stretch, whose numbers stand for what `seam` says. `origin` is when the stream's first packet was sent,
    /// and `due` when the stretch's first one was, if none of it came: in ns. Returns where what lasts to its end begins,
    /// by the numbers of the stretch, ascending.
    pub fn add(&mut self, material: &Material<'_>, seam: &Seam, origin: i64, due: i64) -> Vec<u32> {
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
        // Times of a test begin with its first packet that came.
        let before = (-case.seconds(0)).max(0.0);
        for mut found in RULES.iter().flat_map(|rule| (rule.find)(&case)) {
            let cause = &mut found.cause;
            if cause.packets[1] < seam.again.into() && !is_a_law(cause.id) {
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
            self.take(found, goes_on.then_some(seam));
        }
        let first = material.series.place_of(seam.again.into());
        let (mut least, mut new) = (i64::MAX, Vec::with_capacity(case.delays.len()));
        case.each_wait(|k, wait| {
            least = least.min(wait);
            if k >= first {
                new.push(wait);
            }
        });
        new.iter_mut().for_each(|wait| *wait = wait.saturating_sub(least));
        self.waits.add_all(&new);
        let again = |seq: u64| seq < seam.again.into();
        let others = case.losses.others();
        let lost_before = others.runs.iter().map(|(_, run)| run).chain(&case.lost_at_steps);
        let lost_before: u64 = lost_before.filter(|run| again(run.start)).map(|run| run.len).sum();
        let came_before = material.came.iter().take_while(|seq| again((*seq).into())).count() as u64;
        let [sent, lost] = case.sent_and_lost();
        let lost = lost.saturating_sub(lost_before);
        self.stretches += 1;
        self.sent = self.sent.saturating_add(sent.saturating_sub(came_before + lost_before));
        self.lost = self.lost.saturating_add(lost);
        self.bursts += case.scattered.pattern().burst_ratio * lost as f64;
        self.was_set |=
            case.steps.iter().any(|(_, r)| matches!(r, Reason::SenderClock | Reason::ReceiverClock));
        self.end = at + case.duration;
        lasting(&case)
    }

    /// Takes note of `new`, which began before the stretch that showed it if that stretch began at `seam`.
    fn take(&mut self, new: Found, seam: Option<&Seam>) {
        let id = new.cause.id;
        // The same level, of which more is known now: where it falls shows whether a queue or a way led to it.
        let is_level = |id| matches!(id, CauseId::Queue | CauseId::RouteChange);
        let lasted = |last: &Found, seam: &Seam| {
            is_level(last.cause.id)
                && last.cause.packets[1].saturating_add(seam.again.into()) >= seam.first.into()
                && last.cause.packets[0].abs_diff(new.cause.packets[0]) <= seam.again.into()
        };
        if let Some(seam) = seam.filter(|_| is_level(id))
            && let Some(place) = self.found.iter().rposition(|last| lasted(last, seam))
        {
            let last = std::mem::replace(&mut self.found[place], new);
            return more_is_known(&mut self.found[place], &last);
        }
        let Some(place) = self.found.iter().rposition(|f| f.cause.id == id) else {
            return self.found.push(new);
        };
        let last = &mut self.found[place];
        if is_a_law(id) {
            return both(last, new);
        }
        // From the end of one stretch to the begin of the next it is one and the same.
        if matches!(id, CauseId::Outage | CauseId::Queue)
            && new.cause.packets[0] <= last.cause.packets[1].saturating_add(1)
        {
            return join(last, &new);
        }
        self.found.push(new);
        if self.found.iter().filter(|f| f.cause.id == id).count() > KEPT {
            self.put_together(id);
        }
    }

    /// Makes one of many causes of one kind.
    fn put_together(&mut self, id: CauseId) {
        let (same, others) = std::mem::take(&mut self.found).into_iter().partition(|f| f.cause.id == id);
        self.found = others;
        self.found.extend(merge_if_many(same));
    }

    /// The verdict on the `whole` stream. None where something is known of it that its stretches could not know.
    pub fn judgement(mut self, whole: &Whole<'_>) -> Option<Judgement> {
        let Whole { session, known, clock, received, min, short, round_trip, profiles } = *whole;
        let refused = session.unsent as f64 >= 1e-3 * known.sent as f64 && session.unsent > 0;
        if refused || !session.unrecorded.is_empty() {
            return None;
        }
        self.keep_one_law_of_loss();
        let duration = self.end;
        let length = |f: &Found| f.cause.magnitude_ns.unwrap_or(0) as f64 / 1e9;
        let total: f64 = self.found.iter().filter(|f| f.cause.id == CauseId::Outage).map(length).sum();
        for f in &mut self.found {
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
            f.whole_test &= self.stretches == 1;
        }
        for law in self.found.iter_mut().filter(|f| is_a_law(f.cause.id)) {
            let cause = &mut law.cause;
            if short.is_some_and(|first| cause.packets[1].saturating_add(1) >= first.into()) {
                (cause.to_s, cause.packets[1]) = (duration, known.sent.saturating_sub(1));
            }
        }
        let kinds: std::collections::BTreeSet<CauseId> = self.found.iter().map(|f| f.cause.id).collect();
        kinds.into_iter().filter(|id| !is_a_law(*id)).for_each(|id| self.put_together(id));
        let lived = Experience {
            waits: Waits::new(&self.waits.quantiles(), 0, self.waits.len()),
            sent: self.sent,
            lost: self.lost,
            burst_ratio: if self.lost > 0 { self.bursts / self.lost as f64 } else { 1.0 },
            base_ns: min.and_then(|min| smallest_one_way(min, clock, round_trip, self.was_set)),
        };
        let found = self.found;
        Some(conclude(Evidence { found, lived, known, received, duration }, session, profiles))
    }

    /// Keeps, of the laws that scattered losses followed in different stretches, that of the most packets.
    fn keep_one_law_of_loss(&mut self) {
        let of_loss =
            |f: &&Found| matches!(f.cause.id, CauseId::RandomLoss | CauseId::BurstyLoss | CauseId::Policing);
        let most = self.found.iter().filter(of_loss).map(|f| f.harm).fold(0.0, f64::max);
        self.found.retain(|f| !of_loss(&f) || f.harm >= most);
    }

    /// Whether stretches can have shown this.
    pub fn is_possible(&self, rows: u64) -> bool {
        let finite = |f: &Found| {
            [f.harm, f.cause.from_s, f.cause.to_s, f.cause.confidence].iter().all(|x| x.is_finite())
                && f.cause.magnitude.is_none_or(f64::is_finite)
        };
        self.waits.len() <= rows
            && self.waits.is_possible(self.waits.len())
            && self.found.len() <= CauseId::ALL.len() * (KEPT + 1)
            && self.found.iter().all(finite)
            && self.bursts.is_finite()
            && self.end.is_finite()
            && self.lost <= self.sent
    }
}

/// Where what lasts to the end of `case` begins: queues, and longer ways that it does not come back from.
fn lasting(case: &Case<'_>) -> Vec<u32> {
    let n = case.delays.len();
    let queues = case.episodes.queues.iter().filter(|q| q.to + STRAYS >= n).map(|q| q.from);
    let routes: Vec<_> = case.steps.iter().filter(|(_, r)| *r == Reason::Route).map(|(s, _)| s).collect();
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

/// So many packets may follow a queue that lasts.
const STRAYS: usize = 16;

/// Causes that have a share of the packets rather than a time each.
fn is_a_law(id: CauseId) -> bool {
    matches!(
        id,
        CauseId::RandomLoss
            | CauseId::BurstyLoss
            | CauseId::Policing
            | CauseId::Reordering
            | CauseId::Duplication
            | CauseId::SizeDependent
            | CauseId::ClockSkew
    )
}

/// Of two stretches that show the same law: from the first to the last, and the mean by packets.
fn both(last: &mut Found, new: Found) {
    let span = |f: &Found| (f.cause.packets[1].saturating_sub(f.cause.packets[0]) + 1) as f64;
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

/// The same level as `last`, over more packets.
fn more_is_known(new: &mut Found, last: &Found) {
    let cause = &mut new.cause;
    new.harm += last.harm;
    (cause.from_s, cause.packets[0]) = (last.cause.from_s, last.cause.packets[0]);
    if cause.id == CauseId::Queue && last.cause.id == CauseId::Queue {
        cause.magnitude_ns = cause.magnitude_ns.max(last.cause.magnitude_ns);
        cause.severity = cause.severity.max(last.cause.severity);
        cause.because = waited(cause.from_s, cause.to_s, cause.magnitude_ns.unwrap_or(0));
    }
}

/// The same outage or queue, which went on where a stretch ended.
fn join(last: &mut Found, new: &Found) {
    let cause = &mut last.cause;
    (cause.to_s, cause.packets[1]) = (new.cause.to_s, new.cause.packets[1]);
    cause.severity = cause.severity.max(new.cause.severity);
    last.harm += new.harm;
    if cause.id == CauseId::Outage {
        let length = 1e9 * (cause.to_s - cause.from_s);
        let lost = cause.packets[1].saturating_sub(cause.packets[0]) + 1;
        cause.magnitude_ns = Some(length as i64);
        cause.because =
            format!("no packet for {} from {} on, {lost} lost in a row", time(length), moment(cause.from_s));
    } else {
        cause.magnitude_ns = cause.magnitude_ns.max(new.cause.magnitude_ns);
        cause.because = waited(cause.from_s, cause.to_s, cause.magnitude_ns.unwrap_or(0));
    }
}
