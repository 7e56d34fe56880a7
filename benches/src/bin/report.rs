//! Measures how long a report with figures takes, step by step, against only reading the log.
//!
//! `cargo run --release -p jitlat-benches --bin report [PACKETS]`

use jitlat_core::session::Session;
use jitlat_core::{Analyzer, Direction, PacketRecord, Schedule, Span, TestSpec, Transport, WallTime};
use jitlat_report::figure::{self, DrawnRun, Trace};
use jitlat_report::html::{HtmlReport, ReportPart, page};
use jitlat_report::{draw, text};
use jitlat_store::log::{LogReader, LogVersion, LogWriter};
use std::time::Instant;

const PERIOD: i64 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let packets = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000u32);
    let log = log(packets)?;
    println!("{packets} packets, a log of {} MB", log.len() / 1_000_000);

    let mut steps = Steps { started: Instant::now(), total: 0.0 };
    let mut read = 0;
    LogReader::from_reader("bench", Box::new(std::io::Cursor::new(log.clone())))?.each_chunk(|records| {
        read += std::hint::black_box(records).len();
    })?;
    steps.done(&format!("only reading ({read} rows): the baseline"));
    steps.total = 0.0;

    let mut reader = LogReader::from_reader("bench", Box::new(std::io::Cursor::new(log)))?;
    let session = reader.session().clone();
    let mut analyzer = Analyzer::new(&session, &jitlat_verdict::options());
    reader.each_chunk(|records| analyzer.push_all(records))?;
    let (summary, samples) = analyzer.finish_with_samples(&session);
    steps.done("read and analyse");
    let trace = Trace::of(&session, &samples);
    steps.done("trace");
    let figures =
        figure::of_run(&DrawnRun { label: "", summary: &summary, trace: Some(&trace), corrected: false });
    steps.done("figures");
    let svg: usize = figures.iter().map(|f| draw::svg(f).len()).sum();
    steps.done(&format!("{} SVG files, {} kB", figures.len(), svg / 1000));
    let mut png = 0;
    for figure in &figures {
        png += draw::png(figure, 2.0)?.len();
    }
    steps.done(&format!("{} PNG files, {} kB", figures.len(), png / 1000));
    let parts = [ReportPart { label: "", session: Some(&session), summary: &summary, trace: Some(&trace) }];
    let html = page(&HtmlReport {
        section: None,
        parts: &parts,
        corrected: false,
        command: None,
        program: "jitlat",
        written: None,
    });
    steps.done(&format!("HTML, {} kB", html.len() / 1000));
    let console = text::report(&summary, &text::TextOptions::default());
    steps.done(&format!("console report, {} lines", console.lines().count()));
    println!("{:>9.3} s  everything", steps.total);
    Ok(())
}

struct Steps {
    started: Instant,
    total: f64,
}

impl Steps {
    fn done(&mut self, what: &str) {
        let took = self.started.elapsed().as_secs_f64();
        self.total += took;
        println!("{took:>9.3} s  {what}");
        self.started = Instant::now();
    }
}

/// Makes a log of `packets` packets over a path with queues, stalls and loss bursts.
fn log(packets: u32) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let n = packets.into();
    let spec = TestSpec::new(Direction::Up, Transport::Udp, n, 80, Span(PERIOD), Schedule::Periodic)?;
    let session = Session::new(spec);
    let mut state = 88_172_645_463_325_252u64;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut writer = LogWriter::new(Vec::new(), LogVersion::V3);
    writer.begin(&session);
    let mut bad = false;
    for seq in 0..i64::from(packets) {
        bad = if bad { uniform() > 0.3 } else { uniform() > 0.999 };
        let (queue, late) = (-(1.0 - uniform()).ln() * 300_000.0, uniform() * 40_000.0);
        if bad {
            continue;
        }
        let stall = ((40 - seq % 5000).max(0)) * PERIOD;
        let sent = 1_700_000_000_000_000_000 + seq * PERIOD + late as i64;
        let arrived = sent + 24_000_000 + queue as i64 + stall;
        writer.record(&PacketRecord::one_way(seq, WallTime(sent), WallTime(arrived)));
    }
    writer.finish(&session);
    let (bytes, written) = writer.close();
    written?;
    Ok(bytes)
}
