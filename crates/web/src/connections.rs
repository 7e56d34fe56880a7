//! [`Connections`]: the open connections of a door (a listening address), limited in total and per client. When a limit
//! is reached, the connection that has been idle longest ends, so that nobody occupies all slots; some slots are
//! reserved for clients that have shown a valid token.

use jitlat_proto::access::ClientAddress;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

/// Maximum number of clients that are remembered for their valid token.
const MAX_KNOWN: usize = 256;

/// Limits of the connections of a door.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of connections.
    pub all: usize,
    /// Maximum number of connections of one client.
    pub of_one: usize,
    /// Number of connections that are reserved for clients with a valid token.
    pub kept: usize,
}

/// Open connections of a door.
#[derive(Clone, Debug)]
pub struct Connections {
    table: Arc<Mutex<ConnectionTable>>,
    limits: ConnectionLimits,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    open: BTreeMap<u64, OpenConnection>,
    /// Last number that was given to a new connection, or to a connection whose request ended. Connections that have
    /// been idle longer have smaller numbers.
    next: u64,
    /// Clients that have shown a valid token, the last ones at the end.
    known: VecDeque<ClientAddress>,
}

#[derive(Debug)]
struct OpenConnection {
    client: ClientAddress,
    is_known: bool,
    /// Number of authorised requests that are being answered: a connection without any is idle.
    requests: usize,
    idle_since: u64,
    task: Option<AbortHandle>,
}

/// A connection, which counts until the last clone of this value is dropped.
#[derive(Clone, Debug)]
pub struct Connection(Arc<HeldConnection>);

#[derive(Debug)]
struct HeldConnection {
    connections: Connections,
    number: u64,
}

/// An authorised request: its connection is not idle until this value is dropped.
#[derive(Debug)]
pub struct BusyConnection(Connection);

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Connections {
        Connections { table: Arc::default(), limits }
    }

    /// Takes a slot for a connection of `client`, and ends an idle connection if that is necessary; `None` if no slot
    /// is available.
    pub fn take(&self, client: ClientAddress) -> Option<Connection> {
        self.take_within(client, self.limits)
    }

    /// Takes a slot like [`take`](Self::take) for a connection of a proxy, which may use all slots because it connects for many clients.
    pub fn take_for_proxy(&self, proxy: ClientAddress) -> Option<Connection> {
        self.take_within(proxy, ConnectionLimits { of_one: self.limits.all, ..self.limits })
    }

    fn take_within(&self, client: ClientAddress, limits: ConnectionLimits) -> Option<Connection> {
        let mut table = self.table();
        let is_known = table.known.contains(&client);
        if !table.make_room(client, is_known, limits) {
            return None;
        }
        let number = table.turn();
        let connection = OpenConnection { client, is_known, requests: 0, idle_since: number, task: None };
        table.open.insert(number, connection);
        Some(Connection(Arc::new(HeldConnection { connections: self.clone(), number })))
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable {
    fn turn(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn count(&self, which: impl Fn(&OpenConnection) -> bool) -> usize {
        self.open.values().filter(|open| which(open)).count()
    }

    /// Ends idle connections until `client` may have one more; false if that is impossible.
    fn make_room(&mut self, client: ClientAddress, is_known: bool, limits: ConnectionLimits) -> bool {
        let own = self.count(|open| open.client == client);
        if own >= limits.of_one {
            return self.end_idle(|open| open.client == client);
        }
        let strangers = self.count(|open| !open.is_known);
        let full =
            self.open.len() >= limits.all || !is_known && strangers >= limits.all.saturating_sub(limits.kept);
        if !full {
            return true;
        }
        let mut holds: HashMap<ClientAddress, usize> = HashMap::new();
        self.open.values().for_each(|open| *holds.entry(open.client).or_default() += 1);
        let held = |open: &OpenConnection| holds.get(&open.client).copied().unwrap_or_default();
        // The connection that ends is one of the same client, or of a client that has more. For a client with a valid
        // token, it may be one of any client without; a client without ends none of a client with a token.
        let oldest = |known: bool| {
            let idle = self.open.iter().filter(|(_, open)| open.requests == 0 && open.is_known == known);
            let open_to =
                idle.filter(|(_, open)| open.client == client || is_known && !known || held(open) > own);
            open_to.max_by_key(|(_, open)| (held(open), Reverse(open.idle_since))).map(|(number, _)| *number)
        };
        let found = oldest(false).or_else(|| if is_known { oldest(true) } else { None });
        found.is_some_and(|number| self.end(number))
    }

    /// Ends the connection that has been idle longest among those that `which` selects; false if none of them is idle.
    fn end_idle(&mut self, which: impl Fn(&OpenConnection) -> bool) -> bool {
        let idle = self.open.iter().filter(|(_, open)| open.requests == 0 && which(open));
        let oldest = idle.min_by_key(|(_, open)| open.idle_since).map(|(number, _)| *number);
        oldest.is_some_and(|number| self.end(number))
    }

    fn end(&mut self, number: u64) -> bool {
        let ended = self.open.remove(&number);
        ended.as_ref().and_then(|ended| ended.task.as_ref()).into_iter().for_each(AbortHandle::abort);
        ended.is_some()
    }
}

impl Connection {
    /// Sets the task that answers the requests of this connection; it is aborted if the connection has to end.
    pub fn is_answered_by(&self, task: AbortHandle) {
        match self.0.connections.table().open.get_mut(&self.0.number) {
            Some(open) => open.task = Some(task),
            None => task.abort(),
        }
    }

    /// Records that the client has shown a valid token.
    pub fn prove(&self) {
        let mut table = self.0.connections.table();
        let Some(open) = table.open.get_mut(&self.0.number) else { return };
        open.is_known = true;
        let client = open.client;
        table.known.retain(|known| *known != client);
        table.known.push_back(client);
        if table.known.len() > MAX_KNOWN {
            table.known.pop_front();
        }
    }

    /// Records that an authorised request is being answered.
    pub fn begin(&self) -> BusyConnection {
        if let Some(open) = self.0.connections.table().open.get_mut(&self.0.number) {
            open.requests += 1;
        }
        BusyConnection(self.clone())
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        let HeldConnection { connections, number } = &*self.0.0;
        let mut table = connections.table();
        let turn = table.turn();
        if let Some(open) = table.open.get_mut(number) {
            open.requests = open.requests.saturating_sub(1);
            open.idle_since = turn;
        }
    }
}

impl Drop for HeldConnection {
    fn drop(&mut self) {
        self.connections.table().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientAddress {
        ClientAddress::of(address.parse().unwrap())
    }

    fn is_open(connection: &Connection) -> bool {
        connection.0.connections.table().open.contains_key(&connection.0.number)
    }

    fn doors(all: usize, of_one: usize, kept: usize) -> Connections {
        Connections::new(ConnectionLimits { all, of_one, kept })
    }

    #[test]
    fn a_client_at_its_limit_loses_its_own_oldest_idle_connection() {
        let door = doors(10, 2, 0);
        // The addresses of an IPv6 /64 are one client's, and a mapped address is that of IPv4.
        let first = door.take(client("2001:db8::1")).unwrap();
        let second = door.take(client("2001:db8::ffff:1")).unwrap();
        let other = [door.take(client("192.0.2.1")).unwrap(), door.take(client("::ffff:192.0.2.1")).unwrap()];
        let third = door.take(client("2001:db8::2")).unwrap();
        assert!(!is_open(&first) && is_open(&second) && is_open(&third));
        assert!(other.iter().all(is_open));
        // Requests that are being answered are not interrupted.
        let busy = [second.begin(), third.begin()];
        assert!(door.take(client("2001:db8::3")).is_none());
        drop(busy);
        assert!(door.take(client("2001:db8::3")).is_some());
        drop((first, second, third, other));
        assert!(door.table().open.is_empty());
    }

    #[test]
    fn at_a_full_door_the_client_with_most_connections_loses_one() {
        let door = doors(4, 3, 0);
        let greedy: Vec<Connection> = (0..3).map(|_| door.take(client("192.0.2.1")).unwrap()).collect();
        let modest = door.take(client("192.0.2.2")).unwrap();
        let next = door.take(client("192.0.2.3")).unwrap();
        assert!(!is_open(&greedy[0]) && greedy[1..].iter().all(is_open) && is_open(&modest));
        let last = door.take(client("192.0.2.4")).unwrap();
        assert!(!is_open(&greedy[1]) && is_open(&greedy[2]) && is_open(&modest) && is_open(&next));
        // All clients have one: the oldest idle one of them ends.
        let further = door.take(client("192.0.2.5")).unwrap();
        assert!(!is_open(&greedy[2]) && [&modest, &next, &last, &further].into_iter().all(is_open));
    }

    #[test]
    fn a_proxy_may_use_all_connections_and_another_client_takes_one_of_them() {
        let door = doors(4, 2, 0);
        let proxy = client("192.0.2.1");
        let many: Vec<Connection> = (0..4).map(|_| door.take_for_proxy(proxy).unwrap()).collect();
        assert!(many.iter().all(is_open));
        let direct = door.take(client("192.0.2.2")).unwrap();
        assert!(is_open(&direct) && !is_open(&many[0]) && many[1..].iter().all(is_open));
    }

    #[test]
    fn a_share_is_kept_for_clients_with_a_token() {
        let door = doors(4, 4, 2);
        let (honest, evil) = (client("192.0.2.1"), client("192.0.2.66"));
        let shown = door.take(honest).unwrap();
        shown.prove();
        let others: Vec<Connection> = (0..4).filter_map(|_| door.take(evil)).collect();
        assert_eq!(others.iter().filter(|other| is_open(other)).count(), 2);
        assert!(is_open(&shown));
        // Its next connections use the share, and end connections of strangers beyond it.
        let more: Vec<Connection> = (0..3).map(|_| door.take(honest).unwrap()).collect();
        assert!(is_open(&shown) && more.iter().all(is_open));
        assert!(!others.iter().any(is_open));
        assert!(door.take(evil).is_none(), "a stranger takes nothing from a client with a token");
        drop((shown, more));
        for k in 0..2 * MAX_KNOWN {
            door.take(client(&format!("10.0.{}.{}", k / 256, k % 256))).unwrap().prove();
        }
        assert_eq!(door.table().known.len(), MAX_KNOWN);
    }
}
