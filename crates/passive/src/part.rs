//! Parts of two captures by time, analysed apart and joined again: [`CapturePart`] says which, [`PartState`] is what one found.
//!
//! A part reads its own time and an overlap on both sides of it, so that packets that cross its borders are matched as they would be in
//! the whole. What it keeps is cut on the monitor's clock, in whose order pairs are made: the matched packets of one part after the
//! other are those of the whole. Where the cut lies on the other clock follows from a [`ClockLine`], the same for all parts.

use super::pipeline::CaptureFacts;
use super::{
    CapturePoint, IdentityRule, MatchCounts, MatchObserver, MatchPlan, PairEstimator, PassiveResult, Record,
    Sides,
};
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};
use serde::{Deserialize, Serialize};

/// Version of the bytes of a state.
const VERSION: u32 = 1;
/// What a state begins with.
const FIRST_LINE: &[u8] = b"jitlat part 1\n";
/// The same, of any version.
const ANY_VERSION: &[u8] = b"jitlat part ";
/// Bytes of the checksum.
const SUM: usize = 8;

/// Monitor clock minus reference clock, as a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockLine {
    /// Where `offset` holds, on the reference clock.
    pub at: WallTime,
    /// The difference there.
    pub offset: Span,
    /// By how much it grows: ns per ns.
    pub drift: f64,
}

impl ClockLine {
    /// The difference at a time on the reference clock.
    pub fn offset_at(&self, reference: WallTime) -> Span {
        let since = reference.0.saturating_sub(self.at.0);
        Span(self.offset.0.saturating_add((since as f64 * self.drift) as i64))
    }

    /// A time of a point's clock on the reference clock.
    #[inline]
    pub fn on_reference(&self, point: CapturePoint, at: WallTime) -> i64 {
        match point {
            CapturePoint::Reference => at.0,
            CapturePoint::Monitor => {
                let raw = at.0.saturating_sub(self.offset.0);
                raw.saturating_sub((raw.saturating_sub(self.at.0) as f64 * self.drift) as i64)
            }
        }
    }

    /// Whether it can be that of two clocks.
    pub fn is_possible(&self) -> bool {
        self.drift.is_finite() && self.drift.abs() < 0.1
    }
}

/// Which part of two captures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapturePart {
    /// From when on, on the reference clock.
    pub from: WallTime,
    /// Up to when.
    pub to: WallTime,
    /// How much is read before and after.
    pub overlap: Span,
    /// How the clocks differ.
    pub clocks: ClockLine,
    /// First and last time stamp of each capture.
    pub spans: [Option<(WallTime, WallTime)>; 2],
}

impl CapturePart {
    /// Whether what was seen at this time belongs to it.
    #[inline]
    pub fn keeps(&self, point: CapturePoint, at: WallTime) -> bool {
        (self.from.0..self.to.0).contains(&self.clocks.on_reference(point, at))
    }

    /// Whether it is read.
    #[inline]
    pub fn reads(&self, point: CapturePoint, at: WallTime) -> bool {
        let at = self.clocks.on_reference(point, at);
        at >= self.from.0.saturating_sub(self.overlap.0) && at < self.to.0.saturating_add(self.overlap.0)
    }

    /// The difference of the clocks where reading begins.
    pub fn first_offset(&self) -> Span {
        let begun = self.spans[0].map_or(self.clocks.at, |(first, _)| first);
        self.clocks.offset_at(begun.max(WallTime(self.from.0.saturating_sub(self.overlap.0))))
    }
}

/// One file of a capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexedFile {
    /// Its name.
    pub file: String,
    /// First time stamp, ns since 1970; absent without frames.
    pub first_ns: Option<WallTime>,
    /// Last time stamp.
    pub last_ns: Option<WallTime>,
    /// Frames.
    pub frames: u64,
    /// Packets that the capturing system reports as dropped.
    pub drops: u64,
    /// Addresses, those with most packets first, 16 at most.
    pub hosts: Vec<String>,
    /// Errors in the file.
    pub notes: Vec<String>,
}

/// What a first pass over two captures finds: how to match them, how their clocks differ, and an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstPass {
    /// `spp-plan`.
    pub kind: String,
    /// Of this document: 1.
    pub version: u32,
    /// Addresses at the two ends as the reference and the monitor point see them.
    pub sides: [Sides; 2],
    /// How packets are named.
    pub identity: IdentityRule,
    /// Clock difference at the beginning, ns.
    pub offset_ns: Span,
    /// Common packets it is based on.
    pub common: usize,
    /// Whether the direction is a guess from the clocks.
    pub direction_assumed: bool,
    /// Whether ICMP echoes are left out of the pairs.
    pub echoes_apart: bool,
    /// How the clocks differ over time.
    pub clocks: ClockLine,
    /// The files of the reference and of the monitor point.
    pub captures: [Vec<IndexedFile>; 2],
}

impl FirstPass {
    /// What [`Self::kind`] says.
    pub const KIND: &str = "spp-plan";

    /// The plan of the survey.
    pub fn plan(&self) -> MatchPlan {
        MatchPlan {
            sides: self.sides.clone(),
            fields: self.identity.fields,
            offset: self.offset_ns,
            common: self.common,
            direction_assumed: self.direction_assumed,
        }
    }

    /// First and last time stamp of each capture.
    pub fn spans(&self) -> [Option<(WallTime, WallTime)>; 2] {
        self.captures.each_ref().map(|files| {
            let first = files.iter().filter_map(|f| f.first_ns).min()?;
            Some((first, files.iter().filter_map(|f| f.last_ns).max()?))
        })
    }

    /// Whether this program wrote it, as far as can be seen.
    pub fn is_possible(&self) -> bool {
        self.kind == FirstPass::KIND && self.version == 1 && self.clocks.is_possible()
    }
}

/// What was found in a part: the packets it keeps, to be joined with those of the others.
#[derive(Clone, Debug)]
pub struct PartState {
    /// Addresses at the two ends, as both points see them.
    pub sides: [Sides; 2],
    /// How packets were named.
    pub identity: IdentityRule,
    /// Clock difference at the beginning of the captures.
    pub offset: Span,
    /// Longest time between the passages of a packet.
    pub window: Span,
    /// Which part.
    pub part: CapturePart,
    /// Matched packets, in the order of the monitor's clock.
    pub records: Vec<Record>,
    /// Counts of the packets of both ways.
    pub counts: [MatchCounts; 2],
    /// What was read of both captures, without the overlap.
    pub captures: [CaptureFacts; 2],
}

/// As it is written: times as differences to the packet before.
#[derive(Serialize, Deserialize)]
struct WrittenPart {
    version: u32,
    sides: [Sides; 2],
    identity: IdentityRule,
    offset: Span,
    window: Span,
    part: CapturePart,
    ways: Vec<bool>,
    monitor: Vec<i64>,
    delay: Vec<i64>,
    length: Vec<u32>,
    counts: [MatchCounts; 2],
    captures: [CaptureFacts; 2],
}

/// Why parts cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// It is something else than this command writes.
    #[error("it is no state of a part (jitlat {0} --keep --state)")]
    NotAState(&'static str),
    /// Another version wrote it.
    #[error("it is of another version than this program writes")]
    Version,
    /// Its checksum differs.
    #[error("it is damaged: its checksum differs")]
    Damaged,
    /// It cannot be one.
    #[error("it is damaged: {0}")]
    Impossible(String),
    /// Parts of other captures, or matched in another way.
    #[error("the parts are not of the same captures, matched in the same way: give all the same --plan")]
    Unlike,
    /// Parts of other captures, or of other connections.
    #[error("the parts are not of the same captures, read with the same options and in as many parts")]
    OtherCaptures,
    /// There is none.
    #[error("no state was given")]
    NoPart,
    /// One is missing.
    #[error("part {number}/{of} is missing")]
    Missing {
        /// Which.
        number: u32,
        /// Of how many.
        of: u32,
    },
    /// One is there more than once.
    #[error("part {number}/{of} was given twice")]
    Twice {
        /// Which.
        number: u32,
        /// Of how many.
        of: u32,
    },
    /// Time is missing between two parts, or in both.
    #[error("one part ends at {ends} and the next begins at {begins} (ns since 1970, reference clock)")]
    NotAdjacent {
        /// End of the one.
        ends: i64,
        /// Beginning of the next.
        begins: i64,
    },
}

/// A state's bytes: its first line, a checksum, and the body.
pub(super) fn seal(first_line: &[u8], body: &[u8]) -> Vec<u8> {
    [first_line, &twox_hash::XxHash3_64::oneshot(body).to_le_bytes(), body].concat()
}

/// Why bytes have no body.
pub(super) enum NotSealed {
    Other,
    Version,
    Damaged,
}

impl NotSealed {
    /// The same as an error about the states of a command.
    pub(super) fn of(self, command: &'static str) -> PartError {
        match self {
            NotSealed::Other => PartError::NotAState(command),
            NotSealed::Version => PartError::Version,
            NotSealed::Damaged => PartError::Damaged,
        }
    }
}

/// The body of what [`seal`] made.
pub(super) fn unseal<'a>(
    first_line: &[u8],
    any_version: &[u8],
    bytes: &'a [u8],
) -> Result<&'a [u8], NotSealed> {
    let Some(rest) = bytes.strip_prefix(first_line) else {
        return Err(if bytes.starts_with(any_version) { NotSealed::Version } else { NotSealed::Other });
    };
    let (sum, body) = rest.split_at_checked(SUM).ok_or(NotSealed::Damaged)?;
    match sum == twox_hash::XxHash3_64::oneshot(body).to_le_bytes() {
        true => Ok(body),
        false => Err(NotSealed::Damaged),
    }
}

impl PartState {
    /// As bytes for [`PartState::load`].
    ///
    /// # Errors
    /// [`PartError::Impossible`].
    pub fn save(&self) -> Result<Vec<u8>, PartError> {
        let mut last = 0i64;
        let monitor = |r: &Record| r.monitor.0.wrapping_sub(std::mem::replace(&mut last, r.monitor.0));
        let written = WrittenPart {
            version: VERSION,
            sides: self.sides.clone(),
            identity: self.identity,
            offset: self.offset,
            window: self.window,
            part: self.part,
            ways: self.records.iter().map(|r| r.direction == Direction::Down).collect(),
            monitor: self.records.iter().map(monitor).collect(),
            delay: self.records.iter().map(|r| r.monitor.0.wrapping_sub(r.reference.0)).collect(),
            length: self.records.iter().map(|r| r.length).collect(),
            counts: self.counts,
            captures: self.captures.clone(),
        };
        let body = rmp_serde::to_vec_named(&written).map_err(|e| PartError::Impossible(e.to_string()))?;
        Ok(seal(FIRST_LINE, &body))
    }

    /// What [`PartState::save`] wrote. The bytes need not be trusted.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn load(bytes: &[u8]) -> Result<PartState, PartError> {
        let body = unseal(FIRST_LINE, ANY_VERSION, bytes).map_err(|not| not.of("spp"))?;
        let impossible = |what: String| PartError::Impossible(what);
        let w: WrittenPart = jitlat_core::msgpack::from_slice(body).map_err(|e| impossible(e.to_string()))?;
        let n = w.ways.len();
        if w.version != VERSION {
            return Err(PartError::Version);
        }
        if [w.monitor.len(), w.delay.len(), w.length.len()] != [n; 3] || !w.part.clocks.is_possible() {
            return Err(impossible("its columns differ in length, or its clocks cannot be".to_owned()));
        }
        let mut at = 0i64;
        let rows = w.ways.iter().zip(&w.monitor).zip(w.delay.iter().zip(&w.length));
        let records = rows.map(|((back, step), (delay, length))| {
            at = at.wrapping_add(*step);
            Record {
                direction: if *back { Direction::Down } else { Direction::Up },
                reference: WallTime(at.wrapping_sub(*delay)),
                monitor: WallTime(at),
                length: *length,
                flow: 0,
            }
        });
        Ok(PartState {
            records: records.collect(),
            sides: w.sides,
            identity: w.identity,
            offset: w.offset,
            window: w.window,
            part: w.part,
            counts: w.counts,
            captures: w.captures,
        })
    }

    /// Adds what follows.
    ///
    /// # Errors
    /// [`PartError`] if it is not the next part of the same captures; then this one is as it was.
    pub fn append(&mut self, next: PartState) -> Result<(), PartError> {
        let rule =
            |s: &PartState| (s.sides.clone(), s.identity, s.offset, s.window, s.part.clocks, s.part.spans);
        if rule(self) != rule(&next) {
            return Err(PartError::Unlike);
        }
        if self.part.to != next.part.from {
            return Err(PartError::NotAdjacent { ends: self.part.to.0, begins: next.part.from.0 });
        }
        self.part.to = next.part.to;
        self.records.extend(next.records);
        for (mine, theirs) in self.counts.iter_mut().zip(next.counts) {
            mine.add(&theirs);
        }
        for (mine, theirs) in self.captures.iter_mut().zip(next.captures) {
            mine.append(theirs);
        }
        Ok(())
    }

    /// The figures of all its packets; pairs go to `estimator`, which is returned with them.
    pub fn result(
        self,
        mut estimator: PairEstimator,
        mut after_some: impl FnMut(&mut PairEstimator),
    ) -> PassiveResult {
        // In the order of arrival: figures of consecutive packets are of packets that arrived so.
        let arrival = |r: &Record| match r.direction {
            Direction::Up => self.part.clocks.on_reference(CapturePoint::Monitor, r.monitor),
            Direction::Down => r.reference.0,
        };
        let mut arrived = self.records.clone();
        arrived.sort_by_key(arrival);
        let mut last = [i64::MIN; 2];
        let mut counts = self.counts;
        counts.iter_mut().for_each(|c| c.reordered = 0);
        for r in arrived {
            let (k, sent) = match r.direction {
                Direction::Up => (0, r.reference.0),
                Direction::Down => (1, r.monitor.0),
            };
            counts[k].reordered += u64::from(sent < last[k]);
            last[k] = last[k].max(sent);
            estimator.arrived(0, r, false);
        }
        for (k, r) in self.records.iter().enumerate() {
            estimator.record(*r);
            if k % 1024 == 1023 {
                after_some(&mut estimator);
            }
        }
        after_some(&mut estimator);
        let plan = MatchPlan {
            fields: self.identity.fields,
            sides: self.sides,
            offset: self.offset,
            common: self.records.len(),
            direction_assumed: false,
        };
        PassiveResult {
            plan,
            addresses_given: false,
            identity: self.identity,
            window: self.window,
            captures: self.captures,
            summary: estimator.summary_of(counts),
            sizes: estimator.sizes(),
            flows: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IdentityFields;

    fn part(from: i64, to: i64) -> CapturePart {
        let clocks = ClockLine { at: WallTime(1000), offset: Span(-70), drift: 1e-4 };
        CapturePart { from: WallTime(from), to: WallTime(to), overlap: Span(100), clocks, spans: [None; 2] }
    }

    fn state(from: i64, to: i64) -> PartState {
        let record = |k: i64| Record {
            direction: Direction::BOTH[(k % 2) as usize],
            reference: WallTime(k * 10),
            monitor: WallTime(k * 10 - 65),
            length: 40,
            flow: 0,
        };
        PartState {
            sides: [Sides::any(), Sides::any()],
            identity: IdentityRule { fields: IdentityFields::ALL, available: 80 },
            offset: Span(-70),
            window: Span(1000),
            part: part(from, to),
            records: (from / 10..to / 10).map(record).collect(),
            counts: [MatchCounts { matched: 3, lost: 1, ..MatchCounts::default() }; 2],
            captures: Default::default(),
        }
    }

    #[test]
    fn a_time_belongs_to_one_part_on_either_clock() {
        for at in (0..1_000_000).step_by(777).map(WallTime) {
            for point in [CapturePoint::Reference, CapturePoint::Monitor] {
                let parts = [(i64::MIN, 5000), (5000, 300_000), (300_000, i64::MAX)];
                assert_eq!(parts.iter().filter(|(a, b)| part(*a, *b).keeps(point, at)).count(), 1);
            }
        }
        assert!(
            part(500, 600).reads(CapturePoint::Reference, WallTime(400))
                && !part(500, 600).keeps(CapturePoint::Reference, WallTime(400))
        );
    }

    #[test]
    fn what_was_written_is_read_and_damage_is_told() {
        let bytes = state(100, 900).save().unwrap();
        let read = PartState::load(&bytes).unwrap();
        assert_eq!((read.records, read.part), (state(100, 900).records, part(100, 900)));
        for at in 0..bytes.len() {
            let mut spoilt = bytes.clone();
            spoilt[at] ^= 1;
            assert!(PartState::load(&spoilt).is_err(), "{at}");
            assert!(PartState::load(&bytes[..at]).is_err(), "{at}");
        }
    }

    #[test]
    fn only_the_next_part_of_the_same_captures_is_joined() {
        let mut first = state(100, 300);
        first.append(state(300, 500)).unwrap();
        assert_eq!((first.records.clone(), first.counts[0].matched), (state(100, 500).records, 6));
        let gap = first.append(state(510, 600));
        assert_eq!(gap, Err(PartError::NotAdjacent { ends: 500, begins: 510 }));
        let other = PartState { window: Span(9), ..state(500, 600) };
        assert_eq!(first.append(other), Err(PartError::Unlike));
    }

    proptest::proptest! {
        /// With a right checksum: either it is refused, or it can be joined and gives figures.
        #[test]
        fn no_bytes_are_too_bad(
            changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 0..=255u8), 1..6),
        ) {
            let bytes = state(100, 900).save().unwrap();
            let mut body = bytes[FIRST_LINE.len() + SUM..].to_vec();
            for (at, byte) in changes {
                let at = at.index(body.len());
                body[at] = byte;
            }
            if let Ok(mut part) = PartState::load(&seal(FIRST_LINE, &body)) {
                let mut next = part.clone();
                (next.part.from, next.part.to) = (part.part.to, WallTime(i64::MAX));
                let _ = part.append(next);
                part.result(PairEstimator::new(Span(1_000_000_000), None), |_| ());
            }
        }
    }
}
