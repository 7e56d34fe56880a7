//! DNS messages, from the local link (multicast) and from name servers: no panic, bounded memory, and nothing that a terminal
//! interprets.
#![no_main]
// Aims at: crates/proto/src/discovery.rs crates/proto/src/names.rs

use jitlat_core::SteadyTime;
use jitlat_proto::discovery::{AnnouncedServer, FoundServers, announcement, asks};
use jitlat_proto::names::{NameLookup, NameQuestion};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|messages: Vec<Vec<u8>>| {
    let mut found = FoundServers::default();
    for message in messages.iter().take(100) {
        let is_query = asks(message);
        let before = found.servers().len();
        found.add(message);
        assert!(!is_query || found.servers().len() == before, "a query announces nothing");
    }
    assert!(found.servers().len() <= 64);
    for AnnouncedServer { name, port, version, addresses } in found.servers() {
        assert!(*port != 0 && addresses.len() <= 8 && name.len() <= 48 && version.len() <= 48);
        assert!(!name.chars().chain(version.chars()).any(char::is_control));
    }
    // A server that was found can be announced, and is found again.
    if let Some(server) = found.servers().first() {
        let mut again = FoundServers::default();
        again.add(&announcement(server, false));
        assert_eq!(again.servers().len(), 1, "{server:?}");
    }
    for question in [NameQuestion::Name, NameQuestion::Origin] {
        let mut lookup = NameLookup::default();
        lookup.ask(question, [192, 0, 2, 1].into());
        for message in messages.iter().take(100) {
            // The number of the query is in the message.
            let id = message.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
            lookup.poll_query(id, SteadyTime(0));
            if let Some(answer) = lookup.answer(message) {
                assert!(answer.text.len() <= 253 && answer.text.is_ascii(), "{answer:?}");
                assert!(!answer.text.chars().any(char::is_control), "{answer:?}");
            }
        }
    }
});
