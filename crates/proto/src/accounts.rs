//! [`Accounts`]: counts the recent packets and bytes of each client, over all services, ports and sessions.
//!
//! The threads of a server share the accounts without locks. The memory is constant: clients that hash to the same
//! account share its limits.

use crate::access::ClientAddress;
use jitlat_core::{Span, SteadyTime};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Limits of one client or of one connection. The default is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Maximum number of packets per second.
    pub packets_per_second: u32,
    /// Maximum number of bytes per second.
    pub bytes_per_second: u64,
}

impl ClientLimits {
    /// No limit: more than any network carries.
    pub const UNLIMITED: ClientLimits =
        ClientLimits { packets_per_second: u32::MAX, bytes_per_second: u64::MAX };
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits::UNLIMITED
    }
}

/// Number of accounts.
const MAX_ACCOUNTS: u64 = 4096;

/// Limits packets and bytes of each [`ClientAddress`]: at most a tenth of the rate plus one packet in every
/// window of 100 ms, and the rate over longer times. `now` may go back only slightly, by as much as the clock
/// readings of several threads differ.
///
/// ```
/// use jitlat_core::SteadyTime;
/// use jitlat_proto::access::ClientAddress;
/// use jitlat_proto::accounts::{ClientLimits, Accounts};
///
/// let accounts = Accounts::new(ClientLimits { packets_per_second: 10, bytes_per_second: 1_000_000 }, 42);
/// let client = ClientAddress::of("192.0.2.1".parse()?);
/// let at = |ms: i64| SteadyTime(ms * 1_000_000);
/// assert_eq!(accounts.take(client, 100, at(0)), Ok(()));
/// assert_eq!(accounts.take(client, 100, at(0)), Ok(()));
/// assert!(accounts.take(client, 100, at(90)).is_err());
/// assert_eq!(accounts.take(client, 100, at(110)), Ok(()));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug)]
pub struct Accounts {
    rates: AccountRates,
    accounts: Box<[Account]>,
    seed: u64,
    /// True if no limit is set, so that packets need not be counted.
    is_unlimited: bool,
}

/// Limits the packets and bytes of one connection. [`Accounts`] does the same for each client.
#[derive(Debug)]
pub struct Allowance {
    rates: AccountRates,
    account: Account,
}

impl Allowance {
    /// Creates an allowance without any use so far.
    pub fn new(limits: ClientLimits) -> Allowance {
        Allowance { rates: AccountRates::new(limits), account: Account::new() }
    }

    /// Counts one more packet of `bytes` bytes.
    ///
    /// # Errors
    /// See [`Accounts::take`].
    pub fn take(&self, bytes: usize, now: SteadyTime) -> Result<(), Span> {
        self.account.take(&self.rates, bytes, now)
    }
}

/// Recent packets and bytes of one client.
#[derive(Debug)]
struct Account {
    packets: Meter,
    bytes: Meter,
}

impl Account {
    fn new() -> Account {
        Account { packets: Meter::new(), bytes: Meter::new() }
    }

    fn take(&self, rates: &AccountRates, bytes: usize, now: SteadyTime) -> Result<(), Span> {
        self.packets.take(&rates.packets, 1, now)?;
        let taken = self.bytes.take(&rates.bytes, bytes as u64, now);
        if taken.is_err() {
            self.packets.give_back(&rates.packets, 1, now);
        }
        taken
    }
}

impl Accounts {
    /// Creates empty accounts. `seed` must be random, so that an attacker cannot predict which clients share
    /// an account.
    pub fn new(limits: ClientLimits, seed: u64) -> Accounts {
        let accounts = (0..MAX_ACCOUNTS).map(|_| Account::new()).collect();
        let is_unlimited = limits == ClientLimits::UNLIMITED;
        Accounts { rates: AccountRates::new(limits), accounts, seed, is_unlimited }
    }

    /// Counts one more packet of `bytes` bytes served to `client`.
    ///
    /// # Errors
    /// The client has reached its limit, and nothing was counted. The error is the time after which a retry
    /// may succeed.
    pub fn take(&self, client: ClientAddress, bytes: usize, now: SteadyTime) -> Result<(), Span> {
        if self.is_unlimited {
            return Ok(());
        }
        let mut hasher = DefaultHasher::new();
        // Without the seed, an attacker could choose addresses that share an account with a victim.
        (self.seed, client).hash(&mut hasher);
        self.accounts[(hasher.finish() % MAX_ACCOUNTS) as usize].take(&self.rates, bytes, now)
    }
}

#[derive(Debug)]
struct AccountRates {
    packets: UnitRate,
    bytes: UnitRate,
}

impl AccountRates {
    fn new(limits: ClientLimits) -> AccountRates {
        AccountRates {
            packets: UnitRate::new(limits.packets_per_second.into()),
            bytes: UnitRate::new(limits.bytes_per_second),
        }
    }
}

/// A limit in units (packets or bytes) per second.
#[derive(Debug)]
struct UnitRate {
    /// Picoseconds between units.
    gap: i64,
    /// Units allowed per [`WINDOW`], in addition to those of one packet.
    window: u64,
}

/// Length of the window to which the limit applies, in ns.
const WINDOW: i64 = 100_000_000;
/// Number of slots per window: more slots enforce the limit more closely, but take more memory.
const SLOTS: i64 = 16;

impl UnitRate {
    fn new(per_second: u64) -> UnitRate {
        let per_second = per_second.clamp(1, 1_000_000_000_000);
        UnitRate { gap: 1_000_000_000_000 / per_second as i64, window: per_second.div_ceil(10) }
    }

    /// Returns the time that `units` take at this rate, in ns.
    fn span(&self, units: u64) -> i64 {
        match i64::try_from(units).ok().and_then(|units| self.gap.checked_mul(units)) {
            Some(picoseconds) => picoseconds / 1000,
            None => (i128::from(self.gap) * i128::from(units) / 1000).min(i64::MAX.into()) as i64,
        }
    }
}

/// Units taken from one account. Any window of 100 ms lies within 17 adjacent slots of 1/16 of its length, so
/// if these slots do not exceed the limit, the window does not exceed it either.
#[derive(Debug)]
struct Meter {
    /// For each slot: its number modulo 2^32 in the high half, its units in the low half.
    slots: [AtomicU64; SLOTS as usize + 1],
    /// Time on the steady clock at which the units taken so far are used up at the configured rate, in ns.
    used_up: AtomicI64,
}

/// Returns the slot number of `now`, from 0 to 2^32 - 1.
fn slot_number(now: SteadyTime) -> u64 {
    now.0.div_euclid(WINDOW / SLOTS) as u64 & 0xffff_ffff
}

/// Returns the number of slots by which `a` is ahead of `b`; negative if it is behind.
fn ahead(a: u64, b: u64) -> i32 {
    (a as u32).wrapping_sub(b as u32) as i32
}

impl Meter {
    fn new() -> Meter {
        Meter { slots: Default::default(), used_up: AtomicI64::new(i64::MIN) }
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.slots[(number % self.slots.len() as u64) as usize]
    }

    /// Returns the units in the 17 slots that end with `number`, or with a later slot if another thread is
    /// ahead.
    fn held(&self, number: u64) -> u64 {
        let slots = self.slots.iter().map(|s| s.load(Relaxed));
        let recent = |slot: &u64| ahead(slot >> 32, number).abs() <= SLOTS as i32;
        slots.filter(recent).map(|slot| slot & 0xffff_ffff).sum()
    }

    /// Counts `units`, or returns the time to wait. Counts first and checks afterwards: threads that do so at
    /// the same time may all be refused, but never exceed the limit together.
    fn take(&self, rate: &UnitRate, units: u64, now: SteadyTime) -> Result<(), Span> {
        if units == 0 {
            return Ok(());
        }
        let number = slot_number(now);
        let add = |slot: u64| {
            let (held_by, before) = (slot >> 32, slot & 0xffff_ffff);
            let kept = ahead(held_by, number) >= 0;
            let (number, before) = if kept { (held_by, before) } else { (number, 0) };
            Some(number << 32 | (before + units).min(0xffff_ffff))
        };
        let _ = self.slot(number).fetch_update(Relaxed, Relaxed, add);
        // One packet above the limit is allowed. Otherwise packets at exactly the rate would sometimes be
        // refused.
        if self.held(number) > rate.window + units {
            self.remove(units, number);
            return Err(Span(WINDOW / SLOTS - now.0.rem_euclid(WINDOW / SLOTS)));
        }
        // Credit of an idle client: one window, or the time of this packet, so that a large packet after a pause
        // leaves no debt.
        let longest = WINDOW.max(rate.span(units));
        let used = self.used_up.fetch_update(Relaxed, Relaxed, |used_up| {
            let from = used_up.max(now.0.saturating_sub(longest));
            (from <= now.0).then(|| from.saturating_add(rate.span(units)))
        });
        let refused = |used_up| {
            self.remove(units, number);
            SteadyTime(used_up) - now
        };
        used.map(drop).map_err(refused)
    }

    /// Reverts [`take`](Self::take) with the same `now`.
    fn give_back(&self, rate: &UnitRate, units: u64, now: SteadyTime) {
        self.remove(units, slot_number(now));
        self.used_up.fetch_sub(rate.span(units), Relaxed);
    }

    fn remove(&self, units: u64, number: u64) {
        let subtract = |slot: u64| {
            let left = (slot & 0xffff_ffff).saturating_sub(units);
            (ahead(slot >> 32, number) >= 0).then_some(slot & !0xffff_ffff | left)
        };
        let _ = self.slot(number).fetch_update(Relaxed, Relaxed, subtract);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;
    const PLENTY: u64 = 1_000_000_000_000;

    fn accounts(packets_per_second: u32, bytes_per_second: u64) -> Accounts {
        Accounts::new(ClientLimits { packets_per_second, bytes_per_second }, 42)
    }

    fn client() -> ClientAddress {
        ClientAddress::of("192.0.2.1".parse().unwrap())
    }

    fn takes(accounts: &Accounts, bytes: usize, at: i64) -> bool {
        accounts.take(client(), bytes, SteadyTime(at)).is_ok()
    }

    #[test]
    fn a_refusal_says_when_the_next_slot_begins() {
        let accounts = accounts(10, PLENTY);
        let slot = WINDOW / SLOTS;
        let wait =
            |at: i64| (0..10).find_map(|_| accounts.take(client(), 100, SteadyTime(at)).err()).unwrap();
        let at = 1000 * WINDOW + slot / 4;
        assert_eq!(wait(at), Span(slot - slot / 4));
        assert_eq!(wait(at + slot / 2), Span(slot - slot / 4 - slot / 2));
    }

    /// Returns the most units granted within any 100 ms.
    fn most(granted: &[(i64, u64)]) -> u64 {
        let in_window = |&(start, _): &(i64, u64)| {
            let within = granted.iter().filter(|(at, _)| (start..start + WINDOW).contains(at));
            within.map(|(_, units)| units).sum()
        };
        granted.iter().map(in_window).max().unwrap_or(0)
    }

    #[test]
    fn a_flood_is_granted_the_rate() {
        for rate in [10u32, 1000, 30_000] {
            let accounts = accounts(rate, PLENTY);
            let times = (0..200_000i64).map(|k| k * 10_000);
            let granted: Vec<_> = times.filter(|at| takes(&accounts, 100, *at)).collect();
            let count = granted.len() as u32;
            assert!((rate * 18 / 10..=2 * rate + 2).contains(&count), "{count} of {rate}/s in 2 s");
        }
    }

    #[test]
    fn packets_at_the_rate_all_pass_though_none_is_in_time() {
        for (rate, jitter) in [(10i64, 60 * MS), (100, 6 * MS), (1000, 5 * MS), (50_000, MS)] {
            let (accounts, gap) = (accounts(rate as u32, PLENTY), 1_000_000_000 / rate);
            // At the highest rates, up to 1 in 17 packets is refused. At half of such a rate, all pass,
            // regardless of their times.
            let gap = if rate > 100 { 2 * gap } else { gap };
            let mut times: Vec<i64> = (0..1000).map(|k| k * gap + k * 7919 * 7919 % jitter).collect();
            times.sort_unstable();
            let refused = times.iter().filter(|at| !takes(&accounts, 100, **at)).count();
            assert!(refused <= 20, "{refused} of 1000 refused at {rate}/s");
        }
    }

    #[test]
    fn bytes_are_limited_too_and_a_refused_packet_costs_nothing() {
        let accounts = accounts(1000, 100_000);
        let mut granted = Vec::new();
        for k in 0..10_000i64 {
            let at = SteadyTime(k * MS / 10);
            if accounts.take(client(), 1000, at).is_ok() {
                granted.push((at.0, 1000));
            }
        }
        assert!(most(&granted) <= 11_000, "{}", most(&granted));
        assert!((90..=112).contains(&granted.len()), "{} kB in a second", granted.len());
        // Packets that are refused because of their bytes do not count against the packet rate.
        assert!((0..100).filter(|_| takes(&accounts, 0, 1000 * MS)).count() >= 85);
    }

    #[test]
    fn a_packet_larger_than_the_allowance_of_a_window_passes_and_is_paid_for() {
        let accounts = accounts(1000, 1000);
        let granted = (0..100).filter(|s| takes(&accounts, 5000, s * 1000 * MS)).count();
        assert!((20..=21).contains(&granted), "{granted} of 5000 bytes in 100 s");
    }

    #[test]
    fn others_have_their_own() {
        for seed in [0, 42, u64::MAX] {
            let limits = ClientLimits { packets_per_second: 1, bytes_per_second: PLENTY };
            let accounts = Accounts::new(limits, seed);
            let v4 = (0..200u32).map(|k| IpAddr::from((0xc000_0200 + k).to_be_bytes()));
            let v6 = (0..200u128).map(|k| IpAddr::from(((0x2001_0db8 << 96) + (k << 64)).to_be_bytes()));
            // An account allows two packets at once. If a client finds both taken, it shares the account with
            // another client.
            let shared = v4.chain(v6).map(ClientAddress::of).filter(|c| {
                let now = SteadyTime(1000 * MS);
                accounts.take(*c, 1, now).and_then(|()| accounts.take(*c, 1, now)).is_err()
            });
            assert!(shared.count() < 60, "{seed}");
        }
    }

    #[test]
    fn threads_together_are_granted_no_more() {
        let accounts = accounts(100_000, PLENTY);
        let clock = AtomicI64::new(0);
        let granted: usize = std::thread::scope(|scope| {
            let attempts =
                || (0..50_000).filter(|_| takes(&accounts, 1, clock.fetch_add(250, Relaxed))).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(attempts)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert!((4000..=10_001).contains(&granted), "{granted} in 50 ms");
    }

    proptest! {
        #[test]
        fn the_limit_holds_in_every_window(
            rate in 1u32..100_000,
            packets in proptest::collection::vec((0i64..30_000_000, 1u8..40), 1..200),
        ) {
            let accounts = accounts(rate, PLENTY);
            let (mut now, mut granted) = (0, Vec::new());
            for (gap, burst) in packets {
                now += gap;
                let burst = (0..burst).filter(|_| takes(&accounts, 100, now)).count();
                granted.push((now, burst as u64));
            }
            prop_assert!(most(&granted) <= u64::from(rate).div_ceil(10) + 1);
        }
    }
}
