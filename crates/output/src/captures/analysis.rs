//! [`DirectionAnalysis`]: analyses the records of one direction on a separate thread, so that the matching of packets
//! does not have to wait.

use crate::error::{Context, Error, Result};
use jitlat_core::analysis::{Analyzer, Samples};
use jitlat_core::{PacketRecord, Session, Summary};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Number of records passed to the thread at a time.
const RECORDS_PER_BATCH: usize = 1024;
/// Maximum number of queued batches.
const MAX_QUEUED_BATCHES: usize = 8;

/// Input of the analysis thread.
enum AnalysisInput {
    Records(Vec<PacketRecord>),
    /// End of the records, and the complete session.
    End(Box<Session>),
}

/// A running analysis.
pub struct DirectionAnalysis {
    given: SyncSender<AnalysisInput>,
    /// Records that have not been passed to the thread.
    next: Vec<PacketRecord>,
    thread: JoinHandle<Option<(Summary, Samples)>>,
}

/// An analysis that has received all records but has not finished.
pub struct Concluding(JoinHandle<Option<(Summary, Samples)>>);

impl DirectionAnalysis {
    /// Starts `analyzer` on a separate thread.
    pub fn start(mut analyzer: Analyzer) -> Result<DirectionAnalysis> {
        let (given, taken) = sync_channel(MAX_QUEUED_BATCHES);
        let analyse = move || {
            for given in taken {
                match given {
                    AnalysisInput::Records(records) => analyzer.push_all(&records),
                    AnalysisInput::End(session) => return Some(analyzer.finish_with_samples(&session)),
                }
            }
            None
        };
        let thread = std::thread::Builder::new().name("analysis".to_owned());
        let thread = thread.spawn(analyse).context("starting a thread for the analysis")?;
        Ok(DirectionAnalysis { given, next: Vec::with_capacity(RECORDS_PER_BATCH), thread })
    }

    /// Adds the next records, in arrival order. Blocks while the analysis is far behind.
    pub fn push_all(&mut self, records: &[PacketRecord]) {
        self.next.extend_from_slice(records);
        if self.next.len() >= RECORDS_PER_BATCH {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let records = std::mem::replace(&mut self.next, Vec::with_capacity(RECORDS_PER_BATCH));
        // If the thread has failed, this is reported at the end.
        let _ = self.given.send(AnalysisInput::Records(records));
    }

    /// Ends the input. The analysis continues in its thread, and [`Concluding::wait`] returns its result.
    pub fn end(mut self, session: &Session) -> Concluding {
        self.hand_over();
        let _ = self.given.send(AnalysisInput::End(Box::new(session.clone())));
        Concluding(self.thread)
    }
}

impl Concluding {
    /// Waits for the summary and the retained packets.
    pub fn wait(self) -> Result<(Summary, Samples)> {
        self.0
            .join()
            .ok()
            .flatten()
            .ok_or_else(|| Error::Unfit("the analysis thread failed (a bug in jitlat)".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::{TestSpec, WallTime};

    #[test]
    fn what_comes_in_pieces_is_analysed_as_all_at_once() {
        let sent = 3 * RECORDS_PER_BATCH + 7;
        let session = Session { sent: Some(sent as u32), ..Session::new(TestSpec::default()) };
        let record = |seq: i64| {
            PacketRecord::one_way(seq, WallTime(seq * 1_000_000), WallTime(seq * 1_000_000 + 500 + seq % 7))
        };
        let records: Vec<PacketRecord> = (0..sent as i64).filter(|seq| seq % 50 != 3).map(record).collect();
        let begun = || Analyzer::new(&session, &jitlat_verdict::options());
        let mut all = begun();
        all.push_all(&records);
        let mut pieces = DirectionAnalysis::start(begun()).unwrap();
        records.chunks(300).for_each(|piece| pieces.push_all(piece));
        let (summary, samples) = pieces.end(&session).wait().unwrap();
        assert_eq!((summary, samples), all.finish_with_samples(&session));
    }
}
