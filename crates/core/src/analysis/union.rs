//! Several tests of one path as one: each begins where the one before ends.
//!
//! Sequence numbers go on, and times are moved so that the first packet of a test is due one period after the last
//! of the test before. Delays are as measured, but for the clocks: where both tests know how their clocks differ,
//! the later test's is moved to the earlier one's.

use super::engine::{Engine, Kept};
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
        self.views.first().map_or(0, |view| view.extent(session).end)
    }

    /// Adds the analysis of another test, whose session was `theirs`; `mine` was this one's, `packets` is how many
    /// both sent.
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
            mine.unite(*theirs, (numbers, packets), [near, far]);
        }
        Ok(())
    }
}

/// Whether the first and the last times of round trips, of the way there and of the way back are the far host's.
const VIEWS_ENDS: [[bool; 2]; 3] = [[false, false], [false, true], [true, false]];

/// From the times of `next`, as recorded, to those it has behind the `numbers` packets of the test before; `None` where
/// the clock does not reach so far.
fn time_between(
    before: &Gathered,
    next: &Gathered,
    mine: &Session,
    theirs: &Session,
    numbers: u32,
) -> Option<i64> {
    // When packet `seq` was due, by the packet nearest to it.
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

    /// The same packets with other numbers and times; `None` where these do not fit.
    fn shifted(self, shift: Shift) -> Option<Engine> {
        let Kept::All(packets) = self.samples else { return None };
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
    /// How far the far host's clock is ahead, as the fastest exchange tells.
    fn clock_ahead(&self) -> i64 {
        let best = self.fastest.iter().flatten().min_by_key(|p| p.rtt());
        best.map_or(0, |p| p.double_offset() / 2)
    }

    /// Adds what another test has beside its views, whose times are moved by so much at either host.
    fn unite(&mut self, next: BothWays, (numbers, packets): (u32, u32), [near, far]: [i64; 2]) {
        let moved = |p: &ClockProbe| ClockProbe {
            sent: p.sent + Span(near),
            arrived: p.arrived + Span(far),
            answered: p.answered + Span(far),
            returned: p.returned + Span(near),
        };
        let later: Vec<Option<ClockProbe>> = next.fastest.iter().map(|p| p.as_ref().map(moved)).collect();
        self.fastest = spread(&self.fastest, &later, numbers, packets);
        let at = |time: Option<WallTime>| time.map(|t| t + Span(near));
        let BothWays { returned, processing, processing_sum, .. } = next;
        let returned = Returned { first: at(returned.first), last: at(returned.last), ..returned };
        self.packets = packets;
        self.append_beside(returned, processing, processing_sum);
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
