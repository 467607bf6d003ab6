//! Variables by which a container names devices of its node, whether it asked for them or not: with
//! NVIDIA's runtime `NVIDIA_VISIBLE_DEVICES=all` shows it each GPU of the node, and images for CUDA
//! have that built in. A kubelet puts a pod's own variables after those of the device plugin, so that
//! a pod could name others than it was given.

use serde_json::{Value, json};

use super::GuestContext;
use super::check::Check;
use super::refs::each;
use super::rule::refusal;
use crate::message::Refusal;
use crate::placement::asked;

/// Variables that name devices, and that a runtime of containers reads.
const NAMES: [&str; 5] = [
    VISIBLE,
    "NVIDIA_MIG_CONFIG_DEVICES",
    "NVIDIA_MIG_MONITOR_DEVICES",
    "NVIDIA_IMEX_CHANNELS",
    "AMD_VISIBLE_DEVICES",
];

/// Which of NVIDIA's devices a container sees.
const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";
/// Values that name none of the devices.
const NONE: [&str; 2] = ["void", "none"];

const HELP: &str = "names devices of the node: a container has those that it asks for by its \
                    resources; leave it out, or say void";

/// A prefix of names that could make none of these of a key.
pub(super) static NO_PREFIX: Check = Check {
    allows: |value| {
        let prefix = value.as_str().unwrap_or_default();
        prefix.is_empty() || !NAMES.iter().any(|name| name.starts_with(prefix))
    },
    allowed: "where no name of a variable for devices begins so",
    reason: "with it a key could name devices of the node",
};

/// An object's keys, of which a container could make variables.
pub(super) static NO_KEYS: Check = Check {
    allows: |value| !NAMES.iter().any(|name| value.get(*name).is_some()),
    allowed: "with keys that are no names of variables for devices",
    reason: "has a key that would name devices of the node as a variable",
};

/// Looks through the containers of a pod: whoever asks for devices sees those, and whoever does not
/// sees none.
///
/// # Errors
/// The variable that names others.
pub(super) fn bind(spec: &mut Value, ctx: &GuestContext) -> Result<(), Refusal> {
    for list in ["containers", "initContainers"] {
        for (n, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            check(container, &format!("spec.{list}[{n}]."))?;
        }
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, list, &mut |container| hide(container, ctx));
    }
    Ok(())
}

/// Looks through the variables of one container, whose fields are below `path`.
///
/// # Errors
/// The variable that names devices.
pub(super) fn check(container: &Value, path: &str) -> Result<(), Refusal> {
    let asks = asks(container);
    for (n, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
        let is_one = variable["name"].as_str().is_some_and(|name| NAMES.contains(&name));
        // All that it has been given: what it sees without the word as well.
        let is_all = asks && variable["name"] == VISIBLE && variable["value"] == "all";
        let names_none = variable["value"].as_str().is_some_and(|value| NONE.contains(&value));
        if is_one && !is_all && !names_none {
            return Err(refusal(&format!("{path}env[{n}].name"), HELP));
        }
    }
    Ok(())
}

fn hide(container: &mut Value, ctx: &GuestContext) {
    let asks = asks(container);
    let is_all = |variable: &Value| variable["name"] == VISIBLE && variable["value"] == "all";
    if let Some(env) = container["env"].as_array_mut() {
        env.retain(|variable| !is_all(variable));
    }
    let said = container["env"].as_array().into_iter().flatten();
    let is_said = said.into_iter().any(|variable| variable["name"] == VISIBLE);
    if asks || is_said || !ctx.binding.hides_devices {
        return;
    }
    let none = json!({ "name": VISIBLE, "value": "void" });
    match container["env"].as_array_mut() {
        Some(env) => env.push(none),
        None => container["env"] = json!([none]),
    }
}

/// Whether the container asks for devices of NVIDIA's: what it asks for is what is counted, and sold.
fn asks(container: &Value) -> bool {
    asked(container).iter().any(|(name, amount)| name.starts_with("nvidia.com/") && *amount > 0)
}
