//! [`Meters`]: the rates of a service's answers against all quotas.

use super::{Policy, Quota, Scope, Service};
use crate::access::Client;
use crate::ledger::{ClientLimits, Ledger};
use core::net::{IpAddr, Ipv4Addr};
use jitlat_core::{Span, SteadyTime};
use std::sync::Arc;

/// Limits the packets and bytes that one service answers. Those of all services share the ledgers of all services.
#[derive(Clone, Debug)]
pub struct Meters {
    all: Shared,
    client: Option<Arc<Ledger>>,
    total: Option<Arc<Ledger>>,
}

/// The ledgers of all services.
#[derive(Clone, Debug)]
struct Shared {
    client: Arc<Ledger>,
    total: Option<Arc<Ledger>>,
    seed: u64,
}

fn ledger(quota: &Quota, seed: u64) -> Ledger {
    let unlimited = ClientLimits::UNLIMITED;
    let limits = ClientLimits {
        packets_per_second: quota.packets.unwrap_or(unlimited.packets_per_second),
        bytes_per_second: quota.bytes.unwrap_or(unlimited.bytes_per_second),
    };
    Ledger::new(limits, seed)
}

fn if_limited(quota: &Quota, seed: u64) -> Option<Arc<Ledger>> {
    quota.limits_rates().then(|| Arc::new(ledger(quota, seed)))
}

impl Meters {
    /// Those of all services together. `seed` is random: see [`Ledger::new`].
    pub fn new(policy: &Policy, seed: u64) -> Meters {
        let all = Shared {
            client: Arc::new(ledger(&policy.client, seed)),
            total: if_limited(&policy.total, seed),
            seed,
        };
        Meters { all, client: None, total: None }
    }

    /// Those of `service`, which share the limits of all services.
    pub fn of(&self, policy: &Policy, service: Service) -> Meters {
        let ledger = |scope| if_limited(&policy.quota(service, scope), self.all.seed);
        Meters {
            all: self.all.clone(),
            client: ledger(Scope::ServiceClient),
            total: ledger(Scope::ServiceTotal),
        }
    }

    /// What each client is served by all services.
    pub fn clients(&self) -> Arc<Ledger> {
        Arc::clone(&self.all.client)
    }

    /// Counts a packet of `bytes` bytes for `peer`.
    ///
    /// # Errors
    /// A limit is reached: after how long to try again. What was refused may count against other limits.
    pub fn take(&self, peer: IpAddr, bytes: usize, now: SteadyTime) -> Result<(), Span> {
        let (client, everyone) = (Client::of(peer), Client::of(Ipv4Addr::UNSPECIFIED.into()));
        self.all.client.take(client, bytes, now)?;
        let ledgers =
            [(&self.client, client), (&self.total, everyone), (&self.all.total, everyone)].into_iter();
        for (ledger, whose) in ledgers {
            if let Some(ledger) = ledger {
                ledger.take(whose, bytes, now)?;
            }
        }
        Ok(())
    }
}
