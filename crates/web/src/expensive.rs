//! [`Expensive`]: queue and cache of the pages that take long to make, such as the report of a test from its packets. The
//! other pages do not wait for it, and many requests for the same page make it once.

use crate::app::App;
use crate::problem::Problem;
use axum::body::Bytes;
use jitlat_archive::Archive;
use jitlat_proto::access::ClientAddress;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OnceCell, Semaphore};

/// Number of expensive pages that are made at the same time.
pub const AT_ONCE: usize = 1;
/// Maximum number of pages in the cache, and of their bytes.
const MAX_CACHED: (usize, usize) = (32, 16 << 20);

/// Queue and cache of expensive pages.
#[derive(Debug)]
pub struct Expensive {
    queue: Arc<Semaphore>,
    /// Pages that are made or were made, the last ones at the end.
    pages: Mutex<Vec<CachedPage>>,
    /// Requests that wait, by client.
    waiting: Arc<Mutex<HashMap<ClientAddress, usize>>>,
}

#[derive(Debug)]
struct CachedPage {
    address: String,
    /// Version of what the page shows; the page is made again if the version changes.
    version: String,
    page: Arc<OnceCell<Bytes>>,
}

/// A request that waits; it counts until it is dropped.
struct WaitingRequest {
    waiting: Arc<Mutex<HashMap<ClientAddress, usize>>>,
    client: ClientAddress,
}

impl Default for Expensive {
    fn default() -> Expensive {
        Expensive {
            queue: Arc::new(Semaphore::new(AT_ONCE)),
            pages: Mutex::default(),
            waiting: Arc::default(),
        }
    }
}

impl Expensive {
    fn pages(&self) -> MutexGuard<'_, Vec<CachedPage>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the page at `address` in this version; it is empty if it has not been made yet.
    fn page(&self, address: &str, version: String) -> Arc<OnceCell<Bytes>> {
        let mut pages = self.pages();
        let known = pages.iter().position(|cached| cached.address == address);
        let cached = match known.map(|k| pages.remove(k)).filter(|cached| cached.version == version) {
            Some(cached) => cached,
            None => CachedPage { address: address.to_owned(), version, page: Arc::default() },
        };
        let page = cached.page.clone();
        pages.push(cached);
        page
    }

    /// Returns the page at `address` if it has been made in this version.
    fn made(&self, address: &str, version: &str) -> Option<Bytes> {
        let mut pages = self.pages();
        let known = pages.iter().position(|cached| cached.address == address && cached.version == version)?;
        let made = pages[known].page.get().cloned()?;
        // It is now the last one that was asked for.
        let cached = pages.remove(known);
        pages.push(cached);
        Some(made)
    }

    /// Removes the pages that nobody waits for any more before they are made, and of the others those that were
    /// requested longest ago, until the rest is within the limits.
    fn limit(&self) {
        let mut pages = self.pages();
        pages.retain(|cached| cached.page.initialized() || Arc::strong_count(&cached.page) > 1);
        let of_made = |pages: &[CachedPage]| {
            let made = pages.iter().filter_map(|cached| cached.page.get());
            made.fold((0, 0), |(count, bytes), page| (count + 1, bytes + page.len()))
        };
        loop {
            let (count, bytes) = of_made(&pages);
            let oldest = pages.iter().position(|cached| cached.page.initialized());
            match oldest {
                Some(oldest) if count > MAX_CACHED.0 || bytes > MAX_CACHED.1 => drop(pages.remove(oldest)),
                _ => return,
            }
        }
    }

    fn wait(&self, client: ClientAddress, most: usize) -> Option<WaitingRequest> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.entry(client).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(WaitingRequest { waiting: self.waiting.clone(), client })
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = waiting.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.client);
            }
        }
    }
}

impl App {
    /// Returns the page at `address`, which `make` makes unless the cache has it in this `version`. Requests wait for each
    /// other in a queue of expensive pages; `client` may have a few in it.
    pub async fn expensive(
        self: &Arc<App>,
        client: ClientAddress,
        address: &str,
        version: String,
        make: impl FnOnce(&Archive) -> Result<String, Problem> + Send + 'static,
    ) -> Result<Bytes, Problem> {
        if let Some(made) = self.expensive.made(address, &version) {
            return Ok(made);
        }
        let Some(_waiting) = self.expensive.wait(client, self.limits.expensive_of_one) else {
            return Err(Problem::TooMany(
                "You are waiting for other pages that take long. Wait for one of them.".to_owned(),
            ));
        };
        // After the limit of the client: requests that are refused leave nothing in the cache.
        let page = self.expensive.page(address, version);
        self.expensive.limit();
        let queue = self.expensive.queue.clone();
        let made = page
            .get_or_try_init(|| async { self.read_in(queue, make).await.map(Bytes::from) })
            .await
            .cloned();
        self.expensive.limit();
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn app(folder: &std::path::Path) -> Arc<App> {
        Archive::make(folder).unwrap();
        Arc::new(App::new(&Settings::new(folder)).unwrap())
    }

    #[test]
    fn a_page_that_many_ask_for_is_made_once_in_each_version() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path());
        let made = Arc::new(AtomicUsize::new(0));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let ask = |app: &Arc<App>, client: u8, version: &str| {
            let (app, made, version) = (app.clone(), made.clone(), version.to_owned());
            async move {
                let client = ClientAddress::of([192, 0, 2, client].into());
                let make = move |_: &Archive| Ok(format!("page {}", made.fetch_add(1, Ordering::Relaxed)));
                app.expensive(client, "/test/1", version, make).await
            }
        };
        runtime.block_on(async {
            let asked: Vec<_> = (0..20).map(|k| tokio::spawn(ask(&app, k, "one"))).collect();
            for asked in asked {
                assert_eq!(asked.await.unwrap().unwrap(), "page 0");
            }
            assert_eq!(ask(&app, 1, "two").await.unwrap(), "page 1");
        });
        assert!(app.expensive.waiting.lock().unwrap().is_empty());
    }

    #[test]
    fn a_client_waits_for_a_few_and_the_cache_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let client = ClientAddress::of([192, 0, 2, 1].into());
        runtime.block_on(async {
            // The queue is taken, so that all others wait.
            let taken = app.expensive.queue.clone().acquire_owned().await.unwrap();
            let ask = |k: usize, client| {
                let app = app.clone();
                async move {
                    app.expensive(client, &format!("/test/{k}"), String::new(), |_| Ok(String::new())).await
                }
            };
            let waiting: Vec<_> = (0..4).map(|k| tokio::spawn(ask(k, client))).collect();
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert!(matches!(ask(9, client).await, Err(Problem::TooMany(_))));
            assert_eq!(app.expensive.pages().len(), 4, "a refused request has no page");
            let other = tokio::spawn(ask(9, ClientAddress::of([192, 0, 2, 2].into())));
            drop(taken);
            for asked in waiting.into_iter().chain([other]) {
                assert!(asked.await.unwrap().is_ok());
            }
            for k in 0..100 {
                let make = |_: &Archive| Ok("x".repeat(1 << 20));
                app.expensive(client, &format!("/test/{k}"), String::new(), make).await.unwrap();
            }
        });
        let pages = app.expensive.pages();
        let bytes: usize = pages.iter().filter_map(|cached| cached.page.get()).map(Bytes::len).sum();
        assert!(bytes <= MAX_CACHED.1 && bytes > MAX_CACHED.1 / 2, "{bytes}");
    }
}
