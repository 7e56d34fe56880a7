//! [`LivePoints`]: two live capture points. A thread for each point delivers captured packets and never blocks for
//! long.

use super::error::PassiveError;
use jitlat_core::prefix::Prefix;
use jitlat_core::{Span, WallTime};
use jitlat_net::capture::interface::{InterfaceCapture, InterfaceError, InterfaceSettings};
use jitlat_net::clock;
use jitlat_net::digest::{DigestCollector, is_own};
use jitlat_passive::flows::UNKNOWN_FLOW;
use jitlat_passive::packet::decode;
use jitlat_passive::pipeline::{CaptureFacts, CapturedBatch, FrameBatch, PointDelivery};
use jitlat_passive::{CapturePoint, MatchPlan, Sighting};
use jitlat_proto::digest::{self, CollectorEvent, Digest, DigestRule, Entries, Listen};
use jitlat_proto::jitlat::PresharedKey;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time that a point waits for a packet before it reports an empty delivery.
const READ_TIMEOUT: Duration = Duration::from_millis(20);
/// Number of frames after which a delivery is complete; it may exceed this by one batch of the kernel.
const FRAMES_PER_DELIVERY: usize = 2048;
/// Maximum number of queued deliveries. When the queue is full, the point waits, and the kernel counts the
/// packets dropped meanwhile.
const MAX_QUEUED_DELIVERIES: usize = 64;
/// Maximum time by which packets of an interface are out of order, because several processors receive them.
const MAX_DISORDER: Span = Span::millis(2);
/// Interval at which a waiting reader checks whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A live capture point.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LivePoint {
    /// An interface of this host.
    Interface(String),
    /// Another host, where `jitlat serve --capture IFACE` runs.
    Remote {
        /// Name or address of the host.
        host: String,
        /// TCP port of the host's digest service.
        port: u16,
        /// Interface of the far host; `None`: the first interface that the host offers.
        interface: Option<String>,
    },
    /// A capture that is still being written: a growing file, or a folder to which files are added.
    Files(PathBuf),
}

impl LivePoint {
    /// True if the timestamps of the point come from this host's clock.
    pub fn is_here(&self) -> bool {
        matches!(self, LivePoint::Interface(_))
    }

    /// True if the point delivers whole packets; a remote host delivers only digests.
    pub(super) fn has_packets(&self) -> bool {
        !matches!(self, LivePoint::Remote { .. })
    }

    fn port(&self) -> Option<u16> {
        match self {
            LivePoint::Remote { port, .. } => Some(*port),
            LivePoint::Interface(_) | LivePoint::Files(_) => None,
        }
    }
}

impl fmt::Display for LivePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LivePoint::Interface(name) => f.write_str(name),
            LivePoint::Files(path) => path.display().fmt(f),
            LivePoint::Remote { host, interface: Some(name), .. } => write!(f, "{name} of {host}"),
            LivePoint::Remote { host, .. } => f.write_str(host),
        }
    }
}

/// Final state of a capture point.
#[derive(Clone, Debug, Default)]
pub(super) struct PointEnd {
    /// Number of frames dropped because a buffer was full.
    pub(super) drops: u64,
    /// Number of digests discarded at the far host before they were sent.
    pub(super) missing: u64,
    /// Messages about errors and losses.
    pub(super) notes: Vec<String>,
}

impl PointEnd {
    /// Adds the final state to the facts about the point.
    pub(super) fn add_to(self, facts: &mut CaptureFacts) {
        facts.drops += self.drops + self.missing;
        if self.missing > 0 {
            let n = self.missing;
            facts.notes.push(format!(
                "{n} digests were discarded: the connection was too slow, or the rate limit was reached"
            ));
        }
        facts.notes.extend(self.notes);
    }
}

/// A source that delivers the packets of both points.
pub(super) trait PointSource {
    /// Returns the salt that a remote point uses to compute packet identities; `None` if no point is remote.
    fn salt(&self) -> Option<u64>;

    /// Sends each point the rule by which it selects packets, with the addresses of both sides as seen at that point.
    fn follow(&mut self, plan: &MatchPlan, rule: &DigestRule);

    /// Returns the next delivery; `None` if none arrives within a short time.
    fn next(&mut self) -> Option<PointDelivery>;

    /// True if a point has ended, so that no more packets can be matched.
    fn ended(&self) -> bool;

    /// Asks both points to end. Packets captured so far are still delivered.
    fn stop(&mut self);

    /// Ends both points. Returns their final states and the errors of those that failed.
    fn close(self) -> ([PointEnd; 2], Vec<PassiveError>);
}

/// Two live points. Dropping this value ends both.
pub(super) struct LivePoints {
    names: [LivePoint; 2],
    deliveries: Receiver<PointDelivery>,
    stop: Arc<AtomicBool>,
    plans: [Option<Sender<DigestRule>>; 2],
    threads: [Option<JoinHandle<PointEnd>>; 2],
    gone: bool,
    salt: Option<u64>,
}

impl LivePoints {
    /// Opens both points. They deliver every packet between `hosts` (every packet if `hosts` is empty); at
    /// most `available` bytes of each packet are used for its identity.
    pub(super) fn open(
        names: [LivePoint; 2],
        settings: InterfaceSettings,
        hosts: &[Prefix],
        available: u16,
        key: Option<&PresharedKey>,
    ) -> Result<LivePoints, PassiveError> {
        let (to, deliveries) = sync_channel(MAX_QUEUED_DELIVERIES);
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
        for point in [CapturePoint::Reference, CapturePoint::Monitor] {
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
                LivePoint::Files(_) => return Err(PassiveError::FilesAlone),
                LivePoint::Remote { host, port, interface } => {
                    let interface = interface.clone().unwrap_or_default();
                    let ask = Listen { interface, hosts: hosts.to_vec(), available, opens_tunnels: true };
                    let collector = DigestCollector::connect(host, *port, ask, key.cloned())?;
                    points.salt = Some(collector.salt());
                    std::thread::spawn(move || collect(&link, collector))
                }
            });
        }
        Ok(points)
    }
}

impl PointSource for LivePoints {
    fn salt(&self) -> Option<u64> {
        self.salt
    }

    fn follow(&mut self, plan: &MatchPlan, rule: &DigestRule) {
        for ((to, sides), inside) in self.plans.iter().zip(&plan.sides).zip(plan.inside) {
            // Sending fails only if the point has ended, and then it needs no matching plan.
            let _ =
                to.as_ref().map(|to| to.send(DigestRule { sides: sides.clone(), inside, ..rule.clone() }));
        }
    }

    fn next(&mut self) -> Option<PointDelivery> {
        match self.deliveries.recv_timeout(STOP_CHECK_INTERVAL) {
            Ok(delivery) => Some(delivery),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.gone = true;
                None
            }
        }
    }

    fn ended(&self) -> bool {
        let stopping = self.stop.load(Ordering::Relaxed);
        self.gone || self.threads.iter().flatten().any(JoinHandle::is_finished) && !stopping
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn close(mut self) -> ([PointEnd; 2], Vec<PassiveError>) {
        self.stop();
        // Unblocks a point that waits for space in the queue.
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

/// State that a point's thread shares with the other threads.
struct PointLink {
    point: CapturePoint,
    plans: Receiver<DigestRule>,
    to: SyncSender<PointDelivery>,
    stop: Arc<AtomicBool>,
}

impl PointLink {
    /// Queues a delivery. Returns false if the receiver no longer exists.
    fn deliver(&self, what: CapturedBatch, covered: Option<(WallTime, WallTime)>) -> bool {
        self.to.send(PointDelivery { point: self.point, what, covered }).is_ok()
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn capture_here(link: &PointLink, own: u16, mut capture: InterfaceCapture) -> PointEnd {
    let began = clock::wall();
    let mut end = PointEnd::default();
    // Number of packets dropped so far, and time of that reading.
    let mut dropped = (0, began);
    loop {
        let last = link.is_stopping();
        if last {
            capture.settle();
        }
        if let Ok(DigestRule { sides, inside, .. }) = link.plans.try_recv() {
            // The addresses of packets inside tunnels differ from those of the tunnels.
            let hosts: Vec<Prefix> = match inside {
                true => Vec::new(),
                false => sides.reference.iter().chain(&sides.monitor).copied().collect(),
            };
            // If the kernel cannot filter, packets are filtered when their identities are computed.
            let _ = capture.limit_to(&hosts);
        }
        let (frames, covered, trouble) = take_batches(&mut capture, own, last);
        // A queue that never becomes empty belongs to a busy interface, whose packets arrive nearly in order.
        let covered = covered.or_else(|| Some(frames.latest()? - MAX_DISORDER)).map(|to| (began, to));
        let what = if frames.is_empty() { CapturedBatch::Nothing } else { CapturedBatch::Frames(frames) };
        let (drops, now) = (capture.drops(), clock::wall());
        let lacks = drops > dropped.0;
        let drops_delivered = !lacks || {
            let since = dropped.1 - capture.delay();
            link.deliver(CapturedBatch::Dropped(drops - dropped.0, since, now), None)
        };
        dropped = (drops, now);
        let delivered = drops_delivered && link.deliver(what, covered);
        if let Some(e) = &trouble {
            end.notes.push(match e {
                InterfaceError::Gone(_) => format!("capturing ended: {e}"),
                _ => e.to_string(),
            });
        }
        if last || !delivered || trouble.is_some() {
            break;
        }
    }
    if capture.downs() > 0 {
        end.notes.push(format!("the interface {} went down during the capture", capture.interface()));
    }
    end.drops = capture.drops();
    end
}

/// Returns the frames that have arrived on an interface, the time up to which they are complete, and an error
/// if one occurred.
fn take_batches(
    capture: &mut InterfaceCapture,
    own: u16,
    last: bool,
) -> (FrameBatch, Option<WallTime>, Option<InterfaceError>) {
    let mut frames = FrameBatch::default();
    // Skipped frames count as well; otherwise a busy interface would keep this loop running.
    let mut all = 0;
    while all < FRAMES_PER_DELIVERY {
        let now = clock::wall();
        let timeout = if frames.is_empty() && !last { READ_TIMEOUT } else { Duration::ZERO };
        let taken = capture.poll(timeout, |f| {
            if !decode(f.link, f.data, f.wire_length).is_ok_and(|p| is_own(&p, own)) {
                frames.push(&f);
            }
        });
        match taken {
            // The queue was empty at `now`.
            Ok(0) => return (frames, Some(now - capture.delay()), None),
            Ok(taken) => all += taken,
            Err(e) => return (frames, None, Some(e)),
        }
    }
    (frames, None, None)
}

fn collect(link: &PointLink, mut collector: DigestCollector) -> PointEnd {
    let mut end = PointEnd::default();
    let mut stopping = false;
    // Number of packets dropped or discarded at the far host and not reported here yet, and time up to which
    // the deliveries cover the traffic.
    let (mut lacking, mut reached) = (0, None);
    loop {
        if let Ok(rule) = link.plans.try_recv() {
            collector.rule(rule);
        }
        if link.is_stopping() && !stopping {
            stopping = true;
            collector.stop();
        }
        let event = match collector.poll(READ_TIMEOUT) {
            Ok(event) => event,
            Err(e) => {
                end.notes.push(e.to_string());
                return end;
            }
        };
        match event {
            Some(CollectorEvent::Report { missing, covered, totals, entries }) => {
                end.missing += missing;
                // Until there is a matching plan, missing packets do no harm, because previews are a sample
                // anyway.
                let counts = matches!(entries, Entries::Digests(_));
                lacking += if counts { missing + totals.drops.saturating_sub(end.drops) } else { 0 };
                end.drops = totals.drops;
                if let Some((from, to)) = covered {
                    let since = reached.replace(to).unwrap_or(from);
                    if lacking > 0 && !link.deliver(CapturedBatch::Dropped(lacking, since, to), None) {
                        return end;
                    }
                    lacking = 0;
                }
                let what = match entries {
                    Entries::Previews(list) => CapturedBatch::Previews(list),
                    Entries::Digests(list) => CapturedBatch::Sightings(list.iter().map(sighting).collect()),
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

/// Converts a digest to a sighting, which has no flow.
fn sighting(d: &Digest) -> Sighting {
    Sighting { at: d.at, id: d.id, length: d.length, direction: d.direction, flow: UNKNOWN_FLOW }
}
