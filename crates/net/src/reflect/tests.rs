//! Tests of each client with its reflector over the loopback interface.

use super::*;
use crate::pace::Pacing;
use crate::stamp::StampMode;
use crate::twoway::client::{PingError, TwoWayLink, TwoWayMeasured, run};
use crate::twoway::request_response;
use crate::twoway::socket::{Carrier, Marking};
use jitlat_core::record::Moment;
use jitlat_core::spec::{Direction, Schedule, Transport};
use jitlat_core::{Dscp, TestSpec, WallTime};
use jitlat_proto::policy::{self, Policy};
use jitlat_proto::twoway::{Overdue, PingPlan, Protocol};
use jitlat_proto::{lamp, stamp};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Starts every reflector, on ports chosen by the system.
fn all(ip: &str, policy: Policy) -> Reflectors {
    let reflectors: [&dyn Reflector; 4] = [
        &StampReflector { port: 0, ..StampReflector::default() },
        &LampReflector { port: 0, ..LampReflector::default() },
        &TwampServer { port: 0, ..TwampServer::default() },
        &TcpResponder { port: 0, ..TcpResponder::default() },
    ];
    let mut running = Reflectors::new(policy).unwrap();
    reflectors.iter().for_each(|r| running.start(*r, &[ip.parse().unwrap()]));
    running
}

fn start(ip: &str) -> Reflectors {
    all(ip, Policy::default())
}

fn plan(packets: u64, payload: u64) -> PingPlan {
    let spec =
        TestSpec::new(Direction::Up, Transport::Udp, packets, payload, Span::millis(2), Schedule::Periodic);
    PingPlan { spec: spec.unwrap(), wait: None, timeout: Span::seconds(2), overdue: Overdue::Space }
}

fn link(to: SocketAddr) -> TwoWayLink {
    let marking = Marking { dscp: Dscp::new(46).unwrap(), ..Marking::default() };
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

fn measure<P: Protocol>(protocol: P, payload: u64, to: SocketAddr) -> TwoWayMeasured<P> {
    let stop = AtomicBool::new(false);
    run(|_| protocol, plan(20, payload), &link(to), &stop).unwrap()
}

fn address(r: &Reflectors, name: &str) -> SocketAddr {
    r.listening().iter().find(|(n, _)| *n == name).unwrap().1
}

/// Waits until this many answers have been counted. An answer is counted after it was sent, so a client may
/// receive it before, and the last one of a session may be counted only with the next.
pub(super) fn await_answers(reflectors: &Reflectors, answers: u64) {
    let limit = std::time::Instant::now() + Duration::from_secs(10);
    while reflectors.counters().answered.load(Ordering::Relaxed) < answers {
        assert!(std::time::Instant::now() < limit, "{answers} answers are never counted");
        std::thread::yield_now();
    }
}

#[test]
fn stamp_over_both_families() {
    for ip in ["127.0.0.1", "::1"] {
        let reflectors = start(ip);
        if !reflectors.failures().is_empty() && ip == "::1" {
            eprintln!("skipped: this host has no IPv6 loopback");
            continue;
        }
        let options = stamp::sender::StampOptions { class_of_service: Some(46), ..Default::default() };
        let measured = measure(stamp::StampSender::new(options), 44, address(&reflectors, "STAMP"));
        let mut outcome = measured.outcome;
        assert_eq!((outcome.requests.answered(), outcome.requests.sent()), (20, 20), "{ip}");
        assert_eq!(outcome.protocol.far_dscp(), Some(46), "the mark arrives");
        assert!(outcome.sent.known() >= 19, "the kernel stamps what is sent: {}", outcome.sent.known());
        let mut records = outcome.records.take_block().unwrap();
        for record in &mut records {
            outcome.sent.join(record);
            let t = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
            let t = t.map(|m| record.time(m).unwrap());
            assert!(t.is_sorted(), "one clock on both sides: {t:?}");
            assert_eq!((record.dscp(), record.ttl(), record.size()), (Some(46), Some(255), Some(50 + 2)));
        }
        await_answers(&reflectors, 19);
    }
}

#[test]
fn lamp_with_follow_up_and_one_way() {
    let reflectors = start("127.0.0.1");
    let to = address(&reflectors, "LaMP");
    let options = |mode, follow_up| lamp::client::LampOptions {
        id: 9,
        mode,
        payload: 8,
        timeless: false,
        follow_up,
        broadcast: false,
    };
    for kind in
        [lamp::LampFollowUp::Application, lamp::LampFollowUp::KernelReceive, lamp::LampFollowUp::Kernel]
    {
        let client = lamp::Client::new(options(lamp::LampMode::PingLike, Some(kind)));
        let measured = measure(client, 32, to);
        assert_eq!(measured.outcome.protocol.follow_up(), lamp::client::FollowUpState::Accepted, "{kind:?}");
        assert_eq!(measured.outcome.requests.answered(), 20, "{kind:?}");
        assert!(measured.outcome.records.iter().all(|r| r.time(Moment::Answered).is_some()), "{kind:?}");
    }
    let client = lamp::Client::new(options(lamp::LampMode::PingLike, Some(lamp::LampFollowUp::Hardware)));
    let measured = measure(client, 32, to);
    assert_eq!(measured.outcome.protocol.follow_up(), lamp::client::FollowUpState::Denied);
    let client = lamp::Client::new(options(lamp::LampMode::Unidirectional, None));
    let measured = measure(client, 32, to);
    assert_eq!(measured.outcome.protocol.report().map(|r| r.received), Some(20));
}

#[test]
fn request_response_over_tcp() {
    let reflectors = start("127.0.0.1");
    let to = address(&reflectors, "TCP request-response");
    let sizes = jitlat_proto::reqresp::ExchangeSizes::new(1460, 1000).unwrap();
    let stop = AtomicBool::new(false);
    let (measured, samples) = request_response::run(sizes, plan(20, 1460), &link(to), &stop).unwrap();
    assert_eq!(samples.len(), 20);
    assert!(samples.iter().all(|i| i.mss > 0 && i.cwnd > 0 && i.srtt_us > 0), "{samples:?}");
    assert_eq!((measured.outcome.requests.answered(), measured.outcome.records.len()), (20, 20));
}

#[test]
fn hosts_that_are_not_allowed_hear_nothing() {
    let allow = vec!["127.0.0.2".parse().unwrap(), "192.0.2.0/24".parse().unwrap()];
    let networks = Networks { allow, ..Networks::default() };
    let reflectors = all("127.0.0.1", Policy { networks, ..Policy::default() });
    let to = address(&reflectors, "STAMP");
    let ask = |ip: &str, timeout| {
        let mut link = link(to);
        link.marking.bind = Some(ip.parse().unwrap());
        let plan = PingPlan { timeout, ..plan(3, 44) };
        let stop = AtomicBool::new(false);
        let sender = stamp::StampSender::new(Default::default());
        run(|_| sender, plan, &link, &stop).unwrap().outcome.requests.answered()
    };
    assert_eq!((ask("127.0.0.1", Span::millis(300)), ask("127.0.0.2", Span::seconds(5))), (0, 3));
    assert_eq!(reflectors.counters().silent[Silence::NotAllowed as usize].load(Ordering::Relaxed), 3);
}

#[test]
fn nobody_there_is_said() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stop = AtomicBool::new(false);
    let sender = stamp::StampSender::new(Default::default());
    let result = run(|_| sender, PingPlan { timeout: Span::millis(50), ..plan(3, 44) }, &link(port), &stop);
    assert!(matches!(result.map(|m| m.refused), Err(PingError::Refused(at)) if at == port));
}

#[test]
fn icmp_echo_to_this_host() {
    use jitlat_proto::echo::{Echo, IpVersion};
    let stop = AtomicBool::new(false);
    let mut link = link("127.0.0.1:0".parse().unwrap());
    link.carrier = Carrier::Icmp;
    let id = |kernel: bool| if kernel { None } else { Some(77) };
    match run(|k| Echo::new(IpVersion::V4, id(k), 5, 56), plan(10, 64), &link, &stop) {
        Ok(m) => assert_eq!((m.outcome.requests.answered(), m.outcome.records.len()), (10, 10)),
        Err(PingError::Socket { hint, .. }) => {
            assert!(hint.contains("CAP_NET_RAW"), "{hint}");
            eprintln!("skipped: {hint}");
        }
        Err(e) => panic!("{e}"),
    }
}

/// Checks the UDP checksum of each frame to `port`, until `wanted` frames have arrived or ten seconds have
/// passed.
fn sums(live: &mut crate::capture::interface::InterfaceCapture, port: u16, wanted: usize) -> Vec<bool> {
    use crate::frame::{checksum, pseudo_header, sum_of};
    let mut seen = Vec::new();
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while std::time::Instant::now() < until {
        live.poll(Duration::from_millis(20), |frame| {
            let packet = &frame.data[14..];
            if packet[0] != 0x45 || packet[9] != 17 || packet[22..24] != port.to_be_bytes() {
                return;
            }
            let pseudo = pseudo_header(packet, (packet.len() - 20) as u16);
            seen.push(checksum(pseudo + sum_of(&packet[20..])) == 0);
        })
        .unwrap();
        if seen.len() >= wanted {
            break;
        }
    }
    seen
}

#[test]
fn a_reader_of_whole_frames_gets_whole_checksums() {
    use crate::capture::interface::{InterfaceCapture, InterfaceSettings};
    let Ok(mut live) = InterfaceCapture::open("lo", InterfaceSettings::default()) else {
        assert!(std::env::var_os("JITLAT_REQUIRE_PRIVILEGED").is_none());
        return eprintln!("skipped: a_reader_of_whole_frames_gets_whole_checksums: no CAP_NET_RAW");
    };
    let reflectors = start("127.0.0.1");
    // A raw client of LaTe, recognised by its port: acknowledgement, answer, follow-up with a kernel
    // timestamp, report. To get a follow-up, it proves its address like jitlat's client.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let client = UdpSocket::bind((Ipv4Addr::new(127, 64 | high & 63, low, 2), lamp::RAW_PORT)).unwrap();
    client.connect(address(&reflectors, "LaMP")).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let packet = |kind, id, word| lamp::LampHeader::new(kind, id, 0, word).at(clock::wall()).to_bytes();
    let ask = |kind, id, word, answers| {
        client.send(&packet(kind, id, word)).unwrap();
        (0..answers).for_each(|_| assert!(client.recv(&mut [0; 200]).unwrap() >= 24));
    };
    let open = |id, word| {
        let (mut seconds, mut micros) = (u64::from_be_bytes(*b"jitproof"), 0);
        for _ in 0..2 {
            let init = lamp::LampHeader {
                seconds,
                micros,
                ..lamp::LampHeader::new(lamp::LampKind::Init, id, 0, word)
            };
            client.send(&init.to_bytes()).unwrap();
            let mut answer = [0; 24];
            assert_eq!(client.recv(&mut answer).unwrap(), 24);
            lamp::LampHeader { seconds, micros, .. } = lamp::LampHeader::parse(&answer).unwrap();
        }
    };
    open(1, 1);
    ask(lamp::LampKind::FollowUpControl, 1, lamp::LampFollowUp::Kernel.code(), 1);
    ask(lamp::LampKind::EndRequest, 1, 0, 2);
    open(2, 2);
    ask(lamp::LampKind::Stop, 2, 0, 1);
    assert_eq!(sums(&mut live, lamp::RAW_PORT, 8)[..8], [true; 8]);

    // A far host whose kernel refuses packets while a program on it may read frames: from then on, checksums
    // are complete.
    let port = UdpSocket::bind("127.46.77.3:0").unwrap().local_addr().unwrap();
    let options = lamp::client::LampOptions {
        id: 9,
        mode: lamp::LampMode::PingLike,
        payload: 8,
        timeless: false,
        broadcast: false,
        follow_up: None,
    };
    let stop = AtomicBool::new(false);
    // Frames are read while they are sent, and include those of other tests.
    let (result, seen) = std::thread::scope(|scope| {
        let seen = scope.spawn(|| sums(&mut live, port.port(), 30));
        let result = run(|_| lamp::Client::new(options), plan(1, 32), &link(port), &stop);
        (result, seen.join().unwrap())
    });
    assert!(matches!(result.map(|m| m.refused), Err(PingError::Refused(_))));
    assert!(seen.len() == 30 && seen[2..].iter().all(|whole| *whole), "{seen:?}");
}

#[test]
fn a_responder_that_stops_at_any_step_is_given_up() {
    use jitlat_core::session::Ending;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    let sizes = jitlat_proto::reqresp::ExchangeSizes::new(100, 50).unwrap();
    // Number of bytes in the conversation (a greeting of 16 bytes, responses of 50) that the server sends
    // before it becomes silent or closes.
    let steps = [0, 7, 16, 16 + 20, 16 + 50, 16 + 3 * 50 + 49];
    std::thread::scope(|scope| {
        for (step, leaves) in steps.into_iter().flat_map(|s| [(s, false), (s, true)]) {
            scope.spawn(move || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let to = listener.local_addr().unwrap();
                let responder = move || {
                    let mut stream: TcpStream = listener.accept().unwrap().0;
                    // If the connection were closed before everything is read, unsent data would be lost.
                    stream.set_nodelay(true).unwrap();
                    let mut received = [0; 100];
                    stream.read_exact(&mut received[..16]).unwrap();
                    let mut left = step;
                    let mut say = |stream: &mut TcpStream, bytes: &[u8]| {
                        let part = left.min(bytes.len());
                        left -= part;
                        stream.write_all(&bytes[..part]).is_ok() && left > 0
                    };
                    let mut on = say(&mut stream, &received[..16]);
                    while on && stream.read_exact(&mut received).is_ok() {
                        let mut response = [0; 50];
                        jitlat_proto::reqresp::respond(&received, WallTime(1), WallTime(2), &mut response);
                        on = say(&mut stream, &response);
                    }
                    if !leaves {
                        // Hold the connection until the client gives up.
                        while stream.read(&mut received).is_ok_and(|n| n > 0) {}
                    }
                };
                let responder = std::thread::spawn(responder);
                let stop = AtomicBool::new(false);
                let plan = PingPlan { timeout: Span::millis(300), ..plan(6, 100) };
                let result = request_response::run(sizes, plan, &link(to), &stop);
                let whole = step.saturating_sub(16) / 50;
                match result {
                    Err(PingError::Conversation { .. }) => assert!(step < 16, "{step}"),
                    Err(e) => panic!("{step}: {e}"),
                    Ok((measured, samples)) => {
                        let ending = if leaves { Ending::PeerLost } else { Ending::Complete };
                        assert_eq!((measured.ending, samples.len()), (ending, whole), "{step} {leaves}");
                        assert_eq!(measured.outcome.requests.answered(), whole as u64, "{step}");
                    }
                }
                responder.join().unwrap();
            });
        }
    });
}

#[test]
fn there_are_no_raw_frames_to_oneself() {
    let raw = TwoWayLink { carrier: Carrier::Raw, ..link("127.0.0.1:46000".parse().unwrap()) };
    let refused = crate::twoway::prepare(&raw, 24).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("loopback"), "{refused}");
    let mut reflectors = Reflectors::new(Policy::default()).unwrap();
    let ips = ["0.0.0.0".parse().unwrap()];
    reflectors.start(&LampFrameReflector { port: 0, interface: "lo".into(), trusted: Vec::new() }, &ips);
    let [failure] = reflectors.failures() else { panic!("{:?}", reflectors.failures()) };
    assert!(failure.to_string().contains("loopback"), "{failure}");
    assert!(reflectors.listening().is_empty());
}

#[test]
fn reports_leave_from_the_address_that_was_asked() {
    let reflectors = start("0.0.0.0");
    let port = address(&reflectors, "LaMP").port();
    let options = lamp::client::LampOptions {
        id: 9,
        mode: lamp::LampMode::Unidirectional,
        payload: 8,
        timeless: false,
        broadcast: false,
        follow_up: None,
    };
    // Without this, the system would send from 127.0.0.1.
    let measured = measure(lamp::Client::new(options), 32, SocketAddr::from(([127, 0, 0, 9], port)));
    assert_eq!(measured.outcome.protocol.report().map(|r| r.received), Some(20));
}

/// Returns the number of the answer whose departure time is reported in an extension of this answer; `None`
/// if there is none.
fn reported_departure(answer: &[u8]) -> Option<u32> {
    let tlv = stamp::tlv::Tlvs::new(&answer[44..]).find_map(|step| match step {
        stamp::tlv::TlvStep::Whole(_, t) if t.kind == stamp::tlv::kind::FOLLOW_UP => Some(t.value.to_vec()),
        _ => None,
    });
    let follow_up = stamp::tlv::FollowUpTelemetry::parse(&tlv.unwrap()).unwrap();
    (follow_up.method != 0).then_some(follow_up.seq)
}

fn stamped_request(seq: u32) -> Vec<u8> {
    let options = stamp::sender::StampOptions { follow_up: true, ..Default::default() };
    let mut request = Vec::new();
    stamp::StampSender::new(options).request(seq, false, clock::wall(), &mut request);
    request
}

#[test]
fn stamp_answers_tell_when_the_one_before_left() {
    let reflectors = start("127.0.0.1");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(address(&reflectors, "STAMP")).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut answer = [0; 200];
    for seq in 0..20 {
        client.send(&stamped_request(seq)).unwrap();
        let length = client.recv(&mut answer).unwrap();
        assert_eq!(reported_departure(&answer[..length]), seq.checked_sub(1), "answer {seq}");
    }
}

#[test]
fn one_client_does_not_take_all_connections_of_the_responder() {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    let mut policy = Policy::default();
    policy.service(policy::TCP).total.connections = Some(6);
    policy.service(policy::TCP).client.connections = Some(4);
    let mut reflectors = Reflectors::new(policy).unwrap();
    reflectors.start(&TcpResponder { port: 0, ..TcpResponder::default() }, &["127.0.0.1".parse().unwrap()]);
    let to = address(&reflectors, "TCP request-response");
    let greeting = jitlat_proto::reqresp::ExchangeSizes::new(12, 20).unwrap().greeting();
    let served = |mut stream: &TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut echo = [0; 16];
        stream.write_all(&greeting).is_ok() && stream.read_exact(&mut echo).is_ok()
    };
    let greedy: Vec<TcpStream> = (0..6).map(|_| TcpStream::connect(to).unwrap()).collect();
    let kept: Vec<bool> = greedy.iter().map(served).collect();
    assert_eq!(kept, [true, true, true, true, false, false]);
    let other =
        crate::sockets::connect_tcp(Some("127.0.0.2".parse().unwrap()), to, Duration::from_secs(10), || {
            false
        });
    assert!(served(&other.unwrap()), "there is room for others");
}

#[test]
fn a_byte_now_and_then_does_not_keep_a_connection_of_the_responder() {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    let mut reflectors = Reflectors::new(Policy::default()).unwrap();
    let responder = TcpResponder { port: 0, timeout: Duration::from_millis(300) };
    reflectors.start(&responder, &["127.0.0.1".parse().unwrap()]);
    let to = address(&reflectors, "TCP request-response");
    let greeting = jitlat_proto::reqresp::ExchangeSizes::new(1460, 20).unwrap().greeting();
    // Before the greeting is complete, and within a request.
    for length in [0, 16] {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        stream.write_all(&greeting[..length]).unwrap();
        let (mut received, mut answer) = (0, [0; 16]);
        let until = std::time::Instant::now() + Duration::from_secs(20);
        // At most ten bytes arrive within the time allowed for a whole request.
        jitlat_waiting::at_pace(Duration::from_millis(20), || {
            assert!(std::time::Instant::now() < until, "the connection lasts");
            match stream.read(&mut answer) {
                Ok(0) => return false,
                Ok(n) => received += n,
                Err(e) if crate::sockets::waits(&e) => {}
                Err(_) => return false,
            }
            stream.write_all(&[0]).is_ok()
        });
        assert_eq!(received, length, "the greeting comes back, and no response");
    }
}

/// Four clients on one host send requests as often as they can, with a limit of 10 answers per second. They
/// get at most this many, and at least `least` in total.
fn no_more_than_ten_a_second(ask: impl Fn(&Reflectors) + Sync, least: u64) {
    let mut policy = Policy::default();
    policy.client.packets = Some(10);
    let mut reflectors = Reflectors::new(policy).unwrap();
    for ip in ["127.0.0.1", "127.0.0.2"] {
        let ip = [ip.parse().unwrap()];
        reflectors.start(&StampReflector { port: 0, ..StampReflector::default() }, &ip);
        reflectors.start(&TcpResponder { port: 0, ..TcpResponder::default() }, &ip);
    }
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| ask(&reflectors)))));
    await_answers(&reflectors, least);
    let answered = reflectors.counters().answered.load(Ordering::Relaxed);
    let most = 2 + 10 * begun.elapsed().as_millis() as u64 / 1000;
    assert!(answered <= most, "{answered} answers, {most} allowed");
}

#[test]
fn the_limit_of_a_client_holds_for_all_sockets_together() {
    let ask = |reflectors: &Reflectors| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut left = 100;
        jitlat_waiting::at_pace(Duration::from_millis(5), || {
            for (_, to) in reflectors.listening().iter().filter(|(name, _)| *name == "STAMP") {
                socket.send_to(&stamped_request(0), to).unwrap();
            }
            left -= 1;
            left > 0
        });
    };
    no_more_than_ten_a_second(ask, 3);
}

#[test]
fn connections_of_one_client_share_its_limit() {
    use std::io::{Read, Write};
    let ask = |reflectors: &Reflectors| {
        let (_, to) = reflectors.listening().iter().find(|(name, _)| name.starts_with("TCP")).unwrap();
        let mut stream = std::net::TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let sizes = jitlat_proto::reqresp::ExchangeSizes::new(12, 1000).unwrap();
        stream.write_all(&sizes.greeting()).unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        for _ in 0..3 {
            stream.write_all(&[0; 12]).unwrap();
            stream.read_exact(&mut [0; 1000]).unwrap();
        }
    };
    // All requests are answered, at the permitted rate.
    no_more_than_ten_a_second(ask, 12);
}

#[test]
fn missing_privileges_are_reported_in_one_line() {
    let failure = |name, port, kind: io::ErrorKind| ReflectorError {
        name,
        address: (Ipv4Addr::LOCALHOST, port).into(),
        source: kind.into(),
    };
    let [refused, used] = [io::ErrorKind::PermissionDenied, io::ErrorKind::AddrInUse];
    let failures = [
        failure("STAMP", 862, refused),
        failure("STAMP", 862, refused),
        failure("LaMP", 46_000, used),
        failure("OWAMP-Control", 861, refused),
    ];
    let lines = describe_failures(&failures);
    let [other, privilege] = &lines[..] else { panic!("{lines:?}") };
    assert!(other.contains("the LaMP reflector on 127.0.0.1:46000"), "{other}");
    assert!(
        privilege.starts_with("not answering STAMP (port 862), OWAMP-Control (port 861): a port below 1024 ")
    );
    assert!(describe_failures(&[]).is_empty());
}
