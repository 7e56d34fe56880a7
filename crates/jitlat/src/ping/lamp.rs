//! LaMP, as LaTe speaks it.

use super::args::LampMode;
use super::measure::{Found, Setting, gather};
use anyhow::{Result, bail};
use jitlat_core::twoway::FarReport;
use jitlat_net::twoway;
use jitlat_net::twoway::client::Progress;
use jitlat_proto::lamp::client::{FollowUpState, Options};
use jitlat_proto::lamp::{Client, FollowUp, Mode, packet::HEADER_LEN};

/// Measures.
pub fn measure(s: &Setting<'_>, show: impl Fn(Progress)) -> Result<Found> {
    let mode = match s.args.mode {
        LampMode::Bidir => Mode::PingLike,
        LampMode::Unidir => Mode::Unidirectional,
    };
    let follow_up = s.args.follow_up.then_some(FollowUp::Application);
    let payload = s.size - HEADER_LEN;
    let options = Options { id: s.id, mode, payload, timeless: false, follow_up };
    let measured = twoway::run(|_| Client::new(options), s.plan.clone(), &s.link, s.stop, show)?;
    let report = measured.outcome.protocol.report().copied();
    let mut found = gather(s, measured, remarks);
    if let Some(report) = report {
        found.facts().far_report = Some(FarReport::from(&report));
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
