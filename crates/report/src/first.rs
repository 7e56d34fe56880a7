//! [`FirstScreen`]: beginning of a page and content of a card, as data.

use crate::figure::Figure;
use crate::text::screen::Screen;
use crate::typography::{cell, micro};
use jitlat_core::summary::Level;

/// The verdict of a screen report in the typography of pages, with a figure. It can be understood without the
/// rest of the report.
#[derive(Clone, Debug)]
pub struct FirstScreen {
    /// Subject and hosts of the measurement.
    pub title: String,
    /// Description and time of the measurement; one line per run.
    pub what: Vec<String>,
    /// Verdicts, each with its colour.
    pub leads: Vec<(Level, String)>,
    /// Grades, shown in large letters: colour, grade, and its subject.
    pub grades: Vec<(Level, String, String)>,
    /// Verdict for each profile.
    pub uses: Vec<ShownUse>,
    /// Headings of the table's columns; the first is that of the names.
    pub heads: Vec<String>,
    /// Lines of the table: the name, then the cells, each with its colour. Empty if there is no table.
    pub lines: Vec<Vec<(String, Option<Level>)>>,
    /// Causes: colour, severity as a word, and text.
    pub causes: Vec<(Level, String, String)>,
    /// Delay over time, or the first figure of an instrument; `None` if there is nothing to draw.
    pub figure: Option<Figure>,
    /// Program and time of creation; empty if not shown.
    pub made: String,
}

/// Verdict for one profile.
#[derive(Clone, Debug)]
pub struct ShownUse {
    /// Name of the profile: `voice`.
    pub name: String,
    /// Severity as a word.
    pub word: &'static str,
    /// Colour of the severity.
    pub level: Level,
    /// Figure that determines the verdict.
    pub because: String,
    /// Quality of Outcome with its interval: `93 (88-97)`; empty if it is unknown.
    pub score: String,
}

impl FirstScreen {
    /// Creates the content of `screen`, below `title` and `what`.
    pub(crate) fn new(
        title: String,
        what: Vec<String>,
        screen: &Screen,
        figure: Option<Figure>,
    ) -> FirstScreen {
        let (heads, lines) = screen.lines();
        // The column "+/-" contains the error of the delay in the column before it.
        let head = |head: String| if head == "+/-" { "±".to_owned() } else { head };
        let line = |line: Vec<(String, Option<Level>)>| {
            let cells = line.into_iter().enumerate();
            cells.map(|(k, (text, level))| (if k == 0 { text } else { cell(&text) }, level)).collect()
        };
        let uses = screen.suitability().map(|(name, word, level, because, score)| ShownUse {
            name: name.to_owned(),
            word,
            level,
            because: micro(because),
            score: score.unwrap_or_default().to_owned(),
        });
        FirstScreen {
            title,
            what,
            leads: screen.leads().iter().map(|(level, text)| (*level, micro(text))).collect(),
            grades: screen.grades().to_vec(),
            uses: uses.collect(),
            heads: heads.into_iter().map(head).collect(),
            lines: lines.into_iter().map(line).collect(),
            causes: screen.causes().map(|(l, word, text)| (l, word.to_owned(), micro(text))).collect(),
            figure,
            made: String::new(),
        }
    }

    /// Adds the program and time of creation.
    #[must_use]
    pub fn made_by(self, made: String) -> FirstScreen {
        FirstScreen { made, ..self }
    }
}
