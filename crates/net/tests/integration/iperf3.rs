//! Load against a server of iperf3 that follows a script.

use jitlat_core::{Direction, Dscp};
use jitlat_net::iperf3::{self, Iperf3Progress};
use jitlat_proto::iperf3::Iperf3Params;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Bytes in each direction after which the client is stopped.
const ENOUGH: u64 = 1 << 20;

fn params(directions: &[Direction]) -> Iperf3Params {
    Iperf3Params {
        directions: directions.to_vec(),
        parallel: 2,
        seconds: 60,
        rate: None,
        block: 64 << 10,
        dscp: Dscp::default(),
    }
}

fn byte(stream: &mut TcpStream) -> u8 {
    let mut one = [0];
    stream.read_exact(&mut one).unwrap();
    one[0]
}

fn json(stream: &mut TcpStream) -> String {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut text = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn accept(listener: &TcpListener) -> (TcpStream, [u8; 37]) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut cookie = [0; 37];
    stream.read_exact(&mut cookie).unwrap();
    (stream, cookie)
}

/// Serves one test in both directions with two connections each. Returns the bytes received and the client's results.
fn serve(listener: &TcpListener) -> (u64, String) {
    let (mut control, cookie) = accept(listener);
    control.write_all(&[9]).unwrap();
    let params = json(&mut control);
    assert!(params.contains(r#""bidirectional":true"#) && params.contains(r#""parallel":2"#), "{params}");
    control.write_all(&[10]).unwrap();
    let streams: Vec<TcpStream> = (0..4)
        .map(|_| {
            let (stream, other) = accept(listener);
            assert_eq!(other, cookie);
            stream
        })
        .collect();
    control.write_all(&[1, 2]).unwrap();
    let received = thread::scope(|scope| {
        let readers: Vec<_> = streams[..2]
            .iter()
            .map(|mut stream| {
                scope.spawn(move || {
                    let (mut buffer, mut sum) = (vec![0; 1 << 16], 0);
                    while let Ok(n @ 1..) = stream.read(&mut buffer) {
                        sum += n as u64;
                    }
                    sum
                })
            })
            .collect();
        for mut stream in &streams[2..] {
            scope.spawn(move || while stream.write_all(&[7; 1 << 14]).is_ok() {});
        }
        assert_eq!(byte(&mut control), 4, "the client ends the test");
        streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    control.write_all(&[13]).unwrap();
    let results = json(&mut control);
    let ours = r#"{"streams":[{"id":1,"bytes":1},{"id":3,"bytes":2},{"id":4,"bytes":3},{"id":5,"bytes":4}]}"#;
    control.write_all(&(ours.len() as u32).to_be_bytes()).unwrap();
    control.write_all(ours.as_bytes()).unwrap();
    control.write_all(&[14]).unwrap();
    assert_eq!(byte(&mut control), 16);
    (received, results)
}

#[test]
fn data_flows_in_both_directions_until_it_is_stopped() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let (end, mut arrived) = (AtomicBool::new(false), [0; 4]);
    let (outcome, (received, results)) = thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener));
        let mut observe = |progress: Iperf3Progress| {
            if let Iperf3Progress::Arrived { stream, bytes, .. } = progress {
                arrived[stream] += bytes;
                let enough = arrived[0] + arrived[1] > ENOUGH && arrived[2] + arrived[3] > ENOUGH;
                end.fetch_or(enough, Ordering::AcqRel);
            }
        };
        let outcome = iperf3::run(to, &params(&Direction::BOTH), None, &end, &mut observe).unwrap();
        (outcome, server.join().unwrap())
    });
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.server.iter().map(|stream| stream.bytes).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // No more is acknowledged than was sent, with the cookie and the SYN; the server's program has not read all of it.
    let sent = results.split(r#""bytes":"#).skip(1).map(|rest| rest.split(',').next().unwrap());
    let sent: Vec<u64> = sent.map(|bytes| bytes.parse().unwrap()).collect();
    assert!(received > 0 && sent.len() == 4, "{received}, {results}");
    assert!((0..2).all(|k| arrived[k] <= sent[k] + 38), "{arrived:?}, {sent:?}");
    assert!(results.contains(r#""id":5"#), "{results}");
}

#[test]
fn a_server_that_refuses_or_goes_away_is_no_load() {
    let refused = |script: fn(TcpStream)| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| script(accept(&listener).0));
            let end = AtomicBool::new(false);
            iperf3::run(to, &params(&[Direction::Up]), None, &end, &mut |_| {}).unwrap_err().to_string()
        })
    };
    let busy = refused(|mut control| control.write_all(&[0xff]).unwrap());
    assert!(busy.contains("another client"), "{busy}");
    let gone = refused(drop);
    assert!(gone.contains("control connection") || gone.contains("reset"), "{gone}");
    let foreign = refused(|mut control| control.write_all(b"SSH-2.0-x\r\n").unwrap());
    assert!(foreign.contains("not an iperf3 server"), "{foreign}");
    let nobody: SocketAddr = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let end = AtomicBool::new(false);
    let nobody = iperf3::run(nobody, &params(&[Direction::Up]), None, &end, &mut |_| {}).unwrap_err();
    assert!(nobody.to_string().contains("iperf3 server at 127.0.0.1"), "{nobody}");
}
