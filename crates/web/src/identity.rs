//! [`Identity`]: certificate and private key of a server that listens over TLS, from a file or self-made, or of a host that pushes;
//! [`Fingerprint`]: checksum of a certificate, which the other side can pin.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// SHA-256 of a certificate (DER).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        Fingerprint(Sha256::digest(certificate.as_ref()).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write the fingerprint that the server prints at its start: sha256: and 64 hexadecimal digits")]
pub struct UnfitFingerprint;

impl FromStr for Fingerprint {
    type Err = UnfitFingerprint;

    /// Accepts digits in upper case and colons between bytes, as `openssl x509 -fingerprint` prints them.
    fn from_str(text: &str) -> Result<Fingerprint, UnfitFingerprint> {
        let digits = text.trim().strip_prefix("sha256:").ok_or(UnfitFingerprint)?;
        let digits: Vec<u8> = digits.bytes().filter(|b| *b != b':').collect();
        let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8).ok_or(UnfitFingerprint);
        let bytes = digits.chunks(2).map(|pair| match pair {
            [a, b] => Ok(digit(*a)? << 4 | digit(*b)?),
            _ => Err(UnfitFingerprint),
        });
        let bytes = bytes.collect::<Result<Vec<u8>, _>>()?;
        bytes.try_into().map(Fingerprint).map_err(|_| UnfitFingerprint)
    }
}

/// Reason why a server has no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file cannot be read or written.
    #[error("the certificate {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file does not contain a certificate and its private key.
    #[error("the certificate {}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Description of the fault.
        problem: String,
    },
    /// A host's name cannot be in a certificate.
    #[error(
        "'{0}' cannot be a name in a certificate: write the fingerprint of the certificate instead (pin)"
    )]
    Name(String),
    /// Two hosts have the same certificate.
    #[error("{0} and {1} have the same certificate, so each could push as the other: give each host its own")]
    Shared(String, String),
    /// No certificate could be made, or TLS cannot use it.
    #[error("making a certificate: {0}")]
    Make(String),
}

/// Certificate and private key of a server, or of a host that pushes.
#[derive(Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.fingerprint).finish()
    }
}

impl Identity {
    /// Reads a chain of certificates and its private key from `contents` of the file at `path` (PEM).
    ///
    /// # Errors
    /// [`IdentityError::Content`].
    pub fn of_file_contents(path: &Path, contents: &[u8]) -> Result<Identity, IdentityError> {
        let wrong = |problem: String| IdentityError::Content { path: path.to_owned(), problem };
        let chain = CertificateDer::pem_slice_iter(contents).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|e| wrong(e.to_string()))?;
        let Some(first) = chain.first() else {
            return Err(wrong("it contains no certificate (PEM)".to_owned()));
        };
        let fingerprint = Fingerprint::of(first);
        let key = PrivateKeyDer::from_pem_slice(contents)
            .map_err(|_| wrong("it contains no private key (PEM): append the key to the file".to_owned()))?;
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(chain, key, &provider).map_err(|e| wrong(e.to_string()))?;
        Ok(Identity { certified: Arc::new(certified), fingerprint })
    }

    /// Reads the certificate and its key in the file at `path`. If the file does not exist, first makes a self-signed
    /// certificate for `names`, in a file that only this user can read. The second part of the result is true if the
    /// certificate is new.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn made(path: &Path, names: &[String]) -> Result<(Identity, bool), IdentityError> {
        let failed = |source| IdentityError::File { path: path.to_owned(), source };
        match fs::read(path) {
            Ok(contents) => return Ok((Identity::of_file_contents(path, &contents)?, false)),
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
            Err(_) => {}
        }
        let contents = make(names)?;
        // The new file is renamed last, so that after an interruption the one at `path` is either complete or absent.
        let new = path.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(failed)?;
        file.write_all(contents.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&new, path).map_err(failed)?;
        Ok((Identity::of_file_contents(path, contents.as_bytes())?, true))
    }

    /// Fingerprint of the certificate, for clients that pin it.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the settings of a server with this certificate, which requests certificates from clients if `verifier` is given.
    pub(crate) fn server(
        &self,
        verifier: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<Arc<ServerConfig>, IdentityError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|e| IdentityError::Make(e.to_string()))?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        Ok(Arc::new(builder.with_cert_resolver(self.shown())))
    }

    /// Returns the certificate as it is shown to the other side of a connection.
    pub(crate) fn shown(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(self.certified.clone()))
    }
}

/// Makes a certificate for `names` and its private key, in PEM.
fn make(names: &[String]) -> Result<String, IdentityError> {
    let failed = |e: rcgen::Error| IdentityError::Make(e.to_string());
    let key = rcgen::KeyPair::generate().map_err(failed)?;
    let certificate = rcgen::CertificateParams::new(names).map_err(failed)?;
    let certificate = certificate.self_signed(&key).map_err(failed)?;
    let key: PrivateKeyDer<'_> = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    Ok(pem("CERTIFICATE", certificate.der()) + &pem("PRIVATE KEY", key.secret_der()))
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<String> =
        text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_certificate_is_made_once_and_only_its_user_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certificate.pem");
        let names = ["collector.example".to_owned(), "192.0.2.7".to_owned()];
        let (first, new) = Identity::made(&path, &names).unwrap();
        let (again, anew) = Identity::made(&path, &names).unwrap();
        assert!(new && !anew);
        assert_eq!(first.fingerprint(), again.fingerprint());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = first.fingerprint().to_string();
        assert_eq!(text.parse(), Ok(first.fingerprint()));
        let colons: Vec<String> =
            text.as_bytes()[7..].chunks(2).map(|b| String::from_utf8_lossy(b).to_uppercase()).collect();
        assert_eq!(format!("sha256:{}", colons.join(":")).parse(), Ok(first.fingerprint()));
        for wrong in ["", "sha256:", &text[7..], &text[..70], "sha1:00", &text.replace(':', "-")] {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(UnfitFingerprint), "{wrong}");
        }
    }

    #[test]
    fn a_file_without_key_or_certificate_is_refused_with_what_it_lacks() {
        let path = Path::new("c.pem");
        let refused = |contents: &str, why: &str| {
            let said = Identity::of_file_contents(path, contents.as_bytes()).unwrap_err().to_string();
            assert!(said.contains(why) && said.contains("c.pem"), "{said}");
        };
        refused("", "no certificate");
        let whole = make(&["x.example".to_owned()]).unwrap();
        let at = whole.find("-----BEGIN PRIVATE").unwrap();
        refused(&whole[..at], "no private key");
        let other = make(&["x.example".to_owned()]).unwrap();
        refused(&(whole[..at].to_owned() + &other[other.find("-----BEGIN PRIVATE").unwrap()..]), "");
    }
}
