//! [`between`]: the limit of a TCP connection that made packets wait in the sending host, derived from samples of the
//! connection's state.
//!
//! A connection sends at most its congestion window per round trip. It begins with a few segments (RFC 6928), and in slow
//! start the window doubles with each round trip; on a long path the program's packets wait meanwhile. They also wait while
//! the receiver accepts no more (flow control), and the program itself waits while the send buffer is full.

use jitlat_core::answer::TcpLimit;
use jitlat_core::tcp::TcpMoment;

/// A limit of a connection during a part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpHold {
    /// Limit that applied.
    pub limit: TcpLimit,
    /// Congestion window at the start and at the end of the part, in segments.
    pub windows: [u32; 2],
    /// Largest smoothed round-trip time in the part, in µs.
    pub round_trip_us: u32,
}

/// Share of a part of a stream for which a limit must apply.
const MIN_SHARE: f64 = 0.25;

/// Returns the limit that applied between two times, in seconds since the first packet; `None` if none did, or if
/// segments were retransmitted in this time, so that packets waited for repairs.
pub fn between(moments: &[TcpMoment], from_s: f64, to_s: f64) -> Option<TcpHold> {
    let seconds = |moment: &TcpMoment| moment.at.0 as f64 / 1e9;
    let first = moments.partition_point(|moment| seconds(moment) <= from_s).saturating_sub(1);
    let last = moments.partition_point(|moment| seconds(moment) < to_s).min(moments.len().checked_sub(1)?);
    let part = moments.get(first..=last).filter(|part| part.len() >= 2)?;
    let (a, b) = (part[0], part[part.len() - 1]);
    let totals = Limits::of(part);
    let least = (MIN_SHARE * (seconds(&b) - seconds(&a))).max(1e-3);
    let repaired = b.retransmissions > a.retransmissions;
    let window = totals.slow_start + totals.congestion;
    let limit = if totals.receive >= least {
        TcpLimit::ReceiveWindow
    } else if totals.send_buffer >= least {
        TcpLimit::SendBuffer
    } else if repaired || window < least {
        return None;
    } else if totals.slow_start >= totals.congestion {
        TcpLimit::SlowStart
    } else {
        TcpLimit::CongestionWindow
    };
    let round_trip_us = part.iter().map(|moment| moment.round_trip_us).max().unwrap_or(0);
    Some(TcpHold { limit, windows: [a.window, b.window], round_trip_us })
}

/// Returns true if the connection held packets back shortly before the time `at_s`, in seconds since the first packet, so that
/// delays change there.
pub fn is_held_at(moments: &[TcpMoment], at_s: f64) -> bool {
    let round_trip = moments.iter().map(|moment| moment.round_trip_us).max().unwrap_or(0);
    let before = 2e-6 * f64::from(round_trip);
    between(moments, (at_s - before).max(0.0), at_s).is_some()
}

/// Time for which each limit applied, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Time during which the congestion window was the limit, in slow start.
    pub slow_start: f64,
    /// Time during which the congestion window was the limit, after slow start.
    pub congestion: f64,
    /// Time during which the receive window was the limit.
    pub receive: f64,
    /// Time during which the send buffer was the limit.
    pub send_buffer: f64,
}

impl Limits {
    /// Returns the time for which each limit applied during `moments`.
    pub fn of(moments: &[TcpMoment]) -> Limits {
        let mut limits = Limits::default();
        for pair in moments.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            let micros = |total: fn(&TcpMoment) -> u64| total(b).saturating_sub(total(a)) as f64 / 1e6;
            let (receive, send_buffer) = (micros(|m| m.receive_window_us), micros(|m| m.send_buffer_us));
            limits.receive += receive;
            limits.send_buffer += send_buffer;
            // Data waits although the kernel sees neither of these limits.
            if a.unsent > 0 && a.unacknowledged.saturating_add(1) >= a.window {
                let rest = ((b.at - a.at).0 as f64 / 1e9 - receive - send_buffer).max(0.0);
                *if a.slow_start { &mut limits.slow_start } else { &mut limits.congestion } += rest;
            }
        }
        limits
    }

    /// Returns the sum of all times.
    pub fn total(&self) -> f64 {
        self.slow_start + self.congestion + self.receive + self.send_buffer
    }
}

#[cfg(test)]
mod tests;
