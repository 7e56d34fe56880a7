//! [`TcpCaptures`]: analyses TCP connections from the captures of one point or two.

use super::error::PassiveError;
use super::files::CaptureSource;
use super::settings::Passive;
use crate::stop::Stop;
use jitlat_core::passive::flows::Grouping;
use jitlat_core::passive::pipeline::PacketFilter;
use jitlat_core::passive::tcp::{
    Connection, ConnectionObserver, TcpAnalyzer, TcpPoint, TcpResult, put_together,
};
use jitlat_core::passive::verdict::list_prefixes;
use jitlat_core::passive::{Packet, PassiveResult, Prefix};
use jitlat_core::{Event, Observer};
use jitlat_net::capture::Capture;
use std::cmp::Reverse;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Settings of an analysis of TCP connections.
#[derive(Clone, Debug, Default)]
pub struct TcpCaptures {
    /// Only connections of this address or prefix; `None`: all.
    pub host: Option<Prefix>,
    /// Only connections of this port; `None`: all.
    pub port: Option<u16>,
    /// Treat two captures as consecutive ones of one point, even if they contain the same traffic.
    pub one_point: bool,
    /// Whether to send pairs and single packets matched between two points: [`Event::Pairs`], [`Event::Matched`].
    pub matched: bool,
}

impl TcpCaptures {
    /// Analyses captures. Two that contain the same traffic are two points, the nearer to the client first; all others
    /// are read one after the other as one point's. `observer` receives the [`Event::Tcp`] of the (first) point.
    ///
    /// # Errors
    /// [`PassiveError`] if a capture cannot be read, or contains no TCP.
    pub fn analyse(
        &self,
        captures: &[PathBuf],
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<TcpResult, PassiveError> {
        let between = match captures {
            [a, b] if !self.one_point => self.join([a, b], stop, observer)?,
            _ => None,
        };
        let own = if between.is_some() { &captures[..1] } else { captures };
        let first = self.read(own, stop, observer)?;
        if first.segments == 0 {
            let name = captures.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
            let filtered = self.host.is_some() || self.port.is_some();
            let TcpPoint { packets, skipped, .. } = first;
            return Err(PassiveError::NoTcp { name, packets, skipped, filtered });
        }
        let mut result = TcpResult { notes: describe_point(&first), ..TcpResult::default() };
        if let Some(joined) = between {
            let second = self.read(&captures[1..], stop, &mut |_: &Event<'_>| ())?;
            let flows = joined.flows.as_deref().unwrap_or_default();
            result.between = put_together(&first.connections, &second.connections, flows);
            result.notes.extend(describe_point(&second));
            result.notes.extend(describe_points([&captures[0], &captures[1]], &joined));
        }
        result.first = first;
        Ok(result)
    }

    /// Follows one connection of a point's captures segment by segment.
    ///
    /// # Errors
    /// [`PassiveError`] if a capture cannot be read.
    pub fn follow_connection(
        &self,
        captures: &[PathBuf],
        of: &Connection,
        stop: &Stop,
        observer: &mut dyn ConnectionObserver,
    ) -> Result<(), PassiveError> {
        let mut capture = Capture::open(captures)?;
        let mut analyzer = TcpAnalyzer::default();
        while let Some(f) = capture.next_frame()
            && !stop.is_requested()
        {
            let Ok(p) = f.packet() else { continue };
            let ours = p.ports().is_some_and(|(a, b)| {
                of.is_between(SocketAddr::new(p.src(), a), SocketAddr::new(p.dst(), b))
            });
            // The same ports may have been used before and after.
            if !ours || f.at < of.first || f.at > of.last {
                continue;
            }
            for e in analyzer.push(f.at, &p) {
                observer.event(e.from == of.client, &e.event);
            }
            for (status, up) in analyzer.status(f.at, &p).into_iter().flatten().zip([true, false]) {
                observer.status(up, f.at, &status);
            }
        }
        Ok(())
    }

    /// The packets of each flow matched between two captures; `None` if they have none in common.
    fn join(
        &self,
        captures: [&PathBuf; 2],
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<Option<PassiveResult>, PassiveError> {
        let points = captures.map(|path| CaptureSource::Files(vec![path.clone()]));
        if points.iter().any(|p| p.again().is_none()) {
            return Ok(None);
        }
        let passive = Passive {
            only: Some(PacketFilter::tcp(self.port)),
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

    fn wants(&self, p: &Packet<'_>) -> bool {
        self.host.is_none_or(|h| h.contains(p.src()) || h.contains(p.dst()))
            && self.port.is_none_or(|port| p.ports().is_some_and(|(a, b)| a == port || b == port))
    }

    /// Reads the captures of one point.
    fn read(
        &self,
        captures: &[PathBuf],
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<TcpPoint, PassiveError> {
        let mut capture = Capture::open(captures)?;
        let mut analyzer = TcpAnalyzer::default();
        let (mut packets, mut skipped) = (0u64, 0u64);
        let mut events = Vec::new();
        while let Some(f) = capture.next_frame()
            && !stop.is_requested()
        {
            let Ok(p) = f.packet() else {
                skipped += 1;
                continue;
            };
            packets += 1;
            if !self.wants(&p) {
                continue;
            }
            events.clear();
            events.extend(analyzer.push(f.at, &p));
            if !events.is_empty() {
                observer.event(&Event::Tcp(&events));
            }
        }
        let mut connections = analyzer.finish();
        connections.sort_by_key(|c| Reverse(c.up.bytes + c.down.bytes));
        Ok(TcpPoint {
            connections,
            segments: analyzer.segments(),
            not_followed: analyzer.not_followed(),
            packets,
            skipped,
            drops: capture.drops(),
            notes: capture.notes().to_vec(),
        })
    }
}

/// Notes about a point.
fn describe_point(p: &TcpPoint) -> Vec<String> {
    let mut notes = p.notes.clone();
    if p.not_followed > 0 {
        notes.push(format!("{} segments of connections beyond 131072 were left alone", p.not_followed));
    }
    if p.drops > 0 {
        notes.push(format!("the capture lost {} packets itself; they look like gaps", p.drops));
    }
    notes
}

/// Notes about two points.
fn describe_points([first, second]: [&Path; 2], joined: &PassiveResult) -> Vec<String> {
    let sides = &joined.plan.sides;
    let mut notes = vec![format!(
        "two capture points: {} near {}, {} near {}",
        first.display(),
        list_prefixes(&sides[0].reference),
        second.display(),
        list_prefixes(&sides[1].monitor)
    )];
    if joined.plan.direction_assumed {
        notes.push("which point is nearer to the client is uncertain: it was derived from the clocks of the captures alone".to_owned());
    }
    if sides[0] != sides[1] {
        notes.push(
            "addresses are translated between the points: of the second only what passed both is known"
                .to_owned(),
        );
    }
    let ways = [&joined.summary.out, &joined.summary.back];
    if ways.iter().all(|w| w.delay_raw_ns.is_none_or(|d| d.min == 0 && d.max == 0)) {
        notes
            .push("every segment has the same time at both points: is it the same capture twice?".to_owned());
    }
    for (f, path) in joined.captures.iter().zip([first, second]) {
        if f.long > 0 && joined.captures.iter().any(|g| g.long == 0) {
            notes.push(format!(
                "{}: {} segments of up to {} bytes never travelled like that and match nothing: capture with \
                 `ethtool -K IFACE tso off gso off gro off lro off`",
                path.display(),
                f.long,
                f.longest
            ));
        }
    }
    notes
}
