//! `/metrics`: totals of all tests ever measured, as counters and histograms, for Prometheus.
//!
//! * [`tally`] – totals of each stream, updated with new tests instead of reading everything again
//! * [`sites`] – totals by site instead, if there are too many streams
//! * [`histogram`] – distributions as classic and native histograms
//! * [`families`] – the samples, with [`pushes`]; [`text`] – as text, or OpenMetrics; [`protobuf`] – with native histograms

mod families;
mod histogram;
mod protobuf;
mod pushes;
mod sites;
mod tally;
mod text;

pub use tally::MetricsTally;

use crate::app::App;
use crate::problem::Problem;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use families::families;
use std::sync::{Arc, PoisonError};
use tokio::sync::Semaphore;

/// Maximum number of streams with samples of their own. More streams are counted together by site.
const MAX_STREAMS: usize = 2000;

/// Format of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricsFormat {
    /// Delimited messages of protobuf.
    Protobuf,
    OpenMetrics,
    Text,
}

impl MetricsFormat {
    /// All formats, the preferred one first.
    const ALL: [MetricsFormat; 3] =
        [MetricsFormat::Protobuf, MetricsFormat::OpenMetrics, MetricsFormat::Text];

    fn kind(self) -> &'static str {
        match self {
            MetricsFormat::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
            MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            MetricsFormat::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// True if a media range, without its weight, names this format.
    fn is(self, range: &str) -> bool {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or("");
        let has = |wanted: &str| range.split(';').any(|part| part.trim().eq_ignore_ascii_case(wanted));
        match self {
            MetricsFormat::Protobuf => {
                kind.eq_ignore_ascii_case("application/vnd.google.protobuf")
                    && has("proto=io.prometheus.client.MetricFamily")
                    && has("encoding=delimited")
            }
            MetricsFormat::OpenMetrics => {
                let other = parts.any(|part| part.starts_with("version=") && part != "version=1.0.0");
                kind.eq_ignore_ascii_case("application/openmetrics-text") && !other
            }
            MetricsFormat::Text => kind.eq_ignore_ascii_case("text/plain"),
        }
    }

    /// Returns the format that a client prefers; text if it accepts none of the others.
    fn wanted(accepted: &str) -> MetricsFormat {
        let weight = |format: MetricsFormat| {
            let ranges = accepted.split(',').filter(|range| format.is(range));
            let weights = ranges.map(|range| {
                let q = range.split(';').find_map(|part| part.trim().strip_prefix("q="));
                q.and_then(|q| q.trim().parse().ok()).unwrap_or(1.0f64)
            });
            weights.fold(0.0, f64::max)
        };
        let known = MetricsFormat::ALL.map(|format| (format, weight(format)));
        let best = known.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
        known
            .iter()
            .find(|(_, weight)| *weight > 0.0 && *weight >= best)
            .map_or(MetricsFormat::Text, |(f, _)| *f)
    }
}

/// Answers with the samples, in the requested format.
pub async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let format = MetricsFormat::wanted(accepted);
    let own = app.clone();
    let made = app.read(move |archive| {
        // Serialise concurrent scrapes, because each updates the tally.
        let mut tally = own.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.update(archive, MAX_STREAMS)?;
        let families = families(&tally, archive)?;
        drop(tally);
        Ok::<Vec<u8>, Problem>(match format {
            MetricsFormat::Protobuf => protobuf::written(&families),
            MetricsFormat::OpenMetrics => text::written(&families, true).into_bytes(),
            MetricsFormat::Text => text::written(&families, false).into_bytes(),
        })
    });
    match made.await {
        Ok(bytes) => ([(header::CONTENT_TYPE, format.kind())], Body::from(bytes)).into_response(),
        Err(problem) => problem.into_response(),
    }
}

/// Reads all tests in advance, because the first scrape would otherwise wait for that. If it fails, the first scrape reads them.
pub async fn prepare(app: Arc<App>) {
    let (own, queue) = (app.clone(), Arc::new(Semaphore::new(1)));
    let reading = app.read_in(queue, move |archive| {
        let mut tally = own.tally.lock().unwrap_or_else(PoisonError::into_inner);
        Ok::<(), Problem>(tally.update(archive, MAX_STREAMS)?)
    });
    let _ = reading.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_is_wanted_most() {
        let protobuf =
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        for (accepted, format) in [
            ("", MetricsFormat::Text),
            ("*/*", MetricsFormat::Text),
            ("text/html,application/xhtml+xml", MetricsFormat::Text),
            (
                "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
                MetricsFormat::OpenMetrics,
            ),
            // Prometheus 2.42, without and with native histograms.
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                MetricsFormat::OpenMetrics,
            ),
            (
                &format!(
                    "{protobuf},application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5"
                ),
                MetricsFormat::Protobuf,
            ),
            (&format!("{protobuf};q=0.3,text/plain;q=0.5"), MetricsFormat::Text),
            (&format!("{protobuf};q=0"), MetricsFormat::Text),
            ("application/vnd.google.protobuf;encoding=text", MetricsFormat::Text),
            ("application/openmetrics-text;version=0.0.1", MetricsFormat::Text),
        ] {
            assert_eq!(MetricsFormat::wanted(accepted), format, "{accepted}");
        }
    }
}
