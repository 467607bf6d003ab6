//! The secrets that one side has of a pair of clusters: the latest, and the one before it until a
//! session was agreed with the latest.

use std::sync::Arc;

use mercato_protocol::id::{ClusterId, Digest};
use mercato_protocol::tunnel::PairSecret;

/// See the module. Copies share the secrets: each is there once, and erased with the last of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) current: Option<Arc<PairSecret>>,
    pub(crate) previous: Option<Arc<PairSecret>>,
}

/// What a gateway needs of a [`Pair`]: with which secret its own handshakes begin, and which other
/// one it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub(crate) begin: Arc<PairSecret>,
    pub(crate) also: Option<Arc<PairSecret>>,
}

impl Pair {
    /// With a later secret, which is kept beside the one that it takes the place of.
    pub(crate) fn followed_by(&self, secret: PairSecret) -> Self {
        Self { current: Some(Arc::new(secret)), previous: self.current.clone() }
    }

    /// What both have, if the other side has the secret of this hash. Where that is the one
    /// before the latest, handshakes begin with it: the other side may not have the latest yet.
    pub(crate) fn shared(
        &self,
        clusters: [ClusterId; 2],
        has: Option<Digest>,
    ) -> Option<Agreement> {
        let is = |secret: &Option<Arc<PairSecret>>| has.is_some() && hash(secret, clusters) == has;
        if is(&self.current) {
            let begin = self.current.clone()?;
            return Some(Agreement { begin, also: self.previous.clone() });
        }
        if is(&self.previous) {
            let begin = self.previous.clone()?;
            return Some(Agreement { begin, also: self.current.clone() });
        }
        None
    }
}

/// What the two say of a secret; none, where there is none.
pub(crate) fn hash(
    secret: &Option<Arc<PairSecret>>,
    [one, other]: [ClusterId; 2],
) -> Option<Digest> {
    secret.as_ref().map(|secret| secret.hash(one, other))
}
