#![no_main]
// Aims at: crates/proto/src/jitlat/client

use jitlat_fuzz::Story;
use jitlat_proto::sim::chaos;

libfuzzer_sys::fuzz_target!(|story: Story| chaos::client(story.setup(), &story.ops()));
