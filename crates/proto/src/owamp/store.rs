//! [`Store`]: stores records of sessions for their owners, for a limited time and within limits.

use super::message::DataRecord;
use super::session::SessionData;
use crate::amp::{AcceptCode, Sid};
use core::net::IpAddr;
use jitlat_core::{Span, SteadyTime};
use std::collections::HashMap;
use std::sync::Arc;

/// Owner of a session. The session identifier alone does not give access to the data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// User of the keyed modes.
    User(String),
    /// Host that requested the session, in open mode.
    Host(IpAddr),
}

/// Limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Maximum memory for the records of running and finished sessions, in bytes.
    pub memory: u64,
    /// Maximum memory per owner, in bytes.
    pub memory_per_owner: u64,
    /// Time for which the records of a session are stored after its end.
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
    /// Records, and the time at which they expire; `None` while the session is running.
    data: Option<(Arc<SessionData>, SteadyTime)>,
}

/// Sessions that are being received, and records of finished sessions.
#[derive(Debug)]
pub struct Store {
    limits: StoreLimits,
    sessions: HashMap<Sid, StoredSession>,
}

impl Store {
    /// Creates an empty store.
    pub fn new(limits: StoreLimits) -> Store {
        Store { limits, sessions: HashMap::new() }
    }

    /// Returns the number of sessions, running or finished.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// True if there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Reserves memory for a session of `packets` that is about to run, one record per packet. If necessary,
    /// the owner's oldest data is removed. Refused if the identifier is in use or the memory is not
    /// sufficient.
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

    /// Stores the records of a session for which memory was reserved.
    pub fn keep(&mut self, mut data: SessionData, now: SteadyTime) {
        data.records.shrink_to_fit();
        if let Some(kept) = self.sessions.get_mut(&data.session.sid()) {
            kept.bytes = Store::memory(data.records.capacity());
            kept.data = Some((Arc::new(data), now));
        }
    }

    /// Removes a session without storing its records.
    pub fn release(&mut self, sid: Sid) {
        self.sessions.remove(&sid);
    }

    /// Returns the records of `sid` if it has ended and belongs to `owner`.
    pub fn find(&mut self, sid: Sid, owner: &Owner, now: SteadyTime) -> Option<Arc<SessionData>> {
        self.expire(now);
        let kept = self.sessions.get(&sid).filter(|kept| kept.owner == *owner)?;
        kept.data.as_ref().map(|(data, _)| data.clone())
    }

    /// Returns the memory of a session with this number of records, in bytes.
    pub fn memory(records: usize) -> u64 {
        records as u64 * size_of::<DataRecord>() as u64 + 1024
    }

    /// True if `sid` is running or its records are stored.
    pub fn contains(&self, sid: Sid) -> bool {
        self.sessions.contains_key(&sid)
    }

    /// Removes expired records, and returns the time at which the next ones expire; `None` if no records are stored.
    /// [`claim`](Store::claim) and [`find`](Store::find) also remove expired records.
    pub fn expire(&mut self, now: SteadyTime) -> Option<SteadyTime> {
        let keep = self.limits.keep;
        self.sessions.retain(|_, kept| kept.data.as_ref().is_none_or(|(_, since)| now - *since < keep));
        self.sessions.values().filter_map(|kept| kept.data.as_ref().map(|(_, since)| *since + keep)).min()
    }
}
