//! One line per packet, as written by LaTe's options `-W` and `-X`.

use super::{ExtraFields, LateSample, values};

/// Returns the line of column names, without its line feed.
pub fn header(follow_up: bool, extra: ExtraFields) -> String {
    let mut names = vec!["Sequence Number", "RTT/Latency"];
    names.extend(follow_up.then_some("Est server processing time"));
    names.extend(["Tx_Timestamp_s_us", "Error"]);
    names.extend(extra.lost_so_far.then_some("PER till now"));
    names.extend(extra.seq.then_some("Reconstructed Sequence Number"));
    names.extend(extra.min.then_some("Current minimum"));
    names.extend(extra.max.then_some("Current maximum"));
    names.join(",")
}

/// Returns the line of one sample, without its line feed.
pub fn row(sample: &LateSample, follow_up: bool, extra: ExtraFields) -> String {
    values(sample, follow_up, extra).join(",")
}
