//! [`FirstScreen`]: what a page begins with and what a card shows, as data.

use crate::figure::Figure;
use crate::text::screen::Screen;
use crate::typography::{cell, micro};
use jitlat_core::summary::Level;

/// What the console shows on one screen, in the typography of pages, with a figure: an answer that can be understood on
/// its own.
#[derive(Clone, Debug)]
pub struct FirstScreen {
    /// What was examined, and where.
    pub title: String,
    /// What was measured, and when; a line for each run.
    pub what: Vec<String>,
    /// The answers, each with its colour.
    pub leads: Vec<(Level, String)>,
    /// The quality for each use.
    pub uses: Vec<ShownUse>,
    /// The heads of the table, that of the names first.
    pub heads: Vec<String>,
    /// The lines of the table: the name, then the cells, each with its colour. Empty: there is no table.
    pub lines: Vec<Vec<(String, Option<Level>)>>,
    /// The causes: colour, severity in a word, and the cause.
    pub causes: Vec<(Level, String, String)>,
    /// Delay over time, or the first figure of an instrument; `None`: there is nothing to draw.
    pub figure: Option<Figure>,
    /// The program that made it, and when; empty: not shown.
    pub made: String,
}

/// The quality for one use.
#[derive(Clone, Debug)]
pub struct ShownUse {
    /// The use: `voice`.
    pub name: String,
    /// The quality in a word.
    pub word: &'static str,
    /// Its colour.
    pub level: Level,
    /// The figure that decides it.
    pub because: String,
}

impl FirstScreen {
    /// The content of `screen`, below `title` and `what`.
    pub(crate) fn new(
        title: String,
        what: Vec<String>,
        screen: &Screen,
        figure: Option<Figure>,
    ) -> FirstScreen {
        let (heads, lines) = screen.lines();
        // The error of the delay before it.
        let head = |head: String| if head == "+/-" { "±".to_owned() } else { head };
        let line = |line: Vec<(String, Option<Level>)>| {
            let cells = line.into_iter().enumerate();
            cells.map(|(k, (text, level))| (if k == 0 { text } else { cell(&text) }, level)).collect()
        };
        let uses = screen.suitability().map(|(name, word, level, because)| ShownUse {
            name: name.to_owned(),
            word,
            level,
            because: micro(because),
        });
        FirstScreen {
            title,
            what,
            leads: screen.leads().iter().map(|(level, text)| (*level, micro(text))).collect(),
            uses: uses.collect(),
            heads: heads.into_iter().map(head).collect(),
            lines: lines.into_iter().map(line).collect(),
            causes: screen.causes().map(|(l, word, text)| (l, word.to_owned(), micro(text))).collect(),
            figure,
            made: String::new(),
        }
    }

    /// Says which program made it, and when.
    #[must_use]
    pub fn made_by(self, made: String) -> FirstScreen {
        FirstScreen { made, ..self }
    }
}
