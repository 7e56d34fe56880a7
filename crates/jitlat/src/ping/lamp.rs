//! LaMP, as LaTe speaks it.

use super::measure::{Found, Setting, gather};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use jitlat_core::record::Moment;
use jitlat_core::twoway::FarReport;
use jitlat_net::stamp::Stamps;
use jitlat_net::twoway;
use jitlat_proto::lamp::client::{FollowUpState, Options};
use jitlat_proto::lamp::{self, Client, FollowUp, Mode, packet::HEADER_LEN};

/// What only LaMP has.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "LaMP (LaTe)")]
pub struct LampArgs {
    /// UDP port of the LaMP server
    #[arg(long, value_name = "PORT", default_value_t = lamp::PORT)]
    pub lamp_port: u16,
    /// Round trips, or one-way with the server's report
    #[arg(long, value_name = "MODE", default_value = "bidir")]
    pub mode: LampMode,
    /// Have the server tell its own processing time, which is then left out of the round trip; KIND says where it
    /// takes its two times (default: as --stamps here)
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_value = "same")]
    pub follow_up: Option<FollowUpKind>,
    /// Requests carry no time, as LaTe's with kernel or hardware stamps; this host keeps its own
    #[arg(long)]
    pub timeless: bool,
    /// Whole Ethernet frames through a packet socket, past this host's own IP and UDP (IPv4)
    #[arg(long)]
    pub raw: bool,
    /// Wi-Fi access category: sets the priority within this host to 1 (BK), 0 (BE), 4 (VI) or 6 (VO)
    #[arg(long, value_name = "CATEGORY", ignore_case = true, conflicts_with = "priority")]
    pub ac: Option<Access>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LampMode {
    /// Round trips
    Bidir,
    /// One-way, client to server
    Unidir,
}

/// Where a server takes the times it tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FollowUpKind {
    /// As --stamps of this host
    Same,
    /// Both by the program
    App,
    /// Reception by the kernel
    Krt,
    /// Both by the kernel
    Kernel,
    /// Both by the adapter
    Hardware,
}

impl FollowUpKind {
    fn asked(self, stamps: Stamps) -> FollowUp {
        match (self, stamps) {
            (FollowUpKind::App, _) | (FollowUpKind::Same, Stamps::User) => FollowUp::Application,
            (FollowUpKind::Krt, _) | (FollowUpKind::Same, Stamps::KernelReceive) => FollowUp::KernelReceive,
            (FollowUpKind::Kernel, _) | (FollowUpKind::Same, Stamps::Kernel) => FollowUp::Kernel,
            (FollowUpKind::Hardware, _) | (FollowUpKind::Same, Stamps::Hardware) => FollowUp::Hardware,
        }
    }
}

/// Access categories of Wi-Fi, by LaTe's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Access {
    /// Background
    Bk,
    /// Best effort
    Be,
    /// Video
    Vi,
    /// Voice
    Vo,
}

impl Access {
    /// As `SO_PRIORITY`.
    pub fn priority(self) -> u32 {
        match self {
            Access::Bk => 1,
            Access::Be => 0,
            Access::Vi => 4,
            Access::Vo => 6,
        }
    }
}

/// Measures.
pub fn measure(s: &Setting<'_>) -> Result<Found> {
    let args = &s.args.lamp;
    let mode = match args.mode {
        LampMode::Bidir => Mode::PingLike,
        LampMode::Unidir => Mode::Unidirectional,
    };
    if mode == Mode::Unidirectional {
        if args.timeless || args.follow_up.is_some() {
            bail!(
                "--mode unidir needs the time in each packet, and knows no follow-up: leave out --timeless and --follow-up"
            );
        }
        if s.plan.wait.is_some() {
            bail!("--mode unidir has no answers to wait for: leave out --wait");
        }
    }
    let follow_up = args.follow_up.map(|kind| kind.asked(s.args.stamps));
    let payload = s.size - HEADER_LEN;
    let options = Options { id: s.id, mode, payload, timeless: args.timeless, follow_up };
    let measured = twoway::run(|_| Client::new(options), s.plan.clone(), &s.link, s.stop)?;
    let report = measured.outcome.protocol.report().copied();
    let follows_up = measured.outcome.protocol.follow_up() == FollowUpState::Accepted;
    let mut found = gather(s, measured, remarks);
    let untold = found.records.iter().filter(|r| r.time(Moment::Answered).is_none()).count();
    if follows_up && untold > 0 {
        found.facts().remarks.push(format!(
            "of {untold} answers the server's processing time got lost on the way: their round trips contain it"
        ));
    }
    if let Some(report) = report {
        found.facts().far_report = Some(FarReport::from(&report));
        if report.errors > 0 {
            found.facts().remarks.push(
                "packets with a latency of zero or below bias the mean that LaTe servers report: it is too low".to_owned(),
            );
        }
    } else if mode == Mode::Unidirectional {
        bail!(
            "{}: all {} packets were sent, but the server sent no report: what arrived is not known",
            s.link.to,
            found.requests
        );
    }
    Ok(found)
}

fn remarks(client: &Client) -> Vec<String> {
    use FollowUpState as F;
    match client.follow_up() {
        F::Unasked | F::Asked => Vec::new(),
        F::Accepted => vec!["the server's own processing time is left out of the round trip".to_owned()],
        F::Denied => {
            vec!["the server refuses follow-up: the round trip contains its processing time".to_owned()]
        }
        F::Unanswered => {
            vec![
                "the server does not answer about follow-up: the round trip contains its processing time"
                    .to_owned(),
            ]
        }
    }
}
