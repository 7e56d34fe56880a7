//! `jitlat ping`: two-way tests against whatever answers: ICMP, STAMP, TWAMP, LaMP, TCP.
//!
//! * [`args`] – the command line, and what it comes to
//! * [`measure`] – one test; a file for each protocol
//! * [`live`] – what is done with it while it runs
//! * [`report`] – what is shown of it; [`late`] – the same in LaTe's forms

mod args;
mod icmp;
mod lamp;
mod late;
mod live;
mod measure;
mod report;
mod stamp;
mod tcp;
mod twamp;

pub use args::{PingArgs, Proto};
pub use stamp::stamp_key;
pub use twamp::read_users;

use crate::journal::Journal;
use crate::{doctor, interrupt, present};
use anyhow::Result;
use args::{plan, resolve};
use jitlat_core::analysis::{Analyzer, Samples};
use jitlat_core::session::HostFacts;
use jitlat_core::summary::Summary;
use jitlat_core::{Session, Span};
use jitlat_net::clock;
use jitlat_store::log::{LogFile, Naming};
use late::Late;
use live::Listener;
use measure::{announced, measure};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use tracing::error;

/// Measures, saves, reports.
pub fn run(args: &PingArgs) -> Result<ExitCode> {
    present::check(&args.report)?;
    let to = resolve(args)?;
    let plan = plan(args)?;
    let log = match &args.output {
        Some(path) => {
            let naming = Naming::Given(path.clone());
            Some(if args.proto == Proto::Tcp {
                LogFile::create_two_way_tcp(&naming)?
            } else {
                LogFile::create_two_way(&naming)?
            })
        }
        None => None,
    };
    let stop = interrupt::stop_flag()?;
    let noise = args
        .doctor
        .then(|| doctor::floor_two_way(&plan, args.pace, args.stamps, &stop))
        .and_then(doctor::told);
    let (late, teller) = Late::new(args, plan.spec.period())?;
    let session =
        Session { client: HostFacts { noise, ..clock::host_facts() }, ..announced(args, &plan, to) };
    let listening = Listener::new(log.map(Journal::new), teller, session).start();
    let found = measure(args, to, &plan, &stop, Some(listening.to()));
    let Listener { journal, teller, .. } = listening.finish()?;
    let mut found = found?;
    found.session.client.noise = noise;

    let requests = found.requests;
    let closed = journal.map(|journal| live::save(journal, &found));
    let run = report::analyse(found, closed.as_ref(), &args.report);
    present::present(std::slice::from_ref(&run), &args.report)?;
    let untold = late.finish(&run, teller).err().map(|e| format!("{e:#}"));
    let troubles: Vec<String> = closed.into_iter().flat_map(|c| c.troubles).chain(untold).collect();
    for trouble in &troubles {
        error!("{trouble}");
    }
    if requests == 0 || !troubles.is_empty() {
        return Ok(ExitCode::from(crate::COULD_NOT_MEASURE));
    }
    Ok(crate::verdict(&[run], &args.report))
}

/// A finished test without a report of its own: for sweeps, and for one phase beside another.
pub struct Taken {
    /// Its round trips.
    pub summary: Summary,
    /// The packets behind them.
    pub samples: Samples,
}

/// Measures as [`run`] does, in silence and without files.
pub fn take(args: &PingArgs, stop: &AtomicBool) -> Result<Taken> {
    let to = resolve(args)?;
    let found = measure(args, to, &plan(args)?, stop, None)?;
    let mut analyzer = Analyzer::new(&found.session, &args.report.options());
    found.records.iter().for_each(|r| analyzer.push(r));
    let (summary, samples) = analyzer.finish_with_samples(&found.session);
    Ok(Taken { summary, samples })
}

/// How long the test should take, supposing answers within a fifth of a second where it waits for them.
pub fn duration(args: &PingArgs) -> Result<Span> {
    let plan = plan(args)?;
    let answer = plan.patience.min(Span::millis(200));
    let waiting = plan.wait.map(|w| (w + answer).times(plan.spec.packets().into()));
    Ok(waiting.unwrap_or_else(|| plan.spec.duration() + plan.patience))
}
