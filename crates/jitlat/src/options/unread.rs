//! Refuses options that the chosen mode of a command would ignore.

use anyhow::{Result, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};

/// Returns the ids of a group of options.
pub fn ids<A: Args>() -> Vec<String> {
    A::augment_args(Command::new("")).get_arguments().map(|arg| arg.get_id().to_string()).collect()
}

/// True if the option `id` was given on the command line.
pub fn is_given(given: &ArgMatches, id: &str) -> bool {
    given.try_contains_id(id).is_ok() && given.value_source(id) == Some(ValueSource::CommandLine)
}

/// Refuses given options that are not in `read`; `why` is the reason why the command does not read them.
pub fn read_only(command: &Command, given: &ArgMatches, read: &[String], why: &str) -> Result<()> {
    refuse(command, given, |id| !read.iter().any(|known| known == id), why)
}

/// Refuses given options that are in `unread`.
pub fn refuse_all(command: &Command, given: &ArgMatches, unread: &[String], why: &str) -> Result<()> {
    refuse(command, given, |id| unread.iter().any(|known| known == id), why)
}

fn refuse(command: &Command, given: &ArgMatches, unread: impl Fn(&str) -> bool, why: &str) -> Result<()> {
    let on_line = |arg: &&Arg| is_given(given, arg.get_id().as_str());
    match command.get_arguments().filter(on_line).find(|arg| unread(arg.get_id().as_str())) {
        Some(arg) => bail!("{}: {why}: leave it out", spelling(arg)),
        None => Ok(()),
    }
}

/// Returns the name of an argument as it is written: `--packets`, `-o`, or `HOST`.
fn spelling(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => arg.get_id().as_str().to_uppercase(),
    }
}
