//! Measures the speed of the analysis of recorded packets, against a plain baseline in the same run: sorting the
//! delays and computing their mean and standard deviation in doubles.
//!
//! `cargo run --release -p jitlat-benches --bin analysis [PACKETS] [ONLY]`: ONLY is a part of the names of the
//! measured cases, for profiling one of them.

use jitlat_core::metrics::classify::AcceptedPacket;
use jitlat_core::metrics::moments::{CoMoments, Moments};
use jitlat_core::metrics::periods::PacketExtent;
use jitlat_core::metrics::reorder::ReorderCounter;
use jitlat_core::metrics::{OnePass, mapdv2::Mapdv2, rfc3550};
use jitlat_core::{
    Analyzer, Direction, Options, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime,
};
use jitlat_store::threads::Threads;
use std::hint::black_box;
use std::num::NonZero;
use std::time::{Duration, Instant};

const PERIOD: i64 = 1_000_000;

fn main() {
    let packets = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10_000_000usize);
    let only = std::env::args().nth(2).unwrap_or_default();
    println!("{packets} packets, one core, processor time, best of 3");
    let all = jitlat_verdict::options();
    let windows = Options { interval: Some(Span::seconds(1)), ..jitlat_verdict::options() };
    let streaming = Options { streaming: true, ..jitlat_verdict::options() };
    for (name, path) in [("clean", Path::CLEAN), ("impaired", Path::IMPAIRED)] {
        let records = path.records(packets);
        println!("\n{name}: {} rows", records.len());
        let measured: [(&str, &dyn Fn()); 5] = [
            ("sort + mean + deviation (baseline)", &|| baseline(&records)),
            ("one-pass metrics together", &|| one_pass(&records)),
            ("analysis, everything exact", &|| analysis(&records, packets, &all, Threads::ONE)),
            ("analysis, exact, windows of 1 s too", &|| analysis(&records, packets, &windows, Threads::ONE)),
            ("analysis, streaming", &|| analysis(&records, packets, &streaming, Threads::ONE)),
        ];
        let mut sorted = None;
        for (what, run) in measured {
            if !format!("{name} {what}").contains(&only) {
                continue;
            }
            let took = best(run);
            report(what, records.len(), took, *sorted.get_or_insert(took));
        }
        for (what, options) in [("everything exact", &all), ("exact, windows of 1 s too", &windows)] {
            let what = format!("{what}, two threads");
            if format!("{name} {what}").contains(&only) {
                on_two(&what, &records, packets, options);
            }
        }
    }
}

/// Prints one line: wall-clock times with one thread and with two alternately, the best of five each.
fn on_two(what: &str, records: &[PacketRecord], packets: usize, options: &Options) {
    let passed = |threads| {
        let started = Instant::now();
        analysis(records, packets, options, threads);
        started.elapsed()
    };
    let two = Threads(NonZero::<usize>::MIN.saturating_add(1));
    let [one, two] = (0..5).fold([Duration::MAX; 2], |[least_one, least_two], _| {
        [least_one.min(passed(Threads::ONE)), least_two.min(passed(two))]
    });
    let rate = records.len() as f64 / two.as_secs_f64() / 1e6;
    let faster = one.as_secs_f64() / two.as_secs_f64();
    println!("{what:36} {rate:7.2} M packets/s by the clock, {faster:.2} × as fast as one thread");
}

/// Prints one line; `baseline` is the time of the first measured line.
fn report(what: &str, rows: usize, took: Duration, baseline: Duration) {
    let rate = rows as f64 / took.as_secs_f64() / 1e6;
    let each = took.as_nanos() as f64 / rows as f64;
    let ratio = took.as_secs_f64() / baseline.as_secs_f64();
    println!("{what:36} {rate:7.2} M packets/s  {each:6.1} ns each  {ratio:5.2} × baseline");
}

fn best(run: &dyn Fn()) -> Duration {
    (0..3)
        .map(|_| {
            let (start, started) = (Instant::now(), processor_time());
            run();
            match (started, processor_time()) {
                (Some(before), Some(after)) => after.saturating_sub(before),
                _ => start.elapsed(),
            }
        })
        .min()
        .unwrap_or_default()
}

/// Processor time of this thread, independent of other load. Linux only.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn baseline(records: &[PacketRecord]) {
    let mut delays: Vec<i64> = records.iter().filter_map(|r| Some(r.delay()?.0)).collect();
    delays.sort_unstable();
    let n = delays.len() as f64;
    let mean = delays.iter().map(|d| *d as f64).sum::<f64>() / n;
    let variance = delays.iter().map(|d| (*d as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0);
    black_box((delays[delays.len() / 2], mean, variance.sqrt()));
}

fn one_pass(records: &[PacketRecord]) {
    let (mut moments, mut sums, mut extent) =
        (Moments::default(), CoMoments::default(), PacketExtent::default());
    let (mut jitter, mut mapdv2) = (rfc3550::JitterEstimator::default(), Mapdv2::default());
    let mut overtaking = ReorderCounter::default();
    for record in records {
        let (Some(sent), Some(delay)) = (record.sent(), record.delay()) else { continue };
        let packet = AcceptedPacket { seq: record.seq as u32, sent: sent.0, delay: delay.0 };
        moments.push(&packet);
        sums.push(&packet);
        extent.push(&packet);
        jitter.push(&packet);
        mapdv2.push(&packet);
        overtaking.push(&packet);
    }
    black_box((
        moments,
        sums.output(),
        extent.output(),
        jitter.output(),
        mapdv2.output(),
        overtaking.output(),
    ));
}

fn analysis(records: &[PacketRecord], packets: usize, options: &Options, threads: Threads) {
    let spec =
        TestSpec::new(Direction::Up, Transport::Udp, packets as u64, 80, Span(PERIOD), Schedule::Periodic);
    let Ok(spec) = spec else { return };
    let session = Session { sent: Some(packets as u32), ..Session::new(spec) };
    let mut analyzer = Analyzer::new(&session, options);
    analyzer.push_all(records);
    black_box(if threads == Threads::ONE {
        analyzer.finish(&session)
    } else {
        analyzer.finish_with_helpers(&session, &threads).0
    });
}

/// Impairments of a path, per thousand packets.
struct Path {
    /// Number of loss bursts (of about 4 packets) that begin.
    losses: u64,
    /// Number of packets that arrive after one to three later packets.
    late: u64,
    /// Number of packets that arrive twice.
    copies: u64,
}

impl Path {
    const CLEAN: Path = Path { losses: 0, late: 0, copies: 0 };
    const IMPAIRED: Path = Path { losses: 3, late: 5, copies: 2 };

    fn records(&self, packets: usize) -> Vec<PacketRecord> {
        let mut state = 42u64;
        let mut draw = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let mut records = Vec::with_capacity(packets + packets / 100);
        let (mut lost, mut queue) = (0, 0i64);
        for seq in 0..packets as i64 {
            let chance = draw() % 1000;
            if lost == 0 && chance < self.losses {
                lost = 1 + draw() % 7;
            }
            // A queue that fills now and then and drains, plus a little noise.
            queue = (queue + if draw() % 500 == 0 { (draw() % 40_000_000) as i64 } else { -200_000 }).max(0);
            if lost > 0 {
                lost -= 1;
                continue;
            }
            let sent = 1_700_000_000_000_000_000 + seq * PERIOD + (draw() % 5_000) as i64;
            let delay = 10_000_000 + queue + (draw() % 300_000) as i64;
            let record = PacketRecord::one_way(seq, WallTime(sent), WallTime(sent + delay));
            records.push(record);
            if chance < self.copies {
                records.push(record);
            }
        }
        for k in 0..records.len().saturating_sub(3) {
            if draw() % 1000 < self.late {
                records[k..=k + 1 + (draw() % 3) as usize].rotate_left(1);
            }
        }
        records
    }
}
