//! [`Addresses`]: clients that have proved that they receive packets at their address. For other clients,
//! bytes received and sent are counted.
//!
//! The answer that opens a session is a few bytes longer than irtt's request. So that the server cannot be
//! used to amplify a flood, an address that may be forged gets this answer only after its requests contained
//! at least as many bytes in total.

use crate::access::ClientAddress;
use jitlat_core::{Span, SteadyTime};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum number of addresses stored. A new address replaces a stored one with the same hash.
const MAX_KNOWN: usize = 1 << 14;
/// Time for which unanswered requests are counted.
const UNANSWERED_LIFETIME: Span = Span::seconds(20);
/// Time for which a proof that a client receives packets remains valid.
const PROVEN_LIFETIME: Span = Span::seconds(600);

#[derive(Clone, Copy, Debug)]
struct Address {
    client: ClientAddress,
    last: SteadyTime,
    /// Number of bytes received in requests, minus the number sent in answers.
    unanswered: usize,
    proven: bool,
}

/// Table of known clients, of constant size.
#[derive(Debug)]
pub(super) struct Addresses {
    known: Box<[Option<Address>]>,
    seed: u64,
}

impl Addresses {
    /// Creates an empty table. `seed` must be random, so that an attacker cannot predict which clients share
    /// a slot.
    pub(super) fn new(seed: u64) -> Addresses {
        Addresses { known: vec![None; MAX_KNOWN].into(), seed }
    }

    fn slot(&mut self, client: ClientAddress) -> &mut Option<Address> {
        let mut hasher = DefaultHasher::new();
        (self.seed, client).hash(&mut hasher);
        &mut self.known[(hasher.finish() % MAX_KNOWN as u64) as usize]
    }

    /// True if a request of `received` bytes may be answered with `answer` bytes. The answer then counts as
    /// sent.
    pub(super) fn may_answer(
        &mut self,
        client: ClientAddress,
        received: usize,
        answer: usize,
        now: SteadyTime,
    ) -> bool {
        let slot = self.slot(client);
        let mut known = slot.filter(|a| a.client == client).unwrap_or(Address {
            client,
            last: now,
            unanswered: 0,
            proven: false,
        });
        let silent = now - known.last;
        if known.proven && silent <= PROVEN_LIFETIME {
            return true;
        }
        let before = if silent <= UNANSWERED_LIFETIME { known.unanswered } else { 0 };
        let credit = before + received;
        let may = answer <= credit;
        known.unanswered = if may { credit - answer } else { credit };
        (known.proven, known.last) = (false, now);
        *slot = Some(known);
        may
    }

    /// Records that the client has sent a token, which only a receiver at its address can know.
    pub(super) fn prove(&mut self, client: ClientAddress, now: SteadyTime) {
        *self.slot(client) = Some(Address { client, last: now, unanswered: 0, proven: true });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(k: u32) -> ClientAddress {
        ClientAddress::of(core::net::Ipv4Addr::from_bits(k).into())
    }

    fn at(s: i64) -> SteadyTime {
        SteadyTime(s * 1_000_000_000)
    }

    #[test]
    fn the_second_request_pays_for_the_answer_and_a_proof_for_ten_minutes() {
        let mut addresses = Addresses::new(1);
        assert!(!addresses.may_answer(client(1), 20, 30, at(0)));
        assert!(!addresses.may_answer(client(2), 20, 30, at(0)), "another's requests do not count");
        assert!(addresses.may_answer(client(1), 20, 30, at(1)));
        assert!(addresses.may_answer(client(1), 20, 30, at(2)), "ten bytes were left");
        assert!(!addresses.may_answer(client(1), 20, 30, at(3)));
        assert!(!addresses.may_answer(client(1), 20, 30, at(24)), "a request of long ago does not count");
        addresses.prove(client(1), at(30));
        assert!((31..630).all(|s| addresses.may_answer(client(1), 20, 30, at(s))));
        assert!(!addresses.may_answer(client(1), 20, 30, at(631)));
        assert!(addresses.may_answer(client(3), 30, 30, at(0)), "no more than was asked with");
    }

    proptest! {
        #[test]
        fn an_address_without_proof_gets_no_more_bytes_than_it_sent(
            asked in prop::collection::vec((0u32..5, 1usize..100, 1usize..100, 0i64..30), 1..100),
        ) {
            let mut addresses = Addresses::new(7);
            let (mut now, mut balance) = (0, [0i64; 5]);
            for (k, received, answer, pause) in asked {
                now += pause;
                balance[k as usize] += received as i64;
                if addresses.may_answer(client(k), received, answer, at(now)) {
                    balance[k as usize] -= answer as i64;
                }
                prop_assert!(balance[k as usize] >= 0);
            }
        }
    }
}
