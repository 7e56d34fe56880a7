//! [`Problem`]: error answers, as a page or as JSON.

use crate::page::{self, PageTab};
use crate::run::RunRefusal;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jitlat_archive::ArchiveError;
use maud::{Markup, html};

/// Reason for an error answer.
#[derive(Debug)]
pub enum Problem {
    /// The requested object does not exist.
    NotFound(String),
    /// The address contains an invalid value.
    Wrong(String),
    /// The archive could not be read.
    Failed(String),
    /// Too many other requests are being answered.
    Busy,
    /// The client already has as many requests of this kind open as one client may have.
    TooMany(String),
    /// Reading the archive took too long.
    TooLong,
    /// The client is not authorised, or a page of another site caused the request.
    NotAllowed(String),
    /// A test is refused because the request is invalid or no capacity is free.
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
                "{count} tests begin with these digits or have this name: give more digits."
            )),
            ArchiveError::Usage(text) => Problem::Wrong(format!("{text}.")),
            ArchiveError::Busy { .. } => Problem::Busy,
            other => Problem::Failed(format!("{other}.")),
        }
    }
}

impl Problem {
    /// Returns status, title and text of the answer.
    fn said(&self) -> (StatusCode, &'static str, &str) {
        match self {
            Problem::NotFound(text) => (StatusCode::NOT_FOUND, "Not found", text),
            Problem::Wrong(text) => (StatusCode::BAD_REQUEST, "Invalid request", text),
            Problem::Failed(text) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "The archive could not be read", text)
            }
            Problem::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Busy",
                "The server is answering other requests. Reload the page in a moment.",
            ),
            Problem::TooMany(text) => (StatusCode::TOO_MANY_REQUESTS, "Too many", text),
            Problem::TooLong => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Timeout",
                "Reading the archive took too long. Choose a shorter period.",
            ),
            Problem::NotAllowed(text) => (StatusCode::FORBIDDEN, "Refused", text),
            Problem::Refused(refusal) => {
                let status = match refusal {
                    RunRefusal::Field(..) => StatusCode::BAD_REQUEST,
                    RunRefusal::Busy(_) => StatusCode::CONFLICT,
                };
                (status, "Test refused", refusal.why())
            }
        }
    }

    /// Returns the answer as JSON.
    pub fn json(&self) -> Response {
        let (status, title, text) = self.said();
        let mut body = serde_json::json!({ "error": title, "detail": text });
        if let Problem::Refused(RunRefusal::Field(field, _)) = self
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
            tracing::warn!("web page: {text}");
        }
        let main = html! { p { (text) } p { a href="/" { "All paths" } } };
        let page = page::page(title, PageTab::None, &Markup::default(), &main);
        (status, page).into_response()
    }
}
