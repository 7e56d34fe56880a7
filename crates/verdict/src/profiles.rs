//! [`PROFILES`]: requirements of applications, with their sources. Judges a path for each of them.

use super::sentences::profiles as sentences;
use super::severity::{Experience, MIN_BUFFER_NS, MIN_SPEECH_BUFFER_NS, Played, shown_level};
use jitlat_core::answer::{Severity, Suitability};
use jitlat_core::metrics::dependence::beta_interval;
use jitlat_core::metrics::emodel;
use jitlat_core::metrics::qoo::{DelayRequirement, LossRequirement, Requirements, ThroughputRequirement};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Requirements of one kind of application. Limits are the largest values that count as good, fair and poor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name of the profile.
    pub name: Cow<'static, str>,
    /// Description for users.
    pub about: Cow<'static, str>,
    /// Payload of a typical packet, in bytes.
    pub payload: u16,
    /// Typical time between packets, in ms.
    pub period_ms: f64,
    /// DSCP, 0 to 63.
    #[serde(default)]
    pub dscp: u8,
    /// Duration of a test with this profile, in seconds.
    #[serde(default = "half_a_minute")]
    pub duration_s: f64,
    /// Limits of the one-way delay including the buffer, in ms.
    pub delay_ms: [f64; 3],
    /// Additional delay in the application, in ms: coding, packetisation, display.
    #[serde(default)]
    pub own_ms: f64,
    /// Limits of the share of packets that are lost or late, 0…1.
    pub missing: [f64; 3],
    /// True for speech, which is also rated by the E-model.
    #[serde(default)]
    pub speech: bool,
    /// Source of the limits.
    pub source: Cow<'static, str>,
    /// Requirements for the score of Quality of Outcome (draft-ietf-ippm-qoo) in one direction; `None`: no score.
    #[serde(default)]
    pub qoo: Option<Requirements>,
}

/// Largest number of packets that is recommended for a test.
const MAX_PACKETS: f64 = 1e7;

/// Rounds `number` up to two significant digits.
fn two_digits(number: f64) -> f64 {
    let unit = 10f64.powi(libm::log10(number.max(1.0)).floor() as i32 - 1).max(1.0);
    (number / unit).ceil() * unit
}

fn half_a_minute() -> f64 {
    30.0
}

/// Minimum speech ratings R for good, fair and poor (ITU-T G.109).
const SPEECH_RATINGS: [f64; 3] = [80.0, 70.0, 60.0];

/// Percentile of delay for which packet networks are dimensioned: the packet delay budget of 3GPP TS 23.203 §6.1.7.2 is
/// a maximum with a confidence of 98 %.
const DIMENSIONED: f64 = 98.0;

const fn delay(
    percentile: f64,
    optimal_ms: f64,
    unacceptable_ms: f64,
    source: &'static str,
) -> DelayRequirement {
    DelayRequirement { percentile, optimal_ms, unacceptable_ms, source: Cow::Borrowed(source) }
}

const fn loss(optimal: f64, unacceptable: f64, source: &'static str) -> LossRequirement {
    LossRequirement { optimal, unacceptable, source: Cow::Borrowed(source) }
}

const fn throughput(min_bps: f64, source: &'static str) -> ThroughputRequirement {
    ThroughputRequirement { min_bps, source: Cow::Borrowed(source) }
}

// Delays from end to end are reduced by the delay of the application itself (`own_ms`).
const VOICE_DELAY: &[DelayRequirement] = &[delay(
    DIMENSIONED,
    130.0,
    380.0,
    "3GPP TS 22.105, ITU-T G.114 (150 and 400 ms, less 20 ms in the devices); TS 23.203 (98 %)",
)];
const VIDEO_DELAY: &[DelayRequirement] = &[delay(
    DIMENSIONED,
    110.0,
    360.0,
    "3GPP TS 22.105 (videophone: 150 and 400 ms, less 40 ms in the devices); TS 23.203 (98 %)",
)];
const GAMING_DELAY: &[DelayRequirement] =
    &[delay(DIMENSIONED, 50.0, 200.0, "choice of this project (50 and 200 ms); TS 23.203 (98 %)")];
const DESKTOP_DELAY: &[DelayRequirement] = &[delay(
    DIMENSIONED,
    75.0,
    500.0,
    "choice of this project (75 ms); ITU-T Y.3503 (users interrupt after 1 s, half of it per direction); TS 23.203 (98 %)",
)];
const TELEMETRY_DELAY: &[DelayRequirement] = &[delay(
    95.0,
    250.0,
    5000.0,
    "3GPP TS 22.105 (telemetry with control: 250 ms); choice of this project (5 s; 95 %, the highest percentile that its \
     two minutes resolve)",
)];
const V2X_DELAY: &[DelayRequirement] = &[delay(
    90.0,
    20.0,
    100.0,
    "3GPP TS 22.186 (platooning: 20 ms; 90 %, its lowest reliability); choice of this project (100 ms)",
)];

/// Default profiles. DSCPs are those that RFC 4594 assigns to the traffic class; it does not assign one to vehicles.
pub static PROFILES: [Profile; 6] = [
    Profile {
        name: Cow::Borrowed("voice"),
        about: Cow::Borrowed("a telephone call, G.711 with concealment"),
        payload: 172,
        period_ms: 20.0,
        dscp: 46,
        duration_s: 30.0,
        delay_ms: [150.0, 250.0, 400.0],
        own_ms: 20.0,
        missing: [0.01, 0.03, 0.10],
        speech: true,
        source: Cow::Borrowed(
            "3GPP TS 22.105 and ITU-T G.114 (150 and 400 ms), TS 22.105 (3 %), G.107 and G.109 (rating)",
        ),
        qoo: Some(Requirements {
            delay: Cow::Borrowed(VOICE_DELAY),
            loss: loss(0.01, 0.10, "3GPP TS 23.203 QCI 1 (10^-2); choice of this project (10 %)"),
            throughput: Some(throughput(64e3, "ITU-T G.711 (64 kbit/s)")),
        }),
    },
    Profile {
        name: Cow::Borrowed("video"),
        about: Cow::Borrowed("a video conference"),
        payload: 1200,
        period_ms: 5.0,
        dscp: 34,
        duration_s: 30.0,
        delay_ms: [150.0, 250.0, 400.0],
        own_ms: 40.0,
        missing: [0.003, 0.01, 0.03],
        speech: false,
        source: Cow::Borrowed("3GPP TS 22.105 (videophone: 150 and 400 ms, 1 %)"),
        qoo: Some(Requirements {
            delay: Cow::Borrowed(VIDEO_DELAY),
            loss: loss(0.001, 0.03, "3GPP TS 23.203 QCI 2 (10^-3); choice of this project (3 %)"),
            throughput: Some(throughput(384e3, "choice of this project (384 kbit/s)")),
        }),
    },
    Profile {
        name: Cow::Borrowed("gaming"),
        about: Cow::Borrowed("a fast game between players"),
        payload: 100,
        period_ms: 16.0,
        dscp: 32,
        duration_s: 30.0,
        delay_ms: [50.0, 100.0, 200.0],
        own_ms: 0.0,
        missing: [0.005, 0.02, 0.05],
        speech: false,
        source: Cow::Borrowed("choice of this project"),
        qoo: Some(Requirements {
            delay: Cow::Borrowed(GAMING_DELAY),
            loss: loss(0.001, 0.05, "3GPP TS 23.203 QCI 3 (10^-3); choice of this project (5 %)"),
            throughput: None,
        }),
    },
    Profile {
        name: Cow::Borrowed("cloud-desktop"),
        about: Cow::Borrowed("remote desktop: screen, keyboard and mouse of a distant computer"),
        payload: 200,
        period_ms: 30.0,
        dscp: 18,
        duration_s: 30.0,
        delay_ms: [75.0, 150.0, 500.0],
        own_ms: 0.0,
        missing: [0.005, 0.02, 0.05],
        speech: false,
        source: Cow::Borrowed("choice of this project, ITU-T Y.3503 (users interrupt after 1 s)"),
        qoo: Some(Requirements {
            delay: Cow::Borrowed(DESKTOP_DELAY),
            loss: loss(0.001, 0.05, "3GPP TS 23.203 QCI 7 (10^-3); choice of this project (5 %)"),
            throughput: None,
        }),
    },
    Profile {
        name: Cow::Borrowed("telemetry"),
        about: Cow::Borrowed("telemetry and control: measured values and commands"),
        payload: 100,
        period_ms: 1000.0,
        dscp: 18,
        duration_s: 120.0,
        delay_ms: [250.0, 1000.0, 5000.0],
        own_ms: 0.0,
        missing: [0.001, 0.01, 0.05],
        speech: false,
        source: Cow::Borrowed("3GPP TS 22.105 (telemetry with control: 250 ms, no loss)"),
        qoo: Some(Requirements {
            delay: Cow::Borrowed(TELEMETRY_DELAY),
            loss: loss(0.0, 0.05, "3GPP TS 22.105 (no loss); choice of this project (5 %)"),
            throughput: None,
        }),
    },
    Profile {
        name: Cow::Borrowed("v2x"),
        about: Cow::Borrowed("V2X: vehicles, other vehicles and roadside units"),
        payload: 300,
        period_ms: 100.0,
        dscp: 0,
        duration_s: 30.0,
        delay_ms: [20.0, 50.0, 100.0],
        own_ms: 0.0,
        missing: [0.001, 0.01, 0.10],
        speech: false,
        source: Cow::Borrowed(
            "3GPP TS 22.186 (20 ms, 90 to 99.99 %), choice of this project (50 and 100 ms)",
        ),
        qoo: Some(Requirements {
            delay: Cow::Borrowed(V2X_DELAY),
            loss: loss(0.01, 0.10, "3GPP TS 23.501 5QI 79 (10^-2); TS 22.186 (reliability of 90 %)"),
            throughput: None,
        }),
    },
];

/// Traffic of the test, which is compared with the traffic of a profile.
#[derive(Clone, Copy, Debug)]
pub struct SentTraffic {
    /// Payload, in bytes; `None` if unknown.
    pub payload: Option<u16>,
    /// Time between packets, in ms; `None` if unknown.
    pub period_ms: Option<f64>,
}

/// Impairment that no buffer can reduce: times without any packet, and packets that were never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    severity: Severity,
    because: &'static str,
}

impl Interruption {
    /// Creates an impairment of this severity, caused by outages of the path.
    pub const fn by_outages(severity: Severity) -> Interruption {
        Interruption { severity, because: sentences::OUTAGES }
    }
}

impl Profile {
    /// Returns the reason why the profile is invalid; `None` for a valid one.
    pub fn fault(&self) -> Option<&'static str> {
        let rising = |limits: [f64; 3]| limits[0] >= 0.0 && limits.is_sorted() && limits[2].is_finite();
        let written = |text: &str| !text.trim().is_empty() && !text.chars().any(char::is_control);
        if !written(&self.name) {
            Some("a name is missing")
        } else if self.payload < jitlat_core::spec::HEADER_LEN {
            Some("payload must be at least 12 bytes")
        } else if !(1e-3..=60_000.0).contains(&self.period_ms) {
            Some("period_ms must be between 0.001 and 60000")
        } else if !(1.0..=86_400.0).contains(&self.duration_s) {
            Some("duration_s must be between 1 and 86400")
        } else if self.dscp > 63 {
            Some("dscp must be at most 63")
        } else if !rising(self.delay_ms) || !rising(self.missing) || self.missing[2] > 1.0 {
            Some(
                "delay_ms and missing need three rising limits each, for good, fair and poor; the limits of missing must not exceed 1",
            )
        } else if !(0.0..=60_000.0).contains(&self.own_ms) {
            Some("own_ms must be between 0 and 60000")
        } else {
            self.qoo.as_ref().and_then(Requirements::fault)
        }
    }

    /// Judges the path for this profile with the buffer that suits it best. For speech this is the recommended buffer
    /// `played`, if it is equally good. The result is never better than `interrupted`.
    pub fn judge(
        &self,
        lived: &Experience,
        played: Option<&Played>,
        interrupted: Interruption,
        sent: SentTraffic,
    ) -> Option<Suitability> {
        let level = |value: f64, limits: [f64; 3]| {
            let worse = limits.iter().filter(|limit| value > **limit).count();
            [Severity::Good, Severity::Fair, Severity::Poor, Severity::Bad][worse]
        };
        let base = lived.base_ns.unwrap_or(0.0).max(0.0);
        let judged = lived.buffers(self.least_buffer()).map(|(buffer, missing)| {
            let delay = base + buffer as f64 + self.own_ms * 1e6;
            let events = (missing * lived.sent as f64).round() as u64;
            let late = level(delay / 1e6, self.delay_ms);
            let gone = shown_level(missing, events, lived.sent, self.missing);
            let rating = lived.rating(buffer, missing);
            // Higher ratings are better, so the signs are reversed.
            let speech =
                if self.speech { level(-rating, SPEECH_RATINGS.map(|r| -r)) } else { Severity::Good };
            (late.max(gone).max(speech), late, gone, buffer, missing, delay, rating)
        });
        let judged: Vec<_> = judged.collect();
        let least = judged.iter().map(|j| j.0).min()?;
        let fewest = judged.iter().filter(|j| j.0 == least).map(|j| j.4).fold(f64::INFINITY, f64::min);
        // Among the best buffers, choose the smallest that loses hardly more than the best.
        let mut fits = judged.iter().filter(|j| j.0 == least);
        let recommended = played
            .filter(|_| self.speech)
            .and_then(|p| fits.clone().find(|j| j.3 == p.buffer_ns.max(self.least_buffer())));
        let (severity, late, gone, buffer, missing, delay, rating) =
            *recommended.or_else(|| fits.find(|j| j.4 <= fewest + 0.1 * self.missing[0]))?;
        let known = lived.base_ns.is_some();
        let path = severity.max(interrupted.severity);
        let judged = match path {
            // The verdict may be worse once the delay is known.
            Severity::Good | Severity::Fair if !known => Severity::Unknown,
            // A few packets cannot prove that the share is small.
            Severity::Good if !self.is_shown(missing, lived) => Severity::Unknown,
            judged => judged,
        };
        let limit = |limits: [f64; 3]| limits[(severity as usize).saturating_sub(2).min(2)];
        let because = match path {
            _ if judged == Severity::Unknown && !known => sentences::delay_unknown(missing),
            _ if judged == Severity::Unknown => {
                let enough = self.enough_packets(missing, lived);
                let enough = enough.map(|n| (n, sent.period_ms.map(|period| n * period / 1e3)));
                sentences::too_few_packets(lived.sent, self.missing[1], enough)
            }
            Severity::Good => sentences::suits(known.then_some(delay), buffer, missing),
            s if s == interrupted.severity && s > severity => interrupted.because.to_owned(),
            _ if gone == severity => sentences::missing(missing, limit(self.missing)),
            _ if late == severity && known => {
                let least = delay - lived.base_error_ns.min(base);
                sentences::delay([least, delay, delay + lived.base_error_ns], limit(self.delay_ms) * 1e6)
            }
            _ if late == severity => sentences::buffer(buffer, limit(self.delay_ms) * 1e6),
            _ => sentences::rating(rating, limit(SPEECH_RATINGS)),
        };
        Some(Suitability {
            severity: judged,
            mos: self.speech.then(|| emodel::mos(rating)),
            missing,
            delay_ns: known.then_some(delay as i64),
            buffer_ns: Some(buffer),
            because,
            limits: self.limits(known, sent),
        })
    }

    /// Returns the smallest buffer that an application of this profile uses, in ns.
    fn least_buffer(&self) -> i64 {
        if self.speech {
            return MIN_SPEECH_BUFFER_NS;
        }
        // Profiles for very short delays need a smaller one.
        MIN_BUFFER_NS.min((self.delay_ms[0] * 0.05e6) as i64)
    }

    /// Returns true if a measured share `missing` excludes, with 95 % confidence, that the true share exceeds the limit
    /// of fair. Losses in bursts exclude less than independent ones.
    fn is_shown(&self, missing: f64, lived: &Experience) -> bool {
        self.would_show(missing, lived, lived.sent.max(1) as f64)
    }

    /// Returns true if a test of `sent` packets with the same share `missing` would exclude, with 95 % confidence, that
    /// the true share exceeds the limit of fair.
    fn would_show(&self, missing: f64, lived: &Experience, sent: f64) -> bool {
        let most = match (missing * lived.sent.max(1) as f64).round() {
            0.0 => 3.0 / sent,
            _ => beta_interval(missing, sent / lived.loss_effect).map_or(1.0, |[_, high]| high),
        };
        most <= self.missing[1]
    }

    /// Returns the number of packets, rounded up to two significant digits, with which [`would_show`](Self::would_show)
    /// is true; `None` above [`MAX_PACKETS`].
    fn enough_packets(&self, missing: f64, lived: &Experience) -> Option<f64> {
        let mut enough = lived.sent.max(1) as f64;
        while !self.would_show(missing, lived, enough) {
            enough = two_digits(1.02 * enough);
            if enough > MAX_PACKETS {
                return None;
            }
        }
        Some(enough)
    }

    fn limits(&self, known: bool, sent: SentTraffic) -> Option<String> {
        let mut limits = Vec::new();
        let far = |a: f64, b: f64, factor: f64| a > factor * b || b > factor * a;
        if let (Some(payload), Some(period)) = (sent.payload, sent.period_ms)
            && (far(payload.into(), self.payload.into(), 6.0) || far(period, self.period_ms, 6.0))
        {
            let measured = sentences::Traffic { payload, period_ms: period };
            let profile = sentences::Traffic { payload: self.payload, period_ms: self.period_ms };
            limits.push(sentences::other_traffic(measured, profile));
        }
        if !known {
            limits.push(sentences::DELAY_UNKNOWN.to_owned());
        }
        (!limits.is_empty()).then(|| limits.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::severity::Waits;
    use crate::testing::{MS, SECOND, first};
    use jitlat_core::distribution::sample::Sample;

    #[test]
    fn what_cannot_be_a_profile_is_named() {
        assert!(PROFILES.iter().all(|p| p.fault().is_none()));
        let fault = |change: fn(&mut Profile)| {
            let mut profile = PROFILES[0].clone();
            change(&mut profile);
            profile.fault().unwrap().split(' ').next().unwrap()
        };
        assert_eq!(fault(|p| p.name = " ".into()), "a");
        assert_eq!(fault(|p| p.payload = 11), "payload");
        assert_eq!(fault(|p| p.period_ms = f64::NAN), "period_ms");
        assert_eq!(fault(|p| p.duration_s = 0.0), "duration_s");
        assert_eq!(fault(|p| p.dscp = 64), "dscp");
        assert_eq!(fault(|p| p.delay_ms = [2.0, 1.0, 3.0]), "delay_ms");
        assert_eq!(fault(|p| p.missing = [0.1, 0.2, 1.5]), "delay_ms");
        assert_eq!(fault(|p| p.own_ms = -1.0), "own_ms");
    }

    #[test]
    fn each_profile_has_a_score_with_sources_that_is_a_scalar() {
        use jitlat_core::scalars::SCALARS;
        let listed: Vec<&str> = SCALARS.iter().filter_map(|scalar| scalar.key.strip_prefix("qoo.")).collect();
        assert_eq!(listed, PROFILES.each_ref().map(|profile| &*profile.name));
        for profile in &PROFILES {
            let qoo = profile.qoo.as_ref().unwrap();
            let delays = qoo.delay.iter().map(|delay| &delay.source);
            let others = [&qoo.loss.source].into_iter().chain(qoo.throughput.as_ref().map(|t| &t.source));
            assert!(delays.chain(others).all(|source| !source.is_empty()), "{}", profile.name);
            // A path whose verdict is bad because of delay alone scores 0, and one that is good scores 100.
            let [good, _, poor] = profile.delay_ms;
            let delay = &qoo.delay[0];
            assert_eq!(
                [delay.optimal_ms, delay.unacceptable_ms],
                [good - profile.own_ms, poor - profile.own_ms]
            );
            assert_eq!(qoo.loss.unacceptable, profile.missing[2], "{}", profile.name);
        }
    }

    #[test]
    fn requirements_of_a_file_are_optional_and_checked() {
        let read = |qoo: &str| {
            let text = format!(
                r#"{{"name":"x","about":"","payload":80,"period_ms":20,"delay_ms":[1,2,3],"missing":[0,0,0],"source":""{qoo}}}"#
            );
            serde_json::from_str::<Profile>(&text)
        };
        assert_eq!(read("").unwrap().qoo, None);
        let with = |optimal: u32| {
            format!(
                r#","qoo":{{"delay":[{{"percentile":99.9,"optimal_ms":{optimal},"unacceptable_ms":50}}],"loss":{{"optimal":0,"unacceptable":0.1}}}}"#
            )
        };
        let profile = read(&with(10)).unwrap();
        assert_eq!((profile.fault(), profile.qoo.unwrap().delay[0].percentile), (None, 99.9));
        assert!(read(&with(50)).unwrap().fault().unwrap().starts_with("qoo.delay: optimal_ms"));
        assert!(read(r#","qoo":{"delay":[]}"#).unwrap_err().to_string().contains("loss"));
        assert!(read(&with(10).replace("delay", "delays")).is_err());
    }

    #[test]
    fn each_limit_of_a_profile_may_be_met() {
        let is_fine = |change: &dyn Fn(&mut Profile)| {
            let mut profile = PROFILES[0].clone();
            change(&mut profile);
            profile.fault().is_none()
        };
        assert!(is_fine(&|p| p.payload = 12));
        for (ms, fine) in [(0.0009, false), (0.001, true), (60_000.0, true), (60_000.1, false)] {
            assert_eq!(is_fine(&|p| p.period_ms = ms), fine, "{ms} ms");
        }
        for (s, fine) in [(0.9, false), (1.0, true), (86_400.0, true), (86_401.0, false)] {
            assert_eq!(is_fine(&|p| p.duration_s = s), fine, "{s} s");
        }
        assert!(is_fine(&|p| p.dscp = 63));
        assert!(is_fine(&|p| p.delay_ms = [0.0, 0.0, 0.0]) && !is_fine(&|p| p.delay_ms = [-1.0, 0.0, 1.0]));
        assert!(!is_fine(&|p| p.delay_ms = [0.0, 0.0, f64::INFINITY]));
        assert!(is_fine(&|p| p.missing = [0.0, 0.5, 1.0]) && !is_fine(&|p| p.missing = [0.5, 0.4, 1.0]));
        assert!(!is_fine(&|p| p.missing = [0.0, 0.5, 1.01]));
        for (ms, fine) in [(0.0, true), (60_000.0, true), (60_001.0, false)] {
            assert_eq!(is_fine(&|p| p.own_ms = ms), fine, "{ms} ms");
        }
        assert!(!is_fine(&|p| p.name = "a\u{7}".into()));
        let read: Profile = serde_json::from_str(
            r#"{"name":"x","about":"","payload":80,"period_ms":20,"delay_ms":[1,2,3],"missing":[0,0,0],"source":""}"#,
        )
        .unwrap();
        assert_eq!((read.duration_s, read.own_ms, read.dscp, read.speech), (30.0, 0.0, 0, false));
    }

    /// Profile with limits of 50, 100 and 200 ms and of 1, 3 and 10 %.
    fn game() -> Profile {
        let limits = ([50.0, 100.0, 200.0], [0.01, 0.03, 0.1]);
        Profile {
            delay_ms: limits.0,
            missing: limits.1,
            own_ms: 10.0,
            payload: 100,
            period_ms: 16.0,
            ..PROFILES[2].clone()
        }
    }

    /// Packets with these waits and `lost` others, on a path with the delay `base_ns`.
    fn lived(base_ns: Option<f64>, waits: &[i64], lost: u64) -> Experience {
        let sample = Sample::new(waits.iter().copied());
        Experience {
            waits: Waits::exact(&sample),
            sent: waits.len() as u64 + lost,
            lost,
            burst_ratio: 1.0,
            loss_effect: 1.0,
            base_ns,
            base_error_ns: 0.0,
        }
    }

    const AS_SENT: SentTraffic = SentTraffic { payload: Some(100), period_ms: Some(16.0) };

    const NOT: Interruption = Interruption::by_outages(Severity::Good);

    fn judged(lived: &Experience, outages: Severity) -> Suitability {
        game().judge(lived, None, Interruption::by_outages(outages), AS_SENT).unwrap()
    }

    #[test]
    fn a_use_bears_its_delay_exactly() {
        let of = |ns: i64| judged(&lived(Some(ns as f64), &[0; 1000], 0), Severity::Good);
        let border = |level| first(0..=SECOND, |ns| of(ns).severity >= level);
        // 10 ms of the delay are the profile's own, and 1 ms is the smallest buffer.
        assert_eq!(
            [Severity::Fair, Severity::Poor, Severity::Bad].map(border),
            [39 * MS + 1, 89 * MS + 1, 189 * MS + 1]
        );
        let good = of(39 * MS);
        assert_eq!((good.delay_ns, good.buffer_ns, good.missing), (Some(50 * MS), Some(MS), 0.0));
        assert_eq!(good.because, "50 ms one way with the buffer, 0.00 % missing");
        assert_eq!(of(59 * MS).because, "70 ms one way with the buffer, limit 50 ms");
        assert_eq!((good.mos, good.limits), (None, None));
        assert_eq!(of(-60 * MS).delay_ns, Some(11 * MS), "a delay below 0 is none");
    }

    #[test]
    fn a_use_bears_what_is_missing() {
        let of = |lost: i64| {
            judged(&lived(Some(0.0), &vec![0; 100_000 - lost as usize], lost as u64), Severity::Good)
        };
        let border = |level| first(0..=50_000, |lost| of(lost).severity >= level);
        assert_eq!([Severity::Fair, Severity::Poor, Severity::Bad].map(border), [1001, 3001, 10_001]);
        assert_eq!(of(2000).because, "2.0 % missing, limit 1 %");
        // With fifty packets, the lower end of the interval must be above half the limit.
        let of =
            |lost: i64| judged(&lived(Some(0.0), &vec![0; 50 - lost as usize], lost as u64), Severity::Good);
        let low = |share: f64| {
            let is_above = |k: i64| 2.0 * beta_interval(k as f64 / 50.0, 50.0).unwrap()[0] > share;
            first(0..=49, is_above).max(first(0..=49, |k| k as f64 / 50.0 > share))
        };
        let border = |level| first(0..=49, |lost| of(lost).severity >= level);
        let borders = [Severity::Fair, Severity::Poor, Severity::Bad].map(border);
        assert_eq!((borders, &borders[..2]), ([0.01, 0.03, 0.1].map(low), &[2, 4][..]));
    }

    #[test]
    fn what_is_unknown_is_left_out_and_said() {
        let waits: Vec<i64> = (0..1000).map(|k| k / 500 * 60 * MS).collect();
        let of = judged(&lived(None, &waits, 0), Severity::Good);
        // Without its delay the path is fair; with it, it may be worse.
        assert_eq!((of.severity, of.delay_ns, of.buffer_ns), (Severity::Unknown, None, Some(60 * MS)));
        assert_eq!(of.because, "delay unknown, 0.00 % missing");
        assert_eq!(of.limits.unwrap(), "the path's delay is unknown and not counted");
        let of = judged(&lived(None, &[0; 1000], 0), Severity::Good);
        assert_eq!((of.severity, of.buffer_ns), (Severity::Unknown, Some(MS)));
        // A path that is poor without its delay is at most poor with it.
        let waits: Vec<i64> = (0..1000).map(|k| k / 500 * 120 * MS).collect();
        let of = judged(&lived(None, &waits, 0), Severity::Good);
        assert_eq!(
            (of.severity, of.because.as_str()),
            (Severity::Poor, "buffer of 120 ms alone, limit 100 ms")
        );
    }

    #[test]
    fn few_packets_show_no_small_share() {
        let telemetry = &PROFILES[4];
        let of = |n: usize| telemetry.judge(&lived(Some(0.0), &vec![0; n], 0), None, NOT, AS_SENT).unwrap();
        // 3 of 300 are 1 %, the limit of fair.
        assert_eq!([of(299), of(300)].map(|suits| suits.severity), [Severity::Unknown, Severity::Good]);
        assert_eq!(of(100).because, "300 packets (5 s) would exclude 1 % missing");
    }

    #[test]
    fn outages_are_named_where_they_are_worse() {
        let quiet = lived(Some(0.0), &[0; 1000], 0);
        let of = judged(&quiet, Severity::Poor);
        assert_eq!((of.severity, of.because.as_str()), (Severity::Poor, "outages"));
        // Outages are not reported as the reason if the delay alone is as bad.
        let of = judged(&lived(Some(91e6), &[0; 1000], 0), Severity::Poor);
        assert_eq!(
            (of.severity, of.because.as_str()),
            (Severity::Poor, "102 ms one way with the buffer, limit 100 ms")
        );
    }

    #[test]
    fn the_smallest_buffer_that_loses_hardly_more_than_the_best() {
        // Up to a tenth of the limit more is acceptable: 1/64, or 16 of 1024 packets that are late without a buffer.
        let game = Profile { missing: [10.0 / 64.0, 0.2, 0.3], ..game() };
        let buffer = |late: i64| {
            let waits: Vec<i64> = (0..1024).map(|k| i64::from(k >= 1024 - late) * 20 * MS).collect();
            game.judge(&lived(Some(0.0), &waits, 0), None, NOT, AS_SENT).unwrap().buffer_ns
        };
        assert_eq!([16, 17].map(buffer), [Some(MS), Some(20 * MS)]);
    }

    #[test]
    fn speech_takes_the_buffer_of_the_answer_where_it_does_as_well() {
        let waits: Vec<i64> = (0..1000).map(|k| i64::from(k >= 992) * 20 * MS).collect();
        let lived = lived(Some(0.0), &waits, 0);
        let voice = &PROFILES[0];
        let of = |buffer_ns, profile: &Profile| {
            let played = Played { buffer_ns, missing: 0.0, rating: 90.0, severity: Severity::Good };
            profile.judge(&lived, Some(&played), NOT, AS_SENT).unwrap().buffer_ns
        };
        assert_eq!(of(0, voice), Some(10 * MS), "no player has a smaller one");
        assert_eq!(of(20 * MS, voice), Some(20 * MS));
        assert_eq!(of(15 * MS, voice), Some(20 * MS), "none of those looked at");
        assert_eq!(of(0, &game()), Some(20 * MS), "of speech only");
    }

    #[test]
    fn speech_is_rated_too() {
        let voice = Profile { delay_ms: [1e4, 1e4, 1e4], ..PROFILES[0].clone() };
        let of = |ms: i64| voice.judge(&lived(Some(ms as f64 * 1e6), &[0; 1000], 0), None, NOT, AS_SENT);
        let rating = |ms: i64| lived(Some(ms as f64 * 1e6), &[0; 1000], 0).rating(MIN_SPEECH_BUFFER_NS, 0.0);
        let below = |limit: f64| first(0..=3000, |ms| rating(ms) < limit);
        let border = |level| first(0..=3000, |ms| of(ms).unwrap().severity >= level);
        assert_eq!(
            [Severity::Fair, Severity::Poor, Severity::Bad].map(border),
            [80.0, 70.0, 60.0].map(below)
        );
        assert_eq!(of(100).unwrap().mos, Some(emodel::mos(rating(100))));
        let fair = of(below(80.0)).unwrap();
        assert_eq!(fair.because, "speech rating R 80, limit 80");
    }

    #[test]
    fn a_test_unlike_the_use_is_said_from_six_times_on() {
        let quiet = lived(Some(0.0), &[0; 1000], 0);
        let is_said = |payload: i64, period_ms: f64| {
            let sent = SentTraffic { payload: Some(payload as u16), period_ms: Some(period_ms) };
            game().judge(&quiet, None, NOT, sent).unwrap().limits.is_some()
        };
        assert_eq!(first(100..=2000, |payload| is_said(payload, 16.0)), 601);
        assert_eq!(first(-100..=-1, |payload| is_said(-payload, 16.0)), -16);
        assert_eq!(first(16..=1000, |ms| is_said(100, ms as f64)), 97);
        assert!(!is_said(100, 16.0 / 6.0) && is_said(100, 2.66));
        let other = SentTraffic { payload: Some(1200), period_ms: Some(1.0) };
        assert_eq!(
            game().judge(&quiet, None, NOT, other).unwrap().limits.unwrap(),
            "measured with 1200 bytes every 1.0 ms; this profile sends 100 bytes every 16 ms"
        );
    }

    #[test]
    fn longer_delays_are_never_better() {
        let of = |ms: f64| -> Vec<Severity> {
            let lived = lived(Some(ms * 1e6), &[0; 4000], 0);
            let played = lived.best().unwrap();
            let uses =
                PROFILES.iter().map(|p| p.judge(&lived, Some(&played), NOT, AS_SENT).unwrap().severity);
            std::iter::once(played.severity).chain(uses).collect()
        };
        let ladder = [10.0, 20.0, 50.0, 100.0, 150.0, 200.0, 300.0, 400.0, 600.0, 1000.0, 1610.0, 2000.0];
        let levels: Vec<String> = ladder
            .iter()
            .map(|ms| of(*ms).iter().map(|s| s.name().chars().next().unwrap_or(' ')).collect::<String>())
            .collect();
        for pair in ladder.windows(2) {
            assert!(of(pair[0]).iter().zip(of(pair[1])).all(|(short, long)| *short <= long), "{pair:?}");
        }
        // The general verdict, then voice, video, gaming, cloud-desktop, telemetry, v2x: good, fair, poor, bad.
        assert_eq!(
            levels,
            [
                "ggggggg", "ggggggf", "gggfggp", "gggpfgb", "gffppgb", "gffbpgb", "fppbpfb", "pbbbpfb",
                "bbbbbfb", "bbbbbpb", "bbbbbpb", "bbbbbpb",
            ]
        );
    }
}
