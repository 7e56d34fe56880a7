//! [`Learner`]: makes the plan for two live points – addresses, direction, translation, clock offset – from
//! their first packets.

use super::{CapturedBatch, FrameBatch, PointDelivery};
use crate::echo::is_echo;
use crate::identity::salted;
use crate::{MatchPlan, NoPlan, PacketPreview, Recording, Seen, Sides, survey};
use jitlat_core::time::{Span, SteadyTime, WallTime};
use std::collections::VecDeque;

/// Maximum number of previews stored for each point.
const MAX_PREVIEWS: usize = 1 << 14;
/// Maximum number of frames stored for both points until a plan exists; beyond that the oldest are dropped.
/// On a busy path the first attempt may come too early, because the points deliver blocks of packets at
/// different times. The next attempt follows after [`RETRY_INTERVAL`], and each attempt takes time. This
/// limit covers more than 200 ms of 300 000 packets per second at both points, in about 40 MB.
const MAX_FRAMES: usize = 1 << 17;
/// Number of common packets with which a plan is accepted at once.
const SUFFICIENT_PACKETS: usize = 50;
/// Time to wait for more common packets if there are fewer than [`SUFFICIENT_PACKETS`].
const MORE_PACKETS_WAIT: Span = Span::millis(500);
/// Time to wait for packets that show the direction while it is unknown.
const DIRECTION_WAIT: Span = Span::seconds(3);
/// Time between two attempts.
const RETRY_INTERVAL: Span = Span::millis(50);

/// Reason why there is no plan yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLearnt {
    /// Reason why the last attempt failed.
    pub why: NoPlan,
    /// Number of packets seen at each point.
    pub seen: [u64; 2],
}

/// Makes the plan, and stores deliveries until the plan exists.
pub struct Learner {
    asked: Option<Sides>,
    available: usize,
    salt: Option<u64>,
    previews: [VecDeque<PacketPreview>; 2],
    /// True if `available` is determined from the frames.
    finds_available: bool,
    /// Deliveries of frames, in the order they arrived.
    held: VecDeque<PointDelivery>,
    frames: usize,
    /// Time of the latest dropped frame of each point; `None` if no frame was dropped.
    given_up: [Option<WallTime>; 2],
    /// Number of dropped frames of each point.
    left_out: [u64; 2],
    seen: [u64; 2],
    recordings: [Recording; 2],
    /// True if packets were delivered since the last attempt.
    has_news: bool,
    tried: Option<SteadyTime>,
    /// Time of the first successful attempt; `None` before it.
    first: Option<SteadyTime>,
    why: NoPlan,
}

impl Learner {
    /// Creates a learner. `asked` are the addresses given by the user. Both points have at least `available` bytes of
    /// each packet; identities use `salt` if another host computes some of them.
    pub fn new(asked: Option<Sides>, available: usize, salt: Option<u64>) -> Learner {
        Learner {
            asked,
            available,
            salt,
            finds_available: false,
            previews: Default::default(),
            held: VecDeque::new(),
            frames: 0,
            given_up: [None; 2],
            left_out: [0; 2],
            seen: [0; 2],
            recordings: Default::default(),
            has_news: false,
            tried: None,
            first: None,
            why: NoPlan::Empty,
        }
    }

    /// Makes the learner determine [`Self::available`] from the first packets, for captures that may contain
    /// fewer bytes per packet.
    pub fn finding_available(self) -> Learner {
        Learner { finds_available: true, ..self }
    }

    /// Number of bytes per packet that are available at both points.
    pub fn available(&self) -> usize {
        self.available
    }

    /// Adds a delivery and stores its frames.
    pub fn take(&mut self, delivery: PointDelivery) {
        let point = delivery.point as usize;
        match &delivery.what {
            CapturedBatch::Previews(far) => {
                let previews = &mut self.previews[point];
                previews.extend(far);
                previews.drain(..previews.len().saturating_sub(MAX_PREVIEWS));
                self.seen[point] += far.len() as u64;
                self.has_news = true;
            }
            CapturedBatch::Frames(frames) => {
                if self.finds_available {
                    self.find_available(frames);
                }
                let (previews, available, salt) = (&mut self.previews[point], self.available, self.salt);
                let mut each = |seen: Seen<'_>| {
                    let Seen::Packet(seen) = seen else { return };
                    let preview = PacketPreview::of(&seen.packet, seen.at, available).map(|mut preview| {
                        preview.names = preview.names.map(|n| salt.map_or(n, |salt| salted(n, salt)));
                        preview
                    });
                    previews.extend(preview);
                    if previews.len() > MAX_PREVIEWS {
                        previews.pop_front();
                    }
                };
                for f in frames.frames() {
                    self.recordings[point].push(&f, &mut each);
                }
                self.seen[point] += frames.len() as u64;
                self.frames += frames.len();
                self.has_news = true;
                self.held.push_back(delivery);
            }
            CapturedBatch::Dropped(..) => self.held.push_back(delivery),
            CapturedBatch::Sightings(_) | CapturedBatch::Nothing => {}
        }
        while self.frames > MAX_FRAMES
            && let Some(PointDelivery { point, what, .. }) = self.held.pop_front()
        {
            let CapturedBatch::Frames(old) = what else { continue };
            self.frames -= old.len();
            self.left_out[point as usize] += old.len() as u64;
            let given_up = &mut self.given_up[point as usize];
            *given_up = (*given_up).max(old.latest());
        }
    }

    /// Lowers `available` if `frames` contain fewer bytes of a packet, and recomputes earlier previews accordingly.
    fn find_available(&mut self, frames: &FrameBatch) {
        let least = frames.frames().filter_map(|f| {
            let p = f.packet().ok()?;
            (p.ip.len() < p.length as usize).then_some(p.ip.len())
        });
        let Some(least) = least.min().filter(|least| *least < self.available) else { return };
        self.available = least;
        self.previews.iter_mut().for_each(VecDeque::clear);
        self.recordings = Default::default();
        for delivery in &self.held {
            let CapturedBatch::Frames(frames) = &delivery.what else { continue };
            let previews = &mut self.previews[delivery.point as usize];
            let mut each = |seen: Seen<'_>| {
                if let Seen::Packet(seen) = seen {
                    previews.extend(PacketPreview::of(&seen.packet, seen.at, least));
                }
            };
            for f in frames.frames() {
                self.recordings[delivery.point as usize].push(&f, &mut each);
            }
        }
        for previews in &mut self.previews {
            previews.drain(..previews.len().saturating_sub(MAX_PREVIEWS));
        }
    }

    /// Returns the plan once there are enough packets at `now`, otherwise `None`.
    pub fn plan(&mut self, now: SteadyTime) -> Option<MatchPlan> {
        let due = self.tried.is_none_or(|t| now - t >= RETRY_INTERVAL);
        if !due || !self.has_news && self.first.is_none() {
            return None;
        }
        (self.tried, self.has_news) = (Some(now), false);
        let [r, m] = self.previews.each_mut().map(|g| &*g.make_contiguous());
        match survey(r, m, self.asked.as_ref()) {
            Ok(plan) => {
                let since = now - *self.first.get_or_insert(now);
                let good = !plan.direction_assumed
                    && (plan.common >= SUFFICIENT_PACKETS || since >= MORE_PACKETS_WAIT);
                (good || since >= DIRECTION_WAIT).then_some(plan)
            }
            Err(why) => {
                self.why = why;
                None
            }
        }
    }

    /// True if packets other than ICMP echoes pass in both directions between the sides of `plan`. Pairs can then be
    /// made without echoes.
    pub fn pairs_without_echoes(&self, plan: &MatchPlan) -> bool {
        let mut ways = [false; 2];
        for PointDelivery { point, what, .. } in &self.held {
            let CapturedBatch::Frames(frames) = what else { continue };
            let sides = &plan.sides[*point as usize];
            let packets = frames.frames().filter_map(|f| f.packet().ok().filter(|p| !is_echo(p)));
            packets.filter_map(|p| sides.direction(&p)).for_each(|direction| ways[direction as usize] = true);
        }
        ways == [true; 2]
    }

    /// Treats deliveries of each point from before its time in `times` as dropped.
    pub fn forget_before(&mut self, times: [WallTime; 2]) {
        for (given_up, at) in self.given_up.iter_mut().zip(times) {
            *given_up = (*given_up).max(Some(at - Span(1)));
        }
    }

    /// Returns, for each point, the time since which all its deliveries have been stored.
    pub fn begins(&self) -> [WallTime; 2] {
        self.given_up.map(|last| last.map_or(WallTime(i64::MIN), |last| last + Span(1)))
    }

    /// Number of frames of each point that were dropped before a plan existed.
    pub fn left_out(&self) -> [u64; 2] {
        self.left_out
    }

    /// Returns the stored deliveries, in the order they arrived.
    pub fn into_held(self) -> impl Iterator<Item = PointDelivery> {
        self.held.into_iter()
    }

    /// Returns the reason why there is no plan.
    pub fn not_learnt(&self) -> NotLearnt {
        NotLearnt { why: self.why, seen: self.seen }
    }
}

#[cfg(test)]
mod tests;
