//! Services and their endpoints. Home says which of its Services an offloaded namespace has, and
//! where their pods are, by the addresses that guests know; the provider makes Services without
//! a selector of them, and slices of its own account, so that no controller over there changes
//! either.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mercato_protocol::id::Digest;
use mercato_protocol::names::{is_domain, is_label};
use mercato_protocol::node::is_callable;
use serde_json::{Map, Value, json};

use super::labels::{SERVICE_NAME, SLICE_MANAGED_BY};
use super::rule::{Fields, refusal};
use super::schema_service::{ENDPOINT_SLICE, SERVICE};
use super::{GuestContext, Refusal, labels, made, metadata, names};
use crate::address::MappedRange;
use crate::key::{Item, ObjectKind};
use crate::limits;
use crate::message::Route;

/// The service as it is sent: one that is only a name (`ExternalName`) as one without an address. None
/// if it is of protocols that no tunnel carries.
pub fn export_service(service: &Value) -> Option<Value> {
    let (metadata, spec) = (&service["metadata"], &service["spec"]);
    if spec["type"] == "ExternalName" {
        let name = spec["externalName"].as_str()?;
        let name = name.strip_suffix('.').unwrap_or(name);
        let mut marks = picked(metadata, &["namespace", "name"]);
        marks["annotations"] = json!({ labels::EXTERNAL_NAME: name });
        return is_domain(name).then(|| {
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": marks,
                "spec": { "clusterIP": "None" } })
        });
    }
    let ports = spec["ports"].as_array().into_iter().flatten().filter(|port| is_carried(port));
    let ports: Vec<Value> =
        ports.map(|port| picked(port, &["name", "port", "protocol", "appProtocol"])).collect();
    let headless = spec["clusterIP"] == "None";
    // Without a port only a headless one is a Service.
    if ports.is_empty() && !headless {
        return None;
    }
    let mut sent = picked(spec, &["sessionAffinity", "sessionAffinityConfig"]);
    sent["ports"] = json!(ports);
    if headless {
        sent["clusterIP"] = json!("None");
    }
    let mut marks = picked(metadata, &["namespace", "name"]);
    let addresses = spec["clusterIPs"].as_array().into_iter().flatten();
    let mut addresses = addresses.filter_map(|address| address.as_str()?.parse().ok());
    if let Some(address) = addresses.find(|address| is_callable(*address)) {
        marks["annotations"] = json!({ labels::HOME_ADDRESS: address });
    }
    Some(json!({ "apiVersion": "v1", "kind": "Service", "metadata": marks, "spec": sent }))
}

/// The slice as it is sent, with each address as guests know it; none if it is of no Service, or not
/// of IPv4. What guests know by no address is left out: `left_out` counts it.
pub fn export_slice(slice: &Value, ranges: &[MappedRange]) -> Option<Slice> {
    let metadata = &slice["metadata"];
    let service = metadata["labels"][SERVICE_NAME].as_str()?;
    if slice["addressType"] != "IPv4" {
        return None;
    }
    let all = slice["endpoints"].as_array().map_or(&[][..], Vec::as_slice);
    let mut others = BTreeSet::new();
    let known = |endpoint: &Value| {
        let addresses = endpoint["addresses"].as_array()?.iter();
        // Whoever reads a slice takes the first one alone.
        let address = addresses.filter_map(|it| it.as_str()?.parse().ok()).next()?;
        let of = |range: &MappedRange| Some((range.inner_of(address)?, *range));
        let (inner, range) = ranges.iter().find_map(of)?;
        others.insert(range);
        let mut sent = picked(endpoint, &["conditions", "hostname"]);
        sent["addresses"] = json!([inner]);
        Some(sent)
    };
    let endpoints: Vec<Value> = all.iter().filter_map(known).collect();
    let ports = slice["ports"].as_array().into_iter().flatten().filter(|port| is_carried(port));
    let ports: Vec<Value> = ports.cloned().collect();
    let left_out = all.len() - endpoints.len();
    let mut marks = picked(metadata, &["namespace", "name"]);
    marks["labels"] = json!({ SERVICE_NAME: service });
    if let Some(ranges) = names::ranges_text(&others) {
        marks["annotations"] = json!({ labels::HOME_RANGES: ranges });
    }
    let sent = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": marks,
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
    });
    Some(Slice { sent, left_out })
}

/// A slice as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// As the provider gets it.
    pub sent: Value,
    /// How many endpoints guests know by no address.
    pub left_out: usize,
}

/// TCP and UDP pass through tunnels; a port that names none is TCP.
fn is_carried(port: &Value) -> bool {
    matches!(port["protocol"].as_str(), None | Some("TCP" | "UDP"))
}

/// These fields of an object, as far as it has them.
fn picked(object: &Value, names: &[&str]) -> Value {
    let field = |name: &&str| {
        let value = object.get(*name).filter(|value| !value.is_null())?;
        Some(((*name).to_owned(), value.clone()))
    };
    Value::Object(names.iter().filter_map(field).collect())
}

/// The guest's service of a home service.
pub(super) fn forge_service(
    item: &Item,
    home: &Value,
    digest: Digest,
    route: &Route,
    ctx: &GuestContext,
) -> Result<Value, Refusal> {
    let mut service = filtered(&SERVICE, home, ctx)?;
    let spec = service["spec"].as_object_mut().ok_or_else(|| refusal("spec", "is missing"))?;
    // Of whatever type it is at home: over there it is for guests alone. Its addresses are those
    // that all pods of the tunnel have.
    spec.insert("type".into(), json!("ClusterIP"));
    spec.insert("ipFamilyPolicy".into(), json!("SingleStack"));
    spec.insert("ipFamilies".into(), json!(["IPv4"]));
    let external = names::external(home).map(|name| (labels::EXTERNAL_NAME, json!(name)));
    let address = names::home_address(home).map(|at| (labels::HOME_ADDRESS, json!(at)));
    let further = external.into_iter().chain(address);
    let further = further.map(|(name, value)| (name.to_owned(), value)).collect();
    let marks = metadata::metadata(item, &Value::Null, digest, route, further, ctx)?;
    finished(ObjectKind::Service, service, marks)
}

/// The guest's slice of a slice at home: its addresses as the provider's pods see them. One in no
/// range of the lease is left out: a range may be known here later than the address, and the slice
/// is forged again then.
pub(super) fn forge_slice(
    item: &Item,
    home: &Value,
    digest: Digest,
    route: &Route,
    ctx: &GuestContext,
) -> Result<Value, Refusal> {
    let service = home["metadata"]["labels"][SERVICE_NAME].as_str();
    let service = service.filter(|name| is_label(name)).ok_or_else(|| {
        refusal(&format!("metadata.labels[{SERVICE_NAME}]"), "is no name of a Service")
    })?;
    let mut slice = filtered(&ENDPOINT_SLICE, home, ctx)?;
    let mut none = Vec::new();
    let endpoints = slice["endpoints"].as_array_mut().unwrap_or(&mut none);
    if endpoints.get(limits::SLICE_ENDPOINTS).is_some() {
        let reason = format!("has more than {} endpoints", limits::SLICE_ENDPOINTS);
        return Err(refusal("endpoints", reason));
    }
    let mut reached = Vec::with_capacity(endpoints.len());
    for (n, mut endpoint) in std::mem::take(endpoints).into_iter().enumerate() {
        let inner = address(&endpoint["addresses"], &format!("endpoints[{n}].addresses"))?;
        if let Some(local) = ctx.ranges.iter().find_map(|range| range.local_of(inner)) {
            endpoint["addresses"] = json!([local]);
            reached.push(endpoint);
        }
    }
    slice["endpoints"] = json!(reached);
    let ranges = names::ranges_text(&names::home_ranges(home)).into_iter();
    let further = ranges.map(|text| (labels::HOME_RANGES.to_owned(), json!(text))).collect();
    let mut marks = metadata::metadata(item, &Value::Null, digest, route, further, ctx)?;
    if let Some(labels) = marks.get_mut("labels").and_then(Value::as_object_mut) {
        labels.insert(SERVICE_NAME.into(), json!(service));
        labels.insert(SLICE_MANAGED_BY.into(), json!(labels::GROUP));
    }
    finished(ObjectKind::EndpointSlice, slice, marks)
}

/// The one address of an endpoint, as home sees it.
fn address(addresses: &Value, path: &str) -> Result<IpAddr, Refusal> {
    let one = match addresses.as_array().map(Vec::as_slice) {
        Some([one]) => one.as_str().and_then(|text| text.parse().ok()),
        Some(_) | None => None,
    };
    one.ok_or_else(|| refusal(path, "is not one address"))
}

fn filtered(fields: &Fields, home: &Value, ctx: &GuestContext) -> Result<Value, Refusal> {
    let object = fields.filter(home, ctx.pod_security)?;
    if object["kind"] != fields.of {
        return Err(refusal("kind", format!("is not {}", fields.of)));
    }
    Ok(object)
}

fn finished(
    kind: ObjectKind,
    mut object: Value,
    marks: Map<String, Value>,
) -> Result<Value, Refusal> {
    let is_service = kind == ObjectKind::Service;
    object["apiVersion"] = json!(if is_service { "v1" } else { "discovery.k8s.io/v1" });
    object["metadata"] = Value::Object(marks);
    made::seal(kind, &mut object);
    Ok(object)
}
