//! Pages and the API, served on loopback.

#[path = "../../../report/tests/browser/mod.rs"]
mod chromium;
#[path = "../driven/mod.rs"]
mod driven;
#[path = "../fake/mod.rs"]
mod fake;
#[path = "../../examples/mesh.rs"]
mod mesh;
#[path = "../scraper/mod.rs"]
mod scraper;
#[path = "../served/mod.rs"]
mod served;

mod browser;
mod door;
mod forms;
mod https;
mod pages;
mod path;
mod prometheus;
mod runs;
mod sla;
