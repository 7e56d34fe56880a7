//! `--proto` of one-way tests, and the options of every protocol in [`ONE_WAY_PROTOCOLS`].

use super::protocol::{GivenArgs, add_options};
use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use jitlat_instruments::one_way::{ONE_WAY_PROTOCOLS, OneWayClient, OneWayProtocol};

/// A one-way protocol with its client's arguments.
#[derive(Clone, Debug)]
pub struct OneWayProtocolArgs {
    protocol: &'static OneWayProtocol,
    given: GivenArgs,
}

impl OneWayProtocolArgs {
    /// Creates the client. `port` is the port that was written after the host; `None` if there was none, or for jitlat's own
    /// protocol.
    pub fn client(&self, port: Option<u16>) -> Result<Box<dyn OneWayClient>> {
        for name in self.given.names() {
            let knows = |p: &&&OneWayProtocol| p.arguments.iter().any(|a| a.name == name);
            if !knows(&&self.protocol) {
                let others: Vec<&str> = ONE_WAY_PROTOCOLS.iter().filter(knows).map(|p| p.name).collect();
                bail!("--{name} is for --proto {}", others.join(" or "));
            }
        }
        let OneWayProtocol { name, arguments, .. } = self.protocol;
        let given = self.given.with_port(port, name, arguments)?;
        Ok(self.protocol.client(&given.read()?.of(arguments))?)
    }

    /// Selects the protocol called `name`.
    pub fn choose(&mut self, name: &str) -> Result<()> {
        self.protocol = OneWayProtocol::named(name).with_context(|| format!("unknown protocol {name}"))?;
        Ok(())
    }

    /// Returns the name of the protocol; `None` for jitlat's own protocol.
    pub fn foreign(&self) -> Option<&'static str> {
        (!std::ptr::eq(self.protocol, ONE_WAY_PROTOCOLS[0])).then_some(self.protocol.name)
    }
}

impl Args for OneWayProtocolArgs {
    fn augment_args(command: Command) -> Command {
        let each =
            |of: fn(&OneWayProtocol) -> String| ONE_WAY_PROTOCOLS.iter().map(|p| of(p)).collect::<Vec<_>>();
        let answered = each(|p| format!("  {:<6} {}", p.name, p.answered_by)).join("\n");
        let proto = Arg::new("proto")
            .long("proto")
            .value_name("PROTOCOL")
            .value_parser(PossibleValuesParser::new(ONE_WAY_PROTOCOLS.iter().map(|p| p.name)))
            .default_value(ONE_WAY_PROTOCOLS[0].name)
            .hide_possible_values(true)
            .help(format!("Protocol: {}", each(|p| p.name.to_owned()).join(", ")))
            .long_help(format!("Protocol, and the programs that answer it:\n{answered}"));
        add_options(command.arg(proto), ONE_WAY_PROTOCOLS.iter().map(|p| (p.title, p.arguments)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OneWayProtocolArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<OneWayProtocolArgs, clap::Error> {
        let name = matches.get_one::<String>("proto").map_or(ONE_WAY_PROTOCOLS[0].name, String::as_str);
        let protocol = OneWayProtocol::named(name)
            .ok_or_else(|| clap::Error::raw(clap::error::ErrorKind::InvalidValue, "unknown protocol"))?;
        let arguments = ONE_WAY_PROTOCOLS.iter().flat_map(|p| p.arguments);
        Ok(OneWayProtocolArgs { protocol, given: GivenArgs::new(arguments, matches) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = OneWayProtocolArgs::from_arg_matches(matches)?;
        Ok(())
    }
}
