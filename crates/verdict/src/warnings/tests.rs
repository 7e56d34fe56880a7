use super::*;
use crate::testing::{MS, SYNCHRONISED, answer, cause, first, run};
use jitlat_core::answer::Severity;
use jitlat_core::metrics::clock::Corrected;
use jitlat_core::metrics::schedule_error::{HandedOver, Stretched};
use jitlat_core::noise::Noise;
use jitlat_core::spec::TestSpec;
use jitlat_core::summary::PathSegment;
use jitlat_core::twoway::TwoWayFigures;

/// Summary without reasons for doubt.
fn sound() -> Summary {
    let mut s = Summary::default();
    (s.counts.received, s.counts.unique_valid, s.pdv.n) = (5000, 5000, 5000);
    s.reordering.observable = true;
    s.latency.min = Some(5 * MS);
    (s.clock.offset_ns, s.clock.direction_known, s.clock.min_rtt_ns) = (Some(0), true, Some(10 * MS));
    s.latency_corrected = Some(Corrected { min: Some(5 * MS), ..Corrected::default() });
    s.answer = Some(answer(Severity::Good, vec![]));
    s
}

fn session() -> Session {
    Session { ending: Ending::Complete, ..Session::new(TestSpec::default()) }
}

/// Returns the warnings about this summary after `change`.
fn warnings(change: impl FnOnce(&mut Summary)) -> Vec<Warning> {
    let mut s = sound();
    change(&mut s);
    Notes::of(&s, &session(), false)
}

fn codes(change: impl FnOnce(&mut Summary)) -> Vec<String> {
    warnings(change).into_iter().map(|w| w.code.into_owned()).collect()
}

fn text(change: impl FnOnce(&mut Summary)) -> String {
    let [warning] = warnings(change).try_into().unwrap();
    warning.text
}

/// Returns the first number for which `code` is the only warning.
fn from(code: &str, range: core::ops::RangeInclusive<i64>, set: impl Fn(&mut Summary, i64)) -> i64 {
    first(range, |x| codes(|s| set(s, x)).iter().any(|c| c == code))
}

#[test]
fn nothing_is_said_of_sound_figures() {
    assert_eq!(codes(|_| ()), [""; 0]);
}

#[test]
fn what_stopped_the_test_early_is_said() {
    let of = |version, ending| {
        let session = Session { version, ending, reason: Some("why".into()), ..session() };
        let [w] = Notes::of(&sound(), &session, false).try_into().ok()?;
        assert_eq!(w.code, "incomplete");
        Some(w.text)
    };
    assert_eq!(of(3, Ending::Complete), None);
    assert_eq!(of(2, Ending::Unknown), None);
    let table = [
        (Ending::Interrupted, "the test was stopped early"),
        (Ending::PeerLost, "the connection to the other host was lost during the test"),
        (Ending::ServerStopped, "the test ended early"),
        (Ending::StorageFailed, "not all results could be stored"),
        (Ending::Unknown, "the log is truncated"),
    ];
    for (ending, how) in table {
        assert_eq!(of(3, ending).unwrap(), format!("{how} (why); the figures cover what was received"));
    }
    let unknown = |unrecorded| {
        let mut s = sound();
        s.counts.tail_unknown = true;
        let session = Session { unrecorded, ..session() };
        let [w] = Notes::of(&s, &session, false).try_into().unwrap();
        assert_eq!(w.code, "tail_unknown");
        w.text
    };
    assert!(unknown(vec![]).starts_with("the fate of the packets after the last arrival is unknown"));
    assert!(unknown(vec![run(10, 5)]).starts_with("the log has no rows for some packets"));
}

#[test]
fn a_sample_may_be_none_or_small() {
    assert_eq!(codes(|s| s.counts.received = 0), ["nothing_received"]);
    assert_eq!(codes(|s| s.counts.unique_valid = 0), ["nothing_valid"]);
    for (n, few) in [(0, false), (1, true), (999, true), (1000, false)] {
        assert_eq!(codes(|s| s.pdv.n = n) == ["few_packets"], few, "{n} packets");
    }
    assert_eq!(codes(|s| s.ipdv.quantised = true), ["coarse_clock"]);
    assert_eq!(codes(|s| s.reordering.observable = false), ["tcp"]);
}

#[test]
fn jumps_are_said_where_the_answer_names_one() {
    let jumps = |n: usize, id| {
        move |s: &mut Summary| {
            s.segments =
                vec![PathSegment { step_ns: Some(3 * MS), first_seq: 70, ..PathSegment::default() }; n];
            s.answer = Some(answer(Severity::Good, vec![cause(id)]));
        }
    };
    assert_eq!(codes(jumps(1, CauseId::RouteChange)), [""; 0]);
    assert_eq!(codes(jumps(2, CauseId::RouteChange)), ["path_change"]);
    assert_eq!(codes(jumps(2, CauseId::ClockStep)), ["path_change"]);
    assert_eq!(codes(jumps(2, CauseId::Queue)), [""; 0]);
    let said = text(jumps(3, CauseId::ClockStep));
    assert!(said.starts_with("the smallest delay changes 2 times, first by 3.00 ms at packet 70"), "{said}");
    // A summary without a verdict.
    let unanswered = codes(|s| {
        jumps(2, CauseId::Queue)(s);
        s.answer = None;
    });
    assert_eq!(unanswered, ["path_change"]);
}

#[test]
fn a_clock_that_was_set_is_said_from_a_millisecond_on() {
    let client = |s: &mut Summary, ns| s.clock.client.step_ns = Some(ns);
    let server = |s: &mut Summary, ns: i64| s.clock.server.step_ns = Some(-ns);
    assert_eq!(from("clock_step", 0..=10 * MS, client), MS + 1);
    assert_eq!(from("clock_step", 0..=10 * MS, server), MS + 1);
    assert_eq!(text(|s| client(s, 2 * MS)), "the client's clock was set by 2.00 ms during the test");
    assert_eq!(codes(|s| s.clock.inconsistent = true), ["clock_inconsistent"]);
    assert_eq!(from("receive_time_went_back", 0..=5, |s, n| s.counts.rx_time_regressions = n as u64), 1);
}

#[test]
fn a_raw_delay_below_0_shows_two_clocks() {
    let below = |s: &mut Summary, ns: i64| s.latency.min = Some(-ns);
    assert_eq!(from("negative_delay", -5..=5, below), 1);
}

#[test]
fn clocks_are_unknown_without_an_offset_or_a_kernel_that_knows() {
    let of = |change: fn(&mut Summary), round_trips| {
        let mut s = sound();
        s.clock.offset_ns = None;
        change(&mut s);
        Notes::of(&s, &session(), round_trips).iter().any(|w| w.code == "clocks_unknown")
    };
    assert!(of(|_| (), false));
    assert!(!of(|_| (), true));
    assert!(!of(|s| s.clock.offset_ns = Some(1), false));
    let synchronised = |s: &mut Summary| {
        (s.clock.client.after, s.clock.server.after) = (Some(SYNCHRONISED), Some(SYNCHRONISED));
    };
    assert!(!of(synchronised, false));
    assert!(!of(|s| (s.header.src_ip, s.header.dst_ip) = (Some("::1".into()), Some("::1".into())), false));
    assert!(of(|s| (s.header.src_ip, s.header.dst_ip) = (Some("::1".into()), Some("::2".into())), false));
}

/// A queue throughout the test that the clock probes do not meet.
fn queued(s: &mut Summary) {
    s.answer = Some(answer(Severity::Fair, vec![cause(CauseId::Queue)]));
}

#[test]
fn a_delay_above_the_round_trip_contradicts_it() {
    let raw = |s: &mut Summary, ns| s.latency.min = Some(ns);
    assert_eq!(from("delay_exceeds_rtt", MS..=90 * MS, raw), 10 * MS + 1);
    let behind_a_queue = codes(|s| {
        raw(s, 11 * MS);
        queued(s);
    });
    assert_eq!(behind_a_queue, [""; 0]);
    // Without a round trip there is no contradiction.
    for rtt in [None, Some(0)] {
        let of = codes(|s| (s.latency.min, s.clock.min_rtt_ns) = (Some(11 * MS), rtt));
        assert_eq!(of, [""; 0]);
    }
}

#[test]
fn a_corrected_delay_lies_between_0_and_the_round_trip() {
    let set = |s: &mut Summary, ns| s.latency_corrected.as_mut().unwrap().min = Some(ns);
    let code = "corrected_out_of_range";
    // 0.1 ms are allowed for the hosts.
    assert_eq!(from(code, 0..=MS, |s, ns| set(s, -ns)), HOST_WAKE_UP_NS + 1);
    assert_eq!(from(code, MS..=90 * MS, set), 10 * MS + HOST_WAKE_UP_NS + 1);
    let behind_a_queue = |ns| {
        codes(|s| {
            set(s, ns);
            queued(s);
        })
    };
    assert_eq!(behind_a_queue(11 * MS), [""; 0]);
    assert_eq!(behind_a_queue(-MS), [code]);
}

#[test]
fn a_path_is_asymmetric_unless_the_round_trip_is_some_two_delays() {
    let is_said = |ns| codes(|s| s.latency_corrected.as_mut().unwrap().min = Some(ns)) == ["asymmetric"];
    // 10 ms are four times 2.475 ms and 0.1 ms, and 1.5 times 6.7333 ms less 0.1 ms.
    assert_eq!(first(1..=5 * MS, |ns| !is_said(ns)), 2_475_000);
    assert_eq!(first(5 * MS..=10 * MS, is_said), 6_733_334);
    assert!(!is_said(0) && !is_said(-1));
    let said = text(|s| s.latency_corrected.as_mut().unwrap().min = Some(2 * MS));
    assert!(
        said.starts_with("the round trip of 10.0 ms is 5.0 times the smallest corrected delay of 2.00 ms"),
        "{said}"
    );
    let behind_a_queue = codes(|s| {
        s.latency_corrected.as_mut().unwrap().min = Some(MS);
        queued(s);
    });
    assert_eq!(behind_a_queue, [""; 0]);
    assert_eq!(codes(|s| s.clock.direction_known = false), ["direction_unknown"]);
}

#[test]
fn a_late_sender_is_said_once() {
    let late = |n: i64, of_program: Option<u64>| {
        move |s: &mut Summary| {
            s.schedule_error = Some(ScheduleError {
                over_half_period: n as u64,
                max: 3 * MS,
                handed_over: of_program.map(|n| HandedOver { over_half_period: n, max: 2 * MS, p99: MS }),
                ..Default::default()
            });
        }
    };
    assert_eq!(first(0..=5, |n| codes(late(n, None)) == ["sender_late"]), 1);
    assert!(text(late(2, None)).contains("half a period late 2 times, at most 3.00 ms"));
    // Packets that waited in the host's own queue were passed to the kernel in time.
    assert_eq!(codes(late(500, Some(0))), [""; 0]);
    assert!(text(late(500, Some(1))).contains("half a period late 1 time, at most 2.00 ms"));
}

#[test]
fn a_stretched_stream_is_said_with_both_rates() {
    let stretched = |s: &mut Summary| {
        let stretched = Some(Stretched { late: 1.2e9, rate: 179_999.6, asked: 250_000.0 });
        s.schedule_error = Some(ScheduleError { over_half_period: 9, stretched, ..Default::default() });
    };
    assert_eq!(codes(stretched), ["schedule_stretched"]);
    let said = text(stretched);
    assert!(
        said.starts_with("the sending host sent 180000 packets per second instead of 250000")
            && said.ends_with("was 1.20 s behind at the end; --pace spin may help"),
        "{said}"
    );
    let slow = text(|s| {
        let stretched = Some(Stretched { late: 9.0e9, rate: 0.357, asked: 0.714 });
        s.schedule_error = Some(ScheduleError { stretched, ..Default::default() });
    });
    assert!(slow.starts_with("the sending host sent 0.36 packets per second instead of 0.71"), "{slow}");
}

#[test]
fn a_stall_is_suspected_where_the_answer_names_one() {
    let of = |n: i64, id| {
        codes(|s| {
            s.stalls.receiver_suspects = n as u64;
            s.answer = Some(answer(Severity::Good, vec![cause(id)]));
        })
    };
    assert_eq!(first(0..=5, |n| of(n, CauseId::ReceiverStall) == ["stall_suspect"]), 1);
    assert_eq!(of(1, CauseId::Queue), [""; 0]);
}

#[test]
fn what_the_hosts_added_is_said() {
    let noise = |keys: &[&str]| {
        let at_or_below = keys.iter().map(|k| (*k).to_owned()).collect();
        codes(move |s| s.noise = Some(Noise { at_or_below, floor: Default::default(), stddev_net: None }))
    };
    assert_eq!(noise(&[]), [""; 0]);
    assert_eq!(noise(&["50"]), ["noise_floor"]);
    let drops = |n: i64| {
        let session = Session { receiver_drops: Some(n as u64), ..session() };
        Notes::of(&sound(), &session, false).iter().any(|w| w.code == "receiver_drops")
    };
    assert_eq!(first(0..=5, drops), 1);
    assert_eq!(codes(|s| s.pdv_deskewed = Some(Default::default())), ["skew"]);
}

#[test]
fn another_class_or_a_mark_on_arrival_is_said() {
    let arrived = |asked: u8, classes: &[(u8, u64)], two_way: bool| {
        warnings(|s| {
            s.header.dscp = asked;
            s.far_end.dscp = classes.iter().copied().collect();
            s.two_way = two_way.then(|| Box::new(TwoWayFigures::default()));
        })
    };
    assert!(arrived(46, &[], false).is_empty() && arrived(46, &[(46, 100)], false).is_empty());
    let [changed] = arrived(46, &[(46, 100), (0, 20), (8, 30)], false).try_into().unwrap();
    assert_eq!(changed.code, "dscp_changed");
    assert_eq!(changed.text, "sent with DSCP 46, but 50 of 150 packets arrived with another, mostly 8");
    assert_eq!(arrived(46, &[(0, 20)], true).len(), 1);
    assert_eq!(arrived(0, &[(8, 20)], false).len(), 1);
    assert!(arrived(0, &[(8, 20)], true).is_empty(), "answers to plain requests have a class of their own");
    // Answers with a requested class.
    let answers = |seen: u8| {
        warnings(|s| {
            s.header.dscp = 34;
            s.far_end.dscp = [(seen, 20)].into();
            s.two_way = Some(Box::new(TwoWayFigures { answer_dscp: Some(8), ..TwoWayFigures::default() }));
        })
    };
    assert!(answers(8).is_empty());
    let [changed] = answers(34).try_into().unwrap();
    assert_eq!(
        changed.text,
        "answers were requested with DSCP 8, but 20 of 20 packets arrived with another, mostly 34"
    );
    // Marks of requests, as STAMP's far host reports them.
    let requests = |asked: u8, dscp: &[(u8, u64)], ecn: &[(u8, u64)]| {
        let said = warnings(|s| {
            s.header.dscp = asked;
            s.two_way = Some(Box::new(TwoWayFigures {
                request_dscp: dscp.iter().copied().collect(),
                request_ecn: ecn.iter().copied().collect(),
                ..TwoWayFigures::default()
            }));
        });
        said.into_iter().map(|w| (w.code.into_owned(), w.text)).collect::<Vec<_>>()
    };
    assert!(requests(46, &[], &[]).is_empty() && requests(46, &[(46, 20)], &[(0, 20)]).is_empty());
    let [(code, text)] = requests(46, &[(46, 5), (0, 15)], &[(0, 20)]).try_into().unwrap();
    assert_eq!(
        (code.as_str(), text.as_str()),
        (
            "request_dscp_changed",
            "the path changes the class of service: requests were sent with DSCP 46 (EF), but 15 of 20 arrived at the \
             far host with another, mostly DSCP 0"
        )
    );
    let codes_of: Vec<String> =
        requests(0, &[(0, 20)], &[(3, 4), (2, 16)]).into_iter().map(|w| w.0).collect();
    assert_eq!(codes_of, ["request_congestion_marked", "request_ecn_changed"]);
    let marked = |n: i64| codes(|s| s.far_end.ecn = [(3, n as u64)].into()) == ["congestion_marked"];
    assert_eq!(first(0..=5, marked), 1);
}
