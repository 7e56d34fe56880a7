//! Shared code of the targets about archives.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

/// Runs `body`, in which panics are allowed if they are caught: the archive catches those of the Parquet library.
/// libFuzzer's hook would end the program at any panic.
pub fn uncaught(body: impl FnOnce()) {
    static HOOK: Once = Once::new();
    static LAST: Mutex<String> = Mutex::new(String::new());
    HOOK.call_once(|| {
        set_hook(Box::new(|info| {
            if let Ok(mut last) = LAST.lock() {
                *last = format!("{info}\n{}", std::backtrace::Backtrace::force_capture());
            }
        }));
    });
    if catch_unwind(AssertUnwindSafe(body)).is_err() {
        eprintln!("{}", LAST.lock().map_or_else(|_| String::new(), |last| last.clone()));
        std::process::abort();
    }
}

/// A folder in memory, removed when dropped.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Scratch {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Scratch(made.expect("a folder for files"))
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}
