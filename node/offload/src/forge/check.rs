//! Values that cross only within bounds: those of the pod-security level `baseline`
//! (kubernetes.io/docs/concepts/security/pod-security-standards).

use serde_json::Value;

pub(super) const HOST: &str = "would reach into the provider's node";

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

const SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];

const SE_LINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// Secrets of other `kubernetes.io` types are credentials of the home cluster itself.
const SECRET_TYPES: [&str; 6] = [
    "Opaque",
    "kubernetes.io/dockercfg",
    "kubernetes.io/dockerconfigjson",
    "kubernetes.io/basic-auth",
    "kubernetes.io/ssh-auth",
    "kubernetes.io/tls",
];

type Verdict = Result<(), &'static str>;

/// What opens the node to the pod.
pub(super) fn nothing_of_the_node(value: &Value) -> Verdict {
    agree(value.is_null() || value == false, HOST)
}

/// Seccomp and AppArmor: the runtime's own profile only.
pub(super) fn profile(value: &Value) -> Verdict {
    let known = only(value, &["type"]) && value["type"] == "RuntimeDefault";
    agree(value.is_null() || known, "must be RuntimeDefault")
}

pub(super) fn capabilities(value: &Value) -> Verdict {
    let added = value["add"].as_array().map(Vec::as_slice).unwrap_or_default();
    let plain = |name: &Value| name.as_str().is_some_and(|name| CAPABILITIES.contains(&name));
    let known = value.is_null() || only(value, &["add", "drop"]) && strings(&value["drop"]);
    agree(
        known && list_or_none(&value["add"]) && added.iter().all(plain),
        "adds what is not in `baseline`",
    )
}

pub(super) fn proc_mount(value: &Value) -> Verdict {
    agree(value.is_null() || value == "Default", "must be Default")
}

pub(super) fn propagation(value: &Value) -> Verdict {
    let one_way = ["None", "HostToContainer"].iter().any(|mode| value == mode);
    agree(value.is_null() || one_way, "would mount on the provider's node")
}

pub(super) fn se_linux(value: &Value) -> Verdict {
    let text = |name: &str| value[name].is_null() || value[name].is_string();
    let plain = only(value, &["level", "type"]) && text("level") && text("type");
    let known = SE_LINUX_TYPES.contains(&value["type"].as_str().unwrap_or_default());
    agree(value.is_null() || plain && known, "is not in `baseline`")
}

pub(super) fn sysctls(value: &Value) -> Verdict {
    let safe = |sysctl: &Value| {
        only(sysctl, &["name", "value"])
            && sysctl["name"].as_str().is_some_and(|name| SYSCTLS.contains(&name))
            && sysctl["value"].is_string()
    };
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    agree(list_or_none(value) && list.iter().all(safe), "are not all in `baseline`")
}

pub(super) fn secret_type(value: &Value) -> Verdict {
    let name = value.as_str().unwrap_or_default();
    let own = !name.split('/').next().unwrap_or_default().ends_with("kubernetes.io");
    agree(SECRET_TYPES.contains(&name) || own, "is a credential of the home cluster itself")
}

/// Which address a Service has is its cluster's to say, but for none at all.
pub(super) fn no_cluster_ip(value: &Value) -> Verdict {
    agree(value.is_null() || value == "None", "is another cluster's address")
}

pub(super) fn protocol(value: &Value) -> Verdict {
    agree(value.is_null() || value == "TCP" || value == "UDP", "passes through no tunnel")
}

pub(super) fn address_type(value: &Value) -> Verdict {
    agree(value == "IPv4", "is not IPv4")
}

fn agree(good: bool, otherwise: &'static str) -> Verdict {
    if good { Ok(()) } else { Err(otherwise) }
}

fn only(value: &Value, names: &[&str]) -> bool {
    value.as_object().is_some_and(|map| map.keys().all(|name| names.contains(&name.as_str())))
}

fn list_or_none(value: &Value) -> bool {
    value.is_null() || value.is_array()
}

fn strings(value: &Value) -> bool {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list_or_none(value) && list.iter().all(Value::is_string)
}
