//! Analyses captures in parts by time: a first pass over the whole capture, runs over parts, and the joining of their states.

use super::args::SppArgs;
use super::show;
use crate::exit::ExitStatus;
use anyhow::{Context, Result, bail};
use clap::Args;
use core::str::FromStr;
use jitlat_core::quantity;
use jitlat_core::time::{SECOND, Span, WallTime};
use jitlat_core::units::duration;
use jitlat_instruments::passive::{PartTime, Passive, TimePart};
use jitlat_output::captures::{PairPrinter, PointAnalyses};
use jitlat_output::write_file;
use jitlat_passive::{CaptureEvent, CaptureObserver};
use jitlat_passive::{FirstPass, PairEstimator, PartState};
use jitlat_report::text::screen::Timeline;
use std::fs;
use std::path::{Path, PathBuf};
use tracing::warn;

/// Maximum size of a plan that is read, in bytes.
const MAX_PLAN_BYTES: u64 = 64 << 20;

/// Options of parts of captures.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Parts")]
pub struct PassivePartArgs {
    /// Use only pairs whose first packet is in this part of the captures
    ///
    /// A..B on the reference clock, in seconds since 1970 as in the lines, or with a + in seconds since the
    /// captures begin (+60..+120). Either may be left out.
    #[arg(long, value_name = "A..B", conflicts_with_all = ["one_point", "reference_interface", "monitor_interface", "reference_remote", "monitor_remote", "compat"])]
    pub keep: Option<PartRange>,
    /// Time that is also read before and after the part (default: twice the window)
    #[arg(long, value_name = "T", value_parser = quantity::duration, requires = "keep")]
    pub overlap: Option<Span>,
    /// Write the results of this part to FILE, for --join
    #[arg(long, value_name = "FILE", requires = "keep")]
    pub state: Option<PathBuf>,
    /// Read the captures once, and only write a plan for all parts to FILE
    ///
    /// The JSON has addresses, offset and drift of the clocks, and an index of the files (first and last time, hosts,
    /// drops).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["one_point", "keep", "join", "plan", "compat"])]
    pub write_plan: Option<PathBuf>,
    /// Use the plan in FILE, written with --write-plan, instead of a new survey
    #[arg(long, value_name = "FILE", conflicts_with_all = ["one_point", "join", "compat"])]
    plan: Option<PathBuf>,
    /// Print lines and summary of the whole captures, from the states of all parts
    #[arg(long, value_name = "STATE", num_args = 1.., conflicts_with_all = ["one_point", "reference", "monitor", "keep", "compat"])]
    pub join: Vec<PathBuf>,
}

/// A range written as `A..B`.
#[derive(Clone, Copy, Debug)]
pub struct PartRange {
    from: Option<PartTime>,
    to: Option<PartTime>,
}

impl FromStr for PartRange {
    type Err = String;

    fn from_str(text: &str) -> Result<PartRange, String> {
        let border = |text: &str| -> Option<Option<PartTime>> {
            Some(match (text, text.strip_prefix('+')) {
                ("", _) => None,
                (_, Some(after)) => Some(PartTime::After(Span(nanoseconds(after)?))),
                (at, None) => Some(PartTime::At(WallTime(nanoseconds(at)?))),
            })
        };
        let parsed = text
            .split_once("..")
            .and_then(|(from, to)| Some(PartRange { from: border(from)?, to: border(to)? }));
        let part = parsed
            .ok_or_else(|| format!("'{text}' is not a part: write 1300000000.5..1300000060, or +60..+120"))?;
        match (part.from, part.to) {
            (Some(PartTime::At(a)), Some(PartTime::At(b))) if a >= b => {
                Err(format!("'{text}' ends before it begins"))
            }
            (Some(PartTime::After(a)), Some(PartTime::After(b))) if a >= b => {
                Err(format!("'{text}' ends before it begins"))
            }
            _ => Ok(part),
        }
    }
}

/// Parses seconds with up to nine decimals, and converts them to ns without rounding; `None` if the text is not valid.
fn nanoseconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let fraction: i64 = format!("{fraction:0<9}").parse().ok()?;
    whole.parse::<i64>().ok()?.checked_mul(SECOND)?.checked_add(fraction)
}

impl PassivePartArgs {
    /// Returns the requested part; `None` if no part is requested.
    pub fn part(&self) -> Option<TimePart> {
        let PartRange { from, to } = self.keep?;
        Some(TimePart { from, to, overlap: self.overlap, state: self.state.is_some() })
    }

    /// Reads the result of a first pass from the file of `--plan`; `None` if the option was not given.
    pub fn plan(&self) -> Result<Option<FirstPass>> {
        let Some(path) = &self.plan else { return Ok(None) };
        let about = || format!("reading the plan {}", path.display());
        if fs::metadata(path).with_context(about)?.len() > MAX_PLAN_BYTES {
            bail!("{} is not a plan: it is larger than 64 MiB", path.display());
        }
        let plan: FirstPass =
            serde_json::from_slice(&fs::read(path).with_context(about)?).with_context(about)?;
        if !plan.is_possible() {
            bail!("{} is not a plan written by jitlat spp --write-plan", path.display());
        }
        Ok(Some(plan))
    }
}

/// Runs `--write-plan`.
pub fn write_plan(args: &SppArgs, passive: &Passive, path: &Path) -> Result<ExitStatus> {
    let plan = passive.first_pass(&args.points()?)?;
    write_file(path, |out| Ok(serde_json::to_writer_pretty(out, &plan)?))?;
    Ok(ExitStatus::Measured)
}

/// Writes the file of `--state`.
pub fn write_state(args: &PassivePartArgs, part: Option<&PartState>) -> Result<()> {
    let (Some(path), Some(part)) = (&args.state, part) else { return Ok(()) };
    let bytes = part.save()?;
    Ok(write_file(path, |out| out.write_all(&bytes))?)
}

/// Runs `--join`.
pub fn join(args: &SppArgs) -> Result<ExitStatus> {
    let mut parts = Vec::new();
    for path in &args.parts.join {
        let bytes = fs::read(path).with_context(|| format!("reading the state {}", path.display()))?;
        let part = PartState::load(&bytes).with_context(|| format!("the state {}", path.display()))?;
        parts.push((path, part));
    }
    parts.sort_by_key(|(_, part)| part.part.from);
    let mut parts = parts.into_iter();
    let (_, mut whole) = parts.next().context("--join needs the files written with --state")?;
    for (path, next) in parts {
        whole.append(next).with_context(|| format!("joining {}", path.display()))?;
    }
    if let [before, after] = whole.part.missing()
        && before.max(after) > Span(0)
    {
        warn!(
            "parts are missing: the captures have packets {} before and {} after the joined parts; no figure includes these packets",
            duration(before),
            duration(after)
        );
    }
    let mut lines = PairPrinter::new(args.columns(), !args.is_silent(), false);
    let mut course = Timeline::default();
    let result = whole.result(PairEstimator::new(args.every, args.max_spt), |estimator| {
        let pairs = CaptureEvent::Pairs(estimator.pairs());
        lines.capture_event(&pairs);
        course.capture_event(&pairs);
        estimator.take_pairs();
    });
    let failures = lines.finish().map(anyhow::Error::from).into_iter().collect();
    show::show(args, result, PointAnalyses::default(), (None, course), failures)
}
