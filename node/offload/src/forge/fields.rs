//! The downward API: what a pod reads about itself must be home's truth. Each field that
//! differs over there is written into an annotation of the guest, and the reference is
//! turned to it: so that environment and volumes stay the same references, and volumes
//! follow changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_protocol::id::Digest;
use mercato_protocol::quantity::{self, Quantity};
use serde_json::{Value, json};

use super::GuestContext;
use super::refs::{each, visit_containers, within};

/// Annotations that hold fields: this and a digest of the reference, so that a pod that
/// gains a container keeps the names that its running ones read.
pub(super) const FIELD: &str = "field.mercato.dev/";

/// Turns the references of `spec`; returns the annotations that they need. `home` is the
/// pod as it came, which everybody knows by the address `called`.
pub(super) fn turn(
    spec: &mut Value,
    home: &Value,
    called: Option<IpAddr>,
    ctx: &GuestContext,
) -> BTreeMap<String, String> {
    let limited = limited(spec);
    let mut answers: BTreeMap<String, Option<(String, String)>> = BTreeMap::new();
    visit_sources(spec, &mut |container, source| {
        let Some(reference) = reference(source, container, &limited, home) else { return };
        // Each is answered once, however many ask: an answer may be long.
        let answer = answers.entry(reference.name()).or_insert_with_key(|name| {
            let value = reference.answer(home, called, ctx)?;
            let digest = Digest::of(name.as_bytes()).to_string();
            Some((format!("{FIELD}{digest:.16}"), value))
        });
        let Some((annotation, _)) = answer else { return };
        let path = format!("metadata.annotations['{annotation}']");
        if let Some(source) = source.as_object_mut() {
            source.remove("resourceFieldRef");
            source.insert("fieldRef".into(), json!({ "apiVersion": "v1", "fieldPath": path }));
        }
    });
    answers.into_values().flatten().collect()
}

/// Every object that may hold a `fieldRef` or `resourceFieldRef`, with the name of the
/// container that it stands in.
fn visit_sources(spec: &mut Value, visit: &mut dyn FnMut(&str, &mut Value)) {
    visit_containers(spec, &mut |container| {
        let name = container["name"].as_str().unwrap_or_default().to_owned();
        each(container, "env", &mut |env| {
            within(env, "valueFrom", &mut |source| visit(&name, source));
        });
    });
    each(spec, "volumes", &mut |volume| {
        within(volume, "downwardAPI", &mut |volume| {
            each(volume, "items", &mut |item| visit("", item));
        });
        within(volume, "projected", &mut |projected| {
            each(projected, "sources", &mut |source| {
                within(source, "downwardAPI", &mut |volume| {
                    each(volume, "items", &mut |item| visit("", item));
                });
            });
        });
    });
}

/// The limits that are set: container and resource.
fn limited(spec: &mut Value) -> BTreeSet<(String, String)> {
    let mut limited = BTreeSet::new();
    visit_containers(spec, &mut |container| {
        let name = container["name"].as_str().unwrap_or_default().to_owned();
        let limits = container["resources"]["limits"].as_object().into_iter().flatten();
        let set = limits.filter(|(_, amount)| !amount.is_null());
        limited.extend(set.map(|(resource, _)| (name.clone(), resource.clone())));
    });
    limited
}

/// A reference whose answer may be another one over there.
enum Reference {
    Field(String),
    /// A limit that is not set: what the whole pod may have, for variables, or what the node has.
    Limit {
        resource: String,
        divisor: String,
        whole: Option<String>,
    },
}

fn reference(
    source: &Value,
    container: &str,
    limited: &BTreeSet<(String, String)>,
    home: &Value,
) -> Option<Reference> {
    if let Some(path) = source["fieldRef"]["fieldPath"].as_str() {
        return Some(Reference::Field(path.to_owned()));
    }
    let reference = source.get("resourceFieldRef").filter(|reference| reference.is_object())?;
    let named = reference["containerName"].as_str().unwrap_or(container).to_owned();
    let resource = reference["resource"].as_str()?.strip_prefix("limits.")?.to_owned();
    let divisor = reference["divisor"].as_str().filter(|text| *text != "0").unwrap_or("1");
    let set = limited.contains(&(named, resource.clone()));
    // A kubelet does not look at that for the files of a volume, which are of no container.
    let whole = if container.is_empty() { None } else { of_whole(home, &resource) };
    (!set).then(|| Reference::Limit { resource, divisor: divisor.to_owned(), whole })
}

/// The limit that the pod has as a whole: of what a kubelet reads it for (`defaultPodLimitsForDownwardAPI`).
fn of_whole(home: &Value, resource: &str) -> Option<String> {
    let amount = &home["spec"]["resources"]["limits"][resource];
    let amount = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    let is_read = ["cpu", "memory"].contains(&resource);
    is_read.then_some(amount).filter(|amount| quantity::units(amount).is_some_and(|n| n > 0))
}

impl Reference {
    fn name(&self) -> String {
        match self {
            Self::Field(path) => path.clone(),
            Self::Limit { resource, divisor, whole: None } => {
                format!("limits.{resource}/{divisor}")
            }
            Self::Limit { resource, divisor, whole: Some(_) } => {
                format!("limits.{resource}/{divisor} of the whole")
            }
        }
    }

    /// Home's answer; none where the guest's own is the same.
    fn answer(&self, home: &Value, called: Option<IpAddr>, ctx: &GuestContext) -> Option<String> {
        match self {
            Self::Field(path) => home_field(home, called, path),
            Self::Limit { resource, divisor, whole } => {
                let node = ctx.allocatable.get(resource)?;
                let amount = Quantity::read(whole.as_ref().unwrap_or(node))?;
                Some(amount.divide(Quantity::read(divisor)?)?.to_string())
            }
        }
    }
}

fn home_field(home: &Value, called: Option<IpAddr>, path: &str) -> Option<String> {
    let text = |value: &Value| Some(value.as_str().unwrap_or_default().to_owned());
    let metadata = &home["metadata"];
    match path {
        "metadata.namespace" => text(&metadata["namespace"]),
        "metadata.uid" => text(&metadata["uid"]),
        "metadata.labels" => Some(lines(&metadata["labels"])),
        "metadata.annotations" => Some(lines(&metadata["annotations"])),
        // Home has written it where it is asked for. The provider's own is none of a guest's.
        "status.hostIP" | "status.hostIPs" => Some(String::new()),
        "status.podIP" | "status.podIPs" => called.map(|address| address.to_string()),
        "spec.nodeName" => text(&home["spec"]["nodeName"]),
        "spec.serviceAccountName" => text(&home["spec"]["serviceAccountName"]),
        _ => {
            let (map, name) = path.strip_suffix("']")?.split_once("['")?;
            let map = map.strip_prefix("metadata.")?;
            matches!(map, "labels" | "annotations").then(|| text(&metadata[map][name]))?
        }
    }
}

/// As a kubelet writes them to a file (pkg/fieldpath: sorted, quoted as by Go's `%q`).
fn lines(map: &Value) -> String {
    let map: BTreeMap<&String, &Value> = map.as_object().into_iter().flatten().collect();
    let line = |(name, value): (&&String, &&Value)| format!("{name}={value}");
    map.iter().map(line).collect::<Vec<_>>().join("\n")
}
