//! `--proto` and the options of every two-way protocol, from [`PROTOCOLS`].

use super::read_key_file;
use anyhow::{Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use jitlat_core::quantity;
use jitlat_instruments::arguments::{Argument, ArgumentKind, Arguments};
use jitlat_instruments::ping::{PROTOCOLS, PingClient, PingProtocol};
use std::path::{Path, PathBuf};

/// A two-way protocol with its client's arguments.
#[derive(Clone, Debug)]
pub struct ProtocolArgs {
    /// The protocol.
    pub protocol: &'static PingProtocol,
    /// Number of payload bytes; `None`: the protocol's default.
    pub payload: Option<u64>,
    /// The arguments given on the command line.
    pub given: GivenArgs,
}

impl ProtocolArgs {
    /// Creates the client. `port` is the port that was written after the host; `None` if there was none.
    pub fn client(&self, port: Option<u16>) -> Result<Box<dyn PingClient>> {
        let PingProtocol { name, arguments, .. } = self.protocol;
        let given = self.given.with_port(port, name, arguments)?;
        Ok(self.protocol.client(&given.read()?.of(arguments))?)
    }

    /// Turns on the protocol's `switch`.
    pub fn switch_on(&mut self, switch: &'static Argument) {
        self.given.0.push((switch.name, OptionInput::Switch));
    }

    /// True if the argument `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.protocol.arguments.iter().any(|a| a.name == name) && self.given.0.iter().any(|(n, _)| *n == name)
    }

    /// Returns the value of the argument `name`; `None` if it was not given.
    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.given.0.iter().find(|(n, _)| *n == name && self.has(name))?;
        match &found.1 {
            OptionInput::Text(text) => Some(text),
            OptionInput::Switch => Some(""),
            OptionInput::File(_) => None,
        }
    }

    /// Rejects options that only other protocols have. A port option is accepted for every protocol.
    pub fn check(&self) -> Result<()> {
        for (name, _) in &self.given.0 {
            let knows = |p: &&&PingProtocol| p.arguments.iter().any(|a| a.name == *name);
            if !knows(&&self.protocol) && !name.ends_with("-port") {
                let others: Vec<&str> = PROTOCOLS.iter().filter(knows).map(|p| p.name).collect();
                bail!("--{name} is for --proto {}", others.join(" or "));
            }
        }
        Ok(())
    }
}

/// Arguments that were given on the command line.
#[derive(Clone, Debug, Default)]
pub struct GivenArgs(Vec<(&'static str, OptionInput)>);

/// Value of an argument as it was given.
#[derive(Clone, Debug)]
pub enum OptionInput {
    Switch,
    Text(String),
    File(PathBuf),
}

impl GivenArgs {
    /// Collects the arguments in `list` that were explicitly given.
    pub fn new<'a>(list: impl Iterator<Item = &'a Argument>, matches: &ArgMatches) -> GivenArgs {
        let mut given: Vec<(&'static str, OptionInput)> = Vec::new();
        for argument in list {
            let name = argument.name;
            let explicit = matches.value_source(name) == Some(ValueSource::CommandLine);
            if !explicit || given.iter().any(|(n, _)| *n == name) {
                continue;
            }
            let value = match argument.kind {
                ArgumentKind::Nothing => Some(OptionInput::Switch),
                ArgumentKind::File => matches.get_one::<PathBuf>(name).cloned().map(OptionInput::File),
                ArgumentKind::Value { .. } | ArgumentKind::Choice { .. } => {
                    matches.get_one::<String>(name).cloned().map(OptionInput::Text)
                }
            };
            given.extend(value.map(|value| (name, value)));
        }
        GivenArgs(given)
    }

    /// Adds `port`, which was written after the host, as the value of the port argument of the protocol `name`, whose
    /// arguments are `arguments`.
    pub fn with_port(
        &self,
        port: Option<u16>,
        name: &str,
        arguments: &'static [Argument],
    ) -> Result<GivenArgs> {
        let mut given = self.clone();
        let Some(port) = port else { return Ok(given) };
        let Some(argument) = arguments.iter().find(|a| a.name.strip_suffix("-port") == Some(name)) else {
            bail!("{name} has no ports: write the host without :{port}, or choose another --proto");
        };
        if self.names().any(|given| given == argument.name) {
            bail!("the port is given twice: leave out :{port} or --{}", argument.name);
        }
        given.0.push((argument.name, OptionInput::Text(port.to_string())));
        Ok(given)
    }

    /// Returns the arguments with their values.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &OptionInput)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// Returns the names of the arguments.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Returns the files among the arguments, by name of the argument.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.0.iter().filter_map(|(name, value)| match value {
            OptionInput::File(path) => Some((*name, path.as_path())),
            OptionInput::Switch | OptionInput::Text(_) => None,
        })
    }

    /// Reads the files among the arguments.
    pub fn read(&self) -> Result<Arguments> {
        let mut arguments = Arguments::new();
        for (name, value) in &self.0 {
            arguments = match value {
                OptionInput::Switch => arguments.with(name, ""),
                OptionInput::Text(text) => arguments.with(name, text),
                OptionInput::File(path) => arguments.with_file(name, read_key_file(path)?),
            };
        }
        Ok(arguments)
    }
}

/// Defines the command-line option for `argument`.
pub fn option(argument: &'static Argument) -> Arg {
    let (short, details) = argument.help.split_once("\n\n").unwrap_or((argument.help, ""));
    let default = argument.default.map_or_else(String::new, |default| format!(" [default: {}]", default()));
    let mut option = Arg::new(argument.name).long(argument.name).help(format!("{short}{default}"));
    if !details.is_empty() {
        option = option.long_help(format!("{short}{default}\n\n{details}"));
    }
    option = match argument.kind {
        ArgumentKind::Nothing => option.action(ArgAction::SetTrue),
        ArgumentKind::File => option.value_name("FILE").value_parser(value_parser!(PathBuf)),
        ArgumentKind::Value { name, check } => {
            option.value_name(name).value_parser(move |text: &str| check(text).map(|()| text.to_owned()))
        }
        ArgumentKind::Choice { name, of } => {
            let word = |(word, meaning): &(&'static str, &'static str)| {
                let value = PossibleValue::new(*word);
                if meaning.is_empty() { value } else { value.help(*meaning) }
            };
            let values = PossibleValuesParser::new(of.iter().map(word).collect::<Vec<_>>());
            option.value_name(name).value_parser(values).ignore_case(true)
        }
    };
    if let Some(bare) = argument.bare {
        option = option.num_args(0..=1).require_equals(true).default_missing_value(bare);
    }
    if let Some(other) = argument.requires {
        option = option.requires(other);
    }
    option.conflicts_with_all(argument.conflicts)
}

/// Adds the options for the arguments of several entries, each under its title; common arguments are added once.
pub fn add_options(
    mut command: Command,
    entries: impl Iterator<Item = (&'static str, &'static [Argument])>,
) -> Command {
    for (title, arguments) in entries {
        for argument in arguments {
            if !command.get_arguments().any(|a| a.get_id() == argument.name) {
                command = command.arg(option(argument).help_heading(title));
            }
        }
    }
    command
}

impl Args for ProtocolArgs {
    fn augment_args(command: Command) -> Command {
        let each = |of: fn(&PingProtocol) -> String| PROTOCOLS.iter().map(|p| of(p)).collect::<Vec<_>>();
        let names = PossibleValuesParser::new(PROTOCOLS.iter().map(|p| p.name));
        let command = command
            .arg(
                Arg::new("proto")
                    .long("proto")
                    .value_name("PROTOCOL")
                    .value_parser(names)
                    .default_value(PROTOCOLS[0].name)
                    .hide_possible_values(true)
                    .help(format!("Protocol: {}", each(|p| p.name.to_owned()).join(", ")))
                    .long_help(format!(
                        "Protocol, and the programs that answer it:\n{}",
                        each(|p| format!("  {:<6} {}", p.name, p.answered_by)).join("\n")
                    )),
            )
            .arg(
                Arg::new("payload")
                    .short('l')
                    .long("payload")
                    .value_name("BYTES")
                    .value_parser(quantity::bytes)
                    .help("Payload bytes per request (default: depends on the protocol)")
                    .long_help(format!(
                        "Payload bytes per request; defaults by protocol:\n{}",
                        each(|p| format!("  {:<6} {}", p.name, p.payload)).join("\n")
                    )),
            );
        add_options(command, PROTOCOLS.iter().map(|p| (p.title, p.arguments)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ProtocolArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ProtocolArgs, clap::Error> {
        let name = matches.get_one::<String>("proto").map_or(PROTOCOLS[0].name, String::as_str);
        let protocol = PingProtocol::named(name)
            .ok_or_else(|| clap::Error::raw(clap::error::ErrorKind::InvalidValue, "unknown protocol"))?;
        let arguments = PROTOCOLS.iter().flat_map(|p| p.arguments);
        Ok(ProtocolArgs {
            protocol,
            payload: matches.get_one("payload").copied(),
            given: GivenArgs::new(arguments, matches),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ProtocolArgs::from_arg_matches(matches)?;
        Ok(())
    }
}
