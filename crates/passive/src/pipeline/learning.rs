//! [`Learner`]: makes the plan for two live points – addresses, direction, translation, clock offset – from
//! their first packets.

use super::{CapturedBatch, FrameBatch, PointDelivery};
use crate::echo::EchoCounts;
use crate::identity::salted;
use crate::{IpPacket, Layers, MatchPlan, NoPlan, PacketPreview, PreviewLayer, Recording, Seen, Sides};
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
    /// Previews of the packets inside tunnels, and of the packets that are not in tunnels.
    inner: [VecDeque<PacketPreview>; 2],
    /// True for a point at which a tunnel was seen.
    tunnels: [bool; 2],
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
    /// The recordings of both points, with tunnels closed and opened.
    recordings: [[Recording; 2]; 2],
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
            inner: Default::default(),
            tunnels: [false; 2],
            held: VecDeque::new(),
            frames: 0,
            given_up: [None; 2],
            left_out: [0; 2],
            seen: [0; 2],
            recordings: recordings(),
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
                self.tunnels[point] |= far.iter().any(|p| p.layer == PreviewLayer::Inside);
                let lists = [
                    (&mut self.previews[point], PreviewLayer::Inside),
                    (&mut self.inner[point], PreviewLayer::Tunnel),
                ];
                for (list, left_out) in lists {
                    list.extend(far.iter().filter(|p| p.layer != left_out));
                    list.drain(..list.len().saturating_sub(MAX_PREVIEWS));
                }
                self.seen[point] += far.len() as u64;
                self.has_news = true;
            }
            CapturedBatch::Frames(frames) => {
                let opens = !self.tunnels[point]
                    && frames.frames().any(|f| f.packet().is_ok_and(|p| p.inside().is_some()));
                // The number of bytes that a far point uses is fixed from now on.
                if self.finds_available || self.salt.is_none() && (opens || self.tunnels[point]) {
                    self.find_available(frames);
                }
                if opens {
                    self.tunnels[point] = true;
                    self.preview_again();
                }
                self.preview(point, frames);
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
            let outer = f.packet().ok()?;
            let inner = outer.inside().map_or(outer, IpPacket::innermost);
            [outer, inner].iter().filter(|p| p.ip.len() < p.length as usize).map(|p| p.ip.len()).min()
        });
        let Some(least) = least.min().filter(|least| *least < self.available) else { return };
        self.available = least;
        self.preview_again();
    }

    /// Makes previews of the packets in `frames`.
    fn preview(&mut self, point: usize, frames: &FrameBatch) {
        let (available, salt, tunnels) = (self.available, self.salt, self.tunnels[point]);
        let both = [&mut self.previews[point], &mut self.inner[point]];
        for (k, (previews, recording)) in both.into_iter().zip(&mut self.recordings[point]).enumerate() {
            if k == 1 && !tunnels {
                continue;
            }
            let mut each = |seen: Seen<'_>| {
                let Seen::Packet(seen) = seen else { return };
                let preview = PacketPreview::of(seen.packet, seen.at, available).map(|mut preview| {
                    preview.names = preview.names.map(|n| salt.map_or(n, |salt| salted(n, salt)));
                    preview
                });
                previews.extend(preview);
                if previews.len() > MAX_PREVIEWS {
                    previews.pop_front();
                }
            };
            frames.frames().for_each(|f| recording.push(&f, &mut each));
        }
    }

    /// Makes the previews of the stored frames again.
    fn preview_again(&mut self) {
        self.recordings = recordings();
        let held = std::mem::take(&mut self.held);
        // (previews of a far point stay, because they cannot be made again)
        for k in 0..2 {
            let has_frames =
                |d: &PointDelivery| d.point as usize == k && matches!(d.what, CapturedBatch::Frames(_));
            if held.iter().any(has_frames) {
                self.previews[k].clear();
                self.inner[k].clear();
            }
        }
        for delivery in &held {
            if let CapturedBatch::Frames(frames) = &delivery.what {
                self.preview(delivery.point as usize, frames);
            }
        }
        self.held = held;
    }

    /// Returns the plan once there are enough packets at `now`, otherwise `None`.
    pub fn plan(&mut self, now: SteadyTime) -> Option<MatchPlan> {
        let due = self.tried.is_none_or(|t| now - t >= RETRY_INTERVAL);
        if !due || !self.has_news && self.first.is_none() {
            return None;
        }
        (self.tried, self.has_news) = (Some(now), false);
        let outer = self.previews.each_mut().map(|g| &*g.make_contiguous());
        let mut inner = self.inner.each_mut().map(|g| Some(&*g.make_contiguous())).into_iter();
        let inner = self.tunnels.map(|has| inner.next().flatten().filter(|_| has));
        match (Layers { outer, inner }).survey(self.asked.as_ref(), false) {
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

    /// True if pairs can be made without ICMP echoes, see [`EchoCounts::pairs_without_echoes`].
    pub fn pairs_without_echoes(&self, plan: &MatchPlan) -> bool {
        let mut counts = EchoCounts::default();
        for PointDelivery { point, what, .. } in &self.held {
            let CapturedBatch::Frames(frames) = what else { continue };
            let (sides, inside) = (&plan.sides[*point as usize], plan.inside[*point as usize]);
            for p in frames.frames().filter_map(|f| f.packet().ok()) {
                counts.add(&if inside { p.innermost() } else { p }, sides);
            }
        }
        counts.pairs_without_echoes()
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

/// Returns empty recordings of both points, with tunnels closed and opened.
fn recordings() -> [[Recording; 2]; 2] {
    [(); 2].map(|()| [Recording::default(), Recording::inside_tunnels()])
}

#[cfg(test)]
mod tests;
