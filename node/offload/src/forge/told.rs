//! What of an object is not at the provider as its owner has it at home, in words for that owner: the
//! field, why, and what changes it. Each is one event on the object at home.

use mercato_protocol::names::is_domain;
use mercato_protocol::workload::is_reserved;
use serde_json::Value;

use super::keys::guest_key;
use super::labels::{CLUSTER_DOMAIN, HOME_API};
use super::refs::audience;
use super::tokens::Tokens;
use super::{GuestContext, grace, hosts, names};
use crate::message::{EventKind, PodEvent, Refusal};

/// Something that is not as an owner has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether somebody should look at it.
    pub kind: EventKind,
    /// The reason of the event, one word.
    pub reason: &'static str,
    /// The path of the field, or empty.
    pub field: String,
    /// What became of the field and why: it follows the path.
    pub cause: String,
    /// What a person does who wants it otherwise, or empty.
    pub line: String,
}

/// Reason of the event that something stays at home, or does not count at the provider.
pub const LEFT_OUT: &str = "LeftOut";
/// Reason of the event that a guest has less time to end than its pod asks for.
pub const SHORTER_GRACE: &str = "GracePeriodShortened";
/// Reason of the event that home's guests are told none of its names.
pub const DOMAIN_REFUSED: &str = "ClusterDomainRefused";
/// Reason of the event that a search list is longer than it may be, as a kubelet has it.
pub const SEARCHES_CUT: &str = "DNSConfigForming";
/// Reason of the event that a guest cannot start with its full name as its host name.
pub const NAME_TOO_LONG: &str = "HostnameTooLong";

/// How the volume begins by name that Kubernetes gives each pod for its API server. That its token stays
/// is said of the namespace, and not of each pod.
const AUTOMATIC: &str = "kube-api-access-";
/// Characters of the host name that a kernel takes.
const HOSTNAME: usize = 64;
/// What most clusters call themselves; a provider does not say what its own is.
const USUAL_DOMAIN: &str = "cluster.local";

impl Note {
    /// Something that is left out, which disturbs nothing else.
    fn left_out(
        field: impl Into<String>,
        cause: impl Into<String>,
        line: impl Into<String>,
    ) -> Self {
        let (field, cause, line) = (field.into(), cause.into(), line.into());
        Self { kind: EventKind::Normal, reason: LEFT_OUT, field, cause, line }
    }

    fn warning(reason: &'static str, cause: String) -> Self {
        let (field, line) = (String::new(), String::new());
        Self { kind: EventKind::Warning, reason, field, cause, line }
    }

    /// A token that home's own API server does not give, in its words; without an audience it is home's
    /// own. The guest waits for it.
    pub fn token_refused(audience: Option<&str>, why: &str) -> Self {
        let whom = audience.unwrap_or("this cluster's API server");
        Self::warning(
            LEFT_OUT,
            format!(
                "the pod waits for its service account token for {whom}, which this cluster refuses: {why}"
            ),
        )
    }

    /// What is refused, with the reason that refusals have.
    pub fn refused(reason: &'static str, refusal: Refusal) -> Self {
        Self { field: refusal.path, ..Self::warning(reason, refusal.reason) }
    }

    /// All of it as the text of an event.
    pub fn text(&self) -> String {
        let Self { field, cause, line, .. } = self;
        let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
        let line = if line.is_empty() { String::new() } else { format!("; {line}") };
        format!("{field}{cause}{line}")
    }

    /// As what the provider tells of a pod.
    pub fn event(&self) -> PodEvent {
        let (reason, message) = (self.reason.to_owned(), self.text());
        PodEvent { kind: self.kind, reason, field: String::new(), message, count: 1 }
    }
}

/// What home keeps of a pod that leaves: tokens for which its owner has asked.
pub fn kept_of_pod(pod: &Value, tokens: &Tokens) -> Vec<Note> {
    let mut notes = Vec::new();
    for (v, volume) in list(&pod["spec"]["volumes"]).enumerate() {
        if volume["name"].as_str().is_some_and(|name| name.starts_with(AUTOMATIC)) {
            continue;
        }
        for (s, source) in list(&volume["projected"]["sources"]).enumerate() {
            let token = &source["serviceAccountToken"];
            if token.is_null() || tokens.permit(audience(token)) {
                continue;
            }
            let field = format!("spec.volumes[{v}].projected.sources[{s}].serviceAccountToken");
            notes.push(match audience(token) {
                None => Note::left_out(
                    field,
                    "stays at home, since the namespace is offloaded with apiAccess: none",
                    "set spec.apiAccess: home in its NamespaceOffload",
                ),
                Some(audience) => Note::left_out(
                    field,
                    format!(
                        "stays at home, since {audience} is no audience whose tokens leave this cluster"
                    ),
                    format!(
                        "set kubernetes.tokenAudiences: [{audience}] in this cluster's configuration, \
                         or spec.apiAccess: home in the NamespaceOffload"
                    ),
                ),
            });
        }
    }
    notes
}

/// What of a pod, as home sent it, its guest does not have, or has otherwise; `stored`: as the API server
/// gave it back.
pub fn changed_of_pod(
    home: &Value,
    guest: &Value,
    stored: &Value,
    ctx: &GuestContext,
) -> Vec<Note> {
    let mut notes: Vec<_> = dropped(home, guest, stored).into_iter().collect();
    notes.extend(grace::shortened(home, ctx.longest_grace_s).map(|(cause, line)| Note {
        field: "spec.terminationGracePeriodSeconds".to_owned(),
        line,
        ..Note::warning(SHORTER_GRACE, cause)
    }));
    notes.extend(shorter(home, guest));
    // Where there is no name server nobody is told names, whatever home is called.
    if ctx.name_server.is_some() {
        let namespace = home["metadata"]["namespace"].as_str().unwrap_or_default();
        let domain = names::refused_domain(home);
        notes.extend(domain.map(|cause| Note::warning(DOMAIN_REFUSED, cause)));
        let searches = names::cut_searches(home, namespace);
        notes.extend(searches.map(|cause| Note::warning(SEARCHES_CUT, cause)));
    }
    notes.extend(long_name(home, guest));
    notes.extend(
        ["podAffinity", "podAntiAffinity"].iter().filter_map(|kind| terms(home, guest, kind)),
    );
    notes.extend(spread(home, guest));
    notes.extend(annotations(home, guest));
    notes
}

/// What the provider's API server has dropped, so that a pod's host is not called as at home.
fn dropped(home: &Value, forged: &Value, stored: &Value) -> Option<Note> {
    let own = &home["spec"]["hostnameOverride"];
    let field = if own.is_null() { "spec.setHostnameAsFQDN" } else { "spec.hostnameOverride" };
    hosts::is_uncalled(forged, stored).then(|| {
        Note::left_out(
            field,
            "does not count over there: the provider's API server drops hostnameOverride, by which the \
             pod's host would be called as at home",
            "have the provider turn on Kubernetes' feature HostnameOverride, and make the pod again",
        )
    })
}

/// Times of containers that are bounded by how long the guest may take to end.
fn shorter(home: &Value, guest: &Value) -> Vec<Note> {
    const TIMES: [&str; 4] = [
        "livenessProbe/terminationGracePeriodSeconds",
        "startupProbe/terminationGracePeriodSeconds",
        "lifecycle/preStop/sleep/seconds",
        "lifecycle/postStart/sleep/seconds",
    ];
    let mut notes = Vec::new();
    for sort in ["containers", "initContainers"] {
        for (n, container) in list(&home["spec"][sort]).enumerate() {
            let there = list(&guest["spec"][sort]).find(|one| one["name"] == container["name"]);
            for time in TIMES {
                let seconds = |of: &Value| of.pointer(&format!("/{time}")).and_then(Value::as_u64);
                let times = seconds(container).zip(there.and_then(seconds));
                let Some((asked, given)) = times.filter(|(asked, given)| given < asked) else {
                    continue;
                };
                let cause = format!("is {given} here, not {asked}: the guest has no longer to end");
                notes.push(Note {
                    field: format!("spec.{sort}[{n}].{}", time.replace('/', ".")),
                    line: format!("set it to {given}, or buy a longer notice"),
                    ..Note::warning(SHORTER_GRACE, cause)
                });
            }
        }
    }
    notes
}

/// A kubelet makes no sandbox for a pod whose host name is longer than a kernel takes.
fn long_name(home: &Value, guest: &Value) -> Option<Note> {
    let (spec, metadata) = (&home["spec"], &home["metadata"]);
    let subdomain = spec["subdomain"].as_str().filter(|name| !name.is_empty())?;
    let own = spec["hostname"].as_str().filter(|name| !name.is_empty());
    let own: String = own.or(metadata["name"].as_str())?.chars().take(HOSTNAME - 1).collect();
    let namespace = guest["metadata"]["namespace"].as_str()?;
    let name = format!("{own}.{subdomain}.{namespace}.svc.{USUAL_DOMAIN}");
    let length = name.len();
    let whole = guest["spec"]["setHostnameAsFQDN"] == true;
    (whole && length > HOSTNAME).then(|| Note {
        field: "spec.setHostnameAsFQDN".to_owned(),
        line: format!(
            "set it to false, or have the namespace called otherwise over there: mercato offload {} \
             --name NAME",
            metadata["namespace"].as_str().unwrap_or_default()
        ),
        ..Note::warning(
            NAME_TOO_LONG,
            format!(
                "the full name over there, {name} in most clusters, has {length} characters, and a \
                 host name has {HOSTNAME} at most: the pod does not start"
            ),
        )
    })
}

/// Terms of affinity between pods, of that kind.
fn terms(home: &Value, guest: &Value, kind: &str) -> Option<Note> {
    const SORTS: [&str; 2] = [
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    ];
    let count = |pod: &Value| -> usize {
        SORTS.iter().map(|sort| list(&pod["spec"]["affinity"][kind][sort]).count()).sum()
    };
    let (asked, left) = (count(home), count(home).saturating_sub(count(guest)));
    (left > 0).then(|| {
        Note::left_out(
            format!("spec.affinity.{kind}"),
            format!(
                "{left} of {asked} terms do not count over there: sixteen do, by host name, zone or \
                 region, among namespaces of the contract that are named"
            ),
            "use topologyKey: kubernetes.io/hostname or topology.kubernetes.io/zone, and namespaces: in \
             place of a namespaceSelector",
        )
    })
}

fn spread(home: &Value, guest: &Value) -> Option<Note> {
    let of = |pod: &Value| -> Vec<Value> {
        let all = list(&pod["spec"]["topologySpreadConstraints"]);
        all.map(|one| one["topologyKey"].clone()).collect()
    };
    let known = of(guest);
    let lost: Vec<_> = of(home).into_iter().filter(|key| !known.contains(key)).collect();
    let first = lost.first()?.as_str().unwrap_or_default();
    Some(Note::left_out(
        "spec.topologySpreadConstraints",
        format!("{} by {first} or other keys do not count over there", lost.len()),
        "use topologyKey: kubernetes.io/hostname or topology.kubernetes.io/zone",
    ))
}

fn annotations(home: &Value, guest: &Value) -> Option<Note> {
    let there = &guest["metadata"]["annotations"];
    let own = home["metadata"]["annotations"].as_object()?;
    let is_lost = |key: &&String| {
        let is_ours = [CLUSTER_DOMAIN, HOME_API].contains(&key.as_str());
        !is_ours && guest_key(key).is_none_or(|key| there[&*key].is_null())
    };
    let lost: Vec<_> = own.keys().filter(is_lost).collect();
    let first = *lost.first()?;
    Some(Note::left_out(
        format!("metadata.annotations[{first}]"),
        format!(
            "stays at home for lack of room, one of {}; the pod reads it all the same",
            lost.len()
        ),
        "take annotations off, or shorten them: all of an object have 240 KiB over there",
    ))
}

/// What of a Service guests do not have. `domain` is what home calls its cluster, if guests are told
/// names; `leaves` says whether a namespace is offloaded.
pub fn kept_of_service(
    service: &Value,
    domain: Option<&str>,
    leaves: &dyn Fn(&str) -> bool,
) -> Vec<Note> {
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        return alias(spec, domain, leaves).into_iter().collect();
    }
    let mut notes = Vec::new();
    for (n, port) in list(&spec["ports"]).enumerate() {
        if let Some(protocol) =
            port["protocol"].as_str().filter(|name| !["TCP", "UDP"].contains(name))
        {
            notes.push(Note::left_out(
                format!("spec.ports[{n}].protocol"),
                format!("guests do not have the port, since {protocol} passes through no tunnel"),
                "offer it by TCP or UDP",
            ));
        }
    }
    if list(&spec["externalIPs"]).next().is_some() {
        notes.push(Note::left_out(
            "spec.externalIPs",
            "guests do not reach the Service by them",
            "call it by its name",
        ));
    }
    if spec["internalTrafficPolicy"] == "Local" {
        notes.push(Note::left_out(
            "spec.internalTrafficPolicy",
            "guests are sent to all endpoints, whatever node they are on",
            "set it to Cluster, as it is for them",
        ));
    }
    notes
}

/// A Service that is only another name.
fn alias(spec: &Value, domain: Option<&str>, leaves: &dyn Fn(&str) -> bool) -> Option<Note> {
    let name = spec["externalName"].as_str()?;
    let name = name.strip_suffix('.').unwrap_or(name);
    let field = "spec.externalName";
    if !is_domain(name) {
        let cause = "guests do not have the Service, since this is no name of a domain";
        return Some(Note::left_out(field, cause, "name a domain"));
    }
    let of_cluster = name.strip_suffix(domain?)?.strip_suffix(".svc.")?;
    let namespace = of_cluster.rsplit_once('.').map(|(_, namespace)| namespace)?;
    if leaves(namespace) {
        return None;
    }
    let line = match is_reserved(namespace) {
        true => "name a Service of a namespace that may leave".to_owned(),
        false => format!("mercato offload {namespace}"),
    };
    let cause = format!("guests find no such name, since namespace {namespace} is not offloaded");
    Some(Note::left_out(field, cause, line))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
