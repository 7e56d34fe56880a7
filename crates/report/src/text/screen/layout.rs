//! Layout of the screen report. The least important content is cut first.

use super::Screen;
use super::content::ProfileLine;
use super::rows::StyledCells;
use crate::text::page::{TextStyle, WordStyle, mark};
use crate::text::plots::PlotCanvas;
use crate::text::{TextOptions, outcome, printable};
use crate::typography::micro_unit;
use jitlat_core::answer::Severity;
use jitlat_core::units::eng3;

/// Maximum number of rows: the 24 of the smallest common terminal, minus one for the prompt.
pub const MAX_ROWS: usize = 23;
/// Minimum width of the layout, in columns.
const MIN_COLUMNS: usize = 60;
/// Number of columns before the text of a section.
const MARGIN: usize = 7;
/// Maximum number of verdicts, and of rows of the table.
pub(super) const MAX_STREAMS: usize = 6;

/// Meaning of the marks of lost packets.
const LEGEND: &str = ". 1, x 2+, X 10+";

/// A row: pieces of text, some with a style.
#[derive(Clone, Debug, Default)]
struct TextRow(Vec<(String, Option<WordStyle>)>);

impl TextRow {
    fn of(text: &str, look: Option<WordStyle>) -> TextRow {
        TextRow(vec![(text.to_owned(), look)])
    }

    fn push(&mut self, text: &str, look: Option<WordStyle>) {
        self.0.push((text.to_owned(), look));
    }

    /// Formats the row, cut to `width` columns, with styles if colours are enabled.
    fn write(&self, options: &TextOptions, width: usize) -> String {
        let mut room = width;
        let mut line = String::new();
        let last = self.0.iter().rposition(|(text, _)| !text.trim_end().is_empty()).unwrap_or(0);
        for (k, (text, look)) in self.0.iter().enumerate().take(last + 1) {
            let text = printable(text);
            let text = if k == last { text.trim_end() } else { &text };
            let shown = cut(text, room);
            room -= columns(&shown);
            match look.filter(|_| options.style == TextStyle::Colour && !shown.trim().is_empty()) {
                Some(look) => line += &format!("\x1b[{}m{shown}\x1b[0m", look.ansi()),
                None => line += &shown,
            }
        }
        line
    }
}

/// Width of a character in columns, never underestimated: characters that are neither ASCII nor part of a plot may be wide.
fn columns_of(c: char) -> usize {
    if c.is_ascii() || matches!(c, NO_BREAK_SPACE | 'µ' | '▁'..='█') { 1 } else { 2 }
}

fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Returns the beginning of `text` that fits into `width` columns, with dots at its end if it is cut.
fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let dots = "...".get(..width.min(3)).unwrap_or_default();
    let mut room = width - dots.len();
    let kept = text.chars().take_while(|c| {
        let fits = columns_of(*c) <= room;
        room = room.saturating_sub(columns_of(*c));
        fits
    });
    kept.collect::<String>() + dots
}

/// Returns the end of `text` that fits into `width` columns, with dots at its start if it is cut: the end of a name is
/// more informative.
fn cut_before(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(3);
    let kept = text.chars().rev().take_while(|c| {
        let fits = columns_of(*c) <= room;
        room = room.saturating_sub(columns_of(*c));
        fits
    });
    let kept: Vec<char> = kept.collect();
    format!("...{}", kept.iter().rev().collect::<String>())
}

/// A space at which a line is not split.
const NO_BREAK_SPACE: char = '\u{a0}';

/// Joins numbers with their units, so that lines do not break between them.
fn joined(text: &str) -> String {
    let mut joined = String::new();
    for word in text.split_ascii_whitespace() {
        let unit = word.trim_end_matches([',', ';', '.', ':', ')']);
        let number = joined.ends_with(|c: char| c.is_ascii_digit());
        if number && matches!(unit, "%" | "ns" | "us" | "µs" | "ms" | "s") {
            joined.push(NO_BREAK_SPACE);
        } else if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(word);
    }
    joined
}

/// Wraps `text` to lines of at most `width` columns, between words if possible.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let text = joined(text);
    let mut room = width;
    for word in text.split_ascii_whitespace() {
        let mut word = word;
        let begun = lines.last().is_some_and(|l| !l.is_empty());
        if columns(word) + usize::from(begun) <= room {
            let line = lines.last_mut().map(|l| l as &mut String);
            if let Some(line) = line {
                if begun {
                    line.push(' ');
                }
                line.push_str(word);
                room -= columns(word) + usize::from(begun);
            }
            continue;
        }
        if begun {
            lines.push(String::new());
        }
        // Split a word that is longer than a line, such as a path.
        while columns(word) > width {
            let mut taken = 0;
            let end = word.char_indices().find(|(_, c)| {
                taken += columns_of(*c);
                taken > width
            });
            let (head, tail) = word.split_at(end.map_or(word.len(), |(at, _)| at));
            if let Some(line) = lines.last_mut() {
                line.push_str(head);
            }
            lines.push(String::new());
            word = tail;
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
        room = width - columns(word);
    }
    lines.iter().map(|line| line.replace(NO_BREAK_SPACE, " ")).collect()
}

/// Rows of a statement.
type Statement = Vec<TextRow>;

/// Returns the rows of a statement: `mark` and `text`, wrapped to `width` columns minus the margin.
fn statement(mark: Option<(&str, WordStyle)>, text: &str, width: usize) -> Statement {
    let full = mark.map_or(text.to_owned(), |(mark, _)| format!("{mark} {text}"));
    let lines = wrapped(&full, width - MARGIN);
    let row = |(k, line): (usize, &String)| match mark {
        Some((mark, look)) if k == 0 && line.starts_with(mark) => {
            TextRow(vec![(mark.to_owned(), Some(look)), (line[mark.len()..].to_owned(), None)])
        }
        _ => TextRow::of(line, None),
    };
    lines.iter().enumerate().map(row).collect()
}

/// Formats the number of statements left out, and the option that shows them.
fn more(n: usize, full: &str) -> String {
    format!("and {n} more: {full}")
}

/// Returns the statements in at most `rows` rows, with the number of those left out.
fn fitted(statements: &[Statement], rows: usize, full: &str) -> Vec<TextRow> {
    let all: usize = statements.iter().map(Vec::len).sum();
    if all <= rows {
        return statements.concat();
    }
    let mut shown = Vec::new();
    for (k, statement) in statements.iter().enumerate() {
        let left = statements.len() - k;
        // Reserve a row for the number of statements left out.
        let spare = usize::from(left > 1);
        if shown.len() + statement.len() + spare > rows {
            let room = rows.saturating_sub(shown.len());
            if k == 0 && room > spare {
                // Show at least the beginning of the most important statement.
                let mut begun: Vec<TextRow> = statement.iter().take(room - spare).cloned().collect();
                if let Some((text, _)) = begun.last_mut().and_then(|row| row.0.last_mut()) {
                    text.push_str(" ...");
                }
                shown.extend(begun);
                if left > 1 {
                    shown.push(TextRow::of(&more(left - 1, full), None));
                }
            } else if room > 0 {
                shown.push(TextRow::of(&more(left, full), None));
            }
            break;
        }
        shown.extend(statement.iter().cloned());
    }
    shown
}

/// Returns `rows` with the name of their section in the margin.
fn section(name: &str, rows: Vec<TextRow>) -> Vec<TextRow> {
    let margin = |(k, mut row): (usize, TextRow)| {
        let name = if k == 0 { name } else { "" };
        row.0.insert(0, (format!("{name:<MARGIN$}"), Some(WordStyle::Heading)));
        row
    };
    rows.into_iter().enumerate().map(margin).collect()
}

/// Formats `screen`.
pub(super) fn show(screen: &Screen, options: &TextOptions) -> String {
    let width = options.width.clamp(MIN_COLUMNS, 80.max(MIN_COLUMNS));
    let lead = leads(screen, width);
    let title: Vec<TextRow> = match screen.title.is_empty() {
        true => Vec::new(),
        false => leading(&screen.title, None, 2, width),
    };
    let figures = figures(screen, width);
    let mut courses = courses(screen, options, width);
    let foot = foot(screen, width);

    let why: Vec<Statement> =
        screen.why.iter().map(|(look, mark, text)| statement(Some((mark, *look)), text, width)).collect();
    let uses = uses(screen, width);
    let trust: Vec<Statement> = screen.trust.iter().map(|text| statement(None, text, width)).collect();

    let fixed = lead.len() + title.len() + figures.len() + foot.len();
    let least = [&why, &uses, &trust].iter().filter(|s| !s.is_empty()).count();
    // Causes, profiles and reliability matter more than delay over time.
    if fixed + courses.len() + least > MAX_ROWS {
        courses.clear();
    }
    let room = MAX_ROWS.saturating_sub(fixed + courses.len());
    let scores = scores(screen, width, room, [&why, &uses, &trust]);
    let [why, uses, trust] = shared([&why, &uses, &trust], room - scores.len(), screen, width);

    let body =
        [section("Why", why), section("For", uses), section("QoO", scores), section("Trust", trust), foot];
    let mut blocks: Vec<Vec<TextRow>> = vec![[lead, title].concat(), [figures, courses].concat()];
    blocks.extend(body);
    blocks.retain(|block| !block.is_empty());
    let rows: usize = blocks.iter().map(Vec::len).sum();
    // Add blank rows between the verdict, the table and the rest if there is room for both.
    let mut blanks = if MAX_ROWS.saturating_sub(rows) >= 2 { 2 } else { 0 };
    let mut text = String::new();
    let mut written = 0;
    for (k, block) in blocks.iter().enumerate() {
        if k > 0 && blanks > 0 {
            blanks -= 1;
            text.push('\n');
            written += 1;
        }
        for row in block.iter().take(MAX_ROWS.saturating_sub(written)) {
            text += &row.write(options, width);
            text.push('\n');
            written += 1;
        }
    }
    text
}

/// Returns the rows of the verdicts. Each has at most three rows if there are up to two verdicts, two if there are three or
/// four (two capture points and both directions of a call), and one if there are more.
fn leads(screen: &Screen, width: usize) -> Vec<TextRow> {
    let most = match screen.lead.len() {
        ..=2 => 3,
        3..=4 => 2,
        _ => 1,
    };
    let mut rows = Vec::new();
    for (level, text) in screen.lead.iter().take(MAX_STREAMS) {
        rows.extend(leading(text, Some(mark(*level).1), most, width));
    }
    if screen.lead.len() > MAX_STREAMS {
        rows.push(TextRow::of(&more(screen.lead.len() - MAX_STREAMS, screen.full), None));
    }
    rows
}

/// Wraps `text`, without a margin, to at most `most` rows.
fn leading(text: &str, look: Option<WordStyle>, most: usize, width: usize) -> Vec<TextRow> {
    let mut lines = wrapped(&printable(text), width);
    if lines.len() > most {
        let rest = lines.split_off(most - 1).join(" ");
        lines.push(cut(&rest, width));
    }
    lines.iter().map(|line| TextRow::of(line, look)).collect()
}

fn figures(screen: &Screen, width: usize) -> Vec<TextRow> {
    let mut table = screen.table.clone();
    let all = table.lines.len();
    table.lines.truncate(table.most);
    // Cut long names rather than leave out figures.
    for (name, _) in &mut table.lines {
        let shown = cut_before(&printable(name), table.name);
        // Wide characters would misalign the columns.
        *name = shown.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
    }
    // A table with one column per stream may have room for fewer streams.
    let fits = (1..=table.lines.len()).rev().find_map(|n| Some((n, table.laid_out(n, width)?)));
    let Some((shown, lines)) = fits else { return Vec::new() };
    let mut rows: Vec<TextRow> = lines.into_iter().map(|cells: StyledCells| TextRow(cells)).collect();
    if shown < all {
        rows.push(TextRow::of(&more(all - shown, screen.full), None));
    }
    rows
}

/// Returns delay over time of one or two streams, with a row for losses if there are any.
fn courses(screen: &Screen, options: &TextOptions, width: usize) -> Vec<TextRow> {
    let shown = if screen.courses.len() > 2 { &[] } else { &screen.courses[..] };
    let name = |name: &str| match shown.len() {
        1 => "delay".to_owned(),
        _ => cut_before(&printable(name), 12),
    };
    let range = |course: &super::Timeline| {
        let [low, high] = course.range().unwrap_or_default();
        let text = match course.is_relative() {
            true => format!("+{}", eng3(high as f64)),
            false => format!("{} to {}", eng3(low as f64), eng3(high as f64)),
        };
        if options.unicode { micro_unit(&text) } else { text }
    };
    let label = shown.iter().map(|(n, _)| columns(&name(n))).max().unwrap_or(0).max("lost".len());
    let right = shown.iter().map(|(_, c)| columns(&range(c))).max().unwrap_or(0);
    let right = if shown.iter().any(|(_, c)| c.has_losses()) { right.max(LEGEND.len()) } else { right };
    let canvas =
        PlotCanvas { width: width.saturating_sub(label + right + 4).max(10), unicode: options.unicode };
    let mut rows = Vec::new();
    for (of, course) in shown {
        let drawn = course.draw(canvas);
        let padded =
            |text: &str| format!("{text}{}", " ".repeat(canvas.width - columns(text).min(canvas.width)));
        let mut row = TextRow::of(&format!("{:<label$}  ", name(of)), None);
        row.push(&padded(&drawn.delay), None);
        row.push(&format!("  {}", range(course)), None);
        rows.push(row);
        if !drawn.lost.is_empty() {
            let mut row = TextRow::of(&format!("{:<label$}  ", "lost"), None);
            row.push(&padded(&drawn.lost), Some(WordStyle::Bad));
            row.push(&format!("  {LEGEND}"), None);
            rows.push(row);
        }
    }
    rows
}

/// Returns the profiles, one per row; a common reason is shown once.
fn uses(screen: &Screen, width: usize) -> Vec<Statement> {
    let shown = &screen.uses;
    if let [first, others @ ..] = &shown[..]
        && first.severity != Severity::Good
        && !others.is_empty()
        && others.iter().all(|of| (of.severity, &of.because) == (first.severity, &first.because))
    {
        let names: Vec<&str> = shown.iter().map(|of| of.name.as_str()).collect();
        let text = printable(&format!("{} ({})", names.join(", "), first.because));
        let of = format!("{}:", first.severity.name());
        return vec![statement(Some((&of, mark(first.severity.into()).1)), &text, width)];
    }
    let name = shown.iter().map(|u| columns(&printable(&u.name))).max().unwrap_or(0).min(20);
    let is_unknown = shown.iter().any(|of| of.severity == Severity::Unknown);
    let severity = if is_unknown { 9 } else { 7 };
    let one = |(k, of): (usize, &ProfileLine)| {
        let mut row = TextRow::of(&format!("{:<name$}  ", cut(&printable(&of.name), name)), None);
        row.push(&format!("{:<severity$}", of.severity.name()), Some(mark(of.severity.into()).1));
        // Show a reason without a figure only once.
        let said = shown[..k].iter().any(|before| before.because == of.because);
        let because = match said && !of.because.contains(|c: char| c.is_ascii_digit()) {
            true => "the same reason",
            false => &of.because,
        };
        row.push(&cut(because, width - MARGIN - name - 2 - severity), None);
        vec![row]
    };
    shown.iter().enumerate().map(one).collect()
}

/// Maximum number of rows of the scores.
const MAX_SCORE_ROWS: usize = 2;

/// Returns the scores of Quality of Outcome, in the rows that the causes, profiles and first notes on reliability leave of
/// `room`.
fn scores(
    screen: &Screen,
    width: usize,
    room: usize,
    [why, uses, trust]: [&Vec<Statement>; 3],
) -> Vec<TextRow> {
    let known = screen.uses.iter().filter_map(|of| Some((of.name.as_str(), of.score.as_ref()?)));
    if known.clone().next().is_none() {
        return Vec::new();
    }
    // Most short tests have no score. Causes, profiles and notes on reliability come first.
    let trusted = if known.clone().any(|(_, score)| score.is_ok()) { 2 } else { usize::MAX };
    let text = outcome::joined(known);
    let rows = |of: &[Statement], most: usize| of.iter().map(Vec::len).sum::<usize>().min(most);
    let (of_uses, rest) = (rows(uses, usize::MAX), rows(why, 4) + rows(trust, trusted));
    // Profiles that do not fit one by one are grouped.
    let grouped = || rows(&grouped(screen, width), usize::MAX).min(of_uses);
    let others = rest + if rest + of_uses <= room { of_uses } else { grouped() };
    fitted(
        &[statement(None, &printable(&text), width)],
        room.saturating_sub(others).min(MAX_SCORE_ROWS),
        screen.full,
    )
}

/// Returns the profiles in few rows, grouped by verdict, worst first.
fn grouped(screen: &Screen, width: usize) -> Vec<Statement> {
    let mut severities: Vec<Severity> = screen.uses.iter().map(|u| u.severity).collect();
    severities.sort_unstable_by(|a, b| b.cmp(a));
    severities.dedup();
    let one = |severity: &Severity| {
        let names: Vec<&str> =
            screen.uses.iter().filter(|u| u.severity == *severity).map(|u| u.name.as_str()).collect();
        let of = format!("{}:", severity.name());
        statement(Some((&of, mark((*severity).into()).1)), &printable(&names.join(", ")), width)
    };
    severities.iter().map(one).collect()
}

/// Divides `room` rows among causes, profiles and notes on reliability.
fn shared(
    [why, uses, trust]: [&Vec<Statement>; 3],
    room: usize,
    screen: &Screen,
    width: usize,
) -> [Vec<TextRow>; 3] {
    let rows = |of: &[Statement]| of.iter().map(Vec::len).sum::<usize>();
    let few = |of: &[Statement], most: usize| rows(of).min(most);
    // Priorities: the first causes and the first note on reliability, then every profile, then the rest.
    let mut left = room.saturating_sub(few(trust, 2));
    let mut causes = few(why, 4).min(left.saturating_sub(usize::from(!uses.is_empty())));
    left -= causes;
    let grouped = grouped(screen, width);
    let uses = if rows(uses) <= left { uses } else { &grouped };
    let shown = rows(uses).min(left);
    left -= shown;
    let more = (rows(why) - causes).min(left);
    causes += more;
    left -= more;
    let trusted = (few(trust, 2) + left).min(room.saturating_sub(causes + shown));
    let fit = |of: &[Statement], rows| fitted(of, rows, screen.full);
    [fit(why, causes), fit(uses, shown), fit(trust, trusted)]
}

/// Returns the log and the next command.
fn foot(screen: &Screen, width: usize) -> Vec<TextRow> {
    let log: Vec<TextRow> = match screen.log.is_empty() {
        true => Vec::new(),
        false => statement(None, &printable(&screen.log), width),
    };
    let next: Vec<TextRow> =
        next(screen, width - MARGIN).iter().map(|line| TextRow::of(line, None)).collect();
    // Cut a long path of a log, because the whole path is in the shell's history.
    let log = if log.len() > 2 { log[..2].to_vec() } else { log };
    [section("Log", log), section("Next", next)].concat()
}

/// Maximum number of rows of a command.
const MAX_COMMAND_ROWS: usize = 2;

/// Returns the next command in rows that can be pasted: it is never cut. If it is too long, its description replaces it.
fn next(screen: &Screen, width: usize) -> Vec<String> {
    let [command, purpose] = screen.next.each_ref().map(|text| printable(text));
    if command.is_empty() {
        return Vec::new();
    }
    let with_purpose = |command: &str| match purpose.is_empty() {
        true => command.to_owned(),
        false => format!("{command}  # {purpose}"),
    };
    let line = with_purpose(&command);
    if columns(&line) <= width {
        return vec![line];
    }
    let lines = continued(&command, width);
    let fits = |line: &String| columns(line) <= width;
    if lines.len() <= MAX_COMMAND_ROWS && lines.iter().all(fits) {
        return lines;
    }
    let short = printable(&screen.next_in_short);
    let lines = [with_purpose(&short), short];
    lines.into_iter().filter(|line| !screen.next_in_short.is_empty() && fits(line)).take(1).collect()
}

/// Splits a command into lines of at most `width` columns, each but the last with a backslash at its end. Words are not
/// split: a line may be longer than `width`.
fn continued(command: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in shell_words(command) {
        if let Some(line) = lines.last_mut() {
            if line.is_empty() {
                line.push_str(word);
                continue;
            }
            if columns(line) + 1 + columns(word) + " \\".len() <= width {
                line.push(' ');
                line.push_str(word);
                continue;
            }
            line.push_str(" \\");
        }
        lines.push(word.to_owned());
    }
    lines
}

/// Splits a command at the spaces outside of single quotes.
fn shell_words(command: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let at_space = move |c: char| {
        quoted ^= c == '\'';
        c == ' ' && !quoted
    };
    command.split(at_space).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(command: &str) -> Vec<String> {
        let screen =
            Screen::default().followed_by(command, "every figure").in_short("the same command with -v");
        next(&screen, 73)
    }

    #[test]
    fn verdicts_of_two_points_are_not_cut() {
        let long = "packets waited up to 155 ms in a queue, from 14.1 s to 26.0 s (12 more); set a buffer of 158 ms.";
        let of = |n: usize| {
            let lead =
                (0..n).map(|k| (jitlat_core::summary::Level::Poor, format!("Up {k}, between: Poor: {long}")));
            leads(&Screen { lead: lead.collect(), ..Screen::default() }, 80)
        };
        let whole = |n: usize| of(n).iter().filter(|row| row.0[0].0.ends_with("a buffer of 158 ms.")).count();
        assert_eq!([1, 2, 3, 4].map(whole), [1, 2, 3, 4]);
        assert_eq!((of(4).len(), of(5).len()), (8, 5));
    }

    #[test]
    fn a_command_is_never_cut() {
        assert_eq!(shown("jitlat -f a.log -v"), ["jitlat -f a.log -v  # every figure"]);
        let long =
            "jitlat spp -f here.pcap -F there.pcap --link pppoe-llc,up=128k,down=512k --summary --verbose";
        let lines = shown(long);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines.join("\n").replace("\\\n", ""), long);
        let spaces = format!("jitlat -f 'a  file {} of a test.log' --verbose --json x", "y".repeat(30));
        assert_eq!(shown(&spaces).join("\n").replace("\\\n", ""), spaces);
        for long in
            [format!("jitlat -f {} -v", "d/".repeat(60)), format!("jitlat {}", "-f a.log ".repeat(40))]
        {
            assert_eq!(shown(&long), ["the same command with -v  # every figure"]);
        }
    }
}
