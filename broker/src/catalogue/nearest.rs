//! Which of the known names a slip may have meant.

use std::collections::BTreeSet;

use crate::limits;

/// The one name that is closer than all others: a letter off, or two in a longer word.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = name.to_lowercase().chars().collect();
    let is_short = |name: &str| name.chars().nth(limits::SLIP_CHARS).is_none();
    if !is_short(name) {
        return None;
    }
    let most = if letters.len() < 6 { 1 } else { 2 };
    let known: BTreeSet<&str> = known.filter(|one| is_short(one)).collect();
    let far = known.into_iter().map(|one| (distance(&letters, one), one));
    let mut near: Vec<(usize, &str)> = far.filter(|(far, _)| *far <= most).collect();
    near.sort_unstable();
    match near[..] {
        [(_, only)] => Some(only),
        [(first, one), (second, _), ..] if first < second => Some(one),
        [] | [_, _, ..] => None,
    }
}

/// How many letters are to be added, taken away, changed or swapped with their neighbours.
fn distance(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.to_lowercase().chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let change = rows[i][j] + usize::from(a != b);
            let mut least = change.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_that_are_as_near_none_is_meant() {
        let near = |name, known: &[&'static str]| nearest(name, known.iter().copied());
        assert_eq!(near("rom", &["rome", "roma"]), None);
        assert_eq!(near("rmoe", &["rome", "roma"]), Some("rome"));
        assert_eq!(near("abc", &["xyz"]), None);
        assert_eq!(near(&"a".repeat(65), &["a"]), None);
    }
}
