//! Running one two-way test, whatever the protocol.

use super::args::{PingArgs, Proto, wire_size};
use super::lamp::Access;
use super::{icmp, lamp, stamp, tcp, twamp};
use anyhow::{Context, Result, bail};
use jitlat_core::twoway::{TcpSample, TwoWay};
use jitlat_core::{PacketRecord, Session, WallTime};
use jitlat_net::pace::Pacing;
use jitlat_net::twoway::client::{Link, Measured, News};
use jitlat_net::twoway::socket::{Carrier, Marking};
use jitlat_net::{clock, random};
use jitlat_proto::twoway::{Plan, Protocol};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;

/// What one test found, whatever the protocol.
pub struct Found {
    /// Answers, in the order they came.
    pub records: Vec<PacketRecord>,
    /// Everything else.
    pub session: Session,
    /// Requests sent.
    pub requests: u64,
    /// The kernel's account of the connection beside each record, of TCP.
    pub tcp: Vec<TcpSample>,
}

impl Found {
    /// What only a two-way test has.
    pub fn facts(&mut self) -> &mut TwoWay {
        self.session.two_way.get_or_insert_default()
    }
}

/// What every protocol needs to begin.
pub struct Setting<'a> {
    pub args: &'a PingArgs,
    pub plan: Plan,
    pub link: Link,
    /// Bytes of a request, see [`wire_size`].
    pub size: usize,
    /// A random identifier.
    pub id: u16,
    /// Eight random bytes.
    pub mark: u64,
    pub stop: &'a AtomicBool,
    /// When the test began.
    pub created: WallTime,
}

/// Measures.
pub fn measure(
    args: &PingArgs,
    to: SocketAddr,
    plan: &Plan,
    stop: &AtomicBool,
    live: Option<SyncSender<News>>,
) -> Result<Found> {
    if args.lamp.raw && args.proto != Proto::Lamp {
        bail!("--raw is for --proto lamp");
    }
    let mut random_bytes = [0; 10];
    random::fill(&mut random_bytes).context("drawing an identifier from the system's random numbers")?;
    let [m @ .., i0, i1] = random_bytes;
    let link = Link {
        to,
        carrier: match args.proto {
            Proto::Icmp => Carrier::Icmp,
            Proto::Lamp if args.lamp.raw => Carrier::Raw,
            _ => Carrier::Udp,
        },
        marking: Marking {
            bind: args.bind,
            port: if args.proto == Proto::Icmp { 0 } else { args.src_port },
            interface: args.interface.clone(),
            dscp: args.dscp,
            priority: args.priority.or(args.lamp.ac.map(Access::priority)),
            ttl: (args.proto != Proto::Icmp).then_some(255),
        },
        stamps: args.stamps,
        pacing: Pacing { mode: args.pace, ..Pacing::default() },
        live,
    };
    let setting = Setting {
        args,
        plan: plan.clone(),
        link,
        size: wire_size(args)? as usize,
        id: u16::from_be_bytes([i0, i1]),
        mark: u64::from_be_bytes(m),
        stop,
        created: clock::wall(),
    };
    match args.proto {
        Proto::Icmp => icmp::measure(&setting),
        Proto::Stamp => stamp::measure(&setting),
        Proto::Twamp => twamp::measure(&setting),
        Proto::Lamp => lamp::measure(&setting),
        Proto::Tcp => tcp::measure(&setting),
    }
}

/// What is known of a test before it begins.
pub fn announced(args: &PingArgs, plan: &Plan, to: SocketAddr) -> Session {
    let mut session = Session::new(plan.spec.clone());
    session.spec.dst_port = to.port();
    session.created = Some(clock::wall());
    session.dst = Some(to.ip());
    session.period_known = plan.wait.is_none();
    session.client = clock::host_facts();
    session.name.clone_from(&args.name);
    session.tags.clone_from(&args.tags);
    session.two_way = Some(Box::new(TwoWay {
        protocol: args.proto.name().to_owned(),
        wait: plan.wait,
        timeout: Some(plan.patience),
        ..TwoWay::default()
    }));
    session
}

/// What a finished test comes to; `remarks` is what the protocol alone tells, in sentences.
pub fn gather<P: Protocol>(
    s: &Setting<'_>,
    measured: Measured<P>,
    remarks: impl FnOnce(&P) -> Vec<String>,
) -> Found {
    let Measured { mut outcome, local, host, ending, unsent, .. } = measured;
    let mut records = Vec::with_capacity(outcome.records.len());
    while let Some(mut block) = outcome.records.take_block() {
        block.iter_mut().for_each(|r| outcome.sent.join(r));
        records.extend(block);
    }
    let mut session = announced(s.args, &s.plan, s.link.to);
    session.spec.src_port = local.port();
    session.created = Some(s.created);
    session.src = Some(local.ip());
    session.sent = u32::try_from(outcome.ledger.requests()).ok();
    session.ending = ending;
    session.client = host;
    let facts = session.two_way.get_or_insert_default();
    facts.far_clock = outcome.protocol.far_clock();
    let (directions, losses) = outcome.ledger.directions();
    facts.directions = Some(directions).filter(|d| d.stateful);
    facts.losses = losses;
    facts.not_answers = outcome.not_answers;
    facts.unsent = unsent;
    facts.remarks = remarks(&outcome.protocol);
    if outcome.ledger.far_count_broken() {
        let told =
            "the far host began to count its answers anew during the test: losses are not told by direction";
        facts.remarks.push(told.to_owned());
    }
    Found { requests: outcome.ledger.requests(), records, session, tcp: Vec::new() }
}
