//! Tests requested on a page send the same packets as tests started from the command line.

use super::instruments::MonitorInstruments;
use jitlat_monitor::runtime::DemandedTest;
use jitlat_web::{HostOffer, RunRefusal, RunRequest};

fn host(only_answers: bool) -> HostOffer {
    HostOffer { name: "oslo".to_owned(), address: "10.0.0.2".to_owned(), only_answers }
}

fn request(fields: &[(&str, &str)]) -> RunRequest {
    let json = fields.iter().map(|(k, v)| ((*k).to_owned(), serde_json::Value::from(*v)));
    serde_json::from_value(json.collect()).unwrap()
}

#[test]
fn a_request_is_what_the_command_line_would_send() {
    let of = |fields: &[(&str, &str)]| {
        DemandedTest::of(&request(fields), &host(false), &MonitorInstruments).unwrap().planned()
    };
    let usual = of(&[]);
    assert_eq!((usual.packets, usual.duration_ns, usual.bits_per_second), (2000, 20_000_000_000, 50_400));
    assert_eq!(usual.about, "one-way, UDP, both directions: 1000 packets in 20 s");
    let there =
        of(&[("test", "one-way-tcp"), ("direction", "forward"), ("packets", "10"), ("period", "10ms")]);
    assert_eq!((there.packets, there.duration_ns), (10, 100_000_000));
    let voice = of(&[("profile", "voice"), ("duration", "5s"), ("test", "ping-stamp")]);
    assert_eq!(voice.about, "round trips, STAMP: 250 packets in 5 s, like voice");
    let large = of(&[("size", "1000"), ("direction", "backward")]);
    assert!(large.bits_per_second > 8 * usual.bits_per_second && large.packets == 1000);
    // With a load the test is repeated, and the load counts.
    let loaded = of(&[("load", "both"), ("load_rate", "2Mbit")]);
    assert_eq!((loaded.packets, loaded.duration_ns), (2 * usual.packets, 41_000_000_000));
    assert!((2_050_000..2_200_000).contains(&loaded.bits_per_second), "{loaded:?}");
    assert!(loaded.about.ends_with(", idle and under load (2Mbit both)"), "{loaded:?}");
    let ping = of(&[("test", "ping-icmp"), ("load", "up")]);
    assert!(ping.bits_per_second > 5_000_000 && ping.about.ends_with("(5Mbit up)"), "{ping:?}");
    // Every offered test can be requested.
    for test in DemandedTest::offered() {
        assert!(
            of(&[("test", &test.id), ("direction", if test.one_way { "forward" } else { "" })]).packets > 0
        );
    }
}

#[test]
fn what_is_wrong_is_said_of_its_field() {
    for (fields, answers, field, said) in [
        (&[("test", "x")][..], false, "test", "unknown test 'x'"),
        (&[("test", "one-way-udp")], true, "test", "can only be pinged"),
        (&[("direction", "up")], false, "direction", "'up' is not a direction"),
        (&[("direction", "forward"), ("test", "ping-icmp")], false, "direction", "both directions"),
        (&[("duration", "soon")], false, "duration", "soon"),
        (&[("packets", "x")], false, "packets", "x"),
        (&[("packets", "5"), ("duration", "5s")], false, "packets", "duration"),
        (&[("period", "-1")], false, "period", ""),
        (&[("size", "3")], false, "", ""),
        (&[("profile", "vioce")], false, "profile", "vioce"),
        (&[("load", "sideways")], false, "load", "'sideways' is not a load"),
        (&[("load", "up"), ("test", "ping-icmp")], true, "load", "can only be pinged"),
        (&[("load", "up"), ("load_rate", "5Mbit,streams=31")], false, "load_rate", "not a rate"),
        (&[("load", "up"), ("load_rate", "1Mbit+tcp")], false, "load_rate", "not a rate"),
    ] {
        let Err(RunRefusal::Field(about, why)) =
            DemandedTest::of(&request(fields), &host(answers), &MonitorInstruments)
        else {
            panic!("{fields:?}")
        };
        assert!(about == field && why.contains(said), "{fields:?}: {about}: {why}");
    }
}
