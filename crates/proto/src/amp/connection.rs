//! [`AmpConnection`]: one end of a control connection, and the set-up of both ends (RFC 4656 §3.1).

use crate::amp::crypto::{IncomingBytes, MAX_ROUNDS, MIN_ROUNDS, OutgoingBytes, SessionKeys, derive};
use crate::amp::setup::{Greeting, ServerStart, SetUp};
use crate::amp::{AcceptCode, SecurityMode, SecurityModes, Sid, TestKeys, Users, users};
use core::fmt;
use jitlat_core::ntp::NtpTime;

/// One end of a control connection: its mode, its keys, and the bytes in both directions.
#[derive(Debug)]
pub struct AmpConnection {
    mode: SecurityMode,
    keys: Option<SessionKeys>,
    user: Option<String>,
    /// Bytes received from the other side.
    pub incoming: IncomingBytes,
    /// Bytes to send to the other side.
    pub outgoing: OutgoingBytes,
}

impl Default for AmpConnection {
    fn default() -> AmpConnection {
        AmpConnection {
            mode: SecurityMode::Open,
            keys: None,
            user: None,
            incoming: IncomingBytes::default(),
            outgoing: OutgoingBytes::default(),
        }
    }
}

impl AmpConnection {
    /// Returns the mode in use; [`SecurityMode::Open`] until one is negotiated.
    pub fn mode(&self) -> SecurityMode {
        self.mode
    }

    /// Returns the authenticated user of a server's connection; `None` in open mode.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the keys of the test session `sid`; `None` if the mode does not protect test packets.
    pub(crate) fn test_keys(&self, sid: &Sid) -> Option<TestKeys> {
        self.keys.as_ref().and_then(|keys| TestKeys::new(self.mode, keys, sid))
    }
}

/// Settings of a client's connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectRequest<'a> {
    /// Security mode; `None`: open mode without a user, otherwise the first mode of [`keyed`](Self::keyed)
    /// that the server offers.
    pub mode: Option<SecurityMode>,
    /// Keyed modes of the protocol, in order of preference.
    pub keyed: &'static [SecurityMode],
    /// Name and passphrase for the keyed modes; `None`: no user.
    pub user: Option<&'a (String, Vec<u8>)>,
    /// Random bytes for the keys of the connection.
    pub random: &'a [u8; 64],
}

/// Step in which a client's conversation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AmpStep {
    /// Waiting for Server-Greeting.
    Greeting,
    /// Waiting for Server-Start.
    SetUp,
    /// Waiting for Accept-Session.
    Request,
    /// All sessions were accepted, but not started yet.
    Granted,
    /// Waiting for Start-Ack.
    Start,
    /// The test is running.
    Running,
    /// Waiting for Stop-Sessions (OWAMP).
    Stop,
    /// Waiting for the server's records (OWAMP).
    Fetch,
}

impl fmt::Display for AmpStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AmpStep::Greeting => "waiting for the greeting",
            AmpStep::SetUp => "negotiating the mode",
            AmpStep::Request => "requesting a session",
            AmpStep::Granted => "waiting to start the session",
            AmpStep::Start => "starting the session",
            AmpStep::Running => "running the test",
            AmpStep::Stop => "ending the test",
            AmpStep::Fetch => "fetching its records",
        })
    }
}

/// Reason why a client's conversation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AmpFailure {
    /// The greeting offers no mode.
    #[error(
        "the server refuses every client (its greeting offers no mode): does it allow this host's address?"
    )]
    Unwelcome,
    /// Client and server have no mode in common.
    #[error("the server offers the modes {offered}; {}{hint}", not_possible(*.wanted))]
    NoCommonMode {
        /// Modes in the greeting.
        offered: SecurityModes,
        /// Mode requested by the user; `None`: any.
        wanted: Option<SecurityMode>,
        /// Suggestion for the user.
        hint: &'static str,
    },
    /// The server requests too many rounds of key derivation, or speaks another protocol.
    #[error("the server requires {0} rounds of key derivation; only 1024 to 32768 are supported")]
    Rounds(u32),
    /// The server refused a step.
    #[error("the server refused while {step}: {accept}{}", hint(*.step, *.accept))]
    Refused {
        /// Step that was refused.
        step: AmpStep,
        /// Code in the server's answer.
        accept: AcceptCode,
    },
    /// The server accepted a session, but without a port to send to.
    #[error("the server granted a session on port 0, to which no packet can be sent")]
    NoPort,
    /// The HMAC of a message is wrong.
    #[error("a message from the server is not signed with the keys of this connection (while {0})")]
    Forged(AmpStep),
    /// The server sent a message that was not requested.
    #[error("the server sent an unexpected message (while {0}): does it speak this protocol?")]
    Unexpected(AmpStep),
    /// The server did not answer in time.
    #[error("no answer from the server in time (while {0}): is a server of this protocol running there?")]
    Silent(AmpStep),
    /// The server closed the connection.
    #[error("the server closed the connection (while {0}){hint}", hint = closed_hint(*.0))]
    Closed(AmpStep),
}

impl AmpFailure {
    /// True if the reason may be the addresses in the request for a session: behind address translation they differ
    /// from those that the server sees. A request with unspecified addresses may then be accepted.
    pub fn may_be_due_to_addresses(&self) -> bool {
        let codes = [AcceptCode::Failure, AcceptCode::Unsupported];
        matches!(self, AmpFailure::Refused { step: AmpStep::Request, accept } if codes.contains(accept))
    }
}

fn not_possible(wanted: Option<SecurityMode>) -> String {
    wanted.map_or("none of them can be used".to_owned(), |mode| format!("{mode} is not among them"))
}

fn hint(step: AmpStep, accept: AcceptCode) -> &'static str {
    match (step, accept) {
        (AmpStep::SetUp, AcceptCode::Failure) => "; are the user and the passphrase right?",
        (AmpStep::Request, AcceptCode::Unsupported) => {
            "; does it accept this DSCP (-D) and this size (-l; routers require at least 41 bytes)?"
        }
        _ => "",
    }
}

fn closed_hint(step: AmpStep) -> &'static str {
    match step {
        AmpStep::Greeting => ": does it allow this host's address?",
        AmpStep::SetUp => ": does it accept this mode and this user?",
        _ => "",
    }
}

/// The client's side of the set-up.
impl AmpConnection {
    /// Reads the greeting once it is complete, and selects the mode. The returned message must be sent next,
    /// unprotected; everything after it is protected.
    pub(crate) fn read_greeting(&mut self, wanted: &ConnectRequest<'_>) -> Result<Option<SetUp>, AmpFailure> {
        let Some(bytes) = self.incoming.take(Greeting::LEN) else { return Ok(None) };
        let greeting = Greeting::parse(&bytes).map_err(|_| AmpFailure::Unexpected(AmpStep::Greeting))?;
        if greeting.modes == SecurityModes::default() {
            return Err(AmpFailure::Unwelcome);
        }
        self.mode = choose(greeting.modes, wanted)?;
        let Some((name, passphrase)) = wanted.user.filter(|_| self.mode.is_keyed()) else {
            return Ok(Some(SetUp::open()));
        };
        if !(MIN_ROUNDS..=MAX_ROUNDS).contains(&greeting.count) {
            return Err(AmpFailure::Rounds(greeting.count));
        }
        let (mut aes, mut hmac, mut client_iv) = ([0; 16], [0; 32], [0; 16]);
        aes.copy_from_slice(&wanted.random[..16]);
        hmac.copy_from_slice(&wanted.random[16..48]);
        client_iv.copy_from_slice(&wanted.random[48..]);
        let keys = SessionKeys { aes, hmac };
        let key = derive(passphrase, &greeting.salt, greeting.count);
        let token = keys.token(&key, &greeting.challenge);
        self.outgoing.protect(&keys, &client_iv);
        self.keys = Some(keys);
        Ok(Some(SetUp { mode: self.mode as u32, user: users::field(name), token, client_iv }))
    }

    /// Reads Server-Start; returns true once it is complete.
    pub(crate) fn read_server_start(&mut self) -> Result<bool, AmpFailure> {
        let step = AmpStep::SetUp;
        // Both halves together: the second one is decrypted with the vector in the first one.
        if self.incoming.len() < ServerStart::LEN + ServerStart::TIME_LEN {
            return Ok(false);
        }
        let Some(bytes) = self.incoming.take(ServerStart::LEN) else { return Ok(false) };
        let start = ServerStart::parse(&bytes).map_err(|_| AmpFailure::Unexpected(step))?;
        if start.accept != AcceptCode::Ok {
            return Err(AmpFailure::Refused { step, accept: start.accept });
        }
        if let Some(keys) = &self.keys {
            self.incoming.protect(keys, &start.server_iv);
        }
        // The server's start time. This is the first block that the HMAC covers.
        self.incoming.take(ServerStart::TIME_LEN);
        Ok(true)
    }
}

fn choose(offered: SecurityModes, wanted: &ConnectRequest<'_>) -> Result<SecurityMode, AmpFailure> {
    let has_user = wanted.user.is_some();
    let chosen = match wanted.mode {
        Some(mode) => Some(mode).filter(|m| offered.contains(*m) && (has_user || !m.is_keyed())),
        None if has_user => wanted.keyed.iter().copied().find(|m| offered.contains(*m)),
        None => Some(SecurityMode::Open).filter(|m| offered.contains(*m)),
    };
    chosen.ok_or(AmpFailure::NoCommonMode {
        offered,
        wanted: wanted.mode,
        hint: match (has_user, offered.contains(SecurityMode::Open)) {
            (false, _) => ": give a user and a passphrase",
            (true, true) => ": omit the passphrase",
            (true, false) => "",
        },
    })
}

/// Random bytes for one connection of a server.
#[derive(Clone, Copy)]
pub struct ServerRandom {
    /// Challenge, which the client returns in its token.
    pub challenge: [u8; 16],
    /// Salt of the key derivation.
    pub salt: [u8; 16],
    /// Initialisation vector of the server's stream.
    pub iv: [u8; 16],
    /// Random part of session identifiers, which distinguishes sessions of different connections.
    pub sid: [u8; 4],
}

impl ServerRandom {
    /// Splits 52 random bytes into the fields.
    pub fn new(bytes: [u8; 52]) -> ServerRandom {
        let part = |at: usize| {
            let mut block = [0; 16];
            block.copy_from_slice(&bytes[at..at + 16]);
            block
        };
        let [.., a, b, c, d] = bytes;
        ServerRandom { challenge: part(0), salt: part(16), iv: part(32), sid: [a, b, c, d] }
    }
}

impl fmt::Debug for ServerRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(…)")
    }
}

/// Reason why a server's conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AmpEndReason {
    /// The client closed the connection.
    Closed,
    /// The client was silent for too long.
    Silent,
    /// The user or the passphrase is wrong.
    Denied,
    /// The client chose a mode that was not offered.
    Mode,
    /// A message was not authenticated with the keys of the connection.
    Forged,
    /// The client sent an unknown command, or one that is not allowed in this state.
    Confused,
}

impl fmt::Display for AmpEndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AmpEndReason::Closed => "closed by the client",
            AmpEndReason::Silent => "silent for too long",
            AmpEndReason::Denied => "wrong user or passphrase",
            AmpEndReason::Mode => "no common mode",
            AmpEndReason::Forged => "a forged message",
            AmpEndReason::Confused => "an unexpected message",
        })
    }
}

/// Rules by which a server admits clients.
#[derive(Clone, Copy, Debug)]
pub struct Admission<'a> {
    /// Modes offered; an empty set refuses every client.
    pub modes: SecurityModes,
    /// Users of the keyed modes.
    pub users: &'a Users,
    /// Rounds of key derivation: a power of two, at least 1024.
    pub rounds: u32,
    /// Random bytes for this connection.
    pub random: &'a ServerRandom,
    /// Time at which the server was started.
    pub started: NtpTime,
}

/// The server's side of the set-up.
impl AmpConnection {
    /// Returns the greeting, which the server sends first.
    pub fn greeting(entry: &Admission<'_>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Greeting::LEN);
        let ServerRandom { challenge, salt, .. } = *entry.random;
        Greeting { modes: entry.modes, challenge, salt, count: entry.rounds }.write(&mut bytes);
        bytes
    }

    /// Reads the client's choice once it is complete, and appends Server-Start to `answer`, even for a
    /// refused client. Returns true once the choice was read.
    pub(crate) fn read_set_up(
        &mut self,
        entry: &Admission<'_>,
        answer: &mut Vec<u8>,
    ) -> Result<bool, AmpEndReason> {
        let Some(bytes) = self.incoming.take(SetUp::LEN) else { return Ok(false) };
        let asked = SetUp::parse(&bytes).map_err(|_| AmpEndReason::Confused)?;
        let Some(mode) = SecurityMode::from_bits(asked.mode).filter(|m| entry.modes.contains(*m)) else {
            refuse(AcceptCode::Unsupported, answer);
            return Err(AmpEndReason::Mode);
        };
        self.mode = mode;
        let mut server_iv = [0; 16];
        if mode.is_keyed() {
            // Unknown users cause the same work, so that the response time does not reveal which users
            // exist.
            let passphrase = entry.users.of_field(&asked.user);
            let key = derive(passphrase.unwrap_or_default(), &entry.random.salt, entry.rounds);
            let keys = SessionKeys::from_token(&asked.token, &key, &entry.random.challenge);
            let Some(keys) = keys.filter(|_| passphrase.is_some()) else {
                refuse(AcceptCode::Failure, answer);
                return Err(AmpEndReason::Denied);
            };
            server_iv = entry.random.iv;
            self.incoming.protect(&keys, &asked.client_iv);
            self.outgoing.protect(&keys, &server_iv);
            self.keys = Some(keys);
            self.user = users::name_in(&asked.user).map(str::to_owned);
        }
        ServerStart { accept: AcceptCode::Ok, server_iv }.write(answer);
        self.outgoing.put(&ServerStart::time(entry.started), answer);
        Ok(true)
    }
}

/// Appends a Server-Start that refuses the client: unprotected, all zeros except for the code.
fn refuse(accept: AcceptCode, answer: &mut Vec<u8>) {
    ServerStart { accept, server_iv: [0; 16] }.write(answer);
    answer.extend(ServerStart::time(NtpTime(0)));
}
