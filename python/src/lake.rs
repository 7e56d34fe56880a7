//! Publication of an archive to a lake: a folder, or a store that Python can write.

use crate::errors::{Error, failed};
use jitlat_archive::{Archive, LakeFolder, LakeStore, PublishedLake};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::io;
use std::path::{Path, PathBuf};

/// A store with the methods of `jitlat.lake.Store`.
struct PythonStore(Py<PyAny>);

impl PythonStore {
    fn call<T>(&self, run: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> io::Result<T> {
        Python::attach(|py| run(self.0.bind(py)).map_err(|e| io::Error::other(e.to_string())))
    }
}

impl LakeStore for PythonStore {
    fn lock(&mut self, _: &str) -> io::Result<()> {
        // Object stores have no locks.
        Ok(())
    }

    fn staging(&mut self) -> io::Result<jitlat_archive::StagingFolder> {
        jitlat_archive::StagingFolder::temporary()
    }

    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.call(|store| store.call_method1("read", (name,))?.extract())
    }

    fn list(&mut self, folder: &str) -> io::Result<Vec<String>> {
        self.call(|store| store.call_method1("list", (folder,))?.extract())
    }

    fn put(&mut self, from: &Path, name: &str) -> io::Result<()> {
        self.call(|store| store.call_method1("put", (from, name)).map(drop))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.call(|store| store.call_method1("remove", (name,)).map(drop))
    }
}

/// Publishes the archive at `root`, and returns counts.
pub fn publish<'py>(
    py: Python<'py>,
    root: &Path,
    lake: Bound<'py, PyAny>,
    name: Option<String>,
    again: bool,
    filesystem: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let name = match name {
        Some(name) => name,
        None => {
            let whole = root.canonicalize().map_err(failed)?;
            let name = whole.file_name().and_then(|name| name.to_str());
            name.ok_or_else(|| Error::new_err("the folder of the archive has no name: give name="))?
                .to_owned()
        }
    };
    let is_remote = filesystem.is_some() || lake.extract::<String>().is_ok_and(|uri| uri.contains("://"));
    let mut store: Box<dyn LakeStore + Send> = if is_remote {
        let store = py.import("jitlat.lake")?.getattr("Store")?.call1((lake, filesystem))?;
        Box::new(PythonStore(store.unbind()))
    } else {
        Box::new(LakeFolder::make(&lake.extract::<PathBuf>()?).map_err(failed)?)
    };
    let mut interrupted = None;
    let published = py.detach(|| {
        Archive::open(root)?.publish(store.as_mut(), &name, again, |_, _| {
            interrupted = Python::attach(|py| py.check_signals()).err();
            interrupted.is_none()
        })
    });
    let PublishedLake { tests, packets_of, files, bytes, removed, unreadable, .. } =
        published.map_err(failed)?;
    if let Some(why) = interrupted {
        return Err(why);
    }
    let counts = PyDict::new(py);
    let numbers = [
        ("tests", tests),
        ("packets_of", packets_of),
        ("files", files),
        ("bytes", bytes),
        ("removed", removed),
    ];
    numbers.iter().try_for_each(|(key, value)| counts.set_item(key, value))?;
    let unreadable: Vec<(String, String)> =
        unreadable.iter().map(|(id, e)| (id.to_string(), e.to_string())).collect();
    counts.set_item("unreadable", unreadable)?;
    Ok(counts)
}
