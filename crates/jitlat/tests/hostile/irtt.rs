//! IRTT under attack: sessions opened with forged addresses, and in large numbers.

use crate::forged::{Attack, gain_nothing};
use crate::honest::served;
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_proto::irtt::packet::{self, flag};
use jitlat_proto::irtt::{Client, IrttOptions, PORT};
use jitlat_proto::machine::Tick;
use jitlat_proto::twoway::Protocol;
use std::net::UdpSocket;
use std::time::Duration;

/// Returns the packet that opens a session; irtt's own is not padded.
fn open(padded: bool) -> Vec<u8> {
    let options = IrttOptions { padded, ..IrttOptions::new(Span::seconds(60), Span::millis(10)) };
    let now = Tick { wall: WallTime(1_795_000_000_000_000_000), steady: SteadyTime(0) };
    let mut packet = Vec::new();
    assert!(Client::new(options).poll_conversation(now, &mut packet));
    packet
}

#[test]
fn forged_sessions_gain_nothing() {
    let mut question = open(false);
    question[3] |= flag::CLOSE;
    let mut guess = Vec::new();
    packet::begin(0, None, &mut guess);
    guess.resize(1400, 7);
    let attacks = [
        Attack { name: "irtt's open request", packets: vec![open(false)] },
        Attack { name: "the same four times", packets: vec![open(false); 4] },
        Attack { name: "our open request", packets: vec![open(true)] },
        Attack { name: "question without a test", packets: vec![question; 2] },
        Attack { name: "session, token guessed", packets: vec![open(false), guess] },
    ];
    gain_nothing("forged_sessions_gain_nothing", "", PORT, &attacks, Duration::from_millis(500));
}

#[test]
fn an_honest_client_is_served_while_another_opens_sessions_without_end() {
    let packet = open(true);
    served(
        "an_honest_client_is_served_while_another_opens_sessions_without_end",
        "",
        "--proto irtt",
        move |attacker: &UdpSocket, host| {
            for _ in 0..5 {
                let _ = attacker.send_to(&packet, (host, PORT));
            }
        },
    );
}
