//! Packets that wait in the sending host: in a queue, and for the address of the next hop.

use crate::analyze;
use jitlat_core::Session;
use jitlat_core::answer::CauseId;
use jitlat_core::record::{Moment, PacketRecord};
use jitlat_core::spec::{Direction, Schedule, TestSpec, Transport};
use jitlat_core::summary::Summary;
use jitlat_core::time::{Span, Stamp, StampSource, WallTime};

const MS: i64 = 1_000_000;
/// Stands for the time before the queue if the kernel's stamp of the entry was lost.
const LOST: i64 = -1;

/// Analyses 800 packets, one every 10 ms. For each packet `left` returns its time in the host and the part of it
/// before the queue, in ns; `None` = the packet is lost.
fn judged(entries: bool, left: impl Fn(i64) -> Option<[i64; 2]>) -> Summary {
    let spec = TestSpec::new(Direction::Up, Transport::Udp, 800, 80, Span::millis(10), Schedule::Periodic);
    let mut session = Session::new(spec.unwrap());
    session.sent = Some(800);
    session.ending = jitlat_core::session::Ending::Complete;
    let record = |seq: i64| {
        let [lag, before] = left(seq)?;
        let sent = WallTime(1_800_000_000_000 * MS + 10 * MS * seq + lag);
        let noise = (seq * 7919 % 13) * 1000;
        let mut record = PacketRecord::one_way(seq, sent, sent + Span(MS + noise));
        for moment in [Moment::Sent, Moment::Arrived] {
            record.set(moment, Stamp { at: record.time(moment).unwrap(), source: StampSource::Kernel });
        }
        record.set_send_lag(Some(Span(lag)));
        record.set_entry_lag(Some(Span(before)).filter(|_| entries && before != LOST));
        Some(record)
    };
    analyze(&session, (0..800).filter_map(record))
}

fn causes(s: &Summary) -> Vec<(CauseId, f64, f64)> {
    s.answer.as_ref().unwrap().causes.iter().map(|c| (c.id, c.from_s, c.to_s)).collect()
}

#[test]
fn packets_held_for_want_of_an_address_are_part_of_the_outage() {
    // After 2 s nothing gets through. Packets sent after 4.5 s are held, and all leave at 6.4 s.
    let left = |seq: i64| match seq {
        200..450 => None,
        450..640 => Some([(640 - seq) * 10 * MS + seq * 3000, (640 - seq) * 10 * MS + seq * 3000 - 2000]),
        _ => Some([5000, 3000]),
    };
    for entries in [false, true] {
        let s = judged(entries, left);
        let found = causes(&s);
        assert_eq!(found.len(), 1, "{found:?}");
        let (id, from, to) = found[0];
        assert_eq!(id, CauseId::Outage);
        assert!((from - 2.0).abs() < 0.02 && (to - 6.4).abs() < 0.02, "from {from} to {to}");
        let length = s.answer.as_ref().unwrap().causes[0].magnitude_ns.unwrap();
        assert!((length - 4400 * MS).abs() < 20 * MS, "{length}");
        let buffer = s.answer.as_ref().unwrap().buffer_ns.unwrap();
        assert!(buffer < 200 * MS, "no buffer of {buffer} ns helps");
    }
    // None of them is lost.
    let found = causes(&judged(false, |seq| if seq < 450 { Some([5000, 3000]) } else { left(seq) }));
    assert!(
        matches!(found[..], [(CauseId::Outage, from, to)] if (from - 4.5).abs() < 0.02 && (to - 6.4).abs() < 0.02)
    );
}

#[test]
fn a_queue_is_from_where_the_kernel_says_it_begins() {
    // From 2 s to 6 s packets wait 60 ms, 20 ms of which in the send call.
    let left = |seq: i64| match seq {
        200..600 => Some([60 * MS, 20 * MS]),
        _ => Some([5000, 3000]),
    };
    for (entries, height) in [(false, 60 * MS), (true, 40 * MS)] {
        let s = judged(entries, left);
        let found = causes(&s);
        assert!(
            matches!(found[..], [(CauseId::LocalQueue, from, to)]
            if (from - 2.0).abs() < 0.1 && (to - 6.05).abs() < 0.05),
            "{found:?}"
        );
        assert_eq!(s.answer.as_ref().unwrap().causes[0].magnitude_ns, Some(height));
        let queue = s.local_queue.unwrap();
        assert_eq!((queue.n, queue.bounded, queue.max), (800, if entries { 0 } else { 800 }, height));
    }
}

#[test]
fn a_packet_whose_entry_was_not_stamped_did_not_enter_an_empty_queue() {
    // From 2 s to 6 s packets wait 40 ms, after 1 ms in the send call; the entry of every third packet is unknown.
    let left = |seq: i64| match seq {
        200..600 => Some([41 * MS, if seq % 3 == 1 { LOST } else { MS }]),
        _ => Some([5000, 3000]),
    };
    let s = judged(true, left);
    let queue = s.local_queue.clone().unwrap();
    assert_eq!((queue.n, queue.bounded), (800, 133), "counted apart");
    let [cause] = &s.answer.as_ref().unwrap().causes[..] else { panic!("{:?}", s.answer) };
    assert_eq!((cause.id, cause.count), (CauseId::LocalQueue, 1));
    assert!(cause.because.contains("50 % of the packets waited"), "{}", cause.because);
    assert!((40 * MS..=41 * MS).contains(&cause.magnitude_ns.unwrap()));
    // The packets left late, but the program passed them to the kernel in time.
    let error = s.schedule_error.unwrap();
    assert_eq!(error.over_half_period, 400);
    assert!(error.of_program().over_half_period == 0 && error.of_program().max <= MS, "{error:?}");
    assert!(s.warnings.iter().all(|w| w.code != "sender_late"));
}

#[test]
fn a_packet_whose_entry_was_not_stamped_is_in_no_queue_where_no_other_is() {
    // The program stalls in its send call for five packets, whose entries are unknown.
    let left = |seq: i64| match seq {
        200..205 => Some([(205 - seq) * 10 * MS, LOST]),
        _ => Some([5000, 3000]),
    };
    assert!(causes(&judged(true, left)).iter().all(|(id, ..)| *id != CauseId::LocalQueue));
}
