//! Headline: the verdict on a test in one sentence.

use super::causes::{direction, is_path_or_clock, lost_size, tcp_limit};
use super::numbers::{self, buffer_size, count, moment, percent, rate, time};
use jitlat_core::Span;
use jitlat_core::answer::{Answer, Cause, CauseId, Fault, Severity};
use jitlat_core::evidence::KnownPackets;
use jitlat_core::session::Ending;
use jitlat_core::spec::Transport;
use jitlat_core::summary::ShareInterval;

/// Returns the headline of `answer` for a test that ended with `ending` and has the packets `known`, of which `received`
/// arrived and `lost` were lost. `effect` is the effect that users notice most; it is used if no cause explains the severity of the verdict.
pub fn headline(
    answer: &Answer,
    ending: Ending,
    known: KnownPackets,
    [received, lost]: [u64; 2],
    effect: Option<&str>,
) -> String {
    let Answer { severity, causes, buffer_ns, .. } = answer;
    let severity = *severity;
    let incomplete = if known.complete {
        String::new()
    } else {
        let share = known.unknown as f64 / (known.unknown + known.sent).max(1) as f64;
        let why = match ending {
            Ending::ServerStopped => "The server was stopped during the test",
            _ => "The log is incomplete",
        };
        match known.unknown {
            0 => format!("{why}. "),
            n => {
                let are = if n == 1 { "is" } else { "are" };
                format!("{why}: {} ({}) {are} unknown. ", count(n, "packet"), percent(share))
            }
        }
    };
    let finding = if let (Severity::Unknown, Some(effect)) = (severity, effect) {
        format!("No verdict: {effect}.")
    } else if received == 0 && known.complete && known.sent > 0 {
        causes.iter().find(|c| c.id == CauseId::Mtu).map_or_else(|| NOTHING_ARRIVED.to_owned(), too_large)
    } else if severity == Severity::Unknown {
        format!("No verdict: {}.", too_few_packets(known.sent, lost, Some(&ShareInterval::default())))
    } else {
        // Causes in a host or a clock do not explain the path's grade.
        let explains =
            |c: &Cause| severity == Severity::Good || matches!(c.fault, Fault::Path | Fault::Record);
        let wrong = causes.iter().find(|c| c.id != CauseId::IncompleteLog && explains(c));
        let wrong = wrong.filter(|c| c.severity > Severity::Good || severity == Severity::Good);
        // The sending host's own queue changes what the delays mean, so it is always named.
        let own_queue = causes
            .iter()
            .find(|c| c.id == CauseId::LocalQueue && c.magnitude_ns.unwrap_or(0) >= NAMED_OWN_QUEUE_NS)
            .filter(|c| wrong.is_none_or(|wrong| wrong.id != c.id));
        let finding = match wrong {
            Some(cause) => sentence(cause, known.end),
            None if severity == Severity::Good && !is_delay_known(answer) => {
                "nothing is wrong, but the delay is unknown".to_owned()
            }
            None if severity == Severity::Good => "nothing is wrong".to_owned(),
            None => effect.map_or_else(|| "no single cause explains it".to_owned(), str::to_owned),
        };
        let buffer = match buffer_ns {
            Some(ns) if severity <= Severity::Fair => format!("; set a buffer of {}", buffer_size(*ns)),
            _ => String::new(),
        };
        // On a good path, only causes of the same kind are counted.
        let counts = |c: &&Cause| match wrong {
            Some(wrong) if severity == Severity::Good => c.id == wrong.id,
            _ => c.id != CauseId::IncompleteLog && c.severity > Severity::Good,
        };
        let others = causes.iter().filter(counts).count();
        let more = if others > 1 { format!(" ({} more)", others - 1) } else { String::new() };
        let own_queue = own_queue.map_or_else(String::new, |c| format!("; {}", sentence(c, known.end)));
        format!("{}: {finding}{more}{buffer}{own_queue}.", grade(severity))
    };
    format!("{incomplete}{finding}")
}

/// Returns the grade with which a headline begins.
fn grade(severity: Severity) -> &'static str {
    match severity {
        Severity::Unknown => "Unknown",
        Severity::Good => "Good",
        Severity::Fair => "Fair",
        Severity::Poor => "Poor",
        Severity::Bad => "Bad",
    }
}

/// Minimum wait in the sending host's own interface that the headline names, in ns.
const NAMED_OWN_QUEUE_NS: i64 = 20_000_000;

/// Headline of a test of which no packet arrived.
pub const NOTHING_ARRIVED: &str =
    "Bad: nothing arrived: there is no path for this traffic, or a firewall blocks it.";

/// Returns the headline of a browser's test without an answer within `timeout`. The browser reported the test over the same
/// connection, so the path exists and nothing blocks it.
pub fn no_answer_in_time(timeout: Option<Span>) -> String {
    let within =
        timeout.map_or_else(|| "in time".to_owned(), |limit| format!("within {}", time(limit.0 as f64)));
    format!(
        "Bad: no answer arrived {within}, although the connection remained open: the path delayed the answers for longer, \
         or the browser did not read them."
    )
}

/// Returns the headline of a test of which only `malformed` answers arrived, which could not be read. `may_differ` is true if
/// the ends may use different time formats.
pub fn only_malformed(malformed: u64, may_differ: bool) -> String {
    let hint = if may_differ { "; both ends must use the same time format (--ptp)" } else { "" };
    format!("Bad: {} arrived that could not be read{hint}.", count(malformed, "answer"))
}

/// Returns the headline of a test whose packets are too large for the path, from the evidence of `cause`.
fn too_large(cause: &Cause) -> String {
    format!("Bad: nothing arrived: {}.", first_clause(cause))
}

/// Returns the headline of a test for which only the far host's count is known: `received` of `sent` packets.
pub fn of_counts(sent: u64, received: u64) -> String {
    if received == 0 {
        return NOTHING_ARRIVED.to_owned();
    }
    let result = match sent.saturating_sub(received) {
        0 => format!("all {} arrived", count(sent, "packet")),
        lost => {
            format!(
                "{lost} of {} lost ({})",
                count(sent, "packet"),
                percent(lost as f64 / sent.max(1) as f64)
            )
        }
    };
    format!("No verdict: {result}; the far host reports only this count.")
}

/// Explains why there is no verdict: the hosts themselves affected `touched` of `sent` packets.
pub fn not_as_asked(touched: u64, sent: u64) -> String {
    let share = percent(touched as f64 / sent.max(1) as f64);
    format!("the hosts themselves sent late, read late, dropped, refused or skipped {share} of the packets")
}

/// Rate of a sender that did not keep its schedule, in packets per second.
#[derive(Clone, Copy, Debug)]
pub struct RateReached {
    /// Rate that the sender reached.
    pub sent: f64,
    /// Rate that was requested.
    pub asked: f64,
    /// Transport protocol.
    pub transport: Transport,
    /// True if the sender slowed down because packets were marked with CE, as it must.
    pub marked: bool,
}

/// Describes a sender that did not reach the requested rate.
pub fn rate_reached(reached: RateReached) -> String {
    let RateReached { sent, asked, transport, marked } = reached;
    if marked {
        let (sent, asked) = (rate(sent), rate(asked));
        return format!(
            "slowed down to {sent} of {asked} packets per second because routers marked packets (CE)"
        );
    }
    let who = match transport {
        Transport::Udp => "the sending host",
        Transport::Tcp => "the sender or its connection",
    };
    format!("{who} reached only {} of {} packets per second", rate(sent), rate(asked))
}

/// Restricts a headline to the rate that the sender reached: the requested rate was not measured.
pub fn at_rate(headline: &str, reached: RateReached) -> String {
    let RateReached { sent, asked, transport, marked } = reached;
    let why = match transport {
        _ if marked => "because the test slowed down when routers marked packets (CE)",
        Transport::Udp => "which the sending host did not reach",
        Transport::Tcp => "which the sender or its connection did not reach",
    };
    let (sent, asked) = (rate(sent), rate(asked));
    match headline.split_once(": ") {
        Some((grade @ ("Good" | "Fair" | "Poor" | "Bad"), rest)) => {
            format!(
                "{grade} at {sent} packets per second, not measured at the requested {asked}, {why}: {rest}"
            )
        }
        _ => format!("{headline} Not measured as requested: {}.", rate_reached(reached)),
    }
}

/// A flood: requests to all hosts of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// Number of requests that left this host.
    pub sent: u64,
    /// Number of requests that this host did not send: its system refused them, or they would have left too late.
    pub unsent: u64,
    /// Number of requests that at least one host answered.
    pub answered: u64,
    /// Time between requests; `None` if it varies.
    pub period: Option<Span>,
}

/// Returns the headline of a flood: what was sent, and that silence means nothing.
pub fn of_flood(flood: Flood) -> String {
    let Flood { sent, unsent, answered, period } = flood;
    if sent == 0 {
        return format!("No flood: this host sent none of {}.", count(unsent, "request"));
    }
    let pace = period.filter(|period| period.0 > 0 && sent > 1);
    let pace = pace.map_or_else(String::new, |p| format!(", {} per second", rate(1e9 / p.0 as f64)));
    let unsent = match unsent {
        0 => String::new(),
        n => format!("; this host did not send {n} more"),
    };
    let answers = match answered {
        0 => "no host answered, and none has to".to_owned(),
        n => {
            let share = percent(n as f64 / sent as f64);
            format!("{n} ({share}) were answered, and none has to be, so loss is unknown")
        }
    };
    format!("Flood: {} to all hosts of the segment{pace}{unsent}; {answers}.", count(sent, "request"))
}

/// Describes the effect of lost and late packets.
pub fn effect_of_missing(share: f64) -> String {
    format!("{} of packets arrive too late or never", percent(share))
}

/// Describes the effect of a long delay.
pub fn effect_of_delay(ns: f64) -> String {
    format!("packets take {} one way", time(ns))
}

/// Describes the effect of jitter.
pub fn effect_of_jitter(ns: i64) -> String {
    format!("the delay varies by {}", time(ns as f64))
}

/// Describes a test of too few packets, `lost` of which were lost, with the interval of the loss ratio; `None` over TCP, which repeats
/// lost packets.
pub fn too_few_packets(sent: u64, lost: u64, losses: Option<&ShareInterval>) -> String {
    if sent == 0 {
        return "no packets are known".to_owned();
    }
    let are = if sent == 1 { "is" } else { "are" };
    let Some(losses) = losses else {
        return format!("{} {are} too few; TCP repeats lost packets", count(sent, "packet"));
    };
    let were = if lost == 1 { "was" } else { "were" };
    let loss = match (lost, losses.ci95) {
        // Three packets or fewer do not bound the loss ratio in a useful way.
        (0, _) if sent <= 3 => "none were lost".to_owned(),
        (0, _) => {
            let most = percent(3.0 / sent as f64);
            format!("none were lost, so loss is below {most} (95 % confidence)")
        }
        (_, Some([low, high])) => {
            let [low, high] = [low, high].map(percent);
            format!("{lost} {were} lost, so loss is between {low} and {high} (95 % confidence)")
        }
        (2.., None) if losses.events == 1 => {
            format!("{lost} {were} lost in one event, which does not show how often it happens")
        }
        _ => format!("{lost} {were} lost"),
    };
    format!("{} {are} too few; {loss}", count(sent, "packet"))
}

/// Returns true if the path's delay counts in the verdicts on the profiles of `answer`, or if there are no profiles.
fn is_delay_known(answer: &Answer) -> bool {
    answer.profiles.values().all(|suits| suits.delay_ns.is_some())
}

/// Returns the time of a cause that affects only a part of the test; empty if it extends from the first tenth of the
/// test to the last.
fn part(c: &Cause, packets: u64) -> String {
    let [first, last] = c.packets;
    if packets == 0 || first <= packets / 10 && last.saturating_add(packets / 10) >= packets {
        return String::new();
    }
    format!(", {}", numbers::span([c.from_s, c.to_s]))
}

/// Returns the clause about `c` in a test of `packets` packets.
fn sentence(c: &Cause, packets: u64) -> String {
    let direction = direction(c.direction);
    let ns = time(c.magnitude_ns.unwrap_or(0).unsigned_abs() as f64);
    let share = percent(c.magnitude.unwrap_or(0.0));
    let from = moment(c.from_s);
    let span = || numbers::span([c.from_s, c.to_s]);
    let part = || part(c, packets);
    match c.id {
        CauseId::Outage if c.count > 1 => {
            format!("{} outages{direction}, the longest {ns}, {}", c.count, span())
        }
        CauseId::Outage => format!("no packet arrived{direction} for {ns}, from {from} on"),
        CauseId::Queue if c.limited_by.is_some() => {
            let limit = c.limited_by.map_or("", tcp_limit);
            format!("TCP held packets back{direction} for up to {ns} ({limit}), {}", span())
        }
        CauseId::Queue if c.count > 1 => {
            format!("{} queues{direction} of up to {ns}, {}", c.count, span())
        }
        CauseId::Queue => format!("packets waited up to {ns} in a queue{direction}, {}", span()),
        CauseId::RandomLoss => format!("{share} of packets lost{direction}, in isolated losses{}", part()),
        CauseId::BurstyLoss => format!("{share} of packets lost{direction}, in bursts{}", part()),
        CauseId::Policing => format!("{share} of packets lost{direction}, dropped by a rate limit"),
        CauseId::PeriodicLoss => {
            let every = time(1e9 * c.period_s.unwrap_or(0.0));
            format!("{share} of packets lost{direction} at regular intervals, every {every}{}", part())
        }
        CauseId::Reordering => format!("{share} of packets reordered{direction}{}", part()),
        CauseId::RouteChange if is_path_or_clock(c) => {
            let how = if c.magnitude_ns.unwrap_or(0) < 0 { "fell" } else { "rose" };
            let more = if c.count > 1 { " or more" } else { "" };
            format!("the delay{direction} {how} by {ns}{more} at {from}: {PATH_OR_CLOCK}")
        }
        CauseId::RouteChange if c.count > 1 => {
            format!("{} route changes{direction} of up to {ns}, {}", c.count, span())
        }
        CauseId::RouteChange => {
            let how = if c.magnitude_ns.unwrap_or(0) < 0 { "shorter" } else { "longer" };
            format!("the path{direction} became {ns} {how} at {from}: a route change")
        }
        CauseId::ClockStep => format!("nothing is wrong with the path; a clock was set by {ns} at {from}"),
        CauseId::ClockSkew if c.confidence < 0.9 => {
            format!("the delay changed by {ns}, as slowly as a clock that is adjusted, {}", span())
        }
        CauseId::ClockSkew => format!("nothing is wrong with the path; the clocks drift apart by {ns}"),
        CauseId::SenderStall => stall("sender", c, &ns, &from),
        CauseId::ReceiverStall if c.magnitude_ns.is_none() => {
            format!("the receiving host dropped {share} of the packets itself")
        }
        CauseId::ReceiverStall => stall("receiver", c, &ns, &from),
        CauseId::LocalQueue => {
            format!("packets waited up to {ns} in the sending host's own interface, {}", span())
        }
        CauseId::Duplication => format!("{share} of packets arrive twice{direction}"),
        CauseId::SizeDependent => {
            format!("{share} of packets lost{direction}, all of {}", lost_size(&c.because))
        }
        CauseId::Mtu => first_clause(c).to_owned(),
        CauseId::EcnBleached
        | CauseId::EcnRemarked
        | CauseId::CeErased
        | CauseId::EctDropped
        | CauseId::EcnMarked
        | CauseId::DualQueue => format!("{}{direction}", first_clause(c)),
        CauseId::SendFailure => format!("the sending host did not send {share} of the packets"),
        CauseId::IncompleteLog => "a part of the test is unknown".to_owned(),
        CauseId::CaptureClock => {
            format!("nothing is wrong with the path; the capture's clock was set by {ns} at {from}")
        }
    }
}

/// Reasons for a change of the delay between which one stream at one capture point cannot decide.
const PATH_OR_CLOCK: &str = "a change of the path or of the recording's clock";
/// Reason for the same change if the clock was not set.
const PATH_CHANGED: &str = "another path";

/// Names the path as the only reason in a headline, as [`confirm_path`](super::causes::confirm_path) does in a cause.
pub fn confirm_path(headline: &str) -> String {
    headline.replace(PATH_OR_CLOCK, PATH_CHANGED)
}

/// Returns the evidence of `cause` up to the colon.
fn first_clause(cause: &Cause) -> &str {
    cause.because.split(':').next().unwrap_or_default()
}

fn stall(who: &str, c: &Cause, ns: &str, from: &str) -> String {
    match c.count {
        0..=1 => format!("the {who} stalled for {ns}, from {from} on"),
        n => {
            let longest = c.largest.map_or(c.from_s, |largest| largest.from_s);
            format!("the {who} stalled {n} times, the longest for {ns} at {}", moment(longest))
        }
    }
}

#[cfg(test)]
mod tests;
