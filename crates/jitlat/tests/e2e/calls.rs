//! `jitlat rtp` at an interface that receives an RTP stream through the kernel's token bucket.

use crate::harness::*;
use crate::undisturbed::undisturbed;
use jitlat_net::emulator::lab::Namespace;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Number of times at which packets are due, one every 5 ms.
const PACKETS: u32 = 300;
/// Number of due packets of which the last one is not sent.
const LOST_EACH: u32 = 25;
/// Number of packets that are due at once in the middle of the stream.
const AT_ONCE: u32 = 40;
/// Token bucket that forwards the burst, 40 packets of 214 bytes with the Ethernet header, in about 60 ms.
const BUCKET: &str = "root tbf rate 1mbit burst 2000 limit 200000";

/// Sends G.711 from the namespace `from` to port 5000 of `to`, with the send times as RTP timestamps. Returns the
/// number of packets sent.
fn talk(from: &Namespace, to: &Namespace) -> u32 {
    let socket = from.within(|| UdpSocket::bind((from.v4, 4000)).unwrap()).unwrap();
    let (began, target) = (Instant::now(), (to.v4, 5000));
    let (mut number, mut sent) = (0, 0);
    let mut send = || {
        number += 1;
        if number % LOST_EACH == 0 {
            return;
        }
        let timestamp = (began.elapsed().as_micros() / 125) as u32;
        let mut packet = vec![0x80, 0];
        packet.extend((65_400u32 + number).to_be_bytes()[2..].iter());
        packet.extend(timestamp.to_be_bytes());
        packet.extend([1, 2, 3, 4]);
        packet.resize(12 + 160, 0xff);
        socket.send_to(&packet, target).unwrap();
        sent += 1;
    };
    let mut steps = 0;
    jitlat_waiting::at_pace(Duration::from_millis(5), || {
        steps += 1;
        let packets = if steps == PACKETS / 2 { AT_ONCE } else { 1 };
        (0..packets).for_each(|_| send());
        steps < PACKETS
    });
    sent
}

#[test]
fn a_call_at_an_interface_has_the_losses_and_the_queue_of_its_path() {
    undisturbed(captured_at_an_interface);
}

fn captured_at_an_interface() {
    let Some(lab) = lab("a_call_at_an_interface_has_the_losses_and_the_queue_of_its_path") else { return };
    let folder = tempfile::tempdir().unwrap();
    let switch = lab.switch().unwrap();
    switch.run(&format!("tc qdisc add dev server {BUCKET}")).unwrap();
    let receiver = lab.server.within(|| UdpSocket::bind((lab.server.v4, 5000)).unwrap()).unwrap();
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    let capture = Running::start(Place::In(&lab.server).jitlat(folder.path(), "rtp -i path --json -"));
    capture.wait_for("capturing on path");
    let sent = std::thread::scope(|s| {
        let sender = s.spawn(|| talk(&lab.client, &lab.server));
        let all = PACKETS + AT_ONCE - 1;
        let arriving = all - all / LOST_EACH;
        let mut packet = [0; 300];
        (0..arriving).for_each(|_| assert_eq!(receiver.recv(&mut packet).unwrap(), 172));
        assert_eq!(sender.join().unwrap(), arriving);
        arriving
    });
    capture.signal(Signal::SIGINT);
    let ended = capture.finish(TIMEOUT);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    let [stream] = &json["streams"].as_array().unwrap()[..] else { panic!("{json}") };
    let count = |name: &str| stream[name].as_u64().unwrap() as u32;
    assert_eq!(
        (count("packets"), count("lost"), count("duplicates")),
        (sent, (PACKETS + AT_ONCE - 1) / LOST_EACH, 0)
    );
    assert_eq!(stream["summary"]["counts"]["lost"], (PACKETS + AT_ONCE - 1) / LOST_EACH);
    assert_eq!(stream["clock_rate"], 8000);
    // The bucket holds 2000 bytes; the rest of the burst waits 8 µs per byte, less the time in which it was sent.
    let least = i64::from((AT_ONCE - 2) * 214 - 2000) * 8000 / 2;
    let longest = stream["summary"]["pdv"]["max"].as_i64().unwrap();
    assert!(longest >= least, "{longest}, at least {least}");
}
