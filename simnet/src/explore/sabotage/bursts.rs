//! Bugs of what is bought by itself, at what an agent hears of its pods and at what it keeps of its deals.

#![expect(clippy::wildcard_enum_match_arm, reason = "a bug concerns few words of many")]

use std::collections::{BTreeMap, BTreeSet};

use ciborium::Value;
use mercato_agent::{BrokerInput, Change, Effect, Input, Record};
use mercato_broker as broker;
use mercato_broker::{NodeUse, PodDemand, burst_of};
use mercato_protocol::id::ContractId;

/// What was seen of clusters that buy by themselves.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What each was told of its pods last.
    demands: BTreeMap<usize, PodDemand>,
    /// What each cluster has bought so far.
    bought: BTreeSet<(usize, ContractId)>,
}

impl Seen {
    /// Takes note of what is bought.
    pub(super) fn look(&mut self, at: usize, answer: &[Effect]) {
        let bought = answer.iter().filter_map(|effect| match effect {
            Effect::Persist(Change::Put(Record::Broker(broker::Record::Deal(deal)))) => {
                burst_of(deal).map(|_| (at, deal.id().into()))
            }
            _ => None,
        });
        self.bought.extend(bought);
    }

    /// Nodes that are still to come are taken to be there.
    pub(super) fn all_there(&mut self, at: usize, input: Input) -> Vec<Input> {
        match input {
            Input::Broker(BrokerInput::Pending(demand)) => {
                let told = self.with_nodes(at, &demand);
                self.demands.insert(at, *demand);
                vec![told]
            }
            input @ Input::Broker(BrokerInput::Message(_)) => {
                let told = self.demands.get(&at).map(|demand| self.with_nodes(at, demand));
                told.into_iter().chain([input]).collect()
            }
            other => vec![other],
        }
    }

    fn with_nodes(&self, at: usize, demand: &PodDemand) -> Input {
        let mut demand = demand.clone();
        for (_, contract) in self.bought.iter().filter(|(place, _)| *place == at) {
            demand.nodes.entry(*contract).or_insert(NodeUse { open: true, pods: 1 });
        }
        Input::Broker(BrokerInput::Pending(Box::new(demand)))
    }
}

/// Every node seems to have a pod.
pub(super) fn all_used(mut input: Input) -> Input {
    if let Input::Broker(BrokerInput::Pending(demand)) = &mut input {
        demand.nodes.values_mut().for_each(|node| node.pods = node.pods.max(1));
    }
    input
}

/// That a lease was bought by itself is not kept.
pub(super) fn unmarked(effect: Effect) -> Effect {
    match &effect {
        Effect::Persist(Change::Put(record @ Record::Broker(broker::Record::Deal(deal))))
            if deal.is_leased() && burst_of(deal).is_some() =>
        {
            let bytes = record.to_bytes();
            let mut value: Value =
                ciborium::from_reader(&bytes[..]).expect("a record is of that form");
            forget(&mut value, "burst");
            let mut bytes = Vec::new();
            ciborium::into_writer(&value, &mut bytes).expect("a vector takes all");
            let record = Record::from_bytes(&bytes).expect("a mark may be left out");
            Effect::Persist(Change::Put(record))
        }
        _ => effect,
    }
}

fn forget(value: &mut Value, name: &str) {
    match value {
        Value::Map(entries) => {
            entries.retain(|(key, _)| key.as_text() != Some(name));
            entries.iter_mut().for_each(|(_, value)| forget(value, name));
        }
        Value::Array(all) => all.iter_mut().for_each(|value| forget(value, name)),
        _ => {}
    }
}
