//! [`MetricsTally`]: totals per stream of all tests ever added to the archive. The first update reads everything, later ones only
//! new tests.

use super::histogram::Reduced;
use super::sites::SiteTotals;
use jitlat_archive::{Archive, ArchiveError, StreamTotal};
use jitlat_core::pool::Pool;
use std::collections::HashMap;

/// Totals as of the last update.
#[derive(Debug, Default)]
pub struct MetricsTally {
    /// Numbers of tests that the archives had at the last update; `None` before the first.
    entered: Option<Vec<i64>>,
    /// Streams in the order of their first test, as in the catalogue. Their pools contain only the new tests.
    pub streams: Vec<StreamTotal>,
    /// Totals of all tests of each stream, by the stream's number.
    all: HashMap<i64, TestTotals>,
    /// Totals by site, if there are more streams than may have samples; otherwise `None`.
    pub sites: Option<SiteTotals>,
}

/// Totals of the tests of a stream.
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
    pub fn add(&mut self, pool: &Pool) {
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
    /// Adds the tests that were added to the archive since the last update.
    ///
    /// # Errors
    /// [`ArchiveError`]; the next update then reads everything.
    pub fn update(&mut self, archive: &Archive, most: usize) -> Result<(), ArchiveError> {
        if archive.stream_count()? > most as u64 {
            (self.streams, self.entered) = (Vec::new(), None);
            self.all.clear();
            return self.sites.get_or_insert_default().update(archive);
        }
        self.sites = None;
        let before = self.entered.take();
        // Fewer tests or other streams mean that the archive was replaced: discard all totals.
        let entered = archive.entered_counts()?;
        let has_grown = |before: &Vec<i64>| {
            let mut both = before.iter().zip(&entered);
            before.len() == entered.len() && before.iter().any(|n| *n > 0) && both.all(|(a, b)| a <= b)
        };
        let totals = match before.filter(has_grown) {
            Some(before) => {
                let since = archive.totals(Some(&before), most)?;
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
        self.streams = totals.streams;
        self.entered = Some(totals.entered);
        Ok(())
    }

    /// Returns the totals of all tests of a stream.
    pub fn added(&self, stream: i64) -> Option<&TestTotals> {
        self.all.get(&stream)
    }
}
