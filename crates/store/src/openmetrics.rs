//! OpenMetrics text of a summary, for Prometheus' text-file collector and similar programs: every defined figure, in
//! base units (seconds, ratios).

use jitlat_core::Direction;
use jitlat_core::printable::printable;
use jitlat_core::scalars::{Quantile, SCALARS, Scalar, ScalarSource};
use jitlat_core::spec::ip_protocol_name;
use jitlat_core::summary::Summary;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Sources of samples and their labels: whole tests and, for round-trip tests, each direction.
type Sources<'a> = Vec<(ScalarSource<'a>, String)>;

/// Writes the summaries as one exposition, one family after the other. Samples are labelled with name, tags, direction,
/// addresses, transport and DSCP; those of one direction of a round-trip test also have the label `way`.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut dyn Write, summaries: &[Summary]) -> io::Result<()> {
    let mut sources = Sources::new();
    for summary in summaries {
        let labels = labels(summary);
        for (way, name) in [(None, ""), (Some(Direction::Up), "up"), (Some(Direction::Down), "down")] {
            if let Some(source) = ScalarSource::of(summary, way) {
                let way = if name.is_empty() { String::new() } else { format!(",way=\"{name}\"") };
                sources.push((source, format!("{labels}{way}")));
            }
        }
    }
    let mut written: Vec<&str> = Vec::new();
    for figure in &SCALARS {
        match figure.quantile {
            None => gauge(out, figure, &sources)?,
            Some(quantile) if !written.contains(&quantile.family) => {
                distribution(out, &quantile, &sources)?;
                written.push(quantile.family);
            }
            Some(_) => {}
        }
    }
    writeln!(out, "# EOF")
}

fn gauge(out: &mut dyn Write, figure: &Scalar, sources: &Sources<'_>) -> io::Result<()> {
    let name = figure.metric_name();
    let mut headed = false;
    for (source, labels) in sources {
        let Some(value) = figure.from(source) else { continue };
        if !headed {
            head(out, &name, "gauge", figure.about)?;
            headed = true;
        }
        writeln!(out, "{name}{{{labels}}} {}", figure.unit.in_base(value))?;
    }
    Ok(())
}

/// Writes all percentiles of one distribution. It omits the sum: an OpenMetrics sum must not decrease, but a sum of
/// negative delays would.
fn distribution(out: &mut dyn Write, of: &Quantile, sources: &Sources<'_>) -> io::Result<()> {
    let name = format!("jitlat_{}_seconds", of.family);
    head(out, &name, "summary", of.about)?;
    for (source, labels) in sources {
        for figure in &SCALARS {
            let Some(quantile) = figure.quantile.filter(|q| q.family == of.family) else { continue };
            if let Some(value) = figure.from(source) {
                let share = f64::from(quantile.percent.0) / 100_000.0;
                writeln!(out, "{name}{{{labels},quantile=\"{share}\"}} {}", figure.unit.in_base(value))?;
            }
        }
        writeln!(out, "{name}_count{{{labels}}} {}", (of.count)(source))?;
    }
    Ok(())
}

fn head(out: &mut dyn Write, name: &str, kind: &str, about: &str) -> io::Result<()> {
    writeln!(out, "# TYPE {name} {kind}")?;
    if name.ends_with("_seconds") {
        writeln!(out, "# UNIT {name} seconds")?;
    }
    let mut letters = about.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    writeln!(out, "# HELP {name} {first}{}.", letters.as_str())
}

fn labels(s: &Summary) -> String {
    let h = &s.header;
    let direction = if s.session.direction == Direction::Up { "up" } else { "down" };
    let proto = ip_protocol_name(h.proto).to_lowercase();
    let mut text = format!("direction=\"{direction}\",proto=\"{proto}\",dscp=\"{}\"", h.dscp);
    let mut add = |key: &str, value: &str| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, ",{key}=\"{}\"", printable(&value));
    };
    add("src", h.src_ip.as_deref().unwrap_or(""));
    add("dst", h.dst_ip.as_deref().unwrap_or(""));
    if let Some(name) = &s.session.name {
        add("name", name);
    }
    tags(s).iter().for_each(|(key, value)| add(key, value));
    text
}

/// Returns the labels of the user's tags: `tag_` and the key, in which `_` replaces everything except letters and digits.
/// A label depends on its tag alone, so that a series never continues with another tag: if several keys have the same label,
/// these tags are left out.
pub fn tags(s: &Summary) -> Vec<(String, &str)> {
    tag_labels(&s.session.tags)
}

/// Same as [`tags`], for any map from keys to values.
pub fn tag_labels(tags: &BTreeMap<String, String>) -> Vec<(String, &str)> {
    let is_alone = |key: &String| tags.keys().all(|other| other == key || !same_label(key, other));
    tags.iter().filter(|(key, _)| is_alone(key)).map(|(key, value)| (label(key), value.as_str())).collect()
}

/// Returns two keys of `tags` that have the same label, and the label; `None` if there are none.
pub fn ambiguous_tags(tags: &[(String, String)]) -> Option<[String; 3]> {
    tags.iter().enumerate().find_map(|(k, (key, _))| {
        let (other, _) = tags[..k].iter().find(|(other, _)| other != key && same_label(key, other))?;
        Some([other.clone(), key.clone(), label(other)])
    })
}

fn label(key: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("tag_{}", key.chars().map(plain).collect::<String>())
}

/// True if two keys have the same label. Case does not distinguish them, because some systems ignore it.
fn same_label(one: &str, other: &str) -> bool {
    label(one).eq_ignore_ascii_case(&label(other))
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
        session.tags =
            vec![("site-a".into(), "x".into()), ("room.1".into(), "y".into()), ("Site.a".into(), "z".into())];
        assert_eq!(
            ambiguous_tags(&session.tags),
            Some(["site-a", "Site.a", "tag_site_a"].map(str::to_owned))
        );
        assert_eq!(ambiguous_tags(&session.tags[..2]), None);
        let records = (0..3).map(|i| PacketRecord::one_way(i, WallTime(i * 10), WallTime(i * 10 + 5)));
        let summary = analyze(&session, records, &Options::default());
        let mut out = Vec::new();
        write(&mut out, &[summary]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let labels = r#"direction="up",proto="udp",dscp="0",src="",dst="",name="a \"b\"\n",tag_room_1="y""#;
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
