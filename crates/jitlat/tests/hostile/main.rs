//! Attacks on a real server, a file for each service: what forged source addresses gain, and whether an honest client
//! is served while another attacks. Namespaces, so root; without it tests print that they are skipped.
//!
//! `just hostile` attacks each service for a minute; here it is 4 s, or `JITLAT_HOSTILE_SECONDS`.

#[path = "../e2e/harness.rs"]
#[allow(dead_code, unused_imports)]
mod harness;
#[path = "../lab/mod.rs"]
mod lab;
#[path = "../network/mod.rs"]
mod network;

mod collect;
mod control;
mod forged;
mod groups;
mod honest;
mod irtt;
mod lamp;
mod owamp;
mod stamp;
mod tcp;
mod twamp;
