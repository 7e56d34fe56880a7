//! TCP connections over time: round trips with the delays of retransmissions; bytes in flight and the window.

use super::series::{drawn, extent};
use super::stretches::{MaxJoin, MinJoin, TimeBins};
use super::trace::{Cloud, MAX_SINGLE_POINTS};
use super::{Axis, AxisUnit, Figure, Mark, MarkSeries, Tone, group_thousands, value_label};
use jitlat_core::WallTime;
use jitlat_passive::tcp::{ConnectionObserver, DirectionStatus, EventKind, TcpEvent};

/// Expected length of the capture, in ns.
const EXPECTED_CAPTURE_NS: i64 = 600_000_000_000;

/// One direction of a connection over time, in constant size.
#[derive(Clone, Debug)]
pub struct TcpTrace {
    origin: Option<i64>,
    by_ack: Cloud,
    by_timestamp: Cloud,
    flight: TimeBins<MaxJoin>,
    window: TimeBins<MinJoin>,
    /// Time and value of the latest count of bytes in flight; `None` before the first.
    latest: Option<(i64, i64)>,
    /// Time of each retransmission, and delay of its data, both in ns.
    again: Vec<(i64, i64)>,
    more: u64,
}

impl Default for TcpTrace {
    fn default() -> TcpTrace {
        TcpTrace {
            origin: None,
            by_ack: Cloud::new(EXPECTED_CAPTURE_NS),
            by_timestamp: Cloud::new(EXPECTED_CAPTURE_NS),
            flight: TimeBins::new(10_000_000),
            window: TimeBins::new(10_000_000),
            latest: None,
            again: Vec::new(),
            more: 0,
        }
    }
}

impl TcpTrace {
    fn x(&mut self, at: i64) -> i64 {
        at.saturating_sub(*self.origin.get_or_insert(at))
    }

    /// Adds a round trip measured by an acknowledgement.
    pub fn by_ack(&mut self, at: i64, rtt: i64) {
        let x = self.x(at);
        self.by_ack.add(x, rtt);
    }

    /// Adds a round trip measured by a timestamp.
    pub fn by_timestamp(&mut self, at: i64, rtt: i64) {
        let x = self.x(at);
        self.by_timestamp.add(x, rtt);
    }

    /// Adds the number of bytes in flight, and the window, if known.
    pub fn flight(&mut self, at: i64, bytes: u64, window: Option<u64>) {
        let (x, bytes) = (self.x(at), bytes.min(i64::MAX as u64) as i64);
        if let Some((then, held)) = self.latest.replace((x, bytes)) {
            // The value was constant since the previous point: draw a horizontal line, not a ramp.
            let width = self.flight.width();
            let between = [then.saturating_add(width), x.saturating_sub(width)];
            between.iter().filter(|at| (then..x).contains(*at)).for_each(|at| self.flight.add(*at, held));
        }
        self.flight.add(x, bytes);
        if let Some(w) = window {
            self.window.add(x, w.min(i64::MAX as u64) as i64);
        }
    }

    /// Adds a retransmission, whose data was delayed by `waited` ns.
    pub fn again(&mut self, at: i64, waited: i64) {
        let x = self.x(at);
        if self.again.len() < MAX_SINGLE_POINTS {
            self.again.push((x, waited));
        } else {
            self.more += 1;
        }
    }
}

/// Both directions of one connection over time.
#[derive(Clone, Debug, Default)]
pub struct ConnectionTrace {
    /// Data from the client.
    pub up: TcpTrace,
    /// Data from the server.
    pub down: TcpTrace,
}

impl ConnectionTrace {
    fn direction(&mut self, up: bool) -> &mut TcpTrace {
        if up { &mut self.up } else { &mut self.down }
    }
}

impl ConnectionObserver for ConnectionTrace {
    fn event(&mut self, up: bool, event: &TcpEvent) {
        if let (EventKind::Fast | EventKind::Timeout | EventKind::Probe, Some(waited)) =
            (event.kind, event.waited)
        {
            self.direction(up).again(event.at.0, waited.0);
        }
    }

    fn status(&mut self, up: bool, at: WallTime, s: &DirectionStatus) {
        let t = self.direction(up);
        if let Some(rtt) = s.rtt_ack {
            t.by_ack(at.0, rtt.0);
        }
        if let Some(rtt) = s.rtt_timestamp {
            t.by_timestamp(at.0, rtt.0);
        }
        if let Some(bytes) = s.in_flight {
            t.flight(at.0, bytes, s.window);
        }
    }
}

/// Returns the figures of one direction; `id` is used in file names and `name` in titles.
pub fn of_tcp(trace: &TcpTrace, id: &str, name: &str) -> Vec<Figure> {
    [round_trips(trace, id, name), flight(trace, id, name)].into_iter().flatten().collect()
}

fn round_trips(t: &TcpTrace, id: &str, name: &str) -> Option<Figure> {
    let clouds =
        [(&t.by_ack, "by acknowledgement", Tone::Data), (&t.by_timestamp, "by timestamp", Tone::Run(2))];
    let shown: Vec<_> = clouds.into_iter().filter(|(c, ..)| c.grid.n() > 0).collect();
    let (mut from, mut to, mut high) = (f64::INFINITY, f64::NEG_INFINITY, 0.0f64);
    for (c, ..) in &shown {
        let (a, b) = extent(c)?;
        (from, to) = (from.min(a), to.max(b));
        let d = c.grid.density(1, usize::MAX)?;
        high = high.max(d.y0 + d.dy * d.rows as f64);
    }
    for (x, w) in &t.again {
        (from, to, high) = (from.min(*x as f64), to.max(*x as f64), high.max(*w as f64));
    }
    // A single value cannot be drawn over time.
    if from >= to || shown.is_empty() {
        return None;
    }
    let mut series = Vec::new();
    let mut n = Vec::new();
    for (c, name, tone) in shown {
        let (mark, how) = drawn(c, 0.0)?;
        n.push(format!(
            "{name}: n = {}{}",
            group_thousands(&c.grid.n().to_string()),
            how.replace("packets", "values")
        ));
        series.push(MarkSeries::new(name, tone, mark));
    }
    let mut notes = Vec::new();
    if !t.again.is_empty() {
        let points = t.again.iter().map(|(x, w)| (*x as f64, *w as f64)).collect();
        series.push(MarkSeries::new(
            "retransmission, by delay of its data",
            Tone::Harm,
            Mark::Points { points },
        ));
    }
    if t.more > 0 {
        notes.push(format!("{} more retransmissions are not drawn.", group_thousands(&t.more.to_string())));
    }
    Some(Figure {
        id: format!("tcp-{id}-rtt"),
        title: format!("TCP round trips, {name}"),
        subtitle: n.join(" · "),
        measured: String::new(),
        about:
            "Sources of delay: a rising band is a queue on the path; marks far above it are retransmitted \
                data, at the height of their delay."
                .into(),
        x: Axis::linear("time since the first value", AxisUnit::Elapsed, from, to),
        y: Axis::linear("round trip to the receiver and back", AxisUnit::Time, 0.0, high * 1.04),
        right: None,
        series,
        overflow: None,
        notes,
    })
}

fn flight(t: &TcpTrace, id: &str, name: &str) -> Option<Figure> {
    let line = |v: Vec<(f64, i64)>| v.into_iter().map(|(x, y)| (x, y as f64)).collect::<Vec<_>>();
    let (flight, window) = (line(t.flight.values()), line(t.window.values()));
    let most = flight.iter().map(|p| p.1).fold(0.0, f64::max);
    let to = flight.last()?.0;
    if flight.len() < 2 || most == 0.0 {
        return None;
    }
    let mut series =
        vec![MarkSeries::new("in flight, maximum", Tone::Data, Mark::Line { points: flight, dashed: false })];
    let mut notes = Vec::new();
    // A much larger window would flatten the line of bytes in flight.
    let least = window.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let reach = if least < most * 4.0 {
        series.push(MarkSeries::new(
            "receiver's window, minimum",
            Tone::Bound,
            Mark::Line { points: window, dashed: true },
        ));
        (most * 1.3).max(least.min(most * 4.0))
    } else {
        if least.is_finite() {
            notes.push(format!(
                "The receiver's window was never below {} bytes.",
                value_label(AxisUnit::Count, least)
            ));
        }
        most * 1.06
    };
    Some(Figure {
        id: format!("tcp-{id}-flight"),
        title: format!("Bytes in flight, {name}"),
        subtitle: format!("every {}", value_label(AxisUnit::Time, t.flight.width() as f64)),
        measured: String::new(),
        about:
            "If the line touches the window, the receiver limits the sender; if it falls steeply, the sender \
                has detected a loss."
                .into(),
        x: Axis::linear("time since the first value", AxisUnit::Elapsed, 0.0, to),
        y: Axis::linear("bytes", AxisUnit::Count, 0.0, reach.max(1.0)),
        right: None,
        series,
        overflow: None,
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_figures_are_drawn_of_a_transfer_and_none_of_nothing() {
        assert!(of_tcp(&TcpTrace::default(), "up", "up").is_empty());
        let mut t = TcpTrace::default();
        for i in 0..100i64 {
            t.by_ack(i * 100_000_000, 20_000_000 + i * 1_000_000);
            t.flight(i * 100_000_000, 1000 * i as u64, Some(60_000));
        }
        t.again(5_000_000_000, 400_000_000);
        let ids: Vec<_> = of_tcp(&t, "up", "from the client").into_iter().map(|f| f.id).collect();
        assert_eq!(ids, ["tcp-up-rtt", "tcp-up-flight"]);
    }

    /// A handshake alone, without data.
    #[test]
    fn one_value_is_no_figure() {
        let mut t = TcpTrace::default();
        t.by_ack(0, 20_000_000);
        for i in 0..100 {
            t.flight(i * 100_000_000, 0, Some(60_000));
        }
        assert!(of_tcp(&t, "down", "from the server").is_empty());
    }

    #[test]
    fn idle_time_is_level() {
        let mut t = TcpTrace::default();
        for (at, bytes) in [(0, 5000), (1, 90_000), (50, 0), (9_000, 80_000), (9_040, 3000)] {
            t.flight(at * 1_000_000, bytes, None);
        }
        let drawn = t.flight.values();
        // Zero from just after the first burst to just before the second.
        let idle: Vec<_> = drawn.iter().filter(|(_, bytes)| *bytes == 0).collect();
        assert!(matches!(idle[..], [(from, _), (to, _)] if *from < 0.1e9 && *to > 8.9e9), "{drawn:?}");
    }
}
