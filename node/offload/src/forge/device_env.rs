//! Variables by which a container names devices of its node, whether it asked for them or not: with
//! NVIDIA's runtime `NVIDIA_VISIBLE_DEVICES=all` shows it each GPU of the node, and images for CUDA
//! have that built in. A kubelet puts a pod's own variables after those of the device plugin, so that
//! a pod could name others than it was given.

use serde_json::{Value, json};

use super::check::Check;
use super::refs::each;
use super::rule::refusal;
use crate::message::Refusal;
use crate::placement::{Amounts, asked};

/// A variable that names devices, and that a runtime of containers reads.
struct Variable {
    name: &'static str,
    /// How resources of the vendor whose devices it names begin.
    vendor: &'static str,
    /// The value that names none of them. An empty one is as none at all; of those for MIG any other is
    /// an error to NVIDIA's runtime.
    none: &'static str,
}

const fn of_nvidia(name: &'static str, none: &'static str) -> Variable {
    Variable { name, vendor: "nvidia.com/", none }
}

const VARIABLES: [Variable; 6] = [
    of_nvidia("NVIDIA_VISIBLE_DEVICES", "void"),
    of_nvidia("NVIDIA_MIG_CONFIG_DEVICES", ""),
    of_nvidia("NVIDIA_MIG_MONITOR_DEVICES", ""),
    of_nvidia("NVIDIA_IMEX_CHANNELS", ""),
    Variable { name: "AMD_VISIBLE_DEVICES", vendor: "amd.com/", none: "" },
    Variable { name: "HABANA_VISIBLE_DEVICES", vendor: "habana.ai/", none: "" },
];

/// Values that name none of the devices.
const NONE: [&str; 3] = ["void", "none", ""];

const HELP: &str = "names devices of the node: a container has those that it asks for by its \
                    resources; leave it out, or say void";

/// A prefix of names that could make none of these of a key.
pub(super) static NO_PREFIX: Check = Check {
    allows: |value| {
        let prefix = value.as_str().unwrap_or_default();
        prefix.is_empty() || !VARIABLES.iter().any(|variable| variable.name.starts_with(prefix))
    },
    allowed: "where no name of a variable for devices begins so",
    reason: "with it a key could name devices of the node",
};

/// An object's keys, of which a container could make variables.
pub(super) static NO_KEYS: Check = Check {
    allows: |value| !VARIABLES.iter().any(|variable| value.get(variable.name).is_some()),
    allowed: "with keys that are no names of variables for devices",
    reason: "has a key that would name devices of the node as a variable",
};

/// Looks through the containers of a pod: whoever asks for devices sees those, and whoever does not
/// sees none, whatever its image names, and whether its node has any today or not.
///
/// # Errors
/// The variable that names others.
pub(super) fn bind(spec: &mut Value) -> Result<(), Refusal> {
    for list in ["containers", "initContainers"] {
        for (n, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            check(container, &format!("spec.{list}[{n}]."))?;
        }
    }
    for list in ["containers", "initContainers"] {
        each(spec, list, &mut |container| {
            let asked = asked(container);
            hide(container, &asked);
        });
    }
    // A container of `kubectl debug` has no resources, whatever it says.
    each(spec, "ephemeralContainers", &mut |container| hide(container, &Amounts::new()));
    Ok(())
}

/// Looks through the variables of one container, whose fields are below `path`.
///
/// # Errors
/// The variable that names devices.
pub(super) fn check(container: &Value, path: &str) -> Result<(), Refusal> {
    let asked = asked(container);
    for (n, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
        let Some(known) = VARIABLES.iter().find(|known| variable["name"] == known.name) else {
            continue;
        };
        // All that it has been given: what it sees without the word as well.
        let is_all = known.is_for(&asked) && is_all(variable);
        let value = variable["value"].as_str();
        let is_none = value.is_some_and(|value| NONE.contains(&value));
        if !is_all && !is_none {
            return Err(refusal(&format!("{path}env[{n}].name"), HELP));
        }
    }
    Ok(())
}

/// What home leaves out of a pod that it sends: variables that name nothing, as a guest has them that is
/// passed on. Providers of earlier releases take them for names of devices.
pub(super) fn take_empty(container: &mut Value) {
    let is_empty = |variable: &Value| {
        let is_known = VARIABLES.iter().any(|known| variable["name"] == known.name);
        is_known && variable["value"] == ""
    };
    if let Some(env) = container["env"].as_array_mut() {
        env.retain(|variable| !is_empty(variable));
    }
}

fn hide(container: &mut Value, asked: &Amounts) {
    let mut env = container["env"].as_array().cloned().unwrap_or_default();
    env.retain(|variable| !is_all(variable));
    for variable in VARIABLES.iter().filter(|variable| !variable.is_for(asked)) {
        if env.iter().all(|said| said["name"] != variable.name) {
            env.push(json!({ "name": variable.name, "value": variable.none }));
        }
    }
    container["env"] = env.into();
}

/// All devices that there are.
fn is_all(variable: &Value) -> bool {
    let name = variable["name"].as_str().unwrap_or_default();
    let names_devices = VARIABLES.iter().any(|known| known.name == name);
    names_devices && name.ends_with(VISIBLE) && variable["value"] == "all"
}

/// How names of variables end that say which devices a container sees.
const VISIBLE: &str = "_VISIBLE_DEVICES";

impl Variable {
    /// Whether so much is asked for that its devices are among it: then the plugin of the vendor gives
    /// it its value, before which no other may stand. What is asked for is what is counted, and sold.
    fn is_for(&self, asked: &Amounts) -> bool {
        asked.iter().any(|(name, amount)| name.starts_with(self.vendor) && *amount > 0)
    }
}
