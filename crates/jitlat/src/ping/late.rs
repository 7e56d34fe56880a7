//! What LaTe's options send while a test runs: samples to a listening program, figures to Carbon.

use crate::exit::explain;
use crate::options::late::LateArgs;
use crate::options::ping::PingArgs;
use crate::output::wanted::WantedOutputs;
use crate::output::{self, AnalysedStream};
use anyhow::{Context, Result, anyhow};
use jitlat_core::summary::Summary;
use jitlat_core::time::SECOND;
use jitlat_core::{PacketRecord, Span, WallTime};
use jitlat_instruments::{Event, Observer, Ping};
use jitlat_net::clock;
use jitlat_net::stamp::StampMode;
use jitlat_store::late::summary::{LateGaps, LatencyType, Setting, failed_row};
use jitlat_store::late::{ExtraFields, SampleHistory, graphite, stream};
use std::io::Write;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;
use tracing::warn;

/// Carbon's port for the plain-text protocol.
const CARBON_PORT: u16 = 2003;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What LaTe's formats need to know of one test, and the programs that receive its samples.
pub struct LateOutputs {
    /// What the options say of the test.
    pub setting: Setting,
    /// Why a program that was to receive samples does not.
    absent: Option<anyhow::Error>,
}

impl LateOutputs {
    /// Also connects to the programs that receive samples while the test runs. One that is not there does not stop the
    /// test: it is warned of now, and the test ends as one that could not deliver.
    pub fn new(args: &PingArgs, ping: &Ping) -> Result<(LateOutputs, Option<SampleStreams>)> {
        let late = &args.late;
        let setting = setting(args, ping)?;
        let listener = late.late_stream.as_deref().map(|to| LateListener::connect(to, &setting));
        let carbon = late.graphite.as_deref().map(|to| Carbon::connect(to, late));
        let mut absent = None;
        let mut there = |option: &str, e: anyhow::Error| {
            let e = e.context(format!("--{option}: the test goes on without"));
            warn!("{}", explain(&e));
            absent.get_or_insert(e);
        };
        let listener = listener.and_then(|l| l.map_err(|e| there("late-stream", e)).ok());
        let carbon = carbon.and_then(|c| c.map_err(|e| there("graphite", e)).ok());
        let streams = (listener.is_some() || carbon.is_some()).then(|| SampleStreams {
            history: SampleHistory::default(),
            sent: 0,
            listener,
            carbon,
            trouble: None,
        });
        Ok((LateOutputs { setting, absent }, streams))
    }

    /// Adds the line of a test that failed before its first packet to LaTe's summary, where one is asked for.
    pub fn failed(&self, outputs: &WantedOutputs) -> Result<()> {
        let Some(path) = outputs.place(output::late::SUMMARY.name) else { return Ok(()) };
        output::late::append(path, &failed_row(&self.setting))
    }

    /// Ends the streams, as far as possible; returns the failures.
    pub fn finish(mut self, run: &AnalysedStream, streams: Option<SampleStreams>) -> Vec<anyhow::Error> {
        if let Some(began) = run.session.created {
            self.setting.began = began;
        }
        self.setting.follow_up = run.summary.two_way.as_ref().is_some_and(|t| t.processing.is_some());
        let mut failures: Vec<anyhow::Error> = self.absent.take().into_iter().collect();
        if let Some(mut streams) = streams {
            let highest = run.records.iter().filter_map(|r| u64::try_from(r.seq).ok()).max();
            run.records.iter().skip(streams.sent).for_each(|r| streams.send(r));
            failures.extend(streams.finish(&run.summary, &self.setting, highest).err());
        }
        failures
    }
}

fn setting(args: &PingArgs, ping: &Ping) -> Result<Setting> {
    let random = LateGaps::of(ping.schedule, ping.period);
    let protocol = &args.protocol;
    let name = protocol.protocol.name;
    Ok(Setting {
        unidirectional: protocol.text("mode") == Some("unidir"),
        raw: protocol.has("raw"),
        // LaTe names the protocol below LaMP.
        protocol: if name == "lamp" { "UDP".to_owned() } else { name.to_uppercase() },
        priority: ping.priority.unwrap_or(0),
        payload: ping.size()? - ping.client.sizes().header,
        packets: args.duration.is_none().then_some(args.packets),
        duration: args.duration.map(|d| (d.0 / SECOND).unsigned_abs()),
        interval: ping.wait.map_or(random.map_or(ping.period.0, |r| r.1), |wait| wait.0),
        random: random.map(|r| r.0),
        latency: match ping.stamps {
            StampMode::User => LatencyType::User,
            StampMode::KernelReceive => LatencyType::Krt,
            StampMode::Kernel => LatencyType::Software,
            StampMode::Hardware => LatencyType::Hardware,
        },
        follow_up: protocol.has("follow-up"),
        began: clock::wall(),
        levels: args.late.late_confidence.0,
        extra: args.late.late_extra,
    })
}

/// An address with its port, by default `port`.
fn address(text: &str, port: u16) -> Result<SocketAddr> {
    let found = match text.to_socket_addrs() {
        Ok(mut found) => found.next(),
        Err(_) => {
            let host = text.trim_start_matches('[').trim_end_matches(']');
            (host, port).to_socket_addrs().with_context(|| format!("looking up {text}"))?.next()
        }
    };
    found.ok_or_else(|| anyhow!("{text} has no address"))
}

fn tcp(to: SocketAddr) -> Result<TcpStream> {
    let stream =
        TcpStream::connect_timeout(&to, CONNECT_TIMEOUT).with_context(|| format!("connecting to {to}"))?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    Ok(stream)
}

fn udp(to: SocketAddr) -> Result<UdpSocket> {
    let any: SocketAddr = if to.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to).with_context(|| format!("sending to {to}"))?;
    Ok(socket)
}

/// A program that receives every sample.
struct LateListener {
    id: u16,
    follow_up: bool,
    extra: ExtraFields,
    tcp: TcpStream,
    udp: UdpSocket,
    started: bool,
}

impl LateListener {
    fn connect(to: &str, setting: &Setting) -> Result<LateListener> {
        let Setting { follow_up, extra, .. } = *setting;
        let to = address(to, stream::PORT)?;
        // Any number: it distinguishes this test from others at the same program.
        let id = (clock::wall().0 / 1000) as u16;
        Ok(LateListener { id, follow_up, extra, tcp: tcp(to)?, udp: udp(to)?, started: false })
    }

    fn start(&mut self) -> std::io::Result<()> {
        if std::mem::replace(&mut self.started, true) {
            return Ok(());
        }
        self.tcp.write_all(stream::start(self.id, self.follow_up, self.extra).as_bytes())
    }
}

/// A Carbon server.
struct Carbon {
    path: String,
    every: Span,
    tcp: Option<TcpStream>,
    udp: Option<UdpSocket>,
    interval: graphite::GraphiteInterval,
    due: Option<WallTime>,
    /// Time of the last figures sent, in seconds since 1970.
    last_second: i64,
}

impl Carbon {
    fn connect(to: &str, args: &LateArgs) -> Result<Carbon> {
        let to = address(to, CARBON_PORT)?;
        Ok(Carbon {
            path: args.graphite_path.clone(),
            every: args.graphite_every,
            tcp: (!args.graphite_udp).then(|| tcp(to)).transpose()?,
            udp: args.graphite_udp.then(|| udp(to)).transpose()?,
            interval: graphite::GraphiteInterval::default(),
            due: None,
            last_second: i64::MIN,
        })
    }

    /// Carbon keeps the last value of a second: the remaining figures get a second of their own, as LaTe's do.
    fn flush(&mut self, at: WallTime) -> std::io::Result<()> {
        let second = at.0.div_euclid(SECOND).max(self.last_second.saturating_add(1));
        let Some(lines) = self.interval.flush(&self.path, second) else { return Ok(()) };
        self.last_second = second;
        if let Some(tcp) = &mut self.tcp {
            tcp.write_all(lines.as_bytes())?;
        }
        if let Some(udp) = &self.udp {
            lines.lines().try_for_each(|line| udp.send(format!("{line}\n").as_bytes()).map(drop))?;
        }
        Ok(())
    }
}

/// Sends samples as they arrive.
pub struct SampleStreams {
    history: SampleHistory,
    /// Number of samples sent.
    sent: usize,
    listener: Option<LateListener>,
    carbon: Option<Carbon>,
    trouble: Option<std::io::Error>,
}

impl Observer for SampleStreams {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Arrived { records, .. } = event {
            records.iter().for_each(|r| self.send(r));
        }
        self.flush(clock::wall(), false);
    }
}

impl SampleStreams {
    /// Sends one sample.
    fn send(&mut self, record: &PacketRecord) {
        self.sent += 1;
        let Some(sample) = self.history.sample(record) else { return };
        if let Some(carbon) = &mut self.carbon {
            // The first interval ends with a whole second.
            carbon.due.get_or_insert_with(|| WallTime(clock::wall().0.div_euclid(SECOND) * SECOND + SECOND));
            carbon.interval.add(&sample);
        }
        let Some(listener) = &mut self.listener else { return };
        if let Err(e) = listener.start() {
            self.trouble.get_or_insert(e);
        }
        let text = stream::sample(listener.id, &sample, listener.follow_up, listener.extra);
        // A datagram lost on the way is not resent; a broken connection is reported at the end.
        let _ = listener.udp.send(text.as_bytes());
    }

    /// Sends Carbon the interval, if it has ended or is the last.
    fn flush(&mut self, now: WallTime, last: bool) {
        let Some(carbon) = &mut self.carbon else { return };
        if !last && carbon.due.is_none_or(|due| now < due) {
            return;
        }
        carbon.due = carbon.due.map(|due| due + carbon.every);
        if let Err(e) = carbon.flush(now) {
            self.trouble.get_or_insert(e);
        }
    }

    fn finish(mut self, s: &Summary, setting: &Setting, highest: Option<u64>) -> Result<()> {
        self.flush(clock::wall(), true);
        if let Some(mut listener) = self.listener {
            let end = stream::end(listener.id, s, setting, highest, clock::wall());
            if let Err(e) = listener.start().and_then(|()| listener.tcp.write_all(end.as_bytes())) {
                self.trouble.get_or_insert(e);
            }
        }
        self.trouble.map_or(Ok(()), |e| Err(e).context("sending samples while the test ran"))
    }
}
