//! Verdicts, causes and profiles of streams on the screen report.

use super::ScreenStream;
use super::rows::percent;
use crate::text::page::{WordStyle, mark};
use crate::text::{count, outcome, short_label, why as evidence};
use jitlat_core::Schedule;
use jitlat_core::answer::{Answer, Cause, Severity};
use jitlat_core::spec::{Direction, Transport};
use jitlat_core::summary::{Level, Summary};
use jitlat_core::units::eng3;
use jitlat_verdict::{MARK_RULES, OUTAGES, PROFILES};

/// Mean opinion score from which on most users are satisfied (ITU-T G.107 Annex B).
const SATISFYING_MOS: f64 = 4.03;

/// Relation between the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The two directions of one test. A profile needs both.
    Directions,
    /// One test, idle and under load.
    Load,
    /// Several tests, or only one.
    Separate,
}

/// Verdict for one profile.
#[derive(Clone, Debug)]
pub(super) struct ProfileLine {
    pub name: String,
    pub severity: Severity,
    pub because: String,
    /// Quality of Outcome with its interval, or the reason why it is unknown; `None` if the profile has no requirements
    /// for it, and for several tests.
    pub score: Option<Result<String, String>>,
}

/// Returns the names of the rows of `streams`.
pub(super) fn labels(streams: &[ScreenStream<'_>]) -> Vec<String> {
    match streams {
        [one] if is_reported(one.summary) => vec!["up".to_owned()],
        [one] if one.summary.is_round_trip() => vec!["round trip".to_owned()],
        [one] => vec![one.summary.direction().map_or("one way", in_short).to_owned()],
        several => several.iter().map(|stream| short_label(stream.label).to_owned()).collect(),
    }
}

/// True if only the far host's report of a one-way test is known.
pub(super) fn is_reported(s: &Summary) -> bool {
    s.two_way.as_ref().is_some_and(|t| t.far_report.is_some())
}

fn in_short(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

/// Returns the verdicts, with labels if there are several.
pub(super) fn lead(streams: &[ScreenStream<'_>], labels: &[String]) -> Vec<(Level, String)> {
    let of = |(stream, label): (&ScreenStream<'_>, &String)| match &stream.summary.answer {
        Some(answer) => {
            let before = if streams.len() > 1 { format!("{}: ", capital(label)) } else { String::new() };
            (Level::from(answer.severity), format!("{before}{}", answer.headline))
        }
        None => {
            let c = &stream.summary.counts;
            (Level::Note, format!("{} of {} received.", c.unique_valid, count(c.sent, "packet")))
        }
    };
    streams.iter().zip(labels).map(of).collect()
}

fn capital(label: &str) -> String {
    match label {
        "up" => "Up".to_owned(),
        "down" => "Down".to_owned(),
        "up, between" => "Up, between".to_owned(),
        "down, between" => "Down, between".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the title: `1000 UDP packets of 80 bytes every 20.0 ms, 192.0.2.1 to 192.0.2.2`.
pub(super) fn title(streams: &[ScreenStream<'_>], relation: Relation) -> String {
    let Some(first) = streams.first() else { return String::new() };
    if relation == Relation::Separate && streams.len() > 1 {
        return format!("{} tests", streams.len());
    }
    let s = first.summary;
    let what = match &s.two_way {
        Some(t) if is_reported(s) => format!("{} packet", t.protocol.to_uppercase()),
        Some(t) => format!("{} request", t.protocol.to_uppercase()),
        None if s.session.tags.contains_key("instrument") => "captured packet".to_owned(),
        None => match Transport::from_number(s.header.proto.into()) {
            Some(transport) => format!("{transport} packet"),
            None => "packet".to_owned(),
        },
    };
    let number = if s.counts.sent > 0 { s.counts.sent } else { s.header.npkts };
    let size = if s.header.pktlen == 0 { String::new() } else { format!(" of {} bytes", s.header.pktlen) };
    let often = match (s.header.period, s.session.schedule) {
        (..=0, _) => String::new(),
        (period, Schedule::Periodic) => format!(" every {}", eng3(period as f64)),
        (period, _) => format!(" every {} on average", eng3(period as f64)),
    };
    let [from, to] = [&s.header.src_ip, &s.header.dst_ip].map(|ip| ip.as_deref().unwrap_or("-"));
    let (times, between) = match (relation, streams.len()) {
        (Relation::Directions, _) => ("2 x ", "and"),
        (Relation::Load, 4..) => ("4 x ", "and"),
        (Relation::Load, _) => ("2 x ", "to"),
        _ => ("", "to"),
    };
    format!("{times}{}{size}{often}, {from} {between} {to}", count(number, &what))
}

/// Returns the causes, most severe first. If there are none, returns the findings that users notice.
pub(super) fn why(streams: &[ScreenStream<'_>], labels: &[String]) -> Vec<(WordStyle, String, String)> {
    let mut all: Vec<(Severity, String)> = Vec::new();
    let mut notes = Vec::new();
    for (stream, label) in streams.iter().zip(labels) {
        let label = if streams.len() > 1 { format!("{label}: ") } else { String::new() };
        let Some(answer) = &stream.summary.answer else { continue };
        all.extend(answer.causes.iter().map(|cause| (cause.severity, format!("{label}{}", evidence(cause)))));
        let marks = |cause: &Cause| MARK_RULES.iter().any(|rule| rule.id == cause.id);
        if !answer.causes.iter().any(marks) {
            let about_marks = stream.summary.verdicts.iter().filter(|v| v.code == "marks");
            notes.extend(about_marks.map(|v| {
                let (word, style) = mark(v.level);
                (style, word.to_owned(), format!("{label}{}", v.text))
            }));
        }
        if answer.causes.is_empty() && answer.severity > Severity::Good {
            // If nothing arrived, the headline is sufficient.
            let arrived = stream.summary.counts.unique_valid > 0;
            let noticed = stream.summary.verdicts.iter().filter(|v| arrived && v.level >= Level::Poor);
            all.extend(noticed.map(|v| (answer.severity, format!("{label}{}", v.text))));
        }
    }
    // Stable sort: the causes of a stream keep their order.
    all.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
    let causes = all.into_iter().map(|(s, text)| (mark(s.into()).1, format!("{}:", s.name()), text));
    causes.chain(notes).collect()
}

/// Returns the severity of a cause, and its text with the evidence.
pub(super) fn cause_of(cause: &Cause) -> (WordStyle, String, String) {
    (mark(cause.severity.into()).1, format!("{}:", cause.severity.name()), evidence(cause))
}

/// Returns one line per profile: the worse verdict of two directions, the verdict under load, or the verdict
/// of each of several tests.
pub(super) fn uses(streams: &[ScreenStream<'_>], labels: &[String], relation: Relation) -> Vec<ProfileLine> {
    // Streams with a load are pairs, first idle, then under load.
    let (skipped, step) = if relation == Relation::Load { (1, 2) } else { (0, 1) };
    let judged = streams.iter().zip(labels).skip(skipped).step_by(step);
    let answers: Vec<(&str, &Answer)> = judged
        .filter_map(|(stream, label)| Some((label.as_str(), stream.summary.answer.as_ref()?)))
        .collect();
    uses_of(&answers, relation)
}

/// Returns one line for each profile in `answers`, which are pairs of label and answer.
pub(super) fn uses_of(answers: &[(&str, &Answer)], relation: Relation) -> Vec<ProfileLine> {
    let mut names: Vec<&String> = answers.iter().flat_map(|(_, a)| a.profiles.keys()).collect();
    // Sort in the order of `PROFILES`, with the user's own profiles at the end.
    names.sort_by_key(|name| {
        (PROFILES.iter().position(|p| p.name == name.as_str()).unwrap_or(usize::MAX), *name)
    });
    names.dedup();
    let scores = answers.iter().filter_map(|(_, answer)| answer.qoo.as_ref());
    let enough_s = outcome::enough(scores.flat_map(|qoo| qoo.profiles.values()));
    let one = |name: &String| {
        let of = answers.iter().filter_map(|(label, a)| Some((*label, a.profiles.get(name)?)));
        let each: Vec<_> = of.collect();
        let (label, worst) = each.iter().max_by_key(|(_, suits)| suits.severity.doubt())?;
        let mut because = worst.because.clone();
        if worst.severity == Severity::Good {
            // Leave out the buffer size, which the table shows.
            because = format!("{} % missing", percent(worst.missing));
            if let Some(delay) = worst.delay_ns {
                because += &format!(", {} end to end", eng3(delay as f64));
            }
        }
        // Omit a good score: speech may sound good between interruptions, so it does not explain a bad verdict.
        if let Some(mos) = worst.mos.filter(|mos| *mos < SATISFYING_MOS || worst.severity <= Severity::Fair) {
            let most = if worst.delay_ns.is_none() { " at most" } else { "" };
            because = match &*because {
                // This rating excludes outages, the one in the table includes them.
                OUTAGES => format!("{OUTAGES}; MOS {mos:.2}{most} between them"),
                _ => format!("MOS {mos:.2}{most}, {because}"),
            };
        }
        if relation == Relation::Load && (each.len() == 1 || worst.severity == Severity::Good) {
            because += ", under load";
        } else if each.len() > 1 && worst.severity > Severity::Good {
            because = match relation {
                Relation::Directions | Relation::Load => format!("{label}: {because}"),
                _ => each
                    .iter()
                    .map(|(l, s)| format!("{l}: {}", s.severity.name()))
                    .collect::<Vec<_>>()
                    .join(", "),
            };
        }
        let scores = answers.iter().filter_map(|(_, a)| a.qoo.as_ref()?.profiles.get(name));
        let is_one = relation != Relation::Separate || answers.len() == 1;
        let score = outcome::worst(scores).filter(|_| is_one).map(|of| outcome::in_short(of, enough_s));
        Some(ProfileLine { name: name.clone(), severity: worst.severity, because, score })
    };
    names.into_iter().filter_map(one).collect()
}

/// Host that sent a one-way stream: `client` or `server`; `None` for round trips.
pub(super) fn sender(s: &Summary) -> Option<&'static str> {
    s.direction().map(|direction| match direction {
        Direction::Up => "client",
        Direction::Down => "server",
    })
}
