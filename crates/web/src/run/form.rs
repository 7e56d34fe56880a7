//! `/run`: where a test is asked for.

use super::api::{body, runs as read_runs};
use super::start::start;
use super::watched::{RunNow, RunState};
use super::{Offer, Refusal, Wish, api::RunsNow, table};
use crate::access::token_form;
use crate::app::App;
use crate::change::{FormSecret, Role};
use crate::page::{self, Tab};
use crate::problem::Problem;
use crate::query::Query;
use crate::routes::Asked;
use crate::times;
use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use jitlat_archive::Archive;
use jitlat_report::escape;
use jitlat_report::figure::group_thousands;
use std::fmt::Write;
use std::sync::Arc;

/// The name of the field with the form's secret.
pub const SECRET: &str = "secret";

/// The form, and what it sends.
pub fn asking() -> MethodRouter<Arc<App>> {
    get(
        |State(app): State<Arc<App>>,
         Extension(role): Extension<Role>,
         headers: HeaderMap,
         RawQuery(query): RawQuery| async move {
            let query = Query::parse(&query.unwrap_or_default());
            let wish = Wish::of_form(|name| query.get(name));
            answer(&app, role, &headers, wish, None).await
        },
    )
    .post(
        |State(app): State<Arc<App>>,
         Extension(role): Extension<Role>,
         headers: HeaderMap,
         request: Request| async move {
            let form = match own_form(&app, &headers, request).await {
                Ok(form) => form,
                Err(problem) => return problem.into_response(),
            };
            let wish = Wish::of_form(|name| form.get(name));
            match start(&app, wish.clone()).await {
                Ok(run) => to(&format!("/run/{}", run.id)),
                Err(Problem::Refused(refusal)) => answer(&app, role, &headers, wish, Some(refusal)).await,
                Err(problem) => problem.into_response(),
            }
        },
    )
}

/// The button that stops a test.
pub fn stopping() -> MethodRouter<Arc<App>> {
    post(
        |State(app): State<Arc<App>>, Path(id): Path<String>, headers: HeaderMap, request: Request| async move {
            let stop = async {
                own_form(&app, &headers, request).await?;
                let run = super::api::find(&app, &id)?;
                tracing::info!("page: test {id} was asked to end");
                run.stop();
                Ok::<_, Problem>(to(&format!("/run/{}", run.id)))
            };
            stop.await.unwrap_or_else(IntoResponse::into_response)
        },
    )
}

fn to(address: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, address.to_owned())]).into_response()
}

/// A form that was sent, if it is one of this server.
async fn own_form(app: &App, headers: &HeaderMap, request: Request) -> Result<Query, Problem> {
    let body = body(app, request).await?;
    let form = Query::parse(&String::from_utf8_lossy(&body));
    if app.secrets.fits(headers, form.get(SECRET)) {
        return Ok(form);
    }
    tracing::warn!("page: a form to start or stop a test was refused: it is none of this server");
    Err(Problem::NotAllowed(
        "This form is not one of this server, or of its last start, or the browser keeps no cookies. Load the page again."
            .to_owned(),
    ))
}

async fn answer(
    app: &Arc<App>,
    role: Role,
    headers: &HeaderMap,
    wish: Wish,
    refusal: Option<Refusal>,
) -> Response {
    if app.runs.is_none() {
        return off().into_response();
    }
    let status = match refusal {
        None => StatusCode::OK,
        Some(Refusal::Wish(..)) => StatusCode::BAD_REQUEST,
        Some(Refusal::Busy(_)) => StatusCode::CONFLICT,
    };
    let asked = Asked::of(app, role);
    let made = move |archive: &Archive, secret: &str| {
        let all = read_runs(archive, &asked)?;
        Ok(write(&all, secret, &wish, refusal.as_ref()))
    };
    with_secret(app, headers, status, made).await
}

/// A page with a form: made with the secret of its browser.
pub async fn with_secret(
    app: &Arc<App>,
    headers: &HeaderMap,
    status: StatusCode,
    make: impl FnOnce(&Archive, &str) -> Result<String, Problem> + Send + 'static,
) -> Response {
    let Some(FormSecret { secret, set_cookie }) = app.secrets.for_form(headers) else {
        return Problem::Failed("The system has no random numbers.".to_owned()).into_response();
    };
    match app.read(move |archive| make(archive, &secret)).await {
        Ok(page) => {
            let mut response = (status, Html(page)).into_response();
            if let Some(value) = set_cookie.and_then(|cookie| cookie.parse().ok()) {
                response.headers_mut().insert(header::SET_COOKIE, value);
            }
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// That running tests is off, and how to turn it on.
fn off() -> Html<String> {
    page::page("Run a test", Tab::Run, |out| {
        out.push_str(
            "<p class=\"what\">Running tests from this page is off</p></header>\n<main id=\"main\">\n\
             <p>Who started the page can allow it: <code>jitlat web ARCHIVE --run</code>, or <code>run = true</code> in \
             <code>[web]</code> of a monitor’s file. Until then nothing can be changed through it.</p>",
        );
    })
}

fn write(all: &RunsNow, secret: &str, wish: &Wish, refusal: Option<&Refusal>) -> String {
    let page = page::page("Run a test", Tab::Run, |out| {
        let from = escape(&all.offer.from);
        let _ = write!(
            out,
            "<p class=\"what\">From {from} to another host, watched while it runs</p></header>\n<main id=\"main\">\n"
        );
        if let Some(refusal) = refusal {
            let said = escape(refusal.why());
            let _ = write!(
                out,
                "<p class=\"headline bad\" role=\"alert\" id=\"refused\">The test is not made: {said}.</p>"
            );
        }
        if !all.may_run {
            out.push_str(
                "<p>Everybody who reads this may watch tests. Starting one takes the token for it.</p>",
            );
            token_form(out, "Go on", "/run");
        } else if all.offer.hosts.is_empty() {
            out.push_str(
                "<p class=\"headline note\">There is no host to test with.</p><p>Hosts are those that the archive knows from \
                 earlier tests, or those that <code>--run=HOST,…</code> names.</p>",
            );
        } else {
            form(out, all, secret, wish, refusal);
        }
        recent(out, &all.runs);
    });
    page.0
}

/// The form.
fn form(out: &mut String, all: &RunsNow, secret: &str, wish: &Wish, refusal: Option<&Refusal>) {
    let wrong = match refusal {
        Some(Refusal::Wish(field, _)) => field.as_str(),
        _ => "",
    };
    let marked = |name: &str| match name == wrong {
        true => " aria-invalid=\"true\" aria-describedby=\"refused\"",
        false => "",
    };
    let Offer { hosts, tests, profiles, .. } = &all.offer;
    let _ = write!(
        out,
        "<form class=\"asking\" method=\"post\" action=\"/run\"><input type=\"hidden\" name=\"{SECRET}\" value=\"{secret}\">\
         <fieldset><legend>What</legend>"
    );
    let choice = |out: &mut String, name: &str, label: &str, value: &str, options: &[(&str, String)]| {
        let _ = write!(
            out,
            "<label for=\"{name}\">{label}</label> <select id=\"{name}\" name=\"{name}\"{}>",
            marked(name)
        );
        for (option, text) in options {
            let chosen = if *option == value { " selected" } else { "" };
            let _ = write!(out, "<option value=\"{}\"{chosen}>{}</option>", escape(option), escape(text));
        }
        out.push_str("</select> ");
    };
    let shown = |host: &super::HostOffer| match (host.name == host.address, host.only_answers) {
        (true, false) => host.name.clone(),
        (true, true) => format!("{} (round trips)", host.name),
        (false, false) => format!("{} ({})", host.name, host.address),
        (false, true) => format!("{} ({}, round trips)", host.name, host.address),
    };
    let list: Vec<(&str, String)> = hosts.iter().map(|host| (host.name.as_str(), shown(host))).collect();
    let meant = hosts.iter().find(|host| host.address == wish.host).map_or(&wish.host, |host| &host.name);
    choice(out, "host", "to", meant, &list);
    let list: Vec<(&str, String)> = tests.iter().map(|test| (test.id.as_str(), test.name.clone())).collect();
    choice(out, "test", "measure", &wish.test, &list);
    let ways = [("both", "both at once"), ("forward", "to that host"), ("backward", "from that host")];
    choice(out, "direction", "direction", &wish.direction, &ways.map(|(id, name)| (id, name.to_owned())));
    out.push_str("</fieldset><fieldset><legend>Packets</legend>");
    let mut list = vec![("", "as written below".to_owned())];
    list.extend(profiles.iter().map(|(name, about)| (name.as_str(), format!("{name}: {about}"))));
    choice(out, "profile", "as those of", &wish.profile, &list);
    let fields = [
        ("duration", "for", &wish.duration, "10s"),
        ("packets", "or packets", &wish.packets, "500"),
        ("period", "one every", &wish.period, "20ms"),
        ("size", "payload, bytes", &wish.size, "80"),
    ];
    for (name, label, value, example) in fields {
        let _ = write!(
            out,
            "<label for=\"{name}\">{label}</label> <input id=\"{name}\" name=\"{name}\" value=\"{}\" placeholder=\"{example}\" \
             maxlength=\"32\"{}> ",
            escape(value),
            marked(name)
        );
    }
    let limits = &all.limits;
    let _ = write!(
        out,
        "</fieldset><p><button>Start the test</button></p></form><p class=\"help\">A direction is for one-way tests; round trips \
         have both. What is left empty is as an application sends it that is named, otherwise 1000 packets of 80 bytes, one in \
         20 ms. At most {} at a time, {} an hour, {} long, {} in each direction, {} packets.</p>",
        limits.at_once,
        limits.per_hour,
        table::seconds((limits.longest_s * 1e9) as i64),
        table::bits(limits.bits_per_second as f64),
        group_thousands(&limits.packets.to_string()),
    );
}

/// Tests that were asked for.
fn recent(out: &mut String, runs: &[RunNow]) {
    if runs.is_empty() {
        return;
    }
    out.push_str("<section data-live=\"runs\"><h2>Since this page was started</h2><ul>");
    for run in runs {
        let state = match run.state {
            RunState::Waiting => "waits",
            RunState::Preparing | RunState::Running | RunState::Collecting => "under way",
            RunState::Ended => "ended",
            RunState::Failed => "no result",
        };
        let at = jitlat_archive::utc(run.created_ns);
        let ago = times::length(times::now().saturating_sub(run.created_ns));
        let _ = write!(
            out,
            "<li><a href=\"/run/{}\">{} – {}</a>, asked for at {at} ({ago} ago): {state}</li>",
            run.id,
            escape(&run.host),
            escape(&run.about)
        );
    }
    out.push_str("</ul></section>");
}
