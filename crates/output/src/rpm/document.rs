//! [`RpmDocument`]: result of a measurement of responsiveness as JSON.

use super::{RpmReport, SHOWN, Terms, means_of};
use crate::report::PROGRAM;
use jitlat_core::Direction;
use jitlat_core::answer::Severity;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::summary::Summary;
use jitlat_instruments::rpm::RpmResult;
use jitlat_instruments::rpm::method::DRAFT;
use jitlat_instruments::rpm::method::score::{RpmClass, TrimmedMeans};
use jitlat_instruments::rpm::method::stage::{AnsweredProbe, Goodput, ProbeCounts, StageEnd, StageOutcome};
use serde::Serialize;

/// Result as JSON: `docs/formats/rpm.md`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RpmDocument<'a> {
    /// `jitlat rpm 1`.
    format: &'static str,
    /// Name and version of the program.
    program: &'static str,
    /// Document that defines the method.
    method: &'static str,
    /// URL of the configuration document.
    url: &'a str,
    /// Address and port of the server.
    server: String,
    /// Address and port of this host; null if unknown.
    client: Option<String>,
    /// HTTP version.
    http: &'static str,
    /// TLS version.
    tls: &'static str,
    /// Start of the measurement, in ns since 1970 UTC.
    began_ns: i64,
    /// True if the user stopped the measurement.
    interrupted: bool,
    /// Result in one sentence, and its severity.
    answer: RpmAnswer,
    /// Parameters of the method.
    parameters: ParameterDocument,
    /// The idle path.
    idle: IdleDocument,
    /// Stages in order: the load in one direction, or in both at once.
    stages: Vec<StageDocument<'a>>,
    /// Probes as streams of round trips: the summary of each, as in the JSON of a test.
    streams: Vec<StreamDocument<'a>>,
}

/// Result in one sentence.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct RpmAnswer {
    /// Severity of the worst stage: good from 1000 RPM, fair from 300 RPM, poor below.
    severity: Severity,
    /// The sentence.
    headline: String,
}

/// Parameters of the method, with their names in the draft.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ParameterDocument {
    /// ID, in ns.
    interval_ns: i64,
    /// MAD, in intervals.
    moving_average: usize,
    /// SDT, as a ratio; of the standard deviation of the population.
    tolerance: f64,
    /// TMP, as a ratio: the largest values beyond this share are left out of means.
    trimmed_to: f64,
    /// INP, per direction.
    initial_connections: usize,
    /// INC, per direction and interval.
    added_connections: usize,
    /// MNP, per direction.
    max_connections: usize,
    /// MPS: foreign and self probes together.
    max_probes_per_second: u32,
    /// PTC, as a ratio of the goodput.
    probe_share: f64,
    /// Maximum duration of a stage, in ns.
    time_limit_ns: i64,
}

/// Probes on the idle path.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct IdleDocument {
    /// Round trips per minute without load; null without probes.
    rpm: Option<f64>,
    /// Times of the parts of probes.
    times: TimesDocument,
}

/// One stage.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct StageDocument<'a> {
    /// `down`, `up` or `both`.
    load: &'static str,
    /// Round trips per minute: the mean of both kinds; null without probes of both kinds.
    rpm: Option<f64>,
    /// `excellent`, `good`, `fair` or `poor`; null without RPM.
    class: Option<&'static str>,
    /// Reliability of RPM: `high` if stable, `medium` if not, `low` with too few intervals.
    confidence: &'static str,
    /// Round trips per minute on new connections.
    foreign_rpm: Option<f64>,
    /// Round trips per minute on load-generating connections.
    self_rpm: Option<f64>,
    /// Goodput at the end.
    goodput: Vec<GoodputDocument>,
    /// Reliability of the goodput.
    goodput_confidence: &'static str,
    /// `stable`, `time-limit`, `interrupted` or `failed`.
    end: &'static str,
    /// Reason of a failure; null without one.
    reason: Option<&'a str>,
    /// Duration, in ns.
    duration_ns: i64,
    /// Start of the window of probes that count, in ns since the start of the stage.
    counted_from_ns: i64,
    /// Times of the parts of the probes that count.
    times: TimesDocument,
    /// Foreign probes by outcome.
    foreign_probes: CountsDocument,
    /// Self probes by outcome.
    self_probes: CountsDocument,
    /// All intervals.
    intervals: Vec<IntervalDocument>,
}

/// Goodput in one direction.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct GoodputDocument {
    /// Direction.
    direction: Direction,
    /// Bits per second in the last interval.
    bps: f64,
    /// Bits per second in the moving average: the result.
    average_bps: f64,
    /// Number of load-generating connections.
    connections: usize,
}

impl From<&Goodput> for GoodputDocument {
    fn from(g: &Goodput) -> GoodputDocument {
        GoodputDocument {
            direction: g.direction,
            bps: g.bps,
            average_bps: g.average_bps,
            connections: g.connections,
        }
    }
}

/// Number of probes by outcome.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CountsDocument {
    /// Number of probes sent.
    sent: u32,
    /// Number of probes answered.
    answered: u32,
    /// Number of probes that failed.
    failed: u32,
    /// Number of probes not sent because too many others had no answer yet.
    skipped: u32,
}

impl From<&ProbeCounts> for CountsDocument {
    fn from(c: &ProbeCounts) -> CountsDocument {
        CountsDocument { sent: c.sent, answered: c.answered, failed: c.failed, skipped: c.skipped }
    }
}

/// Times of the parts of probes; null without such probes.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct TimesDocument {
    /// TCP handshakes.
    tcp: Option<TermDocument>,
    /// TLS handshakes, per round trip.
    tls: Option<TermDocument>,
    /// Requests on new connections.
    http: Option<TermDocument>,
    /// Requests on load-generating connections, or on one connection of the idle path.
    #[serde(rename = "self")]
    own: Option<TermDocument>,
}

impl TimesDocument {
    fn new<'a>(probes: impl Iterator<Item = &'a AnsweredProbe>, means: &TrimmedMeans) -> TimesDocument {
        let terms = Terms::of(probes);
        TimesDocument {
            tcp: TermDocument::new(&terms.tcp, means.tcp_ns),
            tls: TermDocument::new(&terms.tls, means.tls_ns),
            http: TermDocument::new(&terms.http, means.http_ns),
            own: TermDocument::new(&terms.own, means.self_ns),
        }
    }
}

/// Times of one part, in ns.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct TermDocument {
    /// Number of times.
    n: usize,
    /// Mean of the lower 95 %.
    trimmed_mean_ns: f64,
    /// Median.
    p50_ns: Option<i64>,
    /// 90th percentile.
    p90_ns: Option<i64>,
    /// 95th percentile.
    p95_ns: Option<i64>,
    /// 99th percentile.
    p99_ns: Option<i64>,
    /// Smallest.
    min_ns: Option<i64>,
    /// Largest.
    max_ns: Option<i64>,
}

impl TermDocument {
    fn new(times: &[i64], mean: Option<f64>) -> Option<TermDocument> {
        let sample = Sample::new(times.iter().copied());
        let [p50_ns, p90_ns, p95_ns, p99_ns] = SHOWN.map(|p| sample.edf(p));
        Some(TermDocument {
            n: times.len(),
            trimmed_mean_ns: mean?,
            p50_ns,
            p90_ns,
            p95_ns,
            p99_ns,
            min_ns: sample.min(),
            max_ns: sample.max(),
        })
    }
}

/// One interval of a stage.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct IntervalDocument {
    /// Start, in ns since the start of the stage.
    start_ns: i64,
    /// Duration, in ns.
    duration_ns: i64,
    /// Goodput in each direction of the load.
    goodput: Vec<GoodputDocument>,
    /// True if goodput is stable at the end of the interval.
    stable_goodput: bool,
    /// Round trips per minute of the moving window at the end of the interval; null without probes of both kinds.
    rpm: Option<f64>,
}

/// Probes as a stream of round trips.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct StreamDocument<'a> {
    /// Name: `idle self`, `down self`, `down foreign`.
    label: &'a str,
    /// All figures.
    summary: &'a Summary,
}

impl<'a> RpmDocument<'a> {
    pub(super) fn new(report: &'a RpmReport) -> RpmDocument<'a> {
        let RpmResult { url, parameters: p, measured, .. } = &report.result;
        let idle = means_of(&measured.idle);
        RpmDocument {
            format: "jitlat rpm 1",
            program: PROGRAM,
            method: DRAFT,
            url,
            server: measured.server.to_string(),
            client: measured.local.map(|local| local.to_string()),
            http: "2",
            tls: measured.tls_version,
            began_ns: measured.began.0.0,
            interrupted: measured.is_interrupted,
            answer: RpmAnswer { severity: report.severity(), headline: report.headline() },
            parameters: ParameterDocument {
                interval_ns: p.interval.0,
                moving_average: p.averaged,
                tolerance: p.tolerance,
                trimmed_to: 0.95,
                initial_connections: p.initial_connections,
                added_connections: p.added_connections,
                max_connections: p.max_connections,
                max_probes_per_second: p.probes_per_second,
                probe_share: p.probe_share,
                time_limit_ns: p.time_limit.0,
            },
            idle: IdleDocument { rpm: idle.rpm(), times: TimesDocument::new(measured.idle.iter(), &idle) },
            stages: measured.stages.iter().map(StageDocument::new).collect(),
            streams: report
                .runs
                .iter()
                .map(|run| StreamDocument { label: &run.label, summary: &run.summary })
                .collect(),
        }
    }
}

impl<'a> StageDocument<'a> {
    fn new(stage: &'a StageOutcome) -> StageDocument<'a> {
        let rpm = stage.rpm();
        let (end, reason) = match &stage.end {
            StageEnd::Stable => ("stable", None),
            StageEnd::TimeLimit => ("time-limit", None),
            StageEnd::Interrupted => ("interrupted", None),
            StageEnd::Failed(why) => ("failed", Some(why.as_str())),
        };
        let counted = stage.probes.iter().filter(|probe| probe.began >= stage.counted_from);
        StageDocument {
            load: stage.load.name(),
            rpm,
            class: rpm.map(|rpm| RpmClass::of(rpm).name()),
            confidence: stage.confidence.name(),
            foreign_rpm: stage.means.foreign_rpm(),
            self_rpm: stage.means.self_rpm(),
            goodput: stage.goodput.iter().map(GoodputDocument::from).collect(),
            goodput_confidence: stage.goodput_confidence.name(),
            end,
            reason,
            duration_ns: stage.duration.0,
            counted_from_ns: (stage.counted_from - stage.began).0,
            times: TimesDocument::new(counted, &stage.means),
            foreign_probes: (&stage.foreign).into(),
            self_probes: (&stage.own).into(),
            intervals: stage
                .intervals
                .iter()
                .map(|i| IntervalDocument {
                    start_ns: i.start.0,
                    duration_ns: i.duration.0,
                    goodput: i.goodput.iter().map(GoodputDocument::from).collect(),
                    stable_goodput: i.saturated,
                    rpm: i.rpm,
                })
                .collect(),
        }
    }
}
