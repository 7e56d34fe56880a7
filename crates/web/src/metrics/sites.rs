//! [`SiteTotals`]: totals by site, for archives with too many streams for a sample of each.

use super::tally::TestTotals;
use jitlat_archive::{Archive, ArchiveError, LossCounters};
use std::collections::{BTreeMap, HashMap};

/// Streams that are counted together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteKey {
    /// Site of the sender; empty if it has none.
    pub src: String,
    /// Site of the receiver; empty if it has none.
    pub dst: String,
    pub direction: String,
    pub protocol: String,
}

/// Totals of the streams of a key.
#[derive(Clone, Debug, Default)]
pub struct SiteGroup {
    pub streams: u64,
    pub tests: TestTotals,
    pub losses: LossCounters,
    /// Start of the newest test, ns since 1970; `None` without tests.
    pub last_ns: Option<i64>,
}

/// Totals by site as of the last update.
#[derive(Debug, Default)]
pub struct SiteTotals {
    pub groups: BTreeMap<SiteKey, SiteGroup>,
    /// Numbers of tests that the archives had at the last update; `None` before the first.
    entered: Option<Vec<i64>>,
    /// Sites of hosts at the last update.
    sites: BTreeMap<String, String>,
}

/// Returns the sites of hosts that have one, by name.
fn sites(archive: &Archive) -> Result<BTreeMap<String, String>, ArchiveError> {
    let site = |(host, mut labels): (String, BTreeMap<String, String>)| Some((host, labels.remove("site")?));
    Ok(archive.labels()?.into_iter().filter_map(site).collect())
}

impl SiteTotals {
    /// Adds the tests that were added to the archive since the last update.
    ///
    /// # Errors
    /// [`ArchiveError`]; the next update then reads everything.
    pub fn update(&mut self, archive: &Archive) -> Result<(), ArchiveError> {
        let sites = sites(archive)?;
        let now = archive.entered_counts()?;
        // Fewer tests mean that the archive was replaced. If the sites changed, all tests are divided again.
        let before = self.entered.take().filter(|before| {
            before.len() == now.len() && before.iter().zip(&now).all(|(a, b)| a <= b) && self.sites == sites
        });
        if before.is_none() {
            self.groups.clear();
        }
        for group in self.groups.values_mut() {
            (group.streams, group.losses, group.last_ns) = (0, LossCounters::new(), None);
        }
        let site = |host: &String| sites.get(host).cloned().unwrap_or_default();
        let mut losses = archive.loss_counters()?;
        let mut of_stream: HashMap<i64, SiteKey> = HashMap::new();
        for ends in archive.stream_ends()? {
            let key = SiteKey {
                src: site(&ends.src),
                dst: site(&ends.dst),
                direction: ends.direction,
                protocol: ends.protocol,
            };
            let group = self.groups.entry(key.clone()).or_default();
            group.streams += 1;
            group.last_ns = group.last_ns.max(ends.last_ns);
            for (bucket, (tests, share)) in losses.remove(&ends.stream_id).unwrap_or_default() {
                let (all, sum) = group.losses.entry(bucket).or_insert((0, 0.0));
                *all += tests;
                *sum += share;
            }
            of_stream.insert(ends.stream_id, key);
        }
        let mut add = |stream: i64, pool: &_| {
            // A stream that was added after the list was read has no group yet: these tests are left out until all tests are read again.
            if let Some(group) = of_stream.get(&stream).and_then(|key| self.groups.get_mut(key)) {
                group.tests.add(pool);
            }
        };
        self.entered = Some(archive.each_pool(before.as_deref(), &mut add)?);
        self.sites = sites;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::MetricsTally;
    use super::*;
    use jitlat_archive::Retention;
    use jitlat_core::session::Ending;
    use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
    use jitlat_store::log::{LogVersion, LogWriter};
    use std::fs::File;
    use std::path::Path;

    const DAY: i64 = 86_400_000_000_000;
    const START: i64 = 1_767_225_600_000_000_000;

    /// Adds a test of 50 packets between two hosts, of which some are lost.
    fn add(folder: &Path, archive: &Archive, (src, dst): (u8, u8), day: i64) {
        let spec = TestSpec::default().with_packets(50).unwrap();
        let at = START + day * DAY;
        let address = |host| Some([192, 0, 2, host].into());
        let session = Session {
            created: Some(WallTime(at)),
            src: address(src),
            dst: address(dst),
            sent: Some(50),
            ending: Ending::Complete,
            ..Session::new(spec)
        };
        let path = folder.join("a.log");
        let mut log = LogWriter::new(File::create(&path).unwrap(), LogVersion::V3);
        log.begin(&session);
        for i in (0..50).filter(|i| (i + day) % 20 != 3) {
            let sent = at + i * 20_000_000;
            let delay = 1_000_000 + (i * 7919 + i64::from(src) * 31 + day) % 90_001;
            log.record(&PacketRecord::one_way(i, WallTime(sent), WallTime(sent + delay)));
        }
        log.finish(&session);
        log.close().1.unwrap();
        archive.add(&path, &[]).unwrap();
    }

    #[test]
    fn sites_have_the_sums_of_their_streams() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::make(&folder.path().join("a")).unwrap();
        let site = |name: &str| BTreeMap::from([("site".to_owned(), name.to_owned())]);
        let hosts = [("192.0.2.1", "oslo"), ("192.0.2.2", "oslo"), ("192.0.2.3", "rome")];
        archive.set_labels(&hosts.map(|(host, name)| (host.to_owned(), site(name))).into()).unwrap();
        for day in 0..3 {
            for path in [(1, 3), (2, 3), (3, 1), (1, 2), (1, 4)] {
                add(folder.path(), &archive, path, day);
            }
        }
        let (mut by_site, mut again) = (MetricsTally::default(), MetricsTally::default());
        let check = |tally: &MetricsTally| {
            let mut each = MetricsTally::default();
            each.update(&archive, 100).unwrap();
            let groups = &tally.sites.as_ref().unwrap().groups;
            assert_eq!((groups.len(), groups.values().map(|group| group.streams).sum::<u64>()), (4, 5));
            for (key, group) in groups {
                let host =
                    |site: &str| hosts.iter().filter(|(_, of)| *of == site).map(|(host, _)| *host).collect();
                let of = |site: &str| if site.is_empty() { vec!["192.0.2.4"] } else { host(site) };
                let (src, dst): (Vec<&str>, Vec<&str>) = (of(&key.src), of(&key.dst));
                let mut sums = (0, 0, 0, 0, None);
                for total in &each.streams {
                    if !src.contains(&total.stream.src.as_str()) || !dst.contains(&total.stream.dst.as_str())
                    {
                        continue;
                    }
                    let tests = each.added(total.stream_id).unwrap();
                    sums.0 += tests.tests;
                    sums.1 += tests.lost;
                    sums.2 += tests.delay.histogram().count;
                    sums.3 += total.losses.values().map(|(tests, _)| tests).sum::<u64>();
                    sums.4 = sums.4.max(total.last_ns);
                }
                let losses = group.losses.values().map(|(tests, _)| tests).sum();
                let (tests, delays) = (&group.tests, group.tests.delay.histogram().count);
                assert_eq!((tests.tests, tests.lost, delays, losses, group.last_ns), sums, "{key:?}");
            }
        };
        by_site.update(&archive, 4).unwrap();
        check(&by_site);
        // New tests are added, and removed tests stay counted, also if everything is read again.
        add(folder.path(), &archive, (2, 3), 5);
        by_site.update(&archive, 4).unwrap();
        check(&by_site);
        archive.prune(Retention::Tests { days: 5 }, WallTime(START + 7 * DAY)).unwrap();
        by_site.update(&archive, 4).unwrap();
        check(&by_site);
        again.update(&archive, 4).unwrap();
        check(&again);
        assert_eq!(again.sites.unwrap().groups.len(), 4);
    }
}
