//! Which leases there are, and what reaches their sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

use mercato_broker::{Desired, LeaseSpec, Side};
use mercato_offload::{guest, home};
use mercato_protocol::id::{ClusterId, ContractId, PublicKey};
use mercato_protocol::time::{Deadline, Now};

use crate::agent::Agent;
use crate::effect::{Effect, Frame};
use crate::input::LeaseNews;
use crate::lease::Lease;

/// All leases, and when the first of them is next due: asked for after each input, nearly all
/// of which are gossip and touch no lease.
#[derive(Default)]
pub(crate) struct Leases {
    all: BTreeMap<ContractId, Lease>,
    due: Option<Deadline>,
    touched: bool,
}

impl Leases {
    /// To be called once what was touched is as it is to be.
    pub(crate) fn look(&mut self) {
        if std::mem::take(&mut self.touched) {
            // All of one clock.
            self.due = self.all.values().filter_map(Lease::wakeup).min();
        }
    }

    /// When the first is next due, as of the last look.
    pub(crate) fn wakeup(&self) -> Option<Deadline> {
        self.due
    }
}

impl Deref for Leases {
    type Target = BTreeMap<ContractId, Lease>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl DerefMut for Leases {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.touched = true;
        &mut self.all
    }
}

impl Agent {
    /// The broker says how a lease is to be.
    pub(crate) fn on_spec(&mut self, now: Now, spec: LeaseSpec, out: &mut Vec<Effect>) {
        let id = spec.contract.id;
        let gone = spec.desired == Desired::Gone;
        if gone && !self.leases.contains_key(&id) && !self.shelved.contains_key(&id) {
            return;
        }
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.spec = spec;
        } else {
            let records = self.shelved.remove(&id).unwrap_or_default();
            let lease = Lease::restore(spec, records, self.degraded.is_some());
            let party = lease.peer().clone();
            self.leases.insert(id, lease);
            self.meet_party(now, party.cluster, party.key, out);
            let key = self.peers.key(&party.cluster).unwrap_or(party.key);
            if let Some(lease) = self.leases.get_mut(&id) {
                lease.key = key;
            }
            self.hold(now, party.cluster, out);
            self.desire(now, id, out);
            if self.peers.connected().contains_key(&key)
                && let Some(lease) = self.leases.get_mut(&id)
            {
                lease.link(now, true, out);
            }
        }
        if gone {
            out.push(Effect::Forget(id));
            if let Some(lease) = self.leases.get_mut(&id) {
                lease.retire(now, out);
                let cluster = lease.peer().cluster;
                self.hold(now, cluster, out);
            }
        }
        self.settle(now, id, out);
    }

    fn forget(&mut self, now: Now, id: ContractId, out: &mut Vec<Effect>) {
        let Some(lease) = self.leases.remove(&id) else { return };
        let cluster = lease.peer().cluster;
        lease.erase(out);
        self.hold(now, cluster, out);
    }

    /// Says how a lease is to be, as long as anything of it is left.
    fn desire(&mut self, now: Now, id: ContractId, out: &mut Vec<Effect>) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if lease.spec.desired == Desired::Gone {
            return;
        }
        let owner = self.peers.connected().get(&lease.key);
        let name = owner.map(|owner| owner.name.clone());
        lease.desire(now, owner.is_some(), name, out);
    }

    pub(crate) fn link_leases(
        &mut self,
        now: Now,
        peer: ClusterId,
        up: bool,
        out: &mut Vec<Effect>,
    ) {
        let of_peer = |lease: &&Lease| lease.peer().cluster == peer;
        let ids: Vec<ContractId> = self.leases.values().filter(of_peer).map(Lease::id).collect();
        for id in ids {
            self.desire(now, id, out);
            if let Some(lease) = self.leases.get_mut(&id) {
                lease.link(now, up, out);
            }
        }
    }

    /// The other side of these leases has changed its key.
    pub(crate) fn rekey_leases(
        &mut self,
        now: Now,
        cluster: ClusterId,
        key: PublicKey,
        out: &mut Vec<Effect>,
    ) {
        let of_peer = |lease: &&mut Lease| lease.peer().cluster == cluster;
        let leases = self.leases.values_mut().filter(of_peer);
        let ids: Vec<ContractId> = leases.map(|lease| lease.rekey(key)).collect();
        self.hold(now, cluster, out);
        for id in ids {
            self.desire(now, id, out);
        }
    }

    pub(crate) fn wake_leases(&mut self, now: Now, out: &mut Vec<Effect>) {
        let due = self.leases.values().filter(|lease| lease.is_to_wake(now));
        for id in due.map(Lease::id).collect::<Vec<_>>() {
            self.name_namespaces(now, id, out);
            if let Some(lease) = self.leases.get_mut(&id) {
                lease.wake(now, out);
            }
            self.settle(now, id, out);
        }
    }

    /// Only the other party of the contract, in its own role, is listened to.
    pub(crate) fn on_frame(
        &mut self,
        now: Now,
        peer: PublicKey,
        contract: ContractId,
        frame: Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(lease) = self.leases.get(&contract) else { return };
        if lease.key != peer {
            return;
        }
        match (lease.spec.side, frame) {
            (Side::Consumer, Frame::ToHome(frame)) => {
                self.on_home(now, contract, home::Input::Frame(frame), out);
            }
            (Side::Provider, Frame::ToGuest(frame)) => {
                let name = self.peer_name(&peer);
                if let Some(lease) = self.leases.get_mut(&contract) {
                    lease.hear_names(&frame, name.as_deref());
                }
                self.name_namespaces(now, contract, out);
                self.on_guest(now, contract, guest::Input::Frame(frame), out);
            }
            (Side::Consumer, Frame::ToGuest(_)) | (Side::Provider, Frame::ToHome(_)) => {}
        }
    }

    fn peer_name(&self, key: &PublicKey) -> Option<String> {
        self.peers.connected().get(key).map(|owner| owner.name.clone())
    }

    /// Names the guest namespaces that are to be named, before anything is done in them.
    fn name_namespaces(&mut self, now: Now, id: ContractId, out: &mut Vec<Effect>) {
        let Some(lease) = self.leases.get(&id).filter(|lease| lease.is_to_name()) else { return };
        let name = self.peer_name(&lease.key);
        let others = self.leases.values().filter(|other| other.id() != id && !other.is_retired());
        let taken: BTreeSet<String> =
            others.flat_map(|other| other.namespaces.values().cloned()).collect();
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let named = lease.name(now, name.as_deref(), &taken, out);
        self.desire(now, id, out);
        for home in named {
            if let Some(lease) = self.leases.get_mut(&id) {
                lease.handle_guest(now, guest::Input::Moved(home), out);
            }
        }
    }

    pub(crate) fn on_home(
        &mut self,
        now: Now,
        contract: ContractId,
        input: home::Input,
        out: &mut Vec<Effect>,
    ) {
        if let Some(lease) = self.leases.get_mut(&contract) {
            lease.handle_home(now, input, out);
        }
    }

    pub(crate) fn on_guest(
        &mut self,
        now: Now,
        contract: ContractId,
        input: guest::Input,
        out: &mut Vec<Effect>,
    ) {
        if let Some(lease) = self.leases.get_mut(&contract) {
            lease.handle_guest(now, input, out);
        }
        self.settle(now, contract, out);
    }

    /// A lease that is being drained may have become empty; one that is over, done.
    fn settle(&mut self, now: Now, id: ContractId, out: &mut Vec<Effect>) {
        if self.leases.get(&id).is_some_and(|lease| lease.is_done(now)) {
            self.forget(now, id, out);
        }
        self.desire(now, id, out);
    }

    pub(crate) fn on_lease_news(&mut self, contract: ContractId, news: LeaseNews) {
        let Some(lease) = self.leases.get(&contract) else { return };
        let names_are_ours = lease.names_are_ours(self.peer_name(&lease.key).as_deref());
        let input = match (lease.spec.side, news) {
            // A cluster may have rules for names: the guests of one that home has chosen wait.
            (Side::Provider, LeaseNews::Failed(_)) if !names_are_ours => return,
            (Side::Consumer, LeaseNews::Ready) => mercato_broker::Input::Usable(contract),
            (Side::Provider, LeaseNews::Failed(why)) => {
                mercato_broker::Input::Unprovidable(contract, why)
            }
            (_, LeaseNews::Removed) => mercato_broker::Input::CleanedUp(contract),
            (Side::Provider, LeaseNews::Ready) | (Side::Consumer, LeaseNews::Failed(_)) => return,
        };
        self.for_broker.push_back(input);
    }
}
