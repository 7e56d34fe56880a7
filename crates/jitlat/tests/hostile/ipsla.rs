//! Cisco IP SLA under attack: ports opened with forged addresses, and in large numbers.

use crate::forged::{Attack, gain_nothing};
use crate::honest::served;
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_proto::ipsla::{Client, IpslaOptions, IpslaVersion, PORT, ProbeForm};
use jitlat_proto::machine::Tick;
use jitlat_proto::twoway::Protocol;
use std::net::UdpSocket;
use std::time::Duration;

/// Returns a control message that asks for `port`.
fn request(version: IpslaVersion, port: u16) -> Vec<u8> {
    let options = IpslaOptions {
        version,
        form: ProbeForm::Milliseconds,
        size: 32,
        local: ([10, 9, 0, 3], 0).into(),
        target: ([10, 9, 0, 2], port).into(),
        duration: Span::seconds(60),
        seq: 1,
        key: None,
        random: [0; 16],
    };
    let now = Tick { wall: WallTime(1_795_000_000_000_000_000), steady: SteadyTime(0) };
    let mut packet = Vec::new();
    assert!(Client::new(options).poll_conversation(now, &mut packet));
    packet
}

#[test]
fn forged_sessions_gain_nothing() {
    let [v1, v2] = [IpslaVersion::V1, IpslaVersion::V2].map(|version| request(version, 20_000));
    // A message of version 2 that is refused: an unknown block.
    let mut odd = v2.clone();
    odd[81] = 9;
    let attacks = [
        Attack { name: "request of version 1", packets: vec![v1.clone()] },
        Attack { name: "the same four times", packets: vec![v1; 4] },
        Attack { name: "request of version 2", packets: vec![v2.clone()] },
        Attack { name: "the same four times, version 2", packets: vec![v2; 4] },
        Attack { name: "refused request of version 2", packets: vec![odd] },
        Attack { name: "any port", packets: vec![request(IpslaVersion::V2, 0)] },
    ];
    gain_nothing(
        "ipsla::forged_sessions_gain_nothing",
        "--ipsla",
        PORT,
        &attacks,
        Duration::from_millis(500),
    );
}

#[test]
fn an_honest_client_is_served_while_another_opens_ports_without_end() {
    let mut port = 20_000;
    served(
        "ipsla::an_honest_client_is_served_while_another_opens_ports_without_end",
        "--ipsla",
        "--proto ipsla",
        move |attacker: &UdpSocket, host| {
            for version in [IpslaVersion::V1, IpslaVersion::V2] {
                port = if port == 60_000 { 20_000 } else { port + 1 };
                let _ = attacker.send_to(&request(version, port), (host, PORT));
            }
        },
    );
}
