//! Which tokens of service accounts leave home with the pods that mount them.

use std::collections::BTreeSet;

use serde_json::Value;

/// A file of its owner's alone, and one that everybody reads.
const OWNERS: u32 = 0o600;
const EVERYBODYS: u32 = 0o444;

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

/// The mode of a token's file; none: that of its volume. A kubelet makes a token the only user's of a pod, or
/// its group's (`collectData` of projected volumes, `FsUserFrom`). Over there it is a Secret's file, which
/// is root's: for a user it can be read by all of the pod, who are that user.
pub(super) fn mode(spec: &Value) -> Option<u32> {
    let group = &spec["securityContext"]["fsGroup"];
    match (group.is_null(), only_user(spec)) {
        // The kubelet gives the group its right to it.
        (false, _) => Some(OWNERS),
        (true, Some(_)) => Some(EVERYBODYS),
        (true, None) => None,
    }
}

/// Whom all containers of a pod run as, if all say the same.
fn only_user(spec: &Value) -> Option<&Value> {
    let of_pod = &spec["securityContext"]["runAsUser"];
    let containers = ["initContainers", "containers"].into_iter();
    let containers = containers.flat_map(|sort| spec[sort].as_array().into_iter().flatten());
    let mut users = containers.map(|container| {
        let own = &container["securityContext"]["runAsUser"];
        if own.is_null() { of_pod } else { own }
    });
    let first = users.next()?;
    (!first.is_null() && users.all(|user| user == first)).then_some(first)
}
