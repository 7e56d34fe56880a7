//! [`MetricsTally`]: what every test that ever entered the archive adds up to, of each stream. The first look reads it all, each further one what
//! entered since.

use super::histogram::Reduced;
use jitlat_archive::{Archive, ArchiveError, StreamTotal};
use jitlat_core::pool::Pool;
use std::collections::HashMap;

/// What is known, as of the last look.
#[derive(Debug, Default)]
pub struct MetricsTally {
    /// Tests that had entered by then; `None` before the first look.
    entered: Option<i64>,
    /// The streams, in the order in which they became known: what the catalogue says, with the pool of the new tests only.
    pub streams: Vec<StreamTotal>,
    /// Of each stream, by its number, all tests.
    all: HashMap<i64, TestTotals>,
    /// Streams that are not in the list, because it is full.
    pub left_out: u64,
}

/// What tests add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestTotals {
    pub tests: u64,
    pub sent: u64,
    pub lost: u64,
    pub duplicate: u64,
    pub reordered: u64,
    pub delay: Reduced,
    pub variation: Reduced,
}

impl TestTotals {
    fn add(&mut self, pool: &Pool) {
        self.tests += pool.tests;
        self.sent += pool.sent;
        self.lost += pool.lost;
        self.duplicate += pool.duplicate;
        self.reordered += pool.out_of_sequence;
        self.delay.add(pool.delays(), pool.delay_sum());
        self.variation.add(pool.variations(), pool.variation_sum());
    }
}

impl MetricsTally {
    /// Takes up what entered the archive since the last look.
    ///
    /// # Errors
    /// [`ArchiveError`]; then the next look reads all of it.
    pub fn update(&mut self, archive: &Archive, most: usize) -> Result<(), ArchiveError> {
        let before = self.entered.take();
        // A folder that was replaced has fewer tests, or other streams: then nothing that is known is true of it.
        let entered = archive.entered()?;
        let totals = match before.filter(|before| *before <= entered && *before > 0) {
            Some(before) => {
                let since = archive.totals(Some(before), most)?;
                let both = self.streams.iter().zip(&since.streams);
                let same = both.filter(|(a, b)| a.stream_id == b.stream_id && a.stream == b.stream).count();
                if same == self.streams.len() {
                    since
                } else {
                    self.all.clear();
                    archive.totals(None, most)?
                }
            }
            None => {
                self.all.clear();
                archive.totals(None, most)?
            }
        };
        for total in &totals.streams {
            self.all.entry(total.stream_id).or_default().add(&total.pool);
        }
        (self.streams, self.left_out) = (totals.streams, totals.left_out);
        self.entered = Some(totals.entered);
        Ok(())
    }

    /// All tests of a stream.
    pub fn added(&self, stream: i64) -> Option<&TestTotals> {
        self.all.get(&stream)
    }
}
