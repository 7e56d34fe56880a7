//! [`WantedOutputs`]: the requested formats, checked before the measurement and written afterwards.

use crate::STDOUT;
use crate::error::{Context, Error, Result, bail, explain};
use crate::format::{Destination, Output, OutputPlace, ReportParts, with_ending};
use crate::report::Report;
use crate::terminal;
use jitlat_core::analysis::Options;
use jitlat_report::PictureFormat;
use jitlat_store::output as file;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tracing::error;

/// Requested formats, each with its path.
#[derive(Clone, Debug, Default)]
pub struct WantedOutputs {
    /// Requested formats, each with the path that it is written to.
    pub outputs: Vec<(&'static Output, PathBuf)>,
    /// Formats in which figures are drawn into a folder.
    pub pictures: Vec<PictureFormat>,
    /// Names of the formats that could not be written; not set until all formats have been written.
    failed: OnceLock<Vec<&'static str>>,
}

impl WantedOutputs {
    /// Creates the list of `outputs`, with figures as SVG and PNG.
    pub fn new(outputs: Vec<(&'static Output, PathBuf)>) -> WantedOutputs {
        WantedOutputs { outputs, pictures: PictureFormat::DEFAULT.to_vec(), failed: OnceLock::new() }
    }

    /// Returns the same outputs with figures in the formats `pictures`.
    pub fn drawn_as(self, pictures: Vec<PictureFormat>) -> WantedOutputs {
        WantedOutputs { pictures, ..self }
    }

    /// Returns the path of the output `name`; `None` if it is not requested, could not be written, or is written to
    /// standard output.
    pub fn path(&self, name: &str) -> Option<&Path> {
        let failed = self.failed.get().is_some_and(|failed| failed.contains(&name));
        self.place(name).filter(|path| !failed && !is_stdout(path))
    }

    /// Returns the path of the output `name`, or `-` for standard output; `None` if it is not requested.
    pub fn place(&self, name: &str) -> Option<&Path> {
        self.outputs.iter().find(|(output, _)| output.name == name).map(|(_, path)| path.as_path())
    }

    /// True if no format is requested.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }

    /// True if a format is written to standard output. Nothing else may then be printed there.
    pub fn is_silent(&self) -> bool {
        self.outputs.iter().any(|(_, path)| is_stdout(path))
    }

    /// True if a format needs single packets.
    pub fn keeps_packets(&self) -> bool {
        self.outputs.iter().any(|(output, _)| output.keeps_packets)
    }

    /// Returns the first format that needs the part `part` of a report, and its path; `None` if there is none.
    pub fn needing(&self, part: ReportParts) -> Option<(&'static Output, &Path)> {
        self.outputs
            .iter()
            .find(|(output, _)| output.needs.has(part))
            .map(|(output, path)| (*output, path.as_path()))
    }

    /// Returns a requested format other than `names`; `None` if there is none.
    pub fn other_than(&self, names: &[&str]) -> Option<&'static Output> {
        self.outputs.iter().map(|(output, _)| *output).find(|output| !names.contains(&output.name))
    }

    /// Returns the first format that needs every packet; `None` if there is none.
    pub fn needing_packets(&self) -> Option<&'static Output> {
        self.outputs.iter().map(|(output, _)| *output).find(|output| output.needs_packets)
    }

    /// Rejects formats that an analysis with `options` cannot produce.
    pub fn check_analysis(&self, options: &Options) -> Result<()> {
        for (output, _) in &self.outputs {
            if output.needs_interval && options.interval.is_none() {
                bail!("{} needs the length of a window, for example --interval 1s", output.spelling());
            }
            if output.needs_packets && options.streaming {
                bail!(
                    "{} needs every packet, which --streaming does not retain: omit one of the two",
                    output.spelling()
                );
            }
        }
        Ok(())
    }

    /// True if a format draws figures.
    pub fn draws(&self) -> bool {
        // A build that cannot draw does not need the data for figures.
        cfg!(feature = "plots") && self.needs_figures()
    }

    fn needs_figures(&self) -> bool {
        self.needing(ReportParts::FIGURES).is_some() || self.needing(ReportParts::PAGE).is_some()
    }

    /// Sets the analysis options that the formats require.
    pub fn ask(&self, options: &mut Options) {
        self.outputs.iter().for_each(|(output, _)| (output.asks)(options));
    }

    /// Checks that every output can contain `tests` tests.
    pub fn check_tests(&self, tests: usize) -> Result<()> {
        match self.outputs.iter().find(|(output, _)| output.two_way && tests > 1) {
            Some((output, _)) => {
                bail!(
                    "{} can only contain one two-way test: analyse the logs one at a time",
                    output.spelling()
                )
            }
            None => Ok(()),
        }
    }

    /// Checks, before the measurement, that every output can be written: the build supports its format, its path is
    /// usable, and no two files have the same path. `streams` is the number of streams in the report, `others` are
    /// other files that will be written.
    pub fn check(&self, streams: usize, others: &[&Path]) -> Result<()> {
        if let Some((output, feature)) =
            self.outputs.iter().find_map(|(output, _)| Some((output, output.lacks?)))
        {
            return Err(Error::NotInBuild { what: output.spelling(), feature });
        }
        if self.outputs.iter().filter(|(_, path)| is_stdout(path)).count() > 1 {
            bail!("only one format can be written to standard output: give files for the others");
        }
        self.check_tests(streams)?;
        let mut taken: Vec<&Path> = others.to_vec();
        for (output, path) in &self.outputs {
            if is_stdout(path) {
                if output.place == Destination::FileEach && streams > 1 {
                    bail!("{} can write only one stream to standard output: give a file", output.spelling());
                }
                continue;
            }
            if output.place == Destination::FileEach && streams > 2 {
                bail!("{} writes one stream: analyse the logs one at a time", output.spelling());
            }
            if taken.contains(&path.as_path()) && fs::metadata(path).map_or(true, |m| m.is_file()) {
                bail!(
                    "{}: {} is also the file of another output: choose another name",
                    output.spelling(),
                    path.display()
                );
            }
            taken.push(path);
            let checked = match output.place {
                Destination::Folder => file::check_folder(path),
                // With two streams, the names of the files begin with this path.
                Destination::FileEach if streams == 2 => file::check(&with_ending(path, "jitlat")),
                Destination::File | Destination::FileEach => file::check(path),
            };
            checked.with_context(|| output.spelling())?;
        }
        Ok(())
    }

    /// Rejects formats for round trips, before a one-way measurement.
    pub fn check_one_way(&self) -> Result<()> {
        match self.outputs.iter().find(|(output, _)| output.two_way) {
            Some((output, _)) => bail!("{} is only defined for round trips (jitlat ping)", output.spelling()),
            None => Ok(()),
        }
    }

    /// Rejects formats for one-way tests, before a measurement of round trips.
    pub fn check_two_way(&self) -> Result<()> {
        match self.outputs.iter().find(|(output, _)| output.one_way) {
            Some((output, _)) => {
                bail!("{} is only defined for one-way tests (jitlat HOST)", output.spelling())
            }
            None => Ok(()),
        }
    }

    /// Writes every format, and prints `text` unless a format uses standard output. The text comes last, because it
    /// lists the files that were written. If a format cannot be written, the error is logged, the others are still
    /// written, and the result is false.
    pub fn write(&self, report: &dyn Report, text: impl FnOnce() -> String) -> bool {
        let mut failures = self.write_files(report);
        let printed = if self.is_silent() { Ok(()) } else { terminal::print(&text()) };
        failures.extend(printed.err());
        log_failures(&failures)
    }

    /// Writes every format, even if others fail. Returns the errors.
    pub fn write_files(&self, report: &dyn Report) -> Vec<Error> {
        let write = |(output, path): &(&'static Output, PathBuf)| {
            let place = OutputPlace { path, pictures: &self.pictures };
            Some((output.name, (output.write)(report, &place).context(output.spelling()).err()?))
        };
        let (failed, failures) = self.outputs.iter().filter_map(write).unzip();
        // Formats are written once.
        let _ = self.failed.set(failed);
        failures
    }
}

/// Logs `failures`. Returns true if there are none.
pub fn log_failures(failures: &[Error]) -> bool {
    failures.iter().for_each(|e| error!("{}", explain(e)));
    failures.is_empty()
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == STDOUT
}
