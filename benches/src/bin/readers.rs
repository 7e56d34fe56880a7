//! Measures the way from packets on disk to percentiles: `jitlat analyze` on a log, against common tools on irtt's
//! JSON and on plain columns, with the same packets.
//!
//! `cargo build --release -p jitlat -p jitlat-benches && target/release/readers [TIMES]`
//!
//! irtt measures 10 000 round trips over loopback; its results are repeated TIMES times (default: 10). Tools that are
//! not installed are skipped with a message.

use jitlat_core::session::Ending;
use jitlat_core::{Direction, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime};
use jitlat_store::log::{LogVersion, LogWriter};
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SERVER: &str = "127.0.0.1:21120";
const PERIOD: i64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let times = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10);
    let folder = std::env::temp_dir().join(format!("jitlat-readers-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let result = compare(&folder, times);
    fs::remove_dir_all(&folder)?;
    result
}

fn compare(folder: &Path, times: usize) -> Result<(), Box<dyn Error>> {
    let Some(measured) = irtt(&folder.join("irtt.json"))? else {
        println!("irtt is not installed (go install github.com/heistp/irtt/cmd/irtt): skipped");
        return Ok(());
    };
    let (json, log) = (folder.join("all.json"), folder.join("all.log"));
    let packets = write(&measured, times, &json, &log)?;
    let size = |p: &PathBuf| fs::metadata(p).map_or(0.0, |m| m.len() as f64 / 1e6);
    println!("{packets} packets: irtt's JSON {:.1} MB, jitlat's log {:.1} MB", size(&json), size(&log));

    let jitlat = std::env::current_exe()?.with_file_name("jitlat");
    let (json, log) = (json.display(), log.display());
    let ranks = "[50, 99, 99.9] | map(. as $p | $s[(($s | length) * $p / 100 | ceil) - 1])";
    let python = |read: &str| {
        format!(
            "import json,sys,math\n{read}\ns=sorted(x)\nprint(*(s[math.ceil(len(s)*p/100)-1] for p in (50,99,99.9)))"
        )
    };
    let from_json = python(&format!(
        "x=[r['delay']['rtt'] for r in json.load(open('{json}'))['round_trips'] if r['lost']=='false']"
    ));
    let from_log =
        python(&format!("x=[int(f[3])-int(f[1]) for f in (l.split() for l in open('{log}') if l[0]!='#')]"));
    let shown = format!(
        "{} analyze {log} --json - | jq -r '.latency.percentiles | \"\\(.[\"50\"]) \\(.[\"99\"]) \\(.[\"99.9\"])\"'",
        jitlat.display()
    );
    let rows: [(&str, &str, String); 6] = [
        ("jitlat analyze, the whole report", "", format!("{} analyze {log}", jitlat.display())),
        ("jitlat analyze --json, every figure", "jq", shown),
        (
            "jq on irtt's JSON: three percentiles",
            "jq",
            format!(
                "jq -r '[.round_trips[] | select(.lost == \"false\").delay.rtt] | sort | . as $s | {ranks} | join(\" \")' {json}"
            ),
        ),
        ("python3 on irtt's JSON: the same", "python3", format!("python3 -c \"{from_json}\"")),
        ("python3 on the log's columns: the same", "python3", format!("python3 -c \"{from_log}\"")),
        (
            "awk | sort | awk on the log's columns",
            "awk",
            // Stamps have more digits than a double: only the part after the first ten digits is subtracted.
            format!(
                "awk '!/^#/ {{ d = substr($4, 11) - substr($2, 11); print d < 0 ? d + 1e9 : d }}' {log} | sort -n | awk \
                 '{{ s[NR] = $1 }} function r(p, k) {{ k = NR * p / 100; return s[k > int(k) ? int(k) + 1 : k] }} END {{ print r(50), r(99), \
                 r(99.9) }}'"
            ),
        ),
    ];
    let mut baseline = None;
    for (name, needs, line) in rows {
        if !needs.is_empty() && !is_there(needs) {
            println!("{name:<42} {needs} is not installed: skipped");
            continue;
        }
        let mut best = Duration::MAX;
        let mut said = String::new();
        for _ in 0..3 {
            let began = Instant::now();
            let output = Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).output()?;
            best = best.min(began.elapsed());
            if !output.status.success() {
                return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)).into());
            }
            said = String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned();
        }
        let seconds = best.as_secs_f64();
        let whole: f64 = *baseline.get_or_insert(seconds);
        let said = if name.ends_with("report") { "" } else { &said };
        println!("{name:<42} {seconds:>7.3} s {:>6.1} x  {said}", seconds / whole);
    }
    Ok(())
}

fn is_there(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    found.is_ok_and(|s| s.success())
}

/// Runs irtt for ten seconds over loopback and returns its JSON; `None` if it is not installed.
fn irtt(path: &Path) -> Result<Option<Value>, Box<dyn Error>> {
    if !is_there("irtt") {
        return Ok(None);
    }
    let mut server = Command::new("irtt")
        .args(["server", "-i", "1ms", "-b", SERVER])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    std::thread::sleep(Duration::from_millis(500));
    let client = Command::new("irtt")
        .args(["client", "-i", "1ms", "-d", "10s", "-Q", "-o"])
        .arg(path)
        .arg(SERVER)
        .stdout(Stdio::null())
        .status();
    server.kill()?;
    server.wait()?;
    if !client?.success() {
        return Err("irtt could not measure".into());
    }
    Ok(Some(serde_json::from_reader(fs::File::open(path)?)?))
}

/// Writes the round trips `times` times, as irtt's JSON and as a log. Returns the number of answers.
fn write(measured: &Value, times: usize, json: &Path, log: &Path) -> Result<usize, Box<dyn Error>> {
    let trips = measured["round_trips"].as_array().ok_or("irtt's JSON has no round trips")?;
    let sent = (trips.len() * times) as u64;
    let spec = TestSpec::new(Direction::Up, Transport::Udp, sent, 60, Span(PERIOD), Schedule::Periodic)?;
    let mut session = Session::new(spec);
    let mut writer = LogWriter::new(Vec::new(), LogVersion::V3);
    writer.begin(&session);
    let mut all = Vec::with_capacity(trips.len() * times);
    let mut packets = 0;
    for (seq, trip) in (0..).zip((0..times).flat_map(|_| trips)) {
        let mut trip = trip.clone();
        trip["seqno"] = seq.into();
        let wall = trip["timestamps"]["client"]["send"]["wall"].as_i64();
        if let (Some(wall), Some(rtt), Some("false")) =
            (wall, trip["delay"]["rtt"].as_i64(), trip["lost"].as_str())
        {
            writer.record(&PacketRecord::one_way(seq, WallTime(wall), WallTime(wall + rtt)));
            packets += 1;
        }
        all.push(trip);
    }
    (session.sent, session.ending) = (u32::try_from(sent).ok(), Ending::Complete);
    writer.finish(&session);
    let (bytes, written) = writer.close();
    written?;
    fs::write(log, bytes)?;
    let mut whole = measured.clone();
    whole["round_trips"] = all.into();
    serde_json::to_writer_pretty(std::io::BufWriter::new(fs::File::create(json)?), &whole)?;
    Ok(packets)
}
