//! [`SignalledCalls`]: calls and their media, from SIP messages (RFC 3261) with session descriptions (SDP, RFC 8866).

use super::payload_types::PayloadFormat;
use crate::tcp::TcpEndpoint as Endpoint;
use core::net::{IpAddr, SocketAddr};
use foldhash::fast::RandomState;
use jitlat_core::prefix::bits;
use jitlat_core::time::WallTime;
use serde::Serialize;
use std::collections::HashMap;

/// Maximum number of calls remembered. Beyond it, the call whose last message is the oldest is forgotten.
const MAX_CALLS: usize = if cfg!(test) { 4 } else { 4096 };
/// Maximum number of media ends per call.
const MAX_ENDS: usize = 16;
/// Maximum number of formats per end.
const MAX_FORMATS: usize = 32;
/// Maximum length of a message that is read, in bytes.
const MAX_MESSAGE: usize = 16 << 10;
/// Maximum length of an identifier or address, in bytes. Messages with a longer identifier are not read; longer
/// addresses are cut.
const MAX_NAME: usize = 128;
/// Maximum number of times on hold that are remembered of a call.
const MAX_HOLDS: usize = 64;
/// Methods of requests that are read.
const METHODS: [&str; 6] = ["INVITE", "ACK", "UPDATE", "PRACK", "BYE", "CANCEL"];

/// A call as its signalling describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignalledCall {
    /// Call-ID of SIP.
    pub call_id: String,
    /// Address of the caller (From), without its scheme and parameters. Without the invitation, it is not known which
    /// of the two parties called: this is the From of the first recorded message.
    pub caller: String,
    /// Address of the called party (To), without its scheme and parameters.
    pub called: String,
    /// Time of the first recorded message.
    pub began: WallTime,
    /// Time of the invitation (INVITE) that began the call; null if the capture does not contain it.
    pub invited: Option<WallTime>,
    /// Time of the first recorded answer (200) to an invitation; null if the capture contains none. If `invited` is null,
    /// it may be the answer to a later invitation of the same call.
    pub answered: Option<WallTime>,
    /// Time at which one side hung up (BYE, CANCEL); null if the capture does not contain it.
    pub ended: Option<WallTime>,
    /// Times in which a session description lets at most one side send (`sendonly`, `recvonly`, `inactive`).
    pub holds: Vec<Hold>,
}

/// Time in which a call is on hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hold {
    /// Beginning.
    pub from: WallTime,
    /// End; null if the capture does not contain it.
    pub to: Option<WallTime>,
}

/// End of media, as a session description names it. A stream to this end belongs to the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MediaEnd {
    /// Number of the call.
    pub(super) call: u64,
    /// True if the end is the caller's.
    pub(super) is_callers: bool,
    /// Payload types and formats that the end accepts.
    formats: Vec<(u8, PayloadFormat)>,
}

impl MediaEnd {
    /// Returns the format of a payload type; `None` if it is not described.
    pub(super) fn format(&self, payload_type: u8) -> Option<&PayloadFormat> {
        self.formats.iter().find(|(n, _)| *n == payload_type).map(|(_, format)| format)
    }
}

impl SignalledCall {
    /// Notes that the call is on hold from now on, or that it is not.
    fn hold(&mut self, at: WallTime, is_held: bool) {
        let has_room = self.holds.len() < MAX_HOLDS;
        match (self.holds.last_mut().filter(|hold| hold.to.is_none()), is_held) {
            (Some(hold), false) => hold.to = Some(at),
            (None, true) if has_room => self.holds.push(Hold { from: at, to: None }),
            _ => {}
        }
    }
}

#[derive(Debug)]
struct Remembered {
    call: SignalledCall,
    caller_tag: String,
    last: WallTime,
    ends: Vec<Endpoint>,
}

/// Calls that are signalled in the captured packets.
#[derive(Debug, Default)]
pub(super) struct SignalledCalls {
    calls: HashMap<u64, Remembered, RandomState>,
    numbers: HashMap<String, u64, RandomState>,
    ends: HashMap<Endpoint, MediaEnd, RandomState>,
    next: u64,
    /// Number of calls that were forgotten because of [`MAX_CALLS`].
    pub(super) forgotten: u64,
}

impl SignalledCalls {
    /// Reads a datagram or segment if it is a SIP message.
    pub(super) fn push(&mut self, at: WallTime, data: &[u8]) {
        if let Some(message) = is_sip(data).then(|| SipMessage::parse(data)).flatten() {
            self.take(at, &message);
        }
    }

    fn take(&mut self, at: WallTime, message: &SipMessage<'_>) {
        let number = match self.numbers.get(message.call_id) {
            Some(number) => *number,
            // A call begins with an invitation, which need not be recorded. Messages without media show nothing about a
            // call that is not known.
            None if message.method == "INVITE" || sends_both(message.body).is_some() => {
                self.begin(at, message)
            }
            None => return,
        };
        let Some(known) = self.calls.get_mut(&number) else { return };
        known.last = known.last.max(at);
        match (message.status, message.method) {
            (Some(200), "INVITE") => known.call.answered = known.call.answered.or(Some(at)),
            (None, "BYE" | "CANCEL") => known.call.ended = known.call.ended.or(Some(at)),
            _ => {}
        }
        if let Some(both) = sends_both(message.body) {
            known.call.hold(at, !both);
        }
        // A response repeats the From of its request, but its description is that of the other side.
        let is_callers = (message.from_tag == known.caller_tag) == message.status.is_none();
        for (address, formats) in descriptions(message.body) {
            let end = (bits(address.ip()), address.port());
            if known.ends.contains(&end) || known.ends.len() < MAX_ENDS {
                if !known.ends.contains(&end) {
                    known.ends.push(end);
                }
                self.ends.insert(end, MediaEnd { call: number, is_callers, formats });
            }
        }
    }

    fn begin(&mut self, at: WallTime, message: &SipMessage<'_>) -> u64 {
        if self.calls.len() >= MAX_CALLS {
            self.forget_oldest();
        }
        let number = self.next;
        self.next += 1;
        let call = SignalledCall {
            call_id: printable(message.call_id),
            caller: address_of_record(message.from),
            called: address_of_record(message.to),
            began: at,
            invited: (message.status.is_none() && !message.is_within_call).then_some(at),
            answered: None,
            ended: None,
            holds: Vec::new(),
        };
        let caller_tag = message.from_tag.to_owned();
        self.calls.insert(number, Remembered { call, caller_tag, last: at, ends: Vec::new() });
        self.numbers.insert(message.call_id.to_owned(), number);
        number
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.calls.iter().min_by_key(|(n, c)| (c.last, **n)).map(|(n, _)| *n) else {
            return;
        };
        if let Some(old) = self.calls.remove(&oldest) {
            old.ends.iter().for_each(|end| {
                if self.ends.get(end).is_some_and(|e| e.call == oldest) {
                    self.ends.remove(end);
                }
            });
        }
        self.numbers.retain(|_, number| *number != oldest);
        self.forgotten += 1;
    }

    /// Returns the end of media at an address and port; `None` if no session description names it.
    pub(super) fn end(&self, at: Endpoint) -> Option<&MediaEnd> {
        self.ends.get(&at)
    }

    /// Returns a call by its number; `None` if it was forgotten.
    pub(super) fn call(&self, number: u64) -> Option<&SignalledCall> {
        self.calls.get(&number).map(|c| &c.call)
    }
}

/// True if a datagram or segment begins like a SIP message.
#[inline]
pub(super) fn is_sip(data: &[u8]) -> bool {
    // Every message begins with one of these letters: most packets are decided by their first byte.
    matches!(data.first(), Some(b'I' | b'A' | b'U' | b'P' | b'B' | b'C' | b'S'))
        && (data.starts_with(b"SIP/2.0 ")
            || METHODS.iter().any(|m| data.starts_with(m.as_bytes()) && data.get(m.len()) == Some(&b' ')))
}

/// The fields of a SIP message that describe a call.
#[derive(Debug, PartialEq, Eq)]
struct SipMessage<'a> {
    /// Method of a request; for a response, the method of the request that it answers.
    method: &'a str,
    /// Status of a response; `None` for a request.
    status: Option<u16>,
    call_id: &'a str,
    from: &'a str,
    from_tag: &'a str,
    to: &'a str,
    /// True if the called party has answered before: To has a tag (RFC 3261 §12.2).
    is_within_call: bool,
    body: &'a str,
}

impl<'a> SipMessage<'a> {
    fn parse(data: &'a [u8]) -> Option<SipMessage<'a>> {
        let data = &data[..data.len().min(MAX_MESSAGE)];
        let text = match core::str::from_utf8(data) {
            Ok(text) => text,
            // The beginning is text even if the end is cut within a character, or the body is binary.
            Err(e) => core::str::from_utf8(&data[..e.valid_up_to()]).ok()?,
        };
        let (head, body) =
            text.split_once("\r\n\r\n").or_else(|| text.split_once("\n\n")).unwrap_or((text, ""));
        let mut lines = head.lines();
        let first = lines.next()?;
        let mut words = first.split(' ');
        let (mut method, status) = match words.next()? {
            "SIP/2.0" => ("", Some(words.next()?.parse().ok()?)),
            method if first.ends_with("SIP/2.0") => (method, None),
            _ => return None,
        };
        let (mut call_id, mut from, mut to) = ("", "", "");
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            let (name, value) = (name.trim(), value.trim());
            let is =
                |long: &str, short: &str| name.eq_ignore_ascii_case(long) || name.eq_ignore_ascii_case(short);
            if is("Call-ID", "i") {
                call_id = value;
            } else if is("From", "f") {
                from = value;
            } else if is("To", "t") {
                to = value;
            } else if is("CSeq", "cseq") && status.is_some() {
                method = value.rsplit(' ').next().unwrap_or_default();
            }
        }
        let tag = |value: &'a str| value.split(';').find_map(|p| p.trim().strip_prefix("tag="));
        let (from_tag, is_within_call) = (tag(from).unwrap_or_default(), tag(to).is_some());
        let is_known = !call_id.is_empty() && call_id.len() <= MAX_NAME && from_tag.len() <= MAX_NAME;
        is_known.then_some(SipMessage { method, status, call_id, from, from_tag, to, is_within_call, body })
    }
}

/// Returns the address in a From or To header: `"Alice" <sip:alice@example.com:5060>;tag=1` becomes
/// `alice@example.com:5060`.
fn address_of_record(value: &str) -> String {
    let inner = value.split_once('<').map_or(value, |(_, rest)| rest.split('>').next().unwrap_or(rest));
    let inner =
        ["sips:", "sip:", "tel:"].iter().find_map(|scheme| inner.strip_prefix(scheme)).unwrap_or(inner);
    printable(inner.split([';', '?']).next().unwrap_or(inner))
}

/// Returns at most [`MAX_NAME`] characters of text from a capture. Characters that are not printable ASCII become `?`,
/// because they could control a terminal.
fn printable(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    text.chars().take(MAX_NAME).map(safe).collect()
}

/// Returns true if a session description lets both sides send, false if at most one; `None` if it has no media.
fn sends_both(sdp: &str) -> Option<bool> {
    let is_line = |line: &str| {
        line.starts_with("m=")
            || matches!(line.trim_end(), "a=sendonly" | "a=recvonly" | "a=inactive" | "a=sendrecv")
    };
    let mut lines = sdp.lines().filter(|line| is_line(line)).peekable();
    lines.peek()?;
    // The first medium counts; an attribute before it is the default.
    let (mut is_both, mut media) = (true, 0);
    for line in lines {
        if line.starts_with("m=") {
            media += 1;
            if media > 1 {
                break;
            }
        } else {
            is_both = line.trim_end() == "a=sendrecv";
        }
    }
    (media > 0).then_some(is_both)
}

/// Address, port and formats of a media description.
type MediaDescription = (Option<IpAddr>, u16, Vec<(u8, PayloadFormat)>);

/// Returns the ends of the media that a session description offers, with their formats.
fn descriptions(sdp: &str) -> Vec<(SocketAddr, Vec<(u8, PayloadFormat)>)> {
    let mut session: Option<IpAddr> = None;
    let mut media: Vec<MediaDescription> = Vec::new();
    for line in sdp.lines() {
        let Some((kind, value)) = line.split_once('=') else { continue };
        match kind {
            "c" => {
                let address = value.split(' ').nth(2).and_then(|a| a.split('/').next()?.trim().parse().ok());
                match media.last_mut() {
                    Some(media) => media.0 = address,
                    None => session = address,
                }
            }
            "m" if media.len() < MAX_ENDS => {
                let mut words = value.split_ascii_whitespace().skip(1);
                let port = words.next().and_then(|p| p.split('/').next()?.parse().ok()).unwrap_or(0);
                let types = words.skip(1).filter_map(|n| n.parse::<u8>().ok());
                let known = types.filter_map(|n| Some((n, PayloadFormat::assigned(n)?)));
                media.push((None, port, known.take(MAX_FORMATS).collect()));
            }
            "m" => break,
            "a" => {
                let Some((_, _, formats)) = media.last_mut() else { continue };
                let Some((number, format)) = value.strip_prefix("rtpmap:").and_then(|m| m.split_once(' '))
                else {
                    continue;
                };
                if let (Ok(number), Ok(format)) = (number.parse::<u8>(), format.trim().parse())
                    && number < 128
                    && formats.len() < MAX_FORMATS
                {
                    formats.retain(|(n, _)| *n != number);
                    formats.push((number, format));
                }
            }
            _ => {}
        }
    }
    // Port 0 refuses the media.
    let end = |(address, port, formats): (Option<IpAddr>, u16, _)| {
        Some((SocketAddr::new(address.or(session)?, port), formats)).filter(|_| port != 0)
    };
    media.into_iter().filter_map(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(first: &str, id: &str, from: &str, sdp: &str) -> Vec<u8> {
        with_tag(first, id, from, "", sdp)
    }

    /// Same as [`message`], with parameters of To.
    fn with_tag(first: &str, id: &str, from: &str, tag: &str, sdp: &str) -> Vec<u8> {
        format!(
            "{first}\r\nVia: SIP/2.0/UDP 192.0.2.1\r\nf: \"A\" <sip:{from}@example.com>;tag={from}\r\nTo: \
             <sip:b@example.com:5060;user=phone>{tag}\r\nCall-ID: {id}\r\nCSeq: 1 INVITE\r\n\r\n{sdp}"
        )
        .into_bytes()
    }

    const OFFER: &str = "v=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 4000 RTP/AVP 0 101 111\r\na=rtpmap:101 \
                         telephone-event/8000\r\na=rtpmap:111 opus/48000/2\r\nm=video 0 RTP/AVP 96\r\n";
    const ANSWER: &str = "v=0\nm=audio 5000 RTP/AVP 0\nc=IN IP6 2001:db8::9\n";

    fn end(text: &str) -> Endpoint {
        let address: SocketAddr = text.parse().unwrap();
        (bits(address.ip()), address.port())
    }

    #[test]
    fn a_call_has_two_ends_and_their_formats() {
        let mut calls = SignalledCalls::default();
        calls.push(WallTime(1), &message("INVITE sip:b@example.com SIP/2.0", "id1", "a", OFFER));
        calls.push(WallTime(2), &message("SIP/2.0 183 Progress", "id1", "a", ANSWER));
        calls.push(WallTime(3), &message("SIP/2.0 200 OK", "id1", "a", ""));
        calls.push(WallTime(9), &message("BYE sip:b@example.com SIP/2.0", "id1", "b", ""));
        let [near, far] = ["192.0.2.1:4000", "[2001:db8::9]:5000"].map(|e| calls.end(end(e)).unwrap());
        assert_eq!((near.is_callers, far.is_callers, near.call), (true, false, far.call));
        let format = |n| near.format(n).map(ToString::to_string);
        assert_eq!(format(111).as_deref(), Some("opus/48000"));
        assert_eq!((format(0).as_deref(), format(8)), (Some("PCMU/8000"), None));
        let call = calls.call(near.call).unwrap();
        assert_eq!(
            (&*call.call_id, &*call.caller, &*call.called),
            ("id1", "a@example.com", "b@example.com:5060")
        );
        assert_eq!(
            (call.began, call.invited, call.answered, call.ended),
            (WallTime(1), Some(WallTime(1)), Some(WallTime(3)), Some(WallTime(9)))
        );
        assert!(calls.end(end("192.0.2.1:0")).is_none(), "refused media");
    }

    #[test]
    fn a_call_whose_invitation_was_not_recorded_has_no_time_of_it() {
        let of = |messages: &[Vec<u8>]| {
            let mut calls = SignalledCalls::default();
            messages.iter().zip(1..).for_each(|(m, at)| calls.push(WallTime(at), m));
            calls.call(0).map(|call| (call.began.0, call.invited, call.answered.map(|at| at.0)))
        };
        let ok = with_tag("SIP/2.0 200 OK", "id1", "a", ";tag=x", ANSWER);
        let again = with_tag("INVITE sip:b SIP/2.0", "id1", "b", ";tag=a", OFFER);
        assert_eq!(of(std::slice::from_ref(&ok)), Some((1, None, Some(1))));
        assert_eq!(of(&[again.clone(), ok.clone()]), Some((1, None, Some(2))));
        // An answer in the acknowledgement of an invitation without an offer, and a call of which only the end is seen.
        let [ack, bye] = ["ACK", "BYE"].map(|m| format!("{m} sip:b SIP/2.0"));
        assert_eq!(of(&[with_tag(&ack, "id1", "a", ";tag=x", ANSWER)]), Some((1, None, None)));
        assert_eq!(of(&[with_tag(&bye, "id1", "a", ";tag=x", "")]), None);
        let whole = [message("INVITE sip:b SIP/2.0", "id1", "a", OFFER), ok, again];
        assert_eq!(of(&whole), Some((1, Some(WallTime(1)), Some(2))));
    }

    #[test]
    fn a_call_is_on_hold_until_both_sides_may_send_again() {
        let mut calls = SignalledCalls::default();
        let mut say = |at: i64, sdp: &str| {
            calls.push(WallTime(at), &message("INVITE sip:b SIP/2.0", "id1", "a", sdp));
            calls.call(0).unwrap().holds.clone()
        };
        let hold = |from, to: Option<i64>| Hold { from: WallTime(from), to: to.map(WallTime) };
        assert_eq!(say(1, OFFER), []);
        assert_eq!(say(2, ""), []);
        let held = OFFER.replace("m=video", "a=sendonly\r\nm=video");
        assert_eq!(say(3, &held), [hold(3, None)]);
        assert_eq!(say(4, &held.replace("sendonly", "inactive")), [hold(3, None)]);
        assert_eq!(say(5, OFFER), [hold(3, Some(5))]);
        let session = OFFER.replace("m=audio", "a=recvonly\r\nm=audio");
        assert_eq!(say(6, &session), [hold(3, Some(5)), hold(6, None)]);
        assert_eq!(say(7, &held.replace("sendonly", "sendrecv")), [hold(3, Some(5)), hold(6, Some(7))]);
    }

    #[test]
    fn an_invitation_by_the_called_side_names_its_own_end() {
        let mut calls = SignalledCalls::default();
        calls.push(WallTime(1), &message("INVITE sip:b SIP/2.0", "id1", "a", OFFER));
        calls.push(WallTime(2), &message("INVITE sip:a SIP/2.0", "id1", "b", ANSWER));
        calls.push(WallTime(3), &message("SIP/2.0 200 OK", "id1", "b", &OFFER.replace("4000", "4002")));
        assert!(!calls.end(end("[2001:db8::9]:5000")).unwrap().is_callers);
        assert!(calls.end(end("192.0.2.1:4002")).unwrap().is_callers);
    }

    #[test]
    fn the_call_without_messages_for_longest_is_forgotten() {
        let mut calls = SignalledCalls::default();
        for k in 0..MAX_CALLS {
            let offer = OFFER.replace("4000", &(4000 + k).to_string());
            calls.push(WallTime(k as i64), &message("INVITE sip:b SIP/2.0", &format!("id{k}"), "a", &offer));
        }
        calls.push(WallTime(100), &message("SIP/2.0 200 OK", "id0", "a", ""));
        calls.push(WallTime(101), &message("INVITE sip:b SIP/2.0", "more", "a", ""));
        assert!(calls.end(end("192.0.2.1:4000")).is_some() && calls.end(end("192.0.2.1:4001")).is_none());
        assert_eq!((calls.calls.len(), calls.numbers.len(), calls.forgotten), (MAX_CALLS, MAX_CALLS, 1));
    }

    #[test]
    fn names_cannot_control_a_terminal() {
        let mut calls = SignalledCalls::default();
        calls.push(WallTime(1), &message("INVITE sip:b SIP/2.0", "i\u{1b}[2Jd", "\u{7}\u{202e}a", OFFER));
        let call = calls.call(0).unwrap();
        assert_eq!((&*call.call_id, &*call.caller), ("i?[2Jd", "??a@example.com"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(head in "(INVITE|SIP/2.0|BYE) .{0,40}", rest in "([cmaf]=?[:;<> /0-9a-zA\r\n=.-]{0,20}){0,12}") {
            let mut calls = SignalledCalls::default();
            calls.push(WallTime(0), format!("{head}\r\n{rest}\r\n\r\n{rest}").as_bytes());
            calls.push(WallTime(0), &message("INVITE sip:b SIP/2.0", "id1", "a", &rest));
        }
    }
}
