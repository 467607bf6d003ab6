//! What is said between the task that keeps the tunnel and the connections of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use ipnet::IpNet;
use mercato_protocol::codec::CodecError;
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::node::{
    Draft, FromNode, NodeGuest, NodeLease, NodeState, NodeWay, ServiceAddress, Snapshot, ToNode,
};
use tokio::sync::watch;

use super::names::SaidNames;

/// What a node's connection tells.
#[derive(Debug)]
pub(crate) enum NodeEvent {
    /// The node is there. Of several connections of one node the latest counts.
    Joined {
        node: String,
        connection: u64,
        /// The address of the pool that is in force there.
        held: Option<IpAddr>,
        /// Takes what the node is to have; dropped, it ends the connection.
        orders: watch::Sender<Order>,
    },
    /// How it is with what it was told.
    State { node: String, connection: u64, state: NodeState },
    /// The connection of the node has ended.
    Left { node: String, connection: u64 },
}

/// What a node says of itself; none: it is another word. How often it has mended rules is known from then on.
pub(super) fn state(word: FromNode) -> Option<NodeState> {
    let FromNode::State(state) = word else { return None };
    let mended = state.mended.or(Some(0));
    Some(NodeState { mended, ..state })
}

/// What a node is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nothing is said to it yet.
    Wait,
    /// To have all of this, and nothing else; with these names of leases.
    Have(Arc<Wish>, WishNames),
    /// To leave its machine alone.
    Own,
    /// To go, and why it has to.
    Refuse(String),
}

/// The names of the leases whose guests ask a node.
pub(crate) type WishNames = Arc<BTreeMap<ContractId, Arc<SaidNames>>>;

/// All that a node should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Larger than those of all before.
    pub(crate) version: u64,
    pub(crate) way: Option<NodeWay>,
    pub(crate) leases: Vec<WishLease>,
    /// Addresses of pods there that are no guests to be closed.
    pub(crate) others: BTreeSet<IpAddr>,
    /// What of this cluster's own no guest reaches, whatever its egress.
    pub(crate) never: Arc<BTreeSet<IpNet>>,
    /// Of these leases, those that no message has, and why.
    untold: BTreeMap<ContractId, CodecError>,
}

/// What a lease needs of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WishLease {
    pub(crate) id: ContractId,
    /// When it ends, by the wall clock.
    pub(crate) until_ms: u64,
    pub(crate) ranges: Arc<Vec<IpNet>>,
    pub(crate) pods: BTreeSet<IpAddr>,
    /// Whether these pods are guests: then they alone call the ranges.
    pub(crate) guests: bool,
    /// The guests that are closed.
    pub(crate) closed: BTreeSet<NodeGuest>,
    /// The addresses of the lease's Services, which they reach.
    pub(crate) services: Arc<BTreeSet<ServiceAddress>>,
    /// The guests on the node that are told the lease's names.
    pub(crate) askers: BTreeSet<IpAddr>,
    /// Whom those that are closed reach beyond clusters.
    pub(crate) egress: Egress,
}

/// What was said last on a connection, so that nothing is said twice.
#[derive(Default)]
pub(super) struct Told {
    version: Option<u64>,
    /// The numbers of the names that were said last of each lease.
    names: BTreeMap<ContractId, u64>,
}

/// What is said at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A message for this node alone,
    Say(Box<ToNode>),
    /// or a frame that others hear too.
    Said(Bytes),
}

impl Word {
    pub(super) fn say(message: ToNode) -> Self {
        Self::Say(Box::new(message))
    }

    /// Nothing is said after it.
    pub(super) fn is_last(&self) -> bool {
        match self {
            Self::Say(message) => matches!(**message, ToNode::Refused { .. }),
            Self::Said(_) => false,
        }
    }
}

impl Told {
    /// What is to be said of an order, at this time, in this order.
    pub(super) fn words(&mut self, order: &Order, wall_ms: u64) -> Vec<Word> {
        let (wish, names) = match order {
            Order::Wait => return Vec::new(),
            Order::Own => return vec![Word::say(ToNode::Own)],
            Order::Refuse(text) => return vec![Word::say(refused(text))],
            Order::Have(wish, names) => (wish, names),
        };
        let is_new = self.version.replace(wish.version) != Some(wish.version);
        let mut words = Vec::new();
        if is_new {
            words.push(Word::say(ToNode::Snapshot(wish.at(wall_ms))));
        }
        // The node forgets the names of a lease that a snapshot does not have.
        let asking = wish.told().filter(|lease| !lease.askers.is_empty());
        let asking: BTreeSet<ContractId> = asking.map(|lease| lease.id).collect();
        let has = |id: &ContractId| asking.contains(id);
        self.names.retain(|id, _| has(id));
        for (id, said) in names.iter().filter(|(id, _)| has(id)) {
            let known = self.names.insert(*id, said.number());
            if known != Some(said.number()) {
                words.extend(said.frame(known).map(Word::Said));
            }
        }
        words
    }
}

impl Wish {
    /// Of that version, which is all of this, as far as a message has it.
    pub(crate) fn new(
        version: u64,
        way: Option<NodeWay>,
        leases: Vec<WishLease>,
        others: BTreeSet<IpAddr>,
        never: Arc<BTreeSet<IpNet>>,
    ) -> Self {
        let mut this = Self { version, way, leases, others, never, untold: BTreeMap::new() };
        // As before the end of any.
        (_, this.untold) = this.put_together(0);
        this
    }

    /// The leases of which the node is told.
    pub(crate) fn told(&self) -> impl Iterator<Item = &WishLease> {
        self.leases.iter().filter(|lease| !self.untold.contains_key(&lease.id))
    }

    /// Those of which it is not, and why.
    pub(crate) fn untold(&self) -> &BTreeMap<ContractId, CodecError> {
        &self.untold
    }

    /// As it is said at this time, to which leases that have ended do not belong.
    pub(crate) fn at(&self, wall_ms: u64) -> Snapshot {
        self.put_together(wall_ms).0
    }

    /// As it is at this time, with why the leases are left out that no message may have.
    fn put_together(&self, wall_ms: u64) -> (Snapshot, BTreeMap<ContractId, CodecError>) {
        let (way, mut untold) = (self.way.clone(), BTreeMap::new());
        let others = if way.is_some() { self.others.clone() } else { BTreeSet::new() };
        let left = self.leases.iter().filter(|lease| way.is_some() && lease.until_ms > wall_ms);
        let mut draft = Draft::new(self.version, way.clone(), others);
        for lease in left {
            if let Err(error) = draft.put(lease.id, lease.at(wall_ms), &lease.ranges) {
                untold.insert(lease.id, error);
            }
        }
        (draft.finish(&self.never), untold)
    }
}

impl WishLease {
    /// As it is at this time, which is before its end; its ranges are the snapshot's to say.
    fn at(&self, wall_ms: u64) -> NodeLease {
        NodeLease {
            left_ms: self.until_ms - wall_ms,
            ranges: BTreeSet::new(),
            pods: self.pods.clone(),
            guests: self.guests,
            closed: self.closed.clone(),
            services: (*self.services).clone(),
            askers: self.askers.clone(),
            egress: self.egress.clone(),
        }
    }
}

/// A refusal, as much of it as may be said.
pub(super) fn refused(text: &str) -> ToNode {
    let end = text.floor_char_boundary(mercato_protocol::limits::LINE_BYTES);
    ToNode::Refused { text: text[..end].to_owned() }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::codec::Message as _;
    use mercato_protocol::names::LeaseNames;

    use super::*;

    fn way() -> NodeWay {
        let address = |text: &str| text.parse().unwrap();
        NodeWay {
            pool: "10.200.0.0/13".parse().unwrap(),
            address: address("10.203.7.9"),
            machine: address("192.0.2.9"),
            gateway: address("10.203.7.0"),
            gateway_machine: address("192.0.2.8"),
            vni: 7_475,
            port: 7_477,
            mtu: 1_420,
            pool_v6: None,
            gate: 7_479,
            names: None,
        }
    }

    fn lease(id: ContractId) -> WishLease {
        WishLease {
            id,
            until_ms: 9_000,
            ranges: Arc::default(),
            pods: BTreeSet::new(),
            guests: true,
            closed: BTreeSet::new(),
            services: Arc::default(),
            askers: BTreeSet::new(),
            egress: Egress::None,
        }
    }

    fn wish(version: u64, leases: Vec<WishLease>) -> Wish {
        Wish::new(version, Some(way()), leases, BTreeSet::new(), Arc::default())
    }

    #[test]
    fn a_lease_that_no_message_may_have_keeps_no_other_out() {
        let ids = [1, 2, 3].map(|id| ContractId([id; 16]));
        let [one, wrong, other] = ids.map(lease);
        // Nobody is closed who would reach it.
        let here = [10, 96, 0, 7].into();
        let services = Arc::new([ServiceAddress { here, home: None }].into());
        let leases = vec![one, WishLease { services, ..wrong }, other];
        let wish = wish(3, leases);
        let said = ToNode::Snapshot(wish.at(1_000)).to_bytes().unwrap();
        let ToNode::Snapshot(heard) = ToNode::from_bytes(&said).unwrap() else { panic!() };
        assert_eq!(heard.leases.keys().collect::<Vec<_>>(), [&ids[0], &ids[2]]);
        let untold = wish.untold()[&ids[1]].to_string();
        assert_eq!((wish.untold().len(), untold.as_str()), (1, "a Service for nobody"));
        assert!(wish.told().all(|lease| lease.id != ids[1]));
    }

    #[test]
    fn a_lease_that_has_ended_is_not_said() {
        let range = |text: &str| -> IpNet { text.parse().unwrap() };
        let [first, second] = ["10.201.3.0/25", "10.201.4.0/25"].map(range);
        let lease = |id, until_ms, ranges: &[IpNet]| WishLease {
            until_ms,
            ranges: Arc::new(ranges.to_vec()),
            ..lease(ContractId([id; 16]))
        };
        let leases = vec![
            lease(1, 1_000, &[first]),
            lease(2, 5_000, &[second]),
            lease(3, 6_000, &[first, second]),
        ];
        let wish = wish(3, leases);
        let said = wish.at(2_000);
        let left: Vec<_> =
            said.leases.values().map(|lease| (lease.left_ms, lease.ranges.clone())).collect();
        assert_eq!(left, [(3_000, [0].into()), (4_000, [0, 1].into())]);
        assert_eq!(said.ranges, [second, first], "each is said once");
        assert_eq!(Told::default().words(&Order::Wait, 0), []);
    }

    #[test]
    fn names_are_said_after_their_snapshot_and_once() {
        let id = ContractId([5; 16]);
        let names = |domain: &str| {
            let (domains, namespaces, own) = (vec![domain.to_owned()], vec![], vec![]);
            let (is_part, forwards, api) = (false, true, None);
            let lease = id;
            let ranges = vec![];
            Arc::new(LeaseNames { lease, domains, is_part, forwards, namespaces, api, own, ranges })
        };
        let asking = |version, asks| {
            let askers = [IpAddr::from([10, 42, 0, 7])].into_iter().filter(|_| asks).collect();
            let leases = vec![WishLease { askers, ..lease(id) }];
            Arc::new(wish(version, leases))
        };
        let a = Arc::new(SaidNames::new(1, names("a.example"), None));
        let b = Arc::new(SaidNames::new(2, names("b.example"), Some(&a)));
        let c = Arc::new(SaidNames::new(3, names("c.example"), Some(&b)));
        let d = Arc::new(SaidNames::new(4, names("d.example"), Some(&c)));
        let mut told = Told::default();
        let mut said = |version, asks, names: &Arc<SaidNames>| {
            let names = WishNames::new([(id, names.clone())].into());
            let words = told.words(&Order::Have(asking(version, asks), names), 1_000);
            let kind = |word: &Word| match word {
                Word::Say(_) => "snapshot",
                Word::Said(frame) => match ToNode::from_bytes(&frame[4..]).unwrap() {
                    ToNode::Names { .. } => "names",
                    ToNode::NamesChange(_) => "a change",
                    ToNode::Snapshot(_) | ToNode::Heard | ToNode::Own | ToNode::Refused { .. } => {
                        "another"
                    }
                },
            };
            words.iter().map(kind).collect::<Vec<_>>()
        };
        assert_eq!(said(1, true, &a), ["snapshot", "names"]);
        assert_eq!(said(1, true, &a), [""; 0], "nothing has changed");
        assert_eq!(said(1, true, &b), ["a change"]);
        assert_eq!(said(2, true, &b), ["snapshot"]);
        assert_eq!(said(3, false, &b), ["snapshot"], "the node forgets them");
        assert_eq!(said(4, true, &b), ["snapshot", "names"]);
        assert_eq!(said(4, true, &d), ["names"], "it has missed some");
        assert_eq!(Told::default().words(&Order::Own, 0), [Word::say(ToNode::Own)]);
    }
}
