//! The variables by which a pod finds its API server, where it is reached by a name alone: pure.

use std::collections::BTreeMap;

/// What its certificate calls it in every cluster, whatever the cluster calls itself.
const NAME: &str = "kubernetes.default.svc";

/// They have the name in the place of the address that home's kubelet would give: programs inside of a
/// cluster call what `KUBERNETES_SERVICE_HOST` says, and compare it with the certificate.
pub(super) fn named() -> BTreeMap<String, String> {
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
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}
