//! Guests whose contract requires isolation: on which node each is, that this one closes its own, and
//! whether all nodes can, which the market needs to know.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use mercato_agent::Input;
use mercato_protocol::gate::GuestUid;
use mercato_protocol::id::ContractId;
use mercato_protocol::node::NodeGuest;

use super::{Keeper, Said};
use crate::nodes::closing::{Closing, ClosingRules, GuestRule};
use crate::tunnel::event::Event;
use crate::tunnel::nodes::{Common, GuestNodes};

impl Keeper {
    /// Where the guests are that are to be closed.
    pub(super) fn guest_nodes(&self) -> GuestNodes {
        self.closed_guests().map(|(_, guest, node)| (guest.uid, node.to_owned())).collect()
    }

    /// The guests of a lease that are to be closed.
    pub(super) fn closed_of(&self, said: &Said, id: &ContractId) -> Vec<NodeGuest> {
        let is_closed = said.leases.get(id).is_some_and(|lease| lease.is_closed);
        let all = self.closed_guests().filter(|(of, ..)| is_closed && of == id);
        all.map(|(_, guest, _)| guest).collect()
    }

    /// Those of the whole cluster: what nobody could have given a pod is passed over.
    fn closed_guests(&self) -> impl Iterator<Item = (ContractId, NodeGuest, &str)> {
        self.pods.iter().filter_map(|place| {
            let guest = place.guest.as_ref()?;
            let uid: GuestUid = guest.uid.parse().ok()?;
            let pod = place.address.filter(|_| guest.is_open);
            Some((guest.contract.parse().ok()?, NodeGuest { uid, pod }, place.node.as_str()))
        })
    }

    /// The guests of this node are closed from now on, while there is an image of gates.
    pub(super) fn mind_closing(&mut self) {
        let is_wanted = self.ground.gateway().is_ok_and(|settings| settings.nodes.has_gate);
        if is_wanted && self.closing.is_none() {
            let closing = Closing::start();
            let (mut closings, tell) = (closing.closings(), self.tell.clone());
            tokio::spawn(async move {
                while closings.changed().await.is_ok() && tell.send(Event::Guests).await.is_ok() {}
            });
            self.closing = Some(closing);
        }
    }

    /// Closes those of this node; gives the addresses of those that are.
    pub(super) fn close_own(&mut self, said: &Said, common: &Common) -> BTreeSet<IpAddr> {
        let Some(closing) = &self.closing else { return BTreeSet::new() };
        let mut guests = BTreeMap::new();
        for (id, guest, _) in self.closed_guests().filter(|it| self.nodes.is_own(it.2)) {
            let Some(lease) = said.leases.get(&id).filter(|lease| lease.is_closed) else {
                continue;
            };
            let ranges = lease.ranges.iter().map(|range| range.local).collect();
            let reached = Arc::new(self.second.ranges(ranges));
            guests.insert(guest.uid, GuestRule { pod: guest.pod, reached });
        }
        closing.rule(ClosingRules { port: common.gate, guests });
        closing.closings().borrow().addresses.clone()
    }

    /// Whether guests are closed wherever they may run.
    pub(super) async fn tell_isolation(&mut self) {
        let now = self.open_nodes().is_empty();
        if self.isolates != Some(now) {
            if self.isolates.is_some() || now {
                tracing::info!(closed = now, "whether all nodes close guests");
            }
            self.isolates = Some(now);
            self.driver.tell(Input::Isolation(now)).await;
        }
    }

    /// Why guests are not closed, by the nodes on which they are not.
    pub(super) fn open_nodes(&self) -> BTreeMap<String, String> {
        let here = |why: &str| BTreeMap::from([(self.nodes.own_name(), why.to_owned())]);
        let settings = match self.ground.gateway() {
            Ok(settings) => settings,
            Err(why) => return here(why),
        };
        let closing = match &self.closing {
            Some(closing) if settings.nodes.has_gate => closing.closings(),
            Some(_) | None => return here(NO_IMAGE),
        };
        let mut open = self.nodes.open();
        let own = closing.borrow().trouble.clone();
        open.extend(own.map(|why| (self.nodes.own_name(), why)));
        if !self.nodes.is_known() {
            open.extend(here("which nodes there are is not known yet"));
        }
        open
    }
}

/// Nobody could hold a guest back.
const NO_IMAGE: &str = "the owner has named no image for the gates of guests: set \
                        gateway.nodes.image";
