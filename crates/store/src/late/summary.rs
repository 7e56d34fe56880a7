//! One line per test, as written by LaTe's option `-f`: 34 columns.

use super::ExtraFields;
use jitlat_core::WallTime;
use jitlat_core::gaps::Gaps;
use jitlat_core::summary::Summary;
use jitlat_core::time::SECOND;
use jitlat_core::units::civil;
use jitlat_core::{Schedule, Span};

/// Line of column names, without its line feed.
pub const HEADER: &str = "Date,Time,ClientMode,SocketType,Protocol,UP,PayloadLen-B,TotReqPackets,TestDuration-s,Interval-ms,\
     Interval-type,Interval-Distrib-Param,Interval-Distrib-Batch-Size,LatencyType,FollowUp,MinLatency-ms,\
     MaxLatency-ms,AvgLatency-ms,LostPackets-Perc,ErrorsCount,OutOfOrderCountDecr,StDev-ms,SeqNumberResets,\
     TimeoutOccurred,HighestSeqNumber,HighestSeqNumber-reconstructed-noncyclical,LostPacketHighestSeq-Perc,\
     reportingSuccessful,ConfInt90l,ConfInt90u,ConfInt95l,ConfInt95u,ConfInt99l,ConfInt99u";

/// LaTe's names for sources of timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyType {
    /// The program read both timestamps.
    User,
    /// The kernel stamped reception, the program stamped sending.
    Krt,
    /// The kernel made both timestamps.
    Software,
    /// The network adapter made both timestamps.
    Hardware,
}

impl LatencyType {
    /// Name in LaTe's outputs.
    pub fn name(self) -> &'static str {
        match self {
            LatencyType::User => "User-to-user",
            LatencyType::Krt => "KRT",
            LatencyType::Software => "Software (kernel) timestamps",
            LatencyType::Hardware => "Hardware timestamps",
        }
    }
}

/// Settings of a test, which LaTe's line contains in addition to the figures.
#[derive(Clone, Debug)]
pub struct Setting {
    /// True for a test in one direction, from client to server.
    pub unidirectional: bool,
    /// True if the test uses `AF_PACKET` sockets.
    pub raw: bool,
    /// Protocol: `UDP`, or jitlat's name of another protocol.
    pub protocol: String,
    /// Priority; 0 when unset.
    pub priority: u32,
    /// Bytes of payload after the LaMP header.
    pub payload: u64,
    /// Number of requests to send, if the test is limited by number.
    pub packets: Option<u64>,
    /// Duration in seconds, if the test is limited by duration.
    pub duration: Option<u64>,
    /// Time between requests, in ns; for random gaps, the value of LaTe's `-t`.
    pub interval: i64,
    /// Distribution of random gaps; `None` for a fixed interval.
    pub random: Option<LateGaps>,
    /// Source of the timestamps.
    pub latency: LatencyType,
    /// True if the server reports its processing time.
    pub follow_up: bool,
    /// Start of the test.
    pub began: WallTime,
    /// For each of the confidence levels 90, 95 and 99 %, true if the last message to a listener contains its intervals
    /// (LaTe's `-C`).
    pub levels: [bool; 3],
    /// Additional values of each sample (LaTe's `-X`).
    pub extra: ExtraFields,
}

/// LaTe's default confidence level: 95 % only.
pub const USUAL_LEVELS: [bool; 3] = [false, true, false];

/// Random gaps in LaTe's terms.
#[derive(Clone, Copy, Debug)]
pub struct LateGaps {
    /// LaTe's name of the distribution.
    pub name: &'static str,
    /// Parameter of the distribution, in ns.
    pub parameter: i64,
    /// Number of consecutive packets with the same gap.
    pub batch: u32,
}

impl LateGaps {
    /// Converts `schedule` with the mean `period` to LaTe's terms; the second value is that of LaTe's `-t`, in ns.
    /// `None` if the schedule is not random.
    pub fn of(schedule: Schedule, period: Span) -> Option<(LateGaps, i64)> {
        let (name, interval, parameter, batch) = match schedule {
            Schedule::Poisson { .. } => ("RAND_EXPONENTIAL", period, period, 1),
            Schedule::Random { gaps, batch, .. } => match gaps {
                Gaps::Uniform { least, most } => ("RAND_UNIFORM", most, least, batch),
                Gaps::Exponential { least, mean } => ("RAND_EXPONENTIAL", least, mean, batch),
                Gaps::Normal { mean, deviation } => ("RAND_NORMAL", mean, deviation, batch),
            },
            Schedule::Periodic | Schedule::Burst { .. } => return None,
        };
        Some((LateGaps { name, parameter: parameter.0, batch }, interval.0))
    }
}

impl Setting {
    pub(super) fn interval_type(&self) -> &'static str {
        self.random.map_or("fixed periodic", |r| r.name)
    }

    /// Returns the parameter in ms; −1 if the distribution has none.
    pub(super) fn parameter(&self) -> f64 {
        self.random.map_or(-1.0, |r| r.parameter as f64 / 1e6)
    }

    pub(super) fn batch(&self) -> u64 {
        self.random.map_or(self.packets.unwrap_or(0), |r| r.batch.into())
    }
}

/// Figures of a test as LaTe defines them.
pub(super) struct LateFigures {
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    pub stddev: f64,
    pub lost_pct: f64,
    pub errors: u64,
    pub late: u64,
    pub timed_out: bool,
    pub highest: Option<u64>,
    pub lost_to_highest_pct: f64,
    pub successful: bool,
}

impl Default for LateFigures {
    /// Figures of a test that failed before its first packet.
    fn default() -> LateFigures {
        LateFigures {
            min: 0.0,
            max: 0.0,
            mean: 0.0,
            stddev: 0.0,
            lost_pct: 100.0,
            errors: 0,
            late: 0,
            timed_out: false,
            highest: None,
            lost_to_highest_pct: 100.0,
            successful: false,
        }
    }
}

impl LateFigures {
    pub fn of(s: &Summary, highest: Option<u64>) -> LateFigures {
        let ms = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e6;
        let report = s.two_way.as_ref().and_then(|t| t.far_report);
        let highest = match report {
            Some(r) => r.highest_seq.map(|h| r.wraps * 65_536 + u64::from(h)),
            None => highest,
        };
        let due = highest.map_or(0, |h| h + 1);
        let short = due.saturating_sub(s.counts.unique_valid);
        let timed_out = match report {
            Some(r) => r.timed_out,
            // Answers to the last packets of the test are missing.
            None => highest.is_none_or(|h| h + 1 < s.counts.sent),
        };
        LateFigures {
            min: ms(s.latency.min.map(|v| v as f64)),
            max: ms(s.latency.max.map(|v| v as f64)),
            mean: ms(s.latency.mean),
            stddev: ms(s.latency.stddev),
            lost_pct: s.counts.lost_pct.unwrap_or(100.0),
            errors: report.map_or(s.counts.invalid, |r| r.errors),
            late: s.counts.out_of_sequence,
            timed_out,
            highest,
            lost_to_highest_pct: if due > 0 { 100.0 * short as f64 / due as f64 } else { 100.0 },
            successful: s.counts.unique_valid > 0,
        }
    }
}

/// Returns the Student-t confidence intervals (90, 95 and 99 %) of the mean in ms, limited to zero or more; `None` if
/// there are fewer than two samples. They are only valid for independent samples: see `summary.inference.t_valid`.
pub fn intervals(s: &Summary) -> [Option<[f64; 2]>; 3] {
    let i = &s.inference;
    [i.mean_ci90, i.mean_ci95, i.mean_ci99].map(|ci| ci.map(|[lo, hi]| [(lo / 1e6).max(0.0), hi / 1e6]))
}

/// Returns the line of one test, without its line feed. `highest` is the highest sequence number that was answered.
pub fn row(s: &Summary, setting: &Setting, highest: Option<u64>) -> String {
    line(&LateFigures::of(s, highest), intervals(s), setting)
}

/// Returns the line of a test that failed before its first packet, as written by LaTe's `--log-init-failures`.
pub fn failed_row(setting: &Setting) -> String {
    line(&LateFigures::default(), [None; 3], setting)
}

fn line(f: &LateFigures, intervals: [Option<[f64; 2]>; 3], setting: &Setting) -> String {
    let (days, second) = {
        let seconds = setting.began.0.div_euclid(SECOND);
        (seconds.div_euclid(86_400), seconds.rem_euclid(86_400))
    };
    let (year, month, day) = civil(days);
    let flag = |on: bool| if on { "On" } else { "Off" };
    let mut all = vec![
        format!("{year:04}-{month:02}-{day:02}"),
        format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60),
        if setting.unidirectional { "Unidirectional" } else { "Pinglike" }.to_owned(),
        if setting.raw { "Raw" } else { "Non raw" }.to_owned(),
        setting.protocol.clone(),
        setting.priority.to_string(),
        setting.payload.to_string(),
        setting.packets.unwrap_or(0).to_string(),
        setting.duration.unwrap_or(0).to_string(),
        format!("{:.3}", setting.interval as f64 / 1e6),
        setting.interval_type().to_owned(),
        format!("{:.6}", setting.parameter()),
        setting.batch().to_string(),
        setting.latency.name().to_owned(),
        flag(setting.follow_up).to_owned(),
        format!("{:.3}", f.min),
        format!("{:.3}", f.max),
        format!("{:.3}", f.mean),
        format!("{:.2}", f.lost_pct),
        f.errors.to_string(),
        f.late.to_string(),
        format!("{:.4}", f.stddev),
        f.highest.map_or(0, |h| h / 65_536).to_string(),
        u8::from(f.timed_out).to_string(),
        f.highest.map_or(u32::MAX.to_string(), |h| (h % 65_536).to_string()),
        f.highest.map_or(u64::MAX.to_string(), |h| h.to_string()),
        format!("{:.2}", f.lost_to_highest_pct),
        u8::from(f.successful).to_string(),
    ];
    for ci in intervals {
        match ci {
            Some(bounds) => all.extend(bounds.map(|b| format!("{b:.3}"))),
            None => all.extend(["-1".to_owned(), "-1".to_owned()]),
        }
    }
    all.join(",")
}
