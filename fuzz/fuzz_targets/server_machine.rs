#![no_main]
// Aims at: crates/proto/src/jitlat/server crates/proto/src/jitlat/session_table.rs

use jitlat_fuzz::Story;
use jitlat_proto::sim::chaos;

libfuzzer_sys::fuzz_target!(|story: Story| chaos::server(story.setup(), &story.ops()));
