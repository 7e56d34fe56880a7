//! [`BrowserServer`]: a page from which a browser measures round trips to this host over a WebSocket, without a program on its host
//! (docs/protocols/browser.md).
//!
//! * `server` – connections and their limits; `routes` – the page and its files; `test` – a test over a WebSocket;
//!   `results` – reports that browsers fetch
//!
//! One thread serves all connections, as for responsiveness tests. Reports are made on one further thread.

mod results;
mod routes;
mod server;
mod test;

pub use server::BrowserServer;

use jitlat_proto::browser::BrowserResult;
use std::fmt::Debug;

/// Receiver of results.
pub trait BrowserResults: Debug + Send + Sync {
    /// Analyses and stores a result, and returns the report as an HTML page without references to other files.
    ///
    /// # Errors
    /// A sentence for the user of the browser.
    fn report(&self, result: BrowserResult) -> Result<String, String>;
}
