//! [`Timetable`]: times at which each pair is tested, computed from the file alone, so that all hosts have the same
//! timetable.
//!
//! The pairs of a test are grouped into [`Rounds`]. Time is a cycle that repeats from Monday, 5 January 1970, 00:00
//! UTC. In the cycle, each test has slots; slots of two tests may overlap only if each host that is in both may take
//! part in both at the same time. The slots of a test are numbered continuously, and slot `p` is for round
//! `p mod rounds`. If a period is too short for all rounds, the remaining rounds follow in the next period, so all
//! rounds have the same number of slots.

use crate::group::HostPair;
use crate::model::{Model, MonitoredTest};
use crate::rounds::{Rounds, UNLIMITED};
use crate::window::{DAY, MONDAY, WEEK};
use jitlat_core::{Span, WallTime};
use std::collections::{BTreeMap, HashMap};
use twox_hash::XxHash3_64;

/// Maximum number of concurrent pings of targets by a host in one slot. Each needs a socket and a thread.
pub const MAX_CONCURRENT_PINGS: u32 = 64;

/// Times at which each pair is tested.
#[derive(Clone, Debug)]
pub struct Timetable {
    /// Slots of each test, in the order of the model.
    pub tests: Vec<Scheduled>,
    /// Sets of tests that run at the same time at some point of the cycle.
    pub together: Vec<Vec<usize>>,
}

/// Slots of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Pairs of the test, grouped into rounds. Each slot tests the pairs of one round.
    pub rounds: Rounds,
    /// Length of a slot, without guard.
    pub slot: Span,
    /// Time after which slots repeat.
    pub cycle: Span,
    /// Start times of the slots in ns since the beginning of the cycle, ascending.
    starts: Vec<i64>,
    /// Desired number of slots per period, which is never exceeded.
    pub wanted: usize,
    /// Number of periods in the cycle, without those in which the test does not run.
    pub periods: usize,
    /// Shortest period with room for all rounds, given the other tests of the hosts.
    pub enough: Span,
    /// Seed of random delays of starts.
    seed: u64,
    spread: Span,
}

impl Timetable {
    /// Computes the timetable of `model`.
    pub fn new(model: &Model) -> Timetable {
        let drafts: Vec<Draft> = model.tests.iter().map(|test| Draft::new(model, test)).collect();
        let hyperperiod = model.tests.iter().map(|t| t.every.0).fold(1, lcm);
        let demand = demand(model, &drafts);
        // Try both orders, because neither is better for all files.
        let ways = [PlacingOrder::LongestFirst, PlacingOrder::MostOftenFirst]
            .map(|way| way.place(model, &drafts, &demand, hyperperiod));
        let [one, other] = ways;
        let (starts, together) = if other.share > one.share { other.take() } else { one.take() };
        let tests = drafts.into_iter().zip(starts).enumerate();
        let tests = tests.map(|(k, (draft, mut starts))| {
            starts.sort_unstable();
            Scheduled::new(&model.tests[k], draft, starts, hyperperiod, demand[k])
        });
        Timetable { tests: tests.collect(), together }
    }

    /// Returns a sentence for each test whose period is too short for all pairs.
    pub fn shortfalls(&self, model: &Model) -> Vec<String> {
        let short = |(test, scheduled): (&MonitoredTest, &Scheduled)| {
            let (wanted, has) = (scheduled.wanted * scheduled.periods, scheduled.starts.len());
            if has >= wanted {
                return None;
            }
            let name = &test.name;
            if has == 0 {
                return Some(format!("{name}: the other tests of its hosts leave no time for it"));
            }
            let share = 100.0 * has as f64 / wanted as f64;
            let every = crate::file::text_of(test.every.0);
            let enough = crate::file::text_of(scheduled.enough.0);
            let real = wanted as f64 / has as f64 * test.every.as_seconds();
            Some(format!(
                "{name}: {} rounds do not fit into {every}, so each pair gets {share:.0} % of its tests, one \
                 in {} on average, in turn; every = \"{enough}\" would be enough",
                scheduled.wanted,
                crate::file::text_of((real.ceil() as i64).saturating_mul(1_000_000_000)),
            ))
        };
        model.tests.iter().zip(&self.tests).filter_map(short).collect()
    }
}

impl Scheduled {
    fn new(test: &MonitoredTest, draft: Draft, starts: Vec<i64>, hyperperiod: i64, demand: f64) -> Scheduled {
        let (cycle, starts) = if test.window.is_always() {
            (hyperperiod, starts)
        } else {
            // A week is a whole number of hyperperiods, because each divides a day.
            let repeats =
                (0..WEEK / hyperperiod).flat_map(|n| starts.iter().map(move |at| n * hyperperiod + at));
            (WEEK, repeats.filter(|at| test.window.is_open(*at)).collect())
        };
        let all = (cycle / test.every.0) as usize;
        let periods = match test.window.is_always() {
            true => all,
            false => (0..all).filter(|n| test.window.is_open(*n as i64 * test.every.0)).count(),
        };
        let needed = (test.every.0 as f64 * demand).ceil() as i64;
        let whole = (1_000_000_000..=DAY).step_by(1_000_000_000).find(|s| *s >= needed && DAY % s == 0);
        Scheduled {
            wanted: draft.rounds.len(),
            rounds: draft.rounds,
            slot: draft.slot,
            cycle: Span(cycle),
            starts,
            periods,
            enough: Span(whole.unwrap_or(DAY)),
            seed: XxHash3_64::oneshot(test.name.as_bytes()),
            spread: test.spread,
        }
    }

    /// Returns the number of slots in a cycle.
    pub fn slots_per_cycle(&self) -> usize {
        self.starts.len()
    }

    /// Returns the beginning of slot `p`; `None` if the test has no slots.
    pub fn begins(&self, p: i64) -> Option<WallTime> {
        let n = i64::try_from(self.starts.len()).ok().filter(|n| *n > 0)?;
        let start = self.starts[p.rem_euclid(n) as usize];
        let cycles = p.div_euclid(n).checked_mul(self.cycle.0)?;
        Some(WallTime(MONDAY.0.checked_add(cycles)?.checked_add(start)?))
    }

    /// Returns the number of the first slot that begins at `time` or later.
    pub fn first_from(&self, time: WallTime) -> Option<i64> {
        let n = i64::try_from(self.starts.len()).ok().filter(|n| *n > 0)?;
        let since = time.0.checked_sub(MONDAY.0)?;
        let (cycle, rest) = (since.div_euclid(self.cycle.0), since.rem_euclid(self.cycle.0));
        let before = self.starts.partition_point(|start| *start < rest) as i64;
        cycle.checked_mul(n)?.checked_add(before)
    }

    /// Returns the index of the round whose pairs are tested in slot `p`.
    pub fn round_of(&self, p: i64) -> usize {
        p.rem_euclid(self.rounds.len().max(1) as i64) as usize
    }

    /// Returns the pairs that are tested in slot `p`.
    pub fn pairs_of(&self, p: i64) -> &[HostPair] {
        if self.rounds.is_empty() { &[] } else { self.rounds.round(self.round_of(p)) }
    }

    /// Returns the start of the test of `pair` in slot `p`; `None` if the test has no slots. The start is delayed
    /// within the spread, by a pseudo-random time that is the same on all hosts.
    pub fn starts(&self, p: i64, pair: &HostPair) -> Option<WallTime> {
        let begins = self.begins(p)?;
        if self.spread.0 <= 0 {
            return Some(begins);
        }
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&p.to_le_bytes());
        bytes[16..20].copy_from_slice(&pair.first.to_le_bytes());
        bytes[20..].copy_from_slice(&pair.second.to_le_bytes());
        Some(begins + Span((XxHash3_64::oneshot(&bytes) % self.spread.0 as u64) as i64))
    }
}

/// Order in which slots are assigned to tests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlacingOrder {
    /// Tests with long slots first, spread evenly over each period: short slots fit between them.
    LongestFirst,
    /// Most frequent tests first, each as early in its period as possible: rare tests have long periods, in which they still
    /// find room.
    MostOftenFirst,
}

/// Slots of all tests.
struct PlacedTests {
    starts: Vec<Vec<i64>>,
    sets: Vec<Vec<usize>>,
    /// Shares of the requested slots that were assigned: smallest share of a test, and sum over all tests.
    share: (f64, f64),
}

impl PlacedTests {
    fn take(self) -> (Vec<Vec<i64>>, Vec<Vec<usize>>) {
        (self.starts, self.sets)
    }
}

impl PlacingOrder {
    fn place(self, model: &Model, drafts: &[Draft], demand: &[f64], cycle: i64) -> PlacedTests {
        let mut often: Vec<usize> = (0..drafts.len()).collect();
        often.sort_by_key(|k| (model.tests[*k].every, *k));
        let mut order = often.clone();
        if self == PlacingOrder::LongestFirst {
            order.sort_by_key(|k| (-drafts[*k].slot.0, *k));
        }
        let mut time = Occupied::new(model, drafts);
        let mut starts: Vec<Vec<i64>> = vec![Vec::new(); drafts.len()];
        // First assign each test its fair share, so that no test takes all slots; then assign the rest to tests
        // that need more.
        for k in order {
            let wanted = drafts[k].rounds.len();
            let most = ((wanted as f64 / demand[k]).floor() as usize).clamp(1, wanted.max(1)).min(wanted);
            let evenly = self == PlacingOrder::LongestFirst;
            time.place(k, cycle, most, evenly, &mut starts[k]);
        }
        for k in often {
            time.place(k, cycle, drafts[k].rounds.len(), false, &mut starts[k]);
        }
        let shares = starts.iter().enumerate().map(|(k, starts)| {
            let wanted = drafts[k].rounds.len() as i64 * (cycle / model.tests[k].every.0);
            starts.len() as f64 / wanted.max(1) as f64
        });
        let share = shares.fold((1.0, 0.0), |(least, sum), share: f64| (share.min(least), sum + share));
        PlacedTests { starts, sets: time.sets(), share }
    }
}

/// A test to which no slots are assigned yet.
struct Draft {
    rounds: Rounds,
    slot: Span,
    /// Maximum use of each host by the test at any time.
    uses: Vec<HostUse>,
}

/// Use of a host by a test.
#[derive(Clone, Copy, Default)]
struct HostUse {
    tests: u64,
    rate: u64,
}

impl Draft {
    fn new(model: &Model, test: &MonitoredTest) -> Draft {
        let rate = test.traffic.forward.rate.max(test.traffic.backward.rate);
        let pings = !test.pairs.targets.is_empty();
        let room = |host: &crate::model::Host| {
            let most = if pings { MAX_CONCURRENT_PINGS } else { host.concurrent };
            let by_rate = host.bandwidth.filter(|_| rate > 0).map_or(u64::MAX, |b| b / rate);
            u32::try_from(by_rate).unwrap_or(u32::MAX).min(most).max(1)
        };
        let mut room: Vec<u32> = model.hosts.iter().map(room).collect();
        room.extend(test.pairs.targets.iter().map(|_| UNLIMITED));
        let rounds = Rounds::new(&test.pairs.list, &room);
        let most = rounds.most(room.len());
        let uses = most[..model.hosts.len()].iter().map(|most| HostUse {
            // All pings of a slot together count as one test, because they disturb other tests no more than a
            // single test does.
            tests: if pings { (*most).min(1).into() } else { (*most).into() },
            rate: u64::from(*most) * rate,
        });
        Draft { slot: model.slot(test), uses: uses.collect(), rounds }
    }
}

/// Returns, for each test, the time needed by all tests of its hosts divided by its period; at least 1.
fn demand(model: &Model, drafts: &[Draft]) -> Vec<f64> {
    let mut of_hosts = vec![0.0f64; model.hosts.len()];
    for (test, draft) in model.tests.iter().zip(drafts) {
        let time = draft.rounds.len() as f64 * (draft.slot + model.guard).0 as f64 / test.every.0 as f64;
        for ((host, sum), uses) in model.hosts.iter().zip(&mut of_hosts).zip(&draft.uses) {
            let by_rate = host.bandwidth.map_or(0.0, |b| uses.rate as f64 / b.max(1) as f64);
            *sum += time * (uses.tests as f64 / f64::from(host.concurrent)).max(by_rate).min(1.0);
        }
    }
    let of_test = |draft: &Draft| {
        let used = of_hosts.iter().zip(&draft.uses).filter(|(_, uses)| uses.tests > 0);
        used.map(|(sum, _)| *sum).fold(1.0, f64::max)
    };
    drafts.iter().map(of_test).collect()
}

/// Tests that have slots at each time.
struct Occupied<'a> {
    model: &'a Model,
    drafts: &'a [Draft],
    /// Index in `sets` that applies from each time until the next one.
    times: BTreeMap<i64, usize>,
    sets: Vec<Vec<usize>>,
    /// Cache: true if a test may be added to a set.
    fits: HashMap<(usize, usize), bool>,
    /// Cache: index of the set that results when a test is added to a set.
    with: HashMap<(usize, usize), usize>,
}

impl<'a> Occupied<'a> {
    fn new(model: &'a Model, drafts: &'a [Draft]) -> Occupied<'a> {
        Occupied {
            model,
            drafts,
            times: [(i64::MIN, 0)].into(),
            sets: vec![Vec::new()],
            fits: HashMap::new(),
            with: HashMap::new(),
        }
    }

    /// Adds slots of `test` to `starts` until each period has `most` slots or no room is left. `evenly` spreads
    /// them over the period.
    fn place(&mut self, test: usize, cycle: i64, most: usize, evenly: bool, starts: &mut Vec<i64>) {
        let every = self.model.tests[test].every.0;
        let slot = (self.drafts[test].slot + self.model.guard).0;
        let mut counts = vec![0; (cycle / every) as usize];
        starts.iter().for_each(|at| counts[(at / every) as usize] += 1);
        for (period, count) in counts.iter().enumerate() {
            let (begin, until) = (period as i64 * every, (period as i64 + 1) * every);
            let mut from = begin;
            for k in *count..most {
                if evenly {
                    from = from.max(begin + every / most as i64 * k as i64);
                }
                let Some(at) = self.free(test, from, until, slot) else { break };
                self.occupy(test, at, slot);
                starts.push(at);
                from = at + slot;
            }
        }
    }

    /// Finds the earliest start between `from` and `until` for a slot of `test`.
    fn free(&mut self, test: usize, from: i64, until: i64, slot: i64) -> Option<i64> {
        let mut at = from;
        while at + slot <= until {
            let begins = self.times.range(..=at).next_back().map_or(i64::MIN, |(time, _)| *time);
            let over: Vec<(i64, usize)> =
                self.times.range(begins..at + slot).map(|(t, s)| (*t, *s)).collect();
            let Some((blocked, _)) = over.iter().rev().find(|(_, set)| !self.has_room(*set, test)) else {
                return Some(at);
            };
            at = self.times.range(blocked + 1..).next().map(|(time, _)| *time)?;
        }
        None
    }

    fn occupy(&mut self, test: usize, at: i64, slot: i64) {
        for edge in [at, at + slot] {
            let set = self.times.range(..=edge).next_back().map_or(0, |(_, set)| *set);
            self.times.entry(edge).or_insert(set);
        }
        let parts: Vec<(i64, usize)> = self.times.range(at..at + slot).map(|(t, s)| (*t, *s)).collect();
        for (time, set) in parts {
            let larger = self.larger(set, test);
            self.times.insert(time, larger);
        }
    }

    fn larger(&mut self, set: usize, test: usize) -> usize {
        if let Some(known) = self.with.get(&(set, test)) {
            return *known;
        }
        let mut tests = self.sets[set].clone();
        tests.push(test);
        tests.sort_unstable();
        let place = self.sets.iter().position(|s| *s == tests).unwrap_or_else(|| {
            self.sets.push(tests);
            self.sets.len() - 1
        });
        self.with.insert((set, test), place);
        place
    }

    fn has_room(&mut self, set: usize, test: usize) -> bool {
        if let Some(known) = self.fits.get(&(set, test)) {
            return *known;
        }
        let tests = &self.sets[set];
        let fits = !tests.contains(&test)
            && self.model.hosts.iter().enumerate().all(|(k, host)| {
                let own = self.drafts[test].uses[k];
                if own.tests == 0 {
                    return true;
                }
                let others = tests.iter().map(|t| self.drafts[*t].uses[k]);
                let (count, rate) =
                    others.fold((own.tests, own.rate), |(n, rate), u| (n + u.tests, rate + u.rate));
                count <= u64::from(host.concurrent).max(own.tests)
                    && host.bandwidth.is_none_or(|b| rate <= b.max(own.rate))
            });
        self.fits.insert((set, test), fits);
        fits
    }

    /// Returns the sets of tests that run at the same time at some point of the cycle.
    fn sets(self) -> Vec<Vec<usize>> {
        let mut used = vec![false; self.sets.len()];
        self.times.values().for_each(|set| used[*set] = true);
        let sets = self.sets.into_iter().zip(used);
        sets.filter(|(set, used)| *used && !set.is_empty()).map(|(set, _)| set).collect()
    }
}

fn lcm(a: i64, b: i64) -> i64 {
    let gcd = |mut a: i64, mut b: i64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    // No overflow: both periods divide a day, and so does the result.
    a / gcd(a, b).max(1) * b
}
