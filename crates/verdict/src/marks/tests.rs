use super::*;
use jitlat_core::analysis::Options;
use jitlat_core::ecn::EcnMarking;
use jitlat_core::{Direction, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime};

const BOTH: EcnMarking = EcnMarking::Both { seed: 9 };

/// Summary of `packets` packets with the marks of `marking`. `arrives` returns the mark on arrival and the delay in
/// microseconds of a packet by its number and its mark; `None` for lost packets.
fn summary(marking: EcnMarking, packets: u32, arrives: impl Fn(u32, Ecn) -> Option<(Ecn, i64)>) -> Summary {
    let period = Span::millis(10);
    let spec = TestSpec::new(Direction::Up, Transport::Udp, packets.into(), 80, period, Schedule::Periodic);
    let mut session = Session::new(spec.unwrap());
    session.spec.marking = marking;
    (session.sent, session.ending) = (Some(packets), jitlat_core::session::Ending::Complete);
    let records = (0..packets).filter_map(|seq| {
        let (mark, us) = arrives(seq, marking.of(seq.into()))?;
        let sent = WallTime(i64::from(seq) * period.0);
        let mut record = PacketRecord::one_way(seq.into(), sent, sent + Span::micros(20_000 + us));
        record.set_traffic_class(Some(mark.bits()));
        Some(record)
    });
    let options = Options { judge: Some(crate::judge()), ..Options::default() };
    let mut records: Vec<PacketRecord> = records.collect();
    records.sort_by_key(PacketRecord::arrived);
    jitlat_core::analyze(&session, records, &options)
}

fn ids(summary: &Summary) -> Vec<&'static str> {
    let by_marks = |c: &&Cause| MARK_RULES.iter().any(|rule| rule.id == c.id);
    summary.answer.iter().flat_map(|a| &a.causes).filter(by_marks).map(|c| c.id.name()).collect()
}

fn said(summary: &Summary) -> String {
    let about = summary.verdicts.iter().filter(|v| v.code == "marks").map(|v| v.text.as_str());
    about.collect::<Vec<_>>().join("\n")
}

/// Pseudo-random time of up to 100 µs.
fn noise(seq: u32) -> i64 {
    i64::from((seq.wrapping_mul(2_654_435_761) ^ seq << 7) % 100)
}

#[test]
fn what_is_not_known_is_said() {
    let clean = summary(BOTH, 2000, |seq, mark| Some((mark, noise(seq))));
    assert_eq!(ids(&clean), [""; 0]);
    assert_eq!(
        said(&clean),
        "Marks (ECN): all arrive as sent; no loss that depends on the mark was found; no queue seen: a dual queue is not testable \
         (repeat under load, as with --load)."
    );
    let few = said(&summary(BOTH, 400, |seq, mark| Some((mark, noise(seq)))));
    assert!(
        few.contains("losses by mark are not resolved (fewest packets of a mark: 100, needed: 200)"),
        "{few}"
    );
    assert!(
        few.contains("delays by mark are not resolved (whole blocks of four: 100, needed: 200)"),
        "{few}"
    );
    let queue = summary(BOTH, 2000, |seq, mark| Some((mark, noise(seq) * 200)));
    assert!(
        said(&queue).contains("the mark makes no difference of more than")
            || said(&queue).contains("not resolved")
    );
    assert!(summary(EcnMarking::Off, 2000, |seq, mark| Some((mark, noise(seq)))).marks.is_none());
    let one = summary(EcnMarking::Ect1, 200, |seq, mark| Some((mark, noise(seq))));
    assert_eq!(said(&one), "Marks (ECN): all arrive as sent.");
}

#[test]
fn changes_of_marks_are_named_with_their_share() {
    let bleached = summary(BOTH, 1000, |seq, _| Some((Ecn::NotEct, noise(seq))));
    assert_eq!(ids(&bleached), ["ecn-bleached"], "CE that is removed with ECT is not a cause of its own");
    let answer = bleached.answer.as_ref().unwrap();
    assert_eq!(answer.headline, "Good: the path removes ECT(0) and ECT(1); set a buffer of under 1 ms.");
    let half = summary(EcnMarking::Ect1, 1000, |seq, mark| {
        Some((if seq % 2 == 0 { Ecn::NotEct } else { mark }, noise(seq)))
    });
    let because = &half.answer.as_ref().unwrap().causes[0].because;
    assert!(because.contains("50 % (500 of 1000 packets) arrived as Not-ECT"), "{because}");
    let remarked =
        summary(BOTH, 1000, |seq, mark| Some((if mark == Ecn::Ect1 { Ecn::Ect0 } else { mark }, noise(seq))));
    assert_eq!(ids(&remarked), ["ecn-remarked"]);
    let erased =
        summary(BOTH, 1000, |seq, mark| Some((if mark == Ecn::Ce { Ecn::Ect0 } else { mark }, noise(seq))));
    assert_eq!(ids(&erased), ["ce-erased"]);
    let marked = summary(BOTH, 1000, |seq, mark| {
        Some((if mark.is_ect() && seq % 5 == 0 { Ecn::Ce } else { mark }, noise(seq)))
    });
    assert_eq!(ids(&marked), ["ecn-marked"]);
    assert!(said(&marked).contains("no queue was seen"), "CE is not a full queue: {}", said(&marked));
    let warned = |s: &Summary| s.warnings.iter().any(|w| w.code == "congestion_marked");
    assert!(!warned(&marked), "the verdict says more");
}

#[test]
fn packets_dropped_by_their_mark_explain_the_losses() {
    let dropped = summary(BOTH, 2000, |seq, mark| (mark != Ecn::Ect1).then_some((mark, noise(seq))));
    assert_eq!(ids(&dropped), ["ect-dropped"]);
    let answer = dropped.answer.as_ref().unwrap();
    assert_eq!(answer.causes[0].id, CauseId::EctDropped);
    assert!(
        answer.headline.starts_with("Bad: the path drops all packets with ECT(1)"),
        "{}",
        answer.headline
    );
    // If the same share of all marks is lost, the loss does not depend on marks.
    let alike = summary(BOTH, 2000, |seq, mark| (noise(seq) > 20).then_some((mark, noise(seq))));
    assert!(!ids(&alike).contains(&"ect-dropped"));
}

#[test]
fn losses_that_differ_by_mark_are_named() {
    let losses = |seq, mark| (mark != Ecn::NotEct || seq % 11 > 3).then(|| (mark, noise(seq)));
    let said = said(&summary(BOTH, 1000, losses));
    assert!(said.contains("losses differ by mark: Not-ECT 3") && said.contains("others 0.00 %"), "{said}");
}

#[test]
fn erased_ce_is_named_although_one_packet_is_bleached() {
    let found = summary(BOTH, 1000, |seq, mark| {
        let to = if mark == Ecn::Ce || seq == (0..).find(|n| BOTH.of((*n).into()) == Ecn::Ect0).unwrap() {
            Ecn::NotEct
        } else {
            mark
        };
        Some((to, noise(seq)))
    });
    assert!(ids(&found).contains(&"ce-erased"), "{:?}", ids(&found));
}

#[test]
fn a_faster_queue_for_l4s_is_named_and_its_packets_are_not_reordered() {
    let dual =
        summary(BOTH, 2000, |seq, mark| Some((mark, noise(seq) + if mark.is_l4s() { 0 } else { 40_000 })));
    assert_eq!(ids(&dual), ["dual-queue"]);
    let answer = dual.answer.as_ref().unwrap();
    assert!(!answer.names(CauseId::Reordering), "{}", answer.headline);
    let cause = answer.causes.iter().find(|c| c.id == CauseId::DualQueue).unwrap();
    assert!((39_000_000..41_000_000).contains(&cause.magnitude_ns.unwrap()), "{}", cause.because);
    assert!(cause.because.contains("without CE marks"), "{}", cause.because);
}
