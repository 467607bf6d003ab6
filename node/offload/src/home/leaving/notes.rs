//! What people are told of a pod whose node leaves, as events.

use super::fate::Fate;
use crate::placement::spec::Leaving;
use crate::time::rfc3339;

/// An event on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The word that stands for it.
    pub reason: &'static str,
    /// Whether somebody should look at it.
    pub warns: bool,
    /// What happens to the pod, when and why.
    pub text: String,
}

/// What there is to tell of a pod by now, which is ended at that moment at the latest.
pub(super) fn of(leaving: &Leaving, fate: Fate, last_ms: u64, is_last: bool) -> Vec<Note> {
    let (when, last) = (leaving.when(), rfc3339(last_ms));
    let note = |reason, warns, text| Note { reason, warns, text };
    let first = match fate {
        Fate::Ends | Fate::Turn | Fate::Stopped | Fate::Budget | Fate::NoRoom => format!(
            "{when}: the pod is evicted as soon as its budget and the room on other nodes let it, and deleted \
             at {last} at the latest"
        ),
        Fate::Stays => format!(
            "{when}: the pod stays until it is deleted at {last}, since its namespace lets none be evicted \
             (NamespaceOffload, leaving: stay)"
        ),
        Fate::Alone => {
            format!("{when}: the pod is deleted at {last}; it has no controller that replaces it")
        }
        Fate::Volume => format!("{when}: the pod has a volume there, and is deleted at {last}"),
        Fate::Tolerates => format!(
            "{when}: the pod is deleted at {last}; it tolerates mercato.dev/leaving, so that an eviction would \
             bring it back"
        ),
    };
    let mut notes = vec![note("Leaving", false, first)];
    let why = match fate {
        Fate::Budget => {
            Some(("LeavingHeld", "a PodDisruptionBudget does not let the pod be evicted"))
        }
        Fate::NoRoom => Some(("LeavingNoRoom", "no other node has room for the pod")),
        Fate::Stopped => Some((
            "LeavingStopped",
            "another pod of its controller, such as what replaces one that was evicted, is missing or not \
             ready for a minute: no more are evicted until it is",
        )),
        Fate::Ends | Fate::Turn | Fate::Stays | Fate::Alone | Fate::Volume | Fate::Tolerates => {
            None
        }
    };
    if let Some((reason, why)) = why.filter(|_| !is_last) {
        notes.push(note(reason, true, format!("{why}; it is tried again until {last}")));
    }
    if is_last {
        let held = why.map(|(_, why)| format!("; until now {why}")).unwrap_or_default();
        let text = format!("{when}: the pod is deleted before that{held}");
        notes.push(note("LeavingEnded", why.is_some(), text));
    }
    notes
}
