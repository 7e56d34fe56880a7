//! Pages of a server with a script of the test in them: a relay in front of the server adds it, and records what the browser asks
//! for.

use crate::chromium as browser;
use crate::served::Served;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A relay in front of a server; it ends when it is dropped.
pub struct Driven {
    pub address: SocketAddr,
    /// First line, headers and body of each request for a page.
    seen: Arc<Mutex<Vec<String>>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Address of the added script.
const DRIVER: &str = "/driver.js";

impl Driven {
    /// Starts a relay to `served` that adds `script` to every page.
    pub fn start(served: &Served, script: &'static str) -> Driven {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (server, seen_here, ended_here) = (served.address, seen.clone(), ended.clone());
        let thread = std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if ended_here.load(Ordering::Relaxed) {
                    break;
                }
                let seen = seen_here.clone();
                std::thread::spawn(move || relay(client, server, script, &seen));
            }
        });
        Driven { address, seen, ended, thread: Some(thread) }
    }

    /// Opens `path` in the browser, where the script runs. Returns the page in the end, and the requests for pages after the
    /// first one; `None` without a browser.
    pub fn visit(&self, path: &str, arguments: &[&str]) -> Option<(String, Vec<String>)> {
        let program = browser::browser()?;
        let own = browser::folder();
        self.seen.lock().unwrap().clear();
        let all = [&["--dump-dom", "--virtual-time-budget=4000"], arguments].concat();
        let dom = browser::visit(program, own.path(), &all, &format!("http://{}{path}", self.address));
        let seen = self.seen.lock().unwrap().clone();
        Some((dom, seen.into_iter().skip(1).collect()))
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread, so that it sees the end.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Reads a request whole: its headers, and the body of the length that they give.
fn request(client: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).ok()?;
        text.push(byte[0]);
    }
    let head = String::from_utf8(text).ok()?;
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    client.read_exact(&mut body).ok()?;
    Some(head + &String::from_utf8(body).ok()?)
}

fn relay(mut client: TcpStream, server: SocketAddr, script: &str, seen: &Mutex<Vec<String>>) -> Option<()> {
    let asked = request(&mut client)?;
    let path = asked.split(' ').nth(1)?.to_owned();
    let plain = |kind: &str, body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    };
    let answer = if path == DRIVER {
        plain("text/javascript", script)
    } else if path.ends_with("/events") {
        // Events that never end would stop the browser's virtual time.
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_owned()
    } else {
        if ![".js", ".css", ".ico"].iter().any(|end| path.ends_with(end)) {
            seen.lock().unwrap().push(asked.clone());
        }
        let mut upstream = TcpStream::connect(server).ok()?;
        let asked = asked.replacen("Connection: keep-alive", "Connection: close", 1);
        upstream.write_all(asked.as_bytes()).ok()?;
        let mut bytes = Vec::new();
        upstream.read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let body = body.replacen("</body>", &format!("<script src=\"{DRIVER}\"></script></body>"), 1);
        let kept = head.lines().filter(|line| !line.to_lowercase().starts_with("content-length:"));
        let head: Vec<&str> = kept.collect();
        format!("{}\r\nContent-Length: {}\r\n\r\n{body}", head.join("\r\n"), body.len())
    };
    client.write_all(answer.as_bytes()).ok()
}
