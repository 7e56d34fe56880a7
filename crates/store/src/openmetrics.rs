//! OpenMetrics text of a summary, for Prometheus' text-file collector and the like. Base units: seconds,
//! ratios.

use jitlat_core::summary::{Distribution, Percent, Summary};
use jitlat_core::{Direction, Transport};
use std::fmt::Write as _;
use std::io::{self, Write};

/// A gauge and its value in each of the summaries.
type Gauge = (&'static str, &'static str, fn(&Summary) -> Option<f64>);

const GAUGES: [Gauge; 16] = [
    ("packets_sent", "Packets sent", |s| Some(s.counts.sent as f64)),
    ("packets_received", "Datagrams received, whatever they were", |s| Some(s.counts.received as f64)),
    ("packets_valid", "First clean copies received", |s| Some(s.counts.unique_valid as f64)),
    ("packets_duplicate", "Further copies received", |s| Some(s.counts.duplicate as f64)),
    ("packets_invalid", "Invalid packets received", |s| Some(s.counts.invalid as f64)),
    ("packets_lost", "Packets lost", |s| Some(s.counts.lost as f64)),
    ("packets_out_of_sequence", "Packets overtaken by a later one", |s| {
        Some(s.counts.out_of_sequence as f64)
    }),
    ("loss_ratio", "Lost over sent", |s| s.loss.ratio),
    ("loss_runs", "Runs of consecutive losses", |s| Some(s.loss.periods as f64)),
    ("loss_run_longest", "Longest run of consecutive losses", |s| {
        Some(s.loss.run_length_hist.keys().next_back().map_or(0.0, |n| *n as f64))
    }),
    ("ipdv_mean_absolute_seconds", "Mean absolute delay variation of consecutive packets", |s| {
        seconds(s.ipdv.mean_abs)
    }),
    ("rtp_jitter_mean_seconds", "Mean RFC 3550 jitter", |s| seconds(s.rfc3550_jitter.map(|j| j.mean))),
    ("clock_error_seconds", "Estimated clock of the server less that of the client", |s| {
        seconds(s.clock.offset_ns.map(|ns| ns as f64))
    }),
    ("clock_error_bound_seconds", "Largest possible error of that estimate", |s| seconds(s.clock.bound_ns)),
    ("control_rtt_min_seconds", "Minimum round-trip time of the control channel", |s| {
        seconds(s.clock.min_rtt_ns.map(|ns| ns as f64))
    }),
    ("schedule_error_p99_seconds", "99th percentile of the sender's own schedule error", |s| {
        seconds(s.schedule_error.as_ref().map(|e| e.p99 as f64))
    }),
];

const QUANTILES: [(Percent, &str); 6] = [
    (Percent(50_000), "0.5"),
    (Percent(90_000), "0.9"),
    (Percent(95_000), "0.95"),
    (Percent(99_000), "0.99"),
    (Percent(99_900), "0.999"),
    (Percent(100_000), "1"),
];

/// Writes the summaries as one exposition, a family after the other, labelled with name, tags, direction,
/// addresses, transport and DSCP.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, summaries: &[Summary]) -> io::Result<()> {
    let labels: Vec<String> = summaries.iter().map(labels).collect();
    for (name, help, value) in GAUGES {
        writeln!(out, "# TYPE jitlat_{name} gauge")?;
        if name.ends_with("_seconds") {
            writeln!(out, "# UNIT jitlat_{name} seconds")?;
        }
        writeln!(out, "# HELP jitlat_{name} {help}.")?;
        for (s, labels) in summaries.iter().zip(&labels) {
            if let Some(v) = value(s).filter(|v| v.is_finite()) {
                writeln!(out, "jitlat_{name}{{{labels}}} {v}")?;
            }
        }
    }
    for (name, help, pick) in [
        ("latency_seconds", "One-way delay, raw", (|s| &s.latency) as fn(&Summary) -> &Distribution),
        ("pdv_seconds", "Delay above the smallest delay", |s| &s.pdv),
    ] {
        writeln!(
            out,
            "# TYPE jitlat_{name} summary\n# UNIT jitlat_{name} seconds\n# HELP jitlat_{name} {help}."
        )?;
        for (s, labels) in summaries.iter().zip(&labels) {
            let d = pick(s);
            for (p, quantile) in QUANTILES {
                if let Some(v) = d.percentiles.at(p) {
                    writeln!(out, "jitlat_{name}{{{labels},quantile=\"{quantile}\"}} {}", v as f64 / 1e9)?;
                }
            }
            // A summary's sum must not fall, which that of negative delays would.
            writeln!(out, "jitlat_{name}_count{{{labels}}} {}", d.n)?;
        }
    }
    writeln!(out, "# EOF")
}

fn seconds(ns: Option<f64>) -> Option<f64> {
    ns.map(|ns| ns / 1e9)
}

fn labels(s: &Summary) -> String {
    let h = &s.header;
    let direction = if s.session.direction == Direction::Up { "up" } else { "down" };
    let proto = if h.proto == Transport::Tcp.number() { "tcp" } else { "udp" };
    let mut text = format!("direction=\"{direction}\",proto=\"{proto}\",dscp=\"{}\"", h.dscp);
    let mut add = |key: &str, value: &str| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, ",{key}=\"{value}\"");
    };
    add("src", h.src_ip.as_deref().unwrap_or(""));
    add("dst", h.dst_ip.as_deref().unwrap_or(""));
    if let Some(name) = &s.session.name {
        add("name", name);
    }
    let mut taken = Vec::new();
    for (key, value) in &s.session.tags {
        let key: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        // Different tags may become one label.
        if !taken.contains(&key) {
            add(&format!("tag_{key}"), value);
            taken.push(key);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::analysis::{Options, analyze};
    use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};

    #[test]
    fn an_exposition_has_its_labels_escaped_and_its_end() {
        let mut session = Session::new(TestSpec::default());
        session.name = Some("a \"b\"\n".into());
        session.tags = vec![("site-a".into(), "x".into()), ("site.a".into(), "y".into())];
        let records = (0..3).map(|i| PacketRecord::one_way(i, WallTime(i * 10), WallTime(i * 10 + 5)));
        let summary = analyze(&session, records, &Options::default());
        let mut out = Vec::new();
        write(&mut out, &[summary]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let labels = r#"direction="up",proto="udp",dscp="0",src="",dst="",name="a \"b\"\n",tag_site_a="x""#;
        assert!(text.contains(&format!("jitlat_packets_received{{{labels}}} 3\n")), "{text}");
        assert!(text.ends_with("# EOF\n"));
        let names =
            text.lines().filter_map(|l| l.strip_prefix("# TYPE ")).map(|l| l.split(' ').next().unwrap());
        for name in names {
            let unit = name.ends_with("_seconds");
            assert_eq!(unit, text.contains(&format!("# UNIT {name} seconds\n")), "{name}");
        }
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
