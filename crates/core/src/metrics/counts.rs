//! Numbers of packets sent, received, duplicated, damaged and lost (metrics §1).

use serde::{Deserialize, Serialize};

/// Packet counts. Always, `received = unique_valid + duplicate + invalid` and `lost = sent − unique_valid`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Counts {
    /// Number of packets sent: the N of every loss figure.
    pub sent: u64,
    /// Number of rows of the log, that is, of all datagrams received.
    pub received: u64,
    /// Number of valid packets received, without duplicates; all other figures are about these packets.
    pub unique_valid: u64,
    /// Number of further copies of accepted packets.
    pub duplicate: u64,
    /// Number of rows with a sequence number out of range, with an anomaly flag, or with times that are missing or
    /// cannot be subtracted.
    pub invalid: u64,
    /// Number of packets that did not arrive intact and in time.
    pub lost: u64,
    /// Number of lost packets that arrived intact but after the timeout; 0 if no timeout is set.
    pub late: u64,
    /// Number of accepted packets that were reordered, that is, that arrived after a packet sent later (RFC 4737).
    pub out_of_sequence: u64,
    /// Lost packets, in percent of those sent.
    pub lost_pct: Option<f64>,
    /// Duplicates, in percent of those received.
    pub duplicate_pct: Option<f64>,
    /// Invalid packets, in percent of those received.
    pub invalid_pct: Option<f64>,
    /// Reordered packets, in percent of those accepted.
    pub out_of_sequence_pct: Option<f64>,
    /// Number of rows whose receive time is before that of the previous row: the receiver's clock stepped back.
    pub rx_time_regressions: u64,
    /// True if it is unknown whether some packets were lost: packets after the last arrival, or others that the log
    /// does not cover. They count neither as sent nor as lost.
    pub tail_unknown: bool,
}
