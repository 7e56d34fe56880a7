//! Sections of the file about groups and tests.

use super::hosts::{pause, plain, report_option_fault};
use super::keys::{CAPTURE, GROUP, PING, ROUTE, TEST, choose};
use super::reader::{Located, TableReader};
use super::{DeclaredTest, Instruments, MAX_PAIRS, Sections};
use crate::group::{self, HostPair, StartingEnd};
use crate::model::{Host, Measurement, MonitoredTest, SendingHosts, TestPairs, Traffic};
use crate::window::{DAY, TimeWindow};
use jitlat_core::Span;
use jitlat_core::far_host::FarHost;
use jitlat_core::quantity;
use jitlat_core::time::SECOND;
use std::collections::{HashMap, HashSet};

/// A group of the file.
struct Group {
    name: String,
    pairs: Vec<(u32, u32)>,
}

/// Context in which all tests are read.
struct Context<'a, 'b> {
    file: &'a Sections<'b>,
    hosts: &'a [Host],
    /// Index of each host, by name.
    by_name: HashMap<&'a str, u32>,
    instruments: &'a dyn Instruments,
    /// Sum of guard and setup time.
    around: Span,
}

pub fn tests(
    file: &Sections<'_>,
    hosts: &[Host],
    instruments: &dyn Instruments,
    around: Span,
) -> Vec<MonitoredTest> {
    // Of hosts with the same name, which is a fault, the first counts.
    let by_name = hosts.iter().enumerate().rev().map(|(k, host)| (host.name.as_str(), k as u32)).collect();
    let context = Context { file, hosts, by_name, instruments, around };
    let groups = context.groups();
    let mut tests: Vec<MonitoredTest> = Vec::new();
    let named = file.tables(&TEST).into_iter().map(|table| (context.test(&table, &groups), table));
    let pings = file.tables(&PING).into_iter().map(|table| (context.ping(&table), table));
    for (test, table) in named.chain(pings) {
        let Some(test) = test else { continue };
        if tests.iter().any(|t| t.name == test.name) {
            table.fault(
                "name",
                format!("another test has the name '{}': choose another name", test.name.escape_debug()),
            );
        }
        tests.push(test);
        if tests.iter().map(|t| t.pairs.list.len()).sum::<usize>() > MAX_PAIRS {
            table.fault(
                "name",
                format!("the tests have more than {MAX_PAIRS} pairs of hosts in total: use fewer"),
            );
            break;
        }
    }
    let section = |name| file.root.iter().any(|(k, _)| k.get_ref() == name);
    if !section(TEST.name) && !section(PING.name) && !section(CAPTURE.name) && !section(ROUTE.name) {
        let example = "write [[test]] with name and every, or [[ping]] with name, targets and every";
        file.faults.add(&(0..0), format!("the file has no tests: {example}"));
    }
    tests
}

impl Context<'_, '_> {
    fn host(&self, name: &Located<String>) -> Option<u32> {
        if let Some(index) = self.by_name.get(name.get_ref().as_str()) {
            return Some(*index);
        }
        let names: Vec<&str> = self.hosts.iter().map(|h| h.name.as_str()).filter(|n| !n.is_empty()).collect();
        let meant = choose(name.get_ref(), &names);
        self.file
            .faults
            .add(&name.span(), format!("unknown host '{}': {meant}", name.get_ref().escape_debug()));
        None
    }

    /// Returns the indices of the hosts in a list; a repeated host is a fault.
    fn hosts(&self, names: &[Located<String>]) -> Vec<u32> {
        let mut list: Vec<u32> = Vec::new();
        let mut known = vec![false; self.hosts.len()];
        for name in names {
            let Some(host) = self.host(name) else { continue };
            if std::mem::replace(&mut known[host as usize], true) {
                self.file.faults.add(&name.span(), format!("'{}' is listed twice", name.get_ref()));
            } else {
                list.push(host);
            }
        }
        list
    }

    /// Reads the hosts under `key`; all hosts if it is missing.
    fn hosts_or_all(&self, table: &TableReader<'_>, key: &str) -> Vec<u32> {
        match table.texts(key) {
            Some(names) => self.hosts(&names),
            None => (0..self.hosts.len() as u32).collect(),
        }
    }

    fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for table in self.file.tables(&GROUP) {
            let Some(name) = table.name("name = \"all\"") else { continue };
            let pairs = self.pairs(&table);
            if groups.iter().any(|g| g.name == *name.get_ref()) {
                table.fault(
                    "name",
                    format!(
                        "another group has the name '{}': choose another name",
                        name.get_ref().escape_debug()
                    ),
                );
            }
            groups.push(Group { name: name.into_inner(), pairs });
        }
        groups
    }

    fn pairs(&self, table: &TableReader<'_>) -> Vec<(u32, u32)> {
        let kinds = ["mesh", "star", "pairs", "disjoint"];
        let Some(kind) = table.needed("kind", "kind = \"mesh\", \"star\", \"pairs\" or \"disjoint\"") else {
            return Vec::new();
        };
        let unused: &[&str] = match kind.get_ref().as_str() {
            "mesh" => &["centre", "pairs", "lists"],
            "star" => &["pairs", "lists"],
            "pairs" => &["hosts", "centre", "lists"],
            "disjoint" => &["hosts", "centre", "pairs"],
            _ => &[],
        };
        for key in unused.iter().filter(|key| table.has(key)) {
            table.fault(key, format!("a group of kind {} has no '{key}': leave it out", kind.get_ref()));
        }
        let pairs = match kind.get_ref().as_str() {
            "mesh" => match self.mesh(table, &self.hosts_or_all(table, "hosts")) {
                Some(pairs) => pairs,
                None => return Vec::new(),
            },
            "star" => {
                let Some(centre) = table.needed("centre", "centre = \"NAME\", a host") else {
                    return Vec::new();
                };
                match self.host(&centre) {
                    Some(centre) => group::star(centre, &self.hosts_or_all(table, "hosts")),
                    None => return Vec::new(),
                }
            }
            "pairs" => match table.lists("pairs") {
                Some(lists) => self.listed(&lists),
                None => {
                    table.missing("pairs", "pairs = [[\"a\", \"b\"], [\"a\", \"c\"]]");
                    return Vec::new();
                }
            },
            "disjoint" => match table.lists("lists") {
                Some(lists) => {
                    let all: Vec<Located<String>> =
                        lists.iter().flat_map(Located::get_ref).cloned().collect();
                    self.hosts(&all);
                    let index = |name: &Located<String>| self.by_name.get(name.get_ref().as_str()).copied();
                    let indices = |list: &Located<Vec<Located<String>>>| -> Vec<u32> {
                        list.get_ref().iter().filter_map(index).collect()
                    };
                    let lists: Vec<Vec<u32>> = lists.iter().map(indices).collect();
                    // Number of pairs: each host of a list with all hosts of the lists before it.
                    let count = lists.iter().fold((0, 0usize), |(before, pairs), list| {
                        (before + list.len(), pairs.saturating_add(before.saturating_mul(list.len())))
                    });
                    if !self.has_room(table, count.1) {
                        return Vec::new();
                    }
                    group::disjoint(&lists)
                }
                None => {
                    table.missing(
                        "lists",
                        "lists = [[\"a\", \"b\"], [\"c\"]]: each host of a list with each host of the others",
                    );
                    return Vec::new();
                }
            },
            other => {
                table.fault(
                    "kind",
                    format!("unknown kind '{}': {}", other.escape_debug(), choose(other, &kinds)),
                );
                return Vec::new();
            }
        };
        if pairs.is_empty() {
            table.fault("kind", "this group has fewer than two hosts: add hosts");
        }
        pairs
    }

    /// Pairs all `hosts` with each other, if there is room for this number of pairs.
    fn mesh(&self, table: &TableReader<'_>, hosts: &[u32]) -> Option<Vec<(u32, u32)>> {
        let pairs = hosts.len().saturating_mul(hosts.len().saturating_sub(1)) / 2;
        self.has_room(table, pairs).then(|| group::mesh(hosts))
    }

    fn listed(&self, lists: &[Located<Vec<Located<String>>>]) -> Vec<(u32, u32)> {
        let (mut pairs, mut known) = (Vec::new(), HashSet::new());
        for list in lists {
            let [first, second] = &list.get_ref()[..] else {
                self.file.faults.add(&list.span(), "a pair has two hosts: write [\"a\", \"b\"]");
                continue;
            };
            let Some((a, b)) = self.host(first).zip(self.host(second)) else { continue };
            if a == b {
                self.file.faults.add(&list.span(), "a host cannot be tested with itself");
            } else if !known.insert((a.min(b), a.max(b))) {
                self.file.faults.add(&list.span(), "this pair is listed twice");
            } else {
                pairs.push((a, b));
            }
        }
        pairs
    }

    fn test(&self, table: &TableReader<'_>, groups: &[Group]) -> Option<MonitoredTest> {
        let name = self.name(table);
        let pairs: Vec<(u32, u32)> = match table.text("group") {
            Some(wanted) => match groups.iter().find(|g| g.name == *wanted.get_ref()) {
                Some(group) => group.pairs.clone(),
                None => {
                    let names: Vec<&str> = groups.iter().map(|g| g.name.as_str()).collect();
                    let meant = choose(wanted.get_ref(), &names);
                    let message = format!("unknown group '{}': {meant}", wanted.get_ref().escape_debug());
                    self.file.faults.add(&wanted.span(), message);
                    Vec::new()
                }
            },
            None => {
                if groups.len() > 1 {
                    let names: Vec<&str> = groups.iter().map(|g| g.name.as_str()).collect();
                    table.missing("group", &format!("group = …, one of {}", names.join(", ")));
                }
                match groups.first() {
                    Some(group) => group.pairs.clone(),
                    None => {
                        let all: Vec<u32> = (0..self.hosts.len() as u32).collect();
                        if all.len() == 1 {
                            table.fault(
                                "name",
                                "a test needs two hosts, but the file has one: add a [[host]]",
                            );
                        }
                        self.mesh(table, &all).unwrap_or_default()
                    }
                }
            }
        };
        let names = self.instruments.names();
        let instrument = match table.text("instrument") {
            Some(wanted) if !names.contains(&wanted.get_ref().as_str()) => {
                let meant = choose(wanted.get_ref(), &names);
                let message = format!("unknown instrument '{}': {meant}", wanted.get_ref().escape_debug());
                self.file.faults.add(&wanted.span(), message);
                return None;
            }
            Some(wanted) => wanted.into_inner(),
            None => names.first().map(|name| (*name).to_owned())?,
        };
        let direction = word(
            self,
            table,
            "direction",
            &[
                ("both", SendingHosts::Both),
                ("forward", SendingHosts::Forward),
                ("backward", SendingHosts::Backward),
            ],
        );
        let client = word(
            self,
            table,
            "client",
            &[
                ("balanced", StartingEnd::Balanced),
                ("first", StartingEnd::First),
                ("second", StartingEnd::Second),
            ],
        );
        let list = group::choose_clients(&pairs, self.hosts.len(), client);
        self.scheduled(table, name?, TestPairs { list, targets: Vec::new() }, instrument, direction)
    }

    fn ping(&self, table: &TableReader<'_>) -> Option<MonitoredTest> {
        let name = self.name(table);
        let targets = match table.texts("targets") {
            Some(targets) if targets.is_empty() => {
                table.fault("targets", "the list is empty: write targets = [\"192.0.2.1\"]");
                targets
            }
            Some(targets) => targets,
            None => {
                table.missing("targets", "targets = [\"192.0.2.1\", \"router.example\"]");
                Vec::new()
            }
        };
        let mut known = HashSet::new();
        for target in &targets {
            let host = match target.get_ref().parse::<FarHost>() {
                Ok(host) => host,
                Err(e) => {
                    self.file.faults.add(&target.span(), e.to_string());
                    continue;
                }
            };
            if let Some(why) = host.not_one_host() {
                self.file.faults.add(&target.span(), why);
            }
            if !known.insert(host.to_string()) {
                self.file.faults.add(&target.span(), format!("'{host}' is listed twice"));
            }
        }
        let from = self.hosts_or_all(table, "from");
        if !self.has_room(table, from.len().saturating_mul(targets.len())) {
            return None;
        }
        let first = self.hosts.len() as u32;
        let ends = first..first + targets.len() as u32;
        let pair = |host: u32| {
            ends.clone().map(move |target| HostPair { first: host, second: target, first_is_client: true })
        };
        let list = from.iter().flat_map(|host| pair(*host)).collect();
        let pairs = TestPairs { list, targets: targets.into_iter().map(Located::into_inner).collect() };
        self.scheduled(table, name?, pairs, self.instruments.ping().to_owned(), SendingHosts::Both)
    }

    fn name(&self, table: &TableReader<'_>) -> Option<String> {
        table.name("name = \"delay\"").map(Located::into_inner)
    }

    /// Returns true if a test or a group may have `pairs` pairs. Called before memory for the pairs is allocated.
    fn has_room(&self, table: &TableReader<'_>, pairs: usize) -> bool {
        if pairs > MAX_PAIRS {
            let message = format!(
                "this has {pairs} pairs of hosts, more than the limit of {MAX_PAIRS}: use a [[group]] of kind star, pairs or \
                 disjoint, or fewer hosts"
            );
            table.fault("name", message);
        }
        pairs <= MAX_PAIRS
    }

    /// Reads the keys that `[[test]]` and `[[ping]]` have in common.
    fn scheduled(
        &self,
        table: &TableReader<'_>,
        name: String,
        pairs: TestPairs,
        instrument: String,
        direction: SendingHosts,
    ) -> Option<MonitoredTest> {
        let duration = table.quantity("for", quantity::duration).map(Located::into_inner);
        let spread = table.quantity("spread", pause).map_or(Span::ZERO, Located::into_inner);
        let window = window(self.file, table);
        let profiles: Vec<String> =
            table.texts("profile").unwrap_or_default().into_iter().map(Located::into_inner).collect();
        let given = table.options("options");
        let work = Measurement { instrument, profiles, options: plain(&given), duration, direction };
        let asked = DeclaredTest {
            instrument: &work.instrument,
            profiles: &work.profiles,
            options: &work.options,
            duration,
            direction,
        };
        let traffic = match self.instruments.traffic(&asked) {
            Ok(traffic) => traffic,
            Err(wrong) => {
                report_option_fault(self.file, table, &given, wrong);
                Traffic::default()
            }
        };
        let every = period(table, SECOND)?;
        let slot = traffic.duration + spread + self.around;
        if slot > every {
            table.fault(
                "every",
                format!(
                    "one test takes {} in total (packets {}, setup and guard {}, spread {}), but restarts \
                     after {}: make 'every' longer, or 'for' shorter",
                    text_of(slot.0),
                    text_of(traffic.duration.0),
                    text_of(self.around.0),
                    text_of(spread.0),
                    text_of(every.0)
                ),
            );
        }
        self.rates(table, &pairs, &traffic);
        Some(MonitoredTest { name, pairs, work, traffic, every, window, spread })
    }

    /// Reports hosts whose bandwidth is too small for a single test.
    fn rates(&self, table: &TableReader<'_>, pairs: &TestPairs, traffic: &Traffic) {
        let rate = traffic.forward.rate.max(traffic.backward.rate);
        let mut reported = vec![false; self.hosts.len()];
        for end in pairs.list.iter().flat_map(|pair| [pair.first, pair.second]) {
            let Some(host) = self.hosts.get(end as usize) else { continue };
            let small = host.bandwidth.filter(|bandwidth| *bandwidth < rate);
            if let Some(bandwidth) = small
                && !std::mem::replace(&mut reported[end as usize], true)
            {
                table.fault(
                    "name",
                    format!(
                        "this test sends {rate} bit/s, but 'bandwidth' of {} is {bandwidth} bit/s: lower the \
                         rate, or leave out the host",
                        host.name
                    ),
                );
            }
        }
    }
}

/// Reads the time under `every`: it must divide a day and be at least `least` ns.
pub fn period(table: &TableReader<'_>, least: i64) -> Option<Span> {
    if !table.has("every") {
        table.missing("every", "every = \"5min\"");
        return None;
    }
    let every = table.quantity("every", quantity::duration)?.into_inner();
    if every.0 >= least && every.0 <= DAY && DAY % every.0 == 0 {
        return Some(every);
    }
    let near = near(every.0.max(least));
    table.fault(
        "every",
        format!(
            "'every' must divide a day, because the timetable restarts at midnight UTC: write {} or {}",
            text_of(near.0),
            text_of(near.1)
        ),
    );
    None
}

/// Reads one of several keywords; the first is the default.
fn word<T: Copy>(context: &Context<'_, '_>, table: &TableReader<'_>, key: &str, words: &[(&str, T)]) -> T {
    let Some(given) = table.text(key) else { return words[0].1 };
    if let Some((_, meaning)) = words.iter().find(|(word, _)| word == given.get_ref()) {
        return *meaning;
    }
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let meant = choose(given.get_ref(), &names);
    context
        .file
        .faults
        .add(&given.span(), format!("'{key}' cannot be '{}': {meant}", given.get_ref().escape_debug()));
    words[0].1
}

/// Reads the days and hours of a section.
pub fn window(file: &Sections<'_>, table: &TableReader<'_>) -> TimeWindow {
    let mut window = TimeWindow::default();
    let mut add = |key: &str, add: fn(&mut TimeWindow, &str) -> Result<(), String>| {
        for text in table.texts(key).unwrap_or_default() {
            if let Err(message) = add(&mut window, text.get_ref()) {
                file.faults.add(&text.span(), message);
            }
        }
    };
    add("days", TimeWindow::add_days);
    add("hours", TimeWindow::add_hours);
    window
}

/// Returns the nearest times below and above `every` that divide a day.
fn near(every: i64) -> (i64, i64) {
    let seconds = (every / SECOND).clamp(1, DAY / SECOND);
    let divides = |s: &i64| (DAY / SECOND) % s == 0;
    let below = (1..=seconds).rev().find(divides).unwrap_or(1);
    let above = (seconds + 1..=DAY / SECOND).find(divides).unwrap_or(DAY / SECOND);
    (below * SECOND, above * SECOND)
}

/// Formats a time with the largest unit that fits, as in the file.
pub fn text_of(ns: i64) -> String {
    let units = [(DAY / 24, "h"), (60 * SECOND, "min"), (SECOND, "s"), (1_000_000, "ms")];
    match units.iter().find(|(unit, _)| ns != 0 && ns % unit == 0) {
        Some((unit, name)) => format!("{}{name}", ns / unit),
        None => format!("{:.3}s", ns as f64 / SECOND as f64),
    }
}
