//! Datagrams with the source address of another host, and the traffic which that host receives for them.

use crate::harness::*;
use jitlat_net::emulator::Lab;
use jitlat_net::emulator::lab::{DEVICE, Namespace};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The host whose address is forged.
pub const VICTIM: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 3);
/// Length of the headers of IPv4 and UDP, in bytes.
const HEADERS: usize = 28;

/// Attacker (in [`Lab::client`]), server and victim at one switch.
pub struct Scene {
    pub lab: Lab,
    /// The victim: the host of the switch.
    pub victim: Namespace,
}

impl Scene {
    /// Creates the scene; `None` without the privilege.
    pub fn new(test: &str) -> Option<Scene> {
        let lab = lab(test)?;
        let victim = lab.switch().unwrap();
        victim.run(&format!("ip address add {VICTIM}/24 dev bridge")).unwrap();
        Some(Scene { lab, victim })
    }

    /// Gives the attacker the addresses 10.9.0.x for each x in `hosts`.
    pub fn crowd(&self, hosts: Range<u8>) {
        for host in hosts {
            self.lab.client.run(&format!("ip address add 10.9.0.{host}/24 dev {DEVICE}")).unwrap();
        }
    }

    /// Number of packets that the attacker's host has sent.
    pub fn attacked(&self) -> u64 {
        let file = format!("/sys/class/net/{DEVICE}/statistics/tx_packets");
        let output = self.lab.client.command("cat").arg(file).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
    }

    /// Creates a socket of the attacker that sends with the victim's address.
    pub fn forger(&self, port: u16) -> UdpSocket {
        let open = || {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
            socket.set_ip_transparent_v4(true).unwrap();
            socket.bind(&SocketAddr::from((VICTIM, port)).into()).unwrap();
            UdpSocket::from(socket)
        };
        self.lab.client.within(open).unwrap()
    }

    /// Counts the packets that the victim receives until [`Listening::stop`].
    pub fn listen(&self) -> Listening {
        let open = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).unwrap();
        let mut socket = self.victim.within(open).unwrap();
        socket.set_recv_buffer_size(8 << 20).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let packets = Arc::new(AtomicUsize::new(0));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&packets));
        let count = move || {
            let (mut traffic, mut datagram) = (Traffic::default(), vec![0; 65_536]);
            loop {
                match socket.read(&mut datagram) {
                    Ok(length) => {
                        traffic.add(length);
                        counted.store(traffic.packets, Ordering::Relaxed);
                    }
                    Err(_) if stopped.load(Ordering::Relaxed) => return traffic,
                    Err(_) => {}
                }
            }
        };
        Listening { stop, packets, thread: std::thread::spawn(count) }
    }
}

/// Number of packets, and of bytes including their headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub packets: usize,
    pub bytes: usize,
}

impl Traffic {
    fn add(&mut self, length: usize) {
        self.packets += 1;
        self.bytes += length;
    }
}

pub struct Listening {
    stop: Arc<AtomicBool>,
    packets: Arc<AtomicUsize>,
    thread: JoinHandle<Traffic>,
}

impl Listening {
    /// Packets received so far.
    fn packets(&self) -> usize {
        self.packets.load(Ordering::Relaxed)
    }

    pub fn stop(self) -> Traffic {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// An attack: its name, and the packets that each of its many ports sends to provoke answers.
pub struct Attack {
    pub name: &'static str,
    pub packets: Vec<Vec<u8>>,
}

const PORTS: u16 = 500;

/// Runs `attacks` on `port` of a server with `arguments`, each from many forged ports, and checks the traffic to the
/// victim. `wait`: time that the server may take to send the last packet.
pub fn gain_nothing(test: &str, arguments: &str, port: u16, attacks: &[Attack], wait: Duration) {
    let Some(scene) = Scene::new(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(Place::In(&scene.lab.server), folder.path(), scene.lab.server.v4, arguments);
    let to = SocketAddr::new(scene.lab.server.v4, port);
    let mut table = String::from("attack                            packets out/in   bytes out/in\n");
    let mut worst: f64 = 0.0;
    for (k, attack) in attacks.iter().enumerate() {
        let victim = scene.listen();
        let mut sent = Traffic::default();
        let mut n = 0;
        // A rate at which no buffer on the path overflows.
        jitlat_waiting::at_pace(Duration::from_micros(300), || {
            let socket = scene.forger(2000 + 1000 * k as u16 + n);
            for packet in &attack.packets {
                socket.send_to(packet, to).unwrap();
                sent.add(HEADERS + packet.len());
            }
            n += 1;
            n < PORTS
        });
        jitlat_waiting::within(wait, || victim.packets() > sent.packets);
        let received = victim.stop();
        let packets = received.packets as f64 / sent.packets as f64;
        let bytes = received.bytes as f64 / sent.bytes as f64;
        table += &format!("{:32} {packets:15.2} {bytes:14.2}\n", attack.name);
        worst = worst.max(packets).max(bytes);
    }
    // Written directly to standard error, because the test runner captures printed text.
    let _ = write!(std::io::stderr(), "{table}");
    assert!(worst <= 1.0, "{table}");
}
