//! `jitlat ping`: two-way tests against whatever answers: ICMP, STAMP, TWAMP Light, LaMP, TCP.

use crate::cli::quantity;
use crate::interrupt;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use jitlat_core::analysis::{self, Analyzer, Samples};
use jitlat_core::ntp::{ErrorEstimate, Format};
use jitlat_core::record::Moment;
use jitlat_core::spec::{Dscp, MAX_PAYLOAD};
use jitlat_core::summary::Summary;
use jitlat_core::twoway::{View, processing, project};
use jitlat_core::units;
use jitlat_core::{Direction, PacketRecord, Schedule, Session, Span, TestSpec, Transport};
use jitlat_net::pace::{Mode, Pacing};
use jitlat_net::stamp::Stamps;
use jitlat_net::twoway::client::{Link, Measured, Progress};
use jitlat_net::twoway::socket::{Carrier, Marking};
use jitlat_net::twoway::{request_response, run as drive};
use jitlat_net::{clock, random};
use jitlat_proto::echo::{self, Echo};
use jitlat_proto::lamp;
use jitlat_proto::reqresp::{self, Sizes};
use jitlat_proto::stamp;
use jitlat_proto::twoway::pinger::Oddities;
use jitlat_proto::twoway::{Directions, Plan, Protocol};
use jitlat_report::text::{self, Style};
use jitlat_store::log::{LogFile, Naming, Version};
use jitlat_store::output;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

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
    /// When requests are sent: periodic, or poisson (random gaps of mean PERIOD)
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
    /// Where stamps are taken: user or kernel
    #[arg(long, value_name = "SOURCE", default_value = "kernel")]
    pub stamps: Stamps,
    /// UDP port of the STAMP or TWAMP Light reflector
    #[arg(long, value_name = "PORT", default_value_t = stamp::PORT)]
    pub stamp_port: u16,
    /// File with the key of STAMP's authenticated mode, in hexadecimal
    #[arg(long, value_name = "FILE")]
    pub stamp_key_file: Option<PathBuf>,
    /// STAMP session identifier
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub ssid: u16,
    /// UDP port of the LaMP server
    #[arg(long, value_name = "PORT", default_value_t = lamp::PORT)]
    pub lamp_port: u16,
    /// LaMP: round trips, or one-way with the server's report
    #[arg(long, value_name = "MODE", default_value = "bidir")]
    pub mode: LampMode,
    /// LaMP: have the server tell its own processing time, which is then left out of the round trip
    #[arg(long)]
    pub follow_up: bool,
    /// TCP port of the responder
    #[arg(long, value_name = "PORT", default_value_t = reqresp::PORT)]
    pub tcp_port: u16,
    /// Write the round trips as a log that `jitlat analyze` reads; an existing file is never replaced
    #[arg(short = 'o', value_name = "LOG")]
    pub output: Option<PathBuf>,
    /// Write one JSON object to FILE; - is standard output, and then nothing else goes there
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a line per answer with all its times to FILE; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub csv: Option<PathBuf>,
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
    fn name(self) -> &'static str {
        match self {
            Proto::Icmp => "icmp",
            Proto::Stamp => "stamp",
            Proto::Twamp => "twamp",
            Proto::Lamp => "lamp",
            Proto::Tcp => "tcp",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Law {
    Periodic,
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LampMode {
    /// Round trips
    Bidir,
    /// One-way, client to server
    Unidir,
}

/// A wait may be nothing at all.
fn wait(text: &str) -> Result<Span, String> {
    if text.trim() == "0" { Ok(Span::ZERO) } else { quantity::duration(text) }
}

/// What one test found, whatever the protocol.
struct Found {
    records: Vec<PacketRecord>,
    requests: u64,
    directions: Directions,
    oddities: Oddities,
    far_clock: bool,
    session: Session,
    unsent: u64,
    /// What the protocol alone tells, in sentences.
    remarks: Vec<String>,
    /// The server's report of a one-way LaMP test.
    report: Option<lamp::Report>,
}

/// Measures and reports.
pub fn run(args: &PingArgs) -> Result<ExitCode> {
    let to = resolve(args)?;
    let plan = plan(args, to)?;
    let log = match &args.output {
        Some(path) => Some(LogFile::create(&Naming::Given(path.clone()), Version::V3)?),
        None => None,
    };
    let stop = interrupt::stop_flag()?;
    let line = ProgressLine::new(plan.spec.packets().into());
    let found = measure(args, to, &plan, &stop, |p| line.show(p));
    ProgressLine::clear();
    let found = found?;

    if let Some(log) = log {
        write_log(log, &found)?;
    }
    if let Some(path) = &args.csv {
        output::write(path, |out| write_csv(out, &found))?;
    }
    let result = Analysed::analyse(&found);
    if let Some(path) = &args.json {
        let value = result.json(args, &found)?;
        output::write(path, |out| {
            serde_json::to_writer_pretty(&mut *out, &value)?;
            out.write_all(b"\n")
        })?;
    }
    let silent = [&args.json, &args.csv].iter().any(|p| p.as_deref() == Some(Path::new("-")));
    if !silent {
        match io::stdout().lock().write_all(result.console(args, to, &found).as_bytes()) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            other => other.context("writing the report to standard output")?,
        }
    }
    Ok(if found.requests > 0 { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

#[allow(dead_code, reason = "for `jitlat sweep`, which follows")]
/// A finished test without a report of its own: for sweeps, and for one phase beside another.
pub struct Taken {
    /// Its round trips.
    pub summary: Summary,
    /// The packets behind them.
    pub samples: Samples,
    /// The way there and the way back, where the protocol tells.
    pub ways: Option<[Summary; 2]>,
}

#[allow(dead_code, reason = "for `jitlat sweep`, which follows")]
/// Measures as [`run`] does, in silence and without files.
pub fn take(args: &PingArgs, stop: &AtomicBool) -> Result<Taken> {
    let to = resolve(args)?;
    let found = measure(args, to, &plan(args, to)?, stop, |_| {})?;
    let (result, samples) = Analysed::with_samples(&found);
    Ok(Taken { summary: result.round_trip, samples, ways: result.up.zip(result.down).map(<[_; 2]>::from) })
}

fn resolve(args: &PingArgs) -> Result<SocketAddr> {
    let port = match args.proto {
        Proto::Icmp => 0,
        Proto::Stamp | Proto::Twamp => args.stamp_port,
        Proto::Lamp => args.lamp_port,
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
fn wire_size(args: &PingArgs) -> Result<u64> {
    let (default, header) = match args.proto {
        Proto::Icmp => (56, echo::HEADER_LEN as u64),
        Proto::Stamp if args.stamp_key_file.is_some() => (112, 0),
        Proto::Stamp => (44, 0),
        Proto::Twamp => (41, 0),
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

fn plan(args: &PingArgs, _to: SocketAddr) -> Result<Plan> {
    let size = wire_size(args)?;
    let period = match args.rate {
        Some(rate) => rate.period(size).map_err(|e| anyhow!(e))?,
        None => args.period,
    };
    let packets = match args.duration {
        Some(d) => (d.0 as u64).div_ceil(period.0.max(1) as u64),
        None => args.packets,
    };
    let mut seed = [0; 8];
    random::fill(&mut seed).context("drawing a seed from the system's random numbers")?;
    let schedule = match args.schedule {
        Law::Periodic => Schedule::Periodic,
        Law::Poisson => Schedule::Poisson { seed: u64::from_be_bytes(seed) },
    };
    let transport = if args.proto == Proto::Tcp { Transport::Tcp } else { Transport::Udp };
    let shown = size.max(jitlat_core::spec::HEADER_LEN.into()).min(MAX_PAYLOAD.into());
    let mut spec = TestSpec::new(Direction::Up, transport, packets, shown, period, schedule)?;
    spec.dscp = args.dscp;
    Ok(Plan { spec, wait: args.wait, patience: args.timeout })
}

fn measure(
    args: &PingArgs,
    to: SocketAddr,
    plan: &Plan,
    stop: &AtomicBool,
    show: impl Fn(Progress),
) -> Result<Found> {
    let mut random_bytes = [0; 10];
    random::fill(&mut random_bytes).context("drawing an identifier from the system's random numbers")?;
    let [m @ .., i0, i1] = random_bytes;
    let (mark, id) = (u64::from_be_bytes(m), u16::from_be_bytes([i0, i1]));
    let size = wire_size(args)? as usize;
    let pacing = Pacing { mode: args.pace, ..Pacing::default() };
    let link = Link {
        to,
        carrier: if args.proto == Proto::Icmp { Carrier::Icmp } else { Carrier::Udp },
        marking: Marking {
            bind: args.bind,
            port: if args.proto == Proto::Icmp { 0 } else { args.src_port },
            interface: args.interface.clone(),
            dscp: args.dscp,
            priority: args.priority,
            ttl: (args.proto != Proto::Icmp).then_some(255),
        },
        stamps: args.stamps,
        pacing: pacing.clone(),
    };
    let plan = plan.clone();
    Ok(match args.proto {
        Proto::Icmp => {
            let family = if to.is_ipv4() { echo::Family::V4 } else { echo::Family::V6 };
            let make =
                |kernel: bool| Echo::new(family, (!kernel).then_some(id), mark, size - echo::HEADER_LEN);
            gather(drive(make, plan.clone(), &link, stop, show)?, &plan, to, |_| Vec::new())
        }
        Proto::Stamp | Proto::Twamp => {
            let key = args.stamp_key_file.as_deref().map(stamp_key).transpose()?;
            let options = stamp::sender::Options {
                size,
                light: args.proto == Proto::Twamp,
                ssid: args.ssid,
                key,
                error: ErrorEstimate::of_clock(clock::sync_state(), Format::Ntp),
                // The extension asks what became of the mark; only where there is room for it.
                class_of_service: (args.proto == Proto::Stamp && args.dscp.value() != 0)
                    .then(|| args.dscp.value()),
                direct_measurement: false,
            };
            let sender = stamp::Sender::new(options);
            let mut plan = plan;
            let real = sender.size();
            if real != size {
                let s = &plan.spec;
                let mut spec = TestSpec::new(
                    s.direction(),
                    s.transport(),
                    s.packets().into(),
                    real as u64,
                    s.period(),
                    s.schedule(),
                )?;
                spec.dscp = args.dscp;
                plan.spec = spec;
            }
            let dscp = args.dscp;
            let remarks = |s: &stamp::Sender| match s.far_dscp().and_then(|d| Dscp::new(d.into())) {
                Some(seen) if seen != dscp => {
                    vec![format!("sent with DSCP {dscp}, arrived there with {seen}")]
                }
                Some(_) => vec![format!("DSCP {dscp} arrives there unchanged")],
                None => Vec::new(),
            };
            gather(drive(|_| sender, plan.clone(), &link, stop, show)?, &plan, to, remarks)
        }
        Proto::Lamp => {
            let mode = match args.mode {
                LampMode::Bidir => lamp::Mode::PingLike,
                LampMode::Unidir => lamp::Mode::Unidirectional,
            };
            let follow_up = args.follow_up.then_some(lamp::FollowUp::Application);
            let payload = size - lamp::packet::HEADER_LEN;
            let options = lamp::client::Options { id, mode, payload, timeless: false, follow_up };
            let measured = drive(|_| lamp::Client::new(options), plan.clone(), &link, stop, show)?;
            let report = measured.outcome.protocol.report().copied();
            Found { report, ..gather(measured, &plan, to, lamp_remarks) }
        }
        Proto::Tcp => {
            let sizes = Sizes::new(size, args.response)
                .ok_or_else(|| anyhow!("--response {}: give 20 to 65535 bytes", args.response))?;
            let measured = request_response::run(sizes, plan.clone(), to, args.dscp, &pacing, stop, show)?;
            gather(measured, &plan, to, |_| Vec::new())
        }
    })
}

fn lamp_remarks(client: &lamp::Client) -> Vec<String> {
    use lamp::client::FollowUpState as F;
    match client.follow_up() {
        F::Unasked | F::Asked => Vec::new(),
        F::Accepted => vec!["the server's own processing time is left out of the round trip".to_owned()],
        F::Denied => {
            vec!["the server refuses follow-up: the round trip contains its processing time".to_owned()]
        }
        F::Unanswered => {
            vec![
                "the server does not answer about follow-up: the round trip contains its processing time"
                    .to_owned(),
            ]
        }
    }
}

/// Reads the key of STAMP's authenticated mode.
pub fn stamp_key(path: &Path) -> Result<stamp::auth::Key> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading the key file {}", path.display()))?;
    let digits: Vec<u8> = text.trim().bytes().collect();
    let pair = |p: &[u8]| std::str::from_utf8(p).ok().and_then(|h| u8::from_str_radix(h, 16).ok());
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(|p| pair(p).filter(|_| p.len() == 2)).collect();
    match bytes.filter(|b| !b.is_empty()) {
        Some(bytes) => Ok(stamp::auth::Key::new(&bytes)),
        None => {
            bail!("the key file {} is not hexadecimal: write pairs of digits, e.g. 000102…", path.display())
        }
    }
}

fn gather<P: Protocol>(
    measured: Measured<P>,
    plan: &Plan,
    to: SocketAddr,
    remarks: impl FnOnce(&P) -> Vec<String>,
) -> Found {
    let Measured { mut outcome, local, host, ending, unsent, .. } = measured;
    let mut records = Vec::with_capacity(outcome.records.len());
    while let Some(mut block) = outcome.records.take_block() {
        block.iter_mut().for_each(|r| outcome.sent.join(r));
        records.extend(block);
    }
    let mut session = Session::new(plan.spec.clone());
    session.spec.src_port = local.port();
    session.spec.dst_port = to.port();
    session.created = Some(clock::wall());
    session.src = Some(local.ip());
    session.dst = Some(to.ip());
    session.sent = u32::try_from(outcome.ledger.requests()).ok();
    session.period_known = plan.wait.is_none();
    session.ending = ending;
    session.client = host;
    Found {
        requests: outcome.ledger.requests(),
        directions: outcome.ledger.directions(),
        oddities: outcome.oddities,
        far_clock: outcome.protocol.far_clock(),
        remarks: remarks(&outcome.protocol),
        records,
        session,
        unsent,
        report: None,
    }
}

/// Everything computed from one test.
struct Analysed {
    round_trip: Summary,
    up: Option<Summary>,
    down: Option<Summary>,
    processing: Option<(Span, Span)>,
}

impl Analysed {
    fn analyse(found: &Found) -> Analysed {
        Analysed::with_samples(found).0
    }

    /// Also the round trips themselves.
    fn with_samples(found: &Found) -> (Analysed, Samples) {
        let view = |view: View| {
            let mut session = found.session.clone();
            if view == View::RoundTrip {
                session.server = jitlat_core::session::HostFacts::default();
            }
            if view == View::Down {
                session.spec = session.spec.reversed();
                (session.src, session.dst) = (session.dst, session.src);
            }
            let mut analyzer = Analyzer::new(&session, &analysis::Options::default());
            found.records.iter().filter_map(|r| project(r, view)).for_each(|r| analyzer.push(&r));
            analyzer.finish_with_samples(&session)
        };
        let one_way = found.far_clock && found.records.iter().any(|r| r.arrived().is_some());
        let times = || found.records.iter().filter_map(processing);
        let (mut round_trip, samples) = view(View::RoundTrip);
        of_one_clock(&mut round_trip);
        let result = Analysed {
            round_trip,
            up: one_way.then(|| view(View::Up).0),
            down: one_way.then(|| view(View::Down).0),
            processing: times().min().zip(times().max()),
        };
        (result, samples)
    }

    fn json(&self, args: &PingArgs, found: &Found) -> Result<serde_json::Value> {
        let mut value = serde_json::to_value(&self.round_trip)?;
        let report = found.report.map(|r| {
            serde_json::json!({
                "min_us": r.min_us, "mean_us": r.mean_us, "max_us": r.max_us, "variance_us2": r.variance_us2,
                "received": r.received, "out_of_order": r.out_of_order, "errors": r.errors,
                "duplicates": r.duplicates, "timed_out": r.timed_out, "highest_seq": r.highest_seq,
            })
        });
        let directions = found.directions.stateful.then_some(found.directions);
        if let Some(object) = value.as_object_mut() {
            object.insert(
                "two_way".to_owned(),
                serde_json::json!({
                    "protocol": args.proto.name(),
                    "sending": if args.wait.is_some() { "stop_and_wait" } else { "open_loop" },
                    "up": self.up,
                    "down": self.down,
                    "directions": directions,
                    "processing_min_ns": self.processing.map(|p| p.0.0),
                    "processing_max_ns": self.processing.map(|p| p.1.0),
                    "not_answers": found.oddities,
                    "unsent": found.unsent,
                    "far_report": report,
                    "remarks": found.remarks,
                }),
            );
        }
        Ok(value)
    }

    fn console(&self, args: &PingArgs, to: SocketAddr, found: &Found) -> String {
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let style = if colour { Style::Colour } else { Style::Plain };
        let options = text::Options { style, ..text::Options::default() };
        let mut page = String::new();
        let sending = match args.wait {
            Some(wait) => format!("stop and wait, {} after each answer", span(wait)),
            None => format!("one every {} (open loop)", span(found.session.spec.period())),
        };
        let _ = writeln!(
            page,
            "{} to {}: {} requests of {} bytes, {sending}",
            args.proto.name().to_uppercase(),
            if args.proto == Proto::Icmp { to.ip().to_string() } else { to.to_string() },
            found.requests,
            found.session.spec.payload(),
        );
        if let Some(report) = &found.report {
            let _ = writeln!(page, "\n== the server's report, one-way (two clocks)");
            let min = report.min_us.map_or("-".to_owned(), |m| m.to_string());
            let _ = writeln!(
                page,
                "received {} of {}, out of order {}, duplicates {}, errors {}",
                report.received,
                found.requests,
                report.out_of_order,
                report.duplicates.map_or("not looked for".to_owned(), |d| d.to_string()),
                report.errors
            );
            let _ = writeln!(
                page,
                "min/avg/max latency: {min}/{:.1}/{} us, stddev {:.1} us",
                report.mean_us,
                report.max_us,
                report.variance_us2.sqrt()
            );
            return page;
        }
        if args.proto == Proto::Lamp && args.mode == LampMode::Unidir {
            page.push_str("the server sent no report\n");
            return page;
        }
        page.push_str("\n== round trip\n");
        page.push_str(&text::report(&self.round_trip, &options));
        let d = &found.directions;
        if d.stateful {
            let _ = writeln!(
                page,
                "\nby direction       there  back\nlost             {:>7} {:>5}\nduplicated       {:>7} {:>5}\n\
                 reordered        {:>7} {:>5}",
                d.up_lost, d.down_lost, d.up_duplicates, d.down_duplicates, d.up_reordered, d.down_reordered
            );
            if d.unknown_lost > 0 {
                let _ = writeln!(page, "lost at the end, direction not known: {}", d.unknown_lost);
            }
        }
        if let Some((least, most)) = self.processing {
            let _ = writeln!(page, "far host's own time: {} to {} (left out above)", span(least), span(most));
        }
        for (name, view) in [("there", &self.up), ("back", &self.down)] {
            if let Some(s) = view {
                let jitter = |p: &Option<String>| p.clone().unwrap_or_else(|| "-".to_owned());
                let _ = writeln!(
                    page,
                    "one way {name:<5}: min {}, avg {}, max {} (two clocks); jitter 99 % {}",
                    jitter(&s.display.min),
                    jitter(&s.display.avg),
                    jitter(&s.display.max),
                    jitter(&s.display.pdv_p99)
                );
            }
        }
        for remark in &found.remarks {
            let _ = writeln!(page, "{remark}");
        }
        let o = found.oddities;
        if o != Oddities::default() {
            let _ = writeln!(
                page,
                "received and not counted: {} foreign, {} malformed, {} forged, {} answers to nothing asked",
                o.foreign, o.malformed, o.forged, o.unmatched
            );
        }
        if found.unsent > 0 {
            let _ = writeln!(page, "{} requests could not be sent", found.unsent);
        }
        page
    }
}

/// Both ends of a round trip are on this host's clock: what the analysis says of two clocks does not apply.
fn of_one_clock(s: &mut Summary) {
    s.clock.server = Default::default();
    s.skew_hull = None;
    s.pdv_deskewed = None;
    s.warnings.retain(|w| !matches!(w.code, "clocks_unknown" | "skew"));
}

fn span(s: Span) -> String {
    units::eng4(s.0)
}

fn write_log(mut log: LogFile, found: &Found) -> Result<()> {
    let mut session = found.session.clone();
    session.tags.push(("view".to_owned(), "round-trip".to_owned()));
    log.begin(&session);
    found.records.iter().filter_map(|r| project(r, View::RoundTrip)).for_each(|r| log.record(&r));
    log.finish(&session);
    log.close()?;
    Ok(())
}

fn write_csv(out: &mut dyn io::Write, found: &Found) -> io::Result<()> {
    writeln!(
        out,
        "seq,sent_ns,arrived_ns,answered_ns,returned_ns,round_trip_ns,processing_ns,bytes,ttl,dscp"
    )?;
    let text = |v: Option<i64>| v.map_or_else(String::new, |v| v.to_string());
    for r in &found.records {
        let time = |m| text(r.time(m).map(|t| t.0));
        writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{}",
            r.seq,
            time(Moment::Sent),
            if found.far_clock { time(Moment::Arrived) } else { String::new() },
            if found.far_clock { time(Moment::Answered) } else { String::new() },
            time(Moment::Returned),
            text(jitlat_core::twoway::round_trip(r).map(|s| s.0)),
            text(processing(r).map(|s| s.0)),
            text(r.size().map(i64::from)),
            text(r.ttl().map(i64::from)),
            text(r.dscp().map(i64::from)),
        )?;
    }
    Ok(())
}

/// Requests and losses so far, on a terminal only.
struct ProgressLine {
    total: u64,
}

impl ProgressLine {
    fn new(total: u64) -> ProgressLine {
        ProgressLine { total }
    }

    fn show(&self, p: Progress) {
        if io::stderr().is_terminal() {
            eprint!("\r{} of {} sent, {} answered ", p.sent, self.total, p.answered);
        }
    }

    fn clear() {
        if io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}
