//! [`Scenario`]: both directions of a path as text, shared by the simulated network and the emulators.
//!
//! ```text
//! # An access line with bursty loss
//! name = bursty access line
//! seed = 7
//! [both]
//! delay = 20ms
//! jitter = exponential 2ms in order     # or: uniform MAX, pareto SCALE shape A, normal DEVIATION,
//!                                       # lognormal MEDIAN sigma S, slots EVERY, spikes 0.1% MAX; sums with +
//! added = 0s 0ms 30s 0ms 30s 12ms       # points in time and the delay added there, straight lines between them
//! [up]
//! loss = gilbert p=1% r=30%             # or: 2% · at 5-9 20 · runs 1x10 2x5 7 gap 20
//! duplicate = 0.5% copies 1 after 1ms
//! reorder = at 40 80 by 50ms
//! rate = 512kbit queue 16kB
//! cells = pppoe-llc tunnel 28            # the rate is that of ATM cells, in clocked slots, as in ADSL
//! aqm = dualpi2                          # or: step 5ms, codel target 5ms interval 100ms threshold 1ms
//! competition = tcp 20ms from 5s for 9s # or: constant 400kbit …, poisson 400kbit …; may be repeated
//! police = 64kbit burst 4kB             # and: every 100ms
//! too-long = 100% above 1200
//! outage = from 2s for 300ms            # may be repeated
//! pause = from 2s for 300ms             # packets wait instead; may be repeated
//! remark = CS0                          # the DSCP of every packet that leaves
//! ecn = ect0 ect1 ce to not-ect 30%     # marks that are rewritten, for all packets or a share; may be repeated
//! ecn = ect0 ect1 drop                  # or packets that are dropped
//! min-bytes = 60
//! ```
//!
//! `[both]` sets both directions; a later section replaces its values. Packets are numbered from 0.
//! Probabilities are ratios (0.01) or percentages (1%).

use super::{
    Aqm, CellBottleneck, Choice, Competition, CrossTraffic, DUALPI2_TARGET, DelayPoint, DuplicationModel,
    EcnRule, GilbertModel, Jitter, MAX_COPIES, Outage, PathModel, Police, RateBottleneck, ReorderingModel,
    SizeLimit,
};
use core::str::FromStr;
use jitlat_core::ecn::{Ecn, NotAMark};
use jitlat_core::link::Encapsulation;
use jitlat_core::link::NotALink;
use jitlat_core::spec::SpecError;
use jitlat_core::time::Span;

/// Both directions of a path, and the seed of their random processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// Description for people.
    pub name: String,
    /// Seed of the random processes. The down direction uses the seed plus 1.
    pub seed: u64,
    /// Direction from client to server.
    pub up: PathModel,
    /// Direction from server to client.
    pub down: PathModel,
}

/// Error in a line of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ScenarioError {
    /// Line number, counted from 1.
    pub line: usize,
    /// Description of the fault, and a hint on the correct form.
    pub problem: String,
}

/// Maximum number of packets or ranges in a pattern.
const MAX_PATTERN: u64 = 1_000_000;

impl Scenario {
    /// Creates a scenario with the same model in both directions.
    pub fn symmetric(name: &str, seed: u64, config: PathModel) -> Scenario {
        Scenario { name: name.to_owned(), seed, up: config.clone(), down: config }
    }
}

impl FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Scenario, ScenarioError> {
        let mut scenario = Scenario::default();
        let (mut up, mut down) = (false, false);
        for (i, raw) in text.lines().enumerate() {
            let at = |problem| ScenarioError { line: i + 1, problem };
            let line = raw.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(section) = line.strip_prefix('[') {
                (up, down) = match section.strip_suffix(']') {
                    Some("up") => (true, false),
                    Some("down") => (false, true),
                    Some("both") => (true, true),
                    _ => return Err(at(format!("'{line}': the sections are [up], [down] and [both]"))),
                };
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                return Err(at(format!("'{line}': give 'key = value' or '[section]'")));
            };
            let (key, value) = (key.trim(), value.trim());
            if !up && !down {
                match key {
                    "name" => scenario.name = value.to_owned(),
                    "seed" => scenario.seed = value.parse().map_err(|_| at(not("a seed", value)))?,
                    _ => {
                        return Err(at(format!(
                            "'{key}': only 'name' and 'seed' may precede the first section"
                        )));
                    }
                }
                continue;
            }
            let fields: Vec<&str> = value.split_whitespace().collect();
            for (chosen, config) in [(up, &mut scenario.up), (down, &mut scenario.down)] {
                if chosen {
                    set(config, key, &fields).map_err(at)?;
                }
            }
        }
        Ok(scenario)
    }
}

fn set(config: &mut PathModel, key: &str, fields: &[&str]) -> Result<(), String> {
    match key {
        "delay" => config.delay = span(single(fields)?)?,
        "remark" => config.remark = Some(single(fields)?.parse().map_err(|e: SpecError| e.to_string())?),
        "aqm" => config.aqm = Some(aqm(config, fields)?),
        "ecn" => config.ecn.push(ecn(fields)?),
        "min-bytes" => config.min_bytes = bytes(single(fields)?)? as usize,
        "loss" => config.loss = choice(fields)?,
        "jitter" => {
            let (law, in_order) = match fields {
                [law @ .., "in", "order"] => (law, true),
                law => (law, false),
            };
            config.jitter = jitter(law)?;
            config.in_order = in_order;
        }
        "duplicate" => {
            let (fields, lag) = option(fields, "after")?;
            let (fields, copies) = option(fields, "copies")?;
            let copies =
                copies.map_or(Ok(1), |n| n.parse::<u8>().map_err(|_| not("a number of copies", n)))?;
            if !(1..=MAX_COPIES).contains(&copies) {
                return Err(format!("{copies} copies: give 1 to {MAX_COPIES}"));
            }
            let lag = lag.map_or(Ok(Span::ZERO), span)?;
            config.duplication = DuplicationModel { choice: choice(fields)?, copies, lag };
        }
        "reorder" => {
            let (fields, by) = option(fields, "by")?;
            let by = span(by.ok_or("give the delay, as in 'reorder = 1% by 50ms'")?)?;
            config.reordering = ReorderingModel { choice: choice(fields)?, by };
        }
        "rate" => {
            let (fields, queue) = option(fields, "queue")?;
            let queue =
                bytes(queue.ok_or("give the length of the queue, as in 'rate = 512kbit queue 16kB'")?)?;
            config.rate = Some(RateBottleneck { bits: bits(single(fields)?)?, queue });
        }
        "cells" => {
            let (fields, tunnel) = option(fields, "tunnel")?;
            let tunnel = tunnel.map_or(Ok(0), bytes)?;
            let encapsulation = single(fields)?.parse().map_err(|e: NotALink| e.to_string())?;
            if !matches!(encapsulation, Encapsulation::Atm { .. }) || tunnel > 65_535 {
                return Err(
                    "give an encapsulation of ATM: 'cells = pppoe-llc' or 'cells = pppoe-llc tunnel 28'"
                        .to_owned(),
                );
            }
            if config.rate.is_none() {
                return Err("give the rate in an earlier line, as in 'rate = 128kbit queue 16kB'".to_owned());
            }
            config.cells = Some(CellBottleneck { encapsulation, tunnel });
        }
        "competition" => {
            let [law @ .., "from", from, "for", length] = fields else {
                return Err("give 'competition = tcp 20ms from 5s for 9s'".to_owned());
            };
            let load = match law {
                ["constant", rate] => CrossTraffic::Constant(bits(rate)?),
                ["poisson", rate] => CrossTraffic::Poisson(bits(rate)?),
                ["tcp", rtt] => CrossTraffic::Greedy { rtt: span(rtt)? },
                _ => {
                    return Err(format!(
                        "'{}': give 'constant RATE', 'poisson RATE' or 'tcp RTT'",
                        law.join(" ")
                    ));
                }
            };
            config.competition.push(Competition { from: span(from)?, length: span(length)?, load });
        }
        "police" => {
            let (fields, every) = option(fields, "every")?;
            let (fields, burst) = option(fields, "burst")?;
            let burst = bytes(burst.ok_or("give the burst size, as in 'police = 64kbit burst 4kB'")?)?;
            let every = every.map_or(Ok(Span::ZERO), span)?;
            config.police = Some(Police { bits: bits(single(fields)?)?, burst, every });
        }
        "added" => {
            if fields.is_empty() || !fields.len().is_multiple_of(2) {
                return Err("give times and delays alternately, as in 'added = 0s 0ms 30s 12ms'".to_owned());
            }
            let point = |w: &[&str]| Ok::<_, String>(DelayPoint { at: span(w[0])?, delay: span(w[1])? });
            let points = fields.chunks(2).map(point).collect::<Result<Vec<_>, _>>()?;
            if !points.is_sorted_by_key(|p| p.at) {
                return Err("the times must ascend".to_owned());
            }
            config.added = points;
        }
        "too-long" => {
            let (fields, above) = option(fields, "above")?;
            let above =
                bytes(above.ok_or("give the size limit, as in 'too-long = 100% above 1200'")?)? as usize;
            config.too_long = Some(SizeLimit { above, choice: choice(fields)? });
        }
        "outage" => config.outages.push(stretch(fields)?),
        "pause" => config.pauses.push(stretch(fields)?),
        _ => {
            return Err(format!(
                "'{key}': give delay, jitter, added, loss, duplicate, reorder, rate, cells, aqm, competition, police, \
                 too-long, outage, pause, remark, ecn or min-bytes"
            ));
        }
    }
    Ok(())
}

fn aqm(config: &PathModel, fields: &[&str]) -> Result<Aqm, String> {
    if config.rate.is_none() {
        return Err("give the rate in an earlier line, as in 'rate = 10Mbit queue 120kB'".to_owned());
    }
    match fields {
        ["step", threshold] => Ok(Aqm::Step { threshold: span(threshold)? }),
        ["codel", "target", target, "interval", interval, rest @ ..] => {
            let threshold = match rest {
                [] => None,
                ["threshold", threshold] => Some(span(threshold)?),
                _ => return Err(NOT_AN_AQM.to_owned()),
            };
            Ok(Aqm::Codel { target: positive(target)?, interval: positive(interval)?, threshold })
        }
        ["dualpi2"] => Ok(Aqm::DualPi2 { target: DUALPI2_TARGET }),
        ["dualpi2", "target", target] => Ok(Aqm::DualPi2 { target: positive(target)? }),
        _ => Err(NOT_AN_AQM.to_owned()),
    }
}

/// Parses a time that must not be zero: the queue would be controlled for an empty one.
fn positive(text: &str) -> Result<Span, String> {
    let value = span(text)?;
    if value > Span::ZERO {
        Ok(value)
    } else {
        Err(format!("'{text}': give a time above 0, as in 'target 5ms'"))
    }
}

const NOT_AN_AQM: &str = "give 'aqm = step 5ms', 'aqm = codel target 5ms interval 100ms', if needed with 'threshold 1ms' at the \
                          end, or 'aqm = dualpi2'";

fn ecn(fields: &[&str]) -> Result<EcnRule, String> {
    const USAGE: &str = "give marks and their new mark or drop, and a share if needed: 'ecn = ect0 ect1 to not-ect' or 'ecn = \
                         ect1 drop 50%'";
    let mark = |word: &&str| word.parse().map_err(|e: NotAMark| e.to_string());
    let (from, to, rest) = match fields.iter().position(|word| matches!(*word, "to" | "drop")) {
        Some(at) if fields[at] == "drop" => (&fields[..at], None, &fields[at + 1..]),
        Some(at) => {
            let (to, rest) = fields[at + 1..].split_first().ok_or(USAGE)?;
            (&fields[..at], Some(mark(to)?), rest)
        }
        None => return Err(USAGE.to_owned()),
    };
    let from = from.iter().map(mark).collect::<Result<Vec<Ecn>, String>>()?;
    let share = match rest {
        [] => 1.0,
        [share] => probability(share)?,
        _ => return Err(USAGE.to_owned()),
    };
    if from.is_empty() { Err(USAGE.to_owned()) } else { Ok(EcnRule { from, to, share }) }
}

fn stretch(fields: &[&str]) -> Result<Outage, String> {
    match fields {
        ["from", from, "for", length] => Ok(Outage { from: span(from)?, length: span(length)? }),
        _ => Err("give a time and a length: 'from 2s for 300ms'".to_owned()),
    }
}

/// Splits the option `name` and its value off the end of `fields`. Returns the fields before it, and the value; `None`
/// if `fields` does not contain the option.
fn option<'a, 'w>(fields: &'a [&'w str], name: &str) -> Result<(&'a [&'w str], Option<&'w str>), String> {
    match fields.iter().position(|w| *w == name) {
        None => Ok((fields, None)),
        Some(i) if i + 2 == fields.len() => Ok((&fields[..i], Some(fields[i + 1]))),
        Some(_) => Err(format!("'{name}' takes one value, at the end of the line")),
    }
}

fn choice(fields: &[&str]) -> Result<Choice, String> {
    match fields {
        ["none"] => Ok(Choice::Never),
        ["gilbert", parameters @ ..] => gilbert(parameters).map(Choice::Gilbert),
        ["at", list @ ..] if !list.is_empty() => {
            let ranges: Result<Vec<_>, String> = list.iter().map(|w| range(w)).collect();
            Ok(Choice::ranges(ranges?))
        }
        ["runs", list @ ..] if !list.is_empty() => {
            let (list, gap) = option(list, "gap")?;
            let gap = gap.map_or(Ok(10), number)?;
            let mut lengths = Vec::new();
            for word in list {
                let (length, times) = word.split_once('x').unwrap_or((word, "1"));
                let (length, times) = (number(length)?, number(times)?);
                if length == 0 || gap == 0 {
                    return Err("runs and the gaps between them must be at least one packet long".to_owned());
                }
                if times.saturating_add(lengths.len() as u64) > MAX_PATTERN {
                    return Err(format!("more than {MAX_PATTERN} runs"));
                }
                lengths.extend((0..times).map(|_| length));
            }
            Ok(Choice::runs(lengths, gap))
        }
        [share] => probability(share).map(Choice::Bernoulli),
        _ => Err(format!(
            "'{}': give none, a share such as 1%, 'gilbert p=1% r=30%', 'at 5-9 20' or 'runs 1x10 2x5 gap 20'",
            fields.join(" ")
        )),
    }
}

fn gilbert(parameters: &[&str]) -> Result<GilbertModel, String> {
    let (mut p, mut r) = (None, None);
    let (mut h, mut k) = (0.0, 1.0);
    for word in parameters {
        match word.split_once('=') {
            Some(("p", v)) => p = Some(probability(v)?),
            Some(("r", v)) => r = Some(probability(v)?),
            Some(("h", v)) => h = probability(v)?,
            Some(("k", v)) => k = probability(v)?,
            _ => return Err(format!("'{word}': the chain's parameters are p=, r=, h= and k=")),
        }
    }
    match (p, r) {
        (Some(p), Some(r)) => Ok(GilbertModel { p, r, h, k }),
        _ => Err("the chain needs both p= (good to bad) and r= (bad to good)".to_owned()),
    }
}

fn jitter(fields: &[&str]) -> Result<Jitter, String> {
    let shape = |word: &str| match word.parse::<f64>() {
        Ok(shape) if shape > 0.0 && shape.is_finite() => Ok(shape),
        _ => Err(not("a number above 0", word)),
    };
    match fields {
        _ if fields.contains(&"+") => {
            fields.split(|w| *w == "+").map(jitter).collect::<Result<_, _>>().map(Jitter::Sum)
        }
        ["none"] => Ok(Jitter::None),
        ["uniform", max] => Ok(Jitter::Uniform { max: span(max)? }),
        ["exponential", mean] => Ok(Jitter::Exponential { mean: span(mean)? }),
        ["pareto", scale, "shape", a] => Ok(Jitter::Pareto { scale: span(scale)?, shape: shape(a)? }),
        ["normal", deviation] => Ok(Jitter::Normal { deviation: span(deviation)? }),
        ["lognormal", median, "sigma", s] => {
            Ok(Jitter::LogNormal { median: span(median)?, sigma: shape(s)? })
        }
        ["slots", every] => match span(every)? {
            Span(1..) => Ok(Jitter::Slots { every: span(every)? }),
            _ => Err(not("a time above 0", every)),
        },
        ["spikes", share, max] => Ok(Jitter::Spikes { share: probability(share)?, max: span(max)? }),
        _ => Err(format!(
            "'{}': give 'uniform MAX', 'exponential MEAN', 'pareto SCALE shape A', 'normal DEVIATION', 'lognormal MEDIAN \
             sigma S', 'slots EVERY' or 'spikes SHARE MAX', several with '+' between, and 'in order' after all if so",
            fields.join(" ")
        )),
    }
}

fn single<'w>(fields: &[&'w str]) -> Result<&'w str, String> {
    match fields {
        [word] => Ok(word),
        _ => Err(format!("'{}': give one value", fields.join(" "))),
    }
}

fn not(wanted: &str, word: &str) -> String {
    format!("'{word}' is not {wanted}")
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| not("a number", word))
}

fn range(word: &str) -> Result<core::ops::RangeInclusive<u64>, String> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(not("a range from a smaller to a larger number", word));
    }
    Ok(first..=last)
}

fn probability(word: &str) -> Result<f64, String> {
    let value = match word.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|p| p / 100.0),
        None => word.parse(),
    };
    match value {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err(not("a probability: give 0 to 1 or 0% to 100%", word)),
    }
}

/// Parses a decimal number with a unit, and returns it multiplied by the unit's factor and rounded. The result must be
/// below 2⁶².
fn scaled(word: &str, units: &[(&str, f64)], wanted: &str) -> Result<u64, String> {
    let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    let unit = &word[digits.len()..];
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, f)| *f);
    match (digits.parse::<f64>(), factor) {
        (Ok(v), Some(f)) if v >= 0.0 && v * f < (1u64 << 62) as f64 => Ok((v * f).round() as u64),
        _ => Err(not(wanted, word)),
    }
}

fn span(word: &str) -> Result<Span, String> {
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    if word == "0" {
        return Ok(Span::ZERO);
    }
    scaled(word, &units, "a time such as 20ms or 1.5s").map(|v| Span(v as i64))
}

fn bytes(word: &str) -> Result<u64, String> {
    let units = [("", 1.0), ("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("KiB", 1024.0), ("MiB", 1048576.0)];
    scaled(word, &units, "a size such as 1500 or 16kB")
}

fn bits(word: &str) -> Result<u64, String> {
    let units = [("bit", 1.0), ("kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9)];
    match scaled(word, &units, "a rate such as 512kbit or 10Mbit")? {
        0 => Err("a rate of 0: use an outage instead".to_owned()),
        rate => Ok(rate),
    }
}
