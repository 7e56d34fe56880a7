//! Client and responder without a network: what is granted, refused and forged.

use super::auth::{AuthMode, IpslaKeys};
use super::client::{Client, IpslaFailure, IpslaOptions};
use super::probe::ProbeForm;
use super::responder::{Responder, ResponderRules};
use super::v1::{Operation, PortRequest};
use super::{IpslaVersion, PORT};
use crate::machine::Tick;
use crate::twoway::reflect::{RequestArrival, Silence};
use crate::twoway::{ConversationState, DatagramKind, Protocol};
use core::net::SocketAddr;
use jitlat_core::ntp::TimeFormat;
use jitlat_core::{Span, SteadyTime, WallTime};
use proptest::prelude::*;

const NOON: i64 = (20_785 * 86_400 + 43_200) * 1_000_000_000;
const CLIENT: &str = "192.0.2.1:50001";

fn at(ms: i64) -> Tick {
    Tick { wall: WallTime(NOON) + Span::millis(ms), steady: SteadyTime(0) + Span::millis(ms) }
}

fn arrival(from: &str, ms: i64) -> RequestArrival {
    RequestArrival { from: from.parse().unwrap(), at: at(ms).wall, ttl: None, traffic_class: None }
}

fn options(version: IpslaVersion) -> IpslaOptions {
    IpslaOptions {
        version,
        form: match version {
            IpslaVersion::V1 => ProbeForm::Milliseconds,
            IpslaVersion::V2 => ProbeForm::V2(TimeFormat::Ntp),
        },
        size: 124,
        local: CLIENT.parse().unwrap(),
        target: "192.0.2.2:20000".parse().unwrap(),
        duration: Span::seconds(5),
        seq: 77,
        key: None,
        random: [9; 16],
    }
}

fn request(options: &IpslaOptions) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(Client::new(options.clone()).poll_conversation(at(0), &mut out));
    out
}

/// Asks `responder` to open a port; every port is free. Returns the answer.
fn ask(responder: &mut Responder, message: &[u8], from: &str, ms: i64) -> Result<Vec<u8>, Silence> {
    let mut out = Vec::new();
    let mut open = |port: u16| Some(if port == 0 { 33_333 } else { port });
    responder.control(message, &arrival(from, ms), at(ms), &mut open, &mut out)?;
    assert!(out.len() <= message.len());
    Ok(out)
}

fn probe(responder: &mut Responder, form: ProbeForm, seq: u32, from: &str, ms: i64) -> Result<u32, Silence> {
    let (mut packet, mut out) = (Vec::new(), Vec::new());
    form.write(seq, at(ms).wall, 124, &mut packet);
    responder.probe(20_000, &packet, &arrival(from, ms), at(ms), &mut out)?;
    assert_eq!(out.len(), packet.len());
    Ok(form.parse(&out, at(ms).wall).unwrap().number.unwrap_or(0))
}

#[test]
fn a_port_is_open_for_its_client_for_its_time() {
    let form = ProbeForm::Milliseconds;
    let mut responder = Responder::new(ResponderRules::default());
    assert_eq!(probe(&mut responder, form, 0, CLIENT, 0), Err(Silence::NoSession));
    ask(&mut responder, &request(&options(IpslaVersion::V1)), CLIENT, 0).unwrap();
    assert_eq!(probe(&mut responder, form, 0, CLIENT, 1), Ok(1));
    assert_eq!(
        responder.take_begun().map(|test| test.to_string()).unwrap(),
        "a session on UDP 20000, for 5 s"
    );
    assert_eq!(probe(&mut responder, form, 0, "192.0.2.9:50001", 2), Err(Silence::NoSession));
    assert_eq!(probe(&mut responder, form, 0, "192.0.2.1:50002", 2), Err(Silence::NoSession));
    // A repeated request does not restart the numbers; another run of the operation does.
    ask(&mut responder, &request(&options(IpslaVersion::V1)), CLIENT, 1000).unwrap();
    assert_eq!(probe(&mut responder, form, 1, CLIENT, 5500), Ok(2));
    let next = IpslaOptions { seq: 78, ..options(IpslaVersion::V1) };
    ask(&mut responder, &request(&next), CLIENT, 5600).unwrap();
    assert_eq!(probe(&mut responder, form, 0, CLIENT, 5700), Ok(1));
    assert_eq!(responder.close_ports(at(10_000).steady), [0; 0]);
    assert_eq!(probe(&mut responder, form, 1, CLIENT, 10_600), Err(Silence::NoSession));
    assert_eq!(responder.close_ports(at(10_600).steady), [20_000]);
    assert_eq!((responder.sessions(), responder.open_ports(), responder.poll_timeout()), (0, 0, None));
}

#[test]
fn probes_from_behind_address_translation_take_over_the_unused_session_only() {
    let form = ProbeForm::Milliseconds;
    let mut responder = Responder::new(ResponderRules::default());
    ask(&mut responder, &request(&options(IpslaVersion::V1)), CLIENT, 0).unwrap();
    assert_eq!(probe(&mut responder, form, 0, "192.0.2.1:61000", 1), Ok(1));
    assert_eq!(probe(&mut responder, form, 1, "192.0.2.1:61000", 2), Ok(2));
    assert_eq!(probe(&mut responder, form, 0, CLIENT, 3), Err(Silence::NoSession));
    assert_eq!(responder.close_ports(at(5000).steady), [20_000]);
}

#[test]
fn a_repeated_request_of_version_2_restarts_the_numbers() {
    let form = ProbeForm::V2(TimeFormat::Ntp);
    let mut responder = Responder::new(ResponderRules::default());
    let message = request(&options(IpslaVersion::V2));
    ask(&mut responder, &message, CLIENT, 0).unwrap();
    (0..3).for_each(|k| assert_eq!(probe(&mut responder, form, k, CLIENT, 1), Ok(k + 1)));
    ask(&mut responder, &message, CLIENT, 4000).unwrap();
    assert_eq!(probe(&mut responder, form, 0, CLIENT, 8900), Ok(1));
    // The responder chooses a port.
    let any = IpslaOptions { target: "192.0.2.2:0".parse().unwrap(), seq: 78, ..options(IpslaVersion::V2) };
    let mut client = Client::new(any);
    let mut message = Vec::new();
    assert!(client.poll_conversation(at(0), &mut message));
    let answer = ask(&mut responder, &message, "192.0.2.1:50007", 0).unwrap();
    assert_eq!(client.receive(&answer, at(1).wall), DatagramKind::Conversation);
    assert_eq!((client.conversation_state(at(1).steady), client.port()), (ConversationState::Ready, 33_333));
}

#[test]
fn refusals_have_reasons() {
    let outcome = |rules: ResponderRules, options: IpslaOptions| {
        let mut responder = Responder::new(rules);
        let mut client = Client::new(options);
        let mut message = Vec::new();
        assert!(client.poll_conversation(at(0), &mut message));
        let answer = ask(&mut responder, &message, CLIENT, 0).ok()?;
        client.receive(&answer, at(1).wall);
        client.failure().cloned()
    };
    let keys = |text: &str| IpslaKeys::parse(text).unwrap();
    let keyed = || ResponderRules { keys: keys("7 secret"), ..ResponderRules::default() };
    let with = |text: &str, mode| {
        let key = keys(text).get(7).cloned().unwrap();
        IpslaOptions { key: Some((mode, key)), ..options(IpslaVersion::V2) }
    };
    let v2 = options(IpslaVersion::V2);
    let status = |status| Some(IpslaFailure::Status { status, port: 20_000 });
    assert_eq!(outcome(ResponderRules::default(), v2.clone()), None);
    assert_eq!(outcome(keyed(), with("7 secret", AuthMode::Sha256)), None);
    assert_eq!(outcome(keyed(), with("7 0x736563726574", AuthMode::HmacSha256)), None);
    assert_eq!(outcome(keyed(), v2.clone()), status(2));
    assert_eq!(
        outcome(ResponderRules { ports: 1024..=2000, ..ResponderRules::default() }, v2.clone()),
        status(1)
    );
    let short = ResponderRules { duration: Span::seconds(1), ..ResponderRules::default() };
    assert_eq!(outcome(short, v2), status(1));
    // The client ignores an unsigned refusal, because it may be forged.
    let mut client = Client::new(with("7 other", AuthMode::HmacSha256));
    let mut message = Vec::new();
    assert!(client.poll_conversation(at(0), &mut message));
    let answer = ask(&mut Responder::new(keyed()), &message, CLIENT, 0).unwrap();
    assert_eq!(client.receive(&answer, at(1).wall), DatagramKind::Forged);
    let mut now = at(0);
    while client.conversation_state(now.steady) == ConversationState::Opening {
        now = at((now.steady.0 - at(0).steady.0) / 1_000_000 + 500);
        client.poll_conversation(now, &mut Vec::new());
    }
    assert_eq!(client.failure(), Some(&IpslaFailure::Unsigned));
    // Version 1 has no known refusal, and no known use of keys.
    let mut responder = Responder::new(keyed());
    assert_eq!(ask(&mut responder, &request(&options(IpslaVersion::V1)), CLIENT, 0), Err(Silence::Forged));
    let mut signed = request(&options(IpslaVersion::V1));
    signed[40] = 1;
    let mut responder = Responder::new(ResponderRules::default());
    assert_eq!(ask(&mut responder, &signed, CLIENT, 0), Err(Silence::Forged));
    assert!(
        IpslaKeys::parse("").is_err() && IpslaKeys::parse("7").is_err() && IpslaKeys::parse("7 0x1").is_err()
    );
    assert!(IpslaKeys::parse("7 a\n7 b").is_err() && IpslaKeys::parse("70000 a").is_err());
}

#[test]
fn ports_of_other_services_are_never_opened() {
    let wide = ResponderRules { ports: 1024..=u16::MAX, ..ResponderRules::default() };
    for port in [2666, 2667, 2112, 46_000] {
        assert!(!wide.may_open(port) && !ResponderRules::default().may_open(port), "{port}");
    }
    assert!(wide.may_open(2671) && ResponderRules::default().may_open(16_384));
}

#[test]
fn sessions_and_ports_are_bounded_and_unused_ones_make_room() {
    let rules =
        ResponderRules { sessions: 6, sessions_per_client: 3, open_ports: 4, ..ResponderRules::default() };
    let mut responder = Responder::new(rules);
    let port_request = |port: u16, seq| {
        let mut out = Vec::new();
        let address = "192.0.2.2".parse().unwrap();
        let (operation, duration) = (Operation::Jitter, Span::seconds(60));
        PortRequest { seq, operation, address, port, duration, signed: false }.write(&mut out);
        out
    };
    // An honest client in the middle of its test.
    ask(&mut responder, &port_request(20_000, 1), CLIENT, 0).unwrap();
    assert_eq!(probe(&mut responder, ProbeForm::Milliseconds, 0, CLIENT, 1), Ok(1));
    for k in 0..500u16 {
        let host = format!("198.51.{}.{}:4000", k / 100, k % 100);
        ask(&mut responder, &port_request(30_000 + k, 1), &host, 2).unwrap();
        assert!(responder.sessions() <= 6 && responder.open_ports() <= 4);
        responder.close_ports(at(2).steady);
    }
    for k in 0..100 {
        ask(&mut responder, &port_request(20_000, 1), &format!("192.0.2.1:{}", 40_000 + k), 3).unwrap();
        assert!(responder.sessions() <= 6);
    }
    assert_eq!(probe(&mut responder, ProbeForm::Milliseconds, 1, CLIENT, 4), Ok(2));
    // Neither reserved ports nor groups are answered.
    for bad in ["192.0.2.7:53", "224.0.0.1:4000"] {
        assert_eq!(ask(&mut responder, &port_request(20_000, 1), bad, 5), Err(Silence::Source));
    }
}

#[test]
fn two_responders_do_not_answer_each_other() {
    let hosts = ["192.0.2.1:20000", "192.0.2.2:20000"];
    let mut responders = [(); 2].map(|()| Responder::new(ResponderRules::default()));
    // Control messages with the other responder's control port as forged source.
    for version in [IpslaVersion::V1, IpslaVersion::V2] {
        let mut packet = request(&options(version));
        let mut answers = 0;
        for turn in 0.. {
            match ask(&mut responders[turn % 2], &packet, &format!("192.0.2.{}:{PORT}", 2 - turn % 2), 0) {
                Ok(answer) => packet = answer,
                Err(_) => break,
            }
            answers += 1;
        }
        assert!(answers <= 40, "{version:?}: {answers}");
    }
    // Each has a session for the other one's port, and a probe is forged.
    for (k, responder) in responders.iter_mut().enumerate() {
        ask(responder, &request(&options(IpslaVersion::V1)), hosts[1 - k], 0).unwrap();
    }
    for form in [ProbeForm::Echo, ProbeForm::Milliseconds, ProbeForm::Microseconds] {
        let mut packet = Vec::new();
        form.write(0, at(1).wall, 124, &mut packet);
        let mut answers = 0;
        for turn in 0.. {
            let (mut out, arrival) = (Vec::new(), arrival(hosts[1 - turn % 2], 1));
            if responders[turn % 2].probe(20_000, &packet, &arrival, at(1), &mut out).is_err() {
                break;
            }
            (packet, answers) = (out, answers + 1);
        }
        assert!(answers <= 2, "{form:?}: {answers}");
    }
}

#[test]
fn every_echo_has_its_own_number() {
    let mut responder = Responder::new(ResponderRules::default());
    let echo = IpslaOptions { form: ProbeForm::Echo, ..options(IpslaVersion::V1) };
    ask(&mut responder, &request(&echo), CLIENT, 0).unwrap();
    let answered =
        [0, 1, 3, 2, 2, 4].map(|seq| probe(&mut responder, ProbeForm::Echo, seq, CLIENT, 1).is_ok());
    assert_eq!(answered, [true, true, true, true, false, true]);
}

#[test]
fn the_port_of_a_long_test_is_renewed() {
    let mut responder = Responder::new(ResponderRules::default());
    let long = IpslaOptions { duration: Span::seconds(300), ..options(IpslaVersion::V1) };
    let mut client = Client::new(long);
    let (mut asked, mut out) = (0, Vec::new());
    for ms in (0..300_000).step_by(100) {
        out.clear();
        if client.poll_conversation(at(ms), &mut out) {
            asked += 1;
            // Every third answer is lost.
            let answer = ask(&mut responder, &out, CLIENT, ms).unwrap();
            if asked % 3 != 0 {
                client.receive(&answer, at(ms).wall);
            }
        }
        let number = (ms / 100) as u32;
        let form = ProbeForm::Milliseconds;
        assert_eq!(probe(&mut responder, form, number, CLIENT, ms), Ok(number + 1), "{ms}");
        responder.close_ports(at(ms).steady);
    }
    assert!((9..20).contains(&asked), "{asked}");
    client.all_sent(at(300_000).steady);
    assert!(!client.poll_conversation(at(400_000), &mut out));
}

fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let seeds = [request(&options(IpslaVersion::V1)), request(&options(IpslaVersion::V2))];
    let probes = [ProbeForm::Echo, ProbeForm::Milliseconds, ProbeForm::Microseconds].map(|form| {
        let mut packet = Vec::new();
        form.write(3, at(0).wall, 0, &mut packet);
        packet
    });
    let seeds: Vec<Vec<u8>> = seeds.into_iter().chain(probes).collect();
    (
        proptest::sample::select(seeds),
        proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        0..200usize,
    )
        .prop_map(|(mut packet, changes, length)| {
            changes.into_iter().for_each(|(at, byte)| *at.get_mut(&mut packet) = byte);
            packet.truncate(length.max(1));
            packet
        })
}

proptest! {
    /// No address is sent more bytes or packets than came from it, regardless of the contents.
    #[test]
    fn of_no_use_against_others(packets in proptest::collection::vec((any_packet(), 0..3u8, 0..4000u16), 1..60)) {
        let mut responder = Responder::new(ResponderRules { sessions: 5, open_ports: 2, ..ResponderRules::default() });
        let mut client = Client::new(options(IpslaVersion::V2));
        client.poll_conversation(at(0), &mut Vec::new());
        let mut ms = 0;
        for (packet, host, wait) in packets {
            ms += i64::from(wait);
            let from: SocketAddr = format!("192.0.2.{host}:50001").parse().unwrap();
            let arrival = RequestArrival { from, ..arrival(CLIENT, ms) };
            let mut open = |port: u16| Some(if port == 0 { 20_001 } else { port });
            let mut out = Vec::new();
            let control = responder.control(&packet, &arrival, at(ms), &mut open, &mut out);
            prop_assert!(out.len() <= packet.len() && control.is_ok() != out.is_empty());
            client.receive(&out, at(ms).wall);
            for port in [20_000, 20_001] {
                out.clear();
                let probed = responder.probe(port, &packet, &arrival, at(ms), &mut out);
                let length = if probed.is_ok() { packet.len() } else { 0 };
                prop_assert_eq!(out.len(), length);
            }
            responder.close_ports(at(ms).steady);
            prop_assert!(responder.sessions() <= 5 && responder.open_ports() <= 2);
        }
    }
}
