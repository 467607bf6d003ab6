//! The broker: the one value that joins book, ledger, offer, deals and meters.

use std::collections::BTreeMap;

use mercato_protocol::id::NegotiationId;
use mercato_protocol::time::{Deadline, Now};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng as _;

use crate::config::Config;
use crate::deal::Deal;
use crate::effect::Effect;
use crate::input::Input;
use crate::policy::SharePolicy;
use crate::record::Record;
use crate::trust::Peers;

/// The market's side of one cluster.
#[derive(Debug)]
pub struct Broker {
    config: Config,
    rng: ChaCha12Rng,
    deals: BTreeMap<NegotiationId, Deal>,
    peers: Peers,
    share: Option<SharePolicy>,
}

impl Broker {
    /// The broker that these records tell of. The first `handle` says again all that
    /// they imply.
    pub fn restore(config: Config, seed: u64, records: impl IntoIterator<Item = Record>) -> Self {
        let _ = records;
        Self {
            config,
            rng: ChaCha12Rng::seed_from_u64(seed),
            deals: BTreeMap::new(),
            peers: Peers::default(),
            share: None,
        }
    }

    /// Takes what happened; says what is to be done, in order.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let _ = (now, input);
        Vec::new()
    }

    /// When it wants to be called again, at the latest.
    pub fn wakeup(&self) -> Option<Deadline> {
        None
    }
}
