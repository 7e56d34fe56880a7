//! A test over a WebSocket: plan, requests, report.

use super::server::{BrowserConnection, BrowserState};
use crate::audit;
use crate::clock::{self, steady};
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::browser::{BrowserError, BrowserResult, BrowserTest, MEMORY};
use jitlat_proto::policy::{self, Ask, PolicyRefusal};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time for the plan after the handshake.
const PLAN_LIMIT: Span = Span::seconds(5);
/// Maximum time without a message during a test, in addition to the time between requests.
const SILENCE_LIMIT: Span = Span::seconds(10);
/// Maximum time for the browser to take an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Maximum length of the reason for a close, in bytes (RFC 6455 §5.5).
const MAX_REASON: usize = 120;

/// Reason why a test ended without a report.
#[derive(Debug, thiserror::Error)]
enum EndedTest {
    #[error(transparent)]
    Browser(#[from] BrowserError),
    #[error(transparent)]
    Refused(#[from] PolicyRefusal),
    #[error("the test took longer than allowed, or the browser sent nothing for too long")]
    TooLong,
    #[error("the server needs this connection for other clients, or stops")]
    Evicted,
    #[error("a message of this kind is not part of a test")]
    Kind,
    #[error("{0}")]
    Report(String),
    /// The browser closed the connection, or does not read.
    #[error("the browser closed the connection, or does not read")]
    Left,
}

/// Runs the test of a browser, and closes the WebSocket.
pub async fn run(
    mut socket: WebSocket,
    serving: Arc<BrowserState>,
    connection: BrowserConnection,
    browser: String,
) {
    let ended = conduct(&mut socket, &serving, &connection, &browser).await;
    let (code, reason) = match &ended {
        Ok(()) => (close_code::NORMAL, String::new()),
        Err(EndedTest::Left) => return,
        Err(why) => {
            audit::refused(policy::WEB, connection.peer, why);
            (close_code::POLICY, why.to_string())
        }
    };
    let mut reason = reason;
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    let closed = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
    // A browser that does not read its messages does not receive the reason.
    if tokio::time::timeout(ANSWER_LIMIT, socket.send(closed)).await.is_ok() {
        // The browser closes the connection; without waiting for it, unread bytes would reset it.
        let _ = tokio::time::timeout(Duration::from_secs(1), socket.recv()).await;
    }
}

async fn conduct(
    socket: &mut WebSocket,
    serving: &Arc<BrowserState>,
    connection: &BrowserConnection,
    browser: &str,
) -> Result<(), EndedTest> {
    let BrowserConnection { peer, local, grant } = connection;
    let shared = &serving.shared;
    let Message::Text(plan) = receive(socket, serving, connection, steady() + PLAN_LIMIT).await? else {
        return Err(EndedTest::Kind);
    };
    let mut test = BrowserTest::begin(&plan, steady(), clock::wall())?;
    let session = shared.gate.admit(policy::WEB, peer.ip(), Ask::session(MEMORY), steady())?;
    let bytes = test.spec().payload();
    let packets = test.spec().packets();
    audit::accepted(
        policy::WEB,
        *peer,
        format_args!("a browser's test of {packets} requests of {bytes} bytes"),
    );
    send(socket, Message::text(json!({ "ready": true }).to_string())).await?;
    let longest = shared.policy().duration(policy::WEB);
    let ends = longest.map_or(test.deadline(), |longest| test.deadline().min(steady() + longest));
    let report = loop {
        let until = ends.min(steady() + test.spec().period() + SILENCE_LIMIT);
        match receive(socket, serving, connection, until).await? {
            Message::Binary(request) => {
                test.answer(&request)?;
                await_turn(serving, connection, request.len(), ends).await?;
                session.touch(steady());
                grant.touch(steady());
                send(socket, Message::Binary(request)).await?;
                shared.counters.answered(1);
            }
            Message::Text(report) => break report,
            _ => return Err(EndedTest::Kind),
        }
    };
    let mut result = test.finish(&report, browser, steady())?;
    drop(report);
    let session_facts = &mut result.session;
    (session_facts.src, session_facts.dst) =
        (Some(peer.ip().to_canonical()), Some(local.ip().to_canonical()));
    (session_facts.spec.src_port, session_facts.spec.dst_port) = (peer.port(), local.port());
    let name = serving.report(result).await?;
    drop(session);
    send(socket, Message::text(json!({ "report": format!("/report/{name}") }).to_string())).await
}

impl BrowserState {
    /// Passes a result on, and returns the name of its report. One report is made at a time.
    async fn report(self: &Arc<Self>, result: BrowserResult) -> Result<String, EndedTest> {
        let permit = self.making.clone().acquire_owned().await.map_err(|_| EndedTest::Evicted)?;
        let serving = self.clone();
        let making = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let page = serving.results.report(result)?;
            serving.reports.add(page).map_err(|e| format!("naming the report: {e}"))
        });
        let failed = |_| Err("the thread that made the report failed (a bug in jitlat)".to_owned());
        making.await.unwrap_or_else(failed).map_err(EndedTest::Report)
    }
}

/// Returns the next message that is not part of the WebSocket protocol itself.
async fn receive(
    socket: &mut WebSocket,
    serving: &BrowserState,
    connection: &BrowserConnection,
    until: SteadyTime,
) -> Result<Message, EndedTest> {
    const CHECKED_EVERY: Duration = Duration::from_secs(1);
    loop {
        let left = Duration::from_nanos((until - steady()).0.max(0).unsigned_abs());
        if left.is_zero() {
            return Err(EndedTest::TooLong);
        }
        if connection.grant.is_evicted() || serving.shared.is_stopping() {
            return Err(EndedTest::Evicted);
        }
        match tokio::time::timeout(left.min(CHECKED_EVERY), socket.recv()).await {
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) | Err(_) => {}
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => return Err(EndedTest::Left),
            Ok(Some(Ok(message))) => return Ok(message),
        }
    }
}

/// Sends a message; the test of a browser that does not read it ends.
async fn send(socket: &mut WebSocket, message: Message) -> Result<(), EndedTest> {
    match tokio::time::timeout(ANSWER_LIMIT, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(EndedTest::Left),
    }
}

/// Counts `bytes` against the limits of the client, and waits until they permit them: a request over TCP cannot be dropped.
async fn await_turn(
    serving: &BrowserState,
    connection: &BrowserConnection,
    bytes: usize,
    ends: SteadyTime,
) -> Result<(), EndedTest> {
    while let Err(wait) = serving.shared.take(connection.peer.ip(), bytes, steady()) {
        if steady() >= ends {
            return Err(EndedTest::TooLong);
        }
        tokio::time::sleep(Duration::from_nanos(wait.0.clamp(1_000_000, 1_000_000_000).unsigned_abs())).await;
    }
    Ok(())
}
