use super::*;
use jitlat_core::WallTime;
use proptest::prelude::*;

fn pair() -> (ClassicCodec, ClassicCodec) {
    let [client, server] = ["192.0.2.1:50000", "192.0.2.2:2666"].map(|a| a.parse().unwrap());
    let mut codecs = (
        ClassicCodec::new(ConnectionSide::Client, client, server),
        ClassicCodec::new(ConnectionSide::Server, server, client),
    );
    // Skip the generated opening messages.
    assert!(matches!(codecs.0.decode(), Ok(Some(Message::Welcome(_)))));
    assert!(matches!(codecs.1.decode(), Ok(Some(Message::Hello(_)))));
    codecs
}

fn drain(codec: &mut ClassicCodec) -> Result<Vec<Message>, DecodeError> {
    let mut got = Vec::new();
    while let Some(message) = codec.decode()? {
        got.push(message);
    }
    Ok(got)
}

/// Encodes `message` on one side and decodes it on the other.
fn say(message: &Message, from: &mut ClassicCodec, to: &mut ClassicCodec) -> Vec<Message> {
    let mut bytes = Vec::new();
    from.encode(message, &mut bytes);
    to.feed(&bytes);
    drain(to).unwrap()
}

fn names(messages: &[Message]) -> Vec<&'static str> {
    messages.iter().map(Message::name).collect()
}

fn request(direction: Direction) -> Message {
    let mut spec =
        TestSpec::new(direction, Transport::Udp, 3, 80, Span::millis(20), Schedule::Periodic).unwrap();
    spec.src_port = if direction == Direction::Up { 33101 } else { 0 };
    Message::Request(Request {
        flows: vec![FlowRequest { spec, stamps: StampSource::Kernel }],
        host: HostFacts::default(),
    })
}

fn accept(port: u16) -> Message {
    let flows = vec![FlowAccept { port, token: None }];
    Message::Accept(Accept { session: None, flows, host: HostFacts::default() })
}

#[test]
fn the_sending_conversation() {
    let (mut client, mut server) = pair();
    assert_eq!(say(&request(Direction::Up), &mut client, &mut server), [request(Direction::Up)]);
    assert_eq!(say(&accept(2667), &mut server, &mut client), [accept(2667)]);
    // Each side generates the messages that the other side does not send.
    assert_eq!(names(&drain(&mut server).unwrap()), ["START"]);
    assert_eq!(say(&Message::Start, &mut client, &mut server), []);
    assert_eq!(names(&drain(&mut client).unwrap()), ["STARTED"]);
    assert_eq!(names(&say(&Message::Finished(FLOW, 2), &mut server, &mut client)), ["FINISHED"]);
    assert_eq!(names(&drain(&mut server).unwrap()), ["FETCH"]);
    let records: Vec<_> =
        (0..2).map(|i| PacketRecord::one_way(i, WallTime(10 * i), WallTime(10 * i + 5))).collect();
    let chunk = Chunk { flow: FLOW, index: 0, crc: 0, data: ChunkData::Records(records) };
    let received = say(&Message::Chunk(chunk.clone()), &mut server, &mut client);
    assert_eq!(received[0], Message::Chunk(chunk));
    assert_eq!(received[1], Message::Results(Results { chunks: 1, count: 2, ..Results::none(FLOW) }));
    // An acknowledgement of the samples is allowed, but not required.
    server.feed(&Workorder::new(WorkorderCommand::Ack).to_bytes());
    assert_eq!(names(&drain(&mut server).unwrap()), ["BYE"]);
}

#[test]
fn an_answer_names_the_servers_address_and_a_port_that_is_left_out_is_the_one_asked_for() {
    let (mut client, mut server) = pair();
    say(&request(Direction::Up), &mut client, &mut server);
    let mut answer = Vec::new();
    server.encode(&accept(2667), &mut answer);
    let order = Workorder::parse(&answer.try_into().unwrap()).unwrap();
    assert_eq!(order.dst_ip, server.local);
    let mut silent = order;
    silent.dst_port = 0;
    client.feed(&silent.to_bytes());
    let Message::Request(Request { flows, .. }) = request(Direction::Up) else { unreachable!() };
    assert_eq!(drain(&mut client).unwrap(), [accept(flows[0].spec.dst_port)]);
}

#[test]
fn results_end_the_conversation() {
    let (_, mut server) = pair();
    server.encode(&Message::Results(Results::none(FLOW)), &mut Vec::new());
    assert_eq!(names(&drain(&mut server).unwrap()), ["BYE"]);
}

#[test]
fn the_send_me_conversation() {
    let (mut client, mut server) = pair();
    assert_eq!(say(&request(Direction::Down), &mut client, &mut server), [request(Direction::Down)]);
    assert_eq!(say(&accept(41000), &mut server, &mut client), [accept(41000)]);
    assert_eq!(names(&say(&Message::Start, &mut client, &mut server)), ["START"]);
    assert_eq!(names(&say(&Message::Finished(FLOW, 3), &mut client, &mut server)), ["FINISHED", "BYE"]);
}

#[test]
fn fields_are_updated_as_they_become_known() {
    let (mut client, mut server) = pair();
    let mut bytes = Vec::new();
    client.encode(&request(Direction::Down), &mut bytes);
    let asked = Workorder::parse(bytes.first_chunk().unwrap()).unwrap();
    assert_eq!((asked.command, asked.src_port, asked.dst_port), (WorkorderCommand::SendMe, 0, 2667));
    assert_eq!((asked.src_ip, asked.dst_ip), ([192, 0, 2, 2].into(), [192, 0, 2, 1].into()));
    server.feed(&bytes);
    drain(&mut server).unwrap();
    bytes.clear();
    server.encode(&accept(41000), &mut bytes);
    let granted = Workorder::parse(bytes.first_chunk().unwrap()).unwrap();
    assert_eq!(granted, Workorder { command: WorkorderCommand::Sending, src_port: 41000, ..asked });
}

#[test]
fn a_probe_comes_back_as_it_was_but_for_t2() {
    let (_, mut server) = pair();
    let mut asked = Workorder { npkts: 77, dscp: 5, ..Workorder::new(WorkorderCommand::RttProbe) };
    asked.set_t1(WallTime(123_456_789_000));
    server.feed(&asked.to_bytes());
    let received = drain(&mut server).unwrap();
    let Message::Probe(probe) = &received[0] else { panic!("{received:?}") };
    let mut bytes = Vec::new();
    server.encode(&Message::Probe(Probe { arrived: Some(WallTime(-5)), ..*probe }), &mut bytes);
    let mut want = asked;
    want.set_t2(WallTime(-5));
    assert_eq!(bytes, want.to_bytes());
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    let refused = |order: Workorder| {
        let (_, mut server) = pair();
        server.feed(&order.to_bytes());
        drain(&mut server).unwrap_err().to_string()
    };
    let good = Workorder {
        npkts: 10,
        pktlen: 80,
        proto: 17,
        period: 1_000_000,
        dst_port: 2667,
        ..Workorder::new(WorkorderCommand::SendMe)
    };
    assert!(refused(Workorder { npkts: 0, ..good }).contains("0 packets"));
    assert!(refused(Workorder { npkts: 4_000_000_000, ..good }).contains("4000000000 packets"));
    assert!(refused(Workorder { pktlen: 11, ..good }).contains("11 bytes"));
    assert!(refused(Workorder { proto: 1, ..good }).contains("protocol 1"));
    assert!(refused(Workorder { period: 0, ..good }).contains("period"));
    assert!(refused(Workorder { period: u64::MAX, ..good }).contains("period"));
    assert!(refused(Workorder { dst_port: 65_536, ..good }).contains("not a port"));
    assert!(refused(Workorder { dscp: 64, ..good }).contains("DSCP"));
    assert!(refused(Workorder { dst_ip: [198, 51, 100, 1].into(), ..good }).contains("only to the address"));
    assert!(refused(Workorder::new(WorkorderCommand::Samples)).contains("command 4"));
    let (_, mut server) = pair();
    server.feed(&Workorder { dst_ip: [192, 0, 2, 1].into(), ..good }.to_bytes());
    assert_eq!(names(&drain(&mut server).unwrap()), ["REQUEST"]);
}

#[test]
fn four_billion_samples_are_not_believed_ahead() {
    let (mut client, _) = pair();
    let mut bytes = Vec::new();
    client.encode(&request(Direction::Up), &mut bytes);
    client.feed(&Workorder::new(WorkorderCommand::Ack).to_bytes());
    drain(&mut client).unwrap();
    client.feed(&Workorder { npkts: u32::MAX, ..Workorder::new(WorkorderCommand::Samples) }.to_bytes());
    client.feed(&[0; 24 * 3 + 7]);
    let received = drain(&mut client).unwrap();
    assert_eq!(names(&received), ["FINISHED", "CHUNK"]);
    assert!(client.incoming.capacity() < 1000);
}

#[test]
fn a_client_that_only_asks_is_refused() {
    let (_, mut server) = pair();
    let result = (0..100).try_for_each(|_| {
        server.feed(&Workorder::new(WorkorderCommand::RttProbe).to_bytes());
        drain(&mut server).map(drop)
    });
    assert!(result.unwrap_err().to_string().contains("without reading"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn garbage_is_an_error_or_silence(bytes in prop::collection::vec(any::<u8>(), 0..300), command in 0u8..9) {
        let (mut client, mut server) = pair();
        for codec in [&mut client, &mut server] {
            codec.feed(&[0, 0, 0, command]);
            codec.feed(&bytes);
            let _ = drain(codec);
        }
    }

    #[test]
    fn segmentation_does_not_matter(
        values in prop::collection::vec((any::<i32>(), any::<i64>(), 0i64..i64::MAX), 0..60),
        sizes in prop::collection::vec(1usize..100, 0..40),
    ) {
        let (mut client, mut server) = pair();
        let mut bytes = Vec::new();
        client.encode(&request(Direction::Up), &mut bytes);
        server.feed(&bytes);
        drain(&mut server).unwrap();
        let records: Vec<PacketRecord> = values
            .iter()
            .map(|(seq, sent, arrived)| PacketRecord::one_way((*seq).into(), WallTime(*sent), WallTime(*arrived)))
            .collect();
        bytes.clear();
        server.encode(&accept(2667), &mut bytes);
        server.encode(&Message::Finished(FLOW, records.len() as u64), &mut bytes);
        let data = ChunkData::Records(records.clone());
        server.encode(&Message::Chunk(Chunk { flow: FLOW, index: 0, crc: 0, data }), &mut bytes);
        let (mut received, mut rest) = (Vec::new(), &bytes[..]);
        for size in sizes.into_iter().chain([usize::MAX]) {
            let (piece, tail) = rest.split_at(size.min(rest.len()));
            client.feed(piece);
            received.extend(drain(&mut client).unwrap());
            rest = tail;
        }
        let got: Vec<PacketRecord> = received
            .iter()
            .filter_map(|m| match m {
                Message::Chunk(Chunk { data: ChunkData::Records(r), .. }) => Some(r.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        prop_assert_eq!(got, records);
        let last = received.last().map(Message::name);
        prop_assert_eq!(last, Some("RESULTS"));
    }
}
