//! What of that which labels say is believed, and what such units are on the market.

use mercato_protocol::gpu::{GpuIsolation, GpuMode, GpuPool, GpuSource};
use mercato_protocol::text::GpuModel;

use super::catalogue::Row;
use super::cut::Profile;
use super::labels::Labels;
use super::unit::{Cut, OwnersWord, Unit, Unsold};
use crate::limits::GPUS_OF_NODE;

/// What labels say of the units of one resource.
#[derive(Debug)]
pub(super) struct Said<'a> {
    pub(super) vendor: &'static str,
    pub(super) resource: &'a str,
    /// What the labels call the device, for people; or the type of the node, if none does.
    pub(super) product: String,
    pub(super) device: Device,
    pub(super) of: Of,
    pub(super) sharing: Sharing,
    /// How many devices there are, or parts if the unit is one; none: no label says.
    pub(super) there_are: Option<u64>,
    /// Memory of the device, or of the part.
    pub(super) memory_mib: Option<u64>,
    pub(super) driver: Option<String>,
    pub(super) cuda: Option<String>,
    pub(super) compute_capability: Option<String>,
}

/// Which device it is, as far as labels tell.
#[derive(Debug)]
pub(super) enum Device {
    Known(&'static Row),
    /// A family of which no label says the variant: enough for a virtual GPU.
    Family(GpuModel),
    /// No row has the product, or nothing names one, for this reason.
    Unknown(String),
}

/// How much of a device it is, before several share that.
#[derive(Debug)]
pub(super) enum Of {
    Whole,
    Part(Profile, GpuIsolation),
    Virtual(Profile),
}

/// Whether several pods share one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sharing {
    Alone,
    /// So many take turns on each.
    Turns(u64),
    /// So many have equal shares.
    Shares(u64),
    /// It cannot be told, for this reason.
    Unclear(String),
}

/// A unit of the market, or why it is none.
pub(super) fn judge(
    labels: &Labels<'_>,
    said: Said<'_>,
    word: &OwnersWord,
) -> Result<Unit, Unsold> {
    let count = labels.amount(said.resource);
    let unsold = |reason: String, line: Option<String>| Unsold {
        resource: said.resource.to_owned(),
        count: count.max(labels.capacity(said.resource)),
        reason,
        line,
    };
    if count == 0 {
        return Err(unsold("the node says that none of them works".to_owned(), None));
    }
    if let Sharing::Unclear(reason) = &said.sharing {
        return Err(unsold(reason.clone(), None));
    }
    let (device, source) = device(&said, word).map_err(|(reason, line)| unsold(reason, line))?;
    let memory_mib = memory(&said).map_err(|reason| unsold(reason, None))?;
    let by = number_of_tenants(&said, count).map_err(|reason| unsold(reason, None))?;
    let Some(model) = model(&device, &said) else {
        return Err(unsold(format!("the name of its part is too long: {}", said.product), None));
    };
    if by > 1 && !word.shared.contains(&model) {
        let reason = match said.sharing {
            Sharing::Shares(_) => format!("{by} share each, within limits of software"),
            Sharing::Alone | Sharing::Turns(_) | Sharing::Unclear(_) => {
                format!("{by} take turns on each, and nothing keeps them apart")
            }
        };
        return Err(unsold(reason, Some(format!("share.sharedGpus: [{model}]"))));
    }
    let (mode, isolation) = mode(&said, memory_mib / by);
    let whole = matches!((&said.of, by), (Of::Whole, 1));
    let link = match &said.device {
        Device::Known(row) => row.link,
        Device::Family(_) | Device::Unknown(_) => None,
    };
    let gpu = GpuPool {
        model,
        vendor: said.vendor.parse().expect("a plain word is a slug"),
        pci_id: None,
        memory_mib: memory_mib / by,
        count,
        most_per_node: count,
        driver: said.driver.clone(),
        cuda: said.cuda.clone(),
        compute_capability: said.compute_capability.clone(),
        interconnect: link.filter(|_| whole && count > 1).map(str::to_owned),
        source,
        mode,
        isolation,
        shared_counter: None,
        cpu_millis_per_unit: 0,
        memory_bytes_per_unit: 0,
    };
    Ok(Unit { resource: said.resource.to_owned(), device, cut: cut(&said.of, by), gpu })
}

type Refusal = (String, Option<String>);

/// What the device is called on the market, and who says so.
fn device(said: &Said<'_>, word: &OwnersWord) -> Result<(GpuModel, GpuSource), Refusal> {
    match &said.device {
        Device::Known(row) => Ok((row.model.clone(), GpuSource::Labels)),
        Device::Family(model) => Ok((model.clone(), GpuSource::Labels)),
        Device::Unknown(reason) => match word.models.get(&said.product) {
            Some(model) => Ok((model.clone(), GpuSource::Manual)),
            None if said.product.is_empty() => Err((reason.clone(), None)),
            None => Err((reason.clone(), Some(line_for_model(&said.product)))),
        },
    }
}

/// What the owner writes who knows what it is, with what the model may be called.
fn line_for_model(product: &str) -> String {
    let lower = product.to_ascii_lowercase();
    let mut words = lower.split(['-', '_', ' ']).filter(|word| word.len() <= NAME_BYTES);
    let model = words.find(|word| {
        let number = word.trim_start_matches(|c: char| c.is_ascii_lowercase());
        let last = number.trim_start_matches(|c: char| c.is_ascii_digit());
        number.len() < word.len() && number.len() - last.len() >= 2 && last.len() <= 1
    });
    format!("share.gpuModels: {{{product}: {}}}", model.unwrap_or("MODEL"))
}

/// Letters and digits of the longest names such as `mi355x` that are guessed.
const NAME_BYTES: usize = 7;

/// Memory of a unit that nobody shares, in mebibytes; 0 is not known.
fn memory(said: &Said<'_>) -> Result<u64, String> {
    let row = match &said.device {
        Device::Known(row) => Some(row),
        Device::Family(_) | Device::Unknown(_) => None,
    };
    match (&said.of, said.memory_mib) {
        (Of::Whole, Some(memory_mib)) if row.is_some_and(|row| !row.has(memory_mib)) => {
            let row = row.map_or(0, |row| gib(row.memory_mib));
            let is = gib(memory_mib);
            Err(format!("the labels say {is} GiB, and {} has {row}", said.product))
        }
        (Of::Whole, Some(memory_mib)) => Ok(memory_mib),
        (Of::Whole, None) => Ok(row.map_or(0, |row| row.memory_mib)),
        (Of::Part(profile, _) | Of::Virtual(profile), memory_mib) => {
            let memory_mib = memory_mib.unwrap_or(profile.least_mib());
            let most = row.map_or(u64::MAX, |row| row.memory_mib + row.memory_mib / 10);
            let promised = profile.gib * 1024;
            let (is, name) = (gib(memory_mib), &profile.name);
            if memory_mib > most || promised > most {
                return Err(format!("a part {name} is larger than {}", said.product));
            }
            if memory_mib < promised / 4 * 3 || memory_mib > promised + promised / 10 {
                return Err(format!("the labels say {is} GiB, and a {name} has {}", profile.gib));
            }
            Ok(memory_mib)
        }
    }
}

fn gib(mib: u64) -> u64 {
    (mib + 512) / 1024
}

/// How many have one between them: one, if it is sold as it is.
fn number_of_tenants(said: &Said<'_>, count: u64) -> Result<u64, String> {
    let all = match said.there_are {
        Some(there_are) => there_are,
        None if matches!(said.of, Of::Whole) => GPUS_OF_NODE,
        None => GPUS_OF_NODE * 8,
    };
    match &said.sharing {
        Sharing::Unclear(reason) => Err(reason.clone()),
        Sharing::Alone if count > all => Err(format!(
            "the node lists {count}, and the labels tell of {all}: they are shared or cut by \
             something that does not say so, or are of several kinds"
        )),
        Sharing::Alone => Ok(1),
        Sharing::Turns(by) | Sharing::Shares(by) if *by < 2 || count > all.saturating_mul(*by) => {
            Err(format!("the node lists {count}, and the labels tell of {by} for each of {all}"))
        }
        Sharing::Turns(by) | Sharing::Shares(by) => match said.there_are {
            Some(there_are) if count <= there_are => Err(format!(
                "the labels tell of {by} that share each, and the node lists no more than there \
                 are: one of both is out of date"
            )),
            _ => Ok(*by),
        },
    }
}

/// `h100-80gb-sxm.1g.10gb`, `t4.ts4`: a device, its part, and how many share that.
fn model(device: &GpuModel, said: &Said<'_>) -> Option<GpuModel> {
    let part = match &said.of {
        Of::Whole => String::new(),
        Of::Part(profile, _) | Of::Virtual(profile) => format!(".{}", profile.slug),
    };
    let shared = match said.sharing {
        Sharing::Turns(by) => format!(".ts{by}"),
        Sharing::Shares(by) => format!(".mps{by}"),
        Sharing::Alone | Sharing::Unclear(_) => String::new(),
    };
    format!("{device}{part}{shared}").parse().ok()
}

fn mode(said: &Said<'_>, memory_mib: u64) -> (GpuMode, GpuIsolation) {
    let short = |by: u64| u32::try_from(by).unwrap_or(u32::MAX);
    match (&said.sharing, &said.of) {
        (Sharing::Turns(by), _) => {
            (GpuMode::Timeslice { replicas: short(*by) }, GpuIsolation::None)
        }
        (Sharing::Shares(by), _) => {
            let percent = short((100 / by).max(1));
            (GpuMode::Mps { memory_mib, percent }, GpuIsolation::Limit)
        }
        (_, Of::Whole) => (GpuMode::Exclusive, GpuIsolation::Hardware),
        (_, Of::Part(profile, isolation)) => {
            (GpuMode::Mig { profile: profile.name.clone() }, *isolation)
        }
        (_, Of::Virtual(profile)) => {
            (GpuMode::Vgpu { profile: profile.name.clone() }, GpuIsolation::Hardware)
        }
    }
}

fn cut(of: &Of, by: u64) -> Cut {
    match of {
        _ if by > 1 => Cut::Shared,
        Of::Whole => Cut::Whole,
        Of::Part(..) => Cut::Part,
        Of::Virtual(_) => Cut::Virtual,
    }
}
