//! Each client against its reflector through the kernel, on loopback.

use super::*;
use crate::pace::Pacing;
use crate::stamp::Stamps;
use crate::twoway::client::{Error, Link, Measured, run};
use crate::twoway::socket::{Carrier, Marking};
use jitlat_core::record::Moment;
use jitlat_core::spec::{Direction, Schedule, Transport};
use jitlat_core::{Dscp, TestSpec};
use jitlat_proto::twoway::{Plan, Protocol};

fn service(ip: &str) -> Service {
    let bind = vec![ip.parse().unwrap()];
    let twamp = Some(twamp::Settings { port: 0, ..twamp::Settings::default() });
    Service { bind, stamp_port: Some(0), lamp_port: Some(0), tcp_port: Some(0), twamp, ..Service::default() }
}

fn plan(packets: u64, payload: u64) -> Plan {
    let spec =
        TestSpec::new(Direction::Up, Transport::Udp, packets, payload, Span::millis(2), Schedule::Periodic);
    Plan { spec: spec.unwrap(), wait: None, patience: Span::seconds(2) }
}

fn link(to: SocketAddr) -> Link {
    let marking = Marking { dscp: Dscp::new(46).unwrap(), ..Marking::default() };
    Link { to, carrier: Carrier::Udp, marking, stamps: Stamps::Kernel, pacing: Pacing::default(), live: None }
}

fn measure<P: Protocol>(protocol: P, payload: u64, to: SocketAddr) -> Measured<P> {
    let stop = AtomicBool::new(false);
    run(|_| protocol, plan(20, payload), &link(to), &stop).unwrap()
}

fn address(r: &Reflectors, name: &str) -> SocketAddr {
    r.listening().iter().find(|(n, _)| *n == name).unwrap().1
}

#[test]
fn stamp_over_both_families() {
    for ip in ["127.0.0.1", "::1"] {
        let reflectors = Reflectors::start(&service(ip));
        if !reflectors.failures().is_empty() && ip == "::1" {
            eprintln!("skipped: this host has no IPv6 loopback");
            continue;
        }
        let options = stamp::sender::Options { class_of_service: Some(46), ..Default::default() };
        let measured = measure(stamp::Sender::new(options), 44, address(&reflectors, "STAMP"));
        let mut outcome = measured.outcome;
        assert_eq!((outcome.ledger.answered(), outcome.ledger.requests()), (20, 20), "{ip}");
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
        assert!(reflectors.counters().answered.load(Ordering::Relaxed) >= 19);
    }
}

#[test]
fn lamp_with_follow_up_and_one_way() {
    let reflectors = Reflectors::start(&service("127.0.0.1"));
    let to = address(&reflectors, "LaMP");
    let options =
        |mode, follow_up| lamp::client::Options { id: 9, mode, payload: 8, timeless: false, follow_up };
    for kind in [lamp::FollowUp::Application, lamp::FollowUp::KernelReceive, lamp::FollowUp::Kernel] {
        let client = lamp::Client::new(options(lamp::Mode::PingLike, Some(kind)));
        let measured = measure(client, 32, to);
        assert_eq!(measured.outcome.protocol.follow_up(), lamp::client::FollowUpState::Accepted, "{kind:?}");
        assert_eq!(measured.outcome.ledger.answered(), 20, "{kind:?}");
        assert!(measured.outcome.records.iter().all(|r| r.time(Moment::Answered).is_some()), "{kind:?}");
    }
    let client = lamp::Client::new(options(lamp::Mode::PingLike, Some(lamp::FollowUp::Hardware)));
    let measured = measure(client, 32, to);
    assert_eq!(measured.outcome.protocol.follow_up(), lamp::client::FollowUpState::Denied);
    let client = lamp::Client::new(options(lamp::Mode::Unidirectional, None));
    let measured = measure(client, 32, to);
    assert_eq!(measured.outcome.protocol.report().map(|r| r.received), Some(20));
}

#[test]
fn request_response_over_tcp() {
    let reflectors = Reflectors::start(&service("127.0.0.1"));
    let to = address(&reflectors, "TCP request-response");
    let sizes = jitlat_proto::reqresp::Sizes::new(1460, 1000).unwrap();
    let stop = AtomicBool::new(false);
    let (measured, course) = request_response::run(sizes, plan(20, 1460), &link(to), &stop).unwrap();
    assert_eq!(course.len(), 20);
    assert!(course.iter().all(|i| i.mss > 0 && i.cwnd > 0 && i.srtt_us > 0), "{course:?}");
    assert_eq!((measured.outcome.ledger.answered(), measured.outcome.records.len()), (20, 20));
}

#[test]
fn hosts_that_are_not_allowed_hear_nothing() {
    let allow = vec!["127.0.0.2".parse().unwrap(), "192.0.2.0/24".parse().unwrap()];
    let reflectors = Reflectors::start(&Service { allow, ..service("127.0.0.1") });
    let to = address(&reflectors, "STAMP");
    let ask = |ip: &str, patience| {
        let mut link = link(to);
        link.marking.bind = Some(ip.parse().unwrap());
        let plan = Plan { patience, ..plan(3, 44) };
        let stop = AtomicBool::new(false);
        let sender = stamp::Sender::new(Default::default());
        run(|_| sender, plan, &link, &stop).unwrap().outcome.ledger.answered()
    };
    assert_eq!((ask("127.0.0.1", Span::millis(300)), ask("127.0.0.2", Span::seconds(5))), (0, 3));
    assert_eq!(reflectors.counters().silent[Silence::NotAllowed as usize].load(Ordering::Relaxed), 3);
}

#[test]
fn nobody_there_is_said() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stop = AtomicBool::new(false);
    let sender = stamp::Sender::new(Default::default());
    let result = run(|_| sender, Plan { patience: Span::millis(50), ..plan(3, 44) }, &link(port), &stop);
    assert!(matches!(result.map(|m| m.refused), Err(Error::Refused(at)) if at == port));
}

#[test]
fn icmp_echo_to_this_host() {
    use jitlat_proto::echo::{Echo, Family};
    let stop = AtomicBool::new(false);
    let mut link = link("127.0.0.1:0".parse().unwrap());
    link.carrier = Carrier::Icmp;
    let id = |kernel: bool| if kernel { None } else { Some(77) };
    match run(|k| Echo::new(Family::V4, id(k), 5, 56), plan(10, 64), &link, &stop) {
        Ok(m) => assert_eq!((m.outcome.ledger.answered(), m.outcome.records.len()), (10, 10)),
        Err(Error::Socket { hint, .. }) => {
            assert!(hint.contains("CAP_NET_RAW"), "{hint}");
            eprintln!("skipped: {hint}");
        }
        Err(e) => panic!("{e}"),
    }
}

/// Whether the UDP checksum of each frame to `port` is that of its bytes, until `wanted` have come or for two seconds.
fn sums(live: &mut crate::capture::live::Live, port: u16, wanted: usize) -> Vec<bool> {
    use crate::twoway::raw::{checksum, sum_of};
    let mut seen = Vec::new();
    for _ in 0..100 {
        live.poll(Duration::from_millis(20), |frame| {
            let packet = &frame.data[14..];
            if packet[0] != 0x45 || packet[9] != 17 || packet[22..24] != port.to_be_bytes() {
                return;
            }
            let pseudo = sum_of(&packet[12..20]) + 17 + (packet.len() - 20) as u64;
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
fn whoever_reads_whole_frames_gets_whole_checksums() {
    use crate::capture::live::{Live, Settings};
    let Ok(mut live) = Live::open("lo", Settings::default()) else {
        assert!(std::env::var_os("JITLAT_REQUIRE_PRIVILEGED").is_none());
        return eprintln!("skipped: whoever_reads_whole_frames_gets_whole_checksums: no CAP_NET_RAW");
    };
    let reflectors = Reflectors::start(&service("127.0.0.1"));
    // A raw client of LaTe, by its port: acknowledgement, answer, follow-up stamped by the kernel, report.
    let client = UdpSocket::bind("127.46.77.2:46772").unwrap();
    client.connect(address(&reflectors, "LaMP")).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let packet = |kind, id, word| lamp::Header::new(kind, id, 0, word).at(clock::wall()).to_bytes();
    let ask = |kind, id, word, answers| {
        client.send(&packet(kind, id, word)).unwrap();
        (0..answers).for_each(|_| assert!(client.recv(&mut [0; 200]).unwrap() >= 24));
    };
    ask(lamp::Kind::Init, 1, 1, 1);
    ask(lamp::Kind::FollowUpControl, 1, lamp::FollowUp::Kernel.code(), 1);
    ask(lamp::Kind::EndRequest, 1, 0, 2);
    ask(lamp::Kind::Init, 2, 2, 1);
    ask(lamp::Kind::Stop, 2, 0, 1);
    assert_eq!(sums(&mut live, lamp::RAW_PORT, 6)[..6], [true; 6]);

    // A far host whose kernel refuses, while something there may read frames: from then on they are whole.
    let port = UdpSocket::bind("127.46.77.3:0").unwrap().local_addr().unwrap();
    let options = lamp::client::Options {
        id: 9,
        mode: lamp::Mode::PingLike,
        payload: 8,
        timeless: false,
        follow_up: None,
    };
    let stop = AtomicBool::new(false);
    let result = run(|_| lamp::Client::new(options), plan(1, 32), &link(port), &stop);
    assert!(matches!(result.map(|m| m.refused), Err(Error::Refused(_))));
    let seen = sums(&mut live, port.port(), 30);
    assert!(seen.len() == 30 && seen[2..].iter().all(|whole| *whole), "{seen:?}");
}

#[test]
fn a_responder_that_stops_at_any_step_is_given_up() {
    use jitlat_core::session::Ending;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    let sizes = jitlat_proto::reqresp::Sizes::new(100, 50).unwrap();
    // What it sends of the conversation (a greeting of 16 bytes, responses of 50) before it falls silent or leaves.
    let steps = [0, 7, 16, 16 + 20, 16 + 50, 16 + 3 * 50 + 49];
    std::thread::scope(|scope| {
        for (step, leaves) in steps.into_iter().flat_map(|s| [(s, false), (s, true)]) {
            scope.spawn(move || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let to = listener.local_addr().unwrap();
                let responder = move || {
                    let mut stream: TcpStream = listener.accept().unwrap().0;
                    let mut heard = [0; 100];
                    stream.read_exact(&mut heard[..16]).unwrap();
                    let mut left = step;
                    let mut say = |stream: &mut TcpStream, bytes: &[u8]| {
                        let part = left.min(bytes.len());
                        left -= part;
                        stream.write_all(&bytes[..part]).is_ok() && left > 0
                    };
                    let mut on = say(&mut stream, &heard[..16]);
                    while on && stream.read_exact(&mut heard).is_ok() {
                        let mut response = [0; 50];
                        jitlat_proto::reqresp::respond(&heard, WallTime(1), WallTime(2), &mut response);
                        on = say(&mut stream, &response);
                    }
                    if !leaves {
                        // Until the client has given up.
                        while stream.read(&mut heard).is_ok_and(|n| n > 0) {}
                    }
                };
                let responder = std::thread::spawn(responder);
                let stop = AtomicBool::new(false);
                let plan = Plan { patience: Span::millis(300), ..plan(6, 100) };
                let result = request_response::run(sizes, plan, &link(to), &stop);
                let whole = step.saturating_sub(16) / 50;
                match result {
                    Err(Error::Conversation { .. }) => assert!(step < 16, "{step}"),
                    Err(e) => panic!("{step}: {e}"),
                    Ok((measured, course)) => {
                        let ending = if leaves { Ending::PeerLost } else { Ending::Complete };
                        assert_eq!((measured.ending, course.len()), (ending, whole), "{step} {leaves}");
                        assert_eq!(measured.outcome.ledger.answered(), whole as u64, "{step}");
                    }
                }
                responder.join().unwrap();
            });
        }
    });
}

#[test]
fn there_are_no_raw_frames_to_oneself() {
    let raw = Link { carrier: Carrier::Raw, ..link("127.0.0.1:46000".parse().unwrap()) };
    let refused = crate::twoway::prepare(&raw, 24).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("loopback"), "{refused}");
    let service = Service { lamp_raw: Some("lo".into()), ..service("127.0.0.1") };
    let reflectors = Reflectors::start(&service);
    assert!(reflectors.failures().iter().any(|f| f.contains("loopback")), "{:?}", reflectors.failures());
    assert!(reflectors.listening().iter().all(|(name, _)| !name.starts_with("LaMP")));
}

#[test]
fn reports_leave_from_the_address_that_was_asked() {
    let reflectors = Reflectors::start(&service("0.0.0.0"));
    let port = address(&reflectors, "LaMP").port();
    let options = lamp::client::Options {
        id: 9,
        mode: lamp::Mode::Unidirectional,
        payload: 8,
        timeless: false,
        follow_up: None,
    };
    // Left to itself the system would send them from 127.0.0.1.
    let measured = measure(lamp::Client::new(options), 32, SocketAddr::from(([127, 0, 0, 9], port)));
    assert_eq!(measured.outcome.protocol.report().map(|r| r.received), Some(20));
}
