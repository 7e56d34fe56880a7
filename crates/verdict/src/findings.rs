//! [`findings`]: what the figures mean for real-time traffic.

use super::numbers::precise_time as time;
use super::severity::{of_missing, of_wait};
use jitlat_core::answer::CauseId;
use jitlat_core::answer::{Level, Verdict};
use jitlat_core::distribution::Percent;
use jitlat_core::metrics::loss::LossPattern;
use jitlat_core::metrics::regression::TrendVerdict;
use jitlat_core::summary::Summary;
use jitlat_core::units::{eng4, eng4_f64};

/// The consequences for real-time traffic, the most important first. No finding is more severe than the answer.
pub fn findings(s: &Summary) -> Vec<Verdict> {
    let mut found = Vec::new();
    let mut say = |code, level, text| found.push(Verdict::new(code, level, text));
    if s.counts.unique_valid == 0 {
        say("nothing", Level::Bad, "Nothing usable arrived.".to_owned());
        return found;
    }
    if let Some((level, text)) = loss(s) {
        say("loss", level, text);
    }
    if let Some((level, text)) = buffer(s) {
        say("buffer", level, text);
    }
    if let Some(whole) = s.pdv.percentile(Percent(99_900)) {
        // Jitter across a jump of the smallest delay is the jump (metrics §16).
        let jumps =
            s.answer.as_ref().is_none_or(|a| a.names(CauseId::RouteChange) || a.names(CauseId::ClockStep));
        let within = s.segments.iter().map(|part| part.pdv_p999).max().filter(|_| jumps);
        let p999 = within.unwrap_or(whole);
        let level = of_wait(p999).into();
        let p50 = s.pdv.median.map_or_else(String::new, eng4_f64);
        let text = match within {
            None => {
                format!(
                    "Jitter: half the packets within {p50} of the fastest, 99.9 % within {}.",
                    eng4(whole)
                )
            }
            Some(within) => format!(
                "Jitter: 99.9 % within {} of the fastest between the jumps of the smallest delay, {} with them.",
                eng4(within),
                eng4(whole)
            ),
        };
        say("jitter", level, text);
    }
    if let Some(ratio) = s.reordering.ratio.filter(|r| *r > 0.0 && s.reordering.observable) {
        let level = if ratio > 0.01 { Level::Poor } else { Level::Note };
        say("reordering", level, format!("{:.2} % of packets were overtaken.", 100.0 * ratio));
    }
    // The answer tells queues, clocks and routes apart, which a line through all delays cannot.
    if let Some(trend) = s.trend.as_ref().filter(|t| t.verdict != TrendVerdict::None && s.answer.is_none()) {
        let (level, what) = match trend.verdict {
            TrendVerdict::Overload => (Level::Bad, "Delay keeps rising: the path carries less than is sent"),
            TrendVerdict::Draining => (Level::Note, "Delay falls throughout: a queue was emptying"),
            TrendVerdict::Skew => (Level::Note, "The two clocks run at different rates"),
            _ => (Level::Note, "Delay changes over the run for no single reason"),
        };
        say("trend", level, format!("{what} ({}).", trend.because));
    }
    found.extend(delay(s));
    found.extend(class(s));
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
    let percent = 100.0 * ratio;
    if s.counts.lost == 0 {
        let bound = 100.0 * s.loss.rule_of_three?;
        let n = s.counts.sent;
        if bound > 5.0 {
            let text =
                format!("No loss, but of {n} packets only: too few to promise less than {bound:.0} %.");
            return Some((Level::Note, text));
        }
        return Some((
            Level::Good,
            format!("No loss in {n} packets (so below {bound:.2} % with 95 % confidence)."),
        ));
    }
    let level = Level::from(of_missing(ratio, s.counts.lost, s.counts.sent)).max(Level::Note);
    let outages = s.answer.iter().flat_map(|a| &a.causes).filter(|c| c.id == CauseId::Outage);
    let outages: u64 = outages.map(|c| c.count).sum();
    let longest = s.loss.run_length_hist.last_key_value().map_or(0, |(n, _)| *n);
    let mean = s.loss.gilbert.mean_burst.unwrap_or(1.0);
    let pattern = match s.loss.pattern {
        _ if outages == 1 => "in an outage, for the most part".to_owned(),
        _ if outages > 1 => format!("in {outages} outages, for the most part"),
        Some(LossPattern::Bursty) => format!(
            "in bursts: {mean:.1} packets on average, {longest} at most; concealment and single-packet \
             repair will not cover that"
        ),
        Some(LossPattern::Random) => "scattered like chance".to_owned(),
        Some(LossPattern::AntiClustered) => "more evenly spread than chance".to_owned(),
        // The far host's count alone says nothing of runs.
        _ if longest == 0 => return Some((level, format!("{percent:.2} % of packets were lost."))),
        _ => format!("at most {longest} in a row; too few to tell bursts from chance"),
    };
    Some((level, format!("{percent:.2} % of packets were lost, {pattern}.")))
}

/// Of speech, with the one buffer that is recommended: that of the answer, where there is one.
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
    let besides = if outages { ", outages left aside" } else { "" };
    let text = format!(
        "With a play-out buffer of {} speech is rated MOS {mos:.2} ({codec}){besides}.",
        time(buffer as f64)
    );
    Some((level, text))
}

/// One-way delay, as far as the clocks let it be known: not where the correction is impossible.
fn delay(s: &Summary) -> Option<Verdict> {
    let say = |level, text| Some(Verdict::new("delay", level, text));
    let mean = s.latency.mean?;
    if let Some(c) = &s.latency_corrected {
        let mean = c.mean.filter(|_| c.is_possible())?;
        let bound = c.bound_ns.map_or(String::new(), |b| format!(", +/- {} at worst", time(b)));
        let mut text =
            format!("One-way delay averages {} after correction of the clocks{bound}.", time(mean));
        let level = delay_level(mean);
        if level > Level::Good {
            text.push_str(" Conversation begins to suffer above 150 ms from mouth to ear.");
        }
        return say(level, text);
    }
    let error = s.clock.synchronised()?;
    let text = format!(
        "One-way delay averages {}, +/- {} by what both kernels say of their clocks.",
        time(mean),
        time(error as f64)
    );
    say(delay_level(mean), text)
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
    let sample = if y.sample_sufficient { "" } else { "; the sample is too small to prove its loss bound" };
    let clocks = if y.delay_trusted { "" } else { "; its delay bound rests on unverified clocks" };
    let (level, text) = match y.class {
        0 | 1 | 6 | 7 => (
            Level::Good,
            format!("Meets ITU-T Y.1541 class {} (interactive real-time){sample}{clocks}.", y.class),
        ),
        2..=4 => (
            Level::Note,
            format!(
                "Meets ITU-T Y.1541 class {} only: data, not interactive voice or video{sample}{clocks}.",
                y.class
            ),
        ),
        _ => (
            Level::Note,
            format!(
                "Meets no ITU-T Y.1541 class with bounds: only the unspecified class {}{clocks}.",
                y.class
            ),
        ),
    };
    Some(Verdict::new("class", level, text))
}

#[cfg(test)]
mod tests;
