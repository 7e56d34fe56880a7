//! `jitlat HOST --capture`: the test's own stream, watched where it leaves and reaches this host, so that a test
//! over TCP explains its own latency.

use crate::options::one_way::{NO_FILE, OneWayArgs};
use crate::present::{Extra, Run};
use crate::tcp;
use anyhow::{Context, Result, anyhow};
use jitlat_core::metrics::classify::Packet;
use jitlat_core::passive::packet::decode;
use jitlat_core::passive::tcp::{
    CaptureSide, Connection, DelayCause, DelayCauses, Framing, ObservedRecord, TcpAnalyzer,
};
use jitlat_core::passive::{LinkType, Packet as Captured, Prefix};
use jitlat_core::spec::{Direction, HEADER_LEN, Transport};
use jitlat_core::time::{Span, WallTime};
use jitlat_core::units::eng4;
use jitlat_net::capture::live::{Live, Settings, interface_of};
use jitlat_net::capture::{Frame, PcapWriter};
use jitlat_net::client::{Family, TestRequest};
use jitlat_proto::jitlat::Dialect;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The kernel keeps packets for so long, so that no thread wakes with each of them.
const NAP: Duration = Duration::from_millis(20);

/// One direction of the stream on the wire.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    packets: u64,
    bytes: u64,
    fragments: u64,
    longest: u32,
}

#[derive(Default)]
struct Seen {
    tcp: TcpAnalyzer,
    /// From this host, and to it.
    lanes: [Lane; 2],
    drops: u64,
    notes: Vec<String>,
}

/// A watch that is being kept.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
    interface: String,
    file: Option<PathBuf>,
    /// Bytes on a TCP test connection before its first packet.
    lead: u64,
}

/// One that has ended.
pub struct Watched {
    seen: Seen,
    interface: String,
    file: Option<PathBuf>,
    lead: u64,
}

struct Stream {
    peer: IpAddr,
    port: u16,
    protocol: u8,
}

impl Stream {
    fn owns(&self, p: &Captured<'_>) -> bool {
        let port = || p.ports().is_none_or(|(a, b)| a == self.port || b == self.port);
        p.protocol == self.protocol && (p.src() == self.peer || p.dst() == self.peer) && port()
    }
}

impl Watch {
    /// Begins to watch, if `args` ask for it.
    ///
    /// # Errors
    /// What is missing to capture, in words, before anything is sent.
    pub fn start(request: &TestRequest, args: &OneWayArgs) -> Result<Option<Watch>> {
        let Some(file) = &args.capture else { return Ok(None) };
        let file = Some(file).filter(|f| f.as_os_str() != NO_FILE).cloned();
        let (here, there) = ends(request)?;
        let interface = match here.ip() {
            ip if ip.is_loopback() => "lo".to_owned(),
            ip => {
                interface_of(ip).ok_or_else(|| anyhow!("no interface of this host has the address {ip}"))?
            }
        };
        let live = Live::open(&interface, Settings::default()).context("--capture")?;
        live.limit_to(&[Prefix::from(there.ip())])?;
        let writer = file.as_deref().map(|f| create(f, live.link(), live.snap())).transpose()?;
        let spec = request.specs.first().ok_or_else(|| anyhow!("a test has a stream"))?;
        let protocol = if args.stream.tcp { 6 } else { 17 };
        let stream = Stream { peer: there.ip(), port: spec.dst_port, protocol };
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || watch(live, &stream, writer, &told));
        let lead = if request.dialect == Dialect::V3 { HEADER_LEN.into() } else { 0 };
        Ok(Some(Watch { stop, thread, interface, file, lead }))
    }

    /// Ends it.
    pub fn finish(self) -> Result<Watched> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.join().map_err(|_| anyhow!("the capture failed"))?;
        Ok(Watched { seen, interface: self.interface, file: self.file, lead: self.lead })
    }
}

impl Watched {
    /// Tells what it saw of the test that gave `runs`.
    pub fn tell(self, runs: &[Run]) -> Result<Extra> {
        let seen = self.seen;
        let mut connections = seen.tcp.finish();
        connections.sort_by_key(|c| std::cmp::Reverse(c.up.bytes + c.down.bytes));
        let [out, back] = seen.lanes;
        let mut text = format!("\nThe stream at {} of this host\n", self.interface);
        for (lane, name) in [(out, "sent"), (back, "received")] {
            if lane.packets > 0 {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "  {} packets {name}, {} bytes", lane.packets, lane.bytes);
            }
            if lane.fragments > 0 {
                let _ = writeln!(
                    text,
                    "  of these {} fragments: the packets do not fit the path",
                    lane.fragments
                );
            }
        }
        if !connections.is_empty() {
            text.push_str(&tcp::text::summary(&connections, &[], 0, seen.tcp.segments()));
        }
        let explained: Vec<_> = runs
            .iter()
            .filter_map(|run| Some((run, explain(&seen.tcp, &connections, run, self.lead)?)))
            .collect();
        for (run, explained) in &explained {
            text.push_str(&table(run, explained));
        }
        let mut notes = seen.notes;
        if explained.is_empty() && !connections.is_empty() && runs.iter().any(|r| !r.samples.is_empty()) {
            notes.push("the capture does not hold the test's connection from its beginning: no delay can be assigned".to_owned());
        }
        if seen.drops > 0 {
            notes.push(format!("the capture lost {} packets itself; they look like gaps", seen.drops));
        }
        if out.longest.max(back.longest) > 9000 {
            notes.push(format!(
                "segments of up to {} bytes are cut by the adapter, and counted here before that; to see them as \
                 the path does: ethtool -K {} tso off gso off gro off",
                out.longest.max(back.longest),
                self.interface
            ));
        }
        if let Some(file) = &self.file {
            let _ = writeln!(text, "  saved in {}", file.display());
        }
        for note in &notes {
            let _ = writeln!(text, "note: {note}");
        }
        let lane = |l: Lane| json!({ "packets": l.packets, "ip_bytes": l.bytes, "fragments": l.fragments, "longest": l.longest });
        let json = json!({
            "interface": self.interface,
            "file": self.file,
            "sent": lane(out),
            "received": lane(back),
            "capture_drops": seen.drops,
            "tcp_segments": seen.tcp.segments(),
            "connections": tcp::described(&connections, &[])?,
            "delays": explained.iter().map(|(run, e)| json!({
                "direction": run.session.spec.direction(),
                "explained": e,
            })).collect::<Vec<_>>(),
            "notes": notes,
        });
        Ok(Extra { key: "capture", text, json })
    }
}

/// What delayed the packets of `run`, as far as they went over one of `connections`, the largest first.
fn explain(tcp: &TcpAnalyzer, connections: &[Connection], run: &Run, lead: u64) -> Option<DelayCauses> {
    let spec = &run.session.spec;
    let up = spec.direction() == Direction::Up;
    if spec.transport() != Transport::Tcp {
        return None;
    }
    let data = |c: &&Connection| if up { c.up.unique_bytes } else { c.down.unique_bytes };
    let delivery_history = tcp.delivery_history(connections.iter().max_by_key(data)?, up)?;
    let framing = Framing { lead, length: spec.payload().into() };
    let observed = |p: Packet| ObservedRecord { seq: p.seq, sent: WallTime(p.sent), delay: Span(p.delay) };
    let records: Vec<_> = run.samples.iter().map(observed).collect();
    // Captured where it leaves, or where it comes in: here either way.
    delivery_history.explain(if up { CaptureSide::Sender } else { CaptureSide::Receiver }, framing, &records)
}

fn table(run: &Run, e: &DelayCauses) -> String {
    let up = run.session.spec.direction() == Direction::Up;
    let mut t = format!(
        "\nWhat delayed the packets {}: {} of latency above the least, of {} packets\n  {:<44}{:>8}{:>9}{:>11}\n",
        if up { "to the server" } else { "from the server" },
        eng4(e.above_minimum_ns),
        e.packets,
        "",
        "mostly",
        "share",
        "longest"
    );
    for c in &e.causes {
        let what = match c.cause {
            DelayCause::WindowFull => "waited here, the receiver's window was full",
            DelayCause::Sender => "waited here for another reason",
            DelayCause::Fast => "sent again after duplicate acknowledgements",
            DelayCause::Timeout => "sent again after silence",
            DelayCause::Behind => "waited behind data that was sent again",
            DelayCause::Receiver => "read late at this host",
            DelayCause::Path => "the path and the far host",
        };
        let share = c.share.map_or("-".to_owned(), |s| format!("{:.1} %", 100.0 * s));
        // Writing to a string cannot fail.
        let _ = writeln!(t, "  {what:<44}{:>8}{share:>9}{:>11}", c.packets, eng4(c.longest_ns));
    }
    t
}

/// This host's address and the server's, as the route between them has it.
fn ends(request: &TestRequest) -> Result<(SocketAddr, SocketAddr)> {
    let host = &request.host;
    let fits = |a: &SocketAddr| match request.family {
        Some(Family::V4) => a.is_ipv4(),
        Some(Family::V6) => a.is_ipv6(),
        None => request.bind.is_none_or(|b| b.is_ipv4() == a.is_ipv4()),
    };
    let mut addresses = (host.as_str(), request.control_port)
        .to_socket_addrs()
        .with_context(|| format!("looking up {host}"))?
        .filter(fits);
    let there = addresses.next().ok_or_else(|| anyhow!("{host} has no address of that family"))?;
    let any: IpAddr = if there.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let probe = UdpSocket::bind((request.bind.unwrap_or(any), 0))?;
    // Nothing is sent: the kernel only chooses the route.
    probe.connect(there).with_context(|| format!("there is no route to {there}"))?;
    Ok((probe.local_addr()?, there))
}

type Writer = PcapWriter<BufWriter<File>>;

fn create(path: &Path, link: LinkType, snap: u32) -> Result<Writer> {
    let file = File::create_new(path).with_context(|| format!("creating the capture {}", path.display()))?;
    PcapWriter::new(BufWriter::with_capacity(1 << 18, file), link, snap)
        .with_context(|| format!("writing the capture {}", path.display()))
}

fn watch(mut live: Live, stream: &Stream, mut writer: Option<Writer>, stop: &AtomicBool) -> Seen {
    let mut seen = Seen { tcp: TcpAnalyzer::with_history(), ..Seen::default() };
    let mut trouble = None;
    loop {
        let last = stop.load(Ordering::Relaxed);
        let polled = live.poll(Duration::ZERO, |f| {
            if seen.frame(&f, stream)
                && let Some(w) = &mut writer
                && let Err(e) = w.write(&f)
            {
                trouble.get_or_insert(e);
            }
        });
        match polled {
            Ok(0) if last => break,
            Ok(0) => std::thread::sleep(NAP),
            Ok(_) => {}
            Err(e) => {
                seen.notes.push(e.to_string());
                break;
            }
        }
    }
    if let Some(e) = writer.and_then(|mut w| w.flush().err()).or(trouble) {
        seen.notes.push(format!("the capture could not be saved whole: {e}"));
    }
    seen.drops = live.drops();
    seen
}

impl Seen {
    /// Takes a frame; whether it is one of the stream's.
    fn frame(&mut self, f: &Frame<'_>, stream: &Stream) -> bool {
        let Ok(p) = decode(f.link, f.data, f.wire_length) else { return false };
        if !stream.owns(&p) {
            return false;
        }
        let back = if p.src() == p.dst() {
            p.ports().is_some_and(|(from, _)| from == stream.port)
        } else {
            p.src() == stream.peer
        };
        let lane = &mut self.lanes[usize::from(back)];
        lane.packets += 1;
        lane.bytes += u64::from(p.length);
        lane.longest = lane.longest.max(p.length);
        lane.fragments += u64::from(p.is_later_fragment() || p.more_fragments);
        self.tcp.push(f.at, &p).for_each(drop);
        true
    }
}
