//! The STAMP protocol, and TWAMP Light, whose packets have the same basic layout.

use super::{ANY_PORT, networks};
use crate::arguments::{Argument, Arguments, NamedFile, parses_as};
use crate::error::Error;
use crate::ping::protocol::{PingClient, PingProtocol, ProtocolServer, RequestSizes};
use crate::ping::test::{PingResult, PingTest};
use jitlat_core::ntp::{ErrorEstimate, TimeFormat};
use jitlat_core::prefix::Prefix;
use jitlat_core::spec::{Dscp, MAX_PAYLOAD};
use jitlat_core::{EcnMarking, TestSpec, Transport, units};
use jitlat_net::clock;
use jitlat_net::reflect::StampReflector;
use jitlat_net::twoway::TwoWayLink;
use jitlat_proto::stamp::{self, StampSender, auth::StampKey, sender::StampOptions};
use jitlat_proto::twamp::{SecurityMode, sender};
use std::num::NonZeroU16;

/// Entry of STAMP in the list of protocols.
pub static PROTOCOL: PingProtocol = PingProtocol {
    name: "stamp",
    title: "STAMP",
    answered_by: "routers, probes, jitlat serve",
    transport: Transport::Udp,
    payload: "of the UDP datagram (44)",
    arguments: &[
        PORT,
        ANY_PORT,
        PTP,
        KEY_FILE,
        Argument::value("ssid", "N", "Session identifier", parses_as::<u16>).or(|| "0".to_owned()),
        Argument::value(
            "cos",
            "DSCP",
            "Ask for this DSCP on answers, and for the DSCP with which requests arrive\n\n0 to 63 or a name. \
             -D asks for both, too, with its own DSCP.",
            parses_as::<Dscp>,
        ),
        Argument::switch("direct-measurement", "Ask the far host how many packets it has received and sent"),
        Argument::switch(
            "telemetry",
            "Ask for the actual send times of answers and the source of the far timestamps",
        ),
    ],
    client: |arguments| Ok(Box::new(StampClient::new(arguments)?)),
    server: Some(ProtocolServer {
        switch: None,
        arguments: &[
            PORT,
            Argument::file(
                "stamp-key-file",
                "File with the key of STAMP's authenticated mode, in hexadecimal\n\n\
                 Unsigned requests are not answered.",
            ),
            Argument::file(
                KEYS_FILE,
                "File with keys by network; they take precedence over --stamp-key-file\n\nLines of a network \
                 and a key in hexadecimal (192.0.2.0/24 000102…). STAMP has no names of peers.",
            ),
            Argument::value(
                "stamp-sessions",
                "N",
                "STAMP sessions with counted answers, for loss by direction; 0: stateless",
                parses_as::<usize>,
            )
            .or(|| StampReflector::default().sessions.to_string()),
            Argument::value(
                "stamp-trust",
                "NETWORKS",
                "Networks whose source addresses cannot be forged: a list, or link\n\nShort TWAMP Light requests \
                 (twampy's by default) from these networks get a whole answer; others get an answer cut to the size \
                 of the request. The list is separated by commas; link stands for all directly connected networks \
                 at the start of the server.",
                |text| networks(text).map(drop),
            ),
            Argument::value(
                "stamp-link-id",
                "N",
                "Number of this host's link in micro-sessions (RFC 9534)\n\nRequests for another number are not \
                 answered. Without this option, the extension is returned as not supported.",
                parses_as::<NonZeroU16>,
            ),
        ],
        reflectors: |arguments| {
            Ok(vec![Box::new(StampReflector {
                port: arguments.value(PORT.name)?,
                key: arguments.file(KEY_FILE.name).map(key).transpose()?,
                keys: arguments.file(KEYS_FILE).map(keys).transpose()?.unwrap_or_default(),
                sessions: arguments.value("stamp-sessions")?,
                trusted: networks(arguments.text("stamp-trust").unwrap_or_default())
                    .map_err(Error::Settings)?,
                link_id: arguments.get::<NonZeroU16>("stamp-link-id")?.map(NonZeroU16::get),
            })])
        },
    }),
};

pub(super) const PORT: Argument =
    Argument::port("stamp-port", "UDP port of the STAMP or TWAMP Light reflector", || {
        stamp::PORT.to_string()
    });
pub(super) const PTP: Argument = Argument::switch(
    "ptp",
    "Write times in the PTP format instead of NTP's\n\nSeconds and nanoseconds; also for TWAMP Light, and for IP SLA version 2.",
);
pub(super) const KEY_FILE: Argument =
    Argument::file("stamp-key-file", "File with the key of STAMP's authenticated mode, in hexadecimal");

/// Sends requests to a STAMP or TWAMP Light reflector.
#[derive(Clone, Debug)]
pub struct StampClient {
    /// UDP port of the reflector.
    pub port: u16,
    /// True to send TWAMP Light requests, without STAMP's extensions.
    pub light: bool,
    /// Key that authenticates requests; only authenticated answers are accepted. `None`: unauthenticated
    /// mode.
    pub key: Option<StampKey>,
    /// Session identifier (SSID, RFC 8972).
    pub ssid: u16,
    /// DSCP that answers should have; the reflector also reports the DSCP of the requests it received.
    /// `None`: the DSCP of the test, if set.
    pub class_of_service: Option<Dscp>,
    /// True to request the far host's packet counters (Direct Measurement, RFC 8972).
    pub direct_measurement: bool,
    /// True to request the actual send times of answers, and the source of the far host's timestamps.
    pub telemetry: bool,
    /// Format of timestamps.
    pub format: TimeFormat,
    /// True to accept answers from any UDP port of the far host.
    pub any_port: bool,
}

impl Default for StampClient {
    fn default() -> StampClient {
        StampClient {
            port: stamp::PORT,
            light: false,
            key: None,
            ssid: 0,
            class_of_service: None,
            direct_measurement: false,
            telemetry: false,
            format: TimeFormat::Ntp,
            any_port: false,
        }
    }
}

impl StampClient {
    fn new(arguments: &Arguments) -> Result<StampClient, Error> {
        Ok(StampClient {
            key: arguments.file(KEY_FILE.name).map(key).transpose()?,
            ssid: arguments.value("ssid")?,
            class_of_service: arguments.get("cos")?,
            direct_measurement: arguments.has("direct-measurement"),
            telemetry: arguments.has("telemetry"),
            ..StampClient::common(arguments)?
        })
    }

    /// Creates a TWAMP Light client.
    pub(super) fn light(arguments: &Arguments) -> Result<StampClient, Error> {
        Ok(StampClient { light: true, ..StampClient::common(arguments)? })
    }

    fn common(arguments: &Arguments) -> Result<StampClient, Error> {
        let format = if arguments.has(PTP.name) { TimeFormat::Ptp } else { TimeFormat::Ntp };
        let any_port = arguments.has(ANY_PORT.name);
        Ok(StampClient { port: arguments.value(PORT.name)?, format, any_port, ..StampClient::default() })
    }

    fn options(&self, test: &PingTest<'_>) -> StampOptions {
        // Only STAMP has extensions.
        let extended = !self.light;
        let own = Some(test.link.marking.dscp).filter(|d| d.value() != 0);
        StampOptions {
            size: test.size,
            light: self.light,
            ssid: self.ssid,
            key: self.key.clone(),
            error: ErrorEstimate::of_clock(clock::sync_state(), self.format),
            class_of_service: self.class_of_service.or(own).filter(|_| extended).map(Dscp::value),
            marking: if extended { test.plan.spec.marking } else { EcnMarking::Off },
            direct_measurement: self.direct_measurement && extended,
            follow_up: self.telemetry && extended,
            timestamp_info: self.telemetry && extended,
        }
    }
}

impl PingClient for StampClient {
    fn protocol(&self) -> &'static PingProtocol {
        &PROTOCOL
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn sizes(&self) -> RequestSizes {
        let usual = match self.key {
            _ if self.light => sender::least_size(SecurityMode::Open) as u64,
            // Lengths of the base packet in the authenticated and in the unauthenticated mode.
            Some(_) => 112,
            None => 44,
        };
        let least = if self.light { sender::size(SecurityMode::Open, 0) as u64 } else { usual };
        RequestSizes { usual, header: 0, range: (least, MAX_PAYLOAD.into()), beneath: Some(8) }
    }

    fn adapt(&self, link: &mut TwoWayLink) {
        link.marking.any_port = self.any_port;
    }

    fn measure(&self, test: &PingTest<'_>) -> Result<PingResult, Error> {
        let sender = StampSender::new(self.options(test));
        let mut test = test.clone();
        if sender.size() != test.size {
            let s = &test.plan.spec;
            let (packets, size) = (s.packets().into(), sender.size() as u64);
            let mut spec =
                TestSpec::new(s.direction(), s.transport(), packets, size, s.period(), s.schedule())?;
            (spec.dscp, spec.marking) = (s.dscp, s.marking);
            test.plan.spec = spec;
        }
        let (mut found, sender) = test.datagrams(|_| sender)?;
        found.facts().answer_dscp = self.class_of_service.map(Dscp::value);
        let marks = sender.marks();
        (found.facts().request_dscp, found.facts().request_ecn) = (marks.dscp.clone(), marks.ecn.clone());
        let marking = test.plan.spec.marking;
        // A test with marks asks for the class of service, whatever its DSCP.
        let asked =
            !marking.is_on() || self.class_of_service.is_some() || test.link.marking.dscp.value() != 0;
        found.facts().remarks.extend(remarks(&sender, test.link.marking.dscp, asked));
        if marking.is_on() {
            found.facts().remarks.extend(mark_remarks(&sender));
        }
        Ok(found)
    }
}

/// Describes the facts that the far host reported in extensions; `asked` is true if the DSCP is of interest.
fn remarks(sender: &StampSender, dscp: Dscp, asked: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    // A warning reports changed marks.
    let marks = sender.marks();
    if asked && marks.dscp.keys().copied().eq([dscp.value()]) {
        remarks.push(format!("DSCP {dscp} arrives unchanged at the far host"));
    }
    if marks.refused > 0 {
        remarks.push("the far host's policy does not let requests choose the DSCP of answers".to_owned());
    }
    if let Some(c) = sender.counters() {
        remarks.push(format!(
            "counters in the far host's last report: {} requests sent, {} arrived, {} answered",
            c.sender_sent, c.reflector_received, c.reflector_sent
        ));
        let unanswered = c.reflector_received.wrapping_sub(c.reflector_sent);
        // If the count restarted, the difference is larger than the number of requests.
        if (1..=c.sender_sent).contains(&unanswered) {
            remarks.push(format!(
                "{unanswered} requests arrived at the far host and were not answered, probably because it limits its answers: the path did not lose them"
            ));
        }
    }
    if let Some([source_in, method_in, source_out, method_out]) = sender.far_stamps() {
        remarks.push(format!(
            "timestamps of the far host: arrivals {}, clock synchronised by {}; answers {}, clock synchronised by {}",
            method(method_in),
            sync_source(source_in),
            method(method_out),
            sync_source(source_out)
        ));
    }
    let lag = sender.lag();
    if lag.known > 0 {
        remarks.push(format!(
            "{} answers contain the departure time of the previous answer: on average {} after the timestamp \
             in it, at most {}; this time is not part of round trips and of the down direction",
            lag.known,
            units::eng4(lag.sum.0 / lag.known as i64),
            units::eng4(lag.largest.0)
        ));
    }
    remarks
}

/// Describes the marks that the far host does not report or apply.
fn mark_remarks(sender: &StampSender) -> Vec<String> {
    let marks = sender.marks();
    let mut remarks = Vec::new();
    if marks.ecn.is_empty() {
        remarks.push("the far host does not report with which marks (ECN) requests arrive".to_owned());
    } else if marks.without_ecn > 0 {
        remarks.push(
            "the far host reports the marks (ECN) of requests, but not those of its answers: it only knows RFC 8972".to_owned(),
        );
    }
    if marks.unmarked > 0 {
        remarks.push("the far host cannot send answers with the requested marks (ECN)".to_owned());
    }
    remarks
}

/// Returns the name of the source that synchronises a clock, from the code of RFC 8972 §4.3.
fn sync_source(code: u8) -> &'static str {
    match code {
        1 => "NTP",
        2 => "PTP",
        3 => "SSU/BITS",
        4 => "satellite",
        5 => "nothing",
        _ => "an unknown source",
    }
}

/// Returns the name of the method by which a timestamp was taken, from the code of RFC 8972 §4.3.
fn method(code: u8) -> &'static str {
    match code {
        1 => "in hardware",
        2 => "in software",
        3 => "in the control plane",
        _ => "by unknown means",
    }
}

/// Name of the argument for the file with keys by network.
pub const KEYS_FILE: &str = "stamp-keys-file";

/// Reads the keys of networks: one line per network, with the network and its key.
///
/// # Errors
/// [`Error::Settings`] for the first line that is not valid.
pub fn keys(file: &NamedFile) -> Result<Vec<(Prefix, StampKey)>, Error> {
    let text = String::from_utf8_lossy(&file.contents);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parse = |(number, line): (usize, &str)| {
        let entry = line.split_once(char::is_whitespace);
        let network = entry.and_then(|(network, _)| network.parse().ok());
        let key = entry.and_then(|(_, digits)| hexadecimal(digits.trim().as_bytes()));
        network.zip(key).ok_or_else(|| {
            let (number, name) = (number + 1, &file.name);
            Error::Settings(format!(
                "key {number} of {name}: write a network and a key in hexadecimal, e.g. 192.0.2.0/24 000102…"
            ))
        })
    };
    lines.enumerate().map(parse).collect()
}

/// Reads the key of STAMP's authenticated mode from a key file.
///
/// # Errors
/// [`Error::Settings`] if the file is not hexadecimal.
pub fn key(file: &NamedFile) -> Result<StampKey, Error> {
    hexadecimal(file.contents.trim_ascii()).ok_or_else(|| {
        let name = &file.name;
        Error::Settings(format!(
            "the key file {name} is not hexadecimal: write pairs of digits, e.g. 000102…"
        ))
    })
}

/// Parses a key in hexadecimal digits; `None` if it is empty or not hexadecimal.
fn hexadecimal(digits: &[u8]) -> Option<StampKey> {
    let pair = |p: &[u8]| std::str::from_utf8(p).ok().and_then(|h| u8::from_str_radix(h, 16).ok());
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(|p| pair(p).filter(|_| p.len() == 2)).collect();
    bytes.filter(|b| !b.is_empty()).map(|bytes| StampKey::new(&bytes))
}
