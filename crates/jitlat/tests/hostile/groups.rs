//! Requests to addresses of many hosts are not answered.

use crate::harness::*;
use jitlat_core::WallTime;
use jitlat_proto::twoway::Protocol;
use jitlat_proto::{lamp, stamp};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::Duration;

#[test]
fn nothing_sent_to_a_group_is_answered() {
    let Some(lab) = lab("nothing_sent_to_a_group_is_answered") else { return };
    lab.cable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // A server bound to no address receives packets to groups.
    let _server = Server::start(Place::In(&lab.server), folder.path(), Ipv4Addr::UNSPECIFIED, "--bind ::");
    let mut request = Vec::new();
    stamp::StampSender::new(stamp::sender::StampOptions::default()).request(
        0,
        true,
        WallTime(1 << 60),
        &mut request,
    );
    let init = lamp::LampHeader::new(lamp::LampKind::Init, 7, 0, 1).to_bytes();
    let ask = || {
        let interface = nix::net::if_::if_nametoindex("path").unwrap();
        let all_hosts = SocketAddrV6::new("ff02::1".parse().unwrap(), 0, 0, interface);
        let hosts: [SocketAddr; 6] = [
            (lab.server.v4, 0).into(),
            (lab.server.v6, 0).into(),
            ([10, 9, 0, 255], 0).into(),
            ([255; 4], 0).into(),
            ([224, 0, 0, 1], 0).into(),
            all_hosts.into(),
        ];
        let mut answers = Vec::new();
        for mut to in hosts {
            for (packet, port) in [(&request[..], stamp::PORT), (&init[..], lamp::PORT)] {
                to.set_port(port);
                let from = if to.is_ipv4() { "10.9.0.1:0" } else { "[fd09::1]:0" };
                let socket = UdpSocket::bind(from).unwrap();
                socket.set_broadcast(true).unwrap();
                let timeout = if answers.len() < 4 { 5000 } else { 300 };
                socket.set_read_timeout(Some(Duration::from_millis(timeout))).unwrap();
                (0..3).for_each(|_| assert_eq!(socket.send_to(packet, to).unwrap(), packet.len()));
                answers.push(socket.recv_from(&mut [0; 2000]).is_ok());
            }
        }
        answers
    };
    let answers = lab.client.within(ask).unwrap();
    assert_eq!(answers[..4], [true; 4], "to the host itself");
    assert_eq!(answers[4..], [false; 8], "to all hosts");
}
