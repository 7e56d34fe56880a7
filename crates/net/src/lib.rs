//! See the workspace's ARCHITECTURE.md.

pub mod capture;
pub mod emulator;
