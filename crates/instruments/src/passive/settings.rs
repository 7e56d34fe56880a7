//! [`Passive`]: what is asked of captured traffic.

use jitlat_core::Span;
use jitlat_core::passive::flows::Grouping;
use jitlat_core::passive::pipeline::PacketFilter;
use jitlat_core::passive::{Fields, Plan, Sides};

/// The fields of the CAIA tool's default mask.
const CAIA_MASK: u32 = 63;
/// The bits of a mask that stand for the addresses.
const MASK_ADDRESSES: u32 = 3;

/// Settings of passive round trips. The default is right for any traffic between two points.
#[derive(Clone, Debug)]
pub struct Passive {
    /// The addresses at either side, translated ones among them; `None`: found from the traffic.
    pub sides: Option<Sides>,
    /// Whether some of the addresses given are translated ones.
    pub translated: bool,
    /// What a translator on the path rewrites; `None`: found from the traffic.
    pub translation: Option<Translation>,
    /// Only these packets.
    pub only: Option<PacketFilter>,
    /// How packets are put together into flows, if they are to be kept apart.
    pub grouping: Option<Grouping>,
    /// Monitor clock minus reference clock; `None`: found from the traffic.
    pub offset: Option<Span>,
    /// Longest time a packet may be under way; `None`: 10 s of files, 5 s of live points, 60 s like the CAIA tool.
    pub window: Option<Span>,
    /// The fields that name a packet, as a mask of the CAIA tool; `None`: everything that survives the path.
    pub mask: Option<u32>,
    /// Leave out pairs whose packets are further apart at the monitor point.
    pub max_turnaround: Option<Span>,
    /// Distance of the instants of the round trips per unit of time, and span of the moving average of the pair rate.
    pub interval: Span,
    /// How packets are matched.
    pub matching: Matching,
    /// Whether the records of both ways are wanted: the events `Started`, `Concluding`, `Records` and `Finished`.
    pub records: bool,
    /// Whether single matched packets are wanted: the event `Matched`.
    pub matched: bool,
}

impl Default for Passive {
    fn default() -> Passive {
        Passive {
            sides: None,
            translated: false,
            translation: None,
            only: None,
            grouping: None,
            offset: None,
            window: None,
            mask: None,
            max_turnaround: None,
            interval: Span::seconds(1),
            matching: Matching::Windowed,
            records: false,
            matched: false,
        }
    }
}

/// What a network address translator rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// Nothing: there is none.
    Nothing,
    /// Addresses.
    Addresses,
    /// Addresses and ports.
    Ports,
}

/// How packets are matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// Everything within a window, never by guess.
    #[default]
    Windowed,
    /// Like the CAIA tool: for those who compare with it. Makes pairs, and neither records nor flows.
    Caia {
        /// Packets searched for a match.
        search: usize,
        /// Whether the window narrows to the times seen.
        narrowing: bool,
    },
}

impl Passive {
    /// The fields that name packets: the user's word, else what was found.
    pub(super) fn fields(&self, plan: &Plan) -> Fields {
        let is_caia = matches!(self.matching, Matching::Caia { .. });
        match (self.mask.or(is_caia.then_some(CAIA_MASK)), plan.fields) {
            // Translated addresses are left out, ports are not: as in the CAIA tool.
            (Some(mask), _) => Fields::Mask(if self.translated { mask & !MASK_ADDRESSES } else { mask }),
            (None, Fields::Full { addresses, ports, ident }) => {
                let (addresses, ports) = match self.translation {
                    Some(Translation::Nothing) => (true, true),
                    Some(Translation::Addresses) => (false, true),
                    Some(Translation::Ports) => (false, false),
                    None => (addresses && !self.translated, ports),
                };
                Fields::Full { addresses, ports, ident }
            }
            (None, mask) => mask,
        }
    }
}
