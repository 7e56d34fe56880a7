//! Archives over their whole life: on disk, damaged, collected, in several versions.

#[path = "../common/mod.rs"]
mod common;

mod alerts;
mod collector;
mod damaged;
mod lake;
mod measured;
mod queries;
mod truth;
mod united;
mod whole;
