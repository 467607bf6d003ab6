//! Which leases there are, and what reaches their sessions. Which there are to be is the broker's
//! to say.

mod meeting;
mod reach;

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use mercato_broker::{Desired, LeaseSpec, Side};
use mercato_gossip::limits::BAN_MS;
use mercato_offload::home::LeftOut;
use mercato_offload::{guest, home};
use mercato_protocol::id::{ClusterId, ContractId, PublicKey};
use mercato_protocol::time::Deadline;

use super::ranges::Ranges;
use super::{Lease, Session};
use crate::context::{Context, Turn};
use crate::effect::{Effect, Frame, OwnRanges};
use crate::input::{LeaseInput, LeaseNews};
use crate::peers::Peers;
use crate::record::{Change, RangeOwner, Record};
use crate::request::Request;

/// All leases, and when the first of them is next due: asked for after each input, nearly all
/// of which are gossip and touch no lease.
#[derive(Default)]
pub(crate) struct Leases {
    all: BTreeMap<ContractId, Lease>,
    /// Records of leases that the broker has not spoken of yet.
    shelved: BTreeMap<ContractId, Vec<Record>>,
    /// The records cannot be written: pods are left as they are.
    pub(super) rests: bool,
    pub(super) ranges: Ranges,
    /// What clusters with a lease say that their pods are known by.
    pub(super) of_peers: BTreeMap<ClusterId, BTreeSet<IpNet>>,
    /// Blocks of this cluster's pod network with pods that others may know.
    pub(super) own: BTreeSet<IpNet>,
    pub(super) said_own: OwnRanges,
    due: Option<Deadline>,
    touched: bool,
}

impl Leases {
    pub(crate) fn new(own: ClusterId, rests: bool) -> Self {
        Self { ranges: Ranges::of(own), rests, ..Self::default() }
    }

    /// One of the records that tell of a lease.
    pub(crate) fn restore(&mut self, contract: ContractId, record: Record) {
        self.shelved.entry(contract).or_default().push(record);
    }

    /// Of the leases of `before` all go on but these, which begin anew from the records that there are.
    pub(crate) fn keep(&mut self, before: Self, ahead: &BTreeSet<ContractId>) {
        let restored = std::mem::replace(self, before);
        self.all.retain(|contract, _| !ahead.contains(contract));
        let shelved = restored.shelved.into_iter();
        self.shelved.extend(shelved.filter(|(contract, _)| ahead.contains(contract)));
        self.touched = true;
    }

    /// A range that was given of the pool.
    pub(crate) fn restore_range(&mut self, owner: RangeOwner, range: IpNet) {
        if let RangeOwner::Peer(cluster, told) = owner {
            self.of_peers.entry(cluster).or_default().insert(told);
        }
        self.ranges.restore(owner, range);
    }

    /// Erases what no lease stands for any more, once the broker has spoken of all.
    pub(crate) fn drop_shelved(&mut self, turn: &mut Turn<'_>) {
        self.drop_ranges(turn);
        let records = std::mem::take(&mut self.shelved).into_values().flatten();
        turn.note(records.map(|record| Change::Erase(record.key())));
    }

    pub(crate) fn handle(&mut self, id: ContractId, input: LeaseInput, turn: &mut Turn<'_>) {
        let rests = self.rests;
        let Some(lease) = self.get_mut(&id) else { return };
        match input {
            // It could not be kept, and is told again once records can be written.
            LeaseInput::News(_) if rests => {}
            LeaseInput::News(news) => turn.extend(on_news(lease, news, turn.context.peers)),
            LeaseInput::Frame { peer, .. } if lease.key != peer => {}
            LeaseInput::Tunnel(news) => lease.hear_of_tunnel(news, turn),
            LeaseInput::Home(input) => {
                lease.handle_home(turn.now, input, &mut turn.out);
                self.settle(id, turn);
            }
            LeaseInput::Guest(input) => {
                let before = turn.out.len();
                lease.handle_guest(turn.now, input, &mut turn.out);
                self.know_guests(id, before, turn);
                self.settle(id, turn);
            }
            LeaseInput::Frame { frame, .. } => match (lease.spec.side, frame) {
                (Side::Consumer, Frame::ToHome(frame)) => {
                    let input = LeaseInput::Home(home::Input::Frame(frame));
                    self.handle(id, input, turn);
                }
                (Side::Provider, Frame::ToGuest(frame)) => {
                    lease.hear_names(&frame, turn.context.peers.name(&lease.key));
                    self.name_namespaces(id, turn);
                    let input = LeaseInput::Guest(guest::Input::Frame(frame));
                    self.handle(id, input, turn);
                }
                (Side::Consumer, Frame::ToGuest(_)) | (Side::Provider, Frame::ToHome(_)) => {}
            },
        }
    }

    /// Whether the broker speaks of a lease that has to be made.
    pub(crate) fn is_new(&self, spec: &LeaseSpec) -> bool {
        let id = spec.contract.id;
        let begins = spec.desired != Desired::Gone || self.shelved.contains_key(&id);
        begins && !self.all.contains_key(&id)
    }

    /// The broker says how a lease is to be.
    pub(crate) fn set_spec(&mut self, spec: LeaseSpec, turn: &mut Turn<'_>) {
        let (id, gone) = (spec.contract.id, spec.desired == Desired::Gone);
        if self.get(&id).is_some_and(|lease| lease.spec == spec) {
            return self.settle(id, turn);
        }
        if self.is_new(&spec) {
            let records = self.shelved.remove(&id).unwrap_or_default();
            let mut lease = Lease::restore(spec, records, self.rests);
            let cluster = lease.peer().cluster;
            lease.key = turn.context.peers.key(&cluster).unwrap_or(lease.key);
            turn.push(Request::KeepConnected(cluster));
            let key = lease.key;
            self.all.insert(id, lease);
            self.reach(id, turn);
            if turn.context.peers.connected().contains_key(&key)
                && let Some(lease) = self.all.get_mut(&id)
            {
                lease.link(turn.now, true, &mut turn.out);
            }
        } else if let Some(lease) = self.all.get_mut(&id) {
            let more = spec.contract.terms.quantity.pods > lease.spec.contract.terms.quantity.pods;
            lease.spec = spec;
            if more {
                self.reach(id, turn);
            }
        }
        let Some(lease) = self.get_mut(&id) else { return };
        if gone {
            turn.push(Effect::Forget(id));
            lease.retire(turn.now, &mut turn.out);
            turn.push(Request::KeepConnected(lease.peer().cluster));
        }
        self.name_own_ranges(turn);
        self.settle(id, turn);
    }

    /// The link to a cluster has come up, or gone.
    pub(crate) fn link(&mut self, peer: ClusterId, up: bool, turn: &mut Turn<'_>) {
        for lease in self.with_mut(&peer) {
            if up {
                lease.away.hear(turn.now, None);
            }
            lease.reconcile(turn);
            lease.link(turn.now, up, &mut turn.out);
        }
    }

    /// A peer has not been heard for so long, in ms, or is heard again.
    pub(crate) fn hear(&mut self, peer: PublicKey, for_ms: Option<u64>, turn: &mut Turn<'_>) {
        self.touched = true;
        for lease in self.all.values_mut().filter(|lease| lease.key == peer) {
            lease.away.hear(turn.now, for_ms);
            let input = for_ms.map_or(home::Input::Heard, |for_ms| home::Input::Silent { for_ms });
            lease.handle_home(turn.now, input, &mut turn.out);
            lease.reconcile(turn);
        }
    }

    /// The other side of these leases has changed its key.
    pub(crate) fn rekey(&mut self, cluster: ClusterId, key: PublicKey, turn: &mut Turn<'_>) {
        turn.push(Request::KeepConnected(cluster));
        for lease in self.with_mut(&cluster) {
            lease.key = key;
            lease.reconcile(turn);
        }
    }

    /// Has each lease do what is due by now.
    pub(crate) fn tick(&mut self, turn: &mut Turn<'_>) {
        let due = self.all.values().filter(|lease| lease.is_to_wake(turn.now));
        for id in due.map(Lease::id).collect::<Vec<_>>() {
            self.name_namespaces(id, turn);
            if let Some(lease) = self.get_mut(&id) {
                lease.wake(turn.now, &mut turn.out);
            }
            self.settle(id, turn);
        }
    }

    /// When the first is next due.
    pub(crate) fn wakeup(&self) -> Option<Deadline> {
        self.due
    }

    /// To be called once what was touched is as it is to be.
    pub(crate) fn update_wakeup(&mut self) {
        if std::mem::take(&mut self.touched) {
            // All of one clock.
            self.due = self.all.values().filter_map(Lease::wakeup).min();
        }
    }

    /// Each lease with the side that this cluster is on, and how many pods it has.
    pub(crate) fn pods(&self) -> impl Iterator<Item = (ContractId, Side, usize)> {
        self.all.values().map(|lease| (lease.id(), lease.spec.side, lease.pods()))
    }

    /// Services that pods of this cluster elsewhere do without, since their namespaces have more than a provider
    /// takes: by namespace, whatever lease its pods are of.
    pub(crate) fn left_out(&self) -> BTreeMap<&str, &LeftOut> {
        let all = self.all.values().filter_map(|lease| match &lease.session {
            Session::Home(session) => Some(session.left_out()),
            Session::Guest(_) | Session::Resting => None,
        });
        all.flatten().map(|(namespace, left_out)| (namespace.as_str(), left_out)).collect()
    }

    /// The leases with a cluster.
    pub(crate) fn with(&self, cluster: &ClusterId) -> impl Iterator<Item = &Lease> {
        self.all.values().filter(move |lease| lease.peer().cluster == *cluster)
    }

    /// The clusters with which there are leases.
    pub(crate) fn clusters(&self) -> BTreeSet<ClusterId> {
        self.all.values().map(|lease| lease.peer().cluster).collect()
    }

    /// Whether anything is left of a lease with a cluster.
    pub(crate) fn need(&self, cluster: &ClusterId) -> bool {
        self.with(cluster).any(|lease| !lease.is_retired())
    }

    /// What keeps a peer away for as long as gossip takes nothing more from it; none: a contract
    /// needs it.
    pub(crate) fn refusal(
        &self,
        peer: PublicKey,
        cluster: Option<ClusterId>,
        context: Context<'_>,
    ) -> Option<Effect> {
        let is_needed = |cluster: ClusterId| {
            self.need(&cluster) || context.contracts().any(|deal| deal.peer() == cluster)
        };
        (!cluster.is_some_and(is_needed)).then_some(Effect::Refuse(peer, BAN_MS))
    }

    pub(super) fn ids(&self, of: impl Fn(&Lease) -> bool) -> Vec<ContractId> {
        self.all.values().filter(|lease| of(lease)).map(Lease::id).collect()
    }

    pub(super) fn get(&self, id: &ContractId) -> Option<&Lease> {
        self.all.get(id)
    }

    fn with_mut(&mut self, cluster: &ClusterId) -> impl Iterator<Item = &mut Lease> {
        self.touched = true;
        self.all.values_mut().filter(move |lease| lease.peer().cluster == *cluster)
    }

    pub(super) fn get_mut(&mut self, id: &ContractId) -> Option<&mut Lease> {
        self.touched = true;
        self.all.get_mut(id)
    }

    /// Names the guest namespaces that are to be named, before anything is done in them: not while
    /// that cannot be kept.
    fn name_namespaces(&mut self, id: ContractId, turn: &mut Turn<'_>) {
        if self.rests || !self.all.get(&id).is_some_and(Lease::is_to_name) {
            return;
        }
        let others = self.all.values().filter(|other| other.id() != id && !other.is_retired());
        let taken: BTreeSet<String> =
            others.flat_map(|other| other.namespaces.values().cloned()).collect();
        let Some(lease) = self.get_mut(&id) else { return };
        let named =
            lease.name(turn.now, turn.context.peers.name(&lease.key), &taken, &mut turn.out);
        lease.reconcile(turn);
        for home in named {
            lease.handle_guest(turn.now, guest::Input::Moved(home), &mut turn.out);
        }
    }

    /// A lease that is being drained may have become empty; one that is over, done.
    fn settle(&mut self, id: ContractId, turn: &mut Turn<'_>) {
        let Some(lease) = self.get_mut(&id) else { return };
        if !lease.is_done(turn.now) {
            return lease.reconcile(turn);
        }
        if let Some(lease) = self.all.remove(&id) {
            let cluster = lease.peer().cluster;
            lease.erase(&mut turn.out);
            let guests = self.ranges.of_guests(id).map(|range| RangeOwner::Guests(id, range));
            for owner in guests.chain([RangeOwner::Lease(id)]).collect::<Vec<_>>() {
                turn.note(self.ranges.give_back(owner));
            }
            self.forget_ranges(cluster, turn);
            turn.push(Effect::CloseStreams(id));
            turn.push(Request::KeepConnected(cluster));
        }
    }
}

/// What the broker is to hear of how the lease's part in this cluster is.
fn on_news(lease: &Lease, news: LeaseNews, peers: &Peers) -> Option<Request> {
    let contract = lease.id();
    let input = match (lease.spec.side, news) {
        // A cluster may have rules for names: the guests of one that home has chosen wait.
        (Side::Provider, LeaseNews::Failed(_)) if !lease.names_are_ours(peers.name(&lease.key)) => {
            return None;
        }
        (Side::Consumer, LeaseNews::Ready) => mercato_broker::Input::Usable(contract),
        (Side::Provider, LeaseNews::Failed(why)) => {
            mercato_broker::Input::Unprovidable(contract, why)
        }
        (_, LeaseNews::Removed) => mercato_broker::Input::CleanedUp(contract),
        (Side::Provider, LeaseNews::Ready) | (Side::Consumer, LeaseNews::Failed(_)) => {
            return None;
        }
    };
    Some(Request::Broker(input))
}
