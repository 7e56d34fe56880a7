//! [`Commands`]: runs the commands of notifications. A confined monitor cannot run programs: a process that was started before the
//! confinement runs them, and gets each message through a socket. It runs only commands of the monitor's file.

use super::channel::{for_alertmanager, line, with_link};
use crate::Model;
use crate::alert::rule::NotifyMethod;
use crate::runtime::Equipment;
use crate::runtime::error::Result as MonitorResult;
use crate::runtime::run::{load, version};
use jitlat_archive::AlertMessage;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::error;

/// Timeout for a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for an answer of the process that runs commands; it runs one at a time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of a message or an answer, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Process in which the commands of notifications run.
#[derive(Debug)]
pub enum Commands {
    /// In this process.
    Here,
    /// In a process that is not confined.
    Apart(Mutex<CommandProcess>),
}

/// Process that runs commands. It ends when this value is dropped.
#[derive(Debug)]
pub struct CommandProcess {
    stream: BufReader<UnixStream>,
    process: Child,
}

/// A message for a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CommandMessage {
    /// Name of the channel, whose command the file has.
    channel: String,
    environment: Vec<(String, String)>,
    input: String,
}

/// Answer: the reason why the command failed, or null.
type CommandAnswer = Option<String>;

impl Commands {
    /// Starts `command`, a program that calls [`serve_commands`] with its standard input, before this process is confined.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn apart(mut command: Command) -> io::Result<Commands> {
        let (own, theirs) = UnixStream::pair()?;
        own.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        own.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let process = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).spawn()?;
        let apart = CommandProcess { stream: BufReader::new(own), process };
        Ok(Commands::Apart(Mutex::new(apart)))
    }

    /// Runs `command` of `channel` with a message; `link` is the address of its page.
    ///
    /// # Errors
    /// Reason why the command did not accept the message.
    pub(super) fn run(
        &self,
        channel: &str,
        command: &[String],
        message: &AlertMessage,
        link: Option<String>,
    ) -> Result<(), String> {
        let message = CommandMessage::of(channel, message, link);
        match self {
            Commands::Here => run(command, &message),
            Commands::Apart(apart) => {
                let mut apart = apart.lock().unwrap_or_else(PoisonError::into_inner);
                let answer = apart.ask(&message);
                answer
                    .map_err(|e| format!("the process that runs commands failed: {e}; restart the monitor"))?
                    .map_or(Ok(()), Err)
            }
        }
    }
}

impl CommandProcess {
    fn ask(&mut self, message: &CommandMessage) -> io::Result<CommandAnswer> {
        let answer = write_line(self.stream.get_mut(), message).and_then(|()| read_line(&mut self.stream));
        // After a timeout the next answer would be that of this message.
        if !matches!(answer, Ok(Some(_))) {
            let _ = self.stream.get_ref().shutdown(Shutdown::Both);
            // If the process has ended, this avoids a zombie process.
            let _ = self.process.try_wait();
        }
        answer?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn write_line(to: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string(value).map_err(io::Error::other)? + "\n";
    to.write_all(text.as_bytes())
}

/// Reads a value on a line of its own; `None` at the end.
fn read_line<T: for<'a> Deserialize<'a>>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut text = Vec::new();
    from.take(MAX_BYTES).read_until(b'\n', &mut text)?;
    if text.last() != Some(&b'\n') {
        return Ok(None);
    }
    serde_json::from_slice(&text).map(Some).map_err(io::Error::other)
}

/// Runs commands of the file at `path` with the messages that arrive on `stream`, until it ends. The command of a
/// channel is that of the file's last version without faults. `archive` is the archive of the monitor, if it is not
/// that of the file. No command is run if the file at `path`, or a file that one of its commands names, is in the
/// folder of the archive, because a confined monitor could change it.
///
/// # Errors
/// The stream fails, or the file cannot be read at first.
pub fn serve_commands(
    path: &Path,
    archive: Option<&Path>,
    equipment: &dyn Equipment,
    stream: UnixStream,
) -> MonitorResult<()> {
    let (mut seen, mut model) = (version(path), load(path, equipment)?);
    let of_file = model.as_ref().and_then(|model| model.archive.folder.as_ref());
    let of_file = of_file.map(|name| path.parent().unwrap_or(Path::new("")).join(name));
    // The archive at the start: a confined monitor can write to no other one.
    let archive = archive.map(Path::to_owned).or(of_file);
    let writable = |model: &Option<Model>| {
        let (model, archive) = model.as_ref().zip(archive.as_deref())?;
        writable_part(path, model, archive).map(|part| may_be_written(&part, archive))
    };
    let mut stream = BufReader::new(stream);
    while let Some(message) = read_line::<CommandMessage>(&mut stream)? {
        let current = version(path);
        if current != seen {
            seen = current;
            let new = load(path, equipment).ok().flatten();
            match writable(&new) {
                Some(why) => error!("{why}"),
                None => model = new.or(model),
            }
        }
        let channels = model.iter().flat_map(|model| &model.alerts.channels);
        let command = channels.filter(|channel| channel.name == message.channel).find_map(|channel| {
            match &channel.method {
                NotifyMethod::Command(command) => Some(command),
                _ => None,
            }
        });
        // Symbolic links, too, may have changed since the file was read.
        let done = match (command, writable(&model)) {
            (Some(_), Some(why)) => Err(why),
            (Some(command), None) => run(command, &message),
            (None, _) => Err(format!("{} has no command for '{}'", path.display(), message.channel)),
        };
        let answer: CommandAnswer = done.err();
        write_line(stream.get_mut(), &answer)?;
    }
    Ok(())
}

/// Returns the file at `path`, or a file that one of its commands names, if it is in the folder of the archive, to
/// which a confined monitor writes; `None` if none of them is.
pub fn writable_part(path: &Path, model: &Model, archive: &Path) -> Option<PathBuf> {
    let archive = archive.canonicalize().ok()?;
    let commands = model.alerts.channels.iter().filter_map(|channel| match &channel.method {
        NotifyMethod::Command(command) => Some(command),
        _ => None,
    });
    let mut words = commands.flatten().peekable();
    words.peek()?;
    let named = words.flat_map(|word| {
        let search = std::env::var_os("PATH").filter(|_| !word.contains('/')).unwrap_or_default();
        let found: Vec<PathBuf> = std::env::split_paths(&search).map(|folder| folder.join(word)).collect();
        std::iter::once(PathBuf::from(word)).chain(found)
    });
    std::iter::once(path.to_owned())
        .chain(named)
        .find(|named| named.is_file() && passes_through(named, &archive))
}

/// True if the file at `path`, or a symbolic link through which `path` leads to it, is in `folder`.
fn passes_through(path: &Path, folder: &Path) -> bool {
    let Ok(path) = std::path::absolute(path) else { return true };
    path.ancestors().any(|part| {
        let named = part.parent().and_then(|above| Some(above.canonicalize().ok()?.join(part.file_name()?)));
        let target = part.canonicalize().ok();
        [named, target].into_iter().flatten().any(|place| place.starts_with(folder))
    })
}

/// Returns the reason why no commands are run if `part` is in the folder of the archive.
pub fn may_be_written(part: &Path, archive: &Path) -> String {
    format!(
        "{} is in the archive {}, to which the confined monitor writes: an intruder in the monitor could choose the commands of [[notify]], \
         which run without confinement; put the archive in a folder of its own ([archive] folder)",
        part.display(),
        archive.display()
    )
}

impl CommandMessage {
    fn of(channel: &str, message: &AlertMessage, link: Option<String>) -> CommandMessage {
        let alert = &message.alert;
        let state = if alert.resolved_ns.is_some() { "resolved" } else { "firing" };
        let number = message.id.to_string();
        let environment = [
            ("JITLAT_ALERT", alert.alert.as_str()),
            ("JITLAT_STATE", state),
            ("JITLAT_SEVERITY", &alert.severity),
            ("JITLAT_TEST", &alert.test),
            ("JITLAT_SRC", &alert.src),
            ("JITLAT_DST", &alert.dst),
            ("JITLAT_SCOPE", &alert.scope),
            ("JITLAT_LINK", link.as_deref().unwrap_or("")),
            ("JITLAT_MESSAGE", &number),
        ];
        let environment = environment.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let first = with_link(line(alert), link.clone());
        let input = format!("{first}\n{}\n", for_alertmanager(alert, link));
        CommandMessage { channel: channel.to_owned(), environment, input }
    }
}

/// Runs a command and writes a message to its standard input.
fn run(command: &[String], message: &CommandMessage) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Err("no command".to_owned()) };
    let failed = |e: io::Error| format!("{program}: {e}");
    // Only variables with this prefix: a confined monitor that is under foreign control cannot set others.
    let environment = message.environment.iter().filter(|(key, _)| key.starts_with("JITLAT_"));
    let mut child = Command::new(program)
        .args(arguments)
        .envs(environment.map(|(key, value)| (key, value.replace('\0', " "))))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    if let Some(mut to) = child.stdin.take() {
        // This does not block, because the text is shorter than a pipe's buffer. Errors are ignored, because a
        // program need not read its input.
        let most = message.input.floor_char_boundary(MAX_INPUT);
        let _ = to.write_all(&message.input.as_bytes()[..most]);
    }
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return if status.success() { Ok(()) } else { Err(format!("{program}: {status}")) };
        }
        if begun.elapsed() > COMMAND_TIMEOUT {
            // Both calls fail only if the command has just ended. Waiting for it avoids a zombie process.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "{program} did not end within {} s, and was killed",
                COMMAND_TIMEOUT.as_secs()
            ));
        }
        // The standard library cannot wait for a process with a timeout.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Maximum length of a command's input, in bytes: that of a pipe's buffer.
const MAX_INPUT: usize = 60_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_way_through_the_archive_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let archive = root.join("archive");
        for name in ["archive", "conf"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        for name in ["archive/mesh.toml", "conf/mesh.toml"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        symlink("../conf/mesh.toml", archive.join("link")).unwrap();
        symlink("../archive/mesh.toml", root.join("conf/link")).unwrap();
        symlink("../conf", archive.join("folder")).unwrap();
        for (name, is_in) in [
            ("archive/mesh.toml", true),
            ("conf/../archive/mesh.toml", true),
            ("archive/link", true),
            ("conf/link", true),
            ("archive/folder/mesh.toml", true),
            ("conf/mesh.toml", false),
        ] {
            assert_eq!(passes_through(&root.join(name), &archive), is_in, "{name}");
        }
    }
}
