//! [`Gathered`]: all packets of a stream, stored individually.

use super::plain::Plain;
use super::row::{Counts, Row};
use crate::evidence::RowNotes;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::duplicate::Copies;
use crate::metrics::seqset::SeqSet;
use crate::metrics::series::Samples;
use crate::record::PacketRecord;
use crate::session::Session;
use crate::spec::Direction;
use crate::time::WallTime;

/// Data collected row by row.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    /// Packets with a delay, in order of arrival.
    pub samples: Samples,
    /// Sequence numbers of packets that were received without a known delay.
    pub delayless: SeqSet,
    pub copies: Copies,
    /// Damaged rows without a valid earlier copy of the same packet.
    pub damaged: Copies,
    /// Notes for the verdict; `None` for a part of a test, which has no verdict of its own.
    pub notes: Option<RowNotes>,
}

impl Gathered {
    /// Creates an empty collection that also takes notes on rows.
    pub fn noted() -> Gathered {
        Gathered { notes: Some(RowNotes::default()), ..Gathered::default() }
    }

    /// Adds the row of an accepted packet to the notes.
    #[inline]
    pub fn note(&mut self, record: &PacketRecord, seq: u32) {
        if let Some(notes) = &mut self.notes {
            notes.push(record, seq);
        }
    }

    /// Adds a row of packet `seq` that arrived at `at`.
    #[inline]
    pub fn push(&mut self, seq: u32, row: Row, counts: Counts, at: Option<i64>) {
        match (counts, row) {
            (Counts::First, Row::Clean(packet)) => self.samples.push(packet),
            (Counts::First, _) => _ = self.delayless.insert(seq),
            (Counts::Copy, _) => self.copies.push(seq, at),
            (Counts::Nothing, _) => self.damaged.push(seq, at),
        }
    }

    /// Adds the packets of `rows`, all of which are new.
    pub fn push_all(&mut self, packets: &Plain, rows: &[PacketRecord]) {
        if let Some(notes) = &mut self.notes {
            notes.push_all(rows, packets.seq(), packets.alike, packets.lags);
        }
        packets.append_to(&mut self.samples);
    }

    /// Adds those notes of `next` that are about new packets.
    pub fn append_notes(&mut self, next: &Gathered, is_new: impl Fn(u32) -> bool) {
        if let (Some(notes), Some(later)) = (&mut self.notes, &next.notes) {
            notes.append(later, &next.samples.seq, is_new);
        }
    }

    /// Estimates the clocks of the test during the time of the stream.
    pub fn clock(&self, session: &Session) -> ClockEstimate {
        ClockEstimate::new(session, stream_times(&self.samples, session.spec.direction()))
    }
}

/// Returns the first and the last time of the stream on the client's clock; `None` without packets.
pub(super) fn stream_times(samples: &Samples, direction: Direction) -> Option<(WallTime, WallTime)> {
    let time = |k: usize| match direction {
        Direction::Up => WallTime(samples.sent[k]),
        Direction::Down => WallTime(samples.packet(k).arrived()),
    };
    let last = samples.len().checked_sub(1)?;
    Some((time(0).min(time(last)), time(0).max(time(last))))
}
