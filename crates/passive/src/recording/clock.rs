//! [`RecordingClock`]: corrects the times of one recording for steps of its clock.
//!
//! A clock that is set affects all packets at once. If the times go back because of it, packets of several senders have
//! earlier times than previous packets of the same senders. A capture with several queues is merely out of order, and
//! soon returns to the time that it had reached. If the times jump forward, the clock was set if the TCP timestamps
//! (RFC 7323) or RTP timestamps of at least two hosts have not advanced as much; otherwise nothing was sent for that
//! time. A path that stalled delays RTP packets as well, but soon their timestamps agree with the time again. Other
//! senders at regular intervals show steps as well ([`intervals`]). Steps that are too small to show in the times
//! shift the packets of both directions of a call ([`shift`]). The caller holds the frames until it is decided which of
//! these happened.

mod intervals;
mod shift;

use crate::rtp::RATES;
use intervals::Intervals;
use jitlat_core::time::{SECOND, WallTime};
use shift::Shift;

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
/// Maximum number of senders whose clocks are compared with a jump.
const MAX_COMPARED: usize = 64;
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
/// Shortest time after which the state of a sender with TCP timestamps is noted again, in ns.
const MIN_NOTE: i64 = 4_000_000;
/// Step of the times, in ns, that is fine enough to end the search for a coarse resolution.
const FINE: i64 = 10_000;
/// Smallest resolution that is reported, in ns, and minimum number of differences between times that show it.
const COARSE: (i64, u32) = (100_000, 16);

/// Sender of a packet, and the timestamp in the packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderMark {
    /// Hash of the addresses and ports in this direction, and of the SSRC of an RTP packet.
    pub(super) flow: u64,
    /// TSval of a TCP segment, or timestamp of an RTP packet; `None` without one.
    pub(super) value: Option<u32>,
    /// True for RTP.
    pub(super) is_media: bool,
    /// True if the packet may be one of many that are sent at regular intervals.
    pub(super) may_be_regular: bool,
}

/// Hashes of the addresses of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hosts {
    pub(super) from: u32,
    pub(super) to: u32,
}

impl Hosts {
    /// True if the packets of `other` go between the same hosts in the other direction.
    fn is_opposite(self, other: &Hosts) -> bool {
        (self.from, self.to) == (other.to, other.from)
    }
}

/// Remembered state of a sender.
#[derive(Clone, Copy, Debug)]
struct Sender {
    flow: u64,
    at: i64,
    /// Time between the two latest packets, in ns; 0 after a single packet.
    interval: i64,
    /// Time of the first timestamp, in ns.
    first_at: i64,
    first: u32,
    latest: u32,
    /// True if the packets have timestamps.
    is_stamped: bool,
    is_media: bool,
    /// Number of packets since the first timestamp of an RTP sender.
    packets: u32,
    /// Duration of a tick of an RTP sender's clock, in 1/256 ns; 0 while unknown.
    tick: i64,
    /// Time by which the latest RTP packet was later than usual, in ns, and mean absolute value of this time.
    late: i64,
    spread: i64,
}

/// Number of packets after which the usual deviation of an RTP sender's times is known.
const MIN_USUAL: u32 = 32;

impl Sender {
    const NONE: Sender = Sender {
        flow: 0,
        at: i64::MIN,
        interval: 0,
        first_at: 0,
        first: 0,
        latest: 0,
        is_stamped: false,
        is_media: false,
        packets: 0,
        tick: 0,
        late: 0,
        spread: 0,
    };

    /// Creates the state of a sender after its first packet.
    fn new(at: i64, mark: SenderMark) -> Sender {
        let value = mark.value.unwrap_or(0);
        let is_stamped = mark.value.is_some();
        let (first, latest) = (value, value);
        Sender {
            flow: mark.flow,
            at,
            first_at: at,
            first,
            latest,
            is_stamped,
            is_media: mark.is_media,
            ..Sender::NONE
        }
    }

    /// Returns the time by which an RTP packet is later than usual for this sender, in ns; `None` if that is unknown.
    #[inline]
    fn shift(&self, at: i64, mark: SenderMark) -> Option<i64> {
        let value = mark.value.filter(|_| self.packets >= MIN_USUAL && mark.is_media)?;
        (self.tick > 0).then(|| self.late.saturating_add(self.later(at, value)))
    }

    /// Returns the time that passed since the latest packet minus the time that passed on the sender's clock, in ns.
    #[inline]
    fn later(&self, at: i64, value: u32) -> i64 {
        let ticks = i64::from(value.wrapping_sub(self.latest) as i32);
        at.saturating_sub(self.at).saturating_sub((ticks * self.tick) >> 8)
    }

    /// Stores an RTP packet as the latest one.
    #[inline]
    fn note_media(&mut self, at: i64, value: u32) {
        /// Weight of the latest packet in the means, as 1 in this many.
        const WEIGHT: i64 = 16;
        self.packets = self.packets.saturating_add(1);
        if self.tick > 0 {
            let late = self.late.saturating_add(self.later(at, value));
            if late.saturating_abs() > MEDIA_PAUSE {
                // The sender has set its media clock.
                self.is_stamped = false;
                return;
            }
            self.late = late - late / WEIGHT;
            self.spread += (late.abs() - self.spread) / WEIGHT;
        } else if self.packets.is_power_of_two() {
            self.tick = self.rate().map_or(0, |rate| (SECOND << 8) / i64::from(rate));
        }
    }

    /// Returns the rate of this sender's timestamps, in Hz; `None` if unknown.
    fn rate(&self) -> Option<u32> {
        if !self.is_stamped {
            return None;
        }
        let (span, ticks) =
            (self.at.saturating_sub(self.first_at), self.latest.wrapping_sub(self.first) as i32);
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
        let passed = value.filter(|_| self.is_stamped)?.wrapping_sub(self.latest) as i32;
        let rate = i64::from(self.rate()?);
        let own = i64::from(passed) * SECOND / rate;
        let elapsed = at.saturating_sub(self.at);
        let excess = elapsed.saturating_sub(own);
        // A timestamp is known to a tick, and the rates of two clocks differ a little.
        let uncertain = (2 * SECOND / rate).saturating_add(elapsed.saturating_abs() / MAX_DRIFT);
        Some(if excess.saturating_abs() <= uncertain { 0 } else { excess })
    }

    /// Returns the largest error of [`Self::excess`] after a step, in ns: from the resolution of the sender's timestamps, the
    /// drift of the two clocks, and the variation of the delay, which is known for RTP only.
    fn uncertainty(&self, value: Option<u32>) -> i64 {
        /// Largest deviation, as a multiple of the mean one.
        const DEVIATIONS: i64 = 4;
        let Some((value, rate)) = value.zip(self.rate()) else { return 0 };
        let tick = SECOND / i64::from(rate);
        let own = i64::from(value.wrapping_sub(self.latest) as i32).saturating_mul(tick);
        (2 * tick)
            .saturating_add(own.saturating_abs() / MAX_DRIFT)
            .saturating_add(DEVIATIONS.saturating_mul(self.spread))
    }
}

/// Size of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepSize {
    /// Change of the clock, in ns; positive if it was set forward.
    pub(super) by: i64,
    /// Largest error of `by`, in ns; `None` if no sender shows it.
    pub(super) error: Option<i64>,
}

/// Step of the recording's clock, which was set during the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Last time before the step, as recorded.
    pub(super) at: WallTime,
    /// Change of the clock, and its uncertainty.
    pub(super) size: StepSize,
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

/// Time that passed on the recording's clock minus the time that passed on a host's clock.
#[derive(Clone, Copy, Debug)]
struct Excess {
    hosts: Hosts,
    /// Difference, in ns.
    by: i64,
    /// Result of [`Sender::uncertainty`].
    error: i64,
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
    /// Senders that show the time that passed on the clocks of their hosts.
    excess: Vec<Excess>,
    /// Same as `excess`, but from RTP timestamps after a jump forward: the latest value of each sender.
    media: Vec<Excess>,
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
    /// Shift that is being examined; `None` if there is none.
    shift: Option<Shift>,
    /// Time in ns up to which no new shift is examined, because the packets up to then were examined already.
    examined_until: i64,
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
            shift: None,
            examined_until: i64::MIN,
            disorder: PLAIN_DISORDER,
            grain: 0,
            coarse: true,
            differences: 0,
            disordered: 0,
        }
    }
}

impl RecordingClock {
    /// Handles the time of the next frame, which is a TCP segment or a datagram without a timestamp; `None` if the time is
    /// unusual and must be passed to [`Self::take`].
    #[inline(always)]
    pub(super) fn take_usual(&mut self, recorded: WallTime, mark: SenderMark) -> Option<Taken> {
        let at = recorded.0.saturating_add(self.correction);
        let gap = at.wrapping_sub(self.newest);
        if !(0..MIN_JUMP).contains(&gap) {
            return None;
        }
        if self.coarse {
            self.note_difference(gap);
        }
        let sender = &mut self.senders[RecordingClock::slot(mark.flow)];
        match mark.value {
            None if sender.flow == mark.flow => {
                (sender.interval, sender.at) = (at.wrapping_sub(sender.at), at);
            }
            // The state of the sender was stored shortly before, and is recent enough.
            Some(_) if sender.flow == mark.flow && at.wrapping_sub(sender.at) < MIN_NOTE => {}
            _ => self.note(at, mark),
        }
        self.newest = at;
        Some(Taken::At { at: WallTime(at), late: false })
    }

    /// Handles the time of the next frame.
    pub(super) fn take(&mut self, recorded: WallTime, mark: Option<SenderMark>) -> Taken {
        let at = recorded.0.saturating_add(self.correction);
        let gap = at.wrapping_sub(self.newest);
        if !(0..MIN_JUMP).contains(&gap) {
            return self.unusual(at, mark);
        }
        if let Some(mark) = mark
            && mark.is_media
            && self.begins_shift(at, mark)
        {
            return Taken::Doubt;
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

    fn note(&mut self, at: i64, mark: SenderMark) {
        let sender = &mut self.senders[RecordingClock::slot(mark.flow)];
        if sender.flow != mark.flow {
            *sender = Sender::new(at, mark);
            return;
        }
        let interval = at.wrapping_sub(sender.at);
        if let Some(value) = mark.value {
            if mark.is_media && sender.is_stamped {
                match interval > MEDIA_PAUSE {
                    true => sender.is_stamped = false,
                    false => sender.note_media(at, value),
                }
            }
            if !sender.is_stamped {
                *sender = Sender { interval, ..Sender::new(at, mark) };
                return;
            }
            sender.latest = value;
        }
        (sender.interval, sender.at) = (interval, at);
    }

    /// Begins the examination of a shift if the packet deviates enough from the media clock of its sender. Returns true
    /// if it has begun one.
    #[inline]
    fn begins_shift(&mut self, at: i64, mark: SenderMark) -> bool {
        let sender = &self.senders[RecordingClock::slot(mark.flow)];
        let shift = if sender.flow == mark.flow { sender.shift(at, mark) } else { None };
        match shift {
            Some(by) if at > self.examined_until && Shift::is_large(sender, by) => {
                self.shift = Some(Shift::begin(&self.senders[..], self.newest, at, by));
                true
            }
            _ => false,
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
            if mark.is_some_and(|mark| self.begins_shift(at, mark)) {
                return Taken::Doubt;
            }
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
        self.doubt.is_some() || self.shift.is_some()
    }

    /// Examines a held frame. Returns true if enough is known to call [`Self::decide`].
    pub(super) fn examine(&mut self, recorded: WallTime, mark: Option<(SenderMark, Hosts)>) -> bool {
        let at = recorded.0.saturating_add(self.correction);
        let known = mark.and_then(|(mark, hosts)| {
            let sender = self.senders[RecordingClock::slot(mark.flow)];
            (sender.flow == mark.flow).then_some((mark, hosts, sender))
        });
        if let Some(shift) = &mut self.shift {
            return shift.add(at, known);
        }
        let Some(doubt) = &mut self.doubt else { return true };
        let before = std::mem::replace(&mut doubt.latest, at);
        doubt.frames += 1;
        doubt.jumped = at.saturating_sub(before) >= doubt.by.saturating_neg() / 2;
        doubt.intervals.add(at, known);
        if let Some((mark, hosts, sender)) = known {
            if let Some(excess) = sender.excess(at, mark.value) {
                let error = sender.uncertainty(mark.value);
                doubt.note(mark.is_media, Excess { hosts, by: excess, error });
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
        if let Some(shift) = self.shift.take() {
            return self.decide_shift(&shift);
        }
        let doubt = self.doubt.take()?;
        let recorded = WallTime(doubt.from.saturating_sub(self.correction));
        match doubt.step() {
            Some((size, proven)) => {
                self.correction = self.correction.saturating_sub(size.by);
                Some(Step { at: recorded, size, proven })
            }
            None => {
                if doubt.by < 0 {
                    self.disorder = self.disorder.max(doubt.by.saturating_neg());
                }
                None
            }
        }
    }

    fn decide_shift(&mut self, shift: &Shift) -> Option<Step> {
        let step = shift.step().map(|size| {
            let at = WallTime(shift.from.saturating_sub(self.correction));
            self.correction = self.correction.saturating_sub(size.by);
            Step { at, size, proven: true }
        });
        if step.is_none() {
            self.examined_until = shift.latest;
        }
        step
    }

    /// Smallest difference between two times that the recording can show, in ns; `None` if it is below 0.1 ms or
    /// unknown.
    pub(super) fn resolution(&self) -> Option<i64> {
        (self.grain >= COARSE.0 && self.differences >= COARSE.1).then_some(self.grain)
    }
}

impl Doubt {
    /// Notes the excess of a sender.
    fn note(&mut self, is_media: bool, excess: Excess) {
        let is_later = is_media && self.by > 0;
        let hosts = excess.hosts;
        let is_same = |known: &Hosts| known.from == hosts.from && (self.by < 0 || known.to == hosts.to);
        let list = if is_later { &mut self.media } else { &mut self.excess };
        let has_room = list.len() < MAX_COMPARED;
        match list.iter_mut().find(|known| is_same(&known.hosts)) {
            Some(latest) if is_later => *latest = excess,
            Some(_) => {}
            None if has_room => list.push(excess),
            None => {}
        }
    }

    /// Returns the excess on which two hosts agree (the smaller of their two values); `None` if no two agree. After a
    /// jump forward, the two must send to each other, because a path that became longer delays all hosts on one side
    /// alike.
    fn agreed(&self) -> Option<StepSize> {
        self.agreed_by(&self.excess)
    }

    fn agreed_by(&self, excess: &[Excess]) -> Option<StepSize> {
        let is_forward = self.by > 0;
        let agree = |a: &Hosts, b: &Hosts| if is_forward { a.is_opposite(b) } else { a.from != b.from };
        let (a, b) = excess.iter().enumerate().find_map(|(k, a)| {
            let b = excess[k + 1..].iter().find(|b| agree(&a.hosts, &b.hosts))?;
            Some((*a, *b))
        })?;
        // The value with the smaller error or, if the errors are equal, the smaller value.
        let Excess { by, error, .. } =
            if (a.error, a.by.saturating_abs()) <= (b.error, b.by.saturating_abs()) { a } else { b };
        // The difference between the two values is part of the error, because the delay of one of the packets may have
        // changed at the same time.
        let apart = a.by.saturating_sub(b.by).saturating_abs();
        let near = apart <= a.by.saturating_abs().min(b.by.saturating_abs()) / 5 + 20_000_000;
        let error = Some(apart.saturating_add(error));
        (near && (by < 0) == (self.by < 0)).then_some(StepSize { by, error })
    }

    fn is_back_decided(&self, at: i64) -> bool {
        let returned = at >= self.from;
        // The clocks of the senders, if they are known, decide at once.
        let agreed = self.agreed().is_some() || self.excess.iter().any(|e| e.by > self.by / 2);
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
        self.excess.iter().chain(&self.media).any(|e| e.by < MIN_FORWARD_STEP)
    }

    /// Returns the size of the step, and true if senders show it; `None` if the clock was not set.
    fn step(&self) -> Option<(StepSize, bool)> {
        if self.by > 0 {
            let of_media = || {
                let is_settled = self.latest.saturating_sub(self.since) >= MEDIA_EXAMINED;
                is_settled.then(|| self.agreed_by(&self.media)).flatten()
            };
            let refuted = self.media.iter().any(|e| e.by < MIN_FORWARD_STEP);
            let by_clocks = self.agreed().or_else(of_media);
            let by_clocks = by_clocks.filter(|size| size.by >= MIN_FORWARD_STEP && !refuted);
            let by_intervals = || self.intervals.step_forward().filter(|_| !self.is_refuted());
            let step = by_clocks.map(|size| (size, true)).or_else(by_intervals);
            return step.map(|(size, proven)| (StepSize { by: size.by.min(self.by), ..size }, proven));
        }
        if self.excess.iter().any(|e| e.by > self.by / 2) {
            return None;
        }
        // The first frame afterwards must not be earlier than the last one before. The clock of a single sender cannot
        // prove a step, but shows its size.
        let single = || match self.excess[..] {
            [Excess { by, error, .. }] => {
                let size = StepSize { by, error: Some(error) };
                Some(size).filter(|size| size.by > self.by.saturating_sub(MEDIA_PAUSE))
            }
            _ => None,
        };
        let size = self.agreed().or_else(single).unwrap_or_else(|| self.intervals.step_back(self.by));
        let size = StepSize { by: size.by.min(self.by.saturating_sub(1)), ..size };
        let certain = self.by <= -CERTAIN_STEP;
        let proven = self.agreed().is_some() || !self.back.is_empty();
        // Disordered queues return to the time that was reached.
        let returned = self.jumped
            && self.latest >= self.from
            && self.latest.saturating_sub(self.from) <= NEAR_RETURN
            && self.frames < ENOUGH_EXAMINED
            && self.agreed().is_none();
        (certain || proven && !returned).then_some((size, proven))
    }
}

#[cfg(test)]
mod tests;
