//! Random faults of a path.

use super::context::{Context, Draw, Kind, MS, Requirements, context, span, two_way};
use super::hosts::clean_context;
use super::variant::{Damage, Truth, Variant};
use jitlat_core::{Schedule, Span, TestSpec, Transport};
use jitlat_impair::{
    Choice, Competition, CrossTraffic, DelayPoint, DuplicationModel, GilbertModel, Jitter, Outage, Police,
    RateBottleneck, ReorderingModel, SizeLimit,
};
use jitlat_store::log::LogVersion;
use std::f64::consts::TAU;

pub fn variant(c: Context, truth: Truth) -> Variant {
    let mut truth = truth;
    // Half a second from mouth to ear is noticed, if the delay is known.
    if c.kind == Kind::Geo && c.delay_known() {
        let worse = [("good", "fair"), ("fair", "poor"), ("poor", "bad")];
        let more: Vec<_> =
            worse.iter().filter(|(a, _)| truth.severity.contains(a)).map(|(_, b)| *b).collect();
        truth.severity.extend(more);
    }
    Variant { trial: c.trial, version: c.version, damage: Damage::None, truth }
}

fn seconds(s: f64) -> Span {
    span(s * 1e9)
}

/// Returns the tolerance for the times of a fault that lasts `length`, in seconds.
pub fn tolerance(c: &Context, length: f64) -> f64 {
    (2.5 * c.period).max(0.02 * c.duration()).max(0.1 * length)
}

/// Returns the severities allowed for a share `p` of lost and late packets, according to speech ratings and 3GPP TS 22.105.
pub fn by_loss(p: f64) -> &'static [&'static str] {
    match 100.0 * p {
        ..0.7 => &["good"],
        ..1.4 => &["good", "fair"],
        ..2.3 => &["fair"],
        ..3.8 => &["fair", "poor"],
        ..8.0 => &["poor"],
        ..12.5 => &["poor", "bad"],
        _ => &["bad"],
    }
}

/// Returns the severities allowed for a delay variation, in ms, that affects more than a few percent of packets.
pub fn by_delay(ms: f64) -> &'static [&'static str] {
    match ms {
        ..40.0 => &["good"],
        ..60.0 => &["good", "fair"],
        ..85.0 => &["fair"],
        ..120.0 => &["fair", "poor"],
        ..250.0 => &["poor"],
        ..350.0 => &["poor", "bad"],
        _ => &["bad"],
    }
}

/// Returns the severities allowed for outages with these total and longest lengths in a test of `duration`, all in seconds.
pub fn by_outage(longest: f64, total: f64, duration: f64) -> &'static [&'static str] {
    let by_length = match longest {
        ..0.18 => 1,
        ..0.22 => 2,
        ..1.7 => 3,
        ..2.3 => 4,
        _ => 5,
    };
    let by_share = match 100.0 * total / duration {
        ..0.08 => 1,
        ..0.12 => 2,
        ..0.85 => 3,
        ..1.15 => 4,
        _ => 5,
    };
    match by_length.min(by_share) {
        1 => &["fair", "good"],
        2 => &["fair", "poor"],
        3 => &["poor"],
        4 => &["poor", "bad"],
        _ => &["bad"],
    }
}

pub fn outage(draw: &mut Draw) -> Variant {
    let mut c = context(draw, Requirements { duration: 10.0, period: 0.1, ..Requirements::default() });
    let length = draw.scale(0.25f64.max(8.0 * c.period), (0.25 * c.duration()).min(12.0).max(9.0 * c.period));
    let from = draw.between(0.05, 0.9) * (c.duration() - 1.1 * length);
    let gone = Outage { from: seconds(from), length: seconds(length) };
    if draw.chance(0.2) {
        two_way(draw, &mut c);
        let way = if draw.chance(0.5) { &mut c.trial.down } else { &mut c.trial.up };
        way.outages.push(gone);
    } else {
        c.path().outages.push(gone);
    }
    let truth = Truth::of("outage", by_outage(length, length, c.duration()))
        .between(from, from + length, tolerance(&c, 0.0))
        .magnitude(length * 1e9, 1.3);
    variant(c, truth)
}

pub fn outages(draw: &mut Draw) -> Variant {
    let mut c = context(draw, Requirements { duration: 20.0, period: 0.05, ..Requirements::default() });
    let (count, duration) = (draw.whole(2, 4), c.duration());
    let slot = duration / count as f64;
    let mut all = Vec::new();
    for k in 0..count {
        let length = draw.scale(0.3f64.max(8.0 * c.period), (0.3 * slot).min(4.0).max(9.0 * c.period));
        let from = k as f64 * slot + draw.between(0.1, 0.9) * (slot - 1.2 * length);
        all.push((from, length));
        c.path().outages.push(Outage { from: seconds(from), length: seconds(length) });
    }
    let longest = all.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let total = all.iter().map(|o| o.1).sum();
    let mut truth = Truth::of("outage", by_outage(longest.1, total, duration));
    for outage in all.iter().filter(|o| o.1 > 0.85 * longest.1 - c.period) {
        truth = truth.between(outage.0, outage.0 + outage.1, tolerance(&c, 0.0));
    }
    variant(c, truth)
}

/// An upload through a bottleneck with a deep buffer.
pub fn upload(draw: &mut Draw) -> Variant {
    let mut c =
        context(draw, Requirements { duration: 15.0, period: 0.1, kinds: &SHORT, ..Requirements::default() });
    let depth = draw.scale(40.0, 600.0) * MS;
    let duration = c.duration();
    // The test's own rate is small compared with the link's.
    let own = 8.0 * (c.trial.spec.payload() as f64 + 28.0) / c.period;
    let bits = (draw.scale(8.0, 60.0) * own).max(1e6);
    let queue = (depth / 1e9 * bits / 8.0).max(6000.0);
    let peak = queue * 8e3 / bits;
    let length = draw.between(0.25, 0.6) * duration;
    let from = draw.between(0.05, 0.9) * (duration - length - 2.0 * peak / 1000.0).max(0.0);
    let rtt = (2.0 * c.delay).max(2e6);
    let rate = Some(RateBottleneck { bits: bits as u64, queue: queue as u64 });
    let flows = draw.whole(1, 3);
    let competition: Vec<_> = (0..flows)
        .map(|k| Competition {
            from: seconds(from + 0.05 * k as f64),
            length: seconds(length),
            load: CrossTraffic::Greedy { rtt: span(rtt * (1.0 + 0.1 * k as f64)) },
        })
        .collect();
    if draw.chance(0.2) {
        two_way(draw, &mut c);
    }
    let path = if c.trial.answering.is_some() && draw.chance(0.5) { &mut c.trial.down } else { c.path() };
    (path.rate, path.competition) = (rate, competition);
    let truth = Truth::of("queue", by_delay(0.85 * peak))
        .between(from, from + length + peak / 1000.0, tolerance(&c, length))
        .magnitude(peak * MS, 1.5)
        .also(&["random-loss", "bursty-loss"]);
    let mut truth = truth;
    // The queue varies like a sawtooth between half and all of its length.
    truth.severity.extend(by_delay(0.6 * peak));
    variant(c, truth)
}

const SHORT: [Kind; 9] = [
    Kind::Lan,
    Kind::Metro,
    Kind::Wan,
    Kind::Adsl,
    Kind::Wifi,
    Kind::Mobile,
    Kind::Leo,
    Kind::Formula,
    Kind::Heavy,
];

/// Other traffic exceeds the link's rate: a ramp, a full queue, and drops.
pub fn flood(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements { duration: 15.0, period: 0.05, kinds: &SHORT, ..Requirements::default() },
    );
    let peak = draw.scale(40.0, 500.0);
    let duration = c.duration();
    let length = draw.between(0.2, 0.6) * duration;
    let from = draw.between(0.05, 0.9) * (duration - length - 2.0 * peak / 1000.0).max(0.0);
    let rise = (draw.scale(0.05, 0.5) * length).max(3.0 * c.period);
    let fall = (peak / 1000.0).max(3.0 * c.period) * draw.between(1.0, 3.0);
    let points =
        [(0.0, 0.0), (from, 0.0), (from + rise, peak), (from + length, peak), (from + length + fall, 0.0)];
    c.path().added =
        points.iter().map(|(at, d)| DelayPoint { at: seconds(*at), delay: span(d * MS) }).collect();
    c.path().in_order = true;
    let loss = if draw.chance(0.5) { draw.scale(0.01, 0.2) } else { 0.0 };
    let full = c.seq(from + rise)..=c.seq(from + length);
    c.path().loss = Choice::Within(full, Box::new(Choice::Bernoulli(loss)));
    let share = loss * (length - rise) / duration;
    let mut truth = Truth::of("queue", by_delay(peak))
        .between(from, from + length + fall, tolerance(&c, length))
        .magnitude(peak * MS, 1.25)
        .also(&["random-loss", "bursty-loss"]);
    truth.severity.extend(by_loss(share).iter().filter(|s| **s > "fair" || **s == "bad"));
    variant(c, truth)
}

/// A queue that fills and empties all the time.
pub fn sawtooth(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements { duration: 15.0, period: 0.05, kinds: &SHORT, ..Requirements::default() },
    );
    let (duration, peak) = (c.duration(), draw.scale(30.0, 400.0));
    let low = peak * draw.pick(&[0.0, 0.0, 0.5, 0.7]);
    let tooth = draw.between(0.06, 0.3) * duration;
    let whole = draw.chance(0.6) || low == 0.0;
    let (from, to) = if whole { (0.0, duration) } else { (0.3 * duration, 0.8 * duration) };
    let mut points = vec![(0.0, if whole { low } else { 0.0 }), (from, if whole { low } else { 0.0 })];
    let mut t = from;
    while t < to - 0.2 * tooth {
        let this = tooth * draw.between(0.8, 1.2);
        let end = (t + this).min(to);
        let fall = (peak / 1000.0).max(2.0 * c.period);
        points.push((t + (0.9 * (end - t) - fall).max(0.3 * (end - t)), peak));
        points.push((end, low));
        t = end;
    }
    if !whole {
        points.push((t + peak / 1000.0, 0.0));
    }
    points.dedup_by(|b, a| b.0 <= a.0);
    c.path().added =
        points.iter().map(|(at, d)| DelayPoint { at: seconds(*at), delay: span(d * MS) }).collect();
    c.path().in_order = true;
    let mut truth =
        Truth::of("queue", by_delay(0.9 * peak)).between(from, t, tolerance(&c, to - from).max(tooth));
    truth.severity.extend(by_delay(if whole { 0.9 * (peak - low) } else { peak }));
    variant(c, truth)
}

/// Queueing that rises and falls slowly over the whole test.
pub fn tide(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements {
            duration: 60.0,
            period: 1.0,
            packets: (600, 8000),
            kinds: &[Kind::Metro, Kind::Wan, Kind::Adsl, Kind::Lan, Kind::Formula],
            ..Requirements::default()
        },
    );
    let (duration, peak) = (c.duration(), draw.scale(15.0, 200.0).max(8.0 * c.jitter / MS));
    let waves = draw.between(0.7, 2.5);
    let begin = draw.unit() * TAU;
    let points = (0..=100).map(|k| {
        let t = f64::from(k) / 100.0;
        let height = 0.5 - 0.5 * (begin + waves * TAU * t).cos();
        DelayPoint { at: seconds(t * duration), delay: span(height * peak * MS) }
    });
    c.path().added = points.collect();
    let mut truth = Truth::of("queue", by_delay(0.8 * peak)).also(&["clock-skew"]);
    truth.severity.extend(by_delay(peak));
    variant(c, truth)
}

/// The test sends more than the path can transport.
pub fn overload(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements {
            duration: 10.0,
            period: 0.05,
            kinds: &SHORT,
            periodic: true,
            ..Requirements::default()
        },
    );
    let own = 8.0 * (c.trial.spec.payload() as f64 + 28.0) / c.period;
    let bits = own / draw.between(1.05, 1.6);
    let depth = draw.scale(0.08, 1.0);
    c.path().rate =
        Some(RateBottleneck { bits: bits as u64, queue: ((depth * bits / 8.0) as u64).max(3000) });
    let full = depth.max(24000.0 / bits);
    let excess = own / bits - 1.0;
    let lost = (1.0 - full / excess / c.duration()).max(0.0) * (1.0 - bits / own);
    let peak = 1000.0 * full.min(excess * c.duration());
    let mut truth =
        Truth::of("queue", by_delay(0.9 * peak)).also(&["random-loss", "bursty-loss", "policing"]);
    truth.severity.extend(by_delay(peak));
    truth.severity.extend(by_loss(lost).iter().filter(|s| **s != "good" && **s != "fair"));
    if lost > 0.02 {
        truth.main.push("policing");
    }
    variant(c, truth)
}

pub fn random_loss(draw: &mut Draw) -> Variant {
    let mut c = context(draw, Requirements { packets: (800, 10_000), ..Requirements::default() });
    let p = draw.scale(0.01f64.max(16.0 / c.packets as f64), 0.15);
    if draw.chance(0.2) {
        two_way(draw, &mut c);
        let way = if draw.chance(0.5) { &mut c.trial.down } else { &mut c.trial.up };
        way.loss = Choice::Bernoulli(p);
    } else {
        c.path().loss = Choice::Bernoulli(p);
    }
    let truth = Truth::of("random-loss", by_loss(p))
        .between(0.0, c.duration(), 0.12 * c.duration())
        .magnitude(p, 1.6);
    variant(c, truth)
}

/// Random loss that begins and ends.
pub fn random_loss_for_a_while(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements { packets: (2000, 10_000), duration: 20.0, period: 0.05, ..Requirements::default() },
    );
    let (share, p) = (draw.between(0.2, 0.6), draw.scale(0.05, 0.2));
    let from = draw.between(0.02, 0.95 - share) * c.duration();
    let to = from + share * c.duration();
    let range = c.seq(from)..=c.seq(to);
    c.path().loss = Choice::Within(range, Box::new(Choice::Bernoulli(p)));
    let mut truth = Truth::of("random-loss", by_loss(p * share)).between(from, to, tolerance(&c, 2.0));
    truth.severity.extend(by_loss(p));
    variant(c, truth)
}

pub fn bursty_loss(draw: &mut Draw) -> Variant {
    let mut c = context(draw, Requirements { packets: (1000, 10_000), ..Requirements::default() });
    let burst = draw.between(2.2, 7.0);
    // At least about ten bursts; fewer cannot be distinguished from random loss.
    let p = draw.scale(0.01, 0.12).max(12.0 * burst / c.packets as f64);
    let r = 1.0 / burst;
    let mut chain = GilbertModel::simple(p * r / (1.0 - p), r);
    if draw.chance(0.3) {
        chain = GilbertModel { h: draw.between(0.1, 0.4), p: chain.p * 1.3, ..chain };
    }
    c.path().loss = Choice::Gilbert(chain);
    let mut truth = Truth::of("bursty-loss", by_loss(p)).between(0.0, c.duration(), 0.2 * c.duration());
    truth.severity.extend(by_loss(0.6 * p));
    truth.severity.extend(by_loss(1.5 * p));
    truth.also.push("outage");
    variant(c, truth)
}

pub fn policing(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements { packets: (600, 8000), duration: 5.0, period: 0.1, ..Requirements::default() },
    );
    let bytes = c.trial.spec.payload() as f64 + 28.0;
    let own = 8.0 * bytes / c.period;
    let over = draw.scale(1.06, 2.5);
    let every = if draw.chance(0.25) { (20.0 * c.period).max(0.1) } else { 0.0 };
    let burst = match c.trial.spec.schedule() {
        Schedule::Burst { size } => (f64::from(size) / over).max(1.0) * bytes,
        _ => bytes * draw.scale(1.5, 15.0),
    };
    let burst = burst.max(own / over * every / 8.0).max(bytes * 1.2);
    let police = Police { bits: (own / over) as u64, burst: burst as u64, every: seconds(every) };
    c.path().police = Some(police);
    let p = 1.0 - 1.0 / over;
    let first = (burst / bytes) * c.period * over / (over - 1.0);
    let mut truth = Truth::of("policing", by_loss(p)).between(
        first.min(0.5 * c.duration()),
        c.duration(),
        0.15 * c.duration(),
    );
    truth.severity.extend(by_loss(0.8 * p));
    if !matches!(c.trial.spec.schedule(), Schedule::Periodic) {
        truth.times.clear();
        truth.severity.extend(by_loss(1.5 * p));
    }
    variant(c, truth)
}

pub fn reordering(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements { packets: (600, 8000), period: 0.05, periodic: true, ..Requirements::default() },
    );
    let p = draw.scale(0.01, 0.15);
    let by = draw.between(1.3, 4.6) * c.period;
    c.path().reordering = ReorderingModel { choice: Choice::Bernoulli(p), by: seconds(by) };
    let mut truth = Truth::of("reordering", &["good", "fair"])
        .between(0.0, c.duration(), 0.15 * c.duration())
        .magnitude(p, 1.8);
    truth.severity.extend(by_delay(1000.0 * by));
    variant(c, truth)
}

/// Every other packet takes another route.
pub fn two_routes(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements { packets: (600, 8000), period: 0.02, periodic: true, ..Requirements::default() },
    );
    let by = draw.between(1.2, 3.6) * c.period;
    c.path().reordering =
        ReorderingModel { choice: Choice::Bernoulli(draw.between(0.3, 0.5)), by: seconds(by) };
    let mut truth = Truth::of("reordering", &["good", "fair"]);
    truth.severity.extend(by_delay(1000.0 * by));
    variant(c, truth)
}

pub fn duplication(draw: &mut Draw) -> Variant {
    let mut c = context(draw, Requirements { packets: (600, 8000), ..Requirements::default() });
    let all = draw.chance(0.3);
    let p = if all { 1.0 } else { draw.scale(0.012, 0.5) };
    let lag = draw.pick(&[Span::micros(5), Span::micros(200), Span::millis(1)]);
    let copies = if draw.chance(0.2) { 2 } else { 1 };
    c.path().duplication = DuplicationModel { choice: Choice::Bernoulli(p), copies, lag };
    let truth =
        Truth::of("duplication", &["good"]).between(0.0, c.duration(), 0.15 * c.duration()).magnitude(p, 2.2);
    variant(c, truth)
}

/// Another route for a part of the test, or until its end.
pub fn route_change(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements { packets: (800, 8000), duration: 10.0, period: 0.2, periodic: true, kinds: &STEADY },
    );
    let duration = c.duration();
    let step = (draw.scale(1.0, 40.0) * MS).max(4.0 * c.jitter).min(120.0 * MS);
    let down = draw.chance(0.35) && c.delay > 1.3 * step;
    let back = draw.chance(0.25);
    let from = draw.between(0.2, 0.6) * duration;
    let to = if back { from + draw.between(0.2, 0.3) * duration } else { duration };
    let (before, after) = if down { (step, 0.0) } else { (0.0, step) };
    let mut points = vec![(0.0, before), (from, before), (from, after)];
    if back {
        points.extend([(to, after), (to, before)]);
    }
    c.path().added = points.iter().map(|(at, d)| DelayPoint { at: seconds(*at), delay: span(*d) }).collect();
    // Packets on a shorter route arrive before those still in flight.
    c.path().in_order = false;
    if c.period * 1e9 < 20.0 * c.jitter || back && c.trial.spec.schedule() != Schedule::Periodic {
        return route_change(draw);
    }
    if draw.chance(0.4) {
        // Packets lost during the reconvergence.
        c.path().outages.push(Outage { from: seconds(from), length: seconds(draw.scale(0.02, 0.2)) });
    }
    let severity = by_delay(step / MS);
    let mut truth =
        Truth::of("route-change", &["good", "fair"]).also(&["outage", "reordering"]).magnitude(step, 1.25);
    truth.severity.extend(severity);
    truth.severity.push("poor");
    truth = truth.between(from, to, tolerance(&c, 0.0));
    variant(c, truth)
}

/// Paths with constant delay and little jitter.
const STEADY: [Kind; 6] = [Kind::Lan, Kind::Metro, Kind::Wan, Kind::Adsl, Kind::Formula, Kind::Geo];

pub fn size_dependent(draw: &mut Draw) -> Variant {
    let mut c = context(draw, Requirements { packets: (600, 6000), ..Requirements::default() });
    c.version = LogVersion::V3;
    let sizes: &[u16] =
        draw.pick(&[&[80, 1400][..], &[80, 300, 700, 1100, 1400], &[64, 1280, 1472], &[100, 100, 100, 1460]]);
    let largest = u64::from(*sizes.last().unwrap());
    c.trial.payloads = sizes.to_vec();
    c.trial.spec = resized(&c.trial.spec, largest);
    let p = if draw.chance(0.7) { 1.0 } else { draw.between(0.3, 0.9) };
    c.path().too_long = Some(SizeLimit { above: 1350, choice: Choice::Bernoulli(p) });
    let share = p / sizes.len() as f64;
    variant(c, Truth::of("size-dependent", by_loss(share)))
}

fn resized(spec: &TestSpec, payload: u64) -> TestSpec {
    let new = TestSpec::new(
        spec.direction(),
        spec.transport(),
        spec.packets().into(),
        payload,
        spec.period(),
        spec.schedule(),
    );
    new.unwrap()
}

/// A TCP stream over a path that loses packets for a while, is down for a while, or queues.
pub fn tcp(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements {
            duration: 15.0,
            period: 0.05,
            kinds: &SHORT,
            periodic: true,
            ..Requirements::default()
        },
    );
    let spec = &c.trial.spec;
    c.trial.spec = TestSpec::new(
        spec.direction(),
        Transport::Tcp,
        spec.packets().into(),
        80,
        spec.period(),
        Schedule::Periodic,
    )
    .unwrap();
    let duration = c.duration();
    match draw.whole(0, 1) {
        0 => variant(c, Truth::clean()),
        _ => {
            let length = draw.between(1.0, 4.0);
            let from = draw.between(0.1, 0.6) * duration;
            c.path().outages.push(Outage { from: seconds(from), length: seconds(length) });
            let truth = Truth::of("outage", &["poor", "bad", "fair"]);
            let silent = until_repeated(length, &c);
            let truth = truth.between(from, from + silent, tolerance(&c, silent));
            variant(c, truth)
        }
    }
}

/// Returns the time without arrivals if a path is down for `length`, both in seconds. A log of TCP does not show when
/// the path was restored, only when a retransmission succeeded; the timer starts at 0.2 s and doubles with each
/// attempt.
fn until_repeated(length: f64, c: &Context) -> f64 {
    let there = c.delay / 1e9;
    let (mut at, mut wait) = ((3.0 * c.period).min(0.2) + 2.0 * there, 0.4);
    while at < length {
        at += wait;
        wait *= 2.0;
    }
    at + there
}

/// Two faults, one of which is worse.
pub fn mixture(draw: &mut Draw) -> Variant {
    match draw.whole(0, 5) {
        0 => {
            let mut v = upload(draw);
            way(&mut v).loss = Choice::Bernoulli(0.004);
            v.truth.also.push("random-loss");
            v
        }
        1 => {
            // An outage, followed by another route.
            let mut v = outage(draw);
            let o = way(&mut v).outages[0];
            let step = Span::millis(draw.whole(5, 30) as i64);
            let at = o.from + o.length;
            way(&mut v).added = vec![
                DelayPoint { at: Span::ZERO, delay: Span::ZERO },
                DelayPoint { at, delay: Span::ZERO },
                DelayPoint { at, delay: step },
            ];
            v.truth.also.push("route-change");
            v
        }
        2 => {
            let mut v = outage(draw);
            way(&mut v).loss = Choice::Bernoulli(0.003);
            v.truth.also.push("random-loss");
            v
        }
        3 => {
            let mut v = random_loss(draw);
            way(&mut v).duplication =
                DuplicationModel { choice: Choice::Bernoulli(0.02), ..DuplicationModel::default() };
            v.truth.also.push("duplication");
            v
        }
        4 => {
            let mut v = bursty_loss(draw);
            way(&mut v).reordering =
                ReorderingModel { choice: Choice::Bernoulli(0.01), by: v.trial.spec.period().times(2) };
            v.truth.also.push("reordering");
            v
        }
        _ => {
            let mut v = upload(draw);
            v.trial.server.clock.skew_ppb += 40_000;
            v.truth.also.push("clock-skew");
            v
        }
    }
}

/// Returns the path of `v` on which the fault is.
fn way(v: &mut Variant) -> &mut jitlat_impair::PathModel {
    let down = &v.trial.down;
    let wrong = !down.outages.is_empty() || !down.competition.is_empty() || down.loss != Choice::Never;
    let downwards = v.trial.spec.direction() == jitlat_core::Direction::Down;
    if wrong || downwards { &mut v.trial.down } else { &mut v.trial.up }
}

/// No fault.
pub fn clean(draw: &mut Draw) -> Variant {
    let mut c = clean_context(draw);
    if draw.chance(0.2) {
        two_way(draw, &mut c);
    }
    variant(c, Truth::clean())
}

/// Independent jitter that exceeds the time between packets and reorders them, without any other fault.
pub fn wide_jitter(draw: &mut Draw) -> Variant {
    let mut c = context(
        draw,
        Requirements { packets: (600, 8000), period: 0.01, periodic: true, ..Requirements::default() },
    );
    let spread = (draw.scale(0.3, 1.2) * c.period * 1e9).min(6.0 * MS);
    let jitter = match draw.whole(0, 3) {
        0 => Jitter::Exponential { mean: span(spread) },
        1 => Jitter::Normal { deviation: span(spread) },
        2 => Jitter::LogNormal { median: span(spread), sigma: draw.between(0.3, 0.7) },
        _ => Jitter::Uniform { max: span(3.0 * spread) },
    };
    (c.path().jitter, c.path().in_order) = (jitter, false);
    variant(c, Truth::clean())
}

/// No fault worth reporting: one or two lost packets, a copy, a late packet, a far outlier.
pub fn nearly_clean(draw: &mut Draw) -> Variant {
    let mut c = clean_context(draw);
    let some = |draw: &mut Draw, n: u64, most: u64| {
        let count = draw.whole(1, most);
        Choice::indices((0..count).map(|_| draw.whole(1, n - 2)))
    };
    let n = c.packets;
    match draw.whole(0, 3) {
        0 => c.path().loss = some(draw, n, (n / 500).clamp(1, 3)),
        1 => {
            c.path().duplication =
                DuplicationModel { choice: some(draw, n, 2), ..DuplicationModel::default() }
        }
        2 => {
            let by = seconds(1.4 * c.period);
            c.path().reordering = ReorderingModel { choice: some(draw, n, 2), by };
        }
        _ => {
            let by = span(draw.between(20.0, 150.0) * MS);
            c.path().reordering = ReorderingModel { choice: some(draw, n, 2), by };
        }
    }
    variant(c, Truth::clean())
}
