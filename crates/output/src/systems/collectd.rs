//! `collectd`: `PUTVAL` lines of collectd's text protocol, for its plug-ins exec and unixsock.

use super::{BaseValue, Reading, grade_name, grade_number, readings_of};
use crate::format::{Destination, Output, ReportParts, write_file};
use jitlat_core::time::SECOND;
use std::env;
use std::fmt::Write as _;

pub(crate) static OUTPUT: Output = Output {
    needs: ReportParts::READINGS,
    ..Output::new(
        "collectd",
        "Write PUTVAL lines for collectd's plug-ins exec and unixsock",
        Destination::File,
        |report, path| {
            // Set by the plug-in exec.
            let host = env::var("COLLECTD_HOSTNAME").ok().filter(|host| !host.is_empty());
            let interval = env::var("COLLECTD_INTERVAL").ok().and_then(|interval| interval.parse().ok());
            let of = |reading: &Reading| lines(reading, host.as_deref(), interval);
            let lines: String = readings_of(report).iter().map(of).collect();
            write_file(path, |out| out.write_all(lines.as_bytes()))
        },
    )
};

/// Returns a line for each figure. All values are gauges, because other types of collectd refuse negative delays.
/// `interval` is the time between two tests in seconds.
fn lines(reading: &Reading, host: Option<&str>, interval: Option<f64>) -> String {
    let host = part(host.or(reading.host.as_deref()).unwrap_or("localhost"));
    let interval = interval.filter(|x| x.is_finite() && *x > 0.0);
    let interval = interval.map(|seconds| format!(" interval={seconds}")).unwrap_or_default();
    // N is the time at which collectd receives the line.
    let time = reading.time.map_or_else(
        || "N".to_owned(),
        |time| format!("{}.{:03}", time.0.div_euclid(SECOND), time.0.rem_euclid(SECOND) / 1_000_000),
    );
    let figures = reading.figures.iter().map(|figure| match figure.value {
        BaseValue::Whole(whole) => (figure.name.clone(), whole.to_string()),
        BaseValue::Real(real) => (figure.name.clone(), real.to_string()),
    });
    let grades = reading.grades.iter().map(|(of, grade)| (grade_name(*of), grade_number(*grade).to_string()));
    let mut lines = String::new();
    for (name, value) in figures.chain(grades) {
        let identifier = format!("{host}/jitlat-{}/gauge-{name}", reading.name);
        let _ = writeln!(lines, "PUTVAL \"{identifier}\"{interval} {time}:{value}");
    }
    lines
}

/// Replaces characters that a part of an identifier cannot contain.
fn part(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || "/\\\"".contains(c) { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{examples, readings};
    use super::*;

    #[test]
    fn each_figure_is_a_gauge_with_the_time_of_the_test() {
        let summaries = [examples::summary(), examples::unnamed_down()];
        let of = |k: usize, host, interval| lines(&readings(&summaries)[k], host, interval);
        let own = of(0, None, None);
        let expected =
            "PUTVAL \"probe 1/jitlat-a,__b_=__-192.0.2.7-up/gauge-packets_received\" 1795749002.250:3\n";
        assert!(own.contains(expected), "{own}");
        assert!(own.contains("/gauge-latency_p99_seconds\" 1795749002.250:0.005\n"), "{own}");
        let given = of(1, Some("a/b"), Some(60.0));
        let expected = "PUTVAL \"a_b/jitlat-192.0.2.1-down/gauge-packets_received\" interval=60 N:3\n";
        assert!(given.contains(expected), "{given}");
        assert!(given.lines().all(|line| line.starts_with("PUTVAL \"") && !line.contains("NaN")));
    }
}
