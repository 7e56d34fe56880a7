//! [`LoadSpec`]: background traffic during a test, parsed from a text such as `udp:5Mbit,dscp=AF11`, `tcp:20Mbit,streams=4` or
//! `tcp,both`; [`LoadSpecs`]: several of them at once, `udp:4Mbit+tcp,streams=4`.

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
    /// Total rate of all streams in one direction; `None`: as fast as TCP can send.
    rate: Option<SendingRate>,
    payload: u64,
    /// Number of streams in each direction.
    streams: usize,
    dscp: Dscp,
    priority: Option<u32>,
    /// Directions; empty: those of the test.
    directions: Vec<Direction>,
}

/// Number of streams without `streams=`. UDP sends at its rate with one. A single TCP connection may not fill a path:
/// with the buffers that Linux allows by default (`tcp_wmem`: 4 MiB) it carries 320 Mbit/s over a round trip of 100 ms,
/// and after a loss CUBIC sends at 70 % until its window has grown again. Four carry more than 1 Gbit/s, and seldom lose
/// packets at the same time; flent's RRUL test also has four in each direction.
const STREAMS: [usize; 2] = [1, 4];

/// Payload bytes per packet: for UDP, a datagram that fits the MTU of nearly any path; for TCP, ten segments.
const PAYLOAD: [u64; 2] = [1400, 14_480];
/// Maximum number of streams of one load: a server grants 32 sessions to one client, and the test needs one
/// of them.
pub const MAX_STREAMS: usize = 31;
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

    /// Returns the directions of the load during a test in the directions `of_test`.
    pub fn directions<'a>(&'a self, of_test: &'a [Direction]) -> &'a [Direction] {
        if self.directions.is_empty() { of_test } else { &self.directions }
    }

    /// Returns the specification of each stream, for a test of `duration` in the directions `of_test`. `unlimited` is the
    /// number of streams without a rate in the whole load in one direction, which share the maximum total rate.
    ///
    /// # Errors
    /// [`Error::Spec`] if a stream is not possible.
    pub fn streams(
        &self,
        duration: Span,
        unlimited: usize,
        of_test: &[Direction],
    ) -> Result<Vec<TestSpec>, Error> {
        let directions = self.directions(of_test);
        let period = self.period(duration, unlimited, directions.len())?;
        let packets = (duration.0 as u64).div_ceil(period.0.max(1) as u64).clamp(1, MAX_PACKETS);
        let schedule = Schedule::Periodic;
        let mut streams = Vec::new();
        for direction in directions {
            let spec = TestSpec::new(*direction, self.transport, packets, self.payload, period, schedule);
            let mut spec = spec.map_err(|e| Error::from(e).while_doing(format!("the load {self}")))?;
            spec.dscp = self.dscp;
            streams.extend(std::iter::repeat_n(spec, self.streams));
        }
        Ok(streams)
    }

    /// Returns the transport protocol.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns the number of streams in each direction.
    pub fn count(&self) -> usize {
        self.streams
    }

    /// Returns the DSCP of the packets.
    pub fn dscp(&self) -> Dscp {
        self.dscp
    }

    /// Returns the total rate of all streams in one direction, in payload bits per second; `None`: as fast as TCP can
    /// send.
    pub fn bits_per_second(&self) -> Option<f64> {
        match self.rate? {
            SendingRate::Bits(bits) => Some(bits),
            SendingRate::Packets(period) => Some(self.payload as f64 * 8.0 / period.as_seconds()),
        }
    }

    /// Returns the payload bytes of a packet.
    pub fn payload(&self) -> u64 {
        self.payload
    }

    /// Returns the number of streams without a rate in each direction.
    pub fn unlimited(&self) -> usize {
        if self.is_limited() { 0 } else { self.streams }
    }

    /// True if the load has a rate; false if it sends as fast as TCP can.
    pub fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// Returns the time between the packets of a stream that lasts `duration`, if there are streams in this number of
    /// `directions`.
    fn period(&self, duration: Span, unlimited: usize, directions: usize) -> Result<Span, Error> {
        let of_bits = |bits: f64| {
            let period = SendingRate::Bits(bits).period(self.payload);
            period.map_err(|e| Error::Load(format!("the load {self}: {e}")))
        };
        let streams = self.streams;
        match self.rate {
            Some(SendingRate::Packets(period)) => Ok(period.times(streams as i64)),
            Some(SendingRate::Bits(bits)) => of_bits(bits / streams as f64),
            None => {
                let all = (streams * directions) as i64;
                let sparse = Span(duration.0.saturating_mul(all) / MAX_PACKETS as i64);
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
                             dscp=EF, ac=VO or priority=N, payload=BYTES, and up, down or both as \
                             needed: tcp:20Mbit,streams=4,dscp=AF11";
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
        let mut streams = STREAMS[usize::from(transport == Transport::Tcp)];
        let (mut dscp, mut directions) = (Dscp::default(), Vec::new());
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
                None if part == "up" => directions = vec![Direction::Up],
                None if part == "down" => directions = vec![Direction::Down],
                None if part == "both" => directions = Direction::BOTH.to_vec(),
                _ => return Err(bad(&format!("'{part}' is not known"))),
            }
        }
        if priority.is_some() && directions.contains(&Direction::Down) {
            return Err(bad(
                "ac and priority apply to packets that this host sends: set them at the `jitlat serve` of the far host",
            ));
        }
        if streams * directions.len() > MAX_STREAMS {
            return Err(bad(&format!(
                "a server accepts at most {MAX_STREAMS} streams in both directions together"
            )));
        }
        if let Some(SendingRate::Bits(bits)) = rate {
            SendingRate::Bits(bits / streams as f64).period(payload).map_err(|e| bad(&e.to_string()))?;
        }
        Ok(LoadSpec { text: text.to_owned(), transport, rate, payload, streams, dscp, priority, directions })
    }
}

/// Loads that run at the same time: `udp:4Mbit+tcp,streams=4`.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSpecs(pub Vec<LoadSpec>);

impl fmt::Display for LoadSpecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<&str> = self.0.iter().map(|load| load.text.as_str()).collect();
        f.write_str(&texts.join("+"))
    }
}

impl FromStr for LoadSpecs {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<LoadSpecs, QuantityError> {
        text.split('+').map(str::parse).collect::<Result<_, _>>().map(LoadSpecs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_all_streams_together() {
        let load: LoadSpec = "tcp:20Mbit,streams=4,dscp=AF11,down".parse().unwrap();
        let streams = load.streams(Span::seconds(10), 1, &[Direction::Up]).unwrap();
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
        assert_eq!(packets.streams(Span::seconds(1), 1, &[Direction::Up]).unwrap()[0].packets(), 1000);
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
            "udp:1Mbit,ac=VO,both",
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
            let streams = load.streams(Span::seconds(seconds), load.unlimited(), &[Direction::Up]).unwrap();
            let packets: u64 = streams.iter().map(|s| u64::from(s.packets())).sum();
            assert!(streams.len() == 20 && packets <= MAX_PACKETS + 20, "{packets}");
            f64::from(streams[0].payload()) * 8.0 / streams[0].period().as_seconds()
        };
        assert!((rate(40) - 8e9 / 20.0).abs() < 1e5, "{}", rate(40));
        let alone: LoadSpec = "tcp,streams=1".parse().unwrap();
        let stream = &alone.streams(Span::seconds(40), 1, &[Direction::Up]).unwrap()[0];
        let bits = f64::from(stream.payload()) * 8.0 / stream.period().as_seconds();
        assert!((bits - 1e9).abs() < 1e5, "{bits}");
        assert!(rate(400) > 1e8, "a long test leaves each stream less, but more than a path has");
    }

    #[test]
    fn a_load_has_the_directions_of_the_test_and_enough_streams_to_fill_a_path() {
        let of = |text: &str, test: &[Direction]| -> Vec<Direction> {
            let load: LoadSpec = text.parse().unwrap();
            load.streams(Span::seconds(1), 4, test).unwrap().iter().map(TestSpec::direction).collect()
        };
        let [up, down] = Direction::BOTH;
        assert_eq!(of("tcp", &[up]), [up; 4]);
        assert_eq!(of("tcp", &[down]), [down; 4], "-R");
        assert_eq!(of("tcp,streams=1", &Direction::BOTH), [up, down], "-b");
        assert_eq!(of("tcp,streams=1,both", &[up]), [up, down]);
        assert_eq!(of("udp:1Mbit,up", &[down]), [up]);
        assert_eq!("tcp:20Mbit".parse::<LoadSpec>().unwrap().bits_per_second(), Some(20e6));
        assert!("tcp,both,streams=16".parse::<LoadSpec>().is_err());
    }

    #[test]
    fn several_loads_can_run_at_once() {
        let mixed: LoadSpecs = "udp:4Mbit+tcp,streams=2,down".parse().unwrap();
        assert_eq!((mixed.0.len(), mixed.to_string().as_str()), (2, "udp:4Mbit+tcp,streams=2,down"));
        assert!("udp:4Mbit+".parse::<LoadSpecs>().is_err());
    }

    #[test]
    fn a_load_is_bounded_in_records() {
        let fast: LoadSpec = "udp:1000000/s,payload=12".parse().unwrap();
        let streams = fast.streams(Span::seconds(3600), 1, &[Direction::Up]).unwrap();
        assert_eq!(u64::from(streams[0].packets()), MAX_PACKETS);
    }
}
