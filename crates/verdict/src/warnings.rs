//! [`Notes`]: reasons to doubt a figure.

use super::sentences::warnings as sentences;
use super::tcp_limits::Limits;
use jitlat_core::answer::CauseId;
use jitlat_core::answer::Warning;
use jitlat_core::metrics::schedule_error::ScheduleError;
use jitlat_core::session::{Ending, SSRC, Session};
use jitlat_core::summary::Summary;

/// List of reasons to doubt a figure.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<Warning>);

impl Notes {
    fn warn(&mut self, code: &'static str, text: impl Into<String>) {
        self.0.push(Warning::new(code, text));
    }

    /// Returns every reason to doubt the figures of `summary`.
    pub fn of(summary: &Summary, session: &Session, round_trips: bool) -> Vec<Warning> {
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
                self.warn("incomplete", sentences::incomplete(ending, session.reason.as_deref()));
            }
        }
        if s.counts.tail_unknown {
            self.warn("tail_unknown", sentences::tail_unknown(!session.unrecorded.is_empty()));
        }
        if s.counts.received == 0 {
            self.warn("nothing_received", sentences::NOTHING_RECEIVED);
        } else if s.counts.unique_valid == 0 {
            self.warn("nothing_valid", sentences::NOTHING_VALID);
        }
        let without = s.two_way.as_ref().map_or(0, |t| t.without_processing);
        if without > 0 {
            let text = sentences::processing_unknown(without, s.counts.unique_valid);
            self.warn("processing_unknown", text);
        }
        // If the figures come from the far host, there are no percentiles.
        if (1..1000).contains(&s.pdv.n) {
            self.warn("few_packets", sentences::few_packets(s.counts.unique_valid));
        }
        if s.ipdv.quantised {
            self.warn("coarse_clock", sentences::COARSE_CLOCK);
        }
        if !s.reordering.observable {
            self.warn("tcp", sentences::TCP);
        }
        if let [first, .., last] = &session.tcp[..] {
            let limits = Limits::of(&session.tcp);
            let duration = (last.at - first.at).0 as f64 / 1e9;
            if limits.total() >= 0.05 * duration {
                let rtt = session.tcp.iter().map(|m| m.round_trip_us).max().unwrap_or(0);
                let windows = [first.window, session.tcp.iter().map(|m| m.window).max().unwrap_or(0)];
                self.warn("tcp_limited", sentences::tcp_limited(limits, duration, windows, rtt));
            }
        }
        if s.segments.len() > 1 && shows(s, &[CauseId::RouteChange, CauseId::ClockStep]) {
            let (changes, first) = (s.segments.len() as u64 - 1, &s.segments[1]);
            self.warn("path_change", sentences::path_change(changes, first.step_ns, first.first_seq));
        }
    }

    fn clocks(&mut self, s: &Summary, round_trips: bool) {
        let clock = &s.clock;
        if clock.inconsistent {
            self.warn("clock_inconsistent", sentences::CLOCK_INCONSISTENT);
        }
        for (host, state) in [("client", &clock.client), ("server", &clock.server)] {
            // Slewing stays below 1000 ppm, so a change of a millisecond within a test of seconds is a step.
            if let Some(step) = state.step_ns.filter(|s| s.unsigned_abs() > 1_000_000) {
                self.warn("clock_step", sentences::clock_step(host, step));
            }
        }
        if s.counts.rx_time_regressions > 0 {
            let text = sentences::receive_time_went_back(s.counts.rx_time_regressions);
            self.warn("receive_time_went_back", text);
        }
        let Some(min) = s.latency.min else { return };
        // Delays of a media clock are relative to an unknown constant: no clock is wrong.
        if min < 0 && !s.session.tags.contains_key(SSRC) {
            self.warn("negative_delay", sentences::negative_delay(min));
        }
        let one_host = s.header.src_ip.is_some() && s.header.src_ip == s.header.dst_ip;
        if clock.offset_ns.is_none() && clock.synchronised().is_none() && !one_host && !round_trips {
            self.warn("clocks_unknown", sentences::CLOCKS_UNKNOWN);
        }
        let Some(rtt) = clock.min_rtt_ns.filter(|r| *r > 0) else { return };
        // If packets wait throughout the test, the queue was probably absent while the probes before and after the test
        // were sent.
        let queued = s.answer.as_ref().is_some_and(|a| a.names(CauseId::Queue));
        if min > rtt && !queued {
            self.warn("delay_exceeds_rtt", sentences::delay_exceeds_rtt(min, rtt));
        }
        let Some(corrected) = s.latency_corrected.and_then(|c| c.min) else { return };
        if corrected < -HOST_WAKE_UP_NS || corrected > rtt + HOST_WAKE_UP_NS && !queued {
            self.warn("corrected_out_of_range", sentences::corrected_out_of_range(corrected, rtt));
        } else if corrected > 0 && !is_about_half(corrected, rtt) && !queued {
            self.warn("asymmetric", sentences::asymmetric(corrected, rtt));
        }
        if !clock.direction_known {
            self.warn("direction_unknown", sentences::DIRECTION_UNKNOWN);
        }
    }

    fn hosts(&mut self, s: &Summary, session: &Session) {
        // A test that slowed down because of marks has a warning of its own.
        let is_marked = s.two_way.as_ref().is_some_and(|t| t.marked_slowdown.is_some());
        if let Some(stretched) = s.schedule_error.as_ref().and_then(|e| e.stretched).filter(|_| !is_marked) {
            let transport = session.spec.transport();
            let text =
                sentences::schedule_stretched(transport, stretched.rate, stretched.asked, stretched.late);
            self.warn("schedule_stretched", text);
        } else if let Some(e) = s.schedule_error.as_ref().map(ScheduleError::of_program)
            && e.over_half_period > 0
        {
            self.warn("sender_late", sentences::sender_late(e.over_half_period, e.max));
        }
        if s.stalls.receiver_suspects > 0 && shows(s, &[CauseId::ReceiverStall]) {
            self.warn("stall_suspect", sentences::stall_suspect(s.stalls.receiver_suspects));
        }
        if let Some(noise) = s.noise.as_ref().filter(|n| !n.at_or_below.is_empty()) {
            let text = sentences::noise_floor(&noise.at_or_below.join(", "), noise.floor.pdv_p99.0);
            self.warn("noise_floor", text);
        }
        if let Some(drops) = session.receiver_drops.filter(|d| *d > 0) {
            self.warn("receiver_drops", sentences::receiver_drops(drops));
        }
        // A line through delays with a step of a clock is not a drift.
        let was_set = s.answer.as_ref().is_some_and(|answer| answer.without_clock_step.is_some());
        if s.pdv_deskewed.is_some() && !was_set {
            let ppm = s.skew_hull.as_ref().map_or(0.0, |h| h.alpha_ppm);
            self.warn("skew", sentences::skew(ppm));
        }
        let of_answers = s.two_way.as_ref().and_then(|t| t.answer_dscp);
        let asked = of_answers.unwrap_or(s.header.dscp);
        let seen: u64 = s.far_end.dscp.values().sum();
        let kept = s.far_end.dscp.get(&asked).copied().unwrap_or(0);
        // The far host chooses the DSCP of answers to plain requests.
        if kept < seen && (s.two_way.is_none() || of_answers.is_some() || asked != 0) {
            let other = s.far_end.dscp.iter().filter(|(d, _)| **d != asked).max_by_key(|(_, n)| **n);
            let mostly = other.map_or(0, |(d, _)| *d);
            let text = sentences::dscp_changed(of_answers.is_some(), asked, seen - kept, seen, mostly);
            self.warn("dscp_changed", text);
        }
        self.marks_of_requests(s);
        if let Some(slowed) = s.two_way.as_ref().and_then(|t| t.marked_slowdown) {
            self.warn("slowed_by_marks", sentences::slowed_by_marks(slowed.rounds, slowed.period));
        }
        // The verdict has more details about packets that were sent with marks.
        let unmarked = !session.spec.marking.is_on();
        if let Some(marked) = s.far_end.ecn.get(&CONGESTION_EXPERIENCED).filter(|n| **n > 0 && unmarked) {
            let queue = s.answer.as_ref().is_some_and(|a| a.names(CauseId::Queue));
            let all = s.far_end.ecn.values().sum();
            self.warn("congestion_marked", sentences::congestion_marked(*marked, all, queue));
        }
    }
}

impl Notes {
    /// Adds warnings about the DSCP and ECN of requests on arrival, as reported by the far host.
    fn marks_of_requests(&mut self, s: &Summary) {
        let Some(t) = &s.two_way else { return };
        let asked = s.header.dscp;
        let changed: u64 = t.request_dscp.iter().filter(|(d, _)| **d != asked).map(|(_, n)| n).sum();
        if changed > 0 {
            let other = t.request_dscp.iter().filter(|(d, _)| **d != asked).max_by_key(|(_, n)| **n);
            let mostly = other.map_or(0, |(d, _)| *d);
            let all = t.request_dscp.values().sum();
            self.warn("request_dscp_changed", sentences::request_dscp_changed(asked, changed, all, mostly));
        }
        if s.marks.is_some() {
            return;
        }
        let all = t.request_ecn.values().sum();
        if let Some(marked) = t.request_ecn.get(&CONGESTION_EXPERIENCED).filter(|n| **n > 0) {
            self.warn("request_congestion_marked", sentences::request_congestion_marked(*marked, all));
        }
        // These requests were sent without ECN.
        let capable: u64 = t.request_ecn.iter().filter(|(e, _)| matches!(e, 1 | 2)).map(|(_, n)| n).sum();
        if capable > 0 {
            self.warn("request_ecn_changed", sentences::request_ecn_changed(capable, all));
        }
    }
}

/// ECN field of a packet that met congestion (CE, RFC 3168).
const CONGESTION_EXPERIENCED: u8 = 3;

/// Returns true if the verdict contains one of `causes`, or if there is no verdict.
fn shows(s: &Summary, causes: &[CauseId]) -> bool {
    s.answer.as_ref().is_none_or(|answer| causes.iter().any(|id| answer.names(*id)))
}

/// Maximum time, in ns, that the wake-ups of two programs add to a round trip of the control connection. A smaller
/// difference between a round trip and a delay is not a contradiction.
const HOST_WAKE_UP_NS: i64 = 100_000;

/// Returns true if the round trip is 1.5 to 4 times the delay, allowing for the hosts' own time (metrics §15).
fn is_about_half(delay: i64, rtt: i64) -> bool {
    let (delay, rtt, host) = (delay as f64, rtt as f64, HOST_WAKE_UP_NS as f64);
    (1.5 * delay - host..=4.0 * delay + host).contains(&rtt)
}

#[cfg(test)]
mod tests;
