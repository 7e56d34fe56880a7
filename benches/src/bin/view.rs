//! Measures the cost of watching a test: send error and delays of `jitlat HOST -b` over loopback in a terminal
//! (tmux), without and with `--live`, in alternating runs. The noise is listed next to the ratio: the spread of runs
//! without it.
//!
//! `cargo build --release && ./target/release/view [PAIRS] [PACKETS]`

use jitlat_net::pace::Pacing;
use jitlat_net::server::{JitlatServer, ServerSettings};
use jitlat_proto::jitlat::ServerLimits;
use serde_json::Value;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Compared figures, and their JSON pointers in the report; in ns.
const FIGURES: [(&str, &str); 8] = [
    ("send error up, median", "/directions/0/schedule_error/median"),
    ("send error up, 99 %", "/directions/0/schedule_error/p99"),
    ("send error down, median", "/directions/1/schedule_error/median"),
    ("send error down, 99 %", "/directions/1/schedule_error/p99"),
    ("delay up, median", "/directions/0/latency/median"),
    ("delay up, 99 %", "/directions/0/latency/percentiles/99"),
    ("delay down, median", "/directions/1/latency/median"),
    ("delay down, 99 %", "/directions/1/latency/percentiles/99"),
];
/// Time limit of a run in addition to its packets.
const TIME_LIMIT: Duration = Duration::from_secs(60);

type Figures = [f64; FIGURES.len()];

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |n| std::env::args().nth(n).and_then(|a| a.parse::<u64>().ok());
    let (pairs, packets) = (argument(1).unwrap_or(10), argument(2).unwrap_or(3000));
    let service = ServerSettings {
        bind: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        test_port: 0,
        limits: ServerLimits::default(),
        keys: Default::default(),
        pacing: Pacing::default(),
        priority: None,
    };
    let server = JitlatServer::bind(service)?.start()?;
    let port = server.addresses().first().map(SocketAddr::port).ok_or("no address")?;
    let runs = compare(pairs, packets, port)?;
    println!(
        "{pairs} pairs of runs, {packets} packets each way, one a ms; ns; ratios as median (smallest to largest)"
    );
    println!(
        "{:<24} {:>10} {:>10}   {:<24} runs without it, each by the one before",
        "", "without", "--live", "--live by without"
    );
    for (k, (name, _)) in FIGURES.iter().enumerate() {
        let of = |runs: &[Figures]| -> Vec<f64> { runs.iter().map(|run| run[k]).collect() };
        let (without, with) = (of(&runs.0), of(&runs.1));
        let ratios: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with / without).collect();
        let noise: Vec<f64> = without.windows(2).map(|pair| pair[1] / pair[0]).collect();
        println!(
            "{name:<24} {:>10.0} {:>10.0}   {:<24} {}",
            median(&without),
            median(&with),
            range(&ratios),
            range(&noise)
        );
    }
    Ok(())
}

fn compare(pairs: u64, packets: u64, port: u16) -> Result<(Vec<Figures>, Vec<Figures>), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("jitlat-view-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    // The first run warms up.
    run(&folder, packets, port, false)?;
    for _ in 0..pairs {
        without.push(run(&folder, packets, port, false)?);
        with.push(run(&folder, packets, port, true)?);
    }
    std::fs::remove_dir_all(&folder)?;
    Ok((without, with))
}

/// Runs one test in a terminal of its own.
fn run(folder: &Path, packets: u64, port: u16, live: bool) -> Result<Figures, Box<dyn Error>> {
    let jitlat = std::env::current_exe()?.with_file_name("jitlat");
    let report = folder.join("report.json");
    let _ = std::fs::remove_file(&report);
    // If standard error is not a terminal, nothing is shown while the test runs.
    let end = if live { "--live" } else { "2>/dev/null" };
    let test = format!(
        "{} 127.0.0.1 --control-port {port} -b -n {packets} -p 1ms --no-log -q --json {} {end}",
        jitlat.display(),
        report.display()
    );
    let socket = folder.join("tmux");
    let tmux = || {
        let mut tmux = Command::new("tmux");
        tmux.arg("-u").arg("-S").arg(&socket).env("LANG", "C.UTF-8");
        tmux
    };
    let started =
        tmux().args(["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40"]).arg(&test).status()?;
    if !started.success() {
        return Err("tmux does not start".into());
    }
    let since = Instant::now();
    // The terminal ends with the test.
    while tmux().arg("has-session").output()?.status.success() {
        if since.elapsed() > TIME_LIMIT + Duration::from_millis(packets) {
            let _ = tmux().arg("kill-server").status();
            return Err("a test does not end".into());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&report)?)?;
    let mut figures = [0.0; FIGURES.len()];
    for (figure, (name, place)) in figures.iter_mut().zip(FIGURES) {
        *figure = report.pointer(place).and_then(Value::as_f64).ok_or_else(|| format!("no {name}"))?;
    }
    Ok(figures)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn range(values: &[f64]) -> String {
    let sorted = sorted(values);
    match (sorted.first(), sorted.last()) {
        (Some(low), Some(high)) => format!("{:.2} ({low:.2} to {high:.2})", median(values)),
        _ => String::new(),
    }
}
