//! [`CaptureReader`]: a thread that reads a capture, computes the identity of each packet, sorts the packets, and delivers them in
//! batches.

use super::error::PassiveError;
use jitlat_core::WallTime;
use jitlat_net::capture::Capture;
use jitlat_passive::Sighting;
use jitlat_passive::pipeline::{CaptureFacts, CaptureHead, NamingRule, PacketNamer, SightingSource};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Number of sightings (observed packets) in a batch.
const SIGHTINGS_PER_BATCH: usize = 1024;
/// Maximum number of queued batches: few, so that a batch is still in the processor's cache when it is used.
const MAX_QUEUED_BATCHES: usize = 8;

/// A batch of sightings, and the time that the capture covers so far.
struct Batch {
    /// Observed packets with their identities, in time order.
    sightings: Vec<Sighting>,
    /// Timestamps of the first and the last frame.
    span: Option<(WallTime, WallTime)>,
}

/// A running reader that has delivered only the beginning of the capture.
pub(super) struct CaptureReader {
    name: String,
    head: Receiver<CaptureHead>,
    naming: SyncSender<NamingRule>,
    batches: Receiver<Batch>,
    empty: SyncSender<Vec<Sighting>>,
    thread: JoinHandle<CaptureFacts>,
}

impl CaptureReader {
    /// Starts to read the beginning of `capture`. `name` is used in messages.
    pub(super) fn start(name: String, capture: Capture) -> CaptureReader {
        let (head_to, head) = sync_channel(1);
        let (naming, naming_from) = sync_channel(1);
        let (batches_to, batches) = sync_channel(MAX_QUEUED_BATCHES);
        let (empty, empty_from) = sync_channel(MAX_QUEUED_BATCHES);
        let thread = std::thread::spawn(move || {
            read(capture, &head_to, &naming_from, &BatchSender { to: batches_to, empty: empty_from })
        });
        CaptureReader { name, head, naming, batches, empty, thread }
    }

    /// Returns the beginning of the capture; empty if the reader failed, which [`NamedCapture::finish`]
    /// reports.
    pub(super) fn head(&self) -> CaptureHead {
        self.head.recv().unwrap_or_default()
    }

    /// Computes packet identities by `rule` from now on.
    pub(super) fn name_packets(self, rule: NamingRule) -> NamedCapture {
        // Sending fails only if the reader has ended, and then no more batches arrive either.
        let _ = self.naming.send(rule);
        NamedCapture {
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

/// Sightings of a capture, in time order.
pub(super) struct NamedCapture {
    name: String,
    batches: Receiver<Batch>,
    empty: SyncSender<Vec<Sighting>>,
    thread: JoinHandle<CaptureFacts>,
    batch: Vec<Sighting>,
    /// Number of sightings consumed from the current batch.
    at: usize,
    span: Option<(WallTime, WallTime)>,
}

impl NamedCapture {
    /// Returns the facts about the capture after all of it has been read.
    pub(super) fn finish(self) -> Result<CaptureFacts, PassiveError> {
        drop(self.batches);
        self.thread.join().map_err(|_| PassiveError::ReaderFailed(self.name))
    }

    /// Reads to the end and discards the packets.
    pub(super) fn read_on(&mut self) {
        while self.peek().is_some() {
            self.at = self.batch.len();
        }
    }

    #[cold]
    fn next_batch(&mut self) -> Option<()> {
        while self.at >= self.batch.len() {
            let next = self.batches.recv().ok()?;
            let mut done = std::mem::replace(&mut self.batch, next.sightings);
            done.clear();
            // If the queue is full or the reader has ended, the batch is freed.
            let _ = self.empty.try_send(done);
            self.span = next.span.or(self.span);
            self.at = 0;
        }
        Some(())
    }
}

impl SightingSource for NamedCapture {
    #[inline]
    fn peek(&mut self) -> Option<Sighting> {
        if self.at >= self.batch.len() {
            self.next_batch()?;
        }
        self.batch.get(self.at).copied()
    }

    #[inline]
    fn advance(&mut self) {
        self.at += 1;
    }

    fn span(&self) -> Option<(WallTime, WallTime)> {
        self.span
    }
}

/// Sends batches, and receives the empty ones back for reuse.
struct BatchSender {
    to: SyncSender<Batch>,
    empty: Receiver<Vec<Sighting>>,
}

/// Error: the receiver no longer exists.
struct ReceiverGone;

impl BatchSender {
    /// Sends the finished sightings. Returns the number of sightings to collect before the next call: large
    /// enough that the remaining sightings are not moved too often.
    fn send(&self, namer: &mut PacketNamer) -> Result<usize, ReceiverGone> {
        let room = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(2 * SIGHTINGS_PER_BATCH));
        let sightings = namer.take(room);
        self.to.send(Batch { sightings, span: namer.facts().span }).map_err(|_| ReceiverGone)?;
        Ok(2 * namer.held().max(SIGHTINGS_PER_BATCH))
    }
}

fn read(
    mut capture: Capture,
    head_to: &SyncSender<CaptureHead>,
    naming_from: &Receiver<NamingRule>,
    batches: &BatchSender,
) -> CaptureFacts {
    let mut head = CaptureHead::default();
    while !head.is_full()
        && let Some(f) = capture.next_frame()
    {
        head.push(&f);
    }
    // Cheap to copy, because these frames are few and small. They are processed below like all others.
    if head_to.send(head.clone()).is_err() {
        return CaptureFacts::default();
    }
    let Ok(rule) = naming_from.recv() else { return CaptureFacts::default() };
    let mut namer = PacketNamer::new(rule);
    let mut due = 2 * SIGHTINGS_PER_BATCH;
    for f in head.frames() {
        namer.push(&f);
        if namer.held() >= due {
            let Ok(next) = batches.send(&mut namer) else { return namer.finish().1 };
            due = next;
        }
    }
    drop(head);
    while let Some(f) = capture.next_frame() {
        namer.push(&f);
        if namer.held() >= due {
            let Ok(next) = batches.send(&mut namer) else { return namer.finish().1 };
            due = next;
        }
    }
    let (sightings, mut facts) = namer.finish();
    // Sending fails only if the receiver no longer exists.
    let _ = batches.to.send(Batch { sightings, span: facts.span });
    facts.drops = capture.drops();
    facts.notes = capture.notes().to_vec();
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_passive::{IdentityRule, Sides};
    use std::io::{self, Cursor, Read};

    /// Reader that panics.
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
        let mut named = CaptureReader::start("broken.pcap".to_owned(), capture).name_packets(NamingRule {
            sides: Sides::any(),
            identity: IdentityRule::WHOLE,
            sorted: true,
            only: None,
            part: None,
            echoes_apart: false,
            inside: false,
            flows: None,
        });
        assert!(named.peek().is_none());
        let why = named.finish().err().map(|e| e.to_string()).unwrap_or_default();
        assert!(why.contains("broken.pcap"), "{why}");
    }
}
