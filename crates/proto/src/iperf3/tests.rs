use super::messages::Iperf3State;
use super::*;
use jitlat_core::{Direction, Dscp};
use proptest::prelude::*;

fn params(directions: &[Direction], parallel: usize) -> Iperf3Params {
    Iperf3Params {
        directions: directions.to_vec(),
        parallel,
        seconds: 60,
        rate: None,
        block: 131_072,
        dscp: Dscp::default(),
    }
}

fn client(directions: &[Direction], parallel: usize) -> Iperf3Client {
    Iperf3Client::new(params(directions, parallel), cookie(&[7; 36]))
}

/// Removes the length before a JSON message.
fn json(message: &[u8]) -> serde_json::Value {
    let (length, json) = message.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, json.len());
    serde_json::from_slice(json).unwrap()
}

fn framed(json: &str) -> Vec<u8> {
    [&(json.len() as u32).to_be_bytes(), json.as_bytes()].concat()
}

#[test]
fn a_conversation_from_the_cookie_to_the_results() {
    let mut client = client(&[Direction::Up], 2);
    let cookie = client.output();
    assert_eq!((cookie.len(), cookie[36], cookie[0]), (37, 0, b'h'));
    assert_eq!(client.receive(&[9]).unwrap(), []);
    let sent = json(&client.output());
    assert_eq!((&sent["tcp"], &sent["parallel"], &sent["time"]), (&true.into(), &2.into(), &60.into()));
    assert!(sent.get("reverse").is_none() && sent.get("TOS").is_none() && sent.get("bandwidth").is_none());
    assert_eq!(client.receive(&[10]).unwrap(), [Iperf3Event::Connect(2)]);
    assert!(!client.runs());
    client.end(&[1, 2]);
    assert!(client.output().is_empty(), "data does not flow yet");
    assert_eq!(client.receive(&[1, 2]).unwrap(), [Iperf3Event::Run]);
    assert!(client.runs());
    client.end(&[1000, 2000]);
    assert_eq!(client.output(), [4]);
    assert_eq!(client.receive(&[13]).unwrap(), []);
    let results = json(&client.output());
    assert_eq!((&results["streams"][0]["id"], &results["streams"][1]["id"]), (&1.into(), &3.into()));
    assert_eq!(results["streams"][1]["bytes"], 2000);
    let theirs = framed(r#"{"cpu_util_total":1.5,"streams":[{"id":1,"bytes":900},{"id":3,"bytes":1800}]}"#);
    // The message arrives in two parts.
    assert_eq!(client.receive(&theirs[..9]).unwrap(), []);
    assert_eq!(client.receive(&theirs[9..]).unwrap(), []);
    let done = client.receive(&[14]).unwrap();
    assert_eq!(done, [Iperf3Event::Done(vec![ServerStream { bytes: 900 }, ServerStream { bytes: 1800 }])]);
    assert_eq!(client.output(), [16]);
}

#[test]
fn directions_and_marks_are_requested() {
    let of = |params: Iperf3Params| {
        let mut client = Iperf3Client::new(params, cookie(&[0; 36]));
        client.output();
        client.receive(&[9]).unwrap();
        json(&client.output())
    };
    let down = of(Iperf3Params { rate: Some(5_000_000), ..params(&[Direction::Down], 4) });
    assert_eq!((&down["reverse"], &down["bandwidth"]), (&true.into(), &5_000_000.into()));
    let both = Iperf3Params { dscp: "EF".parse().unwrap(), ..params(&Direction::BOTH, 2) };
    let [first, last] = [0, 3].map(|k| both.direction(k));
    assert_eq!((both.streams(), first, last), (4, Direction::Up, Direction::Down));
    let both = of(both);
    assert_eq!((&both["bidirectional"], &both["TOS"]), (&true.into(), &184.into()));
    assert!(both.get("reverse").is_none());
}

#[test]
fn a_server_that_refuses_is_understood() {
    let refused = |bytes: &[u8]| client(&[Direction::Up], 1).receive(bytes).unwrap_err();
    assert_eq!(refused(&[0xff]), Iperf3Error::Busy);
    assert_eq!(refused(&[9, 0xfe, 0, 0, 0, 27, 0, 0, 0, 0]), Iperf3Error::Refused { code: 27 });
    assert_eq!(refused(&[9, 11]), Iperf3Error::Terminated);
    for foreign in [&b"SSH-2.0"[..], &[9, 9], &[2], &[9, 10, 2]] {
        assert!(matches!(refused(foreign), Iperf3Error::Unexpected { .. }), "{foreign:?}");
    }
}

#[test]
fn results_of_any_size_are_not_collected() {
    let mut client = client(&[Direction::Up], 1);
    client.receive(&[9, 10, 1, 2]).unwrap();
    client.end(&[5]);
    let huge = client.receive(&[13, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
    assert!(huge.to_string().contains("4294967295 bytes"), "{huge}");
}

proptest! {
    /// Bytes of any server neither panic nor make the client collect without limit.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), end in 0..8usize) {
        let mut client = client(&Direction::BOTH, 2);
        for (k, byte) in bytes.iter().enumerate() {
            if k == end {
                client.end(&[1, 2, 3, 4]);
            }
            if client.receive(&[*byte]).is_err() {
                break;
            }
        }
    }
}

#[test]
fn states_have_the_bytes_of_iperf3() {
    let bytes = [1, 2, 4, 9, 10, 11, 12, 13, 14, 16, 0xff, 0xfe];
    for byte in 0..=u8::MAX {
        let known = Iperf3State::of(byte);
        assert_eq!(known.is_some(), bytes.contains(&byte), "{byte}");
        assert!(known.is_none_or(|state| state.byte() == byte));
    }
}
