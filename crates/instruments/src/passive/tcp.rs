//! [`TcpCaptures`]: analyses TCP connections from the captures of one point or two.

use super::error::PassiveError;
use super::files::CaptureSource;
use super::settings::Passive;
use crate::stop::Stop;
use jitlat_core::Span;
use jitlat_core::observer::Unobserved;
use jitlat_core::prefix::Prefix;
use jitlat_core::time::SteadyTime;
use jitlat_net::capture::{Capture, FollowedFiles};
use jitlat_net::clock;
use jitlat_passive::flows::Grouping;
use jitlat_passive::pipeline::PacketFilter;
use jitlat_passive::tcp::{
    Comparison, ConnectionObserver, ConnectionShare, ConnectionsPart, FoundConnection, FoundEvent,
    ObservedConnection, PointPair, PointRead, TcpAnalyzer, TcpResult, are_clients_at_monitor, put_together,
};
use jitlat_passive::{CaptureEvent, CaptureObserver};
use jitlat_passive::{Frame, IpPacket, PassiveResult, Recording, Seen, SpreadFigures};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

/// Number of frames of a followed capture that are read between two checks for its end.
const FRAMES_PER_CHECK: usize = 4096;
/// Pause when nothing new has been written.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit for reading the remaining packets at the end.
const FILE_END_TIMEOUT: Span = Span::seconds(30);

/// Settings of an analysis of TCP connections.
#[derive(Clone, Debug, Default)]
pub struct TcpCaptures {
    /// Address or prefix of the connections to analyse; `None`: all connections.
    pub host: Option<Prefix>,
    /// Port of the connections to analyse; `None`: all connections.
    pub port: Option<u16>,
    /// True to treat two captures as consecutive captures of one point even if they contain the same traffic.
    pub one_point: bool,
    /// Share of the connections to analyse; `None`: all connections.
    pub share: Option<ConnectionShare>,
    /// True if the only capture (a folder or a file) is still being written. Its files are then read as they appear,
    /// until a stop is requested.
    pub follow: bool,
    /// Time limit for following; `None`: no limit.
    pub duration: Option<Span>,
    /// True to send pairs and single packets matched between two points, in [`CaptureEvent::Pairs`] and [`CaptureEvent::Matched`].
    pub matched: bool,
}

impl TcpCaptures {
    /// Analyses captures. Two captures of the same traffic are treated as two points, and the point nearer to the
    /// client becomes the first. Other captures are read one after the other, as captures of one point. `observer`
    /// receives the [`CaptureEvent::Tcp`] of the first or only point.
    ///
    /// # Errors
    /// [`PassiveError`] if a capture cannot be read, or contains no TCP; a part may have none.
    pub fn analyse(
        &self,
        captures: &[PathBuf],
        stop: &Stop,
        observer: &mut dyn CaptureObserver,
    ) -> Result<TcpResult, PassiveError> {
        let found = self.find(captures, stop, observer)?;
        match self.share {
            None => self.conclude(found),
            Some(_) => Ok(found.result()),
        }
    }

    /// Like [`analyse`](Self::analyse), but also returns the data needed to join the results with those of other parts.
    ///
    /// # Errors
    /// [`PassiveError`] if a capture cannot be read.
    pub fn find(
        &self,
        captures: &[PathBuf],
        stop: &Stop,
        observer: &mut dyn CaptureObserver,
    ) -> Result<ConnectionsPart, PassiveError> {
        let joined = match captures {
            [a, b] if !self.one_point && !self.follow => self.join_in_order([a, b], stop, observer)?,
            _ => None,
        };
        // If addresses are translated, the captures were joined again in the order of the points.
        let is_reversed = joined.as_ref().is_some_and(|joined| joined.is_reversed);
        let in_order: Vec<PathBuf> = match is_reversed {
            true => captures.iter().rev().cloned().collect(),
            false => captures.to_vec(),
        };
        let captures = &in_order[..];
        let mut found = ConnectionsPart::new(self.share.unwrap_or(ConnectionShare::ALL), self.filter());
        let is_exchanged = joined.as_ref().is_some_and(|joined| joined.is_exchanged);
        let is_rewritten = joined.is_none() && self.are_rewritten(captures, stop)?;
        let own = match (&joined, is_exchanged) {
            (None, _) if is_rewritten => &captures[..1],
            (None, _) => captures,
            (Some(_), false) => &captures[..1],
            (Some(_), true) => &captures[1..],
        };
        let mut first = self.read(own, stop, observer)?;
        if is_rewritten {
            first.read.note_rewritten(&captures[1].display().to_string());
        } else if joined.is_none() && captures.len() == 2 && !self.one_point {
            first.read.note_overlap();
        }
        found.segments = first.segments;
        found.not_followed[0] = first.not_followed;
        found.points.push(first.read);
        found.connections = first.connections;
        found.events = first.events;
        if let Some(OrderedPoints { joined, second, .. }) = joined {
            let second = match second {
                Some(second) => second,
                None => self.read(&captures[..1], stop, &mut Unobserved)?,
            };
            let directions = [&joined.summary.out, &joined.summary.back];
            let is_zero = |d: SpreadFigures| d.min == 0 && d.max == 0;
            let mut pair = PointPair {
                direction_assumed: joined.plan.direction_assumed,
                is_exchanged,
                same_times: directions.iter().all(|w| w.delay_raw_ns.is_none_or(is_zero)),
                long: joined.captures.each_ref().map(|f| (f.long, f.longest)),
                sides: joined.plan.sides,
                unrecognised: 0,
            };
            if is_exchanged {
                pair.long.reverse();
                pair.sides.reverse();
                for sides in &mut pair.sides {
                    std::mem::swap(&mut sides.reference, &mut sides.monitor);
                }
            }
            pair.is_exchanged |= is_reversed;
            if self.share.is_some() && pair.is_translated() {
                return Err(PassiveError::TranslatedParts);
            }
            let flows = joined.flows.as_deref().unwrap_or_default();
            let of = |list: &[FoundConnection]| list.iter().map(|f| f.connection.clone()).collect::<Vec<_>>();
            let between =
                put_together(&of(&found.connections), &of(&second.connections), flows, !is_exchanged);
            for (f, comparison) in found.connections.iter_mut().zip(between) {
                pair.unrecognised += u64::from(comparison == Comparison::NothingRecognised);
                f.between = comparison.compared();
            }
            found.not_followed[1] = second.not_followed;
            found.points.push(second.read);
            found.pair = Some(pair);
        }
        Ok(found)
    }

    /// True if two captures without common packets contain the same connections at the same times, as captures of two
    /// points do between which a device rewrites sequence numbers or contents. Parts are not compared, because all of
    /// them must be read in the same way.
    fn are_rewritten(&self, captures: &[PathBuf], stop: &Stop) -> Result<bool, PassiveError> {
        let [a, b] = captures else { return Ok(false) };
        let are_files =
            captures.iter().all(|path| CaptureSource::Files(vec![path.clone()]).again().is_some());
        if self.one_point || self.follow || self.share.is_some() || !are_files {
            return Ok(false);
        }
        let read = |path: &PathBuf| self.read(std::slice::from_ref(path), stop, &mut Unobserved);
        let (first, second) = (read(a)?, read(b)?);
        let connections = first.connections.iter().map(|f| &f.connection);
        let ends = |c: &ObservedConnection| (c.client.min(c.server), c.client.max(c.server));
        let known: HashMap<_, _> = connections.map(|c| (ends(c), (c.first, c.last))).collect();
        Ok(second
            .connections
            .iter()
            .map(|f| &f.connection)
            .any(|c| known.get(&ends(c)).is_some_and(|(first, last)| c.first < *last && *first < c.last)))
    }

    /// Finds out which of two points is nearer to the clients. For the parts of a capture, the order in which the
    /// points were given is used, because the order must be the same for all parts.
    fn order(
        &self,
        joined: PassiveResult,
        second: &PathBuf,
        stop: &Stop,
    ) -> Result<OrderedPoints, PassiveError> {
        let second = self.read(std::slice::from_ref(second), stop, &mut Unobserved)?;
        let flows = joined.flows.as_deref().unwrap_or_default();
        let connections: Vec<_> = second.connections.iter().map(|f| f.connection.clone()).collect();
        let is_known = self.share.is_none() && !joined.plan.direction_assumed;
        let at_monitor = || are_clients_at_monitor(&connections, flows, &joined.plan.sides[1]);
        let is_exchanged = is_known && at_monitor().unwrap_or(false);
        let second = (!is_exchanged).then_some(second);
        Ok(OrderedPoints { joined, is_exchanged, is_reversed: false, second })
    }

    /// Matches the packets of two captures, and finds the order of the points; `None` if the captures have no packets in
    /// common. Flows have the addresses of the reference point. If these are translated, and the clients are at the
    /// monitor point, the captures are therefore matched again, in the other order.
    fn join_in_order(
        &self,
        [a, b]: [&PathBuf; 2],
        stop: &Stop,
        observer: &mut dyn CaptureObserver,
    ) -> Result<Option<OrderedPoints>, PassiveError> {
        // The observer must not receive pairs that were matched in the wrong order.
        let once = TcpCaptures { matched: false, ..self.clone() };
        let Some(joined) = once.join([a, b], stop, &mut Unobserved)? else { return Ok(None) };
        let is_translated = joined.plan.sides[0] != joined.plan.sides[1];
        let ordered = self.order(joined, b, stop)?;
        let is_reversed = ordered.is_exchanged && is_translated;
        if !is_reversed && !self.matched {
            return Ok(Some(ordered));
        }
        let in_order = if is_reversed { [b, a] } else { [a, b] };
        let Some(joined) = self.join(in_order, stop, observer)? else { return Ok(None) };
        Ok(Some(match is_reversed {
            true => OrderedPoints {
                joined,
                is_exchanged: false,
                is_reversed,
                second: Some(self.read(std::slice::from_ref(a), stop, &mut Unobserved)?),
            },
            false => OrderedPoints { joined, ..ordered },
        }))
    }

    /// Joins the results of all parts.
    ///
    /// # Errors
    /// [`PassiveError`] if they are not all parts of one analysis, or if they contain no TCP segment.
    pub fn of_parts(
        parts: Vec<ConnectionsPart>,
        observer: &mut dyn CaptureObserver,
    ) -> Result<TcpResult, PassiveError> {
        let whole = ConnectionsPart::join(parts)?;
        for event in &whole.events {
            observer.capture_event(&CaptureEvent::Tcp(&[event.directed()]));
        }
        TcpCaptures::default().conclude(whole)
    }

    fn conclude(&self, whole: ConnectionsPart) -> Result<TcpResult, PassiveError> {
        if !whole.is_empty() {
            return Ok(whole.result());
        }
        let filtered = !whole.filter.is_empty();
        let mut read = whole.points.into_iter().next().unwrap_or_default();
        let (name, notes) = (std::mem::take(&mut read.name), std::mem::take(&mut read.notes));
        Err(PassiveError::NoTcp { name, read: Box::new(read), filtered, notes })
    }

    /// Describes the hosts and ports that the filter selects; empty: all.
    fn filter(&self) -> String {
        let host = self.host.map(|host| format!("host {host} "));
        let port = self.port.map(|port| format!("port {port}"));
        host.unwrap_or_default() + &port.unwrap_or_default()
    }

    /// Follows one connection in a point's captures, segment by segment.
    ///
    /// # Errors
    /// [`PassiveError`] if a capture cannot be read.
    pub fn follow_connection(
        &self,
        captures: &[PathBuf],
        of: &ObservedConnection,
        stop: &Stop,
        observer: &mut dyn ConnectionObserver,
    ) -> Result<(), PassiveError> {
        let mut capture = Capture::open(captures)?;
        let mut analyzer = TcpAnalyzer::default();
        let mut recording = Recording::inside_tunnels();
        let mut each = |seen: Seen<'_>| {
            let seen = match seen {
                Seen::Packet(seen) => seen,
                Seen::ClockSet => return analyzer.clock_set(),
                Seen::Skipped(..) => return,
            };
            let (at, p) = (seen.at, seen.packet);
            let ours = p.ports().is_some_and(|(a, b)| {
                of.is_between(SocketAddr::new(p.src(), a), SocketAddr::new(p.dst(), b))
            });
            // Other connections may have used the same ports before and after.
            if !ours || at < of.first || at > of.last {
                return;
            }
            for e in analyzer.take(seen) {
                observer.event(e.from == of.client, &e.event);
            }
            for (status, up) in analyzer.status(at, p).into_iter().flatten().zip([true, false]) {
                observer.status(up, at, &status);
            }
        };
        while let Some(f) = capture.next_frame()
            && !stop.is_requested()
        {
            recording.push(&f, &mut each);
        }
        recording.finish(&mut each);
        Ok(())
    }

    /// Matches the packets of each flow between two captures; `None` if the captures have no packets in
    /// common.
    fn join(
        &self,
        captures: [&PathBuf; 2],
        stop: &Stop,
        observer: &mut dyn CaptureObserver,
    ) -> Result<Option<PassiveResult>, PassiveError> {
        let points = captures.map(|path| CaptureSource::Files(vec![path.clone()]));
        if points.iter().any(|p| p.again().is_none()) {
            return Ok(None);
        }
        let passive = Passive {
            only: Some(PacketFilter { share: self.share, ..PacketFilter::tcp(self.port) }),
            grouping: Some(Grouping::Flow),
            matched: self.matched,
            ..Passive::default()
        };
        match passive.try_captures(points, stop, observer)? {
            Err(_) => Ok(None),
            Ok(mut outcome) => match outcome.failures.pop() {
                Some(failure) => Err(failure),
                None => Ok(Some(outcome.result)),
            },
        }
    }

    fn wants(&self, p: &IpPacket<'_>) -> bool {
        self.host.is_none_or(|h| h.contains(p.src()) || h.contains(p.dst()))
            && self.port.is_none_or(|port| p.ports().is_some_and(|(a, b)| a == port || b == port))
    }

    /// Reads a capture that is still being written.
    fn follow(&self, followed: &mut FollowedFiles, stop: &Stop, mut take: impl FnMut(&Frame<'_>)) {
        let began = clock::steady();
        let mut over: Option<SteadyTime> = None;
        loop {
            let now = clock::steady();
            if over.is_none() && (stop.is_requested() || self.duration.is_some_and(|d| now - began >= d)) {
                over = Some(now);
                followed.end();
            }
            let frames = followed.poll(FRAMES_PER_CHECK, &mut take);
            match over {
                Some(since) if frames == 0 || now - since >= FILE_END_TIMEOUT => return,
                None if frames == 0 => sleep(POLL_INTERVAL),
                _ => {}
            }
        }
    }

    /// Reads the captures of one point.
    fn read(
        &self,
        captures: &[PathBuf],
        stop: &Stop,
        observer: &mut dyn CaptureObserver,
    ) -> Result<PointFound, PassiveError> {
        let mut analyzer = TcpAnalyzer::default();
        let names: Vec<String> = captures.iter().map(|p| p.display().to_string()).collect();
        let mut read = PointRead { name: names.join(", "), ..PointRead::default() };
        let (mut begins, mut kept) = (Vec::new(), Vec::new());
        let mut events = Vec::new();
        let mut recording = Recording::inside_tunnels();
        let mut each = |seen: Seen<'_>| {
            let seen = match seen {
                Seen::Packet(seen) => seen,
                Seen::ClockSet => return analyzer.clock_set(),
                Seen::Skipped(..) => {
                    read.skipped += 1;
                    return;
                }
            };
            let p = seen.packet;
            read.packets += 1;
            if let Some(share) = self.share {
                let sum = (read.checksum ^ seen.at.0 as u64).wrapping_add(p.length.into());
                read.checksum = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
                if !share.has(p) {
                    return;
                }
            }
            if !self.wants(p) {
                return;
            }
            let is_eventful = {
                let found = analyzer.take(seen);
                let some = found.len() > 0;
                if some {
                    events.clear();
                    events.extend(found);
                }
                some
            };
            if begins.len() < analyzer.begun() {
                begins.resize(analyzer.begun(), read.packets);
            }
            if is_eventful {
                observer.capture_event(&CaptureEvent::Tcp(&events));
                if self.share.is_some() {
                    kept.extend(events.iter().map(|event| FoundEvent::new(read.packets, event)));
                }
            }
        };
        let (drops, notes) = match captures {
            [path] if self.follow => {
                let mut followed = FollowedFiles::open(path)?;
                self.follow(&mut followed, stop, |f| recording.push(f, &mut each));
                (followed.drops(), followed.notes().to_vec())
            }
            _ => {
                let mut capture = Capture::open(captures)?;
                while let Some(f) = capture.next_frame()
                    && !stop.is_requested()
                {
                    recording.push(&f, &mut each);
                }
                (capture.drops(), capture.notes().to_vec())
            }
        };
        recording.finish(&mut each);
        (read.drops, read.notes, read.recording) = (drops, notes, recording.facts());
        read.recording.translated = analyzer.translated();
        let connections = analyzer.finish().into_iter().zip(begins);
        let mut connections: Vec<FoundConnection> = connections
            .map(|(connection, begins)| FoundConnection { begins, connection, between: None })
            .collect();
        connections.sort_by_key(|f| Reverse(f.connection.up.bytes + f.connection.down.bytes));
        Ok(PointFound {
            read,
            connections,
            segments: analyzer.segments(),
            not_followed: analyzer.not_followed(),
            events: kept,
        })
    }
}

/// Two points and their order.
struct OrderedPoints {
    joined: PassiveResult,
    /// True if the monitor point, whose capture was joined second, is the first point.
    is_exchanged: bool,
    /// True if the captures were joined in the reverse order.
    is_reversed: bool,
    /// Results of the second point; `None` if they have not been computed.
    second: Option<PointFound>,
}

/// Results of one point.
struct PointFound {
    read: PointRead,
    /// Connections, sorted by number of bytes, largest first.
    connections: Vec<FoundConnection>,
    segments: u64,
    not_followed: u64,
    /// Events of a part of the captures; empty if whole captures are analysed.
    events: Vec<FoundEvent>,
}
