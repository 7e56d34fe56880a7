//! Colours by meaning: the Okabe–Ito palette and shades of the text colour.

use crate::figure::Tone;
use jitlat_core::summary::Level;

/// A colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// The colour of the text.
    Text,
    /// A fixed colour, 0xRRGGBB.
    Fixed(u32),
}

/// A colour with its opacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paint {
    /// The colour.
    pub ink: Ink,
    /// Opacity, from 0 (transparent) to 1 (opaque).
    pub opacity: f32,
}

/// The text colour on paper.
pub const PAPER_TEXT: u32 = 0x1b_1f24;
/// Titles, labels.
pub const TEXT: Paint = Paint { ink: Ink::Text, opacity: 1.0 };
/// Secondary text.
pub const MUTED: Paint = Paint { ink: Ink::Text, opacity: 0.72 };
/// Axis lines.
pub const AXIS: Paint = Paint { ink: Ink::Text, opacity: 0.55 };
/// Grid lines.
pub const GRID: Paint = Paint { ink: Ink::Text, opacity: 0.12 };

const BLUE: u32 = 0x00_72b2;
const VERMILION: u32 = 0xd5_5e00;
const GREEN: u32 = 0x00_9e73;
const PURPLE: u32 = 0xcc_79a7;
const ORANGE: u32 = 0xe6_9f00;
const SKY: u32 = 0x56_b4e9;

const RUNS: [Ink; 7] = [
    Ink::Fixed(BLUE),
    Ink::Fixed(VERMILION),
    Ink::Fixed(GREEN),
    Ink::Fixed(PURPLE),
    Ink::Fixed(ORANGE),
    Ink::Fixed(SKY),
    Ink::Text,
];

/// The colour of a tone.
pub fn ink(tone: Tone) -> Ink {
    match tone {
        Tone::Data => Ink::Fixed(BLUE),
        Tone::Cumulative | Tone::Fit => Ink::Text,
        Tone::Bound => Ink::Fixed(GREEN),
        Tone::Harm => Ink::Fixed(VERMILION),
        Tone::Run(k) => RUNS[usize::from(k) % RUNS.len()],
    }
}

/// Returns red, green and blue of an ink on paper, from 0 to 1.
pub fn rgb(ink: Ink) -> [f32; 3] {
    let rgb = match ink {
        Ink::Text => PAPER_TEXT,
        Ink::Fixed(rgb) => rgb,
    };
    let [_, r, g, b] = rgb.to_be_bytes();
    [r, g, b].map(|c| f32::from(c) / 255.0)
}

/// Colour of a level, dark enough for text on white.
pub fn level(level: Level) -> Ink {
    Ink::Fixed(match level {
        Level::Good => 0x00_694d,
        Level::Note => 0x00_5a8c,
        Level::Poor => 0x9a_4400,
        Level::Bad => 0xa4_0e26,
    })
}

/// Dash lengths of the k-th run, which distinguish runs without colour; empty for a solid line.
pub fn dashes(tone: Tone) -> &'static [f32] {
    const PATTERNS: [&[f32]; 5] = [&[], &[7.0, 3.0], &[2.0, 2.5], &[9.0, 3.0, 2.0, 3.0], &[14.0, 4.0]];
    match tone {
        Tone::Run(k) => PATTERNS[usize::from(k) % PATTERNS.len()],
        _ => &[],
    }
}

/// Returns `ink` with an opacity.
pub fn paint(ink: Ink, opacity: f32) -> Paint {
    Paint { ink, opacity }
}
