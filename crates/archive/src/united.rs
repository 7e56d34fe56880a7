//! Several archives as one: [`Archive::open_all`].
//!
//! A united archive reads its members and writes nothing. A test that is in several of them, for example because a host pushes to two
//! collectors, counts once. A stream has the number `16 · number + member` of the first member that has it.
//!
//! Figures of a stream that only one member has come from that member's roll-ups. If several have it, roll-ups are used where the members
//! have either no test in common or the same tests; otherwise the stored pools of the tests are merged. Tests that were removed have
//! neither a number nor a start in roll-ups: for each hour, the share of the member that removed most tests counts, and tests that it
//! removed are not taken from other members.

use crate::error::ArchiveError;
use crate::find::Filter;
use crate::packed::read_pool;
use crate::rollup::{RollupError, hour};
use crate::stream_pools::LossCounters;
use crate::totals::{ArchiveTotals, share_bucket};
use crate::{
    Alert, Archive, ArchiveExtent, CollectedHost, ListedTest, Newest, PoolPeriod, PooledStream, SlotFilter,
    TestId,
};
use jitlat_core::pool::Pool;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

/// Maximum number of archives that are opened as one.
pub const MAX_MEMBERS: usize = 16;

/// A member, and the number of a stream in it.
type Place<'a> = (&'a Archive, i64);

fn united(member: usize, local: i64) -> i64 {
    local.saturating_mul(MAX_MEMBERS as i64).saturating_add(member as i64)
}

impl Archive {
    /// Opens several archives as one, for reading. A single archive is opened as by [`Archive::open`].
    ///
    /// # Errors
    /// Same as [`Archive::open`], and [`ArchiveError::Usage`] for none, more than 16, or the same one twice.
    pub fn open_all(roots: &[PathBuf]) -> Result<Archive, ArchiveError> {
        let [first, others @ ..] = roots else {
            return Err(ArchiveError::Usage("no archive was named".to_owned()));
        };
        if others.is_empty() {
            return Archive::open(first);
        }
        if roots.len() > MAX_MEMBERS {
            return Err(ArchiveError::Usage(format!("at most {MAX_MEMBERS} archives are read as one")));
        }
        let mut seen = BTreeSet::new();
        for root in roots {
            if !seen.insert(root.canonicalize().unwrap_or_else(|_| root.clone())) {
                return Err(ArchiveError::Usage(format!("{} was named twice", root.display())));
            }
        }
        let members = roots.iter().map(|root| Archive::open(root)).collect::<Result<Vec<_>, _>>()?;
        let failed = |source| ArchiveError::Catalogue { doing: "opening", archive: first.clone(), source };
        // It has no tables: a query that does not ask the members fails instead of finding nothing.
        let db = Connection::open_in_memory().map_err(failed)?;
        Ok(Archive { root: first.clone(), db, stop: None, members })
    }

    /// Returns true if this is several archives as one, which cannot be changed.
    pub fn is_united(&self) -> bool {
        !self.members.is_empty()
    }

    /// Returns true if `of` is true for any member.
    pub(crate) fn any(
        &self,
        of: impl Fn(&Archive) -> Result<bool, ArchiveError>,
    ) -> Result<bool, ArchiveError> {
        Ok(self.each(of)?.iter().any(|(_, is_true)| *is_true))
    }

    fn each<T>(
        &self,
        of: impl Fn(&Archive) -> Result<T, ArchiveError>,
    ) -> Result<Vec<(usize, T)>, ArchiveError> {
        self.members.iter().enumerate().map(|(k, member)| Ok((k, of(member)?))).collect()
    }

    /// Like `each`, but skips members that refuse, because a filter names a host that they do not know. Fails if all members refuse.
    fn each_that_knows<T>(
        &self,
        of: impl Fn(&Archive) -> Result<T, ArchiveError>,
    ) -> Result<Vec<(usize, T)>, ArchiveError> {
        let (mut found, mut refused) = (Vec::new(), None);
        for (k, member) in self.members.iter().enumerate() {
            match of(member) {
                Ok(value) => found.push((k, value)),
                Err(e @ ArchiveError::Usage(_)) => refused = Some(e),
                Err(e) => return Err(e),
            }
        }
        match refused {
            Some(e) if found.is_empty() => Err(e),
            _ => Ok(found),
        }
    }

    /// Returns the number that a stream has in this archive; `None` if it does not have the stream.
    fn number_of(&self, stream: &PooledStream) -> Result<Option<i64>, ArchiveError> {
        let query = "SELECT s.id FROM streams s WHERE s.src = (SELECT id FROM hosts WHERE address = ?) \
                     AND s.dst = (SELECT id FROM hosts WHERE address = ?) AND s.protocol = ? AND s.direction = ? \
                     AND s.payload = ? AND s.period_ns = ? AND s.dscp = ?";
        let PooledStream { src, dst, protocol, direction, payload_bytes, period_ns, dscp } = stream;
        let (payload, period) = (payload_bytes.unwrap_or(-1), period_ns.unwrap_or(-1));
        let run = || {
            let mut found = self.db.prepare_cached(query)?;
            found
                .query_row(params![src, dst, protocol, direction, payload, period, dscp], |row| row.get(0))
                .optional()
        };
        run().map_err(self.sql("reading"))
    }

    fn stream_of(&self, local: i64) -> Result<PooledStream, ArchiveError> {
        let query = "SELECT s.id, a.address, b.address, s.protocol, s.direction, s.payload, s.period_ns, s.dscp FROM streams s \
                     JOIN hosts a ON a.id = s.src JOIN hosts b ON b.id = s.dst WHERE s.id = ?";
        let run = || self.db.prepare_cached(query)?.query_row([local], PooledStream::read);
        run().map_err(self.sql("reading"))
    }

    /// Returns the members that have a stream, each with its number there.
    fn places(&self, stream: i64) -> Result<Vec<Place<'_>>, ArchiveError> {
        let local = stream.div_euclid(MAX_MEMBERS as i64);
        let member = self.members.get(stream.rem_euclid(MAX_MEMBERS as i64) as usize);
        let Some(member) = member else { return Ok(Vec::new()) };
        let of = member.stream_of(local)?;
        let place = |member| Ok(Archive::number_of(member, &of)?.map(|local| (member, local)));
        self.members.iter().filter_map(|member| place(member).transpose()).collect()
    }

    /// Returns the member that has a test, preferably with its packets; this archive if it is a single one.
    pub(crate) fn home(&self, id: TestId) -> Result<&Archive, ArchiveError> {
        if !self.is_united() {
            return Ok(self);
        }
        let mut without_packets = None;
        for member in &self.members {
            let query = "SELECT file IS NOT NULL FROM tests WHERE id = ?";
            let found = member
                .db
                .prepare_cached(query)
                .and_then(|mut q| q.query_row([id.0], |r| r.get(0)).optional());
            match found.map_err(member.sql("reading"))? {
                Some(true) => return Ok(member),
                Some(false) => without_packets = without_packets.or(Some(member)),
                None => {}
            }
        }
        without_packets
            .ok_or_else(|| ArchiveError::NoSuchTest { archive: self.root.clone(), id: id.to_string() })
    }

    /// Returns the start and the number of each test of a stream that started in `from..to`, in order.
    fn starts(&self, stream: i64, from: i64, to: i64) -> Result<Vec<(i64, i64)>, ArchiveError> {
        let query = "SELECT started_ns, id FROM tests WHERE stream = ? AND started_ns >= ? AND started_ns < ? ORDER BY 1, 2";
        let run = || {
            let mut tests = self.db.prepare_cached(query)?;
            tests.query_map([stream, from, to], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let found: rusqlite::Result<_> = run();
        found.map_err(self.sql("reading"))
    }

    fn test_pool(&self, id: i64) -> Result<Pool, ArchiveError> {
        let query = "SELECT pool FROM tests WHERE id = ?";
        let found =
            self.db.prepare_cached(query).and_then(|mut q| q.query_row([id], |r| r.get::<_, Vec<u8>>(0)));
        read_pool(&found.map_err(self.sql("reading"))?)
    }

    /// Returns the shares of removed tests of a stream in `from..to`, by hour.
    fn removed(&self, stream: i64, from: i64, to: i64) -> Result<Vec<(i64, Pool)>, ArchiveError> {
        let query = "SELECT hour_ns, pool FROM kept WHERE stream = ? AND hour_ns >= ? AND hour_ns < ?";
        let run = || -> Result<_, RollupError> {
            let mut kept = self.db.prepare_cached(query)?;
            let mut rows = kept.query([stream, from, to])?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
                all.push((row.get(0)?, read_pool(bytes).map_err(RollupError::Other)?));
            }
            Ok(all)
        };
        self.known_failure(run())
    }

    fn has_removed(&self, id: i64) -> Result<bool, ArchiveError> {
        let query = "SELECT 1 FROM gone WHERE id = ?";
        self.db.prepare_cached(query).and_then(|mut q| q.exists([id])).map_err(self.sql("reading"))
    }

    pub(crate) fn united_pool(
        &self,
        stream: i64,
        period: PoolPeriod,
        from: i64,
        to: i64,
    ) -> Result<Pool, ArchiveError> {
        let places = self.places(stream)?;
        if let [(member, local)] = places[..] {
            return member.pool(local, period, from, to);
        }
        // The share of removed tests that counts in each hour, and the member from which it is.
        let mut removed: BTreeMap<i64, (usize, Pool)> = BTreeMap::new();
        for (k, (member, local)) in places.iter().enumerate() {
            for (hour, pool) in member.removed(*local, from, to)? {
                if removed.get(&hour).is_none_or(|(_, most)| most.tests < pool.tests) {
                    removed.insert(hour, (k, pool));
                }
            }
        }
        let (mut all, mut seen) = (Pool::default(), HashSet::new());
        for (member, local) in &places {
            let tests = member.starts(*local, from, to)?;
            let new: Vec<&(i64, i64)> = tests.iter().filter(|(_, id)| !seen.contains(id)).collect();
            if removed.is_empty() && new.len() == tests.len() {
                all.merge(&member.pool(*local, period, from, to)?);
            } else {
                for (at, id) in new {
                    let is_counted = match removed.get(&hour(*at)) {
                        Some((k, _)) => places[*k].0.has_removed(*id)?,
                        None => false,
                    };
                    if !is_counted {
                        all.merge(&member.test_pool(*id)?);
                    }
                }
            }
            seen.extend(tests.into_iter().map(|(_, id)| id));
        }
        removed.values().for_each(|(_, pool)| all.merge(pool));
        Ok(all)
    }

    /// Calls `of` with each member that has a stream, and its number there; returns the results.
    pub(crate) fn at_places<T>(
        &self,
        stream: i64,
        of: impl Fn(&Archive, i64) -> Result<T, ArchiveError>,
    ) -> Result<Vec<T>, ArchiveError> {
        self.places(stream)?.into_iter().map(|(member, local)| of(member, local)).collect()
    }

    /// Returns the only place of a stream; `None` if several members have it.
    pub(crate) fn only_place(&self, stream: i64) -> Result<Option<(&Archive, i64)>, ArchiveError> {
        let places = self.places(stream)?;
        Ok(if let [place] = places[..] { Some(place) } else { None })
    }

    pub(crate) fn united_each_test(
        &self,
        stream: i64,
        filter: &Filter,
        mut take: impl FnMut(i64, &Pool),
    ) -> Result<(), ArchiveError> {
        let mut tests: Vec<(i64, i64, &Archive)> = Vec::new();
        for (member, local) in self.places(stream)? {
            match member.selected_starts(local, filter) {
                Err(ArchiveError::Usage(_)) => {}
                found => tests.extend(found?.into_iter().map(|(at, id)| (at, id, member))),
            }
        }
        tests.sort_by_key(|(at, id, _)| (*at, *id));
        tests.dedup_by_key(|(_, id, _)| *id);
        for (at, id, member) in tests {
            take(at, &member.test_pool(id)?);
        }
        Ok(())
    }

    pub(crate) fn united_list(
        &self,
        of: impl Fn(&Archive) -> Result<Vec<ListedTest>, ArchiveError>,
    ) -> Result<Vec<ListedTest>, ArchiveError> {
        let found = self.each_that_knows(of)?;
        let mut all: Vec<ListedTest> = found.into_iter().flat_map(|(_, tests)| tests).collect();
        // Of a test that several members have, the one with packets comes first.
        all.sort_by(|a, b| (a.started_ns, &a.id, !a.has_packets).cmp(&(b.started_ns, &b.id, !b.has_packets)));
        all.dedup_by(|later, first| later.id == first.id);
        Ok(all)
    }

    pub(crate) fn united_streams(&self, filter: &Filter) -> Result<Vec<(i64, PooledStream)>, ArchiveError> {
        let mut all: Vec<(i64, PooledStream)> = Vec::new();
        let mut known = HashSet::new();
        for (k, streams) in self.each_that_knows(|member| member.streams_of(filter))? {
            for (local, stream) in streams {
                if known.insert(stream.clone()) {
                    all.push((self.number_in_all(k, local, &stream)?, stream));
                }
            }
        }
        Ok(all)
    }

    /// Returns the number of the stream `local` of a member in all archives: that of the first member that has it, whatever was selected.
    fn number_in_all(&self, member: usize, local: i64, stream: &PooledStream) -> Result<i64, ArchiveError> {
        for (k, earlier) in self.members[..member].iter().enumerate() {
            if let Some(number) = earlier.number_of(stream)? {
                return Ok(united(k, number));
            }
        }
        Ok(united(member, local))
    }

    /// Returns the values that the members have of each stream, by its number in all archives.
    fn by_stream<T>(
        &self,
        of: impl Fn(&Archive) -> Result<Vec<(i64, PooledStream, T)>, ArchiveError>,
    ) -> Result<Vec<(i64, Vec<T>)>, ArchiveError> {
        let (mut all, mut places) = (Vec::<(i64, Vec<T>)>::new(), HashMap::new());
        for (k, found) in self.each(of)? {
            for (local, stream, value) in found {
                match places.get(&stream) {
                    Some(at) => {
                        let (_, values): &mut (i64, Vec<T>) = &mut all[*at];
                        values.push(value);
                    }
                    None => {
                        all.push((self.number_in_all(k, local, &stream)?, vec![value]));
                        places.insert(stream, all.len() - 1);
                    }
                }
            }
        }
        Ok(all)
    }

    pub(crate) fn united_newest(&self) -> Result<Vec<Newest>, ArchiveError> {
        let of = |member: &Archive| {
            let all = member.newest()?.into_iter().map(|n| (n.stream_id, n.stream.clone(), n));
            Ok(all.collect())
        };
        let newest = self.by_stream(of)?.into_iter().filter_map(|(number, found)| {
            // If members have the same newest test, the one with the longer run of bad tests has more of the earlier ones.
            let run = |n: &Newest| n.bad.map_or(0, |bad| bad.tests);
            let newest = found.into_iter().max_by_key(|n| (n.started_ns, run(n)))?;
            Some(Newest { stream_id: number, ..newest })
        });
        let mut newest: Vec<Newest> = newest.collect();
        newest.sort_by(|a, b| {
            (&a.stream.src, &a.stream.dst, a.stream_id).cmp(&(&b.stream.src, &b.stream.dst, b.stream_id))
        });
        Ok(newest)
    }

    pub(crate) fn united_newest_figures<const N: usize>(
        &self,
        figures: &[&str; N],
    ) -> Result<BTreeMap<i64, [Option<f64>; N]>, ArchiveError> {
        let of = |member: &Archive| {
            let mut values = member.newest_figures(figures)?;
            let newest = member.newest()?.into_iter();
            let of = |n: Newest| Some((n.stream_id, n.stream, (n.started_ns, values.remove(&n.stream_id)?)));
            Ok(newest.filter_map(of).collect())
        };
        let mut all = BTreeMap::new();
        for (number, found) in self.by_stream(of)? {
            if let Some((_, values)) = found.into_iter().max_by_key(|(at, _): &(i64, _)| *at) {
                all.insert(number, values);
            }
        }
        Ok(all)
    }

    pub(crate) fn united_extent(&self) -> Result<ArchiveExtent, ArchiveError> {
        let found = self.each(Archive::extent)?;
        let mut all = ArchiveExtent::default();
        for (_, extent) in &found {
            all.tests += extent.tests;
            all.first_ns = all.first_ns.into_iter().chain(extent.first_ns).min();
            all.last_ns = all.last_ns.max(extent.last_ns);
        }
        all.tests = all.tests.saturating_sub(self.in_several()?);
        Ok(all)
    }

    /// Returns by how much the sum of the members' tests is too large, because some of the tests are in several members.
    fn in_several(&self) -> Result<u64, ArchiveError> {
        let mut surplus = 0;
        for (_, places) in self.by_stream(|member| {
            let streams = member.streams_of(&Filter::default())?;
            Ok(streams
                .into_iter()
                .map(|(local, stream)| (local, stream, (member.root.clone(), local)))
                .collect())
        })? {
            if places.len() < 2 {
                continue;
            }
            let mut seen = HashSet::new();
            for (root, local) in places {
                let Some(member) = self.members.iter().find(|member| member.root == root) else { continue };
                let tests = member.starts(local, i64::MIN, i64::MAX)?;
                surplus += tests.iter().filter(|(_, id)| !seen.insert(*id)).count() as u64;
            }
        }
        Ok(surplus)
    }

    pub(crate) fn united_find(&self, text: &str) -> Result<TestId, ArchiveError> {
        let (mut found, mut last) = (BTreeSet::new(), None);
        for member in &self.members {
            match member.find(text) {
                Ok(id) => drop(found.insert(id)),
                Err(e @ ArchiveError::NoSuchTest { .. }) => last = Some(e),
                Err(e) => return Err(e),
            }
        }
        match (found.len(), found.pop_first(), last) {
            (1, Some(id), _) => Ok(id),
            (0, _, Some(e)) => Err(e),
            (count, ..) => Err(ArchiveError::Ambiguous { id: text.to_owned(), count }),
        }
    }

    /// Alerts of all members, newest first. Two judges of a mesh each record the alert of one incident: those that are about the same, at
    /// overlapping times, are one alert, that of the judge that fired first.
    pub(crate) fn united_alerts(&self, most: usize) -> Result<Vec<Alert>, ArchiveError> {
        let mut all: Vec<Alert> = Vec::new();
        for (k, alerts) in self.each(|member| member.alerts(most))? {
            all.extend(alerts.into_iter().map(|alert| Alert { id: united(k, alert.id), ..alert }));
        }
        all.sort_by_key(|alert| (alert.fired_ns, alert.id));
        let mut once: Vec<Alert> = Vec::new();
        let mut newest_about: HashMap<[String; 5], usize> = HashMap::new();
        for alert in all {
            let about = [&alert.alert, &alert.scope, &alert.test, &alert.src, &alert.dst].map(Clone::clone);
            let same = newest_about.get(&about).map(|at| &mut once[*at]);
            match same.filter(|same| same.resolved_ns.is_none_or(|end| alert.since_ns <= end)) {
                // The alert fires as long as it fires according to one of the judges.
                Some(same) => {
                    same.resolved_ns = same.resolved_ns.zip(alert.resolved_ns).map(|(a, b)| a.max(b));
                    same.paths = same.paths.max(alert.paths);
                    if same.acknowledged_ns.is_none() {
                        same.acknowledged_ns = alert.acknowledged_ns;
                        same.acknowledged_by = alert.acknowledged_by;
                        same.note = alert.note;
                    }
                    same.resolution = same.resolved_ns.and(same.resolution.take().or(alert.resolution));
                }
                None => {
                    newest_about.insert(about, once.len());
                    once.push(alert);
                }
            }
        }
        once.sort_by_key(|alert| {
            (alert.resolved_ns.is_some(), std::cmp::Reverse(alert.resolved_ns.unwrap_or(alert.fired_ns)))
        });
        once.truncate(most);
        Ok(once)
    }

    /// Returns the member that recorded the alert `number`, and its number there.
    pub(crate) fn member_of(&self, number: i64) -> Option<(&Archive, i64)> {
        let base = MAX_MEMBERS as i64;
        Some((self.members.get(number.rem_euclid(base) as usize)?, number.div_euclid(base)))
    }

    /// Calls `of` for each member, and concatenates the lists.
    pub(crate) fn all_of<T>(
        &self,
        of: impl Fn(&Archive) -> Result<Vec<T>, ArchiveError>,
    ) -> Result<Vec<T>, ArchiveError> {
        Ok(self.each(of)?.into_iter().flat_map(|(_, list)| list).collect())
    }

    pub(crate) fn united_map<K: Ord, V>(
        &self,
        of: impl Fn(&Archive) -> Result<BTreeMap<K, V>, ArchiveError>,
    ) -> Result<BTreeMap<K, V>, ArchiveError> {
        let mut all = BTreeMap::new();
        for (_, found) in self.each(of)? {
            for (key, value) in found {
                all.entry(key).or_insert(value);
            }
        }
        Ok(all)
    }

    /// Counts of slots: a slot is counted by the monitor of its client, so that equal counts are of the same slots.
    pub(crate) fn united_slots(&self) -> Result<Vec<(SlotFilter, u64)>, ArchiveError> {
        let mut all: Vec<(SlotFilter, u64)> = Vec::new();
        for (slot, count) in self.all_of(Archive::slots)? {
            match all.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, most)) => *most = (*most).max(count),
                None => all.push((slot, count)),
            }
        }
        Ok(all)
    }

    /// Hosts that push to the members, each once, with the counts of the member that received its report last.
    pub(crate) fn united_collected(&self) -> Result<Vec<CollectedHost>, ArchiveError> {
        let mut all: BTreeMap<String, CollectedHost> = BTreeMap::new();
        for host in self.all_of(Archive::collected)? {
            match all.get(&host.host) {
                Some(known) if known.heard_ns.max(known.stored_ns) >= host.heard_ns.max(host.stored_ns) => {}
                _ => drop(all.insert(host.host.clone(), host)),
            }
        }
        Ok(all.into_values().collect())
    }

    /// Totals of all members; `after` has the number of tests entered in each member until then.
    pub(crate) fn united_totals(
        &self,
        after: Option<&[i64]>,
        most: usize,
    ) -> Result<ArchiveTotals, ArchiveError> {
        let after = after.filter(|after| after.len() == self.members.len());
        // The pools of a stream that several members have are not the sum of theirs.
        let found = self.by_stream(|member| {
            let list = member.totals(Some(&[i64::MAX]), most)?;
            let own = list.streams.into_iter().map(|total| (total.stream_id, total.stream.clone(), total));
            Ok(own.collect())
        })?;
        let mut totals = ArchiveTotals { entered: self.entered_counts()?, ..ArchiveTotals::default() };
        totals.left_out = found.len().saturating_sub(most) as u64;
        for (number, places) in found.into_iter().take(most) {
            let losses = match places.len() {
                0 | 1 => None,
                _ => Some(self.united_losses(number)?),
            };
            let Some(mut total) = places.into_iter().max_by_key(|total| total.last_ns) else { continue };
            total.stream_id = number;
            total.losses = losses.unwrap_or(total.losses);
            total.pool = match after {
                None => self.pool(number, PoolPeriod::All, i64::MIN, i64::MAX)?,
                Some(_) => Pool::default(),
            };
            totals.streams.push(total);
        }
        if let Some(after) = after {
            self.add_entered(after, &mut totals)?;
        }
        Ok(totals)
    }

    /// Returns the counters of loss shares of a stream that several members have. If several of them have removed tests, those of the
    /// member with most tests count, because removed tests cannot be told apart.
    pub(crate) fn united_losses(&self, stream: i64) -> Result<LossCounters, ArchiveError> {
        let places = self.places(stream)?;
        let mut all = LossCounters::new();
        let (mut seen, mut removing, mut most) = (HashSet::new(), 0, LossCounters::new());
        let tests = |counters: &LossCounters| counters.values().map(|(tests, _)| tests).sum::<u64>();
        for (member, local) in &places {
            removing += usize::from(member.has_removed_from(*local)?);
            let own = member.losses_of(*local)?;
            let ids: Vec<i64> =
                member.starts(*local, i64::MIN, i64::MAX)?.into_iter().map(|(_, id)| id).collect();
            let again: Vec<i64> = ids.iter().copied().filter(|id| seen.contains(id)).collect();
            if tests(&own) > tests(&most) {
                most = own.clone();
            }
            if again.is_empty() || again.len() < ids.len() {
                for (bucket, (tests, share)) in own {
                    let (all_tests, all_share) = all.entry(bucket).or_insert((0, 0.0));
                    *all_tests += tests;
                    *all_share += share;
                }
                for id in &again {
                    let Some(share) = member.loss_of(*id)? else { continue };
                    if let Some((tests, sum)) = all.get_mut(&share_bucket(share)) {
                        *tests = tests.saturating_sub(1);
                        *sum -= share;
                    }
                }
            }
            seen.extend(ids);
        }
        all.retain(|_, (tests, _)| *tests > 0);
        Ok(if removing > 0 { most } else { all })
    }

    fn has_removed_from(&self, stream: i64) -> Result<bool, ArchiveError> {
        let query = "SELECT 1 FROM kept WHERE stream = ?";
        self.db.prepare_cached(query).and_then(|mut q| q.exists([stream])).map_err(self.sql("reading"))
    }

    fn losses_of(&self, stream: i64) -> Result<LossCounters, ArchiveError> {
        let query = "SELECT bucket, tests, lost_share FROM losses WHERE stream = ?";
        let run = || {
            let mut losses = self.db.prepare_cached(query)?;
            let take = |row: &rusqlite::Row<'_>| {
                Ok((row.get(0)?, (crate::catalogue::unsigned(row, 1)?, row.get(2)?)))
            };
            losses.query_map([stream], take)?.collect()
        };
        let found: rusqlite::Result<_> = run();
        found.map_err(self.sql("reading"))
    }

    /// Returns the loss share of a test; `None` if it is undefined.
    fn loss_of(&self, id: i64) -> Result<Option<f64>, ArchiveError> {
        let query = "SELECT f.loss FROM tests t JOIN figures f ON f.test = t.number WHERE t.id = ?";
        let run = || self.db.prepare_cached(query)?.query_row([id], |row| row.get(0)).optional();
        Ok(run().map_err(self.sql("reading"))?.flatten())
    }

    /// Adds the tests that were entered after the numbers `after`, one for each member. A test that another member had before, or that
    /// an earlier member has too, is left out.
    fn add_entered(&self, after: &[i64], totals: &mut ArchiveTotals) -> Result<(), ArchiveError> {
        let index: HashMap<PooledStream, usize> =
            totals.streams.iter().enumerate().map(|(k, total)| (total.stream.clone(), k)).collect();
        for (k, member) in self.members.iter().enumerate() {
            for (id, local) in member.entered_since(after[k])? {
                let Some(at) = index.get(&member.stream_of(local)?) else { continue };
                let mut is_counted = false;
                for (j, other) in self.members.iter().enumerate().filter(|(j, _)| *j != k) {
                    is_counted |= match other.entered_as(id)? {
                        Some(number) => j < k || number <= after[j],
                        None => false,
                    };
                }
                if !is_counted {
                    totals.streams[*at].pool.merge(&member.test_pool(id)?);
                }
            }
        }
        Ok(())
    }

    /// Returns the identifier and the stream of each test that was entered after a number.
    pub(crate) fn entered_since(&self, number: i64) -> Result<Vec<(i64, i64)>, ArchiveError> {
        let run = || {
            let mut tests = self.db.prepare_cached("SELECT id, stream FROM tests WHERE entered > ?")?;
            tests.query_map([number], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let found: rusqlite::Result<_> = run();
        found.map_err(self.sql("reading"))
    }

    /// Returns the number with which a test was entered; `None` if this archive does not have it.
    fn entered_as(&self, id: i64) -> Result<Option<i64>, ArchiveError> {
        let query = "SELECT entered FROM tests WHERE id = ?";
        let run = || self.db.prepare_cached(query)?.query_row([id], |row| row.get(0)).optional();
        run().map_err(self.sql("reading"))
    }
}
