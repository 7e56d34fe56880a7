//! [`step`]: detects steps of the far host's clock during a test.

use crate::clock::ClockProbe;
use crate::time::Span;

/// Largest slew rate of a clock: 1000 ppm, twice the rate at which kernels slew.
const MAX_SLEW_PPM: i64 = 1000;
/// Minimum size of a step, in ns. Smaller steps cannot be distinguished from the scatter of stamps.
const MIN_STEP_NS: i64 = 100_000;

/// Returns the largest step of the far clock relative to the near one between consecutive exchanges of a test; `None`
/// without a step. `exchanges` are in order of time. While the path does not change, the error of an exchange's offset
/// is at most half of the difference between its round trip and the fastest. A route change affects the round trip,
/// whereas a clock step does not.
pub fn step(exchanges: &[ClockProbe]) -> Option<Span> {
    let fastest = exchanges.iter().map(|p| p.rtt().0).min()?;
    let pairs = exchanges.windows(2).filter_map(|w| {
        let [a, b] = [w[0], w[1]];
        let change = b.double_offset().saturating_sub(a.double_offset()) / 2;
        let more = (a.rtt().0 - fastest).saturating_add(b.rtt().0 - fastest) / 2;
        let between = (b.sent.0.saturating_sub(a.sent.0)).abs() / MAX_SLEW_PPM;
        (change.saturating_abs() > more.saturating_add(between).saturating_add(MIN_STEP_NS))
            .then_some(Span(change))
    });
    pairs.max_by_key(|s| s.0.saturating_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::WallTime;

    /// An exchange sent at `second`, with the far clock ahead by `ahead` µs and delays of `up` and `down` µs.
    fn exchange(second: i64, ahead: i64, up: i64, down: i64) -> ClockProbe {
        let sent = second * 1_000_000_000;
        let arrived = sent + (up + ahead) * 1000;
        let answered = arrived + 5000;
        let returned = answered + (down - ahead) * 1000;
        ClockProbe {
            sent: WallTime(sent),
            arrived: WallTime(arrived),
            answered: WallTime(answered),
            returned: WallTime(returned),
        }
    }

    #[test]
    fn steps_are_distinguished_from_drift_queues_and_routes() {
        let of = |rows: [(i64, i64, i64, i64); 4]| step(&rows.map(|(s, a, u, d)| exchange(s, a, u, d)));
        assert_eq!(
            of([(0, 0, 900, 100), (1, 0, 900, 100), (2, -80_000, 900, 100), (3, -80_000, 900, 100)]),
            Some(Span(-80_000_000))
        );
        assert_eq!(
            of([(0, 0, 900, 100), (10, 1000, 900, 100), (20, 2000, 900, 100), (30, 3000, 900, 100)]),
            None,
            "100 ppm"
        );
        assert_eq!(
            of([(0, 0, 900, 100), (1, 0, 9900, 100), (2, 0, 900, 100), (3, 0, 900, 9100)]),
            None,
            "queues"
        );
        assert_eq!(
            of([(0, 0, 900, 100), (1, 0, 900, 100), (2, 0, 5900, 100), (3, 0, 5900, 100)]),
            None,
            "a route"
        );
        assert_eq!(step(&[]), None);
    }
}
