//! See the workspace's ARCHITECTURE.md.

pub mod draw;
mod escape;
pub mod figure;
pub mod html;
pub mod text;
