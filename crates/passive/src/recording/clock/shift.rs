//! [`Shift`]: finds small clock steps, which the times alone do not show. A step shifts the packets of all RTP
//! senders by the same amount against their media clocks, in both directions of a call at once. Delay before the capture
//! point shifts only those senders whose packets take the path that changed.

use super::{Hosts, Sender, SenderMark, StepSize};

/// Smallest shift that is examined, in ns.
const MIN_SHIFT: i64 = 4_000_000;
/// Minimum size of an examined shift, as a multiple of the sender's usual deviation.
const DEVIATIONS: i64 = 4;
/// Number of packets of each sender that are compared.
const COMPARED: usize = 9;
/// Minimum number of packets of a sender whose median can show that the sender was not shifted.
const DECISIVE: usize = 3;
/// Longest time for which packets are examined, in ns.
const EXAMINED: i64 = 250_000_000;
/// Maximum number of frames that are examined.
const MAX_FRAMES: u32 = 512;
/// Largest difference, in ns, between a sender's shift and the size of a step at which they agree.
const TOLERANCE: i64 = 2_000_000;
/// Smallest mean deviation of a sender's packets that is assumed, in ns.
const MIN_SPREAD: i64 = 50_000;
/// Maximum age, in ns, of the latest packet of a sender that counts as sending.
const SENDING: i64 = 100_000_000;

/// Sender with the shifts of its first packets.
#[derive(Clone, Copy, Debug)]
struct Shifted {
    flow: u64,
    hosts: Hosts,
    before: Sender,
    by: [i64; COMPARED],
    packets: usize,
}

impl Shifted {
    /// Returns the median shift, in ns.
    fn median(&self) -> i64 {
        let mut by = self.by;
        let known = &mut by[..self.packets.clamp(1, COMPARED)];
        known.sort_unstable();
        known[known.len() / 2]
    }

    fn is_opposite(&self, other: &Shifted) -> bool {
        (self.hosts.from, self.hosts.to) == (other.hosts.to, other.hosts.from)
    }
}

/// Examination of a shift.
#[derive(Clone, Debug)]
pub(super) struct Shift {
    /// Latest time before the shift.
    pub(super) from: i64,
    /// Time of the first examined frame.
    since: i64,
    /// Latest time of an examined frame.
    pub(super) latest: i64,
    /// Shift of the first packet, in ns.
    by: i64,
    /// Number of senders that were sending before the shift.
    sending: usize,
    frames: u32,
    senders: Vec<Shifted>,
}

impl Shift {
    /// True if a packet of `sender` that is shifted by `shift` ns is to be examined.
    #[inline]
    pub(super) fn is_large(sender: &Sender, shift: i64) -> bool {
        shift.saturating_abs() > MIN_SHIFT.saturating_add(sender.spread.saturating_mul(DEVIATIONS))
    }

    /// Begins an examination with a packet at `at` that is shifted by `by` ns; `from` is the latest time before that
    /// packet.
    pub(super) fn begin(senders: &[Sender], from: i64, at: i64, by: i64) -> Shift {
        let is_sending = |s: &&Sender| s.tick > 0 && from.saturating_sub(s.at) <= SENDING;
        let sending = senders.iter().filter(is_sending).count();
        Shift { from, since: at, latest: at, by, sending, frames: 0, senders: Vec::new() }
    }

    /// Adds a frame; `known` is its sender as it was before the shift. Returns true if the examination is over.
    pub(super) fn add(&mut self, at: i64, known: Option<(SenderMark, Hosts, Sender)>) -> bool {
        self.frames += 1;
        self.latest = self.latest.max(at);
        if let Some((mark, hosts, before)) = known
            && let Some(by) = before.shift(at, mark)
        {
            let place = self.senders.iter().position(|s| s.flow == mark.flow);
            let i = place.unwrap_or_else(|| {
                let none = Shifted { flow: mark.flow, hosts, before, by: [0; COMPARED], packets: 0 };
                self.senders.push(none);
                self.senders.len() - 1
            });
            let sender = &mut self.senders[i];
            if let Some(place) = sender.by.get_mut(sender.packets) {
                (*place, sender.packets) = (by, sender.packets + 1);
            }
        }
        let is_whole =
            self.senders.len() >= self.sending && self.senders.iter().all(|s| s.packets >= COMPARED);
        let is_long = self.latest.saturating_sub(self.since) >= EXAMINED || self.frames >= MAX_FRAMES;
        is_whole || is_long || self.is_refuted()
    }

    /// True if a sender was not shifted like the packet with which the examination began.
    fn is_refuted(&self) -> bool {
        let stayed =
            |by: i64| (by < 0) != (self.by < 0) || by.saturating_abs() < self.by.saturating_abs() / 2;
        self.senders.iter().any(|s| stayed(s.by[0]) || s.packets >= DECISIVE && stayed(s.median()))
    }

    /// Returns the size of the step; `None` if the clock was not set.
    pub(super) fn step(&self) -> Option<StepSize> {
        // A sender with little jitter shows the step more precisely, so the mean is weighted by the inverse square of the
        // spread.
        let weight = |s: &Shifted| (s.before.spread.max(MIN_SPREAD) as f64).powi(-2);
        let weights: f64 = self.senders.iter().map(weight).sum();
        let sum: f64 = self.senders.iter().map(|s| weight(s) * s.median() as f64).sum();
        let by = (sum / weights) as i64;
        let apart = |s: &Shifted| s.median().saturating_sub(by).saturating_abs();
        let agrees = |s: &Shifted| apart(s) <= TOLERANCE.saturating_add(s.before.spread.saturating_mul(2));
        let both = self.senders.iter().any(|a| self.senders.iter().any(|b| a.is_opposite(b)));
        let is_step = both && by.saturating_abs() >= MIN_SHIFT && !self.is_refuted();
        // The step is within the error of each sender, and therefore of the one with the smallest error.
        let error = |s: &Shifted| apart(s).saturating_add(s.before.spread.max(MIN_SPREAD).saturating_mul(2));
        let size = StepSize { by, error: self.senders.iter().map(error).min() };
        (is_step && self.senders.iter().all(agrees)).then_some(size)
    }
}
