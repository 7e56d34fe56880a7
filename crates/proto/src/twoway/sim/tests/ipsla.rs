//! Cisco IP SLA on the simulated network.

use super::*;
use crate::ipsla::{Client, IpslaOptions, IpslaVersion, ProbeForm, Responder, ResponderRules};
use jitlat_core::ntp::TimeFormat;

const FORMS: [ProbeForm; 4] =
    [ProbeForm::Echo, ProbeForm::Milliseconds, ProbeForm::Microseconds, ProbeForm::V2(TimeFormat::Ntp)];

fn pair(form: ProbeForm, duration: Span) -> (Client, Far) {
    let client = Client::new(IpslaOptions {
        version: if matches!(form, ProbeForm::V2(_)) { IpslaVersion::V2 } else { IpslaVersion::V1 },
        form,
        size: 80,
        local: "192.0.2.1:40000".parse().unwrap(),
        target: "192.0.2.2:20000".parse().unwrap(),
        duration,
        seq: 3,
        key: None,
        random: [0; 16],
    });
    (client, Far::Ipsla(Box::new(Responder::new(ResponderRules::default()))))
}

#[test]
fn it_survives_anything_at_any_step() {
    for (up, down) in each_step(9) {
        for form in FORMS {
            for wait in [None, Some(Span::millis(2))] {
                let plan = plan(6, wait);
                let (client, far) = pair(form, Span::seconds(20));
                let (mut out, truth) =
                    super::super::run(client, plan.clone(), world(far, up.clone(), down.clone()));
                assert_eq!(out.protocol.failure(), None);
                check(&plan, &mut out, &truth);
                if form != ProbeForm::Echo {
                    check_directions(&mut out, &truth);
                }
                assert!(truth.took < 20_000 * MS);
            }
        }
    }
}

/// Numbers of packets, of which every `every`-th is lost after the first.
fn every(every: u64, packets: u64) -> PathModel {
    PathModel { loss: Choice::indices((1..packets / every).map(|k| k * every)), ..PathModel::default() }
}

#[test]
fn losses_are_exact_by_direction_although_numbers_wrap_and_the_port_is_renewed() {
    // 700 s, eleven times longer than one request of version 1 can ask for, and more probes than 16 bits can number.
    const PACKETS: u64 = 70_000;
    let plan = plan(PACKETS, None);
    let (client, far) = pair(ProbeForm::Milliseconds, plan.spec.duration() + Span::seconds(5));
    let world = world(far, every(103, PACKETS), every(57, PACKETS));
    let (mut out, truth) = super::super::run(client, plan.clone(), world);
    let (d, runs) = out.requests.directions();
    let up = truth.requests.iter().filter(|request| request.1 == 0).count() as u64;
    let down = truth.answers.iter().filter(|answer| answer.returned == 0).count() as u64;
    assert!(up > 650 && down > 1100);
    assert_eq!((d.stateful, d.up_lost, d.down_lost, d.unknown_lost), (true, up, down, 0));
    assert_eq!(runs.iter().map(|run| u64::from(run.length)).sum::<u64>(), up + down);
    let found = check(&plan, &mut out, &truth);
    let directions = found.two_way.unwrap();
    assert_eq!((directions.up.unwrap().lost, directions.down.unwrap().lost), (Some(up), Some(down)));
}

#[test]
fn one_way_delays_are_within_half_a_millisecond() {
    // The far clock is 250 ms ahead, and each direction takes 5 ms.
    for (form, error) in [(ProbeForm::Milliseconds, MS / 2), (ProbeForm::Microseconds, 1)] {
        let plan = plan(100, None);
        let (client, far) = pair(form, Span::seconds(20));
        let (out, _) =
            super::super::run(client, plan, world(far, PathModel::default(), PathModel::default()));
        for record in out.records.iter() {
            let span = |from, to| (record.time(to).unwrap() - record.time(from).unwrap()).0;
            let up = span(Moment::Sent, Moment::Arrived) - AHEAD;
            let down = span(Moment::Answered, Moment::Returned) + AHEAD;
            assert!(
                (up - 5 * MS).abs() <= error && (down - 5 * MS).abs() <= error + 1000,
                "{form:?} {up} {down}"
            );
        }
    }
}

#[test]
fn a_responder_that_copies_numbers_is_not_believed_to_count() {
    let plan = plan(50, None);
    let (client, _) = pair(ProbeForm::Milliseconds, Span::seconds(20));
    let world = world(Far::CopyingIpsla, every(7, 50), PathModel::default());
    let (mut out, truth) = super::super::run(client, plan.clone(), world);
    assert!(!out.requests.directions().0.stateful && out.requests.answered() < 50);
    check(&plan, &mut out, &truth);
}

#[test]
fn coarse_times_make_no_false_statements() {
    // Delays of 5 ms are known to half a millisecond. The path loses nothing, and no clock is set.
    let plan = plan(400, None);
    let (client, far) = pair(ProbeForm::Milliseconds, Span::seconds(20));
    let (mut out, _) =
        super::super::run(client, plan.clone(), world(far, PathModel::default(), PathModel::default()));
    let mut session = session(&plan, &mut out);
    session.two_way.as_mut().unwrap().far_resolution = out.protocol.far_resolution();
    let found = analyze(&session, out.records.iter().copied(), &jitlat_verdict::options());
    let codes: Vec<&str> = found.warnings.iter().map(|warning| warning.code.as_ref()).collect();
    assert!(codes.contains(&"far_resolution"), "{codes:?}");
    assert!(!codes.contains(&"far_clock_step") && !codes.contains(&"processing_unknown"), "{codes:?}");
    assert_eq!((found.latency.n, found.latency.min), (400, Some(10 * MS + 1000)));
    let two_way = found.two_way.unwrap();
    let (up, down) = (two_way.up.unwrap(), two_way.down.unwrap());
    // Percentiles of the variation, which is zero, are not given; those of the delay are larger than the resolution.
    assert!(up.pdv.percentiles.0.iter().all(|(_, value)| value.is_none()), "{:?}", up.pdv.percentiles);
    assert!(
        up.latency.percentiles.0.iter().all(|(_, value)| value.is_some()),
        "{:?}",
        up.latency.percentiles
    );
    let corrected = up.latency_corrected.unwrap();
    let (min, bound) = (corrected.min.unwrap() as f64, corrected.bound_ns.unwrap());
    assert!((min - 5e6).abs() <= bound && bound < 7e6, "{min} +/- {bound}");
    assert_eq!(down.pdv.n, 400);
}
