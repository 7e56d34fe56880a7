//! [`Known`]: how much of a test is known.

use crate::metrics::seqset::{SeqSet, absent};
use crate::session::{Ending, Session};

/// How much of a test is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Number of packets whose fate is known: those from 0 up to this number.
    pub sent: u64,
    /// Packets after them that may or may not have been sent and received.
    pub unknown: u64,
    /// Everything that was sent is accounted for.
    pub complete: bool,
}

impl Known {
    /// What is known of the packets of `session`, of which those of `accepted` came.
    pub fn of(session: &Session, accepted: &SeqSet) -> Known {
        let longest = |met| absent(accepted.runs(), met).map(|run| run.len).max().unwrap_or(0);
        Known::up_to(session, accepted.max(), longest)
    }

    /// The same, of packets of which `highest` is the highest number; `longest` gives the length of the longest run of
    /// losses below a number.
    pub fn up_to(session: &Session, highest: Option<u32>, longest: impl FnOnce(u64) -> u64) -> Known {
        let asked = session.declared.unwrap_or(session.spec.packets().into());
        let met = highest.map_or(0, |seq| u64::from(seq) + 1);
        let all = |sent: u64| Known { sent: sent.max(met), unknown: 0, complete: true };
        let cut = Known { sent: met, unknown: asked.saturating_sub(met), complete: false };
        if session.truncated || session.ending == Ending::StorageFailed {
            return cut;
        }
        match (session.sent.map(u64::from), session.ending) {
            (Some(sent), Ending::Complete | Ending::Interrupted) => all(sent.min(asked)),
            // The sender sent everything, and the receiver has said what came until it gave up.
            (Some(sent), Ending::PeerLost) if sent >= asked => all(asked),
            (Some(sent), Ending::PeerLost) => {
                Known { sent: sent.max(met), unknown: asked.saturating_sub(sent.max(met)), complete: false }
            }
            (Some(sent), Ending::Unknown) if !session.has_end_lines() => all(sent.min(asked)),
            (None, Ending::Complete) => all(asked),
            (None, Ending::Unknown) if !session.has_end_lines() => {
                Known::classic(session, asked, met, longest(met))
            }
            _ => cut,
        }
    }

    /// Logs of versions 1 and 2 do not say that they are whole. Where far more is missing at their end than anywhere
    /// else, it was not recorded.
    fn classic(session: &Session, asked: u64, met: u64, longest: u64) -> Known {
        let missing = asked.saturating_sub(met);
        let time =
            session.period().map_or(0, |p| p.0).saturating_mul(i64::try_from(missing).unwrap_or(i64::MAX));
        let much = time >= 500_000_000 || missing >= asked / 100;
        // A header alone is what a test leaves that was killed before its rows came.
        if met == 0 || (missing >= 10 && missing > 3 * longest && much) {
            Known { sent: met, unknown: missing, complete: false }
        } else {
            Known { sent: asked, unknown: 0, complete: true }
        }
    }
}
