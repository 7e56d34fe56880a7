//! The values of a log's `# key value` lines: each type as text, and back.

use core::str::FromStr;
use jitlat_core::clock::{AdapterClock, AdapterTimescale, SyncState};
use jitlat_core::gaps::Gaps;
use jitlat_core::load::TestLoad;
use jitlat_core::metrics::seqset::SeqRun;
use jitlat_core::session::{Ending, SizeLimit};
use jitlat_core::tcp::TcpMoment;
use jitlat_core::twoway::ScheduleShift;
use jitlat_core::{ClockProbe, Direction, Schedule, Span, WallTime};

pub(super) fn parse<T: FromStr>(what: &str, value: &str) -> Result<T, String> {
    value.trim().parse().map_err(|_| format!("'{}' is not {what}", value.trim()))
}

pub(super) fn span(value: &str) -> Result<Span, String> {
    parse("a number of nanoseconds", value).map(Span)
}

pub(super) fn unless<T>(forget: bool, read: impl FnOnce() -> Result<T, String>) -> Result<Option<T>, String> {
    if forget { Ok(None) } else { read().map(Some) }
}

pub(super) fn direction(value: &str) -> Result<Direction, String> {
    match value.trim() {
        "up" => Ok(Direction::Up),
        "down" => Ok(Direction::Down),
        other => Err(format!("direction '{other}' is neither up nor down")),
    }
}

pub(super) fn schedule(value: &str) -> Result<Schedule, String> {
    let unknown = || {
        format!(
            "'{}' is not a schedule: periodic, poisson SEED, burst SIZE, or a distribution of gaps",
            value.trim()
        )
    };
    let mut fields = value.split_ascii_whitespace();
    if let Some(random) = random(value) {
        return Ok(random);
    }
    match (fields.next(), fields.next()) {
        (Some("periodic"), None) => Ok(Schedule::Periodic),
        (Some("poisson"), Some(seed)) => {
            seed.parse().map(|seed| Schedule::Poisson { seed }).map_err(|_| unknown())
        }
        (Some("burst"), Some(size)) => match size.parse() {
            Ok(size) if size > 0 => Ok(Schedule::Burst { size }),
            _ => Err(unknown()),
        },
        _ => Err(unknown()),
    }
}

/// Parses `uniform LEAST MOST BATCH SEED`, `exponential LEAST MEAN BATCH SEED` or `normal MEAN DEVIATION BATCH SEED`;
/// `None` for any other text.
fn random(value: &str) -> Option<Schedule> {
    let fields: Vec<&str> = value.split_ascii_whitespace().collect();
    let &[law, first, second, batch, seed] = fields.as_slice() else { return None };
    let [first, second] = [Span(first.parse().ok()?), Span(second.parse().ok()?)];
    let gaps = match law {
        "uniform" => Gaps::Uniform { least: first, most: second },
        "exponential" => Gaps::Exponential { least: first, mean: second },
        "normal" => Gaps::Normal { mean: first, deviation: second },
        _ => return None,
    };
    let batch = batch.parse().ok().filter(|b| *b > 0)?;
    gaps.is_possible().then_some(Schedule::Random { gaps, batch, seed: seed.parse().ok()? })
}

pub(super) fn schedule_text(schedule: Schedule) -> String {
    match schedule {
        Schedule::Periodic => "periodic".to_owned(),
        Schedule::Poisson { seed } => format!("poisson {seed}"),
        Schedule::Burst { size } => format!("burst {size}"),
        Schedule::Random { gaps, batch, seed } => random_text(gaps, batch, seed),
    }
}

fn random_text(gaps: Gaps, batch: u32, seed: u64) -> String {
    let (law, first, second) = match gaps {
        Gaps::Uniform { least, most } => ("uniform", least, most),
        Gaps::Exponential { least, mean } => ("exponential", least, mean),
        Gaps::Normal { mean, deviation } => ("normal", mean, deviation),
    };
    format!("{law} {} {} {batch} {seed}", first.0, second.0)
}

pub(super) fn probe(value: &str) -> Result<ClockProbe, String> {
    let times: Option<Vec<i64>> = value.split_ascii_whitespace().map(|t| t.parse().ok()).collect();
    match times.as_deref() {
        Some(&[sent, arrived, answered, returned]) => Ok(ClockProbe {
            sent: WallTime(sent),
            arrived: WallTime(arrived),
            answered: WallTime(answered),
            returned: WallTime(returned),
        }),
        _ => Err(format!("probe '{}' does not have four timestamps in nanoseconds", value.trim())),
    }
}

pub(super) fn probe_text(p: &ClockProbe) -> String {
    format!("{} {} {} {}", p.sent.0, p.arrived.0, p.answered.0, p.returned.0)
}

/// Returns the value of the key `name` among the pairs in `value`.
fn pair<'a>(value: &'a str, name: &str) -> Result<&'a str, String> {
    let found = value.split_ascii_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
    found.ok_or_else(|| format!("'{}' lacks {name}=", value.trim()))
}

pub(super) fn adapter_clock(value: &str) -> Result<AdapterClock, String> {
    let all = [AdapterTimescale::Utc, AdapterTimescale::Tai, AdapterTimescale::Other];
    let name = pair(value, "timescale")?;
    let timescale = all.into_iter().find(|scale| scale.name() == name);
    Ok(AdapterClock {
        device: parse("the number of a clock", pair(value, "device")?)?,
        timescale: timescale.ok_or_else(|| format!("timescale={name} is neither utc, tai nor other"))?,
        offset: span(pair(value, "offset")?)?,
        bound: span(pair(value, "bound")?)?,
    })
}

pub(super) fn adapter_clock_text(clock: &AdapterClock) -> String {
    let AdapterClock { device, timescale, offset, bound } = clock;
    format!("device={device} timescale={} offset={} bound={}", timescale.name(), offset.0, bound.0)
}

pub(super) fn sync(value: &str) -> Result<SyncState, String> {
    let field = |name: &str| pair(value, name);
    Ok(SyncState {
        synchronised: match field("synchronised")? {
            "yes" => true,
            "no" => false,
            other => return Err(format!("synchronised={other} is neither yes nor no")),
        },
        offset: span(field("offset")?)?,
        estimated_error: span(field("estimated_error")?)?,
        maximum_error: span(field("maximum_error")?)?,
        frequency_ppb: parse("parts per billion", field("frequency_ppb")?)?,
    })
}

pub(super) fn sync_text(s: &SyncState) -> String {
    let SyncState { synchronised, offset, estimated_error, maximum_error, frequency_ppb } = s;
    format!(
        "synchronised={} offset={} estimated_error={} maximum_error={} frequency_ppb={frequency_ppb}",
        if *synchronised { "yes" } else { "no" },
        offset.0,
        estimated_error.0,
        maximum_error.0
    )
}

pub(super) fn ending(value: &str) -> Result<Ending, String> {
    ENDINGS
        .iter()
        .find(|(_, name)| *name == value.trim())
        .map(|(ending, _)| *ending)
        .ok_or_else(|| format!("unknown ending '{}'", value.trim()))
}

/// `None` if it is unknown how the test ended: a log then has no line about it.
pub(super) fn ending_text(ending: Ending) -> Option<&'static str> {
    ENDINGS.iter().find(|(e, _)| *e == ending && *e != Ending::Unknown).map(|(_, name)| *name)
}

const ENDINGS: [(Ending, &str); 6] = [
    (Ending::Complete, "complete"),
    (Ending::Interrupted, "interrupted"),
    (Ending::PeerLost, "peer_lost"),
    (Ending::ServerStopped, "server_stopped"),
    (Ending::StorageFailed, "storage_failed"),
    (Ending::Unknown, "unknown"),
];

/// Parses a time with its unit, exact to the nanosecond: `31.340420000 s`, `-80.000 us`, `0.000 s`. `None` for any
/// other text.
pub(super) fn quantity(text: &str) -> Option<Span> {
    let text = text.trim();
    let at = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)))?;
    let (number, unit) = text.split_at(at);
    let exponent = match unit.trim() {
        "s" | "sec" | "seconds" => 9,
        "ms" | "msec" => 6,
        "us" | "µs" | "μs" | "usec" => 3,
        "ns" | "nsec" => 0,
        _ => return None,
    };
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0
        || !(whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit())
    {
        return None;
    }
    // Digits below a nanosecond are ignored.
    let digits = fraction.get(..exponent).unwrap_or(fraction);
    let scaled: i64 = format!("{whole}{digits:0<exponent$}").parse().ok()?;
    Some(Span(if negative { -scaled } else { scaled }))
}

/// Parses the JSON of a load.
pub(super) fn load(text: &str) -> Result<TestLoad, String> {
    let load: TestLoad = serde_json::from_str(text).map_err(|e| format!("'{text}' is not a load: {e}"))?;
    match load.throughput.iter().any(|throughput| throughput.interval.0 <= 0) {
        true => Err("the throughput of the load has no interval".to_owned()),
        false => Ok(load),
    }
}

pub(super) fn size_limit_text(limit: &SizeLimit) -> String {
    let SizeLimit { packet, passes, fails, payload } = limit;
    format!("packet={packet} passes={passes} fails={fails} payload={payload}")
}

pub(super) fn size_limit(text: &str) -> Result<SizeLimit, String> {
    let field = |name: &str| {
        let found = text.split_ascii_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|n| n.parse().ok()).ok_or_else(|| format!("'{}' lacks {name}=", text.trim()))
    };
    Ok(SizeLimit {
        packet: field("packet")?,
        passes: field("passes")?,
        fails: field("fails")?,
        payload: field("payload")?,
    })
}

pub(super) const MOMENTS_PER_LINE: usize = 8;

/// Formats moments as numbers separated by commas, in the order of the fields.
pub(super) fn tcp_text(moments: &[TcpMoment]) -> String {
    let one = |m: &TcpMoment| {
        let TcpMoment { at, window, slow_start, unacknowledged, unsent, round_trip_us, .. } = *m;
        let TcpMoment { retransmissions, busy_us, receive_window_us, send_buffer_us, .. } = *m;
        format!(
            "{},{window},{},{unacknowledged},{unsent},{round_trip_us},{retransmissions},{busy_us},{receive_window_us},\
             {send_buffer_us}",
            at.0,
            u8::from(slow_start)
        )
    };
    moments.iter().map(one).collect::<Vec<_>>().join(" ")
}

pub(super) fn tcp_moments(text: &str) -> Result<Vec<TcpMoment>, String> {
    let one = |text: &str| {
        let numbers: Option<Vec<i64>> = text.split(',').map(|n| n.parse().ok()).collect();
        let &[at, window, slow_start, unacknowledged, unsent, rtt, retransmissions, busy, receive, send, ..] =
            numbers?.as_slice()
        else {
            return None;
        };
        let small = |n: i64| u32::try_from(n).ok();
        let large = |n: i64| u64::try_from(n).ok();
        Some(TcpMoment {
            at: Span(at),
            window: small(window)?,
            slow_start: slow_start != 0,
            unacknowledged: small(unacknowledged)?,
            unsent: small(unsent)?,
            round_trip_us: small(rtt)?,
            retransmissions: small(retransmissions)?,
            busy_us: large(busy)?,
            receive_window_us: large(receive)?,
            send_buffer_us: large(send)?,
        })
    };
    let read = |text| one(text).ok_or_else(|| format!("'{text}' is not the state of a TCP connection"));
    text.split_ascii_whitespace().map(read).collect()
}

pub(super) const RUNS_PER_LINE: usize = 16;

/// Formats runs of sequence numbers as the first and the last number of each: `100-224 300-300`.
pub(super) fn runs_text(runs: &[SeqRun]) -> String {
    let runs: Vec<String> =
        runs.iter().map(|run| format!("{}-{}", run.start, run.start + run.len.max(1) - 1)).collect();
    runs.join(" ")
}

pub(super) fn runs(text: &str) -> Result<Vec<SeqRun>, String> {
    let one = |text: &str| {
        let (first, last) = text.split_once('-')?;
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let len = u64::from(last.checked_sub(first)?) + 1;
        Some(SeqRun { start: first.into(), len })
    };
    let read = |text| one(text).ok_or_else(|| format!("'{text}' is not a range of packets (100-224)"));
    text.split_ascii_whitespace().map(read).collect()
}

/// True if `runs` are ascending and do not overlap.
pub(super) fn are_ascending(runs: &[SeqRun]) -> bool {
    runs.windows(2).all(|pair| pair[0].start + pair[0].len <= pair[1].start)
}

pub(super) const SHIFTS_PER_LINE: usize = 16;

/// Formats shifts as `20+400000000 60+35000000`: the first sequence number to which a shift applies, and the delay, in
/// ns, that it adds to the due times of this packet and all later ones.
pub(super) fn shifts_text(shifts: &[ScheduleShift]) -> String {
    let shifts: Vec<String> = shifts.iter().map(|shift| format!("{}+{}", shift.seq, shift.by.0)).collect();
    shifts.join(" ")
}

pub(super) fn shifts(text: &str) -> Result<Vec<ScheduleShift>, String> {
    let one = |text: &str| {
        let (seq, by) = text.split_once('+')?;
        let by = by.parse().ok().filter(|by| *by >= 0)?;
        Some(ScheduleShift { seq: seq.parse().ok()?, by: Span(by) })
    };
    let read =
        |text| one(text).ok_or_else(|| format!("'{text}' is not a shift of the schedule (20+400000000)"));
    text.split_ascii_whitespace().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        for (text, ns) in [
            ("31.340420000 s", 31_340_420_000),
            ("-80.000 us", -80_000),
            (" 0.000 s ", 0),
            ("3.231 s", 3_231_000_000),
            ("267.0us", 267_000),
            ("1.5 µs", 1_500),
            ("+.5 ms", 500_000),
            ("7 ns", 7),
            ("1.99999999999 ns", 1),
        ] {
            assert_eq!(quantity(text), Some(Span(ns)), "{text}");
        }
        for text in ["", "s", "3", "3 m", "- s", ". s", "1e3 s", "1-2 s", "99999999999999999999 s", "--1 s"] {
            assert_eq!(quantity(text), None, "{text}");
        }
    }
}
