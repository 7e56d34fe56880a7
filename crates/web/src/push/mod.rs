//! Pushes of tests over HTTP: [`PushSettings`] for the collector's side, [`PushClient`] for a host that pushes. Specification:
//! `docs/protocols/push.md`.
//!
//! * `routes` – requests of hosts with a token or a certificate; `certificates` – hosts by certificates; `body` – the body of a request, read where blocking is allowed
//! * `client` – a connection to a collector

mod body;
mod certificates;
mod client;
mod routes;

pub use certificates::HostAuthorities;
pub use client::{PushClient, PushCredential, PushFailure, PushTarget, PushTrust};
pub(crate) use routes::{MAX_BODIES, PushState, router};

use crate::identity::{Fingerprint, Identity};
use crate::token::Token;
use jitlat_archive::SharedMessage;
use jitlat_core::Span;
use jitlat_core::prefix::Prefix;
use jitlat_proto::push::answer::{Offers, PartAnswers};
use std::fmt;
use std::io::BufRead;
use std::net::SocketAddr;
use std::sync::Arc;

/// Storage for the tests of all hosts. The methods may block.
pub trait Shelf: Send + Sync + fmt::Debug {
    /// Records the state of `host`, and returns the offered tests that are stored already.
    ///
    /// # Errors
    /// [`NotNow`].
    fn offered(&self, host: &str, offers: &Offers) -> Result<Vec<String>, NotNow>;

    /// Returns for each message of `host`, another judge of the same tests, true if it was sent from here.
    ///
    /// # Errors
    /// [`NotNow`].
    fn sent(&self, host: &str, messages: &[SharedMessage]) -> Result<Vec<bool>, NotNow>;

    /// Records that `host`, another judge of the same tests, has sent these messages.
    ///
    /// # Errors
    /// [`NotNow`].
    fn record_sent(&self, host: &str, messages: &[SharedMessage]) -> Result<(), NotNow>;

    /// Stores the tests that `host` sends in a body, or `only` the one with this name; a body that begins with another
    /// test is refused. Every test that was read has an answer.
    fn receive(&self, host: &str, body: &mut dyn BufRead, only: Option<&str>) -> PartAnswers;
}

/// Reason why nothing can be stored now, and the time that a host should wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotNow {
    /// Reason, for the host.
    pub why: String,
    /// Time to wait.
    pub wait: Span,
}

/// Proof by which a collector recognises a host. A host has one kind: its token proves nothing if it has a certificate.
#[derive(Clone, Debug)]
pub enum HostProof {
    /// A token.
    Token(Token),
    /// A certificate with one of these fingerprints, within its dates.
    Pinned(Vec<Fingerprint>),
    /// A valid certificate, signed by one of [`PushSettings::authorities`], that names this host and no other host.
    Named,
}

/// Settings of a collector.
#[derive(Clone, Debug)]
pub struct PushSettings {
    /// Addresses to listen on; with port 0 the system chooses a port.
    pub listen: Vec<SocketAddr>,
    /// Certificate; `None`: hosts connect without TLS.
    pub identity: Option<Identity>,
    /// Names of the hosts that may push, each with the proof by which its requests are recognised.
    pub hosts: Vec<(String, HostProof)>,
    /// Authorities that sign certificates of hosts; `None`: certificates are pinned, or hosts have tokens.
    pub authorities: Option<HostAuthorities>,
    /// Networks of proxies, whose requests name their clients (`X-Forwarded-For`); empty: hosts connect directly.
    pub proxies: Vec<Prefix>,
    /// Storage for the tests.
    pub shelf: Arc<dyn Shelf>,
}
