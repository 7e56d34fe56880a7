#![no_main]
// Aims at: crates/passive/src/pipeline crates/passive/src/matcher.rs crates/passive/src/matcher

//! Deliveries of two live points in any order and with any times: they are learnt from and merged without a panic, in
//! bounded memory, and no packet is matched that was not seen.

use arbitrary::Arbitrary;
use jitlat_core::spec::Direction;
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_passive::pipeline::{CapturedBatch, FrameBatch, Learner, Merger, PointDelivery};
use jitlat_passive::{CapturePoint, Frame, LinkType, Matcher, PairEstimator, Sighting};

#[derive(Arbitrary, Debug)]
enum Step {
    Frame { monitor: bool, at: i64, bytes: Vec<u8> },
    Sighting { monitor: bool, back: bool, at: i64, id: u8 },
    Covers { monitor: bool, from: i64, to: i64 },
    Release,
}

fn point(monitor: bool) -> CapturePoint {
    if monitor { CapturePoint::Monitor } else { CapturePoint::Reference }
}

libfuzzer_sys::fuzz_target!(|input: (i64, [i64; 2], Vec<Step>)| {
    let (offset, begins, steps) = input;
    let mut learner = Learner::new(None, 200, None);
    let matcher = Matcher::new(Span(offset), Span::seconds(1)).with_capacity(16);
    let mut merger = Merger::new(matcher, begins.map(WallTime));
    let mut estimator = PairEstimator::new(Span::seconds(1), None);
    let mut seen = [[0u64; 2]; 2];
    for (k, step) in steps.into_iter().enumerate() {
        match step {
            Step::Frame { monitor, at, bytes } => {
                let mut frames = FrameBatch::default();
                let wire_length = bytes.len() as u32;
                frames.push(&Frame { at: WallTime(at), link: LinkType::RAW, wire_length, data: &bytes });
                assert_eq!(frames.frames().map(|f| f.data.len()).sum::<usize>(), bytes.len());
                let covered = Some((WallTime(at), WallTime(at)));
                learner.take(PointDelivery {
                    point: point(monitor),
                    what: CapturedBatch::Frames(frames),
                    covered,
                });
                let _ = learner.plan(SteadyTime(k as i64 * 100_000_000));
            }
            Step::Sighting { monitor, back, at, id } => {
                let direction = if back { Direction::Down } else { Direction::Up };
                seen[usize::from(monitor)][direction as usize] += 1;
                let id = u64::from(id) * 2 + direction as u64;
                merger.push(point(monitor), Sighting { at: WallTime(at), id, length: 1, direction, flow: 0 });
            }
            Step::Covers { monitor, from, to } => merger.covers(point(monitor), WallTime(from), WallTime(to)),
            Step::Release => merger.release(&mut estimator),
        }
    }
    let _ = (learner.begins(), learner.not_learnt(), learner.into_held().count());
    let counts = merger.finish(&mut estimator, |_| ());
    for (direction, c) in counts.iter().enumerate() {
        assert!(c.matched <= seen[0][direction].min(seen[1][direction]), "{counts:?}");
        assert!(
            c.seen_at_reference <= seen[0][direction] && c.seen_at_monitor <= seen[1][direction],
            "{counts:?}"
        );
    }
    let _ = estimator.summary_of(counts);
});
