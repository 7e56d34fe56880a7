//! [`Hearing`]: everything that listens to the matcher, as far as it was asked for.

use super::streams::Keep;
use jitlat_core::passive::matcher::MatchObserver;
use jitlat_core::passive::{Estimate, Estimator, Flows, Record, Streams, Way};
use jitlat_core::time::WallTime;
use jitlat_report::figure::PassiveTrace;

/// The figures always, the rest where something shows it.
pub struct Hearing {
    pub estimator: Estimator,
    pub streams: Option<Streams<Keep>>,
    pub flows: Option<Flows>,
    pub trace: Option<Box<PassiveTrace>>,
}

impl Hearing {
    /// The pairs made since the last call, noted for the figures.
    pub fn take_pairs(&mut self) -> impl Iterator<Item = Estimate> + '_ {
        let trace = &mut self.trace;
        self.estimator.take_pairs().inspect(move |e| {
            if let Some(t) = trace {
                t.pair(e.pair.middle().0, e.pair.rtt().0);
            }
        })
    }

    /// A matched packet without a number, as the CAIA manner of matching has them.
    pub fn packet(&mut self, r: &Record) {
        self.estimator.packet(r);
        self.draw(r);
    }

    #[inline]
    fn draw(&mut self, r: &Record) {
        if let Some(t) = &mut self.trace {
            t.packet(r.way, r.reference.0, r.delay().0);
        }
    }
}

impl MatchObserver for Hearing {
    #[inline]
    fn record(&mut self, r: Record) {
        self.estimator.record(r);
        if let Some(f) = &mut self.flows {
            f.record(r);
        }
    }

    #[inline]
    fn arrived(&mut self, seq: u64, r: Record, copy: bool) {
        self.estimator.arrived(seq, r, copy);
        if let Some(s) = &mut self.streams {
            s.arrived(seq, r, copy);
        }
        if let Some(f) = &mut self.flows {
            f.arrived(seq, r, copy);
        }
        if !copy {
            self.draw(&r);
        }
    }

    fn lost(&mut self, way: Way, seq: u64, sent: WallTime, flow: u32) {
        if let Some(s) = &mut self.streams {
            s.lost(way, seq, sent, flow);
        }
        if let Some(f) = &mut self.flows {
            f.lost(way, seq, sent, flow);
        }
    }

    fn void(&mut self, way: Way, seq: u64) {
        if let Some(s) = &mut self.streams {
            s.void(way, seq);
        }
    }
}
