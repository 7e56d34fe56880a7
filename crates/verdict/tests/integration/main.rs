//! Analyses that are judged: saved states, brute-force twins, stretches in constant memory, scalars.

#[path = "../../../core/tests/common/mod.rs"]
mod common;
#[path = "../../../core/tests/common/stream.rs"]
mod stream;

mod ladder;
mod scalars;
mod state;
mod stretches;
mod twins;
