//! [`PacketNamer`]: turns the frames of one point into sightings.

use super::{CaptureFacts, PacketFilter};
use crate::echo::{Echoes, is_echo};
use crate::flows::{FlowKey, FlowNumbers, Grouping, OTHER_FLOWS};
use crate::recording::CopyKind;
use crate::{
    CapturePart, CapturePoint, Frame, IdentityRule, InOrder, Recording, Seen, SeenPacket, Sides, Sighting,
    Skip,
};
use jitlat_core::time::WallTime;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of ping round trips stored.
const MAX_PINGS: usize = 1 << 20;

/// Rule by which the packets of one point are turned into sightings.
#[derive(Clone, Debug)]
pub struct NamingRule {
    /// Addresses of both sides.
    pub sides: Sides,
    /// Rule by which packet identities are computed.
    pub identity: IdentityRule,
    /// True to sort slightly disordered packets.
    pub sorted: bool,
    /// Filter for packets; `None`: all packets.
    pub only: Option<PacketFilter>,
    /// True to exclude ICMP echoes from the pairs, because they are sent by ping and not by the application.
    pub echoes_apart: bool,
    /// True to match the packets inside tunnels instead of the tunnel packets.
    pub inside: bool,
    /// Part of the capture to read; `None`: all.
    pub part: Option<(CapturePart, CapturePoint)>,
    /// Grouping of packets into flows, with the numbers that both points share; `None`: no flows.
    pub flows: Option<(Grouping, SharedFlowNumbers)>,
}

/// Flow numbers shared by both points. Clones share them, too.
#[derive(Clone, Debug, Default)]
pub struct SharedFlowNumbers(Arc<Mutex<FlowNumbers>>);

impl SharedFlowNumbers {
    /// Returns the keys of all flows so far, indexed by flow number.
    pub fn keys(&self) -> Vec<FlowKey> {
        self.with(|numbers| numbers.keys().to_vec())
    }

    fn with<T>(&self, f: impl FnOnce(&mut FlowNumbers) -> T) -> T {
        // A poisoned lock is usable: the numbers are consistent even after a panic in another thread.
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Identifies and counts the packets of one point.
pub struct PacketNamer {
    recording: Recording,
    names: Names,
}

/// Sightings of the packets of a recording, and facts about them.
struct Names {
    rule: NamingRule,
    facts: CaptureFacts,
    /// Facts about packets that are read but not counted, for example in the overlap of a part.
    ignored: CaptureFacts,
    order: InOrder,
    echoes: Echoes,
    /// Numbers of flows already seen by this namer.
    known: FlowNumbers,
}

impl PacketNamer {
    /// Creates a namer that applies `rule`.
    pub fn new(rule: NamingRule) -> PacketNamer {
        let order = if rule.sorted { InOrder::default() } else { InOrder::as_they_come() };
        let recording = if rule.inside { Recording::inside_tunnels() } else { Recording::default() };
        PacketNamer {
            recording: recording.beside_another(),
            names: Names {
                rule,
                facts: CaptureFacts::default(),
                ignored: CaptureFacts::default(),
                order,
                echoes: Echoes::default(),
                known: FlowNumbers::default(),
            },
        }
    }

    /// Adds a frame. Its sighting, if it has one, is stored until it can be taken in order.
    #[inline]
    pub fn push(&mut self, frame: &Frame<'_>) {
        if self.names.rule.part.is_some_and(|(part, point)| !part.reads(point, frame.at)) {
            return;
        }
        let names = &mut self.names;
        names.counted(frame.at).frames += 1;
        self.recording.push(frame, &mut |seen| names.take(&seen));
    }

    /// Handles frames that are held although the capture has reached the time `now`.
    pub fn settle(&mut self, now: WallTime) {
        let names = &mut self.names;
        self.recording.settle(now, &mut |seen| names.take(&seen));
    }

    /// Number of stored sightings, including those that can be taken.
    pub fn held(&self) -> usize {
        self.names.order.held()
    }

    /// Returns, in order, the sightings that no later one can precede. `room` must be empty; it becomes the
    /// buffer for later sightings.
    pub fn take(&mut self, room: Vec<Sighting>) -> Vec<Sighting> {
        self.names.order.take(room)
    }

    /// Facts about the capture so far, except those about the recording.
    pub fn facts(&self) -> &CaptureFacts {
        &self.names.facts
    }

    /// Facts about the capture so far, to be extended by the caller.
    pub fn facts_mut(&mut self) -> &mut CaptureFacts {
        &mut self.names.facts
    }

    /// Returns the remaining sightings, and the facts about the capture.
    pub fn finish(mut self) -> (Vec<Sighting>, CaptureFacts) {
        let names = &mut self.names;
        self.recording.finish(&mut |seen| names.take(&seen));
        let sightings = names.order.finish();
        names.facts.disordered = names.order.disordered();
        names.facts.recording = self.recording.facts();
        (sightings, self.names.facts)
    }
}

impl Names {
    /// Returns the facts in which a frame recorded at `at` is counted.
    #[inline]
    fn counted(&mut self, at: WallTime) -> &mut CaptureFacts {
        match self.rule.part.is_none_or(|(part, point)| part.contains(point, at)) {
            true => &mut self.facts,
            false => &mut self.ignored,
        }
    }

    #[inline]
    fn take(&mut self, seen: &Seen<'_>) {
        match seen {
            Seen::Packet(seen) => self.packet(seen),
            Seen::Skipped(at, link, skip) => {
                let facts = self.counted(*at);
                facts.extend_span(*at, *at);
                match skip {
                    Skip::NotIp => {}
                    Skip::Truncated => facts.truncated += 1,
                    Skip::Malformed => facts.malformed += 1,
                    Skip::UnknownLink => facts.unknown_link.get_or_insert((*link, 0)).1 += 1,
                }
            }
            Seen::ClockSet => self.echoes = Echoes::default(),
        }
    }

    #[inline]
    fn packet(&mut self, seen: &SeenPacket<'_>) {
        let (at, p) = (seen.at, seen.packet);
        let direction = self.rule.sides.direction(p);
        let facts = match self.rule.part.is_none_or(|(part, point)| part.contains(point, at)) {
            true => &mut self.facts,
            false => &mut self.ignored,
        };
        facts.extend_span(at, at);
        facts.packets += 1;
        let Some(direction) = direction else {
            facts.elsewhere += 1;
            return;
        };
        if seen.copy == Some(CopyKind::Elsewhere) {
            return;
        }
        if self.rule.echoes_apart && is_echo(p) {
            if let Some(ping) = self.echoes.push(at, p)
                && facts.pings.len() < MAX_PINGS
            {
                facts.pings.push(ping);
            }
            return;
        }
        if self.rule.only.is_some_and(|only| !only.accepts(p)) {
            return;
        }
        facts.count_ours(p.length, seen.is_whole_again);
        facts.unidentified += u64::from(p.ident == 0);
        let Some(id) = self.rule.identity.identify(p, Some(direction)) else {
            facts.too_short += 1;
            return;
        };
        let flow = match &self.rule.flows {
            None => 0,
            Some((grouping, shared)) => {
                flow_number(&mut self.known, shared, FlowKey::of(p, direction, *grouping))
            }
        };
        self.order.push(Sighting { at, id, length: p.length, direction, flow });
    }
}

/// Returns the number of a flow. The namer's own table is searched first, because the shared one needs a lock.
fn flow_number(known: &mut FlowNumbers, shared: &SharedFlowNumbers, key: FlowKey) -> u32 {
    if let Some(n) = known.known(&key) {
        return n;
    }
    let n = shared.with(|numbers| numbers.number(key));
    if n != OTHER_FLOWS {
        known.learn(key, n);
    }
    n
}

#[cfg(test)]
mod tests;
