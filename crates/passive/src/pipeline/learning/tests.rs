use super::super::testing::{echo, frame, host, udp};
use super::super::{FrameBatch, testing};
use super::*;
use crate::{CapturePoint, Frame};
use jitlat_core::spec::Direction;

const MS: i64 = 1_000_000;

fn batch(packets: &[(i64, Vec<u8>)]) -> CapturedBatch {
    let mut batch = FrameBatch::default();
    packets.iter().for_each(|(at, p)| batch.push(&frame(*at, p)));
    CapturedBatch::Frames(batch)
}

fn delivery(point: CapturePoint, what: CapturedBatch) -> PointDelivery {
    PointDelivery { point, what, covered: None }
}

/// Packets with these numbers as seen by a point. Those with odd numbers go back; each takes 1 ms.
fn seen(point: CapturePoint, numbers: core::ops::Range<u16>) -> Vec<(i64, Vec<u8>)> {
    let one = |n: u16| {
        let (direction, ends) =
            if n.is_multiple_of(2) { (Direction::Up, (1, 2)) } else { (Direction::Down, (2, 1)) };
        let delay = if point.is_source(direction) { 0 } else { MS };
        (i64::from(n) * 10 * MS + delay, udp(ends, n + 1, &n.to_be_bytes()))
    };
    numbers.map(one).collect()
}

fn take_both(learner: &mut Learner, numbers: core::ops::Range<u16>) {
    for point in [CapturePoint::Reference, CapturePoint::Monitor] {
        learner.take(delivery(point, batch(&seen(point, numbers.clone()))));
    }
}

fn learner() -> Learner {
    Learner::new(None, 64, None)
}

fn at(span: Span) -> SteadyTime {
    SteadyTime(span.0)
}

#[test]
fn with_plenty_of_packets_there_is_a_plan_at_once() {
    let mut learner = learner();
    take_both(&mut learner, 0..50);
    let plan = learner.plan(at(Span::ZERO)).unwrap();
    assert_eq!((plan.common, plan.direction_assumed, plan.offset), (50, false, Span::ZERO));
    assert_eq!(plan.sides, [testing::sides(), testing::sides()]);
}

#[test]
fn with_fewer_more_are_waited_for() {
    for (when, found) in [(MORE_PACKETS_WAIT - Span(1), false), (MORE_PACKETS_WAIT, true)] {
        let mut learner = learner();
        take_both(&mut learner, 0..49);
        assert_eq!(learner.plan(at(Span::seconds(9))), None);
        assert_eq!(learner.plan(at(Span::seconds(9) + when)).is_some(), found, "{when:?}");
    }
}

#[test]
fn an_attempt_is_made_every_fifty_milliseconds() {
    let mut learner = learner();
    take_both(&mut learner, 0..40);
    assert_eq!(learner.plan(at(Span::ZERO)), None);
    take_both(&mut learner, 40..60);
    assert_eq!(learner.plan(at(RETRY_INTERVAL - Span(1))), None);
    assert_eq!(learner.plan(at(RETRY_INTERVAL)).map(|p| p.common), Some(60));
}

#[test]
fn a_direction_that_nothing_shows_is_assumed_in_the_end() {
    for (when, found) in [(DIRECTION_WAIT - Span(1), false), (DIRECTION_WAIT, true)] {
        let mut learner = learner();
        for point in [CapturePoint::Reference, CapturePoint::Monitor] {
            let out: Vec<_> = seen(point, 0..200).into_iter().step_by(2).collect();
            learner.take(delivery(point, batch(&out)));
        }
        assert_eq!(learner.plan(at(Span::ZERO)), None);
        let plan = learner.plan(at(when));
        assert_eq!(plan.map(|p| p.direction_assumed), found.then_some(true), "{when:?}");
    }
}

#[test]
fn what_is_missing_for_a_plan_is_said() {
    let mut learner = learner();
    assert_eq!(learner.not_learnt(), NotLearnt { why: NoPlan::Empty, seen: [0, 0] });
    learner.take(delivery(CapturePoint::Reference, batch(&seen(CapturePoint::Reference, 0..30))));
    assert_eq!(learner.plan(at(Span::ZERO)), None);
    assert_eq!(learner.not_learnt(), NotLearnt { why: NoPlan::Empty, seen: [30, 0] });
    learner.take(delivery(CapturePoint::Monitor, batch(&seen(CapturePoint::Monitor, 30..50))));
    assert_eq!(learner.plan(at(RETRY_INTERVAL)), None);
    assert_eq!(learner.not_learnt(), NotLearnt { why: NoPlan::NothingCommon, seen: [30, 20] });
    let elsewhere = Sides { reference: vec![host(7).into()], monitor: vec![host(8).into()] };
    let mut learner = Learner::new(Some(elsewhere), 64, None);
    take_both(&mut learner, 0..60);
    assert_eq!(learner.plan(at(Span::ZERO)), None);
    assert_eq!(learner.not_learnt().why, NoPlan::OtherAddresses(60));
}

#[test]
fn another_host_names_packets_with_the_same_salt() {
    let previews = |salt: u64| -> Vec<PacketPreview> {
        let of = |(at, p): (i64, Vec<u8>)| {
            let mut preview = PacketPreview::of(&frame(at, &p).packet().ok()?, WallTime(at), 64)?;
            preview.names = preview.names.map(|n| salted(n, salt));
            Some(preview)
        };
        seen(CapturePoint::Monitor, 0..60).into_iter().filter_map(of).collect()
    };
    for (salt, found) in [(5, true), (6, false)] {
        let mut learner = Learner::new(None, 64, Some(5));
        learner.take(delivery(CapturePoint::Reference, batch(&seen(CapturePoint::Reference, 0..60))));
        learner.take(delivery(CapturePoint::Monitor, CapturedBatch::Previews(previews(salt))));
        assert_eq!(learner.plan(at(Span::ZERO)).is_some(), found, "{salt}");
        assert_eq!(learner.not_learnt().seen, [60, 60]);
    }
}

#[test]
fn of_many_packets_the_last_are_looked_at() {
    let numbers = 0..MAX_PREVIEWS as u16 + 1;
    let packets = seen(CapturePoint::Monitor, numbers.clone());
    let previews = packets
        .iter()
        .filter_map(|(at, p)| PacketPreview::of(&frame(*at, p).packet().ok()?, WallTime(*at), 64))
        .collect();
    let mut learner = learner();
    learner.take(delivery(CapturePoint::Reference, batch(&seen(CapturePoint::Reference, numbers))));
    learner.take(delivery(CapturePoint::Monitor, CapturedBatch::Previews(previews)));
    assert_eq!(learner.plan(at(Span::ZERO)).map(|p| p.common), Some(MAX_PREVIEWS));
}

#[test]
fn frames_are_held_in_the_order_they_came_as_long_as_there_is_room() {
    let frames = |at: i64| batch(&(0..4096).map(|n| (at + n, vec![0x40])).collect::<Vec<_>>());
    let mut learner = learner();
    for k in 0..32 {
        let point = if k % 2 == 0 { CapturePoint::Monitor } else { CapturePoint::Reference };
        learner.take(delivery(point, frames(k * 10_000)));
        learner.take(delivery(point, CapturedBatch::Nothing));
    }
    assert_eq!(learner.begins(), [WallTime(i64::MIN); 2], "there is room for 2^17");
    assert_eq!(learner.left_out(), [0, 0]);
    learner.take(delivery(CapturePoint::Reference, frames(900_000)));
    assert_eq!(learner.begins(), [WallTime(i64::MIN), WallTime(4096)]);
    learner.take(delivery(CapturePoint::Reference, frames(910_000)));
    assert_eq!(learner.begins(), [WallTime(14_096), WallTime(4096)]);
    assert_eq!((learner.not_learnt().seen, learner.left_out()), ([18 * 4096, 16 * 4096], [4096, 4096]));
    let held: Vec<CapturePoint> = learner.into_held().map(|d| d.point).collect();
    assert_eq!(
        (held.len(), &held[..2], held[31]),
        (32, &[CapturePoint::Monitor, CapturePoint::Reference][..], CapturePoint::Reference)
    );
}

/// 300 000 packets per second at each of two interfaces, whose blocks of 4 ms arrive 10 ms apart. The first
/// attempt has only the packets of one interface, and no packet that arrives before the next attempt is
/// dropped.
#[test]
fn at_high_rates_nothing_is_dropped_between_two_attempts() {
    const A_BLOCK: u16 = 1200;
    let block = |point: CapturePoint, k: u16| {
        let one = |n: u16| {
            let (direction, ends) =
                if n.is_multiple_of(2) { (Direction::Up, (1, 2)) } else { (Direction::Down, (2, 1)) };
            let delay = if point.is_source(direction) { 0 } else { MS / 100 };
            (i64::from(n) * MS / 300 + delay, udp(ends, n + 1, &n.to_be_bytes()))
        };
        delivery(point, batch(&(k * A_BLOCK..(k + 1) * A_BLOCK).map(one).collect::<Vec<_>>()))
    };
    let mut learner = learner();
    learner.take(block(CapturePoint::Reference, 0));
    assert_eq!(learner.plan(at(Span::millis(4))), None);
    // The attempt itself takes 50 ms, too.
    for k in 1..25 {
        learner.take(block(CapturePoint::Reference, k));
        learner.take(block(CapturePoint::Monitor, k - 1));
    }
    let plan = learner.plan(at(Span::millis(104))).unwrap();
    assert!(!plan.direction_assumed && plan.common > 1000, "{}", plan.common);
    assert_eq!((learner.begins(), learner.left_out()), ([WallTime(i64::MIN); 2], [0, 0]));
    assert_eq!(learner.into_held().count(), 49);
}

#[test]
fn echoes_alone_are_no_traffic() {
    let holds = |packets: &[Vec<u8>]| {
        let mut learner = learner();
        packets
            .iter()
            .for_each(|p| learner.take(delivery(CapturePoint::Reference, batch(&[(0, p.clone())]))));
        let plan = MatchPlan {
            sides: [testing::sides(), testing::sides()],
            fields: crate::IdentityFields::ALL,
            offset: Span::ZERO,
            common: 0,
            direction_assumed: false,
            inside: [false; 2],
        };
        learner.pairs_without_echoes(&plan)
    };
    assert!(!holds(&[]) && !holds(&[echo((1, 2), true)]));
    assert!(!holds(&[udp((1, 2), 1, b"x"), echo((1, 2), true)]), "unanswered");
    assert!(holds(&[udp((1, 2), 1, b"x"), echo((1, 2), true), udp((2, 1), 1, b"x")]));
}

#[test]
fn what_is_available_is_found_from_the_packets() {
    let whole: Vec<(i64, Vec<u8>)> = seen(CapturePoint::Reference, 0..60);
    let cut = |point: CapturePoint, bytes: usize| {
        let mut batch = FrameBatch::default();
        for (at, p) in seen(point, 0..60) {
            batch.push(&Frame { data: &p[..bytes], ..frame(at, &p) });
        }
        delivery(point, CapturedBatch::Frames(batch))
    };
    let length = whole[0].1.len();
    let mut learner = learner().finding_available();
    learner.take(delivery(CapturePoint::Reference, batch(&whole)));
    assert_eq!(learner.available(), 64);
    // The other point has less of each packet: earlier packets are examined again with that length.
    learner.take(cut(CapturePoint::Monitor, length - 1));
    assert_eq!(learner.available(), length - 1);
    assert_eq!(learner.plan(at(Span::ZERO)).map(|plan| plan.common), Some(60));
}

#[test]
fn a_far_point_reports_what_is_in_its_tunnels() {
    // The packets pass the near point in a tunnel, and the far point without one; then vice versa.
    let tunnel = |packet: &[u8]| {
        let length = (20 + packet.len()) as u16;
        let [a, b] = length.to_be_bytes();
        [&[0x45, 0, a, b, 0, 0, 0, 0, 64, 4, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2][..], packet].concat()
    };
    let previews = |list: &[(i64, Vec<u8>)], is_tunnelled: bool| -> Vec<PacketPreview> {
        let of = |at: i64, packet: &[u8], layer| {
            let f = frame(at, packet);
            let p = f.packet().unwrap();
            let g = PacketPreview::of(&p, f.at, 64).unwrap();
            PacketPreview { names: g.names.map(|n| salted(n, 7)), layer, ..g }
        };
        list.iter()
            .flat_map(|(at, packet)| match is_tunnelled {
                true => vec![
                    of(*at, &tunnel(packet), PreviewLayer::Tunnel),
                    of(*at, packet, PreviewLayer::Inside),
                ],
                false => vec![of(*at, packet, PreviewLayer::Plain)],
            })
            .collect()
    };
    for near_is_tunnelled in [true, false] {
        let mut learner = Learner::new(None, 64, Some(7));
        let near = seen(CapturePoint::Reference, 0..60);
        let near: Vec<_> = match near_is_tunnelled {
            true => near.iter().map(|(at, packet)| (*at, tunnel(packet))).collect(),
            false => near,
        };
        learner.take(delivery(CapturePoint::Reference, batch(&near)));
        let far = previews(&seen(CapturePoint::Monitor, 0..60), !near_is_tunnelled);
        learner.take(delivery(CapturePoint::Monitor, CapturedBatch::Previews(far)));
        let plan = learner.plan(at(Span::ZERO)).unwrap();
        assert_eq!(plan.inside, [near_is_tunnelled, !near_is_tunnelled]);
        assert_eq!((plan.common, &plan.sides), (60, &[testing::sides(), testing::sides()]));
    }
}
