//! Slots of one host in virtual time: a test that does not end takes nothing from the next slot, and only what a far host does is held
//! against it.

use crate::common::{hosts, model};
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_monitor::agenda::{AgendaOrder, Missed, Notice, SlotEnding, SlotFailure, TestJob};
use jitlat_monitor::window::MONDAY;
use jitlat_monitor::{Agenda, Timetable};
use std::sync::Arc;

/// A mesh of three hosts without any time to spare: three slots of 3.5 s in 12 s, as in `examples/mesh`.
const TIGHT: &str = "timetable = { guard = \"500ms\", setup = \"1500ms\" }\n\
                     [[test]]\nname = \"t\"\nevery = \"12s\"\nfor = \"2s\"\nclient = \"first\"\n";

struct Host {
    agenda: Agenda,
    now: WallTime,
    steady: SteadyTime,
}

impl Host {
    fn new(text: &str) -> Host {
        let text = match text.split_once('\n') {
            Some((first, rest)) if first.starts_with("timetable") => {
                format!("{first}\n{}{rest}", hosts(3, ""))
            }
            _ => hosts(3, "") + text,
        };
        let model = Arc::new(model(&text));
        let timetable = Arc::new(Timetable::new(&model));
        let now = MONDAY;
        Host { agenda: Agenda::new(model, timetable, "h0", now).unwrap(), now, steady: SteadyTime(0) }
    }

    fn wait(&mut self, time: Span) {
        (self.now, self.steady) = (self.now + time, self.steady + time);
    }

    /// Goes on to the next action, and returns its orders.
    fn next(&mut self) -> Vec<AgendaOrder> {
        let wake = self.agenda.wake().unwrap();
        self.wait((wake - self.now).max(Span::ZERO));
        self.agenda.poll(self.now, self.steady)
    }

    /// Goes on until a test starts. Returns it, and the orders before.
    fn start(&mut self) -> (TestJob, Vec<AgendaOrder>) {
        let mut before = Vec::new();
        for _ in 0..100 {
            for order in self.next() {
                match order {
                    AgendaOrder::Start(job) => return (job, before),
                    other => before.push(other),
                }
            }
        }
        panic!("no test starts: {before:?}");
    }

    fn endings(&mut self) -> Vec<(String, SlotEnding)> {
        self.agenda.outcomes().into_iter().map(|outcome| (outcome.far, outcome.ending)).collect()
    }
}

#[test]
fn a_test_that_does_not_end_takes_no_slot_from_the_next() {
    let mut host = Host::new(TIGHT);
    let (hangs, _) = host.start();
    for _ in 0..20 {
        let (next, before) = host.start();
        // Any test that hangs is stopped, and must give up, before the next slot begins; the healthy pair starts in time.
        assert_eq!(host.now, next.start, "{before:?}");
        if next.far == hangs.far {
            continue;
        }
        host.wait(Span::seconds(2));
        host.agenda.ended(next.id, host.now, Ok(()));
    }
    let mut host = Host::new(TIGHT);
    let (hangs, _) = host.start();
    let (_, before) = host.start();
    assert_eq!(before, [AgendaOrder::Stop(hangs.id), AgendaOrder::GiveUp(hangs.id)]);
    host.agenda.ended(hangs.id, host.now, Err((SlotFailure::Other, "stopped".into())));
    assert_eq!(host.endings(), [(hangs.far, SlotEnding::Failed(SlotFailure::TooSlow))]);
}

#[test]
fn a_due_slot_waits_within_its_guard_for_an_earlier_test() {
    let wide = "[[test]]\nname = \"a\"\nevery = \"1min\"\nfor = \"5s\"\nclient = \"first\"\n";
    let waits = |ends_after: Span| {
        let mut host = Host::new(wide);
        let (first, _) = host.start();
        host.agenda.ended(first.id, host.now, Ok(()));
        // A test on demand does not end in its gap.
        let (extra, start) = host.agenda.add_extra(None, Span::seconds(2), host.now).unwrap();
        while host.now < start {
            for order in host.next() {
                if let AgendaOrder::Start(job) = order {
                    host.agenda.ended(job.id, host.now, Ok(()));
                }
            }
            host.wait(Span::millis(100));
        }
        assert!(!host.agenda.poll_extras(host.now).is_empty());
        let due = first.start + Span::seconds(60);
        host.wait(due - host.now);
        assert_eq!(host.agenda.poll(host.now, host.steady), [], "the test on demand has the place");
        host.agenda.poll_extras(host.now);
        assert!(host.agenda.wake().unwrap() > due, "it waits");
        host.wait(ends_after);
        host.agenda.end_extra(extra);
        let orders = host.agenda.poll(host.now, host.steady);
        (orders.iter().any(|order| matches!(order, AgendaOrder::Start(_))), host.endings())
    };
    assert!(waits(Span::millis(500)).0, "it starts as soon as there is room");
    let (started, endings) = waits(Span::millis(1500));
    assert!(
        !started && endings.iter().any(|(_, ending)| *ending == SlotEnding::Missed(Missed::Busy)),
        "{endings:?}"
    );
}

#[test]
fn an_own_full_disk_is_no_failing_far_host_and_a_failure_costs_its_own_slot_only() {
    let mut host = Host::new(TIGHT);
    let full = || Err((SlotFailure::NotStored, "archive a: No space left on device".to_owned()));
    for _ in 0..4 {
        let (job, _) = host.start();
        host.wait(Span::seconds(1));
        host.agenda.ended(job.id, host.now, full());
    }
    let notices = host.agenda.notices();
    assert!(matches!(&notices[..], [Notice::NotStored(why)] if why.contains("No space")), "{notices:?}");
    let outcomes = host.agenda.outcomes();
    assert!(outcomes.iter().all(|outcome| outcome.ending.is_own_fault() && outcome.why.contains("No space")));
    let (job, _) = host.start();
    host.agenda.ended(job.id, host.now, Ok(()));
    assert_eq!(host.agenda.notices(), [Notice::Stored(4)]);

    // A far host that fails is tried in each of its slots, so that it is measured again in the first one that works.
    let far = job.far.clone();
    let mut slots = Vec::new();
    for _ in 0..40 {
        let (job, _) = host.start();
        let gone = job.far == far;
        slots.extend(gone.then_some(job.slot_number));
        let result =
            if gone { Err((SlotFailure::Unreachable, "connection refused".to_owned())) } else { Ok(()) };
        host.agenda.ended(job.id, host.now, result);
    }
    assert!(slots.len() >= 18, "{slots:?}");
    assert!(
        slots.windows(2).all(|two| two[1] - two[0] == slots[1] - slots[0]),
        "each of its slots: {slots:?}"
    );
    let failing = host.agenda.notices().into_iter().filter(|n| matches!(n, Notice::Failing { .. }));
    assert_eq!(failing.count(), 1);
}

#[test]
fn a_clock_that_is_set_back_stops_nothing() {
    let mut host = Host::new(TIGHT);
    for _ in 0..6 {
        let (job, _) = host.start();
        host.agenda.ended(job.id, host.now, Ok(()));
    }
    for step in [Span::seconds(-600), Span(-3 * 86_400 * 1_000_000_000), Span::seconds(600)] {
        host.now = host.now + step;
        let before = host.steady;
        host.agenda.poll(host.now, host.steady);
        let (job, _) = host.start();
        host.agenda.ended(job.id, host.now, Ok(()));
        assert!(host.steady - before < Span::seconds(13), "{step:?}: a test within one period");
    }
}
