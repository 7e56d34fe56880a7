//! [`Version`] and [`Layout`]: everything in which the versions of a log and the layouts of its rows differ. The rest of the
//! program asks these methods and matches on neither.

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

    /// The version with this number.
    pub fn of(number: u8) -> Option<Version> {
        [Version::V1, Version::V2, Version::V3].into_iter().find(|v| v.number() == number)
    }

    /// The version of a log that does not name it, by whether it has lines about the clocks.
    pub(super) fn unnamed(has_clock_error: bool) -> Version {
        if has_clock_error { Version::V2 } else { Version::V1 }
    }

    /// The columns of one-way records.
    pub(super) fn one_way(self) -> Layout {
        if self == Version::V3 { Layout::OneWay { queue: true } } else { Layout::Classic }
    }

    /// Whether the header has all known facts, and facts learnt during the test follow the rows.
    pub(super) fn says_everything(self) -> bool {
        self == Version::V3
    }

    /// Whether two lines after the classic ones give the clock error. It is known at the end of the test only, when the
    /// header is written again.
    pub(super) fn says_clock_error(self) -> bool {
        self == Version::V2
    }
}

/// The columns of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// `rx_index tx_ns seq rx_ns flags`
    Classic,
    /// The classic five, then `stamps send_lag receive_lag ttl tos size`; then `local_queue`, unless an older program
    /// wrote it.
    OneWay { queue: bool },
    /// Those eleven, then `answered_ns returned_ns`; four letters of stamps. Then `local_queue`, as above.
    TwoWay { queue: bool },
    /// Those thirteen, then `retransmissions srtt_us cwnd`.
    TwoWayTcp,
}

impl Layout {
    /// The column names in the header of a version 3 log.
    pub(super) fn columns(self) -> &'static str {
        match self {
            Layout::Classic => "rx_index tx_ns seq rx_ns flags",
            Layout::OneWay { queue: false } => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size"
            }
            Layout::OneWay { queue: true } => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size local_queue"
            }
            Layout::TwoWay { queue: false } => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size answered_ns returned_ns"
            }
            Layout::TwoWay { queue: true } => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size answered_ns returned_ns \
                 local_queue"
            }
            Layout::TwoWayTcp => {
                "rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size answered_ns returned_ns \
                 retransmissions srtt_us cwnd"
            }
        }
    }

    /// Number of times in a row.
    pub(super) fn moments(self) -> usize {
        if matches!(self, Layout::TwoWay { .. } | Layout::TwoWayTcp) { 4 } else { 2 }
    }

    /// Whether rows have the classic five columns: both times are present, and a truncated row can be recognised.
    pub(super) fn is_classic(self) -> bool {
        self == Layout::Classic
    }

    /// Whether rows contain the time in the sending host's own queue.
    pub(super) fn has_queue(self) -> bool {
        matches!(self, Layout::OneWay { queue: true } | Layout::TwoWay { queue: true })
    }

    /// Whether rows contain the kernel's TCP_INFO.
    pub(super) fn has_tcp(self) -> bool {
        self == Layout::TwoWayTcp
    }

    /// The layout of a `columns` line; unknown columns at its end are ignored.
    pub(super) fn of_columns(columns: &str) -> Option<Layout> {
        let starts = |l: Layout| {
            let mut theirs = columns.split_ascii_whitespace();
            l.columns().split(' ').all(|c| theirs.next() == Some(c))
        };
        // The longest first.
        let layouts = [
            Layout::TwoWayTcp,
            Layout::TwoWay { queue: true },
            Layout::TwoWay { queue: false },
            Layout::OneWay { queue: true },
            Layout::OneWay { queue: false },
            Layout::Classic,
        ];
        layouts.into_iter().find(|l| starts(*l))
    }
}
