//! [`EndedStream`]: a stream that has ended, as metrics read it, with all its packets at hand or in bounded memory.

use super::all_packets::AllPackets;
use super::known::StreamFacts;
use super::loss::Loss;
use super::moments::{CoMoments, FittedLine, Moments};
use crate::distribution::{Distribution, LogHistogram, Quantiles};
use crate::summary::Duplicates;

/// What is kept of the packets of a stream in bounded memory, for all metrics.
pub(crate) struct Sketch<'a> {
    /// Of delay.
    pub moments: &'a Moments,
    /// Of delay and send time.
    pub sums: &'a CoMoments,
    /// Delays.
    pub delays: &'a LogHistogram,
    pub loss: Loss,
    pub duplicates: Duplicates,
}

/// A stream that has ended.
pub(crate) struct EndedStream<'a> {
    pub known: &'a StreamFacts<'a>,
    packets: StreamPackets<'a>,
}

/// What there is of the packets.
enum StreamPackets<'a> {
    All(&'a AllPackets<'a>),
    Sketched(Box<Sketch<'a>>),
}

impl<'a> EndedStream<'a> {
    /// Of which all packets are at hand.
    pub fn of_all(all: &'a AllPackets<'a>) -> EndedStream<'a> {
        EndedStream { known: all.known, packets: StreamPackets::All(all) }
    }

    /// In bounded memory.
    pub fn sketched(known: &'a StreamFacts<'a>, sketch: Sketch<'a>) -> EndedStream<'a> {
        EndedStream { known, packets: StreamPackets::Sketched(Box::new(sketch)) }
    }

    /// All packets, if they are at hand.
    pub fn all(&self) -> Option<&'a AllPackets<'a>> {
        match self.packets {
            StreamPackets::All(all) => Some(all),
            StreamPackets::Sketched(_) => None,
        }
    }

    /// What is kept in bounded memory instead of the packets.
    pub fn sketch(&self) -> Option<&Sketch<'a>> {
        match &self.packets {
            StreamPackets::All(_) => None,
            StreamPackets::Sketched(sketch) => Some(sketch),
        }
    }

    /// Moments of delay.
    pub fn moments(&self) -> &Moments {
        match &self.packets {
            StreamPackets::All(all) => all.moments(),
            StreamPackets::Sketched(sketch) => sketch.moments,
        }
    }

    /// Delay on send time, and on arrival time.
    pub fn lines(&self) -> [Option<FittedLine>; 2] {
        match &self.packets {
            StreamPackets::All(all) => all.lines(),
            StreamPackets::Sketched(sketch) => [sketch.sums.on_send(), sketch.sums.on_arrival()],
        }
    }

    /// Losses, and how they cluster.
    pub fn loss(&self) -> Loss {
        match &self.packets {
            StreamPackets::All(all) => all.loss(),
            StreamPackets::Sketched(sketch) => sketch.loss.clone(),
        }
    }

    /// Further copies.
    pub fn duplicates(&self) -> Duplicates {
        match &self.packets {
            StreamPackets::All(all) => all.duplicates(),
            StreamPackets::Sketched(sketch) => sketch.duplicates.clone(),
        }
    }

    /// Delay, and its excess over the smallest.
    pub fn delays(&self) -> (Distribution, Distribution) {
        let sketch = match &self.packets {
            StreamPackets::All(all) => return all.delays().clone(),
            StreamPackets::Sketched(sketch) => sketch,
        };
        let latency = sketch.delays.distribution(sketch.moments, self.known.wanted());
        let pdv = match sketch.delays.quantiles() {
            Quantiles::Exact(sample) => latency.above_minimum(sketch.moments, Some(&sample)),
            Quantiles::Counted(_) => latency.above_minimum(sketch.moments, None),
        };
        (latency, pdv)
    }
}
