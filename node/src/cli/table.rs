//! Tables of text: aligned, at most 80 columns wide unless asked for more.

use super::focus::quoted;

/// As wide as a terminal always is.
pub(crate) const WIDTH: usize = 80;
const GAP: usize = 2;

/// Rows under headers.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// No rows yet.
    pub(crate) fn new<'h>(headers: impl IntoIterator<Item = &'h str>) -> Self {
        Self { rows: vec![headers.into_iter().map(str::to_owned).collect()] }
    }

    /// One more row. What others wrote cannot steer the terminal.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let plain = |cell: String| cell.replace(char::is_control, " ");
        let cells: Vec<String> = cells.into_iter().map(plain).collect();
        debug_assert_eq!(cells.len(), self.rows[0].len());
        self.rows.push(cells);
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The same for a spreadsheet (RFC 4180).
    pub(crate) fn csv(&self) -> String {
        let line = |row: &Vec<String>| row.iter().map(|cell| quoted(cell)).collect::<Vec<_>>();
        self.rows.iter().map(|row| line(row).join(",") + "\r\n").collect()
    }

    /// The text, each line with its end. The widest columns are cut until it fits.
    pub(crate) fn render(&self, wide: bool) -> String {
        let columns = 0..self.rows[0].len();
        let length = |row: &Vec<String>, column: usize| row[column].chars().count();
        let widest = |column| self.rows.iter().map(|row| length(row, column)).max();
        let mut widths: Vec<usize> = columns.map(|column| widest(column).unwrap_or(0)).collect();
        let gaps = GAP * widths.len().saturating_sub(1);
        while !wide && widths.iter().sum::<usize>() + gaps > WIDTH {
            let Some(most) = widths.iter_mut().max() else { break };
            *most -= 1;
        }
        self.rows.iter().map(|row| line(row, &widths)).collect()
    }
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells =
        row.iter().zip(widths).map(|(cell, width)| format!("{:<width$}", cut(cell, *width)));
    let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
    format!("{}\n", line.trim_end())
}

/// At most so many characters, the last one a sign that there are more.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Lines of `key  value`, aligned, indented.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let line = |(key, value): &(&str, String)| {
        let value = value.replace(|c: char| c.is_control() && c != '\n', " ");
        let value = value.replace('\n', &format!("\n  {:width$}  ", ""));
        format!("  {key:<width$}  {value}\n")
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
    fn what_others_wrote_cannot_steer_the_terminal() {
        let mut table = Table::new(["NAME"]);
        table.row(["\u{1b}[31mred\n".into()]);
        assert_eq!(table.render(false), "NAME\n [31mred\n");
        assert_eq!(pairs(&[("a", "x\u{7}".into())]), "  a  x \n");
    }
}
