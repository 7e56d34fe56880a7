//! [`Analyses`]: computes the figures of a test from its events. [`RecordCollector`]: collects the records.

use jitlat_core::analysis::{Analyzer, Options, Samples};
use jitlat_core::observer::{Event, Observer};
use jitlat_core::summary::Summary;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{PacketRecord, Session};

/// One stream and its analysis.
#[derive(Clone, Debug)]
pub struct Analysed {
    /// Facts about the stream: specification, hosts, times, ending.
    pub session: Session,
    /// All figures.
    pub summary: Summary,
    /// Accepted packets from which the figures are computed; empty after an analysis in constant memory.
    pub samples: Samples,
}

/// An observer that analyses every stream of a test when its final records arrive.
#[derive(Debug)]
pub struct Analyses {
    options: Options,
    streams: Vec<(Session, Option<Analyzer>)>,
}

impl Analyses {
    /// Creates an observer that analyses with `options`.
    pub fn new(options: Options) -> Analyses {
        Analyses { options, streams: Vec::new() }
    }

    /// Returns the sessions of all streams, so that a caller can add data to them.
    pub fn sessions_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.streams.iter_mut().map(|(session, _)| session)
    }

    /// Returns the analysis of each stream; empty if the test never began.
    pub fn finish(self) -> Vec<Analysed> {
        let analysed = |(session, analyzer): (Session, Option<Analyzer>)| {
            let analyzer = analyzer.unwrap_or_else(|| Analyzer::new(&session, &self.options));
            let (summary, samples) = analyzer.finish_with_samples(&session);
            Analysed { session, summary, samples }
        };
        self.streams.into_iter().map(analysed).collect()
    }
}

impl Observer for Analyses {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Started(sessions) | Event::Concluding(sessions) | Event::Finished(sessions) => {
                self.streams.resize_with(sessions.len(), || (sessions[0].clone(), None));
                for ((known, _), session) in self.streams.iter_mut().zip(sessions) {
                    known.clone_from(session);
                }
            }
            Event::Records { stream, records, .. } => {
                let Some((session, analyzer)) = self.streams.get_mut(stream) else { return };
                let analyzer = analyzer.get_or_insert_with(|| Analyzer::new(session, &self.options));
                analyzer.push_all(records);
            }
            _ => {}
        }
    }
}

/// An observer that stores the final records of every stream.
#[derive(Clone, Debug, Default)]
pub struct RecordCollector {
    /// Records by stream, in arrival order.
    pub records: Vec<Vec<PacketRecord>>,
    /// TCP_INFO samples of the kernel, one per record, by stream; empty unless the stream ran over TCP.
    pub tcp: Vec<Vec<TcpSample>>,
}

impl Observer for RecordCollector {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Records { stream, records, tcp } = *event {
            let streams = self.records.len().max(stream + 1);
            self.records.resize_with(streams, Vec::new);
            self.tcp.resize_with(streams, Vec::new);
            self.records[stream].extend_from_slice(records);
            self.tcp[stream].extend_from_slice(tcp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::session::Ending;
    use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport, WallTime};

    fn session(packets: u64) -> Session {
        let period = Span::millis(20);
        Session::new(
            TestSpec::new(Direction::Up, Transport::Udp, packets, 80, period, Schedule::Periodic).unwrap(),
        )
    }

    #[test]
    fn each_stream_is_analysed_by_itself() {
        let record = |seq| PacketRecord::one_way(seq, WallTime(seq * 1000), WallTime(seq * 1000 + 50));
        let sessions = [session(3), session(2)];
        let (mut analyses, mut kept) = (Analyses::new(jitlat_verdict::options()), RecordCollector::default());
        let mut both: [&mut dyn Observer; 2] = [&mut analyses, &mut kept];
        both.event(&Event::Started(&sessions));
        both.event(&Event::Records { stream: 1, records: &[record(0)], tcp: &[] });
        both.event(&Event::Records { stream: 0, records: &[record(0), record(2)], tcp: &[] });
        both.event(&Event::Records { stream: 1, records: &[record(1)], tcp: &[] });
        let ended = sessions.map(|s| Session { sent: Some(s.spec.packets()), ending: Ending::Complete, ..s });
        both.event(&Event::Finished(&ended));
        assert_eq!(kept.records.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
        let lost: Vec<u64> = analyses.finish().iter().map(|a| a.summary.counts.lost).collect();
        assert_eq!(lost, [1, 0]);
        assert!(Analyses::new(jitlat_verdict::options()).finish().is_empty());
    }
}
