//! The cluster around the pods that leave, as far as it matters to them: pods with their owners, and
//! nodes with their room.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::forge;
use crate::forge::labels::{CONTRACT, LEAVING, PROVIDER};
use crate::key::{PodId, Uid};
use crate::limits;
use crate::placement::spec::NODE_PREFIX;
use crate::placement::{Amounts, amounts, requests};

/// The nodes of a cluster, and its pods that are not over.
#[derive(Debug, Default)]
pub struct Around {
    /// The nodes by name, virtual ones among them.
    pub nodes: BTreeMap<String, Node>,
    /// The pods by uid, also those that are bound to no node yet.
    pub pods: BTreeMap<Uid, PodSeen>,
}

/// A pod that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSeen {
    /// The name and the uid of it.
    pub id: PodId,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// The controller that replaces it.
    pub owner: Option<Owner>,
    /// It is ready by its status.
    pub ready: bool,
    /// Its end was asked for.
    pub deleting: bool,
    /// How long it may take to end, in seconds.
    pub grace_s: u32,
    /// It has a volume where it runs that stays there.
    pub has_volume: bool,
    /// What it asks of a node; what the scheduler counts, and its place.
    pub(super) asks: Amounts,
    /// What its node must be like; kept of those that are to be placed.
    pub(super) needs: Value,
}

/// The controller that replaces a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The uid of the controller.
    pub uid: Uid,
    /// How it replaces its pods.
    pub sort: OwnerSort,
}

/// How a controller replaces its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerSort {
    /// At once, as a ReplicaSet does.
    AtOnce,
    /// Once the one before is gone, as a StatefulSet does.
    InTurn,
    /// As far as there is work left.
    Job,
    /// On the same node again.
    DaemonSet,
}

impl PodSeen {
    /// None of what is no pod, or is over.
    pub fn read(pod: &Value) -> Option<Self> {
        let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
        if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
            return None;
        }
        let node = spec["nodeName"].as_str().filter(|node| !node.is_empty()).map(str::to_owned);
        let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
        let ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        let owner = list(&metadata["ownerReferences"]).iter().find_map(Owner::read);
        let stays = |volume: &Value| {
            !volume["persistentVolumeClaim"].is_null() || !volume["ephemeral"].is_null()
        };
        let mut asks = requests(spec);
        asks.insert("pods".to_owned(), 1);
        let is_to_be_placed = node.as_ref().is_none_or(|node| node.starts_with(NODE_PREFIX));
        let needs = if is_to_be_placed { needs(spec) } else { Value::Null };
        let grace_s = spec["terminationGracePeriodSeconds"].as_u64();
        Some(Self {
            id: forge::pod_id(pod)?,
            node,
            owner,
            ready: list(&status["conditions"]).iter().any(ready),
            deleting: !metadata["deletionTimestamp"].is_null(),
            grace_s: grace_s.and_then(|it| u32::try_from(it).ok()).unwrap_or(limits::USUAL_GRACE_S),
            has_volume: list(&spec["volumes"]).iter().any(stays),
            asks,
            needs,
        })
    }

    /// Whether it would come back to the node that it leaves.
    pub(super) fn tolerates_leaving(&self) -> bool {
        is_tolerated(&self.needs, &json!({ "key": LEAVING, "effect": "NoSchedule" }))
    }
}

impl Owner {
    fn read(reference: &Value) -> Option<Self> {
        if reference["controller"] != true {
            return None;
        }
        let sort = match reference["kind"].as_str()? {
            "DaemonSet" => OwnerSort::DaemonSet,
            "StatefulSet" => OwnerSort::InTurn,
            "Job" => OwnerSort::Job,
            _ => OwnerSort::AtOnce,
        };
        Some(Self { uid: Uid(reference["uid"].as_str()?.to_owned()), sort })
    }
}

fn needs(spec: &Value) -> Value {
    let affinity = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    json!({
        "tolerations": spec["tolerations"],
        "selector": spec["nodeSelector"],
        "terms": spec.pointer(affinity).map(|required| &required["nodeSelectorTerms"]),
    })
}

/// A node that pods may be bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    name: String,
    labels: BTreeMap<String, Value>,
    /// Those that keep pods off.
    taints: Vec<Value>,
    /// It is ready, does not leave, and nobody has cordoned it.
    open: bool,
    has: Amounts,
}

impl Node {
    /// None of what is no node.
    pub fn read(node: &Value) -> Option<Self> {
        let (spec, status) = (&node["spec"], &node["status"]);
        let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
        let taints = list(&spec["taints"]).into_iter();
        let taints: Vec<_> = taints.filter(|taint| taint["effect"] != "PreferNoSchedule").collect();
        let ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        let leaves = taints.iter().any(|taint| taint["key"] == LEAVING);
        let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
        Some(Self {
            name: node["metadata"]["name"].as_str()?.to_owned(),
            labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
            open: list(&status["conditions"]).iter().any(ready)
                && spec["unschedulable"] != true
                && !leaves,
            taints,
            has: amounts(&status["allocatable"]),
        })
    }

    /// The name that it has in the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The lease that it stands for, if it is a virtual one.
    pub fn contract(&self) -> Option<&str> {
        self.label(CONTRACT)
    }

    /// The value of one of its labels.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).and_then(Value::as_str)
    }

    /// Whether it is ready, does not leave, and nobody has cordoned it.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether a taint keeps pods off that any virtual node suits: of the cluster's controllers, which have not
    /// seen yet that it is ready; of its lease, whose provider is not reached or which is suspended; or somebody's.
    pub fn is_kept_free(&self) -> bool {
        self.taints.iter().any(|taint| taint["key"] != PROVIDER)
    }

    /// Whether the pod may be bound to it, room aside.
    fn takes(&self, pod: &PodSeen) -> bool {
        let selector = pod.needs["selector"].as_object().into_iter().flatten();
        let mut selector = selector.map(|(key, value)| self.labels.get(key) == Some(value));
        let terms = pod.needs["terms"].as_array();
        self.open
            && self.taints.iter().all(|taint| is_tolerated(&pod.needs, taint))
            && selector.all(|holds| holds)
            && terms.is_none_or(|terms| terms.iter().any(|term| self.matches(term)))
    }

    /// Whether a term of a node affinity holds; an empty one never does.
    fn matches(&self, term: &Value) -> bool {
        let list = |name: &str| term[name].as_array().cloned().unwrap_or_default();
        let (labels, fields) = (list("matchExpressions"), list("matchFields"));
        let name = Value::from(self.name.as_str());
        let of_label = |one: &Value| {
            let key = one["key"].as_str().unwrap_or_default();
            holds(one, self.labels.get(key))
        };
        !(labels.is_empty() && fields.is_empty())
            && labels.iter().all(of_label)
            && fields.iter().all(|one| holds(one, Some(&name)))
    }
}

/// Whether an expression of a node affinity holds of the value of its label.
pub fn holds(expression: &Value, value: Option<&Value>) -> bool {
    let values = expression["values"].as_array().cloned().unwrap_or_default();
    let among = value.is_some_and(|value| values.contains(value));
    let number = |text: &Value| text.as_str().and_then(|text| text.parse::<i64>().ok());
    let compared = value.and_then(number).zip(values.first().and_then(number));
    match expression["operator"].as_str() {
        Some("In") => among,
        Some("NotIn") => !among,
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        Some("Gt") => compared.is_some_and(|(is, than)| is > than),
        Some("Lt") => compared.is_some_and(|(is, than)| is < than),
        Some(_) | None => false,
    }
}

fn is_tolerated(needs: &Value, taint: &Value) -> bool {
    let tolerates = |one: &Value| {
        let exists = one["operator"] == "Exists";
        let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
        let (key, effect) = (text(&one["key"]), text(&one["effect"]));
        (effect.is_empty() || taint["effect"] == effect)
            && if key.is_empty() { exists } else { taint["key"] == key }
            && (exists || text(&one["value"]) == text(&taint["value"]))
    };
    needs["tolerations"].as_array().is_some_and(|all| all.iter().any(tolerates))
}

/// What is left of each node, as the scheduler counts it.
pub struct Room<'a> {
    nodes: Vec<(&'a Node, Amounts)>,
}

impl<'a> Room<'a> {
    /// What the pods leave that are bound to nodes, and those that wait and find room.
    pub(super) fn of(around: &'a Around) -> Self {
        let mut nodes: BTreeMap<&str, (&Node, Amounts)> = around
            .nodes
            .iter()
            .filter(|(_, node)| node.open)
            .map(|(name, node)| (name.as_str(), (node, node.has.clone())))
            .collect();
        for pod in around.pods.values() {
            let node = pod.node.as_deref().and_then(|node| nodes.get_mut(node));
            node.into_iter().for_each(|(_, free)| take(free, &pod.asks));
        }
        let mut this = Self { nodes: nodes.into_values().collect() };
        for pod in around.pods.values().filter(|pod| pod.node.is_none() && !pod.deleting) {
            this.place(pod);
        }
        this
    }

    /// What the pods leave that are bound to virtual nodes, of these alone.
    pub fn of_virtual(around: &'a Around) -> Self {
        let virtual_nodes = around.nodes.values().filter(|it| it.contract().is_some() && it.open);
        let mut nodes: BTreeMap<&str, (&Node, Amounts)> =
            virtual_nodes.map(|node| (node.name.as_str(), (node, node.has.clone()))).collect();
        for pod in around.pods.values() {
            let node = pod.node.as_deref().and_then(|node| nodes.get_mut(node));
            node.into_iter().for_each(|(_, free)| take(free, &pod.asks));
        }
        Self { nodes: nodes.into_values().collect() }
    }

    /// Whether the first node that takes the pod has room for it, which is taken then.
    pub(super) fn place(&mut self, pod: &PodSeen) -> bool {
        self.place_on(pod).is_some()
    }

    /// The first node that takes the pod and has room for it, which is taken then.
    pub fn place_on(&mut self, pod: &PodSeen) -> Option<&'a Node> {
        let has_room = |free: &Amounts| {
            pod.asks
                .iter()
                .all(|(name, asks)| *asks == 0 || free.get(name).is_some_and(|free| free >= asks))
        };
        let found = self.nodes.iter_mut().find(|(node, free)| has_room(free) && node.takes(pod));
        found.map(|(node, free)| {
            take(free, &pod.asks);
            *node
        })
    }
}

fn take(free: &mut Amounts, asks: &Amounts) {
    for (name, asks) in asks {
        if let Some(free) = free.get_mut(name) {
            *free = free.saturating_sub(*asks);
        }
    }
}
