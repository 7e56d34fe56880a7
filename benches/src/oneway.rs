//! A real one-way test between a client and a server in this process, over loopback.

use jitlat_core::observer::{Event, Observer};
use jitlat_core::spec::{Direction, Schedule, TestSpec, Transport};
use jitlat_core::{PacketRecord, Source, Span};
use jitlat_net::client::{self, TestRequest};
use jitlat_net::pace::Pacing;
use jitlat_net::server::{Server, ServerSettings};
use jitlat_proto::jitlat::{Dialect, Limits};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a test brought.
pub struct Outcome {
    /// Records in arrival order.
    pub records: Vec<PacketRecord>,
    /// CPU seconds of this process while the stream ran: sender, receiver, recording.
    pub cpu: f64,
}

/// CPU seconds this process has used.
pub fn cpu() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0.0, |u| (u.user_time().num_microseconds() + u.system_time().num_microseconds()) as f64 / 1e6)
}

#[derive(Default)]
struct Watch {
    records: Vec<PacketRecord>,
    from: f64,
    to: Option<f64>,
}

impl Observer for Watch {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started(_) => self.from = cpu(),
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

/// Runs a test of `packets` packets of 80 bytes towards a server on loopback.
pub fn run(packets: u64, period: Span, pacing: Pacing, stamps: Source) -> Result<Outcome, String> {
    let spec = TestSpec::new(Direction::Up, Transport::Udp, packets, 80, period, Schedule::Periodic);
    let service = ServerSettings {
        bind: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        test_port: jitlat_core::spec::TEST_PORT,
        limits: Limits::default(),
        keys: Default::default(),
        pacing: Pacing::default(),
        priority: None,
    };
    let server = Server::bind(service).map_err(|e| e.to_string())?;
    let port = server.addresses().first().map(SocketAddr::port).ok_or("no address")?;
    let request = TestRequest {
        host: Ipv4Addr::LOCALHOST.to_string(),
        control_port: port,
        family: None,
        bind: None,
        specs: vec![spec.map_err(|e| e.to_string())?],
        dialect: Dialect::V3,
        key: None,
        pacing,
        priority: None,
        stamps,
        feedback: false,
    };
    let stop = AtomicBool::new(false);
    let mut watch = Watch::default();
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(&stop));
        let result = client::run(&request, &AtomicBool::new(false), &mut watch);
        stop.store(true, Ordering::Relaxed);
        result.map_err(|e| e.to_string())
    })?;
    let cpu = watch.to.unwrap_or(watch.from) - watch.from;
    Ok(Outcome { records: watch.records, cpu })
}
