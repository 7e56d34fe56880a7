//! State of the interface that a test uses: its name, driver counters before and after the test, and samples while it
//! runs.
//!
//! * [`InterfaceWatch`] – samples once per second, on a thread that handles no packets
//! * [`SampleSource`] – a source of values of a sample: [`Radio`], [`Modem`], [`LinkErrors`], [`DriverRetries`],
//!   [`Gpsd`]
//! * [`InterfaceCounters`] – every counter of the driver that has to do with retries, failures, errors and drops

#[cfg(target_os = "linux")]
mod driver_counters;
mod gpsd;
#[cfg(target_os = "linux")]
mod link_errors;
#[cfg(target_os = "linux")]
mod modem;
#[cfg(target_os = "linux")]
mod radio;
#[cfg(not(target_os = "linux"))]
#[path = "../elsewhere/interface_sources.rs"]
mod sources;
mod watch;

#[cfg(target_os = "linux")]
pub(crate) use driver_counters::{DriverRetries, InterfaceCounters};
pub use gpsd::{Gpsd, GpsdError};
#[cfg(target_os = "linux")]
pub(crate) use link_errors::LinkErrors;
#[cfg(target_os = "linux")]
pub(crate) use modem::Modem;
#[cfg(target_os = "linux")]
pub(crate) use radio::Radio;
#[cfg(not(target_os = "linux"))]
pub(crate) use sources::{DriverRetries, InterfaceCounters, LinkErrors, Modem, Radio};
pub use watch::{InterfaceWatch, SampleSource, WatchSettings};

use crate::sys::{self, InterfaceAddress};
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// An interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub name: String,
    pub index: u32,
    pub is_loopback: bool,
}

impl Interface {
    /// Returns the interface that has the address `local`; `None` if there is none.
    pub fn with_address(local: IpAddr) -> Option<Interface> {
        let local = local.to_canonical();
        Interface::find(|interface| interface.address == Some(local))
    }

    /// Returns the interface through which packets to `to` leave this host: the one named in the settings, or the one
    /// that has the local address, which is `bind` or the system's choice.
    pub fn towards(to: SocketAddr, bind: Option<IpAddr>, named: Option<&str>) -> Option<Interface> {
        if let Some(name) = named {
            return Interface::find(|interface| interface.name == name);
        }
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let chosen = || {
            let socket = UdpSocket::bind(any).ok()?;
            // Connecting a datagram socket sends nothing. The port is arbitrary.
            let mut to = to;
            to.set_port(9);
            socket.connect(to).ok()?;
            Some(socket.local_addr().ok()?.ip())
        };
        Interface::with_address(bind.or_else(chosen)?)
    }

    fn find(is_wanted: impl Fn(&InterfaceAddress) -> bool) -> Option<Interface> {
        let InterfaceAddress { name, index, is_loopback, .. } =
            sys::interfaces().ok()?.into_iter().find(is_wanted)?;
        Some(Interface { name, index, is_loopback })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_of_a_test_is_found_by_route_address_or_name() {
        let local: IpAddr = "127.0.0.1".parse().unwrap();
        let far: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let by_route = Interface::towards(far, None, None).unwrap();
        assert!(by_route.is_loopback && by_route.index > 0);
        assert_eq!(
            Interface::towards("192.0.2.1:5".parse().unwrap(), Some(local), None),
            Some(by_route.clone())
        );
        assert_eq!(Interface::towards(far, None, Some(&by_route.name)), Some(by_route));
        assert_eq!(Interface::towards(far, None, Some("no-such-name")), None);
        assert_eq!(Interface::with_address("192.0.2.1".parse().unwrap()), None);
    }
}
