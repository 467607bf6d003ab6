//! What a link does to a message: it takes time, and may lose, double or delay it, so
//! that it comes after later ones.

use std::ops::RangeInclusive;

use crate::dice::Dice;

/// The quality of the links of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quality {
    /// From here to there, in ms.
    pub(crate) latency_ms: RangeInclusive<u64>,
    /// Messages in a thousand that never come.
    pub(crate) lost: u32,
    /// That come twice.
    pub(crate) doubled: u32,
    /// That come late.
    pub(crate) late: u32,
    /// How late, in ms.
    pub(crate) late_ms: RangeInclusive<u64>,
}

impl Quality {
    /// A good link of that latency.
    pub(crate) fn clean(latency_ms: RangeInclusive<u64>) -> Self {
        Self { latency_ms, lost: 0, doubled: 0, late: 0, late_ms: 0..=0 }
    }

    /// After how many ms each copy of a message arrives.
    pub(crate) fn arrivals(&self, dice: &mut Dice) -> Vec<u64> {
        if dice.chance(self.lost) {
            return Vec::new();
        }
        let copies = if dice.chance(self.doubled) { 2 } else { 1 };
        let mut arrivals = Vec::with_capacity(copies);
        for _ in 0..copies {
            let late = dice.chance(self.late);
            let delay = if late { dice.within(self.late_ms.clone()) } else { 0 };
            arrivals.push(dice.within(self.latency_ms.clone()) + delay);
        }
        arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_loses_doubles_and_delays_as_often_as_it_says() {
        let quality = Quality {
            latency_ms: 10..=20,
            lost: 100,
            doubled: 200,
            late: 50,
            late_ms: 1_000..=2_000,
        };
        let mut dice = Dice::new(1, "links");
        let all: Vec<_> = (0..10_000).map(|_| quality.arrivals(&mut dice)).collect();
        let share = |is: &dyn Fn(&Vec<u64>) -> bool| all.iter().filter(|one| is(one)).count();
        assert!((800..1_200).contains(&share(&|one| one.is_empty())));
        assert!((1_600..2_000).contains(&share(&|one| one.len() == 2)));
        assert!((400..700).contains(&share(&|one| one.iter().any(|ms| *ms > 1_000))));
        assert!(all.iter().flatten().all(|ms| (10..=2_020).contains(ms)));
    }
}
