//! `--ecn`: marks of the test's packets.

use clap::{Args, ValueEnum};
use jitlat_core::{EcnMarking, TestSpec, Transport};

/// Marks of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EcnArg {
    #[default]
    Off,
    Ect0,
    Ect1,
    Both,
}

/// Option for the marks of a test's packets.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct EcnArgs {
    /// Marks (ECN) of the packets: off, ect0, ect1, or both: all four, interleaved
    ///
    /// ECT(0) asks routers to mark packets (CE) instead of dropping them, ECT(1) asks for the low-latency queue of L4S. The
    /// report shows with which marks packets arrive: marks that are removed or changed, and CE. With both, each block of
    /// four packets has all marks (Not-ECT, ECT(0), ECT(1), CE) in random order, which also shows whether marked packets
    /// are dropped and whether ECT(1) has a queue of its own: give 800 packets or more, and a load (--load).
    #[arg(long, value_name = "MARKS", default_value = "off")]
    pub ecn: EcnArg,
}

/// Highest rate of marked one-way packets in bits per second, IP and UDP headers included. A one-way test does not respond to
/// CE, so it must not be a load.
const MAX_MARKED_BITS: f64 = 1e6;

impl EcnArgs {
    /// Returns the marks; `seed` determines the order of interleaved marks.
    pub fn marking(self, seed: u64) -> EcnMarking {
        match self.ecn {
            EcnArg::Off => EcnMarking::Off,
            EcnArg::Ect0 => EcnMarking::Ect0,
            EcnArg::Ect1 => EcnMarking::Ect1,
            EcnArg::Both => EcnMarking::Both { seed },
        }
    }

    /// Returns the reason why a stream cannot be sent with marks; `None` if it can.
    pub fn refusal(self, spec: &TestSpec) -> Option<String> {
        if self.ecn == EcnArg::Off {
            return None;
        }
        if spec.transport() == Transport::Tcp {
            return Some("--ecn marks datagrams: TCP negotiates ECN itself and ignores marks of programs; leave out -t".to_owned());
        }
        let bits = (f64::from(spec.payload()) + 28.0) * 8.0 / spec.period().as_seconds();
        (bits > MAX_MARKED_BITS).then(|| {
            format!(
                "--ecn at {:.1} Mbit/s: a one-way test does not slow down when routers mark its packets, so it may send at most 1 \
                 Mbit/s with marks; use a longer -p or a shorter -l, and --load for a load",
                bits / 1e6
            )
        })
    }
}
