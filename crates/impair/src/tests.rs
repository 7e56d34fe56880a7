use super::*;
use jitlat_core::time::SteadyTime;
use proptest::prelude::*;

const MS: i64 = 1_000_000;

/// Sends `n` packets of 80 bytes, one per millisecond, and returns the delays of each one's copies.
fn run(config: &PathModel, seed: u64, n: u64) -> (Vec<Vec<i64>>, Impairment) {
    let mut path = Impairment::new(config.clone(), seed);
    let delays = (0..n as i64)
        .map(|i| {
            let now = SteadyTime(i * MS);
            path.pass(now, 80).iter().map(|t| (*t - now).0).collect()
        })
        .collect();
    (delays, path)
}

fn only_delay(delays: &[Vec<i64>]) -> Vec<f64> {
    delays.iter().map(|d| d[0] as f64).collect()
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn lost(delays: &[Vec<i64>]) -> Vec<u64> {
    (0..).zip(delays).filter(|(_, d)| d.is_empty()).map(|(i, _)| i).collect()
}

#[test]
fn nothing_configured_is_nothing_done() {
    let (delays, path) = run(&PathModel::default(), 1, 1000);
    assert!(delays.iter().all(|d| d == &[0]));
    assert_eq!((path.tally().test_packets, path.tally().not_delivered()), (1000, 0));
}

#[test]
fn the_same_seed_gives_the_same_path_and_laws_do_not_disturb_each_other() {
    let base = PathModel { loss: Choice::Bernoulli(0.1), ..PathModel::default() };
    let more = PathModel {
        jitter: Jitter::Exponential { mean: Span::millis(3) },
        duplication: DuplicationModel { choice: Choice::Bernoulli(0.2), ..DuplicationModel::default() },
        reordering: ReorderingModel { choice: Choice::Bernoulli(0.2), by: Span::millis(5) },
        rate: Some(RateBottleneck { bits: 10_000_000, queue: 100_000 }),
        ..base.clone()
    };
    let (a, _) = run(&more, 5, 5000);
    assert_eq!(a, run(&more, 5, 5000).0);
    assert_ne!(a, run(&more, 6, 5000).0);
    assert_eq!(lost(&a), lost(&run(&base, 5, 5000).0));
}

#[test]
fn jitter_laws_have_their_moments() {
    let delay = Span::millis(10);
    let with = |jitter| only_delay(&run(&PathModel { delay, jitter, ..PathModel::default() }, 3, 100_000).0);
    let ms = MS as f64;

    let x = with(Jitter::Uniform { max: Span::millis(4) });
    assert!((mean(&x) - 12.0 * ms).abs() < 0.02 * ms, "{}", mean(&x));
    assert!(x.iter().all(|d| (10.0 * ms..=14.0 * ms).contains(d)));

    let x = with(Jitter::Exponential { mean: Span::millis(2) });
    assert!((mean(&x) - 12.0 * ms).abs() < 0.04 * ms, "{}", mean(&x));
    let beyond = x.iter().filter(|d| **d > 16.0 * ms).count() as f64 / x.len() as f64;
    assert!((beyond - (-3.0f64).exp()).abs() < 0.004, "{beyond}");

    let x = with(Jitter::Pareto { scale: Span::millis(2), shape: 3.0 });
    assert!((mean(&x) - 11.0 * ms).abs() < 0.05 * ms, "{}", mean(&x));
    let beyond = x.iter().filter(|d| **d > 12.0 * ms).count() as f64 / x.len() as f64;
    assert!((beyond - 0.125).abs() < 0.005, "{beyond}");
}

#[test]
fn jitter_in_order_overtakes_nobody() {
    let law = Jitter::Exponential { mean: Span::millis(5) };
    for in_order in [false, true] {
        let (delays, _) = run(&PathModel { jitter: law.clone(), in_order, ..PathModel::default() }, 9, 1000);
        let arrivals: Vec<i64> = (0..).zip(&delays).map(|(i, d)| i * MS + d[0]).collect();
        assert_eq!(arrivals.is_sorted(), in_order);
    }
}

#[test]
fn bernoulli_and_gilbert_lose_what_they_should() {
    let (delays, _) = run(&PathModel { loss: Choice::Bernoulli(0.03), ..PathModel::default() }, 11, 100_000);
    let rate = lost(&delays).len() as f64 / 100_000.0;
    assert!((rate - 0.03).abs() < 0.002, "{rate}");

    let chain = GilbertModel::simple(0.01, 0.25);
    let (delays, path) =
        run(&PathModel { loss: Choice::Gilbert(chain), ..PathModel::default() }, 12, 200_000);
    let rate = lost(&delays).len() as f64 / 200_000.0;
    assert!((rate - chain.rate()).abs() < 0.004, "{rate} {}", chain.rate());
    let runs: u64 = path.tally().loss_runs().values().sum();
    let burst = lost(&delays).len() as f64 / runs as f64;
    assert!((burst - 4.0).abs() < 0.3, "{burst}");

    let elliott = GilbertModel { h: 0.5, k: 0.999, ..chain };
    let (delays, _) = run(&PathModel { loss: Choice::Gilbert(elliott), ..PathModel::default() }, 13, 200_000);
    let rate = lost(&delays).len() as f64 / 200_000.0;
    assert!((rate - elliott.rate()).abs() < 0.003, "{rate} {}", elliott.rate());
}

#[test]
fn patterns_are_exact_and_the_tally_tells_their_runs() {
    let loss = Choice::runs([1, 1, 2, 5, 1], 7);
    let (delays, path) = run(&PathModel { loss, ..PathModel::default() }, 0, 60);
    assert_eq!(lost(&delays), [7, 15, 23, 24, 32, 33, 34, 35, 36, 44]);
    assert_eq!(path.tally().loss_runs(), BTreeMap::from([(1, 3), (2, 1), (5, 1)]));

    let loss = Choice::ranges([8..=9, 3..=3, 5..=6, 4..=5]);
    assert_eq!(loss, Choice::Exactly(vec![3..=6, 8..=9]));
    let (delays, path) = run(&PathModel { loss, ..PathModel::default() }, 0, 10);
    assert_eq!(lost(&delays), [3, 4, 5, 6, 8, 9]);
    assert_eq!(path.tally().loss_runs(), BTreeMap::from([(4, 1), (2, 1)]));
}

#[test]
fn patterns_count_test_packets_only() {
    let config = PathModel { loss: Choice::indices([0, 2]), min_bytes: 60, ..PathModel::default() };
    let mut path = Impairment::new(config, 0);
    let mut got = |bytes| !path.pass(SteadyTime(0), bytes).is_empty();
    assert_eq!([40, 60, 59, 61, 52, 80].map(&mut got), [true, false, true, true, true, false]);
    assert!(
        path.pass_test(SteadyTime(0), 10, 2).is_empty() && !path.pass_test(SteadyTime(0), 10, 1).is_empty()
    );
    assert!(!path.pass_other(SteadyTime(0), 2000).is_empty());
    assert_eq!((path.tally().test_packets, path.tally().others), (5, 4));
}

#[test]
fn copies_and_held_back_packets_come_when_they_should() {
    let config = PathModel {
        delay: Span::millis(10),
        duplication: DuplicationModel { choice: Choice::indices([1, 2]), copies: 2, lag: Span::millis(3) },
        reordering: ReorderingModel { choice: Choice::indices([2]), by: Span::millis(30) },
        in_order: true,
        ..PathModel::default()
    };
    let (delays, path) = run(&config, 0, 4);
    let ms: Vec<Vec<i64>> = delays.iter().map(|d| d.iter().map(|x| x / MS).collect()).collect();
    assert_eq!(ms, [vec![10], vec![10, 13, 16], vec![40, 43, 46], vec![10]]);
    assert_eq!((path.tally().copies, path.tally().delayed), (4, 1));
}

#[test]
fn the_queue_is_arithmetic() {
    // At 80 kbit/s, 100 bytes take 10 ms. The queue has room for 250 bytes.
    let config =
        PathModel { rate: Some(RateBottleneck { bits: 80_000, queue: 250 }), ..PathModel::default() };
    let mut path = Impairment::new(config, 0);
    let mut pass =
        |ms: i64, bytes| path.pass(SteadyTime(ms * MS), bytes).first().map(|t| t.0 as f64 / MS as f64);
    assert_eq!(pass(0, 100), Some(10.0));
    assert_eq!(pass(0, 100), Some(20.0)); // 100 bytes are waiting.
    assert_eq!(pass(0, 100), None); // 200 bytes are waiting, 300 do not fit.
    assert_eq!(pass(5, 100), Some(30.0)); // 150 bytes are waiting, 250 fit.
    assert_eq!(pass(5, 1), None);
    assert_eq!(pass(29, 240), Some(54.0)); // 10 bytes are waiting, 250 fit.
    assert_eq!(pass(54, 9000), Some(954.0)); // Larger than the queue, but the transmitter is idle.
    assert_eq!(pass(2000, 100), Some(2010.0));
    assert_eq!(path.tally().queue_drops, 2);
}

#[test]
fn a_sub_nanosecond_packet_time_never_runs_early() {
    let config = PathModel {
        rate: Some(RateBottleneck { bits: 3_000_000_000, queue: u64::MAX }),
        ..PathModel::default()
    };
    let mut path = Impairment::new(config, 0);
    let last = (0..1000).map(|_| path.pass(SteadyTime(0), 100)[0]).last().unwrap();
    assert!((266_667..=267_000).contains(&last.0), "{}", last.0);
}

#[test]
fn outages_count_from_the_first_test_packet() {
    let outage = Outage { from: Span::millis(2), length: Span::millis(3) };
    let config = PathModel { outages: vec![outage], min_bytes: 60, ..PathModel::default() };
    let mut path = Impairment::new(config, 0);
    assert!(!path.pass(SteadyTime(-4 * MS), 40).is_empty());
    let got: Vec<bool> = (0..8).map(|i| !path.pass(SteadyTime(i * MS), 80).is_empty()).collect();
    assert_eq!(got, [true, true, false, false, false, true, true, true]);
    assert!(path.pass(SteadyTime(3 * MS), 40).is_empty());
    assert_eq!((path.tally().outage_drops, path.tally().others_lost), (3, 1));
}

#[test]
fn more_laws_of_jitter() {
    let with = |jitter| only_delay(&run(&PathModel { jitter, ..PathModel::default() }, 3, 100_000).0);
    let ms = MS as f64;
    let x = with(Jitter::Normal { deviation: Span::millis(1) });
    let beyond = x.iter().filter(|d| **d > 4.0 * ms).count() as f64 / x.len() as f64;
    assert!((mean(&x) - 3.0 * ms).abs() < 0.02 * ms && (beyond - 0.159).abs() < 0.005, "{beyond}");
    let mut x = with(Jitter::LogNormal { median: Span::millis(2), sigma: 1.0 });
    x.sort_unstable_by(f64::total_cmp);
    assert!((x[50_000] - 2.0 * ms).abs() < 0.05 * ms && (x[84_134] / x[50_000]).ln() - 1.0 < 0.03);
    let spikes = Jitter::Spikes { share: 0.01, max: Span::millis(80) };
    let x = with(Jitter::Sum(vec![Jitter::Uniform { max: Span::millis(1) }, spikes]));
    let high = x.iter().filter(|d| **d > ms).count() as f64 / x.len() as f64;
    assert!((high - 0.01).abs() < 0.002 && x.iter().all(|d| *d <= 81.0 * ms), "{high}");
    // Packets are sent every millisecond from 0 on: 0, 4, 3, 2, 1 ms before the next multiple of 5.
    let (slots, _) =
        run(&PathModel { jitter: Jitter::Slots { every: Span::millis(5) }, ..PathModel::default() }, 1, 6);
    assert_eq!(slots.iter().map(|d| d[0] / MS).collect::<Vec<_>>(), [0, 4, 3, 2, 1, 0]);
}

#[test]
fn others_fill_the_bottleneck() {
    // 640 kbit/s of test traffic and, between 1 s and 3 s, 1.4 Mbit/s of cross traffic.
    let rate = Some(RateBottleneck { bits: 2_000_000, queue: 50_000 });
    let load = CrossTraffic::Constant(1_400_000);
    let others = Competition { from: Span::seconds(1), length: Span::seconds(2), load };
    let (delays, path) = run(&PathModel { rate, competition: vec![others], ..PathModel::default() }, 1, 5000);
    let delay = |k: usize| delays[k][0] as f64 / MS as f64;
    assert!(delay(900) < 0.4, "{}", delay(900));
    // 40 kbit/s above 2 Mbit/s for 2 s fill a queue of 40 ms.
    assert!((30.0..50.0).contains(&delay(2995)), "{}", delay(2995));
    assert!(delay(4900) < 0.4 && path.tally().not_delivered() == 0);
    // TCP fills any queue.
    let rate = Some(RateBottleneck { bits: 10_000_000, queue: 125_000 });
    let others = Competition { load: CrossTraffic::Greedy { rtt: Span::millis(20) }, ..others };
    let (delays, _) = run(&PathModel { rate, competition: vec![others], ..PathModel::default() }, 1, 5000);
    let highest = delays[1000..3000].iter().filter_map(|d| d.first()).max().unwrap() / MS;
    assert!((90..=101).contains(&highest), "{highest}");
    assert!(delays[4000..].iter().all(|d| d[0] < MS));
}

#[test]
fn police_drops_what_exceeds_its_rate() {
    // 80 bytes per millisecond are 640 kbit/s.
    let police = Police { bits: 480_000, burst: 800, every: Span::ZERO };
    let (delays, path) = run(&PathModel { police: Some(police), ..PathModel::default() }, 1, 4000);
    assert!(delays[..30].iter().all(|d| d == &[0]));
    assert!((960..=1000).contains(&path.tally().policed), "{:?}", path.tally());
    assert_eq!(path.tally().loss_runs().into_keys().collect::<Vec<_>>(), [1], "every fourth");
    let police = Police { bits: 480_000, burst: 6000, every: Span::millis(100) };
    let (_, path) = run(&PathModel { police: Some(police), ..PathModel::default() }, 1, 4000);
    let lengths = path.tally().loss_runs();
    assert!(lengths.keys().all(|l| (20..=30).contains(l)), "the end of every tenth of a second: {lengths:?}");
}

#[test]
fn delay_is_added_along_straight_lines() {
    let point = |at, delay| DelayPoint { at: Span::millis(at), delay: Span::millis(delay) };
    let added = vec![point(10, 0), point(20, 10), point(30, 10), point(30, 2)];
    let (delays, _) = run(&PathModel { added, ..PathModel::default() }, 1, 40);
    let at = |k: usize| delays[k][0] / MS;
    assert_eq!([0, 10, 15, 20, 29, 30, 39].map(at), [0, 0, 5, 10, 10, 2, 2]);
}

#[test]
fn pauses_hold_and_long_packets_are_lost() {
    let pauses = vec![Outage { from: Span::millis(5), length: Span::millis(4) }];
    let (delays, _) = run(&PathModel { pauses, in_order: true, ..PathModel::default() }, 1, 11);
    assert_eq!(delays.iter().map(|d| d[0] / MS).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 4, 3, 2, 1, 0, 0]);
    let too_long = Some(SizeLimit { above: 100, choice: Choice::Bernoulli(1.0) });
    let mut path = Impairment::new(PathModel { too_long, ..PathModel::default() }, 0);
    assert!(!path.pass(SteadyTime(0), 100).is_empty() && path.pass(SteadyTime(0), 101).is_empty());
    let within = Choice::Within(3..=4, Box::new(Choice::Bernoulli(1.0)));
    assert_eq!(lost(&run(&PathModel { loss: within, ..PathModel::default() }, 0, 9).0), [3, 4]);
}

const TEXT: &str = "
name = bursty access line
seed = 7
[both]
delay = 20.5ms     # one way
jitter = exponential 2ms in order
[up]
loss = gilbert p=1% r=30% h=0.1
duplicate = 0.5% copies 2 after 1ms
reorder = at 40 80-82 by 50ms
rate = 512kbit queue 16kB
outage = from 2s for 300ms
outage = from 9s for 1s
pause = from 4s for 1s
competition = tcp 20ms from 5s for 9s
competition = poisson 400kbit from 0s for 1s
police = 64kbit burst 4kB every 100ms
added = 0s 0ms 30s 12ms
too-long = 100% above 1200
remark = AF11
min-bytes = 60
[down]
loss = runs 1x3 2 gap 4
jitter = pareto 500us shape 1.5 + slots 10ms + spikes 0.1% 80ms in order
";

#[test]
fn a_scenario_says_what_it_says() {
    let s: Scenario = TEXT.parse().unwrap();
    assert_eq!((s.name.as_str(), s.seed), ("bursty access line", 7));
    let up = PathModel {
        delay: Span::micros(20_500),
        jitter: Jitter::Exponential { mean: Span::millis(2) },
        in_order: true,
        loss: Choice::Gilbert(GilbertModel { p: 0.01, r: 0.3, h: 0.1, k: 1.0 }),
        duplication: DuplicationModel { choice: Choice::Bernoulli(0.005), copies: 2, lag: Span::millis(1) },
        reordering: ReorderingModel { choice: Choice::Exactly(vec![40..=40, 80..=82]), by: Span::millis(50) },
        rate: Some(RateBottleneck { bits: 512_000, queue: 16_000 }),
        cells: None,
        aqm: None,
        ecn: Vec::new(),
        competition: vec![
            Competition {
                from: Span::seconds(5),
                length: Span::seconds(9),
                load: CrossTraffic::Greedy { rtt: Span::millis(20) },
            },
            Competition { from: Span::ZERO, length: Span::seconds(1), load: CrossTraffic::Poisson(400_000) },
        ],
        police: Some(Police { bits: 64_000, burst: 4000, every: Span::millis(100) }),
        added: vec![
            DelayPoint { at: Span::ZERO, delay: Span::ZERO },
            DelayPoint { at: Span::seconds(30), delay: Span::millis(12) },
        ],
        pauses: vec![Outage { from: Span::seconds(4), length: Span::seconds(1) }],
        too_long: Some(SizeLimit { above: 1200, choice: Choice::Bernoulli(1.0) }),
        outages: vec![
            Outage { from: Span::seconds(2), length: Span::millis(300) },
            Outage { from: Span::seconds(9), length: Span::seconds(1) },
        ],
        remark: Dscp::new(10),
        min_bytes: 60,
    };
    assert_eq!(s.up, up);
    assert_eq!((s.up.remark, s.down.remark), (Dscp::new(10), None));
    let down = PathModel {
        delay: Span::micros(20_500),
        jitter: Jitter::Sum(vec![
            Jitter::Pareto { scale: Span::micros(500), shape: 1.5 },
            Jitter::Slots { every: Span::millis(10) },
            Jitter::Spikes { share: 0.001, max: Span::millis(80) },
        ]),
        in_order: true,
        loss: Choice::Exactly(vec![4..=4, 9..=9, 14..=14, 19..=20]),
        ..PathModel::default()
    };
    assert_eq!(s.down, down);
}

#[test]
fn a_bad_scenario_names_its_line() {
    for (text, line, said) in [
        ("delay = 3ms", 1, "precede the first section"),
        ("[up]\nloss = 130%", 2, "probability"),
        ("[up]\nloss = gilbert p=1%", 2, "needs both"),
        ("[up]\n\ndelay = 3", 3, "a time such as"),
        ("[up]\ndelay = -3ms", 2, "a time such as"),
        ("[up]\nrate = 0kbit queue 1kB", 2, "a rate of 0"),
        ("[up]\nrate = 8kbit", 2, "queue"),
        ("[up]\nreorder = 1%", 2, "give the delay"),
        ("[up]\nduplicate = 1% copies 8", 2, "give 1 to 7"),
        ("[up]\nloss = at 9-5", 2, "smaller"),
        ("[up]\nloss = runs 1x99999999999", 2, "runs"),
        ("[up]\njitter = slots 0ms", 2, "above 0"),
        ("[up]\nadded = 3s 1ms 2s 1ms", 2, "ascend"),
        ("[up]\nadded = 3s", 2, "alternately"),
        ("[up]\ncompetition = udp 3kbit from 1s for 2s", 2, "constant"),
        ("[up]\npolice = 64kbit", 2, "burst size"),
        ("[up]\ntoo-long = 1%", 2, "size limit"),
        ("[up]\npause = 3s", 2, "from 2s for"),
        ("[up]\nremark = EFF", 2, "not a DSCP"),
        ("[up]\nlosss = 1%", 2, "give delay, jitter"),
        ("[sideways]", 1, "sections"),
        ("[up]\nwhat", 2, "key = value"),
    ] {
        let e = text.parse::<Scenario>().unwrap_err();
        assert_eq!(e.line, line, "{text}");
        assert!(e.problem.contains(said), "{text}: {e}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "(\\[(up|both)\\]\n)?([a-z-]{1,9} ?= ?[ -~µ]{0,30}\n){0,4}") {
        let _ = text.parse::<Scenario>();
    }

    #[test]
    fn a_drop_tail_queue_bounds_the_wait(
        gaps in prop::collection::vec((0i64..2_000_000, 20usize..1500), 1..200),
        bits in 100_000u64..100_000_000,
        queue in 0u64..50_000,
    ) {
        let config = PathModel { rate: Some(RateBottleneck { bits, queue }), ..PathModel::default() };
        let mut path = Impairment::new(config, 1);
        let (mut now, mut last) = (SteadyTime(0), SteadyTime(i64::MIN));
        for (gap, bytes) in gaps {
            now = now + Span(gap);
            for at in path.pass(now, bytes).iter() {
                prop_assert!(*at > now && *at > last);
                let longest = queue.max(bytes as u64) + 1;
                prop_assert!((*at - now).0 as i128 <= i128::from(longest) * 8_000_000_000 / i128::from(bits) + 2);
                last = *at;
            }
        }
    }

    #[test]
    fn runs_come_out_as_their_histogram(lengths in prop::collection::vec(1u64..20, 0..40), gap in 1u64..30) {
        let mut expected = BTreeMap::new();
        for l in &lengths {
            *expected.entry(*l).or_insert(0u64) += 1;
        }
        let total = lengths.iter().sum::<u64>() + gap * (lengths.len() as u64 + 1);
        let (_, path) = run(&PathModel { loss: Choice::runs(lengths, gap), ..PathModel::default() }, 0, total);
        prop_assert_eq!(path.tally().loss_runs(), expected);
    }
}

#[test]
fn every_scenario_of_the_repository_is_understood() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/scenarios");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "txt") {
            let scenario = std::fs::read_to_string(&path).unwrap().parse::<Scenario>();
            assert!(scenario.as_ref().is_ok_and(|s| !s.name.is_empty()), "{path:?}: {scenario:?}");
            seen += 1;
        }
    }
    assert!(seen >= 8);
}

/// The line in the source document: its cells at both rates, without other impairments.
const ADSL: &str = "seed = 4\n[both]\ndelay = 2500us\n[up]\nrate = 128kbit queue 64kB\ncells = pppoe-llc tunnel 28\n\
                    [down]\nrate = 512kbit queue 12kB\ncells = pppoe-llc tunnel 28\n";

fn both_ways(text: &str) -> [Impairment; 2] {
    let s: Scenario = text.parse().unwrap();
    [Impairment::new(s.up, s.seed), Impairment::new(s.down, s.seed + 1)]
}

#[test]
fn cells_leave_in_slots_of_a_clock() {
    let [mut up, _] = both_ways(ADSL);
    let cell = 3_312_500;
    // 68 bytes are 3 cells. Packets are 7 ms apart and meet all phases of the clock.
    let ends: Vec<i64> = (0..500)
        .map(|k| {
            let now = SteadyTime(k * 17_003_771);
            let end = up.pass(now, 68)[0];
            let takes = (end - now).0 - 2_500_000;
            assert!((3 * cell..=4 * cell).contains(&takes), "{takes}");
            end.0
        })
        .collect();
    assert!(ends.iter().all(|end| (end - ends[0]) % cell == 0), "on slots of one clock");
    let waits: Vec<f64> = (0..500).zip(&ends).map(|(k, end)| (end - k * 17_003_771) as f64).collect();
    let median = {
        let mut w = waits.clone();
        w.sort_unstable_by(f64::total_cmp);
        w[250] - 2.5e6 - 3.0 * cell as f64
    };
    assert!((median / cell as f64 - 0.5).abs() < 0.1, "half a slot is waited: {median}");
    // A packet uses the slots after those of the packet before it: 1450 bytes and the headers are 32 cells,
    // 106 ms.
    let [mut up, _] = both_ways(&ADSL.replace(" tunnel 28", ""));
    let first = up.pass(SteadyTime(0), 1450)[0];
    let second = up.pass(SteadyTime(1), 1450)[0];
    assert_eq!((second - first).0, 106_000_000);
}

#[test]
fn cells_are_of_a_line_with_a_rate() {
    let wrong = |lines: &str| format!("[up]\n{lines}").parse::<Scenario>().unwrap_err().problem;
    assert!(wrong("cells = pppoe-llc").contains("in an earlier line"));
    assert!(wrong("rate = 1Mbit queue 9kB\ncells = ethernet").contains("ATM"));
    assert!(wrong("rate = 1Mbit queue 9kB\ncells = nothing").contains("not a link"));
}

#[test]
fn a_queue_is_not_controlled_for_a_target_of_zero() {
    for (aqm, fits) in [
        ("codel target 0ms interval 100ms", false),
        ("codel target 5ms interval 0", false),
        ("dualpi2 target 0", false),
        ("codel target 5ms interval 100ms", true),
        ("step 0", true),
    ] {
        let text = format!("[both]\nrate = 10Mbit queue 120kB\naqm = {aqm}\n");
        let parsed = text.parse::<crate::Scenario>();
        assert_eq!(parsed.is_ok(), fits, "{aqm}: {:?}", parsed.err().map(|e| e.to_string()));
    }
}
