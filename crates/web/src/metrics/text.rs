//! Samples in Prometheus' text format, or as OpenMetrics, with classic histograms.

use super::families::{FamilyKind, Labels, SampleFamily, SampleValue};
use super::histogram::MetricHistogram;
use jitlat_core::printable::is_unprintable;
use std::fmt::Write;

/// Formats all families.
pub fn written(families: &[SampleFamily], is_open: bool) -> String {
    let mut out = String::with_capacity(1 << 16);
    for family in families {
        write(&mut out, family, is_open);
    }
    if is_open {
        out.push_str("# EOF\n");
    }
    out
}

fn write(out: &mut String, family: &SampleFamily, is_open: bool) {
    let SampleFamily { name, help, kind, samples } = family;
    // Samples of counters end in `_total`; in OpenMetrics the name of their family does not.
    let ending = if *kind == FamilyKind::Counter { "_total" } else { "" };
    let of_family = if is_open { "" } else { ending };
    let kind = match kind {
        FamilyKind::Counter => "counter",
        FamilyKind::Gauge => "gauge",
        FamilyKind::Histogram => "histogram",
    };
    let _ = writeln!(out, "# HELP {name}{of_family} {help}\n# TYPE {name}{of_family} {kind}");
    for (labels, value) in samples {
        let text = labelled(labels);
        match value {
            SampleValue::Number(value) if text.is_empty() => drop(writeln!(out, "{name}{ending} {value}")),
            SampleValue::Number(value) => drop(writeln!(out, "{name}{ending}{{{text}}} {value}")),
            SampleValue::Histogram(histogram) => classic(out, name, &text, histogram),
        }
    }
}

fn classic(out: &mut String, name: &str, labels: &str, of: &MetricHistogram) {
    for (end, below) in &of.classic {
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{end:?}\"}} {below}");
    }
    let n = of.count;
    let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {n}\n{name}_count{{{labels}}} {n}");
    if let Some(sum) = of.sum {
        let _ = writeln!(out, "{name}_sum{{{labels}}} {sum}");
    }
}

fn labelled(labels: &Labels) -> String {
    let mut text = String::new();
    for (k, (name, value)) in labels.iter().enumerate() {
        let comma = if k == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{name}=\"");
        for c in value.chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                // Names come from other hosts.
                other if is_unprintable(other) => text.push(char::REPLACEMENT_CHARACTER),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    text
}
