//! Tests of the whole analysis: golden logs, and properties of random streams.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/stream.rs"]
mod stream;

mod golden;
mod properties;
