//! What the owner of a pod is told that is not as at home.

use serde_json::json;

use super::super::write::differs;
use super::*;

#[test]
fn whose_home_is_called_what_no_home_may_be_is_told_so_where_names_are_told() {
    let said = |domain: &str, name_server: bool| -> Vec<&str> {
        let name_server = name_server.then(|| [10, 207, 255, 254].into());
        let context = GuestContext { name_server, ..context() };
        let annotations = json!({ "mercato.dev/cluster-domain": domain });
        let home = json!({ "metadata": { "annotations": annotations }, "spec": {} });
        differs(&home, "shop", &context).into_iter().map(|(reason, _)| reason).collect()
    };
    assert_eq!(said("com", true), ["ClusterDomainRefused"]);
    assert_eq!(said("cluster.local", true), [""; 0]);
    assert_eq!(said("com", false), [""; 0]);
}

#[test]
fn whose_search_list_is_too_long_is_told_so_as_by_a_kubelet() {
    let said = |count: usize, policy: &str, name_server: bool| {
        let name_server = name_server.then(|| [10, 207, 255, 254].into());
        let context = GuestContext { name_server, ..context() };
        let annotations = json!({ "mercato.dev/cluster-domain": "cluster.local" });
        let searches: Vec<_> = (0..count).map(|n| format!("n{n}.example")).collect();
        let spec = json!({ "dnsPolicy": policy, "dnsConfig": { "searches": searches } });
        let home = json!({ "metadata": { "annotations": annotations }, "spec": spec });
        differs(&home, "shop", &context)
    };
    let [(reason, message)] = &said(30, "ClusterFirst", true)[..] else { panic!() };
    assert_eq!(*reason, "DNSConfigForming");
    let line = "Search Line limits were exceeded, some search paths have been omitted, the applied \
                search line is: shop.svc.cluster.local svc.cluster.local cluster.local n0.example ";
    assert!(message.starts_with(line) && message.ends_with(" n28.example"), "{message}");
    for (count, policy, name_server) in
        [(29, "ClusterFirst", true), (32, "None", true), (30, "ClusterFirst", false)]
    {
        assert_eq!(said(count, policy, name_server), [], "{count} {policy}");
    }
}
