use super::*;
use crate::jitlat::flow::FlowId;
use crate::jitlat::message::*;
use crate::jitlat::seal::KeyShare;
use crate::jitlat::session_table::SessionId;
use crate::jitlat::stream::Finish;
use jitlat_core::clock::SyncState;
use jitlat_core::gaps::Gaps;
use jitlat_core::record::Moment;
use jitlat_core::session::HostFacts;
use jitlat_core::so_far::{Latest, ReceivedSoFar};
use jitlat_core::tcp::TcpMoment;
use jitlat_core::{
    Direction, Dscp, EcnMarking, Flags, PacketRecord, Schedule, Span, Stamp, StampSource, TestSpec,
    Transport, WallTime,
};
use proptest::option;
use proptest::prelude::*;

// ---- strategies for messages -----------------------------------------------------------------------

fn text() -> impl Strategy<Value = String> {
    "[a-zé ü0-9.-]{0,40}"
}

fn source() -> impl Strategy<Value = StampSource> {
    prop::sample::select(StampSource::ALL.to_vec())
}

fn sync() -> impl Strategy<Value = SyncState> {
    (any::<bool>(), any::<[i64; 4]>()).prop_map(|(synchronised, [a, b, c, d])| SyncState {
        synchronised,
        offset: Span(a),
        estimated_error: Span(b),
        maximum_error: Span(c),
        frequency_ppb: d,
    })
}

fn host() -> impl Strategy<Value = HostFacts> {
    let texts = (option::of(text()), option::of(text()), option::of(text()));
    let syncs = (option::of(sync()), option::of(sync()), option::of(any::<i64>()));
    let notes = prop::collection::vec(text(), 0..4);
    (texts, syncs, notes).prop_map(|((name, system, clock_source), (before, after, step), notes)| HostFacts {
        name,
        system,
        clock_source,
        sync_before: before,
        sync_after: after,
        clock_step: step.map(Span),
        notes,
        ..HostFacts::default()
    })
}

fn spec() -> impl Strategy<Value = TestSpec> {
    let schedule = prop_oneof![
        Just(Schedule::Periodic),
        any::<u64>().prop_map(|seed| Schedule::Poisson { seed }),
        (1..u32::MAX).prop_map(|size| Schedule::Burst { size }),
        (1..u32::MAX, 1..1_000_000i64, 1..1_000_000i64, 0..3, any::<u64>()).prop_map(
            |(batch, a, more, law, seed)| {
                let (first, second) = (Span(a), Span(a + more));
                let gaps = match law {
                    0 => Gaps::Uniform { least: first, most: second },
                    1 => Gaps::Exponential { least: first, mean: second },
                    _ => Gaps::Normal { mean: second, deviation: first },
                };
                Schedule::Random { gaps, batch, seed }
            }
        ),
    ];
    let direction = prop_oneof![Just(Direction::Up), Just(Direction::Down)];
    let transport = prop_oneof![Just(Transport::Udp), Just(Transport::Tcp)];
    let shape = (1u64..1 << 31, 12u64..65_508, 1i64..1_000_000_000);
    let marking = prop_oneof![
        Just(EcnMarking::Off),
        Just(EcnMarking::Ect0),
        Just(EcnMarking::Ect1),
        any::<u64>().prop_map(|seed| EcnMarking::Both { seed }),
    ];
    (direction, transport, shape, schedule, (0u32..64, marking), any::<[u16; 2]>()).prop_map(
        |(d, t, (n, l, p), s, (dscp, marking), ports)| {
            let mut spec = TestSpec::new(d, t, n, l, Span(p), s).unwrap();
            (spec.dscp, spec.marking) = (Dscp::new(dscp).unwrap(), marking);
            [spec.src_port, spec.dst_port] = ports;
            spec
        },
    )
}

fn record() -> impl Strategy<Value = PacketRecord> {
    let stamp = || option::of((any::<i64>(), source()));
    let extras =
        (option::of(any::<[i32; 2]>()), any::<u16>(), any::<u8>(), option::of(any::<u8>()), any::<u16>());
    (any::<i32>(), stamp(), stamp(), extras).prop_map(
        |(seq, sent, arrived, (lags, size, ttl, class, flags))| {
            let mut r = PacketRecord::new(seq.into());
            for (moment, stamp) in [(Moment::Sent, sent), (Moment::Arrived, arrived)] {
                if let Some((at, source)) = stamp.filter(|s| s.0 != i64::MIN) {
                    r.set(moment, Stamp { at: WallTime(at), source });
                }
            }
            let lag = |k: usize| lags.map(|l| Span(l[k].into()));
            r.set_send_lag(lag(0));
            r.set_receive_lag(lag(1));
            r.set_size(Some(size));
            r.set_ttl(Some(ttl));
            r.set_traffic_class(class);
            r.flags = Flags(flags);
            r
        },
    )
}

fn chunk() -> impl Strategy<Value = Message> {
    let data = prop_oneof![
        prop::collection::vec(record(), 0..20).prop_map(ChunkData::Records),
        (source(), prop::collection::vec(any::<i64>(), 0..20), any::<bool>(), 0..1i64 << 39).prop_map(
            |(source, left, queued, wait)| {
                let known = |at: &&i64| **at != i64::MIN;
                let entered = |at: &i64| Some(at).filter(known).and_then(|at| at.checked_sub(wait));
                let entered =
                    left.iter().map(|at| entered(at).unwrap_or(i64::MIN)).filter(|_| queued).collect();
                ChunkData::Stamps(source, left, entered)
            }
        ),
    ];
    (any::<u8>(), any::<u32>(), data).prop_map(|(flow, index, data)| {
        let crc = checksum(&data);
        Message::Chunk(Chunk { flow: FlowId(flow), index, crc, data })
    })
}

fn results() -> impl Strategy<Value = Message> {
    let counts = (any::<u32>(), any::<u64>(), any::<u32>(), option::of(any::<u32>()), any::<u32>());
    let finish = option::of(prop::sample::select(vec![
        Finish::Sentinel,
        Finish::Cut,
        Finish::NeverStarted,
        Finish::Silent,
        Finish::Closed,
        Finish::Exceeded,
    ]));
    let rest = (option::of(any::<u64>()), any::<u64>(), finish, option::of(text()), host());
    let stamps =
        (option::of(any::<u32>()), option::of(any::<u32>()), option::of((1..=i64::MAX).prop_map(Span)));
    (any::<u8>(), counts, rest, stamps).prop_map(
        |(
            flow,
            (chunks, count, crc, sent, failed),
            (drops, refused, finish, failure, host),
            (stamps_lost, path_mtu, pause),
        )| {
            Message::Results(Results {
                flow: FlowId(flow),
                chunks,
                count,
                crc,
                sent,
                failed,
                drops,
                refused,
                stamps_lost,
                path_mtu,
                tcp: (0..chunks % 4).map(|k| TcpMoment { window: k, ..TcpMoment::default() }).collect(),
                pause,
                finish,
                failure,
                stopped: chunks % 2 == 1,
                host,
            })
        },
    )
}

fn feedback() -> impl Strategy<Value = Message> {
    let spans = (option::of(any::<i64>()), option::of(any::<i64>()));
    let delays = (option::of(any::<[i64; 8]>()), any::<u32>(), option::of(any::<[i64; 4]>()));
    (any::<u8>(), any::<[u64; 4]>(), any::<[u32; 2]>(), spans, delays).prop_map(
        |(flow, [received, missing, duplicates, reordered], [runs, longest], (silence, jitter), delays)| {
            let (mut all, lately, mut latest) = delays;
            all.iter_mut().for_each(|all| all.sort_unstable());
            latest.iter_mut().for_each(|latest| latest.sort_unstable());
            let so_far = ReceivedSoFar {
                received,
                missing,
                duplicates,
                reordered,
                runs,
                longest,
                silence: silence.map(Span),
                jitter: jitter.map(Span),
                delays: all,
                latest: Latest { received: lately, delays: latest },
            };
            Message::Feedback(FlowId(flow), so_far)
        },
    )
}

fn any_message() -> impl Strategy<Value = Message> {
    let flow = || any::<u8>().prop_map(FlowId);
    let requests = (spec(), source()).prop_map(|(spec, stamps)| FlowRequest { spec, stamps });
    let granted =
        (any::<u16>(), option::of(any::<u64>())).prop_map(|(port, token)| FlowAccept { port, token });
    let greeting = || {
        (
            any::<[u8; 2]>(),
            any::<u64>(),
            any::<[u8; 16]>(),
            any::<bool>(),
            option::of(text()),
            option::of(any::<[u8; 32]>()),
        )
    };
    prop_oneof![
        greeting().prop_map(|([min, max], capabilities, nonce, authenticate, software, share)| {
            Message::Hello(Hello {
                min_version: min,
                max_version: max,
                capabilities,
                nonce,
                authenticate,
                software,
                share,
            })
        }),
        greeting().prop_map(|([version, _], capabilities, nonce, authenticate, software, share)| {
            Message::Welcome(Welcome { version, capabilities, nonce, authenticate, software, share })
        }),
        any::<[u8; 32]>().prop_map(Message::Proof),
        (any::<u32>(), any::<i64>(), option::of(any::<i64>()), option::of(any::<i64>())).prop_map(
            |(id, t1, t2, t3)| {
                Message::Probe(Probe {
                    id,
                    sent: WallTime(t1),
                    arrived: t2.map(WallTime),
                    answered: t3.map(WallTime),
                })
            }
        ),
        (prop::collection::vec(requests, 1..MAX_FLOWS), host())
            .prop_map(|(flows, host)| Message::Request(Request { flows, host })),
        (option::of(any::<u64>()), prop::collection::vec(granted, 0..MAX_FLOWS), host()).prop_map(
            |(id, flows, host)| Message::Accept(Accept { session: id.map(SessionId), flows, host })
        ),
        Just(Message::Start),
        Just(Message::Started),
        (flow(), any::<u64>()).prop_map(|(f, n)| Message::Finished(f, n)),
        (flow(), any::<u32>()).prop_map(|(f, n)| Message::End(f, n)),
        flow().prop_map(Message::Stop),
        (option::of(any::<u64>()), flow(), any::<u32>())
            .prop_map(|(id, flow, chunk)| Message::Fetch(Fetch { session: id.map(SessionId), flow, chunk })),
        chunk(),
        results(),
        Just(Message::Bye),
        feedback(),
        Just(Message::KeepAlive),
        (0u16..11, text()).prop_map(|(code, text)| Message::Nak(Nak::new(NakCode::from_number(code), text))),
    ]
}

// ---- properties -----------------------------------------------------------------------------------

fn pair() -> (CodecV3, CodecV3) {
    (CodecV3::new(ConnectionSide::Client), CodecV3::new(ConnectionSide::Server))
}

fn drain(codec: &mut CodecV3) -> Result<Vec<Message>, DecodeError> {
    let mut got = Vec::new();
    while let Some(message) = codec.decode()? {
        got.push(message);
    }
    Ok(got)
}

/// Feeds `bytes` in pieces of the given sizes.
fn feed_in_pieces(codec: &mut CodecV3, bytes: &[u8], sizes: &[usize]) -> Result<Vec<Message>, DecodeError> {
    let (mut got, mut rest) = (Vec::new(), bytes);
    for size in sizes.iter().copied().chain([usize::MAX]) {
        let (piece, tail) = rest.split_at(size.min(rest.len()));
        codec.feed(piece);
        got.extend(drain(codec)?);
        rest = tail;
    }
    Ok(got)
}

fn seal_both(client: &mut CodecV3, server: &mut CodecV3, encrypted: bool) {
    let key = PresharedKey::from_file_contents(b"0123456789abcdef").unwrap();
    let shared = encrypted.then(|| KeyShare::new(&[1; 32]).agree(&KeyShare::new(&[2; 32]).public()));
    client.seal(&key, shared.as_ref());
    server.seal(&key, shared.as_ref());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn messages_are_decoded_whatever_the_segmentation(
        messages in prop::collection::vec(any_message(), 1..6),
        sizes in prop::collection::vec(0usize..200, 0..30),
        encrypted: Option<bool>,
    ) {
        let (mut client, mut server) = pair();
        if let Some(encrypted) = encrypted {
            seal_both(&mut client, &mut server, encrypted);
        }
        let mut bytes = Vec::new();
        messages.iter().for_each(|m| client.encode(m, &mut bytes));
        prop_assert_eq!(feed_in_pieces(&mut server, &bytes, &sizes), Ok(messages));
        prop_assert!(server.incoming.len() <= bytes.len());
    }

    #[test]
    fn garbage_is_an_error_or_silence(bytes in prop::collection::vec(any::<u8>(), 0..300), preface: bool) {
        let (_, mut server) = pair();
        if preface {
            server.feed(&PREFACE);
        }
        server.feed(&bytes);
        let _ = drain(&mut server);
    }

    #[test]
    fn a_flipped_bit_in_a_sealed_frame_is_noticed(message in any_message(), at: prop::sample::Index, bit in 0u8..8, encrypted: bool) {
        let (mut client, mut server) = pair();
        seal_both(&mut client, &mut server, encrypted);
        let mut bytes = Vec::new();
        client.encode(&message, &mut bytes);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        server.feed(&bytes);
        // A changed length may leave the frame unfinished; a changed preface has its own error.
        if let Ok(received) = drain(&mut server) {
            prop_assert!(received.is_empty());
        }
    }

    #[test]
    fn a_flipped_bit_never_panics(message in any_message(), at: prop::sample::Index, bit in 0u8..8) {
        let (mut client, mut server) = pair();
        let mut bytes = Vec::new();
        client.encode(&message, &mut bytes);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        server.feed(&bytes);
        let _ = drain(&mut server);
    }
}

// ---- examples -------------------------------------------------------------------------------------

/// Worked example in docs/protocols/jitlat-v3.md: the first bytes of a client, with a request for the stream
/// in Figure 6.
const HELLO: &str = "4a4c5433 0000003a 01 010001 03 020001 03 030008 0000000000000000 \
     040010 000102030405060708090a0b0c0d0e0f 050001 00 06000c 6a69746c617420302e312e30";
const REQUEST: &str = "00000041 05 01003d 010001 00 020001 11 030004 000003e8 040002 0050 \
     050008 0000000001312d00 060009 000000000000000000 070001 00 080002 814d 090002 0a6b 0a0001 01";

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn the_worked_example_is_what_is_sent() {
    let hello = Message::Hello(Hello {
        min_version: 3,
        max_version: 3,
        capabilities: 0,
        nonce: core::array::from_fn(|i| i as u8),
        authenticate: false,
        share: None,
        software: Some("jitlat 0.1.0".into()),
    });
    let mut spec =
        TestSpec::new(Direction::Up, Transport::Udp, 1000, 80, Span::millis(20), Schedule::Periodic).unwrap();
    spec.src_port = 33101;
    let request = Message::Request(Request {
        flows: vec![FlowRequest { spec, stamps: StampSource::Kernel }],
        ..Request::default()
    });
    let (mut client, mut server) = pair();
    for (message, want) in [(hello, HELLO), (request, REQUEST)] {
        let mut bytes = Vec::new();
        client.encode(&message, &mut bytes);
        assert_eq!(to_hex(&bytes), to_hex(&from_hex(want)), "{}", message.name());
        server.feed(&bytes);
        assert_eq!(drain(&mut server), Ok(vec![message]));
    }
}

/// Returns the bytes in the code block after `title` in the protocol's documentation.
fn documented(title: &str) -> String {
    let page = include_str!("../../../../../docs/protocols/jitlat-v3.md");
    let block = page.split(title).nth(1).and_then(|rest| rest.split("```").nth(1)).unwrap();
    // Two spaces start a comment.
    block.lines().map(|line| line.trim().split("  ").next().unwrap_or_default()).collect()
}

#[test]
fn the_page_shows_the_worked_examples() {
    for (title, hex) in
        [("A client's first bytes", HELLO), ("and its request of", REQUEST), ("A row of results:", ROW)]
    {
        assert_eq!(to_hex(&from_hex(&documented(title))), to_hex(&from_hex(hex)), "{title}");
    }
}

/// Worked example of a row of results in the protocol's documentation.
const ROW: &str = "00000002 114cfddf1606b048 114cfddf160b2bf0 80000000 00000bb8 0050 0000 10 40 b8 01";

#[test]
fn the_worked_row_is_what_is_sent() {
    let mut record =
        PacketRecord::one_way(2, WallTime(1_246_650_331_463_856_200), WallTime(1_246_650_331_464_150_000));
    record
        .set(Moment::Arrived, Stamp { at: WallTime(1_246_650_331_464_150_000), source: StampSource::Kernel });
    record.set_receive_lag(Some(Span::micros(3)));
    record.set_size(Some(80));
    record.set_ttl(Some(64));
    record.set_traffic_class(Some(0xb8));
    let bytes = rows::encode(&ChunkData::Records(vec![record]));
    assert_eq!(to_hex(&bytes), to_hex(&from_hex(ROW)));
    assert_eq!(rows::decode_records(&bytes), Some(vec![record]));
    assert_eq!(bytes.len(), rows::ROW_LEN);
}

#[test]
fn unknown_messages_and_fields_are_skipped() {
    let (_, mut server) = pair();
    server.feed(&PREFACE);
    // A message of type 200 with a field, then END with an unknown field 99 between the known ones.
    server.feed(&from_hex("00000005 c8 010001 00"));
    server.feed(&from_hex("00000011 0a 010001 01 630002 ffff 020004 00000007"));
    assert_eq!(drain(&mut server), Ok(vec![Message::End(FlowId(1), 7)]));
}

#[test]
fn nonsense_is_refused_at_once() {
    let refusal = |hex: &str| {
        let (_, mut server) = pair();
        server.feed(&PREFACE);
        server.feed(&from_hex(hex));
        drain(&mut server).unwrap_err().to_string()
    };
    // A length of four billion bytes is refused before any of these bytes arrive.
    assert_eq!(refusal("ffffffff"), "a frame of 4294967295 bytes (1 to 65536 are allowed)");
    assert_eq!(refusal("00000000"), "a frame of 0 bytes (1 to 65536 are allowed)");
    assert_eq!(refusal("00000004 0a 010001"), "END message: bad or missing field structure");
    assert_eq!(refusal("00000005 0a 010001 01"), "END message: bad or missing packet count");
    assert_eq!(refusal("00000006 0b 010002 0001"), "STOP message: bad or missing flow");
    // Zero packets.
    let request = REQUEST.replace("000003e8", "00000000");
    assert_eq!(refusal(&request), "0 packets: give 1 to 2147483647");
    assert_eq!(
        refusal(&request.replace("020001 11", "020001 12")),
        "REQUEST message: bad or missing transport"
    );
    let (_, mut server) = pair();
    server.feed(b"GET / HTTP/1.1\r\n");
    let error = drain(&mut server).unwrap_err().to_string();
    assert_eq!(error, "not a jitlat control connection (it begins with 47455420)");
}

#[test]
fn a_damaged_chunk_is_noticed() {
    // The timestamps are followed by their source, and in the second case by five bytes per packet with their
    // checksum.
    for (entered, behind) in [(vec![], 4), (vec![1, 1, 2], 7)] {
        let data = ChunkData::Stamps(StampSource::Kernel, vec![1, 2, 3], entered);
        let message = Message::Chunk(Chunk { flow: FlowId(0), index: 9, crc: checksum(&data), data });
        let (mut client, mut server) = pair();
        let mut bytes = Vec::new();
        client.encode(&message, &mut bytes);
        let last = bytes.len() - behind - 1;
        bytes[last] ^= 1;
        server.feed(&bytes);
        assert_eq!(drain(&mut server), Err(DecodeError::Checksum(9)));
    }
}

#[test]
fn queue_times_are_sent_with_the_servers_timestamps() {
    let (hour, missing) = (3_600_000_000_000, i64::MIN);
    let chunk = |entered: Vec<i64>| {
        let data = ChunkData::Stamps(StampSource::Kernel, vec![hour, 2 * hour, missing, 900], entered);
        Message::Chunk(Chunk { flow: FlowId(1), index: 0, crc: checksum(&data), data })
    };
    let (mut client, mut server) = pair();
    let mut bytes = Vec::new();
    client.encode(&chunk(vec![hour - 5, hour, 7, missing]), &mut bytes);
    server.feed(&bytes);
    // An hour in the queue does not fit into the field, and a packet that never left has no queueing time.
    assert_eq!(drain(&mut server), Ok(vec![chunk(vec![hour - 5, missing, missing, missing])]));
}

#[test]
fn texts_are_made_harmless() {
    let (mut client, mut server) = pair();
    let mut bytes = Vec::new();
    client.encode(&Message::Nak(Nak::new(NakCode::Other, "a\x1b[2Jb\nc\u{9b}d")), &mut bytes);
    client.encode(&Message::Nak(Nak::new(NakCode::Other, "é".repeat(5000))), &mut bytes);
    server.feed(&bytes);
    let received = drain(&mut server).unwrap();
    assert_eq!(received[0], Message::Nak(Nak::new(NakCode::Other, "a [2Jb c d")));
    let Message::Nak(long) = &received[1] else { panic!() };
    assert!(long.text.len() <= 1024 && long.text.chars().all(|c| c == 'é'));
}

#[test]
fn every_schedule_arrives_as_it_was_asked_for() {
    let (a, b) = (Span(1_000), Span(2_000));
    let laws = [
        Gaps::Uniform { least: a, most: b },
        Gaps::Exponential { least: a, mean: b },
        Gaps::Normal { mean: b, deviation: a },
    ];
    let random = laws.map(|gaps| Schedule::Random { gaps, batch: 7, seed: 42 });
    let others = [Schedule::Periodic, Schedule::Poisson { seed: 9 }, Schedule::Burst { size: 3 }];
    for schedule in random.into_iter().chain(others) {
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 100, 80, Span::millis(1), schedule).unwrap();
        let flows = vec![FlowRequest { spec, stamps: StampSource::Kernel }];
        let request = Message::Request(Request { flows, host: HostFacts::default() });
        let (mut client, mut server) = pair();
        let mut bytes = Vec::new();
        client.encode(&request, &mut bytes);
        server.feed(&bytes);
        assert_eq!(drain(&mut server), Ok(vec![request]));
    }
}

#[test]
fn a_message_of_too_many_streams_is_refused() {
    use crate::jitlat::message::MAX_FLOWS;
    let spec =
        TestSpec::new(Direction::Up, Transport::Udp, 100, 80, Span::millis(1), Schedule::Periodic).unwrap();
    for (flows, fits) in [(MAX_FLOWS, true), (MAX_FLOWS + 1, false)] {
        let asked = vec![FlowRequest { spec: spec.clone(), stamps: StampSource::Kernel }; flows];
        let accepted = vec![FlowAccept { port: 2667, token: None }; flows];
        let (mut client, mut server) = pair();
        let mut bytes = Vec::new();
        client.encode(&Message::Request(Request { flows: asked, host: HostFacts::default() }), &mut bytes);
        server.feed(&bytes);
        assert_eq!(drain(&mut server).is_ok(), fits, "{flows} asked for");
        let (mut client, mut server) = pair();
        let mut bytes = Vec::new();
        let accept = Accept { session: None, flows: accepted, host: HostFacts::default() };
        server.encode(&Message::Accept(accept), &mut bytes);
        client.feed(&bytes);
        assert_eq!(drain(&mut client).is_ok(), fits, "{flows} accepted");
    }
}

#[test]
fn the_largest_messages_fit_a_frame() {
    let text = || "x".repeat(2000);
    let host = HostFacts {
        name: Some(text()),
        system: Some(text()),
        clock_source: Some(text()),
        notes: vec![text(); 100],
        ..HostFacts::default()
    };
    let mut r = PacketRecord::new(0);
    r.set_ttl(Some(1));
    let records = ChunkData::Records(vec![r; crate::jitlat::recording::CHUNK]);
    let stamps = ChunkData::Stamps(StampSource::Kernel, vec![0; STAMP_CHUNK], vec![0; STAMP_CHUNK]);
    let spec = TestSpec::default();
    let flows = vec![FlowRequest { spec, stamps: StampSource::Kernel }; MAX_FLOWS];
    let messages = [
        Message::Request(Request { flows, host: host.clone() }),
        Message::Results(Results { host, failure: Some(text()), ..Results::none(FlowId(0)) }),
        Message::Chunk(Chunk { flow: FlowId(0), index: 0, crc: checksum(&records), data: records }),
        Message::Chunk(Chunk { flow: FlowId(0), index: 1, crc: checksum(&stamps), data: stamps }),
    ];
    let (mut client, mut server) = pair();
    for message in messages {
        let mut bytes = Vec::new();
        client.encode(&message, &mut bytes);
        assert!(bytes.len() <= 4 + 4 + MAX_FRAME as usize);
        server.feed(&bytes);
        assert_eq!(drain(&mut server).map(|m| m.len()), Ok(1), "{}", message.name());
    }
}

#[test]
fn feedback_is_small_and_its_delays_are_in_order() {
    let delays = Some([1, 2, 3, 4, 5, 6, 7, 8]);
    let latest = Latest { received: 50, delays: Some([1, 2, 3, 4]) };
    let (silence, jitter) = (Some(Span(1)), Some(Span(2)));
    let so_far = ReceivedSoFar { received: 7, delays, latest, silence, jitter, ..ReceivedSoFar::default() };
    let (mut server, mut client) =
        (CodecV3::new(ConnectionSide::Server), CodecV3::new(ConnectionSide::Client));
    let mut bytes = Vec::new();
    server.encode(&Message::KeepAlive, &mut bytes);
    client.feed(&bytes);
    assert_eq!(client.decode(), Ok(Some(Message::KeepAlive)));
    bytes.clear();
    server.encode(&Message::Feedback(FlowId(0), so_far), &mut bytes);
    assert!(bytes.len() < 200, "{} bytes", bytes.len());
    let index = bytes.windows(8).position(|w| w == 8i64.to_be_bytes()).unwrap();
    client.feed(&bytes);
    assert_eq!(client.decode(), Ok(Some(Message::Feedback(FlowId(0), so_far))));
    // Makes the largest delay smaller than the others.
    bytes[index] = 0x80;
    client.feed(&bytes);
    assert_eq!(client.decode(), Err(DecodeError::Field("FEEDBACK", "order of delays")));
}
