#![allow(dead_code, reason = "each test uses a part")]
//! A server of the pages in a thread of its own, and a client that reads from it.

use jitlat_web::{Settings, Web};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// A server, stopped when it is dropped.
pub struct Served {
    pub address: SocketAddr,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub fn start(archive: &Path, change: impl FnOnce(&mut Settings)) -> Served {
        let mut settings = Settings::new(archive);
        settings.listen.set_port(0);
        change(&mut settings);
        let web = Web::bind(&settings).unwrap();
        let address = web.address();
        let (stop, stopped) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || web.run(stopped).unwrap());
        Served { address, stop: Some(stop), thread: Some(thread) }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Returns the headers, in lower case, of an answer whose body may not be text.
    pub fn head_of(&self, request: &str, headers: &str) -> String {
        let bytes = self.bytes(request, headers, "");
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase()
    }

    /// Sends a request with `headers` in addition to its host, and reads the answer to its end.
    pub fn ask(&self, request: &str, headers: &str, body: &str) -> Answer {
        let text = String::from_utf8(self.bytes(request, headers, body)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn bytes(&self, request: &str, headers: &str, body: &str) -> Vec<u8> {
        let mut stream = self.connect();
        let host =
            if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", self.address) };
        let text = format!("{request} HTTP/1.1\r\n{host}Connection: close\r\n{headers}\r\n{body}");
        stream.write_all(text.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), "", "")
    }

    /// Returns an answer as JSON.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop = None;
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the server ended by itself");
    }
}

/// An answer.
pub struct Answer {
    pub status: u16,
    /// Headers, in lower case.
    pub head: String,
    pub body: String,
}
