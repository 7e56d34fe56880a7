//! Cisco IP SLA UDP jitter and UDP echo.

use super::stamp;
use crate::arguments::{Argument, Arguments, NamedFile, parses_as};
use crate::error::Error;
use crate::ping::protocol::{PingClient, PingProtocol, ProtocolServer, RequestSizes};
use crate::ping::test::{PingResult, PingTest};
use crate::start::SETUP_TIME;
use jitlat_core::ntp::TimeFormat;
use jitlat_core::spec::MAX_PAYLOAD;
use jitlat_core::{Span, Transport, quantity};
use jitlat_net::random;
use jitlat_net::reflect::IpslaReflector;
use jitlat_net::twoway::{prepare, run_on};
use jitlat_proto::ipsla::{self, AuthMode, IpslaKey, IpslaKeys, IpslaOptions, IpslaVersion, ProbeForm};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;

/// Entry of IP SLA in the list of protocols.
pub static PROTOCOL: PingProtocol = PingProtocol {
    name: "ipsla",
    title: "IP SLA",
    answered_by: "Cisco routers (ip sla responder), jitlat serve --ipsla",
    transport: Transport::Udp,
    payload: "of the UDP datagram (32)",
    arguments: &[
        PORT,
        Argument::choice(
            "ipsla-version",
            "VERSION",
            "Version of control messages (default: 1, or 2 with a key)",
            &[("1", "Version that routers send by default"), ("2", "RFC 6812")],
        ),
        Argument::choice(
            "ipsla-probe",
            "KIND",
            "Kind of probes of version 1",
            &[
                ("jitter", "UDP jitter: the responder's times have a resolution of 1 ms"),
                ("microseconds", "UDP jitter with precision microseconds"),
                ("echo", "UDP echo: round trips only"),
            ],
        )
        .or(|| "jitter".to_owned()),
        Argument::value(
            "target-port",
            "PORT",
            "UDP port that the responder opens for probes (default: 16384 to 32767)",
            parses_as::<NonZeroU16>,
        ),
        Argument::file(
            KEY_FILE,
            "File with the keys of IP SLA version 2: lines of a number and a key\n\nA key is text, or hexadecimal after \
             0x. It protects control messages; probes are never protected.",
        ),
        Argument::value(
            "ipsla-key-id",
            "N",
            "Number of the key to use; needed if the key file has several",
            parses_as::<u16>,
        )
        .requires(KEY_FILE),
        Argument::choice(
            "ipsla-auth",
            "MODE",
            "How the key protects control messages",
            &[("hmac-sha256", ""), ("sha256", "The weaker mode of RFC 6812")],
        )
        .or(|| "hmac-sha256".to_owned()),
        stamp::PTP,
    ],
    client: |arguments| Ok(Box::new(IpslaClient::new(arguments)?)),
    server: Some(ProtocolServer {
        switch: Some("ipsla"),
        arguments: &[
            Argument::switch(
                "ipsla",
                "Answer Cisco IP SLA, too: opens UDP ports that senders name\n\nNot answered by default, because nothing \
                 but a key (version 2) proves who asks.",
            ),
            PORT,
            Argument::file(
                KEY_FILE,
                "File with the keys of IP SLA: lines of a number and a key\n\nA key is text, or hexadecimal after 0x. \
                 Only signed control messages (version 2) are then accepted.",
            ),
            Argument::value(
                "ipsla-test-ports",
                "FIRST-LAST",
                "UDP ports that IP SLA senders may ask to open; open them in the firewall, too",
                |text| test_ports(text).map(drop),
            )
            .or(|| "16384-32767".to_owned()),
            Argument::switch(
                "ipsla-ptp",
                "Use the PTP format for times in probes of IP SLA version 2\n\nThe format is not negotiated: both ends \
                 must be set to the same.",
            ),
        ],
        reflectors: |arguments| {
            let keys = arguments.file(KEY_FILE).map(keys).transpose()?.unwrap_or_default();
            Ok(vec![Box::new(IpslaReflector {
                port: arguments.value(PORT.name)?,
                keys,
                test_ports: test_ports(arguments.text("ipsla-test-ports").unwrap_or("16384-32767"))
                    .map_err(|e| Error::Settings(format!("ipsla-test-ports: {e}")))?,
                format: format(arguments.has("ipsla-ptp")),
            })])
        },
    }),
};

const PORT: Argument =
    Argument::port("ipsla-port", "UDP port of the IP SLA responder's control messages", || {
        ipsla::PORT.to_string()
    });
const KEY_FILE: &str = "ipsla-key-file";

/// Parses the ports that a responder may open.
fn test_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let ports = quantity::ports(text).map_err(|e| e.to_string())?;
    match *ports.start() {
        0..1024 => Err("ports below 1024 belong to other services: begin at 1024 or above".to_owned()),
        _ => Ok(ports),
    }
}

fn format(ptp: bool) -> TimeFormat {
    if ptp { TimeFormat::Ptp } else { TimeFormat::Ntp }
}

/// Reads a key file.
fn keys(file: &NamedFile) -> Result<IpslaKeys, Error> {
    let wrong = |why: &dyn std::fmt::Display| Error::Settings(format!("the key file {}: {why}", file.name));
    let text = std::str::from_utf8(&file.contents).map_err(|_| wrong(&"it is not text"))?;
    IpslaKeys::parse(text).map_err(|e| wrong(&e))
}

/// Sends probes to a responder of Cisco IP SLA.
#[derive(Clone, Debug)]
pub struct IpslaClient {
    /// UDP port of control messages.
    pub port: u16,
    /// Version of control messages.
    pub version: IpslaVersion,
    /// Layout of probes.
    pub form: ProbeForm,
    /// UDP port that the responder opens; `None`: one of 16384 to 32767, which Cisco devices use for voice.
    pub target_port: Option<NonZeroU16>,
    /// Key of version 2, and its mode; `None`: unprotected.
    pub key: Option<(AuthMode, IpslaKey)>,
}

impl Default for IpslaClient {
    fn default() -> IpslaClient {
        IpslaClient {
            port: ipsla::PORT,
            version: IpslaVersion::V1,
            form: ProbeForm::Milliseconds,
            target_port: None,
            key: None,
        }
    }
}

impl IpslaClient {
    fn new(arguments: &Arguments) -> Result<IpslaClient, Error> {
        let key = arguments.file(KEY_FILE).map(|file| key(file, arguments)).transpose()?;
        let version = match arguments.text("ipsla-version") {
            Some("1") if key.is_some() => {
                let why = "--ipsla-key-file: how version 1 uses keys is not known; use --ipsla-version 2";
                return Err(Error::Settings(why.to_owned()));
            }
            Some("1") => IpslaVersion::V1,
            Some(_) => IpslaVersion::V2,
            None if key.is_some() => IpslaVersion::V2,
            None => IpslaVersion::V1,
        };
        let probe = arguments.text("ipsla-probe");
        let form = match (version, probe) {
            (IpslaVersion::V1, Some("echo")) => ProbeForm::Echo,
            (IpslaVersion::V1, Some("microseconds")) => ProbeForm::Microseconds,
            (IpslaVersion::V1, _) => ProbeForm::Milliseconds,
            (IpslaVersion::V2, Some("echo" | "microseconds")) => {
                let why = "--ipsla-probe is for version 1: version 2 has one kind of probe, with finer times";
                return Err(Error::Settings(why.to_owned()));
            }
            (IpslaVersion::V2, _) => ProbeForm::V2(format(arguments.has(stamp::PTP.name))),
        };
        if version == IpslaVersion::V1 && arguments.has(stamp::PTP.name) {
            let why = "--ptp: version 1 of IP SLA has no times in this format; use --ipsla-version 2";
            return Err(Error::Settings(why.to_owned()));
        }
        Ok(IpslaClient {
            port: arguments.value(PORT.name)?,
            version,
            form,
            target_port: arguments.get("target-port")?,
            key,
        })
    }

    /// Returns the time for which the port is needed.
    fn duration(test: &PingTest<'_>) -> Span {
        let spec = &test.plan.spec;
        let sending = match test.plan.wait {
            Some(wait) => (wait + test.plan.timeout).times(spec.packets().into()),
            None => spec.duration(),
        };
        // The port is needed from the first control message until the additional requests after the test, which determine
        // whether the responder counts.
        sending + test.plan.timeout + Span::seconds(3) + SETUP_TIME
    }
}

/// Returns the key to use, and its mode.
fn key(file: &NamedFile, arguments: &Arguments) -> Result<(AuthMode, IpslaKey), Error> {
    let keys = keys(file)?;
    let ids: Vec<u16> = keys.ids().collect();
    let id = match (arguments.get::<u16>("ipsla-key-id")?, &ids[..]) {
        (Some(id), _) | (None, &[id]) => id,
        (None, ids) => {
            let (name, n) = (&file.name, ids.len());
            return Err(Error::Settings(format!("{name} has {n} keys: choose one with --ipsla-key-id")));
        }
    };
    let key = keys.get(id).ok_or_else(|| Error::Settings(format!("{} has no key {id}", file.name)))?;
    let mode = match arguments.text("ipsla-auth") {
        Some("sha256") => AuthMode::Sha256,
        _ => AuthMode::HmacSha256,
    };
    Ok((mode, key.clone()))
}

/// Returns the port that is opened for probes from the local port `source`: one of those that Cisco devices use for
/// voice, which operating systems rarely assign to other programs.
fn usual_target(source: u16) -> u16 {
    16_384 + source % 16_384
}

impl PingClient for IpslaClient {
    fn protocol(&self) -> &'static PingProtocol {
        &PROTOCOL
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn sizes(&self) -> RequestSizes {
        RequestSizes {
            usual: self.form.usual() as u64,
            header: 0,
            range: (self.form.shortest() as u64, MAX_PAYLOAD.into()),
            beneath: Some(8),
        }
    }

    fn measure(&self, test: &PingTest<'_>) -> Result<PingResult, Error> {
        let prepared = prepare(&test.link, test.size)?;
        let local = prepared.local;
        let port = self.target_port.map_or_else(|| usual_target(local.port()), NonZeroU16::get);
        let mut random = [0; 16];
        random::fill(&mut random).map_err(|source| Error::System {
            doing: "reading random bytes for the control message",
            source,
        })?;
        let options = IpslaOptions {
            version: self.version,
            form: self.form,
            size: test.size,
            local,
            target: SocketAddr::new(test.link.to.ip(), port),
            duration: IpslaClient::duration(test),
            seq: test.mark as u32,
            key: self.key.clone(),
            random,
        };
        let client = ipsla::Client::new(options);
        let measured = run_on(prepared, |_| client, test.plan.clone(), &test.link, test.stop.flag());
        let (mut found, client) = test.gather(measured?);
        found.session.spec.dst_port = client.port();
        let version = if self.version == IpslaVersion::V1 { 1 } else { 2 };
        let (port, control) = (client.port(), test.link.to.port());
        let renewed = if client.is_renewed() { ", and again every 30 s" } else { "" };
        found.facts().remarks.push(format!(
            "UDP {port} was opened by a control message of version {version} to UDP {control}{renewed}"
        ));
        Ok(found)
    }
}
