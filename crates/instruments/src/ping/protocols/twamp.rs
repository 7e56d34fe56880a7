//! The TWAMP protocol: sessions negotiated with a control server, or TWAMP Light without one.

use super::ANY_PORT;
use super::stamp::{self, StampClient};
use crate::arguments::{Argument, Arguments, NamedFile, parses_as};
use crate::error::Error;
use crate::ping::protocol::{PingClient, PingProtocol, ProtocolServer, RequestSizes};
use crate::ping::test::{PingResult, PingTest};
use jitlat_core::ntp::{ErrorEstimate, TimeFormat};
use jitlat_core::spec::MAX_PAYLOAD;
use jitlat_core::twoway::TwoWay;
use jitlat_core::{Span, Transport, quantity};
use jitlat_net::clock;
use jitlat_net::reflect::TwampServer;
use jitlat_net::twoway::twamp::{SessionRequest, TwampControl, TwampError};
use jitlat_net::twoway::{self, TwoWayLink, prepare, run_on};
use jitlat_proto::twamp::{self, SecurityMode, TwampSender, TwampSessionSpec, Users, sender};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Entry of TWAMP in the list of protocols.
pub static PROTOCOL: PingProtocol = PingProtocol {
    name: "twamp",
    title: "TWAMP",
    answered_by: "routers, probes, jitlat serve",
    transport: Transport::Udp,
    payload: "of the UDP datagram (41)",
    arguments: &[
        CLIENT_PORT,
        Argument::switch(
            "light",
            "Use TWAMP Light: no control server, reflector at --stamp-port\n\nWithout this option it is used if port \
             862 refuses connections, unless the port or an option of TWAMP is given. The report says so.",
        )
        .conflicts(&["twamp-key-file", "twamp-user", "twamp-mode", "nat"]),
        Argument::file(
            "twamp-key-file",
            "File with the TWAMP users, for the keyed modes\n\nEach line has a name and a passphrase in \
             hexadecimal (perfSONAR's .pfs).",
        ),
        Argument::value(
            "twamp-user",
            "NAME",
            "User name to authenticate as; needed if the key file has several",
            |_| Ok(()),
        )
        .requires("twamp-key-file"),
        Argument::choice(
            "twamp-mode",
            "MODE",
            "Protection (default: the strongest that the server offers)\n\nencrypted, authenticated or mixed \
             with a key file, open without one.",
            &[
                ("open", "Nothing is protected"),
                ("authenticated", "Control encrypted; in test packets only the sequence number is protected"),
                ("encrypted", "Control and test packets encrypted"),
                ("mixed", "Control encrypted, test packets unencrypted"),
            ],
        ),
        Argument::switch(
            "nat",
            "Have the server use the addresses of the control connection\n\nNeeded behind address translation. Without \
             this option it is tried if the server refuses the session.",
        ),
        stamp::PORT,
        ANY_PORT,
        stamp::PTP,
        stamp::KEY_FILE,
    ],
    client: |arguments| Ok(Box::new(TwampClient::new(arguments)?)),
    server: Some(ProtocolServer {
        switch: None,
        arguments: &[
            PORT,
            Argument::file(
                "twamp-key-file",
                "File with the TWAMP users; offers only the keyed modes\n\nEach line has a name and a \
                 passphrase in hexadecimal (perfSONAR's .pfs).",
            ),
            Argument::value(
                "twamp-test-ports",
                "FIRST-LAST",
                "UDP ports of TWAMP sessions, for a firewall (default: 1024 and above)",
                |text| quantity::ports(text).map(drop).map_err(|e| e.to_string()),
            ),
        ],
        reflectors: |arguments| {
            let test_ports = arguments.text("twamp-test-ports").map(quantity::ports).transpose();
            Ok(vec![Box::new(TwampServer {
                port: arguments.value(PORT.name)?,
                users: arguments.file("twamp-key-file").map(users).transpose()?.unwrap_or_default(),
                test_ports: test_ports.map_err(|e| Error::Settings(e.to_string()))?,
            })])
        },
    }),
};

const PORT: Argument =
    Argument::port("twamp-port", "TCP port of the TWAMP control server", || twamp::PORT.to_string());
/// Control port. The argument has no default, because a port that is given means that a control server must answer
/// there.
const CLIENT_PORT: Argument = Argument::value(
    PORT.name,
    "PORT",
    "TCP port of the TWAMP control server (default: 862)",
    parses_as::<u16>,
);

/// Timeout of each step of the control connection.
const STEP_TIMEOUT: Span = Span::seconds(5);

/// Runs tests with a TWAMP server.
#[derive(Clone)]
pub struct TwampClient {
    /// TCP port of the control server.
    pub port: u16,
    /// Security mode; `None`: the strongest that both sides support.
    pub mode: Option<SecurityMode>,
    /// Name and passphrase for the keyed modes; `None`: unauthenticated.
    pub user: Option<(String, Vec<u8>)>,
    /// True to let the server use the addresses of the control connection. Required if an address translator is on the
    /// path.
    pub nat: bool,
    /// TWAMP Light client to use if no control server answers.
    pub light: StampClient,
    /// True to use TWAMP Light without trying a control server.
    pub only_light: bool,
    /// True to use TWAMP Light if the control port refuses connections.
    pub falls_back: bool,
}

impl Default for TwampClient {
    fn default() -> TwampClient {
        TwampClient {
            port: twamp::PORT,
            mode: None,
            user: None,
            nat: false,
            light: StampClient { light: true, ..StampClient::default() },
            only_light: false,
            falls_back: true,
        }
    }
}

impl fmt::Debug for TwampClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|(name, _)| name);
        f.debug_struct("TwampClient").field("port", &self.port).field("user", &user).finish_non_exhaustive()
    }
}

impl TwampClient {
    fn new(arguments: &Arguments) -> Result<TwampClient, Error> {
        let only_light = arguments.has("light");
        if only_light && arguments.has(stamp::KEY_FILE.name) {
            return Err(Error::Settings(
                "--stamp-key-file: TWAMP Light has no keys; use --proto stamp, or TWAMP with --twamp-key-file"
                    .to_owned(),
            ));
        }
        let mode = arguments.text("twamp-mode").map(|mode| match mode {
            "authenticated" => SecurityMode::Authenticated,
            "encrypted" => SecurityMode::Encrypted,
            "mixed" => SecurityMode::Mixed,
            _ => SecurityMode::Open,
        });
        let user = match arguments.file("twamp-key-file") {
            Some(file) => Some(user(file, arguments.text("twamp-user"), "twamp-user")?),
            None if mode.is_some_and(|m| m != SecurityMode::Open) => {
                let why = "this mode of TWAMP needs a user and a passphrase: give --twamp-key-file";
                return Err(Error::Settings(why.to_owned()));
            }
            None => None,
        };
        let port = arguments.get(CLIENT_PORT.name)?;
        let nat = arguments.has("nat");
        Ok(TwampClient {
            port: port.unwrap_or(twamp::PORT),
            // A given port, mode, user or address requires the control server: TWAMP Light on port 862 is not a
            // substitute.
            falls_back: port.is_none() && mode.is_none() && user.is_none() && !nat,
            mode,
            user,
            nat,
            light: StampClient::light(arguments)?,
            only_light,
        })
    }

    /// Returns the session to request, from the address `local`; with `nat`, the server determines the addresses.
    fn session_spec(&self, test: &PingTest<'_>, local: SocketAddr, nat: bool) -> TwampSessionSpec {
        let far = test.link.to.ip();
        let any = match far {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        TwampSessionSpec {
            sender_port: local.port(),
            // Both ports are equal, like in twping: a filter that allows one direction of a flow often allows
            // the other.
            receiver_port: local.port(),
            addresses: if nat { (any, any) } else { (local.ip(), far) },
            size: test.size,
            dscp: test.link.marking.dscp,
            timeout: test.plan.timeout,
        }
    }

    fn measure_light(&self, test: &PingTest<'_>) -> Result<PingResult, Error> {
        self.light.measure(&test.at_port(self.light.port))
    }
}

impl PingClient for TwampClient {
    fn protocol(&self) -> &'static PingProtocol {
        &PROTOCOL
    }

    fn port(&self) -> u16 {
        if self.only_light { self.light.port } else { self.port }
    }

    fn adapt(&self, link: &mut TwoWayLink) {
        self.light.adapt(link);
    }

    fn sizes(&self) -> RequestSizes {
        let mode = match (self.mode, &self.user) {
            (Some(mode), _) => mode,
            (None, Some(_)) => SecurityMode::Encrypted,
            (None, None) => SecurityMode::Open,
        };
        // The default is the shortest request whose answer has the same length.
        let usual = sender::least_size(mode) as u64;
        let shortest = sender::size(mode, 0) as u64;
        RequestSizes { usual, header: 0, range: (shortest, MAX_PAYLOAD.into()), beneath: Some(8) }
    }

    fn measure(&self, test: &PingTest<'_>) -> Result<PingResult, Error> {
        if self.only_light {
            return self.measure_light(test);
        }
        let server = test.link.to;
        let prepared = prepare(&test.link, test.size)?;
        let system = |doing| move |source| Error::System { doing, source };
        let local = prepared.socket.local_addr().map_err(system("reading the port of the test socket"))?;
        let local = local.as_socket().ok_or_else(|| Error::System {
            doing: "reading the port of the test socket",
            source: io::ErrorKind::AddrNotAvailable.into(),
        })?;
        let mut asking = SessionRequest {
            to: server,
            bind: test.link.marking.bind,
            mode: self.mode,
            user: self.user.clone(),
            sessions: vec![self.session_spec(test, local, self.nat)],
            step_timeout: STEP_TIMEOUT,
        };
        let mut translated = false;
        let mut opened = TwampControl::open(asking.clone(), test.stop.flag());
        if let Err(TwampError::Failed { failure, .. }) = &opened
            && failure.may_be_due_to_addresses()
            && !self.nat
        {
            asking.sessions = vec![self.session_spec(test, local, true)];
            // If the server refuses this, too, the addresses are not the reason, and the first error is reported.
            if let Ok(control) = TwampControl::open(asking, test.stop.flag()) {
                (opened, translated) = (Ok(control), true);
            }
        }
        let mut control = match opened {
            Ok(control) => control,
            Err(TwampError::Connect { source, .. })
                if source.kind() == io::ErrorKind::ConnectionRefused && self.falls_back =>
            {
                let mut found = self.measure_light(test).map_err(|e| {
                    e.while_doing(format!(
                        "no TWAMP server at TCP {server}, and no TWAMP Light reflector either"
                    ))
                })?;
                found.facts().remarks.push(format!("{} at TCP {server}", TwoWay::LIGHT_REMARK));
                return Ok(found);
            }
            Err(e @ TwampError::Connect { .. }) => {
                let what = "no TWAMP session (without a control server: --light, or --proto stamp)";
                return Err(Error::from(e).while_doing(what.to_owned()));
            }
            Err(e) => return Err(e.into()),
        };
        let [granted] = control.granted() else {
            let why = "the TWAMP server granted no session".to_owned();
            return Err(twoway::PingError::Conversation { to: server, why }.into());
        };
        let (mode, granted) = (control.mode(), granted.clone());
        let test = test.at_port(granted.port);
        let directed = prepared.socket.connect(&test.link.to.into());
        directed.map_err(|source| twoway::PingError::Send { to: test.link.to, source })?;
        control.start(test.stop.flag())?;

        let error = ErrorEstimate::of_clock(clock::sync_state(), TimeFormat::Ntp);
        let sender = TwampSender::new(mode, granted.keys, test.size, error);
        let measured = run_on(prepared, |_| sender, test.plan.clone(), &test.link, test.stop.flag());
        // The session must be stopped even if the test failed.
        let stopped = control.stop();
        let (mut found, _) = test.gather(measured?);
        let remarks = &mut found.facts().remarks;
        remarks.push(format!("session {} negotiated with TCP {server}, mode {mode}", granted.sid));
        if translated {
            remarks.push(
                "the server refused this host's address, so the session uses the addresses that it sees (--nat): there \
                 is address translation on the path"
                    .to_owned(),
            );
        }
        if let Err(e) = stopped {
            remarks.push(format!("the control connection failed during the test: {e}"));
        }
        Ok(found)
    }
}

/// Reads the users and passphrases in a key file.
///
/// # Errors
/// [`Error::Settings`] if a line does not contain a user and a passphrase, or if the file is empty.
pub fn users(file: &NamedFile) -> Result<Users, Error> {
    let unreadable =
        |why: &dyn fmt::Display| Error::Settings(format!("reading the key file {}: {why}", file.name));
    let text = std::str::from_utf8(&file.contents).map_err(|e| unreadable(&e))?;
    let users = Users::parse(text).map_err(|e| unreadable(&e))?;
    if users.is_empty() {
        return Err(Error::Settings(format!(
            "the key file {} contains no user: write one per line, with a passphrase in hexadecimal",
            file.name
        )));
    }
    Ok(users)
}

/// Finds the user called `wanted`, or the only user, in a key file; `option` is the option to name in the
/// error message.
pub fn user(file: &NamedFile, wanted: Option<&str>, option: &str) -> Result<(String, Vec<u8>), Error> {
    let users = users(file)?;
    let name = match (wanted, &users.names().collect::<Vec<_>>()[..]) {
        (Some(name), _) => name.to_owned(),
        (None, [name]) => (*name).to_owned(),
        (None, names) => {
            let n = names.len();
            let why = format!("{} has {n} users: choose one with --{option}", file.name);
            return Err(Error::Settings(why));
        }
    };
    let passphrase = users.passphrase(&name);
    let passphrase =
        passphrase.ok_or_else(|| Error::Settings(format!("{} has no user {name}", file.name)))?.to_vec();
    Ok((name, passphrase))
}
