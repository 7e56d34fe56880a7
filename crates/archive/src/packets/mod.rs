//! Files of packets: Parquet, in columns that docs/formats/parquet.md specifies.
//!
//! A file has whole tests, each in one row group or, where it is long, in several of its own. It is written beside the others and
//! renamed when its bytes are on the disk, so that a file with a name is whole. What is no row of a log (header, closing lines,
//! damaged lines) stands in the file's metadata, so that a file without a catalogue is complete.

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
/// Key of what is no row, of each test.
pub(crate) const TESTS_KEY: &str = "jitlat.tests";
/// Most rows of a row group. Each takes about 150 bytes of memory while it is written.
pub(crate) const MAX_ROW_GROUP_ROWS: usize = 1 << 21;
/// Rows read at a time.
pub(crate) const ROWS_PER_READ: usize = 16_384;
