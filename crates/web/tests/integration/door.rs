//! The listening address of a page: limits per client, wrong tokens, and requests with two names.

use crate::served::{Answer, Served};
use jitlat_archive::Archive;
use jitlat_web::{ReadAccess, Token};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

const RIGHT: &str = "Authorization: Bearer correct-horse-battery\r\n";
const WRONG: &str = "Authorization: Bearer guessed-horse-battery\r\n";

fn with_token() -> (tempfile::TempDir, Served) {
    let folder = tempfile::tempdir().unwrap();
    Archive::make(folder.path()).unwrap();
    let access = ReadAccess::Token(Token::new("correct-horse-battery"));
    let served = Served::start(folder.path(), |settings| settings.access = access);
    (folder, served)
}

/// Connects from an address of this host.
fn connect_from(served: &Served, from: [u8; 4]) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&served.address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends a request, and returns the first line of the answer.
fn status_line(stream: &mut TcpStream, path: &str, headers: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes()).unwrap();
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte).unwrap() == 1 && byte != *b"\r" {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

#[test]
fn a_request_with_two_names_is_refused() {
    let (_folder, served) = with_token();
    let two = format!("Host: {0}\r\nHost: {0}\r\n{RIGHT}", served.address);
    assert_eq!(served.ask("GET /", &two, "").status, 400);
    let other = format!("Host: {}\r\n{RIGHT}", served.address);
    assert_eq!(served.ask("GET http://evil.example/", &other, "").status, 400);
    assert_eq!(served.ask(&format!("GET http://{}/", served.address), &other, "").status, 200);
}

#[test]
fn after_two_wrong_tokens_a_client_waits_and_others_do_not() {
    let (_folder, served) = with_token();
    let cookie = {
        let body = "token=correct-horse-battery";
        let headers =
            format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n", body.len());
        let answer = served.ask("POST /login", &headers, body);
        let cookie =
            answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().to_owned();
        format!("Cookie: {}\r\n", cookie.split(';').next().unwrap())
    };
    // Twenty at once: two tokens are checked.
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let ask = || scope.spawn(|| served.ask("GET /api/v1/now", WRONG, ""));
        let asked: Vec<_> = (0..20).map(|_| ask()).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(401), count(429)), (2, 18));
    let told = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert!(told.head.contains("retry-after: 1"), "{}", told.head);
    assert!(told.body.contains("Wrong tokens came from your address"), "{}", told.body);
    // A cookie cannot be guessed, and another client has guessed nothing.
    assert_eq!(served.ask("GET /", &cookie, "").status, 200);
    let mut other = connect_from(&served, [127, 0, 0, 2]);
    assert_eq!(status_line(&mut other, "/", RIGHT), "HTTP/1.1 200 OK");
    // The wait ends.
    jitlat_waiting::until("the end of the wait", Duration::from_secs(60), || {
        served.ask("GET /", RIGHT, "").status == 200
    });
}

#[test]
fn one_reader_takes_only_its_share_of_events() {
    let (_folder, served) = with_token();
    let follow = |from: IpAddr| {
        let IpAddr::V4(from) = from else { unreachable!("an IPv4 address") };
        let mut stream = connect_from(&served, from.octets());
        let said = status_line(&mut stream, "/api/v1/events", RIGHT);
        (stream, said)
    };
    let (greedy, modest) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
    let mut followed: Vec<(TcpStream, String)> = (0..9).map(|_| follow(greedy)).collect();
    let refused = followed.pop().unwrap().1;
    assert_eq!(refused, "HTTP/1.1 429 Too Many Requests");
    assert!(followed.iter().all(|(_, said)| said == "HTTP/1.1 200 OK"));
    assert_eq!(follow(modest).1, "HTTP/1.1 200 OK");
    // A slot is free again when its connection has ended.
    followed.pop();
    jitlat_waiting::until("a free place", Duration::from_secs(60), || follow(greedy).1.contains("200"));
}

#[test]
fn silent_connections_end_when_their_client_opens_more() {
    let (_folder, served) = with_token();
    let silent: Vec<TcpStream> = (0..200).map(|_| served.connect()).collect();
    // The one that was opened last is still served; the first was ended.
    let mut last = silent.last().unwrap();
    let mut text = String::new();
    last.write_all(format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{RIGHT}\r\n").as_bytes())
        .unwrap();
    last.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    let mut first = &silent[0];
    assert!(matches!(first.read(&mut [0; 16]), Ok(0) | Err(_)), "the first one has ended");
    assert_eq!(served.ask("GET /", RIGHT, "").status, 200);
}
