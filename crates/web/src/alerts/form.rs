//! Forms of the pages of alerts: acknowledgements, silences and their ends.

use super::silences::{self, Acknowledgement, SilenceRequest, changed};
use super::{AlertPaths, list, one, paths, read};
use crate::access::token_form;
use crate::app::App;
use crate::change::UserRole;
use crate::problem::Problem;
use crate::query::{Query, ZONE};
use crate::run::form::{SECRET, own_form, to, with_secret};
use crate::times;
use crate::zone::PageZone;
use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use jitlat_archive::Alert;
use maud::{Markup, html};
use std::sync::Arc;

/// Address of the page of all alerts; those of single ones are below it.
pub const ALERTS: &str = "/alerts";
/// Maximum number of silences that are read.
const MAX_SILENCES: usize = 500;

/// Rights, secret and time zone of the forms of a page.
pub struct AlertsForm<'a> {
    /// True if the reader may change alerts and silences.
    pub may_change: bool,
    /// True if a token would allow the reader to do so.
    may_log_in: bool,
    secret: &'a str,
    /// Time zone of the page.
    pub zone: &'a PageZone,
}

fn zone_of(headers: &HeaderMap, query: Option<String>) -> Result<PageZone, Problem> {
    Query::parse(&query.unwrap_or_default()).with_zone_of(headers).zone()
}

fn form<'a>(app: &App, role: UserRole, secret: &'a str, zone: &'a PageZone) -> AlertsForm<'a> {
    let may_change = app.may_change_alerts(role);
    AlertsForm { may_change, may_log_in: !may_change && app.runs.is_some(), secret, zone }
}

/// Handler of the page of all alerts, and of the form that makes a silence.
pub fn listing() -> MethodRouter<Arc<App>> {
    get(
        |State(app): State<Arc<App>>,
         Extension(role): Extension<UserRole>,
         headers: HeaderMap,
         RawQuery(query): RawQuery| async move {
            let (own, zone) = (app.clone(), zone_of(&headers, query));
            with_secret(&app, &headers, StatusCode::OK, move |archive, secret| {
                let all = read(archive, &own, times::now())?;
                let silences = archive.silences(MAX_SILENCES)?;
                Ok(list::write(archive, &all, &silences, &form(&own, role, secret, &zone?)))
            })
            .await
        },
    )
    .post(|State(app): State<Arc<App>>, headers: HeaderMap, request: Request| async move {
        let made = async {
            let form = own_form(&app, &headers, request).await?;
            let silence = SilenceRequest::of_form(&form).silence(&form.zone()?)?;
            changed(&app, move |archive| Ok(archive.add_silence(&silence)?)).await?;
            Ok::<_, Problem>(to("/alerts#silences"))
        };
        made.await.unwrap_or_else(IntoResponse::into_response)
    })
}

/// Handler of the page of one alert, and of the form that acknowledges it.
pub fn reading() -> MethodRouter<Arc<App>> {
    get(
        |State(app): State<Arc<App>>,
         Path(id): Path<String>,
         Extension(role): Extension<UserRole>,
         headers: HeaderMap,
         RawQuery(query): RawQuery| async move {
            let (own, zone) = (app.clone(), zone_of(&headers, query));
            with_secret(&app, &headers, StatusCode::OK, move |archive, secret| {
                let none = || Problem::NotFound("There is no such alert.".to_owned());
                let now_ns = times::now();
                let all = read(archive, &own, now_ns)?;
                let alert = all.alerts.iter().find(|alert| alert.id.to_string() == id).ok_or_else(none)?;
                let paths = paths(archive, &id).unwrap_or(AlertPaths { id: alert.id, paths: Vec::new() });
                Ok(one::write(archive, alert, &paths, now_ns, &form(&own, role, secret, &zone?)))
            })
            .await
        },
    )
    .post(
        |State(app): State<Arc<App>>, Path(id): Path<i64>, headers: HeaderMap, request: Request| async move {
            let seen = async {
                let form = own_form(&app, &headers, request).await?;
                let seen = Acknowledgement::of_form(&form);
                changed(&app, move |archive| silences::acknowledge(archive, id, &seen)).await?;
                Ok::<_, Problem>(to(&format!("{ALERTS}/{id}")))
            };
            seen.await.unwrap_or_else(IntoResponse::into_response)
        },
    )
}

/// Handler of the button that ends a silence.
pub fn ending() -> MethodRouter<Arc<App>> {
    post(
        |State(app): State<Arc<App>>, Path(id): Path<i64>, headers: HeaderMap, request: Request| async move {
            let ended = async {
                own_form(&app, &headers, request).await?;
                changed(&app, move |archive| silences::end(archive, id)).await?;
                Ok::<_, Problem>(to(ALERTS))
            };
            ended.await.unwrap_or_else(IntoResponse::into_response)
        },
    )
}

/// Renders a field of a form.
fn field(name: &str, label: &str, value: &str, example: &str) -> Markup {
    html! {
        label for=(name) { (label) } " "
        input id=(name) name=(name) value=(value) placeholder=(example) maxlength="200"; " "
    }
}

impl AlertsForm<'_> {
    /// Renders the form that acknowledges an alert.
    pub fn acknowledge(&self, alert: &Alert) -> Markup {
        if !self.may_change {
            return Markup::default();
        }
        html! {
            form.asking method="post" action={(ALERTS) "/" (alert.id)} {
                input type="hidden" name=(SECRET) value=(self.secret);
                fieldset {
                    legend { "Acknowledge" }
                    label for="seen-by" { "your name" } " "
                    input #seen-by name="by" required maxlength="200" autocomplete="name"; " "
                    label for="seen-note" { "note" } " "
                    input #seen-note name="note" maxlength="200" placeholder="provider informed"; " "
                    span {} button { "Acknowledge" }
                }
            }
        }
    }

    /// Renders the form that makes a silence, of `alert` or with all fields.
    pub fn silence(&self, alert: Option<&Alert>) -> Markup {
        if !self.may_change {
            return html! {
                @if self.may_log_in {
                    h2 { "Silences" }
                    p { "Acknowledging and silencing alerts needs the token for running tests." }
                    (token_form("Continue", ALERTS))
                }
            };
        }
        let (host, site) = match alert {
            Some(alert) if alert.scope == "site" => ("", alert.src.as_str()),
            Some(alert) => (alert.src.as_str(), ""),
            None => ("", ""),
        };
        html! {
            form.asking method="post" action=(ALERTS) {
                input type="hidden" name=(SECRET) value=(self.secret);
                input type="hidden" name=(ZONE) value=(self.zone.name);
                fieldset {
                    legend { "Silence messages, or plan a maintenance" }
                    label for="by" { "your name" } " " input #by name="by" required maxlength="200" autocomplete="name"; " "
                    (field("note", "note", "", "new cables"))
                    label for="from" { "from (" (self.zone.name) ")" } " " input #from type="datetime-local" name="from"; " "
                    label for="for" { "for" } " " input #for name="for" required value="2h" maxlength="32"; " "
                }
                fieldset {
                    legend { "About" }
                    (field("alert", "alert", alert.map_or("", |alert| &alert.alert), "any"))
                    (field("test", "test", alert.map_or("", |alert| &alert.test), "any"))
                    (field("host", "host", host, "any"))
                    (field("site", "site", site, "any"))
                    @if alert.is_none() {
                        label for="everything" { "everything" } " "
                        input #everything type="checkbox" name="everything" value="1"; " "
                    }
                    span {} button { "Silence" }
                }
            }
            p.help { "Without a start, the silence begins now. Alerts are still recorded; those that still fire when it ends are sent then." }
        }
    }

    /// Renders the button that ends a silence.
    pub fn end(&self, id: i64) -> Markup {
        html! {
            form method="post" action={(ALERTS) "/silences/" (id) "/end"} {
                input type="hidden" name=(SECRET) value=(self.secret);
                button aria-label=(format!("End silence {id}")) { "End" }
            }
        }
    }
}
