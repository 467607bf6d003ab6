//! How an object came here, for a person.

use std::fmt;

use super::Route;
use crate::limits;

/// For a person: where it was made, which clusters it passed, and how many more it may pass.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "origin {}, path ", self.origin.short())?;
        for (n, cluster) in self.path.iter().take(limits::PATH_CLUSTERS).enumerate() {
            write!(f, "{}{}", if n == 0 { "" } else { " > " }, cluster.short())?;
        }
        let more = if self.path.len() > limits::PATH_CLUSTERS { " > ..." } else { "" };
        write!(f, "{more}, hops left {}", self.hops)
    }
}
