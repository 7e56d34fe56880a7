use super::*;
use crate::settings::Numbering;
use jitlat_core::time::Span;
use jitlat_impair::{Choice, DuplicationModel, PathModel, Scenario};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(5);
const DELAY: Duration = Duration::from_millis(5);

fn path() -> PathModel {
    PathModel { delay: Span(DELAY.as_nanos() as i64), ..PathModel::default() }
}

fn udp(address: impl Into<std::net::IpAddr>) -> UdpSocket {
    let socket = UdpSocket::bind((address.into(), 0)).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

fn relay(up: PathModel, down: PathModel, server: &UdpSocket) -> Relay {
    let to = server.local_addr().unwrap();
    let scenario = Scenario { up, down, ..Scenario::default() };
    let udp = vec![Forward { listen: SocketAddr::new(to.ip(), 0), to }];
    Relay::start(RelayConfig { tcp: Vec::new(), udp, scenario, numbering: Numbering::Sequence }).unwrap()
}

fn packet(seq: i32) -> Vec<u8> {
    [&[0; 8][..], &seq.to_be_bytes(), &[7; 68]].concat()
}

fn receive(socket: &UdpSocket) -> (i32, SocketAddr) {
    let mut buffer = [0; 100];
    let (n, from) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(n, 80);
    (i32::from_be_bytes(buffer[8..12].try_into().unwrap()), from)
}

/// Receives all packets up to and including the sentinel.
fn receive_all(socket: &UdpSocket) -> Vec<i32> {
    core::iter::from_fn(|| Some(receive(socket).0).filter(|seq| *seq != -1)).collect()
}

#[test]
fn known_patterns_come_out_exactly_in_both_directions() {
    let server = udp(Ipv4Addr::LOCALHOST);
    let up = PathModel { loss: Choice::ranges([3..=3, 10..=14]), ..path() };
    let copies = DuplicationModel { choice: Choice::indices([2]), ..DuplicationModel::default() };
    let down = PathModel { loss: Choice::indices([0, 19]), duplication: copies, ..path() };
    let relay = relay(up, down, &server);
    let client = udp(Ipv4Addr::LOCALHOST);
    client.connect(relay.udp_addresses()[0]).unwrap();

    let started = Instant::now();
    for seq in [-2].into_iter().chain(0..20).chain([-1]) {
        client.send(&packet(seq)).unwrap();
    }
    let (hello, back) = receive(&server);
    assert!(started.elapsed() >= DELAY);
    assert_eq!(hello, -2);
    let expected: Vec<i32> = (0..20).filter(|i| *i != 3 && !(10..=14).contains(i)).collect();
    assert_eq!(receive_all(&server), expected);

    let started = Instant::now();
    for seq in (0..20).chain([-1]) {
        server.send_to(&packet(seq), back).unwrap();
    }
    let expected: Vec<i32> = (1..19).flat_map(|i| vec![i; if i == 2 { 2 } else { 1 }]).collect();
    assert_eq!(receive_all(&client), expected);
    assert!(started.elapsed() >= DELAY);

    let report = relay.stop();
    assert_eq!(report.up.loss_runs().into_iter().collect::<Vec<_>>(), [(1, 1), (5, 1)]);
    assert_eq!((report.up.test_packets, report.up.others), (20, 2));
    assert_eq!((report.down.lost, report.down.copies, report.down.others), (2, 1, 1));
    assert_eq!((report.overflow, report.lateness.deliveries), (0, 16 + 20));
}

#[test]
fn each_client_hears_its_own_answers() {
    let server = udp(Ipv6Addr::LOCALHOST);
    let relay = relay(path(), path(), &server);
    let clients = [0, 1, 2].map(|_| udp(Ipv6Addr::LOCALHOST));
    for (i, client) in (0..).zip(&clients) {
        client.connect(relay.udp_addresses()[0]).unwrap();
        client.send(&packet(i)).unwrap();
    }
    for _ in &clients {
        let (seq, from) = receive(&server);
        server.send_to(&packet(seq + 100), from).unwrap();
    }
    for (i, client) in (0..).zip(&clients) {
        assert_eq!(receive(client).0, i + 100);
    }
    assert_eq!(relay.stop().lateness.deliveries, 6);
}

#[test]
fn the_traffic_class_is_passed_on_or_remarked() {
    let server = udp(Ipv4Addr::LOCALHOST);
    socket2::SockRef::from(&server).set_recv_tos_v4(true).unwrap();
    let mut remarked = path();
    for (remark, tos, expected) in [(None, 0xb8, 0xb8), (None, 0, 0), (Some(10), 0x22, 0x2a)] {
        remarked.remark = remark.and_then(jitlat_core::Dscp::new);
        let relay = relay(remarked.clone(), path(), &server);
        let client = udp(Ipv4Addr::LOCALHOST);
        socket2::SockRef::from(&client).set_tos_v4(tos).unwrap();
        client.send_to(&packet(1), relay.udp_addresses()[0]).unwrap();
        let mut control = nix::cmsg_space!(i32);
        let mut buffer = [0; 100];
        let mut parts = [io::IoSliceMut::new(&mut buffer)];
        use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
        use std::os::fd::AsRawFd;
        let m = recvmsg::<()>(server.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty()).unwrap();
        let seen: Vec<_> = m.cmsgs().unwrap().collect();
        assert_eq!(seen, [ControlMessageOwned::Ipv4Tos(expected)]);
    }
}

fn tcp_relay(to: SocketAddr) -> Relay {
    let forward = Forward { listen: (Ipv4Addr::LOCALHOST, 0).into(), to };
    let scenario = Scenario::symmetric("", 0, path());
    Relay::start(RelayConfig {
        tcp: vec![forward],
        udp: Vec::new(),
        scenario,
        numbering: Numbering::default(),
    })
    .unwrap()
}

fn connect(relay: &Relay) -> TcpStream {
    let stream = TcpStream::connect(relay.tcp_addresses()[0]).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

#[test]
fn a_connection_is_forwarded_completely_and_late() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let relay = tcp_relay(listener.local_addr().unwrap());
    let sent: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 / 3) as u8).collect();
    let started = Instant::now();
    std::thread::scope(|s| {
        // The server echoes until its client has closed, then closes.
        s.spawn(|| {
            let (mut stream, peer) = listener.accept().unwrap();
            assert_eq!(peer.ip(), Ipv4Addr::LOCALHOST);
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
            stream.write_all(b"bye").unwrap();
        });
        let mut stream = connect(&relay);
        stream.write_all(&sent).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        assert!(back == [&sent[..], b"bye"].concat());
    });
    assert!(started.elapsed() >= 2 * DELAY);
}

#[test]
fn a_refusing_server_closes_the_client() {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let relay = tcp_relay(closed);
    let mut stream = connect(&relay);
    assert!(matches!(stream.read(&mut [0; 10]), Ok(0) | Err(_)));
}

#[test]
fn an_address_in_use_is_said_by_name() {
    let holder = udp(Ipv4Addr::LOCALHOST);
    let taken = holder.local_addr().unwrap();
    let config = RelayConfig {
        tcp: Vec::new(),
        udp: vec![Forward { listen: taken, to: taken }],
        scenario: Scenario::default(),
        numbering: Numbering::default(),
    };
    let message = Relay::start(config).err().unwrap().to_string();
    assert!(message.contains(&taken.to_string()) && message.contains("UDP"), "{message}");
}
