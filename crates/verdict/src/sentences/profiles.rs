//! Sentences about the suitability of a path for a profile.

use super::numbers::{percent, rate, time};
use jitlat_core::answer::{Answer, Severity};
use jitlat_core::units::about;

/// Describes a path that suits a profile: by its delay including the buffer if the delay is known, otherwise by the
/// buffer.
pub fn suits(delay_ns: Option<f64>, buffer_ns: i64, missing: f64) -> String {
    match delay_ns {
        Some(delay) => format!("{} one way with the buffer, {} missing", time(delay), percent(missing)),
        None => format!("buffer of {}, {} missing", time(buffer_ns as f64), percent(missing)),
    }
}

/// Describes a share of lost and late packets that exceeds the limit.
pub fn missing(share: f64, limit: f64) -> String {
    format!("{} missing, limit {}", percent(share), short_percent(limit))
}

/// Describes a delay that exceeds the limit; all are in ns. The first value is the smallest that the clocks allow, then the
/// likely one and the largest one. If the smallest one is within the limit, the range is given.
pub fn delay([least, likely, most]: [f64; 3], limit: f64) -> String {
    let delay = match least <= limit {
        true => format!("{} to {}, likely {}", time(least), time(most), time(likely)),
        false => time(likely),
    };
    format!("{delay} one way with the buffer, limit {}", time(limit))
}

/// Describes a buffer that alone exceeds the delay limit; both are in ns. The path's delay is unknown.
pub fn buffer(ns: i64, limit: f64) -> String {
    format!("buffer of {} alone, limit {}", time(ns as f64), time(limit))
}

/// Describes a speech rating below the limit.
pub fn rating(rating: f64, limit: f64) -> String {
    format!("speech rating R {rating:.0}, limit {limit:.0}")
}

/// Adds that the effects of the hosts are included.
pub fn with_the_hosts(because: &str) -> String {
    format!("{because}, hosts included")
}

/// Reason why a profile is not judged with the effects of the hosts.
pub const HOSTS_UNKNOWN: &str = "not judged with the hosts: the analysis ran in constant memory";

/// Describes a sender that reached fewer packets per second than the profile sends.
pub fn rate_not_reached(reached: f64, needed: f64) -> String {
    format!("only {} of its {} packets per second were sent", rate(reached), rate(needed))
}

/// Describes a path whose delay is unknown, and whose other figures are all within their limits.
pub fn delay_unknown(missing: f64) -> String {
    format!("delay unknown, {} missing", percent(missing))
}

/// Describes a test with too few packets to exclude a share of lost and late packets above `limit`.
///
/// `enough` is the number of packets that would exclude it, and the duration of their test in seconds; `None` for what
/// is unknown.
pub fn too_few_packets(packets: u64, limit: f64, enough: Option<(f64, Option<f64>)>) -> String {
    let limit = short_percent(limit);
    match enough {
        None => format!("{packets} packets cannot show less than {limit} missing"),
        Some((enough, None)) => format!("{enough:.0} packets would exclude {limit} missing"),
        Some((enough, Some(seconds))) => {
            format!("{enough:.0} packets ({}) would exclude {limit} missing", about(seconds))
        }
    }
}

/// Formats a limit without trailing zeros: `1 %`, `0.3 %`.
fn short_percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Reason for an interruption: outages of the path.
pub const OUTAGES: &str = "outages";

/// Traffic of a test or a profile.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Payload, in bytes.
    pub payload: u16,
    /// Time between packets, in ms.
    pub period_ms: f64,
}

/// States that the traffic of the test differs from that of the profile.
pub fn other_traffic(measured: Traffic, profile: Traffic) -> String {
    let text = |of: Traffic| format!("{} bytes every {}", of.payload, time(1e6 * of.period_ms));
    format!("{MEASURED}{}{SENDS}{}", text(measured), text(profile))
}

const MEASURED: &str = "measured with ";
const SENDS: &str = "; this profile sends ";

/// Combines the notes about traffic in the limits of several profiles, given as pairs of name and limits, into one
/// sentence: `measured with 80 bytes every 20 ms; video sends 1200 bytes every 5.0 ms`. `None` if the test sent the
/// same traffic as each of them.
pub fn other_traffic_of<'a>(limits: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let mut measured = "";
    let mut uses: Vec<String> = Vec::new();
    for (name, limits) in limits {
        let traffic = limits.split(MEASURED).nth(1).and_then(|rest| rest.split_once(SENDS));
        if let Some((test, profile)) = traffic {
            measured = test;
            uses.push(format!("{name} sends {}", profile.split(';').next().unwrap_or_default()));
        }
    }
    (!uses.is_empty()).then(|| format!("{MEASURED}{measured}; {}", uses.join(", ")))
}

/// States that the path's delay is unknown.
pub const DELAY_UNKNOWN: &str = "the path's delay is unknown and not counted";

/// Returns a note on the grade of the hosts, which is not part of the verdict on the path; `None` if the grade is good
/// or unknown.
pub fn host_note(answer: &Answer) -> Option<String> {
    let host = answer.host.as_ref().filter(|host| host.severity > Severity::Good)?;
    let causes: Vec<&str> = host.causes.iter().map(|id| id.name()).collect();
    let causes = if causes.is_empty() { "rate not reached".to_owned() } else { causes.join(", ") };
    Some(format!("hosts: {} ({causes}); this is not part of the verdict on the path", host.severity.name()))
}

/// Returns an explanation of the grade of `answer` if the verdict for a profile is worse than that grade.
pub fn grade_note(answer: &Answer) -> Option<&'static str> {
    let worse = |severity: Severity| severity > answer.severity && answer.severity > Severity::Unknown;
    let is_worse = answer.profiles.values().any(|suits| worse(suits.severity));
    is_worse.then_some("the verdict is for a conversation with this buffer; each profile has its own limits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_that_may_be_within_the_limit_is_a_range() {
        let ms = |values: [f64; 3]| delay(values.map(|ms| ms * 1e6), 20e6);
        assert_eq!(
            ms([5.4, 29.0, 52.0]),
            "5.4 ms to 52 ms, likely 29 ms one way with the buffer, limit 20 ms"
        );
        assert_eq!(ms([21.0, 29.0, 37.0]), "29 ms one way with the buffer, limit 20 ms");
    }

    #[test]
    fn limits_are_written_without_trailing_zeros() {
        assert_eq!(
            [0.01, 0.003, 0.001, 0.1, 0.0].map(short_percent),
            ["1 %", "0.3 %", "0.1 %", "10 %", "0 %"]
        );
    }

    #[test]
    fn other_traffic_is_named_once() {
        let traffic = |payload, period_ms| Traffic { payload, period_ms };
        let [video, telemetry] = [traffic(1200, 5.0), traffic(100, 1000.0)];
        let measured = traffic(80, 20.0);
        let limits = [
            ("video", other_traffic(measured, video)),
            ("voice", DELAY_UNKNOWN.to_owned()),
            ("telemetry", format!("{}; {DELAY_UNKNOWN}", other_traffic(measured, telemetry))),
        ];
        assert_eq!(
            other_traffic_of(limits.iter().map(|(name, limits)| (*name, limits.as_str()))).unwrap(),
            "measured with 80 bytes every 20 ms; video sends 1200 bytes every 5.0 ms, telemetry sends 100 bytes every 1.0 s"
        );
        assert_eq!(other_traffic_of([("voice", DELAY_UNKNOWN)].into_iter()), None);
    }
}
