//! [`Passive`]: the settings of passive measurements.

use jitlat_core::{Span, WallTime};
use jitlat_passive::flows::Grouping;
use jitlat_passive::pipeline::PacketFilter;
use jitlat_passive::{CapturePart, FirstPass, IdentityFields, MatchPlan, Sides};

/// Default mask of the CAIA tool.
const CAIA_MASK: u32 = 63;
/// Bits of the mask that select the addresses.
const MASK_ADDRESSES: u32 = 3;

/// Settings of a passive round-trip measurement. The defaults suit any traffic between two points.
#[derive(Clone, Debug)]
pub struct Passive {
    /// Addresses at either side, including translated ones; `None`: found from the traffic.
    pub sides: Option<Sides>,
    /// True if some of the addresses in `sides` are translated ones.
    pub translated: bool,
    /// Fields that a translator on the path rewrites; `None`: found from the traffic.
    pub translation: Option<Translation>,
    /// Filter that packets must pass to be used; `None`: all packets are used.
    pub only: Option<PacketFilter>,
    /// Rule by which packets are grouped into flows; `None`: no flows.
    pub grouping: Option<Grouping>,
    /// Monitor clock minus reference clock; `None`: found from the traffic.
    pub offset: Option<Span>,
    /// Maximum time between the observations of a packet at both points; `None`: 10 s for files, 5 s for live
    /// points, 60 s when matching like the CAIA tool.
    pub window: Option<Span>,
    /// Fields that identify a packet, as a mask of the CAIA tool; `None`: all fields that the path does not
    /// change.
    pub mask: Option<u32>,
    /// Maximum time between the two packets of a pair at the monitor point; pairs above it are omitted. `None`: no
    /// limit.
    pub max_turnaround: Option<Span>,
    /// Interval at which round trips are resampled to regular instants, and span of the moving average of the pair
    /// rate.
    pub interval: Span,
    /// Method of matching packets.
    pub matching: Matching,
    /// True to send the records of both directions, in the events `Started`, `Concluding`, `Records` and `Finished`.
    pub records: bool,
    /// True to send each matched packet, in the event `Matched`.
    pub matched: bool,
    /// Result of a first pass over the captures; `None`: a new first pass is made.
    pub first_pass: Option<FirstPass>,
    /// Part of the capture files to analyse; `None`: all.
    pub part: Option<TimePart>,
}

/// Part of captures, by time on the reference clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimePart {
    /// Start of the part; `None`: start of the capture.
    pub from: Option<PartTime>,
    /// End of the part; `None`: the end of the capture.
    pub to: Option<PartTime>,
    /// Additional time read before and after the part, so that packets at its borders are matched as in a run
    /// over the whole capture; `None`: twice the maximum time between the observations of a packet.
    pub overlap: Option<Span>,
    /// True to also return a state that can be joined with those of other parts.
    pub state: bool,
}

/// Start or end of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartTime {
    /// Absolute time.
    At(WallTime),
    /// Time since the start of the reference capture.
    After(Span),
}

impl TimePart {
    /// Converts the part to times of captures for which a first pass was made.
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

/// Fields that a network address translator rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// No translator on the path.
    Nothing,
    /// Addresses.
    Addresses,
    /// Addresses and ports.
    Ports,
}

/// Method of matching packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// Matches every packet within a time window; ambiguous matches are discarded.
    #[default]
    Windowed,
    /// Matches packets as the CAIA tool does, so that results can be compared with it. Yields pairs, but neither
    /// records nor flows.
    Caia {
        /// Number of packets searched for a match.
        search: usize,
        /// True if the search window narrows to the delays seen so far.
        narrowing: bool,
    },
}

impl Passive {
    /// Returns the fields that identify packets: the user's choice, or those found from the traffic.
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
