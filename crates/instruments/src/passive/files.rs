//! Two captures in files, each read from the beginning.

use super::error::PassiveError;
use super::outcome::{MatchedCaptures, PassiveOutcome, forward};
use super::reader::{CaptureReader, NamedCapture};
use super::settings::{Matching, Passive};
use crate::stop::Stop;
use jitlat_core::Span;
use jitlat_net::capture::{Capture, STDIN};
use jitlat_passive::pipeline::{
    CaptureFacts, CaptureHead, NamingRule, PreviewSample, SharedFlowNumbers, join, join_like_caia,
};
use jitlat_passive::verdict::explain_no_match;
use jitlat_passive::{
    CaiaMatcher, CapturePoint, IdentityFields, IdentityRule, Layers, MatchPlan, Matcher, NoPlan,
    PacketPreview, Sides, survey,
};
use jitlat_passive::{CaptureEvent, CaptureObserver};
use std::fmt;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Maximum time between the observations of a packet at both points.
pub(super) const MAX_TRANSIT: Span = Span::seconds(10);
/// Maximum time between the observations of a packet at both points when matching like the CAIA tool.
const CAIA_MAX_TRANSIT: Span = Span::seconds(60);

/// Source of a point's packets: pcap or pcapng data, plain or compressed.
#[non_exhaustive]
pub enum CaptureSource {
    /// Files read one after the other, as written by a rotating capture; `-` is standard input.
    Files(Vec<PathBuf>),
    /// A reader, with a name for messages.
    Reader(String, Box<dyn Read + Send>),
}

impl fmt::Debug for CaptureSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaptureSource({})", self.name())
    }
}

impl CaptureSource {
    /// Returns a name for messages.
    pub fn name(&self) -> String {
        match self {
            CaptureSource::Files(paths) => {
                paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
            }
            CaptureSource::Reader(name, _) => name.clone(),
        }
    }

    /// Returns the files if they can be read a second time; `None` for standard input and readers.
    pub(super) fn again(&self) -> Option<Vec<PathBuf>> {
        match self {
            CaptureSource::Files(paths) if paths.iter().all(|p| p.as_os_str() != STDIN) => {
                Some(paths.clone())
            }
            CaptureSource::Files(_) | CaptureSource::Reader(..) => None,
        }
    }

    /// Opens the source.
    pub(super) fn open(self) -> Result<Capture, PassiveError> {
        Ok(match self {
            CaptureSource::Files(paths) => Capture::open(&paths)?,
            CaptureSource::Reader(name, reader) => Capture::from_reader(&name, reader)?,
        })
    }
}

impl Passive {
    /// Analyses the traffic in two captures, the reference point's first, until they end or `stop` is
    /// requested. `observer` receives pairs, packets and records as soon as they are found.
    ///
    /// # Errors
    /// [`PassiveError`] if a capture cannot be read, or if the captures have no packets in common.
    pub fn follow_captures(
        &self,
        points: [CaptureSource; 2],
        stop: &Stop,
        observer: &mut dyn CaptureObserver,
    ) -> Result<PassiveOutcome, PassiveError> {
        match self.try_captures(points, stop, observer)? {
            Ok(outcome) => Ok(outcome),
            Err(unmatched) => Err(unmatched.explain()),
        }
    }

    /// Like [`follow_captures`](Self::follow_captures), but captures without common packets are not an error.
    pub(super) fn try_captures(
        &self,
        points: [CaptureSource; 2],
        stop: &Stop,
        observer: &mut dyn CaptureObserver,
    ) -> Result<Result<PassiveOutcome, Unmatched>, PassiveError> {
        let again = points.each_ref().map(CaptureSource::again);
        let first = match (&self.first_pass, self.part) {
            (Some(first), _) => Some(first.clone()),
            (None, Some(_)) => Some(self.first_pass(&points)?),
            (None, None) => None,
        };
        let [reference, monitor] = points;
        let readers = [start_reader(reference)?, start_reader(monitor)?];
        let heads = readers.each_ref().map(CaptureReader::head);
        let available = heads.iter().map(CaptureHead::available).min().unwrap_or(0);
        let available = first.as_ref().map_or(available, |first| first.identity.available);
        let planned = match &first {
            Some(first) => Ok(first.plan()),
            None => self.survey(&heads, again, available)?,
        };
        let plan = match planned {
            Ok(plan) => plan,
            Err((why, elsewhere)) => return Ok(Err(Unmatched { why, elsewhere, readers })),
        };
        let is_caia = matches!(self.matching, Matching::Caia { .. });
        let echoes_apart = first.as_ref().map_or_else(
            || !is_caia && heads[0].pairs_without_echoes(&plan.sides[0], plan.inside[0]),
            |first| first.echoes_apart,
        );
        drop(heads);
        observer.capture_event(&CaptureEvent::Planned(&plan));
        let identity = IdentityRule { fields: self.fields(&plan), available };
        let window = self.window.unwrap_or(if is_caia { CAIA_MAX_TRANSIT } else { MAX_TRANSIT });
        let part = self.part.zip(first.as_ref()).map(|(part, first)| part.of(first, window));
        let numbers = SharedFlowNumbers::default();
        let mut sides = plan.sides.iter().cloned();
        let mut ends = [CapturePoint::Reference, CapturePoint::Monitor].into_iter();
        let mut inside = plan.inside.into_iter();
        let mut captures = readers.map(|reader| {
            reader.name_packets(NamingRule {
                sides: sides.next().unwrap_or_default(),
                identity,
                sorted: !is_caia,
                only: self.only,
                part: part.zip(ends.next()),
                echoes_apart,
                inside: inside.next().unwrap_or_default(),
                flows: self.grouping.map(|g| (g, numbers.clone())),
            })
        });
        let mut observers = self.observers(&plan, part);
        let mut after_round = |observers: &mut _| {
            forward(observers, observer);
            if stop.is_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let counts = match self.matching {
            Matching::Caia { search, narrowing } => {
                let offset = self.offset.unwrap_or(Span::ZERO);
                let matcher = CaiaMatcher::new(search, window, offset, narrowing);
                join_like_caia(matcher, &mut captures, &mut observers, &mut after_round)
            }
            Matching::Windowed => {
                let offset = self.offset.unwrap_or(part.map_or(plan.offset, |part| part.first_offset()));
                let matcher = Matcher::new(offset, window);
                let matcher = part.into_iter().fold(matcher, Matcher::of_part);
                join(matcher, &mut captures, &mut observers, &mut after_round)
            }
        };
        let mut failures = Vec::new();
        let captures = captures.map(|c| finish(c, &mut failures));
        let followed = MatchedCaptures { plan, identity, window, captures, counts, numbers, failures };
        Ok(Ok(self.conclude(followed, observers, observer)))
    }

    /// Determines how to match the packets. The inner error describes why that is not possible, and the
    /// traffic that the captures have in common between other addresses.
    pub(super) fn survey(
        &self,
        heads: &[CaptureHead; 2],
        again: [Option<Vec<PathBuf>>; 2],
        available: usize,
    ) -> Result<Result<MatchPlan, (NoPlan, Option<MatchPlan>)>, PassiveError> {
        let asked = self.sides.as_ref();
        let tunnels = heads.each_ref().map(CaptureHead::holds_tunnels);
        let previews = LayerPreviews::of(heads, tunnels, |head, inside| {
            Ok(if inside { head.previews_inside(available) } else { head.previews(available) })
        })?;
        // A filter names the packets of applications, which may be in tunnels.
        let innermost = self.only.is_some();
        let mut plan = previews.layers().survey(asked, innermost);
        let nothing =
            matches!(plan, Err(NoPlan::NothingCommon | NoPlan::Ambiguous | NoPlan::OtherAddresses(_)));
        if let (true, [Some(r), Some(m)]) = (nothing, again) {
            // The captures may start at different times, so both are sampled from beginning to end.
            let sampled =
                LayerPreviews::of(&[r, m], tunnels, |paths, inside| sample(paths, available, inside))?;
            plan = sampled.layers().survey(asked, innermost);
        }
        let [reference, monitor] = &previews.outer;
        let why = match plan {
            Ok(plan) => return Ok(Ok(plan)),
            Err(why) => why,
        };
        // Without a survey, the user's own settings must identify the packets.
        let identified = self.mask.is_some() || matches!(self.matching, Matching::Caia { .. });
        if let (Some(sides), true) = (asked, identified) {
            return Ok(Ok(MatchPlan {
                sides: [sides.clone(), sides.clone()],
                fields: IdentityFields::ALL,
                offset: Span::ZERO,
                common: 0,
                direction_assumed: false,
                inside: [false; 2],
            }));
        }
        let elsewhere = match why {
            NoPlan::OtherAddresses(_) => survey(reference, monitor, None).ok(),
            NoPlan::Empty | NoPlan::NothingCommon | NoPlan::Ambiguous => None,
        };
        Ok(Err((why, elsewhere)))
    }
}

pub(super) fn start_reader(source: CaptureSource) -> Result<CaptureReader, PassiveError> {
    Ok(CaptureReader::start(source.name(), source.open()?))
}

/// Previews of the packets of both points, and of the packets inside tunnels at the points that have tunnels.
struct LayerPreviews {
    outer: [Vec<PacketPreview>; 2],
    inner: [Option<Vec<PacketPreview>>; 2],
}

impl LayerPreviews {
    fn of<T>(
        points: &[T; 2],
        tunnels: [bool; 2],
        previews: impl Fn(&T, bool) -> Result<Vec<PacketPreview>, PassiveError>,
    ) -> Result<LayerPreviews, PassiveError> {
        let [a, b] = points;
        let inner = |point, has: bool| has.then(|| previews(point, true)).transpose();
        Ok(LayerPreviews {
            outer: [previews(a, false)?, previews(b, false)?],
            inner: [inner(a, tunnels[0])?, inner(b, tunnels[1])?],
        })
    }

    fn layers(&self) -> Layers<'_> {
        Layers {
            outer: self.outer.each_ref().map(Vec::as_slice),
            inner: self.inner.each_ref().map(Option::as_deref),
        }
    }
}

/// Samples the packets of all files.
fn sample(paths: &[PathBuf], available: usize, inside: bool) -> Result<Vec<PacketPreview>, PassiveError> {
    let mut capture = Capture::open(paths)?;
    let mut sample = PreviewSample::new(available, inside);
    while let Some(f) = capture.next_frame() {
        sample.push(&f);
    }
    Ok(sample.into_previews())
}

/// Returns the facts about the part of the capture that could be read. Adds an error to `failures` if reading failed.
fn finish(capture: NamedCapture, failures: &mut Vec<PassiveError>) -> CaptureFacts {
    capture.finish().unwrap_or_else(|failure| {
        failures.push(failure);
        CaptureFacts::default()
    })
}

/// Two captures without common packets.
pub(super) struct Unmatched {
    why: NoPlan,
    /// Traffic that the captures have in common between other addresses, if any.
    elsewhere: Option<MatchPlan>,
    readers: [CaptureReader; 2],
}

impl Unmatched {
    /// Returns the error for captures without common packets, with notes about both.
    fn explain(self) -> PassiveError {
        let rule = NamingRule {
            sides: Sides::any(),
            identity: IdentityRule { available: 0, ..IdentityRule::WHOLE },
            sorted: false,
            only: None,
            part: None,
            echoes_apart: false,
            inside: false,
            flows: None,
        };
        let mut failures = Vec::new();
        let facts = self.readers.map(|reader| {
            let mut capture = reader.name_packets(rule.clone());
            capture.read_on();
            finish(capture, &mut failures)
        });
        let mut notes = explain_no_match(&facts, self.elsewhere.as_ref());
        notes.extend(failures.iter().map(ToString::to_string));
        PassiveError::NothingCommon { why: self.why, notes }
    }
}
