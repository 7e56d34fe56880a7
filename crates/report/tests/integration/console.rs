//! The console report of a version 3 session in which every fact is known.

use jitlat_core::analysis::{Options, analyze};
use jitlat_core::clock::SyncState;
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::summary::Summary;
use jitlat_core::{
    ClockProbe, Direction, Dscp, PacketRecord, Schedule, Session, Span, Stamp, StampSource, TestSpec,
    Transport, WallTime,
};
use jitlat_report::text::{self, TextStyle};

const START: i64 = 1_763_697_000_000_000_000;
/// Offset of the server's clock, ns ahead.
const OFFSET: i64 = 2_500_000;

fn session(direction: Direction) -> Session {
    let period = Span::millis(10);
    let mut spec = TestSpec::new(direction, Transport::Udp, 1500, 172, period, Schedule::Periodic).unwrap();
    spec.dscp = Dscp::new(46).unwrap();
    let mut s = Session::new(spec);
    s.created = Some(WallTime(START));
    s.src = Some("2001:db8::1".parse().unwrap());
    s.dst = Some("2001:db8::2".parse().unwrap());
    let probe = |at: i64, there: i64, back: i64| ClockProbe {
        sent: WallTime(at),
        arrived: WallTime(at + there + OFFSET),
        answered: WallTime(at + there + OFFSET + 20_000),
        returned: WallTime(at + there + back + 20_000),
    };
    for i in 0..4 {
        s.probes.push(probe(START - 1_000_000_000 + i * 100_000_000, 10_050_000 + i * 7_000, 10_020_000));
        s.probes.push(probe(START + 16_000_000_000 + i * 100_000_000, 10_000_000, 10_080_000 - i * 9_000));
    }
    s.probes.sort_by_key(|p| p.sent);
    let sync = SyncState {
        synchronised: true,
        offset: Span(800),
        estimated_error: Span::micros(12),
        maximum_error: Span::micros(950),
        frequency_ppb: -1200,
    };
    s.client.name = Some("alpha".into());
    s.client.clock_source = Some("tsc".into());
    s.client.sync_before = Some(sync);
    s.client.sync_after = Some(sync);
    s.client.notes = vec!["no SCHED_FIFO (not permitted): the sender runs at normal priority".into()];
    s.server.name = Some("beta".into());
    s.server.sync_before = Some(sync);
    s.server.sync_after = Some(SyncState { synchronised: false, ..sync });
    s.server.clock_step = Some(Span::micros(-45));
    s.sent = Some(1200);
    s.ending = Ending::PeerLost;
    s.reason = Some("no word from 2001:db8::2 for 10 s\u{1b}[2J".into());
    s.receiver_drops = Some(4);
    s
}

fn records(direction: Direction) -> impl Iterator<Item = PacketRecord> {
    let shift = if direction == Direction::Up { OFFSET } else { -OFFSET };
    let mut noise = 1u64;
    (0..1200).filter(|i| !matches!(i, 300..304 | 700 | 901)).map(move |i| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (late, jitter) = ((noise >> 40) as i64 % 9_000, (noise >> 33) as i64 % 700_000);
        let sent = START + i * 10_000_000 + late;
        let arrived = sent + 10_000_000 + jitter + shift;
        let mut r = PacketRecord::new(i);
        let source = if i < 3 { StampSource::User } else { StampSource::Kernel };
        r.set(Moment::Sent, Stamp { at: WallTime(sent), source });
        r.set(Moment::Arrived, Stamp { at: WallTime(arrived), source: StampSource::Kernel });
        r.set_send_lag(Some(Span(2_000 + late / 10)));
        r.set_receive_lag(Some(Span(15_000 + late)));
        r.set_ttl(Some(if i < 600 { 57 } else { 55 }));
        r.set_traffic_class(Some(if i == 1000 { 3 } else { 0 }));
        r.set_size(Some(172));
        r
    })
}

fn summary(direction: Direction) -> Summary {
    analyze(&session(direction), records(direction), &jitlat_verdict::options())
}

#[test]
fn everything_known() {
    let options = text::TextOptions { corrected: true, ..text::TextOptions::default() };
    insta::assert_snapshot!(text::report(&summary(Direction::Up), &options));
}

#[test]
fn stamps_that_did_not_come_and_a_pause_on_purpose_are_said() {
    let with = |lost: Option<u64>, pause: Option<Span>| {
        let mut session = session(Direction::Up);
        (session.stamps_lost, session.read_pause) = (lost, pause);
        let summary = analyze(&session, records(Direction::Up), &jitlat_verdict::options());
        let report = text::report(&summary, &text::TextOptions::default());
        // Independent of line breaks.
        report.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = with(Some(17), Some(Span::micros(900)));
    assert!(said.contains("the kernel's departure stamp is missing for 17 packets"), "{said}");
    assert!(said.contains("; up to 900.0 us of it intended, to read several"), "{said}");
    for quiet in [with(Some(0), None), with(None, None)] {
        assert!(!quiet.contains("was lost:") && !quiet.contains("on purpose"), "{quiet}");
    }
}

#[test]
fn correction_knows_its_direction() {
    let corrected = |direction| {
        let report = text::report(
            &summary(direction),
            &text::TextOptions { corrected: true, ..text::TextOptions::default() },
        );
        let line = report.lines().find(|l| l.starts_with("min/avg/max corrected latency = ")).unwrap();
        line.split(" = ").nth(1).unwrap().split('.').next().unwrap().to_owned()
    };
    // The estimate is 15 µs too high: up is that much below 10 ms, down that much above.
    assert_eq!((corrected(Direction::Up), corrected(Direction::Down)), ("9".into(), "10".into()));
}

#[test]
fn two_directions_free_of_the_clocks() {
    let both = text::both(&summary(Direction::Up), &summary(Direction::Down), &text::TextOptions::default());
    assert!(both.starts_with("Both directions\n    smallest latency up + down = 20.00"), "{both}");
}

#[test]
fn colours_only_where_asked_for() {
    let summary = summary(Direction::Up);
    let plain = text::report(&summary, &text::TextOptions::default());
    assert!(!plain.contains('\u{1b}'), "neither ours nor a peer's");
    let coloured = text::report(
        &summary,
        &text::TextOptions { style: TextStyle::Colour, ..text::TextOptions::default() },
    );
    assert!(coloured.contains("\u{1b}[1mClocks\u{1b}[0m"));
    assert!(!coloured.contains("\u{1b}[2J"));
}

#[test]
fn a_change_of_path_and_windows_are_listed() {
    let session = Session::new(TestSpec::default());
    // Half way through, the path becomes 8 ms longer.
    let records = (0..1000).map(|i| {
        let delay = 5_000_000 + i * 7919 % 40_000 + if i >= 500 { 8_000_000 } else { 0 };
        PacketRecord::one_way(i, WallTime(START + i * 20_000_000), WallTime(START + i * 20_000_000 + delay))
    });
    let options = Options { interval: Some(Span::millis(100)), ..jitlat_verdict::options() };
    let report = text::report(&analyze(&session, records, &options), &text::TextOptions::default());
    // Sentences are wrapped.
    let text = report.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "Segments between path or clock changes packets 0 to 499: smallest latency 5.000 ms;",
        "packets 500 to 999: smallest latency 13.00 ms, +8.000 ms from the previous segment;",
        "Windows of 100.0 ms the 40 of 200 with the most loss",
    ] {
        assert!(text.contains(said), "{said}: {report}");
    }
    let table = report.split("Windows of").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(table.lines().all(|l| l.chars().count() <= 80), "{table}");
}
