//! Tests of a client and a server over the loopback interface.

use super::*;
use crate::client::{ClientError, Measured, StreamTimes, TestRequest};
use crate::owamp::{OwampError, OwampRequest, run};
use crate::reflect::Reflectors;
use jitlat_core::ntp::NtpTime;
use jitlat_core::observer::{Event, Unobserved};
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::{PacketRecord, Schedule, Span, StampSource, TestSpec, Transport};
use jitlat_proto::amp::{AmpFailure, AmpStep, SecurityMode};
use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

fn serve(policy: Policy, ip: &str, users: Users) -> (Reflectors, SocketAddr) {
    let mut reflectors = Reflectors::new(policy).unwrap();
    reflectors.start(&OwampServer { port: 0, users, test_ports: None }, &[ip.parse().unwrap()]);
    assert!(reflectors.failures().is_empty(), "{:?}", reflectors.failures());
    let at = reflectors.listening()[0].1;
    (reflectors, at)
}

fn tester() -> Users {
    Users::one("tester", b"secret")
}

fn spec(direction: Direction, packets: u64, schedule: Schedule) -> TestSpec {
    let mut spec = TestSpec::new(direction, Transport::Udp, packets, 60, Span::millis(4), schedule).unwrap();
    (spec.src_port, spec.dst_port) = (0, 0);
    spec.dscp = Dscp::new(46).unwrap();
    spec
}

fn request(at: SocketAddr, mode: SecurityMode, specs: Vec<TestSpec>) -> OwampRequest {
    OwampRequest {
        settings: TestRequest { control_port: at.port(), ..TestRequest::new(at.ip().to_string(), specs) },
        mode: Some(mode),
        user: mode.is_keyed().then(|| ("tester".to_owned(), b"secret".to_vec())),
        timeout: Some(Span::millis(300)),
        step_timeout: Span::seconds(20),
    }
}

#[test]
fn a_session_starts_at_the_requested_time_and_its_end_is_known() {
    let (reflectors, at) = serve(Policy::default(), "127.0.0.1", Users::default());
    for direction in [Direction::Up, Direction::Down] {
        // Enough for the conversation on an idle host.
        let times = Arc::new(StreamTimes::starting_at(crate::clock::wall() + Span::millis(1500)));
        let mut asked =
            request(at, SecurityMode::Open, vec![spec(direction, 5, Schedule::Poisson { seed: 0 })]);
        asked.settings.times = Some(times.clone());
        let (_, data) = run(&asked, &AtomicBool::new(false), &mut Unobserved).unwrap();
        let session = &data[0].session;
        let (start, wanted) = (session.request.start, NtpTime::from(times.start));
        // A conversation that took longer delays the start.
        assert!(start.0 >= wanted.0, "{direction:?}");
        let end = session.schedule().last().unwrap().to_nanos(times.start);
        assert_eq!(times.end.get(), Some(&end), "{direction:?}");
    }
    drop(reflectors);
}

/// Runs a test; returns its result, and its records by stream.
fn measure(request: &OwampRequest) -> Result<(Measured, Vec<Vec<PacketRecord>>), OwampError> {
    let mut records = vec![Vec::new(); request.settings.terms.specs.len()];
    let mut observer = |event: &Event<'_>| {
        if let Event::Records { stream, records: chunk, .. } = event {
            records[*stream].extend_from_slice(chunk);
        }
    };
    let (measured, _) = run(request, &AtomicBool::new(false), &mut observer)?;
    Ok((measured, records))
}

#[test]
fn both_directions_in_every_mode_schedule_and_family() {
    for (ip, mode, schedule) in [
        ("127.0.0.1", SecurityMode::Open, Schedule::Periodic),
        ("127.0.0.1", SecurityMode::Authenticated, Schedule::Poisson { seed: 0 }),
        ("::1", SecurityMode::Encrypted, Schedule::Periodic),
        ("127.0.0.1", SecurityMode::Open, Schedule::Burst { size: 4 }),
    ] {
        if TcpListener::bind((ip, 0)).is_err() {
            eprintln!("skipped: this host has no {ip}");
            continue;
        }
        let users = if mode.is_keyed() { tester() } else { Users::default() };
        let (reflectors, at) = serve(Policy::default(), ip, users);
        let specs = [Direction::Up, Direction::Down].map(|d| spec(d, 60, schedule));
        let (measured, records) = measure(&request(at, mode, specs.into())).unwrap();
        assert_eq!((measured.ending, &measured.reason), (Ending::Complete, &None), "{mode}");
        for (session, records) in measured.sessions.iter().zip(&records) {
            let direction = session.spec.direction();
            // After a stall, the sender skips packets and reports them.
            assert_eq!(session.sent, Some(60), "{mode}");
            assert_eq!(records.len() as u64 + session.unsent, 60, "{mode} {direction:?}");
            for record in records {
                assert!(record.sent().unwrap() <= record.arrived().unwrap(), "one clock at both ends");
                assert_eq!(record.ttl(), Some(255));
            }
            let whole = |moment| records.iter().filter(|r| r.source(moment) == StampSource::Kernel).count();
            match direction {
                Direction::Up => assert!(whole(Moment::Sent) + 5 > records.len(), "stamps of the kernel"),
                Direction::Down => {
                    assert_eq!(whole(Moment::Arrived), records.len());
                    assert!(records.iter().all(|r| (r.size(), r.dscp()) == (Some(60), Some(46))));
                }
            }
            assert!(session.server.sync_before.is_some());
        }
        drop(reflectors);
    }
}

#[test]
fn refusals_reach_the_user() {
    let (_reflectors, at) = serve(Policy::default(), "127.0.0.1", tester());
    let refusal = |request: OwampRequest| match measure(&request) {
        Err(OwampError::Failed { failure, .. }) => failure,
        other => panic!("{other:?}"),
    };
    let asked = |mode| request(at, mode, vec![spec(Direction::Up, 5, Schedule::Periodic)]);
    assert!(matches!(refusal(asked(SecurityMode::Open)), AmpFailure::NoCommonMode { .. }));
    let wrong = Some(("tester".to_owned(), b"wrong".to_vec()));
    let denied = AmpFailure::Refused { step: AmpStep::SetUp, accept: AcceptCode::Failure };
    assert_eq!(refusal(OwampRequest { user: wrong, ..asked(SecurityMode::Encrypted) }), denied);
    let fast =
        TestSpec::new(Direction::Down, Transport::Udp, 1000, 60, Span(100), Schedule::Periodic).unwrap();
    let too_fast = AmpFailure::Refused { step: AmpStep::Request, accept: AcceptCode::Permanent };
    assert_eq!(refusal(request(at, SecurityMode::Encrypted, vec![fast])), too_fast);
}

#[test]
fn sessions_and_memory_are_bounded_and_come_back() {
    let mut policy = Policy::default();
    policy.service(policy::OWAMP).total.sessions = Some(1);
    // Memory for the records of two short sessions, but not of a long one.
    policy.service(policy::OWAMP).total.memory = Some(8 << 20);
    let (reflectors, at) = serve(policy, "127.0.0.1", Users::default());
    let short = || spec(Direction::Up, 20, Schedule::Periodic);
    let refused = |specs| match measure(&request(at, SecurityMode::Open, specs)) {
        Err(OwampError::Failed { failure, .. }) => failure,
        other => panic!("{other:?}"),
    };
    let full = AmpFailure::Refused { step: AmpStep::Request, accept: AcceptCode::Temporary };
    assert_eq!(refused(vec![short(), short()]), full);
    assert_eq!(refused(vec![spec(Direction::Up, 100_000, Schedule::Periodic)]), full);
    let gate = reflectors.shared.gate.clone();
    let nothing_held = || gate.held(policy::OWAMP) == Ask::default();
    jitlat_waiting::until("what was refused to be given back", LIMIT, nothing_held);
    for _ in 0..3 {
        let (measured, _) = measure(&request(at, SecurityMode::Open, vec![short()])).unwrap();
        assert_eq!(measured.ending, Ending::Complete);
    }
    // Stored results use only the memory they need.
    let until = Instant::now() + LIMIT;
    while gate.held(policy::OWAMP).sessions > 0 {
        assert!(Instant::now() < until, "a session outlives its connection");
        std::thread::sleep(Duration::from_millis(10));
    }
    let kept = gate.held(policy::OWAMP).memory;
    assert!((3 * 1024..20_000).contains(&kept), "{kept}");
}

#[test]
fn a_stop_ends_the_test_and_what_was_sent_is_fetched() {
    let (_reflectors, at) = serve(Policy::default(), "127.0.0.1", Users::default());
    let specs = [Direction::Up, Direction::Down].map(|d| spec(d, 100_000, Schedule::Periodic));
    let (stop, mut stopped) = (AtomicBool::new(false), false);
    let mut observer = |event: &Event<'_>| {
        if let Event::Progress(progress) = event
            && !stopped
            && progress.iter().all(|p| p.sent.max(p.received) > 200)
        {
            stopped = true;
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let (measured, _) = run(&request(at, SecurityMode::Open, specs.into()), &stop, &mut observer).unwrap();
    assert_eq!(measured.ending, Ending::Interrupted);
    for session in &measured.sessions {
        // Packets sent less than the timeout before the end are not evaluated.
        assert!((1..5000).contains(&session.sent.unwrap()), "{:?}", session.sent);
    }
}

#[test]
fn a_server_that_stops_ends_its_connections() {
    let (reflectors, at) = serve(Policy::default(), "127.0.0.1", Users::default());
    let streams = [0; 3].map(|_| TcpStream::connect(at).unwrap());
    drop(reflectors);
    for mut stream in streams {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut bytes = Vec::new();
        // The greeting may have arrived before.
        let _ = stream.read_to_end(&mut bytes);
        assert!(bytes.len() <= 64);
    }
    let stop = AtomicBool::new(false);
    let one = vec![spec(Direction::Up, 1, Schedule::Periodic)];
    let gone = run(&request(at, SecurityMode::Open, one), &stop, &mut Unobserved);
    assert!(matches!(gone, Err(OwampError::Client(ClientError::Connect { .. }))), "{gone:?}");
}
