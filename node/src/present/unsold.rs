//! Why nothing is on sale, and the line that is missing in the owner's configuration.

use mercato_broker::{SharePolicy, StorageClass, Unsold};
use mercato_protocol::egress::EgressKind;
use mercato_protocol::resources::Resource;
use mercato_protocol::terms::{NetworkIsolation, PodSecurity};
use mercato_protocol::text::shown;

use crate::admin::{NodeTrouble, OwnGateway};

/// Why nothing of what this policy shares is on sale, in clauses.
pub(crate) fn why(policy: &SharePolicy, own: &OwnGateway) -> String {
    match policy.network_isolation {
        NetworkIsolation::Required if policy.pod_security == PodSecurity::Privileged => {
            "privileged guests are kept apart by nothing; to sell: mercato share set with \
             --pod-security baseline, or with --network-isolation none"
                .to_owned()
        }
        NetworkIsolation::Required => match lacks(own) {
            Some(lack) => format!(
                "{lack}; to sell without isolation: mercato share set --network-isolation none"
            ),
            None => NO_ROOM.to_owned(),
        },
        NetworkIsolation::None => NO_ROOM.to_owned(),
    }
}

/// Devices that are not sold, why, and what the owner may write to sell them.
pub(crate) fn device(unsold: &Unsold) -> String {
    let Unsold { resource, nodes, count, reason, line } = unsold;
    let on = match nodes {
        // Devices of no node in particular.
        0 => String::new(),
        1 => " on 1 node".to_owned(),
        nodes => format!(" on {nodes} nodes"),
    };
    let line = line.as_ref().map(|line| format!("; to sell them: {}", shown(line)));
    let (resource, reason) = (shown(resource), shown(reason));
    format!("not sold: {count} {resource}{on}: {reason}{}", line.unwrap_or_default())
}

/// Why the storage that a policy shares is not on sale, and what to write; none: it is, or none is
/// shared.
pub(crate) fn no_storage(policy: &SharePolicy, class: &StorageClass) -> Option<String> {
    if !policy.amounts.contains_key(&Resource::Storage) {
        return None;
    }
    match class {
        StorageClass::There { .. } => None,
        StorageClass::Unknown => Some(
            "storage is not on sale: the classes of the cluster are not read yet; if it stays so, \
             mercato doctor says which right is missing"
                .to_owned(),
        ),
        StorageClass::Missing { why, line } => {
            Some(format!("storage is not on sale: {}; to sell it: {}", shown(why), shown(line)))
        }
    }
}

/// All that the owner should know of the class of storage that is shared.
pub(crate) fn storage(policy: &SharePolicy, class: &StorageClass) -> Vec<String> {
    match (policy.amounts.contains_key(&Resource::Storage), class) {
        (true, StorageClass::There { told }) => told.iter().map(|it| shown(it).into()).collect(),
        (_, class) => no_storage(policy, class).into_iter().collect(),
    }
}

/// Why the way out to the Internet that a policy shares is not on sale; none: it is, or none is shared, or
/// nothing at all is on sale.
pub(crate) fn no_egress(policy: &SharePolicy, enforced: bool, own: &OwnGateway) -> Option<String> {
    let to = policy.egress.to;
    let needs_none = policy.network_isolation == NetworkIsolation::None;
    if to == EgressKind::None || enforced || needs_none || !own.isolates {
        return None;
    }
    let why = match &own.unkept[..] {
        [] => NOT_KEPT_YET.to_owned(),
        [NodeTrouble { node, reason }, others @ ..] => {
            let more = match others.len() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            format!("guests on {}{more} cannot be kept to it: {}", shown(node), shown(reason))
        }
    };
    Some(format!("no egress is sold: {why} (shared: {})", to.word()))
}

/// What is missing until guests can be kept apart.
fn lacks(own: &OwnGateway) -> Option<String> {
    if own.isolates {
        return None;
    }
    if !own.enabled {
        let why = own.reason.as_ref().map(|why| format!(" ({})", shown(why)));
        let why = why.unwrap_or_default();
        return Some(format!("guests are kept apart by the gateway, which is off{why}: {LINE}"));
    }
    let open = own.open.first().map(|NodeTrouble { node, reason }| {
        format!("guests are not kept apart on {}: {}", shown(node), shown(reason))
    });
    let reason = own.reason.as_ref().map(|why| format!("there is no gateway: {}", shown(why)));
    Some(reason.or(open).unwrap_or_else(|| NOT_YET.to_owned()))
}

/// Of the configuration, and of the chart.
const LINE: &str = "write gateway: {enabled: on} into the configuration, with the image \
                    (gateway.nodes.image), and apply config/deploy/optional/nodes.yaml; the chart does \
                    all of it by --set config.gateway.enabled=on";
const NO_ROOM: &str = "the cluster has no room for it";
const NOT_KEPT_YET: &str = "whether each node can keep guests to it is being found out: look again";
const NOT_YET: &str = "whether guests are kept apart on each node is being found out: look again";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_is_missing_is_named_where_storage_is_shared() {
        let mut policy = mercato_config::Share::default().policy();
        let (why, line) = ("the cluster has no StorageClass fast", "share.storageClass: standard");
        let missing = StorageClass::Missing { why: why.to_owned(), line: line.to_owned() };
        assert_eq!(no_storage(&policy, &missing), None, "none is shared");
        policy.amounts.insert(Resource::Storage, mercato_broker::Amount::Exactly(500 << 30));
        let said = "storage is not on sale: the cluster has no StorageClass fast; \
                    to sell it: share.storageClass: standard";
        assert_eq!(no_storage(&policy, &missing).as_deref(), Some(said));
        assert_eq!(storage(&policy, &missing), [said]);
        assert!(no_storage(&policy, &StorageClass::Unknown).unwrap().contains("mercato doctor"));
        let there = StorageClass::There { told: vec!["it keeps volumes".to_owned()] };
        assert_eq!(no_storage(&policy, &there), None);
        assert_eq!(storage(&policy, &there), ["it keeps volumes"]);
    }

    #[test]
    fn egress_that_nothing_enforces_is_not_sold() {
        let mut policy = mercato_config::Share::default().policy();
        let mut own = OwnGateway { isolates: true, ..OwnGateway::default() };
        assert_eq!(no_egress(&policy, false, &own), None, "none is shared");
        policy.egress.to = EgressKind::Internet;
        let said = no_egress(&policy, false, &own).unwrap();
        assert!(said.starts_with("no egress is sold: whether each node can"), "{said}");
        let trouble = |node: &str| NodeTrouble {
            node: node.to_owned(),
            reason: "it has 300 networks of its own".to_owned(),
        };
        own.unkept = vec![trouble("n2"), trouble("n3")];
        let said = no_egress(&policy, false, &own).unwrap();
        for part in ["n2 (and 1 more)", "300 networks", "shared: internet"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(no_egress(&policy, true, &own), None);
        own.isolates = false;
        assert_eq!(no_egress(&policy, false, &own), None, "nothing is sold, which is said");
        (policy.network_isolation, own.isolates) = (NetworkIsolation::None, true);
        assert_eq!(no_egress(&policy, false, &own), None, "its network keeps guests or does not");
    }

    #[test]
    fn it_names_what_is_missing() {
        let policy = mercato_config::Share::default().policy();
        let off = OwnGateway::default();
        let said = why(&policy, &off);
        assert!(said.contains("--set config.gateway.enabled=on"), "{said}");
        assert!(said.contains("--network-isolation none"), "{said}");

        let on = OwnGateway { enabled: true, ..OwnGateway::default() };
        assert!(why(&policy, &on).starts_with(NOT_YET), "{}", why(&policy, &on));
        let tun = Some("no /dev/net/tun".to_owned());
        let without = OwnGateway { reason: tun, ..on.clone() };
        assert!(why(&policy, &without).contains("no /dev/net/tun"));
        let (node, reason) = ("turin-2".to_owned(), "set gateway.nodes.image".to_owned());
        let open = OwnGateway { open: vec![NodeTrouble { node, reason }], ..on.clone() };
        assert!(why(&policy, &open).contains("turin-2: set gateway.nodes.image"));

        let closed = OwnGateway { isolates: true, ..on };
        assert_eq!(why(&policy, &closed), NO_ROOM);
        let network_isolation = NetworkIsolation::None;
        assert_eq!(why(&SharePolicy { network_isolation, ..policy.clone() }, &off), NO_ROOM);
        let pod_security = PodSecurity::Privileged;
        let said = why(&SharePolicy { pod_security, ..policy }, &closed);
        assert!(said.contains("--pod-security baseline"), "{said}");
    }
}
