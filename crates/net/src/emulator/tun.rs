//! [`Tun`]: an impaired path between two network namespaces, for whole IP packets.
//!
//! Each namespace gets a TUN device; a packet sent through one device is received from the other at the time
//! that the model computes. All protocols can cross it, so TCP experiences real loss, reordering and queues.
//! A fragmented datagram is numbered by its first fragment; further fragments are only delayed. Needs root
//! (`CAP_NET_ADMIN` in both namespaces, `CAP_SYS_ADMIN` to enter them).

use super::line::{self, DelayLine};
use super::{EmulatorReport, Numbering, ip};
use crate::sys;
use jitlat_core::time::SteadyTime;
use jitlat_impair::{Deliveries, Impairment, PathPacket, Scenario};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sched::{CloneFlags, setns};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of packets read from one device before deadlines are checked again.
const MAX_PACKETS_PER_READ: usize = 64;

/// One end of the path.
#[derive(Clone, Debug)]
pub struct TunEnd {
    /// Name of the network namespace in `ip netns`; `None`: the namespace of this process.
    pub namespace: Option<String>,
    /// Name of the TUN device in the namespace, at most 15 bytes.
    pub device: String,
}

/// The ends of a path, and its impairments.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// End on the client's side; packets from it count as up.
    pub client: TunEnd,
    /// End on the server's side; packets from it count as down.
    pub server: TunEnd,
    /// Impairments of the path.
    pub scenario: Scenario,
    /// Numbering of test packets.
    pub numbering: Numbering,
    /// UDP ports of test packets, at either end. If empty, every UDP packet may be a test packet; with
    /// [`Numbering::Arrival`], every packet of any protocol may be one.
    pub ports: Vec<u16>,
}

/// Reason why a path could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The network namespace could not be entered.
    #[error(
        "cannot enter the network namespace {name} ({source}): create it with 'ip netns add {name}' and run as root"
    )]
    Namespace {
        /// Name of the namespace.
        name: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The device could not be created.
    #[error("cannot create the TUN device {device} ({source}): this needs /dev/net/tun and root")]
    Device {
        /// Name of the device.
        device: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The system has no more threads or descriptors.
    #[error("cannot start the emulator: {0}")]
    Start(#[from] io::Error),
}

/// A running path. Its devices are initially down and have no addresses; they are removed when the path
/// stops. Dropping this value stops the path.
pub struct Tun {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<EmulatorReport>>,
}

impl Tun {
    /// Creates both devices and starts forwarding packets between them.
    pub fn start(config: TunConfig) -> Result<Tun, TunError> {
        let ends = [open(&config.client)?, open(&config.server)?];
        let (stop, stopped) = UnixStream::pair()?;
        let scenario = config.scenario;
        let paths = [
            Impairment::new(scenario.up, scenario.seed),
            // With the same seed, both directions would draw the same random numbers and lose the same
            // packets.
            Impairment::new(scenario.down, scenario.seed.wrapping_add(1)),
        ];
        let (numbering, ports) = (config.numbering, config.ports);
        let worker = TunWorker { stopped, ends, paths, numbering, ports, line: DelayLine::new() };
        let thread = std::thread::Builder::new().name("tun".to_owned()).spawn(|| worker.run())?;
        Ok(Tun { stop: Some(stop), thread: Some(thread) })
    }

    /// Stops the path, discards packets in transit, and returns the report.
    pub fn stop(mut self) -> EmulatorReport {
        self.end()
    }

    fn end(&mut self) -> EmulatorReport {
        self.stop = None;
        self.thread.take().and_then(|t| t.join().ok()).unwrap_or_default()
    }
}

impl Drop for Tun {
    fn drop(&mut self) {
        self.end();
    }
}

/// Time to wait for the removal of a device with the same name: a child process that another thread is
/// starting keeps the device open until its exec.
const DEVICE_REMOVAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens a device in its namespace. A temporary thread enters the namespace, so that all other threads stay in theirs.
fn open(end: &TunEnd) -> Result<File, TunError> {
    let device = |source| TunError::Device { device: end.device.clone(), source };
    let open = || -> Result<File, TunError> {
        if let Some(name) = &end.namespace {
            enter(name).map_err(|source| TunError::Namespace { name: name.clone(), source })?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open("/dev/net/tun").map_err(device)?;
        let until = Instant::now() + DEVICE_REMOVAL_TIMEOUT;
        loop {
            match sys::attach_tun(file.as_fd(), &end.device) {
                Err(e) if e.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => return other.map(|()| file).map_err(device),
            }
        }
    };
    std::thread::scope(|s| match s.spawn(open).join() {
        Ok(result) => result,
        Err(_) => Err(TunError::Start(io::Error::other("its set-up thread failed"))),
    })
}

/// Moves the calling thread into a network namespace.
pub(super) fn enter(name: &str) -> io::Result<()> {
    let namespace = File::open(PathBuf::from("/run/netns").join(name))?;
    Ok(setns(namespace, CloneFlags::CLONE_NEWNET)?)
}

struct TunWorker {
    stopped: UnixStream,
    /// Devices of the client and the server.
    ends: [File; 2],
    /// Impairments up and down, indexed by the end that sends the packet.
    paths: [Impairment; 2],
    numbering: Numbering,
    ports: Vec<u16>,
    /// Packets in transit, with the index of their destination.
    line: DelayLine<(usize, Vec<u8>)>,
}

impl TunWorker {
    fn run(mut self) -> EmulatorReport {
        // With the default timer slack, the kernel would wake this thread 50 µs late.
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut buffer = vec![0; 65_536];
        while let Ok([stop, up, down]) = self.wait() {
            if stop {
                break;
            }
            let fine =
                [(0, up), (1, down)].into_iter().all(|(from, ready)| !ready || self.read(from, &mut buffer));
            if !fine {
                break;
            }
            let now = line::now();
            while let Some((to, packet)) = self.line.pop(now) {
                let sent = (&self.ends[to]).write(&packet);
                // The far device is down: the packet is lost.
                let down = |e: &io::Error| e.raw_os_error() == Some(Errno::EIO as i32);
                self.line.overflow += u64::from(sent.is_err_and(|e| !down(&e)));
            }
        }
        let [up, down] = self.paths.map(|p| p.tally().clone());
        EmulatorReport { up, down, lateness: self.line.lateness, overflow: self.line.overflow }
    }

    /// Waits for an event. Returns three flags: true if a stop is requested, if the client's end has sent packets, and
    /// if the server's end has sent packets.
    fn wait(&self) -> nix::Result<[bool; 3]> {
        let fds = [self.stopped.as_fd(), self.ends[0].as_fd(), self.ends[1].as_fd()];
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        line::wait(&mut fds, self.line.next_due())?;
        Ok(fds.map(|fd| fd.any().unwrap_or(true)))
    }

    /// Reads the packets that one end has sent; returns false if the device no longer exists.
    fn read(&mut self, from: usize, buffer: &mut [u8]) -> bool {
        for _ in 0..MAX_PACKETS_PER_READ {
            let packet = match (&self.ends[from]).read(buffer) {
                Ok(n) => &mut buffer[..n],
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return true,
                Err(_) => return false,
            };
            let class = ip::traffic_class(packet);
            let entering = PathPacket { bytes: packet.len(), traffic_class: class.unwrap_or(0) };
            let deliveries = self.pass(from, line::now(), entering, packet);
            if class.is_some_and(|class| class != deliveries.traffic_class()) {
                ip::set_traffic_class(packet, deliveries.traffic_class());
            }
            for &at in deliveries.iter() {
                self.line.push(at, packet.len(), (1 - from, packet.to_vec()));
            }
        }
        true
    }

    fn pass(&mut self, from: usize, now: SteadyTime, entering: PathPacket, packet: &[u8]) -> Deliveries {
        let path = &mut self.paths[from];
        match ip::parse_udp(packet) {
            Some((src, dst, payload))
                if self.ports.is_empty() || [src, dst].iter().any(|p| self.ports.contains(p)) =>
            {
                self.numbering.pass(path, now, entering, payload)
            }
            _ if self.numbering == Numbering::Arrival && self.ports.is_empty() => path.pass(now, entering),
            _ => path.pass_other(now, entering),
        }
    }
}

#[cfg(test)]
mod tests;
