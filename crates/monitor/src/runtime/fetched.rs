//! [`FetchSource`]: keeps a monitor's file up to date from a web server. The file is taken only with a signature (minisign) of a known key.
//!
//! The signature is next to the file, on the server and here, with the ending `.minisig`. Its trusted comment has the time of signing, which
//! protects from older signed files. A monitor that finds the new file takes it up like one that was edited here.

use crate::file::{Instruments, read};
use jitlat_core::Span;
use jitlat_net::clock;
use jitlat_web::{PostError, get};
use minisign_verify::{PublicKey, Signature};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use tempfile::NamedTempFile;

/// Maximum size of a file, in bytes: a mesh of a thousand hosts takes a hundredth of it.
const MAX_FILE_BYTES: usize = 8 << 20;
/// Maximum size of a signature, in bytes.
const MAX_SIGNATURE_BYTES: usize = 4096;
/// Maximum duration of a download.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(30);
/// Ending of the name of a signature.
const ENDING: &str = ".minisig";
/// Time by which the clock of the host that signs may be ahead, in seconds.
const MAX_AHEAD_S: u64 = 24 * 3600;
/// Lines of a signature.
const SIGNATURE_LINES: usize = 4;

/// Public key of minisign.
#[derive(Clone)]
pub struct SigningKey {
    key: PublicKey,
    text: String,
}

/// Error: not a public key of minisign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a public key of minisign: give the file minisign.pub, or its second line, which begins with RW")]
pub struct UnfitKey;

impl FromStr for SigningKey {
    type Err = UnfitKey;

    /// Reads a key in base64, or the contents of a file with it.
    fn from_str(text: &str) -> Result<SigningKey, UnfitKey> {
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        let key = PublicKey::from_base64(last).map_err(|_| UnfitKey)?;
        Ok(SigningKey { key, text: last.to_owned() })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.text)
    }
}

impl fmt::Display for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Server from which a file is fetched.
#[derive(Clone, Debug)]
pub struct FetchSource {
    /// Address of the file, `https://…`.
    pub address: String,
    /// Key that signed it.
    pub key: SigningKey,
    /// File with the certificate authorities that the server's certificate may come from; `None`: those of this system.
    pub ca_file: Option<PathBuf>,
    /// Time between two attempts.
    pub every: Span,
}

/// Result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchOutcome {
    /// The file on the server is the one that is already stored here.
    Same,
    /// A new file was stored, which was signed at this time, in seconds since 1970.
    New(u64),
}

/// Reason why a file was refused. The stored file is not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The server does not answer with the file.
    #[error("fetching {address}: {source}")]
    Download {
        /// Address of the file or of its signature.
        address: String,
        /// Error of the request.
        source: PostError,
    },
    /// The file has no signature of this key.
    #[error("{address} is not signed with the key {key} ({why}): the file is not updated until it is")]
    Unsigned {
        /// Address of the file.
        address: String,
        /// The key.
        key: String,
        /// Explanation of the library.
        why: String,
    },
    /// The trusted comment has no time.
    #[error(
        "the trusted comment of {address}.minisig has no timestamp, so that an older file could replace this one: sign it without -t"
    )]
    Undated {
        /// Address of the file.
        address: String,
    },
    /// The file was signed in the future, so that no later file could replace it until then.
    #[error(
        "{address} was signed at {offered} (seconds since 1970), more than a day after the time of this host ({now}): check both clocks, and sign it again"
    )]
    Early {
        /// Address of the file.
        address: String,
        /// Time of the signature, in seconds since 1970.
        offered: u64,
        /// Time of this host, in seconds since 1970.
        now: u64,
    },
    /// The file was not signed after the stored one.
    #[error(
        "{address} was signed at {offered} (seconds since 1970), not after the file that is in use ({known}): sign it again, if it is the right one"
    )]
    Older {
        /// Address of the file.
        address: String,
        /// Time of the signature of the server's file, in seconds since 1970.
        offered: u64,
        /// Time of the signature of the stored file, in seconds since 1970.
        known: u64,
    },
    /// The file is signed, but it is not a monitor's file without faults.
    #[error("{address} has faults:\n{}", .faults.join("\n"))]
    Faulty {
        /// Address of the file.
        address: String,
        /// The faults, each with line and column.
        faults: Vec<String>,
    },
    /// The file cannot be stored.
    #[error("storing {}: {source}", path.display())]
    Store {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// The stored file, if it has a valid signature.
struct KnownFile {
    text: Vec<u8>,
    signature: String,
    signed_at: u64,
}

/// Returns the time of signing from the trusted comment, in seconds since 1970; `None` if it is missing.
fn signed_at(signature: &Signature) -> Option<u64> {
    let fields = signature.trusted_comment().split_whitespace();
    fields.filter_map(|field| field.strip_prefix("timestamp:")).next()?.parse().ok()
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ENDING);
    PathBuf::from(name)
}

/// Removes the name and the password from an address.
fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => address.to_owned(),
    }
}

/// Reads the stored file. Its signature is one of those in the file next to it; `None` if none of them is valid.
fn known(file: &Path, key: &SigningKey) -> Option<KnownFile> {
    let (text, signatures) = (fs::read(file).ok()?, fs::read_to_string(beside(file)).ok()?);
    let lines: Vec<&str> = signatures.lines().collect();
    lines.chunks_exact(SIGNATURE_LINES).find_map(|lines| {
        let signature = lines.join("\n");
        let decoded = Signature::decode(&signature).ok()?;
        key.key.verify(&text, &decoded, false).ok()?;
        Some(KnownFile { text: text.clone(), signature, signed_at: signed_at(&decoded)? })
    })
}

/// Replaces a file atomically: a reader sees either the old or the new contents.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mode = fs::metadata(path).map_or(0o644, |about| about.permissions().mode() & 0o777);
    let mut new = NamedTempFile::new_in(folder)?;
    new.write_all(contents)?;
    new.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    new.as_file().sync_all()?;
    new.persist(path).map(drop).map_err(|e| e.error)
}

impl FetchSource {
    /// Fetches the file, and stores it at `file` if it is signed, newer than the one there, and without faults.
    ///
    /// # Errors
    /// [`FetchError`]; `file` is then not changed.
    pub fn update(&self, file: &Path, instruments: &dyn Instruments) -> Result<FetchOutcome, FetchError> {
        let now = u64::try_from(clock::wall().0 / 1_000_000_000).unwrap_or(0);
        self.update_by(file, instruments, now, |address, most| {
            get(address, self.ca_file.as_deref(), DOWNLOAD_LIMIT, most)
        })
    }

    /// Returns the address for messages: without a name and a password.
    pub fn shown_address(&self) -> String {
        without_password(&self.address)
    }

    fn update_by(
        &self,
        file: &Path,
        instruments: &dyn Instruments,
        now: u64,
        get: impl Fn(&str, usize) -> Result<Vec<u8>, PostError>,
    ) -> Result<FetchOutcome, FetchError> {
        let address = self.shown_address();
        let download = |place: &str, most| {
            get(place, most)
                .map_err(|source| FetchError::Download { address: without_password(place), source })
        };
        let unsigned = |why: &dyn fmt::Display| FetchError::Unsigned {
            address: address.clone(),
            key: self.key.to_string(),
            why: why.to_string(),
        };
        let signature = download(&format!("{}{ENDING}", self.address), MAX_SIGNATURE_BYTES)?;
        let signature = String::from_utf8(signature).map_err(|_| unsigned(&"the signature is not text"))?;
        let signature = signature.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        let known = known(file, &self.key);
        if known.as_ref().is_some_and(|known| known.signature == signature) {
            return Ok(FetchOutcome::Same);
        }
        let decoded = Signature::decode(&signature).map_err(|e| unsigned(&e))?;
        let text = download(&self.address, MAX_FILE_BYTES)?;
        self.key.key.verify(&text, &decoded, false).map_err(|e| unsigned(&e))?;
        let offered = signed_at(&decoded).ok_or_else(|| FetchError::Undated { address: address.clone() })?;
        if offered > now.saturating_add(MAX_AHEAD_S) {
            return Err(FetchError::Early { address, offered, now });
        }
        if let Some(known) = &known {
            if known.text == text {
                return Ok(FetchOutcome::Same);
            }
            if offered <= known.signed_at {
                let (address, known) = (address.clone(), known.signed_at);
                return Err(FetchError::Older { address, offered, known });
            }
        }
        let faulty = |faults| FetchError::Faulty { address: address.clone(), faults };
        let readable = std::str::from_utf8(&text).map_err(|e| faulty(vec![e.to_string()]))?;
        read(readable, instruments)
            .map_err(|faults| faulty(faults.iter().map(ToString::to_string).collect()))?;
        // Until the new file is stored, the old signature stays next to the new one: after a crash, either file has a valid signature.
        let both = [Some(signature.clone()), known.map(|known| known.signature)];
        let both: String = both.into_iter().flatten().map(|signature| signature + "\n").collect();
        let store = |path: &Path, contents: &[u8]| {
            replace(path, contents).map_err(|source| FetchError::Store { path: path.to_owned(), source })
        };
        store(&beside(file), both.as_bytes())?;
        store(file, &text)?;
        store(&beside(file), format!("{signature}\n").as_bytes())?;
        Ok(FetchOutcome::New(offered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn only_signed_files_that_are_newer_and_without_faults_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mesh.toml");
        let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/monitor-signed");
        let contents = |name: &str| fs::read(made.join(name)).unwrap();
        let source = FetchSource {
            address: "https://192.0.2.1/mesh.toml".to_owned(),
            key: String::from_utf8(contents("key.pub")).unwrap().parse().unwrap(),
            ca_file: None,
            every: Span::seconds(60),
        };
        let now = std::cell::Cell::new(1_700_000_000 - MAX_AHEAD_S - 1);
        // The server offers a text with a signature, each of a file.
        let offer = |text: &str, signature: &str| {
            let files = BTreeMap::from([
                (source.address.clone(), contents(&format!("{text}.toml"))),
                (format!("{}.minisig", source.address), contents(&format!("{signature}.toml.minisig"))),
            ]);
            source.update_by(&file, &crate::runtime::fake::Simple, now.get(), |address, most| {
                let file = files[address].clone();
                if file.len() > most { Err(PostError::TooLarge(most)) } else { Ok(file) }
            })
        };
        let here = || fs::read(&file).unwrap();
        assert!(matches!(offer("one", "two"), Err(FetchError::Unsigned { .. })));
        assert!(!file.exists());
        // A file of the day after tomorrow could not be replaced until then.
        assert!(matches!(offer("one", "one"), Err(FetchError::Early { offered: 1_700_000_000, .. })));
        assert!(!file.exists());
        now.set(1_700_000_100);
        assert_eq!(offer("one", "one").unwrap(), FetchOutcome::New(1_700_000_000));
        assert_eq!(offer("one", "one").unwrap(), FetchOutcome::Same);
        assert_eq!(offer("two", "two").unwrap(), FetchOutcome::New(1_700_000_100));
        assert_eq!(here(), contents("two.toml"));
        assert!(matches!(
            offer("one", "one"),
            Err(FetchError::Older { offered: 1_700_000_000, known: 1_700_000_100, .. })
        ));
        assert!(matches!(offer("undated", "undated"), Err(FetchError::Undated { .. })));
        assert!(matches!(offer("foreign", "foreign"), Err(FetchError::Unsigned { .. })));
        assert!(matches!(offer("faulty", "one"), Err(FetchError::Unsigned { .. })));
        let Err(FetchError::Faulty { faults, .. }) = offer("faulty", "faulty") else {
            panic!("it has a fault")
        };
        assert!(faults.iter().any(|fault| fault.contains("evry")), "{faults:?}");
        assert_eq!(here(), contents("two.toml"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
        // A crash after the new signature, before the new file: the file that is here still has its own.
        let both = [contents("faulty.toml.minisig"), contents("two.toml.minisig")].concat();
        fs::write(beside(&file), both).unwrap();
        assert!(matches!(offer("one", "one"), Err(FetchError::Older { .. })));
        // A file that was changed here has no signature: the server's replaces it.
        fs::write(&file, "changed").unwrap();
        assert_eq!(offer("one", "one").unwrap(), FetchOutcome::New(1_700_000_000));
        for wrong in ["", "RW", "RWTJ/vIah8kmFa8qni", "minisign.pub"] {
            assert!(wrong.parse::<SigningKey>().is_err(), "{wrong}");
        }
    }
    #[test]
    fn messages_have_no_passwords() {
        for (address, shown) in [
            ("https://me:secret@192.0.2.1/mesh.toml", "https://192.0.2.1/mesh.toml"),
            ("https://me:s@cret@[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
            ("https://192.0.2.1/a@b", "https://192.0.2.1/a@b"),
        ] {
            assert_eq!(without_password(address), shown);
        }
    }
}
