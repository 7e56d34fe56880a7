//! The session reflector (RFC 8762 §4.3, RFC 8972): stateless, or with a packet count per session in bounded
//! memory.

use crate::access::{ClientAddress, answerable};
use crate::machine::Tick;
use crate::shares::{Rank, SessionName, ShareTable};
use crate::stamp::auth::StampKey;
use crate::stamp::packet::{StampAnswer, StampLayout, StampRequest, TRUNCATED, is_answer, is_stamp};
use crate::stamp::tlv::{
    AccessReport, ClassOfService, DirectMeasurement, EcnReply, FollowUpTelemetry, HEADER_LEN, MicroSession,
    ReturnPath, Tlv, TlvStep, Tlvs, flag, kind,
};
use crate::twoway::reflect::{RequestArrival, Silence};
use core::net::{IpAddr, SocketAddr};
use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::prefix::Prefix;
use jitlat_core::{Ecn, Span, StampSource, SteadyTime, WallTime};

/// Rules of a reflector.
#[derive(Clone, Debug)]
pub struct ReflectorRules {
    /// Key of the authenticated mode; only packets authenticated with it are answered. `None`:
    /// unauthenticated mode.
    pub key: Option<StampKey>,
    /// Keys by network, which override `key`. The longest prefix that contains the client's address is used.
    /// If there are keys, addresses without a key are not answered.
    pub keys: Vec<(Prefix, StampKey)>,
    /// Maximum number of sessions with a packet count; 0: stateless. A new session replaces the one that has
    /// been idle longest.
    pub sessions: usize,
    /// Maximum number of sessions per [`ClientAddress`].
    pub sessions_per_client: usize,
    /// Time without requests after which a session is removed.
    pub idle: Span,
    /// True if the class-of-service extension may choose DSCP and ECN field of answers.
    pub choose_dscp: bool,
    /// Synchronisation source reported while the clock is synchronised: 1 NTP, 2 PTP, 3 SSU/BITS, 4 GNSS.
    /// Otherwise, 5 (free running) is reported.
    pub sync_source: u8,
    /// Most precise source of receive timestamps on this host.
    pub stamps: StampSource,
    /// Networks whose source addresses cannot be forged. Their requests may be shorter than an answer.
    pub trusted: Vec<Prefix>,
    /// Identifier of the link on which requests arrive, in micro-sessions (RFC 9534). Requests for another link are not
    /// answered. `None`: unknown.
    pub link_id: Option<u16>,
}

impl Default for ReflectorRules {
    fn default() -> ReflectorRules {
        ReflectorRules {
            key: None,
            keys: Vec::new(),
            sessions: 16_384,
            sessions_per_client: 4096,
            idle: Span::seconds(60),
            choose_dscp: true,
            sync_source: 1,
            stamps: StampSource::User,
            trusted: Vec::new(),
            link_id: None,
        }
    }
}

/// Pause after which a lower sequence number begins another test of the same sender: no packet is reordered by as much
/// as this pause.
const MIN_RESTART_GAP: Span = Span::seconds(1);

#[derive(Clone, Copy, Debug, Default)]
struct ReflectorSession {
    answers: u32,
    received: u32,
    last_seen: i64,
    /// Highest sequence number of a request.
    highest: u32,
    /// Send time of the request with the highest number, on the sender's clock.
    highest_sent: i64,
    last_answer: u32,
    last_sent: Option<i64>,
}

/// An answer that must be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampReflection {
    /// Length of the answer in bytes. It exceeds the length of the request only for trusted networks.
    pub len: usize,
    /// DSCP of the answer.
    pub dscp: u8,
    /// ECN field of the answer.
    pub mark: Ecn,
    /// Session of the answer, for [`StampSessionReflector::left`] and [`StampSessionReflector::not_sent`].
    pub ssid: u16,
    /// Number of the answer, for [`StampSessionReflector::left`] and [`StampSessionReflector::not_sent`].
    pub seq: u32,
    /// True if the next answer should report the departure time of this one.
    pub follow_up: bool,
    /// True for the first answer of a session; never true if stateless.
    pub first: bool,
    /// True if the request is shorter than a complete answer and the client is not trusted, so that the answer has only
    /// the length of the request.
    pub cut: bool,
    /// True if the answer must leave through the interface on which the request arrived.
    pub same_link: bool,
}

/// Answers STAMP and TWAMP Light requests.
#[derive(Clone, Debug)]
pub struct StampSessionReflector {
    rules: ReflectorRules,
    sessions: Sessions,
}

impl StampSessionReflector {
    /// Creates a reflector without sessions.
    pub fn new(rules: ReflectorRules) -> StampSessionReflector {
        StampSessionReflector { sessions: ShareTable::new(rules.sessions, rules.sessions_per_client), rules }
    }

    /// Maximum memory per session, in bytes.
    pub const BYTES_PER_SESSION: usize = Sessions::bytes_per_entry();

    /// Returns the current number of sessions with a packet count.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Writes the answer to `request` into `answer`, which must be at least as long as the request and as a complete
    /// answer. `error` is the error estimate of this host's clock.
    ///
    /// A request of TWAMP Light can be shorter than an answer. Clients in trusted networks get a complete
    /// answer; others get an answer truncated to the length of the request.
    pub fn reflect(
        &mut self,
        request: &[u8],
        arrival: &RequestArrival,
        now: Tick,
        error: ErrorEstimate,
        answer: &mut [u8],
    ) -> Result<StampReflection, Silence> {
        let key = self.rules.key_of(arrival.from.ip());
        let layout = if self.rules.is_keyed() { StampLayout::Keyed } else { StampLayout::Clear };
        if !answerable(arrival.from) {
            return Err(Silence::Source);
        }
        let whole = layout.shortest_answer();
        let len = match request.len() {
            short if short < whole && self.rules.trusts(arrival.from.ip()) => whole,
            any => any,
        };
        if request.len() < self.rules.shortest_request() || answer.len() < len {
            return Err(Silence::Short);
        }
        let asked = StampRequest::parse(layout, request).ok_or(Silence::Foreign)?;
        if !asked.error.is_valid() {
            return Err(Silence::Foreign);
        }
        if self.rules.is_keyed() && !key.is_some_and(|key| key.verify_base(request)) {
            return Err(Silence::Forged);
        }
        if is_answer(layout, request) {
            return Err(Silence::Loop);
        }
        // The answer uses the time format of the request, which the sender is sure to understand.
        let error = error.with_format(asked.error.format());

        let base = layout.base().min(len);
        let is_truncated = len < layout.least_answer();
        let is_stamp = is_stamp(layout, request);
        let ssid = if is_stamp { asked.ssid } else { 0 };
        let name = SessionName { client: arrival.from, id: ssid };
        let sent = asked.error.decode(asked.sent, arrival.at);
        let session = session(&self.rules, &mut self.sessions, name, (asked.seq, sent), now.steady);
        let first = session.as_ref().is_some_and(|s| s.received == 0);
        let (seq, counters) = match session {
            Some(s) => {
                let seq = s.answers;
                s.answers = s.answers.wrapping_add(1);
                s.received = s.received.wrapping_add(1);
                let before = (s.last_answer, s.last_sent, s.received);
                s.last_answer = seq;
                // The departure time is not known yet; it is recorded by `left`.
                s.last_sent = None;
                (seq, Some(before))
            }
            None => (asked.seq, None),
        };

        let answer = &mut answer[..len];
        let copied = request.len().min(len);
        answer[..copied].copy_from_slice(&request[..copied]);
        answer[..base].fill(0);
        let written = StampAnswer {
            // A truncated answer has no copy of the request's number.
            seq: if is_truncated { asked.seq } else { seq },
            answered: error.encode(now.wall),
            error: if is_truncated { TRUNCATED.with_format(error.format()) } else { error },
            ssid: asked.ssid,
            arrived: error.encode(arrival.at),
            sender_seq: asked.seq,
            sender_sent: asked.sent,
            sender_error: asked.error,
            sender_ttl: arrival.ttl,
        };
        written.write(layout, answer);
        let received_dscp = arrival.traffic_class.map_or(0, |c| c >> 2);
        let cut = len < whole;
        let mut reflected = StampReflection {
            len,
            dscp: received_dscp,
            mark: Ecn::NotEct,
            ssid,
            seq,
            follow_up: false,
            first,
            cut,
            same_link: false,
        };
        if len > base && is_stamp {
            let tlvs = &mut answer[base..];
            let done = self.rules.extensions(key, &asked, &written, counters, arrival, tlvs, &mut reflected);
            if let Err(why) = done {
                // Numbers count the answers sent.
                self.not_sent(arrival.from, ssid, seq);
                return Err(why);
            }
        }
        if let Some(key) = key {
            key.sign_base(answer);
        }
        Ok(reflected)
    }

    /// Counts a request of a session that is not answered because of a rate limit, so that the counters of direct
    /// measurement show its sender that it arrived. A reflector with keys counts nothing, because the request may be
    /// forged.
    pub fn limited(&mut self, request: &[u8], from: SocketAddr) {
        let layout = StampLayout::Clear;
        if self.rules.is_keyed() || request.len() < self.rules.shortest_request() {
            return;
        }
        let Some(asked) = StampRequest::parse(layout, request) else { return };
        let id = if is_stamp(layout, request) { asked.ssid } else { 0 };
        if let Some(session) = self.sessions.get_mut(&SessionName { client: from, id }) {
            session.received = session.received.wrapping_add(1);
        }
    }

    /// Records that answer `seq` to `from` left at `at`, which the follow-up extension of the next answer
    /// reports. Ignored if the session has had another answer in the meantime.
    pub fn left(&mut self, from: SocketAddr, ssid: u16, seq: u32, at: WallTime) {
        if let Some(session) =
            self.sessions.get_mut(&SessionName { client: from, id: ssid }).filter(|s| s.last_answer == seq)
        {
            session.last_sent = Some(at.0);
        }
    }

    /// Records that answer `seq` to `from` could not be sent. Numbers count the answers sent (RFC 8762 §4.2),
    /// so the next answer gets the same number unless a later one has been sent.
    pub fn not_sent(&mut self, from: SocketAddr, ssid: u16, seq: u32) {
        let session = self.sessions.get_mut(&SessionName { client: from, id: ssid });
        if let Some(session) = session.filter(|s| s.answers == seq.wrapping_add(1)) {
            session.answers = seq;
        }
    }
}

impl ReflectorRules {
    /// Returns the length of the shortest request that is answered, in bytes.
    pub fn shortest_request(&self) -> usize {
        match self.is_keyed() {
            true => StampLayout::Keyed.shortest_answer(),
            false => StampLayout::Clear.shortest_request(),
        }
    }

    /// True if only authenticated packets are answered.
    fn is_keyed(&self) -> bool {
        self.key.is_some() || !self.keys.is_empty()
    }

    /// True if `address` cannot be forged.
    fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// Returns the key of the client at `address`; `None` if there is none.
    fn key_of(&self, address: IpAddr) -> Option<&StampKey> {
        let address = address.to_canonical();
        let own = self.keys.iter().filter(|(network, _)| network.contains(address));
        own.max_by_key(|(network, _)| network.length()).map(|(_, key)| key).or(self.key.as_ref())
    }

    /// Fills in the extensions `tlvs` of an answer.
    ///
    /// # Errors
    /// The request must not be answered.
    #[expect(clippy::too_many_arguments)]
    fn extensions(
        &self,
        key: Option<&StampKey>,
        asked: &StampRequest,
        written: &StampAnswer,
        counters: Option<(u32, Option<i64>, u32)>,
        arrival: &RequestArrival,
        tlvs: &mut [u8],
        reflected: &mut StampReflection,
    ) -> Result<(), Silence> {
        if let Some(key) = key
            && !key.verify_tlvs(asked.seq, tlvs)
        {
            // Extensions whose HMAC is wrong are returned with this flag and not processed (RFC 8972 §4.8).
            mark_all(tlvs, flag::INTEGRITY);
            return Ok(());
        }
        let mut at = 0;
        loop {
            let (kind, length) = match Tlvs::new(&tlvs[at..]).next() {
                None => break,
                Some(TlvStep::Malformed(_)) => {
                    tlvs[at] |= flag::MALFORMED;
                    break;
                }
                Some(TlvStep::Whole(_, Tlv { kind, value, .. })) => (kind, value.len()),
            };
            let (header, rest) = tlvs[at..].split_at_mut(HEADER_LEN);
            let value = &mut rest[..length];
            let filled = Understood::if_filled;
            let understood = match kind {
                kind::PADDING => Understood::Yes,
                kind::TIMESTAMP_INFO => filled(self.timestamp_info(value, written.error)),
                kind::CLASS_OF_SERVICE => filled(self.class_of_service(value, arrival, reflected)),
                kind::DIRECT_MEASUREMENT => filled(direct_measurement(value, written, counters)),
                kind::FOLLOW_UP => {
                    reflected.follow_up = counters.is_some();
                    filled(follow_up(value, written, counters))
                }
                kind::ACCESS_REPORT => access_report(value),
                kind::MICRO_SESSION => self.micro_session(value)?,
                kind::RETURN_PATH => return_path(value, arrival, reflected)?,
                kind::HMAC if key.is_some() => Understood::Yes,
                _ => Understood::No,
            };
            understood.mark(&mut header[0]);
            at += HEADER_LEN + length;
        }
        if let Some(key) = key {
            key.sign_tlvs(written.seq, tlvs);
        }
        Ok(())
    }

    fn timestamp_info(&self, value: &mut [u8], error: ErrorEstimate) -> Option<()> {
        let source = if error.synchronised() { self.sync_source } else { 5 };
        let method = if self.stamps == StampSource::Hardware { 1 } else { 2 };
        let fields = value.first_chunk_mut::<4>()?;
        *fields = [source, method, source, 2];
        Some(())
    }

    /// Fills in the identifier of this link.
    ///
    /// # Errors
    /// The request belongs to a different link (RFC 9534 §3.2).
    fn micro_session(&self, value: &mut [u8]) -> Result<Understood, Silence> {
        let Some(asked) = MicroSession::parse(value) else { return Ok(Understood::Malformed) };
        match self.link_id {
            None => Ok(Understood::No),
            Some(own) if asked.reflector == 0 || asked.reflector == own => {
                value.copy_from_slice(&MicroSession { reflector: own, ..asked }.to_bytes());
                Ok(Understood::Yes)
            }
            Some(_) => Err(Silence::NoSession),
        }
    }

    fn class_of_service(
        &self,
        value: &mut [u8],
        arrival: &RequestArrival,
        reflected: &mut StampReflection,
    ) -> Option<()> {
        let mut cos = ClassOfService::parse(value)?;
        let class = arrival.traffic_class.unwrap_or(0);
        cos.received = class >> 2;
        cos.ecn = Ecn::of_bits(class);
        cos.refused = u8::from(!self.choose_dscp);
        if self.choose_dscp {
            (reflected.dscp, reflected.mark) = (cos.wanted, cos.wanted_ecn);
            cos.ecn_reply = EcnReply::Applied;
        } else {
            cos.ecn_reply = EcnReply::Unable;
        }
        value.copy_from_slice(&cos.to_bytes());
        Some(())
    }
}

/// Result of processing an extension; determines its flags in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Understood {
    Yes,
    /// The type is known, but the value is not valid.
    Malformed,
    /// The type is not known, or the request cannot be satisfied.
    No,
}

impl Understood {
    /// Returns the result for an extension whose value was filled in; `None` means that its length is wrong.
    fn if_filled(filled: Option<()>) -> Understood {
        filled.map_or(Understood::Malformed, |()| Understood::Yes)
    }

    /// Sets the flags of the extension in the answer.
    fn mark(self, flags: &mut u8) {
        *flags = match self {
            Understood::Yes => *flags & !(flag::UNRECOGNISED | flag::MALFORMED | flag::INTEGRITY),
            Understood::Malformed => *flags & !flag::UNRECOGNISED | flag::MALFORMED,
            Understood::No => *flags | flag::UNRECOGNISED,
        };
    }
}

/// Acknowledges an access report, by returning it unchanged, if its access network is known.
fn access_report(value: &[u8]) -> Understood {
    match AccessReport::parse(value) {
        Some(report) if report.is_known() => Understood::Yes,
        Some(_) => Understood::No,
        None => Understood::Malformed,
    }
}

/// Sets the path of the answer. Answers go only to the source of the request, because a sender could otherwise direct
/// them to any host.
///
/// # Errors
/// No answer is wanted.
fn return_path(
    value: &[u8],
    arrival: &RequestArrival,
    reflected: &mut StampReflection,
) -> Result<Understood, Silence> {
    Ok(match ReturnPath::parse(value) {
        Some(ReturnPath::NoAnswer) => return Err(Silence::Unwanted),
        Some(ReturnPath::SameLink) => {
            reflected.same_link = true;
            Understood::Yes
        }
        Some(ReturnPath::Address(to)) if to.to_canonical() == arrival.from.ip().to_canonical() => {
            Understood::Yes
        }
        Some(ReturnPath::Address(_) | ReturnPath::Other) => Understood::No,
        None => Understood::Malformed,
    })
}

/// Sessions with a packet count.
type Sessions = ShareTable<SessionName, ReflectorSession>;

/// Returns the state of session `name`; `None` if stateless.
fn session<'a>(
    rules: &ReflectorRules,
    sessions: &'a mut Sessions,
    name: SessionName,
    (seq, sent): (u32, Option<WallTime>),
    now: SteadyTime,
) -> Option<&'a mut ReflectorSession> {
    if rules.sessions == 0 || rules.sessions_per_client == 0 {
        return None;
    }
    let at = match sessions.touch(&name) {
        Some(at) => at,
        None => {
            let client = ClientAddress::of(name.client.ip());
            // No client proves its address, so all sessions have the same rank, and there is always room for
            // one more.
            sessions.insert(name, client, Rank::Unproven, ReflectorSession::default()).ok()?;
            sessions.touch(&name)?
        }
    };
    let session = sessions.at(at)?;
    let silent = Span(now.0.saturating_sub(session.last_seen));
    // The same port begins another test: numbers restart, either with a later time on the sender's clock or
    // after a pause.
    let later = sent.is_some_and(|sent| sent.0 > session.highest_sent) && session.received > 0;
    let begins_anew = seq < session.highest && (later || silent >= MIN_RESTART_GAP);
    if silent >= rules.idle || begins_anew {
        *session = ReflectorSession::default();
    }
    session.last_seen = now.0;
    if seq >= session.highest {
        session.highest = seq;
        // Without a send time, only a pause shows that another test has begun.
        session.highest_sent = sent.map_or(i64::MAX, |sent| sent.0);
    }
    Some(session)
}

fn direct_measurement(
    value: &mut [u8],
    written: &StampAnswer,
    counters: Option<(u32, Option<i64>, u32)>,
) -> Option<()> {
    let mut d = DirectMeasurement::parse(value)?;
    // A reflector without a count reports zeros, like the request.
    if let Some((_, _, received)) = counters {
        d.reflector_received = received;
        d.reflector_sent = written.seq.wrapping_add(1);
    }
    value.copy_from_slice(&d.to_bytes());
    Some(())
}

fn follow_up(
    value: &mut [u8],
    written: &StampAnswer,
    counters: Option<(u32, Option<i64>, u32)>,
) -> Option<()> {
    FollowUpTelemetry::parse(value)?;
    let report = match counters {
        Some((seq, Some(sent), _)) => {
            FollowUpTelemetry { seq, sent: written.error.encode(WallTime(sent)), method: 2 }
        }
        _ => FollowUpTelemetry::default(),
    };
    value.copy_from_slice(&report.to_bytes());
    Some(())
}

fn mark_all(tlvs: &mut [u8], flags: u8) {
    let starts: Vec<usize> = Tlvs::new(tlvs)
        .map(|step| match step {
            TlvStep::Whole(at, _) | TlvStep::Malformed(at) => at,
        })
        .collect();
    for at in starts {
        tlvs[at] |= flags;
    }
}

#[cfg(test)]
mod tests;
