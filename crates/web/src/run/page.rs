//! `/run/ID`: a test while it runs: how far it is, the answer so far, and a pane with the figure that is chosen.

use super::api::find;
use super::form::{SECRET, with_secret};
use super::watched::{RunNow, RunState, RunStream, plot};
use crate::app::App;
use crate::change::Role;
use crate::chart::{share, time};
use crate::page::{self, Tab, encoded};
use crate::problem::Problem;
use crate::query::Query;
use crate::verdict::Verdict;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use jitlat_archive::Archive;
use jitlat_report::figure::{Figure, LIVE_PLOTS, LivePlot, group_thousands};
use jitlat_report::html::scrolling;
use jitlat_report::{draw, escape};
use std::fmt::Write;
use std::sync::Arc;

/// The page.
pub fn watching() -> MethodRouter<Arc<App>> {
    get(
        |State(app): State<Arc<App>>,
         Extension(role): Extension<Role>,
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
                    return Err(Problem::Wrong(format!("plot is one of {known}.")));
                };
                let now = RunNow::of(&run);
                let figures = run.look().figures(plot);
                let may_stop = role == Role::Run;
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
    let mut before = String::new();
    if !over {
        // Without scripts the page is loaded again by itself.
        before.push_str("<noscript><meta http-equiv=\"refresh\" content=\"2\"></noscript>");
    }
    before.push_str(&page::navigation(Tab::Run));
    let page = page::page_after(&before, &format!("A test with {}", now.host), |out| {
        let _ = write!(
            out,
            "<p class=\"what\">{}</p></header>\n<main id=\"main\" data-events=\"/api/v1/runs/{}/events\">\n<div data-live=\"run\">",
            escape(&now.about),
            now.id
        );
        state(out, now);
        reports(out, archive, now);
        out.push_str("</div><div data-live=\"stop\">");
        if let Some(secret) = secret.filter(|_| !over) {
            let _ = write!(
                out,
                "<form method=\"post\" action=\"/run/{}/stop\"><p><input type=\"hidden\" name=\"{SECRET}\" value=\"{secret}\">\
                 <button id=\"stop\">Stop the test</button> What it has measured until then is kept.</p></form>",
                now.id
            );
        }
        out.push_str("</div>");
        selector(out, now, plot);
        pane(out, plot, figures);
        out.push_str("</section><div data-live=\"streams\">");
        streams(out, now);
        out.push_str("</div>");
    });
    page.0
}

/// How far it is.
fn state(out: &mut String, now: &RunNow) {
    let class = match now.state {
        RunState::Failed => "bad",
        RunState::Ended => "good",
        _ => "note",
    };
    let mut said = now.said.clone();
    if let Some(at) = now.starts_ns {
        let left = at.saturating_sub(crate::times::now()).max(0) / 1_000_000_000;
        let _ = write!(said, " That is at {} UTC, in {left} s.", &jitlat_archive::utc(at)[11..]);
    }
    let end = if said.ends_with('.') { "" } else { "." };
    let _ = write!(out, "<p class=\"headline {class}\">{}{end}</p>", escape(&said));
    if let Some(done) = now.done.filter(|_| now.state != RunState::Failed) {
        let _ = write!(
            out,
            "<p><label for=\"done\">{:.0} % of the packets</label> <progress id=\"done\" max=\"100\" value=\"{:.0}\"></progress></p>",
            done * 100.0,
            done * 100.0
        );
    }
    for stream in &now.streams {
        let of = if now.streams.len() == 1 { String::new() } else { format!(", {}", stream.name) };
        // Once it has ended, the reports have the answer.
        let answer = stream.answer.as_deref().zip(stream.severity).filter(|_| now.tests.is_empty());
        if let Some((answer, severity)) = answer {
            let verdict = Verdict::named(severity);
            let begins =
                |text: &str| text.get(..severity.len()).is_some_and(|t| t.eq_ignore_ascii_case(severity));
            // The sign says it already.
            let answer =
                if begins(answer) { answer[severity.len()..].trim_start_matches([':', ' ']) } else { answer };
            let _ = write!(
                out,
                "<p class=\"{}\"><b class=\"level\">{} {}</b> so far{of}: {}</p>",
                verdict.word(),
                verdict.sign(),
                verdict.word(),
                escape(answer)
            );
        }
        if let Some(silence) = stream.silence_s {
            let _ = write!(
                out,
                "<p class=\"bad\"><b class=\"level\">Nothing has arrived for {silence:.0} s{of}.</b></p>"
            );
        }
    }
}

/// Where the results are, once they are in the archive.
fn reports(out: &mut String, archive: &Archive, now: &RunNow) {
    if now.tests.is_empty() {
        return;
    }
    out.push_str("<ul class=\"reports\">");
    for test in &now.tests {
        let listed = archive.find(test).and_then(|id| archive.listed(id));
        let (way, said) = match &listed {
            Ok(listed) => (format!("{} to {}", listed.src, listed.dst), listed.headline.clone()),
            Err(_) => (test.clone(), String::new()),
        };
        let said = if said.is_empty() { said } else { format!(": {said}") };
        let _ = write!(
            out,
            "<li><a href=\"/test/{}\"><b>Report of {}</b></a>{}</li>",
            encoded(test),
            escape(&way),
            escape(&said)
        );
    }
    out.push_str("</ul>");
}

/// The list of figures, above the pane with the one that is chosen.
fn selector(out: &mut String, now: &RunNow, plot: &LivePlot) {
    let _ = write!(
        out,
        "<section class=\"pane\"><h2>While it runs</h2><form class=\"choosing\" data-choose action=\"/run/{}\"><p><label for=\"plot\">Show\
         </label> <select id=\"plot\" name=\"plot\">",
        now.id
    );
    for known in &LIVE_PLOTS {
        let chosen = if known.id == plot.id { " selected" } else { "" };
        let _ = write!(out, "<option value=\"{}\"{chosen}>{}</option>", known.id, escape(known.name));
    }
    out.push_str("</select> <noscript><button>Show</button></noscript></p></form>");
}

/// The figures.
fn pane(out: &mut String, plot: &LivePlot, figures: &[Figure]) {
    out.push_str("<div data-live=\"plot\">");
    if figures.is_empty() {
        let _ = write!(out, "<p class=\"headline note\">{}</p>", escape(plot.needs));
    }
    for figure in figures {
        let _ = write!(
            out,
            "<figure><div class=\"drawn\" tabindex=\"0\" role=\"group\" aria-label=\"{}\">{}</div>",
            escape(&figure.title),
            draw::inline_svg(figure)
        );
        if !figure.about.is_empty() {
            let _ = write!(out, "<p class=\"help\">{}</p>", escape(&figure.about));
        }
        out.push_str("</figure>");
    }
    out.push_str("</div>");
}

/// The figures so far in numbers.
fn streams(out: &mut String, now: &RunNow) {
    if now.streams.is_empty() {
        return;
    }
    out.push_str("<h2>In numbers</h2>");
    scrolling(out, "In numbers", |out| {
        out.push_str("<thead><tr><th scope=\"col\"><span class=\"skip\">stream</span></th>");
        for head in
            ["sent", "arrived", "missing", "loss", "smallest delay", "median", "99 %", "jitter (RFC 3550)"]
        {
            let _ = write!(out, "<th scope=\"col\">{head}</th>");
        }
        out.push_str("</tr></thead><tbody>");
        for s in &now.streams {
            let RunStream { sent, received, missing, packets, .. } = s;
            let count = |n: Option<u64>| n.map_or("–".to_owned(), |n| group_thousands(&n.to_string()));
            let sent = sent.map_or(format!("of {packets}"), |n| format!("{n} of {packets}"));
            let cells = [
                sent,
                count(*received),
                count(*missing),
                share(s.loss),
                time(s.delay_min_ns),
                time(s.delay_median_ns),
                time(s.delay_p99_ns),
                time(s.jitter_ns),
            ];
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(s.name));
            for cell in cells {
                let _ = write!(out, "<td>{}</td>", escape(&cell));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody>");
    });
    let reported = now.streams.iter().any(|s| s.reported && s.received.is_some());
    let raw = now.streams.iter().any(|s| s.raw);
    for (said, text) in [
        (reported, "What arrives at the far host is as it says, once a second; the report has every packet."),
        (raw, "One-way delays contain the difference of the clocks, which is not known well enough here."),
    ] {
        if said {
            let _ = write!(out, "<p class=\"help\">{text}</p>");
        }
    }
}
