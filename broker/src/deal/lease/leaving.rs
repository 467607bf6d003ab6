//! When a lease ends, and from when on its consumer prepares for that.

use mercato_protocol::limits::CLOCK_SKEW_MS;

use super::Lease;
use crate::limits;

/// The end of a lease, as far as it is known. A longer term moves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// From when on nothing new comes and what is there moves away, wall clock, milliseconds: from the
    /// notice on, or some time before the term ends.
    pub from_ms: u64,
    /// When it ends by the provider's clock, milliseconds.
    pub at_ms: u64,
    /// Why the provider takes it back before its term, in its owner's words, which may be empty; none:
    /// the term ends.
    pub reclaimed: Option<String>,
}

impl Lease {
    /// When it ends, and from when on its consumer prepares for that.
    pub fn leaving(&self) -> Leaving {
        let contract = self.agreements.contract();
        let (begun_ms, at_ms) = (contract.not_before_ms, self.ends_ms());
        let notice = self.settlement.reclaim().filter(|it| it.until_ms < contract.not_after_ms);
        match notice {
            Some(notice) => {
                let text = self.settlement.reclaim_text().to_owned();
                Leaving { from_ms: notice.given_ms, at_ms, reclaimed: Some(text) }
            }
            None => {
                let lead_ms = lead_ms(at_ms.saturating_sub(begun_ms));
                let from_ms = at_ms.saturating_sub(lead_ms).max(begun_ms);
                Leaving { from_ms, at_ms, reclaimed: None }
            }
        }
    }
}

/// How long before its end a term is known to end: a quarter of it, and no less than clocks differ.
fn lead_ms(term_ms: u64) -> u64 {
    (term_ms / 4).clamp(CLOCK_SKEW_MS, limits::LEAVING_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_known_to_end_in_time() {
        let minute = 60_000;
        for (term, lead) in [(1, 30), (2, 30), (6, 90), (40, 600), (1_440, 600)] {
            assert_eq!(lead_ms(term * minute), lead * 1_000, "a term of {term} minutes");
        }
    }
}
