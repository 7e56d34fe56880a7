//! De-jitter buffers and voice quality (metrics §18).

use serde::Serialize;

/// What a play-out buffer makes of this path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dejitter {
    /// The codec assumed.
    pub codec: String,
    /// By buffer size.
    pub curve: Vec<DejitterPoint>,
    /// The smallest buffer of the curve with the best MOS, in ms.
    pub best_buffer_ms: Option<f64>,
    /// The smallest of the curve with at most 1 % loss in all, in ms; `None` if the network alone loses more.
    pub smallest_buffer_for_1pct_loss_ms: Option<f64>,
    /// The smallest possible with at most 1 % of packets late, in ns.
    pub buffer_for_1pct_late_ns: Option<i64>,
    /// Losses an adaptive buffer would leave (Ramjee's algorithm 1).
    pub adaptive_total_loss: u64,
    /// Its mean play-out offset above the minimum delay, in ns.
    pub adaptive_mean_buffer_ns: Option<f64>,
    /// Losses of a fixed buffer of that same mean delay.
    pub fixed_same_delay_total_loss: Option<u64>,
    /// The mouth-to-ear delay rests on measured, uncorrected clocks, or on RTT/2.
    pub delay_basis: DelayBasis,
    /// The codec's impairment figures were declared by the user.
    pub user_declared_codec: bool,
}

/// Where the absolute delay in the E-model comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayBasis {
    /// Raw one-way delay: right only if the clocks agree.
    Raw,
    /// One-way delay corrected by the clock estimate.
    Corrected,
    /// Half the control channel's round trip.
    HalfRtt,
}

/// One buffer size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DejitterPoint {
    /// Buffer, in ms.
    pub buffer_ms: f64,
    /// Packets that came too late for it.
    pub late: u64,
    /// Late and lost.
    pub total_loss: u64,
    /// Burst ratio of what the decoder misses.
    pub burst_ratio: Option<f64>,
    /// Mouth-to-ear delay, in ms.
    pub ta_ms: f64,
    /// E-model rating.
    #[serde(rename = "R")]
    pub r: f64,
    /// Mean opinion score.
    #[serde(rename = "MOS")]
    pub mos: f64,
    /// Bursty loss above 2 %: beyond what the model was validated for.
    pub extrapolated: bool,
}

/// What the E-model needs to know of a codec (ITU-T G.113).
#[derive(Clone, Debug, PartialEq)]
pub struct Codec {
    /// Its name.
    pub name: String,
    /// Equipment impairment Ie.
    pub ie: f64,
    /// Robustness to loss Bpl.
    pub bpl: f64,
    /// Packetisation and look-ahead, in ms.
    pub delay_ms: f64,
    /// The figures are the user's own.
    pub user_declared: bool,
}

/// Buffer sizes of the curve every summary carries, in ms.
pub const DEFAULT_BUFFERS_MS: [i64; 19] =
    [0, 1, 2, 5, 10, 20, 30, 40, 60, 80, 100, 150, 200, 300, 500, 1000, 2000, 4000, 6000];

/// Codecs with published figures: name, Ie, Bpl, delay in ms.
const CODECS: [(&str, f64, f64, f64); 5] = [
    ("G.711", 0.0, 4.3, 20.0),
    ("G.711+PLC", 0.0, 25.1, 20.0),
    ("G.729A+VAD", 11.0, 19.0, 25.0),
    ("G.723.1-6.3+VAD", 15.0, 16.1, 37.5),
    ("GSM-EFR", 5.0, 10.0, 20.0),
];

impl Codec {
    /// A codec with published figures, by name in any case.
    pub fn named(name: &str) -> Option<Codec> {
        let (name, ie, bpl, delay_ms) = *CODECS.iter().find(|c| c.0.eq_ignore_ascii_case(name))?;
        Some(Codec { name: name.to_owned(), ie, bpl, delay_ms, user_declared: false })
    }

    /// The names [`Codec::named`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        CODECS.iter().map(|c| c.0)
    }
}

impl Default for Codec {
    /// G.711 with packet-loss concealment, 20 ms packets.
    fn default() -> Codec {
        Codec { name: "G.711+PLC".to_owned(), ie: 0.0, bpl: 25.1, delay_ms: 20.0, user_declared: false }
    }
}
