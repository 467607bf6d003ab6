//! A pod's way there and its status' way back.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::{ClusterId, ContractId};
use serde_json::{Value, json};

use super::*;
use crate::address::Reach;
use crate::guest::Failure;
use crate::key::{Item, PodId, Uid, key};
use crate::message::{Outcome, Route};

mod api;
mod change;
mod crossing;
mod devices;
mod gate;
mod kept;
mod marks;
mod names;
mod own_name;
mod reach;
mod requests;
mod resize;
mod services;
mod status;
mod tokens;
mod told;
mod words;

fn home_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "u-1", "generation": 3,
            "resourceVersion": "77", "managedFields": [{ "manager": "x" }],
            "labels": { "app": "web", "topology.kubernetes.io/zone": "z" },
            "annotations": { "note": "hi", "k8s.v1.cni.cncf.io/networks": "admin" },
            "ownerReferences": [{ "kind": "ReplicaSet" }], "finalizers": ["x/y"],
        },
        "spec": {
            "nodeName": "virtual", "serviceAccountName": "web", "restartPolicy": "Always",
            "tolerations": [{ "operator": "Exists" }], "priorityClassName": "high",
            "terminationGracePeriodSeconds": 7,
            "readinessGates": [{ "conditionType": "shop/open" }],
            "imagePullSecrets": [{ "name": "pull" }],
            "containers": [{
                "name": "web", "image": "web:1",
                "resources": { "limits": { "cpu": "500m" } },
                "env": [
                    { "name": "NS", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } },
                    { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
                    { "name": "MEM", "valueFrom": { "resourceFieldRef": {
                        "resource": "limits.memory", "divisor": "1Mi" } } },
                    { "name": "C", "valueFrom": { "configMapKeyRef": { "name": "conf", "key": "c" } } },
                ],
                "volumeMounts": [{ "name": "api", "mountPath": "/var/run/secrets" }],
            }],
            "volumes": [{ "name": "api", "projected": { "sources": [
                { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
                { "configMap": { "name": "kube-root-ca.crt",
                                 "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                { "downwardAPI": { "items": [
                    { "path": "namespace", "fieldRef": { "fieldPath": "metadata.namespace" } }] } },
            ] } }],
        },
        "status": { "phase": "Pending", "qosClass": "Burstable" },
    })
}

fn id() -> PodId {
    PodId { uid: Uid("u-1".into()), namespace: "shop".into(), name: "web-0".into() }
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn guest_context() -> GuestContext {
    GuestContext {
        contract: ContractId([7; 16]),
        namespaces: map([("shop", "shop-rome")]),
        pod_security: PodSecurity::default(),
        priority_class: Some("mercato-spot".into()),
        runtime_class: None,
        node_selector: map([("pool", "a")]),
        dns_policy: "Default".into(),
        dns_config: None,
        name_server: None,
        keeps_host_names: false,
        user_namespaces: false,
        longest_grace_s: 30,
        gate: None,
        ranges: Vec::new(),
        egress: EgressKind::None,
        transit: false,
        default_requests: map([("cpu", "100m"), ("memory", "64Mi")]),
        default_limits: BTreeMap::new(),
        binding: Binding::default(),
        left_out: BTreeSet::new(),
        allocatable: map([("cpu", "8"), ("memory", "16Gi")]),
        storage_class: None,
    }
}

/// What is seen of a guest that is there, and was not before.
fn look(ctx: &GuestContext, guest: &Value) -> Option<crate::guest::Observed> {
    let mut guest = guest.clone();
    guest["metadata"]["uid"] = json!("g1");
    observe(ctx, &KnownGuests::default(), &guest)
}

fn service(name: &str, address: &str, port: u16) -> Value {
    json!({ "metadata": { "name": name },
        "spec": { "clusterIP": address, "ports": [{ "port": port }] } })
}

fn home_context(tokens: Tokens) -> HomeContext {
    HomeContext {
        service_env: ServiceEnv::of(
            [&service("db", "10.0.0.5", 1)],
            Some(&service("kubernetes", "10.0.0.1", 6443)),
        ),
        tokens,
        host_ip: Some("10.0.0.9".into()),
        domain: None,
        api: None,
        claims: BTreeMap::new(),
    }
}

fn route() -> Route {
    Route { origin: ClusterId([1; 32]), path: vec![ClusterId([1; 32])], hops: 0 }
}

fn content(home: &Value) -> Content {
    Content { digest: digest(home), route: route(), called: None }
}

/// Each guest pod that a test has forged is stored as an API server stores it, and has lost nothing then.
fn forge(
    item: &Item,
    body: &Value,
    content: &Content,
    ctx: &GuestContext,
) -> Result<Value, Refusal> {
    let forged = super::forge(item, body, content, ctx);
    if let (Item::Pod(_), Ok(pod)) = (item, &forged) {
        assert_eq!(lost(pod, &kept::stored(pod)), None);
    }
    forged
}

fn forged(home: &Value) -> Result<Value, Refusal> {
    forge(&Item::Pod(id()), home, &content(home), &guest_context())
}

#[test]
fn who_is_not_counted_has_no_finalizer() {
    let mut home = home_pod();
    home["metadata"]["ownerReferences"] = json!([{ "kind": "ReplicaSet", "controller": true }]);
    home["metadata"]["finalizers"] = Value::Null;
    let guest = forged(&export_pod(&home, &home_context(Tokens::All))).unwrap();
    assert_eq!(guest["metadata"]["finalizers"], Value::Null);
    home["metadata"]["ownerReferences"] = Value::Null;
    let bare = forged(&export_pod(&home, &home_context(Tokens::All))).unwrap();
    assert_eq!(bare["metadata"]["finalizers"], json!([FINALIZER]));
}

#[test]
fn a_pod_is_forged() {
    let sent = export_pod(&home_pod(), &home_context(Tokens::All));
    let guest = forged(&sent).unwrap();
    let metadata = &guest["metadata"];
    assert_eq!(metadata["namespace"], "shop-rome");
    assert_eq!(metadata["finalizers"], json!([FINALIZER]), "somebody waits for its end");
    assert_eq!(metadata["labels"]["app"], "web");
    assert_eq!(metadata["labels"]["topology.kubernetes.io/zone"], Value::Null);
    assert_eq!(metadata["annotations"]["k8s.v1.cni.cncf.io/networks"], Value::Null);
    assert_eq!(metadata["ownerReferences"], Value::Null);
    let spec = &guest["spec"];
    assert_eq!(spec["nodeName"], Value::Null);
    assert_eq!(spec["tolerations"], Value::Null);
    assert_eq!(spec["priorityClassName"], "mercato-spot");
    assert_eq!(spec["terminationGracePeriodSeconds"], 7);
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["nodeSelector"], json!({ "pool": "a" }));
    let web = &spec["containers"][0];
    assert_eq!(web["resources"]["requests"], json!({ "cpu": "500m", "memory": "64Mi" }));
    let sources = &spec["volumes"][0]["projected"]["sources"];
    assert_eq!(sources[0]["secret"]["name"], "mercato-token-u-1-0");
    assert_eq!(sources[0]["secret"]["items"][0]["path"], "token");
    assert_eq!(sources[1]["configMap"]["name"], "mercato-home-root-ca.crt");
}

#[test]
fn what_a_pod_reads_about_itself_is_homes_truth() {
    let sent = export_pod(&home_pod(), &home_context(Tokens::All));
    let guest = forged(&sent).unwrap();
    let env = guest["spec"]["containers"][0]["env"].as_array().unwrap();
    let shown = |env: &Value| -> Value {
        let path = env["valueFrom"]["fieldRef"]["fieldPath"].as_str().unwrap();
        let name = path.strip_prefix("metadata.annotations['").unwrap().strip_suffix("']").unwrap();
        guest["metadata"]["annotations"][name].clone()
    };
    let named = |name: &str| env.iter().find(|env| env["name"] == name).unwrap();
    assert_eq!(shown(named("NS")), "shop");
    assert_eq!(shown(named("MEM")), "16384", "the virtual node's, in Mi");
    assert_eq!(named("IP")["valueFrom"]["fieldRef"]["fieldPath"], "status.podIP");
    assert_eq!(named("KUBERNETES_SERVICE_HOST")["value"], "10.0.0.1");
    let file = &guest["spec"]["volumes"][0]["projected"]["sources"][2]["downwardAPI"]["items"][0];
    assert_eq!(shown(&json!({ "valueFrom": file })), "shop");
}

#[test]
fn a_pod_needs_what_it_names() {
    let sent = export_pod(&home_pod(), &home_context(Tokens::All));
    let names: Vec<String> = needs(&sent).iter().map(|key| key.name.clone()).collect();
    assert_eq!(names, ["conf", "kube-root-ca.crt", "pull", "mercato-token-u-1-0"]);
    let tokens = token_requests(&sent);
    assert_eq!((tokens[0].service_account.as_str(), tokens[0].expiration_s), ("web", 3607));
    let sent = export_pod(&home_pod(), &home_context(Tokens::default()));
    assert!(token_requests(&sent).is_empty());
    let sources = forged(&sent).unwrap()["spec"]["volumes"][0]["projected"]["sources"].clone();
    assert_eq!(sources.as_array().unwrap().len(), 2, "ca.crt and namespace stay");
}

#[test]
fn what_the_lease_does_not_allow_is_refused_with_its_path() {
    let cases = [
        ("/spec/hostNetwork", json!(true), "spec.hostNetwork"),
        ("/spec/hostPID", json!(true), "spec.hostPID"),
        ("/spec/newField", json!("x"), "spec.newField"),
        ("/spec/runtimeClassName", json!("kata"), "spec.runtimeClassName"),
        (
            "/spec/containers/0/securityContext",
            json!({ "privileged": true }),
            "spec.containers[0].securityContext.privileged",
        ),
        (
            "/spec/containers/0/securityContext",
            json!({ "capabilities": { "add": ["SYS_ADMIN"] } }),
            "spec.containers[0].securityContext.capabilities",
        ),
        (
            "/spec/containers/0/ports",
            json!([{ "containerPort": 80, "hostPort": 80 }]),
            "spec.containers[0].ports[0].hostPort",
        ),
        (
            "/spec/containers/0/livenessProbe",
            json!({ "httpGet": { "port": 1, "host": "10.0.0.1" } }),
            "spec.containers[0].livenessProbe.httpGet.host",
        ),
        (
            "/spec/containers/0/lifecycle",
            json!({ "preStop": { "tcpSocket": { "port": 1, "host": "h" } } }),
            "spec.containers[0].lifecycle.preStop.tcpSocket.host",
        ),
        (
            "/spec/volumes/0",
            json!({ "name": "v", "hostPath": { "path": "/" } }),
            "spec.volumes[0].hostPath",
        ),
        (
            "/spec/volumes/0",
            json!({ "name": "v", "nfs": { "server": "s" } }),
            "spec.volumes[0].nfs",
        ),
        (
            "/spec/volumes/0",
            json!({ "name": "v", "csi": { "driver": "d" } }),
            "spec.volumes[0].csi",
        ),
        ("/spec/containers/0/image", json!({ "deep": { "er": 1 } }), "spec.containers[0].image"),
    ];
    for (pointer, value, path) in cases {
        let mut pod = export_pod(&home_pod(), &home_context(Tokens::default()));
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = pod.pointer_mut(parent).unwrap();
        match name.parse::<usize>() {
            Ok(n) => parent[n] = value,
            Err(_) => parent[name] = value,
        }
        assert_eq!(forged(&pod).unwrap_err().path, path);
    }
}

#[test]
fn the_level_privileged_opens_the_node_but_not_its_network() {
    let ctx = GuestContext { pod_security: PodSecurity::Privileged, ..guest_context() };
    let forged = |change: fn(&mut Value)| {
        let mut pod = export_pod(&home_pod(), &home_context(Tokens::default()));
        change(&mut pod["spec"]);
        forge(&Item::Pod(id()), &pod, &content(&pod), &ctx)
    };
    let pod = forged(|spec| {
        spec["hostPID"] = json!(true);
        spec["volumes"] = json!([{ "name": "v", "hostPath": { "path": "/" } }]);
        spec["containers"][0]["securityContext"] =
            json!({ "privileged": true, "capabilities": { "add": ["SYS_ADMIN"] } });
    });
    let spec = &pod.unwrap()["spec"];
    assert_eq!(spec["hostPID"], true);
    assert_eq!(spec["volumes"][0]["hostPath"]["path"], "/");
    let security = &spec["containers"][0]["securityContext"];
    assert_eq!(security["privileged"], true);
    assert_eq!(security["capabilities"]["add"][0], "SYS_ADMIN");
    let refused = forged(|spec| spec["hostNetwork"] = json!(true)).unwrap_err();
    assert_eq!(refused.path, "spec.hostNetwork");
}

#[test]
fn a_namespace_outside_the_lease_is_refused() {
    let mut ctx = guest_context();
    ctx.namespaces.clear();
    let item = Item::Pod(id());
    let refused =
        forge(&item, &export_pod(&home_pod(), &HomeContext::default()), &content(&json!(1)), &ctx)
            .unwrap_err();
    assert_eq!(refused.path, "metadata.namespace");
}

#[test]
fn a_secret_is_forged_unless_it_is_the_clusters_own() {
    let secret = |of: &str| {
        json!({
            "kind": "Secret", "metadata": { "name": "s", "namespace": "shop" },
            "type": of, "data": { "k": "dg==" }, "immutable": true,
        })
    };
    let item = Item::Object(key(ObjectKind::Secret, "shop", "s"));
    let forge = |of: &str| forge(&item, &secret(of), &content(&json!(1)), &guest_context());
    let guest = forge("kubernetes.io/tls").unwrap();
    assert_eq!((&guest["immutable"], &guest["data"]["k"]), (&Value::Null, &json!("dg==")));
    assert_eq!(forge("kubernetes.io/service-account-token").unwrap_err().path, "type");
    assert_eq!(forge("bootstrap.kubernetes.io/token").unwrap_err().path, "type");
}

#[test]
fn no_room_is_named_as_a_kubelet_names_it() {
    let mut guest = forged(&export_pod(&home_pod(), &HomeContext::default())).unwrap();
    guest["status"] = json!({ "conditions": [{ "type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu." }] });
    let pod = look(&guest_context(), &guest).unwrap().pod.unwrap();
    assert!(matches!(pod.unschedulable,
        Some(Outcome::Failed { reason, .. }) if reason == "OutOfcpu"));
}

#[test]
fn errors_are_told_apart() {
    let answer = |code: u32, message: &str| classify(&json!({ "code": code, "message": message }));
    assert_eq!(answer(403, "status unknown for quota: q"), Failure::Transient);
    assert_eq!(answer(403, "error looking up service account a/default"), Failure::Transient);
    for code in [401, 404, 409, 429] {
        assert_eq!(answer(code, "not now"), Failure::Transient, "{code}: it was not done");
    }
    for code in [408, 500, 502, 503, 504] {
        assert_eq!(answer(code, "etcd"), Failure::Unanswered, "{code}: it may have been done");
    }
    assert_eq!(classify(&Value::Null), Failure::Unanswered);
    assert!(matches!(answer(403, "violates PodSecurity"), Failure::Refused(_)));
    let full = answer(403, "exceeded quota: q, requested: requests.cpu=2, used: ...");
    assert!(matches!(full,
        Failure::Full(Outcome::Failed { reason, .. }) if reason == "OutOfcpu"));
}
