//! Bursts and gaps (metrics §11; RFC 3611 §4.7.2).

use serde::{Deserialize, Serialize};

/// Segmentation of the loss sequence: losses with fewer than Gmin received packets between them form a burst; the
/// packets between bursts form gaps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BurstGap {
    /// Bursts, each as [first sequence number, length, losses]; only the first 10 000.
    pub bursts: Vec<[u64; 3]>,
    /// Gaps, each as [first sequence number, length]; only the first 10 000.
    pub gaps: Vec<[u64; 2]>,
    /// Number of bursts.
    pub burst_count: u64,
    /// Number of gaps.
    pub gap_count: u64,
    /// Losses in bursts divided by packets in bursts; 0 without bursts.
    pub burst_density: f64,
    /// Losses in gaps divided by packets in gaps.
    pub gap_density: f64,
    /// Mean length of bursts times the period, in ms; `None` if the period is unknown.
    pub mean_burst_duration_ms: Option<f64>,
    /// Mean length of gaps times the period, in ms; `None` if the period is unknown.
    pub mean_gap_duration_ms: Option<f64>,
    /// Number of losses in gaps.
    pub isolated_losses: u64,
}

use super::seqset::SeqRun;
/// Gmin of RFC 3611: number of consecutive received packets that ends a burst.
pub const GMIN: u64 = 16;
/// Maximum number of bursts and of gaps in the lists, which limits the memory. All of them are counted.
const MAX_LISTED: usize = 10_000;

/// Groups runs of consecutive losses, given in ascending order, into bursts, with gaps between them. Takes constant
/// memory except for the lists.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Segmenter {
    gmin: u64,
    /// First loss, last loss and number of losses of the current cluster.
    cluster: Option<(u64, u64, u64)>,
    /// Start of the current gap.
    gap_from: u64,
    in_bursts: (u64, u64),
    in_gaps: (u64, u64),
    result: BurstGap,
}

impl Segmenter {
    /// Creates a segmenter in which `gmin` received packets end a burst.
    pub fn new(gmin: u64) -> Segmenter {
        Segmenter {
            gmin,
            cluster: None,
            gap_from: 0,
            in_bursts: (0, 0),
            in_gaps: (0, 0),
            result: BurstGap::default(),
        }
    }

    /// Returns true if this can be the state when all losses so far have sequence numbers below `next`. Checks
    /// only the properties that computations rely on.
    pub(crate) fn is_possible(&self, next: u64) -> bool {
        let cluster = self.cluster.is_none_or(|(first, last, losses)| {
            first <= last && last < next && (1..=last - first + 1).contains(&losses)
        });
        let BurstGap { bursts, gaps, burst_count, gap_count, .. } = &self.result;
        let (burst, gap) = (self.in_bursts, self.in_gaps);
        let counts = [burst.0, burst.1, gap.0, gap.1, self.gap_from, *burst_count, *gap_count];
        let within = |first: u64, len: u64| first.checked_add(len).is_some_and(|end| end <= next);
        let listed = bursts.len() <= MAX_LISTED
            && gaps.len() <= MAX_LISTED
            && bursts.iter().all(|b| within(b[0], b[1]))
            && gaps.iter().all(|g| within(g[0], g[1]));
        self.gmin == GMIN && cluster && counts.iter().all(|count| *count <= next) && listed
    }

    /// Adds the next run of consecutive losses.
    pub fn push(&mut self, run: SeqRun) {
        let last = run.start + run.len - 1;
        match &mut self.cluster {
            Some((_, end, losses)) if run.start - *end - 1 < self.gmin => {
                (*end, *losses) = (last, *losses + run.len);
            }
            _ => {
                self.close_cluster();
                self.cluster = Some((run.start, last, run.len));
            }
        }
    }

    fn close_cluster(&mut self) {
        let Some((first, last, losses)) = self.cluster.take() else { return };
        if losses < 2 {
            self.in_gaps.1 += losses;
            return;
        }
        self.close_gap(first);
        let len = last - first + 1;
        self.in_bursts = (self.in_bursts.0 + len, self.in_bursts.1 + losses);
        self.result.burst_count += 1;
        if self.result.bursts.len() < MAX_LISTED {
            self.result.bursts.push([first, len, losses]);
        }
        self.gap_from = last + 1;
    }

    fn close_gap(&mut self, end: u64) {
        if end > self.gap_from {
            self.in_gaps.0 += end - self.gap_from;
            self.result.gap_count += 1;
            if self.result.gaps.len() < MAX_LISTED {
                self.result.gaps.push([self.gap_from, end - self.gap_from]);
            }
        }
    }

    /// Returns the result for `n` packets sent every `period` ns.
    pub fn finish(mut self, n: u64, period: Option<f64>) -> BurstGap {
        self.close_cluster();
        self.close_gap(n);
        let density = |(packets, losses): (u64, u64)| {
            if packets > 0 { losses as f64 / packets as f64 } else { 0.0 }
        };
        let mean_ms = |packets: u64, count: u64| {
            if count > 0 { Some(packets as f64 * (period? / 1e6) / count as f64) } else { Some(0.0) }
        };
        BurstGap {
            burst_density: density(self.in_bursts),
            gap_density: density(self.in_gaps),
            mean_burst_duration_ms: mean_ms(self.in_bursts.0, self.result.burst_count),
            mean_gap_duration_ms: mean_ms(self.in_gaps.0, self.result.gap_count),
            isolated_losses: self.in_gaps.1,
            ..self.result
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(pattern: &str) -> BurstGap {
        let mut s = Segmenter::new(GMIN);
        for (start, c) in (0..).zip(pattern.chars()) {
            if c != '1' {
                s.push(SeqRun { start, len: 1 });
            }
        }
        s.finish(pattern.len() as u64, Some(10e6))
    }

    #[test]
    fn the_pattern_of_rfc_3611() {
        // §4.7.2 prints 63 symbols although it mentions 64 (metrics §11, §27).
        let printed = "11110111111111111111111X111X1011110111111111111111111X111111111";
        let b = segment(printed);
        assert_eq!((b.bursts, b.gaps), (vec![[23, 12, 4]], vec![[0, 23], [35, 28]]));
        assert_eq!((b.mean_burst_duration_ms, b.mean_gap_duration_ms), (Some(120.0), Some(255.0)));
        assert_eq!(((256.0 * b.burst_density) as u8, (256.0 * b.gap_density) as u8), (85, 10));
        let b = segment(&format!("{printed}1"));
        assert_eq!((b.bursts, b.gaps), (vec![[23, 12, 4]], vec![[0, 23], [35, 29]]));
        assert_eq!((b.gap_density, b.mean_gap_duration_ms, b.isolated_losses), (2.0 / 52.0, Some(260.0), 2));
    }

    #[test]
    fn edges() {
        let b = segment("");
        assert_eq!((b.burst_count, b.gap_count, b.gap_density), (0, 0, 0.0));
        let b = segment("000");
        assert_eq!((b.bursts, b.gaps, b.burst_density), (vec![[0, 3, 3]], vec![], 1.0));
        let b = segment("0111111111111111111");
        assert_eq!((b.burst_count, b.gap_count, b.isolated_losses), (0, 1, 1));
    }

    #[test]
    fn a_burst_ends_with_gmin_packets_received() {
        let of = |between: usize| segment(&format!("0{}0{}", "1".repeat(between), "1".repeat(40)));
        let (inside, outside) = (of(GMIN as usize - 1), of(GMIN as usize));
        assert_eq!((inside.burst_count, inside.isolated_losses), (1, 0));
        assert_eq!(inside.bursts, [[0, GMIN + 1, 2]]);
        assert_eq!(inside.gaps, [[GMIN + 1, 40]]);
        assert_eq!((outside.burst_count, outside.isolated_losses, outside.gap_count), (0, 2, 1));
        // The lists are limited, the counts are not.
        let many = segment(&format!("00{}", "1".repeat(GMIN as usize)).repeat(MAX_LISTED + 3));
        assert_eq!((many.burst_count, many.gap_count), (MAX_LISTED as u64 + 3, MAX_LISTED as u64 + 3));
        assert_eq!((many.bursts.len(), many.gaps.len()), (MAX_LISTED, MAX_LISTED));
    }

    #[test]
    fn shares_of_nothing_are_0() {
        let whole = segment("00");
        assert_eq!((whole.burst_density, whole.gap_density, whole.gap_count), (1.0, 0.0, 0));
        let nothing = Segmenter::new(GMIN).finish(0, None);
        assert_eq!((nothing.mean_burst_duration_ms, nothing.mean_gap_duration_ms), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn a_state_has_nothing_beyond_its_packets() {
        // A burst from 2 to 4, and a loss that may begin another one.
        let mut valid = Segmenter::new(GMIN);
        valid.push(SeqRun { start: 2, len: 3 });
        valid.push(SeqRun { start: 29, len: 1 });
        assert!(valid.is_possible(30) && !valid.is_possible(29));
        let with = |change: &fn(&mut Segmenter)| {
            let mut changed = valid.clone();
            change(&mut changed);
            changed.is_possible(30)
        };
        let possible: &[fn(&mut Segmenter)] = &[
            |s| s.cluster = None,
            |s| s.cluster = Some((20, 29, 10)),
            |s| (s.in_bursts, s.in_gaps, s.gap_from) = ((30, 30), (30, 30), 30),
            |s| (s.result.burst_count, s.result.gap_count) = (30, 30),
            |s| (s.result.bursts, s.result.gaps) = (vec![[28, 2, 2]], vec![[0, 30]]),
            |s| (s.result.bursts, s.result.gaps) = (vec![[0; 3]; MAX_LISTED], vec![[0; 2]; MAX_LISTED]),
        ];
        let impossible: &[fn(&mut Segmenter)] = &[
            |s| s.gmin = GMIN - 1,
            |s| s.cluster = Some((29, 28, 1)),
            |s| s.cluster = Some((29, 30, 1)),
            |s| s.cluster = Some((20, 29, 0)),
            |s| s.cluster = Some((20, 29, 11)),
            |s| s.in_bursts.0 = 31,
            |s| s.in_bursts.1 = 31,
            |s| s.in_gaps.0 = 31,
            |s| s.in_gaps.1 = 31,
            |s| s.gap_from = 31,
            |s| s.result.burst_count = 31,
            |s| s.result.gap_count = 31,
            |s| s.result.bursts = vec![[28, 3, 2]],
            |s| s.result.gaps = vec![[0, 31]],
            |s| s.result.bursts = vec![[0; 3]; MAX_LISTED + 1],
            |s| s.result.gaps = vec![[0; 2]; MAX_LISTED + 1],
        ];
        let found = |changes: &[fn(&mut Segmenter)]| changes.iter().map(with).collect::<Vec<_>>();
        assert_eq!(found(possible), [true; 6]);
        assert_eq!(found(impossible), [false; 16]);
    }
}
