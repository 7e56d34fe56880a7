//! Failures: each ends in bounded time with a reason, and received packets are retained.

use crate::common::{LOCAL, RecordCollector, all, free_port, key_of, measure, run, seqs, serve, serve_with};
use jitlat_core::session::Ending;
use jitlat_core::{Direction, Span, Transport};
use jitlat_proto::jitlat::{Dialect, ServerLimits};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

#[test]
fn a_stop_ends_the_test_and_keeps_what_came() {
    let server = serve();
    for direction in BOTH {
        let spec = server.spec(direction, Transport::Udp, 1_000_000, Span::millis(1));
        let mut collector = RecordCollector { stop_after: Some(100), ..RecordCollector::default() };
        let measured = run(&server.request(vec![spec]), &mut collector).unwrap();
        assert_eq!(measured.ending, Ending::Interrupted, "{measured:?}");
        let sent = measured.sessions[0].sent.unwrap();
        assert!((100..1_000_000).contains(&sent), "{sent}");
        assert_eq!(seqs(&collector.records[0]), all(sent.into()), "{direction:?}");
    }
}

#[test]
fn a_server_that_shuts_down_leaves_the_client_with_what_it_has() {
    let server = Arc::new(Mutex::new(serve()));
    let request = {
        let server = server.lock().unwrap();
        server.request(vec![server.spec(Direction::Down, Transport::Udp, 1_000_000, Span::millis(1))])
    };
    let shut = Arc::clone(&server);
    let mut collector = RecordCollector {
        stop_after: Some(100),
        at_stop: Some(Box::new(move || {
            std::thread::spawn(move || shut.lock().unwrap().shut_down());
        })),
        ..RecordCollector::default()
    };
    let measured = run(&request, &mut collector).unwrap();
    assert_eq!(measured.ending, Ending::ServerStopped, "{measured:?}");
    assert!(measured.reason.is_some());
    assert!(collector.records[0].len() >= 100, "{} records", collector.records[0].len());
}

/// Forwards control connections, and cuts them on request.
struct Cord {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    open: Arc<AtomicBool>,
}

impl Cord {
    fn to(server: SocketAddr) -> Cord {
        let listener = TcpListener::bind((LOCAL, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let open = Arc::new(AtomicBool::new(true));
        let (list, is_open) = (Arc::clone(&connections), Arc::clone(&open));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if !is_open.load(Ordering::Relaxed) {
                    return;
                }
                let far = TcpStream::connect(server).unwrap();
                for (from, to) in [(&client, &far), (&far, &client)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                list.lock().unwrap().extend([client, far]);
            }
        });
        Cord { address, connections, open }
    }

    /// Returns a function that cuts the current connections and, if `for_good` is true, refuses new ones.
    fn cutter(&self, for_good: bool) -> Box<dyn FnOnce()> {
        let (connections, open) = (Arc::clone(&self.connections), Arc::clone(&self.open));
        Box::new(move || {
            open.store(!for_good, Ordering::Relaxed);
            for stream in connections.lock().unwrap().drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        })
    }
}

#[test]
fn a_broken_control_connection_loses_nothing() {
    let server = serve();
    let cord = Cord::to(server.address);
    for direction in BOTH {
        let spec = server.spec(direction, Transport::Udp, 400, Span::millis(2));
        let mut request = server.request(vec![spec]);
        request.control_port = cord.address.port();
        let mut collector = RecordCollector {
            stop_after: Some(100),
            at_stop: Some(cord.cutter(false)),
            ..RecordCollector::default()
        };
        let measured = run(&request, &mut collector).unwrap();
        assert_eq!(measured.ending, Ending::PeerLost, "{direction:?}: {measured:?}");
        // The streams end early on both sides, and every packet sent before that is collected.
        let records = &collector.records[0];
        assert!(records.len() >= 100, "{direction:?}: {} records, {measured:?}", records.len());
        assert_eq!(seqs(records), all(records.len() as i64), "{direction:?}");
    }
}

#[test]
fn wrong_and_missing_keys_are_refused_on_both_sides() {
    let key = "a key of quite enough bytes, shared by both";
    let locked = serve_with(LOCAL, ServerLimits::default(), Some(key));
    let spec = locked.spec(Direction::Up, Transport::Udp, 20, Span::millis(1));
    let mut request = locked.request(vec![spec]);
    let refused = |request: &_| run(request, &mut RecordCollector::default()).unwrap_err().to_string();
    assert!(refused(&request).contains("key"), "{}", refused(&request));
    request.terms.key = Some(key_of("another key of quite enough bytes, not shared"));
    assert!(refused(&request).contains("key"), "{}", refused(&request));
    request.terms.key = Some(key_of(key));
    let (_, [records, _]) = measure(&request);
    assert_eq!(seqs(&records), all(20));

    let mut classic = locked.request(request.terms.specs.clone());
    classic.terms.dialect = Dialect::Classic;
    assert!(run(&classic, &mut RecordCollector::default()).is_err(), "workorders cannot prove a key");

    let open = serve();
    let mut suspicious = open.request(vec![open.spec(Direction::Up, Transport::Udp, 20, Span::millis(1))]);
    suspicious.terms.key = Some(key_of(key));
    assert!(refused(&suspicious).contains("key"), "{}", refused(&suspicious));
}

#[test]
fn a_refusal_names_the_limit() {
    let limits = ServerLimits { packets: 1000, ..ServerLimits::default() };
    let server = serve_with(LOCAL, limits, None);
    let spec = server.spec(Direction::Down, Transport::Udp, 1001, Span::millis(1));
    let error = run(&server.request(vec![spec]), &mut RecordCollector::default()).unwrap_err().to_string();
    assert!(error.contains("max-packets") && error.contains("1000"), "{error}");
}

#[test]
fn one_client_too_many_gets_the_reason() {
    let limits = ServerLimits { connections_per_client: 1, ..ServerLimits::default() };
    let server = serve_with(LOCAL, limits, None);
    let first = TcpStream::connect(server.address).unwrap();
    // Connections are accepted in order: a second one is refused from now on.
    let spec = server.spec(Direction::Up, Transport::Udp, 20, Span::millis(1));
    let error = run(&server.request(vec![spec]), &mut RecordCollector::default()).unwrap_err().to_string();
    assert!(error.contains("max-connections-per-client"), "{error}");
    drop(first);
}

#[test]
fn errors_say_what_to_try() {
    let server = serve();
    let spec = server.spec(Direction::Up, Transport::Udp, 20, Span::millis(1));
    let mut request = server.request(vec![spec]);
    request.control_port = free_port(LOCAL);
    let error = run(&request, &mut RecordCollector::default()).unwrap_err().to_string();
    assert!(error.contains("jitlat serve"), "{error}");
    request.host = "no-such-host.invalid".into();
    let error = run(&request, &mut RecordCollector::default()).unwrap_err().to_string();
    assert!(error.contains("no-such-host.invalid"), "{error}");
}

#[test]
fn garbage_on_every_port_changes_nothing() {
    let server = serve();
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, control, port) = (Arc::clone(&stop), server.address, server.test_port);
    let vandal = std::thread::spawn(move || {
        let socket = UdpSocket::bind((LOCAL, 0)).unwrap();
        let mut state = 1_u32;
        let mut noise = [0_u8; 300];
        let mut connections = Vec::new();
        jitlat_waiting::at_pace(Duration::from_millis(1), || {
            for byte in &mut noise {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (state >> 24) as u8;
            }
            let length = (state >> 8) as usize % noise.len();
            let _ = socket.send_to(&noise[..length], (LOCAL, port));
            // Greetings with an unknown token.
            let _ =
                socket.send_to(&[noise[..8].to_vec(), vec![0xff, 0xff, 0xff, 0xfe]].concat(), (LOCAL, port));
            if connections.len() < 12
                && let Ok(mut stream) = TcpStream::connect(control)
            {
                let opening: &[u8] = match connections.len() % 4 {
                    0 => b"GET / HTTP/1.1\r\n\r\n",
                    1 => b"JLT3\x7f\xff\xff\xff",
                    2 => &noise,
                    _ => b"",
                };
                let _ = stream.write_all(opening);
                connections.push(stream);
            }
            !flag.load(Ordering::Relaxed)
        });
    });
    for transport in [Transport::Udp, Transport::Tcp] {
        for direction in BOTH {
            let spec = server.spec(direction, transport, 200, Span::millis(1));
            let (_, [records, _]) = measure(&server.request(vec![spec]));
            assert_eq!(seqs(&records), all(200), "{direction:?} {transport}");
            assert!(records.iter().all(|r| r.flags.is_clean()));
        }
    }
    stop.store(true, Ordering::Relaxed);
    vandal.join().unwrap();
}

#[test]
fn a_server_answers_garbage_with_an_end() {
    let server = serve();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // Closed or reset at once.
    let mut answer = [0; 64];
    let end = stream.read(&mut answer);
    assert!(
        matches!(&end, Ok(0)) || end.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset),
        "{end:?}"
    );
}
