//! Verdicts of the saved logs and of one simulated test of each family, one line each: the severity, the buffer, every
//! cause with its time, size and confidence, and the severity of each profile. Other tests check that they are right;
//! this one makes every change visible. Sentences are not included, but must agree with the line.

use super::FAMILIES;
use super::context::Draw;
use super::saved::logs;
use jitlat_core::Analyzer;
use jitlat_core::answer::Cause;
use jitlat_core::summary::Summary;
use jitlat_store::log::LogReader;
use jitlat_verdict::Opinion;
use std::fmt::Write;
use std::io::Cursor;

fn summary(file: &str, log: Vec<u8>) -> Summary {
    let mut reader = LogReader::from_reader(file, Box::new(Cursor::new(log))).expect("it is a log");
    let mut analyzer = Analyzer::new(reader.session(), &jitlat_verdict::options());
    reader.records(&mut None).for_each(|record| analyzer.push(&record));
    analyzer.finish(reader.session())
}

#[test]
fn of_saved_logs() {
    let mut text = String::new();
    for log in logs() {
        let name = log.file_stem().unwrap().to_string_lossy();
        judgement(&mut text, &name, &summary("saved", std::fs::read(&log).unwrap()));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn of_simulated_tests() {
    let mut text = String::new();
    for (family, (name, draw)) in (0..).zip(FAMILIES) {
        let variant = draw(&mut Draw::new(1, family));
        judgement(&mut text, name, &summary(variant.name(), variant.log()));
    }
    insta::assert_snapshot!(text);
}

/// Appends the lines of a test, and checks its sentences against them.
fn judgement(text: &mut String, name: &str, s: &Summary) {
    write!(text, "{name}: ").unwrap();
    if let Some(answer) = &s.answer {
        let complete = if answer.complete { "" } else { ", incomplete" };
        let buffer = answer.buffer_ns.map_or_else(|| "none".to_owned(), ms);
        let grades: Vec<&str> = answer.profiles.values().map(|profile| profile.severity.name()).collect();
        writeln!(text, "{}, buffer {buffer}{complete}; {}", answer.severity.name(), grades.join(" "))
            .unwrap();
        answer.causes.iter().for_each(|found| cause(text, found));
        assert!(
            answer.headline.ends_with('.') || answer.headline.contains(':'),
            "{name}: {}",
            answer.headline
        );
        assert!(answer.causes.iter().all(|cause| !cause.because.is_empty()), "{name}: {answer:#?}");
        assert!(answer.profiles.values().all(|profile| !profile.because.is_empty()), "{name}: {answer:#?}");
    } else {
        writeln!(text, "no answer").unwrap();
    }
    let codes: Vec<&str> = s.warnings.iter().map(|warning| &*warning.code).collect();
    if !codes.is_empty() {
        writeln!(text, "  warnings: {}", codes.join(" ")).unwrap();
    }
    let Opinion { headline, findings, .. } = Opinion::of(s);
    assert!(!headline.is_empty(), "{name}");
    // Each verdict is among the causes, and no sentence appears twice.
    for verdict in &s.verdicts {
        let times = findings.iter().filter(|finding| finding.text == verdict.text).count();
        assert_eq!(times, 1, "{name}: {}", verdict.text);
    }
}

fn cause(text: &mut String, c: &Cause) {
    let size = match (c.magnitude_ns, c.magnitude) {
        (Some(ns), _) => ms(ns),
        (None, Some(share)) => format!("{share:.4}"),
        (None, None) => "no size".to_owned(),
    };
    let direction = c.direction.map_or_else(String::new, |direction| format!(" {direction:?}"));
    writeln!(
        text,
        "  {} of {:?}{direction}, {:.2} to {:.2} s, {size}, {} times, confidence {:.2}",
        c.id.name(),
        c.fault,
        c.from_s,
        c.to_s,
        c.count,
        c.confidence,
    )
    .unwrap();
}

/// Formats in ms, rounded to 10 µs.
fn ms(ns: i64) -> String {
    format!("{:.2} ms", ns as f64 / 1e6)
}
