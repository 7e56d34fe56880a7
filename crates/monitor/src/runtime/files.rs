//! Files that the monitor's file names for one host: keys, certificates, authorities and tokens.

use super::access;
use super::error::{AnyError, Context, MonitorError, explain};
use crate::Model;
use crate::alert::rule::NotifyMethod;
use crate::model::{CollectorTrust, KeySource, Readers};
use jitlat_net::key_file;
use jitlat_web::{HostAuthorities, Identity};
use std::path::Path;

/// Returns the faults of the files that a monitor on `host` would read: files that are missing or not readable, or that do not contain
/// what they should.
/// Names are relative to the folder of `file`, the monitor's file.
pub fn check_files(file: &Path, model: &Model, host: usize) -> Vec<String> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut faults = Vec::new();
    let mut check = |place: &'static str, found: Result<(), AnyError>| {
        faults.extend(found.context(place).err().map(|e: MonitorError| explain(&e)));
    };
    let own = &model.hosts[host];
    if let Some(source) = &own.key {
        check("[[host]] key-file", key(source, folder));
    }
    if let Some(own) = &own.certificate {
        check("[[host]] certificate", identity(&folder.join(&own.file)));
    }
    if let Some(source) = &model.serve.key {
        check("[serve] key-file", key(source, folder));
    }
    for collector in &model.collectors {
        if collector.host == host {
            if let Some(name) = collector.certificate.as_ref().filter(|_| !collector.plain) {
                check("[[collector]] certificate", identity(&folder.join(name)));
            }
            if let Some(name) = &collector.host_ca_file {
                check("[[collector]] host-ca-file", authorities(&folder.join(name)));
            }
        } else if let CollectorTrust::CaFile(name) = &collector.trust
            && collector.from.contains(&host)
        {
            check("[[collector]] ca-file", authorities(&folder.join(name)));
        }
    }
    // The keys with which this host recognises others.
    let collects = |other: &usize| model.collectors.iter().any(|c| c.host == host && c.from.contains(other));
    for other in (0..model.hosts.len()).filter(|other| *other != host) {
        if let Some(source) = model.hosts[other].key.as_ref().filter(|_| model.serve.on || collects(&other)) {
            check("[[host]] key-file", key(source, folder));
        }
    }
    if let Some(web) = model.web.as_ref().filter(|web| web.is_of(host)) {
        if let Some(name) = &web.certificate {
            check("[web] certificate", identity(&folder.join(name)));
        }
        let run = web.run.as_ref().and_then(|run| run.token.as_ref());
        let readers = if let Readers::Token(name) = &web.readers { Some(name) } else { None };
        for name in run.into_iter().chain(readers) {
            check("[web] token-file", key_file::read(&folder.join(name)).map(drop).map_err(AnyError::from));
        }
    }
    for channel in &model.alerts.channels {
        if let NotifyMethod::Webhook { ca_file: Some(name), .. } = &channel.method {
            check("[[notify]] ca-file", authorities(&folder.join(name)));
        }
    }
    faults
}

fn key(source: &KeySource, folder: &Path) -> Result<(), AnyError> {
    Ok(access::key(source, folder).map(drop)?)
}

fn identity(path: &Path) -> Result<(), AnyError> {
    let contents = key_file::read(path)?;
    Identity::of_file_contents(path, &contents)?;
    Ok(())
}

fn authorities(path: &Path) -> Result<(), AnyError> {
    let contents = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    HostAuthorities::of_file_contents(path, &contents)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::read;
    use crate::runtime::fake::Simple;
    use std::fs;

    #[test]
    fn missing_and_wrong_files_of_a_host_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mesh.toml");
        let text = "host = [{ name = \"rome\", address = \"192.0.2.1\" },\n\
                    { name = \"oslo\", address = \"192.0.2.2\", certificate = \"oslo.pem\" }]\n\
                    [[ping]]\nname = \"far\"\ntargets = [\"192.0.2.9\"]\nevery = \"10s\"\nfor = \"1s\"\n\
                    [archive]\nfolder = \"archive\"\n\
                    [[collector]]\nhost = \"rome\"\nhost-ca-file = \"hosts.pem\"\nca-file = \"rome.pem\"\n";
        let model = read(text, &Simple).unwrap();
        let said = |host| check_files(&file, &model, host);
        let (rome, oslo) = (said(0), said(1));
        assert!(rome.len() == 1 && rome[0].contains("[[collector]] host-ca-file"), "{rome:?}");
        assert!(rome[0].contains("hosts.pem"), "{rome:?}");
        assert_eq!(oslo.len(), 2, "{oslo:?}");
        assert!(oslo[0].starts_with("[[host]] certificate") && oslo[0].contains("oslo.pem"), "{oslo:?}");
        assert!(oslo[1].starts_with("[[collector]] ca-file") && oslo[1].contains("rome.pem"), "{oslo:?}");
        // A certificate without its key, and no certificate at all.
        let path = folder.path().join("oslo.pem");
        Identity::made(&path, &["oslo".to_owned()]).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        let end = "-----END CERTIFICATE-----\n";
        let certificate =
            &whole[whole.find("-----BEGIN CERTIFICATE").unwrap()..whole.find(end).unwrap() + end.len()];
        fs::write(&path, certificate).unwrap();
        fs::write(folder.path().join("rome.pem"), "nothing\n").unwrap();
        let oslo = said(1);
        assert!(oslo[0].contains("no private key"), "{oslo:?}");
        assert!(oslo[1].contains("no certificate"), "{oslo:?}");
        fs::write(&path, &whole).unwrap();
        fs::write(folder.path().join("rome.pem"), certificate).unwrap();
        assert_eq!(said(1), Vec::<String>::new());
    }
}
