//! The runtime: carries out the timetable on this host until it is stopped.
//!
//! * [`run()`] – runs a host of the file; [`MonitorSettings`] – file, host and archive; [`load`] – reads the file
//! * [`Equipment`] – provided by the caller: creates instruments, captures and the server from options of the file
//! * [`ArchiveWatch`] – waits for results
//! * [`MonitorError`] – reason why it cannot start
//! * [`StandaloneRunner`] – runs tests that people start from a page, without a timetable; [`DemandedTest`] – one of
//!   these tests
//!
//! Its modules: `job` is one test of the timetable, `measure` runs one, `demand` accepts tests from the page;
//! `access` has keys and the server, `page` the web page, `own` finds this host in the file; `captures` follows
//! interfaces; `push` sends tests to collectors, `collect` takes those of other hosts, `ends` decides whose they are; `alerts` judges results
//! and notifies people; `board` has what is pushed to collectors in addition to results; `confine` gives up privileges;
//! `routes` examines routes; `watch` waits for writes to the archive; `ending` limits the wait for threads at the end.
//!
//! Only this module touches sockets, threads, clocks and the archive. The rest of the crate does not import it, and compiles without the
//! feature `runtime`.

mod access;
mod alerts;
mod alone;
mod board;
mod captures;
mod collect;
mod confine;
mod demand;
mod ending;
mod ends;
mod equipment;
mod error;
#[cfg(test)]
#[path = "../../tests/common/mod.rs"]
mod fake;
mod fetched;
mod files;
mod job;
mod measure;
mod on_demand;
mod own;
mod page;
mod push;
mod routes;
mod run;
mod watch;

pub use alerts::{Print, serve_commands};
pub use alone::StandaloneRunner;
pub use captures::CaptureSetup;
pub use confine::MonitorConfinement;
pub use equipment::{CaptureResult, Equipment, ServerKeys, TestSite};
pub use error::{AnyError, MonitorError};
pub use fetched::{FetchError, FetchOutcome, FetchSource, SigningKey, UnfitKey};
pub use files::check_files;
pub use on_demand::DemandedTest;
pub use run::{MonitorSettings, Requests, SlotCounts, load, named, run};
pub use watch::ArchiveWatch;
