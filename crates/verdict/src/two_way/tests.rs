use super::*;
use crate::testing::{MS, Test, answer, cause, every};
use jitlat_core::answer::Severity;

fn judged(causes: Vec<Cause>) -> Judgement {
    let mut judged = crate::judge::judge(
        &Test::new(10, MS, &every(MS, 10, |_| Some(0))).material(),
        &crate::PROFILES,
        false,
    );
    judged.answer = answer(Severity::Fair, causes);
    judged
}

fn lost(first: u32, length: u32, side: LossSide) -> LossRun {
    LossRun { first, length, side }
}

/// Direction in which packets 100 to 199 were lost.
fn way_of_loss(id: CauseId, runs: &[LossRun]) -> Option<Direction> {
    two_way(judged(vec![cause(id)]), [None, None], &RequestLosses { runs }).answer.causes[0].direction
}

#[test]
fn nine_of_ten_lost_on_a_way_are_lost_there() {
    let of = |up: u32, down: u32, either: u32| {
        let runs = [
            lost(100, up, LossSide::Up),
            lost(100 + up, down, LossSide::Down),
            lost(100 + up + down, either, LossSide::Either),
        ];
        way_of_loss(CauseId::RandomLoss, &runs)
    };
    let table = [
        ((0, 0, 0), None),
        ((90, 10, 0), Some(Direction::Up)),
        ((89, 11, 0), None),
        ((10, 90, 0), Some(Direction::Down)),
        ((11, 89, 0), None),
        ((90, 0, 10), Some(Direction::Up)),
        ((89, 0, 11), None),
        ((0, 90, 10), Some(Direction::Down)),
        ((0, 89, 11), None),
        ((0, 0, 50), None),
    ];
    for ((up, down, either), way) in table {
        assert_eq!(of(up, down, either), way, "{up} up, {down} down, {either} either");
    }
}

#[test]
fn packets_before_and_after_a_cause_do_not_count() {
    // Ten packets of the cause were lost in the down direction, and many others in the up direction.
    let runs = [lost(0, 100, LossSide::Up), lost(150, 10, LossSide::Down), lost(200, 100, LossSide::Up)];
    assert_eq!(way_of_loss(CauseId::Policing, &runs), Some(Direction::Down));
    // The first and the last packet belong to the cause.
    for first in [91, 199] {
        assert_eq!(way_of_loss(CauseId::Policing, &[lost(first, 10, LossSide::Up)]), Some(Direction::Up));
    }
    for first in [90, 200] {
        assert_eq!(way_of_loss(CauseId::Policing, &[lost(first, 10, LossSide::Up)]), None);
    }
    // Nine packets of the cause were lost in the up direction, one in the down direction, in a longer run.
    let runs = [lost(91, 18, LossSide::Up), lost(199, 50, LossSide::Down)];
    assert_eq!(way_of_loss(CauseId::Policing, &runs), Some(Direction::Up));
}

#[test]
fn losses_are_of_a_way_and_stalls_are_not() {
    let up = |id| way_of_loss(id, &[lost(100, 100, LossSide::Up)]);
    for id in CauseId::ALL {
        let loses = [
            CauseId::Outage,
            CauseId::RandomLoss,
            CauseId::BurstyLoss,
            CauseId::Policing,
            CauseId::PeriodicLoss,
            CauseId::SizeDependent,
            CauseId::Mtu,
        ];
        assert_eq!(up(id), loses.contains(&id).then_some(Direction::Up), "{}", id.name());
    }
}

#[test]
fn what_one_way_shows_at_that_time_is_of_that_way() {
    let id = CauseId::Queue;
    let at = |from_s, to_s| answer(Severity::Fair, vec![Cause { from_s, to_s, ..cause(id) }]);
    let shown = |ways: [Option<&Answer>; 2]| {
        two_way(judged(vec![cause(id)]), ways, &RequestLosses { runs: &[] }).answer.causes[0].direction
    };
    let (there, elsewhere) = (at(1.0, 2.0), at(3.0, 4.0));
    assert_eq!(shown([Some(&there), Some(&elsewhere)]), Some(Direction::Up));
    assert_eq!(shown([Some(&elsewhere), Some(&there)]), Some(Direction::Down));
    assert_eq!(shown([Some(&there), None]), Some(Direction::Up));
    assert_eq!(shown([Some(&there), Some(&there)]), None);
    assert_eq!(shown([Some(&elsewhere), None]), None);
    // Two times overlap, or do not.
    for ((from, to), touches) in
        [((0.0, 0.9), false), ((0.0, 1.0), true), ((2.0, 3.0), true), ((2.1, 3.0), false)]
    {
        assert_eq!(shown([Some(&at(from, to)), None]).is_some(), touches, "{from} to {to} s");
    }
    let other = answer(Severity::Fair, vec![cause(CauseId::Reordering)]);
    assert_eq!(shown([Some(&other), None]), None);
    for id in [CauseId::RouteChange, CauseId::Reordering] {
        let way = answer(Severity::Fair, vec![cause(id)]);
        let both = two_way(judged(vec![cause(id)]), [None, Some(&way)], &RequestLosses { runs: &[] });
        assert_eq!(both.answer.causes[0].direction, Some(Direction::Down));
    }
}

#[test]
fn the_far_clock_shows_on_the_ways_only() {
    let of = |round_trip: Vec<Cause>, id| {
        let way = answer(Severity::Good, vec![cause(id)]);
        let ids = |a: Answer| a.causes.iter().map(|c| c.id).collect::<Vec<_>>();
        ids(two_way(judged(round_trip), [Some(&way), Some(&way)], &RequestLosses { runs: &[] }).answer)
    };
    assert_eq!(of(vec![], CauseId::ClockStep), [CauseId::ClockStep]);
    assert_eq!(of(vec![], CauseId::ClockSkew), [CauseId::ClockSkew]);
    assert_eq!(of(vec![cause(CauseId::ClockStep)], CauseId::ClockStep), [CauseId::ClockStep]);
    assert_eq!(of(vec![], CauseId::RandomLoss), []);
}

#[test]
fn packets_under_way_while_a_clock_was_set_are_not_held() {
    let is_kept = |id, from_s, magnitude: i64| {
        let held = Cause { from_s, magnitude_ns: Some(magnitude), ..cause(id) };
        let set = Cause { magnitude_ns: Some(-100 * MS), ..cause(CauseId::ClockStep) };
        let both = two_way(judged(vec![held, set]), [None, None], &RequestLosses { runs: &[] });
        both.answer.causes.iter().any(|c| c.id == id)
    };
    for id in [CauseId::ReceiverStall, CauseId::Queue] {
        // The clock was set by 100 ms at 1 s. A hold must be within 1 s of this, and its length within a fifth.
        let table = [
            (1.0, 100 * MS, false),
            (1.0, -100 * MS, false),
            (0.01, 100 * MS, false),
            (0.0, 100 * MS, true),
            (1.99, 100 * MS, false),
            (2.0, 100 * MS, true),
            (1.0, 120 * MS, true),
            (1.0, 120 * MS - 1, false),
            (1.0, 80 * MS, true),
            (1.0, 80 * MS + 1, false),
        ];
        for (from_s, magnitude, kept) in table {
            assert_eq!(is_kept(id, from_s, magnitude), kept, "{magnitude} ns at {from_s} s");
        }
    }
    assert!(is_kept(CauseId::SenderStall, 1.0, 100 * MS));
}

#[test]
fn what_waits_in_the_far_host_after_its_stall_is_not_the_path() {
    let is_kept = |id, packets: [u64; 2], confidence: f64| {
        let stall = Cause { packets: [101, 173], confidence, ..cause(CauseId::ReceiverStall) };
        let up = answer(Severity::Fair, vec![stall]);
        let longer = Cause { packets, magnitude_ns: Some(2 * MS), ..cause(id) };
        let both = two_way(judged(vec![longer]), [Some(&up), None], &RequestLosses { runs: &[] });
        both.answer.causes.iter().any(|c| c.id == id)
    };
    for id in [CauseId::RouteChange, CauseId::Queue] {
        assert!(!is_kept(id, [101, 132], PROVEN));
        assert!(!is_kept(id, [150, 173], PROVEN));
        assert!(is_kept(id, [101, 132], PROVEN - 0.01), "the stall is not proven");
        assert!(is_kept(id, [100, 132], PROVEN), "it began before the stall");
        assert!(is_kept(id, [150, 174], PROVEN), "it lasted longer than the stall");
    }
    assert!(is_kept(CauseId::RandomLoss, [101, 132], PROVEN));
}

#[test]
fn a_host_that_was_stopped_may_be_slightly_slower_afterwards() {
    let is_kept = |packets: [u64; 2], magnitude: i64| {
        let stall = Cause { packets: [101, 173], confidence: PROVEN, ..cause(CauseId::ReceiverStall) };
        let up = answer(Severity::Fair, vec![stall]);
        let longer = Cause { packets, magnitude_ns: Some(magnitude), ..cause(CauseId::RouteChange) };
        let both = two_way(judged(vec![longer]), [Some(&up), None], &RequestLosses { runs: &[] });
        both.answer.names(CauseId::RouteChange)
    };
    assert!(!is_kept([101, 999], 135_000));
    assert!(!is_kept([101, 999], -135_000));
    assert!(is_kept([101, 999], 2 * MS), "a host that slept may wake up in another network");
    assert!(is_kept([174, 999], 135_000), "it began after the stall");
    assert!(is_kept([99, 999], 135_000), "it began before the stall");
}

#[test]
fn a_stall_of_the_far_host_stands_before_lesser_causes() {
    let causes = |found: Vec<Cause>| -> Vec<CauseId> {
        let stall = Cause { severity: Severity::Fair, confidence: PROVEN, ..cause(CauseId::ReceiverStall) };
        let up = answer(Severity::Good, vec![stall]);
        let both = two_way(judged(found), [Some(&up), None], &RequestLosses { runs: &[] });
        both.answer.causes.iter().map(|c| c.id).collect()
    };
    let with = |id, severity| Cause { severity, ..cause(id) };
    let brief = with(CauseId::SenderStall, Severity::Good);
    let loss = with(CauseId::RandomLoss, Severity::Poor);
    let log = with(CauseId::IncompleteLog, Severity::Good);
    assert_eq!(causes(vec![brief.clone()]), [CauseId::ReceiverStall, CauseId::SenderStall]);
    let all = [CauseId::IncompleteLog, CauseId::RandomLoss, CauseId::ReceiverStall, CauseId::SenderStall];
    assert_eq!(causes(vec![log, loss, brief]), all);
}
