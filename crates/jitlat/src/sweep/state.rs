//! [`SweepState`]: the file of a sweep, which grows by a line with each finished run.

use anyhow::{Context, Result, bail};
use jitlat_core::analysis::Samples;
use jitlat_core::sweep::{RunOutcome, SweepRun};
use jitlat_net::random;
use jitlat_store::sweep::{Contents, SweepPlan, plan_line, read, run_line};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How the name of a new file is chosen.
pub enum FileNaming {
    Given(PathBuf),
    /// `sweep.XXXXXX` in this folder.
    Random,
}

/// The finished runs of a sweep.
pub struct SweepState {
    path: PathBuf,
    file: File,
    contents: Contents,
}

/// Largest file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;

impl SweepState {
    /// Creates a file. An existing one is never overwritten.
    pub fn create(named: &FileNaming, plan: SweepPlan) -> Result<SweepState> {
        let (path, file) = match named {
            FileNaming::Given(path) => {
                (path.clone(), create(path).with_context(|| format!("creating {}", path.display()))?)
            }
            FileNaming::Random => create_random()?,
        };
        let line = plan_line(&plan)?;
        let contents = Contents { plan, outcomes: Vec::new(), packets: Vec::new(), whole: line.len() };
        let mut state = SweepState { path, file, contents };
        state.write(&line)?;
        Ok(state)
    }

    /// Reads an existing file. A truncated last line is overwritten.
    pub fn resume(path: &Path) -> Result<SweepState> {
        let name = path.display();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .with_context(|| format!("opening the sweep {name}"))?;
        if file.metadata()?.len() > MAX_FILE_BYTES {
            bail!("{name} is too long for a sweep");
        }
        let mut text = String::new();
        io::Read::read_to_string(&mut file, &mut text)
            .with_context(|| format!("reading the sweep {name}"))?;
        let contents = read(&text).with_context(|| format!("reading the sweep {name}"))?;
        file.set_len(contents.whole as u64)?;
        io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        Ok(SweepState { path: path.to_owned(), file, contents })
    }

    /// Appends a finished run with its accepted packets.
    pub fn add(&mut self, outcome: RunOutcome, packets: Samples) -> Result<()> {
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
            tracing::warn!("{} has no finished run, and cannot be removed: {e}", self.path.display());
        }
    }

    fn write(&mut self, line: &str) -> Result<()> {
        self.file.write_all(line.as_bytes()).with_context(|| format!("writing {}", self.path.display()))
    }

    /// Whether this run is finished.
    pub fn has(&self, run: SweepRun) -> bool {
        self.contents.outcomes.iter().any(|o| o.run == run)
    }

    pub fn plan(&self) -> &SweepPlan {
        &self.contents.plan
    }

    pub fn outcomes(&self) -> &[RunOutcome] {
        &self.contents.outcomes
    }

    /// The accepted packets of each run, in the order of the outcomes; empty where an older program did not keep them.
    pub fn packets(&self) -> &[Samples] {
        &self.contents.packets
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

fn create_random() -> Result<(PathBuf, File)> {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    loop {
        let mut bytes = [0; 6];
        random::fill(&mut bytes).context("drawing a name from the system's random numbers")?;
        let tail: String =
            bytes.iter().map(|b| char::from(LETTERS[usize::from(*b) % LETTERS.len()])).collect();
        let path = PathBuf::from(format!("sweep.{tail}"));
        match create(&path) {
            Ok(file) => return Ok((path, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e).context("creating a file for the sweep in this folder"),
        }
    }
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
        let mut state = SweepState::create(&FileNaming::Given(path.clone()), plan()).unwrap();
        state.add(outcome(1, 0), packets()).unwrap();
        state.add(outcome(0, 0), Samples::default()).unwrap();
        drop(state);
        assert!(SweepState::create(&FileNaming::Given(path.clone()), plan()).is_err(), "never replaced");
        // A crash in the middle of a line.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let mut state = SweepState::resume(&path).unwrap();
        assert_eq!((state.plan(), state.outcomes().len()), (&plan(), 1));
        assert_eq!(state.packets(), [packets()]);
        assert!(
            state.has(SweepRun { cell: 1, repetition: 0 }) && !state.has(SweepRun { cell: 0, repetition: 0 })
        );
        state.add(outcome(0, 0), Samples::default()).unwrap();
        drop(state);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
