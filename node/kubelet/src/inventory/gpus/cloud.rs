//! What clouds write on their nodes, where nobody has installed discovery: Google's labels, those of
//! Karpenter and of EKS, and Azure's, which name no model.

use mercato_protocol::gpu::GpuIsolation;

use super::catalogue::{self, Row};
use super::cut::Profile;
use super::judge::{Device, Of, Said, Sharing};
use super::labels::Labels;
use super::unit::Unsold;

/// What Google writes on its nodes.
const GKE: &str = "cloud.google.com/gke-";
/// Karpenter on AWS and EKS write the same under these.
const EC2: [&str; 2] = ["karpenter.k8s.aws/instance-gpu-", "eks.amazonaws.com/instance-gpu-"];
/// Azure says whose GPUs a node has, and not which.
const AZURE: &str = "kubernetes.azure.com/accelerator";

/// Machines of AWS' for training, each with devices of one model of NVIDIA's; source: karpenter-provider-aws,
/// website/content/en/docs/reference/instance-types.md.
const MACHINES: [(&str, &str, u64); 10] = [
    ("p3.16xlarge", "v100-16gb-sxm", 8),
    ("p3.2xlarge", "v100-16gb-sxm", 1),
    ("p3.8xlarge", "v100-16gb-sxm", 4),
    ("p3dn.24xlarge", "v100-32gb-sxm", 8),
    ("p4d.24xlarge", "a100-40gb-sxm", 8),
    ("p4de.24xlarge", "a100-80gb-sxm", 8),
    ("p5.48xlarge", "h100-80gb-sxm", 8),
    ("p5en.48xlarge", "h200-141gb-sxm", 8),
    ("p6-b200.48xlarge", "b200", 8),
    ("p6-b300.48xlarge", "b300", 8),
];

/// What the cloud's labels say of a vendor's devices.
pub(super) fn said<'a>(labels: &Labels<'a>, vendor: &'static str, resource: &'a str) -> Said<'a> {
    let instance = labels.instance_type().unwrap_or_default().to_owned();
    let said = |product: &str, device: Device| Said {
        vendor,
        resource,
        product: product.to_owned(),
        device,
        of: Of::Whole,
        sharing: Sharing::Alone,
        there_are: None,
        memory_mib: None,
        driver: None,
        cuda: None,
        compute_capability: None,
    };
    if let Some(accelerator) = labels.text(&format!("{GKE}accelerator")) {
        let device = known(vendor, "gke", accelerator, None);
        let (of, sharing) = google(labels);
        return match of {
            Ok(of) => Said { of, sharing, ..said(accelerator, device) },
            Err(reason) => Said { sharing: Sharing::Unclear(reason), ..said(accelerator, device) },
        };
    }
    for key in EC2 {
        let Some(name) = labels.text(&format!("{key}name")) else { continue };
        let memory_mib = labels.number(&format!("{key}memory"));
        let there_are = labels.number(&format!("{key}count"));
        let device = known(vendor, "ec2", name, memory_mib);
        let sharing = match there_are {
            Some(0) => Sharing::Unclear("the instance has a part of one only".to_owned()),
            _ => Sharing::Alone,
        };
        return Said { there_are, memory_mib, sharing, ..said(name, device) };
    }
    if let Some((row, count)) = machine(vendor, &instance) {
        return Said { there_are: Some(count), ..said(&instance, Device::Known(row)) };
    }
    let reason = match labels.text(AZURE) {
        Some(whose) => format!("Azure says that it is {whose}'s, and not which"),
        None => "no label says which it is".to_owned(),
    };
    let how = "install the vendor's feature discovery";
    said(&instance, Device::Unknown(format!("{reason}: {how}")))
}

/// How many devices the cloud says that the node has.
pub(super) fn count(labels: &Labels<'_>) -> Option<u64> {
    let said = EC2.iter().find_map(|key| labels.number(&format!("{key}count")));
    said.or_else(|| Some(machine("nvidia", labels.instance_type()?)?.1))
}

/// The devices of a kind of machine that has one model only, and their number.
fn machine(vendor: &str, instance: &str) -> Option<(&'static Row, u64)> {
    let (_, model, count) = MACHINES.iter().find(|(name, ..)| *name == instance)?;
    Some((catalogue::called(vendor, model)?, *count))
}

/// What is to be said where labels tell of a vendor's devices that no device plugin lists.
pub(super) fn without_resource(
    labels: &Labels<'_>,
    vendor: &str,
    resource: &str,
) -> Option<Unsold> {
    let mut own = ["product", "product-name"].into_iter();
    let own = own.find_map(|key| labels.text(&format!("{resource}.{key}")));
    let google = labels.text(&format!("{GKE}accelerator")).filter(|it| it.starts_with(vendor));
    let amazon = EC2.iter().find_map(|key| {
        let manufacturer = labels.text(&format!("{key}manufacturer")).unwrap_or("nvidia");
        labels.text(&format!("{key}name")).filter(|_| manufacturer == vendor)
    });
    let product = own.or(google).or(amazon)?;
    Some(Unsold::new(
        labels,
        resource,
        format!("the labels tell of {product}, and no device plugin lists any"),
    ))
}

fn known(vendor: &'static str, cloud: &str, name: &str, memory_mib: Option<u64>) -> Device {
    match catalogue::alias(vendor, &format!("{cloud}:{name}"), memory_mib) {
        Some(row) => Device::Known(row),
        None => Device::Unknown(match memory_mib {
            Some(mib) => format!("{name} with {mib} MiB is no GPU that Mercato knows"),
            None => format!("{name} is no GPU that Mercato knows"),
        }),
    }
}

/// Into what Google has cut the devices, and whether several share one.
fn google(labels: &Labels<'_>) -> (Result<Of, String>, Sharing) {
    let of = match labels.text(&format!("{GKE}gpu-partition-size")) {
        None => Ok(Of::Whole),
        Some(size) => Profile::mig(size)
            .map(|profile| Of::Part(profile, GpuIsolation::Hardware))
            .ok_or_else(|| format!("MIG has no profile {size}")),
    };
    let by = labels.number(&format!("{GKE}max-shared-clients-per-gpu")).filter(|by| *by > 1);
    let sharing = match (labels.text(&format!("{GKE}gpu-sharing-strategy")), by) {
        (Some("mps"), Some(by)) => Sharing::Shares(by),
        (Some("time-sharing") | None, Some(by)) => Sharing::Turns(by),
        (None, None) => Sharing::Alone,
        (Some(strategy), _) => {
            Sharing::Unclear(format!("shared ({strategy}), and no label says by how many"))
        }
    };
    (of, sharing)
}
