//! Of which leases home is told that the other end of their tunnel is silent.

use std::collections::BTreeMap;
use std::time::Duration;

use mercato_agent::{Input, LeaseInput};
use mercato_broker::Side;
use mercato_offload::home;
use mercato_protocol::id::{ClusterId, ContractId};

use crate::tunnel::words::Said;

/// What was told last: that there is silence, for which of the agent's words.
#[derive(Debug, Default)]
pub(super) struct Silences(BTreeMap<ContractId, u64>);

impl Silences {
    /// What is to be told, where the other end has been silent for so long, if it is.
    pub(super) fn look(
        &mut self,
        said: &Said,
        silent: impl Fn(ClusterId) -> Option<Duration>,
    ) -> Vec<Input> {
        self.0.retain(|id, _| said.leases.contains_key(id));
        let mut told = Vec::new();
        for (id, lease) in said.leases.iter().filter(|(_, lease)| lease.side == Side::Consumer) {
            let input = match silent(lease.cluster) {
                Some(_) if self.0.get(id) == Some(&lease.said) => continue,
                Some(silent) => {
                    self.0.insert(*id, lease.said);
                    let for_ms = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
                    home::Input::TunnelSilent { for_ms }
                }
                None if self.0.remove(id).is_some() => home::Input::TunnelHeard,
                None => continue,
            };
            told.push(Input::Lease(*id, LeaseInput::Home(input)));
        }
        told
    }
}
