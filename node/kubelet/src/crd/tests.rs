//! The manifests are what the types give.

use kube::Resource as _;
use mercato_config::Text;

use super::*;
use crate::names::GROUP;

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/deploy/crds.yaml");
const AGAIN: &str = "UPDATE_CRDS=1 cargo test --workspace --lib the_manifests_are_what";
const HEAD: &str = "# The custom resources, made of the types in node/kubelet/src/crd by\n";

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

/// The schemas of all four, each with where it stands.
fn schemas() -> Vec<(String, serde_json::Value)> {
    fn walk(at: &str, schema: &serde_json::Value, all: &mut Vec<(String, serde_json::Value)>) {
        all.push((at.to_owned(), schema.clone()));
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            walk(&format!("{at}.{name}"), field, all);
        }
        if schema["items"].is_object() {
            walk(&format!("{at}[]"), &schema["items"], all);
        }
    }
    let mut all = Vec::new();
    for definition in definitions() {
        let name = definition.spec.names.kind.clone();
        let definition = serde_json::to_value(definition).unwrap();
        let version = &definition["spec"]["versions"][0];
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        let age = columns.iter().find(|column| column["name"] == "Age");
        let age = age.unwrap_or_else(|| panic!("{name} has no column Age"));
        assert_eq!(age["type"], "date", "{name}");
        walk(&name, &version["schema"]["openAPIV3Schema"], &mut all);
    }
    all
}

#[test]
fn conditions_are_as_those_of_kubernetes() {
    let all = schemas();
    let lists: Vec<_> = all.iter().filter(|(at, _)| at.ends_with(".conditions")).collect();
    assert_eq!(lists.len(), 4);
    for (at, list) in lists {
        assert_eq!(list["x-kubernetes-list-type"], "map", "{at}");
        assert_eq!(list["x-kubernetes-list-map-keys"], serde_json::json!(["type"]), "{at}");
        let one = &list["items"];
        assert_eq!(one["properties"]["lastTransitionTime"]["format"], "date-time", "{at}");
        let required = one["required"].as_array().unwrap();
        assert!(required.contains(&"type".into()) && required.len() == 6, "{at}: {required:?}");
        let defaults = one["properties"].as_object().unwrap().values();
        assert!(defaults.into_iter().all(|field| field.get("default").is_none()), "{at}");
    }
}

#[test]
fn a_choice_among_words_is_an_enumeration() {
    for (at, schema) in schemas() {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let rule = rule["rule"].as_str().unwrap();
            assert!(!rule.starts_with("self in ["), "{at}: {rule}: say enum instead");
        }
    }
}

/// As objects are that were written before there was a word of Services.
#[test]
fn an_object_without_services_opens_none() {
    for strategy in ["Local", "Remote", "Both"] {
        let spec = serde_json::json!({ "strategy": strategy, "apiAccess": "home", "to": ["mercato-turin"] });
        let spec: NamespaceOffloadSpec = serde_json::from_value(spec).unwrap();
        let how = spec.opt_in();
        assert_eq!(how.opens, mercato_offload::placement::export::Opens::default(), "{strategy}");
        assert!(how.opens.services.is_none(), "{strategy}");
        assert_eq!(NamespaceOffloadSpec::from(&how), spec, "and an answer says no more");
    }
}
