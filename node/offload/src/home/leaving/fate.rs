//! Why a pod of a node that leaves is there still.

use serde::{Deserialize, Serialize};

/// What becomes of a pod of a node that leaves, until the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// Its end was asked for.
    Ends,
    /// It is evicted once the other pods of its owner are ready.
    Turn,
    /// Another of its owner, such as what replaces one that was evicted, is not ready: no more of them move.
    Stopped,
    /// A budget does not let it go.
    Budget,
    /// No other node has room for it.
    NoRoom,
    /// Its namespace says that its pods stay.
    Stays,
    /// It has no controller that would replace it.
    Alone,
    /// It has a volume there.
    Volume,
    /// It would come back to the node, which it tolerates.
    Tolerates,
}
