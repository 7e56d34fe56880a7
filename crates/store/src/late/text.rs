//! The text of LaTe's client: its settings, a line per reply, and the summary.
//!
//! The identifier of the session, which only LaTe's own packets have, and the interface are left out.

use super::LateSample;
use super::summary::{LateFigures, Setting, intervals};
use jitlat_core::summary::Summary;
use std::fmt::Write;

/// Returns the settings of a test of `host`, as LaTe prints them first. `timeout` is the time after which an answer counts
/// as lost, in ms.
pub fn settings(setting: &Setting, host: &str, timeout: i64) -> String {
    let mut out = "\nUDP client started, with options:\n".to_owned();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "\t[{name}] = {value}");
    };
    line("socket type", if setting.raw { "RAW" } else { "UDP" }.to_owned());
    line("interval", format!("{} ms", setting.interval as f64 / 1e6));
    line("reception timeout", format!("{timeout} ms"));
    match (setting.packets, setting.duration) {
        (Some(packets), _) => line("total number of packets", packets.to_string()),
        (None, Some(seconds)) => line("test duration", format!("{seconds} s")),
        (None, None) => {}
    }
    line("mode", if setting.unidirectional { "unidirectional" } else { "ping-like" }.to_owned());
    line("payload length", format!("{} B ", setting.payload));
    line("destination IP address", host.to_owned());
    line("latency type", setting.latency.name().to_owned());
    line("follow-up", if setting.follow_up { "On" } else { "Off" }.to_owned());
    line("random interval", setting.interval_type().to_owned());
    let batch = setting.random.map_or_else(|| "-".to_owned(), |random| random.batch.to_string());
    line("random interval batch", batch);
    let priority = Some(setting.priority).filter(|priority| *priority > 0);
    line("user priority", priority.map_or_else(|| "unset or unpatched kernel".to_owned(), |p| p.to_string()));
    out + "\n"
}

/// Returns the line of a reply from `host`.
pub fn reply(sample: &LateSample, setting: &Setting, host: &str) -> String {
    let ms = sample.latency.unwrap_or(0) as f64 / 1e6;
    format!(
        "Received a reply from {host} (seq={}). Time: {ms:.3} ms ({})\n",
        sample.seq % 65_536,
        setting.latency.name()
    )
}

/// Returns the summary of a test. `highest` is the highest sequence number that was answered.
pub fn summary(s: &Summary, setting: &Setting, highest: Option<u64>) -> String {
    let f = LateFigures::of(s, highest);
    let title = if setting.unidirectional { "Unidirectional statistics:\n" } else { "Ping-like " };
    let over = s.counts.sent.saturating_sub(f.errors);
    let mut out = format!("{title}Latency over {over} packets:\n");
    let latency = setting.latency.name();
    let _ = writeln!(
        out,
        "({latency}) Minimum: {:.3} ms - Maximum: {:.3} ms - Average: {:.3} ms\nStandard Dev.: {:.4} ms",
        f.min, f.max, f.mean, f.stddev
    );
    let levels = [".90", ".95", ".99"].into_iter().zip(intervals(s)).zip(setting.levels);
    for ((level, interval), _) in levels.filter(|(_, wanted)| *wanted) {
        let [low, high] = interval.unwrap_or([-1.0; 2]);
        let _ = writeln!(out, "Confidence intervals ({level}): [{low:.3} ; {high:.3}] ms");
    }
    let _ = writeln!(
        out,
        "Lost packets: {:.2}% [{}/{}]\nError count: {}\nOut of order count (approx. as the number of times a decreasing \
         seq. number is detected): {}\nEst. number of cyclical sequence number resets: {}\nNumber of duplicated \
         packets: {}",
        f.lost_pct,
        s.counts.lost,
        s.counts.sent,
        f.errors,
        f.late,
        f.highest.map_or(0, |highest| highest / 65_536),
        s.counts.duplicate
    );
    if let Some(highest) = f.highest.filter(|_| f.timed_out) {
        let _ = writeln!(
            out,
            "Timeout occurred: the last received sequence number is {} (lost up to it: {:.2}%)",
            highest % 65_536,
            f.lost_to_highest_pct
        );
    }
    out
}
