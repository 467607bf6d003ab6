//! GPUs that are sold whole or in parts, out of the same devices: how many more of each
//! kind can be promised.
//!
//! Which device a unit will land on is the provider's scheduler's to decide, later and in
//! any order. So a promise must hold wherever all others land: of kind `a` one unit spoils
//! at most `ceil(part_a / part_b)` places for kind `b`, and a device has
//! `floor(whole / part_b)` of them.

use mercato_protocol::ad::Pool;
use mercato_protocol::gpu::{GpuMode, GpuPool};
use mercato_protocol::resources::Resources;
use mercato_protocol::text::GpuModel;

/// A whole device. MIG cuts devices into sevenths, MPS into hundredths.
const WHOLE: u64 = 700;

/// One kind of unit that is cut out of shared devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind<'a> {
    pub(crate) model: &'a GpuModel,
    /// What one unit takes of a device; 1 to [`WHOLE`].
    part: u64,
    /// The most that is ever sold of it.
    sellable: u64,
    taken: u64,
}

/// All kinds that share devices with `model`, itself among them; only itself if it shares
/// none.
pub(crate) fn sharers<'p>(
    pool: &'p Pool,
    model: &GpuModel,
    sellable: &Resources,
    taken: &Resources,
) -> Vec<Kind<'p>> {
    let own = pool.gpus.iter().find(|gpu| gpu.model == *model);
    let counter = own.and_then(|gpu| gpu.shared_counter.as_ref());
    let shares = |gpu: &&GpuPool| {
        gpu.model == *model || counter.is_some() && gpu.shared_counter.as_ref() == counter
    };
    let count = |of: &Resources, model| of.gpus.get(model).copied().unwrap_or(0);
    let all: Vec<&GpuPool> = pool.gpus.iter().filter(shares).collect();
    let memory = all.iter().map(|gpu| gpu.memory_mib).max().unwrap_or(0);
    let kind = |gpu: &&'p GpuPool| Kind {
        model: &gpu.model,
        part: part(gpu, memory),
        sellable: count(sellable, &gpu.model),
        taken: count(taken, &gpu.model),
    };
    all.iter().map(kind).filter(|kind| kind.sellable > 0 || kind.taken > 0).collect()
}

/// What a unit takes of a device: of its processors or of its memory, whichever is more.
fn part(gpu: &GpuPool, device_mib: u64) -> u64 {
    let processors = match &gpu.mode {
        GpuMode::Mig { profile } => {
            let sevenths = profile.split('g').next().and_then(|n| n.parse::<u64>().ok());
            sevenths.filter(|n| (1..=7).contains(n)).map_or(WHOLE, |n| n * WHOLE / 7)
        }
        GpuMode::Mps { percent, .. } => u64::from(*percent).clamp(1, 100) * WHOLE / 100,
        // How a virtual GPU is cut is the vendor's to know.
        GpuMode::Exclusive | GpuMode::Timeslice { .. } | GpuMode::Vgpu { .. } => WHOLE,
    };
    let memory = match &gpu.mode {
        GpuMode::Mps { memory_mib, .. } => *memory_mib,
        GpuMode::Exclusive
        | GpuMode::Mig { .. }
        | GpuMode::Timeslice { .. }
        | GpuMode::Vgpu { .. } => gpu.memory_mib,
    };
    let memory = u128::from(memory) * u128::from(WHOLE);
    let memory = memory.checked_div(u128::from(device_mib)).unwrap_or(0);
    processors.max(u64::try_from(memory).unwrap_or(WHOLE)).min(WHOLE)
}

/// How many more of one kind can be promised, whatever the others do.
pub(crate) fn capacity(kinds: &[Kind<'_>], model: &GpuModel) -> u64 {
    let Some(own) = kinds.iter().find(|kind| kind.model == model) else { return 0 };
    let devices = devices(kinds);
    // Kinds of which nothing is promised need no place.
    let held = kinds.iter().filter(|kind| kind.taken > 0 || kind.model == model);
    let more = held.map(|kind| {
        let left = (devices * places(kind)).saturating_sub(spoiled(kinds, kind));
        left / u128::from(own.part.div_ceil(kind.part))
    });
    let least = more.min().unwrap_or(0);
    u64::try_from(least).unwrap_or(u64::MAX).min(own.sellable.saturating_sub(own.taken))
}

/// Whether all that is taken can be kept.
pub(crate) fn is_kept(kinds: &[Kind<'_>]) -> bool {
    let devices = devices(kinds);
    kinds
        .iter()
        .filter(|kind| kind.taken > 0)
        .all(|kind| kind.taken <= kind.sellable && spoiled(kinds, kind) <= devices * places(kind))
}

/// Whole devices behind what is sellable: that of the kind which needs the most of them.
fn devices(kinds: &[Kind<'_>]) -> u128 {
    let parts = kinds.iter().map(|kind| u128::from(kind.sellable) / places(kind));
    parts.max().unwrap_or(0)
}

/// Units of a kind that fit a device.
fn places(kind: &Kind<'_>) -> u128 {
    u128::from(WHOLE / kind.part.max(1))
}

/// Places for a kind that all promised units may take away.
fn spoiled(kinds: &[Kind<'_>], of: &Kind<'_>) -> u128 {
    let each = |kind: &Kind<'_>| u128::from(kind.taken) * u128::from(kind.part.div_ceil(of.part));
    kinds.iter().map(each).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds<'a>(models: &'a [GpuModel], of: &[(u64, u64, u64)]) -> Vec<Kind<'a>> {
        let kind = |(model, (part, sellable, taken)): (&'a GpuModel, &(u64, u64, u64))| Kind {
            model,
            part: *part,
            sellable: *sellable,
            taken: *taken,
        };
        models.iter().zip(of).map(kind).collect()
    }

    fn models() -> [GpuModel; 3] {
        ["a", "b", "c"].map(|name| name.parse().unwrap())
    }

    #[test]
    fn a_slice_spoils_a_whole_device() {
        let names = models();
        let of = |wholes, slices| {
            let kinds = kinds(&names, &[(700, 8, wholes), (100, 56, slices)]);
            (capacity(&kinds, &names[0]), capacity(&kinds, &names[1]))
        };
        assert_eq!(of(0, 0), (8, 56));
        assert_eq!(of(0, 3), (5, 53));
        assert_eq!(of(1, 0), (7, 7), "each slice may land on a device of its own");
        assert_eq!(of(8, 0), (0, 0));
        assert_eq!(of(0, 56), (0, 0));
    }

    #[test]
    fn parts_are_those_that_the_vendor_lists() {
        let gpu = |mode, memory_mib| GpuPool {
            model: "h100".parse().unwrap(),
            vendor: "nvidia".parse().unwrap(),
            pci_id: None,
            memory_mib,
            count: 1,
            most_per_node: 1,
            driver: None,
            cuda: None,
            compute_capability: None,
            interconnect: None,
            source: mercato_protocol::gpu::GpuSource::Manual,
            mode,
            isolation: mercato_protocol::gpu::GpuIsolation::Hardware,
            shared_counter: Some("h100".to_owned()),
            cpu_millis_per_unit: 0,
            memory_bytes_per_unit: 0,
        };
        // Profile, memory in MiB, and how many fit a device of 80 GiB.
        for (profile, mib, fit) in [
            ("1g.10gb", 9_984, 7),
            ("1g.20gb", 20_096, 4),
            ("2g.20gb", 20_096, 3),
            ("3g.40gb", 40_448, 2),
            ("4g.40gb", 40_448, 1),
            ("7g.80gb", 81_152, 1),
            ("odd", 1, 1),
        ] {
            let mode = GpuMode::Mig { profile: profile.to_owned() };
            assert_eq!(WHOLE / part(&gpu(mode, mib), 81_920), fit, "{profile}");
        }
        let mps = |percent, memory_mib| gpu(GpuMode::Mps { memory_mib, percent }, memory_mib);
        assert_eq!(WHOLE / part(&mps(25, 1_024), 81_920), 4);
        assert_eq!(WHOLE / part(&mps(1, 40_960), 81_920), 2);
        assert_eq!(part(&gpu(GpuMode::Exclusive, 0), 0), WHOLE);
    }

    proptest! {
        /// Whatever was promised finds its place, in whichever order it comes and wherever
        /// the scheduler puts it.
        #[test]
        fn every_promise_finds_a_place(
            devices in 1..5u64,
            parts in prop::collection::vec(prop_oneof![Just(700u64), Just(100), Just(350), 1..=700u64], 3),
            sales in prop::collection::vec((0..3usize, 1..9u64), 0..12),
            order in prop::collection::vec((any::<usize>(), any::<usize>()), 200),
        ) {
            let names = models();
            let mut of: Vec<_> =
                parts.iter().map(|part| (*part, devices * (WHOLE / part), 0u64)).collect();
            for (kind, count) in sales {
                let left = capacity(&kinds(&names, &of), &names[kind]);
                // What the capacity says is what the check on all promises says.
                let mut with = of.clone();
                with[kind].2 += left;
                prop_assert!(left == 0 || is_kept(&kinds(&names, &with)));
                with[kind].2 += 1;
                prop_assert!(!is_kept(&kinds(&names, &with)));
                of[kind].2 += count.min(left);
            }
            let mut units: Vec<u64> =
                of.iter().flat_map(|(part, _, taken)| vec![*part; *taken as usize]).collect();
            let mut free = vec![WHOLE; devices as usize];
            for (which, place) in order.iter().cycle().take(units.len()) {
                let part = units.swap_remove(which % units.len());
                let fitting: Vec<_> = (0..free.len()).filter(|n| free[*n] >= part).collect();
                prop_assert!(!fitting.is_empty(), "{part} of {free:?}");
                free[fitting[place % fitting.len()]] -= part;
            }
        }
    }
}
