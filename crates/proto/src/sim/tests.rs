//! Scenarios in virtual time.

use super::*;
use jitlat_core::clock::SyncState;
use jitlat_core::spec::{Direction, Schedule, Transport};
use jitlat_impair::{Choice, GilbertModel, Jitter};
use proptest::prelude::*;

const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];
const DIALECTS: [Dialect; 2] = [Dialect::V3, Dialect::Classic];

fn spec(direction: Direction, packets: u64, period: Span) -> TestSpec {
    TestSpec::new(direction, Transport::Udp, packets, 80, period, Schedule::Periodic).unwrap()
}

fn short(direction: Direction) -> SimWorld {
    SimWorld::new(spec(direction, 100, Span::millis(20))).path(&millis(10))
}

fn millis(ms: i64) -> PathModel {
    PathModel { delay: Span::millis(ms), ..PathModel::default() }
}

fn key(text: &str) -> Option<PresharedKey> {
    PresharedKey::from_file_contents(text.as_bytes()).ok()
}

/// All kinds of short tests: dialect × direction × transport, and both directions at once.
fn kinds() -> Vec<(String, SimWorld)> {
    let mut all = Vec::new();
    for dialect in DIALECTS {
        for direction in BOTH {
            for transport in [Transport::Udp, Transport::Tcp] {
                let period = Span::millis(20);
                let spec = TestSpec::new(direction, transport, 30, 80, period, Schedule::Periodic).unwrap();
                let mut world = SimWorld::new(spec).path(&millis(10));
                world.dialect = dialect;
                all.push((format!("{dialect} {transport} {direction:?}"), world));
            }
        }
    }
    let mut both = SimWorld::new(spec(Direction::Up, 30, Span::millis(20))).path(&millis(10));
    both.flows.push(spec(Direction::Down, 40, Span::millis(20)));
    all.push(("version 3 UDP both".into(), both.clone()));
    [both.client_key, both.server_key] = [key("0123456789abcdef"), key("0123456789abcdef")];
    all.push(("version 3 UDP both with a key".into(), both));
    let slow = all.iter().map(|(name, world)| {
        (format!("{name}, slow reports"), SimWorld { latency: Span::millis(30), ..world.clone() })
    });
    let slow: Vec<_> = slow.collect();
    all.extend(slow);
    all
}

#[test]
fn a_perfect_path_loses_nothing() {
    for (name, world) in kinds() {
        let flows = world.flows.clone();
        let out = world.run();
        assert_eq!(out.client, Ok((Ending::Complete, None)), "{name}");
        for (spec, (records, session)) in flows.iter().zip(out.records.iter().zip(&out.sessions)) {
            assert_eq!(records.len() as u32, spec.packets(), "{name}");
            assert_eq!(
                session.sent,
                (!name.starts_with("classic UDP Down") && !name.starts_with("classic TCP Down"))
                    .then_some(spec.packets()),
                "{name}"
            );
            assert!(records.iter().all(|r| r.flags.is_clean()), "{name}");
        }
        assert_eq!((out.server, out.hung, out.kept), (vec![None], false, 0), "{name}");
        assert!(out.took < Span::seconds(12), "{name}: {:?}", out.took);
    }
}

#[test]
fn sentinels_are_repeated_until_they_are_answered() {
    // Section 4.3.3 of the source document: from ten periods after the last packet, at one tenth of the rate,
    // until the acknowledgement arrives.
    let troubles = [(0, 0), (1, 0), (7, 0), (0, 1), (0, 2), (3, 1)];
    for (name, world) in kinds().into_iter().filter(|(name, w)| name.contains("UDP") && w.flows.len() == 1) {
        for (sentinels, answers) in troubles {
            let name = format!("{name}, {sentinels} sentinels and {answers} answers lost");
            let mut world = world.clone();
            world.ending = EndTrouble { sentinels, answers };
            let (spec, slow) = (world.flows[0].clone(), world.latency > Span::ZERO);
            let out = world.run();
            assert_eq!(out.client, Ok((Ending::Complete, None)), "{name}");
            assert_eq!(out.records[0].len() as u32, spec.packets(), "{name}: no packet is lost with them");
            assert_eq!((out.server, out.hung), (vec![None], false), "{name}");
            let ten = spec.period().times(10);
            assert!(out.sentinels.windows(2).all(|w| w[1] - w[0] == ten), "{name}: {:?}", out.sentinels);
            // One sentinel arrives. Others follow while its answer is in transit: 20 ms, plus 1 s or, if lost
            // twice, 3 s.
            let waiting = (Span::millis(20) + Span::seconds((1 << answers) - 1)).0 / ten.0;
            let expected = u64::from(sentinels) + 1 + waiting as u64;
            let most = expected + if slow { 1 } else { 0 };
            assert!(
                (expected..=most).contains(&(out.sentinels.len() as u64)),
                "{name}: {}",
                out.sentinels.len()
            );
            let first = out.records[0].last().and_then(PacketRecord::sent).unwrap();
            let wait = out.sentinels[0] - (first - EPOCH);
            assert!((wait - ten).0.abs() <= 10_000, "{name}: {wait:?}");
        }
    }
}

#[test]
fn kernel_clock_states_are_part_of_the_results() {
    let state = |error| SyncState {
        synchronised: true,
        offset: Span(-3_500),
        estimated_error: Span::micros(error),
        maximum_error: Span::micros(50 * error),
        frequency_ppb: -12_500,
    };
    let mut world = short(Direction::Up);
    for (host, error) in world.hosts.iter_mut().zip([20, 30]) {
        host.sync_before = Some(state(error));
    }
    let out = world.run();
    let session = &out.sessions[0];
    assert_eq!((session.client.sync_before, session.server.sync_before), (Some(state(20)), Some(state(30))));
    let clock = jitlat_core::summary::ClockEstimate::new(session, None);
    assert_eq!(clock.synchronised(), Some(2_500_000), "both at most 1.5 and 1 ms off");
}

#[test]
fn transmit_stamps_are_joined_in_both_directions() {
    let mut world = short(Direction::Up);
    world.flows.push(spec(Direction::Down, 9000, Span::millis(1)));
    let out = world.run();
    for records in &out.records {
        assert!(!records.is_empty());
        for r in records {
            assert_eq!(r.send_lag(), Some(SEND_LAG));
            // The delay begins when the packet leaves, not when the program reads the clock.
            assert_eq!(r.delay(), Some(Span::millis(10) - SEND_LAG));
            assert_eq!(r.ttl(), Some(64));
        }
    }
}

#[test]
fn a_test_ends_in_bounded_time_wherever_the_server_vanishes() {
    for (name, world) in kinds() {
        let steps = world.clone().run().steps[SERVER];
        for n in (0..=steps).step_by(if name.ends_with("slow reports") { 5 } else { 1 }) {
            let mut world = world.clone();
            world.trouble = SimTrouble::ServerVanishes(n);
            let out = world.run();
            assert!(!out.hung, "{name}, step {n}");
            assert!(out.client_took < Span::seconds(600), "{name}, step {n}: {:?}", out.client_took);
            // Records received on this host are never lost.
            for (records, session) in out.records.iter().zip(&out.sessions) {
                if !records.is_empty() && out.client.is_ok() {
                    assert!(session.spec.direction() == Direction::Down || records.len() == 30);
                }
            }
        }
    }
}

#[test]
fn a_server_is_free_again_wherever_the_client_vanishes() {
    for (name, world) in kinds() {
        let steps = world.clone().run().steps[CLIENT];
        for n in (0..=steps).step_by(if name.ends_with("slow reports") { 5 } else { 1 }) {
            let mut world = world.clone();
            world.trouble = SimTrouble::ClientVanishes(n);
            world.limits.keep = Span::seconds(1);
            let out = world.run();
            assert!(!out.hung, "{name}, step {n}");
            assert!(out.took < Span::seconds(600), "{name}, step {n}: {:?}", out.took);
            for why in &out.server {
                assert_ne!(why.as_deref(), Some("never ended"), "{name}, step {n}");
            }
        }
    }
}

#[test]
fn a_broken_control_connection_loses_nothing_that_was_received() {
    for direction in BOTH {
        let whole = short(direction).run();
        let mut recovered = 0;
        for ms in (0..whole.client_took.0 / 1_000_000).step_by(37) {
            let mut world = short(direction);
            world.trouble = SimTrouble::ControlBreaks(Span::millis(ms));
            if ms % 2 == 0 {
                [world.client_key, world.server_key] = [key("0123456789abcdef"), key("0123456789abcdef")];
            }
            let out = world.run();
            assert!(
                !out.hung && out.client_took < Span::seconds(30),
                "{direction:?} {ms}: {:?}",
                out.client_took
            );
            match &out.client {
                // Before the streams had run, there were no results to lose.
                Err(ConversationFailure::Closed { .. }) => assert!(ms < 1000, "{direction:?} {ms}"),
                Err(other) => panic!("{direction:?} {ms}: {other}"),
                Ok((ending, _)) => {
                    let received = out.records[0].len();
                    let sent = out.sessions[0].sent.unwrap_or_default() as usize;
                    assert!(received > 0, "{direction:?} {ms}");
                    // The stream was cut, but everything sent before that is recorded.
                    if direction == Direction::Up {
                        assert_eq!(received, sent, "{ms}");
                    }
                    assert!(*ending == Ending::PeerLost || received == 100, "{direction:?} {ms} {ending:?}");
                    recovered += 1;
                }
            }
        }
        assert!(recovered > 30, "{direction:?}: {recovered}");
    }
}

#[test]
fn a_silently_cut_control_connection_is_replaced_at_the_end_of_the_stream() {
    for direction in BOTH {
        let whole = short(direction).run();
        for ms in (1200..2200).step_by(100) {
            let mut world = short(direction);
            world.trouble = SimTrouble::ControlFallsSilent(Span::millis(ms));
            let out = world.run();
            let name = format!("{direction:?} {ms}: {:?} after {:?}", out.client, out.client_took);
            assert_eq!(out.client, Ok((Ending::Complete, None)), "{name}");
            assert_eq!((out.records[0].len(), out.sessions[0].sent), (100, Some(100)), "{name}");
            assert!(out.sessions[0].client.notes.iter().any(|note| note.contains("new one")), "{name}");
            assert!(!out.hung && out.client_took < whole.client_took + Span::seconds(5), "{name}");
        }
    }
}

#[test]
fn a_server_that_stops_hands_over_what_it_has() {
    for direction in BOTH {
        for ms in (1200..2200).step_by(100) {
            let mut world = short(direction);
            world.trouble = SimTrouble::ServerStops(Span::millis(ms));
            let out = world.run();
            let name = format!("{direction:?} {ms}: {:?} after {:?}", out.client, out.client_took);
            let Ok((Ending::ServerStopped, Some(reason))) = &out.client else { panic!("{name}") };
            assert!(reason.contains("the server was stopped"), "{name}");
            let received = out.records[0].len();
            assert!((10..100).contains(&received), "{received}, {name}");
            // Packets that the client sent after the stop are unknown, not lost.
            let sent = out.sessions[0].sent;
            assert!(
                sent.is_none() || direction == Direction::Down && sent == Some(received as u32),
                "{name}"
            );
            assert!(!out.hung && out.client_took < Span::seconds(8), "{name}");
        }
    }
}

#[test]
fn a_stream_that_had_ended_before_the_server_stopped_is_complete() {
    for [ended, running] in [BOTH, [Direction::Down, Direction::Up]] {
        for ms in (1700..2200).step_by(20) {
            let mut world = SimWorld::new(spec(ended, 20, Span::millis(20))).path(&millis(10));
            world.flows.push(spec(running, 100, Span::millis(20)));
            world.trouble = SimTrouble::ServerStops(Span::millis(ms));
            let out = world.run();
            let [first, second] = [0, 1].map(|i| &out.sessions[i]);
            let name = format!("{ended:?} {ms}: {:?} {:?}", first.reason, second.reason);
            assert_eq!(
                (first.ending, &first.reason, first.sent),
                (Ending::Complete, &None, Some(20)),
                "{name}"
            );
            assert_eq!(out.records[0].len(), 20, "{name}");
            assert_eq!(second.ending, Ending::ServerStopped, "{name}");
        }
    }
}

#[test]
fn a_dead_server_is_distinguished_from_a_slow_one() {
    for direction in BOTH {
        for ms in (0..3000).step_by(113) {
            let mut world = short(direction);
            world.trouble = SimTrouble::ServerDies(Span::millis(ms));
            let out = world.run();
            assert!(!out.hung && out.client_took < Span::seconds(30), "{direction:?} {ms}");
            if direction == Direction::Down && out.client.is_ok() {
                assert!(!out.records[0].is_empty());
            }
            if direction == Direction::Up && ms < 2500 {
                assert!(out.client.is_err(), "{ms}: nothing was ever collected: {:?}", out.client);
            }
        }
    }
}

#[test]
fn an_interrupted_test_reports_what_was_received() {
    for dialect in DIALECTS {
        for direction in BOTH {
            let mut early = 0;
            for ms in (0..6500).step_by(97) {
                let mut world = short(direction);
                world.dialect = dialect;
                world.interrupt = vec![Span::millis(ms)];
                let out = world.run();
                let name = format!("{dialect} {direction:?} at {ms} ms");
                assert!(!out.hung && out.client_took < Span::millis(ms) + Span::seconds(13), "{name}");
                match out.client {
                    Err(failure) => assert_eq!(failure, ConversationFailure::Interrupted, "{name}"),
                    Ok((Ending::Complete, None)) => assert_eq!(out.records[0].len(), 100, "{name}"),
                    Ok((ending, _)) => {
                        assert_eq!(ending, Ending::Interrupted, "{name}");
                        early += usize::from(out.records[0].len() < 100);
                        if let Some(sent) = out.sessions[0].sent {
                            assert_eq!(sent as usize, out.records[0].len(), "{name}");
                        }
                    }
                }
            }
            assert!(early > 10, "{dialect} {direction:?}: {early}");
        }
    }
}

#[test]
fn a_stream_that_takes_too_long_is_ended() {
    for dialect in DIALECTS {
        for direction in BOTH {
            let mut early = 0;
            for ms in (0..6500).step_by(97) {
                let mut world = short(direction);
                world.dialect = dialect;
                world.expire = Some(Span::millis(ms));
                let out = world.run();
                let name = format!("{dialect} {direction:?} at {ms} ms");
                match out.client.unwrap_or_else(|e| panic!("{name}: {e}")) {
                    (Ending::Complete, None) => assert_eq!(out.records[0].len(), 100, "{name}"),
                    (ending, reason) => {
                        assert_eq!(ending, Ending::Interrupted, "{name}");
                        assert!(reason.unwrap().contains("time limit was reached"), "{name}");
                        early += 1;
                        // A classic sender on the far host does not report the number of packets that it
                        // sent.
                        if let Some(sent) = out.sessions[0].sent {
                            assert_eq!(sent as usize, out.records[0].len(), "{name}");
                            assert!(sent < 100, "{name}: all had been sent");
                        }
                    }
                }
            }
            assert!(early > 10, "{dialect} {direction:?}: {early}");
        }
    }
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let mut world = short(Direction::Up);
    // From then on, the client's messages are not answered.
    world.trouble = SimTrouble::ServerVanishes(60);
    world.interrupt = vec![Span::seconds(2), Span::seconds(5)];
    let out = world.run();
    assert!(out.client_took < Span::millis(5_100), "{:?}", out.client_took);
}

#[test]
fn keys_must_agree() {
    let run = |dialect, client: &str, server: &str| {
        let mut world = short(Direction::Up);
        world.dialect = dialect;
        (world.client_key, world.server_key) = (key(client), key(server));
        let out = world.run();
        assert!(!out.hung && out.kept == 0);
        out.client.map_err(|f| f.to_string())
    };
    let (a, b) = ("the first key 123", "the second key 12");
    assert!(run(Dialect::V3, a, a).is_ok());
    assert_eq!(
        run(Dialect::V3, a, b).unwrap_err(),
        "the server refused: the client's key differs from this server's key"
    );
    assert!(run(Dialect::V3, "", b).unwrap_err().contains("requires a key"));
    assert!(run(Dialect::V3, a, "").unwrap_err().contains("has no key"));
    assert!(run(Dialect::Classic, "", b).unwrap_err().contains("refused"));
    assert!(run(Dialect::Classic, a, "").unwrap_err().contains("classic"));
}

/// Returns the position of the field with the public key in a side's first message; `None` if there is no such field.
fn share_at(bytes: &[u8]) -> Option<usize> {
    bytes.windows(3).position(|field| field == [7, 0, 32]).filter(|_| bytes.starts_with(b"JLT3"))
}

/// Removes the public key from a greeting, as if the peer were of an earlier version.
fn without_share(bytes: &mut Vec<u8>) {
    let Some(at) = share_at(bytes) else { return };
    bytes.drain(at..at + 35);
    let length = u32::from_be_bytes(*bytes[4..].first_chunk().unwrap()) - 35;
    bytes[4..8].copy_from_slice(&length.to_be_bytes());
}

/// With a key, nothing after the greetings can be read, and nobody without the key can prevent the encryption.
#[test]
fn with_a_key_messages_are_encrypted_and_no_attacker_can_prevent_it() {
    let readable = |overheard: &[u8]| overheard.windows(13).any(|text| text == b"a secret host");
    let run = |keyed: bool, attacker: fn(usize, &mut Vec<u8>)| {
        let mut world = short(Direction::Down);
        world.hosts[0].system = Some("a secret host".to_owned());
        world.hosts[1].system = Some("a secret host".to_owned());
        if keyed {
            [world.client_key, world.server_key] = [key("0123456789abcdef"), key("0123456789abcdef")];
        }
        world.attacker = attacker;
        world.run()
    };
    let open = run(false, |_, _| {});
    assert!(open.client.is_ok() && readable(&open.overheard));
    let keyed = run(true, |_, _| {});
    assert!(keyed.client.is_ok() && !readable(&keyed.overheard));
    // Both greetings have a public key.
    assert_eq!(keyed.overheard.windows(3).filter(|field| *field == [7, 0, 32]).count(), 2);
    // Public keys are removed or replaced: the proofs fail, and no test runs.
    let attacks: [fn(usize, &mut Vec<u8>); 4] = [
        |from, bytes| {
            if from == 0 {
                without_share(bytes);
            }
        },
        |from, bytes| {
            if from == 1 {
                without_share(bytes);
            }
        },
        |_, bytes| without_share(bytes),
        |_, bytes| {
            if let Some(at) = share_at(bytes) {
                bytes[at + 10] ^= 1;
            }
        },
    ];
    for attack in attacks {
        let out = run(true, attack);
        let failed = out.client.unwrap_err().to_string();
        assert!(failed.contains("key differs"), "{failed}");
        assert!(!out.hung && out.kept == 0 && !readable(&out.overheard));
    }
}

#[test]
fn a_refusal_names_the_limit() {
    let refused = |limits: ServerLimits, count: usize| {
        let mut world = short(Direction::Up);
        world.flows = vec![world.flows[0].clone(); count];
        world.limits = limits;
        let out = world.run();
        assert_eq!(out.kept, 0);
        out.client.unwrap_err().to_string()
    };
    let limits = ServerLimits::default;
    assert_eq!(
        refused(ServerLimits { packets: 99, ..limits() }, 1),
        "the server refused: max-packets is limited to 99 on this server (100 requested)"
    );
    assert!(refused(limits(), 3).contains("max-flows"));
    assert!(refused(ServerLimits { sessions: 0, ..limits() }, 1).contains("max-sessions"));
    assert!(refused(ServerLimits { memory: 1000, ..limits() }, 1).contains("max-memory"));
    assert!(refused(ServerLimits { probes: 3, ..limits() }, 1).contains("max-probes"));
    let mut classic = short(Direction::Up);
    classic.dialect = Dialect::Classic;
    classic.limits.classic = false;
    assert!(matches!(classic.run().client, Err(ConversationFailure::Refused(_))));
}

#[test]
fn a_path_that_carries_nothing_is_measured_as_such() {
    // Only the control connection works. Greetings are lost, so the test is refused before the stream.
    let mut world = short(Direction::Up);
    world.up.outages = vec![];
    world.up.loss = Choice::Bernoulli(1.0);
    let out = world.run();
    // The model does not treat greetings as test packets, so the stream runs and all its packets are lost.
    assert_eq!(out.client.map(|e| e.0), Ok(Ending::Complete));
    assert_eq!((out.records[0].len(), out.sessions[0].sent), (0, Some(100)));
}

#[test]
fn an_hour_of_traffic() {
    let mut world = SimWorld::new(spec(Direction::Up, 180_000, Span::millis(20)));
    world.up = PathModel {
        delay: Span::millis(40),
        jitter: Jitter::Exponential { mean: Span::micros(300) },
        loss: Choice::Gilbert(GilbertModel::simple(0.001, 0.3)),
        ..PathModel::default()
    };
    world.down = millis(40);
    world.client_clock = SimClock { offset: Span::ZERO, skew_ppb: 120_000 };
    let out = world.run();
    assert_eq!(out.client, Ok((Ending::Complete, None)));
    assert_eq!(out.records[0].len() as u64, 180_000 - out.up.not_delivered());
    assert!(out.took > Span::seconds(3590));
}

// ---- arbitrary input ------------------------------------------------------------------------------

fn ops(usual: &[u8]) -> impl Strategy<Value = Vec<chaos::Op>> + use<> {
    use chaos::Op;
    let op = prop_oneof![
        // Mostly valid next messages of the peer, so that later states are reached.
        8 => (prop::sample::select(usual.to_vec()), 0u32..200).prop_map(|(k, n)| Op::Say(k, n)),
        1 => (any::<u8>(), any::<u32>()).prop_map(|(k, n)| Op::Say(k, n)),
        1 => prop::collection::vec(any::<u8>(), 0..60).prop_map(Op::Raw),
        6 => (any::<u8>(), 0u8..3, 0u32..6000).prop_map(|(k, f, n)| Op::FlowReport(k, f, n)),
        1 => any::<u32>().prop_map(Op::Wait),
        3 => Just(Op::Timeout),
        1 => any::<i32>().prop_map(Op::Step),
        1 => Just(Op::Close),
        1 => Just(Op::Stop),
        1 => any::<bool>().prop_map(Op::Obey),
    ];
    prop::collection::vec(op, 0..30)
}

/// Returns the operations by which the peer of a client (or server) leads the conversation to running
/// streams.
fn opening(side: usize) -> Vec<chaos::Op> {
    use chaos::Op::Say;
    if side == CLIENT { vec![Say(1, 0), Say(5, 3), Say(7, 0)] } else { vec![Say(0, 0), Say(4, 0), Say(6, 0)] }
}

fn setup() -> impl Strategy<Value = chaos::ChaosSetup> {
    let shape = prop_oneof![4 => 0u8..8, 1 => any::<u8>()];
    (prop::bool::weighted(0.3), shape).prop_map(|(classic, shape)| chaos::ChaosSetup { classic, shape })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_server_never_panics_hangs_or_babbles(setup in setup(), ops in ops(&[3, 8, 9, 10, 11, 15]), opened: bool) {
        let ops = if opened { [opening(SERVER), ops].concat() } else { ops };
        chaos::server(setup, &ops);
    }

    #[test]
    fn a_client_never_panics_hangs_or_babbles(setup in setup(), ops in ops(&[3, 8, 9, 12, 13, 15]), opened: bool) {
        let ops = if opened { [opening(CLIENT), ops].concat() } else { ops };
        chaos::client(setup, &ops);
    }
}

fn trouble() -> impl Strategy<Value = SimTrouble> {
    let time = || (0i64..8000).prop_map(Span::millis);
    prop_oneof![
        Just(SimTrouble::None),
        (0u64..300).prop_map(SimTrouble::ServerVanishes),
        (0u64..300).prop_map(SimTrouble::ClientVanishes),
        time().prop_map(SimTrouble::ControlBreaks),
        time().prop_map(SimTrouble::ServerDies),
        time().prop_map(SimTrouble::ControlFallsSilent),
        time().prop_map(SimTrouble::ServerStops),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Property: under any path, clocks, faults and user actions, every side ends, and reports only events
    /// that happened.
    #[test]
    fn any_world_comes_to_its_end(
        kind in 0usize..20,
        seed: u64,
        delay in 0i64..2000,
        loss in 0.0f64..0.9,
        jitter in 0i64..200,
        skew_ppb in -500_000i64..500_000,
        trouble in trouble(),
        interrupt in prop::collection::vec(0i64..10_000, 0..3),
    ) {
        let mut kinds = kinds();
        let (name, world) = kinds.swap_remove(kind % kinds.len());
        let mut world = SimWorld { seed, trouble, ..world }.path(&PathModel {
            delay: Span::millis(delay),
            jitter: Jitter::Uniform { max: Span::millis(jitter) },
            loss: Choice::Bernoulli(loss),
            ..PathModel::default()
        });
        world.server_clock = SimClock { offset: Span::seconds(-31), skew_ppb };
        world.interrupt = interrupt.into_iter().map(Span::millis).collect();
        world.interrupt.sort();
        world.limits.keep = Span::seconds(5);
        let flows = world.flows.clone();
        let out = world.run();
        prop_assert!(!out.hung, "{}", name);
        prop_assert!(out.took < Span::seconds(2000), "{}: {:?}", name, out.took);
        for (spec, records) in flows.iter().zip(&out.records) {
            let mut seen = std::collections::HashSet::new();
            for r in records {
                prop_assert!(r.seq >= 0 && r.seq < i64::from(spec.packets()));
                prop_assert!(seen.insert(r.seq), "twice: {}", r.seq);
            }
        }
    }
}

#[test]
fn progress_reports_arrive_every_second() {
    for (name, world) in kinds() {
        // Ten seconds of packets to the server; packets 100 to 149 (two seconds) are lost.
        let mut world = SimWorld { feedback: true, ..world };
        let dialect = world.dialect;
        for spec in &mut world.flows {
            let period = Span::millis(20);
            let (direction, transport) = (spec.direction(), spec.transport());
            *spec = TestSpec::new(direction, transport, 500, 80, period, Schedule::Periodic).unwrap();
        }
        let udp = world.flows[0].transport() == Transport::Udp;
        if udp {
            world.up.loss = Choice::Exactly(vec![100..=149]);
        }
        let flows = world.flows.clone();
        let asked = world.clone().run();
        let unasked = SimWorld { feedback: false, ..world }.run();
        assert_eq!(asked.client, Ok((Ending::Complete, None)), "{name}");
        assert!(unasked.feedback.iter().all(Vec::is_empty), "{name}: nobody watches");
        assert_eq!(asked.records, unasked.records, "{name}: watching changes nothing");
        for ((spec, reports), session) in flows.iter().zip(&asked.feedback).zip(&asked.sessions) {
            if dialect == Dialect::Classic || spec.direction() == Direction::Down {
                assert!(reports.is_empty(), "{name}: {reports:?}");
                continue;
            }
            assert!((9..=11).contains(&reports.len()), "{name}: {} messages in ten seconds", reports.len());
            assert!(reports.is_sorted_by(|a, b| b.0 - a.0 > Span::millis(900)), "{name}");
            assert!(reports.is_sorted_by_key(|(_, s)| s.received), "{name}");
            let noted = session.server.notes.iter().any(|note| note.contains("progress reports"));
            assert!(noted, "{name}: the report says so");
            let last = reports.last().unwrap().1;
            let delay = last.median().unwrap();
            assert!((9_900_000..11_000_000).contains(&delay), "{name}: {delay}");
            if udp {
                assert_eq!((last.missing, last.runs, last.longest), (50, 1, 50), "{name}");
                let silence = reports.iter().filter_map(|(_, s)| s.silence).max().unwrap();
                assert!(silence > Span::millis(900), "{name}: {silence:?}");
            }
        }
    }
}

#[test]
fn progress_reports_that_arrive_too_often_are_ignored() {
    let config = |feedback| {
        let [local, remote] = ["192.0.2.1:1", "192.0.2.2:2"].map(|a| a.parse().unwrap());
        let flows = vec![spec(Direction::Up, 1000, Span::millis(20))];
        let terms = TestTerms { feedback, ..TestTerms::new(flows) };
        ClientConfig { probes: 0, ..ClientConfig::new(terms, local, remote, [7; 32]) }
    };
    use crate::jitlat::auth::ConnectionSide;
    use crate::jitlat::flow::{FlowId, FlowReport};
    use crate::jitlat::message::{Accept, FEEDBACK, FlowAccept, Message, VERSION, Welcome};
    let taken = |wanted: bool, offered: u64| {
        let at = |ms: i64| SimClock::default().tick(Span::millis(ms));
        let mut client = ClientMachine::new(config(wanted), at(0));
        let mut server = crate::jitlat::v3::CodecV3::new(ConnectionSide::Server);
        let mut say = |client: &mut ClientMachine, ms: i64, message: Message| {
            let mut bytes = Vec::new();
            while client.poll_transmit(at(ms), &mut bytes) {}
            bytes.clear();
            server.encode(&message, &mut bytes);
            client.handle(at(ms), ClientInput::Received(&bytes));
            while client.poll_transmit(at(ms), &mut bytes) {}
        };
        let welcome = Welcome { version: VERSION, capabilities: offered, ..Welcome::default() };
        say(&mut client, 1, Message::Welcome(welcome));
        client.handle(at(2), ClientInput::Flow(FlowReport::Opened(FlowId(0), 9)));
        let flows = vec![FlowAccept { port: 1, token: Some(1) }];
        say(&mut client, 3, Message::Accept(Accept { session: None, flows, host: HostFacts::default() }));
        client.handle(at(4), ClientInput::Flow(FlowReport::Ready(FlowId(0))));
        say(&mut client, 5, Message::Started);
        // A thousand messages in ten seconds, about a flow that exists and one that does not.
        for k in 0..1000 {
            let so_far = ReceivedSoFar { received: k as u64, ..ReceivedSoFar::default() };
            say(&mut client, 10 + k * 10, Message::Feedback(FlowId((k % 2) as u8), so_far));
        }
        let events = std::iter::from_fn(|| client.poll_event());
        events.filter(|event| matches!(event, ClientEvent::Feedback(..))).count()
    };
    assert_eq!(taken(true, FEEDBACK), 20, "two a second");
    assert_eq!(taken(false, FEEDBACK), 0, "nobody watches");
    assert_eq!(taken(true, 0), 0, "the server did not offer it");
}
