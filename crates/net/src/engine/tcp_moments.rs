//! [`TcpMoments`]: samples of a connection's TCP_INFO while a stream is sent.

use crate::clock::steady;
use crate::sys;
use crate::sys::AsFd;
use jitlat_core::tcp::{MAX_TCP_MOMENTS, TcpMoment};
use jitlat_core::{Span, SteadyTime};
use std::net::TcpStream;

/// Shortest time between two samples.
const MIN_INTERVAL: Span = Span::millis(20);

/// Samples of a connection. The memory is allocated before the stream.
pub struct TcpMoments {
    moments: Vec<TcpMoment>,
    interval: Span,
    start: SteadyTime,
    next: SteadyTime,
}

impl TcpMoments {
    /// Starts sampling.
    pub fn start() -> TcpMoments {
        let now = steady();
        let moments = Vec::with_capacity(2 * MAX_TCP_MOMENTS);
        TcpMoments { moments, interval: MIN_INTERVAL, start: now, next: now }
    }

    /// Sets the origin of all times to `first`, the time at which the first packet was sent.
    pub fn begin(&mut self, first: SteadyTime) {
        self.start = first;
    }

    /// Samples `connection` if a sample is due.
    pub fn look(&mut self, connection: &TcpStream) {
        let now = steady();
        if now < self.next {
            return;
        }
        if let Ok(moment) = sys::tcp_moment(connection.as_fd()) {
            self.add(TcpMoment { at: now - self.start, ..moment });
        }
        self.next = now + self.interval;
    }

    fn add(&mut self, moment: TcpMoment) {
        if self.moments.len() >= 2 * MAX_TCP_MOMENTS {
            self.thin_out();
            self.interval = self.interval.times(2);
        }
        self.moments.push(moment);
    }

    /// Removes every second sample, to make room for further ones.
    fn thin_out(&mut self) {
        let mut k = 0;
        self.moments.retain(|_| {
            k += 1;
            k % 2 == 1
        });
    }

    /// Samples `connection` for the last time and returns all samples.
    pub fn finish(mut self, connection: &TcpStream) -> Vec<TcpMoment> {
        self.next = self.start;
        self.look(connection);
        while self.moments.len() > MAX_TCP_MOMENTS {
            let last = self.moments.last().copied();
            self.thin_out();
            if self.moments.last() != last.as_ref() {
                self.moments.extend(last);
            }
        }
        self.moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_streams_have_as_many_moments_as_short_ones() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut moments = TcpMoments::start();
        for k in 0..5000 {
            moments.add(TcpMoment { at: Span::millis(k), ..TcpMoment::default() });
        }
        let moments = moments.finish(&connection);
        assert!((100..=MAX_TCP_MOMENTS).contains(&moments.len()), "{}", moments.len());
        assert!(moments[0].at == Span::ZERO && moments[moments.len() - 2].at > Span::millis(4800));
        assert!(moments.last().unwrap().window > 0, "the last sample is of the connection");
    }
}
