#![allow(dead_code, reason = "each test uses a part")]
//! Runs for tests and pictures: the golden logs, and simulated streams of any size.

use jitlat_core::analysis::{Analyzer, Samples};
use jitlat_core::interface::{InterfaceHistory, InterfaceSample};
use jitlat_core::record::{Flags, PacketRecord};
use jitlat_core::session::{Ending, Session};
use jitlat_core::spec::{Direction, Schedule, TestSpec, Transport};
use jitlat_core::summary::Summary;
use jitlat_core::time::{Span, WallTime};
use jitlat_report::figure::{self, ComparedRun, DrawnRun, Figure, Trace};

/// A run with everything that a report can show.
pub struct Measured {
    pub session: Session,
    pub summary: Summary,
    pub trace: Trace,
    pub samples: Samples,
}

impl Measured {
    pub fn new(session: Session, records: impl IntoIterator<Item = PacketRecord>) -> Measured {
        let mut analyzer = Analyzer::new(&session, &jitlat_verdict::options());
        for record in records {
            analyzer.push(&record);
        }
        let (summary, samples) = analyzer.finish_with_samples(&session);
        let without = summary.answer.as_ref().and_then(|answer| answer.without_clock_step.as_ref());
        let trace = Trace::of(&session, &samples).without_steps(&samples, without);
        Measured { session, summary, trace, samples }
    }
}

/// Reads a log of `testdata/`.
pub fn golden(name: &str) -> Measured {
    let path = format!("{}/../../testdata/{name}.log", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let header = |key: &str| {
        text.lines().find_map(|l| {
            l.strip_prefix("# ")?
                .strip_prefix(key)?
                .trim()
                .strip_prefix('=')
                .or(l.strip_prefix("# ")?.strip_prefix(key))
        })
    };
    let number = |key: &str| header(key).unwrap().trim().parse::<i64>().unwrap();
    let spec = TestSpec::new(
        Direction::Up,
        Transport::from_number(number("proto") as u32).unwrap(),
        number("npkts") as u64,
        number("pktlen") as u64,
        Span(number("period ")),
        Schedule::Periodic,
    );
    let mut session = Session::new(spec.unwrap());
    session.version = 1;
    let date = |line: &&str| line.contains(" UTC ") && !line.contains('=');
    session.date = text.lines().map(|line| line.trim_start_matches(['#', ' '])).find(date).map(str::to_owned);
    session.src = header("src_ip").unwrap().trim().parse().ok();
    session.dst = header("dst_ip").unwrap().trim().parse().ok();
    session.direction_known = false;
    session.classic_offset = header("Estimated relative clock error").map(span);
    session.classic_rtt = header("Estimated control channel minimum RTT").map(span);
    let records = text.lines().filter(|l| !l.starts_with('#')).map(|line| {
        let v: Vec<i64> = line.split_whitespace().map(|f| f.parse().unwrap()).collect();
        let mut record = PacketRecord::one_way(v[2], WallTime(v[1]), WallTime(v[3]));
        record.flags = Flags::from_classic(v[4] as i32);
        record
    });
    Measured::new(session, records)
}

fn span(text: &str) -> Span {
    let mut fields = text.trim().trim_start_matches('=').split_whitespace();
    let value: f64 = fields.next().unwrap().parse().unwrap();
    let unit = match fields.next() {
        Some("s") => 1e9,
        Some("ms") => 1e6,
        _ => 1e3,
    };
    Span((value * unit).round() as i64)
}

/// Returns a source of uniform numbers from 0 to 1, the same in every run.
fn uniform() -> impl FnMut() -> f64 {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Simulates `n` packets every 20 ms over a path that queues, stalls every 900 packets and loses in bursts.
pub fn made_up(n: u64) -> Measured {
    let period = 20_000_000;
    let spec =
        TestSpec::new(Direction::Up, Transport::Udp, n, 160, Span(period), Schedule::Periodic).unwrap();
    let mut session = Session::new(spec);
    let mut uniform = uniform();
    let mut bad = false;
    let records = (0..n as i64).filter_map(move |seq| {
        let (a, b, c) = (uniform(), uniform(), uniform());
        bad = if bad { a > 0.3 } else { a > 0.998 };
        if bad && b < 0.8 {
            return None;
        }
        let queue = -(1.0 - c).ln() * 1_400_000.0;
        let stall = if seq % 900 < 4 { (4 - seq % 900) * period } else { 0 };
        let late = -(1.0 - b).ln() * 12_000.0;
        let sent = 1_700_000_000_000_000_000 + seq * period + late as i64;
        Some(PacketRecord::one_way(seq, WallTime(sent), WallTime(sent + 24_000_000 + queue as i64 + stall)))
    });
    let mut records: Vec<_> = records.collect();
    records.sort_by_key(PacketRecord::arrived);
    session.ending = Ending::Complete;
    session.sent = Some(n as u32);
    Measured::new(session, records)
}

/// Simulates a walk of two minutes away from an access point and back, with a packet every 20 ms: as the signal falls,
/// frames are sent again, and behind two walls some are lost.
pub fn walk() -> Measured {
    const START: i64 = 1_700_000_000_000_000_000;
    let period = 20_000_000;
    let n = 6000i32;
    let spec = TestSpec::new(Direction::Up, Transport::Udp, n as u64, 160, Span(period), Schedule::Periodic)
        .unwrap();
    let mut session = Session::new(spec);
    let mut uniform = uniform();
    // Signal in dBm: falls towards the middle, and behind walls at 30, 55 and 95 s.
    let signal = |second: f64| {
        let wall = |at: f64| 14.0 * (-((second - at) / 2.5).powi(2)).exp();
        -48.0 - 22.0 * (1.0 - ((second - 60.0) / 60.0).abs()) - wall(30.0) - wall(55.0) - wall(95.0)
    };
    // Mean number of retries of a frame.
    let again = |second: f64| ((-62.0 - signal(second)) / 8.0).max(0.02);
    let mut retries = 4100.0;
    let mut samples = Vec::new();
    let mut records = Vec::new();
    for seq in 0..n {
        let second = f64::from(seq) / 50.0;
        let (a, b, c) = (uniform(), uniform(), uniform());
        let here = (again(second) * -(1.0 - a).ln()).min(8.0);
        retries += here;
        if seq % 50 == 0 {
            let dbm = signal(second) + 2.0 * (c - 0.5);
            samples.push(InterfaceSample {
                signal_dbm: Some(dbm as i16),
                tx_kbit_s: Some(if dbm < -75.0 {
                    6_500
                } else if dbm < -65.0 {
                    39_000
                } else {
                    130_000
                }),
                frequency_mhz: Some(5180),
                retries: Some(retries as u64),
                failed: Some(3),
                errors: Some(0),
                drops: Some(0),
                ..InterfaceSample::at(WallTime(START + i64::from(seq) * period))
            });
        }
        if here < 7.0 || b < 0.4 {
            let sent = START + i64::from(seq) * period;
            let delay = 1_900_000.0 + here * 1_500_000.0 - (1.0 - b).ln() * 400_000.0;
            let arrived = WallTime(sent + delay as i64);
            records.push(PacketRecord::one_way(seq.into(), WallTime(sent), arrived));
        }
    }
    records.sort_by_key(PacketRecord::arrived);
    session.ending = Ending::Complete;
    session.sent = Some(n as u32);
    [session.src, session.dst] = ["192.0.2.10", "192.0.2.80"].map(|ip| ip.parse().ok());
    session.created = Some(WallTime(START));
    session.client.interface = Some(Box::new(InterfaceHistory { name: "wlan0".to_owned(), samples }));
    Measured::new(session, records)
}

/// The golden logs.
pub const GOLDEN: [&str; 4] = ["a_loopback_v1", "b_wan_lossy_v1", "c_unsync_v2", "d_edge_small_v1"];

/// Returns every figure of one run.
pub fn figures(m: &Measured) -> Vec<Figure> {
    figure::of_run(&run(m))
}

/// Returns a run with all its facts, not corrected.
pub fn run(m: &Measured) -> DrawnRun<'_> {
    DrawnRun { label: "", summary: &m.summary, trace: Some(&m.trace), corrected: false }
}

/// Returns every figure of every example run, and those of all of them together.
pub fn everything() -> Vec<(String, Figure)> {
    let runs: Vec<(&str, Measured)> = GOLDEN
        .into_iter()
        .map(|n| (n, golden(n)))
        .chain([("made up", made_up(30_000)), ("walk", walk())])
        .collect();
    let mut all: Vec<(String, Figure)> = Vec::new();
    for (name, m) in &runs {
        all.extend(figures(m).into_iter().map(|f| (format!("{name}: {}", f.id), f)));
    }
    let named: Vec<_> = runs.iter().map(|(n, m)| ComparedRun::new(n, &m.summary)).collect();
    let mut compared = figure::of_runs(&named);
    let measured = runs.iter().map(|(name, m)| (*name, m.summary.measured()));
    figure::label_measured(&mut compared, &figure::measured_of_several(measured));
    all.extend(compared.into_iter().map(|f| (f.id.clone(), f)));
    all
}

/// Returns the pictures of the guide, by file name.
pub fn pictures() -> Vec<(String, Figure)> {
    let (loopback, wan, unsynchronised, long) =
        (golden("a_loopback_v1"), golden("b_wan_lossy_v1"), golden("c_unsync_v2"), made_up(30_000));
    let from = |m: &Measured, ids: &[&str]| {
        figures(m).into_iter().filter(|f| ids.contains(&f.id.as_str())).collect::<Vec<_>>()
    };
    let wan_ids = [
        "jitter",
        "latency",
        "latency-full",
        "burstiness",
        "dejitter",
        "loss-lengths",
        "duplication-lengths",
        "reorder-density",
    ];
    let mut all = from(&wan, &wan_ids);
    all.extend(from(&loopback, &["ipdv", "send-error", "send-error-course", "qoo-voice"]));
    let corrected = figure::of_run(&DrawnRun { corrected: true, ..run(&unsynchronised) });
    let corrected = corrected.into_iter().find(|f| f.id == "latency");
    all.extend(corrected.map(|f| Figure { id: "latency-corrected".into(), ..f }));
    let runs = [("before", &long.summary), ("after", &loopback.summary), ("other path", &wan.summary)]
        .map(|(name, summary)| ComparedRun::new(name, summary));
    all.extend(figure::of_runs(&runs).into_iter().filter(|f| f.id.starts_with("compare-jitter")));
    all.extend(from(&walk(), &["interface-retries", "interface-signal"]));
    let density = from(&long, &["burstiness"]).into_iter().map(|f| ("burstiness-density".to_owned(), f));
    all.into_iter().map(|f| (f.id.clone(), f)).chain(density).collect()
}
