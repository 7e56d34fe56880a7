//! Parts of captures that are made from known traffic: random numbers, packets, tunnels, files.

use jitlat_core::Span;

pub(super) const US: i64 = 1_000;
pub(super) const MS: i64 = 1_000_000;
pub(super) const SECOND: i64 = 1_000_000_000;
pub(super) const BEGIN: i64 = 1_700_000_000 * SECOND;

/// Returns the number of seeds with which each kind of capture is tested.
pub(super) fn seeds() -> u64 {
    let asked = std::env::var("JITLAT_CAPTURES").ok().and_then(|number| number.parse().ok());
    let full = std::env::var_os("JITLAT_FULL").is_some_and(|value| value == "1");
    asked.unwrap_or(if full { 200 } else { 6 })
}

/// True if the size of a clock step of `by` ns was found with the stated error, which is at most 60 ms.
pub(super) fn is_as_stated(found: Span, error: Option<Span>, by: i64) -> bool {
    error.is_some_and(|error| error.0 <= 60 * MS && (found.0 - by).abs() <= error.0)
}

/// Random numbers (SplitMix64) that depend only on the seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(super) fn within(&mut self, from: i64, to: i64) -> i64 {
        from + (self.next() % (to - from) as u64) as i64
    }

    pub(super) fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.next() as usize % list.len()]
    }
}

/// Form in which segments are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) v6: bool,
    /// True if the hosts number their IPv4 packets.
    pub(super) numbered: bool,
}

pub(super) fn ip(form: Form, up: bool, protocol: u8, ident: u16, ttl: u8, transport: &[u8]) -> Vec<u8> {
    let (a, b) = if up { (1, 2) } else { (2, 1) };
    if form.v6 {
        let mut v = vec![0x60, 0, 0, 0];
        v.extend((transport.len() as u16).to_be_bytes());
        v.extend([protocol, ttl]);
        for host in [a, b] {
            v.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
        v.extend(transport);
        return v;
    }
    let mut v = vec![0x45, 0];
    v.extend((20 + transport.len() as u16).to_be_bytes());
    v.extend(if form.numbered { ident } else { 0 }.to_be_bytes());
    v.extend([0x40, 0, ttl, protocol, 0, 0, 10, 0, 0, a, 10, 0, 0, b]);
    v.extend(transport);
    v
}

/// Returns a capture file with timestamps in nanoseconds.
pub(super) fn pcap(link: u32, frames: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut v: Vec<u8> =
        [0xa1b2_3c4du32, 2 | 4 << 16, 0, 0, 262_144, link].iter().flat_map(|w| w.to_le_bytes()).collect();
    for (at, data) in frames {
        let at = BEGIN + at;
        let header = [(at / SECOND) as u32, (at % SECOND) as u32, data.len() as u32, data.len() as u32];
        v.extend(header.iter().flat_map(|w| w.to_le_bytes()));
        v.extend(data);
    }
    v
}

pub(super) const RAW: u32 = 101;
pub(super) const ETHERNET: u32 = 1;

/// Returns `packet` inside a tunnel of this kind.
pub(super) fn wrapped(kind: &str, packet: &[u8], v6: bool) -> Vec<u8> {
    let outer = Form { v6: false, numbered: true };
    let ethertype: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
    let bridged = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &ethertype, packet].concat();
    let udp = |port: u16, header: &[u8], inner: &[u8]| {
        let mut t = [50_000u16.to_be_bytes(), port.to_be_bytes()].concat();
        t.extend(((8 + header.len() + inner.len()) as u16).to_be_bytes());
        t.extend([0, 0]);
        t.extend([header, inner].concat());
        ip(outer, true, 17, 7, 64, &t)
    };
    let gre = |header: &[u8], inner: &[u8]| ip(outer, true, 47, 7, 64, &[header, inner].concat());
    match kind {
        "vxlan" => udp(4789, &[8, 0, 0, 0, 0, 0, 1, 0], &bridged),
        "geneve" => udp(6081, &[1, 0, 0x65, 0x58, 0, 0, 1, 0, 0, 0, 0, 0], &bridged),
        "gtp-u" => udp(2152, &[0x30, 255, 0, packet.len() as u8, 0, 0, 0, 9], packet),
        "gtp-u with numbers" => udp(2152, &[0x32, 255, 0, 0, 0, 0, 0, 9, 0, 1, 0, 0], packet),
        "gre" => gre(&[0, 0, ethertype[0], ethertype[1]], packet),
        "gre with key" => gre(&[0x30, 0, ethertype[0], ethertype[1], 0, 0, 0, 1, 0, 0, 0, 2], packet),
        "gretap" => gre(&[0, 0, 0x65, 0x58], &bridged),
        "erspan 1" => gre(&[0, 0, 0x88, 0xbe], &bridged),
        "erspan 2" => gre(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0], &bridged),
        "erspan 3" => {
            gre(&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &bridged)
        }
        "mpls in udp" => udp(6635, &[0, 1, 0, 64, 0, 2, 1, 64], packet),
        "ip in ip" => ip(outer, true, if v6 { 41 } else { 4 }, 7, 64, packet),
        "esp null" => {
            let next = if v6 { 41 } else { 4 };
            let pad = (4 - (packet.len() + 2) % 4) % 4;
            let padding: Vec<u8> = (1..=pad as u8).collect();
            let t = [&[0, 0, 1, 0, 0, 0, 0, 1], packet, &padding, &[pad as u8, next], &[0xee; 12]].concat();
            ip(outer, true, 50, 7, 64, &t)
        }
        _ => unreachable!("{kind}"),
    }
}

pub(super) const TUNNELS: [&str; 13] = [
    "vxlan",
    "geneve",
    "gtp-u",
    "gtp-u with numbers",
    "gre",
    "gre with key",
    "gretap",
    "erspan 1",
    "erspan 2",
    "erspan 3",
    "mpls in udp",
    "ip in ip",
    "esp null",
];
