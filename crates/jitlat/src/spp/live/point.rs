//! The points: a thread each, which delivers what passes and never waits for anything else for long.

use crate::spp::feed::Facts;
use anyhow::Result;
use jitlat_core::passive::{LinkType, Plan, Prefix};
use jitlat_core::time::{Nanos, Span};
use jitlat_net::capture::Frame;
use jitlat_net::capture::live::{Live, LiveError, Settings};
use jitlat_net::clock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a point waits for a packet before it says that there was none.
const PATIENCE: Duration = Duration::from_millis(20);
/// Batches taken from the kernel before they are handed on.
const ROUNDS: usize = 64;
/// Reports that may wait; a point that finds no room waits itself, and the kernel counts what it drops.
const WAITING: usize = 64;
/// A packet is in the socket's queue so soon after it was stamped.
const SLACK: Span = Span::millis(2);
/// How long to wait for a report before looking up.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Where a point is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An interface of this host.
    Interface(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Interface(name) => f.write_str(name),
        }
    }
}

/// Frames in one piece of memory.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    heads: Vec<(Nanos, LinkType, u32, usize)>,
}

impl Frames {
    fn push(&mut self, f: &Frame<'_>) {
        self.bytes.extend_from_slice(f.data);
        self.heads.push((f.at, f.link, f.wire_length, self.bytes.len()));
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Hands on each.
    pub fn each(&self, mut to: impl FnMut(Frame<'_>)) {
        let mut from = 0;
        for &(at, link, wire_length, end) in &self.heads {
            to(Frame { at, link, wire_length, data: self.bytes.get(from..end).unwrap_or_default() });
            from = end;
        }
    }
}

/// What a point delivers.
pub enum News {
    /// Packets, with their beginning.
    Frames(Frames),
    /// That time went by.
    Nothing,
}

/// A delivery.
pub struct Report {
    /// 0 is the reference, 1 the monitor point.
    pub point: usize,
    pub news: News,
    /// The time from and up to which everything has been delivered.
    pub covered: Option<(Nanos, Nanos)>,
}

/// How listening went, in the end.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// Frames delivered.
    pub frames: u64,
    /// Frames dropped for want of room.
    pub drops: u64,
    /// What went wrong.
    pub notes: Vec<String>,
}

impl End {
    /// Adds it to what is known of a point.
    pub fn tell(self, facts: &mut Facts) {
        facts.drops += self.drops;
        facts.notes.extend(self.notes);
    }
}

/// Both points.
pub struct Points {
    reports: Receiver<Report>,
    stop: Arc<AtomicBool>,
    plans: [Option<Sender<Vec<Prefix>>>; 2],
    threads: [Option<JoinHandle<End>>; 2],
    gone: bool,
}

impl Points {
    /// Opens both; from now on everything is delivered that passes between `hosts` (anything, if there are
    /// none).
    pub fn open(sources: &[Source; 2], settings: Settings, hosts: &[Prefix]) -> Result<Points> {
        let (to, reports) = sync_channel(WAITING);
        let stop = Arc::new(AtomicBool::new(false));
        let mut points = Points { reports, stop, plans: [None, None], threads: [None, None], gone: false };
        for (k, source) in sources.iter().enumerate() {
            let Source::Interface(name) = source;
            let live = Live::open(name, settings)?;
            live.limit_to(hosts)?;
            let (plan, plans) = channel();
            let (stop, to) = (Arc::clone(&points.stop), to.clone());
            points.plans[k] = Some(plan);
            points.threads[k] = Some(std::thread::spawn(move || listen(k, live, &plans, &to, &stop)));
        }
        Ok(points)
    }

    /// Tells the points what is looked for.
    pub fn plan(&self, plan: &Plan) {
        for (to, sides) in self.plans.iter().zip(&plan.sides) {
            let hosts = sides.reference.iter().chain(&sides.monitor).copied().collect();
            // A point that has ended needs no plan.
            let _ = to.as_ref().map(|to| to.send(hosts));
        }
    }

    /// The next delivery, if there is one soon.
    pub fn next(&mut self) -> Option<Report> {
        match self.reports.recv_timeout(LOOK_UP) {
            Ok(report) => Some(report),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.gone = true;
                None
            }
        }
    }

    /// Whether a point has come to its end, so that there is nothing more to learn.
    pub fn ended(&self) -> bool {
        self.gone || self.threads.iter().flatten().any(JoinHandle::is_finished) && !self.stopping()
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks both to come to an end. What they have is still delivered.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends both.
    pub fn close(mut self) -> [End; 2] {
        self.stop();
        // Nobody waits for room any longer.
        drop(self.reports);
        self.threads.each_mut().map(|t| t.take().and_then(|t| t.join().ok()).unwrap_or_default())
    }
}

fn listen(
    point: usize,
    mut live: Live,
    plans: &Receiver<Vec<Prefix>>,
    to: &SyncSender<Report>,
    stop: &AtomicBool,
) -> End {
    let began = clock::wall();
    let mut end = End::default();
    loop {
        let last = stop.load(Ordering::Relaxed);
        if let Ok(hosts) = plans.try_recv()
            && let Err(e) = live.limit_to(&hosts)
        {
            end.notes.push(e.to_string());
        }
        let mut frames = Frames::default();
        let mut covered = None;
        let mut trouble = None;
        for _ in 0..ROUNDS {
            let now = clock::wall();
            let patience = if frames.len() == 0 && !last { PATIENCE } else { Duration::ZERO };
            match live.poll(patience, |f| frames.push(&f)) {
                // The queue was empty at `now` or later.
                Ok(0) => {
                    covered = Some((began, now - SLACK));
                    break;
                }
                Ok(_) => {}
                Err(e) => {
                    trouble = Some(e);
                    break;
                }
            }
        }
        // A queue that never empties is a busy one, and nearly in order.
        let covered = covered.or_else(|| Some((began, frames.heads.last()?.0 - SLACK)));
        let news = if frames.len() == 0 { News::Nothing } else { News::Frames(frames) };
        let heard = to.send(Report { point, news, covered }).is_ok();
        if let Some(e) = &trouble {
            end.notes.push(match e {
                LiveError::Gone(_) => format!("{e}: listening ended there"),
                _ => e.to_string(),
            });
        }
        if last || !heard || trouble.is_some() {
            break;
        }
    }
    if live.downs() > 0 {
        end.notes.push(format!("the interface {} went down while it was listened to", live.interface()));
    }
    end.frames = live.frames();
    end.drops = live.drops();
    end
}
