//! [`Route`]: the routers between two hosts, and the time for which they were seen. A row is added whenever they change.

use crate::Archive;
use crate::alerts::count;
use crate::error::ArchiveError;
use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;

/// The routers between two hosts while they stayed the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Route {
    /// Number of the route in this archive.
    pub id: i64,
    /// Name of the section in the monitor's file.
    pub route: String,
    /// Host at which the route begins.
    pub src: String,
    /// Host or target at which the route ends.
    pub dst: String,
    /// Time at which it was first seen, ns since 1970.
    pub first_ns: i64,
    /// Time at which it was last seen, ns since 1970.
    pub last_ns: i64,
    /// Addresses of the routers in order, several per hop if packets take different ones; `*` where none answered.
    pub hops: Vec<String>,
}

/// Maximum number of routes that are stored for a path.
const MAX_KEPT: i64 = 1000;

/// Separator of hops in the catalogue.
const SEPARATOR: &str = " ";
/// Name of the counter of examinations.
const SEEN: &str = "routes-seen";

fn route(row: &Row<'_>) -> rusqlite::Result<Route> {
    let hops: String = row.get(6)?;
    let hops = split(&hops);
    Ok(Route {
        id: row.get(0)?,
        route: row.get(1)?,
        src: row.get(2)?,
        dst: row.get(3)?,
        first_ns: row.get(4)?,
        last_ns: row.get(5)?,
        hops,
    })
}

fn split(hops: &str) -> Vec<String> {
    hops.split(SEPARATOR).filter(|hop| !hop.is_empty()).map(str::to_owned).collect()
}

/// A route with the number of the examination that saw it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExaminedRoute {
    /// Number of the examination; later ones have larger numbers.
    pub number: i64,
    /// Route that the examination saw.
    pub route: Route,
    /// Hops of the path's route before this one; `None` if it is the first one.
    pub before: Option<Vec<String>>,
}

impl Archive {
    /// Records an examination of a route. A route that differs from the path's last one is added; otherwise only
    /// `last_ns` of the last one is updated. `id` of `seen` is ignored. Returns true if a route was added.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn record_route(&self, seen: &Route) -> Result<bool, ArchiveError> {
        let Route { route, src, dst, first_ns, last_ns, hops, .. } = seen;
        let hops = hops.join(SEPARATOR);
        self.transaction(|all| {
            let query = "SELECT id, hops FROM routes WHERE route = ? AND src = ? AND dst = ? ORDER BY first_ns DESC, id DESC LIMIT 1";
            let take = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
            let last = all.prepare_cached(query)?.query_row([route, src, dst], take).optional()?;
            let number = count(all, SEEN, 1)?;
            if let Some((id, _)) = last.filter(|(_, known)| *known == hops) {
                let update = "UPDATE routes SET last_ns = max(last_ns, ?), number = ? WHERE id = ?";
                all.execute(update, [*last_ns, number, id])?;
                return Ok(false);
            }
            let insert = "INSERT INTO routes(route, src, dst, first_ns, last_ns, hops, number) VALUES (?, ?, ?, ?, ?, ?, ?)";
            all.execute(insert, params![route, src, dst, first_ns, last_ns, hops, number])?;
            let surplus = "DELETE FROM routes WHERE id IN (SELECT id FROM routes WHERE route = ?1 AND src = ?2 AND dst = ?3 \
                           ORDER BY first_ns DESC, id DESC LIMIT -1 OFFSET ?4)";
            all.execute(surplus, params![route, src, dst, MAX_KEPT])?;
            Ok(true)
        })
    }

    /// Removes routes from `src` beyond the `most` that were seen last.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn bound_routes(&self, src: &str, most: u32) -> Result<(), ArchiveError> {
        self.transaction(|all| {
            let surplus = "DELETE FROM routes WHERE src = ?1 AND number <= \
                           (SELECT number FROM routes WHERE src = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)";
            all.prepare_cached(surplus)?.execute(params![src, most])?;
            Ok(())
        })
    }

    /// Returns the newest routes between the hosts with these names, in the order in which they were first seen; at
    /// most `most`.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn routes(&self, src: &str, dst: &str, most: usize) -> Result<Vec<Route>, ArchiveError> {
        if self.is_united() {
            let mut all = self.all_of(|member| member.routes(src, dst, most))?;
            all.sort_by_key(|route| (std::cmp::Reverse(route.first_ns), route.route.clone()));
            all.dedup_by(|later, first| (&later.route, later.first_ns) == (&first.route, first.first_ns));
            all.truncate(most);
            return Ok(all);
        }
        let run = || {
            let query = "SELECT id, route, src, dst, first_ns, last_ns, hops FROM routes WHERE src = ? AND dst = ? \
                         ORDER BY first_ns DESC, id DESC LIMIT ?";
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let mut list = self.db.prepare_cached(query)?;
            list.query_map(params![src, dst, most], route)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        let mut routes = run().map_err(self.sql("reading"))?;
        routes.reverse();
        Ok(routes)
    }

    /// Returns the number of the last examination of a route, and the `id` of the newest route.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn routes_seen(&self) -> Result<(i64, i64), ArchiveError> {
        let last = "SELECT coalesce(max(number), 0), coalesce(max(id), 0) FROM routes";
        self.db.query_row(last, [], |row| Ok((row.get(0)?, row.get(1)?))).map_err(self.sql("reading"))
    }

    /// Returns the routes that were seen after examination `number`, in order.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn routes_after(&self, number: i64) -> Result<Vec<ExaminedRoute>, ArchiveError> {
        let run = || {
            let query = "SELECT id, route, src, dst, first_ns, last_ns, hops, number, (SELECT b.hops FROM routes b \
                         WHERE b.route = r.route AND b.src = r.src AND b.dst = r.dst AND b.id < r.id ORDER BY b.id DESC LIMIT 1) \
                         FROM routes r WHERE number > ? ORDER BY number";
            let take = |row: &Row<'_>| {
                let before: Option<String> = row.get(8)?;
                let before = before.map(|hops| split(&hops));
                Ok(ExaminedRoute { number: row.get(7)?, route: route(row)?, before })
            };
            let mut list = self.db.prepare_cached(query)?;
            list.query_map([number], take)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        run().map_err(self.sql("reading"))
    }
}
