//! [`Store`]: a server's records, kept for a limited time for their owners, within limits.

use super::message::DataRecord;
use super::session::SessionData;
use crate::amp::{AcceptCode, Sid};
use core::net::IpAddr;
use jitlat_core::{Span, SteadyTime};
use std::collections::HashMap;
use std::sync::Arc;

/// The owner of a session: knowing its identifier is not enough to get its data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A user of the keyed modes.
    User(String),
    /// In the open mode, the host that requested the session.
    Host(IpAddr),
}

/// The bounds of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of records, of running sessions and kept ones.
    pub memory: u64,
    /// The same of one owner.
    pub memory_per_owner: u64,
    /// How long the records of a session are kept after its end.
    pub keep: Span,
}

impl Default for StoreLimits {
    fn default() -> StoreLimits {
        StoreLimits { memory: 1 << 30, memory_per_owner: 1 << 29, keep: Span::seconds(600) }
    }
}

#[derive(Debug)]
struct StoredSession {
    owner: Owner,
    bytes: u64,
    /// `None` while it runs.
    data: Option<(Arc<SessionData>, SteadyTime)>,
}

/// Sessions that are received, and what was recorded of those that ended.
#[derive(Debug)]
pub struct Store {
    limits: StoreLimits,
    sessions: HashMap<Sid, StoredSession>,
}

impl Store {
    /// An empty one.
    pub fn new(limits: StoreLimits) -> Store {
        Store { limits, sessions: HashMap::new() }
    }

    /// Sessions in it, running or kept.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Claims memory for a session of `packets` that is about to run, one record each. The oldest data of the same
    /// owner is removed to make room. Refused if the identifier is in use or there is no room.
    pub fn claim(
        &mut self,
        sid: Sid,
        owner: &Owner,
        packets: u32,
        now: SteadyTime,
    ) -> Result<(), AcceptCode> {
        self.expire(now);
        let bytes = Store::memory(packets as usize);
        if bytes > self.limits.memory_per_owner || bytes > self.limits.memory {
            return Err(AcceptCode::Permanent);
        }
        if self.sessions.contains_key(&sid) {
            return Err(AcceptCode::Failure);
        }
        while self.bytes(Some(owner)) + bytes > self.limits.memory_per_owner {
            let kept = self.sessions.iter().filter(|(_, kept)| kept.owner == *owner);
            let oldest = kept.filter_map(|(sid, kept)| Some((*sid, kept.data.as_ref()?.1)));
            let (oldest, _) = oldest.min_by_key(|(_, since)| *since).ok_or(AcceptCode::Temporary)?;
            self.sessions.remove(&oldest);
        }
        if self.bytes(None) + bytes > self.limits.memory {
            return Err(AcceptCode::Temporary);
        }
        self.sessions.insert(sid, StoredSession { owner: owner.clone(), bytes, data: None });
        Ok(())
    }

    fn bytes(&self, owner: Option<&Owner>) -> u64 {
        self.sessions.values().filter(|k| owner.is_none_or(|o| k.owner == *o)).map(|k| k.bytes).sum()
    }

    /// Keeps what was recorded of a session that was claimed.
    pub fn keep(&mut self, mut data: SessionData, now: SteadyTime) {
        data.records.shrink_to_fit();
        if let Some(kept) = self.sessions.get_mut(&data.session.sid()) {
            kept.bytes = Store::memory(data.records.capacity());
            kept.data = Some((Arc::new(data), now));
        }
    }

    /// Gives up a session of which nothing is to be kept.
    pub fn release(&mut self, sid: Sid) {
        self.sessions.remove(&sid);
    }

    /// What was recorded of `sid`, if it ended and belongs to `owner`.
    pub fn find(&mut self, sid: Sid, owner: &Owner, now: SteadyTime) -> Option<Arc<SessionData>> {
        self.expire(now);
        let kept = self.sessions.get(&sid).filter(|kept| kept.owner == *owner)?;
        kept.data.as_ref().map(|(data, _)| data.clone())
    }

    /// Bytes that a session with so many records takes.
    pub fn memory(records: usize) -> u64 {
        records as u64 * size_of::<DataRecord>() as u64 + 1024
    }

    /// Whether `sid` runs, or its records are kept.
    pub fn contains(&self, sid: Sid) -> bool {
        self.sessions.contains_key(&sid)
    }

    /// Forgets what was kept for long enough, and returns when the next of it will have been; the other methods do so as well.
    pub fn expire(&mut self, now: SteadyTime) -> Option<SteadyTime> {
        let keep = self.limits.keep;
        self.sessions.retain(|_, kept| kept.data.as_ref().is_none_or(|(_, since)| now - *since < keep));
        self.sessions.values().filter_map(|kept| kept.data.as_ref().map(|(_, since)| *since + keep)).min()
    }
}
