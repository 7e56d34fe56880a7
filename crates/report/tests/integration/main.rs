//! Screens, figures and pages, of golden logs and simulated runs.

#[path = "../browser/mod.rs"]
mod browser;
#[path = "../common/mod.rs"]
mod common;

mod console;
mod figures;
mod html;
mod print;
mod screen;
