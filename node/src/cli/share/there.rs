//! The GPUs that the nodes have and that could be sold, shared or not: by which word, and in which line.

use std::collections::BTreeSet;

use mercato_broker::SharePolicy;
use mercato_protocol::gpu::any_variant;
use mercato_protocol::resources::Resource;
use mercato_protocol::text::GpuModel;

use crate::admin;
use crate::cli::table::Table;

/// A row for each model, and the line that shares all of them; nothing where there are none.
pub(super) fn gpus(share: &admin::Share, wide: bool) -> String {
    let mut table = Table::new(["GPUS THERE", "NUMBER", "SHARED", "LINE THAT SHARES ALL"]);
    let mut all = Vec::new();
    for device in &share.devices {
        let word = word(&device.model, share);
        let line = format!("{word}={}", device.count);
        let shared = share.policy.as_ref().map(|policy| shared(policy, &device.model));
        table.row([
            device.model.to_string(),
            device.count.to_string(),
            shared.filter(|it| !it.is_empty()).unwrap_or_else(|| "-".to_owned()),
            format!("share.gpu: {line}"),
        ]);
        all.push(line);
    }
    if all.is_empty() {
        return String::new();
    }
    let rest = if share.policy.is_some() { "" } else { "--cpu 30% --memory 30% " };
    let line = format!("all of them: mercato share set {rest}--gpu {}", all.join(","));
    format!("\n{}{line}\n", table.render(wide))
}

/// The shortest name that means this model and no other that is there.
fn word<'a>(model: &'a GpuModel, share: &'a admin::Share) -> String {
    let family = any_variant(model);
    let of_family: BTreeSet<_> =
        share.devices.iter().filter(|it| any_variant(&it.model) == family).collect();
    if of_family.len() == 1 { family.into_owned() } else { model.to_string() }
}

/// What is shared that means this model, in the owner's words.
fn shared(policy: &SharePolicy, model: &GpuModel) -> String {
    let own = Resource::Gpu(model.clone());
    let all = policy.amounts.iter().filter(|(resource, _)| match resource {
        Resource::Gpu(_) => own.is_a(resource),
        Resource::Cpu | Resource::Memory | Resource::Pods | Resource::Storage => false,
    });
    let said = all.map(|(resource, amount)| {
        let name = resource.to_string();
        let name = name.strip_prefix("gpu.").unwrap_or(&name).to_owned();
        format!("{name}={}", mercato_config::amount::show(resource, *amount))
    });
    said.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use mercato_broker::{Amount, StorageClass};

    use super::*;
    use crate::admin::Devices;

    fn share(policy: Option<SharePolicy>) -> admin::Share {
        let there = [("h100-80gb-sxm", 24), ("l4", 20), ("a100-40gb-sxm", 8), ("a100-80gb-sxm", 2)];
        let devices = there.map(|(model, count)| Devices { model: model.parse().unwrap(), count });
        admin::Share {
            policy,
            ruled: false,
            on_sale: Vec::new(),
            unsold: Vec::new(),
            storage: StorageClass::default(),
            enforces_egress: false,
            devices: devices.into(),
            unknown: Vec::new(),
        }
    }

    #[test]
    fn each_device_has_its_word_and_its_line_shared_or_not() {
        let page = gpus(&share(None), true);
        for line in [
            "share.gpu: h100=24",
            "share.gpu: l4=20",
            "share.gpu: a100-40gb-sxm=8",
            "share.gpu: a100-80gb-sxm=2",
            "share set --cpu 30% --memory 30% --gpu h100=24,l4=20,a100-40gb-sxm=8,a100-80gb-sxm=2",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        let mut policy = mercato_config::Share::default().policy();
        let exactly = |n| Amount::Exactly(n);
        policy.amounts.insert("gpu.h100".parse().unwrap(), exactly(16));
        policy.amounts.insert("gpu.a100-80gb-sxm".parse().unwrap(), exactly(1));
        let page = gpus(&share(Some(policy)), true);
        let row =
            |model: &str| page.lines().find(|line| line.starts_with(model)).unwrap().to_owned();
        assert!(row("h100-80gb-sxm").contains(" h100=16 "), "{page}");
        assert!(row("a100-80gb-sxm").contains(" a100-80gb-sxm=1 "), "{page}");
        assert!(row("l4").contains(" - ") && row("a100-40gb-sxm").contains(" - "), "{page}");
        assert!(!page.contains("--cpu"), "{page}");
        let none = admin::Share { devices: Vec::new(), ..share(None) };
        assert_eq!(gpus(&none, false), "");
    }
}
