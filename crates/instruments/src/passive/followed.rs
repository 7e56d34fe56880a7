//! [`FollowedPoints`]: two captures that are still being written, read together in time order.

use super::error::PassiveError;
use super::points::{PointEnd, PointSource};
use jitlat_core::time::SteadyTime;
use jitlat_core::{Span, WallTime};
use jitlat_net::capture::FollowedFiles;
use jitlat_net::clock;
use jitlat_passive::pipeline::{CapturedBatch, FrameBatch, PointDelivery};
use jitlat_passive::{CapturePoint, MatchPlan};
use jitlat_proto::digest::DigestRule;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Maximum number of frames in a delivery.
const FRAMES_PER_DELIVERY: usize = 1024;
/// Pause when nothing new has been written.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of frames delivered between two pauses. During a pause, the other thread tries to make a matching plan.
const FRAMES_PER_ATTEMPT: usize = 8 * FRAMES_PER_DELIVERY;
/// Number of early frames that the learner always retains. Once they have been delivered, reading pauses
/// until there is a matching plan.
const MIN_PLAN_FRAMES: usize = 24 * FRAMES_PER_DELIVERY;
/// Maximum time for which packet processing pauses while a matching plan is made.
const PLAN_TIMEOUT: Span = Span::millis(3500);
/// Maximum time by which one capture is read ahead of the other; further packets stay on disk.
const MAX_LEAD: Span = Span::seconds(10);
/// Maximum time by which frames of a capture are out of order.
const MAX_DISORDER: Span = Span::millis(50);

/// Two captures that are still being written.
pub(super) struct FollowedPoints {
    captures: [FollowedFiles; 2],
    /// Times of the earliest and latest packets delivered from each point.
    spans: [Option<(WallTime, WallTime)>; 2],
    /// Monitor clock minus reference clock; `None` until there is a matching plan.
    offset: Option<Span>,
    /// Number of frames delivered before there was a matching plan.
    early: usize,
    /// Time at which the storage for early frames became full; `None` if it is not full.
    enough: Option<SteadyTime>,
    stopping: bool,
    /// Number of points that have delivered all packets after following was stopped.
    finished: usize,
}

impl FollowedPoints {
    /// Opens both captures.
    pub(super) fn open(paths: [&Path; 2]) -> Result<FollowedPoints, PassiveError> {
        let [reference, monitor] = paths.map(FollowedFiles::open);
        Ok(FollowedPoints {
            captures: [reference?, monitor?],
            spans: [None; 2],
            offset: None,
            early: 0,
            enough: None,
            stopping: false,
            finished: 0,
        })
    }

    /// Reads the next packets of a point; `None` if nothing new has been written.
    fn read(&mut self, point: CapturePoint) -> Option<PointDelivery> {
        let mut frames = FrameBatch::default();
        if self.captures[point as usize].poll(FRAMES_PER_DELIVERY, |f| frames.push(f)) == 0 {
            return None;
        }
        let span = &mut self.spans[point as usize];
        for f in frames.frames() {
            *span = Some(span.map_or((f.at, f.at), |(first, last)| (first.min(f.at), last.max(f.at))));
        }
        let covered = span.map(|(first, last)| (first, last - MAX_DISORDER));
        if self.offset.is_none() {
            self.plan_first(frames.len());
        }
        Some(PointDelivery { point, what: CapturedBatch::Frames(frames), covered })
    }

    /// Pauses between deliveries, so that a matching plan can be made before new frames displace the first
    /// ones. Reading continues if no plan can be made, because later packets may make one possible.
    fn plan_first(&mut self, frames: usize) {
        let before = self.early;
        self.early += frames;
        if before < MIN_PLAN_FRAMES && self.early >= MIN_PLAN_FRAMES {
            self.enough = Some(clock::steady());
        }
        if before / FRAMES_PER_ATTEMPT != self.early / FRAMES_PER_ATTEMPT {
            sleep(POLL_INTERVAL);
        }
    }

    /// True while reading pauses because a matching plan is being made.
    fn is_planning(&self) -> bool {
        let lately = |since: SteadyTime| clock::steady() - since < PLAN_TIMEOUT;
        self.offset.is_none() && !self.stopping && self.enough.is_some_and(lately)
    }
}

impl PointSource for FollowedPoints {
    fn salt(&self) -> Option<u64> {
        None
    }

    fn follow(&mut self, plan: &MatchPlan, _: &DigestRule) {
        self.offset = Some(plan.offset);
    }

    fn next(&mut self) -> Option<PointDelivery> {
        if self.is_planning() {
            sleep(POLL_INTERVAL);
            return None;
        }
        let [reference, monitor] = self.spans.map(|span| span.map(|(_, last)| last));
        // The clocks are assumed equal until the matching plan provides their offset.
        let monitor = monitor.map(|last| last - self.offset.unwrap_or_default());
        let (behind, other) = match monitor < reference {
            true => (CapturePoint::Monitor, CapturePoint::Reference),
            false => (CapturePoint::Reference, CapturePoint::Monitor),
        };
        let far = reference.zip(monitor).is_some_and(|(r, m)| (r - m).max(m - r) > MAX_LEAD);
        let mut delivery = self.read(behind);
        if delivery.is_none() && !(far && self.offset.is_some()) {
            delivery = self.read(other);
        }
        if delivery.is_some() {
            return delivery;
        }
        if !self.stopping {
            sleep(POLL_INTERVAL);
            return None;
        }
        // Following has ended, so no more packets can arrive late.
        let point = *[CapturePoint::Reference, CapturePoint::Monitor].get(self.finished)?;
        self.finished += 1;
        Some(PointDelivery { point, what: CapturedBatch::Nothing, covered: self.spans[point as usize] })
    }

    fn ended(&self) -> bool {
        self.finished == self.spans.len()
    }

    fn stop(&mut self) {
        self.stopping = true;
        self.captures.iter_mut().for_each(FollowedFiles::end);
    }

    fn close(self) -> ([PointEnd; 2], Vec<PassiveError>) {
        let end = |capture: &FollowedFiles| PointEnd {
            drops: capture.drops(),
            notes: capture.notes().to_vec(),
            ..PointEnd::default()
        };
        (self.captures.each_ref().map(end), Vec::new())
    }
}
