//! Tests on the simulated network. Paths lose, duplicate, delay and reorder test packets; hosts have wrong
//! clocks, pause and vanish; unrelated packets arrive. Conversations must end in time, and the records must
//! be correct.

use super::{DataRecord, ScheduleSlot, SessionFinish};
use crate::amp::{AmpEndReason, SecurityMode};
use crate::sim::SimClock;
use crate::sim::owamp::{OwampSimOutcome, OwampTrouble, OwampWorld, SimHost};
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Direction, Span};
use jitlat_impair::{Choice, DuplicationModel, Jitter, PathModel, ReorderingModel};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MS: u64 = (1 << 32) / 1000;
const MODES: [SecurityMode; 3] = [SecurityMode::Open, SecurityMode::Authenticated, SecurityMode::Encrypted];

fn both(packets: u32, slot: ScheduleSlot) -> Vec<(Direction, u32, Vec<ScheduleSlot>)> {
    vec![(Direction::Up, packets, vec![slot]), (Direction::Down, packets, vec![slot])]
}

/// Counts the occurrences of each sequence number.
fn tally(seqs: impl Iterator<Item = u32>) -> BTreeMap<u32, usize> {
    let mut tally = BTreeMap::new();
    seqs.for_each(|seq| *tally.entry(seq).or_default() += 1);
    tally
}

/// Checks that a test that ended normally has correct records of every session: each packet that arrived,
/// with its times, and each packet that did not.
fn check(outcome: &OwampSimOutcome, sessions: usize) {
    assert_eq!(outcome.client, Ok(()));
    assert_eq!(outcome.server, Some(AmpEndReason::Closed));
    assert_eq!((outcome.data.len(), outcome.misdirected), (sessions, 0));
    for (sid, data) in &outcome.data {
        let (data, truth) = (data.as_ref().expect("it was recorded"), &outcome.truth[sid]);
        assert_eq!(data.finished, SessionFinish::Normally);
        let near = truth.sent.first().map_or(crate::sim::EPOCH, |s| s.1);
        let (came, lost): (Vec<&DataRecord>, Vec<_>) =
            data.records.iter().partition(|r| r.received.is_some());
        // In order of arrival, with both times.
        let recorded: Vec<_> = came.iter().map(|r| (r.seq, r.received.unwrap().to_nanos(near))).collect();
        let in_time: Vec<_> = truth.came.iter().take(recorded.len()).copied().collect();
        assert_eq!(recorded, in_time);
        let sent: BTreeMap<u32, _> = truth.sent.iter().copied().collect();
        for record in &came {
            assert_eq!(record.sent, NtpTime::from(sent[&record.seq]));
            assert_eq!((record.send_error, record.ttl), (crate::sim::owamp::ERROR, 255));
        }
        // Every sequence number up to the last one that counts is present: once per arrival, or once as lost.
        let arrivals = tally(truth.came.iter().map(|c| c.0));
        assert_eq!(tally(came.iter().map(|r| r.seq)), arrivals);
        let next = data.next_seq.unwrap();
        let skipped = |seq| data.skips.iter().any(|r| (r.first..=r.last).contains(&seq));
        let missing: Vec<u32> = (0..next).filter(|seq| !arrivals.contains_key(seq)).collect();
        let mut given_up: Vec<u32> = lost.iter().map(|r| r.seq).collect();
        given_up.sort_unstable();
        assert_eq!(given_up, missing);
        assert!((0..next).all(|seq| sent.contains_key(&seq) != skipped(seq)));
        assert_eq!(sent.len() as u32 + data.skips.iter().map(|r| r.last - r.first + 1).sum::<u32>(), next);
    }
}

#[test]
fn both_directions_in_every_mode_and_schedule() {
    for mode in MODES {
        for slots in [
            vec![ScheduleSlot::Fixed(20 * MS)],
            vec![ScheduleSlot::Exponential(20 * MS), ScheduleSlot::Fixed(5 * MS)],
        ] {
            for piece in [1, 13, usize::MAX] {
                let sessions =
                    both(40, slots[0]).into_iter().map(|(d, n, _)| (d, n, slots.clone())).collect();
                let outcome = OwampWorld { piece, padding: 60, ..OwampWorld::new(mode, sessions) }.run();
                check(&outcome, 2);
                for data in outcome.data.values().flatten() {
                    assert_eq!((data.records.len(), data.next_seq), (40, Some(40)), "{mode}");
                }
                assert_eq!(outcome.kept, 1, "what the server received");
            }
        }
    }
}

/// One direction drops 5 of 100 packets, and the loss is reported in that direction only.
#[test]
fn loss_is_reported_by_direction() {
    for (up, down) in [(5, 0), (0, 5), (7, 3)] {
        let drop = |n: u64| PathModel {
            delay: Span::millis(5),
            loss: Choice::indices((0..n).map(|k| k * 13 + 2)),
            ..PathModel::default()
        };
        let sessions = both(100, ScheduleSlot::Exponential(10 * MS));
        let outcome =
            OwampWorld { up: drop(up), down: drop(down), ..OwampWorld::new(SecurityMode::Open, sessions) }
                .run();
        check(&outcome, 2);
        for (sid, data) in &outcome.data {
            let lost = data.as_ref().unwrap().records.iter().filter(|r| r.received.is_none()).count() as u64;
            let wanted = if outcome.truth[sid].direction == Some(Direction::Up) { up } else { down };
            assert_eq!(lost, wanted);
        }
    }
}

/// A clock offset below the timeout changes delays, but not counts.
#[test]
fn clocks_apart_move_delays_alone() {
    for ms in [-400, 90, 400] {
        let clocks = [SimClock::default(), SimClock { offset: Span::millis(ms), skew_ppb: 50_000 }];
        let outcome = OwampWorld {
            clocks,
            ..OwampWorld::new(SecurityMode::Encrypted, both(50, ScheduleSlot::Fixed(10 * MS)))
        }
        .run();
        check(&outcome, 2);
        for (sid, data) in &outcome.data {
            let up = outcome.truth[sid].direction == Some(Direction::Up);
            for record in &data.as_ref().unwrap().records {
                let units = (record.received.unwrap().0).wrapping_sub(record.sent.0) as i64;
                let delay = (units * 1000) >> 32;
                let wanted = if up { 5 + ms } else { 7 - ms };
                assert!((wanted - 2..=wanted + 2).contains(&delay), "{delay} ms, {wanted} wanted");
            }
        }
    }
    // With a larger offset, everything counts as lost, because the protocol cannot distinguish offset and
    // delay.
    let clocks = [SimClock::default(), SimClock { offset: Span::seconds(2), skew_ppb: 0 }];
    let outcome =
        OwampWorld { clocks, ..OwampWorld::new(SecurityMode::Open, both(50, ScheduleSlot::Fixed(10 * MS))) }
            .run();
    assert_eq!(outcome.client, Ok(()));
    for data in outcome.data.values() {
        assert!(data.as_ref().unwrap().records.iter().all(|r| r.received.is_none()));
    }
}

/// A delayed sender skips packets that are too late, reports them, and sends the rest in a burst.
#[test]
fn a_paused_sender_reports_the_packets_it_skips() {
    for host in [SimHost::Client, SimHost::Server] {
        let mut world = OwampWorld::new(SecurityMode::Authenticated, both(50, ScheduleSlot::Fixed(20 * MS)));
        world.troubles = vec![(Span::millis(600), OwampTrouble::Pause(host, Span::millis(800)))];
        let outcome = world.run();
        let sends = |d| d == if host == SimHost::Client { Direction::Up } else { Direction::Down };
        for (sid, data) in &outcome.data {
            let data = data.as_ref().unwrap();
            if sends(outcome.truth[sid].direction.unwrap()) {
                let [skip] = data.skips[..] else { panic!("{:?}", data.skips) };
                assert_eq!(skip.last - skip.first, 14, "0.8 s less the timeout of 0.5 s: {skip:?}");
                let lost = data.records.iter().filter(|r| r.received.is_none()).map(|r| r.seq);
                assert_eq!(lost.collect::<Vec<_>>(), (skip.first..=skip.last).collect::<Vec<_>>());
            } else {
                assert_eq!(data.skips, []);
            }
        }
    }
}

/// The last packets leave more than a second late, but within the timeout: both ends wait for their results.
#[test]
fn packets_that_leave_late_are_part_of_the_results() {
    for host in [SimHost::Client, SimHost::Server] {
        let mut world = OwampWorld::new(SecurityMode::Open, both(50, ScheduleSlot::Fixed(20 * MS)));
        world.timeout = Span::seconds(2);
        world.troubles = vec![(Span::millis(600), OwampTrouble::Pause(host, Span::millis(1900)))];
        let outcome = world.run();
        for (sid, data) in &outcome.data {
            let data = data.as_ref().unwrap();
            assert_eq!((outcome.truth[sid].sent.len(), data.next_seq), (50, Some(50)), "{host:?}");
            let lost = data.records.iter().filter(|r| r.received.is_none()).count();
            assert_eq!((data.records.len(), lost), (50, 0), "{host:?} {:?}", outcome.truth[sid].direction);
        }
    }
}

#[test]
fn an_interrupt_ends_the_test_and_keeps_what_there_is() {
    for ms in [0, 5, 20, 40, 60, 100, 200, 700, 1200, 1900] {
        let mut world = OwampWorld::new(SecurityMode::Open, both(100, ScheduleSlot::Fixed(20 * MS)));
        world.troubles = vec![(Span::millis(ms), OwampTrouble::Interrupt)];
        let outcome = world.run();
        assert_eq!(outcome.client, Ok(()), "{ms} ms");
        assert!(outcome.took < Span::seconds(5), "{ms} ms: {:?}", outcome.took);
        for (sid, data) in &outcome.data {
            let (data, truth) = (data.as_ref().unwrap(), &outcome.truth[sid]);
            // Packets sent less than the timeout before the end are omitted (RFC 4656 §3.8).
            let counted = data.records.len() as u64;
            let sent = truth.sent.len() as u64;
            assert!(
                counted <= sent && counted + 27 >= sent.min(truth.came.len() as u64),
                "{ms}: {counted} of {sent}"
            );
            assert!(data.records.iter().all(|r| r.received.is_some()));
        }
        assert!(outcome.data.is_empty() || outcome.data.len() == 2, "{ms} ms");
    }
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        Just(Choice::Never),
        prop::collection::vec(0u64..60, 0..20).prop_map(Choice::indices),
        (0.0..0.4f64).prop_map(Choice::Bernoulli),
    ]
}

fn path() -> impl Strategy<Value = PathModel> {
    (choice(), choice(), choice(), 0i64..60, 0i64..30, 0i64..15).prop_map(
        |(loss, copies, late, by, lag, jitter)| PathModel {
            delay: Span::millis(5),
            loss,
            jitter: if jitter > 0 { Jitter::Uniform { max: Span::millis(jitter) } } else { Jitter::None },
            duplication: DuplicationModel { choice: copies, copies: 1, lag: Span::millis(lag) },
            reordering: ReorderingModel { choice: late, by: Span::millis(by) },
            ..PathModel::default()
        },
    )
}

fn slots() -> impl Strategy<Value = Vec<ScheduleSlot>> {
    let slot = prop_oneof![
        (MS / 2..30 * MS).prop_map(ScheduleSlot::Fixed),
        (MS / 2..30 * MS).prop_map(ScheduleSlot::Exponential)
    ];
    prop::collection::vec(slot, 1..4)
}

fn host() -> impl Strategy<Value = SimHost> {
    prop_oneof![Just(SimHost::Client), Just(SimHost::Server)]
}

fn trouble() -> impl Strategy<Value = OwampTrouble> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        Just(OwampTrouble::Break),
        Just(OwampTrouble::Interrupt),
        host().prop_map(OwampTrouble::Vanish),
        (host(), -3000i64..3000).prop_map(|(h, ms)| OwampTrouble::Step(h, Span::millis(ms))),
        (host(), 0i64..3000).prop_map(|(h, ms)| OwampTrouble::Pause(h, Span::millis(ms))),
        (host(), bytes()).prop_map(|(h, bytes)| OwampTrouble::Say(h, bytes)),
        (host(), 0usize..3, any::<bool>(), bytes())
            .prop_map(|(h, k, known, b)| OwampTrouble::Stray(h, k, known, b)),
        (0usize..200).prop_map(OwampTrouble::Again),
        (host(), 0usize..3).prop_map(|(h, k)| OwampTrouble::Complete(h, k)),
    ]
}

/// Checks that a conversation always ends, that the server sends only to its client and no more than was
/// accepted, and that memory is bounded.
fn survive(outcome: &OwampSimOutcome, granted: u64) {
    assert!(outcome.took < Span::seconds(1100), "{:?}", outcome.took);
    assert_eq!(outcome.misdirected, 0);
    assert!(outcome.server_sent <= granted, "{} sent", outcome.server_sent);
    assert!(outcome.server_control_bytes < 1 << 20);
    assert!(outcome.kept <= 4);
    for (sid, data) in &outcome.data {
        let Ok(data) = data else { continue };
        let most = 2 * data.session.request.packets as usize + 1024;
        assert!(data.records.len() <= most);
        let sent = &outcome.truth[sid].sent;
        assert!(sent.len() as u32 <= data.session.request.packets);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn counts_are_the_truth_on_any_path(
        up in path(), down in path(), slots in slots(), mode in 0..3usize, packets in 1u32..60, seed in any::<u64>(),
    ) {
        let sessions = both(packets, slots[0]).into_iter().map(|(d, n, _)| (d, n, slots.clone())).collect();
        let world = OwampWorld { up, down, seed, ..OwampWorld::new(MODES[mode], sessions) };
        check(&world.run(), 2);
    }

    #[test]
    fn whatever_happens_it_ends(
        up in path(), down in path(), mode in 0..3usize,
        troubles in prop::collection::vec((0i64..3000, trouble()), 0..12),
        sessions in prop::collection::vec((any::<bool>(), 1u32..60), 1..4),
    ) {
        let sessions: Vec<_> = sessions
            .into_iter()
            .map(|(up, n)| (if up { Direction::Up } else { Direction::Down }, n, vec![ScheduleSlot::Exponential(20 * MS)]))
            .collect();
        let granted = sessions.iter().filter(|s| s.0 == Direction::Down).map(|s| u64::from(s.1)).sum();
        let troubles = troubles.into_iter().map(|(ms, t)| (Span::millis(ms), t)).collect();
        let world = OwampWorld { up, down, troubles, ..OwampWorld::new(MODES[mode], sessions) };
        survive(&world.run(), granted);
    }
}

/// Every kind of fault, at every step of a short conversation.
#[test]
fn anything_at_any_step_is_survived() {
    let world = || OwampWorld::new(SecurityMode::Encrypted, both(5, ScheduleSlot::Fixed(20 * MS)));
    let steps = world().run().steps;
    assert!(steps > 20);
    for step in 1..=steps {
        for trouble in [
            OwampTrouble::Break,
            OwampTrouble::Vanish(SimHost::Client),
            OwampTrouble::Vanish(SimHost::Server),
            OwampTrouble::Interrupt,
            OwampTrouble::Pause(SimHost::Client, Span::seconds(3)),
            OwampTrouble::Pause(SimHost::Server, Span::seconds(3)),
            OwampTrouble::Say(SimHost::Client, vec![3; 64]),
            OwampTrouble::Say(SimHost::Server, vec![3; 64]),
            OwampTrouble::Step(SimHost::Server, Span::seconds(-30)),
        ] {
            let place = format!("{trouble:?} at step {step}");
            let outcome = OwampWorld { at_step: Some((step, trouble)), ..world() }.run();
            survive(&outcome, 5);
            assert!(outcome.took < Span::seconds(1000), "{place}: {:?}", outcome.took);
        }
    }
}
