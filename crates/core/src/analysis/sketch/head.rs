//! [`Head`]: the first rows of a stream. These rows are pushed again if the analysis is appended to another
//! one.

use super::super::Samples;
use super::super::row::Row;
use crate::metrics::classify::AcceptedPacket;
use crate::metrics::seqset::SeqSet;
use serde::{Deserialize, Serialize};

/// Number of rows that are stored unchanged.
pub const HEAD: usize = 4096;

/// The first rows with valid numbers, in arrival order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Head {
    rows: Samples,
    /// Indices of rows that are not clean copies; their times are meaningless.
    damaged: Vec<u32>,
    /// Indices of rows whose delay is unknown.
    #[serde(default)]
    delayless: Vec<u32>,
}

impl Head {
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    pub fn push(&mut self, seq: u32, row: Row) {
        let index = self.rows.len() as u32;
        let packet = match row {
            Row::Clean(packet) => Some(packet),
            Row::Delayless => {
                self.delayless.push(index);
                None
            }
            Row::Damaged => {
                self.damaged.push(index);
                None
            }
        };
        self.rows.push(packet.unwrap_or(AcceptedPacket { seq, sent: 0, delay: 0 }));
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, Row)> + '_ {
        let among = |indices: &[u32], index: u32| indices.binary_search(&index).is_ok();
        let row = move |index, packet| match () {
            () if among(&self.damaged, index) => Row::Damaged,
            () if among(&self.delayless, index) => Row::Delayless,
            () => Row::Clean(packet),
        };
        (0..).zip(self.rows.iter()).map(move |(k, packet)| (packet.seq, row(k, packet)))
    }

    /// True if these can be the first rows of a test of `packets` packets.
    pub fn is_possible(&self, packets: u32) -> bool {
        let Samples { seq, sent, delay, .. } = &self.rows;
        let columns = seq.len() <= HEAD && seq.len() == sent.len() && seq.len() == delay.len();
        let of_clock = |(sent, delay): (&i64, &i64)| sent.checked_add(*delay).is_some();
        columns && seq.iter().all(|seq| *seq < packets) && sent.iter().zip(delay).all(of_clock)
    }

    /// True if these rows contain every accepted number below `lowest`, the lowest number of the later rows.
    pub fn has_numbers_below(&self, lowest: Option<u32>, accepted: &SeqSet) -> bool {
        let mut known = self.rows.seq.clone();
        known.sort_unstable();
        let mut early = accepted.iter().take_while(|seq| lowest.is_none_or(|lowest| *seq < lowest));
        early.all(|seq| known.binary_search(&seq).is_ok())
    }
}
