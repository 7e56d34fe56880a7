//! Search for the largest packet that passes a path, after a test in which nothing arrived: short tests with packets of
//! other lengths, several at the same time.
//!
//! A router that drops a packet because of its length reports that (ICMP), and the sending kernel uses fragments from
//! then on. Some firewalls drop these reports, so that long packets vanish and short ones pass.

use crate::stop::Stop;
use jitlat_core::observer::{Event, Observer};
use jitlat_core::session::{Session, SizeLimit};
use jitlat_core::{Span, SteadyTime};
use jitlat_net::clock::steady;
use std::thread;

/// Length in bytes of packets that pass every IP path.
const SHORT: u32 = 200;
/// Tests with shorter packets are not followed by a search: every link carries them (RFC 791).
const MIN_SEARCHED: u32 = 576;
/// MTUs that links and tunnels usually have.
const USUAL: [u32; 16] =
    [576, 1006, 1280, 1300, 1360, 1400, 1420, 1436, 1450, 1460, 1472, 1480, 1492, 1500, 4352, 8966];
/// Maximum number of tests at the same time.
const TOGETHER: usize = 8;
/// Maximum number of rounds of tests. The first round finds two neighbouring usual MTUs; the second usually confirms
/// that the lower one is the limit.
const ROUNDS: usize = 4;
/// Time after which no further round begins.
const MAX_TIME: Span = Span::seconds(12);
/// Number of packets of each test.
pub(crate) const PACKETS: u64 = 4;
/// Time between the packets of a test.
pub(crate) const PERIOD: Span = Span::millis(50);

/// A range of lengths: packets of `passes` bytes pass, packets of `fails` bytes do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LengthRange {
    passes: u32,
    fails: u32,
}

impl LengthRange {
    /// Returns the lengths to try in the first round, after a test in which packets of `fails` bytes did not pass. They
    /// include `fails` itself.
    fn first_lengths(fails: u32) -> Vec<u32> {
        let usual = USUAL.iter().copied().filter(|length| *length < fails);
        [fails, SHORT].into_iter().chain(usual).collect()
    }

    /// Returns the lengths to try next; empty if the range cannot become smaller.
    fn next_lengths(self) -> Vec<u32> {
        let between = self.fails.saturating_sub(self.passes + 1);
        let count = between.min(TOGETHER as u32);
        // The shortest first: the lower end is usually exact.
        (0..count).map(|k| self.passes + 1 + k * between / count).collect()
    }

    /// Narrows the range by `results`: each contains a packet length, and true if packets of that length passed.
    /// Returns `None` if none passed.
    fn narrowed(lower: Option<u32>, fails: u32, results: &[(u32, bool)]) -> Option<LengthRange> {
        let passed = results.iter().filter(|(_, passed)| *passed).map(|(length, _)| *length);
        let passes = passed.chain(lower).max()?;
        let failed = results.iter().filter(|(length, passed)| !passed && *length > passes);
        let fails = failed.map(|(length, _)| *length).chain([fails]).min()?;
        (passes < fails).then_some(LengthRange { passes, fails })
    }
}

/// Searches for the largest packet that passes, after the test of `session`, in which nothing arrived. `overhead` is
/// the length of an IP packet without the payload of the test. `passes` runs a test with the payload that it is given.
/// It returns true if any packet arrived, false if none arrived, and `None` if the test could not be run.
pub(crate) fn search(
    session: &Session,
    overhead: u32,
    stop: &Stop,
    passes: &(dyn Fn(u32) -> Option<bool> + Sync),
) -> Option<SizeLimit> {
    let packet = session.ip_length().filter(|length| *length > MIN_SEARCHED)?;
    let until = steady() + MAX_TIME;
    let is_over = || stop.is_requested() || steady() >= until;
    let try_all = |lengths: &[u32]| -> Vec<(u32, bool)> {
        let try_one = |length: u32| Some((length, passes(length.checked_sub(overhead)?)?));
        thread::scope(|scope| {
            let running = lengths.iter().map(|&length| scope.spawn(move || try_one(length)));
            let running: Vec<_> = running.collect();
            running.into_iter().filter_map(|test| test.join().ok().flatten()).collect()
        })
    };
    let mut range = None;
    let mut lengths = LengthRange::first_lengths(packet);
    for _ in 0..ROUNDS {
        for together in lengths.chunks(TOGETHER) {
            if is_over() {
                break;
            }
            let (lower, fails) = range.map_or((None, packet), |r: LengthRange| (Some(r.passes), r.fails));
            if together.iter().all(|length| *length >= fails) && range.is_some() {
                break;
            }
            let results = try_all(together);
            if stop.is_requested() {
                // Packets of interrupted tests did not fail because of their length.
                return None;
            }
            // If the long packets pass now, the reason was an outage that is over.
            if range.is_none() && !results.contains(&(packet, false)) {
                return None;
            }
            range = LengthRange::narrowed(lower, fails, &results).or(range);
            // If not even short packets pass, length is not the reason.
            range?;
        }
        lengths = range?.next_lengths();
        if lengths.is_empty() || is_over() {
            break;
        }
    }
    let LengthRange { passes, fails } = range?;
    Some(SizeLimit { packet, passes, fails, payload: passes.saturating_sub(overhead) })
}

/// Observer of a short test: counts arrivals, and ends the test once its packets should have arrived.
#[derive(Debug)]
pub(crate) struct ShortTest<'a> {
    started: Option<SteadyTime>,
    stop: Stop,
    user: &'a Stop,
    limit: Option<Span>,
    /// Number of packets that arrived.
    pub arrived: u64,
}

impl ShortTest<'_> {
    /// Creates the observer of a test that can be ended through `stop`. The observer ends the test if `user` is
    /// requested, or when `limit` has passed since its start; `None`: the test ends without a limit.
    pub fn new(stop: Stop, user: &Stop, limit: Option<Span>) -> ShortTest<'_> {
        ShortTest { started: None, stop, user, limit, arrived: 0 }
    }
}

impl Observer for ShortTest<'_> {
    fn event(&mut self, event: &Event<'_>) {
        // Each short test clears its own request while it ends, so that they cannot share the user's.
        if self.user.is_requested() {
            self.stop.request();
        }
        match event {
            Event::Started(_) => self.started = Some(steady()),
            Event::Records { records, .. } => self.arrived += records.len() as u64,
            Event::Progress(_) => {
                if let Some((started, limit)) = self.started.zip(self.limit)
                    && steady() - started > limit
                {
                    self.started = None;
                    self.stop.request();
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::{Direction, Schedule, TestSpec, Transport};
    use std::sync::Mutex;

    /// Searches on a path with this MTU for a test with `payload` bytes over UDP and IPv4. Also returns the number of
    /// tests.
    fn found(payload: u64, mtu: u32) -> (Option<SizeLimit>, usize) {
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 10, payload, PERIOD, Schedule::Periodic);
        let tried = Mutex::new(Vec::new());
        let passes = |payload: u32| {
            tried.lock().unwrap().push(payload);
            Some(payload + 28 <= mtu)
        };
        let found = search(&Session::new(spec.unwrap()), 28, &Stop::new(), &passes);
        (found, tried.into_inner().unwrap().len())
    }

    #[test]
    fn the_largest_packet_that_passes_is_found() {
        for mtu in [1280, 1400, 1427, 1006, 576, 1290, 1299, 700, 250] {
            let (limit, tests) = found(1400, mtu);
            let payload = mtu - 28;
            assert_eq!(limit, Some(SizeLimit { packet: 1428, passes: mtu, fails: mtu + 1, payload }));
            assert!(tests <= 40, "{tests} tests for {mtu}");
        }
        assert_eq!(found(1472, 1499).0.map(|limit| limit.passes), Some(1499));
    }

    #[test]
    fn a_path_that_carries_no_packets_has_no_limit() {
        assert_eq!(found(1400, 100), (None, TOGETHER));
        assert_eq!(found(1400, 1500), (None, TOGETHER), "an outage that is over");
        assert_eq!(found(500, 400), (None, 0), "every link carries these");
    }

    #[test]
    fn tests_that_fail_prove_nothing() {
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 10, 1400, PERIOD, Schedule::Periodic);
        let session = Session::new(spec.unwrap());
        assert_eq!(search(&session, 28, &Stop::new(), &|_| None), None);
        let limit =
            search(&session, 28, &Stop::new(), &|payload| (payload != 1253).then_some(payload <= 1252));
        assert_eq!(limit.map(|l| (l.passes, l.fails)), Some((1280, 1282)), "1281 could not be tried");
        let stopped = Stop::new();
        stopped.request();
        assert_eq!(search(&session, 28, &stopped, &|_| Some(true)), None);
    }
}
