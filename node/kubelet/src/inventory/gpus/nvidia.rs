//! NVIDIA's GPUs, as GPU feature discovery labels them and the device plugin lists them: whole, cut
//! by MIG in either strategy, shared, virtual. Without discovery the cloud's labels are read.

use mercato_protocol::gpu::GpuIsolation;

use super::catalogue;
use super::cloud;
use super::cut::Profile;
use super::judge::{Device, Of, Said, Sharing};
use super::labels::{self, Labels};
use super::unit::Unsold;

/// The vendor, as rows have it.
const NVIDIA: &str = "nvidia";
/// Whole devices, or parts of them where all are cut alike.
const GPU: &str = "nvidia.com/gpu";
/// Parts of devices that are cut each on its own.
const MIG: &str = "nvidia.com/mig-";
/// What resources of shared devices end on, where they are renamed.
const SHARED: &str = ".shared";

/// What labels say of each of a node's resources.
pub(super) fn said<'a>(labels: &Labels<'a>) -> Vec<Result<Said<'a>, Unsold>> {
    let resources = labels.resources("nvidia.com/");
    if resources.is_empty() {
        return cloud::without_resource(labels, NVIDIA, GPU).map(Err).into_iter().collect();
    }
    resources.into_iter().map(|resource| of_resource(labels, resource)).collect()
}

fn of_resource<'a>(labels: &Labels<'a>, resource: &'a str) -> Result<Said<'a>, Unsold> {
    let unsold = |reason: String| Unsold::new(labels, resource, reason);
    let name = resource.strip_suffix(SHARED).unwrap_or(resource);
    if name != GPU && !name.starts_with(MIG) {
        return Err(unsold(match labels::is_no_gpu(resource) {
            true => "it is no GPU".to_owned(),
            false => "it is no GPU that containers use, as far as Mercato knows".to_owned(),
        }));
    }
    match labels.text("nvidia.com/mig.config.state") {
        None | Some("success") => {}
        Some("failed") => return Err(unsold("cutting it with MIG has failed".to_owned())),
        Some(state) => return Err(unsold(format!("it is being cut anew: {state}"))),
    }
    let read = match name.strip_prefix(MIG) {
        Some(profile) => part(labels, resource, name, profile),
        None => device(labels, resource),
    };
    read.map_err(unsold)
}

/// Why devices are not sold of which nobody says how they are shared.
const UNSAID: &str = "no label says how many there are, or whether they are shared: GPU feature \
                      discovery writes nvidia.com/gpu.count";

/// What `nvidia.com/gpu` is: a whole device, or what all devices are cut into.
fn device<'a>(labels: &Labels<'a>, resource: &'a str) -> Result<Said<'a>, String> {
    let Some(labelled) = labels.text("nvidia.com/gpu.product") else {
        return Ok(cloud::said(labels, NVIDIA, resource));
    };
    let product = labelled.strip_suffix("-SHARED").unwrap_or(labelled);
    let replicas = labels.number("nvidia.com/gpu.replicas");
    if product.ends_with("-MIG-INVALID") {
        let how = "nvidia.com/mig.strategy=single cannot say how it is cut, mixed can";
        return Err(format!("MIG has cut the devices in several ways: {how}"));
    }
    let (product, of) = match product.split_once("-MIG-") {
        Some((device, profile)) => {
            let cut = Profile::mig(profile).ok_or(format!("MIG has no profile {profile}"))?;
            (device, Of::Part(cut, GpuIsolation::Hardware))
        }
        None => (product, Of::Whole),
    };
    let whole = matches!(of, Of::Whole);
    if whole && replicas == Some(0) {
        return Err("the labels say that all devices are cut, and the node lists whole ones: one \
            of both is out of date"
            .to_owned());
    }
    let device = known(product);
    let virtual_gpu = match device {
        Device::Unknown(_) if whole => virtual_gpu(product),
        Device::Known(_) | Device::Family(_) | Device::Unknown(_) => None,
    };
    let is_virtual = labels.text("nvidia.com/vgpu.present") == Some("true");
    if is_virtual && virtual_gpu.is_none() {
        return Err(format!("it is a virtual GPU, and {product} does not say how large"));
    }
    let (device, of) = virtual_gpu.unwrap_or((device, of));
    let there_are = labels.number("nvidia.com/gpu.count");
    let said = sharing(labels, GPU, resource, labelled.ends_with("-SHARED"));
    // Whoever writes labels by hand writes these no more than who shares without a word.
    let is_unsaid = said == Sharing::Alone && there_are.is_none() && replicas.is_none();
    let sharing = if is_unsaid { Sharing::Unclear(UNSAID.to_owned()) } else { said };
    let memory_mib = memory(labels, GPU);
    Ok(Said { there_are, memory_mib, ..said_of(labels, resource, product, device, of, sharing) })
}

/// What a resource is that has a profile in its name.
fn part<'a>(
    labels: &Labels<'a>,
    resource: &'a str,
    name: &str,
    profile: &str,
) -> Result<Said<'a>, String> {
    let cut = Profile::mig(profile).ok_or(format!("MIG has no profile {profile}"))?;
    let labelled = labels.text(&format!("{name}.product"));
    let shared = labelled.is_some_and(|product| product.ends_with("-SHARED"));
    let of_part = labelled.map(|product| product.strip_suffix("-SHARED").unwrap_or(product));
    let product = match of_part.and_then(|product| product.split_once("-MIG-")) {
        Some((device, of)) if Profile::mig(of).is_some_and(|of| of.slug == cut.slug) => device,
        Some((_, of)) => return Err(format!("its labels are those of a part {of}")),
        None => {
            let whole = labels.text("nvidia.com/gpu.product").unwrap_or_default();
            whole.strip_suffix("-SHARED").unwrap_or(whole)
        }
    };
    if product.contains("-MIG-") {
        return Err("labels say that all devices are cut alike, and it is listed apart: one of \
            both is out of date"
            .to_owned());
    }
    if product.is_empty() {
        let Said { product, device, .. } = cloud::said(labels, NVIDIA, resource);
        let sharing = sharing(labels, name, resource, false);
        let of = Of::Part(cut, GpuIsolation::Hardware);
        return Ok(said_of(labels, resource, &product, device, of, sharing));
    }
    let (there_are, memory_mib) = (labels.number(&format!("{name}.count")), memory(labels, name));
    let sharing = sharing(labels, name, resource, shared);
    let of = Of::Part(cut, GpuIsolation::Hardware);
    let said = said_of(labels, resource, product, known(product), of, sharing);
    Ok(Said { there_are, memory_mib, ..said })
}

fn said_of<'a>(
    labels: &Labels<'a>,
    resource: &'a str,
    product: &str,
    device: Device,
    of: Of,
    sharing: Sharing,
) -> Said<'a> {
    let number = |name: &str| labels.number(&format!("nvidia.com/{name}"));
    let text = |name: &str| labels.text(&format!("nvidia.com/{name}")).map(str::to_owned);
    let version = |major: &str, minor: &str| Some(format!("{}.{}", number(major)?, number(minor)?));
    Said {
        vendor: NVIDIA,
        resource,
        product: product.to_owned(),
        device,
        of,
        sharing,
        there_are: None,
        memory_mib: None,
        driver: text("cuda.driver-version.full"),
        cuda: version("cuda.runtime.major", "cuda.runtime.minor")
            .or_else(|| text("cuda.runtime-version.full")),
        compute_capability: version("gpu.compute.major", "gpu.compute.minor"),
    }
}

fn known(product: &str) -> Device {
    match catalogue::product(NVIDIA, product) {
        Some(row) => Device::Known(row),
        None => Device::Unknown(format!("{product} is no GPU that Mercato knows")),
    }
}

/// A virtual GPU, of whose device a name tells the family alone, with letters for what the device
/// is beside, as in `V100DX`.
fn virtual_gpu(product: &str) -> Option<(Device, Of)> {
    let (name, profile) = Profile::virtual_gpu(product)?;
    let shorter = name.trim_end_matches(['c', 'd', 'l', 'm', 'x']);
    let known = [name.as_str(), shorter].into_iter().find(|it| catalogue::is_family(NVIDIA, it));
    let device = match known.and_then(|family| family.parse().ok()) {
        Some(family) => Device::Family(family),
        None => self::known(product),
    };
    Some((device, Of::Virtual(profile)))
}

/// Whether several share a resource: `key` has its labels.
fn sharing(labels: &Labels<'_>, key: &str, resource: &str, marked: bool) -> Sharing {
    let replicas = labels.number(&format!("{key}.replicas")).filter(|replicas| *replicas > 1);
    let strategy = labels.text(&format!("{key}.sharing-strategy")).filter(|it| *it != "none");
    match (replicas, strategy) {
        (Some(by), Some("mps")) => Sharing::Shares(by),
        (Some(by), None | Some("time-slicing")) => Sharing::Turns(by),
        (_, Some(strategy)) if !matches!(strategy, "mps" | "time-slicing") => {
            Sharing::Unclear(format!("shared in a way that Mercato does not know: {strategy}"))
        }
        (None, None) if !marked && !resource.ends_with(SHARED) => Sharing::Alone,
        _ => Sharing::Unclear("shared, and no label says by how many".to_owned()),
    }
}

/// Memory in mebibytes. Some versions of discovery write bytes.
fn memory(labels: &Labels<'_>, key: &str) -> Option<u64> {
    let said = labels.number(&format!("{key}.memory")).filter(|memory| *memory > 0)?;
    Some(if said >= 1 << 30 { said >> 20 } else { said })
}
