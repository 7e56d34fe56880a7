//! [`Meters`]: limits the rates of a service's answers according to all quotas.

use super::{Policy, Quota, Scope, Service};
use crate::access::ClientAddress;
use crate::accounts::{Accounts, ClientLimits};
use core::net::{IpAddr, Ipv4Addr};
use jitlat_core::{Span, SteadyTime};
use std::sync::Arc;

/// Limits the packets and bytes of one service's answers. The meters of all services count against the same limits
/// across services.
#[derive(Clone, Debug)]
pub struct Meters {
    all: MeterAccounts,
    client: Option<Arc<Accounts>>,
    total: Option<Arc<Accounts>>,
}

/// Accounts for the limits across all services.
#[derive(Clone, Debug)]
struct MeterAccounts {
    client: Arc<Accounts>,
    total: Option<Arc<Accounts>>,
    client_bits: u8,
    seed: u64,
}

fn accounts(quota: &Quota, seed: u64) -> Accounts {
    let unlimited = ClientLimits::UNLIMITED;
    let limits = ClientLimits {
        packets_per_second: quota.packets.unwrap_or(unlimited.packets_per_second),
        bytes_per_second: quota.bytes.unwrap_or(unlimited.bytes_per_second),
    };
    Accounts::new(limits, seed)
}

fn if_limited(quota: &Quota, seed: u64) -> Option<Arc<Accounts>> {
    quota.limits_rates().then(|| Arc::new(accounts(quota, seed)))
}

impl Meters {
    /// Creates meters for the limits across all services. `seed` must be random: see [`Accounts::new`].
    pub fn new(policy: &Policy, seed: u64) -> Meters {
        let all = MeterAccounts {
            client: Arc::new(accounts(&policy.client, seed)),
            total: if_limited(&policy.total, seed),
            client_bits: policy.client_bits,
            seed,
        };
        Meters { all, client: None, total: None }
    }

    /// Returns the meters of `service`. The meters of all services count against the same limits across services.
    pub fn of(&self, policy: &Policy, service: Service) -> Meters {
        let accounts = |scope| if_limited(&policy.quota(service, scope), self.all.seed);
        Meters {
            all: self.all.clone(),
            client: accounts(Scope::ServiceClient),
            total: accounts(Scope::ServiceTotal),
        }
    }

    /// Returns the accounts per client across all services.
    pub fn clients(&self) -> Arc<Accounts> {
        Arc::clone(&self.all.client)
    }

    /// Counts a packet of `bytes` bytes for `peer`.
    ///
    /// # Errors
    /// A limit has been reached. The error is the time after which to retry. A refused packet may count
    /// against other limits.
    pub fn take(&self, peer: IpAddr, bytes: usize, now: SteadyTime) -> Result<(), Span> {
        let client = ClientAddress::within(peer, self.all.client_bits);
        let everyone = ClientAddress::of(Ipv4Addr::UNSPECIFIED.into());
        self.all.client.take(client, bytes, now)?;
        let accounts =
            [(&self.client, client), (&self.total, everyone), (&self.all.total, everyone)].into_iter();
        for (accounts, whose) in accounts {
            if let Some(accounts) = accounts {
                accounts.take(whose, bytes, now)?;
            }
        }
        Ok(())
    }
}
