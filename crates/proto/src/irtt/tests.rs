//! Tests of the server's limits (parameters, time, clients), of its resistance to abuse against third
//! parties, and of a client that receives invalid answers.

use super::client::IrttFailure;
use super::packet::{self, EchoFields, EchoLayout, IrttPacket, flag};
use super::server::{AllowStamps, IrttReaction, IrttRules, MAX_KEYS, Server};
use super::*;
use crate::accounts::ClientLimits;
use crate::machine::Tick;
use crate::twoway::reflect::{RequestArrival, Silence};
use crate::twoway::{ConversationState, DatagramKind, Protocol};
use jitlat_core::{Direction, Schedule, Span, SteadyTime, TestSpec, Transport, WallTime};
use proptest::prelude::*;

const WALL: i64 = 1_795_309_600_000_000_000;

fn tick(ms: i64) -> Tick {
    Tick { wall: WallTime(WALL + ms * 1_000_000), steady: SteadyTime(ms * 1_000_000) }
}

fn arrival(from: &str, ms: i64) -> RequestArrival {
    RequestArrival { from: from.parse().unwrap(), at: tick(ms).wall, ttl: Some(64), traffic_class: Some(0) }
}

const CLIENT: &str = "192.0.2.1:40000";

/// A server with a helper that sends packets to it.
struct Host {
    server: Server,
    key: Option<IrttKey>,
}

impl Host {
    fn new(rules: IrttRules) -> Host {
        let key = rules.keys.get(0).map(|(_, key)| key.clone());
        Host { server: Server::new(rules, [7; 32], SteadyTime(0)), key }
    }

    fn say(&mut self, from: &str, bytes: &[u8], ms: i64) -> Result<Vec<u8>, Silence> {
        let mut out = vec![0xee; 3];
        let reaction = self.server.handle(bytes, &arrival(from, ms), tick(ms), &mut out)?;
        assert_eq!(out[..3], [0xee; 3], "what was there stays");
        assert_eq!(reaction == IrttReaction::Taken, out.len() == 3);
        Ok(out.split_off(3))
    }

    fn open(&mut self, from: &str, params: &IrttParams, ms: i64) -> Result<(u64, IrttParams), Silence> {
        let bytes = packet(flag::OPEN, None, |out| params.write_padded(out), self.key.as_ref());
        let answer = self.say(from, &bytes, ms)?;
        assert!(answer.len() <= bytes.len());
        let packet = IrttPacket::parse(&answer, self.key.as_ref()).unwrap();
        assert_eq!(packet.flags, flag::OPEN | flag::REPLY);
        let (token, rest) = packet.token().unwrap();
        Ok((token, IrttParams::parse(rest).unwrap()))
    }

    fn echo(
        &mut self,
        from: &str,
        token: u64,
        params: &IrttParams,
        seq: u32,
        ms: i64,
    ) -> Result<(u8, EchoFields), Silence> {
        let layout = EchoLayout::new(params);
        let write = |out: &mut Vec<u8>| layout.write(&EchoFields { seq, ..EchoFields::default() }, out);
        let answer = self.say(from, &packet(0, Some(token), write, self.key.as_ref()), ms)?;
        let packet = IrttPacket::parse(&answer, self.key.as_ref()).unwrap();
        assert_eq!(packet.token().unwrap().0, token);
        Ok((packet.flags, layout.read(packet.token().unwrap().1).unwrap()))
    }
}

fn packet(flags: u8, token: Option<u64>, write: impl Fn(&mut Vec<u8>), key: Option<&IrttKey>) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet::begin(flags, key, &mut bytes);
    token.iter().for_each(|token| bytes.extend(token.to_le_bytes()));
    write(&mut bytes);
    packet::sign(key, &mut bytes);
    bytes
}

/// A server whose limits allow less than a client requests grants a longer interval before the test, so that its limits do
/// not look like loss.
#[test]
fn a_limit_of_rates_lengthens_the_interval() {
    let rate = ClientLimits { packets_per_second: 250, bytes_per_second: 125_000 };
    let rules = IrttRules { rate, interval: Span::ZERO, ..IrttRules::default() };
    for (interval_us, length, granted_us) in
        [(20_000, 100, 20_000), (1000, 100, 4000), (4000, 500, 4000), (4000, 1000, 8000), (1000, -5, 4000)]
    {
        let params = IrttParams { interval: Span::micros(interval_us), length, ..asked() };
        let granted = rules.grant(&params).unwrap().interval;
        assert_eq!(granted, Span::micros(granted_us), "{interval_us} us, {length} bytes");
    }
    let unlimited = IrttRules { interval: Span::ZERO, ..IrttRules::default() };
    assert_eq!(unlimited.grant(&IrttParams { interval: Span(1), ..asked() }).unwrap().interval, Span(1));
}

fn asked() -> IrttParams {
    IrttOptions::new(Span::seconds(1), Span::millis(20)).params
}

#[test]
fn restrictions() {
    let rules = IrttRules {
        duration: Span::millis(500),
        interval: Span::millis(50),
        length: 100,
        timeout: Span::seconds(2),
        stamps: AllowStamps::Single,
        tos: false,
        fills: vec!["rand".to_owned(), "pattern:ca*".to_owned()],
        ..IrttRules::default()
    };
    let grant = |change: fn(&mut IrttParams)| {
        let mut params = asked();
        change(&mut params);
        rules.grant(&params)
    };
    let granted = grant(|p| (p.tos, p.length, p.fill) = (184, 172, "pattern:cafe".to_owned())).unwrap();
    assert_eq!(
        (
            granted.duration,
            granted.interval,
            granted.length,
            granted.stamp_at,
            granted.tos,
            granted.fill.as_str()
        ),
        (Span::millis(500), Span::millis(50), 100, StampAt::Midpoint, 0, "pattern:cafe")
    );
    // The interval is at most a quarter of the timeout of a silent session.
    assert_eq!(grant(|p| p.interval = Span::seconds(2)).unwrap().interval, Span::millis(500));
    assert_eq!(grant(|p| p.stamp_at = StampAt::Send).unwrap().stamp_at, StampAt::Send);
    assert_eq!(grant(|p| p.version = 7).unwrap().version, 1);
    assert_eq!(grant(|p| p.length = -5).unwrap().length, 0);
    for (asked, granted) in
        [("rand", "rand"), ("pattern:beefbeef00", "pattern:69727474"), ("none", ""), ("x", "")]
    {
        let params = IrttParams { fill: asked.to_owned(), ..self::asked() };
        assert_eq!(rules.grant(&params).unwrap().fill, granted, "{asked}");
    }
    // Timestamps without a clock: an invalid request that makes irtt's server exit.
    assert_eq!(grant(|p| p.clocks = ServerClocks::None), None);
    assert!(grant(|p| (p.clocks, p.stamp_at) = (ServerClocks::None, StampAt::None)).is_some());
    assert_eq!((grant(|p| p.tos = 256), grant(|p| p.tos = -1)), (None, None));
    let none = IrttRules { stamps: AllowStamps::None, ..IrttRules::default() };
    assert_eq!(none.grant(&asked()).unwrap().stamp_at, StampAt::None);
}

#[test]
fn a_question_whether_a_session_would_be_opened_opens_none() {
    let mut host = Host::new(IrttRules::default());
    let bytes = packet(flag::OPEN | flag::CLOSE, None, |out| asked().write_padded(out), None);
    let answer = host.say(CLIENT, &bytes, 0).unwrap();
    let packet = IrttPacket::parse(&answer, None).unwrap();
    assert_eq!((packet.flags, packet.token().unwrap().0), (flag::OPEN | flag::REPLY | flag::CLOSE, 0));
    assert_eq!((IrttParams::parse(&packet.body[8..]), host.server.sessions()), (Ok(asked()), 0));
}

#[test]
fn a_session_is_its_clients() {
    let mut host = Host::new(IrttRules::default());
    let (token, params) = host.open(CLIENT, &asked(), 0).unwrap();
    assert!(host.echo(CLIENT, token, &params, 0, 10).is_ok());
    for other in ["192.0.2.1:40001", "192.0.2.9:40000"] {
        assert_eq!(host.echo(other, token, &params, 1, 20), Err(Silence::NoSession));
        let close = packet(flag::CLOSE, Some(token), |_| (), None);
        assert_eq!(host.say(other, &close, 21), Err(Silence::NoSession));
    }
    assert_eq!(host.echo(CLIENT, token ^ 1, &params, 1, 30), Err(Silence::NoSession));
    let close = packet(flag::CLOSE, Some(token), |_| (), None);
    assert_eq!(host.say(CLIENT, &close, 40), Ok(vec![]));
    assert_eq!(host.echo(CLIENT, token, &params, 1, 50), Err(Silence::NoSession));
    // Packets from service ports and messages of other servers are not answered.
    let open = packet(flag::OPEN, None, |out| asked().write(out), None);
    assert_eq!(host.say("192.0.2.1:53", &open, 60), Err(Silence::Source));
    let reply = packet(flag::OPEN | flag::REPLY, Some(1), |out| asked().write(out), None);
    assert_eq!(host.say(CLIENT, &reply, 70), Err(Silence::Loop));
}

#[test]
fn a_burst_and_then_one_an_interval() {
    let mut host = Host::new(IrttRules::default());
    let (token, params) = host.open(CLIENT, &asked(), 0).unwrap();
    let answered: Vec<u32> =
        (0..12).filter(|seq| host.echo(CLIENT, token, &params, *seq, 100).is_ok()).collect();
    assert_eq!(answered, [0, 1, 2, 3, 4]);
    assert_eq!(host.echo(CLIENT, token, &params, 12, 105), Err(Silence::Limited));
    let (_, echo) = host.echo(CLIENT, token, &params, 13, 110).unwrap();
    // Unanswered requests do not count as received; otherwise, their answers would appear to be lost.
    assert_eq!((echo.count, echo.window), (6, 0b11_1110_0000_0001));
    let on_time =
        (0..100).filter(|k| host.echo(CLIENT, token, &params, 14 + k, 120 + 10 * i64::from(*k)).is_ok());
    assert_eq!(on_time.count(), 100);
    let too_fast =
        (0..100).filter(|k| host.echo(CLIENT, token, &params, 200 + k, 2000 + 5 * i64::from(*k)).is_ok());
    assert_eq!(too_fast.count(), 54, "half of them, and the burst");
}

#[test]
fn sessions_end() {
    // End because of the duration limit: the last answer reports it.
    let mut host = Host::new(IrttRules { duration: Span::seconds(1), ..IrttRules::default() });
    let (token, params) = host.open(CLIENT, &asked(), 0).unwrap();
    for (k, ms) in (500..3500).step_by(500).enumerate() {
        assert_eq!(host.echo(CLIENT, token, &params, k as u32, ms).unwrap().0, flag::REPLY, "{ms}");
    }
    assert_eq!(host.echo(CLIENT, token, &params, 7, 3600).unwrap().0, flag::REPLY | flag::CLOSE);
    assert_eq!(host.echo(CLIENT, token, &params, 8, 3700), Err(Silence::NoSession));
    // End because of silence, which comes sooner if no request ever arrived.
    let mut host = Host::new(IrttRules { timeout: Span::seconds(60), ..IrttRules::default() });
    let (token, params) = host.open(CLIENT, &asked(), 0).unwrap();
    let (unused, _) = host.open(CLIENT, &asked(), 0).unwrap();
    assert!(host.echo(CLIENT, token, &params, 0, 29_000).is_ok());
    assert_eq!(host.echo(CLIENT, unused, &params, 0, 31_000), Err(Silence::NoSession));
    assert!(host.echo(CLIENT, token, &params, 1, 94_000).is_ok());
    assert_eq!(host.echo(CLIENT, token, &params, 2, 159_001), Err(Silence::NoSession));
    host.open(CLIENT, &asked(), 0).unwrap();
    host.open(CLIENT, &asked(), 200_000).unwrap();
    assert_eq!(host.server.sessions(), 1, "what has expired is forgotten");
}

#[test]
fn forged_opens_lock_no_client_out() {
    let mut host = Host::new(IrttRules { sessions: 8, sessions_per_client: 3, ..IrttRules::default() });
    let mut tokens = Vec::new();
    let (used, params) = host.open(CLIENT, &asked(), 0).unwrap();
    assert!(host.echo(CLIENT, used, &params, 0, 5).is_ok());
    // More sessions than one client may have: unused ones are replaced, oldest first.
    for k in 0..10 {
        tokens.push(host.open(CLIENT, &asked(), 20 + 10 * k).unwrap().0);
    }
    assert_eq!(host.server.sessions(), 3);
    assert!(
        host.echo(CLIENT, used, &params, 1, 130).is_ok()
            && host.echo(CLIENT, tokens[9], &params, 0, 131).is_ok()
    );
    assert_eq!(host.echo(CLIENT, tokens[7], &params, 0, 132), Err(Silence::NoSession));
    // More sessions than the server can hold, from any address.
    for k in 0..200 {
        let from = format!("198.51.100.{k}:5000");
        tokens.push(host.open(&from, &asked(), 140 + k).unwrap().0);
    }
    assert_eq!(host.server.sessions(), 8);
    assert!(host.echo(CLIENT, used, &params, 2, 350).is_ok(), "a session in use stays");
    // If all sessions are in use, there is no room for another one.
    let mut host = Host::new(IrttRules { sessions: 2, ..IrttRules::default() });
    for k in 0..2 {
        let from = format!("198.51.100.{k}:5000");
        let (token, params) = host.open(&from, &asked(), k).unwrap();
        host.echo(&from, token, &params, 0, k).unwrap();
    }
    assert_eq!(host.open(CLIENT, &asked(), 10), Err(Silence::Limited));
    // A client with several idle sessions makes room. A session in use stays.
    let mut host = Host::new(IrttRules { sessions: 3, ..IrttRules::default() });
    let opened = [0, 1, 2].map(|k| host.open("198.51.100.1:5000", &asked(), k).unwrap());
    for (token, params) in &opened {
        host.echo("198.51.100.1:5000", *token, params, 0, 10).unwrap();
    }
    assert_eq!(host.open(CLIENT, &asked(), 5000), Err(Silence::Limited), "not idle yet");
    for (token, params) in &opened[1..] {
        host.echo("198.51.100.1:5000", *token, params, 1, 6000).unwrap();
    }
    assert!(host.open(CLIENT, &asked(), 6100).is_ok());
    let idle = &opened[0];
    assert_eq!(host.echo("198.51.100.1:5000", idle.0, &idle.1, 1, 6200), Err(Silence::NoSession));
    // Tokens differ between sessions and between servers.
    let mut other = Server::new(IrttRules::default(), [8; 32], SteadyTime(0));
    let mut out = Vec::new();
    let open = packet(flag::OPEN, None, |out| asked().write_padded(out), None);
    other.handle(&open, &arrival(CLIENT, 0), tick(0), &mut out).unwrap();
    tokens.push(IrttPacket::parse(&out, None).unwrap().token().unwrap().0);
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!((tokens.len(), tokens.contains(&0)), (count, false));
}

#[test]
fn one_address_opens_so_many_a_second() {
    let mut host = Host::new(IrttRules::default());
    let opened = (0..5000).filter(|k| host.open(CLIENT, &asked(), k / 5).is_ok()).count();
    assert!((100..=112).contains(&opened), "{opened} of 5000 in a second");
}

#[test]
fn irtts_client_gets_its_session_with_its_second_request_and_then_at_once() {
    let mut host = Host::new(IrttRules::default());
    let open = packet(flag::OPEN, None, |out| asked().write(out), None);
    assert_eq!(host.say(CLIENT, &open, 0), Err(Silence::Short));
    assert_eq!(host.server.sessions(), 0);
    let answer = host.say(CLIENT, &open, 1000).unwrap();
    let (token, rest) = IrttPacket::parse(&answer, None).unwrap().token().unwrap();
    let params = IrttParams::parse(rest).unwrap();
    assert!(host.echo(CLIENT, token, &params, 0, 1010).is_ok());
    // The client sent the right token, so it receives packets at its address.
    assert!(host.say("192.0.2.1:50000", &open, 60_000).is_ok());
    // Where addresses cannot be forged, this proof is not required.
    let trusted = vec!["192.0.2.0/24".parse().unwrap()];
    assert!(Host::new(IrttRules { trusted, ..IrttRules::default() }).say(CLIENT, &open, 0).is_ok());
}

#[test]
fn a_session_stays_with_the_key_that_opened_it() {
    let [first, second, wrong] = ["one", "two", "three"].map(|text| IrttKey::new(text).unwrap());
    let mut keys = crate::policy::Keys::default();
    keys.add("probe-1", first.clone());
    keys.add("probe-2", second.clone());
    let mut host = Host::new(IrttRules { keys, ..IrttRules::default() });
    for (k, key, peer) in [(0, &first, "probe-1"), (1, &second, "probe-2")] {
        host.key = Some(key.clone());
        let (token, params) = host.open(CLIENT, &asked(), k).unwrap();
        assert!(host.echo(CLIENT, token, &params, 0, 100).is_ok());
        let begun = host.server.take_begun().unwrap();
        assert_eq!(begun.to_string(), format!("session: duration 1 s, interval 0.02 s, the key of {peer}"));
        // The key of the other peer is invalid for this session.
        host.key = Some(if k == 0 { second.clone() } else { first.clone() });
        assert_eq!(host.echo(CLIENT, token, &params, 1, 200), Err(Silence::Forged));
        let close = packet(flag::CLOSE, Some(token), |_| (), host.key.as_ref());
        assert_eq!(host.say(CLIENT, &close, 210), Err(Silence::Forged));
        host.key = Some(key.clone());
        assert!(host.echo(CLIENT, token, &params, 2, 300).is_ok());
    }
    let sessions = host.server.sessions();
    for key in [Some(wrong), None] {
        let open = packet(flag::OPEN, None, |out| asked().write_padded(out), key.as_ref());
        assert_eq!(host.say(CLIENT, &open, 400), Err(Silence::Forged));
    }
    assert_eq!(host.server.sessions(), sessions);
}

/// The cost of one packet is bounded: keys beyond the maximum are not tried, and several keys are not tried
/// against long packets.
#[test]
fn few_keys_are_tried_against_short_packets() {
    let key = |k: usize| IrttKey::new(&format!("key {k}")).unwrap();
    let host = |count: usize| {
        let mut keys = crate::policy::Keys::default();
        (0..count).for_each(|k| keys.add(format!("probe-{k}"), key(k)));
        Host::new(IrttRules { keys, ..IrttRules::default() })
    };
    let long = |key: &IrttKey| {
        let padded = |out: &mut Vec<u8>| {
            asked().write_padded(out);
            (0..40).for_each(|_| asked().write(out));
        };
        packet(flag::OPEN, None, padded, Some(key))
    };
    assert!(long(&key(0)).len() > 512, "{}", long(&key(0)).len());
    assert!(host(1).say(CLIENT, &long(&key(0)), 0).is_ok());
    let mut many = host(MAX_KEYS + 1);
    assert_eq!(many.say(CLIENT, &long(&key(0)), 0), Err(Silence::Forged));
    for (k, served) in [(0, true), (MAX_KEYS - 1, true), (MAX_KEYS, false)] {
        many.key = Some(key(k));
        assert_eq!(many.open(CLIENT, &asked(), 10).is_ok(), served, "{k}");
    }
}

/// irtt's protocol allows long answers to a request of 16 bytes.
#[test]
fn answers_are_no_longer_than_requests() {
    let mut host = Host::new(IrttRules::default());
    let params = IrttParams { length: 1400, ..asked() };
    let (token, granted) = host.open(CLIENT, &params, 0).unwrap();
    assert_eq!(granted.length, 1400);
    for (k, len) in [16, 59, 60, 61, 1399, 1400, 1500].into_iter().enumerate() {
        let layout = EchoLayout::new(&granted);
        let mut bytes = packet(0, Some(token), |out| layout.write(&EchoFields::default(), out), None);
        bytes.resize(len, 0);
        let answer = host.say(CLIENT, &bytes, 50 * k as i64);
        assert_eq!(answer.map(|a| a.len()), if len < 60 { Err(Silence::Short) } else { Ok(len.min(1400)) });
    }
}

#[test]
fn a_test_runs_as_it_was_granted() {
    let planned = |packets| {
        TestSpec::new(Direction::Up, Transport::Udp, packets, 60, Span::millis(5), Schedule::Periodic)
            .unwrap()
    };
    let granted = |rules: IrttRules, loose| {
        let mut host = Host::new(rules);
        let options = IrttOptions { loose, ..IrttOptions::new(Span::millis(500), Span::millis(5)) };
        let mut client = Client::new(options);
        let mut open = Vec::new();
        assert!(client.poll_conversation(tick(0), &mut open));
        let answer = host.say(CLIENT, &open, 1).unwrap();
        assert_eq!(client.receive(&answer, tick(2).wall), DatagramKind::Conversation);
        (client.conversation_state(SteadyTime(0)), client.granted_test(&planned(100)))
    };
    let as_asked = IrttRules { interval: Span::ZERO, ..IrttRules::default() };
    assert_eq!(granted(as_asked.clone(), false), (ConversationState::Ready, None));
    let slow = IrttRules { interval: Span::millis(10), ..as_asked.clone() };
    let (state, _) = granted(slow.clone(), false);
    let why = "the server restricts the test: interval 0.01 s instead of 0.005 s; request these values, or accept what it \
               grants with --loose";
    assert_eq!(state, ConversationState::Failed(why.to_owned()));
    let (state, spec) = granted(slow, true);
    let spec = spec.unwrap();
    assert_eq!((state, spec.period(), spec.packets()), (ConversationState::Ready, Span::millis(10), 100));
    let short = IrttRules { duration: Span::millis(98), ..as_asked };
    let (_, spec) = granted(short, true);
    assert_eq!(spec.unwrap().packets(), 20, "the last one at 95 ms");
}

fn any_params() -> impl Strategy<Value = IrttParams> {
    let spans = (0i64..10_000_000_000, 0i64..10_000_000_000);
    let codes = (0usize..4, 0usize..5, 0usize..4);
    (spans, -10i64..2000, codes, 0i64..256, "(none|rand|pattern:[0-9a-f]{2,8}|[a-z]{0,9})").prop_map(
        |((duration, interval), length, (stats, at, clocks), tos, fill)| IrttParams {
            version: 1,
            duration: Span(duration),
            interval: Span(interval),
            length,
            stats: ReceiveStats::ALL[stats],
            stamp_at: StampAt::ALL[at],
            clocks: ServerClocks::ALL[clocks],
            tos,
            fill,
        },
    )
}

proptest! {
    /// Property: for any input from any host, there is at most one answer, which is not longer than the
    /// request. Before an address has proved that it receives packets, it gets no more bytes in total than it
    /// sent. Memory is bounded.
    #[test]
    fn of_no_use_against_others(
        key in any::<bool>(),
        inputs in prop::collection::vec(
            (any_params(), 0u8..32, 0usize..6, prop::collection::vec(any::<u8>(), 0..90), any::<bool>(), 0i64..200),
            0..60,
        ),
    ) {
        let key = key.then(|| IrttKey::new("secret").unwrap());
        let rules = IrttRules { keys: key.clone().into(), sessions: 4, sessions_per_client: 3, ..IrttRules::default() };
        let mut server = Server::new(rules, [1; 32], SteadyTime(0));
        let mut tokens = vec![0];
        let mut ms = 0;
        let mut unanswered = [Some(0), Some(0)];
        for (params, flags, which, bytes, whole, pause) in inputs {
            ms += pause;
            let open = flags & flag::OPEN != 0;
            let token = (!open).then(|| tokens[which % tokens.len()]);
            let datagram = packet(flags & !flag::HMAC, token, |out| {
                if open && whole { params.write(out) } else { out.extend(&bytes) }
            }, key.as_ref());
            let mut out = Vec::new();
            let from = ["192.0.2.1:4000", "192.0.2.1:4001", "198.51.100.7:4000"][which % 3];
            let reaction = server.handle(&datagram, &arrival(from, ms), tick(ms), &mut out);
            prop_assert!(reaction.is_ok() || out.is_empty());
            let unanswered = &mut unanswered[which % 3 / 2];
            if reaction.is_ok() && flags & (flag::OPEN | flag::CLOSE) == 0 {
                prop_assert!(out.len() <= datagram.len(), "{} for {}", out.len(), datagram.len());
                *unanswered = None;
            } else if let Some(bytes) = unanswered {
                let left = (*bytes + datagram.len()).checked_sub(out.len());
                prop_assert!(left.is_some(), "{} after {bytes} and {}", out.len(), datagram.len());
                *bytes = left.unwrap();
            }
            if let Ok(packet) = IrttPacket::parse(&out, key.as_ref()) {
                prop_assert!(packet.flags & flag::REPLY != 0);
                tokens.push(packet.token().unwrap().0);
            }
            prop_assert!(server.sessions() <= 4);
        }
    }

    /// Property: a client survives any input, and regards none of it as an answer.
    #[test]
    fn any_answer_is_survived(
        inputs in prop::collection::vec((0u8..16, any::<bool>(), prop::collection::vec(any::<u8>(), 0..90)), 0..30),
        stats in 0usize..4, at in 0usize..5, clocks in 1usize..4,
    ) {
        let mut options = IrttOptions::new(Span::seconds(1), Span::millis(20));
        (options.params.stats, options.params.stamp_at) = (ReceiveStats::ALL[stats], StampAt::ALL[at]);
        (options.params.clocks, options.loose) = (ServerClocks::ALL[clocks], true);
        let mut client = Client::new(options);
        let mut out = Vec::new();
        prop_assert!(client.poll_conversation(tick(0), &mut out));
        for (k, (flags, ours, bytes)) in inputs.into_iter().enumerate() {
            let token = if ours { client.token() } else { 5 };
            let datagram = packet(flags & !flag::HMAC, Some(token), |out| out.extend(&bytes), None);
            let result = client.receive(&datagram, tick(k as i64).wall);
            if flags & flag::REPLY == 0 {
                prop_assert_eq!(result, DatagramKind::Malformed);
            }
            let _ = client.receive(&bytes, tick(k as i64).wall);
            out.clear();
            client.request(k as u32, false, tick(0).wall, &mut out);
            prop_assert!(out.len() >= 16 && out.len() == client.size());
            let _ = client.conversation_state(tick(k as i64).steady);
        }
    }
}

/// Returns a client that has sent its first open request.
fn opening(change: impl Fn(&mut IrttOptions)) -> Client {
    let mut options = IrttOptions::new(Span::seconds(1), Span::millis(20));
    change(&mut options);
    let mut client = Client::new(options);
    assert!(client.poll_conversation(tick(0), &mut Vec::new()));
    client
}

fn granted(token: u64, params: &IrttParams) -> Vec<u8> {
    packet(flag::OPEN | flag::REPLY, Some(token), |out| params.write(out), None)
}

#[test]
fn a_grant_of_more_than_a_datagram_holds_is_no_answer() {
    let mut client = opening(|options| options.loose = true);
    let grant = |length| {
        granted(7, &IrttParams { length, ..IrttOptions::new(Span::seconds(1), Span::millis(20)).params })
    };
    for length in [65_508, 1 << 40, i64::MAX] {
        assert_eq!(client.receive(&grant(length), tick(0).wall), DatagramKind::Malformed, "{length}");
        assert!(client.size() < 100);
    }
    assert_eq!(client.receive(&grant(65_507), tick(0).wall), DatagramKind::Conversation);
    assert_eq!(client.size(), 65_507);
}

#[test]
fn an_open_request_is_repeated_and_then_given_up() {
    let mut client = Client::new(IrttOptions::new(Span::seconds(1), Span::millis(20)));
    let mut inputs = Vec::new();
    while client.conversation_state(SteadyTime(0)) == ConversationState::Opening {
        let Some(due) = client.conversation_timeout() else { break };
        let now = Tick { steady: due.max(SteadyTime(0)), ..tick(0) };
        if client.conversation_state(now.steady) != ConversationState::Opening {
            break;
        }
        let mut out = Vec::new();
        assert!(client.poll_conversation(now, &mut out));
        assert!(!client.poll_conversation(now, &mut out), "one at a time");
        inputs.push((now.steady.0 / 1_000_000_000, out));
    }
    let times: Vec<i64> = inputs.iter().map(|s| s.0).collect();
    assert_eq!(times, [0, 1, 3, 7]);
    assert!(inputs.windows(2).all(|w| w[0].1 == w[1].1));
    assert_eq!(client.failure(), Some(&IrttFailure::Silent(4)));
    assert!(client.failure().unwrap().to_string().contains("does it require a key"));
    assert!(!client.poll_farewell(&mut Vec::new()), "there is nothing to close");
}

#[test]
fn restrictions_are_reported_and_the_session_closed() {
    let restricted = IrttParams { interval: Span::millis(100), ..asked() };
    let mut client = opening(|_| ());
    assert_eq!(client.receive(&granted(7, &restricted), tick(1).wall), DatagramKind::Conversation);
    let ConversationState::Failed(why) = client.conversation_state(SteadyTime(0)) else { panic!() };
    assert!(why.contains("interval 0.1 s instead of 0.02 s"), "{why}");
    let mut close = Vec::new();
    assert!(client.poll_farewell(&mut close));
    assert_eq!(close, packet(flag::CLOSE, Some(7), |_| (), None));
    let mut client = opening(|o| o.loose = true);
    client.receive(&granted(7, &restricted), tick(1).wall);
    assert_eq!(
        (client.conversation_state(SteadyTime(0)), client.granted()),
        (ConversationState::Ready, &restricted)
    );
    for (params, token, failure) in [
        (IrttParams { version: 2, ..asked() }, 7, IrttFailure::Version(2)),
        (asked(), 0, IrttFailure::Closed),
    ] {
        let mut client = opening(|o| o.loose = true);
        client.receive(&granted(token, &params), tick(1).wall);
        assert_eq!(client.failure(), Some(&failure));
    }
}

#[test]
fn one_bad_datagram_ends_no_test() {
    let mut client = opening(|_| ());
    client.receive(&granted(7, &asked()), tick(1).wall);
    let layout = EchoLayout::new(&asked());
    let reply = |token, flags| {
        let echo = EchoFields { seq: 3, count: 4, window: 15, ..EchoFields::default() };
        packet(flags, Some(token), |out| layout.write(&echo, out), None)
    };
    let near = tick(9).wall;
    assert_eq!(client.receive(&reply(8, flag::REPLY), near), DatagramKind::Foreign, "another session");
    assert_eq!(client.receive(&reply(7, 0), near), DatagramKind::Malformed, "our own, come back");
    assert_eq!(client.receive(&reply(7, flag::REPLY)[..40], near), DatagramKind::Malformed);
    assert_eq!(client.receive(b"no packet", near), DatagramKind::Foreign);
    assert_eq!(
        client.receive(&granted(9, &asked()), near),
        DatagramKind::Conversation,
        "to an open inputs again"
    );
    assert_eq!(client.conversation_state(SteadyTime(0)), ConversationState::Ready);
    let DatagramKind::Reply(reply_read) = client.receive(&reply(7, flag::REPLY), near) else { panic!() };
    assert_eq!((reply_read.seq, reply_read.far_seq, client.far_window()), (3, Some(3), Some(15)));
    // The server ends the session with this answer, which still counts.
    assert!(matches!(client.receive(&reply(7, flag::REPLY | flag::CLOSE), near), DatagramKind::Reply(_)));
    assert!(client.was_ended() && client.conversation_state(SteadyTime(0)) == ConversationState::Over);
    assert!(!client.poll_farewell(&mut Vec::new()));
}

#[test]
fn one_clock_gives_what_it_can() {
    for (clocks, wall) in
        [(ServerClocks::Wall, true), (ServerClocks::Monotonic, false), (ServerClocks::Both, true)]
    {
        let params = IrttParams { clocks, ..asked() };
        let mut client = opening(|o| o.params = params.clone());
        client.receive(&granted(7, &params), tick(1).wall);
        let instant = |ms: i64| packet::ServerInstant {
            wall: Some(tick(ms).wall.0),
            monotonic: Some(ms * 1_000_000 + 1),
        };
        let echo = EchoFields { received: instant(50), sent: instant(53), ..EchoFields::default() };
        let bytes = packet(flag::REPLY, Some(7), |out| EchoLayout::new(&params).write(&echo, out), None);
        let DatagramKind::Reply(reply) = client.receive(&bytes, tick(60).wall) else { panic!() };
        let (arrived, answered) = (reply.arrived.unwrap(), reply.answered.unwrap());
        assert_eq!((answered - arrived, client.far_clock()), (Span::millis(3), wall), "{clocks:?}");
        assert_eq!(arrived == tick(50).wall, wall, "{clocks:?}");
    }
}
