//! Joins several tests of one path into one, in which each test begins where the previous one ends.
//!
//! Sequence numbers continue, and times are shifted so that the first packet of a test is due one period
//! after the last packet of the test before. Delays stay as measured, except for clock corrections: if the
//! clock offset is known in both tests, the later test is shifted to the offset of the earlier one.

use super::engine::{Engine, Packets};
use super::gathered::Gathered;
use super::twoway::{BothWays, Returned, STRETCHES};
use super::{Analyzer, NotMergeable};
use crate::clock::ClockProbe;
use crate::metrics::classify::{AcceptedPacket, Classifier};
use crate::metrics::duplicate::Copies;
use crate::metrics::seqset::SeqSet;
use crate::metrics::series::Samples;
use crate::session::Session;
use crate::time::{Span, WallTime};

/// Offsets by which a test is shifted.
#[derive(Clone, Copy, Debug)]
struct Shift {
    /// Number of packets in the previous tests, which is added to all sequence numbers.
    numbers: u32,
    /// Number of packets in all tests together.
    packets: u32,
    /// Offset for readings of the sender's clock, in ns.
    sent: i64,
    /// Offset for readings of the receiver's clock, in ns.
    arrived: i64,
}

impl Analyzer {
    /// Returns the sequence number after the last packet that is known to have been sent.
    pub(crate) fn sent(&self, session: &Session) -> u64 {
        self.views.first().map_or(0, |view| view.extent(session).end)
    }

    /// Adds the analysis of another test. `mine` and `theirs` are the sessions of this and the other test,
    /// which together sent `packets` packets.
    pub(crate) fn unite(
        &mut self,
        mine: &Session,
        mut next: Analyzer,
        theirs: &Session,
        packets: u32,
    ) -> Result<(), NotMergeable> {
        let numbers = u32::try_from(self.sent(mine)).map_err(|_| NotMergeable::TooLong)?;
        let of_both = [&*self, &next].map(|test| test.views.iter().map(Engine::gathered).collect());
        let [Some(here), Some(there)]: [Option<Vec<&Gathered>>; 2] = of_both else {
            return Err(NotMergeable::AnotherTest);
        };
        let Some((first, second)) = here.first().zip(there.first()) else { return Ok(()) };
        let near = time_between(first, second, mine, theirs, numbers).ok_or(NotMergeable::TooFarApart)?;
        let clocks = match (&self.both_ways, &next.both_ways) {
            (None, None) => {
                let known = [(first, mine), (second, theirs)].map(|(of, s)| of.clock(s).correction_ns);
                if let [Some(here), Some(there)] = known { here.checked_sub(there) } else { Some(0) }
            }
            (Some(mine), Some(next)) => mine.clock_ahead().checked_sub(next.clock_ahead()),
            _ => return Err(super::ONE_WAY_AND_TWO_WAY),
        };
        let far = clocks.and_then(|c| c.checked_add(near)).ok_or(NotMergeable::TooFarApart)?;
        let ends = if self.both_ways.is_some() { &VIEWS_ENDS[..] } else { &[[false, true]][..] };
        for ((mine, theirs), ends) in self.views.iter_mut().zip(next.views).zip(ends) {
            let [sent, arrived] = ends.map(|is_far| if is_far { far } else { near });
            mine.take_after(theirs, Shift { numbers, packets, sent, arrived })?;
        }
        if let Some((mine, theirs)) = self.both_ways.as_mut().zip(next.both_ways.take()) {
            mine.unite(&theirs, (numbers, packets), [near, far]);
        }
        Ok(())
    }
}

/// Clocks of the two times of each view (round trip, up, down): true if the time is read from the far host's clock.
const VIEWS_ENDS: [[bool; 2]; 3] = [[false, false], [false, true], [true, false]];

/// Returns the offset to add to the times of `next`, in ns, so that it begins where the `numbers` packets of `before`
/// end; `None` if it exceeds the clock's range.
fn time_between(
    before: &Gathered,
    next: &Gathered,
    mine: &Session,
    theirs: &Session,
    numbers: u32,
) -> Option<i64> {
    // Time at which packet `seq` was due, computed from the nearest packet received.
    let due = |nearest: Option<AcceptedPacket>, seq: i64, session: &Session| {
        let Some(packet) = nearest else { return Some(None) };
        let period = session.period().unwrap_or(Span(0));
        let since = period.0.checked_mul(seq - i64::from(packet.seq))?;
        packet.sent.checked_add(since).map(Some)
    };
    let end = due(before.samples.iter().max_by_key(|p| p.seq), numbers.into(), mine)?;
    let start = due(next.samples.iter().min_by_key(|p| p.seq), 0, theirs)?;
    end.zip(start).map_or(Some(0), |(end, start)| end.checked_sub(start))
}

impl Engine {
    fn take_after(&mut self, next: Engine, shift: Shift) -> Result<(), NotMergeable> {
        let next = next.shifted(shift).ok_or(NotMergeable::TooFarApart)?;
        self.classifier.set_packets(shift.packets);
        self.append(next);
        Ok(())
    }

    /// Returns the analysis with shifted sequence numbers and times; `None` if these overflow, or if the analysis is in
    /// constant memory.
    fn shifted(self, shift: Shift) -> Option<Engine> {
        let Packets::All(packets) = self.samples else { return None };
        let Gathered { samples, delayless, copies, damaged, notes } = *packets;
        let mut moved = Samples::default();
        let mut came = Classifier::new(shift.packets);
        (came.received, came.invalid) = (self.classifier.received, self.classifier.invalid);
        for packet in samples.iter() {
            let sent = packet.sent.checked_add(shift.sent)?;
            let arrived = packet.arrived().checked_add(shift.arrived)?;
            let seq = packet.seq.checked_add(shift.numbers)?;
            moved.push(AcceptedPacket { seq, sent, delay: arrived.checked_sub(sent)? });
            came.accepted.insert(seq);
        }
        let mut without = SeqSet::default();
        for seq in delayless.iter() {
            let seq = seq.checked_add(shift.numbers)?;
            without.insert(seq);
            came.accepted.insert(seq);
        }
        let of_copies = |copies: &Copies| {
            let mut moved = Copies::default();
            for (seq, at) in copies.iter() {
                moved.push(seq.checked_add(shift.numbers)?, at.map(|t| t.saturating_add(shift.arrived)));
            }
            Some(moved)
        };
        let packets = Gathered {
            samples: moved,
            delayless: without,
            copies: of_copies(&copies)?,
            damaged: of_copies(&damaged)?,
            notes: notes.map(|notes| notes.shifted(shift.numbers)),
        };
        Some(Engine::of(&self.test, came, self.tally.shifted(shift.numbers, shift.arrived), packets))
    }
}

impl BothWays {
    /// Returns the offset of the far host's clock relative to this host's, according to the fastest exchange, in ns.
    fn clock_ahead(&self) -> i64 {
        let best = self.fastest.iter().flatten().min_by_key(|p| p.rtt());
        best.map_or(0, |p| p.double_offset() / 2)
    }

    /// Adds the view-independent state of another test. Its times at the near and the far host are shifted by the given
    /// offsets.
    fn unite(&mut self, next: &BothWays, (numbers, packets): (u32, u32), [near, far]: [i64; 2]) {
        let moved = |p: &ClockProbe| ClockProbe {
            sent: p.sent + Span(near),
            arrived: p.arrived + Span(far),
            answered: p.answered + Span(far),
            returned: p.returned + Span(near),
        };
        let later: Vec<Option<ClockProbe>> = next.fastest.iter().map(|p| p.as_ref().map(moved)).collect();
        self.fastest = spread(&self.fastest, &later, numbers, packets);
        let at = |time: Option<WallTime>| time.map(|t| t + Span(near));
        let BothWays { returned, processing, processing_sum, .. } = *next;
        let returned = Returned { first: at(returned.first), last: at(returned.last), ..returned };
        self.packets = packets;
        self.append_common(returned, processing, processing_sum);
    }
}

/// Distributes the fastest exchanges of both tests over the parts of the joined test.
fn spread(
    first: &[Option<ClockProbe>; STRETCHES],
    second: &[Option<ClockProbe>],
    numbers: u32,
    packets: u32,
) -> [Option<ClockProbe>; STRETCHES] {
    let mut all = [None; STRETCHES];
    let share = f64::from(numbers) / f64::from(packets.max(1));
    for (probes, from, width) in [(&first[..], 0.0, share), (second, share, 1.0 - share)] {
        for (k, probe) in probes.iter().enumerate() {
            let Some(probe) = probe else { continue };
            let position = from + width * (k as f64 + 0.5) / STRETCHES as f64;
            let slot: &mut Option<ClockProbe> = &mut all[(position * STRETCHES as f64) as usize % STRETCHES];
            if slot.is_none_or(|p| probe.rtt() < p.rtt()) {
                *slot = Some(*probe);
            }
        }
    }
    all
}
