//! Runs a real one-way test between a client and a server in this process, over loopback.

use jitlat_core::observer::{Event, Observer};
use jitlat_core::spec::{Direction, Schedule, TestSpec, Transport};
use jitlat_core::{PacketRecord, Span, StampSource};
use jitlat_net::RunningService;
use jitlat_net::client::{self, TestRequest};
use jitlat_net::pace::{Pacing, SendSettings};
use jitlat_net::server::{JitlatServer, ServerSettings};
use jitlat_proto::jitlat::{ServerLimits, TestTerms};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Result of a test.
pub struct Outcome {
    /// Records in arrival order.
    pub records: Vec<PacketRecord>,
    /// Processor time of this process in s while the stream ran: sender, receiver, recording.
    pub cpu: f64,
}

/// Processor time of this process in s.
pub fn cpu() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0.0, |u| (u.user_time().num_microseconds() + u.system_time().num_microseconds()) as f64 / 1e6)
}

struct Watch<'a> {
    began: &'a AtomicBool,
    records: Vec<PacketRecord>,
    from: f64,
    to: Option<f64>,
}

impl Observer for Watch<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started(_) => {
                self.from = cpu();
                self.began.store(true, Ordering::Release);
            }
            Event::Collecting { .. } => {
                self.to.get_or_insert_with(cpu);
            }
            Event::Records { records, .. } => {
                self.to.get_or_insert_with(cpu);
                self.records.extend_from_slice(records);
            }
            _ => {}
        }
    }
}

/// Starts a server on a free port of loopback; returns it with that port.
fn server() -> Result<(RunningService, u16), String> {
    let service = ServerSettings {
        bind: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        test_port: jitlat_core::spec::TEST_PORT,
        limits: ServerLimits { rate: 10_000_000, bandwidth: 100_000_000_000, ..ServerLimits::default() },
        keys: Default::default(),
        pacing: Pacing::default(),
        priority: None,
    };
    let server = JitlatServer::bind(service).and_then(JitlatServer::start).map_err(|e| e.to_string())?;
    let port = server.addresses().first().map(SocketAddr::port).ok_or("no address")?;
    Ok((server, port))
}

/// A server in a separate process, which is this program called with `serve`; ended when dropped.
pub struct ServerProcess {
    child: Child,
    /// Control port of the server.
    pub port: u16,
}

impl ServerProcess {
    /// Starts the server.
    pub fn start() -> Result<ServerProcess, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?).arg("serve").stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take();
        let mut process = ServerProcess { child, port: 0 };
        let mut line = String::new();
        BufReader::new(output.ok_or("the server says nothing")?).read_line(&mut line)?;
        process.port = line.trim().parse()?;
        Ok(process)
    }

    /// Runs the server process: serves until it is ended; the port is the first line of standard output.
    pub fn run() -> Result<(), Box<dyn Error>> {
        let (_server, port) = server()?;
        println!("{port}");
        loop {
            std::thread::park();
        }
    }

    /// Process id.
    pub fn id(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a test of `packets` packets of 80 bytes towards a server of this process on loopback.
pub fn run(packets: u64, period: Span, pacing: Pacing, stamps: StampSource) -> Result<Outcome, String> {
    let (_server, port) = server()?;
    test(port, packets, period, pacing, stamps, false, &AtomicBool::new(false))
}

/// Runs a test of `packets` packets of 80 bytes towards a server at `port` of loopback. If `segmented`, several
/// packets may leave in one buffer. Sets `began` when the stream begins.
pub fn test(
    port: u16,
    packets: u64,
    period: Span,
    pacing: Pacing,
    stamps: StampSource,
    segmented: bool,
    began: &AtomicBool,
) -> Result<Outcome, String> {
    let spec = TestSpec::new(Direction::Up, Transport::Udp, packets, 80, period, Schedule::Periodic);
    let request = TestRequest {
        host: Ipv4Addr::LOCALHOST.to_string(),
        control_port: port,
        family: None,
        bind: None,
        terms: TestTerms { stamps, ..TestTerms::new(vec![spec.map_err(|e| e.to_string())?]) },
        sending: SendSettings { pacing, segmented, ..SendSettings::default() },
        limit: None,
        times: None,
    };
    let mut watch = Watch { began, records: Vec::new(), from: 0.0, to: None };
    client::run(&request, &AtomicBool::new(false), &mut watch).map_err(|e| e.to_string())?;
    let cpu = watch.to.unwrap_or(watch.from) - watch.from;
    Ok(Outcome { records: watch.records, cpu })
}
