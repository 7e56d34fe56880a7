//! [`NameLookup`]: asks name servers for the names of addresses (PTR records) and for the autonomous systems that announce
//! them (TXT records of Team Cymru's service origin.asn.cymru.com), many at a time.
//!
//! Pure: queries and answers are bytes, and the caller passes the time and the random numbers of queries.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use jitlat_core::{Span, SteadyTime};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, TYPE};
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Kind of a question about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NameQuestion {
    /// Name of the address.
    Name,
    /// Number of the autonomous system that announces the address.
    Origin,
}

/// An answer about an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameAnswer {
    /// Kind of the question.
    pub question: NameQuestion,
    /// Address that the question was about.
    pub address: IpAddr,
    /// Name of the address, or the number of its autonomous system with the prefix `AS`.
    pub text: String,
}

/// A query to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameQuery {
    /// Index of the attempt: another name server can be asked each time.
    pub attempt: usize,
    /// Message.
    pub bytes: Vec<u8>,
}

/// Timeouts of the attempts.
const TIMEOUTS: [Span; 3] = [Span::seconds(1), Span::seconds(2), Span::seconds(3)];
/// Maximum number of questions that are open at a time.
const MAX_OPEN: usize = 64;
/// Maximum number of questions in total: forged probe answers may have any address.
const MAX_QUESTIONS: usize = 4096;
/// Maximum length of a name, in characters.
const MAX_NAME: usize = 253;

#[derive(Clone, Debug)]
struct OpenQuestion {
    question: NameQuestion,
    address: IpAddr,
    attempt: usize,
    until: SteadyTime,
}

/// Questions about addresses, and the queries that they cause.
#[derive(Clone, Debug, Default)]
pub struct NameLookup {
    asked: HashSet<(NameQuestion, IpAddr)>,
    /// Questions to send, each with the number of earlier attempts.
    due: VecDeque<(NameQuestion, IpAddr, usize)>,
    open: BTreeMap<u16, OpenQuestion>,
}

impl NameLookup {
    /// Adds a question about an address, unless it was asked before. Autonomous systems of addresses that the Internet does
    /// not route are not asked for, because there are none.
    pub fn ask(&mut self, question: NameQuestion, address: IpAddr) {
        let is_known = question == NameQuestion::Origin && !is_public(&address);
        if !is_known && self.asked.len() < MAX_QUESTIONS && self.asked.insert((question, address)) {
            self.due.push_back((question, address, 0));
        }
    }

    /// Returns the next query, if there is one; `id` is a random number.
    pub fn poll_query(&mut self, id: u16, now: SteadyTime) -> Option<NameQuery> {
        if self.open.len() >= MAX_OPEN || self.open.contains_key(&id) {
            return None;
        }
        let (question, address, attempt) = self.due.pop_front()?;
        let bytes = query(question, address, id)?;
        let until = now + TIMEOUTS[attempt.min(TIMEOUTS.len() - 1)];
        self.open.insert(id, OpenQuestion { question, address, attempt, until });
        Some(NameQuery { attempt, bytes })
    }

    /// True if a query is due.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty() && self.open.len() < MAX_OPEN
    }

    /// True if every question has been answered or given up.
    pub fn is_settled(&self) -> bool {
        self.due.is_empty() && self.open.is_empty()
    }

    /// Returns the time of the next action; `None` if there is nothing to do until something is asked.
    pub fn deadline(&self) -> Option<SteadyTime> {
        self.open.values().map(|open| open.until).min()
    }

    /// Repeats questions whose timeout is over at `now`; after the last attempt the answer stays unknown.
    pub fn expire(&mut self, now: SteadyTime) {
        for (_, open) in self.open.extract_if(.., |_, open| open.until <= now) {
            if open.attempt + 1 < TIMEOUTS.len() {
                self.due.push_back((open.question, open.address, open.attempt + 1));
            }
        }
    }

    /// Reads a message of a name server. Returns `None` if it answers no open question, or if it contains no record of
    /// the kind that was asked for.
    pub fn answer(&mut self, message: &[u8]) -> Option<NameAnswer> {
        let packet = Packet::parse(message).ok().filter(|packet| packet.has_flags(PacketFlag::RESPONSE))?;
        let OpenQuestion { question, address, .. } = *self.open.get(&packet.id())?;
        // An answer must repeat the question, so that a forger has to guess it, too.
        let [asked] = &packet.questions[..] else { return None };
        if !asked.qname.to_string().eq_ignore_ascii_case(&domain(question, address)) {
            return None;
        }
        self.open.remove(&packet.id());
        // A CNAME may come first (RFC 2317), so the type of the record decides.
        let text = packet.answers.iter().find_map(|record| match (question, &record.rdata) {
            (NameQuestion::Name, RData::PTR(name)) => host_name(&name.0.to_string()),
            (NameQuestion::Origin, RData::TXT(text)) => {
                origin(&String::try_from(text.clone()).unwrap_or_default())
            }
            _ => None,
        })?;
        Some(NameAnswer { question, address, text })
    }
}

fn query(question: NameQuestion, address: IpAddr, id: u16) -> Option<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let kind = match question {
        NameQuestion::Name => TYPE::PTR,
        NameQuestion::Origin => TYPE::TXT,
    };
    let name = Name::new(&domain(question, address)).ok()?.into_owned();
    packet.questions.push(Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().ok()
}

/// Returns the domain whose records answer the question.
fn domain(question: NameQuestion, address: IpAddr) -> String {
    let reversed = match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}")
        }
        IpAddr::V6(v6) => {
            let nibbles = v6.octets().into_iter().rev().flat_map(|octet| [octet & 15, octet >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}")).collect::<Vec<_>>().join(".")
        }
    };
    let zone = match (question, address) {
        (NameQuestion::Name, IpAddr::V4(_)) => "in-addr.arpa",
        (NameQuestion::Name, IpAddr::V6(_)) => "ip6.arpa",
        (NameQuestion::Origin, IpAddr::V4(_)) => "origin.asn.cymru.com",
        (NameQuestion::Origin, IpAddr::V6(_)) => "origin6.asn.cymru.com",
    };
    format!("{reversed}.{zone}")
}

/// Returns a name as it is shown; `None` if it is not the name of a host. A name server may return any characters,
/// including those that control a terminal.
fn host_name(name: &str) -> Option<String> {
    let name = name.trim_end_matches('.');
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_allowed)).then(|| name.to_owned())
}

/// Returns the first number in a record such as `23028 | 216.90.108.0/24 | US | arin | 1998-09-25`.
fn origin(text: &str) -> Option<String> {
    let first = text.split('|').next()?.split_whitespace().next()?;
    let number: u32 = first.parse().ok()?;
    Some(format!("AS{number}"))
}

/// True if the address can be announced to the Internet.
fn is_public(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(*v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    // RFC 6598: addresses between a provider and its customers.
    let is_shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
    let is_local = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_unspecified();
    !(is_local || is_shared || v4.is_multicast() || v4.is_broadcast())
}

fn is_public_v6(v6: &Ipv6Addr) -> bool {
    // RFC 4291: global unicast addresses are those of 2000::/3 today.
    v6.octets()[0] & 0xe0 == 0x20
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{CNAME, PTR, TXT};

    const NOW: SteadyTime = SteadyTime(0);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Returns the answer of a server to `query` with these records.
    fn reply(query: &[u8], records: &[RData<'static>]) -> Vec<u8> {
        let asked = Packet::parse(query).unwrap();
        let mut packet = Packet::new_reply(asked.id());
        packet.questions.push(asked.questions[0].clone());
        let name = || asked.questions[0].qname.clone();
        packet.answers =
            records.iter().map(|record| ResourceRecord::new(name(), CLASS::IN, 60, record.clone())).collect();
        packet.build_bytes_vec().unwrap()
    }

    fn ptr(name: &'static str) -> RData<'static> {
        RData::PTR(PTR(Name::new_unchecked(name)))
    }

    fn asked(question: NameQuestion, ip: &str) -> (NameLookup, NameQuery) {
        let mut lookup = NameLookup::default();
        lookup.ask(question, address(ip));
        lookup.ask(question, address(ip));
        let query = lookup.poll_query(7, NOW).unwrap();
        assert_eq!(lookup.poll_query(8, NOW), None, "a question is asked once");
        (lookup, query)
    }

    #[test]
    fn names_and_origins_of_both_families_are_asked_for_in_their_zones() {
        for (question, ip, domain) in [
            (NameQuestion::Name, "192.0.2.1", "1.2.0.192.in-addr.arpa"),
            (
                NameQuestion::Name,
                "2001:db8::1",
                "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
            ),
            (NameQuestion::Origin, "216.90.108.31", "31.108.90.216.origin.asn.cymru.com"),
        ] {
            let (_, query) = asked(question, ip);
            let packet = Packet::parse(&query.bytes).unwrap();
            assert_eq!(packet.questions[0].qname.to_string(), domain);
            assert!(packet.has_flags(PacketFlag::RECURSION_DESIRED));
        }
    }

    #[test]
    fn records_are_read() {
        let (mut lookup, query) = asked(NameQuestion::Name, "192.0.2.1");
        let alias = RData::CNAME(CNAME(Name::new_unchecked("1.sub.2.0.192.in-addr.arpa")));
        let answer = lookup.answer(&reply(&query.bytes, &[alias, ptr("gw.example.net")])).unwrap();
        assert_eq!((answer.text.as_str(), answer.address), ("gw.example.net", address("192.0.2.1")));
        assert_eq!(lookup.answer(&reply(&query.bytes, &[ptr("other.example")])), None, "answered before");

        let (mut lookup, query) = asked(NameQuestion::Origin, "216.90.108.31");
        let text = TXT::new().with_string("23028 3356 | 216.90.108.0/24 | US | arin | 1998-09-25").unwrap();
        let answer = lookup.answer(&reply(&query.bytes, &[RData::TXT(text)])).unwrap();
        assert_eq!((answer.question, answer.text.as_str()), (NameQuestion::Origin, "AS23028"));
    }

    #[test]
    fn forged_answers_and_names_that_are_not_names_are_ignored() {
        let (mut lookup, query) = asked(NameQuestion::Name, "192.0.2.1");
        assert_eq!(lookup.answer(b"x"), None);
        assert_eq!(lookup.answer(&query.bytes), None, "a query is not an answer");
        let (_, other) = asked(NameQuestion::Name, "192.0.2.2");
        assert_eq!(lookup.answer(&reply(&other.bytes, &[ptr("forged.example")])), None, "another question");
        let mut forged = reply(&query.bytes, &[ptr("forged.example")]);
        forged[1] ^= 1;
        assert_eq!(lookup.answer(&forged), None, "another number");
        let long: &'static str = "a\u{1b}[2Jb";
        let mut hostile = NameLookup::default();
        hostile.ask(NameQuestion::Name, address("192.0.2.1"));
        hostile.poll_query(7, NOW);
        assert_eq!(hostile.answer(&reply(&query.bytes, &[ptr(long)])), None);
        assert_eq!(origin("x | y"), None);
        assert_eq!(host_name(&"a".repeat(300)), None);
    }

    #[test]
    fn a_question_is_repeated_twice_and_then_given_up() {
        let (mut lookup, _) = asked(NameQuestion::Name, "192.0.2.1");
        let mut attempts = 1;
        while let Some(deadline) = lookup.deadline() {
            lookup.expire(deadline);
            attempts += usize::from(lookup.poll_query(attempts as u16, deadline).is_some());
        }
        assert_eq!(attempts, TIMEOUTS.len());
    }

    #[test]
    fn the_autonomous_system_of_a_private_address_is_not_asked_for() {
        for ip in ["10.1.2.3", "192.168.0.1", "100.64.0.1", "169.254.1.1", "127.0.0.1", "fe80::1", "fd00::1"]
        {
            let mut lookup = NameLookup::default();
            lookup.ask(NameQuestion::Origin, address(ip));
            assert_eq!(lookup.poll_query(1, NOW), None, "{ip}");
        }
    }

    #[test]
    fn the_number_of_questions_is_bounded() {
        let mut lookup = NameLookup::default();
        for k in 0..100_000u32 {
            lookup.ask(NameQuestion::Name, Ipv4Addr::from_bits(k).into());
        }
        let mut sent = 0;
        for id in 0..u16::MAX {
            sent += usize::from(lookup.poll_query(id, NOW).is_some());
        }
        assert_eq!((sent, lookup.due.len()), (MAX_OPEN, MAX_QUESTIONS - MAX_OPEN));
    }
}
