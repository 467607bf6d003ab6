//! How a promise grows, and why so much cannot be promised.

use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::PoolId;

/// So much more of a pool is promised than before.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    pub(crate) pool: PoolId,
    pub(crate) more: Resources,
}

/// Why so much cannot be promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The pool is not for sale any more.
    NotShared,
    /// Not enough is left of this.
    Of(Resource),
}
