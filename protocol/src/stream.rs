//! The first message each way on a kubelet stream: a typed request, checked by the
//! provider's daemon against the contract, and its answer. After `Accepted` the bytes
//! pass untouched.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Message, at_most, ensure, wire_enum, wire_map, wire_union};
use crate::id::ContractId;
use crate::limits;
use crate::workload::Uid;

/// Home asks to open a stream into a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Which lease.
    pub contract: ContractId,
    /// The home pod's namespace.
    pub namespace: String,
    /// The home pod's name.
    pub pod: String,
    /// The home pod's uid.
    pub uid: Uid,
    /// What for.
    pub what: What,
    /// How the client wants to upgrade; none for a plain answer (logs).
    pub upgrade: Option<Upgrade>,
}

/// What a stream is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    /// `containerLogs`.
    Logs(Logs),
    /// `exec`.
    Exec(Exec),
    /// `attach`.
    Attach(Attach),
    /// `portForward`.
    PortForward {
        /// Ports of the pod.
        ports: Vec<u32>,
    },
}

/// The parameters of `containerLogs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Logs {
    /// Which container.
    pub container: String,
    /// Wait for more.
    pub follow: bool,
    /// Those of the container's previous life.
    pub previous: bool,
    /// Each line with its time.
    pub timestamps: bool,
    /// Only the last seconds.
    pub since_s: Option<u64>,
    /// Only since then, RFC 3339.
    pub since_time: Option<String>,
    /// Only the last lines.
    pub tail_lines: Option<u64>,
    /// At most so many bytes.
    pub limit_bytes: Option<u64>,
}

/// The parameters of `exec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exec {
    /// Words of the command.
    pub command: Vec<String>,
    /// Where, and which standard streams.
    pub attach: Attach,
}

/// The parameters of `attach`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Attach {
    /// Which container.
    pub container: String,
    /// Send standard input.
    pub stdin: bool,
    /// Receive standard output.
    pub stdout: bool,
    /// Receive standard error.
    pub stderr: bool,
    /// With a terminal.
    pub tty: bool,
}

/// How a client wants to upgrade its connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// To what.
    pub transport: Transport,
    /// Sub-protocols that it speaks, the preferred one first (`v5.channel.k8s.io`).
    pub protocols: Vec<String>,
}

/// What a connection is upgraded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Transport {
    /// SPDY/3.1.
    Spdy,
    /// WebSocket.
    WebSocket,
}

/// The provider's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    /// From here on the bytes pass.
    Accepted {
        /// The HTTP status that the API server gave: 101, or 200 without an upgrade.
        status: u32,
        /// The sub-protocol that was agreed.
        protocol: Option<String>,
    },
    /// It is not opened.
    Refused {
        /// Why.
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
    /// The provider's cluster failed.
    Unavailable,
}

impl Message for Request {
    const MAX_BYTES: usize = limits::STREAM_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        match &self.what {
            What::Exec(exec) => {
                at_most("words of a command", exec.command.len(), limits::COMMAND_WORDS)?;
                ensure(!exec.command.is_empty(), "no command")
            }
            What::PortForward { ports } => {
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
wire_union!(Reply { 0 => Accepted { 1 => status, 2 => protocol }, 1 => Refused { 1 => reason, 2 => text } });
wire_enum!(RefusedReason { 0 => NotFound, 1 => Forbidden, 2 => BadRequest, 3 => Unavailable });
