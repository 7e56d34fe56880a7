//! [`Model`]: the checked contents of the file.

use crate::alert::rule::AlertRules;
use crate::group::HostPair;
use crate::window::{MONDAY, TimeWindow};
use jitlat_core::prefix::Prefix;
use jitlat_core::{Span, Transport, WallTime};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Contents of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Hosts, in the order of the file.
    pub hosts: Vec<Host>,
    /// Tests between the hosts and to other targets, in the order of the file.
    pub tests: Vec<MonitoredTest>,
    /// Continuous captures, in the order of the file.
    pub captures: Vec<MonitoredCapture>,
    /// Routes whose changes are recorded, in the order of the file.
    pub routes: Vec<MonitoredRoute>,
    /// Times of maintenance, in which no alert begins to fire.
    pub maintenance: Vec<Maintenance>,
    /// Archive and retention of results.
    pub archive: ArchiveRules,
    /// Collectors: hosts that receive the tests of other hosts.
    pub collectors: Vec<CollectorRules>,
    /// Settings of each host's server.
    pub serve: ServeRules,
    /// Settings of the page of a host's archive; `None`: no page.
    pub web: Option<WebRules>,
    /// Alert rules and receivers.
    pub alerts: AlertRules,
    /// Time left free after each slot, which allows for clock offsets between hosts and for late starts.
    pub guard: Span,
    /// Time of a slot before and after the packets: connections, clock probes, results.
    pub setup: Span,
}

/// A host that measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name, used in the rest of the file.
    pub name: String,
    /// IP address or host name.
    pub address: String,
    /// Key of this host; `None`: the common key, if there is one.
    pub key: Option<KeySource>,
    /// Certificate with which this host pushes; `None`: it pushes with a token made from its key.
    pub certificate: Option<HostCertificate>,
    /// Bandwidth that tests may use in each direction, in bit/s; `None`: no limit.
    pub bandwidth: Option<u64>,
    /// Maximum number of concurrent tests with this host.
    pub concurrent: u32,
    /// Site of the host: hosts of a site fail together; `None`: no site.
    pub site: Option<String>,
    /// Labels of the host, by name.
    pub labels: BTreeMap<String, String>,
}

/// Certificate with which a host pushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCertificate {
    /// File with the certificate and its private key (PEM), on the host itself.
    pub file: String,
    /// Fingerprints by which collectors recognise it, during a renewal also that of the next certificate; empty: an authority
    /// must have signed it, and collectors recognise it by the name of the host in it.
    pub pins: Vec<String>,
}

impl Host {
    /// Returns all labels of the host, with its site as the label `site`.
    pub fn all_labels(&self) -> BTreeMap<String, String> {
        let site = self.site.iter().map(|site| ("site".to_owned(), site.clone()));
        self.labels.clone().into_iter().chain(site).collect()
    }
}

/// A time of maintenance: no alert begins to fire about the paths that it covers, and results of tests in this time do
/// not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// Hosts at one end of the paths; empty: all.
    pub hosts: Vec<String>,
    /// Names of the tests; empty: all.
    pub tests: Vec<String>,
    /// Start; `None`: always.
    pub from: Option<WallTime>,
    /// End; `None`: never.
    pub to: Option<WallTime>,
    /// Days and hours between start and end.
    pub window: TimeWindow,
}

impl Maintenance {
    /// True if the maintenance covers this test between these ends. For a host as a whole, `test` is empty: it is
    /// covered if all its tests are.
    pub fn covers(&self, test: &str, ends: [&str; 2]) -> bool {
        (self.tests.is_empty() || self.tests.iter().any(|name| name == test))
            && (self.hosts.is_empty() || self.hosts.iter().any(|host| ends.contains(&host.as_str())))
    }

    /// True if the maintenance takes place at this time.
    pub fn is_open(&self, at: WallTime) -> bool {
        self.from.is_none_or(|from| at >= from)
            && self.to.is_none_or(|to| at < to)
            && self.window.is_open((at - MONDAY).0)
    }
}

/// Routes between hosts, or from hosts to targets, that are examined regularly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoredRoute {
    /// Name, unique among tests, captures and routes.
    pub name: String,
    /// Indices of the hosts that examine their routes.
    pub from: Vec<u32>,
    /// Names of the far ends, which are hosts of the file or targets.
    pub to: Vec<String>,
    /// Protocol of the probes.
    pub transport: Transport,
    /// Destination port of the probes; `None`: the default of the protocol.
    pub port: Option<u16>,
    /// Time between two examinations of a route; a day is a multiple of it.
    pub every: Span,
}

/// Source of a key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// A file, relative to the folder of the monitor's file.
    File(String),
    /// The key itself.
    Text(String),
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeySource::File(name) => write!(f, "File({name})"),
            KeySource::Text(_) => f.write_str("Text(…)"),
        }
    }
}

/// A test between pairs of hosts, and its times.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitoredTest {
    /// Name, unique in the file.
    pub name: String,
    /// Pairs that are tested.
    pub pairs: TestPairs,
    /// Settings of the measurement.
    pub work: Measurement,
    /// Traffic of one test.
    pub traffic: Traffic,
    /// Time between two tests of a pair; a day is a multiple of it.
    pub every: Span,
    /// Days and hours in which the test runs.
    pub window: TimeWindow,
    /// Maximum random delay of a start. All hosts compute the same delay.
    pub spread: Span,
}

/// A continuous capture on an interface, with one result per period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoredCapture {
    /// Name, unique among tests and captures.
    pub name: String,
    /// Indices of the hosts that capture.
    pub hosts: Vec<u32>,
    /// Name of the instrument.
    pub instrument: String,
    /// True if the instrument needs a second point.
    pub two_points: bool,
    /// Name of the interface.
    pub interface: String,
    /// Index of the host at the far end; `None`: all traffic of the interface.
    pub towards: Option<u32>,
    /// Interface of the second point, on the host `towards` or on the capturing host itself; `None`: no second
    /// point.
    pub far_interface: Option<String>,
    /// Options of the command, by long name.
    pub options: Vec<(String, crate::file::OptionValue)>,
    /// Length of a period; a day is a multiple of it.
    pub every: Span,
}

impl MonitoredCapture {
    /// Returns the name of the far end.
    pub fn far<'a>(&'a self, hosts: &'a [Host]) -> &'a str {
        let named = self.towards.and_then(|far| hosts.get(far as usize)).map(|host| host.name.as_str());
        named.or(self.far_interface.as_deref()).unwrap_or(&self.interface)
    }
}

/// Settings of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Name of the instrument.
    pub instrument: String,
    /// Profiles that define the traffic and are judged.
    pub profiles: Vec<String>,
    /// Options of the command, by long name.
    pub options: Vec<(String, crate::file::OptionValue)>,
    /// Time for which packets are sent; `None`: the options determine it.
    pub duration: Option<Span>,
    /// Hosts that send, for an instrument with directions.
    pub direction: SendingHosts,
}

/// The sending host or hosts of a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendingHosts {
    /// Both hosts, at the same time.
    #[default]
    Both,
    /// The first host of the pair.
    Forward,
    /// The second host of the pair.
    Backward,
}

/// Pairs of hosts that are tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestPairs {
    /// Pairs, ordered so that neighbours in the list have few hosts in common.
    pub list: Vec<HostPair>,
    /// Targets that are not hosts of the file. In a pair, end `hosts.len() + k` is target `k`.
    pub targets: Vec<String>,
}

/// Traffic of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Time during which packets are sent and received.
    pub duration: Span,
    /// Traffic from the first host of a pair to the second.
    pub forward: OneWayTraffic,
    /// Traffic from the second host to the first.
    pub backward: OneWayTraffic,
    /// Number of packets whose times are stored.
    pub recorded: u64,
}

/// Traffic in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OneWayTraffic {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes on the wire.
    pub bytes: u64,
    /// Rate while packets are sent, in bit/s.
    pub rate: u64,
}

/// Archive and retention of results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveRules {
    /// Folder, relative to that of the file; `None`: results are not stored.
    pub folder: Option<String>,
    /// Retention of packets in days; `None`: for ever.
    pub packets: Option<u32>,
    /// Retention of the figures of single tests in days; `None`: for ever.
    pub tests: Option<u32>,
    /// Maximum size of all stored packets, in bytes; the oldest days are removed first. `None`: no limit.
    pub size: Option<u64>,
}

/// A host that receives the tests of other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorRules {
    /// Index of the host.
    pub host: usize,
    /// TCP port that the collector listens on.
    pub port: u16,
    /// Address to which hosts push if a proxy is in between; `None`: that of the host, at `port`.
    pub url: Option<CollectorUrl>,
    /// Indices of the hosts that push, each with its own key or certificate.
    pub from: Vec<usize>,
    /// Maximum size of the packets that a pushing host stores until this collector accepts them, in bytes;
    /// beyond it, the oldest tests are dropped and counted.
    pub spool: u64,
    /// True if the collector listens without TLS.
    pub plain: bool,
    /// Method by which pushing hosts check that they are connected to the collector, or to the proxy.
    pub trust: CollectorTrust,
    /// File with the collector's certificate and private key (PEM); `None`: the collector makes its own.
    pub certificate: Option<String>,
    /// File with the authorities that sign certificates of hosts (PEM); `None`: hosts have pinned certificates, or tokens.
    pub host_ca_file: Option<String>,
    /// Networks of the proxies that connect for hosts; empty: hosts connect directly.
    pub proxies: Vec<Prefix>,
    /// Maximum time by which a log may be dated after its arrival.
    pub skew: Span,
    /// Limits on the tests that each host pushes.
    pub quota: CollectorQuota,
}

/// Address of a collector behind a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorUrl {
    /// Name or address of the proxy.
    pub host: String,
    /// TCP port of the proxy.
    pub port: u16,
    /// True if hosts connect to the proxy over TLS.
    pub is_secure: bool,
    /// Beginning of the path of every request; empty, or `/` and text that does not end in `/`.
    pub prefix: String,
}

/// Method by which a pushing host checks that it is connected to the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectorTrust {
    /// By an authority that the system of the host trusts.
    System,
    /// By an authority in this file (PEM).
    CaFile(String),
    /// By the fingerprint of the collector's certificate.
    Pin(String),
    /// No check: the connection has no TLS.
    Plain,
}

/// Limits on the tests that each host pushes; `None`: the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectorQuota {
    /// Tests per second.
    pub tests_per_second: Option<u32>,
    /// Bytes of logs per day.
    pub bytes_per_day: Option<u64>,
    /// Bytes of logs whose packets the collector keeps.
    pub bytes: Option<u64>,
}

/// Settings of each host's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeRules {
    /// True if the monitor answers tests itself.
    pub on: bool,
    /// Common key of all hosts without a key of their own; `None`: no common key.
    pub key: Option<KeySource>,
    /// Options of `jitlat serve`, by long name.
    pub options: Vec<(String, crate::file::OptionValue)>,
}

/// Settings of the page of a host's archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebRules {
    /// Indices of the hosts that have a page; `None`: all.
    pub hosts: Option<Vec<usize>>,
    /// Address and port to listen on; `None`: the defaults.
    pub listen: (Option<IpAddr>, Option<u16>),
    /// Users who may read the page.
    pub readers: Readers,
    /// File with the certificate and its private key (PEM); `None`: the page makes its own if it needs one.
    pub certificate: Option<String>,
    /// True if other hosts may read the page without TLS.
    pub plain: bool,
    /// Address of the page for readers, which messages of alerts link to; `None`: that of the page, if other hosts can reach it.
    pub link: Option<String>,
    /// Limits of tests that are started from the page; `None`: nobody can start tests.
    pub run: Option<RunRules>,
}

/// Limits of tests that are started from a page. `None` selects the default of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRules {
    /// File with the token of permitted users, relative to the folder of the monitor's file; `None`: the users of the
    /// host are permitted.
    pub token: Option<String>,
    /// Maximum time for which a test may send.
    pub longest: Option<Span>,
    /// Maximum rate per direction, in bit/s.
    pub rate: Option<u64>,
    /// Maximum number of tests that wait or run at the same time.
    pub at_once: Option<u32>,
    /// Maximum number of tests started per hour.
    pub per_hour: Option<u32>,
}

impl WebRules {
    /// True if `host` has a page.
    pub fn is_of(&self, host: usize) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.contains(&host))
    }
}

/// Users who may read a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readers {
    /// The users of the host.
    Local,
    /// Users with the token in this file; relative to the folder of the monitor's file.
    Token(String),
    /// All users; a proxy in front of the page checks them. It connects from one of these networks; empty: from anywhere.
    Proxy(Vec<Prefix>),
}

impl Model {
    /// Returns the index of the host `name`; `None` if it does not exist.
    pub fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|h| h.name == name)
    }

    /// Returns the captures of a host.
    pub fn captures_of(&self, host: usize) -> impl Iterator<Item = &MonitoredCapture> {
        self.captures.iter().filter(move |capture| capture.hosts.contains(&(host as u32)))
    }

    /// Returns the interfaces on which a host captures for other hosts.
    pub fn far_interfaces(&self, host: usize) -> Vec<String> {
        let far = self.captures.iter().filter(|capture| capture.towards == Some(host as u32));
        let mut list: Vec<String> = far.filter_map(|capture| capture.far_interface.clone()).collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    /// Returns the name of end `k` of a pair of `test`.
    pub fn end<'a>(&'a self, test: &'a MonitoredTest, k: u32) -> &'a str {
        let k = k as usize;
        match self.hosts.get(k) {
            Some(host) => &host.name,
            None => test.pairs.targets.get(k - self.hosts.len()).map_or("", String::as_str),
        }
    }

    /// Returns the length of a slot of `test`, without guard.
    pub fn slot(&self, test: &MonitoredTest) -> Span {
        test.traffic.duration + self.setup + test.spread
    }
}
