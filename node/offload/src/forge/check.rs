//! Values that cross only within bounds: those of the pod-security level `baseline`
//! (kubernetes.io/docs/concepts/security/pod-security-standards).

use serde_json::Value;

use super::labels::CLAIM_NAME;

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

/// What a value must be for its field to cross.
#[derive(Debug)]
pub(super) struct Check {
    /// Whether a value is what it must be.
    pub(super) allows: fn(&Value) -> bool,
    /// What is allowed, in words that follow "passes".
    pub(super) allowed: &'static str,
    /// Why anything else is not: it follows the field's path.
    pub(super) reason: &'static str,
}

impl Check {
    /// # Errors
    /// Why it does not cross.
    pub(super) fn look(&self, value: &Value) -> Result<(), &'static str> {
        if (self.allows)(value) { Ok(()) } else { Err(self.reason) }
    }
}

/// What opens the node to the pod.
pub(super) static NOTHING_OF_THE_NODE: Check = Check {
    allows: |value| value.is_null() || value == false,
    allowed: "where it is not set",
    reason: HOST,
};

/// Seccomp and AppArmor: the runtime's own profile only.
pub(super) static PROFILE: Check = Check {
    allows: |value| value.is_null() || only(value, &["type"]) && value["type"] == "RuntimeDefault",
    allowed: "with the type `RuntimeDefault`",
    reason: "must be RuntimeDefault",
};

pub(super) static ADDED_CAPABILITIES: Check = Check {
    allows: capabilities,
    allowed: "with any `drop`, and an `add` of those that `baseline` has",
    reason: "adds what is not in `baseline`",
};

pub(super) static PROC_MOUNT: Check = Check {
    allows: |value| value.is_null() || value == "Default",
    allowed: "as `Default`",
    reason: "must be Default",
};

pub(super) static PROPAGATION: Check = Check {
    allows: |value| value.is_null() || ["None", "HostToContainer"].iter().any(|mode| value == mode),
    allowed: "as `None` or `HostToContainer`",
    reason: "would mount on the provider's node",
};

pub(super) static SE_LINUX: Check = Check {
    allows: se_linux,
    allowed: "with a `level`, and a `type` of containers",
    reason: "is not in `baseline`",
};

pub(super) static SAFE_SYSCTLS: Check = Check {
    allows: sysctls,
    allowed: "with those that hold for the pod alone",
    reason: "are not all in `baseline`",
};

pub(super) static SECRET_TYPE: Check = Check {
    allows: secret_type,
    allowed: "as any but those of `kubernetes.io` that are credentials of the cluster",
    reason: "is a credential of the home cluster itself",
};

/// Which address a Service has is its cluster's to say, but for none at all.
pub(super) static NO_CLUSTER_IP: Check = Check {
    allows: |value| value.is_null() || value == "None",
    allowed: "as `None`",
    reason: "is another cluster's address",
};

pub(super) static PROTOCOL: Check = Check {
    allows: |value| value.is_null() || value == "TCP" || value == "UDP",
    allowed: "as `TCP` or `UDP`",
    reason: "passes through no tunnel",
};

pub(super) static ADDRESS_TYPE: Check =
    Check { allows: |value| value == "IPv4", allowed: "as `IPv4`", reason: "is not IPv4" };

/// One that was made for a claim of home's, by its uid.
pub(super) static OWN_CLAIM: Check = Check {
    allows: |value| value.as_str().is_some_and(is_own_claim),
    allowed: "as the name that a claim of the class `mercato` has there",
    reason: "is storage of this cluster: order storage, and make the claim with storageClassName: mercato",
};

/// A virtual node is one place: several of its pods share a volume on one of the provider's nodes.
pub(super) static ONE_NODE: Check = Check {
    allows: one_node,
    allowed: "as `ReadWriteOnce` or `ReadWriteOncePod`",
    reason: "asks for a volume of several nodes: ask for ReadWriteOnce",
};

pub(super) static FILES: Check = Check {
    allows: |value| value.is_null() || value == "Filesystem",
    allowed: "as `Filesystem`",
    reason: "asks for a raw device: ask for Filesystem",
};

fn is_own_claim(name: &str) -> bool {
    let of_uid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let uid =
        name.strip_prefix(CLAIM_NAME).filter(|uid| !uid.starts_with('-') && !uid.ends_with('-'));
    uid.is_some_and(|uid| (1..=63).contains(&uid.len()) && uid.bytes().all(of_uid))
}

fn one_node(value: &Value) -> bool {
    let modes = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_of_one = |mode: &Value| mode == "ReadWriteOnce" || mode == "ReadWriteOncePod";
    !modes.is_empty() && modes.iter().all(is_of_one)
}

fn capabilities(value: &Value) -> bool {
    let added = value["add"].as_array().map(Vec::as_slice).unwrap_or_default();
    let plain = |name: &Value| name.as_str().is_some_and(|name| CAPABILITIES.contains(&name));
    let known = value.is_null() || only(value, &["add", "drop"]) && strings(&value["drop"]);
    known && list_or_none(&value["add"]) && added.iter().all(plain)
}

fn se_linux(value: &Value) -> bool {
    let text = |name: &str| value[name].is_null() || value[name].is_string();
    let plain = only(value, &["level", "type"]) && text("level") && text("type");
    let known = SE_LINUX_TYPES.contains(&value["type"].as_str().unwrap_or_default());
    value.is_null() || plain && known
}

fn sysctls(value: &Value) -> bool {
    let safe = |sysctl: &Value| {
        only(sysctl, &["name", "value"])
            && sysctl["name"].as_str().is_some_and(|name| SYSCTLS.contains(&name))
            && sysctl["value"].is_string()
    };
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list_or_none(value) && list.iter().all(safe)
}

fn secret_type(value: &Value) -> bool {
    let name = value.as_str().unwrap_or_default();
    let own = !name.split('/').next().unwrap_or_default().ends_with("kubernetes.io");
    SECRET_TYPES.contains(&name) || own
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
