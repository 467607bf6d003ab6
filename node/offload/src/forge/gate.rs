//! The gate: the first container of a guest whose contract requires isolation. Nothing else of the
//! guest starts before the node has closed in its network. Here it is put into the pod, looked for
//! in the pod that was stored, and kept out of what home sees; what it asks is
//! `mercato_protocol::gate`'s, what it waits for is the node's.

use std::num::NonZeroU16;

use mercato_protocol::gate::{NODE_VARIABLE, POD_VARIABLE, PORT};
use mercato_protocol::quantity;
use serde_json::{Map, Value, json};

use super::labels::GATE;
use super::registry;
use super::rule::refusal;
use crate::message::Refusal;

/// Its container, in every guest that has one. No container of home's may be called so.
pub const CONTAINER: &str = "mercato-gate";

/// With what guests are held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The image of this program on the nodes; none: the owner has named none, and no guest is made.
    pub image: Option<String>,
    /// Where the process on each node answers, by TCP.
    pub port: NonZeroU16,
    /// Whether guest namespaces have a Secret by which nodes pull it.
    pub has_login: bool,
}

impl Default for Gate {
    fn default() -> Self {
        Self { image: None, port: PORT, has_login: false }
    }
}

impl Gate {
    /// Its image, if nodes have a login for that.
    pub(super) fn with_login(&self) -> Option<&str> {
        self.image.as_deref().filter(|_| self.has_login)
    }
}

/// Whether a guest pod is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It has no gate, and nothing waits.
    Ungated,
    /// Its gate has not ended well, or runs again in a new sandbox: nobody enters.
    Held,
    /// Its gate has ended well.
    Open,
}

/// How it is with a guest pod, as the API server has it.
pub fn passage(guest: &Value) -> Passage {
    let marked = !guest["metadata"]["annotations"][GATE].is_null();
    if !marked && named(&guest["spec"]["initContainers"]).is_none() {
        return Passage::Ungated;
    }
    let status = named(&guest["status"]["initContainerStatuses"]);
    match status.is_some_and(|status| status["state"]["terminated"]["exitCode"] == 0) {
        true => Passage::Open,
        false => Passage::Held,
    }
}

/// A forged pod without its gate: that of a pod which was made stays as it was, also where the owner
/// has named another image since.
pub fn without_gate(forged: &Value) -> Value {
    let mut forged = forged.clone();
    let annotations = forged.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    annotations.map(|annotations| annotations.remove(GATE));
    if let Some(list) = forged.pointer_mut("/spec/initContainers").and_then(Value::as_array_mut) {
        list.retain(|container| container["name"] != CONTAINER);
    }
    if let Some(list) = forged.pointer_mut("/spec/imagePullSecrets").and_then(Value::as_array_mut) {
        list.retain(|secret| secret["name"] != registry::SECRET);
    }
    forged
}

/// The message of a kubelet's event, without the gate where it is one of a list of containers; none: the
/// event is about the gate, and not about anything of home's.
pub fn event_message(field: &str, message: &str) -> Option<String> {
    if field == format!("spec.initContainers{{{CONTAINER}}}") {
        return None;
    }
    if !field.is_empty() || !names(message) {
        return Some(message.to_owned());
    }
    without_entry(message).filter(|message| !names(message))
}

/// Without its entry in the JSON of init containers, which may be cut off further on.
fn without_entry(message: &str) -> Option<String> {
    let begin = message.find(&format!("{{\"name\":\"{CONTAINER}\""))?;
    let mut depth = 0_u32;
    let end = message[begin..].char_indices().find_map(|(at, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then_some(begin + at + 1)
    })?;
    let (before, after) = (&message[..begin], &message[end..]);
    let alone = before.strip_suffix("\"initContainers\":[").zip(after.strip_prefix("],"));
    Some(match alone {
        Some((before, after)) => format!("{before}{after}"),
        None => format!("{before}{}", after.strip_prefix(',').unwrap_or(after)),
    })
}

/// Puts it before all other containers; what is to be written on the pod for [`misplaced`].
///
/// # Errors
/// The owner has named no image.
pub(super) fn put_first(spec: &mut Value, gate: &Gate) -> Result<String, Refusal> {
    let Some(image) = &gate.image else {
        return Err(refusal(
            "",
            "the contract requires isolation, and the provider's owner has set no image for it: \
             gateway.nodes.image in the provider's configuration",
        ));
    };
    let args = json!(["gate", "--port", gate.port.to_string()]);
    let env = [(POD_VARIABLE, "metadata.uid"), (NODE_VARIABLE, "status.hostIP")];
    let env = env.map(
        |(name, path)| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } }),
    );
    let container = json!({
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": args,
        "env": env,
        "resources": resources(spec),
        // As the pod-security level `restricted` has it, whatever the guest's is.
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": NOBODY, "runAsGroup": NOBODY,
            "privileged": false, "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
            "seccompProfile": { "type": "RuntimeDefault" },
        },
    });
    if gate.has_login {
        registry::put_first(spec);
    }
    match spec["initContainers"].as_array_mut() {
        Some(list) => list.insert(0, container),
        None => spec["initContainers"] = json!([container]),
    }
    Ok(json!({ "image": image, "args": args }).to_string())
}

/// That a container is not called as the gate is; `path` stands before the name of the field.
///
/// # Errors
/// It is.
pub(super) fn check_name(container: &Value, path: &str) -> Result<(), Refusal> {
    if container["name"] != CONTAINER {
        return Ok(());
    }
    let reason = "is a container of the provider's own: name it otherwise";
    Err(refusal(&format!("{path}name"), reason))
}

/// Why the gate of a stored pod that must have one does not hold it back: a webhook of the
/// provider's may have put its own container before it, or changed it. It was made with what `made`
/// says, as the mark of the gate does.
pub(super) fn misplaced(guest: &Value, made: Option<&str>) -> Option<Refusal> {
    let path = "spec.initContainers[0]";
    let first = &guest["spec"]["initContainers"][0];
    let wrong = |path: &str, what: &str| Some(refusal(path, format!("{what}: {ASK_PROVIDER}")));
    if first["name"] != CONTAINER {
        return wrong(path, "is not the container that holds the pod back until it is isolated");
    }
    let made: Value = made.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let as_made = |field: &str| !made[field].is_null() && first[field] == made[field];
    // One that is restarted for ever, a sidecar, holds nobody back.
    let unset = ["command", "restartPolicy"].into_iter().find(|field| !first[*field].is_null());
    let changed = ["image", "args"].into_iter().find(|field| !as_made(field)).or(unset);
    changed.and_then(|field| wrong(&format!("{path}.{field}"), "is not what it was made with"))
}

/// Takes it out of a status that home is to see.
pub(super) fn hide(status: &mut Map<String, Value>, guest: &Value) {
    if passage(guest) == Passage::Ungated {
        return;
    }
    if let Some(list) = status.get_mut("initContainerStatuses").and_then(Value::as_array_mut) {
        list.retain(|one| one["name"] != CONTAINER);
        if list.is_empty() {
            status.remove("initContainerStatuses");
        }
    }
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    let conditions = conditions.into_iter().flatten();
    conditions.filter_map(|condition| condition.get_mut("message")).for_each(hide_in);
    status.get_mut("message").into_iter().for_each(hide_in);
    // As a kubelet has it of a pod without init containers.
    let others = guest["spec"]["initContainers"].as_array().map_or(0, Vec::len) > 1;
    let statuses = status.get_mut("containerStatuses").and_then(Value::as_array_mut);
    for one in statuses.into_iter().flatten().filter(|_| !others) {
        if one["state"]["waiting"]["reason"] == "PodInitializing" {
            one["state"]["waiting"]["reason"] = json!("ContainerCreating");
        }
    }
}

/// Of a list of containers it is left out; where it stands alone, it is said what is waited for.
fn hide_in(message: &mut Value) {
    let Some(text) = message.as_str().filter(|text| names(text)) else { return };
    let list = text.split_once('[').and_then(|(what, list)| Some((what, list.strip_suffix(']')?)));
    let hidden = match list {
        Some((what, list)) if list.split(' ').any(|name| name == CONTAINER) => {
            let others: Vec<_> = list.split(' ').filter(|name| *name != CONTAINER).collect();
            let some = (!others.is_empty()).then(|| format!("{what}[{}]", others.join(" ")));
            some.unwrap_or_else(|| NOT_CONFIRMED.to_owned())
        }
        Some(_) | None => text.replace(CONTAINER, "of the provider's own"),
    };
    *message = json!(hidden);
}

/// Whether it is named, and not only something that begins or ends as its name does.
fn names(text: &str) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    text.split(|c: char| !of_name(c)).any(|word| word == CONTAINER)
}

fn named(list: &Value) -> Option<&Value> {
    list.as_array()?.iter().find(|one| one["name"] == CONTAINER)
}

/// So little that the pod as a whole asks for no more than its containers do: they run when the gate
/// has ended. A pod whose containers have all their limits, and as much as that for sure, would lose
/// the class `Guaranteed` by a container without.
fn resources(spec: &Value) -> Value {
    let lists = ["containers", "initContainers"].map(|list| spec[list].as_array());
    let mut all = lists.into_iter().flatten().flatten();
    let has_all = |container: &Value| {
        let [requests, limits] = ["requests", "limits"].map(|sort| &container["resources"][sort]);
        SIZES.iter().all(|size| {
            let limit = size.read(&limits[size.resource]);
            limit.is_some() && limit == size.read(&requests[size.resource])
        })
    };
    let guaranteed = all.all(has_all);
    let mut asks = json!({});
    for size in &SIZES {
        let containers = spec["containers"].as_array().into_iter().flatten();
        let each = containers.map(|one| &one["resources"]["requests"][size.resource]);
        let sum = each.map(|amount| size.read(amount).unwrap_or(0)).fold(0, u64::saturating_add);
        let most = if guaranteed { size.guaranteed } else { size.usual };
        asks[size.resource] = json!((size.write)(sum.min(most)));
    }
    if guaranteed {
        json!({ "requests": asks, "limits": asks })
    } else {
        json!({ "requests": asks })
    }
}

/// What it asks for of a resource, at most.
struct Size {
    resource: &'static str,
    read: fn(&str) -> Option<u64>,
    write: fn(u64) -> String,
    usual: u64,
    /// With a limit: a guess, as much as it takes to start without being slowed down.
    guaranteed: u64,
}

impl Size {
    fn read(&self, amount: &Value) -> Option<u64> {
        let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        (self.read)(&text)
    }
}

const SIZES: [Size; 2] = [
    Size {
        resource: "cpu",
        read: quantity::millis,
        write: quantity::from_millis,
        usual: 10,
        guaranteed: 100,
    },
    Size {
        resource: "memory",
        read: quantity::units,
        write: plain,
        usual: 16 << 20,
        guaranteed: 64 << 20,
    },
];

fn plain(units: u64) -> String {
    units.to_string()
}

/// The user that images without users of their own use, by convention.
const NOBODY: u32 = 65_532;

const ASK_PROVIDER: &str = "the provider has to let pods of the contract keep it as it is";

/// What a pod of home's waits for while the gate runs.
const NOT_CONFIRMED: &str = "the provider has not confirmed that the pod is isolated yet";
