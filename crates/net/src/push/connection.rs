//! [`PushConnection`]: driver of a [`PushSender`].

use crate::clock::tick;
use crate::drive::Driver;
use crate::{random, sockets};
use jitlat_core::Span;
use jitlat_proto::Machine;
use jitlat_proto::jitlat::PresharedKey;
use jitlat_proto::push::{PushError, PushRefusal, PushSender, SenderEvent, SenderInput};
use std::io;
use std::time::Duration;

/// Timeout for connecting to each address of a collector.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for writing the last messages.
const FINAL_WRITE_TIMEOUT: Span = Span::seconds(1);

/// Reason why tests cannot be pushed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushFailure {
    /// Connecting failed.
    #[error("cannot connect to {host}, TCP port {port}: {source}; is `jitlat monitor` running there?")]
    Connect {
        /// Name of the collector's host.
        host: String,
        /// TCP port of the collector.
        port: u16,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The conversation failed.
    #[error("{source}{}", advice(source))]
    Conversation {
        /// Reason for the failure.
        #[from]
        source: PushError,
    },
    /// The connection is open, but no offered test has been settled for a long time.
    #[error("the collector has not stored or refused a test for 120 s")]
    Stalled,
}

fn advice(why: &PushError) -> &'static str {
    match why {
        PushError::Refused(PushRefusal::Key, _) | PushError::Proof => {
            " (both hosts need the same file, with a key for each host that pushes)"
        }
        _ => "",
    }
}

/// A connection to a collector.
pub struct PushConnection {
    driver: Driver<PushSender>,
}

impl PushConnection {
    /// Connects and begins the conversation.
    ///
    /// # Errors
    /// [`PushFailure`].
    pub fn open(host: &str, port: u16, key: PresharedKey) -> Result<PushConnection, PushFailure> {
        let failed = |source| PushFailure::Connect { host: host.to_owned(), port, source };
        let stream = sockets::connect_host(host, port, CONNECT_TIMEOUT).map_err(failed)?;
        sockets::notice_absence(&stream);
        let mut nonce = [0; 16];
        random::fill(&mut nonce).map_err(failed)?;
        let driver = Driver::new(PushSender::new(key, nonce, tick()), stream).map_err(failed)?;
        Ok(PushConnection { driver })
    }

    /// Returns the state machine of this end of the conversation.
    pub fn machine(&self) -> &PushSender {
        &self.driver.machine
    }

    /// Passes an input to the state machine.
    pub fn give(&mut self, input: SenderInput<'_>) {
        self.driver.handle(input);
    }

    /// True if the state machine needs the next piece of the log being sent.
    pub fn needs_data(&self) -> bool {
        !self.driver.is_pending() && self.driver.machine.needs_data()
    }

    /// Waits up to `timeout` for the next event; `None` after the timeout, or at once if
    /// the caller must supply data first.
    pub fn poll(&mut self, timeout: Span) -> Option<SenderEvent> {
        self.driver.check_timer();
        self.driver.write_output();
        if let Some(event) = self.driver.machine.poll_event() {
            return Some(event);
        }
        if !self.needs_data() {
            self.driver.wait_for(timeout);
        }
        self.driver.read_input();
        self.driver.write_output();
        self.driver.machine.poll_event()
    }

    /// Writes the remaining messages.
    pub fn finish(&mut self) {
        self.driver.finish(FINAL_WRITE_TIMEOUT);
    }
}
