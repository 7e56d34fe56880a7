//! Content of the screen report for pages, which show the same as the console.

use super::Screen;
use crate::text::page::WordStyle;
use jitlat_core::summary::Level;

/// Verdict for a profile: its name, severity as a word, colour, the deciding figure, and the score if it is known.
pub(crate) type UseParts<'a> = (&'a str, &'static str, Level, &'a str, Option<&'a str>);

/// A line of the table: its cells, the first of which is the name, each with its colour.
pub(crate) type TableLine = Vec<(String, Option<Level>)>;

impl Screen {
    /// Returns the verdicts.
    pub(crate) fn leads(&self) -> &[(Level, String)] {
        &self.lead
    }

    /// Returns the grades: level, grade, and its subject.
    pub(crate) fn grades(&self) -> &[(Level, String, String)] {
        &self.grades
    }

    /// Returns the headings of the table, including that of the names, and its lines; if there are no lines,
    /// there is no table.
    pub(crate) fn lines(&self) -> (Vec<String>, Vec<TableLine>) {
        let heads = std::iter::once(String::new()).chain(self.table.heads.iter().cloned());
        let lines = self.table.lines.iter().map(|(name, cells)| {
            let cells = cells.iter().map(|(text, look)| (text.clone(), look.map(level)));
            std::iter::once((name.clone(), None)).chain(cells).collect()
        });
        (heads.collect(), lines.collect())
    }

    /// Returns the causes: colour, severity as a word, and text.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (Level, &str, &str)> {
        self.why.iter().map(|(look, word, text)| (level(*look), word.trim_end_matches(':'), text.as_str()))
    }

    /// Returns the verdict for each profile.
    pub(crate) fn suitability(&self) -> impl Iterator<Item = UseParts<'_>> {
        self.uses.iter().map(|u| {
            let score = u.score.as_ref().and_then(|score| score.as_deref().ok());
            (u.name.as_str(), u.severity.name(), u.severity.into(), u.because.as_str(), score)
        })
    }

    /// Returns the notes on reliability: clocks, sender, sample, and reasons to doubt a figure.
    pub(crate) fn trust(&self) -> &[String] {
        &self.trust
    }
}

fn level(look: WordStyle) -> Level {
    match look {
        WordStyle::Good => Level::Good,
        WordStyle::Heading | WordStyle::Note => Level::Note,
        WordStyle::Poor => Level::Poor,
        WordStyle::Bad => Level::Bad,
    }
}
