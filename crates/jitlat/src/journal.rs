//! [`Journal`]: the log of a test. Where answers come to this host it grows with them, so that a crash loses
//! nothing; what is known of them only in the end (the sender's stamps) then comes in a log that takes its place.

use jitlat_core::twoway::TcpSample;
use jitlat_core::{PacketRecord, Session};
use jitlat_store::log::LogFile;
use std::path::PathBuf;

/// A log, and what is to take its place.
pub struct Journal {
    log: LogFile,
    /// As shown to people.
    path: PathBuf,
    /// What the header says of the test, once there is one.
    begun: Option<Session>,
    /// Rows were written before all was known of them.
    grew: bool,
    successor: Option<LogFile>,
    troubles: Vec<String>,
}

/// A journal after its end.
pub struct Closed {
    /// The log, if there is one.
    pub log: Option<PathBuf>,
    /// Why the log is not whole.
    pub broken: Option<String>,
    /// What the user should hear, that reason included.
    pub troubles: Vec<String>,
}

impl Journal {
    /// Of nothing yet: an unused log vanishes.
    pub fn new(log: LogFile) -> Journal {
        let path = log.path().strip_prefix(".").unwrap_or(log.path()).to_owned();
        Journal { log, path, begun: None, grew: false, successor: None, troubles: Vec::new() }
    }

    /// Writes the header. Called again, with what has become known, it changes the header of a successor.
    pub fn begin(&mut self, session: &Session) {
        if self.begun.replace(session.clone()).is_none() {
            self.log.begin(session);
        }
    }

    /// Writes records as they come, of which more may become known later. What cannot be replaced later (a pipe, a
    /// device) waits for the end.
    pub fn early(&mut self, records: &[PacketRecord]) {
        if !self.log.is_own() {
            return;
        }
        self.grew = true;
        records.iter().for_each(|r| self.log.record(r));
        self.log.flush();
    }

    /// Writes records of which all is known.
    pub fn records(&mut self, records: &[PacketRecord]) {
        let log = self.last_log();
        records.iter().for_each(|r| log.record(r));
        log.flush();
    }

    /// The same with the kernel's account of a TCP connection beside each, as far as there is one.
    pub fn records_tcp(&mut self, records: &[PacketRecord], samples: &[TcpSample]) {
        let log = self.last_log();
        records.iter().enumerate().for_each(|(k, r)| log.record_tcp(r, samples.get(k)));
        log.flush();
    }

    fn last_log(&mut self) -> &mut LogFile {
        if self.grew && self.successor.is_none() {
            match self.log.successor() {
                Ok(mut log) => {
                    if let Some(session) = &self.begun {
                        log.begin(session);
                    }
                    self.successor = Some(log);
                }
                Err(e) => {
                    self.grew = false;
                    let log = self.path.display();
                    self.troubles.push(format!(
                        "{e}; {log} has every packet twice, first without the sender's stamps"
                    ));
                }
            }
        }
        self.successor.as_mut().unwrap_or(&mut self.log)
    }

    /// Writes what has become known since the beginning, and ends.
    pub fn close(mut self, session: &Session) -> Closed {
        self.begin(session);
        self.log.finish(session);
        let path = self.path;
        let replaced = self.successor.map(|mut log| {
            log.finish(session);
            log.replace(&path)
        });
        let mut troubles = self.troubles;
        let (log, broken) = match (self.log.close(), replaced) {
            (_, Some(Ok(_))) | (Ok(_), None) => (Some(path), None),
            (Ok(_), Some(Err(e))) => {
                troubles.push(format!("{e}; {} has the sending program's stamps only", path.display()));
                (Some(path), None)
            }
            (Err(e), _) => (path.exists().then_some(path), Some(e.to_string())),
        };
        troubles.extend(broken.clone());
        Closed { log, broken, troubles }
    }
}
