//! [`DirectionRecords`]: collects the records of both directions for the observer, in bounded memory.

use jitlat_core::spec::Direction;
use jitlat_core::spec::MAX_PACKETS;
use jitlat_core::{Event, Observer, PacketRecord, Session, Span};
use jitlat_passive::streams::session;
use jitlat_passive::{Sides, StreamSink};

/// Maximum number of records per direction that are stored until the direction's session is complete; further records
/// are sent early.
const MAX_HELD_RECORDS: usize = 1 << 20;
/// Maximum number of records per event.
const MAX_RECORDS_PER_EVENT: usize = 1 << 14;

/// Stores the records of both directions until the sessions are complete or too many records are stored.
pub(super) struct DirectionRecords {
    /// Sessions, whose packet counts and times are not known yet.
    sessions: [Session; 2],
    held: [Vec<PacketRecord>; 2],
    /// True for each direction whose records are sent as they arrive.
    open: [bool; 2],
    started: bool,
}

impl DirectionRecords {
    /// Creates an empty collection; `sides` contains the addresses as seen at each point.
    pub(super) fn new(sides: &[Sides; 2]) -> DirectionRecords {
        let unknown = |direction| {
            let mut session = session(direction, sides, MAX_PACKETS.into(), 0, Span(0));
            session.sent = None;
            session
        };
        DirectionRecords {
            sessions: Direction::BOTH.map(unknown),
            held: Default::default(),
            open: [false; 2],
            started: false,
        }
    }

    /// Sends the records that exceed the storage to `observer`.
    pub(super) fn forward(&mut self, observer: &mut dyn Observer) {
        for direction in Direction::BOTH.map(|w| w as usize) {
            if self.held[direction].len() >= MAX_HELD_RECORDS {
                self.open[direction] = true;
                if !std::mem::replace(&mut self.started, true) {
                    observer.event(&Event::Started(&self.sessions));
                }
            }
            if self.open[direction] && !self.held[direction].is_empty() {
                self.send(direction, observer);
            }
        }
    }

    /// Sends all remaining records to `observer`.
    pub(super) fn finish(mut self, sessions: &[Session; 2], observer: &mut dyn Observer) {
        if !self.started {
            observer.event(&Event::Started(sessions));
        }
        observer.event(&Event::Concluding(sessions));
        Direction::BOTH.iter().for_each(|direction| self.send(*direction as usize, observer));
        observer.event(&Event::Finished(sessions));
    }

    fn send(&mut self, direction: usize, observer: &mut dyn Observer) {
        for records in self.held[direction].chunks(MAX_RECORDS_PER_EVENT) {
            observer.event(&Event::Records { stream: direction, records, tcp: &[] });
        }
        self.held[direction].clear();
    }
}

impl StreamSink for DirectionRecords {
    #[inline]
    fn record(&mut self, direction: Direction, record: &PacketRecord) {
        self.held[direction as usize].push(*record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::WallTime;

    /// Returns the events that an observer receives: S (started), C (concluding), F (finished), and for
    /// records the stream and their number.
    fn events(records: [usize; 2]) -> Vec<String> {
        let mut seen: Vec<String> = Vec::new();
        let mut known = Vec::new();
        let mut observer = |event: &Event<'_>| match event {
            Event::Started(s) => {
                known.push(s[0].sent.is_some());
                seen.push("S".into());
            }
            Event::Concluding(_) => seen.push("C".into()),
            Event::Finished(_) => seen.push("F".into()),
            Event::Records { stream, records, .. } => match seen.last_mut() {
                Some(last) if last.starts_with(&format!("{stream}:")) => {
                    let n: usize = last[2..].parse().unwrap();
                    *last = format!("{stream}:{}", n + records.len());
                }
                _ => seen.push(format!("{stream}:{}", records.len())),
            },
            _ => {}
        };
        let mut held = DirectionRecords::new(&Default::default());
        let most = records[0].max(records[1]);
        for i in 0..most {
            for direction in Direction::BOTH {
                if i < records[direction as usize] {
                    held.record(direction, &PacketRecord::one_way(i as i64, WallTime(0), WallTime(1)));
                }
            }
            if i % 100_000 == 0 {
                held.forward(&mut observer);
            }
        }
        held.forward(&mut observer);
        let sessions = Direction::BOTH.map(|w| session(w, &Default::default(), 7, 100, Span(1)));
        held.finish(&sessions, &mut observer);
        assert_eq!(
            known,
            [most < MAX_HELD_RECORDS],
            "how many there are is known from the beginning of few only"
        );
        seen
    }

    #[test]
    fn of_few_everything_is_known_first_and_of_many_nothing_is_held() {
        assert_eq!(events([5, 3]), ["S", "C", "0:5", "1:3", "F"]);
        let many = MAX_HELD_RECORDS + 300_000;
        let seen = events([many, 3]);
        assert_eq!((seen.first(), seen.last()), (Some(&"S".to_owned()), Some(&"F".to_owned())));
        assert_eq!(seen[1..], [format!("0:{many}"), "C".into(), "1:3".into(), "F".into()]);
    }
}
