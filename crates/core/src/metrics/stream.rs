//! [`EndedStream`]: a finished stream, from which metrics are computed. It consists of all its packets, or of a sketch
//! in bounded memory.

use super::all_packets::AllPackets;
use super::known::StreamFacts;
use super::loss::Loss;
use super::moments::{CoMoments, FittedLine, Moments};
use crate::distribution::{Distribution, LogHistogram, Quantiles};
use crate::summary::Duplicates;

/// Sketch of a stream: data about its packets that all metrics share, in bounded memory.
pub(crate) struct Sketch<'a> {
    /// Moments of delay.
    pub moments: &'a Moments,
    /// Co-moments of send time and delay.
    pub sums: &'a CoMoments,
    /// Distribution of delays.
    pub delays: &'a LogHistogram,
    pub loss: Loss,
    pub duplicates: Duplicates,
}

/// A finished stream.
pub(crate) struct EndedStream<'a> {
    pub known: &'a StreamFacts<'a>,
    packets: StreamPackets<'a>,
}

/// The packets of a stream, or their sketch.
enum StreamPackets<'a> {
    All(&'a AllPackets<'a>),
    Sketched(Box<Sketch<'a>>),
}

impl<'a> EndedStream<'a> {
    /// Creates a stream with all packets in memory.
    pub fn of_all(all: &'a AllPackets<'a>) -> EndedStream<'a> {
        EndedStream { known: all.known, packets: StreamPackets::All(all) }
    }

    /// Creates a stream of which only a sketch is in memory.
    pub fn sketched(known: &'a StreamFacts<'a>, sketch: Sketch<'a>) -> EndedStream<'a> {
        EndedStream { known, packets: StreamPackets::Sketched(Box::new(sketch)) }
    }

    /// Returns all packets; `None` if they are not in memory.
    pub fn all(&self) -> Option<&'a AllPackets<'a>> {
        match self.packets {
            StreamPackets::All(all) => Some(all),
            StreamPackets::Sketched(_) => None,
        }
    }

    /// Returns the sketch in bounded memory; `None` if all packets are in memory.
    pub fn sketch(&self) -> Option<&Sketch<'a>> {
        match &self.packets {
            StreamPackets::All(_) => None,
            StreamPackets::Sketched(sketch) => Some(sketch),
        }
    }

    /// Returns the moments of delay.
    pub fn moments(&self) -> &Moments {
        match &self.packets {
            StreamPackets::All(all) => all.moments(),
            StreamPackets::Sketched(sketch) => sketch.moments,
        }
    }

    /// Returns the regression lines of delay on send time and on arrival time.
    pub fn lines(&self) -> [Option<FittedLine>; 2] {
        match &self.packets {
            StreamPackets::All(all) => all.lines(),
            StreamPackets::Sketched(sketch) => [sketch.sums.on_send(), sketch.sums.on_arrival()],
        }
    }

    /// Returns the losses and their clustering.
    pub fn loss(&self) -> Loss {
        match &self.packets {
            StreamPackets::All(all) => all.loss(),
            StreamPackets::Sketched(sketch) => sketch.loss.clone(),
        }
    }

    /// Returns the duplication figures.
    pub fn duplicates(&self) -> Duplicates {
        match &self.packets {
            StreamPackets::All(all) => all.duplicates(),
            StreamPackets::Sketched(sketch) => sketch.duplicates.clone(),
        }
    }

    /// Returns the statistics of delay and of PDV (delay above the smallest).
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
