use super::*;
use crate::emulator::Lab;
use jitlat_core::Dscp;
use jitlat_core::time::Span;
use jitlat_impair::{Choice, PathModel};
use std::io::stderr;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Creates a lab. If this fails, prints the reason past the test runner's output capture and returns `None`,
/// or panics if privileges are required.
fn lab(test: &str) -> Option<Lab> {
    let tun = File::open("/dev/net/tun").map_err(|e| format!("/dev/net/tun: {e}"));
    match tun.and_then(|_| Lab::new().map_err(|e| e.to_string())) {
        Ok(lab) => Some(lab),
        Err(e) => {
            assert!(std::env::var_os("JITLAT_REQUIRE_PRIVILEGED").is_none(), "{test}: {e}");
            let _ = writeln!(stderr(), "skipped: {test} needs root for network namespaces: {e}");
            None
        }
    }
}

const DELAY: Duration = Duration::from_millis(5);

fn path() -> PathModel {
    PathModel { delay: Span(DELAY.as_nanos() as i64), ..PathModel::default() }
}

fn scenario(up: PathModel, down: PathModel) -> Scenario {
    Scenario { up, down, ..Scenario::default() }
}

fn udp(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

fn packet(seq: i32) -> Vec<u8> {
    [&[0; 8][..], &seq.to_be_bytes(), &[7; 68]].concat()
}

fn receive_all(socket: &UdpSocket) -> Vec<i32> {
    let mut buffer = [0; 100];
    core::iter::from_fn(|| {
        socket.recv(&mut buffer).unwrap();
        Some(i32::from_be_bytes(buffer[8..12].try_into().unwrap())).filter(|seq| *seq != -1)
    })
    .collect()
}

#[test]
fn packets_of_both_versions_cross_with_known_losses() {
    let Some(lab) = lab("packets_of_both_versions_cross_with_known_losses") else { return };
    let up = PathModel { loss: Choice::ranges([2..=2, 5..=8]), ..path() };
    let down = PathModel { loss: Choice::indices([0]), remark: Dscp::new(10), ..path() };
    let tun = lab.tun(scenario(up, down), Numbering::Sequence).unwrap();
    let [client, server] = [&lab.client, &lab.server];
    for (c, s) in [(client.v4, server.v4), (client.v6, server.v6)] {
        let near = client.within(|| udp((c, 0).into())).unwrap();
        let far = server.within(|| udp((s, 2667).into())).unwrap();
        near.connect((s, 2667)).unwrap();
        for seq in (0..10).chain([-1]) {
            near.send(&packet(seq)).unwrap();
        }
        assert_eq!(receive_all(&far), [0, 1, 3, 4, 9]);
        far.connect(near.local_addr().unwrap()).unwrap();
        for seq in (0..4).chain([-1]) {
            far.send(&packet(seq)).unwrap();
        }
        assert_eq!(receive_all(&near), [1, 2, 3]);
    }
    let report = tun.stop();
    assert_eq!(report.up.loss_runs().into_iter().collect::<Vec<_>>(), [(1, 2), (4, 2)]);
    assert_eq!((report.down.lost, report.overflow), (2, 0));
}

#[test]
fn tcp_survives_a_path_that_loses_its_packets() {
    let Some(lab) = lab("tcp_survives_a_path_that_loses_its_packets") else { return };
    let bad = PathModel { loss: Choice::indices([20, 40, 41, 90]), ..path() };
    let tun = lab.tun(scenario(bad, path()), Numbering::Arrival).unwrap();
    let address = SocketAddr::from((lab.server.v4, 9));
    let listener = lab.server.within(|| TcpListener::bind(address).unwrap()).unwrap();
    let sent: Vec<u8> = (0..300_000u32).map(|i| (i * 7 / 3) as u8).collect();
    let started = Instant::now();
    let got = std::thread::scope(|s| {
        let reader = s.spawn(|| {
            let mut got = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
            got
        });
        lab.client.within(|| TcpStream::connect(address).unwrap().write_all(&sent).unwrap()).unwrap();
        reader.join().unwrap()
    });
    assert!(got == sent);
    assert!(started.elapsed() >= 3 * DELAY);
    let report = tun.stop();
    assert_eq!((report.up.lost, report.up.others), (4, 0));
}

#[test]
fn a_missing_namespace_is_said_with_its_remedy() {
    let end =
        |device: &str| TunEnd { namespace: Some("jitlat-missing".to_owned()), device: device.to_owned() };
    let config = TunConfig {
        client: end("a"),
        server: end("b"),
        scenario: Scenario::default(),
        numbering: Numbering::default(),
        ports: Vec::new(),
    };
    let message = Tun::start(config).err().unwrap().to_string();
    assert!(message.contains("jitlat-missing") && message.contains("ip netns add"), "{message}");
}
