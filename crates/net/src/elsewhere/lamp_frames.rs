//! Reflectors for LaMP in whole frames, which are possible only on Linux.

use super::{OpenReflector, Reflector, ReflectorContext};
use crate::elsewhere::refusal;
use crate::lamp_frame::LampLink;
use jitlat_core::prefix::Prefix;
use jitlat_proto::policy::{self, Service};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Reflector for LaMP over IPv4 and IPv6, in whole frames on one interface.
#[derive(Clone, Debug)]
pub struct LampFrameReflector {
    /// UDP port.
    pub port: u16,
    /// Name of the interface.
    pub interface: String,
    /// See [`super::LampReflector::trusted`].
    pub trusted: Vec<Prefix>,
}

impl Reflector for LampFrameReflector {
    fn name(&self) -> &'static str {
        "LaMP (raw frames)"
    }

    fn service(&self) -> Service {
        policy::LAMP
    }

    fn addresses(&self, _ips: &[IpAddr]) -> Vec<SocketAddr> {
        vec![(Ipv4Addr::UNSPECIFIED, self.port).into()]
    }

    fn open(&self, _: SocketAddr, _: &ReflectorContext) -> io::Result<OpenReflector> {
        Err(refusal("answering whole frames"))
    }
}

/// Reflector for LaMP in Ethernet frames without IP and UDP, on one interface.
#[derive(Clone, Debug)]
pub struct LampEthernetReflector {
    /// Protocol between Ethernet and LaMP.
    pub link: LampLink,
    /// Interface name.
    pub interface: String,
    /// See [`super::LampReflector::trusted`].
    pub trusted: Vec<Prefix>,
}

impl Reflector for LampEthernetReflector {
    fn name(&self) -> &'static str {
        "LaMP (Ethernet)"
    }

    fn service(&self) -> Service {
        policy::LAMP
    }

    fn addresses(&self, _ips: &[IpAddr]) -> Vec<SocketAddr> {
        vec![(Ipv6Addr::UNSPECIFIED, self.link.ethertype()).into()]
    }

    fn open(&self, _: SocketAddr, _: &ReflectorContext) -> io::Result<OpenReflector> {
        Err(refusal("answering whole frames"))
    }
}
