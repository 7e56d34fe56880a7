//! TLS for requests to `https://` addresses: rustls, with the certificate authorities of this system or of a file, or a pinned
//! certificate.

use super::{ByteStream, PostError};
use crate::handshake::{HandshakeSignatures, WrongDates};
use crate::identity::{Fingerprint, Identity};
use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, OtherError, RootCertStore,
    SignatureScheme, WantsVerifier,
};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Trusted certificate authorities; loading them takes a while.
#[derive(Clone)]
pub(crate) struct Trusted(Arc<ClientConfig>);

impl Trusted {
    /// Loads the authorities in `ca_file`, or those of this system if it is `None`. `own` is shown to a server that asks for a
    /// certificate.
    pub(crate) fn new(ca_file: Option<&Path>, own: Option<&Identity>) -> Result<Trusted, PostError> {
        let roots = match ca_file {
            Some(file) => {
                let failed =
                    |e: &dyn std::fmt::Display| PostError::Authorities(format!("{}: {e}", file.display()));
                let contents = std::fs::read(file).map_err(|e| failed(&e))?;
                authorities(&contents).map_err(|why| failed(&why))?
            }
            None => {
                let mut roots = RootCertStore::empty();
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let why = found.errors.first().map(|e| format!(": {e}")).unwrap_or_default();
                    return Err(PostError::Authorities(format!(
                        "this system has none: install the package ca-certificates{why}"
                    )));
                }
                roots
            }
        };
        Trusted::with(|builder| builder.with_root_certificates(roots), own)
    }

    /// Trusts only the certificate with this fingerprint, whatever its names and dates. `own` is shown to a server that asks for a
    /// certificate.
    pub(crate) fn pinned(pin: Fingerprint, own: Option<&Identity>) -> Result<Trusted, PostError> {
        let verifier = Arc::new(PinVerifier { pin, signatures: HandshakeSignatures::new() });
        Trusted::with(|builder| builder.dangerous().with_custom_certificate_verifier(verifier), own)
    }

    fn with(
        trust: impl FnOnce(
            ConfigBuilder<ClientConfig, WantsVerifier>,
        ) -> ConfigBuilder<ClientConfig, WantsClientCert>,
        own: Option<&Identity>,
    ) -> Result<Trusted, PostError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = trust(builder.map_err(|e| PostError::Failed(e.to_string()))?);
        let config = match own {
            Some(own) => builder.with_client_cert_resolver(own.shown()),
            None => builder.with_no_client_auth(),
        };
        Ok(Trusted(Arc::new(config)))
    }

    /// Encrypts a connection to `host`, which must have a valid certificate.
    pub(crate) async fn secure(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<impl ByteStream + use<>, PostError> {
        let failed = |e: &dyn std::fmt::Display| PostError::Failed(e.to_string());
        let name = ServerName::try_from(host.to_owned()).map_err(|e| failed(&e))?;
        let connected = TlsConnector::from(self.0.clone()).connect(name, stream).await;
        connected.map_err(|e| PostError::Untrusted(why(&e)))
    }
}

/// Returns the certificate authorities in the contents of a file (PEM).
///
/// # Errors
/// Description of the fault.
pub(crate) fn authorities(contents: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(contents) {
        let certificate = certificate.map_err(|e| e.to_string())?;
        roots.add(certificate).map_err(|e| e.to_string())?;
    }
    if roots.is_empty() {
        return Err("it contains no certificate (PEM)".to_owned());
    }
    Ok(roots)
}

/// The certificate's fingerprint differs from the pinned one.
#[derive(Debug, thiserror::Error)]
#[error(
    "its certificate has the fingerprint {found}, not the pinned one: if the collector has a new certificate, write pin = \"{found}\""
)]
struct OtherCertificate {
    found: Fingerprint,
}

/// Verifier that accepts only the certificate with the pinned fingerprint.
#[derive(Debug)]
struct PinVerifier {
    pin: Fingerprint,
    signatures: HandshakeSignatures,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = Fingerprint::of(end_entity);
        if found == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        let other = OtherError(Arc::new(OtherCertificate { found }));
        Err(CertificateError::Other(other).into())
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

/// Describes why a connection is not trusted.
fn why(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(problem)) => match problem {
            _ if WrongDates::of(problem) == Some(WrongDates::Expired) => {
                "its certificate has expired".to_owned()
            }
            _ if WrongDates::of(problem) == Some(WrongDates::NotYetValid) => {
                "its certificate is not valid yet: check this host's clock".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name: check the address".to_owned()
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is from an unknown authority: set ca-file, or --fetch-ca-file, to the authority's certificate"
                    .to_owned()
            }
            CertificateError::Other(other) => other.to_string(),
            other => format!("its certificate is refused: {other}"),
        },
        Some(other) => format!("the TLS handshake failed: {other}"),
        None => format!("the TLS handshake failed: {error}"),
    }
}
