//! [`Passive`]: the settings of passive measurements.

use jitlat_core::{Span, WallTime};
use jitlat_passive::flows::Grouping;
use jitlat_passive::pipeline::PacketFilter;
use jitlat_passive::{CapturePart, FirstPass, IdentityFields, MatchPlan, Sides};

/// The fields of the CAIA tool's default mask.
const CAIA_MASK: u32 = 63;
/// The bits of the mask that select the addresses.
const MASK_ADDRESSES: u32 = 3;

/// Settings of passive round trips. The defaults suit any traffic between two points.
#[derive(Clone, Debug)]
pub struct Passive {
    /// The addresses at either side, translated ones among them; `None`: found from the traffic.
    pub sides: Option<Sides>,
    /// Whether some of the addresses in `sides` are translated ones.
    pub translated: bool,
    /// What a translator on the path rewrites; `None`: found from the traffic.
    pub translation: Option<Translation>,
    /// Use only packets that match; `None`: all.
    pub only: Option<PacketFilter>,
    /// How packets are grouped into flows; `None`: no flows.
    pub grouping: Option<Grouping>,
    /// Monitor clock minus reference clock; `None`: found from the traffic.
    pub offset: Option<Span>,
    /// Longest time between the passages of a packet at both points; `None`: 10 s for files, 5 s for live points, 60 s
    /// when matching as the CAIA tool does.
    pub window: Option<Span>,
    /// The fields that identify a packet, as a mask of the CAIA tool; `None`: everything that the path does not change.
    pub mask: Option<u32>,
    /// Omit pairs whose packets are further apart than this at the monitor point; `None`: no limit.
    pub max_turnaround: Option<Span>,
    /// Spacing of the instants at which round trips are counted per unit of time, and span of the moving average of the
    /// pair rate.
    pub interval: Span,
    /// How packets are matched.
    pub matching: Matching,
    /// Whether to send the records of both ways: the events `Started`, `Concluding`, `Records` and `Finished`.
    pub records: bool,
    /// Whether to send each matched packet: the event `Matched`.
    pub matched: bool,
    /// What a first pass over the captures found; `None`: found again.
    pub first_pass: Option<FirstPass>,
    /// Only this part of captures in files; `None`: all.
    pub part: Option<TimePart>,
}

/// A part of captures by time, on the reference clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimePart {
    /// From when on; `None`: from the beginning.
    pub from: Option<PartTime>,
    /// Up to when; `None`: to the end.
    pub to: Option<PartTime>,
    /// How much is read before and after, so that packets are matched as in the whole; `None`: twice the longest time between the
    /// passages of a packet.
    pub overlap: Option<Span>,
    /// Whether what was found is returned as a state, to be joined with other parts.
    pub state: bool,
}

/// A border of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartTime {
    /// A time.
    At(WallTime),
    /// So long after the reference capture begins.
    After(Span),
}

impl TimePart {
    /// The part of captures that a first pass has been over.
    pub(super) fn of(&self, first: &FirstPass, window: Span) -> CapturePart {
        let spans = first.spans();
        let begun = spans[0].map_or(WallTime(0), |(first, _)| first);
        let time = |border: PartTime| match border {
            PartTime::At(at) => at,
            PartTime::After(span) => begun + span,
        };
        CapturePart {
            from: self.from.map_or(WallTime(i64::MIN), time),
            to: self.to.map_or(WallTime(i64::MAX), time),
            overlap: self.overlap.unwrap_or(Span(window.0.saturating_mul(2))),
            clocks: first.clocks,
            spans,
        }
    }
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
            first_pass: None,
            part: None,
        }
    }
}

/// What a network address translator rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// Nothing: there is no translator.
    Nothing,
    /// Addresses.
    Addresses,
    /// Addresses and ports.
    Ports,
}

/// How packets are matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// Every packet within a time window; ambiguous matches are discarded.
    #[default]
    Windowed,
    /// As the CAIA tool does, to compare with it. Yields pairs, but neither records nor flows.
    Caia {
        /// How many packets are searched for a match.
        search: usize,
        /// Whether the window narrows to the delays seen so far.
        narrowing: bool,
    },
}

impl Passive {
    /// The fields that identify packets: those the user has chosen, otherwise those found.
    pub(super) fn fields(&self, plan: &MatchPlan) -> IdentityFields {
        let is_caia = matches!(self.matching, Matching::Caia { .. });
        match (self.mask.or(is_caia.then_some(CAIA_MASK)), plan.fields) {
            // As in the CAIA tool, translated addresses are excluded but ports are not.
            (Some(mask), _) => {
                IdentityFields::Mask(if self.translated { mask & !MASK_ADDRESSES } else { mask })
            }
            (None, IdentityFields::Full { addresses, ports, ident }) => {
                let (addresses, ports) = match self.translation {
                    Some(Translation::Nothing) => (true, true),
                    Some(Translation::Addresses) => (false, true),
                    Some(Translation::Ports) => (false, false),
                    None => (addresses && !self.translated, ports),
                };
                IdentityFields::Full { addresses, ports, ident }
            }
            (None, mask) => mask,
        }
    }
}
