//! Log files and their names. An existing file is never overwritten.

use super::LogVersion;
use super::write::{LogOutput, LogWriter, WriteError, WrittenLog};
use crate::platform;
use jitlat_core::evidence::KnownPackets;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{PacketRecord, Session};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Rule by which the name of a log is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The directory in which a file named `jitlat.` and six random characters is created, as with mkstemp.
    Random(PathBuf),
    /// The path given by `-o`. An existing regular file at this path is an error; devices and named pipes are written
    /// to. `-` is standard output.
    Given(PathBuf),
}

impl Naming {
    /// Creates the file. If `part` is true, its name ends with `.part` until it is complete.
    fn file(&self, part: bool) -> Result<CreatedFile, CreateError> {
        match self {
            Naming::Given(path) => exclusive(path, part),
            Naming::Random(dir) => random(dir, "", part),
        }
    }
}

/// A new file.
struct CreatedFile {
    path: PathBuf,
    /// Name that the file gets when it is complete; `None` if it has it from the beginning.
    published: Option<PathBuf>,
    output: UnusedFileGuard,
}

impl CreatedFile {
    fn log(self, writer: impl FnOnce(UnusedFileGuard) -> LogWriter<UnusedFileGuard>) -> LogFile {
        let CreatedFile { path, published, output } = self;
        LogFile { path, published, is_whole: false, writer: writer(output) }
    }
}

/// Kind of rows in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// Two times per packet, in this version.
    OneWay(LogVersion),
    /// Up to four times per packet, in version 3.
    TwoWay,
    /// Up to four times per packet, and the marks that the far host reports, in version 3.
    TwoWayMarked,
    /// Up to four times per packet, and the kernel's TCP_INFO, in version 3.
    TwoWayTcp,
}

impl RowKind {
    /// True if the log does not mark its end, so that only its name shows whether it is complete.
    fn is_unmarked(self) -> bool {
        matches!(self, RowKind::OneWay(version) if !version.has_all_facts())
    }

    fn writer(self, output: UnusedFileGuard) -> LogWriter<UnusedFileGuard> {
        match self {
            RowKind::OneWay(version) => LogWriter::new(output, version),
            RowKind::TwoWay => LogWriter::two_way(output),
            RowKind::TwoWayMarked => LogWriter::two_way_marked(output),
            RowKind::TwoWayTcp => LogWriter::two_way_tcp(output),
        }
    }
}

/// Reason why a log could not be created. Nothing has been measured or written at this point.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The file exists.
    #[error("{} exists and is not overwritten: choose another name, or remove it", .0.display())]
    Exists(PathBuf),
    /// No file can be created in the folder.
    #[error("cannot create a log in {}: {source}", folder(.path))]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file cannot be created.
    #[error("cannot create the log {}: {source}", .path.display())]
    Create {
        /// Path of the log.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// A log that is written to a file. Create it before the measurement: an existing file is then reported before anything
/// is sent. The file is removed if this value is dropped before [`LogFile::begin`].
#[derive(Debug)]
pub struct LogFile {
    /// Current path.
    path: PathBuf,
    /// Path that the log gets when it is complete; `None` if it has it from the beginning.
    published: Option<PathBuf>,
    /// True if the log contains everything about its test.
    is_whole: bool,
    writer: LogWriter<UnusedFileGuard>,
}

/// Suffix of a log of version 1 or 2 until it is complete.
const PART: &str = ".part";

/// True if `path` is the name of a log of version 1 or 2 whose test is running or did not end.
pub fn is_part(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(PART.as_bytes())
}

/// Suffix of the temporary file with the final form of a log, which replaces the log.
const FINAL: &str = ".final";

/// Suffix of the temporary file with the final header of a log. It differs from [`FINAL`], because both files may
/// exist.
const HEADER: &str = ".header";

/// Name of standard output.
pub const STDOUT: &str = "-";

/// A file that is removed when its last owner is dropped, unless something was written to it.
#[derive(Debug)]
struct UnusedFileGuard {
    file: File,
    unused: Option<PathBuf>,
}

impl LogFile {
    /// Creates the file.
    ///
    /// # Errors
    /// [`CreateError`], most often because the name is in use.
    pub fn create(naming: &Naming, version: LogVersion) -> Result<LogFile, CreateError> {
        LogFile::create_for(naming, RowKind::OneWay(version))
    }

    /// Creates the file for rows of any kind.
    ///
    /// # Errors
    /// Same as [`LogFile::create`].
    pub fn create_for(naming: &Naming, rows: RowKind) -> Result<LogFile, CreateError> {
        Ok(naming.file(rows.is_unmarked())?.log(|output| rows.writer(output)))
    }

    /// Creates a file of version 3, for records with up to four timestamps.
    ///
    /// # Errors
    /// Same as [`LogFile::create`].
    pub fn create_two_way(naming: &Naming) -> Result<LogFile, CreateError> {
        LogFile::create_for(naming, RowKind::TwoWay)
    }

    /// Creates the file for records with up to four times and columns for the kernel's TCP_INFO, in version 3.
    ///
    /// # Errors
    /// Same as [`LogFile::create`].
    pub fn create_two_way_tcp(naming: &Naming) -> Result<LogFile, CreateError> {
        LogFile::create_for(naming, RowKind::TwoWayTcp)
    }

    /// Creates the two files of a test in both directions: `.up` and `.down` are appended to the name.
    ///
    /// # Errors
    ///
    /// [`CreateError`]; neither file exists in this case.
    pub fn create_pair(naming: &Naming, version: LogVersion) -> Result<Vec<LogFile>, CreateError> {
        LogFile::create_several(naming, RowKind::OneWay(version), &[".up", ".down"])
    }

    /// Creates several related files: each of `endings` is appended to the name.
    ///
    /// # Errors
    ///
    /// [`CreateError`]; none of the files exists in this case.
    pub fn create_several(
        naming: &Naming,
        rows: RowKind,
        endings: &[&str],
    ) -> Result<Vec<LogFile>, CreateError> {
        // Another process may create a name between the calls; a new random name is then tried.
        const ATTEMPTS: usize = 16;
        let Some((first, others)) = endings.split_first() else { return Ok(Vec::new()) };
        let part = rows.is_unmarked();
        let mut attempt = 0;
        let all = loop {
            let (one, base) = match naming {
                Naming::Given(base) => (exclusive(&suffixed(base, first), part)?, base.clone()),
                Naming::Random(dir) => {
                    let one = random(dir, first, part)?;
                    let path = one.published.as_ref().unwrap_or(&one.path);
                    // The file's own name is ASCII, that of its folder may not be.
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    let base = path.with_file_name(name.strip_suffix(first).unwrap_or(&name));
                    (one, base)
                }
            };
            attempt += 1;
            let rest: Result<Vec<_>, _> =
                others.iter().map(|ending| exclusive(&suffixed(&base, ending), part)).collect();
            match rest {
                Ok(rest) => break std::iter::once(one).chain(rest),
                Err(CreateError::Exists(_)) if matches!(naming, Naming::Random(_)) && attempt < ATTEMPTS => {}
                Err(e) => return Err(e),
            }
        };
        Ok(all.map(|file| file.log(|output| rows.writer(output))).collect())
    }

    /// Name that the file has when it is complete.
    pub fn path(&self) -> &Path {
        self.published.as_deref().unwrap_or(&self.path)
    }

    /// Name that the file has now.
    pub fn current_path(&self) -> &Path {
        &self.path
    }

    /// True for a regular file, which can be replaced; false for standard output, a device or a pipe.
    pub fn is_own(&self) -> bool {
        !self.is_stdout() && self.writer.output().file.metadata().is_ok_and(|m| m.is_file())
    }

    fn is_stdout(&self) -> bool {
        self.path.as_os_str() == STDOUT
    }

    /// Creates a log in the same folder and format, which can replace this one by [`LogFile::replace`].
    ///
    /// # Errors
    /// Same as [`LogFile::create`].
    pub fn successor(&self) -> Result<LogFile, CreateError> {
        let mut name = self.path.clone().into_os_string();
        name.push(FINAL);
        Ok(exclusive(Path::new(&name), false)?.log(|output| self.writer.another(output)))
    }

    /// True if the path still refers to this log. False if the file was removed, or another file has its name.
    pub fn is_there(&self) -> bool {
        self.is_stdout() || platform::is_named(&self.writer.output().file, &self.path)
    }

    /// Closes this log and renames it to `path`, where it replaces the existing file. If this fails, this log is
    /// removed.
    ///
    /// # Errors
    /// [`WriteError`] if the log is not complete or cannot be renamed.
    pub fn replace(self, path: &Path) -> Result<WrittenLog, WriteError> {
        let own = self.path.clone();
        let closed = self.close().and_then(|(_, written)| match fs::rename(&own, path) {
            Ok(()) => Ok(written),
            Err(source) => {
                Err(WriteError { path: Some(path.to_owned()), rows: 0, lost: written.rows, source })
            }
        });
        closed.inspect_err(|_| drop(fs::remove_file(&own)))
    }

    /// See [`LogWriter::begin`].
    pub fn begin(&mut self, session: &Session) {
        self.writer.begin(session);
    }

    /// See [`LogWriter::record`].
    #[inline]
    pub fn record(&mut self, record: &PacketRecord) {
        self.writer.record(record);
    }

    /// See [`LogWriter::miss`].
    pub fn miss(&mut self, packets: u64) {
        self.writer.miss(packets);
    }

    /// See [`LogWriter::record_tcp`].
    pub fn record_tcp(&mut self, record: &PacketRecord, sample: Option<&TcpSample>) {
        self.writer.record_tcp(record, sample);
    }

    /// See [`LogWriter::flush`].
    pub fn flush(&mut self) {
        self.writer.flush();
    }

    /// See [`LogWriter::finish`].
    pub fn finish(&mut self, session: &Session) {
        // The end lines of the log state the rest; here, only what the session says about the end of the test counts.
        let ended = Session { version: LogVersion::V3.number(), ..session.clone() };
        self.is_whole = KnownPackets::up_to(&ended, None, |_| 0).complete;
        self.writer.finish(session);
    }

    /// Closes the log; returns the file's name and a description of its contents. A log of version 1 or 2 gets its final
    /// name if it is complete and no other file has that name.
    ///
    /// # Errors
    /// [`WriteError`] with the first failure; rows that could be written stay in the file. It is also an error
    /// if the path no longer refers to the log, because the rows are lost with the removed file.
    pub fn close(mut self) -> Result<(PathBuf, WrittenLog), WriteError> {
        let is_there = self.is_there();
        let better = self.writer.better_header().filter(|_| self.is_own());
        let published = self.published.take().filter(|_| self.is_whole);
        let path = self.path;
        match self.writer.close().1 {
            Ok(WrittenLog { rows: lost, .. }) | Err(WriteError { rows: lost, .. }) if !is_there => {
                let source = io::Error::other("the file was removed or replaced during the test");
                Err(WriteError { path: Some(path), rows: 0, lost, source })
            }
            Ok(written) => match better.map(|(old, text)| change_header(&path, old, &text)).transpose() {
                Ok(_) => Ok((publish(path, published), written)),
                Err(source) => Err(WriteError { path: Some(path), rows: written.rows, lost: 0, source }),
            },
            Err(e) => Err(WriteError { path: Some(path), ..e }),
        }
    }
}

impl Write for UnusedFileGuard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.unused = None;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl LogOutput for UnusedFileGuard {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.file.cut(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

impl Drop for UnusedFileGuard {
    fn drop(&mut self) {
        if let Some(path) = &self.unused {
            // This is our own empty file, created with O_EXCL. If removing it fails, it stays.
            let _ = fs::remove_file(path);
        }
    }
}

/// Replaces the first `old` bytes of the log at `path` by `text`. A new file is written and renamed, so that the log is
/// complete at every moment.
fn change_header(path: &Path, old: u64, text: &str) -> io::Result<()> {
    let name = suffixed(path, HEADER);
    let mut rows = File::open(path)?;
    io::Seek::seek(&mut rows, io::SeekFrom::Start(old))?;
    let permissions = rows.metadata()?.permissions();
    let mut file = OpenOptions::new().write(true).create_new(true).open(&name)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| io::copy(&mut rows, &mut file))
        .and_then(|_| file.set_permissions(permissions))
        .and_then(|()| file.sync_data())
        .and_then(|()| fs::rename(&name, path));
    written.inspect_err(|_| drop(fs::remove_file(&name)))
}

/// Renames the log at `path` to its final name, unless a file has that name. Returns the name of the log.
fn publish(path: PathBuf, published: Option<PathBuf>) -> PathBuf {
    let Some(published) = published else { return path };
    let renamed = match fs::hard_link(&path, &published) {
        Ok(()) => fs::remove_file(&path),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(e),
        // Not every file system has links.
        Err(_) => fs::rename(&path, &published),
    };
    if renamed.is_ok() { published } else { path }
}

/// Describes the folder of `path` for a message.
fn folder(path: &Path) -> String {
    match path == Path::new(".") || path.as_os_str().is_empty() {
        true => "the current folder".to_owned(),
        false => path.display().to_string(),
    }
}

fn suffixed(base: &Path, ending: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn exclusive(path: &Path, part: bool) -> Result<CreatedFile, CreateError> {
    let fail = |source| CreateError::Create { path: path.to_owned(), source };
    let created = |file, unused| {
        let output = UnusedFileGuard { file, unused };
        CreatedFile { path: path.to_owned(), published: None, output }
    };
    if path.as_os_str() == STDOUT {
        return Ok(created(platform::stdout().map_err(fail)?, None));
    }
    if part {
        let Err(e) = fs::symlink_metadata(path) else { return exclusive(path, false) };
        if e.kind() != io::ErrorKind::NotFound {
            return Err(fail(e));
        }
        let file = exclusive(&suffixed(path, PART), false)?;
        return Ok(CreatedFile { published: Some(path.to_owned()), ..file });
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => Ok(created(file, Some(path.to_owned()))),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let kind = fs::metadata(path).map(|m| m.file_type());
            if !kind.is_ok_and(platform::is_stream) {
                return Err(CreateError::Exists(path.to_owned()));
            }
            Ok(created(OpenOptions::new().write(true).open(path).map_err(fail)?, None))
        }
        Err(e) => Err(fail(e)),
    }
}

fn random(dir: &Path, suffix: &str, part: bool) -> Result<CreatedFile, CreateError> {
    let ending = if part { format!("{suffix}{PART}") } else { suffix.to_owned() };
    // The error names a random file, which does not exist.
    let fail = |e: io::Error| CreateError::Folder { path: dir.to_owned(), source: e.kind().into() };
    let mut builder = tempfile::Builder::new();
    builder.prefix("jitlat.").suffix(&ending).rand_bytes(6);
    if let Some(permissions) = platform::of_a_new_file() {
        builder.permissions(permissions);
    }
    let (file, path) = builder.tempfile_in(dir).map_err(fail)?.keep().map_err(|e| fail(e.error))?;
    // `File::open("")` fails, so use the bare name for a file in the working directory.
    let path = if dir == Path::new(".") {
        path.file_name().map_or_else(|| path.clone(), PathBuf::from)
    } else {
        path
    };
    let published = part.then(|| path.with_extension(""));
    let output = UnusedFileGuard { file, unused: Some(path.clone()) };
    Ok(CreatedFile { path, published, output })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::TestSpec;

    #[test]
    fn a_taken_name_is_refused_and_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        fs::write(&path, "precious").unwrap();
        let error = LogFile::create(&Naming::Given(path.clone()), LogVersion::V3).unwrap_err();
        assert!(matches!(error, CreateError::Exists(_)));
        let dangling = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("missing"), &dangling).unwrap();
        assert!(LogFile::create(&Naming::Given(dangling), LogVersion::V3).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn random_names_look_as_they_always_did() {
        let dir = tempfile::tempdir().unwrap();
        let log = LogFile::create(&Naming::Random(dir.path().into()), LogVersion::V3).unwrap();
        let name = log.path().file_name().unwrap().to_str().unwrap().to_owned();
        let tail = name.strip_prefix("jitlat.").unwrap();
        assert!(tail.len() == 6 && tail.bytes().all(|b| b.is_ascii_alphanumeric()), "{name}");
        drop(log);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "an unused log leaves nothing");
    }

    #[test]
    fn a_pair_shares_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut logs = LogFile::create_pair(&Naming::Random(dir.path().into()), LogVersion::V3).unwrap();
        let [up, down] = &mut logs[..] else { panic!("not two logs") };
        assert_eq!(up.path().with_extension(""), down.path().with_extension(""));
        up.begin(&jitlat_core::Session::new(TestSpec::default()));
        down.begin(&jitlat_core::Session::new(TestSpec::default()));
        drop(logs);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);

        let base = dir.path().join("x");
        fs::write(dir.path().join("x.down"), "").unwrap();
        assert!(LogFile::create_pair(&Naming::Given(base), LogVersion::V3).is_err());
        assert!(!dir.path().join("x.up").exists(), "half a pair is none");
    }

    #[test]
    fn a_full_disk_is_reported() {
        let mut log = LogFile::create(&Naming::Given("/dev/full".into()), LogVersion::V3).unwrap();
        let session = Session::new(TestSpec::default());
        log.begin(&session);
        log.finish(&session);
        let error = log.close().unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }
}
