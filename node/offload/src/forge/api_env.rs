//! The variables by which a pod finds its API server, where it is reached by a name alone: pure.

use std::collections::BTreeMap;

/// What its certificate calls it in every cluster, whatever the cluster calls itself.
const NAME: &str = "kubernetes.default.svc";
/// As the names begin that a kubelet gives for the Service `kubernetes`.
const OF_SERVICE: [&str; 2] = ["KUBERNETES_SERVICE_", "KUBERNETES_PORT_"];

/// Puts the name in the place of the address that home's kubelet would give: programs inside of a
/// cluster call what `KUBERNETES_SERVICE_HOST` says, and compare it with the certificate.
pub(super) fn name(env: &mut BTreeMap<String, String>) {
    env.retain(|name, _| !OF_SERVICE.iter().any(|start| name.starts_with(start)));
    let url = format!("tcp://{NAME}:443");
    let all = [
        ("KUBERNETES_SERVICE_HOST", NAME),
        ("KUBERNETES_SERVICE_PORT", "443"),
        ("KUBERNETES_SERVICE_PORT_HTTPS", "443"),
        ("KUBERNETES_PORT", &url),
        ("KUBERNETES_PORT_443_TCP", &url),
        ("KUBERNETES_PORT_443_TCP_PROTO", "tcp"),
        ("KUBERNETES_PORT_443_TCP_PORT", "443"),
        ("KUBERNETES_PORT_443_TCP_ADDR", NAME),
    ];
    env.extend(all.map(|(name, value)| (name.to_owned(), value.to_owned())));
}
