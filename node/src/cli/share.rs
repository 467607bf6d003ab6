//! `mercato share`: what this cluster offers.

mod egress;
mod storage;
mod there;

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use mercato_broker::{
    Amount, Approve, DevicePolicy, ParsePartyError, Party, SharePolicy, ShareRule,
};
use mercato_config::{GpuNodes, Gpus, Seconds, Show as _, SyntaxError, amount, taint};
use mercato_offload::limits::STORED_BYTES;
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation, PodSecurity};
use mercato_protocol::text::GpuModel;

use super::lookup;
use super::rule::{self, Typed};
use super::screen::Screen;
use super::table::{Table, pairs, wrapped};
use crate::admin::{self, Class as Kind, OnSale, OperatorApi, OwnGateway, Problem, Request};
use crate::present::text::{
    amounts, gpus, memory as shown, name, of, one_pod, party, spaced, text, word,
};
use crate::present::unsold;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato share
  mercato share set --cpu 30% --memory 30% --price 'cpu=0.02 EUR/h'")]
pub(crate) struct Share {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one")]
enum What {
    /// What is offered, and what that comes to (the default)
    #[command(after_help = "Examples:
  mercato share show
  mercato share show -o yaml")]
    Show,
    /// Offer something, or change how; what is not said stays as it is
    Set(Set),
    /// Offer nothing any more; contracts run on
    #[command(after_help = "Examples:
  mercato share stop
  mercato share stop && mercato contracts")]
    Stop,
}

#[derive(Args, Debug, Default)]
#[command(after_help = "Examples:
  mercato share set --approve deny --rule 'federation=italia: ask'
  mercato share set --gpu h100=2 --price 'cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h'

The first rule that a request is a case of decides it. All of its CASES have to hold:
federation=NAME, org=NAME, a cluster, stranger, trusted, jurisdiction=IT, gpu.h100, spot,
reserved, egress=named, longest=4h, shortest=7d, everybody. Of buyers, countries or resources one of
several is enough: 'federation=italia or org=polito: auto'. THEN is auto, ask or deny; 'trusted: auto at cpu=0.01 EUR/h' has a price of its own: what it does not
name has the posted price, 'memory=0' is free, and 'free' alone is all of it.")]
pub(crate) struct Set {
    /// Of the processors: 30%, or 8
    #[arg(long, value_name = "AMOUNT", value_parser = cpu)]
    cpu: Option<Amount>,
    /// Of the memory: 30%, or 32Gi
    #[arg(long, value_name = "AMOUNT", value_parser = memory)]
    memory: Option<Amount>,
    /// Of the pods that the nodes take: 50%, or 110
    #[arg(long, value_name = "AMOUNT", value_parser = pods)]
    pods: Option<Amount>,
    #[command(flatten)]
    storage: storage::Typed,
    #[command(flatten)]
    egress: egress::TypedEgress,
    /// GPUs by model, such as h100=2
    #[arg(long, value_name = "MODEL=N", value_parser = text::<Gpus>)]
    gpu: Option<Gpus>,
    /// What GPUs are called on the market that Mercato does not know, by your word:
    /// NVIDIA-GB300=gb300; or none
    #[arg(long, value_name = "PRODUCT=MODEL", value_delimiter = ',', value_parser = named)]
    gpu_models: Vec<Option<(String, GpuModel)>>,
    /// GPUs that several pods share, and that are sold all the same: t4.ts4; or none
    #[arg(long, value_name = "MODEL", value_delimiter = ',', value_parser = unless_none)]
    shared_gpus: Vec<Option<GpuModel>>,
    /// Taints of nodes that keep no guests off: sku=gpu; or none
    #[arg(long, value_name = "TAINT", value_delimiter = ',', value_parser = taint_unless_none)]
    tolerate: Vec<Option<String>>,
    /// The RuntimeClass of guests that ask for GPUs: nvidia; or none
    #[arg(long, value_name = "NAME")]
    gpu_runtime_class: Option<String>,
    /// Processors of nodes with GPUs are sold withGpus, or to any
    #[arg(long, value_parser = word::<GpuNodes>(&["withGpus", "any"]))]
    gpu_nodes: Option<GpuNodes>,
    /// Left for your own pods, beside what they ask for: cpu=2,memory=4Gi
    #[arg(long, value_name = "QUANTITIES", value_parser = text::<Resources>)]
    keep_free: Option<Resources>,
    /// Bytes that the objects of all guests may fill of the cluster's etcd: 512Mi, by default
    #[arg(long, value_name = "BYTES", value_parser = mercato_config::bytes)]
    objects: Option<u64>,
    /// For one processor, GiB, GPU: 'cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h'; or free
    #[arg(long, value_parser = text::<Price>)]
    price: Option<Price>,
    /// Your own ordinary pods displace guests of spot, and none of reserved
    #[arg(long, value_parser = word::<Class>(&["spot", "reserved"]))]
    class: Option<Class>,
    /// required sells only where the network keeps guests apart; none sells without
    #[arg(long, value_parser = word::<NetworkIsolation>(&["required", "none"]))]
    network_isolation: Option<NetworkIsolation>,
    /// The pod-security level of guest namespaces
    #[arg(long, value_parser = word::<PodSecurity>(&["privileged", "baseline", "restricted"]))]
    pod_security: Option<PodSecurity>,
    /// What becomes of a request
    #[arg(long, value_parser = word::<Approve>(&["auto", "ask", "deny"]))]
    approve: Option<Approve>,
    /// Whose requests are granted without asking: a cluster, org=NAME, federation=NAME, or
    /// none
    #[arg(long, value_name = "WHO", value_delimiter = ',')]
    allow: Vec<String>,
    /// What becomes of some requests, before all that; several in their order, in the place of all
    /// rules before: 'federation=italia: ask'
    #[arg(long, value_name = "CASES: THEN", value_parser = rule::typed)]
    rule: Vec<Typed>,
    /// Have no rules from now on
    #[arg(long, conflicts_with = "rule")]
    no_rules: bool,
    /// Notice before capacity is taken back
    #[arg(long, value_name = "DURATION", value_parser = text::<Seconds>)]
    reclaim: Option<Seconds>,
    /// The longest term of a contract
    #[arg(long, value_name = "DURATION", value_parser = text::<Seconds>)]
    max_term: Option<Seconds>,
}

impl Share {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
    ) -> Result<String, Problem> {
        match self.what.unwrap_or(What::Show) {
            What::Show => show(api, screen).await,
            What::Set(set) => {
                let before = api.share().await?.policy;
                let allow = set.allowed(api).await?;
                let rules = set.rules(api).await?;
                let policy = set.policy(before, allow)?;
                let rules = rules.unwrap_or_else(|| policy.rules.clone());
                let policy = SharePolicy { rules, ..policy };
                api.tell(Request::SetShare(Some(policy))).await?;
                show(api, screen).await
            }
            What::Stop => {
                api.tell(Request::SetShare(None)).await?;
                Ok(screen.done("nothing is offered any more; contracts run on: mercato contracts"))
            }
        }
    }
}

impl Set {
    async fn allowed(&self, api: &dyn OperatorApi) -> Result<Option<BTreeSet<Party>>, Problem> {
        let mut allow = BTreeSet::new();
        for who in self.allow.iter().filter(|who| *who != "none") {
            allow.insert(match who.contains('=') {
                true => who.parse().map_err(|error: ParsePartyError| {
                    Problem::new(Kind::Usage, error.to_string())
                })?,
                false => Party::Cluster(lookup::cluster(api, who).await?.cluster),
            });
        }
        Ok((!self.allow.is_empty()).then_some(allow))
    }

    /// The rules from now on; none: as they are.
    async fn rules(&self, api: &dyn OperatorApi) -> Result<Option<Vec<ShareRule>>, Problem> {
        let mut rules = Vec::new();
        for Typed { rule, names } in &self.rule {
            let mut rule = rule.clone();
            for name in names {
                let cluster = lookup::cluster(api, name).await?.cluster;
                rule.buyers.insert(Party::Cluster(cluster));
            }
            rules.push(rule);
        }
        Ok((self.no_rules || !rules.is_empty()).then_some(rules))
    }

    /// What is offered from now on.
    fn policy(
        self,
        before: Option<SharePolicy>,
        allow: Option<BTreeSet<Party>>,
    ) -> Result<SharePolicy, Problem> {
        let mut policy = before.unwrap_or_else(|| mercato_config::Share::default().policy());
        let plain = [
            (Resource::Cpu, self.cpu),
            (Resource::Memory, self.memory),
            (Resource::Pods, self.pods),
        ];
        let plain = plain.into_iter().filter_map(|(resource, amount)| Some((resource, amount?)));
        policy.amounts.extend(plain);
        self.storage.say(&mut policy);
        self.egress.say(&mut policy);
        if let Some(Gpus(gpus)) = self.gpu {
            policy.amounts.retain(|resource, _| !matches!(resource, Resource::Gpu(_)));
            let gpus =
                gpus.into_iter().map(|(model, n)| (Resource::Gpu(model), Amount::Exactly(n)));
            policy.amounts.extend(gpus);
        }
        let devices = &mut policy.devices;
        if !self.gpu_models.is_empty() {
            devices.models = self.gpu_models.into_iter().flatten().collect();
        }
        if !self.shared_gpus.is_empty() {
            devices.shared = self.shared_gpus.into_iter().flatten().collect();
        }
        if !self.tolerate.is_empty() {
            devices.tolerate = self.tolerate.into_iter().flatten().collect();
        }
        if let Some(class) = self.gpu_runtime_class {
            devices.runtime_class = Some(class).filter(|class| class != "none");
        }
        devices.any_node = self.gpu_nodes.map_or(devices.any_node, |it| it == GpuNodes::Any);
        let both = [Resource::Cpu, Resource::Memory];
        if both.iter().any(|resource| !policy.amounts.contains_key(resource)) {
            return Err(Problem::new(Kind::Usage, "pods of guests need processors and memory")
                .todo("say how much of both: --cpu 30% --memory 30%"));
        }
        policy.reclaim_notice_s = self.reclaim.map_or(policy.reclaim_notice_s, |notice| notice.0);
        policy.max_term_s = self.max_term.map_or(policy.max_term_s, |term| term.0);
        policy.objects = self.objects.or(policy.objects);
        policy.keep_free = self.keep_free.unwrap_or(policy.keep_free);
        policy.price = self.price.unwrap_or(policy.price);
        policy.class = self.class.unwrap_or(policy.class);
        policy.network_isolation = self.network_isolation.unwrap_or(policy.network_isolation);
        policy.pod_security = self.pod_security.unwrap_or(policy.pod_security);
        policy.approve = self.approve.unwrap_or(policy.approve);
        policy.allow = allow.unwrap_or(policy.allow);
        Ok(policy)
    }
}

async fn show(api: &dyn OperatorApi, screen: &Screen) -> Result<String, Problem> {
    let share = api.share().await?;
    screen.warn(&share.unknown);
    let is_unsold = share.policy.is_some() && share.on_sale.is_empty();
    let own = if is_unsold { Some(api.status().await?.gateway) } else { None };
    screen.render(&share, || page(&share, own.as_ref(), screen.is_wide()))
}

/// `own` says why nothing is on sale, where that is so.
fn page(share: &admin::Share, own: Option<&OwnGateway>, wide: bool) -> String {
    let Some(policy) = &share.policy else {
        let begin = "nothing is shared; to begin: mercato share set --cpu 30% --memory 30%\n";
        return format!("{begin}{}{}", there::gpus(share, wide), unsold_devices(share));
    };
    // The configuration file counts at the first start alone.
    let changed_by = match share.ruled {
        true => "the MarketPolicy: kubectl edit marketpolicy default",
        false => "mercato share set",
    };
    let never = policy.unreached();
    let ruled = |(n, rule): (usize, &ShareRule)| {
        let line = crate::present::text::rule(rule, &policy.price);
        let why = never.contains(&n).then_some(" (never reached: an earlier rule decides)");
        line + why.unwrap_or_default()
    };
    let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let mut rows = vec![("shared", amounts(policy))];
    rows.extend(storage::words(policy));
    rows.extend(devices(&policy.devices));
    rows.extend([
        ("kept free", dash(spaced(&policy.keep_free))),
        ("guest objects", shown(policy.objects.unwrap_or(STORED_BYTES))),
        ("price", policy.price.show()),
        ("class", name(policy.class)),
        ("network isolation", name(policy.network_isolation)),
    ]);
    rows.extend(egress::words(policy));
    rows.extend([
        ("pod security", name(policy.pod_security)),
        ("requests", requests(policy)),
        ("rules", dash(policy.rules.iter().enumerate().map(ruled).collect::<Vec<_>>().join("\n"))),
        ("reclaim notice", Seconds(policy.reclaim_notice_s).show()),
        ("longest term", Seconds(policy.max_term_s).show()),
        ("changed by", changed_by.to_owned()),
    ]);
    let said = pairs(&rows);
    let mut table = Table::new(["ON SALE", "CPU", "MEMORY", "PODS", "GPUS", "LARGEST POD"]);
    for OnSale { pool, free, .. } in &share.on_sale {
        table.row([
            pool.id.to_string(),
            of(&Resource::Cpu, free),
            of(&Resource::Memory, free),
            of(&Resource::Pods, free),
            gpus(free),
            one_pod(&pool.largest_pod),
        ]);
    }
    if table.is_empty() {
        let why = own.map(|own| unsold::why(policy, own)).unwrap_or_default();
        let why = wrapped(&format!("nothing is on sale: {why}"), 0);
        let why = format!("{why}\n{}", egress::on_sale(share, policy, own));
        return format!("{said}\n{why}{}{}", there::gpus(share, wide), unsold_devices(share));
    }
    let others = storage::on_sale(share, policy) + &egress::on_sale(share, policy, own);
    let sold = [table.render(wide), others, missing(share), there::gpus(share, wide)].concat();
    format!("{said}\n{sold}{}", unsold_devices(share))
}

/// What becomes of requests under a policy.
fn requests(policy: &SharePolicy) -> String {
    let allow: Vec<_> = policy.allow.iter().map(party).collect();
    match (policy.approve, allow.is_empty()) {
        (Approve::Auto, _) => "granted at once".to_owned(),
        (Approve::Ask, true) => "need your approval".to_owned(),
        (Approve::Ask, false) => format!("need your approval, but for {}", allow.join(", ")),
        (Approve::Deny, true) => "refused".to_owned(),
        (Approve::Deny, false) => format!("refused, but for {}", allow.join(", ")),
    }
}

/// GPUs that are shared and that the cluster does not have, a line each.
fn missing(share: &admin::Share) -> String {
    let policy = share.policy.iter();
    let lines = policy.flat_map(|policy| &policy.amounts).filter_map(|(resource, amount)| {
        let (Resource::Gpu(_), Amount::Exactly(shared)) = (resource, amount) else { return None };
        let all = share.on_sale.iter().flat_map(|sold| sold.pool.total.iter());
        let there: u64 = all.filter(|(it, _)| it.is_a(resource)).map(|(_, n)| n).sum();
        let line = format!("of {resource}={shared}, {there} on sale: the cluster has no more\n");
        (there < *shared).then_some(line)
    });
    lines.collect()
}

/// Devices that are not sold, each with the reason, and with what to write if that helps.
fn unsold_devices(share: &admin::Share) -> String {
    let lines = share.unsold.iter().map(|it| format!("{}\n", wrapped(&unsold::device(it), 2)));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// What the owner says of devices, if anything.
fn devices(devices: &DevicePolicy) -> Vec<(&'static str, String)> {
    let DevicePolicy { models, shared, any_node, tolerate, runtime_class } = devices;
    let models = models.iter().map(|(product, model)| format!("{product}={model}"));
    let any = if *any_node { "any" } else { "" };
    let rows = [
        ("gpu models", models.collect::<Vec<_>>().join(",")),
        ("shared gpus", shared.iter().map(GpuModel::to_string).collect::<Vec<_>>().join(",")),
        ("gpu nodes", any.to_owned()),
        ("tolerated", tolerate.iter().cloned().collect::<Vec<_>>().join(",")),
        ("gpu runtime", runtime_class.clone().unwrap_or_default()),
    ];
    rows.into_iter().filter(|(_, said)| !said.is_empty()).collect()
}

/// A product and its model; none for the word `none`.
fn named(text: &str) -> Result<Option<(String, GpuModel)>, String> {
    if text == "none" {
        return Ok(None);
    }
    let (product, model) = text.split_once('=').ok_or("say PRODUCT=MODEL")?;
    let model = model.parse().map_err(|error| format!("{model} is no model: {error}"))?;
    Ok(Some((product.to_owned(), model)))
}

/// A model; none for the word `none`.
fn unless_none(text: &str) -> Result<Option<GpuModel>, String> {
    if text == "none" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| format!("{text} is no model: {error}"))
}

fn taint_unless_none(text: &str) -> Result<Option<String>, String> {
    if text == "none" { Ok(None) } else { taint(text).map(Some) }
}

fn cpu(text: &str) -> Result<Amount, SyntaxError> {
    amount::of(&Resource::Cpu, text)
}

fn memory(text: &str) -> Result<Amount, SyntaxError> {
    amount::of(&Resource::Memory, text)
}

fn pods(text: &str) -> Result<Amount, SyntaxError> {
    amount::of(&Resource::Pods, text)
}
