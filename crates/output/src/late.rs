//! `late` and `late-packets`: LaTe's line per test, and its line per packet.

use crate::format::{Destination, Output, OwnOption, ReportParts, write_each, write_file};
pub use crate::late_streams::{CarbonSettings, LateTest, SampleStreams};
use crate::report::AnalysedStream;
use crate::running;

use crate::error::{Context, Result, bail};
use jitlat_core::record::Moment;
use jitlat_core::{PacketRecord, Session, StampSource, WallTime};
use jitlat_instruments::arguments::Arguments;
use jitlat_instruments::ping::PingProtocol;
use jitlat_store::late::summary::{self, HEADER, LateGaps, LatencyType, Setting, USUAL_LEVELS};
use jitlat_store::late::{ExtraFields, SampleHistory, packets};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// `late`: one line per test.
pub static SUMMARY: Output = Output {
    option: OwnOption::Former("late-csv"),
    needs: ReportParts::STREAMS.and(ReportParts::ROWS),
    ..Output::new(
        "late",
        "Append one line of LaTe's 34 columns; a new file begins with column names",
        Destination::File,
        |report, path| {
            let [run] = report.streams() else {
                bail!("it can only contain one test: analyse the logs one at a time")
            };
            let setting = run.late_setting()?;
            let highest = run.packets()?.iter().filter_map(|r| u64::try_from(r.seq).ok()).max();
            append(path, &summary::row(&run.summary, &setting, highest))
        },
    )
};

/// `late-packets`: one line per packet.
pub static PACKETS: Output = Output {
    option: OwnOption::Former("late-packets"),
    needs: ReportParts::STREAMS.and(ReportParts::ROWS),
    ..Output::new(
        "late-packets",
        "Write one line per packet in LaTe's format",
        Destination::FileEach,
        |report, path| {
            write_each(report.streams(), path, |run, out| write_packets(run, out).map_err(io::Error::other))
        },
    )
};

fn write_packets(run: &AnalysedStream, out: &mut dyn Write) -> Result<()> {
    let Setting { follow_up, extra, .. } = run.late_setting()?;
    writeln!(out, "{}", packets::header(follow_up, extra))?;
    let mut history = SampleHistory::default();
    for sample in run.packets()?.iter().filter_map(|record| history.sample(record)) {
        writeln!(out, "{}", packets::row(&sample, follow_up, extra))?;
    }
    Ok(())
}

/// Appends `line` to a file. If the file is new or empty, the column names are written first.
pub fn append(path: &Path, line: &str) -> Result<()> {
    if running::is_stream(path) {
        return write_file(path, |out| writeln!(out, "{HEADER}\n{line}"));
    }
    let appending = || format!("appending to {}", path.display());
    let mut file = OpenOptions::new().append(true).create(true).open(path).with_context(appending)?;
    let is_new = file.metadata().with_context(appending)?.len() == 0;
    let text = if is_new { format!("{HEADER}\n{line}\n") } else { format!("{line}\n") };
    // Write both in a single call: otherwise lines of tests that end at the same time could mix.
    file.write_all(text.as_bytes()).with_context(appending)
}

impl AnalysedStream {
    /// Returns the settings of the test, which LaTe's formats contain in addition to its figures.
    fn late_setting(&self) -> Result<Setting> {
        let mut setting = match &self.late {
            Some(setting) => setting.clone(),
            None => of_session(&self.session, self.packets()?.first()),
        };
        setting.began = self.session.created.unwrap_or(setting.began);
        setting.follow_up = self.summary.two_way.as_ref().is_some_and(|t| t.processing.is_some());
        Ok(setting)
    }
}

/// Returns the settings that can be derived from a log. A log does not contain the priority, the kind of socket, or the
/// way in which the number of packets was limited.
fn of_session(session: &Session, first: Option<&PacketRecord>) -> Setting {
    let (spec, facts) = (&session.spec, session.two_way.as_deref());
    let random = LateGaps::of(spec.schedule(), spec.period());
    let name = facts.map_or("udp", |f| f.protocol.as_str());
    let header =
        PingProtocol::named(name).and_then(|p| Some(p.client(&Arguments::new()).ok()?.sizes().header));
    let wait = facts.and_then(|f| f.wait);
    Setting {
        unidirectional: facts.is_none_or(|f| f.far_report.is_some()),
        raw: false,
        // LaTe gives the name of the protocol below LaMP.
        protocol: if name == "lamp" { "UDP".to_owned() } else { name.to_uppercase() },
        priority: 0,
        payload: u64::from(spec.payload()).saturating_sub(header.unwrap_or(0)),
        packets: Some(session.packets()),
        duration: None,
        interval: wait.map_or(random.map_or(spec.period().0, |r| r.1), |wait| wait.0),
        random: random.map(|r| r.0),
        latency: first.map_or(LatencyType::User, stamps),
        follow_up: false,
        began: WallTime(0),
        levels: USUAL_LEVELS,
        extra: ExtraFields::default(),
    }
}

/// Returns LaTe's name for the sources of a packet's timestamps.
fn stamps(record: &PacketRecord) -> LatencyType {
    let source = |moment| record.stamp(moment).map(|stamp| stamp.source);
    let received = source(Moment::Returned).or(source(Moment::Arrived));
    match (source(Moment::Sent), received) {
        (Some(StampSource::Hardware), _) => LatencyType::Hardware,
        (Some(StampSource::Kernel), _) => LatencyType::Software,
        (_, Some(StampSource::Kernel)) => LatencyType::Krt,
        _ => LatencyType::User,
    }
}
