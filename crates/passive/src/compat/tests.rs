use super::*;
use jitlat_core::time::WallTime;

/// A sighting of an OUT packet at this time in ms.
fn s(at_ms: i64, id: u64) -> Sighting {
    Sighting { at: WallTime(at_ms * 1_000_000), id, length: 9, direction: Direction::Up, flow: 0 }
}

fn back(at_ms: i64, id: u64) -> Sighting {
    Sighting { direction: Direction::Down, ..s(at_ms, id) }
}

#[test]
fn lost_packets_at_the_head_stop_a_short_search() {
    let mut m = CaiaMatcher::new(20, Span::seconds(60), Span::ZERO, false);
    (0..40).for_each(|i| m.reference(s(i, i as u64)));
    assert!(m.monitor(s(50, 19)).is_some(), "the twentieth entry is still searched");
    assert!(m.monitor(s(50, 39)).is_none(), "the fortieth is not");
    assert_eq!(m.matched(Direction::Up), 1);
    let mut m = CaiaMatcher::new(0, Span::seconds(60), Span::ZERO, false);
    m.reference(s(0, 1));
    assert!(m.monitor(s(1, 1)).is_some(), "one entry is searched at least");
}

#[test]
fn a_candidate_too_old_is_discarded() {
    let mut m = CaiaMatcher::new(20, Span::seconds(2), Span::seconds(10), false);
    m.reference(s(0, 1));
    m.reference(s(9_000, 1));
    let r = m.monitor(s(19_100, 1)).unwrap();
    assert_eq!(r.reference, WallTime(9_000_000_000));
    assert!(m.lists[0].is_empty());
}

#[test]
fn a_match_is_as_near_as_allowed_in_whole_seconds_and_one_more() {
    let matched = |reference: i64, monitor: i64| {
        let mut m = CaiaMatcher::new(20, Span::seconds(2), Span::seconds(10), false);
        m.reference(s(reference, 1));
        (m.monitor(s(10_000 + monitor, 1)).is_some(), m.lists[0].len())
    };
    assert_eq!((matched(0, 3_999), matched(0, 4_000)), ((true, 0), (false, 0)));
    // A sighting that is too late may still match another one.
    assert_eq!((matched(3_999, 0), matched(4_000, 0)), ((true, 0), (false, 1)));
}

#[test]
fn the_ways_are_counted_and_matched_apart() {
    let mut m = CaiaMatcher::new(20, Span::seconds(2), Span::ZERO, false);
    m.reference(Sighting { length: 77, flow: 3, ..back(20, 1) });
    m.reference(s(5, 2));
    m.reference(s(6, 3));
    assert!(m.monitor(s(10, 1)).is_none());
    let r = m.monitor(back(10, 1)).unwrap();
    assert_eq!((r.direction, r.length, r.flow), (Direction::Down, 77, 3));
    assert_eq!((r.reference, r.monitor), (WallTime(20_000_000), WallTime(10_000_000)));
    assert_eq!(Direction::BOTH.map(|direction| m.seen(CapturePoint::Reference, direction)), [2, 1]);
    assert_eq!(Direction::BOTH.map(|direction| m.seen(CapturePoint::Monitor, direction)), [1, 1]);
    assert_eq!(Direction::BOTH.map(|direction| m.matched(direction)), [0, 1]);
}

/// Returns the last time, in seconds after a monitor sighting, up to which reference sightings are wanted.
fn wanted(m: &CaiaMatcher) -> i64 {
    let wants = |after: i64| m.wants_reference(&s(110_000, 1), WallTime(after));
    let last = (0..200).rfind(|second| wants((100 + second) * SECOND)).unwrap();
    assert!(!wants((100 + last) * SECOND + 1));
    last
}

#[test]
fn reference_sightings_are_wanted_two_seconds_further_than_allowed() {
    let mut m = CaiaMatcher::new(2, Span::seconds(60), Span::seconds(10), false);
    assert_eq!(wanted(&m), 62);
    m.reference(s(0, 1));
    m.reference(back(0, 1));
    assert_eq!(wanted(&m), 62);
    m.reference(s(0, 2));
    assert!(!m.wants_reference(&s(110_000, 1), WallTime(0)), "as many are held as are searched");
    assert!(m.wants_reference(&back(110_000, 1), WallTime(0)));
}

#[test]
fn the_time_allowed_is_narrowed_after_twenty_matches() {
    let mut m = CaiaMatcher::new(20, Span::seconds(60), Span::seconds(10), true);
    let mut step = |at: i64, difference: i64| {
        m.reference(s(at, 1));
        assert!(m.monitor(s(at + 10_000 + difference, 1)).is_some());
        wanted(&m)
    };
    for k in 0..20 {
        assert_eq!(step(k, 10_500), 62);
    }
    // The allowed difference is the usual 10.5 s, as whole seconds, plus 4 s.
    assert_eq!(step(20, 10_500), 14 + 2);
    // 0.7 · 10.5 s + 0.3 · 14.5 s
    assert_eq!(step(21, 14_500), 11 + 4 + 2);
    assert_eq!(step(22, -11_700), 11 + 4 + 2);
    let mut m = CaiaMatcher::new(20, Span::seconds(60), Span::ZERO, true);
    for k in 0..21 {
        m.reference(s(20_000 + k, 1));
        assert!(m.monitor(s(k, 1)).is_some(), "the sign does not matter");
    }
    m.offset = 10 * SECOND;
    assert!((23..=26).contains(&wanted(&m)));
}

fn record(direction: Direction, monitor: i64) -> Record {
    Record { direction, reference: WallTime(0), monitor: WallTime(monitor), length: 0, flow: 0 }
}

#[test]
fn the_last_pair_is_held_for_ever() {
    let mut p = CaiaPairer::default();
    assert!(p.push(record(Direction::Down, 0)).is_none());
    assert!(p.push(record(Direction::Up, 1)).is_none());
    assert!(p.push(record(Direction::Down, 2)).is_none());
    assert_eq!(p.push(record(Direction::Up, 3)).map(|p| p.back.monitor.0), Some(2));
    assert!(p.push(record(Direction::Down, 4)).is_none());
}

#[test]
fn a_pair_is_the_last_out_before_an_in() {
    let pairs = |list: &[(Direction, i64)]| -> Vec<(i64, i64)> {
        let mut p = CaiaPairer::default();
        let made = list.iter().filter_map(|(direction, at)| p.push(record(*direction, *at)));
        made.map(|p| (p.out.monitor.0, p.back.monitor.0)).collect()
    };
    use Direction::{Down, Up};
    assert_eq!(pairs(&[(Up, 1), (Up, 2), (Down, 3), (Up, 4)]), [(2, 3)]);
    assert_eq!(pairs(&[(Up, 1), (Down, 3), (Up, 3), (Down, 4), (Up, 9)]), [(1, 3), (3, 4)]);
    // An IN packet at the same time as an OUT packet does not answer it.
    assert_eq!(pairs(&[(Up, 3), (Down, 3), (Up, 4), (Down, 5), (Up, 6)]), [(4, 5)]);
    assert_eq!(pairs(&[(Up, 1), (Down, 2), (Down, 3), (Up, 4), (Down, 5), (Up, 6)]), [(1, 2), (4, 5)]);
}

#[test]
fn what_is_not_in_the_list_is_not_found() {
    let mut m = CaiaMatcher::new(20, Span::seconds(60), Span::ZERO, false);
    m.reference(s(0, 1));
    assert!(m.monitor(s(1, 2)).is_none() && m.monitor(s(1, 1)).is_some());
}

#[test]
fn packets_of_one_way_alone_are_held_in_bounded_memory() {
    let held = |direction| {
        let mut p = CaiaPairer::default();
        (0..MAX_HELD as i64 / 64 + 10).for_each(|at| assert!(p.push(record(direction, at)).is_none()));
        p.lists[direction as usize].len()
    };
    assert_eq!(Direction::BOTH.map(held), [65_536; 2]);
}
