//! [`RecordingClock`]: corrects the times of one recording for steps of its clock.
//!
//! A clock that is set affects all packets at once. If the times go back because of it, packets of several senders have
//! earlier times than previous packets of the same senders. A capture with several queues is merely out of order, and
//! soon returns to the time that it had reached. If the times jump forward, the clock was set if the TCP timestamps
//! (RFC 7323) or RTP timestamps of at least two hosts have not advanced as much; otherwise nothing was sent for that
//! time. A path that stalled delays RTP packets as well, but soon their timestamps agree with the time again. Other
//! senders at regular intervals show steps as well ([`intervals`]). The caller holds the frames until it is decided
//! which of these happened.

mod intervals;

use crate::rtp::RATES;
use intervals::Intervals;
use jitlat_core::time::{SECOND, WallTime};

/// Largest step back that counts as disorder without further examination, in ns.
const PLAIN_DISORDER: i64 = 5_000_000;
/// Smallest gap in which a step forward is looked for, in ns.
const MIN_JUMP: i64 = 100_000_000;
/// Smallest excess that shows a step forward, in ns: the time that passed on the recording's clock minus the time that
/// passed on a sender's clock.
const MIN_FORWARD_STEP: i64 = 50_000_000;
/// Maximum distance from the time reached before, in ns, at which a return to it is attributed to disordered queues.
const NEAR_RETURN: i64 = 50_000_000;
/// Smallest step back, in ns, that is too large for disorder.
const CERTAIN_STEP: i64 = SECOND;
/// Maximum numbers of frames that are examined to decide the cause of a jump of the times: without and with RTP
/// timestamps.
const MAX_EXAMINED: [u32; 2] = [64, 1024];
/// Time after a jump forward, in ns, at which RTP timestamps show whether the clock was set. By then, a stalled path
/// has forwarded the packets that waited.
const MEDIA_EXAMINED: i64 = 100_000_000;
/// Number of examined frames from which on a large step back, or two senders whose times went back, decide.
const ENOUGH_EXAMINED: u32 = 16;
/// Number of senders that are remembered.
const SENDERS: usize = 256;
/// Shortest time over which the rate of a sender's timestamps is measured, in ns, and smallest number of ticks.
const MIN_RATE: (i64, i32) = (100_000_000, 20);
/// Maximum relative difference between the rates of two clocks, as 1 in this many.
const MAX_DRIFT: i64 = 1000;
/// Same as [`MIN_RATE`], for RTP timestamps.
const MIN_MEDIA_RATE: (i64, i32) = (500_000_000, 160);
/// Usual rates of timestamps, in Hz, and the largest relative difference from them: TCP, and RTP.
const TCP_RATES: (&[u32], f64) = (&[1000, 250, 100, 10], 0.1);
const MEDIA_RATES: (&[u32], f64) = (&RATES, 0.03);
/// Pause of a sender, in ns, after which the rate of its RTP timestamps is measured again: they may have stopped.
const MEDIA_PAUSE: i64 = SECOND;
/// Step of the times, in ns, that is fine enough to end the search for a coarse resolution.
const FINE: i64 = 10_000;
/// Smallest resolution that is reported, in ns, and minimum number of differences between times that show it.
const COARSE: (i64, u32) = (100_000, 16);

/// Sender of a packet, and the timestamp in the packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderMark {
    /// Hash of the addresses and ports in this direction, and of the SSRC of an RTP packet.
    pub(super) flow: u64,
    /// Hash of the source address.
    pub(super) host: u32,
    /// TSval of a TCP segment, or timestamp of an RTP packet; `None` without one.
    pub(super) value: Option<u32>,
    /// True for RTP.
    pub(super) is_media: bool,
    /// True if the packet may be one of many that are sent at regular intervals.
    pub(super) may_be_regular: bool,
}

/// Remembered state of a sender.
#[derive(Clone, Copy, Debug)]
struct Sender {
    flow: u64,
    at: i64,
    /// Time between the two latest packets, in ns; 0 after a single packet.
    interval: i64,
    /// Time of the first timestamp, the first timestamp, and the latest one; `None` without timestamps.
    stamps: Option<(i64, u32, u32)>,
    is_media: bool,
}

impl Sender {
    const NONE: Sender = Sender { flow: 0, at: i64::MIN, interval: 0, stamps: None, is_media: false };

    /// Returns the rate of this sender's timestamps, in Hz; `None` if unknown.
    fn rate(&self) -> Option<u32> {
        let (first_at, first, latest) = self.stamps?;
        let (span, ticks) = (self.at.saturating_sub(first_at), latest.wrapping_sub(first) as i32);
        let (least, (rates, error)) = match self.is_media {
            true => (MIN_MEDIA_RATE, MEDIA_RATES),
            false => (MIN_RATE, TCP_RATES),
        };
        if span < least.0 || ticks < least.1 {
            return None;
        }
        let rate = f64::from(ticks) * SECOND as f64 / span as f64;
        rates.iter().copied().find(|usual| (rate / f64::from(*usual) - 1.0).abs() <= error)
    }

    /// Returns the time that passed on the recording's clock minus the time that passed on the sender's clock, in ns; 0
    /// if they differ no more than clocks do, `None` if unknown.
    fn excess(&self, at: i64, value: Option<u32>) -> Option<i64> {
        let passed = value?.wrapping_sub(self.stamps?.2) as i32;
        let rate = i64::from(self.rate()?);
        let own = i64::from(passed) * SECOND / rate;
        let elapsed = at.saturating_sub(self.at);
        let excess = elapsed.saturating_sub(own);
        // A timestamp is known to a tick, and the rates of two clocks differ a little.
        let uncertain = (2 * SECOND / rate).saturating_add(elapsed.saturating_abs() / MAX_DRIFT);
        Some(if excess.saturating_abs() <= uncertain { 0 } else { excess })
    }
}

/// Step of the recording's clock, which was set during the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Last time before the step, as recorded.
    pub(super) at: WallTime,
    /// Change of the clock, in ns; positive if it was set forward.
    pub(super) by: i64,
    /// True if senders show that the clock was set; false if another recording may have been appended instead.
    pub(super) proven: bool,
}

/// Result of [`RecordingClock::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The frame has the corrected time `at`. `late` is true if it was recorded after a frame with a later time.
    At { at: WallTime, late: bool },
    /// The frame is to be held: later frames must show what happened.
    Doubt,
}

#[derive(Clone, Debug)]
struct Doubt {
    /// Latest time before the jump.
    from: i64,
    /// Size of the jump, in ns; negative if the times went back.
    by: i64,
    /// Time of the latest examined frame.
    latest: i64,
    /// True if the time jumped forward to the latest frame by at least half of the jump back.
    jumped: bool,
    frames: u32,
    /// Flows of the senders whose times went back.
    back: Vec<u64>,
    /// Hosts, each with the time that passed on the recording's clock minus the time that passed on the host's clock,
    /// in ns.
    excess: Vec<(u32, i64)>,
    /// Same as `excess`, from RTP timestamps after a jump forward: the latest value of each host.
    media: Vec<(u32, i64)>,
    /// Time of the first examined frame.
    since: i64,
    intervals: Intervals,
}

#[derive(Debug)]
pub(super) struct RecordingClock {
    correction: i64,
    /// Latest corrected time, in ns.
    newest: i64,
    senders: Box<[Sender; SENDERS]>,
    doubt: Option<Doubt>,
    /// Largest step back that was found to be disorder, in ns.
    disorder: i64,
    /// Greatest common divisor of the differences between times, in ns, while it is above [`FINE`].
    grain: i64,
    coarse: bool,
    differences: u32,
    /// Number of frames recorded after a frame with a later time.
    pub(super) disordered: u64,
}

impl Default for RecordingClock {
    fn default() -> RecordingClock {
        RecordingClock {
            correction: 0,
            newest: i64::MIN,
            senders: Box::new([Sender::NONE; SENDERS]),
            doubt: None,
            disorder: PLAIN_DISORDER,
            grain: 0,
            coarse: true,
            differences: 0,
            disordered: 0,
        }
    }
}

impl RecordingClock {
    /// Handles the time of the next frame.
    #[inline]
    pub(super) fn take(&mut self, recorded: WallTime, mark: Option<SenderMark>) -> Taken {
        let at = recorded.0.saturating_add(self.correction);
        let gap = at.wrapping_sub(self.newest);
        if !(0..MIN_JUMP).contains(&gap) {
            return self.unusual(at, mark);
        }
        self.newest = at;
        if self.coarse {
            self.note_difference(gap);
        }
        if let Some(mark) = mark {
            self.note(at, mark);
        }
        Taken::At { at: WallTime(at), late: false }
    }

    #[inline]
    fn slot(flow: u64) -> usize {
        flow as usize % SENDERS
    }

    #[inline]
    fn note(&mut self, at: i64, mark: SenderMark) {
        let sender = &mut self.senders[RecordingClock::slot(mark.flow)];
        if sender.flow == mark.flow {
            if mark.is_media && at.saturating_sub(sender.at) > MEDIA_PAUSE {
                sender.stamps = None;
            }
            sender.interval = at.wrapping_sub(sender.at);
            sender.at = at;
            match (&mut sender.stamps, mark.value) {
                (Some(stamps), Some(value)) => stamps.2 = value,
                (None, Some(value)) => sender.stamps = Some((at, value, value)),
                (_, None) => {}
            }
        } else {
            let stamps = mark.value.map(|value| (at, value, value));
            *sender = Sender { flow: mark.flow, at, interval: 0, stamps, is_media: mark.is_media };
        }
    }

    #[cold]
    fn note_difference(&mut self, gap: i64) {
        if gap == 0 {
            return;
        }
        let (mut a, mut b) = (self.grain, gap);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (self.grain, self.differences) = (a, self.differences.saturating_add(1));
        self.coarse = a > FINE;
    }

    #[cold]
    fn unusual(&mut self, at: i64, mark: Option<SenderMark>) -> Taken {
        let gap = at.saturating_sub(self.newest);
        if self.newest == i64::MIN || gap >= 0 && !self.jumps_for(at, mark) {
            let (at, late) = self.accept(at, mark);
            return Taken::At { at, late };
        }
        if gap < 0 && gap.saturating_neg() <= self.disorder {
            let (at, late) = self.accept(at, mark);
            return Taken::At { at, late };
        }
        self.doubt = Some(Doubt {
            from: self.newest,
            by: gap,
            latest: at,
            jumped: false,
            frames: 0,
            back: Vec::new(),
            excess: Vec::new(),
            media: Vec::new(),
            since: at,
            intervals: Intervals::default(),
        });
        Taken::Doubt
    }

    /// Handles the first frame of a jump that was decided, whatever its time is. It is not doubted again, so that each
    /// decision passes a frame on.
    pub(super) fn take_decided(&mut self, recorded: WallTime, mark: Option<SenderMark>) -> (WallTime, bool) {
        self.accept(recorded.0.saturating_add(self.correction), mark)
    }

    /// Accepts the corrected time `at` without examination. Returns it, and true if it is earlier than the latest time
    /// so far.
    fn accept(&mut self, at: i64, mark: Option<SenderMark>) -> (WallTime, bool) {
        let late = at < self.newest;
        if late {
            self.disordered += 1;
            return (WallTime(at), late);
        }
        if self.newest != i64::MIN && self.coarse {
            self.note_difference(at.saturating_sub(self.newest));
        }
        self.newest = at;
        mark.into_iter().for_each(|mark| self.note(at, mark));
        (WallTime(at), late)
    }

    /// True if the clock of the frame's sender has advanced less than the recording's clock, by [`MIN_FORWARD_STEP`] or
    /// more, or if the sender has no clock and may send at regular intervals; false if unknown.
    fn jumps_for(&self, at: i64, mark: Option<SenderMark>) -> bool {
        mark.is_some_and(|mark| {
            let sender = &self.senders[RecordingClock::slot(mark.flow)];
            let is_known = sender.flow == mark.flow;
            is_known
                && match sender.excess(at, mark.value) {
                    Some(excess) => excess >= MIN_FORWARD_STEP,
                    None => Intervals::may_show(mark, sender),
                }
        })
    }

    /// True while frames are held.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Examines a held frame. Returns true if enough is known to call [`Self::decide`].
    pub(super) fn examine(&mut self, recorded: WallTime, mark: Option<SenderMark>) -> bool {
        let at = recorded.0.saturating_add(self.correction);
        let Some(doubt) = &mut self.doubt else { return true };
        let before = std::mem::replace(&mut doubt.latest, at);
        doubt.frames += 1;
        doubt.jumped = at.saturating_sub(before) >= doubt.by.saturating_neg() / 2;
        let known = mark.and_then(|mark| {
            let sender = &self.senders[RecordingClock::slot(mark.flow)];
            (sender.flow == mark.flow).then_some((mark, sender))
        });
        doubt.intervals.add(at, known.map(|(mark, sender)| (mark, *sender)));
        if let Some((mark, sender)) = known {
            if let Some(excess) = sender.excess(at, mark.value) {
                doubt.note(mark, excess);
            }
            if doubt.by < 0 && sender.at > at.saturating_sub(doubt.by / 2) && !doubt.back.contains(&mark.flow)
            {
                doubt.back.push(mark.flow);
            }
        }
        match doubt.by < 0 {
            true => doubt.is_back_decided(at),
            false => doubt.is_forward_decided(at),
        }
    }

    /// Decides, from the frames examined so far, what the jump of the times was. Returns the step if the clock was set,
    /// otherwise `None`.
    pub(super) fn decide(&mut self) -> Option<Step> {
        let doubt = self.doubt.take()?;
        let recorded = WallTime(doubt.from.saturating_sub(self.correction));
        match doubt.step() {
            Some((by, proven)) => {
                self.correction = self.correction.saturating_sub(by);
                Some(Step { at: recorded, by, proven })
            }
            None => {
                if doubt.by < 0 {
                    self.disorder = self.disorder.max(doubt.by.saturating_neg());
                }
                None
            }
        }
    }

    /// Smallest difference between two times that the recording can show, in ns; `None` if it is below 0.1 ms or
    /// unknown.
    pub(super) fn resolution(&self) -> Option<i64> {
        (self.grain >= COARSE.0 && self.differences >= COARSE.1).then_some(self.grain)
    }
}

impl Doubt {
    /// Notes the excess of a sender.
    fn note(&mut self, mark: SenderMark, excess: i64) {
        let is_later = mark.is_media && self.by > 0;
        let list = if is_later { &mut self.media } else { &mut self.excess };
        match list.iter_mut().find(|(host, _)| *host == mark.host) {
            Some((_, latest)) if is_later => *latest = excess,
            Some(_) => {}
            None => list.push((mark.host, excess)),
        }
    }

    /// Returns the excess on which two hosts agree, the smaller of the two in size; `None` if there is none.
    fn agreed(&self) -> Option<i64> {
        self.agreed_by(&self.excess)
    }

    fn agreed_by(&self, excess: &[(u32, i64)]) -> Option<i64> {
        let (a, b) = match excess {
            [(_, a), (_, b), ..] => (*a, *b),
            _ => return None,
        };
        let (small, large) = if a.saturating_abs() <= b.saturating_abs() { (a, b) } else { (b, a) };
        let near = large.saturating_sub(small).saturating_abs() <= small.saturating_abs() / 5 + 20_000_000;
        (near && (small < 0) == (self.by < 0)).then_some(small)
    }

    fn is_back_decided(&self, at: i64) -> bool {
        let returned = at >= self.from;
        // The clocks of the senders, if they are known, decide at once.
        let agreed = self.agreed().is_some() || self.excess.iter().any(|(_, e)| *e > self.by / 2);
        agreed
            || returned
            || self.by <= -CERTAIN_STEP
                && (self.intervals.knows_back(self.by) || self.frames >= ENOUGH_EXAMINED)
            || self.frames >= ENOUGH_EXAMINED && self.back.len() >= 2
            || self.frames >= MAX_EXAMINED[0]
    }

    fn is_forward_decided(&self, at: i64) -> bool {
        let examined = at.saturating_sub(self.since);
        let is_media_decided = match self.media.len() {
            0 => false,
            1 => examined >= 5 * MEDIA_EXAMINED,
            _ => examined >= MEDIA_EXAMINED,
        };
        self.agreed().is_some()
            || is_media_decided
            || self.is_refuted()
            || self.media.is_empty() && self.intervals.is_forward_decided()
            || self.frames >= MAX_EXAMINED[usize::from(!self.media.is_empty())]
    }

    /// True if a sender's clock shows that the recording's clock was not set forward.
    fn is_refuted(&self) -> bool {
        self.excess.iter().chain(&self.media).any(|(_, e)| *e < MIN_FORWARD_STEP)
    }

    /// Returns the size of the step in ns, and true if senders show it; `None` if the clock was not set.
    fn step(&self) -> Option<(i64, bool)> {
        if self.by > 0 {
            let of_media = || {
                let is_settled = self.latest.saturating_sub(self.since) >= MEDIA_EXAMINED;
                is_settled.then(|| self.agreed_by(&self.media)).flatten()
            };
            let refuted = self.media.iter().any(|(_, e)| *e < MIN_FORWARD_STEP);
            let by_clocks = self.agreed().or_else(of_media).filter(|by| *by >= MIN_FORWARD_STEP && !refuted);
            let by_intervals = || self.intervals.step_forward().filter(|_| !self.is_refuted());
            let step = by_clocks.map(|by| (by, true)).or_else(by_intervals);
            return step.map(|(by, proven)| (by.min(self.by), proven));
        }
        if self.excess.iter().any(|(_, e)| *e > self.by / 2) {
            return None;
        }
        // The first frame afterwards must not be earlier than the last one before. The clock of a single sender cannot
        // prove a step, but shows its size.
        let single = || match self.excess[..] {
            [(_, excess)] => Some(excess).filter(|e| *e > self.by.saturating_sub(MEDIA_PAUSE)),
            _ => None,
        };
        let by = self.agreed().or_else(single).unwrap_or_else(|| self.intervals.step_back(self.by));
        let by = by.min(self.by.saturating_sub(1));
        let certain = self.by <= -CERTAIN_STEP;
        let proven = self.agreed().is_some() || !self.back.is_empty();
        // Disordered queues return to the time that was reached.
        let returned = self.jumped
            && self.latest >= self.from
            && self.latest.saturating_sub(self.from) <= NEAR_RETURN
            && self.frames < ENOUGH_EXAMINED
            && self.agreed().is_none();
        (certain || proven && !returned).then_some((by, proven))
    }
}

#[cfg(test)]
mod tests;
