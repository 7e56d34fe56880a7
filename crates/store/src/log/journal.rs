//! [`Journals`]: writes the logs of a test. Rows are written as packets arrive at this host, so that a crash loses
//! nothing. If the records are completed at the end (by the sender's stamps), a final log replaces the one that was
//! written during the test.

use super::file::{LogFile, STDOUT, is_part};
use super::write::WriteError;
use jitlat_core::observer::{Event, Observer};
use jitlat_core::session::Ending;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{PacketRecord, Session};
use std::path::PathBuf;
use tracing::warn;

/// Observer that writes the logs of a test, one per stream.
pub struct Journals {
    journals: Vec<Journal>,
    /// Sessions of the streams.
    sessions: Vec<Session>,
}

impl Journals {
    /// Creates journals from log files that are still empty; unused files are removed.
    pub fn new(logs: impl IntoIterator<Item = LogFile>) -> Journals {
        Journals { journals: logs.into_iter().map(Journal::new).collect(), sessions: Vec::new() }
    }

    /// Completes and closes all logs.
    pub fn close(self) -> Vec<Closed> {
        self.journals
            .into_iter()
            .zip(&self.sessions)
            .map(|(journal, session)| journal.close(session))
            .collect()
    }

    /// Returns the log of a stream, after writing its header if necessary.
    fn begun(&mut self, stream: usize) -> Option<&mut Journal> {
        let journal = self.journals.get_mut(stream)?;
        journal.begin(self.sessions.get(stream)?);
        Some(journal)
    }
}

impl Observer for Journals {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Started(sessions) | Event::Concluding(sessions) | Event::Finished(sessions) => {
                self.sessions = sessions.to_vec();
                // At this point the server has stored the state of a one-way test, and its results can be fetched with
                // the log. A two-way test without answers leaves no log.
                for stream in (0..sessions.len()).filter(|k| sessions[*k].two_way.is_none()) {
                    self.begun(stream);
                }
            }
            Event::Arrived { stream, records } => {
                if let Some(journal) = self.begun(stream) {
                    journal.early(records);
                }
            }
            Event::Missed { stream, packets } => {
                if let Some(journal) = self.begun(stream) {
                    journal.miss(packets);
                }
            }
            Event::Records { stream, records, tcp } => {
                if let Some(journal) = self.begun(stream) {
                    journal.records(records, tcp);
                }
            }
            _ => {}
        }
    }
}

/// A log, and the successor that replaces it if its records are completed later.
struct Journal {
    log: LogFile,
    /// Path of the log, used in messages.
    path: PathBuf,
    /// Session in the header; `None` until the header is written.
    begun: Option<Session>,
    /// True if rows were written before the records were complete.
    grew: bool,
    /// True if the file was removed or replaced during the test.
    gone: bool,
    /// Number of complete records that could not be written because the file was removed or replaced.
    unwritten: u64,
    /// Number of packets without a row because writing was too slow.
    missed: u64,
    successor: Option<LogFile>,
    troubles: Vec<String>,
}

/// Result of closing a log.
#[derive(Default)]
pub struct Closed {
    /// Path of the log; `None` if no log exists.
    pub log: Option<PathBuf>,
    /// Reason why the log is not complete; `None` if it is.
    pub broken: Option<String>,
    /// Messages for the user; they include the reason in `broken`.
    pub troubles: Vec<String>,
}

impl Journal {
    fn new(log: LogFile) -> Journal {
        let path = log.path().strip_prefix(".").unwrap_or(log.path()).to_owned();
        Journal {
            log,
            path,
            begun: None,
            grew: false,
            gone: false,
            unwritten: 0,
            missed: 0,
            successor: None,
            troubles: Vec::new(),
        }
    }

    /// Writes the header. A second call changes the header of the successor.
    fn begin(&mut self, session: &Session) {
        if self.begun.replace(session.clone()).is_none() {
            self.log.begin(session);
        }
    }

    /// Writes records as they arrive, even if they will be completed later. A log that cannot be replaced (a pipe, a
    /// device) is written at the end instead.
    fn early(&mut self, records: &[PacketRecord]) {
        if !self.log.is_own() {
            return;
        }
        self.grew = true;
        records.iter().for_each(|r| self.log.record(r));
        self.log.flush();
    }

    /// Counts packets that arrived faster than they could be written. The successor that replaces the log will contain
    /// them. After a crash, only this log remains, and the packets must not count as lost on the path.
    fn miss(&mut self, packets: u64) {
        if !self.log.is_own() {
            return;
        }
        if self.missed == 0 {
            let log = self.path.display();
            warn!(
                "packets arrive faster than {log} can be written: some rows are missing until the test ends"
            );
        }
        self.grew = true;
        self.missed += packets;
        self.log.miss(packets);
    }

    /// Writes complete records, each with the kernel's TCP_INFO, if available.
    fn records(&mut self, records: &[PacketRecord], tcp: &[TcpSample]) {
        let Some(log) = self.last_log() else {
            self.unwritten += records.len() as u64;
            return;
        };
        for (k, record) in records.iter().enumerate() {
            match tcp.get(k) {
                Some(sample) => log.record_tcp(record, Some(sample)),
                None => log.record(record),
            }
        }
        log.flush();
    }

    /// Returns the log for complete records: a successor if rows were already written before the records were complete,
    /// otherwise the log itself. `None` if the log file has been removed or replaced.
    fn last_log(&mut self) -> Option<&mut LogFile> {
        if self.grew && !self.gone && self.successor.is_none() {
            match self.log.successor() {
                Ok(mut log) => {
                    if let Some(session) = &self.begun {
                        log.begin(session);
                    }
                    self.successor = Some(log);
                }
                // Closing the log will report the error.
                Err(_) if !self.log.is_there() => self.gone = true,
                Err(e) => {
                    self.grew = false;
                    let log = self.path.display();
                    self.troubles.push(format!(
                        "{e}; {log} lists every packet twice, first without the sender's stamps"
                    ));
                }
            }
        }
        if self.gone { None } else { Some(self.successor.as_mut().unwrap_or(&mut self.log)) }
    }

    /// Writes the facts that became known since the header was written, and closes the log.
    fn close(mut self, session: &Session) -> Closed {
        self.begin(session);
        let path = self.path;
        let is_there = self.log.is_there();
        let lacks = match self.missed {
            0 => String::new(),
            missed => format!(", and lacks {missed} packets that arrived"),
        };
        if self.missed > 0 {
            let (ending, reason) =
                (Ending::StorageFailed, Some(format!("{} packets have no row", self.missed)));
            self.log.finish(&Session { ending, reason, ..session.clone() });
        } else {
            self.log.finish(session);
        }
        let current = self.log.current_path().to_owned();
        // Close the log first: once it is replaced, its name refers to another file.
        let closed = self.log.close().map_err(|e| WriteError { lost: e.lost.max(self.unwritten), ..e });
        // A log of version 1 or 2 whose test did not end keeps its preliminary name.
        let public = path;
        let path =
            closed.as_ref().map_or_else(|_| current.strip_prefix(".").unwrap_or(&current), |(path, _)| path);
        let path = path.strip_prefix(".").unwrap_or(path).to_owned();
        let replaced = self.successor.map(|mut log| {
            log.finish(session);
            if is_there || !path.exists() {
                return log.replace(&path).map(|_| path.clone());
            }
            log.close().map(|(path, _)| path)
        });
        let mut troubles = self.troubles;
        if path != public && is_part(&path) && closed.is_ok() {
            let (public, part) = (public.display(), path.display());
            troubles.push(format!(
                "the log is {part}, not {public}: the test did not end as agreed, so rows may be missing, or another file \
                 has that name"
            ));
        }
        let (log, broken) = match (closed, replaced) {
            (_, Some(Ok(whole))) => {
                if whole != path {
                    let (log, whole) = (path.display(), whole.display());
                    troubles.push(format!(
                        "{log} was replaced by another file during the test; the complete log is {whole}"
                    ));
                }
                (Some(whole), None)
            }
            (Ok(_), None) => (Some(path), None),
            (Ok(_), Some(Err(e))) => {
                let broken = format!("{e}; {} has stamps of the sending program only{lacks}", path.display());
                (Some(path), Some(broken))
            }
            (Err(e), _) => (is_there.then_some(path), Some(e.to_string())),
        };
        troubles.extend(broken.clone());
        // Standard output cannot be read again. A log without any line was removed.
        let log = log.filter(|path| path.as_os_str() != STDOUT && path.exists());
        Closed { log, broken, troubles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{LogReader, LogVersion, Naming};
    use jitlat_core::analysis::analyze;
    use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport, WallTime};

    fn spec_of(packets: u64) -> TestSpec {
        let period = Span::millis(20);
        TestSpec::new(Direction::Down, Transport::Udp, packets, 80, period, Schedule::Periodic).unwrap()
    }

    /// Files in `folder`, with their contents.
    fn files(folder: &std::path::Path) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
        let mut files: Vec<_> = entries
            .map(|e| (e.file_name().into_string().unwrap(), std::fs::read_to_string(e.path()).unwrap()))
            .collect();
        files.sort_unstable();
        files
    }

    #[test]
    fn a_log_of_an_old_version_gets_its_name_when_it_is_whole() {
        for version in [LogVersion::V1, LogVersion::V2] {
            for (ending, sent, name, npkts) in [
                (Ending::Complete, Some(400), "old.log", 400),
                (Ending::Interrupted, Some(60), "old.log", 60),
                (Ending::Interrupted, None, "old.log.part", 400),
                (Ending::PeerLost, Some(60), "old.log.part", 60),
            ] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("old.log");
                let mut journals =
                    Journals::new([LogFile::create(&Naming::Given(path.clone()), version).unwrap()]);
                let session = Session::new(spec_of(400));
                journals.event(&Event::Started(std::slice::from_ref(&session)));
                let start = 1_763_697_001_000_000_000;
                let records: Vec<PacketRecord> = (0..50)
                    .map(|seq| PacketRecord::one_way(seq, WallTime(start), WallTime(start + seq)))
                    .collect();
                journals.event(&Event::Arrived { stream: 0, records: &records });
                let running = files(folder.path());
                assert_eq!(running.len(), 1);
                assert_eq!(running[0].0, "old.log.part");
                assert_eq!(running[0].1.lines().filter(|l| !l.starts_with('#')).count(), 50);
                journals.event(&Event::Records { stream: 0, records: &records, tcp: &[] });
                journals.event(&Event::Finished(&[Session { ending, sent, ..session }]));
                let closed = journals.close().pop().unwrap();
                let ended = files(folder.path());
                assert_eq!(ended.len(), 1, "{ending:?}: {ended:?}");
                assert_eq!(ended[0].0, name, "{ending:?} {version:?}");
                assert!(ended[0].1.contains(&format!("# npkts {npkts}\n")), "{ending:?} {version:?}");
                assert_eq!(closed.log, Some(folder.path().join(name)));
                assert_eq!(
                    closed.troubles.len(),
                    usize::from(name.ends_with(".part")),
                    "{:?}",
                    closed.troubles
                );
                assert_eq!(closed.broken, None);
            }
        }
    }

    #[test]
    fn a_name_that_was_taken_during_the_test_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.log");
        let log = LogFile::create(&Naming::Given(path.clone()), LogVersion::V1).unwrap();
        let mut journals = Journals::new([log]);
        let session = Session::new(spec_of(1));
        journals.event(&Event::Started(std::slice::from_ref(&session)));
        std::fs::write(&path, "precious").unwrap();
        let record = PacketRecord::one_way(0, WallTime(1), WallTime(2));
        journals.event(&Event::Records { stream: 0, records: &[record], tcp: &[] });
        journals.event(&Event::Finished(&[Session { ending: Ending::Complete, sent: Some(1), ..session }]));
        let closed = journals.close().pop().unwrap();
        assert_eq!(closed.log, Some(folder.path().join("old.log.part")));
        assert!(closed.troubles[0].contains("another file has that name"), "{:?}", closed.troubles);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        // The name of a part is protected as well.
        std::fs::remove_file(&path).unwrap();
        assert!(LogFile::create(&Naming::Given(path), LogVersion::V1).is_err());
    }

    /// The program is killed after the disk was too slow for some packets.
    #[test]
    fn packets_without_a_row_do_not_look_lost_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("slow.log");
        let period = Span::millis(20);
        let spec =
            TestSpec::new(Direction::Down, Transport::Udp, 400, 80, period, Schedule::Periodic).unwrap();
        let records = |numbers: std::ops::Range<i64>| -> Vec<PacketRecord> {
            let record = |seq: i64| {
                let sent = 1_763_697_001_000_000_000 + seq * 20_000_000;
                PacketRecord::one_way(seq, WallTime(sent), WallTime(sent + 1_000_000))
            };
            numbers.map(record).collect()
        };
        let mut journals =
            Journals::new([LogFile::create(&Naming::Given(path.clone()), LogVersion::V3).unwrap()]);
        journals.event(&Event::Started(&[Session::new(spec)]));
        let stream = 0;
        journals.event(&Event::Arrived { stream, records: &records(0..100) });
        journals.event(&Event::Missed { stream, packets: 150 });
        // Packets 250 to 259 are lost on the path; the range of packets with unknown fate includes them.
        journals.event(&Event::Arrived { stream, records: &records(260..300) });
        journals.event(&Event::Arrived { stream, records: &records(310..350) });

        let mut reader = LogReader::open(&path).unwrap();
        let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        let summary = analyze(reader.session(), records, &jitlat_verdict::options());
        assert_eq!((summary.counts.sent, summary.counts.lost), (190, 10));
        assert!(!summary.answer.unwrap().complete);
    }
}
