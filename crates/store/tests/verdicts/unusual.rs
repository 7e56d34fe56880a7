//! Faults of any size: stalls, clock steps, short queues, hand-overs; and sliding slots, which are not faults.

use super::context::{Context, Draw, Kind, MS, Requirements, context, span};
use super::paths::{tolerance, variant};
use super::variant::{Truth, Variant};
use jitlat_core::time::StampSource;
use jitlat_core::{Schedule, Span, TestSpec, Transport};
use jitlat_impair::{ClockChange, DelayPoint, Jitter, Pause};
use jitlat_store::log::LogVersion;

fn seconds(s: f64) -> Span {
    span(s * 1e9)
}

/// Paths with little jitter.
const CALM: [Kind; 6] = [Kind::Lan, Kind::Metro, Kind::Wan, Kind::Adsl, Kind::Formula, Kind::Geo];

/// Changes the schedule of `c` to another one with the same rate, in a log version that states it.
fn reschedule(c: &mut Context, schedule: Schedule) {
    let spec = &c.trial.spec;
    c.version = LogVersion::V3;
    c.trial.spec = TestSpec::new(
        spec.direction(),
        Transport::Udp,
        spec.packets().into(),
        spec.payload().into(),
        spec.period(),
        schedule,
    )
    .unwrap();
}

/// Draws disjoint pauses of any length, and the correct verdict: the times of the pauses and the longest one.
fn pauses(
    draw: &mut Draw,
    c: &Context,
    id: &'static str,
    count: u64,
    [low, high]: [f64; 2],
) -> (Vec<Pause>, Truth) {
    let slot = c.duration() / count as f64;
    let high = high.min(0.7 * slot).max(low * 1.01);
    let all: Vec<(f64, f64)> = (0..count)
        .map(|k| {
            let length = draw.scale(low, high);
            (k as f64 * slot + draw.between(0.05, 0.9) * (slot - 1.2 * length).max(0.0), length)
        })
        .collect();
    let longest = all.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let mut truth = Truth::of(id, &["good", "fair", "poor", "unknown"]).magnitude(longest.1 * 1e9, 1.4);
    let off = tolerance(c, 0.0) + c.delay / 1e9;
    let near = all.iter().filter(|s| s.1 > 0.85 * longest.1 - c.period);
    truth.times = near.map(|s| (s.0, s.0 + s.1, off)).collect();
    // All pauses may be reported as one.
    let end = all.last().unwrap();
    truth.times.push((all[0].0, end.0 + end.1, off));
    let pauses = all.iter().map(|(from, length)| Pause { from: seconds(*from), length: seconds(*length) });
    (pauses.collect(), truth)
}

/// The sender stalls for any time, with any schedule.
pub fn sender_stalls(draw: &mut Draw) -> Variant {
    let wanted = Requirements {
        packets: (600, 8000),
        duration: 10.0,
        period: 0.05,
        periodic: true,
        ..Requirements::default()
    };
    let mut c = context(draw, wanted);
    c.path().in_order = true;
    match draw.whole(0, 3) {
        0 => reschedule(&mut c, Schedule::Poisson { seed: draw.whole(0, 99) }),
        1 => reschedule(&mut c, Schedule::Burst { size: draw.whole(2, 10) as u32 }),
        _ => (),
    }
    let burst = if let Schedule::Burst { size } = c.trial.spec.schedule() { f64::from(size) } else { 1.0 };
    let count = draw.pick(&[1, 1, 1, 2, 3, 6]);
    let low = 0.06f64.max(6.0 * burst * c.period);
    let (stalls, truth) = pauses(draw, &c, "sender-stall", count, [low, 10.0]);
    c.sender().stalls = stalls;
    variant(c, truth)
}

/// The receiver stalls for any time.
pub fn receiver_stalls(draw: &mut Draw) -> Variant {
    let wanted =
        Requirements { packets: (600, 8000), duration: 10.0, period: 0.03, periodic: true, kinds: &CALM };
    let mut c = context(draw, wanted);
    let count = draw.pick(&[1, 1, 1, 2, 3, 6]);
    let (stalls, truth) = pauses(draw, &c, "receiver-stall", count, [0.1f64.max(6.0 * c.period), 10.0]);
    c.receiver().stalls = stalls;
    variant(c, truth)
}

/// Many short stalls of the receiver of a fast path.
pub fn short_receiver_stalls(draw: &mut Draw) -> Variant {
    let kinds = &[Kind::Loopback, Kind::Lan, Kind::Metro];
    let wanted = Requirements { packets: (1500, 8000), duration: 8.0, period: 0.01, periodic: true, kinds };
    let mut c = context(draw, wanted);
    let count = draw.whole(5, 20);
    let low = 0.04f64.max(5.0 * c.period);
    let (stalls, truth) = pauses(draw, &c, "receiver-stall", count, [low, 2.0 * low]);
    c.receiver().stalls = stalls;
    variant(c, truth)
}

/// Either host's clock is set by any amount.
fn step(draw: &mut Draw, sender: bool) -> Variant {
    let wanted =
        Requirements { packets: (800, 8000), duration: 10.0, period: 0.1, periodic: true, kinds: &CALM };
    let mut c = context(draw, wanted);
    let at = draw.between(0.1, 0.9) * c.duration();
    let least = (3.0 * MS).max(6.0 * c.jitter).max(1.5 * c.period * 1e9);
    let day = 86_400e9;
    let forward = draw.chance(0.5);
    // A small step forward of the receiver's clock alone looks like a longer path.
    let least = if !sender && forward { least.max(1.2e9) } else { least };
    let size = draw.scale(least, 2.0 * day);
    let by = if forward { size } else { -size };
    let shift = ClockChange { at: seconds(at), by: span(by), over: Span::ZERO };
    if sender {
        c.sender().clock.shifts.push(shift);
    } else {
        c.receiver().clock.shifts.push(shift);
    }
    let mut truth = Truth::of("clock-step", &["good", "fair"]).magnitude(size, 1.1).signed(by);
    truth.says = Some(if sender { "sending" } else { "receiving" });
    truth.times = vec![(at, at, (3.0 * c.period).max(0.1) + c.delay / 1e9)];
    variant(c, truth)
}

pub fn sender_clock(draw: &mut Draw) -> Variant {
    step(draw, true)
}

pub fn receiver_clock(draw: &mut Draw) -> Variant {
    step(draw, false)
}

/// A link with slots that follow another clock than the sender's, which is not a fault.
pub fn sliding_slots(draw: &mut Draw) -> Variant {
    let wanted =
        Requirements { packets: (1500, 12_000), duration: 30.0, period: 0.05, periodic: true, kinds: &CALM };
    let mut c = context(draw, wanted);
    let ppm = draw.between(8.0, 60.0) * draw.pick(&[1.0, -1.0]);
    let other = draw.between(4.0, 10.0);
    let slot = draw.pick(&[4.0, 5.0, 8.0, 10.0, other]) * MS;
    let before = match draw.whole(0, 2) {
        0 => Jitter::Exponential { mean: span(draw.scale(0.02, 0.3) * MS) },
        1 => Jitter::Uniform { max: span(draw.between(0.2, 9.0) * MS) },
        _ => Jitter::Normal { deviation: span(draw.scale(0.02, 0.5) * MS) },
    };
    let every = span(slot * (1.0 + ppm / 1e6));
    let after = Jitter::Exponential { mean: span(draw.scale(0.005, 0.2) * MS) };
    c.path().jitter = Jitter::Sum(vec![before, Jitter::Slots { every }, after]);
    c.path().in_order = true;
    let mut truth = Truth::clean();
    // Until packets miss a slot, sliding slots cannot be distinguished from clock skew.
    if ppm.abs() * c.duration() * 1e3 < 1.2 * slot {
        truth.main = vec!["clock-skew"];
        truth.or_nothing = true;
    }
    variant(c, truth)
}

/// Queues that fill and drain within 40 to 300 ms.
pub fn short_queues(draw: &mut Draw) -> Variant {
    let kinds = &[Kind::Lan, Kind::Metro, Kind::Wan, Kind::Adsl, Kind::Formula];
    let wanted = Requirements { packets: (3000, 9000), duration: 6.0, period: 0.005, periodic: true, kinds };
    let mut c = context(draw, wanted);
    let duration = c.duration();
    let count = draw.pick(&[1, 2, 4, 8, 12, 16]).min((duration / 0.7) as u64).max(1);
    let even = draw.chance(0.6);
    let slot = duration / count as f64;
    let long = draw.scale(0.04f64.max(20.0 * c.period), 0.3);
    let (mut points, mut times) = (vec![(0.0, 0.0)], Vec::new());
    for k in 0..count {
        let length = long * if even { 1.0 } else { draw.between(0.8, 1.25) };
        let from = k as f64 * slot + if even { 0.3 } else { draw.between(0.1, 0.8) } * (slot - length);
        let rise = draw.between(0.35, 0.65) * length;
        let peak = (length - rise) * 1e3 * draw.between(0.7, 0.98);
        points.extend([(from, 0.0), (from + rise, peak), (from + length, 0.0)]);
        times.push((from, from + length, peak));
    }
    c.path().added =
        points.iter().map(|(at, d)| DelayPoint { at: seconds(*at), delay: span(d * MS) }).collect();
    c.path().in_order = true;
    let highest = times.iter().map(|t| t.2).fold(0.0, f64::max);
    // The path's own jitter hides a low queue.
    if highest * MS < 12.0 * c.jitter || highest < 8.0 {
        return short_queues(draw);
    }
    let mut truth = Truth::of("queue", &["good", "fair", "poor"]).magnitude(highest * MS, 1.3);
    let off = 0.1f64.max(5.0 * c.period);
    truth.times = times.iter().filter(|t| t.2 > 0.85 * highest).map(|t| (t.0, t.1, off)).collect();
    truth.times.push((times[0].0, times[times.len() - 1].1, off));
    variant(c, truth)
}

/// The path stores packets during a hand-over and then delivers them quickly.
pub fn hand_over(draw: &mut Draw) -> Variant {
    let wanted =
        Requirements { packets: (1200, 8000), duration: 10.0, period: 0.02, periodic: true, kinds: &CALM };
    let mut c = context(draw, wanted);
    let length = draw.scale(0.1f64.max(8.0 * c.period), 1.0);
    let from = draw.between(0.1, 0.8) * c.duration();
    // The stored packets leave this many times faster than they were sent.
    let drain = length / draw.between(2.0, 20.0);
    let after = if draw.chance(0.5) { draw.between(2.0, 15.0) } else { 0.0 };
    let points = [(0.0, 0.0), (from, 0.0), (from, length * 1e3 + after), (from + length + drain, after)];
    c.path().added =
        points.iter().map(|(at, d)| DelayPoint { at: seconds(*at), delay: span(d * MS) }).collect();
    c.path().in_order = true;
    let mut truth = Truth::of("queue", &["good", "fair", "poor", "bad"]).magnitude(length * 1e9, 1.5);
    if draw.chance(0.5) {
        c.receiver().stamps = StampSource::Kernel;
        c.version = LogVersion::V3;
    } else {
        // Only kernel stamps distinguish this from a program that reads everything at once.
        c.receiver().stamps = StampSource::User;
        truth.main.push("receiver-stall");
    }
    truth.times = vec![(from, from + length + drain, tolerance(&c, length) + c.delay / 1e9)];
    variant(c, truth)
}

/// Free-running clocks, seen through the slots of a radio link.
pub fn radio_skew(draw: &mut Draw) -> Variant {
    let wanted = Requirements {
        packets: (3000, 12_000),
        duration: 120.0,
        period: 0.05,
        periodic: true,
        kinds: &[Kind::Mobile],
    };
    let mut c = context(draw, wanted);
    let ppm = (16.0 * MS / c.duration() / 1e3).max(draw.scale(20.0, 200.0)) * draw.pick(&[1.0, -1.0]);
    c.trial.server.clock.skew_ppb = (1000.0 * ppm) as i64;
    let mut truth = Truth::of("clock-skew", &["good", "fair"]).between(0.0, c.duration(), 0.1 * c.duration());
    truth.ppm = Some(ppm.abs());
    variant(c, truth)
}

/// The clock of either host is adjusted during the test, at the rates of NTP and of adjtime.
pub fn clock_adjusted(draw: &mut Draw) -> Variant {
    let wanted =
        Requirements { packets: (1500, 12_000), duration: 60.0, period: 0.1, periodic: true, kinds: &CALM };
    let mut c = context(draw, wanted);
    let ppm = draw.between(100.0, 500.0);
    let least = (2.0 * MS).max(12.0 * c.jitter);
    let over = draw.scale((least / ppm / 1e3).max(0.1 * c.duration()), 0.6 * c.duration());
    let size = over * ppm * 1e3;
    // A longer adjustment of a noisy path takes longer than the test.
    if over > 0.6 * c.duration() {
        return clock_adjusted(draw);
    }
    let from = draw.between(0.15, 0.85) * (c.duration() - over);
    let by = if draw.chance(0.5) { size } else { -size };
    let shift = ClockChange { at: seconds(from), by: span(by), over: seconds(over) };
    if draw.chance(0.5) {
        c.sender().clock.shifts.push(shift);
    } else {
        c.receiver().clock.shifts.push(shift);
    }
    let mut truth = Truth::of("clock-skew", &["good"]).magnitude(size, 1.25);
    truth.times = vec![(from, from + over, 0.12 * c.duration())];
    variant(c, truth)
}

/// The route changes once while the clocks drift apart.
pub fn route_and_drift(draw: &mut Draw) -> Variant {
    let wanted =
        Requirements { packets: (1500, 12_000), duration: 60.0, period: 0.1, periodic: true, kinds: &CALM };
    let mut c = context(draw, wanted);
    let duration = c.duration();
    let ppm = draw.between(30.0, 150.0).max(12.0 * c.jitter / duration / 1e3);
    let drift = ppm * duration * 1e3;
    if ppm > 500.0 {
        return route_and_drift(draw);
    }
    let ppm = ppm * draw.pick(&[1.0, -1.0]);
    c.trial.server.clock.skew_ppb = (1000.0 * ppm) as i64;
    let (at, by) = (draw.between(0.25, 0.75) * duration, draw.between(2.0, 9.0).max(12.0 * c.jitter / MS));
    let points = [(0.0, 0.0), (at, 0.0), (at, by)];
    c.path().added =
        points.iter().map(|(at, d)| DelayPoint { at: seconds(*at), delay: span(d * MS) }).collect();
    let mut truth = Truth::of("route-change", &["good"]).also(&["clock-skew"]);
    // Either may be first. A longer path during a drift in the opposite direction looks like slots.
    truth.main.push("clock-skew");
    truth.or_nothing = drift < 3.0 * by * MS;
    variant(c, truth)
}
