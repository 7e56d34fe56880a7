//! Mean periods, rates and user throughput (metrics §9).

use serde::Serialize;

/// A mean period and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Mean time between packets, in ns.
    pub period_ns: f64,
    /// Packets a second.
    pub rate_pps: f64,
    /// Payload bits a second.
    pub throughput_bps: f64,
}

/// What was asked for, what was sent, what arrived.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Periods {
    /// As asked for.
    pub target: Rate,
    /// Between the lowest and the highest accepted sequence number, by send times: loss does not bias it.
    pub tx: Option<Rate>,
    /// Between first and last arrival, over the packets accepted: loss lengthens it.
    pub rx: Option<Rate>,
}

impl Rate {
    /// The rate of packets of `payload` bytes every `period_ns`.
    pub fn new(period_ns: f64, payload: u16) -> Rate {
        let rate_pps = 1e9 / period_ns;
        Rate { period_ns, rate_pps, throughput_bps: f64::from(payload) * 8.0 * rate_pps }
    }
}

impl Periods {
    /// What was asked for, before anything was sent.
    pub fn target_only(spec: &crate::spec::TestSpec) -> Periods {
        Periods { target: Rate::new(spec.period().0 as f64, spec.payload()), tx: None, rx: None }
    }
}
