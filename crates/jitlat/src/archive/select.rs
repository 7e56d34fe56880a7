//! Options that select tests of an archive, and the format in which they are printed.

use super::now;
use anyhow::Result;
use clap::Args;
use core::str::FromStr;
use jitlat_archive::show::Form;
use jitlat_archive::{ArchiveError, Endpoints, Filter, WeekHours, When, Zone};
use jitlat_core::answer::Severity;
use jitlat_core::scalars::Selector;
use jitlat_core::{Dscp, quantity};

/// A date, an instant or an age as typed; it is converted later, when the time zone (another option) is known.
#[derive(Clone, Debug)]
pub(super) struct DateOrAge(String);

impl FromStr for DateOrAge {
    type Err = ArchiveError;

    fn from_str(text: &str) -> Result<DateOrAge, ArchiveError> {
        When::parse(text, now()).map(|_| DateOrAge(text.to_owned()))
    }
}

impl DateOrAge {
    /// Returns the time; a date begins in `zone`.
    pub(super) fn resolve(&self, zone: &Zone) -> Result<When, ArchiveError> {
        When::parse_in(&self.0, now(), zone)
    }
}

/// Selection of tests.
#[derive(Clone, Debug, Args)]
pub(super) struct FilterArgs {
    /// Only tests that started at this time or later: a date, or an age (36h, 7d)
    ///
    /// For example 2026-11-23, 2026-11-23T10:00, 2026-11-23T10:00:00Z, 36h or 7d.
    #[arg(long, value_name = "TIME")]
    since: Option<DateOrAge>,
    /// Only tests that started before this time
    #[arg(long, value_name = "TIME")]
    before: Option<DateOrAge>,
    #[command(flatten)]
    traffic: TrafficArgs,
}

/// Selection of tests by hosts, traffic, verdict and hours of the week.
#[derive(Clone, Debug, Args)]
pub(super) struct TrafficArgs {
    /// Only tests from host A to host B, by address or name; either may be left out
    #[arg(long, value_name = "A:B")]
    path: Option<Endpoints>,
    /// Only tests with a host that has this label of the monitor's file: site=oslo
    ///
    /// May be repeated. `site` of [[host]] is such a label, and so are those in `labels`.
    #[arg(long = "label", value_name = "K=V", value_parser = quantity::tag)]
    labels: Vec<(String, String)>,
    /// Only tests with these protocols, as `ls` prints them: udp, tcp, stamp, …
    #[arg(long = "proto", value_name = "NAMES", value_delimiter = ',')]
    protocols: Vec<String>,
    /// Only tests with these DSCPs, numbers or names such as EF
    #[arg(long = "dscp", value_name = "DSCPS", value_delimiter = ',')]
    dscps: Vec<Dscp>,
    /// Only tests with these verdicts: good, fair, poor, bad, unknown
    #[arg(long = "severity", value_name = "NAMES", value_delimiter = ',', value_parser = severity)]
    severities: Vec<Severity>,
    /// Only tests that started in these hours of the week: mon-fri,08:00-18:00
    ///
    /// The hours are in the time zone of --tz. 22:00-06:00 means every night, sat,sun means whole days.
    #[arg(long, value_name = "HOURS")]
    hours: Option<WeekHours>,
    /// Time zone of dates, periods and hours: Europe/Oslo, or an offset such as +05:30
    ///
    /// Default: UTC.
    #[arg(
        long,
        value_name = "ZONE",
        default_value = "UTC",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    tz: Zone,
}

/// Options for the output format; the default is text.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct FormArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

fn severity(text: &str) -> Result<Severity, String> {
    Severity::named(text)
        .ok_or_else(|| format!("'{text}' is not a verdict: choose good, fair, poor, bad or unknown"))
}

/// Reads the name of a figure from a list, in which a space may follow a comma.
pub(super) fn figure(text: &str) -> Result<Selector, <Selector as FromStr>::Err> {
    text.trim().parse()
}

impl TrafficArgs {
    /// Returns the filter without times.
    pub(super) fn filter(&self, tags: &[(String, String)]) -> Filter {
        Filter {
            path: self.path.clone(),
            since: None,
            before: None,
            tags: tags.to_vec(),
            labels: self.labels.clone(),
            protocols: self.protocols.clone(),
            dscps: self.dscps.iter().map(|dscp| dscp.value()).collect(),
            severities: self.severities.clone(),
            hours: self.hours.clone().map(|hours| hours.in_zone(self.tz.clone())),
        }
    }

    pub(super) fn zone(&self) -> &Zone {
        &self.tz
    }
}

impl FilterArgs {
    pub(super) fn filter(&self, tags: &[(String, String)]) -> Result<Filter, ArchiveError> {
        let when = |time: &Option<DateOrAge>| time.as_ref().map(|time| time.resolve(self.zone())).transpose();
        Ok(Filter { since: when(&self.since)?, before: when(&self.before)?, ..self.traffic.filter(tags) })
    }

    pub(super) fn zone(&self) -> &Zone {
        self.traffic.zone()
    }
}

impl FormArgs {
    pub(super) fn form(self) -> Form {
        match self {
            FormArgs { json: true, .. } => Form::Json,
            FormArgs { csv: true, .. } => Form::Csv,
            FormArgs { .. } => Form::Text,
        }
    }
}
