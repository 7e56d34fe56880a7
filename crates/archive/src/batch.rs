//! [`Archive::add_all`]: many logs at once, in one file of packets a day and one transaction.
//!
//! A [`Prepared`] log was read and analysed before anybody has to wait for the archive. What a test costs there does not grow with what else is
//! added: a roll-up is touched once for all of its tests, and the disk is waited for once.

use crate::add::{Added, enter_all, file};
use crate::entry::{Analysis, Entry, Origin};
use crate::error::Error;
use crate::packets::{Block, Published, StoredTest, Tests, Writer};
use crate::parts::{Assembly, take_rows};
use crate::text::is_text_at_its_end;
use crate::tidy::SHARED_ROWS;
use crate::{Archive, TestId, collected, rollup};
use bytes::Bytes;
use jitlat_core::Session;
use jitlat_store::log::LogReader;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Cursor;
use std::path::Path;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Longest log that is prepared: one takes some five times its length of memory.
pub const MOST_PREPARED: u64 = 2 << 20;

/// A log that was read and analysed, to be added.
pub struct Prepared {
    sum: u128,
    entry: Entry,
    block: Block,
    /// The host that sent it to this collector; `None`: it is this host's own.
    host: Option<String>,
}

impl Prepared {
    /// Reads the log `text`, of the name `source`, with `tags` beside its own.
    ///
    /// # Errors
    /// [`Error`], as for what is no log, or longer than [`MOST_PREPARED`].
    pub fn new(text: Vec<u8>, source: &str, tags: &[(String, String)]) -> Result<Prepared, Error> {
        let path = Path::new(source);
        if text.len() as u64 > MOST_PREPARED {
            let problem = "it is too long to be at hand as a whole";
            return Err(Error::Unsuitable { path: path.to_owned(), problem });
        }
        let (sum, text) = (xxh3_128(&text), Bytes::from(text));
        let columns = LogReader::from_reader(source, Box::new(Cursor::new(text.clone())))?.row_text();
        let mut list = Vec::new();
        let (rows, mut rest) = take_rows(&mut &text[..], path, columns, |row| {
            list.push(*row);
            Ok(())
        })?;
        rest.opaque_end = !is_text_at_its_end(&text, &rest);
        let mut log = Assembly::new(source, rest.clone(), rows)?;
        let mut records = Vec::with_capacity(list.len());
        let mut block = Block::default();
        block.begin(crate::checksum::number(sum));
        for row in &list {
            block.push(row);
            log.push(row, |record| records.push(*record))?;
        }
        log.finish(|record| records.push(*record))?;
        let mut analysis = Analysis::new(log.session());
        analysis.push_all(&records);
        let origin = Origin { sum, bytes: text.len() as u64, source, tags };
        let mut entry = analysis.finish(log.session().clone(), log.reading(), &origin);
        entry.complete(rows, rest);
        Ok(Prepared { sum, entry, block, host: None })
    }

    /// The same log, as sent to this collector by `host`, which is among its tags then.
    #[must_use]
    pub fn from_host(mut self, host: &str) -> Prepared {
        self.entry.tags.retain(|(key, _)| key != collected::TAG);
        self.entry.tags.push((collected::TAG.to_owned(), host.to_owned()));
        self.host = Some(host.to_owned());
        self
    }

    /// Its own tags, and those given.
    pub fn tags(&self) -> &[(String, String)] {
        &self.entry.tags
    }

    /// What its log says of the test, without its packets.
    pub fn session(&self) -> &Session {
        &self.entry.session
    }

    /// The number of its test.
    pub fn id(&self) -> TestId {
        TestId(self.entry.id)
    }
}

impl Archive {
    /// Puts logs into the archive, all or none. The same log is not put in twice.
    ///
    /// # Errors
    /// [`Error`]; then the archive is as it was. Of each log: another one has its number.
    pub fn add_all(&self, tests: &mut [Prepared]) -> Result<Vec<Result<Added, Error>>, Error> {
        let _writing = self.lock()?;
        let (mut seen, mut new) = (BTreeSet::new(), Vec::new());
        let mut added = Vec::with_capacity(tests.len());
        for test in tests {
            let id = test.id();
            added.push(match self.known(test.sum) {
                Ok(Some(known)) => Ok(Added::Known(known)),
                Ok(None) if !seen.insert(id) => Ok(Added::Known(id)),
                Ok(None) => {
                    new.push(test);
                    Ok(Added::New(id))
                }
                Err(e @ Error::Impossible(_)) => Err(e),
                Err(e) => return Err(e),
            });
        }
        if new.is_empty() {
            return Ok(added);
        }
        // Tests of a path follow each other, as they do when they are read.
        new.sort_by_cached_key(|test| (rollup::day_name(test.entry.started_ns), test.entry.started_ns));
        let mut published: Vec<(Published, usize)> = Vec::new();
        let result = self.publish_all(&mut new, &mut published).and_then(|()| {
            self.transaction(|all| {
                let mut files = Vec::new();
                for (published, tests) in &published {
                    files.extend(std::iter::repeat_n(file(all, published)?, *tests));
                }
                let entries: Vec<(&Entry, i64)> = new.iter().map(|test| &test.entry).zip(files).collect();
                enter_all(all, &entries)?;
                let mut hosts: BTreeMap<&str, i64> = BTreeMap::new();
                new.iter()
                    .filter_map(|test| test.host.as_deref())
                    .for_each(|host| *hosts.entry(host).or_default() += 1);
                hosts.into_iter().try_for_each(|(host, tests)| collected::count_stored(all, host, tests))
            })
        });
        if let Err(e) = result {
            // Nobody knows of the files; what cannot be removed now, fsck finds.
            for (published, _) in published {
                let _ = fs::remove_file(self.root.join(&published.name));
            }
            return Err(e);
        }
        Ok(added)
    }

    /// Writes the packets of `tests`, which are ordered by day, into a file a day; each file, and how many tests are in it.
    fn publish_all(
        &self,
        tests: &mut [&mut Prepared],
        published: &mut Vec<(Published, usize)>,
    ) -> Result<(), Error> {
        let day = |test: &Prepared| rollup::day_name(test.entry.started_ns);
        for tests in tests.chunk_by_mut(|a, b| day(a) == day(b)) {
            let ids: Vec<u8> = tests.iter().flat_map(|test| test.entry.id.to_be_bytes()).collect();
            let name = match tests {
                [only] => format!("{}.parquet", only.id()),
                _ => format!("{:016x}.parquet", xxh3_64(&ids)),
            };
            let mut writer = Writer::create(&self.root.join("tmp").join(&name))?;
            let (mut first, mut rows, mut group) = (0, 0, 0);
            for k in 0..tests.len() {
                let entry = &mut tests[k].entry;
                (entry.row_group, entry.first_row) = (group, rows as u64);
                rows += tests[k].block.len();
                if rows >= SHARED_ROWS || k + 1 == tests.len() {
                    let blocks: Vec<&Block> = tests[first..=k].iter().map(|test| &test.block).collect();
                    writer.write(&blocks)?;
                    (first, rows, group) = (k + 1, 0, group + 1);
                }
            }
            let stored: Vec<StoredTest> = tests.iter().map(|test| test.entry.stored()).collect();
            let name = format!("packets/day={}/{name}", day(tests[0]));
            published.push((writer.publish(&self.root, &name, &Tests { tests: stored })?, tests.len()));
        }
        Ok(())
    }
}
