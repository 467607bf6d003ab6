//! The first message each way on a kubelet stream: what home asks of the provider's
//! daemon, which checks it against the contract, and the answer. After `Accepted` follow
//! the bytes of the stream, untouched, or a [`Usage`], or [`NodeFacts`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Message, at_most, ensure, wire_enum, wire_map, wire_union};
use crate::id::ContractId;
use crate::limits;
use crate::text::{Blob, GpuModel};
use crate::workload::Uid;

/// The first message: what home asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ask {
    /// A stream into a guest.
    Open(Request),
    /// What the guests use: after `Accepted` follows one [`Usage`].
    Usage {
        /// The lease that is meant, by its contract.
        contract: ContractId,
        /// Those of the pods after this one, by uid; none: from the first.
        after: Option<Uid>,
    },
    /// What the nodes are like on which guests run: after `Accepted` follow [`NodeFacts`].
    Node {
        /// The lease that is meant, by its contract.
        contract: ContractId,
    },
}

/// Home asks to open a stream into a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The lease that the pod is of, by its contract.
    pub contract: ContractId,
    /// The namespace that the pod has at home.
    pub namespace: String,
    /// The name that the pod has at home.
    pub pod: String,
    /// The uid that the pod has at home.
    pub uid: Uid,
    /// What is asked of the pod.
    pub what: What,
    /// How the client wants to upgrade; none for a plain answer (logs).
    pub upgrade: Option<Upgrade>,
}

/// What a stream is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    /// Sends logs, as the kubelet's `containerLogs` does.
    Logs(Logs),
    /// Runs a command, as the kubelet's `exec` does.
    Exec(Exec),
    /// Attaches to a container, as the kubelet's `attach` does.
    Attach(Attach),
    /// Connects to ports, as the kubelet's `portForward` does.
    PortForward {
        /// The ports of the pod to connect to.
        ports: Vec<u32>,
    },
}

/// The parameters of the kubelet's `containerLogs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Logs {
    /// The name of the container whose logs are sent.
    pub container: String,
    /// Whether to wait for more, and send it.
    pub follow: bool,
    /// Those of the container's previous life.
    pub previous: bool,
    /// Each line with its time.
    pub timestamps: bool,
    /// Sends only what was logged in the last seconds, so many.
    pub since_s: Option<u64>,
    /// Only since then, RFC 3339.
    pub since_time: Option<String>,
    /// Sends only the last lines, so many.
    pub tail_lines: Option<u64>,
    /// At most so many bytes.
    pub limit_bytes: Option<u64>,
}

/// The parameters of the kubelet's `exec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exec {
    /// Words of the command: bytes, since a script is longer than a text may be, and its
    /// own affair.
    pub command: Vec<Blob>,
    /// Where, and which standard streams.
    pub attach: Attach,
}

/// The parameters of the kubelet's `attach`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Attach {
    /// The name of the container to attach to.
    pub container: String,
    /// Whether standard input is sent there.
    pub stdin: bool,
    /// Whether standard output is sent back.
    pub stdout: bool,
    /// Whether standard error is sent back.
    pub stderr: bool,
    /// Whether the container gets a terminal.
    pub tty: bool,
}

/// How a client wants to upgrade its connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// The protocol that the connection changes to.
    pub transport: Transport,
    /// Sub-protocols that it speaks, the preferred one first (`v5.channel.k8s.io`).
    pub protocols: Vec<String>,
}

/// What a connection is upgraded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Transport {
    /// SPDY/3.1, as older clients speak it.
    Spdy,
    /// WebSocket, as newer clients speak it.
    WebSocket,
}

/// What the provider answers to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    /// From here on the bytes pass.
    Accepted {
        /// The sub-protocol that was agreed, if an upgrade was asked for and named any.
        protocol: Option<String>,
    },
    /// The stream is not opened, for a reason.
    Refused {
        /// The kind of the reason.
        reason: RefusedReason,
        /// The same for a person.
        text: String,
    },
}

/// Why a stream is not opened: a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusedReason {
    /// No such guest under this contract.
    NotFound,
    /// The contract does not allow it.
    Forbidden,
    /// The request makes no sense: no such container, not running, bad parameters.
    BadRequest,
    /// The provider's own cluster has failed to answer.
    Unavailable,
    /// The provider's cluster has no such thing.
    NotServed,
}

/// What guests use, a page of it: pods by ascending uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Guests of the lease, at most [`limits::USAGE_PODS`].
    pub pods: Vec<PodUsage>,
    /// There are others after the last of these.
    pub more: bool,
}

/// What one guest uses now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUsage {
    /// The pod's uid at home.
    pub uid: Uid,
    /// When it was measured, by the provider's clock, in ms since 1970.
    pub at_ms: u64,
    /// What each container that runs uses.
    pub containers: Vec<ContainerUsage>,
}

/// What one container of a guest uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerUsage {
    /// The name of the container, as at home.
    pub name: String,
    /// Processor time so far, in core-nanoseconds; starts anew when it falls.
    pub cpu_nanos: u64,
    /// Processors in use, in billionths of a core.
    pub cpu_nano_cores: u64,
    /// The working set, in bytes.
    pub memory_bytes: u64,
}

/// What the nodes of a lease's pool are like now, for home's virtual node. What was bought is the
/// contract's alone: nothing here is an amount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// By model of GPU, the resource that pods ask for: `nvidia.com/mig-1g.10gb`. A model that was
    /// bought and is not here is on no node now. At most [`limits::NODE_RESOURCES`].
    pub resources: BTreeMap<GpuModel, String>,
    /// Labels of the devices as they are discovered, alike on all nodes. At most
    /// [`limits::NODE_LABELS`].
    pub labels: BTreeMap<String, String>,
    /// Where all nodes are; none: in several regions, or it is not said.
    pub region: Option<String>,
    /// The same for the zone.
    pub zone: Option<String>,
}

impl Ask {
    /// The lease that it is about.
    pub fn contract(&self) -> ContractId {
        match self {
            Self::Open(request) => request.contract,
            Self::Usage { contract, .. } | Self::Node { contract } => *contract,
        }
    }

    /// Whether it has a command that `/mercato/kubelet/1` does not carry, for its words or their
    /// bytes: it goes by `/mercato/kubelet/2`, which earlier releases do not speak.
    pub fn is_long(&self) -> bool {
        let Self::Open(Request { what: What::Exec(exec), .. }) = self else { return false };
        exec.command.len() > limits::SHORT_COMMAND_WORDS
            || exec.bytes() > limits::SHORT_COMMAND_BYTES
    }
}

impl Exec {
    /// The bytes of all its words together.
    pub fn bytes(&self) -> usize {
        self.command.iter().map(|word| word.0.len()).sum()
    }
}

impl Message for Ask {
    const MAX_BYTES: usize = limits::LONG_STREAM_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        match self {
            Self::Open(request) => request.validate(),
            Self::Usage { .. } | Self::Node { .. } => Ok(()),
        }
    }
}

impl Message for NodeFacts {
    const MAX_BYTES: usize = limits::NODE_FACTS_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        at_most("resources of a node", self.resources.len(), limits::NODE_RESOURCES)?;
        at_most("labels of a node", self.labels.len(), limits::NODE_LABELS)?;
        ensure(self.resources.values().all(|name| is_device(name)), "no resource of a device")?;
        let all = self.labels.iter();
        let places = [&self.region, &self.zone].into_iter().flatten();
        ensure(self.labels.keys().all(|key| is_key(key)), "no key of a label")?;
        let mut values = all.map(|(_, value)| value).chain(places);
        ensure(values.all(|value| is_label_value(value)), "no value of a label")
    }
}

/// Whether a name is that of a resource which a driver of devices has added: it has a domain, and
/// not Kubernetes' own, whose resources are no devices.
fn is_device(name: &str) -> bool {
    let domain = name.split_once('/').map(|(domain, _)| domain);
    let is_own = |it: &str| it == "kubernetes.io" || it.ends_with(".kubernetes.io");
    is_key(name) && domain.is_some_and(|domain| !is_own(domain))
}

/// Whether a text is the key of a label, as Kubernetes has them, and not longer than
/// [`limits::NODE_KEY_BYTES`].
pub fn is_key(key: &str) -> bool {
    let name = match key.split_once('/') {
        Some((domain, name)) => {
            let is_word = |word: &str| is_word(word) && !word.contains(['_', '.']);
            Some(name).filter(|_| domain.split('.').all(is_word))
        }
        None => Some(key),
    };
    let is_name = |name: &str| is_word(name) && name.len() <= limits::LABEL_BYTES;
    key.len() <= limits::NODE_KEY_BYTES && name.is_some_and(is_name)
}

/// Whether a text is the value of a label, as Kubernetes has them: 63 bytes at most, or none.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_word(value) && value.len() <= limits::LABEL_BYTES
}

/// Letters, digits, and between them dashes, dots and underlines.
fn is_word(text: &str) -> bool {
    let (first, last) = (text.bytes().next(), text.bytes().last());
    let ends =
        [first, last].into_iter().all(|end| end.is_some_and(|it| it.is_ascii_alphanumeric()));
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    ends && text.bytes().all(inner)
}

impl Message for Usage {
    const MAX_BYTES: usize = limits::USAGE_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        at_most("pods of a page", self.pods.len(), limits::USAGE_PODS)?;
        ensure(self.pods.is_sorted_by(|a, b| a.uid < b.uid), "pods out of order")?;
        ensure(!self.more || !self.pods.is_empty(), "more than nothing")
    }
}

impl Request {
    fn validate(&self) -> Result<(), CodecError> {
        let offered = self.upgrade.as_ref().map(|upgrade| upgrade.protocols.as_slice());
        let offered = offered.unwrap_or_default();
        at_most("sub-protocols", offered.len(), limits::SUB_PROTOCOLS)?;
        let longest = offered.iter().map(String::len).max();
        at_most("bytes of a sub-protocol", longest.unwrap_or(0), limits::LABEL_BYTES)?;
        match &self.what {
            What::Exec(exec) => {
                at_most("words of a command", exec.command.len(), limits::COMMAND_WORDS)?;
                at_most("bytes of a command", exec.bytes(), limits::COMMAND_BYTES)?;
                ensure(!exec.command.is_empty(), "no command")
            }
            What::PortForward { ports } => {
                at_most("ports", ports.len(), limits::PORTS)?;
                let valid = |port: &u32| (1..=65_535).contains(port);
                ensure(ports.iter().all(valid), "no such port")
            }
            What::Logs(_) | What::Attach(_) => Ok(()),
        }
    }
}

impl Message for Reply {
    const MAX_BYTES: usize = limits::STREAM_BYTES;
}

wire_union!(Ask {
    0 => Open(request),
    1 => Usage { 1 => contract, 2 => after },
    2 => Node { 1 => contract },
});
wire_map!(NodeFacts { 1 => resources, 2 => labels, 3 => region, 4 => zone });
wire_map!(Usage { 1 => pods, 2 => more });
wire_map!(PodUsage { 1 => uid, 2 => at_ms, 3 => containers });
wire_map!(ContainerUsage {
    1 => name,
    2 => cpu_nanos,
    3 => cpu_nano_cores,
    4 => memory_bytes,
});
wire_map!(Request {
    1 => contract,
    2 => namespace,
    3 => pod,
    4 => uid,
    5 => what,
    6 => upgrade,
});
wire_union!(What {
    0 => Logs(logs),
    1 => Exec(exec),
    2 => Attach(attach),
    3 => PortForward { 1 => ports },
});
wire_map!(Logs {
    1 => container,
    2 => follow,
    3 => previous,
    4 => timestamps,
    5 => since_s,
    6 => since_time,
    7 => tail_lines,
    8 => limit_bytes,
});
wire_map!(Exec { 1 => command, 2 => attach });
wire_map!(Attach { 1 => container, 2 => stdin, 3 => stdout, 4 => stderr, 5 => tty });
wire_map!(Upgrade { 1 => transport, 2 => protocols });
wire_enum!(Transport { 0 => Spdy, 1 => WebSocket });
wire_union!(Reply { 0 => Accepted { 1 => protocol }, 1 => Refused { 1 => reason, 2 => text } });
wire_enum!(RefusedReason {
    0 => NotFound,
    1 => Forbidden,
    2 => BadRequest,
    3 => Unavailable,
    4 => NotServed,
});
