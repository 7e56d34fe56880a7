//! [`Material`]: what the analysis of one way hands over to be judged.

use super::delays::bounded;
use super::profiles::Profile;
use crate::distribution::sample::Sample;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::duplicate::Copies;
use crate::metrics::seqset::SeqSet;
use crate::metrics::series::Series;
use crate::session::Session;
use crate::spec::Transport;
use crate::time::Source;
use serde::{Deserialize, Serialize};

/// The input of a judgement.
pub struct Material<'a> {
    /// The session of the test.
    pub session: &'a Session,
    /// The packets accepted, in send order.
    pub series: &'a Series<'a>,
    /// Their numbers.
    pub accepted: &'a SeqSet,
    /// Their delays in order.
    pub sample: &'a Sample,
    /// Number of duplicates; `None` if unknown.
    pub copies: &'a Copies,
    /// What is known of the clocks.
    pub clock: &'a ClockEstimate,
    /// What was noted row by row.
    pub notes: &'a RowNotes,
    /// Where all receive times were stamped; `None` if in several places.
    pub arrived_by: Option<Source>,
    /// Smallest and largest send time less the time it was due at, in ns from any origin; None where no period is known.
    pub off_schedule: Option<[i64; 2]>,
    /// The delays are of a way there and back, by one clock.
    pub round_trip: bool,
    /// The uses to judge.
    pub profiles: &'a [Profile],
}

impl Material<'_> {
    /// Nominal time between packets in ns, where departures follow it.
    pub fn period(&self) -> Option<i64> {
        self.session.period().map(|p| bounded(p.0)).filter(|p| *p > 0)
    }

    /// Whether the transport shows loss and order.
    pub fn shows_loss(&self) -> bool {
        self.session.spec.transport() == Transport::Udp
    }

    /// Whether arrivals were stamped before any program could be late for them.
    pub fn is_stamped_by_kernel(&self) -> bool {
        self.arrived_by.is_some_and(|source| source != Source::User)
    }
}

/// What stands beside single rows and is worth a look.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowNotes {
    /// Packets that stayed in the sending host for a millisecond or longer before their sent stamp: number, ns.
    pub sent_late: Vec<(u32, i64)>,
    /// Packets that stayed in the receiving host as long after their arrived stamp: number, ns.
    pub read_late: Vec<(u32, i64)>,
    /// Payload of each packet received, by number, where they are not all of one size.
    pub sizes: Vec<(u32, u16)>,
    /// The time to live with which packets came from each number on, where it changed.
    pub ttl: Vec<(u32, u8)>,
    /// The size of every row so far, while it is one.
    only_size: Option<u16>,
    last_ttl: Option<u8>,
}

/// Changes of the time to live that are listed.
const MOST_TTLS: usize = 64;
/// Shorter stays in a host are of no interest.
const NOTED: i64 = 1_000_000;

impl RowNotes {
    /// Takes note of an accepted row.
    #[inline]
    pub fn push(&mut self, record: &crate::PacketRecord, seq: u32) {
        if let Some(lag) = record.send_lag().filter(|l| l.0 >= NOTED) {
            self.sent_late.push((seq, bounded(lag.0)));
        }
        if let Some(lag) = record.receive_lag().filter(|l| l.0 >= NOTED) {
            self.read_late.push((seq, bounded(lag.0)));
        }
        if record.ttl() != self.last_ttl
            && let Some(ttl) = record.ttl()
        {
            self.last_ttl = Some(ttl);
            if self.ttl.len() < MOST_TTLS {
                self.ttl.push((seq, ttl));
            }
        }
        if let Some(size) = record.size() {
            self.size(seq, size);
        }
    }

    /// The payload of every packet received, where it was one and the same.
    pub fn only_size(&self) -> Option<u16> {
        self.only_size.filter(|_| self.sizes.is_empty())
    }

    fn size(&mut self, seq: u32, size: u16) {
        // All sizes are kept from the first that differs on: a test of one size keeps none.
        if self.only_size.is_none_or(|only| only == size) && self.sizes.is_empty() {
            self.only_size = Some(size);
        } else {
            self.sizes.push((seq, size));
        }
    }

    /// Adds what was noted of the rows that follow: of the packets `seqs`, in order of arrival, those that are new.
    pub fn append(&mut self, next: &RowNotes, seqs: &[u32], is_new: impl Fn(u32) -> bool) {
        self.sent_late.extend(next.sent_late.iter().filter(|(seq, _)| is_new(*seq)));
        self.read_late.extend(next.read_late.iter().filter(|(seq, _)| is_new(*seq)));
        // The first is what those packets began with, which need not be a change.
        let changes =
            next.ttl.iter().enumerate().filter(|(k, (_, ttl))| *k > 0 || Some(*ttl) != self.last_ttl);
        let room = MOST_TTLS.saturating_sub(self.ttl.len());
        self.ttl.extend(changes.map(|(_, change)| *change).take(room));
        self.last_ttl = next.last_ttl.or(self.last_ttl);
        let Some(size) = next.only_size else { return };
        // Sizes are listed from the first that differed; those before were of the one size.
        let before = seqs.len().saturating_sub(next.sizes.len());
        if self.sizes.is_empty() && self.only_size.is_none_or(|only| only == size) {
            self.only_size = Some(size);
        } else {
            seqs[..before].iter().filter(|seq| is_new(**seq)).for_each(|seq| self.size(*seq, size));
        }
        next.sizes.iter().filter(|(seq, _)| is_new(*seq)).for_each(|(seq, size)| self.size(*seq, *size));
    }

    /// The same of packets with numbers `by` higher.
    pub fn shifted(mut self, by: u32) -> RowNotes {
        let times = self.sent_late.iter_mut().chain(&mut self.read_late).map(|(seq, _)| seq);
        let others = self.sizes.iter_mut().map(|(seq, _)| seq).chain(self.ttl.iter_mut().map(|(seq, _)| seq));
        times.chain(others).for_each(|seq| *seq = seq.saturating_add(by));
        self
    }

    /// Whether these can be the notes on the packets `accepted`, as far as the rules rely on it.
    pub fn is_possible(&self, accepted: &SeqSet) -> bool {
        let late = |stays: &[(u32, i64)]| {
            stays.iter().all(|(seq, ns)| accepted.contains(*seq) && *ns >= NOTED && bounded(*ns) == *ns)
        };
        late(&self.sent_late)
            && late(&self.read_late)
            && self.sizes.iter().all(|(seq, _)| accepted.contains(*seq))
            && self.ttl.iter().all(|(seq, _)| accepted.contains(*seq))
            && self.ttl.len() <= MOST_TTLS
    }
}
