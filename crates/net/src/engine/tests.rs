//! Flows under the commands of a control state machine, with plain sockets as peers.

use super::rendezvous::Rendezvous;
use super::*;
use crate::launch::{LaunchHost, ThisHost, fake};
use crate::pace::{PaceMode, Pacing, SendSettings};
use crate::sockets::bind_tcp;
use crate::sys::AsFd;
use crate::sys::{PollFd, PollFlags, poll};
use jitlat_core::{Direction, Schedule, Span, StampSource, TestSpec};
use jitlat_proto::jitlat::flow::Meeting;
use jitlat_proto::jitlat::packet::PacketHeader;
use jitlat_proto::jitlat::stream::ReceiverTimeouts;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const FLOW: FlowId = FlowId(0);
const LIMIT: Duration = Duration::from_secs(20);

fn engine() -> Engine {
    engine_on(&ThisHost, Pacing::default())
}

fn engine_on(launch_host: &'static dyn LaunchHost, pacing: Pacing) -> Engine {
    let local = (Ipv4Addr::LOCALHOST, 0).into();
    let rendezvous = Rendezvous::new(jitlat_proto::policy::Gate::new(Default::default())).unwrap();
    Engine::new(EngineSettings {
        local,
        sending: SendSettings { pacing, ..SendSettings::default() },
        rendezvous,
        launch_host,
        live: false,
    })
    .unwrap()
}

/// Makes a sender's flow connect.
fn open(engine: &mut Engine, transport: Transport) {
    open_for(engine, transport, Meeting::Dial);
}

/// Opens a sender's flow that finds its peer by `meeting`; returns its port.
fn open_for(engine: &mut Engine, transport: Transport, meeting: Meeting) -> u16 {
    let spec = TestSpec::new(Direction::Up, transport, 10, 80, Span::millis(20), Schedule::Periodic).unwrap();
    let opening = Opening {
        flow: FLOW,
        role: FlowRole::Send,
        timeouts: ReceiverTimeouts::of(&spec),
        spec,
        bind_port: 0,
        any_port_will_do: true,
        peer: Ipv4Addr::LOCALHOST.into(),
        meeting,
        greetings: true,
        stamps: StampSource::Kernel,
        record_limit: 100,
        watched: false,
        peak: None,
    };
    engine.command(FlowCommand::Open(Box::new(opening)));
    let report = next_report(engine);
    let FlowReport::Opened(FLOW, port) = report else { panic!("{report:?}") };
    port
}

fn next_report(engine: &Engine) -> FlowReport {
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(report) = engine.report() {
            return report;
        }
        assert!(Instant::now() < until, "no report");
        let mut fds = [PollFd::new(engine.waker().as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, Some(Span::millis(50))).unwrap();
        engine.waker().clear();
    }
}

#[test]
fn a_dial_that_nobody_answers_ends_with_its_engine() {
    let listener = bind_tcp((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    listener.listen(0).unwrap();
    let peer = listener.local_addr().unwrap().as_socket().unwrap();
    // The queue is full, so further connections are not completed.
    let filling =
        [(); 2].map(|()| crate::sockets::connect_tcp(None, peer, Duration::from_millis(200), || false));
    for close in [true, false] {
        let mut engine = engine();
        open(&mut engine, Transport::Tcp);
        engine.command(FlowCommand::Connect { flow: FLOW, peer, greeting: None });
        // The connection attempt is in progress.
        jitlat_waiting::while_true("nobody answers", Duration::from_millis(100), || true);
        let began = Instant::now();
        if close {
            drop(engine);
        } else {
            engine.command(FlowCommand::Stop(FLOW));
            let report = next_report(&engine);
            assert!(matches!(&report, FlowReport::Sent(FLOW, sent) if sent.sent == 0), "{report:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
    drop(filling);
}

/// Returns how often the flow's thread waits during half a second without events: each wait takes up to 50 ms
/// unless something ends it at once.
fn waits_of_half_a_second(engine: &Engine) -> u32 {
    let waits = || engine.flows[0].counters.waits.load(Ordering::Relaxed);
    let before = waits();
    jitlat_waiting::while_true("half a second", Duration::from_millis(500), || true);
    waits() - before
}

#[test]
fn the_stamp_of_a_greeting_does_not_keep_the_sender_awake() {
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    far.set_read_timeout(Some(LIMIT)).unwrap();
    let mut engine = engine();
    open(&mut engine, Transport::Udp);
    let peer = far.local_addr().unwrap();
    engine.command(FlowCommand::Connect { flow: FLOW, peer, greeting: Some((7, Span::seconds(10))) });
    let mut hello = [0; 12];
    let (_, from) = far.recv_from(&mut hello).unwrap();
    assert_eq!(hello, PacketHeader::hello(7).to_bytes());
    far.send_to(&hello, from).unwrap();
    assert!(matches!(next_report(&engine), FlowReport::Ready(FLOW)));
    let waits = waits_of_half_a_second(&engine);
    assert!(waits <= 25, "{waits} waits");
}

#[test]
fn the_stamps_of_answers_to_greetings_do_not_keep_the_sender_awake() {
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    far.set_read_timeout(Some(LIMIT)).unwrap();
    let mut engine = engine();
    let port = open_for(&mut engine, Transport::Udp, Meeting::Greeting(7));
    let (ours, hello) = ((Ipv4Addr::LOCALHOST, port), PacketHeader::hello(7).to_bytes());
    far.send_to(&hello, ours).unwrap();
    let report = next_report(&engine);
    let FlowReport::Greeted(FLOW, peer) = report else { panic!("{report:?}") };
    engine.command(FlowCommand::Connect { flow: FLOW, peer, greeting: None });
    let mut answer = [0; 12];
    assert_eq!((far.recv(&mut answer).unwrap(), answer), (12, hello));
    assert!(matches!(next_report(&engine), FlowReport::Ready(FLOW)));
    // The peer did not receive the answer and asks again.
    far.send_to(&hello, ours).unwrap();
    assert_eq!((far.recv(&mut answer).unwrap(), answer), (12, hello));
    let waits = waits_of_half_a_second(&engine);
    assert!(waits <= 25, "{waits} waits");
}

#[test]
fn with_launch_times_packets_say_when_they_are_to_leave() {
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    far.set_read_timeout(Some(LIMIT)).unwrap();
    let pacing = Pacing { mode: Some(PaceMode::Etf), ..Pacing::default() };
    let mut engine = engine_on(&*fake::WITH_ETF, pacing);
    open(&mut engine, Transport::Udp);
    let peer = far.local_addr().unwrap();
    engine.command(FlowCommand::Connect { flow: FLOW, peer, greeting: Some((7, Span::seconds(10))) });
    let mut packet = [0; 80];
    // The greeting also has a launch time, because the queue drops packets without one.
    let (length, from) = far.recv_from(&mut packet).unwrap();
    far.send_to(&packet[..length], from).unwrap();
    assert!(matches!(next_report(&engine), FlowReport::Ready(FLOW)));
    engine.command(FlowCommand::Start(FLOW));
    // Greetings may have been repeated.
    let mut headers = std::iter::repeat_with(|| {
        let length = far.recv(&mut packet).unwrap();
        PacketHeader::parse(&packet[..length]).filter(|header| length == 80 && header.seq >= 0)
    });
    let sent: Vec<PacketHeader> = headers.by_ref().flatten().take(10).collect();
    assert_eq!(sent.iter().map(|header| header.seq).collect::<Vec<_>>(), Vec::from_iter(0..10));
    assert!(sent.windows(2).all(|pair| pair[0].sent < pair[1].sent), "{sent:?}");
    assert!(matches!(next_report(&engine), FlowReport::Ended(FLOW, 10)));
    engine.command(FlowCommand::Stop(FLOW));
    let report = next_report(&engine);
    assert!(
        matches!(&report, FlowReport::Sent(FLOW, sent) if (sent.sent, sent.failed, sent.stamps_lost) == (10, 0, Some(0))),
        "{report:?}"
    );
    assert_eq!(engine.notes(), Vec::<String>::new());
}

#[test]
fn without_a_queue_that_keeps_launch_times_the_flow_says_so() {
    let pacing = Pacing { mode: Some(PaceMode::Etf), ..Pacing::default() };
    let mut engine = engine_on(&ThisHost, pacing);
    open(&mut engine, Transport::Udp);
    let peer = "127.0.0.1:9".parse().unwrap();
    engine.command(FlowCommand::Connect { flow: FLOW, peer, greeting: None });
    let report = next_report(&engine);
    let FlowReport::Failed(FLOW, why) = &report else { panic!("{report:?}") };
    assert!(why.contains("no queue that supports launch times"), "{why}");
}
