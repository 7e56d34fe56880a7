//! LaMP in Ethernet frames without IP and UDP: directly, or in wave short messages (WSMP).

use crate::frame::Mac;
use jitlat_proto::lamp;
use jitlat_proto::wire::Field;
use jitlat_proto::wsmp::{self, Psid};
#[cfg(target_os = "linux")]
use socket2::SockFilter;
use std::net::{Ipv6Addr, SocketAddr};

const DESTINATION: Field<Mac> = Field::at(0);
const SOURCE: Field<Mac> = DESTINATION.then();
const TYPE: Field<u16> = SOURCE.then();
/// Length of the Ethernet header, in bytes.
const HEADER: usize = TYPE.end();

/// EtherType of LaMP directly in Ethernet frames: the first of the two that IEEE 802 reserves for local experiments.
const EXPERIMENT: u16 = 0x88b5;

/// Protocol between Ethernet and LaMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LampLink {
    /// No protocol: LaMP directly in Ethernet frames.
    Ethernet,
    /// WSMP, with messages for one service.
    Wsmp(Psid),
}

impl LampLink {
    /// Returns the EtherType of the frames.
    pub const fn ethertype(self) -> u16 {
        match self {
            LampLink::Ethernet => EXPERIMENT,
            LampLink::Wsmp(_) => wsmp::ETHERTYPE,
        }
    }

    /// Returns the number of bytes between the Ethernet header and a LaMP packet of `length` bytes.
    pub fn overhead(self, length: usize) -> usize {
        match self {
            LampLink::Ethernet => 0,
            LampLink::Wsmp(psid) => wsmp::header_length(psid, length),
        }
    }
}

/// An Ethernet frame that contains a LaMP packet.
#[derive(Clone, Copy, Debug)]
pub struct LampFrame<'a> {
    /// Ethernet address of the sender.
    pub source: Mac,
    /// Ethernet address of the receiver.
    pub destination: Mac,
    /// LaMP packet, without the padding of short frames.
    pub packet: &'a [u8],
}

/// Parses the LaMP packet in `frame`; `None` if `frame` does not contain one over `link`.
pub fn parse(link: LampLink, frame: &[u8]) -> Option<LampFrame<'_>> {
    (TYPE.read(frame)? == link.ethertype()).then_some(())?;
    let body = frame.get(HEADER..)?;
    let body = match link {
        LampLink::Ethernet => body,
        LampLink::Wsmp(psid) => wsmp::parse(body).filter(|message| message.psid == psid)?.data,
    };
    let length = lamp::LampHeader::parse(body)?.packet_length();
    Some(LampFrame {
        source: SOURCE.read(frame)?,
        destination: DESTINATION.read(frame)?,
        packet: body.get(..length)?,
    })
}

/// Builds a frame that contains `packet` over `link`, from `source` to `destination`.
pub fn fill(link: LampLink, frame: &mut Vec<u8>, source: Mac, destination: Mac, packet: &[u8]) {
    frame.clear();
    frame.resize(HEADER, 0);
    DESTINATION.write(frame, destination);
    SOURCE.write(frame, source);
    TYPE.write(frame, link.ethertype());
    match link {
        LampLink::Ethernet => frame.extend_from_slice(packet),
        LampLink::Wsmp(psid) => {
            // A packet that fits into a frame fits into a message.
            wsmp::write(frame, psid, packet);
        }
    }
}

/// Returns a BPF filter for frames of `link` to `host`, without broadcasts.
#[cfg(target_os = "linux")]
pub(crate) fn only_to(link: LampLink, host: Mac) -> Vec<SockFilter> {
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const IS_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let [a, b, c, d, e, f] = host;
    let program = [
        (LOAD_HALF, 0, 0, TYPE.start() as u32),
        (IS_EQUAL, 0, 5, u32::from(link.ethertype())),
        (LOAD_WORD, 0, 0, 0),
        (IS_EQUAL, 0, 3, u32::from_be_bytes([a, b, c, d])),
        (LOAD_HALF, 0, 0, 4),
        (IS_EQUAL, 0, 1, u32::from(u16::from_be_bytes([e, f]))),
        (RETURN, 0, 0, 0xffff),
        (RETURN, 0, 0, 0),
    ];
    program.iter().map(|&(code, jt, jf, k)| SockFilter::new(code, jt, jf, k)).collect()
}

/// True if `mac` is the address of a single interface.
pub fn is_unicast(mac: Mac) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

/// Returns the link-local address derived from an Ethernet address (RFC 4291, appendix A), with the EtherType
/// as port. Server policies identify the host by this address.
pub fn address_of(link: LampLink, mac: Mac) -> SocketAddr {
    let [a, b, c, d, e, f] = mac;
    let word = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    let ip = Ipv6Addr::new(0xfe80, 0, 0, 0, word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f));
    (ip, link.ethertype()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_proto::lamp::{LampHeader, LampKind};

    const HERE: Mac = [2, 0, 0, 0, 0, 1];
    const THERE: Mac = [2, 0, 0, 0, 0, 2];

    #[test]
    fn padding_of_short_frames_is_no_part_of_the_packet() {
        let mut packet = LampHeader::new(LampKind::Request, 7, 1, 3).to_bytes().to_vec();
        packet.extend(b"abc");
        let mut frame = Vec::new();
        fill(LampLink::Ethernet, &mut frame, HERE, THERE, &packet);
        let whole = frame.len();
        frame.resize(60, 0);
        let read = parse(LampLink::Ethernet, &frame).unwrap();
        assert_eq!((read.source, read.destination, read.packet), (HERE, THERE, &packet[..]));
        for cut in 0..whole {
            assert!(parse(LampLink::Ethernet, &frame[..cut]).is_none(), "{cut}");
        }
        // The length field of an INIT packet contains its type.
        fill(
            LampLink::Ethernet,
            &mut frame,
            HERE,
            THERE,
            &LampHeader::new(LampKind::Init, 7, 0, 2).to_bytes(),
        );
        assert_eq!(parse(LampLink::Ethernet, &frame).unwrap().packet.len(), 24);
        frame[12] = 8;
        assert!(parse(LampLink::Ethernet, &frame).is_none(), "another EtherType");
    }

    #[test]
    fn hosts_are_known_by_their_link_local_address() {
        assert_eq!(address_of(LampLink::Ethernet, THERE).to_string(), "[fe80::ff:fe00:2]:34997");
        assert!(
            is_unicast(THERE)
                && !is_unicast([0xff; 6])
                && !is_unicast([0; 6])
                && !is_unicast([1, 0, 0x5e, 0, 0, 1])
        );
    }

    #[test]
    fn a_packet_in_a_wave_short_message_ends_where_the_message_says() {
        let link = LampLink::Wsmp(Psid::TESTING);
        // The request, and the frame, of the decoded example: padded to the minimum of Ethernet.
        let packet = [
            &[0xaa, 0xa0, 0x12, 0x34, 0, 7, 0, 0][..],
            &[0, 0, 0, 0, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0, 1, 0xe2, 0x40],
        ]
        .concat();
        let header = [&THERE[..], &HERE, &[0x88, 0xdc, 3, 0, 0x7f, 24]].concat();
        let frame = [&header[..], &packet, &[0; 18]].concat();
        assert_eq!(frame.len(), 60);
        let read = parse(link, &frame).unwrap();
        assert_eq!((read.source, read.destination, read.packet), (HERE, THERE, &packet[..]));
        let mut again = Vec::new();
        fill(link, &mut again, HERE, THERE, &packet);
        assert_eq!((&again[..], link.overhead(24)), (&frame[..42], 4));
        for cut in 0..42 {
            assert!(parse(link, &frame[..cut]).is_none(), "{cut}");
        }
        let other = LampLink::Wsmp(Psid::new(0x1d).unwrap());
        assert!(parse(other, &frame).is_none(), "another service");
        assert!(parse(LampLink::Ethernet, &frame).is_none(), "another EtherType");
        // A LaMP packet that claims to be longer than its message is none, although the frame has padding.
        let mut longer = frame.clone();
        longer[18 + 7] = 3;
        assert!(parse(link, &longer).is_none());
        assert_eq!(address_of(link, THERE).port(), 0x88dc);
    }
}
