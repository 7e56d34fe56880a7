//! [`LateTest`]: output in LaTe's formats while a test runs: samples to a listening program, figures to Carbon.

use crate::error::{Context, Error, Result, explain};
use crate::late;
use crate::report::AnalysedStream;
use crate::wanted::WantedOutputs;
use jitlat_core::summary::Summary;
use jitlat_core::time::SECOND;
use jitlat_core::{PacketRecord, Span, WallTime};
use jitlat_instruments::{Event, Observer};
use jitlat_net::clock;
use jitlat_store::late::summary::{Setting, failed_row};
use jitlat_store::late::{ExtraFields, SampleHistory, graphite, stream};
use std::io::Write;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;
use tracing::warn;

/// Default port of Carbon's plain-text protocol.
const CARBON: u16 = 2003;
const CONNECT: Duration = Duration::from_secs(5);

/// A Carbon server that receives the figures of each interval.
#[derive(Clone, Debug)]
pub struct CarbonSettings {
    /// Name or address of the server, with or without a port.
    pub server: String,
    /// First part of the names of the figures.
    pub path: String,
    /// Time between two messages, at least one second.
    pub every: Span,
    /// True to send datagrams with one line each, instead of a TCP stream.
    pub udp: bool,
}

/// Settings of one test for LaTe's formats, and the programs that receive its samples.
pub struct LateTest {
    /// Settings from the options of the test.
    pub setting: Setting,
    /// First error of connecting to a program; `None` if all programs were reached.
    absent: Option<Error>,
}

impl LateTest {
    /// Creates the test, and connects to the programs that receive samples while it runs: a `listener`, by name or
    /// address, and `carbon`. If a program cannot be reached, the test continues: a warning is logged immediately, and
    /// the error is reported at the end.
    pub fn new(
        setting: Setting,
        listener: Option<&str>,
        carbon: Option<CarbonSettings>,
    ) -> (LateTest, Option<SampleStreams>) {
        let listener = listener.map(|to| Listener::connect(to, &setting));
        let carbon = carbon.map(Carbon::connect);
        let mut absent = None;
        let mut there = |option: &str, e: Error| {
            let doing = format!("--{option}: the test continues without it");
            let e = Error::During { doing, source: e.into() };
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
        (LateTest { setting, absent }, streams)
    }

    /// Adds a line to LaTe's summary, if it is requested, for a test that failed before its first packet.
    ///
    /// # Errors
    /// [`Error`] if the line cannot be written.
    pub fn failed(&self, outputs: &WantedOutputs) -> Result<()> {
        let Some(path) = outputs.place(late::SUMMARY.name) else { return Ok(()) };
        late::append(path, &failed_row(&self.setting))
    }

    /// Ends the streams. Returns the errors.
    pub fn finish(mut self, run: &AnalysedStream, streams: Option<SampleStreams>) -> Vec<Error> {
        if let Some(began) = run.session.created {
            self.setting.began = began;
        }
        self.setting.follow_up = run.summary.two_way.as_ref().is_some_and(|t| t.processing.is_some());
        let mut failures: Vec<Error> = self.absent.take().into_iter().collect();
        if let Some(mut streams) = streams {
            let highest = run.records.iter().filter_map(|r| u64::try_from(r.seq).ok()).max();
            run.records.iter().skip(streams.sent).for_each(|r| streams.send(r));
            failures.extend(streams.finish(&run.summary, &self.setting, highest).err());
        }
        failures
    }
}

/// Resolves an address with an optional port; the default is `port`.
fn address(text: &str, port: u16) -> Result<SocketAddr> {
    let found = match text.to_socket_addrs() {
        Ok(mut found) => found.next(),
        Err(_) => {
            let host = text.trim_start_matches('[').trim_end_matches(']');
            (host, port).to_socket_addrs().with_context(|| format!("looking up {text}"))?.next()
        }
    };
    found.with_context(|| format!("{text} has no address"))
}

fn tcp(to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, CONNECT).with_context(|| format!("connecting to {to}"))?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(CONNECT))?;
    Ok(stream)
}

fn udp(to: SocketAddr) -> Result<UdpSocket> {
    let any: SocketAddr = if to.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to).with_context(|| format!("sending to {to}"))?;
    Ok(socket)
}

/// A program that receives every sample.
struct Listener {
    id: u16,
    follow_up: bool,
    extra: ExtraFields,
    tcp: TcpStream,
    udp: UdpSocket,
    started: bool,
}

impl Listener {
    fn connect(to: &str, setting: &Setting) -> Result<Listener> {
        let Setting { follow_up, extra, .. } = *setting;
        let to = address(to, stream::PORT)?;
        // An arbitrary number that distinguishes this test from others in the same program.
        let id = (clock::wall().0 / 1000) as u16;
        Ok(Listener { id, follow_up, extra, tcp: tcp(to)?, udp: udp(to)?, started: false })
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
    /// Time of the last figures that were sent, in seconds since 1970.
    last_second: i64,
}

impl Carbon {
    fn connect(settings: CarbonSettings) -> Result<Carbon> {
        let to = address(&settings.server, CARBON)?;
        Ok(Carbon {
            path: settings.path,
            every: settings.every,
            tcp: (!settings.udp).then(|| tcp(to)).transpose()?,
            udp: settings.udp.then(|| udp(to)).transpose()?,
            interval: graphite::GraphiteInterval::default(),
            due: None,
            last_second: i64::MIN,
        })
    }

    /// Sends the remaining figures. Carbon stores only the last value of each second, so they are labelled with the
    /// next second, as in LaTe.
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
    listener: Option<Listener>,
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
            // The first interval ends at a whole second.
            carbon.due.get_or_insert_with(|| WallTime(clock::wall().0.div_euclid(SECOND) * SECOND + SECOND));
            carbon.interval.add(&sample);
        }
        let Some(listener) = &mut self.listener else { return };
        if let Err(e) = listener.start() {
            self.trouble.get_or_insert(e);
        }
        let text = stream::sample(listener.id, &sample, listener.follow_up, listener.extra);
        // A lost datagram is not sent again. A broken connection is reported at the end.
        let _ = listener.udp.send(text.as_bytes());
    }

    /// Sends the figures of the interval to Carbon if the interval has ended, or if it is the last one.
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
