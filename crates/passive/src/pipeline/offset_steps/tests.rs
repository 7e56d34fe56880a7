use super::*;
use jitlat_core::time::Span;

const MS: i64 = 1_000_000;

/// Packets every 20 ms in both directions with delays of 20 ms and some jitter; `set` changes the times of a packet.
fn run(packets: i64, mut set: impl FnMut(&mut Record)) -> (Vec<Record>, Vec<PointStep>) {
    let mut steps = OffsetSteps::default();
    let mut passed = Vec::new();
    let mut keep = |event| {
        if let MatchEvent::Arrived(_, r, _) = event {
            passed.push(r);
        }
    };
    for k in 0..packets {
        let jitter = k * 7919 % 17 * MS / 10;
        for direction in Direction::BOTH {
            let sent = k * 20 * MS + if direction == Direction::Down { 3 * MS } else { 0 };
            let arrived = sent + 20 * MS + jitter;
            let (reference, monitor) =
                if direction == Direction::Up { (sent, arrived) } else { (arrived, sent) };
            let mut r = Record {
                direction,
                reference: WallTime(reference),
                monitor: WallTime(monitor),
                length: 200,
                flow: 0,
            };
            set(&mut r);
            match steps.take(MatchEvent::Arrived(k as u64, r, false)) {
                Next::Pass(event) => keep(event),
                Next::Held => {}
                Next::Release(events) => events.into_iter().for_each(&mut keep),
            }
        }
    }
    steps.finish().into_iter().for_each(keep);
    (passed, steps.steps)
}

#[test]
fn a_step_of_either_clock_is_found_and_corrected() {
    for point in [CapturePoint::Reference, CapturePoint::Monitor] {
        for by in [100 * MS, -100 * MS, 30 * MS, 9000 * MS, -2500 * MS] {
            let (passed, steps) = run(200, |r| {
                let at = time_at(point, r);
                if at.0 >= 2000 * MS {
                    *at = WallTime(at.0 + by);
                }
            });
            assert_eq!((passed.len(), steps.len()), (400, 1), "{point:?} {by}");
            assert_eq!(steps[0].point, point, "{by}");
            assert!((steps[0].by_ns.0 - by).abs() < 2 * MS, "{point:?} {by}: {steps:?}");
            // All delays are near those without the step.
            let near = |r: &Record| (20 * MS - 3 * MS..=23 * MS).contains(&r.delay().0);
            assert!(passed.iter().all(near), "{point:?} {by}: {:?}", passed.iter().find(|r| !near(r)));
        }
    }
}

#[test]
fn several_steps_are_found_one_after_another() {
    let (passed, steps) = run(400, |r| {
        for (from, by) in [(1000, 300), (4000, -100)] {
            if r.monitor.0 >= from * MS + if by < 0 { 300 * MS } else { 0 } {
                r.monitor = r.monitor + Span(by * MS);
            }
        }
    });
    assert_eq!((passed.len(), steps.len()), (800, 2), "{steps:?}");
}

#[test]
fn queues_and_routes_are_no_steps() {
    // A queue out, one in both directions, a longer route in both directions, one spike.
    let late = |r: &mut Record, by: i64| match r.direction {
        Direction::Up => r.monitor = r.monitor + Span(by * MS),
        Direction::Down => r.reference = r.reference + Span(by * MS),
    };
    let between = |r: &Record, from: i64, to: i64| {
        let sent = if r.direction == Direction::Up { r.reference } else { r.monitor };
        (from * MS..to * MS).contains(&sent.0)
    };
    for case in 0..4 {
        let (passed, steps) = run(400, |r| match case {
            0 if r.direction == Direction::Up && between(r, 2000, 4000) => late(r, 150),
            1 if between(r, 2000, 3000) => late(r, 80),
            2 if between(r, 2000, i64::MAX / MS) => late(r, 40),
            3 if between(r, 2000, 2030) => late(r, 300),
            _ => {}
        });
        assert_eq!((passed.len(), steps.len()), (800, 0), "{case}: {steps:?}");
    }
}

#[test]
fn one_direction_alone_shows_no_step() {
    let mut steps = OffsetSteps::default();
    let mut passed = 0;
    for k in 0..300 {
        let at = WallTime(k * 20 * MS);
        let by = if k < 100 { 0 } else { 500 * MS };
        let monitor = at + Span(20 * MS + by);
        let r = Record { direction: Direction::Up, reference: at, monitor, length: 1, flow: 0 };
        passed += usize::from(matches!(steps.take(MatchEvent::Arrived(0, r, false)), Next::Pass(_)));
    }
    assert_eq!((passed, steps.steps.len()), (300, 0));
}
