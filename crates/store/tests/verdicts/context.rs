//! [`Context`]: the normal conditions of a test: specification, hosts and path.

use jitlat_core::schedule::Deadlines;
use jitlat_core::time::StampSource;
use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport, WallTime};
use jitlat_impair::{Answering, Clock, HostModel, Jitter, PathModel, Trial};
use jitlat_store::log::LogVersion;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

pub const MS: f64 = 1e6;

/// A seeded random generator.
pub struct Draw(ChaCha8Rng);

impl Draw {
    pub fn new(seed: u64, stream: u64) -> Draw {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Draw(rng)
    }

    /// Draws a uniform number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws a number between the two bounds, uniform in its logarithm.
    pub fn scale(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    pub fn whole(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.next_u64() % (high - low + 1)
    }

    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.whole(0, from.len() as u64 - 1) as usize]
    }
}

pub fn span(ns: f64) -> Span {
    Span(ns as i64)
}

/// A kind of path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Loopback,
    Lan,
    Metro,
    Wan,
    Adsl,
    Wifi,
    Mobile,
    Geo,
    Leo,
    /// Independent normal jitter, as in a formula.
    Formula,
    /// Independent exponential jitter that may reorder packets.
    Loose,
    /// Independent heavy-tailed jitter, small between consecutive packets.
    Heavy,
}

const KINDS: [Kind; 12] = [
    Kind::Loopback,
    Kind::Lan,
    Kind::Metro,
    Kind::Wan,
    Kind::Adsl,
    Kind::Wifi,
    Kind::Mobile,
    Kind::Geo,
    Kind::Leo,
    Kind::Formula,
    Kind::Loose,
    Kind::Heavy,
];

/// A random test before a fault is added.
pub struct Context {
    pub kind: Kind,
    pub trial: Trial,
    pub version: LogVersion,
    /// Seconds between packets, and number of packets.
    pub period: f64,
    pub packets: u64,
    /// Approximate standard deviation of jitter, and one-way delay, in ns.
    pub jitter: f64,
    pub delay: f64,
}

impl Context {
    /// Returns the time from the first to the last scheduled packet, in seconds.
    pub fn duration(&self) -> f64 {
        Deadlines::new(&self.trial.spec).last().map_or(0.0, |due| due.0 as f64 / 1e9)
    }

    /// Returns the path of a one-way test's packets.
    pub fn path(&mut self) -> &mut PathModel {
        match self.trial.spec.direction() {
            Direction::Up => &mut self.trial.up,
            Direction::Down => &mut self.trial.down,
        }
    }

    pub fn sender(&mut self) -> &mut HostModel {
        match self.trial.spec.direction() {
            Direction::Up => &mut self.trial.client,
            Direction::Down => &mut self.trial.server,
        }
    }

    pub fn receiver(&mut self) -> &mut HostModel {
        match self.trial.spec.direction() {
            Direction::Up => &mut self.trial.server,
            Direction::Down => &mut self.trial.client,
        }
    }

    /// Returns the number of the packet sent at `seconds`.
    pub fn seq(&self, seconds: f64) -> u64 {
        let before = Deadlines::new(&self.trial.spec).take_while(|due| (due.0 as f64) < seconds * 1e9);
        (before.count() as u64).min(self.packets - 1)
    }

    /// Returns true if the log allows the absolute delay to be known.
    pub fn delay_known(&self) -> bool {
        self.trial.probes > 0 || self.trial.answering.is_some()
    }
}

/// Requirements of a kind of test.
#[derive(Clone, Copy)]
pub struct Requirements {
    /// Minimum duration in seconds.
    pub duration: f64,
    /// Minimum and maximum number of packets.
    pub packets: (u64, u64),
    /// Maximum period, in seconds.
    pub period: f64,
    /// Kinds of path allowed.
    pub kinds: &'static [Kind],
    /// Periodic departures only.
    pub periodic: bool,
}

impl Default for Requirements {
    fn default() -> Requirements {
        Requirements { duration: 0.0, packets: (300, 8000), period: 1.0, kinds: &KINDS, periodic: false }
    }
}

/// Draws a context that meets `required`.
pub fn context(draw: &mut Draw, required: Requirements) -> Context {
    let kind = draw.pick(required.kinds);
    let periods = [0.001, 0.002, 0.005, 0.01, 0.01, 0.02, 0.02, 0.02, 0.03, 0.05, 0.1, 0.2, 1.0];
    let fits =
        |p: &&f64| **p <= required.period && **p * required.packets.1 as f64 >= 1.2 * required.duration;
    let fitting: Vec<f64> = periods.iter().filter(fits).copied().collect();
    let period = draw.pick(&fitting);
    let least = (required.duration / period).ceil().max(required.packets.0 as f64);
    let packets = draw.scale(least, (required.packets.1 as f64).max(least + 1.0)) as u64;
    let (delay, jitter, in_order, spread) = path(draw, kind);
    // A path without faults does not reorder permanently.
    let direction = if draw.chance(0.3) { Direction::Down } else { Direction::Up };
    let schedule = match draw.whole(0, 9) {
        0 if !required.periodic => Schedule::Poisson { seed: draw.whole(0, 99) },
        1 if !required.periodic => Schedule::Burst { size: draw.whole(2, 10) as u32 },
        _ => Schedule::Periodic,
    };
    let in_order = in_order || period * 1e9 < 20.0 * spread || schedule != Schedule::Periodic;
    let payload = draw.pick(&[40, 80, 160, 160, 200, 1200]);
    let ns = Span::ZERO + span(period * 1e9);
    let spec = TestSpec::new(direction, Transport::Udp, packets, payload, ns, schedule).unwrap();
    let mut trial = Trial::new(spec, draw.whole(0, u64::MAX / 2));
    trial.epoch = WallTime(draw.whole(1_250_000_000, 1_790_000_000) as i64 * 1_000_000_000 + 123_456_789);
    for config in [&mut trial.up, &mut trial.down] {
        *config = PathModel { delay: span(delay), jitter: jitter.clone(), in_order, ..PathModel::default() };
    }
    let version = match draw.whole(0, 9) {
        0..4 => LogVersion::V1,
        4..6 => LogVersion::V2,
        _ => LogVersion::V3,
    };
    if version != LogVersion::V1 && draw.chance(0.9) {
        trial.probes = 8;
    }
    let offset = match draw.whole(0, 4) {
        0 => 0.0,
        1 => draw.between(-50e6, 50e6),
        2 => draw.between(-40e9, 40e9),
        3 => draw.between(-5400e9, 5400e9),
        _ => draw.between(-300e3, 300e3),
    };
    // Two ordinary crystals, or two disciplined clocks.
    let skew = if draw.chance(0.5) { 0 } else { draw.between(-4000.0, 4000.0) as i64 };
    trial.server.clock = Clock { offset: span(offset), skew_ppb: skew, shifts: Vec::new() };
    let kernel = version == LogVersion::V3 && draw.chance(0.7);
    let resolution = if version == LogVersion::V1 { draw.pick(&[1, 100, 1000]) } else { 1 };
    for host in [&mut trial.client, &mut trial.server] {
        host.wake = Jitter::Sum(vec![
            Jitter::LogNormal { median: Span::micros(20), sigma: 0.8 },
            Jitter::Spikes { share: 0.002, max: Span((0.3 * ns.0 as f64).min(1.5e6) as i64) },
        ]);
        host.reading = Jitter::LogNormal { median: Span::micros(6), sigma: 0.6 };
        host.stamps = if kernel { StampSource::Kernel } else { StampSource::User };
        host.resolution = Span(resolution);
    }
    Context { kind, trial, version, period, packets, jitter: spread, delay }
}

/// Returns the delay in ns, the law of jitter, whether it preserves the order, and its spread in ns.
fn path(draw: &mut Draw, kind: Kind) -> (f64, Jitter, bool, f64) {
    let exponential = |mean: f64| Jitter::Exponential { mean: span(mean) };
    let spikes = |share, max: f64| Jitter::Spikes { share, max: span(max) };
    let (delay, law, in_order, spread) = match kind {
        Kind::Loopback => {
            let law = vec![exponential(4e3), spikes(0.002, 300e3)];
            (draw.scale(8e3, 40e3), law, true, 8e3)
        }
        Kind::Lan => (draw.scale(80e3, 800e3), vec![exponential(30e3), spikes(0.001, 2e6)], true, 40e3),
        Kind::Metro => {
            let s = draw.scale(20e3, 200e3);
            (draw.scale(2e6, 9e6), vec![Jitter::Normal { deviation: span(s) }, spikes(0.001, 10e6)], true, s)
        }
        Kind::Wan => {
            let m = draw.scale(100e3, 1.5e6);
            let law = vec![
                Jitter::LogNormal { median: span(m), sigma: draw.between(0.4, 0.9) },
                spikes(0.001, 20e6),
            ];
            (draw.scale(10e6, 150e6), law, true, m)
        }
        Kind::Adsl => {
            let u = draw.scale(0.5e6, 3e6);
            let law = vec![
                Jitter::Uniform { max: span(u) },
                Jitter::Slots { every: draw.pick(&[Span(250_000), Span::millis(4)]) },
            ];
            (draw.scale(7e6, 30e6), law, true, 1.5e6)
        }
        Kind::Wifi => {
            let m = draw.scale(0.4e6, 2e6);
            let law = vec![
                Jitter::LogNormal { median: span(m), sigma: draw.between(0.6, 1.0) },
                spikes(0.004, 35e6),
            ];
            (draw.scale(1e6, 8e6), law, true, 2.0 * m)
        }
        Kind::Mobile => {
            let law = vec![
                Jitter::Uniform { max: span(draw.between(2e6, 9e6)) },
                spikes(0.08, 8e6),
                Jitter::Slots { every: draw.pick(&[Span::millis(1), Span::millis(5), Span::millis(10)]) },
            ];
            (draw.scale(18e6, 50e6), law, true, 4e6)
        }
        Kind::Geo => {
            let s = draw.scale(0.3e6, 2e6);
            (
                draw.between(245e6, 310e6),
                vec![Jitter::Normal { deviation: span(s) }, spikes(0.001, 30e6)],
                true,
                s,
            )
        }
        Kind::Leo => (
            draw.scale(20e6, 45e6),
            vec![exponential(draw.between(1e6, 4e6)), spikes(0.005, 20e6)],
            true,
            3e6,
        ),
        Kind::Formula => {
            let base = draw.scale(1e6, 120e6);
            let s = base * draw.scale(0.003, 0.05);
            (base, vec![Jitter::Normal { deviation: span(s) }], false, s)
        }
        Kind::Loose => {
            let mean = draw.scale(20e3, 1.2e6);
            (draw.scale(0.5e6, 80e6), vec![exponential(mean)], false, mean)
        }
        Kind::Heavy => {
            let scale = draw.scale(100e3, 1.5e6);
            let shape = draw.between(2.5, 4.0);
            (draw.scale(2e6, 80e6), vec![Jitter::Pareto { scale: span(scale), shape }], true, scale)
        }
    };
    (delay, Jitter::Sum(law), in_order, spread)
}

/// Turns `context` into a two-way test.
pub fn two_way(draw: &mut Draw, context: &mut Context) {
    let (protocol, far_clock, counts) = draw.pick(&[
        ("icmp", false, false),
        ("stamp", true, true),
        ("twamp", true, true),
        ("lamp", false, false),
    ]);
    context.version = LogVersion::V3;
    context.trial.probes = 0;
    if context.trial.spec.direction() == Direction::Down {
        context.trial.spec = context.trial.spec.reversed();
    }
    context.trial.answering = Some(Answering {
        protocol: protocol.to_owned(),
        far_clock,
        counts,
        processing: Span::micros(draw.whole(10, 80) as i64),
    });
}
