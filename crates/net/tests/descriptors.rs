//! Servers on a host without free descriptors. This is a separate test binary because the limit applies to
//! the process.

use jitlat_net::pace::Pacing;
use jitlat_net::reflect::{Reflectors, TcpResponder, TwampServer};
use jitlat_net::server::{JitlatServer, ServerSettings};
use jitlat_proto::jitlat::ServerLimits;
use jitlat_proto::policy::{self, Policy};
use jitlat_proto::reqresp::ExchangeSizes;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

/// Processor time of this process so far, in ms.
fn cpu() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    usage.user_time().num_milliseconds() + usage.system_time().num_milliseconds()
}

#[test]
fn without_descriptors_servers_wait_and_serve_again() {
    let ip = Ipv4Addr::LOCALHOST.into();
    let mut policy = Policy::default();
    policy.service(policy::TCP).client.connections = Some(64);
    let mut reflectors = Reflectors::new(policy).unwrap();
    reflectors.start(&TwampServer { port: 0, ..TwampServer::default() }, &[ip]);
    reflectors.start(&TcpResponder { port: 0, ..TcpResponder::default() }, &[ip]);
    let service = ServerSettings {
        bind: vec![SocketAddr::new(ip, 0)],
        test_port: 0,
        limits: ServerLimits::default(),
        keys: Default::default(),
        pacing: Pacing::default(),
        priority: None,
    };
    let server = JitlatServer::bind(service).unwrap().start().unwrap();
    let mut addresses = server.addresses().to_vec();
    addresses.extend(reflectors.listening().iter().map(|(_, at)| *at));

    let clients: Vec<(Socket, SocketAddr)> =
        addresses.iter().map(|at| (Socket::new(Domain::IPV4, Type::STREAM, None).unwrap(), *at)).collect();
    let highest = clients.iter().map(|(s, _)| s.as_raw_fd()).max().unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, highest as nix::sys::resource::rlim_t + 1, hard).unwrap();
    for (client, at) in &clients {
        client.connect(&(*at).into()).unwrap();
    }
    // All connections wait to be accepted, but cannot be: a loop that retries at once would keep one
    // processor busy for each.
    let before = cpu();
    let busy = jitlat_waiting::within(Duration::from_secs(1), || cpu() - before >= 300);
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    assert!(!busy, "more than 300 ms of processor time in a second of waiting");

    // Once descriptors are free again, the waiting client is served: the responder returns the greeting.
    let (client, _) = clients.into_iter().last().unwrap();
    let mut client: TcpStream = client.into();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    let greeting = ExchangeSizes::new(100, 100).unwrap().greeting();
    client.write_all(&greeting).unwrap();
    let mut echo = [0; 16];
    client.read_exact(&mut echo).unwrap();
    assert_eq!(echo, greeting);
    let began = Instant::now();
    drop(server);
    drop(reflectors);
    assert!(began.elapsed() < LIMIT);
}
