//! Quality of Outcome of a path: [`measured`] collects delay and loss of the path, [`scores`] compares them with the
//! requirements of the profiles.

use super::case::Case;
use super::clock_bounds::{BoundedClock, bounded_clock, is_one_host};
use super::profiles::Profile;
use super::sentences::outcome as sentences;
use jitlat_core::Session;
use jitlat_core::distribution::percentile::{Method, Percent, rank};
use jitlat_core::distribution::sample::Sample;
use jitlat_core::metrics::dependence::{EventCounts, IntervalOf, lag1, quantile_interval};
use jitlat_core::metrics::qoo::{
    DelayRequirement, MeasuredDelay, MeasuredLoss, MeasuredQuality, MeasuredThroughput, OutcomeScore,
    QualityOfOutcome, Refusal, RefusalReason, Requirements, ScoredMeasurement,
};
use jitlat_core::metrics::seqset::SeqRun;
use jitlat_core::session::PASSIVE;
use jitlat_core::spec::{Direction, Schedule, ip_protocol_name};
use jitlat_core::summary::{Loss, MeanRate, Summary};
use jitlat_core::twoway::HTTP_REQUESTS;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Returns the delays of the path at the percentiles that `profiles` require, and its loss. Packets that a host sent late,
/// read late, refused or dropped are left out.
pub fn measured(case: &Case<'_>, profiles: &[Profile]) -> MeasuredQuality {
    let series = case.material.series;
    let ends = || [series.get(0).sent, series.get(series.len() - 1).sent];
    MeasuredQuality {
        delay: delays(case, profiles),
        loss: loss(case),
        throughput: None,
        sent_ns: (!series.is_empty()).then(ends),
    }
}

/// Returns the measurements of a stream that was analysed in constant memory, from which no score can be computed.
pub fn not_recorded() -> MeasuredQuality {
    MeasuredQuality::refused(Refusal::new(RefusalReason::NotRecorded, sentences::NOT_RECORDED))
}

fn delays(case: &Case<'_>, profiles: &[Profile]) -> Result<Vec<MeasuredDelay>, Refusal> {
    let material = case.material;
    let delays = case.delays_of_path();
    if delays.is_empty() {
        return Err(Refusal::new(RefusalReason::NothingReceived, sentences::NOTHING_RECEIVED));
    }
    let BoundedClock { correction_ns, bound_ns } = clock(case)?;
    let sample = match material.sample.filter(|sample| sample.len() == delays.len()) {
        Some(sample) => Cow::Borrowed(sample),
        None => Cow::Owned(Sample::new(delays.iter().copied())),
    };
    let percents: BTreeSet<Percent> = profiles
        .iter()
        .flat_map(|profile| &profile.qoo)
        .flat_map(|qoo| qoo.delay.iter())
        .map(DelayRequirement::percent)
        .collect();
    let correlation = lag1(&delays);
    let at = |percent: Percent| {
        let value = sample.at(rank(delays.len(), percent, Method::Edf)?)?;
        let mut interval = quantile_interval(IntervalOf::Upper(percent), &delays, &sample, correlation);
        let corrected = |ns: i64| ns.saturating_sub(correction_ns);
        interval.ci95 = interval.ci95.map(|ends| ends.map(corrected));
        // The interval has its ranks from fractions, the percentile from a whole packet.
        let ns = corrected(value);
        interval.ci95 = interval.ci95.map(|[low, high]| [low.min(ns), high.max(ns)]);
        Some(MeasuredDelay { percent, ns: ns as f64, interval, bound_ns })
    };
    Ok(percents.into_iter().filter_map(at).collect())
}

/// Returns the correction of the delays of `case`.
fn clock(case: &Case<'_>) -> Result<BoundedClock, Refusal> {
    let material = case.material;
    let unbounded = |why: &str| Refusal::new(RefusalReason::ClockUnbounded, why);
    const ONE_CLOCK: BoundedClock = BoundedClock { correction_ns: 0, bound_ns: 0.0 };
    if material.round_trip {
        return Ok(ONE_CLOCK);
    }
    if case.was_set() {
        return Err(unbounded(sentences::CLOCK_WAS_SET));
    }
    if is_one_host(material.session) {
        return Ok(ONE_CLOCK);
    }
    let least = material.min().unwrap_or(0);
    let found = bounded_clock(least, material.clock).ok_or_else(|| unbounded(sentences::CLOCK_UNBOUNDED))?;
    // The offset applies to one time of the test, from which the clocks drift apart.
    let drift = case.clock_drift().unsigned_abs() as f64;
    let bound_ns = found.bound_ns + drift;
    // No packet arrives before it was sent.
    if least.saturating_sub(found.correction_ns) as f64 + bound_ns < 0.0 {
        return Err(unbounded(sentences::CLOCKS_CONTRADICT));
    }
    Ok(BoundedClock { bound_ns, ..found })
}

fn loss(case: &Case<'_>) -> Result<MeasuredLoss, Refusal> {
    let material = case.material;
    if !material.shows_loss() {
        return Err(Refusal::new(RefusalReason::LossUnknown, sentences::TCP_HIDES_LOSS));
    }
    let mut runs: Vec<SeqRun> = case.losses.runs.clone();
    runs.extend(&case.lost_at_steps);
    runs.extend(case.lost_to_discovery);
    runs.sort_unstable_by_key(|run| run.start);
    let of_hosts = case.lost_by_hosts().saturating_add(material.session.refused());
    let sent = case.known.sent.saturating_sub(of_hosts);
    if sent == 0 {
        return Err(Refusal::new(RefusalReason::NothingReceived, sentences::NOTHING_RECEIVED));
    }
    let mut events = EventCounts::default();
    runs.iter().for_each(|run| events.push(run.start, run.len));
    let interval = events.share(case.known.end, sent);
    Ok(MeasuredLoss { ratio: (events.count() as f64 / sent as f64).min(1.0), sent, interval })
}

/// Returns the scores of `profiles` that have requirements, for the stream of `summary`; `None` if none has.
pub fn scores(
    mut quality: MeasuredQuality,
    profiles: &[Profile],
    summary: &Summary,
    session: &Session,
    round_trips: bool,
) -> Option<QualityOfOutcome> {
    let direction = match round_trips {
        true => "round-trip",
        false if !session.direction_known => "unknown",
        false => in_short(session.spec.direction()),
    };
    let rate = |mean: Option<MeanRate>| mean.and_then(|mean| mean.throughput_bps);
    let rates = rate(summary.periods.tx).zip(rate(summary.periods.rx));
    quality.throughput = rates.map(|(sent_bps, received_bps)| MeasuredThroughput { sent_bps, received_bps });
    let of_requests = summary.two_way.as_ref().is_some_and(|two_way| two_way.protocol == HTTP_REQUESTS);
    if of_requests && quality.delay.is_ok() {
        quality.loss = Ok(failed_requests(summary));
    }
    let mut measurement = described(&quality, summary, session, direction);
    measurement.samples = summary.latency.n;
    scored(&quality, profiles, measurement, round_trips)
}

/// Returns the loss of HTTP requests, that is, the requests that failed. Retransmitted segments add to the delay of the
/// other requests.
fn failed_requests(summary: &Summary) -> MeasuredLoss {
    let (sent, lost) = (summary.counts.sent, summary.counts.lost);
    let mut events = EventCounts::default();
    if lost > 0 {
        events.push(sent.saturating_sub(lost), lost);
    }
    MeasuredLoss { ratio: lost as f64 / sent.max(1) as f64, sent, interval: events.share(sent, sent) }
}

/// Adds the scores of one direction of a round-trip test to `summary`.
pub fn score_direction(
    mut quality: MeasuredQuality,
    profiles: &[Profile],
    summary: &mut Summary,
    session: &Session,
    direction: Direction,
) {
    let Some(figures) = summary.two_way.as_deref() else { return };
    let found = match direction {
        Direction::Up => &figures.up,
        Direction::Down => &figures.down,
    };
    let Some(found) = found else { return };
    // The packets that returned say nothing about those that were lost.
    let unknown = || Refusal::new(RefusalReason::LossUnknown, sentences::SIDE_OF_LOSS_UNKNOWN);
    quality.loss = found
        .loss
        .as_ref()
        .and_then(|loss| of_direction(loss, found.sent.unwrap_or(summary.counts.sent)))
        .ok_or_else(unknown);
    let mut measurement = described(&quality, summary, session, in_short(direction));
    measurement.samples = found.latency.n;
    if direction == Direction::Down {
        measurement.endpoints.reverse();
    }
    let qoo = scored(&quality, profiles, measurement, false);
    let found = summary.two_way.as_mut().and_then(|figures| match direction {
        Direction::Up => figures.up.as_mut(),
        Direction::Down => figures.down.as_mut(),
    });
    if let Some(found) = found {
        found.qoo = qoo;
    }
}

fn of_direction(loss: &Loss, sent: u64) -> Option<MeasuredLoss> {
    Some(MeasuredLoss { ratio: loss.ratio?, sent, interval: loss.events })
}

fn in_short(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

fn scored(
    quality: &MeasuredQuality,
    profiles: &[Profile],
    measurement: ScoredMeasurement,
    round_trips: bool,
) -> Option<QualityOfOutcome> {
    let score = |profile: &Profile| {
        let one_way = profile.qoo.as_ref()?;
        let requirements: Cow<'_, Requirements> =
            if round_trips { Cow::Owned(one_way.of_round_trips()) } else { Cow::Borrowed(one_way) };
        Some((profile.name.to_string(), OutcomeScore::new(&requirements, &profile.source, quality)))
    };
    let profiles: BTreeMap<String, OutcomeScore> = profiles.iter().filter_map(score).collect();
    (!profiles.is_empty()).then_some(QualityOfOutcome { measurement, profiles })
}

/// Returns the IP protocol number of the packets of `session`, which were measured with `method`.
fn ip_protocol(session: &Session, method: &str) -> u8 {
    match (method, session.dst.or(session.src)) {
        ("icmp", Some(IpAddr::V6(_))) => 58,
        ("icmp", _) => 1,
        _ => session.ip_protocol(),
    }
}

/// Describes the measurement, as draft-ietf-ippm-qoo §3.1.2 requires for every score.
fn described(
    quality: &MeasuredQuality,
    summary: &Summary,
    session: &Session,
    direction: &str,
) -> ScoredMeasurement {
    let is_passive = session.tags.iter().any(|(key, value)| key == "instrument" && value == PASSIVE);
    // The round trips are judged as a stream of their own, whose session has no facts about the far host.
    let method = match &summary.two_way {
        Some(two_way) => two_way.protocol.clone(),
        None if is_passive => "captured".to_owned(),
        None => "one-way".to_owned(),
    };
    let sampling = match session.spec.schedule() {
        _ if is_passive => "as the application sends",
        Schedule::Periodic => "periodic",
        Schedule::Poisson { .. } => "poisson",
        Schedule::Burst { .. } => "burst",
        Schedule::Random { .. } => "random",
    };
    let delay = quality.delay.as_ref().ok().and_then(|delays| delays.first());
    ScoredMeasurement {
        kind: if is_passive { "passive" } else { "active" }.to_owned(),
        layer: ip_protocol_name(ip_protocol(session, &method)).into_owned(),
        method,
        packet_bytes: session.payload().map(u64::from),
        dscp: session.spec.dscp.value(),
        sampling: sampling.to_owned(),
        period_ns: session.period().map(|period| period.0),
        endpoints: [session.src, session.dst].map(|address| Some(address?.to_string())),
        direction: direction.to_owned(),
        first_sample_ns: quality.sent_ns.map(|[first, _]| first),
        duration_ns: quality.sent_ns.map(|[first, last]| last.saturating_sub(first)),
        samples: 0,
        sent: quality.loss.as_ref().ok().map(|loss| loss.sent).or(Some(summary.counts.sent)),
        clock_bound_ns: delay.map(|delay| delay.bound_ns),
    }
}

#[cfg(test)]
mod tests;
