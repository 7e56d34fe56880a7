//! Keys of the hosts, the server of this host, and its collector.

use super::collect::{ArchiveShelf, CollectRules};
use super::{Equipment, ServerKeys};
use crate::Model;
use crate::model::KeySource;
use crate::runtime::error::{Context, MonitorError, Result, bail};
use jitlat_instruments::serve::{Serve, Serving};
use jitlat_net::key_file;
use jitlat_proto::jitlat::PresharedKey;
use jitlat_proto::push::quota::PushQuota;
use jitlat_web::{HostAuthorities, HostProof, Identity, PushSettings, Token};
use nix::unistd::gethostname;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tracing::{info, warn};

/// Returns the key with which `host` authenticates to other hosts; `None` if it has none.
pub fn own_key(model: &Model, host: usize, folder: &Path) -> Result<Option<PresharedKey>> {
    let source = model.hosts[host].key.as_ref().or(model.serve.key.as_ref());
    source.map(|source| key(source, folder)).transpose()
}

/// Returns an error if the file contains keys and other users can read it.
pub fn check_file(path: &Path, model: &Model) -> Result<()> {
    let sources = model.hosts.iter().filter_map(|h| h.key.as_ref()).chain(&model.serve.key);
    if !sources.into_iter().any(|source| matches!(source, KeySource::Text(_))) {
        return Ok(());
    }
    let name = path.display();
    let mode =
        std::fs::metadata(path).with_context(|| format!("reading {name}"))?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        bail!(
            "{name} contains keys, and other users can read or change it (mode {mode:03o}): run `chmod 600 {name}`, or use key-file"
        );
    }
    Ok(())
}

/// Reads a key.
pub fn key(source: &KeySource, folder: &Path) -> Result<PresharedKey> {
    match source {
        KeySource::File(name) => {
            let path = folder.join(name);
            let contents = key_file::read(&path)?;
            PresharedKey::from_file_contents(&contents)
                .with_context(|| format!("the key file {}", path.display()))
        }
        KeySource::Text(text) => {
            PresharedKey::from_file_contents(text.as_bytes()).context("the key in the file")
        }
    }
}

/// A server that answers the other hosts until it is dropped.
pub struct RunningServer {
    _serving: Serving,
}

impl RunningServer {
    /// Starts the server of `host`; `None` if the file configures no server.
    pub fn start(
        equipment: &dyn Equipment,
        model: &Model,
        host: usize,
        folder: &Path,
    ) -> Result<Option<RunningServer>> {
        if !model.serve.on {
            return Ok(None);
        }
        let serve = settings(equipment, model, host, folder).context("[serve]")?;
        let serving = serve.start().context("[serve]")?;
        serving.failure_lines().iter().for_each(|line| warn!("{line}"));
        for address in serving.one_way() {
            info!("listening on TCP {address}");
        }
        for address in serving.digests() {
            info!("serving packet digests for captures of other hosts on TCP {address}");
        }
        if !serving.withheld().is_empty() {
            let list = serving.withheld().join(", ");
            info!(
                "not serving {list}: a key is configured, but these services cannot check one; to serve them nevertheless, write [serve] options = {{ open = … }}"
            );
        }
        Ok(Some(RunningServer { _serving: serving }))
    }
}

/// Returns the settings of the server: those of `jitlat serve` with the options of the file, and the keys of the hosts
/// in the file.
fn settings(equipment: &dyn Equipment, model: &Model, host: usize, folder: &Path) -> Result<Serve> {
    let mut keys = ServerKeys {
        interfaces: model.far_interfaces(host).into_iter().collect(),
        common: model.serve.key.as_ref().map(|source| key(source, folder)).transpose()?,
        hosts: Vec::new(),
    };
    for (place, other) in model.hosts.iter().enumerate().filter(|(k, _)| *k != host) {
        if let Some(source) = &other.key {
            let captures = model.captures_of(place).any(|capture| capture.towards == Some(host as u32));
            keys.hosts.push((other.name.clone(), key(source, folder)?, captures));
        }
    }
    equipment.server(&model.serve.options, keys).map_err(MonitorError::Server)
}

/// Name of the file with the certificate that a collector makes, in the folder of its archive.
const CERTIFICATE: &str = "certificate.pem";

/// Creates the collector of `host`; `None` if the file declares none there.
pub fn collector(
    equipment: &dyn Equipment,
    model: &Model,
    host: usize,
    folder: &Path,
    archive: Option<&Path>,
) -> Result<Option<PushSettings>> {
    let Some(rules) = model.collectors.iter().find(|collector| collector.host == host) else {
        return Ok(None);
    };
    let archive = archive.context(
        "[[collector]] needs an archive for collected tests: write [archive] with a folder, or give --archive DIR",
    )?;
    let ips = settings(equipment, model, host, folder).context("[serve]")?.ips;
    let mut hosts = Vec::new();
    for host in rules.from.iter().map(|k| &model.hosts[*k]) {
        // Every pushing host has a certificate or a key: a file without it is rejected when it is read.
        let proof = match (&host.certificate, &host.key) {
            (Some(own), _) if own.pins.is_empty() => HostProof::Named,
            (Some(own), _) => {
                let pins = own.pins.iter().map(|pin| pin.parse());
                HostProof::Pinned(pins.collect::<std::result::Result<_, _>>().context("[[host]] pin")?)
            }
            (None, Some(source)) => {
                HostProof::Token(Token::new(&key(source, folder)?.push_token(&host.name)))
            }
            (None, None) => continue,
        };
        hosts.push((host.name.clone(), proof));
    }
    let usual = PushQuota::default();
    let quota = PushQuota {
        tests_per_second: rules.quota.tests_per_second.unwrap_or(usual.tests_per_second),
        bytes_per_day: rules.quota.bytes_per_day.unwrap_or(usual.bytes_per_day),
        bytes: rules.quota.bytes.unwrap_or(usual.bytes),
    };
    let own = &model.hosts[host];
    let collect = CollectRules {
        name: own.name.clone(),
        skew: rules.skew,
        quota,
        channels: model.alerts.channels.iter().map(|channel| channel.name.clone()).collect(),
        judges: model.alerts.rules.iter().map(|rule| (rule.name.clone(), rule.at.clone())).collect(),
    };
    let all = model.hosts.iter().map(|host| (host.name.clone(), host.address.clone()));
    Ok(Some(PushSettings {
        listen: ips.into_iter().map(|ip| SocketAddr::new(ip, rules.port)).collect(),
        identity: match rules.plain {
            true => None,
            false => Some(
                identity(rules.certificate.as_deref(), &own.address, folder, archive)
                    .context("[[collector]]")?,
            ),
        },
        hosts,
        proxies: rules.proxies.clone(),
        authorities: rules.host_ca_file.as_deref().map(|name| authorities(&folder.join(name))).transpose()?,
        shelf: Arc::new(ArchiveShelf::new(archive, all, collect)?),
    }))
}

/// Reads the authorities that sign the certificates of hosts.
fn authorities(path: &Path) -> Result<HostAuthorities> {
    let contents = std::fs::read(path)
        .with_context(|| format!("[[collector]] host-ca-file: reading {}", path.display()))?;
    HostAuthorities::of_file_contents(path, &contents).context("[[collector]] host-ca-file")
}

/// Returns the certificate of the web server at `address`: that in the file `name`, or a self-made one in the archive,
/// which is created at the first start.
pub fn identity(name: Option<&str>, address: &str, folder: &Path, archive: &Path) -> Result<Identity> {
    if let Some(name) = name {
        let path = folder.join(name);
        let contents = key_file::read(&path).context("certificate")?;
        return Identity::of_file_contents(&path, &contents).context("certificate");
    }
    let system = gethostname().ok().and_then(|name| name.into_string().ok());
    let mut names = vec![address.to_owned()];
    names.extend(system.filter(|name| !name.is_empty() && name != address));
    let path = archive.join(CERTIFICATE);
    let (identity, is_new) = Identity::made(&path, &names).context("certificate")?;
    if is_new {
        info!("made a certificate: {}", path.display());
    }
    Ok(identity)
}
