//! Text logs: a header and a row for each packet received, in arrival order.
//!
//! Versions 1 and 2 are those of the seed document (§4.5, A.3); version 3 keeps their first eleven lines
//! and first five columns and adds the rest. The formats are specified in `docs/formats/`.
//!
//! * [`LogReader`] reads all three, tolerantly, in tens of nanoseconds per row and in bounded memory.
//! * [`LogWriter`] writes them row by row, so that a log is readable after a crash at any byte.
//! * [`Naming`] selects a name that is not in use. No log is ever overwritten.

mod date;
mod escape;
mod file;
mod header;
mod read;
mod row;
mod two_way;
mod write;

pub use date::parse_date;
pub use file::{CreateError, LogFile, Naming};
pub use read::{LogReader, ReadError, Reading};
pub use write::{LogOutput, LogWriter, WriteError, Written};

/// The version of the format to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Eleven header lines, five columns.
    V1,
    /// Version 1 with two more lines about the clocks.
    V2,
    /// All known facts.
    #[default]
    V3,
}

impl Version {
    /// The number: 1, 2 or 3.
    pub fn number(self) -> u8 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
            Version::V3 => 3,
        }
    }
}

/// The columns of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// `rx_index tx_ns seq rx_ns flags`
    Classic,
    /// The classic five, then `stamps send_lag receive_lag ttl tos size`.
    OneWay,
    /// Those eleven, then `answered_ns returned_ns`; four letters of stamps.
    TwoWay,
    /// Those thirteen, then `retransmissions srtt_us cwnd`.
    TwoWayTcp,
}

impl Layout {
    /// The column names in the header of a version 3 log.
    fn columns(self) -> &'static str {
        match self {
            Layout::Classic => "rx_index tx_ns seq rx_ns flags",
            Layout::OneWay => "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size",
            Layout::TwoWay => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size answered_ns returned_ns"
            }
            Layout::TwoWayTcp => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size answered_ns returned_ns \
                 retransmissions srtt_us cwnd"
            }
        }
    }

    /// Number of times in a row.
    fn moments(self) -> usize {
        if matches!(self, Layout::TwoWay | Layout::TwoWayTcp) { 4 } else { 2 }
    }

    /// The layout of a `columns` line; unknown columns at its end are ignored.
    fn of_columns(columns: &str) -> Option<Layout> {
        let starts = |l: Layout| {
            let mut theirs = columns.split_ascii_whitespace();
            l.columns().split(' ').all(|c| theirs.next() == Some(c))
        };
        [Layout::TwoWayTcp, Layout::TwoWay, Layout::OneWay, Layout::Classic].into_iter().find(|l| starts(*l))
    }
}
