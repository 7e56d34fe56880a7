//! The result of a test on one screen: what is wrong and since when, how much, for which uses the path is good, and how
//! far to believe it.
//!
//! * [`Screen`] – the content, made from summaries or captures
//! * [`Timeline`] – delay and loss over time, in constant memory
//! * `rows` – the table; `content` – causes and uses; `trust` – clocks, senders, sample; `passive` – captures;
//!   `comparison`, `connections`, `sweep` – what `compare`, `tcp` and `sweep` show
//! * `shared` – the content as pages read it
//! * `layout` – the content on at most [`MAX_ROWS`] rows

mod comparison;
mod connections;
mod content;
mod course;
mod layout;
mod passive;
mod rows;
mod shared;
mod sweep;
mod trust;

pub use content::Relation;
pub use course::Timeline;
pub use layout::MAX_ROWS;
pub use rows::shown_shift;
pub use sweep::Swept;

use super::TextOptions;
use super::page::WordStyle;
use jitlat_core::analysis::Samples;
use jitlat_core::summary::{Level, Summary};
use rows::{FigureRow, ScreenTable};

/// Most logs that are named.
const MAX_NAMED_LOGS: usize = 4;

/// A stream to be shown.
#[derive(Clone, Copy, Debug)]
pub struct ScreenStream<'a> {
    /// Its name, if several are shown.
    pub label: &'a str,
    /// Its figures.
    pub summary: &'a Summary,
    /// Its packets; empty if they were not kept: then delay over time is not shown.
    pub samples: &'a Samples,
}

/// What is shown. Text may come from logs and peers: control characters are not printed.
#[derive(Clone, Debug)]
pub struct Screen {
    /// The answers, each with its colour.
    lead: Vec<(Level, String)>,
    /// What was measured.
    title: String,
    table: ScreenTable,
    /// Delay over time, with the name of its row.
    courses: Vec<(String, Timeline)>,
    /// The causes, each after its severity.
    why: Vec<(WordStyle, String, String)>,
    /// The quality for each use: its name, its severity, and the deciding figure.
    uses: Vec<content::ProfileLine>,
    /// Clocks, sender, sample, and reasons to doubt a figure.
    trust: Vec<String>,
    /// The file that holds the packets; empty if they are not kept.
    log: String,
    /// The next command worth running, and its purpose; empty if there is none.
    next: [String; 2],
    /// The option for the full report.
    full: &'static str,
}

impl Default for Screen {
    fn default() -> Screen {
        Screen {
            lead: Vec::new(),
            title: String::new(),
            table: ScreenTable::default(),
            courses: Vec::new(),
            why: Vec::new(),
            uses: Vec::new(),
            trust: Vec::new(),
            log: String::new(),
            next: Default::default(),
            full: "-v",
        }
    }
}

impl Screen {
    /// The content for `streams`.
    pub fn new(streams: &[ScreenStream<'_>], relation: Relation) -> Screen {
        let labels = content::labels(streams);
        let rows: Vec<FigureRow> = streams
            .iter()
            .zip(&labels)
            .flat_map(|(stream, label)| FigureRow::of_stream(label, stream.summary, streams.len() == 1))
            .collect();
        let courses = streams.iter().zip(&labels).filter_map(|(stream, label)| {
            let (course, relative) = rows::course(stream)?;
            Some((label.clone(), if relative { course.relative() } else { course }))
        });
        Screen {
            lead: content::lead(streams, &labels),
            title: content::title(streams, relation),
            table: ScreenTable::of_rows(&rows),
            courses: courses.collect(),
            why: content::why(streams, &labels),
            uses: content::uses(streams, &labels, relation),
            trust: trust::of(streams, &labels),
            ..Screen::default()
        }
    }

    /// Puts `text` before the answers: what a comparison of the streams says.
    #[must_use]
    pub fn led_by(mut self, level: Level, text: &str) -> Screen {
        self.lead.insert(0, (level, text.to_owned()));
        self
    }

    /// Puts `text` before the other reasons to believe the figures or not.
    #[must_use]
    pub fn noting(mut self, text: &str) -> Screen {
        self.trust.insert(0, text.to_owned());
        self
    }

    /// Names the files with the packets.
    #[must_use]
    pub fn logged_to(mut self, logs: &[String]) -> Screen {
        // The names of many are in the command line that was typed.
        let shown = if logs.len() > MAX_NAMED_LOGS { MAX_NAMED_LOGS - 1 } else { logs.len() };
        self.log = logs[..shown].join(", ");
        if shown < logs.len() {
            self.log += &format!(" and {} more", logs.len() - shown);
        }
        self
    }

    /// Names the next command worth running, and what it is good for.
    #[must_use]
    pub fn followed_by(mut self, next: &str, purpose: &str) -> Screen {
        self.next = [next.to_owned(), purpose.to_owned()];
        self
    }

    /// The screen: at most [`MAX_ROWS`] rows of at most [`TextOptions::width`] columns, 60 at least.
    pub fn show(&self, options: &TextOptions) -> String {
        layout::show(self, options)
    }
}
