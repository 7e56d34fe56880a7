//! [`LogVersion`] and [`RowLayout`]: all differences between versions of a log and between layouts of its rows. Other
//! code calls these methods and never matches on a version or a layout.

/// Version of the format to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogVersion {
    /// Eleven header lines, five columns.
    V1,
    /// Version 1, and two more lines about the clocks.
    V2,
    /// The current version, which stores all known facts.
    #[default]
    V3,
}

impl LogVersion {
    /// Number of the version: 1, 2 or 3.
    pub fn number(self) -> u8 {
        match self {
            LogVersion::V1 => 1,
            LogVersion::V2 => 2,
            LogVersion::V3 => 3,
        }
    }

    /// Returns the version with this number; `None` if there is none.
    pub fn of(number: u8) -> Option<LogVersion> {
        [LogVersion::V1, LogVersion::V2, LogVersion::V3].into_iter().find(|v| v.number() == number)
    }

    /// Returns the version of a log that does not state it: 2 if the log has lines about the clocks, otherwise 1.
    pub(super) fn unnamed(has_clock_error: bool) -> LogVersion {
        if has_clock_error { LogVersion::V2 } else { LogVersion::V1 }
    }

    /// Returns the columns of one-way records.
    pub(super) fn one_way(self) -> RowLayout {
        if self == LogVersion::V3 { RowLayout::OneWay { queue: true } } else { RowLayout::Classic }
    }

    /// True if the header contains all known facts, and facts that become known during the test follow the rows.
    pub(super) fn has_all_facts(self) -> bool {
        self == LogVersion::V3
    }

    /// True if the clock error is in two lines after the classic ones. It is only known at the end of the test, so the
    /// header is then rewritten.
    pub(super) fn has_clock_error(self) -> bool {
        self == LogVersion::V2
    }
}

/// Columns of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowLayout {
    /// `rx_index tx_ns seq rx_ns flags`
    Classic,
    /// The five classic columns, then `stamps send_lag receive_lag ttl tos size`, then `local_queue` unless the log was
    /// written by an older version.
    OneWay { queue: bool },
    /// The eleven columns of `OneWay` before `local_queue`, but with four letters for the stamps, then `answered_ns
    /// returned_ns`, then `local_queue` as in `OneWay`.
    TwoWay { queue: bool },
    /// The columns of `TwoWay` with `local_queue`, then the marks that the far host reports: `request_ecn answer_ecn`.
    TwoWayMarked,
    /// The thirteen columns of `TwoWay` before `local_queue`, then `retransmissions srtt_us cwnd`.
    TwoWayTcp,
}

impl RowLayout {
    /// Returns the column names in the header of a version 3 log.
    pub(super) fn columns(self) -> &'static str {
        match self {
            RowLayout::Classic => "rx_index tx_ns seq rx_ns flags",
            RowLayout::OneWay { queue: false } => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size"
            }
            RowLayout::OneWay { queue: true } => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size local_queue"
            }
            RowLayout::TwoWay { queue: false } => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size answered_ns returned_ns"
            }
            RowLayout::TwoWay { queue: true } => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size answered_ns returned_ns \
                 local_queue"
            }
            RowLayout::TwoWayMarked => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size answered_ns returned_ns \
                 local_queue request_ecn answer_ecn"
            }
            RowLayout::TwoWayTcp => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size answered_ns returned_ns \
                 retransmissions srtt_us cwnd"
            }
        }
    }

    /// Returns the number of moments (times of a packet) in a row.
    pub(super) fn moments(self) -> usize {
        let is_two_way =
            matches!(self, RowLayout::TwoWay { .. } | RowLayout::TwoWayMarked | RowLayout::TwoWayTcp);
        if is_two_way { 4 } else { 2 }
    }

    /// True if rows have only the classic five columns. Both times are then always present, and a truncated row can be
    /// recognised.
    pub(super) fn is_classic(self) -> bool {
        self == RowLayout::Classic
    }

    /// True if rows contain the time in the sending host's own queue.
    pub(super) fn has_queue(self) -> bool {
        matches!(
            self,
            RowLayout::OneWay { queue: true } | RowLayout::TwoWay { queue: true } | RowLayout::TwoWayMarked
        )
    }

    /// True if rows contain the marks that the far host reports.
    pub(super) fn has_marks(self) -> bool {
        self == RowLayout::TwoWayMarked
    }

    /// True if rows contain the kernel's TCP_INFO.
    pub(super) fn has_tcp(self) -> bool {
        self == RowLayout::TwoWayTcp
    }

    /// Returns the layout that a `columns` line describes; `None` if it is unknown. Unknown columns at the end of the
    /// line are ignored.
    pub(super) fn of_columns(columns: &str) -> Option<RowLayout> {
        let starts = |l: RowLayout| {
            let mut theirs = columns.split_ascii_whitespace();
            l.columns().split(' ').all(|c| theirs.next() == Some(c))
        };
        // The longest layout comes first, because shorter layouts are prefixes of longer ones.
        let layouts = [
            RowLayout::TwoWayTcp,
            RowLayout::TwoWayMarked,
            RowLayout::TwoWay { queue: true },
            RowLayout::TwoWay { queue: false },
            RowLayout::OneWay { queue: true },
            RowLayout::OneWay { queue: false },
            RowLayout::Classic,
        ];
        layouts.into_iter().find(|l| starts(*l))
    }
}
