//! Plots in characters: a histogram of latency, and latency over time.

use super::count;
use jitlat_core::analysis::Samples;
use jitlat_core::summary::Distribution;
use jitlat_core::units::eng4;

/// Number of lines of a histogram, excluding its title and the line for values beyond the limit.
const HISTOGRAM_LINES: usize = 8;

/// Area for plots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlotCanvas {
    /// Width in columns.
    pub width: usize,
    /// True if characters beyond ASCII can be shown.
    pub unicode: bool,
}

impl PlotCanvas {
    /// Returns the characters for eight levels, from the lowest.
    pub(super) fn levels(self) -> [char; 8] {
        match self.unicode {
            true => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            false => ['.', ':', '-', '=', '+', '*', '#', '@'],
        }
    }

    /// Returns a bar for `n`, on a scale on which `most` is `room` columns long; every `n` above 0 is visible.
    fn bar(self, n: u64, most: u64, room: u64) -> String {
        if !self.unicode {
            return "#".repeat((n * room).div_ceil(most) as usize);
        }
        let eighths = (n * room * 8).div_ceil(most);
        let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][(eighths % 8) as usize];
        "█".repeat((eighths / 8) as usize) + part
    }
}

/// Returns the distribution's histogram in at most ten lines, with the number of values beyond its limit. Empty if there is
/// no histogram.
pub fn histogram(title: &str, distribution: &Distribution, canvas: PlotCanvas) -> String {
    shifted_histogram(title, distribution, 0, canvas)
}

/// Returns the histogram in the form of [`histogram`], with every value shifted by `shift` ns: latency corrected by the
/// clock estimate.
pub fn shifted_histogram(title: &str, distribution: &Distribution, shift: i64, canvas: PlotCanvas) -> String {
    let Some(h) = &distribution.histogram else { return String::new() };
    let merged = h.counts.len().div_ceil(HISTOGRAM_LINES).max(1);
    let mut lines: Vec<(String, u64)> = h
        .counts
        .chunks(merged)
        .enumerate()
        .map(|(i, counts)| {
            let from = h.lo.saturating_add(h.binsize.saturating_mul((i * merged) as i64));
            (eng4(from.saturating_add(shift)), counts.iter().sum())
        })
        .collect();
    // Omit the empty bins above the largest value.
    while lines.len() > 1 && lines.last().is_some_and(|(_, n)| *n == 0) {
        lines.pop();
    }
    if h.overflow > 0 {
        lines.push((format!("> {}", eng4(h.hi.saturating_add(shift))), h.overflow));
    }
    let label = lines.iter().map(|(l, _)| l.len()).max().unwrap_or(0);
    let digits = lines.iter().map(|(_, n)| n.to_string().len()).max().unwrap_or(0);
    let room = canvas.width.saturating_sub(label + digits + 6).max(10) as u64;
    let most = lines.iter().map(|(_, n)| *n).max().unwrap_or(1).max(1);
    let mut text =
        format!("{title} ({}; each line begins at the value on its left)\n", count(distribution.n, "packet"));
    for (from, n) in lines {
        let bar = canvas.bar(n, most, room);
        text += format!("  {from:>label$}  {n:>digits$}  {bar}").trim_end();
        text.push('\n');
    }
    text
}

/// Draws delay over arrival time, one column per slice of the run, with the largest and the median value and
/// the missing packets. `name` describes the values; `shift` is added to each, in ns. Empty if nothing arrived.
pub fn burstiness(name: &str, samples: &Samples, shift: i64, packets: u64, canvas: PlotCanvas) -> String {
    let arrivals = || (0..samples.len()).map(|k| samples.arrived(k));
    let (Some(first), Some(last)) = (arrivals().min(), arrivals().max()) else { return String::new() };
    let columns = canvas.width.saturating_sub(12).clamp(10, 200);
    let slice = (i128::from(last) - i128::from(first)) / columns as i128 + 1;
    let column = |at: i64| ((i128::from(at) - i128::from(first)) / slice) as usize;

    let mut delays: Vec<Vec<i64>> = vec![Vec::new(); columns];
    for k in 0..samples.len() {
        delays[column(samples.arrived(k))].push(samples.delay[k]);
    }
    let mut lost = vec![0u64; columns];
    let mut order: Vec<u32> = (0..samples.len() as u32).collect();
    order.sort_unstable_by_key(|k| samples.seq[*k as usize]);
    let mut due = 0;
    for k in order {
        // Place missing packets at the arrival time of the next packet that arrived.
        let seq = u64::from(samples.seq[k as usize]);
        lost[column(samples.arrived(k as usize))] += seq.saturating_sub(due);
        due = seq + 1;
    }
    lost[columns - 1] += packets.saturating_sub(due);

    let lowest = samples.delay.iter().min().copied().unwrap_or(0);
    let highest = samples.delay.iter().max().copied().unwrap_or(0);
    let range = (i128::from(highest) - i128::from(lowest)).max(1);
    let levels = canvas.levels();
    let level = |v: i64| levels[((i128::from(v) - i128::from(lowest)) * 7 / range).clamp(0, 7) as usize];
    let row = |of: &mut dyn FnMut(&mut Vec<i64>) -> i64, delays: &mut [Vec<i64>]| -> String {
        delays.iter_mut().map(|d| if d.is_empty() { ' ' } else { level(of(d)) }).collect()
    };
    let largest = row(&mut |d| d.iter().max().copied().unwrap_or(0), &mut delays);
    let median = row(
        &mut |d| {
            let middle = (d.len() - 1) / 2;
            *d.select_nth_unstable(middle).1
        },
        &mut delays,
    );
    let mut text = format!(
        "{name} over arrival time\n  {} to {}, each column {}\n  largest  {largest}\n  median   {median}\n",
        eng4(lowest.saturating_add(shift)),
        eng4(highest.saturating_add(shift)),
        eng4(slice.clamp(0, i64::MAX.into()) as i64)
    );
    let missing: u64 = lost.iter().sum();
    if missing > 0 {
        let marks: String = lost
            .iter()
            .map(|n| match n {
                0 => ' ',
                1 => '.',
                2..10 => 'x',
                _ => 'X',
            })
            .collect();
        text += &format!(
            "  missing  {}\n           {} missing: . one, x several, X ten or more\n",
            marks.trim_end(),
            count(missing, "packet")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::summary::Histogram;

    const ASCII: PlotCanvas = PlotCanvas { width: 60, unicode: false };

    #[test]
    fn a_histogram_keeps_its_overflow_in_sight() {
        let mut counts = vec![0; 70];
        (counts[0], counts[3], counts[20]) = (500, 400, 90);
        let histogram_ = Histogram {
            lo: 45_000,
            hi: 180_000,
            nbins: 70,
            binsize: 1929,
            overflow: 10,
            mode_bin: 0,
            mode: 45_964.0,
            counts,
        };
        let d = Distribution { n: 1000, histogram: Some(histogram_), ..Distribution::default() };
        let unicode = histogram("Latency", &d, PlotCanvas { width: 60, unicode: true });
        assert!(
            unicode
                .lines()
                .nth(1)
                .is_some_and(|line| line.ends_with("900  █████████████████████████████████████████"))
        );
        insta::assert_snapshot!(histogram("Latency", &d, ASCII), @r"
        Latency (1000 packets; each line begins at the value on its left)
            45.00 us  900  #########################################
            62.36 us    0
            79.72 us   90  #####
          > 180.0 us   10  #
        ");
        assert_eq!(histogram("Latency", &Distribution::default(), ASCII), "");
    }

    #[test]
    fn burstiness_marks_what_is_missing() {
        let n = 100u32;
        let seq: Vec<u32> = (0..n).filter(|s| !(40..52).contains(s) && *s != 80).collect();
        let sent: Vec<i64> = seq.iter().map(|s| i64::from(*s) * 20_000_000).collect();
        let delay: Vec<i64> = seq.iter().map(|s| if s % 33 == 0 { 9_000_000 } else { 1_000_000 }).collect();
        let samples = Samples { seq, sent, delay, ..Samples::default() };
        let unicode = PlotCanvas { width: 62, unicode: true };
        assert!(burstiness("Latency", &samples, 0, 101, ASCII).is_ascii());
        insta::assert_snapshot!(burstiness("Latency", &samples, 0, 101, unicode), @"
        Latency over arrival time
          1.000 ms to 9.000 ms, each column 39.60 ms
          largest  █▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁█▁▁▁      ▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁█
          median   ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁      ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
          missing                            X             .        .
                   14 packets missing: . one, x several, X ten or more
        ");
        assert_eq!(burstiness("Latency", &Samples::default(), 0, 5, ASCII), "");
    }
}
