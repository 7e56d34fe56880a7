//! Options for [`OUTPUTS`]: `--json FILE` and similar ones, `--as NAME[=FILE]` for every format, and `--format` of figures.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use jitlat_output::{
    Destination, OUTPUTS, Output, OwnOption, PictureFormat, ReportParts, STDOUT, WantedOutputs,
};
use jitlat_store::split_at_equals;
use std::ffi::OsStr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Id of `--as`.
pub const AS: &str = "as";
/// Name of the format of pages.
const PAGE: &str = "html";
/// Id of `--format`.
pub const FORMAT: &str = "format";
/// Value of `--as` that lists the formats.
const HELP: &str = "help";
/// Heading of the output options in help texts.
const HEADING: &str = "Output";

/// Requested formats. A command offers the formats that need no more than the [parts](ReportParts) of its
/// reports.
#[derive(Clone, Debug, Default)]
pub struct Outputs<const PARTS: u8>(WantedOutputs);

impl<const PARTS: u8> Deref for Outputs<PARTS> {
    type Target = WantedOutputs;

    fn deref(&self) -> &WantedOutputs {
        &self.0
    }
}

impl<const PARTS: u8> Outputs<PARTS> {
    /// Adds the page, written to `path`, unless a page is requested.
    pub fn write_page_to(&mut self, path: &Path) {
        if self.place(PAGE).is_none() {
            let page = OUTPUTS.iter().find(|output| output.name == PAGE);
            self.0.outputs.extend(page.map(|page| (*page, path.to_owned())));
        }
    }
}

/// Format with the file to write it to.
pub type OutputPath = (&'static Output, PathBuf);

/// Parser of `--as NAME[=FILE]` for reports with the given [parts](ReportParts).
#[derive(Clone, Debug)]
pub struct NamedParser {
    parts: ReportParts,
}

impl NamedParser {
    /// Creates a parser for the formats that need no more than `parts`.
    pub fn new(parts: ReportParts) -> NamedParser {
        NamedParser { parts }
    }

    fn offered(&self) -> impl Iterator<Item = &'static Output> {
        let parts = self.parts;
        OUTPUTS.iter().copied().filter(move |output| parts.has(output.needs))
    }
}

impl TypedValueParser for NamedParser {
    type Value = OutputPath;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<OutputPath, clap::Error> {
        let whole = value.to_string_lossy();
        let (name, file) = split_at_equals(value).unwrap_or((&whole, OsStr::new(STDOUT)));
        if name == HELP {
            return Err(clap::Error::raw(ErrorKind::DisplayHelp, list(self.offered())));
        }
        let wrong =
            |text: String| Err(clap::Error::raw(ErrorKind::InvalidValue, text + "\n").with_cmd(command));
        let Some(output) = self.offered().find(|output| output.name == name) else {
            let names: Vec<&str> = self.offered().map(|output| output.name).collect();
            let why = match OUTPUTS.iter().find(|output| output.name == name) {
                Some(output) => {
                    let lacking = self.parts.lacking(output.needs).join(" and ");
                    format!("this command cannot write '{name}', which needs {lacking}")
                }
                None => format!("unknown format '{name}'"),
            };
            return wrong(format!(
                "--as: {why}: choose one of {} (--as {HELP} describes them)",
                names.join(", ")
            ));
        };
        if file.is_empty() {
            return wrong(format!(
                "--as {name}=: the file name is missing: write --as {name}=FILE, or --as {name}"
            ));
        }
        Ok((output, PathBuf::from(file)))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.offered().map(|output| PossibleValue::new(output.name).help(output.help))))
    }
}

/// Lists `outputs`, one per line, with name and description.
pub fn list(outputs: impl Iterator<Item = &'static Output>) -> String {
    outputs.map(|output| format!("  {:<13}  {}\n", output.name, output.help)).collect()
}

/// Defines `--as NAME[=FILE]` for reports with `parts`.
pub fn option(parts: ReportParts) -> Arg {
    let parser = NamedParser::new(parts);
    let names = list(parser.offered());
    Arg::new(AS)
        .long(AS)
        .value_name("NAME[=FILE]")
        .value_parser(parser)
        .action(ArgAction::Append)
        .hide_possible_values(true)
        .help_heading(HEADING)
        .help("Write the format NAME to FILE, or to standard output; --as help lists them")
        .long_help(format!(
            "Write the format NAME to FILE, or to standard output without FILE; may be repeated.\n\nFor two \
             streams, formats of packets go to FILE.up and FILE.down. Names:\n{names}"
        ))
}

/// Defines `--format LIST`, the formats of figures.
fn format_option() -> Arg {
    Arg::new(FORMAT)
        .long(FORMAT)
        .value_name("LIST")
        .value_parser(PictureFormat::from_str)
        .value_delimiter(',')
        .action(ArgAction::Append)
        .help_heading(HEADING)
        .help("Formats of the figures of --plots, a list: svg, png, pdf, eps")
        .long_help(
            "Formats of the figures of --plots, a list: svg, png, pdf, eps, as in --format pdf,eps. Default: svg,png.\n\nPDF \
             and EPS are for papers: their font is embedded. EPS has no transparency, so colours are mixed with white.",
        )
}

/// Formats requested from `jitlat export`, at least one.
#[derive(Clone, Debug, Default)]
pub struct Exports(WantedOutputs);

impl Exports {
    /// Returns the formats with their files.
    pub fn named(&self) -> &[OutputPath] {
        &self.0.outputs
    }

    /// Returns the same formats, each written to `file`.
    pub fn to(mut self, file: &Path) -> Exports {
        self.0.outputs.iter_mut().for_each(|(_, path)| *path = file.to_owned());
        self
    }
}

impl<const PARTS: u8> From<Exports> for Outputs<PARTS> {
    fn from(exports: Exports) -> Outputs<PARTS> {
        Outputs(exports.0)
    }
}

impl Args for Exports {
    fn augment_args(command: Command) -> Command {
        command.arg(option(ReportParts::ALL).required(true)).arg(format_option())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Exports {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Exports, clap::Error> {
        Ok(Exports(wanted(named(matches), matches)?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Exports::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the values of `--as`.
fn named(matches: &ArgMatches) -> Vec<OutputPath> {
    matches.try_get_many::<OutputPath>(AS).ok().flatten().into_iter().flatten().cloned().collect()
}

/// Combines `outputs` with the formats of figures that `--format` lists.
fn wanted(outputs: Vec<OutputPath>, matches: &ArgMatches) -> Result<WantedOutputs, clap::Error> {
    let given = matches.try_get_many::<PictureFormat>(FORMAT).ok().flatten();
    let draws = outputs.iter().any(|(output, _)| output.place == Destination::Folder);
    let wanted = WantedOutputs::new(outputs);
    let Some(given) = given else { return Ok(wanted) };
    if !draws {
        let why = "--format is for figures in a folder: add --plots DIR\n";
        return Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, why));
    }
    let mut pictures: Vec<PictureFormat> = Vec::new();
    for format in given {
        if !pictures.contains(format) {
            pictures.push(*format);
        }
    }
    Ok(wanted.drawn_as(pictures))
}

impl<const PARTS: u8> Args for Outputs<PARTS> {
    fn augment_args(mut command: Command) -> Command {
        for output in OUTPUTS.iter().filter(|o| ReportParts(PARTS).has(o.needs)) {
            let (value, where_to) = match output.place {
                Destination::File => ("FILE", " to FILE, or to standard output (-)"),
                Destination::FileEach => {
                    ("FILE", " to FILE, or to standard output (-). Two streams: FILE.up and FILE.down")
                }
                Destination::Folder => ("DIR", " to the folder DIR"),
            };
            let option = match output.option {
                OwnOption::Shown => Arg::new(output.name).long(output.name),
                OwnOption::Former(name) => Arg::new(name).long(name).hide(true),
                OwnOption::None => continue,
            };
            command = command.arg(
                option
                    .value_name(value)
                    .value_parser(value_parser!(PathBuf))
                    .help_heading(HEADING)
                    .help(output.help)
                    .long_help(format!("{}.\n\nWritten{where_to}.", output.help)),
            );
        }
        command = command.arg(option(ReportParts(PARTS)));
        if ReportParts(PARTS).has(ReportParts::FIGURES) { command.arg(format_option()) } else { command }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const PARTS: u8> FromArgMatches for Outputs<PARTS> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Outputs<PARTS>, clap::Error> {
        let own = OUTPUTS.iter().filter_map(|output| {
            let id = match output.option {
                OwnOption::Shown => output.name,
                OwnOption::Former(name) => name,
                OwnOption::None => return None,
            };
            let path = matches.try_get_one::<PathBuf>(id).ok().flatten()?;
            Some((*output, path.clone()))
        });
        Ok(Outputs(wanted(own.chain(named(matches)).collect(), matches)?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Outputs::from_arg_matches(matches)?;
        Ok(())
    }
}
