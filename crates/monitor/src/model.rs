//! [`Model`]: what the file says, checked.

use crate::alert::rule::AlertRules;
use crate::group::HostPair;
use crate::window::TimeWindow;
use jitlat_core::Span;
use std::net::IpAddr;

/// What the file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The hosts, in the order of the file.
    pub hosts: Vec<Host>,
    /// The tests between them and to targets elsewhere, in the order of the file.
    pub tests: Vec<MonitoredTest>,
    /// What is captured all the time, in the order of the file.
    pub captures: Vec<MonitoredCapture>,
    /// Where results are kept.
    pub archive: ArchiveRules,
    /// Hosts that others push their tests to.
    pub collectors: Vec<CollectorRules>,
    /// What each host answers.
    pub serve: ServeRules,
    /// The page of its archive that a host has; `None`: none.
    pub web: Option<WebRules>,
    /// What somebody wants to be told.
    pub alerts: AlertRules,
    /// Time left free after each slot: clocks may differ by as much, and starts be as late.
    pub guard: Span,
    /// Time of a slot for what comes before and after the packets: connections, clock probes, results.
    pub setup: Span,
}

/// A host that measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name, by which the others of the file call it.
    pub name: String,
    /// An address, or a name to look up.
    pub address: String,
    /// Its own key; `None`: that of all, if there is one.
    pub key: Option<KeySource>,
    /// Bits a second that tests may use of its link in each direction; `None`: not limited.
    pub bandwidth: Option<u64>,
    /// Tests it may take part in at a time.
    pub concurrent: u32,
}

/// Where a key is.
#[derive(Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In a file, named from the folder of this one.
    File(String),
    /// Here.
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

/// What is measured between pairs of hosts, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitoredTest {
    /// Its name: unique in the file.
    pub name: String,
    /// Who is tested with whom.
    pub pairs: TestPairs,
    /// How.
    pub work: Measurement,
    /// What that sends.
    pub traffic: Traffic,
    /// Time between two tests of a pair, which divides a day.
    pub every: Span,
    /// When it is measured at all.
    pub window: TimeWindow,
    /// Starts are shifted by up to this time, at random, and the same on all hosts.
    pub spread: Span,
}

/// What passes an interface, all the time, a result a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoredCapture {
    /// Its name: unique among tests and captures.
    pub name: String,
    /// The hosts that capture, by their places.
    pub hosts: Vec<u32>,
    /// The instrument, by name.
    pub instrument: String,
    /// Whether it needs a second point.
    pub two_points: bool,
    /// The interface.
    pub interface: String,
    /// The host at the far end, by its place; `None`: whatever lies beyond the interface.
    pub towards: Option<u32>,
    /// The interface of the second point, at the host `towards` or at the one that captures; `None`: there is no second point.
    pub far_interface: Option<String>,
    /// Options as of the command, by their long name.
    pub options: Vec<(String, crate::file::OptionValue)>,
    /// The length of a period, which divides a day.
    pub every: Span,
}

impl MonitoredCapture {
    /// What the far end is called.
    pub fn far<'a>(&'a self, hosts: &'a [Host]) -> &'a str {
        let named = self.towards.and_then(|far| hosts.get(far as usize)).map(|host| host.name.as_str());
        named.or(self.far_interface.as_deref()).unwrap_or(&self.interface)
    }
}

/// How something is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// The instrument, by name.
    pub instrument: String,
    /// Uses to send as, and to judge.
    pub profiles: Vec<String>,
    /// Options as of the command, by their long name.
    pub options: Vec<(String, crate::file::OptionValue)>,
    /// How long packets are sent; `None`: as the options say.
    pub duration: Option<Span>,
    /// In which direction, of an instrument that has directions.
    pub direction: SendingHosts,
}

/// Which of both hosts of a pair sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendingHosts {
    /// Both, at once.
    #[default]
    Both,
    /// The first of the pair.
    Forward,
    /// The second.
    Backward,
}

/// Who is tested with whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestPairs {
    /// In an order in which neighbours of the list have few hosts in common.
    pub list: Vec<HostPair>,
    /// Targets that are no hosts of the file: end `hosts.len() + k` of a pair is target `k`.
    pub targets: Vec<String>,
}

/// What a test sends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// How long packets are sent, and awaited.
    pub duration: Span,
    /// From the first of a pair to the second.
    pub forward: OneWayTraffic,
    /// From the second to the first.
    pub backward: OneWayTraffic,
    /// Packets whose times are kept.
    pub recorded: u64,
}

/// Packets in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OneWayTraffic {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Bits a second while they are sent.
    pub rate: u64,
}

/// Where results are kept, and how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveRules {
    /// The folder, named from that of the file; `None`: results are not kept.
    pub folder: Option<String>,
    /// Days that packets are kept; `None`: for ever.
    pub packets: Option<u32>,
    /// Days that the figures of single tests are kept; `None`: for ever.
    pub tests: Option<u32>,
    /// Bytes that packets may take; the oldest days go first.
    pub size: Option<u64>,
}

/// A host that others push their tests to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorRules {
    /// Its place among the hosts.
    pub host: usize,
    /// The TCP port that it listens on.
    pub port: u16,
    /// The places of the hosts that push, each with a key of its own.
    pub from: Vec<usize>,
    /// Bytes of packets that may wait at a host for it; beyond them the oldest tests are dropped, and counted.
    pub spool: u64,
}

/// What each host answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeRules {
    /// Whether the monitor answers tests itself.
    pub on: bool,
    /// The key of all hosts that have none of their own.
    pub key: Option<KeySource>,
    /// Options as of `jitlat serve`, by their long name.
    pub options: Vec<(String, crate::file::OptionValue)>,
}

/// The page of a host's archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebRules {
    /// The hosts that have one, by their places; `None`: all.
    pub hosts: Option<Vec<usize>>,
    /// Address and port to listen at; `None`: the usual ones.
    pub listen: (Option<IpAddr>, Option<u16>),
    /// Who may read it.
    pub readers: Readers,
    /// Tests that are started from it; `None`: there are none.
    pub run: Option<RunRules>,
}

/// Tests that are started from a page. What is `None` is as usual there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRules {
    /// The file with the token of those who may, named from the folder of this one; `None`: the users of the host may.
    pub token: Option<String>,
    /// How long a test may send.
    pub longest: Option<Span>,
    /// Bits a second that it may send in a direction.
    pub rate: Option<u64>,
    /// Tests that may wait or be under way at the same time.
    pub at_once: Option<u32>,
    /// Tests that may be begun within an hour.
    pub per_hour: Option<u32>,
}

impl WebRules {
    /// Whether `host` has one.
    pub fn is_of(&self, host: usize) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.contains(&host))
    }
}

/// Who may read a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readers {
    /// The users of the host.
    Local,
    /// Who knows the token in this file, named from the folder of this one.
    Token(String),
    /// Those whom a proxy before it lets through.
    Proxy,
}

impl Model {
    /// The place of the host `name`; `None` if there is none.
    pub fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|h| h.name == name)
    }

    /// The captures of a host.
    pub fn captures_of(&self, host: usize) -> impl Iterator<Item = &MonitoredCapture> {
        self.captures.iter().filter(move |capture| capture.hosts.contains(&(host as u32)))
    }

    /// The interfaces of a host of which others are told what passes.
    pub fn far_interfaces(&self, host: usize) -> Vec<String> {
        let far = self.captures.iter().filter(|capture| capture.towards == Some(host as u32));
        let mut list: Vec<String> = far.filter_map(|capture| capture.far_interface.clone()).collect();
        list.sort();
        list.dedup();
        list
    }

    /// The name of end `k` of a pair of `test`.
    pub fn end<'a>(&'a self, test: &'a MonitoredTest, k: u32) -> &'a str {
        let k = k as usize;
        match self.hosts.get(k) {
            Some(host) => &host.name,
            None => test.pairs.targets.get(k - self.hosts.len()).map_or("", String::as_str),
        }
    }

    /// The length of a slot of `test`, without guard.
    pub fn slot(&self, test: &MonitoredTest) -> Span {
        test.traffic.duration + self.setup + test.spread
    }
}
