//! Other programs' command lines and outputs: `jitlat as NAME …`, and links of that name to this program.
//!
//! A program is a file that exports its [`Program`], with a table of its options, and a line of [`PROGRAMS`]; help,
//! documentation and tests read the list. Our options and formats do the work: a file contains only what is different.
//!
//! * [`arguments`] – reading a command line with such a table
//! * [`measured`] – running tests with the words of our options
//! * [`perfsonar`] – options that owping and its relatives share

mod arguments;
mod fping;
mod iperf3;
mod irtt;
mod late;
mod measured;
mod owfetch;
mod owping;
mod owstats;
mod perfsonar;
mod powstream;
mod twping;

pub use arguments::Program;

use crate::exit;
use crate::log;
use crate::root::{self, Command};
use anyhow::{Result, bail};
use arguments::{Unread, WrongLine};
use clap::Args;
use jitlat_output::terminal;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// All programs whose command lines are taken.
pub static PROGRAMS: &[&Program] = &[
    &irtt::PROGRAM,
    &owping::PROGRAM,
    &owstats::PROGRAM,
    &owfetch::PROGRAM,
    &powstream::PROGRAM,
    &twping::PROGRAM,
    &fping::PROGRAM,
    &late::PROGRAM,
    &iperf3::PROGRAM,
];

/// Accept the command line of another program, and print its text
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "jitlat as NAME --help lists the options that are taken. A link to this program with such a name\n\
                  does the same: ln -s $(which jitlat) ~/bin/irtt."
)]
pub struct AsArgs {
    /// Program: irtt, owping, owstats, owfetch, powstream, twping, fping, LaTe, iperf3
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its options and arguments
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// True if `name` is the name of such a program.
pub fn is_known(name: &str) -> bool {
    PROGRAMS.iter().any(|program| program.name == name)
}

/// Runs the program that is requested by `words`, the command line of this process: by the name in its first word, by
/// which this program was called, or by `as NAME`. Returns `None` if neither is the name of a program.
pub fn run_requested(words: &[OsString]) -> Option<ExitCode> {
    let called = words.first().and_then(|word| Path::new(word).file_name()?.to_str());
    let named = |name: &str| PROGRAMS.iter().copied().find(|program| program.name == name);
    if let Some(program) = called.and_then(named) {
        return Some(run(program, &words[1..]));
    }
    match words {
        [_, command, name, rest @ ..] if command == "as" => {
            name.to_str().and_then(named).map(|program| run(program, rest))
        }
        _ => None,
    }
}

/// Refuses a name that is not in the list.
pub fn refuse(args: &AsArgs) -> Result<exit::ExitStatus> {
    let names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
    bail!("the command line of '{}' is not supported: choose one of {}", args.name, names.join(", "))
}

fn run(program: &'static Program, arguments: &[OsString]) -> ExitCode {
    log::start_as(program.name);
    let given = match program.read(arguments) {
        Ok(given) => given,
        Err(Unread::Help) => {
            let shown = terminal::print(&program.help());
            return ExitCode::from(if shown.is_ok() { 0 } else { program.failed });
        }
        Err(Unread::Version(text)) => {
            let shown = terminal::print(&with_version(text));
            return ExitCode::from(if shown.is_ok() { 0 } else { program.failed });
        }
        Err(Unread::Wrong(message)) => {
            // Ignored: a closed standard error is not an error.
            let _ = terminal::print_to_stderr(&format!("{}: {message}\n", program.name));
            return ExitCode::from(program.wrong);
        }
    };
    match (program.run)(&given) {
        Ok(status) => ExitCode::from(status),
        Err(e) => {
            let is_wrong = e.is::<WrongLine>();
            let text = exit::explain(&e);
            let text = if is_wrong { given.in_typed_names(&text) } else { text };
            // Ignored: a closed standard error is not an error.
            let _ = terminal::print_to_stderr(&format!("{}: {text}\n", program.name));
            ExitCode::from(if is_wrong { program.wrong } else { program.failed })
        }
    }
}

/// Returns a program's version, `text`, with that of jitlat.
fn with_version(text: &str) -> String {
    format!("{text} (jitlat {})\n", env!("CARGO_PKG_VERSION"))
}

/// Answers tests of one protocol until a signal, as `jitlat serve --only PROTOCOL WORDS` does.
fn serve(protocol: &str, words: Vec<String>) -> Result<u8> {
    let only = format!("--only={protocol}");
    let line = ["jitlat", "serve", only.as_str()].into_iter().map(str::to_owned).chain(words);
    let Some(Command::Serve(args)) = root::read(line.map(Into::into).collect())?.command else {
        bail!("jitlat serve does not accept these options");
    };
    Ok(u8::from(crate::serve::run(&args)? != exit::ExitStatus::Measured))
}

/// Returns the tables of all programs in Markdown, each under its name.
pub fn tables() -> String {
    let table =
        |program: &&Program| format!("## {}\n\n{}.\n\n{}\n", program.name, program.about, program.table());
    PROGRAMS.iter().map(table).collect()
}
