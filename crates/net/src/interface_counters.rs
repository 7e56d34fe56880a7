//! Driver counters of retries and failures on the sending interface (see `ethtool -S`), before and after a
//! test. A radio link that retransmits often is slow, but higher layers do not show the cause.

use crate::sys;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;

/// Length of a counter name, in bytes, padded with zeros.
const COUNTER_NAME_BYTES: usize = 32;
/// Maximum number of counters in a note.
const MAX_COUNTERS: usize = 12;

/// Counters of one interface, read at the start of a test.
pub(crate) struct InterfaceCounters {
    interface: Option<String>,
    before: Vec<(String, u64)>,
}

impl InterfaceCounters {
    /// Reads the counters of the interface that has the address `local`.
    pub fn start(local: IpAddr) -> InterfaceCounters {
        let interface = interface_of(local);
        let before = interface.as_deref().map(read).unwrap_or_default();
        InterfaceCounters { interface, before }
    }

    /// Describes the increments since the start, for example `wlan0 counted during the test: tx_retries 12,
    /// tx_retry_failed 0`. `None` if the driver has no retry counters and no failure counter increased.
    pub fn note(&self) -> Option<String> {
        let interface = self.interface.as_deref().filter(|_| !self.before.is_empty())?;
        describe(interface, &difference(&self.before, &read(interface)))
    }
}

fn interface_of(local: IpAddr) -> Option<String> {
    let local = local.to_canonical();
    let has = |a: &nix::ifaddrs::InterfaceAddress| {
        let address = a.address.as_ref()?;
        let v4 = address.as_sockaddr_in().map(|s| IpAddr::V4(s.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|s| IpAddr::V6(s.ip())))
    };
    nix::ifaddrs::getifaddrs().ok()?.find(|a| has(a) == Some(local)).map(|a| a.interface_name)
}

/// Returns the counters of retries and failures of `interface`; empty if the driver has none.
fn read(interface: &str) -> Vec<(String, u64)> {
    let statistics = UdpSocket::bind(("127.0.0.1", 0))
        .and_then(|socket| sys::adapter_statistics(socket.as_fd(), interface));
    statistics.map(|(names, values)| of_retries(&names, &values)).unwrap_or_default()
}

/// Selects the counters whose names refer to retries or failures. `names` contains 32 bytes per counter,
/// `values` one value per counter.
fn of_retries(names: &[u8], values: &[u64]) -> Vec<(String, u64)> {
    let named = names.chunks_exact(COUNTER_NAME_BYTES).zip(values).map(|(name, value)| {
        let end = name.iter().position(|b| *b == 0).unwrap_or(COUNTER_NAME_BYTES);
        (String::from_utf8_lossy(&name[..end]).trim().to_owned(), *value)
    });
    named
        .filter(|(name, _)| {
            let name = name.to_ascii_lowercase();
            ["retr", "fail"].iter().any(|word| name.contains(word))
        })
        .collect()
}

/// Returns the increment of each counter in `before`. A counter that was reset counts from zero.
fn difference(before: &[(String, u64)], after: &[(String, u64)]) -> Vec<(String, u64)> {
    let grown = |(name, now): &(String, u64)| {
        let (_, then) = before.iter().find(|(known, _)| known == name)?;
        Some((name.clone(), now.checked_sub(*then).unwrap_or(*now)))
    };
    after.iter().filter_map(grown).collect()
}

/// Describes the retry counters, and the failure counters that increased; `None` if there are neither.
fn describe(interface: &str, counted: &[(String, u64)]) -> Option<String> {
    let shown = counted.iter().filter(|(name, n)| *n > 0 || name.to_ascii_lowercase().contains("retr"));
    let shown: Vec<String> = shown.take(MAX_COUNTERS).map(|(name, n)| format!("{name} {n}")).collect();
    (!shown.is_empty()).then(|| format!("{interface} counted during the test: {}", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<u8> {
        let padded = |name: &&str| {
            let mut field = [0; COUNTER_NAME_BYTES];
            field[..name.len()].copy_from_slice(name.as_bytes());
            field
        };
        of.iter().flat_map(padded).collect()
    }

    #[test]
    fn retries_of_a_radio_are_shown_as_a_difference() {
        // Counter names of mac80211.
        let kernel = names(&["tx_packets", "tx_filtered", "tx_retry_failed", "tx_retries", "sta_state"]);
        let [before, after] = [[10, 0, 1, 100, 3], [60, 0, 1, 112, 3]].map(|v| of_retries(&kernel, &v));
        assert_eq!(before, [("tx_retry_failed".to_owned(), 1), ("tx_retries".to_owned(), 100)]);
        let note = describe("wlan0", &difference(&before, &after));
        assert_eq!(note.as_deref(), Some("wlan0 counted during the test: tx_retry_failed 0, tx_retries 12"));
    }

    #[test]
    fn what_never_failed_is_not_shown_and_counters_may_be_reset() {
        let kernel = names(&["rx_alloc_failed", "tx_errors"]);
        let [before, after] = [[5, 1], [5, 9]].map(|v| of_retries(&kernel, &v));
        assert_eq!(describe("eth0", &difference(&before, &after)), None);
        let reset = of_retries(&kernel, &[2, 0]);
        assert_eq!(difference(&before, &reset), [("rx_alloc_failed".to_owned(), 2)]);
        assert!(of_retries(&kernel[..40], &[1, 2, 3]).len() == 1, "a name cut short is none");
        assert!(of_retries(&[0; 64], &[1, 2]).is_empty());
    }

    #[test]
    fn each_statistic_of_this_hosts_interfaces_has_a_name() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        for interface in &nix::net::if_::if_nameindex().unwrap() {
            let interface = interface.name().to_string_lossy().into_owned();
            let Ok((names, values)) = sys::adapter_statistics(socket.as_fd(), &interface) else { continue };
            assert_eq!(names.len(), COUNTER_NAME_BYTES * values.len(), "{interface}");
            assert!(names.chunks(COUNTER_NAME_BYTES).all(|name| name[0] != 0), "{interface}");
        }
    }

    #[test]
    fn an_interface_that_counts_no_retries_has_no_note() {
        assert_eq!(InterfaceCounters::start("127.0.0.1".parse().unwrap()).note(), None);
        assert_eq!(InterfaceCounters::start("192.0.2.1".parse().unwrap()).note(), None);
    }
}
