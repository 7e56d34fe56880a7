//! `/api/v1/silences`, and acknowledgements of alerts: people record what they know about an alert, so that others are
//! not disturbed.

use crate::app::App;
use crate::problem::Problem;
use crate::query::Query;
use crate::run::api::body;
use crate::times;
use crate::zone::PageZone;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use jitlat_archive::{Archive, Silence};
use jitlat_core::quantity;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum number of silences listed.
const MAX_LISTED: usize = 500;
/// Maximum length of a name or a note, in characters.
const MAX_CHARS: usize = 200;
/// Maximum age of the start of a silence that begins now: forms have minutes, and filling in takes a while.
const MAX_PAST_NS: i64 = 10 * times::MINUTE;
/// Maximum length of a silence, in ns.
const MAX_NS: i64 = 366 * times::DAY;

/// Periods in which no message about certain alerts is sent.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Silences {
    /// Time of this document, ns since 1970.
    pub now_ns: i64,
    /// Silences, those that end last first; at most 500. Some may be over.
    pub silences: Vec<Silence>,
}

/// Acknowledgement of an alert.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Acknowledgement {
    /// Name of the person.
    by: String,
    /// Text for others, such as what is being done.
    #[serde(default)]
    note: String,
}

/// Answer to an acknowledgement.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Acknowledged {
    /// Number of the alert.
    alert: i64,
    /// Name of the person.
    acknowledged_by: String,
}

/// Answer after a silence was ended.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndedSilence {
    /// Number of the silence.
    silence: i64,
    /// Always true: the silence has ended.
    ended: bool,
}

/// Request for a silence.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SilenceRequest {
    /// Name of the person.
    by: String,
    /// Text for others, such as the reason.
    #[serde(default)]
    note: String,
    /// Name of the rule; null for all rules.
    alert: Option<String>,
    /// Name of the test; null for all tests.
    test: Option<String>,
    /// Name of a host of the path; null for all hosts.
    host: Option<String>,
    /// Site of a host of the path; null for all sites.
    site: Option<String>,
    /// True to silence everything; needed if neither an alert, a test, a host nor a site is named.
    #[serde(default)]
    everything: bool,
    /// Start, such as `2026-11-23T22:00:00Z`; null for now.
    #[serde(default)]
    from: Option<String>,
    /// Length with a unit, such as `2h`.
    r#for: String,
}

impl SilenceRequest {
    /// Creates the request from the fields of a form; empty fields select nothing.
    pub fn of_form(form: &Query) -> SilenceRequest {
        let of = |name: &str| form.get(name).map(str::to_owned);
        SilenceRequest {
            by: of("by").unwrap_or_default(),
            note: of("note").unwrap_or_default(),
            alert: of("alert"),
            test: of("test"),
            host: of("host"),
            site: of("site"),
            everything: of("everything").is_some(),
            from: of("from"),
            r#for: of("for").unwrap_or_default(),
        }
    }

    /// Checks the request. Times without an offset are those of `zone`.
    ///
    /// # Errors
    /// [`Problem::Wrong`] with the field and what to write.
    pub fn silence(self, zone: &PageZone) -> Result<Silence, Problem> {
        let selects = [&self.alert, &self.test, &self.host, &self.site, &self.from];
        checked([&self.by, &self.note].into_iter().chain(selects.into_iter().flatten()))?;
        self.selects_something()?;
        if self.r#for.trim().parse::<f64>().is_ok() {
            return Err(Problem::Wrong(format!(
                "for: '{0}' has no unit: write {0}h or {0}m.",
                self.r#for.trim()
            )));
        }
        let length = quantity::duration(&self.r#for).map_err(|e| Problem::Wrong(format!("for: {e}.")))?;
        if length.0 > MAX_NS {
            return Err(Problem::Wrong("for: a silence may last at most a year.".to_owned()));
        }
        let now = times::now();
        let from = self.from.as_ref().map(|text| zone.parse(text, now)).transpose()?;
        if from.is_some_and(|from| from < now.saturating_sub(MAX_PAST_NS)) {
            return Err(Problem::Wrong(
                "from: the start is in the past; leave it out for a silence that begins now.".to_owned(),
            ));
        }
        let from_ns = from.unwrap_or(now).max(now);
        if from_ns.saturating_sub(now) > MAX_NS {
            return Err(Problem::Wrong("from: a silence must begin within a year.".to_owned()));
        }
        let SilenceRequest { by: author, note, alert, test, host, site, .. } = self;
        Ok(Silence {
            id: 0,
            alert,
            test,
            host,
            site,
            from_ns,
            until_ns: from_ns.saturating_add(length.0),
            author,
            note,
        })
    }
}

impl SilenceRequest {
    /// Refuses a request whose fields were forgotten, and one that contradicts itself.
    fn selects_something(&self) -> Result<(), Problem> {
        let selects = [&self.alert, &self.test, &self.host, &self.site].iter().any(|field| field.is_some());
        match (selects, self.everything) {
            (false, false) => Err(Problem::Wrong(
                "Choose what to silence: an alert, a test, a host or a site, or everything (in JSON: \"everything\": true)."
                    .to_owned(),
            )),
            (true, true) => Err(Problem::Wrong(
                "everything: leave it out to silence only an alert, a test, a host or a site.".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

impl Acknowledgement {
    /// Creates an acknowledgement from the fields of a form.
    pub fn of_form(form: &Query) -> Acknowledgement {
        let of = |name: &str| form.get(name).unwrap_or_default().to_owned();
        Acknowledgement { by: of("by"), note: of("note") }
    }
}

/// Records who has seen an alert.
pub fn acknowledge(archive: &Archive, id: i64, seen: &Acknowledgement) -> Result<(), Problem> {
    checked([&seen.by, &seen.note])?;
    if archive.acknowledge(id, &seen.by, &seen.note, times::now())? {
        return Ok(());
    }
    Err(Problem::NotFound(format!("There is no alert {id}.")))
}

/// Ends a silence.
pub fn end(archive: &Archive, id: i64) -> Result<(), Problem> {
    if archive.end_silence(id, times::now())? {
        return Ok(());
    }
    Err(Problem::NotFound(format!("There is no silence {id}, or it is over.")))
}

/// Reads the silences.
pub fn read(archive: &Archive, now_ns: i64) -> Result<Silences, Problem> {
    Ok(Silences { now_ns, silences: archive.silences(MAX_LISTED)? })
}

/// Handler that acknowledges an alert.
pub fn acknowledging() -> MethodRouter<Arc<App>> {
    post(|State(app): State<Arc<App>>, Path(id): Path<i64>, request: Request| async move {
        let answer = async {
            let asked: Acknowledgement = parsed(&app, request).await?;
            change(&app, move |archive| {
                acknowledge(archive, id, &asked)?;
                Ok(Acknowledged { alert: id, acknowledged_by: asked.by })
            })
            .await
        };
        answer.await.unwrap_or_else(|problem: Problem| problem.json())
    })
}

/// Handler that makes a silence.
pub fn making() -> MethodRouter<Arc<App>> {
    post(|State(app): State<Arc<App>>, request: Request| async move {
        let answer = async {
            let asked: SilenceRequest = parsed(&app, request).await?;
            let silence = asked.silence(&PageZone::default())?;
            change(&app, move |archive| {
                let id = archive.add_silence(&silence)?;
                Ok(Silence { id, ..silence })
            })
            .await
        };
        answer.await.unwrap_or_else(|problem: Problem| problem.json())
    })
}

/// Handler that ends a silence.
pub fn ending() -> MethodRouter<Arc<App>> {
    post(|State(app): State<Arc<App>>, Path(id): Path<i64>| async move {
        let answer = change(&app, move |archive| {
            end(archive, id)?;
            Ok(EndedSilence { silence: id, ended: true })
        });
        answer.await.unwrap_or_else(|problem: Problem| problem.json())
    })
}

async fn parsed<T: for<'a> Deserialize<'a>>(app: &App, request: Request) -> Result<T, Problem> {
    let body = body(app, request).await?;
    serde_json::from_slice(&body)
        .map_err(|e| Problem::Wrong(format!("The request is not as documented: {e}.")))
}

fn checked<'a>(texts: impl IntoIterator<Item = &'a String>) -> Result<(), Problem> {
    let mut texts = texts.into_iter();
    let is_long = |text: &String| text.chars().count() > MAX_CHARS || text.contains(char::is_control);
    match texts.next() {
        Some(by) if by.trim().is_empty() => {
            Err(Problem::Wrong("by is empty: write who you are, for others to ask.".to_owned()))
        }
        Some(by) if is_long(by) || texts.any(is_long) => {
            Err(Problem::Wrong(format!("Texts have one line of at most {MAX_CHARS} characters.")))
        }
        _ => Ok(()),
    }
}

/// Changes the archive, and answers with JSON.
async fn change<T: Serialize>(
    app: &Arc<App>,
    work: impl FnOnce(&Archive) -> Result<T, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let text = changed(app, move |archive| crate::api::json(&work(archive)?)).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from(text)).into_response())
}

/// Changes the archive.
///
/// # Errors
/// [`Problem::NotAllowed`] if the page shows several archives, and errors of `work`.
pub async fn changed<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&Archive) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    if app.roots.len() > 1 {
        return Err(Problem::NotAllowed(
            "This page shows several archives as one, and cannot change them: use the page of a single archive."
                .to_owned(),
        ));
    }
    let root = app.root.clone();
    app.read(move |_| work(&Archive::open_to_write(&root)?)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_says_what_it_is_about_and_how_long() {
        let made = |form: &str| SilenceRequest::of_form(&Query::parse(form)).silence(&PageZone::default());
        for wrong in [
            "by=ann&for=2h",
            "by=ann&for=2h&host=",
            "by=ann&for=2&host=oslo",
            "by=ann&for=2h&host=oslo&from=2020-01-01",
            "by=ann&for=2h&host=oslo&everything=1",
        ] {
            assert!(matches!(made(wrong), Err(Problem::Wrong(_))), "{wrong}");
        }
        assert!(made("by=ann&for=2h&host=oslo&from=1m").is_ok());
        let all = made("by=ann&for=2h&everything=1").unwrap();
        assert_eq!((all.host, all.until_ns - all.from_ns), (None, 2 * times::HOUR));
    }
}
