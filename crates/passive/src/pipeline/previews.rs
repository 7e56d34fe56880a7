//! Input of a survey: [`CaptureHead`], the beginning of a capture, and [`PreviewSample`], a sample of a whole
//! capture.

use crate::echo::EchoCounts;
use crate::{
    Frame, Identity, IdentityFields, IdentityRule, IpPacket, LinkType, PacketPreview, Recording, Seen, Sides,
    Skip, decode,
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
            let outer = k.packet().ok()?;
            let inner = outer.inside().map_or(outer, IpPacket::innermost);
            [outer, inner].iter().filter(|p| p.ip.len() < p.length as usize).map(|p| p.ip.len()).min()
        };
        self.frames.iter().filter_map(cut).min().unwrap_or(BYTES_PER_FRAME)
    }

    /// True if pairs can be made without ICMP echoes, see [`EchoCounts::pairs_without_echoes`]. `inside` is true to look
    /// at the packets inside tunnels.
    pub fn pairs_without_echoes(&self, sides: &Sides, inside: bool) -> bool {
        let mut counts = EchoCounts::default();
        for p in self.frames.iter().filter_map(|k| k.packet().ok()) {
            counts.add(&if inside { p.innermost() } else { p }, sides);
        }
        counts.pairs_without_echoes()
    }

    /// True if there are packets in tunnels.
    pub fn holds_tunnels(&self) -> bool {
        self.frames.iter().any(|k| k.packet().is_ok_and(|p| p.inside().is_some()))
    }

    /// Returns previews of the packets for a survey of captures that both have `available` bytes per packet.
    pub fn previews(&self, available: usize) -> Vec<PacketPreview> {
        self.seen_by(Recording::default(), available)
    }

    /// Returns previews of the packets inside tunnels, and of the packets that are not in tunnels. Tunnel packets whose
    /// contents are read are left out.
    pub fn previews_inside(&self, available: usize) -> Vec<PacketPreview> {
        self.seen_by(Recording::inside_tunnels(), available)
    }

    fn seen_by(&self, mut recording: Recording, available: usize) -> Vec<PacketPreview> {
        let mut previews = Vec::new();
        let mut each = |seen: Seen<'_>| {
            if let Seen::Packet(seen) = seen {
                previews.extend(PacketPreview::of(seen.packet, seen.at, available));
            }
        };
        self.frames().for_each(|f| recording.push(&f, &mut each));
        recording.finish(&mut each);
        previews
    }
}

/// A sample of a whole capture. It is used if captures begin at different times, so that their first packets
/// differ. Packets are selected by their contents, so that both points select the same ones.
#[derive(Debug)]
pub struct PreviewSample {
    recording: Recording,
    selection: Selection,
}

#[derive(Debug)]
struct Selection {
    rule: IdentityRule,
    /// Packets whose identity has any of these bits set are omitted.
    mask: u64,
    kept: Vec<(Identity, PacketPreview)>,
}

impl PreviewSample {
    /// Creates an empty sample of packets of which both captures have `available` bytes. `inside` is true to select the
    /// packets inside tunnels instead of the tunnel packets.
    pub fn new(available: usize, inside: bool) -> PreviewSample {
        let fields = IdentityFields::Full { addresses: false, ports: false, ident: false };
        let rule = IdentityRule { fields, available };
        PreviewSample {
            recording: if inside { Recording::inside_tunnels() } else { Recording::default() },
            selection: Selection { rule, mask: 0, kept: Vec::new() },
        }
    }

    /// Adds the next frame.
    pub fn push(&mut self, f: &Frame<'_>) {
        let selection = &mut self.selection;
        self.recording.push(f, &mut |seen| selection.take(&seen));
    }

    /// Returns the selected previews, in order.
    pub fn into_previews(mut self) -> Vec<PacketPreview> {
        let selection = &mut self.selection;
        self.recording.finish(&mut |seen| selection.take(&seen));
        self.selection.kept.into_iter().map(|(_, preview)| preview).collect()
    }
}

impl Selection {
    fn take(&mut self, seen: &Seen<'_>) {
        let Seen::Packet(seen) = seen else { return };
        let Some(id) = self.rule.identify(seen.packet, None).filter(|id| id & self.mask == 0) else {
            return;
        };
        let preview = PacketPreview::of(seen.packet, seen.at, self.rule.available);
        self.kept.extend(preview.map(|preview| (id, preview)));
        if self.kept.len() > MAX_SAMPLE {
            self.mask = self.mask << 1 | 1;
            self.kept.retain(|(id, _)| id & self.mask == 0);
        }
        // A capture that repeats the same packet cannot be thinned by content: cut it.
        self.kept.truncate(2 * MAX_SAMPLE);
    }
}

#[cfg(test)]
mod tests;
