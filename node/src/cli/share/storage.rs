//! The storage that is shared: as options, and as `mercato share` shows it.

use clap::Args;
use mercato_broker::{Amount, SharePolicy, StoragePolicy};
use mercato_config::SyntaxError;
use mercato_protocol::resources::Resource;

use crate::admin;
use crate::cli::table::wrapped;
use crate::present::text::memory as shown;
use crate::present::unsold;

/// What is said of it on the command line.
#[derive(Args, Debug, Default)]
pub(super) struct Typed {
    /// Room for volumes of guests, by your word, such as 500Gi; or none
    #[arg(long, value_name = "BYTES", value_parser = amount)]
    storage: Option<Amount>,
    /// The StorageClass of those volumes, which buyers do not learn; or none, for the default class
    #[arg(long, value_name = "NAME")]
    storage_class: Option<String>,
    /// What buyers are told of it: ssd; or none
    #[arg(long, value_name = "WORD", value_delimiter = ',')]
    storage_kind: Vec<String>,
}

impl Typed {
    /// What is said is so from now on; what is not said stays.
    pub(super) fn say(self, policy: &mut SharePolicy) {
        match self.storage {
            Some(Amount::Exactly(0)) => drop(policy.amounts.remove(&Resource::Storage)),
            Some(amount) => drop(policy.amounts.insert(Resource::Storage, amount)),
            None => {}
        }
        if let Some(class) = self.storage_class {
            policy.storage.class = Some(class).filter(|class| class != "none");
        }
        if !self.storage_kind.is_empty() {
            let kinds = self.storage_kind.into_iter().filter(|it| it != "none");
            policy.storage.kinds = kinds.collect();
        }
    }
}

/// What the owner says of the storage that is shared, if any is.
pub(super) fn words(policy: &SharePolicy) -> Vec<(&'static str, String)> {
    let StoragePolicy { class, kinds } = &*policy.storage;
    let rows = [
        ("storage class", class.clone().unwrap_or_else(|| "the cluster's default".to_owned())),
        ("storage kind", kinds.iter().cloned().collect::<Vec<_>>().join(",")),
    ];
    let is_shared = policy.amounts.contains_key(&Resource::Storage);
    rows.into_iter().filter(|(_, said)| is_shared && !said.is_empty()).collect()
}

/// How much storage is free, which is the same in every pool; or why none is sold; and what else its
/// owner should know of it.
pub(super) fn on_sale(share: &admin::Share, policy: &SharePolicy) -> String {
    let free = share.on_sale.first().map_or(0, |sold| sold.free.storage_bytes);
    let first = match policy.amounts.get(&Resource::Storage) {
        Some(amount) if share.storage.is_there() => Some(format!(
            "storage: {} of {} free, of all pools together",
            shown(free),
            mercato_config::amount::show(&Resource::Storage, *amount)
        )),
        Some(_) | None => None,
    };
    let told = unsold::storage(policy, &share.storage).into_iter();
    first.into_iter().chain(told).map(|said| format!("{}\n", wrapped(&said, 2))).collect()
}

fn amount(text: &str) -> Result<Amount, SyntaxError> {
    if text == "none" {
        Ok(Amount::Exactly(0))
    } else {
        mercato_config::amount::of(&Resource::Storage, text)
    }
}
