//! [`Guesses`]: makes clients that show wrong tokens or certificates wait, longer each time, and logs them.

use jitlat_core::{Span, SteadyTime};
use jitlat_proto::access::ClientAddress;
use jitlat_proto::policy::WrongProofs;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Delay before a wrong token is refused. Meanwhile the connection is idle, so that it may be ended in favour of
/// others.
const WRONG_TOKEN_DELAY: Duration = Duration::from_secs(1);

/// Clients that recently showed wrong tokens; pages and pushes have one value each. A right token resets nothing:
/// otherwise someone with a token could guess the tokens of others without a wait.
#[derive(Clone, Debug)]
pub struct Guesses {
    proofs: Arc<Mutex<WrongProofs>>,
    begun: Instant,
}

impl Default for Guesses {
    fn default() -> Guesses {
        Guesses { proofs: Arc::default(), begun: Instant::now() }
    }
}

impl Guesses {
    /// Returns the number of seconds for which no token of `client` is checked; `None`: there is no wait.
    pub fn wait(&self, client: IpAddr) -> Option<u64> {
        let wait = self.proofs().wait(ClientAddress::of(client), self.now())?;
        Some((wait.0.max(1) as u64).div_ceil(Span::seconds(1).0 as u64))
    }

    /// Records that `client` showed a wrong `what`, for example "token for the web page", and waits. The log has a line for the first, second, fourth, eighth, …
    pub async fn failed(&self, client: IpAddr, what: &str) {
        let is_logged = self.proofs().failed(ClientAddress::of(client), self.now());
        if is_logged {
            tracing::warn!(from = %client, "refused a wrong {what}");
        }
        tokio::time::sleep(WRONG_TOKEN_DELAY).await;
    }

    fn proofs(&self) -> MutexGuard<'_, WrongProofs> {
        self.proofs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> SteadyTime {
        SteadyTime(i64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }
}
