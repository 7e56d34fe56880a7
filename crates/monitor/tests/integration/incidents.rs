//! One thing breaks in a mesh: exactly one message, about the right host and with the reason, and one when it is over; nothing about
//! anything else. In virtual time, with the judge at a collector.

use crate::common::model;
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_monitor::Model;
use jitlat_monitor::alert::{AlertEvent, AlertMachine, AlertScope, AlertSubject, SlotReport, TestResult};
use jitlat_monitor::window::MONDAY;
use std::collections::BTreeMap;
use std::time::Instant;

const SECOND: i64 = 1_000_000_000;
const EVERY: i64 = 300 * SECOND;

/// Outcome of a slot.
#[derive(Clone)]
enum Fate {
    /// A result in both directions, with this loss ratio.
    Measured(f64),
    /// A result whose host has a clock that is ahead by this time.
    Dated(Span),
    /// No result; the host that starts the test says why.
    Lost { is_own_fault: bool, is_not_stored: bool, reason: &'static str },
    /// No result and no report.
    Gone,
}

fn unreachable() -> Fate {
    Fate::Lost { is_own_fault: false, is_not_stored: false, reason: "unreachable: connection refused" }
}

struct Mesh {
    model: Model,
    machine: AlertMachine,
    states: BTreeMap<String, String>,
    /// True if `states` are recorded, which is most of the work in a large mesh.
    has_states: bool,
    now: WallTime,
    steady: SteadyTime,
    /// Open alerts: end of the hold, reason, and whether its message was sent.
    open: BTreeMap<AlertSubject, (WallTime, String, bool)>,
    /// Messages: period, and text.
    told: Vec<(i64, String)>,
    most_at_once: Span,
    /// Host that reports results that have not arrived; `None`: no host does.
    backlog: Option<&'static str>,
}

/// Hosts in sites of `site` hosts.
fn sites(n: usize, site: usize) -> String {
    let host = |k: usize| {
        let site = k / site;
        format!("[[host]]\nname = \"h{k}\"\naddress = \"10.{}.{}.1\"\nsite = \"s{site}\"\n", k / 256, k % 256)
    };
    (0..n).map(host).collect()
}

const RULES: &str = "[timetable]\nguard = \"10ms\"\nsetup = \"90ms\"\n[[test]]\nname = \"t\"\nevery = \"5min\"\nfor = \"100ms\"\n\
    [[route]]\nname = \"r\"\nevery = \"5min\"\n\
    [[alert]]\nname = \"loss\"\nif = \"loss>5%\"\nof = \"2 of 3\"\nclear = 1\nat = [\"h0\"]\n\
    [[alert]]\nname = \"silent\"\nif = \"silent>11min\"\nseverity = \"critical\"\nat = [\"h0\"]\n\
    [[alert]]\nname = \"route\"\nif = \"route-changed\"\nseverity = \"info\"\nat = [\"h0\"]\n";

impl Mesh {
    /// A mesh of `n` hosts, in sites of `site` hosts.
    fn new(n: usize, site: usize) -> Mesh {
        Mesh::of(model(&(sites(n, site) + RULES)))
    }

    fn of(model: Model) -> Mesh {
        let now = MONDAY;
        let machine = AlertMachine::new(&model, "h0", &BTreeMap::new(), now);
        Mesh {
            model,
            machine,
            states: BTreeMap::new(),
            has_states: false,
            now,
            steady: SteadyTime(0),
            open: BTreeMap::new(),
            told: Vec::new(),
            most_at_once: Span::ZERO,
            backlog: None,
        }
    }

    fn period(&self) -> i64 {
        (self.steady - SteadyTime(0)).0 / EVERY
    }

    /// Takes up changes as an archive does: what is resolved while its message is held is never sent.
    fn take(&mut self) {
        let decided = self.machine.take();
        for (key, state) in decided.states.into_iter().filter(|_| self.has_states) {
            match state {
                Some(state) => self.states.insert(key, state),
                None => self.states.remove(&key),
            };
        }
        for change in decided.changes {
            match change.event {
                AlertEvent::Fired { held_until, .. } => {
                    let known = self.open.insert(change.subject.clone(), (held_until, change.reason, false));
                    assert!(known.is_none(), "twice: {:?}", change.subject);
                }
                AlertEvent::Widened(from) => {
                    let (held, _, told) = self.open.remove(&from).unwrap();
                    assert!(!told, "what was told does not change: {from:?}");
                    self.open.insert(change.subject, (held, change.reason, told));
                }
                AlertEvent::Joined(..) | AlertEvent::Left(_) => {
                    assert!(self.open.contains_key(&change.subject), "{:?}", change.subject);
                }
                AlertEvent::Resolved => {
                    if self.open.remove(&change.subject).unwrap().2 {
                        self.told.push((self.period(), format!("- {}", name(&change.subject))));
                    }
                }
            }
        }
        let (now, period) = (self.now, self.period());
        for (subject, (held, reason, told)) in &mut self.open {
            if !*told && *held <= now {
                *told = true;
                self.told.push((period, format!("+ {}: {reason}", name(subject))));
            }
        }
    }

    /// Lets one period pass, in which `fate` decides about each pair: index of the client, of the server.
    fn pass(&mut self, periods: i64, fate: impl Fn(usize, usize) -> Fate) {
        let pairs = self.model.tests[0].pairs.list.clone();
        let step = EVERY / pairs.len() as i64;
        let tick = 10 * SECOND;
        for _ in 0..periods {
            let mut passed = 0;
            for (k, pair) in pairs.iter().enumerate() {
                let at = step * k as i64;
                while passed + tick <= at {
                    passed += tick;
                    self.wait(Span(tick));
                }
                let ends = [pair.client() as usize, pair.server() as usize];
                let begun = Instant::now();
                self.slot(ends, &fate(ends[0], ends[1]));
                self.most_at_once = self.most_at_once.max(Span(begun.elapsed().as_nanos() as i64));
            }
            self.wait(Span(EVERY - passed));
        }
    }

    fn wait_until(&mut self, at: WallTime) {
        while self.now < at {
            self.wait((at - self.now).min(Span::seconds(10)));
        }
    }

    fn wait(&mut self, time: Span) {
        (self.now, self.steady) = (self.now + time, self.steady + time);
        self.machine.follow_clock(self.now, self.steady);
        for host in &self.model.hosts {
            if self.backlog == Some(host.name.as_str()) {
                self.machine.waiting(&host.name, true, self.now);
            } else {
                self.machine.waiting(&host.name, false, WallTime(0));
            }
        }
        self.machine.tick(self.now);
        self.take();
    }

    fn slot(&mut self, ends: [usize; 2], fate: &Fate) {
        self.slot_at(ends, fate, self.now);
    }

    fn slot_at(&mut self, [client, server]: [usize; 2], fate: &Fate, started: WallTime) {
        let names = [client, server].map(|k| self.model.hosts[k].name.clone());
        let [client, server] = names;
        let (loss, offset) = match fate {
            Fate::Measured(loss) => (*loss, Span::ZERO),
            Fate::Dated(offset) => (0.0, *offset),
            Fate::Lost { is_own_fault, is_not_stored, reason } => {
                let report = SlotReport {
                    test: "t".into(),
                    client,
                    server,
                    at_ns: started.0,
                    since_ns: started.0,
                    is_own_fault: *is_own_fault,
                    is_not_stored: *is_not_stored,
                    reason: (*reason).to_owned(),
                };
                self.machine.report(&report, self.now);
                return;
            }
            Fate::Gone => return,
        };
        for is_backward in [false, true] {
            let result = TestResult {
                test: "t".into(),
                client: client.clone(),
                server: server.clone(),
                is_backward,
                started_ns: (started + offset).0,
                figures: [("loss".to_owned(), loss)].into(),
                ..TestResult::default()
            };
            self.machine.judge(&result, self.now);
        }
    }

    fn route(&mut self, change: Option<&str>) {
        let result = TestResult {
            test: "r".into(),
            client: "h3".into(),
            server: "h4".into(),
            started_ns: self.now.0,
            route: Some(change.map(str::to_owned)),
            ..TestResult::default()
        };
        self.machine.judge(&result, self.now);
        self.take();
    }

    /// Returns the messages since the last call, without their times.
    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told).into_iter().map(|(_, text)| text).collect()
    }
}

fn name(subject: &AlertSubject) -> String {
    let AlertSubject { rule, scope, src, dst, .. } = subject;
    match scope {
        AlertScope::Path => format!("{rule} path {src} {dst}"),
        AlertScope::Pair => format!("{rule} pair {src} {dst}"),
        AlertScope::Host => format!("{rule} host {src}"),
        AlertScope::Site => format!("{rule} site {src}"),
    }
}

fn well(_: usize, _: usize) -> Fate {
    Fate::Measured(0.0)
}

/// Breaks something for four periods in a mesh of 24 hosts, in sites of four, and returns the messages.
fn broken(fate: impl Fn(usize, usize) -> Fate) -> Vec<String> {
    let mut mesh = Mesh::new(24, 4);
    mesh.pass(3, well);
    assert_eq!(mesh.told(), Vec::<String>::new());
    mesh.pass(5, fate);
    let fired = mesh.told();
    assert!(fired.iter().all(|text| text.starts_with('+')), "{fired:?}");
    mesh.pass(2, well);
    let over = mesh.told();
    assert!(mesh.open.is_empty(), "resolved within two periods: {:?}", mesh.open);
    assert_eq!(fired.len(), over.len(), "{fired:?}, {over:?}");
    for (fired, over) in fired.iter().zip(&over) {
        assert_eq!(fired[2..].split_once(':').unwrap().0, &over[2..]);
    }
    mesh.pass(3, well);
    assert_eq!(mesh.told(), Vec::<String>::new());
    fired
}

fn one(fired: &[String], about: &str) -> String {
    assert_eq!(fired.len(), 1, "{fired:#?}");
    let rest = fired[0].strip_prefix(&format!("+ {about}: "));
    rest.unwrap_or_else(|| panic!("{fired:?}")).to_owned()
}

#[test]
fn a_host_that_is_down_is_one_incident_with_the_reason_of_those_who_know_it() {
    let fired = broken(|client, server| match (client, server) {
        (7, _) => Fate::Gone,
        (_, 7) => unreachable(),
        _ => Fate::Measured(0.0),
    });
    let reason = one(&fired, "silent host h7");
    assert!(
        reason.contains("unreachable since 00:") && reason.contains("connection refused (according to h"),
        "{reason}"
    );
}

#[test]
fn a_bad_link_is_one_incident() {
    let fired =
        broken(|client, server| Fate::Measured(if [client, server].contains(&7) { 0.2 } else { 0.0 }));
    let reason = one(&fired, "loss host h7");
    assert!(reason.contains("loss>5%") && reason.contains("bad in 2 of the last"), "{reason}");
}

#[test]
fn a_site_without_power_is_one_incident() {
    let fired = broken(|client, server| match (client / 4, server / 4) {
        (2, _) => Fate::Gone,
        (_, 2) => unreachable(),
        _ => Fate::Measured(0.0),
    });
    assert!(one(&fired, "silent site s2").contains("connection refused"));
}

#[test]
fn a_full_disk_is_an_incident_of_its_host_only() {
    let reason = "not stored: archive a: No space left on device";
    let fired = broken(|client, _| match client {
        7 => Fate::Lost { is_own_fault: true, is_not_stored: true, reason },
        _ => Fate::Measured(0.0),
    });
    let reason = one(&fired, "silent host h7");
    assert!(
        reason.contains("not stored since 00:") && reason.ends_with("No space left on device"),
        "{reason}"
    );
}

/// The paths of a host become silent one after the other. Those that become silent after its disk has room again belong to the same
/// incident.
#[test]
fn a_disk_that_has_room_again_is_not_told_twice() {
    let mut mesh = Mesh::new(5, 1);
    let pairs = mesh.model.tests[0].pairs.list.clone();
    let ends = pairs.iter().map(|pair| [pair.client() as usize, pair.server() as usize]);
    let ends: Vec<[usize; 2]> = ends.filter(|ends| ends[0] == 2).collect();
    let (first, second) = (ends[0], ends[1]);
    let full =
        || Fate::Lost { is_own_fault: true, is_not_stored: true, reason: "not stored: the disk is full" };
    let begun = mesh.now;
    for (second_of_path, path, fate) in [
        (0, first, Fate::Measured(0.0)),
        (30, second, Fate::Measured(0.0)),
        (300, first, full()),
        (330, second, full()),
        (600, first, full()),
        (630, second, full()),
        (670, first, Fate::Measured(0.0)),
        (720, second, Fate::Measured(0.0)),
    ] {
        let at = begun + Span::seconds(second_of_path);
        while mesh.now < at {
            // All others are well.
            for pair in pairs.iter().filter(|pair| pair.client() != 2) {
                mesh.slot([pair.client() as usize, pair.server() as usize], &Fate::Measured(0.0));
            }
            mesh.wait((at - mesh.now).min(Span::seconds(10)));
        }
        mesh.slot(path, &fate);
        mesh.take();
    }
    let told = mesh.told();
    assert!(
        told.len() == 2 && told[0].starts_with("+ silent host h2") && told[1] == "- silent host h2",
        "{told:?}"
    );
}

#[test]
fn slots_that_a_host_loses_itself_are_no_silence() {
    let fired = broken(|client, _| match client {
        7 => Fate::Lost { is_own_fault: true, is_not_stored: false, reason: "this host was late" },
        _ => Fate::Measured(0.0),
    });
    assert_eq!(fired, Vec::<String>::new());
}

#[test]
fn one_path_is_an_incident_of_that_path() {
    let fired = broken(|client, server| match [client.min(server), client.max(server)] {
        [5, 9] => unreachable(),
        _ => Fate::Measured(0.0),
    });
    let about = if fired[0].contains("path h5 h9") { "silent path h5 h9" } else { "silent path h9 h5" };
    assert!(one(&fired, about).contains("unreachable since"), "{fired:?}");
}

#[test]
fn a_judge_that_hears_nobody_blames_itself() {
    let fired = broken(|client, _| match client {
        0 => unreachable(),
        _ => Fate::Gone,
    });
    assert!(one(&fired, "silent host h0").contains("nor from any other host"), "{fired:?}");
}

#[test]
fn two_things_at_once_are_two_incidents() {
    let mut fired = broken(|client, server| match (client, server) {
        (7, _) => Fate::Gone,
        (_, 7) => unreachable(),
        (13, _) | (_, 13) => Fate::Measured(0.3),
        _ => Fate::Measured(0.0),
    });
    fired.sort();
    assert_eq!(fired.len(), 2, "{fired:#?}");
    assert!(
        fired[0].starts_with("+ loss host h13") && fired[1].starts_with("+ silent host h7"),
        "{fired:#?}"
    );
}

#[test]
fn one_direction_that_is_silent_is_silent() {
    let mut mesh = Mesh::new(3, 1);
    mesh.pass(3, well);
    let pairs = mesh.model.tests[0].pairs.list.clone();
    let [client, server] = [pairs[0].client(), pairs[0].server()].map(|k| format!("h{k}"));
    for _ in 0..80 {
        for (k, pair) in pairs.iter().enumerate() {
            for is_backward in [false, true].into_iter().filter(|backward| k > 0 || !backward) {
                let [client, server] = [pair.client(), pair.server()].map(|k| format!("h{k}"));
                let result = TestResult {
                    test: "t".into(),
                    client,
                    server,
                    is_backward,
                    started_ns: mesh.now.0,
                    ..TestResult::default()
                };
                mesh.machine.judge(&result, mesh.now);
            }
        }
        mesh.wait(Span(10 * SECOND));
    }
    let told = mesh.told();
    let reason = one(&told, &format!("silent path {client} {server}"));
    assert!(reason.contains(&format!("no result from {server} to {client}")), "{reason}");
}

/// Results that arrive late, over a slow link, do not count as missing at first if their host reports that it has them; results that
/// never arrive do.
#[test]
fn results_that_wait_on_their_host_are_no_silence_at_once() {
    let mut mesh = Mesh::new(12, 4);
    mesh.pass(3, well);
    let late = |client: usize, _: usize| if client == 7 { Fate::Gone } else { Fate::Measured(0.0) };
    mesh.backlog = Some("h7");
    mesh.pass(3, late);
    assert_eq!(mesh.told(), Vec::<String>::new());
    mesh.pass(3, late);
    let told = mesh.told();
    assert!(one(&told, "silent host h7").contains("its results wait on the host"), "{told:?}");
    mesh.backlog = None;
    mesh.pass(2, well);
    assert_eq!(mesh.told(), ["- silent host h7"]);
}

/// The result of a long test has the time of its start.
#[test]
fn a_test_that_runs_is_no_silence() {
    let long = RULES
        .replace("every = \"5min\"\nfor = \"100ms\"", "every = \"5min\"\nfor = \"2min\"")
        .replace("silent>11min", "silent>6min");
    let mut mesh = Mesh::of(model(&(sites(2, 1) + &long)));
    for _ in 0..5 {
        let started = mesh.now;
        mesh.wait_until(started + Span::seconds(125));
        mesh.slot_at([0, 1], &Fate::Measured(0.0), started);
        mesh.wait_until(started + Span(EVERY));
    }
    assert_eq!(mesh.told(), Vec::<String>::new());
    mesh.wait_until(mesh.now + Span::seconds(250));
    assert_eq!(mesh.told().len(), 1);
}

#[test]
fn a_step_of_a_clock_is_no_silence() {
    for step in [Span::seconds(1200), Span::seconds(-1200)] {
        // The clock of a host that measures: its results have wrong times.
        let fired = broken(|client, _| if client == 7 { Fate::Dated(step) } else { Fate::Measured(0.0) });
        assert_eq!(fired, Vec::<String>::new(), "{step:?}");
        // The clock of the judge.
        let mut mesh = Mesh::new(12, 4);
        mesh.pass(3, well);
        mesh.now = mesh.now + step;
        mesh.pass(4, well);
        assert_eq!(mesh.told(), Vec::<String>::new(), "{step:?}");
    }
}

#[test]
fn a_changed_route_is_told_once_and_is_over_when_it_stays() {
    let mut mesh = Mesh::new(6, 1);
    mesh.pass(2, well);
    mesh.route(None);
    assert_eq!(mesh.told(), Vec::<String>::new());
    mesh.route(Some("the route changed at hop 2: b instead of a"));
    mesh.wait(Span::seconds(121));
    assert_eq!(mesh.told(), ["+ route path h3 h4: the route changed at hop 2: b instead of a"]);
    mesh.route(None);
    assert_eq!(mesh.told(), ["- route path h3 h4"]);
    // If tests are rarer than examinations, the message is not held until the alert is resolved.
    let mut mesh =
        Mesh::of(model(&(sites(6, 1) + &RULES.replace("\"r\"\nevery = \"5min\"", "\"r\"\nevery = \"20s\""))));
    mesh.route(Some("b instead of a"));
    mesh.wait(Span::seconds(11));
    mesh.wait(Span::seconds(9));
    mesh.route(None);
    assert_eq!(mesh.told(), ["+ route path h3 h4: b instead of a", "- route path h3 h4"]);
}

#[test]
fn in_maintenance_nothing_begins_to_fire() {
    let maintenance =
        "[[maintenance]]\nsite = \"s1\"\nfrom = 1970-01-05T00:15:00Z\nto = 1970-01-05T00:40:00Z\n";
    let mut mesh = Mesh::of(model(&(sites(12, 4) + RULES + maintenance)));
    let gone = |client: usize, server: usize| match (client / 4, server / 4) {
        (1, _) => Fate::Gone,
        (_, 1) => unreachable(),
        _ => Fate::Measured(0.0),
    };
    mesh.pass(3, well);
    mesh.pass(5, gone);
    assert_eq!(mesh.told(), Vec::<String>::new(), "from 00:15 to 00:40");
    mesh.pass(4, gone);
    let told = mesh.told();
    one(&told, "silent site s1");
}

/// A machine that is started again from its stored states goes on with the same incidents.
#[test]
fn a_restart_tells_nothing_twice() {
    let mut mesh = Mesh::new(24, 4);
    mesh.has_states = true;
    let gone = |client: usize, server: usize| match (client, server) {
        (7, _) => Fate::Gone,
        (_, 7) => unreachable(),
        _ => Fate::Measured(0.0),
    };
    mesh.pass(3, well);
    mesh.pass(5, gone);
    one(&mesh.told(), "silent host h7");
    mesh.machine = AlertMachine::new(&mesh.model, "h0", &mesh.states, mesh.now);
    mesh.pass(4, gone);
    assert_eq!(mesh.told(), Vec::<String>::new());
    mesh.pass(2, well);
    assert_eq!(mesh.told(), ["- silent host h7"]);
}

/// Large meshes have as few messages: a thousand hosts with `JITLAT_FULL=1`, otherwise two hundred.
#[test]
fn a_thousand_hosts_have_as_few_messages() {
    let n = if std::env::var_os("JITLAT_FULL").is_some() { 1000 } else { 200 };
    let mut mesh = Mesh::new(n, 10);
    mesh.pass(1, well);
    mesh.pass(4, |client, server| match (client, server) {
        (107, _) => Fate::Gone,
        (_, 107) => unreachable(),
        (31, _) | (_, 31) => Fate::Measured(0.3),
        _ => Fate::Measured(0.0),
    });
    let mut told = mesh.told();
    told.sort();
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].starts_with("+ loss host h31") && told[1].starts_with("+ silent host h107"), "{told:#?}");
    mesh.pass(2, well);
    assert_eq!(mesh.told().len(), 2);
    assert!(mesh.open.is_empty());
}
