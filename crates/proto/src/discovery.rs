//! Discovery of servers on the local link: service records (DNS-SD, RFC 6763) in multicast messages (mDNS, RFC 6762).
//!
//! A server announces itself with [`announcement`] when it starts, and when [`asks`] recognises a [`query`] and
//! [`AnswerLimit`] permits an answer. All answers are multicast on the link of the query: a query with a forged
//! source causes at most one packet per second on that link, and none anywhere else. [`FoundServers`] collects what
//! others announce, in bounded memory. No record is declared unique, so none has to be probed for.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use jitlat_core::{Span, SteadyTime};
use simple_dns::rdata::{A, AAAA, PTR, RData, SRV, TXT};
use simple_dns::{CLASS, Label, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, ResourceRecord, TYPE};

/// UDP port of multicast DNS.
pub const PORT: u16 = 5353;
/// Group of multicast DNS over IPv4.
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);
/// Group of multicast DNS over IPv6.
pub const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb);
/// Maximum length of a message that is read, in bytes. RFC 6762 §17 permits 9000, which nobody needs for one service.
pub const MAX_MESSAGE: usize = 1500;

/// Name of the service.
const SERVICE: &str = "_jitlat._udp.local";
/// Labels of [`SERVICE`].
const SERVICE_LABELS: [&[u8]; 3] = [b"_jitlat", b"_udp", b"local"];
/// Time for which records are valid, in seconds. RFC 6762 §10 recommends this for records with host names.
const LIFETIME: u32 = 120;
/// Maximum number of records and questions in a message that is read.
const MAX_RECORDS: u32 = 64;
/// Maximum number of addresses of a server.
const MAX_ADDRESSES: usize = 8;
/// Maximum number of servers that are collected.
const MAX_SERVERS: usize = 64;
/// Maximum length of names and versions, in bytes. A label of a name has at most 63.
const MAX_TEXT: usize = 48;

/// A server as it announces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedServer {
    /// Name of the host.
    pub name: String,
    /// TCP port of control connections.
    pub port: u16,
    /// Version of the program; empty if unknown.
    pub version: String,
    /// Addresses of the host.
    pub addresses: Vec<IpAddr>,
}

/// Returns the query for all servers on the link.
pub fn query() -> Vec<u8> {
    let mut packet = Packet::new_query(0);
    let kind = QTYPE::TYPE(TYPE::PTR);
    packet.questions.push(Question::new(Name::new_unchecked(SERVICE), kind, QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().unwrap_or_default()
}

/// True if `message` is a query that a server answers.
pub fn asks(message: &[u8]) -> bool {
    let Some(packet) = parse(message).filter(|packet| !packet.has_flags(PacketFlag::RESPONSE)) else {
        return false;
    };
    let wanted = |question: &Question<'_>| {
        let kind = matches!(question.qtype, QTYPE::TYPE(TYPE::PTR) | QTYPE::ANY);
        kind && is_service(question.qname.get_labels())
    };
    packet.questions.iter().any(wanted)
}

/// Returns the announcement of `server`, or its withdrawal if `gone` is true. A name without printable characters is
/// announced as `unnamed`.
pub fn announcement(server: &AnnouncedServer, gone: bool) -> Vec<u8> {
    let name = readable(&server.name);
    // The instance differs between the servers of a host; the host's records belong to this program alone, so that
    // they do not compete with those of another responder on the same host.
    let instance = format!("{name} {}", server.port);
    let host: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let target = format!("{host}-jitlat.local");
    let service = [Label::new_unchecked(instance.as_bytes())];
    let labels = || SERVICE_LABELS.into_iter().map(Label::new_unchecked);
    let instance = Name::new_with_labels(&service.into_iter().chain(labels()).collect::<Vec<_>>());
    let target = Name::new_unchecked(&target);
    let lifetime = if gone { 0 } else { LIFETIME };
    let record =
        |name: &Name<'_>, data| ResourceRecord::new(name.clone().into_owned(), CLASS::IN, lifetime, data);
    let mut packet = Packet::new_reply(0);
    packet.set_flags(PacketFlag::AUTHORITATIVE_ANSWER);
    let pointer = RData::PTR(PTR(instance.clone().into_owned()));
    packet.answers.push(record(&Name::new_unchecked(SERVICE), pointer));
    let srv = SRV { priority: 0, weight: 0, port: server.port, target: target.clone().into_owned() };
    packet.additional_records.push(record(&instance, RData::SRV(srv)));
    let version = format!("version={}", readable(&server.version));
    if let Ok(text) = TXT::new().with_string(&version) {
        packet.additional_records.push(record(&instance, RData::TXT(text.into_owned())));
    }
    for address in server.addresses.iter().take(MAX_ADDRESSES) {
        let data = match address {
            IpAddr::V4(v4) => RData::A(A { address: v4.to_bits() }),
            IpAddr::V6(v6) => RData::AAAA(AAAA { address: v6.to_bits() }),
        };
        packet.additional_records.push(record(&target, data));
    }
    packet.build_bytes_vec().unwrap_or_default()
}

/// Limit of the answers on one link: one per second (RFC 6762 §6).
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerLimit {
    last: Option<SteadyTime>,
}

impl AnswerLimit {
    /// True if an answer may be sent at `now`; it then counts as sent.
    pub fn permits(&mut self, now: SteadyTime) -> bool {
        let permitted = self.last.is_none_or(|last| now - last >= Span::seconds(1));
        if permitted {
            self.last = Some(now);
        }
        permitted
    }
}

/// Servers that have announced themselves, in the order of their announcements.
#[derive(Clone, Debug, Default)]
pub struct FoundServers {
    servers: Vec<AnnouncedServer>,
}

impl FoundServers {
    /// Adds the servers that `message` announces, and removes those that it withdraws. A server announced on several
    /// links has the addresses of all of them. Other messages are ignored, and so are servers beyond the first 64.
    pub fn add(&mut self, message: &[u8]) {
        let Some(packet) = parse(message).filter(|packet| packet.has_flags(PacketFlag::RESPONSE)) else {
            return;
        };
        let records = || packet.answers.iter().chain(&packet.additional_records);
        for record in records() {
            if let RData::SRV(srv) = &record.rdata
                && let Some(instance) = instance_of(record.name.get_labels())
                && srv.port != 0
            {
                let version = records().find_map(|other| version(other, &record.name));
                let addresses = records().filter(|other| other.name == srv.target).filter_map(address);
                let mut addresses: Vec<IpAddr> = addresses.take(MAX_ADDRESSES).collect();
                addresses.sort_unstable();
                addresses.dedup();
                let port = srv.port;
                let name = match instance.strip_suffix(&format!(" {port}")) {
                    Some(host) => host.to_owned(),
                    None => instance,
                };
                let version = version.unwrap_or_default();
                self.insert(AnnouncedServer { name, port, version, addresses }, record.ttl == 0);
            }
        }
    }

    fn insert(&mut self, server: AnnouncedServer, gone: bool) {
        let same = |known: &AnnouncedServer| (&known.name, known.port) == (&server.name, server.port);
        match self.servers.iter().position(same) {
            Some(at) if gone => {
                self.servers.remove(at);
            }
            Some(at) => {
                let known = &mut self.servers[at];
                known.addresses.extend(server.addresses);
                known.addresses.sort_unstable();
                known.addresses.dedup();
                known.addresses.truncate(MAX_ADDRESSES);
            }
            None if gone || self.servers.len() == MAX_SERVERS => {}
            None => self.servers.push(server),
        }
    }

    /// Returns the servers.
    pub fn servers(&self) -> &[AnnouncedServer] {
        &self.servers
    }
}

/// Parses a message with a plausible number of records; `None` for others.
fn parse(message: &[u8]) -> Option<Packet<'_>> {
    let counts = message.get(4..12)?.chunks_exact(2);
    let records: u32 = counts.map(|count| u32::from(u16::from_be_bytes([count[0], count[1]]))).sum();
    if message.len() > MAX_MESSAGE || records > MAX_RECORDS {
        return None;
    }
    Packet::parse(message).ok()
}

fn is_service(labels: &[Label<'_>]) -> bool {
    labels.len() == SERVICE_LABELS.len()
        && labels.iter().zip(SERVICE_LABELS).all(|(label, own)| label.as_ref().eq_ignore_ascii_case(own))
}

/// Returns the name of an instance of the service, without characters that a terminal could interpret; `None` if it is
/// the name of something else.
fn instance_of(labels: &[Label<'_>]) -> Option<String> {
    let (instance, service) = labels.split_first()?;
    is_service(service).then(|| readable(&String::from_utf8_lossy(instance.as_ref())))
}

fn version(record: &ResourceRecord<'_>, instance: &Name<'_>) -> Option<String> {
    let RData::TXT(text) = &record.rdata else { return None };
    let value = text.iter_raw().find(|(key, _)| key.eq_ignore_ascii_case(b"version"))?.1?;
    (record.name == *instance).then(|| readable(&String::from_utf8_lossy(value)))
}

fn address(record: &ResourceRecord<'_>) -> Option<IpAddr> {
    match record.rdata {
        RData::A(A { address }) => Some(Ipv4Addr::from_bits(address).into()),
        RData::AAAA(AAAA { address }) => Some(Ipv6Addr::from_bits(address).into()),
        _ => None,
    }
}

/// Returns `text` in bounded length, without control characters and others that change how a line is shown; `unnamed`
/// if nothing remains.
fn readable(text: &str) -> String {
    let shown = |c: &char| c.is_alphanumeric() || c.is_ascii_graphic() || *c == ' ';
    let mut short = String::new();
    for c in text.chars().filter(shown) {
        if short.len() + c.len_utf8() > MAX_TEXT {
            break;
        }
        short.push(c);
    }
    match short.trim() {
        "" => "unnamed".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(name: &str, port: u16) -> AnnouncedServer {
        AnnouncedServer {
            name: name.to_owned(),
            port,
            version: "1.2.3".to_owned(),
            addresses: vec!["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()],
        }
    }

    fn found(messages: &[Vec<u8>]) -> Vec<AnnouncedServer> {
        let mut found = FoundServers::default();
        messages.iter().for_each(|message| found.add(message));
        found.servers().to_vec()
    }

    #[test]
    fn what_is_announced_is_found() {
        let servers = [server("alpha", 2666), server("alpha", 2700), server("beta.example.org", 2666)];
        let messages: Vec<Vec<u8>> = servers.iter().map(|server| announcement(server, false)).collect();
        assert!(messages.iter().all(|message| message.len() <= MAX_MESSAGE && !asks(message)));
        assert_eq!(found(&messages), servers);
        let gone = [&messages[..], &[announcement(&servers[1], true)]].concat();
        assert_eq!(found(&gone), [servers[0].clone(), servers[2].clone()]);
    }

    #[test]
    fn only_queries_for_the_service_are_answered() {
        assert!(asks(&query()));
        assert_eq!(found(&[query()]), []);
        for other in ["_http._tcp.local", "_jitlat._tcp.local", "a._jitlat._udp.local", "_jitlat._udp"] {
            let mut packet = Packet::new_query(0);
            let kind = QTYPE::TYPE(TYPE::PTR);
            packet.questions.push(Question::new(
                Name::new_unchecked(other),
                kind,
                QCLASS::CLASS(CLASS::IN),
                false,
            ));
            assert!(!asks(&packet.build_bytes_vec().unwrap()), "{other}");
        }
        // More questions than anybody has are not even parsed.
        let mut message = query();
        message[4..6].copy_from_slice(&[0xff, 0xff]);
        assert!(!asks(&message));
    }

    #[test]
    fn a_link_carries_one_answer_per_second() {
        let mut limit = AnswerLimit::default();
        let at = |ms| SteadyTime(0) + Span::millis(ms);
        let answered = (0..3_000).filter(|ms| limit.permits(at(*ms))).count();
        assert_eq!(answered, 3);
    }

    #[test]
    fn many_servers_and_odd_names_need_bounded_memory() {
        let many: Vec<Vec<u8>> = (1..500).map(|port| announcement(&server("x", port), false)).collect();
        assert_eq!(found(&many).len(), MAX_SERVERS);
        let odd = server("\u{1b}[2J\u{202e}evil\n", 2666);
        assert_eq!(found(&[announcement(&odd, false)])[0].name, "[2Jevil");
        assert_eq!(found(&[announcement(&server("", 1), false)])[0].name, "unnamed");
        let long = server(&"é".repeat(300), 2666);
        assert!(found(&[announcement(&long, false)])[0].name.len() <= MAX_TEXT);
        let mut addressed = server("many", 2666);
        addressed.addresses = (0..100u8).map(|n| IpAddr::from([192, 0, 2, n])).collect();
        assert_eq!(found(&[announcement(&addressed, false)])[0].addresses.len(), MAX_ADDRESSES);
    }

    proptest! {
        #[test]
        fn damaged_messages_are_survived(at in 0usize..200, byte: u8, cut in 0usize..300) {
            for mut message in [query(), announcement(&server("alpha", 2666), false)] {
                if let Some(damaged) = message.get_mut(at) {
                    *damaged = byte;
                }
                message.truncate(cut);
                asks(&message);
                let servers = found(&[message]);
                prop_assert!(servers.iter().all(|s| s.name.chars().all(|c| !c.is_control())));
            }
        }
    }
}
