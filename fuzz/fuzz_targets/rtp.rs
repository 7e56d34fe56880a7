#![no_main]
// Aims at: crates/passive/src/rtp
// Longest input: 8192

//! Lists of operations: datagrams and TCP segments with any contents, RTP senders that lose, repeat and reorder packets, and pauses, at
//! two capture points.

use jitlat_core::{PacketRecord, WallTime};
use jitlat_passive::rtp::{RtpAnalyzer, RtpObserver, RtpResult, RtpStream, between};
use jitlat_passive::{Frame, LinkType, Recording};
use std::collections::HashMap;

/// Checks what the analyser emits.
#[derive(Default)]
struct Seen {
    /// Highest number of the records of each stream that has begun and not ended.
    open: HashMap<u64, i64>,
    records: u64,
    packets: u64,
}

impl RtpObserver for Seen {
    fn begun(&mut self, stream: &RtpStream) {
        assert!(self.open.insert(stream.number, -1).is_none());
        assert!(self.open.len() <= 1024);
    }

    fn records(&mut self, number: u64, records: &[PacketRecord]) {
        let highest = self.open.get_mut(&number).expect("a stream that has begun");
        for record in records {
            assert!(record.seq >= 0 && record.arrived().is_some());
            *highest = (*highest).max(record.seq);
            self.records += 1;
        }
    }

    fn ended(&mut self, s: &RtpStream, _: bool) {
        let highest = self.open.remove(&s.number).expect("a stream that has begun");
        assert!(highest + 1 == s.expected as i64 && s.lost <= s.expected);
        assert!(s.expected - s.lost + s.duplicates == s.packets);
        if let Some(jitter) = s.jitter {
            assert!(jitter.mean_ns.is_finite() && jitter.mean_ns <= jitter.max_ns * 1.000_001 + 1.0);
        }
        self.packets += s.packets;
    }
}

/// Wraps a payload in UDP over IPv4, from one of four ends to another.
fn datagram(ends: u8, payload: &[u8]) -> Vec<u8> {
    let length = |more: usize| ((payload.len() + more) as u16).to_be_bytes();
    let mut ip = vec![0x45, 0, length(28)[0], length(28)[1], 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend([192, 0, 2, ends & 3, 192, 0, 2, ends >> 2 & 3]);
    ip.extend([0x0f, 0xa0 | ends >> 4 & 1, 0x0f, 0xa0 | ends >> 5 & 1]);
    ip.extend(length(8));
    ip.extend([0, 0]);
    ip.extend(payload);
    ip
}

/// Wraps a payload in TCP over IPv4.
fn segment(ends: u8, seq: u8, payload: &[u8]) -> Vec<u8> {
    let tcp = [&[0, 0, 0, seq, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0][..], payload].concat();
    let mut ip = datagram(ends, &tcp[4..]);
    ip[9] = 6;
    ip[24..28].copy_from_slice(&tcp[..4]);
    ip
}

/// A capture point.
struct Point {
    recording: Recording,
    analyzer: RtpAnalyzer,
    seen: Seen,
}

/// Passes an item of a recording on.
fn take(item: jitlat_passive::Seen<'_>, analyzer: &mut RtpAnalyzer, seen: &mut Seen) {
    match item {
        jitlat_passive::Seen::Packet(packet) => analyzer.take(&packet, seen),
        jitlat_passive::Seen::ClockSet => analyzer.clock_set(),
        jitlat_passive::Seen::Skipped(..) => {}
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut points = [(); 2].map(|()| Point {
        recording: Recording::of_media(),
        analyzer: RtpAnalyzer::default().keeping_packets(),
        seen: Seen::default(),
    });
    let (mut at, mut rest) = (0i64, data);
    let pass = |points: &mut [Point; 2], which: u8, at: i64, ip: &[u8]| {
        let frame = Frame { at: WallTime(at), link: LinkType::IPV4, wire_length: ip.len() as u32, data: ip };
        for (k, Point { recording, analyzer, seen }) in points.iter_mut().enumerate() {
            if which >> k & 1 == 0 {
                recording.push(&frame, &mut |item| take(item, analyzer, seen));
            }
        }
    };
    let push = |points: &mut [Point; 2], which: u8, at: i64, ends: u8, payload: &[u8]| {
        pass(points, which, at, &datagram(ends, payload));
    };
    while let [what, ends, a, b, more @ ..] = rest {
        rest = more;
        at += i64::from(*b) * 1_000_000;
        match what >> 2 & 3 {
            // Any contents.
            0 | 1 => {
                let (payload, after) = rest.split_at(rest.len().min(usize::from(*a)));
                rest = after;
                match what >> 2 & 1 {
                    0 => push(&mut points, *what, at, *ends, payload),
                    _ => pass(&mut points, *what, at, &segment(*ends, *b, payload)),
                }
            }
            // Some packets of a sender of RTP.
            2 => {
                for k in 0..(*a & 31) {
                    let number = u16::from(*b) * 3 + u16::from(k ^ (what >> 6));
                    let mut packet = vec![0x80, what >> 4 & 3 | 0x60 & ends];
                    packet.extend(number.to_be_bytes());
                    packet.extend((u32::from(number) * 160).to_be_bytes());
                    packet.extend([0, 0, 0, ends & 7, 1, 2, 3, 4]);
                    push(&mut points, *what, at + i64::from(k) * 20_000_000, *ends, &packet);
                }
            }
            _ => at += i64::from(*a) * 1_000_000_000,
        }
    }
    let results: [RtpResult; 2] = points.map(|Point { mut recording, mut analyzer, mut seen }| {
        recording.finish(&mut |item| take(item, &mut analyzer, &mut seen));
        let result = analyzer.finish(&mut seen);
        assert!(seen.open.is_empty() && seen.records == seen.packets);
        let of_calls: usize = result.calls.iter().map(|call| call.streams.len()).sum();
        assert_eq!(of_calls, result.streams.len(), "every stream is in one call");
        result
    });
    if let Some(found) = between(&results[0], &results[1]) {
        for s in found.streams {
            assert!(s.records.len() as u64 <= s.session.packets());
        }
    }
});
