//! One test of the timetable: runs it, and adds its result to the archive.

use super::measure::measure;
use super::{Equipment, TestSite};
use crate::Model;
use crate::agenda::{SlotFailure, TestJob};
use crate::file::{DeclaredTest, OptionValue};
use crate::model::MonitoredTest;
use jitlat_instruments::Stop;
use jitlat_proto::jitlat::PresharedKey;
use std::path::PathBuf;
use std::sync::Arc;

/// Data that a thread needs to run a test.
pub struct Task {
    /// Equipment that runs the test.
    pub equipment: Arc<dyn Equipment>,
    /// Model that applied when the test was due.
    pub model: Arc<Model>,
    /// The test.
    pub job: TestJob,
    /// Key with which this host authenticates to other hosts; `None`: no key.
    pub key: Option<PresharedKey>,
    /// Archive for the result; `None`: the result is not stored.
    pub archive: Option<PathBuf>,
}

/// Returns the options of the hosts' servers that their clients must know.
pub fn options_of_server(model: &Model) -> Vec<(String, OptionValue)> {
    model.serve.options.iter().filter(|(name, _)| name == "control-port").cloned().collect()
}

impl Task {
    /// Returns the settings of the test in the file.
    pub fn test(&self) -> &MonitoredTest {
        &self.model.tests[self.job.test]
    }

    /// Returns the address of the far end.
    pub fn address(&self) -> &str {
        let far = self.job.pair.server() as usize;
        self.model.hosts.get(far).map_or(self.job.far.as_str(), |host| &host.address)
    }

    /// Returns the options of the far host's server that its clients must know, except those that the test sets itself;
    /// empty if the far end is not a host of the file.
    pub fn options_of_server(&self) -> Vec<(String, OptionValue)> {
        let given = &self.test().work.options;
        let is_host = (self.job.pair.server() as usize) < self.model.hosts.len();
        let options = if is_host { options_of_server(&self.model) } else { Vec::new() };
        options.into_iter().filter(|(name, _)| !given.iter().any(|(own, _)| own == name)).collect()
    }

    /// Returns the tags by which searches find the result.
    pub fn tags(&self) -> Vec<(String, String)> {
        let host = |k: u32| self.model.end(self.test(), k).to_owned();
        let tags = [
            ("test", self.job.name.clone()),
            ("client", host(self.job.pair.client())),
            ("server", host(self.job.pair.server())),
            ("slot", self.job.slot_number.to_string()),
        ];
        tags.map(|(key, value)| (key.to_owned(), value)).to_vec()
    }

    /// Runs the test until it ends or `stop` is requested, and adds the result to the archive.
    ///
    /// # Errors
    /// Kind of failure, and a description.
    pub fn measure(&self, stop: &Stop) -> Result<(), (SlotFailure, String)> {
        let work = &self.test().work;
        let asked = DeclaredTest {
            instrument: &work.instrument,
            profiles: &work.profiles,
            options: &work.options,
            duration: work.duration,
            direction: work.direction,
        };
        let site = TestSite {
            address: self.address(),
            key: self.key.as_ref(),
            of_server: self.options_of_server(),
            is_first: self.job.pair.first_is_client,
            name: Some(self.job.name.clone()),
            tags: self.tags(),
            is_watched: false,
        };
        measure(&*self.equipment, &asked, &site, None, stop, self.archive.as_deref()).map(drop)
    }
}
