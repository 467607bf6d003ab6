//! Who else manages devices of a node: programs that share or cut them with a scheduler of their
//! own, and devices of other kinds than GPUs.

use super::labels::Labels;
use super::unit::Unsold;

/// Annotations by which HAMi's device plugins tell its scheduler of devices, and those of its
/// predecessor: `hami.io/node-nvidia-register`, and one for each other vendor.
const HAMI: [&str; 2] = ["hami.io/node-", "4pd.io/node-"];

/// Resources that tell of somebody who shares devices, and who that is.
const SHARERS: [(&str, &str); 10] = [
    ("aliyun.com/gpu-", "Alibaba's GPU share"),
    ("amd.com/gpucores", "HAMi"),
    ("amd.com/gpumem", "HAMi"),
    ("deepomatic.com/shared-gpu", "a device plugin for shared GPUs"),
    ("k8s.amazonaws.com/vgpu", "a device plugin for shared GPUs"),
    ("nvidia.com/gpu.memory", "a controller that counts memory"),
    ("nvidia.com/gpucores", "HAMi"),
    ("nvidia.com/gpumem", "HAMi"),
    ("tencent.com/vcuda-", "Tencent's GPU manager"),
    ("volcano.sh/", "Volcano"),
];

/// Resources of devices that are no GPUs, or of vendors of whom nothing is known.
const OTHERS: [&str; 15] = [
    "aws.amazon.com/neuron",
    "cambricon.com/",
    "enflame.com/",
    "google.com/tpu",
    "habana.ai/",
    "huawei.com/Ascend",
    "hygon.com/",
    "iluvatar.com/",
    "iluvatar.ai/",
    "kunlunxin.com/",
    "metax-tech.com/",
    "mthreads.com/",
    "npu.intel.com/",
    "qualcomm.com/",
    "tenstorrent.com/",
];

/// Why no device of the node is sold, if somebody else manages them.
pub(super) fn blocked(labels: &Labels<'_>) -> Option<String> {
    let hami =
        |key: &str| HAMI.iter().any(|prefix| key.starts_with(prefix)) && key.ends_with("-register");
    if labels.annotations().any(hami) {
        return Some(by("HAMi"));
    }
    let sharer = SHARERS.iter().find(|(prefix, _)| !labels.resources(prefix).is_empty());
    if let Some((_, name)) = sharer {
        return Some(by(name));
    }
    let machines = labels.text("nvidia.com/gpu.workload.config").filter(|it| *it != "container");
    let amd = labels.text("amd.com/gpu.mode").filter(|it| *it != "container");
    machines.or(amd).map(|mode| format!("they are for virtual machines ({mode})"))
}

fn by(name: &str) -> String {
    format!("shared by {name}, whose scheduler Mercato does not speak")
}

/// Devices of other kinds, and what those have that share GPUs.
pub(super) fn others(labels: &Labels<'_>) -> Vec<Unsold> {
    let others = OTHERS.iter().flat_map(|prefix| labels.resources(prefix));
    let others = others.map(|it| Unsold::new(labels, it, "Mercato knows no such devices"));
    let vendors = ["nvidia.com/", "amd.com/"];
    let shared =
        SHARERS.iter().filter(|(prefix, _)| !vendors.iter().any(|it| prefix.starts_with(it)));
    let shared = shared.flat_map(|(prefix, name)| {
        labels.resources(prefix).into_iter().map(|it| Unsold::new(labels, it, by(name)))
    });
    others.chain(shared).collect()
}
