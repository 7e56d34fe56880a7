//! [`StreamLogs`]: writes the packets of RTP streams to logs, one per stream.

use crate::error::Error;
use jitlat_core::PacketRecord;
use jitlat_core::spec::Direction;
use jitlat_instruments::passive::RtpOutcome;
use jitlat_passive::rtp::{RtpObserver, RtpStream};
use jitlat_store::log::{LogFile, LogVersion, Naming};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Maximum number of logs, to limit open files. Further streams get no log.
const MAX_LOGS: usize = 256;

/// Logs of RTP streams: `NAME.1`, `NAME.2` and so on, in the order in which the streams were recognised.
pub struct StreamLogs {
    name: PathBuf,
    logs: HashMap<u64, LogFile>,
    left_out: u64,
    failures: Vec<Error>,
}

impl StreamLogs {
    /// Creates logs whose names begin with `name`.
    pub fn new(name: &Path) -> StreamLogs {
        StreamLogs { name: name.to_owned(), logs: HashMap::new(), left_out: 0, failures: Vec::new() }
    }

    /// Completes the logs of all streams of `outcome`. Returns the paths of the logs, in the order of the streams, and
    /// all errors.
    pub fn finish(mut self, outcome: &RtpOutcome) -> (Vec<PathBuf>, Vec<Error>) {
        let mut paths = Vec::new();
        for (stream, analysed) in outcome.result.streams.iter().zip(&outcome.streams) {
            let Some(mut log) = self.logs.remove(&stream.number) else { continue };
            log.finish(&analysed.session);
            match log.close() {
                Ok((path, _)) => paths.push(path),
                Err(e) => self.failures.push(e.into()),
            }
        }
        if self.left_out > 0 {
            let left_out = jitlat_report::text::count(self.left_out, "stream");
            self.failures
                .push(Error::Unfit(format!("at most {MAX_LOGS} logs are written: {left_out} without one")));
        }
        (paths, self.failures)
    }
}

impl RtpObserver for StreamLogs {
    fn begun(&mut self, stream: &RtpStream) {
        if self.logs.len() >= MAX_LOGS {
            self.left_out += 1;
            return;
        }
        let mut name = OsString::from(&self.name);
        name.push(format!(".{}", stream.number + 1));
        if Path::new(&name).exists() {
            let name = Path::new(&name).display();
            self.failures.push(Error::Unfit(format!("--log: {name} exists: choose another name")));
            return;
        }
        match LogFile::create(&Naming::Given(name.into()), LogVersion::V3) {
            Ok(mut log) => {
                log.begin(&stream.begun_session(Direction::Up));
                self.logs.insert(stream.number, log);
            }
            Err(e) => self.failures.push(e.into()),
        }
    }

    fn records(&mut self, number: u64, records: &[PacketRecord]) {
        if let Some(log) = self.logs.get_mut(&number) {
            records.iter().for_each(|record| log.record(record));
        }
    }

    fn ended(&mut self, _: &RtpStream, _: bool) {}
}
