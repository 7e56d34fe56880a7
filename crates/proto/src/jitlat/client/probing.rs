//! Rounds of clock probes: schedules probes and matches answers to them.

use crate::Tick;
use crate::jitlat::auth::derive_u64;
use crate::jitlat::message::Probe;
use jitlat_core::{ClockProbe, Span, SteadyTime, WallTime};

/// One round of probes, before or after the stream. A probe does not wait for the answer to the previous one.
#[derive(Clone, Debug)]
pub(super) struct Round {
    wanted: u32,
    sent: Vec<Option<WallTime>>,
    answered: u32,
    /// Number of the first probe in this round. Numbering continues across rounds.
    first: u32,
    next_at: SteadyTime,
    interval: Span,
    timeout: Span,
    varied: Option<[u8; 32]>,
}

impl Round {
    /// Creates a round of `wanted` probes, starting at `now`. `varied` is a seed for random variation of the
    /// interval; `None`: a constant interval.
    pub fn new(
        now: SteadyTime,
        wanted: u32,
        first: u32,
        interval: Span,
        timeout: Span,
        varied: Option<[u8; 32]>,
    ) -> Round {
        Round { wanted, sent: Vec::new(), answered: 0, first, next_at: now, interval, timeout, varied }
    }

    /// Returns the probe to send at `now`, if one is due.
    pub fn poll_send(&mut self, now: Tick) -> Option<Probe> {
        let count = self.sent.len() as u32;
        if count >= self.wanted || now.steady < self.next_at {
            return None;
        }
        let id = self.first + count;
        self.sent.push(Some(now.wall));
        self.next_at = now.steady + self.gap(id);
        Some(Probe { id, sent: now.wall, arrived: None, answered: None })
    }

    fn gap(&self, id: u32) -> Span {
        let Some(seed) = &self.varied else { return self.interval };
        let half = (self.interval.0 / 2).max(1);
        let random = derive_u64(seed, &format!("probe {id}")) % (2 * half as u64);
        Span(half + random as i64)
    }

    /// Handles an answer that arrived at `now`. Returns `None` for a duplicate or unexpected answer.
    pub fn answer(&mut self, now: Tick, probe: &Probe) -> Option<ClockProbe> {
        let sent = self.sent.get_mut(probe.id.checked_sub(self.first)? as usize)?;
        sent.take_if(|at| *at == probe.sent)?;
        self.answered += 1;
        let arrived = probe.arrived?;
        let answered = probe.answered.unwrap_or(arrived);
        Some(ClockProbe { sent: probe.sent, arrived, answered, returned: now.wall })
    }

    /// Returns the number of answers so far and the number of probes.
    pub fn progress(&self) -> (u32, u32) {
        (self.answered, self.wanted)
    }

    /// True if every probe has been answered or has timed out.
    pub fn is_over(&self, now: SteadyTime) -> bool {
        self.sent.len() as u32 >= self.wanted
            && (self.answered >= self.wanted || now >= self.next_at + self.timeout)
    }

    /// Returns the time of the next action, on the steady clock.
    pub fn deadline(&self) -> SteadyTime {
        if (self.sent.len() as u32) < self.wanted { self.next_at } else { self.next_at + self.timeout }
    }

    /// Returns the number that follows the last probe of this round.
    pub fn next_id(&self) -> u32 {
        self.first + self.sent.len() as u32
    }
}
