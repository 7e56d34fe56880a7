//! [`Instrument`]: one test, one-way or two-way, taken without a report of its own.

use crate::cli::{Cli, Command, TestArgs};
use crate::ping::{self, PingArgs, Proto};
use crate::test;
use anyhow::{Context, Result, anyhow};
use clap::Parser;
use jitlat_core::analysis::{Analyzer, Options, Samples};
use jitlat_core::observer::{Event, Observer};
use jitlat_core::summary::Summary;
use jitlat_core::{PacketRecord, Session, Span, Transport};
use jitlat_net::client::{self, Measured};
use std::sync::atomic::AtomicBool;

/// A test as it was asked for.
#[derive(Clone, Debug)]
pub enum Instrument {
    /// Against `jitlat serve`.
    OneWay(Box<TestArgs>),
    /// Against whatever answers.
    TwoWay(Box<PingArgs>),
}

/// What a test came to: a round trip, or one direction.
pub struct Taken {
    pub summary: Summary,
    pub samples: Samples,
}

impl Instrument {
    /// The instrument that `jitlat WORDS…` would be: `test HOST …` or `ping HOST …`.
    pub fn parse(words: &[String]) -> Result<Instrument> {
        let line = std::iter::once("jitlat").chain(words.iter().map(String::as_str));
        // clap's first line says what is wrong; the rest is about this program's usage, not the caller's.
        let cli = Cli::try_parse_from(line).map_err(|e| {
            let text = e.to_string();
            anyhow!("{}", text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
        })?;
        match cli.command {
            Some(Command::Test(args)) if !args.stream.both => Ok(Instrument::OneWay(args)),
            Some(Command::Ping(args)) => Ok(Instrument::TwoWay(args)),
            _ => Err(anyhow!("one direction at a time: leave out -b")),
        }
    }

    /// Runs it, in silence and without files.
    pub fn take(&self, stop: &AtomicBool) -> Result<Taken> {
        match self {
            Instrument::TwoWay(args) => {
                let ping::Taken { summary, samples } = ping::take(args, stop)?;
                Ok(Taken { summary, samples })
            }
            Instrument::OneWay(args) => {
                let host = args.host.as_deref().context("name the host that runs `jitlat serve`")?;
                let request = test::request(host, args)?;
                let mut keeper = Keeper::default();
                let Measured { sessions, .. } = client::run(&request, stop, &mut keeper)?;
                let session = sessions.into_iter().next().context("the test told nothing of itself")?;
                let (summary, samples) = keeper.analyse(&session);
                Ok(Taken { summary, samples })
            }
        }
    }

    /// How long it should take.
    pub fn duration(&self) -> Result<Span> {
        match self {
            Instrument::TwoWay(args) => ping::duration(args),
            Instrument::OneWay(args) => {
                let specs = args.stream.specs(0).map_err(|e| anyhow!(e))?;
                Ok(specs.iter().map(jitlat_core::TestSpec::duration).max().unwrap_or_default())
            }
        }
    }

    /// What its delays are.
    pub fn quantity(&self) -> &'static str {
        match self {
            Instrument::OneWay(_) => "one-way delay",
            Instrument::TwoWay(_) => "round trip",
        }
    }

    /// Length of its packets as IP packets, in bytes; not known where TCP cuts as it likes.
    pub fn ip_length(&self, s: &Summary) -> Option<u64> {
        let above = match self {
            Instrument::TwoWay(args) if args.proto == Proto::Icmp => 0,
            _ if s.header.proto == Transport::Tcp.number() => return None,
            _ => 8,
        };
        let v6 = s.header.dst_ip.as_ref().is_some_and(|ip| ip.contains(':'));
        Some(s.header.pktlen + above + if v6 { 40 } else { 20 })
    }
}

/// Analyses one flow as its records come.
#[derive(Default)]
pub struct Keeper {
    records: Vec<PacketRecord>,
}

impl Keeper {
    /// The figures of the flow.
    pub fn analyse(self, session: &Session) -> (Summary, Samples) {
        let mut analyzer = Analyzer::new(session, &Options::default());
        self.records.into_iter().for_each(|r| analyzer.push(&r));
        analyzer.finish_with_samples(session)
    }
}

impl Observer for Keeper {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Records { records, .. } = event {
            self.records.extend_from_slice(records);
        }
    }
}
