//! See the workspace's ARCHITECTURE.md.
#![forbid(unsafe_code)]
