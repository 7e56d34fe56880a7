#![no_main]
// Aims at: crates/passive/src/rtp
// Longest input: 8192

//! Lists of operations: datagrams with any contents, RTP senders that lose, repeat and reorder packets, and pauses, at
//! two capture points.

use jitlat_core::{PacketRecord, WallTime};
use jitlat_passive::rtp::{RtpAnalyzer, RtpObserver, RtpResult, RtpStream, between};
use jitlat_passive::{LinkType, decode};
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

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut points = [(); 2].map(|()| (RtpAnalyzer::default().keeping_packets(), Seen::default()));
    let (mut at, mut rest) = (0i64, data);
    let push = |points: &mut [(RtpAnalyzer, Seen); 2], which: u8, at: i64, ends: u8, payload: &[u8]| {
        let ip = datagram(ends, payload);
        let p = decode(LinkType::IPV4, &ip, ip.len() as u32).expect("a whole packet");
        for (k, (analyzer, seen)) in points.iter_mut().enumerate() {
            if which >> k & 1 == 0 {
                analyzer.push(WallTime(at), &p, seen);
            }
        }
    };
    while let [what, ends, a, b, more @ ..] = rest {
        rest = more;
        at += i64::from(*b) * 1_000_000;
        match what >> 2 & 3 {
            // Any contents.
            0 | 1 => {
                let (payload, after) = rest.split_at(rest.len().min(usize::from(*a)));
                rest = after;
                push(&mut points, *what, at, *ends, payload);
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
    let results: [RtpResult; 2] = points.map(|(analyzer, mut seen)| {
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
