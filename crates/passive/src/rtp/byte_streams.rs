//! [`ByteStreams`]: finds messages and packets in TCP connections: SIP (RFC 3261 §18.3), RTP with a length before each
//! packet (RFC 4571), and RTP interleaved with RTSP (RFC 2326 §10.12).
//!
//! A segment that the recording does not contain may still be sent again. If the receiver has acknowledged it, or if
//! too many segments wait for it, the stream continues after the gap, with the next packet or message that is
//! recognised.

use super::StreamKey;
use super::rtcp::is_rtcp;
use super::signalling::is_sip;
use foldhash::fast::RandomState;
use jitlat_core::time::WallTime;
use std::collections::{HashMap, VecDeque};

/// Maximum number of directions of connections that are followed. Beyond it, the one without segments for longest is
/// given up.
const MAX_STREAMS: usize = if cfg!(test) { 4 } else { 512 };
/// Maximum number of bytes that wait for the rest of their message, and of those that wait for earlier bytes.
const MAX_PENDING: usize = 80 << 10;
/// Maximum number of segments that wait for earlier ones, if no acknowledgements were recorded.
const MAX_LATER: usize = 32;
/// Maximum numbers of segments and bytes that wait for earlier ones, if the receiver's acknowledgements are recorded.
/// As long as they do not pass the gap, a repeated segment may arrive, even seconds later.
const MAX_ACKNOWLEDGED: (usize, usize) = (2048, 1 << 20);
/// Maximum number of bytes that may wait in all streams together if a stream exceeds [`MAX_LATER`] segments or
/// [`MAX_PENDING`] bytes.
const MAX_WAITING: usize = 32 << 20;
/// Maximum length of the lines before the body of a text message.
const MAX_HEAD: usize = 16 << 10;
/// Smallest length of an RTCP packet, in bytes.
const MIN_PACKET: usize = 8;
/// Length of the RTP header up to the end of the synchronisation source, and byte range of that source.
const RTP_HEADER: usize = 12;
const SOURCE: core::ops::Range<usize> = 8..RTP_HEADER;
/// Maximum number of bytes that are needed to recognise the beginning of a unit.
const MAX_BEGINNING: usize = 32;
/// Maximum number of synchronisation sources that are stored per byte stream.
const MAX_SOURCES: usize = 8;
/// Beginnings of RTSP messages.
const RTSP: [&[u8]; 7] =
    [b"RTSP/1.0 ", b"OPTIONS ", b"DESCRIBE ", b"SETUP ", b"PLAY ", b"GET_PARAMETER ", b"TEARDOWN "];

/// Content of a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Sip,
    /// RTSP messages, and packets after a dollar sign, a channel and a length.
    Interleaved,
    /// Packets after a length.
    Framed,
}

/// A message or packet that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit<'a> {
    /// SIP message.
    Sip(&'a [u8]),
    /// RTP or RTCP packet.
    Packet(&'a [u8]),
}

/// Arrival of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Time at which the last byte of the unit could be read.
    pub(super) at: WallTime,
    /// Number of gaps in the recorded bytes of the stream so far.
    pub(super) gaps: u32,
}

/// Segment that arrived before bytes with lower sequence numbers.
#[derive(Debug)]
struct LaterSegment {
    seq: u32,
    at: WallTime,
    data: Vec<u8>,
}

#[derive(Debug)]
struct ByteStream {
    content: Content,
    /// Sequence number of the next byte.
    next: u32,
    pending: Vec<u8>,
    /// Segments after `next`.
    later: VecDeque<LaterSegment>,
    later_bytes: usize,
    last: WallTime,
    /// True if the receiver's acknowledgements are recorded.
    has_acks: bool,
    /// Number of gaps in the recorded bytes so far.
    gaps: u32,
    /// True after a gap, until a unit is recognised.
    is_lost: bool,
    /// Sources of the RTP packets so far.
    sources: Vec<[u8; 4]>,
}

/// The directions of TCP connections that carry calls.
#[derive(Debug, Default)]
pub(super) struct ByteStreams {
    streams: HashMap<StreamKey, ByteStream, RandomState>,
    /// Number of bytes of all streams that wait for earlier ones.
    waiting: usize,
}

impl ByteStreams {
    /// Adds a segment with sequence number `seq` and captured bytes `data`; `all` is true if these are all of its
    /// bytes. `key` has the ends of the connection and no source. Passes complete messages and packets to `each`.
    pub(super) fn push(
        &mut self,
        (at, key): (WallTime, StreamKey),
        seq: u32,
        (data, all): (&[u8], bool),
        each: &mut impl FnMut(Arrival, Unit<'_>),
    ) {
        if data.is_empty() {
            return;
        }
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.last = at;
            let (before, has_room) = (stream.later_bytes, self.waiting < MAX_WAITING);
            let is_followed = all && stream.add((seq, at), data, has_room, each);
            self.waiting = (self.waiting + stream.later_bytes).saturating_sub(before);
            if is_followed {
                return;
            }
            // The bytes have other contents, or are cut: the next message begins somewhere in a later segment.
            self.remove(&key);
        }
        let Some(content) = content(data).filter(|_| all) else { return };
        while self.streams.len() >= MAX_STREAMS {
            let Some(oldest) =
                self.streams.iter().min_by_key(|(key, s)| (s.last, **key)).map(|(key, _)| *key)
            else {
                return;
            };
            self.remove(&oldest);
        }
        let mut stream = ByteStream {
            content,
            next: seq,
            pending: Vec::new(),
            later: VecDeque::new(),
            later_bytes: 0,
            last: at,
            has_acks: false,
            gaps: 0,
            is_lost: false,
            sources: Vec::new(),
        };
        if stream.add((seq, at), data, false, each) {
            self.streams.insert(key, stream);
        }
    }

    fn remove(&mut self, key: &StreamKey) {
        if let Some(stream) = self.streams.remove(key) {
            self.waiting = self.waiting.saturating_sub(stream.later_bytes);
        }
    }

    /// True if there are no streams.
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Handles an acknowledgement of all bytes before `ack` by the receiver of the stream `key`: bytes that have not
    /// been recorded by then will not be sent again.
    pub(super) fn acknowledged(
        &mut self,
        key: StreamKey,
        ack: u32,
        each: &mut impl FnMut(Arrival, Unit<'_>),
    ) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.has_acks = true;
        let before = stream.later_bytes;
        let mut is_followed = true;
        while is_followed && stream.first_later().is_some_and(|first| ack.wrapping_sub(first) as i32 >= 0) {
            is_followed = stream.skip_gap(each);
        }
        self.waiting = (self.waiting + stream.later_bytes).saturating_sub(before);
        if !is_followed {
            self.remove(&key);
        }
    }
}

/// Returns the content of a stream from the beginning of a segment; `None` if it does not carry a call.
#[inline]
fn content(data: &[u8]) -> Option<Content> {
    match data {
        [b'$', _, _, _, flags, ..] if flags >> 6 == 2 => Some(Content::Interleaved),
        [a, b, flags, ..] if flags >> 6 == 2 => {
            // The next packet, if there is one in the segment, begins after as many bytes as the length says.
            let length = usize::from(u16::from_be_bytes([*a, *b]));
            let next = data.get(length + 4);
            let is_framed =
                length >= MIN_PACKET && (data.len() <= length + 4 || next.is_some_and(|f| f >> 6 == 2));
            is_framed.then_some(Content::Framed)
        }
        _ if is_sip(data) => Some(Content::Sip),
        _ => RTSP.iter().any(|begin| data.starts_with(begin)).then_some(Content::Interleaved),
    }
}

impl ByteStream {
    /// Adds a segment; `has_room` is true if many segments may wait. Returns false if the stream cannot be followed any
    /// more.
    fn add(
        &mut self,
        (seq, at): (u32, WallTime),
        data: &[u8],
        has_room: bool,
        each: &mut impl FnMut(Arrival, Unit<'_>),
    ) -> bool {
        let ahead = seq.wrapping_sub(self.next) as i32;
        if ahead > 0 {
            if self.later.iter().any(|known| known.seq == seq && known.data.len() == data.len()) {
                return true;
            }
            // Without acknowledgements, no earlier bytes are expected before a unit that is recognised.
            let begins = !self.has_acks && self.is_lost && self.begins(data);
            let (segments, bytes) = match self.has_acks && has_room {
                true => MAX_ACKNOWLEDGED,
                false => (MAX_LATER, MAX_PENDING),
            };
            self.later_bytes += data.len();
            self.later.push_back(LaterSegment { seq, at, data: data.to_vec() });
            let waits = self.later.len() <= segments && self.later_bytes <= bytes && !begins;
            return waits || self.skip_gap(each);
        }
        // Segments that waited for this one are read now that it has arrived.
        self.append((seq, at), data, each) && self.append_later(Some(at), each)
    }

    /// Adds the segments that waited for bytes before [`Self::next`]; `released` is the time at which these bytes
    /// arrived, or `None` if they are missing.
    fn append_later(&mut self, released: Option<WallTime>, each: &mut impl FnMut(Arrival, Unit<'_>)) -> bool {
        while let Some(k) = self.later.iter().position(|later| later.seq.wrapping_sub(self.next) as i32 <= 0)
        {
            let Some(LaterSegment { seq, at, data }) = self.later.remove(k) else { break };
            self.later_bytes -= data.len();
            if !self.append((seq, released.unwrap_or(at)), &data, each) {
                return false;
            }
        }
        true
    }

    /// Returns the sequence number of the first segment after the gap; `None` if no segment waits.
    fn first_later(&self) -> Option<u32> {
        self.later.iter().map(|later| later.seq).min_by_key(|seq| seq.wrapping_sub(self.next))
    }

    /// Continues after the gap, whose bytes will not arrive. Returns false if the stream cannot be followed any more.
    fn skip_gap(&mut self, each: &mut impl FnMut(Arrival, Unit<'_>)) -> bool {
        let Some(first) = self.first_later() else { return true };
        self.next = first;
        self.pending.clear();
        self.gaps = self.gaps.saturating_add(1);
        self.is_lost = true;
        self.append_later(None, each)
    }

    /// Removes the bytes before the first unit that is recognised. Returns false if there is none yet.
    fn find_unit(&mut self) -> bool {
        let place = (0..self.pending.len()).find(|at| self.begins(&self.pending[*at..]));
        match place {
            Some(at) => {
                self.pending.drain(..at);
                self.is_lost = false;
            }
            None => {
                // The beginning of a unit may be at the end.
                let rest = self.pending.len().saturating_sub(MAX_BEGINNING);
                self.pending.drain(..rest);
            }
        }
        !self.is_lost
    }

    /// True if these bytes are the beginning of a unit: an RTP packet of a known source, or a text message.
    fn begins(&self, data: &[u8]) -> bool {
        let is_packet = |header: usize| {
            let length = data.get(header - 2..header).map(|l| usize::from(u16::from_be_bytes([l[0], l[1]])));
            let packet = data.get(header..).unwrap_or_default();
            length.is_some_and(|length| length >= RTP_HEADER)
                && packet.first().is_some_and(|flags| flags >> 6 == 2)
                && packet.get(SOURCE).is_some_and(|source| self.sources.iter().any(|known| known == source))
        };
        match self.content {
            Content::Framed => is_packet(2),
            Content::Interleaved => {
                data.first() == Some(&b'$') && is_packet(4)
                    || RTSP.iter().any(|begin| data.starts_with(begin))
            }
            Content::Sip => is_sip(data),
        }
    }

    /// Adds the part of a segment that is new. Returns false if the bytes do not fit the stream's content, or if too
    /// many wait.
    fn append(
        &mut self,
        (seq, at): (u32, WallTime),
        data: &[u8],
        each: &mut impl FnMut(Arrival, Unit<'_>),
    ) -> bool {
        let known = self.next.wrapping_sub(seq) as usize;
        let Some(new) = data.get(known..).filter(|new| !new.is_empty()) else { return true };
        self.next = self.next.wrapping_add(new.len() as u32);
        self.pending.extend_from_slice(new);
        if self.is_lost && !self.find_unit() {
            return true;
        }
        let arrival = Arrival { at, gaps: self.gaps };
        let mut used = 0;
        while let Some(rest) = self.pending.get(used..).filter(|rest| !rest.is_empty()) {
            match first(self.content, rest) {
                First::Unit { length, unit } => {
                    if let Some(unit) = unit {
                        if let Unit::Packet(packet) = unit {
                            note_source(&mut self.sources, packet);
                        }
                        each(arrival, unit);
                    }
                    used += length;
                }
                First::Incomplete => break,
                First::Other => return false,
            }
        }
        self.pending.drain(..used);
        self.pending.len() <= MAX_PENDING
    }
}

/// Stores the synchronisation source of an RTP packet.
fn note_source(sources: &mut Vec<[u8; 4]>, packet: &[u8]) {
    let Some(source) = packet.get(SOURCE).and_then(|source| source.first_chunk::<4>()) else { return };
    if !is_rtcp(packet) && sources.len() < MAX_SOURCES && !sources.contains(source) {
        sources.push(*source);
    }
}

/// Classification of the beginning of the bytes that wait.
enum First<'a> {
    /// A complete part of this length, which contains `unit`.
    Unit {
        length: usize,
        unit: Option<Unit<'a>>,
    },
    Incomplete,
    /// Bytes that do not belong to this content.
    Other,
}

fn first(content: Content, data: &[u8]) -> First<'_> {
    match (content, data) {
        (Content::Framed, [a, b, ..]) => packet(data, 2, [*a, *b]),
        (Content::Interleaved, [b'$', _, a, b, ..]) => packet(data, 4, [*a, *b]),
        (Content::Framed, _) | (Content::Interleaved, [b'$', ..]) => First::Incomplete,
        (Content::Interleaved, _) => match text_length(data) {
            Some(length) if length <= data.len() => First::Unit { length, unit: None },
            Some(_) => First::Incomplete,
            None if RTSP.iter().any(|begin| data.starts_with(begin) || begin.starts_with(data)) => {
                limited(data)
            }
            None => First::Other,
        },
        // Empty lines between messages keep the connection alive.
        (Content::Sip, [b'\r' | b'\n', ..]) => First::Unit { length: 1, unit: None },
        (Content::Sip, _) => match text_length(data) {
            Some(length) if length <= data.len() => {
                First::Unit { length, unit: Some(Unit::Sip(&data[..length])) }
            }
            Some(_) => First::Incomplete,
            None => limited(data),
        },
    }
}

fn limited(data: &[u8]) -> First<'_> {
    if data.len() > MAX_HEAD { First::Other } else { First::Incomplete }
}

fn packet(data: &[u8], header: usize, length: [u8; 2]) -> First<'_> {
    let length = header + usize::from(u16::from_be_bytes(length));
    match data.get(header..length) {
        Some(packet) => First::Unit { length, unit: Some(Unit::Packet(packet)) },
        None => First::Incomplete,
    }
}

/// Returns the length of a text message with its body; `None` if its head is not complete.
fn text_length(data: &[u8]) -> Option<usize> {
    let head = data.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&data[..head]);
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let name = name.trim();
        let is_length = name.eq_ignore_ascii_case("Content-Length") || name.eq_ignore_ascii_case("l");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    head.checked_add(length.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: StreamKey = StreamKey { from: (1, 2), to: (3, 4), ssrc: 0 };

    /// Returns what is found in segments, each with its sequence number.
    fn found(segments: &[(u32, &[u8])]) -> Vec<Vec<u8>> {
        let mut streams = ByteStreams::default();
        let mut all = Vec::new();
        for (seq, data) in segments {
            streams.push((WallTime(0), KEY), *seq, (data, true), &mut |_, unit| match unit {
                Unit::Sip(data) | Unit::Packet(data) => all.push(data.to_vec()),
            });
        }
        all
    }

    /// Returns RTP packet `n` of one source, preceded by its length.
    fn framed(n: u8) -> Vec<u8> {
        [&[0, 24, 0x80, 0, 0, n][..], &[0, 0, 0, n, 1, 2, 3, 4], &[n; 12]].concat()
    }

    /// Returns the numbers, the times and the gaps of the packets that are found if the segments of `cut` bytes with
    /// these numbers are missing; the receiver acknowledges segment `k` right after it if `acks`.
    fn found_without(missing: &[usize], cut: usize, acks: bool) -> Vec<(u8, i64, u32)> {
        let all: Vec<u8> = (0..200).flat_map(framed).collect();
        let mut streams = ByteStreams::default();
        let mut found = Vec::new();
        let mut each = |arrival: Arrival, unit: Unit<'_>| match unit {
            Unit::Packet(packet) => found.push((packet[3], arrival.at.0, arrival.gaps)),
            Unit::Sip(_) => panic!("a message"),
        };
        for (k, part) in all.chunks(cut).enumerate() {
            let seq = (k * cut) as u32;
            if !missing.contains(&k) {
                streams.push((WallTime(k as i64), KEY), seq, (part, true), &mut each);
            }
            if acks {
                streams.acknowledged(KEY, seq + part.len() as u32, &mut each);
            }
        }
        found
    }

    #[test]
    fn only_what_is_missing_in_the_recording_is_missing_in_the_result() {
        for acks in [true, false] {
            // One packet in each segment: each packet has the time of its segment.
            let found = found_without(&[50], 26, acks);
            let expected = (0..200).filter(|k| *k != 50).map(|k| (k, i64::from(k), u32::from(k > 50)));
            assert_eq!(found, expected.collect::<Vec<_>>(), "{acks}");
            // Packets cut into parts: one segment contains parts of two or three packets.
            for cut in [17, 40, 53] {
                let numbers: Vec<u8> = found_without(&[20], cut, acks).iter().map(|f| f.0).collect();
                assert!(numbers.len() >= 196 && numbers.is_sorted(), "{cut}: {numbers:?}");
            }
        }
    }

    #[test]
    fn bytes_that_come_later_are_waited_for() {
        let all: Vec<Vec<u8>> = (0..30).map(framed).collect();
        let mut order: Vec<usize> = (0..30).collect();
        order.swap(5, 20);
        let segments: Vec<(u32, &[u8])> = order.iter().map(|k| (*k as u32 * 26, &all[*k][..])).collect();
        let expected: Vec<Vec<u8>> = all.iter().map(|packet| packet[2..].to_vec()).collect();
        assert_eq!(found(&segments), expected);
    }

    #[test]
    fn a_gap_that_the_receiver_reports_is_waited_for() {
        let mut streams = ByteStreams::default();
        let mut found = Vec::new();
        let mut each = |arrival: Arrival, unit: Unit<'_>| match unit {
            Unit::Packet(packet) => found.push((packet[3], arrival.at.0, arrival.gaps)),
            Unit::Sip(_) => panic!("a message"),
        };
        // Segment 10 is repeated after segment 149; until then the receiver acknowledges what comes before it.
        for k in (0..10).chain(11..150) {
            streams.push((WallTime(k), KEY), k as u32 * 26, (&framed(k as u8), true), &mut each);
            streams.acknowledged(KEY, (k as u32 + 1).min(10) * 26, &mut each);
        }
        assert_eq!(streams.waiting, 139 * 26);
        streams.push((WallTime(200), KEY), 260, (&framed(10), true), &mut each);
        assert_eq!(streams.waiting, 0);
        let expected = (0..150).map(|k| (k as u8, if k < 10 { k } else { 200 }, 0));
        assert_eq!(found, expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_message_may_be_in_several_segments_and_a_segment_may_have_several_messages() {
        let message = b"INVITE sip:b SIP/2.0\r\nContent-Length: 5\r\n\r\nv=0\r\n";
        let two = [&message[..], b"\r\n\r\n", b"BYE sip:b SIP/2.0\r\nl: 0\r\n\r\n"].concat();
        let expected = [message.to_vec(), b"BYE sip:b SIP/2.0\r\nl: 0\r\n\r\n".to_vec()];
        assert_eq!(found(&[(7, &two)]), expected);
        for cut in 1..two.len() {
            let (a, b) = two.split_at(cut);
            // Two parts in order, the second one twice; then three parts, of which the last two arrive in reverse
            // order.
            if cut < 8 {
                continue;
            }
            let later = 7u32 + cut as u32;
            assert_eq!(found(&[(7, a), (later, b), (later, b)]), expected, "{cut}");
            let (b, c) = b.split_at(b.len() / 2);
            let last = later + b.len() as u32;
            assert_eq!(found(&[(7, a), (last, c), (later, b)]), expected, "{cut}");
        }
    }

    #[test]
    fn packets_with_lengths_are_found() {
        let packet = |n: u8| [&[0, 14, 0x80, 0, 0, n][..], &[7; 10]].concat();
        let all = [packet(1), packet(2), packet(3)].concat();
        let expected: Vec<Vec<u8>> = (1..=3).map(|n| packet(n)[2..].to_vec()).collect();
        assert_eq!(found(&[(u32::MAX - 3, &all[..20]), (16, &all[20..])]), expected);
        let interleaved = |n: u8| [&b"$\x01"[..], &packet(n)].concat();
        let text = b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 2\r\n\r\n$$";
        let all = [&text[..], &interleaved(1), &interleaved(2), text, &interleaved(3)].concat();
        assert_eq!(found(&[(0, &all[..70]), (70, &all[70..])]), expected);
    }

    #[test]
    fn what_is_missing_ends_a_stream_and_other_connections_are_ignored() {
        assert!(found(&[(0, b"GET / HTTP/1.1\r\n\r\n"), (18, &[22, 3, 1, 0, 200])]).is_empty());
        let part = b"INVITE sip:b SIP/2.0\r\nContent-Length: 5000\r\n\r\n";
        let mut segments: Vec<(u32, &[u8])> = vec![(0, part)];
        segments.extend((0..40).map(|k| (10_000 + 100 * k, &[65; 100][..])));
        segments.push((20_000, b"BYE sip:b SIP/2.0\r\n\r\n"));
        assert_eq!(found(&segments), [b"BYE sip:b SIP/2.0\r\n\r\n".to_vec()]);
        let mut streams = ByteStreams::default();
        for k in 0..100 {
            let key = StreamKey { from: (k, 1), ..KEY };
            streams.push((WallTime(k as i64), key), 0, (part, true), &mut |_, _| ());
        }
        assert_eq!(streams.streams.len(), MAX_STREAMS);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(parts in prop::collection::vec((0u32..300, prop::collection::vec(any::<u8>(), 0..60), 0usize..4), 0..20)) {
            let mut streams = ByteStreams::default();
            for (seq, data, begin) in parts {
                let begin: &[u8] = [&b"$\0\0\x0c\x80"[..], b"BYE \r\n\r\n", b"\0\x0c\x80", b"RTSP/1.0 \r\n"][begin];
                let data = [begin, &data].concat();
                streams.push((WallTime(0), KEY), seq, (&data, true), &mut |_, _| ());
                streams.acknowledged(KEY, seq.wrapping_add(100), &mut |_, _| ());
            }
        }
    }
}
