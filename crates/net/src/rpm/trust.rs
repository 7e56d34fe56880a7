//! [`Trust`]: certificates that a client accepts.

use super::{ALPN, RpmError};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Certificates that a client accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Certificates of an authority that this system trusts.
    #[default]
    System,
    /// Certificates of an authority in this file (PEM), and the certificates in it.
    File(PathBuf),
    /// All certificates, including those of an attacker.
    Anyone,
}

impl Trust {
    /// Returns the TLS settings of a client: HTTP/2, without resumption, because each probe must make a full
    /// handshake.
    pub(super) fn client(&self) -> Result<Arc<ClientConfig>, RpmError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| RpmError::Authorities(e.to_string()))?;
        let mut config = match self {
            Trust::System => builder.with_root_certificates(of_system()?).with_no_client_auth(),
            Trust::File(path) => builder.with_root_certificates(of_file(path)?).with_no_client_auth(),
            Trust::Anyone => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptsAll(provider)))
                .with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

fn of_system() -> Result<RootCertStore, RpmError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|e| format!(": {e}")).unwrap_or_default();
        return Err(RpmError::Authorities(format!(
            "this system has none: install the package ca-certificates, or name a file with --ca{why}"
        )));
    }
    Ok(roots)
}

fn of_file(path: &Path) -> Result<RootCertStore, RpmError> {
    let failed = |e: &dyn std::fmt::Display| RpmError::Authorities(format!("{}: {e}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|e| failed(&e))? {
        roots.add(certificate.map_err(|e| failed(&e))?).map_err(|e| failed(&e))?;
    }
    if roots.is_empty() {
        return Err(failed(&"it contains no certificate (PEM)"));
    }
    Ok(roots)
}

/// Accepts every certificate. Signatures of the handshake are still verified.
#[derive(Debug)]
struct AcceptsAll(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptsAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Describes why a TLS handshake failed, with a remedy.
pub(super) fn explain(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(problem)) => match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired (--insecure measures nevertheless)".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: check this host's clock".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name: check the address (--insecure measures nevertheless)"
                    .to_owned()
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is from an unknown authority: name the authority's certificate with --ca \
                 FILE (--insecure measures without)"
                    .to_owned()
            }
            other => format!("its certificate is refused: {other} (--insecure measures nevertheless)"),
        },
        Some(
            Error::NoApplicationProtocol | Error::AlertReceived(AlertDescription::NoApplicationProtocol),
        ) => "it does not offer HTTP/2, which the responsiveness test requires".to_owned(),
        Some(other) => format!("the TLS handshake failed: {other}"),
        None => format!("the TLS handshake failed: {error}"),
    }
}
