//! [`Intervals`]: the times between the packets of each sender around a jump of the times. They show how large a step of
//! the clock was, and steps that no timestamps show.

use super::{Hosts, MIN_FORWARD_STEP, Sender, SenderMark, StepSize};

/// Number of packets of a sender whose times are compared.
const COMPARED: usize = 3;
/// Number of senders at regular intervals that prove a step forward.
const PROOF: usize = 3;
/// Tolerance, in ns, with which regular senders agree on the size of a step.
const TOLERANCE: i64 = 1_000_000;
/// Largest deviation of an interval, as a multiple of the variation of the few that are compared.
const VARIATIONS: i64 = 3;
/// Time after a jump forward, in ns, by which senders at regular intervals have sent [`COMPARED`] packets.
const EXAMINED: i64 = 400_000_000;
/// Longest interval, in ns, at which a sender may show a jump forward by sending at regular intervals.
const MAX_INTERVAL: i64 = 100_000_000;

/// A sender that was known before the jump, and its first packets afterwards.
#[derive(Clone, Copy, Debug)]
struct Examined {
    mark: SenderMark,
    hosts: Hosts,
    before: Sender,
    /// True if the sender's timestamps show how much time passed on its clock.
    has_clock: bool,
    /// Times of the first packets, in ns.
    at: [i64; COMPARED],
    packets: usize,
}

impl Examined {
    /// Iterates over the times between successive packets after the jump, in ns.
    fn after(&self) -> impl Iterator<Item = i64> {
        let at = &self.at[..self.packets.min(COMPARED)];
        at.windows(2).map(|w| w[1].saturating_sub(w[0]))
    }

    /// Returns the times between successive packets, in ns: those before the jump, then those after it.
    fn intervals(&self) -> Vec<i64> {
        let before = Some(self.before.interval).into_iter();
        before.chain(self.after()).filter(|interval| *interval > 0).collect()
    }

    /// Returns the time by which the first packet is later than the sender's intervals suggest, in ns; negative if it is
    /// earlier.
    fn delay(&self) -> i64 {
        let usual = median(self.intervals()).unwrap_or(0);
        self.at[0].saturating_sub(self.before.at).saturating_sub(usual)
    }

    /// Returns the difference between the longest and the shortest time between packets, in ns. A single time is
    /// returned itself; 0 without any.
    fn variation(&self) -> i64 {
        match self.intervals()[..] {
            [] => 0,
            [only] => only,
            ref all => {
                let (least, most) = (all.iter().min().copied(), all.iter().max().copied());
                most.zip(least).map_or(0, |(most, least)| most.saturating_sub(least))
            }
        }
    }

    /// Returns the regular interval of the sender, and the difference between the longest and the shortest one, in ns;
    /// `None` if its timestamps show the time, if its intervals are irregular, or if too few packets are known.
    fn regular(&self) -> Option<(i64, i64)> {
        let all = self.intervals();
        let (least, most) = (*all.iter().min()?, *all.iter().max()?);
        let is_regular = all.len() == COMPARED && most - least <= most / 4;
        (!self.has_clock && self.mark.may_be_regular && is_regular)
            .then_some((least + (most - least) / 2, most - least))
    }

    /// True if the packets follow one another closely, because they waited somewhere.
    fn catches_up(&self) -> bool {
        let regular = !self.has_clock && self.mark.may_be_regular;
        regular && self.after().any(|interval| interval.saturating_mul(2) < self.before.interval)
    }
}

fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// The packets after a jump of the times.
#[derive(Clone, Debug, Default)]
pub(super) struct Intervals {
    /// Times of the examined frames, in ns.
    at: Vec<i64>,
    senders: Vec<Examined>,
}

impl Intervals {
    /// True if the packet may be one of many that are sent at regular intervals, and the latest interval of its sender
    /// is known and at most [`MAX_INTERVAL`].
    pub(super) fn may_show(mark: SenderMark, sender: &Sender) -> bool {
        mark.may_be_regular && (1..=MAX_INTERVAL).contains(&sender.interval)
    }

    /// Adds the next frame; `known` is the state of its sender before the jump.
    pub(super) fn add(&mut self, at: i64, known: Option<(SenderMark, Hosts, Sender)>) {
        self.at.push(at);
        let Some((mark, hosts, before)) = known else { return };
        let place = self.senders.iter().position(|s| s.mark.flow == mark.flow);
        let i = place.unwrap_or_else(|| {
            let has_clock = before.excess(at, mark.value).is_some();
            self.senders.push(Examined { mark, hosts, before, has_clock, at: [0; COMPARED], packets: 0 });
            self.senders.len() - 1
        });
        let sender = &mut self.senders[i];
        if let Some(place) = sender.at.get_mut(sender.packets) {
            *place = at;
        }
        sender.packets += 1;
    }

    /// True if packets that waited somewhere have come all at once.
    pub(super) fn catches_up(&self) -> bool {
        self.senders.iter().any(Examined::catches_up)
    }

    /// True if a jump forward was examined for long enough.
    pub(super) fn is_forward_decided(&self) -> bool {
        let passed =
            self.at.last().zip(self.at.first()).map_or(0, |(last, first)| last.saturating_sub(*first));
        self.catches_up() || passed >= EXAMINED || self.step_forward().is_some_and(|(_, proven)| proven)
    }

    /// Returns the step forward on which all senders at regular intervals agree, and true if there are at least
    /// [`PROOF`] of them. `None` if they disagree, if no two of them send to each other, or if missing or delayed packets
    /// may explain the jump.
    pub(super) fn step_forward(&self) -> Option<(StepSize, bool)> {
        let all: Vec<(&Examined, i64, i64)> = self
            .senders
            .iter()
            .filter_map(|s| s.regular().map(|(interval, spread)| (s, interval, spread)))
            .collect();
        let step = median(all.iter().map(|(s, ..)| s.delay()).collect())?;
        let agree = all.iter().all(|(s, _, spread)| {
            s.delay().saturating_sub(step).saturating_abs() <= spread.saturating_add(TOLERANCE)
        });
        // After missing packets, a sender continues at its own times: the gap is a multiple of its interval.
        let is_between = |(s, interval, _): &(&Examined, i64, i64)| {
            let part = s.delay().rem_euclid(*interval);
            part.min(interval - part) > interval / 4
        };
        // A path that became longer delays all senders on one side alike.
        let both = all.iter().any(|(a, ..)| all.iter().any(|(b, ..)| a.hosts.is_opposite(&b.hosts)));
        let shows = step >= MIN_FORWARD_STEP && both && agree && all.iter().any(is_between);
        let apart = |(s, _, spread): &(&Examined, i64, i64)| {
            s.delay().saturating_sub(step).saturating_abs().saturating_add(spread.saturating_mul(VARIATIONS))
        };
        let size = StepSize { by: step, error: all.iter().map(apart).max().max(Some(TOLERANCE)) };
        (shows && !self.catches_up()).then_some((size, all.len() >= PROOF))
    }

    /// True if the interval after the jump is known for at least one sender whose times went back by more than half of
    /// the jump `by`, in ns.
    pub(super) fn knows_back(&self, by: i64) -> bool {
        self.back(by).any(|s| s.packets > 1)
    }

    /// Iterates over the senders whose times went back by more than half of the jump `by`, in ns; `by` is negative.
    fn back(&self, by: i64) -> impl Iterator<Item = &Examined> {
        self.senders.iter().filter(move |s| s.before.at > s.at[0].saturating_sub(by / 2))
    }

    /// Estimates the size of a step back if the times jumped by `by` ns. The step is larger than the jump by the time that
    /// passed between the frames before and after it. The intervals of the senders show that time; without them, the
    /// median time between two frames is assumed.
    pub(super) fn step_back(&self, by: i64) -> StepSize {
        let gaps = self.at.windows(2).map(|w| w[1].saturating_sub(w[0])).filter(|gap| *gap > 0);
        match median(self.back(by).map(Examined::delay).collect()) {
            Some(step) => {
                let apart = |s: &Examined| s.delay().saturating_sub(step).saturating_abs();
                let error = self.back(by).map(|s| apart(s).saturating_add(s.variation())).max();
                StepSize { by: step, error: error.max(Some(TOLERANCE)) }
            }
            None => StepSize { by: by.saturating_sub(median(gaps.collect()).unwrap_or(0)), error: None },
        }
    }
}
