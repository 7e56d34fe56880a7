//! [`Work`]: progress of work that is not a measurement, such as adding many logs to an archive: a bar with the time left, or a
//! sign that moves while work of unknown length continues. Nothing is printed to a pipe.

use crate::error::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Time between two frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(250);
/// Signs that are shown in turn during work of unknown length; the last one is shown at its end. ASCII.
const SIGNS: &str = "|/-\\ ";

/// Length of files that take longer than about two seconds to read, in bytes.
const LONG_FILES: u64 = 64 << 20;

/// Number of [`Work`]s that are shown.
static SHOWN: AtomicUsize = AtomicUsize::new(0);

/// True if progress is shown, so that the current line of standard error is not empty.
pub fn is_shown() -> bool {
    SHOWN.load(Ordering::Relaxed) > 0
}

/// Progress on the terminal; removed when dropped.
pub struct Work(ProgressBar);

impl Work {
    /// Shows work of unknown length, which `text` describes.
    pub fn of(text: &str) -> Work {
        Work::with(ProgressBar::no_length(), "  {spinner} {msg}  {elapsed}", text)
    }

    /// Shows how many of `total` parts of the work that `text` describes are done, and the time left.
    pub fn counted(text: &str, total: u64) -> Work {
        Work::with(ProgressBar::new(total), "  {msg}  {wide_bar} {pos} of {len}  {eta} left", text)
    }

    /// Shows that `files` are read, which `text` describes; `None` if they are read too quickly for progress to be useful, or if their
    /// lengths are unknown.
    pub fn of_files<'a>(text: &str, files: impl IntoIterator<Item = &'a Path>) -> Option<Work> {
        let length = |file: &Path| file.metadata().map_or(0, |about| about.len());
        let bytes: u64 = files.into_iter().map(length).sum();
        (bytes > LONG_FILES).then(|| Work::of(text))
    }

    fn with(bar: ProgressBar, template: &str, text: &str) -> Work {
        let is_shown = io::stderr().is_terminal() && !super::is_dumb();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        bar.set_draw_target(target);
        // The templates are valid; a wrong one would show the default bar.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.tick_chars(SIGNS).progress_chars("=> "));
        }
        bar.set_message(text.to_owned());
        if is_shown {
            bar.enable_steady_tick(FRAME_INTERVAL);
            SHOWN.fetch_add(1, Ordering::Relaxed);
        }
        Work(bar)
    }

    /// Replaces the description.
    pub fn describe(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }

    /// Sets the number of parts that are done.
    pub fn done(&self, parts: u64) {
        self.0.set_position(parts);
    }

    /// Prints to standard output, above the progress.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn print(&self, text: &str) -> Result<()> {
        self.0.suspend(|| super::print(text))
    }

    /// Runs `other`, which may print, while the progress is hidden.
    pub fn without<T>(&self, other: impl FnOnce() -> T) -> T {
        self.0.suspend(other)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.0.is_hidden() {
            SHOWN.fetch_sub(1, Ordering::Relaxed);
        }
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid_and_nothing_is_drawn_without_a_terminal() {
        for work in [Work::of("testing"), Work::counted("testing", 3)] {
            work.done(2);
            work.describe("still testing");
            assert!(work.0.is_hidden() || io::stderr().is_terminal());
            assert_eq!(work.without(|| 7), 7);
        }
        for template in ["  {spinner} {msg}  {elapsed}", "  {msg}  {wide_bar} {pos} of {len}  {eta} left"] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
