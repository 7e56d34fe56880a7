//! Limits of a server.

use crate::policy::{Gate, ONE_WAY, Policy, Scope};
use core::fmt;
use core::ops::RangeInclusive;
use jitlat_core::schedule::peak;
use jitlat_core::{Span, TestSpec, units};

/// Length of the window to which rate limits apply: every window of this length must comply, so that no burst can
/// exceed a limit.
pub const WINDOW: Span = Span::millis(100);

/// Limits of a server for one request and for all sessions together, and its timeouts. The defaults are safe for a host
/// with 4 GB of memory on the open Internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Maximum number of flows in a session; two for both directions at once.
    pub flows: usize,
    /// Maximum number of packets in a flow.
    pub packets: u32,
    /// Maximum payload of a packet, in bytes.
    pub payload: u16,
    /// Maximum packet rate of all streams of one client in each direction, in packets per second within every
    /// [`WINDOW`].
    pub rate: u32,
    /// Maximum payload rate of all streams of one client in each direction, in bits per second.
    pub bandwidth: u64,
    /// Maximum duration of a test.
    pub duration: Span,
    /// Maximum number of control connections, with or without a test.
    pub connections: usize,
    /// Maximum number of control connections per client address (IPv6: per /64).
    pub connections_per_client: usize,
    /// Maximum number of sessions that run a test or have stored results.
    pub sessions: usize,
    /// Maximum number of sessions per client address (IPv6: per /64).
    pub sessions_per_client: usize,
    /// Maximum memory for the sessions of all services, including stored results, in bytes. A test reserves
    /// the memory that it needs if every packet is duplicated; most tests use half of that.
    pub memory: u64,
    /// Maximum memory per client address (IPv6: per /64), in bytes.
    pub memory_per_client: u64,
    /// Maximum number of clock probes on a control connection.
    pub probes: u32,
    /// Time for which a control connection may be silent while the server waits for its next message.
    pub idle: Span,
    /// Time for which results are stored if the client does not fetch them.
    pub keep: Span,
    /// True if classic workorders are accepted.
    pub classic: bool,
    /// Ports that clients may request for test streams, on either host.
    pub ports: RangeInclusive<u16>,
    /// Address for complaints about this server, which refusals contain; `None` if refusals contain no address.
    pub contact: Option<String>,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            flows: 2,
            packets: 10_000_000,
            payload: jitlat_core::spec::MAX_PAYLOAD,
            rate: 1_000_000,
            bandwidth: 10_000_000_000,
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
            ports: 1024..=u16::MAX,
            contact: None,
        }
    }
}

/// Maximum number of packets and bits that streams transfer within any [`WINDOW`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferLoad {
    /// Number of packets.
    pub packets: u64,
    /// Payload bits.
    pub bits: u64,
}

impl core::ops::Add for TransferLoad {
    type Output = TransferLoad;

    fn add(self, other: TransferLoad) -> TransferLoad {
        TransferLoad {
            packets: self.packets.saturating_add(other.packets),
            bits: self.bits.saturating_add(other.bits),
        }
    }
}

impl core::iter::Sum for TransferLoad {
    fn sum<I: Iterator<Item = TransferLoad>>(loads: I) -> TransferLoad {
        loads.fold(TransferLoad::default(), |a, b| a + b)
    }
}

/// A request that exceeds a limit. Formatted as a sentence with the limit, its value and the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{limit} is limited to {allowed} on this server ({asked} requested)")]
pub struct LimitRefusal {
    /// Name of the limit, as in the server's options: `max-packets`, `max-rate`, …
    pub limit: &'static str,
    /// Value of the limit, with its unit.
    pub allowed: String,
    /// Requested value.
    pub asked: String,
}

impl LimitRefusal {
    /// Creates a refusal because of `limit`.
    pub fn new(limit: &'static str, allowed: impl fmt::Display, asked: impl fmt::Display) -> LimitRefusal {
        LimitRefusal { limit, allowed: allowed.to_string(), asked: asked.to_string() }
    }
}

impl ServerLimits {
    /// Copies the limits for which policies have rules into `policy`.
    pub fn apply_to(&self, policy: &mut Policy) {
        let rules = policy.service(ONE_WAY);
        rules.total.connections = Some(self.connections);
        rules.client.connections = Some(self.connections_per_client);
        rules.total.sessions = Some(self.sessions);
        rules.client.sessions = Some(self.sessions_per_client);
        rules.client.packets = Some(self.rate);
        rules.client.bytes = Some(self.bandwidth / 8);
        rules.client.duration = Some(self.duration);
        policy.total.memory = Some(self.memory);
        policy.client.memory = Some(self.memory_per_client);
    }

    /// Adopts the rates and the maximum duration that `policy` sets for one-way tests. Limits that it does not set stay
    /// unchanged.
    pub fn follow(&mut self, policy: &Policy) {
        let quota = policy.quota(ONE_WAY, Scope::ServiceClient);
        self.rate = quota.packets.unwrap_or(self.rate);
        if let Some(bytes) = quota.bytes.filter(|bytes| *bytes != self.bandwidth / 8) {
            self.bandwidth = bytes.saturating_mul(8);
        }
        // A limit for all clients together also limits each client.
        let total = policy.quota(ONE_WAY, Scope::ServiceTotal);
        self.rate = self.rate.min(total.packets.unwrap_or(u32::MAX));
        self.bandwidth = self.bandwidth.min(total.bytes.map_or(u64::MAX, |bytes| bytes.saturating_mul(8)));
        self.duration = policy.duration(ONE_WAY).unwrap_or(self.duration);
    }

    /// Returns a gate with the default policy and these limits.
    pub fn gate(&self) -> Gate {
        let mut policy = Policy::default();
        self.apply_to(&mut policy);
        Gate::new(policy)
    }

    /// Checks one flow against the limits, and returns its maximum transfer within any [`WINDOW`].
    pub fn check(&self, spec: &TestSpec) -> Result<TransferLoad, LimitRefusal> {
        let (packets, payload, period) = (spec.packets(), spec.payload(), spec.period().0.max(1));
        if packets > self.packets {
            return Err(LimitRefusal::new("max-packets", self.packets, packets));
        }
        if payload > self.payload {
            return Err(LimitRefusal::new(
                "max-payload",
                ByteCount(self.payload.into()),
                ByteCount(payload.into()),
            ));
        }
        // Equivalent to rate > limit: 10⁹ > limit × period, without rounding.
        let second = 1_000_000_000_i128;
        if second > i128::from(self.rate) * i128::from(period) {
            let asked = PerSecond((second / i128::from(period)) as u64);
            return Err(LimitRefusal::new("max-rate", PerSecond(self.rate.into()), asked));
        }
        let bits = i128::from(payload) * 8;
        if bits * second > i128::from(self.bandwidth) * i128::from(period) {
            let asked = Bits((bits * second / i128::from(period)) as u64);
            return Err(LimitRefusal::new("max-bandwidth", Bits(self.bandwidth), asked));
        }
        let duration = spec.duration();
        if duration > self.duration {
            let texts = [self.duration, duration].map(units::duration);
            let asked = if texts[0] == texts[1] { "a little more" } else { &texts[1] };
            return Err(LimitRefusal::new("max-duration", &texts[0], asked));
        }
        let load = self.load(spec);
        // At least one packet always fits into a window, because the mean rate is limited above.
        let (rate, bandwidth) = (self.packets_in_a_window(), self.bits_in_a_window());
        if load.packets > rate.max(1) {
            return Err(LimitRefusal::new(
                "max-rate",
                PerSecond(self.rate.into()),
                InAWindow(load.packets, "packets"),
            ));
        }
        if load.packets > 1 && load.packets > bandwidth.div_ceil(bits as u64) {
            return Err(LimitRefusal::new(
                "max-bandwidth",
                Bits(self.bandwidth),
                InAWindow(load.bits, "bits"),
            ));
        }
        Ok(load)
    }

    /// Checks whether a client that already has streams with the load `used` may add one with the load
    /// `asked`.
    pub(crate) fn check_together(&self, used: TransferLoad, asked: TransferLoad) -> Result<(), LimitRefusal> {
        if used == TransferLoad::default() {
            return Ok(());
        }
        let in_addition =
            |used, asked, unit| format!("{} in addition to {used} in use", InAWindow(asked, unit));
        if used.packets.saturating_add(asked.packets) > self.packets_in_a_window() {
            let asked = in_addition(used.packets, asked.packets, "packets");
            return Err(LimitRefusal::new("max-rate", PerSecond(self.rate.into()), asked));
        }
        if used.bits.saturating_add(asked.bits) > self.bits_in_a_window() {
            let asked = in_addition(used.bits, asked.bits, "bits");
            return Err(LimitRefusal::new("max-bandwidth", Bits(self.bandwidth), asked));
        }
        Ok(())
    }

    /// Returns the maximum transfer of `spec` within any [`WINDOW`]. A result above the limit may be too small, but
    /// still exceeds the limit.
    pub(crate) fn load(&self, spec: &TestSpec) -> TransferLoad {
        let enough = u32::try_from(self.packets_in_a_window()).unwrap_or(u32::MAX);
        let packets = u64::from(peak(spec, WINDOW, enough));
        TransferLoad { packets, bits: packets * u64::from(spec.payload()) * 8 }
    }

    fn packets_in_a_window(&self) -> u64 {
        u64::from(self.rate).div_ceil(WINDOWS_A_SECOND)
    }

    fn bits_in_a_window(&self) -> u64 {
        self.bandwidth.div_ceil(WINDOWS_A_SECOND)
    }

    /// Returns the text of a refusal for clients, with its reason and, if there is one, the contact.
    pub fn refusal(&self, why: &impl fmt::Display) -> String {
        match &self.contact {
            Some(contact) => format!("{why} (contact: {contact})"),
            None => why.to_string(),
        }
    }

    /// Checks that clients may request `port`.
    pub fn check_port(&self, port: u16) -> Result<(), LimitRefusal> {
        if self.ports.contains(&port) {
            return Ok(());
        }
        let allowed = format_args!("{} to {}", self.ports.start(), self.ports.end()).to_string();
        Err(LimitRefusal::new("test-ports", allowed, port))
    }

    /// Returns the number of records that a receiver of `spec` may store: twice the number of packets, and a
    /// reserve.
    pub fn record_limit(spec: &TestSpec) -> usize {
        (spec.packets() as usize).saturating_mul(2).saturating_add(1024)
    }
}

const WINDOWS_A_SECOND: u64 = (1_000_000_000 / WINDOW.0) as u64;

struct InAWindow(u64, &'static str);
struct ByteCount(u64);
struct Bits(u64);
struct PerSecond(u64);

impl fmt::Display for InAWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} within {} ms", self.0, self.1, WINDOW.0 / 1_000_000)
    }
}

impl fmt::Display for ByteCount {
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

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::spec::{Direction, Schedule, Transport};

    fn check(limits: &ServerLimits, n: u64, l: u64, p: i64) -> Option<&'static str> {
        let spec = TestSpec::new(Direction::Down, Transport::Udp, n, l, Span(p), Schedule::Periodic).unwrap();
        limits.check(&spec).err().map(|r| r.limit)
    }

    #[test]
    fn limits_become_rules_and_rules_limits() {
        let limits = ServerLimits { rate: 1234, bandwidth: 8_000_000, ..ServerLimits::default() };
        let mut policy = Policy::default();
        limits.apply_to(&mut policy);
        let quota = policy.quota(ONE_WAY, Scope::ServiceClient);
        assert_eq!((quota.packets, quota.bytes), (Some(1234), Some(1_000_000)));
        let mut followed = ServerLimits { rate: 1, bandwidth: 1, ..limits };
        followed.follow(&policy);
        assert_eq!((followed.rate, followed.bandwidth), (1234, 8_000_000));
    }

    #[test]
    fn the_refusal_names_the_limit() {
        let limits = ServerLimits {
            packets: 1000,
            payload: 500,
            rate: 1000,
            bandwidth: 2_000_000,
            duration: Span::seconds(5),
            ..ServerLimits::default()
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
        assert_eq!(text, "max-packets is limited to 1000 on this server (4000 requested)");
    }

    #[test]
    fn no_schedule_passes_a_rate_by_bursts() {
        use jitlat_core::gaps::Gaps;
        let limits = ServerLimits { rate: 100, bandwidth: 64_000, ..ServerLimits::default() };
        let refused = |payload, period, schedule| {
            let spec = TestSpec::new(Direction::Down, Transport::Udp, 1000, payload, period, schedule);
            limits.check(&spec.unwrap()).err().map(|r| r.to_string())
        };
        let ms = Span::millis;
        assert_eq!(refused(20, ms(10), Schedule::Periodic), None);
        assert_eq!(refused(20, ms(10), Schedule::Burst { size: 10 }), None);
        assert_eq!(
            refused(20, ms(20), Schedule::Burst { size: 500 }).unwrap(),
            "max-rate is limited to 100 packets/s on this server (500 packets within 100 ms requested)"
        );
        assert_eq!(
            refused(200, ms(50), Schedule::Burst { size: 5 }).unwrap(),
            "max-bandwidth is limited to 64000 bit/s on this server (8000 bits within 100 ms requested)"
        );
        // The gaps do not match the declared period.
        let gaps = Gaps::Uniform { least: Span(1), most: Span(2) };
        let flood = refused(20, ms(100), Schedule::Random { gaps, batch: 1, seed: 1 }).unwrap();
        assert!(flood.starts_with("max-rate is limited to 100 packets/s"), "{flood}");
        // One packet per window is always possible, because the mean rate is limited.
        let slow = ServerLimits { rate: 1, bandwidth: 8000, ..ServerLimits::default() };
        let spec =
            TestSpec::new(Direction::Down, Transport::Udp, 9, 1000, Span::seconds(1), Schedule::Periodic);
        assert_eq!(slow.check(&spec.unwrap()), Ok(TransferLoad { packets: 1, bits: 8000 }));
    }

    #[test]
    fn clients_name_ports_in_a_range() {
        let limits = ServerLimits::default();
        assert!(limits.check_port(1024).is_ok() && limits.check_port(65_535).is_ok());
        assert_eq!(
            limits.check_port(53).unwrap_err().to_string(),
            "test-ports is limited to 1024 to 65535 on this server (53 requested)"
        );
    }

    #[test]
    fn refusals_give_the_value_and_its_unit() {
        let limits = ServerLimits {
            payload: 500,
            rate: 1000,
            bandwidth: 2_000_000,
            duration: Span::seconds(5),
            ..ServerLimits::default()
        };
        let text = |n, l, p| {
            let spec =
                TestSpec::new(Direction::Down, Transport::Udp, n, l, Span(p), Schedule::Periodic).unwrap();
            limits.check(&spec).unwrap_err().to_string()
        };
        let refused = |what: &str| format!("{what} requested)").replace('|', "on this server");
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
        let limits = ServerLimits::default();
        assert_eq!((limits.memory, limits.memory_per_client), (3 << 30, 3 << 29));
        assert_eq!((limits.memory / 1024 / 1024, limits.duration), (3072, Span::seconds(86_400)));
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, 1000, 80, Span(1_000), Schedule::Periodic).unwrap();
        assert_eq!(ServerLimits::record_limit(&spec), 3024);
    }

    #[test]
    fn streams_together_may_have_exactly_the_limit() {
        let limits = ServerLimits { rate: 100, bandwidth: 80_000, ..ServerLimits::default() };
        let load = |packets, bits| TransferLoad { packets, bits };
        let together = |used, asked| limits.check_together(used, asked).map_err(|r| r.limit);
        assert_eq!(together(load(4, 100), load(6, 100)), Ok(()));
        assert_eq!(together(load(4, 100), load(7, 100)), Err("max-rate"));
        assert_eq!(together(load(1, 5000), load(1, 3000)), Ok(()));
        assert_eq!(together(load(1, 5000), load(1, 3001)), Err("max-bandwidth"));
        assert_eq!(together(load(1, 5000), load(1, 9000)), Err("max-bandwidth"));
        assert_eq!(
            together(TransferLoad::default(), load(900, 90_000)),
            Ok(()),
            "one alone was checked before"
        );
    }

    #[test]
    fn a_policy_says_bytes_where_a_limit_says_bits() {
        let mut policy = Policy::default();
        let mut limits = ServerLimits { bandwidth: 8_000_004, ..ServerLimits::default() };
        policy.service(ONE_WAY).client.bytes = Some(1_000_000);
        limits.follow(&policy);
        assert_eq!(limits.bandwidth, 8_000_004, "the same, but for the rest of the division");
        policy.service(ONE_WAY).client.bytes = Some(2_000_000);
        policy.service(ONE_WAY).client.packets = Some(500);
        limits.follow(&policy);
        assert_eq!((limits.bandwidth, limits.rate), (16_000_000, 500));
        policy.service(ONE_WAY).total.bytes = Some(1000);
        policy.service(ONE_WAY).total.packets = Some(20);
        limits.follow(&policy);
        assert_eq!((limits.bandwidth, limits.rate), (8000, 20), "not more than all have together");
    }
}
