//! [`Notes`]: reasons to doubt a figure.

use super::numbers::rate;
use jitlat_core::answer::CauseId;
use jitlat_core::answer::Warning;
use jitlat_core::metrics::schedule_error::ScheduleError;
use jitlat_core::session::{Ending, Session};
use jitlat_core::spec::Transport;
use jitlat_core::summary::Summary;
use jitlat_core::units::{eng4, eng4_f64};

/// Notes reasons to doubt a figure.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<Warning>);

impl Notes {
    fn warn(&mut self, code: &'static str, text: impl Into<String>) {
        self.0.push(Warning::new(code, text));
    }

    /// Every reason for doubt in finished figures.
    pub fn look_at(summary: &Summary, session: &Session, round_trips: bool) -> Vec<Warning> {
        let mut notes = Notes::default();
        notes.sample(summary, session);
        notes.clocks(summary, round_trips);
        notes.hosts(summary, session);
        notes.0
    }

    fn sample(&mut self, s: &Summary, session: &Session) {
        match session.ending {
            Ending::Complete => {}
            Ending::Unknown if !session.has_end_lines() => {}
            ending => {
                let how = match ending {
                    Ending::Interrupted => "the test was stopped early",
                    Ending::PeerLost => "the other host was lost during the test",
                    Ending::StorageFailed => "not everything could be stored",
                    _ => "the log ends before its own end",
                };
                let why = session.reason.as_ref().map_or(String::new(), |r| format!(": {r}"));
                self.warn("incomplete", format!("{how}{why}; the figures are of what was received"));
            }
        }
        if s.counts.tail_unknown {
            let which = match session.unrecorded.is_empty() {
                true => "the packets after the last arrival",
                false => "some packets, of which the log has no rows,",
            };
            self.warn(
                "tail_unknown",
                format!("what became of {which} is not known: they count neither as sent nor as lost"),
            );
        }
        if s.counts.received == 0 {
            self.warn("nothing_received", "no packet was received: there is nothing to compute from");
        } else if s.counts.unique_valid == 0 {
            self.warn("nothing_valid", "no valid packet was received: there is nothing to compute from");
        }
        let without = s.two_way.as_ref().map_or(0, |t| t.without_processing);
        if without > 0 {
            self.warn(
                "processing_unknown",
                format!(
                    "of {without} of {} answers the far host's processing time did not come: they count as received, \
                     and have no delay",
                    s.counts.unique_valid
                ),
            );
        }
        // Of a test whose far host reports its figures there are no percentiles.
        if (1..1000).contains(&s.pdv.n) {
            self.warn(
                "few_packets",
                format!(
                    "{} packets do not resolve the 99.9th percentile: it takes 1000, and some 3700 to bound it",
                    s.counts.unique_valid
                ),
            );
        }
        if s.ipdv.quantised {
            self.warn(
                "coarse_clock",
                "the quartiles of delay variation coincide: the clocks are too coarse for this path",
            );
        }
        if !s.reordering.observable {
            self.warn("tcp", "TCP repairs loss and order: neither is observable, both show as delay");
        }
        if s.segments.len() > 1 && shows(s, &[CauseId::RouteChange, CauseId::ClockStep]) {
            self.warn(
                "path_change",
                format!(
                    "the smallest delay jumps {} time(s), first by {} at packet {}: a route or a clock \
                     changed; believe the per-segment figures, not the jitter of the whole",
                    s.segments.len() - 1,
                    s.segments[1].step_ns.map_or_else(String::new, eng4),
                    s.segments[1].first_seq
                ),
            );
        }
    }

    fn clocks(&mut self, s: &Summary, round_trips: bool) {
        let clock = &s.clock;
        if clock.inconsistent {
            self.warn(
                "clock_inconsistent",
                "no single offset satisfies all probes: a clock was stepped, or the clocks drift apart",
            );
        }
        for (host, state) in [("client", &clock.client), ("server", &clock.server)] {
            // Slewing alone stays below 1000 ppm; a millisecond in a test of seconds is a step.
            if let Some(step) = state.step_ns.filter(|s| s.unsigned_abs() > 1_000_000) {
                self.warn(
                    "clock_step",
                    format!("the {host}'s clock was set by {} during the test", eng4(step)),
                );
            }
        }
        if s.counts.rx_time_regressions > 0 {
            self.warn(
                "receive_time_went_back",
                format!(
                    "receive times go back {} time(s): the receiver's clock was stepped",
                    s.counts.rx_time_regressions
                ),
            );
        }
        let Some(min) = s.latency.min else { return };
        if min < 0 {
            self.warn(
                "negative_delay",
                format!(
                    "the smallest raw delay is {}: the clocks disagree; jitter and loss are not affected",
                    eng4(min)
                ),
            );
        }
        let one_host = s.header.src_ip.is_some() && s.header.src_ip == s.header.dst_ip;
        if clock.offset_ns.is_none() && clock.synchronised().is_none() && !one_host && !round_trips {
            self.warn(
                "clocks_unknown",
                "nothing is known of how the two clocks relate: read no meaning into absolute delay",
            );
        }
        let Some(rtt) = clock.min_rtt_ns.filter(|r| *r > 0) else { return };
        // Packets that wait throughout are behind a queue, which the probes before and after do not meet.
        let queued = s.answer.as_ref().is_some_and(|a| a.names(CauseId::Queue));
        if min > rtt && !queued {
            self.warn(
                "delay_exceeds_rtt",
                format!(
                    "the smallest raw one-way delay, {}, exceeds the round trip of {}: the clocks disagree",
                    eng4(min),
                    eng4(rtt)
                ),
            );
        }
        let Some(corrected) = s.latency_corrected.and_then(|c| c.min) else { return };
        if corrected < -HOST_WAKE_UP_NS || corrected > rtt + HOST_WAKE_UP_NS && !queued {
            self.warn(
                "corrected_out_of_range",
                format!(
                    "the smallest corrected delay, {}, is not between 0 and the round trip of {}: the clock \
                     estimate is wrong, or the direction in the log is",
                    eng4(corrected),
                    eng4(rtt)
                ),
            );
        } else if corrected > 0 && !is_about_half(corrected, rtt) && !queued {
            self.warn(
                "asymmetric",
                format!(
                    "the round trip of {} is {:.1} times the smallest corrected delay of {}: the path is \
                     asymmetric, or the clock estimate is off",
                    eng4(rtt),
                    rtt as f64 / corrected as f64,
                    eng4(corrected)
                ),
            );
        }
        if !clock.direction_known {
            self.warn(
                "direction_unknown",
                "this log does not say which host sent: the correction assumes the client did, and is \
                 wrong by twice the offset if it did not",
            );
        }
    }

    fn hosts(&mut self, s: &Summary, session: &Session) {
        if let Some(stretched) = s.schedule_error.as_ref().and_then(|e| e.stretched) {
            let (who, more) = match session.spec.transport() {
                Transport::Udp => ("the sending host", "; --pace spin may do more"),
                Transport::Tcp => ("the sender or its connection", ""),
            };
            let (sent, asked) = (rate(stretched.rate), rate(stretched.asked));
            self.warn(
                "schedule_stretched",
                format!(
                    "{who} sent {sent} packets a second where {asked} were asked for: the stream was stretched, and was {} \
                     behind at the end{more}",
                    eng4_f64(stretched.late)
                ),
            );
        } else if let Some(e) = s.schedule_error.as_ref().map(ScheduleError::of_program)
            && e.over_half_period > 0
        {
            self.warn(
                "sender_late",
                format!(
                    "the sender was more than half a period late {} time(s), at most {}: its own stalls, \
                     not the network's",
                    e.over_half_period,
                    eng4(e.max)
                ),
            );
        }
        if s.stalls.receiver_suspects > 0 && shows(s, &[CauseId::ReceiverStall]) {
            self.warn(
                "stall_suspect",
                format!(
                    "{} group(s) of packets arrived together after a wait: the receiving host stalled, or \
                     a queue on the path did",
                    s.stalls.receiver_suspects
                ),
            );
        }
        if let Some(noise) = s.noise.as_ref().filter(|n| !n.at_or_below.is_empty()) {
            self.warn(
                "noise_floor",
                format!(
                    "jitter at {} % is less than twice what this host adds by itself (99 % within {} over its \
                     loopback): it may be the host's, not the path's",
                    noise.at_or_below.join(", "),
                    eng4(noise.floor.pdv_p99.0)
                ),
            );
        }
        if let Some(drops) = session.receiver_drops.filter(|d| *d > 0) {
            self.warn(
                "receiver_drops",
                format!(
                    "the receiving kernel dropped {drops} datagram(s) for want of buffer space: that loss \
                     is the host's"
                ),
            );
        }
        if s.pdv_deskewed.is_some() {
            let ppm = s.skew_hull.as_ref().map_or(0.0, |h| h.alpha_ppm);
            self.warn(
                "skew",
                format!(
                    "the clocks drift apart by {ppm:.1} ppm, which inflates jitter over this run: see the \
                     de-skewed figures"
                ),
            );
        }
        let of_answers = s.two_way.as_ref().and_then(|t| t.answer_dscp);
        let asked = of_answers.unwrap_or(s.header.dscp);
        let seen: u64 = s.far_end.dscp.values().sum();
        let kept = s.far_end.dscp.get(&asked).copied().unwrap_or(0);
        // Answers to plain requests have the class that the far host gives them.
        if kept < seen && (s.two_way.is_none() || of_answers.is_some() || asked != 0) {
            let other = s.far_end.dscp.iter().filter(|(d, _)| **d != asked).max_by_key(|(_, n)| **n);
            self.warn(
                "dscp_changed",
                format!(
                    "{} DSCP {asked}, but {} of {seen} packets arrived with another, mostly {}",
                    if of_answers.is_some() { "answers were to have" } else { "sent with" },
                    seen - kept,
                    other.map_or(0, |(d, _)| *d)
                ),
            );
        }
        if s.far_end.ecn.get(&3).is_some_and(|n| *n > 0) {
            self.warn(
                "congestion_marked",
                "packets arrived with ECN congestion marks: a queue on the path is full",
            );
        }
    }
}

/// Whether the answer names one of `causes`; true where there is no answer to ask.
fn shows(s: &Summary, causes: &[CauseId]) -> bool {
    s.answer.as_ref().is_none_or(|answer| causes.iter().any(|id| answer.names(*id)))
}

/// What waking up two programs may add to a round trip of the control connection, in ns. Less than this
/// is no contradiction between a round trip and a delay.
const HOST_WAKE_UP_NS: i64 = 100_000;

/// Whether the round trip is 1.5 to 4 times the delay, give or take the hosts' own time (metrics §15).
fn is_about_half(delay: i64, rtt: i64) -> bool {
    let (delay, rtt, host) = (delay as f64, rtt as f64, HOST_WAKE_UP_NS as f64);
    (1.5 * delay - host..=4.0 * delay + host).contains(&rtt)
}

#[cfg(test)]
mod tests;
