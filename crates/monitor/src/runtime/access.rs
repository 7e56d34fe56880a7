//! Keys of the hosts, and the server of this host.

use super::collect::ArchiveShelf;
use super::{Equipment, ServerKeys};
use crate::Model;
use crate::model::{CollectorRules, KeySource};
use crate::runtime::error::{Context, MonitorError, Result, bail};
use jitlat_instruments::serve::{CollectService, Serve, Serving};
use jitlat_net::key_file;
use jitlat_net::push::PushService;
use jitlat_proto::jitlat::{PresharedKey, PresharedKeys};
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

fn key(source: &KeySource, folder: &Path) -> Result<PresharedKey> {
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
    /// Starts the server of `host`. If the file declares this host a collector, the server adds pushed tests to `archive`.
    /// `None` if the file configures no server.
    pub fn start(
        equipment: &dyn Equipment,
        model: &Model,
        host: usize,
        folder: &Path,
        archive: Option<&Path>,
    ) -> Result<Option<RunningServer>> {
        let collector = model.collectors.iter().find(|collector| collector.host == host);
        if !model.serve.on && collector.is_none() {
            return Ok(None);
        }
        let mut serve = settings(equipment, model, host, folder).context("[serve]")?;
        if !model.serve.on {
            (serve.one_way, serve.reflectors, serve.digests) = (None, Vec::new(), None);
        }
        if let Some(rules) = collector {
            let archive = archive.context(
                "[[collector]] needs an archive for collected tests: write [archive] with a folder, or give --archive DIR",
            )?;
            serve.collect = Some(collect(model, rules, folder, archive).context("[[collector]]")?);
        }
        let serving = serve.start().context(if model.serve.on { "[serve]" } else { "[[collector]]" })?;
        serving.failure_lines().iter().for_each(|line| warn!("{line}"));
        for address in serving.one_way() {
            info!("listening on TCP {address}");
        }
        for address in serving.digests() {
            info!("serving packet digests for captures of other hosts on TCP {address}");
        }
        for address in serving.collecting() {
            info!("collecting tests on TCP {address}");
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

/// Creates the collector of this host, according to `rules`.
fn collect(model: &Model, rules: &CollectorRules, folder: &Path, archive: &Path) -> Result<CollectService> {
    let mut keys = PresharedKeys::default();
    for host in rules.from.iter().map(|k| &model.hosts[*k]) {
        // Every pushing host has a key: a file without it is rejected when it is read.
        if let Some(source) = &host.key {
            keys.add(&host.name, key(source, folder)?);
        }
    }
    let hosts = model.hosts.iter().map(|host| (host.name.clone(), host.address.clone()));
    let shelf = Arc::new(ArchiveShelf::new(archive, hosts)?);
    Ok(CollectService { port: rules.port, service: PushService { keys, shelf } })
}
