//! [`Learner`]: listens until the traffic says what a user of files is told by the whole of both: addresses,
//! direction, translation, clock offset.

use super::point::{End, News, Report, Source};
use jitlat_core::passive::echo::is_echo;
use jitlat_core::passive::packet::decode;
use jitlat_core::passive::{NoPlan, PacketPreview, Plan, Sides, identity, survey};
use jitlat_core::time::{Span, SteadyTime, WallTime};
use std::collections::VecDeque;

/// Previews kept of each point.
const PREVIEWS: usize = 1 << 14;
/// Frames kept of both points until there is a plan; more give up the oldest.
const FRAMES: usize = 1 << 15;
/// Common packets that make a plan good at once.
const PLENTY: usize = 50;
/// Where there are fewer, how long to wait for more, and where the direction cannot be told.
const SOON: Span = Span::millis(500);
const LATE: Span = Span::seconds(3);
/// Time between two attempts.
const AGAIN: Span = Span::millis(50);

pub struct Learner {
    asked: Option<Sides>,
    available: usize,
    salt: Option<u64>,
    previews: [VecDeque<PacketPreview>; 2],
    heard: VecDeque<Report>,
    frames: usize,
    /// The latest frame of each point that was given up.
    given_up: [Option<WallTime>; 2],
    seen: [u64; 2],
    more_than_echoes: bool,
    news: bool,
    tried: Option<SteadyTime>,
    first: Option<SteadyTime>,
    why: NoPlan,
}

impl Learner {
    /// `asked` are the addresses the user gave; names are under `salt` where another host tells them.
    pub fn new(asked: Option<Sides>, available: usize, salt: Option<u64>) -> Learner {
        Learner {
            asked,
            available,
            salt,
            previews: Default::default(),
            heard: VecDeque::new(),
            frames: 0,
            given_up: [None; 2],
            seen: [0; 2],
            more_than_echoes: false,
            news: false,
            tried: None,
            first: None,
            why: NoPlan::Empty,
        }
    }

    /// Takes a delivery and keeps it for later.
    pub fn hear(&mut self, report: Report) {
        let point = report.point;
        if let News::Previews(far) = &report.news {
            let previews = &mut self.previews[point];
            previews.extend(far);
            previews.drain(..previews.len().saturating_sub(PREVIEWS));
            self.seen[point] += far.len() as u64;
            self.news = true;
        }
        if let News::Frames(frames) = &report.news {
            let (previews, available, salt) = (&mut self.previews[point], self.available, self.salt);
            frames.each(|f| {
                let Ok(p) = decode(f.link, f.data, f.wire_length) else { return };
                self.more_than_echoes |= !is_echo(&p);
                let salted = |mut g: PacketPreview| {
                    g.names = g.names.map(|n| salt.map_or(n, |salt| identity::salted(n, salt)));
                    g
                };
                previews.extend(PacketPreview::of(&p, f.at, available).map(salted));
                if previews.len() > PREVIEWS {
                    previews.pop_front();
                }
            });
            self.seen[point] += frames.len() as u64;
            self.frames += frames.len();
            self.news = true;
            self.heard.push_back(report);
        }
        while self.frames > FRAMES {
            let Some(Report { point, news: News::Frames(old), .. }) = self.heard.pop_front() else {
                continue;
            };
            self.frames -= old.len();
            self.given_up[point] = self.given_up[point].max(old.latest());
        }
    }

    /// The plan, once there is enough to go by.
    pub fn plan(&mut self, now: SteadyTime) -> Option<Plan> {
        let due = self.tried.is_none_or(|t| now - t >= AGAIN);
        if !due || !self.news && self.first.is_none() {
            return None;
        }
        (self.tried, self.news) = (Some(now), false);
        let [r, m] = self.previews.each_mut().map(|g| &*g.make_contiguous());
        match survey(r, m, self.asked.as_ref()) {
            Ok(plan) => {
                let since = now - *self.first.get_or_insert(now);
                let good = !plan.direction_assumed && (plan.common >= PLENTY || since >= SOON);
                (good || since >= LATE).then_some(plan)
            }
            Err(why) => {
                self.why = why;
                None
            }
        }
    }

    /// Whether anything but pings was heard.
    pub fn holds_more_than_echoes(&self) -> bool {
        self.more_than_echoes
    }

    /// From when on all that each point delivered is still held.
    pub fn begins(&self) -> [WallTime; 2] {
        self.given_up.map(|last| last.map_or(WallTime(i64::MIN), |last| last + Span(1)))
    }

    /// What was heard, in order.
    pub fn into_heard(self) -> impl Iterator<Item = Report> {
        self.heard.into_iter()
    }

    /// Why there is no plan.
    pub fn failure(&self, ends: &[End; 2], sources: &[Source; 2]) -> String {
        let mut text = match self.why {
            NoPlan::Empty => "no traffic was heard at both points".to_owned(),
            why => why.to_string(),
        };
        for ((source, end), seen) in sources.iter().zip(ends).zip(self.seen) {
            text.push_str(&format!("\n  {source}: {seen} frames, {} dropped", end.drops));
            for note in &end.notes {
                text.push_str(&format!("\n  {note}"));
            }
        }
        if self.seen.iter().all(|s| *s > 0) {
            text.push_str(
                "\n  packets are recognised by what does not change on the way: segmentation offload at one of \
                 the points makes packets that never match (ethtool -K IFACE tso off gso off gro off lro off)",
            );
        }
        text
    }
}
