//! What a node has of GPUs, from its labels, annotations and resources alone: what a unit is that a
//! pod may ask for, and whatever is not sold, with the reason and the line that its owner may write.
//!
//! Each vendor's file says what the labels mean; [`judge`] alone decides what of that is believed.
//! Counts are those that pods may ask for, never those of labels. What is not understood is not
//! sold. How nodes become pools is `sum`'s.

mod amd;
mod catalogue;
mod cloud;
mod cut;
mod intel;
mod judge;
mod labels;
mod managers;
mod nvidia;
mod slices;
pub(super) mod telling;
#[cfg(test)]
mod tests;
mod unit;

use serde_json::Value;

pub use catalogue::models;
pub use unit::{Cut, Found, OwnersWord, Unit, Unsold};

use judge::{Said, judge};
use labels::Labels;

/// Reads what a node has of GPUs.
pub(super) fn read(node: &Value, word: &OwnersWord) -> Found {
    let labels = Labels::of(node);
    let blocked = managers::blocked(&labels);
    let mut found = Found::default();
    for said in
        [nvidia::said, amd::said, intel::said].into_iter().flat_map(|vendor| vendor(&labels))
    {
        let unit = match (said, &blocked) {
            (Ok(Said { resource, .. }), Some(reason)) => {
                Err(Unsold::new(&labels, resource, reason.clone()))
            }
            (Ok(said), None) => judge(&labels, said, word),
            (Err(unsold), Some(reason)) => Err(Unsold { reason: reason.clone(), ..unsold }),
            (Err(unsold), None) => Err(unsold),
        };
        match unit {
            Ok(unit) => found.units.push(unit),
            Err(unsold) => found.unsold.push(unsold),
        }
    }
    slices::fit(&labels, &mut found);
    found.unsold.extend(managers::others(&labels));
    // What is no GPU keeps no processors from being sold.
    let counts = |unsold: &Unsold| !labels::is_no_gpu(&unsold.resource);
    found.has_gpus = !found.units.is_empty() || found.unsold.iter().any(counts);
    found
}
