//! See the workspace's ARCHITECTURE.md.

pub mod emulator;
