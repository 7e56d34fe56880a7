//! Network interfaces: supported timestamps (`ETHTOOL_GET_TS_INFO`), delay of received packets, and queueing
//! disciplines.

use super::{line, number};
use crate::sys::{self, AsFd};
use crate::{adapter_clock, launch};
use jitlat_core::clock::AdapterClock;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// An interface that is up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceReport {
    /// Name of the interface.
    pub name: String,
    /// Name of the interface's driver; `None` if unknown.
    pub driver: Option<String>,
    /// Link speed in Mbit/s; `None` if unknown.
    pub speed: Option<u64>,
    /// MTU in bytes; `None` if unknown.
    pub mtu: Option<u64>,
    /// Addresses of the interface.
    pub addresses: Vec<IpAddr>,
    /// Supported timestamps; `None` if the driver does not report them.
    pub stamps: Option<Abilities>,
    /// Adapter's clock compared with the system clock; `None` if it has none, or if it cannot be read.
    pub clock: Option<AdapterClock>,
    /// Maximum time by which interrupt coalescing delays a received packet, in µs; `None` if unknown.
    pub coalesce_us: Option<u32>,
    /// Number of packets dropped on reception since the interface came up; `None` if unknown.
    pub dropped: Option<u64>,
    /// Kinds of the interface's queueing disciplines; empty if unknown.
    pub queues: Vec<String>,
    /// Component that releases packets at their launch times (`--pace etf`); `None` if no queue supports
    /// launch times.
    pub launch_times: Option<LaunchTimes>,
}

/// Component that releases packets at their launch times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LaunchTimes {
    /// Kernel timers.
    Kernel,
    /// The adapter's clock.
    Adapter,
}

/// Timestamps that an adapter and its driver support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Abilities {
    /// True if software stamps of sent packets are supported.
    pub software_send: bool,
    /// True if software stamps of received packets are supported.
    pub software_receive: bool,
    /// True if hardware stamps of sent packets are supported.
    pub hardware_send: bool,
    /// True if hardware stamps of every received packet, not only of PTP packets, are supported.
    pub hardware_receive: bool,
    /// Number of the adapter's clock: N in `/dev/ptpN`; `None` if it has no clock.
    pub clock: Option<u32>,
}

// Bits of `SOF_TIMESTAMPING_…`.
const SOF_TX_HARDWARE: u32 = 1 << 0;
const SOF_TX_SOFTWARE: u32 = 1 << 1;
const SOF_RX_HARDWARE: u32 = 1 << 2;
const SOF_RX_SOFTWARE: u32 = 1 << 3;
const SOF_RAW_HARDWARE: u32 = 1 << 6;
const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
/// Bit of `HWTSTAMP_FILTER_ALL`.
const FILTER_ALL: u32 = 1 << 1;
/// Bit of `HWTSTAMP_TX_ON`.
const SEND_ON: u32 = 1 << 1;

impl Abilities {
    /// Parses `struct ethtool_ts_info`: command, capabilities, clock, transmit types, 3 reserved, filters, 3
    /// reserved.
    fn parse(fields: [u32; 11]) -> Abilities {
        let [_, able, clock, sending, _, _, _, filters, ..] = fields;
        let can = |bit: u32| able & bit != 0;
        let raw = can(SOF_RAW_HARDWARE);
        Abilities {
            software_send: can(SOF_TX_SOFTWARE),
            software_receive: can(SOF_RX_SOFTWARE),
            hardware_send: raw && can(SOF_TX_HARDWARE) && sending & SEND_ON != 0,
            hardware_receive: raw && can(SOF_RX_HARDWARE) && filters & FILTER_ALL != 0,
            clock: (clock != u32::MAX).then_some(clock),
        }
    }
}

/// Returns all interfaces that are up, sorted by name.
pub fn all() -> Vec<InterfaceReport> {
    let mut found: BTreeMap<String, InterfaceReport> = BTreeMap::new();
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok();
    for entry in sys::interfaces().unwrap_or_default().into_iter().filter(|entry| entry.is_up) {
        let describe = || describe(&entry.name, entry.index, socket.as_ref());
        found.entry(entry.name.clone()).or_insert_with(describe).addresses.extend(entry.address);
    }
    found.into_values().collect()
}

/// Returns the number of the adapter's clock of the interface that has the address `local`; `None` if it has none.
pub(crate) fn adapter_clock_of(local: IpAddr) -> Option<u32> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    let name = sys::interfaces().ok()?.into_iter().find(|entry| entry.address == Some(local))?.name;
    let stamps = sys::query_adapter(socket.as_fd(), &name, ETHTOOL_GET_TS_INFO).ok()?;
    Abilities::parse(stamps).clock
}

fn describe(name: &str, index: u32, socket: Option<&UdpSocket>) -> InterfaceReport {
    let of = |file: &str| format!("/sys/class/net/{name}/{file}");
    let driver = std::fs::read_link(of("device/driver")).ok();
    let stamps = socket.and_then(|s| sys::query_adapter(s.as_fd(), name, ETHTOOL_GET_TS_INFO).ok());
    // Offset of rx_coalesce_usecs in struct ethtool_coalesce: the word after the command.
    let coalesce = socket.and_then(|s| sys::query_adapter::<23>(s.as_fd(), name, ETHTOOL_GCOALESCE).ok());
    let queues = launch::disciplines(index).unwrap_or_default();
    InterfaceReport {
        launch_times: queues.iter().find_map(|queue| queue.etf).map(|etf| match etf.offload {
            true => LaunchTimes::Adapter,
            false => LaunchTimes::Kernel,
        }),
        queues: queues.into_iter().map(|queue| queue.kind).collect(),
        name: name.to_owned(),
        driver: driver.and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned())),
        speed: line(of("speed")).and_then(|s| s.parse().ok()),
        mtu: number(of("mtu")),
        addresses: Vec::new(),
        clock: stamps
            .and_then(|s| Abilities::parse(s).clock)
            .and_then(|clock| adapter_clock::read(clock).ok()),
        stamps: stamps.map(Abilities::parse),
        coalesce_us: coalesce.map(|c| c[1]),
        dropped: number(of("statistics/rx_dropped")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_says() {
        // An Intel i210 supports everything: clock 0, sending off or on, receiving no or all packets.
        let i210 = Abilities::parse([0x41, 0x5f, 0, 0b11, 0, 0, 0, 0b11, 0, 0, 0]);
        let all = Abilities {
            software_send: true,
            software_receive: true,
            hardware_send: true,
            hardware_receive: true,
            clock: Some(0),
        };
        assert_eq!(i210, all);
        // Hardware that stamps only PTP packets is of no use for test packets.
        let ptp_only = Abilities::parse([0x41, 0x5f, 1, 0b11, 0, 0, 0, 1 << 3, 0, 0, 0]);
        assert_eq!(ptp_only, Abilities { hardware_receive: false, clock: Some(1), ..all });
        let software = Abilities::parse([0x41, 0x1a, u32::MAX, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(software.clock, None);
        assert!(software.software_send && software.software_receive && !software.hardware_send);
    }

    #[test]
    fn the_loopback_interface_is_there() {
        let all = all();
        let lo = all.iter().find(|i| i.addresses.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(lo.is_none_or(|i| i.stamps.is_some()), "{all:?}");
    }
}
