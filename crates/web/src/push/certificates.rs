//! [`HostCertificates`]: hosts that a collector recognises by their TLS certificates.
//!
//! The handshake only checks that a client has the private key of its certificate. The host to which the certificate belongs is
//! determined afterwards, so that a wrong certificate is refused like a wrong token: with the reason, a delay, and a line in the log.

use super::HostProof;
use crate::client::authorities;
use crate::handshake::{HandshakeSignatures, WrongDates};
use crate::identity::{Fingerprint, IdentityError};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of certificates between that of a host and an authority. Further ones are ignored, because checking takes time.
const MAX_INTERMEDIATE: usize = 4;

/// Certificate authorities that sign the certificates of hosts.
#[derive(Clone, Debug)]
pub struct HostAuthorities(Arc<RootCertStore>);

impl HostAuthorities {
    /// Reads the authorities from `contents` of the file at `path` (PEM).
    ///
    /// # Errors
    /// [`IdentityError::Content`].
    pub fn of_file_contents(path: &Path, contents: &[u8]) -> Result<HostAuthorities, IdentityError> {
        let roots = authorities(contents);
        let wrong = |problem| IdentityError::Content { path: path.to_owned(), problem };
        Ok(HostAuthorities(Arc::new(roots.map_err(wrong)?)))
    }
}

/// Hosts with certificates.
#[derive(Debug, Default)]
pub struct HostCertificates {
    pinned: HashMap<Fingerprint, Arc<str>>,
    /// Hosts whose certificates are from an authority and contain the host's name.
    named: Vec<(ServerName<'static>, Arc<str>)>,
    authorities: Option<HostAuthorities>,
}

/// Host that the certificate of a connection belongs to, or the reason why it belongs to none.
#[derive(Clone, Debug)]
pub struct Certified(pub Result<Arc<str>, Arc<str>>);

impl HostCertificates {
    /// Creates the certificates of `hosts`.
    ///
    /// # Errors
    /// [`IdentityError::Name`], or [`IdentityError::Shared`].
    pub fn new(
        hosts: &[(String, HostProof)],
        authorities: Option<&HostAuthorities>,
    ) -> Result<HostCertificates, IdentityError> {
        let mut all = HostCertificates { authorities: authorities.cloned(), ..HostCertificates::default() };
        for (name, proof) in hosts {
            let host: Arc<str> = Arc::from(name.as_str());
            match proof {
                HostProof::Token(_) => {}
                HostProof::Pinned(pins) => {
                    for pin in pins {
                        if let Some(other) =
                            all.pinned.insert(*pin, host.clone()).filter(|other| *other != host)
                        {
                            return Err(IdentityError::Shared(other.to_string(), name.clone()));
                        }
                    }
                }
                HostProof::Named => {
                    let dns = ServerName::try_from(name.clone());
                    let dns = dns.ok().filter(|name| matches!(name, ServerName::DnsName(_)));
                    all.named.push((dns.ok_or_else(|| IdentityError::Name(name.clone()))?, host));
                }
            }
        }
        Ok(all)
    }

    /// True if no host has a certificate.
    pub fn is_empty(&self) -> bool {
        self.pinned.is_empty() && self.named.is_empty()
    }

    /// Returns the verifier that requests a certificate from each client. With `pages`, browsers connect to the same port: they offer
    /// only certificates of the authorities that the request names, so an authority without certificates is named, and browsers ask
    /// their users nothing.
    pub fn verifier(&self, pages: bool) -> Arc<dyn ClientCertVerifier> {
        let subjects = self.authorities.iter().flat_map(|authorities| authorities.0.subjects());
        let nobody = pages.then(|| DistinguishedName::in_sequence(NOBODY));
        Arc::new(AnyCertificate {
            signatures: HandshakeSignatures::new(),
            hints: subjects.chain(nobody).collect(),
        })
    }

    /// Returns the host to which the first certificate in `chain` belongs, at the time `now`.
    ///
    /// # Errors
    /// Reason why it belongs to no host; it is sent to the client.
    pub fn host(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Certified {
        Certified(self.find(chain, now).map_err(Arc::from))
    }

    fn find(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Arc<str>, String> {
        let [own, others @ ..] = chain else { return Err("the client shows no certificate".to_owned()) };
        let others = &others[..others.len().min(MAX_INTERMEDIATE)];
        let fingerprint = Fingerprint::of(own);
        if let Some(host) = self.pinned.get(&fingerprint) {
            // The pin replaces the check of the authority, but not that of the dates.
            let mut itself = RootCertStore::empty();
            let checked =
                itself.add(own.clone().into_owned()).map(|()| check(&Arc::new(itself), own, &[], now));
            return match checked.unwrap_or(Err(Error::General(String::new()))) {
                Err(Error::InvalidCertificate(problem)) if WrongDates::of(&problem).is_some() => {
                    Err(format!("the certificate {fingerprint} of {host} {}", described(&problem)))
                }
                _ => Ok(host.clone()),
            };
        }
        let unknown = || format!("this collector has no host with the certificate {fingerprint}");
        let Some(HostAuthorities(roots)) = self.authorities.as_ref().filter(|_| !self.named.is_empty())
        else {
            return Err(unknown());
        };
        check(roots, own, others, now).map_err(|e| match e {
            Error::InvalidCertificate(problem) if is_unknown(&problem) => {
                format!("{}, and none of its authorities has signed it", unknown())
            }
            Error::InvalidCertificate(problem) => {
                format!("the certificate {fingerprint} {}", described(&problem))
            }
            e => format!("the certificate {fingerprint} is refused: {e}"),
        })?;
        let parsed = ParsedCertificate::try_from(own).map_err(|e| e.to_string())?;
        let is_for = |name: &ServerName<'_>| verify_server_name(&parsed, name).is_ok();
        let mut hosts = self.named.iter().filter(|(name, _)| is_for(name));
        match (hosts.next(), hosts.next()) {
            (Some((name, host)), None) if !sibling(name).is_some_and(|other| is_for(&other)) => {
                Ok(host.clone())
            }
            (Some(_), None) => {
                Err(format!("the certificate {fingerprint} has a name with '*': each host needs its own"))
            }
            (Some((_, one)), Some((_, other))) => Err(format!(
                "the certificate {fingerprint} is for {one} and {other}: each host needs its own"
            )),
            (None, _) => Err(format!(
                "the certificate {fingerprint} names no host (DNS name in subjectAltName) that pushes here with a certificate from an authority"
            )),
        }
    }
}

/// Returns a name that differs from `name` in its first label; only a certificate with `*` is valid for both.
fn sibling(name: &ServerName<'_>) -> Option<ServerName<'static>> {
    let ServerName::DnsName(name) = name else { return None };
    let (_, domain) = name.as_ref().split_once('.')?;
    ServerName::try_from(format!("of-no-host.{domain}")).ok()
}

/// Checks the dates, the purpose, and the chain to one of `roots`.
fn check(
    roots: &Arc<RootCertStore>,
    own: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<(), Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider).build();
    let verifier = verifier.map_err(|e| Error::General(e.to_string()))?;
    verifier.verify_client_cert(own, others, now).map(drop)
}

fn is_unknown(problem: &CertificateError) -> bool {
    matches!(problem, CertificateError::UnknownIssuer | CertificateError::BadSignature)
}

fn described(problem: &CertificateError) -> String {
    match WrongDates::of(problem) {
        Some(WrongDates::Expired) => "has expired".to_owned(),
        Some(WrongDates::NotYetValid) => "is not valid yet: check the clocks of both hosts".to_owned(),
        None => format!("is refused: {problem}"),
    }
}

/// Distinguished name (the content of its sequence, DER) of an authority that has signed no certificate: CN=jitlat.
const NOBODY: &[u8] = b"\x31\x0f\x30\x0d\x06\x03\x55\x04\x03\x0c\x06jitlat";

/// Requests a certificate. Accepts every certificate whose private key the client has, and clients without a certificate.
#[derive(Debug)]
struct AnyCertificate {
    signatures: HandshakeSignatures,
    hints: Vec<DistinguishedName>,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.verify_tls12(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.verify_tls13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;
    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
    };
    use std::time::Duration;

    /// The first day of 2026.
    const NOW: u64 = 1_767_225_600;

    struct Authority {
        certificate: CertificateDer<'static>,
        issuer: Issuer<'static, KeyPair>,
    }

    fn params(names: &[&str]) -> CertificateParams {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        CertificateParams::new(names).unwrap()
    }

    impl Authority {
        fn new() -> Authority {
            let (key, mut params) = (KeyPair::generate().unwrap(), params(&[]));
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let certificate = params.self_signed(&key).unwrap().der().clone();
            Authority { certificate, issuer: Issuer::new(params, key) }
        }

        fn trusted(&self) -> HostAuthorities {
            let mut roots = RootCertStore::empty();
            roots.add(self.certificate.clone()).unwrap();
            HostAuthorities(Arc::new(roots))
        }

        fn signs(&self, params: &CertificateParams) -> CertificateDer<'static> {
            params.signed_by(&KeyPair::generate().unwrap(), &self.issuer).unwrap().der().clone()
        }
    }

    fn self_signed(params: &CertificateParams) -> CertificateDer<'static> {
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    fn found(all: &HostCertificates, certificate: &CertificateDer<'_>) -> String {
        match all.host(std::slice::from_ref(certificate), at(NOW)).0 {
            Ok(host) => host.to_string(),
            Err(why) => format!("refused: {why}"),
        }
    }

    #[test]
    fn a_certificate_of_an_authority_speaks_for_the_one_host_that_it_names() {
        let (own, other) = (Authority::new(), Authority::new());
        let names = ["berlin", "a.example.net", "b.example.net"];
        let mut hosts = names.map(|name| (name.to_owned(), HostProof::Named)).to_vec();
        hosts.push(("rome".to_owned(), HostProof::Token(Token::new("the token of rome, long enough"))));
        let all = HostCertificates::new(&hosts, Some(&own.trusted())).unwrap();
        let of = |params: &CertificateParams| found(&all, &own.signs(params));
        for (named, host) in [("berlin", "berlin"), ("BERLIN", "berlin"), ("b.example.net", "b.example.net")]
        {
            assert_eq!(of(&params(&[named, "elsewhere.example"])), host);
        }
        // A renewed certificate has another key and other dates.
        assert_eq!(of(&params(&["berlin"])), "berlin");
        let refused = |params: &CertificateParams, why: &str| {
            let said = of(params);
            assert!(said.starts_with("refused: ") && said.contains(why), "{said}, not {why}");
        };
        refused(&params(&["berlin", "a.example.net"]), "is for berlin and a.example.net");
        refused(&params(&["*.example.net"]), "each host needs its own");
        // A host that pushes with a token has no certificate, and an address or a common name does not name a host.
        for none in ["rome", "madrid", "192.0.2.1", "berlin.example.net"] {
            refused(&params(&[none]), "names no host");
        }
        refused(&params(&[]), "names no host");
        let with = |change: &dyn Fn(&mut CertificateParams)| {
            let mut params = params(&["berlin"]);
            change(&mut params);
            params
        };
        refused(&with(&|p| p.not_after = date_time_ymd(2025, 12, 31)), "has expired");
        refused(&with(&|p| p.not_before = date_time_ymd(2026, 1, 2)), "is not valid yet");
        refused(&with(&|p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]), "is refused");
        assert_eq!(
            of(&with(&|p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth])),
            "berlin"
        );
        // Self-signed, or signed by another authority with the same name.
        for foreign in [self_signed(&params(&["berlin"])), other.signs(&params(&["berlin"]))] {
            let said = found(&all, &foreign);
            assert!(said.contains("no host with the certificate"), "{said}");
        }
        let sent = all.host(&[CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])], at(NOW)).0;
        assert!(sent.is_err() && all.host(&[], at(NOW)).0.is_err());
    }

    #[test]
    fn one_wildcard_is_not_a_name_even_if_it_fits_one_host_only() {
        let own = Authority::new();
        let hosts = [("a.example.net".to_owned(), HostProof::Named)];
        let all = HostCertificates::new(&hosts, Some(&own.trusted())).unwrap();
        let said = found(&all, &own.signs(&params(&["*.example.net"])));
        assert!(said.contains("has a name with '*'"), "{said}");
        assert_eq!(found(&all, &own.signs(&params(&["a.example.net"]))), "a.example.net");
    }

    #[test]
    fn a_pinned_certificate_is_that_of_its_host_within_its_dates() {
        let own = Authority::new();
        let mut late = params(&["x"]);
        late.not_after = date_time_ymd(2025, 12, 31);
        let mut authority = params(&["x"]);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let mut old_authority = authority.clone();
        old_authority.not_after = late.not_after;
        // openssl makes self-signed certificates that may sign others.
        let good = [self_signed(&params(&["x"])), self_signed(&authority), own.signs(&params(&["madrid"]))];
        let old = [self_signed(&late), self_signed(&old_authority), own.signs(&late)];
        let pins =
            |list: &[CertificateDer<'_>]| HostProof::Pinned(list.iter().map(Fingerprint::of).collect());
        let unknown = self_signed(&params(&["berlin"]));
        let hosts = [
            ("berlin".to_owned(), pins(&[&good[..], &old[..]].concat())),
            ("madrid".to_owned(), HostProof::Named),
            ("oslo".to_owned(), pins(&[self_signed(&params(&["oslo"]))])),
        ];
        let all = HostCertificates::new(&hosts, Some(&own.trusted())).unwrap();
        for certificate in &good {
            // The pin decides, although the name in the last one is that of another host.
            assert_eq!(found(&all, certificate), "berlin");
        }
        for certificate in &old {
            let said = found(&all, certificate);
            assert!(said.contains("of berlin has expired"), "{said}");
        }
        assert!(found(&all, &unknown).contains("no host with the certificate sha256:"));
        // A host with pins is not recognised by its name.
        assert!(found(&all, &own.signs(&params(&["berlin"]))).contains("names no host"));
        let twice = [("a".to_owned(), pins(&good[..1])), ("b".to_owned(), pins(&good[..1]))];
        assert!(matches!(HostCertificates::new(&twice, None), Err(IdentityError::Shared(..))));
        let odd = [("-x".to_owned(), HostProof::Named)];
        assert!(matches!(HostCertificates::new(&odd, None), Err(IdentityError::Name(_))));
    }
}
