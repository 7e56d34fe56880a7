//! The content as other forms than text read it: the page shows what the console shows.

use super::Screen;
use crate::text::page::WordStyle;
use jitlat_core::summary::Level;

/// The quality for a use: its name, its quality in a word, how that is coloured, and the deciding figure.
pub(crate) type UseParts<'a> = (&'a str, &'static str, Level, &'a str);

/// A line of the table: its cells, the first its name, each with its colour.
pub(crate) type TableLine = Vec<(String, Option<Level>)>;

impl Screen {
    /// The answers.
    pub(crate) fn leads(&self) -> &[(Level, String)] {
        &self.lead
    }

    /// The heads of the table, with that of the names, and its lines; no lines, no table.
    pub(crate) fn lines(&self) -> (Vec<String>, Vec<TableLine>) {
        let heads = std::iter::once(String::new()).chain(self.table.heads.iter().cloned());
        let lines = self.table.lines.iter().map(|(name, cells)| {
            let cells = cells.iter().map(|(text, look)| (text.clone(), look.map(level)));
            std::iter::once((name.clone(), None)).chain(cells).collect()
        });
        (heads.collect(), lines.collect())
    }

    /// The causes: how each is coloured, its severity in a word, and what it is.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (Level, &str, &str)> {
        self.why.iter().map(|(look, word, text)| (level(*look), word.trim_end_matches(':'), text.as_str()))
    }

    /// The quality for each use.
    pub(crate) fn suitability(&self) -> impl Iterator<Item = UseParts<'_>> {
        self.uses.iter().map(|u| (u.name.as_str(), u.severity.name(), u.severity.into(), u.because.as_str()))
    }

    /// Clocks, sender, sample, and reasons to doubt a figure.
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
