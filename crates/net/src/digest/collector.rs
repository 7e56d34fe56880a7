//! [`DigestCollector`]: the driver of a [`Collector`].

use super::nonce;
use crate::clock::tick;
use jitlat_proto::Machine;
use jitlat_proto::digest::{Collector, CollectorEvent, CollectorInput, DigestError, Listen, Refusal, Rule};
use jitlat_proto::jitlat::Key;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long each address of a host is tried.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest wait for room to write a message, which is short.
const WRITE: Duration = Duration::from_secs(5);
const BUFFER: usize = 1 << 16;

/// Why nothing can be collected from a far point.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// No connection.
    #[error(
        "cannot connect to {host}, TCP port {port}: {source}; is `jitlat serve --capture IFACE` running there?"
    )]
    Connect {
        /// Which host.
        host: String,
        /// Which port.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// The conversation failed.
    #[error("packet digests from {host}: {source}{}", advice(source))]
    Conversation {
        /// Which host.
        host: String,
        /// Why.
        source: DigestError,
    },
    /// The connection broke.
    #[error("packet digests from {host}: the connection broke: {source}")]
    Broken {
        /// Which host.
        host: String,
        /// What the system said.
        source: io::Error,
    },
}

fn advice(why: &DigestError) -> &'static str {
    match why {
        DigestError::Refused(Refusal::Key, _) | DigestError::NotAuthenticated | DigestError::Proof => {
            " (both hosts need the same file with --key-file)"
        }
        _ => "",
    }
}

/// A far capture point.
pub struct DigestCollector {
    host: String,
    stream: TcpStream,
    machine: Collector,
    buffer: Vec<u8>,
    interface: String,
    salt: u64,
}

impl DigestCollector {
    /// Connects and has the far host capture; waits for its answer.
    pub fn connect(
        host: &str,
        port: u16,
        ask: Listen,
        key: Option<Key>,
    ) -> Result<DigestCollector, CollectorError> {
        let failed = |source| CollectorError::Connect { host: host.to_owned(), port, source };
        let stream = connect(host, port).map_err(failed)?;
        stream.set_nodelay(true).and_then(|()| stream.set_write_timeout(Some(WRITE))).map_err(failed)?;
        let machine = Collector::new(ask, key, nonce().map_err(failed)?, tick());
        let mut collector = DigestCollector {
            host: host.to_owned(),
            stream,
            machine,
            buffer: vec![0; BUFFER],
            interface: String::new(),
            salt: 0,
        };
        loop {
            // The machine gives up a host that is silent.
            if let Some(CollectorEvent::Listening { interface, salt }) =
                collector.poll(Duration::from_millis(100))?
            {
                (collector.interface, collector.salt) = (interface, salt);
                return Ok(collector);
            }
        }
    }

    /// The far interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The salt of the names it reports.
    pub fn salt(&self) -> u64 {
        self.salt
    }

    /// Has it report digests by this rule from now on.
    pub fn rule(&mut self, rule: Rule) {
        self.machine.handle(tick(), CollectorInput::Rule(rule));
    }

    /// Has it come to an end, which it confirms by [`CollectorEvent::End`].
    pub fn stop(&mut self) {
        self.machine.handle(tick(), CollectorInput::Stop);
    }

    /// What it reports next, after waiting up to `patience` for something to come.
    pub fn poll(&mut self, patience: Duration) -> Result<Option<CollectorEvent>, CollectorError> {
        if let Some(event) = self.next_event()? {
            return Ok(Some(event));
        }
        let broken = |source| CollectorError::Broken { host: self.host.clone(), source };
        let mut out = Vec::new();
        while self.machine.poll_transmit(tick(), &mut out) {}
        self.stream.write_all(&out).map_err(broken)?;
        let patience = patience.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(patience)).map_err(broken)?;
        match self.stream.read(&mut self.buffer) {
            Ok(0) => self.machine.handle(tick(), CollectorInput::Closed),
            Ok(n) => self.machine.handle(tick(), CollectorInput::Bytes(&self.buffer[..n])),
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(source) => return Err(CollectorError::Broken { host: self.host.clone(), source }),
        }
        self.machine.handle_timeout(tick());
        self.next_event()
    }

    fn next_event(&mut self) -> Result<Option<CollectorEvent>, CollectorError> {
        match self.machine.poll_event() {
            Some(CollectorEvent::Failed(source)) => {
                Err(CollectorError::Conversation { host: self.host.clone(), source })
            }
            other => Ok(other),
        }
    }
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "no such host");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(last)
}
