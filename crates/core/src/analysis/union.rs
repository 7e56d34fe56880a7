//! Several tests of one path as one: each begins where the one before ends.
//!
//! Sequence numbers go on, and times are moved so that the first packet of a test is due one period after the last
//! of the test before. Delays are as measured, but for the clocks: where both tests know how their clocks differ,
//! the later test's is moved to the earlier one's.

use super::exact;
use super::twoway::{Returned, STRETCHES, TwoWayAnalysis};
use super::{Analyzer, Gathered, Mode, NotMergeable};
use crate::clock::ClockProbe;
use crate::evidence::KnownPackets;
use crate::metrics::classify::{AcceptedPacket, Classifier};
use crate::metrics::duplicate::Copies;
use crate::metrics::seqset::SeqSet;
use crate::metrics::series::Samples;
use crate::session::Session;
use crate::time::{Span, WallTime};

/// Where a test is moved.
#[derive(Clone, Copy, Debug)]
struct Shift {
    /// Packets of the tests before, and of all together.
    numbers: u32,
    packets: u32,
    /// To add to readings of the sender's clock, and of the receiver's, in ns.
    sent: i64,
    arrived: i64,
}

impl Analyzer {
    /// The number after the last packet that the test is known to have sent.
    pub(crate) fn sent(&self, session: &Session) -> u64 {
        match &self.mode {
            Mode::Exact(gathered) => KnownPackets::of(session, &gathered.came()).end,
            Mode::Streaming(stream) => stream.extent(session).end,
            Mode::TwoWay(views) => views.round_trip.sent(session),
        }
    }

    /// Adds the analysis of another test, whose session was `theirs`; `mine` was this one's, `packets` is how many
    /// both sent.
    pub(crate) fn unite(
        &mut self,
        mine: &Session,
        next: Analyzer,
        theirs: &Session,
        packets: u32,
    ) -> Result<(), NotMergeable> {
        let numbers = u32::try_from(self.sent(mine)).map_err(|_| NotMergeable::TooLong)?;
        self.take_after(mine, next, theirs, (numbers, packets))?;
        self.keep_to_memory();
        Ok(())
    }

    fn take_after(
        &mut self,
        mine: &Session,
        next: Analyzer,
        theirs: &Session,
        (numbers, packets): (u32, u32),
    ) -> Result<(), NotMergeable> {
        match (&mut self.mode, next.mode) {
            (Mode::Exact(gathered), Mode::Exact(next)) => {
                let by = gathered.time_to(&next, mine, theirs, numbers).ok_or(NotMergeable::TooFarApart)?;
                let clocks = [(&*gathered, mine), (&next, theirs)];
                let [Some(here), Some(there)] = clocks.map(|(g, s)| exact::clock(g, s).correction_ns) else {
                    let shift = Shift { numbers, packets, sent: by, arrived: by };
                    return gathered.take_after(*next, shift);
                };
                let clocks = here.checked_sub(there).ok_or(NotMergeable::TooFarApart)?;
                let arrived = by.checked_add(clocks).ok_or(NotMergeable::TooFarApart)?;
                gathered.take_after(*next, Shift { numbers, packets, sent: by, arrived })
            }
            (Mode::TwoWay(views), Mode::TwoWay(next)) => views.unite(mine, *next, theirs, (numbers, packets)),
            (Mode::Streaming(_), _) | (_, Mode::Streaming(_)) => Err(NotMergeable::AnotherTest),
            _ => Err(super::ONE_WAY_AND_TWO_WAY),
        }
    }

    fn gathered(&mut self) -> Result<&mut Gathered, NotMergeable> {
        match &mut self.mode {
            Mode::Exact(gathered) => Ok(gathered),
            _ => Err(NotMergeable::AnotherTest),
        }
    }
}

impl Gathered {
    /// From the times of `next`, as recorded, to those it has behind the `numbers` packets of this test; `None` where
    /// the clock does not reach so far.
    fn time_to(&self, next: &Gathered, mine: &Session, theirs: &Session, numbers: u32) -> Option<i64> {
        // When packet `seq` was due, by the packet nearest to it.
        let due = |nearest: Option<AcceptedPacket>, seq: i64, session: &Session| {
            let Some(packet) = nearest else { return Some(None) };
            let period = session.period().unwrap_or(Span(0));
            let since = period.0.checked_mul(seq - i64::from(packet.seq))?;
            packet.sent.checked_add(since).map(Some)
        };
        let end = due(self.samples.iter().max_by_key(|p| p.seq), numbers.into(), mine)?;
        let start = due(next.samples.iter().min_by_key(|p| p.seq), 0, theirs)?;
        end.zip(start).map_or(Some(0), |(end, start)| end.checked_sub(start))
    }

    fn take_after(&mut self, next: Gathered, shift: Shift) -> Result<(), NotMergeable> {
        let next = next.shifted(shift).ok_or(NotMergeable::TooFarApart)?;
        self.classifier.set_packets(shift.packets);
        self.append(next);
        Ok(())
    }

    /// The same packets with other numbers and times; `None` where these do not fit.
    fn shifted(self, shift: Shift) -> Option<Gathered> {
        let Gathered { classifier, samples, delayless, copies, damaged, tally, notes } = self;
        let mut moved = Samples::default();
        let mut accepted = Classifier::new(shift.packets);
        for packet in samples.iter() {
            let sent = packet.sent.checked_add(shift.sent)?;
            let arrived = packet.arrived().checked_add(shift.arrived)?;
            let seq = packet.seq.checked_add(shift.numbers)?;
            moved.push(AcceptedPacket { seq, sent, delay: arrived.checked_sub(sent)? });
            accepted.accepted.insert(seq);
        }
        (accepted.received, accepted.invalid) = (classifier.received, classifier.invalid);
        let mut without = SeqSet::default();
        for seq in delayless.iter() {
            without.insert(seq.checked_add(shift.numbers)?);
        }
        let of_copies = |copies: &Copies| {
            let mut moved = Copies::default();
            for (seq, at) in copies.iter() {
                moved.push(seq.checked_add(shift.numbers)?, at.map(|t| t.saturating_add(shift.arrived)));
            }
            Some(moved)
        };
        Some(Gathered {
            classifier: accepted,
            samples: moved,
            delayless: without,
            copies: of_copies(&copies)?,
            damaged: of_copies(&damaged)?,
            tally: tally.shifted(shift.numbers, shift.arrived),
            notes: notes.map(|notes| notes.shifted(shift.numbers)),
        })
    }
}

impl TwoWayAnalysis {
    fn unite(
        &mut self,
        mine: &Session,
        mut next: TwoWayAnalysis,
        theirs: &Session,
        (numbers, packets): (u32, u32),
    ) -> Result<(), NotMergeable> {
        let near = self.round_trip.gathered()?.time_to(next.round_trip.gathered()?, mine, theirs, numbers);
        let near = near.ok_or(NotMergeable::TooFarApart)?;
        // How far the far host's clock is ahead, as the fastest exchange tells.
        let ahead = |fastest: &[Option<ClockProbe>]| {
            let best = fastest.iter().flatten().min_by_key(|p| p.rtt());
            best.map_or(0, |p| p.double_offset() / 2)
        };
        let clocks = ahead(&self.fastest).checked_sub(ahead(&next.fastest));
        let far = clocks.and_then(|c| c.checked_add(near)).ok_or(NotMergeable::TooFarApart)?;
        let parts = [
            (&mut self.round_trip, &mut next.round_trip, near, near),
            (&mut self.up, &mut next.up, near, far),
            (&mut self.down, &mut next.down, far, near),
        ];
        for (here, there, sent, arrived) in parts {
            let there = core::mem::replace(there.gathered()?, Gathered::empty());
            here.gathered()?.take_after(there, Shift { numbers, packets, sent, arrived })?;
        }
        let moved = |p: &ClockProbe| ClockProbe {
            sent: p.sent + Span(near),
            arrived: p.arrived + Span(far),
            answered: p.answered + Span(far),
            returned: p.returned + Span(near),
        };
        let later: Vec<Option<ClockProbe>> = next.fastest.iter().map(|p| p.as_ref().map(moved)).collect();
        self.fastest = spread(&self.fastest, &later, numbers, packets);
        let at = |time: Option<WallTime>| time.map(|t| t + Span(near));
        let TwoWayAnalysis { returned, processing, processing_sum, .. } = next;
        let returned = Returned { first: at(returned.first), last: at(returned.last), ..returned };
        self.packets = packets;
        self.append_beside(returned, processing, processing_sum);
        Ok(())
    }
}

/// The fastest exchanges of the stretches of both tests, by the stretches of both together.
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
            let place = from + width * (k as f64 + 0.5) / STRETCHES as f64;
            let slot: &mut Option<ClockProbe> = &mut all[(place * STRETCHES as f64) as usize % STRETCHES];
            if slot.is_none_or(|p| probe.rtt() < p.rtt()) {
                *slot = Some(*probe);
            }
        }
    }
    all
}
