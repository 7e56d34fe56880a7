//! [`Checkup`]: measures this host and reads its settings, as input of [`judge`](super::judge).

use crate::stop::Stop;
use jitlat_core::analysis::Analyzer;
use jitlat_core::session::HostFacts;
use jitlat_core::spec::HEADER_LEN;
use jitlat_core::summary::{Percent, Summary};
use jitlat_core::twoway::{RecordView, project};
use jitlat_core::{
    Direction, NoiseFloor, Schedule, Session, Span, StampSource, TestSpec, Transport, WallTime,
};
use jitlat_net::doctor::clock::{self, ClockReading};
use jitlat_net::doctor::interfaces::{self, InterfaceReport};
use jitlat_net::doctor::loopback;
use jitlat_net::doctor::machine::MachineReport;
use jitlat_net::doctor::sockets::SocketReport;
use jitlat_net::doctor::wake::{WakeLateness, lateness};
use jitlat_net::pace::{PaceMode, Pacing};
use jitlat_net::privilege::{Capability, can_be_granted, how_to_grant};
use jitlat_net::stamp::StampMode;
use jitlat_proto::twoway::{Overdue, PingPlan};
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// Traffic for which the host is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckupTraffic {
    /// Time between packets, in ns.
    pub period: Span,
    /// Payload of each packet, in bytes.
    pub payload: u16,
    /// Maximum duration of the checkup, in ns.
    pub duration: Span,
}

/// A stream over the loopback interface; times in ns. Figures are `None` if no packet arrived.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Baseline {
    /// Number of packets sent.
    pub sent: u64,
    /// Number of packets received.
    pub received: u64,
    /// Time between packets.
    pub period: Span,
    /// Smallest delay; for round trips, without the reflector's processing time.
    pub min: Option<i64>,
    /// 50th percentile of the jitter (delay above the smallest).
    pub pdv_p50: Option<i64>,
    /// 90th percentile of the jitter.
    pub pdv_p90: Option<i64>,
    /// 99th percentile of the jitter.
    pub pdv_p99: Option<i64>,
    /// 99.9th percentile of the jitter.
    pub pdv_p999: Option<i64>,
    /// Largest jitter.
    pub pdv_max: Option<i64>,
    /// Standard deviation of the delay.
    pub stddev: Option<f64>,
    /// True if all send and receive stamps came from the kernel.
    pub kernel_stamps: bool,
}

/// A capability of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldCapability {
    /// Name of the capability: `cap_net_raw`.
    pub name: &'static str,
    /// Purpose for which jitlat needs the capability.
    pub purpose: &'static str,
    /// True if the process has the capability.
    pub held: bool,
}

/// Measurements and settings of this host.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checkup {
    /// Start time of the checkup, in ns since 1970.
    pub at: WallTime,
    /// Traffic for which the host was checked.
    pub question: CheckupTraffic,
    /// Host name, system, clock source and state of the kernel's clock.
    pub host: HostFacts,
    /// Cost of one reading of the wall clock.
    pub wall_clock: ClockReading,
    /// Cost of one reading of the steady clock.
    pub steady_clock: ClockReading,
    /// Wake-up delays of each pacing mode, with SCHED_FIFO where permitted.
    pub wake: Vec<WakeLateness>,
    /// A one-way stream over loopback, or the reason why it could not be measured.
    #[serde(skip)]
    pub one_way: Result<Baseline, String>,
    /// Round trips over loopback, or the reason why they could not be measured.
    #[serde(skip)]
    pub two_way: Result<Baseline, String>,
    /// Processors, power saving and load.
    pub machine: MachineReport,
    /// Sizes of the socket buffers.
    pub sockets: SocketReport,
    /// Network interfaces.
    pub interfaces: Vec<InterfaceReport>,
    /// Capabilities that jitlat can use.
    pub capabilities: Vec<HeldCapability>,
    /// Command that grants all missing capabilities; `None` if none is missing.
    pub grant: Option<String>,
}

impl Checkup {
    /// Checks this host. This takes the time given in `question`, plus the time to set up a few tests.
    pub fn make(question: &CheckupTraffic, stop: &Stop) -> Checkup {
        let stop = stop.flag();
        let part = |percent: i64| Span(question.duration.0.saturating_mul(percent) / 100);
        // The clock state is read first, because the measurements that follow load the host.
        let machine = MachineReport::read();
        let plain = |mode| Pacing { mode: Some(mode), ..Pacing::default() };
        let mut ways: Vec<Pacing> = [PaceMode::Sleep, PaceMode::Hybrid, PaceMode::Spin].map(plain).into();
        if machine.realtime_permitted {
            ways.push(Pacing { realtime: Some(50), ..plain(PaceMode::Hybrid) });
        }
        let wake = |way: &Pacing| lateness(way, question.period, part(13), stop);
        let pacing = Pacing::default();
        let spec = |budget| stream(Transport::Udp, question.period, question.payload.into(), budget);
        let plan = |spec| PingPlan { spec, wait: None, timeout: Span::seconds(1), overdue: Overdue::Space };
        let known = Capability::ALL.into_iter().filter(|_| can_be_granted());
        let missing: Vec<Capability> = known.clone().filter(|c| !c.is_held()).collect();
        Checkup {
            at: jitlat_net::clock::wall(),
            question: *question,
            host: jitlat_net::clock::host_facts(),
            wall_clock: clock::read_wall(part(5)),
            steady_clock: clock::read_steady(part(5)),
            wake: ways.iter().filter_map(wake).collect(),
            one_way: one_way(&spec(part(19)), &pacing, StampSource::Kernel, stop),
            two_way: two_way(plan(spec(part(19))), &pacing, StampMode::Kernel, stop),
            machine,
            sockets: SocketReport::read(),
            interfaces: interfaces::all(),
            capabilities: known
                .map(|c| HeldCapability { name: c.name(), purpose: c.purpose(), held: c.is_held() })
                .collect(),
            grant: (!missing.is_empty()).then(|| how_to_grant(&missing)),
        }
    }

    /// Returns the wake-up delays of one pacing mode, without SCHED_FIFO; `None` if that mode was not
    /// measured.
    pub fn woken(&self, mode: PaceMode) -> Option<&WakeLateness> {
        self.wake.iter().find(|w| w.mode == mode.to_string() && !w.realtime)
    }

    /// Returns the noise floor for test reports; `None` if no loopback stream was measured.
    pub fn floor(&self) -> Option<NoiseFloor> {
        noise(&self.wall_clock, self.woken(PaceMode::Sleep)?, self.one_way.as_ref().ok()?)
    }
}

/// Derives from the requested stream a loopback stream of 20 to 1000 packets that lasts at most `budget`. If 20 packets
/// would take longer, they are sent faster: [`Baseline::period`] is the actual period.
fn stream(transport: Transport, period: Span, payload: u64, budget: Span) -> TestSpec {
    let period = Span(period.0.clamp(1, (budget.0 / 20).max(1)));
    let packets = (budget.0 / period.0).clamp(20, 1000) as u64;
    let payload = payload.max(HEADER_LEN.into());
    TestSpec::new(Direction::Up, transport, packets, payload, period, Schedule::Periodic).unwrap_or_default()
}

/// Measures the noise floor with a loopback stream like the requested stream `asked`.
pub fn floor(
    asked: &TestSpec,
    pacing: &Pacing,
    duration: Span,
    stop: &AtomicBool,
    baseline: impl Fn(&TestSpec) -> Result<Baseline, String>,
) -> Result<NoiseFloor, String> {
    let part = |percent: i64| Span(duration.0 * percent / 100);
    let clock = clock::read_wall(part(10));
    let wake = lateness(pacing, asked.period(), part(40), stop).ok_or("stopped")?;
    let spec = stream(asked.transport(), asked.period(), asked.payload().into(), part(50));
    noise(&clock, &wake, &baseline(&spec)?)
        .ok_or_else(|| "no packet arrived over the loopback interface".to_owned())
}

fn noise(clock: &ClockReading, wake: &WakeLateness, baseline: &Baseline) -> Option<NoiseFloor> {
    Some(NoiseFloor {
        clock_read: clock.p50,
        clock_stall: clock.max,
        wake_p50: wake.p50,
        wake_p99: wake.p99,
        packets: baseline.received,
        pdv_p50: Span(baseline.pdv_p50?),
        pdv_p90: Span(baseline.pdv_p90?),
        pdv_p99: Span(baseline.pdv_p99?),
        pdv_p999: Span(baseline.pdv_p999?),
        pdv_max: Span(baseline.pdv_max?),
        stddev: Span(baseline.stddev?.round() as i64),
    })
}

/// Measures the stream `spec` over loopback in one direction.
pub fn one_way(
    spec: &TestSpec,
    pacing: &Pacing,
    stamps: StampSource,
    stop: &AtomicBool,
) -> Result<Baseline, String> {
    let (sessions, records) = loopback::one_way(spec, pacing, stamps, stop).map_err(|e| e.to_string())?;
    let session = sessions.into_iter().next().ok_or("no session")?;
    Ok(Baseline::new(&session, records.iter().copied()))
}

/// Measures round trips over loopback according to `plan`.
pub fn two_way(
    plan: PingPlan,
    pacing: &Pacing,
    stamps: StampMode,
    stop: &AtomicBool,
) -> Result<Baseline, String> {
    let session = Session::new(plan.spec.clone());
    let records = loopback::two_way(plan, pacing, stamps, stop).map_err(|e| e.to_string())?;
    Ok(Baseline::new(&session, records.iter().filter_map(|r| project(r, RecordView::RoundTrip))))
}

impl Baseline {
    fn new(session: &Session, records: impl Iterator<Item = jitlat_core::PacketRecord>) -> Baseline {
        let mut analyzer = Analyzer::new(session, &jitlat_verdict::options());
        records.for_each(|r| analyzer.push(&r));
        Baseline::of(&analyzer.finish(session))
    }

    fn of(s: &Summary) -> Baseline {
        let pdv = |p| s.pdv.percentile(Percent(p));
        let (sent, arrived) = (&s.stamps.sent, &s.stamps.arrived);
        Baseline {
            sent: s.counts.sent,
            received: s.counts.unique_valid,
            period: Span(s.header.period),
            min: s.latency.min,
            pdv_p50: pdv(50_000),
            pdv_p90: pdv(90_000),
            pdv_p99: pdv(99_000),
            pdv_p999: pdv(99_900),
            pdv_max: s.pdv.max,
            stddev: s.latency.stddev,
            kernel_stamps: sent.kernel + arrived.kernel > 0 && sent.user + arrived.user == 0,
        }
    }
}
