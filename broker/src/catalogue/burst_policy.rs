//! What may be bought by itself, for pods that find no room: as the owner of the consumer allows.

use mercato_protocol::price::{Currency, Price, UnitPrice};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::Class;
use mercato_protocol::text::GpuModel;
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::selector::{Priced, Selector, Term};

/// What may be bought by itself for pods that find no room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BurstPolicy {
    /// No unit of a resource may cost more; what has no line must cost nothing. Its currency is the
    /// only one that is paid in.
    pub max_price: Price,
    /// The most of each resource that all such contracts may have together at any time.
    pub most: Resources,
    /// How long a contract is at first, and how much longer with each extension, in seconds.
    pub term_s: u64,
    /// A pod counts once the scheduler has found no room for it for so long, in seconds.
    pub after_s: u64,
    /// A contract ends early once no pod was on its node for so long, in seconds.
    pub idle_s: u64,
    /// A provider that has not signed so long after an order is left for the next, in seconds.
    pub wait_s: u64,
    /// Every offer that is taken so must match it, besides the selector of all that is bought.
    pub selector: Selector,
    /// How firmly it is to be held; none: however the provider offers it.
    pub class: Option<Class>,
}

impl BurstPolicy {
    /// What the types alone do not say.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let Resources { cpu_millis, memory_bytes, pods, storage_bytes, .. } = self.most;
        match () {
            () if cpu_millis == 0 || memory_bytes == 0 || pods == 0 => Err(
                "bursts.most says no cpu, no memory or no pods: pods take of all three, for example \
                 cpu=64,memory=256Gi,pods=200",
            ),
            () if storage_bytes > 0 => {
                Err("bursts.most says storage: none is bought by itself, leave it out")
            }
            () if self.most.gpus.len() > limits::BURST_GPUS => {
                Err("bursts.most says too many models of GPUs: eight at most")
            }
            () if self.term_s < limits::MIN_TERM_S => {
                Err("bursts.for is shorter than any offer: a minute is the least")
            }
            () if self.after_s == 0 => Err("bursts.after is no time: a second is the least"),
            () if self.idle_s == 0 => Err("bursts.idle is no time: a second is the least"),
            () if self.wait_s == 0 => Err("bursts.wait is no time: a second is the least"),
            () if self.wait_s.saturating_mul(1_000) > limits::REQUEST_MS => {
                Err("bursts.wait is longer than any order waits: ten seconds at most")
            }
            () => Ok(()),
        }
    }

    /// That nothing costs more than is paid for it: a term for each resource that pods take, and for
    /// GPUs of this model.
    pub(crate) fn ceilings(&self, gpu: Option<&GpuModel>) -> Vec<Term> {
        let Price::Posted { currency, units } = &self.max_price else {
            return vec![Term::free()];
        };
        let plain = [
            (Priced::Cpu, Resource::Cpu),
            (Priced::Memory, Resource::Memory),
            (Priced::Pods, Resource::Pods),
        ];
        let gpu = gpu.map(|model| (Priced::Gpu, Resource::Gpu(model.clone())));
        let ceiling = |(priced, resource): (Priced, Resource)| {
            let exact = units.get(&resource);
            let named = || units.iter().find(|(line, _)| resource.is_a(line)).map(|(_, it)| it);
            let most = exact.or_else(named).copied().unwrap_or(NOTHING);
            ceiling(priced, *currency, most)
        };
        plain.into_iter().chain(gpu).map(ceiling).collect()
    }
}

/// The ceiling of what has no line.
const NOTHING: UnitPrice = UnitPrice { micros: 0, period_s: 3_600 };

fn ceiling(priced: Priced, currency: Currency, most: UnitPrice) -> Term {
    Term::price_at_most(priced, currency, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::FromText as _;

    fn policy() -> BurstPolicy {
        BurstPolicy {
            max_price: Price::from_text("cpu=0.05 EUR/h, memory=1.2 EUR/d, gpu.h100=2 EUR/h")
                .unwrap(),
            most: Resources::from_text("cpu=64,memory=256Gi,pods=200").unwrap(),
            term_s: 3_600,
            after_s: 30,
            idle_s: 600,
            wait_s: 3,
            selector: Selector::default(),
            class: None,
        }
    }

    #[test]
    fn what_cannot_be_bought_is_refused_with_its_key() {
        assert_eq!(policy().check(), Ok(()));
        let most = |text| Resources::from_text(text).unwrap();
        for (wrong, key) in [
            (BurstPolicy { most: most("cpu=64,memory=1Gi"), ..policy() }, "bursts.most"),
            (BurstPolicy { most: most("memory=1Gi,pods=1"), ..policy() }, "bursts.most"),
            (
                BurstPolicy { most: most("cpu=1,memory=1Gi,pods=1,storage=1Gi"), ..policy() },
                "storage",
            ),
            (BurstPolicy { term_s: 59, ..policy() }, "bursts.for"),
            (BurstPolicy { after_s: 0, ..policy() }, "bursts.after"),
            (BurstPolicy { idle_s: 0, ..policy() }, "bursts.idle"),
            (BurstPolicy { wait_s: 0, ..policy() }, "bursts.wait"),
            (BurstPolicy { wait_s: 11, ..policy() }, "bursts.wait"),
        ] {
            assert!(wrong.check().unwrap_err().contains(key), "{wrong:?}");
        }
    }

    #[test]
    fn a_ceiling_is_a_term_that_people_could_write() {
        let said = |gpu: Option<&str>| {
            let model = gpu.map(|gpu| gpu.parse().unwrap());
            let terms = policy().ceilings(model.as_ref());
            let read = |term: Term| {
                let text = term.to_string();
                assert_eq!(Selector::from_text(&text).unwrap().terms(), [term], "{text}");
                text
            };
            terms.into_iter().map(read).collect::<Vec<_>>()
        };
        let plain = ["price.cpu.EUR<=0.05/h", "price.memory.EUR<=1.20/d", "price.pods.EUR<=0.00/h"];
        assert_eq!(said(None), plain);
        assert_eq!(said(Some("h100-80gb-sxm"))[3], "price.gpu.EUR<=2.00/h");
        assert_eq!(said(Some("l4"))[3], "price.gpu.EUR<=0.00/h");
        let free = BurstPolicy { max_price: Price::Free, ..policy() };
        let free: Vec<String> = free.ceilings(None).iter().map(ToString::to_string).collect();
        assert_eq!(free, ["price=free"]);
    }
}
