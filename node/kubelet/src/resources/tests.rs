//! The manifests are what the types give.

use kube::Resource as _;

use super::*;
use crate::names::GROUP;

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/deploy/crds.yaml");
const AGAIN: &str = "UPDATE_CRDS=1 cargo test --workspace --lib the_manifests_are_what";
const HEAD: &str = "# The custom resources, made of the types in node/kubelet/src/resources by\n";

fn manifests() -> String {
    let each = |definition| {
        let mut definition = serde_json::to_value(definition).unwrap();
        definition.as_object_mut().unwrap().remove("status");
        serde_saphyr::to_string(&definition).unwrap()
    };
    let all: Vec<_> = definitions().into_iter().map(each).collect();
    format!("{HEAD}# {AGAIN}\n{}", all.join("---\n"))
}

#[test]
fn the_manifests_are_what_the_types_give() {
    if std::env::var_os("UPDATE_CRDS").is_some() {
        std::fs::write(MANIFESTS, manifests()).unwrap();
    }
    let written = std::fs::read_to_string(MANIFESTS).unwrap_or_default();
    assert!(written == manifests(), "config/deploy/crds.yaml is out of date: {AGAIN}");
}

#[test]
fn there_is_one_group() {
    let groups = [
        Contract::group(&()),
        MarketPolicy::group(&()),
        NamespaceOffload::group(&()),
        Order::group(&()),
    ];
    assert!(groups.iter().all(|group| group == GROUP), "{groups:?}");
    for kind in [Contract::KIND, MarketPolicy::KIND, NamespaceOffload::KIND, Order::KIND] {
        assert!(definitions().iter().any(|definition| {
            let names = &definition.spec.names;
            (definition.spec.group.as_str(), names.plural.as_str()) == (kind.group, kind.plural)
                && names.kind == kind.kind
                && definition.spec.versions[0].name == kind.version
        }));
    }
}

#[test]
fn whole_numbers_are_amounts_too() {
    let spec = serde_json::json!({ "cpu": 2, "memory": "4Gi", "for": "2h" });
    let spec: OrderSpec = serde_json::from_value(spec).unwrap();
    assert_eq!((spec.cpu, spec.pods), (Text("2".to_owned()), 20));
}
