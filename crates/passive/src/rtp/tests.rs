use super::*;
use crate::testing::MS;
use crate::{Frame, LinkType, Recording};
use jitlat_core::analysis::{Options, analyze};
use jitlat_core::answer::Severity;
use std::net::{Ipv4Addr, SocketAddrV4};

const A: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 4000);
const B: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 2), 5000);

/// Builds an IPv4 packet with a UDP datagram.
fn datagram(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let length = |more: usize| ((payload.len() + more) as u16).to_be_bytes();
    let mut ip = vec![0x45, 0xb8, length(28)[0], length(28)[1], 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend(from.ip().octets());
    ip.extend(to.ip().octets());
    ip.extend(from.port().to_be_bytes());
    ip.extend(to.port().to_be_bytes());
    ip.extend(length(8));
    ip.extend([0, 0]);
    ip.extend(payload);
    ip
}

/// One RTP packet of a test.
#[derive(Clone, Copy)]
struct Sent {
    payload_type: u8,
    marker: bool,
    sequence: u16,
    timestamp: u32,
    ssrc: u32,
    payload: usize,
}

/// Returns packet `k` of a G.711 stream with 20 ms per packet.
fn voice(k: i64) -> Sent {
    let (sequence, timestamp) = ((65_000 + k) as u16, (k * 160) as u32);
    Sent { payload_type: 0, marker: false, sequence, timestamp, ssrc: 7, payload: 160 }
}

impl Sent {
    fn bytes(self) -> Vec<u8> {
        let mut data = vec![0x80, self.payload_type | u8::from(self.marker) << 7];
        data.extend(self.sequence.to_be_bytes());
        data.extend(self.timestamp.to_be_bytes());
        data.extend(self.ssrc.to_be_bytes());
        data.resize(12 + self.payload, 0x55);
        data
    }
}

/// Collects what the analyser emits.
struct Seen {
    recording: Recording,
    analyzer: RtpAnalyzer,
    emitted: Emitted,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            recording: Recording::of_media(),
            analyzer: RtpAnalyzer::default(),
            emitted: Emitted::default(),
        }
    }
}

#[derive(Default)]
struct Emitted {
    records: std::collections::BTreeMap<u64, Vec<PacketRecord>>,
    begun: Vec<u64>,
    ended: Vec<u64>,
}

impl RtpObserver for Emitted {
    fn begun(&mut self, stream: &RtpStream) {
        self.begun.push(stream.number);
    }

    fn records(&mut self, number: u64, records: &[PacketRecord]) {
        assert!(self.begun.contains(&number) && !self.ended.contains(&number));
        self.records.entry(number).or_default().extend(records);
    }

    fn ended(&mut self, stream: &RtpStream, _: bool) {
        self.ended.push(stream.number);
    }
}

fn take(seen: &crate::Seen<'_>, analyzer: &mut RtpAnalyzer, emitted: &mut Emitted) {
    match seen {
        crate::Seen::Packet(seen) => analyzer.take(seen, emitted),
        crate::Seen::ClockSet => analyzer.clock_set(),
        crate::Seen::Skipped(..) => panic!("a packet that is not one"),
    }
}

impl Seen {
    fn bytes(&mut self, at: i64, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) {
        self.packet(at, &datagram(from, to, payload));
    }

    /// Adds an IP packet.
    fn packet(&mut self, at: i64, data: &[u8]) {
        let at = WallTime(at);
        let frame = Frame { at, link: LinkType::IPV4, wire_length: data.len() as u32, data };
        let Seen { recording, analyzer, emitted } = self;
        recording.push(&frame, &mut |seen| take(&seen, analyzer, emitted));
    }

    fn rtp(&mut self, at: i64, sent: Sent) {
        self.bytes(at, A, B, &sent.bytes());
    }

    fn finish(mut self) -> (RtpResult, Emitted) {
        let Seen { recording, analyzer, emitted } = &mut self;
        recording.finish(&mut |seen| take(&seen, analyzer, emitted));
        let mut result = std::mem::take(&mut self.analyzer).finish(&mut self.emitted);
        result.recording = self.recording.facts();
        assert_eq!(self.emitted.begun.len(), self.emitted.ended.len());
        (result, self.emitted)
    }
}

#[test]
fn the_common_analysis_finds_what_was_done_to_a_stream() {
    let mut seen = Seen::default();
    let mut arrivals: Vec<(i64, i64)> = Vec::new();
    for k in 0..1000i64 {
        // Three bursts of four losses, a delay of up to 4 ms, one packet reordered, one duplicated.
        if [200, 500, 800].iter().any(|burst| (0..4).contains(&(k - burst))) {
            continue;
        }
        let late = if k == 300 { 25 * MS } else { k * 7919 % 5 * MS };
        arrivals.push((k * 20 * MS + late, k));
        if k == 600 {
            arrivals.push((k * 20 * MS + late + MS, k));
        }
    }
    arrivals.sort_unstable();
    arrivals.iter().for_each(|(at, k)| seen.rtp(*at, voice(*k)));
    let (result, emitted) = seen.finish();
    let [s] = &result.streams[..] else { panic!("{result:?}") };
    assert_eq!((s.packets, s.expected, s.lost, s.duplicates, s.reordered), (989, 1000, 12, 1, 1));
    assert_eq!((s.clock_rate, s.clock_rate_source), (Some(8000), Some(ClockRateSource::Assigned)));
    assert_eq!(
        (s.packet_time_ns, &*s.codec(), s.silences, s.clock_sets),
        (Some(Span::millis(20)), "PCMU", 0, 0)
    );
    let session = s.session(Direction::Up, None, None);
    let summary = analyze(&session, emitted.records[&0].iter().copied(), &Options::default());
    let c = &summary.counts;
    assert_eq!((c.sent, c.lost, c.duplicate, c.out_of_sequence), (1000, 12, 1, 1));
    assert_eq!(summary.pdv.max, Some(25 * MS));
    assert_eq!(summary.loss.run_length_hist, [(4, 3)].into(), "three bursts of four");
}

#[test]
fn an_unknown_clock_rate_is_estimated_and_said_to_be() {
    for (rate, step) in [(48_000, 960), (90_000, 1800), (16_000, 320)] {
        let mut seen = Seen::default();
        for k in 0..200i64 {
            let sent = Sent { payload_type: 111, timestamp: (k * step) as u32, ..voice(k) };
            seen.rtp(k * 20 * MS + k * 7919 % 4 * MS, sent);
        }
        let (result, emitted) = seen.finish();
        let s = &result.streams[0];
        assert_eq!((s.clock_rate, s.clock_rate_source), (Some(rate), Some(ClockRateSource::Estimated)));
        // Packets before the estimate have send times too.
        assert!(emitted.records[&0].iter().all(|r| r.sent().is_some()));
        assert_eq!(emitted.records[&0].len(), 200);
    }
    // No clock in use: losses are known, delays are not.
    let mut seen = Seen::default();
    (0..1000i64).for_each(|k| {
        seen.rtp(k * 20 * MS, Sent { payload_type: 111, timestamp: (k * 100) as u32, ..voice(k) });
    });
    let (result, emitted) = seen.finish();
    assert_eq!((result.streams[0].clock_rate, result.streams[0].jitter), (None, None));
    assert!(emitted.records[&0].len() == 1000 && emitted.records[&0].iter().all(|r| r.sent().is_none()));
}

#[test]
fn silence_and_telephone_events_are_neither_loss_nor_jitter() {
    let mut seen = Seen::default();
    let (mut number, mut timestamp, mut at) = (0i64, 0u32, 0i64);
    let mut send =
        |seen: &mut Seen, at: i64, payload_type: u8, marker: bool, timestamp: u32, payload: usize| {
            seen.rtp(at, Sent { payload_type, marker, timestamp, payload, ..voice(number) });
            number += 1;
        };
    for _ in 0..4 {
        for k in 0..50 {
            send(&mut seen, at, 0, k == 0, timestamp, 160);
            (at, timestamp) = (at + 20 * MS, timestamp + 160);
        }
        // A silence of 3 s, with one packet of comfort noise.
        send(&mut seen, at, 13, false, timestamp, 1);
        (at, timestamp) = (at + 3000 * MS, timestamp + 24_000);
    }
    // An event of 100 ms: five packets with the same timestamp, of a type that nothing describes.
    let began = timestamp;
    for _ in 0..5 {
        send(&mut seen, at, 101, false, began, 4);
        (at, timestamp) = (at + 20 * MS, timestamp + 160);
    }
    for _ in 0..20 {
        send(&mut seen, at, 0, false, timestamp, 160);
        (at, timestamp) = (at + 20 * MS, timestamp + 160);
    }
    let (result, emitted) = seen.finish();
    let s = &result.streams[0];
    assert_eq!((s.lost, s.events, s.clock_sets, s.silences), (0, 1, 0, 3), "{s:?}");
    assert_eq!(s.silence_ns, Span::millis(3 * 2980));
    assert_eq!(s.jitter.unwrap().max_ns, 0.0);
    assert_eq!(
        s.payload_types.iter().map(|t| (t.payload_type, t.is_event)).collect::<Vec<_>>(),
        [(0, false), (13, false), (101, true)]
    );
    let delays: Vec<_> = emitted.records[&0].iter().map(PacketRecord::delay).collect();
    // Events are taken to have the delay of the packet before.
    assert!(delays.iter().all(|d| *d == Some(Span::ZERO)));
}

#[test]
fn a_source_that_counts_anew_is_no_loss() {
    let mut seen = Seen::default();
    (0..50).for_each(|k| seen.rtp(k * 20 * MS, voice(k)));
    (50..100).for_each(|k| {
        let sent = Sent { sequence: (k + 20_000) as u16, timestamp: (900_000 + k * 160) as u32, ..voice(k) };
        seen.rtp(k * 20 * MS, sent);
    });
    let (result, emitted) = seen.finish();
    let s = &result.streams[0];
    // The first packet of the new numbering is known to be one only when the next one has arrived.
    assert_eq!((s.restarts, s.lost, s.strays, s.packets, s.clock_sets), (1, 0, 1, 99, 1));
    assert!(emitted.records[&0].iter().all(|r| r.delay() == Some(Span::ZERO)));
}

#[test]
fn an_outage_is_loss_however_long_it_is() {
    // 3100 packets are 62 s, 50 000 are 16 minutes.
    for missing in [3100, 50_000] {
        let mut seen = Seen::default();
        for k in (0..500).chain(500 + missing..1000 + missing) {
            seen.rtp(k * 20 * MS + k * 7919 % 5 * MS, voice(k));
        }
        let (result, emitted) = seen.finish();
        let s = &result.streams[0];
        assert_eq!((s.lost, s.restarts, s.strays, s.clock_sets), (missing as u64, 0, 0, 0), "{s:?}");
        assert_eq!(emitted.records[&0].last().map(|r| r.seq), Some(999 + missing));
    }
}

#[test]
fn an_outage_is_loss_although_the_clock_rate_is_unknown() {
    // Frames of 13 packets, with a clock that is in use nowhere.
    let mut seen = Seen::default();
    for k in (0..8000i64).chain(11_300..20_000) {
        let sent = Sent { payload_type: 96, timestamp: (k / 13 * 2970) as u32, ..voice(k) };
        seen.rtp(k * 5 * MS / 2, sent);
    }
    let (result, _) = seen.finish();
    let s = &result.streams[0];
    assert_eq!((s.clock_rate, s.lost, s.restarts, s.strays), (None, 3300, 0, 0));
}

#[test]
fn packets_that_a_stall_releases_after_newer_ones_are_late_not_lost() {
    for released in [101, 250, 1000] {
        let mut seen = Seen::default();
        let at = |k: i64| {
            if (500..500 + released).contains(&k) { (500 + released) * 20 * MS + MS } else { k * 20 * MS }
        };
        let mut order: Vec<i64> = (0..2000).collect();
        order.sort_by_key(|k| at(*k));
        order.iter().for_each(|k| seen.rtp(at(*k), voice(*k)));
        let (result, _) = seen.finish();
        let s = &result.streams[0];
        assert_eq!((s.packets, s.lost, s.restarts, s.strays), (2000, 0, 0, 0), "{released}");
        assert_eq!((s.reordered, s.clock_sets), (released as u64, 0), "{released}");
    }
}

#[test]
fn a_late_packet_changes_no_delay_but_its_own() {
    for late in [1, 50] {
        let mut seen = Seen::default();
        let at = |k: i64| k * 20 * MS + if (500..500 + late).contains(&k) { 1509 * MS } else { 0 };
        let mut order: Vec<i64> = (0..1000).collect();
        order.sort_by_key(|k| at(*k));
        order.iter().for_each(|k| seen.rtp(at(*k), voice(*k)));
        let (result, emitted) = seen.finish();
        let s = &result.streams[0];
        assert_eq!((s.lost, s.reordered, s.clock_sets), (0, late as u64, 0));
        let delays = emitted.records[&0].iter().map(|r| (r.seq, r.delay().unwrap()));
        let expected = order.iter().map(|k| (*k, Span(at(*k) - k * 20 * MS)));
        assert!(delays.eq(expected), "{late}");
    }
}

#[test]
fn a_stream_that_was_recorded_twice_is_analysed_once() {
    // Copies after 300 us from the beginning or from the middle on; or a part of the packets, which the path made.
    for (from, every, copies, duplicates) in [(0, 1, 500, 0), (250, 1, 243, 7), (0, 4, 0, 125)] {
        let is_copied = |k: i64| k >= from && k % every == 0;
        let mut seen = Seen::default();
        for k in 0..500 {
            seen.rtp(k * 20 * MS, voice(k));
            if is_copied(k) {
                seen.rtp(k * 20 * MS + 3 * MS / 10, voice(k));
            }
        }
        let (result, emitted) = seen.finish();
        let s = &result.streams[0];
        assert_eq!((result.copies, s.duplicates, s.lost), (copies, duplicates, 0));
        assert_eq!(emitted.records[&0].len() as u64, 500 + duplicates);
        assert_eq!(result.notes().len(), usize::from(copies > 0));
    }
}

#[test]
fn a_pause_without_timestamps_is_no_delay_and_a_stall_is() {
    // Packet 100 comes 28 s later: the sender paused, or the path held all packets of that time back.
    for (stalls, delay) in [(false, 0), (true, 28_010)] {
        let mut seen = Seen::default();
        for k in 0..2000i64 {
            let at = match (k < 100, stalls) {
                (true, _) => k * 20 * MS,
                (_, false) => (k * 20 + 28_000) * MS,
                (_, true) => (k * 20 * MS).max(30_000 * MS + k * MS / 10),
            };
            seen.rtp(at, voice(k));
        }
        let (result, emitted) = seen.finish();
        let s = &result.streams[0];
        assert_eq!((s.lost, s.clock_sets), (0, u64::from(!stalls)));
        let most = emitted.records[&0].iter().filter_map(PacketRecord::delay).max();
        assert_eq!(most.map(|d| d.0 / MS), Some(delay));
        assert_eq!(emitted.records[&0].len(), 2000);
    }
}

#[test]
fn streams_that_are_followed_are_not_replaced_while_they_last() {
    let mut seen = Seen::default();
    for k in 0..60 {
        for ssrc in 1..=MAX_STREAMS as u32 + 2 {
            seen.rtp(k * 20 * MS + i64::from(ssrc), Sent { ssrc, ..voice(k) });
        }
    }
    let (result, _) = seen.finish();
    assert_eq!((result.streams.len(), result.set_aside, result.not_followed), (MAX_STREAMS, 0, 2 * 56));
    assert!(result.streams.iter().all(|s| s.packets == 60) && result.notes().len() == 1);
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

#[test]
fn rtcp_gives_round_trips_on_both_sides_of_the_point() {
    let (a, b) = (SocketAddrV4::new(*A.ip(), 4001), SocketAddrV4::new(*B.ip(), 5001));
    let mut seen = Seen::default();
    for k in 0..100i64 {
        let at = k * 20 * MS;
        seen.rtp(at, voice(k));
        seen.bytes(at + MS, B, A, &Sent { ssrc: 9, ..voice(k) }.bytes());
        if k == 50 {
            // The sender's time passes the point; the answer arrives after 40 ms, of which the receiver held it for 10 ms.
            seen.bytes(at, a, b, &words(&[0x80c8_0006, 7, 0x0000_1234, 0x5678_0000, 0, 0, 0]));
            let held = 65_536 / 100;
            let report = [0x81c9_0007, 9, 7, 0x1000_0003, 0, 80, 0x1234_5678, held];
            seen.bytes(at + 40 * MS, b, a, &words(&report));
            // The other direction: 4 ms. Reports about unknown sources and unknown times are ignored.
            seen.bytes(at, b, a, &words(&[0x80c8_0006, 9, 0x0000_1111, 0x2222_0000, 0, 0, 0]));
            seen.bytes(at + 4 * MS, a, b, &words(&[0x81c9_0007, 7, 9, 0, 0, 0, 0x1111_2222, 0]));
            seen.bytes(at + 5 * MS, a, b, &words(&[0x81c9_0007, 7, 9, 0, 0, 0, 0x1111_2223, 0]));
            seen.bytes(at + 5 * MS, a, b, &words(&[0x81c9_0007, 7, 10, 0, 0, 0, 0x1111_2222, 0]));
            // Encrypted reports cannot be read.
            seen.bytes(
                at + 5 * MS,
                a,
                b,
                &[&words(&[0x81c9_0007, 7, 9, 0, 0, 0, 0, 0])[..], &[9; 14]].concat(),
            );
        }
    }
    seen.bytes(2000 * MS, a, b, &words(&[0x81cb_0001, 7]));
    let (result, emitted) = seen.finish();
    let [one, two] = &result.streams[..] else { panic!("{result:?}") };
    let round_trip = one.rtcp.round_trip_ns.unwrap();
    assert!((round_trip.min - 30 * MS).abs() < MS / 10, "{round_trip:?}");
    assert_eq!((one.rtcp.sender_reports, one.rtcp.receiver_reports, one.has_ended), (1, 1, true));
    let reported = one.rtcp.reported.unwrap();
    assert_eq!((reported.lost, reported.max_fraction_lost, reported.jitter_ns), (3, 0.0625, Some(10 * MS)));
    assert_eq!(two.rtcp.round_trip_ns.map(|r| (r.count, r.min)), Some((1, 4 * MS)));
    assert_eq!((two.rtcp.receiver_reports, two.has_ended, result.unread_rtcp), (2, false, 1));
    let [call] = &result.calls[..] else { panic!("{:?}", result.calls) };
    assert_eq!(call.round_trip_ns.map(|r| r.0 / MS), Some(34));
    assert_eq!(call.streams.iter().map(|s| s.direction).collect::<Vec<_>>(), Direction::BOTH);
    // Half of the round trip stands for the path's delay.
    let session = one.session(Direction::Up, call.round_trip_ns, Some(Span::millis(-3)));
    let half = Span(call.round_trip_ns.unwrap().0 / 2);
    let more = Span::millis(-3) - half;
    assert_eq!((session.classic_rtt, session.classic_offset), (call.round_trip_ns, Some(more)));
    let session = two.session(Direction::Down, call.round_trip_ns, Some(Span::ZERO));
    assert_eq!(session.classic_offset, Some(half));
    let summary = analyze(&session, emitted.records[&1].iter().copied(), &Options::default());
    let corrected = summary.latency_corrected.unwrap();
    assert_eq!(corrected.min, Some(half.0));
    assert!(corrected.bound_ns.is_some_and(|bound| (bound - half.0 as f64).abs() < 1.0), "{corrected:?}");
}

#[test]
fn signalling_names_the_call_and_the_formats() {
    let sip = |first: &str, tag: &str, sdp: &str| {
        let head = "From: <sip:a@example.com>;tag=1\r\nTo: <sip:b@example.com>";
        format!("{first}\r\n{head}{tag}\r\nCall-ID: id1\r\nCSeq: 1 INVITE\r\n\r\n{sdp}").into_bytes()
    };
    let sdp = |end: SocketAddrV4| {
        format!(
            "v=0\r\nc=IN IP4 {}\r\nm=audio {} RTP/AVP 96 97\r\na=rtpmap:96 opus/48000/2\r\na=rtpmap:97 \
             telephone-event/48000\r\n",
            end.ip(),
            end.port()
        )
    };
    let proxies = [A, B].map(|end| SocketAddrV4::new(*end.ip(), 5060));
    let mut seen = Seen::default();
    seen.bytes(0, proxies[0], proxies[1], &sip("INVITE sip:b@example.com SIP/2.0", "", &sdp(A)));
    seen.bytes(MS, proxies[1], proxies[0], &sip("SIP/2.0 200 OK", ";tag=2", &sdp(B)));
    // The called side speaks first; video of the call, from other ports, is the same call.
    for k in 0..20i64 {
        let sent = Sent { payload_type: 96, timestamp: (k * 960) as u32, ..voice(k) };
        seen.bytes(10 * MS + k * 20 * MS, B, A, &Sent { ssrc: 9, ..sent }.bytes());
        seen.rtp(11 * MS + k * 20 * MS, sent);
        seen.rtp(12 * MS + k * 20 * MS, Sent { payload_type: 97, sequence: k as u16, ssrc: 11, ..sent });
    }
    let (result, _) = seen.finish();
    let [call] = &result.calls[..] else { panic!("{:?}", result.calls) };
    let signalled = call.signalling.as_ref().unwrap();
    assert_eq!((&*signalled.call_id, &*signalled.caller), ("id1", "a@example.com"));
    assert_eq!(signalled.answered, Some(WallTime(MS)));
    let shown: Vec<_> = call.streams.iter().map(|s| (result.streams[s.stream].ssrc, s.direction)).collect();
    assert_eq!(shown, [(9, Direction::Down), (7, Direction::Up), (11, Direction::Up)]);
    let s = &result.streams[1];
    assert_eq!(
        (&*s.codec(), s.clock_rate, s.clock_rate_source),
        ("opus", Some(48_000), Some(ClockRateSource::Signalled))
    );
    assert!(result.streams[2].payload_types[0].is_event);
    // All 20 packets count: two were enough to recognise the stream.
    assert_eq!(s.packets, 20);
}

#[test]
fn the_idle_stream_ends_when_there_are_too_many() {
    let mut seen = Seen::default();
    let sources = MAX_STREAMS as u32 + 1;
    for ssrc in 1..=sources {
        (0..10).for_each(|k| seen.rtp(i64::from(ssrc) * MS * 1000 + k * 20 * MS, Sent { ssrc, ..voice(k) }));
        // The first one continues.
        seen.rtp(i64::from(ssrc) * MS * 1000 + 500 * MS, Sent { ssrc: 1, ..voice(10 + i64::from(ssrc)) });
    }
    assert_eq!(seen.analyzer.streams.len(), MAX_STREAMS);
    let (result, emitted) = seen.finish();
    assert_eq!((result.set_aside, result.streams.len()), (1, sources as usize));
    // The second was idle for longest.
    assert_eq!((emitted.ended[0], result.calls.len()), (1, 1));
    assert_eq!(result.calls[0].ssrc_changes, u64::from(sources) - 2);
}

#[test]
fn calls_between_the_same_ports_are_told_apart_by_pauses() {
    let mut seen = Seen::default();
    for (ssrc, from) in [(1, 0), (2, 20), (3, 60)] {
        (0..10).for_each(|k| seen.rtp(from * 1000 * MS + k * 20 * MS, Sent { ssrc, ..voice(k) }));
    }
    let (result, _) = seen.finish();
    let streams: Vec<_> = result.calls.iter().map(|c| (c.streams.len(), c.ssrc_changes)).collect();
    assert_eq!(streams, [(2, 1), (1, 0)]);
}

#[test]
fn the_beginning_of_a_stream_may_be_reordered() {
    let mut seen = Seen::default();
    for (k, n) in [1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10].into_iter().enumerate() {
        seen.rtp(k as i64 * 20 * MS, voice(n));
    }
    let (result, emitted) = seen.finish();
    let s = &result.streams[0];
    assert_eq!((s.packets, s.expected, s.lost, s.reordered, s.strays), (11, 11, 0, 1, 0));
    assert_eq!(emitted.records[&0].iter().map(|r| r.seq).take(3).collect::<Vec<_>>(), [1, 0, 2]);
}

#[test]
fn two_points_give_the_delay_of_each_packet_through_translation() {
    let outside = SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 7), 61_000);
    // The clock of the second point is 5 s ahead. From A to B 20 ms, back 30 ms; every 50th packet is lost between them.
    let offset = 5000 * MS;
    let (mut near, mut far) = (Seen::default(), Seen::default());
    near.analyzer = RtpAnalyzer::default().keeping_packets();
    far.analyzer = RtpAnalyzer::default().keeping_packets();
    let mut later: Vec<(i64, bool, Sent)> = Vec::new();
    for k in 0..300i64 {
        let at = k * 20 * MS;
        let up = voice(k);
        let down = Sent { ssrc: 9, ..voice(k + 70) };
        near.bytes(at, A, B, &up.bytes());
        if k % 50 != 30 {
            later.push((at + 20 * MS + k % 3 * MS + offset, true, up));
        }
        later.push((at + 5 * MS + offset, false, down));
        near.bytes(at + 35 * MS, B, A, &down.bytes());
    }
    later.sort_by_key(|(at, ..)| *at);
    for (at, is_up, sent) in later {
        let (from, to) = if is_up { (outside, B) } else { (B, outside) };
        far.bytes(at, from, to, &sent.bytes());
    }
    let (near, far) = (near.finish().0, far.finish().0);
    let found = between(&near, &far).unwrap();
    let [up, down] = &found.streams[..] else { panic!("{}", found.streams.len()) };
    // All packets have the same TTL, so the first point is taken to be nearer to the end that was seen first.
    assert_eq!(
        (up.near, down.near, up.near_assumed),
        (crate::CapturePoint::Reference, crate::CapturePoint::Monitor, true)
    );
    let summary = analyze(&up.session, up.records.iter().copied(), &Options::default());
    assert_eq!((summary.counts.sent, summary.counts.lost), (300, 6));
    let down = analyze(&down.session, down.records.iter().copied(), &Options::default());
    assert_eq!((down.counts.sent, down.counts.lost), (300, 0));
    // The offset is known to within half of the round trip of 50 ms.
    let round_trip = summary.latency_corrected.and_then(|c| c.min).unwrap()
        + down.latency_corrected.and_then(|c| c.min).unwrap();
    assert!((round_trip - 50 * MS).abs() < MS, "{round_trip}");
    assert!(between(&near, &RtpResult::default()).is_none());
}

/// Captures a call at two points, 20 ms apart in both directions. The clock of the second point is set forward by 100 ms
/// in the middle. The streams down are `downs`.
fn stepped(downs: &[u32]) -> [RtpResult; 2] {
    let mut points =
        [(); 2].map(|()| Seen { analyzer: RtpAnalyzer::default().keeping_packets(), ..Seen::default() });
    for k in 0..400i64 {
        let (at, step) = (k * 20 * MS, if k < 200 { 0 } else { 100 * MS });
        let up = voice(k).bytes();
        points[0].bytes(at, A, B, &up);
        points[1].bytes(at + 20 * MS + step, A, B, &up);
        for ssrc in downs {
            let down = Sent { ssrc: *ssrc, ..voice(k) }.bytes();
            points[1].bytes(at + 25 * MS + step, B, A, &down);
            points[0].bytes(at + 45 * MS, B, A, &down);
        }
    }
    points.map(|seen| seen.finish().0)
}

#[test]
fn a_step_of_the_clock_of_one_point_is_corrected() {
    let [near, far] = stepped(&[9]);
    assert!(near.recording.steps.is_empty() && near.notes().is_empty());
    let [step] = &far.recording.steps[..] else { panic!("{:?}", far.recording) };
    assert!(step.proven && (step.by_ns - Span::millis(100)).0.abs() < MS, "{step:?}");
    assert_eq!(far.notes().len(), 1);
    let found = between(&near, &far).unwrap();
    let summary =
        analyze(&found.streams[0].session, found.streams[0].records.iter().copied(), &Options::default());
    assert!(summary.pdv.max.unwrap() < MS, "{:?}", summary.pdv.max);
    assert!(
        found.clocks.offset_bound_ns.is_some_and(|bound| (bound - 20e6).abs() < 1e6),
        "{:?}",
        found.clocks
    );
}

#[test]
fn a_step_that_one_host_alone_shows_may_be_a_pause() {
    let [_, far] = stepped(&[]);
    assert!(far.recording.steps.is_empty());
}

/// Wraps a TCP segment without options in an IPv4 packet.
fn segment(from: SocketAddrV4, to: SocketAddrV4, seq: u32, payload: &[u8]) -> Vec<u8> {
    let mut tcp = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    tcp.extend(seq.to_be_bytes());
    tcp.extend([0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    tcp.extend(payload);
    let mut ip = datagram(from, to, &[]);
    ip.truncate(20);
    ip[2..4].copy_from_slice(&((20 + tcp.len()) as u16).to_be_bytes());
    ip[9] = 6;
    ip.extend(tcp);
    ip
}

#[test]
fn media_and_signalling_over_tcp_are_read() {
    let mut seen = Seen::default();
    // RTP with a length before each packet, cut at any place into segments of 100 bytes; nothing is lost.
    let framed: Vec<u8> =
        (0..100i64).flat_map(|k| [&172u16.to_be_bytes()[..], &voice(k).bytes()].concat()).collect();
    for (k, part) in framed.chunks(100).enumerate() {
        let ip = segment(A, B, (k * 100) as u32, part);
        seen.packet(k as i64 * 11_494_253, &ip);
        // A retransmission changes nothing.
        if k % 10 == 5 {
            seen.packet(k as i64 * 11_494_253 + 5 * MS, &ip);
        }
    }
    // An invitation in two segments, and the answer.
    let sdp = "v=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 4000 TCP/RTP/AVP 0\r\n";
    let head = |first: &str, length: usize| {
        format!(
            "{first}\r\nFrom: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: id1\r\nCSeq: 1 INVITE\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let message = head("INVITE sip:b@x SIP/2.0", sdp.len()) + sdp;
    let (first, second) = message.as_bytes().split_at(100);
    let ends = [A, B].map(|end| SocketAddrV4::new(*end.ip(), 5060));
    seen.packet(2000 * MS, &segment(ends[0], ends[1], 7, first));
    seen.packet(2001 * MS, &segment(ends[0], ends[1], 107, second));
    seen.packet(2002 * MS, &segment(ends[1], ends[0], 1, head("SIP/2.0 200 OK", 0).as_bytes()));
    let (result, _) = seen.finish();
    let [s] = &result.streams[..] else { panic!("{result:?}") };
    assert_eq!((s.packets, s.lost, s.duplicates, &*s.codec()), (100, 0, 0, "PCMU"));
    let signalling = result.calls[0].signalling.as_ref().unwrap();
    assert_eq!((&*signalling.call_id, signalling.answered), ("id1", Some(WallTime(2002 * MS))));
}

#[test]
fn a_signalling_message_in_fragments_is_read() {
    let mut seen = Seen::default();
    let filler = "x".repeat(2000);
    let sdp = format!(
        "v=0\r\ns={filler}\r\nc=IN IP4 192.0.2.1\r\nm=audio 4000 RTP/AVP 96\r\na=rtpmap:96 AMR/8000\r\n"
    );
    let message = format!(
        "INVITE sip:b@x SIP/2.0\r\nFrom: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: id1\r\nCSeq: 1 INVITE\r\n\r\n{sdp}"
    );
    let ends = [A, B].map(|end| SocketAddrV4::new(*end.ip(), 5060));
    let whole = datagram(ends[0], ends[1], message.as_bytes());
    let (header, payload) = whole.split_at(20);
    for (k, part) in payload.chunks(800).enumerate() {
        let mut ip = header.to_vec();
        let length = (20 + part.len()) as u16;
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        let more = u16::from((k + 1) * 800 < payload.len()) << 13;
        ip[4..6].copy_from_slice(&77u16.to_be_bytes());
        ip[6..8].copy_from_slice(&(more | (k * 100) as u16).to_be_bytes());
        ip.extend(part);
        seen.packet(k as i64 * MS, &ip);
    }
    (0..20).for_each(|k| seen.rtp(100 * MS + k * 20 * MS, Sent { payload_type: 96, ..voice(k) }));
    let (result, _) = seen.finish();
    assert_eq!((&*result.streams[0].codec(), result.calls[0].signalling.is_some()), ("AMR", true));
}

#[test]
fn audio_and_video_of_a_participant_are_one_call() {
    let mut seen = Seen::default();
    let video = [A, B].map(|end| SocketAddrV4::new(*end.ip(), end.port() + 10));
    let report = [A, B].map(|end| SocketAddrV4::new(*end.ip(), end.port() + 1));
    let name =
        |ssrc: u32, name: u32| words(&[0x80c9_0001, ssrc, 0x81ca_0004, ssrc, 0x0104_0000, name << 16, 0]);
    for k in 0..100i64 {
        let at = k * 20 * MS;
        seen.rtp(at, voice(k));
        seen.bytes(at + MS, B, A, &Sent { ssrc: 8, ..voice(k) }.bytes());
        let frame = Sent { payload_type: 34, timestamp: (k * 1800) as u32, ..voice(k) };
        seen.bytes(at + 2 * MS, video[0], video[1], &Sent { ssrc: 17, ..frame }.bytes());
        seen.bytes(at + 3 * MS, video[1], video[0], &Sent { ssrc: 18, ..frame }.bytes());
        if k == 50 {
            for (ssrc, of) in [(7, 1), (17, 1), (8, 2), (18, 2)] {
                let ends = if of == 1 { report } else { [report[1], report[0]] };
                seen.bytes(at + 4 * MS, ends[0], ends[1], &name(ssrc, of));
            }
        }
    }
    let (result, _) = seen.finish();
    let [call] = &result.calls[..] else { panic!("{:?}", result.calls) };
    let directions: Vec<_> =
        call.streams.iter().map(|s| (result.streams[s.stream].ssrc, s.direction)).collect();
    assert_eq!(
        directions,
        [(7, Direction::Up), (8, Direction::Down), (17, Direction::Up), (18, Direction::Down)]
    );
}

#[test]
fn a_direction_that_ends_early_is_a_fault_unless_something_explains_it() {
    let call = |signalled: bool, comfort: bool, ended: bool, hold: bool| {
        let mut seen = Seen::default();
        let sip = |first: &str, end: SocketAddrV4, more: &str| {
            format!(
                "{first}\r\nFrom: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: id1\r\nCSeq: 1 INVITE\r\n\r\nv=0\r\nc=IN IP4 \
                 {}\r\nm=audio {} RTP/AVP 0 13\r\n{more}",
                end.ip(),
                end.port()
            )
            .into_bytes()
        };
        if signalled {
            seen.bytes(0, A, B, &sip("INVITE sip:b@x SIP/2.0", A, ""));
            seen.bytes(1, B, A, &sip("SIP/2.0 200 OK", B, ""));
        }
        for k in 0..1000i64 {
            let at = k * 20 * MS;
            seen.rtp(at + 2, voice(k));
            if k < 400 {
                let payload_type = if comfort && k == 300 { 13 } else { 0 };
                seen.bytes(at + 3, B, A, &Sent { ssrc: 9, payload_type, ..voice(k) }.bytes());
            }
            if k == 400 && ended {
                let [a, b] = [A, B].map(|end| SocketAddrV4::new(*end.ip(), end.port() + 1));
                seen.bytes(at + 4, b, a, &words(&[0x81cb_0001, 9]));
            }
            if k == 401 && hold {
                seen.bytes(at + 4, A, B, &sip("INVITE sip:b@x SIP/2.0", A, "a=sendonly\r\n"));
            }
        }
        let (result, _) = seen.finish();
        let one_sided = |direction| result.calls[0].one_sided(direction, &result.streams);
        assert!(one_sided(Direction::Up).is_empty());
        one_sided(Direction::Down).first().map(|part| (part.missing.0 / MS / 1000, part.severity))
    };
    assert_eq!(call(true, false, false, false), Some((11, Severity::Bad)));
    assert_eq!(call(false, false, false, false), Some((11, Severity::Unknown)));
    assert_eq!(call(true, true, false, false), Some((11, Severity::Unknown)));
    assert_eq!(call(true, false, true, false), Some((11, Severity::Unknown)));
    assert_eq!(call(true, false, false, true), None);
}
