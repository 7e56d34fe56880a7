//! [`MonitorConfinement`]: privileges that a monitor gives up before it communicates with other hosts.

use super::alerts::{Commands, may_be_written, writable_part};
use super::error::{Context, MonitorError, Result, bail};
use super::run::MonitorSettings;
use crate::Model;
use crate::alert::rule::NotifyMethod;
use crate::file::OptionValue;
use crate::model::{CollectorTrust, KeySource, Readers};
use jitlat_net::confine::{CallSet, Confinement};
use jitlat_net::privilege::Capability;
use jitlat_web::DEFAULT_PORT;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tracing::{info, warn};

/// Confinement of a monitor: its user, and the program that runs the commands of its file in a separate process.
#[derive(Clone)]
pub struct MonitorConfinement {
    /// User to change to if the monitor was started as root; `None`: the owner of the archive, or `nobody` without one.
    pub user: Option<String>,
    /// Creates a command that calls [`serve_commands`](super::serve_commands) with the monitor's file and its standard input.
    pub commands: Arc<dyn Fn() -> Command + Send + Sync>,
}

impl MonitorConfinement {
    /// Starts the process for commands, if the file has any, and gives up the privileges that the monitor of `host` does not need.
    pub(super) fn apply(
        &self,
        settings: &MonitorSettings,
        model: &Model,
        host: usize,
        archive: Option<&Path>,
    ) -> Result<Commands> {
        let channels = &model.alerts.channels;
        let runs = channels.iter().any(|channel| matches!(channel.method, NotifyMethod::Command(_)));
        let commands = if runs {
            if let (Some(file), Some(archive)) = (&settings.file, archive)
                && let Some(part) = writable_part(file, model, archive)
            {
                bail!("{}", may_be_written(&part, archive));
            }
            Commands::apart((self.commands)())
                .context("starting the process that runs the commands of [[notify]]")?
        } else {
            Commands::Here
        };
        let confinement = Confinement {
            user: self.user.clone(),
            capabilities: capabilities(model, host),
            folders: archive.map(Path::to_owned).into_iter().collect(),
            readable: readable(settings.file.as_deref(), model),
            calls: CallSet::Monitor,
        };
        let confined = confinement.begin().and_then(jitlat_net::confine::Confining::complete);
        let confined = confined.map_err(|e| MonitorError::During {
            doing: "confining the monitor (--no-sandbox runs it without confinement)".to_owned(),
            source: e.into(),
        })?;
        info!("confined: {confined}");
        if !confined.missing().is_empty() {
            warn!(
                "not confined by {}: this system lacks it or does not permit it",
                confined.missing().join(", ")
            );
        }
        Ok(commands)
    }
}

/// Returns the options of tests, captures and server.
fn options(model: &Model) -> impl Iterator<Item = &(String, OptionValue)> {
    let tests = model.tests.iter().flat_map(|test| &test.work.options);
    let captures = model.captures.iter().flat_map(|capture| &capture.options);
    tests.chain(captures).chain(&model.serve.options)
}

/// Returns the capabilities that tests, captures and services of the file need.
fn capabilities(model: &Model, host: usize) -> Vec<Capability> {
    let page = model.web.as_ref().filter(|rules| rules.is_of(host));
    let page = page.map(|rules| rules.listen.1.unwrap_or(DEFAULT_PORT));
    let collector = model.collectors.iter().filter(|collector| collector.host == host).map(|c| c.port);
    let low = model.serve.on || page.into_iter().chain(collector).any(|port| (1..1024).contains(&port));
    let names = |names: &[&str]| options(model).any(|(name, _)| names.contains(&name.as_str()));
    let realtime = names(&["realtime"]);
    let list = [
        (low, Capability::NetBindService),
        // For round trips by ICMP, captures and frames.
        (true, Capability::NetRaw),
        (names(&["priority", "ac", "stamps", "pace"]), Capability::NetAdmin),
        (realtime, Capability::SysNice),
        (realtime, Capability::IpcLock),
    ];
    list.into_iter().filter(|(needed, _)| *needed).map(|(_, capability)| capability).collect()
}

/// Returns the paths that the monitor needs when it reads its file again: the folder of the file; and, of the file if
/// it is a symbolic link and of the files that it names, the folders that are elsewhere, so that the files may be
/// replaced. In a folder that must stay closed, only the file itself is readable.
fn readable(file: Option<&Path>, model: &Model) -> Vec<PathBuf> {
    let parent = file.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    let mut named: Vec<&str> = Vec::new();
    let keys = model.hosts.iter().filter_map(|host| host.key.as_ref()).chain(&model.serve.key);
    named.extend(keys.filter_map(|key| match key {
        KeySource::File(name) => Some(name.as_str()),
        KeySource::Text(_) => None,
    }));
    named.extend(model.hosts.iter().filter_map(|host| Some(host.certificate.as_ref()?.file.as_str())));
    for collector in &model.collectors {
        named.extend(collector.certificate.as_deref());
        named.extend(collector.host_ca_file.as_deref());
        if let CollectorTrust::CaFile(name) = &collector.trust {
            named.push(name);
        }
    }
    if let Some(web) = &model.web {
        named.extend(web.certificate.as_deref());
        named.extend(web.run.as_ref().and_then(|run| run.token.as_deref()));
        if let Readers::Token(name) = &web.readers {
            named.push(name);
        }
    }
    for channel in &model.alerts.channels {
        if let NotifyMethod::Webhook { ca_file: Some(name), .. } = &channel.method {
            named.push(name);
        }
    }
    for (_, value) in options(model) {
        match value {
            OptionValue::Switch(_) => {}
            OptionValue::Text(text) => named.push(text),
            OptionValue::List(list) => named.extend(list.iter().map(String::as_str)),
        }
    }
    let files = named.into_iter().map(|name| folder.join(name)).chain(file.map(Path::to_owned));
    let own = folder.canonicalize().ok().filter(|_| file.is_some());
    let mut all: Vec<PathBuf> = files.flat_map(|path| places(&path)).collect();
    all.retain(|path| own.as_ref().is_none_or(|own| !path.starts_with(own)));
    all.sort_unstable();
    all.dedup();
    if file.is_some() {
        all.insert(0, folder.to_owned());
    }
    all
}

/// Returns the paths to open so that the file at `path` is readable, also after it was replaced: its folder, and the
/// folder of the file to which it leads if it is a symbolic link. Empty if there is no such file.
fn places(path: &Path) -> Vec<PathBuf> {
    let folder_of = |path: &Path| path.parent().map(Path::to_owned);
    let Some(target) = path.canonicalize().ok().filter(|target| target.is_file()) else { return Vec::new() };
    let near = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => parent.canonicalize().ok(),
        None => std::env::current_dir().ok(),
    };
    let folders = [near, folder_of(&target)].into_iter().flatten();
    let open: Vec<PathBuf> =
        folders.filter(|folder| !CLOSED.iter().any(|c| Path::new(c).starts_with(folder))).collect();
    if open.is_empty() || !open.iter().any(|folder| target.starts_with(folder)) {
        return open.into_iter().chain([target]).collect();
    }
    open
}

/// Folders that a confined monitor never reads as a whole, nor any above them.
const CLOSED: [&str; 4] = ["/etc", "/root", "/home", "/var"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_elsewhere_are_readable_with_their_folder_however_they_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["conf", "real", "live"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::write(root.join("real/key"), "k").unwrap();
        symlink("../real/key", root.join("live/key")).unwrap();
        assert_eq!(places(&root.join("conf/../real/key")), [root.join("real"), root.join("real")]);
        assert_eq!(places(&root.join("live/key")), [root.join("live"), root.join("real")]);
        assert_eq!(places(&root.join("live/none")), Vec::<PathBuf>::new());
        // Other files of the system stay closed.
        assert_eq!(places(Path::new("/etc/passwd")), [PathBuf::from("/etc/passwd")]);
    }
}
