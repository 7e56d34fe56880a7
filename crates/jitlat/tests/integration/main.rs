//! The command as people run it: its options, files, screens and pages, over loopback and from files.
//!
//! Tests that need an emulated path are in `e2e`, attacks are in `hostile`.

#[path = "../../../report/tests/browser/mod.rs"]
mod browser;
#[path = "../lab/mod.rs"]
mod lab;
#[path = "../listening/mod.rs"]
mod listening;
#[path = "../network/mod.rs"]
mod network;
#[path = "../../../store/tests/schema/mod.rs"]
mod schema;
#[path = "../server/mod.rs"]
mod server;
#[path = "../side_by_side/mod.rs"]
mod side_by_side;
#[path = "../undisturbed/mod.rs"]
mod undisturbed;

mod android;
mod archive;
mod captures;
mod check;
mod checks;
mod compare;
mod contrib;
mod devtools;
mod docs;
mod doctor;
mod fetched;
mod field;
mod figures;
mod golden_report;
mod hostile_captures;
mod links;
mod manual;
mod measured_by_browser;
mod merge;
mod mistakes;
mod options;
mod outputs;
mod pages;
mod patches;
mod peers;
mod ping;
mod previous;
mod programs;
mod promise;
mod readme;
mod rpm;
mod rtp;
mod same_answer;
mod schemas;
mod seeds;
mod slips;
mod small;
mod spp;
mod stream;
mod sweep;
mod systems;
mod tcp;
mod twamp;
mod walk;
