//! [`ServerCertificate`]: certificate and private key of a server, from files or self-made.

use super::{ALPN, RpmError};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Certificate chain and private key of a server.
pub struct ServerCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCertificate").field("chain", &self.chain.len()).finish_non_exhaustive()
    }
}

impl ServerCertificate {
    /// Reads a chain from the file `chain` (PEM), and takes the private key from `key`, the contents of a PEM file.
    ///
    /// # Errors
    /// [`RpmError::Certificate`].
    pub fn read(chain: &Path, key: &[u8]) -> Result<ServerCertificate, RpmError> {
        let failed =
            |e: &dyn fmt::Display| RpmError::Certificate(format!("the certificate {}: {e}", chain.display()));
        let found = CertificateDer::pem_file_iter(chain).map_err(|e| failed(&e))?;
        let chain = found.collect::<Result<Vec<_>, _>>().map_err(|e| failed(&e))?;
        if chain.is_empty() {
            return Err(failed(&"the file contains no certificate (PEM)"));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|e| RpmError::Certificate(format!("the key of the certificate: {e}")))?;
        Ok(ServerCertificate { chain, key })
    }

    /// Makes a key and a certificate for `names`, signed by itself: clients only accept it with an option.
    ///
    /// # Errors
    /// [`RpmError::Certificate`] if a name is not valid.
    pub fn self_made(names: Vec<String>) -> Result<ServerCertificate, RpmError> {
        let failed = |e: rcgen::Error| RpmError::Certificate(format!("making a certificate: {e}"));
        let key = rcgen::KeyPair::generate().map_err(failed)?;
        let certificate = rcgen::CertificateParams::new(names).map_err(failed)?;
        let certificate = certificate.self_signed(&key).map_err(failed)?;
        Ok(ServerCertificate {
            chain: vec![certificate.der().clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        })
    }

    /// Returns the TLS settings of a server of responsiveness tests.
    pub(super) fn server(&self) -> Result<Arc<ServerConfig>, RpmError> {
        self.server_of(ALPN)
    }

    /// Returns the TLS settings of a server of pages.
    #[cfg(feature = "browser")]
    pub(crate) fn web_server(&self) -> Result<Arc<ServerConfig>, RpmError> {
        self.server_of(b"http/1.1")
    }

    fn server_of(&self, protocol: &[u8]) -> Result<Arc<ServerConfig>, RpmError> {
        let failed = |e: rustls::Error| RpmError::Certificate(format!("the certificate and its key: {e}"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder
            .map_err(failed)?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(failed)?;
        config.alpn_protocols = vec![protocol.to_vec()];
        // Probes must not resume sessions, so tickets would only be additional bytes.
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// Returns the certificates in PEM format, for clients that accept only them.
    #[cfg(test)]
    pub(super) fn pem(&self) -> String {
        use base64::Engine;
        let encode = |der: &CertificateDer<'_>| {
            let text = base64::engine::general_purpose::STANDARD.encode(der);
            let lines: Vec<&str> =
                text.as_bytes().chunks(64).map(|l| std::str::from_utf8(l).unwrap()).collect();
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
        };
        self.chain.iter().map(encode).collect()
    }
}
