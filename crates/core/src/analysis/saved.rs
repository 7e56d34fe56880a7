//! An [`Analyzer`] in its stored form: [`Saved`].

use super::stream::Stream;
use super::twoway::{Returned, STRETCHES, TwoWayAnalysis};
use super::{Analyzer, Gathered, Mode, Options, Tally};
use crate::clock::ClockProbe;
use crate::evidence::RowNotes;
use crate::metrics::duplicate::Copies;
use crate::metrics::seqset::SeqSet;
use crate::metrics::series::Samples;
use crate::session::Session;
use crate::twoway::Processing;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// More rows than any test has: sums of counts below this cannot overflow.
pub(crate) const MOST_ROWS: u64 = 1 << 48;

/// Why stored data cannot be the state of an analysis.
#[derive(Debug)]
pub(crate) struct Impossible(pub &'static str);

const UNLIKE: &str = "the test is two-way and its analysis is not, or the other way about";

pub(super) fn require(holds: bool, otherwise: &'static str) -> Result<(), Impossible> {
    if holds { Ok(()) } else { Err(Impossible(otherwise)) }
}

/// The state of an analysis.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Saved<'a> {
    /// The state for one stream.
    OneWay(SavedView<'a>),
    /// The state for a two-way test.
    TwoWay(Box<SavedTwoWay<'a>>),
}

/// The state for one stream.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SavedView<'a> {
    /// All packets.
    Packets(Box<SavedPackets<'a>>),
    /// What is kept in constant memory.
    Streaming(Box<Cow<'a, Stream>>),
}

/// The packets of a stream in arrival order. Which numbers were accepted follows from them.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedPackets<'a> {
    received: u64,
    invalid: u64,
    accepted: Cow<'a, Samples>,
    #[serde(default)]
    delayless: Cow<'a, SeqSet>,
    copies: Cow<'a, Copies>,
    damaged: Cow<'a, Copies>,
    tally: Cow<'a, Tally>,
    notes: Cow<'a, RowNotes>,
}

/// The three views of a two-way test, and what is kept beside them.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedTwoWay<'a> {
    round_trip: SavedView<'a>,
    up: SavedView<'a>,
    down: SavedView<'a>,
    fastest: [Option<ClockProbe>; STRETCHES],
    processing: Option<Processing>,
    processing_sum: i128,
    returned: Returned,
}

impl Analyzer {
    /// Its stored form; `None` of a test within a test.
    pub(crate) fn saved(&self) -> Option<Saved<'_>> {
        let Mode::TwoWay(views) = &self.mode else { return self.saved_view().map(Saved::OneWay) };
        Some(Saved::TwoWay(Box::new(SavedTwoWay {
            round_trip: views.round_trip.saved_view()?,
            up: views.up.saved_view()?,
            down: views.down.saved_view()?,
            fastest: views.fastest,
            processing: views.processing,
            processing_sum: views.processing_sum,
            returned: views.returned,
        })))
    }

    fn saved_view(&self) -> Option<SavedView<'_>> {
        match &self.mode {
            Mode::Exact(gathered) => Some(SavedView::Packets(Box::new(gathered.saved()))),
            Mode::Streaming(stream) => Some(SavedView::Streaming(Box::new(stream.with_all_settled()))),
            Mode::TwoWay(_) => None,
        }
    }

    /// The analysis of the test `session` describes as it was saved: of all packets or in constant memory, whatever
    /// `options` say.
    pub(crate) fn restored(
        session: &Session,
        saved: Saved<'_>,
        options: &Options,
    ) -> Result<Analyzer, Impossible> {
        let mut analyzer = Analyzer::new(session, options);
        match (&mut analyzer.mode, saved) {
            (Mode::TwoWay(views), Saved::TwoWay(saved)) => views.restore(*saved)?,
            (_, Saved::OneWay(saved)) => analyzer.restore(saved)?,
            (_, Saved::TwoWay(_)) => return Err(Impossible(UNLIKE)),
        }
        Ok(analyzer)
    }

    fn restore(&mut self, saved: SavedView<'_>) -> Result<(), Impossible> {
        let streaming = matches!(saved, SavedView::Streaming(_));
        *self = Analyzer::new(&self.test, &Options { streaming, ..self.options.clone() });
        match (&mut self.mode, saved) {
            (Mode::Exact(gathered), SavedView::Packets(saved)) => gathered.restore(*saved)?,
            (Mode::Streaming(stream), SavedView::Streaming(saved)) => stream.restore(saved.into_owned())?,
            _ => return Err(Impossible(UNLIKE)),
        }
        self.keep_to_memory();
        Ok(())
    }
}

impl Gathered {
    fn saved(&self) -> SavedPackets<'_> {
        SavedPackets {
            received: self.classifier.received,
            invalid: self.classifier.invalid,
            accepted: Cow::Borrowed(&self.samples),
            delayless: Cow::Borrowed(&self.delayless),
            copies: Cow::Borrowed(&self.copies),
            damaged: Cow::Borrowed(&self.damaged),
            tally: Cow::Borrowed(&self.tally),
            notes: self.notes.as_ref().map_or_else(Cow::default, Cow::Borrowed),
        }
    }

    /// Takes over what was saved, after a check that an analysis can have come to it.
    fn restore(&mut self, saved: SavedPackets<'_>) -> Result<(), Impossible> {
        let SavedPackets { received, invalid, accepted, delayless, copies, damaged, tally, notes } = saved;
        let packets = self.classifier.packets();
        let samples = accepted.into_owned();
        let rows = samples.len();
        require(rows == samples.sent.len() && rows == samples.delay.len(), "columns of different lengths")?;
        for packet in samples.iter() {
            require(packet.seq < packets, "a sequence number beyond the test")?;
            require(packet.sent.checked_add(packet.delay).is_some(), "a time beyond the clock")?;
            require(self.classifier.accepted.insert(packet.seq), "a packet accepted twice")?;
        }
        let accepted = &self.classifier.accepted;
        for seq in delayless.iter() {
            require(seq < packets, "a sequence number beyond the test")?;
            require(!accepted.contains(seq), "a packet accepted twice")?;
        }
        let came = |seq| accepted.contains(seq) || delayless.contains(seq);
        require(copies.iter().all(|(seq, _)| came(seq)), "a copy of no packet")?;
        require(damaged.iter().all(|(seq, _)| seq < packets), "a sequence number beyond the test")?;
        let counted = (rows as u64 + delayless.len()).checked_add(copies.len());
        let counted = counted.and_then(|n| n.checked_add(invalid));
        require(counted == Some(received) && received <= MOST_ROWS, "counts that do not add up")?;
        require(damaged.len() <= invalid, "counts that do not add up")?;
        require(tally.waited.iter().all(|seq| accepted.contains(*seq)), "a wait of no packet")?;
        require(notes.is_possible(accepted), "a note on no packet")?;
        let tally = self.tally.restore(tally.into_owned(), received);
        self.tally = tally.ok_or(Impossible("counts that do not add up"))?;
        (self.classifier.received, self.classifier.invalid) = (received, invalid);
        self.samples = samples;
        self.delayless = delayless.into_owned();
        self.notes = Some(notes.into_owned());
        (self.copies, self.damaged) = (copies.into_owned(), damaged.into_owned());
        Ok(())
    }
}

impl TwoWayAnalysis {
    fn restore(&mut self, saved: SavedTwoWay<'_>) -> Result<(), Impossible> {
        self.round_trip.restore(saved.round_trip)?;
        self.up.restore(saved.up)?;
        self.down.restore(saved.down)?;
        let answered = saved.processing.map_or(0, |p| p.n);
        // The sum of so many times of 64 bits each, and it cannot overflow as more come.
        require(answered <= MOST_ROWS && saved.returned.back <= MOST_ROWS, "counts that do not add up")?;
        require(
            saved.processing_sum.unsigned_abs() <= u128::from(answered) << 64,
            "counts that do not add up",
        )?;
        self.fastest = saved.fastest;
        self.processing = saved.processing;
        self.processing_sum = saved.processing_sum;
        self.returned = saved.returned;
        Ok(())
    }
}
