//! What of an offer depends on what the cluster's network is made to do.

/// What this cluster keeps guests to, as far as it can.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Enforced {
    /// Guests are kept apart on its network.
    pub(crate) isolation: bool,
    /// Guests reach of the Internet what their contracts say, and nothing else by that way.
    pub(crate) egress: bool,
}
