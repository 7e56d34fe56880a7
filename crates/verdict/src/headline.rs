//! The answer in one sentence.

use super::numbers::{count, moment, percent, time};
use super::severity::{Experience, Played};
use jitlat_core::answer::{Answer, Cause, CauseId, Severity};
use jitlat_core::evidence::KnownPackets;
use jitlat_core::spec::Direction;

/// The headline of `answer` to a test of which `known` is known, of which `received` packets were received and `lost`
/// lost; `felt` is said where no cause accounts for its severity.
pub fn headline(
    answer: &Answer,
    known: KnownPackets,
    [received, lost]: [u64; 2],
    felt: Option<&str>,
) -> String {
    let Answer { severity, causes, buffer_ns, .. } = answer;
    let severity = *severity;
    let incomplete = if known.complete {
        String::new()
    } else {
        let share = known.unknown as f64 / (known.unknown + known.sent).max(1) as f64;
        match known.unknown {
            0 => "The log is incomplete. ".to_owned(),
            n => format!(
                "The log is incomplete: of {} ({}) nothing is known. ",
                count(n, "packet"),
                percent(share)
            ),
        }
    };
    let what = if received == 0 && known.complete && known.sent > 0 {
        "Bad: nothing arrived: there is no path for this traffic, or a firewall in it.".to_owned()
    } else if severity == Severity::Unknown {
        few(known.sent, lost)
    } else {
        let wrong = causes.iter().find(|c| c.id != CauseId::IncompleteLog);
        let name = ["Unknown", "Good", "Fair", "Poor", "Bad"][severity as usize];
        let what = match wrong.filter(|c| c.severity > Severity::Good || severity == Severity::Good) {
            Some(cause) => sentence(cause),
            None if severity == Severity::Good => "nothing is wrong".to_owned(),
            None => felt.map_or_else(|| "no single cause accounts for it".to_owned(), str::to_owned),
        };
        let buffer = match buffer_ns {
            Some(ns) if severity <= Severity::Fair => format!("; set a buffer of {}", time(*ns as f64)),
            _ => String::new(),
        };
        let others =
            causes.iter().filter(|c| c.id != CauseId::IncompleteLog && c.severity > Severity::Good).count();
        let more = if others > 1 { format!(" ({} more)", others - 1) } else { String::new() };
        format!("{name}: {what}{more}{buffer}.")
    };
    format!("{incomplete}{what}")
}

/// What is felt most with the buffer played with. None where nothing is.
pub fn most_felt(played: &Played, lived: &Experience) -> Option<String> {
    let missing = played.of_missing(lived.sent);
    let (wait, worst) = (played.of_wait(), played.severity);
    let delay = lived.base_ns.map(|base| base + played.buffer_ns as f64);
    match delay {
        _ if worst <= Severity::Good => None,
        _ if missing == worst => {
            Some(format!("{} of the packets come too late or never", percent(played.missing)))
        }
        Some(delay) if wait < worst => Some(format!("packets take {} one way", time(delay))),
        _ => Some(format!("the delay varies by {}", time(played.buffer_ns as f64))),
    }
}

fn few(sent: u64, lost: u64) -> String {
    if sent == 0 {
        return "No verdict: no packet is known of.".to_owned();
    }
    let bound = jitlat_core::metrics::stat::wilson95(lost, sent).unwrap_or([0.0, 1.0]);
    let loss = match lost {
        0 => {
            format!("none lost, so less than {} with 95 % confidence", percent((3.0 / sent as f64).min(1.0)))
        }
        n => format!("{n} lost, so {} to {} with 95 % confidence", percent(bound[0]), percent(bound[1])),
    };
    let are = if sent == 1 { "is" } else { "are" };
    format!("No verdict: {} {are} too few; {loss}.", count(sent, "packet"))
}

fn sentence(c: &Cause) -> String {
    let way = match c.direction {
        Some(Direction::Up) => " on the way there",
        Some(Direction::Down) => " on the way back",
        None => "",
    };
    let ns = time(c.magnitude_ns.unwrap_or(0).unsigned_abs() as f64);
    let share = percent(c.magnitude.unwrap_or(0.0));
    let from = moment(c.from_s);
    let times = if c.count > 1 { format!(", {} times", c.count) } else { String::new() };
    match c.id {
        CauseId::Outage if c.count > 1 => format!("no packet{way} {} times, for up to {ns}", c.count),
        CauseId::Outage => format!("no packet{way} for {ns} from {from} on"),
        CauseId::Queue => {
            format!("packets wait up to {ns} in a queue{way}, from {from} to {}", moment(c.to_s))
        }
        CauseId::RandomLoss => format!("{share} of the packets are lost{way}, each for itself"),
        CauseId::BurstyLoss => format!("{share} of the packets are lost{way}, in bursts"),
        CauseId::Policing => format!("{share} of the packets are dropped{way}: what exceeds a rate"),
        CauseId::Reordering => format!("{share} of the packets are overtaken{way}"),
        CauseId::RouteChange => format!("another route{way} from {from} on, by {ns}"),
        CauseId::ClockStep => format!("the path is fine; a clock was set by {ns} at {from}"),
        CauseId::ClockSkew => format!("the path is fine; the clocks drift apart by {ns}"),
        CauseId::SenderStall => format!("the sender stood still for {ns} at {from}{times}"),
        CauseId::ReceiverStall => format!("the receiver stood still for {ns} at {from}{times}"),
        CauseId::LocalQueue => format!(
            "packets wait up to {ns} in the sender's own interface, from {from} to {}",
            moment(c.to_s)
        ),
        CauseId::Duplication => format!("{share} of the packets arrive twice{way}"),
        CauseId::SizeDependent => format!("{share} of the packets are lost{way}: {}", size_of(&c.because)),
        CauseId::SendFailure => format!("the sender's own system refused {share} of the packets"),
        CauseId::IncompleteLog => "a part of the test is unknown".to_owned(),
    }
}

/// The part of the evidence that names the size.
fn size_of(because: &str) -> &str {
    because.split(": ").nth(1).unwrap_or("the long ones")
}

#[cfg(test)]
mod tests;
