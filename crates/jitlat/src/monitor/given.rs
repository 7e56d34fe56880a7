//! Options in the file, parsed by the same definitions as those of the command line.

use clap::builder::Arg;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Args, Command};
use jitlat_monitor::file::{EntryError, OptionValue, keys};

/// Options of a command that the monitor's file may set.
pub struct OptionSet {
    command: Command,
    /// Options that are only allowed on the command line, by id, each with advice on what to write instead.
    refused: Vec<(String, String)>,
    /// Name of the command or section that the options belong to, for messages.
    of: &'static str,
}

/// Returns the ids of a group of options.
pub fn ids<A: Args>() -> Vec<String> {
    A::augment_args(Command::new("")).get_arguments().map(|a| a.get_id().to_string()).collect()
}

impl OptionSet {
    /// Creates the set of the options of `A`, except those in `refused`.
    pub fn new<A: Args>(of: &'static str, refused: Vec<(String, String)>) -> OptionSet {
        let command = A::augment_args(Command::new(of).no_binary_name(true).disable_help_flag(true));
        OptionSet { command, refused, of }
    }

    /// Returns the long names of the options that the file may set.
    fn names(&self) -> Vec<&str> {
        let refused = |arg: &&Arg| self.refused.iter().any(|(id, _)| arg.get_id() == id.as_str());
        self.command.get_arguments().filter(|arg| !refused(arg)).filter_map(|arg| arg.get_long()).collect()
    }

    /// Parses the options `given` in the file, followed by the arguments `others`.
    ///
    /// # Errors
    /// [`EntryError`] with the wrong option.
    pub fn read(&self, given: &[(String, OptionValue)], others: &[String]) -> Result<ArgMatches, EntryError> {
        let mut line = Vec::new();
        for (name, value) in given {
            self.check(name)?;
            match value {
                OptionValue::Switch(true) => line.push(format!("--{name}")),
                OptionValue::Switch(false) => {}
                OptionValue::Text(text) => line.push(format!("--{name}={text}")),
                OptionValue::List(texts) => line.extend(texts.iter().map(|text| format!("--{name}={text}"))),
            }
        }
        line.extend_from_slice(others);
        self.command.clone().try_get_matches_from(line).map_err(|e| wrong(&e))
    }

    fn check(&self, name: &str) -> Result<(), EntryError> {
        let about = |message| Err(EntryError { key: Some(name.to_owned()), message });
        let Some(arg) = self.command.get_arguments().find(|arg| arg.get_long() == Some(name)) else {
            let of = self.of;
            let meant = keys::choose(name, &self.names());
            return about(format!("{of} has no option --{}: {meant}", name.escape_debug()));
        };
        match self.refused.iter().find(|(id, _)| arg.get_id() == id.as_str()) {
            Some((_, instead)) => about(format!("--{name}: {instead}")),
            None => Ok(()),
        }
    }
}

/// Converts clap's message to one line, with the wrong option.
fn wrong(error: &clap::Error) -> EntryError {
    let key = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(arg)) => Some(arg.as_str()),
        Some(ContextValue::Strings(args)) => args.first().map(String::as_str),
        _ => None,
    };
    let key = key
        .and_then(|arg| arg.strip_prefix("--"))
        .map(|arg| arg.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect::<String>());
    let text = error.render().to_string();
    let lines = text.trim_start_matches("error: ").lines().map(str::trim);
    let said: Vec<&str> =
        lines.filter(|l| !l.is_empty() && !l.starts_with("Usage:") && !l.starts_with("For more")).collect();
    EntryError { key, message: said.join(" ") }
}
