//! Complete tests over loopback: packets that are sent arrive, are stamped by the kernel, and are described
//! correctly.

use crate::common;
use crate::common::{LOCAL, all, free_port, measure, seqs, serve, serve_with};
use jitlat_core::record::Moment;
use jitlat_core::{Direction, Dscp, PacketRecord, Schedule, Span, StampSource, TestSpec, Transport};
use jitlat_proto::jitlat::{Dialect, ServerLimits};
use std::net::Ipv6Addr;

const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

fn kernel_stamped(records: &[PacketRecord], moment: Moment) -> usize {
    records.iter().filter(|r| r.stamp(moment).is_some_and(|s| s.source == StampSource::Kernel)).count()
}

#[test]
fn udp_each_way_is_whole_and_stamped_by_the_kernel() {
    let server = serve();
    for direction in BOTH {
        let n = 2000;
        let mut spec = server.spec(direction, Transport::Udp, n, Span::micros(300));
        spec.dscp = "EF".parse().unwrap();
        let (sessions, [records, _]) = measure(&server.request(vec![spec]));
        assert_eq!(seqs(&records), all(n as i64), "{direction:?}");
        assert_eq!(sessions[0].sent, Some(n as u32));
        assert_eq!(sessions[0].receiver_drops.unwrap_or(0), 0);
        for moment in [Moment::Sent, Moment::Arrived] {
            let stamped = kernel_stamped(&records, moment);
            assert!(stamped * 1000 >= records.len() * 999, "{direction:?} {moment:?}: {stamped} of {n}");
        }
        for r in &records {
            assert!(r.flags.is_clean(), "{r:?}");
            assert_eq!((r.size(), r.ttl(), r.dscp()), (Some(80), Some(64), Some(46)), "{direction:?}");
            // Both ends use the same clock, so a packet cannot arrive before it was sent.
            assert!(r.delay().unwrap() >= Span::ZERO, "{r:?}");
        }
    }
}

#[test]
fn both_directions_at_once_in_one_conversation() {
    let server = serve();
    let specs = BOTH.map(|d| server.spec(d, Transport::Udp, 300, Span::millis(1))).to_vec();
    let (sessions, records) = measure(&server.request(specs));
    assert_eq!(sessions.iter().map(|s| s.spec.direction()).collect::<Vec<_>>(), BOTH);
    assert_eq!(sessions[0].id, sessions[1].id);
    for flow in &records {
        assert_eq!(seqs(flow), all(300));
    }
}

#[test]
fn ipv6_carries_the_same() {
    let ip = Ipv6Addr::LOCALHOST.into();
    if std::net::UdpSocket::bind((ip, 0)).is_err() {
        eprintln!("skipped: this host has no IPv6 loopback");
        assert!(std::env::var_os("JITLAT_NO_SKIP").is_none());
        return;
    }
    let server = serve_with(ip, ServerLimits::default(), None);
    for direction in BOTH {
        let mut spec = server.spec(direction, Transport::Udp, 200, Span::millis(1));
        spec.dscp = Dscp::new(34).unwrap();
        let (sessions, [records, _]) = measure(&server.request(vec![spec]));
        assert_eq!(seqs(&records), all(200));
        assert_eq!(sessions[0].src, Some(ip));
        assert!(records.iter().all(|r| r.ttl() == Some(64) && r.dscp() == Some(34)), "{:?}", records[0]);
        assert!(kernel_stamped(&records, Moment::Sent) >= 199);
    }
}

#[test]
fn tcp_records_are_whole_whatever_their_length() {
    let server = serve();
    for direction in BOTH {
        for payload in [12, 1501, 40_000] {
            let mut spec =
                TestSpec::new(direction, Transport::Tcp, 150, payload, Span::millis(1), Schedule::Periodic)
                    .unwrap();
            (spec.src_port, spec.dst_port) = match direction {
                Direction::Up => (0, server.test_port),
                Direction::Down => (server.test_port, 0),
            };
            let (_, [records, _]) = measure(&server.request(vec![spec]));
            let in_order: Vec<i64> = records.iter().map(|r| r.seq).collect();
            assert_eq!(in_order, all(150), "{direction:?} {payload}: a stream neither loses nor reorders");
            assert!(records.iter().all(|r| r.size() == Some(payload as u16) && r.flags.is_clean()));
        }
    }
}

#[test]
fn the_longest_datagram_goes_through() {
    let server = serve();
    for direction in BOTH {
        let mut spec =
            TestSpec::new(direction, Transport::Udp, 30, 65_507, Span::millis(2), Schedule::Periodic)
                .unwrap();
        (spec.src_port, spec.dst_port) = match direction {
            Direction::Up => (0, server.test_port),
            Direction::Down => (server.test_port, 0),
        };
        let (_, [records, _]) = measure(&server.request(vec![spec]));
        assert_eq!(seqs(&records), all(30));
        assert!(records.iter().all(|r| r.size() == Some(65_507) && r.flags.is_clean()), "{:?}", records[0]);
    }
}

#[test]
fn classic_workorders_in_every_combination() {
    let server = serve();
    // The classic probes take five seconds, so both tests run in parallel.
    std::thread::scope(|scope| {
        for direction in BOTH {
            for transport in [Transport::Udp, Transport::Tcp] {
                let mut spec = server.spec(direction, transport, 100, Span::millis(1));
                if direction == Direction::Down {
                    // The classic server sends from its own port to a port chosen by the client.
                    (spec.src_port, spec.dst_port) = (0, free_port(LOCAL));
                }
                let mut request = server.request(vec![spec]);
                request.terms.dialect = Dialect::Classic;
                scope.spawn(move || {
                    let (_, [records, _]) = measure(&request);
                    assert_eq!(seqs(&records), all(100), "{direction:?} {transport}");
                });
            }
        }
    });
}

#[test]
fn bursts_and_poisson_streams_are_whole() {
    let server = serve();
    for schedule in [Schedule::Burst { size: 50 }, Schedule::Poisson { seed: 7 }] {
        let mut spec =
            TestSpec::new(Direction::Up, Transport::Udp, 500, 80, Span::micros(500), schedule).unwrap();
        spec.dst_port = server.test_port;
        let (_, [records, _]) = measure(&server.request(vec![spec]));
        assert_eq!(seqs(&records), all(500), "{schedule:?}");
        assert!(kernel_stamped(&records, Moment::Sent) >= 499, "{schedule:?}");
    }
}

/// At any rate, each sent packet has a stamp, or counts as a packet whose stamp was lost.
#[test]
fn every_stamp_of_a_burst_is_had_or_counted() {
    let server = serve();
    for (packets, size) in [(3000, 100), (6400, 3200)] {
        let schedule = Schedule::Burst { size };
        let mut spec =
            TestSpec::new(Direction::Up, Transport::Udp, packets, 80, Span::micros(10), schedule).unwrap();
        spec.dst_port = server.test_port;
        let (sessions, [records, _]) = measure(&server.request(vec![spec]));
        assert_eq!(seqs(&records), all(packets as i64), "{size}");
        let lost = sessions[0].stamps_lost.expect("stamps were asked for");
        assert_eq!(kernel_stamped(&records, Moment::Sent) as u64 + lost, packets, "{size}");
        // Test packets are never sent in one buffer, which would have only one stamp.
        let left: std::collections::HashSet<_> = records.iter().filter_map(PacketRecord::sent).collect();
        assert!(left.len() * 10 >= records.len() * 9, "{size}: {} times of {packets}", left.len());
        assert!(records.iter().all(|r| r.size() == Some(80)), "{size}");
    }
}

#[test]
fn fast_packets_are_whole_and_stamped_on_arrival_however_they_are_read() {
    let server = serve();
    for direction in BOTH {
        let spec = server.spec(direction, Transport::Udp, 20_000, Span::micros(50));
        let (sessions, [records, _]) = measure(&server.request(vec![spec.clone()]));
        assert_eq!((sessions[0].sent, sessions[0].stamps_lost), (Some(20_000), Some(0)), "{direction:?}");
        assert_eq!(records.len() as u64 + sessions[0].receiver_drops.unwrap_or(0), 20_000, "{direction:?}");
        assert!(sessions[0].read_pause.is_none_or(|pause| pause <= spec.read_pause()), "{direction:?}");
        let by_kernel = kernel_stamped(&records, Moment::Arrived);
        assert!(by_kernel * 1000 >= records.len() * 999, "{direction:?}: {by_kernel}");
        assert!(records.iter().all(|r| r.delay().unwrap() >= Span::ZERO), "{direction:?}");
    }
}

#[test]
fn a_load_that_leaves_in_buffers_arrives_as_its_packets() {
    let server = serve();
    let spec = server.spec(Direction::Up, Transport::Udp, 40_000, Span::micros(5));
    let mut request = server.request(vec![spec]);
    (request.terms.stamps, request.sending.segmented) = (StampSource::User, true);
    let (sessions, [records, _]) = measure(&request);
    assert_eq!((sessions[0].sent, sessions[0].unsent, sessions[0].stamps_lost), (Some(40_000), 0, None));
    assert_eq!(records.len() as u64 + sessions[0].receiver_drops.unwrap_or(0), 40_000);
    assert!(records.iter().all(|r| r.size() == Some(80) && r.flags.is_clean()));
}

#[test]
fn rows_delivered_while_they_arrive_equal_those_at_the_end() {
    let server = serve();
    let spec = server.spec(Direction::Down, Transport::Udp, 400, Span::millis(1));
    let mut collector = common::RecordCollector::default();
    common::run(&server.request(vec![spec]), &mut collector).unwrap();
    assert_eq!(seqs(&collector.records[0]), all(400));
    assert_eq!(
        collector.live[0].iter().map(|r| r.seq).collect::<Vec<_>>(),
        collector.records[0].iter().map(|r| r.seq).collect::<Vec<_>>()
    );
}

#[test]
fn rows_that_an_observer_is_too_slow_for_are_counted() {
    let server = serve();
    let spec = server.spec(Direction::Down, Transport::Udp, 20_000, Span::micros(50));
    let slow = std::time::Duration::from_secs(2);
    let mut collector = common::RecordCollector { slow, ..common::RecordCollector::default() };
    common::run(&server.request(vec![spec]), &mut collector).unwrap();
    let (live, all) = (collector.live[0].len() as u64, collector.records[0].len() as u64);
    assert!(collector.missed > 0, "{live} of {all}");
    assert_eq!(live + collector.missed, all);
}

#[test]
fn many_clients_at_once_do_not_mix() {
    let limits =
        ServerLimits { connections_per_client: 64, sessions_per_client: 64, ..ServerLimits::default() };
    let server = serve_with(LOCAL, limits, None);
    let clients: Vec<_> = (0..20_u64)
        .map(|i| {
            // Each stream has its own packet length, so that packets of another stream would be noticed.
            let direction = BOTH[i as usize % 2];
            let mut spec = TestSpec::new(
                direction,
                Transport::Udp,
                100 + i,
                40 + i,
                Span::millis(4),
                Schedule::Periodic,
            )
            .unwrap();
            match direction {
                Direction::Up => spec.dst_port = server.test_port,
                Direction::Down => spec.src_port = server.test_port,
            }
            let request = server.request(vec![spec]);
            std::thread::spawn(move || (i, measure(&request)))
        })
        .collect();
    let mut names = std::collections::HashSet::new();
    for client in clients {
        let (i, (sessions, [records, _])) = client.join().unwrap();
        assert_eq!(seqs(&records), all(100 + i as i64), "client {i}");
        assert!(records.iter().all(|r| r.size() == Some(40 + i as u16) && r.flags.is_clean()), "client {i}");
        assert!(names.insert(sessions[0].id.clone()), "two sessions of one name");
    }
}
