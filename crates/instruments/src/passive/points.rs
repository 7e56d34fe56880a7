//! [`LivePoints`]: two points that are captured at now, a thread each, which delivers what passes and never waits for
//! anything else for long.

use super::error::PassiveError;
use jitlat_core::passive::flows::UNKNOWN_FLOW;
use jitlat_core::passive::packet::decode;
use jitlat_core::passive::pipeline::{CaptureFacts, Delivered, Delivery, FrameBatch};
use jitlat_core::passive::{Plan, Point, Prefix, Sighting};
use jitlat_core::{Span, WallTime};
use jitlat_net::capture::interface::{InterfaceCapture, InterfaceError, InterfaceSettings};
use jitlat_net::clock;
use jitlat_net::digest::{DigestCollector, is_own};
use jitlat_proto::digest::{self, CollectorEvent, Digest, Entries, Listen, Rule};
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
/// Deliveries that may wait; a point that finds no room waits itself, and the kernel counts what it drops.
const WAITING: usize = 64;
/// A packet is in the socket's queue so soon after it was stamped.
const SLACK: Span = Span::millis(2);
/// How long to wait for a delivery before looking up.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Where a live point is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LivePoint {
    /// An interface of this host.
    Interface(String),
    /// Another host, where `jitlat serve --capture IFACE` runs.
    Remote {
        /// Its name or address.
        host: String,
        /// The TCP port where digests are asked for.
        port: u16,
        /// Its interface; `None`: the first it offers.
        interface: Option<String>,
    },
}

impl LivePoint {
    /// Whether its times are of this host's clock.
    pub fn is_here(&self) -> bool {
        matches!(self, LivePoint::Interface(_))
    }

    fn port(&self) -> Option<u16> {
        match self {
            LivePoint::Remote { port, .. } => Some(*port),
            LivePoint::Interface(_) => None,
        }
    }
}

impl fmt::Display for LivePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LivePoint::Interface(name) => f.write_str(name),
            LivePoint::Remote { host, interface: Some(name), .. } => write!(f, "{name} of {host}"),
            LivePoint::Remote { host, .. } => f.write_str(host),
        }
    }
}

/// How capturing at a point went, in the end.
#[derive(Clone, Debug, Default)]
pub(super) struct PointEnd {
    /// Frames dropped for want of room.
    pub(super) drops: u64,
    /// Digests given up before they were sent here.
    missing: u64,
    /// What went wrong, in words.
    pub(super) notes: Vec<String>,
}

impl PointEnd {
    /// Adds it to what is known of a point.
    pub(super) fn add_to(self, facts: &mut CaptureFacts) {
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

/// Both points. They end when this is dropped.
pub(super) struct LivePoints {
    names: [LivePoint; 2],
    deliveries: Receiver<Delivery>,
    stop: Arc<AtomicBool>,
    plans: [Option<Sender<Rule>>; 2],
    threads: [Option<JoinHandle<PointEnd>>; 2],
    gone: bool,
    salt: Option<u64>,
}

impl LivePoints {
    /// Opens both; from now on everything is delivered that passes between `hosts` (anything, if there are
    /// none), of which `available` bytes may take part in names.
    pub(super) fn open(
        names: [LivePoint; 2],
        settings: InterfaceSettings,
        hosts: &[Prefix],
        available: u16,
        key: Option<&Key>,
    ) -> Result<LivePoints, PassiveError> {
        let (to, deliveries) = sync_channel(WAITING);
        let own = names.iter().find_map(LivePoint::port).unwrap_or(digest::PORT);
        let mut points = LivePoints {
            names,
            deliveries,
            stop: Arc::new(AtomicBool::new(false)),
            plans: [None, None],
            threads: [None, None],
            gone: false,
            salt: None,
        };
        for point in [Point::Reference, Point::Monitor] {
            let k = point as usize;
            let (plan, plans) = channel();
            let link = PointLink { point, plans, to: to.clone(), stop: Arc::clone(&points.stop) };
            points.plans[k] = Some(plan);
            points.threads[k] = Some(match &points.names[k] {
                LivePoint::Interface(name) => {
                    let capture = InterfaceCapture::open(name, settings)?;
                    capture.limit_to(hosts)?;
                    std::thread::spawn(move || capture_here(&link, own, capture))
                }
                LivePoint::Remote { host, port, interface } => {
                    let interface = interface.clone().unwrap_or_default();
                    let ask = Listen { interface, hosts: hosts.to_vec(), available };
                    let collector = DigestCollector::connect(host, *port, ask, key.cloned())?;
                    points.salt = Some(collector.salt());
                    std::thread::spawn(move || collect(&link, collector))
                }
            });
        }
        Ok(points)
    }

    /// The salt of all names, if another host makes some of them.
    pub(super) fn salt(&self) -> Option<u64> {
        self.salt
    }

    /// Sends the points whose packets are looked for; `rule` as of both, each with its own sides.
    pub(super) fn follow(&self, plan: &Plan, rule: &Rule) {
        for (to, sides) in self.plans.iter().zip(&plan.sides) {
            // A point that has ended needs no plan.
            let _ = to.as_ref().map(|to| to.send(Rule { sides: sides.clone(), ..rule.clone() }));
        }
    }

    /// The next delivery, if there is one soon.
    pub(super) fn next(&mut self) -> Option<Delivery> {
        match self.deliveries.recv_timeout(LOOK_UP) {
            Ok(delivery) => Some(delivery),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.gone = true;
                None
            }
        }
    }

    /// Whether a point has come to its end, so that there is nothing more to learn.
    pub(super) fn ended(&self) -> bool {
        let stopping = self.stop.load(Ordering::Relaxed);
        self.gone || self.threads.iter().flatten().any(JoinHandle::is_finished) && !stopping
    }

    /// Asks both to come to an end. What they have is still delivered.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends both; how they went, and those that failed.
    pub(super) fn close(mut self) -> ([PointEnd; 2], Vec<PassiveError>) {
        self.stop();
        // A point that waits for room goes on.
        drop(self.deliveries);
        let mut failures = Vec::new();
        let mut names = self.names.into_iter();
        let ends = self.threads.each_mut().map(|thread| {
            let name = names.next();
            match (thread.take().map(JoinHandle::join), name) {
                (Some(Err(_)), Some(name)) => failures.push(PassiveError::PointFailed(name)),
                (Some(Ok(end)), _) => return end,
                _ => {}
            }
            PointEnd::default()
        });
        (ends, failures)
    }
}

/// What a point's thread has to do with the others.
struct PointLink {
    point: Point,
    plans: Receiver<Rule>,
    to: SyncSender<Delivery>,
    stop: Arc<AtomicBool>,
}

impl PointLink {
    /// Whether anybody still takes deliveries.
    fn deliver(&self, what: Delivered, covered: Option<(WallTime, WallTime)>) -> bool {
        self.to.send(Delivery { point: self.point, what, covered }).is_ok()
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn capture_here(link: &PointLink, own: u16, mut capture: InterfaceCapture) -> PointEnd {
    let began = clock::wall();
    let mut end = PointEnd::default();
    loop {
        let last = link.is_stopping();
        if let Ok(Rule { sides, .. }) = link.plans.try_recv() {
            let hosts: Vec<Prefix> = sides.reference.iter().chain(&sides.monitor).copied().collect();
            // Where the kernel will not choose, the namer does.
            let _ = capture.limit_to(&hosts);
        }
        let (frames, covered, trouble) = take_batches(&mut capture, own, last);
        // A queue that never empties is a busy one, and nearly in order.
        let covered = covered.or_else(|| Some(frames.latest()? - SLACK)).map(|to| (began, to));
        let what = if frames.is_empty() { Delivered::Nothing } else { Delivered::Frames(frames) };
        let delivered = link.deliver(what, covered);
        if let Some(e) = &trouble {
            end.notes.push(match e {
                InterfaceError::Gone(_) => format!("{e}: capturing ended there"),
                _ => e.to_string(),
            });
        }
        if last || !delivered || trouble.is_some() {
            break;
        }
    }
    if capture.downs() > 0 {
        end.notes.push(format!("the interface {} went down while it was captured at", capture.interface()));
    }
    end.drops = capture.drops();
    end
}

/// What has arrived at an interface, up to which time that is everything, and what went wrong.
fn take_batches(
    capture: &mut InterfaceCapture,
    own: u16,
    last: bool,
) -> (FrameBatch, Option<WallTime>, Option<InterfaceError>) {
    let mut frames = FrameBatch::default();
    for _ in 0..ROUNDS {
        let now = clock::wall();
        let patience = if frames.is_empty() && !last { PATIENCE } else { Duration::ZERO };
        let taken = capture.poll(patience, |f| {
            if !decode(f.link, f.data, f.wire_length).is_ok_and(|p| is_own(&p, own)) {
                frames.push(&f);
            }
        });
        match taken {
            // The queue was empty at `now` or later.
            Ok(0) => return (frames, Some(now - SLACK), None),
            Ok(_) => {}
            Err(e) => return (frames, None, Some(e)),
        }
    }
    (frames, None, None)
}

fn collect(link: &PointLink, mut collector: DigestCollector) -> PointEnd {
    let mut end = PointEnd::default();
    let mut stopping = false;
    loop {
        if let Ok(rule) = link.plans.try_recv() {
            collector.rule(rule);
        }
        if link.is_stopping() && !stopping {
            stopping = true;
            collector.stop();
        }
        let event = match collector.poll(PATIENCE) {
            Ok(event) => event,
            Err(e) => {
                end.notes.push(e.to_string());
                return end;
            }
        };
        match event {
            Some(CollectorEvent::Report { missing, covered, totals, entries }) => {
                end.missing += missing;
                end.drops = totals.drops;
                let what = match entries {
                    Entries::Previews(list) => Delivered::Previews(list),
                    Entries::Digests(list) => Delivered::Sightings(list.iter().map(sighting).collect()),
                };
                if !link.deliver(what, covered) {
                    return end;
                }
            }
            Some(CollectorEvent::End { missing, totals, notes }) => {
                end.missing += missing;
                end.drops = totals.drops;
                end.notes.extend(notes);
                return end;
            }
            Some(CollectorEvent::Listening { .. } | CollectorEvent::Failed(_)) | None => {}
        }
    }
}

/// The sighting of a digest, which carries no flow.
fn sighting(d: &Digest) -> Sighting {
    Sighting { at: d.at, id: d.id, length: d.length, way: d.way, flow: UNKNOWN_FLOW }
}
