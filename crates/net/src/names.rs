//! [`Names`]: names of addresses and the autonomous systems that announce them, looked up on a thread of its own.
//!
//! Names come from `/etc/hosts` and from the name servers in `/etc/resolv.conf`; many questions are open at the same
//! time, so that a name server that does not answer hardly delays the others.

use crate::clock::steady;
use crate::sys::AsFd;
use crate::wake::{self, StopSignal, Waker};
use crate::{random, resolve};
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::names::{NameAnswer, NameLookup, NameQuestion};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Port of name servers.
const DNS_PORT: u16 = 53;
/// Maximum number of name servers, as in the system's resolver.
const MAX_SERVERS: usize = 3;
/// Maximum size of the files that are read, in bytes.
const MAX_FILE: usize = 1 << 20;
/// Maximum size of an answer, in bytes: queries do not ask for more (RFC 1035 §2.3.4), and some servers send more anyway.
const MAX_ANSWER: usize = 4096;
/// Maximum number of answers that are read before deadlines are checked.
const MAX_ANSWERS: usize = 64;

/// Facts about an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressNames {
    /// Name of the address; `None` if it is unknown.
    pub name: Option<String>,
    /// Autonomous system that announces the address, such as AS64500; `None` if it is unknown.
    pub origin: Option<String>,
}

/// Source of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameSources {
    /// Name servers; the second one is asked if the first one does not answer.
    pub servers: Vec<SocketAddr>,
    /// Names that are known without asking.
    pub hosts: HashMap<IpAddr, String>,
    /// True if names are looked up.
    pub names: bool,
    /// True if autonomous systems are looked up, which sends the addresses of routers to Team Cymru's name servers.
    pub origins: bool,
}

impl NameSources {
    /// Returns the sources that this host uses. If `/etc/resolv.conf` contains no name server, a name server on this host is
    /// asked, as by the system's resolver.
    pub fn of_system(names: bool, origins: bool) -> NameSources {
        let read = |path| {
            let text = std::fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&text[..text.len().min(MAX_FILE)]).into_owned()
        };
        let mut servers = servers(&read("/etc/resolv.conf"));
        if servers.is_empty() {
            servers.push((Ipv4Addr::LOCALHOST, DNS_PORT).into());
        }
        NameSources { servers, hosts: hosts(&read("/etc/hosts")), names, origins }
    }
}

/// Reads the `nameserver` lines of `/etc/resolv.conf`.
fn servers(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| -> Option<SocketAddr> {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and(words.next())?;
        match address.parse::<IpAddr>() {
            Ok(ip) => Some((ip, DNS_PORT).into()),
            // A link-local address with its interface.
            Err(_) if address.contains('%') => {
                resolve::addresses(address, DNS_PORT, None, None).ok()?.first().copied()
            }
            Err(_) => None,
        }
    };
    text.lines().filter_map(server).take(MAX_SERVERS).collect()
}

/// Reads `/etc/hosts`: the first name of each address.
fn hosts(text: &str) -> HashMap<IpAddr, String> {
    let mut known = HashMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        if let (Some(Ok(address)), Some(name)) = (words.next().map(str::parse), words.next()) {
            known.entry(address).or_insert_with(|| name.to_owned());
        }
    }
    known
}

#[derive(Default)]
struct NameTable {
    lookup: NameLookup,
    known: HashMap<IpAddr, AddressNames>,
}

struct SharedNames {
    table: Mutex<NameTable>,
    /// Notified when a question has been answered or given up.
    changed: Condvar,
}

impl SharedNames {
    fn lock(&self) -> MutexGuard<'_, NameTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names of addresses that are looked up in the background. The lookups end when this value is dropped.
pub struct Names {
    sources: NameSources,
    shared: Arc<SharedNames>,
    waker: Waker,
    stop: StopSignal,
    thread: Option<JoinHandle<()>>,
}

impl Names {
    /// Starts the thread that asks name servers.
    ///
    /// # Errors
    /// The process has no free descriptors or threads.
    pub fn start(sources: NameSources) -> io::Result<Names> {
        let shared = Arc::new(SharedNames { table: Mutex::default(), changed: Condvar::new() });
        let (waker, stop) = (Waker::new()?, StopSignal::new()?);
        let mut sockets = Vec::new();
        for server in &sources.servers {
            let any: SocketAddr = match server {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            // A server that cannot be reached, such as one without a route, is not asked.
            let opened = UdpSocket::bind(any).and_then(|socket| {
                socket.connect(server)?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            });
            sockets.extend(opened.ok());
        }
        let worker = NameWorker { shared: shared.clone(), sockets, waker: waker.clone(), stop: stop.clone() };
        let thread = std::thread::Builder::new().name("names".to_owned()).spawn(move || worker.run())?;
        Ok(Names { sources, shared, waker, stop, thread: Some(thread) })
    }

    /// Looks up an address, unless that was done before. Never blocks.
    pub fn ask(&self, address: IpAddr) {
        let mut table = self.shared.lock();
        let NameTable { lookup, known } = &mut *table;
        match self.sources.hosts.get(&address) {
            Some(name) if self.sources.names => {
                known.entry(address).or_default().name.get_or_insert_with(|| name.clone());
            }
            None if self.sources.names => lookup.ask(NameQuestion::Name, address),
            _ => {}
        }
        if self.sources.origins {
            lookup.ask(NameQuestion::Origin, address);
        }
        drop(table);
        self.waker.wake();
    }

    /// Returns everything that is known so far.
    pub fn known(&self) -> HashMap<IpAddr, AddressNames> {
        self.shared.lock().known.clone()
    }

    /// Waits until every question has been answered or given up, at most for `limit`.
    pub fn wait(&self, limit: Duration) {
        let table = self.shared.lock();
        let unsettled = |table: &mut NameTable| !table.lookup.is_settled();
        drop(self.shared.changed.wait_timeout_while(table, limit, unsettled));
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            // The thread ends at once, because it only waits for its descriptors, which include the stop signal.
            let _ = thread.join();
        }
    }
}

struct NameWorker {
    shared: Arc<SharedNames>,
    sockets: Vec<UdpSocket>,
    waker: Waker,
    stop: StopSignal,
}

impl NameWorker {
    fn run(self) {
        while !self.stop.is_requested() {
            self.waker.clear();
            let deadline = self.send();
            let mut waiting = vec![self.stop.as_fd(), self.waker.as_fd()];
            waiting.extend(self.sockets.iter().map(AsFd::as_fd));
            wake::wait(&waiting, deadline);
            self.receive();
        }
    }

    /// Sends the queries that are due, and returns the time of the next action.
    fn send(&self) -> Option<SteadyTime> {
        let mut table = self.shared.lock();
        let now = steady();
        table.lookup.expire(now);
        while table.lookup.is_due() {
            let mut id = [0; 2];
            if self.sockets.is_empty() || random::fill(&mut id).is_err() {
                // No name server can be asked.
                table.lookup = NameLookup::default();
                break;
            }
            // If another query has this number, another number is tried.
            let Some(query) = table.lookup.poll_query(u16::from_ne_bytes(id), now) else { continue };
            // An error is treated like a query that was lost.
            let _ = self.sockets[query.attempt % self.sockets.len()].send(&query.bytes);
        }
        if table.lookup.is_settled() {
            self.shared.changed.notify_all();
        }
        table.lookup.deadline().map(|at| at + Span::millis(1))
    }

    fn receive(&self) {
        let mut bytes = [0; MAX_ANSWER];
        for socket in &self.sockets {
            for _ in 0..MAX_ANSWERS {
                let Ok(length) = socket.recv(&mut bytes) else { break };
                let mut table = self.shared.lock();
                let NameTable { lookup, known } = &mut *table;
                let Some(NameAnswer { question, address, text }) = lookup.answer(&bytes[..length]) else {
                    continue;
                };
                let known = known.entry(address).or_default();
                match question {
                    NameQuestion::Name => known.name = Some(text),
                    NameQuestion::Origin => known.origin = Some(text),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_waiting::until;

    const LIMIT: Duration = Duration::from_secs(30);

    fn sources(servers: Vec<SocketAddr>) -> NameSources {
        NameSources { servers, hosts: HashMap::new(), names: true, origins: false }
    }

    #[test]
    fn the_files_of_the_system_are_read() {
        let text = "# x\nsearch example\nnameserver 192.0.2.53\nnameserver ::1\nnameserver nonsense\n";
        assert_eq!(servers(text), ["192.0.2.53:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
        let known =
            hosts("127.0.0.1 localhost other # x\n# 1.2.3.4 y\n10.0.0.1\trouter\n10.0.0.1 second\nx y\n");
        assert_eq!(known.len(), 2);
        assert_eq!(known[&"10.0.0.1".parse::<IpAddr>().unwrap()], "router");
    }

    /// A name server on this host without any name: it answers the first query by a message without records, and leaves
    /// the other queries unanswered.
    #[test]
    fn an_address_without_a_name_is_settled_and_a_silent_server_delays_nothing() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(LIMIT)).unwrap();
        let names = Names::start(sources(vec![server.local_addr().unwrap()])).unwrap();
        names.ask("192.0.2.1".parse().unwrap());
        let mut query = [0; 512];
        let (length, from) = server.recv_from(&mut query).unwrap();
        // QR: a response.
        query[2] |= 0x80;
        server.send_to(&query[..length], from).unwrap();
        names.wait(LIMIT);
        assert!(names.shared.lock().lookup.is_settled());
        assert!(names.known().is_empty());
        names.ask("192.0.2.2".parse().unwrap());
        let second = server.recv_from(&mut query).unwrap();
        assert_eq!(second.1, from, "the same socket");
        drop(names);
    }

    #[test]
    fn names_of_the_hosts_file_are_known_without_asking() {
        let address: IpAddr = "192.0.2.7".parse().unwrap();
        let sources =
            NameSources { hosts: HashMap::from([(address, "router".to_owned())]), ..sources(Vec::new()) };
        let names = Names::start(sources).unwrap();
        names.ask(address);
        assert_eq!(names.known()[&address].name.as_deref(), Some("router"));
        names.ask("192.0.2.8".parse().unwrap());
        until("nobody can be asked", LIMIT, || names.shared.lock().lookup.is_settled());
    }
}
