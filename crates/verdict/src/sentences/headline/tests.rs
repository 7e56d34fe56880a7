use super::*;
use crate::testing::{MS, answer, cause, known};
use jitlat_core::answer::LargestEvent;
use jitlat_core::session::Ending;
use jitlat_core::spec::Direction;

const WHOLE: KnownPackets = known(1000, 0, true);

fn of(severity: Severity, causes: Vec<Cause>) -> String {
    headline(&answer(severity, causes), Ending::Complete, WHOLE, [1000, 0], None)
}

#[test]
fn a_headline_names_the_first_cause_that_hurts() {
    assert_eq!(of(Severity::Good, vec![]), "Good: nothing is wrong.");
    assert_eq!(of(Severity::Fair, vec![]), "Fair: no single cause explains it.");
    let felt = headline(
        &answer(Severity::Poor, vec![]),
        Ending::Complete,
        WHOLE,
        [1000, 0],
        Some("the delay varies"),
    );
    assert_eq!(felt, "Poor: the delay varies.");
    let harmless = || Cause { severity: Severity::Good, ..cause(CauseId::Duplication) };
    // A cause without effect does not explain a path that is not good.
    assert_eq!(of(Severity::Fair, vec![harmless()]), "Fair: no single cause explains it.");
    assert_eq!(of(Severity::Good, vec![harmless()]), "Good: 5.0 % of packets arrive twice.");
    let skipped = of(Severity::Bad, vec![cause(CauseId::IncompleteLog), cause(CauseId::RandomLoss)]);
    assert_eq!(skipped, "Bad: 5.0 % of packets lost, in isolated losses, from 1.0 s to 2.0 s.");
}

#[test]
fn the_senders_own_queue_is_always_named() {
    let queue = |ns: i64| Cause { magnitude_ns: Some(ns), ..cause(CauseId::LocalQueue) };
    let text = of(Severity::Fair, vec![cause(CauseId::RandomLoss), queue(20 * MS)]);
    assert!(text.starts_with("Fair: 5.0 % of packets lost"), "{text}");
    let named = "; packets waited up to 20 ms in the sending host's own interface, from 1.0 s to 2.0 s.";
    assert!(text.ends_with(named), "{text}");
    assert_eq!(of(Severity::Good, vec![queue(20 * MS)]).matches("own interface").count(), 1);
    let short = of(Severity::Fair, vec![cause(CauseId::RandomLoss), queue(20 * MS - 1)]);
    assert!(!short.contains("own interface"), "{short}");
}

#[test]
fn a_rate_that_was_not_reached_restricts_the_headline() {
    let at = |headline: &str, transport| {
        at_rate(headline, RateReached { sent: 62_000.0, asked: 893_000.0, transport, marked: false })
    };
    let reached = RateReached { sent: 50.0, asked: 200.0, transport: Transport::Udp, marked: true };
    let marked = at_rate("Good: nothing is wrong.", reached);
    assert!(marked.contains("(CE)") && !marked.contains("host"), "{marked}");
    assert_eq!(
        at("Good: nothing is wrong.", Transport::Udp),
        "Good at 62000 packets per second, not measured at the requested 893000, which the sending host did not \
         reach: nothing is wrong."
    );
    assert_eq!(
        at("No verdict: 20 packets are too few.", Transport::Tcp),
        "No verdict: 20 packets are too few. Not measured as requested: the sender or its connection reached only \
         62000 of 893000 packets per second."
    );
}

#[test]
fn further_causes_are_counted() {
    let loss = || cause(CauseId::RandomLoss);
    let more = |others: Vec<Cause>| of(Severity::Fair, [vec![loss()], others].concat());
    let text = "Fair: 5.0 % of packets lost, in isolated losses, from 1.0 s to 2.0 s";
    assert_eq!(more(vec![]), format!("{text}."));
    assert_eq!(more(vec![loss()]), format!("{text} (1 more)."));
    assert_eq!(more(vec![loss(), loss()]), format!("{text} (2 more)."));
    let harmless = Cause { severity: Severity::Good, ..loss() };
    assert_eq!(more(vec![harmless, cause(CauseId::IncompleteLog)]), format!("{text}."));
}

#[test]
fn a_buffer_is_said_where_it_helps() {
    let of = |severity| {
        headline(
            &Answer { buffer_ns: Some(20 * MS), ..answer(severity, vec![]) },
            Ending::Complete,
            WHOLE,
            [1000, 0],
            None,
        )
    };
    assert_eq!(of(Severity::Good), "Good: nothing is wrong; set a buffer of 20 ms.");
    let least = Answer { buffer_ns: Some(MS), ..answer(Severity::Good, vec![]) };
    assert_eq!(
        headline(&least, Ending::Complete, WHOLE, [1000, 0], None),
        "Good: nothing is wrong; set a buffer of under 1 ms."
    );
    assert_eq!(of(Severity::Fair), "Fair: no single cause explains it; set a buffer of 20 ms.");
    assert_eq!(of(Severity::Poor), "Poor: no single cause explains it.");
}

#[test]
fn what_is_not_recorded_is_said_first() {
    let of = |sent, unknown| {
        let known = known(sent, unknown, false);
        headline(&answer(Severity::Good, vec![]), Ending::Complete, known, [sent, 0], None)
    };
    assert_eq!(of(1000, 0), "The log is incomplete. Good: nothing is wrong.");
    assert_eq!(
        of(900, 100),
        "The log is incomplete: 100 packets (10 %) are unknown. Good: nothing is wrong."
    );
    assert!(of(900, 1).starts_with("The log is incomplete: 1 packet (0.11 %) is unknown."));
    let stopped = answer(Severity::Good, vec![]);
    let stopped = headline(&stopped, Ending::ServerStopped, known(900, 100, false), [900, 0], None);
    assert!(stopped.starts_with("The server was stopped during the test: 100 packets"), "{stopped}");
}

#[test]
fn nothing_that_arrives_is_said_of_whole_tests_only() {
    let of = |known, received| {
        headline(&answer(Severity::Bad, vec![]), Ending::Complete, known, [received, 0], None)
    };
    assert!(of(WHOLE, 0).starts_with("Bad: nothing arrived"));
    assert!(of(WHOLE, 1).starts_with("Bad: no single cause"));
    assert!(
        of(KnownPackets { complete: false, ..WHOLE }, 0).starts_with("The log is incomplete. Bad: no single")
    );
    assert!(of(KnownPackets { sent: 0, ..WHOLE }, 0).starts_with("Bad: no single cause"));
}

#[test]
fn too_few_packets_are_counted() {
    let of = |sent, lost| {
        let known = known(sent, 0, true);
        headline(&answer(Severity::Unknown, vec![]), Ending::Complete, known, [sent - lost, lost], None)
    };
    assert_eq!(of(0, 0), "No verdict: no packets are known.");
    assert_eq!(
        of(60, 0),
        "No verdict: 60 packets are too few; none were lost, so loss is below 5.0 % (95 % confidence)."
    );
    assert_eq!(of(1, 0), "No verdict: 1 packet is too few; none were lost.");
    assert_eq!(of(2, 1), "No verdict: 2 packets are too few; 1 was lost.");
    let of = |events, ci95| {
        too_few_packets(50, 3, Some(&ShareInterval { events, ci95, ..ShareInterval::default() }))
    };
    assert_eq!(too_few_packets(50, 0, None), "50 packets are too few; TCP repeats lost packets");
    assert_eq!(
        of(1, None),
        "50 packets are too few; 3 were lost in one event, which does not show how often it happens"
    );
    assert_eq!(
        of(3, Some([0.012, 0.17])),
        "50 packets are too few; 3 were lost, so loss is between 1.2 % and 17 % (95 % confidence)"
    );
}

#[test]
fn each_kind_of_cause_has_its_sentence() {
    let table = [
        (CauseId::Outage, "no packet arrived in the up direction for 30 ms, from 1.0 s on"),
        (CauseId::Queue, "packets waited up to 30 ms in a queue in the up direction, from 1.0 s to 2.0 s"),
        (CauseId::RandomLoss, "5.0 % of packets lost in the up direction, in isolated losses"),
        (CauseId::BurstyLoss, "5.0 % of packets lost in the up direction, in bursts"),
        (CauseId::Policing, "5.0 % of packets lost in the up direction, dropped by a rate limit"),
        (CauseId::PeriodicLoss, "5.0 % of packets lost in the up direction at regular intervals, every 0 ns"),
        (CauseId::Reordering, "5.0 % of packets reordered in the up direction"),
        (CauseId::RouteChange, "the path in the up direction became 30 ms longer at 1.0 s: a route change"),
        (CauseId::ClockStep, "nothing is wrong with the path; a clock was set by 30 ms at 1.0 s"),
        (CauseId::ClockSkew, "nothing is wrong with the path; the clocks drift apart by 30 ms"),
        (CauseId::SenderStall, "the sender stalled for 30 ms, from 1.0 s on"),
        (CauseId::ReceiverStall, "the receiver stalled for 30 ms, from 1.0 s on"),
        (
            CauseId::LocalQueue,
            "packets waited up to 30 ms in the sending host's own interface, from 1.0 s to 2.0 s",
        ),
        (CauseId::Duplication, "5.0 % of packets arrive twice in the up direction"),
        (
            CauseId::SizeDependent,
            "5.0 % of packets lost in the up direction, all of more than a certain size",
        ),
        (CauseId::SendFailure, "the sending host did not send 5.0 % of the packets"),
        (CauseId::IncompleteLog, "a part of the test is unknown"),
    ];
    for (id, text) in table {
        assert_eq!(sentence(&Cause { direction: Some(Direction::Up), ..cause(id) }, 0), text);
    }
    let largest = Some(LargestEvent { from_s: 1.5, to_s: 2.0, magnitude_ns: 30 * MS });
    let twice = |id| sentence(&Cause { count: 2, largest, ..cause(id) }, 0);
    assert_eq!(twice(CauseId::Outage), "2 outages, the longest 30 ms, from 1.0 s to 2.0 s");
    assert_eq!(twice(CauseId::SenderStall), "the sender stalled 2 times, the longest for 30 ms at 1.5 s");
    let down = sentence(&Cause { direction: Some(Direction::Down), ..cause(CauseId::RandomLoss) }, 0);
    assert_eq!(down, "5.0 % of packets lost in the down direction, in isolated losses");
    let no_size = Cause { because: "no size".into(), ..cause(CauseId::SizeDependent) };
    assert_eq!(sentence(&no_size, 0), "5.0 % of packets lost, all of more than a certain size");
}
