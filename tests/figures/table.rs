//! Figures as people read them: tables of Markdown, as docs/benchmarks.md has them.

/// Begins the table of a scene: what was measured, what is aimed at, what it is.
pub(crate) fn head(scene: &str) {
    println!("\n### {scene}\n\n| what | goal | figure |\n|---|---|---|");
}

/// One line of it.
pub(crate) fn row(what: &str, goal: &str, figure: &str) {
    println!("| {what} | {goal} | {figure} |");
}

/// Of an odd number of rounds the one in the middle, and how far they spread:
/// `1.23 (1.10 to 1.40)`.
pub(crate) fn spread(rounds: &[f64]) -> String {
    let sorted = sorted(rounds);
    match (sorted.first(), sorted.last()) {
        (Some(first), Some(last)) => {
            format!("{} ({} to {})", short(median(rounds)), short(*first), short(*last))
        }
        _ => "none".to_owned(),
    }
}

/// The one in the middle.
pub(crate) fn median(rounds: &[f64]) -> f64 {
    quantile(rounds, 0.5)
}

/// The one below which so much of them lies.
pub(crate) fn quantile(rounds: &[f64], part: f64) -> f64 {
    let sorted = sorted(rounds);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part).ceil() as usize).copied().unwrap_or(f64::NAN)
}

fn sorted(rounds: &[f64]) -> Vec<f64> {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Three digits that count.
pub(crate) fn short(figure: f64) -> String {
    match figure.abs() {
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_spread() {
        assert_eq!(spread(&[3.0, 1.0, 200.0, 2.5, 10.25]), "3.00 (1.00 to 200)");
        assert_eq!(spread(&[]), "none");
        let hundred: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(quantile(&hundred, 0.99), 99.0);
    }
}
