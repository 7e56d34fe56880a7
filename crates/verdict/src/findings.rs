//! [`findings`]: conclusions from the figures for real-time traffic.

use super::marks;
use super::sentences::coincidence::finding;
use super::sentences::findings::{self as sentences, ClassKind, LossDistribution};
use super::severity::{of_missing, of_wait};
use jitlat_core::answer::{CauseId, Coincidence, PacketEffect};
use jitlat_core::answer::{Level, Verdict};
use jitlat_core::distribution::Percent;
use jitlat_core::metrics::loss::LossPattern;
use jitlat_core::metrics::regression::TrendVerdict;
use jitlat_core::summary::Summary;

/// Returns the conclusions from the figures for real-time traffic, the most important first. No conclusion is more
/// severe than the verdict.
pub fn findings(s: &Summary) -> Vec<Verdict> {
    let mut found = Vec::new();
    let mut say = |code, level, text| found.push(Verdict::new(code, level, text));
    if s.counts.unique_valid == 0 {
        say("nothing", Level::Bad, sentences::NOTHING.to_owned());
        return found;
    }
    if let Some((level, text)) = loss(s) {
        say("loss", level, text);
    }
    if let Some((level, text)) = buffer(s) {
        say("buffer", level, text);
    }
    if let Some(without) = s.answer.as_ref().and_then(|answer| answer.without_clock_step.as_ref()) {
        let text = sentences::jitter_without_clock_step(without);
        say("jitter", of_wait(without.p999_ns).into(), text);
    } else if let Some(whole) = s.pdv.percentile(Percent(99_900)) {
        // If the smallest delay changes, jitter mainly shows this change (metrics §16).
        let jumps =
            s.answer.as_ref().is_none_or(|a| a.names(CauseId::RouteChange) || a.names(CauseId::ClockStep));
        let within = s.segments.iter().map(|part| part.pdv_p999).max().filter(|_| jumps);
        let p999 = within.unwrap_or(whole);
        let level = of_wait(p999).into();
        let text = match within {
            None => sentences::jitter(s.pdv.median, whole as f64),
            Some(within) => sentences::jitter_between_steps(within as f64, whole as f64),
        };
        say("jitter", level, text);
    }
    for effect in [PacketEffect::Loss, PacketEffect::Delay] {
        let found: Vec<&Coincidence> = s.coincidences.iter().filter(|c| c.effect == effect).collect();
        if !found.is_empty() {
            say("interface", Level::Note, finding(&found));
        }
    }
    if let Some(ratio) = s.reordering.ratio.filter(|r| *r > 0.0 && s.reordering.observable) {
        let level = if ratio > 0.01 { Level::Poor } else { Level::Note };
        say("reordering", level, sentences::reordering(ratio));
    }
    // The verdict distinguishes queues, clocks and routes, which a line through all delays cannot.
    if let Some(trend) = s.trend.as_ref().filter(|t| t.verdict != TrendVerdict::None && s.answer.is_none()) {
        let level = if trend.verdict == TrendVerdict::Overload { Level::Bad } else { Level::Note };
        say("trend", level, sentences::trend(trend.verdict, &trend.because));
    }
    found.extend(delay(s));
    found.extend(class(s));
    found.extend(marks::conclusions(s));
    if let Some(answer) = &s.answer {
        let gravest = Level::from(answer.severity).max(Level::Note);
        found.iter_mut().for_each(|f| f.level = f.level.min(gravest));
    }
    found
}

fn loss(s: &Summary) -> Option<(Level, String)> {
    if !s.reordering.observable {
        return None;
    }
    let ratio = s.loss.ratio?;
    if s.counts.lost == 0 {
        let (bound, n) = (s.loss.rule_of_three?, s.counts.sent);
        return Some(if bound > 0.05 {
            (Level::Note, sentences::no_loss_in_few(n, bound))
        } else {
            (Level::Good, sentences::no_loss(n, bound))
        });
    }
    let level = Level::from(of_missing(ratio, s.counts.lost, s.counts.sent)).max(Level::Note);
    let outages = s.answer.iter().flat_map(|a| &a.causes).filter(|c| c.id == CauseId::Outage);
    let outages: u64 = outages.map(|c| c.count).sum();
    let longest = s.loss.run_length_hist.last_key_value().map_or(0, |(n, _)| *n);
    let mean = s.loss.gilbert.mean_burst.unwrap_or(1.0);
    let distribution = match s.loss.pattern {
        _ if outages > 0 => LossDistribution::Outages(outages),
        Some(LossPattern::Bursty) => LossDistribution::Bursts { mean, longest },
        Some(LossPattern::Random) => LossDistribution::Random,
        Some(LossPattern::AntiClustered) => LossDistribution::Even,
        // The far host's counts do not contain the lengths of loss runs.
        _ if longest == 0 => LossDistribution::Unknown,
        _ => LossDistribution::TooFew(longest),
    };
    Some((level, sentences::loss(ratio, distribution)))
}

/// Returns the speech rating with the recommended buffer, which is the buffer of the verdict if there is a verdict.
fn buffer(s: &Summary) -> Option<(Level, String)> {
    let dejitter = s.dejitter.as_ref()?;
    let codec = dejitter.codec.split(' ').next().unwrap_or_default();
    let (level, buffer, mos) = match &s.answer {
        Some(answer) => {
            let voice = answer.profiles.get("voice")?;
            (voice.severity.into(), voice.buffer_ns?, voice.mos?)
        }
        None => {
            let best = dejitter.best_buffer_ms?;
            let mos = dejitter.curve.iter().find(|p| p.buffer_ms == best)?.mos;
            let level = match mos {
                4.0.. => Level::Good,
                3.6.. => Level::Note,
                2.6.. => Level::Poor,
                _ => Level::Bad,
            };
            (level, dejitter.buffer_for_1pct_late_ns?, mos)
        }
    };
    let outages = s.answer.as_ref().is_some_and(|a| a.names(CauseId::Outage));
    Some((level, sentences::buffer(buffer as f64, mos, codec, outages)))
}

/// Returns the finding about the one-way delay; `None` if the clocks do not bound it or the corrected delay is impossible.
fn delay(s: &Summary) -> Option<Verdict> {
    let say = |level, text| Some(Verdict::new("delay", level, text));
    let mean = s.latency.mean?;
    if let Some(c) = &s.latency_corrected {
        let mean = c.mean.filter(|_| c.is_possible())?;
        let level = delay_level(mean);
        return say(level, sentences::corrected_delay(mean, c.bound_ns, level > Level::Good));
    }
    let error = s.clock.synchronised()?;
    say(delay_level(mean), sentences::delay(mean, error as f64))
}

fn delay_level(mean: f64) -> Level {
    match mean {
        ..150e6 => Level::Good,
        ..400e6 => Level::Note,
        _ => Level::Poor,
    }
}

fn class(s: &Summary) -> Option<Verdict> {
    let y = s.objectives.as_ref()?;
    let (level, kind) = match y.class {
        0 | 1 | 6 | 7 => (Level::Good, ClassKind::Interactive),
        2..=4 => (Level::Note, ClassKind::Data),
        _ => (Level::Note, ClassKind::Unspecified),
    };
    let text = sentences::class(kind, y.class, y.sample_sufficient, y.delay_trusted);
    Some(Verdict::new("class", level, text))
}

#[cfg(test)]
mod tests;
