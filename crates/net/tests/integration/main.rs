//! Tests with servers and clients in one process, over loopback.

#[path = "../common/mod.rs"]
mod common;

mod adversity;
mod iperf3;
mod one_way;
mod promises;
