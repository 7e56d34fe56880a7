//! Bands of round trips caused by a line with a cell clock and by a host's interface: metrics of captures, in
//! simulation.

use core::cmp::Reverse;
use jitlat_core::link::AccessLink;
use jitlat_core::spec::Direction;
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_impair::{Impairment, Scenario};
use jitlat_passive::{
    BandSpacing, MatchCounts, MatchObserver, PairEstimator, PassiveSummary, Record, SizeFigures,
    ThinnedTimes, explain_levels,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BinaryHeap;

/// The line of the source document: cells at both rates, and nothing else.
const ADSL: &str = "seed = 4\n[both]\ndelay = 2500us\n[up]\nrate = 128kbit queue 64kB\ncells = pppoe-llc tunnel 28\n\
                    [down]\nrate = 512kbit queue 12kB\ncells = pppoe-llc tunnel 28\n";

/// Uniformly distributed on (0, 1].
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The far host sends data.
    Data,
    /// The near host acknowledges data.
    Acknowledge,
    /// The acknowledgement has arrived.
    Acknowledged,
}

/// Simulates a bulk download over that line, as captured at both hosts. Every data packet is acknowledged on
/// arrival, every acknowledgement releases data, in a window of one to four packets; other hosts use the
/// upstream from time to time. Hosts send and see packets at multiples of `tick` ns, like an interface that
/// coalesces its interrupts. Returns the results, and every round trip in ns.
fn download(packets: usize, tick: i64) -> (PassiveSummary, Vec<SizeFigures>, Vec<i64>) {
    let line: Scenario = ADSL.parse().unwrap();
    let mut up = Impairment::new(line.up, line.seed);
    let mut down = Impairment::new(line.down, line.seed + 1);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut below = |n: f64| (unit(&mut rng) * n).ceil() as usize;
    let on_tick = |t: SteadyTime| SteadyTime((t.0 + tick - 1).div_euclid(tick) * tick);
    let wall = |t: SteadyTime| WallTime(1_700_000_000_000_000_000 + t.0);
    let record = |direction, reference, monitor, length| Record {
        direction,
        reference: wall(reference),
        monitor: wall(monitor),
        length,
        flow: 0,
    };
    let mut steps: BinaryHeap<Reverse<(SteadyTime, Step)>> =
        [0, 1].map(|k| Reverse((SteadyTime(k), Step::Data))).into();
    let (mut records, mut sent, mut in_flight, mut window) = (Vec::new(), 0, 2, 2);
    while let Some(Reverse((at, step))) = steps.pop() {
        match step {
            Step::Data => {
                sent += 1;
                if sent > packets {
                    break;
                }
                let leaves = on_tick(at);
                let arrives = on_tick(down.pass(leaves, 1450)[0]);
                records.push(record(Direction::Down, arrives, leaves, 1450));
                steps.push(Reverse((arrives, Step::Acknowledge)));
            }
            Step::Acknowledge => {
                if below(4.0) == 1 {
                    for _ in 0..2 + below(2.0) {
                        up.pass(at, [76, 130][below(2.0) - 1]);
                    }
                }
                let arrives = on_tick(up.pass(at, 52)[0]);
                records.push(record(Direction::Up, at, arrives, 52));
                steps.push(Reverse((arrives, Step::Acknowledged)));
            }
            Step::Acknowledged => {
                in_flight -= 1;
                if sent % 12 == 0 {
                    window = below(4.0);
                }
                while in_flight < window {
                    in_flight += 1;
                    // The far host takes up to 0.1 ms.
                    let ready = at + Span(below(100_000.0) as i64);
                    steps.push(Reverse((ready, Step::Data)));
                }
            }
        }
    }
    records.sort_by_key(|r| r.monitor);
    let mut estimator = PairEstimator::new(Span::seconds(1), None);
    for r in records {
        estimator.arrived(0, r, false);
        estimator.record(r);
    }
    let round_trips = estimator.pairs().iter().map(|e| e.pair.rtt().0).collect();
    (estimator.summary_of([MatchCounts::default(); 2]), estimator.sizes(), round_trips)
}

fn apart(levels: &[BandSpacing], ns: f64) -> Option<&BandSpacing> {
    levels.iter().find(|l| (l.spacing_ns / ns - 1.0).abs() < 0.02)
}

/// Bands among the round trips that `range` contains, in ms.
fn bands_within(round_trips: &[i64], range: core::ops::Range<i64>) -> Vec<BandSpacing> {
    let mut times = ThinnedTimes::default();
    round_trips.iter().filter(|rtt| range.contains(&(*rtt / 1_000_000))).for_each(|rtt| times.push(*rtt));
    times.find()
}

#[test]
fn a_part_of_the_round_trips_has_the_bands_of_all() {
    let mut coarse = 0;
    for tick in [1, 15_000] {
        let (_, _, round_trips) = download(4000, tick);
        for range in [0..1000, 0..140, 70..140, 70..120] {
            let found = bands_within(&round_trips, range.clone());
            let cell = apart(&found, 3_312_500.0).unwrap();
            // Too few packets may be queued to show their bands, but other bands are never shown.
            for level in found.iter().filter(|l| l.spacing_ns > 7e6) {
                assert!((level.spacing_ns / 26.5e6 - 1.0).abs() < 0.001, "{range:?} {found:#?}");
                assert_eq!(cell.steps_per_coarser, Some(8), "{range:?} {found:#?}");
                coarse += 1;
            }
        }
    }
    assert!(coarse > 0);
}

#[test]
fn a_cell_apart() {
    let (mut summary, sizes, round_trips) = download(4000, 1);
    let link: AccessLink = "pppoe-llc,up=128k,down=512k,tunnel=28".parse().unwrap();
    explain_levels(&mut summary.levels, &link, &sizes);
    let cell = apart(&summary.levels, 3_312_500.0);
    let why = |l: &BandSpacing| l.explained.iter().any(|e| e.contains("one ATM cell from the reference"));
    assert!(cell.is_some_and(why), "{:#?} {:?}", summary.levels, &round_trips[..20]);
}

/// Bands within the central band, in which four data packets are in transit.
fn closer_look(tick: i64) -> Vec<BandSpacing> {
    let (_, _, round_trips) = download(4000, tick);
    let mut levels = ThinnedTimes::default();
    let central = round_trips.iter().filter(|rtt| (105_800_000..=106_000_000).contains(*rtt));
    central.for_each(|rtt| levels.push(*rtt));
    levels.find()
}

#[test]
fn fifteen_microseconds_apart_in_a_closer_look() {
    let found = closer_look(15_000);
    assert!(apart(&found, 15_000.0).is_some(), "{found:#?}");
    let smooth = closer_look(1);
    assert!(apart(&smooth, 15_000.0).is_none(), "{smooth:#?}");
}
