//! [`Gate`]: counts the resources that clients use against the [`Policy`].

use super::proofs::WrongProofs;
use super::wasted::WastedGrants;
use super::{LimitRefusal, Policy, PolicyRefusal, Quota, Scope, Service};
use crate::access::ClientAddress;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use jitlat_core::{Span, SteadyTime};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Resources that a client requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Number of TCP connections.
    pub connections: usize,
    /// Number of sessions.
    pub sessions: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// True if the client has proved a key. Clients without a key cannot take resources from such a client.
    pub proven: bool,
}

impl Ask {
    /// Request for one connection.
    pub const CONNECTION: Ask = Ask { connections: 1, sessions: 0, memory: 0, proven: false };

    /// Returns a request for one session with `memory` bytes of memory.
    pub fn session(memory: u64) -> Ask {
        Ask { connections: 0, sessions: 1, memory, proven: false }
    }

    /// Returns the same request, for a client that has proved a key if `proven` is true.
    pub fn proven(self, proven: bool) -> Ask {
        Ask { proven, ..self }
    }
}

/// Range of the idle time after which a grant can be evicted. Within this range, a grant can be evicted after
/// it has been idle for as long as it was in use.
const IDLE_LIMITS: (Span, Span) = (Span::millis(500), Span::seconds(10));
/// Lower end of [`IDLE_LIMITS`] for a client that recently wasted a grant. It applies if the client that needs the
/// resource did not waste one.
const MIN_IDLE_AFTER_WASTE: Span = Span::millis(50);
/// Time that a session with keep-alives may wait for its first packet: several round trips.
const FIRST_PACKET_TIMEOUT: Span = Span::seconds(2);

/// Callback after the eviction of a grant. It is called on the thread of the client that needed the resource,
/// so it must return at once.
pub type OnEviction = Arc<dyn Fn() + Send + Sync>;

/// Grants resources within the policy, and counts them until they are released. Clones share the same counts.
#[derive(Clone)]
pub struct Gate(Arc<GateShared>);

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}

struct GateShared {
    policy: Policy,
    state: Mutex<GateState>,
}

#[derive(Default)]
struct GateState {
    granted: Vec<HeldGrant>,
    on_eviction: Vec<Weak<dyn Fn() + Send + Sync>>,
    next: u64,
    proofs: WrongProofs,
    wasted: WastedGrants,
    /// Latest time passed to any call so far; `None` before the first call.
    now: Option<SteadyTime>,
}

/// A grant that is in use.
#[derive(Debug)]
struct HeldGrant {
    number: u64,
    service: Service,
    client: ClientAddress,
    ask: Ask,
    activity: Arc<Activity>,
}

#[derive(Debug)]
struct Activity {
    granted: SteadyTime,
    /// Time of the last use, in ns on the steady clock.
    used: AtomicI64,
    /// Time of the client's last keep-alive, in ns on the steady clock.
    alive: AtomicI64,
    busy: AtomicBool,
    proven: AtomicBool,
    evicted: AtomicBool,
}

impl Activity {
    fn new(granted: SteadyTime, proven: bool) -> Activity {
        Activity {
            granted,
            used: AtomicI64::new(granted.0),
            alive: AtomicI64::new(granted.0),
            busy: AtomicBool::new(false),
            proven: AtomicBool::new(proven),
            evicted: AtomicBool::new(false),
        }
    }

    /// True if the grant has ever been used.
    fn was_used(&self) -> bool {
        self.busy.load(Relaxed) || self.used.load(Relaxed) != self.granted.0
    }

    /// Returns the idle time in thousandths of the permitted idle time; `None` if the grant must not be
    /// evicted. `begin` is the time for which a new grant may be unused. `again` is true if the client
    /// recently wasted a grant.
    fn idle(&self, now: SteadyTime, begin: Span, again: bool) -> Option<i64> {
        if self.busy.load(Relaxed) {
            return None;
        }
        let used = SteadyTime(self.used.load(Relaxed));
        let alive = SteadyTime(self.alive.load(Relaxed)).max(used);
        let (least, longest) = (if again { MIN_IDLE_AFTER_WASTE } else { IDLE_LIMITS.0 }, IDLE_LIMITS.1);
        let of = |idle: Span, timeout: Span| (idle >= timeout).then_some(idle.0 / (timeout.0 / 1000));
        let silent = of(now - alive, (alive - self.granted).clamp(least, longest));
        // Keep-alives extend the time only up to this limit.
        let unused_limit = match (self.was_used(), again) {
            (true, _) => longest,
            (false, true) => least,
            (false, false) => begin.max(least),
        };
        silent.max(of(now - used, unused_limit).filter(|_| alive > used))
    }
}

/// A granted resource. Dropping it releases the resource.
#[derive(Debug)]
#[must_use = "dropping the grant releases it at once"]
pub struct Grant {
    gate: Gate,
    number: u64,
    activity: Arc<Activity>,
}

impl Grant {
    /// Records that the grant is in use at `now`.
    pub fn touch(&self, now: SteadyTime) {
        self.activity.used.store(now.0, Relaxed);
    }

    /// Records a keep-alive of the client. Keep-alives alone protect a grant from eviction for at most ten seconds.
    pub fn keep_alive(&self, now: SteadyTime) {
        self.activity.alive.store(now.0, Relaxed);
    }

    /// Records that the client has proved a key, so that clients without a key can no longer evict the grant.
    pub fn set_proven(&self) {
        self.activity.proven.store(true, Relaxed);
    }

    /// Protects the grant from eviction.
    pub fn set_busy(&self) {
        self.activity.busy.store(true, Relaxed);
    }

    /// True if the grant was evicted. It no longer counts, and its holder must end.
    pub fn is_evicted(&self) -> bool {
        self.activity.evicted.load(Relaxed)
    }

    /// Reduces the granted memory to `memory` bytes.
    pub fn shrink(&self, memory: u64) {
        let mut state = self.gate.state();
        if let Some(held) = state.granted.iter_mut().find(|h| h.number == self.number) {
            held.ask.memory = held.ask.memory.min(memory);
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        let Some(index) = state.granted.iter().position(|held| held.number == self.number) else { return };
        let held = state.granted.swap_remove(index);
        if held.ask.sessions > 0
            && !held.activity.was_used()
            && let Some(now) = state.now
        {
            state.wasted.add(held.client, now);
        }
    }
}

/// Grant of memory for a table of sessions.
#[derive(Debug)]
pub struct TableGrant {
    /// Maximum number of sessions in the table.
    pub entries: usize,
    /// Maximum number of sessions per client.
    pub per_client: usize,
    /// Grant of the table's memory.
    pub memory: Grant,
}

/// A counted resource: its name in a refusal for each [`Scope`], its limit, and the requested amount.
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
    /// True if `held` counts towards the same limit as resources of `client` for `service`.
    fn includes(self, held: &HeldGrant, service: Service, client: ClientAddress) -> bool {
        (!self.is_of_a_service() || held.service == service)
            && (!self.is_of_a_client() || held.client == client)
    }
}

/// A limit that has been reached.
struct Reached {
    scope: Scope,
    resource: &'static Resource,
    limit: LimitRefusal,
}

impl Gate {
    /// Creates a gate without grants.
    pub fn new(policy: Policy) -> Gate {
        Gate(Arc::new(GateShared { policy, state: Mutex::default() }))
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Calls `on_eviction` after each further eviction, for as long as the caller retains `on_eviction`.
    pub fn notify_of_evictions(&self, on_eviction: &OnEviction) {
        let mut state = self.state();
        state.on_eviction.retain(|other| other.strong_count() > 0);
        state.on_eviction.push(Arc::downgrade(on_eviction));
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants `ask` of `service` to `address`. If all clients together have reached a limit, an idle grant is evicted:
    /// among clients that hold more of the resource than this one, the grant that has been idle longest, relative to
    /// its time in use. Clients that wasted a grant within the last minute lose idle grants sooner. Grants of clients
    /// that have proved a key are evicted last, and only for other such clients.
    ///
    /// # Errors
    /// The rule that forbids the grant.
    pub fn admit(
        &self,
        service: Service,
        address: IpAddr,
        ask: Ask,
        now: SteadyTime,
    ) -> Result<Grant, PolicyRefusal> {
        let policy = self.policy();
        policy.admits(service, address)?;
        let client = policy.client_of(address);
        let mut state = self.state();
        state.now = state.now.max(Some(now));
        // Only new connections have to wait: sessions belong to connections that are already admitted.
        if let Some(wait) = state.proofs.wait(client, now).filter(|_| ask.connections > 0) {
            return Err(PolicyRefusal::WrongKeys(wait));
        }
        while let Err(reached) = state.check(policy, service, client, ask) {
            if !state.make_room(&reached, service, (client, ask.proven), now) {
                return Err(PolicyRefusal::Limit(reached.limit));
            }
        }
        Ok(self.grant(&mut state, service, client, ask, now))
    }

    fn grant(
        &self,
        state: &mut GateState,
        service: Service,
        client: ClientAddress,
        ask: Ask,
        now: SteadyTime,
    ) -> Grant {
        state.next += 1;
        let number = state.next;
        let activity = Arc::new(Activity::new(now, ask.proven));
        state.granted.push(HeldGrant { number, service, client, ask, activity: Arc::clone(&activity) });
        Grant { gate: self.clone(), number, activity }
    }

    /// Reserves memory for a table of at most `entries` sessions of `service`, each of `size` bytes, which
    /// are not admitted one by one. A table gets at most a sixteenth of the total memory, to leave room for
    /// others.
    pub fn reserve_table(
        &self,
        service: Service,
        entries: usize,
        size: usize,
        now: SteadyTime,
    ) -> TableGrant {
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
            let of_scope = |held: &&HeldGrant| !scope.is_of_a_service() || held.service == service;
            state.granted.iter().filter(of_scope).map(|held| held.ask.memory).sum()
        };
        let free =
            of_all.map(|scope| policy.quota(service, scope).memory.map(|m| m.saturating_sub(used(scope))));
        // No single table may take the memory of the other services.
        let share = policy.total.memory.map_or(u64::MAX, |memory| memory / 16);
        let entries = (entries as u64).min(sessions(of_all)).min(least(free).min(share) / size);
        let per_client = entries.min(sessions(of_client)).min(memory(of_client) / size);
        let ask = Ask { memory: entries * size, ..Ask::default() };
        // The memory is not assigned to a client.
        let grant =
            self.grant(&mut state, service, ClientAddress::of(Ipv4Addr::UNSPECIFIED.into()), ask, now);
        // A table is in use as long as the server runs, so it must never be evicted.
        grant.set_busy();
        TableGrant { entries: entries as usize, per_client: per_client as usize, memory: grant }
    }

    /// Records that `address` gave a wrong key. After the second wrong key, the client must wait before it
    /// may connect again. Returns true if the failure should be logged, which becomes less frequent with each
    /// failure.
    pub fn wrong_key(&self, address: IpAddr, now: SteadyTime) -> bool {
        self.state().proofs.failed(self.policy().client_of(address), now)
    }

    /// Records that `address` gave the right key.
    pub fn right_key(&self, address: IpAddr) {
        self.state().proofs.succeeded(self.policy().client_of(address));
    }

    /// Returns the resources in use by `service`.
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

impl GateState {
    fn check(
        &self,
        policy: &Policy,
        service: Service,
        client: ClientAddress,
        ask: Ask,
    ) -> Result<(), Reached> {
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

    /// Evicts the grant that has been idle longest, relative to its permitted idle time, among clients that hold more
    /// of the resource than `client`. Returns false if there is no such grant, or if the limit applies to `client`
    /// alone. `proven` is true if `client` has proved a key.
    fn make_room(
        &mut self,
        reached: &Reached,
        service: Service,
        (client, proven): (ClientAddress, bool),
        now: SteadyTime,
    ) -> bool {
        let Reached { scope, resource, .. } = reached;
        // A client's own limit is not relieved by evicting grants of others.
        if scope.is_of_a_client() {
            return false;
        }
        let of = |held: &HeldGrant| {
            if scope.includes(held, service, client) { (resource.asked)(&held.ask) } else { 0 }
        };
        // Amount and number of grants, by client.
        let mut holds: HashMap<ClientAddress, (u64, u64)> = HashMap::new();
        for (held, amount) in self.granted.iter().map(|held| (held, of(held))).filter(|(_, n)| *n > 0) {
            let (sum, count) = holds.entry(held.client).or_default();
            (*sum, *count) = (sum.saturating_add(amount), *count + 1);
        }
        let own = holds.get(&client).map_or(0, |(sum, _)| *sum);
        let is_better = !self.wasted.has(client, now);
        let idle = self.granted.iter().enumerate().filter_map(|(index, held)| {
            let (sum, count) = *holds.get(&held.client).filter(|_| of(held) > 0)?;
            let has_proven = held.activity.proven.load(Relaxed);
            // Only clients with more than the requesting one lose grants, so that two clients cannot evict
            // each other in turn.
            if held.client == client || sum <= own || has_proven && !proven {
                return None;
            }
            let again = is_better && self.wasted.has(held.client, now);
            // A client with several unused grants shares this time among them.
            let begin = if held.ask.sessions > 0 { FIRST_PACKET_TIMEOUT } else { IDLE_LIMITS.1 };
            let begin = Span(begin.0 / i64::try_from(count.max(1)).unwrap_or(i64::MAX));
            let idle = held.activity.idle(now, begin, again)?;
            Some((!has_proven, idle, index))
        });
        let Some((_, _, index)) = idle.max() else { return false };
        let held = self.granted.swap_remove(index);
        held.activity.evicted.store(true, Relaxed);
        if !held.activity.was_used() {
            self.wasted.add(held.client, now);
        }
        self.on_eviction.iter().filter_map(Weak::upgrade).for_each(|notify| notify());
        true
    }
}

impl Resource {
    fn refusal(&self, scope: Scope, allowed: u64, used: u64, asked: u64) -> LimitRefusal {
        let name = self.names[scope as usize];
        if !self.is_memory {
            return LimitRefusal::new(name, allowed, "one more");
        }
        // Rounded up, so that no amount is shown as 0 MB.
        let mb = |bytes: u64| bytes.div_ceil(1 << 20);
        let beside = format!("{} MB in addition to {} MB in use", mb(asked), mb(used));
        LimitRefusal::new(name, format_args!("{} MB", mb(allowed)), beside)
    }
}
