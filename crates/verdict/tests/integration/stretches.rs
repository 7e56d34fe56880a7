//! Streams that are judged stretch by stretch, in constant memory, have the same verdict as with all packets in memory.

use jitlat_core::answer::{Answer, CauseId};
use jitlat_core::record::Flags;
use jitlat_core::session::Ending;
use jitlat_core::{
    Analyzer, Direction, Options, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime,
    analyze,
};
use jitlat_verdict::options;

const MS: i64 = 1_000_000;
const PERIOD: i64 = 10 * MS;
const PACKETS: u32 = 20_000;

fn session() -> Session {
    let spec =
        TestSpec::new(Direction::Up, Transport::Udp, PACKETS.into(), 80, Span(PERIOD), Schedule::Periodic);
    Session { sent: Some(PACKETS), ending: Ending::Complete, ..Session::new(spec.unwrap()) }
}

/// Returns a pseudo-random number from 0 to 999.
fn draw(k: u32, of: u32) -> i64 {
    let x = (u64::from(k) << 8 | u64::from(of)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as i64 % 1000
}

/// Packets with the additional delays `extra`, in ns, above 5 ms and up to 0.1 ms of jitter; `None` = lost.
fn records(extra: impl Fn(u32) -> Option<i64>) -> Vec<PacketRecord> {
    let record = |k: u32| {
        let sent = 1_700_000_000_000_000_000 + i64::from(k) * PERIOD;
        let delay = 5 * MS + 100 * draw(k, 1) + extra(k)?;
        Some(PacketRecord::one_way(k.into(), WallTime(sent), WallTime(sent + delay)))
    };
    let mut records: Vec<PacketRecord> = (0..PACKETS).filter_map(record).collect();
    records.sort_by_key(PacketRecord::arrived);
    records
}

fn in_stretches(length: u32) -> Analyzer {
    let streaming = Options { streaming: true, ..options() };
    let mut analyzer = Analyzer::new(&session(), &streaming);
    analyzer.set_stretch_length(length);
    analyzer
}

/// Returns the verdicts with all packets in memory, and with stretches of `length`.
fn answers(records: &[PacketRecord], length: u32) -> [Answer; 2] {
    let exact = analyze(&session(), records.iter().copied(), &options());
    let mut analyzer = in_stretches(length);
    records.iter().for_each(|r| analyzer.push(r));
    [exact.answer.unwrap(), analyzer.finish(&session()).answer.unwrap()]
}

fn ids(answer: &Answer) -> Vec<CauseId> {
    answer.causes.iter().map(|c| c.id).collect()
}

/// Tests with one fault each, and its name.
fn tests() -> Vec<(Option<CauseId>, Vec<PacketRecord>)> {
    // A TCP upload fills the queue and reduces its rate, repeatedly.
    let queue = |from: u32, to: u32| {
        let filled = |k: u32| 20 * MS + i64::from(k % 250) * 300_000 + 2000 * draw(k, 2);
        move |k: u32| Some(if (from..to).contains(&k) { filled(k - from) } else { 0 })
    };
    let away = |from: u32, to: u32| move |k: u32| (!(from..to).contains(&k)).then_some(0);
    let twice: Vec<PacketRecord> = records(|_| Some(0)).into_iter().flat_map(|r| [r, r]).collect();
    vec![
        (None, records(|_| Some(0))),
        (Some(CauseId::RandomLoss), records(|k| (draw(k, 3) >= 30).then_some(0))),
        (Some(CauseId::BurstyLoss), records(|k| (draw(k / 5, 3) >= 30).then_some(0))),
        (Some(CauseId::Outage), records(away(6200, 6500))),
        (Some(CauseId::Outage), records(away(7300, 7700))),
        (Some(CauseId::Outage), records(away(4000, 12_000))),
        (Some(CauseId::Queue), records(queue(8000, 9000))),
        (Some(CauseId::Queue), records(queue(6000, 9000))),
        (Some(CauseId::Duplication), twice),
    ]
}

#[test]
fn stretches_together_say_what_all_packets_say() {
    for (fault, records) in tests() {
        for length in [2500, 7500] {
            let [exact, stretches] = answers(&records, length);
            assert_eq!(exact.causes.first().map(|c| c.id), fault, "{exact:#?}");
            assert_eq!(ids(&stretches), ids(&exact), "{length}: {stretches:#?}");
            assert_eq!(stretches.severity, exact.severity, "{fault:?}, {length}");
            for (mine, theirs) in stretches.causes.iter().zip(&exact.causes) {
                let near = |a: f64, b: f64, by: f64| (a - b).abs() <= by;
                assert!(
                    near(mine.from_s, theirs.from_s, 1.0) && near(mine.to_s, theirs.to_s, 1.0),
                    "{mine:?} {theirs:?}"
                );
                let sizes = mine.magnitude_ns.zip(theirs.magnitude_ns);
                assert!(sizes.is_none_or(|(a, b)| near(a as f64, b as f64, 0.1 * b as f64)), "{mine:?}");
                let shares = mine.magnitude.zip(theirs.magnitude);
                assert!(shares.is_none_or(|(a, b)| near(a, b, 0.2 * b)), "{mine:?} {theirs:?}");
            }
            let uses =
                |a: &Answer| a.profiles.iter().map(|(k, v)| (k.clone(), v.severity)).collect::<Vec<_>>();
            assert_eq!(uses(&stretches), uses(&exact), "{fault:?}, {length}");
        }
    }
}

/// Additional delay of a packet, in ns; `None` = the packet is lost.
type Extra<'a> = &'a dyn Fn(u32) -> Option<i64>;

/// 200 000 packets are three stretches and a part. Each fault lies in one of them, crosses a border, or fills
/// one.
#[test]
fn a_long_test_has_the_same_answer_in_constant_memory() {
    const MANY: u32 = 200_000;
    let records = |extra: Extra<'_>| {
        let record = |k: u32| {
            let sent = 1_700_000_000_000_000_000 + i64::from(k) * PERIOD;
            let delay = 5 * MS + 100 * draw(k, 1) + extra(k)?;
            Some(PacketRecord::one_way(k.into(), WallTime(sent), WallTime(sent + delay)))
        };
        let mut records: Vec<PacketRecord> = (0..MANY).filter_map(record).collect();
        records.sort_by_key(PacketRecord::arrived);
        records
    };
    let session = {
        let spec = session().spec;
        let (direction, transport) = (spec.direction(), spec.transport());
        let spec =
            TestSpec::new(direction, transport, MANY.into(), 80, spec.period(), Schedule::Periodic).unwrap();
        Session { sent: Some(MANY), ending: Ending::Complete, ..Session::new(spec) }
    };
    // A standing queue, with larger jitter, that drains.
    let plateau = |from: u32, to: u32| {
        move |k: u32| {
            Some(match k {
                k if !(from..to).contains(&k) => 0,
                k => (40 * MS + 2000 * draw(k, 2)).min(8 * MS * i64::from(to - k)),
            })
        }
    };
    let away = |from: u32, to: u32| move |k: u32| (!(from..to).contains(&k)).then_some(0);
    let longer = |from: u32| move |k: u32| Some(if k < from { 0 } else { 8 * MS });
    let until = |from: u32, to: u32| move |k: u32| Some(if (from..to).contains(&k) { 8 * MS } else { 0 });
    let cases: [(&str, Option<CauseId>, Extra<'_>); 12] = [
        ("clean", None, &|_| Some(0)),
        ("outage in one", Some(CauseId::Outage), &away(20_000, 20_500)),
        ("outage over a border", Some(CauseId::Outage), &away(65_000, 66_500)),
        ("queue in one", Some(CauseId::Queue), &plateau(70_000, 90_000)),
        ("queue over a border", Some(CauseId::Queue), &plateau(125_000, 140_000)),
        ("queue that fills most of one", Some(CauseId::Queue), &plateau(68_000, 129_000)),
        ("queue to the end of one", Some(CauseId::Queue), &plateau(72_000, 133_000)),
        ("queue that fills more than one", Some(CauseId::Queue), &plateau(40_000, 160_000)),
        ("queue that does not end", Some(CauseId::Queue), &plateau(60_000, MANY)),
        ("longer way for more than one", Some(CauseId::RouteChange), &until(50_000, 150_000)),
        ("route", Some(CauseId::RouteChange), &longer(100_000)),
        ("losses", Some(CauseId::RandomLoss), &|k| (draw(k, 3) >= 20).then_some(0)),
    ];
    for (name, fault, extra) in cases {
        let records = records(extra);
        let answer = |streaming: bool| {
            let options = Options { streaming, ..options() };
            analyze(&session, records.iter().copied(), &options).answer.unwrap()
        };
        let [exact, stretches] = [answer(false), answer(true)];
        assert_eq!(ids(&exact), Vec::from_iter(fault), "{name}: {:#?}", exact.causes);
        assert_eq!(ids(&stretches), ids(&exact), "{name}: {:#?}", stretches.causes);
        assert_eq!(stretches.severity, exact.severity, "{name}: {:#?} {:#?}", stretches.causes, exact.causes);
        let near = |a: f64, b: f64, by: f64| (a - b).abs() <= by;
        for (mine, theirs) in stretches.causes.iter().zip(&exact.causes) {
            let times = near(mine.from_s, theirs.from_s, 1.0) && near(mine.to_s, theirs.to_s, 1.0);
            assert!(times, "{name}: {mine:?} {theirs:?}");
            let sizes = mine.magnitude_ns.zip(theirs.magnitude_ns);
            assert!(sizes.is_none_or(|(a, b)| near(a as f64, b as f64, 0.05 * b as f64)), "{name}: {mine:?}");
            let shares = mine.magnitude.zip(theirs.magnitude);
            assert!(shares.is_none_or(|(a, b)| near(a, b, 0.05 * b)), "{name}: {mine:?} {theirs:?}");
            assert_eq!(mine.because, theirs.because, "{name}");
        }
    }
}

#[test]
fn a_test_of_one_stretch_is_judged_as_any_test() {
    for (_, records) in tests() {
        let [exact, one] = answers(&records, 65_536);
        assert_eq!(one, exact);
    }
}

#[test]
fn damaged_rows_and_rows_far_too_late_are_no_packets_of_a_stretch() {
    let mut all = records(|_| Some(0));
    let mut damaged = all[5000];
    damaged.flags = Flags::LENGTH;
    all[5000] = damaged;
    // Packet 10 arrives after all others: in its stretch it is lost.
    let late = all.remove(10);
    all.push(late);
    let [_, stretches] = answers(&all, 2500);
    assert_eq!(ids(&stretches), []);
}
