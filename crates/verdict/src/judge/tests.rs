use super::*;
use crate::severity::{MIN_BUFFER_NS, Waits};
use crate::testing::{MS, SECOND, Test, cause, every, first};
use jitlat_core::metrics::classify::AcceptedPacket;
use jitlat_core::spec::{Direction, Schedule, Transport};

fn judge(evidence: &Evidence<'_>) -> Judgement {
    super::judge(evidence, &crate::PROFILES, false)
}

const PERIOD: i64 = 10 * MS;

fn found(id: CauseId, severity: Severity, harm: f64) -> FoundCause {
    FoundCause { cause: Cause { severity, ..cause(id) }, harm, whole_test: false }
}

/// Judges a test of `n` packets; those for which `comes` is true are received.
fn judged(n: u32, comes: impl Fn(u32) -> bool) -> Judgement {
    judge(&Test::new(n, PERIOD, &every(PERIOD, n, |k| comes(k).then_some(20 * MS))).material())
}

#[test]
fn the_gravest_cause_comes_first_and_of_equals_the_one_that_harms_more() {
    let sorted = |mut all: Vec<FoundCause>| {
        sort(&mut all);
        all.iter().map(|f| f.cause.id).collect::<Vec<_>>()
    };
    use CauseId::{IncompleteLog, Outage, Queue, RandomLoss};
    let (fair, poor) = (Severity::Fair, Severity::Poor);
    let all = vec![found(Queue, fair, 0.1), found(Outage, fair, 0.2), found(RandomLoss, poor, 0.0)];
    assert_eq!(sorted(all), [RandomLoss, Outage, Queue]);
    // An incomplete log comes first if a twentieth is missing; with less missing it follows the causes that users
    // notice.
    let with = |missing| sorted(vec![found(Outage, Severity::Bad, 1.0), found(IncompleteLog, fair, missing)]);
    assert_eq!(with(0.05), [IncompleteLog, Outage]);
    assert_eq!(with(0.049), [Outage, IncompleteLog]);
    let both = |harm| sorted(vec![found(Queue, Severity::Good, harm), found(IncompleteLog, fair, 0.01)]);
    assert_eq!((both(0.02), both(0.001)), (vec![Queue, IncompleteLog], vec![IncompleteLog, Queue]));
}

#[test]
fn hosts_have_a_grade_of_their_own() {
    for id in CauseId::ALL {
        let all = [found(id, Severity::Poor, 0.0)];
        let of_host = matches!(id.fault(), Fault::Sender | Fault::Receiver);
        let (severity, causes) = if of_host { (Severity::Poor, vec![id]) } else { (Severity::Good, vec![]) };
        assert_eq!(host_grade(&all), HostGrade { severity, causes }, "{}", id.name());
        assert_eq!(standing(&all), Severity::Good);
    }
    let never_empties = FoundCause { whole_test: true, ..found(CauseId::Queue, Severity::Poor, 0.0) };
    assert_eq!(standing(&[never_empties]), Severity::Poor);
}

#[test]
fn a_stall_leaves_the_grade_of_the_path() {
    // The sender stalls for this number of packets from packet 100, and then sends them at once.
    let stalled = |packets: u32| {
        let late = |k: u32| {
            i64::from((100 + packets).saturating_sub(k).min(if k < 100 { 0 } else { u32::MAX })) * PERIOD
        };
        let sent = every(PERIOD, 1000, |_| Some(20 * MS)).into_iter();
        let sent: Vec<_> = sent.map(|p| AcceptedPacket { sent: p.sent + late(p.seq), ..p }).collect();
        judge(&Test::new(1000, PERIOD, &sent).material()).answer
    };
    let short = stalled(100);
    assert_eq!((short.severity, short.buffer_ns), (Severity::Good, Some(MIN_BUFFER_NS)));
    let host = short.host.unwrap();
    assert_eq!((host.severity, host.causes), (Severity::Fair, vec![CauseId::SenderStall]));
    // If a fifth of the packets left late, there is no verdict.
    assert_eq!(first(100..=900, |n| stalled(n as u32).severity == Severity::Unknown), 202);
    assert_eq!(stalled(500).causes[0].id, CauseId::SenderStall);
}

#[test]
fn a_verdict_takes_a_hundred_packets() {
    let known = |n: i64| judged(n as u32, |_| true).answer.severity != Severity::Unknown;
    assert_eq!(first(1..=1000, known), MIN_PACKETS as i64);
    let few = judged(99, |_| true).answer;
    assert_eq!((few.buffer_ns, few.profiles.len()), (None, 0));
    let enough = judged(100, |_| true).answer;
    assert_eq!((enough.severity, enough.buffer_ns), (Severity::Good, Some(MIN_BUFFER_NS)));
    assert_eq!(enough.profiles.len(), 6);
    // There are too few packets to report an outage.
    assert_eq!(judged(60, |k| k < 30).answer.causes, []);
}

#[test]
fn nothing_that_arrives_is_bad_however_few_were_sent() {
    for n in [1, 99, 100] {
        let none = judged(n, |_| false);
        assert_eq!((none.answer.severity, none.received, none.lost), (Severity::Bad, 0, u64::from(n)));
    }
    assert_eq!(judge(&Test::new(0, PERIOD, &[]).material()).answer.severity, Severity::Unknown);
    // If a part of the test is unknown, the rest may have arrived.
    let mut test = Test::new(1000, PERIOD, &[]);
    test.session.truncated = true;
    assert_eq!(judge(&test.material()).answer.severity, Severity::Unknown);
}

#[test]
fn lost_is_what_the_path_lost() {
    let mut test = Test::new(1000, PERIOD, &every(PERIOD, 1000, |k| (k % 10 > 0).then_some(MS)));
    assert_eq!(judge(&test.material()).lost, 100);
    test.session.unsent = 40;
    assert_eq!(judge(&test.material()).lost, 60);
}

#[test]
fn outages_count_by_the_longest_and_by_all_together() {
    // Two outages within 100 s. A single one of 0.15 s is fair.
    let of = |first: u32, second: u32| {
        judged(10_000, |k| !(2000..2000 + first).contains(&k) && !(7000..7000 + second).contains(&k))
            .answer
            .severity
    };
    assert_eq!(of(0, 0), Severity::Good);
    assert_eq!(of(15, 0), Severity::Fair);
    assert_eq!(of(60, 0), Severity::Poor);
    assert_eq!(of(60, 60), Severity::Bad.min(crate::severity::of_outage(0.6, 1.2, 100.0)));
}

#[test]
fn uses_are_judged_by_how_the_test_was_sent() {
    let packets = every(1000 * MS, 200, |_| Some(20 * MS));
    let test = Test::with(200, SECOND, &packets, Schedule::Periodic, (Direction::Up, Transport::Udp));
    let answer = judge(&test.material()).answer;
    let voice = answer.profiles["voice"].limits.clone().unwrap();
    assert!(
        voice.starts_with("measured with 80 bytes every 1.0 s; this profile sends 172 bytes every 20 ms"),
        "{voice}"
    );
}

#[test]
fn the_strongest_effect_is_the_one_that_gives_the_severity() {
    let felt = |buffer_ns, missing, severity, base_ns| {
        let lived = Experience {
            waits: Waits::default(),
            sent: 10_000,
            lost: 0,
            burst_ratio: 1.0,
            loss_effect: 1.0,
            base_ns,
            base_error_ns: 0.0,
        };
        strongest_effect(&Played { buffer_ns, missing, rating: 0.0, severity }, &lived)
    };
    assert_eq!(felt(0, 0.0, Severity::Good, None), None);
    assert_eq!(felt(0, 0.0, Severity::Unknown, None), None);
    let missing = felt(200 * MS, 0.05, Severity::Poor, Some(0.0));
    assert_eq!(missing.unwrap(), "5.0 % of packets arrive too late or never");
    // The buffer alone is fair, but because of the delay the verdict is poor.
    let delay = felt(80 * MS, 0.0, Severity::Poor, Some(250e6));
    assert_eq!(delay.unwrap(), "packets take 330 ms one way");
    assert_eq!(felt(80 * MS, 0.0, Severity::Fair, Some(250e6)).unwrap(), "the delay varies by 80 ms");
    assert_eq!(felt(80 * MS, 0.0, Severity::Poor, None).unwrap(), "the delay varies by 80 ms");
    let by_delay = first(0..=200, |ms| {
        felt(ms * MS, 0.0, Severity::Poor, Some(0.0)).unwrap().starts_with("the delay varies")
    });
    assert_eq!(by_delay, 101, "more than 100 ms of buffer are poor by themselves");
}
