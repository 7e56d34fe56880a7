//! Saved logs, each with the verdict of a network engineer, written before the program could give one.
//! `testdata/verdicts/README.md` states their origin.

use super::context::MS;
use jitlat_core::answer::Answer;
use jitlat_core::time::StampSource;
use jitlat_core::{Direction, Options, Schedule, Span, TestSpec, Transport};
use jitlat_impair::{
    Choice, Clock, ClockChange, Competition, CrossTraffic, DelayPoint, DuplicationModel, GilbertModel,
    Jitter, PathModel, Pause, Police, RateBottleneck, ReorderingModel, SizeLimit, Trial,
};
use jitlat_store::log::{LogVersion, LogWriter};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// An engineer's verdict on a log.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opinion {
    /// Verdict in words, for readers of the file.
    #[allow(dead_code)]
    says: String,
    complete: bool,
    /// Severities, any of which is right.
    severity: Vec<String>,
    /// Exactly these causes, in this order.
    causes: Vec<Expected>,
    /// Phrases that the headline contains, in upper or lower case.
    headline: Vec<String>,
    /// Range of the recommended buffer, in ms.
    #[serde(default)]
    buffer_ms: Option<[f64; 2]>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    id: String,
    /// Start and end, each [value, tolerance], in seconds.
    #[serde(default)]
    from_s: Option<[f64; 2]>,
    #[serde(default)]
    to_s: Option<[f64; 2]>,
    /// Magnitude in ms, or as a share: [minimum, maximum].
    #[serde(default)]
    magnitude_ms: Option<[f64; 2]>,
    #[serde(default)]
    magnitude: Option<[f64; 2]>,
    #[serde(default)]
    direction: Option<String>,
    /// True if the cause may be missing.
    #[serde(default)]
    optional: bool,
}

/// Returns the folder with the saved logs, or with others of the same kind.
pub fn folder() -> PathBuf {
    std::env::var_os("JITLAT_VERDICTS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/verdicts"), PathBuf::from)
}

/// Returns the paths of all saved logs.
pub fn logs() -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|e| e.unwrap().path()).collect();
    names.retain(|p| p.extension().is_some_and(|e| e == "log"));
    names.sort();
    names
}

#[test]
fn saved_logs_are_judged_as_an_engineer_would() {
    let names = logs();
    assert!(names.len() >= 20, "{}", names.len());
    let mut wrong = Vec::new();
    for log in names {
        let opinion = std::fs::read(log.with_extension("answer.json")).unwrap();
        let opinion: Opinion =
            serde_json::from_slice(&opinion).unwrap_or_else(|e| panic!("{}: {e}", log.display()));
        let answer = super::judge("saved", std::fs::read(&log).unwrap()).expect("every test has an answer");
        let found = differences(&opinion, &answer);
        if !found.is_empty() {
            let name = log.file_name().unwrap().to_string_lossy().into_owned();
            wrong.push(format!("{name}: {}\n{answer:#?}", found.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{} logs:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn saved_logs_are_judged_alike_in_constant_memory() {
    let streaming = Options { streaming: true, ..jitlat_verdict::options() };
    for log in logs() {
        let bytes = std::fs::read(&log).unwrap();
        let [exact, constant] = [&jitlat_verdict::options(), &streaming]
            .map(|options| super::judge_with("saved", bytes.clone(), options).unwrap());
        assert_eq!(constant, exact, "{}", log.display());
    }
}

fn differences(opinion: &Opinion, answer: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    let mut differs = |what: &str, found_value: String| found.push(format!("{what}: {found_value}"));
    if answer.complete != opinion.complete {
        differs("complete", answer.complete.to_string());
    }
    if !opinion.severity.iter().any(|s| s == answer.severity.name()) {
        differs("severity", answer.severity.name().to_owned());
    }
    let headline = answer.headline.to_lowercase();
    for word in opinion.headline.iter().filter(|w| !headline.contains(&w.to_lowercase())) {
        differs("headline without", format!("'{word}': {}", answer.headline));
    }
    if let Some([low, high]) = opinion.buffer_ms
        && !answer.buffer_ns.is_some_and(|b| (low..=high).contains(&(b as f64 / MS)))
    {
        differs("buffer", format!("{:?} ns", answer.buffer_ns));
    }
    let mut causes = answer.causes.iter().peekable();
    for expected in &opinion.causes {
        let Some(cause) = causes.next_if(|c| c.id.name() == expected.id) else {
            if !expected.optional {
                differs("missing or out of turn", expected.id.clone());
            }
            continue;
        };
        let near = |what: Option<[f64; 2]>, value: f64| what.is_none_or(|[v, off]| (v - value).abs() <= off);
        if !near(expected.from_s, cause.from_s) || !near(expected.to_s, cause.to_s) {
            differs(&expected.id, format!("{} to {} s", cause.from_s, cause.to_s));
        }
        let within = |range: Option<[f64; 2]>, value: Option<f64>| {
            range.is_none_or(|[low, high]| value.is_some_and(|v| (low..=high).contains(&v)))
        };
        if !within(expected.magnitude_ms, cause.magnitude_ns.map(|m| m.unsigned_abs() as f64 / MS))
            || !within(expected.magnitude, cause.magnitude)
        {
            differs(&expected.id, format!("magnitude {:?} ns, {:?}", cause.magnitude_ns, cause.magnitude));
        }
        let direction = cause.direction.map(|d| if d == Direction::Up { "up" } else { "down" });
        if expected.direction.is_some() && expected.direction.as_deref() != direction {
            differs(&expected.id, format!("direction {direction:?}"));
        }
    }
    for more in causes {
        differs("not there", more.id.name().to_owned());
    }
    found
}

fn spec(packets: u64, payload: u64, period_ms: f64, transport: Transport, schedule: Schedule) -> TestSpec {
    TestSpec::new(Direction::Up, transport, packets, payload, Span((period_ms * MS) as i64), schedule)
        .unwrap()
}

fn udp(packets: u64, period_ms: f64) -> Trial {
    Trial::new(spec(packets, 80, period_ms, Transport::Udp, Schedule::Periodic), packets + 11)
}

fn quiet(delay_ms: f64, jitter_us: i64) -> PathModel {
    PathModel {
        delay: Span((delay_ms * MS) as i64),
        jitter: Jitter::Exponential { mean: Span::micros(jitter_us) },
        in_order: true,
        ..PathModel::default()
    }
}

fn points(list: &[(f64, f64)]) -> Vec<DelayPoint> {
    list.iter()
        .map(|(s, ms)| DelayPoint { at: Span((s * 1e9) as i64), delay: Span((ms * MS) as i64) })
        .collect()
}

/// Returns the simulated logs: name, version, and the test to simulate.
fn simulated() -> Vec<(&'static str, LogVersion, Trial)> {
    let mut all = Vec::new();
    let mut add = |name, version, trial| all.push((name, version, trial));

    let mut t = udp(1500, 20.0);
    t.server.clock.offset = Span::seconds(5400);
    let wifi = Jitter::Sum(vec![
        Jitter::LogNormal { median: Span::micros(1200), sigma: 0.9 },
        Jitter::Spikes { share: 0.003, max: Span::millis(35) },
    ]);
    t.up = PathModel { delay: Span::millis(4), jitter: wifi, in_order: true, ..PathModel::default() };
    add("clean_wifi_offset_v1", LogVersion::V1, t);

    let mut t = udp(700, 20.0);
    t.up = PathModel { loss: Choice::indices([411]), ..quiet(12.0, 300) };
    t.probes = 8;
    add("one_lost_of_700", LogVersion::V3, t);

    let mut t = udp(2000, 20.0);
    t.up = PathModel { loss: Choice::Bernoulli(0.03), ..quiet(35.0, 500) };
    t.server.clock.offset = Span::millis(-730);
    add("random_loss_v2", LogVersion::V2, Trial { probes: 5, ..t });

    let mut t = udp(2000, 10.0);
    t.up = PathModel { loss: Choice::Gilbert(GilbertModel::simple(0.008, 0.2)), ..quiet(18.0, 400) };
    add("bursty_loss_v1", LogVersion::V1, t);

    let mut t = udp(1500, 10.0);
    t.up = PathModel {
        police: Some(Police { bits: 69_120, burst: 2000, every: Span::ZERO }),
        ..quiet(9.0, 200)
    };
    add("policed_v1", LogVersion::V1, t);

    let mut t = udp(1200, 20.0);
    t.up = PathModel {
        duplication: DuplicationModel { choice: Choice::Bernoulli(1.0), copies: 1, lag: Span::micros(40) },
        ..quiet(0.3, 20)
    };
    add("everything_twice_v1", LogVersion::V1, t);

    let mut t = udp(1500, 10.0);
    let late = ReorderingModel { choice: Choice::Bernoulli(0.04), by: Span::millis(25) };
    t.up = PathModel { reordering: late, ..quiet(40.0, 200) };
    add("reordered_v1", LogVersion::V1, t);

    let mut t = udp(1500, 20.0);
    t.up = PathModel { added: points(&[(0.0, 0.0), (17.0, 0.0), (17.0, 0.32)]), ..quiet(2.1, 12) };
    t.probes = 8;
    add("route_step_320us", LogVersion::V3, t);

    let mut t = udp(1500, 20.0);
    t.up = quiet(6.0, 80);
    t.server.clock = Clock {
        offset: Span::millis(3),
        skew_ppb: 0,
        shifts: vec![ClockChange { at: Span::seconds(12), by: Span::millis(-48), over: Span::ZERO }],
    };
    t.probes = 8;
    add("clock_set_back", LogVersion::V3, t);

    let mut t = udp(1800, 100.0);
    t.up = quiet(14.0, 90);
    t.server.clock = Clock { offset: Span::seconds(31), skew_ppb: 62_000, shifts: Vec::new() };
    add("skew_62ppm_v1", LogVersion::V1, t);

    let mut t = udp(1500, 10.0);
    t.up = quiet(22.0, 300);
    t.server.stalls = vec![
        Pause { from: Span::millis(4210), length: Span::millis(180) },
        Pause { from: Span::millis(11_030), length: Span::millis(310) },
    ];
    add("receiver_stalls_v1", LogVersion::V1, t);

    let mut t = udp(1500, 10.0);
    t.up = quiet(22.0, 300);
    t.client.stalls = vec![Pause { from: Span::millis(6500), length: Span::millis(240) }];
    add("sender_stall_v1", LogVersion::V1, t);

    let mut t = udp(1500, 20.0);
    let rate = RateBottleneck { bits: 5_000_000, queue: 62_500 };
    let load = CrossTraffic::Greedy { rtt: Span::millis(30) };
    let competition = vec![Competition { from: Span::seconds(9), length: Span::seconds(12), load }];
    t.up = PathModel { rate: Some(rate), competition, loss: Choice::Bernoulli(0.006), ..quiet(14.0, 400) };
    add("bufferbloat_and_loss_v1", LogVersion::V1, t);

    let mut t = udp(1200, 20.0);
    t.up = PathModel { added: points(&[(0.0, 97.0), (30.0, 97.0)]), ..quiet(5.0, 900) };
    t.up.added.insert(0, DelayPoint { at: Span(-1), delay: Span::ZERO });
    t.server.clock.offset = Span::millis(220);
    t.probes = 8;
    add("queued_throughout", LogVersion::V3, t);

    let mut t = Trial::new(spec(1500, 1400, 10.0, Transport::Udp, Schedule::Periodic), 5);
    t.payloads = vec![80, 300, 700, 1100, 1400];
    t.up = PathModel {
        too_long: Some(SizeLimit { above: 1350, choice: Choice::Bernoulli(1.0) }),
        ..quiet(11.0, 200)
    };
    (t.client.stamps, t.server.stamps) = (StampSource::Kernel, StampSource::Kernel);
    add("long_packets_lost", LogVersion::V3, t);

    let mut t = udp(60, 20.0);
    t.up = quiet(3.0, 50);
    add("sixty_packets_v1", LogVersion::V1, t);
    all
}

/// Writes the simulated logs again; the engineers' verdicts stay unchanged.
#[test]
#[ignore = "writes into the repository"]
fn write_simulated_logs() {
    for (name, version, trial) in simulated() {
        let outcome = trial.run();
        let mut writer = LogWriter::new(Vec::new(), version);
        writer.begin(&outcome.session);
        outcome.records.iter().for_each(|r| writer.record(r));
        writer.finish(&outcome.session);
        let (log, result) = writer.close();
        result.unwrap();
        std::fs::write(folder().join(name).with_extension("log"), log).unwrap();
    }
}
