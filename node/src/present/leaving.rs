//! Pods that have still to go from a virtual node whose contract ends soon, in words.

use mercato_offload::home::leaving::{Fate, Left};

/// How many there are, and what each waits for; none where nobody has to go.
pub(crate) fn still_to_go(left: &Left) -> Option<String> {
    let all: usize = left.values().sum();
    let each = left.iter().map(|(fate, count)| format!("{count} {}", why(*fate)));
    let (noun, has) = if all == 1 { ("pod", "has") } else { ("pods", "have") };
    let text = format!("{all} {noun} {has} still to go: {}", each.collect::<Vec<_>>().join(", "));
    (all > 0).then_some(text)
}

fn why(fate: Fate) -> &'static str {
    match fate {
        Fate::Ends => "ending",
        Fate::Turn => "waiting for their turn",
        Fate::Stopped => "whose owner has another that is not ready",
        Fate::Budget => "held by a PodDisruptionBudget",
        Fate::NoRoom => "without room on another node",
        Fate::Stays => "of namespaces whose pods stay to the end",
        Fate::Alone => "without a controller",
        Fate::Volume => "with a volume there",
        Fate::Tolerates => "that tolerate mercato.dev/leaving",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_still_to_go_is_counted_by_why() {
        assert_eq!(still_to_go(&Left::new()), None);
        let one = still_to_go(&Left::from([(Fate::Alone, 1)]));
        assert_eq!(one.unwrap(), "1 pod has still to go: 1 without a controller");
        let left = Left::from([(Fate::NoRoom, 2), (Fate::Budget, 1)]);
        let text = "3 pods have still to go: 1 held by a PodDisruptionBudget, 2 without room on another node";
        assert_eq!(still_to_go(&left).unwrap(), text);
    }
}
