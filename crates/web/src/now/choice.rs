//! [`OverviewChoice`]: paths, order and metric that the reader of the overview has chosen, from the parameters of the address.

use super::StreamNow;
use super::metric::{CellMetric, METRICS};
use crate::query::Query;
use crate::verdict::TestVerdict;
use jitlat_archive::ReportedSlot;
use maud::{Markup, html};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Order of the paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathOrder {
    /// By the names of the hosts.
    #[default]
    Name,
    /// The worst first.
    Worst,
    /// The largest value of the metric first.
    Value,
}

/// Orders with their names in addresses, and their titles.
const ORDERS: [(PathOrder, &str, &str); 3] = [
    (PathOrder::Name, "name", "by name"),
    (PathOrder::Worst, "worst", "worst first"),
    (PathOrder::Value, "value", "largest value first"),
];

/// Paths, order and metric that the reader has chosen.
#[derive(Clone, Debug, Default)]
pub struct OverviewChoice {
    pub metric: CellMetric,
    pub order: PathOrder,
    /// Part of the name or address of one end; empty: any.
    pub host: String,
    /// Site of one end; empty: any.
    pub site: String,
    /// Verdict; `None`: any.
    pub verdict: Option<TestVerdict>,
}

impl OverviewChoice {
    /// Reads the parameters of an address. Unknown values are ignored.
    pub fn new(query: &Query) -> OverviewChoice {
        let text = |name: &str| query.get(name).unwrap_or_default().to_owned();
        let order = query.get("sort").and_then(|name| ORDERS.iter().find(|(_, known, _)| *known == name));
        OverviewChoice {
            metric: CellMetric::named(query.get("show")),
            order: order.map_or(PathOrder::default(), |(order, _, _)| *order),
            host: text("name"),
            site: text("site"),
            verdict: query
                .get("verdict")
                .and_then(|word| TestVerdict::ALL.into_iter().find(|verdict| verdict.word() == word)),
        }
    }

    /// True if `stream` is to be shown.
    pub fn accepts(&self, stream: &StreamNow) -> bool {
        let wanted = self.host.to_lowercase();
        let ends = [&*stream.stream.src, stream.src(), &*stream.stream.dst, stream.dst()];
        let sites = [&stream.src_site, &stream.dst_site];
        ends.iter().any(|end| end.to_lowercase().contains(&wanted))
            && (self.site.is_empty() || sites.iter().any(|site| site.as_ref() == Some(&self.site)))
            && self.verdict.is_none_or(|verdict| stream.verdict == verdict)
    }

    /// True if a path without tests is to be shown.
    pub fn accepts_unmeasured(&self, report: &ReportedSlot) -> bool {
        let wanted = self.host.to_lowercase();
        let ends = [&report.client, &report.server];
        ends.iter().any(|end| end.to_lowercase().contains(&wanted))
            && self.site.is_empty()
            && self.verdict.is_none()
    }

    /// True if some streams may be left out.
    pub fn is_limited(&self) -> bool {
        !self.host.is_empty() || !self.site.is_empty() || self.verdict.is_some()
    }

    /// Returns the address of the same page with another metric or site.
    pub fn address(&self, metric: CellMetric, site: &str) -> String {
        let order =
            ORDERS.iter().find(|(order, _, _)| *order == self.order).map_or("name", |(_, name, _)| name);
        let mut address = format!("/?show={}&sort={order}", metric.tab().name);
        let verdict = self.verdict.map_or("", TestVerdict::word);
        for (name, value) in [("name", &*self.host), ("site", site), ("verdict", verdict)] {
            if !value.is_empty() {
                let _ = write!(address, "&{name}={}", crate::page::encoded(value));
            }
        }
        address
    }

    /// Renders the tabs of the metrics.
    pub fn tabs(&self) -> Markup {
        html! {
            nav aria-label="Numbers" {
                ul.steps {
                    @for tab in &METRICS {
                        li {
                            a href=(self.address(tab.metric, &self.site))
                                aria-current=[(tab.metric == self.metric).then_some("true")] { (tab.title) }
                        }
                    }
                }
            }
        }
    }

    /// Renders the form that limits and sorts the paths. Without the script, the button applies it.
    pub fn form(&self, sites: &BTreeSet<&str>) -> Markup {
        let verdict = self.verdict.map(TestVerdict::word);
        html! {
            form.choosing.limits action="/" data-choose {
                input type="hidden" name="show" value=(self.metric.tab().name);
                label { "Host " input type="search" name="name" value=(self.host) size="14"; } " "
                @if !sites.is_empty() {
                    label { "Site "
                        select name="site" {
                            option value="" { "all" }
                            @for site in sites { option value=(site) selected[**site == self.site] { (site) } }
                        }
                    } " "
                }
                label { "Verdict "
                    select name="verdict" {
                        option value="" { "all" }
                        @for of in TestVerdict::ALL {
                            option value=(of.word()) selected[verdict == Some(of.word())] { (of.word()) }
                        }
                    }
                } " "
                label { "Order "
                    select name="sort" {
                        @for (order, name, title) in ORDERS {
                            option value=(name) selected[order == self.order] { (title) }
                        }
                    }
                } " "
                button { "Show" }
            }
        }
    }
}
