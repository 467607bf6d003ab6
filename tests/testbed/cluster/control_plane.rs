//! etcd, the API server, the controllers and the scheduler of one cluster.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;

use super::pki::{Authority, Leaf};
use super::spec::Layout;
use super::{Cluster, machine};
use crate::supervisor::init::BED_V4;

/// Where the API server listens.
pub(super) const PORT: u16 = 6443;

/// The users that get a kubeconfig, each with its group.
const USERS: [(&str, &str, Option<&str>); 7] = [
    ("admin", "admin", Some("system:masters")),
    ("controllers", "system:kube-controller-manager", None),
    ("scheduler", "system:kube-scheduler", None),
    ("proxy", "system:kube-proxy", None),
    ("coredns", "coredns", Some("system:masters")),
    ("kwok", "kwok", Some("system:masters")),
    ("metrics-server", "metrics-server", Some("system:masters")),
];

/// Pods that are made are kept whole, so that it can be told whose each was.
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, verbs: [create], resources: [{group: '', resources: [pods]}]}
- {level: Metadata}
";

/// The API server shows its webhooks who it is, as `docs/operations.md` says; those that do not ask
/// for it do not see it.
fn admission(cluster: &Cluster) -> [(&'static str, serde_json::Value); 2] {
    let config = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{
            "name": "MutatingAdmissionWebhook",
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": cluster.file("webhooks.kubeconfig"),
            },
        }],
    });
    let user = json!({
        "client-certificate": cluster.file("webhook-client.crt"),
        "client-key": cluster.file("webhook-client.key"),
    });
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{ "name": "*", "user": user }],
    });
    [("admission.json", config), ("webhooks.kubeconfig", kubeconfig)]
}

/// Makes keys, certificates and kubeconfigs; the machines are made already.
pub(super) fn write_files(cluster: &Cluster) -> Result<()> {
    let layout = &cluster.layout;
    let address = IpAddr::V4(machine::address(layout.index, 1));
    let authority = Authority::new(&format!("{}-ca", layout.name))?;
    let front_proxy = Authority::new(&format!("{}-front-proxy-ca", layout.name))?;
    let webhooks = Authority::new(&format!("{}-webhook-client-ca", layout.name))?;
    // Beside its own addresses that of the bed, where a test may put a fault proxy before it.
    let server = authority.server(
        "kube-apiserver",
        &["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"],
        &[address, IpAddr::from([127, 0, 0, 1]), layout.service_address(1)?, BED_V4.into()],
    )?;
    let dir = cluster.data_outside();
    fs::create_dir_all(&dir)?;
    let put = |name: &str, text: &str| {
        fs::write(dir.join(name), text).with_context(|| format!("write {name} of {}", layout.name))
    };
    let pair = |name: &str, leaf: &Leaf| -> Result<()> {
        put(&format!("{name}.crt"), &leaf.certificate)?;
        put(&format!("{name}.key"), &leaf.key)
    };
    put("ca.crt", &authority.certificate)?;
    put("ca.key", &authority.key)?;
    put("front-proxy-ca.crt", &front_proxy.certificate)?;
    let service_accounts = rcgen::KeyPair::generate()?;
    put("service-accounts.key", &service_accounts.serialize_pem())?;
    put("service-accounts.pub", &service_accounts.public_key_pem())?;
    put("audit.yaml", AUDIT_POLICY)?;
    pair("server", &server)?;
    pair("front-proxy", &front_proxy.client("front-proxy", None)?)?;
    let kubelet_client =
        authority.client("kube-apiserver-kubelet-client", Some("system:masters"))?;
    pair("kubelet-client", &kubelet_client)?;
    put("webhook-client-ca.crt", &webhooks.certificate)?;
    pair("webhook-client", &webhooks.client("kube-apiserver", None)?)?;
    for (name, value) in admission(cluster) {
        put(name, &value.to_string())?;
    }
    let nodes = (1..=cluster.spec.nodes).map(|number| {
        let name = machine::name(&layout.name, number);
        (name.clone(), format!("system:node:{name}"), Some("system:nodes"))
    });
    let users = USERS.iter().map(|&(file, user, group)| (file.to_owned(), user.to_owned(), group));
    for (file, user, group) in users.chain(nodes) {
        let leaf = authority.client(&user, group)?;
        let config = kubeconfig(layout, address, &authority.certificate, &user, &leaf);
        put(&format!("{file}.kubeconfig"), &config)?;
    }
    Ok(())
}

/// Starts etcd and the API server.
pub(super) fn start_api_server(cluster: &Cluster) -> Result<()> {
    start_etcd(cluster)?;
    let layout = &cluster.layout;
    let mut flags = flags(&[
        ("etcd-servers", "http://127.0.0.1:2379".into()),
        ("secure-port", PORT.to_string()),
        ("advertise-address", machine::address(layout.index, 1).to_string()),
        ("allow-privileged", "true".into()),
        ("authorization-mode", "Node,RBAC".into()),
        ("enable-admission-plugins", "NodeRestriction".into()),
        ("service-cluster-ip-range", Layout::joined(&layout.services)),
        ("service-account-issuer", "https://kubernetes.default.svc".into()),
        ("kubelet-preferred-address-types", "InternalIP".into()),
        ("enable-aggregator-routing", "true".into()),
        ("requestheader-allowed-names", "front-proxy".into()),
        ("requestheader-username-headers", "X-Remote-User".into()),
        ("requestheader-group-headers", "X-Remote-Group".into()),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-".into()),
    ]);
    let files = [
        ("tls-cert-file", "server.crt"),
        ("tls-private-key-file", "server.key"),
        ("client-ca-file", "ca.crt"),
        ("kubelet-client-certificate", "kubelet-client.crt"),
        ("kubelet-client-key", "kubelet-client.key"),
        ("service-account-key-file", "service-accounts.pub"),
        ("service-account-signing-key-file", "service-accounts.key"),
        ("requestheader-client-ca-file", "front-proxy-ca.crt"),
        ("proxy-client-cert-file", "front-proxy.crt"),
        ("proxy-client-key-file", "front-proxy.key"),
        ("admission-control-config-file", "admission.json"),
        ("audit-policy-file", "audit.yaml"),
        ("audit-log-path", "audit.log"),
    ];
    flags.extend(files.iter().map(|(flag, file)| format!("--{flag}={}", cluster.file(file))));
    if cluster.spec.verify_kubelets {
        flags.push(format!("--kubelet-certificate-authority={}", cluster.file("ca.crt")));
    }
    flags.extend(cluster.spec.api_server_flags.iter().cloned());
    cluster.start(1, "kube-apiserver", "kube-apiserver", &flags)
}

/// Starts the controllers and the scheduler; the API server is ready.
pub(super) fn start_controllers(cluster: &Cluster) -> Result<()> {
    let common = |user: &str| {
        flags(&[
            ("kubeconfig", cluster.file(&format!("{user}.kubeconfig"))),
            ("leader-elect", "false".into()),
            ("kube-api-qps", "500".into()),
            ("kube-api-burst", "1000".into()),
        ])
    };
    let mut controllers = common("controllers");
    controllers.extend(flags(&[
        ("service-account-private-key-file", cluster.file("service-accounts.key")),
        ("root-ca-file", cluster.file("ca.crt")),
        ("cluster-signing-cert-file", cluster.file("ca.crt")),
        ("cluster-signing-key-file", cluster.file("ca.key")),
        ("use-service-account-credentials", "true".into()),
        ("secure-port", "0".into()),
    ]));
    controllers.extend(cluster.spec.controller_flags.iter().cloned());
    cluster.keep_up("kube-controller-manager", &controllers)?;
    let mut scheduler = common("scheduler");
    scheduler.push("--secure-port=0".into());
    cluster.keep_up("kube-scheduler", &scheduler)
}

fn start_etcd(cluster: &Cluster) -> Result<()> {
    let (client, peer) = ("http://127.0.0.1:2379", "http://127.0.0.1:2380");
    let flags = flags(&[
        ("name", "lab".into()),
        ("data-dir", cluster.file("etcd")),
        ("listen-client-urls", client.into()),
        ("advertise-client-urls", client.into()),
        ("listen-peer-urls", peer.into()),
        ("initial-advertise-peer-urls", peer.into()),
        ("initial-cluster", format!("lab={peer}")),
        ("log-level", "warn".into()),
        // The data lies in memory and ends with the bed.
        ("unsafe-no-fsync", "true".into()),
    ]);
    cluster.start(1, "etcd", "etcd", &flags)
}

/// `--name=value` for each.
pub(super) fn flags(pairs: &[(&str, String)]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// A kubeconfig with everything in it, so that it can be used from anywhere on the LAN.
fn kubeconfig(layout: &Layout, address: IpAddr, ca: &str, user: &str, leaf: &Leaf) -> String {
    use base64::prelude::{BASE64_STANDARD, Engine};
    let encode = |text: &str| BASE64_STANDARD.encode(text);
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": layout.name, "cluster": {
            "server": format!("https://{address}:{PORT}"),
            "certificate-authority-data": encode(ca),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate-data": encode(&leaf.certificate),
            "client-key-data": encode(&leaf.key),
        }}],
        "contexts": [{"name": layout.name, "context": {"cluster": layout.name, "user": user}}],
        "current-context": layout.name,
    })
    .to_string()
}

/// The path of a user's kubeconfig as programs in the bed see it.
pub(super) fn kubeconfig_path(cluster: &Cluster, user: &str) -> PathBuf {
    cluster.data().join(format!("{user}.kubeconfig"))
}
