//! Measures how far the latency that a test reports differs from packet captures at the two hosts. Two network
//! namespaces are joined by a veth pair, with an AF_PACKET capture in each (needs root): a packet's true delay is the
//! time between its capture where it leaves and its capture where it arrives. The same is done for ICMP round trips,
//! from the capture of the request to that of the answer.
//!
//! `cargo run --release -p jitlat-benches --bin bias`

use jitlat_core::observer::{Event, Observer};
use jitlat_core::record::Moment;
use jitlat_core::spec::{Direction, Schedule, TestSpec, Transport};
use jitlat_core::{PacketRecord, Span, StampSource};
use jitlat_net::client::{self, TestRequest};
use jitlat_net::pace::{Pacing, SendSettings};
use jitlat_net::server::{JitlatServer, ServerSettings};
use jitlat_net::stamp::StampMode;
use jitlat_net::twoway;
use jitlat_net::twoway::client::TwoWayLink;
use jitlat_net::twoway::socket::{Carrier, Marking};
use jitlat_proto::echo::{Echo, HEADER_LEN as ECHO_HEADER, IpVersion};
use jitlat_proto::jitlat::packet::PacketHeader;
use jitlat_proto::jitlat::{ServerLimits, TestTerms};
use jitlat_proto::twoway::{Overdue, PingPlan};
use nix::cmsg_space;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeValLike};
use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::IoSliceMut;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sequence number and time in ns.
type RoundTrips = Vec<(i64, i64)>;
/// Time of each packet, by its number.
type Capture = HashMap<i64, i64>;
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const HOSTS: [(&str, Ipv4Addr); 2] =
    [("jitlat-bias-a", Ipv4Addr::new(10, 77, 3, 1)), ("jitlat-bias-b", Ipv4Addr::new(10, 77, 3, 2))];
const PACKETS: u64 = 4000;
const PERIOD: Span = Span::millis(1);

fn main() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        return Err("network namespaces and captures need root".into());
    }
    let _net = Net::build()?;
    println!("one way over a veth pair, {PACKETS} packets of 80 bytes, one every ms; in us");
    println!(
        "{:>9} | {:>19} | {:>21} | {:>21}",
        "", "capture to capture", "kernel stamps minus", "program's own minus"
    );
    println!(
        "{:>9} | {:>9} {:>9} | {:>10} {:>10} | {:>10} {:>10}",
        "direction", "median", "99 %", "median", "99 %", "median", "99 %"
    );
    for direction in [Direction::Up, Direction::Down] {
        let run = run(direction)?;
        let sender = usize::from(direction == Direction::Down);
        let (left, came) = (&run.captures[sender], &run.captures[1 - sender]);
        let mut truth = Vec::new();
        let (mut kernel, mut user) = (Vec::new(), Vec::new());
        for r in &run.records {
            let (Some(out), Some(back)) = (left.get(&r.seq), came.get(&r.seq)) else { continue };
            let wire = back - out;
            truth.push(wire);
            let from_kernel = [Moment::Sent, Moment::Arrived]
                .iter()
                .all(|m| r.stamp(*m).is_some_and(|s| s.source == StampSource::Kernel));
            if let (true, Some(delay), Some(sent), Some(arrived)) =
                (from_kernel, r.delay(), r.send_lag(), r.receive_lag())
            {
                kernel.push(delay.0 - wire);
                user.push((delay + sent + arrived).0 - wire);
            }
        }
        let [t, k, u] = [truth, kernel, user].map(Figures::of);
        let name = format!("{direction:?}").to_lowercase();
        println!(
            "{name:>9} | {:>9.2} {:>9.2} | {:>10.2} {:>10.2} | {:>10.2} {:>10.2}   ({} of {PACKETS} matched, {} with kernel stamps)",
            t.median, t.p99, k.median, k.p99, u.median, u.p99, t.count, k.count
        );
    }
    for stamps in [StampMode::Kernel, StampMode::User] {
        let (mut truth, mut error) = (Vec::new(), Vec::new());
        let (round_trips, seen) = echoes(stamps)?;
        for (seq, took) in round_trips {
            let (Some(out), Some(back)) = (seen.get(&(2 * seq)), seen.get(&(2 * seq + 1))) else { continue };
            truth.push(back - out);
            error.push(took - (back - out));
        }
        let [t, e] = [truth, error].map(Figures::of);
        println!(
            "ICMP round trip: capture {:.2} us at the median, {:.2} at 99 %; {stamps:?} stamps minus that {:.2}, {:.2} \
             ({} of {PACKETS} matched)",
            t.median, t.p99, e.median, e.p99, e.count
        );
    }
    Ok(())
}

/// Returns round trips by sequence number as a two-way test reports them, and times from a capture at this host:
/// requests under twice their number, answers under one more.
fn echoes(stamps: StampMode) -> Result<(RoundTrips, Capture)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (up, ready) = std::sync::mpsc::channel();
        let flag = &stop;
        let captured = scope.spawn(move || -> Result<Capture> {
            enter(0)?;
            let tap = tap()?;
            let _ = up.send(());
            capture(&tap, flag, echo)
        });
        let measured = scope.spawn(move || -> Result<RoundTrips> {
            enter(0)?;
            let _ = ready.recv_timeout(std::time::Duration::from_secs(5));
            let period = PERIOD;
            let spec = TestSpec::new(Direction::Up, Transport::Udp, PACKETS, 64, period, Schedule::Periodic)?;
            let plan = PingPlan { spec, wait: None, timeout: Span::seconds(1), overdue: Overdue::Space };
            let link = TwoWayLink {
                to: (HOSTS[1].1, 0).into(),
                carrier: Carrier::Icmp,
                marking: Marking::default(),
                stamps,
                pacing: Pacing::default(),
                start: None,
                live: None,
            };
            let id = 77;
            let make = |kernel: bool| Echo::new(IpVersion::V4, (!kernel).then_some(id), 1, 64 - ECHO_HEADER);
            let outcome =
                twoway::run(make, plan, &link, &AtomicBool::new(false)).map_err(|e| e.to_string())?.outcome;
            let round_trip = |r: &PacketRecord| {
                let mut r = *r;
                outcome.sent.join(&mut r);
                Some((r.seq, (r.time(Moment::Returned)? - r.sent()?).0))
            };
            Ok(outcome.records.iter().filter_map(round_trip).collect())
        });
        let measured = measured.join().map_err(|_| "the test panicked");
        stop.store(true, Ordering::Relaxed);
        let captured = captured.join().map_err(|_| "the capture panicked")??;
        Ok((measured??, captured))
    })
}

/// Returns twice the sequence number of an echo request, or one more for an answer.
fn echo(ip: &[u8]) -> Option<i64> {
    const ICMP: u8 = 1;
    let header = usize::from(ip.first().filter(|b| *b >> 4 == 4)? & 15) * 4;
    let message = ip.get(header..).filter(|_| ip.get(9) == Some(&ICMP))?;
    let answer = match message.first()? {
        8 => 0,
        0 => 1,
        _ => return None,
    };
    let seq = i64::from(u16::from_be_bytes([*message.get(6)?, *message.get(7)?]));
    Some(2 * seq + answer)
}

struct Figures {
    count: usize,
    median: f64,
    p99: f64,
}

impl Figures {
    fn of(mut values: Vec<i64>) -> Figures {
        values.sort_unstable();
        let at = |share: f64| {
            let i = (values.len().saturating_sub(1) as f64 * share) as usize;
            values.get(i).map_or(f64::NAN, |v| *v as f64 / 1000.0)
        };
        Figures { count: values.len(), median: at(0.5), p99: at(0.99) }
    }
}

/// The two namespaces, deleted when dropped.
struct Net;

impl Net {
    fn build() -> Result<Net> {
        let [(a, at_a), (b, at_b)] = HOSTS;
        let net = Net;
        for command in [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("link add jba netns {a} type veth peer name jbb netns {b}"),
            format!("-n {a} addr add {at_a}/24 dev jba"),
            format!("-n {b} addr add {at_b}/24 dev jbb"),
            format!("-n {a} link set jba up"),
            format!("-n {b} link set jbb up"),
        ] {
            let done = Command::new("ip").args(command.split(' ')).output()?;
            if !done.status.success() {
                return Err(format!("ip {command}: {}", String::from_utf8_lossy(&done.stderr)).into());
            }
        }
        Ok(net)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for (name, _) in HOSTS {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// Moves this thread, and those it starts from now on, to host `i`.
fn enter(i: usize) -> Result<()> {
    Ok(setns(File::open(format!("/run/netns/{}", HOSTS[i].0))?, CloneFlags::CLONE_NEWNET)?)
}

#[derive(Default)]
struct Keep(Vec<PacketRecord>);

impl Observer for Keep {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Records { records, .. } = event {
            self.0.extend_from_slice(records);
        }
    }
}

struct Run {
    records: Vec<PacketRecord>,
    /// Time of each data packet by sequence number, for each host.
    captures: [Capture; 2],
}

fn run(direction: Direction) -> Result<Run> {
    let stop = AtomicBool::new(false);
    let (up, ready) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let captures = [0, 1].map(|i| {
            let (up, stop) = (up.clone(), &stop);
            scope.spawn(move || -> Result<Capture> {
                enter(i)?;
                let tap = tap()?;
                let _ = up.send(());
                capture(&tap, stop, data_packet)
            })
        });
        let (serving, flag) = (up.clone(), &stop);
        let server = scope.spawn(move || -> Result<()> {
            enter(1)?;
            let service = ServerSettings {
                bind: vec![(HOSTS[1].1, jitlat_core::spec::CONTROL_PORT).into()],
                test_port: jitlat_core::spec::TEST_PORT,
                limits: ServerLimits::default(),
                keys: Default::default(),
                pacing: Pacing::default(),
                priority: None,
            };
            let _server = JitlatServer::bind(service)?.start()?;
            let _ = serving.send(());
            while !flag.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Ok(())
        });
        let client = scope.spawn(move || -> Result<Vec<PacketRecord>> {
            enter(0)?;
            let spec = TestSpec::new(direction, Transport::Udp, PACKETS, 80, PERIOD, Schedule::Periodic)?;
            let request = TestRequest {
                host: HOSTS[1].1.to_string(),
                control_port: jitlat_core::spec::CONTROL_PORT,
                family: None,
                bind: None,
                terms: TestTerms::new(vec![spec]),
                sending: SendSettings::default(),
                limit: None,
                times: None,
            };
            // Waits for both captures and the server; a failed one reports its error below.
            for _ in 0..3 {
                let _ = ready.recv_timeout(std::time::Duration::from_secs(5));
            }
            let mut keep = Keep::default();
            client::run(&request, &AtomicBool::new(false), &mut keep)?;
            Ok(keep.0)
        });
        let records = client.join().map_err(|_| "the client panicked");
        stop.store(true, Ordering::Relaxed);
        server.join().map_err(|_| "the server panicked")??;
        let [a, b] = captures.map(|c| c.join().map_err(|_| "a capture panicked"));
        Ok(Run { records: records??, captures: [a??, b??] })
    })
}

/// Opens a socket that receives every IPv4 packet of the namespace, stamped where drivers deliver or accept it.
fn tap() -> Result<OwnedFd> {
    let tap =
        socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
    setsockopt(&tap, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&tap, sockopt::RcvBufForce, &(8 << 20))?;
    Ok(tap)
}

/// Returns the time when each packet that `number` recognises first passed, by its number.
fn capture(tap: &OwnedFd, stop: &AtomicBool, number: fn(&[u8]) -> Option<i64>) -> Result<Capture> {
    let mut seen = HashMap::new();
    let mut packet = [0u8; 256];
    let mut control = cmsg_space!(TimeSpec);
    loop {
        let mut parts = [IoSliceMut::new(&mut packet)];
        // A waiting reader would be woken between the capture's stamp and the kernel's, which takes microseconds; a
        // reader that polls now and then, as tcpdump does with its ring, disturbs the measurement less.
        let received =
            recvmsg::<LinkAddr>(tap.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::MSG_DONTWAIT);
        let Ok(message) = received else {
            if stop.load(Ordering::Relaxed) {
                return Ok(seen);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            continue;
        };
        let at = message.cmsgs()?.find_map(|c| match c {
            ControlMessageOwned::ScmTimestampns(t) => Some(t.num_nanoseconds()),
            _ => None,
        });
        let length = message.bytes;
        if let (Some(at), Some(seq)) = (at, number(&packet[..length])) {
            seen.entry(seq).or_insert(at);
        }
    }
}

/// Returns the sequence number of a data packet of the test stream in IPv4 and UDP.
fn data_packet(ip: &[u8]) -> Option<i64> {
    const UDP: u8 = 17;
    let header = usize::from(ip.first().filter(|b| *b >> 4 == 4)? & 15) * 4;
    let payload = ip.get(header + 8..)?;
    let stream = ip.get(9) == Some(&UDP) && payload.len() == 80;
    PacketHeader::parse(payload).filter(|h| stream && h.seq >= 0).map(|h| h.seq.into())
}
