//! Alerts in virtual time: each fires once and is resolved once even if the monitor is killed at any moment, and none
//! flaps.

use crate::common::model;
use jitlat_core::{Span, WallTime};
use jitlat_monitor::Model;

use jitlat_monitor::alert::{
    AlertChange, AlertDecision, AlertEvent, AlertMachine, TestComparison, TestResult,
};
use jitlat_monitor::window::MONDAY;
use proptest::prelude::*;
use std::collections::BTreeMap;

const FILE: &str = "host = [{ name = \"a\", address = \"192.0.2.1\" }, { name = \"b\", address = \"192.0.2.2\" }, \
                    { name = \"c\", address = \"192.0.2.3\" }]\n\
                    [[test]]\nname = \"t\"\nevery = \"5min\"\nfor = \"10s\"\nclient = \"first\"\n";
const MINUTE: i64 = 60_000_000_000;

fn at(minute: i64) -> WallTime {
    MONDAY + Span(minute * MINUTE)
}

/// A result of the path from a to b.
fn result(minute: i64, figure: &str, value: f64) -> TestResult {
    TestResult {
        test: "t".into(),
        client: "a".into(),
        server: "b".into(),
        started_ns: at(minute).0,
        figures: [(figure.to_owned(), value)].into(),
        ..TestResult::default()
    }
}

/// A machine and its stored state.
struct Kept {
    model: Model,
    machine: AlertMachine,
    states: BTreeMap<String, String>,
    changes: Vec<AlertChange>,
}

impl Kept {
    fn new(alerts: &str) -> Kept {
        let model = model(&format!("{FILE}{alerts}"));
        let machine = AlertMachine::new(&model, "a", &BTreeMap::new(), at(0));
        Kept { model, machine, states: BTreeMap::new(), changes: Vec::new() }
    }

    fn keep(&mut self) {
        let AlertDecision { states, changes } = self.machine.take();
        for (key, state) in states {
            match state {
                Some(state) => self.states.insert(key, state),
                None => self.states.remove(&key),
            };
        }
        self.changes.extend(changes);
    }

    fn judge(&mut self, result: &TestResult, minute: i64) {
        self.machine.judge(result, at(minute));
        self.keep();
    }

    fn tick(&mut self, minute: i64) {
        self.machine.tick(at(minute));
        self.keep();
    }

    /// Restarts as after a kill: changes that were not stored are lost.
    fn restart(&mut self, minute: i64) {
        self.machine = AlertMachine::new(&self.model, "a", &self.states, at(minute));
        self.keep();
    }

    /// Returns `+` for each alert that fired and `-` for each that was resolved, with the minute.
    fn events(&self) -> String {
        let sign = |c: &AlertChange| if c.event == AlertEvent::Resolved { '-' } else { '+' };
        let events = self.changes.iter().map(|c| format!("{}{}", sign(c), (c.at - at(0)).0 / MINUTE));
        events.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn three_of_five_fire_and_what_lies_between_neither_fires_nor_resolves() {
    let mut kept = Kept::new(
        "[[alert]]\nname = \"x\"\nif = \"loss>1%\"\nuntil = \"loss<0.5%\"\nof = \"3 of 5\"\nclear = 2\n",
    );
    let losses =
        [2.0, 0.0, 2.0, 0.0, 0.0, 2.0, 0.0, 2.0, 3.0, 0.8, 0.1, 0.8, 0.1, 0.1, 2.0, 2.0, 0.1, 0.1, 0.1];
    for (k, loss) in (0..).zip(losses) {
        kept.judge(&result(5 * k, "loss", loss / 100.0), 5 * k + 1);
    }
    assert_eq!(kept.events(), "+41 -66");
    let fired = &kept.changes[0];
    assert_eq!(fired.reason, "loss>1% (loss is 3.00%); bad in 3 of the last 5 tests");
    let AlertEvent::Fired { severity, since_ns, .. } = &fired.event else { panic!("{fired:?}") };
    assert_eq!((*severity, *since_ns), ("warning", at(25).0));
    assert_eq!((fired.subject.src.as_str(), fired.subject.dst.as_str()), ("a", "b"));
    assert_eq!(kept.changes[1].reason, "2 consecutive tests were good");
}

/// If the number of a rule differed between processes, each start would forget earlier bad results.
#[test]
fn a_rule_is_known_again_by_another_process() {
    let mut kept = Kept::new("[[alert]]\nname = \"x\"\nif = [\"loss>1%\", \"worse\"]\nof = \"2 of 3\"\n");
    kept.judge(&result(0, "loss", 0.02), 1);
    let rule = twox_hash::XxHash3_64::oneshot(
        b"loss>1% or worse in 2 of 3, until  in 2, against 604800000000000 ns",
    );
    let state = kept.states.values().next().unwrap();
    assert!(state.contains(&format!("\"rule\":{rule},")), "{state}");
    kept.restart(2);
    kept.judge(&result(5, "loss", 0.02), 6);
    assert_eq!(kept.events(), "+6");
}

#[test]
fn a_figure_that_is_undefined_says_nothing_and_other_hosts_judge_their_own() {
    let mut kept = Kept::new("[[alert]]\nname = \"x\"\nif = \"pdv-p99>1ms\"\n");
    kept.judge(&result(0, "pdv-p99", 2e6), 0);
    kept.judge(&result(5, "loss", 1.0), 5);
    let other = TestResult { client: "b".into(), server: "c".into(), ..result(6, "pdv-p99", 2e6) };
    kept.judge(&other, 6);
    assert_eq!(kept.events(), "+0");
    kept.judge(&result(10, "pdv-p99", 1e5), 10);
    // Late results of tests from before the alert was resolved do not count.
    kept.judge(&result(8, "pdv-p99", 2e6), 11);
    assert_eq!(kept.events(), "+0 -10");
    // The opposite direction is another path.
    kept.judge(&TestResult { is_backward: true, ..result(15, "pdv-p99", 2e6) }, 15);
    assert_eq!((kept.events(), kept.changes[2].subject.src.as_str()), ("+0 -10 +15".into(), "b"));
}

#[test]
fn what_is_worse_than_last_week_fires_and_what_is_better_only_changed() {
    let mut kept = Kept::new(
        "[[alert]]\nname = \"w\"\nif = \"worse\"\n[[alert]]\nname = \"c\"\nif = \"changed\"\nagainst = \"1d\"\n",
    );
    let week = Span(7 * 1440 * MINUTE);
    let day = Span(1440 * MINUTE);
    let with = |minute, differs, is_worse| {
        let compared = TestComparison { differs, is_worse, sentence: "more".into() };
        TestResult {
            compared: vec![(week, compared.clone()), (day, compared)],
            ..result(minute, "loss", 0.0)
        }
    };
    assert_eq!(kept.machine.comparisons(&result(0, "loss", 0.0)), [day, week]);
    kept.judge(&with(0, true, false), 0);
    assert_eq!((kept.events(), kept.changes[0].subject.rule.as_str()), ("+0".into(), "c"));
    kept.judge(&with(5, true, true), 5);
    kept.judge(&with(10, false, false), 10);
    assert_eq!(kept.events(), "+0 +5 -10 -10");
}

#[test]
fn silence_of_a_path_and_of_a_host_is_counted_while_somebody_watches() {
    let rules = "[[alert]]\nname = \"path\"\nif = \"silent>15min\"\nhost = [\"b\"]\n\
                 [[alert]]\nname = \"host\"\nif = \"silent>20min\"\nby = \"host\"\nhost = [\"b\", \"c\"]\n";
    let mut kept = Kept::new(rules);
    for minute in 0..100 {
        if minute % 5 == 0 && !(30..60).contains(&minute) {
            kept.judge(&result(minute, "loss", 0.0), minute);
        }
        let other = TestResult { server: "c".into(), ..result(minute, "loss", 0.0) };
        kept.judge(&other, minute);
        kept.tick(minute);
    }
    let subjects: Vec<_> =
        kept.changes.iter().map(|c| (c.subject.rule.as_str(), c.subject.src.as_str())).collect();
    assert_eq!(subjects, [("path", "a"), ("host", "b"), ("path", "a"), ("host", "b")]);
    assert_eq!(kept.events(), "+41 +46 -60 -60");
    assert_eq!(kept.changes[0].reason, "no result for 16min");
    // A monitor that was not running did not watch for silence; firing alerts continue.
    kept.restart(1000);
    kept.tick(1010);
    assert_eq!(kept.changes.len(), 4);
    kept.tick(1016);
    kept.restart(1017);
    kept.tick(1018);
    assert_eq!(kept.changes.len(), 5);
    // A path that is no longer in the file is not silent.
    kept.model = model(&FILE.replace("client = \"first\"", "client = \"second\""));
    kept.restart(1020);
    assert_eq!((kept.changes.len(), kept.states.len()), (6, 0));
    assert!(kept.changes[5].reason.contains("monitor's file no longer contains this alert"));
}

#[test]
fn closed_hours_are_no_silence_and_in_quiet_hours_nothing_begins_to_fire() {
    let mut kept = Kept::new(
        "hours = \"08:00-18:00\"\n[[alert]]\nname = \"s\"\nif = \"silent>1h\"\nhost = [\"b\"]\n\
         [[alert]]\nname = \"x\"\nif = \"loss>1%\"\nquiet-hours = \"09:00-10:00\"\n",
    );
    kept.judge(&result(17 * 60 + 50, "loss", 0.0), 17 * 60 + 50);
    // The next day, from 8:00 on.
    let morning = 32 * 60;
    kept.tick(morning + 49);
    assert_eq!(kept.events(), "");
    kept.tick(morning + 51);
    assert_eq!(kept.events(), format!("+{}", morning + 51));
    kept.judge(&result(morning + 61, "loss", 0.5), morning + 61);
    kept.tick(morning + 119);
    assert_eq!(kept.changes.len(), 2);
    kept.tick(morning + 120);
    assert_eq!((kept.changes.len(), kept.changes[2].subject.rule.as_str()), (3, "x"));
    let AlertEvent::Fired { severity, since_ns, .. } = &kept.changes[2].event else {
        panic!("{:?}", kept.changes[2])
    };
    assert_eq!((*severity, *since_ns), ("warning", at(morning + 61).0));
}

proptest! {
    /// A machine that is killed at any moment notifies the same changes as one that is not; firing and resolution alternate; and
    /// another order of results within the window leads to the same final state.
    #[test]
    fn restarts_change_nothing_and_nothing_is_told_twice(
        losses in prop::collection::vec(0u8..4, 1..120),
        kills in prop::collection::vec(any::<bool>(), 120),
        (bad, of, clear) in (1u32..4).prop_flat_map(|bad| (Just(bad), bad..6, 1u32..4)),
    ) {
        let rule = format!(
            "[[alert]]\nname = \"x\"\nif = \"loss>1%\"\nuntil = \"loss<1%\"\nof = \"{bad} of {of}\"\nclear = {clear}\n"
        );
        let (mut steady, mut killed) = (Kept::new(&rule), Kept::new(&rule));
        for (k, (loss, kill)) in (0i64..).zip(losses.iter().zip(&kills)) {
            let next = result(5 * k, "loss", f64::from(*loss) / 200.0);
            steady.judge(&next, 5 * k);
            if *kill {
                // The result was judged, but its consequences were not stored: it is judged again.
                killed.machine.judge(&next, at(5 * k));
                killed.restart(5 * k);
            }
            killed.judge(&next, 5 * k);
            killed.tick(5 * k);
        }
        prop_assert_eq!(&steady.changes, &killed.changes);
        for (k, change) in steady.changes.iter().enumerate() {
            prop_assert_eq!(change.event == AlertEvent::Resolved, k % 2 == 1);
        }
        // Two firings are separated by at least the number of tests needed to resolve the first and to fire the second.
        let fired: Vec<i64> = steady.changes.iter().step_by(2).map(|c| c.at.0).collect();
        let least = i64::from(bad + clear) * 5 * MINUTE;
        prop_assert!(fired.windows(2).all(|w| w[1] - w[0] >= least));
    }

    #[test]
    fn kept_states_may_be_anything(key in "\\PC{0,4}\t?\\PC{0,4}\t\\PC{0,4}\t\\PC{0,4}", text in "\\PC{0,40}") {
        let kept = Kept::new("[[alert]]\nname = \"x\"\nif = \"loss>1%\"\n");
        let states = [(key, text.clone()), ("x\tt\ta\tb".to_owned(), text)].into();
        let mut machine = AlertMachine::new(&kept.model, "a", &states, at(0));
        machine.judge(&result(0, "loss", 1.0), at(0));
        prop_assert_eq!(machine.take().changes.len(), 1);
    }
}
