//! [`Recording`]: the packets of one recording as they were on the wire, without the effects of the recording.
//!
//! Times are corrected for steps of the clock, fragments are put together, packets are taken out of tunnels if
//! requested, and packets that were recorded more than once are marked. After a jump of the times, frames are held
//! until it is decided whether the clock was set; at most 64 are held, or 1024 with media.

mod clock;
mod copies;
mod facts;
mod fragments;

use crate::foreign::Foreign;
use crate::link_layer::Skip;
use crate::packet::{ESP, GRE, IpPacket, TCP, UDP, udp};
use crate::rtp::RtpPacket;
use crate::{Frame, LinkType};
use clock::{Hosts, RecordingClock, SenderMark, Taken};
pub use copies::CopyKind;
use copies::{CopyFinder, flow_of, flow_of_datagram, flow_of_segment, mix};
pub(crate) use facts::MAX_STEPS;
pub use facts::{RecordedStep, RecordingFacts, describe_error, describe_step};
use fragments::Fragments;
use jitlat_core::time::{Span, WallTime};

/// Maximum number of bytes that are stored of a held frame, and of the payload of a packet put together from fragments;
/// no analysis except that of media uses more.
const BYTES_KEPT: [usize; 2] = [320, 256];
/// Same as [`BYTES_KEPT`] for media: signalling is read as a whole.
const MEDIA_BYTES_KEPT: [usize; 2] = [4096, 16 << 10];

/// Longest time for which frames are held while no more are recorded.
const MAX_DOUBT: Span = Span::seconds(1);

/// Item of a recording: a packet, a frame without a packet, or a step of the clock.
#[derive(Debug)]
pub enum Seen<'a> {
    /// A packet.
    Packet(&'a SeenPacket<'a>),
    /// A frame without a usable packet: its time, its link type, and the reason.
    Skipped(WallTime, LinkType, Skip),
    /// The recording's clock was set: nothing can be measured between a frame before this item and a frame after it.
    ClockSet,
}

/// A packet of a recording.
#[derive(Clone, Copy, Debug)]
pub struct SeenPacket<'a> {
    /// Time of the packet, corrected for steps of the clock.
    pub at: WallTime,
    /// The packet.
    pub packet: &'a IpPacket<'a>,
    /// True if the packet was recorded after a packet with a later time.
    pub is_late: bool,
    /// Difference from an earlier recording of the same packet; `None` if there is no earlier one.
    pub copy: Option<CopyKind>,
    /// True if the packet was put together from fragments.
    pub is_whole_again: bool,
}

#[derive(Clone, Debug)]
struct HeldFrame {
    at: WallTime,
    link: LinkType,
    wire_length: u32,
    data: Vec<u8>,
}

impl HeldFrame {
    fn frame(&self) -> Frame<'_> {
        Frame { at: self.at, link: self.link, wire_length: self.wire_length, data: &self.data }
    }
}

/// Reads the frames of one recording, in the order of the file.
#[derive(Debug)]
pub struct Recording {
    clock: RecordingClock,
    copies: CopyFinder,
    fragments: Fragments,
    held: Vec<HeldFrame>,
    steps: Vec<RecordedStep>,
    copied: u64,
    tunnelled: u64,
    foreign: Foreign,
    /// True to take packets out of tunnels.
    inside: bool,
    /// True if UDP packets that look like RTP have a sequence number and a timestamp.
    is_media: bool,
    /// Maximum number of bytes that are stored of a held frame.
    bytes_held: usize,
    /// True if the packets are matched with those of another recording.
    is_one_of_two: bool,
}

impl Default for Recording {
    fn default() -> Recording {
        let [bytes_held, kept] = BYTES_KEPT;
        Recording {
            clock: RecordingClock::default(),
            copies: CopyFinder::default(),
            fragments: Fragments::keeping(kept),
            held: Vec::new(),
            steps: Vec::new(),
            copied: 0,
            tunnelled: 0,
            foreign: Foreign::default(),
            inside: false,
            is_media: false,
            bytes_held,
            is_one_of_two: false,
        }
    }
}

/// Returns the timestamp of a TCP segment if it follows two bytes of padding at the beginning of the options, as in
/// nearly all stacks; otherwise `None`.
#[inline]
fn timestamp(p: &IpPacket<'_>) -> Option<u32> {
    if p.protocol != TCP || p.is_later_fragment() {
        return None;
    }
    segment_timestamp(p.transport())
}

/// Same as [`timestamp`], for the captured bytes of a segment.
#[inline]
fn segment_timestamp(segment: &[u8]) -> Option<u32> {
    let [.., p, q, kind, length, a, b, c, d] = segment.first_chunk::<28>()?;
    ([*p, *q, *kind, *length] == [1, 1, 8, 10]).then(|| u32::from_be_bytes([*a, *b, *c, *d]))
}

/// Returns the hashes of the addresses of a packet.
fn hosts(p: &IpPacket<'_>) -> Hosts {
    let addresses = p.addresses();
    let (from, to) = addresses.split_at(addresses.len() / 2);
    let of = |address: &[u8]| address.last_chunk::<4>().map_or(0, |last| u32::from_le_bytes(*last));
    Hosts { from: of(from), to: of(to) }
}

impl Recording {
    /// Creates a recording that passes on the packets inside tunnels instead of the tunnel packets.
    pub fn inside_tunnels() -> Recording {
        Recording { inside: true, ..Recording::default() }
    }

    /// Creates a recording that also uses RTP packets to find steps of its clock, and copies. It passes on the packets
    /// inside tunnels, and whole signalling messages.
    pub fn of_media() -> Recording {
        let [bytes_held, kept] = MEDIA_BYTES_KEPT;
        let fragments = Fragments::keeping(kept);
        Recording { fragments, is_media: true, bytes_held, ..Recording::inside_tunnels() }
    }

    /// Makes the recording ignore steps forward that only regular intervals show: a comparison with the recording of
    /// another point finds them more precisely.
    pub fn beside_another(self) -> Recording {
        Recording { is_one_of_two: true, ..self }
    }

    /// Adds the next frame. `each` receives the items that are now known, in order.
    #[inline]
    pub fn push(&mut self, frame: &Frame<'_>, each: &mut impl FnMut(Seen<'_>)) {
        if self.clock.is_in_doubt() {
            return self.hold(frame, each);
        }
        match &frame.packet() {
            Ok(p) if p.protocol == TCP && !p.is_fragment() => self.push_segment(frame, p, each),
            Ok(p) if self.is_plain_datagram(p) => self.push_datagram(frame, p, each),
            Ok(p) => self.push_other(frame, p, each),
            Err(skip) => self.push_skipped(frame, *skip, each),
        }
    }

    fn push_other(&mut self, frame: &Frame<'_>, p: &IpPacket<'_>, each: &mut impl FnMut(Seen<'_>)) {
        let marked = self.mark(p);
        match self.clock.take(frame.at, Some(marked)) {
            Taken::At { at, late } => self.pass((at, late), p, marked, each),
            Taken::Doubt => self.hold(frame, each),
        }
    }

    /// Adds a frame with a whole TCP segment, in fewer steps than other packets need.
    #[inline(always)]
    fn push_segment(&mut self, frame: &Frame<'_>, p: &IpPacket<'_>, each: &mut impl FnMut(Seen<'_>)) {
        let segment = p.transport();
        let (flow, value) = (flow_of_segment(p, segment), segment_timestamp(segment));
        let mark = SenderMark { flow, value, is_media: false, may_be_regular: false };
        match self.clock.take_usual(frame.at, mark) {
            Some(Taken::At { at, late }) => self.pass_plain((at, late), p, mark, each),
            Some(Taken::Doubt) => self.hold(frame, each),
            None => self.push_other(frame, p, each),
        }
    }

    /// True for a whole datagram without a packet inside it and without a timestamp that the recording would use.
    #[inline(always)]
    fn is_plain_datagram(&self, p: &IpPacket<'_>) -> bool {
        let is_opened = || self.inside && p.inside().is_some();
        p.protocol == UDP && !p.is_fragment() && !self.is_media && !is_opened()
    }

    /// Same as [`Self::push_segment`], for a plain datagram.
    #[inline(always)]
    fn push_datagram(&mut self, frame: &Frame<'_>, p: &IpPacket<'_>, each: &mut impl FnMut(Seen<'_>)) {
        let flow = flow_of_datagram(p, p.transport());
        let may_be_regular = !self.is_one_of_two;
        let mark = SenderMark { flow, value: None, is_media: false, may_be_regular };
        match self.clock.take_usual(frame.at, mark) {
            Some(Taken::At { at, late }) => self.pass_plain((at, late), p, mark, each),
            Some(Taken::Doubt) => self.hold(frame, each),
            None => self.push_other(frame, p, each),
        }
    }

    #[cold]
    fn push_skipped(&mut self, frame: &Frame<'_>, skip: Skip, each: &mut impl FnMut(Seen<'_>)) {
        match self.clock.take(frame.at, None) {
            Taken::At { at, .. } => self.skip(at, frame, skip, each),
            Taken::Doubt => self.hold(frame, each),
        }
    }

    /// Passes on the frames that are still held.
    pub fn finish(&mut self, each: &mut impl FnMut(Seen<'_>)) {
        while self.clock.is_in_doubt() {
            self.decide(each);
        }
    }

    /// Passes on the frames that are held if the recording has reached the time `now`, a second after the first of
    /// them.
    pub fn settle(&mut self, now: WallTime, each: &mut impl FnMut(Seen<'_>)) {
        while self.clock.is_in_doubt() && self.held.first().is_none_or(|first| now - first.at > MAX_DOUBT) {
            self.decide(each);
        }
    }

    /// Returns the facts so far.
    pub fn facts(&self) -> RecordingFacts {
        RecordingFacts {
            steps: self.steps.clone(),
            resolution: self.clock.resolution().map(Span),
            disordered: self.clock.disordered,
            copies: self.copied,
            fragments: [self.fragments.read, self.fragments.whole, self.fragments.incomplete()],
            tunnelled: self.tunnelled,
            translated: [0; 2],
            foreign: self.foreign.clone(),
        }
    }

    #[cold]
    fn skip(&mut self, at: WallTime, frame: &Frame<'_>, skip: Skip, each: &mut impl FnMut(Seen<'_>)) {
        self.foreign.skip(frame.link, frame.data, skip);
        each(Seen::Skipped(at, frame.link, skip));
    }

    fn pass(
        &mut self,
        (at, is_late): (WallTime, bool),
        p: &IpPacket<'_>,
        marked: SenderMark,
        each: &mut impl FnMut(Seen<'_>),
    ) {
        match p.protocol == TCP && !p.is_fragment() {
            true => {
                let copy = self.copies.find_any(at, p, marked.flow, marked.value.is_some());
                self.pass_seen((at, is_late), p, copy, each);
            }
            false => self.pass_other((at, is_late), p, marked, each),
        }
    }

    /// Passes on a whole packet that carries no other packet.
    #[inline(always)]
    fn pass_plain(
        &mut self,
        (at, is_late): (WallTime, bool),
        p: &IpPacket<'_>,
        marked: SenderMark,
        each: &mut impl FnMut(Seen<'_>),
    ) {
        let copy = self.copies.find(at, p, marked.flow, marked.value.is_some());
        self.pass_seen((at, is_late), p, copy, each);
    }

    #[inline(always)]
    fn pass_seen(
        &mut self,
        (at, is_late): (WallTime, bool),
        p: &IpPacket<'_>,
        copy: Option<CopyKind>,
        each: &mut impl FnMut(Seen<'_>),
    ) {
        if copy == Some(CopyKind::Elsewhere) {
            self.copied += 1;
        }
        each(Seen::Packet(&SeenPacket { at, packet: p, is_late, copy, is_whole_again: false }));
    }

    /// Passes on a packet that may be a fragment or a tunnel packet.
    fn pass_other(
        &mut self,
        (at, is_late): (WallTime, bool),
        p: &IpPacket<'_>,
        marked: SenderMark,
        each: &mut impl FnMut(Seen<'_>),
    ) {
        let seen = SeenPacket { at, packet: p, is_late, copy: None, is_whole_again: false };
        if !p.is_fragment() {
            return self.pass_inside(seen, Some(marked), each);
        }
        if self.copies.find_any(at, p, marked.flow, false).is_none()
            && let Some(whole) = self.fragments.push(at, p)
            && let Some(packet) = whole.packet()
        {
            self.pass_inside(SeenPacket { packet: &packet, is_whole_again: true, ..seen }, None, each);
        }
    }

    /// Passes on a packet, or the packet inside it. `marked` is the sender's mark of the outer
    /// packet; `None` if it is unknown.
    fn pass_inside(
        &mut self,
        seen: SeenPacket<'_>,
        marked: Option<SenderMark>,
        each: &mut impl FnMut(Seen<'_>),
    ) {
        let (whole, inner, reassembled);
        let (mut seen, mut marked) = (seen, marked);
        if self.inside {
            if let Some(next) = seen.packet.inside() {
                self.tunnelled += 1;
                inner = next.innermost();
                (seen.packet, marked) = (&inner, None);
            } else if matches!(seen.packet.protocol, GRE | ESP) {
                self.foreign.hidden(seen.packet);
            }
            // A tunnel may carry fragments as well.
            if seen.packet.is_fragment() {
                let Some(found) = self.fragments.push(seen.at, seen.packet) else { return };
                whole = found;
                let Some(packet) = whole.packet() else { return };
                reassembled = packet;
                (seen.packet, seen.is_whole_again, marked) = (&reassembled, true, None);
            }
        }
        let mark = marked.unwrap_or_else(|| self.mark(seen.packet));
        seen.copy = self.copies.find_any(seen.at, seen.packet, mark.flow, mark.value.is_some());
        self.copied += u64::from(seen.copy == Some(CopyKind::Elsewhere));
        each(Seen::Packet(&seen));
    }

    /// Returns the sender of a packet, and its TCP or RTP timestamp.
    #[inline]
    fn mark(&self, p: &IpPacket<'_>) -> SenderMark {
        let flow = flow_of(p);
        if self.is_media
            && let Some((value, ssrc)) = rtp_header(p)
        {
            let flow = mix(flow, ssrc.into());
            return SenderMark { flow, value: Some(value), is_media: true, may_be_regular: false };
        }
        let may_be_regular = p.protocol == UDP && !self.is_one_of_two;
        SenderMark { flow, value: timestamp(p), is_media: false, may_be_regular }
    }

    #[cold]
    fn hold(&mut self, frame: &Frame<'_>, each: &mut impl FnMut(Seen<'_>)) {
        let data = frame.data[..frame.data.len().min(self.bytes_held)].to_vec();
        self.held.push(HeldFrame { at: frame.at, link: frame.link, wire_length: frame.wire_length, data });
        let mark = frame.packet().ok().map(|p| (self.mark(&p), hosts(&p)));
        if self.clock.examine(frame.at, mark) {
            self.decide(each);
        }
    }

    /// Ends the examination of a jump, and passes on the held frames. Another jump among them begins a new examination.
    #[cold]
    fn decide(&mut self, each: &mut impl FnMut(Seen<'_>)) {
        let mut held = std::mem::take(&mut self.held).into_iter();
        let step = self.clock.decide();
        if let Some(first) = held.next() {
            if let Some(step) = step {
                if self.steps.len() < MAX_STEPS {
                    let (by_ns, error_ns) = (Span(step.size.by), step.size.error.map(Span));
                    self.steps.push(RecordedStep { at: step.at, by_ns, error_ns, proven: step.proven });
                }
                each(Seen::ClockSet);
            }
            let first = first.frame();
            let packet = first.packet();
            let marked = packet.as_ref().ok().map(|p| self.mark(p));
            let (at, late) = self.clock.take_decided(first.at, marked);
            match (packet, marked) {
                (Ok(p), Some(marked)) => self.pass((at, late), &p, marked, each),
                (Err(skip), _) => self.skip(at, &first, skip, each),
                (Ok(_), None) => {}
            }
        }
        for frame in held {
            self.push(&frame.frame(), each);
        }
    }
}

/// Returns the timestamp and the source of a packet that may be RTP.
#[inline]
fn rtp_header(p: &IpPacket<'_>) -> Option<(u32, u32)> {
    if p.protocol != UDP || p.is_later_fragment() {
        return None;
    }
    let data = p.transport().get(udp::PAYLOAD..)?;
    RtpPacket::parse(data, p.payload_length()).map(|packet| (packet.timestamp, packet.ssrc))
}

#[cfg(test)]
mod tests;
