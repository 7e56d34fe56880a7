//! [`RunningRoutes`]: examines the routes of the file, one after the other. An examination sends a few small packets,
//! at any time: its thread yields to tests.

use super::board::NewsBoard;
use super::ending::EndingThread;
use crate::Model;
use crate::model::MonitoredRoute;
use crate::runtime::error::{Context, Result};
use crate::window::MONDAY;
use jitlat_archive::{Archive, Route};
use jitlat_core::far_host::FarHost;
use jitlat_core::path::Path as RoutePath;
use jitlat_core::route::KnownRoute;
use jitlat_core::{Span, WallTime};
use jitlat_instruments::Stop;
use jitlat_instruments::path::PathTest;
use jitlat_net::wake::{self, StopSignal};
use jitlat_net::{clock, pace};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use tracing::{info, warn};
use twox_hash::XxHash3_64;

/// Longest wait before the clock is read again, because it may be set.
const MAX_WAIT: Span = Span::seconds(60);

/// Thread that examines routes. It stops when this value is dropped.
pub struct RunningRoutes {
    stop: StopSignal,
    test: Stop,
    thread: Option<EndingThread>,
}

/// A route of this host.
struct OwnRoute {
    section: MonitoredRoute,
    /// Name of the far end, and its address.
    far: (String, String),
    due: WallTime,
    known: Option<(KnownRoute, Vec<String>)>,
    failing: bool,
}

impl RunningRoutes {
    /// Starts to examine the routes from `host`. Without an archive there is nothing to compare them with.
    pub fn start(model: &Model, host: usize, root: Option<&Path>, news: &NewsBoard) -> Result<RunningRoutes> {
        let (stop, test) = (StopSignal::new()?, Stop::new());
        let mut running = RunningRoutes { stop, test, thread: None };
        let Some(root) = root else { return Ok(running) };
        let name = model.hosts[host].name.clone();
        let routes = own_routes(model, host, clock::wall());
        if routes.is_empty() {
            return Ok(running);
        }
        let mut worker = RouteWorker {
            root: root.to_owned(),
            name,
            routes,
            news: news.clone(),
            stop: running.stop.clone(),
            test: running.test.clone(),
        };
        let run = move || {
            // Tests have priority.
            pace::yield_to_others();
            worker.run();
        };
        let thread = EndingThread::spawn("routes", run);
        running.thread = Some(thread.context("starting the thread that examines routes")?);
        Ok(running)
    }

    /// Requests an end without waiting for it.
    pub fn request_end(&self) {
        self.stop.request();
        self.test.request();
    }
}

impl Drop for RunningRoutes {
    fn drop(&mut self) {
        self.request_end();
        if let Some(thread) = self.thread.take() {
            thread.end();
        }
    }
}

/// Returns the routes that begin at `host`, each with its first time after `now`.
fn own_routes(model: &Model, host: usize, now: WallTime) -> Vec<OwnRoute> {
    let own = &model.hosts[host].name;
    let sections = model.routes.iter().filter(|section| section.from.contains(&(host as u32)));
    let routes = sections.flat_map(|section| section.to.iter().map(move |far| (section, far)));
    let routes = routes.filter(|(_, far)| *far != own);
    let route = |(section, far): (&MonitoredRoute, &String)| {
        let known = model.hosts.iter().find(|host| host.name == *far);
        // A target may have a port, which is not part of a route.
        let address = known.map_or_else(|| FarHost::name_in(far), |host| host.address.clone());
        OwnRoute {
            due: next(section, &section.name, own, far, now),
            section: section.clone(),
            far: (far.clone(), address),
            known: None,
            failing: false,
        }
    };
    routes.map(route).collect()
}

/// Returns the first time after `now` at which a route is due. The routes of all hosts are spread evenly over their period.
fn next(section: &MonitoredRoute, name: &str, own: &str, far: &str, now: WallTime) -> WallTime {
    let every = section.every.0.max(1);
    let seed = [name, own, far].join("\t");
    let phase = (XxHash3_64::oneshot(seed.as_bytes()) % every as u64) as i64;
    let since = (now - MONDAY).0;
    let begun = since - since.rem_euclid(every) + phase;
    MONDAY + Span(if begun > since { begun } else { begun + every })
}

struct RouteWorker {
    root: PathBuf,
    name: String,
    routes: Vec<OwnRoute>,
    news: NewsBoard,
    stop: StopSignal,
    test: Stop,
}

impl RouteWorker {
    fn run(&mut self) {
        while !self.stop.is_requested() {
            let now = clock::wall();
            let Some(first) = (0..self.routes.len()).min_by_key(|k| self.routes[*k].due) else { return };
            let wait = self.routes[first].due - now;
            if wait.0 > 0 {
                wake::wait(&[self.stop.as_fd()], Some(clock::steady() + wait.min(MAX_WAIT)));
                continue;
            }
            self.examine(first);
            let route = &mut self.routes[first];
            route.due = next(&route.section, &route.section.name, &self.name, &route.far.0, clock::wall());
        }
    }

    fn examine(&mut self, k: usize) {
        let traced = self.trace(k);
        let route = &mut self.routes[k];
        let Some(path) = traced
            .inspect_err(|e| {
                if !std::mem::replace(&mut route.failing, true) {
                    warn!("the route to {} cannot be examined: {e}", route.far.0);
                }
            })
            .ok()
            .filter(|path| !path.hops.is_empty() && !self.stop.is_requested())
        else {
            return;
        };
        if std::mem::replace(&mut route.failing, false) {
            info!("the route to {} is examined again", route.far.0);
        }
        if let Err(e) = self.take(k, &path) {
            warn!("the route to {} cannot be stored: {e}", self.routes[k].far.0);
        }
    }

    fn trace(&self, k: usize) -> Result<RoutePath, jitlat_instruments::Error> {
        let route = &self.routes[k];
        let test = PathTest {
            transport: route.section.transport,
            port: route.section.port,
            probes: 3,
            period: Span::millis(500),
            timeout: Span::seconds(1),
            ..PathTest::new(route.far.1.clone())
        };
        test.run(&self.test, &mut |_| ())
    }

    /// Compares a route with the known one, and stores it. A change counts only if a second examination confirms it.
    fn take(&mut self, k: usize, path: &RoutePath) -> Result<(), jitlat_archive::ArchiveError> {
        let archive = Archive::make(&self.root)?;
        let (far, section) = (self.routes[k].far.0.clone(), self.routes[k].section.name.clone());
        if self.routes[k].known.is_none() {
            let last = archive.routes(&self.name, &far, 1)?.pop().filter(|last| last.route == section);
            self.routes[k].known = last.map(|last| (KnownRoute::of_text(&last.hops), last.hops));
        }
        let seen = route_of(path);
        let now = clock::wall().0;
        let hops = match self.routes[k].known.take() {
            Some((mut known, stored)) => match known.differs(&seen) {
                None => {
                    known.learn(&seen);
                    self.routes[k].known = Some((known, stored.clone()));
                    stored
                }
                Some(_) => {
                    let again = self.trace(k).ok().map(|path| route_of(&path));
                    if self.stop.is_requested() || again.is_none_or(|again| seen.differs(&again).is_some()) {
                        // Two successive examinations differ: the next one decides.
                        self.routes[k].known = Some((known, stored));
                        return Ok(());
                    }
                    self.new_route(k, seen)
                }
            },
            None => self.new_route(k, seen),
        };
        let route = Route {
            id: 0,
            route: section,
            src: self.name.clone(),
            dst: far,
            first_ns: now,
            last_ns: now,
            hops,
        };
        if archive.record_route(&route)? {
            info!("the route to {} is {}", route.dst, route.hops.join(" "));
        }
        self.news.route(&route);
        Ok(())
    }

    fn new_route(&mut self, k: usize, seen: KnownRoute) -> Vec<String> {
        let hops = seen.text();
        self.routes[k].known = Some((seen, hops.clone()));
        hops
    }
}

fn route_of(path: &RoutePath) -> KnownRoute {
    let hop = |hop: &jitlat_core::path::Hop| hop.responders.iter().map(|of| of.address.to_string()).collect();
    KnownRoute::new(path.hops.iter().map(hop).collect(), path.reached)
}
