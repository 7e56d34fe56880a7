//! `jitlat completions` and `jitlat man`: shell completions and manual pages, generated from the command's definitions.

use crate::exit::ExitStatus;
use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use jitlat_output::terminal;
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of `jitlat completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to print completions for
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Arguments of `jitlat man`.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Folder for the pages, one per command; created if missing
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Prints the completions of a shell.
pub fn completions(args: &CompletionsArgs, mut root: Command) -> Result<ExitStatus> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut root, "jitlat", &mut script);
    terminal::print(&String::from_utf8(script)?)?;
    Ok(ExitStatus::Measured)
}

/// Writes the manual page of each command into a folder.
pub fn pages(args: &ManArgs, root: Command) -> Result<ExitStatus> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("creating the folder {}", folder.display()))?;
    let mut root = root.disable_help_subcommand(true);
    root.build();
    write_page(&root, &root, folder)?;
    for command in root.get_subcommands().filter(|c| !c.is_hide_set()) {
        write_page(command, &root, folder)?;
    }
    Ok(ExitStatus::Measured)
}

fn write_page(command: &Command, root: &Command, folder: &Path) -> Result<()> {
    let name = page_name(command);
    let path = folder.join(format!("{name}.1"));
    let page = page(command, root).with_context(|| format!("composing the manual page of {name}"))?;
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))
}

/// Returns the name of a command's page: `jitlat-ping` for `jitlat ping`.
fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// Renders a page as roff. Its synopsis is the usage line of `--help`; the options follow, each with its text.
fn page(command: &Command, root: &Command) -> Result<Vec<u8>> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let man = Man::new(command.clone().override_usage(usage).after_help("").disable_version_flag(true))
        .title(page_name(command).to_uppercase())
        // An empty string would be omitted, and the next argument would be read as the date.
        .date("\"\"")
        .source(format!("jitlat {}", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    // No hyphenation (a search could not find `jit-lat`), no justification.
    Roff::new().control("nh", []).control("ad", ["l"]).to_writer(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    closing(command, root).to_writer(&mut page)?;
    Ok(page)
}

/// Sections after the options. The exit status is explained in the notes of the main command.
fn closing(command: &Command, root: &Command) -> Roff {
    let mut roff = Roff::new();
    if let Some(notes) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        roff.control("SH", ["NOTES"]);
        for line in notes.to_string().lines() {
            roff.text([roman(line)]);
            roff.control("br", []);
        }
    }
    if command.get_name() != root.get_name() {
        roff.control("SH", ["EXIT STATUS"]);
        roff.text([roman("That of "), bold(root.get_name()), roman("(1), under NOTES.")]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let others = root.get_subcommands().filter(|c| !c.is_hide_set());
    let others =
        std::iter::once(root).chain(others).map(page_name).filter(|name| *name != page_name(command));
    let mut list = Vec::new();
    for name in others {
        if !list.is_empty() {
            list.push(roman(", "));
        }
        list.extend([bold(name), roman("(1)")]);
    }
    roff.text(list);
    roff
}
