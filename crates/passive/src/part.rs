//! Parts of two captures by time, analysed separately and joined later: [`CapturePart`] specifies a part,
//! [`PartState`] contains its results.
//!
//! For each part, its own time and an overlap on both sides are read, so that packets that cross its borders
//! are matched as in an analysis of the whole captures. The results are cut at times of the monitor's clock,
//! in whose order pairs are made: the matched packets of all parts, one after the other, equal those of the
//! whole captures. The position of a cut on the other clock follows from a [`ClockLine`], which is the same
//! for all parts.

use super::pipeline::CaptureFacts;
use super::{
    CapturePoint, IdentityRule, MatchCounts, MatchObserver, MatchPlan, PairEstimator, PassiveResult, Record,
    Sides,
};
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};
use serde::{Deserialize, Serialize};

/// Version of the serialised state.
const VERSION: u32 = 1;
/// First line of a serialised state.
const FIRST_LINE: &[u8] = b"jitlat part 1\n";
/// Beginning of the first line of a serialised state, in all versions.
const ANY_VERSION: &[u8] = b"jitlat part ";
/// Length of the checksum, in bytes.
const SUM: usize = 8;

/// Monitor clock minus reference clock, as a linear function of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockLine {
    /// Time at which `offset` applies, on the reference clock.
    pub at: WallTime,
    /// Clock offset at the time `at`.
    pub offset: Span,
    /// Growth of the clock offset, in ns per ns.
    pub drift: f64,
}

impl ClockLine {
    /// Returns the clock offset at a time on the reference clock.
    pub fn offset_at(&self, reference: WallTime) -> Span {
        let since = reference.0.saturating_sub(self.at.0);
        Span(self.offset.0.saturating_add((since as f64 * self.drift) as i64))
    }

    /// Converts a time of a point's clock to the reference clock, in ns.
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

    /// True if the values are plausible for the offset of two clocks.
    pub fn is_possible(&self) -> bool {
        self.drift.is_finite() && self.drift.abs() < 0.1
    }
}

/// Specifies a part of two captures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapturePart {
    /// Beginning of the part, on the reference clock.
    pub from: WallTime,
    /// End of the part, exclusive.
    pub to: WallTime,
    /// Length of the overlap read before and after the part.
    pub overlap: Span,
    /// Clock offset over time.
    pub clocks: ClockLine,
    /// First and last timestamp of each capture; `None` for an empty capture.
    pub spans: [Option<(WallTime, WallTime)>; 2],
}

impl CapturePart {
    /// True if a sighting at this time belongs to the part.
    #[inline]
    pub fn contains(&self, point: CapturePoint, at: WallTime) -> bool {
        (self.from.0..self.to.0).contains(&self.clocks.on_reference(point, at))
    }

    /// True if a sighting at this time is read, that is, belongs to the part or its overlaps.
    #[inline]
    pub fn reads(&self, point: CapturePoint, at: WallTime) -> bool {
        let at = self.clocks.on_reference(point, at);
        at >= self.from.0.saturating_sub(self.overlap.0) && at < self.to.0.saturating_add(self.overlap.0)
    }

    /// Returns the times by which the captures extend before and after the part; zero if they do not.
    pub fn missing(&self) -> [Span; 2] {
        let mut missing = [Span(0); 2];
        let points = [CapturePoint::Reference, CapturePoint::Monitor];
        for (point, (first, last)) in points.into_iter().zip(self.spans).filter_map(|(p, s)| Some((p, s?))) {
            let [first, last] = [first, last].map(|at| self.clocks.on_reference(point, at));
            missing[0] = missing[0].max(Span(self.from.0.saturating_sub(first)));
            missing[1] = missing[1].max(Span(last.saturating_sub(self.to.0).saturating_add(1)));
        }
        missing
    }

    /// Returns the clock offset at the time at which reading begins.
    pub fn first_offset(&self) -> Span {
        let begun = self.spans[0].map_or(self.clocks.at, |(first, _)| first);
        self.clocks.offset_at(begun.max(WallTime(self.from.0.saturating_sub(self.overlap.0))))
    }
}

/// One file of a capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexedFile {
    /// File name.
    pub file: String,
    /// First timestamp, in ns since 1970; absent without frames.
    pub first_ns: Option<WallTime>,
    /// Last timestamp, in ns since 1970; absent without frames.
    pub last_ns: Option<WallTime>,
    /// Number of frames.
    pub frames: u64,
    /// Number of packets that the capturing system reported as dropped.
    pub drops: u64,
    /// Addresses seen, at most 16, those with the most packets first.
    pub hosts: Vec<String>,
    /// Errors in the file.
    pub notes: Vec<String>,
}

/// Results of a first pass over two captures: how to match them, how their clocks differ, and an index of the
/// files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstPass {
    /// Kind of document: always `spp-plan`.
    pub kind: String,
    /// Version of this document: 1.
    pub version: u32,
    /// Addresses at the two ends, as seen by the reference and the monitor point.
    pub sides: [Sides; 2],
    /// Rule by which packets are identified.
    pub identity: IdentityRule,
    /// Clock offset at the beginning of the captures, in ns: monitor clock minus reference clock.
    pub offset_ns: Span,
    /// Number of common packets that the plan is based on.
    pub common: usize,
    /// True if the direction is a guess from the clocks.
    pub direction_assumed: bool,
    /// True if no pairs are made of ICMP echoes.
    pub echoes_apart: bool,
    /// For the reference and the monitor point: true to match the packets inside tunnels instead of the tunnel packets.
    #[serde(default)]
    pub inside: [bool; 2],
    /// Clock offset over time.
    pub clocks: ClockLine,
    /// Files of the reference and of the monitor point.
    pub captures: [Vec<IndexedFile>; 2],
}

impl FirstPass {
    /// Value of [`Self::kind`].
    pub const KIND: &str = "spp-plan";

    /// Returns the plan of the survey.
    pub fn plan(&self) -> MatchPlan {
        MatchPlan {
            sides: self.sides.clone(),
            fields: self.identity.fields,
            offset: self.offset_ns,
            common: self.common,
            direction_assumed: self.direction_assumed,
            inside: self.inside,
        }
    }

    /// Returns the first and last timestamp of each capture.
    pub fn spans(&self) -> [Option<(WallTime, WallTime)>; 2] {
        self.captures.each_ref().map(|files| {
            let first = files.iter().filter_map(|f| f.first_ns).min()?;
            Some((first, files.iter().filter_map(|f| f.last_ns).max()?))
        })
    }

    /// True if the values are consistent, as in a document written by this program.
    pub fn is_possible(&self) -> bool {
        self.kind == FirstPass::KIND && self.version == 1 && self.clocks.is_possible()
    }
}

/// Results of one part, with its packets, so that parts can be joined.
#[derive(Clone, Debug)]
pub struct PartState {
    /// Addresses at the two ends, as seen by both points.
    pub sides: [Sides; 2],
    /// Rule by which packets were identified.
    pub identity: IdentityRule,
    /// Clock offset at the beginning of the captures.
    pub offset: Span,
    /// Longest transit time of a packet between the two points.
    pub window: Span,
    /// The part that was analysed.
    pub part: CapturePart,
    /// Matched packets, in the order of the monitor's clock.
    pub records: Vec<Record>,
    /// Counts of the packets in both directions.
    pub counts: [MatchCounts; 2],
    /// Facts about both captures within the part, without the overlap.
    pub captures: [CaptureFacts; 2],
}

/// Serialised form of [`PartState`]: times as differences from the previous packet.
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

/// Reason why parts cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// The file is not a state written by the command with this name.
    #[error("not a state file of a part: write one with jitlat {0} --keep N/M --state FILE")]
    NotAState(&'static str),
    /// The file was written by another version.
    #[error("the file was written by another version of jitlat")]
    Version,
    /// The checksum does not match the contents.
    #[error("the file is damaged: the checksum does not match")]
    Damaged,
    /// The contents contradict each other.
    #[error("the file is damaged: {0}")]
    Impossible(String),
    /// The parts belong to different captures, or were matched with different settings.
    #[error(
        "the parts belong to different captures or were matched differently: use the same --plan for all"
    )]
    Unlike,
    /// The parts belong to different captures, or were read with different options.
    #[error(
        "the parts belong to different captures, or were read with different options or numbers of parts"
    )]
    OtherCaptures,
    /// No part was given.
    #[error("no state file was given")]
    NoPart,
    /// A part is missing.
    #[error("part {number}/{of} is missing")]
    Missing {
        /// 1-based number of the missing part.
        number: u32,
        /// Total number of parts.
        of: u32,
    },
    /// A part was given twice.
    #[error("part {number}/{of} was given twice")]
    Twice {
        /// 1-based number of the part.
        number: u32,
        /// Total number of parts.
        of: u32,
    },
    /// Two parts are not adjacent: there is a gap between them, or they overlap.
    #[error("one part ends at {ends} and the next begins at {begins} (ns since 1970, reference clock)")]
    NotAdjacent {
        /// End of the earlier part.
        ends: i64,
        /// Beginning of the later part.
        begins: i64,
    },
}

/// Serialises a state: its first line, a checksum, and the body.
pub(super) fn seal(first_line: &[u8], body: &[u8]) -> Vec<u8> {
    [first_line, &twox_hash::XxHash3_64::oneshot(body).to_le_bytes(), body].concat()
}

/// Reason why a file has no valid body.
pub(super) enum NotSealed {
    Other,
    Version,
    Damaged,
}

impl NotSealed {
    /// Converts the error to one about the states of `command`.
    pub(super) fn of(self, command: &'static str) -> PartError {
        match self {
            NotSealed::Other => PartError::NotAState(command),
            NotSealed::Version => PartError::Version,
            NotSealed::Damaged => PartError::Damaged,
        }
    }
}

/// Returns the body of a file made by [`seal`].
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
    /// Serialises the state for [`PartState::load`].
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

    /// Parses the output of [`PartState::save`]. The bytes need not be trusted.
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
            return Err(impossible("columns of different lengths, or impossible clocks".to_owned()));
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

    /// Appends the next part.
    ///
    /// # Errors
    /// [`PartError`] if `next` is not the next part of the same captures; `self` is then unchanged.
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

    /// Computes the results from all packets of the part; returns them with `estimator`, which has received the
    /// pairs.
    pub fn result(
        self,
        mut estimator: PairEstimator,
        mut after_some: impl FnMut(&mut PairEstimator),
    ) -> PassiveResult {
        // Sort by arrival: statistics of consecutive packets depend on the order.
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
            inside: [false; 2],
        };
        PassiveResult {
            plan,
            addresses_given: false,
            identity: self.identity,
            window: self.window,
            captures: self.captures,
            summary: estimator.summary_of(counts),
            sizes: estimator.sizes(),
            clock_steps: Vec::new(),
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
                assert_eq!(parts.iter().filter(|(a, b)| part(*a, *b).contains(point, at)).count(), 1);
            }
        }
        assert!(
            part(500, 600).reads(CapturePoint::Reference, WallTime(400))
                && !part(500, 600).contains(CapturePoint::Reference, WallTime(400))
        );
    }

    #[test]
    fn a_part_knows_the_time_that_it_does_not_cover() {
        let whole = CapturePart { spans: [Some((WallTime(100), WallTime(900))), None], ..part(100, 901) };
        assert_eq!(whole.missing(), [Span(0); 2]);
        assert_eq!(CapturePart { from: WallTime(300), ..whole }.missing(), [Span(200), Span(0)]);
        assert_eq!(CapturePart { to: WallTime(900), ..whole }.missing(), [Span(0), Span(1)]);
        assert_eq!(part(i64::MIN, i64::MAX).missing(), [Span(0); 2]);
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
        /// Arbitrary bytes with a correct checksum are either refused, or can be joined and give results.
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
