//! `jitlat archive query` and `compare`: figures of paths over time, and before and after a time.

use super::select::{DateOrAge, FilterArgs, FormArgs, TrafficArgs, figure};
use super::{AllArgs, printed};
use crate::exit::ExitStatus;
use anyhow::{Result, bail};
use clap::Args;
use jitlat_archive::show::{comparison, periods};
use jitlat_archive::{Archive, Filter, Periods, PoolPeriod};
use jitlat_core::scalars::{SCALARS, Scalar, Selector};
use jitlat_core::{pool, quantity};
use tracing::warn;

#[derive(Clone, Debug, Args)]
pub(super) struct QueryArgs {
    #[command(flatten)]
    places: AllArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only tests with this tag, key=value; may be repeated
    #[arg(long = "tag", value_name = "K=V", value_parser = quantity::tag)]
    tags: Vec<(String, String)>,
    /// Figures to show, separated by commas; may be repeated
    ///
    /// Counts, loss, and percentiles, means and extremes of latency, pdv and ipdv are computed from all packets
    /// of a period. Other metrics and the verdict (column `answer` or `severity`) are listed per test by `jitlat
    /// archive ls`.
    #[arg(long = "figure", value_name = "FIGURES", value_delimiter = ',', value_parser = figure, default_value = "pdv-p99")]
    figures: Vec<Selector>,
    /// Length of the periods: test, hour, day, month, year or all
    #[arg(long, value_name = "PERIOD", default_value = "day")]
    by: PoolPeriod,
    #[command(flatten)]
    form: FormArgs,
}

#[derive(Clone, Debug, Args)]
pub(super) struct ArchiveCompareArgs {
    #[command(flatten)]
    places: AllArgs,
    /// Time that separates the two parts: a date, or an age (36h, 7d)
    ///
    /// For example 2026-11-23, 2026-11-23T10:00, 2026-11-23T10:00:00Z, 36h or 7d.
    #[arg(long, value_name = "TIME")]
    before: DateOrAge,
    /// Start of the part before that time (default: first test)
    #[arg(long, value_name = "TIME")]
    since: Option<DateOrAge>,
    /// End of the part after that time (default: last test)
    #[arg(long, value_name = "TIME")]
    until: Option<DateOrAge>,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// Only tests with this tag, key=value; may be repeated
    #[arg(long = "tag", value_name = "K=V", value_parser = quantity::tag)]
    tags: Vec<(String, String)>,
    /// Figures to compare, separated by commas (default: the most important)
    #[arg(long = "figure", value_name = "FIGURES", value_delimiter = ',', value_parser = figure)]
    figures: Vec<Selector>,
    #[command(flatten)]
    form: FormArgs,
}

/// Returns the requested figures, each once; refuses figures of one direction.
fn of_whole_tests(figures: &[Selector]) -> Result<Vec<&'static Scalar>> {
    let mut all: Vec<&'static Scalar> = Vec::new();
    for figure in figures {
        if let Some(direction) = figure.direction {
            bail!(
                "{figure}: figures of periods are available for whole tests only, not by direction ({direction:?})"
            );
        }
        if !all.iter().any(|known| known.key == figure.scalar.key) {
            all.push(figure.scalar);
        }
    }
    Ok(all)
}

/// Warns that removed tests are missing from the result, if the filter has conditions that roll-ups cannot answer.
fn warn_of_removed(archive: &Archive, filter: &Filter) -> Result<()> {
    if filter.selects_single_tests() && archive.has_removed_tests()? {
        warn!(
            "tests that `prune` removed are left out: tags and verdicts of removed tests are not stored, only their share in the \
             figures of periods"
        );
    }
    Ok(())
}

pub(super) fn query(args: &QueryArgs) -> Result<ExitStatus> {
    let archive = Archive::open_all(&args.places.archives)?;
    let figures = of_whole_tests(&args.figures)?;
    let filter = args.filter.filter(&args.tags)?;
    warn_of_removed(&archive, &filter)?;
    let by = Periods { length: args.by, zone: args.filter.zone().clone() };
    let found = archive.query(&filter, &figures, by.clone())?;
    printed(&periods::points(&figures, &by, filter.hours.as_ref(), &found, args.form.form())?)
}

pub(super) fn compare(args: &ArchiveCompareArgs) -> Result<ExitStatus> {
    let archive = Archive::open_all(&args.places.archives)?;
    let figures = match args.figures.is_empty() {
        true => SCALARS
            .iter()
            .filter(|f| pool::has(f) && (f.headline || ["sent", "loss"].contains(&f.key)))
            .collect(),
        false => of_whole_tests(&args.figures)?,
    };
    let zone = args.traffic.zone();
    let when = |time: &Option<DateOrAge>| time.as_ref().map(|time| time.resolve(zone)).transpose();
    let filter =
        Filter { since: when(&args.since)?, before: when(&args.until)?, ..args.traffic.filter(&args.tags) };
    warn_of_removed(&archive, &filter)?;
    let at = args.before.resolve(zone)?;
    let found = archive.compare_parts(&filter, at, &figures)?;
    if found.is_empty() {
        bail!("no stream of these paths has tests both before and after this time");
    }
    printed(&comparison::parts(at, &figures, &found, args.form.form())?)
}
