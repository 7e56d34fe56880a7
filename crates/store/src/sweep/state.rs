//! [`SweepState`]: the state file of a sweep, which grows by one line per finished run.

use super::{Contents, SweepError, SweepPlan, plan_line, read, run_line};
use crate::log::Naming;
use crate::platform;
use jitlat_core::analysis::Samples;
use jitlat_core::sweep::{RunOutcome, SweepRun};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The state file of a sweep, and its finished runs.
#[derive(Debug)]
pub struct SweepState {
    path: PathBuf,
    file: File,
    contents: Contents,
}

/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Maximum size of the first line of a file that may be a sweep, in bytes.
const MAX_PLAN_BYTES: u64 = 1 << 20;

impl SweepState {
    /// Creates a file with the given name, or named `sweep.` and six random characters. An existing file is never
    /// overwritten.
    ///
    /// # Errors
    /// [`SweepError::File`].
    pub fn create(naming: &Naming, plan: SweepPlan) -> Result<SweepState, SweepError> {
        let (path, file) = match naming {
            Naming::Given(path) => {
                (path.clone(), create(path).map_err(|e| SweepError::file("creating", path, e))?)
            }
            Naming::Random(folder) => create_random(folder)?,
        };
        let line = plan_line(&plan)?;
        let contents = Contents { plan, outcomes: Vec::new(), packets: Vec::new(), whole: line.len() };
        let mut state = SweepState { path, file, contents };
        state.write(&line)?;
        Ok(state)
    }

    /// Reads an existing file. A truncated last line is overwritten.
    ///
    /// # Errors
    /// [`SweepError`] if the file cannot be read and written, or is not a sweep.
    pub fn resume(path: &Path) -> Result<SweepState, SweepError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let mut file = file.map_err(|e| SweepError::file("opening the sweep", path, e))?;
        let contents = contents_of(&mut file, path)?;
        let reading = |e| SweepError::file("reading the sweep", path, e);
        file.set_len(contents.whole as u64).map_err(reading)?;
        file.seek(SeekFrom::End(0)).map_err(reading)?;
        Ok(SweepState { path: path.to_owned(), file, contents })
    }

    /// Appends a finished run with its accepted packets.
    ///
    /// # Errors
    /// [`SweepError::File`].
    pub fn add(&mut self, outcome: RunOutcome, packets: Samples) -> Result<(), SweepError> {
        let line = run_line(&outcome, &packets)?;
        self.write(&line)?;
        self.contents.whole += line.len();
        self.contents.outcomes.push(outcome);
        self.contents.packets.push(packets);
        Ok(())
    }

    /// Removes the file.
    pub fn discard(self) {
        if let Err(e) = std::fs::remove_file(&self.path) {
            tracing::warn!("cannot remove {}, which has no finished run: {e}", self.path.display());
        }
    }

    fn write(&mut self, line: &str) -> Result<(), SweepError> {
        self.file.write_all(line.as_bytes()).map_err(|e| SweepError::file("writing", &self.path, e))
    }

    /// True if this run is finished.
    pub fn has(&self, run: SweepRun) -> bool {
        self.contents.outcomes.iter().any(|o| o.run == run)
    }

    /// Returns everything that is in the file.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Returns the plan of the sweep.
    pub fn plan(&self) -> &SweepPlan {
        &self.contents.plan
    }

    /// Returns the results of the finished runs.
    pub fn outcomes(&self) -> &[RunOutcome] {
        &self.contents.outcomes
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads the sweep in a file without changing the file.
///
/// # Errors
/// [`SweepError`] if the file cannot be read, or is not a sweep.
pub fn open(path: &Path) -> Result<Contents, SweepError> {
    let mut file = File::open(path).map_err(|e| SweepError::file("opening the sweep", path, e))?;
    contents_of(&mut file, path)
}

/// True if `path` is a file whose first line is the plan of a sweep.
pub fn is_sweep(path: &Path) -> bool {
    let first_line = || -> io::Result<String> {
        let mut line = String::new();
        BufReader::new(File::open(path)?).take(MAX_PLAN_BYTES).read_line(&mut line)?;
        Ok(line)
    };
    // A pipe could not be read again.
    path.is_file() && first_line().is_ok_and(|line| serde_json::from_str::<SweepPlan>(&line).is_ok())
}

fn contents_of(file: &mut File, path: &Path) -> Result<Contents, SweepError> {
    let reading = |e| SweepError::file("reading the sweep", path, e);
    if file.metadata().map_err(reading)?.len() > MAX_FILE_BYTES {
        return Err(SweepError::TooLong(path.to_owned()));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(reading)?;
    read(&text).map_err(|e| SweepError::Read { path: path.to_owned(), source: Box::new(e) })
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

fn create_random(folder: &Path) -> Result<(PathBuf, File), SweepError> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("sweep.").rand_bytes(6);
    if let Some(permissions) = platform::of_a_new_file() {
        builder.permissions(permissions);
    }
    let kept = builder.tempfile_in(folder).and_then(|file| file.keep().map_err(|e| e.error));
    let (file, path) = kept.map_err(SweepError::Folder)?;
    // Use the bare name for a file in the working directory.
    let name = path.file_name().filter(|_| folder == Path::new(".")).map(PathBuf::from);
    Ok((name.unwrap_or(path), file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::WallTime;
    use jitlat_core::sweep::{Factor, FactorLevel, RunFigures, SweepAxis, SweepGrid};

    fn plan() -> SweepPlan {
        let level = |n: u32| FactorLevel { text: n.to_string(), number: Some(n.into()) };
        SweepPlan::new(
            "192.0.2.1",
            SweepGrid { axes: vec![SweepAxis::new(Factor::Payload, [40, 80].map(level).into())] },
        )
    }

    fn outcome(cell: usize, repetition: u32) -> RunOutcome {
        let run = SweepRun { cell, repetition };
        RunOutcome {
            run,
            at: WallTime(1),
            sent: 10,
            received: 10,
            ip_length: Some(68),
            figures: RunFigures::default(),
        }
    }

    fn packets() -> Samples {
        Samples {
            seq: vec![0, 2, 1],
            sent: vec![1_000, 3_000, 2_000],
            delay: vec![7, -9, 8],
            ..Samples::default()
        }
    }

    #[test]
    fn a_sweep_goes_on_where_it_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let mut state = SweepState::create(&Naming::Given(path.clone()), plan()).unwrap();
        state.add(outcome(1, 0), packets()).unwrap();
        state.add(outcome(0, 0), Samples::default()).unwrap();
        drop(state);
        assert!(SweepState::create(&Naming::Given(path.clone()), plan()).is_err(), "never replaced");
        // Simulate a crash in the middle of a line.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let mut state = SweepState::resume(&path).unwrap();
        assert_eq!((state.plan(), state.outcomes().len()), (&plan(), 1));
        assert_eq!(state.contents().packets, [packets()]);
        assert!(
            state.has(SweepRun { cell: 1, repetition: 0 }) && !state.has(SweepRun { cell: 0, repetition: 0 })
        );
        state.add(outcome(0, 0), Samples::default()).unwrap();
        drop(state);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
