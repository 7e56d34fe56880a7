//! [`Modem`]: signal of a modem (LTE, 5G and older), as ModemManager's command `mmcli` reports it.
//!
//! A reading starts a call of the command, and a later reading takes its answer, so that no reading waits. A modem
//! measures its signal only after `mmcli --signal-setup`, which this module does not call.

use super::SampleSource;
use crate::clock::steady;
use crate::confine;
use jitlat_core::interface::InterfaceSample;
use jitlat_core::{Span, SteadyTime};
use serde_json::Value;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Name of ModemManager's command.
const PROGRAM: &str = "mmcli";
/// Minimum time between the starts of two calls.
const INTERVAL: Span = Span::millis(900);
/// Maximum duration of a call.
const CALL_LIMIT: Span = Span::seconds(3);
/// Maximum length of an answer, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// Age from which a value counts as unknown.
const MAX_AGE: Span = Span::seconds(3);
/// Number of consecutive failed calls after which no more calls are made.
const MAX_FAILURES: u32 = 3;
/// Keys of the technologies in an answer, each with the keys of its levels in order of preference: the power of the
/// cell's reference signal, then the total received power.
const LEVELS: [(&str, &[&str]); 6] = [
    ("5g", &["rsrp"]),
    ("lte", &["rsrp", "rssi"]),
    ("umts", &["rscp", "rssi"]),
    ("gsm", &["rssi"]),
    ("evdo", &["rssi"]),
    ("cdma1x", &["rssi"]),
];

/// Source of the signal level of the modem behind an interface.
pub(crate) struct Modem {
    program: PathBuf,
    interface: String,
    /// Number of the modem; `None` until it is known.
    modem: Option<String>,
    call: Option<Call>,
    next_call: SteadyTime,
    signal: Option<(SteadyTime, i16)>,
    was_known: bool,
    failures: u32,
}

/// A running call. Dropping it ends the program.
struct Call {
    child: Child,
    output: UnixStream,
    answer: Vec<u8>,
    ends_by: SteadyTime,
}

/// State of a call.
enum Progress {
    Running,
    Answered(Vec<u8>),
    Failed,
}

impl Modem {
    /// Returns the source for the interface `name`; `None` unless the interface is that of a modem and ModemManager's
    /// command is installed. Starts no call.
    pub fn of(name: &str) -> Option<Modem> {
        let path = std::env::var_os("PATH")?;
        is_of_modem(name).then(|| Modem::found(name, std::env::split_paths(&path)))?
    }

    /// Like [`of`](Self::of), for an interface of any kind, and with the command in one of `folders`.
    fn found(name: &str, folders: impl Iterator<Item = PathBuf>) -> Option<Modem> {
        let program = folders.map(|folder| folder.join(PROGRAM)).find(|program| program.is_file())?;
        Some(Modem {
            program,
            interface: name.to_owned(),
            modem: None,
            call: None,
            next_call: steady(),
            signal: None,
            was_known: false,
            failures: 0,
        })
    }

    /// Takes the answer of the last call, and starts the next one.
    fn advance(&mut self, now: SteadyTime) {
        if let Some(call) = &mut self.call {
            match call.progress(now) {
                Progress::Running => return,
                Progress::Answered(answer) => self.take(&answer, now),
                Progress::Failed => self.failures += 1,
            }
            self.call = None;
        }
        if now < self.next_call || self.failures >= MAX_FAILURES {
            return;
        }
        self.next_call = now + INTERVAL;
        let arguments: &[&str] = match &self.modem {
            None => &["-m", "any", "-J"],
            Some(modem) => &["-m", modem, "--signal-get", "-J"],
        };
        match Call::start(&self.program, arguments, now) {
            Ok(call) => self.call = Some(call),
            Err(_) => self.failures += 1,
        }
    }

    fn take(&mut self, answer: &[u8], now: SteadyTime) {
        let known = match &self.modem {
            None => {
                self.modem = number(answer, &self.interface);
                // Ask for the signal at once.
                self.next_call = now;
                self.modem.is_some()
            }
            Some(_) => match signal(answer) {
                None => false,
                Some(found) => {
                    self.signal = found.map(|dbm| (now, dbm));
                    self.was_known |= found.is_some();
                    true
                }
            },
        };
        self.failures = if known { 0 } else { self.failures + 1 };
    }
}

impl SampleSource for Modem {
    fn read(&mut self, into: &mut InterfaceSample) {
        let now = steady();
        self.advance(now);
        if let Some((_, dbm)) = self.signal.filter(|(at, _)| now - *at <= MAX_AGE) {
            into.signal_dbm = Some(dbm);
        }
    }

    fn note(&self) -> Option<String> {
        let modem = self.modem.as_deref().filter(|_| !self.was_known && self.failures == 0)?;
        Some(format!(
            "the modem of {} does not measure its signal; `sudo mmcli -m {modem} --signal-setup=1` turns that on",
            self.interface
        ))
    }
}

impl Call {
    fn start(program: &Path, arguments: &[&str], now: SteadyTime) -> io::Result<Call> {
        // A confined process that runs a program is ended by the kernel.
        if confine::is_confined() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (output, theirs) = UnixStream::pair()?;
        output.set_nonblocking(true)?;
        let child = Command::new(program)
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Call { child, output, answer: Vec::new(), ends_by: now + CALL_LIMIT })
    }

    fn progress(&mut self, now: SteadyTime) -> Progress {
        let ended = self.child.try_wait();
        // Read after asking: an ended program writes nothing more.
        let mut rest = (&self.output).take((MAX_ANSWER + 1 - self.answer.len()) as u64);
        // An error is the end of what there is now.
        let _ = rest.read_to_end(&mut self.answer);
        match ended {
            _ if self.answer.len() > MAX_ANSWER => Progress::Failed,
            Ok(Some(status)) if status.success() => Progress::Answered(std::mem::take(&mut self.answer)),
            Ok(None) if now < self.ends_by => Progress::Running,
            _ => Progress::Failed,
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // It has ended if this fails.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Returns true if the kernel marks the interface `name` as that of a modem.
fn is_of_modem(name: &str) -> bool {
    let safe = !name.is_empty() && !name.contains(['/', '.']);
    let facts = safe.then(|| std::fs::read_to_string(format!("/sys/class/net/{name}/uevent")));
    facts.is_some_and(|facts| facts.is_ok_and(|facts| facts.lines().any(|line| line == "DEVTYPE=wwan")))
}

/// Returns the number of the modem that `answer` describes; `None` unless `interface` is one of its ports.
fn number(answer: &[u8], interface: &str) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let modem = answer.get("modem")?;
    let ports = modem.get("generic")?.get("ports")?.as_array()?;
    let port = format!("{interface} (net)");
    ports.iter().any(|of| of.as_str() == Some(&port)).then_some(())?;
    // It is an argument of a command.
    let path = modem.get("dbus-path")?.as_str()?.rsplit('/').next()?;
    (!path.is_empty() && path.bytes().all(|b| b.is_ascii_digit())).then(|| path.to_owned())
}

/// Returns the signal level in an answer, in dBm: `None` if the answer is not about a signal, `Some(None)` if the modem
/// reports no level.
fn signal(answer: &[u8]) -> Option<Option<i16>> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let signal = answer.get("modem")?.get("signal")?;
    let level = |technology: &str, key: &str| {
        let dbm: f64 = signal.get(technology)?.get(key)?.as_str()?.parse().ok()?;
        (-200.0..=50.0).contains(&dbm).then(|| dbm.round() as i16)
    };
    let levels = LEVELS.iter().flat_map(|(technology, keys)| keys.iter().map(|key| (*technology, *key)));
    Some(levels.into_iter().find_map(|(technology, key)| level(technology, key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::WallTime;
    use jitlat_waiting::until;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    const MODEM: &str = r#"{"modem":{"dbus-path":"/org/freedesktop/ModemManager1/Modem/7","generic":{
        "ports":["cdc-wdm0 (mbim)","wwan0 (net)"],"signal-quality":{"recent":"yes","value":"60"}}}}"#;
    const LTE: &str = r#"{"modem":{"signal":{"5g":{"rsrp":"--","rsrq":"--","snr":"--"},"cdma1x":{"rssi":"--"},
        "gsm":{"rssi":"--"},"lte":{"rsrp":"-95.40","rsrq":"-10.00","rssi":"-65.00"},"refresh":{"rate":"5"}}}}"#;
    const SILENT: &str =
        r#"{"modem":{"signal":{"5g":{"rsrp":"--"},"lte":{"rsrp":"--","rssi":"--"},"gsm":{"rssi":"--"}}}}"#;

    /// Installs `script` as the command in a new folder. Returns the folder, and the source for wwan0 that runs the
    /// script.
    fn installed(script: &str) -> (tempfile::TempDir, Modem) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(PROGRAM);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let modem = Modem::found("wwan0", [folder.path().to_owned()].into_iter()).unwrap();
        (folder, modem)
    }

    fn script(signal: &str) -> String {
        format!(
            "case \"$*\" in\n'-m any -J') echo '{MODEM}';;\n'-m 7 --signal-get -J') echo '{signal}';;\n*) exit 1;;\nesac"
        )
    }

    fn sampled(modem: &mut Modem) -> InterfaceSample {
        let mut sample = InterfaceSample::at(WallTime(0));
        modem.next_call = steady();
        modem.read(&mut sample);
        sample
    }

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn the_signal_of_the_modem_is_read_without_waiting() {
        let (_folder, mut modem) = installed(&script(LTE));
        assert_eq!(sampled(&mut modem).signal_dbm, None, "the first call has just begun");
        until("a signal", LIMIT, || {
            // The program cannot start while another test's new process still has it open.
            modem.failures = 0;
            sampled(&mut modem).signal_dbm == Some(-95)
        });
        assert_eq!(modem.note(), None);
    }

    #[test]
    fn a_modem_that_measures_nothing_has_a_note() {
        let (_folder, mut modem) = installed(&script(SILENT));
        until("the modem", LIMIT, || {
            modem.failures = 0;
            assert_eq!(sampled(&mut modem).signal_dbm, None);
            modem.note().is_some()
        });
        assert!(modem.note().unwrap().contains("mmcli -m 7 --signal-setup=1"));
    }

    #[test]
    fn a_program_that_fails_floods_or_belongs_to_another_interface_is_left_alone() {
        for script in ["exit 1", "exec yes", "echo '{\"modem\":{}}'", &script(LTE).replace("wwan0", "wwan1")]
        {
            let (_folder, mut modem) = installed(script);
            until("the end of the calls", LIMIT, || {
                assert_eq!(sampled(&mut modem).signal_dbm, None);
                modem.failures >= MAX_FAILURES
            });
            assert!(modem.call.is_none() && modem.note().is_none());
        }
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let (_folder, mut modem) = installed("exec sleep 1000");
        let now = steady();
        modem.advance(now);
        let child = modem.call.as_ref().unwrap().child.id();
        modem.advance(now + Span::seconds(1));
        assert_eq!(modem.call.as_ref().unwrap().child.id(), child, "still running");
        modem.next_call = now + Span::seconds(100);
        modem.advance(now + CALL_LIMIT);
        assert!(modem.call.is_none() && modem.failures == 1);
    }

    #[test]
    fn absent_where_there_is_no_modem_or_no_program() {
        let empty = tempfile::tempdir().unwrap();
        assert!(Modem::found("wwan0", [empty.path().to_owned()].into_iter()).is_none());
        assert!(Modem::of("lo").is_none() && !is_of_modem("../lo"));
    }

    proptest! {
        #[test]
        fn any_answer_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let _ = (number(&bytes, "wwan0"), signal(&bytes));
            let cut_off = &LTE.as_bytes()[..cut.min(LTE.len() - 1)];
            prop_assert_eq!(signal(cut_off), None);
        }
    }
}
