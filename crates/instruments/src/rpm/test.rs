//! [`Rpm`]: measures responsiveness.

use super::{RpmResult, Trust};
use crate::error::Error;
use crate::stop::Stop;
use jitlat_net::client::AddressFamily;
use jitlat_net::rpm::client::RpmClient;
use jitlat_proto::rpm::measured::RpmProgress;
use jitlat_proto::rpm::resources::WebUrl;
use jitlat_proto::rpm::{LoadDirections, RpmParameters};

/// A measurement of the responsiveness of the path to a server.
#[derive(Clone, Debug)]
pub struct Rpm {
    /// URL of the configuration document, or a host with or without a port.
    pub server: String,
    /// Directions of the load, one stage each.
    pub stages: Vec<LoadDirections>,
    /// Parameters of the method.
    pub parameters: RpmParameters,
    /// Certificates that are accepted.
    pub trust: Trust,
    /// Address family; `None`: any.
    pub family: Option<AddressFamily>,
}

impl Rpm {
    /// Measures until all stages are complete or `stop` is requested; `progress` is called about ten times per second.
    ///
    /// # Errors
    /// [`Error`] if nothing was measured.
    pub fn run(&self, stop: &Stop, progress: &mut dyn FnMut(&RpmProgress<'_>)) -> Result<RpmResult, Error> {
        let url = WebUrl::of_configuration(&self.server).map_err(|e| Error::Settings(e.to_string()))?;
        let named = url.to_string();
        let client = RpmClient {
            url,
            stages: self.stages.clone(),
            parameters: self.parameters,
            trust: self.trust.clone(),
            family: self.family,
        };
        let measured = client.run(stop.flag(), progress).map_err(|e| Error::Conversation(Box::new(e)))?;
        Ok(RpmResult::new(named, self.parameters, measured))
    }
}
