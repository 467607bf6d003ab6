//! Tables of text: aligned, at most 80 columns wide unless asked for more.

use mercato_protocol::text::{shown, shown_lines};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::present::text::csv_cell;

/// As wide as a terminal always is.
pub(crate) const WIDTH: usize = 80;
const GAP: usize = 2;

/// A cell that is cut keeps at least so much.
const LEAST: usize = 10;

/// A table: rows of text under headers.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    kept: Vec<&'static str>,
    spare: Vec<&'static str>,
}

impl Table {
    pub(crate) fn new<'h>(headers: impl IntoIterator<Item = &'h str>) -> Self {
        let rows = vec![headers.into_iter().map(str::to_owned).collect()];
        Self { rows, kept: Vec::new(), spare: Vec::new() }
    }

    /// These columns are never cut: what is bought, and what it costs.
    pub(crate) fn keep(mut self, headers: &[&'static str]) -> Self {
        self.kept.extend(headers);
        self
    }

    /// These are left out, in this order, where the others would have to be cut short.
    pub(crate) fn spare(mut self, headers: &[&'static str]) -> Self {
        self.spare.extend(headers);
        self
    }

    /// One more row. What others wrote cannot steer the terminal.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| shown(&cell).into_owned()).collect();
        debug_assert_eq!(cells.len(), self.rows[0].len());
        self.rows.push(cells);
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The same for a spreadsheet (RFC 4180).
    pub(crate) fn csv(&self) -> String {
        let line = |row: &Vec<String>| row.iter().map(|cell| csv_cell(cell)).collect::<Vec<_>>();
        self.rows.iter().map(|row| line(row).join(",") + "\r\n").collect()
    }

    /// The text, each line with its end; of 80 columns, unless it is to be `wide`.
    pub(crate) fn render(&self, wide: bool) -> String {
        let header = |column: usize| self.rows[0][column].as_str();
        let length = |row: &Vec<String>, column: usize| row[column].width();
        let widest = |column| self.rows.iter().map(|row| length(row, column)).max().unwrap_or(0);
        let is_kept = |column| self.kept.contains(&header(column));
        let least =
            |column| if is_kept(column) { widest(column) } else { widest(column).min(LEAST) };
        let mut columns: Vec<usize> = (0..self.rows[0].len()).collect();
        for spare in &self.spare {
            if wide || line_width(columns.iter().map(|column| least(*column))) <= WIDTH {
                break;
            }
            columns.retain(|column| header(*column) != *spare);
        }
        let mut widths: Vec<usize> = columns.iter().map(|column| widest(*column)).collect();
        while !wide && line_width(widths.iter().copied()) > WIDTH {
            let cut = |place: &usize| {
                let width = widths[*place];
                (!is_kept(columns[*place]) && width > 3, width)
            };
            let Some(most) = (0..widths.len()).max_by_key(cut) else { break };
            widths[most] -= 1;
        }
        let cells = |row: &Vec<String>| -> Vec<String> {
            columns.iter().map(|column| row[*column].clone()).collect()
        };
        self.rows.iter().map(|row| line(&cells(row), &widths)).collect()
    }
}

fn line_width(widths: impl Iterator<Item = usize>) -> usize {
    let (columns, sum) = widths.fold((0, 0), |(n, sum), width| (n + 1, sum + width));
    sum + GAP * usize::saturating_sub(columns, 1)
}

fn line(row: &[String], widths: &[usize]) -> String {
    let padded = |(cell, width): (&String, &usize)| {
        let cell = cut(cell, *width);
        let rest = width.saturating_sub(cell.width());
        format!("{cell}{:rest$}", "")
    };
    let cells = row.iter().zip(widths).map(padded);
    let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
    format!("{}\n", line.trim_end())
}

/// Lines of at most 80 columns, broken between words, all but the first indented. A word that
/// is longer stays whole, so that it can be copied.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    wrapped_from(indent, text, indent)
}

/// The same for a text that begins at this column.
fn wrapped_from(column: usize, text: &str, indent: usize) -> String {
    let (mut lines, mut at) = (String::new(), column);
    for (nth, word) in text.split(' ').enumerate() {
        let length = word.width();
        // One that fits no line so far to the right has one of its own.
        let indent = if length > WIDTH { indent } else { indent.min(WIDTH - length) };
        let gap = usize::from(nth > 0);
        if at + gap + length > WIDTH && at > indent {
            lines.truncate(lines.trim_end_matches(' ').len());
            lines += &format!("\n{:indent$}", "");
            at = indent;
        } else if nth > 0 {
            lines.push(' ');
            at += 1;
        }
        lines += word;
        at += length;
    }
    lines
}

/// A sentence, or several, in lines of at most 80 columns. A command at the end of one stands in
/// a line of its own, to be copied.
pub(crate) fn folded(text: &str, indent: usize) -> String {
    let fold = |line: &str| {
        if line.width() <= WIDTH {
            return line.to_owned();
        }
        let indent = indent.max(line.len() - line.trim_start().len() + 2);
        let is_command =
            |end: &str| ["kubectl ", "mercato "].iter().any(|name| end.starts_with(name));
        match line.rsplit_once(": ").filter(|(_, end)| is_command(end)) {
            Some((what, command)) => {
                format!("{}:\n{:indent$}{command}", wrapped_from(0, what, indent), "")
            }
            None => wrapped_from(0, line, indent),
        }
    };
    text.split('\n').map(fold).collect::<Vec<_>>().join("\n")
}

/// At most so many columns, the last one a sign that there is more. Some characters take two.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut at = 0;
    let fits = |c: &char| {
        at += c.width().unwrap_or(0);
        at < width
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{kept}…")
}

/// Lines of `key  value`, aligned, indented. A value may have several lines: a word of
/// somebody else's is [`shown`] before it becomes a part of one.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let line = |(key, value): &(&str, String)| {
        let indent = width + 4;
        let value = shown_lines(value);
        let value: Vec<_> = value.lines().map(|line| wrapped(line, indent)).collect();
        let text = format!("  {key:<width$}  {}", value.join(&format!("\n{:indent$}", "")));
        text.lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>()
    };
    pairs.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cut_to_fit() {
        let mut table = Table::new(["NAME", "NOTE"]);
        table.row(["rome".into(), "short".into()]);
        table.row(["a-long-name".into(), "x".repeat(100)]);
        let text = table.render(false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["NAME         NOTE", "rome         short"]);
        assert_eq!(lines[2].chars().count(), WIDTH);
        assert!(lines[2].ends_with("x…"));
        assert_eq!(table.render(true).lines().last().map(|line| line.len()), Some(113));
    }

    #[test]
    fn characters_that_take_two_columns_are_counted_as_two() {
        let mut table = Table::new(["NAME", "CPU"]);
        table.row(["東京".into(), "8".into()]);
        table.row(["rome".into(), "4".into()]);
        assert_eq!(table.render(false), "NAME  CPU\n東京  8\nrome  4\n");
        table.row(["東".repeat(60), "2".into()]);
        assert!(table.render(false).lines().all(|line| line.width() <= WIDTH));
        assert!(pairs(&[("name", "東京 ".repeat(30))]).lines().all(|line| line.width() <= WIDTH));
    }

    #[test]
    fn what_one_pays_for_is_never_cut() {
        let headers = ["NAME", "CLASS", "WHAT", "PRICE"];
        let row = |what: usize, price: usize| {
            ["n".repeat(30), "reserved".into(), "w".repeat(what), "p".repeat(price)]
        };
        let table = |what, price| {
            let mut table = Table::new(headers).keep(&["WHAT", "PRICE"]).spare(&["CLASS"]);
            table.row(row(what, price));
            table.render(false)
        };
        for (what, price, has_class) in [(10, 10, true), (20, 25, true), (30, 34, false)] {
            let text = table(what, price);
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            assert!(
                text.contains(&"w".repeat(what)) && text.contains(&"p".repeat(price)),
                "{text}"
            );
            assert_eq!(text.contains("CLASS"), has_class, "{text}");
        }
    }

    #[test]
    fn long_values_are_broken_between_words() {
        let text = pairs(&[("a key", format!("{} end", "word ".repeat(30)))]);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("         word")), "{text}");
        let name = pairs(&[("bought from", "n".repeat(70))]);
        assert_eq!(name, format!("  bought from\n{:10}{}\n", "", "n".repeat(70)));
        let long = "x".repeat(100);
        assert_eq!(wrapped(&format!("a {long} b"), 2), format!("a\n  {long}\n  b"));
    }

    #[test]
    fn a_command_at_the_end_of_a_sentence_stays_in_one_line() {
        let long = "word ".repeat(14) + "end";
        let folds = folded(&format!("{long}: mercato contracts show 3f2a91bc\nshort"), 2);
        assert_eq!(folds, format!("{long}:\n  mercato contracts show 3f2a91bc\nshort"));
        let folds = folded(&format!("{long} {long}"), 2);
        assert_eq!(folds, format!("{long} word\n  {}end", "word ".repeat(13)));
    }

    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        let mut table = Table::new(["NAME"]);
        table.row(["\u{1b}[31mred\n".into()]);
        assert_eq!(table.render(false), "NAME\n\\u{1b}[31mred\\n\n");
        assert_eq!(pairs(&[("a", "x\u{7}\ny".into())]), "  a  x\\u{7}\n     y\n");
    }
}
