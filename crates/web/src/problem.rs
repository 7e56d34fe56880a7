//! [`Problem`]: why there is no answer, as a page or as JSON.

use crate::page::{self, PageTab};
use crate::run::RunRefusal;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jitlat_archive::ArchiveError;
use maud::{Markup, html};

/// Why there is no answer.
#[derive(Debug)]
pub enum Problem {
    /// There is no such thing.
    NotFound(String),
    /// The address says something impossible.
    Wrong(String),
    /// The archive could not be read.
    Failed(String),
    /// Others are being answered.
    Busy,
    /// It took too long.
    TooLong,
    /// The client may not ask for it, or another page made it ask.
    NotAllowed(String),
    /// A test is not made: what is wrong with what was asked for, or that there is no room for it.
    Refused(RunRefusal),
}

impl From<RunRefusal> for Problem {
    fn from(refusal: RunRefusal) -> Problem {
        Problem::Refused(refusal)
    }
}

impl From<ArchiveError> for Problem {
    fn from(e: ArchiveError) -> Problem {
        match e {
            ArchiveError::NoSuchTest { .. } => Problem::NotFound("The archive has no such test.".to_owned()),
            ArchiveError::Ambiguous { count, .. } => Problem::Wrong(format!(
                "{count} tests begin with these digits, or have this name: write more digits."
            )),
            ArchiveError::Usage(text) => Problem::Wrong(format!("{text}.")),
            ArchiveError::Busy { .. } => Problem::Busy,
            other => Problem::Failed(format!("{other}.")),
        }
    }
}

impl Problem {
    /// Status, title and text.
    fn said(&self) -> (StatusCode, &'static str, &str) {
        match self {
            Problem::NotFound(text) => (StatusCode::NOT_FOUND, "There is no such page", text),
            Problem::Wrong(text) => (StatusCode::BAD_REQUEST, "The address cannot be understood", text),
            Problem::Failed(text) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "The archive could not be read", text)
            }
            Problem::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Busy",
                "Others are being answered. Load the page again in a moment.",
            ),
            Problem::TooLong => (
                StatusCode::SERVICE_UNAVAILABLE,
                "This takes too long",
                "The archive did not answer in time. Ask for a shorter time.",
            ),
            Problem::NotAllowed(text) => (StatusCode::FORBIDDEN, "Refused", text),
            Problem::Refused(refusal) => {
                let status = match refusal {
                    RunRefusal::Wish(..) => StatusCode::BAD_REQUEST,
                    RunRefusal::Busy(_) => StatusCode::CONFLICT,
                };
                (status, "The test is not made", refusal.why())
            }
        }
    }

    /// As JSON.
    pub fn json(&self) -> Response {
        let (status, title, text) = self.said();
        let mut body = serde_json::json!({ "error": title, "detail": text });
        if let Problem::Refused(RunRefusal::Wish(field, _)) = self
            && !field.is_empty()
        {
            body["field"] = field.as_str().into();
        }
        let body = body.to_string();
        (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, title, text) = self.said();
        if let Problem::Failed(text) = &self {
            tracing::warn!("page: {text}");
        }
        let main = html! { p { (text) } p { a href="/" { "All paths" } } };
        let page = page::page(title, PageTab::None, &Markup::default(), &main);
        (status, page).into_response()
    }
}
