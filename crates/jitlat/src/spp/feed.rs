//! One capture point: a thread that reads, names and sorts packets, and hands them over in batches.

use jitlat_core::passive::echo::{Echoes, is_echo};
use jitlat_core::passive::flows::{FlowKey, FlowNumbers, Grouping, OTHER_FLOWS};
use jitlat_core::passive::packet::decode;
use jitlat_core::passive::{
    Fields, IdentityRule, InOrder, LinkType, Packet, PacketPreview, Sides, Sighting, Skip,
};
use jitlat_core::time::{Span, WallTime};
use jitlat_net::capture::{Capture, CaptureError, Frame};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Frames the survey looks at first.
const HEAD_FRAMES: usize = 1 << 14;
/// Bytes kept of each of them: more than any identity needs.
const HEAD_BYTES: usize = 256;
/// Sightings in a batch.
const BATCH: usize = 1024;
/// Batches that may wait: few, so that they are still in the cache when their turn comes.
const WAITING: usize = 8;
/// Round trips of ping kept.
const PINGS: usize = 1 << 20;
/// Previews kept of a whole file.
const SAMPLE: usize = 1 << 15;

/// A frame kept for the survey.
#[derive(Clone)]
pub struct Kept {
    at: WallTime,
    link: LinkType,
    wire_length: u32,
    data: Vec<u8>,
}

impl Kept {
    /// The beginning of a frame.
    pub fn of(f: &Frame<'_>) -> Kept {
        let data = f.data[..f.data.len().min(HEAD_BYTES)].to_vec();
        Kept { at: f.at, link: f.link, wire_length: f.wire_length, data }
    }

    /// The frame again.
    pub fn frame(&self) -> Frame<'_> {
        Frame { at: self.at, link: self.link, wire_length: self.wire_length, data: &self.data }
    }

    fn packet(&self) -> Result<Packet<'_>, Skip> {
        decode(self.link, &self.data, self.wire_length)
    }
}

/// The beginning of a capture.
#[derive(Default)]
pub struct Head {
    pub frames: Vec<Kept>,
}

impl Head {
    /// Bytes of every IP packet that this capture is sure to hold.
    pub fn available(&self) -> usize {
        let cut = |k: &Kept| {
            let p = k.packet().ok()?;
            (p.ip.len() < p.length as usize).then_some(p.ip.len())
        };
        self.frames.iter().filter_map(cut).min().unwrap_or(HEAD_BYTES)
    }

    /// Whether anything but ICMP echoes travels between the sides.
    pub fn holds_more_than_echoes(&self, sides: &Sides) -> bool {
        let other = |p: &Packet<'_>| sides.way(p).is_some() && !is_echo(p);
        self.frames.iter().any(|k| k.packet().is_ok_and(|p| other(&p)))
    }

    /// What the survey needs of each packet.
    pub fn previews(&self, available: usize) -> Vec<PacketPreview> {
        let preview = |k: &Kept| PacketPreview::of(&k.packet().ok()?, k.at, available);
        self.frames.iter().filter_map(preview).collect()
    }
}

/// How packets of one point are to be named.
#[derive(Clone, Debug)]
pub struct Naming {
    /// Whose packets.
    pub sides: Sides,
    /// By which fields.
    pub rule: IdentityRule,
    /// Whether slightly disordered packets are put right.
    pub sorted: bool,
    /// Only these of them.
    pub only: Option<Only>,
    /// ICMP echoes are ping's, not the application's: they are kept out of the pairs.
    pub echoes_apart: bool,
    /// How packets are put together, and the numbers both points share.
    pub flows: Option<(Grouping, Arc<Mutex<FlowNumbers>>)>,
}

/// `--only`: the packets of one application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Only {
    protocols: Option<&'static [u8]>,
    port: Option<u16>,
}

impl FromStr for Only {
    type Err = String;

    fn from_str(s: &str) -> Result<Only, String> {
        let (name, port) = match s.split_once(':') {
            Some((name, port)) => (Some(name), Some(port)),
            None if s.bytes().all(|b| b.is_ascii_digit()) => (None, Some(s)),
            None => (Some(s), None),
        };
        let protocols: Option<&[u8]> = match name {
            None => None,
            Some("tcp") => Some(&[6]),
            Some("udp") => Some(&[17]),
            Some("icmp") => Some(&[1, 58]),
            Some(_) => return Err("give tcp, udp, icmp, a port, or tcp:PORT, udp:PORT".to_owned()),
        };
        let port = port.map(|p| p.parse().map_err(|_| format!("'{p}' is no port"))).transpose()?;
        Ok(Only { protocols, port })
    }
}

impl Only {
    /// The protocols, none for any, and the port.
    pub fn parts(&self) -> (Vec<u8>, Option<u16>) {
        (self.protocols.unwrap_or_default().to_vec(), self.port)
    }

    fn accepts(&self, p: &Packet<'_>) -> bool {
        self.protocols.is_none_or(|list| list.contains(&p.protocol))
            && self.port.is_none_or(|port| p.ports().is_some_and(|(a, b)| a == port || b == port))
    }
}

/// What a point's capture is like, beyond its packets.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Frames read.
    pub frames: u64,
    /// IP packets among them.
    pub packets: u64,
    /// Of those, packets that are not between the two sides.
    pub elsewhere: u64,
    /// Packets between the two sides, as far as they are of interest.
    pub ours: u64,
    /// Of ours, those of which too little was captured to name them.
    pub too_short: u64,
    /// Of ours, those longer than 1500 bytes, and the longest.
    pub long: u64,
    /// Length of the longest of ours.
    pub longest: u32,
    /// Of ours, IPv4 packets without identification.
    pub unidentified: u64,
    /// Frames cut before the end of their headers.
    pub truncated: u64,
    /// Frames that contradict themselves.
    pub malformed: u64,
    /// A link type that is not understood, and frames of it.
    pub unknown_link: Option<(LinkType, u64)>,
    /// First and last time stamp.
    pub span: Option<(WallTime, WallTime)>,
    /// Packets found out of order.
    pub disordered: u64,
    /// Times the clock was set back.
    pub steps_back: u64,
    /// Packets the capture says it lost.
    pub drops: u64,
    /// What ping measured here: when its requests passed, and how long the replies took.
    pub pings: Vec<(WallTime, Span)>,
    /// What was wrong with the files.
    pub notes: Vec<String>,
}

/// Sightings, and the time the capture covers so far.
pub struct Batch {
    /// Named packets in time order.
    pub sightings: Vec<Sighting>,
    /// First and last time stamp of any frame.
    pub span: Option<(WallTime, WallTime)>,
}

/// The thread that read a capture has died: what it had not handed over is missing.
#[derive(Debug, thiserror::Error)]
#[error("the thread that reads {0} failed: what was read of it is not the whole capture")]
pub struct ReaderFailed(String);

/// A running reader.
pub struct Feed {
    name: String,
    head: Receiver<Head>,
    naming: SyncSender<Naming>,
    batches: Receiver<Batch>,
    empty: SyncSender<Vec<Sighting>>,
    thread: JoinHandle<Facts>,
}

impl Feed {
    /// Opens the files and starts to read their beginning.
    pub fn open(paths: &[PathBuf]) -> Result<Feed, CaptureError> {
        let names: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
        Ok(Feed::of(names.join(", "), Capture::open(paths)?))
    }

    /// The same of an open capture.
    fn of(name: String, capture: Capture) -> Feed {
        let (head_to, head) = sync_channel(1);
        let (naming, naming_from) = sync_channel(1);
        let (batches_to, batches) = sync_channel(WAITING);
        let (empty, empty_from) = sync_channel(WAITING);
        let thread = std::thread::spawn(move || {
            let to = Batches { to: batches_to, empty: empty_from };
            read(capture, &head_to, &naming_from, &to)
        });
        Feed { name, head, naming, batches, empty, thread }
    }

    /// The beginning of the capture.
    pub fn head(&self) -> Head {
        self.head.recv().unwrap_or_default()
    }

    /// Starts the naming of packets.
    pub fn begin(self, naming: Naming) -> Stream {
        // A reader that has gone away is noticed as an end of batches.
        let _ = self.naming.send(naming);
        Stream {
            name: self.name,
            batches: self.batches,
            empty: self.empty,
            thread: self.thread,
            batch: Vec::new(),
            at: 0,
            span: None,
        }
    }
}

/// Sightings one by one.
pub struct Stream {
    name: String,
    batches: Receiver<Batch>,
    empty: SyncSender<Vec<Sighting>>,
    thread: JoinHandle<Facts>,
    batch: Vec<Sighting>,
    at: usize,
    span: Option<(WallTime, WallTime)>,
}

impl Stream {
    /// The next sighting, without taking it.
    #[inline]
    pub fn peek(&mut self) -> Option<Sighting> {
        while self.at >= self.batch.len() {
            let b = self.batches.recv().ok()?;
            let mut done = std::mem::replace(&mut self.batch, b.sightings);
            done.clear();
            // Where there is no room for it, or nobody left to use it, it goes.
            let _ = self.empty.try_send(done);
            self.span = b.span.or(self.span);
            self.at = 0;
        }
        self.batch.get(self.at).copied()
    }

    /// Takes the sighting last peeked at.
    #[inline]
    pub fn advance(&mut self) {
        self.at += 1;
    }

    /// First and last time stamp of any frame read so far.
    pub fn span(&self) -> Option<(WallTime, WallTime)> {
        self.span
    }

    /// What the capture was like, once everything is read.
    ///
    /// # Errors
    /// [`ReaderFailed`] if the reader came to no regular end.
    pub fn finish(self) -> Result<Facts, ReaderFailed> {
        drop(self.batches);
        self.thread.join().map_err(|_| ReaderFailed(self.name))
    }
}

fn read(
    mut capture: Capture,
    head_to: &SyncSender<Head>,
    naming_from: &Receiver<Naming>,
    batches_to: &Batches,
) -> Facts {
    let mut frames = Vec::new();
    while frames.len() < HEAD_FRAMES {
        let Some(f) = capture.next_frame() else { break };
        frames.push(Kept::of(&f));
    }
    // Namer needs the head too; frames are few and small.
    let copy = frames.clone();
    if head_to.send(Head { frames: copy }).is_err() {
        return Facts::default();
    }
    let Ok(naming) = naming_from.recv() else { return Facts::default() };
    let mut namer = Namer::new(naming);
    let mut due = 2 * BATCH;
    for k in &frames {
        namer.frame(&k.frame());
        if namer.order.held() >= due {
            let Ok(next) = namer.send(batches_to) else { return namer.facts };
            due = next;
        }
    }
    drop(frames);
    while let Some(f) = capture.next_frame() {
        namer.frame(&f);
        if namer.order.held() >= due {
            let Ok(next) = namer.send(batches_to) else { return namer.facts };
            due = next;
        }
    }
    let sightings = namer.order.finish();
    // Nobody is left to read if this fails.
    let _ = batches_to.to.send(Batch { sightings, span: namer.facts.span });
    let mut facts = namer.facts;
    facts.disordered = namer.order.disordered();
    facts.steps_back = namer.order.steps_back();
    facts.drops = capture.drops();
    facts.notes = capture.notes().to_vec();
    facts
}

/// Turns the frames of one point into sightings.
pub struct Namer {
    naming: Naming,
    /// What its capture is like so far.
    pub facts: Facts,
    order: InOrder,
    echoes: Echoes,
    /// Flows whose number this thread knows.
    known: FlowNumbers,
}

/// Where batches go, and where they come back from to be filled again.
struct Batches {
    to: SyncSender<Batch>,
    empty: Receiver<Vec<Sighting>>,
}

/// The other side has gone away.
struct Gone;

impl Namer {
    /// One that names packets by `naming`.
    pub fn new(naming: Naming) -> Namer {
        let order = if naming.sorted { InOrder::default() } else { InOrder::as_they_come() };
        Namer {
            naming,
            facts: Facts::default(),
            order,
            echoes: Echoes::default(),
            known: FlowNumbers::default(),
        }
    }

    /// Takes a frame; its sighting, if it is one of interest, joins the batch in time.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>) {
        let Frame { at, link, wire_length, data } = *frame;
        let facts = &mut self.facts;
        facts.frames += 1;
        facts.span = Some(facts.span.map_or((at, at), |(a, b)| (a.min(at), b.max(at))));
        let p = match decode(link, data, wire_length) {
            Ok(p) => p,
            Err(skip) => {
                match skip {
                    Skip::NotIp => {}
                    Skip::Truncated => facts.truncated += 1,
                    Skip::Malformed => facts.malformed += 1,
                    Skip::UnknownLink => facts.unknown_link.get_or_insert((link, 0)).1 += 1,
                }
                return;
            }
        };
        facts.packets += 1;
        let Some(way) = self.naming.sides.way(&p) else {
            facts.elsewhere += 1;
            return;
        };
        if self.naming.echoes_apart && is_echo(&p) {
            if let Some(ping) = self.echoes.push(at, &p)
                && facts.pings.len() < PINGS
            {
                facts.pings.push(ping);
            }
            return;
        }
        if self.naming.only.is_some_and(|o| !o.accepts(&p)) {
            return;
        }
        facts.ours += 1;
        facts.longest = facts.longest.max(p.length);
        facts.long += u64::from(p.length > 1500);
        facts.unidentified += u64::from(p.ident == 0);
        let Some(id) = self.naming.rule.identify(&p, Some(way)) else {
            facts.too_short += 1;
            return;
        };
        let flow = match &self.naming.flows {
            None => 0,
            Some((grouping, shared)) => number(&mut self.known, shared, FlowKey::of(&p, way, *grouping)),
        };
        self.order.push(Sighting { at, id, length: p.length, way, flow });
    }

    /// Sightings nobody has taken yet, as far as they are in order.
    pub fn take(&mut self, room: Vec<Sighting>) -> Vec<Sighting> {
        self.order.take(room)
    }

    /// Hands over what is ready; returns how many sightings may gather until the next time, so that those that
    /// are held back are not moved more often than they are handed over.
    fn send(&mut self, to: &Batches) -> Result<usize, Gone> {
        let next = to.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(2 * BATCH));
        let sightings = self.take(next);
        to.to.send(Batch { sightings, span: self.facts.span }).map_err(|_| Gone)?;
        Ok(2 * self.order.held().max(BATCH))
    }
}

/// The number of a flow: from this thread's memory, else from the one both points share.
fn number(known: &mut FlowNumbers, shared: &Mutex<FlowNumbers>, key: FlowKey) -> u32 {
    if let Some(n) = known.known(&key) {
        return n;
    }
    // A thread that panicked left whole numbers behind.
    let n = shared.lock().unwrap_or_else(PoisonError::into_inner).number(key);
    if n != OTHER_FLOWS {
        known.learn(key, n);
    }
    n
}

/// A sample of a whole capture, chosen by what the packets contain, so that both points choose the same
/// ones: for captures that begin at different times.
pub fn sample(paths: &[PathBuf], available: usize) -> Result<Vec<PacketPreview>, CaptureError> {
    let mut capture = Capture::open(paths)?;
    let rule =
        IdentityRule { fields: Fields::Full { addresses: false, ports: false, ident: false }, available };
    let (mut mask, mut kept) = (0u64, Vec::new());
    while let Some(f) = capture.next_frame() {
        let Ok(p) = decode(f.link, f.data, f.wire_length) else { continue };
        let Some(id) = rule.identify(&p, None) else { continue };
        if id & mask != 0 {
            continue;
        }
        kept.extend(PacketPreview::of(&p, f.at, available).map(|g| (id, g)));
        if kept.len() > SAMPLE {
            mask = mask << 1 | 1;
            kept.retain(|(id, _)| id & mask == 0);
        }
        // A capture of one packet over and over cannot be thinned by content.
        kept.truncate(2 * SAMPLE);
    }
    Ok(kept.into_iter().map(|(_, g)| g).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Cursor, Read};

    /// A reader of which the program dies.
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            std::panic::resume_unwind(Box::new("reading"))
        }
    }

    #[test]
    fn a_reader_that_dies_is_no_end_of_the_capture() {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65_535, 101] {
            file.extend(word.to_le_bytes());
        }
        let capture = Capture::from_reader("broken.pcap", Cursor::new(file).chain(Broken)).unwrap();
        let everything = Sides { reference: vec![crate::spp::any(4)], monitor: vec![crate::spp::any(4)] };
        let mut stream = Feed::of("broken.pcap".to_owned(), capture).begin(Naming {
            sides: everything,
            rule: IdentityRule::WHOLE,
            sorted: true,
            only: None,
            echoes_apart: false,
            flows: None,
        });
        assert!(stream.peek().is_none());
        let why = stream.finish().err().map(|e| e.to_string()).unwrap_or_default();
        assert!(why.contains("broken.pcap"), "{why}");
    }
}
