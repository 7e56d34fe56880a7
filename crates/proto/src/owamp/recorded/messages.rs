//! Every message and test packet can be decoded, and is encoded to the same bytes.

use super::conversation::Message;
use super::{captures, *};
use crate::amp::{AcceptCode, PacketOrigin, SecurityMode, TestKeys};
use crate::owamp::packet::{self, MAX_LEN, TestPacket};
use jitlat_core::ntp::NtpTime;

#[test]
fn known_answers() {
    let captures = captures();
    let capture = captures.iter().find(|c| c.name == "auth-both-poisson").unwrap();
    let recorded = &capture.connections[0];
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let keys = recorded.keys().unwrap();
    assert_eq!(hex(&keys.aes), "07c8a719bd170d2ab882472912c47006");
    assert_eq!(hex(&keys.hmac), "c13a46b215ba3c1a0e91125d80c6a6191b5f76adcf046d8d4fa9275b989b8049");
    let Message::Request(_, answer) = &recorded.messages()[0] else { panic!() };
    assert_eq!(answer.sid.to_string(), "0a580002eeacbe4830374ff8ba8a3945");
    let test = TestKeys::new(SecurityMode::Authenticated, &keys, &answer.sid).unwrap();
    let mut packet = [0; MAX_LEN];
    let first = TestPacket {
        seq: 0,
        sent: NtpTime(0xeeac_be49_2aa4_2289),
        error: jitlat_core::ntp::ErrorEstimate(1),
    };
    assert_eq!(first.write(Some(&test), &mut packet), MAX_LEN);
    let known = "76715388bb3ef81d34dd10e63201add8eeacbe492aa422890001000000000000\
                 19b938f1ed54eee83ff9f1b0a8524920";
    assert_eq!(hex(&packet), known.replace(' ', ""));
}

#[test]
fn every_control_message_decodes_and_re_encodes() {
    let mut seen = [0; 4];
    for recorded in captures().iter().flat_map(|c| &c.connections) {
        let name = recorded.capture;
        let mut bytes = Vec::new();
        recorded.greeting().write(&mut bytes);
        let Some(set_up) = recorded.set_up() else {
            // A client that shares no mode with the server closes the connection.
            assert_eq!(bytes, recorded.stream(false), "{name}");
            assert!(["refused-mode-not-offered", "refused-policy-openmode"].contains(&name), "{name}");
            continue;
        };
        let start = recorded.server_start().unwrap();
        start.write(&mut bytes);
        if start.accept != AcceptCode::Ok {
            bytes.extend([0; ServerStart::TIME_LEN]);
            assert_eq!(bytes, recorded.stream(false), "{name}");
            continue;
        }
        let mut streams = recorded.streams();
        let time = streams.server.0.take(ServerStart::TIME_LEN).unwrap();
        streams.server.1.put(&time, &mut bytes);
        let mut encoded = Vec::new();
        set_up.write(&mut encoded);
        for message in recorded.messages() {
            message.send_command(&mut streams.client.1, &mut encoded);
            message.send_answer(&mut streams.server.1, &mut bytes);
            seen[match message {
                Message::Request(..) => 0,
                Message::Start(_) => 1,
                Message::Stop { .. } => 2,
                Message::Fetch(..) => 3,
            }] += 1;
        }
        assert_eq!(bytes, recorded.stream(false), "{name}");
        assert_eq!(encoded, recorded.stream(true), "{name}");
    }
    assert_eq!(seen, [34, 22, 22, 20], "requests, starts, stops, fetches");
}

#[test]
fn every_test_packet_opens_and_seals_to_itself() {
    let mut packets = 0;
    for capture in captures() {
        for recorded in &capture.connections {
            for message in if recorded.keys().is_some() || recorded.mode() == Some(SecurityMode::Open) {
                recorded.messages()
            } else {
                Vec::new()
            } {
                let Message::Request(session, answer) = message else { continue };
                let up = session.request.conf_receiver != 0;
                let port = if up { answer.port } else { session.request.receiver_port };
                let keys = recorded.keys().and_then(|k| TestKeys::new(recorded.mode()?, &k, &answer.sid));
                let other = keys.as_ref().map(|_| {
                    TestKeys::new(recorded.mode().unwrap(), &recorded.keys().unwrap(), &crate::amp::Sid::NONE)
                        .unwrap()
                });
                let len = packet::len(recorded.mode().unwrap());
                for sent in capture.packets.iter().filter(|p| p.to_server == up && p.destination_port == port)
                {
                    assert_eq!(sent.bytes.len(), len + session.request.padding as usize, "{}", capture.name);
                    assert_eq!((sent.ttl, sent.tos >> 2), (255, session.request.dscp().unwrap()));
                    let read = TestPacket::parse(keys.as_ref(), &sent.bytes).unwrap();
                    assert!(read.seq < session.request.packets);
                    let mut again = [0; MAX_LEN];
                    assert_eq!(read.write(keys.as_ref(), &mut again), len);
                    assert_eq!(again[..len], sent.bytes[..len], "{}", capture.name);
                    if let Some(other) = &other {
                        let origin = PacketOrigin::Sender;
                        assert!(!other.open(origin, &mut sent.bytes.clone()));
                        assert!(TestPacket::parse(Some(other), &sent.bytes).is_err());
                    }
                    packets += 1;
                }
            }
        }
    }
    assert_eq!(packets, 568, "every one that was recorded");
}
