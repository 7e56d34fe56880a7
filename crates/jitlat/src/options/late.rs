//! Outputs in LaTe's formats.

use clap::Args;
use jitlat_core::Span;
use jitlat_core::quantity;
use jitlat_store::late::Extra;
use std::path::PathBuf;

/// Outputs in LaTe's formats.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "LaTe's outputs")]
pub struct LateArgs {
    /// Append one line of LaTe's 34 columns to FILE; a new file begins with their names (LaTe's -f)
    #[arg(long, value_name = "FILE")]
    pub late_csv: Option<PathBuf>,
    /// Write LaTe's line for each packet to FILE (LaTe's -W)
    #[arg(long, value_name = "FILE")]
    pub late_packets: Option<PathBuf>,
    /// More values for each packet: letters of p (loss so far), r (number past wraps), m, n (smallest, largest so
    /// far), or a for all (LaTe's -X)
    #[arg(long, value_name = "LETTERS", default_value = "")]
    pub late_extra: Extra,
    /// Send each sample to a listener while the test runs: datagrams, with a start and an end over TCP (LaTe's -w)
    #[arg(long, value_name = "HOST[:PORT]")]
    pub late_stream: Option<String>,
    /// Confidence levels of the intervals in the last message to the listener, of 90, 95 and 99 (LaTe's -C)
    #[arg(long, value_name = "LEVELS", value_parser = levels, default_value = "95", requires = "late_stream")]
    pub late_confidence: Levels,
    /// Send the figures of each interval to Carbon while the test runs (LaTe's -g)
    #[arg(long, value_name = "HOST[:PORT]")]
    pub graphite: Option<String>,
    /// Name of the figures in Graphite
    #[arg(long, value_name = "PATH", default_value = "jitlat", requires = "graphite")]
    pub graphite_path: String,
    /// Time between two messages to Carbon, 1s or more: it keeps one value a second
    #[arg(long, value_name = "T", value_parser = seconds, default_value = "1s", requires = "graphite")]
    pub graphite_every: Span,
    /// Send to Carbon over UDP, one line a datagram
    #[arg(long, requires = "graphite")]
    pub graphite_udp: bool,
}

/// Which of the levels 90, 95 and 99 % are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Levels(pub [bool; 3]);

/// Parses a list of confidence levels in percent.
fn levels(text: &str) -> Result<Levels, String> {
    let mut wanted = [false; 3];
    for word in text.split(',') {
        let at = ["90", "95", "99"].iter().position(|level| *level == word.trim());
        wanted[at.ok_or_else(|| format!("'{word}' is none of 90, 95 and 99"))?] = true;
    }
    Ok(Levels(wanted))
}

/// Parses a duration of at least a second: Carbon keeps one value per second.
fn seconds(text: &str) -> Result<Span, String> {
    let span = quantity::duration(text)?;
    if span < Span::seconds(1) { Err("Carbon keeps one value a second: 1s or more".into()) } else { Ok(span) }
}

impl LateArgs {
    /// The files to be written.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.late_csv.iter().chain(&self.late_packets)
    }
}
