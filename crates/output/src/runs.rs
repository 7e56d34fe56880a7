//! Reads runs from files: logs of any version, and JSON summaries in any form that `--json` writes.

use crate::error::{Context, Result, bail};
use crate::input::{archived_text, is_owamp_file, owamp_log};
use crate::label::{self, stem};
use crate::summaries;
use crate::terminal::work::Work;
use jitlat_core::Direction;
use jitlat_core::analysis::Analyzer;
use jitlat_store::log::LogReader;
use jitlat_store::split_at_equals;
use jitlat_store::threads::Threads;
use jitlat_verdict::compare::{LabelledRun, RunKey};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use tracing::warn;

/// Reads the runs in `files`, each with a unique label.
///
/// # Errors
/// [`Error`](crate::Error) of the first file that cannot be read.
pub fn read(files: &[PathBuf]) -> Result<Vec<LabelledRun>> {
    if files.iter().filter(|f| split(f).1.as_os_str() == "-").count() > 1 {
        bail!("standard input can be read only once");
    }
    let mut runs = Vec::new();
    let _work = Work::of_files("reading and analysing", files.iter().map(|file| split(file).1));
    for file in files {
        let (label, path) = split(file);
        let mut found = open(path)?;
        let several =
            found.iter().filter(|run| run.summary.direction() == found[0].summary.direction()).count() > 1;
        for (run, k) in found.iter_mut().zip(1..) {
            let name = label.map(str::to_owned).or_else(|| run.summary.session.name.clone());
            let name = name.unwrap_or_else(|| stem(of_test(&run.source, run.summary.direction())));
            run.label =
                if several && run.summary.session.name.is_none() { format!("{name} {k}") } else { name };
        }
        runs.append(&mut found);
    }
    make_labels_unique(&mut runs);
    Ok(runs)
}

/// Splits `LABEL=FILE` into label and file, unless a file with this whole name exists.
pub(crate) fn split(text: &Path) -> (Option<&str>, &Path) {
    match split_at_equals(text.as_os_str()) {
        Some((label, path)) if !label.is_empty() && !text.exists() => (Some(label), Path::new(path)),
        _ => (None, text),
    }
}

/// Returns the common name of the two logs of a bidirectional test (`-b`): `NAME` for `NAME.up` and `NAME.down`.
fn of_test(source: &str, direction: Option<Direction>) -> &str {
    let suffix = match direction {
        Some(Direction::Up) => ".up",
        Some(Direction::Down) => ".down",
        None => return source,
    };
    source.strip_suffix(suffix).filter(|rest| !rest.is_empty()).unwrap_or(source)
}

/// Makes the labels of runs with the same direction unique: first by their sources, then by numbers.
fn make_labels_unique(runs: &mut [LabelledRun]) {
    // Up and down of one test may have the same label, because they are in two rows of one column.
    for direction in [None, Some(Direction::Up), Some(Direction::Down)] {
        let mut these: Vec<&mut LabelledRun> =
            runs.iter_mut().filter(|r| r.summary.direction() == direction).collect();
        let mut labels: Vec<String> = these.iter().map(|r| r.label.clone()).collect();
        label::rename(&mut labels, |k, _| these[k].source.clone());
        label::rename(&mut labels, |k, label| format!("{label} ({})", k + 1));
        these.iter_mut().zip(labels).for_each(|(run, label)| run.label = label);
    }
}

/// Returns the default key for rows: the direction if any column contains both directions, otherwise `None`.
pub fn rows_of_themselves(runs: &[LabelledRun], columns: &RunKey) -> Option<RunKey> {
    let both = |run: &LabelledRun| {
        let mine = run.summary.direction();
        let other = |r: &LabelledRun| {
            columns.of(r) == columns.of(run) && r.summary.direction().is_some_and(|d| Some(d) != mine)
        };
        mine.is_some() && runs.iter().any(other)
    };
    (*columns != RunKey::Direction && runs.iter().any(both)).then_some(RunKey::Direction)
}

fn open(path: &Path) -> Result<Vec<LabelledRun>> {
    let is_stdin = path.as_os_str() == "-";
    let name = &*if is_stdin { Cow::from("standard input") } else { path.to_string_lossy() };
    let input: Box<dyn Read + Send> = if is_stdin {
        Box::new(io::stdin())
    } else if let Some(text) = archived_text(path)? {
        text
    } else if is_owamp_file(path) {
        Box::new(io::Cursor::new(owamp_log(path)?))
    } else {
        Box::new(File::open(path).with_context(|| format!("opening {name}"))?)
    };
    let mut input = BufReader::with_capacity(1 << 18, input);
    let start = input.fill_buf().with_context(|| format!("reading {name}"))?;
    match start.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{' | b'[') => summaries::from_json(input, name),
        _ => Ok(vec![from_log(input, name)?]),
    }
}

fn from_log(input: impl BufRead + Send + 'static, name: &str) -> Result<LabelledRun> {
    let mut reader = LogReader::from_reader(name, Box::new(input))?;
    let mut analyzer = Analyzer::new(reader.session(), &jitlat_verdict::options());
    if let Err(e) = reader.each_chunk_on(Threads::available(), |records| analyzer.push_all(records)) {
        if reader.reading().rows == 0 {
            return Err(e.into());
        }
        warn!("{e}; only the {} rows before it are compared", reader.reading().rows);
    }
    let (mut summary, samples) = analyzer.finish_with_helpers(reader.session(), &Threads::available());
    reader.reading().add_to(&mut summary);
    Ok(LabelledRun { label: String::new(), source: name.to_owned(), summary, samples })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(label: &str, source: &str, direction: Option<Direction>) -> LabelledRun {
        let mut run = LabelledRun { label: label.into(), source: source.into(), ..LabelledRun::default() };
        (run.summary.session.direction, run.summary.session.direction_known) =
            (direction.unwrap_or_default(), direction.is_some());
        run
    }

    #[test]
    fn labels_differ_unless_directions_do() {
        let mut runs = [
            run("a", "x/a.log", None),
            run("a", "y/a.log", None),
            run("b", "b", Some(Direction::Up)),
            run("b", "b", Some(Direction::Down)),
            run("c", "c", None),
            run("c", "c", None),
        ];
        make_labels_unique(&mut runs);
        let labels: Vec<&str> = runs.iter().map(|r| r.label.as_str()).collect();
        assert_eq!(labels, ["x/a.log", "y/a.log", "b", "b", "c (3)", "c (4)"]);
        assert_eq!(rows_of_themselves(&runs, &RunKey::Label), Some(RunKey::Direction));
        assert_eq!(rows_of_themselves(&runs, &RunKey::Direction), None);
        assert_eq!(rows_of_themselves(&runs[..2], &RunKey::Label), None);
    }

    #[test]
    fn files_and_their_labels() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        assert_eq!(split(Path::new("before=a.log")), (Some("before"), Path::new("a.log")));
        assert_eq!(split(Path::new("a.log")), (None, Path::new("a.log")));
        let odd = |bytes| Path::new(OsStr::from_bytes(bytes));
        assert_eq!(split(odd(b"before=caf\xe9")), (Some("before"), odd(b"caf\xe9")));
        assert_eq!(of_test("x/a.log.up", Some(Direction::Up)), "x/a.log");
        assert_eq!(of_test("a.up", Some(Direction::Down)), "a.up");
        assert_eq!(of_test(".down", Some(Direction::Down)), ".down");
    }
}
