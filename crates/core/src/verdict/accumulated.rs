//! [`Accumulated`]: what the stretches of a stream showed, one after another, in constant memory.

use super::answer::CauseId;
use super::case::{Case, smallest_one_way};
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

/// Causes of one kind that are kept apart until they are put together.
const KEPT: usize = 64;

/// What the stretches so far showed. Each was judged by itself: what only several together would show (a route that
/// changed between them, a drift that one does not resolve) is not found.
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

    /// Adds the next stretch: its first packet is number `first` of the stream; `origin` is when the stream's first packet
    /// was sent, and `due` when the stretch's first one was, if none of it came: in ns.
    pub fn add(&mut self, material: &Material<'_>, first: u32, origin: i64, due: i64) {
        let case = Case::new(material);
        let begin = match material.series.range(0..material.series.len()).next() {
            Some(packet) => {
                let sent = packet.sent.saturating_sub(origin) as f64 / 1e9;
                sent - case.seconds(packet.seq.into())
            }
            None => due.saturating_sub(origin) as f64 / 1e9,
        };
        let packets = case.known.sent as f64;
        // Times of a test begin with its first packet that came.
        let before = (-case.seconds(0)).max(0.0);
        for mut found in RULES.iter().flat_map(|rule| (rule.find)(&case)) {
            let cause = &mut found.cause;
            if cause.id == CauseId::Outage && cause.packets[0] == 0 {
                cause.from_s -= before;
                cause.to_s -= before;
            }
            cause.from_s += begin;
            cause.to_s += begin;
            cause.packets = cause.packets.map(|seq| seq.saturating_add(first.into()));
            found.harm *= packets;
            self.take(found);
        }
        let lived = case.experience();
        let waits = case.waits();
        if let Some(min) = waits.min() {
            (0..waits.len()).filter_map(|k| waits.at(k)).for_each(|x| self.waits.add(x.saturating_sub(min)));
        }
        self.stretches += 1;
        self.sent = self.sent.saturating_add(lived.sent);
        self.lost = self.lost.saturating_add(lived.lost);
        self.bursts += lived.burst_ratio * lived.lost as f64;
        self.was_set |=
            case.steps.iter().any(|(_, r)| matches!(r, Reason::SenderClock | Reason::ReceiverClock));
        self.end = begin + case.duration;
    }

    fn take(&mut self, new: Found) {
        let id = new.cause.id;
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
            return join(last, new);
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
        let Whole { session, known, clock, received, min, round_trip, profiles } = *whole;
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
            if f.cause.id == CauseId::IncompleteLog {
                f.harm = known.unknown as f64 / (known.unknown + known.sent).max(1) as f64;
                f.cause.magnitude = Some(f.harm);
            }
            f.whole_test &= self.stretches == 1;
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

/// The same outage or queue, which went on where a stretch ended.
fn join(last: &mut Found, new: Found) {
    let cause = &mut last.cause;
    let larger = new.cause.magnitude_ns > cause.magnitude_ns;
    (cause.to_s, cause.packets[1]) = (new.cause.to_s, new.cause.packets[1]);
    cause.severity = cause.severity.max(new.cause.severity);
    last.harm += new.harm;
    if cause.id == CauseId::Outage {
        let length = 1e9 * (cause.to_s - cause.from_s);
        let lost = cause.packets[1].saturating_sub(cause.packets[0]) + 1;
        cause.magnitude_ns = Some(length as i64);
        cause.because =
            format!("no packet for {} from {} on, {lost} lost in a row", time(length), moment(cause.from_s));
    } else if larger {
        (cause.magnitude_ns, cause.because) = (new.cause.magnitude_ns, new.cause.because);
    }
}
