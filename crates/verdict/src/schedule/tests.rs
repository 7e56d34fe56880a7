use super::*;
use crate::testing::{MS, SECOND, Test, every, first, packets};
use jitlat_core::metrics::classify::AcceptedPacket;

const PERIOD: i64 = 10 * MS;
const NO_NOISE: DelayNoise = DelayNoise { median: 0, p90: 0 };

/// Test of 100 packets whose send times and delays are changed by `off`, in ns.
fn set(off: impl Fn(u32) -> (i64, i64)) -> Test {
    let packets = every(PERIOD, 100, |_| Some(20 * MS));
    let moved = packets.into_iter().map(|p| {
        let (sent, delay) = off(p.seq);
        AcceptedPacket { sent: p.sent + sent, delay: p.delay + delay, ..p }
    });
    Test::new(100, PERIOD, &moved.collect::<Vec<_>>())
}

/// The sender's clock was set forward by `by` ns at packet `place`.
fn stepped(place: u32, by: i64) -> Test {
    set(|k| if k < place { (0, 0) } else { (by, -by) })
}

fn steps_of(test: &Test, noise: DelayNoise) -> Vec<(usize, i64)> {
    clock_steps(&test.delays(), &test.material(), noise).iter().map(|s| (s.place, s.change)).collect()
}

#[test]
fn a_clock_of_the_sender_that_is_set_by_a_millisecond_is_seen() {
    assert_eq!(first(0..=10 * MS, |by| !steps_of(&stepped(50, by), NO_NOISE).is_empty()), MIN_STEP_NS);
    assert_eq!(first(0..=10 * MS, |by| !steps_of(&stepped(50, -by), NO_NOISE).is_empty()), MIN_STEP_NS);
    assert_eq!(steps_of(&stepped(50, 3 * MS), NO_NOISE), [(50, -3 * MS)]);
    assert_eq!(steps_of(&stepped(50, -3 * MS), NO_NOISE), [(50, 3 * MS)]);
    let twice = set(|k| match k {
        ..30 => (0, 0),
        30..70 => (3 * MS, -3 * MS),
        _ => (6 * MS, -6 * MS),
    });
    assert_eq!(steps_of(&twice, NO_NOISE), [(30, -3 * MS), (70, -3 * MS)]);
    // At least six packets are required on either side.
    let at = |place: i64| !steps_of(&stepped(place as u32, 3 * MS), NO_NOISE).is_empty();
    assert_eq!((first(1..=50, at), first(50..=99, |place| !at(place))), (6, 94));
}

#[test]
fn packets_near_their_schedule_left_it_by_no_step() {
    let with = |range| steps_of(&Test { off_schedule: range, ..stepped(50, 3 * MS) }, NO_NOISE).len();
    assert_eq!([with(Some([-5, MS - 6])), with(Some([-5, MS - 5])), with(None)], [0, 1, 1]);
    // No step is found if packets follow another schedule than the log states.
    let mut random = stepped(50, 3 * MS);
    let packets: Vec<AcceptedPacket> = random.series.iter().collect();
    random = Test::of(100, PERIOD, &packets, Schedule::Poisson { seed: 1 });
    assert_eq!(steps_of(&random, NO_NOISE), []);
    // A log of version 2 does not state bursts.
    let mut pairs = set(|k| {
        (-i64::from(k % 2) * PERIOD + if k < 50 { 0 } else { 3 * MS }, if k < 50 { 0 } else { -3 * MS })
    });
    pairs.session.version = 2;
    assert_eq!(pairs.delays().pace(), SendPattern::Bursts(2));
    assert_eq!(steps_of(&pairs, NO_NOISE), [(50, -3 * MS)]);
}

#[test]
fn delays_change_by_as_much_the_other_way_as_send_times() {
    // For a step of 8 ms, the two changes must agree to within an eighth, twice the noise, or 0.1 ms.
    let with = |p90| {
        move |error: i64| {
            let test = set(|k| if k < 50 { (0, 0) } else { (8 * MS, -8 * MS + error) });
            steps_of(&test, DelayNoise { median: 0, p90 }).is_empty()
        }
    };
    assert_eq!(first(0..=8 * MS, with(0)), MS + 1);
    assert_eq!(first(-8 * MS..=0, |e| !with(0)(e)), -MS);
    assert_eq!(first(0..=8 * MS, with(750_000)), 1_500_001);
    // For a small step the changes must agree to within 0.1 ms, and this must be less than half of the step.
    let small = |error: i64| {
        steps_of(&set(|k| if k < 50 { (0, 0) } else { (MS / 2 * 2, -MS + error) }), NO_NOISE).is_empty()
    };
    assert_eq!(first(0..=MS, small), 125_001);
    // Steps below twice the margin for noise are not found.
    let noisy = |by| !steps_of(&stepped(50, by), DelayNoise { median: 0, p90: 5 * MS }).is_empty();
    assert_eq!(first(0..=SECOND, noisy), 20 * MS);
}

#[test]
fn a_step_stays() {
    // The step must last for seven of the twelve packets after it.
    let for_packets = |n: i64| {
        let test = set(|k| if (50..50 + n as u32).contains(&k) { (8 * MS, -8 * MS) } else { (0, 0) });
        steps_of(&test, NO_NOISE).iter().any(|(place, _)| *place == 50)
    };
    assert_eq!(first(1..=20, for_packets), 7);
    // Later packets may be off by a quarter more: in send time, and in delay, where the noise is added.
    let later = |sent: i64, late: i64, p90| {
        let test = set(|k| match k {
            ..50 => (0, 0),
            50 => (8 * MS, -8 * MS),
            _ => (8 * MS + sent, -8 * MS - late),
        });
        steps_of(&test, DelayNoise { median: 0, p90 }).iter().any(|(place, _)| *place == 50)
    };
    assert_eq!(first(0..=8 * MS, |more| !later(more, 0, 500_000)), 2 * MS + 1);
    assert_eq!(first(0..=8 * MS, |more| !later(-more, 0, 500_000)), 2 * MS + 1);
    assert_eq!(first(0..=8 * MS, |more| !later(0, more, 500_000)), 2_500_001);
    assert_eq!(first(0..=8 * MS, |more| !later(0, -more, 500_000)), 2_500_001);
}

/// Returns the indices of the packets that waited behind others. `left`: departure time and time in the interface, in ms.
fn behind(left: &[(i64, i64)]) -> Vec<usize> {
    let test = Test::new(left.len() as u32, PERIOD, &packets(left.iter().map(|(at, _)| (at * MS, 0))));
    let queued: Vec<(usize, i64)> = left
        .iter()
        .enumerate()
        .filter(|(_, (_, wait))| *wait > 0)
        .map(|(k, (_, wait))| (k, wait * MS))
        .collect();
    behind_others(&test.delays(), &queued).into_iter().map(|(k, _)| k).collect()
}

#[test]
fn packets_wait_behind_one_that_has_not_left_yet() {
    // The first of the two packets was passed to the kernel at 30 ms and left at 60 ms.
    let next_handed_over = |at: i64| behind(&[(0, 0), (10, 0), (60, 30), (61, 61 - at), (90, 0)]);
    assert_eq!(next_handed_over(40), [2, 3]);
    assert_eq!(next_handed_over(59), [2, 3]);
    assert_eq!(next_handed_over(60), [0usize; 0], "when the first had left");
    assert_eq!(next_handed_over(30), [0usize; 0], "with one reading of the clock");
    assert_eq!(next_handed_over(31), [2, 3]);
    // The other packet need not have waited itself, and it may be the last one.
    assert_eq!(behind(&[(0, 0), (60, 30), (40, 0)]), [1]);
    assert_eq!(behind(&[(60, 30), (61, 20)]), [0, 1]);
    assert_eq!(behind(&[(0, 0), (60, 30)]), [0usize; 0]);
}

#[test]
fn packets_wait_beside_others_that_wait() {
    assert_eq!(behind(&[(0, 0), (10, 5), (20, 5), (30, 5), (40, 0)]), [2]);
    assert_eq!(behind(&[(0, 5), (10, 5), (20, 0)]), [0]);
    assert_eq!(behind(&[(0, 0), (10, 5), (20, 0), (30, 5), (40, 0)]), [0usize; 0]);
}

#[test]
fn what_waited_is_noted_by_place() {
    let mut received = packets([(0, 0), (60 * MS, 0), (61 * MS, 0), (90 * MS, 0)]);
    (received[0].seq, received[1].seq, received[2].seq, received[3].seq) = (0, 5, 6, 9);
    let mut test = Test::new(10, PERIOD, &received);
    test.notes.sent_late = vec![(6, 21 * MS), (5, 30 * MS), (40, 30 * MS)];
    let late = SenderDelays::new(&test.delays(), &test.material());
    assert_eq!(late.queued, [(1, 30 * MS), (2, 21 * MS)]);
    assert_eq!([0, 1, 2, 3].map(|k| late.of(k)), [0, 30 * MS, 21 * MS, 0]);
}

#[test]
fn a_height_takes_eight_waits_of_5_ms_and_one_of_100() {
    let of = |packets, waits: Vec<i64>| {
        SenderDelays { queued: (0..).zip(waits).collect(), packets, ..SenderDelays::default() }.height()
    };
    assert_eq!(first(0..=50, |n| of(100, vec![9 * MS; n as usize]).is_some()), 8);
    assert_eq!(first(0..=50, |n| of(2000, vec![9 * MS; n as usize]).is_some()), 20);
    assert_eq!(first(0..=9 * MS, |ns| of(100, vec![ns; 10]).is_some()), MIN_STAY_NS);
    // The 95th percentile of 40 waits is the 39th.
    assert_eq!(of(100, (0..40).rev().map(|k| (10 + k) * MS).collect()), Some(48 * MS));
}

/// Test of 200 packets, one every `period` ns: packet 100 leaves `length` ns late, those due meanwhile leave with it,
/// and the others in time.
fn stalled(period: i64, length: i64, usual: impl Fn(u32) -> i64) -> Test {
    stalled_at(100, period, length, usual)
}

fn stalled_at(place: u32, period: i64, length: i64, usual: impl Fn(u32) -> i64) -> Test {
    let late = |k: u32| if k < place { 0 } else { length - i64::from(k - place) * period };
    let sent = |k: u32| i64::from(k) * period + late(k).max(usual(k));
    Test::new(200, period, &packets((0..200).map(|k| (sent(k), 0))))
}

fn stalls_of(test: &Test) -> Vec<Stall> {
    SenderDelays::new(&test.delays(), &test.material()).stalls
}

#[test]
fn a_stall_is_one_and_a_half_periods_and_15_ms_late() {
    let least = |period, usual: fn(u32) -> i64| {
        first(0..=300 * MS, |length| stalls_of(&stalled(period, length, usual)).iter().any(|s| s.from == 100))
    };
    assert_eq!(least(5 * MS, |_| 0), 15 * MS);
    assert_eq!(least(20 * MS, |_| 0), 30 * MS);
    // Two of three packets are 3 ms late, so a stall must be eight times as long.
    assert_eq!(least(5 * MS, |k| if k % 3 == 0 { 0 } else { 3 * MS }), 24 * MS);
    // Lateness that is common to all packets does not count.
    assert_eq!(least(5 * MS, |k| if k == 0 { 0 } else { 3 * MS }), 18 * MS);
    // At least 20 packets are needed to know the usual lateness.
    let of = |n: i64| {
        let late = |k: i64| if k == n - 3 { 40 * MS } else { 0 };
        let test = Test::new(n as u32, PERIOD, &packets((0..n).map(|k| (k * PERIOD + late(k), 0))));
        !stalls_of(&test).is_empty()
    };
    assert_eq!(first(5..=40, of), 20);
}

#[test]
fn a_stall_ends_when_the_schedule_is_caught_up_with() {
    let of = |length: i64| stalls_of(&stalled(PERIOD, length * MS, |_| 0));
    let stall = |to, length: i64| [Stall { from: 100, to, length: length * MS }];
    // A stall ends below the smaller of 15 ms and a quarter of its length, but not less than half a period.
    assert_eq!(of(100), stall(109, 100));
    assert_eq!(of(96), stall(109, 96));
    assert_eq!(of(40), stall(104, 40));
    assert_eq!(of(48), stall(104, 48));
    assert_eq!(of(16), stall(102, 16));
    assert_eq!(of(15), stall(102, 15), "5 ms late is half a period");
    assert_eq!(of(19), stall(102, 19));
    // A stall ends within half a period of the schedule.
    let late = |k: i64| [36_000_000, 9_500_000].get((k - 100) as usize).copied().unwrap_or(0);
    let short = packets((0..200).map(|k| (k * 2 * PERIOD + late(k), 0)));
    assert_eq!(
        stalls_of(&Test::new(200, 2 * PERIOD, &short)),
        [Stall { from: 100, to: 101, length: 36 * MS }]
    );
    // The largest lateness counts, not the first.
    let late = |k: i64| [40 * MS, 60 * MS].get((k - 100) as usize).copied().unwrap_or(0);
    let rising = packets((0..200).map(|k| (k * PERIOD + late(k), 0)));
    assert_eq!(stalls_of(&Test::new(200, PERIOD, &rising)), [Stall { from: 100, to: 102, length: 60 * MS }]);
}

#[test]
fn a_stall_is_one_however_many_packets_leave_late() {
    // These shares of 200 packets leave late, all at once.
    for percent in [5, 29, 31, 50, 69, 71, 90, 95] {
        let (from, late) = (100 - percent, 2 * i64::from(percent));
        let test = stalled_at(from, PERIOD, late * PERIOD, |_| 0);
        let stalls = stalls_of(&test);
        assert_eq!(stalls.len(), 1, "{percent} %");
        let Stall { from: begun, length, .. } = stalls[0];
        assert_eq!((begun, length), (from as usize, late * PERIOD), "{percent} %");
    }
    // Two stalls, one of which takes half of the test.
    let late = |k: i64| {
        (1000 * MS - (k - 40) * PERIOD).max(0) * i64::from(k >= 40)
            + (300 * MS - (k - 160) * PERIOD).max(0) * i64::from(k >= 160)
    };
    let test = Test::new(200, PERIOD, &packets((0..200).map(|k| (k * PERIOD + late(k), 0))));
    let lengths: Vec<_> = stalls_of(&test).iter().map(|s| (s.from, s.length / MS)).collect();
    assert_eq!(lengths, [(40, 1000), (160, 300)]);
}

#[test]
fn a_program_that_goes_on_late_stood_still_once() {
    // The sender does not catch up: every packet after the stall is as late as the first.
    for length in [30 * MS, 100 * MS, 3 * SECOND, 600 * SECOND] {
        for from in [10, 100, 195] {
            let sent = |k: i64| k * PERIOD + if k < from { 0 } else { length };
            let test = Test::new(200, PERIOD, &packets((0..200).map(|k| (sent(k), 0))));
            let to = if from == 195 { 200 } else { from as usize + 1 };
            assert_eq!(stalls_of(&test), [Stall { from: from as usize, to, length }]);
        }
    }
    // The sender catches up with a part of the schedule and then stalls again.
    let late = |k: i64| match k {
        ..50 => 0,
        50..60 => 200 * MS - (k - 50) * PERIOD,
        60..120 => 110 * MS,
        _ => 310 * MS,
    };
    let test = Test::new(200, PERIOD, &packets((0..200).map(|k| (k * PERIOD + late(k), 0))));
    assert_eq!(
        stalls_of(&test),
        [Stall { from: 50, to: 60, length: 200 * MS }, Stall { from: 120, to: 121, length: 200 * MS }]
    );
}

#[test]
fn a_clock_that_is_set_forward_is_no_stall() {
    // Packets leave in time but their send stamps are late, so their delays seem shorter.
    for by in [50 * MS, 3 * SECOND, 3600 * SECOND] {
        for from in [10, 100, 195] {
            let sent =
                |k: i64| if k < from { (k * PERIOD, 20 * MS) } else { (k * PERIOD + by, 20 * MS - by) };
            let test = Test::new(200, PERIOD, &packets((0..200).map(sent)));
            let (mut late, delays) = (SenderDelays::default(), test.delays());
            late.find_stalls(&delays, &test.material());
            assert_eq!(late.stalls, [], "{by} ns at {from}");
        }
    }
}

#[test]
fn a_sender_of_a_lower_rate_does_not_stand_still() {
    for slow in [MS / 10, MS, 5 * MS, 10 * MS, 50 * MS] {
        let sent = |k: i64| (k * (PERIOD + slow), 0);
        let all = Test::new(400, PERIOD, &packets((0..400).map(sent)));
        assert_eq!(stalls_of(&all), [], "{slow} ns more");
        // A burst of 100 lost packets is not a stall either.
        let received: Vec<AcceptedPacket> =
            packets((0..400).map(sent)).into_iter().filter(|p| !(200..300).contains(&p.seq)).collect();
        assert_eq!(stalls_of(&Test::new(400, PERIOD, &received)), [], "{slow} ns more");
    }
}

#[test]
fn what_holds_tcp_back_is_no_stall_of_its_program() {
    let stalls = |late: u32| {
        let received: Vec<AcceptedPacket> =
            stalled_at(200 - late, PERIOD, i64::from(late) * PERIOD, |_| 0).series.iter().collect();
        let direction = (jitlat_core::spec::Direction::Up, Transport::Tcp);
        stalls_of(&Test::with(200, PERIOD, &received, Schedule::Periodic, direction)).len()
    };
    assert_eq!([stalls(8), stalls(120)], [1, 0]);
}

#[test]
fn a_range_of_lateness_below_the_limit_leaves_no_stall() {
    let with = |most| {
        stalls_of(&Test { off_schedule: Some([-5, most - 5]), ..stalled(PERIOD, 40 * MS, |_| 0) }).len()
    };
    assert_eq!([with(15 * MS - 1), with(15 * MS)], [0, 1]);
    // This shortcut does not apply if a clock was set, because that changes send times.
    let test = Test { off_schedule: Some([0, 15 * MS - 1]), ..stalled(PERIOD, 40 * MS, |_| 0) };
    let mut delays = test.delays();
    delays.set_shift(199, 0, 1);
    assert_eq!(SenderDelays::new(&delays, &test.material()).stalls.len(), 1);
    let packets: Vec<AcceptedPacket> = stalled(PERIOD, 40 * MS, |_| 0).series.iter().collect();
    // If packets do not follow the schedule, the gap shows the stall.
    let other = Test::of(200, PERIOD, &packets, Schedule::Poisson { seed: 1 });
    assert_eq!(stalls_of(&other), [Stall { from: 100, to: 105, length: 40 * MS }]);
}

#[test]
fn a_wait_in_the_interface_is_no_stall_of_the_program() {
    let test = stalled(PERIOD, 50 * MS, |_| 0);
    let with = |queued: Vec<(usize, i64)>| {
        let mut late = SenderDelays { handed_over: queued, packets: 200, ..SenderDelays::default() };
        late.find_stalls(&test.delays(), &test.material());
        late.stalls
    };
    assert_eq!(with(vec![(20, 5), (100, 35 * MS)]), [Stall { from: 100, to: 105, length: 40 * MS }]);
    assert_eq!(with(vec![(20, 5), (100, 35 * MS + 1)]), [Stall { from: 101, to: 105, length: 40 * MS }]);
    assert_eq!(with(vec![(100, 50 * MS), (101, 40 * MS), (102, 30 * MS), (103, 20 * MS)]), []);
}

/// Each burst of 50 packets queues behind itself in the host's interface, where a packet takes 0.5 ms.
#[test]
fn bursts_that_wait_in_the_interface_are_not_stalls() {
    let size = 50;
    let in_burst = |seq: u32| i64::from(seq % size);
    let wait = |seq: u32| in_burst(seq) * MS / 2;
    let mut packets = every(MS, 1000, |_| Some(0));
    for packet in &mut packets {
        packet.sent += wait(packet.seq) - in_burst(packet.seq) * MS + in_burst(packet.seq) * 5_000;
    }
    let mut test = Test::of(1000, MS, &packets, Schedule::Burst { size });
    test.session.version = 3;
    test.notes.entries = true;
    test.notes.queued = (0..1000).filter(|seq| wait(*seq) >= MS).map(|seq| (seq, wait(seq))).collect();
    test.notes.sent_late = test.notes.queued.clone();
    let late = SenderDelays::new(&test.delays(), &test.material());
    assert_eq!(late.stalls, []);
    assert_eq!(late.height(), Some(24 * MS));
}

/// A sender of 10 packets per ms pauses for 8 ms whenever its packets wait for 8 ms in a queue, which is empty afterwards.
#[test]
fn pauses_in_which_a_queue_drains_are_not_clock_steps() {
    let (period, turn) = (100_000, 400);
    let pause = |seq: u32| i64::from(seq / turn) * 8 * MS;
    let queue = |seq: u32| 8 * MS * i64::from(seq % turn) / i64::from(turn);
    let mut packets = every(period, 8000, |seq| Some(queue(seq)));
    packets.iter_mut().for_each(|packet| packet.sent += pause(packet.seq));
    let test = Test::new(8000, period, &packets);
    let noise = test.delays().noise();
    assert_eq!(clock_steps(&test.delays(), &test.material(), noise).len(), 0);
}
