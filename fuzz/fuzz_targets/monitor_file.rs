//! Text as a monitor's file: either existing sections and keys with any values, or any text.
#![no_main]
// Aims at: crates/monitor/src/file crates/monitor/src/timetable.rs crates/monitor/src/plan.rs crates/monitor/src/group.rs
// Longest input: 8192

use jitlat_core::printable::printable;
use jitlat_core::{Span, far_host::FarHost};
use jitlat_monitor::file::keys::SECTIONS;
use jitlat_monitor::file::{DeclaredCapture, DeclaredTest, EntryError, Instruments, OptionValue, read};
use jitlat_monitor::model::{OneWayTraffic, Traffic};
use jitlat_monitor::{MonitorPlan, Timetable};
use std::collections::BTreeSet;
use std::fmt::Write;

#[derive(arbitrary::Arbitrary, Debug)]
enum Input {
    Text(String),
    /// Sections (index), each with its keys (index) and their values.
    Sections(Vec<(u8, Vec<(u8, Value)>)>),
}

#[derive(arbitrary::Arbitrary, Debug)]
enum Value {
    Known(u8),
    Text(String),
    Number(i32),
    Truth(bool),
    List(Vec<Value>),
}

/// Values that are valid for some key.
const KNOWN: [&str; 28] = [
    "a",
    "b",
    "c",
    "192.0.2.1",
    "192.0.2.2",
    "2001:db8::3",
    "mesh",
    "star",
    "pairs",
    "disjoint",
    "1min",
    "5min",
    "1h",
    "24h",
    "1s",
    "both",
    "forward",
    "loss>1%",
    "silent>2h",
    "changed",
    "3 of 5",
    "a.key",
    "x",
    "1G",
    "10Mbit",
    "mon-fri",
    "08:00-18:00",
    "https://push.example/jitlat",
];

impl Value {
    fn write(&self, out: &mut String, depth: u8) {
        let _ = match self {
            Value::Known(k) => write!(out, "\"{}\"", KNOWN[usize::from(*k) % KNOWN.len()]),
            Value::Text(text) => write!(
                out,
                "\"{}\"",
                text.escape_default().to_string().replace("\\u{", "\\\\u{").replace("\\'", "'")
            ),
            Value::Number(n) => write!(out, "{n}"),
            Value::Truth(truth) => write!(out, "{truth}"),
            Value::List(values) => {
                out.push('[');
                for value in values.iter().take(if depth < 3 { 6 } else { 0 }) {
                    value.write(out, depth + 1);
                    out.push(',');
                }
                write!(out, "]")
            }
        };
    }
}

struct Simple;

impl Instruments for Simple {
    fn names(&self) -> Vec<&'static str> {
        vec!["one-way", "ping"]
    }

    fn ping(&self) -> &'static str {
        "ping"
    }

    fn traffic(&self, asked: &DeclaredTest<'_>) -> Result<Traffic, EntryError> {
        let duration = asked.duration.unwrap_or(Span::seconds(20));
        let flow = OneWayTraffic { packets: 1000, bytes: 126_000, rate: 50_400 };
        Ok(Traffic { duration, forward: flow, backward: flow, recorded: 2000 })
    }

    fn captures(&self) -> Vec<(&'static str, bool)> {
        vec![("spp", true), ("tcp", false)]
    }

    fn capture(&self, _: &DeclaredCapture<'_>) -> Result<(), EntryError> {
        Ok(())
    }

    fn has_https(&self) -> bool {
        true
    }

    fn serve(&self, _: &[(String, OptionValue)]) -> Result<(), EntryError> {
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && printable(name) == name
}

// A file results either in faults, each at a position that exists, or in a model with a plan, whose names and addresses are unambiguous.
libfuzzer_sys::fuzz_target!(|input: Input| {
    let text = match input {
        Input::Text(text) => text,
        Input::Sections(sections) => {
            let mut text = String::new();
            for (section, entries) in sections.iter().take(40) {
                let section = &SECTIONS[usize::from(*section) % SECTIONS.len()];
                let _ = writeln!(text, "{}", section.title);
                for (key, value) in entries.iter().take(12) {
                    let _ = write!(text, "{} = ", section.keys[usize::from(*key) % section.keys.len()]);
                    value.write(&mut text, 0);
                    text.push('\n');
                }
            }
            text
        }
    };
    let model = match read(&text, &Simple) {
        Ok(model) => model,
        Err(faults) => {
            assert!(!faults.is_empty());
            for fault in faults {
                let line = text.split('\n').nth(fault.line - 1).expect("the line of a fault exists");
                assert!(fault.column >= 1 && fault.column <= line.chars().count() + 1, "{fault}");
                assert!(!fault.message.contains('\n'), "{fault}");
            }
            return;
        }
    };
    let mut names = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    for host in &model.hosts {
        assert!(is_name(&host.name) && names.insert(host.name.to_ascii_lowercase()));
        let far: FarHost = host.address.parse().expect("an address");
        assert!(far.not_one_host().is_none() && addresses.insert(far.name.to_ascii_lowercase()));
    }
    let tests = model.tests.iter().map(|test| &test.name);
    let captures = model.captures.iter().map(|capture| &capture.name);
    let mut names = BTreeSet::new();
    assert!(tests.chain(captures).all(|name| is_name(name) && names.insert(name)));
    assert!(model.alerts.rules.iter().all(|rule| is_name(&rule.name)));
    for collector in &model.collectors {
        let keys: BTreeSet<usize> = collector.from.iter().copied().collect();
        assert!(!keys.contains(&collector.host) && keys.iter().all(|k| model.hosts[*k].key.is_some()));
    }
    // Short periods make long timetables.
    if model.tests.iter().all(|test| test.every >= Span::seconds(60)) {
        let plan = MonitorPlan::new(&model, &Timetable::new(&model));
        assert!(plan.hosts.iter().all(|host| host.load.is_finite()));
    }
});
