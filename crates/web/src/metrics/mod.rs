//! `/metrics`: all that was ever measured, as counters and classic histograms, in Prometheus' text or OpenMetrics.

use crate::app::App;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use jitlat_archive::{Archive, Error, StreamTotal};
use jitlat_core::distribution::log_histogram::LogHistogram;
use jitlat_core::figures::Figure;
use std::fmt::Write;
use std::sync::Arc;

/// Most streams that have samples; how many are left out is a sample of its own.
const MOST_STREAMS: usize = 2000;

/// Upper ends of buckets, in µs; the last has no end.
const BUCKETS_US: [i64; 18] = [
    20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];

/// The samples, in the format that is asked for.
pub async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let is_open = accepted.contains("application/openmetrics-text");
    let kind = if is_open {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; version=0.0.4; charset=utf-8"
    };
    match app.read(move |archive| Ok::<String, Problem>(text(archive, is_open)?)).await {
        Ok(text) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(problem) => problem.into_response(),
    }
}

type Value = fn(&StreamTotal) -> Option<f64>;

/// Counters of packets: name, help, value.
const COUNTERS: [(&str, &str, Value); 5] = [
    ("jitlat_tests", "Tests.", |s| Some(s.pool.tests as f64)),
    ("jitlat_packets_sent", "Packets sent, as far as their fate is known.", |s| Some(s.pool.sent as f64)),
    ("jitlat_packets_lost", "Packets that were sent and not accepted.", |s| Some(s.pool.lost as f64)),
    ("jitlat_packets_duplicate", "Further copies of packets.", |s| Some(s.pool.duplicate as f64)),
    ("jitlat_packets_reordered", "Packets that were overtaken.", |s| Some(s.pool.out_of_sequence as f64)),
];

/// Of the newest test: name, help, value.
const GAUGES: [(&str, &str, Value); 3] = [
    ("jitlat_last_test_timestamp_seconds", "When the newest test began, seconds since 1970.", |s| {
        s.last_ns.map(|ns| ns as f64 / 1e9)
    }),
    (
        "jitlat_clock_error_seconds",
        "Estimated clock of the server less that of the client in the newest test.",
        |s| s.clock_error_ns.map(|ns| ns / 1e9),
    ),
    ("jitlat_clock_error_bound_seconds", "Largest possible error of that estimate.", |s| {
        s.clock_bound_ns.map(|ns| ns / 1e9)
    }),
];

fn text(archive: &Archive, is_open: bool) -> Result<String, Error> {
    let totals = archive.totals(None, MOST_STREAMS)?;
    let streams: Vec<(&StreamTotal, String)> = totals.streams.iter().map(|s| (s, labels(s))).collect();
    let mut out = String::new();
    for (name, help, value) in COUNTERS {
        counter(&mut out, is_open, name, help, streams.iter().map(|(s, l)| (l.as_str(), value(s))));
    }
    for (name, help, value) in GAUGES {
        head(&mut out, name, "gauge", help);
        for (stream, labels) in &streams {
            if let Some(value) = value(stream) {
                let _ = writeln!(out, "{name}{{{labels}}} {value}");
            }
        }
    }
    let delay = "Delay as measured: between two hosts with the difference of their clocks.";
    histogram(&mut out, "jitlat_delay_seconds", delay, &streams, |s| (s.pool.delays(), "latency-mean"));
    let variation = "Delay above the smallest of its test.";
    histogram(&mut out, "jitlat_delay_variation_seconds", variation, &streams, |s| {
        (s.pool.variations(), "pdv-mean")
    });
    let slots = archive.slots()?;
    let slots: Vec<(String, f64)> = slots
        .iter()
        .map(|(s, n)| {
            let labels =
                [("test", &s.test), ("client", &s.client), ("server", &s.server), ("ending", &s.ending)];
            (written(&labels.map(|(key, value)| (key, value.as_str()))), *n as f64)
        })
        .collect();
    let help = "Slots of the monitor's timetable, by how they ended: measured, or why not.";
    counter(&mut out, is_open, "jitlat_slots", help, slots.iter().map(|(l, n)| (l.as_str(), Some(*n))));
    let dropped = archive.dropped_messages()? as f64;
    let help = "Messages of alerts that were dropped or given up.";
    counter(&mut out, is_open, "jitlat_alert_messages_dropped", help, [("", Some(dropped))].into_iter());
    head(
        &mut out,
        "jitlat_streams_left_out",
        "gauge",
        "Streams without samples here, because there are too many.",
    );
    let _ = writeln!(out, "jitlat_streams_left_out {}", totals.left_out);
    if is_open {
        out.push_str("# EOF\n");
    }
    Ok(out)
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Samples end in `_total`; in OpenMetrics their family does not.
fn counter<'a>(
    out: &mut String,
    is_open: bool,
    name: &str,
    help: &str,
    samples: impl Iterator<Item = (&'a str, Option<f64>)>,
) {
    let family = if is_open { name.to_owned() } else { format!("{name}_total") };
    head(out, &family, "counter", help);
    for (labels, value) in samples {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        if let Some(value) = value {
            let _ = writeln!(out, "{name}_total{labels} {value}");
        }
    }
}

fn histogram<'a>(
    out: &mut String,
    name: &str,
    help: &str,
    streams: &[(&'a StreamTotal, String)],
    of: impl Fn(&'a StreamTotal) -> (&'a LogHistogram, &'static str),
) {
    head(out, name, "histogram", help);
    for (stream, labels) in streams {
        let (values, mean) = of(stream);
        let mean = Figure::named(mean).and_then(|figure| stream.pool.figure(figure)).unwrap_or(0.0);
        let quantiles = values.quantiles();
        for us in BUCKETS_US {
            let end = us as f64 / 1e6;
            let below = quantiles.count_at_most(us * 1000);
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{end:?}\"}} {below}");
        }
        let n = values.len();
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {n}\n{name}_count{{{labels}}} {n}");
        // With negative values, as between clocks that differ, the sum could become smaller, which no sum of a histogram may.
        if quantiles.count_at_most(-1) == 0 {
            let _ = writeln!(out, "{name}_sum{{{labels}}} {}", mean * n as f64 / 1e9);
        }
    }
}

/// The labels of a stream; its number tells streams between the same hosts apart.
fn labels(total: &StreamTotal) -> String {
    let stream = &total.stream;
    written(&[
        ("src", total.src_name.as_ref().unwrap_or(&stream.src)),
        ("dst", total.dst_name.as_ref().unwrap_or(&stream.dst)),
        ("direction", &stream.direction),
        ("protocol", &stream.protocol),
        ("stream", &total.stream_id.to_string()),
    ])
}

fn written(labels: &[(&str, &str)]) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect::<Vec<_>>().join(",")
}
