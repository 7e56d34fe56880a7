//! The command line: what can be asked, and nothing about how it is done.

pub mod analysis;
pub use jitlat_core::quantity;

use crate::console::log::Level;
use analysis::AnalysisArgs;
use jitlat_core::figures::Condition;

use clap::{Args, Parser, Subcommand, ValueEnum};
use jitlat_core::analysis::Options;
use jitlat_core::spec::{CONTROL_PORT, Dscp, HEADER_LEN, SpecError, TEST_PORT};
use jitlat_core::time::Span;
use jitlat_core::{Direction, Schedule, TestSpec, Transport};
use std::net::IpAddr;
use std::path::PathBuf;

/// What a network path does to real-time traffic: delay, jitter, and how losses cluster, per direction,
/// with the clock error and the tool's own noise stated beside every figure.
#[derive(Debug, Parser)]
#[command(
    name = "jitlat",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    after_help = "On one host: jitlat serve.  On the other: jitlat HOST.  Try it alone: jitlat demo.\n\
                  Exit status: 0 measured; 1 measured, but a --fail-if threshold was violated; 2 could not measure,\n\
                  or not write a file that was asked for."
)]
pub struct Cli {
    /// What is logged to standard error: off, error, warn, info (the default), debug, trace; with this, each line is dated
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<Level>,
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub test: TestArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// One-way test against a server (the same as `jitlat HOST`)
    Test(Box<TestArgs>),
    /// Two-way test against whatever answers: ICMP, STAMP, TWAMP Light, LaMP, TCP
    Ping(Box<crate::ping::PingArgs>),
    /// Answer tests from other hosts
    Serve(Box<crate::serve::ServeArgs>),
    /// Analyse saved logs (the same as `jitlat -f LOG`)
    Analyze(Box<AnalyzeArgs>),
    /// Set saved tests side by side, with an honest verdict
    Compare(Box<crate::compare::CompareArgs>),
    /// A server, a client and an impaired path on this machine, and the report at the end
    Demo(Box<crate::demo::DemoArgs>),
    Doctor(crate::doctor::DoctorArgs),
    Sweep(Box<crate::sweep::SweepArgs>),
    Spp(Box<crate::spp::SppArgs>),
    Tcp(Box<crate::tcp::TcpArgs>),
    /// Print what a shell needs to complete commands and options
    #[command(
        after_help = "bash: jitlat completions bash > ~/.local/share/bash-completion/completions/jitlat\n\
                            zsh:  jitlat completions zsh > a file _jitlat in a folder of $fpath\n\
                            fish: jitlat completions fish > ~/.config/fish/completions/jitlat.fish"
    )]
    Completions(crate::manual::CompletionsArgs),
    /// Write the manual pages into a folder, one for each command
    #[command(after_help = "man reads them after: jitlat man ~/.local/share/man/man1")]
    Man(crate::manual::ManArgs),
}

/// How figures are computed and shown: for a live test and for a saved log alike.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Report")]
pub struct ReportArgs {
    /// Print latency corrected by the clock estimate
    #[arg(short = 'C', long)]
    pub corrected: bool,
    /// Plot latency corrected by the clock estimate
    #[arg(short = 'L', long)]
    pub plot_corrected: bool,
    /// Write one line per test to FILE; - is standard output
    #[arg(long, value_name = "FILE")]
    pub summary_csv: Option<PathBuf>,
    /// Write the figures as OpenMetrics text to FILE, for Prometheus' textfile collector; - is standard output
    #[arg(long, value_name = "FILE")]
    pub openmetrics: Option<PathBuf>,
    /// Write one JSON line for each window of --interval to FILE; - is standard output
    #[arg(long, value_name = "FILE", requires = "interval")]
    pub intervals: Option<PathBuf>,
    /// Write a report with interactive figures to FILE: one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Draw every figure into DIR, as SVG and PNG
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Write HDR histograms of latency and jitter to FILE, one of each for every window of --interval, or for the
    /// whole test; - is standard output. With -b: FILE.up and FILE.down
    #[arg(long, value_name = "FILE", conflicts_with = "streaming")]
    pub hdr: Option<PathBuf>,
    /// Fail with status 1 where a figure crosses a threshold: loss>1%, jitter-p99>30ms, latency-max>150ms, mos<3.8 …; may be repeated
    #[arg(long, value_name = "CONDITION", long_help = figures_help())]
    pub fail_if: Vec<Condition>,
    /// Draw small plots in characters below the report
    #[arg(long)]
    pub text_plots: bool,
    /// Write one JSON object to FILE; - is standard output, and then nothing else goes there
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one line per packet to FILE; - is standard output. With -b: FILE.up and FILE.down
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    #[command(flatten)]
    pub analysis: AnalysisArgs,
}

impl ReportArgs {
    /// What to compute.
    pub fn options(&self) -> Options {
        let options = self.analysis.options();
        let seed = options.bootstrap.unwrap_or(1);
        Options { comparable: self.json.is_some().then_some(seed), ..options }
    }

    /// Whether something is to be made of the single packets once they are analysed.
    pub fn keeps_packets(&self) -> bool {
        self.hdr.is_some() || self.text_plots || self.html.is_some() || self.plots.is_some()
    }
}

#[derive(Clone, Debug, Args)]
pub struct TestArgs {
    /// The host that runs `jitlat serve`: a name or an address
    #[arg(required_unless_present = "file")]
    pub host: Option<String>,
    /// Analyse a saved log instead of measuring; - is standard input
    #[arg(short = 'f', value_name = "LOG", conflicts_with = "host")]
    pub file: Option<PathBuf>,
    /// Collect what the server keeps of an earlier test whose program ended first: the log it left here (of a test
    /// with -b, both: repeat the option). The result is a new log
    #[arg(long, value_name = "LOG", requires = "host", conflicts_with_all = ["file", "classic"])]
    pub collect: Vec<PathBuf>,
    /// Watch the stream at this host's interface, and let TCP explain its own delays: retransmissions, closed and full
    /// windows, round trips; keep the packets in FILE (pcap), if given. Needs CAP_NET_RAW
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = crate::watch::NO_FILE, conflicts_with_all = ["file", "collect"])]
    pub capture: Option<PathBuf>,
    #[command(flatten)]
    pub stream: StreamArgs,
    #[command(flatten)]
    pub host_args: HostArgs,
    #[command(flatten)]
    pub load: crate::load::LoadArgs,
    #[command(flatten)]
    pub log: LogArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// The test stream.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Stream")]
pub struct StreamArgs {
    /// Packets to send
    #[arg(short = 'n', value_name = "N", default_value_t = 1000, conflicts_with = "duration")]
    pub packets: u64,
    /// Send for this long instead of a number of packets (30s, 10m; a bare number is seconds)
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    pub duration: Option<Span>,
    /// Payload bytes of a packet, 12 to 65507
    #[arg(short = 'l', value_name = "BYTES", default_value_t = 80)]
    pub payload: u64,
    /// Time between packets (20ms; a bare number is ns)
    #[arg(short = 'p', value_name = "PERIOD", value_parser = quantity::period, default_value = "20ms", conflicts_with = "rate")]
    pub period: Span,
    /// Rate instead of a period: packets per second (50, 50/s, 2k/s) or payload bits per second (64kbit)
    #[arg(short = 'r', value_name = "RATE", value_parser = quantity::rate)]
    pub rate: Option<quantity::Rate>,
    /// TCP instead of UDP
    #[arg(short = 't', long)]
    pub tcp: bool,
    /// The server sends
    #[arg(short = 'R', long)]
    pub reverse: bool,
    /// Both directions at once
    #[arg(short = 'b', long, conflicts_with_all = ["reverse", "classic"])]
    pub both: bool,
    /// Differentiated-services code point: 0 to 63, or a name (EF, AF41, CS1, LE …)
    #[arg(short = 'D', value_name = "DSCP", default_value = "0")]
    pub dscp: Dscp,
    /// Source port of the test stream; 0 lets the sender's system choose
    #[arg(short = 's', value_name = "PORT", default_value_t = 0)]
    pub src_port: u16,
    /// Destination port of the test stream
    #[arg(short = 'd', value_name = "PORT", default_value_t = TEST_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub dst_port: u16,
    /// When packets are sent: periodic (RFC 3432), poisson (RFC 2330), or burst
    #[arg(long, value_name = "LAW", default_value = "periodic")]
    pub schedule: ScheduleLaw,
    /// Packets in a burst
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: u32,
    /// Seed of the Poisson schedule; drawn afresh and printed unless given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScheduleLaw {
    Periodic,
    Poisson,
    Burst,
}

impl StreamArgs {
    /// The streams asked for: one, or with `-b` up and down. `fresh_seed` serves a Poisson schedule without `--seed`.
    pub fn specs(&self, fresh_seed: u64) -> Result<Vec<TestSpec>, String> {
        let period = match self.rate {
            Some(rate) => rate.period(self.payload.max(HEADER_LEN.into()))?,
            None => self.period,
        };
        let packets = match self.duration {
            Some(d) => (d.0 as u64).div_ceil(period.0.max(1) as u64),
            None => self.packets,
        };
        let schedule = match self.schedule {
            ScheduleLaw::Periodic => Schedule::Periodic,
            ScheduleLaw::Poisson => Schedule::Poisson { seed: self.seed.unwrap_or(fresh_seed) },
            ScheduleLaw::Burst => Schedule::Burst { size: self.burst },
        };
        let direction = if self.reverse { Direction::Down } else { Direction::Up };
        let transport = if self.tcp { Transport::Tcp } else { Transport::Udp };
        let spec = TestSpec::new(direction, transport, packets, self.payload, period, schedule);
        let mut spec = spec.map_err(|e: SpecError| e.to_string())?;
        spec.dscp = self.dscp;
        spec.src_port = self.src_port;
        spec.dst_port = self.dst_port;
        Ok(if self.both { vec![spec.clone(), spec.reversed()] } else { vec![spec] })
    }
}

/// This host and the way to the other.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Hosts and stamps")]
pub struct HostArgs {
    /// IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// IPv6 only
    #[arg(short = '6')]
    pub ipv6: bool,
    /// The server's control port
    #[arg(long, value_name = "PORT", default_value_t = CONTROL_PORT)]
    pub control_port: u16,
    /// Local address of the control connection and the test stream
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
    /// File with the key shared with the server; both sides prove that they know it
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Speak the classic workorder instead of version 3
    #[arg(long)]
    pub classic: bool,
    /// How the sender waits: sleep (absolute deadlines), hybrid (sleep, spin the last microseconds), spin
    #[arg(long, value_name = "MODE", default_value = "sleep")]
    pub pace: Pace,
    /// Where stamps are taken
    #[arg(long, value_name = "SOURCE", default_value = "kernel")]
    pub stamps: Stamps,
    /// SCHED_FIFO priority of the measuring threads, and memory locked; reduced with a note where not permitted
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "50", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub realtime: Option<u8>,
    /// Before the test, measure what this host adds by itself (3 s): kept in log and JSON, and figures no larger than
    /// that are marked
    #[arg(long)]
    pub doctor: bool,
    /// Pin the measuring threads to this CPU
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    Sleep,
    Hybrid,
    Spin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stamps {
    User,
    Kernel,
    Hardware,
}

/// The log that every test leaves.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Name of the log (default: jitlat.XXXXXX in this folder); an existing file is never replaced
    #[arg(short = 'o', value_name = "LOG")]
    pub output: Option<PathBuf>,
    /// Log version to write: 1 and 2 for older scripts
    #[arg(long, value_name = "V", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub log_version: u8,
    /// A name for this test, kept in log and report
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// A tag for this test, key=value; may be repeated
    #[arg(long = "tag", value_name = "K=V", value_parser = quantity::tag)]
    pub tags: Vec<(String, String)>,
}

#[derive(Clone, Debug, Args)]
pub struct AnalyzeArgs {
    /// Logs to analyse; - is standard input
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// What `--help` says of `--fail-if`: every figure there is.
fn figures_help() -> String {
    format!(
        "Fail with status 1 where a figure crosses a threshold; may be repeated. A threshold is written in the figure's \
         unit: loss>1%, pdv-p99>30ms, latency-max>150ms, mos<3.8. Of one way of a round-trip test: up-loss>1%, \
         down-pdv-p99>30ms. Figures:\n{}",
        jitlat_core::figures::help()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn test_args(line: &str) -> TestArgs {
        Cli::try_parse_from(line.split(' ')).unwrap().test
    }

    #[test]
    fn classic_letters() {
        let args = test_args("jitlat -n 10 -l 40 -p 5000000 -t -R -D EF -s 5 -d 6 -C -L host");
        let spec = &args.stream.specs(0).unwrap()[0];
        assert_eq!((spec.packets(), spec.payload(), spec.period()), (10, 40, Span::millis(5)));
        assert_eq!(
            (spec.transport(), spec.direction(), spec.dscp.value()),
            (Transport::Tcp, Direction::Down, 46)
        );
        assert_eq!((spec.src_port, spec.dst_port), (5, 6));
        assert!(args.report.corrected && args.report.plot_corrected);
    }

    #[test]
    fn rate_and_duration_replace_period_and_count() {
        let spec = &test_args("jitlat -r 100 --duration 2s host").stream.specs(0).unwrap()[0];
        assert_eq!((spec.packets(), spec.period()), (200, Span::millis(10)));
        for bad in [
            "jitlat -r 5 -p 5 h",
            "jitlat -n 5 --duration 5 h",
            "jitlat -4 -6 h",
            "jitlat",
            "jitlat -b -R h",
            "jitlat -f x h",
        ] {
            assert!(Cli::try_parse_from(bad.split(' ')).is_err(), "{bad}");
        }
    }

    #[test]
    fn both_directions_are_two_streams() {
        let specs = test_args("jitlat -b host").stream.specs(0).unwrap();
        assert_eq!(
            specs.iter().map(TestSpec::direction).collect::<Vec<_>>(),
            [Direction::Up, Direction::Down]
        );
    }
}
