//! Pods that the provider refuses, and pods that home does not let go.

use anyhow::{Result, ensure};
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;

pub(crate) const NODE: &str = "mercato-siena";

/// Each with the field that is refused.
const REACHING: [(&str, &str, &str); 5] = [
    ("hostnet", r#"{"spec":{"hostNetwork":true}}"#, "spec.hostNetwork"),
    ("hostpid", r#"{"spec":{"hostPID":true}}"#, "spec.hostPID"),
    (
        "hostpath",
        r#"{"spec":{"volumes":[{"name":"root","hostPath":{"path":"/"}}]}}"#,
        "spec.volumes[0].hostPath",
    ),
    (
        "privileged",
        r#"{"spec":{"containers":[{"name":"privileged","image":"mercato.test/busybox:1",
            "securityContext":{"privileged":true}}]}}"#,
        "spec.containers[0].securityContext.privileged",
    ),
    (
        "hostport",
        r#"{"spec":{"containers":[{"name":"hostport","image":"mercato.test/busybox:1",
            "ports":[{"containerPort":80,"hostPort":80}]}]}}"#,
        "spec.containers[0].ports[0].hostPort",
    ),
];

/// They stay Pending, with the field and the reason in status and event.
pub(crate) async fn reach_into_the_node(home: &Daemon<'_>) -> Result<()> {
    home.cluster.kubectl(&["create", "namespace", "lab"]).await?.ok()?;
    let unasked = home.mercato(&["offload", "lab", "--strategy", "remote"]).await?;
    let said = unasked.stderr.contains("has no NamespaceOffload");
    ensure!(unasked.code != Some(0) && said, "nobody there has agreed: {unasked:?}");
    let own = home.mercato(&["offload", "kube-system", "--strategy", "remote"]).await?;
    let said = own.stderr.contains("kube-system is the cluster's own: it stays at home");
    ensure!(own.code != Some(0) && said, "the cluster's own stays: {own:?}");
    home.offload("lab", "Remote").await?;
    let lab = User::new(home.cluster, "lab");
    for (pod, spec, _) in REACHING {
        let overrides = format!("--overrides={spec}");
        lab.start(pod, "sleep 3600", &[&overrides]).await?;
    }
    for (pod, _, field) in REACHING {
        lab.sees(pod, &format!("Pending OffloadRefused {field}")).await?;
        let about = format!("involvedObject.name={pod},reason=OffloadRefused");
        let events = ["get", "events", "--field-selector", &about, "-o", "jsonpath={..message}"];
        let event = lab.kubectl(&events).await?;
        ensure!(event.contains(field) && event.contains("; leave it out"), "{pod}: {event:?}");
    }
    Ok(())
}

/// What no provider takes, and what this cluster alone has, keeps a pod on this cluster's nodes where its
/// namespace lets pods run anywhere: nobody waits at a virtual node for what never comes there.
pub(crate) async fn stay_at_home(home: &Daemon<'_>) -> Result<()> {
    home.cluster.kubectl(&["create", "namespace", "both"]).await?.ok()?;
    home.offload("both", "Both").await?;
    let claim = r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim",
        "metadata":{"name":"data","namespace":"both"},
        "spec":{"accessModes":["ReadWriteOnce"],"volumeName":"disk","storageClassName":"",
            "resources":{"requests":{"storage":"1Mi"}}}}"#;
    let disk = r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"disk"},
        "spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Mi"},
            "nfs":{"server":"192.0.2.1","path":"/"}}}"#;
    for object in [disk, claim] {
        home.cluster.apply(object).await?;
    }
    let both = User::new(home.cluster, "both");
    let of_all = r#"{"name":"data","persistentVolumeClaim":{"claimName":"data"}}"#;
    let claims = format!(r#"{{"spec":{{"volumes":[{of_all}]}}}}"#);
    for (pod, spec) in [("claims", claims.as_str()), ("port", REACHING[4].1)] {
        let spec = spec.replace("hostport", pod);
        both.start(pod, "sleep 3600", &[&format!("--overrides={spec}")]).await?;
        both.sees(pod, "Running").await?;
        // Where it runs may be by chance; what the webhook requires of its node is not.
        let place = "jsonpath={.spec.nodeName} {.spec.affinity..matchExpressions[*].operator}";
        let place = both.kubectl(&["get", "pod", pod, "-o", place]).await?;
        ensure!(place.starts_with("milan-") && place.ends_with("DoesNotExist"), "{pod}: {place}");
    }
    Ok(())
}

/// More than the contract: it ends as a kubelet would end it, so that its owner places it
/// elsewhere.
pub(crate) async fn too_large(home: &Daemon<'_>) -> Result<()> {
    let large = r#"--overrides={"spec":{"nodeName":"mercato-siena","containers":[{"name":"large",
        "image":"mercato.test/busybox:1","resources":{"requests":{"cpu":"3"}}}]}}"#;
    let lab = User::new(home.cluster, "lab");
    lab.start("large", "sleep 3600", &[large]).await?;
    lab.sees("large", "Failed OutOfcpu").await
}

/// Bound to the node by hand, as a DaemonSet's pod is by its controller.
pub(crate) async fn not_offloaded(home: &Daemon<'_>) -> Result<()> {
    let own = User::new(home.cluster, "default").on(NODE);
    own.start("stray", "sleep 3600", &[]).await?;
    own.sees("stray", "Pending OffloadRefused metadata.namespace: namespace default").await
}
