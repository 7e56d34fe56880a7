//! TCP request-response, as a two-way protocol.

use crate::arguments::{Argument, Arguments, parses_as};
use crate::error::Error;
use crate::ping::protocol::{PingClient, PingProtocol, ProtocolServer, RequestSizes};
use crate::ping::test::{PingResult, PingTest};
use jitlat_core::Transport;
use jitlat_core::twoway::TcpStats;
use jitlat_net::reflect::TcpResponder;
use jitlat_net::twoway::request_response;
use jitlat_proto::reqresp::{self, MAX_LEN, MIN_REQUEST};

/// Entry of TCP request-response in the list of protocols.
pub static PROTOCOL: PingProtocol = PingProtocol {
    name: "tcp",
    title: "TCP request-response",
    answered_by: "jitlat serve",
    transport: Transport::Tcp,
    payload: "of a request (1460)",
    arguments: &[
        PORT,
        Argument::value("response", "BYTES", "Bytes of a response", parses_as::<usize>)
            .or(|| "1000".to_owned()),
    ],
    client: |arguments| Ok(Box::new(TcpClient::new(arguments)?)),
    server: Some(ProtocolServer {
        switch: None,
        arguments: &[PORT],
        reflectors: |arguments| {
            let port = arguments.value(PORT.name)?;
            Ok(vec![Box::new(TcpResponder { port, ..TcpResponder::default() })])
        },
    }),
};

const PORT: Argument =
    Argument::port("tcp-port", "TCP port of the request-response server", || reqresp::PORT.to_string());

/// Client that sends requests over one TCP connection.
#[derive(Clone, Copy, Debug)]
pub struct TcpClient {
    /// TCP port of the server.
    pub port: u16,
    /// Number of bytes in a response.
    pub response: usize,
}

impl Default for TcpClient {
    fn default() -> TcpClient {
        TcpClient { port: reqresp::PORT, response: 1000 }
    }
}

impl TcpClient {
    fn new(arguments: &Arguments) -> Result<TcpClient, Error> {
        Ok(TcpClient { port: arguments.value(PORT.name)?, response: arguments.value("response")? })
    }
}

impl PingClient for TcpClient {
    fn protocol(&self) -> &'static PingProtocol {
        &PROTOCOL
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn sizes(&self) -> RequestSizes {
        let range = (MIN_REQUEST as u64, MAX_LEN as u64);
        // 1460 bytes are one segment on Ethernet: 1500 bytes minus the IPv4 and TCP headers.
        RequestSizes { usual: 1460, header: 0, range, beneath: None }
    }

    fn measure(&self, test: &PingTest<'_>) -> Result<PingResult, Error> {
        let response = self.response;
        let sizes = reqresp::ExchangeSizes::new(test.size, response)
            .ok_or_else(|| Error::Settings(format!("--response {response}: give 20 to 65535 bytes")))?;
        let (measured, samples) =
            request_response::run(sizes, test.plan.clone(), &test.link, test.stop.flag())?;
        let (mut found, requester) = test.gather(measured);
        if requester.is_echoed() {
            let echo = "the far host is a plain echo server, not jitlat serve: round trips are measured \
                        without times of the far host, and --response has no effect";
            found.facts().remarks.push(echo.to_owned());
        }
        found.facts().tcp = TcpStats::of(&samples);
        // Samples and records correspond one to one, unless the peer sent responses that were not requested.
        if samples.len() == found.records.len() {
            found.tcp = samples;
        }
        Ok(found)
    }
}
