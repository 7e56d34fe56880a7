//! Analysis of simulated paths, compared with the actual impairments. The tables are snapshots, so that any
//! change of behaviour is a readable difference; `cargo insta review` accepts an intended one.

use super::*;
use jitlat_core::analysis::{Options, analyze};
use jitlat_core::distribution::percentile::Percent;
use jitlat_core::spec::{Direction, Schedule, Transport};
use jitlat_core::summary::Summary;
use jitlat_core::units::eng4;
use jitlat_impair::Scenario;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const UP: Direction = Direction::Up;
const DOWN: Direction = Direction::Down;

/// A row: a name, a path in the syntax of scenario files, and other parameters.
struct Case {
    path: &'static str,
    direction: Direction,
    transport: Transport,
    packets: u64,
    period: Span,
    clocks: [SimClock; 2],
}

impl Case {
    fn new(direction: Direction, path: &'static str) -> Case {
        let period = Span::millis(20);
        Case { path, direction, transport: Transport::Udp, packets: 1000, period, clocks: Default::default() }
    }

    fn run(&self) -> (SimOutcome, Summary) {
        let scenario: Scenario = format!("seed = 7\n[both]\n{}", self.path).parse().unwrap();
        let periodic = Schedule::Periodic;
        let spec =
            TestSpec::new(self.direction, self.transport, self.packets, 80, self.period, periodic).unwrap();
        let mut world = SimWorld::new(spec);
        world.seed = scenario.seed;
        (world.up, world.down) = (scenario.up, scenario.down);
        [world.client_clock, world.server_clock] = self.clocks;
        let out = world.run();
        assert!(!out.hung, "{}", self.path);
        let summary = analyze(&out.sessions[0], out.records[0].iter().copied(), &Options::default());
        (out, summary)
    }

    /// Returns the actual impairments of the stream.
    fn truth<'a>(&self, out: &'a SimOutcome) -> &'a PathTally {
        if self.direction == UP { &out.up } else { &out.down }
    }
}

fn histogram(h: &BTreeMap<u64, u64>) -> String {
    let bars: Vec<String> = h.iter().take(8).map(|(length, count)| format!("{length}×{count}")).collect();
    if bars.is_empty() { "–".into() } else { bars.join(" ") }
}

fn eng(v: Option<i64>) -> String {
    v.map_or("–".into(), eng4)
}

#[test]
fn known_impairments_come_out_as_they_are() {
    let cases = [
        Case::new(UP, "delay = 20ms"),
        Case::new(UP, "delay = 20ms\nloss = 2%"),
        Case::new(DOWN, "delay = 20ms\nloss = 2%"),
        Case::new(UP, "delay = 20ms\nloss = gilbert p=1% r=30%"),
        Case::new(DOWN, "delay = 20ms\nloss = gilbert p=1% r=30%"),
        Case::new(UP, "delay = 20ms\nloss = runs 1x10 2x5 7 gap 20"),
        Case::new(DOWN, "delay = 20ms\nloss = runs 1x10 2x5 7 gap 20"),
        Case::new(UP, "delay = 20ms\nduplicate = 1% copies 1 after 1ms"),
        Case::new(UP, "delay = 20ms\nduplicate = at 10-12 50 copies 2 after 1ms"),
        Case::new(UP, "delay = 20ms\nreorder = at 40 80 120 by 50ms"),
        Case::new(DOWN, "delay = 20ms\nreorder = 1% by 30ms"),
        Case::new(UP, "delay = 20ms\njitter = exponential 2ms in order"),
        Case::new(UP, "delay = 20ms\njitter = uniform 30ms"),
        Case::new(UP, "delay = 20ms\nrate = 40kbit queue 2kB"),
        Case::new(UP, "delay = 20ms\noutage = from 2s for 300ms"),
        Case::new(UP, "delay = 20ms\nloss = 100%"),
    ];
    let mut table = format!(
        "{:<45} {:>4} {:>5} {:>5} {:>4} {:>4} {:<16} {:<16} {:>9} {:>9} {:>9}\n",
        "path", "", "lost", "truth", "dup", "oos", "loss runs", "duplicate runs", "min", "median", "pdv 99 %"
    );
    for case in &cases {
        let (out, s) = case.run();
        let truth = case.truth(&out);
        assert_eq!(s.counts.lost, truth.not_delivered(), "{}", case.path);
        assert_eq!(s.counts.duplicate, truth.copies, "{}", case.path);
        // Every loss is found, burst by burst.
        assert_eq!(s.loss.run_length_hist, truth.loss_runs(), "{}", case.path);
        let direction = if case.direction == UP { "up" } else { "down" };
        writeln!(
            table,
            "{:<45} {direction:>4} {:>5} {:>5} {:>4} {:>4} {:<16} {:<16} {:>9} {:>9} {:>9}",
            case.path.replace("delay = 20ms\n", "").replace("delay = 20ms", "only delay"),
            s.counts.lost,
            truth.not_delivered(),
            s.counts.duplicate,
            s.counts.out_of_sequence,
            histogram(&s.loss.run_length_hist),
            histogram(&s.duplicates.run_length_hist),
            eng(s.latency.min),
            eng(s.latency.median.map(|m| m as i64)),
            eng(s.pdv.percentiles.at(Percent(99_000))),
        )
        .unwrap();
    }
    insta::assert_snapshot!("impairments", table);
}

#[test]
fn wrong_clocks_are_found_out_in_both_directions() {
    let clock = |offset: i64, skew_ppb: i64| SimClock { offset: Span(offset), skew_ppb };
    let far = 31_340_420_000;
    let clocks = [
        [clock(0, 0), clock(0, 0)],
        [clock(0, 0), clock(far, 0)],
        [clock(far, 0), clock(0, 0)],
        [clock(0, 120_000), clock(0, 0)],
        [clock(0, 0), clock(0, 120_000)],
        [clock(far, -60_000), clock(0, 60_000)],
    ];
    let mut table = format!(
        "{:<34} {:<34} {:>4} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9}\n",
        "client", "server", "", "raw min", "corrected", "θ", "true θ", "skew ppm", "RTT"
    );
    let show = |c: SimClock| format!("{:+.6} s {:+} ppm", c.offset.as_seconds(), c.skew_ppb / 1000);
    for clocks in clocks {
        for direction in [UP, DOWN] {
            let mut case = Case::new(direction, "delay = 1613ms\njitter = exponential 100us in order");
            case.clocks = clocks;
            let (out, s) = case.run();
            let [client, server] = clocks;
            // Clock offset at the start of the stream, as accurate as drifting clocks allow: the best probe
            // may be after the stream, up to 50 s later.
            let truth = (server.offset - client.offset).0;
            let drift = (server.skew_ppb - client.skew_ppb).abs() * 50;
            let theta = s.clock.offset_ns.unwrap();
            assert!((theta - truth).abs() < drift + 1_000_000, "θ {theta}, true {truth}");
            let corrected = s.latency_corrected.as_ref().unwrap();
            let least = corrected.min.unwrap();
            assert!((least - 1_613_000_000).abs() < drift + 1_000_000, "{least}");
            let sign = if direction == UP { 1.0 } else { -1.0 };
            let skew = sign * (server.skew_ppb - client.skew_ppb) as f64 / 1000.0;
            let found = s.skew_hull.as_ref().map_or(f64::NAN, |h| h.alpha_ppm);
            assert!((found - skew).abs() < 3.0, "{found} ppm, true {skew}");
            assert_eq!(out.records[0].len(), 1000);
            writeln!(
                table,
                "{:<34} {:<34} {:>4} {:>10} {:>10} {:>10} {:>10} {found:>9.1} {:>9}",
                show(client),
                show(server),
                if direction == UP { "up" } else { "down" },
                eng(s.latency.min),
                eng(corrected.min),
                eng(Some(theta)),
                eng(Some(truth)),
                eng(s.clock.min_rtt_ns),
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!("clocks", table);
}

/// Like Examples 2 and 3 of DRDC TM 2011-047: over TCP on a long path with a narrow link, a stream waits for lost
/// segments, but arrives in order.
#[test]
fn tcp_hides_loss_and_shows_delay() {
    let mut table =
        format!("{:<40} {:>5} {:>5} {:>9} {:>9} {:>9}\n", "path", "sent", "lost", "min", "median", "max");
    for path in ["delay = 100ms", "delay = 100ms\nloss = 1%", "delay = 100ms\nloss = runs 3 gap 100"] {
        let mut case = Case::new(UP, path);
        case.transport = Transport::Tcp;
        let (out, s) = case.run();
        assert_eq!((s.counts.lost, s.counts.out_of_sequence), (0, 0));
        assert!(out.up.not_delivered() > 0 || path == "delay = 100ms");
        let (min, median) = (eng(s.latency.min), eng(s.latency.median.map(|m| m as i64)));
        let name = path.replace('\n', ", ");
        writeln!(
            table,
            "{name:<40} {:>5} {:>5} {min:>9} {median:>9} {:>9}",
            s.counts.sent,
            s.counts.lost,
            eng(s.latency.max)
        )
        .unwrap();
    }
    insta::assert_snapshot!("tcp", table);
}

#[test]
fn both_directions_at_once_do_not_disturb_each_other() {
    let scenario: Scenario =
        "[up]\ndelay = 10ms\nloss = 5%\n[down]\ndelay = 40ms\nreorder = 2% by 50ms".parse().unwrap();
    let spec = |d| TestSpec::new(d, Transport::Udp, 2000, 160, Span::millis(10), Schedule::Periodic).unwrap();
    let mut world = SimWorld::new(spec(UP));
    world.flows.push(spec(DOWN));
    (world.up, world.down) = (scenario.up, scenario.down);
    let out = world.run();
    let summaries: Vec<Summary> = out
        .sessions
        .iter()
        .zip(&out.records)
        .map(|(session, records)| analyze(session, records.iter().copied(), &Options::default()))
        .collect();
    assert_eq!(summaries[0].counts.lost, out.up.not_delivered());
    assert_eq!((summaries[1].counts.lost, summaries[1].counts.duplicate), (0, 0));
    assert!(summaries[1].counts.out_of_sequence > 20 && summaries[0].counts.out_of_sequence == 0);
    assert_eq!(summaries[0].latency.min, Some(10_000_000 - SEND_LAG.0));
    assert_eq!(summaries[1].latency.min, Some(40_000_000 - SEND_LAG.0));
}

/// Paths that are also used by the emulators in the kernel tests.
#[test]
fn the_shared_scenarios() {
    let mut table = format!(
        "{:<20} {:>4} {:>5} {:>5} {:>4} {:>4} {:>5} {:<24} {:>9} {:>9} {:>9}\n",
        "scenario", "", "sent", "lost", "dup", "oos", "worst", "loss runs", "min", "pdv 99 %", "pdv max"
    );
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    files.sort();
    for file in files {
        let scenario: Scenario = std::fs::read_to_string(&file).unwrap().parse().unwrap();
        for direction in [UP, DOWN] {
            let periodic = Schedule::Periodic;
            let spec =
                TestSpec::new(direction, Transport::Udp, 1000, 80, Span::millis(20), periodic).unwrap();
            let mut world = SimWorld::new(spec);
            world.seed = scenario.seed;
            (world.up, world.down) = (scenario.up.clone(), scenario.down.clone());
            let out = world.run();
            assert!(!out.hung && out.client.is_ok(), "{}: {:?}", file.display(), out.client);
            let s = analyze(&out.sessions[0], out.records[0].iter().copied(), &Options::default());
            let truth = if direction == UP { &out.up } else { &out.down };
            assert_eq!(s.loss.run_length_hist, truth.loss_runs(), "{}", file.display());
            writeln!(
                table,
                "{:<20} {:>4} {:>5} {:>5} {:>4} {:>4} {:>5} {:<24} {:>9} {:>9} {:>9}",
                file.file_stem().unwrap().to_string_lossy(),
                if direction == UP { "up" } else { "down" },
                s.counts.sent,
                s.counts.lost,
                s.counts.duplicate,
                s.counts.out_of_sequence,
                s.loss.run_length_hist.keys().last().copied().unwrap_or(0),
                histogram(&s.loss.run_length_hist),
                eng(s.latency.min),
                eng(s.pdv.percentiles.at(Percent(99_000))),
                eng(s.pdv.max),
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!("scenarios", table);
}
