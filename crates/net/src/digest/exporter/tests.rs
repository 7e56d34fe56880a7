//! The service with clients that take as much as they can get.

use super::*;
use crate::digest::{CollectorError, DigestCollector};
use jitlat_proto::digest::{DigestError, Listen};
use jitlat_proto::policy::Scope;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use std::os::fd::AsRawFd;

/// Timeout of every wait.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts a service that offers no interface: nothing is captured, and no privilege is needed.
fn service(introduction: Duration) -> (RunningService, SocketAddr) {
    let exporter = DigestExporter {
        interfaces: Vec::new(),
        keys: Default::default(),
        rate: 1000,
        settings: InterfaceSettings::default(),
    };
    let running = exporter
        .serve_with_timeouts(&["127.0.0.1:0".parse().unwrap()], Gate::new(Policy::default()), introduction)
        .unwrap();
    let address = running.addresses()[0];
    (running, address)
}

/// Connects from an address of the loopback network.
fn connected(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let [a, b, c, d] = from;
    bind(fd.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 0)).unwrap();
    let SocketAddr::V4(to) = to else { panic!("{to} is not IPv4") };
    connect(fd.as_raw_fd(), &SockaddrIn::from(to)).unwrap();
    let stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Returns everything received until the connection ends.
fn received(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        // The peer closed the connection with unread bytes.
        Err(e) if e.kind() == ErrorKind::ConnectionReset => {}
        Err(e) => panic!("the connection did not end: {e}"),
    }
    bytes
}

/// Returns the error with which a well-behaved collector on this host ends.
fn refusal_of(service: SocketAddr) -> DigestError {
    let address = service.ip().to_string();
    match DigestCollector::connect(&address, service.port(), Listen::default(), None).map(|_| ()) {
        Err(CollectorError::Conversation { source, .. }) => source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_that_takes_its_whole_share_leaves_room_for_others() {
    let (_running, address) = service(INTRODUCTION_TIMEOUT);
    let greedy = [127, 0, 0, 2];
    let mut held: Vec<TcpStream> =
        (0..Policy::default().quota(DIGESTS, Scope::ServiceClient).connections.unwrap())
            .map(|_| connected(greedy, address))
            .collect();
    let reason = received(connected(greedy, address));
    assert!(!reason.is_empty(), "one more than its share gets the reason");
    assert!(
        matches!(refusal_of(address), DigestError::Refused(DigestRefusal::Interface, _)),
        "others are answered"
    );
    // Released capacity can be used again.
    drop(held.pop());
    let began = Instant::now();
    while {
        let again = connected(greedy, address);
        again.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        // An admitted connection receives nothing before it sends a request.
        (&again).read(&mut [0]).is_ok()
    } {
        assert!(began.elapsed() < LIMIT, "the place of a connection that ended is never free");
    }
}

#[test]
fn a_client_that_asks_for_nothing_is_let_go_however_it_drips() {
    let introduction = Duration::from_millis(300);
    let (_running, address) = service(introduction);
    let began = Instant::now();
    let silent = connected([127, 0, 0, 2], address);
    let mut dripping = connected([127, 0, 0, 3], address);
    // The length of a message that never arrives, byte by byte.
    jitlat_waiting::at_pace(Duration::from_millis(20), || {
        assert!(began.elapsed() < LIMIT, "a byte now and then keeps a connection for ever");
        dripping.write_all(&[0]).is_ok()
    });
    received(silent);
    assert!(began.elapsed() >= introduction, "it had its time");
}
