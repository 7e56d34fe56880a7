//! [`TestSpec`]: the parameters of a test stream, which are always valid.

use crate::ecn::EcnMarking;
use crate::gaps::Gaps;
use crate::time::{SECOND, Span};
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Length of the header of every test packet, in bytes: transmit time and sequence number.
pub const HEADER_LEN: u16 = 12;
/// Maximum UDP payload over IPv4.
pub const MAX_PAYLOAD: u16 = 65_507;
/// Maximum number of packets. Sequence numbers on the wire are signed 32-bit integers, and −1 marks a sentinel.
pub const MAX_PACKETS: u32 = i32::MAX as u32;

/// Direction of packets, which determines the sending host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Client to server: the classic SENDING conversation.
    #[default]
    Up = 0,
    /// Server to client: the classic SEND_ME conversation (`-R`).
    Down = 1,
}

impl Direction {
    /// Both directions, in the order of their numbers.
    pub const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    /// Returns the opposite direction.
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

/// Transport of the test packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// One datagram per packet.
    Udp,
    /// Fixed-length records in one connection.
    Tcp,
}

impl Transport {
    /// Returns the IP protocol number, as in workorders and logs.
    pub fn number(self) -> u8 {
        match self {
            Transport::Udp => 17,
            Transport::Tcp => 6,
        }
    }

    /// Returns the transport with this IP protocol number; `None` for other numbers.
    pub fn from_number(n: u32) -> Option<Transport> {
        match n {
            17 => Some(Transport::Udp),
            6 => Some(Transport::Tcp),
            _ => None,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
        })
    }
}

/// Returns the name of an IP protocol number as used in reports: `UDP`, `ICMP`, `protocol 132`.
pub fn ip_protocol_name(number: u8) -> Cow<'static, str> {
    match number {
        1 => "ICMP".into(),
        6 => "TCP".into(),
        17 => "UDP".into(),
        58 => "ICMPv6".into(),
        other => format!("protocol {other}").into(),
    }
}

/// Distribution of send times. The mean rate is always one packet per period P.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Schedule {
    /// Packet i is due at i·P (RFC 3432).
    #[default]
    Periodic,
    /// Exponentially distributed gaps of mean P (RFC 2330 §11.1.1), reproducible from the seed.
    Poisson {
        /// Seed of the gap generator; [`UNKNOWN_SEED`] if another generator drew the gaps.
        seed: u64,
    },
    /// `size` packets back to back, then a pause until the next multiple of `size`·P.
    Burst {
        /// Number of packets in a burst, ≥ 1.
        size: u32,
    },
    /// Gaps of mean P with the distribution `gaps`, reproducible from the seed.
    Random {
        /// Distribution of the gaps.
        gaps: Gaps,
        /// Number of consecutive packets with the same gap, ≥ 1.
        batch: u32,
        /// Seed of the gap generator.
        seed: u64,
    },
}

impl Schedule {
    /// Number of packets that are due together.
    pub fn burst(self) -> u32 {
        if let Schedule::Burst { size } = self { size.max(1) } else { 1 }
    }
}

/// A differentiated-services code point, 0…63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "u8")]
pub struct Dscp(u8);

impl TryFrom<u8> for Dscp {
    type Error = SpecError;

    fn try_from(value: u8) -> Result<Dscp, SpecError> {
        Dscp::new(value.into()).ok_or_else(|| SpecError::Dscp(value.to_string()))
    }
}

impl Dscp {
    /// Creates a code point; `None` above 63.
    pub fn new(value: u32) -> Option<Dscp> {
        (value < 64).then_some(Dscp(value as u8))
    }

    /// Returns the six-bit value.
    pub fn value(self) -> u8 {
        self.0
    }

    /// Returns the TOS / traffic-class octet with this DSCP and no ECN.
    pub fn octet(self) -> u8 {
        self.0 << 2
    }

    /// Returns the name given by RFC 2474, 2597, 3246, 5865 or 8622; `None` if the value has no name.
    pub fn name(self) -> Option<&'static str> {
        DSCP_NAMES.iter().find(|(_, v)| *v == self.0).map(|(n, _)| *n)
    }
}

const DSCP_NAMES: [(&str, u8); 25] = [
    ("CS0", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
    ("BE", 0),
    ("DF", 0),
];

impl FromStr for Dscp {
    type Err = SpecError;

    /// Parses a number from 0 to 63 (decimal or 0x…), or a name in upper or lower case.
    fn from_str(s: &str) -> Result<Dscp, SpecError> {
        let number = match s.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => s.parse().ok(),
        };
        let named = DSCP_NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(s)).map(|(_, v)| u32::from(*v));
        number.or(named).and_then(Dscp::new).ok_or_else(|| SpecError::Dscp(s.to_owned()))
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) if self.0 != 0 => write!(f, "{} ({name})", self.0),
            _ => write!(f, "{}", self.0),
        }
    }
}

/// Reason why a test is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The number of packets is outside 1…2³¹−1.
    #[error("{0} packets: give 1 to {MAX_PACKETS}")]
    Packets(u64),
    /// The payload is outside 12…65 507 bytes.
    #[error("{0} bytes of payload: give {HEADER_LEN} to {MAX_PAYLOAD}")]
    Payload(u64),
    /// The period is not positive, or so long that the test would exceed the range of times.
    #[error("a period of {0} ns: give more than 0 and keep the whole test under a century")]
    Period(i64),
    /// The text is not a DSCP.
    #[error("'{0}' is not a DSCP: give 0 to 63 or a name such as EF, AF41, CS1")]
    Dscp(String),
    /// A burst or batch has no packets.
    #[error("a burst or batch needs at least one packet")]
    Burst,
    /// Random gaps cannot be drawn.
    #[error(
        "these gaps cannot be drawn: times must be above 0 and at most a day, with the shortest time first, and a deviation of at most \
         ten times the mean"
    )]
    Gaps,
}

/// One test stream in one direction. Fields are private, which ensures that each value describes a stream that can be
/// run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(!try_from))]
#[serde(try_from = "UncheckedSpec")]
pub struct TestSpec {
    direction: Direction,
    transport: Transport,
    packets: u32,
    payload: u16,
    period: Span,
    schedule: Schedule,
    /// DSCP of the test packets.
    pub dscp: Dscp,
    /// Marks (ECN bits) of the test packets.
    #[serde(default, skip_serializing_if = "is_off")]
    pub marking: EcnMarking,
    /// Source port of the test stream; 0 = chosen by the sender's system.
    pub src_port: u16,
    /// Destination port of the test stream.
    pub dst_port: u16,
}

/// The serialised form of a [`TestSpec`], unchecked.
#[derive(Deserialize)]
struct UncheckedSpec {
    direction: Direction,
    transport: Transport,
    packets: u64,
    payload: u64,
    period: Span,
    schedule: Schedule,
    dscp: Dscp,
    #[serde(default)]
    marking: EcnMarking,
    src_port: u16,
    dst_port: u16,
}

fn is_off(marking: &EcnMarking) -> bool {
    !marking.is_on()
}

impl TryFrom<UncheckedSpec> for TestSpec {
    type Error = SpecError;

    fn try_from(u: UncheckedSpec) -> Result<TestSpec, SpecError> {
        let checked = TestSpec::new(u.direction, u.transport, u.packets, u.payload, u.period, u.schedule)?;
        Ok(TestSpec {
            dscp: u.dscp,
            marking: u.marking,
            src_port: u.src_port,
            dst_port: u.dst_port,
            ..checked
        })
    }
}

/// Replaces the seed of a Poisson schedule if the sender drew the times with another generator, as in OWAMP. Due times
/// are then unknown.
pub const UNKNOWN_SEED: u64 = u64::MAX;
/// Default port of test streams.
pub const TEST_PORT: u16 = 2667;
/// Default port of control connections.
pub const CONTROL_PORT: u16 = 2666;

/// Maximum time for which a receiver leaves packets of a fast stream in its socket to read several at once, because a
/// wake-up per packet would cost more than the packet itself. The kernel stamps arrivals, so the pause does not affect
/// the arrival times.
const MAX_READ_PAUSE: Span = Span::millis(1);
/// Minimum number of packets due in [`MAX_READ_PAUSE`] for a stream to count as fast.
const MIN_PACKETS_PER_PAUSE: i64 = 4;

impl Default for TestSpec {
    /// Returns the defaults of the original tool (DRDC TM 2011-047): 1000 UDP packets of 80 bytes, one every 20 ms,
    /// client to server.
    fn default() -> TestSpec {
        TestSpec {
            direction: Direction::Up,
            transport: Transport::Udp,
            packets: 1000,
            payload: 80,
            period: Span::millis(20),
            schedule: Schedule::Periodic,
            dscp: Dscp(0),
            marking: EcnMarking::Off,
            src_port: 0,
            dst_port: TEST_PORT,
        }
    }
}

impl TestSpec {
    /// Creates a checked specification with default ports and DSCP.
    pub fn new(
        direction: Direction,
        transport: Transport,
        packets: u64,
        payload: u64,
        period: Span,
        schedule: Schedule,
    ) -> Result<TestSpec, SpecError> {
        let count = u32::try_from(packets).ok().filter(|n| (1..=MAX_PACKETS).contains(n));
        let length = u16::try_from(payload).ok().filter(|l| (HEADER_LEN..=MAX_PAYLOAD).contains(l));
        let count = count.ok_or(SpecError::Packets(packets))?;
        let length = length.ok_or(SpecError::Payload(payload))?;
        let century = 100 * 366 * 86_400 * SECOND as i128;
        if period.0 <= 0 || i128::from(period.0) * i128::from(count) > century {
            return Err(SpecError::Period(period.0));
        }
        match schedule {
            Schedule::Burst { size: 0 } | Schedule::Random { batch: 0, .. } => return Err(SpecError::Burst),
            Schedule::Random { gaps, .. } if !gaps.is_possible() => return Err(SpecError::Gaps),
            _ => {}
        }
        Ok(TestSpec {
            direction,
            transport,
            packets: count,
            payload: length,
            period,
            schedule,
            ..TestSpec::default()
        })
    }

    /// Returns the same test in the opposite direction.
    pub fn reversed(&self) -> TestSpec {
        TestSpec { direction: self.direction.reversed(), ..self.clone() }
    }

    /// Returns the same test with `packets` packets.
    pub fn with_packets(&self, packets: u64) -> Result<TestSpec, SpecError> {
        let (payload, period) = (self.payload.into(), self.period);
        let checked = TestSpec::new(self.direction, self.transport, packets, payload, period, self.schedule)?;
        Ok(TestSpec { packets: checked.packets, ..self.clone() })
    }

    /// Returns the same test with the send times of `schedule`, which must be possible.
    pub fn with_schedule(&self, schedule: Schedule) -> TestSpec {
        TestSpec { schedule, ..self.clone() }
    }

    /// Returns the direction, which determines the sending host.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the transport.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns the number of packets to send, 1…2³¹−1.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Returns the payload size of a packet, 12…65 507 bytes.
    pub fn payload(&self) -> u16 {
        self.payload
    }

    /// Returns the mean time between packets, > 0.
    pub fn period(&self) -> Span {
        self.period
    }

    /// Returns the schedule of send times.
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// Returns the maximum time for which a receiver of one-way packets may intentionally leave them in its
    /// socket after the kernel has stamped them: a millisecond for UDP packets at most 250 µs apart,
    /// otherwise zero.
    pub fn read_pause(&self) -> Span {
        let is_fast =
            self.transport == Transport::Udp && self.period.times(MIN_PACKETS_PER_PAUSE) <= MAX_READ_PAUSE;
        if is_fast { MAX_READ_PAUSE } else { Span::ZERO }
    }

    /// Returns the time from the due time of the first packet to one period after the due time of the last: packets ×
    /// period.
    pub fn duration(&self) -> Span {
        self.period.times(self.packets.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fast_datagrams_may_wait_in_the_socket() {
        let pause = |transport, us| {
            let of = (Direction::Up, transport, 10, 80, Span::micros(us), Schedule::Periodic);
            TestSpec::new(of.0, of.1, of.2, of.3, of.4, of.5).unwrap().read_pause()
        };
        assert_eq!(
            [10, 250, 251, 20_000].map(|us| pause(Transport::Udp, us).0),
            [1_000_000, 1_000_000, 0, 0]
        );
        assert_eq!(pause(Transport::Tcp, 10), Span::ZERO);
    }

    #[test]
    fn dscp_by_number_and_name() {
        assert_eq!("EF".parse::<Dscp>().unwrap().value(), 46);
        assert_eq!("af41".parse::<Dscp>().unwrap().value(), 34);
        assert_eq!("0x2e".parse::<Dscp>().unwrap().value(), 46);
        assert_eq!("63".parse::<Dscp>().unwrap().octet(), 252);
        assert!(
            "64".parse::<Dscp>().is_err() && "EFF".parse::<Dscp>().is_err() && "-1".parse::<Dscp>().is_err()
        );
    }

    #[test]
    fn nonsense_cannot_be_built() {
        let p = Span::millis(20);
        let new = |n, l, p, s| TestSpec::new(Direction::Up, Transport::Udp, n, l, p, s);
        assert_eq!(new(0, 80, p, Schedule::Periodic), Err(SpecError::Packets(0)));
        assert_eq!(new(4_000_000_000, 80, p, Schedule::Periodic), Err(SpecError::Packets(4_000_000_000)));
        assert_eq!(new(1, 11, p, Schedule::Periodic), Err(SpecError::Payload(11)));
        assert_eq!(new(1, 65_508, p, Schedule::Periodic), Err(SpecError::Payload(65_508)));
        assert_eq!(new(1, 80, Span(0), Schedule::Periodic), Err(SpecError::Period(0)));
        assert_eq!(new(1, 80, p, Schedule::Burst { size: 0 }), Err(SpecError::Burst));
        assert!(new(MAX_PACKETS.into(), 12, Span(1), Schedule::Periodic).is_ok());
    }
}
