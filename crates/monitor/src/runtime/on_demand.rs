//! Tests on demand from the web page: the tests offered, and the conversion of a request to an instrument with options.

use super::measure::{measure, measure_under_load};
use super::{Equipment, TestSite};
use crate::file::{DeclaredTest, EntryError, OptionValue};
use crate::model::{OneWayTraffic, SendingHosts, Traffic};
use jitlat_core::time::SECOND;
use jitlat_core::{Span, quantity};
use jitlat_instruments::Stop;
use jitlat_instruments::load::LoadSpecs;
use jitlat_instruments::one_way::ONE_WAY_PROTOCOLS;
use jitlat_instruments::ping::PROTOCOLS;
use jitlat_proto::jitlat::PresharedKey;
use jitlat_verdict::PROFILES;
use jitlat_web::{HostOffer, Planned, RunFeed, RunRefusal, RunRequest, TestOffer};
use std::path::Path;

/// Tag of the results of tests that were requested on the web page.
pub const ASKED: (&str, &str) = ("asked", "page");

/// Returns the profiles whose traffic a test may send.
pub fn profiles() -> Vec<(String, String)> {
    PROFILES.iter().map(|p| (p.name.to_string(), p.about.to_string())).collect()
}

/// A kind of test that may be requested.
struct MeasurableTest {
    id: String,
    name: String,
    one_way: bool,
    options: Vec<(String, OptionValue)>,
}

fn choices() -> impl Iterator<Item = MeasurableTest> {
    let own = [("udp", "UDP", false), ("tcp", "TCP", true)].map(|(id, name, tcp)| MeasurableTest {
        id: format!("one-way-{id}"),
        name: format!("one-way, {name}"),
        one_way: true,
        options: if tcp { vec![("tcp".to_owned(), OptionValue::Switch(true))] } else { Vec::new() },
    });
    let by = |name: &str| vec![("proto".to_owned(), OptionValue::Text(name.to_owned()))];
    // Skip the first protocol, jitlat's own, which is listed separately.
    let others = ONE_WAY_PROTOCOLS.iter().skip(1).map(move |p| MeasurableTest {
        id: format!("one-way-{}", p.name),
        name: format!("one-way, {}", p.title),
        one_way: true,
        options: by(p.name),
    });
    let round_trips = PROTOCOLS.iter().map(move |p| MeasurableTest {
        id: format!("ping-{}", p.name),
        name: format!("round trips, {}", p.title),
        one_way: false,
        options: by(p.name),
    });
    own.into_iter().chain(others).chain(round_trips)
}

/// Test that was requested and can be run.
#[derive(Clone, Debug)]
pub struct DemandedTest {
    instrument: &'static str,
    profiles: Vec<String>,
    options: Vec<(String, OptionValue)>,
    duration: Option<Span>,
    direction: SendingHosts,
    /// Background traffic during a repetition of the test, as the command's option takes it; `None`: no repetition.
    load: Option<String>,
    /// Traffic of the test, with its load and its repetition.
    pub traffic: Traffic,
    /// Time during which packets are sent, without the wait for the last ones.
    sending: Span,
    /// Description in words.
    about: String,
}

/// Rate of a load without a given rate: it fills slow lines, and is within the usual limit of a page.
const DEFAULT_LOAD_RATE: &str = "5Mbit";
/// Bits on Ethernet per bit of TCP's payload.
const WIRE_PER_PAYLOAD: f64 = 1518.0 / 1448.0;
/// Time for which a load runs before the test begins: the default of the command.
const SETTLE: Span = Span::seconds(1);
/// Additional time of a test with a load: the connections of the load and of the repetition.
const LOAD_MARGIN: Span = Span::seconds(5);

/// Fields of a request, and the command's options that they set.
const OPTIONS: [(&str, &str); 3] = [("packets", "packets"), ("period", "period"), ("size", "payload")];

impl DemandedTest {
    /// Returns the kinds of tests that may be requested: one-way over UDP and TCP, and every other protocol.
    pub fn offered() -> Vec<TestOffer> {
        choices()
            .map(|choice| TestOffer { id: choice.id, name: choice.name, one_way: choice.one_way })
            .collect()
    }

    /// Converts a request to a test.
    ///
    /// # Errors
    /// Description of the wrong field.
    pub fn of(
        request: &RunRequest,
        host: &HostOffer,
        equipment: &dyn Equipment,
    ) -> Result<DemandedTest, RunRefusal> {
        let wrong = |field: &str, why: String| Err(RunRefusal::Field(field.to_owned(), why));
        let found = choices().find(|choice| choice.id == request.test || request.test.is_empty());
        let Some(choice) = found else {
            return wrong("test", format!("unknown test '{}'", request.test.escape_debug()));
        };
        if choice.one_way && host.only_answers {
            return wrong("test", format!("{} can only be pinged", host.name));
        }
        let direction = match (request.direction.as_str(), choice.one_way) {
            ("" | "both", _) => SendingHosts::Both,
            ("forward", true) => SendingHosts::Forward,
            ("backward", true) => SendingHosts::Backward,
            (_, false) => return wrong("direction", "a round trip always uses both directions".to_owned()),
            (other, true) => {
                let other = other.escape_debug();
                return wrong(
                    "direction",
                    format!("'{other}' is not a direction: choose both, forward or backward"),
                );
            }
        };
        let duration = match request.duration.trim() {
            "" => None,
            text => match quantity::duration(text) {
                Ok(duration) => Some(duration),
                Err(e) => return wrong("duration", e.to_string()),
            },
        };
        let mut options = choice.options;
        for (field, value) in
            [("packets", &request.packets), ("period", &request.period), ("size", &request.size)]
        {
            let option =
                OPTIONS.iter().find(|(known, _)| *known == field).map_or(field, |(_, option)| option);
            if !value.trim().is_empty() {
                options.push((option.to_owned(), OptionValue::Text(value.trim().to_owned())));
            }
        }
        let mut demand = DemandedTest {
            instrument: if choice.one_way { "one-way" } else { "ping" },
            profiles: Some(request.profile.clone()).filter(|name| !name.is_empty()).into_iter().collect(),
            options,
            duration,
            direction,
            load: None,
            traffic: Traffic::default(),
            sending: Span(0),
            about: String::new(),
        };
        demand.traffic = equipment.traffic(&demand.declared()).map_err(refused)?;
        demand.sending = sending(&demand.traffic);
        demand.about = about(&choice.name, choice.one_way, request, &demand.traffic, direction);
        if !request.load.is_empty() {
            demand.add_load(request, host)?;
        }
        Ok(demand)
    }

    /// Adds the load of the request, and the repetition of the test under it.
    fn add_load(&mut self, request: &RunRequest, host: &HostOffer) -> Result<(), RunRefusal> {
        let wrong = |field: &str, why: String| Err(RunRefusal::Field(field.to_owned(), why));
        if host.only_answers {
            return wrong("load", format!("{} can only be pinged, and takes no load", host.name));
        }
        let (up, down) = match request.load.as_str() {
            "up" => (true, false),
            "down" => (false, true),
            "both" => (true, true),
            other => {
                let other = other.escape_debug();
                return wrong("load", format!("'{other}' is not a load: choose up, down or both"));
            }
        };
        let rate = match request.load_rate.trim() {
            "" => DEFAULT_LOAD_RATE,
            rate => rate,
        };
        // The rate is read alone, so that it contains no other settings of the load.
        let payload_bits = match quantity::bit_rate(rate) {
            Ok(bits) => bits,
            Err(e) => return wrong("load_rate", e.to_string()),
        };
        let rate = match payload_bits {
            bits if bits.is_multiple_of(1_000_000) => format!("{}Mbit", bits / 1_000_000),
            bits if bits.is_multiple_of(1000) => format!("{}kbit", bits / 1000),
            bits => format!("{bits}bit"),
        };
        let text = format!("tcp:{rate},{}", request.load);
        if let Err(e) = text.parse::<LoadSpecs>() {
            return wrong("load_rate", e.to_string());
        }
        let bits = (payload_bits as f64 * WIRE_PER_PAYLOAD) as u64;
        let Traffic { duration, forward, backward, recorded } = &mut self.traffic;
        for (flow, is_loaded) in [(forward, up), (backward, down)] {
            flow.packets *= 2;
            flow.bytes *= 2;
            if is_loaded {
                let of_load = u128::from(bits) * (self.sending + SETTLE).0 as u128 / 8 / SECOND as u128;
                flow.bytes = flow.bytes.saturating_add(u64::try_from(of_load).unwrap_or(u64::MAX));
                flow.rate = flow.rate.saturating_add(bits);
            }
        }
        *recorded *= 2;
        *duration = duration.times(2) + LOAD_MARGIN;
        self.sending = self.sending.times(2) + SETTLE;
        self.about += &format!(", idle and under load ({rate} {})", request.load);
        self.load = Some(text);
        Ok(())
    }

    fn declared(&self) -> DeclaredTest<'_> {
        DeclaredTest {
            instrument: self.instrument,
            profiles: &self.profiles,
            options: &self.options,
            duration: self.duration,
            direction: self.direction,
        }
    }

    /// Returns the traffic that the test will send.
    pub fn planned(&self) -> Planned {
        let Traffic { forward, backward, .. } = self.traffic;
        Planned {
            about: self.about.clone(),
            duration_ns: self.sending.0,
            packets: forward.packets + backward.packets,
            bits_per_second: forward.rate.max(backward.rate),
        }
    }

    /// Runs the test with the hosts in `place`, and reports its progress to `feed`.
    pub fn measure(&self, equipment: &dyn Equipment, place: &TestPlacement<'_>, mut feed: RunFeed) {
        feed.started();
        let stop = Stop::from(feed.stop());
        let tags = [ASKED, ("client", place.from), ("server", place.host)];
        let site = TestSite {
            address: place.address,
            key: place.key,
            of_server: place.of_server.to_vec(),
            is_first: true,
            name: None,
            tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
            is_watched: true,
        };
        let (test, archive) = (self.declared(), place.archive);
        let result = match &self.load {
            Some(load) => measure_under_load(equipment, (&test, load), &site, &mut feed, &stop, archive),
            None => measure(equipment, &test, &site, Some(&mut feed), &stop, Some(archive)),
        };
        feed.ended(result.map_err(|(_, why)| why));
    }
}

/// Hosts of a test, and destination of its result.
pub struct TestPlacement<'a> {
    /// Name of this host.
    pub from: &'a str,
    /// Name of the far host.
    pub host: &'a str,
    /// Address of the far host.
    pub address: &'a str,
    /// Key with which this host authenticates to the far host; `None`: no key.
    pub key: Option<&'a PresharedKey>,
    /// Options of the far host's server that its clients must know.
    pub of_server: &'a [(String, OptionValue)],
    /// Folder of the archive.
    pub archive: &'a Path,
}

/// Converts a fault in an option to a refusal that names the field of the request.
fn refused(wrong: EntryError) -> RunRefusal {
    let key = wrong.key.unwrap_or_default();
    let field = OPTIONS.iter().find(|(_, option)| *option == key).map_or(key.as_str(), |(field, _)| field);
    RunRefusal::Field(field.to_owned(), wrong.message.trim_end_matches('.').to_owned())
}

/// Returns the time for which packets are sent, without the wait for the last packets.
fn sending(traffic: &Traffic) -> Span {
    let of =
        |flow: &OneWayTraffic| i128::from(flow.bytes) * 8 * i128::from(SECOND) / i128::from(flow.rate.max(1));
    let longest = of(&traffic.forward).max(of(&traffic.backward));
    // Round to milliseconds: the rates are whole bits per second, so the time is not exact.
    let milliseconds = (longest + 500_000) / 1_000_000;
    Span::millis(i64::try_from(milliseconds).unwrap_or(i64::MAX / 1_000_000))
}

fn about(
    name: &str,
    one_way: bool,
    request: &RunRequest,
    traffic: &Traffic,
    direction: SendingHosts,
) -> String {
    let way = match (one_way, direction) {
        (false, _) => "",
        (true, SendingHosts::Both) => ", both directions",
        (true, SendingHosts::Forward) => ", up only",
        (true, SendingHosts::Backward) => ", down only",
    };
    let like = if request.profile.is_empty() { String::new() } else { format!(", like {}", request.profile) };
    let packets = traffic.forward.packets.max(traffic.backward.packets);
    let seconds = (sending(traffic).as_seconds() * 10.0).round() / 10.0;
    format!("{name}{way}: {packets} packets in {seconds} s{like}")
}
