//! [`PushClient`]: a connection to a collector. Its token or certificate is sent only after the collector's certificate was checked.

use crate::client::{ByteStream, PostError, Trusted};
use crate::identity::{Fingerprint, Identity};
use crate::server::readable;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use hyper::body::Frame;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use jitlat_archive::SharedMessage;
use jitlat_core::Span;
use jitlat_proto::push::answer::{ErrorAnswer, Known, Offers, PartAnswer, PartAnswers, pause};
use jitlat_proto::push::part::PartHeader;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::timeout;

/// Timeout for connecting and checking the certificate.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for an answer. Analysing and storing many tests takes a while.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Time that a request under way has left when the program is stopped.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// Length of the pieces of a long log, in bytes.
const PIECE: usize = 64 << 10;
/// Maximum length of an answer, in bytes.
const MAX_ANSWER: usize = 1 << 20;

/// Method by which a collector's certificate is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushTrust {
    /// An authority that this system trusts has signed it.
    System,
    /// An authority in this file (PEM) has signed it.
    CaFile(PathBuf),
    /// It has this fingerprint.
    Pin(Fingerprint),
    /// No check: the connection has no TLS.
    Plain,
}

/// Address of a collector, and the check of its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushTarget {
    /// Address or host name.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Beginning of the path of every request, for a proxy in front of the collector; usually empty.
    pub prefix: String,
    /// Method by which its certificate is checked.
    pub trust: PushTrust,
}

/// Proof that a request is from a host.
#[derive(Clone, Debug)]
pub enum PushCredential {
    /// A token, which every request contains.
    Token(String),
    /// A certificate, which the connection shows.
    Certificate(Identity),
}

/// Reason why tests cannot be pushed now. They stay on this host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushFailure {
    /// The collector cannot be reached, or does not answer as a collector.
    #[error("{0}")]
    Failed(String),
    /// The certificate is not trusted.
    #[error("{0}")]
    Untrusted(String),
    /// The collector takes nothing now, or not from this host.
    #[error("the collector refused: {0}")]
    Refused(String, Span),
    /// The collector did not answer in time.
    #[error("no answer from the collector within {} s", .0.as_secs())]
    TooLong(Duration),
    /// This program is being stopped.
    #[error("the program is being stopped")]
    Stopped,
}

impl PushFailure {
    /// Time that the collector asks to wait.
    pub fn pause(&self) -> Span {
        match self {
            PushFailure::Refused(_, wait) => *wait,
            _ => Span::ZERO,
        }
    }
}

fn failed(e: &dyn std::fmt::Display) -> PushFailure {
    PushFailure::Failed(e.to_string())
}

/// Connection to a collector.
pub struct PushClient {
    runtime: Runtime,
    sender: SendRequest<PushBody>,
    authority: String,
    prefix: String,
    /// `None`: the connection has a certificate.
    token: Option<String>,
    stop: AsyncFd<OwnedFd>,
}

impl std::fmt::Debug for PushClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PushClient").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// Body of a request.
enum PushBody {
    Whole(Option<Bytes>),
    Pieces(Receiver<Bytes>),
}

impl HttpBody for PushBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            PushBody::Whole(text) => Poll::Ready(text.take()),
            PushBody::Pieces(pieces) => pieces.poll_recv(cx),
        };
        next.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            PushBody::Whole(text) => {
                hyper::body::SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            PushBody::Pieces(_) => hyper::body::SizeHint::default(),
        }
    }
}

/// Waits for `work`, for at most `limit`, or for at most `END_TIMEOUT` once `stop` is readable.
async fn within<T>(
    work: impl Future<Output = T>,
    limit: Duration,
    stop: &AsyncFd<OwnedFd>,
) -> Result<T, PushFailure> {
    let mut work = pin!(work);
    let first = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => stop.poll_read_ready(cx).map(|_| None),
    });
    match timeout(limit, first).await {
        Ok(Some(done)) => Ok(done),
        Ok(None) => timeout(END_TIMEOUT, work).await.map_err(|_| PushFailure::Stopped),
        Err(_) => Err(PushFailure::TooLong(limit)),
    }
}

impl PushClient {
    /// Connects to `target` and checks its certificate. Requests that are under way end early once `stop` is readable.
    ///
    /// # Errors
    /// [`PushFailure`].
    pub fn connect(
        target: &PushTarget,
        credential: &PushCredential,
        stop: impl AsFd,
    ) -> Result<PushClient, PushFailure> {
        let (token, own) = match credential {
            PushCredential::Token(token) => (Some(token.clone()), None),
            PushCredential::Certificate(own) => (None, Some(own)),
        };
        let trusted = match &target.trust {
            PushTrust::Plain if own.is_some() => {
                let why = "the certificate of this host needs TLS, which 'plain' turns off";
                return Err(PushFailure::Failed(why.to_owned()));
            }
            PushTrust::Plain => None,
            PushTrust::System => Some(Trusted::new(None, own)),
            PushTrust::CaFile(file) => Some(Trusted::new(Some(file), own)),
            PushTrust::Pin(pin) => Some(Trusted::pinned(*pin, own)),
        };
        let trusted = trusted.transpose().map_err(|e| failed(&e))?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(1).build();
        let runtime = runtime.map_err(|e| failed(&e))?;
        let stop = stop.as_fd().try_clone_to_owned().map_err(|e| failed(&e))?;
        let (host, port) = (target.host.as_str(), target.port);
        let (sender, stop) = runtime.block_on(async {
            let stop = readable(stop).map_err(|e| failed(&e))?;
            let connecting = async {
                let cannot = |e: std::io::Error| {
                    PushFailure::Failed(format!(
                        "cannot connect to {host}, TCP port {port}: {e}; is `jitlat monitor` running there?"
                    ))
                };
                let stream = TcpStream::connect((host, port)).await.map_err(cannot)?;
                match trusted {
                    None => greet(stream).await,
                    Some(trusted) => {
                        let secured = trusted.secure(host, stream).await;
                        greet(secured.map_err(|e| PushFailure::Untrusted(untrusted(&e, &target.trust)))?)
                            .await
                    }
                }
            };
            let sender = within(connecting, CONNECT_TIMEOUT, &stop).await??;
            Ok((sender, stop))
        })?;
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Ok(PushClient {
            runtime,
            sender,
            authority: format!("{bracketed}:{port}"),
            prefix: target.prefix.clone(),
            token,
            stop,
        })
    }

    /// Reports the state of this host, and returns the names of offered tests that the collector has.
    ///
    /// # Errors
    /// [`PushFailure`].
    pub fn offers(&mut self, offers: &Offers) -> Result<Known, PushFailure> {
        let text = serde_json::to_vec(offers).map_err(|e| failed(&e))?;
        let answer = self.ask(Method::POST, "/push/v1/offers", PushBody::Whole(Some(text.into())), None)?;
        read(&answer)
    }

    /// Asks which messages the collector has sent itself.
    ///
    /// # Errors
    /// [`PushFailure`].
    pub fn sent(&mut self, messages: &[SharedMessage]) -> Result<Vec<bool>, PushFailure> {
        let text = serde_json::to_vec(messages).map_err(|e| failed(&e))?;
        let answer = self.ask(Method::POST, "/push/v1/sent", PushBody::Whole(Some(text.into())), None)?;
        read(&answer)
    }

    /// Reports to the collector which messages this host has sent.
    ///
    /// # Errors
    /// [`PushFailure`].
    pub fn report_sent(&mut self, messages: &[SharedMessage]) -> Result<(), PushFailure> {
        let text = serde_json::to_vec(messages).map_err(|e| failed(&e))?;
        let answer =
            self.ask(Method::POST, "/push/v1/report-sent", PushBody::Whole(Some(text.into())), None)?;
        read(&answer)
    }

    /// Sends several tests: parts, one after the other.
    ///
    /// # Errors
    /// [`PushFailure`]; tests may nevertheless be stored.
    pub fn tests(&mut self, parts: Vec<u8>) -> Result<PartAnswers, PushFailure> {
        let answer = self.ask(Method::POST, "/push/v1/tests", PushBody::Whole(Some(parts.into())), None)?;
        read(&answer)
    }

    /// Sends a long test, whose compressed log is read from `log`.
    ///
    /// # Errors
    /// [`PushFailure`]; the test may nevertheless be stored. An error of `log` is the inner result.
    pub fn test(
        &mut self,
        header: &PartHeader,
        log: &mut dyn Read,
    ) -> Result<Result<PartAnswer, std::io::Error>, PushFailure> {
        let (to, pieces) = mpsc::channel(2);
        let path = format!("/push/v1/tests/{}", header.hash);
        let line = header.line();
        let mut damaged = None;
        let feed = async {
            let mut piece = line;
            // Sending fails if the collector has answered already.
            while to.send(Bytes::from(std::mem::take(&mut piece))).await.is_ok() {
                piece.resize(PIECE, 0);
                match log.read(&mut piece) {
                    Ok(0) => break,
                    Ok(n) => piece.truncate(n),
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => piece.clear(),
                    Err(e) => {
                        damaged = Some(e);
                        break;
                    }
                }
            }
            drop(to);
        };
        let answer = self.ask(Method::PUT, &path, PushBody::Pieces(pieces), Some(Box::pin(feed)));
        match damaged {
            Some(e) => Ok(Err(e)),
            None => Ok(Ok(read(&answer?)?)),
        }
    }

    /// Sends a request while `feed`, if given, supplies its body; returns the body of the answer.
    fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: PushBody,
        feed: Option<Pin<Box<dyn Future<Output = ()> + '_>>>,
    ) -> Result<Bytes, PushFailure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(header::HOST, &self.authority)
            .header(header::USER_AGENT, crate::page::PROGRAM.replace(' ', "/"));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(body).map_err(|e| failed(&e))?;
        let (sender, stop) = (&mut self.sender, &self.stop);
        self.runtime.block_on(async {
            let asking = async {
                sender.ready().await.map_err(|e| failed(&e))?;
                let sent = sender.send_request(request);
                let mut answered = pin!(sent);
                let mut feed = feed;
                let answer = poll_fn(|cx| {
                    if let Some(feeding) = &mut feed
                        && feeding.as_mut().poll(cx).is_ready()
                    {
                        feed = None;
                    }
                    answered.as_mut().poll(cx)
                });
                let answer = answer.await.map_err(|e| failed(&e))?;
                let (head, body) = answer.into_parts();
                let text = to_bytes(Body::new(body), MAX_ANSWER).await.map_err(|e| failed(&e))?;
                Ok((head, text))
            };
            // Sending a long log takes time, too. The collector limits the time for each piece.
            let limit = if method_is_long(path) { ANSWER_TIMEOUT.saturating_mul(30) } else { ANSWER_TIMEOUT };
            let (head, text) = within(asking, limit, stop).await??;
            let wait =
                head.headers.get(header::RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
            let why = || match serde_json::from_slice::<ErrorAnswer>(&text) {
                Ok(answer) => answer.error,
                Err(_) => format!("it answered with status {}", head.status.as_u16()),
            };
            match head.status {
                StatusCode::OK | StatusCode::CREATED | StatusCode::UNPROCESSABLE_ENTITY => Ok(text),
                _ => Err(PushFailure::Refused(why(), pause(wait))),
            }
        })
    }
}

/// True if a request to `path` carries a long log.
fn method_is_long(path: &str) -> bool {
    path.starts_with("/push/v1/tests/")
}

fn read<T: DeserializeOwned>(answer: &Bytes) -> Result<T, PushFailure> {
    serde_json::from_slice(answer)
        .map_err(|e| PushFailure::Failed(format!("the collector's answer is not valid: {e}")))
}

/// Describes why a certificate is not trusted, and how to pin it.
fn untrusted(error: &PostError, trust: &PushTrust) -> String {
    match trust {
        PushTrust::Pin(_) | PushTrust::Plain => error.to_string(),
        PushTrust::System | PushTrust::CaFile(_) => {
            format!("{error}, or set pin to the fingerprint that the collector prints at its start")
        }
    }
}

/// Begins HTTP on a connection.
async fn greet(stream: impl ByteStream) -> Result<SendRequest<PushBody>, PushFailure> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| failed(&e))?;
    tokio::spawn(connection);
    Ok(sender)
}
