//! Client's side of a TWAMP control connection. It is idle while test packets are sent, so it does not
//! compete with them.

use crate::clock::tick;
use crate::drive::Driver;
use crate::random;
use crate::sockets;
use jitlat_core::Span;
use jitlat_proto::Machine;
use jitlat_proto::twamp::client::{
    AmpFailure, Client, TwampClientEvent, TwampClientInput, TwampGrant, TwampOptions,
};
use jitlat_proto::twamp::{SecurityMode, TwampSessionSpec};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Reason why no session was established.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TwampError {
    /// Connecting failed.
    #[error("cannot connect to the TWAMP server at {to}: {source}; is one running on that host and port?")]
    Connect {
        /// Address of the server.
        to: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The control connection failed.
    #[error("TWAMP server {to}: {failure}")]
    Failed {
        /// Address of the server.
        to: SocketAddr,
        /// Reason for the failure, and a suggested action.
        failure: AmpFailure,
    },
    /// The user interrupted the test.
    #[error("interrupted while negotiating a session with the TWAMP server at {0}")]
    Interrupted(SocketAddr),
}

/// Settings of a session request.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    /// Address of the server.
    pub to: SocketAddr,
    /// Local address; `None`: chosen by the system.
    pub bind: Option<IpAddr>,
    /// Security mode to use; `None`: the strongest that both sides support.
    pub mode: Option<SecurityMode>,
    /// User name and passphrase for the keyed modes; `None`: unauthenticated mode.
    pub user: Option<(String, Vec<u8>)>,
    /// Sessions to request.
    pub sessions: Vec<TwampSessionSpec>,
    /// Timeout of each step of the conversation.
    pub step_timeout: Span,
}

/// A control connection with accepted sessions.
#[derive(Debug)]
pub struct TwampControl {
    to: SocketAddr,
    driver: Driver<Client>,
    mode: SecurityMode,
    granted: Vec<TwampGrant>,
    ready: bool,
    started: bool,
    over: bool,
}

impl TwampControl {
    /// Connects, negotiates a mode and requests the sessions.
    pub fn open(request: SessionRequest, stop: &AtomicBool) -> Result<TwampControl, TwampError> {
        let to = request.to;
        let step_timeout = Duration::from_nanos(request.step_timeout.0.max(1) as u64);
        let connect = |source| TwampError::Connect { to, source };
        let stream = sockets::connect_tcp(request.bind, to, step_timeout, || stop.load(Ordering::Acquire));
        let stream = stream.map_err(|e| match e.kind() {
            io::ErrorKind::Interrupted => TwampError::Interrupted(to),
            _ => connect(e),
        })?;
        let mut bytes = [0; 64];
        random::fill(&mut bytes).map_err(connect)?;
        let SessionRequest { mode, user, sessions, step_timeout, .. } = request;
        let config = TwampOptions { mode, user, sessions, step_timeout, random: bytes };
        let mut control = TwampControl {
            to,
            driver: Driver::new(Client::new(config, tick()), stream).map_err(connect)?,
            mode: SecurityMode::Open,
            granted: Vec::new(),
            ready: false,
            started: false,
            over: false,
        };
        control.converse(|c| c.ready, Some(stop))?;
        Ok(control)
    }

    /// Returns the security mode in use.
    pub fn mode(&self) -> SecurityMode {
        self.mode
    }

    /// Returns the accepted sessions, in the order of the requests.
    pub fn granted(&self) -> &[TwampGrant] {
        &self.granted
    }

    /// Starts the sessions: from now on, the server answers packets.
    pub fn start(&mut self, stop: &AtomicBool) -> Result<(), TwampError> {
        self.driver.handle(TwampClientInput::Start);
        self.converse(|c| c.started, Some(stop))
    }

    /// Ends the sessions. An error means that the server had already closed the connection.
    pub fn stop(mut self) -> Result<(), TwampError> {
        // Detects that the server has closed the connection in the meantime, and reads its reason.
        self.driver.read_input();
        self.driver.handle(TwampClientInput::Stop);
        self.converse(|c| c.over, None)
    }

    /// Exchanges messages until `done` returns true or the conversation fails.
    fn converse(
        &mut self,
        done: impl Fn(&TwampControl) -> bool,
        stop: Option<&AtomicBool>,
    ) -> Result<(), TwampError> {
        loop {
            self.driver.write_output();
            while let Some(event) = self.driver.machine.poll_event() {
                match event {
                    TwampClientEvent::Mode(mode) => self.mode = mode,
                    TwampClientEvent::Granted(granted) => self.granted.push(granted),
                    TwampClientEvent::Ready => self.ready = true,
                    TwampClientEvent::Started => self.started = true,
                    TwampClientEvent::Over => self.over = true,
                    TwampClientEvent::Failed(failure) => {
                        return Err(TwampError::Failed { to: self.to, failure });
                    }
                }
            }
            if done(self) {
                return Ok(());
            }
            if stop.is_some_and(|s| s.load(Ordering::Relaxed)) {
                return Err(TwampError::Interrupted(self.to));
            }
            self.driver.wait(None);
            self.driver.read_input();
            self.driver.check_timer();
        }
    }
}
