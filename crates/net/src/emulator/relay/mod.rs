//! [`Relay`]: an impaired path between loopback sockets; needs no privilege.
//!
//! UDP datagrams pass through an [`Impairment`] in each direction. As in a network address translator, each
//! client address gets its own socket towards the server. TCP connections are only delayed by the fixed delay
//! of each direction: they show how the end points react to a long path, not how TCP reacts to a lossy one.
//! DSCP and ECN bits are forwarded.

mod tcp;
mod udp;

use super::EmulatorReport;
use super::line::{self, DelayLine};
use crate::settings::{Forward, RelayConfig};
use jitlat_impair::Impairment;
use nix::poll::{PollFd, PollFlags};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// Reason why a relay could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// Listening on an address failed.
    #[error("cannot listen on {protocol} {address} for the relay: {source}")]
    Listen {
        /// `TCP` or `UDP`.
        protocol: &'static str,
        /// Address on which listening failed.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The system has no more threads or descriptors.
    #[error("cannot start the relay: {0}")]
    Start(#[from] io::Error),
}

/// A running relay. Dropping it stops it.
pub struct Relay {
    tcp: Vec<SocketAddr>,
    udp: Vec<SocketAddr>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<EmulatorReport>>,
}

impl Relay {
    /// Listens on every address of `config` and starts relaying.
    pub fn start(config: RelayConfig) -> Result<Relay, RelayError> {
        let (stop, stopped) = UnixStream::pair()?;
        let mut tcp = Vec::new();
        for &forward in &config.tcp {
            tcp.push(tcp::RelayEntrance::new(forward).map_err(|e| listen_error("TCP", forward, e))?);
        }
        let mut udp = Vec::new();
        for &forward in &config.udp {
            udp.push(udp::RelayPort::new(forward).map_err(|e| listen_error("UDP", forward, e))?);
        }
        let tcp_addresses = tcp.iter().map(tcp::RelayEntrance::address).collect::<io::Result<Vec<_>>>()?;
        let udp_addresses = udp.iter().map(udp::RelayPort::address).collect::<io::Result<Vec<_>>>()?;
        let scenario = config.scenario;
        let delays = [scenario.up.delay, scenario.down.delay];
        let up = Impairment::new(scenario.up, scenario.seed);
        // With the same seed, both directions would draw the same random numbers and lose the same packets.
        let down = Impairment::new(scenario.down, scenario.seed.wrapping_add(1));
        let worker = RelayWorker {
            stopped,
            tcp: tcp::RelayedConnections::new(tcp, delays),
            udp: udp::RelayedFlows::new(udp, [up, down], config.numbering),
            line: DelayLine::new(),
        };
        let thread = std::thread::Builder::new().name("relay".to_owned()).spawn(|| worker.run())?;
        Ok(Relay { tcp: tcp_addresses, udp: udp_addresses, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the TCP addresses on which the relay listens, in the order of the configuration.
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        &self.tcp
    }

    /// Returns the UDP addresses on which the relay listens, in the order of the configuration.
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        &self.udp
    }

    /// Stops relaying, discards packets in transit, and returns the report.
    pub fn stop(mut self) -> EmulatorReport {
        self.end()
    }

    fn end(&mut self) -> EmulatorReport {
        self.stop = None;
        self.thread.take().and_then(|t| t.join().ok()).unwrap_or_default()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end();
    }
}

fn listen_error(protocol: &'static str, forward: Forward, source: io::Error) -> RelayError {
    RelayError::Listen { protocol, address: forward.listen, source }
}

/// Identifies the descriptor that became ready.
#[derive(Clone, Copy)]
enum ReadyToken {
    Stop,
    Listener(usize),
    Connection(u64, tcp::RelaySide),
    Port(usize),
    Flow(u64),
}

/// Descriptors to wait for. The list is short, and rebuilt for each wait.
#[derive(Default)]
struct Interest<'a>(Vec<(ReadyToken, PollFd<'a>)>);

impl<'a> Interest<'a> {
    fn add(&mut self, token: ReadyToken, fd: BorrowedFd<'a>, flags: PollFlags) {
        self.0.push((token, PollFd::new(fd, flags)));
    }
}

struct RelayWorker {
    stopped: UnixStream,
    tcp: tcp::RelayedConnections,
    udp: udp::RelayedFlows,
    line: DelayLine<udp::RelayedDatagram>,
}

impl RelayWorker {
    fn run(mut self) -> EmulatorReport {
        // With the default timer slack, the kernel would wake this thread 50 µs late.
        let _ = nix::sys::prctl::set_timerslack(1);
        while let Ok(ready) = self.wait() {
            for token in ready {
                let now = line::now();
                match token {
                    ReadyToken::Stop => return self.report(),
                    ReadyToken::Listener(i) => self.tcp.accept(i),
                    ReadyToken::Connection(id, side) => self.tcp.read(id, side, now),
                    ReadyToken::Port(i) => self.udp.read_client(i, &mut self.line),
                    ReadyToken::Flow(id) => self.udp.read_server(id, &mut self.line),
                }
            }
            let now = line::now();
            while let Some(datagram) = self.line.pop(now) {
                if !self.udp.deliver(&datagram) {
                    self.line.overflow += 1;
                }
            }
            self.tcp.deliver(now);
        }
        self.report()
    }

    /// Waits until a descriptor can be read or a packet is due; returns the readable descriptors.
    fn wait(&self) -> nix::Result<Vec<ReadyToken>> {
        let mut interest = Interest::default();
        interest.add(ReadyToken::Stop, self.stopped.as_fd(), PollFlags::POLLIN);
        self.tcp.interest(&mut interest);
        self.udp.interest(&mut interest);
        let deadline = [self.line.next_due(), self.tcp.next_due()].into_iter().flatten().min();
        let (tokens, mut fds): (Vec<ReadyToken>, Vec<PollFd<'_>>) = interest.0.into_iter().unzip();
        line::wait(&mut fds, deadline)?;
        let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|r| !(r - PollFlags::POLLOUT).is_empty());
        Ok(tokens.into_iter().zip(&fds).filter(|(_, fd)| ready(fd)).map(|(t, _)| t).collect())
    }

    fn report(self) -> EmulatorReport {
        let [up, down] = self.udp.tallies();
        EmulatorReport { up, down, lateness: self.line.lateness, overflow: self.line.overflow }
    }
}

#[cfg(test)]
mod tests;
