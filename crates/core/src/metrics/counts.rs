//! How many packets were sent, came, came twice, came broken, never came (metrics §1).

use serde::{Deserialize, Serialize};

/// Packet counts. `received = unique_valid + duplicate + invalid` and `lost = sent − unique_valid`,
/// always.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Packets the sender sent: N of every loss figure.
    pub sent: u64,
    /// Rows of the log: datagrams that arrived, whatever they were.
    pub received: u64,
    /// First clean copies; the packets all other figures are about.
    pub unique_valid: u64,
    /// Further copies of an accepted packet.
    pub duplicate: u64,
    /// Sequence number out of range, anomaly flagged, or times missing or not subtractable.
    pub invalid: u64,
    /// Sent but not accepted.
    pub lost: u64,
    /// Of the lost: arrived clean, but after the waiting time (only where one is set).
    pub late: u64,
    /// Accepted, but overtaken by a later packet (RFC 4737).
    pub out_of_sequence: u64,
    /// Of those sent, percent.
    pub lost_pct: Option<f64>,
    /// Of those received, percent.
    pub duplicate_pct: Option<f64>,
    /// Of those received, percent.
    pub invalid_pct: Option<f64>,
    /// Of those accepted, percent.
    pub out_of_sequence_pct: Option<f64>,
    /// Rows whose receive time precedes the row before: the receiver's clock stepped back.
    pub rx_time_regressions: u64,
    /// The sender's own count is not known: the loss at the tail may be understated.
    pub tail_unknown: bool,
}
