#![no_main]
// Aims at: crates/proto/src/path/quotation.rs

use jitlat_proto::path::{IcmpFamily, Quotation};
use std::net::IpAddr;

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

// All parsed fields are in the message: the addresses one after the other, and the ports after them.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, message)) = data.split_first() else { return };
    let family = if first & 1 == 0 { IcmpFamily::V4 } else { IcmpFamily::V6 };
    let Ok(quotation) = Quotation::parse(family, message) else { return };
    assert!(quotation.labels.len() <= jitlat_proto::path::MAX_LABELS);
    assert!(quotation.labels.iter().all(|l| l.label < 1 << 20 && l.traffic_class < 8));
    assert!(matches!(quotation.protocol, 6 | 17));
    assert!(quotation.payload.is_none() || quotation.protocol == 17);
    let addresses = [octets(quotation.source), octets(quotation.destination)].concat();
    let end = match family {
        IcmpFamily::V4 => 8 + 20,
        IcmpFamily::V6 => 8 + 40,
    };
    assert_eq!(message[end - addresses.len()..end], addresses, "addresses that are not in the message");
    let ports: Vec<u8> = quotation.ports.iter().flat_map(|p| p.to_be_bytes()).collect();
    assert!(message[end..].windows(4).any(|bytes| bytes == ports), "ports that are not in the message");
    // Every byte of the quoted header is needed: without the last one parsing fails.
    assert!(Quotation::parse(family, &message[..end]).is_err());
});
