//! [`Row`]: a row with a valid number, and what it [counts](Counts) as.

use crate::metrics::classify::{AcceptedPacket, Classifier};

/// A row with a valid number.
#[derive(Clone, Copy)]
pub(super) enum Row {
    /// Nothing is wrong with it.
    Clean(AcceptedPacket),
    /// Nothing is wrong with it, but it has no delay.
    Delayless,
    /// Anomaly flagged, or times missing.
    Damaged,
}

/// What a row with a valid number counts as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// The first of its packet that counts.
    First,
    /// A further copy.
    Copy,
    /// Nothing: it is damaged, and none that counts came before it.
    Nothing,
}

impl Row {
    /// The packet it is a clean copy of, if that has a delay.
    pub fn packet(self) -> Option<AcceptedPacket> {
        match self {
            Row::Clean(packet) => Some(packet),
            Row::Delayless | Row::Damaged => None,
        }
    }

    /// Counts it as the next one of packet `seq`.
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
