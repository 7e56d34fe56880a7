use super::*;
use core::net::Ipv4Addr;
use jitlat_core::SteadyTime;

const A: &str = "192.0.2.1";
const B: &str = "192.0.2.2";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn second(s: i64) -> SteadyTime {
    SteadyTime(s * 1_000_000_000)
}

fn limit_of(refused: Result<Grant, PolicyRefusal>) -> &'static str {
    match refused.unwrap_err() {
        PolicyRefusal::Limit(limit) => limit.limit,
        other => panic!("{other}"),
    }
}

#[test]
fn networks_hold_for_all_services_and_for_one() {
    let mut policy = Policy::default();
    policy.networks.allow = vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    policy.networks.deny = vec!["192.0.2.128/25".parse().unwrap()];
    policy.service(TCP).networks.deny = vec!["192.0.2.1".parse().unwrap()];
    policy.service(LAMP).networks.allow = vec!["192.0.2.2".parse().unwrap()];
    for service in SERVICES {
        let served = |address: &str| policy.admits(service, ip(address)).is_ok();
        assert_eq!(
            (served("192.0.2.1"), served("::ffff:192.0.2.1")),
            (![TCP, LAMP].contains(service), ![TCP, LAMP].contains(service))
        );
        assert!(served("192.0.2.2"), "{service}");
        assert!(!served("192.0.2.200") && !served("198.51.100.1") && !served("2001:db9::1"), "{service}");
        assert_eq!(served("2001:db8::1"), *service != LAMP, "{service}");
    }
}

#[test]
fn a_service_that_is_off_admits_no_client() {
    for service in SERVICES {
        let mut policy = Policy::default();
        policy.service(service).off = true;
        let gate = Gate::new(policy);
        assert_eq!(gate.admit(service, ip(A), Ask::CONNECTION, second(0)).unwrap_err(), PolicyRefusal::Off);
        let others = SERVICES.iter().filter(|other| *other != service);
        for other in others {
            assert!(
                gate.admit(other, ip(A), Ask::CONNECTION, second(0)).is_ok(),
                "{other} without {service}"
            );
        }
    }
}

#[test]
fn switches_are_those_of_the_service() {
    for service in SERVICES {
        let mut policy = Policy::default();
        assert!(!policy.is_off(service) && !policy.is_open(service), "{service}");
        policy.service(service).open = true;
        assert!(!policy.is_off(service) && policy.is_open(service), "{service}");
        *policy.service(service) = ServiceRules { off: true, ..ServiceRules::default() };
        assert!(policy.is_off(service) && !policy.is_open(service), "{service}");
    }
}

#[test]
fn a_connection_needs_no_wait_for_right_keys_and_sessions_need_none() {
    let gate = Gate::new(Policy::default());
    let admit = |ask, now| gate.admit(ONE_WAY, ip(A), ask, now).map(drop);
    for _ in 0..3 {
        gate.wrong_key(ip(A), second(0));
    }
    assert!(matches!(admit(Ask::CONNECTION, second(0)), Err(PolicyRefusal::WrongKeys(_))));
    assert_eq!(admit(Ask::session(1), second(0)), Ok(()), "it has its connection already");
    gate.right_key(ip(A));
    assert_eq!(admit(Ask::CONNECTION, second(0)), Ok(()));
}

/// Every quota on resources, in every scope, for every service: one less than the limit is granted.
#[test]
fn every_service_keeps_every_quota_in_every_scope() {
    type Set = fn(&mut Quota);
    let quotas: [(Set, Ask); 3] = [
        (|q| q.connections = Some(3), Ask::CONNECTION),
        (|q| q.sessions = Some(3), Ask::session(0)),
        (|q| q.memory = Some(3_000), Ask::session(1_000)),
    ];
    for service in SERVICES {
        for scope in Scope::ALL {
            for (set, ask) in &quotas {
                let mut policy =
                    Policy { client: Quota::default(), total: Quota::default(), ..Policy::default() };
                policy.services.clear();
                let other = if *service == STAMP { LAMP } else { STAMP };
                set(match scope {
                    Scope::ServiceClient => &mut policy.service(service).client,
                    Scope::ServiceTotal => &mut policy.service(service).total,
                    Scope::Client => &mut policy.client,
                    Scope::Total => &mut policy.total,
                });
                let gate = Gate::new(policy);
                let ask_for = |service, address| gate.admit(service, ip(address), *ask, second(0));
                let held: Vec<Grant> = (0..3).map(|_| ask_for(service, A).unwrap()).collect();
                assert!(ask_for(service, A).is_err(), "{service} {scope:?} {ask:?}");
                assert_eq!(
                    ask_for(service, B).is_ok(),
                    scope.is_of_a_client(),
                    "{service} {scope:?} {ask:?}"
                );
                assert_eq!(ask_for(other, A).is_ok(), scope.is_of_a_service(), "{service} {scope:?} {ask:?}");
                drop(held);
                assert!(ask_for(service, A).is_ok(), "{service} {scope:?} {ask:?}");
                assert_eq!(gate.held(service), Ask::default());
            }
        }
    }
}

#[test]
fn refusals_name_the_limit() {
    let gate = Gate::new(Policy::default());
    let held: Vec<_> =
        (0..16).map(|_| gate.admit(TWAMP, ip(A), Ask::CONNECTION, second(0)).unwrap()).collect();
    let refused = gate.admit(TWAMP, ip(A), Ask::CONNECTION, second(0)).unwrap_err().to_string();
    assert_eq!(refused, "max-connections-per-client is limited to 16 on this server (one more requested)");
    drop(held);
    let _half = gate.admit(ONE_WAY, ip(A), Ask::session(1 << 30), second(0)).unwrap();
    let refused = gate.admit(TWAMP, ip(A), Ask::session(1 << 30), second(0)).unwrap_err().to_string();
    assert_eq!(
        refused,
        "max-memory-per-client is limited to 1536 MB on this server (1024 MB in addition to 1024 MB in use requested)"
    );
}

#[test]
fn when_full_the_longest_idle_of_those_who_hold_more_makes_room() {
    let mut policy = Policy::default();
    policy.service(TCP).total.connections = Some(4);
    policy.service(TCP).client.connections = Some(4);
    let gate = Gate::new(policy);
    let admit = |address: &str, s| gate.admit(TCP, ip(address), Ask::CONNECTION, second(s));
    let held: Vec<Grant> = (0..4).map(|k| admit(A, k).unwrap()).collect();
    held[0].set_busy();
    held[2].touch(second(4));
    held[1].touch(second(4));
    held[3].touch(second(5));
    assert_eq!(limit_of(admit(B, 5)), "max-connections", "none is idle for long");
    let first = admit(B, 7).unwrap();
    assert_eq!(held.iter().map(Grant::is_evicted).collect::<Vec<_>>(), [false, false, true, false]);
    let second = admit(B, 20).unwrap();
    assert_eq!(held.iter().map(Grant::is_evicted).collect::<Vec<_>>(), [false, false, true, true]);
    // Both clients have two connections now.
    assert_eq!(limit_of(admit(A, 30)), "max-connections");
    assert_eq!(limit_of(admit(B, 30)), "max-connections");
    // A third client has none yet, so the longest idle grant of the others is evicted, but never a busy one.
    first.set_busy();
    second.set_busy();
    let third = admit("198.51.100.1", 40).unwrap();
    assert!(held[1].is_evicted() && !first.is_evicted() && !second.is_evicted() && !third.is_evicted());
    drop(held);
    assert_eq!(gate.held(TCP).connections, 3);
}

#[test]
fn the_longer_something_was_in_use_the_longer_it_may_be_idle() {
    let mut policy = Policy::default();
    policy.service(TCP).total.connections = Some(1);
    for (used, idle) in [(0, 500), (300, 500), (5000, 5000), (60_000, 10_000)] {
        let at = |ms: i64| SteadyTime(ms * 1_000_000);
        let gate = Gate::new(policy.clone());
        let admit = |address, ms| gate.admit(TCP, ip(address), Ask::CONNECTION, at(ms));
        let held = admit(A, 0).unwrap();
        held.touch(at(used));
        assert!(admit(B, used + idle - 1).is_err() && !held.is_evicted(), "{used} ms");
        assert!(admit(B, used + idle).is_ok() && held.is_evicted(), "{used} ms");
    }
}

#[test]
fn what_was_hardly_used_makes_room_before_what_stalls() {
    let mut policy = Policy::default();
    policy.service(TCP).total.connections = Some(2);
    let gate = Gate::new(policy);
    let admit = |address, s| gate.admit(TCP, ip(address), Ask::CONNECTION, second(s)).unwrap();
    let used = admit(A, 0);
    used.touch(second(8));
    let silent = admit(B, 18);
    let _third = admit("198.51.100.1", 20);
    assert!(silent.is_evicted() && !used.is_evicted());
}

#[test]
fn clients_without_a_key_never_replace_clients_with_one() {
    let mut policy = Policy::default();
    policy.service(ONE_WAY).total.sessions = Some(2);
    let gate = Gate::new(policy);
    let admit =
        |address, s, proven| gate.admit(ONE_WAY, ip(address), Ask::session(0).proven(proven), second(s));
    let trusted = admit(A, 0, true).unwrap();
    let other = admit(B, 50, false).unwrap();
    assert!(admit("198.51.100.1", 50, false).is_err(), "one is not idle, the other has proven a key");
    // Idle grants of clients without a key are evicted first, no matter how long the others have been idle.
    let second_trusted = admit("198.51.100.1", 52, true).unwrap();
    assert!(other.is_evicted() && !trusted.is_evicted());
    assert!(admit("198.51.100.2", 99, false).is_err());
    assert!(admit("198.51.100.2", 99, true).is_ok() && trusted.is_evicted() && !second_trusted.is_evicted());
    // A connection counts as keyed as soon as its key has been proved.
    let mut policy = Policy::default();
    policy.service(ONE_WAY).total.connections = Some(1);
    let gate = Gate::new(policy);
    let connect = |address, s| gate.admit(ONE_WAY, ip(address), Ask::CONNECTION, second(s));
    let held = connect(A, 0).unwrap();
    held.set_proven();
    assert!(connect(B, 50).is_err() && !held.is_evicted());
}

#[test]
fn keep_alives_extend_a_grant_by_two_seconds_and_by_ten_between_packets() {
    let at = |ms: i64| SteadyTime(ms * 1_000_000);
    // Returns how long the first client retains all its `count` grants, in ms, if it sends a keep-alive every
    // 100 ms and a packet every `period` ms from 100 ms to `last`; `None`: for the whole minute.
    let kept = |count: usize, period: i64, last: i64| {
        let mut policy = Policy::default();
        policy.service(ONE_WAY).total.sessions = Some(count);
        let gate = Gate::new(policy);
        let admit = |address, ms| gate.admit(ONE_WAY, ip(address), Ask::session(0), at(ms));
        let held: Vec<Grant> = (0..count).map(|_| admit(A, 0).unwrap()).collect();
        let lost = (0..600).map(|k| 100 * k).find(|ms| {
            for grant in &held {
                grant.keep_alive(at(*ms));
                if period > 0 && ms % period == 100 && *ms <= last {
                    grant.touch(at(*ms));
                }
            }
            admit(B, *ms).is_ok()
        });
        assert_eq!(held.iter().filter(|grant| grant.is_evicted()).count(), usize::from(lost.is_some()));
        lost
    };
    assert_eq!(kept(1, 0, 0), Some(2000), "two for the first packet");
    assert_eq!(kept(1, 4000, 20_100), Some(30_100), "ten seconds after the last packet");
    assert_eq!(kept(1, 4000, 60_000), None, "a packet in four seconds");
    // A client with many unused grants retains each of them for a share of the time. A client that uses its
    // grants retains all of them.
    assert_eq!((kept(2, 0, 0), kept(32, 0, 0)), (Some(1000), Some(500)));
    assert_eq!(kept(32, 4000, 60_000), None);
}

/// Attackers with many addresses, and a server of one-way tests with its default of 128 sessions. An honest
/// client arrives every 90 ms. It sends its first packet 150 ms after admission, then one every 4 s.
struct Crowd {
    gate: Gate,
    now: SteadyTime,
    /// Grants of the attackers, with the time of each.
    held: std::collections::VecDeque<(Grant, SteadyTime)>,
    honest: Vec<(Grant, SteadyTime)>,
    asked: usize,
    refused: usize,
    evicted: usize,
}

impl Crowd {
    /// Runs attackers that request `asking` sessions per second, from `addresses` addresses in turn, for
    /// `seconds`. If `kept_alive` is true, they send keep-alives. They release each session after
    /// `given_back`. Honest clients start after 5 s.
    fn run(asking: i64, addresses: u32, kept_alive: bool, given_back: Span, seconds: i64) -> Crowd {
        let mut crowd = Crowd {
            gate: Gate::new(Policy::default()),
            now: second(0),
            held: Default::default(),
            honest: Vec::new(),
            asked: 0,
            refused: 0,
            evicted: 0,
        };
        let mut attackers =
            (0..addresses).cycle().map(|n| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + n)));
        for ms in (0..seconds * 1000).step_by(10) {
            crowd.now = SteadyTime(ms * 1_000_000);
            for _ in 0..asking / 100 {
                let held = crowd.gate.admit(ONE_WAY, attackers.next().unwrap(), Ask::session(0), crowd.now);
                crowd.held.extend(held.ok().map(|grant| (grant, crowd.now)));
            }
            crowd.held.retain(|(grant, since)| {
                if kept_alive && ms % 100 == 0 {
                    grant.keep_alive(crowd.now);
                }
                !grant.is_evicted() && crowd.now - *since < given_back
            });
            if ms >= 5000 && ms % 90 == 0 {
                crowd.honest_asks(ms);
            }
            crowd.honest_send();
        }
        crowd
    }

    fn honest_asks(&mut self, ms: i64) {
        self.asked += 1;
        let address = IpAddr::from(Ipv4Addr::from_bits(0xc633_0000 + ms as u32));
        match self.gate.admit(ONE_WAY, address, Ask::session(0), self.now) {
            Ok(grant) => self.honest.push((grant, self.now)),
            Err(_) => self.refused += 1,
        }
    }

    /// Sends packets and keep-alives, and ends each test after 5 s.
    fn honest_send(&mut self) {
        for (grant, since) in &self.honest {
            match (self.now - *since).0 % 4_000_000_000 {
                150_000_000 => grant.touch(self.now),
                at if at % 200_000_000 == 0 => grant.keep_alive(self.now),
                _ => {}
            }
        }
        self.evicted += self.honest.extract_if(.., |(grant, _)| grant.is_evicted()).count();
        self.honest.retain(|(_, since)| self.now - *since < Span::seconds(5));
    }

    fn lost(&self) -> (usize, usize) {
        assert!(self.asked > 50);
        (self.refused, self.evicted)
    }
}

#[test]
fn crowds_that_use_nothing_keep_no_honest_client_out() {
    let never = Span::seconds(1000);
    assert_eq!(Crowd::run(200, 240, false, never, 12).lost(), (0, 0), "silent");
    assert_eq!(Crowd::run(200, 240, true, never, 12).lost(), (0, 0), "kept_alive of all the time");
    assert_eq!(Crowd::run(700, 240, false, never, 12).lost(), (0, 0), "more than 256 new ones a second");
    assert_eq!(Crowd::run(700, 240, true, never, 12).lost(), (0, 0), "both");
    assert_eq!(
        Crowd::run(700, 240, true, Span::seconds(9), 40).lost(),
        (0, 0),
        "given back before it is late"
    );
}

#[test]
fn what_needs_less_memory_frees_the_rest() {
    let gate = Gate::new(Policy::default());
    let grant = gate.admit(ONE_WAY, ip(A), Ask::session(1000), second(0)).unwrap();
    grant.shrink(300);
    grant.shrink(500);
    assert_eq!(gate.held(ONE_WAY), Ask::session(300));
}

#[test]
fn wrong_keys_cost_more_and_more_time() {
    let gate = Gate::new(Policy::default());
    let admit = |address: &str, s| gate.admit(ONE_WAY, ip(address), Ask::CONNECTION, second(s)).map(drop);
    assert!(gate.wrong_key(ip(A), second(0)) && admit(A, 0).is_ok(), "one may be a mistake");
    assert!(gate.wrong_key(ip(A), second(0)));
    assert_eq!(admit(A, 0).unwrap_err().to_string(), "this address gave wrong keys; try again in 2 s");
    assert!(admit(B, 0).is_ok() && admit(A, 1).is_ok());
    let mut logged = 0;
    for _ in 0..100 {
        logged += u32::from(gate.wrong_key(ip(A), second(1)));
    }
    assert_eq!(logged, 5, "4, 8, 16, 32, 64");
    assert!(admit(A, 64).is_err() && admit(A, 65).is_ok());
    gate.right_key(ip(A));
    gate.wrong_key(ip(A), second(70));
    assert!(admit(A, 70).is_ok());
}

#[test]
fn rates_hold_for_a_client_and_in_all_of_a_service_and_of_all() {
    let now = second(1);
    for scope in Scope::ALL {
        let mut policy = Policy::default();
        let quota = Quota { packets: Some(10), ..Quota::default() };
        match scope {
            Scope::ServiceClient => policy.service(STAMP).client = quota,
            Scope::ServiceTotal => policy.service(STAMP).total = quota,
            Scope::Client => policy.client = quota,
            Scope::Total => policy.total = quota,
        }
        let all = Meters::new(&policy, 7);
        let [stamp, lamp] = [STAMP, LAMP].map(|service| all.of(&policy, service));
        let taken =
            |meters: &Meters, address| (0..9).filter(|_| meters.take(ip(address), 1, now).is_ok()).count();
        assert_eq!(taken(&stamp, A), 2, "{scope:?}");
        assert_eq!(taken(&stamp, B), if scope.is_of_a_client() { 2 } else { 0 }, "{scope:?}");
        assert_eq!(taken(&lamp, A), if scope.is_of_a_service() { 9 } else { 0 }, "{scope:?}");
    }
}

#[test]
fn tables_take_memory_of_the_common_budget_and_leave_room() {
    let mut policy = Policy::default();
    policy.total.memory = Some(160_000);
    policy.service(LAMP).client.sessions = Some(7);
    policy.service(STAMP).client.memory = Some(300);
    let gate = Gate::new(policy);
    let lamp = gate.reserve_table(LAMP, 1000, 100, second(0));
    assert_eq!((lamp.entries, lamp.per_client), (100, 7), "a sixteenth of the memory");
    let stamp = gate.reserve_table(STAMP, 50, 100, second(0));
    assert_eq!((stamp.entries, stamp.per_client), (50, 3));
    assert_eq!((gate.held(LAMP).memory, gate.held(STAMP).memory), (10_000, 5000));
    let session = |memory| gate.admit(ONE_WAY, ip(A), Ask::session(memory), second(60));
    assert_eq!(limit_of(session(145_001)), "max-memory");
    let rest = session(145_000).unwrap();
    assert_eq!(gate.reserve_table(TWAMP, 50, 100, second(60)).entries, 0);
    drop((stamp, rest));
    assert_eq!(gate.held(STAMP).memory, 0);
    assert_eq!(gate.reserve_table(STAMP, 50, 100, second(60)).entries, 50);
}
