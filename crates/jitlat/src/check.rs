//! `--check`: a test as a check of Nagios, Icinga and other systems that run their plug-ins. Exactly one line is printed
//! on standard output, also for wrong arguments and beyond the time limit.

use crate::exit::{ExitStatus, explain};
use jitlat_instruments::Error;
use jitlat_net::client::ClientError;
use jitlat_net::twoway::PingError;
use jitlat_net::twoway::twamp::TwampError;
use jitlat_output::AnalysedStream;
use jitlat_output::check::{Check, CheckState, CheckedStream};
use jitlat_output::terminal;
use std::ffi::{OsStr, OsString};
use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tracing::error;

/// Option that requests a check.
const OPTION: &str = "--check";
/// Short options of plug-ins, with the options of this program. They are replaced before the arguments are parsed, because
/// `-c` is the number of packets in `ping`.
const SHORT: [(&str, &str); 2] = [("-w", "--warning"), ("-c", "--critical")];

/// Message of a command that has no checks.
const NOT_A_CHECK: &str =
    "--check judges tests (jitlat HOST, jitlat ping) and saved logs (jitlat analyze), not this command";

/// True after a line has been printed, or is about to be.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Returns the arguments of this process. With `--check`, the short options of plug-ins are replaced by long ones.
pub fn arguments() -> Vec<OsString> {
    written_out(std::env::args_os().collect())
}

/// True if the arguments of this process contain `--check`.
pub fn is_requested() -> bool {
    has_check(&std::env::args_os().collect::<Vec<_>>())
}

/// Returns the number of arguments before `--`, after which there are no options.
fn options(arguments: &[OsString]) -> usize {
    arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len())
}

fn has_check(arguments: &[OsString]) -> bool {
    // `jitlat monitor FILE --check` checks a file.
    let is_monitor = arguments.get(1).is_some_and(|command| command == "monitor");
    !is_monitor && arguments[..options(arguments)].iter().any(|argument| argument == OPTION)
}

fn written_out(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if has_check(&arguments) {
        let end = options(&arguments);
        for argument in &mut arguments[..end] {
            if let Some(long) = long_option(argument) {
                *argument = long;
            }
        }
    }
    arguments
}

/// Returns the long form of a short option, with its value if it is attached; `None` for other arguments.
fn long_option(argument: &OsStr) -> Option<OsString> {
    let text = argument.to_str()?;
    SHORT.iter().find_map(|(short, long)| match text.strip_prefix(short)? {
        "" => Some((*long).into()),
        value if value.contains(['<', '>', ',']) => Some(format!("{long}={value}").into()),
        _ => None,
    })
}

/// Ends the process with UNKNOWN if it still runs after `limit`.
pub fn limit(limit: Duration) {
    let overdue = move || {
        thread::sleep(limit);
        let text = format!("the test did not end within {} s (--check-timeout)", limit.as_secs_f64());
        if !ENDED.swap(true, Ordering::SeqCst) {
            // Ignored: if printing fails, nobody reads the line.
            let _ = terminal::print(&CheckState::Unknown.line(&text));
            process::exit(CheckState::Unknown.code().into());
        }
    };
    if let Err(e) = thread::Builder::new().name("check limit".to_owned()).spawn(overdue) {
        error!("--check-timeout: starting a thread: {e}: the check has no time limit");
    }
}

/// Prints the line of a check whose arguments are wrong, and ends the process.
pub fn refused(e: &clap::Error) -> ! {
    let is_of_test = !e.to_string().contains(&format!("unexpected argument '{OPTION}'"));
    let text = if is_of_test { e.to_string() } else { not_a_check(&arguments()) };
    let message: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let message = message.join(" ");
    end(CheckState::Unknown, &CheckState::Unknown.line(message.strip_prefix("error: ").unwrap_or(&message)));
    process::exit(CheckState::Unknown.code().into())
}

/// Returns the message of the command in `arguments` that has no checks. It names `--fail-if` only if the command has it.
fn not_a_check(arguments: &[OsString]) -> String {
    let root = crate::root::command();
    let typed = arguments.iter().skip(1).filter_map(|argument| argument.to_str());
    let command = typed.filter_map(|word| root.find_subcommand(word)).next();
    let has_fail_if = command.is_some_and(|c| c.get_arguments().any(|a| a.get_id() == "fail_if"));
    let instead = if has_fail_if { ", which has --fail-if" } else { "" };
    format!("{NOT_A_CHECK}{instead}")
}

/// Prints the result of a check whose test failed with the error `e`.
pub fn failed(e: &anyhow::Error) -> ExitStatus {
    let state = state_of(e);
    end(state, &state.line(&explain(e)))
}

/// Judges the streams of a test. `whole` is false if an output or a log could not be written.
pub fn conclude(check: &Check, runs: &[AnalysedStream], whole: bool) -> ExitStatus {
    let streams: Vec<CheckedStream<'_>> = runs.iter().map(|run| checked(&run.label, run)).collect();
    judge(check, &streams, whole)
}

/// Returns the stream of `run` for a check. `label` is its name if the check has several streams.
pub fn checked<'a>(label: &'a str, run: &'a AnalysedStream) -> CheckedStream<'a> {
    CheckedStream { label, found: Ok(&run.summary), cut_off: run.is_cut_off() }
}

/// Judges `streams`, and prints the line. `whole` is false if an output or a log could not be written.
pub fn judge(check: &Check, streams: &[CheckedStream<'_>], whole: bool) -> ExitStatus {
    let trouble = (!whole).then_some("an output or a log could not be written (see standard error)");
    let (state, line) = check.judge(streams, trouble);
    end(state, &line)
}

/// Returns `status` if it is that of a check; otherwise prints a line, unless one was printed, and returns UNKNOWN.
pub fn ended(status: ExitStatus) -> ExitStatus {
    match status {
        ExitStatus::Check(_) => status,
        _ => end(CheckState::Unknown, &CheckState::Unknown.line("the test ended without a result")),
    }
}

fn end(state: CheckState, line: &str) -> ExitStatus {
    if !ENDED.swap(true, Ordering::SeqCst)
        && let Err(e) = terminal::print(line)
    {
        error!("{}", jitlat_output::explain(&e));
        return ExitStatus::Check(CheckState::Unknown);
    }
    ExitStatus::Check(state)
}

/// Returns the state for a failed test: CRITICAL if the far host or the path is the reason, also if there is no route to
/// the host; UNKNOWN for everything else, also for a name without an address. check_ping of monitoring-plugins does the
/// same.
pub fn state_of(e: &anyhow::Error) -> CheckState {
    let is_far = e.chain().find_map(|cause| cause.downcast_ref::<Error>()).is_some_and(is_far);
    if is_far { CheckState::Critical } else { CheckState::Unknown }
}

fn is_far(error: &Error) -> bool {
    match error {
        Error::OneWay(ClientError::Connect { source, .. }) => !is_local(source),
        Error::OneWay(ClientError::Failed { .. }) | Error::Conversation(_) => true,
        Error::Ping(
            PingError::Conversation { .. }
            | PingError::Refused(_)
            | PingError::Prohibited(_)
            | PingError::Unreachable { .. },
        ) => true,
        Error::Ping(PingError::Send { source, .. }) => {
            matches!(source.kind(), io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable)
        }
        Error::TwampControl(TwampError::Connect { source, .. }) => !is_local(source),
        Error::TwampControl(TwampError::Failed { .. }) => true,
        Error::While { source, .. } => is_far(source),
        _ => false,
    }
}

/// True if the connection failed on this host, for example because `--bind` is not one of its addresses.
fn is_local(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_options_of_plug_ins_are_written_out_with_check_only() {
        for (given, expected) in [
            ("ping h -c 3 -w 5", "ping h -c 3 -w 5"),
            ("ping h --check -c loss>5% -w loss>1%", "ping h --check --critical loss>5% --warning loss>1%"),
            (
                "ping h -wloss>1% -c100,5% --check -n 3",
                "ping h --warning=loss>1% --critical=100,5% --check -n 3",
            ),
            ("jitlat monitor f --check -w 3", "jitlat monitor f --check -w 3"),
            ("ping h -- --check -c 3", "ping h -- --check -c 3"),
            ("ping h --check -- -c", "ping h --check -- -c"),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(written_out(words(given)), words(expected), "{given}");
        }
    }

    #[test]
    fn fail_if_is_named_only_where_it_exists() {
        let said = |line: &str| not_a_check(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(!said("jitlat tcp x.pcap --check").contains("--fail-if"));
        assert!(said("jitlat rtp x.pcap --check").ends_with("not this command, which has --fail-if"));
    }

    #[test]
    fn only_failures_of_the_far_host_are_critical() {
        let connect = |kind: io::ErrorKind| {
            let address = "192.0.2.7:2666".parse().unwrap();
            let source = kind.into();
            let client =
                ClientError::Connect { host: "h".to_owned(), address, server: "jitlat serve", source };
            anyhow::Error::from(Error::from(client))
        };
        assert_eq!(state_of(&connect(io::ErrorKind::ConnectionRefused)), CheckState::Critical);
        assert_eq!(state_of(&connect(io::ErrorKind::TimedOut)), CheckState::Critical);
        assert_eq!(state_of(&connect(io::ErrorKind::NetworkUnreachable)), CheckState::Critical);
        assert_eq!(state_of(&connect(io::ErrorKind::AddrNotAvailable)), CheckState::Unknown);
        let lost = PingError::Unreachable {
            to: "192.0.2.7:0".parse().unwrap(),
            source: io::ErrorKind::NetworkUnreachable.into(),
        };
        assert!(!lost.to_string().contains(":0") && lost.to_string().contains("echo requests"), "{lost}");
        assert_eq!(state_of(&Error::from(lost).into()), CheckState::Critical);
        let refused = Error::from(PingError::Refused("192.0.2.7:862".parse().unwrap()));
        let refused = anyhow::Error::from(refused.while_doing("testing".to_owned())).context("h");
        assert_eq!(state_of(&refused), CheckState::Critical);
        assert_eq!(state_of(&anyhow::anyhow!("no such file")), CheckState::Unknown);
    }
}
