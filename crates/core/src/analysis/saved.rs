//! [`Saved`]: the stored form of an [`Analyzer`].

use super::check::{Impossible, MOST_ROWS, require};
use super::engine::{Engine, Packets};
use super::gathered::Gathered;
use super::sketch::Sketch;
use super::tally::Tally;
use super::twoway::{BothWays, Returned, STRETCHES};
use super::{Analyzer, Options};
use crate::clock::ClockProbe;
use crate::evidence::RowNotes;
use crate::metrics::classify::Classifier;
use crate::metrics::duplicate::Copies;
use crate::metrics::seqset::SeqSet;
use crate::metrics::series::Samples;
use crate::session::Session;
use crate::twoway::Processing;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

const MISMATCH: &str = "one of the test and its analysis is one-way, the other two-way";
const COUNTS: &str = "inconsistent counts";

/// State of an analysis in its stored form.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Saved<'a> {
    /// The state for one stream.
    OneWay(SavedView<'a>),
    /// The state for a two-way test.
    TwoWay(Box<SavedTwoWay<'a>>),
}

/// Stored state of the analysis of one stream.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SavedView<'a> {
    /// All packets are stored.
    Packets(Box<SavedPackets<'a>>),
    /// The state in constant memory.
    Streaming(Box<Sketch>),
}

/// The packets of a stream in arrival order. The set of accepted sequence numbers follows from them. All other data is
/// sorted, so the bytes do not depend on the number of parts in which the rows arrived.
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

/// The three views of a two-way test, and the data stored in addition to them.
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
    /// Returns the stored form; `None` if the analysis has no view.
    pub(crate) fn saved(&self) -> Option<Saved<'_>> {
        let mut views = self.views.iter().map(Engine::saved);
        let Some(both) = &self.both_ways else { return views.next().map(Saved::OneWay) };
        Some(Saved::TwoWay(Box::new(SavedTwoWay {
            round_trip: views.next()?,
            up: views.next()?,
            down: views.next()?,
            fastest: both.fastest,
            processing: both.processing,
            processing_sum: both.processing_sum,
            returned: both.returned,
        })))
    }

    /// Restores the analysis of the test that `session` describes. The result is exact if the saved analysis was exact,
    /// otherwise in constant memory, regardless of `options`.
    pub(crate) fn restored(
        session: &Session,
        saved: Saved<'_>,
        options: &Options,
    ) -> Result<Analyzer, Impossible> {
        let mut analyzer = Analyzer::new(session, options);
        let views = match (&mut analyzer.both_ways, saved) {
            (None, Saved::OneWay(saved)) => vec![saved],
            (Some(both), Saved::TwoWay(saved)) => {
                let SavedTwoWay { round_trip, up, down, fastest, processing, processing_sum, returned } =
                    *saved;
                let answered = processing.map_or(0, |p| p.n);
                require(answered <= MOST_ROWS && returned.back <= MOST_ROWS, COUNTS)?;
                // Each time has at most 64 bits. This limit leaves room for more rows.
                require(processing_sum.unsigned_abs() <= u128::from(answered) << 64, COUNTS)?;
                **both = BothWays { fastest, processing, processing_sum, returned, ..(**both).clone() };
                vec![round_trip, up, down]
            }
            _ => return Err(Impossible(MISMATCH)),
        };
        analyzer.views.iter_mut().zip(views).try_for_each(|(view, saved)| view.restore(saved))?;
        Ok(analyzer)
    }
}

impl Engine {
    fn saved(&self) -> SavedView<'_> {
        match &self.samples {
            Packets::All(packets) => SavedView::Packets(Box::new(SavedPackets {
                received: self.classifier.received,
                invalid: self.classifier.invalid,
                accepted: Cow::Borrowed(&packets.samples),
                delayless: Cow::Borrowed(&packets.delayless),
                copies: Cow::Owned(packets.copies.sorted()),
                damaged: Cow::Owned(packets.damaged.sorted()),
                tally: Cow::Borrowed(&self.tally),
                notes: packets.notes.as_ref().map_or_else(Cow::default, Cow::Borrowed),
            })),
            Packets::Sketched(sketch) => {
                SavedView::Streaming(Box::new(sketch.stored(self.classifier.clone(), self.tally.clone())))
            }
        }
    }

    /// Replaces this state by a stored one, after checking that an analysis can have produced it.
    fn restore(&mut self, saved: SavedView<'_>) -> Result<(), Impossible> {
        match saved {
            SavedView::Packets(saved) => self.restore_packets(*saved)?,
            SavedView::Streaming(saved) => self.restore_sketch(*saved)?,
        }
        self.limit_memory();
        Ok(())
    }

    fn restore_sketch(&mut self, mut saved: Sketch) -> Result<(), Impossible> {
        let mut begun = self.sketched();
        let Some((mut read, tally)) = saved.classifier.take().zip(saved.tally.take()) else {
            return Err(Impossible("no rows"));
        };
        require(read.received <= MOST_ROWS, COUNTS)?;
        let packets = self.classifier.packets();
        let Packets::Sketched(sketch) = &mut begun.samples else { return Err(Impossible(MISMATCH)) };
        sketch.restore(saved, &read, packets)?;
        begun.tally = self.tally.restore(tally, read.received).ok_or(Impossible(COUNTS))?;
        read.set_packets(packets);
        begun.classifier = read;
        *self = begun;
        Ok(())
    }

    fn restore_packets(&mut self, saved: SavedPackets<'_>) -> Result<(), Impossible> {
        let SavedPackets { received, invalid, accepted, delayless, copies, damaged, tally, notes } = saved;
        let mut classifier = Classifier::new(self.classifier.packets());
        let packets = classifier.packets();
        let samples = accepted.into_owned();
        let rows = samples.len();
        require(rows == samples.sent.len() && rows == samples.delay.len(), "columns of different lengths")?;
        for packet in samples.iter() {
            require(packet.seq < packets, "a sequence number beyond the end of the test")?;
            require(packet.sent.checked_add(packet.delay).is_some(), "a time outside the clock's range")?;
            require(classifier.accepted.insert(packet.seq), "a packet accepted twice")?;
        }
        let accepted = &classifier.accepted;
        require(
            tally.waited.iter().all(|seq| accepted.contains(*seq)),
            "a waiting time of an unknown packet",
        )?;
        require(notes.is_possible(accepted), "a note about an unknown packet")?;
        for seq in delayless.iter() {
            require(seq < packets, "a sequence number beyond the end of the test")?;
            require(classifier.accepted.insert(seq), "a packet accepted twice")?;
        }
        let came = &classifier.accepted;
        require(copies.iter().all(|(seq, _)| came.contains(seq)), "a copy of an unknown packet")?;
        require(
            damaged.iter().all(|(seq, _)| seq < packets),
            "a sequence number beyond the end of the test",
        )?;
        let counted = (rows as u64 + delayless.len()).checked_add(copies.len());
        let counted = counted.and_then(|n| n.checked_add(invalid));
        require(counted == Some(received) && received <= MOST_ROWS, COUNTS)?;
        require(damaged.len() <= invalid, COUNTS)?;
        self.tally = self.tally.restore(tally.into_owned(), received).ok_or(Impossible(COUNTS))?;
        (classifier.received, classifier.invalid) = (received, invalid);
        self.classifier = classifier;
        self.samples = Packets::All(Box::new(Gathered {
            samples,
            delayless: delayless.into_owned(),
            copies: copies.into_owned(),
            damaged: damaged.into_owned(),
            notes: Some(notes.into_owned()),
        }));
        Ok(())
    }
}
