use super::*;
use crate::decode;
use proptest::prelude::*;

const INNER: [u8; 28] =
    [0x45, 0, 0, 28, 0, 9, 0x40, 0, 63, 6, 0, 0, 192, 168, 0, 1, 192, 168, 0, 2, 0, 80, 1, 2, 0, 0, 0, 1];

fn outer(protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut v = vec![0x45, 0];
    v.extend((20 + transport.len() as u16).to_be_bytes());
    v.extend([0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    v.extend(transport);
    v
}

fn inside(packet: &[u8]) -> Option<(u32, Option<(u16, u16)>)> {
    let p = decode(LinkType::RAW, packet, packet.len() as u32).unwrap();
    p.inside().map(crate::packet::IpPacket::innermost).map(|p| (p.length, p.ports()))
}

const FOUND: Option<(u32, Option<(u16, u16)>)> = Some((28, Some((80, 258))));

#[test]
fn tunnels_in_tunnels_lead_to_the_innermost_packet() {
    let once = outer(4, &INNER);
    assert_eq!(inside(&once), FOUND);
    assert_eq!(inside(&outer(47, &[&[0, 0, 8, 0][..], &once].concat())), FOUND);
    let mut deep = INNER.to_vec();
    (0..40).for_each(|_| deep = outer(4, &deep));
    assert!(inside(&deep).is_some(), "bounded");
    assert_eq!(inside(&INNER), None);
}

#[test]
fn labels_in_udp_lead_to_their_packet() {
    let udp = [&[0xc3, 0x50, 0x19, 0xeb, 0, 44, 0, 0, 0, 1, 0, 64, 0, 2, 1, 64][..], &INNER].concat();
    assert_eq!(inside(&outer(17, &udp)), FOUND);
}

#[test]
fn an_authentication_header_is_stepped_over() {
    let header = [&[6, 4, 0, 0][..], &[0; 20], &INNER[20..]].concat();
    let packet = outer(51, &header);
    let p = decode(LinkType::RAW, &packet, packet.len() as u32).unwrap();
    assert_eq!((p.protocol, p.ports()), (TCP, Some((80, 258))));
}

#[test]
fn what_is_encrypted_or_unknown_is_not_taken_for_a_packet() {
    assert_eq!(inside(&outer(50, &[7; 80])), None);
    assert_eq!(inside(&outer(47, &[0, 0, 0x12, 0x34, 1, 2, 3, 4])), None);
    let null = [&[0, 0, 0, 1, 0, 0, 0, 1][..], &INNER, &[1, 2, 2, 4], &[0; 12]].concat();
    assert_eq!(inside(&outer(50, &null)), FOUND);
    let padded_oddly = [&[0, 0, 0, 1, 0, 0, 0, 1][..], &INNER, &[9, 2, 2, 4], &[0; 12]].concat();
    assert_eq!(inside(&outer(50, &padded_oddly)), None);
}

proptest! {
    #[test]
    fn any_bytes_may_be_in_a_tunnel(
        protocol in prop::sample::select(vec![4u8, 41, 47, 50, 51, 17]),
        port in prop::sample::select(vec![4789u16, 8472, 4790, 6081, 2152, 4500, 3544, 6635]),
        mut bytes in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        if protocol == 17 && bytes.len() > 8 {
            bytes[2..4].copy_from_slice(&port.to_be_bytes());
        }
        let packet = outer(protocol, &bytes);
        if let Ok(p) = decode(LinkType::RAW, &packet, packet.len() as u32) {
            let inner = p.innermost();
            prop_assert!(inner.transport_at <= inner.ip.len());
        }
    }
}
