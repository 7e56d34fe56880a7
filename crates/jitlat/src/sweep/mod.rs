//! `jitlat sweep`: runs a test under every combination of some conditions, repeatedly, in random order, with
//! confidence intervals, and analyses delay against packet size.
//!
//! * [`test_options`] – the test's options after `--`, changed by conditions

mod test_options;

use crate::exit::ExitStatus;
use crate::interrupt;
use crate::options::load::LoadArgs;
use crate::options::outputs::Outputs;
use crate::options::report::LengthArgs;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jitlat_core::Span;
use jitlat_core::quantity;
use jitlat_core::sweep::{ConfidenceLevel, Factor, FactorLevel, SweepAxis, SweepGrid, SweepRun};
use jitlat_instruments::sweep::lists::{self, LevelList};
use jitlat_instruments::sweep::{SweepEvent, sweep};
use jitlat_instruments::{Error, Stop};
use jitlat_net::random;
use jitlat_output::shell_word;
use jitlat_output::sweep::{SweepReport, begin};
use jitlat_output::terminal;
use jitlat_output::terminal::work::Work;
use jitlat_output::{ReportParts, screen};
use jitlat_store::log::Naming;
use jitlat_store::sweep::{FORMAT, LoadLink, SweepPlan, SweepState};
use std::path::PathBuf;
use test_options::TestOptions;

/// Repeat one test over lists of payloads, periods, DSCPs, protocols or loads
///
/// Every combination is measured several times, in random order. The test is that of `jitlat HOST` unless --proto names
/// protocols of `jitlat ping`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Lists: 40,200,1400; ranges with a step: 40..1400:20, 64..1024:x2, 1ms..10ms:1ms.\n\
                        Options of the test itself follow a lone --: jitlat sweep HOST -l 40..1400:40 -- -R")]
pub struct SweepArgs {
    /// Far host: a name or an address
    #[arg(required_unless_present = "resume")]
    pub host: Option<String>,
    /// Payloads in bytes (default: 60..1460:200)
    #[arg(short = 'l', long, value_name = "LIST", value_parser = lists::payloads)]
    pub payloads: Option<LevelList>,
    /// Times between packets (1ms,10ms,100ms)
    #[arg(short = 'p', long, value_name = "LIST", value_parser = lists::periods)]
    pub periods: Option<LevelList>,
    /// Stop and wait: times between an answer and the next request (0,1ms)
    ///
    /// Only for round trips: give --proto, too.
    #[arg(long, value_name = "LIST", value_parser = lists::waits, conflicts_with = "periods")]
    pub waits: Option<LevelList>,
    /// DSCPs, the classes of traffic (BE,EF,AF41)
    ///
    /// They become the columns of a second table.
    #[arg(short = 'D', long, visible_alias = "classes", value_name = "LIST", value_parser = lists::dscps)]
    pub dscps: Option<LevelList>,
    /// Priorities of sent packets within this host (SO_PRIORITY)
    #[arg(long, value_name = "LIST", value_parser = lists::priorities)]
    pub priorities: Option<LevelList>,
    /// Wi-Fi access categories: BK,BE,VI,VO
    #[arg(long, value_name = "LIST", value_parser = lists::categories, conflicts_with = "priorities")]
    pub acs: Option<LevelList>,
    /// Protocols of one-way tests (jitlat,owamp) or of round trips (icmp,stamp)
    ///
    /// A colon precedes the kind of stamps, if it is not the kernel's, and switches of the protocol: icmp, stamp,
    /// twamp, lamp, lamp:user, lamp:krt, lamp:raw, irtt, ipsla, tcp; jitlat, jitlat:user, owamp.
    #[arg(long, alias = "protos", value_name = "LIST", value_parser = lists::protocols)]
    pub proto: Option<LevelList>,
    /// Transports of one-way tests: udp,tcp
    #[arg(long, value_name = "LIST", value_parser = lists::transports)]
    pub transports: Option<LevelList>,
    /// Accepted for clarity: one-way tests are the default
    #[arg(long, hide = true, help = "Run one-way tests (the default)")]
    pub one_way: bool,
    /// Packets per run
    #[arg(short = 'n', long, value_name = "N", value_parser = quantity::count, default_value = "100")]
    pub packets: u64,
    /// Runs per combination
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repetitions: u32,
    /// Pause between runs
    #[arg(long, value_name = "T", value_parser = quantity::pause, default_value = "0.2s")]
    pub pause: Span,
    /// Order of the runs: random within each repetition, or as given
    #[arg(long, value_name = "ORDER", default_value = "random")]
    pub order: RunOrder,
    /// Seed of the random order (default: random, and stored)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Confidence of the intervals in percent: 90, 95 or 99
    #[arg(long, value_name = "P", default_value = "95")]
    pub confidence: ConfidenceLevel,
    /// File for finished runs (default: sweep.XXXXXX in this folder)
    ///
    /// An existing file is never replaced.
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Continue the sweep in FILE, or show it again if it is complete
    #[arg(long, value_name = "FILE", conflicts_with_all = ["host", "output"])]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub outputs: Outputs<{ ReportParts::ROWS.and(ReportParts::FIGURES).and(ReportParts::PAGE).0 }>,
    /// Test under each --load and without load, as separate conditions
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub length: LengthArgs,
    /// Options of the test, as for `jitlat HOST` or `jitlat ping`
    #[arg(last = true, value_name = "OPTION")]
    pub options: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RunOrder {
    Random,
    Given,
}

/// Default payloads.
const SIZES: &str = "60..1460:200";

impl SweepArgs {
    /// True for one-way tests, which are the default unless protocols of round trips are named.
    fn is_one_way(&self) -> Result<bool> {
        let levels = self.proto.iter().flat_map(|LevelList(levels)| levels);
        let two_way: Vec<&str> =
            levels.map(|level| level.text.as_str()).filter(|text| !lists::is_one_way(text)).collect();
        let count = self.proto.as_ref().map_or(0, |LevelList(levels)| levels.len());
        match two_way[..] {
            [] if self.waits.is_some() => {
                bail!("--waits applies to round trips: give their protocol, for example --proto icmp")
            }
            [] => Ok(true),
            [name, ..] if two_way.len() < count => {
                bail!(
                    "--proto: {name} measures round trips, but other protocols measure one direction: sweep one kind at a time"
                )
            }
            [name, ..] if self.one_way => bail!("--one-way: {name} measures round trips"),
            [name, ..] if self.transports.is_some() => {
                bail!("--transports applies to one-way tests, but {name} measures round trips")
            }
            _ => Ok(false),
        }
    }

    /// Creates the plan of the requested sweep.
    fn plan(&self) -> Result<SweepPlan> {
        let host = self.host.clone().context("give the name or address of the far host")?;
        let one_way = self.is_one_way()?;
        let mut loads: Vec<FactorLevel> = Vec::new();
        if !self.load.load.is_empty() {
            loads.push(FactorLevel { text: "none".to_owned(), number: None });
            loads.extend(self.load.load.iter().map(|l| FactorLevel { text: l.to_string(), number: None }));
        }
        let named = [
            (Factor::Payload, &self.payloads),
            (Factor::Period, &self.periods),
            (Factor::Wait, &self.waits),
            (Factor::Dscp, &self.dscps),
            (Factor::Priority, &self.priorities),
            (Factor::Category, &self.acs),
            (Factor::Protocol, &self.proto),
            (Factor::Transport, &self.transports),
        ];
        let axis = |(factor, levels): (Factor, &Option<LevelList>)| {
            levels.clone().map(|LevelList(levels)| SweepAxis::new(factor, levels))
        };
        let mut axes: Vec<SweepAxis> = named.into_iter().filter_map(axis).collect();
        if !loads.is_empty() {
            axes.push(SweepAxis::new(Factor::Load, loads));
        }
        if axes.iter().all(|a| a.levels.len() < 2) && self.payloads.is_none() {
            let LevelList(levels) = lists::payloads(SIZES).map_err(|e| anyhow!(e))?;
            axes.insert(0, SweepAxis::new(Factor::Payload, levels));
        }
        let seed = match (self.order, self.seed) {
            (RunOrder::Given, _) => None,
            (RunOrder::Random, Some(seed)) => Some(seed),
            (RunOrder::Random, None) => {
                let mut bytes = [0; 4];
                random::fill(&mut bytes).context("drawing a seed from the system's random numbers")?;
                Some(u32::from_be_bytes(bytes).into())
            }
        };
        Ok(SweepPlan {
            format: FORMAT.to_owned(),
            host,
            one_way,
            grid: SweepGrid { axes },
            packets: self.packets,
            repetitions: self.repetitions,
            pause: self.pause,
            seed,
            confidence: self.confidence,
            load: LoadLink {
                host: self.load.load_host.clone(),
                proto: self.load.load_proto.stored(),
                port: self.load.load_port.unwrap_or(self.load.load_proto.port()),
                key_file: self.load.load_key_file.clone(),
                settle: self.load.load_settle,
            },
            options: self.options.clone(),
        })
    }
}

/// Starts or resumes a sweep, and prints the result.
pub fn run(args: &SweepArgs) -> Result<ExitStatus> {
    args.outputs.check(0, &[])?;
    let mut least = None;
    let (mut state, options) = match &args.resume {
        Some(path) => {
            let state = SweepState::resume(path)?;
            let options = TestOptions::parse(state.plan())?;
            (state, options)
        }
        None => {
            let plan = args.plan()?;
            // Reject invalid combinations before the first run.
            plan.runs()?;
            let options = TestOptions::parse(&plan)?;
            let mut total = Span(0);
            for cell in 0..plan.grid.cells().unwrap_or(0) {
                let name = || format!("the test of {}", plan.grid.name(cell, None));
                let test = options.test(&plan, cell).with_context(name)?;
                let duration = test.instrument.duration().with_context(name)?;
                total = Span(total.0.saturating_add(duration.0.saturating_mul(plan.repetitions.into())));
            }
            least = Some(total);
            let named = args.output.clone().map_or_else(|| Naming::Random(PathBuf::from(".")), Naming::Given);
            (SweepState::create(&named, plan)?, options)
        }
    };
    let stop = interrupt::stop()?;
    if !args.outputs.is_silent() && !args.length.quiet {
        terminal::print(&begin(&state, least)?)?;
    }
    let failure = measure(&mut state, &options, &stop).err();
    let report = SweepReport::new(&state);
    let whole = report.is_empty()
        || args.outputs.write(&report, || {
            let again = shell_word(state.path());
            let one_screen = || {
                screen::followed_by(
                    report.screen(),
                    &args.outputs,
                    &format!("jitlat sweep --resume {again} -v"),
                )
            };
            args.length.choose(report.answer(), || report.table_page(), one_screen)
        });
    if let Some(e) = failure {
        // Remove the file if no run has finished: there is nothing to resume.
        if state.outcomes().is_empty() {
            if args.resume.is_none() {
                state.discard();
            }
            return Err(e);
        }
        let file = state.path().display();
        return Err(
            e.context(format!("the sweep is not complete: continue it with `jitlat sweep --resume {file}`"))
        );
    }
    Ok(if whole && !state.outcomes().is_empty() { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

fn measure(state: &mut SweepState, options: &TestOptions, stop: &Stop) -> Result<()> {
    let all = state.plan().runs()?;
    let left: Vec<SweepRun> = all.iter().filter(|run| !state.has(**run)).copied().collect();
    let plan = state.plan().clone();
    let name = |run: SweepRun| plan.grid.name(run.cell, None);
    let work = Work::counted("runs", all.len() as u64);
    let mut current = None;
    let test = |run: SweepRun| options.test(&plan, run.cell).map_err(|e| Error::Observer(e.into()));
    let measured = sweep(&left, plan.pause, &test, stop, &mut |event| {
        match event {
            SweepEvent::Begins(run) => {
                current = Some(run);
                let number = all.iter().position(|r| *r == run).map_or(1, |k| k + 1);
                work.done(number as u64 - 1);
                work.describe(&name(run));
            }
            SweepEvent::Failed(..) => {}
            SweepEvent::Finished(outcome, packets) => {
                state.add(outcome, packets).map_err(|e| Error::Observer(e.into()))?;
            }
        }
        Ok(())
    });
    drop(work);
    measured.with_context(|| current.map(name).unwrap_or_default())?;
    let done = state.outcomes().len();
    if stop.is_requested() && done < all.len() {
        bail!("stopped after {done} of {} runs", all.len());
    }
    Ok(())
}
