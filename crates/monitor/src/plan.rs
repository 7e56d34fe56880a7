//! [`MonitorPlan`]: consequences of the file for each host: tests, traffic, load, disk.

use crate::model::{Model, MonitoredTest, Traffic};
use crate::timetable::{Scheduled, Timetable};
use crate::window::DAY;
use serde::Serialize;

/// Bytes per packet in the packet files of finished days, with stamps of the kernel: 7.6 (round trips) to 10.2 (one way)
/// bytes were measured over loopback.
const BYTES_OF_PACKET: f64 = 9.5;
/// Bytes per captured packet, which has fewer columns: docs/guide/cluster.md measured 4.0 to 5.3 bytes, rounded up.
const BYTES_OF_CAPTURED_PACKET: f64 = 6.0;
/// Bytes per test of round trips in an archive, except those that depend on the number of packets, at 12 tests per hour
/// (`benches/day.py`). With fewer tests per hour, each has a larger share of the bytes for the figures of the hour.
const BYTES_OF_TEST: f64 = 1_600.0;
/// The same per one-way test and direction: the header of its log has 16 probes of the clocks, in the catalogue and in the packet file.
const BYTES_OF_ONE_WAY_TEST: f64 = 2_850.0;
/// Bytes per packet of a test's distributions in the catalogue.
const BYTES_OF_POOLED_PACKET: f64 = 3.0;
/// Number of packets above which the distributions hardly grow.
const MAX_POOLED_PACKETS: f64 = 2_000.0;

/// Bytes sent to a collector per packet, as measured by the bench `ingest` and rounded up.
const BYTES_OF_PUSHED_PACKET: f64 = 20.0;
/// Bytes sent to a collector per test, without its packets; measured and rounded in the same way.
const BYTES_OF_PUSH: f64 = 1_500.0;

/// Consequences of the file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorPlan {
    /// Version of this document.
    pub version: u32,
    /// Tests, in the order of the file.
    pub tests: Vec<TestPlan>,
    /// Captures, in the order of the file.
    pub captures: Vec<CapturePlan>,
    /// Hosts, in the order of the file.
    pub hosts: Vec<HostPlan>,
    /// Descriptions of tests that the timetable cannot run as often as the file requests.
    pub shortfalls: Vec<String>,
}

/// Plan of a test.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestPlan {
    /// Name of the test.
    pub name: String,
    /// Name of the instrument.
    pub instrument: String,
    /// Number of pairs.
    pub pairs: usize,
    /// Number of rounds in which the pairs are tested.
    pub rounds: usize,
    /// Length of a slot, with guard, in s.
    pub slot_s: f64,
    /// Requested time between two tests of a pair, in s.
    pub every_s: f64,
    /// Actual average time between two tests of a pair, in s; null: the test never runs.
    pub between_s: Option<f64>,
    /// Number of tests per day, over all pairs.
    pub tests_a_day: f64,
}

/// Plan of a capture on each host that captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturePlan {
    /// Name of the capture.
    pub name: String,
    /// Name of the instrument.
    pub instrument: String,
    /// Names of the hosts that capture.
    pub hosts: Vec<String>,
    /// Name of the interface.
    pub interface: String,
    /// Name of the far end: a host, or an interface.
    pub far: String,
    /// Interface of the second point; null: no second point.
    pub far_interface: Option<String>,
    /// Length of a period, in s.
    pub every_s: f64,
    /// Number of results per day on each host that captures; with two points, one per direction and period.
    pub results_a_day: f64,
    /// Growth of the archive in bytes per captured packet; the number of packets is not known in advance.
    pub archive_bytes_a_packet: f64,
}

/// Plan of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostPlan {
    /// Name of the host.
    pub name: String,
    /// Number of tests per day that the host starts and stores.
    pub started_a_day: f64,
    /// Number of tests per day that the host answers.
    pub answered_a_day: f64,
    /// Bytes per day that the host sends, on the wire.
    pub bytes_out_a_day: f64,
    /// Bytes per day that the host receives, on the wire.
    pub bytes_in_a_day: f64,
    /// Highest sending rate, in bit/s.
    pub peak_out_bits: u64,
    /// Highest receiving rate, in bit/s.
    pub peak_in_bits: u64,
    /// Approximate growth of the host's archive in bytes per day: includes collected tests, excludes captured packets.
    pub archive_bytes_a_day: f64,
    /// Approximate bytes per day that the host pushes to collectors.
    pub pushed_bytes_a_day: f64,
    /// Number of tests per day that other hosts push to this host.
    pub collected_a_day: f64,
    /// Number of tests whose packets are being sent, averaged over time; can exceed 1, because tests can run at the
    /// same time.
    pub load: f64,
}

/// Totals of one host over all rounds of a test.
#[derive(Clone, Copy, Default)]
struct HostShare {
    started: u64,
    answered: u64,
    first: u64,
    second: u64,
}

impl MonitorPlan {
    /// Creates the plan of a model and its timetable.
    pub fn new(model: &Model, timetable: &Timetable) -> MonitorPlan {
        let mut hosts: Vec<HostPlan> =
            model.hosts.iter().map(|h| HostPlan { name: h.name.clone(), ..HostPlan::default() }).collect();
        let mut pushed = vec![0.0; hosts.len()];
        let mut rates: Vec<Vec<(u64, u64)>> = Vec::new();
        let mut tests = Vec::new();
        for (test, scheduled) in model.tests.iter().zip(&timetable.tests) {
            let a_day = rounds_a_day(scheduled);
            // Number of tests per day of each pair.
            let times = a_day / scheduled.rounds.len().max(1) as f64;
            for ((host, pushed), part) in hosts.iter_mut().zip(&mut pushed).zip(parts(model, test)) {
                host.add(test, part, times);
                *pushed += part.started as f64
                    * times
                    * (BYTES_OF_PUSH + BYTES_OF_PUSHED_PACKET * test.traffic.recorded as f64);
            }
            let ends = model.hosts.len() + test.pairs.targets.len();
            rates.push(most_rates(test, scheduled, ends));
            tests.push(TestPlan {
                name: test.name.clone(),
                instrument: test.work.instrument.clone(),
                pairs: test.pairs.list.len(),
                rounds: scheduled.rounds.len(),
                slot_s: (scheduled.slot + model.guard).as_seconds(),
                every_s: test.every.as_seconds(),
                between_s: (times > 0.0).then(|| DAY as f64 / 1e9 / times),
                tests_a_day: times * test.pairs.list.len() as f64,
            });
        }
        let captures = model.captures.iter().map(|capture| {
            let results_a_day =
                f64::from(1 + u8::from(capture.two_points)) * DAY as f64 / capture.every.0.max(1) as f64;
            for host in &capture.hosts {
                hosts[*host as usize].archive_bytes_a_day += results_a_day * BYTES_OF_TEST;
            }
            CapturePlan {
                name: capture.name.clone(),
                instrument: capture.instrument.clone(),
                hosts: capture.hosts.iter().map(|host| model.hosts[*host as usize].name.clone()).collect(),
                interface: capture.interface.clone(),
                far: capture.far(&model.hosts).to_owned(),
                far_interface: capture.far_interface.clone(),
                every_s: capture.every.as_seconds(),
                results_a_day,
                archive_bytes_a_packet: BYTES_OF_CAPTURED_PACKET,
            }
        });
        let captures = captures.collect();
        // A collector receives the tests that the other hosts start, not those that they collect.
        let own: Vec<(f64, f64)> = hosts.iter().map(|h| (h.started_a_day, h.archive_bytes_a_day)).collect();
        for collector in &model.collectors {
            for k in &collector.from {
                hosts[*k].pushed_bytes_a_day += pushed[*k];
                hosts[collector.host].collected_a_day += own[*k].0;
                hosts[collector.host].archive_bytes_a_day += own[*k].1;
            }
        }
        for set in &timetable.together {
            for (k, host) in hosts.iter_mut().enumerate() {
                let sum = set.iter().map(|t| rates[*t][k]).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
                host.peak_out_bits = host.peak_out_bits.max(sum.0);
                host.peak_in_bits = host.peak_in_bits.max(sum.1);
            }
        }
        MonitorPlan { version: 1, tests, captures, hosts, shortfalls: timetable.shortfalls(model) }
    }
}

impl HostPlan {
    fn add(&mut self, test: &MonitoredTest, part: HostShare, times: f64) {
        let (forward, backward) = (test.traffic.forward.bytes as f64, test.traffic.backward.bytes as f64);
        let (first, second) = (part.first as f64 * times, part.second as f64 * times);
        self.started_a_day += part.started as f64 * times;
        self.answered_a_day += part.answered as f64 * times;
        self.bytes_out_a_day += first * forward + second * backward;
        self.bytes_in_a_day += first * backward + second * forward;
        // The archive stores each recorded direction as a separate test.
        let Traffic { forward: there, backward: back, recorded, .. } = test.traffic;
        let results = if recorded > there.packets.max(back.packets) { 2.0 } else { 1.0 };
        let packets = recorded as f64;
        let pooled = (packets / results).min(MAX_POOLED_PACKETS) * results;
        let is_round_trip = results < 2.0 && there.packets > 0 && back.packets > 0;
        let own = if is_round_trip { BYTES_OF_TEST } else { BYTES_OF_ONE_WAY_TEST };
        let bytes = results * own + BYTES_OF_POOLED_PACKET * pooled + BYTES_OF_PACKET * packets;
        self.archive_bytes_a_day += part.started as f64 * times * bytes;
        self.load += (first + second) * test.traffic.duration.0 as f64 / DAY as f64;
    }
}

/// Returns the average number of slots of a test per day.
fn rounds_a_day(scheduled: &Scheduled) -> f64 {
    scheduled.slots_per_cycle() as f64 * DAY as f64 / scheduled.cycle.0.max(1) as f64
}

fn parts(model: &Model, test: &MonitoredTest) -> Vec<HostShare> {
    let mut parts = vec![HostShare::default(); model.hosts.len() + test.pairs.targets.len()];
    for pair in &test.pairs.list {
        parts[pair.first as usize].first += 1;
        parts[pair.second as usize].second += 1;
        parts[pair.client() as usize].started += 1;
        parts[pair.server() as usize].answered += 1;
    }
    parts.truncate(model.hosts.len());
    parts
}

/// Returns, for each end, the highest sending and receiving rate in any round of a test, in bit/s.
fn most_rates(test: &MonitoredTest, scheduled: &Scheduled, ends: usize) -> Vec<(u64, u64)> {
    let (mut most, mut now) = (vec![(0, 0); ends], vec![(0u64, 0u64); ends]);
    let (forward, backward) = (test.traffic.forward.rate, test.traffic.backward.rate);
    for k in 0..scheduled.rounds.len() {
        for pair in scheduled.rounds.round(k) {
            for (end, out, back) in [(pair.first, forward, backward), (pair.second, backward, forward)] {
                let (now, most) = (&mut now[end as usize], &mut most[end as usize]);
                *now = (now.0 + out, now.1 + back);
                *most = (now.0.max(most.0), now.1.max(most.1));
            }
        }
        for pair in scheduled.rounds.round(k) {
            (now[pair.first as usize], now[pair.second as usize]) = ((0, 0), (0, 0));
        }
    }
    most
}
