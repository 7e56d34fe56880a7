//! Tests of control conversations and sessions over the loopback interface.

use super::*;
use crate::pace::Pacing;
use crate::reflect::Reflectors;
use crate::reflect::tests::await_answers;
use crate::stamp::StampMode;
use crate::twoway::client::{TwoWayLink, prepare, run_on};
use crate::twoway::socket::{Carrier, Marking};
use crate::twoway::twamp::{SessionRequest, TwampControl, TwampError};
use jitlat_core::record::Moment;
use jitlat_core::spec::{Direction, Schedule, Transport};
use jitlat_core::{Dscp, TestSpec};
use jitlat_proto::policy::{self, Policy};
use jitlat_proto::twamp::client::{AmpFailure, AmpStep};
use jitlat_proto::twamp::{SecurityMode, TwampSender, TwampSessionSpec, sender};
use jitlat_proto::twoway::PingPlan;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn serve(ip: &str, change: impl FnOnce(&mut TwampServer)) -> (Reflectors, SocketAddr) {
    serve_with(Policy::default(), ip, change)
}

fn serve_with(policy: Policy, ip: &str, change: impl FnOnce(&mut TwampServer)) -> (Reflectors, SocketAddr) {
    let mut server = TwampServer { port: 0, ..TwampServer::default() };
    change(&mut server);
    let mut reflectors = Reflectors::new(policy).unwrap();
    reflectors.start(&server, &[ip.parse().unwrap()]);
    assert!(reflectors.failures().is_empty(), "{:?}", reflectors.failures());
    let at = reflectors.listening()[0].1;
    (reflectors, at)
}

fn link(to: SocketAddr) -> TwoWayLink {
    let marking = Marking { ttl: Some(255), ..Marking::default() };
    TwoWayLink {
        to,
        carrier: Carrier::Udp,
        marking,
        stamps: StampMode::Kernel,
        pacing: Pacing::default(),
        start: None,
        live: None,
    }
}

fn session_spec(mode: SecurityMode, sender_port: u16, ip: IpAddr) -> TwampSessionSpec {
    TwampSessionSpec {
        sender_port,
        receiver_port: sender_port,
        addresses: (ip, ip),
        size: sender::least_size(mode),
        dscp: Dscp::new(46).unwrap(),
        timeout: Span::seconds(1),
    }
}

fn session_request(to: SocketAddr, mode: SecurityMode, sessions: Vec<TwampSessionSpec>) -> SessionRequest {
    let user = mode.is_keyed().then(|| ("tester".to_owned(), b"secret".to_vec()));
    SessionRequest {
        to,
        bind: Some(to.ip()),
        mode: Some(mode),
        user,
        sessions,
        step_timeout: Span::seconds(10),
    }
}

fn users(settings: &mut TwampServer) {
    settings.users = Users::one("tester", b"secret");
}

/// A stop flag that is never set.
static GO: AtomicBool = AtomicBool::new(false);

#[test]
fn two_sessions_at_once_in_every_mode_over_both_families() {
    for (ip, mode) in [
        ("127.0.0.1", SecurityMode::Open),
        ("127.0.0.1", SecurityMode::Authenticated),
        ("::1", SecurityMode::Encrypted),
        ("127.0.0.1", SecurityMode::Mixed),
    ] {
        if TcpListener::bind((ip, 0)).is_err() {
            eprintln!("skipped: this host has no {ip}");
            continue;
        }
        let (reflectors, to) = serve(ip, |s| {
            if mode.is_keyed() {
                users(s);
            }
        });
        let prepared = [0, 1].map(|_| prepare(&link(to), sender::least_size(mode)).unwrap());
        let ports = [0, 1].map(|i| prepared[i].socket.local_addr().unwrap().as_socket().unwrap().port());
        let specs = ports.iter().map(|p| session_spec(mode, *p, to.ip())).collect();
        let mut control = TwampControl::open(session_request(to, mode, specs), &GO).unwrap();
        assert_eq!((control.mode(), control.granted().len()), (mode, 2));
        control.start(&GO).unwrap();
        std::thread::scope(|scope| {
            for (prepared, granted) in prepared.into_iter().zip(control.granted()) {
                let mut link = link(to);
                link.to.set_port(granted.port);
                scope.spawn(move || {
                    prepared.socket.connect(&link.to.into()).unwrap();
                    let size = sender::least_size(mode);
                    let error = ErrorEstimate::UNKNOWN;
                    let sender = TwampSender::new(mode, granted.keys.clone(), size, error);
                    let spec = TestSpec::new(
                        Direction::Up,
                        Transport::Udp,
                        20,
                        size as u64,
                        Span::millis(2),
                        Schedule::Periodic,
                    );
                    let plan = PingPlan {
                        spec: spec.unwrap(),
                        wait: None,
                        timeout: Span::seconds(5),
                        overdue: jitlat_proto::twoway::Overdue::Space,
                    };
                    let measured = run_on(prepared, |_| sender, plan, &link, &GO).unwrap();
                    let mut outcome = measured.outcome;
                    assert_eq!(outcome.requests.answered(), 20, "{mode}");
                    assert!(outcome.requests.directions().0.stateful);
                    for mut record in outcome.records.take_block().unwrap() {
                        outcome.sent.join(&mut record);
                        let t = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
                        let t = t.map(|m| record.time(m).unwrap());
                        assert!(t.is_sorted(), "one clock on both sides: {t:?}");
                        assert_eq!((record.dscp(), record.ttl()), (Some(46), Some(255)), "{mode}");
                        assert_eq!(record.size(), Some(size as u16), "{mode}");
                    }
                });
            }
        });
        control.stop().unwrap();
        await_answers(&reflectors, 38);
    }
}

fn refusal(to: SocketAddr, mode: SecurityMode, change: impl FnOnce(&mut SessionRequest)) -> AmpFailure {
    let mut session_request = session_request(to, mode, vec![session_spec(mode, 40_000, to.ip())]);
    change(&mut session_request);
    match TwampControl::open(session_request, &GO) {
        Err(TwampError::Failed { failure, .. }) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn refusals_reach_the_user() {
    let (_reflectors, to) = serve("127.0.0.1", users);
    let denied = AmpFailure::Refused { step: AmpStep::SetUp, accept: AcceptCode::Failure };
    let wrong = |a: &mut SessionRequest| a.user = Some(("tester".to_owned(), b"wrong".to_vec()));
    assert_eq!(refusal(to, SecurityMode::Mixed, wrong), denied);
    assert!(matches!(refusal(to, SecurityMode::Open, |_| ()), AmpFailure::NoCommonMode { .. }));
    let elsewhere = |a: &mut SessionRequest| a.sessions[0].addresses.0 = "192.0.2.1".parse().unwrap();
    let unsupported = AmpFailure::Refused { step: AmpStep::Request, accept: AcceptCode::Unsupported };
    assert_eq!(refusal(to, SecurityMode::Mixed, elsewhere), unsupported);
}

#[test]
fn connections_and_sessions_are_bounded() {
    let mut policy = Policy::default();
    policy.service(policy::TWAMP).client.connections = Some(1);
    policy.service(policy::TWAMP).total.sessions = Some(2);
    let (_reflectors, to) = serve_with(policy, "127.0.0.1", |_| ());
    let specs = |n| vec![session_spec(SecurityMode::Open, 40_000, to.ip()); n];
    let first = TwampControl::open(session_request(to, SecurityMode::Open, specs(2)), &GO).unwrap();
    assert_eq!(refusal(to, SecurityMode::Open, |_| ()), AmpFailure::Unwelcome);
    drop(first);
    // The slot is free as soon as the server has noticed the end.
    let full = AmpFailure::Refused { step: AmpStep::Request, accept: AcceptCode::Temporary };
    jitlat_waiting::until("three sessions to be one too many", Duration::from_secs(20), || {
        refusal(to, SecurityMode::Open, |a| a.sessions = specs(3)) == full
    });
}

#[test]
fn sessions_need_memory_of_the_common_budget() {
    let mut policy = Policy::default();
    policy.client.memory = Some(5 << 20);
    let (_reflectors, to) = serve_with(policy, "127.0.0.1", |_| ());
    let specs = |n| vec![session_spec(SecurityMode::Open, 40_000, to.ip()); n];
    let full = AmpFailure::Refused { step: AmpStep::Request, accept: AcceptCode::Temporary };
    // Each session needs two megabytes.
    assert_eq!(refusal(to, SecurityMode::Open, |a| a.sessions = specs(3)), full);
}

#[test]
fn sessions_keep_to_the_ports_allowed() {
    // A separate address with a free port, which no other test uses.
    let port = std::net::UdpSocket::bind("127.97.31.7:0").unwrap().local_addr().unwrap().port();
    let (_reflectors, to) = serve("127.97.31.7", |s| s.test_ports = Some(port..=port));
    let control = TwampControl::open(
        session_request(to, SecurityMode::Open, vec![session_spec(SecurityMode::Open, 40_000, to.ip())]),
        &GO,
    )
    .unwrap();
    assert_eq!(control.granted()[0].port, port);
    let busy = AmpFailure::Refused { step: AmpStep::Request, accept: AcceptCode::Temporary };
    assert_eq!(refusal(to, SecurityMode::Open, |_| ()), busy);
}

#[test]
fn nobody_there_is_said() {
    let to = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let result = TwampControl::open(session_request(to, SecurityMode::Open, vec![]), &GO);
    assert!(
        matches!(&result, Err(TwampError::Connect { source, .. }) if source.kind() == io::ErrorKind::ConnectionRefused)
    );
    // A client that connects and sends nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut silent = session_request(listener.local_addr().unwrap(), SecurityMode::Open, vec![]);
    silent.step_timeout = Span::millis(200);
    let result = TwampControl::open(silent, &GO);
    assert!(matches!(result, Err(TwampError::Failed { failure: AmpFailure::Silent(AmpStep::Greeting), .. })));
}
