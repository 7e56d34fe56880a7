//! jitlat's own protocol, version 3 or classic.

use crate::arguments::Arguments;
use crate::error::Error;
use crate::instrument::TestOutcome;
use crate::one_way::OneWay;
use crate::one_way::protocol::{OneWayClient, OneWayProtocol};
use crate::stop::Stop;
use jitlat_core::Direction;
use jitlat_core::observer::Observer;
use jitlat_net::client;

/// Entry of jitlat's own protocol in the list of protocols.
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

    fn starts_on_time(&self) -> bool {
        true
    }

    fn check(&self, test: &OneWay) -> Result<(), Error> {
        let stream = |direction| test.settings.terms.specs.iter().find(|spec| spec.direction() == direction);
        let (Some(up), Some(down)) = (stream(Direction::Up), stream(Direction::Down)) else { return Ok(()) };
        // Server port 0 means the server's test port, in both directions.
        let same_ports = up.src_port == down.dst_port && up.dst_port == down.src_port;
        if up.src_port == 0 || !same_ports {
            return Ok(());
        }
        Err(Error::Settings(format!(
            "-b -s {}: both streams would use the same two ports, so they could not be distinguished; leave \
             out -s (the stream from the server comes from its test port anyway), or name another port",
            up.src_port
        )))
    }

    fn measure(&self, test: &OneWay, stop: &Stop, observer: &mut dyn Observer) -> Result<TestOutcome, Error> {
        Ok(client::run(&test.settings, stop.flag(), observer)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::TestSpec;

    fn with(mut spec: TestSpec, ports: [u16; 2]) -> TestSpec {
        [spec.src_port, spec.dst_port] = ports;
        spec
    }

    #[test]
    fn two_streams_between_the_same_ports_are_refused() {
        let check = |up: [u16; 2], down: [u16; 2]| {
            let streams = [(TestSpec::default(), up), (TestSpec::default().reversed(), down)];
            let streams = streams.map(|(spec, ports)| with(spec, ports)).to_vec();
            JitlatClient.check(&OneWay::new("h", streams)).map_err(|e| e.to_string())
        };
        for (port, up, down) in [(2667, [2667, 0], [0, 2667]), (40_001, [40_001, 40_001], [40_001, 40_001])] {
            let why = check(up, down).unwrap_err();
            assert!(
                why.contains(&format!("-b -s {port}: both streams would use the same two ports")),
                "{why}"
            );
        }
        for (up, down) in [
            ([0, 0], [0, 2667]),
            ([40_001, 0], [0, 2667]),
            ([40_001, 40_002], [40_001, 40_002]),
            ([2667, 2667], [2668, 2667]),
        ] {
            assert_eq!(check(up, down), Ok(()));
        }
        let alone = with(TestSpec::default(), [2667, 2667]);
        assert!(JitlatClient.check(&OneWay::new("h", vec![alone])).is_ok());
    }
}
