//! Multicast DNS on the links of this host: [`Announcer`] announces a server, [`find`] collects the announcements of
//! others.
//!
//! Sockets are bound to the group's address. Routers never forward this group, so that only messages of hosts on the same
//! link are received and answered, and unicast messages to another responder on this host are left to it.

use crate::sys::{self, AsFd};
use crate::wake::{self, StopSignal};
use crate::{clock, resolve};
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::discovery::{
    AnnouncedServer, AnswerLimit, FoundServers, GROUP_V4, GROUP_V6, MAX_MESSAGE, PORT, announcement, asks,
    query,
};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Time between the first two announcements, and between two queries (RFC 6762 §8.3, §5.2).
const REPEAT_AFTER: Span = Span::seconds(1);
/// Maximum time until a search notices a stop.
const MAX_WAIT: Span = Span::millis(100);
/// Maximum number of messages read from a socket before the others are looked at.
const MAX_BATCH: usize = 64;

/// A link of this host, in one address family.
struct Link {
    socket: UdpSocket,
    group: SocketAddr,
    /// Addresses of this host on the link, in both families, without link-local ones.
    addresses: Vec<IpAddr>,
    limit: AnswerLimit,
}

/// Addresses of an interface.
#[derive(Default)]
struct InterfaceAddresses {
    index: u32,
    all: Vec<IpAddr>,
}

/// Opens a socket on each link that supports multicast. The loopback interface is left out.
fn open_links() -> Vec<Link> {
    let mut interfaces: BTreeMap<String, InterfaceAddresses> = BTreeMap::new();
    for entry in sys::interfaces().unwrap_or_default() {
        if let Some(address) = entry.address
            && entry.is_up
            && entry.is_multicast
            && !entry.is_loopback
        {
            let interface = interfaces.entry(entry.name).or_default();
            interface.index = entry.index;
            interface.all.push(address);
        }
    }
    let mut links = Vec::new();
    for (name, InterfaceAddresses { index, all }) in interfaces {
        let addresses: Vec<IpAddr> = all.iter().copied().filter(|a| !resolve::is_link_local(a)).collect();
        let opened = [
            all.iter().find_map(|a| if let IpAddr::V4(v4) = a { Some(open_v4(index, *v4)) } else { None }),
            all.iter().any(IpAddr::is_ipv6).then(|| open_v6(index)),
        ];
        for opened in opened.into_iter().flatten() {
            match opened {
                Ok((socket, group)) => {
                    links.push(Link {
                        socket,
                        group,
                        addresses: addresses.clone(),
                        limit: AnswerLimit::default(),
                    });
                }
                Err(error) => tracing::warn!("multicast DNS does not work on {name}: {error}"),
            }
        }
    }
    links
}

fn open_v4(index: u32, address: std::net::Ipv4Addr) -> io::Result<(UdpSocket, SocketAddr)> {
    let group = SocketAddr::new(GROUP_V4.into(), PORT);
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    // Other responders on this host use the same port.
    socket.set_reuse_address(true)?;
    socket.bind(&group.into())?;
    sys::receive_own_groups(&socket, false)?;
    socket.join_multicast_v4_n(&GROUP_V4, &InterfaceIndexOrAddress::Index(index))?;
    socket.set_multicast_if_v4(&address)?;
    socket.set_multicast_ttl_v4(255)?;
    socket.set_multicast_loop_v4(true)?;
    socket.set_nonblocking(true)?;
    Ok((socket.into(), group))
}

fn open_v6(index: u32) -> io::Result<(UdpSocket, SocketAddr)> {
    let group: SocketAddr = SocketAddrV6::new(GROUP_V6, PORT, 0, index).into();
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_only_v6(true)?;
    socket.set_reuse_address(true)?;
    socket.bind(&group.into())?;
    sys::receive_own_groups(&socket, true)?;
    socket.join_multicast_v6(&GROUP_V6, index)?;
    socket.set_multicast_if_v6(index)?;
    socket.set_multicast_hops_v6(255)?;
    socket.set_multicast_loop_v6(true)?;
    socket.set_nonblocking(true)?;
    Ok((socket.into(), group))
}

impl Link {
    /// Passes the messages that have arrived to `each`.
    fn receive(&self, mut each: impl FnMut(&[u8])) {
        let mut buffer = [0; MAX_MESSAGE + 1];
        for _ in 0..MAX_BATCH {
            match self.socket.recv(&mut buffer) {
                Ok(length) => each(&buffer[..length]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Sends a message to the link. Failures are ignored: the interface may be down.
    fn send(&self, message: &[u8]) {
        let _ = self.socket.send_to(message, self.group);
    }
}

/// Announces a server on the links of this host until the `Announcer` is dropped.
pub struct Announcer {
    stop: StopSignal,
    thread: Option<JoinHandle<()>>,
}

impl Announcer {
    /// Announces the server `name` with its control port and `version` on each link where this host has one of the
    /// addresses `ips`, on which the server listens (unspecified: all of that family). `None` if there is no such link.
    ///
    /// # Errors
    /// The process has no more threads or descriptors.
    pub fn start(name: &str, port: u16, version: &str, ips: &[IpAddr]) -> io::Result<Option<Announcer>> {
        let mut links = open_links();
        for link in &mut links {
            link.addresses.retain(|address| {
                ips.iter().any(|ip| ip == address || ip.is_unspecified() && ip.is_ipv4() == address.is_ipv4())
            });
        }
        links.retain(|link| !link.addresses.is_empty());
        if links.is_empty() {
            return Ok(None);
        }
        let server = AnnouncedServer {
            name: name.to_owned(),
            port,
            version: version.to_owned(),
            addresses: Vec::new(),
        };
        let stop = StopSignal::new()?;
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("announcer".to_owned());
        let thread = thread.spawn(move || announce(&server, &mut links, &stopped))?;
        Ok(Some(Announcer { stop, thread: Some(thread) }))
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that announces the server panicked");
        }
    }
}

/// Announces `server` twice, answers queries, and withdraws the announcement at the stop.
fn announce(server: &AnnouncedServer, links: &mut [Link], stop: &StopSignal) {
    let message = |link: &Link, gone| {
        let addresses = link.addresses.clone();
        announcement(&AnnouncedServer { addresses, ..server.clone() }, gone)
    };
    let mut again: Option<SteadyTime> = None;
    let mut announced = 0;
    while !stop.is_requested() {
        let now = clock::steady();
        if announced < 2 && again.is_none_or(|again| now >= again) {
            announced += 1;
            again = (announced < 2).then_some(now + REPEAT_AFTER);
            links.iter().for_each(|link| link.send(&message(link, false)));
        }
        let mut fds: Vec<_> = links.iter().map(|link| link.socket.as_fd()).collect();
        fds.push(stop.as_fd());
        wake::wait(&fds, again);
        let now = clock::steady();
        for link in links.iter_mut() {
            let mut asked = false;
            link.receive(|received| asked |= asks(received));
            if asked && link.limit.permits(now) {
                link.send(&message(link, false));
            }
        }
    }
    links.iter().for_each(|link| link.send(&message(link, true)));
}

/// Result of a search.
pub struct Found {
    /// Servers that have announced themselves.
    pub servers: Vec<AnnouncedServer>,
    /// Number of links that were searched; 0 if this host has none with multicast.
    pub links: usize,
}

/// Asks for servers on all links, and collects announcements for `time` or until `stop`.
pub fn find(time: Span, stop: &AtomicBool) -> Found {
    let links = open_links();
    let begin = clock::steady();
    let end = begin + time;
    let mut found = FoundServers::default();
    let mut ask = begin;
    while !links.is_empty() && !stop.load(Ordering::Relaxed) && clock::steady() < end {
        let now = clock::steady();
        if now >= ask {
            ask = now + REPEAT_AFTER;
            links.iter().for_each(|link| link.send(&query()));
        }
        let fds: Vec<_> = links.iter().map(|link| link.socket.as_fd()).collect();
        wake::wait(&fds, Some(end.min(ask).min(now + MAX_WAIT)));
        links.iter().for_each(|link| link.receive(|received| found.add(received)));
    }
    Found { servers: found.servers().to_vec(), links: links.len() }
}
