//! OWAMP: sessions negotiated with a control server, such as owampd of perfSONAR.

use crate::arguments::{Argument, Arguments};
use crate::error::Error;
use crate::instrument::TestOutcome;
use crate::one_way::OneWay;
use crate::one_way::protocol::{OneWayClient, OneWayProtocol};
use crate::ping::protocol::ProtocolServer;
use crate::ping::protocols::twamp::{user, users};
use crate::stop::Stop;
use jitlat_core::observer::Observer;
use jitlat_core::spec::{TEST_PORT, UNKNOWN_SEED};
use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport, quantity};
use jitlat_net::client::TestRequest;
use jitlat_net::owamp::{OwampError, OwampRequest, run};
use jitlat_net::reflect::OwampServer;
use jitlat_proto::amp::SecurityMode;
use jitlat_proto::jitlat::{Dialect, TestTerms};
use jitlat_proto::owamp;
use jitlat_proto::owamp::{OwpingOptions, Statistics};
use std::fmt;

/// Entry of OWAMP in the list of protocols.
pub static PROTOCOL: OneWayProtocol = OneWayProtocol {
    name: "owamp",
    title: "OWAMP",
    answered_by: "owampd, jitlat serve",
    arguments: &[
        PORT,
        Argument::file(
            "owamp-key-file",
            "File with the OWAMP users, for the keyed modes\n\nEach line has a name and a passphrase in \
             hexadecimal (perfSONAR's .pfs).",
        ),
        Argument::value(
            "owamp-user",
            "NAME",
            "User name to authenticate as; needed if the key file has several",
            |_| Ok(()),
        )
        .requires("owamp-key-file"),
        Argument::choice(
            "owamp-mode",
            "MODE",
            "Protection (default: the strongest that the server offers)\n\nencrypted with a key file, \
             authenticated if the server offers only that; open without a key file.",
            &[
                ("open", "Nothing is protected"),
                ("authenticated", "Control encrypted; in test packets only the sequence number is protected"),
                ("encrypted", "Control and test packets encrypted"),
            ],
        ),
        Argument::value(
            "owamp-timeout",
            "TIME",
            "Time after which a packet counts as lost (default: 2 s plus the set-up time)\n\nThe difference \
             of both clocks must be smaller.",
            |text| quantity::pause(text).map(drop).map_err(|e| e.to_string()),
        ),
        Argument::value(
            "owamp-bucket",
            "TIME",
            "Width of the buckets of --as owstats, like owping's -b (default: 100us)",
            |text| bucket(text).map(drop),
        ),
        Argument::value(
            "owamp-percentiles",
            "LIST",
            "Further percentiles of --as owstats, like owping's -a: 50,90,99",
            |text| percentiles(text).map(drop),
        ),
    ],
    client: |arguments| Ok(Box::new(OwampClient::new(arguments)?)),
    server: Some(ProtocolServer {
        switch: None,
        arguments: &[
            PORT,
            Argument::file(
                "owamp-key-file",
                "File with the OWAMP users; offers only the keyed modes\n\nEach line has a name and a \
                 passphrase in hexadecimal (perfSONAR's .pfs).",
            ),
            Argument::value(
                "owamp-test-ports",
                "FIRST-LAST",
                "UDP ports of OWAMP sessions, for a firewall (default: any free one)",
                |text| quantity::ports(text).map(drop).map_err(|e| e.to_string()),
            ),
        ],
        reflectors: |arguments| {
            let test_ports = arguments.text("owamp-test-ports").map(quantity::ports).transpose();
            Ok(vec![Box::new(OwampServer {
                port: arguments.value(PORT.name)?,
                users: arguments.file("owamp-key-file").map(users).transpose()?.unwrap_or_default(),
                test_ports: test_ports.map_err(|e| Error::Settings(e.to_string()))?,
            })])
        },
    }),
};

const PORT: Argument =
    Argument::port("owamp-port", "TCP port of the OWAMP control server", || owamp::PORT.to_string());

/// Parses the width of a histogram bucket, in seconds.
fn bucket(text: &str) -> Result<f64, String> {
    let width = quantity::pause(text).map_err(|e| e.to_string())?;
    if width <= Span::ZERO {
        return Err("a bucket must be longer than zero".to_owned());
    }
    Ok(width.0 as f64 / 1e9)
}

fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let percentile = |word: &str| match word.trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!("'{word}' is not a percentile: give numbers from 0 to 100, separated by commas")),
    };
    text.split(',').map(percentile).collect()
}

/// Timeout of each step of the control connection.
const STEP_TIMEOUT: Span = Span::seconds(10);

/// Runs tests with an OWAMP server.
#[derive(Clone)]
pub struct OwampClient {
    /// TCP port of the control server.
    pub port: u16,
    /// Security mode; `None`: the strongest that both sides support.
    pub mode: Option<SecurityMode>,
    /// Name and passphrase for the keyed modes; `None`: unauthenticated.
    pub user: Option<(String, Vec<u8>)>,
    /// Time after which a packet counts as lost; `None`: two seconds more than the set-up took.
    pub timeout: Option<Span>,
    /// Format of the results in owping's text.
    pub style: OwpingOptions,
}

impl Default for OwampClient {
    fn default() -> OwampClient {
        OwampClient {
            port: owamp::PORT,
            mode: None,
            user: None,
            timeout: None,
            style: OwpingOptions::default(),
        }
    }
}

impl fmt::Debug for OwampClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|(name, _)| name);
        f.debug_struct("OwampClient").field("port", &self.port).field("user", &user).finish_non_exhaustive()
    }
}

impl OwampClient {
    fn new(arguments: &Arguments) -> Result<OwampClient, Error> {
        let mode = arguments.text("owamp-mode").map(|mode| match mode {
            "authenticated" => SecurityMode::Authenticated,
            "encrypted" => SecurityMode::Encrypted,
            _ => SecurityMode::Open,
        });
        let user = match arguments.file("owamp-key-file") {
            Some(_) if mode == Some(SecurityMode::Open) => None,
            Some(file) => Some(user(file, arguments.text("owamp-user"), "owamp-user")?),
            None if mode.is_some_and(|m| m != SecurityMode::Open) => {
                let why = "this mode of OWAMP needs a user and a passphrase: give --owamp-key-file";
                return Err(Error::Settings(why.to_owned()));
            }
            None => None,
        };
        let timeout = arguments.text("owamp-timeout").map(quantity::pause).transpose();
        let timeout = timeout.map_err(|e| Error::Settings(format!("owamp-timeout: {e}")))?;
        let mut style = OwpingOptions::default();
        if let Some(text) = arguments.text("owamp-bucket") {
            style.bucket = bucket(text).map_err(|e| Error::Settings(format!("owamp-bucket: {e}")))?;
        }
        if let Some(text) = arguments.text("owamp-percentiles") {
            style.percentiles =
                percentiles(text).map_err(|e| Error::Settings(format!("owamp-percentiles: {e}")))?;
        }
        Ok(OwampClient { port: arguments.value(PORT.name)?, mode, user, timeout, style })
    }

    fn request(&self, test: &OneWay) -> OwampRequest {
        let specs = test.settings.terms.specs.iter().map(of_this_end).collect();
        let terms = TestTerms { specs, ..test.settings.terms.clone() };
        OwampRequest {
            settings: TestRequest { control_port: self.port, terms, ..test.settings.clone() },
            mode: self.mode,
            user: self.user.clone(),
            timeout: self.timeout,
            step_timeout: STEP_TIMEOUT,
        }
    }
}

/// Returns `spec` with the server's ports and the seed removed. The server chooses its ports itself (the
/// default test port belongs to jitlat's own protocol), and the session identifier seeds the send schedule.
fn of_this_end(spec: &TestSpec) -> TestSpec {
    let mut spec = match spec.schedule() {
        Schedule::Poisson { .. } => spec.with_schedule(Schedule::Poisson { seed: UNKNOWN_SEED }),
        _ => spec.clone(),
    };
    match spec.direction() {
        Direction::Up => spec.dst_port = 0,
        Direction::Down if spec.dst_port == TEST_PORT => (spec.src_port, spec.dst_port) = (0, 0),
        Direction::Down => spec.src_port = 0,
    }
    spec
}

impl OneWayClient for OwampClient {
    fn protocol(&self) -> &'static OneWayProtocol {
        &PROTOCOL
    }

    fn check(&self, test: &OneWay) -> Result<(), Error> {
        let cannot = |why: String| Err(Error::Settings(why));
        if test.settings.terms.specs.iter().any(|spec| spec.transport() == Transport::Tcp) {
            return cannot("--proto owamp sends over UDP only: leave out -t".to_owned());
        }
        if test.settings.terms.dialect == Dialect::Classic {
            return cannot(
                "--classic belongs to jitlat's own protocol: leave it out with --proto owamp".to_owned(),
            );
        }
        if test.settings.terms.key.is_some() {
            return cannot(
                "--key-file belongs to jitlat's own protocol: give OWAMP's users in --owamp-key-file"
                    .to_owned(),
            );
        }
        if test.settings.terms.specs.iter().any(|spec| matches!(spec.schedule(), Schedule::Random { .. })) {
            return cannot("--proto owamp supports the schedules periodic, poisson and burst".to_owned());
        }
        let named = |spec: &&TestSpec| match spec.direction() {
            Direction::Up => spec.dst_port != 0 && spec.dst_port != TEST_PORT,
            Direction::Down => spec.src_port != 0,
        };
        if test.settings.terms.specs.iter().any(|spec| named(&spec)) {
            let why = "--proto owamp: the server chooses its ports; give only the port of this host (-s, with -R -d)";
            return cannot(why.to_owned());
        }
        let header = self.request(test).header();
        match test.settings.terms.specs.iter().find(|spec| usize::from(spec.payload()) < header) {
            Some(spec) => cannot(format!(
                "-l {}: an OWAMP packet has at least {header} bytes in this mode",
                spec.payload()
            )),
            None => Ok(()),
        }
    }

    fn measure(&self, test: &OneWay, stop: &Stop, observer: &mut dyn Observer) -> Result<TestOutcome, Error> {
        let (measured, received) = run(&self.request(test), stop.flag(), observer).map_err(|e| match e {
            OwampError::Client(e) => Error::OneWay(e),
            failed @ OwampError::Failed { .. } => Error::Conversation(failed.into()),
        })?;
        let owamp = received.into_iter().map(|data| Statistics { data, style: self.style.clone() });
        Ok(TestOutcome { owamp: owamp.collect(), ..measured.into() })
    }
}
