//! Text logs: a header and a row for each packet received, in arrival order.
//!
//! Versions 1 and 2 are those of the original tool (DRDC TM 2011-047, §4.5 and A.3). Version 3 has the same first
//! eleven lines and first five columns, and more of both. The formats are specified in `docs/formats/`.
//!
//! * [`LogReader`] reads all three, tolerantly, in tens of nanoseconds per row and in bounded memory.
//! * [`LogWriter`] writes them row by row. A log is readable after a crash at any byte.
//! * [`CanonicalLog`] is the canonical form of the log of a finished measurement.
//! * [`RowText`] converts single rows to records and back, byte for byte; archives use it.
//! * [`Journals`] observes a test and writes its logs while it runs.
//! * [`Naming`] chooses an unused name. No log is ever overwritten.

mod canonical;
mod compat;
mod date;
mod escape;
mod exact;
mod file;
mod header;
mod interface;
mod journal;
mod parts;
mod read;
mod row;
mod two_way;
mod unrecorded;
mod values;
mod write;

pub use canonical::CanonicalLog;
pub use compat::LogVersion;
pub use date::parse_date;
pub use exact::{LogRow, RowText};
pub use file::{CreateError, LogFile, Naming, RowKind, STDOUT, is_part};
pub use journal::{Closed, Journals};
pub use read::{LogReadError, LogReader, LogReading};
pub use write::{LogOutput, LogWriter, WriteError, WrittenLog};
