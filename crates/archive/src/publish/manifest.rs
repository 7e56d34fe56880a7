//! [`Manifest`]: the list of all files that an archive has published, docs/formats/lake.md.

use serde::{Deserialize, Serialize};

/// Version of the manifest and of the tables.
pub const MANIFEST_VERSION: u32 = 1;

/// The tables of a lake, in the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LakeTable {
    /// Packets, as in the files of an archive.
    Packets,
    /// One row per test: its stream, its tags, its figures, and the state from which its figures can be pooled.
    Summaries,
    /// One row per stream and hour of each publication: counts, and the state of all its tests.
    Rollups,
}

impl LakeTable {
    /// All tables.
    pub const ALL: [LakeTable; 3] = [LakeTable::Packets, LakeTable::Summaries, LakeTable::Rollups];

    /// Name of the table, and of its folder.
    pub fn name(self) -> &'static str {
        match self {
            LakeTable::Packets => "packets",
            LakeTable::Summaries => "summaries",
            LakeTable::Rollups => "rollups",
        }
    }
}

/// A published file. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LakeFile {
    /// Table to which it belongs: packets, summaries or rollups.
    pub table: String,
    /// Path in the lake, with `/` between its parts.
    pub path: String,
    /// Number of rows.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, 64 hexadecimal digits.
    pub sha256: String,
}

/// The newest test of a publication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedThrough {
    /// Number of the test in the order in which tests were added to the archive, from 1; 0 for tests of early versions.
    pub entered: i64,
    /// Number of the test, 16 hexadecimal digits.
    pub test: String,
}

/// Content of `manifests/NAME.json`: all files of one archive in a lake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Manifest {
    /// Version of the manifest and of the tables; 1.
    pub version: u32,
    /// Name of the archive in the lake.
    pub archive: String,
    /// Newest published test. Everything up to it is in the files; null before the first test.
    pub through: Option<PublishedThrough>,
    /// Files in the order in which they were written.
    pub files: Vec<LakeFile>,
}

impl Manifest {
    /// Creates the manifest of an archive of which nothing has been published.
    pub fn new(archive: &str) -> Manifest {
        Manifest { version: MANIFEST_VERSION, archive: archive.to_owned(), through: None, files: Vec::new() }
    }

    /// Path of the manifest of the archive `name`.
    pub fn path(name: &str) -> String {
        format!("manifests/{name}.json")
    }

    /// Formats the manifest, one file per line.
    pub(super) fn to_text(&self) -> serde_json::Result<String> {
        let head = Manifest { files: Vec::new(), ..self.clone() };
        let head = serde_json::to_string(&head)?;
        let files = self.files.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        let open = head.strip_suffix("]}").unwrap_or(&head);
        Ok(if files.is_empty() { head + "\n" } else { format!("{open}\n{}\n]}}\n", files.join(",\n")) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let file = LakeFile {
            table: "packets".into(),
            path: "packets/a=1/b.parquet".into(),
            rows: 1,
            bytes: 2,
            sha256: "0".repeat(64),
        };
        let mut manifest = Manifest::new("net");
        for _ in 0..3 {
            let text = manifest.to_text().unwrap();
            assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
            manifest.files.push(file.clone());
            manifest.through = Some(PublishedThrough { entered: 7, test: "0123456789abcdef".into() });
        }
    }
}
