use super::*;
use jitlat_core::record::Moment;
use jitlat_core::{Stamp, StampSource};
use jitlat_passive::SeenPacket;
use jitlat_passive::{Frame, LinkType};

const MS: i64 = 1_000_000;
/// Length of a period of these tests.
const EVERY: Span = Span::seconds(10);
/// Time of the first packet of these tests, in ns since 1970: 2 s after a period begins.
const BEGIN: i64 = 1_700_000_002_000_000_000;

fn capture() -> CallCapture {
    CallCapture {
        interface: "eth0".to_owned(),
        near: vec!["192.0.2.1".parse().unwrap()],
        far: Vec::new(),
        port: None,
        formats: Vec::new(),
    }
}

/// Returns packet `k` of a G.711 stream from or to the near host, as an IP packet.
fn voice(k: i64, ssrc: u32, up: bool) -> Vec<u8> {
    let ends: [[u8; 4]; 2] =
        if up { [[192, 0, 2, 1], [198, 51, 100, 2]] } else { [[198, 51, 100, 2], [192, 0, 2, 1]] };
    let mut ip = vec![0x45, 0, 0, 200, 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend(ends.concat());
    ip.extend([0x0f, 0xa0, 0x13, 0x88, 0, 180, 0, 0, 0x80, 0]);
    ip.extend((k as u16).to_be_bytes());
    ip.extend((k as u32 * 160).to_be_bytes());
    ip.extend(ssrc.to_be_bytes());
    ip.resize(200, 0);
    ip
}

/// Records and ended periods of a capture.
#[derive(Default)]
struct Reported {
    records: BTreeMap<(i64, usize), Vec<PacketRecord>>,
    ended: Vec<EndedCapturePeriod>,
}

/// Captures packets, each with its time in ms after the beginning. A packet without bytes stands for dropped packets.
fn run(packets: &[(i64, Vec<u8>)], capture: &CallCapture) -> Reported {
    let mut reported = Reported::default();
    let mut each = |event: PeriodEvent<'_>| match event {
        PeriodEvent::Records { period, direction, records, .. } => {
            reported.records.entry((period, direction)).or_default().extend(records);
        }
        PeriodEvent::Ended(ended) => reported.ended.push(ended),
        PeriodEvent::Listening(_) | PeriodEvent::Begun => {}
    };
    let mut periods = CallPeriods::new(capture, EVERY, WallTime(BEGIN), &mut each);
    let mut analyzer = RtpAnalyzer::default();
    for (at, data) in packets {
        let at = WallTime(BEGIN + at * MS);
        if data.is_empty() {
            periods.count_drops(1, at);
            continue;
        }
        let frame = Frame { at, link: LinkType::IPV4, wire_length: data.len() as u32, data };
        let packet = frame.packet().unwrap();
        let seen = SeenPacket { at, packet: &packet, is_late: false, copy: None, is_whole_again: false };
        analyzer.take(&seen, &mut periods);
        let known = analyzer.snapshot();
        periods.end_before(at - GRACE, &known);
    }
    let known = analyzer.snapshot();
    analyzer.finish(&mut periods);
    periods.end_all(&known);
    reported
}

#[test]
fn each_packet_of_a_stream_is_in_one_period_and_each_loss_too() {
    // A call of 30 s with up to 4 ms of jitter. Up, every 50th packet is lost; down, all packets from 12 s to 13 s are.
    let mut packets: Vec<(i64, Vec<u8>)> = Vec::new();
    for k in 0..1500 {
        if k % 50 != 49 {
            packets.push((k * 20 + k * 7919 % 5, voice(k, 7, true)));
        }
        if !(600..650).contains(&k) {
            packets.push((k * 20 + 3, voice(k, 9, false)));
        }
    }
    // Traffic goes on after the call.
    packets.push((40_000, voice(0, 1, true)));
    let reported = run(&packets, &capture());
    let periods: Vec<i64> = reported.ended.iter().map(|ended| ended.period - BEGIN / EVERY.0).collect();
    assert_eq!(periods, [0, 1, 2, 3]);
    let mut totals = [[0; 2]; 2];
    for ended in &reported.ended {
        let sessions = ended.sessions.as_deref().unwrap();
        assert_eq!(sessions.len(), 2);
        for (index, session) in sessions.iter().enumerate() {
            let records = &reported.records[&(ended.period, index)];
            let sent = session.packets();
            assert!(records.iter().all(|r| (0..sent as i64).contains(&r.seq)), "{sent}");
            let within = |r: &PacketRecord| r.arrived().unwrap().0.div_euclid(EVERY.0) == ended.period;
            assert!(records.iter().all(within));
            let down = usize::from(session.spec.direction() == Direction::Down);
            totals[down][0] += sent;
            totals[down][1] += records.len() as u64;
            assert!(session.tags.iter().any(|(key, value)| key == "codec" && value == "PCMU"));
        }
    }
    // The very last packet up is lost, and nothing shows that it was sent.
    assert_eq!(totals, [[1499, 1470], [1500, 1450]]);
    let whole: Vec<bool> = reported.ended.iter().map(|ended| ended.is_whole).collect();
    assert_eq!(whole, [false, true, true, false]);
}

#[test]
fn streams_of_other_hosts_and_ports_do_not_count_and_too_many_are_counted() {
    let packets: Vec<(i64, Vec<u8>)> =
        (0..20).flat_map(|k| (0..70).map(move |ssrc| (k * 20, voice(k, ssrc, true)))).collect();
    let reported = run(&packets, &capture());
    let sessions = reported.ended[0].sessions.as_deref().unwrap();
    assert_eq!(sessions.len(), MAX_STREAMS);
    assert!(sessions[0].tags.contains(&(LEFT_OUT.to_owned(), "6".to_owned())));
    let none = |capture: CallCapture| {
        let reported = run(&packets, &capture);
        assert!(reported.records.is_empty());
    };
    none(CallCapture { near: vec!["192.0.2.9".parse().unwrap()], ..capture() });
    none(CallCapture { far: vec!["192.0.2.9".parse().unwrap()], ..capture() });
    none(CallCapture { port: Some(6000), ..capture() });
}

#[test]
fn packets_that_the_capture_dropped_are_not_lost() {
    let kept = |k: &i64| !(100..110).contains(k) && !(250..260).contains(k);
    let mut packets: Vec<(i64, Vec<u8>)> =
        (0..300).filter(kept).map(|k| (k * 20, voice(k, 7, true))).collect();
    packets.push((2_001, Vec::new()));
    packets.sort_by_key(|(at, _)| *at);
    let reported = run(&packets, &capture());
    let sessions = reported.ended[0].sessions.as_deref().unwrap();
    // The packets of the first gap may have been dropped by the capture; the second gap is loss.
    assert_eq!((sessions[0].packets(), reported.ended[0].dropped), (290, 1));
    assert_eq!(reported.records[&(reported.ended[0].period, 0)].len(), 280);
}

#[test]
fn a_packet_that_is_late_for_its_period_is_left_out() {
    let mut packets: Vec<(i64, Vec<u8>)> = (0..1500).map(|k| (k * 20, voice(k, 7, true))).collect();
    // Packet 300 of the first period arrives 3 s late, packet 310 after the period was reported.
    for (k, at) in [(300usize, 9_001), (310, 24_001)] {
        packets[k].0 = at;
    }
    packets.sort_by_key(|(at, _)| *at);
    let reported = run(&packets, &capture());
    let first = reported.ended[0].period;
    let records = &reported.records[&(first, 0)];
    assert!(records.iter().any(|r| r.seq == 300) && records.iter().all(|r| r.seq != 310));
    assert_eq!(reported.records.values().map(Vec::len).sum::<usize>(), 1499);
    let stamp = Stamp { at: WallTime(BEGIN + 9_001 * MS), source: StampSource::Wire };
    let late = records.iter().find(|r| r.seq == 300).unwrap();
    assert_eq!(late.time(Moment::Arrived), Some(stamp.at));
}
