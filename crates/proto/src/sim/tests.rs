//! Scenarios in virtual time.

use super::*;
use jitlat_core::spec::{Direction, Schedule, Transport};

fn spec(direction: Direction, packets: u64, period: Span) -> TestSpec {
    TestSpec::new(direction, Transport::Udp, packets, 80, period, Schedule::Periodic).unwrap()
}

fn millis(ms: i64) -> Config {
    Config { delay: Span::millis(ms), ..Config::default() }
}

#[test]
fn a_perfect_path_loses_nothing() {
    for dialect in [Dialect::V3, Dialect::Classic] {
        for direction in [Direction::Up, Direction::Down] {
            let mut world = World::new(spec(direction, 100, Span::millis(20))).path(&millis(10));
            world.dialect = dialect;
            let out = world.run();
            assert_eq!(out.client, Ok((Ending::Complete, None)), "{dialect} {direction:?}");
            assert_eq!(out.records[0].len(), 100, "{dialect} {direction:?}");
            assert_eq!(out.server[0], None);
            assert!(!out.hung);
            assert_eq!(out.kept, 0);
            println!("{dialect} {direction:?} {:?} {:?}", out.client_took, out.took);
        }
    }
}
