//! Runs tests for the command lines of other programs, given words of the command line of jitlat. Nothing is printed
//! and no log is written.

use super::arguments::{as_wrong, wrong};
use crate::options::ping::PingArgs;
use crate::ping::late;
use crate::root::{self, Command};
use anyhow::{Context, Result};
use jitlat_core::analysis::Options;
use jitlat_core::observer::{Event, Observer};
use jitlat_core::{PacketRecord, WallTime};
use jitlat_instruments::{Analyses, Instrument, OneWay, Ping, RecordCollector, Stop};
use jitlat_net::client::StreamTimes;
use jitlat_output::{AnalysedStream, ReportStreams, log_failures};
use jitlat_proto::owamp::Statistics;
use jitlat_store::late::summary::Setting;
use std::slice;
use std::sync::Arc;

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

/// A test of `jitlat ping`, which has been checked.
pub struct TwoWayTest {
    args: Box<PingArgs>,
    ping: Ping,
}

/// A test of `jitlat test`, which has been checked.
pub struct OneWayTest {
    test: OneWay,
    options: Options,
}

impl TwoWayTest {
    /// Reads and checks the test of `jitlat ping WORDS`.
    ///
    /// # Errors
    /// A [wrong command line](super::arguments::WrongLine).
    pub fn new(words: &[String]) -> Result<TwoWayTest> {
        let Some(Command::Ping(args)) = read("ping", words)? else {
            return Err(wrong("jitlat ping does not accept these options"));
        };
        args.protocol.check().map_err(as_wrong)?;
        let ping = args.settings().map_err(as_wrong)?;
        ping.size().map_err(as_wrong)?;
        Ok(TwoWayTest { args, ping })
    }

    /// Returns the shortest request, in bytes, which includes the header of the protocol.
    pub fn least_size(&self) -> u64 {
        self.ping.client.sizes().range.0
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.ping.packets
    }

    /// Runs the test.
    pub fn run(&self, shown: &mut dyn Observer, stop: &Stop) -> Result<TwoWayResult> {
        self.run_after(|_, _| Ok(()), shown, stop)
    }

    /// Runs the test. Calls `begin` before with LaTe's description of it and the timeout in ms.
    pub fn run_after(
        &self,
        begin: impl FnOnce(&Setting, i64) -> Result<()>,
        shown: &mut dyn Observer,
        stop: &Stop,
    ) -> Result<TwoWayResult> {
        let TwoWayTest { args, ping } = self;
        args.report.check(1, &[])?;
        let (late_test, mut streams) = late::test(args, ping)?;
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
}

impl OneWayTest {
    /// Reads and checks the test of `jitlat test WORDS`.
    ///
    /// # Errors
    /// A [wrong command line](super::arguments::WrongLine).
    pub fn new(words: &[String]) -> Result<OneWayTest> {
        let Some(Command::Test(args)) = read("test", words)? else {
            return Err(wrong("jitlat test does not accept these options"));
        };
        let host = args.host.as_deref().ok_or_else(|| wrong("give a host"))?;
        let test = args.one_way.settings(host).map_err(as_wrong)?;
        test.client.check(&test).map_err(as_wrong)?;
        Ok(OneWayTest { test, options: args.one_way.report.options() })
    }

    /// Makes a test with OWAMP begin at `start`. The result also contains the end of its schedule, once it is known.
    pub fn start_at(&mut self, start: WallTime) -> Arc<StreamTimes> {
        let times = Arc::new(StreamTimes::starting_at(start));
        self.test.settings.times = Some(times.clone());
        times
    }

    /// Runs the test.
    pub fn run(&self, stop: &Stop, shown: &mut dyn Observer) -> Result<OneWayResult> {
        let mut analyses = Analyses::new(self.options.clone());
        let mut records = RecordCollector::default();
        let outcome = self.test.run(stop, &mut [&mut analyses as &mut dyn Observer, &mut records, shown])?;
        let records = records.records.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let runs = analyses.finish().into_iter().zip(records);
        let runs = runs.map(|(analysed, records)| AnalysedStream {
            records: records.unwrap_or_default(),
            ..analysed.into()
        });
        Ok(OneWayResult { runs: runs.collect(), owamp: outcome.owamp })
    }
}

/// Parses `jitlat COMMAND --no-log WORDS`.
fn read(command: &str, words: &[String]) -> Result<Option<Command>> {
    let line = ["jitlat", command, "--no-log"].into_iter().map(str::to_owned).chain(words.iter().cloned());
    Ok(root::read(line.map(Into::into).collect()).map_err(as_wrong)?.command)
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
