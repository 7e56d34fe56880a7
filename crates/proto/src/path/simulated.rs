//! A path of routers in virtual time. The routers quote expired packets in the bytes of real ICMP errors.

use super::quotation::{IcmpFamily, Quotation};
use super::tracer::{ProbeAnswer, TracePlan, Tracer};
use crate::echo::checksum;
use core::net::IpAddr;
use jitlat_core::path::{Label, Path, PathEnd};
use jitlat_core::{Span, SteadyTime, Transport, WallTime};

/// A quoted packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted {
    pub family: IcmpFamily,
    pub protocol: u8,
    pub ports: [u16; 2],
    pub traffic_class: u8,
    pub ttl: u8,
    /// UDP payload length, in bytes.
    pub payload: u16,
}

pub const V4: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 99]];

pub fn addresses(family: IcmpFamily) -> [IpAddr; 2] {
    match family {
        IcmpFamily::V4 => V4.map(IpAddr::from),
        IcmpFamily::V6 => ["2001:db8::1", "2001:db8::99"].map(|a| a.parse().unwrap()),
    }
}

/// Returns the ICMP error about the packet `q`. If there are `labels`, the quoted packet is padded to `stated` bytes,
/// which the message then states, or to 128 bytes if `stated` is `None`.
pub fn message(q: &Quoted, kind: [u8; 2], stated: Option<usize>, labels: &[Label]) -> Vec<u8> {
    let mut packet = match q.family {
        IcmpFamily::V4 => {
            let mut header = vec![0x45, q.traffic_class, 0, 0, 0, 0, 0, 0, q.ttl, q.protocol, 0, 0];
            header.extend(V4.concat());
            header
        }
        IcmpFamily::V6 => {
            let first = 6 << 28 | u32::from(q.traffic_class) << 20 | 0x12345;
            let mut header = first.to_be_bytes().to_vec();
            header.extend([0, 0, q.protocol, q.ttl]);
            for address in addresses(IcmpFamily::V6) {
                let IpAddr::V6(address) = address else { unreachable!() };
                header.extend(address.octets());
            }
            header
        }
    };
    q.ports.iter().for_each(|p| packet.extend(p.to_be_bytes()));
    packet.extend((q.payload + 8).to_be_bytes());
    packet.extend([0, 0]);
    let mut message = vec![kind[0], kind[1], 0, 0, 0, 0, 0, 0];
    if labels.is_empty() {
        return [message, packet].concat();
    }
    packet.resize(stated.unwrap_or(128), 0);
    if let Some(stated) = stated {
        match q.family {
            IcmpFamily::V4 => message[5] = (stated / 4) as u8,
            IcmpFamily::V6 => message[4] = (stated / 8) as u8,
        }
    }
    let mut structure = vec![0x20, 0, 0, 0];
    structure.extend((4 + 4 * labels.len() as u16).to_be_bytes());
    structure.extend([1, 1]);
    for l in labels {
        let entry =
            l.label << 12 | u32::from(l.traffic_class) << 9 | u32::from(l.bottom) << 8 | u32::from(l.ttl);
        structure.extend(entry.to_be_bytes());
    }
    let sum = checksum(&structure).to_be_bytes();
    structure[2..4].copy_from_slice(&sum);
    [message, packet, structure].concat()
}

/// A router of the simulated path.
#[derive(Clone, Debug, Default)]
struct Router {
    /// One-way delay from this host.
    delay: Span,
    /// Traffic class that the router writes into forwarded packets; `None`: unchanged.
    rewrites: Option<u8>,
    /// Number of probes per answer of the router; 0: the router never answers.
    answers_each: u32,
    labels: Vec<Label>,
    /// True if another router with the same properties has this position in the routes of even flows.
    balanced: bool,
    /// Seconds during which the router reports that the destination is unreachable instead of forwarding packets.
    cut: core::ops::Range<i64>,
    /// Time that the router waits before it reports this.
    cut_wait: Span,
}

/// Traces a path through `routers` to a destination behind the last one.
fn trace(plan: &TracePlan, routers: &[Router], destination_answers: bool) -> Path {
    const PORT: u16 = 50_000;
    let family = if plan.destination.is_ipv4() { IcmpFamily::V4 } else { IcmpFamily::V6 };
    let (exceeded, unreachable, cut_off) = match family {
        IcmpFamily::V4 => ([11, 0], [3, 3], [3, 1]),
        IcmpFamily::V6 => ([3, 0], [1, 4], [1, 3]),
    };
    let epoch = WallTime(1_700_000_000_000_000_000);
    let wall = |t: SteadyTime| epoch + Span(t.0);
    let router = |k: usize, flow: u16| -> IpAddr {
        let other = u8::from(routers[k - 1].balanced && flow.is_multiple_of(2));
        match family {
            IcmpFamily::V4 => [10, 0, other, k as u8].into(),
            IcmpFamily::V6 => [0xfd00, 0, 0, 0, 0, 0, other.into(), k as u16].into(),
        }
    };
    let mut now = SteadyTime(0);
    let mut tracer = Tracer::new(plan.clone(), now);
    let mut coming: Vec<(SteadyTime, u16, IpAddr, Vec<u8>)> = Vec::new();
    let mut asked = vec![0u32; routers.len()];
    let tcp = plan.transport == Transport::Tcp;
    let source_ports: Vec<u16> = (0..plan.flows).map(|flow| PORT + 1000 + flow).collect();
    while !tracer.is_over(now) {
        assert!(now < SteadyTime(600_000_000_000), "it ends");
        while let Some(due) = tracer.poll_probe(now) {
            tracer.sent(due, wall(now), now);
            let mut octet = plan.dscp.octet() | plan.mark.bits();
            let reached = usize::from(due.ttl) - 1;
            for router in routers.iter().take(reached) {
                octet = router.rewrites.unwrap_or(octet);
            }
            let flow = due.flow;
            let source = if tcp { PORT + due.slot } else { source_ports[usize::from(flow) - 1] };
            let ports = [source, plan.port];
            let quoted = Quoted {
                family,
                protocol: plan.transport.number(),
                ports,
                traffic_class: octet,
                ttl: 1,
                payload: due.payload(),
            };
            let second = now.0 / 1_000_000_000;
            if let Some(k) = routers.iter().take(reached).position(|router| router.cut.contains(&second)) {
                let bytes = message(&quoted, cut_off, None, &[]);
                let reported = now + routers[k].delay.times(2) + routers[k].cut_wait;
                coming.push((reported, due.slot, router(k + 1, flow), bytes));
                continue;
            }
            match routers.get(reached) {
                Some(r) => {
                    asked[reached] += 1;
                    if asked[reached].is_multiple_of(r.answers_each) {
                        let bytes = message(&quoted, exceeded, Some(128), &r.labels);
                        coming.push((now + r.delay.times(2), due.slot, router(reached + 1, flow), bytes));
                    }
                }
                None if destination_answers => {
                    let delay = routers.last().map_or(Span::ZERO, |r| r.delay) + Span::millis(1);
                    let bytes = message(&quoted, unreachable, None, &[]);
                    coming.push((now + delay.times(2), due.slot, plan.destination, bytes));
                }
                None => {}
            }
        }
        let next = coming.iter().map(|c| c.0).min().unwrap_or(SteadyTime(i64::MAX));
        now = next.min(tracer.deadline()).max(now + Span(1));
        for (at, slot, from, bytes) in coming.extract_if(.., |c| c.0 <= now) {
            let quotation = Quotation::parse(family, &bytes).unwrap();
            let ports = |port: u16| port.checked_sub(PORT);
            assert_eq!(tracer.slot(&quotation, &source_ports, ports), Some(slot));
            assert_eq!(
                tracer.slot(&Quotation { ports: [1, 2], ..quotation.clone() }, &source_ports, ports),
                None
            );
            tracer.answer(slot, ProbeAnswer::of_quotation(quotation.clone(), from, wall(at)), now);
            // A second answer to the same probe is ignored.
            tracer.answer(slot, ProbeAnswer::of_quotation(quotation, from, wall(at)), now);
        }
        if tracer.round() == 1 {
            tracer.forget_silence();
        }
    }
    tracer.path()
}

fn routers() -> Vec<Router> {
    let label = Label { label: 24_000, traffic_class: 5, bottom: true, ttl: 1 };
    vec![
        Router { delay: Span::millis(1), answers_each: 1, ..Router::default() },
        Router { delay: Span::millis(5), answers_each: 2, rewrites: Some(0x01), ..Router::default() },
        Router { delay: Span::millis(9), answers_each: 1, labels: vec![label], ..Router::default() },
        Router { delay: Span::millis(9), answers_each: 0, ..Router::default() },
    ]
}

#[test]
fn hops_delays_code_points_and_labels_come_out_as_they_are() {
    for family in [IcmpFamily::V4, IcmpFamily::V6] {
        for transport in [Transport::Udp, Transport::Tcp] {
            let [source, destination] = addresses(family);
            let plan =
                TracePlan { transport, dscp: "EF".parse().unwrap(), ..TracePlan::new(source, destination) };
            let path = trace(&plan, &routers(), true);
            assert!(path.reached, "{path:?}");
            let answered: Vec<(u64, u64)> = path.hops.iter().map(|h| (h.sent, h.answered)).collect();
            assert_eq!(answered, [(10, 10), (10, 5), (10, 10), (10, 0), (10, 10)]);
            let rtt: Vec<Option<f64>> = path.hops.iter().map(|h| h.rtt.median).collect();
            assert_eq!(rtt, [Some(2e6), Some(10e6), Some(18e6), None, Some(20e6)]);
            let [rewrite] = path.rewrites[..] else { panic!("{:?}", path.rewrites) };
            assert_eq!((rewrite.after_ttl, rewrite.at_ttl, rewrite.from, rewrite.to), (2, 3, 46, 0));
            assert_eq!(path.hops[2].labels[0].label, 24_000);
            assert_eq!(path.hops[4].end, Some(PathEnd::Destination));
        }
    }
}

#[test]
fn a_silent_end_is_not_asked_for_ever() {
    let [source, destination] = addresses(IcmpFamily::V4);
    let path = trace(&TracePlan::new(source, destination), &routers(), false);
    assert_eq!((path.reached, path.hops.len()), (false, 3));
    let nobody = trace(&TracePlan::new(source, destination), &[], false);
    assert_eq!((nobody.reached, nobody.hops.len()), (false, 0));
}

#[test]
fn a_destination_that_is_unreachable_for_a_time_loses_probes_and_its_router_is_one_hop() {
    for family in [IcmpFamily::V4, IcmpFamily::V6] {
        let [source, destination] = addresses(family);
        let plan = TracePlan::new(source, destination);
        let mut routers = vec![Router { delay: Span::millis(1), answers_each: 1, ..Router::default() }; 3];
        routers[1].cut = 3..6;
        let path = trace(&plan, &routers, true);
        assert!(path.reached);
        let hops: Vec<(u64, u64, u64)> =
            path.hops.iter().map(|h| (h.sent, h.answered, h.unreachable)).collect();
        // A round begins each second; in three rounds the probes of hops 3 and 4 get no answer.
        assert_eq!(hops, [(10, 10, 0), (10, 10, 6), (10, 7, 0), (10, 7, 0)]);
        assert_eq!(path.hops[1].end, None);

        routers[1].cut = 0..100;
        let path = trace(&plan, &routers, true);
        let ends: Vec<bool> = path.hops.iter().map(|hop| hop.end.is_some()).collect();
        assert_eq!((path.reached, &ends[..]), (false, &[false, true][..]));

        // A report after the timeout is a reason, but no answer.
        routers[1].cut_wait = plan.timeout + Span::millis(1100);
        let path = trace(&plan, &routers, true);
        let hops: Vec<(u64, bool)> = path.hops.iter().map(|hop| (hop.answered, hop.end.is_some())).collect();
        assert_eq!((path.reached, &hops[..]), (false, &[(10, false), (10, true)][..]));
        assert!(path.hops[1].unreachable > 0 && path.hops[1].rtt.max.is_some_and(|max| max < 1_000_000_000));
    }
}

#[test]
fn flows_take_turns_and_show_the_routers_of_each_route() {
    let [source, destination] = addresses(IcmpFamily::V4);
    let mut routers = vec![Router { delay: Span::millis(1), answers_each: 1, ..Router::default() }; 3];
    routers[1].balanced = true;
    let path =
        trace(&TracePlan { flows: 3, probes: 9, ..TracePlan::new(source, destination) }, &routers, true);
    assert_eq!((path.hops.len(), path.reached), (4, true));
    let answered: Vec<(u64, u64)> = path.hops.iter().map(|h| (h.sent, h.answered)).collect();
    assert_eq!(answered, [(9, 9); 4], "a hop is not probed more often because there are more flows");
    let of_hop = |k: usize| -> Vec<(IpAddr, &[u16])> {
        path.hops[k].responders.iter().map(|r| (r.address, &r.flows[..])).collect()
    };
    assert_eq!(of_hop(0), [([10, 0, 0, 1].into(), &[1, 2, 3][..])]);
    assert_eq!(of_hop(1), [([10, 0, 0, 2].into(), &[1, 3][..]), ([10, 0, 1, 2].into(), &[2][..])]);
}
