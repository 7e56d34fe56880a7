//! [`Client`]: asks a responder to open a port, and creates the probes to it.

use super::IpslaVersion;
use super::auth::{AuthMode, IpslaKey};
use super::probe::ProbeForm;
use super::v1::{self, Operation, PortAnswer, PortRequest};
use super::v2::{self, ControlMessage};
use crate::machine::Tick;
use crate::twoway::{ConversationState, DatagramKind, Protocol, Reply, ReplyMarks};
use core::net::SocketAddr;
use jitlat_core::{Span, SteadyTime, WallTime};

/// Timeouts of successive requests to open the port.
const OPEN_TIMEOUTS: [Span; 4] = [Span::seconds(1), Span::seconds(1), Span::seconds(1), Span::seconds(2)];
/// Time after which a port of version 1 is requested again, if the test takes longer than a request can ask for.
const RENEWAL: Span = Span::seconds(30);
/// Time after which a renewal without an answer is repeated.
const RENEWAL_TIMEOUT: Span = Span::seconds(1);

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct IpslaOptions {
    /// Version of control messages.
    pub version: IpslaVersion,
    /// Layout of probes; must be one of the version.
    pub form: ProbeForm,
    /// Length of probes in bytes.
    pub size: usize,
    /// Local address and port, from which control messages and probes are sent.
    pub local: SocketAddr,
    /// Address of the responder, with the port to open.
    pub target: SocketAddr,
    /// Time for which the port is needed, from the first request.
    pub duration: Span,
    /// Number of the control messages.
    pub seq: u32,
    /// Key and its mode; version 2 only. `None`: requests are not signed, and signatures of answers are not checked.
    pub key: Option<(AuthMode, IpslaKey)>,
    /// Random number in protected messages.
    pub random: [u8; 16],
}

/// Reason why a test cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IpslaFailure {
    /// No request was answered.
    #[error(
        "no IP SLA responder answered {0} requests to open UDP port {1}: is one running there (`ip sla responder`, \
         `jitlat serve --ipsla`), does it allow this port (--target-port), does it require a key, and does the firewall \
         allow UDP?"
    )]
    Silent(usize, u16),
    /// Answers arrived, but none was signed with the key.
    #[error(
        "the IP SLA responder's answers are not signed with the key: do both ends have the same key with the same number?"
    )]
    Unsigned,
    /// The responder refused to open the port, with a status whose meaning is not known (version 1).
    #[error(
        "the IP SLA responder refused to open UDP port {1} (status {0}); try another one with --target-port"
    )]
    Refused(u32, u16),
    /// The responder refused to open the port (version 2).
    #[error("the IP SLA responder refused to open UDP port {port}: {}", reason(*.status))]
    Status {
        /// Status of RFC 6812.
        status: u16,
        /// Port that was requested.
        port: u16,
    },
}

fn reason(status: u16) -> String {
    match status {
        1 => "it gives no reason (fail); perhaps it does not allow the port (--target-port) or the duration"
            .to_owned(),
        2 => "it requires a key, or another one (--ipsla-key-file)".to_owned(),
        3 => "it does not understand the request (format)".to_owned(),
        4 => "the port is in use there; choose another one with --target-port".to_owned(),
        other => format!("status {other}"),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum IpslaClientState {
    /// Requests are being sent: `sent` so far. At the time `due`, the next one is sent or the client gives up.
    Opening {
        sent: usize,
        due: Option<SteadyTime>,
    },
    /// The port is open. At the time `renew`, it is requested again; `None` if it stays open until the end.
    Open {
        renew: Option<SteadyTime>,
    },
    Failed(IpslaFailure),
}

/// Client of one test.
#[derive(Clone, Debug)]
pub struct Client {
    options: IpslaOptions,
    state: IpslaClientState,
    /// Port that the responder has opened.
    port: u16,
    /// Highest number of an answer so far, with 32 bits.
    highest: u32,
    /// True if an answer to a request was not signed with the key.
    unsigned: bool,
    /// True once all probes have been sent, so that the port need not be renewed.
    sent_all: bool,
}

impl Client {
    /// Creates a client that asks for its port when it is first polled.
    pub fn new(options: IpslaOptions) -> Client {
        Client {
            state: IpslaClientState::Opening { sent: 0, due: None },
            port: options.target.port(),
            highest: 0,
            unsigned: false,
            sent_all: false,
            options,
        }
    }

    /// Returns the port to which probes are sent.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the reason why the test could not run; `None` if it could.
    pub fn failure(&self) -> Option<&IpslaFailure> {
        match &self.state {
            IpslaClientState::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// True if one request of version 1 cannot ask for the whole duration.
    pub fn is_renewed(&self) -> bool {
        self.options.version == IpslaVersion::V1 && self.options.duration > v1::MAX_DURATION
    }

    fn write_request(&self, now: Tick, out: &mut Vec<u8>) {
        let IpslaOptions { target, local, duration, seq, key, random, .. } = &self.options;
        match self.options.version {
            IpslaVersion::V1 => PortRequest {
                seq: *seq as u8,
                operation: if self.options.form == ProbeForm::Echo {
                    Operation::Echo
                } else {
                    Operation::Jitter
                },
                address: target.ip(),
                port: target.port(),
                duration: (*duration).min(v1::MAX_DURATION),
                signed: false,
            }
            .write(out),
            IpslaVersion::V2 => ControlMessage {
                status: [0; 2],
                seq: *seq,
                auth: key.as_ref().map(|(mode, key)| (*mode, key.id)),
                random: *random,
                session: 0,
                probes: (*local, *target),
                control_port: local.port(),
                duration: *duration,
            }
            .write(now.wall, key.as_ref().map(|(_, key)| key), out),
        }
    }

    /// Handles a packet of version 1 that is not a probe.
    fn answered_v1(&mut self, packet: &[u8]) -> DatagramKind {
        let Some(answer) = PortAnswer::parse(packet) else { return DatagramKind::Malformed };
        if answer.seq != self.options.seq as u8 {
            return DatagramKind::Foreign;
        }
        self.opened(match answer.status {
            0 => Ok(self.options.target.port()),
            status => Err(IpslaFailure::Refused(status, self.options.target.port())),
        });
        DatagramKind::Conversation
    }

    /// Handles a packet of version 2 that is not a probe.
    fn answered_v2(&mut self, packet: &[u8]) -> DatagramKind {
        let Ok(answer) = ControlMessage::parse(packet) else { return DatagramKind::Malformed };
        if answer.seq != self.options.seq {
            return DatagramKind::Foreign;
        }
        if let Some((_, key)) = &self.options.key
            && !answer.is_signed_by(key, packet)
        {
            self.unsigned = true;
            return DatagramKind::Forged;
        }
        let port = answer.probes.1.port();
        self.opened(match answer.status.into_iter().rev().find(|status| *status != 0) {
            None if port != 0 => Ok(port),
            None => Err(IpslaFailure::Status { status: v2::Status::Format as u16, port }),
            Some(status) => Err(IpslaFailure::Status { status, port: self.options.target.port() }),
        });
        DatagramKind::Conversation
    }

    /// Handles the answer to a request: the open port, or the reason why there is none.
    fn opened(&mut self, result: Result<u16, IpslaFailure>) {
        match (&mut self.state, result) {
            (IpslaClientState::Opening { sent: 1.., due }, Ok(port)) => {
                self.port = port;
                // `due` is the time of the request plus its timeout, at most two seconds.
                let renew = due.filter(|_| self.options.version == IpslaVersion::V1).map(|due| due + RENEWAL);
                let longer = self.options.duration > v1::MAX_DURATION;
                self.state = IpslaClientState::Open { renew: renew.filter(|_| longer) };
            }
            (IpslaClientState::Opening { sent: 1.., .. }, Err(failure)) => {
                self.state = IpslaClientState::Failed(failure);
            }
            // The answer to a renewal, which was already scheduled again shortly after it was sent.
            (IpslaClientState::Open { renew: Some(renew) }, Ok(_)) => *renew = *renew + RENEWAL,
            _ => {}
        }
    }

    /// Extends `number`, the responder's number of an answer, to 32 bits: the value nearest to the highest one so far.
    /// Returns the value counted from 0; `None` if the responder does not count.
    fn full_number(&mut self, number: u32) -> Option<u32> {
        let bits = self.options.form.seq_bits();
        if number == 0 && (bits == 32 || self.highest == 0) {
            return None;
        }
        let full = match bits {
            16 => {
                let ahead = (number as u16).wrapping_sub(self.highest as u16) as i16;
                self.highest.checked_add_signed(ahead.into()).unwrap_or(number)
            }
            _ => number,
        };
        self.highest = self.highest.max(full);
        full.checked_sub(1)
    }
}

impl Protocol for Client {
    fn request(&mut self, seq: u32, _last: bool, sent: WallTime, out: &mut Vec<u8>) {
        self.options.form.write(seq, sent, self.options.size, out);
    }

    fn receive(&mut self, datagram: &[u8], near: WallTime) -> DatagramKind {
        match datagram.first() {
            Some(&v1::VERSION) if self.options.version == IpslaVersion::V1 => {
                return self.answered_v1(datagram);
            }
            Some(&v2::VERSION) if self.options.version == IpslaVersion::V2 => {
                return self.answered_v2(datagram);
            }
            _ => {}
        }
        let form = self.options.form;
        let Some(answer) = form.parse(datagram, near) else { return DatagramKind::Malformed };
        if form.read(datagram).is_ok() && form != ProbeForm::Echo {
            return DatagramKind::Malformed;
        }
        DatagramKind::Reply(Reply {
            seq: answer.seq,
            seq_bits: form.seq_bits(),
            arrived: answer.times.map(|times| times.0),
            answered: answer.times.map(|times| times.1),
            far_seq: answer.number.and_then(|number| self.full_number(number)),
            damaged: datagram.len() < self.options.size,
            earlier: None,
            marks: ReplyMarks::default(),
        })
    }

    fn poll_conversation(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        match &mut self.state {
            IpslaClientState::Opening { sent, due } if due.is_none_or(|due| now.steady >= due) => {
                let Some(wait) = OPEN_TIMEOUTS.get(*sent) else { return false };
                *sent += 1;
                *due = Some(now.steady + *wait);
            }
            IpslaClientState::Open { renew: Some(renew) } if now.steady >= *renew && !self.sent_all => {
                *renew = now.steady + RENEWAL_TIMEOUT;
            }
            _ => return false,
        }
        self.write_request(now, out);
        true
    }

    fn conversation_timeout(&self) -> Option<SteadyTime> {
        match &self.state {
            IpslaClientState::Opening { due, .. } => Some(due.unwrap_or(SteadyTime(i64::MIN))),
            IpslaClientState::Open { renew } if !self.sent_all => *renew,
            _ => None,
        }
    }

    fn conversation_state(&mut self, now: SteadyTime) -> ConversationState {
        if let IpslaClientState::Opening { sent, due } = self.state
            && sent >= OPEN_TIMEOUTS.len()
            && due.is_none_or(|due| now >= due)
        {
            let failure = match self.unsigned {
                true => IpslaFailure::Unsigned,
                false => IpslaFailure::Silent(sent, self.options.target.port()),
            };
            self.state = IpslaClientState::Failed(failure);
        }
        match &self.state {
            IpslaClientState::Opening { .. } => ConversationState::Opening,
            IpslaClientState::Open { .. } => ConversationState::Ready,
            IpslaClientState::Failed(failure) => ConversationState::Failed(failure.to_string()),
        }
    }

    fn request_port(&self) -> Option<u16> {
        Some(self.port)
    }

    fn all_sent(&mut self, _now: SteadyTime) {
        self.sent_all = true;
    }

    fn far_clock(&self) -> bool {
        self.options.form.has_times()
    }

    fn far_resolution(&self) -> Option<Span> {
        self.options.form.resolution()
    }

    fn may_count(&self) -> bool {
        self.options.form != ProbeForm::Echo
    }
}
