//! STAMP and TWAMP Light under attack: stateless requests with forged addresses, and floods.

use crate::forged::{Attack, gain_nothing};
use crate::honest::served;
use jitlat_core::WallTime;
use jitlat_proto::stamp::sender::StampOptions;
use jitlat_proto::stamp::{PORT, StampSender};
use jitlat_proto::twoway::Protocol;
use std::net::UdpSocket;
use std::time::Duration;

fn request(size: usize, class: Option<u8>) -> Vec<u8> {
    let options = StampOptions {
        size,
        class_of_service: class,
        direct_measurement: class.is_some(),
        ..StampOptions::default()
    };
    let mut packet = Vec::new();
    StampSender::new(options).request(0, true, WallTime(1_795_000_000_000_000_000), &mut packet);
    packet
}

#[test]
fn forged_requests_gain_nothing() {
    let attacks = [
        Attack { name: "request", packets: vec![request(44, None)] },
        Attack { name: "request cut short", packets: vec![request(44, None)[..20].to_vec()] },
        Attack { name: "every extension", packets: vec![request(200, Some(46))] },
        Attack { name: "1400 bytes", packets: vec![request(1400, None)] },
    ];
    gain_nothing("forged_requests_gain_nothing", "", PORT, &attacks, Duration::from_millis(500));
}

#[test]
fn an_honest_client_is_served_while_another_floods() {
    let packet = request(44, None);
    served(
        "an_honest_client_is_served_while_another_floods",
        "--max-reflect-rate 1000",
        "--proto stamp",
        move |attacker: &UdpSocket, host| {
            for _ in 0..5 {
                let _ = attacker.send_to(&packet, (host, PORT));
            }
        },
    );
}
