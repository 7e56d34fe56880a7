use super::super::testing::{echo, frame, packet, sides, udp};
use super::*;
use crate::{IdentityFields, LinkType};
use jitlat_core::spec::Direction;
use jitlat_core::time::{SECOND, Span, WallTime};

fn rule() -> NamingRule {
    let fields = IdentityFields::Full { addresses: true, ports: true, ident: true };
    NamingRule {
        sides: sides(),
        identity: IdentityRule { fields, available: 64 },
        sorted: true,
        only: None,
        part: None,
        echoes_apart: false,
        inside: false,
        flows: None,
    }
}

/// Returns the sightings and the facts of packets at these times.
fn named(rule: NamingRule, packets: &[(i64, Vec<u8>)]) -> (Vec<Sighting>, CaptureFacts) {
    let mut namer = PacketNamer::new(rule);
    packets.iter().for_each(|(at, p)| namer.push(&frame(*at, p)));
    namer.finish()
}

#[test]
fn every_frame_is_counted_for_what_it_is() {
    let mut namer = PacketNamer::new(rule());
    let good = udp((1, 2), 5, b"payload");
    let malformed = [&good[..2], &[0, 10], &good[4..]].concat();
    let arp = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6, 0, 1];
    namer.push(&frame(20, &good));
    namer.push(&frame(30, &udp((2, 1), 6, b"answer")));
    namer.push(&frame(25, &udp((1, 3), 7, b"elsewhere")));
    namer.push(&frame(10, &good[..12]));
    namer.push(&frame(40, &malformed));
    namer.push(&crate::Frame { link: LinkType::ETHERNET, ..frame(41, &arp) });
    for _ in 0..2 {
        namer.push(&crate::Frame { link: LinkType(147), ..frame(42, &good) });
    }
    assert_eq!((namer.held(), namer.facts().frames), (2, 8));
    namer.facts_mut().drops = 3;
    let (sightings, f) = namer.finish();
    assert_eq!((f.frames, f.packets, f.elsewhere, f.ours, f.drops), (8, 3, 1, 2, 3));
    assert_eq!((f.truncated, f.malformed, f.unknown_link), (1, 1, Some((LinkType(147), 2))));
    assert_eq!((f.too_short, f.unidentified, f.long), (0, 0, 0));
    assert_eq!(f.span, Some((WallTime(10), WallTime(42))));
    assert_eq!(f.lengths.cumulative(), [(34, 0.5), (35, 1.0)]);
    let seen: Vec<_> = sightings.iter().map(|s| (s.at.0, s.direction, s.length, s.flow)).collect();
    assert_eq!(seen, [(20, Direction::Up, 35, 0), (30, Direction::Down, 34, 0)]);
    assert_ne!(sightings[0].id, sightings[1].id);
}

#[test]
fn pings_are_kept_apart_where_that_is_wanted() {
    let packets = [(10, echo((1, 2), true)), (70, echo((2, 1), false)), (80, udp((1, 2), 1, b"x"))];
    let (sightings, f) = named(NamingRule { echoes_apart: true, ..rule() }, &packets);
    assert_eq!((sightings.len(), f.packets, f.ours), (1, 3, 1));
    assert_eq!(f.pings, [(WallTime(10), Span(60))]);
    let (sightings, f) = named(rule(), &packets);
    assert_eq!((sightings.len(), f.ours, f.pings.len()), (3, 3, 0));
}

#[test]
fn a_filter_leaves_packets_out() {
    let packets = [(10, udp((1, 2), 1, b"x")), (20, packet(6, (1, 2), 2, &[0; 20]))];
    let (sightings, f) = named(NamingRule { only: Some("tcp".parse().unwrap()), ..rule() }, &packets);
    assert_eq!((sightings[0].at, sightings.len(), f.packets, f.ours), (WallTime(20), 1, 2, 1));
}

#[test]
fn packets_without_identification_and_those_cut_short_are_counted() {
    let (sightings, f) = named(rule(), &[(10, udp((1, 2), 0, b"x")), (20, udp((1, 2), 9, b"x"))]);
    assert_eq!((sightings.len(), f.unidentified), (2, 1));
    let long = udp((1, 2), 9, &[7; 200]);
    let mut namer = PacketNamer::new(rule());
    namer.push(&crate::Frame { wire_length: 228, ..frame(10, &long[..40]) });
    let (sightings, f) = namer.finish();
    assert_eq!((sightings.len(), f.ours, f.too_short), (0, 1, 1));
}

#[test]
fn both_points_number_flows_alike() {
    let shared = SharedFlowNumbers::default();
    let rule = NamingRule { flows: Some((Grouping::Flow, shared.clone())), ..rule() };
    let other = |ends, ident| packet(17, ends, ident, &[0, 9, 0, 9, 0, 8, 0, 0]);
    let numbers = |packets: &[(i64, Vec<u8>)]| -> Vec<u32> {
        named(rule.clone(), packets).0.iter().map(|s| s.flow).collect()
    };
    let here =
        [(1, udp((1, 2), 1, b"")), (2, other((1, 2), 2)), (3, udp((2, 1), 3, b"")), (4, other((1, 2), 4))];
    assert_eq!(numbers(&here), [0, 1, 0, 1]);
    let there = [(1, other((2, 1), 5)), (2, udp((1, 2), 6, b"")), (3, other((1, 2), 7))];
    assert_eq!(numbers(&there), [1, 0, 1]);
    assert_eq!(shared.keys().len(), 2);
    assert_eq!(shared.keys()[0].to_string(), "udp 10.0.0.1:5000 - 10.0.0.2:5000");
}

#[test]
fn slight_disorder_is_sorted_where_that_is_wanted() {
    let packets: Vec<_> =
        [10, 30, 20, 40].into_iter().zip(1..).map(|(at, n)| (at, udp((1, 2), n, b"x"))).collect();
    let order = |sorted| {
        let (sightings, f) = named(NamingRule { sorted, ..rule() }, &packets);
        (sightings.iter().map(|s| s.at.0).collect::<Vec<_>>(), f.disordered)
    };
    assert_eq!(order(true), (vec![10, 20, 30, 40], 1));
    assert_eq!(order(false).0, [10, 30, 20, 40]);
    let set_back = [(100 * SECOND, udp((1, 2), 1, b"x")), (0, udp((1, 2), 2, b"x"))];
    assert_eq!(named(rule(), &set_back).1.recording.steps.len(), 1);
}

#[test]
fn what_nothing_can_overtake_any_longer_can_be_taken() {
    let mut namer = PacketNamer::new(rule());
    namer.push(&frame(0, &udp((1, 2), 1, b"x")));
    namer.push(&frame(100 * SECOND, &udp((1, 2), 2, b"x")));
    let taken = namer.take(Vec::new());
    assert_eq!((taken.len(), taken[0].at), (1, WallTime(0)));
    assert_eq!(namer.finish().0.len(), 1);
}
