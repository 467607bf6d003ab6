//! Fields that reach into the provider's cluster, sent as they are: home's own checks, and
//! those of its API server, are not in the way.

use anyhow::{Context as _, Result, ensure};
use mercato_protocol::workload::{Item, ObjectKind};
use serde_json::{Value, json};

use super::{Consumer, GUEST, Said, object, pod};
use crate::Scene;

/// What is added to a pod's spec, and the field that is refused for it.
fn refused() -> Vec<(Value, &'static str)> {
    [of_the_pod(), of_a_container()].concat()
}

fn of_the_pod() -> Vec<(Value, &'static str)> {
    let volume = |of: Value| json!({ "volumes": [of] });
    let projected = |of: Value| json!({ "volumes": [{ "projected": { "sources": [of] } }] });
    vec![
        (json!({ "hostNetwork": true }), "spec.hostNetwork"),
        (json!({ "hostPID": true }), "spec.hostPID"),
        (json!({ "hostIPC": true }), "spec.hostIPC"),
        (json!({ "runtimeClassName": "nvidia" }), "spec.runtimeClassName"),
        (json!({ "resourceClaims": [{ "name": "gpu" }] }), "spec.resourceClaims"),
        (json!({ "hostEverything": true }), "spec.hostEverything"),
        (volume(json!({ "hostPath": { "path": "/" } })), "spec.volumes[0].hostPath"),
        (volume(json!({ "csi": { "driver": "d" } })), "spec.volumes[0].csi"),
        (volume(json!({ "nfs": { "server": "s", "path": "/" } })), "spec.volumes[0].nfs"),
        (volume(json!({ "iscsi": { "iqn": "i" } })), "spec.volumes[0].iscsi"),
        (volume(json!({ "gitRepo": { "repository": "r" } })), "spec.volumes[0].gitRepo"),
        (volume(json!({ "flexVolume": { "driver": "d" } })), "spec.volumes[0].flexVolume"),
        (
            volume(json!({ "persistentVolumeClaim": { "claimName": "c" } })),
            "spec.volumes[0].persistentVolumeClaim.claimName",
        ),
        (
            volume(json!({ "ephemeral": { "volumeClaimTemplate": {} } })),
            "spec.volumes[0].ephemeral",
        ),
        (
            projected(json!({ "clusterTrustBundle": { "path": "p" } })),
            "spec.volumes[0].projected.sources[0].clusterTrustBundle",
        ),
        (
            projected(
                json!({ "podCertificate": { "signerName": "kubernetes.io/kubelet-serving" } }),
            ),
            "spec.volumes[0].projected.sources[0].podCertificate",
        ),
        (
            json!({ "securityContext": { "sysctls": [{ "name": "kernel.msgmax", "value": "1" }] } }),
            "spec.securityContext.sysctls",
        ),
        (
            json!({ "securityContext": { "appArmorProfile": { "type": "Unconfined" } } }),
            "spec.securityContext.appArmorProfile",
        ),
    ]
}

fn of_a_container() -> Vec<(Value, &'static str)> {
    let app = |of: Value| json!({ "containers": [of] });
    let security = |of: Value| json!({ "containers": [{ "securityContext": of }] });
    let get = json!({ "httpGet": { "host": "169.254.169.254", "port": 80 } });
    let connect = json!({ "tcpSocket": { "host": "10.96.0.1", "port": 443 } });
    vec![
        (app(json!({ "ports": [{ "hostPort": 80 }] })), "spec.containers[0].ports[0].hostPort"),
        (app(json!({ "ports": [{ "hostIP": "::" }] })), "spec.containers[0].ports[0].hostIP"),
        (app(json!({ "volumeDevices": [{ "name": "d" }] })), "spec.containers[0].volumeDevices"),
        (app(json!({ "resources": { "claims": [{}] } })), "spec.containers[0].resources.claims"),
        (
            app(json!({ "volumeMounts": [{ "mountPropagation": "Bidirectional" }] })),
            "spec.containers[0].volumeMounts[0].mountPropagation",
        ),
        (app(json!({ "livenessProbe": get })), "spec.containers[0].livenessProbe.httpGet.host"),
        (
            app(json!({ "readinessProbe": connect })),
            "spec.containers[0].readinessProbe.tcpSocket.host",
        ),
        (
            app(json!({ "lifecycle": { "postStart": get } })),
            "spec.containers[0].lifecycle.postStart.httpGet.host",
        ),
        (
            json!({ "initContainers": [{ "name": "i", "image": "i", "lifecycle": { "preStop": get } }] }),
            "spec.initContainers[0].lifecycle.preStop.httpGet.host",
        ),
        (security(json!({ "privileged": true })), "spec.containers[0].securityContext.privileged"),
        (
            security(json!({ "capabilities": { "add": ["SYS_ADMIN"] } })),
            "spec.containers[0].securityContext.capabilities",
        ),
        (
            security(json!({ "procMount": "Unmasked" })),
            "spec.containers[0].securityContext.procMount",
        ),
        (
            security(json!({ "seccompProfile": { "type": "Unconfined" } })),
            "spec.containers[0].securityContext.seccompProfile",
        ),
        (
            security(json!({ "windowsOptions": { "hostProcess": true } })),
            "spec.containers[0].securityContext.windowsOptions",
        ),
    ]
}

/// Each is refused with its path.
pub(super) async fn are_refused(consumer: &mut Consumer<'_>) -> Result<()> {
    let refused = refused();
    let pods = refused.iter().enumerate().map(|(n, (spec, _))| pod(&format!("f{n}"), spec.clone()));
    let mut all: Vec<(Item, Value)> = pods.collect();
    let mut paths: Vec<&str> = refused.iter().map(|(_, path)| *path).collect();
    let mut forged = |kind, name, body, path| {
        all.push(object(kind, name, body));
        paths.push(path);
    };
    let token = json!({ "kind": "Secret", "type": "kubernetes.io/service-account-token" });
    forged(ObjectKind::Secret, "token", token, "type");
    let boot = json!({ "kind": "Secret", "type": "bootstrap.kubernetes.io/token" });
    forged(ObjectKind::Secret, "boot", boot, "type");
    forged(ObjectKind::ConfigMap, "more", json!({ "kind": "ConfigMap", "more": 1 }), "more");
    forged(ObjectKind::Namespace, "kube-system", json!({ "kind": "Namespace" }), "kind");
    forged(ObjectKind::Pod, "as-object", json!({ "kind": "Pod" }), "kind");
    let deep = (0..64).fold(json!(1), |value, _| json!([value]));
    forged(ObjectKind::ConfigMap, "deep", json!({ "kind": "ConfigMap", "data": deep }), "");
    consumer.put(&all).await?;
    for ((item, _), path) in all.iter().zip(paths) {
        let refusal = consumer.refusal(item).await?;
        ensure!(refusal.path == path && !refusal.reason.is_empty(), "{path}: {refusal:?}");
    }
    Ok(())
}

/// A device that is not counted is not shown either.
fn shows_no_device(spec: &Value) -> bool {
    let mut env = spec["containers"][0]["env"].as_array().into_iter().flatten();
    env.any(|one| *one == json!({ "name": "NVIDIA_VISIBLE_DEVICES", "value": "void" }))
}

/// What says where a pod runs, whose it is and who it is, is the provider's to say.
pub(super) async fn are_dropped(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let (item, mut body) = pod(
        "plain",
        json!({
            "nodeName": "siena-1", "serviceAccountName": "mercato", "serviceAccount": "mercato",
            "automountServiceAccountToken": true, "priority": 2_000_001_000,
            "priorityClassName": "system-node-critical", "schedulerName": "mine",
            "tolerations": [{ "operator": "Exists" }], "hostUsers": true,
            "nodeSelector": { "node-role.kubernetes.io/control-plane": "" }, "overhead": { "cpu": "0" },
            "containers": [{ "resources": { "limits": { "nvidia.com/gpu": "0k" } } }],
            "preemptionPolicy": "PreemptLowerPriority", "terminationGracePeriodSeconds": 315_360_000,
            "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname", "labelSelector": {},
                "namespaceSelector": {}, "namespaces": ["kube-system"] }] } },
        }),
    );
    body["metadata"] = json!({
        "namespace": "kube-system", "name": "kube-proxy", "uid": "x",
        "finalizers": ["example.com/never"],
        "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "siena-1", "uid": "x" }],
        "labels": { "app": "plain", "mercato.dev/contract": "another", "k8s-app.kubernetes.io/x": "y",
            "sidecar.istio.io/inject": "true", "azure.workload.identity/use": "true" },
        "annotations": { "container.apparmor.security.beta.kubernetes.io/app": "unconfined",
            "mercato.dev/home-name": "another", "k8s.v1.cni.cncf.io/networks": "host",
            "io.katacontainers.config.hypervisor.default_vcpus": "64",
            "org.systemd.property.MemoryMax": "infinity", "run.oci.handler": "krun" },
    });
    consumer.put(&[(item.clone(), body)]).await?;
    consumer.hears(&item, |said| matches!(said, Said::Is(_))).await?;
    let get = ["-n", GUEST, "get", "pod", "plain", "-o", "json"];
    let guest: Value = serde_json::from_str(&scene.siena.cluster.kubectl(&get).await?.ok()?)?;
    let (metadata, spec) = (&guest["metadata"], &guest["spec"]);
    let own = [
        spec["serviceAccountName"] == "default",
        spec["automountServiceAccountToken"] == false,
        spec["priority"] == 0,
        shows_no_device(spec),
        spec["schedulerName"] == "default-scheduler",
        spec["nodeSelector"]["node-role.kubernetes.io/control-plane"].is_null(),
        metadata["ownerReferences"].is_null(),
        metadata["finalizers"] == json!(["mercato.dev/guest"]),
        metadata["labels"]["mercato.dev/contract"] == scene.bought.to_string(),
        metadata["labels"]["k8s-app.kubernetes.io/x"].is_null(),
        metadata["annotations"]["mercato.dev/home-name"] == "plain",
        metadata["annotations"]["k8s.v1.cni.cncf.io/networks"].is_null(),
    ];
    ensure!(own.iter().all(|own| *own), "{own:?}: {guest}");
    for keys in [&metadata["labels"], &metadata["annotations"]] {
        for key in keys.as_object().context("marks")?.keys() {
            // The last ones are siena's own API server's.
            let quiet = ["home.", "mercato.dev/", "topology.kubernetes.io/"];
            let quiet = key == "app" || quiet.iter().any(|known| key.starts_with(known));
            ensure!(quiet, "{key} may steer");
        }
    }
    ensure!(spec["terminationGracePeriodSeconds"] == 3_600, "more than the notice: {guest}");
    // Not a demand, which would keep the provider's own pods away.
    let apart = &spec["affinity"]["podAntiAffinity"];
    let wishes = &apart["preferredDuringSchedulingIgnoredDuringExecution"];
    ensure!(apart["requiredDuringSchedulingIgnoredDuringExecution"].is_null(), "{guest}");
    let namespaces = wishes[0]["podAffinityTerm"]["namespaces"].as_array().context("namespaces")?;
    ensure!(namespaces.contains(&json!(GUEST)), "{guest}");
    ensure!(!namespaces.contains(&json!("kube-system")), "{guest}");
    let tolerations = spec["tolerations"].as_array().context("the API server's own")?;
    ensure!(tolerations.iter().all(|one| !one["key"].is_null()), "{guest}");
    let volumes = spec["volumes"].as_array().map(Vec::len).unwrap_or_default();
    ensure!(volumes == 0, "a token is mounted: {guest}");
    let pods = ["get", "pods", "-n", GUEST, "-o", "name"];
    let pods = scene.siena.cluster.kubectl(&pods).await?.ok()?;
    ensure!(pods.trim() == "pod/plain", "{pods}");
    Ok(())
}
