//! What `jitlat ping` can be asked.

use super::lamp::LampArgs;
use super::late::LateArgs;
use super::stamp::StampArgs;
use super::twamp::TwampArgs;
use crate::cli::{ReportArgs, quantity};
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use jitlat_core::gaps::Gaps;
use jitlat_core::spec::{Dscp, HEADER_LEN, MAX_PAYLOAD, SpecError};
use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport};
use jitlat_net::pace::Mode;
use jitlat_net::random;
use jitlat_net::stamp::Stamps;
use jitlat_proto::twoway::Plan;
use jitlat_proto::{echo, lamp, reqresp, stamp};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Clone, Debug, Args)]
pub struct PingArgs {
    /// The far host: a name or an address
    pub host: String,
    /// Protocol: icmp (any host), stamp or twamp (routers, probes, jitlat serve), lamp (LaTe, jitlat serve),
    /// tcp (jitlat serve)
    #[arg(long, value_name = "PROTOCOL", default_value = "icmp")]
    pub proto: Proto,
    /// Requests to send
    #[arg(short = 'n', value_name = "N", default_value_t = 1000, conflicts_with = "duration")]
    pub packets: u64,
    /// Send for this long instead of a number of requests (30s, 10m; a bare number is seconds)
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    pub duration: Option<Span>,
    /// Payload bytes: after the ICMP header (56), after the LaMP header (0), of the UDP datagram of STAMP (44)
    /// and TWAMP (41), of a TCP request (1460)
    #[arg(short = 'l', value_name = "BYTES")]
    pub payload: Option<u64>,
    /// Bytes of a TCP response
    #[arg(long, value_name = "BYTES", default_value_t = 1000)]
    pub response: usize,
    /// Time between requests (20ms; a bare number is ns)
    #[arg(short = 'p', value_name = "PERIOD", value_parser = quantity::period, default_value = "20ms", conflicts_with = "rate")]
    pub period: Span,
    /// Rate instead of a period: requests per second (50, 50/s, 2k/s) or payload bits per second (64kbit)
    #[arg(short = 'r', value_name = "RATE", value_parser = quantity::rate)]
    pub rate: Option<quantity::Rate>,
    /// Stop and wait: send the next request this long after the answer to the one before (0 = at once)
    #[arg(long, value_name = "T", value_parser = wait, conflicts_with_all = ["rate", "duration"])]
    pub wait: Option<Span>,
    /// How long an answer may take before it counts as lost
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "2s")]
    pub timeout: Span,
    /// When requests are sent: periodic; poisson (random gaps of mean PERIOD); or gaps of a law of LaTe's, which
    /// then say all about them: uniform:LEAST,MOST, exponential:LEAST,MEAN (LEAST and an exponential time, at most
    /// three times MEAN in all), normal:MEAN,DEVIATION (between 0 and twice MEAN), as in uniform:10ms,100ms; a third
    /// number keeps each gap for so many packets
    #[arg(long, value_name = "LAW", default_value = "periodic")]
    pub schedule: Law,
    /// Differentiated-services code point: 0 to 63, or a name (EF, AF41, CS1, LE …)
    #[arg(short = 'D', value_name = "DSCP", default_value = "0")]
    pub dscp: Dscp,
    /// Priority within this host (SO_PRIORITY; selects the Wi-Fi access category)
    #[arg(long, value_name = "N")]
    pub priority: Option<u32>,
    /// Source port of UDP requests; 0 lets the system choose
    #[arg(short = 's', value_name = "PORT", default_value_t = 0)]
    pub src_port: u16,
    /// IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// IPv6 only
    #[arg(short = '6')]
    pub ipv6: bool,
    /// Local address
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
    /// Interface to send through
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// How the sender waits: sleep, hybrid or spin
    #[arg(long, value_name = "MODE", default_value = "sleep")]
    pub pace: Mode,
    /// Where stamps are taken: user, krt (by the kernel on reception only, as LaTe's KRT), kernel, or hardware (by
    /// the adapter); LaTe's letters u, r, s, h are taken too
    #[arg(long, value_name = "SOURCE", default_value = "kernel", value_parser = stamps)]
    pub stamps: Stamps,
    /// Before the test, measure what this host adds by itself (3 s): kept in log and JSON, and figures no larger than
    /// that are marked
    #[arg(long)]
    pub doctor: bool,
    /// UDP port of the STAMP or TWAMP Light reflector
    #[arg(long, value_name = "PORT", default_value_t = stamp::PORT)]
    pub stamp_port: u16,
    /// TCP port of the responder
    #[arg(long, value_name = "PORT", default_value_t = reqresp::PORT)]
    pub tcp_port: u16,
    /// Write a log with up to four times a packet, which `jitlat analyze` reads; an existing file is never replaced
    #[arg(short = 'o', value_name = "LOG")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub stamp: StampArgs,
    #[command(flatten)]
    pub twamp: TwampArgs,
    /// A name for this test, kept in log and report
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// A tag for this test, key=value; may be repeated
    #[arg(long = "tag", value_name = "K=V", value_parser = quantity::tag)]
    pub tags: Vec<(String, String)>,
    #[command(flatten)]
    pub lamp: LampArgs,
    #[command(flatten)]
    pub late: LateArgs,
    #[command(flatten)]
    pub load: crate::load::LoadArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Proto {
    Icmp,
    Stamp,
    Twamp,
    Lamp,
    Tcp,
}

impl Proto {
    /// As the command line writes it.
    pub fn name(self) -> &'static str {
        match self {
            Proto::Icmp => "icmp",
            Proto::Stamp => "stamp",
            Proto::Twamp => "twamp",
            Proto::Lamp => "lamp",
            Proto::Tcp => "tcp",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    Periodic,
    Poisson,
    /// Gaps, and how many packets keep each.
    Random(Gaps, u32),
}

impl Law {
    /// The schedule, drawn from `seed` if it is random.
    pub fn with_seed(self, seed: u64) -> Schedule {
        match self {
            Law::Periodic => Schedule::Periodic,
            Law::Poisson => Schedule::Poisson { seed },
            Law::Random(gaps, batch) => Schedule::Random { gaps, batch, seed },
        }
    }
}

impl FromStr for Law {
    type Err = String;

    fn from_str(text: &str) -> Result<Law, String> {
        match text {
            "periodic" => return Ok(Law::Periodic),
            "poisson" => return Ok(Law::Poisson),
            _ => {}
        }
        let unknown =
            "write periodic, poisson, uniform:LEAST,MOST, exponential:LEAST,MEAN or normal:MEAN,DEVIATION";
        let (law, numbers) = text.split_once(':').ok_or(unknown)?;
        let mut numbers = numbers.split(',');
        let mut time = || numbers.next().ok_or_else(|| unknown.to_owned()).and_then(wait);
        let (first, second) = (time()?, time()?);
        let gaps = match law {
            "uniform" => Gaps::Uniform { least: first, most: second },
            "exponential" => Gaps::Exponential { least: first, mean: second },
            "normal" => Gaps::Normal { mean: first, deviation: second },
            _ => return Err(unknown.to_owned()),
        };
        let batch =
            numbers.next().map_or(Ok(1), str::parse).map_err(|_| "the third is a number of packets")?;
        if numbers.next().is_some() || batch == 0 {
            return Err("two times, and a number of packets that keep each gap".to_owned());
        }
        if !gaps.is_possible() {
            return Err(SpecError::Gaps.to_string());
        }
        Ok(Law::Random(gaps, batch))
    }
}

/// A source of stamps, by its name or by LaTe's letter.
fn stamps(text: &str) -> Result<Stamps, String> {
    match text {
        "u" => Ok(Stamps::User),
        "r" => Ok(Stamps::KernelReceive),
        "s" => Ok(Stamps::Kernel),
        "h" => Ok(Stamps::Hardware),
        name => name.parse(),
    }
}

/// A wait may be nothing at all.
fn wait(text: &str) -> Result<Span, String> {
    if text.trim() == "0" { Ok(Span::ZERO) } else { Ok(quantity::duration(text)?) }
}

/// The far host and port.
pub fn resolve(args: &PingArgs) -> Result<SocketAddr> {
    let port = match args.proto {
        Proto::Icmp => 0,
        Proto::Twamp if !args.twamp.light => args.twamp.twamp_port,
        Proto::Stamp | Proto::Twamp => args.stamp_port,
        Proto::Lamp => args.lamp.lamp_port,
        Proto::Tcp => args.tcp_port,
    };
    let host = args.host.trim_start_matches('[').trim_end_matches(']');
    let found = (host, port).to_socket_addrs().with_context(|| format!("looking up {host}"))?;
    let wanted = |a: &SocketAddr| !(args.ipv4 && a.is_ipv6() || args.ipv6 && a.is_ipv4());
    let family = if args.ipv4 {
        "IPv4 "
    } else if args.ipv6 {
        "IPv6 "
    } else {
        ""
    };
    found.into_iter().find(wanted).ok_or_else(|| anyhow!("{host} has no {family}address"))
}

/// Bytes of a request as the system counts them: of the UDP payload, of the ICMP message, of the TCP
/// record.
pub fn wire_size(args: &PingArgs) -> Result<u64> {
    let (default, header) = match args.proto {
        Proto::Icmp => (56, echo::HEADER_LEN as u64),
        Proto::Stamp if args.stamp.stamp_key_file.is_some() => (112, 0),
        Proto::Stamp => (44, 0),
        Proto::Twamp => (args.twamp.least_size(), 0),
        Proto::Lamp => (0, lamp::packet::HEADER_LEN as u64),
        Proto::Tcp => (1460, 0),
    };
    let size = args.payload.unwrap_or(default) + header;
    let (low, high) = match args.proto {
        Proto::Stamp | Proto::Twamp => (default, MAX_PAYLOAD.into()),
        Proto::Tcp => (reqresp::SHORTEST_REQUEST as u64, reqresp::LARGEST as u64),
        _ => (header, MAX_PAYLOAD.into()),
    };
    if !(low..=high).contains(&size) {
        bail!(
            "-l {}: {} takes {} to {} bytes",
            size - header,
            args.proto.name(),
            low - header,
            high - header
        );
    }
    Ok(size)
}

/// What is sent, when.
pub fn plan(args: &PingArgs) -> Result<Plan> {
    let size = wire_size(args)?;
    let period = match args.rate {
        // Stop and wait has none.
        _ if args.wait.is_some() => Span(1),
        Some(_) if matches!(args.schedule, Law::Random(..)) => {
            bail!("-r: a law of gaps says all about the rate: leave one of them out")
        }
        Some(rate) => rate.period(size).map_err(|e| anyhow!(e))?,
        None => match args.schedule {
            Law::Random(gaps, _) => gaps.mean(),
            _ => args.period,
        },
    };
    let packets = match args.duration {
        Some(d) => (d.0 as u64).div_ceil(period.0.max(1) as u64),
        None => args.packets,
    };
    let mut seed = [0; 8];
    random::fill(&mut seed).context("drawing a seed from the system's random numbers")?;
    let schedule = args.schedule.with_seed(u64::from_be_bytes(seed));
    let transport = if args.proto == Proto::Tcp { Transport::Tcp } else { Transport::Udp };
    let shown = size.max(HEADER_LEN.into()).min(MAX_PAYLOAD.into());
    let mut spec = TestSpec::new(Direction::Up, transport, packets, shown, period, schedule)?;
    spec.dscp = args.dscp;
    Ok(Plan { spec, wait: args.wait, patience: args.timeout })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_of_gaps_are_read_and_impossible_ones_refused() {
        let ms = Span::millis;
        let law = |text: &str| text.parse::<Law>();
        let uniform = Gaps::Uniform { least: ms(10), most: ms(100) };
        assert_eq!(law("uniform:10ms,100ms"), Ok(Law::Random(uniform, 1)));
        assert_eq!(law("uniform:10ms,0.1s,20"), Ok(Law::Random(uniform, 20)));
        let exponential = Gaps::Exponential { least: Span::ZERO, mean: ms(50) };
        assert_eq!(law("exponential:0,50ms"), Ok(Law::Random(exponential, 1)));
        let normal = Gaps::Normal { mean: ms(200), deviation: ms(4) };
        assert_eq!(law("normal:200ms,4ms,15"), Ok(Law::Random(normal, 15)));
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
