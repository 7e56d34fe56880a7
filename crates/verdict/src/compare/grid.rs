//! [`ComparisonGrid`]: runs in rows and columns, for example one row per load and one column per traffic class. Within
//! a row, each column is compared with the first.

use super::{Basis, Comparison, ComparisonSettings, ComparisonSide, Precondition, Ready, compare_ready};
use crate::comparison;
use jitlat_core::answer::Answer;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::metrics::ipdv;
use jitlat_core::metrics::series::Samples;
use jitlat_core::scalars::{ExactNumber, selectors};
use jitlat_core::spec::{Direction, Dscp, ip_protocol_name};
use jitlat_core::summary::{Distribution, Ipdv, Summary};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// One run to be compared with others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelledRun {
    /// Label of the run.
    pub label: String,
    /// File of the run.
    pub source: String,
    /// Summary of the run.
    pub summary: Summary,
    /// Accepted packets of the run; empty if only the summary is available.
    pub samples: Samples,
}

/// Property by which runs are grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunKey {
    /// Label of the run: the name of the test, or its file.
    Label,
    /// Name given to the test when it was measured.
    Name,
    /// Value of this tag of the test.
    Tag(String),
    /// The requested DSCP.
    Dscp,
    /// Sender and receiver.
    Path,
    /// Direction of the packets: up or down.
    Direction,
    /// Transport protocol: UDP or TCP.
    Transport,
    /// Payload size.
    Payload,
    /// Mean time between packets.
    Period,
}

impl RunKey {
    /// Returns the value of this key for `run`; `-` if the run has none.
    pub fn of(&self, run: &LabelledRun) -> String {
        let (header, info) = (&run.summary.header, &run.summary.session);
        let known = match self {
            RunKey::Label => Some(run.label.clone()),
            RunKey::Name => info.name.clone(),
            RunKey::Tag(tag) => info.tags.get(tag).cloned(),
            RunKey::Dscp => {
                Some(Dscp::new(header.dscp.into()).map_or_else(|| header.dscp.to_string(), |d| d.to_string()))
            }
            RunKey::Path => {
                header.src_ip.as_ref().zip(header.dst_ip.as_ref()).map(|(s, d)| format!("{s} to {d}"))
            }
            RunKey::Direction if run.summary.is_round_trip() => Some("round trip".to_owned()),
            RunKey::Direction => run.summary.direction().map(|d| match d {
                Direction::Up => "up".to_owned(),
                Direction::Down => "down".to_owned(),
            }),
            RunKey::Transport => Some(ip_protocol_name(header.proto).into_owned()),
            RunKey::Payload => Some(header.pktlen).filter(|l| *l > 0).map(|l| format!("{l} bytes")),
            RunKey::Period => Some(header.period).filter(|p| *p > 0).map(jitlat_core::units::eng4),
        };
        known.unwrap_or_else(|| "-".to_owned())
    }

    /// Returns the precondition that is not checked between groups because this key varies it on purpose.
    fn varies(&self) -> Option<Precondition> {
        match self {
            RunKey::Label => None,
            // Users name or tag runs by their class.
            RunKey::Name | RunKey::Tag(_) | RunKey::Dscp => Some(Precondition::Dscp),
            RunKey::Path => Some(Precondition::Path),
            RunKey::Direction => Some(Precondition::Direction),
            RunKey::Transport => Some(Precondition::Transport),
            RunKey::Payload => Some(Precondition::Payload),
            RunKey::Period => Some(Precondition::Period),
        }
    }
}

/// Error: the text is not the name of a [`RunKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a key for grouping: choose one of name, tag:KEY, dscp, path, direction, transport, payload, period"
)]
pub struct NoKey(String);

impl FromStr for RunKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<RunKey, NoKey> {
        Ok(match text {
            "label" => RunKey::Label,
            "name" => RunKey::Name,
            "dscp" => RunKey::Dscp,
            "path" => RunKey::Path,
            "direction" => RunKey::Direction,
            "transport" => RunKey::Transport,
            "payload" => RunKey::Payload,
            "period" => RunKey::Period,
            other => match other.strip_prefix("tag:") {
                Some(tag) if !tag.is_empty() => RunKey::Tag(tag.to_owned()),
                _ => return Err(NoKey(other.to_owned())),
            },
        })
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RunKey::Label => "label",
            RunKey::Name => "name",
            RunKey::Tag(tag) => return write!(f, "tag:{tag}"),
            RunKey::Dscp => "dscp",
            RunKey::Path => "path",
            RunKey::Direction => "direction",
            RunKey::Transport => "transport",
            RunKey::Payload => "payload",
            RunKey::Period => "period",
        })
    }
}

/// Runs in one row and one column.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cell {
    /// Name of the column.
    pub column: String,
    /// Indices of the runs in the list of all runs.
    #[serde(skip)]
    pub members: Vec<usize>,
    /// Files of the runs.
    pub sources: Vec<String>,
    /// Hosts and times of the runs, where known.
    #[serde(skip)]
    pub measured: Vec<String>,
    /// Number of packets sent.
    pub sent: u64,
    /// Number of valid packets received, without duplicates.
    pub accepted: u64,
    /// Number of packets lost; `None` if loss is invisible (TCP).
    pub lost: Option<u64>,
    /// Share of sent packets that were lost; `None` if loss is invisible, or if no packet was sent.
    pub loss_ratio: Option<f64>,
    /// Length of the longest loss burst, in packets; `None` if loss is invisible.
    pub longest_loss: Option<u64>,
    /// Delay, corrected if the clocks allow it; `None` for several runs with only summaries, which cannot be pooled.
    pub latency: Option<Distribution>,
    /// True if `latency` is reliable: a round trip, or a one-way delay between clocks whose offset is known.
    pub latency_trusted: bool,
    /// Delay above each run's own minimum.
    pub pdv: Option<Distribution>,
    /// Delay variation of consecutive packets.
    pub ipdv: Option<Ipdv>,
    /// Mean of RTP jitter, in ns; `None` for several runs.
    pub rfc3550_mean: Option<f64>,
    /// Best mean opinion score; `None` for several runs.
    pub mos: Option<f64>,
    /// Verdict on the worst run; `None` if no verdict is known.
    pub answer: Option<Answer>,
    /// All defined figures by key. For several runs, only figures that can be computed from all packets or counts.
    /// `latency-*` figures are those of `latency`.
    pub figures: BTreeMap<String, ExactNumber>,
    /// PDV of the packets, sorted; `None` if the packets are not available.
    #[serde(skip)]
    pub pdv_sample: Option<Sample>,
    /// Delays of the packets, sorted; `None` if the packets are not available.
    #[serde(skip)]
    pub latency_sample: Option<Sample>,
    /// Delay variations of consecutive packets, sorted; `None` if the packets are not available.
    #[serde(skip)]
    pub ipdv_sample: Option<Sample>,
}

/// One row, with its cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonRow {
    /// Value that the runs of this row share; empty if there is only one row.
    pub name: String,
    /// One cell per column; `None` if the row has no runs for the column.
    pub cells: Vec<Option<Cell>>,
    /// Comparison of each further column with the first column that has runs.
    pub comparisons: Vec<Comparison>,
}

/// Runs in rows and columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonGrid {
    /// Compared quantity.
    pub basis: Basis,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows of the grid.
    pub rows: Vec<ComparisonRow>,
    /// Verdict on the grid: which column differs, by how much and how reliably, and the causes in a worse column.
    pub answer: Answer,
}

impl ComparisonGrid {
    /// Groups `runs` into columns by one key and, if a second key is given, into rows by the second key. Columns and
    /// rows are in the order of their first appearance, except that the column `baseline` comes first. Runs with equal
    /// keys are pooled.
    pub fn new(
        runs: &[LabelledRun],
        columns: &RunKey,
        rows: Option<&RunKey>,
        baseline: Option<&str>,
        question: &ComparisonSettings,
    ) -> ComparisonGrid {
        let names = |key: &RunKey| {
            let mut names: Vec<String> = Vec::new();
            for name in runs.iter().map(|r| key.of(r)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names
        };
        let question = ComparisonSettings { varied: question.varied.or(columns.varies()), ..*question };
        let mut column_names = names(columns);
        // The sort is stable: the other columns keep their order.
        column_names.sort_by_key(|name| baseline != Some(name.as_str()));
        let row = |name: String| {
            let here = |(_, r): &(usize, &LabelledRun)| rows.is_none_or(|key| key.of(r) == name);
            let groups: Vec<Vec<(usize, &LabelledRun)>> = column_names
                .iter()
                .map(|column| {
                    runs.iter().enumerate().filter(here).filter(|(_, r)| columns.of(r) == *column).collect()
                })
                .collect();
            ComparisonRow {
                comparisons: comparisons(&column_names, &groups, &question),
                cells: column_names.iter().zip(&groups).map(|(c, g)| Cell::new(c, g)).collect(),
                name,
            }
        };
        let row_names = rows.map_or_else(|| vec![String::new()], names);
        let rows: Vec<ComparisonRow> = row_names.into_iter().map(row).collect();
        ComparisonGrid {
            basis: question.basis,
            seed: question.seed,
            answer: comparison::answer(&rows),
            rows,
            columns: column_names,
        }
    }

    /// Iterates over all comparisons, with the names of their rows.
    pub fn comparisons(&self) -> impl Iterator<Item = (&str, &Comparison)> {
        self.rows.iter().flat_map(|row| row.comparisons.iter().map(|c| (row.name.as_str(), c)))
    }
}

fn comparisons(
    columns: &[String],
    groups: &[Vec<(usize, &LabelledRun)>],
    question: &ComparisonSettings,
) -> Vec<Comparison> {
    let side = |(column, group): (&String, &Vec<(usize, &LabelledRun)>)| {
        let of = |(_, run): &(usize, &LabelledRun)| {
            ComparisonSide::new(column, &run.summary, &run.samples, question.basis, question.statistic)
        };
        (!group.is_empty()).then(|| ComparisonSide::pooled(column, group.iter().map(of).collect()))
    };
    let mut sides = columns.iter().zip(groups).filter_map(side);
    let Some(first) = sides.next() else { return Vec::new() };
    let first = Ready::new(&first);
    sides.map(|other| compare_ready(&first, &Ready::new(&other), question)).collect()
}

impl Cell {
    /// Pools `runs`; `None` if there are none.
    fn new(column: &str, group: &[(usize, &LabelledRun)]) -> Option<Cell> {
        let runs: Vec<&LabelledRun> = group.iter().map(|(_, run)| *run).collect();
        let (first, others) = runs.split_first()?;
        let summaries = || runs.iter().map(|r| &r.summary);
        let sum = |of: fn(&Summary) -> u64| summaries().map(of).fold(0, u64::saturating_add);
        let observable = summaries().all(Summary::loss_observable);
        let (sent, lost) = (sum(|d| d.counts.sent), observable.then(|| sum(|d| d.counts.lost)));
        let at_hand = runs.iter().all(|r| !r.samples.is_empty());
        let trusted = summaries().all(|d| d.correction().is_some());
        let shift = |d: &Summary| d.correction().map_or(0, |c| c.0);
        let mut cell = Cell {
            column: column.to_owned(),
            members: group.iter().map(|(k, _)| *k).collect(),
            sources: runs.iter().map(|r| r.source.clone()).collect(),
            measured: summaries().filter_map(Summary::measured).collect(),
            sent,
            accepted: sum(|d| d.counts.unique_valid),
            lost,
            loss_ratio: lost.filter(|_| sent > 0).map(|l| l as f64 / sent as f64),
            longest_loss: observable
                .then(|| summaries().filter_map(|d| d.loss.run_length_hist.keys().next_back()).max().copied())
                .flatten(),
            latency: None,
            latency_trusted: trusted,
            pdv: None,
            ipdv: None,
            rfc3550_mean: None,
            mos: None,
            answer: summaries().filter_map(|d| d.answer.as_ref()).max_by_key(|a| a.severity).cloned(),
            figures: BTreeMap::new(),
            pdv_sample: None,
            latency_sample: None,
            ipdv_sample: None,
        };
        if at_hand {
            let minima = || runs.iter().map(|r| r.samples.delay.iter().copied().min().unwrap_or(0));
            let values = |less: Vec<i64>| -> Vec<i64> {
                let each = runs.iter().zip(less);
                each.flat_map(|(r, by)| r.samples.delay.iter().map(move |d| d.saturating_sub(by))).collect()
            };
            let (pdv, sample) = Distribution::of_values(&values(minima().collect()));
            (cell.pdv, cell.pdv_sample) = (Some(pdv), Some(sample));
            let (latency, sample) = Distribution::of_values(&values(summaries().map(shift).collect()));
            (cell.latency, cell.latency_sample) = (Some(latency), Some(sample));
            let (ipdv, sample) = pooled_ipdv(&runs);
            (cell.ipdv, cell.ipdv_sample) = (Some(ipdv), Some(sample));
        }
        if others.is_empty() {
            let summary = &first.summary;
            if !at_hand {
                cell.pdv = Some(summary.pdv.clone());
                cell.latency = Some(summary.latency.less(shift(summary)));
            }
            cell.ipdv = Some(summary.ipdv.clone());
            cell.rfc3550_mean = summary.rfc3550_jitter.map(|j| j.mean);
            cell.mos = summary.best_mos();
        }
        let together = cell.together(&runs);
        let defined = selectors().filter_map(|s| Some((s.to_string(), s.of(&together)?)));
        cell.figures = defined.collect();
        Some(cell)
    }
}

impl Cell {
    /// Returns the summary from which figures are taken: the summary of a single run, or the figures of several runs
    /// that can be pooled.
    fn together(&self, runs: &[&LabelledRun]) -> Summary {
        let mut whole = match runs {
            [only] => only.summary.clone(),
            several => pooled(several),
        };
        whole.loss.ratio = self.loss_ratio;
        whole.ipdv = self.ipdv.clone().unwrap_or_default();
        whole.pdv = self.pdv.clone().unwrap_or_default();
        whole.latency = self.latency.clone().unwrap_or_default();
        whole
    }

    /// Returns the figure `key`; `None` if it is undefined.
    pub fn scalar(&self, key: &str) -> Option<ExactNumber> {
        self.figures.get(key).copied()
    }
}

/// Pools the counts and the lengths of loss bursts.
fn pooled(runs: &[&LabelledRun]) -> Summary {
    let mut whole = Summary::default();
    let c = &mut whole.counts;
    for run in runs {
        let each = &run.summary.counts;
        for (sum, count) in [
            (&mut c.sent, each.sent),
            (&mut c.received, each.received),
            (&mut c.unique_valid, each.unique_valid),
            (&mut c.duplicate, each.duplicate),
            (&mut c.invalid, each.invalid),
            (&mut c.lost, each.lost),
            (&mut c.late, each.late),
            (&mut c.out_of_sequence, each.out_of_sequence),
            (&mut whole.loss.periods, run.summary.loss.periods),
        ] {
            *sum = sum.saturating_add(count);
        }
        for (length, runs) in &run.summary.loss.run_length_hist {
            *whole.loss.run_length_hist.entry(*length).or_default() += runs;
        }
    }
    whole
}

/// Pools the delay differences within each run. Returns their figures, and the differences in ascending order.
fn pooled_ipdv(runs: &[&LabelledRun]) -> (Ipdv, Sample) {
    let steps: Vec<i64> = runs.iter().flat_map(|run| ipdv::steps(&run.samples)).collect();
    let possible = runs.iter().map(|r| r.summary.counts.sent.saturating_sub(1)).sum();
    ipdv::of_steps(steps, possible)
}

#[cfg(test)]
mod tests {
    use super::super::{ComparedQuantity, ComparisonOutcome, Statistic};
    use super::*;
    use jitlat_core::session::Session;
    use jitlat_core::{Analyzer, PacketRecord, TestSpec, WallTime};

    fn run(class: &str, load: &str, seed: i64, shift: i64) -> LabelledRun {
        let mut session = Session::new(TestSpec::default());
        session.tags = vec![("class".into(), class.into()), ("load".into(), load.into())];
        let mut analyzer = Analyzer::new(&session, &crate::options());
        for seq in 0..400 {
            let jitter = if seq == 0 { 0 } else { shift + (seq * 7919 + seed * 104_729) % 1000 };
            analyzer.push(&PacketRecord::one_way(
                seq,
                WallTime(seq * 20_000_000),
                WallTime(seq * 20_000_000 + 5_000_000 + jitter),
            ));
        }
        let (summary, samples) = analyzer.finish_with_samples(&session);
        LabelledRun { label: format!("{class} {load} {seed}"), source: "x".into(), summary, samples }
    }

    fn tag(name: &str) -> RunKey {
        RunKey::Tag(name.into())
    }

    #[test]
    fn classes_by_load() {
        let runs = [
            run("EF", "idle", 1, 0),
            run("BE", "idle", 2, 3),
            run("EF", "busy", 3, 0),
            run("BE", "busy", 4, 5_000),
        ];
        let grid = ComparisonGrid::new(
            &runs,
            &tag("class"),
            Some(&tag("load")),
            None,
            &ComparisonSettings::default(),
        );
        assert_eq!(grid.columns, ["EF", "BE"]);
        let outcomes: Vec<_> = grid.comparisons().map(|(row, c)| (row, c.b.as_str(), c.outcome)).collect();
        assert_eq!(
            outcomes,
            [("idle", "BE", ComparisonOutcome::Undecided), ("busy", "BE", ComparisonOutcome::Different)]
        );
        let busy = grid.rows[1].cells[1].as_ref().unwrap();
        assert_eq!(busy.ipdv.as_ref(), Some(&runs[3].summary.ipdv));
        assert_eq!(busy.pdv.as_ref().unwrap().percentiles, runs[3].summary.pdv.percentiles);
        let turned = ComparisonGrid::new(
            &runs,
            &tag("class"),
            Some(&tag("load")),
            Some("BE"),
            &ComparisonSettings::default(),
        );
        assert!(turned.comparisons().all(|(_, c)| c.a == "BE"));
    }

    #[test]
    fn runs_of_a_group_are_taken_together() {
        let runs: Vec<LabelledRun> =
            (0..6).map(|k| run(if k < 3 { "a" } else { "b" }, "-", k, (k / 3) * 4_000)).collect();
        let grid = ComparisonGrid::new(&runs, &tag("class"), None, None, &ComparisonSettings::default());
        let [a, b] = &grid.rows[0].cells[..] else { panic!("two columns") };
        let (a, b) = (a.as_ref().unwrap(), b.as_ref().unwrap());
        assert_eq!((a.sent, a.members.clone(), b.members.clone()), (1200, vec![0, 1, 2], vec![3, 4, 5]));
        assert_eq!((a.ipdv.as_ref().unwrap().n, a.pdv.as_ref().unwrap().n), (3 * 399, 1200));
        assert_eq!(grid.rows[0].comparisons[0].outcome, ComparisonOutcome::Different);

        // Without packets counts are added, and percentiles stay undefined.
        let summaries: Vec<LabelledRun> =
            runs.into_iter().map(|r| LabelledRun { samples: Samples::default(), ..r }).collect();
        let grid = ComparisonGrid::new(&summaries, &tag("class"), None, None, &ComparisonSettings::default());
        let a = grid.rows[0].cells[0].as_ref().unwrap();
        assert_eq!((a.sent, &a.pdv, &a.ipdv), (1200, &None, &None));
        assert_eq!(grid.rows[0].comparisons[0].outcome, ComparisonOutcome::Undecided);
    }

    #[test]
    fn variation_from_run_to_run_is_not_taken_for_an_effect() {
        // Three runs per side. Their levels differ between runs of a side as much as between the sides.
        let at = |class, seed, level| run(class, "-", seed, level);
        let runs = [
            at("a", 1, 0),
            at("a", 2, 9_000),
            at("a", 3, 2_000),
            at("b", 4, 8_000),
            at("b", 5, 1_000),
            at("b", 6, 4_000),
        ];
        let grid = ComparisonGrid::new(&runs, &tag("class"), None, None, &ComparisonSettings::default());
        assert_ne!(grid.rows[0].comparisons[0].outcome, ComparisonOutcome::Different);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let (a, mut b) = (run("a", "-", 1, 0), run("b", "-", 2, 0));
        let outcome = |b: &LabelledRun, key: &RunKey| {
            let grid =
                ComparisonGrid::new(&[a.clone(), b.clone()], key, None, None, &ComparisonSettings::default());
            let c = grid.rows[0].comparisons[0].clone();
            (c.outcome, c.unlike.iter().map(|u| u.what).collect::<Vec<_>>())
        };
        b.summary.session.direction = Direction::Down;
        assert_eq!(outcome(&b, &RunKey::Label), (ComparisonOutcome::Refused, vec![Precondition::Direction]));
        assert_eq!(outcome(&b, &RunKey::Direction).0, ComparisonOutcome::Undecided, "asked for");
        b.summary.two_way = Some(Box::default());
        assert_eq!(outcome(&b, &RunKey::Label), (ComparisonOutcome::Refused, vec![Precondition::Kind]));
        b = run("b", "-", 2, 0);
        (b.summary.header.period, b.summary.header.pktlen) = (10_000_000, 1200);
        assert_eq!(
            outcome(&b, &RunKey::Label),
            (ComparisonOutcome::Undecided, vec![Precondition::Period, Precondition::Payload])
        );
        b.samples = a.samples.clone();
        assert_eq!(outcome(&b, &RunKey::Label).0, ComparisonOutcome::Refused, "the same packets");
    }

    #[test]
    fn delay_needs_clocks() {
        let mut runs = [run("a", "-", 1, 0), run("b", "-", 2, 500_000)];
        let question = ComparisonSettings {
            basis: Basis::Delay,
            statistic: Statistic::Median,
            ..ComparisonSettings::default()
        };
        let decide = |runs: &[LabelledRun]| {
            ComparisonGrid::new(runs, &tag("class"), None, None, &question).rows[0].comparisons[0].outcome
        };
        assert_eq!(decide(&runs), ComparisonOutcome::Undecided);
        for run in &mut runs {
            (run.summary.clock.correction_ns, run.summary.clock.bound_ns) = (Some(4_000_000), Some(100.0));
        }
        assert_eq!(decide(&runs), ComparisonOutcome::Different);
        runs[0].summary.clock.bound_ns = Some(1e6);
        assert_eq!(decide(&runs), ComparisonOutcome::Undecided, "the change is within the clocks' error");
    }

    #[test]
    fn the_headline_counts_delay_where_the_clocks_allow_it() {
        let mut runs = [run("a", "-", 1, 0), run("b", "-", 2, 0)];
        // The route of the second run is 2 ms longer; its jitter is the same.
        let later = |summary: &mut Summary| {
            for figure in [&mut summary.latency.min, &mut summary.latency.max].into_iter().flatten() {
                *figure += 2_000_000;
            }
        };
        later(&mut runs[1].summary);
        runs[1].samples.delay.iter_mut().for_each(|delay| *delay += 2_000_000);
        let of = |runs: &[LabelledRun]| {
            let grid = ComparisonGrid::new(runs, &tag("class"), None, None, &ComparisonSettings::default());
            let quantities = |c: &Comparison| c.compared.iter().map(|f| f.quantity).collect::<Vec<_>>();
            (grid.answer.headline.clone(), quantities(&grid.rows[0].comparisons[0]))
        };
        let (headline, quantities) = of(&runs);
        assert!(headline.starts_with("No difference found"), "{headline}");
        assert_eq!(quantities, [ComparedQuantity::Jitter, ComparedQuantity::Loss]);
        for run in &mut runs {
            (run.summary.clock.correction_ns, run.summary.clock.bound_ns) = (Some(4_000_000), Some(1e5));
        }
        let (headline, quantities) = of(&runs);
        assert!(headline.starts_with("Worse: b has 2.0 ms more delay at the median"), "{headline}");
        assert_eq!(quantities.len(), 3);
        // Clocks that may be wrong by more than the change do not show it.
        runs[0].summary.clock.bound_ns = Some(5e6);
        assert_eq!(of(&runs).1, [ComparedQuantity::Jitter, ComparedQuantity::Loss]);
    }

    #[test]
    fn ipdv_is_compared_by_its_size_and_needs_no_clocks() {
        // The same distribution of delays; in one run neighbouring delays are similar.
        let (shuffled, mut sorted) = (run("a", "-", 1, 0), run("b", "-", 1, 0));
        sorted.samples.delay.sort_unstable();
        let outcome = |basis| {
            let question = ComparisonSettings { basis, ..ComparisonSettings::default() };
            let runs = [shuffled.clone(), sorted.clone()];
            ComparisonGrid::new(&runs, &tag("class"), None, None, &question).rows[0].comparisons[0].clone()
        };
        assert_eq!(outcome(Basis::Pdv).median.unwrap().change, 0.0);
        let c = outcome(Basis::Ipdv);
        assert_eq!((c.outcome, c.n, c.is_worse()), (ComparisonOutcome::Different, [399, 399], false));
        assert!(c.median.unwrap().change < -50.0, "{:?}", c.median);
    }

    #[test]
    fn keys_are_what_they_say() {
        for text in
            ["name", "dscp", "path", "direction", "transport", "payload", "period", "label", "tag:load"]
        {
            assert_eq!(text.parse::<RunKey>().unwrap().to_string(), text);
        }
        for bad in ["", "tag:", "tag", "colour"] {
            assert!(bad.parse::<RunKey>().is_err(), "{bad}");
        }
        let run = run("EF", "x", 1, 0);
        assert_eq!(
            (RunKey::Dscp.of(&run), tag("load").of(&run), RunKey::Name.of(&run)),
            ("0".into(), "x".into(), "-".into())
        );
    }
}
