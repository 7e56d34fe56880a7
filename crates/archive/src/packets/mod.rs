//! Packet files: Parquet, with the columns specified in docs/formats/parquet.md.
//!
//! A file contains whole tests. Each test is in one row group or, if it is long, in several row groups of its own. A
//! file is written under a temporary name and renamed after it is synced: a file with its final name is therefore
//! complete. Lines of a log that are not rows (header, closing lines, damaged lines) are in the file's metadata, so
//! that logs can be restored from a file even without the catalogue.

mod columns;
mod file;
mod pages;
mod read;

pub(crate) use columns::ColumnBlock;
pub use columns::{COLUMNS, PacketColumn, Width};
pub(crate) use file::{PacketFileWriter, Piece, PublishedFile};
pub(crate) use read::{FileTests, StoredFile, StoredTest, TestRows};

/// Version of the columns and of the metadata.
pub const VERSION: i64 = 1;
/// Key of the version in the metadata of a file.
pub(crate) const VERSION_KEY: &str = "jitlat.packets";
/// Key of the descriptions of the tests, which contain the lines that are not rows.
pub(crate) const TESTS_KEY: &str = "jitlat.tests";
/// Maximum number of rows of a row group. Each row takes about 150 bytes of memory while it is written.
pub(crate) const MAX_ROW_GROUP_ROWS: usize = 1 << 21;
/// Number of rows read per batch.
pub(crate) const ROWS_PER_READ: usize = 16_384;
