//! [`RecentConnections`]: finds the connection of a segment without a hash of its endpoints, which would take a tenth of the
//! analysis.

use super::{Known, TcpEndpoint};

/// Number of pairs of endpoints that are remembered.
const REMEMBERED: usize = 1024;

/// Endpoints in the direction of a segment, and what is known about them.
#[derive(Clone, Copy, Debug)]
struct Recent {
    from: TcpEndpoint,
    to: TcpEndpoint,
    known: Option<Known>,
}

/// Latest pairs of endpoints, one per position.
#[derive(Debug)]
pub(super) struct RecentConnections {
    places: Box<[Recent; REMEMBERED]>,
}

impl Default for RecentConnections {
    fn default() -> RecentConnections {
        RecentConnections { places: Box::new([Recent { from: (0, 0), to: (0, 0), known: None }; REMEMBERED]) }
    }
}

/// Position of a pair of endpoints; the reverse direction has a different one.
#[inline]
fn place(from: TcpEndpoint, to: TcpEndpoint) -> usize {
    let of = |(address, port): TcpEndpoint| (address as usize).wrapping_mul(31) ^ usize::from(port);
    let mixed = of(from).wrapping_mul(7) ^ of(to);
    (mixed ^ mixed >> 10) % REMEMBERED
}

impl RecentConnections {
    /// Returns what is known about these endpoints; `None` if they are not remembered.
    #[inline]
    pub(super) fn find(&self, from: TcpEndpoint, to: TcpEndpoint) -> Option<Known> {
        let recent = &self.places[place(from, to)];
        if recent.from == from && recent.to == to { recent.known } else { None }
    }

    #[cold]
    pub(super) fn remember(&mut self, from: TcpEndpoint, to: TcpEndpoint, known: Known) {
        self.places[place(from, to)] = Recent { from, to, known: Some(known) };
    }

    /// Forgets both directions between these endpoints, because they begin another connection.
    pub(super) fn forget(&mut self, from: TcpEndpoint, to: TcpEndpoint) {
        for (from, to) in [(from, to), (to, from)] {
            self.places[place(from, to)].known = None;
        }
    }
}
