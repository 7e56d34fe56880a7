//! An ADSL line with a cell clock in the emulator, captured at both hosts: its encapsulation, its cells, and a NAT in
//! front of it. With `JITLAT_KEEP_CAPTURES=DIR` the captures are stored there.

use crate::harness::*;
use crate::undisturbed::undisturbed;
use jitlat_impair::Scenario;
use jitlat_net::emulator::{Lab, Numbering};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(90);

/// The line of the seed without its tunnel. The downstream queue holds six packets of 1450 bytes.
fn line(encapsulation: &str) -> Scenario {
    let text = format!(
        "name = ADSL\nseed = 4\n[both]\ndelay = 2500us\n[up]\nrate = 128kbit queue 64kB\ncells = {encapsulation}\n\
         [down]\nrate = 512kbit queue 11kB\ncells = {encapsulation}\n"
    );
    text.parse().unwrap()
}

fn keep(files: [&Path; 2], name: &str) {
    let Some(folder) = std::env::var_os("JITLAT_KEEP_CAPTURES") else { return };
    for (file, point) in files.into_iter().zip(["ref", "mon"]) {
        std::fs::copy(file, Path::new(&folder).join(format!("{name}.{point}.pcap"))).unwrap();
    }
}

/// A host behind the client's NAT: a namespace of its own, 10.5.0.2.
struct Home(String);

impl Home {
    fn behind(lab: &Lab) -> Home {
        let home = Home(format!("{}-home", lab.client.name()));
        let router = lab.client.name();
        for command in [
            format!("ip netns add {}", home.0),
            format!("ip link add inside netns {router} type veth peer name home netns {}", home.0),
            format!("ip netns exec {router} ip address add 10.5.0.1/24 dev inside"),
            format!("ip netns exec {router} ip link set inside up"),
            format!("ip netns exec {router} sysctl -qw net.ipv4.ip_forward=1"),
            format!("ip netns exec {} ip address add 10.5.0.2/24 dev home", home.0),
            format!("ip netns exec {} ip link set home up", home.0),
            format!("ip netns exec {} ip route add default via 10.5.0.1", home.0),
            format!("ip netns exec {router} nft add table ip nat"),
            format!(
                "ip netns exec {router} nft add chain ip nat out {{ type nat hook postrouting priority 100 ; }}"
            ),
            format!("ip netns exec {router} nft add rule ip nat out oifname path masquerade random"),
        ] {
            let mut words = command.split_whitespace();
            let done = Command::new(words.next().unwrap()).args(words).output().unwrap();
            assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
        }
        home
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).output();
    }
}

#[test]
fn vc_multiplexing_is_told_from_llc_through_a_nat() {
    undisturbed(|| {
        let test = "vc_multiplexing_is_told_from_llc_through_a_nat";
        let Some(lab) = lab(test) else { return };
        if !has_tcpdump(test) || Command::new("nft").arg("--version").output().is_err() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let _tun = lab.tun(line("pppoe-vc"), Numbering::Arrival).unwrap();
        let home = Home::behind(&lab);
        let _server = Server::start(Place::In(&lab.server), folder.path(), lab.server.v4, "");
        let [reference, monitor] = ["ref", "mon"].map(|point| folder.path().join(format!("{point}.pcap")));
        let mut tcpdump = home.command("tcpdump");
        tcpdump.args(["-q", "-U", "-n", "-s", "80", "-i", "home", "-w"]).arg(&reference).arg("udp");
        let captures = [capture_with(tcpdump, &reference), capture(&lab.server, "path", &monitor, "udp")];
        // 400 bytes with their headers: 9 cells behind VC multiplexing, 10 behind LLC.
        let mut client = home.command(env!("CARGO_BIN_EXE_jitlat"));
        let arguments = format!("{} -b -n 250 -p 60ms -l 372 -o test.log", lab.server.v4);
        client.args(arguments.split_whitespace()).current_dir(folder.path());
        Running::start(client).finish(LIMIT);
        end_captures(captures, [&reference, &monitor]);
        keep([&reference, &monitor], "nat_vc_udp372");
        let spp = |link: &str| {
            let arguments =
                format!("spp -f ref.pcap -F mon.pcap --only udp --json - --link {link},up=128k,down=512k");
            Running::start(Place::Here.jitlat(folder.path(), &arguments)).finish(LIMIT).report()
        };
        let report = spp("pppoe-vc");
        assert!(report.count("/summary/pairs") > 150, "{:#}", report.0);
        assert_eq!(report.at("/reference_addresses/0").as_str(), Some("10.5.0.2"));
        let size = |report: &Report| {
            let sizes = report.at("/sizes").as_array().unwrap().clone();
            sizes.into_iter().find(|s| s["out_length"] == 400 && s["in_length"] == 400).unwrap()
        };
        let above = |report: &Report| size(report)["model"]["min_above_ns"].as_f64().unwrap() / 1e6;
        // The path takes 5 ms; delays of a busy machine are added even to the smallest delay.
        let (vc, llc) = (above(&report), above(&spp("pppoe-llc")));
        assert!((vc - llc - 4.140625).abs() < 0.001, "a cell each way: {vc} {llc}");
        assert!(vc > 4.99 && llc < 4.99, "with LLC light would have been too fast: {vc} {llc}");
    });
}

#[test]
fn a_download_over_cells_is_captured() {
    undisturbed(|| {
        let test = "a_download_over_cells_is_captured";
        let Some(lab) = lab(test) else { return };
        if !has_tcpdump(test) {
            return;
        }
        let seconds = std::env::var_os("JITLAT_KEEP_CAPTURES").map_or(8, |_| 30);
        let folder = tempfile::tempdir().unwrap();
        let _tun = lab.tun(line("pppoe-llc"), Numbering::Arrival).unwrap();
        for host in [&lab.client, &lab.server] {
            host.run("ip link set path mtu 1450").unwrap();
        }
        let [reference, monitor] = ["ref", "mon"].map(|point| folder.path().join(format!("{point}.pcap")));
        let captures = [
            capture(&lab.client, "path", &reference, "tcp port 5201"),
            capture(&lab.server, "path", &monitor, "tcp port 5201"),
        ];
        let far = SocketAddr::new(lab.server.v4, 5201);
        let listener = lab.server.within(|| TcpListener::bind(far)).unwrap().unwrap();
        let length = Duration::from_secs(seconds);
        std::thread::scope(|s| {
            s.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_write_timeout(Some(LIMIT)).unwrap();
                let started = Instant::now();
                while started.elapsed() < length && stream.write_all(&[0; 1398]).is_ok() {}
            });
            // Other hosts use the upstream now and then: up to three small packets, whose delay makes bands of cells.
            s.spawn(|| {
                let socket = lab.client.within(|| UdpSocket::bind((lab.client.v4, 0))).unwrap().unwrap();
                let (started, mut k, mut burst) = (Instant::now(), 0u64, Instant::now());
                jitlat_waiting::at_pace(Duration::from_millis(5), || {
                    if Instant::now() < burst {
                        return started.elapsed() < length;
                    }
                    k = k.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    for _ in 0..1 + (k >> 60) % 3 {
                        let _ =
                            socket.send_to(&[0; 200][..20 + (k >> 40) as usize % 180], (lab.server.v4, 9));
                    }
                    burst += Duration::from_millis(60 + (k >> 33) % 200);
                    true
                });
            });
            let mut stream =
                lab.client.within(|| TcpStream::connect_timeout(&far, TIMEOUT)).unwrap().unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let mut data = [0; 1 << 16];
            while stream.read(&mut data).is_ok_and(|n| n > 0) {}
        });
        end_captures(captures, [&reference, &monitor]);
        keep([&reference, &monitor], "cells_tcp_down");
        let arguments = "spp -f ref.pcap -F mon.pcap --json - --link pppoe-llc,up=128k,down=512k";
        let report = Running::start(Place::Here.jitlat(folder.path(), arguments)).finish(LIMIT).report();
        let sizes = report.at("/sizes").as_array().unwrap();
        let data = sizes.iter().find(|s| s["out_length"] == 52 && s["in_length"] == 1450).unwrap();
        assert_eq!((&data["model"]["out_cells"], &data["model"]["in_cells"]), (&2.into(), &32.into()));
        assert!(data["pairs"].as_u64().unwrap() > 100, "{data}");
        assert!(data["model"]["min_above_ns"].as_f64().unwrap() > 4.99e6, "{data}");
    });
}
