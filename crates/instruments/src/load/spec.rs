//! [`LoadSpec`]: traffic to be sent beside a test, as people write it: `udp:5Mbit,dscp=AF11`, `tcp:20Mbit,streams=4`.

use crate::error::Error;
use jitlat_core::priority::UnknownCategory;
use jitlat_core::quantity::{self, QuantityError, Rate};
use jitlat_core::spec::MAX_PAYLOAD;
use jitlat_core::{AccessCategory, Direction, Dscp, Schedule, Span, TestSpec, Transport};
use std::fmt;
use std::str::FromStr;

/// Traffic of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSpec {
    text: String,
    transport: Transport,
    period: Span,
    payload: u64,
    streams: usize,
    dscp: Dscp,
    priority: Option<u32>,
    direction: Direction,
}

/// Payload bytes: a datagram that fits the MTU of nearly any path; for TCP several segments.
const PAYLOAD: [u64; 2] = [1400, 14_480];
/// A server grants one client eight sessions, and the test needs one of them.
const MOST_STREAMS: usize = 7;
/// The most packets of one stream: half a gigabyte of records at each end.
const MOST_PACKETS: u64 = 8_000_000;

impl LoadSpec {
    /// Priority of its packets within this host (`SO_PRIORITY`); `None`: the default.
    pub fn priority(&self) -> Option<u32> {
        self.priority
    }

    /// The specification of each stream, for `duration`.
    ///
    /// # Errors
    /// [`Error::Spec`] if such a stream is impossible.
    pub fn streams(&self, duration: Span) -> Result<Vec<TestSpec>, Error> {
        let packets = (duration.0 as u64).div_ceil(self.period.0.max(1) as u64).clamp(1, MOST_PACKETS);
        let spec = TestSpec::new(
            self.direction,
            self.transport,
            packets,
            self.payload,
            self.period,
            Schedule::Periodic,
        );
        let mut spec = spec.map_err(|e| Error::from(e).while_doing(format!("the load {self}")))?;
        spec.dscp = self.dscp;
        Ok(vec![spec; self.streams])
    }
}

impl fmt::Display for LoadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for LoadSpec {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<LoadSpec, QuantityError> {
        const USAGE: &str = "write udp:RATE or tcp:RATE, then streams=N, dscp=EF, ac=VO or priority=N, payload=BYTES, down as needed: \
                             tcp:20Mbit,streams=4,dscp=AF11";
        let bad = |why: &str| QuantityError::new(format!("'{text}' is not a load: {why}; {USAGE}"));
        let (kind, rest) = text.split_once(':').ok_or_else(|| bad("it names no transport"))?;
        let transport = match kind {
            "udp" => Transport::Udp,
            "tcp" => Transport::Tcp,
            _ => return Err(bad("it is neither udp nor tcp")),
        };
        let mut parts = rest.split(',');
        let rate = quantity::rate(parts.next().unwrap_or_default()).map_err(|e| bad(&e.to_string()))?;
        let mut payload = PAYLOAD[usize::from(transport == Transport::Tcp)];
        let (mut streams, mut dscp, mut direction) = (1, Dscp::default(), Direction::Up);
        let mut priority = None;
        for part in parts {
            match part.split_once('=') {
                Some(("streams", n)) => {
                    let n = n.parse().ok().filter(|n| (1..=MOST_STREAMS).contains(n));
                    streams = n.ok_or_else(|| bad(&format!("streams are 1 to {MOST_STREAMS}")))?;
                }
                Some(("dscp", d)) => dscp = d.parse().map_err(|e| bad(&format!("{e}")))?,
                Some(("ac", c)) => {
                    let category: AccessCategory =
                        c.parse().map_err(|e: UnknownCategory| bad(&e.to_string()))?;
                    priority = Some(category.priority());
                }
                Some(("priority", n)) => {
                    let n = n.parse().ok().filter(|n| i32::try_from(*n).is_ok());
                    priority = Some(n.ok_or_else(|| bad("a priority is a whole number"))?);
                }
                Some(("payload", n)) => {
                    let n = n.parse().ok().filter(|n| (12..=u64::from(MAX_PAYLOAD)).contains(n));
                    payload = n.ok_or_else(|| bad(&format!("payloads are 12 to {MAX_PAYLOAD} bytes")))?;
                }
                None if part == "up" => direction = Direction::Up,
                None if part == "down" => direction = Direction::Down,
                _ => return Err(bad(&format!("'{part}' is not known"))),
            }
        }
        if priority.is_some() && direction == Direction::Down {
            return Err(bad(
                "ac and priority are of what this host sends: give them to the `jitlat serve` there",
            ));
        }
        // The rate is of all streams together.
        let period = match rate {
            Rate::Packets(p) => p.times(streams as i64),
            Rate::Bits(bits) => {
                Rate::Bits(bits / streams as f64).period(payload).map_err(|e| bad(&e.to_string()))?
            }
        };
        Ok(LoadSpec { text: text.to_owned(), transport, period, payload, streams, dscp, priority, direction })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_all_streams_together() {
        let load: LoadSpec = "tcp:20Mbit,streams=4,dscp=AF11,down".parse().unwrap();
        let streams = load.streams(Span::seconds(10)).unwrap();
        assert_eq!(streams.len(), 4);
        let s = &streams[0];
        assert_eq!((s.transport(), s.direction(), s.dscp.value()), (Transport::Tcp, Direction::Down, 10));
        let bits = f64::from(s.payload()) * 8.0 / s.period().as_seconds();
        assert!((bits - 5e6).abs() < 1.0, "{bits}");
        assert_eq!(s.duration().0 / 1_000_000_000, 10);
        assert_eq!(load.priority(), None);
        let category: LoadSpec = "udp:1Mbit,ac=VO".parse().unwrap();
        assert_eq!((category.priority(), category.to_string().as_str()), (Some(6), "udp:1Mbit,ac=VO"));
        assert_eq!("udp:1Mbit,priority=3".parse::<LoadSpec>().unwrap().priority(), Some(3));
        let packets: LoadSpec = "udp:1000/s,payload=100".parse().unwrap();
        assert_eq!(packets.streams(Span::seconds(1)).unwrap()[0].packets(), 1000);
    }

    #[test]
    fn what_is_not_a_load_is_refused_with_the_way_to_write_one() {
        for bad in [
            "",
            "udp",
            "udp:",
            "icmp:5Mbit",
            "udp:5Mbit,streams=8",
            "udp:0",
            "tcp:1Mbit,dscp=99",
            "udp:1Mbit,x",
            "udp:1Mbit,payload=5",
            "udp:1Mbit,ac=XX",
            "udp:1Mbit,priority=-1",
            "udp:1Mbit,ac=VO,down",
        ] {
            let e = bad.parse::<LoadSpec>().unwrap_err().to_string();
            assert!(e.contains("tcp:20Mbit,streams=4"), "{bad}: {e}");
        }
    }

    #[test]
    fn a_load_is_bounded_in_records() {
        let fast: LoadSpec = "udp:1000000/s,payload=12".parse().unwrap();
        assert_eq!(u64::from(fast.streams(Span::seconds(3600)).unwrap()[0].packets()), MOST_PACKETS);
    }
}
