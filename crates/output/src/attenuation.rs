//! Quality attenuation of saved tests: the parts of the attenuation of a path ([`parts`]), and the segments of a path
//! ([`SegmentsReport`]).

use crate::error::{Error, Result, bail};
use crate::input;
use crate::report::{AnalysedStream, Report, ReportExtra};
use crate::runs::split;
use jitlat_core::metrics::attenuation::{self, Attenuation, AttenuationParts, Remainder, common_width};
use jitlat_core::twoway::{RecordView, project};
use jitlat_core::units::eng3;
use jitlat_core::{Options, PacketRecord, Session, Summary};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Delays of the packets of a test.
struct SizedDelays {
    /// Delays in ns, corrected by the clock estimate if there is one, by payload in bytes.
    by_size: BTreeMap<u32, Vec<i64>>,
    lost: u64,
    /// Largest error of all delays because two clocks do not agree, in ns; `None` if it is unknown.
    bound_ns: Option<f64>,
}

impl SizedDelays {
    fn of(session: &Session, summary: &Summary, records: &[PacketRecord]) -> SizedDelays {
        let (correction, bound_ns) = match summary.correction() {
            Some((correction, bound)) => (correction, Some(bound)),
            // Both ends are one host, which has one clock.
            None if session.src.is_some() && session.src == session.dst => (0, Some(0.0)),
            None => (0, None),
        };
        let is_round_trip = summary.is_round_trip();
        let mut seen = BTreeSet::new();
        let mut by_size: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        for record in records {
            let view = if is_round_trip { project(record, RecordView::RoundTrip) } else { Some(*record) };
            let Some(delay) = view.and_then(|packet| packet.delay()).filter(|_| seen.insert(record.seq))
            else {
                continue;
            };
            let size = record.size().or(session.payload()).unwrap_or(0);
            by_size.entry(size.into()).or_default().push(delay.0.saturating_sub(correction));
        }
        SizedDelays { by_size, lost: summary.counts.lost, bound_ns }
    }

    fn all(&self) -> Vec<i64> {
        self.by_size.values().flatten().copied().collect()
    }
}

/// Parts of the attenuation of a path, as JSON.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartsDocument {
    #[serde(flatten)]
    parts: AttenuationParts,
    /// Largest error of G because two clocks do not agree, in ns; 0 with one clock, `None` if G includes an unknown clock
    /// offset.
    clock_bound_ns: Option<f64>,
}

/// Returns the parts of the attenuation of the path of `runs`, which differ in the size of their packets, as a section of
/// their report. `None` if nothing was received.
///
/// # Errors
/// The rows of a log cannot be read again.
pub fn parts(runs: &[AnalysedStream]) -> Result<Option<ReportExtra>> {
    let mut by_size: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    let (mut lost, mut clock_bound_ns) = (0, Some(0.0f64));
    for run in runs {
        let found = SizedDelays::of(&run.session, &run.summary, &run.packets()?);
        lost += found.lost;
        clock_bound_ns = clock_bound_ns.zip(found.bound_ns).map(|(a, b)| a.max(b));
        for (size, delays) in found.by_size {
            by_size.entry(size).or_default().extend(delays);
        }
    }
    let Some(parts) = attenuation::parts(&by_size, lost) else { return Ok(None) };
    let document = PartsDocument { parts, clock_bound_ns };
    let json = serde_json::to_value(&document).map_err(Error::from)?;
    Ok(Some(ReportExtra { key: "attenuation", text: document.text(), json }))
}

impl PartsDocument {
    fn text(&self) -> String {
        let PartsDocument { parts, clock_bound_ns } = self;
        let sizes: Vec<u32> = parts.sizes.keys().copied().collect();
        let clock = match clock_bound_ns {
            Some(0.0) => String::new(),
            Some(bound) => format!(" (clocks +/- {})", eng3(*bound)),
            None => " (with the unknown offset of the clocks)".to_owned(),
        };
        let fixed = eng3(parts.fixed_ns);
        let mut text = "\nQuality attenuation: delay = G + S x bytes + V\n".to_owned();
        match (parts.per_byte_ns, sizes.as_slice()) {
            (Some(per_byte), [least, .., most]) => {
                let range = parts.per_byte_range_ns.map_or(String::new(), |[low, high]| {
                    format!(", {} to {} if any one size is left out", eng3(low), eng3(high))
                });
                let _ = writeln!(text, "  G  an empty path, size zero: {fixed}{clock}");
                let _ = writeln!(
                    text,
                    "  S  per byte of payload: {}{range}, from {} sizes of {least} to {most} bytes",
                    eng3(per_byte),
                    sizes.len()
                );
            }
            _ => {
                let _ = writeln!(
                    text,
                    "  G + S  an empty path: {fixed}{clock}; one size of packets does not separate the two"
                );
            }
        }
        let of_all = |(percent, ns): &(f64, f64)| format!("{percent} % {}", eng3(*ns));
        let variable: Vec<String> = parts.variable_ns.iter().map(of_all).collect();
        let mean = eng3(parts.variable_mean_ns);
        let _ = writeln!(text, "  V  other traffic: mean {mean}; {}", variable.join(", "));
        let _ = writeln!(text, "  missing mass (lost): {:.3} %", 100.0 * parts.missing);
        text
    }
}

/// Percentages of the packets that arrive in tables of segments.
const PERCENTS: [f64; 3] = [50.0, 90.0, 99.0];

/// Attenuation of a segment or of the whole path.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SegmentRow {
    /// Name of the segment.
    name: String,
    /// Share of lost packets; `None` if it is impossible or unknown.
    missing: Option<f64>,
    /// Mean delay of the packets that arrive, in ns.
    mean_ns: f64,
    /// Percentages of the packets that arrive, each with their largest delay in ns.
    within_ns: Vec<(f64, f64)>,
    /// Limits of these delays, in ns, however the delays of the segments depend on each other; `None` for measured and
    /// composed segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits_ns: Option<Vec<[f64; 2]>>,
}

impl SegmentRow {
    fn new(name: &str, of: &Attenuation) -> SegmentRow {
        let arrive = 1.0 - of.missing();
        let within = |percent: f64| Some((percent, of.within(percent / 100.0 * arrive)?));
        SegmentRow {
            name: name.to_owned(),
            missing: Some(of.missing()),
            mean_ns: of.mean_ns(),
            within_ns: PERCENTS.into_iter().filter_map(within).collect(),
            limits_ns: None,
        }
    }

    fn of_rest(name: &str, rest: &Remainder) -> SegmentRow {
        SegmentRow {
            missing: rest.missing,
            mean_ns: rest.mean_ns,
            limits_ns: Some(PERCENTS.map(|percent| rest.limits(percent / 100.0)).to_vec()),
            ..SegmentRow::new(name, &rest.distribution)
        }
    }
}

/// Comparison of a composition with the measured whole path.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Agreement {
    /// Largest difference between the shares of packets that arrive within any delay.
    distance: f64,
    /// Largest distance that chance explains for independent packets, with 95 % confidence.
    chance: f64,
}

/// Attenuation of segments and of the path that they form, as JSON.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SegmentsReport {
    /// The measured segments, and the whole path last.
    measured: Vec<SegmentRow>,
    /// The segments composed, if their delays are independent; `None` if only one segment was measured.
    composed: Option<SegmentRow>,
    /// Comparison of the composition with the whole path.
    composed_agrees: Option<Agreement>,
    /// The whole path without the first segment, if the delays of both are independent.
    rest: SegmentRow,
    /// Comparison of the first segment, composed with the rest, with the whole path.
    rest_agrees: Agreement,
    /// Width of the bins of all distributions, in ns.
    width_ns: i64,
    /// Error of the absolute delays because clocks do not agree, in ns: the sum for all tests; `None` if it is unknown.
    clock_bound_ns: Option<f64>,
}

impl SegmentsReport {
    /// Reads the logs `files`, each perhaps as `LABEL=FILE`: the first segment of a path, perhaps the second, and the whole
    /// path.
    ///
    /// # Errors
    /// There are not two or three logs, one of them cannot be read, or nothing was received in one.
    pub fn read(files: &[PathBuf]) -> Result<SegmentsReport> {
        if !(2..=3).contains(&files.len()) {
            bail!(
                "--attenuation: give the log of the first segment, perhaps that of the second, and that of the whole path"
            );
        }
        let mut runs = Vec::new();
        for file in files {
            let (label, path) = split(file);
            let mut log = input::open(path)?;
            let session = log.session().clone();
            let mut failure = None;
            let records: Vec<PacketRecord> = log.records(&mut failure).collect();
            failure.map_or(Ok(()), |e| Err(Error::from(e)))?;
            let summary = jitlat_core::analyze(&session, records.iter().copied(), &Options::default());
            let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            runs.push((label.map_or(name, str::to_owned), SizedDelays::of(&session, &summary, &records)));
        }
        SegmentsReport::new(&runs)
    }

    fn new<N: AsRef<str>>(runs: &[(N, SizedDelays)]) -> Result<SegmentsReport> {
        let found: Vec<&SizedDelays> = runs.iter().map(|(_, found)| found).collect();
        let delays: Vec<Vec<i64>> = found.iter().map(|found| found.all()).collect();
        let width = common_width(&delays.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let of = |((name, found), delays): (&(N, SizedDelays), &Vec<i64>)| {
            Attenuation::of(delays, found.lost, width)
                .ok_or_else(|| Error::Unfit(format!("{}: nothing was received", name.as_ref())))
        };
        let all = runs.iter().zip(&delays).map(of).collect::<Result<Vec<Attenuation>>>()?;
        let names: Vec<&str> = runs.iter().map(|(name, _)| name.as_ref()).collect();
        let (whole, whole_name) = (&all[all.len() - 1], names[names.len() - 1]);
        let composed = match &all[..all.len() - 1] {
            [first, second] => first.then(second),
            _ => None,
        };
        let agreement =
            |of: &Attenuation| Agreement { distance: of.distance(whole), chance: of.chance_distance(whole) };
        let rest = attenuation::remainder(whole, &all[0])
            .ok_or_else(|| Error::Unfit(format!("{whole_name}: no packet arrives")))?;
        Ok(SegmentsReport {
            measured: names.iter().zip(&all).map(|(name, of)| SegmentRow::new(name, of)).collect(),
            composed_agrees: composed.as_ref().map(agreement),
            composed: composed.map(|of| SegmentRow::new(&format!("{} then {}", names[0], names[1]), &of)),
            rest: SegmentRow::of_rest(&format!("{whole_name} less {}", names[0]), &rest),
            rest_agrees: Agreement { distance: rest.misfit, chance: rest.chance },
            width_ns: width,
            clock_bound_ns: found.iter().map(|found| found.bound_ns).sum(),
        })
    }

    /// Formats the report for people.
    pub fn text(&self) -> String {
        let rows: Vec<&SegmentRow> = self.measured.iter().chain(&self.composed).chain([&self.rest]).collect();
        let name = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let mut text = format!("{:name$}  {:>8}  {:>8}", "", "lost", "mean");
        PERCENTS.iter().for_each(|percent| {
            let _ = write!(text, "  {:>8}", format!("{percent} %"));
        });
        text.push('\n');
        for row in &rows {
            let lost = row.missing.map_or("-".to_owned(), |missing| format!("{:.2} %", 100.0 * missing));
            let _ = write!(text, "{:name$}  {lost:>8}  {:>8}", row.name, eng3(row.mean_ns));
            row.within_ns.iter().for_each(|(_, ns)| {
                let _ = write!(text, "  {:>8}", eng3(*ns));
            });
            text.push('\n');
        }
        if let Some(limits) = &self.rest.limits_ns {
            let each: Vec<String> = PERCENTS
                .iter()
                .zip(limits)
                .map(|(percent, [low, high])| format!("{percent} % {} to {}", eng3(*low), eng3(*high)))
                .collect();
            let _ = writeln!(text, "\nLimits of the rest for any dependence: {}", each.join(", "));
        }
        if let Some(agrees) = &self.composed_agrees {
            let _ = writeln!(text, "The segments composed {}", agrees.sentence());
        }
        let _ = writeln!(text, "The first segment and the rest {}", self.rest_agrees.sentence());
        if self.rest.missing.is_none() {
            text += "The whole path loses less than its first segment: by chance, or the tests had different paths\n";
        }
        let clocks = match self.clock_bound_ns {
            Some(0.0) => "one clock each".to_owned(),
            Some(bound) => format!("errors of the clocks {} in total", eng3(bound)),
            None => "the clocks do not bound absolute delays: only differences within a row are meaningful"
                .to_owned(),
        };
        let _ = writeln!(text, "Bins of {}; {clocks}", eng3(self.width_ns as f64));
        text
    }
}

impl Agreement {
    fn sentence(self) -> String {
        let Agreement { distance, chance } = self;
        let [distance, chance] = [distance, chance].map(|share| 100.0 * share);
        match distance <= chance {
            true => {
                format!("differ from the whole path by {distance:.1} % of packets, which chance explains")
            }
            false => format!(
                "differ from the whole path by {distance:.1} % of packets, more than chance explains ({chance:.1} %): \
                 their delays depend on each other, or changed between the tests"
            ),
        }
    }
}

impl Report for SegmentsReport {
    fn json(&self) -> Result<Value> {
        serde_json::to_value(self).map_err(Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(delays: impl IntoIterator<Item = i64>, lost: u64) -> SizedDelays {
        SizedDelays {
            by_size: BTreeMap::from([(80, delays.into_iter().collect())]),
            lost,
            bound_ns: Some(0.0),
        }
    }

    #[test]
    fn segments_are_composed_and_subtracted() {
        const MS: i64 = 1_000_000;
        // A-B takes 5 or 7 ms, B-C 10 ms; A-C both.
        let near = || (0..2000).map(|k| 5 * MS + k % 2 * 2 * MS);
        let far = test((0..2000).map(|_| 10 * MS), 0);
        let whole = test(near().map(|delay| delay + 10 * MS), 0);
        let report = SegmentsReport::new(&[("A-B", test(near(), 0)), ("B-C", far), ("A-C", whole)]).unwrap();
        let text = report.text();
        assert!(text.contains("A-C less A-B") && text.contains("A-B then B-C"), "{text}");
        assert!(
            text.contains("The segments composed differ from the whole path by 0.0 % of packets, which"),
            "{text}"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["rest"]["missing"], 0.0);
        let rest = json["rest"]["mean_ns"].as_f64().unwrap();
        assert!((rest - 10e6).abs() < 1e5, "{rest}");
        assert_eq!(json["measured"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn two_or_three_logs_are_needed() {
        let files = |n: usize| vec![PathBuf::from("no such file"); n];
        for n in [1, 4] {
            let error = SegmentsReport::read(&files(n)).unwrap_err().to_string();
            assert!(error.starts_with("--attenuation: give the log"), "{error}");
        }
        let nothing = SegmentsReport::new(&[("A-B", test([], 5)), ("A-C", test([1], 0))]);
        assert_eq!(nothing.unwrap_err().to_string(), "A-B: nothing was received");
    }

    #[test]
    fn one_size_is_named() {
        let parts = attenuation::parts(&BTreeMap::from([(80, vec![5_000_000, 9_000_000])]), 2).unwrap();
        let text = PartsDocument { parts, clock_bound_ns: None }.text();
        assert!(
            text.contains("G + S  an empty path: 5.00 ms (with the unknown offset of the clocks)"),
            "{text}"
        );
        assert!(text.contains("missing mass (lost): 50.000 %"), "{text}");
    }
}
