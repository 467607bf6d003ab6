//! What the virtual node of a lease is called at home. Whether another node has that name is the
//! home cluster's to see.

use crate::id::ClusterId;

/// How the names of virtual nodes begin. The admission policies of `config/deploy` go by it.
pub const NODE_PREFIX: &str = "mercato-";

/// What the virtual node of a lease with this provider is called, where no other node has that
/// name: by the name that the provider gives itself, if it gives one.
pub fn node_name(provider_name: Option<&str>, provider: &ClusterId) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = provider_name.unwrap_or_default().chars().map(plain).collect();
    let name = name.trim_matches('-');
    if name.is_empty() {
        format!("{NODE_PREFIX}{}", provider.short())
    } else {
        format!("{NODE_PREFIX}{name:.40}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_by_its_provider() {
        let id = ClusterId([7; 32]);
        assert_eq!(node_name(Some("Torino (Nord)"), &id), "mercato-torino--nord");
        assert_eq!(node_name(Some("..."), &id), format!("mercato-{}", id.short()));
        assert_eq!(node_name(None, &id), format!("mercato-{}", id.short()));
    }
}
