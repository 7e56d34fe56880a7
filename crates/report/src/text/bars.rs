//! Text histograms of losses, duplicates and reordering; a histogram without values is left out.

use super::{Page, count, share};
use jitlat_core::spec::Transport;
use jitlat_core::summary::Summary;
use std::collections::BTreeMap;

/// Length of the longest bar in characters.
const MAX_BAR_CHARS: u64 = 40;
/// Largest value shown on its own line; larger ones are grouped, up to the next power of two.
const MAX_SINGLE_VALUE: i64 = 12;

pub(super) fn write(page: &mut Page, s: &Summary) {
    let c = &s.counts;
    if c.lost > 0 && s.header.proto != Transport::Tcp.number() {
        let runs = &s.loss.run_length_hist;
        page.heading("Loss burst lengths");
        let longest = runs.keys().next_back().copied().unwrap_or(0);
        page.item(&format!(
            "{} in {}, longest {longest}{}",
            count(c.lost, "packet"),
            count(s.loss.periods, "run"),
            s.loss.gilbert.mean_burst.map(|m| format!(", mean {m:.2}")).unwrap_or_default(),
        ));
        bars(page, ["length", "runs"], &signed(runs), |_| true);
    }
    if c.duplicate > 0 {
        let copies = &s.duplicates.arrival_count_hist;
        page.heading("Duplication run lengths");
        page.item(&format!(
            "{} of {}, at most {} copies of one",
            count(c.duplicate, "duplicate"),
            count(copies.iter().filter(|(n, _)| **n > 1).map(|(_, packets)| packets).sum(), "packet"),
            copies.keys().next_back().copied().unwrap_or(0),
        ));
        bars(page, ["length", "runs"], &signed(&s.duplicates.run_length_hist), |_| true);
    }
    if c.out_of_sequence > 0 {
        page.heading("Reorder density");
        let extent = s.reordering.extent_hist.keys().next_back().copied().unwrap_or(0);
        page.item(&format!(
            "{} reordered by at most {}; positions late (+) or early (-)",
            count(c.out_of_sequence, "packet"),
            count(extent, "other")
        ));
        // Omit packets in order, which would dwarf all others.
        bars(page, ["moved by", "packets"], &s.reordering.rd_fd, |moved| moved != 0);
        let in_place = s.reordering.rd_fd.get(&0).copied().unwrap_or(0);
        page.item(&format!("in place: {}", share(in_place, c.unique_valid)));
    }
}

fn signed(histogram: &BTreeMap<u64, u64>) -> BTreeMap<i64, u64> {
    histogram.iter().map(|(k, v)| (i64::try_from(*k).unwrap_or(i64::MAX), *v)).collect()
}

/// Adds one line for each value, or range of large values, that occurs.
fn bars(page: &mut Page, titles: [&str; 2], histogram: &BTreeMap<i64, u64>, shown: impl Fn(i64) -> bool) {
    let mut lines: Vec<(i64, i64, u64)> = Vec::new();
    for (value, n) in histogram.iter().filter(|(value, _)| shown(**value)) {
        let range = range_of(*value);
        match lines.last_mut() {
            Some((first, last, sum)) if range_of(*first) == range => (*last, *sum) = (*value, *sum + n),
            _ => lines.push((*value, *value, *n)),
        }
    }
    let most = lines.iter().map(|(.., n)| *n).max().unwrap_or(1).max(1);
    page.line(&format!("{}{:>11}  {:>9}", Page::INDENT, titles[0], titles[1]));
    for (first, last, n) in lines {
        let label = if first == last { first.to_string() } else { format!("{first} to {last}") };
        // Round up, so that every value that occurs is visible.
        let length = (n * MAX_BAR_CHARS).div_ceil(most) as usize;
        page.line(&format!("{}{label:>11}  {n:>9}  {}", Page::INDENT, "#".repeat(length)));
    }
}

/// Returns the number of the range to which a value belongs; values of the same range share a line.
fn range_of(value: i64) -> i64 {
    let magnitude = value.saturating_abs();
    if magnitude <= MAX_SINGLE_VALUE {
        value
    } else {
        value.signum() * (MAX_SINGLE_VALUE + i64::from(magnitude.ilog2()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::TextOptions;
    use super::*;

    #[test]
    fn every_value_is_seen_and_long_tails_are_gathered() {
        let mut page = Page::new(&TextOptions::default());
        let histogram = BTreeMap::from([(-40, 1), (-33, 1), (1, 100_000), (2, 1), (13, 5), (15, 5), (16, 1)]);
        bars(&mut page, ["moved by", "packets"], &histogram, |_| true);
        insta::assert_snapshot!(page.text, @r"
           moved by    packets
         -40 to -33          2  #
                  1     100000  ########################################
                  2          1  #
           13 to 15         10  #
                 16          1  #
        ");
    }
}
