//! jitlat's own protocol, version 3 or classic.

use crate::arguments::Arguments;
use crate::error::Error;
use crate::one_way::OneWay;
use crate::one_way::protocol::{OneWayClient, OneWayProtocol};
use crate::stop::Stop;
use jitlat_core::observer::Observer;
use jitlat_net::client::{self, Measured};

/// The entry of jitlat's own protocol.
pub static PROTOCOL: OneWayProtocol = OneWayProtocol {
    name: "jitlat",
    title: "jitlat",
    answered_by: "jitlat serve",
    arguments: &[],
    client: |_: &Arguments| Ok(Box::new(JitlatClient)),
    server: None,
};

/// Runs tests with `jitlat serve`.
#[derive(Clone, Copy, Debug)]
pub struct JitlatClient;

impl OneWayClient for JitlatClient {
    fn protocol(&self) -> &'static OneWayProtocol {
        &PROTOCOL
    }

    fn check(&self, _: &OneWay) -> Result<(), Error> {
        Ok(())
    }

    fn measure(&self, test: &OneWay, stop: &Stop, observer: &mut dyn Observer) -> Result<Measured, Error> {
        Ok(client::run(&test.request(), stop.flag(), observer)?)
    }
}
