//! Runs tests for the command lines of other programs, given words of the command line of jitlat. Nothing is printed
//! and no log is written.

use crate::ping::late;
use crate::root::{self, Command};
use anyhow::{Context, Result, bail};
use jitlat_core::PacketRecord;
use jitlat_core::observer::{Event, Observer};
use jitlat_instruments::{Analyses, Instrument, RecordCollector, Stop};
use jitlat_output::{AnalysedStream, ReportStreams, log_failures};
use jitlat_proto::owamp::Statistics;
use jitlat_store::late::summary::Setting;
use std::slice;

/// Result of a two-way test.
pub struct TwoWayResult {
    /// The test with its records.
    pub run: AnalysedStream,
    /// True if every requested file was written.
    pub whole: bool,
}

/// Result of a one-way test.
pub struct OneWayResult {
    /// The streams with their records.
    pub runs: Vec<AnalysedStream>,
    /// Sessions of OWAMP; empty for other protocols.
    pub owamp: Vec<Statistics>,
}

/// Runs the test of `jitlat ping WORDS`.
pub fn two_way(words: &[String], shown: &mut dyn Observer, stop: &Stop) -> Result<TwoWayResult> {
    prepared_two_way(words, stop, |_, _| Ok(()), shown)
}

/// Runs the test of `jitlat ping WORDS`. Calls `begin` before the test with LaTe's description of it and the timeout in
/// ms.
pub fn prepared_two_way(
    words: &[String],
    stop: &Stop,
    begin: impl FnOnce(&Setting, i64) -> Result<()>,
    shown: &mut dyn Observer,
) -> Result<TwoWayResult> {
    let Some(Command::Ping(args)) = read("ping", words)? else {
        bail!("jitlat ping does not accept these options")
    };
    args.protocol.check()?;
    args.report.check(1, &[])?;
    let ping = args.settings()?;
    let (late_test, mut streams) = late::test(&args, &ping)?;
    begin(&late_test.setting, ping.timeout.0 / 1_000_000)?;
    let mut analyses = Analyses::new(args.report.options());
    let mut records = RecordCollector::default();
    let mut observers: [&mut dyn Observer; 4] = [&mut streams, &mut analyses, &mut records, shown];
    let measured = ping.run(stop, &mut observers);
    if measured.is_err()
        && let Err(trouble) = late_test.failed(&args.report.outputs)
    {
        tracing::error!("{}", jitlat_output::explain(&trouble));
    }
    measured?;
    let analysed = analyses.finish().pop().context("nothing was measured")?;
    let run = AnalysedStream {
        label: args.host.clone(),
        records: records.records.pop().unwrap_or_default(),
        late: Some(late_test.setting.clone()),
        ..analysed.into()
    };
    let failures = args.report.outputs.write_files(&ReportStreams::of(slice::from_ref(&run)));
    let troubles = late_test.finish(&run, streams);
    troubles.iter().for_each(|trouble| tracing::error!("{}", jitlat_output::explain(trouble)));
    Ok(TwoWayResult { whole: log_failures(&failures) && troubles.is_empty(), run })
}

/// Runs the test of `jitlat test WORDS`.
pub fn one_way(words: &[String], stop: &Stop) -> Result<OneWayResult> {
    let Some(Command::Test(args)) = read("test", words)? else {
        bail!("jitlat test does not accept these options")
    };
    let host = args.host.context("give a host")?;
    let test = args.one_way.settings(&host)?;
    let mut analyses = Analyses::new(args.one_way.report.options());
    let mut records = RecordCollector::default();
    let outcome = test.run(stop, &mut [&mut analyses as &mut dyn Observer, &mut records])?;
    let records = records.records.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
    let runs = analyses.finish().into_iter().zip(records);
    let runs = runs.map(|(analysed, records)| AnalysedStream {
        records: records.unwrap_or_default(),
        ..analysed.into()
    });
    Ok(OneWayResult { runs: runs.collect(), owamp: outcome.owamp })
}

/// Parses `jitlat COMMAND --no-log WORDS`.
fn read(command: &str, words: &[String]) -> Result<Option<Command>> {
    let line = ["jitlat", command, "--no-log"].into_iter().map(str::to_owned).chain(words.iter().cloned());
    Ok(root::read(line.map(Into::into).collect())?.command)
}

/// Observer that passes the packets of a test to a function, in order of arrival and at most once each. Packets that
/// the observers missed are left out.
pub struct Arrivals<F> {
    each: F,
    /// Number of packets that have arrived while the test ran, including missed ones.
    seen: u64,
    /// Number of final records so far.
    concluded: u64,
}

impl<F: FnMut(&PacketRecord)> Arrivals<F> {
    /// Creates an observer that calls `each`.
    pub fn new(each: F) -> Arrivals<F> {
        Arrivals { each, seen: 0, concluded: 0 }
    }
}

impl<F: FnMut(&PacketRecord)> Observer for Arrivals<F> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Arrived { records, .. } => {
                self.seen += records.len() as u64;
                records.iter().for_each(&mut self.each);
            }
            Event::Missed { packets, .. } => self.seen += packets,
            // The last packets are only among the final records.
            Event::Records { records, .. } => {
                let known = self.seen.saturating_sub(self.concluded).min(records.len() as u64) as usize;
                self.concluded += records.len() as u64;
                records[known..].iter().for_each(&mut self.each);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_passed_on_once() {
        let records: Vec<PacketRecord> = (0..6).map(PacketRecord::new).collect();
        let mut passed = Vec::new();
        let mut arrivals = Arrivals::new(|record| passed.push(record.seq));
        arrivals.event(&Event::Arrived { stream: 0, records: &records[..2] });
        arrivals.event(&Event::Missed { stream: 0, packets: 1 });
        arrivals.event(&Event::Records { stream: 0, records: &records[..4], tcp: &[] });
        arrivals.event(&Event::Records { stream: 0, records: &records[4..], tcp: &[] });
        assert_eq!(passed, [0, 1, 3, 4, 5]);
    }
}
