//! Everything that is said about the saved logs and about a simulated test of each family: causes with their figures,
//! uses, findings and warnings. Whether that is right is held elsewhere; here a change of any of it is seen and has to be
//! accepted.

use super::FAMILIES;
use super::context::Draw;
use super::saved::logs;
use jitlat_core::summary::Summary;
use jitlat_core::verdict::{Cause, Opinion, Suitability};
use jitlat_core::{Analyzer, Options};
use jitlat_store::log::LogReader;
use std::fmt::Write;
use std::io::Cursor;

fn summary(log: Vec<u8>) -> Summary {
    let mut reader = LogReader::from_reader("saved", Box::new(Cursor::new(log))).expect("it is a log");
    let mut analyzer = Analyzer::new(reader.session(), &Options::default());
    reader.records(&mut None).for_each(|record| analyzer.push(&record));
    analyzer.finish(reader.session())
}

#[test]
fn of_saved_logs() {
    let mut text = String::new();
    for log in logs() {
        let name = log.file_stem().unwrap().to_string_lossy();
        judgement(&mut text, &name, &summary(std::fs::read(&log).unwrap()));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn of_simulated_tests() {
    let mut text = String::new();
    for (family, (name, draw)) in (0..).zip(FAMILIES) {
        judgement(&mut text, name, &summary(draw(&mut Draw::new(1, family)).log()));
    }
    insta::assert_snapshot!(text);
}

fn judgement(text: &mut String, name: &str, s: &Summary) {
    let Opinion { headline, findings, .. } = Opinion::of(s);
    writeln!(text, "# {name}\n{headline}").unwrap();
    if let Some(answer) = &s.answer {
        let complete = if answer.complete { "" } else { ", incomplete" };
        writeln!(text, "{}, buffer {}{complete}", answer.severity.name(), ms(answer.buffer_ns)).unwrap();
        answer.causes.iter().for_each(|c| cause(text, c));
        answer.profiles.iter().for_each(|(name, p)| suitability(text, name, p));
    }
    for verdict in &s.verdicts {
        writeln!(text, "  verdict {} {:?}: {}", verdict.code, verdict.level, verdict.text).unwrap();
    }
    for finding in findings {
        // Most are the verdicts in another order.
        let code = s.verdicts.iter().find(|v| v.text == finding.text).map(|v| v.code.to_string());
        writeln!(text, "  finding: {}", code.unwrap_or(finding.text)).unwrap();
    }
    for warning in &s.warnings {
        writeln!(text, "  warning {}: {}", warning.code, warning.text).unwrap();
    }
}

fn cause(text: &mut String, c: &Cause) {
    let [first, last] = c.packets;
    writeln!(
        text,
        "  {} of {:?} {:?}: {:.3} to {:.3} s, {}, {:?}, confidence {:.2}, {}, {} times, packets {first} to {last}: {}",
        c.id.name(),
        c.fault,
        c.direction,
        c.from_s,
        c.to_s,
        ms(c.magnitude_ns),
        c.magnitude.map(|m| (m * 1e4).round() / 1e4),
        c.confidence,
        c.severity.name(),
        c.count,
        c.because,
    )
    .unwrap();
}

fn suitability(text: &mut String, name: &str, p: &Suitability) {
    let mos = p.mos.map_or_else(String::new, |m| format!(" MOS {m:.2},"));
    let limits = p.limits.as_ref().map_or_else(String::new, |l| format!(" ({l})"));
    writeln!(
        text,
        "  for {name}: {},{mos} missing {:.4}, delay {}, buffer {}: {}{limits}",
        p.severity.name(),
        p.missing,
        ms(p.delay_ns),
        ms(p.buffer_ns),
        p.because,
    )
    .unwrap();
}

/// To the microsecond, in ms.
fn ms(ns: Option<i64>) -> String {
    ns.map_or_else(|| "none".into(), |ns| format!("{:.3} ms", ns as f64 / 1e6))
}
