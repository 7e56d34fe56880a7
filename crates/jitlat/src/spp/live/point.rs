//! The points: a thread each, which delivers what passes and never waits for anything else for long.

use crate::spp::feed::Facts;
use anyhow::Result;
use jitlat_core::passive::packet::decode;
use jitlat_core::passive::{LinkType, PacketPreview, Plan, Prefix};
use jitlat_core::time::{Span, WallTime};
use jitlat_net::capture::Frame;
use jitlat_net::capture::live::{Live, LiveError, Settings};
use jitlat_net::clock;
use jitlat_net::digest::{Remote, is_own};
use jitlat_proto::digest::{self, Digest, Entries, Heard, Listen, Rule};
use jitlat_proto::jitlat::Key;
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
    /// An interface of another host, by default the first it offers.
    Remote { host: String, port: u16, interface: Option<String> },
}

impl Source {
    /// Whether its times are of this host's clock.
    pub fn is_here(&self) -> bool {
        matches!(self, Source::Interface(_))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Interface(name) => f.write_str(name),
            Source::Remote { host, interface: Some(name), .. } => write!(f, "{name} of {host}"),
            Source::Remote { host, .. } => f.write_str(host),
        }
    }
}

/// Frames in one piece of memory.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    heads: Vec<(WallTime, LinkType, u32, usize)>,
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

    /// The latest time among them.
    pub fn latest(&self) -> Option<WallTime> {
        self.heads.iter().map(|head| head.0).max()
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
    /// What another host tells of packets, before there is a plan.
    Previews(Vec<PacketPreview>),
    /// And after.
    Digests(Vec<Digest>),
    /// That time went by.
    Nothing,
}

/// A delivery.
pub struct Report {
    /// 0 is the reference, 1 the monitor point.
    pub point: usize,
    pub news: News,
    /// The time from and up to which everything has been delivered.
    pub covered: Option<(WallTime, WallTime)>,
}

/// How listening went, in the end.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// Frames delivered.
    pub frames: u64,
    /// Frames dropped for want of room.
    pub drops: u64,
    /// Digests given up before they were sent here.
    pub missing: u64,
    /// What went wrong.
    pub notes: Vec<String>,
    /// The thread that listened died: what it heard last is missing.
    pub failed: bool,
}

impl End {
    /// Adds it to what is known of a point.
    pub fn tell(self, facts: &mut Facts) {
        facts.drops += self.drops + self.missing;
        if self.missing > 0 {
            let n = self.missing;
            facts.notes.push(format!(
                "{n} digests were given up: the connection or the rate allowed could not take them"
            ));
        }
        facts.notes.extend(self.notes);
    }
}

/// Both points.
pub struct Points {
    reports: Receiver<Report>,
    stop: Arc<AtomicBool>,
    plans: [Option<Sender<Rule>>; 2],
    threads: [Option<JoinHandle<End>>; 2],
    gone: bool,
    /// Names are under this salt, if another host tells them.
    pub salt: Option<u64>,
}

impl Points {
    /// Opens both; from now on everything is delivered that passes between `hosts` (anything, if there are
    /// none), of which `available` bytes may take part in names.
    pub fn open(
        sources: &[Source; 2],
        settings: Settings,
        hosts: &[Prefix],
        available: u16,
        key: Option<&Key>,
    ) -> Result<Points> {
        let (to, reports) = sync_channel(WAITING);
        let stop = Arc::new(AtomicBool::new(false));
        let (plans, threads) = ([None, None], [None, None]);
        let mut points = Points { reports, stop, plans, threads, gone: false, salt: None };
        let far = |s: &Source| match s {
            Source::Remote { port, .. } => Some(*port),
            Source::Interface(_) => None,
        };
        let own = sources.iter().find_map(far).unwrap_or(digest::PORT);
        for (k, source) in sources.iter().enumerate() {
            let (plan, plans) = channel();
            let (stop, to) = (Arc::clone(&points.stop), to.clone());
            points.plans[k] = Some(plan);
            points.threads[k] = Some(match source {
                Source::Interface(name) => {
                    let live = Live::open(name, settings)?;
                    live.limit_to(hosts)?;
                    std::thread::spawn(move || listen(k, own, live, &plans, &to, &stop))
                }
                Source::Remote { host, port, interface } => {
                    let interface = interface.clone().unwrap_or_default();
                    let ask = Listen { interface, hosts: hosts.to_vec(), available };
                    let remote = Remote::connect(host, *port, ask, key.cloned())?;
                    points.salt = Some(remote.salt());
                    std::thread::spawn(move || listen_far(k, remote, &plans, &to, &stop))
                }
            });
        }
        Ok(points)
    }

    /// Tells the points what is looked for; `rule` for the one, with its own sides.
    pub fn plan(&self, plan: &Plan, rule: &Rule) {
        for (to, sides) in self.plans.iter().zip(&plan.sides) {
            // A point that has ended needs no plan.
            let _ = to.as_ref().map(|to| to.send(Rule { sides: sides.clone(), ..rule.clone() }));
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
        self.threads.each_mut().map(|t| match t.take().map(JoinHandle::join) {
            Some(Ok(end)) => end,
            Some(Err(_)) => End { failed: true, ..End::default() },
            None => End::default(),
        })
    }
}

fn listen(
    point: usize,
    own: u16,
    mut live: Live,
    plans: &Receiver<Rule>,
    to: &SyncSender<Report>,
    stop: &AtomicBool,
) -> End {
    let began = clock::wall();
    let mut end = End::default();
    loop {
        let last = stop.load(Ordering::Relaxed);
        if let Ok(Rule { sides, .. }) = plans.try_recv() {
            let hosts: Vec<Prefix> = sides.reference.iter().chain(&sides.monitor).copied().collect();
            // Where the kernel will not choose, the namer does.
            let _ = live.limit_to(&hosts);
        }
        let mut frames = Frames::default();
        let mut covered = None;
        let mut trouble = None;
        for _ in 0..ROUNDS {
            let now = clock::wall();
            let patience = if frames.len() == 0 && !last { PATIENCE } else { Duration::ZERO };
            let taken = live.poll(patience, |f| {
                if !decode(f.link, f.data, f.wire_length).is_ok_and(|p| is_own(&p, own)) {
                    frames.push(&f);
                }
            });
            match taken {
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

fn listen_far(
    point: usize,
    mut remote: Remote,
    plans: &Receiver<Rule>,
    to: &SyncSender<Report>,
    stop: &AtomicBool,
) -> End {
    let mut end = End::default();
    let mut stopping = false;
    loop {
        if let Ok(rule) = plans.try_recv() {
            remote.rule(rule);
        }
        if stop.load(Ordering::Relaxed) && !stopping {
            stopping = true;
            remote.stop();
        }
        let heard = match remote.poll(PATIENCE) {
            Ok(heard) => heard,
            Err(e) => {
                end.notes.push(e.to_string());
                return end;
            }
        };
        match heard {
            Some(Heard::Report { missing, covered, totals, entries }) => {
                end.missing += missing;
                (end.frames, end.drops) = (totals.frames, totals.drops);
                let news = match entries {
                    Entries::Previews(list) => News::Previews(list),
                    Entries::Digests(list) => News::Digests(list),
                };
                if to.send(Report { point, news, covered }).is_err() {
                    return end;
                }
            }
            Some(Heard::End { missing, totals, notes }) => {
                end.missing += missing;
                (end.frames, end.drops) = (totals.frames, totals.drops);
                end.notes.extend(notes);
                return end;
            }
            Some(Heard::Listening { .. } | Heard::Failed(_)) | None => {}
        }
    }
}
