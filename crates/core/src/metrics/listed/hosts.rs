//! Errors and delays that the hosts themselves cause (metrics §22).

use crate::distribution::{LogHistogram, Precision};
use crate::metrics::all_packets::AllPackets;
use crate::metrics::known::StreamFacts;
use crate::metrics::metric::{AcceptedPackets, Metric};
use crate::metrics::stalls;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::spec::Schedule;
use crate::summary::{
    IntendedLatency, LocalQueue, Noise, ReceivedHeaders, ScheduleError, Stalls, StampCounts, Summary,
};
use serde::{Deserialize, Serialize};

/// Errors of the sender against its schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LatenessMetric {
    /// Period in ns, and the distribution of send time minus due time; `None` unless packets are sent periodically.
    offsets: Option<(i64, LogHistogram)>,
    /// Shifts of the schedule: the first packet of each shifted part, and its total shift in ns; empty while the test
    /// runs.
    #[serde(default)]
    shifts: Vec<(u32, i64)>,
}

impl Metric for LatenessMetric {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "schedule-error-median",
            "send error median",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.test()?.schedule_error.as_ref().map(|e| e.median)),
        )
        .about("median lateness of the sender against its schedule")
        .lower_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "schedule-error-p99",
            "send error 99%",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.test()?.schedule_error.as_ref().map(|e| e.p99)),
        )
        .about("99th percentile of the sender's own schedule error")
        .lower_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "schedule-error-max",
            "send error max",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.test()?.schedule_error.as_ref().map(|e| e.max)),
        )
        .about("largest lateness of the sender against its schedule")
        .lower_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "schedule-error-late",
            "sent late",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| s.test()?.schedule_error.as_ref().map(|e| e.over_half_period)),
        )
        .about("packets sent more than half a period late")
        .lower_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "schedule-stretch",
            "final sender lag",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| {
                let error = s.test()?.schedule_error.as_ref()?;
                error.stretched.map(|stretched| stretched.late)
            }),
        )
        .about("lag of the sender behind its schedule at the end, if it did not recover")
        .lower_is_better()
        .only(Applies::TESTS),
    ];

    type Found = Option<ScheduleError>;

    fn begin(test: &Session) -> LatenessMetric {
        let period = test.period().filter(|_| test.spec.schedule() == Schedule::Periodic);
        let total = test.schedule_shifts.iter().scan(0_i64, |total, shift| {
            *total = total.saturating_add(shift.by.0);
            Some((shift.seq, *total))
        });
        LatenessMetric {
            offsets: period.map(|period| (period.0, LogHistogram::new(Precision::STREAM))),
            shifts: total.collect(),
        }
    }

    fn push(&mut self, packets: &AcceptedPackets<'_>) {
        let Some((period, offsets)) = &mut self.offsets else { return };
        let shifted = |seq: u32| {
            let before = self.shifts.partition_point(|(first, _)| *first <= seq);
            before.checked_sub(1).map_or(0, |k| self.shifts[k].1)
        };
        let due = |seq: u32| period.saturating_mul(seq.into()).saturating_add(shifted(seq));
        let late = packets.seq.iter().zip(packets.sent).map(|(seq, sent)| sent.saturating_sub(due(*seq)));
        offsets.add_all(&late.collect::<Vec<i64>>());
    }

    fn join(&mut self, later: LatenessMetric, lead: &LatenessMetric) {
        let all = (&mut self.offsets, &later.offsets, &lead.offsets);
        if let (Some((_, mine)), Some((_, later)), Some((_, lead))) = all {
            mine.merge(&later.less(lead));
        }
    }

    fn is_possible(&self, n: u64) -> bool {
        let alike = LogHistogram::new(Precision::STREAM);
        self.offsets.as_ref().is_none_or(|(period, offsets)| {
            *period > 0 && offsets.is_possible(n) && offsets.is_as_precise_as(&alike)
        })
    }

    fn found(&self, _: &EndedStream<'_>) -> Option<ScheduleError> {
        let (period, offsets) = self.offsets.as_ref()?;
        ScheduleError::approximate(offsets, *period)
    }

    fn found_of_all(_: &EndedStream<'_>, all: &AllPackets<'_>) -> Option<ScheduleError> {
        schedule_error(all)
    }

    fn write(found: Option<ScheduleError>, _: &EndedStream<'_>, to: &mut Summary) {
        to.schedule_error = found;
    }
}
/// Stalls of the hosts, and the statistics without them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostStalls;

impl Metric for HostStalls {
    const SCALARS: &'static [Scalar] = &[
    Scalar::new(
        "stalls-sender",
        "sender stalls",
        ScalarUnit::Packets,
        ScalarGetter::Count(|s| Some(s.test()?.stalls.sender_late)),
    )
    .about("packets sent late because the sending host stalled")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "stalls-receiver",
        "receiver stalls",
        ScalarUnit::Count,
        ScalarGetter::Count(|s| Some(s.test()?.stalls.receiver_suspects)),
    )
    .about("groups of packets that arrived together, as after a stall of the receiving host")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "stalls-waited",
        "waited in receiver",
        ScalarUnit::Packets,
        ScalarGetter::Count(|s| Some(s.test()?.stalls.receiver_waits)),
    )
    .about("packets that waited in the receiving host more than half a period (in fast streams, a millisecond longer)")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "pdv-without-stalls-p99",
        "jitter 99%, no stall",
        ScalarUnit::Time,
        ScalarGetter::Whole(|s| Some(s.test()?.stalls.without?.pdv_p99)),
    )
    .about("99th percentile of PDV without packets that the hosts delayed")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "pdv-without-stalls-max",
        "jitter max, no stall",
        ScalarUnit::Time,
        ScalarGetter::Whole(|s| Some(s.test()?.stalls.without?.pdv_max)),
    )
    .about("largest PDV without packets that the hosts delayed")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "intended-latency-mean",
        "intended delay mean",
        ScalarUnit::Time,
        ScalarGetter::Real(|s| s.test()?.intended_latency.as_ref().map(|i| i.mean)),
    )
    .about("mean delay counted from due times, if the sender's error is not negligible")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "intended-latency-pdv-p99",
        "intended jitter 99%",
        ScalarUnit::Time,
        ScalarGetter::Whole(|s| s.test()?.intended_latency.as_ref().map(|i| i.pdv_p99)),
    )
    .about("99th percentile of PDV counted from due times, if the sender's error is not negligible")
    .lower_is_better()
    .only(Applies::TESTS),
];

    type Found = (Stalls, Option<IntendedLatency>);

    fn begin(_: &Session) -> HostStalls {
        HostStalls
    }

    fn found(&self, _: &EndedStream<'_>) -> (Stalls, Option<IntendedLatency>) {
        (Stalls::default(), None)
    }

    fn found_of_all(stream: &EndedStream<'_>, all: &AllPackets<'_>) -> (Stalls, Option<IntendedLatency>) {
        let StreamFacts { session, tally, .. } = stream.known;
        if session.period().is_none() {
            return (Stalls::default(), None);
        }
        let AllPackets { series, samples, .. } = all;
        let stalls =
            stalls::stalls(series, samples, all.sample(), all.errors(), &tally.waited, &session.spec);
        let intended = all.errors().zip(schedule_error(all));
        let (_, pdv) = all.delays();
        (stalls, intended.and_then(|(errors, figures)| stalls::intended(series, errors, &figures, pdv)))
    }

    fn write((stalls, intended): (Stalls, Option<IntendedLatency>), _: &EndedStream<'_>, to: &mut Summary) {
        to.stalls = stalls;
        to.intended_latency = intended;
    }
}
/// Noise floor of the host itself, and the spread of delay without it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NoiseFloors;

impl Metric for NoiseFloors {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "noise-pdv-p99",
            "host's own jitter",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| Some(s.test()?.noise.as_ref()?.floor.pdv_p99.0)),
        )
        .about("99th percentile of PDV over the host's own loopback, if measured before the test")
        .lower_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "stddev-net",
            "std dev, net of host",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.test()?.noise.as_ref()?.stddev_net),
        )
        .about("standard deviation of delay without the host's own share")
        .lower_is_better()
        .only(Applies::TESTS),
    ];

    type Found = ();

    fn begin(_: &Session) -> NoiseFloors {
        NoiseFloors
    }

    fn found(&self, _: &EndedStream<'_>) {}

    fn write((): (), stream: &EndedStream<'_>, to: &mut Summary) {
        let Session { client, server, .. } = stream.known.session;
        to.noise = client.noise.or(server.noise).map(|floor| Noise::new(floor, &to.latency, &to.pdv));
    }
}
/// Time in the queue of the sending host's interface.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OwnQueue;

impl Metric for OwnQueue {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "local-queue-median",
            "local queue median",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| Some(s.test()?.local_queue.as_ref()?.median)),
        )
        .about("median time in the queue of the sending host's own interface, before the path")
        .lower_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "local-queue-mean",
            "local queue mean",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| Some(s.test()?.local_queue.as_ref()?.mean)),
        )
        .about("mean time in the queue of the sending host's own interface")
        .lower_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "local-queue-p99",
            "local queue 99%",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| Some(s.test()?.local_queue.as_ref()?.p99)),
        )
        .about("99th percentile of the time in the queue of the sending host's own interface")
        .lower_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "local-queue-max",
            "local queue max",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| Some(s.test()?.local_queue.as_ref()?.max)),
        )
        .about("longest time in the queue of the sending host's own interface")
        .lower_is_better()
        .only(Applies::TESTS),
    ];

    type Found = Option<LocalQueue>;

    fn begin(_: &Session) -> OwnQueue {
        OwnQueue
    }

    fn found(&self, stream: &EndedStream<'_>) -> Option<LocalQueue> {
        stream.known.tally.local_queue()
    }

    fn write(found: Option<LocalQueue>, _: &EndedStream<'_>, to: &mut Summary) {
        to.local_queue = found;
    }
}
/// Time spent in the hosts, and missing stamps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StampSources;

impl Metric for StampSources {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "send-stamps-lost",
            "sent stamps lost",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| s.stamps().sent_lost),
        )
        .about("packets whose departure stamp was requested but never received")
        .lower_is_better(),
        Scalar::new(
            "send-lag-mean",
            "sender lag mean",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.stamps().send_lag_mean_ns),
        )
        .about("mean time from the sending program's clock reading to the send stamp")
        .lower_is_better(),
        Scalar::new(
            "send-lag-max",
            "sender lag max",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.stamps().send_lag_max_ns),
        )
        .about("largest time from the sending program's clock reading to the send stamp")
        .lower_is_better(),
        Scalar::new(
            "receive-lag-mean",
            "receiver lag mean",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.stamps().receive_lag_mean_ns),
        )
        .about("mean time from the arrival stamp to the receiving program's clock reading")
        .lower_is_better(),
        Scalar::new(
            "receive-lag-max",
            "receiver lag max",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.stamps().receive_lag_max_ns),
        )
        .about("largest time from the arrival stamp to the receiving program's clock reading")
        .lower_is_better(),
    ];

    type Found = (StampCounts, ReceivedHeaders);

    fn begin(_: &Session) -> StampSources {
        StampSources
    }

    fn found(&self, stream: &EndedStream<'_>) -> (StampCounts, ReceivedHeaders) {
        let StreamFacts { tally, session, .. } = stream.known;
        (tally.stamps(session), tally.far_end())
    }

    fn write((stamps, far_end): (StampCounts, ReceivedHeaders), _: &EndedStream<'_>, to: &mut Summary) {
        to.stamps = stamps;
        to.far_end = far_end;
    }
}

/// Returns the sender's lateness, including the part that the queue of its own host caused; `None` if the
/// period is unknown.
fn schedule_error(all: &AllPackets<'_>) -> Option<ScheduleError> {
    let errors = all.errors()?;
    let waits = || all.queued.iter().copied();
    // A sender that cannot keep the rate moves its schedule repeatedly. The user asked for the original schedule.
    let planned = all.planned_errors();
    Some(ScheduleError {
        handed_over: errors.handed_over(&all.series, waits()),
        stretched: planned.as_ref().unwrap_or(errors).stretched(&all.series, waits()),
        ..errors.figures()
    })
}
