use super::*;
use crate::episodes::Episode;
use crate::severity::MIN_SPEECH_BUFFER_NS;
use crate::testing::{MS, SECOND, Test, delays, every, first, quiet, run};
use jitlat_core::clock::SyncState;
use jitlat_core::metrics::clock::ClockEstimate;
use jitlat_core::time::{Span, StampSource};

const PERIOD: i64 = 10 * MS;

fn step(place: usize, change: i64) -> LevelStep {
    LevelStep { place, change, ramp: 0, spread: [0, 0] }
}

/// Test of 2000 packets, one every 10 ms; those from 300 up to but not including 500 wait 100 ms.
fn queued() -> Test {
    let height = |k: u32| if (300..500).contains(&k) { 100 * MS } else { 0 };
    Test::new(2000, PERIOD, &every(PERIOD, 2000, |k| Some(height(k))))
}

/// Returns how many of the single losses `lost` the queue from packet 300 to 500 dropped, how many remain, and among
/// how many packets.
fn sorted(test: &Test, height: i64, lost: &[u64]) -> (u64, u64, u64) {
    let material = test.material();
    let mut case = Case::new(&material);
    let queue = Episode { from: 300, to: 500, height, count: 1 };
    case.delays.set_level(0);
    case.episodes.queues = if height > 0 { vec![queue] } else { vec![] };
    case.losses = PathLosses::new(lost.iter().map(|seq| run(*seq, 1)).collect(), 2000, |_| 0);
    case.sort_losses();
    (case.dropped_by_queue, case.scattered.lost(), case.scattered.sent)
}

#[test]
fn a_queue_that_is_nearly_full_drops() {
    let test = queued();
    let inside: Vec<u64> = (0..20).map(|k| 310 + 9 * k).collect();
    assert_eq!(sorted(&test, 100 * MS, &inside), (20, 0, 1800));
    assert_eq!(sorted(&test, 0, &inside), (0, 20, 2000));
    // The neighbours must wait for 55 % of the queue's height.
    let height = first(100 * MS..=SECOND, |height| sorted(&test, height, &inside).0 == 0);
    assert_eq!(height, (100.0 * MS as f64 / 0.55) as i64 + 1);
    // One of the packets before and after the loss must wait.
    let at = |seq: u64| sorted(&test, 100 * MS, &[seq, 400, 410]).0;
    assert_eq!([299, 300, 301, 499, 500, 501].map(at), [0, 3, 3, 3, 3, 0]);
    // At least three losses are required.
    assert_eq!([sorted(&test, 100 * MS, &[400, 410]).0, sorted(&test, 100 * MS, &[400, 410, 420]).0], [0, 3]);
}

#[test]
fn a_queue_drops_twice_as_many_as_are_lost_elsewhere() {
    let test = queued();
    let with = |outside: i64| {
        let mut lost: Vec<u64> = (0..20).map(|k| 310 + 9 * k).collect();
        lost.extend((0..outside as u64).map(|k| 600 + 10 * k));
        sorted(&test, 100 * MS, &lost)
    };
    // 20 of 200 packets are a tenth; 90 of 1800 are half of that.
    assert_eq!(first(0..=130, |outside| with(outside).0 == 0), 91);
    assert_eq!(with(90), (20, 90, 2000));
    assert_eq!(with(91), (0, 111, 2000));
}

#[test]
fn a_queue_in_the_senders_interface_drops_too() {
    let test = quiet();
    let material = test.material();
    let of = |wait: i64| {
        let mut case = Case::new(&material);
        case.late.queued =
            (0..1000).map(|k| (k, if (300..400).contains(&k) { wait } else { 100 * MS })).collect();
        case.losses = PathLosses::new((0..10).map(|k| run(310 + 8 * k, 1)).collect(), 1000, |_| 0);
        case.sort_losses();
        (case.dropped_by_queue, case.scattered.sent)
    };
    assert_eq!(first(6 * MS..=90 * MS, |wait| of(wait).0 == 10), (0.55 * 100e6f64).ceil() as i64);
    // If the queue is full for the whole test, half of the packets remain.
    assert_eq!(of(60 * MS), (10, 500));
    let none = Case::new(&material);
    assert_eq!((none.dropped_by_queue, none.scattered.sent), (0, 1000));
}

#[test]
fn a_step_within_a_higher_queue_is_the_queues() {
    let of = |place, change, reason| {
        let mut steps = vec![(step(place, change), reason)];
        let queue = Episode { from: 300, to: 500, height: 50 * MS, count: 1 };
        let episodes = Episodes { queues: vec![queue], ..Episodes::default() };
        let any = within_queues(&mut steps, &episodes);
        assert_eq!(any, steps[0].1 != reason);
        any
    };
    let at = |place| of(place, 10 * MS, StepReason::Route);
    assert_eq!([300, 301, 499, 500].map(at), [false, true, true, false]);
    let by = |change| of(400, change, StepReason::Route);
    assert_eq!([50 * MS - 1, 50 * MS, 1 - 50 * MS, -50 * MS].map(by), [true, false, true, false]);
    assert!(!of(400, 10 * MS, StepReason::ReceiverClock) && !of(400, 10 * MS, StepReason::SenderClock));
}

/// Returns true if a run of `len` packets lost from `start` is attributed to a step at index `place`.
fn at_step(start: u64, len: u64, place: usize, reason: StepReason) -> bool {
    let gone = start..start + len;
    let received = every(PERIOD, 1000, |k| (!gone.contains(&u64::from(k))).then_some(0));
    let test = Test::new(1000, PERIOD, &received);
    let d = test.delays();
    let departures = LossTimes::new(&d, &test.session);
    let mut runs = vec![run(start, len)];
    let taken = lost_at_steps(&mut runs, &[(step(place, MS), reason)], &d, &departures);
    assert_eq!(taken.len() + runs.len(), 1);
    !taken.is_empty()
}

#[test]
fn a_route_that_changes_loses_packets_for_a_moment() {
    // The run begins at number 500, and the first packet after it has index 500.
    assert!(at_step(500, 5, 500, StepReason::Route));
    // The step may be one packet away on either side.
    assert_eq!(
        [498, 499, 500, 501, 502].map(|place| at_step(500, 5, place, StepReason::Route)),
        [false, true, true, true, false]
    );
    // The run must last less than 220 ms.
    assert_eq!(first(1..=100, |len| !at_step(500, len as u64, 500, StepReason::Route)), 22);
    for reason in [StepReason::Queue, StepReason::SenderClock, StepReason::ReceiverClock] {
        assert!(!at_step(500, 5, 500, reason));
    }
    assert!(!at_step(500, 5, 0, StepReason::Route) && !at_step(500, 5, 995, StepReason::Route));
    assert!(!at_step(998, 1, 999, StepReason::Route) && at_step(998, 1, 998, StepReason::Route));
}

#[test]
fn what_the_system_refused_is_not_lost() {
    let left = |lengths: &[u64], refused| {
        let mut runs: Vec<SeqRun> = (0..).zip(lengths).map(|(k, len)| run(1000 * k, *len)).collect();
        without_refused(&mut runs, refused);
        runs.iter().map(|r| r.len).collect::<Vec<_>>()
    };
    assert_eq!(left(&[50, 60], 0), [50, 60]);
    // All losses were refused, to within a tenth.
    assert_eq!(left(&[50, 60], 100), [0; 0]);
    assert_eq!(left(&[50, 61], 100), [50, 61]);
    // Otherwise the one run of the same length, to within a twentieth.
    assert_eq!(left(&[50, 95, 30], 100), [50, 30]);
    assert_eq!(left(&[50, 105, 30], 100), [50, 30]);
    assert_eq!(left(&[50, 94, 30], 100), [50, 94, 30]);
    assert_eq!(left(&[50, 106, 30], 100), [50, 106, 30]);
}

#[test]
fn each_route_has_its_smallest_delay() {
    let mut d = delays(&every(PERIOD, 1000, |k| Some(if k < 500 { 0 } else { 5 * MS })));
    set_levels(
        &mut d,
        &[
            (step(700, MS), StepReason::Queue),
            (step(500, MS), StepReason::Route),
            (step(200, MS), StepReason::SenderClock),
        ],
    );
    assert_eq!([0, 499, 500, 999].map(|k| d.excess(k)), [0, 0, 0, 0]);
    set_levels(&mut d, &[]);
    assert_eq!([499, 500].map(|k| d.excess(k)), [0, 5 * MS]);
}

/// Smallest one-way delay of a path whose packets take 20 ms according to its clocks; `None` if unknown.
fn base(set: impl FnOnce(&mut Test), steps: &[(LevelStep, StepReason)]) -> Option<f64> {
    let mut test = quiet();
    set(&mut test);
    let material = test.material();
    let mut case = Case::new(&material);
    case.steps = steps.to_vec();
    case.experience().base_ns.map(|ns| ns / MS as f64)
}

#[test]
fn a_delay_is_known_by_the_clocks_or_by_half_a_round_trip() {
    let clock = |change: fn(&mut ClockEstimate)| {
        move |test: &mut Test| {
            test.clock = ClockEstimate {
                correction_ns: Some(5 * MS),
                direction_known: true,
                min_rtt_ns: Some(16 * MS),
                bound_ns: Some(8e6),
                ..ClockEstimate::default()
            };
            change(&mut test.clock);
        }
    };
    let (sender, receiver) =
        ([(step(500, MS), StepReason::SenderClock)], [(step(500, MS), StepReason::ReceiverClock)]);
    assert_eq!(base(|_| (), &[]), None);
    assert_eq!(base(|t| t.round_trip = true, &[]), Some(10.0));
    assert_eq!(base(clock(|_| ()), &[]), Some(15.0));
    assert_eq!(base(clock(|_| ()), &[(step(500, MS), StepReason::Route)]), Some(15.0));
    // If a clock was set, or the direction is unknown, it is half a round trip.
    for set in [&sender, &receiver] {
        assert_eq!(base(clock(|_| ()), set), Some(8.0));
    }
    assert_eq!(base(clock(|c| c.direction_known = false), &[]), Some(8.0));
    // An offset without a bound of its error gives no delay.
    assert_eq!(base(clock(|c| c.bound_ns = None), &[]), None);
}

#[test]
fn a_delay_that_the_clocks_bound_is_known_whatever_its_size() {
    // A path of `ms` in each direction between clocks 31 s apart; the probes exceed the shortest by `spread` ns.
    let of = |ms: i64, spread: Option<f64>| {
        let known = |test: &mut Test| {
            test.clock = ClockEstimate {
                correction_ns: Some((20 - ms) * MS),
                direction_known: true,
                min_rtt_ns: Some(2 * ms * MS),
                bound_ns: Some((ms * MS) as f64),
                rtt_spread_ns: spread,
                ..ClockEstimate::default()
            };
        };
        base(known, &[])
    };
    for ms in [10, 300, 500, 501, 1613, 10_000] {
        assert_eq!(of(ms, Some(2e6)), Some(ms as f64));
        // A log of version 2 contains only the shortest round trip.
        assert_eq!(of(ms, None), Some(ms as f64));
    }
    // If probes scatter by more than half of a long bound, they were slow themselves.
    assert_eq!([of(1600, Some(800e6)), of(1600, Some(800e6 + 1.0))], [Some(1600.0), None]);
    assert_eq!(of(500, Some(5e9)), Some(500.0));
}

#[test]
fn kernels_that_call_their_clocks_synchronised_are_believed_to_50_ms() {
    let of = |error: i64, steps: &[(LevelStep, StepReason)]| {
        let synchronised = |test: &mut Test| {
            let state = SyncState {
                synchronised: true,
                offset: Span(0),
                estimated_error: Span(0),
                maximum_error: Span(error),
                frequency_ppb: 0,
            };
            (test.clock.client.after, test.clock.server.after) = (Some(state), Some(state));
        };
        base(synchronised, steps)
    };
    assert_eq!([of(25 * MS - 1, &[]), of(25 * MS, &[])], [Some(20.0), None]);
    assert_eq!(of(0, &[(step(500, MS), StepReason::SenderClock)]), None);
}

#[test]
fn an_application_lives_through_losses_but_not_through_outages() {
    // 60 consecutive packets and one of each hundred are lost.
    let received = every(PERIOD, 1000, |k| (k % 100 != 50 && !(300..360).contains(&k)).then_some(0));
    let test = Test::new(1000, PERIOD, &received);
    let material = test.material();
    let mut case = Case::new(&material);
    let lived = case.experience();
    assert_eq!((lived.sent, lived.lost), (940, 9));
    case.lost_at_steps = vec![run(700, 3), run(800, 4)];
    let lived = case.experience();
    assert_eq!((lived.sent, lived.lost), (947, 16));
    let tcp = Test::with(
        1000,
        PERIOD,
        &received,
        jitlat_core::spec::Schedule::Periodic,
        (jitlat_core::spec::Direction::Up, Transport::Tcp),
    );
    let material = tcp.material();
    let lived = Case::new(&material).experience();
    assert_eq!((lived.sent, lived.lost), (931, 0));
}

#[test]
fn packets_that_a_host_held_or_sent_late_are_set_aside() {
    let held = |k: u32| if (300..320).contains(&k) { 200 * MS - i64::from(k - 300) * PERIOD } else { 0 };
    let mut test = Test::new(1000, PERIOD, &every(PERIOD, 1000, |k| Some(held(k))));
    let longest = |test: &Test, queued: Vec<(usize, i64)>| -> i64 {
        let material = test.material();
        let mut case = Case::new(&material);
        case.episodes.holds = vec![Hold { from: 300, to: 320, length: 200 * MS }];
        case.late.queued = queued;
        case.experience().buffers(0).map(|(wait, _)| wait).max().unwrap()
    };
    // The result is the longest wait, but at least the smallest buffer of speech.
    assert_eq!(longest(&test, vec![]), MIN_SPEECH_BUFFER_NS);
    // Waits in the host's own interface do not count either.
    assert_eq!(longest(&test, vec![(500, 30 * MS)]), MIN_SPEECH_BUFFER_NS);
    test.arrived_by = Some(StampSource::Kernel);
    assert_eq!(longest(&test, vec![]), 200 * MS);
}

#[test]
fn a_long_hold_is_60_ms_or_three_periods() {
    let of = |period: i64| {
        let test = Test::new(1000, period, &every(period, 1000, |_| Some(0)));
        let material = test.material();
        Case::new(&material).longest_usual_hold()
    };
    assert_eq!([of(10 * MS), of(20 * MS), of(21 * MS)], [60 * MS, 60 * MS, 63 * MS]);
}

#[test]
fn places_and_numbers_have_their_times() {
    let received = every(PERIOD, 1000, |k| (k >= 100).then_some(0));
    let test = Test::new(1200, PERIOD, &received);
    let material = test.material();
    let case = Case::new(&material);
    assert_eq!([50, 100, 1100].map(|seq| case.seconds(seq)), [-0.5, 0.0, 10.0]);
    assert_eq!([0, 899, 900, 5000].map(|k| case.seconds_at(k)), [0.0, 8.99, case.duration, case.duration]);
    assert_eq!(case.duration, 10.99);
    // The last packet may be sent late.
    let mut late = every(PERIOD, 100, |_| Some(0));
    late[99].sent += SECOND;
    let test = Test::new(100, PERIOD, &late);
    let material = test.material();
    assert_eq!(Case::new(&material).duration, 1.99);
}

#[test]
fn steps_and_drifts_take_a_hundred_packets() {
    let of = |n: i64| {
        let test =
            Test::new(n as u32, PERIOD, &every(PERIOD, n as u32, |k| Some(if k < 48 { 0 } else { 5 * MS })));
        let material = test.material();
        !Case::new(&material).steps.is_empty()
    };
    assert_eq!(first(50..=200, of), MIN_PACKETS as i64);
}
