//! Options for data that is sent in LaTe's formats while a test runs.

use clap::Args;
use jitlat_core::Span;
use jitlat_core::quantity;
use jitlat_store::late::ExtraFields;

/// Options for data that is sent in LaTe's formats while a test runs.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "While the test runs")]
pub struct LateArgs {
    /// Additional values per sample, like LaTe's -X: letters of p, r, m, n, or a
    ///
    /// p: loss so far; r: sequence number without wraps; m and n: smallest and largest latency so far; a: all
    /// of these. The values are sent to the listener of --late-stream and written by `--as late-packets`.
    #[arg(long, value_name = "LETTERS", default_value = "")]
    pub late_extra: ExtraFields,
    /// Send each sample to a listener, like LaTe's -w
    ///
    /// Samples are datagrams; the start and the end are sent over TCP.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub late_stream: Option<String>,
    /// Confidence levels that the listener gets at the end, like LaTe's -C
    ///
    /// A list of 90, 95 and 99, in percent.
    #[arg(long, value_name = "LEVELS", value_parser = levels, default_value = "95", requires = "late_stream")]
    pub late_confidence: WantedLevels,
    /// Send the figures of each interval to Carbon, like LaTe's -g
    #[arg(long, value_name = "HOST[:PORT]")]
    pub graphite: Option<String>,
    /// Prefix of the figures' names in Graphite
    #[arg(long, value_name = "PATH", default_value = "jitlat", requires = "graphite")]
    pub graphite_path: String,
    /// Time between two messages to Carbon, at least 1s
    ///
    /// Carbon stores one value per second.
    #[arg(long, value_name = "T", value_parser = seconds, default_value = "1s", requires = "graphite")]
    pub graphite_every: Span,
    /// Send to Carbon over UDP, one line per datagram
    #[arg(long, requires = "graphite")]
    pub graphite_udp: bool,
}

/// Selection of the levels 90, 95 and 99 %.
#[derive(Clone, Copy, Debug)]
pub struct WantedLevels(pub [bool; 3]);

/// Parses a list of confidence levels in percent.
fn levels(text: &str) -> Result<WantedLevels, String> {
    let mut wanted = [false; 3];
    for word in text.split(',') {
        let at = ["90", "95", "99"].iter().position(|level| *level == word.trim());
        wanted[at.ok_or_else(|| format!("'{word}' is not a level: give 90, 95 or 99"))?] = true;
    }
    Ok(WantedLevels(wanted))
}

/// Parses a duration of at least a second, because Carbon stores one value per second.
fn seconds(text: &str) -> Result<Span, String> {
    let span = quantity::duration(text)?;
    if span < Span::seconds(1) {
        Err("Carbon stores one value per second: give 1s or more".into())
    } else {
        Ok(span)
    }
}
