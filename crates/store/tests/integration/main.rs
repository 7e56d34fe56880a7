//! Files: what is written and read again.

#[path = "../schema/mod.rs"]
mod schema;

mod csv;
mod incomplete;
mod json;
mod log;
