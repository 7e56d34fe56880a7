//! Quality of Outcome: scores with their intervals, and the terms from which they follow.

use super::{Page, printable};
use jitlat_core::metrics::qoo::{OutcomeScore, QualityOfOutcome, RefusalReason};
use jitlat_core::spec::Direction;
use jitlat_core::summary::Summary;
use jitlat_core::units::{about, bit_rate3, eng3};
use jitlat_verdict::PROFILES;

/// Returns the score with its interval, `93 (88-97)`; the reason if there is none.
pub fn score(of: &OutcomeScore) -> Result<String, String> {
    let Some(score) = of.score else {
        return Err(of.refused.as_ref().map_or_else(|| "unknown".to_owned(), |why| why.text.clone()));
    };
    Ok(match of.ci95.map(|ends| ends.map(f64::round)) {
        Some([low, high]) if low == high => format!("{score:.0}"),
        Some([low, high]) => format!("{score:.0} ({low:.0}-{high:.0})"),
        None => format!("{score:.0} (no interval)"),
    })
}

/// Like [`score`], but with a short reason that is the same for all profiles. `enough_s` is the [duration](enough), in
/// seconds, after which all of them would have a score.
pub fn in_short(of: &OutcomeScore, enough_s: Option<f64>) -> Result<String, String> {
    score(of).map_err(|why| match of.refused.as_ref().map(|refused| refused.reason) {
        Some(RefusalReason::PercentileNotResolved) => {
            let needs = enough_s.map_or(String::new(), |s| format!(", needs about {}", about(s)));
            format!("too few independent packets{needs}")
        }
        _ => why,
    })
}

/// Returns the duration, in seconds, after which all `scores` that have too few packets would probably be known; `None`
/// if there are none, or if the duration is unknown for one of them.
pub fn enough<'a>(scores: impl Iterator<Item = &'a OutcomeScore>) -> Option<f64> {
    let refused = scores.filter_map(|of| of.refused.as_ref());
    let few = refused.filter(|refused| refused.reason == RefusalReason::PercentileNotResolved);
    let all: Option<Vec<f64>> = few.map(|refused| refused.enough_s).collect();
    all?.into_iter().reduce(f64::max)
}

/// Returns the score that decides for several streams that an application needs: an unknown one, otherwise the lowest.
pub fn worst<'a>(scores: impl Iterator<Item = &'a OutcomeScore>) -> Option<&'a OutcomeScore> {
    scores.min_by(|a, b| a.score.unwrap_or(-1.0).total_cmp(&b.score.unwrap_or(-1.0)))
}

/// Joins the scores of profiles: `100 for voice and video, 55 (40-70) for gaming; none for v2x: the clocks ...`.
pub fn joined<'a>(scores: impl Iterator<Item = (&'a str, &'a Result<String, String>)>) -> String {
    type NamesByText<'a> = Vec<(&'a str, Vec<&'a str>)>;
    let (mut known, mut refused) = (NamesByText::new(), NamesByText::new());
    for (name, score) in scores {
        let (groups, text) = match score {
            Ok(text) => (&mut known, text),
            Err(why) => (&mut refused, why),
        };
        match groups.iter_mut().find(|(other, _)| other == text) {
            Some((_, names)) => names.push(name),
            None => groups.push((text, vec![name])),
        }
    }
    let alone = known.is_empty() && refused.len() == 1;
    let known: Vec<String> = known.iter().map(|(text, names)| format!("{text} for {}", and(names))).collect();
    let refused = refused.iter().map(|(why, names)| match alone {
        true => format!("no score: {why}"),
        false => format!("none for {}: {why}", and(names)),
    });
    let known = (!known.is_empty()).then(|| known.join(", "));
    known.into_iter().chain(refused).collect::<Vec<_>>().join("; ")
}

fn and(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Adds the scores of the test, and of each direction of a round-trip test, with their terms.
pub(super) fn write(page: &mut Page, s: &Summary) {
    let whole = s.answer.as_ref().and_then(|answer| answer.qoo.as_ref());
    let ways = s
        .two_way
        .as_deref()
        .into_iter()
        .flat_map(|t| [(Direction::Up, t.up.as_ref()), (Direction::Down, t.down.as_ref())]);
    let ways = ways.filter_map(|(direction, way)| Some((Some(direction), way?.qoo.as_ref()?)));
    let all: Vec<(Option<Direction>, &QualityOfOutcome)> =
        whole.map(|qoo| (None, qoo)).into_iter().chain(ways).collect();
    if all.is_empty() {
        return;
    }
    page.heading("Quality of Outcome (0 unacceptable, 100 optimal)");
    for (direction, qoo) in all {
        let before = match direction {
            None => "",
            Some(Direction::Up) => "up: ",
            Some(Direction::Down) => "down: ",
        };
        if let Some(why) = common_refusal(qoo) {
            page.item(&printable(&format!("{before}no score: {why}")));
            continue;
        }
        for (name, of) in in_order(qoo) {
            let terms = terms(of).map_or(String::new(), |terms| format!("; {terms}"));
            let text = match score(of) {
                Ok(score) => format!("{before}{name} {score}{terms}"),
                Err(why) => format!("{before}{name}: no score, {why}{terms}"),
            };
            page.item(&printable(&text));
        }
    }
}

/// Returns the reason why there is no score if it is the same for all profiles.
fn common_refusal(qoo: &QualityOfOutcome) -> Option<&str> {
    let mut reasons =
        qoo.profiles.values().map(|of| of.refused.as_ref().map(|refused| refused.text.as_str()));
    let first = reasons.next().flatten()?;
    reasons.all(|other| other == Some(first)).then_some(first)
}

/// Returns the scores in the order of [`PROFILES`], with the user's own profiles at the end.
pub fn in_order(qoo: &QualityOfOutcome) -> Vec<(&str, &OutcomeScore)> {
    let mut all: Vec<(&str, &OutcomeScore)> =
        qoo.profiles.iter().map(|(name, score)| (name.as_str(), score)).collect();
    all.sort_by_key(|(name, _)| PROFILES.iter().position(|p| p.name == *name).unwrap_or(usize::MAX));
    all
}

/// Describes the terms of a score with their requirements, and what is left out; `None` if nothing was measured.
pub fn terms(of: &OutcomeScore) -> Option<String> {
    let delay = of.delay.iter().map(|term| {
        format!(
            "{} % within {} (optimal {}, unacceptable {}): {:.0}",
            term.percentile,
            eng3(term.measured_ns),
            eng3(term.optimal_ns),
            eng3(term.unacceptable_ns),
            term.score
        )
    });
    let loss = of.loss.iter().map(|term| {
        format!(
            "loss {} ({}, {}): {:.0}",
            percent(term.measured),
            percent(term.optimal),
            percent(term.unacceptable),
            term.score
        )
    });
    let throughput = of.throughput.iter().map(|term| {
        format!(
            "throughput {} ({}): {:.0}",
            bit_rate3(term.measured_bps),
            bit_rate3(term.required_bps),
            term.score
        )
    });
    let left_out = of.left_out.iter().map(|text| format!("not counted: {text}"));
    let all: Vec<String> = delay.chain(loss).chain(throughput).chain(left_out).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Formats a share in percent, without trailing zeros: `1 %`, `0.33 %`.
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(score: f64, ci95: Option<[f64; 2]>) -> OutcomeScore {
        OutcomeScore { score: Some(score), ci95, ..OutcomeScore::default() }
    }

    #[test]
    fn a_score_has_its_interval_unless_it_is_as_precise_as_printed() {
        let text = |score, ci95| super::score(&scored(score, ci95)).unwrap();
        assert_eq!(text(93.2, Some([88.4, 96.6])), "93 (88-97)");
        assert_eq!(text(100.0, Some([99.6, 100.0])), "100");
        assert_eq!(text(93.2, None), "93 (no interval)");
        assert_eq!(super::score(&OutcomeScore::default()), Err("unknown".to_owned()));
    }

    #[test]
    fn an_unknown_score_decides_then_the_lowest() {
        let all = [scored(93.0, None), scored(40.0, None), OutcomeScore::default()];
        assert_eq!(worst(all.iter()).unwrap().score, None);
        assert_eq!(worst(all[..2].iter()).unwrap().score, Some(40.0));
        assert_eq!(worst([].iter()), None);
    }

    #[test]
    fn profiles_with_the_same_score_are_named_together() {
        let ok = |text: &str| Ok(text.to_owned());
        let clocks = Err("the clocks do not bound the one-way delay".to_owned());
        let all = [
            ("voice", ok("100")),
            ("video", ok("93 (88-97)")),
            ("gaming", ok("100")),
            ("v2x", clocks.clone()),
        ];
        assert_eq!(
            joined(all.iter().map(|(name, score)| (*name, score))),
            "100 for voice and gaming, 93 (88-97) for video; none for v2x: the clocks do not bound the one-way delay"
        );
        let none = [("voice", clocks.clone()), ("v2x", clocks)];
        assert_eq!(
            joined(none.iter().map(|(name, score)| (*name, score))),
            "no score: the clocks do not bound the one-way delay"
        );
        assert_eq!(joined([].into_iter()), "");
    }
}
