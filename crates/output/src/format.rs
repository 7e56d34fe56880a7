//! [`Output`]: an entry of [`OUTPUTS`](super::OUTPUTS). The file of each format exports one entry.

use crate::error::{Result, bail};
use crate::report::{AnalysedStream, Report};
use jitlat_core::analysis::Options;
use jitlat_report::PictureFormat;
use jitlat_store::output as file;
use std::fmt;
use std::io::{self, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use tracing::warn;

/// An output format, with all its properties.
pub struct Output {
    /// Name in `--as NAME`, for example `summary-csv`.
    pub name: &'static str,
    /// One-line help: begins with a verb, without a full stop.
    pub help: &'static str,
    /// Command-line option for this format, in addition to `--as NAME`.
    pub option: OwnOption,
    /// Kind of destination of the output.
    pub place: Destination,
    /// Parts that a report must have for this format.
    pub needs: ReportParts,
    /// True if the format requires the length of a window (`--interval`).
    pub needs_interval: bool,
    /// True if the format requires every packet, which excludes an analysis in constant memory (`--streaming`).
    pub needs_packets: bool,
    /// Cargo feature that the format requires but this build lacks; `None` if the build has it.
    pub lacks: Option<&'static str>,
    /// True if the format requires the samples of single packets after the analysis.
    pub keeps_packets: bool,
    /// True if the format is only defined for round trips.
    pub two_way: bool,
    /// True if the format is only defined for one-way tests.
    pub one_way: bool,
    /// Sets the analysis options that the format requires.
    pub asks: fn(&mut Options),
    /// Writes the report to the path.
    pub write: fn(&dyn Report, &OutputPlace<'_>) -> Result<()>,
}

impl Output {
    /// Creates a format that is requested by `--as NAME` and has no requirements.
    pub const fn new(
        name: &'static str,
        help: &'static str,
        place: Destination,
        write: fn(&dyn Report, &OutputPlace<'_>) -> Result<()>,
    ) -> Output {
        Output {
            name,
            help,
            option: OwnOption::None,
            place,
            needs: ReportParts::NOTHING,
            needs_interval: false,
            needs_packets: false,
            lacks: None,
            keeps_packets: false,
            two_way: false,
            one_way: false,
            asks: |_| {},
            write,
        }
    }

    /// Returns the option that requests this format, as used in messages: `--csv`, or `--as hdr`.
    pub fn spelling(&self) -> String {
        match self.option {
            OwnOption::Shown => format!("--{}", self.name),
            OwnOption::Former(_) | OwnOption::None => format!("--as {}", self.name),
        }
    }
}

/// Path of an output, and the formats of its figures. Dereferences to the path.
#[derive(Clone, Copy, Debug)]
pub struct OutputPlace<'a> {
    /// Path of the file or folder.
    pub path: &'a Path,
    /// Formats in which figures are drawn into a folder.
    pub pictures: &'a [PictureFormat],
}

impl Deref for OutputPlace<'_> {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.path
    }
}

/// Command-line option that requests one format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnOption {
    /// No separate option: the format is requested by `--as NAME`.
    None,
    /// The option `--NAME`, with the format's own name.
    Shown,
    /// Option from before version 0.2. It is still accepted, but help does not show it.
    Former(&'static str),
}

/// Kind of destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A file, or standard output.
    File,
    /// One file per stream. With two streams, the name of the stream is appended to the path. A single stream may also
    /// be written to standard output.
    FileEach,
    /// A folder, for formats that write several files.
    Folder,
}

/// A set of parts that a report may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportParts(pub u8);

impl ReportParts {
    /// No parts.
    pub const NOTHING: ReportParts = ReportParts(0);
    /// Streams, each with a summary.
    pub const STREAMS: ReportParts = ReportParts(1);
    /// Rows: packets, or a table.
    pub const ROWS: ReportParts = ReportParts(2);
    /// Figures that can be drawn.
    pub const FIGURES: ReportParts = ReportParts(4);
    /// An HTML page.
    pub const PAGE: ReportParts = ReportParts(8);
    /// Figures for systems that store measurements: those of streams, or of an instrument.
    pub const READINGS: ReportParts = ReportParts(16);
    /// All parts.
    pub const ALL: ReportParts = ReportParts(31);

    /// Returns the union of both sets.
    pub const fn and(self, other: ReportParts) -> ReportParts {
        ReportParts(self.0 | other.0)
    }

    /// Describes the parts of `needed` that are missing from this set; empty if none are.
    pub fn lacking(self, needed: ReportParts) -> Vec<&'static str> {
        let parts = [
            (ReportParts::STREAMS, "the streams of a test"),
            (ReportParts::ROWS, "packets or a table"),
            (ReportParts::FIGURES, "figures that can be drawn"),
            (ReportParts::PAGE, "a page"),
            (ReportParts::READINGS, "the figures of one test"),
        ];
        let lacks = |(part, _): &(ReportParts, &str)| needed.has(*part) && !self.has(*part);
        parts.into_iter().filter(lacks).map(|(_, name)| name).collect()
    }

    /// True if this set contains all parts of `needed`.
    pub const fn has(self, needed: ReportParts) -> bool {
        self.0 & needed.0 == needed.0
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Output").field(&self.name).finish()
    }
}

/// Writes to a file, or to standard output.
pub fn write_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    Ok(file::write(path, fill)?)
}

/// Writes one file per stream: `path` with the stream's name appended for two streams, or `path` itself for a single
/// stream.
pub fn write_each<'a>(
    streams: &'a [AnalysedStream],
    path: &Path,
    fill: impl Fn(&'a AnalysedStream, &mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    if let [one] = streams {
        if !one.has_packets() {
            not_written(path);
            return Ok(());
        }
        return write_file(path, |out| fill(one, out));
    }
    if !matches!(streams, [one, other] if one.file_ending != other.file_ending) {
        bail!("it can only contain one stream: analyse the logs one at a time");
    }
    for stream in streams {
        if !stream.has_packets() {
            not_written(&with_ending(path, &stream.file_ending));
            continue;
        }
        write_file(&with_ending(path, &stream.file_ending), |out| fill(stream, out))?;
    }
    Ok(())
}

/// Warns that a file of packets is not written because only totals are known.
pub fn not_written(path: &Path) {
    warn!(
        "{} is not written: only totals are known here, not single packets (for a one-way LaMP test the server has them: jitlat \
         serve --late-packets DIR)",
        path.display()
    );
}

/// Returns `path` with a dot and `ending` appended: the file of one stream.
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}
