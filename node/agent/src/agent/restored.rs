//! What the records tell each part of the agent.

use mercato_protocol::id::ClusterId;

use crate::lease::table::Leases;
use crate::notice::DealNews;
use crate::peers::{Keys, Peers};
use crate::record::{FederationRecord, Record, Records};

/// The records, by the part that they are of.
pub(super) struct Restored {
    pub(super) of_broker: Vec<mercato_broker::Record>,
    pub(super) of_federations: Vec<FederationRecord>,
    pub(super) leases: Leases,
    pub(super) peers: Peers,
    pub(super) news: DealNews,
}

impl Restored {
    /// Reads all of them. Leases of an agent that is degraded rest as they are.
    pub(super) fn of(own: ClusterId, records: &Records, is_degraded: bool) -> Self {
        let mut all = Self {
            of_broker: Vec::new(),
            of_federations: Vec::new(),
            leases: Leases::new(own, is_degraded),
            peers: Peers::default(),
            news: DealNews::default(),
        };
        for record in records.iter() {
            match record {
                Record::Home(id, _) | Record::Guest(id, _) | Record::Namespaces(id, _) => {
                    all.leases.restore(*id, record.clone());
                }
                Record::Federation(of) => all.of_federations.push(of.clone()),
                Record::Key(cluster, latest, replaced) => {
                    let keys = Keys { latest: *latest, replaced: replaced.clone() };
                    all.peers.restore(*cluster, keys);
                }
                Record::Range(owner, range) => all.leases.restore_range(*owner, *range),
                Record::Broker(of) => all.broker(of),
            }
        }
        all
    }

    fn broker(&mut self, record: &mercato_broker::Record) {
        self.of_broker.push(record.clone());
        match record {
            mercato_broker::Record::Peer(cluster, standing) => {
                self.peers.set_standing(*cluster, *standing);
            }
            mercato_broker::Record::Deal(deal) => self.news.restore(deal),
            mercato_broker::Record::Series { .. }
            | mercato_broker::Record::Share(_)
            | mercato_broker::Record::Buy(_)
            | mercato_broker::Record::Country(..)
            | mercato_broker::Record::Earlier(..)
            | mercato_broker::Record::Dispute(..) => {}
        }
    }
}
