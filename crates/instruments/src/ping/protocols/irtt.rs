//! The IRTT protocol.

use super::networks;
use crate::arguments::{Argument, Arguments, NamedFile, parses_as};
use crate::error::Error;
use crate::ping::protocol::{PingClient, PingProtocol, ProtocolServer, RequestSizes};
use crate::ping::test::{PingResult, PingTest};
use jitlat_core::spec::MAX_PAYLOAD;
use jitlat_core::{Span, Transport, quantity};
use jitlat_net::reflect::IrttReflector;
use jitlat_proto::irtt::{
    self, Fill, IrttKey, IrttOptions, IrttParams, MAX_KEYS, ReceiveStats, ServerClocks, StampAt,
};
use jitlat_proto::policy::Keys;

/// Entry of IRTT in the list of protocols.
pub static PROTOCOL: PingProtocol = PingProtocol {
    name: "irtt",
    title: "IRTT",
    answered_by: "irtt, jitlat serve",
    transport: Transport::Udp,
    payload: "of the UDP datagram (60)",
    arguments: &[
        PORT,
        KEY_FILE,
        Argument::choice(
            "tstamp",
            "WHEN",
            "When the server reads its clocks",
            &[
                ("none", "Never: round trips contain its processing time"),
                ("send", "When it answers"),
                ("receive", "When a request arrives"),
                ("both", "Both"),
                ("midpoint", "Both, as one time in the middle"),
            ],
        )
        .or(|| "both".to_owned()),
        Argument::choice(
            "server-clock",
            "CLOCK",
            "Clocks that the server reads",
            &[
                ("wall", "The time of day: gives one-way delays"),
                ("monotonic", "A clock that never steps: gives its processing time only"),
                ("both", "Both"),
            ],
        )
        .or(|| "both".to_owned()),
        Argument::choice(
            "received-stats",
            "WHAT",
            "Statistics of received requests that the server reports\n\nThey give loss by direction.",
            &[
                ("none", "Nothing"),
                ("count", "Number of requests"),
                ("window", "Arrival of each of the last 64 requests"),
                ("both", "Both"),
            ],
        )
        .or(|| "both".to_owned()),
        Argument::value(
            "fill",
            "FILL",
            "Payload of requests: none (zeros), rand or pattern:HEX",
            parses_as::<Fill>,
        )
        .or(|| Fill::None.to_string()),
        Argument::value(
            "server-fill",
            "FILL",
            "Payload of answers: none, rand or pattern:HEX (default: the server's own)\n\nnone repeats the \
             payload of the request.",
            parses_as::<Fill>,
        ),
        Argument::switch("loose", "Accept the server's limits if it restricts the test"),
    ],
    client: |arguments| Ok(Box::new(IrttClient::new(arguments)?)),
    server: Some(ProtocolServer {
        switch: None,
        arguments: &[
            PORT,
            KEY_FILE,
            Argument::file(
                KEYS_FILE,
                "File with one key per peer, in addition to that of --irtt-key-file\n\nLines of a name and a \
                 key (probe-1 0x0001…), at most 64. A session always uses the key that opened it.",
            ),
            Argument::value(
                "irtt-min-interval",
                "TIME",
                "Shortest interval granted to irtt's clients\n\nFaster requests are not answered.",
                |text| quantity::pause(text).map(drop).map_err(|e| e.to_string()),
            )
            .or(|| "0".to_owned()),
            Argument::value(
                "irtt-trust",
                "NETWORKS",
                "Networks, separated by commas, whose source addresses cannot be forged\n\nirtt clients in \
                 these networks get their session with the first request; others with the second, because \
                 its answer is longer.",
                |text| networks(text).map(drop),
            ),
        ],
        reflectors: |arguments| {
            Ok(vec![Box::new(IrttReflector {
                port: arguments.value(PORT.name)?,
                keys: server_keys(arguments)?,
                trusted: networks(arguments.text("irtt-trust").unwrap_or_default())
                    .map_err(Error::Settings)?,
                shortest_interval: interval(arguments.text("irtt-min-interval").unwrap_or("0"))?,
            })])
        },
    }),
};

const PORT: Argument = Argument::port("irtt-port", "UDP port of the IRTT server", || irtt::PORT.to_string());
const KEY_FILE: Argument = Argument::file(
    "irtt-key-file",
    "File with the key of IRTT's HMAC: text, or hexadecimal after 0x\n\nUnsigned packets are not accepted.",
);

/// Client that sends requests to an IRTT server.
#[derive(Clone, Debug)]
pub struct IrttClient {
    /// UDP port of the server.
    pub port: u16,
    /// HMAC key; only answers with a valid HMAC are accepted. `None`: no HMAC.
    pub key: Option<IrttKey>,
    /// Instants at which the server should take timestamps.
    pub stamp_at: StampAt,
    /// Clocks that the server should read.
    pub clocks: ServerClocks,
    /// Statistics about received requests that the server should return.
    pub stats: ReceiveStats,
    /// Content of the requests' payload.
    pub fill: Fill,
    /// Content of the answers' payload; `None`: chosen by the server.
    pub server_fill: Option<Fill>,
    /// True to accept limits that the server imposes.
    pub loose: bool,
}

impl Default for IrttClient {
    fn default() -> IrttClient {
        IrttClient {
            port: irtt::PORT,
            key: None,
            stamp_at: StampAt::Both,
            clocks: ServerClocks::Both,
            stats: ReceiveStats::Both,
            fill: Fill::None,
            server_fill: None,
            loose: false,
        }
    }
}

impl IrttClient {
    fn new(arguments: &Arguments) -> Result<IrttClient, Error> {
        Ok(IrttClient {
            port: arguments.value(PORT.name)?,
            key: arguments.file(KEY_FILE.name).map(key).transpose()?,
            stamp_at: match arguments.text("tstamp") {
                Some("none") => StampAt::None,
                Some("send") => StampAt::Send,
                Some("receive") => StampAt::Receive,
                Some("midpoint") => StampAt::Midpoint,
                _ => StampAt::Both,
            },
            clocks: match arguments.text("server-clock") {
                Some("wall") => ServerClocks::Wall,
                Some("monotonic") => ServerClocks::Monotonic,
                _ => ServerClocks::Both,
            },
            stats: match arguments.text("received-stats") {
                Some("none") => ReceiveStats::None,
                Some("count") => ReceiveStats::Count,
                Some("window") => ReceiveStats::Window,
                _ => ReceiveStats::Both,
            },
            fill: arguments.value("fill")?,
            server_fill: arguments.get("server-fill")?,
            loose: arguments.has("loose"),
        })
    }

    /// Returns the parameters to request, without duration and interval.
    fn params(&self, length: i64, tos: i64) -> IrttParams {
        IrttParams {
            length,
            tos,
            stats: self.stats,
            stamp_at: self.stamp_at,
            clocks: self.clocks,
            fill: self.server_fill.as_ref().map(Fill::to_string).unwrap_or_default(),
            ..IrttOptions::new(Span::ZERO, Span::ZERO).params
        }
    }

    fn shortest(&self) -> u64 {
        self.params(0, 0).shortest_packet(self.key.as_ref()) as u64
    }
}

impl PingClient for IrttClient {
    fn protocol(&self) -> &'static PingProtocol {
        &PROTOCOL
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn sizes(&self) -> RequestSizes {
        let shortest = self.shortest();
        RequestSizes { usual: shortest, header: 0, range: (shortest, MAX_PAYLOAD.into()), beneath: Some(8) }
    }

    fn measure(&self, test: &PingTest<'_>) -> Result<PingResult, Error> {
        let spec = &test.plan.spec;
        // The duration of a stop-and-wait test is not known in advance; the interval is the shortest between
        // its requests.
        let (duration, interval) = match test.plan.wait {
            Some(wait) => (Span::ZERO, wait.max(Span(1))),
            None => (spec.duration(), spec.period()),
        };
        let length = if test.size as u64 > self.shortest() { test.size as i64 } else { 0 };
        let tos = i64::from(test.link.marking.dscp.value()) << 2;
        let options = IrttOptions {
            key: self.key.clone(),
            params: IrttParams { duration, interval, ..self.params(length, tos) },
            loose: self.loose,
            fill: self.fill.clone(),
            seed: test.mark,
            ..IrttOptions::new(duration, interval)
        };
        let (mut found, client) = test.datagrams(|_| irtt::Client::new(options.clone()))?;
        let restrictions = client.granted().restrictions(&options.params);
        if !restrictions.is_empty() {
            found.facts().remarks.push(format!("the server restricts the test: {}", restrictions.join(", ")));
        }
        if client.was_ended() {
            let why = "the server ended the test at its duration limit";
            found.facts().remarks.push(why.to_owned());
        }
        Ok(found)
    }
}

fn interval(text: &str) -> Result<Span, Error> {
    quantity::pause(text).map_err(|e| Error::Settings(format!("irtt-min-interval: {e}")))
}

/// Name of the argument for the file with keys by peer.
pub const KEYS_FILE: &str = "irtt-keys-file";

/// Returns the keys of a server: one for all peers, and those of individual peers.
fn server_keys(arguments: &Arguments) -> Result<Keys<IrttKey>, Error> {
    let mut keys = Keys::from(arguments.file(KEY_FILE.name).map(key).transpose()?);
    for (name, key) in arguments.file(KEYS_FILE).map(keys_by_peer).transpose()?.unwrap_or_default() {
        keys.add(name, key);
    }
    if keys.len() > MAX_KEYS {
        let count = keys.len();
        return Err(Error::Settings(format!("IRTT: {count} keys are more than the limit of {MAX_KEYS}")));
    }
    Ok(keys)
}

/// Reads the keys of peers: one line per peer, with its name and its key.
///
/// # Errors
/// [`Error::Settings`] for the first line that is not valid.
pub fn keys_by_peer(file: &NamedFile) -> Result<Vec<(String, IrttKey)>, Error> {
    let wrong = |number: usize| {
        Error::Settings(format!(
            "key {} of {}: write the name of a peer and its key, text or hexadecimal after 0x, e.g. probe-1 0x0001…",
            number + 1,
            file.name
        ))
    };
    let text = std::str::from_utf8(&file.contents).map_err(|_| wrong(0))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parse = |(number, line): (usize, &str)| {
        let (name, key) = line.split_once(char::is_whitespace).ok_or_else(|| wrong(number))?;
        Ok((name.to_owned(), IrttKey::new(key.trim()).ok_or_else(|| wrong(number))?))
    };
    lines.enumerate().map(parse).collect()
}

/// Reads the HMAC key of IRTT from a key file.
///
/// # Errors
/// [`Error::Settings`] if the file is not text, or if the text after `0x` is not hexadecimal.
pub fn key(file: &NamedFile) -> Result<IrttKey, Error> {
    let wrong = |why: &str| Error::Settings(format!("the key file {}: {why}", file.name));
    let text = std::str::from_utf8(file.contents.trim_ascii()).map_err(|_| wrong("the key is not text"))?;
    IrttKey::new(text).ok_or_else(|| wrong("after 0x, write pairs of hexadecimal digits"))
}
