//! [`RowNotes`]: notes about single rows, beyond their sequence numbers and delays.

use super::bounded;
use crate::metrics::seqset::SeqSet;
use crate::time::StampSource;
use serde::{Deserialize, Serialize};

/// Long stays in the hosts, payload sizes, and TTL changes of the packets received.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowNotes {
    /// Packets that spent a millisecond or more in the sending host before their send stamp: sequence number, and time
    /// in ns.
    pub sent_late: Vec<(u32, i64)>,
    /// Packets that spent a millisecond or more in the queue of the sending host's interface, according to kernel
    /// stamps on entry and departure: sequence number, and time in ns.
    #[serde(default)]
    pub queued: Vec<(u32, i64)>,
    /// True if the kernel stamped the queue entry of at least one packet. Otherwise the time in the queue is part of
    /// `sent_late`.
    #[serde(default)]
    pub entries: bool,
    /// Packets whose queue entry the kernel did not stamp, and that left a millisecond or more after the program's
    /// clock reading: sequence number, and time in ns. If other packets have a stamp of their queue entry, the stamps
    /// of these packets were lost.
    #[serde(default)]
    pub unentered: Vec<(u32, i64)>,
    /// Packets that spent a millisecond or more in the receiving host after their arrival stamp: sequence number, and
    /// time in ns.
    pub read_late: Vec<(u32, i64)>,
    /// Payload size of each packet received, with its sequence number; empty while all packets have the same size.
    pub sizes: Vec<(u32, u16)>,
    /// TTL changes: sequence number of the first packet received with the new value, and the value.
    pub ttl: Vec<(u32, u8)>,
    /// Payload size common to all rows so far, in bytes; `None` before the first row with a known size.
    only_size: Option<u16>,
    last_ttl: Option<u8>,
}

/// Maximum number of listed TTL changes.
const MAX_TTL_CHANGES: usize = 64;
/// Minimum time in a host for a packet to be listed, in ns.
const MIN_STAY_NS: i64 = 1_000_000;

impl RowNotes {
    /// Adds notes on an accepted row.
    #[inline]
    pub fn push(&mut self, record: &crate::PacketRecord, seq: u32) {
        self.lags(record, seq);
        self.seen(record, seq);
    }

    /// Adds the time spent in the hosts.
    #[inline]
    fn lags(&mut self, record: &crate::PacketRecord, seq: u32) {
        if let Some(lag) = record.send_lag().filter(|l| l.0 >= MIN_STAY_NS) {
            self.sent_late.push((seq, bounded(lag.0)));
        }
        if let Some((time, source)) = record.local_queue() {
            let stamped = source == StampSource::Kernel;
            self.entries |= stamped;
            if time.0 >= MIN_STAY_NS {
                let noted = if stamped { &mut self.queued } else { &mut self.unentered };
                noted.push((seq, bounded(time.0)));
            }
        }
        if let Some(lag) = record.receive_lag().filter(|l| l.0 >= MIN_STAY_NS) {
            self.read_late.push((seq, bounded(lag.0)));
        }
    }

    /// Adds the size and the TTL.
    #[inline]
    fn seen(&mut self, record: &crate::PacketRecord, seq: u32) {
        if record.ttl() != self.last_ttl
            && let Some(ttl) = record.ttl()
        {
            self.last_ttl = Some(ttl);
            if self.ttl.len() < MAX_TTL_CHANGES {
                self.ttl.push((seq, ttl));
            }
        }
        if let Some(size) = record.size() {
            self.size(seq, size);
        }
    }

    /// Adds notes on accepted rows. `alike` is true if they differ only in sequence numbers, times and lags; `lags` is
    /// true if any of them has lags.
    pub fn push_all(&mut self, rows: &[crate::PacketRecord], seqs: &[u32], alike: bool, lags: bool) {
        let Some(first) = rows.first() else { return };
        if lags {
            rows.iter().zip(seqs).for_each(|(row, seq)| self.lags(row, *seq));
        }
        // If all rows are alike, the first one represents all, unless the size of each packet is listed.
        let of_one_size =
            self.sizes.is_empty() && self.only_size.zip(first.size()).is_none_or(|(a, b)| a == b);
        let shown = if alike && of_one_size { 1 } else { rows.len() };
        rows.iter().zip(seqs).take(shown).for_each(|(row, seq)| self.seen(row, *seq));
    }

    /// Iterates over packets that spent a millisecond or more in the queue of the sending host's interface: sequence
    /// number, and time in ns. The times are upper bounds for packets whose queue entry the kernel did not stamp.
    pub fn waits(&self) -> impl Iterator<Item = (u32, i64)> + '_ {
        let (stamped, others): (&[_], &[_]) =
            if self.entries { (&self.queued, &self.unentered) } else { (&[], &self.sent_late) };
        stamped.iter().chain(others).copied()
    }

    /// Returns the payload size of all packets received; `None` if it varies.
    pub fn only_size(&self) -> Option<u16> {
        self.only_size.filter(|_| self.sizes.is_empty())
    }

    fn size(&mut self, seq: u32, size: u16) {
        // Sizes are listed from the first one that differs; if all are equal, none is listed.
        if self.only_size.is_none_or(|only| only == size) && self.sizes.is_empty() {
            self.only_size = Some(size);
        } else {
            self.sizes.push((seq, size));
        }
    }

    /// Adds the notes `next` on the rows that follow. `seqs` are the sequence numbers of these rows in order of
    /// arrival. Only notes on new packets are added.
    pub fn append(&mut self, next: &RowNotes, seqs: &[u32], is_new: impl Fn(u32) -> bool) {
        self.sent_late.extend(next.sent_late.iter().filter(|(seq, _)| is_new(*seq)));
        self.queued.extend(next.queued.iter().filter(|(seq, _)| is_new(*seq)));
        self.unentered.extend(next.unentered.iter().filter(|(seq, _)| is_new(*seq)));
        self.entries |= next.entries;
        self.read_late.extend(next.read_late.iter().filter(|(seq, _)| is_new(*seq)));
        // The first entry is the initial TTL of these packets, which may be the TTL of the packets before.
        let changes =
            next.ttl.iter().enumerate().filter(|(k, (_, ttl))| *k > 0 || Some(*ttl) != self.last_ttl);
        let room = MAX_TTL_CHANGES.saturating_sub(self.ttl.len());
        self.ttl.extend(changes.map(|(_, change)| *change).take(room));
        self.last_ttl = next.last_ttl.or(self.last_ttl);
        let Some(size) = next.only_size else { return };
        // Sizes are listed from the first that differs; all rows before have the common size.
        let before = seqs.len().saturating_sub(next.sizes.len());
        if self.sizes.is_empty() && self.only_size.is_none_or(|only| only == size) {
            self.only_size = Some(size);
        } else {
            seqs[..before].iter().filter(|seq| is_new(**seq)).for_each(|seq| self.size(*seq, size));
        }
        next.sizes.iter().filter(|(seq, _)| is_new(*seq)).for_each(|(seq, size)| self.size(*seq, *size));
    }

    /// Splits off the notes on packets from `number` on, and renumbers these packets from 0.
    pub fn split(&mut self, number: u32) -> RowNotes {
        fn later<T: Copy>(of: &mut Vec<(u32, T)>, number: u32) -> Vec<(u32, T)> {
            let moved = of.iter().filter_map(|(seq, x)| Some((seq.checked_sub(number)?, *x))).collect();
            of.retain(|(seq, _)| *seq < number);
            moved
        }
        RowNotes {
            sent_late: later(&mut self.sent_late, number),
            queued: later(&mut self.queued, number),
            entries: self.entries,
            unentered: later(&mut self.unentered, number),
            read_late: later(&mut self.read_late, number),
            sizes: later(&mut self.sizes, number),
            ttl: later(&mut self.ttl, number),
            only_size: self.only_size,
            last_ttl: self.last_ttl,
        }
    }

    /// Returns the notes with `by` added to each sequence number.
    pub fn shifted(mut self, by: u32) -> RowNotes {
        let late = self.sent_late.iter_mut().chain(&mut self.queued).chain(&mut self.unentered);
        let late = late.chain(&mut self.read_late);
        let times = late.map(|(seq, _)| seq);
        let others = self.sizes.iter_mut().map(|(seq, _)| seq).chain(self.ttl.iter_mut().map(|(seq, _)| seq));
        times.chain(others).for_each(|seq| *seq = seq.saturating_add(by));
        self
    }

    /// Returns true if these can be notes on the packets `accepted`. Checks only the properties that verdicts rely on.
    pub fn is_possible(&self, accepted: &SeqSet) -> bool {
        let late = |stays: &[(u32, i64)]| {
            stays.iter().all(|(seq, ns)| accepted.contains(*seq) && *ns >= MIN_STAY_NS && bounded(*ns) == *ns)
        };
        late(&self.sent_late)
            && late(&self.queued)
            && late(&self.unentered)
            && late(&self.read_late)
            && self.sizes.iter().all(|(seq, _)| accepted.contains(*seq))
            && self.ttl.iter().all(|(seq, _)| accepted.contains(*seq))
            && self.ttl.len() <= MAX_TTL_CHANGES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PacketRecord;
    use crate::testing::{MS, first};
    use crate::time::{Span, WallTime};

    /// Returns a row with these lags, time to live and size.
    fn row(lags: [Option<i64>; 2], ttl: Option<u8>, size: Option<u16>) -> PacketRecord {
        let mut record = PacketRecord::one_way(0, WallTime(0), WallTime(5 * MS));
        record.set_send_lag(lags[0].map(Span));
        record.set_receive_lag(lags[1].map(Span));
        record.set_ttl(ttl);
        record.set_size(size);
        record
    }

    fn notes(rows: &[(u32, PacketRecord)]) -> RowNotes {
        let mut notes = RowNotes::default();
        rows.iter().for_each(|(seq, row)| notes.push(row, *seq));
        notes
    }

    fn of_sizes(sizes: &[(u32, u16)]) -> RowNotes {
        notes(&sizes.iter().map(|(seq, size)| (*seq, row([None; 2], None, Some(*size)))).collect::<Vec<_>>())
    }

    #[test]
    fn stays_in_a_host_are_noted_from_a_millisecond_on() {
        let sent = |ns| !notes(&[(7, row([Some(ns), None], None, None))]).sent_late.is_empty();
        let read = |ns| !notes(&[(7, row([None, Some(ns)], None, None))]).read_late.is_empty();
        assert_eq!(first(0..=10 * MS, sent), MIN_STAY_NS);
        assert_eq!(first(0..=10 * MS, read), MIN_STAY_NS);
        let both = notes(&[(7, row([Some(2 * MS), Some(3 * MS)], None, None))]);
        assert_eq!((both.sent_late, both.read_late), (vec![(7, 2 * MS)], vec![(7, 3 * MS)]));
    }

    #[test]
    fn a_time_to_live_is_noted_where_it_changes() {
        let ttls = |of: &[Option<u8>]| {
            let rows: Vec<_> = (0..).zip(of).map(|(seq, ttl)| (seq, row([None; 2], *ttl, None))).collect();
            notes(&rows).ttl
        };
        assert_eq!(ttls(&[Some(64), Some(64), None, Some(64), Some(60)]), [(0, 64), (4, 60)]);
        let many: Vec<Option<u8>> = (0..100).map(|k| Some(1 + k % 2)).collect();
        assert_eq!(ttls(&many).len(), MAX_TTL_CHANGES);
    }

    #[test]
    fn sizes_are_kept_from_the_first_that_differs_on() {
        let one = of_sizes(&[(0, 80), (1, 80)]);
        assert_eq!((one.only_size(), one.sizes), (Some(80), vec![]));
        let two = of_sizes(&[(0, 80), (1, 200), (2, 80)]);
        assert_eq!((two.only_size(), two.sizes), (None, vec![(1, 200), (2, 80)]));
    }

    #[test]
    fn notes_of_two_parts_are_those_of_the_whole() {
        let rows: Vec<(u32, PacketRecord)> = (0..40)
            .map(|k| {
                let size = if k < 10 { 80 } else { 80 + k as u16 % 3 };
                let lags = [(k % 4 == 0).then_some(2 * MS), (k % 5 == 0).then_some(3 * MS)];
                (k, row(lags, Some(if k < 20 { 64 } else { 60 + k as u8 % 2 }), Some(size)))
            })
            .collect();
        let seqs: Vec<u32> = (0..40).collect();
        let shown = |n: &RowNotes| format!("{n:?}");
        for cut in 0..rows.len() {
            let (mut joined, next) = (notes(&rows[..cut]), notes(&rows[cut..]));
            joined.append(&next, &seqs[cut..], |_| true);
            assert_eq!(shown(&joined), shown(&notes(&rows)), "cut at {cut}");
        }
        // Nothing is noted twice for packets that both parts have.
        let (mut joined, next) = (notes(&rows), notes(&rows[10..]));
        joined.append(&next, &seqs[10..], |_| false);
        assert_eq!(
            shown(&RowNotes { ttl: vec![], ..joined }),
            shown(&RowNotes { ttl: vec![], ..notes(&rows) })
        );
        // Both parts have one size each, but not the same.
        let mut joined = of_sizes(&[(0, 80), (1, 80)]);
        joined.append(&of_sizes(&[(2, 90), (3, 90), (4, 80)]), &[2, 3, 4], |_| true);
        assert_eq!(joined.sizes, [(2, 90), (3, 90), (4, 80)]);
        let mut joined = of_sizes(&[(0, 80), (1, 90)]);
        joined.append(&of_sizes(&[(2, 80)]), &[2], |_| true);
        assert_eq!(joined.sizes, [(1, 90), (2, 80)]);
        // The list of times to live has a limit.
        let changes = |from: u32, n: u32| {
            let rows: Vec<_> =
                (from..from + n).map(|k| (k, row([None; 2], Some(1 + k as u8 % 2), None))).collect();
            notes(&rows)
        };
        let mut joined = changes(0, 60);
        joined.append(&changes(60, 60), &[], |_| true);
        assert_eq!(joined.ttl.len(), MAX_TTL_CHANGES);
    }

    #[test]
    fn numbers_are_moved_all_together() {
        let of = |seq| {
            notes(&[
                (seq, row([Some(2 * MS), Some(2 * MS)], Some(64), Some(80))),
                (seq + 1, row([None; 2], Some(60), Some(90))),
            ])
        };
        assert_eq!(format!("{:?}", of(5).shifted(10)), format!("{:?}", of(15)));
    }

    #[test]
    fn notes_of_packets_that_did_not_come_are_impossible() {
        let mut accepted = SeqSet::default();
        (0..100).for_each(|seq| assert!(accepted.insert(seq)));
        let possible = |change: fn(&mut RowNotes)| {
            let mut notes = RowNotes {
                sent_late: vec![(1, MIN_STAY_NS)],
                read_late: vec![(1, MIN_STAY_NS)],
                sizes: vec![(1, 80)],
                ttl: (0..MAX_TTL_CHANGES as u32).map(|k| (k, 64)).collect(),
                ..RowNotes::default()
            };
            change(&mut notes);
            notes.is_possible(&accepted)
        };
        assert!(possible(|_| ()));
        assert!(!possible(|n| n.sent_late = vec![(100, MIN_STAY_NS)]));
        assert!(!possible(|n| n.read_late = vec![(100, MIN_STAY_NS)]));
        assert!(!possible(|n| n.sent_late = vec![(1, MIN_STAY_NS - 1)]));
        assert!(!possible(|n| n.read_late = vec![(1, i64::MAX)]));
        assert!(!possible(|n| n.sizes = vec![(100, 80)]));
        assert!(!possible(|n| n.ttl = vec![(100, 64)]));
        assert!(!possible(|n| n.ttl.push((99, 64))));
    }
}
