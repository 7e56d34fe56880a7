//! End-to-end tests: the real binary against itself, over loopback and over emulated paths between network
//! namespaces, with assertions on the JSON report. One binary, so that tests run in parallel.
//!
//! Tests that need root print that they are skipped; with `JITLAT_REQUIRE_PRIVILEGED=1` they fail instead.

#[path = "../lab/mod.rs"]
mod lab;
#[path = "../network/mod.rs"]
mod network;
#[path = "../side_by_side/mod.rs"]
mod side_by_side;
#[path = "../undisturbed/mod.rs"]
mod undisturbed;

mod acceptance;
mod alerts;
mod broadcast;
mod calls;
mod captures;
mod cells;
mod clocks;
mod closed_log;
mod collector;
mod confined;
mod ends;
mod failures;
mod from_page;
mod harness;
mod hosts;
mod idle;
mod ipsla;
mod live;
mod load;
mod loopback;
mod marks;
mod monitor;
mod nat;
mod owamp;
mod path;
mod paths;
mod priority;
mod proxy;
mod queues;
mod responsiveness;
mod router;
mod screen;
mod two_way;
