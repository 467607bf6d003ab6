//! Which tokens of service accounts leave home with the pods that mount them.

use std::collections::BTreeSet;

/// Which tokens of service accounts leave home with a pod. A volume keeps its other sources,
/// such as `ca.crt` and `namespace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// Those for one of these audiences. An API server takes tokens for audiences of many forms
    /// as its own (`https://kubernetes.default.svc`, `k3s`, `system:konnectivity-server`), so
    /// that only a list of what is not the API server's can keep pods from it.
    For(BTreeSet<String>),
    /// All, those for home's API server too.
    All,
}

impl Default for Tokens {
    fn default() -> Self {
        Self::For(BTreeSet::new())
    }
}

impl Tokens {
    /// Whether a token for this audience leaves; none is home's API server.
    pub(super) fn permit(&self, audience: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::For(audiences) => audience.is_some_and(|one| audiences.contains(one)),
        }
    }
}
