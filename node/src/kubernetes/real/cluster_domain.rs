//! What this cluster calls itself, as names of its Services end.

use mercato_config::settings;
use mercato_kubelet::{Cluster, Failure};
use mercato_protocol::names::is_domain;

/// As the owner says; else as the cluster's name server has it; else as the daemon's own resolver
/// does, if it runs as a pod with a network of its own; else as most clusters do.
pub(super) async fn of_cluster(
    cluster: &Cluster,
    settings: &settings::Kubernetes,
) -> Result<String, Failure> {
    if let Some(own) = &settings.cluster_domain {
        return Ok(own.clone());
    }
    let said = mercato_kubelet::cluster_domain(cluster).await?;
    let found = || {
        let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        found(&text)
    };
    Ok(said.or_else(found).unwrap_or_else(|| USUAL.to_owned()))
}

/// What Kubernetes' installers call a cluster.
const USUAL: &str = "cluster.local";

/// Of a pod's search list, what comes behind `svc.`.
fn found(resolv_conf: &str) -> Option<String> {
    let searches = resolv_conf.lines().filter_map(|line| line.trim().strip_prefix("search"));
    let mut domains = searches.flat_map(str::split_whitespace);
    let domain = domains.find_map(|domain| domain.strip_prefix("svc."))?;
    is_domain(domain).then(|| domain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_knows_what_its_cluster_calls_itself() {
        let text = "nameserver 10.96.0.10\n\
            search shop.svc.rome.example svc.rome.example rome.example\noptions ndots:5\n";
        assert_eq!(found(text).as_deref(), Some("rome.example"));
        for none in ["", "search example.org svc.", "search svc.A..b", "# search svc.a\n"] {
            assert_eq!(found(none), None, "{none}");
        }
    }
}
