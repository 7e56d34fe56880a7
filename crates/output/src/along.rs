//! `--along`: figures of saved tests as curves over a number that differs between the tests, such as a distance in
//! their tags.

use crate::error::{Context, Result, bail};
use crate::pages;
use crate::report::{Drawings, Report, ReportTable};
use crate::sweep::{PointDocument, lines, table};
use crate::terminal;
use jitlat_core::WallTime;
use jitlat_core::answer::Answer;
use jitlat_core::sweep::{
    ConfidenceLevel, Factor, FactorLevel, RunOutcome, SweepAxis, SweepGrid, SweepPoint, SweepRun, points,
    with_intervals_of_packets,
};
use jitlat_report::figure::{Figure, Sweep, label_measured, measured_of_several, of_sweep};
use jitlat_report::text::TextOptions;
use jitlat_report::text::screen::{Screen, Swept};
use jitlat_report::{FirstScreen, Section};
use jitlat_verdict::compare::{LabelledRun, RunKey};
use jitlat_verdict::sweep::answer;
use serde::Serialize;
use serde_json::Value;

/// Quantity of one-way tests.
const ONE_WAY: &str = "one-way delay";

/// Runs arranged by a number, in one or several curves.
pub struct CurveReport {
    quantity: &'static str,
    grid: SweepGrid,
    points: Vec<SweepPoint>,
    confidence: ConfidenceLevel,
    answer: Answer,
    title: String,
    /// Hosts and times of the runs.
    measured: String,
}

impl CurveReport {
    /// Arranges `runs` by the number in `key`, with one curve per value of `group`. Runs with the same number and group
    /// are repetitions.
    ///
    /// # Errors
    /// [`Error`](crate::Error) if a run does not have this number, if its unit differs from that of the first
    /// run, or if one-way and round-trip delays are mixed.
    pub fn new(
        runs: &[LabelledRun],
        key: &RunKey,
        group: Option<&RunKey>,
        confidence: ConfidenceLevel,
    ) -> Result<CurveReport> {
        let round_trips = runs.iter().filter(|r| r.summary.is_round_trip()).count();
        if round_trips != 0 && round_trips != runs.len() {
            bail!("round trips and one-way delays cannot be compared: give logs of one kind");
        }
        let mut numbers: Vec<NumberText> = Vec::new();
        for run in runs {
            let text = key.of(run);
            let number = NumberText::read(&text)
                .with_context(|| format!("{}: the value of {key} is {text}, not a number", run.source))?;
            if let Some(first) = numbers.first()
                && first.unit != number.unit
            {
                bail!("{}: the value of {key} is in another unit: {text}", run.source);
            }
            numbers.push(number);
        }
        let unit = numbers.first().map(|n| n.unit.clone()).unwrap_or_default();
        let name = name_of(key);
        let name = if unit.is_empty() { name } else { format!("{name} ({unit})") };
        let mut levels: Vec<FactorLevel> = Vec::new();
        for n in &numbers {
            if !levels.iter().any(|l| l.number == Some(n.value)) {
                let text = format!("{} {unit}", n.value).trim_end().to_owned();
                levels.push(FactorLevel { text, number: Some(n.value) });
            }
        }
        levels.sort_by(|a, b| a.number.unwrap_or_default().total_cmp(&b.number.unwrap_or_default()));
        let groups: Vec<String> =
            runs.iter().map(|run| group.map_or_else(String::new, |g| g.of(run))).collect();
        let mut curves: Vec<FactorLevel> = Vec::new();
        for text in &groups {
            if !curves.iter().any(|l| l.text == *text) {
                curves.push(FactorLevel { text: text.clone(), number: None });
            }
        }
        let mut axes = vec![SweepAxis { name: Some(name), ..SweepAxis::new(Factor::Number, levels.clone()) }];
        if let Some(group) = group {
            axes.push(SweepAxis {
                name: Some(name_of(group)),
                ..SweepAxis::new(Factor::Group, curves.clone())
            });
        }
        let grid = SweepGrid { axes };
        let mut outcomes: Vec<RunOutcome> = Vec::new();
        for (run, (number, group)) in runs.iter().zip(numbers.iter().zip(&groups)) {
            let row = levels.iter().position(|l| l.number == Some(number.value)).unwrap_or_default();
            let column = curves.iter().position(|l| l.text == *group).unwrap_or_default();
            let cell = row * curves.len() + column;
            let repetition = outcomes.iter().filter(|o| o.run.cell == cell).count() as u32;
            let began = run.summary.session.created.unwrap_or(WallTime(0));
            outcomes.push(RunOutcome::of(&run.summary, SweepRun { cell, repetition }, began, None));
        }
        let mut points = points(&grid, &outcomes, confidence);
        with_intervals_of_packets(&mut points, confidence);
        let quantity = if round_trips > 0 { "round trip" } else { ONE_WAY };
        let answer = answer(&grid, &points, true);
        let title = format!("{quantity} by {}: {} tests", grid.axes[0].label(), runs.len());
        let measured = runs.iter().map(|run| (run.label.as_str(), run.summary.measured()));
        let measured = measured_of_several(measured);
        Ok(CurveReport { quantity, grid, points, confidence, answer, title, measured })
    }

    /// Returns the verdict: the effect of the number on the figures.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Returns the screen report, with a line per point. Long lists are shortened.
    pub fn screen(&self) -> Screen {
        Screen::of_sweep(Swept {
            title: &self.title,
            one_way: self.quantity == ONE_WAY,
            grid: &self.grid,
            points: &self.points,
            confidence: self.confidence,
            answer: &self.answer,
            notes: &[],
        })
    }

    fn figures(&self) -> Vec<Figure> {
        let (grid, points) = (&self.grid, &self.points[..]);
        let (confidence, quantity) = (self.confidence, self.quantity);
        let mut figures = of_sweep(&Sweep { grid, points, confidence, quantity, notes: &[], packets: &[] });
        figures.iter_mut().for_each(|f| f.id = f.id.replacen("sweep", "along", 1));
        label_measured(&mut figures, &self.measured);
        figures
    }

    /// Returns the table for the console.
    pub fn page(&self) -> String {
        let options = TextOptions { style: terminal::style(), ..TextOptions::default() };
        let mut page = table(&self.grid, self.confidence, &self.points, &options);
        if self.points.iter().any(|p| p.runs == 1) {
            page.item(
                "The interval of a single run assumes independent packets, so it is too short. Repeat the test.",
            );
        }
        page.finish()
    }
}

impl Report for CurveReport {
    fn json(&self) -> Result<Value> {
        Ok(serde_json::to_value(CurveDocument {
            format: "jitlat along 1",
            quantity: self.quantity,
            confidence: self.confidence,
            points: self.points.iter().map(|p| PointDocument::new(&self.grid, p)).collect(),
        })?)
    }

    fn table(&self) -> Option<ReportTable> {
        Some(lines(&self.grid, &self.points))
    }

    fn first_screen(&self) -> Option<FirstScreen> {
        let section = Section {
            title: self.title.clone(),
            what: self.measured.clone(),
            screen: Some(self.screen()),
            figures: self.figures(),
            ..Section::default()
        };
        pages::first_screen(&[], Some(&section))
    }

    fn draw(&self, each: &mut Drawings<'_>) -> Result<()> {
        each("", &self.figures())
    }
}

/// Document of tests arranged by a number: `docs/formats/compare.md`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurveDocument<'a> {
    /// Name and version of the format: `jitlat along 1`.
    format: &'static str,
    /// Measured delay: `round trip` or `one-way delay`.
    quantity: &'static str,
    /// Confidence level of the intervals.
    confidence: ConfidenceLevel,
    /// Points in order of the number. Each point contains the runs with the same number and group.
    points: Vec<PointDocument<'a>>,
}

/// Returns the name of a tag without the prefix of its key.
fn name_of(key: &RunKey) -> String {
    match key {
        RunKey::Tag(tag) => tag.clone(),
        other => other.to_string(),
    }
}

/// A number and its unit.
struct NumberText {
    value: f64,
    unit: String,
}

impl NumberText {
    /// Parses `20`, `20m` or `-3.5 dBm`; `None` if the text does not begin with a number.
    fn read(text: &str) -> Option<NumberText> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let value = number.parse::<f64>().ok().filter(|v| v.is_finite())?;
        Some(NumberText { value, unit: unit.trim().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::summary::Summary;

    fn run(distance: &str, rate: &str) -> LabelledRun {
        let mut run = LabelledRun {
            source: format!("{distance}.log"),
            summary: Summary::default(),
            ..LabelledRun::default()
        };
        for (key, value) in [("distance", distance), ("rate", rate)] {
            run.summary.session.tags.insert(key.to_owned(), value.to_owned());
        }
        run
    }

    fn along(runs: &[LabelledRun], group: Option<&RunKey>) -> Result<CurveReport> {
        CurveReport::new(runs, &"tag:distance".parse().unwrap(), group, ConfidenceLevel::Ninety)
    }

    #[test]
    fn runs_are_placed_by_their_number_and_repeated_where_they_agree() {
        let runs = [run("190m", "3"), run("20 m", "3"), run("190 m", "6"), run("20.0m", "3")];
        let by_rate: RunKey = "tag:rate".parse().unwrap();
        let found = along(&runs, Some(&by_rate)).unwrap();
        let axis = &found.grid.axes[0];
        assert_eq!(axis.label(), "distance (m)");
        assert_eq!(axis.levels.iter().map(|l| l.number.unwrap()).collect::<Vec<_>>(), [20.0, 190.0]);
        assert_eq!(
            found.points.iter().map(|p| (p.cell, p.runs)).collect::<Vec<_>>(),
            [(0, 2), (2, 1), (3, 1)]
        );
        assert_eq!(found.grid.name(3, None), "distance 190 m, 6");
        assert_eq!(along(&runs, None).unwrap().points.len(), 2);
    }

    #[test]
    fn what_is_no_number_is_named() {
        let refused = |runs: &[LabelledRun]| along(runs, None).err().unwrap().to_string();
        assert!(refused(&[run("near", "3")]).contains("near.log: the value of tag:distance is near"));
        assert!(refused(&[run("20 m", "3"), run("1 km", "3")]).contains("another unit: 1 km"));
        assert!(refused(&[LabelledRun::default()]).contains("is -, not a number"));
    }
}
