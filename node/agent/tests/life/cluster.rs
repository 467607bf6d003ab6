//! Just enough of a Kubernetes cluster to stand behind a lease, on either side.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_agent::{
    GuestWork, HomeWork, Input, LeaseDesire, LeaseInput, LeaseNews, OwnRanges, Phase, TunnelInput,
    TunnelNews,
};
use mercato_broker::Side;
use mercato_offload::address::{GuestAddress, MappedRange};
use mercato_offload::forge::Content;
use mercato_offload::guest::{self, Observed, ObservedPod};
use mercato_offload::home::{self, HomePod, StandIn, Write};
use mercato_offload::key::{Item, ObjectKey, ObjectKind, PodId, Uid, key};
use mercato_offload::message::{Outcome, Refusal};
use mercato_protocol::id::{ContractId, Digest};

/// The config map that every pod needs.
pub(crate) fn settings() -> ObjectKey {
    key(ObjectKind::ConfigMap, "shop", "settings")
}

/// Why anything may be refused: the provider knows first that the lease has ended, or cannot
/// have the guest namespace.
const OVER: &str = "the lease is over";
const TAKEN: &str = "the namespace is another's";
const NO_ROOM: &str = "the lease has all the namespaces that it may";

/// What outlives the daemon.
#[derive(Default)]
pub(crate) struct Cluster {
    /// Home: pods bound to the virtual node, and whether a status of theirs was written.
    pub(crate) pods: BTreeMap<Uid, (HomePod, bool)>,
    /// Provider: guest objects.
    pub(crate) guests: BTreeMap<Item, Observed>,
    /// Home: what the guest namespace is to be called.
    place: Option<String>,
    /// Home: pods that wait for their namespace.
    pub(crate) waiting: BTreeSet<Uid>,
    /// Provider: guest namespaces that are there.
    pub(crate) namespaces: BTreeMap<String, String>,
    /// Provider: names of namespaces that are others'.
    pub(crate) taken: BTreeSet<String>,
    /// Home: the virtual node is there.
    pub(crate) node: bool,
    /// Every pod that was ever made here as a guest.
    ran: BTreeSet<Uid>,
    /// Followed since the daemon's start.
    followed: Option<LeaseDesire>,
    /// Provider: guests to which the gateway brings packets; it is a part of the daemon.
    mapped: BTreeMap<Uid, GuestAddress>,
    /// Provider: to which it ever did, by which address.
    pub(crate) ever_mapped: BTreeSet<(Uid, IpAddr)>,
    /// Provider: by which addresses guests were made.
    called: BTreeSet<IpAddr>,
    pub(crate) own: OwnRanges,
    /// Provider: the consumer has told where its guests are known, as it does once its other leases
    /// meet them.
    meets: bool,
    /// The daemon has crashed: what it had put on record was not done yet, perhaps.
    has_crashed: bool,
}

impl Cluster {
    /// The daemon has crashed: nobody follows the cluster.
    pub(crate) fn unfollow(&mut self) {
        self.followed = None;
        self.meets = false;
        self.has_crashed = true;
        self.mapped.clear();
    }

    /// What the gateway is asked to do for a guest.
    pub(crate) fn map(&mut self, contract: ContractId, of: GuestAddress) -> Vec<Input> {
        let twice =
            self.mapped.values().any(|other| other.address == of.address && other.pod != of.pod);
        assert!(!twice, "{of:?} has the address of another");
        self.ever_mapped.insert((of.pod.uid.clone(), of.address));
        self.mapped.insert(of.pod.uid.clone(), of.clone());
        vec![Input::Lease(contract, LeaseInput::Guest(guest::Input::Mapped(of, true)))]
    }

    pub(crate) fn unmap(&mut self, pod: &PodId) -> Vec<Input> {
        self.mapped.remove(&pod.uid);
        vec![]
    }

    /// Whether each guest is in a range by which others of its lease call it.
    pub(crate) fn has_ranges_of_guests(&self) -> bool {
        let ranges = || self.followed.iter().flat_map(|lease| &lease.ranges);
        let is_called = |of: &GuestAddress| ranges().any(|range| range.inner.contains(&of.address));
        self.mapped.values().all(is_called)
    }

    /// By what its own pods are known from now on.
    pub(crate) fn name_own(&mut self, own: OwnRanges) -> Vec<Input> {
        self.own = own;
        vec![]
    }

    /// Whether packets are brought to nobody.
    pub(crate) fn is_unmapped(&self) -> bool {
        self.mapped.is_empty()
    }

    /// A person makes a pod on the virtual node.
    pub(crate) fn create(&mut self, contract: ContractId, uid: &str) -> Vec<Input> {
        self.create_in(contract, "shop", uid)
    }

    /// The same in any namespace; only in the shop it needs something.
    pub(crate) fn create_in(
        &mut self,
        contract: ContractId,
        namespace: &str,
        uid: &str,
    ) -> Vec<Input> {
        let pod = PodId { uid: Uid(uid.into()), namespace: namespace.into(), name: "web".into() };
        let needs = Some(settings()).filter(|needed| needed.namespace == namespace);
        let pod = HomePod {
            digest: Digest::of(uid.as_bytes()),
            needs: needs.into_iter().collect(),
            deletion_grace_s: None,
            terminal: false,
            counted: true,
            pod_ip: None,
            second_ip: None,
            gates: Vec::new(),
            route: None,
            place: self.place.clone(),
            patience_ms: 10_000,
            refusal: None,
            stand_in: StandIn::Never,
            pod,
        };
        self.pods.insert(pod.pod.uid.clone(), (pod.clone(), false));
        vec![Input::Lease(contract, LeaseInput::Home(home::Input::Pod(pod)))]
    }

    /// A person chooses another name for the guest namespace, or none in particular.
    pub(crate) fn call(&mut self, contract: ContractId, name: Option<&str>) -> Vec<Input> {
        self.place = name.map(str::to_owned);
        let pods = self.pods.values_mut().map(|(pod, _)| {
            pod.place = name.map(str::to_owned);
            Input::Lease(contract, LeaseInput::Home(home::Input::Pod(pod.clone())))
        });
        pods.collect()
    }

    /// A person, or a drain, asks for the end of a pod.
    pub(crate) fn delete(&mut self, contract: ContractId, uid: &Uid) -> Vec<Input> {
        let Some((pod, _)) = self.pods.get_mut(uid) else { return vec![] };
        pod.deletion_grace_s.get_or_insert(30);
        vec![Input::Lease(contract, LeaseInput::Home(home::Input::Pod(pod.clone())))]
    }

    pub(crate) fn follow(&mut self, desire: LeaseDesire) -> Vec<Input> {
        let (contract, phase, side) = (desire.contract.id, desire.phase, desire.side);
        let first = self.followed.is_none();
        self.namespaces = desire.namespaces.clone();
        self.followed = Some(desire);
        let mut inputs = Vec::new();
        match side {
            Side::Consumer => {
                self.node = true;
                if let Some(range) = self.followed.as_ref().and_then(|it| it.ranges.first()) {
                    assert_eq!(range.inner, range.local);
                    let carries = LeaseInput::Tunnel(TunnelNews::Carries);
                    inputs.push(Input::Lease(contract, carries));
                }
                if first {
                    let pods = self.pods.values().map(|(pod, _)| pod.clone()).collect();
                    inputs
                        .push(Input::Lease(contract, LeaseInput::Home(home::Input::Synced(pods))));
                }
                if phase == Phase::Open {
                    inputs.push(Input::Lease(contract, LeaseInput::News(LeaseNews::Ready)));
                }
                if phase == Phase::Draining {
                    for uid in self.pods.keys().cloned().collect::<Vec<_>>() {
                        inputs.extend(self.delete(contract, &uid));
                    }
                    inputs.extend(self.drained(contract));
                }
            }
            Side::Provider => {
                self.meet_ranges(&mut inputs);
                if first {
                    let guests = self.guests.values().cloned().collect();
                    inputs.push(Input::Lease(
                        contract,
                        LeaseInput::Guest(guest::Input::Synced(guests)),
                    ));
                }
                if phase == Phase::Ended {
                    assert!(self.guests.is_empty(), "a guest is left as its namespace goes");
                    self.namespaces.clear();
                    inputs.push(Input::Lease(contract, LeaseInput::News(LeaseNews::Removed)));
                }
            }
        }
        inputs
    }

    /// The consumer says by which addresses its pods are known, one of which is as free as another.
    fn meet_ranges(&mut self, inputs: &mut Vec<Input>) {
        let Some(lease) = &self.followed else { return };
        let range = |text: &str| -> IpNet { text.parse().unwrap() };
        let told = BTreeSet::from([range("10.207.1.0/24"), range("10.9.9.9/32")]);
        // More than anybody needs is not mapped.
        let greedy = told.iter().copied().chain([range("10.204.0.0/16")]);
        let whole = |address: &IpAddr| IpNet::new(*address, 24).map(|range| range.trunc());
        let of_guests = self.ever_mapped.iter().filter_map(|(_, address)| whole(address).ok());
        let greedy: BTreeSet<_> = greedy.chain(of_guests).collect();
        let mapped: BTreeSet<_> = lease.ranges.iter().map(|range| range.inner).collect();
        let meets = !std::mem::replace(&mut self.meets, !self.ever_mapped.is_empty());
        assert_eq!(mapped.len(), lease.ranges.len(), "an address has two names");
        if !told.is_subset(&mapped) || meets && self.meets {
            let consumer = lease.contract.consumer.cluster;
            inputs.push(Input::Tunnel(TunnelInput::Peer(consumer, greedy)));
            return;
        }
        for MappedRange { inner, local } in &lease.ranges {
            assert!(range("10.200.0.0/13").contains(local));
            let is_begun = self.has_crashed && range("10.204.0.0/16").contains(inner);
            let mut known = self.ever_mapped.iter().map(|(_, at)| at).chain(&self.called);
            let is_mapped = known.any(|address| inner.contains(address));
            let guests = is_mapped || is_begun && !told.contains(inner);
            assert_ne!(guests, told.contains(inner), "{inner}");
            if guests {
                continue;
            }
            let is_free = *inner == range("10.207.1.0/24");
            assert_eq!(inner == local, is_free, "{inner} is {local}");
        }
    }

    /// A drained node goes once its last pod has gone.
    fn drained(&mut self, contract: ContractId) -> Option<Input> {
        let drains = self.followed.as_ref().is_some_and(|lease| lease.phase == Phase::Draining);
        (drains && self.pods.is_empty()).then(|| {
            self.node = false;
            Input::Lease(contract, LeaseInput::News(LeaseNews::Removed))
        })
    }

    pub(crate) fn at_home(&mut self, contract: ContractId, work: HomeWork) -> Vec<Input> {
        let gone = |uid| home::Input::PodGone(uid);
        let inputs = match work {
            HomeWork::Watch(key) => {
                let digest = (key == settings()).then(|| Digest::of(b"settings"));
                vec![home::Input::Object { key, digest }]
            }
            HomeWork::Claim(..) => Vec::new(),
            HomeWork::Confirm(pod) => match self.pods.get(&pod.uid) {
                Some((pod, _)) => vec![home::Input::Pod(pod.clone())],
                None => vec![gone(pod.uid)],
            },
            HomeWork::Write(pod, Write::FinishDeletion) => {
                self.pods.remove(&pod.uid);
                vec![gone(pod.uid)]
            }
            HomeWork::Write(pod, Write::Status { outcome, reach, .. }) => {
                match self.pods.get_mut(&pod.uid) {
                    None => vec![gone(pod.uid)],
                    Some((seen, told)) => {
                        *told = true;
                        self.waiting.remove(&pod.uid);
                        seen.terminal |= outcome.is_some();
                        seen.pod_ip = reach.address();
                        vec![home::Input::Written(pod.uid), home::Input::Pod(seen.clone())]
                    }
                }
            }
            HomeWork::Write(pod, Write::Refusal(refusal)) => {
                assert!([OVER, TAKEN, NO_ROOM].contains(&&*refusal.reason), "{pod:?}");
                self.waiting.insert(pod.uid.clone());
                vec![home::Input::Written(pod.uid)]
            }
            HomeWork::Write(pod, Write::StandIn(_)) => panic!("{pod:?} is no DaemonSet's"),
            // Whoever refers to it is told as well, in a sentence.
            HomeWork::ObjectRefused(key, refusal) => {
                let is_known =
                    [OVER, TAKEN, NO_ROOM].iter().any(|why| refusal.reason.contains(why));
                assert!(is_known, "{key:?}: {refusal:?}");
                vec![]
            }
            HomeWork::Unwatch(_) | HomeWork::Event(..) => vec![],
        };
        let inputs =
            inputs.into_iter().map(|input| Input::Lease(contract, LeaseInput::Home(input)));
        inputs.chain(self.drained(contract)).collect()
    }

    pub(crate) fn at_provider(&mut self, contract: ContractId, work: GuestWork) -> Vec<Input> {
        let inputs = match work {
            GuestWork::Apply(item, content)
                if let Some(refusal) = self.refuses(item.namespace()) =>
            {
                self.called.extend(content.called);
                vec![guest::Input::NotWritten(item, guest::Failure::Refused(refusal))]
            }
            GuestWork::Apply(item, Content { digest, called, .. }) => {
                self.called.extend(called);
                let pod = match &item {
                    Item::Pod(pod) if !self.guests.contains_key(&item) => {
                        assert!(self.ran.insert(pod.uid.clone()), "{pod:?} runs twice");
                        let (deleting, ended, terminal) = (false, false, None);
                        let address = Some([10, 42, 0, self.ran.len() as u8].into());
                        let uid = format!("guest-{}", self.ran.len()).parse().expect("a uid");
                        Some(ObservedPod {
                            uid,
                            marked: true,
                            status: Digest::of(b"running"),
                            terminal,
                            deleting,
                            kept: true,
                            ended,
                            unschedulable: None,
                            unlike: None,
                            left_out: false,
                            held: false,
                            address,
                            called: None,
                        })
                    }
                    Item::Pod(_) => self.guests[&item].pod.clone(),
                    Item::Object(_) => None,
                };
                let observed = Observed { item: item.clone(), digest, pod };
                self.guests.insert(item.clone(), observed.clone());
                vec![guest::Input::Written(item), guest::Input::Observed(observed)]
            }
            GuestWork::Make(pod, _) => panic!("{pod:?} was not said to be unrecorded"),
            GuestWork::Update(pod, Content { digest, .. }) => {
                let item = Item::Pod(pod);
                self.guests.get_mut(&item).unwrap().digest = digest;
                vec![guest::Input::Written(item)]
            }
            GuestWork::Delete(item @ Item::Object(_), _) => {
                self.guests.remove(&item);
                vec![guest::Input::Written(item.clone()), guest::Input::Gone(item)]
            }
            GuestWork::Delete(item @ Item::Pod(_), _) => match self.guests.get_mut(&item) {
                None => vec![guest::Input::NotWritten(item, guest::Failure::Absent)],
                Some(observed) => {
                    let pod = observed.pod.as_mut().unwrap();
                    (pod.deleting, pod.ended) = (true, true);
                    pod.terminal = Some(Outcome::Succeeded);
                    pod.status = Digest::of(b"succeeded");
                    let observed = observed.clone();
                    vec![guest::Input::Written(item), guest::Input::Observed(observed)]
                }
            },
            GuestWork::Release(pod) => {
                let item = Item::Pod(pod);
                self.guests.remove(&item);
                vec![guest::Input::Written(item.clone()), guest::Input::Gone(item)]
            }
            GuestWork::Confirm(item, _) => match self.guests.get(&item) {
                Some(observed) => vec![guest::Input::Observed(observed.clone())],
                None => vec![guest::Input::Gone(item)],
            },
        };
        inputs.into_iter().map(|input| Input::Lease(contract, LeaseInput::Guest(input))).collect()
    }

    /// Why nothing of this home namespace can be here.
    fn refuses(&self, home: &str) -> Option<Refusal> {
        let reason = match self.namespaces.get(home) {
            Some(name) if self.taken.contains(name) => TAKEN,
            Some(_) => return None,
            None => NO_ROOM,
        };
        let is_full = self.namespaces.len() == 64;
        assert!(is_full || reason == TAKEN, "applied before its namespace");
        Some(Refusal { path: String::new(), reason: reason.to_owned() })
    }

    /// Whether this pod runs here as a guest.
    pub(crate) fn runs(&self, uid: &str) -> bool {
        let is = |item: &Item| matches!(item, Item::Pod(pod) if pod.uid.0 == uid);
        self.guests.keys().any(is)
    }

    /// Whether home's record shows how this pod is, and where it can be called.
    pub(crate) fn shows(&self, uid: &str) -> bool {
        self.pods.get(&Uid(uid.into())).is_some_and(|(pod, told)| *told && pod.pod_ip.is_some())
    }
}
