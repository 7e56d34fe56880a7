//! Random faults of hosts, clocks and logs.

use super::context::{Context, Draw, Kind, MS, Requirements, context, span, two_way};
use super::paths::{by_delay, tolerance, variant};
use super::variant::{Damage, Truth, Variant};
use jitlat_core::time::StampSource;
use jitlat_core::{Direction, Span};
use jitlat_impair::{
    Choice, ClockChange, Competition, CrossTraffic, DelayPoint, Outage, Pause, RateBottleneck,
};
use jitlat_store::log::LogVersion;

fn seconds(s: f64) -> Span {
    span(s * 1e9)
}

/// A test without faults.
pub fn clean_context(draw: &mut Draw) -> Context {
    let long = draw.chance(0.03);
    let packets = if long { (20_000, 100_000) } else { (150, 8000) };
    context(draw, Requirements { packets, duration: if long { 0.0 } else { 3.0 }, ..Requirements::default() })
}

const STEADY: [Kind; 7] =
    [Kind::Lan, Kind::Metro, Kind::Wan, Kind::Adsl, Kind::Formula, Kind::Geo, Kind::Wifi];

/// The sending program stalls, then catches up.
pub fn sender_stall(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements {
            packets: (600, 8000),
            duration: 8.0,
            period: 0.05,
            periodic: true,
            ..Requirements::default()
        },
    );
    c.path().in_order = true;
    c.path().in_order = true;
    let count = draw.whole(1, 4);
    let slot = c.duration() / count as f64;
    let mut stalls = Vec::new();
    for k in 0..count {
        let length =
            draw.scale(0.08f64.max(4.0 * c.period), (0.2 * slot).clamp(0.09f64.max(4.5 * c.period), 1.0));
        let from = k as f64 * slot + draw.between(0.05, 0.9) * (slot - 2.0 * length);
        stalls.push((from, length));
        c.sender().stalls.push(Pause { from: seconds(from), length: seconds(length) });
    }
    c.sender().entries = entries(draw);
    let longest = stalls.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let mut truth = Truth::of("sender-stall", &["good", "fair", "unknown"]).magnitude(longest.1 * 1e9, 1.4);
    let as_long = stalls.iter().filter(|s| s.1 > 0.85 * longest.1 - c.period);
    truth.times = as_long.map(|s| (s.0, s.0 + s.1, tolerance(&c, 0.0))).collect();
    variant(c, truth)
}

/// The receiving program stalls, then reads everything at once.
pub fn receiver_stall(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements { packets: (600, 8000), duration: 8.0, period: 0.03, periodic: true, kinds: &STEADY },
    );
    let count = draw.whole(1, 4);
    let slot = c.duration() / count as f64;
    let mut stalls = Vec::new();
    for k in 0..count {
        let length =
            draw.scale(0.12f64.max(6.0 * c.period), (0.2 * slot).clamp(0.13f64.max(6.5 * c.period), 1.0));
        let from = k as f64 * slot + draw.between(0.05, 0.9) * (slot - 2.0 * length);
        stalls.push((from, length));
        c.receiver().stalls.push(Pause { from: seconds(from), length: seconds(length) });
    }
    let longest = stalls.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let total: f64 = stalls.iter().map(|s| s.1).sum();
    let severity: &[&str] = if total < 0.008 * c.duration() { &["good"] } else { &["good", "fair"] };
    let mut truth = Truth::of("receiver-stall", severity).magnitude(longest.1 * 1e9, 1.4);
    // Packets that the stall held were sent earlier than it began, by their delay.
    let off = tolerance(&c, 0.0) + c.delay / 1e9;
    let as_long = stalls.iter().filter(|s| s.1 > 0.85 * longest.1 - c.period);
    truth.times = as_long.map(|s| (s.0, s.0 + s.1, off)).collect();
    variant(c, truth)
}

/// A clock is set during the test, in one of the cases that a log can prove.
pub fn clock_step(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements { packets: (800, 8000), duration: 10.0, period: 0.1, periodic: true, kinds: &STEADY },
    );
    let at = draw.between(0.15, 0.85) * c.duration();
    let size = (draw.scale(2.0, 900.0) * MS).max(6.0 * c.jitter).max(1.5 * c.period * 1e9);
    let mut by = if draw.chance(0.5) { size } else { -size };
    let step = |by: f64| ClockChange { at: seconds(at), by: span(by), over: Span::ZERO };
    match draw.whole(0, 2) {
        // The probes before and after show the step.
        0 => {
            c.version = LogVersion::V3;
            c.trial.probes = 8;
            c.receiver().clock.shifts.push(step(by));
        }
        // The sender's clock is set; its schedule jumps with it.
        1 => c.sender().clock.shifts.push(step(by)),
        // The receiver's clock is set back: packets arrive in order, but at earlier times than those sent before.
        _ => {
            by = -size;
            c.receiver().clock.shifts.push(step(by));
        }
    }
    if c.trial.probes > 0 && draw.chance(0.15) && c.trial.spec.direction() == Direction::Up {
        let shifts = [c.trial.client.clock.shifts.clone(), c.trial.server.clock.shifts.clone()];
        two_way(draw, &mut c);
        [c.trial.client.clock.shifts, c.trial.server.clock.shifts] = shifts;
        if let Some(a) = &mut c.trial.answering {
            (a.protocol, a.far_clock, a.counts) = ("stamp".to_owned(), true, true);
        }
    }
    let mut truth = Truth::of("clock-step", &["good"]).magnitude(size, 1.3);
    // Packets that are in transit when the clock that stamps their arrival is set were sent earlier, by their delay up
    // and down.
    let under_way = if c.trial.answering.is_some() { 2.0 * c.delay } else { c.delay } / 1e9;
    truth.times = vec![(at, at, tolerance(&c, 0.0) + under_way)];
    variant(c, truth)
}

/// Two clocks that run at different rates, as free-running ones do.
pub fn clock_skew(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements {
            packets: (1000, 8000),
            duration: 60.0,
            period: 0.2,
            kinds: &STEADY[..6],
            ..Requirements::default()
        },
    );
    let drift = (8.0 * c.jitter).max(1.2 * MS);
    let ppm = (drift / c.duration() / 1e3).max(draw.scale(15.0, 180.0));
    let ppm = if draw.chance(0.5) { ppm } else { -ppm };
    c.trial.server.clock.skew_ppb = (1000.0 * ppm) as i64;
    if c.kind == Kind::Wifi || ppm.abs() > 900.0 {
        return clock_skew(draw);
    }
    let mut truth = Truth::of("clock-skew", &["good"]).between(0.0, c.duration(), 0.1 * c.duration());
    truth.magnitude = None;
    variant(c, truth)
}

/// A queue in the sending host's own interface.
pub fn local_queue(draw: &mut Draw) -> Variant {
    let mut c = context(draw, Requirements { duration: 15.0, period: 0.1, ..Requirements::default() });
    c.version = LogVersion::V3;
    for host in [&mut c.trial.client, &mut c.trial.server] {
        host.stamps = StampSource::Kernel;
    }
    let own = 8.0 * (c.trial.spec.payload() as f64 + 28.0) / c.period;
    let bits = (draw.scale(6.0, 40.0) * own).max(1e6);
    let peak = draw.scale(30.0, 400.0);
    let queue = (peak / 1e3 * bits / 8.0).max(6000.0);
    let peak = queue * 8e3 / bits;
    let length = draw.between(0.25, 0.7) * c.duration();
    let from = draw.between(0.02, 0.95) * (c.duration() - length - peak / 500.0).max(0.0);
    let load = if draw.chance(0.6) {
        CrossTraffic::Greedy { rtt: Span::millis(20) }
    } else {
        CrossTraffic::Constant((1.05 * bits) as u64)
    };
    let host = c.sender();
    host.interface = Some(RateBottleneck { bits: bits as u64, queue: queue as u64 });
    host.competition = vec![Competition { from: seconds(from), length: seconds(length), load }];
    host.entries = entries(draw);
    if draw.chance(0.2) && c.trial.spec.direction() == Direction::Up {
        two_way(draw, &mut c);
    }
    // The path's grade does not include this queue, but its drops look like loss on the path.
    let mut truth = Truth::of("local-queue", &["good", "fair", "poor"])
        .magnitude(peak * MS, 1.6)
        .also(&["random-loss", "bursty-loss"]);
    truth.times = vec![(from, from + length + peak / 1000.0, tolerance(&c, length))];
    if matches!(load, CrossTraffic::Constant(_)) {
        // The delay rises too slowly to fill the queue.
        truth.magnitude = None;
        truth.times.clear();
        truth.severity = vec!["good", "fair", "poor", "bad"];
    }
    variant(c, truth)
}

/// Share of packets whose entry into the queue is stamped by the kernel: all, nearly all, none.
fn entries(draw: &mut Draw) -> Choice {
    match draw.whole(0, 3) {
        0 => Choice::Never,
        1 => Choice::Bernoulli(draw.between(0.7, 0.99)),
        _ => Choice::Bernoulli(1.0),
    }
}

/// A kernel that refuses packets, as reported by two-way tests.
pub fn send_failure(draw: &mut Draw) -> Variant {
    let mut c = context(draw, Requirements { packets: (600, 6000), ..Requirements::default() });
    two_way(draw, &mut c);
    let p = draw.scale(0.02, 0.4);
    c.trial.client.refused = if draw.chance(0.5) {
        Choice::Bernoulli(p)
    } else {
        let from = draw.whole(10, c.packets / 2);
        Choice::Within(from..=from + (p * c.packets as f64) as u64, Box::new(Choice::Bernoulli(1.0)))
    };
    // Requests that were never sent are not lost, and do not make the path worse.
    variant(c, Truth::of("send-failure", &["good", "fair", "poor", "bad", "unknown"]))
}

/// A log that is truncated.
pub fn incomplete(draw: &mut Draw) -> Variant {
    let mut c = context(draw, Requirements { packets: (600, 6000), ..Requirements::default() });
    if draw.chance(0.15) {
        two_way(draw, &mut c);
    }
    let share = draw.between(0.25, 0.85);
    let damage = match (c.version, draw.whole(0, 3)) {
        (LogVersion::V3, 0) => {
            Damage::Ends(share, "# ending storage_failed\n# reason No space left on device (os error 28)\n")
        }
        (LogVersion::V3, 1) => {
            Damage::Ends(share, "# ending peer_lost\n# reason the control connection was lost\n")
        }
        (_, 2) => Damage::Cut(share, true),
        _ => Damage::Cut(share, false),
    };
    let mut v = variant(c, Truth::of("incomplete-log", &["good"]));
    v.damage = damage;
    v.truth.complete = false;
    v
}

/// Too few packets for a verdict.
pub fn few(draw: &mut Draw) -> Variant {
    let mut c = context(draw, Requirements { packets: (1, 90), ..Requirements::default() });
    let lost = draw.chance(0.5).then(|| draw.whole(0, 5));
    c.path().loss = Choice::indices(lost);
    let truth = Truth { severity: vec!["unknown"], complete: true, ..Truth::default() };
    variant(c, truth)
}

/// No packet arrives.
pub fn nothing(draw: &mut Draw) -> Variant {
    let mut c = context(draw, Requirements { packets: (150, 2000), ..Requirements::default() });
    c.version = LogVersion::V3;
    let length = seconds(10.0 * c.duration() + 10.0);
    c.path().outages.push(Outage { from: Span::ZERO, length });
    let truth = Truth::of("outage", &["bad"]);
    variant(c, truth)
}

/// A queue that never empties, although the probes before the test found the path idle.
pub fn queue_throughout(draw: &mut Draw) -> Variant {
    let mut c =
        context(draw, Requirements { packets: (600, 8000), kinds: &STEADY[..5], ..Requirements::default() });
    c.version = LogVersion::V3;
    c.trial.probes = 8;
    let peak = draw.scale(60.0, 400.0).max(3.0 * c.delay / MS);
    let standing = |at: f64| DelayPoint { at: seconds(at), delay: span(peak * MS) };
    c.path().added = vec![DelayPoint { at: Span(-1), delay: Span::ZERO }, standing(0.0)];
    if draw.chance(0.5) {
        // The queue rises and falls a little.
        let duration = c.duration();
        c.path().added.extend((1..20).map(|k| {
            let share = f64::from(k) / 20.0;
            DelayPoint { at: seconds(share * duration), delay: span(peak * MS * draw.between(0.85, 1.0)) }
        }));
    }
    let end = c.duration() + 0.1;
    c.path().added.push(standing(end));
    c.path().added.push(DelayPoint { at: seconds(end), delay: Span::ZERO });
    let mut truth =
        Truth::of("queue", &["fair", "poor", "bad"]).between(0.0, c.duration(), 0.1 * c.duration());
    truth.severity.extend(by_delay(peak));
    truth.magnitude = Some((peak * MS, 1.5));
    variant(c, truth)
}
