//! What has to come true once nothing goes wrong any more: everybody knows every offer,
//! both sides of a deal agree, and pods are where they should be.

use std::collections::BTreeMap;

use mercato_agent::{RangeOwner, Record};
use mercato_broker::{Deal, Meter, Side};
use mercato_cluster_model::Key;
use mercato_offload::forge::labels;
use mercato_protocol::negotiation::State;
use serde_json::{Value, json};

use super::{Violation, disk, ensure, services, volumes};
use crate::engine::gateway::Gateway;
use crate::engine::site::{NODE, Site};
use crate::engine::sites::Sites;
use crate::workload::{STAYS, settings_key};

/// What must come true when the faults stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Leases run, and so do their pods.
    Running,
    /// All leases have ended, and nothing is left of them.
    Over,
}

impl Goal {
    /// What is yet to come true, if anything.
    pub(crate) fn misses(self, at_ms: u64, sites: &Sites) -> Result<(), Violation> {
        let view = View { at_ms, sites };
        view.everybody_knows()?;
        view.deals_agree(self)?;
        match self {
            Self::Running => {
                view.pods_agree()?;
                services::agree(sites)?;
                volumes::agree(sites)
            }
            Self::Over => view.nothing_is_left(),
        }
    }
}

/// All clusters at one moment.
struct View<'a> {
    at_ms: u64,
    sites: &'a Sites,
}

impl View<'_> {
    /// Those who keep the rules.
    fn honest(&self) -> impl Iterator<Item = &Site> {
        self.sites.honest().map(|(_, site)| site)
    }

    fn everybody_knows(&self) -> Result<(), Violation> {
        for site in self.honest() {
            let agent = site.agent.as_ref();
            let agent = agent.ok_or_else(|| Violation(format!("{} is down", site.name)))?;
            let now = site.now(self.at_ms);
            for seller in self.honest().filter(|other| other.id() != site.id()) {
                let offers = seller.agent.as_ref().is_some_and(|a| a.broker().offer().is_some());
                let mut seen = agent.broker().providers(now);
                let known = seen.any(|(provider, ..)| provider == seller.id());
                ensure(known == offers, || {
                    format!("{} does not know what {} offers", site.name, seller.name)
                })?;
            }
        }
        Ok(())
    }

    fn deals_agree(&self, goal: Goal) -> Result<(), Violation> {
        for site in self.honest() {
            for deal in disk::deals(site.gate.records()) {
                let peer = self.sites.place_of(deal.peer());
                let peer = peer.ok_or_else(|| Violation("a deal with nobody".to_owned()))?;
                if self.sites[peer].attack.is_some() {
                    continue;
                }
                let other = disk::deal(self.sites[peer].gate.records(), deal.id());
                agree(deal, other).map_err(|Violation(what)| {
                    Violation(format!("{} and {}: {what}", site.name, self.sites[peer].name))
                })?;
                let live = deal.is_leased();
                ensure(goal == Goal::Running || !live, || {
                    format!("{:.8} is {:?} at {}", deal.id(), deal.state(), site.name)
                })?;
            }
        }
        Ok(())
    }

    fn pods_agree(&self) -> Result<(), Violation> {
        let guests = self.guests();
        let mut wanted = 0;
        for site in self.honest() {
            for pod in site.kube.list("Pod").1.iter().filter(|pod| !is_guest(pod)) {
                let name = format!("{} of {}", pod["metadata"]["name"], site.name);
                let metadata = &pod["metadata"];
                ensure(metadata["deletionTimestamp"].is_null(), || format!("{name} lingers"))?;
                let phase = &pod["status"]["phase"];
                if metadata["name"].as_str().is_some_and(|name| name.starts_with(STAYS)) {
                    ensure(phase == "Pending" || phase == "Failed", || format!("{name} runs"))?;
                    continue;
                }
                let node = &pod["spec"]["nodeName"];
                if phase == "Succeeded" || phase == "Failed" || node.is_null() || *node == NODE {
                    continue;
                }
                wanted += 1;
                let uid = metadata["uid"].as_str().unwrap_or_default();
                let guest = guests.get(uid);
                let (at, guest) = guest.ok_or_else(|| Violation(format!("{name} runs nowhere")))?;
                ensure(phase == "Running" && guest["status"]["phase"] == "Running", || {
                    format!("{name} is {phase}, its guest {}", guest["status"]["phase"])
                })?;
                self.is_reached(site, &self.sites[*at], pod, guest)?;
                let image = |pod: &Value| pod["spec"]["containers"][0]["image"].clone();
                ensure(image(pod) == image(guest), || format!("{name} has another image there"))?;
                let namespace = guest["metadata"]["namespace"].as_str().unwrap_or_default();
                let there = self.sites[*at].kube.get(&Key::new("ConfigMap", namespace, "settings"));
                let here = site.kube.get(&settings_key());
                ensure(there.map(|map| &map["data"]) == here.map(|map| &map["data"]), || {
                    format!("{name} has other settings there")
                })?;
            }
        }
        let live = guests.values().filter(|(_, guest)| {
            let phase = &guest["status"]["phase"];
            phase != "Succeeded" && phase != "Failed"
        });
        let live = live.count();
        ensure(live == wanted, || format!("{live} guests run, {wanted} are wanted"))
    }

    /// A live pod is shown where the provider's gateway brings packets to its guest.
    fn is_reached(
        &self,
        home: &Site,
        provider: &Site,
        pod: &Value,
        guest: &Value,
    ) -> Result<(), Violation> {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let gateways = home.gateway.as_ref().and(provider.gateway.as_ref());
        let brings = gateways.and_then(|gateway| gateway.brings_to(uid));
        let (name, shown) = (&pod["metadata"]["name"], &pod["status"]["podIP"]);
        let Some(brings) = brings else {
            return ensure(gateways.is_none() && shown.is_null(), || {
                format!("{name} of {} is shown at {shown}, and not reached", home.name)
            });
        };
        let there = &guest["status"]["podIP"];
        let holds = *shown == json!(brings.address) && *there == json!(brings.guest);
        ensure(holds, || format!("{name} is shown at {shown} and is at {there}: {brings:?}"))
    }

    fn nothing_is_left(&self) -> Result<(), Violation> {
        let guests = self.guests();
        ensure(guests.is_empty(), || format!("{} guests are left", guests.len()))?;
        for site in self.honest() {
            let all = site.kube.objects("Namespace");
            let left =
                all.filter(|(_, one)| !one["metadata"]["labels"][labels::CONTRACT].is_null());
            let left = left.count();
            ensure(left == 0, || format!("{left} guest namespaces are left at {}", site.name))?;
            volumes::nothing_is_left(site)?;
            let left = site.kube.list("Node").1.len() - 1;
            ensure(left == 0, || format!("{left} virtual nodes are left at {}", site.name))?;
            let held = disk::deals(site.gate.records()).filter(|deal| disk::takes(deal)).count();
            ensure(held == 0, || format!("{held} deals hold capacity at {}", site.name))?;
            let unmapped = site.gateway.as_ref().is_none_or(Gateway::is_empty);
            ensure(unmapped, || format!("{} still brings packets to guests", site.name))?;
            let orphan = site.gate.records().iter().find(|record| {
                // The provider keeps its side for a while, for home to ask.
                let of = match record {
                    Record::Broker(_)
                    | Record::Federation(_)
                    | Record::Key(..)
                    | Record::Range(RangeOwner::Nodes | RangeOwner::Own(_), _) => return false,
                    Record::Home(..) | Record::Range(RangeOwner::Lease(_), _) => return true,
                    // As long as any lease with it is.
                    Record::Range(RangeOwner::Peer(cluster, _), _) => {
                        let with = |deal: &Deal| deal.peer() == *cluster;
                        return !disk::deals(site.gate.records()).any(with);
                    }
                    Record::Guest(of, _)
                    | Record::Namespaces(of, _)
                    | Record::Range(RangeOwner::Guests(of, _), _) => of,
                };
                disk::deal(site.gate.records(), (*of).into()).is_none()
            });
            ensure(orphan.is_none(), || format!("{orphan:?} is left at {}", site.name))?;
        }
        Ok(())
    }

    /// All guest pods, by their uid at home, with the place where they are.
    fn guests(&self) -> BTreeMap<String, (usize, Value)> {
        let mut guests = BTreeMap::new();
        for (at, site) in self.sites.iter().enumerate() {
            for pod in site.kube.list("Pod").1.into_iter().filter(is_guest) {
                let uid = pod["metadata"]["labels"][labels::HOME_UID].as_str();
                guests.insert(uid.unwrap_or_default().to_owned(), (at, pod));
            }
        }
        guests
    }
}

fn is_guest(pod: &Value) -> bool {
    !pod["metadata"]["labels"][labels::HOME_UID].is_null()
}

/// Each contract is in one state on both sides, with the same receipts.
fn agree(deal: &Deal, other: Option<&Deal>) -> Result<(), Violation> {
    let (id, state) = (deal.id(), deal.state());
    let theirs = other.map_or(State::Unknown, |other| other.state());
    let nothing = |state| matches!(state, State::Terminated | State::Unknown);
    ensure(state == theirs || nothing(state) && nothing(theirs), || {
        format!("{id:.8} is {state:?} here, {theirs:?} there")
    })?;
    let open = deal.is_signed_once() || state == State::Pending;
    ensure(!open, || format!("{id:.8} hangs in {state:?}"))?;
    let Some(other) = other else { return Ok(()) };
    if deal.side() == Side::Provider {
        let receipt =
            |deal: &Deal| deal.meter().and_then(Meter::signed).map(|signed| signed.receipt.clone());
        let (ours, theirs) = (receipt(deal), receipt(other));
        ensure(ours == theirs, || format!("the receipts of {id:.8} differ"))?;
        let signed = |deal: &Deal| deal.agreement().and_then(|a| a.consumer.clone());
        let same = !deal.is_leased() || signed(deal) == signed(other);
        ensure(same, || format!("the signatures of {id:.8} differ"))?;
    }
    Ok(())
}
