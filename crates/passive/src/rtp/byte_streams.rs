//! [`ByteStreams`]: finds messages and packets in TCP connections: SIP (RFC 3261 §18.3), RTP with a length before each
//! packet (RFC 4571), and RTP interleaved with RTSP (RFC 2326 §10.12).

use super::StreamKey;
use super::signalling::is_sip;
use foldhash::fast::RandomState;
use jitlat_core::time::WallTime;
use std::collections::{HashMap, VecDeque};

/// Maximum number of directions of connections that are followed. Beyond it, the one without segments for longest is
/// given up.
const MAX_STREAMS: usize = if cfg!(test) { 4 } else { 512 };
/// Maximum number of bytes that wait for the rest of their message, and of those that wait for earlier bytes.
const MAX_PENDING: usize = 80 << 10;
/// Maximum number of segments that wait for earlier ones.
const MAX_LATER: usize = 32;
/// Maximum length of the lines before the body of a text message.
const MAX_HEAD: usize = 16 << 10;
/// Smallest length of an RTCP packet, in bytes.
const MIN_PACKET: usize = 8;
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

#[derive(Debug)]
struct ByteStream {
    content: Content,
    /// Sequence number of the next byte.
    next: u32,
    pending: Vec<u8>,
    /// Segments after `next`.
    later: VecDeque<(u32, Vec<u8>)>,
    later_bytes: usize,
    last: WallTime,
}

/// The directions of TCP connections that carry calls.
#[derive(Debug, Default)]
pub(super) struct ByteStreams {
    streams: HashMap<StreamKey, ByteStream, RandomState>,
}

impl ByteStreams {
    /// Adds a segment with sequence number `seq` and captured bytes `data`; `all` is true if these are all of its
    /// bytes. `key` has the ends of the connection and no source. Passes complete messages and packets to `each`.
    pub(super) fn push(
        &mut self,
        (at, key): (WallTime, StreamKey),
        seq: u32,
        (data, all): (&[u8], bool),
        each: &mut impl FnMut(Unit<'_>),
    ) {
        if data.is_empty() {
            return;
        }
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.last = at;
            if all && stream.add(seq, data, each) {
                return;
            }
            // Bytes are missing: the next message begins somewhere in a later segment.
            self.streams.remove(&key);
        }
        let Some(content) = content(data).filter(|_| all) else { return };
        while self.streams.len() >= MAX_STREAMS {
            let Some(oldest) =
                self.streams.iter().min_by_key(|(key, s)| (s.last, **key)).map(|(key, _)| *key)
            else {
                return;
            };
            self.streams.remove(&oldest);
        }
        let (pending, later) = (Vec::new(), VecDeque::new());
        let mut stream = ByteStream { content, next: seq, pending, later, later_bytes: 0, last: at };
        if stream.add(seq, data, each) {
            self.streams.insert(key, stream);
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
    /// Adds a segment. Returns false if the stream cannot be followed any more.
    fn add(&mut self, seq: u32, data: &[u8], each: &mut impl FnMut(Unit<'_>)) -> bool {
        let ahead = seq.wrapping_sub(self.next) as i32;
        if ahead > 0 {
            self.later_bytes += data.len();
            self.later.push_back((seq, data.to_vec()));
            return self.later.len() <= MAX_LATER && self.later_bytes <= MAX_PENDING;
        }
        if !self.append(seq, data, each) {
            return false;
        }
        while let Some(k) = self.later.iter().position(|(seq, _)| seq.wrapping_sub(self.next) as i32 <= 0) {
            let Some((seq, data)) = self.later.remove(k) else { break };
            self.later_bytes -= data.len();
            if !self.append(seq, &data, each) {
                return false;
            }
        }
        true
    }

    /// Adds the part of a segment that is new. Returns false if the bytes do not fit the stream's content, or if too
    /// many wait.
    fn append(&mut self, seq: u32, data: &[u8], each: &mut impl FnMut(Unit<'_>)) -> bool {
        let known = self.next.wrapping_sub(seq) as usize;
        let Some(new) = data.get(known..).filter(|new| !new.is_empty()) else { return true };
        self.next = self.next.wrapping_add(new.len() as u32);
        self.pending.extend_from_slice(new);
        let mut used = 0;
        while let Some(rest) = self.pending.get(used..).filter(|rest| !rest.is_empty()) {
            match first(self.content, rest) {
                First::Unit { length, unit } => {
                    unit.into_iter().for_each(&mut *each);
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
            streams.push((WallTime(0), KEY), *seq, (data, true), &mut |unit| match unit {
                Unit::Sip(data) | Unit::Packet(data) => all.push(data.to_vec()),
            });
        }
        all
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
            streams.push((WallTime(k as i64), key), 0, (part, true), &mut |_| ());
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
                streams.push((WallTime(0), KEY), seq, (&data, true), &mut |_| ());
            }
        }
    }
}
