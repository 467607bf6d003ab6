//! The downward API: what a pod reads about itself must be home's truth. Each field that
//! differs over there is written into an annotation of the guest, and the reference is
//! turned to it: so that environment and volumes stay the same references, and volumes
//! follow changes.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::Digest;
use serde_json::{Value, json};

use super::refs::{each, visit_containers, within};
use super::{GuestContext, quantity};

/// Annotations that hold fields: this and a digest of the reference, so that a pod that
/// gains a container keeps the names that its running ones read.
pub(super) const FIELD: &str = "field.mercato.dev/";

/// Turns the references of `spec`; returns the annotations that they need. `home` is the
/// pod as it came.
pub(super) fn turn(spec: &mut Value, home: &Value, ctx: &GuestContext) -> BTreeMap<String, String> {
    let resources = spec.clone();
    let mut wanted = BTreeSet::new();
    visit_sources(spec, &mut |container, source| {
        wanted.extend(answer(source, container, home, &resources, ctx));
    });
    let named = |(reference, value): (String, String)| {
        let name = format!("{FIELD}{:.16}", Digest::of(reference.as_bytes()).to_string());
        (reference, (name, value))
    };
    let names: BTreeMap<String, (String, String)> = wanted.into_iter().map(named).collect();
    visit_sources(spec, &mut |container, source| {
        if let Some((reference, _)) = answer(source, container, home, &resources, ctx)
            && let Some((annotation, _)) = names.get(&reference)
            && let Some(source) = source.as_object_mut()
        {
            source.remove("resourceFieldRef");
            let path = format!("metadata.annotations['{annotation}']");
            source.insert("fieldRef".into(), json!({ "apiVersion": "v1", "fieldPath": path }));
        }
    });
    names.into_values().collect()
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

/// What a reference is called, and home's answer to it, where the guest's own would differ.
fn answer(
    source: &Value,
    container: &str,
    home: &Value,
    spec: &Value,
    ctx: &GuestContext,
) -> Option<(String, String)> {
    if let Some(path) = source["fieldRef"]["fieldPath"].as_str() {
        return Some((path.to_owned(), home_field(home, path)?));
    }
    let reference = source.get("resourceFieldRef").filter(|reference| reference.is_object())?;
    let named = reference["containerName"].as_str().unwrap_or(container);
    let path = reference["resource"].as_str()?;
    let resource = path.strip_prefix("limits.")?;
    let mut is_set = false;
    visit_containers(&mut spec.clone(), &mut |container| {
        is_set |=
            container["name"] == named && !container["resources"]["limits"][resource].is_null();
    });
    if is_set {
        return None;
    }
    let divisor = reference["divisor"].as_str().filter(|text| *text != "0").unwrap_or("1");
    let shown = quantity::divide(ctx.allocatable.get(resource)?, divisor)?;
    Some((format!("{path}/{divisor}"), shown.to_string()))
}

fn home_field(home: &Value, path: &str) -> Option<String> {
    let text = |value: &Value| Some(value.as_str().unwrap_or_default().to_owned());
    let metadata = &home["metadata"];
    match path {
        "metadata.namespace" => text(&metadata["namespace"]),
        "metadata.uid" => text(&metadata["uid"]),
        "metadata.labels" => Some(lines(&metadata["labels"])),
        "metadata.annotations" => Some(lines(&metadata["annotations"])),
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
