#![allow(dead_code, reason = "each test uses a part")]
//! A real Prometheus, and its answers.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// A Prometheus, stopped when it is dropped.
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts one with these settings and arguments, and its data in `data` of `folder`; `None` if it is not installed and
    /// not required.
    pub fn start(folder: TempDir, settings: &str, arguments: &[&str]) -> Option<Prometheus> {
        std::fs::write(folder.path().join("prometheus.yml"), settings).unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(e) => {
                assert!(std::env::var_os("JITLAT_REQUIRE_PEERS").is_none(), "prometheus: {e}");
                let _ =
                    writeln!(std::io::stderr(), "skipped: prometheus is not installed (Debian: prometheus)");
                return None;
            }
        };
        // Its log states the port that the system chose. Later lines are read too, so that it never blocks on a full pipe.
        let (say, said) = mpsc::channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let address =
                    line.split_once("msg=\"Listening on\" address=").map(|(_, rest)| rest.trim().to_owned());
                let _ = say.send(address.ok_or(line));
            }
        });
        let mut log = Vec::new();
        let address = loop {
            match said.recv_timeout(Duration::from_secs(60)) {
                Ok(Ok(address)) => break address.parse().unwrap(),
                Ok(Err(line)) => log.push(line),
                Err(e) => panic!("{e}: {log:#?}"),
            }
        };
        let started = Prometheus { child, address, _folder: folder };
        // It listens before it has loaded its data, and answers no query until then.
        let ready = || started.ask("/-/ready").starts_with("HTTP/1.0 200");
        jitlat_waiting::until("Prometheus", Duration::from_secs(60), ready);
        Some(started)
    }

    /// Returns an answer with its header.
    fn ask(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Returns an answer as JSON; `Null` if it is not JSON.
    pub fn get(&self, path: &str) -> Value {
        serde_json::from_str(self.ask(path).split_once("\r\n\r\n").unwrap().1).unwrap_or(Value::Null)
    }

    /// Returns the current result of a query.
    pub fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|b| format!("%{b:02x}")).collect();
        let answer = self.get(&format!("/api/v1/query?query={encoded}"));
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let result = &answer["data"]["result"];
        if answer["data"]["resultType"] == "scalar" {
            vec![result.clone()]
        } else {
            result.as_array().unwrap().clone()
        }
    }

    /// Waits until a query has a result, and returns it.
    pub fn wait(&self, query: &str) -> Vec<Value> {
        let mut found = Vec::new();
        let any = jitlat_waiting::within(Duration::from_secs(100), || {
            found = self.query(query);
            !found.is_empty()
        });
        assert!(any, "{query} finds nothing: {}", self.get("/api/v1/targets"));
        found
    }

    /// Returns the value of a query with one result.
    pub fn value(&self, query: &str) -> f64 {
        let found = self.wait(query);
        assert_eq!(found.len(), 1, "{query}: {found:?}");
        found[0]["value"][1].as_str().unwrap_or_else(|| panic!("{query}: {found:?}")).parse().unwrap()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
