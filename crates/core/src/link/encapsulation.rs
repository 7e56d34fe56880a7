//! [`Encapsulation`]: the bytes that a link adds to an IP packet, layer by layer.

use super::error::NotALink;
use core::fmt;
use core::str::FromStr;
use serde::Serialize;

/// Maximum number of bytes that a tunnel or a link may add to each packet.
pub const MAX_OVERHEAD: u64 = 65_535;
/// Payload bytes and total bytes of an ATM cell.
pub(super) const CELL_BYTES: (u64, u64) = (48, 53);

/// Protocol layers around an IP packet on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Encapsulation {
    /// AAL5 over ATM (ADSL).
    Atm {
        /// Payload of the AAL5 frame.
        #[serde(rename = "carried")]
        payload: AtmPayload,
        /// True for LLC/SNAP, false for VC multiplexing (RFC 2684).
        llc: bool,
        /// True if the Ethernet frame check sequence is included.
        fcs: bool,
    },
    /// Ethernet with check sequence, preamble and gap; short frames are padded.
    Ethernet {
        /// True with a PPPoE header inside.
        pppoe: bool,
        /// True with a VLAN tag.
        vlan: bool,
    },
    /// A fixed number of bytes for each packet.
    Plain {
        /// Number of bytes.
        overhead: u64,
    },
}

/// Payload of an AAL5 frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AtmPayload {
    /// PPP over Ethernet (RFC 2516).
    Pppoe,
    /// PPP directly (RFC 2364).
    Pppoa,
    /// Ethernet frames.
    Bridged,
    /// IP packets.
    Routed,
}

/// One layer of a packet: the bytes it adds, and the total so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Layer {
    /// Identifier of the layer.
    pub name: &'static str,
    /// Number of bytes that the layer adds.
    pub added: u64,
    /// Total number of bytes up to this layer.
    pub total: u64,
}

/// A packet on the link, layer by layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WirePacket {
    /// Layers from the payload outwards.
    pub layers: Vec<Layer>,
    /// Number of ATM cells; `None` if the link is not ATM.
    pub cells: Option<u64>,
    /// Number of bytes that occupy the link.
    pub bytes: u64,
}

impl Encapsulation {
    /// Returns the headers and trailers around an IP packet, without padding.
    fn headers(self) -> Vec<(&'static str, u64)> {
        let (pppoe, mac) = (("PPPoE", 8), ("MAC", 14));
        match self {
            Encapsulation::Plain { overhead } => vec![("link", overhead)],
            Encapsulation::Ethernet { pppoe: with, vlan } => {
                let mut h = if with { vec![pppoe] } else { vec![] };
                h.push(mac);
                h.extend(vlan.then_some(("VLAN", 4)));
                h.push(("FCS", 4));
                h
            }
            Encapsulation::Atm { payload, llc, fcs } => {
                let mut h = match payload {
                    AtmPayload::Pppoe => vec![pppoe, mac],
                    AtmPayload::Pppoa => vec![("PPP", 2)],
                    AtmPayload::Bridged => vec![mac],
                    AtmPayload::Routed => vec![],
                };
                let ethernet = matches!(payload, AtmPayload::Pppoe | AtmPayload::Bridged);
                h.extend((fcs && ethernet).then_some(("FCS", 4)));
                let multiplexing = match (payload, llc) {
                    (AtmPayload::Pppoe | AtmPayload::Bridged, true) => 10,
                    (AtmPayload::Pppoe | AtmPayload::Bridged, false) => 2,
                    (AtmPayload::Pppoa, true) => 4,
                    (AtmPayload::Routed, true) => 8,
                    (_, false) => 0,
                };
                h.extend((multiplexing > 0).then_some(("RFC1483", multiplexing)));
                h
            }
        }
    }

    /// Iterates over all encapsulations of ATM.
    pub fn of_atm() -> impl Iterator<Item = Encapsulation> {
        [AtmPayload::Pppoe, AtmPayload::Pppoa, AtmPayload::Bridged, AtmPayload::Routed].into_iter().flat_map(
            |payload| {
                [(true, false), (false, false), (true, true), (false, true)].into_iter().filter_map(
                    move |(llc, fcs)| {
                        let ethernet = matches!(payload, AtmPayload::Pppoe | AtmPayload::Bridged);
                        (ethernet || !fcs).then_some(Encapsulation::Atm { payload, llc, fcs })
                    },
                )
            },
        )
    }

    /// Returns the bytes added to an IP packet before padding. On ATM this is H in n = ⌈(L + H)/48⌉,
    /// including AAL5's trailer.
    pub fn overhead(self) -> u64 {
        let headers: u64 = self.headers().iter().map(|h| h.1).sum();
        headers + if matches!(self, Encapsulation::Atm { .. }) { 8 } else { 0 }
    }

    /// Returns the layers of an IP packet of `length` bytes on this link.
    pub fn wire(self, length: u64) -> WirePacket {
        let mut w = WirePacket { layers: Vec::new(), cells: None, bytes: length };
        let mut add = |name, added| {
            if added > 0 {
                w.bytes += added;
                w.layers.push(Layer { name, added, total: w.bytes });
            }
        };
        let headers = self.headers();
        match self {
            Encapsulation::Plain { .. } => headers.iter().for_each(|h| add(h.0, h.1)),
            Encapsulation::Ethernet { pppoe, .. } => {
                let inside = length + if pppoe { 8 } else { 0 };
                add("padding", 46u64.saturating_sub(inside));
                headers.iter().for_each(|h| add(h.0, h.1));
                add("preamble and gap", 20);
            }
            Encapsulation::Atm { .. } => {
                headers.iter().for_each(|h| add(h.0, h.1));
                let frame = length + self.overhead();
                let cells = frame.div_ceil(CELL_BYTES.0);
                add("padding", cells * CELL_BYTES.0 - frame);
                add("AAL5", 8);
                add("ATM", cells * (CELL_BYTES.1 - CELL_BYTES.0));
                w.cells = Some(cells);
            }
        }
        w
    }
}

impl fmt::Display for Encapsulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Encapsulation::Plain { overhead } => write!(f, "plain+{overhead}"),
            Encapsulation::Ethernet { pppoe, vlan } => {
                let (p, v) = (if *pppoe { "-pppoe" } else { "" }, if *vlan { "-vlan" } else { "" });
                write!(f, "ethernet{p}{v}")
            }
            Encapsulation::Atm { payload, llc, fcs } => {
                let name = match payload {
                    AtmPayload::Pppoe => "pppoe",
                    AtmPayload::Pppoa => "pppoa",
                    AtmPayload::Bridged => "bridged",
                    AtmPayload::Routed => "ipoa",
                };
                let (m, c) = (if *llc { "llc" } else { "vc" }, if *fcs { "-fcs" } else { "" });
                write!(f, "{name}-{m}{c}")
            }
        }
    }
}

impl FromStr for Encapsulation {
    type Err = NotALink;

    fn from_str(s: &str) -> Result<Encapsulation, NotALink> {
        let bad = || NotALink(s.to_owned());
        if let Some(rest) = s.strip_prefix("plain") {
            let overhead = match rest.strip_prefix('+') {
                Some(n) => n.parse().ok().filter(|n| *n <= MAX_OVERHEAD).ok_or_else(bad)?,
                None if rest.is_empty() => 0,
                None => return Err(bad()),
            };
            return Ok(Encapsulation::Plain { overhead });
        }
        if let Some(rest) = s.strip_prefix("ethernet") {
            let (mut pppoe, mut vlan) = (false, false);
            let Some("") = rest.split('-').next() else { return Err(bad()) };
            for part in rest.split('-').skip(1) {
                match part {
                    "pppoe" => pppoe = true,
                    "vlan" => vlan = true,
                    _ => return Err(bad()),
                }
            }
            return Ok(Encapsulation::Ethernet { pppoe, vlan });
        }
        Encapsulation::of_atm().find(|e| e.to_string() == s).ok_or_else(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::AccessLink;

    #[test]
    fn every_encapsulation_has_a_name_that_reads_back() {
        let all = ["ethernet", "ethernet-pppoe", "ethernet-vlan", "plain", "plain+12"];
        for e in Encapsulation::of_atm().map(|e| e.to_string()).chain(all.map(String::from)) {
            let parsed: Encapsulation = e.parse().unwrap();
            assert_eq!(parsed.to_string(), if e == "plain" { "plain+0" } else { &e });
        }
        for bad in
            ["", "atm", "pppoe", "pppoe-llc,up=0", "pppoe-llc,up=1x", "pppoe-llc", "ipoa-llc-fcs,up=1M"]
        {
            assert!(bad.parse::<AccessLink>().is_err(), "{bad}");
        }
        for bad in
            ["plainly", "plain+65536", "plain+", "ethernets", "ethernet-", "ethernet-llc", "ethernetpppoe"]
        {
            assert!(bad.parse::<Encapsulation>().is_err(), "{bad}");
        }
        assert_eq!(Encapsulation::of_atm().count(), 12, "only Ethernet has a check sequence");
        let pppoe: Encapsulation = "ethernet-pppoe".parse().unwrap();
        assert_eq!((pppoe.wire(37).bytes, pppoe.wire(38).bytes, pppoe.wire(39).bytes), (84, 84, 85));
        let full = pppoe.wire(1492);
        assert!(full.bytes == 1538 && full.layers.iter().all(|l| l.added > 0), "{full:?}");
        assert_eq!("ethernet,up=100M".parse::<AccessLink>().unwrap().bytes(28), 84, "a minimal frame");
        assert_eq!("ethernet,up=100M".parse::<AccessLink>().unwrap().bytes(1500), 1538);
    }
}
