//! Loopback baseline (metrics §22.3): the delay of a stream over this host's loopback interface, with the
//! packet size and period of the test, measured by the same code as the test.

use crate::client::{self, ClientError, TestRequest};
use crate::pace::{Pacing, SendSettings};
use crate::reflect::{Reflectors, StampReflector};
use crate::server::{JitlatServer, ServerError, ServerSettings};
use crate::stamp::StampMode;
use crate::twoway;
use crate::twoway::client::{PingError, TwoWayLink, TwoWayMeasured};
use crate::twoway::socket::{Carrier, Marking};
use jitlat_core::observer::Event;
use jitlat_core::{Direction, Dscp, PacketRecord, Session, StampSource, TestSpec};
use jitlat_proto::jitlat::{ServerLimits, TestTerms};
use jitlat_proto::policy::Policy;
use jitlat_proto::stamp;
use jitlat_proto::twoway::PingPlan;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Reason why the baseline could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopbackError {
    /// The server failed.
    #[error("serving on the loopback interface: {0}")]
    Server(#[from] ServerError),
    /// The client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The two-way test failed.
    #[error(transparent)]
    Ping(#[from] PingError),
    /// The reflector failed.
    #[error("{0}")]
    Reflector(String),
    /// No free port was found.
    #[error("no free port on the loopback interface (is it up?): {0}")]
    Port(#[from] io::Error),
}

/// Runs the stream `spec` from a client to a server, both in this program, over the loopback interface.
/// Returns the session and the records.
///
/// # Errors
/// [`LoopbackError`] if the interface is down or the test fails.
pub fn one_way(
    spec: &TestSpec,
    pacing: &Pacing,
    stamps: StampSource,
    stop: &AtomicBool,
) -> Result<(Vec<Session>, Vec<PacketRecord>), LoopbackError> {
    let test_port = UdpSocket::bind((LOOPBACK, 0))?.local_addr()?.port();
    let service = ServerSettings {
        bind: vec![SocketAddr::from((LOOPBACK, 0))],
        test_port,
        limits: ServerLimits::default(),
        keys: Default::default(),
        pacing: Pacing { lock_memory: false, ..pacing.clone() },
        priority: None,
    };
    let server = JitlatServer::bind(service)?.start()?;
    // The direction does not matter, because both ends are on this host.
    let mut spec = if spec.direction() == Direction::Up { spec.clone() } else { spec.reversed() };
    (spec.src_port, spec.dst_port) = (0, test_port);
    let request = TestRequest {
        host: LOOPBACK.to_string(),
        control_port: server.addresses().first().map_or(0, SocketAddr::port),
        family: None,
        bind: Some(IpAddr::V4(LOOPBACK)),
        terms: TestTerms { stamps, ..TestTerms::new(vec![spec]) },
        sending: SendSettings { pacing: pacing.clone(), ..SendSettings::default() },
        limit: None,
        times: None,
    };
    let mut collected = Vec::new();
    let mut collect = |event: &Event<'_>| {
        if let Event::Records { records, .. } = event {
            collected.extend_from_slice(records);
        }
    };
    let measured = client::run(&request, stop, &mut collect)?;
    Ok((measured.sessions, collected))
}

/// Measures STAMP round trips from this host to itself. The records have all four timestamps.
///
/// # Errors
/// [`LoopbackError`] if the interface is down or the test fails.
pub fn two_way(
    plan: PingPlan,
    pacing: &Pacing,
    stamps: StampMode,
    stop: &AtomicBool,
) -> Result<Vec<PacketRecord>, LoopbackError> {
    let mut reflectors = Reflectors::new(Policy::default())?;
    reflectors.start(&StampReflector { port: 0, ..StampReflector::default() }, &[LOOPBACK.into()]);
    let Some((_, to)) = reflectors.listening().first().copied() else {
        let why: Vec<String> = reflectors.failures().iter().map(ToString::to_string).collect();
        return Err(LoopbackError::Reflector(why.join("; ")));
    };
    let marking = Marking { dscp: Dscp::default(), ..Marking::default() };
    let link = TwoWayLink {
        to,
        carrier: Carrier::Udp,
        marking,
        stamps,
        pacing: pacing.clone(),
        start: None,
        live: None,
    };
    let size = usize::from(plan.spec.payload()).max(stamp::sender::StampOptions::default().size);
    let sender = stamp::StampSender::new(stamp::sender::StampOptions {
        size,
        ..stamp::sender::StampOptions::default()
    });
    let TwoWayMeasured { mut outcome, .. } = twoway::run(|_| sender, plan, &link, stop)?;
    let mut records = Vec::with_capacity(outcome.records.len());
    while let Some(mut block) = outcome.records.take_block() {
        block.iter_mut().for_each(|r| outcome.sent.join(r));
        records.extend(block);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::{Schedule, Span, Transport};

    #[test]
    fn nothing_is_lost_on_the_way_to_oneself() {
        let stop = AtomicBool::new(false);
        let spec = |payload| {
            TestSpec::new(Direction::Up, Transport::Udp, 20, payload, Span::millis(2), Schedule::Periodic)
                .unwrap()
        };
        let (sessions, records) = one_way(&spec(80), &Pacing::default(), StampSource::Kernel, &stop).unwrap();
        assert_eq!((sessions.len(), records.len()), (1, 20));
        assert!(records.iter().all(|r| r.delay().is_some_and(|d| d.0 >= 0)));
        let plan = PingPlan {
            spec: spec(44),
            wait: None,
            timeout: Span::seconds(2),
            overdue: jitlat_proto::twoway::Overdue::Space,
        };
        let records = two_way(plan, &Pacing::default(), StampMode::Kernel, &stop).unwrap();
        assert_eq!(records.len(), 20);
    }
}
