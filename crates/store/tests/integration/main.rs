//! Files: what is written is read back.

#[path = "../schema/mod.rs"]
mod schema;

mod csv;
mod incomplete;
mod json;
mod log;
