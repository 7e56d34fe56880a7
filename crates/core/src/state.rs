//! [`SavedAnalysis`]: an analysis that can be saved as bytes, loaded again, and merged with others.
//!
//! ```
//! use jitlat_core::state::SavedAnalysis;
//! use jitlat_core::{Options, PacketRecord, Session, TestSpec, WallTime};
//!
//! let session = Session { id: Some("0123456789abcdef".into()), ..Session::new(TestSpec::default()) };
//! let record = |seq: i64| PacketRecord::one_way(seq, WallTime(seq * 1000), WallTime(seq * 1000 + 700 + seq % 7));
//! let options = Options::default();
//! let mut whole = SavedAnalysis::new(session.clone(), &options);
//! (0..1000).for_each(|seq| whole.push(&record(seq)));
//!
//! // The same packets in two parts. The first one was saved and loaded again.
//! let mut first = SavedAnalysis::new(session.clone(), &options);
//! (0..300).for_each(|seq| first.push(&record(seq)));
//! let mut first = SavedAnalysis::load(&first.save()?, &options)?;
//! let mut second = SavedAnalysis::new(session, &options);
//! (300..1000).for_each(|seq| second.push(&record(seq)));
//! first.merge(second)?;
//! assert_eq!(first.finish(), whole.finish());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::analysis::{Analyzer, NotMergeable, Options, Samples, Saved};
use crate::ecn::EcnMarking;
use crate::metrics::seqset::SeqRun;
use crate::msgpack;
use crate::record::PacketRecord;
use crate::session::{Ending, Session};
use crate::spec::TestSpec;
use crate::summary::Summary;
use crate::twoway::{Directions, FarReport, LossRun, NotAnswers, ScheduleShift, TcpStats, TwoWay};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Start of every state: a line of text with the version of the format.
const FIRST_LINE: &[u8] = b"# jitlat state 2\n";
/// First line of version 1, which differs only for analyses in constant memory.
const OLD_FIRST_LINE: &[u8] = b"# jitlat state 1\n";
const ANY_VERSION: &[u8] = b"# jitlat state ";
/// Length in bytes of the checksum after the first line: XXH3-64 of all following bytes, little-endian.
const SUM: usize = 8;

/// Tag of a session that was merged from several tests: the number of tests.
pub const TESTS: &str = "tests";

/// An analysis and its session.
#[derive(Clone, Debug)]
pub struct SavedAnalysis {
    session: Session,
    analyzer: Analyzer,
}

/// Reason why a state cannot be loaded or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The bytes do not begin like a state.
    #[error("this is not a saved analysis of jitlat")]
    NotAState,
    /// This program does not support the version.
    #[error("the state has version {0}; this program reads versions 1 and 2")]
    Version(String),
    /// The bytes were truncated or changed after they were saved.
    #[error("the state is damaged: it is truncated or was changed")]
    Damaged,
    /// The bytes are intact, but they do not form a valid state, for this reason.
    #[error("the bytes cannot be the state of an analysis: {0}")]
    Impossible(String),
}

/// The result of merging two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The other state was a later part of the same test.
    Continued,
    /// The other state belonged to another test.
    United,
}

#[derive(Serialize, Deserialize)]
struct WrittenState<'a> {
    session: Cow<'a, Session>,
    analysis: Saved<'a>,
}

impl SavedAnalysis {
    /// Creates the state before the first packet of the test that `session` describes.
    pub fn new(session: Session, options: &Options) -> SavedAnalysis {
        SavedAnalysis { analyzer: Analyzer::new(&session, options), session }
    }

    /// Creates a state from `analyzer`; `session` contains everything known about the test so far.
    pub fn of(session: Session, analyzer: Analyzer) -> SavedAnalysis {
        SavedAnalysis { session, analyzer }
    }

    /// Returns the session of the test.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns true if all packets are stored, false for an analysis in constant memory.
    pub fn keeps_packets(&self) -> bool {
        self.analyzer.keeps_packets()
    }

    /// Returns the session, so that the caller can add facts that become known later.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Adds the next record, in arrival order.
    #[inline]
    pub fn push(&mut self, record: &PacketRecord) {
        self.analyzer.push(record);
    }

    /// Adds the next records, in arrival order; see [`Analyzer::push_all`].
    pub fn push_all(&mut self, records: &[PacketRecord]) {
        self.analyzer.push_all(records);
    }

    /// Returns the summary.
    pub fn finish(self) -> Summary {
        self.finish_with_samples().0
    }

    /// Returns the summary and the accepted packets for drawing figures. An analysis in constant memory has no packets.
    pub fn finish_with_samples(self) -> (Summary, Samples) {
        self.analyzer.finish_with_samples(&self.session)
    }

    /// Returns the session and the analysis.
    pub fn into_parts(self) -> (Session, Analyzer) {
        (self.session, self.analyzer)
    }

    /// Returns the bytes for [`SavedAnalysis::load`]: about 10 per packet, or at most a few hundred kilobytes for an
    /// analysis in constant memory.
    pub fn save(&self) -> Result<Vec<u8>, StateError> {
        let analysis = self.analyzer.saved();
        let analysis = analysis.ok_or_else(|| StateError::Impossible("a test within a test".to_owned()))?;
        let written = WrittenState { session: Cow::Borrowed(&self.session), analysis };
        let body = rmp_serde::to_vec_named(&written).map_err(|e| StateError::Impossible(e.to_string()))?;
        Ok(seal(&body))
    }

    /// Loads bytes from [`SavedAnalysis::save`]. The bytes may be untrusted: memory is limited to a multiple of their
    /// length. `options` determines the figures to compute.
    pub fn load(bytes: &[u8], options: &Options) -> Result<SavedAnalysis, StateError> {
        let rest = bytes.strip_prefix(FIRST_LINE).or_else(|| bytes.strip_prefix(OLD_FIRST_LINE));
        let Some(rest) = rest else {
            let version = bytes.strip_prefix(ANY_VERSION).ok_or(StateError::NotAState)?;
            let end = version.iter().position(|b| *b == b'\n').unwrap_or(0).min(20);
            return Err(StateError::Version(String::from_utf8_lossy(&version[..end]).into_owned()));
        };
        let (sum, body) = rest.split_at_checked(SUM).ok_or(StateError::Damaged)?;
        if sum != twox_hash::XxHash3_64::oneshot(body).to_le_bytes() {
            return Err(StateError::Damaged);
        }
        let impossible = |reason: String| StateError::Impossible(reason);
        let written: WrittenState = msgpack::from_slice(body).map_err(|e| impossible(e.to_string()))?;
        let session = written.session.into_owned();
        let analyzer = Analyzer::restored(&session, written.analysis, options);
        let analyzer = analyzer.map_err(|e| impossible(e.0.to_owned()))?;
        Ok(SavedAnalysis { session, analyzer })
    }

    /// Returns true if the bytes begin like a state of any version.
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(ANY_VERSION)
    }

    /// Adds `next` after this state: as a continuation if it belongs to the same test, otherwise as another test of the
    /// same traffic. On an error this state is unchanged.
    pub fn merge(&mut self, next: SavedAnalysis) -> Result<Merged, NotMergeable> {
        if is_same_test(&self.session, &next.session) {
            self.continue_with(next)?;
            Ok(Merged::Continued)
        } else {
            self.unite_with(next)?;
            Ok(Merged::United)
        }
    }

    /// Adds a continuation of the same test. The result is the same as that of one analysis of all packets, wherever
    /// the test was split. In constant memory, the figures listed in docs/metrics are exceptions. The session is
    /// replaced by the later one, which contains more facts.
    pub fn continue_with(&mut self, next: SavedAnalysis) -> Result<(), NotMergeable> {
        self.analyzer.append(next.analyzer)?;
        self.follow(next.session);
        Ok(())
    }

    /// Prepares for a later part of the same test, whose records are pushed next. The result is the same as that of one
    /// analysis of all packets, even in constant memory. Call this method again when further facts about the part are
    /// known, for example its end.
    pub fn resume(&mut self, part: Session) -> Result<(), NotMergeable> {
        if !is_same_test(&self.session, &part) {
            return Err(NotMergeable::AnotherTest);
        }
        self.follow(part);
        Ok(())
    }

    /// Replaces the session by that of a later part of the test, because the later session contains more facts. The
    /// clock probes of both sessions are retained.
    fn follow(&mut self, part: Session) {
        let mut probes = std::mem::take(&mut self.session.probes);
        let new: Vec<_> = part.probes.iter().filter(|p| !probes.contains(p)).copied().collect();
        probes.extend(new);
        self.session = Session { probes, ..part };
    }

    /// Adds another test of the same traffic directly after this one: sequence numbers continue and times are shifted.
    /// If the clock offset of both tests is known, the later delays are shifted to the offset of this test. Clock
    /// probes and host facts remain those of this test.
    pub fn unite_with(&mut self, next: SavedAnalysis) -> Result<(), NotMergeable> {
        unlike(&self.session, &next.session).map_or(Ok(()), |what| Err(NotMergeable::Unlike(what)))?;
        let (mine, theirs) = (self.analyzer.sent(&self.session), next.analyzer.sent(&next.session));
        let spec = self.session.spec.with_packets(mine.saturating_add(theirs).max(1));
        let spec = spec.map_err(|_| NotMergeable::TooLong)?;
        let mut analyzer = self.analyzer.clone();
        analyzer.unite(&self.session, next.analyzer, &next.session, spec.packets())?;
        self.analyzer = analyzer;
        let here = &mut self.session;
        here.spec = spec;
        if here.spec.marking.is_interleaved() {
            // The order of the marks does not continue in the other test.
            here.spec.marking = EcnMarking::Off;
        }
        here.declared = None;
        here.sent = Some((mine + theirs) as u32);
        here.id = None;
        here.control_port = here.control_port.filter(|port| next.session.control_port == Some(*port));
        here.date = None;
        here.ending = worse(here.ending, next.session.ending);
        here.receiver_drops =
            here.receiver_drops.zip(next.session.receiver_drops).map(|(a, b)| a.saturating_add(b));
        let tests = tests(here) + tests(&next.session);
        here.tags.retain(|(key, value)| {
            key != TESTS && next.session.tags.iter().any(|t| t == &(key.clone(), value.clone()))
        });
        here.tags.push((TESTS.to_owned(), tests.to_string()));
        here.unsent = here.unsent.saturating_add(next.session.unsent);
        here.read_pause = here.read_pause.max(next.session.read_pause);
        here.stamps_lost = here.stamps_lost.zip(next.session.stamps_lost).map(|(a, b)| a.saturating_add(b));
        here.unrecorded = here.unrecorded_in(0, mine).collect();
        let their_end = theirs;
        let theirs = next.session.unrecorded_in(0, their_end);
        let later_run = |run: SeqRun| SeqRun { start: run.start + mine, ..run };
        here.unrecorded.extend(theirs.map(later_run));
        here.skipped = here.skipped_in(0, mine).collect();
        here.skipped.extend(next.session.skipped_in(0, their_end).map(later_run));
        here.unreported = here.unreported.saturating_add(next.session.unreported);
        here.reason = here.reason.take().or(next.session.reason);
        let later =
            |shift: ScheduleShift| ScheduleShift { seq: shift.seq.saturating_add(mine as u32), ..shift };
        here.schedule_shifts.extend(next.session.schedule_shifts.into_iter().map(later));
        if let (Some(here), Some(next)) = (&mut here.two_way, next.session.two_way) {
            add_facts(here, *next, mine as u32);
        }
        Ok(())
    }
}

/// Returns a state with arbitrary contents, for tests that try to break [`SavedAnalysis::load`].
#[doc(hidden)]
pub fn seal(body: &[u8]) -> Vec<u8> {
    [FIRST_LINE, &twox_hash::XxHash3_64::oneshot(body).to_le_bytes(), body].concat()
}

/// Returns the number of tests in a session.
fn tests(session: &Session) -> u64 {
    let tests = session.tags.iter().find(|(key, _)| key == TESTS);
    tests.and_then(|(_, n)| n.parse().ok()).unwrap_or(1)
}

/// Returns true if two sessions are parts of one test: they have the same id, or neither has an id and they began at
/// the same time with the same specification between the same hosts.
fn is_same_test(a: &Session, b: &Session) -> bool {
    let direction = a.spec.direction() == b.spec.direction();
    match (&a.id, &b.id) {
        (Some(a), Some(b)) => a == b && direction,
        (None, None) => {
            let begun = |s: &Session| (s.created, s.declared, s.src, s.dst, s.name.clone());
            a.created.is_some() && begun(a) == begun(b) && a.spec == b.spec
        }
        _ => false,
    }
}

/// Returns a difference between two tests that would make figures of both together meaningless; `None` if there is
/// none.
fn unlike(a: &Session, b: &Session) -> Option<&'static str> {
    let protocol = |s: &Session| s.two_way.as_ref().map(|t| (t.protocol.clone(), t.far_clock, t.wait));
    let (x, y) = (&a.spec, &b.spec);
    [
        (protocol(a) != protocol(b), "their protocols differ"),
        (x.transport() != y.transport(), "their transports differ"),
        (x.direction() != y.direction(), "their directions differ"),
        (a.payload() != b.payload(), "their packet sizes differ"),
        (a.period() != b.period(), "their periods differ"),
        (x.dscp != y.dscp, "their classes of service (DSCP) differ"),
        (kind_of_marks(x) != kind_of_marks(y), "their marks (ECN) differ"),
    ]
    .into_iter()
    .find_map(|(differ, what)| differ.then_some(what))
}

/// Returns the marks of the packets, whatever their order.
fn kind_of_marks(spec: &TestSpec) -> EcnMarking {
    if spec.marking.is_interleaved() { EcnMarking::Both { seed: 0 } } else { spec.marking }
}

/// Returns the worse of two endings: the one that leaves more unknown about the packets.
fn worse(a: Ending, b: Ending) -> Ending {
    let rank = |e: Ending| match e {
        Ending::Complete => 0,
        Ending::Interrupted => 1,
        Ending::Unknown => 2,
        Ending::ServerStopped => 3,
        Ending::PeerLost => 4,
        Ending::StorageFailed => 5,
    };
    if rank(b) > rank(a) { b } else { a }
}

/// Adds the far host's report on another test, whose sequence numbers continue after the `sent` packets of this test.
fn add_facts(here: &mut TwoWay, next: TwoWay, sent: u32) {
    let both = |f: fn(&Directions) -> u64, a: &Directions, b: &Directions| f(a).saturating_add(f(b));
    here.directions = here.directions.zip(next.directions).map(|(a, b)| Directions {
        stateful: a.stateful && b.stateful,
        up_lost: both(|d| d.up_lost, &a, &b),
        down_lost: both(|d| d.down_lost, &a, &b),
        unknown_lost: both(|d| d.unknown_lost, &a, &b),
        up_duplicates: both(|d| d.up_duplicates, &a, &b),
        down_duplicates: both(|d| d.down_duplicates, &a, &b),
        up_reordered: both(|d| d.up_reordered, &a, &b),
        down_reordered: both(|d| d.down_reordered, &a, &b),
    });
    let later = next.losses.into_iter().map(|run| LossRun { first: run.first.saturating_add(sent), ..run });
    here.losses.extend(later);
    here.skipped = here.skipped.saturating_add(next.skipped);
    for (here, next) in
        [(&mut here.request_dscp, next.request_dscp), (&mut here.request_ecn, next.request_ecn)]
    {
        for (value, n) in next {
            let sum = here.entry(value).or_default();
            *sum = sum.saturating_add(n);
        }
    }
    let (a, b) = (here.not_answers, next.not_answers);
    here.not_answers = NotAnswers {
        foreign: a.foreign.saturating_add(b.foreign),
        malformed: a.malformed.saturating_add(b.malformed),
        forged: a.forged.saturating_add(b.forged),
        unmatched: a.unmatched.saturating_add(b.unmatched),
        other_port: a.other_port.saturating_add(b.other_port),
        refused: a.refused.saturating_add(b.refused),
        prohibited: a.prohibited.saturating_add(b.prohibited),
    };
    here.timeout = here.timeout.max(next.timeout);
    here.far_report = here.far_report.zip(next.far_report).map(|(a, b)| of_both(&a, &b));
    here.tcp = here.tcp.zip(next.tcp).map(|(a, b)| TcpStats {
        retransmissions: a.retransmissions.saturating_add(b.retransmissions),
        srtt_min_us: a.srtt_min_us.min(b.srtt_min_us),
        srtt_max_us: a.srtt_max_us.max(b.srtt_max_us),
        srtt_last_us: b.srtt_last_us,
        cwnd_min: a.cwnd_min.min(b.cwnd_min),
        cwnd_max: a.cwnd_max.max(b.cwnd_max),
        mss: b.mss,
    });
    here.remarks.extend(next.remarks.into_iter().filter(|r| !here.remarks.contains(r)).collect::<Vec<_>>());
}

/// Returns the report that a far host would have given on both tests together. The standard deviation cannot be
/// derived.
fn of_both(a: &FarReport, b: &FarReport) -> FarReport {
    use crate::time::Span;
    let (n, m) = (a.received, b.received);
    let mean = a.mean.zip(b.mean).filter(|_| n > 0 || m > 0).map(|(x, y)| {
        let sum = i128::from(x.0) * i128::from(n) + i128::from(y.0) * i128::from(m);
        Span((sum / (i128::from(n) + i128::from(m))) as i64)
    });
    FarReport {
        received: n.saturating_add(m),
        min: a.min.zip(b.min).map(|(x, y)| x.min(y)),
        mean,
        max: a.max.max(b.max),
        stddev: None,
        out_of_order: a.out_of_order.saturating_add(b.out_of_order),
        errors: a.errors.saturating_add(b.errors),
        duplicates: a.duplicates.zip(b.duplicates).map(|(x, y)| x.saturating_add(y)),
        stamps: a.stamps.filter(|s| b.stamps == Some(*s)),
        highest_seq: None,
        wraps: a.wraps.saturating_add(b.wraps),
        timed_out: a.timed_out || b.timed_out,
    }
}
