use super::*;
use crate::testing::{MS, SECOND, Test, every, first, packets, run, scattered};
use jitlat_core::metrics::dependence::beta_interval;
use jitlat_core::spec::{Direction, Transport};

/// True if the last run of these lengths is an outage; `time(len)` is the length of a run in ns.
fn is_outage(lengths: &[u64], time: impl Fn(u64) -> i64) -> bool {
    let runs: Vec<SeqRun> = (0..).zip(lengths).map(|(k, len)| run(1000 * k, *len)).collect();
    PathLosses::new(runs, 100_000, |r| time(r.len)).outage.last().copied().unwrap()
}

/// Returns the shortest time that reaches `least`.
fn nearly(least: i64) -> i64 {
    (LENGTH_TOLERANCE * least as f64) as i64
}

/// Returns the shortest time in ns with which the last run of these lengths is an outage.
fn shortest(lengths: &[u64]) -> i64 {
    first(0..=10 * SECOND, |ns| is_outage(lengths, |_| ns))
}

#[test]
fn a_lone_run_is_an_outage_from_100_ms_and_four_packets_on() {
    assert_eq!(shortest(&[4]), nearly(100 * MS));
    assert_eq!(shortest(&[3]), SECOND, "three packets will do from a second on");
    assert!(!is_outage(&[2], |_| 10 * SECOND));
}

#[test]
fn few_and_long_runs_are_outages_from_180_ms_on() {
    assert_eq!(shortest(&[8; 7]), nearly(180 * MS));
    assert_eq!(shortest(&[8; 12]), nearly(180 * MS));
    assert_eq!(shortest(&[8; 13]), nearly(360 * MS), "of more than twelve twice that");
    // Long runs among mostly short ones are not outages.
    assert!(!is_outage(&[7, 7, 7, 7, 7, 7, 8], |_| 10 * SECOND));
}

#[test]
fn up_to_six_gaps_of_about_one_length_are_outages_from_100_ms_on() {
    assert_eq!(shortest(&[4, 4]), nearly(100 * MS));
    assert_eq!(shortest(&[4; 6]), nearly(100 * MS));
    assert!(!is_outage(&[4; 7], |_| 150 * MS), "more are bursts");
    // With other losses, or with varying lengths, gaps are bursts.
    assert!(!is_outage(&[1, 6], |len| len as i64 * 20 * MS));
    assert!(!is_outage(&[5, 30, 6], |len| len as i64 * 20 * MS));
}

#[test]
fn many_runs_whose_lengths_vary_are_bursts() {
    let length = |len: u64| len as i64 * 20 * MS;
    assert!(is_outage(&[12; 8], length));
    assert!(!is_outage(&[4, 30, 9, 2, 21, 12, 1, 12], length));
    let gaps = PathLosses::new(
        vec![run(0, 4), run(100, 6), run(200, 2), run(300, 30), run(400, 1), run(500, 9)],
        1000,
        |r| length(r.len),
    )
    .gaps();
    // Gaps of 30, 9 and 6 packets; 30 is within chance.
    assert!((gaps[0] - 0.6).abs() < 1e-9 && (gaps[1] - 0.9).abs() < 1e-9, "{gaps:?}");
}

#[test]
fn of_many_runs_the_usual_one_must_be_long_enough_too() {
    let shortest_period = |len: u64| {
        let lengths = [[8; 12].as_slice(), &[len]].concat();
        first(0..=SECOND, |period| is_outage(&lengths, |len| len as i64 * period))
    };
    // The run must take 360 ms, and the median one 180 ms.
    assert_eq!(shortest_period(12), nearly(30 * MS));
    assert_eq!(shortest_period(17), nearly(180 * MS / 8));
    assert!(!is_outage(&[[7; 12].as_slice(), &[60]].concat(), |_| SECOND));
}

#[test]
fn a_run_beyond_chance_is_an_outage() {
    // If half of 20 geometric runs have one packet, the longest is ln(0.01 / 20) / ln(½) = 10.97 packets longer once in
    // a hundred tests.
    let fewest = |others: Vec<u64>| {
        let with = |len: i64, ns: i64| is_outage(&[others.as_slice(), &[len as u64]].concat(), |_| ns);
        let fewest = first(1..=100, |len| with(len, SECOND / 2));
        assert_eq!(first(0..=SECOND / 2, |ns| with(fewest, ns)), nearly(180 * MS));
        fewest
    };
    assert_eq!(fewest(vec![1; 19]), 12);
    // If half have two packets, it is 21.93 packets longer.
    let of_two = (0..19).map(|k| 1 + u64::from(k >= 9)).collect();
    assert_eq!(fewest(of_two), 23);
}

#[test]
fn without_outages_numbers_close_up() {
    let runs = vec![run(10, 5), run(20, 300), run(400, 5), run(500, 300), run(900, 5)];
    let losses = PathLosses::new(runs.clone(), 1000, |r| r.len as i64 * 10 * MS);
    assert_eq!(losses.outages().copied().collect::<Vec<_>>(), [runs[1], runs[3]]);
    let others = losses.others();
    assert_eq!(others.sent, 400);
    assert_eq!(others.runs, [(run(10, 5), runs[0]), (run(100, 5), runs[2]), (run(300, 5), runs[4])]);
    assert_eq!((others.lost(), others.ratio()), (15, 15.0 / 400.0));
    let one = others.filtered(100, |r| r.start == 400);
    assert_eq!((one.sent, one.runs), (300, vec![(run(100, 5), runs[2])]));
    let part = others.within([100, 300]);
    assert_eq!((part.sent, part.runs), (200, vec![(run(0, 5), runs[2])]));
}

#[test]
fn runs_are_the_events_that_a_ratio_above_a_limit_needs() {
    // Four runs of two packets on average are four of 500 independent packets.
    let [low, _] = beta_interval(8e-3, 500.0).unwrap();
    let four = scattered(1000, [(10, 2), (20, 2), (30, 3), (40, 1)]);
    assert!(four.exceeds(0.999 * low) && !four.exceeds(1.001 * low), "{low}");
    assert!(scattered(10, [(0, 10)]).exceeds(1e-3));
    assert!(!Scattered::default().exceeds(0.0));
}

/// Single losses at even distances; the first is packet `from`, and the last is before packet `to`.
fn even(count: u64, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..count).map(move |k| (from + k * (to - 1 - from) / (count - 1).max(1), 1))
}

#[test]
fn a_part_of_the_test_is_found_by_likelihood() {
    // With all losses in one half the log likelihood grows by ln 2 with each, and must grow by 12.
    let of = |count: i64| scattered(6400, even(count as u64, 1600, 4800)).stretch();
    assert_eq!(first(12..=40, |count| of(count).is_some()), 18);
    assert_eq!(of(32), Some([1600, 4800]));
    // The other half may have at most a fifth of the rate: fewer than 16 against 80.
    let of = |others: i64| {
        let before = others as u64 / 2;
        let outside = even(before, 0, 1500).chain(even(others as u64 - before, 4900, 6400));
        let mut runs: Vec<(u64, u64)> = even(80, 1600, 4800).chain(outside).collect();
        runs.sort_unstable();
        scattered(6400, runs).stretch()
    };
    assert_eq!(first(0..=60, |others| of(others).is_none()), 16);
    assert_eq!(of(15), Some([1600, 4800]));
}

#[test]
fn of_two_parts_that_are_as_clear_the_first_counts() {
    let runs = (0..12).map(|k| (510 + 2 * k, 1)).chain((0..12).map(|k| (5010 + 2 * k, 1)));
    assert_eq!(scattered(6400, runs).stretch(), Some([510, 533]));
}

#[test]
fn a_part_takes_twelve_losses_and_four_packets_for_each_64th() {
    let of = |count: i64, sent: i64| {
        let runs = (0..count as u64).map(|k| (40 + 2 * k, 1));
        scattered(sent as u64, runs).stretch()
    };
    assert_eq!(first(0..=40, |count| of(count, 6400).is_some()), 12);
    assert_eq!(first(200..=300, |sent| of(12, sent).is_some()), 256);
    assert_eq!(of(12, 6400), Some([40, 63]));
    // The part must contain twelve losses.
    let with_one =
        |count: u64| scattered(6400, (0..count).map(|k| (40 + 2 * k, 1)).chain([(5000, 1)])).stretch();
    assert_eq!((with_one(11), with_one(12)), (None, Some([40, 63])));
    let after_one = |count: u64| {
        scattered(6400, [(10, 1)].into_iter().chain((0..count).map(|k| (3040 + 2 * k, 1)))).stretch()
    };
    assert_eq!((after_one(11), after_one(12)), (None, Some([3040, 3063])));
    assert_eq!(scattered(6400, even(64, 0, 6400)).stretch(), None);
}

#[test]
fn the_runs_test_compares_with_chance() {
    let near = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-3, "{a:?} instead of {b}");
    // Ten losses among a hundred packets: 2 · 10 · 90 / 100 + 1 = 19 runs are expected, with a variance of 18 · 17 /
    // 99.
    let apart = scattered(100, (0..10).map(|k| (5 + 10 * k, 1))).pattern();
    near(apart.z, (21.0 - 19.0) / (18.0f64 * 17.0 / 99.0).sqrt());
    assert_eq!(apart.burst_ratio, 0.9);
    // A loss at an end of the test makes one run fewer.
    let from_0 = scattered(100, (0..10).map(|k| (10 * k, 1))).pattern();
    near(from_0.z, (20.0 - 19.0) / (18.0f64 * 17.0 / 99.0).sqrt());
    let to_the_end = scattered(100, (0..10).map(|k| (9 + 10 * k, 1))).pattern();
    near(to_the_end.z, (20.0 - 19.0) / (18.0f64 * 17.0 / 99.0).sqrt());
    let both = scattered(100, [(0, 5), (95, 5)]).pattern();
    near(both.z, (3.0 - 19.0) / (18.0f64 * 17.0 / 99.0).sqrt());
    assert_eq!(both.burst_ratio, 4.5);
}

#[test]
fn the_runs_test_takes_ten_of_each() {
    let z = |sent, lost| scattered(sent, [(3, lost)]).pattern().z.is_some();
    assert!(!z(100, 9) && z(100, 10) && z(100, 90) && !z(100, 91));
}

#[test]
fn distances_vary_less_than_by_chance() {
    // Eight alternating distances of 10 and 20: the deviation is √(8 · 25 / 7), and the mean is 15.
    let starts = [0, 10, 30, 40, 60, 70, 90, 100, 120];
    let spacing = |n: usize| scattered(900, starts[..n].iter().map(|s| (*s, 1))).pattern().spacing;
    let expected = (8.0f64 * 25.0 / 7.0).sqrt() / 15.0 / (1.0f64 - 9.0 / 900.0).sqrt();
    assert!((spacing(9).unwrap() - expected).abs() < 1e-9, "{:?}", spacing(9));
    assert_eq!(spacing(8), None);
}

/// Returns the time at which packet `seq` was sent, in ms.
fn sent_at(test: &Test, seq: u64) -> i64 {
    LossTimes::new(&test.delays(), &test.session).of(seq) / MS
}

#[test]
fn a_lost_packet_left_between_its_neighbours() {
    let mut received = packets([(0, 0), (10 * MS, 0), (50 * MS, 0)]);
    (received[0].seq, received[1].seq, received[2].seq) = (3, 4, 8);
    let test = Test::new(20, 10 * MS, &received);
    let times = (0..12).map(|seq| sent_at(&test, seq)).collect::<Vec<_>>();
    assert_eq!(times, [-30, -20, -10, 0, 10, 20, 30, 40, 50, 60, 70, 80]);
    let departures = test.delays();
    let departures = LossTimes::new(&departures, &test.session);
    assert_eq!(departures.length(&run(5, 3)), 30 * MS);
    assert_eq!(departures.length(&run(9, 3)), 30 * MS);
    // The time between the neighbours is divided evenly, regardless of the period.
    received[2].sent = 90 * MS;
    let test = Test::new(20, 10 * MS, &received);
    assert_eq!(sent_at(&test, 5), 30);
    let departures = test.delays();
    assert_eq!(LossTimes::new(&departures, &test.session).length(&run(5, 3)), 60 * MS);
    assert_eq!(sent_at(&Test::new(20, 10 * MS, &[]), 7), 70);
}

#[test]
fn packets_of_a_burst_leave_at_once() {
    let burst = |size, received: &[(u32, i64)]| {
        let received: Vec<_> = received
            .iter()
            .map(|(seq, ms)| jitlat_core::metrics::classify::AcceptedPacket {
                seq: *seq,
                sent: ms * MS,
                delay: 0,
            })
            .collect();
        Test::with(100, 10 * MS, &received, Schedule::Burst { size }, (Direction::Up, Transport::Udp))
    };
    let test = burst(4, &[(3, 0), (12, 90)]);
    // Lost packets were sent with their burst: packets 4 to 7 are due 40 ms after packets 0 to 3.
    assert_eq!([4, 7, 8, 11].map(|seq| sent_at(&test, seq)), [40, 40, 80, 80]);
    assert_eq!([13, 15, 16, 20].map(|seq| sent_at(&test, seq)), [90, 90, 130, 170]);
    assert_eq!([2, 0].map(|seq| sent_at(&test, seq)), [0, 0]);
    // They were not sent after the packet that follows.
    assert_eq!(sent_at(&burst(4, &[(3, 0), (12, 60)]), 11), 60);
    // A received packet has its own send time.
    assert_eq!(sent_at(&burst(4, &[(3, 0), (12, 150)]), 12), 150);
    let delays = test.delays();
    let length = |start, len| LossTimes::new(&delays, &test.session).length(&run(start, len)) / MS;
    // Only whole bursts count.
    assert_eq!(
        [(4, 4), (5, 2), (3, 10), (4, 7), (4, 8), (5, 8)].map(|(s, l)| length(s, l)),
        [40, 0, 80, 40, 80, 40]
    );
    // Bursts of one packet are like no bursts.
    assert_eq!(sent_at(&burst(1, &[(0, 0), (10, 100)]), 3), 30);
}

#[test]
fn bursts_are_seen_where_no_schedule_says_so() {
    let pairs: Vec<_> = every(10 * MS, 100, |_| Some(0))
        .into_iter()
        .map(|p| jitlat_core::metrics::classify::AcceptedPacket { sent: i64::from(p.seq / 2) * 20 * MS, ..p })
        .filter(|p| !(50..60).contains(&p.seq))
        .collect();
    let test = Test::new(100, 10 * MS, &pairs);
    assert_eq!(test.delays().pace(), SendPattern::Bursts(2));
    assert_eq!([50, 51, 52, 53].map(|seq| sent_at(&test, seq)), [500, 500, 520, 520]);
}
