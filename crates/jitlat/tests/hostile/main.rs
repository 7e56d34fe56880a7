//! Attacks on a real server, one file per service: gain from forged source addresses, and service of an honest client
//! during an attack. Needs namespaces, and therefore root; without it tests print that they are skipped.
//!
//! `just hostile` attacks each service for a minute; here an attack lasts 4 s, or `JITLAT_HOSTILE_SECONDS`.

#[path = "../e2e/harness.rs"]
#[allow(dead_code, unused_imports)]
mod harness;
#[path = "../lab/mod.rs"]
mod lab;
#[path = "../network/mod.rs"]
mod network;
#[path = "../../../instruments/tests/websocket/mod.rs"]
mod websocket;

mod collect;
mod control;
mod forged;
mod groups;
mod honest;
mod ipsla;
mod irtt;
mod lamp;
mod owamp;
mod page;
mod public;
mod rpm;
mod soak;
mod stamp;
mod tcp;
mod twamp;
mod web;
