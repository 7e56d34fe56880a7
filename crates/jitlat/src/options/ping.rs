//! Options of a two-way test.

use super::check::CheckArgs;
use super::ecn::EcnArgs;
use super::late::LateArgs;
use super::live::LiveArgs;
use super::load::LoadArgs;
use super::log::LogArgs;
use super::pace::PaceArg;
use super::priority::PriorityArgs;
use super::protocol::ProtocolArgs;
use super::report::{QuietArgs, ReportArgs};
use super::start::StartArgs;
use super::{LocalAddresses, family};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jitlat_core::far_host::FarHost;
use jitlat_core::gaps::Gaps;
use jitlat_core::quantity;
use jitlat_core::spec::{Dscp, SpecError};
use jitlat_core::{Schedule, Span, Transport};
use jitlat_instruments::Ping;
use jitlat_instruments::path::PathTest;
use jitlat_net::interface::WatchSettings;
use jitlat_net::random;
use jitlat_net::stamp::{StampMode, UnknownStamps};
use jitlat_proto::twoway::Overdue;
use std::net::IpAddr;
use std::str::FromStr;

/// Handling of overdue requests.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum OverdueArg {
    Space,
    Skip,
    Send,
}

impl From<OverdueArg> for Overdue {
    fn from(overdue: OverdueArg) -> Overdue {
        match overdue {
            OverdueArg::Space => Overdue::Space,
            OverdueArg::Skip => Overdue::Skip,
            OverdueArg::Send => Overdue::Send,
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct PingArgs {
    /// Far host: a name or an address
    pub host: String,
    /// Further hosts, tested at the same time and shown in one table
    #[arg(value_name = "HOST")]
    pub others: Vec<String>,
    #[command(flatten)]
    pub protocol: ProtocolArgs,
    /// Number of requests to send (1000, 10k)
    #[arg(short = 'n', long, visible_short_alias = 'c', value_name = "N", value_parser = quantity::count, default_value = "1000", conflicts_with = "duration")]
    pub packets: u64,
    /// Send for this long instead of -n (30s, 10m; bare number: seconds)
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    pub duration: Option<Span>,
    /// Time between requests (20ms; a bare number is ns)
    #[arg(short = 'p', long, value_name = "PERIOD", value_parser = quantity::period, default_value = "20ms", conflicts_with = "rate")]
    pub period: Span,
    /// Time between requests, as in ping: a bare number is in seconds (0.2)
    #[arg(short = 'i', value_name = "T", value_parser = quantity::duration, conflicts_with_all = ["period", "rate", "wait"])]
    pub interval_of_ping: Option<Span>,
    /// Rate instead of -p: packets (50/s, 2k/s, 1/min) or payload bits (64kbit)
    ///
    /// A bare number is requests per second.
    #[arg(short = 'r', long, value_name = "RATE", value_parser = quantity::rate)]
    pub rate: Option<quantity::SendingRate>,
    /// Stop and wait: send the next request this long after the last answer
    ///
    /// 0 sends it at once.
    #[arg(long, value_name = "T", value_parser = quantity::pause, conflicts_with_all = ["rate", "duration"])]
    pub wait: Option<Span>,
    /// Time after which a missing answer counts as lost
    #[arg(short = 'W', long, value_name = "T", value_parser = quantity::duration, default_value = "2s")]
    pub timeout: Span,
    /// Handling of overdue requests after a stall of this host: space, skip or send
    ///
    /// space shifts the rest of the schedule by the length of the stall: all requests are sent, and the test
    /// takes longer. skip omits overdue requests: the test takes no longer, but has fewer requests (periodic
    /// schedules). send sends them at once, in a burst that a rate limit, such as that of irtt's server, may
    /// drop. A request is overdue when it is late by more than a period and 5 ms. Default: skip with
    /// --duration, otherwise space.
    #[arg(long, value_name = "HOW", conflicts_with = "wait")]
    pub overdue: Option<OverdueArg>,
    /// Send times: periodic, poisson, or a distribution of random gaps
    ///
    /// poisson has random gaps with the mean PERIOD. The distributions are LaTe's, and define the gaps
    /// completely: uniform:MIN,MAX; exponential:MIN,MEAN (MIN plus an exponential time, at most three times
    /// MEAN in total); normal:MEAN,DEVIATION (between 0 and twice MEAN). For example uniform:10ms,100ms. A
    /// third number uses each gap for that many packets.
    #[arg(long, value_name = "LAW", default_value = "periodic")]
    pub schedule: ScheduleArg,
    /// DSCP of the requests: 0 to 63, or a name (EF, AF41, CS1, LE)
    #[arg(short = 'D', long, value_name = "DSCP", default_value = "0")]
    pub dscp: Dscp,
    #[command(flatten)]
    pub marks: EcnArgs,
    #[command(flatten)]
    pub start: StartArgs,
    #[command(flatten)]
    pub priority: PriorityArgs,
    /// Source port of UDP requests; 0: the system chooses
    #[arg(short = 's', long, value_name = "PORT", default_value_t = 0)]
    pub src_port: u16,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// Local address or interface to send from
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<LocalAddresses>,
    /// Interface to send through
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// How the sender waits: auto, sleep, hybrid, spin or etf
    ///
    /// Same as for one-way tests.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub pace: PaceArg,
    /// Source of timestamps: user, krt, kernel or hardware
    ///
    /// krt: the kernel on reception only, like LaTe's KRT; hardware: the network adapter. LaTe's letters u, r, s, h
    /// are accepted too.
    #[arg(long, value_name = "SOURCE", default_value = "kernel", value_parser = stamps)]
    pub stamps: StampMode,
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
    #[command(flatten)]
    pub late: LateArgs,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub log: LogArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub check: CheckArgs,
    #[command(flatten)]
    pub quiet: QuietArgs,
    #[command(flatten)]
    pub live: LiveArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleArg {
    Periodic,
    Poisson,
    /// Random gaps, and number of packets for which each gap is used.
    Random(Gaps, u32),
}

impl ScheduleArg {
    /// Creates the schedule; `seed` is used if it is random.
    pub fn with_seed(self, seed: u64) -> Schedule {
        match self {
            ScheduleArg::Periodic => Schedule::Periodic,
            ScheduleArg::Poisson => Schedule::Poisson { seed },
            ScheduleArg::Random(gaps, batch) => Schedule::Random { gaps, batch, seed },
        }
    }
}

impl FromStr for ScheduleArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ScheduleArg, String> {
        match text {
            "periodic" => return Ok(ScheduleArg::Periodic),
            "poisson" => return Ok(ScheduleArg::Poisson),
            _ => {}
        }
        let unknown =
            "write periodic, poisson, uniform:MIN,MAX, exponential:MIN,MEAN or normal:MEAN,DEVIATION";
        let (law, numbers) = text.split_once(':').ok_or(unknown)?;
        let mut numbers = numbers.split(',');
        let mut time =
            || numbers.next().ok_or_else(|| unknown.to_owned()).and_then(|t| Ok(quantity::pause(t)?));
        let (first, second) = (time()?, time()?);
        let gaps = match law {
            "uniform" => Gaps::Uniform { least: first, most: second },
            "exponential" => Gaps::Exponential { least: first, mean: second },
            "normal" => Gaps::Normal { mean: first, deviation: second },
            _ => return Err(unknown.to_owned()),
        };
        let batch =
            numbers.next().map_or(Ok(1), str::parse).map_err(|_| "the third value is a number of packets")?;
        if numbers.next().is_some() || batch == 0 {
            return Err("give two times, and optionally the number of packets for each gap".to_owned());
        }
        if !gaps.is_possible() {
            return Err(SpecError::Gaps.to_string());
        }
        Ok(ScheduleArg::Random(gaps, batch))
    }
}

/// Parses a source of stamps, by name or LaTe's letter.
fn stamps(text: &str) -> Result<StampMode, UnknownStamps> {
    match text {
        "u" => Ok(StampMode::User),
        "r" => Ok(StampMode::KernelReceive),
        "s" => Ok(StampMode::Kernel),
        "h" => Ok(StampMode::Hardware),
        name => name.parse(),
    }
}

impl PingArgs {
    /// Returns the local address of the test.
    fn bind(&self) -> Option<IpAddr> {
        self.bind.as_ref().and_then(|b| b.towards(&self.host, family(self.ipv4, self.ipv6)))
    }

    /// Returns the settings for examining the path before the test, with probes of this transport.
    pub fn path(&self, transport: Transport) -> PathTest {
        PathTest {
            family: family(self.ipv4, self.ipv6),
            bind: self.bind(),
            transport,
            dscp: self.dscp,
            ..PathTest::new(FarHost::name_in(&self.host))
        }
    }

    /// Creates the settings of the test.
    pub fn settings(&self) -> Result<Ping> {
        if self.host.contains(',') {
            bail!("{} is not the name of a host: separate several hosts by spaces", self.host);
        }
        let FarHost { name: host, port } = self.host.parse()?;
        let mut ping = Ping {
            packets: self.packets,
            payload: self.protocol.payload,
            wait: self.wait,
            timeout: self.timeout,
            dscp: self.dscp,
            priority: self.priority.priority(),
            src_port: self.src_port,
            family: family(self.ipv4, self.ipv6),
            bind: self.bind(),
            interface: self.interface.clone(),
            pace: self.pace.into(),
            stamps: self.stamps,
            annotations: self.log.annotations(),
            start: self.start.gate(),
            watch: WatchSettings { gpsd: self.gpsd.clone(), ..WatchSettings::default() },
            ..Ping::boxed(&host, self.protocol.client(port)?)
        };
        if self.src_port != 0 && ping.client.port() == 0 {
            bail!(
                "{} has no ports: leave out -s {}, or choose another --proto; -l is the length of a request",
                ping.client.protocol().name,
                self.src_port
            );
        }
        ping.period = match (self.rate, self.schedule) {
            (Some(_), ScheduleArg::Random(..)) => {
                bail!("-r: the distribution in --schedule already defines the rate: leave out one of them")
            }
            (Some(rate), _) => rate.period(ping.size()?).map_err(|e| anyhow!(e))?,
            (None, ScheduleArg::Random(gaps, _)) => gaps.mean(),
            (None, _) => self.interval_of_ping.unwrap_or(self.period),
        };
        ping.overdue = match (self.overdue, self.duration) {
            (Some(how), _) => how.into(),
            (None, Some(_)) => Overdue::Skip,
            (None, None) => Overdue::Space,
        };
        if let Some(d) = self.duration {
            ping.packets = (d.0 as u64).div_ceil(ping.period.0.max(1) as u64);
        }
        let mut seed = [0; 8];
        random::fill(&mut seed).context("drawing a seed from the system's random numbers")?;
        ping.schedule = self.schedule.with_seed(u64::from_be_bytes(seed));
        ping.marking = self.marks.marking(u64::from_be_bytes(seed));
        ping.plan()?;
        Ok(ping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_of_gaps_are_read_and_impossible_ones_refused() {
        let ms = Span::millis;
        let law = |text: &str| text.parse::<ScheduleArg>();
        let uniform = Gaps::Uniform { least: ms(10), most: ms(100) };
        assert_eq!(law("uniform:10ms,100ms"), Ok(ScheduleArg::Random(uniform, 1)));
        assert_eq!(law("uniform:10ms,0.1s,20"), Ok(ScheduleArg::Random(uniform, 20)));
        let exponential = Gaps::Exponential { least: Span::ZERO, mean: ms(50) };
        assert_eq!(law("exponential:0,50ms"), Ok(ScheduleArg::Random(exponential, 1)));
        let normal = Gaps::Normal { mean: ms(200), deviation: ms(4) };
        assert_eq!(law("normal:200ms,4ms,15"), Ok(ScheduleArg::Random(normal, 15)));
        for wrong in [
            "uniform",
            "uniform:10ms",
            "uniform:100ms,10ms",
            "normal:1ms,2ms,0",
            "poisson:1",
            "gamma:1ms,2ms",
        ] {
            assert!(law(wrong).is_err(), "{wrong}");
        }
    }
}
