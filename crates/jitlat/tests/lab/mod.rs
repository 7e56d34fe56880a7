//! Two hosts with an emulated path between them, for tests that run as root.

use jitlat_net::emulator::Lab;
use std::io::Write;

/// Creates a lab. `None` without the privilege: that is printed directly to standard error, and is a failure if the
/// environment requires the lab.
pub fn lab(test: &str) -> Option<Lab> {
    let tun = std::fs::File::open("/dev/net/tun").map_err(|e| format!("/dev/net/tun: {e}"));
    match tun.and_then(|_| Lab::new().map_err(|e| e.to_string())) {
        Ok(lab) => Some(lab),
        Err(e) => {
            assert!(std::env::var_os("JITLAT_REQUIRE_PRIVILEGED").is_none(), "{test}: {e}");
            let _ = writeln!(std::io::stderr(), "skipped: {test} needs root for network namespaces: {e}");
            None
        }
    }
}
