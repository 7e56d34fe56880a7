//! Root of the command line: all commands. The crate root is its only user.

use crate::log::{LogFormat, LogLevel};
use crate::options::check::CheckArgs;
use crate::options::live::LiveArgs;
use crate::options::overwritten;
use crate::options::ping::PingArgs;
use crate::options::report::{QuietArgs, ReportArgs};
use crate::options::shape::{shape_ping, shape_stream};
use crate::{
    archive, check, compare, demo, doctor, export, find, help, manual, modes, monitor, path, programs, rpm,
    rtp, serve, spp, sweep, tcp, test, watch, web,
};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use jitlat_instruments::ping::PROTOCOLS;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// Measures what a network path does to real-time traffic: delay, jitter and loss per direction
///
/// It shows how losses cluster, and reports the clock error and the noise of the measuring hosts with every
/// figure.
#[derive(Debug, Parser)]
#[command(
    name = "jitlat",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    after_help = "On one host: jitlat serve. On the other: jitlat HOST (jitlat test -h). Alone: jitlat demo.",
    after_long_help = "On one host: jitlat serve. On the other: jitlat HOST (jitlat test -h). Alone: jitlat demo.\n\
                       Exit status: 0 measured, even if ended early; 1 a --fail-if is violated; 2 failed, or not written."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub test: test::TestArgs,
    /// Level of the log on standard error: off, error, warn, info, debug, trace
    ///
    /// Default: info. With this option each line has a date.
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Logging")]
    pub log_level: Option<LogLevel>,
    /// Format of the log: text, or json
    ///
    /// json writes one object per line with time, level, message, peer, service and decision.
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        help_heading = "Logging",
        default_value = "text",
        hide_default_value = true
    )]
    pub log_format: LogFormat,
}

/// Returns the definition of the command line as help shows it.
pub fn command() -> clap::Command {
    help::arranged(Cli::command())
}

impl Cli {
    /// Returns the options of `--check`; `None` if the command has none.
    pub fn check(&self) -> Option<&CheckArgs> {
        match &self.command {
            None => Some(&self.test.check),
            Some(Command::Test(args)) => Some(&args.check),
            Some(Command::Ping(args)) => Some(&args.check),
            Some(Command::Analyze(args)) => Some(&args.check),
            Some(_) => None,
        }
    }
}

/// Parses the command line of this process; ends it with a message if a command or option is unknown.
pub fn parse() -> Cli {
    if let Some(word) = std::env::args_os().nth(1).and_then(|word| word.into_string().ok())
        && let Some(meant) = meant_command(&word)
    {
        let message = format!(
            "unknown command '{word}': did you mean `jitlat {meant}`? To test a host of this name: `jitlat test {word}`\n"
        );
        end(&command().error(ErrorKind::InvalidSubcommand, message));
    }
    let matches = command().try_get_matches_from(check::arguments()).unwrap_or_else(|e| refuse(e));
    of_matches(&matches).unwrap_or_else(|e| end(&e))
}

/// Prints an error of the command line, or help; ends the process.
fn end(e: &clap::Error) -> ! {
    if e.use_stderr() && check::is_requested() {
        check::refused(e);
    }
    e.exit()
}

/// Parses `words`, a command line that this program made itself.
///
/// # Errors
/// The message of a wrong option or value, in one line.
pub fn read(words: Vec<OsString>) -> anyhow::Result<Cli> {
    let cli = command().try_get_matches_from(words).and_then(|matches| of_matches(&matches));
    cli.map_err(|e| {
        let text = e.to_string();
        let first: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        anyhow::Error::msg(first.join(" ").trim_start_matches("error: ").to_owned())
    })
}

fn of_matches(matches: &ArgMatches) -> Result<Cli, clap::Error> {
    let mut cli = Cli::from_arg_matches(matches)?;
    let wrong = |e: anyhow::Error| command().error(ErrorKind::InvalidValue, crate::exit::explain(&e));
    check_modes(&command(), matches).map_err(wrong)?;
    overwritten::check(matches).map_err(wrong)?;
    shape(&mut cli, matches).map_err(wrong)?;
    Ok(cli)
}

/// Prints an error of the command line, with a hint if an option of another tool was typed; ends the process.
fn refuse(mut e: clap::Error) -> ! {
    if let (ErrorKind::InvalidUtf8, Some(message)) =
        (e.kind(), not_text(&std::env::args_os().collect::<Vec<_>>()))
    {
        end(&command().error(ErrorKind::InvalidUtf8, message));
    }
    let typed: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let hint = hint(&e, &typed);
    if let Some(ContextValue::String(extra)) = e.get(ContextKind::InvalidSubcommand)
        && e.kind() == ErrorKind::ArgumentConflict
    {
        let message =
            format!("unexpected argument '{extra}': there is one HOST, and a command comes first\n");
        e = command().error(ErrorKind::UnknownArgument, message);
    }
    if is_short(&e) {
        // Without it the message would advise that the option be passed as a host.
        e.remove(ContextKind::Suggested);
    }
    if let Some(hint) = hint.filter(|_| !check::is_requested()) {
        let _ = e.print();
        // Ignored: a closed standard error is not an error.
        let _ = writeln!(std::io::stderr(), "\nhint: {hint}");
        std::process::exit(e.exit_code());
    }
    end(&e)
}

/// True if `e` refuses an option of one letter.
fn is_short(e: &clap::Error) -> bool {
    matches!(e.get(ContextKind::InvalidArg), Some(ContextValue::String(refused))
        if refused.starts_with('-') && !refused.starts_with("--"))
}

/// Options of ping, iperf3 and irtt in a one-way test, with the equivalent in this program.
const FOREIGN: &[(&str, &str)] = &[
    ("-d", "--duration 10s is the length of a test"),
    ("-i", "-p 20ms is the time between two packets; --interval 1s divides the report"),
    ("-c", "the host is an argument without an option: jitlat HOST"),
    ("-u", "UDP is the default; -t tests over TCP"),
    ("-s", "jitlat serve starts a server; -l 160 is the length of a packet"),
    ("-P", "a test has one stream; --load tcp,streams=4 measures it under the load of four TCP connections"),
    ("--port", "--control-port is the port of the server"),
];
/// Options of ping and fping in a two-way test, with the equivalent in this program.
const FOREIGN_OF_PING: &[(&str, &str)] = &[
    ("-i", "-p 20ms is the time between two requests"),
    ("-f", "-p 1ms sends a request each millisecond; no request is sent only because an answer arrived"),
    ("-I", "--interface eth0 is the interface, --bind ADDR the source address"),
    ("-t", "--duration 10s is the length of a test"),
];
/// Switches of a one-way test that have a value in iperf3, with the equivalent in this program.
const SWITCHES: &[(&str, &str)] = &[
    ("-t", "-t tests over TCP; --duration 10s is the length of a test"),
    ("-b", "-b measures both directions; -r 10M is the rate"),
];
/// Programs that print the hops of a path.
const TRACERS: [&str; 4] = ["traceroute", "traceroute6", "tracepath", "mtr"];

/// Returns a hint for an argument that `e` refuses; `None` if no hint applies.
fn hint(e: &clap::Error, typed: &[String]) -> Option<String> {
    if !matches!(
        e.kind(),
        ErrorKind::UnknownArgument | ErrorKind::ValueValidation | ErrorKind::ArgumentConflict
    ) {
        return None;
    }
    let first = typed.first()?;
    if typed.iter().any(|word| word == "-w") {
        return Some("-w and -c are conditions of a check by a monitoring system: add --check".to_owned());
    }
    if first == "client" {
        return Some(format!("a test needs no command: jitlat {}", typed.get(1).map_or("HOST", |host| host)));
    }
    if programs::is_known(first) {
        return Some(format!("jitlat as {first} takes the options of {first}"));
    }
    if TRACERS.contains(&first.as_str()) {
        return Some("jitlat path HOST shows the hops of a path".to_owned());
    }
    if let Some(ContextValue::String(value)) = e.get(ContextKind::InvalidSubcommand) {
        let before = typed.iter().position(|word| word == value)?.checked_sub(1)?;
        let (_, hint) = SWITCHES.iter().find(|(option, _)| typed[before] == *option)?;
        return Some((*hint).to_owned());
    }
    let refused = match e.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(refused)) => refused,
        _ => return None,
    };
    if first == "spp" && !refused.starts_with('-') {
        return Some(
            "-f names the captures of one point, -F those of the other: jitlat spp -f A.pcap -F B.pcap"
                .to_owned(),
        );
    }
    let command = command();
    let is_command = |word: &String| command.get_subcommands().any(|c| c.get_name() == word);
    let foreign = match first.as_str() {
        "ping" => FOREIGN_OF_PING,
        other if is_command(first) && other != "test" => return None,
        _ => FOREIGN,
    };
    let (_, hint) = foreign.iter().find(|(option, _)| {
        let is_value_of_d = *option == "-d" && e.kind() == ErrorKind::ValueValidation;
        refused == option || is_value_of_d && typed.iter().any(|word| word == option)
    })?;
    Some((*hint).to_owned())
}

/// Returns a message about the first of `arguments` that is not UTF-8 although it must be; `None` if there is none.
/// Only file names may be other than UTF-8. The first argument, the program's name, is skipped.
fn not_text(arguments: &[OsString]) -> Option<String> {
    let as_text = |argument: &OsString| OsString::from(argument.to_string_lossy().into_owned());
    let is_refused = |k: usize| {
        let only = arguments.iter().enumerate().map(|(n, a)| if n == k { a.clone() } else { as_text(a) });
        command().try_get_matches_from(only).is_err_and(|e| e.kind() == ErrorKind::InvalidUtf8)
    };
    let mut others = arguments.iter().enumerate().skip(1).filter(|(_, a)| a.to_str().is_none());
    let first = others.clone().next();
    let (k, argument) = others.find(|(k, _)| is_refused(*k)).or(first)?;
    Some(format!("argument {k}, {argument:?}, is not UTF-8, and no file name is expected there\n"))
}

/// Refuses options that the chosen mode of the command does not read.
pub fn check_modes(root: &clap::Command, given: &ArgMatches) -> anyhow::Result<()> {
    match given.subcommand() {
        None => modes::check(root.get_name(), root, given),
        Some((name, given)) => {
            root.find_subcommand(name).map_or(Ok(()), |command| modes::check(name, command, given))
        }
    }
}

/// Resolves options that depend on other options or change them, such as `--profile`, which makes tests send like an
/// application.
fn shape(cli: &mut Cli, given: &ArgMatches) -> anyhow::Result<()> {
    let given = given.subcommand().map_or(given, |(_, given)| given);
    let one_way = match &mut cli.command {
        None => {
            shape_test(&mut cli.test);
            &mut cli.test.one_way
        }
        Some(Command::Test(args)) => {
            shape_test(args);
            &mut args.one_way
        }
        Some(Command::Demo(args)) => {
            args.one_way.report.quiet = args.quiet.quiet;
            &mut args.one_way
        }
        Some(Command::Ping(ping)) => {
            ping.report.quiet = ping.quiet.quiet;
            ping.report.check = ping.check.check();
            ping.log.no_log |= ping.check.check && ping.log.output.is_none();
            ping.report.set_log(ping.log.output.as_deref());
            ping.log.check_tags()?;
            ping.report.analysis.profile.resolve()?;
            let profile = ping.report.analysis.profile.clone();
            shape_ping(&profile, ping, given);
            return Ok(());
        }
        Some(Command::Analyze(args)) => {
            args.report.quiet = args.quiet.quiet;
            args.report.check = args.check.check();
            return args.report.analysis.profile.resolve();
        }
        Some(Command::Archive(args)) => return args.complete(),
        Some(Command::Export(args)) => return args.analysis.profile.resolve(),
        Some(Command::Spp(args)) => return args.complete(),
        _ => return Ok(()),
    };
    one_way.log.check_tags()?;
    one_way.report.analysis.profile.resolve()?;
    shape_stream(&one_way.report.analysis.profile, &mut one_way.stream, given);
    Ok(())
}

fn shape_test(args: &mut test::TestArgs) {
    let one_way = &mut args.one_way;
    one_way.report.quiet = args.quiet.quiet;
    one_way.report.check = args.check.check();
    one_way.log.no_log |= args.check.check && one_way.log.output.is_none();
    one_way.report.set_log(one_way.log.output.as_deref());
}

/// Returns the command for which `word` is probably a typo; `None` if `word` is a command, or more likely a
/// host.
fn meant_command(word: &str) -> Option<String> {
    if word.len() < 3 || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return None;
    }
    let names: Vec<String> = command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let distance = |name: &String| strsim::osa_distance(word, name);
    let nearest = names.into_iter().min_by_key(distance)?;
    // Number of tolerated typos by length of the command's name. None in short names, because many host names
    // are as short.
    let slips = [0, 0, 0, 0, 1, 1].get(nearest.len()).copied().unwrap_or(2);
    (1..=slips).contains(&distance(&nearest)).then_some(nearest)
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a one-way test against a server (the same as `jitlat HOST`)
    Test(Box<test::TestArgs>),
    #[command(about = two_way_tests())]
    Ping(Box<PingArgs>),
    Path(path::PathArgs),
    Rpm(Box<rpm::RpmArgs>),
    /// Answer tests from other hosts
    Serve(Box<serve::ServeArgs>),
    /// Analyse saved logs (the same as `jitlat -f LOG`)
    Analyze(Box<AnalyzeArgs>),
    Export(Box<export::ExportArgs>),
    Archive(Box<archive::ArchiveArgs>),
    Monitor(monitor::MonitorArgs),
    Watch(Box<watch::WatchArgs>),
    /// Compare saved tests, with a verdict on the difference
    Compare(Box<compare::CompareArgs>),
    /// Run a server, a client and an impaired path on this machine
    Demo(Box<demo::DemoArgs>),
    Doctor(doctor::DoctorArgs),
    Find(find::FindArgs),
    Sweep(Box<sweep::SweepArgs>),
    Spp(Box<spp::SppArgs>),
    Tcp(Box<tcp::TcpArgs>),
    Rtp(Box<rtp::RtpArgs>),
    Web(web::WebArgs),
    As(programs::AsArgs),
    /// Print completions of commands and options for a shell
    #[command(
        after_help = "bash: jitlat completions bash > ~/.local/share/bash-completion/completions/jitlat\n\
                            zsh:  jitlat completions zsh > a file _jitlat in a folder of $fpath\n\
                            fish: jitlat completions fish > ~/.config/fish/completions/jitlat.fish"
    )]
    Completions(manual::CompletionsArgs),
    /// Write the manual pages into a folder, one for each command
    #[command(after_help = "To make the pages available to man: jitlat man ~/.local/share/man/man1")]
    Man(manual::ManArgs),
}

impl Command {
    /// Returns the level of the log without `--log-level`; `None`: info. A watch prints what its users need to know.
    pub fn usual_level(&self) -> Option<LogLevel> {
        matches!(self, Command::Watch(_)).then_some(LogLevel::Warn)
    }

    /// True if the command runs until it is stopped, so that lines of its log have dates.
    pub fn runs_long(&self) -> bool {
        match self {
            Command::Serve(_) | Command::Watch(_) => true,
            Command::Monitor(args) => args.runs_long(),
            _ => false,
        }
    }
}

/// Returns the description of `ping`, with the names of all protocols.
fn two_way_tests() -> String {
    let names: Vec<&str> = PROTOCOLS.iter().map(|p| p.name).collect();
    format!("Run a two-way test by {}", names.join(", "))
}

#[derive(Clone, Debug, Args)]
pub struct AnalyzeArgs {
    /// Logs, states saved with --state, or tests of an archive (DIR/ID)
    ///
    /// - is a log on standard input.
    #[arg(required_unless_present = "dataset", value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Analyse all logs as one
    ///
    /// Parts of one test are joined; several tests with the same traffic are appended to each other.
    #[arg(long)]
    pub merge: bool,
    /// Save the state of the analysis to FILE, for later merging
    ///
    /// A saved state can be analysed again and merged without the log; FILE may be one of the files that were read.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Divide delay into an empty path, bytes, and other traffic (TR-452)
    ///
    /// G, S and V of quality attenuation, from the smallest delays over the sizes of the packets of all logs.
    #[arg(long, conflicts_with_all = ["merge", "state", "dataset"])]
    pub attenuation: bool,
    #[command(flatten)]
    pub dataset: archive::dataset::DatasetArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub check: CheckArgs,
    #[command(flatten)]
    pub quiet: QuietArgs,
    #[command(flatten)]
    pub live: LiveArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn a_slip_in_a_command_is_not_a_host() {
        for (word, command) in [
            ("srve", "serve"),
            ("pingg", "ping"),
            ("png", "ping"),
            ("anaylze", "analyze"),
            ("compair", "compare"),
        ] {
            assert_eq!(meant_command(word).as_deref(), Some(command), "{word}");
        }
        for host in
            ["serve", "ping", "gateway", "host", "router", "srve.lan", "10.0.0.1", "::1", "lo", "-q", "box"]
        {
            assert_eq!(meant_command(host), None, "{host}");
        }
    }

    #[test]
    fn ping_refuses_a_port_of_icmp_and_hosts_in_one_word() {
        for (line, message) in [
            ("ping 127.0.0.1 -s 100", Some("icmp has no ports: leave out -s 100")),
            ("ping 127.0.0.1,127.0.0.2", Some("separate several hosts by spaces")),
            ("ping 127.0.0.1 --proto stamp -s 4000", None),
            ("ping 127.0.0.1", None),
        ] {
            let cli = Cli::try_parse_from(format!("jitlat {line}").split(' ')).unwrap();
            let Some(Command::Ping(args)) = cli.command else { panic!("{line}") };
            let refused = args.settings().err().map(|e| e.to_string());
            let as_expected = match message {
                Some(message) => refused.as_ref().is_some_and(|refused| refused.contains(message)),
                None => refused.is_none(),
            };
            assert!(as_expected, "{line}: {refused:?}");
        }
        let cli = Cli::try_parse_from("jitlat path 127.0.0.1 --classes BE,EF,BE".split(' ')).unwrap();
        let Some(Command::Path(args)) = cli.command else { panic!() };
        let refused = path::run(&args).err().map(|e| e.to_string());
        assert!(refused.as_ref().is_some_and(|e| e.contains("is given twice")), "{refused:?}");
    }

    #[test]
    fn options_of_other_tools_have_a_hint() {
        for (line, expected) in [
            ("h -d 10s", Some("--duration")),
            ("h -i 20ms", Some("-p 20ms")),
            ("h --port 5", Some("--control-port")),
            ("client h", Some("jitlat h")),
            ("ping h -w loss>1% -c loss>5%", Some("add --check")),
            ("spp a.pcap b.pcap", Some("-f A.pcap -F B.pcap")),
            ("h -t 10", Some("--duration 10s")),
            ("h -b 10M", Some("-r 10M")),
            ("h -P 4", Some("--load")),
            ("traceroute h", Some("jitlat path HOST")),
            ("iperf3 -c h", Some("jitlat as iperf3")),
            ("ping h -f", Some("-p 1ms")),
            ("ping h -I lo", Some("--interface")),
            ("h --dst-port x", None),
            ("h --nonsense", None),
        ] {
            let typed: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let e = command().try_get_matches_from(format!("jitlat {line}").split(' ')).unwrap_err();
            let hint = hint(&e, &typed);
            assert_eq!(hint.is_some(), expected.is_some(), "{line}: {hint:?}");
            assert!(hint.unwrap_or_default().contains(expected.unwrap_or_default()), "{line}");
        }
    }

    #[test]
    fn what_excludes_each_other_is_refused() {
        for bad in [
            "jitlat -r 5 -p 5 h",
            "jitlat -n 5 --duration 5 h",
            "jitlat -4 -6 h",
            "jitlat",
            "jitlat -b -R h",
            "jitlat -f x h",
            "jitlat -f x --capture",
            "jitlat ping h --proto twamp --light --nat",
            "jitlat ping h --proto lamp --ac VO --priority 3",
        ] {
            assert!(Cli::try_parse_from(bad.split(' ')).is_err(), "{bad}");
        }
    }
}
