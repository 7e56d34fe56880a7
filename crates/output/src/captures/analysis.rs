//! [`DirectionAnalysis`]: a thread that analyses the records of one way, so that matching packets does not wait for it.

use crate::error::{Context, Error, Result};
use jitlat_core::analysis::{Analyzer, Samples};
use jitlat_core::{PacketRecord, Session, Summary};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Records handed over at once.
const RECORDS_PER_BATCH: usize = 1024;
/// Batches that can be queued.
const MAX_QUEUED_BATCHES: usize = 8;

/// What the thread is given.
enum AnalysisInput {
    Records(Vec<PacketRecord>),
    /// There are no more: the session, of which everything is known.
    End(Box<Session>),
}

/// A running analysis.
pub struct DirectionAnalysis {
    given: SyncSender<AnalysisInput>,
    /// Records that are not handed over yet.
    next: Vec<PacketRecord>,
    thread: JoinHandle<Option<(Summary, Samples)>>,
}

/// An analysis that has all its records.
pub struct Concluding(JoinHandle<Option<(Summary, Samples)>>);

impl DirectionAnalysis {
    /// Starts `analyzer` on a thread of its own.
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

    /// The next records, in arrival order. Waits while the analysis is far behind.
    pub fn push_all(&mut self, records: &[PacketRecord]) {
        self.next.extend_from_slice(records);
        if self.next.len() >= RECORDS_PER_BATCH {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let records = std::mem::replace(&mut self.next, Vec::with_capacity(RECORDS_PER_BATCH));
        // A thread that is lost is reported at the end.
        let _ = self.given.send(AnalysisInput::Records(records));
    }

    /// There are no more records. The analysis goes on beside the caller.
    pub fn end(mut self, session: &Session) -> Concluding {
        self.hand_over();
        let _ = self.given.send(AnalysisInput::End(Box::new(session.clone())));
        Concluding(self.thread)
    }
}

impl Concluding {
    /// Waits for the summary, and the accepted packets as far as they are kept.
    pub fn wait(self) -> Result<(Summary, Samples)> {
        self.0
            .join()
            .ok()
            .flatten()
            .ok_or_else(|| Error::Unfit("a thread that analysed packets has failed".to_owned()))
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
