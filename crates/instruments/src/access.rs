//! [`PolicyWithKeys`]: access policy of a server with the keys of its services, from a policy file and the caller's settings.

use crate::arguments::NamedFile;
use crate::error::Error;
use crate::ping::protocols::{irtt, stamp};
use crate::serve::{Policy, answered};
use jitlat_core::prefix::Prefix;
use jitlat_net::key_file::{self, HeldKeyFile, KeyFileError};
use jitlat_proto::jitlat::{BadKey, PresharedKey, PresharedKeys, ServerLimits};
use jitlat_proto::policy::file::{self, FileError, PolicyFile};
use jitlat_proto::policy::{DIGESTS, IRTT, ONE_WAY, SERVICES, STAMP, Service};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why an access policy cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The policy file cannot be read.
    #[error("reading the policy {}", .path.display())]
    Read {
        /// Path of the policy file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The policy file contains a mistake.
    #[error("the policy {}", .path.display())]
    Rules {
        /// Path of the policy file.
        path: PathBuf,
        /// Mistake that was found, with its line.
        source: FileError,
    },
    /// A rule names no service, or names a service that does not exist.
    #[error(transparent)]
    Unknown(#[from] FileError),
    /// A key file cannot be read, or others can read it.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// A key file contains no key.
    #[error("the key file {name}")]
    Key {
        /// Name of the key file.
        name: String,
        /// Reason why the key is not valid.
        source: BadKey,
    },
    /// A key has the wrong form for its protocol.
    #[error(transparent)]
    Protocol(#[from] Error),
    /// A rule is not possible for its service; the text gives the reason.
    #[error("{0}")]
    Refused(String),
}

/// Reads the key in a key file.
///
/// # Errors
/// [`AccessError`] if the file cannot be read, is readable by other users, or contains no key.
pub fn key(path: &Path) -> Result<PresharedKey, AccessError> {
    let file = read_key_file(path)?;
    PresharedKey::from_file_contents(&file.contents)
        .map_err(|source| AccessError::Key { name: file.name, source })
}

/// Reads a file with a key or with users. Files that other users of this host can read are refused.
///
/// # Errors
/// [`AccessError::KeyFile`].
pub fn read_key_file(path: &Path) -> Result<NamedFile, AccessError> {
    Ok(NamedFile { name: path.display().to_string(), contents: key_file::read(path)? })
}

/// Access rules requested by the caller.
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    /// File with the key that clients must have; `None`: the key in the policy, if any.
    pub key_file: Option<PathBuf>,
    /// Names of services that are served without a key although another service has one.
    pub open: Vec<String>,
    /// Hosts and networks that are served, in addition to those that the policy allows; all others are
    /// refused.
    pub allow: Vec<Prefix>,
    /// Hosts and networks that are refused even if another rule allows them.
    pub deny: Vec<Prefix>,
    /// Policy file with rules for all services; `None`: the defaults.
    pub policy: Option<PathBuf>,
}

/// An access policy with the keys of its services.
#[derive(Debug)]
pub struct PolicyWithKeys {
    /// Clients and limits of each service.
    pub policy: Policy,
    /// Keys for one-way tests.
    pub keys: PresharedKeys,
    /// Keys for packet digests.
    pub digest_keys: PresharedKeys,
    /// Files of `keys` and `digest_keys`, from which the keys can be read again.
    pub reloadable: KeySources,
    /// Key files of the other services, by the name of the protocol argument for the file.
    pub key_files: BTreeMap<String, NamedFile>,
    /// Names of all key files, for messages.
    pub files: PolicyFile,
}

impl AccessRules {
    /// Returns the policy: the defaults, overridden by the policy file, then by `options`.
    ///
    /// # Errors
    /// [`AccessError`] if a file cannot be read, or if a rule or a key is not valid.
    pub fn access(&self, options: impl FnOnce(&mut Policy)) -> Result<PolicyWithKeys, AccessError> {
        let mut file = match &self.policy {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|source| AccessError::Read { path: path.clone(), source })?;
                let file = PolicyFile::parse(&text)
                    .map_err(|source| AccessError::Rules { path: path.clone(), source })?;
                // Key files are relative to the folder of the policy file.
                let folder = path.parent().unwrap_or(Path::new(""));
                file.relative_to(&std::path::absolute(folder.join(".")).unwrap_or(folder.to_owned()))
            }
            None => PolicyFile::default(),
        };
        let mut policy = usual();
        file.apply(&mut policy, &services())?;
        options(&mut policy);
        policy.networks.allow.extend_from_slice(&self.allow);
        policy.networks.deny.extend_from_slice(&self.deny);
        for name in &self.open {
            policy.service(service(name)?).open = true;
        }
        if let Some(path) = &self.key_file {
            file.key_file = Some(std::path::absolute(path).unwrap_or(path.clone()));
        }
        let common = self.key_file.as_ref().or(file.key_file.as_ref());
        let (mut sources, mut key_files) = (KeySources::default(), BTreeMap::new());
        // A key for digests replaces the common key.
        let mut digest_key = common;
        sources.one_way.extend(common.map(|path| KeySource::open(PresharedKeys::ANY, path)).transpose()?);
        for (name, rules) in &file.services {
            let name = service(name)?;
            match name {
                ONE_WAY => sources.one_way.extend(peers(&rules.keys)?),
                DIGESTS => sources.digests.extend(peers(&rules.keys)?),
                _ if rules.keys.is_empty() => {}
                STAMP => {
                    key_files.insert(stamp::KEYS_FILE.to_owned(), keys_by_network(&rules.keys)?);
                }
                IRTT => {
                    key_files.insert(irtt::KEYS_FILE.to_owned(), irtt_keys(&rules.keys)?);
                }
                _ => {
                    return Err(AccessError::Refused(format!(
                        "services.{name}.keys: only {ONE_WAY}, {IRTT} and {DIGESTS} (by peer) and {STAMP} \
                         (by network) have such keys; the users of twamp and owamp are in their key files"
                    )));
                }
            }
            match (&rules.key_file, name) {
                (None, _) => {}
                (Some(path), ONE_WAY) => sources.one_way.push(KeySource::open(PresharedKeys::ANY, path)?),
                (Some(path), DIGESTS) => digest_key = Some(path),
                (Some(path), _) => {
                    key_files.insert(format!("{name}-key-file"), read_key_file(path)?);
                }
            }
        }
        sources.digests.extend(digest_key.map(|path| KeySource::open(PresharedKeys::ANY, path)).transpose()?);
        let (keys, digest_keys) = sources.read()?;
        Ok(PolicyWithKeys { policy, keys, digest_keys, reloadable: sources, key_files, files: file })
    }
}

/// Parses an address or a network.
///
/// # Errors
/// A message that describes valid values.
pub fn network(text: &str) -> Result<Prefix, String> {
    text.parse()
        .map_err(|()| "write an address or a network: 192.0.2.7, 192.0.2.0/24, 2001:db8::/32".to_owned())
}

/// Opens the key file of each peer.
fn peers(files: &BTreeMap<String, PathBuf>) -> Result<Vec<KeySource>, AccessError> {
    files.iter().map(|(peer, path)| KeySource::open(peer, path)).collect()
}

/// Key files of one-way tests and of digests. They stay open, so that their keys can be read again by a server that may no longer open
/// files.
#[derive(Debug, Default)]
pub struct KeySources {
    one_way: Vec<KeySource>,
    digests: Vec<KeySource>,
}

/// Key file of a peer.
#[derive(Debug)]
struct KeySource {
    peer: String,
    file: HeldKeyFile,
}

impl KeySource {
    fn open(peer: &str, path: &Path) -> Result<KeySource, AccessError> {
        Ok(KeySource { peer: peer.to_owned(), file: HeldKeyFile::open(path)? })
    }
}

impl KeySources {
    /// True if there are no files.
    pub fn is_empty(&self) -> bool {
        self.one_way.is_empty() && self.digests.is_empty()
    }

    /// Reads all files, and returns the keys for one-way tests and for digests.
    ///
    /// # Errors
    /// [`AccessError`] if a file cannot be read, was replaced by another one, is readable by other users, or contains no key.
    pub fn read(&self) -> Result<(PresharedKeys, PresharedKeys), AccessError> {
        Ok((read_keys(&self.one_way)?, read_keys(&self.digests)?))
    }
}

fn read_keys(sources: &[KeySource]) -> Result<PresharedKeys, AccessError> {
    let mut keys = PresharedKeys::default();
    for KeySource { peer, file } in sources {
        let key = PresharedKey::from_file_contents(&file.read()?)
            .map_err(|source| AccessError::Key { name: file.path().display().to_string(), source })?;
        keys.add(peer, key);
    }
    Ok(keys)
}

/// Combines the key files of IRTT peers into one.
fn irtt_keys(files: &BTreeMap<String, PathBuf>) -> Result<NamedFile, AccessError> {
    let mut contents = Vec::new();
    for (peer, path) in files {
        let file = read_key_file(path)?;
        irtt::key(&file)?;
        let key = file.contents.trim_ascii();
        if peer.is_empty() || peer.starts_with('#') || peer.contains(char::is_whitespace) {
            let why = format!("services.{IRTT}.keys: '{peer}' is not a name: write one without white space");
            return Err(AccessError::Refused(why));
        }
        if key.contains(&b'\n') {
            let why = format!("services.{IRTT}.keys: the key file {} has more than one line", file.name);
            return Err(AccessError::Refused(why));
        }
        contents.extend([peer.as_bytes(), b" ", key, b"\n"].concat());
    }
    Ok(NamedFile { name: format!("services.{IRTT}.keys"), contents })
}

/// Combines the key files of STAMP networks into one.
fn keys_by_network(files: &BTreeMap<String, PathBuf>) -> Result<NamedFile, AccessError> {
    let mut contents = Vec::new();
    for (name, path) in files {
        network(name).map_err(|why| {
            AccessError::Refused(format!("services.{STAMP}.keys: '{name}' is not a network: {why}"))
        })?;
        let key = read_key_file(path)?;
        stamp::key(&key)?;
        contents.extend([name.as_bytes(), b" ", key.contents.trim_ascii(), b"\n"].concat());
    }
    Ok(NamedFile { name: format!("services.{STAMP}.keys"), contents })
}

/// Returns the default policy, without a file and without options.
pub fn usual() -> Policy {
    let mut policy = Policy::default();
    ServerLimits::default().apply_to(&mut policy);
    policy
}

/// Returns all services, including those of protocols without specific rules.
pub fn services() -> Vec<Service> {
    let answered = answered().map(|p| p.name);
    SERVICES.iter().copied().chain(answered.filter(|name| !SERVICES.contains(name))).collect()
}

/// Finds the service called `name`.
///
/// # Errors
/// [`AccessError::Unknown`], which lists all service names.
pub fn service(name: &str) -> Result<Service, AccessError> {
    Ok(file::service(name, &services())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a key file called `name` in `folder`.
    fn key_file(folder: &Path, name: &str, contents: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(name);
        std::fs::write(&path, format!("{contents}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path
    }

    #[test]
    fn networks_have_keys_of_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let keys = |network: &str, digits: &str| {
            let file =
                keys_by_network(&[(network.to_owned(), key_file(folder.path(), digits, digits))].into())?;
            Ok::<_, AccessError>(stamp::keys(&file)?)
        };
        let read = keys("192.0.2.0/24", "0001fe").unwrap();
        assert_eq!((read.len(), read[0].0), (1, "192.0.2.0/24".parse().unwrap()));
        assert!(keys("probe-1", "0001fe").is_err() && keys("192.0.2.0/24", "secret").is_err());
    }

    #[test]
    fn peers_have_keys_of_irtt() {
        let folder = tempfile::tempdir().unwrap();
        let keys = |peer: &str, key: &str| {
            let file = irtt_keys(&[(peer.to_owned(), key_file(folder.path(), "key", key))].into())?;
            Ok::<_, AccessError>(irtt::keys_by_peer(&file)?)
        };
        let read = keys("probe-1", "two words").unwrap();
        assert_eq!(read, [("probe-1".to_owned(), jitlat_proto::irtt::IrttKey::new("two words").unwrap())]);
        assert!(keys("probe 1", "0x01").is_err() && keys("probe-1", "0x0").is_err());
        assert!(keys("probe-1", "two\nlines").is_err());
    }

    #[test]
    fn peers_have_keys_of_one_way_tests_and_digests() {
        let folder = tempfile::tempdir().unwrap();
        for (name, key) in
            [("all", "a key of all peers"), ("own", "a key of digests alone"), ("p", "a key of one peer")]
        {
            key_file(folder.path(), name, key);
        }
        let path = folder.path().join("policy");
        let access = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let args = AccessRules { policy: Some(path.clone()), ..AccessRules::default() };
            args.access(|_| ())
        };
        let names = |text: &str| {
            let access = access(text).unwrap();
            [access.keys, access.digest_keys].map(|keys| keys.names().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(names("key-file = \"all\""), ["any", "any"]);
        assert_eq!(names("[services.digests.keys]\nprobe-1 = \"p\""), ["", "probe-1"]);
        assert_eq!(
            names("key-file = \"all\"\n[services.digests.keys]\nprobe-1 = \"p\""),
            ["any", "probe-1 any"]
        );
        assert_eq!(names("[services.jitlat.keys]\nprobe-1 = \"p\""), ["probe-1", ""]);
        let with_own = access("key-file = \"all\"\n[services.digests]\nkey-file = \"own\"").unwrap();
        assert_eq!(with_own.digest_keys.names().count(), 1, "its own takes the place of that of all");
        assert_ne!(with_own.keys, with_own.digest_keys);
        assert!(
            access("[services.lamp.keys]\nprobe-1 = \"p\"")
                .unwrap_err()
                .to_string()
                .contains("services.lamp.keys")
        );
    }
}
