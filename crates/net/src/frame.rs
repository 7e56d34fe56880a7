//! Ethernet frames with UDP over IPv4: built and parsed here, and BPF filters for them.

use jitlat_proto::wire::Field;
use socket2::SockFilter;
use std::net::{Ipv4Addr, SocketAddrV4};

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

mod ethernet {
    use super::{Field, Mac};
    pub const DESTINATION: Field<Mac> = Field::at(0);
    pub const SOURCE: Field<Mac> = DESTINATION.then();
    pub const ETHERTYPE: Field<u16> = SOURCE.then();
    pub const LENGTH: usize = ETHERTYPE.end();
}

/// Fields of the IP header.
pub(crate) mod ipv4 {
    use super::Field;
    /// Version in the high half, header length in 32-bit words in the low half.
    pub const VERSION_LENGTH: Field<u8> = Field::at(0);
    pub const TOS: Field<u8> = VERSION_LENGTH.then();
    pub const TOTAL_LENGTH: Field<u16> = TOS.then();
    /// Flags in the upper three bits, offset in the others.
    pub const FRAGMENT: Field<u16> = Field::at(6);
    pub const TTL: Field<u8> = FRAGMENT.then();
    pub const PROTOCOL: Field<u8> = TTL.then();
    pub const CHECKSUM: Field<u16> = PROTOCOL.then();
    pub const SOURCE: Field<[u8; 4]> = CHECKSUM.then();
    pub const DESTINATION: Field<[u8; 4]> = SOURCE.then();
    /// Bytes of a header without options.
    pub const LENGTH: usize = DESTINATION.end();
    pub(crate) const FRAGMENT_OFFSET: u16 = 0x1fff;
    pub const MORE_FRAGMENTS: u16 = 0x2000;
    pub(crate) const DONT_FRAGMENT: u16 = 0x4000;
}

/// Fields of the UDP header.
pub(crate) mod udp {
    use super::Field;
    pub const SOURCE: Field<u16> = Field::at(0);
    pub const DESTINATION: Field<u16> = SOURCE.then();
    pub const TOTAL_LENGTH: Field<u16> = DESTINATION.then();
    pub const CHECKSUM: Field<u16> = TOTAL_LENGTH.then();
    pub const LENGTH: usize = CHECKSUM.end();
    /// The protocol number in an IP header.
    pub const PROTOCOL: u8 = 17;
}

const ETHERTYPE_IPV4: u16 = 0x0800;
/// Bytes of all headers before the payload.
pub(crate) const HEADERS: usize = ethernet::LENGTH + ipv4::LENGTH + udp::LENGTH;

/// The datagram in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UdpFrame<'a> {
    /// The Ethernet addresses.
    pub source: Mac,
    pub destination: Mac,
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    /// The datagram's payload.
    pub payload: &'a [u8],
    /// Time to live.
    pub ttl: u8,
    /// The TOS octet.
    pub traffic_class: u8,
}

/// The datagram in `frame`, if it is a whole one of UDP over IPv4. Its checksum is not verified: between virtual
/// interfaces it is often left for an adapter to compute, and there is none.
pub(crate) fn parse(frame: &[u8]) -> Option<UdpFrame<'_>> {
    let packet = frame.get(ethernet::LENGTH..)?;
    let version_length = ipv4::VERSION_LENGTH.read(packet)?;
    let (version, header) = (version_length >> 4, usize::from(version_length & 0x0f) * 4);
    let fragment = ipv4::FRAGMENT.read(packet)? & (ipv4::FRAGMENT_OFFSET | ipv4::MORE_FRAGMENTS);
    let is_udp = ipv4::PROTOCOL.read(packet)? == udp::PROTOCOL;
    if version != 4 || !is_udp || fragment != 0 || header < ipv4::LENGTH {
        return None;
    }
    let datagram = packet.get(header..ipv4::TOTAL_LENGTH.read(packet)?.into())?;
    let end = |address: Field<[u8; 4]>, port: Field<u16>| {
        Some(SocketAddrV4::new(Ipv4Addr::from(address.read(packet)?), port.read(datagram)?))
    };
    Some(UdpFrame {
        source: ethernet::SOURCE.read(frame)?,
        destination: ethernet::DESTINATION.read(frame)?,
        from: end(ipv4::SOURCE, udp::SOURCE)?,
        to: end(ipv4::DESTINATION, udp::DESTINATION)?,
        payload: datagram.get(udp::LENGTH..udp::TOTAL_LENGTH.read(datagram)?.into())?,
        ttl: ipv4::TTL.read(packet)?,
        traffic_class: ipv4::TOS.read(packet)?,
    })
}

/// The two ends of a frame, and the next hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub from_mac: Mac,
    /// Of the next hop.
    pub to_mac: Mac,
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
}

/// The headers of frames between these ends; lengths and checksums are not filled in.
pub(crate) fn headers(ends: &Ends, traffic_class: u8, ttl: u8) -> [u8; HEADERS] {
    let mut headers = [0; HEADERS];
    ethernet::DESTINATION.write(&mut headers, ends.to_mac);
    ethernet::SOURCE.write(&mut headers, ends.from_mac);
    ethernet::ETHERTYPE.write(&mut headers, ETHERTYPE_IPV4);
    let packet = &mut headers[ethernet::LENGTH..];
    ipv4::VERSION_LENGTH.write(packet, 0x40 | (ipv4::LENGTH / 4) as u8);
    ipv4::TOS.write(packet, traffic_class);
    ipv4::FRAGMENT.write(packet, ipv4::DONT_FRAGMENT);
    ipv4::TTL.write(packet, ttl);
    ipv4::PROTOCOL.write(packet, udp::PROTOCOL);
    ipv4::SOURCE.write(packet, ends.from.ip().octets());
    ipv4::DESTINATION.write(packet, ends.to.ip().octets());
    let datagram = &mut packet[ipv4::LENGTH..];
    udp::SOURCE.write(datagram, ends.from.port());
    udp::DESTINATION.write(datagram, ends.to.port());
    headers
}

/// Builds `frame` from headers and payload, and fills in lengths and checksums.
pub(crate) fn fill(frame: &mut Vec<u8>, headers: &[u8; HEADERS], payload: &[u8]) {
    frame.clear();
    frame.extend_from_slice(headers);
    frame.extend_from_slice(payload);
    let packet = &mut frame[ethernet::LENGTH..];
    let length = packet.len() as u16;
    ipv4::TOTAL_LENGTH.write(packet, length);
    let sum = checksum(sum_of(&packet[..ipv4::LENGTH]));
    ipv4::CHECKSUM.write(packet, sum);
    let (header, datagram) = packet.split_at_mut(ipv4::LENGTH);
    let length = datagram.len() as u16;
    udp::TOTAL_LENGTH.write(datagram, length);
    // Zero would mean "no checksum".
    let sum = match checksum(pseudo_header(header, length) + sum_of(datagram)) {
        0 => 0xffff,
        sum => sum,
    };
    udp::CHECKSUM.write(datagram, sum);
}

/// The sum of the UDP pseudo header for a datagram of `length` bytes: addresses, protocol, length.
pub(crate) fn pseudo_header(packet: &[u8], length: u16) -> u64 {
    let addresses = packet.get(ipv4::SOURCE.start()..ipv4::DESTINATION.end()).unwrap_or_default();
    sum_of(addresses) + u64::from(udp::PROTOCOL) + u64::from(length)
}

/// The sum of the 16-bit words of `bytes`.
pub(crate) fn sum_of(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])))
        .sum()
}

/// The Internet checksum (RFC 1071) whose words add up to `sum`.
pub(crate) fn checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Instructions of classic BPF: what they load, or compare what was loaded with.
mod bpf {
    /// Operation, jumps on success and failure, operand.
    pub(crate) type Instruction = (u16, u8, u8, u32);

    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_HALF_BEHIND_IP: u16 = 0x48;
    const LENGTH_OF_IP_HEADER: u16 = 0xb1;
    const IS_EQUAL: u16 = 0x15;
    const HAS_BITS: u16 = 0x45;
    const RETURN: u16 = 0x06;

    /// A test; [`all_of`] fills in how many instructions to skip if it fails.
    pub struct Test {
        load: Load,
        expected: Expected,
    }

    pub enum Load {
        Byte(usize),
        Half(usize),
        Word(usize),
        /// At this offset behind the IP header.
        HalfBehindIp(usize),
    }

    pub enum Expected {
        Equal(u32),
        NoBits(u32),
    }

    pub fn test(load: Load, expected: Expected) -> Test {
        Test { load, expected }
    }

    /// A filter that passes frames which meet all of `tests`; `ip` is the offset of the IP header.
    pub(crate) fn all_of(tests: &[Test], ip: usize) -> Vec<Instruction> {
        let with_length = tests.iter().any(|t| matches!(t.load, Load::HalfBehindIp(_)));
        let mut program = Vec::new();
        if with_length {
            // Kept in the index register.
            program.push((LENGTH_OF_IP_HEADER, 0, 0, ip as u32));
        }
        for (i, test) in tests.iter().enumerate() {
            let (load, at) = match test.load {
                Load::Byte(at) => (LOAD_BYTE, at),
                Load::Half(at) => (LOAD_HALF, at),
                Load::Word(at) => (LOAD_WORD, at),
                Load::HalfBehindIp(at) => (LOAD_HALF_BEHIND_IP, at),
            };
            program.push((load, 0, 0, at as u32));
            // Two instructions for each further test, and the one that passes.
            let fail = (2 * (tests.len() - 1 - i) + 1) as u8;
            program.push(match test.expected {
                Expected::Equal(value) => (IS_EQUAL, 0, fail, value),
                Expected::NoBits(bits) => (HAS_BITS, fail, 0, bits),
            });
        }
        program.push((RETURN, 0, 0, 0xffff));
        program.push(NOTHING);
        program
    }

    /// Passes nothing.
    pub const NOTHING: Instruction = (RETURN, 0, 0, 0);
}

/// A BPF filter: nothing passes.
pub(crate) fn nothing() -> Vec<SockFilter> {
    assemble(&[bpf::NOTHING])
}

/// A BPF filter: UDP over IPv4 to `port`, unfragmented.
pub(crate) fn only_to(port: u16) -> Vec<SockFilter> {
    assemble(&filter(None, &[(udp::DESTINATION, port)]))
}

/// A BPF filter: UDP over IPv4 from `from` to `port`, unfragmented.
pub(crate) fn only_between(from: SocketAddrV4, port: u16) -> Vec<SockFilter> {
    assemble(&filter(Some(*from.ip()), &[(udp::SOURCE, from.port()), (udp::DESTINATION, port)]))
}

fn assemble(program: &[bpf::Instruction]) -> Vec<SockFilter> {
    program.iter().map(|&(code, jt, jf, k)| SockFilter::new(code, jt, jf, k)).collect()
}

fn filter(from: Option<Ipv4Addr>, ports: &[(Field<u16>, u16)]) -> Vec<bpf::Instruction> {
    use bpf::{Expected, Load, test};
    let ip = |start: usize| ethernet::LENGTH + start;
    let mut tests = vec![
        test(Load::Half(ethernet::ETHERTYPE.start()), Expected::Equal(ETHERTYPE_IPV4.into())),
        test(Load::Byte(ip(ipv4::PROTOCOL.start())), Expected::Equal(udp::PROTOCOL.into())),
        test(Load::Half(ip(ipv4::FRAGMENT.start())), Expected::NoBits(ipv4::FRAGMENT_OFFSET.into())),
    ];
    if let Some(from) = from {
        tests.push(test(Load::Word(ip(ipv4::SOURCE.start())), Expected::Equal(from.to_bits())));
    }
    for (field, port) in ports {
        let at = ethernet::LENGTH + field.start();
        tests.push(test(Load::HalfBehindIp(at), Expected::Equal((*port).into())));
    }
    bpf::all_of(&tests, ethernet::LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        let ends = Ends { from_mac: [2, 0, 0, 0, 0, 1], to_mac: [2, 0, 0, 0, 0, 2], from, to };
        let mut frame = Vec::new();
        fill(&mut frame, &headers(&ends, 184, 64), payload);
        frame
    }

    #[test]
    fn frames_are_whole_and_their_sums_right() {
        for payload in [&b""[..], b"odd", b"even"] {
            let mut frame = frame("10.9.0.1:4000", "10.9.0.2:46000", payload);
            let packet = &frame[ethernet::LENGTH..];
            assert_eq!(checksum(sum_of(&packet[..ipv4::LENGTH])), 0, "IPv4");
            let datagram = &packet[ipv4::LENGTH..];
            let pseudo = pseudo_header(packet, (8 + payload.len()) as u16);
            assert_eq!(checksum(pseudo + sum_of(datagram)), 0, "UDP");
            // Short frames are padded.
            frame.extend([0; 20]);
            let datagram = parse(&frame).unwrap();
            assert_eq!(
                (datagram.source, datagram.traffic_class, datagram.ttl),
                ([2, 0, 0, 0, 0, 1], 184, 64)
            );
            assert_eq!(datagram.from, "10.9.0.1:4000".parse().unwrap());
            assert_eq!(datagram.to, "10.9.0.2:46000".parse().unwrap());
            assert_eq!(datagram.payload, payload);
            for cut in 0..HEADERS + payload.len() {
                assert!(parse(&frame[..cut]).is_none());
            }
        }
    }

    #[test]
    fn what_is_no_whole_datagram_is_nothing() {
        let change = |at: usize, value: u8| {
            let mut frame = frame("10.9.0.1:4000", "10.9.0.2:46000", b"payload");
            frame[at] = value;
            parse(&frame).is_some()
        };
        assert!(change(0, 9), "the destination does not matter");
        assert!(!change(14, 0x65) && !change(14, 0x44), "IPv6; a header too short");
        assert!(!change(20, 0x20) && !change(21, 1), "fragments: the first, a later one");
        assert!(!change(23, 6), "TCP");
        assert!(!change(17, 200) && !change(39, 200), "lengths beyond the end");
        assert!(!change(39, 3), "a length that holds no header");
    }

    /// Runs a filter as the kernel would.
    fn passes(program: &[bpf::Instruction], frame: &[u8]) -> bool {
        let (mut accumulator, mut index, mut at) = (0, 0, 0);
        loop {
            let (code, jt, jf, k) = program[at];
            let (jt, jf, k) = (usize::from(jt), usize::from(jf), k as usize);
            at += 1;
            let load = |at: usize, length: usize| {
                frame.get(at..at + length).map(|b| b.iter().fold(0, |n, b| n << 8 | usize::from(*b)))
            };
            let loaded = match code {
                0x20 => load(k, 4),
                0x28 => load(k, 2),
                0x30 => load(k, 1),
                0x48 => load(k + index, 2),
                _ => Some(accumulator),
            };
            let Some(loaded) = loaded else { return false };
            accumulator = loaded;
            match code {
                0xb1 => index = usize::from(frame[k] & 15) * 4,
                0x15 => at += if accumulator == k { jt } else { jf },
                0x45 => at += if accumulator & k != 0 { jt } else { jf },
                0x06 => return k > 0,
                _ => {}
            }
        }
    }

    #[test]
    fn filters_pass_what_they_name() {
        let ours = frame("10.9.0.2:46000", "10.9.0.1:4000", b"x");
        let to = filter(None, &[(udp::DESTINATION, 4000)]);
        let from = Some([10, 9, 0, 2].into());
        let between = filter(from, &[(udp::SOURCE, 46_000), (udp::DESTINATION, 4000)]);
        assert!(passes(&between, &ours) && passes(&to, &ours) && !passes(&[bpf::NOTHING], &ours));
        for (from, dst, near) in [
            ("10.9.0.3:46000", "10.9.0.1:4000", true),
            ("10.9.0.2:46001", "10.9.0.1:4000", true),
            ("10.9.0.2:46000", "10.9.0.1:4001", false),
        ] {
            let other = frame(from, dst, b"x");
            assert_eq!((passes(&between, &other), passes(&to, &other)), (false, near), "{from} {dst}");
        }
        let change = |at: usize, value: u8| {
            let mut other = ours.clone();
            other[at] = value;
            passes(&to, &other)
        };
        assert!(!change(12, 0x86) && !change(23, 6) && !change(21, 1), "IPv6, TCP, a later fragment");
        // With options the ports are further back.
        let mut longer = ours.clone();
        longer[14] = 0x46;
        longer.splice(34..34, [1, 1, 1, 0]);
        assert!(passes(&to, &longer) && passes(&between, &longer));
    }
}
