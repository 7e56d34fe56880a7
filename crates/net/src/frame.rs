//! Ethernet frames with UDP over IPv4 or IPv6: building, parsing, and BPF filters.

use jitlat_proto::wire::Field;
#[cfg(target_os = "linux")]
use socket2::SockFilter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

mod ethernet {
    use super::{Field, Mac};
    pub const DESTINATION: Field<Mac> = Field::at(0);
    pub const SOURCE: Field<Mac> = DESTINATION.then();
    pub const ETHERTYPE: Field<u16> = SOURCE.then();
    pub const LENGTH: usize = ETHERTYPE.end();
}

/// Fields of the IPv4 header.
pub(crate) mod ipv4 {
    use super::Field;
    /// Version in the upper half, header length in 32-bit words in the lower half.
    pub const VERSION_LENGTH: Field<u8> = Field::at(0);
    pub const TOS: Field<u8> = VERSION_LENGTH.then();
    pub const TOTAL_LENGTH: Field<u16> = TOS.then();
    /// Flags in the upper three bits, fragment offset in the others.
    pub const FRAGMENT: Field<u16> = Field::at(6);
    pub const TTL: Field<u8> = FRAGMENT.then();
    pub const PROTOCOL: Field<u8> = TTL.then();
    pub const CHECKSUM: Field<u16> = PROTOCOL.then();
    pub const SOURCE: Field<[u8; 4]> = CHECKSUM.then();
    pub const DESTINATION: Field<[u8; 4]> = SOURCE.then();
    /// Length of a header without options, in bytes.
    pub const LENGTH: usize = DESTINATION.end();
    pub(crate) const FRAGMENT_OFFSET: u16 = 0x1fff;
    pub const MORE_FRAGMENTS: u16 = 0x2000;
    pub(crate) const DONT_FRAGMENT: u16 = 0x4000;
}

/// Fields of the IPv6 header.
pub(crate) mod ipv6 {
    use super::Field;
    /// Version in the upper four bits, then the traffic class, then the flow label.
    pub(crate) const VERSION_CLASS_FLOW: Field<u32> = Field::at(0);
    pub const PAYLOAD_LENGTH: Field<u16> = VERSION_CLASS_FLOW.then();
    pub const NEXT_HEADER: Field<u8> = PAYLOAD_LENGTH.then();
    pub const HOP_LIMIT: Field<u8> = NEXT_HEADER.then();
    pub const SOURCE: Field<[u8; 16]> = HOP_LIMIT.then();
    pub const DESTINATION: Field<[u8; 16]> = SOURCE.then();
    pub const LENGTH: usize = DESTINATION.end();
    pub(crate) const CLASS_SHIFT: u32 = 20;
}

/// Fields of the UDP header.
pub(crate) mod udp {
    use super::Field;
    pub const SOURCE: Field<u16> = Field::at(0);
    pub const DESTINATION: Field<u16> = SOURCE.then();
    pub const TOTAL_LENGTH: Field<u16> = DESTINATION.then();
    pub const CHECKSUM: Field<u16> = TOTAL_LENGTH.then();
    pub const LENGTH: usize = CHECKSUM.end();
    /// Protocol number in the IP header.
    pub const PROTOCOL: u8 = 17;
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Maximum length of all headers before the payload, in bytes.
pub(crate) const HEADERS: usize = ethernet::LENGTH + ipv6::LENGTH + udp::LENGTH;

/// Returns the total length of the IP and UDP headers of packets to `ip`, in bytes.
pub(crate) fn beneath(ip: IpAddr) -> usize {
    udp::LENGTH + if ip.is_ipv4() { ipv4::LENGTH } else { ipv6::LENGTH }
}

/// A UDP datagram parsed from a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UdpFrame<'a> {
    /// Ethernet address of the sender.
    pub source: Mac,
    pub destination: Mac,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Payload of the datagram.
    pub payload: &'a [u8],
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// TOS or traffic-class octet.
    pub traffic_class: u8,
}

/// Parses a frame that contains an unfragmented UDP datagram over IPv4, or over IPv6 without extension
/// headers; `None` otherwise. The checksum is not verified: between virtual interfaces it is often left for
/// an adapter to compute, and no adapter exists.
pub(crate) fn parse(frame: &[u8]) -> Option<UdpFrame<'_>> {
    let packet = frame.get(ethernet::LENGTH..)?;
    let version_length = ipv4::VERSION_LENGTH.read(packet)?;
    let (ttl, traffic_class, datagram, [from, to]) = match version_length >> 4 {
        4 => {
            let header = usize::from(version_length & 0x0f) * 4;
            let fragment = ipv4::FRAGMENT.read(packet)? & (ipv4::FRAGMENT_OFFSET | ipv4::MORE_FRAGMENTS);
            let is_udp = ipv4::PROTOCOL.read(packet)? == udp::PROTOCOL;
            if !is_udp || fragment != 0 || header < ipv4::LENGTH {
                return None;
            }
            let ip = |address: Field<[u8; 4]>| Some(IpAddr::from(address.read(packet)?));
            (
                ipv4::TTL.read(packet)?,
                ipv4::TOS.read(packet)?,
                packet.get(header..ipv4::TOTAL_LENGTH.read(packet)?.into())?,
                [ip(ipv4::SOURCE)?, ip(ipv4::DESTINATION)?],
            )
        }
        6 if ipv6::NEXT_HEADER.read(packet)? == udp::PROTOCOL => {
            let end = ipv6::LENGTH + usize::from(ipv6::PAYLOAD_LENGTH.read(packet)?);
            let ip = |address: Field<[u8; 16]>| Some(IpAddr::from(address.read(packet)?));
            (
                ipv6::HOP_LIMIT.read(packet)?,
                (ipv6::VERSION_CLASS_FLOW.read(packet)? >> ipv6::CLASS_SHIFT) as u8,
                packet.get(ipv6::LENGTH..end)?,
                [ip(ipv6::SOURCE)?, ip(ipv6::DESTINATION)?],
            )
        }
        _ => return None,
    };
    Some(UdpFrame {
        source: ethernet::SOURCE.read(frame)?,
        destination: ethernet::DESTINATION.read(frame)?,
        from: SocketAddr::new(from, udp::SOURCE.read(datagram)?),
        to: SocketAddr::new(to, udp::DESTINATION.read(datagram)?),
        payload: datagram.get(udp::LENGTH..udp::TOTAL_LENGTH.read(datagram)?.into())?,
        ttl,
        traffic_class,
    })
}

/// Source and destination of a frame: Ethernet addresses (the destination is the next hop) and IP addresses
/// of the same family, with ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub from_mac: Mac,
    /// Ethernet address of the next hop.
    pub to_mac: Mac,
    pub from: SocketAddr,
    pub to: SocketAddr,
}

/// Headers of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers {
    bytes: [u8; HEADERS],
    length: usize,
}

/// Returns the headers of frames between `ends`, without lengths and checksums. The IPv6 flow label is zero.
pub(crate) fn headers(ends: &Ends, traffic_class: u8, ttl: u8) -> Headers {
    let mut bytes = [0; HEADERS];
    ethernet::DESTINATION.write(&mut bytes, ends.to_mac);
    ethernet::SOURCE.write(&mut bytes, ends.from_mac);
    let packet = &mut bytes[ethernet::LENGTH..];
    let (ethertype, ip) = match (ends.from.ip(), ends.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            ipv4::VERSION_LENGTH.write(packet, 0x40 | (ipv4::LENGTH / 4) as u8);
            ipv4::TOS.write(packet, traffic_class);
            ipv4::FRAGMENT.write(packet, ipv4::DONT_FRAGMENT);
            ipv4::TTL.write(packet, ttl);
            ipv4::PROTOCOL.write(packet, udp::PROTOCOL);
            ipv4::SOURCE.write(packet, from.octets());
            ipv4::DESTINATION.write(packet, to.octets());
            (ETHERTYPE_IPV4, ipv4::LENGTH)
        }
        (from, to) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            let class = u32::from(traffic_class) << ipv6::CLASS_SHIFT;
            ipv6::VERSION_CLASS_FLOW.write(packet, 6 << 28 | class);
            ipv6::NEXT_HEADER.write(packet, udp::PROTOCOL);
            ipv6::HOP_LIMIT.write(packet, ttl);
            ipv6::SOURCE.write(packet, octets(from));
            ipv6::DESTINATION.write(packet, octets(to));
            (ETHERTYPE_IPV6, ipv6::LENGTH)
        }
    };
    let datagram = &mut packet[ip..];
    udp::SOURCE.write(datagram, ends.from.port());
    udp::DESTINATION.write(datagram, ends.to.port());
    ethernet::ETHERTYPE.write(&mut bytes, ethertype);
    Headers { bytes, length: ethernet::LENGTH + ip + udp::LENGTH }
}

/// Builds `frame` from headers and payload, and sets lengths and checksums.
pub(crate) fn fill(frame: &mut Vec<u8>, headers: &Headers, payload: &[u8]) {
    frame.clear();
    frame.extend_from_slice(&headers.bytes[..headers.length]);
    frame.extend_from_slice(payload);
    let packet = &mut frame[ethernet::LENGTH..];
    let ip = headers.length - ethernet::LENGTH - udp::LENGTH;
    let length = packet.len() as u16;
    if ip == ipv4::LENGTH {
        ipv4::TOTAL_LENGTH.write(packet, length);
        let sum = checksum(sum_of(&packet[..ipv4::LENGTH]));
        ipv4::CHECKSUM.write(packet, sum);
    } else {
        ipv6::PAYLOAD_LENGTH.write(packet, length - ipv6::LENGTH as u16);
    }
    let (header, datagram) = packet.split_at_mut(ip);
    let length = datagram.len() as u16;
    udp::TOTAL_LENGTH.write(datagram, length);
    // A checksum of zero would mean that there is none.
    let sum = match checksum(pseudo_header(header, length) + sum_of(datagram)) {
        0 => 0xffff,
        sum => sum,
    };
    udp::CHECKSUM.write(datagram, sum);
}

/// Returns the sum of the UDP pseudo header (addresses, protocol, length) for a datagram of `length` bytes.
pub(crate) fn pseudo_header(packet: &[u8], length: u16) -> u64 {
    let addresses = match packet.first().map(|first| first >> 4) {
        Some(6) => packet.get(ipv6::SOURCE.start()..ipv6::DESTINATION.end()),
        _ => packet.get(ipv4::SOURCE.start()..ipv4::DESTINATION.end()),
    };
    sum_of(addresses.unwrap_or_default()) + u64::from(udp::PROTOCOL) + u64::from(length)
}

/// Returns the sum of the 16-bit words of `bytes`.
pub(crate) fn sum_of(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])))
        .sum()
}

/// Returns the Internet checksum (RFC 1071) of words that add up to `sum`.
pub(crate) fn checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Operation codes and loads of classic BPF.
mod bpf {
    /// BPF instruction: operation, jumps on success and failure, operand.
    pub(crate) type BpfInstruction = (u16, u8, u8, u32);

    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_HALF_BEHIND_IP: u16 = 0x48;
    const LENGTH_OF_IP_HEADER: u16 = 0xb1;
    const IS_EQUAL: u16 = 0x15;
    const HAS_BITS: u16 = 0x45;
    const RETURN: u16 = 0x06;

    /// Comparison of a field with an expected value. [`all_of`] sets the number of instructions to skip if it fails.
    pub struct FieldTest {
        load: FieldLoad,
        expected: FieldMatch,
    }

    pub enum FieldLoad {
        Byte(usize),
        Half(usize),
        Word(usize),
        /// 16-bit field at this offset after the IP header.
        HalfBehindIp(usize),
    }

    pub enum FieldMatch {
        Equal(u32),
        NoBits(u32),
    }

    pub fn test(load: FieldLoad, expected: FieldMatch) -> FieldTest {
        FieldTest { load, expected }
    }

    /// Returns a filter that passes frames for which all of `tests` succeed. `ip` is the offset of the IP
    /// header.
    pub(crate) fn all_of(tests: &[FieldTest], ip: usize) -> Vec<BpfInstruction> {
        let with_length = tests.iter().any(|t| matches!(t.load, FieldLoad::HalfBehindIp(_)));
        let mut program = Vec::new();
        if with_length {
            // The length of the IP header stays in the index register.
            program.push((LENGTH_OF_IP_HEADER, 0, 0, ip as u32));
        }
        for (i, test) in tests.iter().enumerate() {
            let (load, at) = match test.load {
                FieldLoad::Byte(at) => (LOAD_BYTE, at),
                FieldLoad::Half(at) => (LOAD_HALF, at),
                FieldLoad::Word(at) => (LOAD_WORD, at),
                FieldLoad::HalfBehindIp(at) => (LOAD_HALF_BEHIND_IP, at),
            };
            program.push((load, 0, 0, at as u32));
            // Skips two instructions for each further test, and the instruction that passes the frame.
            let fail = (2 * (tests.len() - 1 - i) + 1) as u8;
            program.push(match test.expected {
                FieldMatch::Equal(value) => (IS_EQUAL, 0, fail, value),
                FieldMatch::NoBits(bits) => (HAS_BITS, fail, 0, bits),
            });
        }
        program.push((RETURN, 0, 0, 0xffff));
        program.push(NOTHING);
        program
    }

    /// Returns a filter that passes frames for which all tests in `one`, or all tests in `other`, succeed.
    pub(crate) fn any_of(one: &[FieldTest], other: &[FieldTest]) -> Vec<BpfInstruction> {
        let mut program = all_of(one, super::ethernet::LENGTH);
        // A frame that fails continues with `other` instead.
        program.pop();
        program.extend(all_of(other, super::ethernet::LENGTH));
        program
    }

    /// Instruction that rejects the frame.
    pub const NOTHING: BpfInstruction = (RETURN, 0, 0, 0);
}

/// Returns a BPF filter that rejects all frames.
#[cfg(target_os = "linux")]
pub(crate) fn nothing() -> Vec<SockFilter> {
    assemble(&[bpf::NOTHING])
}

/// Returns a BPF filter for unfragmented UDP over IPv4 or IPv6 to `port`.
#[cfg(target_os = "linux")]
pub(crate) fn only_to(port: u16) -> Vec<SockFilter> {
    assemble(&bpf::any_of(
        &of_v4(None, &[(udp::DESTINATION, port)]),
        &of_v6(None, &[(udp::DESTINATION, port)]),
    ))
}

/// Returns a BPF filter for unfragmented UDP from `from` to `port`.
#[cfg(target_os = "linux")]
pub(crate) fn only_between(from: SocketAddr, port: u16) -> Vec<SockFilter> {
    let ports = [(udp::SOURCE, from.port()), (udp::DESTINATION, port)];
    assemble(&match from.ip() {
        IpAddr::V4(ip) => bpf::all_of(&of_v4(Some(ip), &ports), ethernet::LENGTH),
        IpAddr::V6(ip) => bpf::all_of(&of_v6(Some(ip), &ports), ethernet::LENGTH),
    })
}

#[cfg(target_os = "linux")]
fn assemble(program: &[bpf::BpfInstruction]) -> Vec<SockFilter> {
    program.iter().map(|&(code, jt, jf, k)| SockFilter::new(code, jt, jf, k)).collect()
}

fn of_v4(from: Option<Ipv4Addr>, ports: &[(Field<u16>, u16)]) -> Vec<bpf::FieldTest> {
    use bpf::{FieldLoad, FieldMatch, test};
    let ip = |start: usize| ethernet::LENGTH + start;
    let mut tests = vec![
        test(FieldLoad::Half(ethernet::ETHERTYPE.start()), FieldMatch::Equal(ETHERTYPE_IPV4.into())),
        test(FieldLoad::Byte(ip(ipv4::PROTOCOL.start())), FieldMatch::Equal(udp::PROTOCOL.into())),
        test(FieldLoad::Half(ip(ipv4::FRAGMENT.start())), FieldMatch::NoBits(ipv4::FRAGMENT_OFFSET.into())),
    ];
    if let Some(from) = from {
        tests.push(test(FieldLoad::Word(ip(ipv4::SOURCE.start())), FieldMatch::Equal(from.to_bits())));
    }
    for (field, port) in ports {
        let at = ethernet::LENGTH + field.start();
        tests.push(test(FieldLoad::HalfBehindIp(at), FieldMatch::Equal((*port).into())));
    }
    tests
}

/// Returns the tests for UDP over IPv6 from `from`, if given, in which the UDP header fields in `ports` have the given
/// values. Fragments and packets with extension headers have a different next header, so they do not match.
fn of_v6(from: Option<Ipv6Addr>, ports: &[(Field<u16>, u16)]) -> Vec<bpf::FieldTest> {
    use bpf::{FieldLoad, FieldMatch, test};
    let ip = |start: usize| ethernet::LENGTH + start;
    let mut tests = vec![
        test(FieldLoad::Half(ethernet::ETHERTYPE.start()), FieldMatch::Equal(ETHERTYPE_IPV6.into())),
        test(FieldLoad::Byte(ip(ipv6::NEXT_HEADER.start())), FieldMatch::Equal(udp::PROTOCOL.into())),
    ];
    for (k, word) in from
        .iter()
        .flat_map(|from| from.octets().chunks(4).map(<[u8]>::to_vec).collect::<Vec<_>>())
        .enumerate()
    {
        let word = word.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        tests.push(test(FieldLoad::Word(ip(ipv6::SOURCE.start()) + 4 * k), FieldMatch::Equal(word)));
    }
    for (field, port) in ports {
        tests
            .push(test(FieldLoad::Half(ip(ipv6::LENGTH) + field.start()), FieldMatch::Equal((*port).into())));
    }
    tests
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
        let ends = [("10.9.0.1:4000", "10.9.0.2:46000"), ("[fd09::1]:4000", "[fd09::2]:46000")];
        for (payload, (from, to)) in
            [&b""[..], b"odd", b"even"].into_iter().flat_map(|p| ends.map(|e| (p, e)))
        {
            let mut frame = frame(from, to, payload);
            let packet = &frame[ethernet::LENGTH..];
            let ip = beneath(from.parse::<SocketAddr>().unwrap().ip()) - udp::LENGTH;
            if ip == ipv4::LENGTH {
                assert_eq!(checksum(sum_of(&packet[..ipv4::LENGTH])), 0, "IPv4");
            } else {
                assert_eq!(
                    ipv6::VERSION_CLASS_FLOW.read(packet),
                    Some(0x6b80_0000),
                    "the flow label is left alone"
                );
            }
            let datagram = &packet[ip..];
            let pseudo = pseudo_header(packet, (8 + payload.len()) as u16);
            assert_eq!(checksum(pseudo + sum_of(datagram)), 0, "UDP");
            // Short frames are padded.
            frame.extend([0; 20]);
            let datagram = parse(&frame).unwrap();
            assert_eq!(
                (datagram.source, datagram.traffic_class, datagram.ttl),
                ([2, 0, 0, 0, 0, 1], 184, 64)
            );
            assert_eq!(datagram.from, from.parse().unwrap());
            assert_eq!(datagram.to, to.parse().unwrap());
            assert_eq!(datagram.payload, payload);
            for cut in 0..ethernet::LENGTH + ip + udp::LENGTH + payload.len() {
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

    /// Runs a filter like the kernel does; returns true if the frame passes.
    fn passes(program: &[bpf::BpfInstruction], frame: &[u8]) -> bool {
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
    fn filters_pass_ipv6_and_no_extension_headers() {
        let ours = frame("[fd09::2]:46000", "[fd09::1]:4000", b"x");
        let ports = [(udp::SOURCE, 46_000), (udp::DESTINATION, 4000)];
        let between = bpf::all_of(&of_v6(Some("fd09::2".parse().unwrap()), &ports), ethernet::LENGTH);
        let to = [(udp::DESTINATION, 4000)];
        let either = bpf::any_of(&of_v4(None, &to), &of_v6(None, &to));
        assert!(passes(&between, &ours) && passes(&either, &ours));
        assert!(passes(&either, &frame("10.9.0.2:46000", "10.9.0.1:4000", b"x")));
        assert!(!passes(&either, &frame("10.9.0.2:46000", "10.9.0.1:4001", b"x")));
        for (from, dst, near) in [
            ("[fd09::3]:46000", "[fd09::1]:4000", true),
            ("[fd09:0:1::2]:46000", "[fd09::1]:4000", true),
            ("[fd09::2]:46001", "[fd09::1]:4000", true),
            ("[fd09::2]:46000", "[fd09::1]:4001", false),
        ] {
            let other = frame(from, dst, b"x");
            assert_eq!((passes(&between, &other), passes(&either, &other)), (false, near), "{from} {dst}");
        }
        // A fragment header, TCP, and IPv4.
        for (at, value) in [(20, 44), (20, 6), (13, 0)] {
            let mut other = ours.clone();
            other[at] = value;
            assert!(!passes(&either, &other) && !passes(&between, &other), "{at}");
        }
    }

    #[test]
    fn filters_pass_what_they_name() {
        let ours = frame("10.9.0.2:46000", "10.9.0.1:4000", b"x");
        let to = bpf::all_of(&of_v4(None, &[(udp::DESTINATION, 4000)]), ethernet::LENGTH);
        let from = Some([10, 9, 0, 2].into());
        let ports = [(udp::SOURCE, 46_000), (udp::DESTINATION, 4000)];
        let between = bpf::all_of(&of_v4(from, &ports), ethernet::LENGTH);
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
        // With IPv4 options, the ports are at a larger offset.
        let mut longer = ours.clone();
        longer[14] = 0x46;
        longer.splice(34..34, [1, 1, 1, 0]);
        assert!(passes(&to, &longer) && passes(&between, &longer));
    }
}
