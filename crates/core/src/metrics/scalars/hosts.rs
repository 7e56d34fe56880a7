//! What the hosts themselves add: figures that are fields of the summary.

use crate::metrics::entry::Metric;
use crate::scalars::{Applies, Scalar, Take, Unit};

/// The sender's schedule error.
pub const SCHEDULE_ERROR: Metric = Metric::of_fields(&[
    Scalar::new(
        "schedule-error-median",
        "send error median",
        Unit::Time,
        Take::Real(|s| s.test()?.schedule_error.as_ref().map(|e| e.median)),
    )
    .about("median lateness of the sender against its schedule")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "schedule-error-p99",
        "send error 99%",
        Unit::Time,
        Take::Whole(|s| s.test()?.schedule_error.as_ref().map(|e| e.p99)),
    )
    .about("99th percentile of the sender's own schedule error")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "schedule-error-max",
        "send error max",
        Unit::Time,
        Take::Whole(|s| s.test()?.schedule_error.as_ref().map(|e| e.max)),
    )
    .about("largest lateness of the sender against its schedule")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "schedule-error-late",
        "sent late",
        Unit::Packets,
        Take::Count(|s| s.test()?.schedule_error.as_ref().map(|e| e.over_half_period)),
    )
    .about("packets sent more than half a period late")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "schedule-stretch",
        "behind at the end",
        Unit::Time,
        Take::Real(|s| {
            let error = s.test()?.schedule_error.as_ref()?;
            error.stretched.map(|stretched| stretched.late)
        }),
    )
    .about("how far the sender was behind its schedule at the end, where it fell behind for good")
    .lower_is_better()
    .only(Applies::TESTS),
]);

/// Stalls of the hosts, and the figures without them.
pub const STALLS: Metric = Metric::of_fields(&[
    Scalar::new(
        "stalls-sender",
        "sender stalls",
        Unit::Packets,
        Take::Count(|s| Some(s.test()?.stalls.sender_late)),
    )
    .about("packets sent late because the sending host stalled")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "stalls-receiver",
        "receiver stalls",
        Unit::Count,
        Take::Count(|s| Some(s.test()?.stalls.receiver_suspects)),
    )
    .about("groups of packets that arrived together as after a stall of the receiving host")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "stalls-waited",
        "waited in receiver",
        Unit::Packets,
        Take::Count(|s| Some(s.test()?.stalls.receiver_waits)),
    )
    .about("packets that waited in the receiving host more than half a period, of a fast stream a millisecond more")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "pdv-without-stalls-p99",
        "jitter 99%, no stall",
        Unit::Time,
        Take::Whole(|s| Some(s.test()?.stalls.without?.pdv_p99)),
    )
    .about("99th percentile of PDV without the packets the hosts disturbed")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "pdv-without-stalls-max",
        "jitter max, no stall",
        Unit::Time,
        Take::Whole(|s| Some(s.test()?.stalls.without?.pdv_max)),
    )
    .about("largest PDV without the packets the hosts disturbed")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "intended-latency-mean",
        "from due time, mean",
        Unit::Time,
        Take::Real(|s| s.test()?.intended_latency.as_ref().map(|i| i.mean)),
    )
    .about("mean delay from when packets were due instead of sent, where the sender's error matters")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "intended-latency-pdv-p99",
        "from due time, 99%",
        Unit::Time,
        Take::Whole(|s| s.test()?.intended_latency.as_ref().map(|i| i.pdv_p99)),
    )
    .about("99th percentile of PDV counted from due times, where the sender's error matters")
    .lower_is_better()
    .only(Applies::TESTS),
]);

/// The host's own noise.
pub const NOISE: Metric = Metric::of_fields(&[
    Scalar::new(
        "noise-pdv-p99",
        "host's own jitter",
        Unit::Time,
        Take::Whole(|s| Some(s.test()?.noise.as_ref()?.floor.pdv_p99.0)),
    )
    .about("99th percentile of PDV over the host's own loopback, where it was measured before the test")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "stddev-net",
        "std dev, net of host",
        Unit::Time,
        Take::Real(|s| s.test()?.noise.as_ref()?.stddev_net),
    )
    .about("standard deviation of delay without the host's own share")
    .lower_is_better()
    .only(Applies::TESTS),
]);

/// Time spent in the queue of the sending host's interface.
pub const LOCAL_QUEUE: Metric = Metric::of_fields(&[
    Scalar::new(
        "local-queue-median",
        "local queue median",
        Unit::Time,
        Take::Real(|s| Some(s.test()?.local_queue.as_ref()?.median)),
    )
    .about("median time in the queue of the sending host's own interface, before the path")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "local-queue-mean",
        "local queue mean",
        Unit::Time,
        Take::Real(|s| Some(s.test()?.local_queue.as_ref()?.mean)),
    )
    .about("mean time in the queue of the sending host's own interface")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "local-queue-p99",
        "local queue 99%",
        Unit::Time,
        Take::Whole(|s| Some(s.test()?.local_queue.as_ref()?.p99)),
    )
    .about("99th percentile of the time in the queue of the sending host's own interface")
    .lower_is_better()
    .only(Applies::TESTS),
    Scalar::new(
        "local-queue-max",
        "local queue max",
        Unit::Time,
        Take::Whole(|s| Some(s.test()?.local_queue.as_ref()?.max)),
    )
    .about("longest time in the queue of the sending host's own interface")
    .lower_is_better()
    .only(Applies::TESTS),
]);

/// Time spent in the hosts, and stamps that did not come.
pub const STAMPS: Metric = Metric::of_fields(&[
    Scalar::new("send-stamps-lost", "sent stamps lost", Unit::Packets, Take::Count(|s| s.stamps().sent_lost))
        .about("packets for which a stamp of their departure was asked for and never came")
        .lower_is_better(),
    Scalar::new("send-lag-mean", "in sender, mean", Unit::Time, Take::Whole(|s| s.stamps().send_lag_mean_ns))
        .about("mean time from the sending program's clock reading to the sent stamp")
        .lower_is_better(),
    Scalar::new(
        "send-lag-max",
        "in sender, largest",
        Unit::Time,
        Take::Whole(|s| s.stamps().send_lag_max_ns),
    )
    .about("largest time from the sending program's clock reading to the sent stamp")
    .lower_is_better(),
    Scalar::new(
        "receive-lag-mean",
        "in receiver, mean",
        Unit::Time,
        Take::Whole(|s| s.stamps().receive_lag_mean_ns),
    )
    .about("mean time from the arrived stamp to the receiving program's clock reading")
    .lower_is_better(),
    Scalar::new(
        "receive-lag-max",
        "in receiver, largest",
        Unit::Time,
        Take::Whole(|s| s.stamps().receive_lag_max_ns),
    )
    .about("largest time from the arrived stamp to the receiving program's clock reading")
    .lower_is_better(),
]);
