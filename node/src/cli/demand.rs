//! What a buyer wants, as options: for `browse` and `order`.

use clap::Args;
use mercato_broker::{Demand, Rate};
use mercato_config::{Gpus, Seconds, SyntaxError, quantity};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::Class;

use super::lookup;
use super::text::{text, word};
use crate::admin::{Desk, Problem};

/// Enough pods for most of what a namespace runs, and few enough for most providers.
const PODS: u64 = 20;

#[derive(Args, Debug, Default)]
pub(crate) struct Wanted {
    /// Processors: 8, 500m
    #[arg(long, value_name = "N", value_parser = cpu)]
    cpu: Option<u64>,
    /// Memory: 32Gi
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    memory: Option<u64>,
    /// GPUs by model: h100=2
    #[arg(long, value_name = "MODEL=N", value_parser = text::<Gpus>)]
    gpu: Option<Gpus>,
    /// Pods at once
    #[arg(long, value_name = "N", default_value_t = PODS)]
    pods: u64,
    /// reserved is really held; spot may be taken back at once [default: whichever is offered]
    #[arg(long, value_parser = word::<Class>(&["spot", "reserved"]))]
    class: Option<Class>,
    /// The most that is paid: '3 EUR/h'
    #[arg(long, value_name = "RATE", value_parser = text::<Rate>)]
    max_price: Option<Rate>,
    /// From this provider and no other: its name, or the beginning of its id
    #[arg(long, value_name = "PROVIDER")]
    from: Option<String>,
}

impl Wanted {
    /// The demand for a term; none: nothing was asked for in particular.
    pub(crate) async fn demand(
        self,
        desk: &dyn Desk,
        term: Option<Seconds>,
    ) -> Result<Option<Demand>, Problem> {
        let any = self.cpu.is_some() || self.memory.is_some() || self.gpu.is_some();
        let narrow = self.class.is_some() || self.max_price.is_some() || self.from.is_some();
        if !any && !narrow && term.is_none() {
            return Ok(None);
        }
        let from = match &self.from {
            Some(from) => Some(lookup::cluster(desk, from).await?.cluster),
            None => None,
        };
        let quantity = Resources {
            cpu_millis: self.cpu.unwrap_or(0),
            memory_bytes: self.memory.unwrap_or(0),
            pods: self.pods,
            gpus: self.gpu.unwrap_or_default().0,
        };
        let Seconds(term_s) = term.unwrap_or(Seconds(3_600));
        let (class, max_price) = (self.class, self.max_price);
        Ok(Some(Demand { quantity, term_s, class, max_price, from }))
    }
}

fn cpu(text: &str) -> Result<u64, SyntaxError> {
    quantity::of(&Resource::Cpu, text)
}

fn memory(text: &str) -> Result<u64, SyntaxError> {
    quantity::of(&Resource::Memory, text)
}
