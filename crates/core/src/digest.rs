//! [`Digest`]: what of a [`Summary`] is enough to judge a run and to set it beside others, whether it was just
//! computed or comes from a JSON file that this or an older version wrote.

use crate::compare::Comparable;
use crate::metrics::rfc3550::Rfc3550;
use crate::noise::NoiseFloor;
use crate::spec::Direction;
use crate::summary::{ClockEstimate, Counts, Distribution, Ipdv, Summary};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// A part of a JSON summary, by the same names. Only `header`, `counts`, `latency` and `pdv` must be there.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Digest {
    /// What was asked for.
    pub header: Header,
    /// Packet counts.
    pub counts: Counts,
    /// Raw delay.
    pub latency: Distribution,
    /// Delay above the smallest delay.
    pub pdv: Distribution,
    /// Delay variation of consecutive packets.
    #[serde(default)]
    pub ipdv: Ipdv,
    /// RTP jitter.
    #[serde(default)]
    pub rfc3550_jitter: Option<Rfc3550>,
    /// Loss.
    #[serde(default)]
    pub loss: Loss,
    /// The clocks.
    #[serde(default)]
    pub clock: ClockEstimate,
    /// The hosts' own noise, where it was measured.
    #[serde(default)]
    pub noise: Option<Noise>,
    /// Voice quality by buffer size.
    #[serde(default)]
    pub dejitter: Option<Dejitter>,
    /// What is known of the distribution without the packets.
    #[serde(default)]
    pub comparable: Option<Comparable>,
    /// The test.
    #[serde(default)]
    pub session: Info,
    /// Both ends of the latency are on one clock.
    #[serde(default, rename = "two_way", deserialize_with = "present")]
    pub round_trip: bool,
}

/// What was asked for, as far as it matters whether another run was asked for the same.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Payload, in bytes; 0 if not known.
    pub pktlen: u64,
    /// IP protocol number.
    pub proto: u8,
    /// Period, in ns; 0 if not known.
    pub period: i64,
    /// Sender.
    pub src_ip: Option<String>,
    /// Receiver.
    pub dst_ip: Option<String>,
    /// Code point asked for.
    pub dscp: u8,
    /// When.
    pub date: Option<String>,
}

/// Loss, in brief.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Loss {
    /// Lost over sent.
    pub ratio: Option<f64>,
    /// Length of a run of losses → how many runs.
    pub run_length_hist: BTreeMap<u64, u64>,
    /// 95 % interval of the ratio that allows for the correlation of neighbours.
    pub wilson95_correlated: Option<[f64; 2]>,
}

/// The noise floor without what follows from it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Noise {
    /// The floor.
    pub floor: NoiseFloor,
}

/// Voice quality, in brief.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Dejitter {
    /// One point a buffer size.
    pub curve: Vec<Quality>,
    /// The smallest buffer with at most 1 % of packets late, in ns.
    pub buffer_for_1pct_late_ns: Option<i64>,
}

/// Voice quality at one buffer size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Quality {
    /// Mean opinion score.
    #[serde(rename = "MOS")]
    pub mos: Option<f64>,
}

/// The test, in brief.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Info {
    /// The user's name for it.
    pub name: Option<String>,
    /// The user's tags.
    pub tags: BTreeMap<String, String>,
    /// Which way.
    pub direction: Option<Direction>,
    /// Whether that is known.
    pub direction_known: bool,
}

fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(d)?.is_some())
}

impl Digest {
    /// That of `summary`.
    pub fn new(summary: &Summary) -> Digest {
        let s = summary;
        Digest {
            header: Header {
                pktlen: s.header.pktlen,
                proto: s.header.proto,
                period: s.header.period,
                src_ip: s.header.src_ip.clone(),
                dst_ip: s.header.dst_ip.clone(),
                dscp: s.header.dscp,
                date: s.header.date.clone(),
            },
            counts: s.counts.clone(),
            latency: s.latency.clone(),
            pdv: s.pdv.clone(),
            ipdv: s.ipdv.clone(),
            rfc3550_jitter: s.rfc3550_jitter,
            loss: Loss {
                ratio: s.loss.ratio,
                run_length_hist: s.loss.run_length_hist.clone(),
                wilson95_correlated: s.loss.wilson95_correlated,
            },
            clock: s.clock.clone(),
            noise: s.noise.as_ref().map(|n| Noise { floor: n.floor }),
            dejitter: s.dejitter.as_ref().map(|d| Dejitter {
                curve: d.curve.iter().map(|p| Quality { mos: Some(p.mos) }).collect(),
                buffer_for_1pct_late_ns: d.buffer_for_1pct_late_ns,
            }),
            comparable: s.comparable.clone(),
            session: Info {
                name: s.session.name.clone(),
                tags: s.session.tags.clone(),
                direction: Some(s.session.direction),
                direction_known: s.session.direction_known,
            },
            round_trip: s.two_way.is_some(),
        }
    }

    /// Which way, if that is known and there is one.
    pub fn direction(&self) -> Option<Direction> {
        self.session.direction.filter(|_| self.session.direction_known && !self.round_trip)
    }

    /// Whether loss could be seen: TCP hides it.
    pub fn loss_observable(&self) -> bool {
        self.header.proto != crate::spec::Transport::Tcp.number()
    }

    /// Best mean opinion score over buffer sizes.
    pub fn best_mos(&self) -> Option<f64> {
        self.dejitter.as_ref()?.curve.iter().filter_map(|p| p.mos).max_by(f64::total_cmp)
    }

    /// What is to be subtracted from raw delay, and what it may be wrong by afterwards, in ns. `None` where
    /// nothing is known of how the clocks relate.
    pub fn correction(&self) -> Option<(i64, f64)> {
        if self.round_trip {
            return Some((0, 0.0));
        }
        let estimated = self.clock.correction_ns.zip(self.clock.bound_ns);
        estimated.or_else(|| self.clock.synchronised().map(|e| (0, e as f64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use crate::{Options, PacketRecord, TestSpec, WallTime, analyze};

    #[test]
    fn what_json_says_is_what_the_summary_says() {
        let mut session = Session::new(TestSpec::default());
        session.name = Some("one".into());
        session.tags = vec![("class".into(), "EF".into())];
        let records = (0..200).filter(|i| i % 50 != 3).map(|i| {
            PacketRecord::one_way(
                i,
                WallTime(i * 20_000_000),
                WallTime(i * 20_000_000 + 4_000_000 + i * 7919 % 9000),
            )
        });
        let summary = analyze(&session, records, &Options::default());
        let text = serde_json::to_string(&summary).unwrap();
        let read: Digest = serde_json::from_str(&text).unwrap();
        // A double may change in its last digit on the way through text.
        let told = Digest::new(&summary);
        assert_eq!((&read.header, &read.counts, &read.session), (&told.header, &told.counts, &told.session));
        assert_eq!((&read.clock, &read.noise, read.round_trip), (&told.clock, &told.noise, false));
        assert_eq!(
            (&read.pdv.percentiles, &read.pdv.histogram),
            (&told.pdv.percentiles, &told.pdv.histogram)
        );
        assert_eq!((read.latency.min, read.ipdv.iqr), (told.latency.min, told.ipdv.iqr));
        assert!(read.best_mos().is_some() && read.loss.run_length_hist[&1] == 4);
    }

    #[test]
    fn a_round_trip_is_known_by_its_key() {
        let session = Session::new(TestSpec::default());
        let records = [PacketRecord::one_way(0, WallTime(0), WallTime(5))];
        let mut value = serde_json::to_value(analyze(&session, records, &Options::default())).unwrap();
        assert!(!serde_json::from_value::<Digest>(value.clone()).unwrap().round_trip);
        value["two_way"] = serde_json::json!({ "protocol": "icmp" });
        assert!(serde_json::from_value::<Digest>(value).unwrap().round_trip);
    }

    #[test]
    fn other_objects_are_not_summaries() {
        for text in ["{}", r#"{"counts":{}}"#, r#"{"header":{},"counts":{},"latency":7,"pdv":{}}"#] {
            assert!(serde_json::from_str::<Digest>(text).is_err(), "{text}");
        }
    }
}
