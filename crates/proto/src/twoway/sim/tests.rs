//! Two-way tests over paths that lose, duplicate and reorder packets at every step, with unrelated packets.
//! The tests must end in time and count correctly.

use super::parties::{lamp_client, lamp_far, stamp_far, stamp_sender};
use super::*;
use crate::irtt;
use crate::twoway::{Directions, Overdue};
use jitlat_core::analysis::{Analyzer, Options, analyze};
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::spec::{Direction, Schedule, Transport};
use jitlat_core::summary::Summary;
use jitlat_core::twoway::{LossSide, NotAnswers, TwoWay};
use jitlat_core::{Session, TestSpec};
use jitlat_impair::{Choice, DuplicationModel, Jitter, PathModel, ReorderingModel};
use lamp::LampFollowUp;
use proptest::prelude::*;

mod ipsla;

const MS: i64 = 1_000_000;
const TIMEOUT: Span = Span::seconds(1);
const AHEAD: i64 = 250 * MS;

fn plan(packets: u64, wait: Option<Span>) -> PingPlan {
    let spec =
        TestSpec::new(Direction::Up, Transport::Udp, packets, 80, Span::millis(10), Schedule::Periodic);
    PingPlan { spec: spec.unwrap(), wait, timeout: TIMEOUT, overdue: Overdue::Space }
}

/// A path with a minimum delay of 5 ms.
fn path(config: PathModel) -> Impairment {
    Impairment::new(PathModel { delay: Span::millis(5), ..config }, 7)
}

fn world(far: Far, up: PathModel, down: PathModel) -> World<'static> {
    World { far, up: path(up), down: path(down), ahead: &|_| AHEAD, strays: Vec::new() }
}

fn twamp_pair(mode: twamp::SecurityMode) -> (twamp::TwampSender, Far) {
    let keys = twamp::crypto::SessionKeys { aes: [1; 16], hmac: [2; 32] };
    let keys = twamp::TestKeys::new(mode, &keys, &twamp::Sid([3; 16]));
    let host = "192.0.2.1".parse().unwrap();
    let far = twamp::SessionReflector::new(mode, keys.clone(), host, Some(40_000));
    let size = twamp::sender::least_size(mode);
    (twamp::TwampSender::new(mode, keys, size, ErrorEstimate::UNKNOWN), Far::Twamp(Box::new(far)))
}

fn irtt_far() -> Far {
    // Duplicates and delayed packets arrive faster than clients may send.
    let rules = irtt::IrttRules { interval: Span::ZERO, ..irtt::IrttRules::default() };
    Far::Irtt(Box::new(irtt::Server::new(rules, [5; 32], SteadyTime(-1_000_000_000))))
}

fn irtt_client(stats: irtt::ReceiveStats) -> irtt::Client {
    let mut options = irtt::IrttOptions::new(Span::seconds(1), Span::millis(10));
    options.params.stats = stats;
    options.params.length = 172;
    irtt::Client::new(options)
}

fn session<P: Protocol>(plan: &PingPlan, outcome: &mut PingOutcome<P>) -> Session {
    let mut session = Session::new(plan.spec.clone());
    session.ending = Ending::Complete;
    session.sent = Some(outcome.requests.sent() as u32);
    session.period_known = plan.wait.is_none();
    let (directions, losses) = outcome.requests.directions();
    session.two_way = Some(Box::new(TwoWay {
        far_clock: outcome.protocol.far_clock(),
        processing_apart: outcome.protocol.follows_up(),
        directions: Some(directions).filter(|d| d.stateful),
        losses,
        wait: plan.wait,
        ..TwoWay::default()
    }));
    session
}

/// Returns the analysis shown to the user.
fn summary<P: Protocol>(plan: &PingPlan, outcome: &mut PingOutcome<P>) -> Summary {
    analyze(&session(plan, outcome), outcome.records.iter().copied(), &jitlat_verdict::options())
}

/// Checks conditions that hold for every round-trip test on any path.
fn check<P: Protocol>(plan: &PingPlan, outcome: &mut PingOutcome<P>, truth: &Truth) -> Summary {
    let sent = truth.requests.len() as u64;
    assert_eq!(outcome.requests.sent(), sent);
    // Every answer that arrived has a record with its own time, and there are no other records.
    assert_eq!(outcome.records.len(), truth.returned.len());
    for (record, (seq, at)) in outcome.records.iter().zip(&truth.returned) {
        let times = (record.sent(), record.time(Moment::Returned));
        let wanted = (truth.requests[*seq as usize].0, *at);
        assert_eq!(
            (record.seq, times),
            (i64::from(*seq), (Some(WallTime(EPOCH + wanted.0)), Some(WallTime(EPOCH + wanted.1))))
        );
    }
    let mut seqs: Vec<u32> = truth.returned.iter().map(|r| r.0).collect();
    seqs.sort_unstable();
    seqs.dedup();
    let distinct = seqs.len() as u64;
    assert_eq!(outcome.requests.answered(), distinct);
    let found = summary(plan, outcome);
    let counts = &found.counts;
    assert_eq!((counts.sent, counts.lost, counts.unique_valid), (sent, sent - distinct, distinct));
    assert_eq!(counts.duplicate, truth.returned.len() as u64 - distinct, "copies are copies");
    let two_way = found.two_way.as_ref().unwrap();
    assert_eq!((found.latency.n + two_way.without_processing, counts.invalid), (distinct, 0));
    if outcome.protocol.follows_up() {
        let mut seen = std::collections::BTreeSet::new();
        let firsts = outcome.records.iter().filter(|r| seen.insert(r.seq));
        let whole = firsts.filter(|r| r.time(Moment::Answered).is_some()).count();
        assert_eq!(found.latency.n, whole as u64, "of one quantity");
    } else {
        assert_eq!(two_way.without_processing, 0);
    }
    let of = |n: &NotAnswers| n.foreign + n.malformed + n.forged + n.unmatched + n.other_port;
    assert_eq!(of(&outcome.not_answers), truth.strays, "{:?}", outcome.not_answers);
    let pause = plan.wait.map_or(Span::millis(10), |w| w + TIMEOUT);
    let limit = Span::seconds(5).times(2) + pause.times(sent as i64) + TIMEOUT + Span::seconds(8);
    assert!(truth.took <= limit.0, "{} s", truth.took / 1_000_000_000);
    found
}

/// Checks the report of a counting far end about each direction: exact numbers if requests arrived in order
/// and nothing was duplicated, otherwise bounds.
fn check_directions<P: Protocol>(outcome: &mut PingOutcome<P>, truth: &Truth) {
    let (d, runs) = outcome.requests.directions();
    let Some(last) = truth.answers.iter().rposition(|a| a.returned > 0) else {
        return assert_eq!((d, runs), (Directions::default(), Vec::new()));
    };
    if !d.stateful {
        // No request was lost or duplicated, so the fact that the numbers equal those of the requests proves
        // nothing.
        assert!(truth.answers.iter().enumerate().all(|(k, a)| a.returned == 0 || k as u32 == a.seq));
        return;
    }
    let answers = &truth.answers[..=last];
    let sent = truth.requests.len() as u64;
    let highest = answers.iter().filter(|a| a.returned > 0).map(|a| a.seq).max().unwrap();
    let behind = sent - 1 - u64::from(highest);
    // It is unknown which requests reached the far end after the last received answer.
    let reached = |seq: u32| answers.iter().any(|a| a.seq == seq);
    let up = (0..highest).filter(|seq| !reached(*seq)).count() as u64;
    let down = answers.iter().filter(|a| a.returned == 0).count() as u64;
    let first = truth
        .answers
        .iter()
        .position(|a| truth.returned.first().is_some_and(|r| r.0 == a.seq && a.returned > 0));
    let copied = truth.requests.iter().any(|r| r.1 > 1);
    // Later answers to reordered requests are unknown.
    let unseen = truth.answers[last + 1..].iter().filter(|a| a.seq < highest).count() as u64;
    let in_order = unseen == 0 && answers.windows(2).all(|w| w[0].seq < w[1].seq);
    if !copied {
        assert_eq!(d.down_lost, down);
    }
    if in_order && !copied {
        assert_eq!((d.up_lost, d.unknown_lost), (up, behind));
        assert_eq!((d.up_duplicates, d.up_reordered), (0, 0));
        for run in &runs {
            let reached = (run.first..run.first + run.length).filter(|seq| reached(*seq));
            match (run.side, reached.count() as u32) {
                (LossSide::Up, n) => assert_eq!(n, 0),
                (LossSide::Down, n) => assert_eq!(n, run.length),
                (LossSide::Either, n) => {
                    assert!(run.first > highest || 0 < n && n < run.length, "{run:?} {n}");
                }
            }
        }
        assert_eq!(runs.iter().map(|r| u64::from(r.length)).sum::<u64>(), sent - outcome.requests.answered());
    } else if first == Some(0) {
        // A lost answer to a duplicate cannot be distinguished from a lost answer to the preceding request.
        let copies: u64 = truth.requests.iter().map(|r| r.1.saturating_sub(1)).sum();
        assert!(d.up_lost <= up + unseen, "{d:?}, in truth {up}");
        assert!(up <= d.up_lost + d.unknown_lost + copies, "{d:?}, in truth {up}");
    }
    let copies: u64 = answers.iter().map(|a| a.returned.saturating_sub(1)).sum();
    assert_eq!(d.down_duplicates, copies);
}

/// In turn, each packet in one of the directions is lost, duplicated, or delayed behind the next few packets.
fn each_step(packets: u64) -> impl Iterator<Item = (PathModel, PathModel)> {
    let one = |n| Choice::indices([n]);
    let troubles = (0..packets).flat_map(move |n| {
        let held = |by| PathModel {
            reordering: ReorderingModel { choice: one(n), by: Span::millis(by) },
            ..PathModel::default()
        };
        let lag = Span::millis(3);
        [
            PathModel { loss: one(n), ..PathModel::default() },
            PathModel {
                duplication: DuplicationModel { choice: one(n), copies: 2, lag },
                ..PathModel::default()
            },
            held(25),
            held(450),
        ]
    });
    troubles.flat_map(|c| [(c.clone(), PathModel::default()), (PathModel::default(), c)])
}

#[test]
fn lamp_ping_like_survives_anything_at_any_step() {
    for follow_up in [None, Some(LampFollowUp::Application), Some(LampFollowUp::Hardware)] {
        for (up, down) in each_step(18) {
            let plan = plan(6, None);
            let client = lamp_client(lamp::LampMode::PingLike, follow_up);
            let (mut out, truth) =
                super::run(client, plan.clone(), world(lamp_far(), up.clone(), down.clone()));
            let found = check(&plan, &mut out, &truth);
            assert!(found.counts.unique_valid >= 5, "{follow_up:?} {up:?} {down:?}");
            assert!(truth.took < 9_000 * MS);
        }
    }
}

#[test]
fn a_follow_up_finds_its_answer_among_later_ones() {
    // Every other packet from the far end (the follow-ups) takes 43 ms longer, so four later answers arrive
    // before it.
    let late = Choice::indices((2..200).map(|k| 2 * k));
    let down = PathModel {
        reordering: ReorderingModel { choice: late, by: Span::millis(43) },
        ..PathModel::default()
    };
    let plan = plan(50, None);
    let client = lamp_client(lamp::LampMode::PingLike, Some(LampFollowUp::Application));
    let (mut out, truth) = super::run(client, plan.clone(), world(lamp_far(), PathModel::default(), down));
    let found = check(&plan, &mut out, &truth);
    let processing = found.two_way.unwrap().processing.unwrap();
    assert!(processing.n >= 49 && processing.min == 7000 && processing.max == 7000, "{processing:?}");
}

#[test]
fn answers_whose_follow_up_is_lost_are_received_and_have_no_delay() {
    // Loses every third of the follow-ups, which are every other packet from the far end.
    let every_third = Choice::indices((1..33).map(|k| 6 * k));
    let plan = plan(100, None);
    for (lost, dropped) in [(Choice::indices([]), 0), (every_third, 32)] {
        let down = PathModel { loss: lost, ..PathModel::default() };
        let client = lamp_client(lamp::LampMode::PingLike, Some(LampFollowUp::Application));
        let (mut out, truth) =
            super::run(client, plan.clone(), world(lamp_far(), PathModel::default(), down));
        let found = check(&plan, &mut out, &truth);
        let without = found.two_way.as_ref().unwrap().without_processing;
        assert_eq!((without, found.counts.lost, found.loss.ratio), (dropped, 0, Some(0.0)));
        assert_eq!((found.counts.unique_valid, found.latency.n), (100, 100 - dropped));
        // 5 ms in each direction, and 1 µs in the far end, which reports 7 µs.
        assert_eq!((found.latency.min, found.latency.max), (Some(9_994_000), Some(9_994_000)));
        let warned = found.warnings.iter().filter(|w| w.code == "processing_unknown").count();
        assert_eq!(warned, usize::from(dropped > 0));
        let answer = found.answer.as_ref().unwrap();
        assert!(answer.complete && answer.causes.is_empty(), "{answer:?}");
        // The same analysis in constant memory, and in two parts.
        let streaming = Options { streaming: true, ..Options::default() };
        let mut session = session(&plan, &mut out);
        let constant = analyze(&session, out.records.iter().copied(), &streaming);
        assert_eq!((&constant.counts, constant.latency.n), (&found.counts, found.latency.n));
        session.sent = None;
        let records: Vec<_> = out.records.iter().copied().collect();
        for options in [Options::default(), streaming] {
            let part = |records: &[jitlat_core::PacketRecord]| {
                let mut analyzer = Analyzer::new(&session, &options);
                records.iter().for_each(|r| analyzer.push(r));
                analyzer
            };
            let mut first = part(&records[..37]);
            first.append(part(&records[37..])).unwrap();
            let whole = first.finish(&session);
            assert_eq!(whole.two_way.unwrap().without_processing, dropped);
            assert_eq!((&whole.counts, whole.latency.max), (&found.counts, found.latency.max));
        }
    }
}

#[test]
fn lamp_one_way_reports_the_truth_whatever_happens_at_any_step() {
    for (up, down) in each_step(14) {
        let plan = plan(6, None);
        let client = lamp_client(lamp::LampMode::Unidirectional, None);
        let (out, truth) = super::run(client, plan, world(lamp_far(), up.clone(), down.clone()));
        let report = out.protocol.report().map(|r| (r.received, r.duplicates.unwrap_or(0)));
        assert_eq!(report, truth.reported, "{up:?} {down:?}");
        assert!(report.is_some_and(|t| t.0 >= 5) && truth.took < 9_000 * MS, "{report:?} {up:?} {down:?}");
        assert!(out.records.is_empty());
    }
}

#[test]
fn stamp_and_twamp_survive_anything_at_any_step() {
    for (up, down) in each_step(6) {
        for wait in [None, Some(Span::millis(2))] {
            let plan = plan(6, wait);
            let (mut out, truth) =
                super::run(stamp_sender(), plan.clone(), world(stamp_far(9), up.clone(), down.clone()));
            check(&plan, &mut out, &truth);
            check_directions(&mut out, &truth);
            let (sender, far) = twamp_pair(twamp::SecurityMode::Encrypted);
            let (mut out, truth) = super::run(sender, plan.clone(), world(far, up.clone(), down.clone()));
            check(&plan, &mut out, &truth);
            check_directions(&mut out, &truth);
            assert!(out.requests.directions().0.stateful);
        }
    }
}

#[test]
fn irtt_survives_anything_at_any_step() {
    for (up, down) in each_step(9) {
        for stats in [irtt::ReceiveStats::Both, irtt::ReceiveStats::Count] {
            let plan = plan(6, None);
            let (mut out, truth) =
                super::run(irtt_client(stats), plan.clone(), world(irtt_far(), up.clone(), down.clone()));
            check(&plan, &mut out, &truth);
            check_directions(&mut out, &truth);
            assert!(truth.took < 9_000 * MS);
        }
        // Only the windows show the direction of each loss, except for losses after the last answer.
        let plan = plan(12, None);
        let client = irtt_client(irtt::ReceiveStats::Window);
        let (mut out, truth) = super::run(client, plan.clone(), world(irtt_far(), up.clone(), down.clone()));
        check(&plan, &mut out, &truth);
        let (_, runs) = out.requests.directions();
        let last = truth.returned.iter().map(|r| r.0).max().unwrap();
        for run in runs {
            for seq in run.first..run.first + run.length {
                let wanted = if truth.requests[seq as usize].1 > 0 { LossSide::Down } else { LossSide::Up };
                assert!(
                    run.side == wanted || run.side == LossSide::Either && seq > last,
                    "{run:?} {up:?} {down:?}"
                );
            }
        }
    }
}

#[test]
fn stamp_departures_equal_the_reports_in_the_next_answers() {
    let options = stamp::sender::StampOptions { follow_up: true, ..Default::default() };
    for period in [10, 2000] {
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, 40, 80, Span::millis(period), Schedule::Periodic);
        let plan = PingPlan { spec: spec.unwrap(), wait: None, timeout: TIMEOUT, overdue: Overdue::Space };
        for (up, down) in each_step(8) {
            let sender = stamp::StampSender::new(options.clone());
            let (out, truth) = super::run(sender, plan.clone(), world(stamp_far(9), up, down));
            assert_eq!(out.records.len(), truth.returned.len());
            let departed: Vec<Option<StampSource>> = out
                .records
                .iter()
                .map(|r| {
                    let (arrived, answered) = (r.time(Moment::Arrived)?, r.stamp(Moment::Answered)?);
                    // The NTP format has a resolution of a quarter of a nanosecond, so times are rounded.
                    let took = (answered.at - arrived).0;
                    let left = if answered.source == StampSource::Kernel { LEFT_LATER.0 } else { 0 };
                    assert!((took - 1000 - left).abs() <= 2, "{took}");
                    Some(answered.source)
                })
                .collect();
            let known = departed.iter().filter(|s| **s == Some(StampSource::Kernel)).count() as u64;
            assert_eq!(known, out.protocol.lag().known);
            // Only the answer to a probe follows the last answer. Answers before a lost one have no report,
            // either.
            if out.requests.answered() == out.requests.sent() {
                assert_eq!(departed.last(), Some(&Some(StampSource::User)));
            }
            assert!(known + 8 >= out.records.len() as u64, "{known} of {}", out.records.len());
        }
    }
}

#[test]
fn five_of_a_hundred_are_lost_on_the_right_way() {
    for (up, down) in [(5, 0), (0, 5), (3, 2)] {
        // Open requests, their answers and the last packets are not lost.
        let drop = |n: u64, at: u64| PathModel {
            loss: Choice::indices((0..n).map(|k| 19 * k + at)),
            ..PathModel::default()
        };
        for stats in [irtt::ReceiveStats::Both, irtt::ReceiveStats::Window, irtt::ReceiveStats::Count] {
            let plan = plan(100, None);
            let world = world(irtt_far(), drop(up, 3), drop(down, 12));
            let (mut out, truth) = super::run(irtt_client(stats), plan.clone(), world);
            check(&plan, &mut out, &truth);
            let (d, _) = out.requests.directions();
            assert_eq!((d.up_lost, d.down_lost, d.unknown_lost), (up, down, 0), "{stats:?}");
        }
        let plan = plan(100, None);
        let (mut out, truth) =
            super::run(stamp_sender(), plan.clone(), world(stamp_far(9), drop(up, 3), drop(down, 12)));
        check(&plan, &mut out, &truth);
        let (d, _) = out.requests.directions();
        assert_eq!((d.up_lost, d.down_lost, d.unknown_lost), (up, down, 0), "STAMP");
        let stateless = world(stamp_far(0), drop(up, 3), drop(down, 12));
        let (out, truth) = super::run(stamp_sender(), plan.clone(), stateless);
        assert_eq!(out.requests.clone().directions(), (Directions::default(), Vec::new()), "a stateless one");
        assert!(truth.took < 3300 * MS, "one answer tells");
        for mode in
            [twamp::SecurityMode::Open, twamp::SecurityMode::Authenticated, twamp::SecurityMode::Encrypted]
        {
            let (sender, far) = twamp_pair(mode);
            let (mut out, truth) = super::run(sender, plan.clone(), world(far, drop(up, 3), drop(down, 12)));
            check(&plan, &mut out, &truth);
            let (d, _) = out.requests.directions();
            assert_eq!((d.up_lost, d.down_lost, d.unknown_lost), (up, down, 0), "TWAMP, {mode}");
        }
    }
}

#[test]
fn a_far_end_that_falls_silent_at_any_step_is_given_up() {
    for step in 0..12 {
        let end = PathModel { loss: Choice::ranges([step..=1000]), ..PathModel::default() };
        for (up, down) in [(end.clone(), PathModel::default()), (PathModel::default(), end)] {
            for mode in [lamp::LampMode::PingLike, lamp::LampMode::Unidirectional] {
                let client = lamp_client(mode, Some(LampFollowUp::Application));
                let (out, truth) =
                    super::run(client, plan(4, None), world(lamp_far(), up.clone(), down.clone()));
                assert!(truth.took < 17_000 * MS, "{step} {mode:?} {}", truth.took);
                assert_eq!(out.records.len(), truth.returned.len());
            }
            let client = irtt_client(irtt::ReceiveStats::Both);
            let (out, truth) = super::run(client, plan(4, None), world(irtt_far(), up.clone(), down.clone()));
            assert!(truth.took < 17_000 * MS, "{step} {}", truth.took);
            assert_eq!(out.records.len(), truth.returned.len());
            let plan = plan(8, Some(Span::ZERO));
            let (mut out, truth) =
                super::run(stamp_sender(), plan.clone(), world(stamp_far(9), up.clone(), down.clone()));
            check(&plan, &mut out, &truth);
        }
    }
}

#[test]
fn a_far_clock_that_steps_spoils_one_way_delays_only() {
    // The clock steps forward by 80 ms in the middle of the test.
    let plan = plan(100, None);
    let step = |now: i64| if now < 500 * MS { AHEAD } else { AHEAD + 80 * MS };
    let world = World { ahead: &step, ..world(stamp_far(9), PathModel::default(), PathModel::default()) };
    let (mut out, truth) = super::run(stamp_sender(), plan.clone(), world);
    let found = check(&plan, &mut out, &truth);
    assert!(found.latency.max.unwrap() - found.latency.min.unwrap() < 1000, "{:?}", found.latency);
    assert!(found.warnings.iter().any(|w| w.code == "far_clock_step"), "{:?}", found.warnings);
    let ways = found.two_way.unwrap();
    for way in [ways.up.unwrap(), ways.down.unwrap()] {
        assert!(way.latency_corrected.is_none() && way.trend.is_none() && way.skew_hull.is_none());
    }
}

fn choice() -> impl Strategy<Value = Choice> {
    let some = prop::collection::vec(0u64..70, 0..6);
    prop_oneof![
        2 => Just(Choice::Never),
        3 => some.prop_map(Choice::indices),
        1 => (0.0..0.4f64).prop_map(Choice::Bernoulli),
    ]
}

fn config(order: bool) -> impl Strategy<Value = PathModel> {
    (choice(), choice(), choice(), 0i64..60, 0i64..30, 0i64..15).prop_map(
        move |(loss, copies, late, by, lag, jitter)| PathModel {
            loss,
            jitter: if jitter > 0 { Jitter::Uniform { max: Span::millis(jitter) } } else { Jitter::None },
            in_order: order,
            duplication: DuplicationModel {
                choice: if order { Choice::Never } else { copies },
                copies: 1,
                lag: Span::millis(lag),
            },
            reordering: ReorderingModel {
                choice: if order { Choice::Never } else { late },
                by: Span::millis(by),
            },
            ..PathModel::default()
        },
    )
}

fn stray() -> impl Strategy<Value = (i64, Stray)> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..120);
    let kind = prop_oneof![
        bytes().prop_map(Stray::Near),
        bytes().prop_map(Stray::Far),
        (0usize..200).prop_map(Stray::Again),
        (0usize..200).prop_map(Stray::Elsewhere),
        (0usize..200).prop_map(Stray::Mirrored),
        (0usize..200).prop_map(Stray::AskedAgain),
    ];
    (0i64..900, kind).prop_map(|(ms, kind)| (ms * MS, kind))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn counts_are_the_truth_on_any_path_among_strays(
        up in prop_oneof![config(true), config(false)],
        down in prop_oneof![config(true), config(false)],
        strays in prop::collection::vec(stray(), 0..12),
        pause in prop::option::of(0i64..20),
        which in 0..7,
    ) {
        let plan = plan(50, pause.map(Span::millis));
        let on = |far: Far| World { strays: strays.clone(), ..world(far, up.clone(), down.clone()) };
        match which {
            0 | 1 => {
                let follow_up = (which == 1).then_some(LampFollowUp::Application);
                let client = lamp_client(lamp::LampMode::PingLike, follow_up);
                let (mut out, truth) = super::run(client, plan.clone(), on(lamp_far()));
                check(&plan, &mut out, &truth);
            }
            2 => {
                let plan = PingPlan { wait: None, ..plan };
                let client = lamp_client(lamp::LampMode::Unidirectional, None);
                let (out, truth) = super::run(client, plan, on(lamp_far()));
                let report = out.protocol.report().map(|r| (r.received, r.duplicates.unwrap_or(0)));
                prop_assert_eq!(report, truth.reported);
                prop_assert!(out.records.is_empty() && truth.took < 18_000 * MS);
            }
            3 => {
                let (mut out, truth) = super::run(stamp_sender(), plan.clone(), on(stamp_far(9)));
                check(&plan, &mut out, &truth);
                check_directions(&mut out, &truth);
            }
            4 | 5 => {
                let stats = if which == 4 { irtt::ReceiveStats::Both } else { irtt::ReceiveStats::Count };
                let (mut out, truth) = super::run(irtt_client(stats), plan.clone(), on(irtt_far()));
                check(&plan, &mut out, &truth);
                check_directions(&mut out, &truth);
            }
            _ => {
                let (sender, far) = twamp_pair(twamp::SecurityMode::Authenticated);
                let (mut out, truth) = super::run(sender, plan.clone(), on(far));
                check(&plan, &mut out, &truth);
                check_directions(&mut out, &truth);
            }
        }
    }
}

/// Sends one packet to reflector `b` that claims to be from reflector `a`; `ports` are their ports. Returns
/// the number of packets that follow.
fn echoes(a: &mut Far, b: &mut Far, packet: Vec<u8>, ports: [&str; 2]) -> usize {
    let mut flying = vec![(true, packet)];
    let mut followed = 0;
    while let Some((to_b, bytes)) = flying.pop() {
        let (far, from) = if to_b { (&mut *b, ports[0]) } else { (&mut *a, ports[1]) };
        let answers = far.answer_to(from, &bytes, followed as i64 * MS, 0);
        followed += answers.len();
        flying.extend(answers.into_iter().map(|bytes| (!to_b, bytes)));
        assert!(followed < 100, "they talk to each other");
    }
    followed
}

#[test]
fn reflectors_pointed_at_each_other_fall_silent() {
    let request = |protocol: &mut dyn Protocol| {
        let mut bytes = Vec::new();
        protocol.request(0, false, WallTime(EPOCH), &mut bytes);
        bytes
    };
    // On the usual ports, and behind address translators that change them.
    for ports in [["192.0.2.1:862", "192.0.2.2:862"], ["192.0.2.1:40001", "192.0.2.2:40002"]] {
        for sessions in [0, 9] {
            let spoofed = request(&mut stamp_sender());
            assert_eq!(echoes(&mut stamp_far(sessions), &mut stamp_far(sessions), spoofed, ports), 1);
        }
    }
    let ports = ["192.0.2.1:46000", "192.0.2.2:46000"];
    let mut client = lamp_client(lamp::LampMode::PingLike, None);
    let (mut a, mut b) = (lamp_far(), lamp_far());
    let packet =
        |kind, word| lamp::LampHeader::new(kind, 77, 0, word).at(WallTime(EPOCH)).to_bytes().to_vec();
    // The acknowledgement of a forged INIT belongs to no session of the other reflector.
    assert_eq!(echoes(&mut a, &mut b, packet(lamp::LampKind::Init, 1), ports), 1);
    // Sessions between the reflectors, open on both sides, do not change that.
    assert_eq!(echoes(&mut b, &mut a, packet(lamp::LampKind::Init, 1), [ports[1], ports[0]]), 1);
    assert_eq!(echoes(&mut a, &mut b, request(&mut client), ports), 1);
    assert_eq!(echoes(&mut a, &mut b, packet(lamp::LampKind::FollowUpControl, 0), ports), 1);
    assert_eq!(echoes(&mut a, &mut b, request(&mut client), ports), 1, "a follow-up needs a proof");
    // An open request is answered once, and the answer is not a request.
    let mut open = Vec::new();
    assert!(irtt_client(irtt::ReceiveStats::Both).poll_conversation(tick(0), &mut open));
    assert_eq!(echoes(&mut irtt_far(), &mut irtt_far(), open, ["192.0.2.1:2112", "192.0.2.2:2112"]), 1);
    for mode in twamp::SecurityMode::ALL {
        let (mut sender, mut far) = twamp_pair(mode);
        let spoofed = request(&mut sender);
        assert_eq!(echoes(&mut twamp_pair(mode).1, &mut far, spoofed, ["192.0.2.1:40000"; 2]), 1, "{mode}");
    }
}
