//! The LaMP protocol, compatible with LaTe.

use super::{ANY_PORT, networks};
use crate::arguments::{Argument, Arguments, parses_as};
use crate::error::Error;
use crate::ping::protocol::{PingClient, PingProtocol, ProtocolServer, RequestSizes};
use crate::ping::test::{PingResult, PingTest};
use jitlat_core::Transport;
use jitlat_core::spec::MAX_PAYLOAD;
use jitlat_core::twoway::{FarReport, TwoWay};
use jitlat_net::lamp_frame::LampLink;
use jitlat_net::reflect::{LampEthernetReflector, LampFrameReflector, LampReflector, Reflector};
use jitlat_net::stamp::StampMode;
use jitlat_net::twoway::{self, PingError, TwoWayLink, socket::Carrier};
use jitlat_proto::lamp::client::{FollowUpState, LampOptions};
use jitlat_proto::lamp::{self, LampFollowUp, LampMode, packet::HEADER_LEN};
use jitlat_proto::wsmp::Psid;
use std::net::SocketAddr;

/// Entry of LaMP in the list of protocols.
pub static PROTOCOL: PingProtocol = PingProtocol {
    name: "lamp",
    title: "LaMP",
    answered_by: "LaTe, jitlat serve",
    transport: Transport::Udp,
    payload: "after the LaMP header (0)",
    arguments: &[
        PORT,
        ANY_PORT,
        Argument::choice(
            "mode",
            "MODE",
            "Round trips, or one direction with the server's report",
            &[("bidir", "Round trips"), ("unidir", "One-way, client to server")],
        )
        .or(|| "bidir".to_owned()),
        Argument::choice(
            "follow-up",
            "KIND",
            "Have the server report its processing time\n\nThe round trip then excludes it. KIND is the \
             source of its two timestamps (default: the kind given with --stamps).",
            &[
                ("same", "The kind given with --stamps"),
                ("app", "Both by the program"),
                ("krt", "Reception by the kernel"),
                ("kernel", "Both by the kernel"),
                ("hardware", "Both by the adapter"),
            ],
        )
        .bare("same"),
        Argument::switch(
            "timeless",
            "Send requests without timestamps, like LaTe with kernel or hardware stamps\n\nThis host stores the send times itself.",
        ),
        Argument::switch(
            "raw",
            "Send whole Ethernet frames through a packet socket\n\nThey bypass this host's IP and UDP.",
        ),
        Argument::switch(
            "ethernet",
            "Send LaMP directly in Ethernet frames, without IP and UDP\n\nType 0x88B5, to a host on the same \
             link that runs serve --lamp-ethernet and is found by its IP address.",
        ),
        Argument::value(
            WSMP,
            "PSID",
            "Send LaMP in wave short messages (WSMP) of this service, without IP and UDP\n\nIEEE 1609.3 version 3, \
             type 0x88DC, as vehicles do over 802.11p, to a host on the same link that runs serve --lamp-wsmp and is \
             found by its IP address. PSID is a number, for example 0x7f, which is for tests.",
            parses_as::<Psid>,
        ),
        Argument::switch(
            "broadcast",
            "Send only requests, to a broadcast address of the local segment\n\nFor example 10.0.0.255. \
             jitlat serve never answers them, and no router forwards them.",
        ),
    ],
    client: |arguments| Ok(Box::new(LampClient::new(arguments)?)),
    server: Some(ProtocolServer {
        switch: None,
        arguments: &[
            PORT,
            Argument::value(
                "lamp-raw",
                "IFACE",
                "Answer LaMP at this interface only, in whole Ethernet frames\n\nThey bypass this host's IP \
                 and UDP. Needs CAP_NET_RAW.",
                |_| Ok(()),
            ),
            Argument::value(
                "lamp-ethernet",
                "IFACE",
                "Also answer LaMP sent directly in Ethernet frames at this interface\n\nType 0x88B5. --allow \
                 identifies these clients by their link-local IPv6 address. Needs CAP_NET_RAW.",
                |_| Ok(()),
            ),
            Argument::value(
                WSMP,
                "IFACE[,PSID]",
                "Also answer LaMP in wave short messages (WSMP) at this interface\n\nIEEE 1609.3 version 3, type \
                 0x88DC, of the service PSID (0x7f). --allow identifies these clients by their link-local IPv6 address. \
                 Needs CAP_NET_RAW.",
                |text| service(text).map(drop),
            ),
            Argument::value(
                "lamp-trust",
                "NETWORKS",
                "Networks, separated by commas, whose source addresses cannot be forged\n\nLaTe's clients \
                 cannot prove their address; in these networks they also get follow-up and repeated reports.",
                |text| networks(text).map(drop),
            ),
        ],
        reflectors: |arguments| {
            let port = arguments.value(PORT.name)?;
            let trusted = networks(arguments.text("lamp-trust").unwrap_or_default());
            let trusted = trusted.map_err(Error::Settings)?;
            let frames = arguments.text("lamp-raw").map(|interface| LampFrameReflector {
                port,
                interface: interface.to_owned(),
                trusted: trusted.clone(),
            });
            let wsmp = arguments.text(WSMP).map(service).transpose().map_err(Error::Settings)?;
            let links = [
                arguments.text("lamp-ethernet").map(|interface| (interface, LampLink::Ethernet)),
                wsmp.map(|(interface, psid)| (interface, LampLink::Wsmp(psid))),
            ];
            let ethernet: Vec<Box<dyn Reflector>> = links
                .into_iter()
                .flatten()
                .map(|(interface, link)| {
                    let (interface, trusted) = (interface.to_owned(), trusted.clone());
                    Box::new(LampEthernetReflector { link, interface, trusted }) as Box<dyn Reflector>
                })
                .collect();
            let ip: Box<dyn Reflector> = match frames {
                Some(frames) => Box::new(frames),
                None => Box::new(LampReflector { port, trusted }),
            };
            Ok([ip].into_iter().chain(ethernet).collect())
        },
    }),
};

const PORT: Argument = Argument::port("lamp-port", "UDP port of the LaMP server", || lamp::PORT.to_string());

/// Name of the argument for WSMP, the same for clients and servers.
const WSMP: &str = "lamp-wsmp";

/// Parses an interface and the service for which requests are answered there, by default [`Psid::TESTING`]: `wlan0`, or
/// `wlan0,0x7f`.
fn service(text: &str) -> Result<(&str, Psid), String> {
    match text.split_once(',') {
        Some((interface, psid)) => Ok((interface, psid.trim().parse()?)),
        None => Ok((text, Psid::TESTING)),
    }
}

/// Sends requests to a LaMP server.
#[derive(Clone, Copy, Debug)]
pub struct LampClient {
    /// UDP port of the server.
    pub port: u16,
    /// Mode: round trips, or one-way delays that the server reports.
    pub mode: LampMode,
    /// Timestamps from which the server should report its processing time; `None`: no report is requested.
    pub follow_up: Option<FollowUpKind>,
    /// True to send requests without timestamps.
    pub timeless: bool,
    /// True to send whole Ethernet frames, including IP and UDP headers, through a packet socket.
    pub raw: bool,
    /// Link over which LaMP is sent without IP and UDP; `None`: LaMP over UDP.
    pub link: Option<LampLink>,
    /// True to send to the broadcast address of the local segment; no answers are expected.
    pub broadcast: bool,
    /// True to accept answers from any UDP port of the server.
    pub any_port: bool,
}

/// Timestamps from which the server computes its processing time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FollowUpKind {
    /// Timestamps of the same kind as on this host.
    Same,
    /// Timestamps of this kind.
    Given(LampFollowUp),
}

impl FollowUpKind {
    fn request(self, stamps: StampMode) -> LampFollowUp {
        match self {
            FollowUpKind::Given(kind) => kind,
            FollowUpKind::Same => match stamps {
                StampMode::User => LampFollowUp::Application,
                StampMode::KernelReceive => LampFollowUp::KernelReceive,
                StampMode::Kernel => LampFollowUp::Kernel,
                StampMode::Hardware => LampFollowUp::Hardware,
            },
        }
    }
}

impl Default for LampClient {
    fn default() -> LampClient {
        LampClient {
            port: lamp::PORT,
            mode: LampMode::PingLike,
            follow_up: None,
            timeless: false,
            raw: false,
            link: None,
            broadcast: false,
            any_port: false,
        }
    }
}

impl LampClient {
    fn new(arguments: &Arguments) -> Result<LampClient, Error> {
        let wsmp = arguments.text(WSMP).map(str::parse).transpose().map_err(Error::Settings)?;
        let ethernet = arguments.has("ethernet").then_some(LampLink::Ethernet);
        if wsmp.is_some() && ethernet.is_some() {
            let why = "--lamp-wsmp sends LaMP in WSMP, --ethernet without WSMP: give only one";
            return Err(Error::Settings(why.to_owned()));
        }
        let client = LampClient {
            port: arguments.value(PORT.name)?,
            mode: if arguments.text("mode") == Some("unidir") {
                LampMode::Unidirectional
            } else {
                LampMode::PingLike
            },
            follow_up: arguments.text("follow-up").map(|kind| match kind {
                "app" => FollowUpKind::Given(LampFollowUp::Application),
                "krt" => FollowUpKind::Given(LampFollowUp::KernelReceive),
                "kernel" => FollowUpKind::Given(LampFollowUp::Kernel),
                "hardware" => FollowUpKind::Given(LampFollowUp::Hardware),
                _ => FollowUpKind::Same,
            }),
            timeless: arguments.has("timeless"),
            raw: arguments.has("raw"),
            link: wsmp.map(LampLink::Wsmp).or(ethernet),
            broadcast: arguments.has("broadcast"),
            any_port: arguments.has(ANY_PORT.name),
        };
        if client.mode == LampMode::Unidirectional && (client.timeless || client.follow_up.is_some()) {
            return Err(Error::Settings(
                "--mode unidir needs the time in each packet and has no follow-up: leave out --timeless and \
                 --follow-up"
                    .to_owned(),
            ));
        }
        if client.link.is_some() && client.port != lamp::PORT {
            return Err(Error::Settings(
                "--ethernet and --lamp-wsmp send no UDP, and so have no port: write the host without one, and leave \
                 out --lamp-port"
                    .to_owned(),
            ));
        }
        if client.any_port && (client.raw || client.link.is_some() || client.broadcast) {
            let why = "--any-port is for datagrams to one host: leave out --raw, --ethernet, --lamp-wsmp and --broadcast";
            return Err(Error::Settings(why.to_owned()));
        }
        if client.raw && client.link.is_some() {
            return Err(Error::Settings(
                "--raw sends IP in whole frames, --ethernet and --lamp-wsmp send no IP: give only one"
                    .to_owned(),
            ));
        }
        if client.broadcast
            && (client.mode == LampMode::Unidirectional
                || client.follow_up.is_some()
                || client.raw
                || client.link.is_some())
        {
            return Err(Error::Settings(
                "--broadcast only sends requests over UDP: leave out --mode, --follow-up, --raw, --ethernet and --lamp-wsmp"
                    .to_owned(),
            ));
        }
        Ok(client)
    }
}

impl LampClient {
    /// Returns `error` with advice that fits frames without UDP.
    fn without_udp(&self, error: Error) -> Error {
        let option = match self.link {
            Some(LampLink::Wsmp(_)) => "--lamp-wsmp IFACE, with the same PSID",
            Some(LampLink::Ethernet) => "--lamp-ethernet IFACE",
            None => return error,
        };
        match error {
            Error::Ping(PingError::Conversation { to, why }) if why.starts_with(lamp::client::NO_ANSWER) => {
                // These frames have no port.
                let to = SocketAddr::new(to.ip(), 0);
                let why = format!(
                    "{} on this link: is `jitlat serve` running on the other host, with {option}?",
                    lamp::client::NO_ANSWER
                );
                Error::Ping(PingError::Conversation { to, why })
            }
            other => other,
        }
    }
}

impl PingClient for LampClient {
    fn protocol(&self) -> &'static PingProtocol {
        &PROTOCOL
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn expects_answers(&self) -> bool {
        !self.broadcast
    }

    fn sizes(&self) -> RequestSizes {
        let header = HEADER_LEN as u64;
        RequestSizes { usual: 0, header, range: (header, MAX_PAYLOAD.into()), beneath: Some(8) }
    }

    fn adapt(&self, link: &mut TwoWayLink) {
        link.marking.any_port = self.any_port;
        if self.raw {
            link.carrier = Carrier::Raw;
        }
        if let Some(beneath) = self.link {
            link.carrier = Carrier::Ethernet(beneath);
        }
        if self.broadcast {
            // A TTL of 1 is sufficient: routers do not forward broadcasts.
            (link.marking.broadcast, link.marking.ttl) = (true, Some(1));
        }
    }

    fn measure(&self, test: &PingTest<'_>) -> Result<PingResult, Error> {
        let unidirectional = self.mode == LampMode::Unidirectional;
        if self.broadcast && test.plan.wait.is_some() {
            return Err(Error::Settings(
                "--broadcast has no answers to wait for: leave out --wait".to_owned(),
            ));
        }
        if unidirectional && test.plan.wait.is_some() {
            let why = "--mode unidir has no answers to wait for: leave out --wait";
            return Err(Error::Settings(why.to_owned()));
        }
        if self.link.is_some() && test.link.marking.dscp.value() != 0 {
            let why =
                "a DSCP is part of an IP header, and --ethernet and --lamp-wsmp send none: leave out -D";
            return Err(Error::Settings(why.to_owned()));
        }
        let options = LampOptions {
            id: test.id,
            mode: self.mode,
            payload: test.size - HEADER_LEN,
            timeless: self.timeless,
            follow_up: self.follow_up.map(|kind| kind.request(test.link.stamps)),
            broadcast: self.broadcast,
        };
        let measured = test.datagrams(|_| lamp::Client::new(options));
        let (mut found, client) = measured.map_err(|e| self.without_udp(e))?;
        match self.link {
            Some(LampLink::Wsmp(psid)) => {
                found
                    .facts()
                    .remarks
                    .push(format!("in wave short messages (WSMP) of PSID {psid}, without IP"));
            }
            Some(LampLink::Ethernet) => {
                found.facts().remarks.push("in Ethernet frames, without IP".to_owned());
            }
            None => {}
        }
        found.facts().remarks.extend(remarks(client.follow_up()).map(str::to_owned));
        if self.broadcast {
            found.facts().remarks.push(TwoWay::BROADCAST_REMARK.to_owned());
        }
        match client.report() {
            Some(report) => {
                found.facts().far_report = Some(FarReport::from(report));
                if report.errors > 0 {
                    let biased = "packets with a latency of zero or below make the mean reported by LaTe \
                                  servers too low";
                    found.facts().remarks.push(biased.to_owned());
                }
            }
            None if unidirectional => {
                let sent = found.requests;
                let why = format!(
                    "all {sent} packets were sent, but the server sent no report: the number of packets that arrived is unknown"
                );
                return Err(twoway::PingError::Conversation { to: test.link.to, why }.into());
            }
            None => {}
        }
        Ok(found)
    }
}

fn remarks(follow_up: FollowUpState) -> Option<&'static str> {
    match follow_up {
        FollowUpState::NotRequested | FollowUpState::Requested => None,
        FollowUpState::Accepted => Some("the round trip excludes the server's own processing time"),
        FollowUpState::Denied => {
            Some("the server refused follow-up: the round trip contains its processing time")
        }
        FollowUpState::Unanswered => Some(
            "the server did not answer the request for follow-up: the round trip contains its processing time",
        ),
    }
}
