//! `jitlat monitor FILE --fetch URL`: the process that keeps a monitor's file up to date from a web server.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Files of the web server, and the number of times that the file itself was requested.
#[derive(Default)]
struct Offer {
    text: Vec<u8>,
    signature: Vec<u8>,
    requests: usize,
}

/// Answers one request; a broken connection is the client's affair.
fn answer(mut stream: TcpStream, offer: &Mutex<Offer>) -> std::io::Result<()> {
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        let n = stream.read(&mut part)?;
        if n == 0 {
            return Ok(());
        }
        request.extend_from_slice(&part[..n]);
    }
    let mut offer = offer.lock().unwrap();
    let body = match request.starts_with(b"GET /mesh.toml.minisig ") {
        true => offer.signature.clone(),
        false => {
            offer.requests += 1;
            offer.text.clone()
        }
    };
    drop(offer);
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(&body)
}

/// Starts a server that lasts as long as this program.
fn serve(offer: Arc<Mutex<Offer>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(answer(stream, &offer))));
    address
}

#[test]
fn a_signed_file_is_taken_and_an_older_one_is_not() {
    let signed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/monitor-signed");
    let contents = |name: &str| fs::read(signed.join(name)).unwrap();
    let offered = Arc::new(Mutex::new(Offer::default()));
    let offer = |name: &str| {
        let mut all = offered.lock().unwrap();
        all.text = contents(&format!("{name}.toml"));
        all.signature = contents(&format!("{name}.toml.minisig"));
    };
    let requests = || offered.lock().unwrap().requests;
    offer("one");
    let address = serve(offered.clone());
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("mesh.toml");
    let mut child = Command::new(env!("CARGO_BIN_EXE_jitlat"))
        .args(["monitor", file.to_str().unwrap(), "--run-fetch", "--no-sandbox", "--fetch-every", "1s"])
        .args(["--fetch", &format!("http://{address}/mesh.toml"), "--fetch-key"])
        .arg(signed.join("key.pub"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!((ready.as_str(), fs::read(&file).unwrap()), ("ready\n", contents("one.toml")));
    offer("two");
    jitlat_waiting::until("the new file", LIMIT, || fs::read(&file).unwrap() == contents("two.toml"));
    let before = requests();
    for name in ["one", "foreign", "faulty"] {
        offer(name);
        let seen = requests();
        // Two requests after the offer: the first may have been under way.
        jitlat_waiting::until("two further requests", LIMIT, || requests() >= seen + 2);
    }
    assert!(requests() >= before + 6);
    assert_eq!(fs::read(&file).unwrap(), contents("two.toml"));
    drop(child.stdin.take());
    jitlat_waiting::until("the end of the process", LIMIT, || child.try_wait().unwrap().is_some());
}
