//! Driver counters of retries, failures, errors and drops on the interface of a test (see `ethtool -S`), before and after
//! it. A radio link that retransmits often is slow, but higher layers do not show the cause.
//!
//! Reading these counters may take an adapter milliseconds, so while a test runs only [`DriverRetries`] reads them, from
//! radios that do not tell nl80211.

use super::{Interface, SampleSource};
use crate::sys;
use jitlat_core::interface::InterfaceSample;
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
        let interface = Interface::with_address(local).map(|interface| interface.name);
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

/// Returns the counters of retries, failures, errors and drops of `interface`; empty if the driver has none.
fn read(interface: &str) -> Vec<(String, u64)> {
    let statistics = UdpSocket::bind(("127.0.0.1", 0))
        .and_then(|socket| sys::adapter_statistics(socket.as_fd(), interface));
    statistics.map(|(names, values)| of_trouble(&names, &values)).unwrap_or_default()
}

/// Selects the counters whose names refer to retries, failures, errors or drops. `names` contains 32 bytes per counter,
/// `values` one value per counter.
fn of_trouble(names: &[u8], values: &[u64]) -> Vec<(String, u64)> {
    let named = names.chunks_exact(COUNTER_NAME_BYTES).zip(values).map(|(name, value)| {
        let end = name.iter().position(|b| *b == 0).unwrap_or(COUNTER_NAME_BYTES);
        (String::from_utf8_lossy(&name[..end]).trim().to_owned(), *value)
    });
    named
        .filter(|(name, _)| {
            let name = name.to_ascii_lowercase();
            ["retr", "fail", "err", "drop", "discard"].iter().any(|word| name.contains(word))
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

/// Lists retry counters always, and the others if they increased.
fn describe(interface: &str, counted: &[(String, u64)]) -> Option<String> {
    let shown = counted.iter().filter(|(name, n)| *n > 0 || name.to_ascii_lowercase().contains("retr"));
    let shown: Vec<String> = shown.take(MAX_COUNTERS).map(|(name, n)| format!("{name} {n}")).collect();
    (!shown.is_empty()).then(|| format!("{interface} counted during the test: {}", shown.join(", ")))
}

/// Counters of retries and given-up frames of a radio, by the names that mac80211 gives them.
pub(crate) struct DriverRetries {
    interface: String,
}

impl DriverRetries {
    /// Reads from `interface`; `None` if its driver does not count retries.
    pub fn of(interface: &str) -> Option<DriverRetries> {
        let counts = retries(&read(interface)).0.is_some();
        counts.then(|| DriverRetries { interface: interface.to_owned() })
    }
}

impl SampleSource for DriverRetries {
    fn read(&mut self, into: &mut InterfaceSample) {
        (into.retries, into.failed) = retries(&read(&self.interface));
    }
}

/// Returns the numbers of retries and of frames given up.
fn retries(counters: &[(String, u64)]) -> (Option<u64>, Option<u64>) {
    let of = |wanted: &str| counters.iter().find(|(name, _)| name == wanted).map(|(_, n)| *n);
    (of("tx_retries"), of("tx_retry_failed"))
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
        let [before, after] = [[10, 0, 1, 100, 3], [60, 0, 1, 112, 3]].map(|v| of_trouble(&kernel, &v));
        assert_eq!(before, [("tx_retry_failed".to_owned(), 1), ("tx_retries".to_owned(), 100)]);
        assert_eq!(retries(&after), (Some(112), Some(1)));
        let note = describe("wlan0", &difference(&before, &after));
        assert_eq!(note.as_deref(), Some("wlan0 counted during the test: tx_retry_failed 0, tx_retries 12"));
    }

    #[test]
    fn what_never_failed_is_not_shown_and_counters_may_be_reset() {
        let kernel = names(&["rx_alloc_failed", "tx_packets"]);
        let [before, after] = [[5, 1], [5, 9]].map(|v| of_trouble(&kernel, &v));
        assert_eq!(describe("eth0", &difference(&before, &after)), None);
        let reset = of_trouble(&kernel, &[2, 0]);
        assert_eq!(difference(&before, &reset), [("rx_alloc_failed".to_owned(), 2)]);
        assert!(of_trouble(&kernel[..40], &[1, 2, 3]).len() == 1, "a name cut short is none");
        assert!(of_trouble(&[0; 64], &[1, 2]).is_empty());
    }

    #[test]
    fn errors_and_drops_are_shown_if_there_were_any() {
        let kernel = names(&["rx_crc_errors", "rx_discards_phy", "tx_packets", "rx_queue_0_drops"]);
        let [before, after] = [[5, 1, 7, 0], [9, 1, 8, 2]].map(|v| of_trouble(&kernel, &v));
        let note = describe("eth0", &difference(&before, &after));
        assert_eq!(
            note.as_deref(),
            Some("eth0 counted during the test: rx_crc_errors 4, rx_queue_0_drops 2")
        );
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
