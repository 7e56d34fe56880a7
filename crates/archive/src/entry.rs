//! [`CatalogueEntry`]: the facts about a test that the catalogue stores.

use crate::checksum::LogNames;
use crate::error::ArchiveError;
use crate::model::StreamModel;
use crate::packed::pack_pool;
use crate::packets::StoredTest;
use crate::text::OtherLines;
use jitlat_core::pool::Pool;
use jitlat_core::{Analyzer, PacketRecord, Session, Summary};
use jitlat_store::log::{LogReader, LogReading};

/// All facts about a test that the catalogue stores. Packets are stored elsewhere.
pub(crate) struct CatalogueEntry {
    pub id: i64,
    pub hash: String,
    pub session: Session,
    pub summary: Summary,
    pub pool: Pool,
    pub started_ns: i64,
    pub source: String,
    pub tags: Vec<(String, String)>,
    pub log_bytes: u64,
    pub rows: u64,
    pub row_group: u64,
    pub first_row: u64,
    pub rest: OtherLines,
    pub packed: Packed,
}

/// Parts of an entry that the catalogue stores in compressed form.
#[derive(Default)]
pub(crate) struct Packed {
    /// Session and header, which are compressed when the stream is known.
    pub own: StreamModel,
    pub pool: Vec<u8>,
}

/// Origin of a log.
pub(crate) struct LogOrigin<'a> {
    /// Names and size of the log.
    pub names: LogNames,
    pub bytes: u64,
    pub source: &'a str,
    pub tags: &'a [(String, String)],
}

/// Analysis of a log, in progress.
pub(crate) struct Analysis {
    analyzer: Analyzer,
    first: Option<jitlat_core::WallTime>,
}

impl Analysis {
    pub fn new(session: &Session) -> Analysis {
        Analysis { analyzer: Analyzer::new(session, &jitlat_verdict::options()), first: None }
    }

    pub fn push_all(&mut self, records: &[PacketRecord]) {
        self.first = self.first.or_else(|| records.iter().find_map(PacketRecord::sent));
        self.analyzer.push_all(records);
    }

    /// Returns the entry of the log. [`CatalogueEntry::complete`] adds the remaining facts.
    pub fn finish(self, session: Session, reading: &LogReading, origin: &LogOrigin<'_>) -> CatalogueEntry {
        let (mut summary, samples) = self.analyzer.finish_with_samples(&session);
        reading.add_to(&mut summary);
        let started = session.created.or(self.first).map_or(0, |t| t.0);
        let mut all = session.tags.clone();
        all.retain(|(key, _)| origin.tags.iter().all(|(given, _)| given != key));
        all.extend_from_slice(origin.tags);
        CatalogueEntry {
            id: origin.names.name.number(),
            hash: origin.names.name.to_string(),
            pool: Pool::of(&summary, &samples),
            session,
            summary,
            started_ns: started,
            source: origin.source.to_owned(),
            tags: all,
            log_bytes: origin.bytes,
            rows: 0,
            row_group: 0,
            first_row: 0,
            rest: OtherLines::default(),
            packed: Packed::default(),
        }
    }
}

impl CatalogueEntry {
    /// Creates an entry from a log and its analysis. [`CatalogueEntry::complete`] adds packets and other lines.
    pub fn of(mut reader: LogReader, origin: &LogOrigin<'_>) -> Result<CatalogueEntry, ArchiveError> {
        let mut analysis = Analysis::new(reader.session());
        reader.each_chunk(|records| analysis.push_all(records))?;
        Ok(analysis.finish(reader.session().clone(), reader.reading(), origin))
    }

    /// Adds the number of rows and the lines that are not rows, and packs the parts that the catalogue stores in compressed
    /// form.
    pub fn complete(&mut self, rows: u64, rest: OtherLines) {
        self.packed = Packed { own: StreamModel::of(&self.session, &rest), pool: pack_pool(&self.pool) };
        (self.rows, self.rest) = (rows, rest);
    }

    /// Returns the description of the test in the metadata of a packet file.
    pub fn stored(&self) -> StoredTest {
        StoredTest {
            id: self.id,
            hash: self.hash.clone(),
            row_group: self.row_group,
            first_row: self.first_row,
            rows: self.rows,
            source: self.source.clone(),
            tags: self.tags.clone(),
            rest: self.rest.clone(),
        }
    }
}
