//! How a guest finds names: by home's search list and options, at the provider's name server for
//! guests, which knows home's names (`node/names/`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_protocol::limits::RANGES;
use mercato_protocol::names::{is_domain, is_global, is_home_domain};
use mercato_protocol::node::is_callable;
use serde_json::{Value, json};

use super::labels::{CLUSTER_DOMAIN, EXTERNAL_NAME, HOME_ADDRESS, HOME_API, HOME_RANGES};
use crate::address::MappedRange;

/// A resolver of the guest's asks twice, a second each time: a node's name server is near, and one that
/// is just being replaced is back by then.
const OPTIONS: [[&str; 2]; 2] = [["timeout", "1"], ["attempts", "2"]];
/// As Kubernetes has it with the names of a cluster (`ndots`).
const DOTS: [&str; 2] = ["ndots", "5"];

/// Domains in a search list, and bytes of them with blanks between: what a kubelet takes of one, and
/// what the API server takes in a `dnsConfig` (`MaxDNSSearchPaths`, `MaxDNSSearchListChars`).
const SEARCHES: usize = 32;
const SEARCH_BYTES: usize = 2_048;
/// The longest domain in one: a resolver may fail at longer ones.
const SEARCH_DOMAIN_BYTES: usize = 253;

/// Says with a pod what home calls its cluster.
pub(super) fn say_domain(pod: &mut Value, domain: &str) {
    annotate(pod, CLUSTER_DOMAIN, domain);
}

/// Says with a pod at which address inside the tunnel home's API server is reached.
pub(super) fn say_api(pod: &mut Value, address: IpAddr) {
    annotate(pod, HOME_API, &address.to_string());
}

fn annotate(pod: &mut Value, name: &str, value: &str) {
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if annotations.is_null() {
            *annotations = json!({});
        }
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(name.to_owned(), json!(value));
        }
    }
}

/// What home calls its cluster, taken out of a pod that it has sent; none: it has said nothing, or
/// nothing that a home may be called.
pub(super) fn take_domain(pod: &mut Value) -> Option<String> {
    let annotations = pod["metadata"].get_mut("annotations")?.as_object_mut()?;
    taken_domain(&annotations.remove(CLUSTER_DOMAIN)?).map(str::to_owned)
}

/// What home has said that it is called, where a home may be.
fn taken_domain(said: &Value) -> Option<&str> {
    said.as_str().filter(|domain| is_home_domain(domain))
}

/// That a guest is told no names of home, since home calls its cluster so, in words for its owner; none:
/// it may.
pub(super) fn refused_domain(home: &Value) -> Option<String> {
    let domain = home["metadata"]["annotations"][CLUSTER_DOMAIN].as_str()?;
    (is_domain(domain) && !is_home_domain(domain)).then(|| {
        format!(
            "the cluster domain of home, {domain}, is a single label, which may be the end of anybody's \
             names on the Internet: this pod is told no names of home; a domain such as cluster.local is \
             taken"
        )
    })
}

/// Where home's API server is reached inside the tunnel, taken out of a pod that home has sent; none:
/// the pod has no access to it.
pub(super) fn take_api(pod: &mut Value) -> Option<IpAddr> {
    let annotations = pod["metadata"].get_mut("annotations")?.as_object_mut()?;
    annotations.remove(HOME_API)?.as_str()?.parse().ok()
}

/// The name that a Service stands for, as home has sent it; none: it stands for none.
pub(super) fn external(service: &Value) -> Option<&str> {
    let name = service["metadata"]["annotations"][EXTERNAL_NAME].as_str()?;
    Some(name).filter(|name| is_domain(name))
}

/// The address that a Service has at home, as home has sent it or the provider has written it down;
/// none: it has said none that a Service may have.
pub fn home_address(service: &Value) -> Option<IpAddr> {
    let address = service["metadata"]["annotations"][HOME_ADDRESS].as_str()?.parse().ok()?;
    is_callable(address).then_some(address)
}

/// Ranges of pods of home, of which home shows other addresses than are said inside the tunnel, as text.
pub(super) fn ranges_text<'a>(ranges: impl IntoIterator<Item = &'a MappedRange>) -> Option<String> {
    let others = ranges.into_iter().filter(|range| range.inner != range.local);
    let all: Vec<_> = others.map(|range| format!("{}={}", range.inner, range.local)).collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// The same of an EndpointSlice, as home has sent it or the provider has written it down: what each is
/// inside the tunnel, and as `local` what it is at home. What is no such range is left out.
pub fn home_ranges(slice: &Value) -> BTreeSet<MappedRange> {
    let text = slice["metadata"]["annotations"][HOME_RANGES].as_str().unwrap_or_default();
    let range = |text: &str| {
        let (inner, local) = text.split_once('=')?;
        let (inner, local): (IpNet, IpNet) = (inner.parse().ok()?, local.parse().ok()?);
        let is_as_long = inner.prefix_len() == local.prefix_len()
            && inner.max_prefix_len() == local.max_prefix_len();
        let is_plain = [inner, local].iter().all(|it| it.addr().to_canonical() == it.addr());
        let range = MappedRange { inner: inner.trunc(), local: local.trunc() };
        (is_as_long && is_plain).then_some(range)
    };
    text.split(',').take(RANGES).filter_map(range).collect()
}

/// Whether a pod asks servers of its own alone (`dnsPolicy: None`), on the Internet all of them: these
/// are the same over there.
pub(super) fn asks_the_internet(home: &Value) -> bool {
    let spec = &home["spec"];
    let servers = spec["dnsConfig"]["nameservers"].as_array().map_or(&[][..], Vec::as_slice);
    let is_there = |server: &Value| {
        let address = server.as_str().and_then(|text| text.parse().ok());
        address.is_some_and(is_global)
    };
    spec["dnsPolicy"] == "None" && !servers.is_empty() && servers.iter().all(is_there)
}

/// The `dnsConfig` of a guest of this namespace of home, which is called so there: what its resolver
/// has at home, but that it asks this server alone. Whichever servers home names are addresses of
/// home, and over there somebody else's.
pub(super) fn dns_config(home: &Value, namespace: &str, domain: &str, server: IpAddr) -> Value {
    let (spec, searches) = (&home["spec"], Searches::of(home, namespace, domain));
    let mut options = Vec::from(OPTIONS.map(|[name, value]| option(name, value)));
    if is_of_cluster(home) {
        options.push(option(DOTS[0], DOTS[1]));
    }
    let own = &spec["dnsConfig"];
    for own in own["options"].as_array().into_iter().flatten() {
        let Some(name) = own["name"].as_str() else { continue };
        options.retain(|known| known["name"] != name);
        let mut option = json!({ "name": name });
        if let Some(value) = own["value"].as_str() {
            option["value"] = json!(value);
        }
        options.push(option);
    }
    let mut config = json!({ "nameservers": [server], "options": options });
    if !searches.applied.is_empty() {
        config["searches"] = json!(searches.applied);
    }
    config
}

/// Whether a pod searches the domains of its cluster.
fn is_of_cluster(home: &Value) -> bool {
    !matches!(home["spec"]["dnsPolicy"].as_str(), Some("Default" | "None"))
}

/// That a guest's search list is longer than a kubelet takes, in a kubelet's words for its owner; none:
/// all of it counts.
pub(super) fn cut_searches(home: &Value, namespace: &str) -> Option<String> {
    let domain = taken_domain(&home["metadata"]["annotations"][CLUSTER_DOMAIN])?;
    let searches = Searches::of(home, namespace, domain);
    (searches.is_cut && !asks_the_internet(home)).then(|| {
        format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search \
             line is: {}",
            searches.applied.join(" ")
        )
    })
}

/// The search list of a guest.
struct Searches {
    applied: Vec<String>,
    /// Whether it would be longer by what its owner and its cluster say.
    is_cut: bool,
}

impl Searches {
    /// Those of its cluster, then its own, each once, as far as a kubelet takes them.
    fn of(home: &Value, namespace: &str, domain: &str) -> Self {
        let mut all = Vec::new();
        if is_of_cluster(home) {
            let of_namespace = format!("{namespace}.svc.{domain}");
            all.extend([of_namespace, format!("svc.{domain}"), domain.to_owned()]);
        }
        let own = home["spec"]["dnsConfig"]["searches"].as_array();
        for search in own.into_iter().flatten().filter_map(Value::as_str) {
            if !all.iter().any(|known| known == search) {
                all.push(search.to_owned());
            }
        }
        let count = all.len();
        let mut applied = all;
        applied.truncate(SEARCHES);
        applied.retain(|search| search.len() <= SEARCH_DOMAIN_BYTES);
        while applied.iter().map(|search| search.len() + 1).sum::<usize>() > SEARCH_BYTES + 1 {
            applied.pop();
        }
        Self { is_cut: applied.len() < count, applied }
    }
}

fn option(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}
