//! Lists and ranges of conditions: `40,200,1400`, `40..1400:20`, `64..1024:x2`, `0,1ms,100ms`.

use crate::one_way::{ONE_WAY_PROTOCOLS, OneWayProtocol};
use crate::ping::{PROTOCOLS, PingProtocol};
use jitlat_core::AccessCategory;
use jitlat_core::quantity;
use jitlat_core::spec::{Dscp, MAX_PAYLOAD};
use jitlat_core::sweep::FactorLevel;
use jitlat_core::time::SECOND;
use jitlat_net::stamp::StampMode;
use std::cmp::Ordering;

/// Values of one condition.
#[derive(Clone, Debug)]
pub struct LevelList(pub Vec<FactorLevel>);

/// Kinds of timestamps of one-way tests.
const ONE_WAY_STAMPS: [&str; 3] = ["user", "kernel", "hardware"];

/// Maximum number of values; a longer list is most likely a mistake.
const MAX_VALUES: usize = 10_000;

/// Parses payload sizes.
///
/// # Errors
/// Description of the invalid value and of valid ones.
pub fn payloads(text: &str) -> Result<LevelList, String> {
    let one = |t: &str| match t.trim().parse::<i64>() {
        Ok(n) if (0..=i64::from(MAX_PAYLOAD)).contains(&n) => Ok(n),
        _ => Err(format!("'{t}' is not a payload: give 0 to {MAX_PAYLOAD} bytes")),
    };
    numbers(text, one, |n| n.to_string())
}

/// Parses priorities on this host (`SO_PRIORITY`) and sorts them in ascending order.
///
/// # Errors
/// Description of the invalid value and of valid ones.
pub fn priorities(text: &str) -> Result<LevelList, String> {
    let one = |t: &str| {
        let number = t.trim().parse().ok().filter(|n: &i64| (0..=i64::from(i32::MAX)).contains(n));
        number.ok_or_else(|| format!("'{t}' is not a priority: give 0 to 6, or more with CAP_NET_ADMIN"))
    };
    let LevelList(mut levels) = numbers(text, one, |n| n.to_string())?;
    levels.sort_by(|a, b| a.number.partial_cmp(&b.number).unwrap_or(Ordering::Equal));
    // The number is removed because differences between priorities have no meaning.
    levels.iter_mut().for_each(|level| level.number = None);
    Ok(LevelList(levels))
}

/// Parses Wi-Fi access categories and sorts them from BK to VO.
///
/// # Errors
/// Description of the invalid value and of valid ones.
pub fn categories(text: &str) -> Result<LevelList, String> {
    let one = |t: &str| t.parse::<AccessCategory>().map_err(|e| e.to_string());
    let mut categories = text.split(',').map(one).collect::<Result<Vec<_>, _>>()?;
    categories.sort_unstable();
    distinct(categories.iter().map(|c| FactorLevel { text: c.to_string(), number: None }).collect())
}

/// Parses periods.
///
/// # Errors
/// Description of the invalid value and of valid ones.
pub fn periods(text: &str) -> Result<LevelList, String> {
    numbers(text, |t| Ok(quantity::period(t)?.0), time)
}

/// Parses times between an answer and the next request; 0 is allowed.
///
/// # Errors
/// Description of the invalid value and of valid ones.
pub fn waits(text: &str) -> Result<LevelList, String> {
    numbers(text, |t| Ok(quantity::pause(t)?.0), time)
}

/// Parses DSCPs, given as numbers or names.
///
/// # Errors
/// Description of the invalid value and of valid ones.
pub fn dscps(text: &str) -> Result<LevelList, String> {
    let one = |t: &str| {
        let dscp: Dscp = t.trim().parse().map_err(|e| format!("{e}"))?;
        let text =
            dscp.name().filter(|_| dscp.value() != 0).map_or_else(|| dscp.value().to_string(), str::to_owned);
        Ok(FactorLevel { text: if dscp.value() == 0 { "BE".to_owned() } else { text }, number: None })
    };
    named(text, one)
}

/// Parses protocols, each optionally with a kind of timestamps and switches: `icmp`, `lamp:user`,
/// `lamp:raw:krt`, `jitlat`.
///
/// # Errors
/// Description of the invalid value and of valid ones.
pub fn protocols(text: &str) -> Result<LevelList, String> {
    named(text, |t| {
        let t = t.trim();
        let mut parts = t.split(':');
        let name = parts.next().unwrap_or_default();
        let is_known = match (PingProtocol::named(name), OneWayProtocol::named(name)) {
            (Some(protocol), _) => {
                parts.all(|word| word.parse::<StampMode>().is_ok() || protocol.switch(word).is_some())
            }
            (None, Some(_)) => parts.all(|word| ONE_WAY_STAMPS.contains(&word)),
            (None, None) => false,
        };
        if is_known {
            return Ok(FactorLevel { text: t.to_owned(), number: None });
        }
        let names = ONE_WAY_PROTOCOLS.iter().map(|p| p.name).chain(PROTOCOLS.iter().map(|p| p.name));
        Err(format!(
            "'{t}' is not a protocol: give {}, followed by a colon and the kind of stamps if not kernel, and \
             by switches of the protocol (lamp:user, lamp:raw)",
            names.collect::<Vec<_>>().join(", ")
        ))
    })
}

/// True if the protocol `text`, in the form that [`protocols`] parses, measures only one direction.
pub fn is_one_way(text: &str) -> bool {
    OneWayProtocol::named(text.split(':').next().unwrap_or_default()).is_some()
}

/// Parses `udp` and `tcp`.
///
/// # Errors
/// Description of the invalid value and of valid ones.
pub fn transports(text: &str) -> Result<LevelList, String> {
    named(text, |t| match t.trim() {
        t @ ("udp" | "tcp") => Ok(FactorLevel { text: t.to_owned(), number: None }),
        other => Err(format!("'{other}' is not a transport: give udp or tcp")),
    })
}

/// Formats a time exactly, in the shortest form.
fn time(ns: i64) -> String {
    let units = [(SECOND, "s"), (1_000_000, "ms"), (1_000, "us")];
    match units.into_iter().find(|(size, _)| ns != 0 && ns % size == 0) {
        Some((size, name)) => format!("{}{name}", ns / size),
        None if ns == 0 => "0".to_owned(),
        None => format!("{ns}ns"),
    }
}

fn named(text: &str, one: impl Fn(&str) -> Result<FactorLevel, String>) -> Result<LevelList, String> {
    distinct(text.split(',').map(one).collect::<Result<_, _>>()?)
}

fn numbers(
    text: &str,
    one: impl Fn(&str) -> Result<i64, String>,
    write: impl Fn(i64) -> String,
) -> Result<LevelList, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => all.push(one(part)?),
            Some((low, rest)) => {
                let (high, step) = rest
                    .split_once(':')
                    .ok_or_else(|| format!("'{part}' lacks a step: write 40..1400:20"))?;
                range(part, one(low)?, one(high)?, step, &one, &mut all)?;
            }
        }
        if all.len() > MAX_VALUES {
            return Err(format!("'{text}' has more than {MAX_VALUES} values: choose a larger step"));
        }
    }
    distinct(all.into_iter().map(|n| FactorLevel { text: write(n), number: Some(n as f64) }).collect())
}

fn range(
    part: &str,
    low: i64,
    high: i64,
    step: &str,
    one: &impl Fn(&str) -> Result<i64, String>,
    all: &mut Vec<i64>,
) -> Result<(), String> {
    if low > high {
        return Err(format!("'{part}' starts above its end: write the smaller value first"));
    }
    let factor = step.strip_prefix('x').map(|f| f.parse::<f64>().ok().filter(|f| *f > 1.0 && *f <= 1e6));
    let mut at = low;
    match factor {
        Some(None) => return Err(format!("'{step}' is not a factor: write x2")),
        Some(Some(_)) if low == 0 => {
            return Err(format!("'{part}': a factor cannot increase 0; start above 0"));
        }
        Some(Some(factor)) => {
            while at <= high && all.len() <= MAX_VALUES {
                all.push(at);
                at = ((at as f64 * factor).round() as i64).max(at + 1);
            }
        }
        None => {
            let step = one(step)?.max(0);
            if step == 0 {
                return Err(format!("'{part}': the step must not be zero"));
            }
            while at <= high && all.len() <= MAX_VALUES {
                all.push(at);
                at = at.saturating_add(step);
            }
        }
    }
    Ok(())
}

fn distinct(levels: Vec<FactorLevel>) -> Result<LevelList, String> {
    for (i, level) in levels.iter().enumerate() {
        if levels[..i].iter().any(|l| l.text == level.text) {
            return Err(format!("{} is given twice", level.text));
        }
    }
    Ok(LevelList(levels))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(levels: &Result<LevelList, String>) -> Vec<&str> {
        levels.as_ref().unwrap().0.iter().map(|l| l.text.as_str()).collect()
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(texts(&payloads("40..100:20,1400")), ["40", "60", "80", "100", "1400"]);
        assert_eq!(texts(&payloads("64..1024:x2")), ["64", "128", "256", "512", "1024"]);
        assert_eq!(texts(&waits("0,1ms,100ms")), ["0", "1ms", "100ms"]);
        assert_eq!(texts(&periods("0.5ms..2ms:500us")), ["500us", "1ms", "1500us", "2ms"]);
        assert_eq!(periods("20ms").unwrap().0[0].number, Some(2e7));
        assert_eq!(texts(&dscps("EF,0,34,3")), ["EF", "BE", "AF41", "3"]);
        assert_eq!(texts(&priorities("6,0..4:2")), ["0", "2", "4", "6"]);
        assert_eq!(texts(&categories("vo,BE,bk")), ["BK", "BE", "VO"]);
        assert!(priorities("6").unwrap().0[0].number.is_none(), "no quantity");
        assert_eq!(texts(&protocols("icmp,lamp:user,lamp:krt")), ["icmp", "lamp:user", "lamp:krt"]);
        assert_eq!(texts(&protocols("lamp,lamp:raw,lamp:raw:user")), ["lamp", "lamp:raw", "lamp:raw:user"]);
        assert!(protocols("icmp:raw").is_err(), "not a switch of that protocol");
        assert_eq!(texts(&protocols("jitlat,jitlat:user,owamp")), ["jitlat", "jitlat:user", "owamp"]);
        assert!(is_one_way("jitlat:user") && !is_one_way("lamp:user"));
    }

    #[test]
    fn slips_are_refused() {
        for bad in [
            "",
            "40..",
            "40..100",
            "100..40:10",
            "40..100:0",
            "40..100:x1",
            "0..9:x2",
            "40,40",
            "70000",
            "-1",
        ] {
            assert!(payloads(bad).is_err(), "{bad}");
        }
        assert!(payloads("0..65507:1").is_err(), "too many");
        assert!(periods("0").is_err() && dscps("64").is_err() && transports("sctp").is_err());
        assert!(categories("BE,be").is_err() && categories("XX").is_err() && priorities("-1").is_err());
        assert!(
            protocols("lamp:never").is_err()
                && protocols("ping").is_err()
                && protocols("jitlat:krt").is_err()
        );
    }
}
