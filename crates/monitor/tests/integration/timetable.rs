//! No two tests that would disturb each other run at the same time, and every pair gets its turn.

use crate::common;
use crate::common::{hosts, model};
use jitlat_core::{Span, WallTime};
use jitlat_monitor::window::MONDAY;
use jitlat_monitor::{Model, MonitorPlan, Timetable};
use proptest::prelude::*;
use std::collections::HashMap;

/// A Thursday.
const BEGIN: WallTime = WallTime(1_763_600_000_000_000_000);

/// A test of a pair in a slot.
struct Slot {
    test: usize,
    ends: [u32; 2],
    from: i64,
    to: i64,
}

/// Returns the slots of a period of time, at most `most` of each test.
fn slots(model: &Model, timetable: &Timetable, length: Span, most: usize) -> Vec<Slot> {
    let mut slots = Vec::new();
    for (test, scheduled) in timetable.tests.iter().enumerate() {
        let Some(mut p) = scheduled.first_from(BEGIN) else { continue };
        let mut own = 0;
        while let Some(begins) = scheduled.begins(p).filter(|at| *at < BEGIN + length && own < most) {
            assert!(begins >= BEGIN);
            assert_eq!(scheduled.first_from(begins), Some(p));
            for pair in scheduled.pairs_of(p) {
                let from = scheduled.starts(p, pair).unwrap();
                let to = from + model.tests[test].traffic.duration + model.setup;
                assert!(from >= begins && to <= begins + scheduled.slot);
                slots.push(Slot { test, ends: [pair.first, pair.second], from: from.0, to: to.0 });
                own += 1;
            }
            p += 1;
        }
    }
    slots
}

/// Checks that no host has more concurrent tests than its limit, guard included.
fn check_collisions(model: &Model, slots: &[Slot]) {
    for (k, host) in model.hosts.iter().enumerate() {
        let mut changes: Vec<(i64, i64, usize)> = Vec::new();
        for slot in slots.iter().filter(|s| s.ends.contains(&(k as u32))) {
            changes.push((slot.from, 1, slot.test));
            changes.push((slot.to + model.guard.0, -1, slot.test));
        }
        changes.sort_unstable();
        let mut now = vec![0i64; model.tests.len()];
        for (_, step, test) in changes {
            now[test] += step;
            // All pings of a host in a slot count as one test.
            let pings = |test: usize| !model.tests[test].pairs.targets.is_empty();
            let count: i64 =
                now.iter().enumerate().map(|(t, n)| if pings(t) { (*n).min(1) } else { *n }).sum();
            assert!(count <= i64::from(host.concurrent), "{}: {now:?}", host.name);
            let rate =
                |t: usize| model.tests[t].traffic.forward.rate.max(model.tests[t].traffic.backward.rate);
            let sum: u64 = now.iter().enumerate().map(|(t, n)| *n as u64 * rate(t)).sum();
            assert!(host.bandwidth.is_none_or(|b| sum <= b), "{}: {sum} bit/s", host.name);
        }
    }
}

/// Checks that no pair of a test has two tests more than another pair.
fn check_fairness(timetable: &Timetable, slots: &[Slot]) {
    for (k, scheduled) in timetable.tests.iter().enumerate() {
        let mut counts: HashMap<[u32; 2], u32> =
            scheduled.rounds.pairs().iter().map(|p| ([p.first, p.second], 0)).collect();
        for slot in slots.iter().filter(|s| s.test == k) {
            *counts.get_mut(&slot.ends).unwrap() += 1;
        }
        let (least, most) = (counts.values().min(), counts.values().max());
        assert!(most.copied().unwrap_or(0) - least.copied().unwrap_or(0) <= 1, "{least:?} to {most:?}");
    }
}

#[test]
fn a_mesh_of_2000_hosts_has_as_few_rounds_as_possible() {
    let file = hosts(2000, "") + "[[test]]\nname = \"t\"\nevery = \"12h\"\nfor = \"10s\"";
    let model = model(&file);
    let timetable = Timetable::new(&model);
    let scheduled = &timetable.tests[0];
    assert_eq!((scheduled.rounds.len(), scheduled.slots_per_cycle()), (1999, 1999));
    assert!(scheduled.rounds.most(2000).iter().all(|most| *most == 1));
    assert_eq!(scheduled.rounds.pairs().len(), 1_999_000);
    let plan = MonitorPlan::new(&model, &timetable);
    assert!(plan.shortfalls.is_empty());
    let (least, most) = plan.hosts.iter().fold((f64::MAX, 0.0f64), |(least, most), host| {
        (host.started_a_day.min(least), host.started_a_day.max(most))
    });
    assert!(least >= 1998.0 && most <= 2000.0, "{least} to {most}");
}

#[test]
fn a_period_that_is_too_short_is_shared_in_turn() {
    let file = hosts(20, "") + "[[test]]\nname = \"t\"\nevery = \"1min\"\nfor = \"10s\"";
    let model = model(&file);
    let timetable = Timetable::new(&model);
    let shortfalls = timetable.shortfalls(&model);
    assert_eq!(
        shortfalls,
        [
            "t: 19 rounds do not fit into 1min, so each pair gets 21 % of its tests, one in 285s on average, in turn; \
          every = \"288s\" would be enough"
        ]
    );
    let slots = slots(&model, &timetable, Span::seconds(3 * 3600), usize::MAX);
    check_collisions(&model, &slots);
    check_fairness(&timetable, &slots);
}

#[test]
fn tests_of_the_same_hosts_share_what_is_too_short_for_both() {
    let tests = "[[test]]\nname = \"often\"\nevery = \"1min\"\nfor = \"5s\"\n\
                 [[test]]\nname = \"seldom\"\nevery = \"1h\"\nfor = \"1min\"";
    let model = model(&(hosts(20, "") + tests));
    let timetable = Timetable::new(&model);
    let [often, seldom] = &timetable.tests[..] else { panic!() };
    assert!(
        often.slots_per_cycle() > 200 && seldom.slots_per_cycle() >= 3,
        "{} {}",
        often.slots_per_cycle(),
        seldom.slots_per_cycle()
    );
    check_collisions(&model, &slots(&model, &timetable, Span::seconds(4 * 3600), usize::MAX));
}

#[test]
fn pings_of_many_targets_take_one_slot() {
    let targets: Vec<String> = (0..60).map(|k| format!("\"192.0.2.{k}\"")).collect();
    let ping = format!(
        "[[ping]]\nname = \"p\"\ntargets = [{}]\nevery = \"1min\"\nfor = \"5s\"\n",
        targets.join(",")
    );
    let file = hosts(3, "")
        + &ping
        + "[[test]]\nname = \"t\"\nevery = \"1min\"\nfor = \"5s\"\nhours = \"00:00-24:00\"";
    let model = model(&file);
    let timetable = Timetable::new(&model);
    assert_eq!(timetable.shortfalls(&model), Vec::<String>::new());
    assert_eq!(timetable.tests[1].rounds.len(), 1);
    check_collisions(&model, &slots(&model, &timetable, Span::seconds(3600), usize::MAX));
}

/// Generates a file with random hosts, limits, groups and tests.
fn any_file() -> impl Strategy<Value = String> {
    let host = (1u32..4, prop_oneof![Just(0u64), 60_000u64..400_000]);
    let group = (0..4u8, prop::collection::vec(0usize..1000, 2..24));
    let test = (
        0usize..3,
        prop_oneof![Just(30u32), Just(60), Just(300), Just(360), Just(3600)],
        1u32..20,
        prop_oneof![Just(0u32), Just(1), Just(3)],
        prop_oneof![
            Just(""),
            Just("days = \"mon-fri\"\n"),
            Just("hours = [\"08:00-12:00\", \"22:30-04:00\"]\n")
        ],
        any::<bool>(),
    );
    (
        prop::collection::vec(host, 3..16),
        prop::collection::vec(group, 3),
        prop::collection::vec(test, 1..4),
    )
        .prop_map(|(hosts, groups, tests)| {
            let mut file = String::new();
            let n = hosts.len();
            for (k, (concurrent, bandwidth)) in hosts.iter().enumerate() {
                file += &format!("[[host]]\nname = \"h{k}\"\naddress = \"a{k}\"\nconcurrent = {concurrent}\n");
                if *bandwidth > 0 {
                    file += &format!("bandwidth = \"{bandwidth}\"\n");
                }
            }
            for (k, (kind, picks)) in groups.iter().enumerate() {
                let mut names: Vec<usize> = picks.iter().map(|p| p % n).collect();
                names.sort_unstable();
                names.dedup();
                if names.len() < 2 {
                    names = vec![0, 1];
                }
                let list = |names: &[usize]| {
                    format!("[{}]", names.iter().map(|k| format!("\"h{k}\"")).collect::<Vec<_>>().join(", "))
                };
                file += &format!("[[group]]\nname = \"g{k}\"\n");
                file += &match kind {
                    0 => format!("kind = \"mesh\"\nhosts = {}\n", list(&names)),
                    1 => format!("kind = \"star\"\ncentre = \"h{}\"\nhosts = {}\n", names[0], list(&names)),
                    2 => {
                        let (left, right) = names.split_at(names.len() / 2);
                        format!("kind = \"disjoint\"\nlists = [{}, {}]\n", list(left), list(right))
                    }
                    _ => {
                        let mut pairs: Vec<[usize; 2]> =
                            picks.windows(2).map(|w| [w[0] % n, w[1] % n]).filter(|[a, b]| a < b).collect();
                        pairs.sort_unstable();
                        pairs.dedup();
                        if pairs.is_empty() {
                            pairs.push([0, 1]);
                        }
                        let pairs: Vec<String> = pairs.iter().map(|p| list(p)).collect();
                        format!("kind = \"pairs\"\npairs = [{}]\n", pairs.join(", "))
                    }
                };
            }
            for (k, (group, every, long, spread, window, ping)) in tests.iter().enumerate() {
                let of = match ping {
                    true => "[[ping]]\ntargets = [\"x\", \"y\", \"z\"]\n".to_owned(),
                    false => format!("[[test]]\ngroup = \"g{group}\"\n"),
                };
                file += &of;
                file += &format!(
                    "name = \"t{k}\"\nevery = \"{every}s\"\nfor = \"{long}s\"\nspread = \"{spread}s\"\n{window}"
                );
            }
            file
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn no_collision_and_every_pair_in_turn(file in any_file()) {
        let model = model(&file);
        let timetable = Timetable::new(&model);
        let slots = slots(&model, &timetable, Span::seconds(2 * 3600), 4000);
        check_collisions(&model, &slots);
        for (k, scheduled) in timetable.tests.iter().enumerate() {
            // Rounds follow one another: no other order can be fairer.
            let first = scheduled.first_from(BEGIN).unwrap_or(0);
            let rounds = scheduled.rounds.len() as i64;
            for p in first..first + rounds {
                prop_assert_eq!(scheduled.round_of(p + 1), (scheduled.round_of(p) + 1) % rounds as usize);
            }
            let pairs: std::collections::HashSet<_> =
                scheduled.rounds.pairs().iter().map(|p| (p.first, p.second)).collect();
            prop_assert_eq!(pairs.len(), model.tests[k].pairs.list.len());
        }
        for windowed in slots.iter().filter(|s| !model.tests[s.test].window.is_always()) {
            let test = &model.tests[windowed.test];
            let earliest = windowed.from - test.spread.0;
            // The slot begins in the window; the test may begin later by up to the spread.
            let open = (earliest..=windowed.from).step_by(1_000_000_000).chain([windowed.from]);
            prop_assert!(open.into_iter().any(|at| test.window.is_open(at - MONDAY.0)));
        }
        let plan = MonitorPlan::new(&model, &timetable);
        let ends: f64 = plan.hosts.iter().map(|h| h.started_a_day).sum();
        let tests: f64 = plan.tests.iter().map(|t| t.tests_a_day).sum();
        prop_assert!((ends - tests).abs() < 1e-6 * tests.max(1.0));
        // Reading the same file again gives the same timetable.
        let again = Timetable::new(&common::model(&file));
        for (a, b) in timetable.tests.iter().zip(&again.tests) {
            prop_assert_eq!(&a.rounds, &b.rounds);
            prop_assert_eq!((a.slots_per_cycle(), a.begins(12345)), (b.slots_per_cycle(), b.begins(12345)));
        }
    }
}
