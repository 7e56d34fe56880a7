//! [`Analyzer`]: converts records to a [`Summary`]. [`analyze`] does so for an iterator.

mod assemble;
mod check;
mod engine;
mod exact;
mod found;
mod gathered;
mod notes;
mod options;
mod plain;
mod row;
mod saved;
mod sketch;
mod stretches;
pub(crate) mod tally;
mod twoway;
mod union;
mod windows;

pub use crate::metrics::series::Samples;
pub use options::{Options, PACKET_BYTES};
pub(crate) use saved::Saved;

use crate::helpers::Helpers;
use crate::metrics::known::DelayKind;
use crate::record::PacketRecord;
use crate::session::Session;
use crate::summary::Summary;
use engine::Engine;
use found::Test;
use std::sync::Arc;
use twoway::{BothWays, VIEWS, view};

/// Minimum number of packets for using several threads; with fewer, starting a thread takes longer than it saves.
const LARGE: u64 = 1 << 14;

/// Returns the planned number of packets of the test; sequence numbers below it are valid.
fn declared(session: &Session) -> u32 {
    session.declared.map_or(session.spec.packets(), |n| u32::try_from(n).unwrap_or(u32::MAX))
}

/// Number of records that are collected and then analysed together.
const CHUNK: usize = 256;

/// Analyses one stream of records in arrival order.
pub fn analyze(
    session: &Session,
    records: impl IntoIterator<Item = PacketRecord>,
    options: &Options,
) -> Summary {
    let mut analyzer = Analyzer::new(session, options);
    let mut records = records.into_iter();
    let mut some: Vec<PacketRecord> = Vec::with_capacity(CHUNK);
    loop {
        some.clear();
        some.extend(records.by_ref().take(CHUNK));
        if some.is_empty() {
            return analyzer.finish(session);
        }
        analyzer.push_all(&some);
    }
}

/// An analysis in progress. It takes 20 bytes per accepted packet, up to about 40 while it finishes, and constant
/// memory beyond [`Options::memory`] or with [`Options::streaming`]. The number of packets that a header claims has no
/// influence on memory.
#[derive(Clone, Debug)]
pub struct Analyzer {
    options: Options,
    /// One analysis per view of the packets: a single one for one-way tests; round trip, up and down for round-trip
    /// tests.
    views: Vec<Engine>,
    /// State of a round-trip test that belongs to no single view.
    both_ways: Option<Box<BothWays>>,
}

/// Reason why two analyses cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotMergeable {
    /// The later part was analysed in constant memory and no longer knows which of its first packets were accepted. Use
    /// one analyzer for the whole stream instead, see [`SavedAnalysis::resume`](crate::state::SavedAnalysis::resume).
    #[error(
        "the later part is too long: in constant memory, its first packets are forgotten after two million packets; \
         analyse both logs together instead (--merge --streaming)"
    )]
    Forgotten,
    /// In the later part, a row after the stored first rows has a sequence number that is at most one above the highest
    /// of the earlier part.
    #[error(
        "packets of the two parts overlap by more than the 4096 rows that an analysis in constant memory stores: give \
         the parts in order of time, or analyse their logs together (--merge --streaming)"
    )]
    Interleaved,
    /// In constant memory, only parts of the same test can be merged.
    #[error(
        "this part belongs to another test; in constant memory only parts of the same test can be merged"
    )]
    AnotherTest,
    /// The tests have different traffic; the text names the difference.
    #[error("the tests do not have the same traffic: {0}")]
    Unlike(&'static str),
    /// The merged test would have more packets than one test can have.
    #[error("together the tests have more packets than a test may have (2147483647)")]
    TooLong,
    /// The times of the tests are too far apart for the clock's range.
    #[error("the tests are too far apart in time to be merged")]
    TooFarApart,
}

const ONE_WAY_AND_TWO_WAY: NotMergeable = NotMergeable::Unlike("one test is one-way, the other two-way");

impl Analyzer {
    /// Starts the analysis of the stream that `session` describes. Facts that are not known yet (probes, the end) may
    /// be added to the session that is passed to [`Analyzer::finish`].
    pub fn new(session: &Session, options: &Options) -> Analyzer {
        let views = match &session.two_way {
            Some(_) => VIEWS.map(|of| view(session, of, options)).into(),
            None => vec![Engine::new(Arc::new(session.clone()), options)],
        };
        let both_ways = session.two_way.as_ref().map(|facts| Box::new(BothWays::new(session, facts)));
        Analyzer { options: options.clone(), views, both_ways }
    }

    /// Adds the next record, in arrival order.
    #[inline]
    pub fn push(&mut self, record: &PacketRecord) {
        match &mut self.both_ways {
            Some(both) => both.push_all(&mut self.views, core::slice::from_ref(record)),
            None => self.views.iter_mut().for_each(|view| view.push(record)),
        }
    }

    /// Adds the next records, in arrival order. Faster than one [`Analyzer::push`] per record, with the same result.
    pub fn push_all(&mut self, records: &[PacketRecord]) {
        match &mut self.both_ways {
            Some(both) => both.push_all(&mut self.views, records),
            None => self.views.iter_mut().for_each(|view| view.push_all(records)),
        }
    }

    /// Adds the next record in arrival order of a one-way test: that of a packet that arrived, but whose send time is
    /// unknown. [`Analyzer::push`] would count the record as damaged.
    pub fn push_delayless(&mut self, record: &PacketRecord) {
        if self.both_ways.is_none() {
            self.views.iter_mut().for_each(|view| view.push_delayless(record));
        }
    }

    /// Adds the analysis of the rows that follow, which must be of the same session. The result is exactly that of one
    /// analyzer of all rows, except for the figures listed in docs/metrics if either analysis is in constant memory;
    /// the result is then in constant memory, too. On an error this analysis is unchanged.
    pub fn append(&mut self, next: Analyzer) -> Result<(), NotMergeable> {
        if self.both_ways.is_some() != next.both_ways.is_some() {
            return Err(ONE_WAY_AND_TWO_WAY);
        }
        self.views.iter().zip(&next.views).try_for_each(|(mine, next)| mine.check_append(next))?;
        self.views.iter_mut().zip(next.views).for_each(|(mine, next)| mine.append(next));
        if let Some((mine, next)) = self.both_ways.as_mut().zip(next.both_ways) {
            mine.append(&next);
        }
        Ok(())
    }

    /// Sets the number of packets per stretch that is judged separately in constant memory. For tests; call it
    /// before the first packet.
    #[doc(hidden)]
    pub fn set_stretch_length(&mut self, packets: u32) {
        self.views.iter_mut().for_each(|view| view.set_stretch_length(packets));
    }

    /// True if all packets are stored, false in constant memory.
    pub(crate) fn keeps_packets(&self) -> bool {
        self.views.first().is_none_or(|view| view.gathered().is_some())
    }

    /// Returns the number of rows pushed so far.
    pub fn received(&self) -> u64 {
        self.views.first().map_or(0, Engine::received)
    }

    /// Returns the summary of all records. `session` contains everything that is now known about the test.
    pub fn finish(self, session: &Session) -> Summary {
        self.finish_with_samples(session).0
    }

    /// Like [`Analyzer::finish`], but also returns the accepted packets for drawing figures; none in constant memory.
    pub fn finish_with_samples(self, session: &Session) -> (Summary, Samples) {
        self.finish_by(session, None)
    }

    /// Like [`Analyzer::finish_with_samples`], but uses several threads for a long test. Each thread needs memory for
    /// its computation, up to about 20 bytes per packet.
    pub fn finish_with_helpers(self, session: &Session, helpers: &dyn Helpers) -> (Summary, Samples) {
        let helpers = Some(helpers).filter(|_| self.received() >= LARGE);
        self.finish_by(session, helpers)
    }

    fn finish_by(self, session: &Session, helpers: Option<&dyn Helpers>) -> (Summary, Samples) {
        let Analyzer { options, mut views, both_ways } = self;
        if let Some(both) = both_ways {
            return both.finish(views, session, &options, helpers);
        }
        let Some(view) = views.pop() else { return Default::default() };
        let test = Test { session, options: &options, kind: DelayKind::OneWay };
        view.found(test, helpers, |found, notes| assemble::summary(found, None, notes))
    }
}
