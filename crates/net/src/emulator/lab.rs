//! [`Lab`]: two network namespaces with a path between them.
//!
//! The path is a pair of TUN devices driven by the impairment model ([`Lab::tun`]), a virtual cable
//! ([`Lab::cable`]), or a switch ([`Lab::switch`]) to which `tc` can be applied. Needs root and the program
//! `ip`.

use super::Numbering;
use super::tun::{self, Tun, TunConfig, TunEnd, TunError};
use jitlat_impair::Scenario;
use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Name, in each namespace, of the device through which the path is reached.
pub const DEVICE: &str = "path";

/// Reason why a lab could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A command could not be run or failed.
    #[error("'{command}' failed: {output}")]
    Command {
        /// Complete command line.
        command: String,
        /// Output of the command, or the reason why it could not be run.
        output: String,
    },
    /// The TUN devices could not be created.
    #[error(transparent)]
    Tun(#[from] TunError),
}

/// A network namespace whose loopback device is up; deleted when dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// IPv4 address on the path.
    pub v4: IpAddr,
    /// IPv6 address on the path.
    pub v6: IpAddr,
}

impl Namespace {
    fn new(name: String, host: u8) -> Result<Namespace, LabError> {
        run(&format!("ip netns add {name}"))?;
        let v4 = Ipv4Addr::new(10, 9, 0, host).into();
        let v6 = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, host.into()).into();
        let namespace = Namespace { name, v4, v6 };
        namespace.run("ip link set lo up")?;
        Ok(namespace)
    }

    /// Returns the name used by `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a command that runs `program` in the namespace. The process becomes the program itself, so
    /// signals reach it directly.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs a command and waits for it. Arguments are separated by spaces; no shell is involved.
    pub fn run(&self, command: &str) -> Result<(), LabError> {
        run(&format!("ip netns exec {} {command}", self.name))
    }

    /// Runs `work` in the namespace, on a temporary thread. Sockets that `work` opens stay in the namespace.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|s| {
            let thread = s.spawn(|| tun::enter(&self.name).map(|()| work()));
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the work in the namespace panicked")))
        })
    }

    fn address_device(&self) -> Result<(), LabError> {
        self.run(&format!("ip address add {}/24 dev {DEVICE}", self.v4))?;
        self.run(&format!("ip address add {}/64 dev {DEVICE} nodad", self.v6))?;
        // The queue must hold any burst that arrives while the emulator sleeps.
        self.run(&format!("ip link set {DEVICE} up txqueuelen 10000"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = run(&format!("ip netns delete {}", self.name));
    }
}

/// Two namespaces, not yet connected.
#[derive(Debug)]
pub struct Lab {
    /// Namespace of the client: 10.9.0.1, fd09::1.
    pub client: Namespace,
    /// Namespace of the server: 10.9.0.2, fd09::2.
    pub server: Namespace,
}

impl Lab {
    /// Creates the namespaces, with unique names.
    pub fn new() -> Result<Lab, LabError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("jitlat-{}-{n}-{end}", std::process::id());
        Ok(Lab { client: Namespace::new(name("client"), 1)?, server: Namespace::new(name("server"), 2)? })
    }

    /// Connects the namespaces by a path with the impairments of `scenario`.
    pub fn tun(&self, scenario: Scenario, numbering: Numbering) -> Result<Tun, LabError> {
        let end = |n: &Namespace| TunEnd { namespace: Some(n.name.clone()), device: DEVICE.to_owned() };
        let (client, server) = (end(&self.client), end(&self.server));
        let tun = Tun::start(TunConfig { client, server, scenario, numbering, ports: Vec::new() })?;
        self.client.address_device()?;
        self.server.address_device()?;
        Ok(tun)
    }

    /// Connects the namespaces through a switch in a third namespace, whose ports are called `client` and
    /// `server`. `tc` on the port `server` affects packets from client to server. The path exists until the
    /// returned namespace is dropped.
    pub fn switch(&self) -> Result<Namespace, LabError> {
        let switch = Namespace::new(format!("{}-switch", self.client.name), 254)?;
        switch.run("ip link add bridge up type bridge")?;
        for (host, port) in [(&self.client, "client"), (&self.server, "server")] {
            let far = &switch.name;
            host.run(&format!("ip link add {DEVICE} type veth peer name {port} netns {far}"))?;
            switch.run(&format!("ip link set {port} master bridge up"))?;
            host.address_device()?;
        }
        Ok(switch)
    }

    /// Connects the namespaces through a router in a third namespace, whose interfaces are called `client` and
    /// `server`. The router passes packets to and from the server only up to `mtu` bytes. The path exists until the
    /// returned namespace is dropped.
    pub fn router(&self, mtu: u32) -> Result<Namespace, LabError> {
        let router = Namespace::new(format!("{}-router", self.client.name), 254)?;
        for path in ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"] {
            let forward = router.within(|| std::fs::write(path, "1")).and_then(|written| written);
            forward.map_err(|e| LabError::Command { command: path.to_owned(), output: e.to_string() })?;
        }
        router.run(&format!("ip address add {}/32 dev lo", router.v4))?;
        for (host, port) in [(&self.client, "client"), (&self.server, "server")] {
            let far = &router.name;
            host.run(&format!("ip link add {DEVICE} type veth peer name {port} netns {far}"))?;
            host.run(&format!("ip address add {}/32 dev {DEVICE}", host.v4))?;
            host.run(&format!("ip address add {}/128 dev {DEVICE} nodad", host.v6))?;
            host.run(&format!("ip link set {DEVICE} up"))?;
            router.run(&format!("ip address add {}/128 dev {port} nodad", router.v6))?;
            router.run(&format!("ip link set {port} up"))?;
            for (family, near, gateway) in [("-4", host.v4, router.v4), ("-6", host.v6, router.v6)] {
                router.run(&format!("ip {family} route replace {near} dev {port}"))?;
                host.run(&format!("ip {family} route replace {gateway} dev {DEVICE}"))?;
                host.run(&format!("ip {family} route add default via {gateway} dev {DEVICE}"))?;
            }
        }
        router.run(&format!("ip link set server mtu {mtu}"))?;
        Ok(router)
    }

    /// Connects the namespaces by a virtual cable without impairments.
    pub fn cable(&self) -> Result<(), LabError> {
        let far = &self.server.name;
        self.client.run(&format!("ip link add {DEVICE} type veth peer name {DEVICE} netns {far}"))?;
        self.client.address_device()?;
        self.server.address_device()
    }
}

fn run(command: &str) -> Result<(), LabError> {
    let failed =
        |output: &str| LabError::Command { command: command.to_owned(), output: output.trim().to_owned() };
    let mut parts = command.split_whitespace();
    let program = parts.next().unwrap_or_default();
    let output = Command::new(program).args(parts).output().map_err(|e| failed(&e.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(failed(&String::from_utf8_lossy(&output.stderr))) }
}
