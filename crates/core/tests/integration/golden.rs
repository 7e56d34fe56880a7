//! Compares every key of the golden results, with the tolerances of metrics §28.

use crate::common;
use jitlat_core::{Options, analyze};
use serde_json::Value;

/// Compares header, counts, all figures and the display of the four logs.
#[test]
fn every_key_of_every_golden_log() {
    let mut differences = Vec::new();
    for name in ["a_loopback_v1", "b_wan_lossy_v1", "c_unsync_v2", "d_edge_small_v1"] {
        let (session, rows) = common::golden_log(&format!("{name}.log"));
        let summary = analyze(&session, rows, &Options::default());
        let found = serde_json::to_value(&summary).unwrap();
        let text = std::fs::read_to_string(common::testdata(&format!("{name}.expected.json"))).unwrap();
        let expected: Value = serde_json::from_str(&text).unwrap();
        let keys = compare(name, &expected, &found, &mut differences);
        assert!(keys > 300, "{name}: only {keys} values compared");
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// Checks that all values of `expected` are in `found`; returns how many values it compared.
fn compare(path: &str, expected: &Value, found: &Value, differences: &mut Vec<String>) -> usize {
    match (expected, found) {
        (Value::Object(e), Value::Object(f)) => {
            e.iter()
                .map(|(key, value)| {
                    let path = format!("{path}.{key}");
                    match f.get(key) {
                        Some(found) => compare(&path, value, found, differences),
                        None => {
                            differences.push(format!("{path}: missing"));
                            1
                        }
                    }
                })
                .sum::<usize>()
                + usize::from(
                    is_histogram(path) && {
                        // A histogram must have exactly the expected keys.
                        let extra = f.keys().find(|k| !e.contains_key(*k));
                        extra.inspect(|k| differences.push(format!("{path}.{k}: not expected"))).is_some()
                    },
                )
        }
        (Value::Array(e), Value::Array(f)) if e.len() == f.len() => {
            let pairs = e.iter().zip(f).enumerate();
            pairs.map(|(i, (e, f))| compare(&format!("{path}[{i}]"), e, f, differences)).sum()
        }
        (Value::Number(e), Value::Number(f)) => {
            if !close(path, e, f) {
                differences.push(format!("{path}: expected {e}, found {f}"));
            }
            1
        }
        (e, f) => {
            if e != f {
                differences.push(format!("{path}: expected {e}, found {f}"));
            }
            1
        }
    }
}

fn is_histogram(path: &str) -> bool {
    ["_hist", "rd_fd", "rd_fd_dt128", "rbd_fb_bt128", "rbd_fb_loss_aware", "n_reordered"]
        .iter()
        .any(|h| path.ends_with(h))
}

/// Compares integers exactly, statistics in ns to half a nanosecond, deviations, intervals and ratings to
/// 10⁻⁶, and the rest to 10⁻⁹.
fn close(path: &str, e: &serde_json::Number, f: &serde_json::Number) -> bool {
    if let (Some(e), Some(f)) = (e.as_i64(), f.as_i64()) {
        return e == f;
    }
    let (Some(e), Some(f)) = (e.as_f64(), f.as_f64()) else { return false };
    let key = path.rsplit('.').next().unwrap_or(path);
    let relative = |tolerance: f64| (e - f).abs() <= tolerance * e.abs();
    let absolute_ns =
        ["mean", "median", "mode", "half_sample_mode", "final", "max", "mean_abs", "iqr_linear"];
    match key {
        _ if absolute_ns.contains(&key) || path.ends_with("mapdv2") => (e - f).abs() <= 0.5,
        "stddev" | "stddev_pop" | "R" | "MOS" => relative(1e-6),
        _ if path.contains("_ci") => relative(1e-6),
        "m" | "alpha" => (e - f).abs() <= 1e-12 || relative(1e-9),
        _ => relative(1e-9) || (e - f).abs() < 1e-12,
    }
}
