use super::*;
use crate::PROFILES;
use crate::testing::{MS, SECOND, Test, every, run};
use jitlat_core::PacketRecord;
use jitlat_core::metrics::clock::ClockEstimate;
use jitlat_core::metrics::qoo::RefusalReason;
use jitlat_core::scalars::ExactNumber;
use jitlat_core::spec::Transport;
use jitlat_core::time::{Span, WallTime};

/// Independent delays from 20 to 40 ms, of which one in 200 is 140 ms.
fn delay(k: u32) -> i64 {
    let scrambled = u64::from(k).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    if scrambled % 200 == 0 { 140 * MS } else { 20 * MS + (scrambled % 20_000) as i64 * 1000 }
}

/// Test of 5000 packets, one every 20 ms. Every hundredth packet is lost.
fn test() -> Test {
    let mut test = Test::new(5000, 20 * MS, &every(20 * MS, 5000, |k| (k % 100 != 50).then(|| delay(k))));
    test.clock = bounded(0, 5 * MS);
    test
}

fn bounded(correction: i64, bound: i64) -> ClockEstimate {
    ClockEstimate {
        correction_ns: Some(correction),
        offset_ns: Some(correction),
        bound_ns: Some(bound as f64),
        min_rtt_ns: Some(2 * bound),
        direction_known: true,
        ..ClockEstimate::default()
    }
}

fn measured(test: &Test) -> MeasuredQuality {
    let material = test.material();
    super::measured(&Case::new(&material), &PROFILES)
}

fn reason(test: &Test) -> RefusalReason {
    measured(test).delay.unwrap_err().reason
}

#[test]
fn delays_are_corrected_and_have_the_error_of_the_clocks() {
    let mut test = test();
    test.clock = bounded(3 * MS, 5 * MS);
    let found = measured(&test);
    let delays = found.delay.unwrap();
    assert_eq!(delays.iter().map(|d| d.percent.0).collect::<Vec<_>>(), [90_000, 95_000, 98_000]);
    assert!(delays.iter().all(|d| d.bound_ns == 5e6 && d.interval.ci95.is_some()));
    let p90 = delays[0];
    assert!((34e6..36e6).contains(&p90.ns), "{p90:?}");
    let [low, high] = p90.interval.ci95.unwrap();
    assert!(low as f64 <= p90.ns && p90.ns <= high as f64 && high - low < 2 * MS, "{p90:?}");
    let loss = found.loss.unwrap();
    assert_eq!((loss.ratio, loss.sent), (0.01, 5000));
    assert!(loss.interval.ci95.is_some_and(|[low, high]| low < 0.01 && 0.01 < high));
}

#[test]
fn clocks_that_do_not_bound_the_delay_are_refused() {
    let mut test = test();
    test.clock = ClockEstimate::default();
    assert_eq!(reason(&test), RefusalReason::ClockUnbounded);
    // A packet cannot arrive before it was sent.
    test.clock = bounded(30 * MS, 5 * MS);
    assert_eq!(reason(&test), RefusalReason::ClockUnbounded);
    // An unknown direction leaves the sign of the correction unknown, but not the bound.
    test.clock = ClockEstimate { direction_known: false, ..bounded(30 * MS, 25 * MS) };
    let delays = measured(&test).delay.unwrap();
    assert_eq!(delays[0].bound_ns, 25e6);
    assert!((40e6..46e6).contains(&delays[0].ns), "{:?}", delays[0]);
    // A round trip needs one clock only.
    test.clock = ClockEstimate::default();
    test.round_trip = true;
    assert_eq!(measured(&test).delay.unwrap()[0].bound_ns, 0.0);
}

#[test]
fn a_clock_that_was_set_is_refused() {
    let mut test =
        Test::new(2000, 20 * MS, &every(20 * MS, 2000, |k| Some(delay(k) + i64::from(k / 1000) * SECOND)));
    test.clock = bounded(0, 5 * MS);
    test.session.server.clock_step = Some(Span(SECOND));
    let material = test.material();
    let case = Case::new(&material);
    if case.was_set() {
        assert_eq!(measured(&test).delay.unwrap_err().text, sentences::CLOCK_WAS_SET);
    } else {
        panic!("the step of the clock was not found");
    }
}

#[test]
fn queues_leave_percentiles_unresolved() {
    // One queue of 5 s: its packets are one event, whatever their number.
    let packets =
        every(20 * MS, 2000, |k| Some(20 * MS + if (500..750).contains(&k) { 100 * MS } else { 0 }));
    let mut test = Test::new(2000, 20 * MS, &packets);
    test.clock = bounded(0, 5 * MS);
    let found = measured(&test);
    let voice = OutcomeScore::new(PROFILES[0].qoo.as_ref().unwrap(), "", &found);
    assert_eq!(voice.refused.map(|refused| refused.reason), Some(RefusalReason::PercentileNotResolved));
    assert_eq!((voice.score, voice.delay[0].ci95_ns), (None, None));
}

#[test]
fn losses_of_the_hosts_do_not_count() {
    let test = test();
    let material = test.material();
    let mut case = Case::new(&material);
    case.losses.runs = vec![run(100, 1), run(900, 2)];
    case.dropped_by_receiver = vec![run(2000, 1000)];
    let loss = super::loss(&case).unwrap();
    assert_eq!((loss.sent, loss.ratio), (4000, 3.0 / 4000.0));
}

#[test]
fn tcp_hides_loss() {
    let packets = every(20 * MS, 1000, |k| Some(delay(k)));
    let traffic = (Direction::Up, Transport::Tcp);
    let test = Test::with(1000, 20 * MS, &packets, Schedule::Periodic, traffic);
    assert_eq!(measured(&test).loss.unwrap_err().reason, RefusalReason::LossUnknown);
}

/// Summary of a test whose packets take this long and are lost if it is `None`.
fn analysed(session: &Session, delay: impl Fn(u32) -> Option<i64>) -> Summary {
    let records = every(20 * MS, 3000, delay).into_iter().map(|p| {
        let sent = WallTime(p.sent);
        PacketRecord::one_way(p.seq.into(), sent, sent + Span(p.delay))
    });
    crate::analyze(session, records)
}

#[test]
fn a_summary_has_a_score_for_each_profile_and_what_must_accompany_it() {
    use std::net::{IpAddr, Ipv4Addr};
    let here = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let spec = jitlat_core::TestSpec::new(
        Direction::Up,
        Transport::Udp,
        3000,
        80,
        Span(20 * MS),
        Schedule::Periodic,
    );
    let session = Session { src: here, dst: here, sent: Some(3000), ..Session::new(spec.unwrap()) };
    let summary = analysed(&session, |k| (k % 300 != 7).then(|| delay(k)));
    let qoo = summary.answer.as_ref().unwrap().qoo.as_ref().unwrap();
    let of = |name: &str| qoo.profiles[name].score.unwrap();
    // The 98th percentile is optimal, and one packet of 300 is lost.
    assert_eq!(qoo.profiles.len(), PROFILES.len());
    let loss = 100.0 * (1.0 - (1.0 / 300.0 - 0.001) / 0.029);
    assert!((of("video") - loss).abs() < 1e-9, "{}", of("video"));
    let v2x = &qoo.profiles["v2x"];
    assert!(of("v2x") > 70.0 && of("v2x") < 85.0, "38 ms of 20 to 100 ms: {v2x:?}");
    let [low, high] = v2x.ci95.unwrap();
    assert!(low <= of("v2x") && of("v2x") <= high && high - low < 10.0, "{v2x:?}");
    assert!(v2x.left_out.is_none() && qoo.profiles["voice"].left_out.is_some());
    let m = &qoo.measurement;
    assert_eq!((m.method.as_str(), m.kind.as_str(), m.layer.as_str()), ("one-way", "active", "UDP"));
    assert_eq!((m.packet_bytes, m.sampling.as_str(), m.direction.as_str()), (Some(80), "periodic", "up"));
    assert_eq!((m.samples, m.sent, m.duration_ns), (2990, Some(3000), Some(2999 * 20 * MS)));
    assert_eq!(m.clock_bound_ns, Some(0.0));
    // The scalars read the same scores.
    let scalar: jitlat_core::scalars::Selector = "qoo.v2x".parse().unwrap();
    assert_eq!(scalar.of(&summary).map(ExactNumber::as_f64), Some(of("v2x")));
}

#[test]
fn without_a_clock_every_score_says_so() {
    let summary = analysed(&Session::new(Default::default()), |k| Some(delay(k)));
    let qoo = summary.answer.unwrap().qoo.unwrap();
    for score in qoo.profiles.values() {
        assert_eq!((score.score, score.ci95), (None, None));
        assert_eq!(score.refused.as_ref().unwrap().reason, RefusalReason::ClockUnbounded);
    }
}
