//! [`LoadSpec`]: background traffic during a test, parsed from a text such as `udp:5Mbit,dscp=AF11`, `tcp:20Mbit,streams=4` or
//! `tcp,streams=20`.

use crate::error::Error;
use jitlat_core::priority::UnknownCategory;
use jitlat_core::quantity::{self, QuantityError, SendingRate};
use jitlat_core::spec::MAX_PAYLOAD;
use jitlat_core::{AccessCategory, Direction, Dscp, Schedule, Span, TestSpec, Transport};
use std::fmt;
use std::str::FromStr;

/// Background traffic of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSpec {
    text: String,
    transport: Transport,
    /// Total rate of all streams; `None`: as fast as TCP can send.
    rate: Option<SendingRate>,
    payload: u64,
    streams: usize,
    dscp: Dscp,
    priority: Option<u32>,
    direction: Direction,
}

/// Payload bytes per packet: for UDP, a datagram that fits the MTU of nearly any path; for TCP, ten segments.
const PAYLOAD: [u64; 2] = [1400, 14_480];
/// Maximum number of streams of one load: a server grants 32 sessions to one client, and the test needs one
/// of them.
const MAX_STREAMS: usize = 31;
/// Maximum number of packets of one stream, and of all streams without a rate in total: half a gigabyte of
/// records at each end.
const MAX_PACKETS: u64 = 8_000_000;
/// Maximum rate of a stream without a configured rate, in bit/s. Lower in long tests, to bound the number of
/// records.
const UNLIMITED_STREAM_BITS: f64 = 1e9;
/// Maximum total rate of all streams without a configured rate, in bit/s: 80 % of the rate that
/// a server grants one client in one direction.
const UNLIMITED_TOTAL_BITS: f64 = 8e9;

impl LoadSpec {
    /// Returns the priority of the packets within this host (`SO_PRIORITY`); `None`: the default.
    pub fn priority(&self) -> Option<u32> {
        self.priority
    }

    /// Returns the specification of each stream, for a test of `duration`. `unlimited` is the number of
    /// streams without a rate in the whole load, which share the maximum total rate.
    ///
    /// # Errors
    /// [`Error::Spec`] if a stream is not possible.
    pub fn streams(&self, duration: Span, unlimited: usize) -> Result<Vec<TestSpec>, Error> {
        let period = self.period(duration, unlimited)?;
        let packets = (duration.0 as u64).div_ceil(period.0.max(1) as u64).clamp(1, MAX_PACKETS);
        let schedule = Schedule::Periodic;
        let spec = TestSpec::new(self.direction, self.transport, packets, self.payload, period, schedule);
        let mut spec = spec.map_err(|e| Error::from(e).while_doing(format!("the load {self}")))?;
        spec.dscp = self.dscp;
        Ok(vec![spec; self.streams])
    }

    /// Returns the number of streams without a rate.
    pub fn unlimited(&self) -> usize {
        if self.is_limited() { 0 } else { self.streams }
    }

    /// True if the load has a rate; false if it sends as fast as TCP can.
    pub fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// Returns the time between the packets of a stream that lasts `duration`.
    fn period(&self, duration: Span, unlimited: usize) -> Result<Span, Error> {
        let of_bits = |bits: f64| {
            let period = SendingRate::Bits(bits).period(self.payload);
            period.map_err(|e| Error::Load(format!("the load {self}: {e}")))
        };
        let streams = self.streams;
        match self.rate {
            Some(SendingRate::Packets(period)) => Ok(period.times(streams as i64)),
            Some(SendingRate::Bits(bits)) => of_bits(bits / streams as f64),
            None => {
                let sparse = Span(duration.0.saturating_mul(streams as i64) / MAX_PACKETS as i64);
                let share = UNLIMITED_TOTAL_BITS / unlimited.max(1) as f64;
                Ok(of_bits(UNLIMITED_STREAM_BITS.min(share))?.max(sparse))
            }
        }
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
        const USAGE: &str = "write udp:RATE, tcp:RATE, or tcp for as fast as possible, then streams=N, \
                             dscp=EF, ac=VO or priority=N, payload=BYTES, down as needed: \
                             tcp:20Mbit,streams=4,dscp=AF11";
        let bad = |why: &str| QuantityError::new(format!("'{text}' is not a load: {why}; {USAGE}"));
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (kind, rate) = first.split_once(':').map_or((first, None), |(kind, rate)| (kind, Some(rate)));
        let transport = match kind {
            "udp" => Transport::Udp,
            "tcp" => Transport::Tcp,
            _ => return Err(bad("it is neither udp nor tcp")),
        };
        let rate = match rate {
            Some(rate) => Some(quantity::rate(rate).map_err(|e| bad(&e.to_string()))?),
            None if transport == Transport::Tcp => None,
            None => return Err(bad("UDP needs a rate, because it has no congestion control (udp:5Mbit)")),
        };
        let mut payload = PAYLOAD[usize::from(transport == Transport::Tcp)];
        let (mut streams, mut dscp, mut direction) = (1, Dscp::default(), Direction::Up);
        let mut priority = None;
        for part in parts {
            match part.split_once('=') {
                Some(("streams", n)) => {
                    let n = n.parse().ok().filter(|n| (1..=MAX_STREAMS).contains(n));
                    streams = n.ok_or_else(|| {
                        bad(&format!("the number of streams must be from 1 to {MAX_STREAMS}"))
                    })?;
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
                "ac and priority apply to packets that this host sends: set them at the `jitlat serve` of the far host",
            ));
        }
        if let Some(SendingRate::Bits(bits)) = rate {
            SendingRate::Bits(bits / streams as f64).period(payload).map_err(|e| bad(&e.to_string()))?;
        }
        Ok(LoadSpec { text: text.to_owned(), transport, rate, payload, streams, dscp, priority, direction })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_all_streams_together() {
        let load: LoadSpec = "tcp:20Mbit,streams=4,dscp=AF11,down".parse().unwrap();
        let streams = load.streams(Span::seconds(10), 1).unwrap();
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
        assert_eq!(packets.streams(Span::seconds(1), 1).unwrap()[0].packets(), 1000);
    }

    #[test]
    fn what_is_not_a_load_is_refused_with_the_way_to_write_one() {
        for bad in [
            "",
            "udp",
            "udp:",
            "icmp:5Mbit",
            "udp:5Mbit,streams=32",
            "udp,streams=2",
            "tcp:,streams=2",
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
    fn tcp_without_a_rate_goes_as_fast_as_a_server_grants() {
        let load: LoadSpec = "tcp,streams=20".parse().unwrap();
        assert!(!load.is_limited());
        let rate = |seconds: i64| {
            let streams = load.streams(Span::seconds(seconds), load.unlimited()).unwrap();
            let packets: u64 = streams.iter().map(|s| u64::from(s.packets())).sum();
            assert!(streams.len() == 20 && packets <= MAX_PACKETS + 20, "{packets}");
            f64::from(streams[0].payload()) * 8.0 / streams[0].period().as_seconds()
        };
        assert!((rate(40) - 8e9 / 20.0).abs() < 1e5, "{}", rate(40));
        let alone: LoadSpec = "tcp".parse().unwrap();
        let stream = &alone.streams(Span::seconds(40), 1).unwrap()[0];
        let bits = f64::from(stream.payload()) * 8.0 / stream.period().as_seconds();
        assert!((bits - 1e9).abs() < 1e5, "{bits}");
        assert!(rate(400) > 1e8, "a long test leaves each stream less, but more than a path has");
        assert_eq!("tcp".parse::<LoadSpec>().unwrap().streams(Span::seconds(1), 1).unwrap().len(), 1);
    }

    #[test]
    fn a_load_is_bounded_in_records() {
        let fast: LoadSpec = "udp:1000000/s,payload=12".parse().unwrap();
        assert_eq!(u64::from(fast.streams(Span::seconds(3600), 1).unwrap()[0].packets()), MAX_PACKETS);
    }
}
