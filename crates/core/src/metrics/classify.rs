//! Classification of rows (metrics §1): decides whether a row is accepted, a duplicate or invalid.
//!
//! Rows are classified in arrival order. If a stream has two parts, one classifier can continue across the boundary.
//! Alternatively, each part has its own classifier, and the second part is classified again when it is appended to the
//! first ([`crate::Analyzer::append`]). In both cases the figures are those of the whole stream.

use super::seqset::SeqSet;
use crate::record::PacketRecord;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// An accepted packet: the first valid copy of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedPacket {
    /// Sequence number.
    pub seq: u32,
    /// Send time, ns since 1970 on the sender's clock.
    pub sent: i64,
    /// Raw delay, in ns; any sign.
    pub delay: i64,
}

impl AcceptedPacket {
    /// Arrival time, ns since 1970 on the receiver's clock.
    #[inline]
    pub fn arrived(&self) -> i64 {
        self.sent.wrapping_add(self.delay)
    }
}

/// Class of a row. The first variant that applies is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// First clean copy of a packet.
    Accepted(AcceptedPacket),
    /// Another copy of an accepted packet, regardless of its flags.
    Duplicate(u32),
    /// A row with an anomaly flag, or whose times are missing or too far apart to subtract. It is a duplicate if its
    /// number was accepted before.
    Damaged(u32),
    /// Sequence number out of range.
    Invalid,
}

/// Classifies rows in arrival order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Classifier {
    /// Number of packets in the test; not stored.
    #[serde(skip)]
    packets: u32,
    /// Sequence numbers accepted so far.
    pub accepted: SeqSet,
    /// Number of rows so far.
    pub received: u64,
    /// Number of invalid rows.
    pub invalid: u64,
}

impl Classifier {
    /// Creates a classifier for a test of `packets` packets; sequence numbers below `packets` are valid.
    pub fn new(packets: u32) -> Classifier {
        Classifier { packets, accepted: SeqSet::default(), received: 0, invalid: 0 }
    }

    /// Returns the number of packets; sequence numbers below it are valid.
    pub(crate) fn packets(&self) -> u32 {
        self.packets
    }

    /// Changes the number of packets.
    pub(crate) fn set_packets(&mut self, packets: u32) {
        self.packets = packets;
    }

    /// Classifies the next row.
    #[inline]
    pub fn classify(&mut self, record: &PacketRecord) -> Class {
        match self.number(record) {
            Some(seq) => self.classify_row(seq, Classifier::packet(record)),
            None => {
                self.refuse();
                Class::Invalid
            }
        }
    }

    /// Classifies the next row, which has the valid sequence number `seq`. `packet` is given if the row is a clean
    /// copy.
    #[inline]
    pub(crate) fn classify_row(&mut self, seq: u32, packet: Option<AcceptedPacket>) -> Class {
        self.received += 1;
        match packet {
            Some(packet) if self.accepted.insert(seq) => Class::Accepted(packet),
            None if !self.accepted.contains(seq) => {
                self.invalid += 1;
                Class::Damaged(seq)
            }
            _ => Class::Duplicate(seq),
        }
    }

    /// Returns the number after the highest accepted sequence number.
    pub(crate) fn next(&self) -> u64 {
        self.accepted.max().map_or(0, |seq| u64::from(seq) + 1)
    }

    /// Accepts clean rows, given as runs of sequence numbers that ascend from [`Classifier::next`].
    pub(crate) fn accept_all(&mut self, runs: impl Iterator<Item = Range<u32>>) {
        for run in runs {
            self.received += run.len() as u64;
            self.accepted.insert_run(run);
        }
    }

    /// Accepts the next row, a clean row with the valid number `seq`, if it is the first copy. Otherwise returns false
    /// without counting the row, which must still be [classified](Classifier::classify).
    #[inline]
    pub(crate) fn accept(&mut self, seq: u32) -> bool {
        let new = self.accepted.insert(seq);
        self.received += u64::from(new);
        new
    }

    /// Counts a row as invalid.
    pub(crate) fn refuse(&mut self) {
        self.received += 1;
        self.invalid += 1;
    }

    /// Returns the sequence number of a row; `None` if it is invalid.
    #[inline]
    pub(crate) fn number(&self, record: &PacketRecord) -> Option<u32> {
        u32::try_from(record.seq).ok().filter(|seq| *seq < self.packets)
    }

    /// Returns the packet of a clean row; `None` if the row is flagged or has no delay.
    #[inline]
    pub(crate) fn packet(record: &PacketRecord) -> Option<AcceptedPacket> {
        let times = record.sent().zip(record.delay()).filter(|_| record.flags.is_clean());
        times.map(|(sent, delay)| AcceptedPacket { seq: record.seq as u32, sent: sent.0, delay: delay.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Flags;
    use crate::time::WallTime;

    #[test]
    fn the_edge_log() {
        // metrics §1, vector G-d.
        let rows: [(i64, u16); 15] = [
            (0, 0),
            (1, 0),
            (4, 0),
            (2, 0),
            (4, 0),
            (12, 0),
            (5, 0),
            (3, 0),
            (7, 1),
            (7, 0),
            (9, 0),
            (8, 0),
            (-2, 0),
            (11, 0),
            (11, 4),
        ];
        let mut classifier = Classifier::new(12);
        let mut accepted = Vec::new();
        let mut duplicates = 0;
        for (seq, flags) in rows {
            let mut record = PacketRecord::one_way(seq, WallTime(0), WallTime(1));
            record.flags = Flags(flags);
            match classifier.classify(&record) {
                Class::Accepted(p) => accepted.push(p.seq),
                Class::Duplicate(_) => duplicates += 1,
                Class::Damaged(_) | Class::Invalid => {}
            }
        }
        assert_eq!(accepted, [0, 1, 4, 2, 5, 3, 7, 9, 8, 11]);
        assert_eq!((classifier.received, duplicates, classifier.invalid), (15, 2, 3));
    }

    #[test]
    fn more_numbers_may_become_valid() {
        let mut classifier = Classifier::new(2);
        let row = PacketRecord::one_way(2, WallTime(10), WallTime(14));
        assert_eq!((classifier.classify(&row), classifier.packets()), (Class::Invalid, 2));
        classifier.set_packets(5);
        assert_eq!(classifier.packets(), 5);
        let Class::Accepted(packet) = classifier.classify(&row) else { panic!("valid now") };
        assert_eq!((packet.sent, packet.delay, packet.arrived()), (10, 4, 14));
    }

    #[test]
    fn times_that_cannot_be_subtracted_are_invalid() {
        let mut classifier = Classifier::new(3);
        let far = PacketRecord::one_way(0, WallTime(i64::MIN + 1), WallTime(i64::MAX));
        assert_eq!(classifier.classify(&far), Class::Damaged(0));
        assert_eq!(classifier.classify(&PacketRecord::new(1)), Class::Damaged(1));
        let negative = PacketRecord::one_way(0, WallTime(7), WallTime(3));
        assert_eq!(
            classifier.classify(&negative),
            Class::Accepted(AcceptedPacket { seq: 0, sent: 7, delay: -4 })
        );
    }
}
