//! [`PacketNamer`]: turns the frames of one point into sightings.

use super::{CaptureFacts, PacketFilter};
use crate::passive::echo::{Echoes, is_echo};
use crate::passive::flows::{FlowKey, FlowNumbers, Grouping, OTHER_FLOWS};
use crate::passive::{Frame, IdentityRule, InOrder, Sides, Sighting, Skip};
use std::sync::{Arc, Mutex, PoisonError};

/// Round trips of ping kept.
const PINGS: usize = 1 << 20;

/// How packets of one point are to be named.
#[derive(Clone, Debug)]
pub struct NamingRule {
    /// Whose packets.
    pub sides: Sides,
    /// By which fields.
    pub identity: IdentityRule,
    /// Whether slightly disordered packets are put right.
    pub sorted: bool,
    /// Only these of them.
    pub only: Option<PacketFilter>,
    /// ICMP echoes are ping's, not the application's: they are kept out of the pairs.
    pub echoes_apart: bool,
    /// How packets are put together, and the numbers both points share.
    pub flows: Option<(Grouping, SharedFlowNumbers)>,
}

/// Flow numbers that both points share. Clones share them, too.
#[derive(Clone, Debug, Default)]
pub struct SharedFlowNumbers(Arc<Mutex<FlowNumbers>>);

impl SharedFlowNumbers {
    /// All flows by their numbers, so far.
    pub fn keys(&self) -> Vec<FlowKey> {
        self.with(|numbers| numbers.keys().to_vec())
    }

    fn with<T>(&self, f: impl FnOnce(&mut FlowNumbers) -> T) -> T {
        // A thread that panicked left whole numbers behind.
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Names the packets of one point and counts what it sees.
pub struct PacketNamer {
    rule: NamingRule,
    facts: CaptureFacts,
    order: InOrder,
    echoes: Echoes,
    /// Flows whose number this namer knows.
    known: FlowNumbers,
}

impl PacketNamer {
    /// One that names packets by `rule`.
    pub fn new(rule: NamingRule) -> PacketNamer {
        let order = if rule.sorted { InOrder::default() } else { InOrder::as_they_come() };
        PacketNamer {
            rule,
            facts: CaptureFacts::default(),
            order,
            echoes: Echoes::default(),
            known: FlowNumbers::default(),
        }
    }

    /// Takes a frame; its sighting, if it is one of interest, is held until it can be taken in order.
    #[inline]
    pub fn push(&mut self, frame: &Frame<'_>) {
        let at = frame.at;
        let facts = &mut self.facts;
        facts.frames += 1;
        facts.extend_span(at, at);
        let p = match frame.packet() {
            Ok(p) => p,
            Err(skip) => {
                match skip {
                    Skip::NotIp => {}
                    Skip::Truncated => facts.truncated += 1,
                    Skip::Malformed => facts.malformed += 1,
                    Skip::UnknownLink => facts.unknown_link.get_or_insert((frame.link, 0)).1 += 1,
                }
                return;
            }
        };
        facts.packets += 1;
        let Some(way) = self.rule.sides.way(&p) else {
            facts.elsewhere += 1;
            return;
        };
        if self.rule.echoes_apart && is_echo(&p) {
            if let Some(ping) = self.echoes.push(at, &p)
                && facts.pings.len() < PINGS
            {
                facts.pings.push(ping);
            }
            return;
        }
        if self.rule.only.is_some_and(|only| !only.accepts(&p)) {
            return;
        }
        facts.count_ours(p.length);
        facts.unidentified += u64::from(p.ident == 0);
        let Some(id) = self.rule.identity.identify(&p, Some(way)) else {
            facts.too_short += 1;
            return;
        };
        let flow = match &self.rule.flows {
            None => 0,
            Some((grouping, shared)) => flow_number(&mut self.known, shared, FlowKey::of(&p, way, *grouping)),
        };
        self.order.push(Sighting { at, id, length: p.length, way, flow });
    }

    /// Sightings that are held, those included that could be taken.
    pub fn held(&self) -> usize {
        self.order.held()
    }

    /// Sightings that nothing can overtake any longer, in order; `room` is kept for later ones, and is to be empty.
    pub fn take(&mut self, room: Vec<Sighting>) -> Vec<Sighting> {
        self.order.take(room)
    }

    /// What the capture is like so far.
    pub fn facts(&self) -> &CaptureFacts {
        &self.facts
    }

    /// The same, to add what is known from elsewhere.
    pub fn facts_mut(&mut self) -> &mut CaptureFacts {
        &mut self.facts
    }

    /// The last sightings, and what the capture was like.
    pub fn finish(mut self) -> (Vec<Sighting>, CaptureFacts) {
        let sightings = self.order.finish();
        self.facts.disordered = self.order.disordered();
        self.facts.steps_back = self.order.steps_back();
        (sightings, self.facts)
    }
}

/// The number of a flow: from this namer's memory, else from the one both points share.
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
