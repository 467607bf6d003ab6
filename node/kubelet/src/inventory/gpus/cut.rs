//! Names of what is cut out of a device: profiles of MIG and of virtual GPUs.

/// What is cut out of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Profile {
    /// As its vendor writes it: `1g.5gb`, `8C`, `cpx_nps4`.
    pub(super) name: String,
    /// As it stands in a model's name.
    pub(super) slug: String,
    /// Memory that its name promises, in GiB, and of which it may have an eighth less.
    pub(super) gib: u64,
    /// Compute slices of the device that it takes.
    pub(super) slices: u64,
    /// Those of the instance that it is a part of, with whose others it shares the memory.
    pub(super) of_slices: u64,
}

impl Profile {
    /// `1g.5gb`, also of a compute instance, `1c.3g.20gb`, and with what else it has, `1g.10gb+me`,
    /// for which resources have a dot.
    pub(super) fn mig(name: &str) -> Option<Self> {
        let slug = name.to_ascii_lowercase().replace('+', ".");
        let mut words = slug.split('.');
        let mut word = words.next()?;
        let compute = count(word, "c");
        if compute.is_some() {
            word = words.next()?;
        }
        let of_slices = count(word, "g")?;
        let slices = compute.unwrap_or(of_slices);
        let memory = words.next()?;
        let memory = memory.split_once('-').map_or(memory, |(memory, _)| memory);
        let gib = count(memory, "gb")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let good = slug.chars().all(plain) && words.all(|word| !word.is_empty());
        good.then(|| Self { name: name.to_owned(), slug: slug.clone(), gib, slices, of_slices })
    }

    /// The device's family and the profile of a virtual GPU: `GRID-V100-8C`, `NVIDIA-A40-12Q`, and
    /// those with a part that the hardware makes, `GRID-A100-2-10C`.
    pub(super) fn virtual_gpu(product: &str) -> Option<(String, Self)> {
        let lower = product.to_ascii_lowercase();
        let words: Vec<_> = lower.split(['-', ' ', '_']).filter(|word| !word.is_empty()).collect();
        let words = match words.first() {
            Some(&("grid" | "nvidia")) => &words[1..],
            _ => &words[..],
        };
        let (last, mut device) = words.split_last()?;
        let gib = ["a", "b", "c", "q"].iter().find_map(|letter| count(last, letter))?;
        let mut slug = (*last).to_owned();
        if let [before @ .., slices] = device
            && slices.parse::<u64>().is_ok()
        {
            (device, slug) = (before, format!("{slices}-{last}"));
        }
        let family: String = device.concat();
        let known = !family.is_empty();
        let name = slug.to_ascii_uppercase();
        known.then_some((family, Self { name, slug, gib, slices: 1, of_slices: 1 }))
    }

    /// Less than this, in mebibytes, no such part has: an H200's `1g.18gb` has 16 GiB.
    pub(super) fn least_mib(&self) -> u64 {
        self.gib * 1024 / 8 * 7
    }
}

/// The number before such a unit.
fn count(word: &str, unit: &str) -> Option<u64> {
    word.strip_suffix(unit)?.parse().ok().filter(|n| (1..=1024).contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_mig() {
        for (name, slug, gib) in [
            ("1g.5gb", "1g.5gb", (5, 1, 1)),
            ("7g.141gb", "7g.141gb", (141, 7, 7)),
            ("1c.3g.20gb", "1c.3g.20gb", (20, 1, 3)),
            ("1g.10gb+me", "1g.10gb.me", (10, 1, 1)),
            ("1g.24gb.me.all", "1g.24gb.me.all", (24, 1, 1)),
            ("1g.24gb-me", "1g.24gb-me", (24, 1, 1)),
        ] {
            let profile = Profile::mig(name).unwrap();
            assert_eq!(profile.slug, slug, "{name}");
            assert_eq!((profile.gib, profile.slices, profile.of_slices), gib, "{name}");
        }
        for name in ["INVALID", "", "1g", "g.5gb", "1g.5", "1g.0gb", "1g.5gb..", "5gb.1g"] {
            assert_eq!(Profile::mig(name), None, "{name}");
        }
    }

    #[test]
    fn profiles_of_virtual_gpus() {
        for (name, family, slug, gib) in [
            ("GRID-V100-8C", "v100", "8c", 8),
            ("NVIDIA-A40-12Q", "a40", "12q", 12),
            ("GRID-A100-2-10C", "a100", "2-10c", 10),
            ("NVIDIA-RTX6000-Ada-24Q", "rtx6000ada", "24q", 24),
        ] {
            let (of, profile) = Profile::virtual_gpu(name).unwrap();
            assert_eq!((of.as_str(), profile.slug.as_str(), profile.gib), (family, slug, gib));
        }
        for name in ["NVIDIA-A100-SXM4-40GB", "Tesla-T4", "NVIDIA-H20-3e", "8C", "GRID-K520", ""] {
            assert_eq!(Profile::virtual_gpu(name), None, "{name}");
        }
    }
}
