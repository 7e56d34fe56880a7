//! A real Prometheus scrapes the page, as text and as protobuf: its counts equal the archive's, its percentiles are within
//! the stated bounds, and every query of the shipped rules and dashboard names existing metrics and runs.

use crate::mesh;
use crate::mesh::{HOUR, Went};
use crate::scraper::Prometheus;
use crate::served::{Answer, Served};
use jitlat_archive::Archive;
use jitlat_core::pool::Pool;
use jitlat_core::scalars::Scalar;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

const THERE: (&str, &str) = ("10.0.0.1", "10.0.0.2");
const BACK: (&str, &str) = ("10.0.0.2", "10.0.0.1");

/// Two hosts for six hours: the forward direction is good, in the other direction the last two tests are bad; and a counter
/// of slots.
fn two_hosts(folder: &Path) -> Archive {
    let archive = Archive::make(folder).unwrap();
    for hour in (0..6).rev() {
        let at = now() - hour * HOUR - HOUR / 6;
        mesh::add(&archive, THERE, at, Went::Well).unwrap();
        mesh::add(&archive, BACK, at, if hour < 2 { Went::Badly } else { Went::Well }).unwrap();
    }
    let [test, client, server, ending] = ["voice", "rome", "oslo", "measured"].map(str::to_owned);
    archive.count_slots(&[(jitlat_archive::SlotFilter { test, client, server, ending }, 7)]).unwrap();
    archive
}

/// Starts a Prometheus that scrapes `target` each second, with the shipped rules.
fn scraping(target: SocketAddr, features: &str) -> Option<Prometheus> {
    let settings = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: ['{}']\nscrape_configs:\n  - job_name: jitlat\n    \
         static_configs: [{{ targets: ['{target}'] }}]\n",
        examples().join("rules.yml").display()
    );
    Prometheus::start(tempfile::tempdir().unwrap(), &settings, &[&format!("--enable-feature={features}")])
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/prometheus").canonicalize().unwrap()
}

/// Returns all packets from one host to another.
fn pool(archive: &Archive, (src, dst): (&str, &str)) -> Pool {
    let filter = jitlat_archive::Filter {
        path: Some(format!("{src}:{dst}").parse().unwrap()),
        ..jitlat_archive::Filter::default()
    };
    archive.pools(&filter).unwrap().remove(0).1
}

const PERCENTILES: [(&str, &str); 4] =
    [("0.5", "median"), ("0.9", "p90"), ("0.99", "p99"), ("0.999", "p99.9")];

/// Returns the archive's percentile, s, of delays or of their variation.
fn own(pool: &Pool, family: &str, what: &str) -> f64 {
    pool.scalar(Scalar::named(&format!("{family}-{what}")).unwrap()).unwrap() / 1e9
}

#[test]
fn native_histograms_are_scraped_with_every_count_and_percentiles_within_a_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let Some(prometheus) = scraping(served.address, "native-histograms") else { return };
    for path in [THERE, BACK] {
        let all = pool(&archive, path);
        let of = format!("{{src=\"{}\",dst=\"{}\"}}", path.0, path.1);
        for (name, family, values) in [
            ("jitlat_delay_variation_seconds", "pdv", all.variations()),
            ("jitlat_delay_seconds", "latency", all.delays()),
        ] {
            let found = prometheus.wait(&format!("{name}{of}"));
            let histogram = &found[0]["histogram"][1];
            assert_eq!(histogram["count"], values.len().to_string(), "{histogram}");
            // Every bucket: its ends, and the number of values in it.
            let mut expected: BTreeMap<i64, u64> = BTreeMap::new();
            for (ns, n) in values.tiles() {
                let k = if ns == 0 { i64::MIN } else { ((ns as f64 / 1e9).log2() * 32.0).ceil() as i64 };
                *expected.entry(k).or_default() += n;
            }
            let number = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
            let buckets = histogram["buckets"].as_array().unwrap();
            let found: BTreeMap<i64, u64> = buckets
                .iter()
                .map(|bucket| {
                    let (low, high, n) = (number(&bucket[1]), number(&bucket[2]), number(&bucket[3]));
                    if low <= 0.0 {
                        assert!(low >= -1e-9 && high <= 1e-9, "{bucket}");
                        return (i64::MIN, n as u64);
                    }
                    assert!((high / low - 2f64.powf(1.0 / 32.0)).abs() < 1e-9, "{bucket}");
                    ((high.log2() * 32.0).round() as i64, n as u64)
                })
                .collect();
            assert_eq!(found, expected, "{name}{of}");
            for (p, what) in PERCENTILES {
                let theirs = prometheus.value(&format!("histogram_quantile({p}, {name}{of})"));
                let ours = own(&all, family, what);
                // In the same bucket, or at most 1/1024 below it.
                let bound = 2f64.powf(1.0 / 32.0) * (1.0 + 1.0 / 1024.0);
                assert!(theirs / ours < bound && ours / theirs < bound, "{name}{of} {p}: {theirs}, {ours}");
            }
        }
        let tests = prometheus.wait(&format!("jitlat_test_loss_ratio{of}"));
        assert_eq!(tests[0]["histogram"][1]["count"], "6");
    }
    let lost = prometheus.value(&format!("jitlat_packets_lost_total{{src=\"{}\"}}", BACK.0));
    assert_eq!(lost, pool(&archive, BACK).lost as f64);
    // Later tests are counted once.
    mesh::add(&archive, BACK, now(), Went::Badly).unwrap();
    let query = format!("jitlat_tests_total{{src=\"{}\"}} == 7", BACK.0);
    prometheus.wait(&query);
    queries(&prometheus, &served, &archive, true);
}

#[test]
fn classic_histograms_are_scraped_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let Some(prometheus) = scraping(served.address, "") else { return };
    for path in [THERE, BACK] {
        let all = pool(&archive, path);
        let of = format!("{{src=\"{}\",dst=\"{}\"}}", path.0, path.1);
        for (name, family) in [("jitlat_delay_variation_seconds", "pdv"), ("jitlat_delay_seconds", "latency")]
        {
            assert_eq!(prometheus.value(&format!("{name}_count{of}")), all.unique as f64);
            // Ends of the buckets, ascending.
            let mut ends: Vec<f64> = prometheus
                .wait(&format!("{name}_bucket{of}"))
                .iter()
                .filter_map(|series| series["metric"]["le"].as_str()?.parse().ok())
                .collect();
            ends.sort_by(f64::total_cmp);
            for (p, what) in PERCENTILES {
                let theirs = prometheus.value(&format!("histogram_quantile({p}, {name}_bucket{of})"));
                let ours = own(&all, family, what);
                let place = ends.partition_point(|end| *end < ours);
                let low = place.checked_sub(1).map_or(0.0, |k| ends[k]);
                // In the expected bucket, or in the next one if the value is within 1/1024 of its end.
                let high =
                    if ours * (1.0 + 1.0 / 1024.0) > ends[place] { ends[place + 1] } else { ends[place] };
                assert!(
                    (low..=high).contains(&theirs),
                    "{name}{of} {p}: {theirs} is not in {low} to {high}, {ours}"
                );
            }
        }
    }
    queries(&prometheus, &served, &archive, false);
}

/// Runs the queries of the dashboard and of the rules.
fn queries(prometheus: &Prometheus, served: &Served, archive: &Archive, native: bool) {
    let dashboard = std::fs::read_to_string(examples().join("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let drawn: Vec<String> = targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let lists = variables.iter().filter_map(|variable| variable["query"]["query"].as_str());
    let listed: Vec<(&str, &str)> = lists
        .map(|list| list.trim_start_matches("label_values(").trim_end_matches(')').split_once(", ").unwrap())
        .collect();
    assert!(drawn.len() >= 12 && listed.len() == 3);
    let known = known(&served.get("/metrics"));
    let rules = prometheus.get("/api/v1/rules");
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap().clone();
    assert!(rules.len() >= 10 && rules.iter().all(|rule| rule["health"] != "err"), "{rules:#?}");
    let recorded: BTreeSet<&str> = rules
        .iter()
        .filter(|rule| rule["type"] == "recording")
        .map(|rule| rule["name"].as_str().unwrap())
        .collect();
    let ruled = rules.iter().map(|rule| rule["query"].as_str().unwrap().to_owned());
    for query in drawn.iter().cloned().chain(ruled) {
        named(&query, &known, &recorded);
    }
    for (metric, label) in listed {
        assert!(known.get(metric).is_some_and(|labels| labels.contains(label)), "{metric}, {label}");
    }
    // Add a test while Prometheus watches, so that counters grow within the window.
    mesh::add(archive, THERE, now(), Went::Well).unwrap();
    prometheus.wait(&format!("increase(jitlat_tests_total{{src=\"{}\"}}[5m]) > 0", THERE.0));
    let mut empty = Vec::new();
    for query in &drawn {
        let query = query
            .replace("$window", "5m")
            .replace("$src", ".*")
            .replace("$dst", ".*")
            .replace("$direction", ".*");
        if prometheus.query(&query).is_empty() {
            empty.push(query);
        }
    }
    // These tests have no clock facts.
    empty.retain(|query| !query.contains("jitlat_clock_"));
    assert!(empty.is_empty(), "native: {native}: {empty:#?}");
}

/// Returns the names of metrics with the names of their labels, as in the text; histograms also as native ones.
fn known(text: &Answer) -> BTreeMap<String, BTreeSet<String>> {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.body.lines() {
        if let Some(line) = line.strip_prefix("# TYPE ") {
            known.entry(line.split(' ').next().unwrap().to_owned()).or_default();
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let name = line.split(['{', ' ']).next().unwrap();
        let labels = line.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').unwrap().0);
        // Values in these tests have no commas.
        let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        let labels: BTreeSet<String> = labels.collect();
        let family = name.trim_end_matches("_bucket");
        for name in [name, family] {
            known.entry(name.to_owned()).or_default().extend(labels.clone());
        }
    }
    // Metrics of streams have the same labels, even if no test has a value.
    let of_streams = known["jitlat_tests_total"].clone();
    known.values_mut().filter(|labels| labels.is_empty()).for_each(|labels| labels.clone_from(&of_streams));
    known
}

/// Checks that a query names only existing metrics, and existing labels in its selectors.
fn named(query: &str, known: &BTreeMap<String, BTreeSet<String>>, recorded: &BTreeSet<&str>) {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut rest = query;
    while let Some(at) = rest.find("jitlat") {
        rest = &rest[at..];
        let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        rest = after;
        if recorded.contains(name) {
            continue;
        }
        let labels = known.get(name).unwrap_or_else(|| panic!("{query}: there is no {name}"));
        let selected = after.strip_prefix('{').map_or("", |rest| rest.split('}').next().unwrap());
        for label in selected.split(',').filter(|label| !label.is_empty()) {
            let label = label.split(['=', '!']).next().unwrap().trim();
            assert!(labels.contains(label), "{query}: {name} has no label {label}");
        }
    }
    let all: BTreeSet<&str> = known.values().flatten().map(String::as_str).collect();
    for by in query.split("by (").skip(1) {
        for label in by.split(')').next().unwrap().split(',').map(str::trim) {
            assert!(all.contains(label) || label == "le", "{query}: no metric has the label {label}");
        }
    }
}
