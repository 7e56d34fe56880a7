//! The survey: finds addresses, direction, translation and clock offset from the first packets of both
//! captures, so that the user need not specify them.
//!
//! Packets with the same identity (without addresses and ports) in both captures are compared. If source or destination
//! differs, there is NAT. Of the two directions, the one with the larger (monitor − reference) time is OUT. The mean of
//! the smallest differences of both directions is the clock offset, with an error of at most half the round trip.

use super::identity::Identity;
use super::identity::{IdentityFields, IdentityRule};
use super::packet::IpPacket;
use super::part::ClockLine;
use super::sighting::MAX_COPY_GAP_NS;
use core::net::IpAddr;
use jitlat_core::prefix::{Prefix, bits};
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Index, in [`PacketPreview::names`], of the identity that contains neither the IP identification nor addresses and
/// ports.
const WITHOUT_IDENT: usize = 3;
/// Maximum number of addresses of a side.
const MAX_ADDRESSES: usize = 256;

/// Addresses at the two ends, as seen by one point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides {
    /// Addresses behind the reference point.
    pub reference: Vec<Prefix>,
    /// Addresses behind the monitor point.
    pub monitor: Vec<Prefix>,
}

impl Sides {
    /// Returns sides that contain any address.
    pub fn any() -> Sides {
        let all =
            [IpAddr::from([0; 4]), IpAddr::from([0; 16])].map(|a| Prefix::new(a, 0).unwrap_or(a.into()));
        Sides { reference: all.into(), monitor: all.into() }
    }

    /// Returns the direction of a packet; `None` if its addresses are not on these two sides.
    #[inline]
    pub fn direction(&self, p: &IpPacket<'_>) -> Option<Direction> {
        let (src, dst) = p.ends();
        self.between(src, dst)
    }

    #[inline]
    fn between(&self, src: u128, dst: u128) -> Option<Direction> {
        let among = |list: &[Prefix], a| list.iter().any(|p| p.holds(a));
        if among(&self.reference, src) && among(&self.monitor, dst) {
            Some(Direction::Up)
        } else if among(&self.monitor, src) && among(&self.reference, dst) {
            Some(Direction::Down)
        } else {
            None
        }
    }

    fn direction_of(&self, g: &PacketPreview) -> Option<Direction> {
        self.direction_between(g.src, g.dst)
    }

    /// Returns the direction of packets from `src` to `dst`; `None` if these addresses are not on the two sides.
    pub(super) fn direction_between(&self, src: IpAddr, dst: IpAddr) -> Option<Direction> {
        self.between(bits(src), bits(dst))
    }
}

/// Relation of a packet to tunnels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreviewLayer {
    /// The packet was not inside a tunnel, and contains no other packet that can be parsed.
    #[default]
    Plain,
    /// The packet carries another packet in a tunnel.
    Tunnel,
    /// The packet was inside a tunnel.
    Inside,
}

impl PreviewLayer {
    /// Returns the number of this value in digests.
    pub fn bits(self) -> u8 {
        self as u8
    }

    /// Returns the value with this number; `Plain` for an unknown number.
    pub fn from_bits(bits: u8) -> PreviewLayer {
        match bits & 3 {
            1 => PreviewLayer::Tunnel,
            2 => PreviewLayer::Inside,
            _ => PreviewLayer::Plain,
        }
    }
}

/// Data of a packet that the survey uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketPreview {
    /// Time at which the packet passed the point.
    pub at: WallTime,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source and destination port, if there are any.
    pub ports: Option<(u16, u16)>,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Four identities of the packet: from all fields; without the IP identification; without addresses and ports; and
    /// without any of these.
    pub names: [Identity; 4],
    /// Relation of the packet to tunnels, if a far point reports it; otherwise `Plain`.
    pub layer: PreviewLayer,
}

impl PacketPreview {
    /// Creates the preview of a packet; both captures have at least `available` bytes per packet. `None` if `p` has too
    /// few.
    pub fn of(p: &IpPacket<'_>, at: WallTime, available: usize) -> Option<PacketPreview> {
        let name = |ends, ident| {
            let fields = IdentityFields::Full { addresses: ends, ports: ends, ident };
            IdentityRule { fields, available }.identify(p, None)
        };
        Some(PacketPreview {
            at,
            src: p.src(),
            dst: p.dst(),
            ports: p.ports(),
            ttl: p.ttl(),
            names: [name(true, true)?, name(true, false)?, name(false, true)?, name(false, false)?],
            layer: PreviewLayer::Plain,
        })
    }
}

/// The result of a survey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchPlan {
    /// Addresses of the two ends as seen by the reference and the monitor point.
    pub sides: [Sides; 2],
    /// Fields from which packet identities are computed.
    pub fields: IdentityFields,
    /// Monitor clock minus reference clock, with an error of at most half the round trip.
    pub offset: Span,
    /// Number of common packets that the plan is based on.
    pub common: usize,
    /// True if OUT and IN are uncertain, because they are derived from the clocks alone.
    pub direction_assumed: bool,
    /// For the reference and the monitor point: true if the common packets are inside tunnels there.
    pub inside: [bool; 2],
}

/// Reason why no plan can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// Nothing was captured at one of the points.
    #[error("a capture contains no IP packets")]
    Empty,
    /// No packet identity occurs at both points.
    #[error("the captures have no packet in common")]
    NothingCommon,
    /// The same packet identities occur at both points, but each of them more than once at one of the points.
    #[error(
        "the packets of the captures cannot be told apart: they repeat the fields that identify them (no IP \
         identification, the same payload). Capture more bytes of each packet (tcpdump -s 0), or traffic with a number \
         or a time in each packet"
    )]
    Ambiguous,
    /// There are common packets, but none between the requested addresses.
    #[error("both captures contain {0} common packets, but none between the given addresses")]
    OtherAddresses(usize),
}

/// Makes a plan from previews of both captures; `asked` are the addresses given by the user, including
/// translated ones.
pub fn survey(
    reference: &[PacketPreview],
    monitor: &[PacketPreview],
    asked: Option<&Sides>,
) -> Result<MatchPlan, NoPlan> {
    if reference.is_empty() || monitor.is_empty() {
        return Err(NoPlan::Empty);
    }
    // If a middlebox rewrites a field, few names that include it match. Names without addresses are ambiguous
    // for an answer that repeats its question.
    let found = [0, 1, 2, 3].map(|name| common(reference, monitor, name));
    let most = found.iter().map(Vec::len).max().unwrap_or(0);
    // Prefer the name with the most fields, unless another one matches more than twice as many packets.
    let best = found.into_iter().enumerate().find(|(_, f)| f.len() * 2 >= most && !f.is_empty());
    let Some((name, mut found)) = best else {
        let known: HashSet<Identity> = reference.iter().map(|g| g.names[WITHOUT_IDENT]).collect();
        let repeated = monitor.iter().filter(|g| known.contains(&g.names[WITHOUT_IDENT])).count();
        // A few packets may have the same content by chance.
        let is_ambiguous = repeated >= monitor.len().min(reference.len()).div_ceil(2);
        return Err(if is_ambiguous { NoPlan::Ambiguous } else { NoPlan::NothingCommon });
    };
    let ident = name % 2 == 0;
    let all = found.len();
    if let Some(asked) = asked {
        found.retain(|(r, m)| asked.direction_of(r).is_some() || asked.direction_of(m).is_some());
        if found.is_empty() {
            return Err(NoPlan::OtherAddresses(all));
        }
    }
    let (directions, direction_assumed) = directions(&found, asked);
    let addresses = found.iter().all(|(r, m)| (r.src, r.dst) == (m.src, m.dst));
    let ports = found.iter().all(|(r, m)| r.ports == m.ports);
    let sides = match asked {
        Some(asked) => [asked.clone(), asked.clone()],
        None => [sides(&found, &directions, |f| f.0), sides(&found, &directions, |f| f.1)],
    };
    let difference = |f: &(&PacketPreview, &PacketPreview)| f.1.at - f.0.at;
    let of = |direction| {
        found.iter().zip(&directions).filter(move |(_, w)| **w == direction).map(|(f, _)| difference(f).0)
    };
    let offset = match (of(Direction::Up).min(), of(Direction::Down).max()) {
        // Divide first, because the sum may overflow.
        (Some(a), Some(b)) => Span(a / 2 + b / 2),
        (a, b) => Span(a.or(b).unwrap_or(0)),
    };
    let fields = IdentityFields::Full { addresses, ports, ident };
    Ok(MatchPlan { sides, fields, offset, common: all, direction_assumed, inside: [false; 2] })
}

/// Fits the clock offset over time as a line. Packets of both samples are identified according to the plan. In each of
/// 32 intervals, the point to fit is the midpoint of both directions' smallest differences, or the smallest difference
/// if only one direction has packets.
pub fn clock_line(reference: &[PacketPreview], monitor: &[PacketPreview], plan: &MatchPlan) -> ClockLine {
    const STRETCHES: i64 = 32;
    let name = match plan.fields {
        IdentityFields::Full { addresses, ports, ident } => {
            usize::from(!(addresses && ports)) * 2 + usize::from(!ident)
        }
        IdentityFields::Mask(_) => 0,
    };
    let found = common(reference, monitor, name);
    let (Some(first), Some(last)) = (found.first().map(|f| f.0.at), found.last().map(|f| f.0.at)) else {
        return ClockLine { at: WallTime(0), offset: plan.offset, drift: 0.0 };
    };
    let length = ((last - first).0 / STRETCHES).saturating_add(1).max(1);
    let mut least: BTreeMap<i64, [Option<i64>; 2]> = BTreeMap::new();
    for (r, m) in &found {
        let Some(direction) = plan.sides[0].direction_of(r) else { continue };
        let difference = (m.at - r.at).0;
        let slot = &mut least.entry((r.at - first).0 / length).or_default()[direction as usize];
        *slot = Some(match (direction, *slot) {
            (_, None) => difference,
            (Direction::Up, Some(d)) => d.min(difference),
            (Direction::Down, Some(d)) => d.max(difference),
        });
    }
    let middle = |k: &i64| k * length + length / 2;
    let both =
        least.iter().filter_map(|(k, directions)| Some((middle(k), directions[0]? / 2 + directions[1]? / 2)));
    let mut points: Vec<(i64, i64)> = both.collect();
    let both_directions = points.len() > 2;
    if !both_directions {
        points = least
            .iter()
            .filter_map(|(k, directions)| Some((middle(k), directions[0].or(directions[1])?)))
            .collect();
    }
    // Theil–Sen estimate: queues in single intervals hardly affect the median of the slopes.
    let slope = |a: &(i64, i64), b: &(i64, i64)| (b.1 - a.1) as f64 / (b.0 - a.0) as f64;
    let pairs = points.iter().enumerate().flat_map(|(k, a)| points[k + 1..].iter().map(move |b| slope(a, b)));
    let mut slopes: Vec<f64> = pairs.collect();
    slopes.sort_unstable_by(f64::total_cmp);
    // No clock drifts by a percent: such a slope has another cause.
    let drift =
        slopes.get(slopes.len() / 2).copied().filter(|d| points.len() > 2 && d.abs() < 0.01).unwrap_or(0.0);
    let mut at_first: Vec<i64> = points.iter().map(|(t, o)| o - (*t as f64 * drift) as i64).collect();
    at_first.sort_unstable();
    let offset =
        at_first.get(at_first.len() / 2).filter(|_| both_directions).map_or(plan.offset, |o| Span(*o));
    ClockLine { at: first, offset, drift }
}

type PreviewPair<'a> = (&'a PacketPreview, &'a PacketPreview);

/// Returns the packets whose identity occurs exactly once at each point.
fn common<'a>(
    reference: &'a [PacketPreview],
    monitor: &'a [PacketPreview],
    name: usize,
) -> Vec<PreviewPair<'a>> {
    // If a point captured a packet twice, the first sighting counts; names that other packets share are not
    // used.
    let note = |slot: &mut Option<&'a PacketPreview>, g: &'a PacketPreview| match slot {
        Some(first) => (g.at - first.at).0.saturating_abs() > MAX_COPY_GAP_NS,
        None => {
            *slot = Some(g);
            false
        }
    };
    let mut seen: HashMap<Identity, (Option<&PacketPreview>, Option<&PacketPreview>, bool)> = HashMap::new();
    for g in reference {
        let e = seen.entry(g.names[name]).or_default();
        e.2 |= note(&mut e.0, g);
    }
    for g in monitor {
        if let Some(e) = seen.get_mut(&g.names[name]) {
            e.2 |= note(&mut e.1, g);
        }
    }
    let mut found: Vec<PreviewPair<'a>> =
        seen.into_values().filter_map(|(r, m, twice)| if twice { None } else { Some((r?, m?)) }).collect();
    found.sort_by_key(|(r, m)| (r.at, m.at));
    found
}

/// Determines the direction of each packet; also returns true if the directions are only assumed.
fn directions(found: &[PreviewPair<'_>], asked: Option<&Sides>) -> (Vec<Direction>, bool) {
    if let Some(asked) = asked {
        let direction = |f: &PreviewPair<'_>| asked.direction_of(f.0).or_else(|| asked.direction_of(f.1));
        return (found.iter().map(|f| direction(f).unwrap_or(Direction::Up)).collect(), false);
    }
    // Time differences and hop counts by (source, destination) at the reference point.
    let mut flows: BTreeMap<(IpAddr, IpAddr), (Vec<i64>, i64)> = BTreeMap::new();
    for (r, m) in found {
        let flow = flows.entry((r.src, r.dst)).or_default();
        flow.0.push((m.at - r.at).0);
        // The TTL falls along the path, so it shows the direction.
        flow.1 += i64::from(r.ttl > m.ttl) - i64::from(r.ttl < m.ttl);
    }
    let medians: BTreeMap<_, i64> = flows
        .iter_mut()
        .map(|(k, (d, _))| {
            d.sort_unstable();
            (*k, d[d.len() / 2])
        })
        .collect();
    let mut assumed = false;
    let mut decided = BTreeMap::new();
    for (&(src, dst), (differences, hops)) in &flows {
        let back = medians.get(&(dst, src));
        let here = medians.get(&(src, dst)).copied().unwrap_or(differences[0]);
        let out = match back {
            Some(b) if here != *b => here > *b,
            _ if *hops != 0 => *hops > 0,
            _ => {
                // Nothing else shows the direction: guess it from the clocks, or choose it arbitrarily but
                // reproducibly.
                assumed = true;
                if back.is_some() { src < dst } else { here >= 0 }
            }
        };
        decided.insert((src, dst), if out { Direction::Up } else { Direction::Down });
    }
    let directions =
        found.iter().map(|(r, _)| decided.get(&(r.src, r.dst)).copied().unwrap_or(Direction::Up)).collect();
    (directions, assumed)
}

/// Assigns each address to one end of the path: the end that most of its packets indicate.
fn sides<'a>(
    found: &[PreviewPair<'a>],
    directions: &[Direction],
    at: impl Fn(&PreviewPair<'a>) -> &'a PacketPreview,
) -> Sides {
    let mut votes: BTreeMap<IpAddr, i64> = BTreeMap::new();
    for (f, direction) in found.iter().zip(directions) {
        let (here, there) = match direction {
            Direction::Up => (at(f).src, at(f).dst),
            Direction::Down => (at(f).dst, at(f).src),
        };
        *votes.entry(here).or_default() += 1;
        *votes.entry(there).or_default() -= 1;
    }
    let pick = |side: i64| -> Vec<Prefix> {
        let mut list: Vec<_> = votes.iter().filter(|(_, v)| **v * side > 0).collect();
        list.sort_by_key(|(_, v)| -(**v * side));
        list.truncate(MAX_ADDRESSES);
        let set: BTreeSet<Prefix> = list.into_iter().map(|(a, _)| (*a).into()).collect();
        set.into_iter().collect()
    };
    Sides { reference: pick(1), monitor: pick(-1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 2));
    const N: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));

    fn preview(at: i64, src: IpAddr, dst: IpAddr, name: u64) -> PacketPreview {
        PacketPreview {
            at: WallTime(at),
            src,
            dst,
            ports: Some((1, 2)),
            ttl: 64,
            names: [name; 4],
            layer: PreviewLayer::Plain,
        }
    }

    fn pair(out: i64, back: i64, offset: i64) -> (Vec<PacketPreview>, Vec<PacketPreview>) {
        let (mut r, mut m) = (vec![], vec![]);
        for i in 0..50u64 {
            let t = i as i64 * 1000;
            r.push(preview(t, A, B, i));
            m.push(preview(t + out + offset, A, B, i));
            m.push(preview(t + 500 + offset, B, A, 1000 + i));
            r.push(preview(t + 500 + back, B, A, 1000 + i));
        }
        (r, m)
    }

    #[test]
    fn direction_and_offset_are_found_whatever_the_clocks_say() {
        for offset in [0, 1_000_000_000_000, -1_000_000_000_000] {
            let (r, m) = pair(300, 100, offset);
            let plan = survey(&r, &m, None).unwrap();
            assert_eq!(plan.sides[0], Sides { reference: vec![A.into()], monitor: vec![B.into()] });
            assert_eq!(plan.sides[0], plan.sides[1]);
            assert_eq!(plan.offset.0, offset + 100, "half the asymmetry off");
            assert_eq!((plan.fields, plan.common, plan.direction_assumed), (IdentityFields::ALL, 100, false));
        }
    }

    #[test]
    fn translation_is_noticed() {
        let (r, mut m) = pair(300, 100, 7);
        for g in &mut m {
            for a in [&mut g.src, &mut g.dst] {
                if *a == A {
                    *a = N;
                }
            }
        }
        let plan = survey(&r, &m, None).unwrap();
        assert_eq!(plan.fields, IdentityFields::Full { addresses: false, ports: true, ident: true });
        assert_eq!((&plan.sides[0].reference, &plan.sides[1].reference), (&vec![A.into()], &vec![N.into()]));
        m.iter_mut().for_each(|g| g.ports = Some((9, 2)));
        assert_eq!(survey(&r, &m, None).unwrap().fields, IdentityFields::BEHIND_NAT);
    }

    #[test]
    fn one_direction_alone_is_decided_by_hops() {
        let (mut r, mut m) = pair(300, 100, -5_000_000);
        r.retain(|g| g.src == A);
        m.retain(|g| g.src == A);
        // The clocks determine the direction if nothing else does.
        let plan = survey(&r, &m, None).unwrap();
        assert_eq!((plan.direction_assumed, &plan.sides[0].reference), (true, &vec![B.into()]));
        let (later_r, mut later_m) = (r.clone(), m.clone());
        later_m.iter_mut().for_each(|g| g.at = g.at + Span(5_000_000));
        assert_eq!(survey(&later_r, &later_m, None).unwrap().sides[0].reference, [A.into()]);
        m.iter_mut().for_each(|g| g.ttl = 65);
        let back = survey(&later_r, &m, None).unwrap();
        assert_eq!((back.direction_assumed, &back.sides[0].reference), (false, &vec![B.into()]));
        m.iter_mut().for_each(|g| g.ttl = 63);
        let plan = survey(&r, &m, None).unwrap();
        assert_eq!((plan.direction_assumed, &plan.sides[0].reference), (false, &vec![A.into()]));
    }

    #[test]
    fn the_same_capture_twice_still_has_two_sides() {
        let (r, _) = pair(300, 100, 0);
        let plan = survey(&r, &r, None).unwrap();
        assert_eq!(plan.sides[0], Sides { reference: vec![A.into()], monitor: vec![B.into()] });
        assert!(plan.direction_assumed);
    }

    #[test]
    fn a_capture_that_holds_everything_twice_is_surveyed_all_the_same() {
        let (r, m) = pair(300, 100, 7);
        let twice: Vec<_> =
            m.iter().flat_map(|g| [*g, PacketPreview { at: WallTime(g.at.0 + 300_000), ..*g }]).collect();
        assert_eq!(survey(&r, &twice, None), survey(&r, &m, None));
        // One second later it is another packet with the same name.
        let again: Vec<_> = m
            .iter()
            .flat_map(|g| [*g, PacketPreview { at: WallTime(g.at.0 + 1_000_000_000), ..*g }])
            .collect();
        assert_eq!(survey(&r, &again, None), Err(NoPlan::Ambiguous));
    }

    #[test]
    fn a_rewritten_identification_is_left_out() {
        let (r, mut m) = pair(300, 100, 0);
        m.iter_mut().for_each(|g| [0, 2].iter().for_each(|n| g.names[*n] ^= 0xffff));
        let plan = survey(&r, &m, None).unwrap();
        assert_eq!(plan.fields, IdentityFields::Full { addresses: true, ports: true, ident: false });
    }

    #[test]
    fn what_cannot_be_planned_is_said() {
        let (r, m) = pair(300, 100, 0);
        assert_eq!(survey(&r, &[], None), Err(NoPlan::Empty));
        let other: Vec<_> = m.iter().map(|g| PacketPreview { names: [!g.names[0]; 4], ..*g }).collect();
        assert_eq!(survey(&r, &other, None), Err(NoPlan::NothingCommon));
        let asked = Sides { reference: vec![N.into()], monitor: vec![B.into()] };
        assert_eq!(survey(&r, &m, Some(&asked)), Err(NoPlan::OtherAddresses(100)));
    }

    #[test]
    fn any_sides_contain_all_addresses() {
        let any = Sides::any();
        for address in ["10.0.0.1", "fd00::1"] {
            let address: IpAddr = address.parse().unwrap();
            assert!([&any.reference, &any.monitor].iter().all(|l| l.iter().any(|p| p.contains(address))));
        }
    }

    #[test]
    fn addresses_that_are_asked_for_decide_the_direction() {
        let (r, m) = pair(300, 100, 7);
        let asked = Sides { reference: vec![B.into()], monitor: vec![A.into()] };
        let plan = survey(&r, &m, Some(&asked)).unwrap();
        assert_eq!((plan.sides, plan.direction_assumed), ([asked.clone(), asked], false));
        let elsewhere = Sides { reference: vec![N.into()], monitor: vec![A.into()] };
        assert!(matches!(survey(&r, &m, Some(&elsewhere)), Err(NoPlan::OtherAddresses(_))));
    }

    #[test]
    fn one_packet_that_took_another_time_decides_nothing() {
        let (r, mut m) = pair(300, 100, 0);
        let outs: Vec<usize> = (0..m.len()).filter(|k| m[*k].src == A).collect();
        // One packet much later, and one much earlier because a clock was set.
        m[outs[10]].at = m[outs[10]].at + Span(500_000);
        let plan = survey(&r, &m, None).unwrap();
        assert_eq!((plan.offset.0, &plan.sides[0].reference), (100, &vec![A.into()]));
        m[outs[20]].at = m[outs[20]].at - Span(400_000);
        assert_eq!(survey(&r, &m, None).unwrap().sides[0].reference, [A.into()]);
    }

    #[test]
    fn most_names_must_match_with_the_identification() {
        let rewritten = |n: usize| {
            let (r, mut m) = pair(300, 100, 0);
            m.iter_mut().take(n).for_each(|g| [0, 2].iter().for_each(|k| g.names[*k] ^= 0xffff));
            let plan = survey(&r, &m, None).unwrap();
            (plan.common, plan.fields == IdentityFields::ALL)
        };
        assert_eq!((rewritten(50), rewritten(51)), ((50, true), (100, false)));
    }

    #[test]
    fn addresses_may_be_asked_for_as_either_point_sees_them() {
        let (r, mut m) = pair(300, 100, 7);
        for g in &mut m {
            [&mut g.src, &mut g.dst].into_iter().filter(|a| **a == A).for_each(|a| *a = N);
        }
        for near in [A, N] {
            let asked = Sides { reference: vec![near.into()], monitor: vec![B.into()] };
            assert_eq!(survey(&r, &m, Some(&asked)).map(|p| p.common), Ok(100), "{near}");
        }
    }

    #[test]
    fn a_name_that_repeats_at_either_point_is_not_used() {
        let (r, m) = pair(300, 100, 7);
        let again = |list: &[PacketPreview], after: i64| -> Vec<PacketPreview> {
            list.iter().flat_map(|g| [*g, PacketPreview { at: g.at + Span(after), ..*g }]).collect()
        };
        for after in [MAX_COPY_GAP_NS, -MAX_COPY_GAP_NS] {
            assert_eq!(survey(&again(&r, after), &m, None).map(|p| p.common), Ok(100));
        }
        assert_eq!(survey(&again(&r, MAX_COPY_GAP_NS + 1), &m, None), Err(NoPlan::Ambiguous));
        assert_eq!(survey(&r, &again(&m, MAX_COPY_GAP_NS + 1), None), Err(NoPlan::Ambiguous));
    }

    #[test]
    fn an_address_is_at_the_end_where_most_of_its_packets_put_it() {
        let address = |n: u16| IpAddr::from([10, 1, n.to_be_bytes()[0], n.to_be_bytes()[1]]);
        let of = |ends: &[(IpAddr, IpAddr)]| {
            let previews: Vec<_> = ends.iter().map(|(a, b)| preview(0, *a, *b, 0)).collect();
            let found: Vec<PreviewPair<'_>> = previews.iter().map(|p| (p, p)).collect();
            sides(&found, &vec![Direction::Up; found.len()], |f| f.0)
        };
        // N forwards the packets that A sends.
        assert_eq!(of(&[(A, N), (N, B)]), Sides { reference: vec![A.into()], monitor: vec![B.into()] });
        // If there are more addresses than can be used, those with most packets are used.
        let many = 1..=MAX_ADDRESSES as u16 + 1;
        let rare = address(7);
        let twice = |n: u16| if address(n) == rare { 1 } else { 2 };
        let from: Vec<_> = many.clone().flat_map(|n| vec![(address(n), B); twice(n)]).collect();
        let to: Vec<_> = many.flat_map(|n| vec![(A, address(n)); twice(n)]).collect();
        let (senders, receivers) = (of(&from).reference, of(&to).monitor);
        for list in [senders, receivers] {
            assert!(list.len() == MAX_ADDRESSES && !list.contains(&rare.into()));
        }
    }
}
