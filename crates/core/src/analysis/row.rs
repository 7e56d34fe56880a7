//! [`Row`]: a row with a valid sequence number. [`Counts`]: how it is counted.

use crate::metrics::classify::{AcceptedPacket, Classifier};

/// A row with a valid number.
#[derive(Clone, Copy)]
pub(super) enum Row {
    /// A valid row with a delay.
    Clean(AcceptedPacket),
    /// A valid row whose delay is unknown.
    Delayless,
    /// A row with an anomaly flag, or without times.
    Damaged,
}

/// Result of counting a row with a valid number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// Counted as the first valid row of its packet.
    First,
    /// Counted as a further copy.
    Copy,
    /// The row is not counted because it is damaged and no valid row of its packet preceded it.
    Nothing,
}

impl Row {
    /// Returns the packet if the row is clean and has a delay; otherwise `None`.
    pub fn packet(self) -> Option<AcceptedPacket> {
        match self {
            Row::Clean(packet) => Some(packet),
            Row::Delayless | Row::Damaged => None,
        }
    }

    /// Counts the row as the next one of packet `seq`.
    pub fn count(self, seq: u32, classifier: &mut Classifier) -> Counts {
        let is_damaged = matches!(self, Row::Damaged);
        if !is_damaged && classifier.accept(seq) {
            return Counts::First;
        }
        if is_damaged && !classifier.accepted.contains(seq) {
            classifier.refuse();
            return Counts::Nothing;
        }
        classifier.received += 1;
        Counts::Copy
    }
}
