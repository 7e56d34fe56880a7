//! Comparison with LaTe's own output (reference captures 01 and 31, 40, 44).

use super::summary::{HEADER, LatencyType, Setting, USUAL_LEVELS, failed_row, row};
use super::*;
use jitlat_core::analysis::{Options, analyze};
use jitlat_core::twoway::TwoWay;
use jitlat_core::{Session, Span, Stamp, TestSpec};

fn record(seq: i64, sent_us: i64, latency_us: i64) -> PacketRecord {
    let stamp = |us: i64| Stamp { at: WallTime(us * 1000), source: Default::default() };
    let mut r = PacketRecord::new(seq);
    r.set(Moment::Sent, stamp(sent_us));
    r.set(Moment::Returned, stamp(sent_us + latency_us));
    r
}

fn rows(records: &[PacketRecord]) -> Vec<String> {
    let mut history = SampleHistory::default();
    records
        .iter()
        .filter_map(|r| history.sample(r))
        .map(|s| packets::row(&s, false, ExtraFields::ALL))
        .collect()
}

#[test]
fn packets_as_in_a_capture_with_loss_reordering_and_duplicates() {
    let theirs = "\
0,0.299,1795177680.799056,0,0.00,0,0.299,0.299
2,0.239,1795177680.839039,0,0.33,2,0.239,0.299
1,20.368,1795177680.819035,0,0.00,1,0.239,20.368
4,0.218,1795177680.879048,0,0.20,4,0.218,20.368
4,0.377,1795177680.879048,0,0.20,4,0.218,20.368
4,0.410,1795177680.879048,0,0.20,4,0.218,20.368
5,0.227,1795177680.899034,0,0.17,5,0.218,20.368
6,0.729,1795177680.919138,0,0.14,6,0.218,20.368
7,0.330,1795177680.939043,0,0.12,7,0.218,20.368";
    let at = 1_795_177_680_000_000;
    let ours = rows(&[
        record(0, at + 799_056, 299),
        record(2, at + 839_039, 239),
        record(1, at + 819_035, 20_368),
        record(4, at + 879_048, 218),
        record(4, at + 879_048, 377),
        record(4, at + 879_048, 410),
        record(5, at + 899_034, 227),
        record(6, at + 919_138, 729),
        record(7, at + 939_043, 330),
    ]);
    assert_eq!(ours.join("\n"), theirs);
    assert_eq!(
        packets::header(true, ExtraFields::ALL),
        "Sequence Number,RTT/Latency,Est server processing time,Tx_Timestamp_s_us,Error,PER till now,\
         Reconstructed Sequence Number,Current minimum,Current maximum"
    );
}

fn setting() -> Setting {
    Setting {
        unidirectional: false,
        raw: false,
        protocol: "UDP".into(),
        priority: 0,
        payload: 0,
        packets: Some(5),
        duration: None,
        interval: 20_000_000,
        random: None,
        latency: LatencyType::User,
        follow_up: false,
        // 2026-11-20 12:15:07
        began: WallTime(1_795_176_907 * 1_000_000_000),
        levels: USUAL_LEVELS,
        extra: ExtraFields::default(),
    }
}

#[test]
fn the_line_of_a_test_as_in_a_capture() {
    let theirs = "2026-11-20,12:15:07,Pinglike,Non raw,UDP,0,0,5,0,20.000,fixed periodic,-1.000000,5,User-to-user,Off,\
                  0.100,0.447,0.216,0.00,0,0,0.1350,0,0,4,4,0.00,1,0.087,0.345,0.049,0.384,0.000,0.494";
    let spec = TestSpec::new(
        jitlat_core::Direction::Up,
        jitlat_core::Transport::Udp,
        5,
        24,
        Span::millis(20),
        jitlat_core::Schedule::Periodic,
    );
    let mut session = Session::new(spec.unwrap());
    session.sent = Some(5);
    session.two_way = Some(Box::new(TwoWay::default()));
    let latencies = [165, 100, 212, 157, 447];
    let records: Vec<_> =
        (0..5).map(|i| record(i, 1_795_176_907_316_716 + i * 20_000, latencies[i as usize])).collect();
    let summary = analyze(&session, records, &Options::default());
    assert_eq!(row(&summary, &setting(), Some(4)), theirs);
    assert_eq!((HEADER.split(',').count(), theirs.split(',').count()), (34, 34));
    let end = stream::end(15_713, &summary, &setting(), Some(4), WallTime(1_795_176_908_000_000_000));
    assert!(
        end.starts_with("LaTeEND,15713,timestamp=1795176908,protocol=UDP,clientmode=pinglike,UP=0,"),
        "{end}"
    );
    assert!(
        end.contains("interval_type=fixed_periodic,int_distr_param=-1.000000,int_distr_batch=5"),
        "{end}"
    );

    assert!(end.ends_with(",reportok=1,confint95m=0.049,confint95p=0.384"), "{end}");
    let all = stream::end(1, &summary, &Setting { levels: [true; 3], ..setting() }, Some(4), WallTime(0));
    assert!(all.ends_with(",confint90m=0.087,confint90p=0.345,confint95m=0.049,confint95p=0.384,confint99m=0.000,confint99p=0.494"));

    let nothing = analyze(&session, [], &Options::default());
    let failed = row(&nothing, &setting(), None);
    assert!(failed.ends_with(",4294967295,18446744073709551615,100.00,0,-1,-1,-1,-1,-1,-1"), "{failed}");
}

/// A session that no server accepted, from a capture of LaTe.
#[test]
fn the_line_of_a_failed_test_as_in_a_capture() {
    let theirs = "2026-11-20,12:15:55,Pinglike,Non raw,UDP,0,0,3,0,20.000,fixed periodic,-1.000000,3,User-to-user,Off,\
                  0.000,0.000,0.000,100.00,0,0,0.0000,0,0,4294967295,18446744073709551615,100.00,0,-1,-1,-1,-1,-1,-1";
    let began = WallTime(1_795_176_955 * 1_000_000_000);
    assert_eq!(failed_row(&Setting { packets: Some(3), began, ..setting() }), theirs);
}

/// The smallest latency in the line of a test equals that in the line of its packet.
#[test]
fn packets_and_tests_are_rounded_alike() {
    for (ns, text) in [(223_499, "0.223"), (223_700, "0.224"), (999_999_999, "1000.000"), (400, "0.000")] {
        assert_eq!(ms(ns), text);
        assert_eq!(format!("{:.3}", ns as f64 / 1e6), text, "as in the line of a test");
    }
}

#[test]
fn a_listener_hears_what_late_would_say() {
    let mut history = SampleHistory::default();
    let s = history.sample(&record(0, 1_795_177_344_793_220, 223)).unwrap();
    assert_eq!(
        stream::sample(15_713, &s, false, ExtraFields::ALL),
        "LaTe,15713,0,0.223,1795177344.793220,0,0.00,0,0.223,0.223"
    );
    assert_eq!(
        stream::start(15_713, false, ExtraFields::ALL),
        "LaTeINIT,15713,fields=seq;latency;tx_timestamp;error;pertillnow;fullseq;currmin;currmax"
    );
    assert!("px".parse::<ExtraFields>().is_err());
    assert_eq!("p,m".parse(), Ok(ExtraFields { lost_so_far: true, min: true, ..ExtraFields::default() }));
}

#[test]
fn carbon_hears_each_interval_and_the_sum_of_its_losses_is_the_loss() {
    let mut history = SampleHistory::default();
    let mut interval = graphite::GraphiteInterval::default();
    let mut add = |interval: &mut graphite::GraphiteInterval, seq: i64, us: i64| {
        interval.add(&history.sample(&record(seq, 1_000_000 + seq, us)).unwrap());
    };
    for (seq, us) in [(0, 100), (1, 300), (4, 200), (4, 250)] {
        add(&mut interval, seq, us);
    }
    assert_eq!(
        interval.flush("a.b", 7).unwrap(),
        "a.b.avg 0.20000 7\na.b.max 0.30000 7\na.b.min 0.10000 7\na.b.stdev 0.10000 7\na.b.count 3 7\na.b.errors 0 7\n\
         a.b.outoforder 0 7\na.b.packetloss.local 2 7\na.b.packetloss.net 2 7\na.b.dupcount 1 7\n"
    );
    add(&mut interval, 2, 100);
    let second = interval.flush("a.b", 8).unwrap();
    assert!(second.contains("packetloss.local 0 8\na.b.packetloss.net -1 8"), "{second}");
    assert_eq!(interval.flush("a.b", 9), None);
}
