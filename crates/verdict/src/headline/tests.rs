use super::*;
use crate::severity::Waits;
use crate::testing::{MS, answer, cause, first, known};

const WHOLE: KnownPackets = known(1000, 0, true);

fn of(severity: Severity, causes: Vec<Cause>) -> String {
    headline(&answer(severity, causes), WHOLE, [1000, 0], None)
}

#[test]
fn a_headline_names_the_first_cause_that_hurts() {
    assert_eq!(of(Severity::Good, vec![]), "Good: nothing is wrong.");
    assert_eq!(of(Severity::Fair, vec![]), "Fair: no single cause accounts for it.");
    let felt = headline(&answer(Severity::Poor, vec![]), WHOLE, [1000, 0], Some("the delay varies"));
    assert_eq!(felt, "Poor: the delay varies.");
    let harmless = || Cause { severity: Severity::Good, ..cause(CauseId::Duplication) };
    // What nobody notices is not what is wrong with a path that is not good.
    assert_eq!(of(Severity::Fair, vec![harmless()]), "Fair: no single cause accounts for it.");
    assert_eq!(of(Severity::Good, vec![harmless()]), "Good: 5.0 % of the packets arrive twice.");
    let skipped = of(Severity::Bad, vec![cause(CauseId::IncompleteLog), cause(CauseId::RandomLoss)]);
    assert_eq!(skipped, "Bad: 5.0 % of the packets are lost, each for itself.");
}

#[test]
fn further_causes_are_counted() {
    let loss = || cause(CauseId::RandomLoss);
    let more = |others: Vec<Cause>| of(Severity::Fair, [vec![loss()], others].concat());
    let text = "Fair: 5.0 % of the packets are lost, each for itself";
    assert_eq!(more(vec![]), format!("{text}."));
    assert_eq!(more(vec![loss()]), format!("{text} (1 more)."));
    assert_eq!(more(vec![loss(), loss()]), format!("{text} (2 more)."));
    let harmless = Cause { severity: Severity::Good, ..loss() };
    assert_eq!(more(vec![harmless, cause(CauseId::IncompleteLog)]), format!("{text}."));
}

#[test]
fn a_buffer_is_said_where_it_helps() {
    let of = |severity| {
        headline(&Answer { buffer_ns: Some(20 * MS), ..answer(severity, vec![]) }, WHOLE, [1000, 0], None)
    };
    assert_eq!(of(Severity::Good), "Good: nothing is wrong; set a buffer of 20 ms.");
    assert_eq!(of(Severity::Fair), "Fair: no single cause accounts for it; set a buffer of 20 ms.");
    assert_eq!(of(Severity::Poor), "Poor: no single cause accounts for it.");
}

#[test]
fn what_is_not_recorded_is_said_first() {
    let of = |sent, unknown| {
        let known = known(sent, unknown, false);
        headline(&answer(Severity::Good, vec![]), known, [sent, 0], None)
    };
    assert_eq!(of(1000, 0), "The log is incomplete. Good: nothing is wrong.");
    assert_eq!(
        of(900, 100),
        "The log is incomplete: of 100 packets (10 %) nothing is known. Good: nothing is wrong."
    );
    assert!(of(900, 1).starts_with("The log is incomplete: of 1 packet (0.11 %)"));
}

#[test]
fn nothing_that_arrives_is_said_of_whole_tests_only() {
    let of = |known, received| headline(&answer(Severity::Bad, vec![]), known, [received, 0], None);
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
        headline(&answer(Severity::Unknown, vec![]), known, [sent - lost, lost], None)
    };
    assert_eq!(of(0, 0), "No verdict: no packet is known of.");
    assert_eq!(
        of(60, 0),
        "No verdict: 60 packets are too few; none lost, so less than 5.0 % with 95 % confidence."
    );
    assert_eq!(
        of(1, 0),
        "No verdict: 1 packet is too few; none lost, so less than 100 % with 95 % confidence."
    );
    assert_eq!(of(2, 1), "No verdict: 2 packets are too few; 1 lost, so 9.5 % to 91 % with 95 % confidence.");
}

#[test]
fn each_kind_of_cause_has_its_sentence() {
    let table = [
        (CauseId::Outage, "no packet on the way there for 30 ms from 1.0 s on"),
        (CauseId::Queue, "packets wait up to 30 ms in a queue on the way there, from 1.0 s to 2.0 s"),
        (CauseId::RandomLoss, "5.0 % of the packets are lost on the way there, each for itself"),
        (CauseId::BurstyLoss, "5.0 % of the packets are lost on the way there, in bursts"),
        (CauseId::Policing, "5.0 % of the packets are dropped on the way there: what exceeds a rate"),
        (CauseId::Reordering, "5.0 % of the packets are overtaken on the way there"),
        (CauseId::RouteChange, "another route on the way there from 1.0 s on, by 30 ms"),
        (CauseId::ClockStep, "the path is fine; a clock was set by 30 ms at 1.0 s"),
        (CauseId::ClockSkew, "the path is fine; the clocks drift apart by 30 ms"),
        (CauseId::SenderStall, "the sender stood still for 30 ms at 1.0 s"),
        (CauseId::ReceiverStall, "the receiver stood still for 30 ms at 1.0 s"),
        (CauseId::LocalQueue, "packets wait up to 30 ms in the sender's own interface, from 1.0 s to 2.0 s"),
        (CauseId::Duplication, "5.0 % of the packets arrive twice on the way there"),
        (CauseId::SizeDependent, "5.0 % of the packets are lost on the way there: the reason"),
        (CauseId::SendFailure, "the sender's own system refused 5.0 % of the packets"),
        (CauseId::IncompleteLog, "a part of the test is unknown"),
    ];
    for (id, text) in table {
        assert_eq!(sentence(&Cause { direction: Some(Direction::Up), ..cause(id) }), text);
    }
    let twice = |id| sentence(&Cause { count: 2, ..cause(id) });
    assert_eq!(twice(CauseId::Outage), "no packet 2 times, for up to 30 ms");
    assert_eq!(twice(CauseId::SenderStall), "the sender stood still for 30 ms at 1.0 s, 2 times");
    let down = sentence(&Cause { direction: Some(Direction::Down), ..cause(CauseId::RandomLoss) });
    assert_eq!(down, "5.0 % of the packets are lost on the way back, each for itself");
    let no_size = Cause { because: "no size".into(), ..cause(CauseId::SizeDependent) };
    assert_eq!(sentence(&no_size), "5.0 % of the packets are lost: the long ones");
}

#[test]
fn what_is_felt_most_is_what_gives_the_severity() {
    let felt = |buffer_ns, missing, severity, base_ns| {
        let lived = Experience { waits: Waits::default(), sent: 10_000, lost: 0, burst_ratio: 1.0, base_ns };
        most_felt(&Played { buffer_ns, missing, rating: 0.0, severity }, &lived)
    };
    assert_eq!(felt(0, 0.0, Severity::Good, None), None);
    assert_eq!(felt(0, 0.0, Severity::Unknown, None), None);
    let missing = felt(200 * MS, 0.05, Severity::Poor, Some(0.0));
    assert_eq!(missing.unwrap(), "5.0 % of the packets come too late or never");
    // The buffer is fair, and the whole is poor: the delay makes the difference.
    let delay = felt(80 * MS, 0.0, Severity::Poor, Some(250e6));
    assert_eq!(delay.unwrap(), "packets take 330 ms one way");
    assert_eq!(felt(80 * MS, 0.0, Severity::Fair, Some(250e6)).unwrap(), "the delay varies by 80 ms");
    assert_eq!(felt(80 * MS, 0.0, Severity::Poor, None).unwrap(), "the delay varies by 80 ms");
    let by_delay = first(0..=200, |ms| {
        felt(ms * MS, 0.0, Severity::Poor, Some(0.0)).unwrap().starts_with("the delay varies")
    });
    assert_eq!(by_delay, 101, "more than 100 ms of buffer are poor by themselves");
}
