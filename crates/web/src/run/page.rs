//! `/run/ID`: a running test, with its progress, the verdict so far, and a pane with the selected figure.

use super::api::find;
use super::form::{SECRET, with_secret};
use super::watched::{RunNow, RunState, RunStream, plot};
use crate::app::App;
use crate::change::UserRole;
use crate::numbers::{share, time};
use crate::page::{self, PageTab, encoded};
use crate::problem::Problem;
use crate::query::Query;
use crate::verdict::TestVerdict;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use jitlat_archive::Archive;
use jitlat_core::load::TestPhase;
use jitlat_report::draw;
use jitlat_report::figure::{Figure, LIVE_PLOTS, LivePlot, group_thousands};
use jitlat_report::html::scrolling;
use maud::{Markup, PreEscaped, html};
use std::fmt::Write;
use std::sync::Arc;

/// Handler of the page.
pub fn watching() -> MethodRouter<Arc<App>> {
    get(
        |State(app): State<Arc<App>>,
         Extension(role): Extension<UserRole>,
         Path(id): Path<String>,
         headers: HeaderMap,
         RawQuery(query): RawQuery| async move {
            let query = Query::parse(&query.unwrap_or_default());
            let run = match find(&app, &id) {
                Ok(run) => run,
                Err(problem) => return problem.into_response(),
            };
            let made = move |archive: &Archive, secret: &str| {
                let Some(plot) = plot(query.get("plot")) else {
                    let known = LIVE_PLOTS.map(|plot| plot.id).join(", ");
                    return Err(Problem::Wrong(format!("plot must be one of {known}.")));
                };
                let now = RunNow::of(&run);
                let figures = run.look().figures(plot);
                let may_stop = role == UserRole::Run;
                Ok(write(archive, &now, plot, &figures, may_stop.then_some(secret)))
            };
            with_secret(&app, &headers, StatusCode::OK, made).await
        },
    )
}

fn write(
    archive: &Archive,
    now: &RunNow,
    plot: &LivePlot,
    figures: &[Figure],
    secret: Option<&str>,
) -> String {
    let over = matches!(now.state, RunState::Ended | RunState::Failed);
    let before = html! {
        @if !over {
            // If scripts are off, the page reloads itself.
            noscript { meta http-equiv="refresh" content="2"; }
        }
        (page::navigation(PageTab::Run))
    };
    let main = html! {
        main #main data-events={"/api/v1/runs/" (now.id) "/events"} {
            div data-live="run" {
                (state(now))
                (reports(archive, now))
            }
            div data-live="stop" {
                @if let Some(secret) = secret.filter(|_| !over) { (stop(now, secret)) }
            }
            section.pane {
                (selector(now, plot))
                (pane(plot, figures))
            }
            div data-live="streams" { (streams(now)) }
        }
    };
    let header = html! { p.what { (now.about) } };
    page::page_in(&before, &format!("Test with {}", now.host), &header, &main).0
}

fn stop(now: &RunNow, secret: &str) -> Markup {
    html! {
        form method="post" action={"/run/" (now.id) "/stop"} {
            p {
                input type="hidden" name=(SECRET) value=(secret);
                button #stop { "Stop the test" }
                " Results so far are stored."
            }
        }
    }
}

/// Renders the progress, and the verdict so far.
fn state(now: &RunNow) -> Markup {
    let class = match now.state {
        RunState::Failed => "bad",
        RunState::Ended => "good",
        _ => "note",
    };
    let mut said = now.said.clone();
    if let Some(at) = now.starts_ns {
        let left = at.saturating_sub(crate::times::now()).max(0) / 1_000_000_000;
        let _ = write!(said, " Start: {} UTC, in {left} s.", &jitlat_archive::utc(at)[11..]);
    }
    html! {
        p.headline.(class) { (said) @if !said.ends_with('.') { "." } }
        @if let Some(done) = now.done.filter(|_| now.state != RunState::Failed) {
            @let percent = format!("{:.0}", done * 100.0);
            p {
                label for="done" { (percent) " % of the packets" }
                " "
                progress #done max="100" value=(percent) {}
            }
        }
        @for stream in &now.streams { (so_far(now, stream)) }
    }
}

/// Renders the verdict of a stream so far, and a warning if nothing arrives.
fn so_far(now: &RunNow, stream: &RunStream) -> Markup {
    let of = if now.streams.len() == 1 { String::new() } else { format!(", {}", stream.name) };
    // After the end, the reports show the verdict.
    let answer = stream.answer.as_deref().zip(stream.severity).filter(|_| now.tests.is_empty());
    html! {
        @if let Some((answer, severity)) = answer {
            @let verdict = TestVerdict::named(severity);
            p.(verdict.word()) {
                b.level { (verdict.sign()) " " (verdict.word()) }
                " so far" (of) ": " (without_word(answer, severity))
            }
        }
        @if let Some(silence) = stream.silence_s {
            p.bad { b.level { "Nothing received for " (format!("{silence:.0}")) " s" (of) "." } }
        }
    }
}

/// Removes the word for the severity from a verdict, because the sign before it already shows it.
fn without_word<'a>(answer: &'a str, severity: &str) -> &'a str {
    match answer.get(..severity.len()) {
        Some(word) if word.eq_ignore_ascii_case(severity) => {
            answer[severity.len()..].trim_start_matches([':', ' '])
        }
        _ => answer,
    }
}

/// Renders links to the results, once they are in the archive.
fn reports(archive: &Archive, now: &RunNow) -> Markup {
    let report = |test: &String| {
        let found = archive.find(test);
        let load = found.as_ref().ok().and_then(|id| archive.session(*id).ok()?.load);
        let phase = load.map_or("", |load| match load.phase {
            TestPhase::Idle => ", idle",
            TestPhase::Loaded => ", under load",
        });
        let listed = found.and_then(|id| archive.listed(id));
        let (path, headline) = match &listed {
            Ok(listed) => (format!("{} to {}", listed.src, listed.dst), listed.headline.clone()),
            Err(_) => (test.clone(), String::new()),
        };
        html! {
            li {
                a href={"/test/" (encoded(test))} { b { "Report of " (path) (phase) } }
                @if !headline.is_empty() { ": " (headline) }
            }
        }
    };
    html! {
        @if !now.tests.is_empty() {
            ul.reports { @for test in &now.tests { (report(test)) } }
        }
    }
}

/// Renders the list of figures, above the pane with the selected one.
fn selector(now: &RunNow, plot: &LivePlot) -> Markup {
    html! {
        h2 { "Live view" }
        form.choosing data-choose action={"/run/" (now.id)} {
            p {
                label for="plot" { "Show" }
                " "
                select #plot name="plot" {
                    @for known in &LIVE_PLOTS {
                        option value=(known.id) selected[known.id == plot.id] { (known.name) }
                    }
                }
                " "
                noscript { button { "Show" } }
            }
        }
    }
}

/// Renders the pane with the figures.
fn pane(plot: &LivePlot, figures: &[Figure]) -> Markup {
    html! {
        div data-live="plot" {
            @if figures.is_empty() { p.headline.note { (plot.needs) } }
            @for figure in figures {
                figure {
                    div.drawn tabindex="0" role="group" aria-label=(figure.title) {
                        (PreEscaped(draw::inline_svg(figure)))
                    }
                    @if !figure.about.is_empty() { p.help { (figure.about) } }
                }
            }
        }
    }
}

/// Renders the table of the figures so far.
fn streams(now: &RunNow) -> Markup {
    if now.streams.is_empty() {
        return Markup::default();
    }
    let columns =
        ["sent", "received", "missing", "loss", "smallest delay", "median", "p99", "jitter (RFC 3550)"];
    let rows = html! {
        thead {
            tr {
                th scope="col" { span.skip { "stream" } }
                @for column in columns { th scope="col" { (column) } }
            }
        }
        tbody {
            @for s in &now.streams {
                tr {
                    th scope="row" { (s.name) }
                    @for cell in cells(s) { td { (cell) } }
                }
            }
        }
    };
    let reported = now.streams.iter().any(|s| s.reported && s.received.is_some());
    let raw = now.streams.iter().any(|s| s.raw);
    html! {
        h2 { "Figures" }
        (scrolling("Figures", &rows))
        @if reported {
            p.help { "Packets received by the far host are reported once per second; the final report has every packet." }
        }
        @if raw {
            p.help { "One-way delays include the clock offset, which is not known precisely enough." }
        }
    }
}

fn cells(s: &RunStream) -> [String; 8] {
    let RunStream { sent, received, missing, packets, .. } = s;
    let count = |n: Option<u64>| n.map_or("–".to_owned(), |n| group_thousands(&n.to_string()));
    [
        sent.map_or(format!("of {packets}"), |n| format!("{n} of {packets}")),
        count(*received),
        count(*missing),
        share(s.loss),
        time(s.delay_min_ns),
        time(s.delay_median_ns),
        time(s.delay_p99_ns),
        time(s.jitter_ns),
    ]
}
