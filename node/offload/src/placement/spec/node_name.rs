//! What the virtual node of a lease is called.

use mercato_protocol::id::{ClusterId, ContractId};
pub use mercato_protocol::virtual_node::{NODE_PREFIX, node_name};

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
    fn a_second_node_is_named_by_its_contract() {
        let contract = ContractId([5; 16]);
        let second = second_node_name("mercato-turin", &contract);
        assert_eq!(second, format!("mercato-turin-{}", contract.short()));
        assert_eq!(stem(&second, &contract), "mercato-turin");
    }
}
