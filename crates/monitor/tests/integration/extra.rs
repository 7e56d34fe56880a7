//! Tests on demand run in gaps: the timetable does not change for them.

use crate::common::{hosts, model};
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_monitor::agenda::{AgendaOrder, Missed, SlotEnding};
use jitlat_monitor::extra::{ExtraStep, MAX_WAIT, NoGap};
use jitlat_monitor::{Agenda, Model, Timetable};
use proptest::prelude::*;
use std::sync::Arc;

/// A Thursday.
const BEGIN: WallTime = WallTime(1_763_600_000_000_000_000);
const SECOND: i64 = 1_000_000_000;

fn agenda(model: Model, host: &str, now: WallTime) -> Agenda {
    let timetable = Arc::new(Timetable::new(&model));
    Agenda::new(Arc::new(model), timetable, host, now).unwrap()
}

/// Returns true if a test of the timetable that one of these hosts takes part in is running in [from, to).
fn is_busy(model: &Model, timetable: &Timetable, ends: &[u32], from: WallTime, to: WallTime) -> bool {
    timetable.tests.iter().any(|scheduled| {
        let mut p = scheduled.first_from(from - scheduled.slot - model.guard).unwrap_or(0);
        while let Some(begins) = scheduled.begins(p).filter(|at| *at < to) {
            let own = |pair: &&jitlat_monitor::group::HostPair| {
                ends.contains(&pair.first) || ends.contains(&pair.second)
            };
            for pair in scheduled.pairs_of(p).iter().filter(own) {
                let start = scheduled.starts(p, pair).unwrap();
                if start < to && begins + scheduled.slot > from {
                    return true;
                }
            }
            p += 1;
        }
        false
    })
}

#[test]
fn it_waits_for_a_gap_of_both_hosts_and_ends_before_the_next_slot() {
    // Three hosts, a test of 10 s for each pair in two minutes, one at a time.
    let text = hosts(3, "") + "[[test]]\nname = \"t\"\nevery = \"2min\"\nfor = \"10s\"";
    let file = model(&text);
    let timetable = Timetable::new(&file);
    let slot = timetable.tests[0].slot;
    let begins = timetable.tests[0].begins(timetable.tests[0].first_from(BEGIN).unwrap()).unwrap();
    let mut agenda = agenda(file.clone(), "h0", begins);
    let (id, start) = agenda.add_extra(Some("h1"), Span::seconds(5), begins).unwrap();
    let takes = Span::seconds(5) + file.setup;
    assert!(
        start >= begins + slot + file.guard
            && !is_busy(&file, &timetable, &[0, 1], start, start + takes + file.guard)
    );
    assert_eq!(agenda.poll_extras(start - Span(1)), []);
    assert!(agenda.wake().unwrap() <= start);
    assert_eq!(agenda.poll_extras(start), [ExtraStep::Start(id)]);
    assert_eq!(agenda.poll_extras(start + takes), [ExtraStep::Stop(id)]);
    assert_eq!(agenda.poll_extras(start + takes + Span(1)), []);
    assert!(agenda.end_extra(id) && !agenda.end_extra(id));
    // A test that is too long for every gap is refused, with the length that would fit.
    let Err(NoGap::TooShort(Some(most))) = agenda.add_extra(Some("h1"), Span::seconds(110), begins) else {
        panic!()
    };
    assert!(most < Span::seconds(110), "{most:?}");
    let (_, start) = agenda.add_extra(Some("h1"), most, begins).unwrap();
    assert!(start - begins <= MAX_WAIT);
    assert_eq!(agenda.add_extra(Some("nobody"), Span::seconds(1), begins), Err(NoGap::NoHost));
}

#[test]
fn a_timetable_without_gaps_refuses_it() {
    let text = hosts(2, "")
        + "[timetable]\nsetup = \"1s\"\nguard = \"1s\"\n[[test]]\nname = \"t\"\nevery = \"12s\"\nfor = \"10s\"";
    let mut agenda = agenda(model(&text), "h0", BEGIN);
    assert_eq!(agenda.add_extra(Some("h1"), Span::seconds(1), BEGIN), Err(NoGap::TooShort(None)));
}

#[test]
fn a_test_that_overruns_is_waited_for_and_a_new_file_moves_what_is_in_its_way() {
    let quiet = hosts(2, "") + "[[test]]\nname = \"t\"\nevery = \"1h\"\nfor = \"10s\"";
    let file = model(&quiet);
    let begins = {
        let timetable = Timetable::new(&file);
        timetable.tests[0].begins(timetable.tests[0].first_from(BEGIN).unwrap()).unwrap()
    };
    let mut agenda = agenda(file.clone(), "h0", begins);
    let orders = agenda.poll(begins, SteadyTime(0));
    let Some(AgendaOrder::Start(job)) = orders.first() else { panic!("{orders:?}") };
    let (id, start) = agenda.add_extra(Some("h1"), Span::seconds(5), begins).unwrap();
    // Its slot has ended, but it is still running.
    let Some(ExtraStep::Moved(moved, later)) = agenda.poll_extras(start).first().copied() else { panic!() };
    assert!(moved == id && later > start);
    agenda.ended(job.id, later, Ok(()));
    assert_eq!(agenda.poll_extras(later), [ExtraStep::Start(id)]);
    // Of two tests that wait for the same time, one is first.
    let (second, at) = agenda.add_extra(Some("h1"), Span::seconds(5), later).unwrap();
    assert!(at >= later + Span::seconds(5) + file.setup);
    // A new file has a test every 20 seconds: the running test ends before it, the waiting test is moved.
    let busy = model(&(hosts(2, "") + "[[test]]\nname = \"t\"\nevery = \"20s\"\nfor = \"5s\""));
    let timetable = Arc::new(Timetable::new(&busy));
    let next = timetable.tests[0].begins(timetable.tests[0].first_from(later).unwrap()).unwrap();
    agenda.take_up(Arc::new(busy.clone()), timetable.clone(), later).unwrap();
    let takes = Span::seconds(5) + busy.setup;
    for step in agenda.poll_extras(later) {
        let ExtraStep::Moved(moved, at) = step else { panic!("{step:?}") };
        assert_eq!(moved, second);
        assert!(!is_busy(&busy, &timetable, &[0, 1], at, at + takes));
    }
    if next < later + takes {
        assert_eq!(agenda.poll_extras(next), [ExtraStep::Stop(id)]);
    }
    // A slot that begins while the test is still running waits for the guard time; then it is missed and counted.
    let late = next + busy.guard + Span(1);
    for at in [next, late] {
        let orders = agenda.poll(at, SteadyTime((at - begins).0));
        assert!(orders.is_empty(), "{orders:?}");
    }
    assert!(agenda.outcomes().iter().any(|o| o.ending == SlotEnding::Missed(Missed::Busy)));
    // The far host is removed from the file.
    let alone = model(
        "host = [{ name = \"h0\", address = \"10.0.0.0\" }, { name = \"z\", address = \"10.0.0.9\" }]\n[[test]]\nname = \"t\"\nevery = \"1h\"",
    );
    agenda.end_extra(id);
    let timetable = Arc::new(Timetable::new(&alone));
    agenda.take_up(Arc::new(alone), timetable, next).unwrap();
    assert_eq!(agenda.poll_extras(next), [ExtraStep::Dropped(second, NoGap::NoHost)]);
    assert_eq!(agenda.poll_extras(next), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_extra_test_is_beside_one_of_the_timetable(
        n in 2usize..7,
        every in prop::sample::select(vec!["30s", "1min", "5min"]),
        long in 2i64..12,
        spread in prop::sample::select(vec!["", "spread = \"3s\"\n"]),
        asks in prop::collection::vec((0i64..600, 1i64..40, 0usize..8), 1..12),
    ) {
        let text = format!("{}[[test]]\nname = \"t\"\nevery = \"{every}\"\nfor = \"{long}s\"\n{spread}", hosts(n, ""));
        let file = model(&text);
        let timetable = Timetable::new(&file);
        let mut agenda = agenda(file.clone(), "h0", BEGIN);
        let mut taken: Vec<(WallTime, WallTime)> = Vec::new();
        for (at, duration, far) in asks {
            let now = BEGIN + Span(at * SECOND);
            let far = (far % n > 0).then(|| format!("h{}", far % n));
            let ends: Vec<u32> = [0].into_iter().chain(far.as_deref().map(|f| file.host(f).unwrap() as u32)).collect();
            let takes = Span::seconds(duration) + file.setup;
            match agenda.add_extra(far.as_deref(), Span::seconds(duration), now) {
                Ok((_, start)) => {
                    prop_assert!(start >= now && start - now <= MAX_WAIT);
                    let over = start + takes + file.guard;
                    prop_assert!(!is_busy(&file, &timetable, &ends, start, over));
                    prop_assert!(taken.iter().all(|(a, b)| *b <= start || *a >= over));
                    taken.push((start, over));
                }
                // No gap is found: each second of the horizon is too near to another test.
                Err(NoGap::TooShort(_)) => {
                    let room = (0..MAX_WAIT.0 / SECOND).map(|s| now + Span(s * SECOND)).find(|start| {
                        let over = *start + takes + file.guard;
                        let free = taken.iter().all(|(a, b)| *b <= *start || *a >= over);
                        let mut before = timetable.tests.iter().flat_map(|t| {
                            let from = t.first_from(*start - t.slot - file.guard).unwrap();
                            (from..).map_while(move |p| t.begins(p).filter(|b| *b < over).map(|b| (t, p, b)))
                        });
                        free && !before.any(|(t, p, b)| {
                            let own = t.pairs_of(p).iter().any(|p| ends.contains(&p.first) || ends.contains(&p.second));
                            own && b + t.slot + file.guard > *start
                        })
                    });
                    prop_assert!(room.is_none(), "{room:?}");
                }
                Err(NoGap::NoHost) => prop_assert!(false),
            }
        }
    }
}
