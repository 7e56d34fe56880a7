//! End to end: the real binary against itself, over loopback and over emulated paths between network
//! namespaces, asserting on the JSON report. One binary, so that tests run beside each other.
//!
//! What needs root says that it is skipped; with `JITLAT_REQUIRE_PRIVILEGED=1` it fails instead.

#[path = "../network/mod.rs"]
mod network;

mod acceptance;
mod broadcast;
mod clocks;
mod closed_log;
mod failures;
mod harness;
mod live;
mod loopback;
mod path;
mod paths;
mod two_way;
