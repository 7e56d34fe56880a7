#![no_main]
// Aims at: crates/proto/src/jitlat/auth.rs crates/proto/src/amp/users.rs
// Longest input: 8192

use jitlat_proto::amp::Users;
use jitlat_proto::jitlat::PresharedKey;

fn is_repeated(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| *b == bytes[0])
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

// Any bytes as a key file, and as a file of users: an accepted key is neither empty nor huge nor a single repeated
// byte, and white space around it does not change it; accepted users are written and read back unchanged.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(key) = PresharedKey::from_file_contents(bytes) {
        let trimmed = bytes.trim_ascii();
        assert!((16..=4096).contains(&trimmed.len()) && !is_repeated(trimmed));
        let surrounded = [b" \n", trimmed, b"\r\n\n"].concat();
        assert_eq!(PresharedKey::from_file_contents(&surrounded), Ok(key));
        assert!(PresharedKey::from_file_contents(&trimmed[..15]).is_err());
    }
    let Some(users) = std::str::from_utf8(bytes).ok().and_then(|text| Users::parse(text).ok()) else {
        return;
    };
    let line = |name: &str| {
        let passphrase = users.passphrase(name).expect("a user has a passphrase");
        assert!((1..=80).contains(&name.len()) && !name.contains(char::is_whitespace));
        assert!(passphrase.len() * 2 <= bytes.len() && !is_repeated(passphrase), "a passphrase of one byte");
        format!("{name}\t{}\n", hexadecimal(passphrase))
    };
    let again: String = users.names().map(line).collect();
    let read = Users::parse(&again).expect("what was written is read");
    assert!(read.names().eq(users.names()));
    assert!(users.names().all(|name| users.passphrase(name) == read.passphrase(name)));
});
