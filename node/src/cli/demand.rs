//! What a buyer wants, as options: for `browse` and `order`.

use clap::Args;
use mercato_broker::{Demand, Rate, Selector, Sort, size};
use mercato_config::{Gpus, Seconds, SyntaxError, quantity};
use mercato_protocol::egress::Egress;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::Class;

use super::lookup;
use crate::admin::{Class as Kind, OperatorApi, Problem};
use crate::present::requirements::{PODS, Requirements};
use crate::present::text::{text, word};

#[derive(Args, Debug, Default)]
pub(crate) struct Wanted {
    /// Which kind: 'gpu.model in (h100,h200), gpu.mem>=80Gi, jurisdiction=IT'
    #[arg(value_name = "SELECTOR", value_parser = text::<Selector>)]
    selector: Option<Selector>,
    /// Processors, such as 8 or 500m
    #[arg(long, value_name = "N", value_parser = cpu)]
    cpu: Option<u64>,
    /// Memory in bytes, such as 32Gi
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    memory: Option<u64>,
    /// GPUs by model or family, such as h100=2
    #[arg(long, value_name = "MODEL=N", value_parser = text::<Gpus>)]
    gpu: Option<Gpus>,
    /// Room for volumes in bytes, such as 20Gi: held and billed, but no claim is bound to it yet
    #[arg(long, value_name = "BYTES", value_parser = storage)]
    storage: Option<u64>,
    /// How many pods at once
    #[arg(long, value_name = "N", default_value_t = PODS, value_parser = pods)]
    pods: u64,
    /// Ordinary pods of the provider's displace guests of spot, and none of reserved [default:
    /// whichever is offered]
    #[arg(long, value_parser = word::<Class>(&["spot", "reserved"]))]
    class: Option<Class>,
    /// The most that is paid for all of it together, by the posted price: '3 EUR/h'
    #[arg(long, value_name = "RATE", value_parser = text::<Rate>)]
    max_price: Option<Rate>,
    /// From this provider and no other: its name, or the beginning of its id
    #[arg(long, value_name = "PROVIDER")]
    from: Option<String>,
    /// Whom its pods are to reach on the Internet: internet, or ranges such as 203.0.114.0/24; nobody
    /// by default
    #[arg(long, value_name = "RANGES", value_parser = mercato_config::egress)]
    egress: Option<Egress>,
    /// What comes first: the cheapest, the nearest, the least carbon, or all of it together
    #[arg(long, default_value = "score", value_parser = word::<Sort>(&["price", "rtt", "carbon", "score"]))]
    sort: Sort,
}

impl Wanted {
    /// The demand of one who buys: enough for one pod at least.
    pub(crate) async fn purchase(
        self,
        api: &dyn OperatorApi,
        term: Seconds,
    ) -> Result<Demand, Problem> {
        let demand = self.demand(api, Some(term)).await?;
        can_be_bought(&demand.quantity)?;
        Ok(demand)
    }

    /// The demand for a term. How much and how long is asked for together: a price is of
    /// both.
    pub(crate) async fn demand(
        self,
        api: &dyn OperatorApi,
        term: Option<Seconds>,
    ) -> Result<Demand, Problem> {
        let from = match &self.from {
            Some(from) => Some(lookup::cluster(api, from).await?.cluster),
            None => None,
        };
        let Self { selector, cpu, memory, gpu, storage, pods, class, max_price, .. } = self;
        let (pods, egress, sort) = (Some(pods), self.egress, self.sort);
        let requirements = Requirements {
            selector,
            cpu,
            memory,
            gpu,
            storage,
            pods,
            term,
            class,
            max_price,
            from,
            egress,
            sort,
        };
        Ok(requirements.demand())
    }
}

/// Whether pods can use so much.
pub(crate) fn can_be_bought(quantity: &Resources) -> Result<(), Problem> {
    size::check(quantity).map_err(|error| {
        Problem::new(Kind::Usage, error.to_string())
            .todo("say how much of each: --cpu 8 --memory 32Gi")
    })
}

pub(crate) fn pods(text: &str) -> Result<u64, SyntaxError> {
    quantity::of(&Resource::Pods, text)
}

pub(crate) fn cpu(text: &str) -> Result<u64, SyntaxError> {
    quantity::of(&Resource::Cpu, text)
}

pub(crate) fn storage(text: &str) -> Result<u64, SyntaxError> {
    quantity::of(&Resource::Storage, text)
}

pub(crate) fn memory(text: &str) -> Result<u64, SyntaxError> {
    quantity::of(&Resource::Memory, text)
}
