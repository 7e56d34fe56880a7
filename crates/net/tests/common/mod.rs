//! A server and clients in one process, over loopback.
#![allow(dead_code, reason = "each test binary uses its part")]

use jitlat_core::observer::{Event, Observer, StreamProgress};
use jitlat_core::{Direction, PacketRecord, Schedule, Session, Span, TestSpec, Transport};
use jitlat_net::RunningService;
use jitlat_net::client::{self, ClientError, Measured, TestRequest};
use jitlat_net::pace::{Pacing, SendSettings};
use jitlat_net::server::{JitlatServer, ServerSettings};
use jitlat_proto::jitlat::{PresharedKey, ServerLimits, TestTerms};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Returns a port that is free for both transports.
pub fn free_port(ip: IpAddr) -> u16 {
    for _ in 0..100 {
        let udp = UdpSocket::bind((ip, 0)).unwrap();
        let port = udp.local_addr().unwrap().port();
        if TcpListener::bind((ip, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port on {ip}");
}

pub struct Serving {
    pub address: SocketAddr,
    pub test_port: u16,
    service: Option<RunningService>,
}

pub fn serve() -> Serving {
    serve_with(LOCAL, ServerLimits::default(), None)
}

pub fn serve_with(ip: IpAddr, limits: ServerLimits, key: Option<&str>) -> Serving {
    let test_port = free_port(ip);
    let service = ServerSettings {
        bind: vec![SocketAddr::new(ip, 0)],
        test_port,
        limits,
        keys: key.map(key_of).into(),
        pacing: Pacing::default(),
        priority: None,
    };
    let service = JitlatServer::bind(service).unwrap().start().unwrap();
    Serving { address: service.addresses()[0], test_port, service: Some(service) }
}

pub fn key_of(text: &str) -> PresharedKey {
    PresharedKey::from_file_contents(text.as_bytes()).unwrap()
}

impl Serving {
    pub fn shut_down(&mut self) {
        self.service = None;
    }

    /// Returns the specification of a stream between a client and this server's test port.
    pub fn spec(&self, direction: Direction, transport: Transport, packets: u64, period: Span) -> TestSpec {
        let mut spec = TestSpec::new(direction, transport, packets, 80, period, Schedule::Periodic).unwrap();
        match direction {
            Direction::Up => spec.dst_port = self.test_port,
            Direction::Down => spec.src_port = self.test_port,
        }
        spec
    }

    pub fn request(&self, specs: Vec<TestSpec>) -> TestRequest {
        TestRequest {
            host: self.address.ip().to_string(),
            control_port: self.address.port(),
            family: None,
            bind: None,
            terms: TestTerms::new(specs),
            sending: SendSettings::default(),
            limit: None,
            times: None,
        }
    }
}

/// Collects a test's records, and stops it once `stop_after` packets have been sent or received.
#[derive(Default)]
pub struct RecordCollector {
    pub records: [Vec<PacketRecord>; 2],
    pub live: [Vec<PacketRecord>; 2],
    pub missed: u64,
    /// Time for which the observer blocks on the first rows that arrive.
    pub slow: std::time::Duration,
    pub stop_after: Option<u32>,
    pub stop: AtomicBool,
    /// Function that is called once, at the first progress past `stop_after`, instead of stopping.
    pub at_stop: Option<Box<dyn FnOnce()>>,
}

struct Observing<'a>(&'a mut RecordCollector, Arc<AtomicBool>);

impl Observer for Observing<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Progress(streams) => self.progress(streams),
            Event::Arrived { stream, records } => {
                self.0.live[stream].extend_from_slice(records);
                // A slow observer.
                jitlat_waiting::within(std::mem::take(&mut self.0.slow), || false);
            }
            Event::Missed { packets, .. } => self.0.missed += packets,
            Event::Records { stream, records, .. } => self.0.records[stream].extend_from_slice(records),
            _ => {}
        }
    }
}

impl Observing<'_> {
    fn progress(&mut self, streams: &[StreamProgress]) {
        let Some(after) = self.0.stop_after else { return };
        if streams.iter().any(|p| p.sent.max(p.received) >= after) {
            // Only once: a second stop would end the test at once.
            self.0.stop_after = None;
            match self.0.at_stop.take() {
                Some(act) => act(),
                None => self.1.store(true, Ordering::Relaxed),
            }
        }
    }
}

pub fn run(request: &TestRequest, collector: &mut RecordCollector) -> Result<Measured, ClientError> {
    let stop = Arc::new(AtomicBool::new(false));
    client::run(request, &stop, &mut Observing(collector, Arc::clone(&stop)))
}

/// Runs a test that must succeed; returns its sessions and the records of each flow.
pub fn measure(request: &TestRequest) -> (Vec<Session>, [Vec<PacketRecord>; 2]) {
    let mut collector = RecordCollector::default();
    let measured = run(request, &mut collector).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        (measured.ending, &measured.reason),
        (jitlat_core::session::Ending::Complete, &None),
        "{measured:?}"
    );
    (measured.sessions, collector.records)
}

/// Returns the sequence numbers, sorted. Loopback does not reorder, but the tests do not depend on this.
pub fn seqs(records: &[PacketRecord]) -> Vec<i64> {
    let mut seqs: Vec<i64> = records.iter().map(|r| r.seq).collect();
    seqs.sort_unstable();
    seqs
}

pub fn all(n: i64) -> Vec<i64> {
    (0..n).collect()
}
