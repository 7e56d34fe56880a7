#![no_main]
// Aims at: crates/proto/src/policy/file.rs crates/proto/src/policy/mod.rs crates/proto/src/policy/quota.rs

use jitlat_core::SteadyTime;
use jitlat_proto::policy::file::{PolicyFile, write};
use jitlat_proto::policy::{Ask, Gate, Meters, Policy, SERVICES, Scope};
use std::net::IpAddr;

fn read(text: &str) -> Option<(PolicyFile, Policy)> {
    let mut policy = Policy::default();
    let file = PolicyFile::parse(text).ok()?;
    file.apply(&mut policy, SERVICES).ok()?;
    Some((file, policy))
}

/// Addresses of every kind, and the edges of networks that are likely to be named.
const ADDRESSES: [&str; 12] = [
    "0.0.0.0",
    "10.0.0.1",
    "127.0.0.1",
    "192.0.2.7",
    "192.0.2.128",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:192.0.2.7",
    "2001:db8::1",
    "2001:db9::",
    "fe80::1",
];

// Any text as a policy: a parsed policy is printed, and the printed text is parsed as a policy with the same
// decisions.
libfuzzer_sys::fuzz_target!(|text: &str| {
    let Some((files, policy)) = read(text) else { return };
    let shown = write(&policy, SERVICES, |_| true, &files);
    let Some((files_again, again)) = read(&shown) else { panic!("what is shown is not read: {shown}") };
    assert_eq!(
        (&again.networks, &again.client, &again.total),
        (&policy.networks, &policy.client, &policy.total)
    );
    assert_eq!(write(&again, SERVICES, |_| true, &files_again), shown);
    assert_eq!(files_again.key_file, files.key_file);
    for (service, table) in &files.services {
        let again = &files_again.services[service];
        assert_eq!((&again.key_file, &again.keys), (&table.key_file, &table.keys));
    }
    let gates = [policy.clone(), again.clone()].map(Gate::new);
    let meters = [&policy, &again].map(|policy| Meters::new(policy, 7));
    for service in SERVICES {
        assert_eq!(
            (again.is_off(service), again.is_open(service)),
            (policy.is_off(service), policy.is_open(service))
        );
        assert_eq!(again.duration(service), policy.duration(service));
        for scope in Scope::ALL {
            assert_eq!(again.quota(service, scope), policy.quota(service, scope));
        }
        for address in ADDRESSES {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(again.admits(service, address), policy.admits(service, address));
            for ask in [Ask::CONNECTION, Ask::session(1 << 20)] {
                let [one, other] =
                    gates.each_ref().map(|g| g.admit(service, address, ask, SteadyTime(0)).map(drop));
                assert_eq!(one, other);
                assert!(
                    one.is_err() || policy.admits(service, address).is_ok(),
                    "served although it is refused"
                );
            }
        }
    }
    let of = |k: usize, policy| meters[k].of(policy, SERVICES[2]);
    let (one, other) = (of(0, &policy), of(1, &again));
    for bytes in [40, 1500, 65_507] {
        let taken = |m: &Meters| m.take(IpAddr::from([192, 0, 2, 7]), bytes, SteadyTime(5));
        assert_eq!(taken(&one), taken(&other));
    }
});
