//! [`DigestCollector`]: driver of a [`Collector`].

use super::entropy;
use crate::clock::tick;
use crate::sockets;
use jitlat_proto::Machine;
use jitlat_proto::digest::{
    Collector, CollectorEvent, CollectorInput, DigestError, DigestRefusal, DigestRule, Listen,
};
use jitlat_proto::jitlat::PresharedKey;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Timeout for connecting to each address of a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for writing a message; messages are short.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
const BUFFER: usize = 1 << 16;

/// Reason why digests cannot be collected from another host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectorError {
    /// Connecting to the host failed.
    #[error(
        "cannot connect to {host}, TCP port {port}: {source}; is `jitlat serve --capture IFACE` running there?"
    )]
    Connect {
        /// Name of the host.
        host: String,
        /// TCP port of the host.
        port: u16,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The conversation with the host failed.
    #[error("packet digests from {host}: {source}{}", advice(source))]
    Conversation {
        /// Name of the host.
        host: String,
        /// Reason for the failure.
        source: DigestError,
    },
    /// The connection was lost.
    #[error("packet digests from {host}: the connection was lost: {source}")]
    Broken {
        /// Name of the host.
        host: String,
        /// Error of the operating system.
        source: io::Error,
    },
}

fn advice(why: &DigestError) -> &'static str {
    match why {
        DigestError::Refused(DigestRefusal::Key, _) | DigestError::NotAuthenticated | DigestError::Proof => {
            " (both hosts need the same file with --key-file)"
        }
        _ => "",
    }
}

/// A connection to a capture point on another host.
pub struct DigestCollector {
    host: String,
    stream: TcpStream,
    machine: Collector,
    buffer: Vec<u8>,
    interface: String,
    salt: u64,
}

impl DigestCollector {
    /// Connects, requests a capture, and waits for the answer.
    pub fn connect(
        host: &str,
        port: u16,
        ask: Listen,
        key: Option<PresharedKey>,
    ) -> Result<DigestCollector, CollectorError> {
        let failed = |source| CollectorError::Connect { host: host.to_owned(), port, source };
        let stream = sockets::connect_host(host, port, CONNECT_TIMEOUT).map_err(failed)?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_write_timeout(Some(WRITE_TIMEOUT)))
            .map_err(failed)?;
        let machine = Collector::new(ask, key, entropy().map_err(failed)?, tick());
        let mut collector = DigestCollector {
            host: host.to_owned(),
            stream,
            machine,
            buffer: vec![0; BUFFER],
            interface: String::new(),
            salt: 0,
        };
        loop {
            // This loop ends, because the state machine gives up on a silent host.
            if let Some(CollectorEvent::Listening { interface, salt }) =
                collector.poll(Duration::from_millis(100))?
            {
                (collector.interface, collector.salt) = (interface, salt);
                return Ok(collector);
            }
        }
    }

    /// Returns the interface on which the far host captures.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns the salt of the packet identities in the digests.
    pub fn salt(&self) -> u64 {
        self.salt
    }

    /// Requests digests by `rule` from now on.
    pub fn rule(&mut self, rule: DigestRule) {
        self.machine.handle(tick(), CollectorInput::Rule(rule));
    }

    /// Requests the end of the capture; [`CollectorEvent::End`] confirms it.
    pub fn stop(&mut self) {
        self.machine.handle(tick(), CollectorInput::Stop);
    }

    /// Waits up to `timeout` for the next event; `None` if there is none.
    pub fn poll(&mut self, timeout: Duration) -> Result<Option<CollectorEvent>, CollectorError> {
        if let Some(event) = self.next_event()? {
            return Ok(Some(event));
        }
        let broken = |source| CollectorError::Broken { host: self.host.clone(), source };
        let mut out = Vec::new();
        while self.machine.poll_transmit(tick(), &mut out) {}
        self.stream.write_all(&out).map_err(broken)?;
        let timeout = timeout.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(timeout)).map_err(broken)?;
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
