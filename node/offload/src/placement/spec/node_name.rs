//! What the virtual node of a lease is called.

use mercato_protocol::id::{ClusterId, ContractId};

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

/// What it is called where another node has the name `stem`: an earlier contract's with that
/// provider, say.
pub fn second_node_name(stem: &str, contract: &ContractId) -> String {
    format!("{stem}-{}", contract.short())
}

/// What the node of that lease is called where no other has the name: of two leases with one provider
/// both nodes are called the same so.
pub fn stem<'a>(node: &'a str, contract: &ContractId) -> &'a str {
    let of_second = node.strip_suffix(&contract.short());
    of_second.and_then(|stem| stem.strip_suffix('-')).unwrap_or(node)
}

/// The stem that somebody means who names a node, or its provider as it calls itself.
pub fn meant(name: &str) -> String {
    let is_whole = name.starts_with(NODE_PREFIX) || name.is_empty();
    if is_whole { name.to_owned() } else { node_name(Some(name), &ClusterId([0; 32])) }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ContractId;

    use super::*;

    #[test]
    fn a_node_is_named_by_its_provider() {
        let id = ClusterId([7; 32]);
        assert_eq!(node_name(Some("Torino (Nord)"), &id), "mercato-torino--nord");
        assert_eq!(node_name(Some("..."), &id), format!("mercato-{}", id.short()));
        assert_eq!(node_name(None, &id), format!("mercato-{}", id.short()));
        let contract = ContractId([5; 16]);
        let second = second_node_name("mercato-turin", &contract);
        assert_eq!(second, format!("mercato-turin-{}", contract.short()));
    }
}
