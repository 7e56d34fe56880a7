//! [`Stream`]: a stream that has ended, as metrics read it, with all its packets at hand or in bounded memory.

use super::all_packets::AllPackets;
use super::known::Known;
use super::loss::Loss;
use super::moments::{CoMoments, Line, Moments};
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
pub(crate) struct Stream<'a> {
    pub known: &'a Known<'a>,
    packets: Packets<'a>,
}

/// What there is of the packets.
enum Packets<'a> {
    All(&'a AllPackets<'a>),
    Sketched(Box<Sketch<'a>>),
}

impl<'a> Stream<'a> {
    /// Of which all packets are at hand.
    pub fn of_all(all: &'a AllPackets<'a>) -> Stream<'a> {
        Stream { known: all.known, packets: Packets::All(all) }
    }

    /// In bounded memory.
    pub fn sketched(known: &'a Known<'a>, sketch: Sketch<'a>) -> Stream<'a> {
        Stream { known, packets: Packets::Sketched(Box::new(sketch)) }
    }

    /// All packets, if they are at hand.
    pub fn all(&self) -> Option<&'a AllPackets<'a>> {
        match self.packets {
            Packets::All(all) => Some(all),
            Packets::Sketched(_) => None,
        }
    }

    /// What is kept in bounded memory instead of the packets.
    pub fn sketch(&self) -> Option<&Sketch<'a>> {
        match &self.packets {
            Packets::All(_) => None,
            Packets::Sketched(sketch) => Some(sketch),
        }
    }

    /// Moments of delay.
    pub fn moments(&self) -> &Moments {
        match &self.packets {
            Packets::All(all) => all.moments(),
            Packets::Sketched(sketch) => sketch.moments,
        }
    }

    /// Delay on send time, and on arrival time.
    pub fn lines(&self) -> [Option<Line>; 2] {
        match &self.packets {
            Packets::All(all) => all.lines(),
            Packets::Sketched(sketch) => [sketch.sums.on_send(), sketch.sums.on_arrival()],
        }
    }

    /// Losses, and how they cluster.
    pub fn loss(&self) -> Loss {
        match &self.packets {
            Packets::All(all) => all.loss(),
            Packets::Sketched(sketch) => sketch.loss.clone(),
        }
    }

    /// Further copies.
    pub fn duplicates(&self) -> Duplicates {
        match &self.packets {
            Packets::All(all) => all.duplicates(),
            Packets::Sketched(sketch) => sketch.duplicates.clone(),
        }
    }

    /// Delay, and its excess over the smallest.
    pub fn delays(&self) -> (Distribution, Distribution) {
        let sketch = match &self.packets {
            Packets::All(all) => return all.delays().clone(),
            Packets::Sketched(sketch) => sketch,
        };
        let latency = sketch.delays.distribution(sketch.moments, self.known.wanted());
        let pdv = match sketch.delays.quantiles() {
            Quantiles::Exact(sample) => latency.above_minimum(sketch.moments, Some(&sample)),
            Quantiles::Counted(_) => latency.above_minimum(sketch.moments, None),
        };
        (latency, pdv)
    }
}
