//! Input of a survey: [`CaptureHead`], the beginning of a capture, and [`PreviewSample`], a sample of a whole
//! capture.

use crate::echo::is_echo;
use crate::{
    Frame, Identity, IdentityFields, IdentityRule, IpPacket, LinkType, PacketPreview, Sides, Skip, decode,
};
use jitlat_core::time::WallTime;

/// Maximum number of frames stored from the beginning of a capture.
const MAX_FRAMES: usize = 1 << 14;
/// Maximum number of bytes stored per frame. No packet identity uses more.
const BYTES_PER_FRAME: usize = 256;
/// Maximum number of previews stored per capture.
const MAX_SAMPLE: usize = 1 << 15;

/// Stored beginning of a frame.
#[derive(Clone, Debug)]
struct FrameStart {
    at: WallTime,
    link: LinkType,
    wire_length: u32,
    data: Vec<u8>,
}

impl FrameStart {
    fn packet(&self) -> Result<IpPacket<'_>, Skip> {
        decode(self.link, &self.data, self.wire_length)
    }
}

/// First frames of a capture.
#[derive(Clone, Debug, Default)]
pub struct CaptureHead {
    frames: Vec<FrameStart>,
}

impl CaptureHead {
    /// True if the maximum number of frames is stored.
    pub fn is_full(&self) -> bool {
        self.frames.len() >= MAX_FRAMES
    }

    /// Stores the beginning of the next frame.
    pub fn push(&mut self, f: &Frame<'_>) {
        let data = f.data[..f.data.len().min(BYTES_PER_FRAME)].to_vec();
        self.frames.push(FrameStart { at: f.at, link: f.link, wire_length: f.wire_length, data });
    }

    /// Iterates over the stored frames, in order.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        self.frames.iter().map(|k| Frame {
            at: k.at,
            link: k.link,
            wire_length: k.wire_length,
            data: &k.data,
        })
    }

    /// Minimum number of bytes that this capture contains of each IP packet; shorter packets are complete.
    pub fn available(&self) -> usize {
        let cut = |k: &FrameStart| {
            let p = k.packet().ok()?;
            (p.ip.len() < p.length as usize).then_some(p.ip.len())
        };
        self.frames.iter().filter_map(cut).min().unwrap_or(BYTES_PER_FRAME)
    }

    /// True if there is any packet other than ICMP echoes between the sides.
    pub fn holds_more_than_echoes(&self, sides: &Sides) -> bool {
        let other = |p: &IpPacket<'_>| sides.direction(p).is_some() && !is_echo(p);
        self.frames.iter().any(|k| k.packet().is_ok_and(|p| other(&p)))
    }

    /// Returns previews of the packets for a survey of captures that both have `available` bytes per packet.
    pub fn previews(&self, available: usize) -> Vec<PacketPreview> {
        let preview = |k: &FrameStart| PacketPreview::of(&k.packet().ok()?, k.at, available);
        self.frames.iter().filter_map(preview).collect()
    }
}

/// A sample of a whole capture. It is used if captures begin at different times, so that their first packets
/// differ. Packets are selected by their contents, so that both points select the same ones.
#[derive(Clone, Debug)]
pub struct PreviewSample {
    rule: IdentityRule,
    /// Packets whose identity has any of these bits set are omitted.
    mask: u64,
    kept: Vec<(Identity, PacketPreview)>,
}

impl PreviewSample {
    /// Creates an empty sample of packets of which both captures have `available` bytes.
    pub fn new(available: usize) -> PreviewSample {
        let fields = IdentityFields::Full { addresses: false, ports: false, ident: false };
        PreviewSample { rule: IdentityRule { fields, available }, mask: 0, kept: Vec::new() }
    }

    /// Adds the next frame.
    pub fn push(&mut self, f: &Frame<'_>) {
        let Ok(p) = f.packet() else { return };
        let Some(id) = self.rule.identify(&p, None).filter(|id| id & self.mask == 0) else { return };
        self.kept.extend(PacketPreview::of(&p, f.at, self.rule.available).map(|preview| (id, preview)));
        if self.kept.len() > MAX_SAMPLE {
            self.mask = self.mask << 1 | 1;
            self.kept.retain(|(id, _)| id & self.mask == 0);
        }
        // A capture that repeats the same packet cannot be thinned by content: cut it.
        self.kept.truncate(2 * MAX_SAMPLE);
    }

    /// Returns the selected previews, in order.
    pub fn into_previews(self) -> Vec<PacketPreview> {
        self.kept.into_iter().map(|(_, preview)| preview).collect()
    }
}

#[cfg(test)]
mod tests;
