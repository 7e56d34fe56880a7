//! The `doctor` instrument: reports whether this host is fit for measurements, how much noise it adds to
//! every figure, and which settings to change.
//!
//! * [`checkup`] – [`Checkup`]: measures this host, and reads the kernel's settings
//! * [`findings`] – [`judge`]: derives findings from the checkup

pub mod checkup;
pub mod findings;

pub use checkup::{Baseline, Checkup, CheckupTraffic};
pub use findings::{Finding, judge};

use crate::one_way::OneWay;
use crate::ping::Ping;
use crate::stop::Stop;
use jitlat_core::{Direction, NoiseFloor, Schedule, Span, TestSpec, Transport};
use jitlat_net::pace::Pacing;
use jitlat_proto::twoway::PingPlan;

/// Duration of the noise floor measurement.
const NOISE_FLOOR_TIME: Span = Span::seconds(3);

/// Measures the noise that this host adds to the figures of `test`: sends a similar stream over the loopback
/// interface for three seconds.
///
/// # Errors
/// Reason why the noise could not be measured.
pub fn noise_floor(test: &OneWay, stop: &Stop) -> Result<NoiseFloor, String> {
    let spec = test.settings.terms.specs.first().ok_or("the test has no stream")?;
    checkup::floor(spec, &test.settings.sending.pacing, NOISE_FLOOR_TIME, stop.flag(), |spec| {
        checkup::one_way(spec, &test.settings.sending.pacing, test.settings.terms.stamps, stop.flag())
    })
}

/// Measures the noise that this host adds to the figures of a two-way test.
///
/// # Errors
/// Reason why the noise could not be measured.
pub fn noise_floor_two_way(test: &Ping, stop: &Stop) -> Result<NoiseFloor, String> {
    let plan = test.plan().map_err(|e| e.to_string())?;
    let pacing = Pacing { mode: test.pace, ..Pacing::default() };
    // A stop-and-wait test has no fixed period, but the loopback stream needs one.
    let period = plan.wait.map_or(plan.spec.period(), |w| w.max(Span::millis(1)));
    let (packets, payload) = (plan.spec.packets().into(), plan.spec.payload().into());
    let spec = TestSpec::new(Direction::Up, Transport::Udp, packets, payload, period, Schedule::Periodic);
    checkup::floor(&spec.map_err(|e| e.to_string())?, &pacing, NOISE_FLOOR_TIME, stop.flag(), |spec| {
        let wait = plan.wait.map(|w| w.min(spec.period()));
        let plan = PingPlan { spec: spec.clone(), wait, ..plan.clone() };
        checkup::two_way(plan, &pacing, test.stamps, stop.flag())
    })
}
