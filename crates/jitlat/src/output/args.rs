//! The options for [`OUTPUTS`].

use super::OUTPUTS;
use super::format::{Part, Place};
use super::wanted::Wanted;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::ops::Deref;
use std::path::PathBuf;

/// The formats that a command offers, given the [parts](Part) of its reports.
#[derive(Clone, Debug, Default)]
pub struct Outputs<const PARTS: u8>(Wanted);

impl<const PARTS: u8> Deref for Outputs<PARTS> {
    type Target = Wanted;

    fn deref(&self) -> &Wanted {
        &self.0
    }
}

impl<const PARTS: u8> Args for Outputs<PARTS> {
    fn augment_args(mut command: Command) -> Command {
        for output in OUTPUTS.iter().filter(|o| Part(PARTS).has(o.needs)) {
            let (value, where_to) = match output.place {
                Place::File => ("FILE", "; - is standard output"),
                Place::FileEach => ("FILE", "; - is standard output. Of two streams: FILE.up and FILE.down"),
                Place::Folder => ("DIR", ""),
            };
            let mut option = Arg::new(output.name)
                .long(output.name)
                .value_name(value)
                .value_parser(value_parser!(PathBuf))
                .help(format!("{}{where_to}", output.help));
            option = output.requires.into_iter().fold(option, Arg::requires);
            option = output.conflicts.into_iter().fold(option, Arg::conflicts_with);
            command = command.arg(option);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const PARTS: u8> FromArgMatches for Outputs<PARTS> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Outputs<PARTS>, clap::Error> {
        let given = OUTPUTS.iter().filter_map(|output| {
            let path = matches.try_get_one::<PathBuf>(output.name).ok().flatten()?;
            Some((*output, path.clone()))
        });
        Ok(Outputs(Wanted(given.collect())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Outputs::from_arg_matches(matches)?;
        Ok(())
    }
}
