//! [`StreamCapture`]: captures a test's own stream on this host's interface, so that a test over TCP can
//! explain its delays.

use super::error::PassiveError;
use jitlat_core::analysis::Samples;
use jitlat_core::metrics::classify::AcceptedPacket;
use jitlat_core::prefix::Prefix;
use jitlat_core::spec::{Direction, HEADER_LEN, Transport};
use jitlat_core::{Session, Span, WallTime};
use jitlat_net::capture::PcapWriter;
use jitlat_net::capture::interface::{InterfaceCapture, InterfaceSettings, find_interface};
use jitlat_net::client::{AddressFamily, TestRequest};
use jitlat_passive::packet::{TCP, UDP};
use jitlat_passive::tcp::{
    CaptureSide, DelayCauses, ObservedConnection, ObservedRecord, RecordFraming, TcpAnalyzer, TcpPoint,
    TcpResult,
};
use jitlat_passive::{Frame, IpPacket, LinkType, StreamTraffic, WireCounts};
use jitlat_proto::jitlat::Dialect;
use std::cmp::Reverse;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time for which the kernel collects packets before it wakes the capturing thread, so that the thread does not wake
/// for each packet.
const KERNEL_BATCH_TIME: Duration = Duration::from_millis(20);
/// Maximum length in bytes of an IP packet that can be on the wire as captured; longer ones are segmented by
/// the adapter (TSO).
const MAX_WIRE_LENGTH: u32 = 9000;

/// Reason why a stream cannot be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamCaptureError {
    /// Packets cannot be captured on the interface.
    #[error(transparent)]
    Passive(#[from] PassiveError),
    /// The server's name cannot be resolved, or there is no route to the server.
    #[error("{doing} {host}: {source}")]
    Route {
        /// Description of the failed operation.
        doing: &'static str,
        /// Name of the server.
        host: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The server has no address of the requested family.
    #[error("{0} has no address of the requested family (-4, -6)")]
    Family(String),
    /// No interface has the address that the test is bound to.
    #[error("no interface of this host has the address {0}")]
    NoInterface(IpAddr),
    /// The test has no stream.
    #[error("the test has no stream")]
    NoStream,
    /// The captured packets cannot be saved.
    #[error("saving the capture: {0}")]
    Save(io::Error),
    /// The capturing thread panicked.
    #[error("the capturing thread failed")]
    Failed,
}

/// Stream of a test, as seen on this host's interface.
#[derive(Clone, Debug)]
pub struct CapturedStream {
    interface: String,
    peer: IpAddr,
    port: u16,
    protocol: u8,
    /// Number of bytes on the TCP test connection before the first packet.
    lead: u64,
}

impl CapturedStream {
    /// Finds the interface through which the stream of `request` will leave or reach this host.
    ///
    /// # Errors
    /// [`StreamCaptureError`] if there is no route to the server.
    pub fn find(request: &TestRequest) -> Result<CapturedStream, StreamCaptureError> {
        let (here, there) = ends(request)?;
        let interface = match here.ip() {
            ip if ip.is_loopback() => "lo".to_owned(),
            ip => find_interface(ip).ok_or(StreamCaptureError::NoInterface(ip))?,
        };
        let spec = request.terms.specs.first().ok_or(StreamCaptureError::NoStream)?;
        Ok(CapturedStream {
            interface,
            peer: there.ip(),
            port: spec.dst_port,
            protocol: if spec.transport() == Transport::Tcp { TCP } else { UDP },
            lead: if request.terms.dialect == Dialect::V3 { HEADER_LEN.into() } else { 0 },
        })
    }

    fn owns(&self, p: &IpPacket<'_>) -> bool {
        let port = || p.ports().is_none_or(|(a, b)| a == self.port || b == self.port);
        p.protocol == self.protocol && (p.src() == self.peer || p.dst() == self.peer) && port()
    }

    /// True if this host received the packet; false if it sent the packet.
    fn is_received(&self, p: &IpPacket<'_>) -> bool {
        match p.src() == p.dst() {
            true => p.ports().is_some_and(|(from, _)| from == self.port),
            false => p.src() == self.peer,
        }
    }
}

/// Destination of captured frames.
pub type SaveTo = Box<dyn Write + Send>;

/// A running capture.
pub struct StreamCapture {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<CapturedSoFar>,
    stream: CapturedStream,
}

/// A capture that has ended.
pub struct EndedCapture {
    seen: CapturedSoFar,
    stream: CapturedStream,
}

#[derive(Default)]
struct CapturedSoFar {
    tcp: TcpAnalyzer,
    /// Counts of packets sent and received by this host.
    counts: [WireCounts; 2],
    drops: u64,
    notes: Vec<String>,
}

impl StreamCapture {
    /// Starts to capture `stream`; captured frames are also written to `save`, as pcap.
    ///
    /// # Errors
    /// [`StreamCaptureError`] if packets cannot be captured; no packet of the test has been sent in this
    /// case.
    pub fn start(stream: CapturedStream, save: Option<SaveTo>) -> Result<StreamCapture, StreamCaptureError> {
        let capture = InterfaceCapture::open(&stream.interface, InterfaceSettings::default())
            .and_then(|capture| capture.limit_to(&[Prefix::from(stream.peer)]).map(|()| capture))
            .map_err(PassiveError::from)?;
        let (link, snap): (LinkType, u32) = (capture.link(), capture.snap());
        let writer = save.map(|save| PcapWriter::new(save, link, snap)).transpose();
        let writer = writer.map_err(StreamCaptureError::Save)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, followed) = (Arc::clone(&stop), stream.clone());
        let thread = std::thread::spawn(move || run(capture, &followed, writer, &stopped));
        Ok(StreamCapture { stop, thread, stream })
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// [`StreamCaptureError`] if the capture failed.
    pub fn finish(self) -> Result<EndedCapture, StreamCaptureError> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.join().map_err(|_| StreamCaptureError::Failed)?;
        Ok(EndedCapture { seen, stream: self.stream })
    }
}

impl EndedCapture {
    /// Returns the captured traffic, and explains the delays in the analysed streams `runs`.
    pub fn explain<'a>(self, runs: impl IntoIterator<Item = (&'a Session, &'a Samples)>) -> StreamTraffic {
        let EndedCapture { seen, stream } = self;
        let mut connections = seen.tcp.finish();
        connections.sort_by_key(|c| Reverse(c.up.bytes + c.down.bytes));
        let (mut delays, mut notes, mut has_packets) = (Vec::new(), seen.notes, false);
        for (session, samples) in runs {
            has_packets |= !samples.is_empty();
            if let Some(causes) = explain(&seen.tcp, &connections, session, samples, stream.lead) {
                delays.push((session.spec.direction(), causes));
            }
        }
        if delays.is_empty() && !connections.is_empty() && has_packets {
            notes.push(
                "the capture does not contain the beginning of the test's connection, so the causes of delays are unknown"
                    .to_owned(),
            );
        }
        if seen.drops > 0 {
            notes
                .push(format!("{} packets were dropped during the capture; they look like gaps", seen.drops));
        }
        let [sent, received] = seen.counts;
        let longest = sent.longest.max(received.longest);
        if longest > MAX_WIRE_LENGTH {
            notes.push(format!(
                "segments of up to {longest} bytes were captured before the adapter cut them; to capture \
                 them as they are sent: ethtool -K {} tso off gso off gro off",
                stream.interface
            ));
        }
        let first = TcpPoint {
            connections,
            segments: seen.tcp.segments(),
            not_followed: seen.tcp.not_followed(),
            drops: seen.drops,
            ..TcpPoint::default()
        };
        let tcp = TcpResult { first, ..TcpResult::default() };
        StreamTraffic { interface: stream.interface, sent, received, tcp, delays, notes }
    }
}

/// Finds the causes of delay of a stream that was sent over one of `connections`, largest delay first.
fn explain(
    tcp: &TcpAnalyzer,
    connections: &[ObservedConnection],
    session: &Session,
    samples: &Samples,
    lead: u64,
) -> Option<DelayCauses> {
    let spec = &session.spec;
    if spec.transport() != Transport::Tcp {
        return None;
    }
    let up = spec.direction() == Direction::Up;
    let data = |c: &&ObservedConnection| if up { c.up.unique_bytes } else { c.down.unique_bytes };
    let history = tcp.delivery_history(connections.iter().max_by_key(data)?, up)?;
    let framing = RecordFraming { lead, length: spec.payload().into() };
    let observed =
        |p: AcceptedPacket| ObservedRecord { seq: p.seq, sent: WallTime(p.sent), delay: Span(p.delay) };
    let records: Vec<_> = samples.iter().map(observed).collect();
    // This host is one end of the stream, so packets are captured just after sending or just before
    // receiving.
    history.explain(if up { CaptureSide::Sender } else { CaptureSide::Receiver }, framing, &records)
}

/// Returns the addresses and ports of this host and of the server, as the kernel's route selects them.
fn ends(request: &TestRequest) -> Result<(SocketAddr, SocketAddr), StreamCaptureError> {
    let host = &request.host;
    let failed = |doing| move |source| StreamCaptureError::Route { doing, host: host.clone(), source };
    let fits = |a: &SocketAddr| match request.family {
        Some(AddressFamily::V4) => a.is_ipv4(),
        Some(AddressFamily::V6) => a.is_ipv6(),
        None => request.bind.is_none_or(|b| b.is_ipv4() == a.is_ipv4()),
    };
    let mut addresses =
        (host.as_str(), request.control_port).to_socket_addrs().map_err(failed("looking up"))?.filter(fits);
    let there = addresses.next().ok_or_else(|| StreamCaptureError::Family(host.clone()))?;
    let any: IpAddr = if there.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let route = || -> io::Result<SocketAddr> {
        let probe = UdpSocket::bind((request.bind.unwrap_or(any), 0))?;
        // Connecting a UDP socket sends nothing; the kernel only selects the route.
        probe.connect(there)?;
        probe.local_addr()
    };
    Ok((route().map_err(failed("finding the route to"))?, there))
}

fn run(
    mut capture: InterfaceCapture,
    stream: &CapturedStream,
    mut writer: Option<PcapWriter<SaveTo>>,
    stop: &AtomicBool,
) -> CapturedSoFar {
    let mut seen = CapturedSoFar { tcp: TcpAnalyzer::with_history(), ..CapturedSoFar::default() };
    let mut unsaved = None;
    loop {
        let last = stop.load(Ordering::Relaxed);
        if last {
            capture.settle();
        }
        let taken = capture.poll(Duration::ZERO, |f| {
            if seen.take(&f, stream)
                && let Some(w) = &mut writer
                && let Err(e) = w.write(&f)
            {
                unsaved.get_or_insert(e);
            }
        });
        match taken {
            Ok(0) if last => break,
            Ok(0) => std::thread::sleep(KERNEL_BATCH_TIME),
            Ok(_) => {}
            Err(e) => {
                seen.notes.push(e.to_string());
                break;
            }
        }
    }
    if let Some(e) = writer.and_then(|mut w| w.flush().err()).or(unsaved) {
        seen.notes.push(format!("the capture was not saved completely: {e}"));
    }
    seen.drops = capture.drops();
    seen
}

impl CapturedSoFar {
    /// Processes a frame. Returns true if the frame belongs to the stream.
    fn take(&mut self, f: &Frame<'_>, stream: &CapturedStream) -> bool {
        let Ok(p) = f.packet() else { return false };
        if !stream.owns(&p) {
            return false;
        }
        let counts = &mut self.counts[usize::from(stream.is_received(&p))];
        counts.packets += 1;
        counts.ip_bytes += u64::from(p.length);
        counts.longest = counts.longest.max(p.length);
        counts.fragments += u64::from(p.is_later_fragment() || p.more_fragments);
        self.tcp.push(f.at, &p).for_each(drop);
        true
    }
}
