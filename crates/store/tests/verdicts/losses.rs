//! Random losses of kinds that a rule can mistake for one another: clusters of any density, periods, a few gaps.

use super::context::{Context, Draw, Requirements, context};
use super::paths::{by_loss, by_outage, tolerance, variant};
use super::variant::{Truth, Variant};
use jitlat_impair::{Choice, GilbertModel};

/// Losses of a Gilbert-Elliott chain with bad states of 2 to 20 packets, in which 30 to 100 % are lost.
pub fn gilbert_elliott(draw: &mut Draw) -> Variant {
    let mut c =
        context(draw, Requirements { packets: (1500, 10_000), period: 0.05, ..Requirements::default() });
    let bad = draw.scale(2.0, 20.0);
    // At least 1.8 lost packets per bad state: with fewer they are isolated.
    let lost = draw.between((1.8 / bad).clamp(0.3, 1.0), 1.0);
    let share = draw.scale(0.004, 0.06).max(14.0 * lost * bad / c.packets as f64);
    let bad_share = (share / lost).min(0.5);
    let r = 1.0 / bad;
    let chain = GilbertModel { p: bad_share * r / (1.0 - bad_share), r, h: 1.0 - lost, k: 1.0 };
    c.path().loss = Choice::Gilbert(chain);
    let mut truth = Truth::of("bursty-loss", by_loss(share)).also(&["outage"]);
    for factor in [0.4, 0.6, 1.5, 2.0] {
        truth.severity.extend(by_loss(factor * share));
    }
    // Bursts of 100 ms and more are noticed as gaps.
    if bad * c.period > 0.03 {
        truth.severity.push("fair");
    }
    // Gaps of a second are outages, regardless of their cause.
    if bad * c.period > 0.25 {
        truth.main.push("outage");
        truth.severity.extend(["poor", "bad"]);
    }
    variant(c, truth)
}

/// Loss of one or a few packets every 0.5 to 2 s, or of exactly one packet in every N.
pub fn periodic(draw: &mut Draw) -> Variant {
    let wanted = Requirements {
        packets: (800, 10_000),
        duration: 20.0,
        period: 0.03,
        periodic: true,
        ..Requirements::default()
    };
    let mut c = context(draw, wanted);
    let (every, count) = match draw.whole(0, 2) {
        0 => (draw.whole(12, 60) as f64, 1),
        1 => (draw.between(0.5, 2.0) / c.period, 1),
        _ => (draw.between(0.5, 2.0) / c.period, draw.whole(2, 5)),
    };
    let every = every.max(12.0 * count as f64);
    let first = draw.unit() * every;
    let starts = (0..).map(|k| (first + every * f64::from(k)) as u64).take_while(|seq| *seq < c.packets);
    c.path().loss = Choice::ranges(starts.map(|seq| seq..=seq + count - 1));
    let share = count as f64 / every;
    let mut truth = Truth::of("periodic-loss", by_loss(share)).magnitude(share, 1.3);
    truth.severity.extend(by_loss(0.8 * share));
    truth.severity.extend(by_loss(1.2 * share));
    truth.period_s = Some(every * c.period);
    variant(c, truth)
}

/// Two to four gaps of 110 to 170 ms, without other losses.
pub fn gaps(draw: &mut Draw) -> Variant {
    let wanted = Requirements {
        packets: (1500, 10_000),
        duration: 20.0,
        period: 0.02,
        periodic: true,
        ..Requirements::default()
    };
    let mut c = context(draw, wanted);
    let count = draw.whole(2, 4);
    let length = (draw.between(0.11, 0.17) / c.period).ceil() as u64;
    let slot = c.packets / count;
    let starts: Vec<u64> =
        (0..count).map(|k| k * slot + draw.whole(slot / 10, slot - slot / 10 - length)).collect();
    c.path().loss = Choice::ranges(starts.iter().map(|seq| *seq..=*seq + length - 1));
    let (seconds, duration) = (length as f64 * c.period, c.duration());
    let mut truth = Truth::of("outage", by_outage(seconds, count as f64 * seconds, duration));
    truth.severity.push("fair");
    truth.also.push("bursty-loss");
    let at = |seq: u64| seq as f64 * c.period;
    for start in &starts {
        truth = truth.between(at(*start), at(*start) + seconds, tolerance(&c, 0.0));
    }
    variant(c, truth)
}

/// Loss that rises from nothing to a tenth: isolated throughout.
pub fn ramp(draw: &mut Draw) -> Variant {
    let mut c: Context = context(
        draw,
        Requirements { packets: (4000, 10_000), period: 0.05, periodic: true, ..Requirements::default() },
    );
    let most = draw.between(0.05, 0.12);
    let lost = (0..c.packets).filter(|seq| draw.chance(most * *seq as f64 / c.packets as f64));
    c.path().loss = Choice::indices(lost.collect::<Vec<_>>());
    let mut truth = Truth::of("random-loss", by_loss(most / 2.0)).magnitude(most / 2.0, 1.4);
    truth.severity.extend(by_loss(0.4 * most));
    truth.severity.extend(by_loss(0.6 * most));
    variant(c, truth)
}

/// A third to two thirds of the packets are lost for 1 to 3 s, once every 20 to 60 s.
pub fn spells(draw: &mut Draw) -> Variant {
    let wanted = Requirements {
        packets: (2500, 12_000),
        duration: 90.0,
        period: 0.05,
        periodic: true,
        ..Requirements::default()
    };
    let mut c = context(draw, wanted);
    let every = draw.between(20.0, 60.0).min(c.duration() / 2.5);
    let (length, lost) = (draw.between(1.0, 3.0), draw.between(0.33, 0.67));
    let first = draw.between(0.1, 0.9) * (every - length);
    let in_spell = |seq: u64| {
        let at = seq as f64 * c.period - first;
        at >= 0.0 && at % every < length
    };
    let all: Vec<u64> = (0..c.packets).filter(|seq| in_spell(*seq) && draw.chance(lost)).collect();
    let share = all.len() as f64 / c.packets as f64;
    c.path().loss = Choice::indices(all);
    let mut truth =
        Truth::of("bursty-loss", &["fair", "poor", "bad"]).magnitude(share, 1.6).also(&["outage"]);
    // Spells are at regular times.
    truth.main.push("periodic-loss");
    variant(c, truth)
}

/// Several packets lost at regular times, and isolated losses at any time.
pub fn periodic_among_others(draw: &mut Draw) -> Variant {
    let wanted = Requirements {
        packets: (3000, 12_000),
        duration: 30.0,
        period: 0.02,
        periodic: true,
        ..Requirements::default()
    };
    let mut c = context(draw, wanted);
    let every = draw.between(1.0, 2.0).min(c.duration() / 12.0) / c.period;
    let count = draw.whole(3, 6);
    let every = every.max(20.0 * count as f64);
    let first = draw.unit() * every;
    let starts = (0..).map(|k| (first + every * f64::from(k)) as u64).take_while(|seq| *seq < c.packets);
    let mut lost: Vec<u64> = starts.flat_map(|seq| seq..seq + count).filter(|seq| *seq < c.packets).collect();
    let others = draw.between(0.03, 0.3) * count as f64 / every;
    lost.extend((0..c.packets).filter(|_| draw.chance(others)));
    lost.sort_unstable();
    lost.dedup();
    let share = lost.len() as f64 / c.packets as f64;
    c.path().loss = Choice::indices(lost);
    let mut truth = Truth::of("periodic-loss", by_loss(share)).magnitude(share, 1.3);
    truth.severity.extend(by_loss(0.8 * share));
    truth.severity.extend(by_loss(1.2 * share));
    truth.period_s = Some(every * c.period);
    variant(c, truth)
}
