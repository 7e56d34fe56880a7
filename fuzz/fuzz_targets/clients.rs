#![no_main]
// Aims at: crates/proto/src/policy/gate.rs crates/proto/src/policy/meters.rs crates/proto/src/policy/proofs.rs crates/proto/src/accounts.rs crates/proto/src/jitlat/session_table.rs

use jitlat_core::session::HostFacts;
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::access::ClientAddress;
use jitlat_proto::jitlat::limits::ServerLimits;
use jitlat_proto::jitlat::session_table::{Claim, SessionId, SessionResults, SessionTable};
use jitlat_proto::policy::{self, Ask, Gate, Grant, Meters, Policy, PolicyRefusal, Quota, ServiceRules};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

#[derive(arbitrary::Arbitrary, Debug)]
enum Operation {
    Admit { service: u8, client: u8, host: u16, session: bool, memory: u16, proven: bool },
    Use { grant: u8, busy: bool },
    Hear { grant: u8 },
    Test { id: u8 },
    Shrink { grant: u8, memory: u16 },
    GiveBack { grant: u8 },
    Claim { id: u8, client: u8, host: u16, memory: u16 },
    Keep { id: u8 },
    Forget { id: u8 },
    WrongKey { client: u8 },
    RightKey { client: u8 },
    Packets { service: u8, client: u8, host: u16, bytes: u16, count: u8 },
    Wait { ms: u16 },
    Moment { us: u16 },
}

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    each: [u8; 3],
    all: [u8; 3],
    rate: (u8, u16),
    total: (u8, u16),
    operations: Vec<Operation>,
}

const SERVICES: [policy::Service; 3] = [policy::ONE_WAY, policy::TWAMP, policy::TCP];
const CLIENTS: usize = 8;
/// Bytes of memory for all services.
const BUDGET: u64 = 20_000;

/// Address of a host of a client: any address of a /64 belongs to the same client.
fn address(client: u8, host: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, u16::from(client) % CLIENTS as u16, 0, 0, 0, host).into()
}

fn quota([connections, sessions, memory]: [u8; 3]) -> Quota {
    let (connections, sessions) = (Some(connections.into()), Some(sessions.into()));
    Quota { connections, sessions, memory: Some(u64::from(memory) << 8), ..Quota::default() }
}

/// Packets and bytes per second.
fn rate((packets, bytes): (u8, u16)) -> (u32, u64) {
    (10 * (1 + u32::from(packets)), 10 * (1 + u64::from(bytes)))
}

/// A grant, as its holder knows it.
struct Held {
    grant: Grant,
    service: usize,
    client: u8,
    ask: Ask,
    last: SteadyTime,
    busy: bool,
    evicted: bool,
}

/// Checks that no 100 ms have more than a tenth of the packets and bytes per second, plus one packet.
fn check_rate(served: &[(SteadyTime, u64)], (packets, bytes): (u32, u64)) {
    let mut first = 0;
    let mut sum = 0;
    for (k, (at, length)) in served.iter().enumerate() {
        sum += length;
        while *at - served[first].0 >= Span::millis(100) {
            sum -= served[first].1;
            first += 1;
        }
        let count = k + 1 - first;
        assert!(count as u64 <= u64::from(packets).div_ceil(10) + 1, "{count} packets in 100 ms");
        // A packet without bytes passes even if others were sent before.
        assert!(*length == 0 || sum <= bytes.div_ceil(10) + length, "{sum} bytes in 100 ms");
    }
}

// Many clients of three services, with many addresses each. The use of a service, in total and by one client, never
// exceeds its quota, and that of all services together never exceeds the memory. Only idle grants are removed to make
// room. A client with the right key does not wait. In every 100 ms one client, and all clients together, are served
// no more than the rate.
libfuzzer_sys::fuzz_target!(|input: Input| {
    let (client_rate, total_rate) = (rate(input.rate), rate(input.total));
    let rates = |(packets, bytes)| Quota { packets: Some(packets), bytes: Some(bytes), ..Quota::default() };
    let mut policy = Policy {
        client: rates(client_rate),
        total: Quota { memory: Some(BUDGET), ..rates(total_rate) },
        services: Default::default(),
        networks: Default::default(),
        client_bits: 32,
    };
    for service in SERVICES {
        *policy.service(service) =
            ServiceRules { client: quota(input.each), total: quota(input.all), ..ServiceRules::default() };
    }
    let gate = Gate::new(policy.clone());
    // Meters take megabytes, so they are made only if there are packets.
    let mut meters: Option<[Meters; 3]> = None;
    let mut table = SessionTable::sharing(
        ServerLimits { keep: Span::seconds(5), ..ServerLimits::default() },
        gate.clone(),
    );
    let mut grants: Vec<Held> = Vec::new();
    let mut now = SteadyTime(0);
    let mut served = [(); CLIENTS].map(|()| Vec::new());
    let mut served_all = Vec::new();
    let mut wrong = [0; CLIENTS];
    for operation in input.operations.iter().take(500) {
        match *operation {
            Operation::Admit { service, client, host, session, memory, proven } => {
                let before: Vec<bool> = grants.iter().map(|held| held.grant.is_evicted()).collect();
                let ask = if session { Ask::session(memory.into()) } else { Ask::CONNECTION };
                let ask = ask.proven(proven);
                let service = usize::from(service) % 3;
                match gate.admit(SERVICES[service], address(client, host), ask, now) {
                    Ok(grant) => {
                        let client = client % CLIENTS as u8;
                        grants.push(Held {
                            grant,
                            service,
                            client,
                            ask,
                            last: now,
                            busy: false,
                            evicted: false,
                        });
                    }
                    Err(PolicyRefusal::WrongKeys(wait)) => {
                        assert!(wait > Span::ZERO && wait <= Span::seconds(64) && !session);
                        assert!(wrong[usize::from(client) % CLIENTS] >= 2, "one mistake is free");
                    }
                    Err(why) => assert!(matches!(why, PolicyRefusal::Limit(_)), "{why}"),
                }
                let taken =
                    grants.iter().zip(before).filter(|(held, before)| held.grant.is_evicted() != *before);
                taken.for_each(|(held, _)| assert!(proven || !held.ask.proven, "a key makes room for none"));
            }
            Operation::Hear { grant } => {
                if let Some(held) = grants.get_mut(usize::from(grant)) {
                    held.grant.keep_alive(now);
                }
            }
            Operation::Use { grant, busy } => {
                if let Some(held) = grants.get_mut(usize::from(grant)) {
                    held.grant.touch(now);
                    if busy {
                        held.grant.set_busy();
                    }
                    (held.busy, held.last) = (held.busy || busy, now);
                }
            }
            Operation::Shrink { grant, memory } => {
                if let Some(held) = grants.get_mut(usize::from(grant)) {
                    held.grant.shrink(memory.into());
                    held.ask.memory = held.ask.memory.min(memory.into());
                }
            }
            Operation::GiveBack { grant } => {
                if usize::from(grant) < grants.len() {
                    grants.swap_remove(grant.into());
                }
            }
            Operation::Claim { id, client, host, memory } => {
                let (id, client) = (SessionId(id.into()), address(client, host));
                if !table.find(id).has_results() {
                    let (sent, received) = Default::default();
                    let _ = table.admit(
                        Claim { id, client, memory: memory.into(), sent, received, proven: false },
                        now,
                    );
                }
            }
            Operation::Test { id } => drop(table.is_evicted(SessionId(id.into()), Some(now))),
            Operation::Keep { id } => {
                let results = SessionResults { flows: Vec::new(), host: HostFacts::default() };
                table.keep(SessionId(id.into()), Arc::new(results), now);
            }
            Operation::Forget { id } => table.forget(SessionId(id.into())),
            Operation::WrongKey { client } => {
                let client = client % CLIENTS as u8;
                gate.wrong_key(address(client, 0), now);
                wrong[usize::from(client)] += 1;
            }
            Operation::RightKey { client } => {
                let client = client % CLIENTS as u8;
                gate.right_key(address(client, 9));
                wrong[usize::from(client)] = 0;
            }
            Operation::Packets { service, client, host, bytes, count } => {
                let meters = meters.get_or_insert_with(|| {
                    let all = Meters::new(&policy, 7);
                    SERVICES.map(|service| all.of(&policy, service))
                });
                for _ in 0..count {
                    let meter = &meters[usize::from(service) % 3];
                    if meter.take(address(client, host), bytes.into(), now).is_ok() {
                        served[usize::from(client) % CLIENTS].push((now, bytes.into()));
                        served_all.push((now, bytes.into()));
                    }
                }
            }
            Operation::Wait { ms } => now = now + Span::millis((ms % 3000).into()),
            Operation::Moment { us } => now = now + Span::micros(us.into()),
        }
        // Tests that are removed to make room end.
        let ids = (0..=u8::MAX).map(|id| SessionId(id.into()));
        ids.filter(|id| table.is_evicted(*id, None))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|id| table.forget(id));
        table.expire(now);
        let mut mine = [Ask::default(); 3];
        for held in &mut grants {
            if held.grant.is_evicted() && !held.evicted {
                held.evicted = true;
                assert!(!held.busy && now - held.last >= Span::millis(50), "what is in use makes room");
            }
            if !held.evicted {
                let sum = &mut mine[held.service];
                sum.connections += held.ask.connections;
                sum.sessions += held.ask.sessions;
                sum.memory += held.ask.memory;
            }
        }
        let held = SERVICES.map(|service| gate.held(service));
        assert!(held.iter().map(|h| h.memory).sum::<u64>() <= BUDGET, "{held:?}");
        for (service, held) in held.iter().enumerate() {
            assert!(
                held.connections <= input.all[0].into() && held.sessions <= input.all[1].into(),
                "{held:?}"
            );
            assert!(held.memory <= u64::from(input.all[2]) << 8, "{held:?}");
            assert!(service == 0 || *held == mine[service], "{held:?} of {:?}", mine[service]);
            for client in 0..CLIENTS as u8 {
                let own =
                    grants.iter().filter(|h| (h.service, h.client, h.evicted) == (service, client, false));
                let sessions: usize = own.clone().map(|h| h.ask.sessions).sum();
                let connections: usize = own.map(|h| h.ask.connections).sum();
                assert!(connections <= input.each[0].into() && sessions <= input.each[1].into());
            }
        }
        assert_eq!(table.memory() + mine[0].memory, held[0].memory, "memory that nobody holds");
        assert_eq!(table.sessions() + mine[0].sessions, held[0].sessions, "sessions that nobody holds");
    }
    served.iter().for_each(|packets| check_rate(packets, client_rate));
    check_rate(&served_all, total_rate);
    drop((table, grants));
    assert_eq!(SERVICES.map(|service| gate.held(service)), [Ask::default(); 3], "held by those who left");
    assert_eq!(ClientAddress::of(address(1, 1)), ClientAddress::of(address(1, 2)));
});
