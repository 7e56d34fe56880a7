//! `/run`: form that starts a test.

use super::api::{body, runs as read_runs};
use super::start::start;
use super::watched::{RunNow, RunState};
use super::{RunOffer, RunRefusal, RunRequest, api::RunsNow, table};
use crate::access::token_form;
use crate::app::App;
use crate::change::{FormSecret, UserRole};
use crate::page::{self, PageTab};
use crate::problem::Problem;
use crate::query::Query;
use crate::routes::RouteRequest;
use crate::times;
use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use jitlat_archive::Archive;
use jitlat_report::figure::group_thousands;
use maud::{Markup, html};
use std::sync::Arc;

/// Name of the field with the form's secret.
pub const SECRET: &str = "secret";

/// Handler of the form and of its submission.
pub fn asking() -> MethodRouter<Arc<App>> {
    get(
        |State(app): State<Arc<App>>,
         Extension(role): Extension<UserRole>,
         headers: HeaderMap,
         RawQuery(query): RawQuery| async move {
            let query = Query::parse(&query.unwrap_or_default());
            let wanted_test = RunRequest::of_form(|name| query.get(name));
            answer(&app, role, &headers, wanted_test, None).await
        },
    )
    .post(
        |State(app): State<Arc<App>>,
         Extension(role): Extension<UserRole>,
         headers: HeaderMap,
         request: Request| async move {
            let form = match own_form(&app, &headers, request).await {
                Ok(form) => form,
                Err(problem) => return problem.into_response(),
            };
            let wanted_test = RunRequest::of_form(|name| form.get(name));
            match start(&app, wanted_test.clone()).await {
                Ok(run) => to(&format!("/run/{}", run.id)),
                Err(Problem::Refused(refusal)) => {
                    answer(&app, role, &headers, wanted_test, Some(refusal)).await
                }
                Err(problem) => problem.into_response(),
            }
        },
    )
}

/// Handler of the button that stops a test.
pub fn stopping() -> MethodRouter<Arc<App>> {
    post(
        |State(app): State<Arc<App>>, Path(id): Path<String>, headers: HeaderMap, request: Request| async move {
            let stop = async {
                own_form(&app, &headers, request).await?;
                let run = super::api::find(&app, &id)?;
                tracing::info!("web page: stopping test {id}");
                run.stop();
                Ok::<_, Problem>(to(&format!("/run/{}", run.id)))
            };
            stop.await.unwrap_or_else(IntoResponse::into_response)
        },
    )
}

/// Redirects the browser to another page after a change.
pub fn to(address: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, address.to_owned())]).into_response()
}

/// Reads a submitted form; returns an error unless it came from a page of this server.
pub async fn own_form(app: &App, headers: &HeaderMap, request: Request) -> Result<Query, Problem> {
    let body = body(app, request).await?;
    let form = Query::parse(&String::from_utf8_lossy(&body));
    if app.secrets.fits(headers, form.get(SECRET)) {
        return Ok(form);
    }
    tracing::warn!(
        "web page: refused a form that changes something, because it does not come from this server"
    );
    Err(Problem::NotAllowed(
        "This form is outdated, belongs to another server, or the browser blocks cookies. Reload the page."
            .to_owned(),
    ))
}

async fn answer(
    app: &Arc<App>,
    role: UserRole,
    headers: &HeaderMap,
    wanted_test: RunRequest,
    refusal: Option<RunRefusal>,
) -> Response {
    if app.runs.is_none() {
        return off().into_response();
    }
    let status = match refusal {
        None => StatusCode::OK,
        Some(RunRefusal::Field(..)) => StatusCode::BAD_REQUEST,
        Some(RunRefusal::Busy(_)) => StatusCode::CONFLICT,
    };
    let asked = RouteRequest::of(app, role);
    let made = move |archive: &Archive, secret: &str| {
        let all = read_runs(archive, &asked)?;
        Ok(write(&all, secret, &wanted_test, refusal.as_ref()))
    };
    with_secret(app, headers, status, made).await
}

/// Renders a page with a form that contains the secret of the browser.
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

/// Renders the page shown if tests cannot be run, with instructions to allow them.
fn off() -> Html<String> {
    let main = html! {
        p {
            "To turn it on, start the server with " code { "jitlat web ARCHIVE --run" } ", or set " code { "run = true" } " in "
            code { "[web]" } " of a monitor’s file."
        }
    };
    page::page("Run a test", PageTab::Run, &html! { p.what { "Running tests from this page is off" } }, &main)
}

fn write(all: &RunsNow, secret: &str, wanted_test: &RunRequest, refusal: Option<&RunRefusal>) -> String {
    let header = html! { p.what { "From " (all.offer.from) " to another host, watched while it runs" } };
    let main = html! {
        @if let Some(refusal) = refusal {
            p.headline.bad role="alert" #refused { "Test refused: " (refusal.why()) "." }
        }
        @if !all.may_run {
            p { "All readers may watch tests. Starting one needs the token for running tests." }
            (token_form("Continue", "/run"))
        } @else if all.offer.hosts.is_empty() && !all.offer.any_host {
            p.headline.note { "No hosts to test with." }
            p {
                "Hosts are taken from earlier tests in the archive, or from " code { "--run=HOST,…" } "."
            }
        } @else {
            (form(all, secret, wanted_test, refusal))
        }
        (recent(&all.runs))
    };
    page::page("Run a test", PageTab::Run, &header, &main).0
}

/// Renders the form.
fn form(all: &RunsNow, secret: &str, wanted_test: &RunRequest, refusal: Option<&RunRefusal>) -> Markup {
    let wrong = match refusal {
        Some(RunRefusal::Field(field, _)) => field.as_str(),
        _ => "",
    };
    let RunOffer { hosts, tests, profiles, .. } = &all.offer;
    let shown = |host: &super::HostOffer| match (host.name == host.address, host.only_answers) {
        (true, false) => host.name.clone(),
        (true, true) => format!("{} (round trips)", host.name),
        (false, false) => format!("{} ({})", host.name, host.address),
        (false, true) => format!("{} ({}, round trips)", host.name, host.address),
    };
    let far: Vec<(&str, String)> = hosts.iter().map(|host| (host.name.as_str(), shown(host))).collect();
    let meant = hosts
        .iter()
        .find(|host| host.address == wanted_test.host)
        .map_or(&wanted_test.host, |host| &host.name);
    let kinds: Vec<(&str, String)> = tests.iter().map(|test| (test.id.as_str(), test.name.clone())).collect();
    let directions =
        [("both", "both at once"), ("forward", "up: to that host"), ("backward", "down: from that host")]
            .map(|(id, name)| (id, name.to_owned()));
    let mut uses = vec![("", "custom".to_owned())];
    uses.extend(profiles.iter().map(|(name, about)| (name.as_str(), format!("{name}: {about}"))));
    let loads =
        [("", "no"), ("up", "up: to that host"), ("down", "down: from that host"), ("both", "both at once")]
            .map(|(id, name)| (id, name.to_owned()));
    let fields = [
        ("duration", "duration", &wanted_test.duration, "20s"),
        ("packets", "or number of packets", &wanted_test.packets, "1000"),
        ("period", "interval", &wanted_test.period, "20ms"),
        ("size", "payload, bytes", &wanted_test.size, "80"),
    ];
    let limits = &all.limits;
    html! {
        form.asking method="post" action="/run" {
            input type="hidden" name=(SECRET) value=(secret);
            fieldset {
                legend { "What" }
                @if all.offer.any_host {
                    @let (invalid, by) = marked("host", wrong);
                    label for="host" { "to" }
                    " "
                    input #host name="host" value=(meant) list="hosts" required maxlength="255" placeholder="name or address"
                        aria-invalid=[invalid] aria-describedby=[by];
                    datalist #hosts { @for (name, text) in &far { option value=(name) { (text) } } }
                    " "
                } @else {
                    (choice("host", "to", meant, &far, wrong))
                }
                (choice("test", "measure", &wanted_test.test, &kinds, wrong))
                (choice("direction", "direction", &wanted_test.direction, &directions, wrong))
            }
            fieldset {
                legend { "Packets" }
                (choice("profile", "profile", &wanted_test.profile, &uses, wrong))
                @for (name, label, value, example) in fields { (field(name, label, value, example, wrong)) }
            }
            fieldset {
                legend { "Load" }
                (choice("load", "with load", &wanted_test.load, &loads, wrong))
                (field("load_rate", "rate", &wanted_test.load_rate, "5Mbit", wrong))
            }
            p { button { "Start the test" } }
        }
        p.help {
            "The direction applies to one-way tests. Empty fields take the values of the profile; without one, a test sends \
             1000 packets of 80 bytes, one every 20 ms. With load the test runs twice, first idle and then with TCP traffic \
             at this rate in each direction, and both results are stored; it needs jitlat at the far host. Limits: " (limits.at_once) " at a time, "
            (limits.per_hour) " per hour, " (table::seconds((limits.longest_s * 1e9) as i64)) " long, "
            (table::bits(limits.bits_per_second as f64)) " in each direction, "
            (group_thousands(&limits.packets.to_string())) " packets."
        }
    }
}

/// Renders a field for text.
fn field(name: &str, label: &str, value: &str, example: &str, wrong: &str) -> Markup {
    let (invalid, by) = marked(name, wrong);
    html! {
        label for=(name) { (label) }
        " "
        input id=(name) name=(name) value=(value) placeholder=(example) maxlength="32"
            aria-invalid=[invalid] aria-describedby=[by];
        " "
    }
}

/// Renders a list of options, one of which is selected.
fn choice(name: &str, label: &str, value: &str, options: &[(&str, String)], wrong: &str) -> Markup {
    let (invalid, by) = marked(name, wrong);
    html! {
        label for=(name) { (label) }
        " "
        select id=(name) name=(name) aria-invalid=[invalid] aria-describedby=[by] {
            @for (option, text) in options { option value=(option) selected[*option == value] { (text) } }
        }
        " "
    }
}

/// Returns the attributes `aria-invalid` and `aria-describedby` of a field, present if its value was refused.
fn marked(name: &str, wrong: &str) -> (Option<&'static str>, Option<&'static str>) {
    match name == wrong {
        true => (Some("true"), Some("refused")),
        false => (None, None),
    }
}

/// Renders the list of requested tests.
fn recent(runs: &[RunNow]) -> Markup {
    let state = |run: &RunNow| match run.state {
        RunState::Waiting => "waiting",
        RunState::Preparing | RunState::Running | RunState::Collecting => "running",
        RunState::Ended => "ended",
        RunState::Failed => "no result",
    };
    let ago = |run: &RunNow| times::length(times::now().saturating_sub(run.created_ns));
    html! {
        @if !runs.is_empty() {
            section data-live="runs" {
                h2 { "Recent tests" }
                ul {
                    @for run in runs {
                        li {
                            a href={"/run/" (run.id)} { (run.host) " – " (run.about) }
                            ", requested at " (jitlat_archive::utc(run.created_ns)) " (" (ago(run)) " ago): " (state(run))
                        }
                    }
                }
            }
        }
    }
}
