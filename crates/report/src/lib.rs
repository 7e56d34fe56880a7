//! See the workspace's ARCHITECTURE.md.

pub mod figure;
pub mod text;
