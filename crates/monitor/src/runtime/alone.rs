//! [`StandaloneRunner`]: runs the tests of `jitlat web --run`, without a timetable.

use super::Equipment;
use super::on_demand::{DemandedTest, TestPlacement, profiles};
use jitlat_archive::Archive;
use jitlat_proto::jitlat::PresharedKey;
use jitlat_web::{HostOffer, Planned, RunFeed, RunOffer, RunRefusal, RunRequest, Runner};
use nix::unistd::gethostname;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::debug;

/// Runs tests with the hosts in `hosts` or, if it is empty, with those in the archive.
#[derive(Debug)]
pub struct StandaloneRunner {
    /// Equipment that runs the tests.
    pub equipment: Arc<dyn Equipment>,
    /// Archive for results.
    pub archive: PathBuf,
    /// Far hosts that are allowed; empty: those of the archive.
    pub hosts: Vec<String>,
    /// Key with which this host authenticates to servers; `None`: none.
    pub key: Option<PresharedKey>,
}

impl Runner for StandaloneRunner {
    fn offer(&self, archive: &Archive) -> Result<RunOffer, jitlat_archive::ArchiveError> {
        let named =
            |name: &String| HostOffer { name: name.clone(), address: name.clone(), only_answers: false };
        let hosts =
            if self.hosts.is_empty() { known(archive)? } else { self.hosts.iter().map(named).collect() };
        Ok(RunOffer {
            from: own_name(),
            hosts,
            any_host: self.hosts.is_empty(),
            tests: DemandedTest::offered(),
            profiles: profiles(),
        })
    }

    fn plan(&self, request: &RunRequest, host: &HostOffer) -> Result<Planned, RunRefusal> {
        Ok(DemandedTest::of(request, host, &*self.equipment)?.planned())
    }

    fn start(&self, request: &RunRequest, host: &HostOffer, feed: RunFeed) -> Result<(), RunRefusal> {
        let demand = DemandedTest::of(request, host, &*self.equipment)?;
        let equipment = self.equipment.clone();
        let (host, archive, key) = (host.clone(), self.archive.clone(), self.key.clone());
        debug!("web page: starting test {} with {}", feed.id(), host.address);
        let thread = std::thread::Builder::new().name(format!("test {}", feed.id()));
        let run = move || {
            let place = TestPlacement {
                from: &own_name(),
                host: &host.name,
                address: &host.address,
                key: key.as_ref(),
                of_server: &[],
                archive: &archive,
            };
            demand.measure(&*equipment, &place, feed);
        };
        thread
            .spawn(run)
            .map(drop)
            .map_err(|e| RunRefusal::Busy(format!("cannot start a thread for the test: {e}")))
    }
}

/// Returns the name of this host.
fn own_name() -> String {
    gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "this host".to_owned())
}

/// Returns the hosts that sent or received in a test of the archive, by name.
fn known(archive: &Archive) -> Result<Vec<HostOffer>, jitlat_archive::ArchiveError> {
    let mut hosts: BTreeMap<String, String> = BTreeMap::new();
    for newest in archive.newest()? {
        let ends = [(newest.stream.src, newest.src_name), (newest.stream.dst, newest.dst_name)];
        for (address, name) in ends.into_iter().filter(|(address, _)| address != "-") {
            hosts.insert(address, name.unwrap_or_default());
        }
    }
    // A name with several addresses is ambiguous.
    let alone = |name: &String| !name.is_empty() && hosts.values().filter(|n| *n == name).count() == 1;
    let offer = |(address, name): (&String, &String)| HostOffer {
        name: if alone(name) { name.clone() } else { address.clone() },
        address: address.clone(),
        only_answers: false,
    };
    Ok(hosts.iter().map(offer).collect())
}
