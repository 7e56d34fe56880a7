//! LaMP under attack: sessions with forged addresses.

use crate::forged::{Attack, gain_nothing};
use crate::honest::served;
use jitlat_proto::lamp::{LampHeader, LampKind, PORT};
use std::net::UdpSocket;
use std::time::Duration;

const PING_LIKE: u16 = 1;
const UNIDIRECTIONAL: u16 = 2;

fn packet(kind: LampKind, id: u16, word: u16) -> Vec<u8> {
    LampHeader::new(kind, id, 0, word).to_bytes().to_vec()
}

fn init(mode: u16) -> Vec<u8> {
    packet(LampKind::Init, 7, mode)
}

fn data(kind: LampKind) -> Vec<u8> {
    packet(kind, 7, 0)
}

#[test]
fn forged_sessions_gain_nothing() {
    let ask = LampHeader {
        seconds: u64::from_be_bytes(*b"jitproof"),
        ..LampHeader::new(LampKind::Init, 7, 0, UNIDIRECTIONAL)
    };
    let guess = LampHeader { micros: 42, ..ask };
    let attacks = [
        Attack { name: "INIT, STOP", packets: vec![init(UNIDIRECTIONAL), data(LampKind::Stop)] },
        Attack {
            name: "INIT, one packet, silence",
            packets: vec![init(UNIDIRECTIONAL), data(LampKind::Continue)],
        },
        Attack {
            name: "follow-up",
            packets: vec![
                init(PING_LIKE),
                data(LampKind::FollowUpControl),
                data(LampKind::Request),
                data(LampKind::Request),
                data(LampKind::EndRequest),
            ],
        },
        Attack {
            name: "INIT as LaTe repeats it, STOP",
            packets: [vec![init(UNIDIRECTIONAL); 6], vec![data(LampKind::Stop)]].concat(),
        },
        Attack {
            name: "a proof asked for and guessed",
            packets: vec![ask.to_bytes().to_vec(), guess.to_bytes().to_vec(), data(LampKind::Stop)],
        },
    ];
    // Reports are sent after 3 s of silence, and repeated for 3 s.
    gain_nothing("forged_sessions_gain_nothing", "", PORT, &attacks, Duration::from_millis(4500));
}

#[test]
fn an_honest_client_is_served_while_another_opens_sessions_without_end() {
    // New ids and ports, and unidirectional tests that are abandoned.
    let mut ids = 0..;
    served(
        "an_honest_client_is_served_while_another_opens_sessions_without_end",
        "",
        "--proto lamp --follow-up=krt",
        move |attacker: &UdpSocket, host| {
            let id = ids.next().unwrap_or(0) as u16;
            for _ in 0..5 {
                let _ = attacker.send_to(&packet(LampKind::Init, id, UNIDIRECTIONAL), (host, PORT));
            }
            let _ = attacker.send_to(&packet(LampKind::Continue, id, 0), (host, PORT));
        },
    );
}
