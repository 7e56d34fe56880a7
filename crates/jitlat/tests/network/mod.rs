//! A network for each test, in which a test may use the standard ports no matter what else runs on this machine,
//! including a second run of the same test and `jitlat serve` on every address.

use nix::sched::{CloneFlags, unshare};
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Moves the calling thread, and everything that it starts from now on, into its own network namespace with a working
/// loopback interface. Without root it stays in the network of the machine, where ports may be in use by other
/// programs.
fn enter() {
    static COMMON: OnceLock<u64> = OnceLock::new();
    let network = || std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
    if network() == *COMMON.get_or_init(network) && unshare(CloneFlags::CLONE_NEWNET).is_ok() {
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    }
}

/// Returns a loopback address that no other test on this machine uses, in the test's own network if possible. Call it
/// from one thread per test: anything started before the first call stays outside.
pub fn own_address() -> Ipv4Addr {
    static COUNT: AtomicU8 = AtomicU8::new(1);
    enter();
    let [_, _, high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 | high & 63, low, COUNT.fetch_add(1, Ordering::Relaxed))
}
