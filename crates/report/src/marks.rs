//! Rows of the table of marks (ECN), for text and pages.

use jitlat_core::Ecn;
use jitlat_core::summary::{MarkFigures, Summary};
use jitlat_core::units::eng3;

/// Headings of the table.
pub const HEADS: [&str; 8] =
    ["sent as", "sent", "lost", "as Not-ECT", "as ECT(1)", "as ECT(0)", "as CE", "behind fastest"];

/// Returns the tables of a test, each with its title: one of a one-way test; of a two-way test, one of the round trips and
/// one of each direction. Empty unless the packets were sent with marks.
pub fn tables(s: &Summary) -> Vec<(&'static str, Vec<[String; 8]>)> {
    let two_way = s.two_way.as_deref();
    let whole = if two_way.is_some() { "round trips" } else { "" };
    let directions = two_way.into_iter().flat_map(|t| [("up", &t.up), ("down", &t.down)]);
    let of_directions = directions.filter_map(|(name, d)| Some((name, d.as_ref()?.marks.as_deref()?)));
    let all = s.marks.as_deref().map(|figures| (whole, figures)).into_iter().chain(of_directions);
    all.map(|(name, figures)| (name, rows(figures))).collect()
}

/// Returns a row for each mark that was sent; unknown values are `-`.
fn rows(figures: &MarkFigures) -> Vec<[String; 8]> {
    let dash = || "-".to_owned();
    let shown = |mark: Ecn| {
        let sent = figures.sent.map_or(0, |sent| sent[mark]);
        let received = figures.received.map_or(0, |received| received[mark].total());
        figures.marking.is_interleaved() || sent + received > 0
    };
    let row = |mark: Ecn| {
        let count = |n: Option<u64>| n.map_or_else(dash, |n| n.to_string());
        let arrived = |as_mark: Ecn| count(figures.received.map(|received| received[mark][as_mark]));
        let median = figures.delay.as_ref().and_then(|delay| delay.above_fastest[mark].median_ns);
        let [not_ect, ect1, ect0, ce] = Ecn::ALL.map(arrived);
        let (sent, lost) = (count(figures.sent.map(|n| n[mark])), count(figures.lost.map(|n| n[mark])));
        let behind = median.map_or_else(dash, |ns| eng3(ns as f64));
        [mark.to_string(), sent, lost, not_ect, ect1, ect0, ce, behind]
    };
    Ecn::ALL.into_iter().filter(|mark| shown(*mark)).map(row).collect()
}
