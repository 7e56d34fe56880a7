//! [`Archive::add`]: a log into the archive.

use crate::checksum::{number, sum};
use crate::error::Error;
use crate::packed::pack;
use crate::packets::{Block, MOST_ROWS, Piece, Published, StoredFile, StoredTest, Tests, Writer};
use crate::parts::take_apart;
use crate::text::Rest;
use crate::{Archive, Stream, TestId, alerts, rollup, totals};
use jitlat_core::figures::selectors;
use jitlat_core::pool::Pool;
use jitlat_core::{Analyzer, Direction, Options, PacketRecord, Session, Summary};
use jitlat_store::log::LogReader;
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params, params_from_iter};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What became of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is in the archive now.
    New(TestId),
    /// The same log was there already.
    Known(TestId),
}

/// What the catalogue knows of a test beside its packets.
pub(crate) struct Entry {
    pub id: i64,
    pub hash: String,
    pub session: Session,
    pub summary: Summary,
    pub pool: Pool,
    pub started_ns: i64,
    pub source: String,
    pub tags: Vec<(String, String)>,
    pub log_bytes: u64,
    pub rows: u64,
    pub row_group: u64,
    pub first_row: u64,
    pub rest: Rest,
}

impl Entry {
    /// From a log and its analysis; packets and other lines follow.
    pub fn of(
        mut reader: LogReader,
        sum: u128,
        log_bytes: u64,
        source: &str,
        tags: &[(String, String)],
    ) -> Result<Entry, Error> {
        let mut analyzer = Analyzer::new(reader.session(), &Options::default());
        let mut first = None;
        reader.each_chunk(|records| {
            first = first.or_else(|| records.iter().find_map(PacketRecord::sent));
            analyzer.push_all(records);
        })?;
        let session = reader.session().clone();
        let (mut summary, samples) = analyzer.finish_with_samples(&session);
        reader.reading().add_to(&mut summary);
        let started = session.created.or(first).map_or(0, |t| t.0);
        let mut all = session.tags.clone();
        all.retain(|(key, _)| tags.iter().all(|(given, _)| given != key));
        all.extend_from_slice(tags);
        Ok(Entry {
            id: number(sum),
            hash: format!("{sum:032x}"),
            pool: Pool::of(&summary, &samples),
            session,
            summary,
            started_ns: started,
            source: source.to_owned(),
            tags: all,
            log_bytes,
            rows: 0,
            row_group: 0,
            first_row: 0,
            rest: Rest::default(),
        })
    }

    /// What a file of packets says of the test.
    fn stored(&self) -> StoredTest {
        StoredTest {
            id: self.id,
            hash: self.hash.clone(),
            row_group: self.row_group,
            first_row: self.first_row,
            rows: self.rows,
            source: self.source.clone(),
            tags: self.tags.clone(),
            rest: self.rest.clone(),
        }
    }
}

impl Archive {
    /// Puts the log at `path` into the archive, with `tags` beside its own. The same log is not put in twice.
    ///
    /// # Errors
    /// [`Error`]; then the archive is as it was.
    pub fn add(&self, path: &Path, tags: &[(String, String)]) -> Result<Added, Error> {
        let unsuitable = |problem| Error::Unsuitable { path: path.to_owned(), problem };
        if !path.is_file() {
            return Err(match std::fs::metadata(path) {
                Ok(_) => unsuitable("it is no file, and a log is read twice"),
                Err(e) => Error::io("opening the log", path)(e),
            });
        }
        let (sum, log_bytes) = sum(path)?;
        if let Some(known) = self.known(sum)? {
            return Ok(Added::Known(known));
        }
        let source = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut entry = Entry::of(LogReader::open(path)?, sum, log_bytes, &source, tags)?;
        let _writing = self.lock()?;
        if let Some(known) = self.known(sum)? {
            return Ok(Added::Known(known));
        }
        let published = self.write_packets(path, &mut entry, sum)?;
        let entered = self.transaction(|all| enter(all, &entry, file(all, &published)?));
        if let Err(e) = entered {
            // Nobody knows of the file; if it cannot be removed now, fsck finds it.
            let _ = std::fs::remove_file(self.root.join(&published.name));
            return Err(e);
        }
        Ok(Added::New(TestId(entry.id)))
    }

    /// The test whose log has this checksum.
    fn known(&self, sum: u128) -> Result<Option<TestId>, Error> {
        let query = "SELECT hash FROM tests WHERE id = ?1 UNION SELECT hash FROM gone WHERE id = ?1";
        let hash: Option<String> = self
            .db
            .query_row(query, [number(sum)], |row| row.get(0))
            .optional()
            .map_err(self.sql("reading"))?;
        match hash {
            Some(hash) if hash != format!("{sum:032x}") => {
                Err(Error::Impossible(format!("another log has the number {}", TestId(number(sum)))))
            }
            hash => Ok(hash.map(|_| TestId(number(sum)))),
        }
    }

    /// Runs `change` in one transaction.
    pub(crate) fn transaction<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let run = || {
            let all = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate)?;
            let result = change(&all)?;
            all.commit()?;
            Ok(result)
        };
        run().map_err(self.sql("writing"))
    }

    /// Writes the packets of a log, and takes its other lines into `entry`.
    fn write_packets(&self, path: &Path, entry: &mut Entry, sum: u128) -> Result<Published, Error> {
        let temporary = self.root.join("tmp").join(format!("{}.parquet", TestId(entry.id)));
        let mut writer = Writer::create(&temporary)?;
        let mut block = Block::default();
        block.begin(entry.id);
        (entry.rows, entry.rest) = take_apart(path, sum, |row| {
            block.push(row);
            if block.len() == MOST_ROWS {
                writer.write(&block)?;
                block.clear();
            }
            Ok(())
        })?;
        writer.write(&block)?;
        let day = rollup::day_name(entry.started_ns);
        let name = format!("packets/day={day}/{}.parquet", TestId(entry.id));
        writer.publish(&self.root, &name, &Tests { tests: vec![entry.stored()] })
    }
}

/// Enters a file; returns its number.
pub(crate) fn file(all: &Transaction<'_>, published: &Published) -> rusqlite::Result<i64> {
    let Published { name, bytes, row_groups, footer } = published;
    all.execute(
        "INSERT INTO files(name, bytes, footer_start, footer_bytes, footer_sum) VALUES (?, ?, ?, ?, ?)",
        params![
            name,
            *bytes as i64,
            footer.start as i64,
            footer.bytes as i64,
            format!("{:032x}", footer.sum)
        ],
    )?;
    let file = all.last_insert_rowid();
    let mut insert = all
        .prepare("INSERT INTO row_groups(file, number, start, bytes, rows, sum) VALUES (?, ?, ?, ?, ?, ?)")?;
    for (number, Piece { start, bytes, rows, sum }) in (0i64..).zip(row_groups) {
        insert.execute(params![
            file,
            number,
            *start as i64,
            *bytes as i64,
            *rows as i64,
            format!("{sum:032x}")
        ])?;
    }
    Ok(file)
}

/// Of what is known of a stored file, what is entered.
pub(crate) fn published(name: &str, bytes: u64, stored: &StoredFile) -> Published {
    Published { name: name.to_owned(), bytes, row_groups: stored.row_groups.clone(), footer: stored.footer }
}

fn host(all: &Transaction<'_>, address: &str, name: Option<&str>) -> rusqlite::Result<i64> {
    all.execute(
        "INSERT INTO hosts(address, name) VALUES (?1, ?2) ON CONFLICT(address) DO UPDATE SET name = coalesce(?2, name)",
        params![address, name],
    )?;
    all.query_row("SELECT id FROM hosts WHERE address = ?", [address], |row| row.get(0))
}

/// The stream that a test is of, which is entered if it is new.
fn stream(all: &Transaction<'_>, session: &Session) -> rusqlite::Result<i64> {
    let Stream { src, dst, protocol, direction, payload_bytes, period_ns, dscp } = Stream::of(session);
    let down = session.two_way.is_none() && session.spec.direction() == Direction::Down;
    let (client, server) = (session.client.name.as_deref(), session.server.name.as_deref());
    let (sender, receiver) = if down { (server, client) } else { (client, server) };
    let (src, dst) = (host(all, &src, sender)?, host(all, &dst, receiver)?);
    let (payload, period) = (payload_bytes.unwrap_or(-1), period_ns.unwrap_or(-1));
    let kind = params![src, dst, protocol, direction, payload, period, dscp];
    all.execute(
        "INSERT OR IGNORE INTO streams(src, dst, protocol, direction, payload, period_ns, dscp) VALUES (?, ?, ?, ?, ?, ?, ?)",
        kind,
    )?;
    all.query_row(
        "SELECT id FROM streams WHERE (src, dst, protocol, direction, payload, period_ns, dscp) = (?, ?, ?, ?, ?, ?, ?)",
        kind,
        |row| row.get(0),
    )
}

/// Enters a test whose packets are in `file`.
pub(crate) fn enter(all: &Transaction<'_>, entry: &Entry, file: i64) -> rusqlite::Result<()> {
    let stream = stream(all, &entry.session)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
    let answer = entry.summary.answer.as_ref();
    let severity = answer.and_then(|a| serde_json::to_value(a.severity).ok());
    all.execute(
        "INSERT INTO tests(id, hash, stream, started_ns, name, source, added_ns, packets, log_bytes, file, row_group, first_row, \
         severity, headline, rest, session, pool, entered) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            entry.id,
            entry.hash,
            stream,
            entry.started_ns,
            entry.session.name,
            entry.source,
            now,
            entry.rows as i64,
            entry.log_bytes as i64,
            file,
            entry.row_group as i64,
            entry.first_row as i64,
            severity.as_ref().and_then(|s| s.as_str()).unwrap_or("unknown"),
            answer.map_or("", |a| a.headline.as_str()),
            entry.rest.to_bytes(),
            pack(&entry.session),
            rollup::pack_pool(&entry.pool),
            alerts::next_number(all)?,
        ],
    )?;
    for (key, value) in &entry.tags {
        all.execute(
            "INSERT OR REPLACE INTO tags(test, key, value) VALUES (?, ?, ?)",
            params![entry.id, key, value],
        )?;
    }
    let known: Vec<(String, f64)> = selectors()
        .filter_map(|s| Some((s.to_string(), s.of(&entry.summary)?.as_f64())))
        .filter(|(_, x)| x.is_finite())
        .collect();
    let names: String = known.iter().map(|(key, _)| format!(", \"{key}\"")).collect();
    let insert =
        format!("INSERT INTO figures(test{names}) VALUES ({}{})", entry.id, ", ?".repeat(known.len()));
    all.execute(&insert, params_from_iter(known.iter().map(|(_, x)| x)))?;
    if let Some((_, share)) = known.iter().find(|(key, _)| key == "loss") {
        totals::count_loss(all, stream, *share)?;
    }
    rollup::add(all, stream, entry.started_ns, &entry.pool)
}
