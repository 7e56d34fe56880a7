//! [`Web`]: accepts connections within limits.

use crate::access::ReadAccess;
use crate::app::{App, router};
use crate::limits::{ConnectionSlots, MAX_HEADER_BYTES, MAX_HEADERS, TimeoutConnection};
use crate::run::Starters;
use crate::{Settings, WebError, events};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::{Future, poll_fn};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tracing::debug;

/// Server of the pages.
#[derive(Debug)]
pub struct Web {
    app: App,
    listener: TcpListener,
    address: SocketAddr,
}

/// Pause after a failure to accept a connection.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

impl Web {
    /// Opens the archive and starts to listen.
    ///
    /// # Errors
    /// [`WebError`], for example if other hosts could connect but no access rule is set.
    pub fn bind(settings: &Settings) -> Result<Web, WebError> {
        let address = settings.listen;
        if !address.ip().is_loopback() && matches!(settings.access, ReadAccess::Local) {
            return Err(WebError::Open(address));
        }
        let for_all = settings.runs.as_ref().is_some_and(|runs| matches!(runs.who, Starters::Local));
        if for_all && !matches!(settings.access, ReadAccess::Local) {
            return Err(WebError::OpenRuns);
        }
        let app = App::new(settings)?;
        let failed = |source| WebError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Web { app, listener, address })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `stop` is readable, or its other end is closed.
    ///
    /// # Errors
    /// [`WebError::Runtime`].
    pub fn run(self, stop: impl AsFd) -> Result<(), WebError> {
        let Web { app, listener, .. } = self;
        let app = Arc::new(app);
        // One thread accepts connections. A few blocking threads read the archive; two more watch it for new tests and
        // follow running tests.
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(app.limits.readers + 2)
            .thread_name("web")
            .build()
            .map_err(WebError::Runtime)?;
        let ended: Result<(), std::io::Error> = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let watching = tokio::spawn(events::watch(app.clone()));
            let stop = stop.as_fd().try_clone_to_owned()?;
            let stop = readable(stop)?;
            let (router, slots) = (router(app.clone()), ConnectionSlots::default());
            let mut stopped = pin!(stop.readable());
            while let Some(accepted) = poll_fn(|cx| match stopped.as_mut().poll(cx) {
                Poll::Ready(_) => Poll::Ready(None),
                Poll::Pending => listener.poll_accept(cx).map(Some),
            })
            .await
            {
                match accepted {
                    // Try again: the cause may be temporary, for example too many open files.
                    Err(e) => {
                        debug!("web page: accepting a connection: {e}");
                        // A request to stop ends the pause.
                        let _ = timeout(ACCEPT_RETRY_PAUSE, stop.readable()).await;
                    }
                    Ok((stream, peer)) => {
                        let Some(slot) = slots.take(peer.ip(), &app.limits) else {
                            // Dropping the stream closes the connection.
                            debug!("web page: too many connections, from {peer} or in total");
                            continue;
                        };
                        let answering = answer(stream, router.clone(), app.clone());
                        tokio::spawn(async move {
                            answering.await;
                            drop(slot);
                        });
                    }
                }
            }
            watching.abort();
            Ok(())
        });
        // Requests that still read the archive must not delay the end.
        runtime.shutdown_timeout(Duration::from_secs(1));
        ended.map_err(WebError::Runtime)
    }
}

/// Lets tasks wait until a file descriptor is readable.
#[expect(
    deprecated,
    reason = "the alternative that is not deprecated is unsafe; an owned descriptor stays open and unchanged"
)]
pub fn readable<T: AsRawFd>(descriptor: T) -> std::io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

async fn answer(stream: TcpStream, router: Router, app: Arc<App>) {
    let io = TokioIo::new(TimeoutConnection::new(stream, app.limits.stalled));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.headers)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(io, TowerToHyperService::new(router))
        .await;
    if let Err(e) = served {
        debug!("web page: a connection ended: {e}");
    }
}
