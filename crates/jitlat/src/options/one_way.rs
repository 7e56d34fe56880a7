//! Options of a one-way test: its stream and its hosts.

use super::ecn::{EcnArg, EcnArgs};
use super::load::LoadArgs;
use super::log::LogArgs;
use super::one_way_protocol::OneWayProtocolArgs;
use super::pace::PaceArg;
use super::priority::PriorityArgs;
use super::report::ReportArgs;
use super::{LocalAddresses, family, key};
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use jitlat_core::far_host::FarHost;
use jitlat_core::quantity;
use jitlat_core::spec::{CONTROL_PORT, Dscp, HEADER_LEN, SpecError, TEST_PORT};
use jitlat_core::time::Span;
use jitlat_core::{Direction, Schedule, StampSource, TestSpec, Transport};
use jitlat_instruments::OneWay;
use jitlat_instruments::path::PathTest;
use jitlat_net::client::TestRequest;
use jitlat_net::interface::WatchSettings;
use jitlat_net::pace::{Pacing, SendSettings};
use jitlat_net::random;
use jitlat_proto::jitlat::{Dialect, TestTerms};
use std::path::PathBuf;

/// Value of `--capture` without a file.
pub const NO_FILE: &str = "-";

/// Options of a one-way test.
#[derive(Clone, Debug, Args)]
pub struct OneWayArgs {
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Capture the stream on this host and explain TCP's delays
    ///
    /// The report then contains retransmissions, closed and full windows, and round trips. With FILE the packets are
    /// stored as pcap. Needs CAP_NET_RAW.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = NO_FILE)]
    pub capture: Option<PathBuf>,
    #[command(flatten)]
    pub protocol: OneWayProtocolArgs,
    #[command(flatten)]
    pub log: LogArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub host_args: HostArgs,
}

impl OneWayArgs {
    /// Creates the settings of a test of `host`, a name or an address that a port may follow.
    pub fn settings(&self, host: &str) -> Result<OneWay> {
        let FarHost { name: host, port } = host.parse()?;
        let mut seed = [0; 8];
        random::fill(&mut seed).context("drawing a seed from the system's random numbers")?;
        let mut streams: Vec<TestSpec> =
            self.stream.specs(u64::from_be_bytes(seed)).map_err(|e| anyhow!(e))?;
        let link = &self.host_args;
        // Classic servers need a port number, as does the filter of a capture, which begins before the test.
        if self.stream.dst_port.is_none() && !link.classic && self.capture.is_none() {
            streams.iter_mut().for_each(|spec| match spec.direction() {
                Direction::Up => spec.dst_port = 0,
                Direction::Down if self.stream.both => spec.src_port = 0,
                Direction::Down => {}
            });
        }
        let priority = link.priority.priority();
        if priority.is_some() && self.stream.reverse {
            bail!(
                "--priority and --ac apply to packets that this host sends: with -R give them to `jitlat serve`"
            );
        }
        if let Some(name) = self.protocol.foreign()
            && self.capture.is_some()
        {
            bail!("--capture explains the delays of TCP: leave it out with --proto {name}");
        }
        if self.stream.marks.ecn != EcnArg::Off {
            if link.classic {
                bail!("--ecn needs version 3: classic results contain no marks; leave out --classic");
            }
            if let Some(name) = self.protocol.foreign() {
                bail!(
                    "--ecn: {name} does not report with which marks packets arrive; leave out --proto {name}"
                );
            }
        }
        let own_port = port.filter(|_| self.protocol.foreign().is_none());
        if let (Some(port), Some(_)) = (own_port, link.control_port) {
            bail!("the control port is given twice: leave out :{port} or --control-port");
        }
        let settings = TestRequest {
            control_port: link.control_port.or(own_port).unwrap_or(CONTROL_PORT),
            family: family(link.ipv4, link.ipv6),
            bind: link.bind.as_ref().and_then(|b| b.towards(&host, family(link.ipv4, link.ipv6))),
            terms: TestTerms {
                dialect: if link.classic { Dialect::Classic } else { Dialect::V3 },
                key: link.key_file.as_deref().map(key).transpose()?,
                stamps: match link.stamps {
                    StampsArg::User => StampSource::User,
                    StampsArg::Kernel => StampSource::Kernel,
                    StampsArg::Hardware => StampSource::Hardware,
                },
                ..TestTerms::new(streams)
            },
            sending: SendSettings { pacing: link.pacing(), priority, segmented: false },
            limit: self.stream.duration.map(|duration| duration + Span(duration.0 / 10).max(MIN_OVERRUN)),
            ..TestRequest::new(&host, Vec::new())
        };
        Ok(OneWay {
            settings,
            client: self.protocol.client(port.filter(|_| own_port.is_none()))?.into(),
            annotations: self.log.annotations(),
            finds_size_limit: false,
            watch: WatchSettings { gpsd: self.host_args.gpsd.clone(), ..WatchSettings::default() },
        })
    }
}

impl OneWayArgs {
    /// Returns the settings for examining the path to `host` before the test.
    pub fn path(&self, host: &str) -> PathTest {
        let family = family(self.host_args.ipv4, self.host_args.ipv6);
        PathTest {
            family,
            bind: self.host_args.bind.as_ref().and_then(|b| b.towards(host, family)),
            transport: if self.stream.tcp { Transport::Tcp } else { Transport::Udp },
            dscp: self.stream.dscp,
            ..PathTest::new(host)
        }
    }
}

impl HostArgs {
    /// Returns the scheduling and waiting method of the packet threads.
    fn pacing(&self) -> Pacing {
        Pacing {
            mode: self.pace.into(),
            realtime: self.realtime,
            lock_memory: self.realtime.is_some(),
            cpu: self.cpu,
        }
    }
}

/// Options of the test stream.
#[derive(Clone, Debug, Args)]
pub struct StreamArgs {
    /// Number of packets to send
    #[arg(short = 'n', long, value_name = "N", value_parser = quantity::count, default_value = "1000", conflicts_with = "duration")]
    pub packets: u64,
    /// Send for this long instead of -n (30s, 10m; bare number: seconds)
    ///
    /// A sender that cannot keep the rate is stopped when the test exceeds this time by a tenth (at least 1 s). The
    /// report then notes that packets were not sent.
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    pub duration: Option<Span>,
    /// Payload bytes per packet, 12 to 65507
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = quantity::bytes, default_value = "80")]
    pub payload: u64,
    /// Time between packets (20ms; a bare number is ns)
    #[arg(short = 'p', long, value_name = "PERIOD", value_parser = quantity::period, default_value = "20ms", conflicts_with = "rate")]
    pub period: Span,
    /// Rate instead of -p: packets (50/s, 2k/s) or payload bits (64kbit)
    ///
    /// A bare number is packets per second.
    #[arg(short = 'r', long, value_name = "RATE", value_parser = quantity::rate)]
    pub rate: Option<quantity::SendingRate>,
    /// Use TCP instead of UDP
    #[arg(short = 't', long)]
    pub tcp: bool,
    /// Reverse the direction: the server sends
    #[arg(short = 'R', long)]
    pub reverse: bool,
    /// Measure both directions at once
    #[arg(short = 'b', long, conflicts_with_all = ["reverse", "classic"])]
    pub both: bool,
    /// DSCP of the packets: 0 to 63, or a name (EF, AF41, CS1, LE)
    #[arg(short = 'D', long, value_name = "DSCP", default_value = "0")]
    pub dscp: Dscp,
    #[command(flatten)]
    pub marks: EcnArgs,
    /// Source port of the test stream; 0: the sender's system chooses
    #[arg(short = 's', long, value_name = "PORT", default_value_t = 0)]
    pub src_port: u16,
    /// Destination port of the test stream (default: the server's, 2667)
    #[arg(short = 'd', long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub dst_port: Option<u16>,
    /// Send times: periodic (RFC 3432), poisson (RFC 2330), or burst
    #[arg(long, value_name = "LAW", default_value = "periodic")]
    pub schedule: ScheduleLaw,
    /// Packets per burst of --schedule burst [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: Option<u32>,
    /// Seed of --schedule poisson and --ecn both (default: random, and printed)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Default number of packets per burst.
const DEFAULT_BURST: u32 = 10;
/// Smallest overrun at which a test with a requested duration is ended.
const MIN_OVERRUN: Span = Span::seconds(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScheduleLaw {
    Periodic,
    Poisson,
    Burst,
}

impl StreamArgs {
    /// Creates the specifications of the streams: one, or with `-b` two, up and down. `fresh_seed` is the seed
    /// of a Poisson schedule without `--seed`.
    pub fn specs(&self, fresh_seed: u64) -> Result<Vec<TestSpec>, String> {
        let period = match self.rate {
            Some(rate) => rate.period(self.payload.max(HEADER_LEN.into()))?,
            None => self.period,
        };
        let packets = match self.duration {
            Some(d) => (d.0 as u64).div_ceil(period.0.max(1) as u64),
            None => self.packets,
        };
        let is_random = self.schedule == ScheduleLaw::Poisson || self.marks.ecn == EcnArg::Both;
        if self.seed.is_some() && !is_random {
            return Err("--seed is for --schedule poisson and --ecn both: leave it out".to_owned());
        }
        if self.burst.is_some() && self.schedule != ScheduleLaw::Burst {
            return Err("--burst is for --schedule burst: leave it out".to_owned());
        }
        let schedule = match self.schedule {
            ScheduleLaw::Periodic => Schedule::Periodic,
            ScheduleLaw::Poisson => Schedule::Poisson { seed: self.seed.unwrap_or(fresh_seed) },
            ScheduleLaw::Burst => Schedule::Burst { size: self.burst.unwrap_or(DEFAULT_BURST) },
        };
        let direction = if self.reverse { Direction::Down } else { Direction::Up };
        let transport = if self.tcp { Transport::Tcp } else { Transport::Udp };
        let spec = TestSpec::new(direction, transport, packets, self.payload, period, schedule);
        let mut spec = spec.map_err(|e: SpecError| e.to_string())?;
        spec.dscp = self.dscp;
        if let Some(why) = self.marks.refusal(&spec) {
            return Err(why);
        }
        spec.marking = self.marks.marking(self.seed.unwrap_or(fresh_seed));
        spec.src_port = self.src_port;
        spec.dst_port = self.dst_port.unwrap_or(TEST_PORT);
        Ok(if self.both { vec![spec.clone(), spec.reversed()] } else { vec![spec] })
    }
}

/// Options of this host, the server and the path between them.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Hosts and stamps")]
pub struct HostArgs {
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// Control port of the server [default: 2666; with --collect that of the log]
    #[arg(long, value_name = "PORT")]
    pub control_port: Option<u16>,
    /// Local address or interface of the control connection and the stream
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<LocalAddresses>,
    /// File with the key shared with the server
    ///
    /// Both sides prove that they know the key.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Use classic workorders instead of version 3
    #[arg(long)]
    pub classic: bool,
    #[command(flatten)]
    pub priority: PriorityArgs,
    /// How the sender waits: auto, sleep, hybrid, spin or etf
    ///
    /// sleep uses absolute deadlines, hybrid sleeps and spins for the last microseconds, etf passes packets with
    /// launch times to the interface's queue. auto spins from 50000 packets per second if two processors are idle,
    /// and sleeps otherwise.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub pace: PaceArg,
    /// Source of timestamps: user, kernel or hardware
    #[arg(long, value_name = "SOURCE", default_value = "kernel")]
    pub stamps: StampsArg,
    /// SCHED_FIFO priority of the measuring threads, with memory locked
    ///
    /// Where it is not permitted, the priority is reduced and the report has a note.
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "50", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub realtime: Option<u8>,
    /// Measure the noise of this host before the test (3 s)
    ///
    /// The result is stored in log and JSON, and figures no larger than the noise are marked.
    #[arg(long)]
    pub doctor: bool,
    /// Examine the path before the test with three probes per hop (2 s)
    ///
    /// Its hops become tags of the test: hop.1, hop.2 and so on. Needs CAP_NET_RAW.
    #[arg(long)]
    pub path: bool,
    /// Record the position of this host during the test, from gpsd
    ///
    /// gpsd usually listens at localhost:2947. Positions are stored in log and JSON, with the samples of the interface; nothing
    /// is recorded without this option. If gpsd does not answer, the test runs without positions and has a note.
    #[arg(long, value_name = "HOST:PORT")]
    pub gpsd: Option<String>,
    /// Pin the measuring threads to this CPU
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StampsArg {
    User,
    Kernel,
    Hardware,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parse(line: &str) -> OneWayArgs {
        let command = OneWayArgs::augment_args(Command::new("test").no_binary_name(true));
        OneWayArgs::from_arg_matches(&command.get_matches_from(line.split(' '))).unwrap()
    }

    #[test]
    fn classic_letters() {
        let args = parse("-n 10 -l 40 -p 5000000 -t -R -D EF -s 5 -d 6 -C -L");
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
        let spec = &parse("-r 100 --duration 2s").stream.specs(0).unwrap()[0];
        assert_eq!((spec.packets(), spec.period()), (200, Span::millis(10)));
    }

    #[test]
    fn both_directions_are_two_streams() {
        let specs = parse("-b").stream.specs(0).unwrap();
        assert_eq!(
            specs.iter().map(TestSpec::direction).collect::<Vec<_>>(),
            [Direction::Up, Direction::Down]
        );
    }
}
