//! A week of 50 hosts in virtual time, with hosts that are down, a wrong key, clock steps and stalled processors:
//! every slot of every test is measured once, or counted with its reason.

use crate::common::{hosts, model};
use jitlat_core::time::SECOND;
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_monitor::agenda::{
    AgendaOrder, EndingCounts, Missed, Notice, SlotEnding, SlotFailure, SlotOutcome, TestJob,
};
use jitlat_monitor::window::{DAY, WEEK};
use jitlat_monitor::{Agenda, Model, Timetable};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::sync::Arc;
use twox_hash::XxHash3_64;

const HOSTS: usize = 50;
/// A Monday; virtual time counts from here.
const BEGIN: i64 = 1_763_942_400 * SECOND;

const TESTS: &str = r#"
[[group]]
name = "mesh"
kind = "mesh"
[[group]]
name = "star"
kind = "star"
centre = "h0"
hosts = ["h0", "h1", "h2", "h3", "h4", "h5"]
[[test]]
name = "all"
group = "mesh"
every = "30min"
for = "10s"
[[test]]
name = "long"
group = "star"
every = "6h"
for = "1min"
days = "mon-fri"
spread = "20s"
[[ping]]
name = "outside"
targets = ["192.0.2.1", "192.0.2.2"]
every = "10min"
for = "5s"
"#;

/// Host that is down, from and to, in hours.
const AWAY: [(usize, i64, i64); 4] = [(5, 10, 12), (5, 100, 101), (9, 30, 80), (0, 50, 51)];
/// Host whose key is wrong at all others, from and to, in hours.
const WRONG_KEY: (usize, i64, i64) = (7, 20, 44);
/// Clock steps: host, hour, size in seconds.
const STEPS: [(usize, i64, i64); 2] = [(3, 24, 600), (3, 60, -600)];
/// Host whose tests do not end when they should, from and to, in hours.
const HANGS: (usize, i64, i64) = (12, 70, 72);
/// Host whose threads stall for five seconds now and then.
const STALLS: usize = 20;

fn hour(true_time: i64) -> i64 {
    true_time / (3600 * SECOND)
}

fn within(span: (usize, i64, i64), host: usize, at: i64) -> bool {
    span.0 == host && (span.1..span.2).contains(&hour(at))
}

fn is_away(host: usize, at: i64) -> bool {
    AWAY.iter().any(|span| within(*span, host, at))
}

fn wall(host: usize, at: i64) -> WallTime {
    let steps = STEPS.iter().filter(|(who, when, _)| *who == host && hour(at) >= *when);
    // Clocks differ by less than the guard time.
    let offset = (XxHash3_64::oneshot(&host.to_le_bytes()) % 400) as i64 * 1_000_000 - 200_000_000;
    WallTime(BEGIN + at + offset + steps.map(|(_, _, by)| by * SECOND).sum::<i64>())
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ended(u64, Option<SlotFailure>),
    Poll,
    Return,
}

/// One run of a host's program, from start to end.
struct Life {
    host: usize,
    from: WallTime,
    to: WallTime,
    outcomes: Vec<SlotOutcome>,
    counts: BTreeMap<(String, String), EndingCounts>,
    /// Number of tests that were running at the end.
    left: usize,
}

struct World {
    model: Arc<Model>,
    timetable: Arc<Timetable>,
    agendas: Vec<Option<(Agenda, WallTime)>>,
    events: BinaryHeap<Reverse<(i64, usize, Event)>>,
    lives: Vec<Life>,
    notices: Vec<(usize, Notice)>,
    /// Busy times of each host, from and to.
    busy: Vec<Vec<(i64, i64)>>,
    draws: u64,
}

impl World {
    fn draw(&mut self, of: u64) -> u64 {
        self.draws += 1;
        XxHash3_64::oneshot(&self.draws.to_le_bytes()) % of
    }

    fn begin(&mut self, host: usize, at: i64) {
        let now = wall(host, at);
        let agenda =
            Agenda::new(self.model.clone(), self.timetable.clone(), &format!("h{host}"), now).unwrap();
        self.agendas[host] = Some((agenda, now));
        self.events.push(Reverse((at, host, Event::Poll)));
    }

    fn end(&mut self, host: usize, at: i64) {
        let Some((mut agenda, from)) = self.agendas[host].take() else { return };
        self.lives.push(Life {
            host,
            from,
            to: wall(host, at),
            outcomes: agenda.outcomes(),
            counts: agenda.counts().clone(),
            left: agenda.running(),
        });
    }

    fn poll(&mut self, host: usize, at: i64) {
        let Some((agenda, _)) = &mut self.agendas[host] else { return };
        let now = wall(host, at);
        let orders = agenda.poll(now, SteadyTime(at));
        for order in orders {
            match order {
                AgendaOrder::Start(job) => self.start(host, at, &job),
                AgendaOrder::Stop(_) | AgendaOrder::GiveUp(_) => {}
            }
        }
        let (agenda, _) = self.agendas[host].as_ref().unwrap();
        // The agenda is polled at least every ten minutes, because a clock may be set.
        let next = agenda.wake().map_or(600 * SECOND, |wake| (wake - now).0.clamp(0, 600 * SECOND));
        let late = match host == STALLS && self.draw(500) == 0 {
            true => 5 * SECOND,
            false => self.draw(20_000_000) as i64,
        };
        self.events.push(Reverse((at + next + late, host, Event::Poll)));
    }

    fn start(&mut self, host: usize, at: i64, job: &TestJob) {
        let server = job.pair.server() as usize;
        let test = &self.model.tests[job.test];
        let failure = match server {
            s if s >= HOSTS => None,
            s if is_away(s, at) => Some(SlotFailure::Unreachable),
            s if within(WRONG_KEY, s, at) => Some(SlotFailure::Refused),
            _ => None,
        };
        let mut long = if failure.is_some() { 2 * SECOND } else { test.traffic.duration.0 + 2 * SECOND };
        if within(HANGS, host, at) {
            long += 60 * SECOND;
        } else if failure.is_none() && server < HOSTS {
            self.busy[host].push((at, at + long));
            self.busy[server].push((at, at + long));
        }
        self.events.push(Reverse((at + long, host, Event::Ended(job.id, failure))));
    }

    fn run(&mut self) {
        for host in 0..HOSTS {
            self.begin(host, 0);
        }
        for (host, _, to) in AWAY {
            self.events.push(Reverse((to * 3600 * SECOND, host, Event::Return)));
        }
        while let Some(Reverse((at, host, event))) = self.events.pop() {
            if at >= WEEK {
                break;
            }
            if is_away(host, at) {
                self.end(host, at);
                continue;
            }
            match event {
                Event::Return => self.begin(host, at),
                Event::Poll => self.poll(host, at),
                Event::Ended(id, failure) => {
                    if let Some((agenda, _)) = &mut self.agendas[host] {
                        let result = failure.map_or(Ok(()), |f| Err((f, "simulated".to_owned())));
                        agenda.ended(id, wall(host, at), result);
                    }
                }
            }
            if let Some((agenda, _)) = &mut self.agendas[host] {
                self.notices.extend(agenda.notices().into_iter().map(|n| (host, n)));
            }
        }
        (0..HOSTS).for_each(|host| self.end(host, WEEK - 1));
    }
}

#[test]
fn every_slot_is_measured_once_or_counted_with_its_reason() {
    let model = Arc::new(model(&(hosts(HOSTS, "") + TESTS)));
    let timetable = Arc::new(Timetable::new(&model));
    assert_eq!(timetable.shortfalls(&model), Vec::<String>::new());
    let mut world = World {
        agendas: (0..HOSTS).map(|_| None).collect(),
        events: BinaryHeap::new(),
        lives: Vec::new(),
        notices: Vec::new(),
        busy: vec![Vec::new(); HOSTS],
        draws: 0,
        model: model.clone(),
        timetable: timetable.clone(),
    };
    world.run();

    let mut endings: BTreeMap<SlotEnding, u64> = BTreeMap::new();
    let mut slots = 0;
    for life in &world.lives {
        let mut seen: HashSet<(&str, &str, i64)> = HashSet::new();
        for outcome in &life.outcomes {
            let first = seen.insert((&outcome.test, &outcome.far, outcome.slot_number));
            // After its clock was set back, a host uses the slots of that time again, instead of waiting for the old time.
            assert!(
                first || STEPS.iter().any(|(host, _, by)| *by < 0 && *host == life.host),
                "twice: {outcome:?}"
            );
            *endings.entry(outcome.ending).or_default() += 1;
        }
        let counted: u64 = life.counts.values().map(EndingCounts::total).sum();
        assert_eq!(counted, life.outcomes.len() as u64);
        let mut unseen = 0;
        for (test, scheduled) in model.tests.iter().zip(&timetable.tests) {
            let mut p = scheduled.first_from(life.from).unwrap();
            while let Some(begins) = scheduled.begins(p).filter(|begins| *begins < life.to) {
                for pair in scheduled.pairs_of(p).iter().filter(|pair| pair.client() as usize == life.host) {
                    slots += 1;
                    let far = model.end(test, pair.server());
                    if !seen.remove(&(test.name.as_str(), far, p)) {
                        // Not yet begun, or running, when the program ended.
                        assert!(
                            life.to - begins < Span(2 * scheduled.slot.0 + 70 * SECOND),
                            "h{}: {} with {far} in slot {p} is not accounted for",
                            life.host,
                            test.name
                        );
                        unseen += 1;
                    }
                }
                p += 1;
            }
        }
        assert!(seen.is_empty(), "h{} has slots that do not exist: {seen:?}", life.host);
        assert!(unseen <= life.left + 3, "h{}: {unseen} slots, {} under way", life.host, life.left);
    }
    assert!(slots > 400_000, "{slots}");

    // Every reason occurred, and most slots were measured.
    let of = |ending| endings.get(&ending).copied().unwrap_or(0);
    let measured = of(SlotEnding::Measured { cut: false });
    assert!(measured as f64 > 0.97 * slots as f64, "{measured} of {slots}: {endings:?}");
    for ending in [
        SlotEnding::Measured { cut: true },
        SlotEnding::Failed(SlotFailure::Unreachable),
        SlotEnding::Failed(SlotFailure::Refused),
        SlotEnding::Missed(Missed::Late),
        SlotEnding::Missed(Missed::ClockStep),
    ] {
        assert!(of(ending) > 0, "{ending:?}: {endings:?}");
    }

    // No host has two concurrent tests, except the host whose clock was wrong and those it tests.
    let clock_is_wrong = (24 * 3600 * SECOND)..(60 * 3600 * SECOND + DAY / 24);
    for (host, busy) in world.busy.iter_mut().enumerate() {
        busy.sort_unstable();
        for pair in busy.windows(2).filter(|pair| !clock_is_wrong.contains(&pair[1].0)) {
            assert!(pair[0].1 <= pair[1].0, "h{host}: {pair:?}");
        }
    }

    // Each failure is reported once by each host that has it.
    let failing = |far: &str, failure| {
        let about = |n: &&(usize, Notice)| matches!(&n.1, Notice::Failing { far: f, failure: x, .. } if f == far && *x == failure);
        world.notices.iter().filter(about).map(|(host, _)| *host).collect::<Vec<usize>>()
    };
    let mut refused = failing("h7", SlotFailure::Refused);
    refused.sort_unstable();
    refused.dedup();
    assert!(refused.len() >= 20 && failing("h7", SlotFailure::Refused).len() == refused.len(), "{refused:?}");
    let gone = failing("h9", SlotFailure::Unreachable).len();
    assert!((20..=26).contains(&gone), "{gone}");
    let recovered =
        world.notices.iter().filter(|(_, n)| matches!(n, Notice::Recovered { far, .. } if far == "h9"));
    assert_eq!(recovered.count(), gone);
    // Fifty hours have a hundred slots, and each is tried: it would be measured if the host were back.
    let attempts = world.lives.iter().flat_map(|l| &l.outcomes).filter(|o| o.far == "h9");
    let attempts = attempts.filter(|o| o.ending == SlotEnding::Failed(SlotFailure::Unreachable)).count();
    assert!((gone * 97..=gone * 101).contains(&attempts), "{attempts} attempts by {gone} hosts");
    // Tests that do not end, and those of a host that is down, cost no other slot.
    assert_eq!(of(SlotEnding::Missed(Missed::Busy)), 0, "{endings:?}");
    assert_eq!(world.notices.iter().filter(|(_, n)| matches!(n, Notice::ClockStep(_))).count(), 2);
}

#[test]
fn a_new_file_is_taken_up_and_tests_under_way_go_on() {
    let file = |tests: &str| {
        let model = Arc::new(model(&(hosts(3, "") + tests)));
        let timetable = Arc::new(Timetable::new(&model));
        (model, timetable)
    };
    let first = "[[test]]\nname = \"a\"\nevery = \"1min\"\nfor = \"5s\"\nclient = \"first\"\n\
                 [[test]]\nname = \"b\"\nevery = \"1h\"\nfor = \"5s\"\n";
    let (model, timetable) = file(first);
    let now = WallTime(BEGIN);
    let mut agenda = Agenda::new(model, timetable, "h0", now).unwrap();
    assert!(Agenda::new(agenda.model().clone(), file(first).1, "h9", now).is_none());
    let at = agenda.wake().unwrap();
    let orders = agenda.poll(at, SteadyTime(0));
    let [AgendaOrder::Start(job)] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!(agenda.running(), 1);

    // A new version with the same text changes nothing, and no slot is lost.
    let wake = agenda.wake();
    let (model, timetable) = file(first);
    assert_eq!(agenda.take_up(model, timetable, at + Span::seconds(1)), Some(Default::default()));
    assert_eq!(agenda.wake(), wake);

    let second = first.replace("name = \"b\"", "name = \"c\"").replace("5s", "6s");
    let (model, timetable) = file(&second);
    let changes = agenda.take_up(model, timetable, at + Span::seconds(1)).unwrap();
    assert_eq!((changes.added, changes.removed), (vec!["c".to_owned()], vec!["b".to_owned()]));
    assert_eq!(changes.changed, ["a"]);
    assert_eq!(agenda.running(), 1, "it goes on");
    agenda.ended(job.id, at + Span::seconds(9), Ok(()));
    let outcomes = agenda.outcomes();
    assert_eq!(outcomes.len(), 1);
    assert_eq!(outcomes[0].ending, SlotEnding::Measured { cut: false });
    assert!(agenda.wake().unwrap() > at);

    // A file without this host is not followed.
    let (model, timetable) = file(first);
    let mut other = (*model).clone();
    other.hosts[0].name = "other".to_owned();
    assert_eq!(agenda.take_up(Arc::new(other), timetable, at), None);
}
