//! [`Server`]: answers any number of sessions in bounded memory, never with more bytes than the request has; the answer
//! that opens a session is longer, and an address that may be forged must have sent as many bytes before.

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

/// How long a session is still answered after its longest duration.
const DURATION_GRACE: Span = Span::seconds(2);
/// How long a silent session is kept after the timeout.
const TIMEOUT_GRACE: Span = Span::seconds(5);
/// How long a session without requests is kept.
const UNUSED_TIMEOUT: Span = Span::seconds(30);
/// The interval may be at most this fraction of the timeout.
const INTERVALS_IN_TIMEOUT: i64 = 4;
/// Open requests allowed per address and second, on average, because each answer is a few bytes longer.
const MAX_OPENS: u32 = 100;
/// How long a session is silent, beyond four of its intervals, before it may make room for another client's.
const MIN_IDLE: Span = Span::seconds(5);
/// How many bytes longer than the request the answer that opens a session can be: the token, and a restricted interval
/// with more digits.
pub(super) const OPEN_SURPLUS: usize = TOKEN_LEN + 3;

/// Keys that a server can have: a packet that opens a session is tried against each.
pub const MAX_KEYS: usize = 64;
/// Bytes of a request that opens a session, at most, if there are several keys: what it asks for has a few dozen.
const MAX_OPEN: usize = 512;

/// Bytes of memory that a session takes, at most.
pub const SESSION_BYTES: u64 = 1024;

/// Which stamps are granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllowStamps {
    /// None.
    None,
    /// One: both become their middle.
    Single,
    /// Any.
    #[default]
    Dual,
}

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct IrttRules {
    /// Answer only packets signed with one of these keys, of which the first [`MAX_KEYS`] count. A session stays with the
    /// key that opened it.
    pub keys: Keys<IrttKey>,
    /// Longest test; zero = any.
    pub duration: Span,
    /// Shortest interval: granted to clients that request a shorter one; requests that come faster are not answered.
    pub interval: Span,
    /// Requests that are answered immediately after a pause, however short the interval.
    pub burst: u32,
    /// Longest packet, in bytes.
    pub length: u32,
    /// A session silent for this long is forgotten soon.
    pub timeout: Span,
    /// Stamps granted.
    pub stamps: AllowStamps,
    /// Whether clients choose the TOS octet of answers.
    pub tos: bool,
    /// The fill of answers if the client requests none.
    pub fill: Fill,
    /// Names of fills that may be requested; with a `*` at the end, prefixes.
    pub fills: Vec<String>,
    /// Networks whose source addresses nobody can forge: their clients need not show that they receive.
    pub trusted: Vec<Prefix>,
    /// Sessions at a time.
    pub sessions: usize,
    /// Sessions of one address (IPv6: of one /64).
    pub sessions_per_client: usize,
}

impl Default for IrttRules {
    fn default() -> IrttRules {
        IrttRules {
            keys: Keys::default(),
            duration: Span::ZERO,
            interval: Span::millis(10),
            burst: 5,
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
    /// The parameters granted for `asked`; `None` if it is invalid.
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
        granted.interval = asked.interval.max(self.interval).min(self.longest_interval());
        granted.length = asked.length.clamp(0, self.length.into());
        granted.stamp_at = match (self.stamps, asked.stamp_at) {
            (AllowStamps::None, _) => StampAt::None,
            (AllowStamps::Single, StampAt::Both) => StampAt::Midpoint,
            (_, asked) => asked,
        };
        if !self.tos {
            granted.tos = 0;
        }
        if !asked.fill.is_empty() && !self.allows(&asked.fill) {
            // Its name, or none at all, because the answer must not be longer.
            granted.fill =
                Some(self.fill.to_string()).filter(|f| f.len() <= asked.fill.len()).unwrap_or_default();
        }
        Some(granted)
    }

    /// The key at this place.
    fn key(&self, place: Option<usize>) -> Option<&IrttKey> {
        self.keys.get(place?).map(|(_, key)| key)
    }

    /// The peer that has it.
    fn peer(&self, place: Option<usize>) -> Option<&str> {
        self.keys.get(place?).map(|(name, _)| name.as_str())
    }

    fn longest_interval(&self) -> Span {
        if self.timeout > Span::ZERO { Span(self.timeout.0 / INTERVALS_IN_TIMEOUT) } else { Span(i64::MAX) }
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
    /// The place of its key among those of the rules; `None` if there are none.
    key: Option<usize>,
    params: IrttParams,
    layout: EchoLayout,
    filler: Filler,
    received: ReceivedWindow,
    /// When the first request came, and the last.
    first: Option<SteadyTime>,
    last: SteadyTime,
    /// When the allowance of requests is complete again.
    allowance: SteadyTime,
}

impl IrttSession {
    fn is_expired(&self, rules: &IrttRules, now: SteadyTime) -> bool {
        let unused = self.first.is_none() && now - self.last > UNUSED_TIMEOUT;
        unused || rules.timeout > Span::ZERO && now - self.last > rules.timeout + TIMEOUT_GRACE
    }

    /// Whether it has been silent for longer than its interval explains.
    fn is_idle(&self, now: SteadyTime) -> bool {
        now - self.last > MIN_IDLE + self.params.interval.times(INTERVALS_IN_TIMEOUT)
    }

    /// Whether a request may be answered now: a burst, and one more for each interval.
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

/// How an answer is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrttReaction {
    /// Send what was appended back where the request came from, with this TOS octet.
    Answer {
        /// The whole octet; the ECN bits are only those requested by the client.
        tos: u8,
    },
    /// Nothing to send.
    Taken,
}

/// A test whose first request came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IrttTestStart {
    /// The name of the peer that has its key; `None`: no key is needed.
    pub peer: Option<String>,
    /// How long it lasts; zero: not stated.
    pub duration: Span,
    /// Between two requests; zero: not stated.
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

/// The server's side of all sessions.
#[derive(Debug)]
pub struct Server {
    rules: IrttRules,
    secret: [u8; 32],
    /// Sessions opened so far.
    opened: u64,
    started: SteadyTime,
    sessions: HashMap<u64, IrttSession>,
    per_client: HashMap<access::ClientAddress, usize>,
    /// Sessions without requests, the oldest first; entries of other sessions are skipped.
    unused: VecDeque<u64>,
    opens: Accounts,
    addresses: Addresses,
    begun: Option<IrttTestStart>,
    swept: SteadyTime,
}

impl Server {
    /// A server without sessions, started at `now`. `secret` is random, so that tokens cannot be guessed.
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

    /// Sessions at the moment.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The test whose first request was handled since this was asked last.
    pub fn take_begun(&mut self) -> Option<IrttTestStart> {
        self.begun.take()
    }

    /// Handles a datagram received at `arrival`; the answer is appended to `out`.
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
            // "No test": answers whether it would be opened, and how.
            open if open == flag::OPEN | flag::CLOSE => self.open(&packet, key, false, arrival, now, out),
            flag::CLOSE => self.close(&packet, arrival),
            _ => self.echo(datagram, &packet, arrival, now, out),
        }?;
        packet::sign(self.rules.key(key), &mut out[start..]);
        if packet.flags & flag::OPEN == 0 && out.len() - start > datagram.len() {
            out.truncate(start);
            return Err(Silence::Short);
        }
        Ok(reaction)
    }

    /// The place of the key that signed this packet; `None` if no key is needed. What belongs to a session is signed with
    /// its key and no other.
    fn verify(&self, datagram: &[u8], packet: &IrttPacket<'_>) -> Result<Option<usize>, Silence> {
        let keys = &self.rules.keys;
        if keys.is_empty() {
            return Ok(None);
        }
        let has_signed = |key: &IrttKey| key.has_signed(datagram);
        let place = if packet.flags & (flag::OPEN | flag::REPLY) == 0 {
            let (token, _) = packet.token().ok_or(Silence::Foreign)?;
            let session = self.sessions.get(&token).ok_or(Silence::NoSession)?;
            session.key.filter(|place| self.rules.key(Some(*place)).is_some_and(has_signed))
        } else if keys.len() > 1 && datagram.len() > MAX_OPEN {
            None
        } else {
            keys.position(has_signed).filter(|place| *place < MAX_KEYS)
        };
        place.map(Some).ok_or(Silence::Forged)
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

    /// Creates a session, replacing one that was never used or is idle if necessary. Returns its token.
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
            // Forged requests in its name must not lock a client out.
            self.remove_unused(|s| access::ClientAddress::of(s.client.ip()) == client)?;
        }
        if self.sessions.len() >= self.rules.sessions {
            self.remove_unused(|_| true).or_else(|_| self.remove_idle(client, now.steady))?;
        }
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

    /// Removes the oldest session that was never used, among those for which `meant` is true.
    fn remove_unused(&mut self, meant: impl Fn(&IrttSession) -> bool) -> Result<(), Silence> {
        let sessions = &self.sessions;
        let is_meant = |token: &u64| sessions.get(token).is_some_and(|s| s.first.is_none() && meant(s));
        let place = self.unused.iter().position(is_meant).ok_or(Silence::Limited)?;
        if let Some(token) = self.unused.remove(place) {
            self.remove(token);
        }
        Ok(())
    }

    /// Removes the session that has been idle longest, of those whose client holds more than `client`.
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

    /// The next random number.
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

    /// Forgets what has expired, once a second at most.
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
        // First of all: what is not answered must not appear in the statistics of received requests.
        if !session.may_ask(rules, now.steady) {
            return Err(Silence::Limited);
        }
        if session.first.is_none() {
            let IrttParams { duration, interval, .. } = session.params;
            let peer = rules.peer(session.key).map(str::to_owned);
            self.begun = Some(IrttTestStart { peer, duration, interval });
            self.addresses.prove(access::ClientAddress::of(arrival.from.ip()), now.steady);
        }
        let first = *session.first.get_or_insert(now.steady);
        session.last = now.steady;
        let (count, window) = session.received.note(asked.seq);
        let over = rules.duration > Span::ZERO && now.steady - first > rules.duration + DURATION_GRACE;

        // When the request came, on the steady clock: as long ago as on the other one.
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
        // The payload: as long as negotiated, but not longer than that of the request.
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

/// The session of this token, if the packet came from its client.
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
        // Its places in three tables, and the fills that its client names.
        let bytes = size_of::<IrttSession>() + 64 + 2 * super::super::params::FILL_LEN;
        assert!(2 * bytes as u64 <= SESSION_BYTES, "{bytes}");
    }
}
