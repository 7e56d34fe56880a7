//! [`Link`]: from the bytes of an IP packet to the time it occupies an access link, and back.
//!
//! On ATM a packet becomes an AAL5 frame, padded to whole cells of 48 bytes, each sent as 53; the headers in between
//! depend on the configuration of the modem, which a payload sweep reveals.

mod encapsulation;
mod error;
mod fit;

pub use encapsulation::{AtmPayload, Encapsulation, Layer, Wire};
pub use error::{NotALink, NotALinkQuestion};
pub use fit::{Fit, fit, fit_sizes};

use super::sizes::SizeFigures;
use crate::time::{SECOND, Span};
use core::str::FromStr;
use encapsulation::{CELL, MAX_OVERHEAD};
use serde::Serialize;

/// UDP and IPv4 headers, in bytes.
const UDP_IP: u64 = 28;

/// An access link with both its rates. Up is from the reference to the monitor point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Link {
    /// What is added to an IP packet.
    pub encapsulation: Encapsulation,
    /// Bytes added to each IP packet before that, by a tunnel.
    pub tunnel: u64,
    /// Bits a second from the reference point.
    pub up: u64,
    /// Bits a second to the reference point.
    pub down: u64,
}

/// A question about a link: what a known one explains, or which one it is.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkQuestion {
    /// What this link explains.
    Compare(Link),
    /// The link that the sizes suggest.
    Fit {
        /// Bytes added by a tunnel.
        tunnel: u64,
    },
}

impl LinkQuestion {
    /// The link to compare with; None where it is to be found.
    pub fn link(&self) -> Option<&Link> {
        match self {
            LinkQuestion::Compare(link) => Some(link),
            LinkQuestion::Fit { .. } => None,
        }
    }
}

impl FromStr for LinkQuestion {
    type Err = NotALinkQuestion;

    fn from_str(s: &str) -> Result<LinkQuestion, NotALinkQuestion> {
        let Some(rest) = s.strip_prefix("fit") else { return Ok(LinkQuestion::Compare(s.parse()?)) };
        if rest.is_empty() {
            return Ok(LinkQuestion::Fit { tunnel: 0 });
        }
        let bytes = rest.strip_prefix(",tunnel=").and_then(|n| n.parse().ok());
        let tunnel = bytes.filter(|n| *n <= MAX_OVERHEAD).ok_or(NotALinkQuestion::Fit)?;
        Ok(LinkQuestion::Fit { tunnel })
    }
}

impl FromStr for Link {
    type Err = NotALink;

    fn from_str(s: &str) -> Result<Link, NotALink> {
        let bad = || NotALink(s.to_owned());
        let mut parts = s.split(',').map(str::trim);
        let encapsulation = parts.next().unwrap_or_default().parse().map_err(|_| bad())?;
        let (mut up, mut down, mut tunnel) = (None, None, 0);
        for part in parts {
            match part.split_once('=') {
                Some(("up", r)) => up = rate(r),
                Some(("down", r)) => down = rate(r),
                Some(("tunnel", n)) => {
                    tunnel = n.parse().ok().filter(|n| *n <= MAX_OVERHEAD).ok_or_else(bad)?;
                }
                _ => return Err(bad()),
            }
        }
        let (up, down) = (up.or(down).ok_or_else(bad)?, down.or(up).ok_or_else(bad)?);
        Ok(Link { encapsulation, tunnel, up, down })
    }
}

/// `128k`, `1.5M`, `512kbit`, `10Mbit/s`: bits a second.
fn rate(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let unit = text[split..].trim_end_matches("/s").trim_end_matches("bit");
    let scale = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    let bits = text[..split].parse::<f64>().ok()? * scale;
    (1.0..=1e15).contains(&bits).then_some(bits.round() as u64)
}

impl Link {
    /// A UDP payload on this link, from the data outwards: one column of the seed's Table I.
    pub fn of_payload(&self, payload: u64) -> Wire {
        let mut layers = vec![Layer { name: "data", added: payload, total: payload }];
        let mut total = payload;
        for (name, added) in [("UDP", 8), ("IP", 20), ("tunnel", self.tunnel)] {
            if added > 0 {
                total += added;
                layers.push(Layer { name, added, total });
            }
        }
        let mut wire = self.encapsulation.wire(total);
        layers.append(&mut wire.layers);
        Wire { layers, ..wire }
    }

    /// Bytes an IP packet of `length` bytes occupies the link with.
    pub fn bytes(&self, length: u64) -> u64 {
        self.encapsulation.wire(length + self.tunnel).bytes
    }

    /// Serialisation delay from the reference point, of an IP packet of `length` bytes.
    pub fn delay_up(&self, length: u64) -> Span {
        serialisation(self.bytes(length), self.up)
    }

    /// Serialisation delay to the reference point.
    pub fn delay_down(&self, length: u64) -> Span {
        serialisation(self.bytes(length), self.down)
    }

    /// Serialisation of a pair: the part of its round trip that the link alone explains.
    pub fn rtt(&self, out: u64, back: u64) -> Span {
        self.delay_up(out) + self.delay_down(back)
    }

    /// Cells of an IP packet of `length` bytes; `None` if the link is not ATM.
    pub fn cells(&self, length: u64) -> Option<u64> {
        self.encapsulation.wire(length + self.tunnel).cells
    }

    /// IP length of a UDP payload.
    pub fn ip_length(payload: u64) -> u64 {
        payload + UDP_IP
    }

    /// The time of one cell up and down: the smallest steps of a delay; `None` if the link is not ATM.
    pub fn cell(&self) -> Option<(Span, Span)> {
        matches!(self.encapsulation, Encapsulation::Atm { .. })
            .then(|| (serialisation(CELL.1, self.up), serialisation(CELL.1, self.down)))
    }
}

/// What a link alone takes for a pair of packets, and what the round trips of such pairs have beyond it: a column of the
/// seed's Table II.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelFigures {
    /// ATM cells of the OUT packet; None on other links.
    pub out_cells: Option<u64>,
    /// ATM cells of the IN packet; None on other links.
    pub in_cells: Option<u64>,
    /// Serialisation of the OUT packet.
    #[serde(rename = "up_ns")]
    pub up: Span,
    /// Serialisation of the IN packet.
    #[serde(rename = "down_ns")]
    pub down: Span,
    /// Serialisation of both.
    #[serde(rename = "rtt_ns")]
    pub rtt: Span,
    /// The least round trip above [`Self::rtt`].
    #[serde(rename = "min_above_ns")]
    pub min_above: Span,
    /// The median round trip above [`Self::rtt`].
    #[serde(rename = "median_above_ns")]
    pub median_above: Span,
    /// The mean round trip above [`Self::rtt`], in ns.
    pub mean_above_ns: f64,
}

impl ModelFigures {
    /// What `link` takes for pairs of these sizes.
    pub fn of(link: &Link, size: &SizeFigures) -> ModelFigures {
        let (out, back) = (u64::from(size.out_length), u64::from(size.in_length));
        let rtt = link.rtt(out, back);
        ModelFigures {
            out_cells: link.cells(out),
            in_cells: link.cells(back),
            up: link.delay_up(out),
            down: link.delay_down(back),
            rtt,
            min_above: Span(size.min_rtt_ns) - rtt,
            median_above: Span(size.median_rtt_ns) - rtt,
            mean_above_ns: size.mean_rtt_ns - rtt.0 as f64,
        }
    }
}

/// Time of `bytes` at `rate` bits a second, to the nearest nanosecond.
fn serialisation(bytes: u64, rate: u64) -> Span {
    let (bits, rate) = (u128::from(bytes) * 8 * SECOND as u128, u128::from(rate.max(1)));
    Span(i64::try_from((bits + rate / 2) / rate).unwrap_or(i64::MAX))
}

/// Milliseconds with two decimals, rounded half up, as in the seed's tables.
pub fn milliseconds(s: Span) -> String {
    let h = (s.0 + 5_000).div_euclid(10_000);
    format!("{}{}.{:02}", if h < 0 { "-" } else { "" }, h.abs() / 100, h.abs() % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "pppoe-llc,up=128k,down=512k,tunnel=28";
    const PAYLOADS: [u64; 5] = [40, 340, 640, 940, 1240];

    #[test]
    fn table_one_of_the_seed() {
        let link: Link = SEED.parse().unwrap();
        let columns = PAYLOADS.map(|p| {
            let w = link.of_payload(p);
            let totals: Vec<u64> = w.layers.iter().map(|l| l.total).collect();
            let pad = w.layers.iter().find(|l| l.name == "padding").map(|l| l.added);
            // data, UDP, IP, tunnel, PPPoE, MAC, RFC 1483; the padded AAL5 frame
            (totals[..7].to_vec(), pad, totals[totals.len() - 2], w.cells)
        });
        let expected = [
            ([40, 48, 68, 96, 104, 118, 128], 8, 144, 3),
            ([340, 348, 368, 396, 404, 418, 428], 44, 480, 10),
            ([640, 648, 668, 696, 704, 718, 728], 32, 768, 16),
            ([940, 948, 968, 996, 1004, 1018, 1028], 20, 1056, 22),
            ([1240, 1248, 1268, 1296, 1304, 1318, 1328], 8, 1344, 28),
        ];
        for (got, (totals, pad, frame, cells)) in columns.iter().zip(expected) {
            assert_eq!(*got, (totals.to_vec(), Some(pad), frame, Some(cells)));
        }
    }

    #[test]
    fn table_two_of_the_seed() {
        let link: Link = SEED.parse().unwrap();
        let row = |f: &dyn Fn(u64) -> Span| PAYLOADS.map(|p| milliseconds(f(Link::ip_length(p))));
        assert_eq!(row(&|l| link.delay_down(l)), ["2.48", "8.28", "13.25", "18.22", "23.19"]);
        assert_eq!(row(&|l| link.delay_up(l)), ["9.94", "33.13", "53.00", "72.88", "92.75"]);
        // The seed prints 91.10 at 940 bytes, the sum of the two rounded delays above.
        assert_eq!(row(&|l| link.rtt(l, l)), ["12.42", "41.41", "66.25", "91.09", "115.94"]);
        let differences = [20.34, 49.52, 74.72, 100.05, 125.37].iter().zip(PAYLOADS).map(|(median, p)| {
            milliseconds(Span((median * 1e6) as i64) - link.rtt(Link::ip_length(p), Link::ip_length(p)))
        });
        // And 8.95 there, for the same reason.
        assert_eq!(differences.collect::<Vec<_>>(), ["7.92", "8.11", "8.47", "8.96", "9.43"]);
    }

    #[test]
    fn links_and_questions_are_read() {
        let link = |text: &str| text.parse::<Link>().ok().map(|l| (l.up, l.down, l.tunnel));
        assert_eq!(link("plain,up=128k,down=1.5M"), Some((128_000, 1_500_000, 0)));
        assert_eq!(link("plain, up=10Mbit/s , tunnel=65535"), Some((10_000_000, 10_000_000, 65_535)));
        assert_eq!(link("plain,down=2Gbit"), Some((2_000_000_000, 2_000_000_000, 0)));
        assert_eq!(link("plain,up=3K,down=7bit/s"), Some((3000, 7, 0)));
        for wrong in [
            "plain",
            "nothing,up=1k",
            "plain,up=1k,tunnel=65536",
            "plain,up=1k,tunnel=x",
            "plain,up=k",
            "plain,up=1",
            "plain,up=1T",
            "plain,up=0k",
            "plain,up=2000000G",
            "plain,up=1k,side=2k",
            "plain,up",
            "",
        ] {
            assert_eq!(wrong.parse::<Link>(), Err(NotALink(wrong.to_owned())));
        }
        let question = |text: &str| text.parse::<LinkQuestion>();
        let plain = "plain,up=1k".parse().unwrap();
        assert_eq!(question("plain,up=1k"), Ok(LinkQuestion::Compare(plain)));
        assert_eq!(question("fit"), Ok(LinkQuestion::Fit { tunnel: 0 }));
        assert_eq!(question("fit,tunnel=65535"), Ok(LinkQuestion::Fit { tunnel: 65_535 }));
        for wrong in ["fit,tunnel=65536", "fit,tunnel=", "fit28"] {
            assert_eq!(question(wrong), Err(NotALinkQuestion::Fit));
        }
        assert_eq!(question("up=1k"), Err(NotALink("up=1k".to_owned()).into()));
    }

    #[test]
    fn times_of_bytes() {
        let link: Link = "plain+10,up=3M,down=8k,tunnel=5".parse().unwrap();
        assert_eq!((link.bytes(100), link.cells(100), link.cell()), (115, None, None));
        // 920 bits: 306 666.7 and 115 000 000 ns.
        assert_eq!((link.delay_up(100), link.delay_down(100)), (Span(306_667), Span(115_000_000)));
        assert_eq!(link.rtt(100, 100), Span(115_306_667));
        assert_eq!(link.of_payload(100).layers.len(), 5);
        let untunnelled: Link = "plain,up=3M".parse().unwrap();
        assert_eq!(untunnelled.of_payload(100).layers.len(), 3, "data, UDP, IP");
        let atm: Link = "pppoa-vc,up=1M,down=2M".parse().unwrap();
        assert_eq!(Link { tunnel: 40, ..atm }.cells(100), Some(4));
        assert_eq!((atm.cells(100), atm.cell()), (Some(3), Some((Span(424_000), Span(212_000)))));
        let printed = [0, 4_999, 5_000, -5_001, 1_234_567_890, -20_340_000].map(|ns| milliseconds(Span(ns)));
        assert_eq!(printed, ["0.00", "0.00", "0.01", "-0.01", "1234.57", "-20.34"]);
    }

    #[test]
    fn the_bands_of_the_seed() {
        let link: Link = "pppoe-llc,up=128k,down=512k".parse().unwrap();
        assert_eq!(
            (milliseconds(link.delay_up(1450)), milliseconds(link.delay_down(1450))),
            ("106.00".into(), "26.50".into())
        );
        assert_eq!(link.encapsulation.wire(1450).cells, Some(32));
        assert_eq!(link.cell(), Some((Span(3_312_500), Span(828_125))));
        assert_eq!(milliseconds(link.delay_up(1500)), "109.31", "33 cells");
        assert_eq!(link.encapsulation.overhead(), 40);
    }

    #[test]
    fn what_a_model_leaves_of_a_size_is_above_it() {
        let link: Link = "plain,up=8M,down=4M".parse().unwrap();
        // 100 bytes take 0.1 ms and 200 take 0.4 ms.
        let size = SizeFigures {
            out_length: 100,
            in_length: 200,
            pairs: 3,
            min_rtt_ns: 600_000,
            median_rtt_ns: 700_000,
            mean_rtt_ns: 800_000.5,
            percentiles: Vec::new(),
        };
        let f = ModelFigures::of(&link, &size);
        assert_eq!((f.up, f.down, f.rtt), (Span(100_000), Span(400_000), Span(500_000)));
        assert_eq!((f.min_above, f.median_above, f.mean_above_ns), (Span(100_000), Span(200_000), 300_000.5));
        assert_eq!(LinkQuestion::Compare(link).link(), Some(&link));
        assert_eq!(LinkQuestion::Fit { tunnel: 0 }.link(), None);
    }
}
