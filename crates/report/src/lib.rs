//! See the workspace's ARCHITECTURE.md.

pub mod draw;
mod escape;
pub mod figure;
pub mod html;
mod mean;
pub mod text;
