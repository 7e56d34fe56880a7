//! [`Gate`]: what clients hold, counted against the [`Policy`].

use super::proofs::WrongProofs;
use super::{Limit, Policy, Quota, Refusal, Scope, Service};
use crate::access::Client;
use core::net::{IpAddr, Ipv4Addr};
use jitlat_core::{Span, SteadyTime};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a client asks to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// TCP connections.
    pub connections: usize,
    /// Sessions.
    pub sessions: usize,
    /// Bytes of memory.
    pub memory: u64,
}

impl Ask {
    /// One connection.
    pub const CONNECTION: Ask = Ask { connections: 1, sessions: 0, memory: 0 };

    /// One session, with this many bytes of memory.
    pub fn session(memory: u64) -> Ask {
        Ask { connections: 0, sessions: 1, memory }
    }
}

/// Something may be idle for as long as it was in use, at least and at most for so long, before it makes room for others.
const PATIENCE: (Span, Span) = (Span::millis(500), Span::seconds(10));

/// Grants what the policy allows, and counts it until it is given back. Clones share the same counts.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    policy: Policy,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    granted: Vec<Held>,
    next: u64,
    proofs: WrongProofs,
}

/// Something granted.
#[derive(Debug)]
struct Held {
    number: u64,
    service: Service,
    client: Client,
    ask: Ask,
    activity: Arc<Activity>,
}

#[derive(Debug)]
struct Activity {
    granted: SteadyTime,
    /// When it was last used, ns on the steady clock.
    last: AtomicI64,
    busy: AtomicBool,
    evicted: AtomicBool,
}

impl Activity {
    /// How long it has been idle, in thousandths of how long it may be; `None`: it makes no room for others.
    fn idle(&self, now: SteadyTime) -> Option<i64> {
        let last = SteadyTime(self.last.load(Relaxed));
        let patience = (last - self.granted).clamp(PATIENCE.0, PATIENCE.1);
        let idle = now - last;
        (!self.busy.load(Relaxed) && idle >= patience).then_some(idle.0 / (patience.0 / 1000))
    }
}

/// What was granted; dropping it gives it back.
#[derive(Debug)]
#[must_use = "what was granted is free again when this is dropped"]
pub struct Grant {
    gate: Gate,
    number: u64,
    activity: Arc<Activity>,
}

impl Grant {
    /// It was used now: it is not idle.
    pub fn touch(&self, now: SteadyTime) {
        self.activity.last.store(now.0, Relaxed);
    }

    /// From now on it never makes room for others.
    pub fn set_busy(&self) {
        self.activity.busy.store(true, Relaxed);
    }

    /// Whether it has made room for others: its holder must end. It no longer counts.
    pub fn is_evicted(&self) -> bool {
        self.activity.evicted.load(Relaxed)
    }

    /// From now on it needs only this many bytes.
    pub fn shrink(&self, memory: u64) {
        let mut state = self.gate.state();
        if let Some(held) = state.granted.iter_mut().find(|h| h.number == self.number) {
            held.ask.memory = held.ask.memory.min(memory);
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.gate.state().granted.retain(|held| held.number != self.number);
    }
}

/// Room for a table of sessions.
#[derive(Debug)]
pub struct Table {
    /// Sessions.
    pub entries: usize,
    /// Of these, sessions of one client.
    pub per_client: usize,
    /// Its memory.
    pub memory: Grant,
}

/// What is counted: its names in refusals, by [`Scope`], the limit, and how much is asked for.
struct Resource {
    names: [&'static str; 4],
    limit: fn(&Quota) -> Option<u64>,
    asked: fn(&Ask) -> u64,
    is_memory: bool,
}

const RESOURCES: [Resource; 3] = [
    Resource {
        names: ["max-connections-per-client", "max-connections", "client connections", "total connections"],
        limit: |quota| quota.connections.map(|n| n as u64),
        asked: |ask| ask.connections as u64,
        is_memory: false,
    },
    Resource {
        names: ["max-sessions-per-client", "max-sessions", "client sessions", "total sessions"],
        limit: |quota| quota.sessions.map(|n| n as u64),
        asked: |ask| ask.sessions as u64,
        is_memory: false,
    },
    Resource {
        names: ["service memory-per-client", "service memory", "max-memory-per-client", "max-memory"],
        limit: |quota| quota.memory,
        asked: |ask| ask.memory,
        is_memory: true,
    },
];

impl Scope {
    /// Whether what `client` has of `service` is counted together with `held`.
    fn includes(self, held: &Held, service: Service, client: Client) -> bool {
        (!self.is_of_a_service() || held.service == service)
            && (!self.is_of_a_client() || held.client == client)
    }
}

/// A limit that is reached.
struct Reached {
    scope: Scope,
    resource: &'static Resource,
    limit: Limit,
}

impl Gate {
    /// A gate with everything free.
    pub fn new(policy: Policy) -> Gate {
        Gate(Arc::new(Shared { policy, state: Mutex::default() }))
    }

    /// Its policy.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants `ask` of `service` to `address`. If all clients together have reached a limit, what is idle of clients that
    /// hold more than this one makes room: what has been idle longest, compared to how long it was in use.
    ///
    /// # Errors
    /// The rule that forbids it.
    pub fn admit(
        &self,
        service: Service,
        address: IpAddr,
        ask: Ask,
        now: SteadyTime,
    ) -> Result<Grant, Refusal> {
        let policy = self.policy();
        policy.admits(service, address)?;
        let client = Client::of(address);
        let mut state = self.state();
        if let Some(wait) = state.proofs.wait(client, now).filter(|_| ask.connections > 0) {
            return Err(Refusal::WrongKeys(wait));
        }
        while let Err(reached) = state.check(policy, service, client, ask) {
            if !state.make_room(&reached, service, client, now) {
                return Err(Refusal::Limit(reached.limit));
            }
        }
        Ok(self.grant(&mut state, service, client, ask, now))
    }

    fn grant(&self, state: &mut State, service: Service, client: Client, ask: Ask, now: SteadyTime) -> Grant {
        state.next += 1;
        let number = state.next;
        let activity = Arc::new(Activity {
            granted: now,
            last: AtomicI64::new(now.0),
            busy: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
        });
        state.granted.push(Held { number, service, client, ask, activity: Arc::clone(&activity) });
        Grant { gate: self.clone(), number, activity }
    }

    /// Reserves memory for a table of at most `entries` sessions of `service`, each of `size` bytes, which are not admitted
    /// one by one: at most a sixteenth of the memory of all, so that others have room.
    pub fn reserve_table(&self, service: Service, entries: usize, size: usize, now: SteadyTime) -> Table {
        let policy = self.policy();
        let size = size.max(1) as u64;
        let least = |limits: [Option<u64>; 2]| limits.into_iter().flatten().min().unwrap_or(u64::MAX);
        let sessions = |scopes: [Scope; 2]| {
            least(scopes.map(|scope| policy.quota(service, scope).sessions.map(|n| n as u64)))
        };
        let memory = |scopes: [Scope; 2]| least(scopes.map(|scope| policy.quota(service, scope).memory));
        let (of_client, of_all) =
            ([Scope::ServiceClient, Scope::Client], [Scope::ServiceTotal, Scope::Total]);
        let mut state = self.state();
        let used = |scope: Scope| -> u64 {
            let of_scope = |held: &&Held| !scope.is_of_a_service() || held.service == service;
            state.granted.iter().filter(of_scope).map(|held| held.ask.memory).sum()
        };
        let free =
            of_all.map(|scope| policy.quota(service, scope).memory.map(|m| m.saturating_sub(used(scope))));
        let share = policy.total.memory.map_or(u64::MAX, |memory| memory / 16);
        let entries = (entries as u64).min(sessions(of_all)).min(least(free).min(share) / size);
        let per_client = entries.min(sessions(of_client)).min(memory(of_client) / size);
        let ask = Ask { memory: entries * size, ..Ask::default() };
        // Of no client.
        let grant = self.grant(&mut state, service, Client::of(Ipv4Addr::UNSPECIFIED.into()), ask, now);
        grant.set_busy();
        Table { entries: entries as usize, per_client: per_client as usize, memory: grant }
    }

    /// `address` gave a wrong key: after a second one it has to wait before it may connect again. Returns whether that
    /// is worth a line in the log; repetitions are less and less.
    pub fn wrong_key(&self, address: IpAddr, now: SteadyTime) -> bool {
        self.state().proofs.failed(Client::of(address), now)
    }

    /// `address` gave the right key.
    pub fn right_key(&self, address: IpAddr) {
        self.state().proofs.succeeded(Client::of(address));
    }

    /// What is held of `service`.
    pub fn held(&self, service: Service) -> Ask {
        let state = self.state();
        let mut sum = Ask::default();
        for held in state.granted.iter().filter(|h| h.service == service) {
            sum.connections += held.ask.connections;
            sum.sessions += held.ask.sessions;
            sum.memory += held.ask.memory;
        }
        sum
    }
}

impl State {
    fn check(&self, policy: &Policy, service: Service, client: Client, ask: Ask) -> Result<(), Reached> {
        for scope in Scope::ALL {
            let quota = policy.quota(service, scope);
            for resource in &RESOURCES {
                let asked = (resource.asked)(&ask);
                let Some(allowed) = (resource.limit)(&quota).filter(|_| asked > 0) else { continue };
                let counted = self.granted.iter().filter(|held| scope.includes(held, service, client));
                let used: u64 = counted.map(|held| (resource.asked)(&held.ask)).sum();
                if used.saturating_add(asked) > allowed {
                    let limit = resource.refusal(scope, allowed, used, asked);
                    return Err(Reached { scope, resource, limit });
                }
            }
        }
        Ok(())
    }

    /// Evicts what has been idle longest, compared to how long it may be, of a client that holds more than `client`; false
    /// if there is none, or if the limit is the client's own.
    fn make_room(&mut self, reached: &Reached, service: Service, client: Client, now: SteadyTime) -> bool {
        let Reached { scope, resource, .. } = reached;
        if scope.is_of_a_client() {
            return false;
        }
        let of = |held: &Held| {
            if scope.includes(held, service, client) { (resource.asked)(&held.ask) } else { 0 }
        };
        let holds =
            |whose: Client| -> u64 { self.granted.iter().filter(|held| held.client == whose).map(of).sum() };
        let own = holds(client);
        let idle = self.granted.iter().enumerate().filter_map(|(place, held)| {
            let idle = held.activity.idle(now).filter(|_| of(held) > 0 && held.client != client)?;
            (holds(held.client) > own).then_some((idle, place))
        });
        let Some((_, place)) = idle.max() else { return false };
        let held = self.granted.swap_remove(place);
        held.activity.evicted.store(true, Relaxed);
        true
    }
}

impl Resource {
    fn refusal(&self, scope: Scope, allowed: u64, used: u64, asked: u64) -> Limit {
        let name = self.names[scope as usize];
        if !self.is_memory {
            return Limit::new(name, allowed, "one more");
        }
        let mb = |bytes: u64| bytes.div_ceil(1 << 20);
        let beside = format!("{} MB beside {} MB in use", mb(asked), mb(used));
        Limit::new(name, format_args!("{} MB", mb(allowed)), beside)
    }
}
