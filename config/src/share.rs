//! What is shared, and with whom: as it is written.

use std::collections::{BTreeMap, BTreeSet};

use mercato_broker::syntax::{Gpus, PriceChange, Seconds, amount, taint};
use mercato_broker::{
    Amount, Approve, DevicePolicy, Party, SharePolicy, ShareRule, Standing, StoragePolicy,
};
use mercato_protocol::egress::EgressKind;
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation, PodSecurity};
use mercato_protocol::text::GpuModel;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::egress::Egress;
use crate::text::{some_text, text};
use crate::written::{DURATION, Text, structural, validation};

/// What is shared. [`policy`](Share::policy) fills in what was not written.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = structural, extend("x-kubernetes-validations" = [validation(BOTH, NOT_BOTH)]))]
pub struct Share {
    /// Of the processors: `30%`, or `8`.
    #[serde(deserialize_with = "cpu")]
    #[schemars(with = "Option<Text>")]
    pub cpu: Option<Amount>,
    /// Of the memory: `30%`, or `32Gi`.
    #[serde(deserialize_with = "memory")]
    #[schemars(with = "Option<Text>")]
    pub memory: Option<Amount>,
    /// Pods of guests; by default as many as the nodes take.
    #[serde(deserialize_with = "pods")]
    #[schemars(with = "Option<Text>")]
    pub pods: Option<Amount>,
    /// Room for volumes of guests, of all nodes together, by the owner's word: `500Gi`. No share in
    /// percent: no class of storage says how much it has.
    #[serde(deserialize_with = "storage")]
    #[schemars(with = "Option<Text>")]
    pub storage: Option<Amount>,
    /// The StorageClass of those volumes; by default the cluster's default class. Buyers do not
    /// learn its name.
    #[schemars(with = "Option<String>", length(max = 253))]
    pub storage_class: Option<String>,
    /// What buyers are told of that storage, and may ask for by `storage.kind`: `[ssd]`.
    #[schemars(with = "Vec<String>", length(max = 8), inner(length(max = 63)))]
    pub storage_kind: BTreeSet<String>,
    /// GPUs by model, such as `h100=2`.
    #[serde(deserialize_with = "gpus")]
    #[schemars(with = "Option<String>", length(max = 1024))]
    pub gpu: BTreeMap<Resource, Amount>,
    /// What products of GPUs that Mercato does not know, or types of nodes without such labels, are
    /// called on the market: `{NVIDIA-GB300: gb300}`. `mercato share` names those that are not
    /// sold; buyers are told that it is the owner's word.
    #[schemars(with = "BTreeMap<String, String>")]
    pub gpu_models: BTreeMap<String, GpuModel>,
    /// GPUs that several pods share, and that are sold all the same: `[t4.ts4]`. Nothing keeps
    /// those apart that take turns, and the offer says so.
    #[schemars(with = "Vec<String>", length(max = 64), inner(length(max = 32)))]
    pub shared_gpus: BTreeSet<GpuModel>,
    /// Taints of nodes that keep no guests off: `[sku=gpu]`. Those of the devices that are sold, such
    /// as `nvidia.com/gpu`, do not by themselves.
    #[serde(deserialize_with = "taints")]
    #[schemars(with = "Vec<String>", length(max = 64), inner(length(max = 381)))]
    pub tolerate: BTreeSet<String>,
    /// The RuntimeClass of guests that ask for GPUs, where the usual runtime of the nodes has none:
    /// `nvidia`, as k3s and RKE2 need.
    #[schemars(with = "Option<String>", length(max = 253))]
    pub gpu_runtime_class: Option<String>,
    /// To whom processors and memory of nodes with GPUs are sold: `withGpus` (the default), with
    /// their GPUs, each of which has its share; or `any`, also by themselves.
    #[schemars(with = "Option<String>", extend("enum" = ["withGpus", "any"]))]
    pub gpu_nodes: GpuNodes,
    /// Left free for the cluster's own pods beside what they ask for: `cpu=2,memory=4Gi`.
    #[serde(deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", length(max = 1024))]
    pub keep_free: Option<Resources>,
    /// Bytes that the objects of all guests may fill of the cluster's etcd: `512Mi`, which is the
    /// default. Each buyer has a share by what it bought, and 2Mi at least.
    #[serde(deserialize_with = "some_bytes")]
    #[schemars(with = "Option<String>", length(max = 32))]
    pub objects: Option<u64>,
    /// For one processor, one GiB of memory or storage, one GPU: `cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h`; or
    /// `free`, which is the default.
    #[serde(deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", length(max = 1024))]
    pub price: Option<Price>,
    /// `reserved` (the default): the cluster's own ordinary pods do not displace guests, for whom
    /// nothing is held free either; `spot`: they displace guests at once.
    #[schemars(with = "Option<String>", extend("enum" = ["reserved", "spot"]))]
    pub class: Class,
    /// `required` (the default): sold only where the network keeps guests apart; `none`:
    /// sold without, and the offer says so.
    #[schemars(with = "Option<String>", extend("enum" = ["required", "none"]))]
    pub network_isolation: NetworkIsolation,
    /// Whom guests reach on the Internet: nobody, unless something is written here.
    pub egress: Egress,
    /// The pod-security level of guest namespaces: `privileged`, `baseline` (the default)
    /// or `restricted`.
    #[schemars(with = "Option<String>", extend("enum" = ["privileged", "baseline", "restricted"]))]
    pub pod_security: PodSecurity,
    /// What becomes of requests: `auto`, `ask` (the default) or `deny`. One that is asked
    /// waits as a Contract in state Review for its `spec.desired: Accepted`.
    #[schemars(with = "Option<String>", extend("enum" = ["auto", "ask", "deny"]))]
    pub approve: Approve,
    /// Whose requests are granted without asking: clusters by fingerprint, `org=NAME`,
    /// `federation=NAME`.
    #[schemars(with = "Vec<String>", length(max = 256), inner(length(max = 128)))]
    #[schemars(extend("x-kubernetes-validations" = [validation(PARTIES, NO_PARTY)]))]
    pub allow: BTreeSet<Party>,
    /// What becomes of some requests, before `approve` and `allow` are looked at: the first rule that
    /// covers a request decides it.
    #[schemars(length(max = 64))]
    pub rules: Vec<Rule>,
    /// Notice before capacity is taken back: `1h` by default.
    #[serde(deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", regex(pattern = DURATION), length(max = 32))]
    pub reclaim: Option<Seconds>,
    /// The longest term: `30d` by default.
    #[serde(deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", regex(pattern = DURATION), length(max = 32))]
    pub max_term: Option<Seconds>,
}

/// To whom processors of nodes with GPUs are sold.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GpuNodes {
    /// To who buys GPUs there, each of which has its share.
    #[default]
    WithGpus,
    /// To anybody who asks for them.
    Any,
}

/// Covers the requests that are as each of its fields says, and says what becomes of them; a field
/// that is left out is not looked at.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = structural)]
pub struct Rule {
    /// Covers requests of these buyers: clusters by fingerprint, `org=NAME`, `federation=NAME`.
    #[serde(default)]
    #[schemars(with = "Vec<String>", length(max = 64), inner(length(max = 128)))]
    #[schemars(extend("x-kubernetes-validations" = [validation(PARTIES, NO_PARTY)]))]
    pub buyers: BTreeSet<Party>,
    /// Covers requests of buyers with this standing here: `stranger` or `trusted`.
    #[serde(default)]
    #[schemars(with = "Option<String>", extend("enum" = ["stranger", "trusted"]))]
    pub standing: Option<Standing>,
    /// Covers requests of buyers in these countries, as a certificate says, or this cluster's owner:
    /// `IT`.
    #[serde(default)]
    #[schemars(with = "Vec<String>", length(max = 64), inner(length(max = 8)))]
    pub jurisdictions: BTreeSet<String>,
    /// Covers requests for at least one of these resources: `gpu.h100`.
    #[serde(default)]
    #[schemars(with = "Vec<String>", length(max = 64), inner(length(max = 64)))]
    pub resources: BTreeSet<Resource>,
    /// Covers requests of this class: `reserved` or `spot`.
    #[serde(default)]
    #[schemars(with = "Option<String>", extend("enum" = ["reserved", "spot"]))]
    pub class: Option<Class>,
    /// Covers requests for just this way out to the Internet: `none`, `named` or `internet`.
    #[serde(default)]
    #[schemars(with = "Option<String>", extend("enum" = ["none", "named", "internet"]))]
    pub egress: Option<EgressKind>,
    /// Covers requests for no more than this of each resource that is named: `cpu=8,memory=32Gi`.
    #[serde(default, deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", length(max = 1024))]
    pub most: Option<Resources>,
    /// Covers requests for no less than this of each resource that is named: `cpu=8`.
    #[serde(default, deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", length(max = 1024))]
    pub least: Option<Resources>,
    /// Covers requests for no longer a term than this: `4h`.
    #[serde(default, deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", regex(pattern = DURATION), length(max = 32))]
    pub longest: Option<Seconds>,
    /// Covers requests for no shorter a term than this: `7d`.
    #[serde(default, deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", regex(pattern = DURATION), length(max = 32))]
    pub shortest: Option<Seconds>,
    /// What is granted has this price: `cpu=0.01 EUR/h, gpu.h100=0`. What it does not name has the
    /// posted price; `0` is free, and `free` all of it.
    #[serde(default, deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", length(max = 1024))]
    pub price: Option<PriceChange>,
    /// What becomes of the requests covered: `auto` grants them, `ask` leaves them to the owner, `deny`
    /// refuses them.
    #[schemars(with = "String", extend("enum" = ["auto", "ask", "deny"]))]
    pub then: Approve,
}

const BOTH: &str = "has(self.cpu) && has(self.memory)";
const NOT_BOTH: &str = "pods of guests need processors and memory: say how much of both is shared";
const PARTIES: &str = "self.all(one, one.matches('^([0-9a-f]{64}|(org|federation)=[a-z0-9.-]+)$'))";
const NO_PARTY: &str = "a fingerprint of 64 hexadecimal digits, org=NAME or federation=NAME";

impl Share {
    /// The policy, with what was not written at its default.
    pub fn policy(&self) -> SharePolicy {
        let plain = [
            (Resource::Cpu, self.cpu),
            (Resource::Memory, self.memory),
            (Resource::Storage, self.storage),
        ];
        let mut amounts: BTreeMap<Resource, Amount> =
            plain.into_iter().filter_map(|(resource, amount)| Some((resource, amount?))).collect();
        amounts.extend(self.gpu.clone());
        amounts.insert(Resource::Pods, self.pods.unwrap_or(Amount::Percent(100)));
        SharePolicy {
            amounts,
            devices: DevicePolicy {
                models: self.gpu_models.clone(),
                shared: self.shared_gpus.clone(),
                any_node: self.gpu_nodes == GpuNodes::Any,
                tolerate: self.tolerate.clone(),
                runtime_class: self.gpu_runtime_class.clone(),
            },
            storage: Box::new(StoragePolicy {
                class: self.storage_class.clone(),
                kinds: self.storage_kind.clone(),
            }),
            egress: Box::new(self.egress.policy()),
            objects: self.objects,
            keep_free: self.keep_free.clone().unwrap_or_default(),
            price: self.price.clone().unwrap_or(Price::Free),
            class: self.class,
            network_isolation: self.network_isolation,
            pod_security: self.pod_security,
            approve: self.approve,
            allow: self.allow.clone(),
            rules: self.rules.iter().map(Rule::rule).collect(),
            reclaim_notice_s: self.reclaim.map_or(3_600, |reclaim| reclaim.0),
            max_term_s: self.max_term.map_or(30 * 86_400, |term| term.0),
        }
    }
}

/// So many bytes, as people write memory: `512Mi`.
///
/// # Errors
/// What it is instead, and an example.
pub fn bytes(text: &str) -> Result<u64, String> {
    match amount::of(&Resource::Memory, text) {
        Ok(Amount::Exactly(bytes)) => Ok(bytes),
        Ok(Amount::Percent(_)) => Err(format!("{text} is no number of bytes, such as 512Mi")),
        Err(error) => Err(error.line()),
    }
}

fn amount<'de, D: Deserializer<'de>>(
    from: D,
    resource: &Resource,
) -> Result<Option<Amount>, D::Error> {
    let text = String::deserialize(from)?;
    let amount = amount::of(resource, &text);
    amount.map(Some).map_err(|error| serde::de::Error::custom(error.line()))
}

fn cpu<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Amount>, D::Error> {
    amount(from, &Resource::Cpu)
}

fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Amount>, D::Error> {
    amount(from, &Resource::Memory)
}

fn storage<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Amount>, D::Error> {
    amount(from, &Resource::Storage)
}

fn some_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    bytes(&String::deserialize(from)?).map(Some).map_err(serde::de::Error::custom)
}

fn pods<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Amount>, D::Error> {
    amount(from, &Resource::Pods)
}

fn taints<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<String>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| taint(text).map_err(serde::de::Error::custom)).collect()
}

fn gpus<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Resource, Amount>, D::Error> {
    let Gpus(counts) = text(from)?;
    Ok(counts.into_iter().map(|(model, n)| (Resource::Gpu(model), Amount::Exactly(n))).collect())
}

impl Rule {
    /// As the broker takes it.
    pub(crate) fn rule(&self) -> ShareRule {
        ShareRule {
            buyers: self.buyers.clone(),
            standing: self.standing,
            jurisdictions: self.jurisdictions.clone(),
            resources: self.resources.clone(),
            class: self.class,
            egress: self.egress,
            most: self.most.clone().unwrap_or_default(),
            least: self.least.clone().unwrap_or_default(),
            longest_s: self.longest.map(|Seconds(seconds)| seconds),
            shortest_s: self.shortest.map(|Seconds(seconds)| seconds),
            price: self.price.clone(),
            then: self.then,
        }
    }
}
