//! All that a name server knows: who asks, what each lease has, and whom to ask for the rest.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mercato_protocol::id::ContractId;

use crate::zone::Zone;

/// All that a name server knows; it takes the place of what it knew before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// What this cluster calls itself: of its names it tells nobody.
    pub domain: String,
    /// Whom it asks what it does not know, the first one first.
    pub servers: Vec<SocketAddr>,
    /// Who is a guest of which lease, by their own addresses. Nobody else is answered.
    pub guests: BTreeMap<IpAddr, ContractId>,
    /// The names of each lease, once they were said.
    pub zones: BTreeMap<ContractId, Arc<Zone>>,
}

impl Knowledge {
    /// Whether a name is one of this cluster, or would be one of most: it is not to leave this one,
    /// whoever asks for it. What another lease's home calls its cluster is no business of the asker's:
    /// otherwise a home would take names of the Internet from others' guests by saying them.
    pub(crate) fn is_of_this_cluster(&self, name: &str) -> bool {
        let mut own = [self.domain.as_str(), USUAL].into_iter().filter(|domain| !domain.is_empty());
        own.any(|domain| before(name, domain).is_some())
    }
}

/// What most clusters call themselves.
const USUAL: &str = "cluster.local";

/// What a name has before a domain, if it ends in that: both lower case, without a dot at the end.
pub(crate) fn before<'a>(name: &'a str, domain: &str) -> Option<&'a str> {
    let before = name.strip_suffix(domain)?;
    if before.is_empty() { Some(before) } else { before.strip_suffix('.') }
}
