//! [`TestOptions`]: options of the test after `--`. Each combination of conditions changes them.

use crate::options::load::{LoadArgs, LoadProtocol};
use crate::options::one_way::{self, OneWayArgs};
use crate::options::ping::PingArgs;
use anyhow::{Context, Result, anyhow, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, ValueEnum};
use jitlat_core::sweep::{Factor, FactorLevel};
use jitlat_core::{Direction, Span};
use jitlat_instruments::Instrument;
use jitlat_instruments::load::{Load, LoadSpec, LoadSpecs};
use jitlat_instruments::ping::PingProtocol;
use jitlat_instruments::sweep::CellTest;
use jitlat_net::stamp::StampMode;
use jitlat_store::sweep::SweepPlan;

/// Options of the test, without conditions.
pub enum TestOptions {
    /// One-way test against `jitlat serve` on this host.
    OneWay(String, Box<OneWayArgs>),
    /// A two-way test.
    TwoWay(Box<PingArgs>),
}

impl TestOptions {
    /// Parses the options in `plan`.
    pub fn parse(plan: &SweepPlan) -> Result<TestOptions> {
        let factors: Vec<Factor> = plan.grid.axes.iter().map(|a| a.factor).collect();
        if plan.one_way {
            let (args, given) = parse::<OneWayArgs>(plan.options.iter())?;
            refuse(&given, &factors)?;
            if args.stream.both {
                bail!("a sweep measures one direction at a time: leave out -b");
            }
            return Ok(TestOptions::OneWay(plan.host.clone(), Box::new(args)));
        }
        let arguments = std::iter::once(&plan.host).chain(&plan.options);
        let (args, given) = parse::<PingArgs>(arguments)?;
        refuse(&given, &factors)?;
        args.start.check_unused("a sweep runs many tests in turn, and cannot be combined")?;
        if !factors.contains(&Factor::Protocol) {
            args.protocol.check()?;
        }
        Ok(TestOptions::TwoWay(Box::new(args)))
    }

    /// Returns the direction of the test; up for round trips.
    fn direction(&self) -> Direction {
        match self {
            TestOptions::OneWay(_, args) if args.stream.reverse => Direction::Down,
            _ => Direction::Up,
        }
    }

    /// Creates the test of one combination of `plan`.
    pub fn test(&self, plan: &SweepPlan, cell: usize) -> Result<CellTest> {
        let conditions = plan.grid.levels(cell);
        let loads: Vec<LoadSpec> = conditions
            .iter()
            .filter(|(factor, level)| *factor == Factor::Load && level.text != "none")
            .map(|(_, level)| level.text.parse::<LoadSpecs>().map(|loads| loads.0))
            .collect::<Result<Vec<_>, _>>()?
            .concat();
        let instrument = self.under(&conditions, plan.packets)?;
        let load = if loads.is_empty() {
            None
        } else {
            Some(Load { specs: loads, ..load(plan, self.direction())? })
        };
        Ok(CellTest { instrument, load })
    }

    /// Creates the test under the given `conditions`.
    pub fn under(&self, conditions: &[(Factor, &FactorLevel)], packets: u64) -> Result<Box<dyn Instrument>> {
        match self {
            TestOptions::OneWay(host, args) => {
                let mut args = args.clone();
                args.stream.packets = packets;
                for (factor, level) in conditions {
                    match factor {
                        Factor::Payload => args.stream.payload = number(level)?,
                        Factor::Period => args.stream.period = span(level)?,
                        Factor::Dscp => args.stream.dscp = dscp(level)?,
                        Factor::Transport => args.stream.tcp = level.text == "tcp",
                        Factor::Load => {}
                        Factor::Priority => args.host_args.priority.priority = Some(level.text.parse()?),
                        Factor::Category => args.host_args.priority.ac = Some(level.text.parse()?),
                        Factor::Protocol => {
                            let mut parts = level.text.split(':');
                            args.protocol.choose(parts.next().unwrap_or_default())?;
                            args.host_args.stamps = match parts.next() {
                                Some(word) => {
                                    one_way::StampsArg::from_str(word, false).map_err(|e| anyhow!(e))?
                                }
                                None => one_way::StampsArg::Kernel,
                            };
                        }
                        Factor::Wait | Factor::Number | Factor::Group => {
                            bail!("{factor}: not a condition of one-way tests")
                        }
                    }
                }
                Ok(Box::new(args.settings(host)?))
            }
            TestOptions::TwoWay(args) => {
                let mut args = args.clone();
                args.packets = packets;
                for (factor, level) in conditions {
                    match factor {
                        Factor::Payload => args.protocol.payload = Some(number(level)?),
                        Factor::Period => args.period = span(level)?,
                        Factor::Wait => args.wait = Some(span(level)?),
                        Factor::Dscp => args.dscp = dscp(level)?,
                        Factor::Priority => args.priority.priority = Some(level.text.parse()?),
                        Factor::Category => args.priority.ac = Some(level.text.parse()?),
                        Factor::Protocol => {
                            let mut parts = level.text.split(':');
                            let name = parts.next().unwrap_or_default();
                            let protocol = PingProtocol::named(name)
                                .with_context(|| format!("unknown protocol {name}"))?;
                            args.protocol.protocol = protocol;
                            args.stamps = StampMode::Kernel;
                            for word in parts {
                                match protocol.switch(word) {
                                    Some(switch) => args.protocol.switch_on(switch),
                                    None => args.stamps = word.parse()?,
                                }
                            }
                        }
                        Factor::Load => {}
                        Factor::Transport | Factor::Number | Factor::Group => {
                            bail!("{factor}: not a condition of round trips")
                        }
                    }
                }
                Ok(Box::new(args.settings()?))
            }
        }
    }
}

/// Parses options as a command with the options of `A` would. Also returns the matches, which show the options that
/// were given.
fn parse<'a, A: Args>(arguments: impl Iterator<Item = &'a String>) -> Result<(A, ArgMatches)> {
    let command = A::augment_args(Command::new("test").no_binary_name(true));
    // Use only the first line of clap's message: the rest describes this inner parser, which users do not know.
    let wrong = |e: clap::Error| {
        let text = e.to_string();
        if text.contains("--proto") {
            return anyhow!("--proto is an option of the sweep: write it before --");
        }
        anyhow!("{}", text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
    };
    let matches = command.try_get_matches_from(arguments).map_err(wrong)?;
    Ok((A::from_arg_matches(&matches).map_err(wrong)?, matches))
}

/// Rejects options that the sweep itself sets.
fn refuse(given: &ArgMatches, factors: &[Factor]) -> Result<()> {
    let ids = |factor: &Factor| -> &[&str] {
        match factor {
            Factor::Payload => &["payload"],
            Factor::Period => &["period", "rate"],
            Factor::Wait => &["wait", "rate"],
            Factor::Dscp => &["dscp"],
            Factor::Priority | Factor::Category => &["priority", "ac"],
            Factor::Protocol => &["stamps"],
            Factor::Transport => &["tcp"],
            Factor::Load => &["load"],
            Factor::Number | Factor::Group => &[],
        }
    };
    let decided = factors.iter().flat_map(ids).chain(&["packets", "duration", "proto"]);
    for id in decided {
        let explicit =
            given.try_contains_id(id).is_ok() && given.value_source(id) == Some(ValueSource::CommandLine);
        if explicit && *id == "proto" {
            bail!("--proto is an option of the sweep: write it before --");
        }
        if explicit {
            bail!("{id}: the sweep sets this option itself: leave it out after --");
        }
    }
    Ok(())
}

fn number<T: TryFrom<i64>>(level: &FactorLevel) -> Result<T> {
    let number = level.number.map(|n| n as i64).and_then(|n| T::try_from(n).ok());
    number.with_context(|| format!("'{}' is not a number", level.text))
}

fn span(level: &FactorLevel) -> Result<Span> {
    Ok(Span(number(level)?))
}

fn dscp(level: &FactorLevel) -> Result<jitlat_core::Dscp> {
    level.text.parse().map_err(|e| anyhow!("{e}"))
}

/// Returns the load settings of `plan`: the server that receives the loads, and the settling time. The loads themselves are added
/// later. Loads that name no direction have that of the test.
fn load(plan: &SweepPlan, of_test: Direction) -> Result<Load> {
    let args = LoadArgs {
        load: Vec::new(),
        load_settle: plan.load.settle,
        load_host: plan.load.host.clone(),
        load_proto: LoadProtocol::of(plan.load.proto.as_deref())?,
        load_port: Some(plan.load.port),
        load_key_file: plan.load.key_file.clone(),
    };
    args.settings(&plan.host, None, vec![of_test])
}
