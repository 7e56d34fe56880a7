//! State of the interface that a test uses: its name, driver counters before and after the test, and samples while it
//! runs.
//!
//! * [`InterfaceWatch`] – samples once per second, on a thread that handles no packets
//! * [`SampleSource`] – a source of values of a sample: [`Radio`], [`Modem`], [`LinkErrors`], [`DriverRetries`],
//!   [`Gpsd`]
//! * [`InterfaceCounters`] – every counter of the driver that has to do with retries, failures, errors and drops

mod driver_counters;
mod gpsd;
mod link_errors;
mod modem;
mod radio;
mod watch;

pub(crate) use driver_counters::{DriverRetries, InterfaceCounters};
pub use gpsd::{Gpsd, GpsdError};
pub(crate) use link_errors::LinkErrors;
pub(crate) use modem::Modem;
pub(crate) use radio::Radio;
pub use watch::{InterfaceWatch, SampleSource, WatchSettings};

use nix::net::if_::InterfaceFlags;
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
        Interface::find(|interface| {
            let address = interface.address.as_ref();
            let v4 = address.and_then(|a| a.as_sockaddr_in()).map(|s| IpAddr::V4(s.ip()));
            v4.or_else(|| address.and_then(|a| a.as_sockaddr_in6()).map(|s| IpAddr::V6(s.ip())))
                == Some(local)
        })
    }

    /// Returns the interface through which packets to `to` leave this host: the one named in the settings, or the one
    /// that has the local address, which is `bind` or the system's choice.
    pub fn towards(to: SocketAddr, bind: Option<IpAddr>, named: Option<&str>) -> Option<Interface> {
        if let Some(name) = named {
            return Interface::find(|interface| interface.interface_name == name);
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

    fn find(is_wanted: impl Fn(&nix::ifaddrs::InterfaceAddress) -> bool) -> Option<Interface> {
        let found = nix::ifaddrs::getifaddrs().ok()?.find(is_wanted)?;
        let index = nix::net::if_::if_nametoindex(found.interface_name.as_str()).ok()?;
        let is_loopback = found.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        Some(Interface { name: found.interface_name, index, is_loopback })
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
