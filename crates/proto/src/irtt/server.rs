//! [`Server`]: answers any number of sessions in bounded memory. Answers are never longer than requests, with
//! one exception: the answer that opens a session is a few bytes longer, and an address that may be forged
//! must have sent at least as many bytes before.

use super::addresses::Addresses;
use super::fill::{Fill, Filler};
use super::packet::{
    self, EchoFields, EchoLayout, IrttKey, IrttPacket, IrttPacketError, ServerInstant, TOKEN_LEN, flag,
};
use super::params::{IrttParams, StampAt, VERSION};
use super::received::ReceivedWindow;
use crate::access::{self, answerable};
use crate::accounts::{Accounts, ClientLimits};
use crate::machine::Tick;
use crate::policy::Keys;
use crate::twoway::reflect::{RequestArrival, Silence};
use core::net::SocketAddr;
use hmac::{Hmac, KeyInit, Mac};
use jitlat_core::prefix::Prefix;
use jitlat_core::{Span, SteadyTime, units};
use sha2::Sha256;
use std::collections::{HashMap, VecDeque};

/// Time beyond its maximum duration for which a session is still answered.
const DURATION_GRACE: Span = Span::seconds(2);
/// Time beyond the timeout for which a silent session is retained.
const TIMEOUT_GRACE: Span = Span::seconds(5);
/// Time for which a session is retained before its first request.
const UNUSED_TIMEOUT: Span = Span::seconds(30);
/// Ratio of the timeout to the longest interval that is granted.
const INTERVALS_IN_TIMEOUT: i64 = 4;
/// Maximum average number of open requests answered per address and second. Limited because each answer is a
/// few bytes longer than its request.
const MAX_OPENS: u32 = 100;
/// Time for which a session must be silent, in addition to four of its intervals, before another client's
/// session may replace it.
const MIN_IDLE: Span = Span::seconds(5);
/// Maximum number of bytes by which the answer that opens a session exceeds its request: the token, and an
/// interval that may have more digits after it was restricted.
pub(super) const OPEN_SURPLUS: usize = TOKEN_LEN + 3;

/// Maximum number of keys of a server. Limited because each key is tried on every packet that opens a session.
pub const MAX_KEYS: usize = 64;
/// Maximum length in bytes of a request that opens a session if there are several keys, which bounds the work
/// of trying them. Usual requests have a few dozen bytes.
const MAX_OPEN: usize = 512;

/// Maximum memory per session, in bytes.
pub const SESSION_BYTES: u64 = 1024;

/// Timestamps that a server is willing to grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllowStamps {
    /// None.
    None,
    /// One timestamp: a client that requests both gets the midpoint.
    Single,
    /// Any.
    #[default]
    Dual,
}

/// Rules of a server.
#[derive(Clone, Debug)]
pub struct IrttRules {
    /// Keys; only the first [`MAX_KEYS`] are used. Only packets authenticated with one of them are answered. A
    /// session uses the key with which it was opened.
    pub keys: Keys<IrttKey>,
    /// Maximum duration of a test; zero: no limit.
    pub duration: Span,
    /// Minimum interval. Clients that request a shorter one are granted this one, and requests that arrive
    /// faster are not answered.
    pub interval: Span,
    /// Number of requests that are answered immediately after a pause, regardless of the interval.
    pub burst: u32,
    /// Maximum rate of answers to one client. Clients that request more are granted a longer interval, because unanswered
    /// packets would look like loss on the path.
    pub rate: ClientLimits,
    /// Maximum length of a packet, in bytes.
    pub length: u32,
    /// Time without requests after which a session is removed, with a short delay.
    pub timeout: Span,
    /// Timestamps that clients may request.
    pub stamps: AllowStamps,
    /// True if clients may choose the TOS octet of answers.
    pub tos: bool,
    /// Fill of answers if the client requests none.
    pub fill: Fill,
    /// Names of fills that clients may request. A name that ends with `*` stands for all names with that
    /// prefix.
    pub fills: Vec<String>,
    /// Networks whose source addresses cannot be forged: clients in them need not prove that they receive
    /// packets.
    pub trusted: Vec<Prefix>,
    /// Maximum number of sessions at a time.
    pub sessions: usize,
    /// Maximum number of sessions per client address (IPv6: per /64).
    pub sessions_per_client: usize,
}

impl Default for IrttRules {
    fn default() -> IrttRules {
        IrttRules {
            keys: Keys::default(),
            duration: Span::ZERO,
            interval: Span::millis(10),
            burst: 5,
            rate: ClientLimits::UNLIMITED,
            length: jitlat_core::spec::MAX_PAYLOAD.into(),
            timeout: Span::seconds(60),
            stamps: AllowStamps::Dual,
            tos: true,
            fill: Fill::default(),
            fills: vec!["rand".to_owned()],
            trusted: Vec::new(),
            sessions: 4096,
            sessions_per_client: 64,
        }
    }
}

impl IrttRules {
    /// Returns the parameters granted for `asked`; `None` if `asked` is invalid.
    pub fn grant(&self, asked: &IrttParams) -> Option<IrttParams> {
        let wants_stamps = asked.stamp_at != StampAt::None;
        if wants_stamps && asked.clocks == super::params::ServerClocks::None
            || !(0..=255).contains(&asked.tos)
        {
            return None;
        }
        let mut granted = IrttParams { version: VERSION, ..asked.clone() };
        if self.duration > Span::ZERO {
            granted.duration = asked.duration.min(self.duration);
        }
        granted.length = asked.length.clamp(0, self.length.into());
        // The interval is limited, so that the session does not time out between two requests.
        let interval = asked.interval.max(self.interval).max(self.interval_within_rate(granted.length));
        granted.interval = interval.min(self.longest_interval());
        granted.stamp_at = match (self.stamps, asked.stamp_at) {
            (AllowStamps::None, _) => StampAt::None,
            // A single timestamp, halfway between both.
            (AllowStamps::Single, StampAt::Both) => StampAt::Midpoint,
            (_, asked) => asked,
        };
        if !self.tos {
            granted.tos = 0;
        }
        if !asked.fill.is_empty() && !self.allows(&asked.fill) {
            // The answer must not be longer, so a fill that is not granted becomes an empty name.
            granted.fill =
                Some(self.fill.to_string()).filter(|f| f.len() <= asked.fill.len()).unwrap_or_default();
        }
        Some(granted)
    }

    /// Returns the key with this index; `None` without an index.
    fn key(&self, index: Option<usize>) -> Option<&IrttKey> {
        self.keys.get(index?).map(|(_, key)| key)
    }

    /// Returns the name of the peer that has the key with this index; `None` without an index.
    fn peer(&self, index: Option<usize>) -> Option<&str> {
        self.keys.get(index?).map(|(name, _)| name.as_str())
    }

    fn longest_interval(&self) -> Span {
        if self.timeout > Span::ZERO { Span(self.timeout.0 / INTERVALS_IN_TIMEOUT) } else { Span(i64::MAX) }
    }

    /// Returns the shortest interval at which packets of `length` bytes do not exceed the rate.
    fn interval_within_rate(&self, length: i64) -> Span {
        const SECOND: u128 = 1_000_000_000;
        let at = |units: u128, per_second: u128| (units * SECOND).div_ceil(per_second.max(1));
        let packets = at(1, self.rate.packets_per_second.into());
        let bytes =
            at(length.max(packet::MIN_LEN as i64).unsigned_abs().into(), self.rate.bytes_per_second.into());
        Span(i64::try_from(packets.max(bytes)).unwrap_or(i64::MAX))
    }

    fn allows(&self, fill: &str) -> bool {
        let matches = |allowed: &String| match allowed.strip_suffix('*') {
            Some(start) => fill.starts_with(start),
            None => allowed == fill,
        };
        fill.parse::<Fill>().is_ok() && self.fills.iter().any(matches)
    }
}

#[derive(Clone, Debug)]
struct IrttSession {
    client: SocketAddr,
    /// Index of the session's key in the rules; `None` if the rules have no keys.
    key: Option<usize>,
    params: IrttParams,
    layout: EchoLayout,
    filler: Filler,
    received: ReceivedWindow,
    /// Time of the first request; `None` before it.
    first: Option<SteadyTime>,
    /// Time of the last request.
    last: SteadyTime,
    /// Time at which the full burst is available again.
    allowance: SteadyTime,
}

impl IrttSession {
    fn is_expired(&self, rules: &IrttRules, now: SteadyTime) -> bool {
        let unused = self.first.is_none() && now - self.last > UNUSED_TIMEOUT;
        unused || rules.timeout > Span::ZERO && now - self.last > rules.timeout + TIMEOUT_GRACE
    }

    /// True if the session has been silent for much longer than its interval.
    fn is_idle(&self, now: SteadyTime) -> bool {
        now - self.last > MIN_IDLE + self.params.interval.times(INTERVALS_IN_TIMEOUT)
    }

    /// True if a request may be answered now. A burst is allowed, and one more request per interval.
    fn may_ask(&mut self, rules: &IrttRules, now: SteadyTime) -> bool {
        let (gap, burst) = (rules.interval, rules.interval.times(i64::from(rules.burst.max(1))));
        let whole = self.allowance.max(now);
        if whole - now > burst - gap {
            return false;
        }
        self.allowance = whole + gap;
        true
    }
}

/// Action to take for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrttReaction {
    /// Send the appended bytes back to the source of the request.
    Answer {
        /// TOS octet of the answer. Its ECN bits are those that the client requested.
        tos: u8,
    },
    /// Send nothing.
    Taken,
}

/// A test whose first request has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IrttTestStart {
    /// Name of the peer that has the key; `None` if no key is required.
    pub peer: Option<String>,
    /// Duration of the test; zero: not specified.
    pub duration: Span,
    /// Time between two requests; zero: not specified.
    pub interval: Span,
}

impl core::fmt::Display for IrttTestStart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let stated = |span: Span| match span {
            Span::ZERO => "not stated".to_owned(),
            _ => units::duration(span),
        };
        write!(f, "session: duration {}, interval {}", stated(self.duration), stated(self.interval))?;
        self.peer.as_ref().map_or(Ok(()), |peer| write!(f, ", the key of {peer}"))
    }
}

/// Server of all sessions.
#[derive(Debug)]
pub struct Server {
    rules: IrttRules,
    secret: [u8; 32],
    /// Number of sessions opened so far.
    opened: u64,
    started: SteadyTime,
    sessions: HashMap<u64, IrttSession>,
    per_client: HashMap<access::ClientAddress, usize>,
    /// Tokens of sessions without requests, oldest first. Tokens of other sessions may be included and are
    /// skipped.
    unused: VecDeque<u64>,
    opens: Accounts,
    addresses: Addresses,
    begun: Option<IrttTestStart>,
    swept: SteadyTime,
}

impl Server {
    /// Creates a server without sessions, starting at `now`. `secret` must be random, so that tokens cannot
    /// be guessed.
    pub fn new(rules: IrttRules, secret: [u8; 32], now: SteadyTime) -> Server {
        let [seed, ..] = secret.as_chunks::<8>().0 else { unreachable!("32 bytes are four times eight") };
        let opens = ClientLimits { packets_per_second: MAX_OPENS, bytes_per_second: u64::MAX };
        Server {
            opens: Accounts::new(opens, u64::from_le_bytes(*seed)),
            addresses: Addresses::new(u64::from_le_bytes(*seed)),
            begun: None,
            rules,
            secret,
            opened: 0,
            started: now,
            sessions: HashMap::new(),
            per_client: HashMap::new(),
            unused: VecDeque::new(),
            swept: now,
        }
    }

    /// Returns the current number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the test whose first request was handled since the last call, if any.
    pub fn take_begun(&mut self) -> Option<IrttTestStart> {
        self.begun.take()
    }

    /// Handles a datagram that was received at `arrival`, and appends the answer to `out`.
    pub fn handle(
        &mut self,
        datagram: &[u8],
        arrival: &RequestArrival,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<IrttReaction, Silence> {
        if !answerable(arrival.from) {
            return Err(Silence::Source);
        }
        let packet = IrttPacket::read(datagram, !self.rules.keys.is_empty()).map_err(|e| match e {
            IrttPacketError::Foreign => Silence::Foreign,
            IrttPacketError::Forged => Silence::Forged,
        })?;
        let key = self.verify(datagram, &packet)?;
        if packet.flags & flag::REPLY != 0 {
            return Err(Silence::Loop);
        }
        let start = out.len();
        let reaction = match packet.flags {
            flag::OPEN => self.open(&packet, key, true, arrival, now, out),
            // A packet with both flags asks only for the parameters that would be granted; no session is
            // opened.
            open if open == flag::OPEN | flag::CLOSE => self.open(&packet, key, false, arrival, now, out),
            flag::CLOSE => self.close(&packet, arrival),
            _ => self.echo(datagram, &packet, arrival, now, out),
        }?;
        packet::sign(self.rules.key(key), &mut out[start..]);
        // Answers longer than requests would let forged requests amplify traffic.
        if packet.flags & flag::OPEN == 0 && out.len() - start > datagram.len() {
            out.truncate(start);
            return Err(Silence::Short);
        }
        Ok(reaction)
    }

    /// Returns the index of the key that authenticates the packet; `None` if no key is required. A packet of
    /// a session is only valid with the key of this session.
    fn verify(&self, datagram: &[u8], packet: &IrttPacket<'_>) -> Result<Option<usize>, Silence> {
        let keys = &self.rules.keys;
        if keys.is_empty() {
            return Ok(None);
        }
        let has_signed = |key: &IrttKey| key.has_signed(datagram);
        // The session determines the key, so only one key has to be tried.
        let index = if packet.flags & (flag::OPEN | flag::REPLY) == 0 {
            let (token, _) = packet.token().ok_or(Silence::Foreign)?;
            let session = self.sessions.get(&token).ok_or(Silence::NoSession)?;
            session.key.filter(|index| self.rules.key(Some(*index)).is_some_and(has_signed))
        } else if keys.len() > 1 && datagram.len() > MAX_OPEN {
            None
        } else {
            keys.position(has_signed).filter(|index| *index < MAX_KEYS)
        };
        index.map(Some).ok_or(Silence::Forged)
    }

    fn open(
        &mut self,
        packet: &IrttPacket<'_>,
        key: Option<usize>,
        test: bool,
        arrival: &RequestArrival,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<IrttReaction, Silence> {
        let asked = IrttParams::parse(packet.body).map_err(|_| Silence::Foreign)?;
        let granted = self.rules.grant(&asked).ok_or(Silence::Foreign)?;
        let mut params = Vec::new();
        granted.write(&mut params);
        if params.len() + TOKEN_LEN > packet.body.len() + OPEN_SURPLUS {
            return Err(Silence::Short);
        }
        let client = access::ClientAddress::of(arrival.from.ip());
        if self.opens.take(client, 0, now.steady).is_err() {
            return Err(Silence::Limited);
        }
        let head = usize::from(key.is_some()) * packet::HMAC_LEN + packet::MIN_LEN;
        let (received, answer) = (head + packet.body.len(), head + TOKEN_LEN + params.len());
        let trusted = self.rules.trusted.iter().any(|network| network.contains(arrival.from.ip()));
        if !trusted && !self.addresses.may_answer(client, received, answer, now.steady) {
            return Err(Silence::Short);
        }
        let tos = granted.tos as u8;
        let (token, close) =
            if test { (self.admit(granted, key, arrival, now)?, 0) } else { (0, flag::CLOSE) };
        packet::begin(flag::OPEN | flag::REPLY | close, self.rules.key(key), out);
        out.extend(token.to_le_bytes());
        out.extend(params);
        Ok(IrttReaction::Answer { tos })
    }

    /// Creates a session and returns its token. If necessary, it replaces a session that is idle or was never
    /// used.
    fn admit(
        &mut self,
        params: IrttParams,
        key: Option<usize>,
        arrival: &RequestArrival,
        now: Tick,
    ) -> Result<u64, Silence> {
        self.sweep(now.steady);
        let client = access::ClientAddress::of(arrival.from.ip());
        if self.per_client.get(&client).copied().unwrap_or(0) >= self.rules.sessions_per_client {
            // Otherwise, requests with a client's address as forged source could lock this client out.
            self.remove_unused(|s| access::ClientAddress::of(s.client.ip()) == client)?;
        }
        if self.sessions.len() >= self.rules.sessions {
            self.remove_unused(|_| true).or_else(|_| self.remove_idle(client, now.steady))?;
        }
        // 0 stands for "no session" in the protocol.
        let token = loop {
            let token = self.draw();
            if token != 0 && !self.sessions.contains_key(&token) {
                break token;
            }
        };
        let fill = if params.fill.is_empty() { None } else { params.fill.parse().ok() };
        let session = IrttSession {
            client: arrival.from,
            key,
            layout: EchoLayout::new(&params),
            filler: Filler::new(fill.unwrap_or_else(|| self.rules.fill.clone()), token),
            params,
            received: ReceivedWindow::default(),
            first: None,
            last: now.steady,
            allowance: now.steady,
        };
        self.sessions.insert(token, session);
        *self.per_client.entry(client).or_default() += 1;
        self.unused.push_back(token);
        Ok(token)
    }

    /// Removes the oldest unused session for which `meant` returns true.
    fn remove_unused(&mut self, meant: impl Fn(&IrttSession) -> bool) -> Result<(), Silence> {
        let sessions = &self.sessions;
        let is_meant = |token: &u64| sessions.get(token).is_some_and(|s| s.first.is_none() && meant(s));
        let index = self.unused.iter().position(is_meant).ok_or(Silence::Limited)?;
        if let Some(token) = self.unused.remove(index) {
            self.remove(token);
        }
        Ok(())
    }

    /// Removes the session that has been idle longest, among clients with more sessions than `client`.
    fn remove_idle(&mut self, client: access::ClientAddress, now: SteadyTime) -> Result<(), Silence> {
        let holds = |client| self.per_client.get(&client).copied().unwrap_or(0);
        let own = holds(client);
        let may_go =
            |s: &IrttSession| s.is_idle(now) && holds(access::ClientAddress::of(s.client.ip())) > own;
        let idle = self.sessions.iter().filter(|(_, s)| may_go(s));
        let longest = idle.min_by_key(|(_, s)| s.last).map(|(token, _)| *token);
        self.remove(longest.ok_or(Silence::Limited)?);
        Ok(())
    }

    /// Returns the next random number.
    fn draw(&mut self) -> u64 {
        self.opened += 1;
        let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.secret)
            .unwrap_or_else(|_| unreachable!("any key length is legal"))
            .chain_update(self.opened.to_le_bytes())
            .finalize()
            .into_bytes();
        mac.iter().take(8).fold(0, |n, b| n << 8 | u64::from(*b))
    }

    fn remove(&mut self, token: u64) {
        let Some(session) = self.sessions.remove(&token) else { return };
        let client = access::ClientAddress::of(session.client.ip());
        if let Some(count) = self.per_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&client);
            }
        }
    }

    /// Removes expired sessions, at most once per second.
    fn sweep(&mut self, now: SteadyTime) {
        if now - self.swept < Span::seconds(1) {
            return;
        }
        self.swept = now;
        let expired = self.sessions.iter().filter(|(_, s)| s.is_expired(&self.rules, now));
        let expired: Vec<u64> = expired.map(|(token, _)| *token).collect();
        expired.into_iter().for_each(|token| self.remove(token));
        let sessions = &self.sessions;
        self.unused.retain(|token| sessions.get(token).is_some_and(|s| s.first.is_none()));
    }

    fn close(&mut self, packet: &IrttPacket<'_>, arrival: &RequestArrival) -> Result<IrttReaction, Silence> {
        let (token, _) = packet.token().ok_or(Silence::Foreign)?;
        find(&mut self.sessions, token, arrival)?;
        self.remove(token);
        Ok(IrttReaction::Taken)
    }

    fn echo(
        &mut self,
        datagram: &[u8],
        packet: &IrttPacket<'_>,
        arrival: &RequestArrival,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<IrttReaction, Silence> {
        let (token, body) = packet.token().ok_or(Silence::Foreign)?;
        let (rules, started) = (&self.rules, self.started);
        let session = find(&mut self.sessions, token, arrival)?;
        let asked = session.layout.read(body).ok_or(Silence::Short)?;
        if session.is_expired(rules, now.steady) {
            self.remove(token);
            return Err(Silence::NoSession);
        }
        // This check comes first, because requests that are not answered must not count as received.
        if !session.may_ask(rules, now.steady) {
            return Err(Silence::Limited);
        }
        if session.first.is_none() {
            let IrttParams { duration, interval, .. } = session.params;
            let peer = rules.peer(session.key).map(str::to_owned);
            self.begun = Some(IrttTestStart { peer, duration, interval });
            // The client knows the token, so it has received the answer at its address.
            self.addresses.prove(access::ClientAddress::of(arrival.from.ip()), now.steady);
        }
        let first = *session.first.get_or_insert(now.steady);
        session.last = now.steady;
        let (count, window) = session.received.note(asked.seq);
        let over = rules.duration > Span::ZERO && now.steady - first > rules.duration + DURATION_GRACE;

        // Arrival time of the request on the steady clock, derived from its age on the wall clock.
        let came = now.steady - (now.wall - arrival.at).max(Span::ZERO);
        let monotonic = |at: SteadyTime| (at - started).0.max(1);
        let received = ServerInstant { wall: Some(arrival.at.0), monotonic: Some(monotonic(came)) };
        let sent = ServerInstant { wall: Some(now.wall.0), monotonic: Some(monotonic(now.steady)) };
        let middle = |a: Option<i64>, b: Option<i64>| Some(a? + (b? - a?) / 2);
        let midpoint = ServerInstant {
            wall: middle(received.wall, sent.wall),
            monotonic: middle(received.monotonic, sent.monotonic),
        };
        let start = out.len();
        let close = if over { flag::CLOSE } else { 0 };
        packet::begin(flag::REPLY | close, rules.key(session.key), out);
        out.extend(token.to_le_bytes());
        session.layout.write(&EchoFields { seq: asked.seq, count, window, received, midpoint, sent }, out);
        // The payload has the negotiated length, but is never longer than that of the request.
        let fields = out.len();
        let agreed = usize::try_from(session.params.length).unwrap_or(0);
        let len = agreed.min(datagram.len()).max(fields - start);
        let payload = datagram.get(fields - start..len).unwrap_or_default();
        out.extend(payload);
        session.filler.fill(&mut out[fields..]);
        let tos = session.params.tos as u8;
        if over {
            self.remove(token);
        }
        Ok(IrttReaction::Answer { tos })
    }
}

/// Returns the session that has this token, if the packet was sent by its client.
fn find<'a>(
    sessions: &'a mut HashMap<u64, IrttSession>,
    token: u64,
    arrival: &RequestArrival,
) -> Result<&'a mut IrttSession, Silence> {
    sessions.get_mut(&token).filter(|s| s.client == arrival.from).ok_or(Silence::NoSession)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_takes_no_more_memory_than_is_counted() {
        // A session has entries in three tables, and stores the names of the fills.
        let bytes = size_of::<IrttSession>() + 64 + 2 * super::super::params::FILL_LEN;
        assert!(2 * bytes as u64 <= SESSION_BYTES, "{bytes}");
    }
}
