//! What a server grants.

use core::fmt;
use jitlat_core::{Span, TestSpec};

/// The limits of a server: for one request, for all sessions together, and for waiting. The defaults are safe for a
/// host on the open Internet with 4 GB of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows in one session: two for both directions at once.
    pub flows: usize,
    /// Packets in one flow.
    pub packets: u32,
    /// Payload bytes of a packet.
    pub payload: u16,
    /// Packets a second in one flow.
    pub rate: u32,
    /// Bits a second of payload in one flow.
    pub bandwidth: u64,
    /// Length of a test.
    pub duration: Span,
    /// Control connections, with a test or without.
    pub connections: usize,
    /// Control connections of one address (IPv6: of one /64).
    pub connections_per_client: usize,
    /// Sessions with a running test or results still kept.
    pub sessions: usize,
    /// Sessions of one address (IPv6: of one /64).
    pub sessions_per_client: usize,
    /// Bytes of records of all sessions, including kept results. Reserved is what a test may need at most, with every
    /// packet duplicated; most tests use half of it.
    pub memory: u64,
    /// The same for one address (IPv6: for one /64).
    pub memory_per_client: u64,
    /// Clock probes on one control connection.
    pub probes: u32,
    /// How long a control connection may be silent while the server waits for its next message.
    pub idle: Span,
    /// How long results that the client has not fetched are kept.
    pub keep: Span,
    /// Whether classic workorders are accepted.
    pub classic: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            flows: 2,
            packets: 10_000_000,
            payload: jitlat_core::spec::MAX_PAYLOAD,
            rate: 1_000_000,
            bandwidth: 1_000_000_000,
            duration: Span::seconds(24 * 3600),
            connections: 256,
            connections_per_client: 40,
            sessions: 128,
            sessions_per_client: 32,
            memory: 3 << 30,
            memory_per_client: 3 << 29,
            probes: 10_000,
            idle: Span::seconds(30),
            keep: Span::seconds(600),
            classic: true,
        }
    }
}

/// A request refused by a limit. Displays as a sentence with the limit, its value and what was requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{limit} is limited to {allowed} on this server ({asked} asked for)")]
pub struct Refusal {
    /// The limit, as the server's option is called: `max-packets`, `max-rate`, …
    pub limit: &'static str,
    /// Its value, with its unit.
    pub allowed: String,
    /// What was asked for.
    pub asked: String,
}

impl Refusal {
    /// Refused by `limit`.
    pub fn new(limit: &'static str, allowed: impl fmt::Display, asked: impl fmt::Display) -> Refusal {
        Refusal { limit, allowed: allowed.to_string(), asked: asked.to_string() }
    }
}

impl Limits {
    /// Whether one flow is allowed.
    pub fn check(&self, spec: &TestSpec) -> Result<(), Refusal> {
        let (packets, payload, period) = (spec.packets(), spec.payload(), spec.period().0.max(1));
        if packets > self.packets {
            return Err(Refusal::new("max-packets", self.packets, packets));
        }
        if payload > self.payload {
            return Err(Refusal::new("max-payload", Bytes(self.payload.into()), Bytes(payload.into())));
        }
        // rate > limit ⇔ 10⁹ > limit × period, without rounding.
        let second = 1_000_000_000_i128;
        if second > i128::from(self.rate) * i128::from(period) {
            return Err(Refusal::new(
                "max-rate",
                PerSecond(self.rate.into()),
                PerSecond((second / i128::from(period)) as u64),
            ));
        }
        let bits = i128::from(payload) * 8 * second;
        if bits > i128::from(self.bandwidth) * i128::from(period) {
            return Err(Refusal::new(
                "max-bandwidth",
                Bits(self.bandwidth),
                Bits((bits / i128::from(period)) as u64),
            ));
        }
        let duration = spec.duration();
        if duration > self.duration {
            return Err(Refusal::new("max-duration", Seconds(self.duration), Seconds(duration)));
        }
        Ok(())
    }

    /// Records that a receiver of `spec` may keep: every packet twice, and some more.
    pub fn record_limit(spec: &TestSpec) -> usize {
        (spec.packets() as usize).saturating_mul(2).saturating_add(1024)
    }
}

struct Bytes(u64);
struct Bits(u64);
struct PerSecond(u64);
struct Seconds(Span);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.0)
    }
}

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets/s", self.0)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::spec::{Direction, Schedule, Transport};

    fn check(limits: &Limits, n: u64, l: u64, p: i64) -> Option<&'static str> {
        let spec = TestSpec::new(Direction::Down, Transport::Udp, n, l, Span(p), Schedule::Periodic).unwrap();
        limits.check(&spec).err().map(|r| r.limit)
    }

    #[test]
    fn the_refusal_names_the_limit() {
        let limits = Limits {
            packets: 1000,
            payload: 500,
            rate: 1000,
            bandwidth: 2_000_000,
            duration: Span::seconds(5),
            ..Limits::default()
        };
        assert_eq!(check(&limits, 1000, 80, 1_000_000), None);
        assert_eq!(check(&limits, 1001, 80, 1_000_000), Some("max-packets"));
        assert_eq!(check(&limits, 1000, 501, 1_000_000), Some("max-payload"));
        assert_eq!(check(&limits, 1000, 80, 999_999), Some("max-rate"));
        assert_eq!(check(&limits, 1000, 250, 1_000_000), None);
        assert_eq!(check(&limits, 1000, 251, 1_000_000), Some("max-bandwidth"));
        assert_eq!(check(&limits, 10, 80, 500_000_000), None, "a limit is allowed itself");
        assert_eq!(check(&limits, 1000, 80, 5_000_001), Some("max-duration"));
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, 4_000, 80, Span(1_000_000), Schedule::Periodic);
        let text = limits.check(&spec.unwrap()).unwrap_err().to_string();
        assert_eq!(text, "max-packets is limited to 1000 on this server (4000 asked for)");
    }
    #[test]
    fn refusals_give_the_value_and_its_unit() {
        let limits = Limits {
            payload: 500,
            rate: 1000,
            bandwidth: 2_000_000,
            duration: Span::seconds(5),
            ..Limits::default()
        };
        let text = |n, l, p| {
            let spec =
                TestSpec::new(Direction::Down, Transport::Udp, n, l, Span(p), Schedule::Periodic).unwrap();
            limits.check(&spec).unwrap_err().to_string()
        };
        let refused = |what: &str| format!("{what} asked for)").replace('|', "on this server");
        assert_eq!(text(10, 501, 1_000_000), refused("max-payload is limited to 500 bytes | (501 bytes"));
        assert_eq!(text(10, 80, 250_000), refused("max-rate is limited to 1000 packets/s | (4000 packets/s"));
        assert_eq!(
            text(10, 500, 1_000_000),
            refused("max-bandwidth is limited to 2000000 bit/s | (4000000 bit/s")
        );
        assert_eq!(text(12, 80, 500_000_000), refused("max-duration is limited to 5 s | (6 s"));
    }

    #[test]
    fn a_host_of_four_gigabytes_is_safe_by_default() {
        let limits = Limits::default();
        assert_eq!((limits.memory, limits.memory_per_client), (3 << 30, 3 << 29));
        assert_eq!((limits.memory / 1024 / 1024, limits.duration), (3072, Span::seconds(86_400)));
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, 1000, 80, Span(1_000), Schedule::Periodic).unwrap();
        assert_eq!(Limits::record_limit(&spec), 3024);
    }
}
