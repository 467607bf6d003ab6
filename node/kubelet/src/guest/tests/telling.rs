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
        differs(&home, &context).into_iter().map(|(reason, _)| reason).collect()
    };
    assert_eq!(said("com", true), ["ClusterDomainRefused"]);
    assert_eq!(said("cluster.local", true), [""; 0]);
    assert_eq!(said("com", false), [""; 0]);
}
