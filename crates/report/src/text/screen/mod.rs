//! The screen report: verdict and causes, figures, profiles, and the reliability of the figures, on one screen.
//!
//! * [`Screen`] – the content, created from summaries or captures
//! * [`Timeline`] – delay and loss over time, in constant memory
//! * `rows` – the table; `content` – causes and profiles; `trust` – clocks, senders, sample; `passive` – captures;
//!   `comparison`, `connections`, `calls`, `webrtc`, `sweep` – the screens of `compare`, `tcp`, `rtp` and `sweep`
//! * `shared` – access to the content for pages
//! * `layout` – the content on at most [`MAX_ROWS`] rows

mod calls;
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
mod webrtc;

pub use calls::CapturedCalls;
pub(crate) use calls::title as call_title;
pub use content::Relation;
pub use course::Timeline;
pub use layout::MAX_ROWS;
pub use rows::shown_shift;
pub use sweep::Swept;

use super::TextOptions;
use super::page::WordStyle;
use crate::typography::micro_unit;
use jitlat_core::analysis::Samples;
use jitlat_core::summary::{Level, Summary};
use rows::{FigureRow, ScreenTable};

/// Maximum number of logs that are named.
const MAX_NAMED_LOGS: usize = 4;

/// A stream to be shown.
#[derive(Clone, Copy, Debug)]
pub struct ScreenStream<'a> {
    /// Name of the stream, shown if there are several streams.
    pub label: &'a str,
    /// Figures of the stream.
    pub summary: &'a Summary,
    /// Packets. If they were not retained, this is empty and delay over time is not shown.
    pub samples: &'a Samples,
}

/// Content of a screen report. Text may come from logs and peers: control characters are not printed.
#[derive(Clone, Debug)]
pub struct Screen {
    /// Verdicts, each with its colour.
    lead: Vec<(Level, String)>,
    /// Description of the measurement.
    title: String,
    table: ScreenTable,
    /// Delay over time, with the name of its row.
    courses: Vec<(String, Timeline)>,
    /// Causes, each after its severity.
    why: Vec<(WordStyle, String, String)>,
    /// Verdict for each profile: its name, its severity, and the deciding figure.
    uses: Vec<content::ProfileLine>,
    /// Reliability: clocks, sender, sample, and reasons to doubt a figure.
    trust: Vec<String>,
    /// Grades: level, grade, and its subject.
    grades: Vec<(Level, String, String)>,
    /// File with the packets; empty if they are not stored.
    log: String,
    /// Suggested next command, and its purpose; empty if there is none.
    next: [String; 2],
    /// Description of the next command, printed if the command is too long; empty if there is none.
    next_in_short: String,
    /// Option for the full report.
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
            grades: Vec::new(),
            log: String::new(),
            next: Default::default(),
            next_in_short: String::new(),
            full: "-v",
        }
    }
}

impl Screen {
    /// Creates the screen report of `streams`.
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

    /// Returns the first verdict as a sentence; empty if there is none.
    pub fn headline(&self) -> String {
        self.lead.first().map_or(String::new(), |(_, text)| text.clone())
    }

    /// Adds `text`, for example the result of a comparison of the streams, before the verdicts.
    #[must_use]
    pub fn led_by(mut self, level: Level, text: &str) -> Screen {
        self.lead.insert(0, (level, text.to_owned()));
        self
    }

    /// Adds a `grade` of `subject`, which pages and cards show in large letters. The text of a screen does not show it: a verdict contains
    /// it.
    #[must_use]
    pub fn graded(mut self, level: Level, grade: &str, subject: &str) -> Screen {
        self.grades.push((level, grade.to_owned(), subject.to_owned()));
        self
    }

    /// Adds `text` before the other notes on reliability.
    #[must_use]
    pub fn noting(mut self, text: &str) -> Screen {
        self.trust.insert(0, text.to_owned());
        self
    }

    /// Sets the names of the files with the packets.
    #[must_use]
    pub fn logged_to(mut self, logs: &[String]) -> Screen {
        // Leave out names of many logs, which are in the user's command line.
        let shown = if logs.len() > MAX_NAMED_LOGS { MAX_NAMED_LOGS - 1 } else { logs.len() };
        self.log = logs[..shown].join(", ");
        if shown < logs.len() {
            self.log += &format!(" and {} more", logs.len() - shown);
        }
        self
    }

    /// Sets the suggested next command, and its purpose.
    #[must_use]
    pub fn followed_by(mut self, next: &str, purpose: &str) -> Screen {
        self.next = [next.to_owned(), purpose.to_owned()];
        self
    }

    /// Sets the text that is printed instead of the suggested next command if the command is too long.
    #[must_use]
    pub fn in_short(mut self, description: &str) -> Screen {
        self.next_in_short = description.to_owned();
        self
    }

    /// Formats the screen: at most [`MAX_ROWS`] rows of at most [`TextOptions::width`] columns. A width below
    /// 60 counts as 60.
    pub fn show(&self, options: &TextOptions) -> String {
        if options.unicode {
            layout::show(&self.with_symbols(), options)
        } else {
            layout::show(self, options)
        }
    }

    /// Replaces `us` with µs, except in names, file names and commands.
    fn with_symbols(&self) -> Screen {
        let mut screen = self.clone();
        let texts = screen.lead.iter_mut().map(|(_, text)| text);
        let texts = texts.chain([&mut screen.title]);
        let texts = texts.chain(screen.why.iter_mut().map(|(_, _, text)| text));
        let texts = texts.chain(screen.uses.iter_mut().map(|of| &mut of.because));
        let cells = screen.table.lines.iter_mut().flat_map(|(_, cells)| cells).map(|(text, _)| text);
        texts.chain(&mut screen.trust).chain(cells).for_each(|text| *text = micro_unit(text));
        screen
    }
}
