//! Proof that a client receives packets at its address.
//!
//! A client that supports proofs writes [`PROOF_OFFER`] into the seconds of its INIT, which LaTe sets to 0.
//! The server stores nothing. Its ACK contains the same value in the seconds and a proof in the microseconds.
//! The client repeats its INIT with that proof. Only then does the server create a session and send an ACK
//! without a time.

use crate::lamp::packet::{LampHeader, LampKind};
use core::net::{IpAddr, SocketAddr};
use hmac::{Hmac, KeyInit, Mac};
use jitlat_core::{Span, SteadyTime};
use sha2::Sha256;

/// Value of the seconds in INIT and ACK: `jitproof` in ASCII.
const PROOF_OFFER: u64 = u64::from_be_bytes(*b"jitproof");
/// Minimum lifetime of a proof; the maximum is twice as long.
const PROOF_LIFETIME: Span = Span::seconds(10);

/// Returns the INIT of session `id` with `proof`, the value in the server's ACK; 0 requests a proof.
pub(super) fn init(id: u16, seq: u16, mode: u16, proof: u64) -> LampHeader {
    LampHeader { seconds: PROOF_OFFER, micros: proof, ..LampHeader::new(LampKind::Init, id, seq, mode) }
}

/// Returns the ACK that carries `proof` to the client.
pub(super) fn ack(id: u16, proof: u64) -> LampHeader {
    LampHeader { seconds: PROOF_OFFER, micros: proof, ..LampHeader::new(LampKind::Ack, id, 0, 0) }
}

/// Returns the proof in an INIT or ACK; `None` if the sender, like LaTe, does not support proofs.
pub(super) fn of(header: &LampHeader) -> Option<u64> {
    (header.seconds == PROOF_OFFER).then_some(header.micros)
}

/// Creates and checks proofs.
#[derive(Clone, Debug)]
pub(super) struct Prover {
    secret: [u8; 32],
}

impl Prover {
    pub(super) fn new(secret: [u8; 32]) -> Prover {
        Prover { secret }
    }

    /// Returns the proof for session `id` of `client`, which is never 0.
    pub(super) fn proof(&self, client: SocketAddr, id: u16, now: SteadyTime) -> u64 {
        self.of_period(client, id, now.0.div_euclid(PROOF_LIFETIME.0))
    }

    pub(super) fn is_valid(&self, proof: u64, client: SocketAddr, id: u16, now: SteadyTime) -> bool {
        let period = now.0.div_euclid(PROOF_LIFETIME.0);
        [period, period - 1].iter().any(|p| self.of_period(client, id, *p) == proof)
    }

    fn of_period(&self, client: SocketAddr, id: u16, period: i64) -> u64 {
        let ip = match client.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.secret) else {
            unreachable!("HMAC takes keys of any length")
        };
        mac.update(&ip.octets());
        mac.update(&client.port().to_be_bytes());
        mac.update(&id.to_be_bytes());
        mac.update(&period.to_be_bytes());
        let tag: [u8; 32] = mac.finalize().into_bytes().into();
        tag.first_chunk().map_or(1, |first| u64::from_be_bytes(*first)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_client_and_id_for_a_while() {
        let prover = Prover::new([7; 32]);
        let client = "192.0.2.1:4000".parse().unwrap();
        let at = |s: i64| SteadyTime(s * 1_000_000_000);
        let proof = prover.proof(client, 7, at(15));
        for (other, id, now, valid) in [
            ("192.0.2.1:4000", 7, 15, true),
            ("[::ffff:192.0.2.1]:4000", 7, 29, true),
            ("192.0.2.1:4000", 7, 30, false),
            ("192.0.2.1:4000", 7, 9, false),
            ("192.0.2.1:4001", 7, 15, false),
            ("192.0.2.2:4000", 7, 15, false),
            ("192.0.2.1:4000", 8, 15, false),
        ] {
            let other = other.parse().unwrap();
            assert_eq!(prover.is_valid(proof, other, id, at(now)), valid, "{other} {id} {now}");
        }
        assert!(!Prover::new([8; 32]).is_valid(proof, client, 7, at(15)));
        assert!(!prover.is_valid(0, client, 7, at(15)));
    }
}
