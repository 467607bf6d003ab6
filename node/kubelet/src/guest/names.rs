//! The names that the guests of a lease have at home, as the guest objects here say them: Services
//! with their addresses in this cluster, endpoints of those that are headless, and what home calls its
//! cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_offload::address::MappedRange;
use mercato_offload::forge::labels::{CLUSTER_DOMAIN, EXTERNAL_NAME, HOME_API};
use mercato_offload::forge::{SERVICE_NAME, home_address};
use mercato_offload::key::{Item, ObjectKind};
use mercato_protocol::id::ContractId;
use mercato_protocol::limits::{NAMES_DOMAINS, NAMES_GUESTS, NAMES_NAMESPACES};
use mercato_protocol::names::{
    ApiNames, LeaseNames, NamedEndpoint, NamedPort, NamesCount, NamespaceNames, ServiceNames,
    SliceNames, is_domain, is_label,
};
use serde_json::Value;

/// What one guest object says of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// What a pod says of its home, and where it is.
    Pod(NamedPod),
    /// A Service, and whether it has endpoints in the place of addresses.
    Service {
        /// What it is told by where guests are not closed.
        service: ServiceNames,
        /// It has endpoints in the place of addresses.
        headless: bool,
        /// Its address at home, by which guests that are closed call it.
        home: Option<IpAddr>,
    },
    /// Some endpoints of the Service of that name.
    Slice { of: String, slice: SliceNames },
}

/// What a pod says of its home, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedPod {
    /// What home calls its cluster.
    domain: Option<String>,
    /// Where home's API server is reached inside the tunnel, if the pod has access to it.
    api: Option<IpAddr>,
    /// Its own address, until it is over.
    address: Option<IpAddr>,
}

impl Named {
    /// None: it says nothing of names, or is going.
    pub(super) fn read(item: &Item, object: &Value) -> Option<Self> {
        let key = match item {
            // Also one that is about to end looks for names.
            Item::Pod(_) => return Some(Self::Pod(NamedPod::read(object))),
            Item::Object(key) if object["metadata"]["deletionTimestamp"].is_null() => key,
            Item::Object(_) => return None,
        };
        match key.kind {
            ObjectKind::Service => service(&key.name, object),
            ObjectKind::EndpointSlice => {
                let of = object["metadata"]["labels"][SERVICE_NAME].as_str()?.to_owned();
                Some(Self::Slice { of, slice: slice(object) })
            }
            ObjectKind::Namespace
            | ObjectKind::Pod
            | ObjectKind::ConfigMap
            | ObjectKind::Secret
            | ObjectKind::ServiceAccountToken => None,
        }
    }
}

impl NamedPod {
    fn read(object: &Value) -> Self {
        let (annotations, status) = (&object["metadata"]["annotations"], &object["status"]);
        let domain = annotations[CLUSTER_DOMAIN].as_str().filter(|domain| is_domain(domain));
        let is_over = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
        let address = status["podIP"].as_str().filter(|_| !is_over);
        let address = address.and_then(|address| address.parse().ok());
        Self {
            domain: domain.map(str::to_owned),
            api: annotations[HOME_API].as_str().and_then(|address| address.parse().ok()),
            // By which guests ask.
            address: address.filter(IpAddr::is_ipv4),
        }
    }
}

fn service(name: &str, object: &Value) -> Option<Named> {
    let spec = &object["spec"];
    let external = object["metadata"]["annotations"][EXTERNAL_NAME].as_str().map(str::to_owned);
    let addresses = spec["clusterIPs"].as_array().into_iter().flatten();
    let addresses = addresses.filter_map(|address| address.as_str()?.parse().ok());
    let addresses: Vec<IpAddr> = addresses.collect();
    let headless = external.is_none() && spec["clusterIP"] == "None";
    // One that has no address yet is told once it has.
    if addresses.is_empty() && !headless && external.is_none() {
        return None;
    }
    let addresses = if external.is_some() { Vec::new() } else { addresses };
    let ports = if headless { Vec::new() } else { ports(&spec["ports"]) };
    let name = name.to_owned();
    let service = ServiceNames { name, addresses, ports, external, slices: Vec::new() };
    let home = home_address(object).filter(|_| !service.addresses.is_empty());
    service.is_valid().then_some(Named::Service { service, headless, home })
}

fn slice(object: &Value) -> SliceNames {
    let all = object["endpoints"].as_array().into_iter().flatten();
    let endpoint = |endpoint: &Value| {
        // Ready, unless somebody says that it is not; home says so of all, where a Service has
        // `publishNotReadyAddresses`.
        if endpoint["conditions"]["ready"] == false {
            return None;
        }
        let hostname = endpoint["hostname"].as_str().filter(|name| is_label(name));
        Some(NamedEndpoint {
            address: endpoint["addresses"][0].as_str()?.parse().ok()?,
            hostname: hostname.unwrap_or_default().to_owned(),
        })
    };
    SliceNames { ports: ports(&object["ports"]), endpoints: all.filter_map(endpoint).collect() }
}

/// Those of TCP and UDP.
fn ports(all: &Value) -> Vec<NamedPort> {
    let port = |port: &Value| {
        let is_udp = match port["protocol"].as_str() {
            None | Some("TCP") => false,
            Some("UDP") => true,
            Some(_) => return None,
        };
        let number = port["port"].as_u64().and_then(|port| u16::try_from(port).ok())?;
        let name = port["name"].as_str().filter(|name| is_label(name)).unwrap_or_default();
        let named = NamedPort { name: name.to_owned(), is_udp, port: number.into() };
        (number > 0).then_some(named)
    };
    all.as_array().into_iter().flatten().filter_map(port).collect()
}

/// All names of a lease, of what its guest objects say, each with its namespace at home; as many as a
/// node takes. `forwards`: see there; guests of a lease that does not are closed, and call Services by
/// the addresses of home. In these ranges guests know what is at home.
pub(super) fn names<'a>(
    lease: ContractId,
    forwards: bool,
    ranges: &[MappedRange],
    namespaces: impl Iterator<Item = &'a String>,
    all: impl Iterator<Item = (&'a str, &'a Named)>,
) -> LeaseNames {
    let mut domains = BTreeSet::new();
    let mut homes: BTreeMap<&str, BTreeMap<&str, (ServiceNames, bool)>> =
        namespaces.map(|home| (home.as_str(), BTreeMap::new())).collect();
    let mut slices: BTreeMap<(&str, &str), Vec<&SliceNames>> = BTreeMap::new();
    let mut pods = Vec::new();
    for (home, named) in all {
        match named {
            Named::Pod(pod) => {
                domains.extend(&pod.domain);
                pods.push(pod);
            }
            Named::Service { service, headless, home: address } => {
                let mut told = service.clone();
                if let Some(address) = address.filter(|_| !forwards) {
                    told.addresses = vec![address];
                }
                homes.entry(home).or_default().insert(&service.name, (told, *headless));
            }
            Named::Slice { of, slice } => slices.entry((home, of)).or_default().push(slice),
        }
    }
    let (mut count, mut is_part) = (NamesCount::default(), false);
    let mut told = Vec::new();
    let mut homes = homes.into_iter();
    for (home, services) in homes.by_ref().take(NAMES_NAMESPACES) {
        let mut fit = Vec::new();
        for (name, (mut service, headless)) in services {
            if headless {
                let of = slices.get(&(home, name)).into_iter().flatten();
                service.slices = of.map(|slice| (*slice).clone()).collect();
            }
            let mut with = count;
            with.add(&service);
            if with.fits() {
                count = with;
                fit.push(service);
            } else {
                is_part = true;
            }
        }
        told.push(NamespaceNames { home: home.to_owned(), services: fit });
    }
    is_part |= homes.next().is_some();
    let domains = domains.into_iter().take(NAMES_DOMAINS).cloned().collect();
    LeaseNames { lease, domains, is_part, forwards, namespaces: told, api: api(&pods, ranges) }
}

/// Who is told of home's API server: guests ask for it as soon as they begin, and nobody may say that
/// it is not there to one of which nothing is known yet. So the others are said as well.
fn api(pods: &[&NamedPod], ranges: &[MappedRange]) -> Option<ApiNames> {
    let inner = pods.iter().find_map(|pod| pod.api)?;
    let of = |has_access: bool| {
        let pods = pods.iter().filter(move |pod| pod.api.is_some() == has_access);
        pods.filter_map(|pod| pod.address)
    };
    let guests: BTreeSet<IpAddr> = of(true).take(NAMES_GUESTS).collect();
    // An address may be another guest's by now, whose word is the later one.
    let others: BTreeSet<IpAddr> = of(false).filter(|address| !guests.contains(address)).collect();
    let room = NAMES_GUESTS - guests.len();
    Some(ApiNames {
        address: ranges.iter().find_map(|range| range.local_of(inner)),
        guests: guests.into_iter().collect(),
        others: others.into_iter().take(room).collect(),
    })
}

#[cfg(test)]
mod tests {
    use mercato_offload::forge::labels::HOME_ADDRESS;
    use mercato_offload::key::{PodId, Uid, key};
    use mercato_protocol::id::NegotiationId;
    use mercato_protocol::limits::NAMES_ENDPOINTS;
    use serde_json::json;

    use super::*;

    const LEASE: ContractId = NegotiationId([5; 16]);

    fn of_domain(domain: &str) -> Named {
        Named::Pod(NamedPod { domain: Some(domain.to_owned()), ..NamedPod::default() })
    }

    fn read(kind: ObjectKind, name: &str, object: Value) -> Option<Named> {
        Named::read(&Item::Object(key(kind, "shop", name)), &object)
    }

    fn said(all: &[Named]) -> LeaseNames {
        let homes = ["bank".to_owned(), "shop".to_owned()];
        names(LEASE, true, &[], homes.iter(), all.iter().map(|named| ("shop", named)))
    }

    fn endpoints(of: &str, endpoints: Value) -> Named {
        let object = json!({ "metadata": { "labels": { SERVICE_NAME: of } }, "endpoints": endpoints,
            "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }, { "port": null },
                { "name": "odd", "port": 9, "protocol": "SCTP" }] });
        read(ObjectKind::EndpointSlice, "any", object).unwrap()
    }

    #[test]
    fn services_of_each_kind_have_names() {
        let web = json!({ "metadata": {}, "spec": { "clusterIP": "10.96.0.7",
            "clusterIPs": ["10.96.0.7"], "ports": [{ "name": "http", "port": 80 }] } });
        let headless = json!({ "metadata": {}, "spec": { "clusterIP": "None",
            "clusterIPs": ["None"], "ports": [{ "name": "http", "port": 80 }] } });
        let name = json!({ "metadata": { "annotations": { EXTERNAL_NAME: "db.example.org" } },
            "spec": { "clusterIP": "None", "clusterIPs": ["None"] } });
        let of = |name, object: &Value| read(ObjectKind::Service, name, object.clone()).unwrap();
        let all = endpoints(
            "members",
            json!([
                { "addresses": ["10.201.3.7"], "hostname": "db-0", "conditions": { "ready": true } },
                { "addresses": ["10.201.3.8"], "hostname": "A*", "conditions": {} },
                { "addresses": ["10.201.3.9"], "conditions": { "ready": false } },
                { "addresses": ["forged"] }, 7,
            ]),
        );
        let domain = of_domain("rome.example");
        let said = said(&[of("web", &web), of("members", &headless), of("db", &name), all, domain]);
        assert_eq!((said.domains, said.is_part), (vec!["rome.example".to_owned()], false));
        let homes: Vec<_> = said.namespaces.iter().map(|it| it.home.as_str()).collect();
        assert_eq!(homes, ["bank", "shop"], "also those without a Service");
        let [db, members, web] = &said.namespaces[1].services[..] else { panic!() };
        assert_eq!(db.external.as_deref(), Some("db.example.org"));
        assert_eq!(web.addresses, ["10.96.0.7".parse::<IpAddr>().unwrap()]);
        assert_eq!(web.ports[0].port, 80);
        let slice = &members.slices[0];
        let hosts: Vec<_> = slice.endpoints.iter().map(|it| it.hostname.as_str()).collect();
        assert_eq!((hosts, slice.ports.len()), (vec!["db-0", ""], 1));
        assert_eq!(slice.ports[0].port, 8_080, "as endpoints have it");
        let mut going = web_going(&json!({}));
        assert_eq!(read(ObjectKind::Service, "web", going.take()), None);
        assert_eq!(read(ObjectKind::ConfigMap, "web", json!({})), None);
    }

    fn web_going(spec: &Value) -> Value {
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": spec })
    }

    #[test]
    fn closed_guests_call_services_by_their_addresses_at_home() {
        let web = json!({ "metadata": { "annotations": { HOME_ADDRESS: "10.79.3.4" } }, "spec": {
            "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ports": [{ "port": 80 }] } });
        let members = json!({ "metadata": { "annotations": { HOME_ADDRESS: "10.79.3.5" } },
            "spec": { "clusterIP": "None", "clusterIPs": ["None"] } });
        let all = [("web", web), ("members", members)]
            .map(|(name, object)| read(ObjectKind::Service, name, object).unwrap());
        let told = |forwards: bool| {
            let homes = ["shop".to_owned()];
            let all = all.iter().map(|named| ("shop", named));
            let said = names(LEASE, forwards, &[], homes.iter(), all);
            let services = said.namespaces.into_iter().flat_map(|namespace| namespace.services);
            services.map(|service| service.addresses).collect::<Vec<_>>()
        };
        assert_eq!(told(false), [vec![], vec![IpAddr::from([10, 79, 3, 4])]]);
        assert_eq!(told(true), [vec![], vec![IpAddr::from([10, 96, 0, 7])]]);
    }

    #[test]
    fn a_pod_says_what_home_calls_its_cluster() {
        let pod = PodId { uid: Uid("u".into()), namespace: "shop".into(), name: "web".into() };
        let of = |domain: &str| {
            let object = json!({ "metadata": { "annotations": { CLUSTER_DOMAIN: domain } } });
            Named::read(&Item::Pod(pod.clone()), &object)
        };
        assert_eq!(of("rome.example"), Some(of_domain("rome.example")));
        assert_eq!(of("Rome..example"), Some(Named::Pod(NamedPod::default())));
        let many: Vec<_> = (0..9).map(|n| of_domain(&format!("d{n}"))).collect();
        assert_eq!(said(&many).domains.len(), NAMES_DOMAINS);
    }

    #[test]
    fn who_is_told_of_homes_api_server_is_said_of_each_guest() {
        let pod = PodId { uid: Uid("u".into()), namespace: "shop".into(), name: "web".into() };
        let of = |api: Option<&str>, address: Option<&str>, phase: &str| {
            let object = json!({ "metadata": { "annotations": { HOME_API: api } },
                "status": { "podIP": address, "phase": phase } });
            Named::read(&Item::Pod(pod.clone()), &object).unwrap()
        };
        let net = |text: &str| text.parse().unwrap();
        let mapped = [MappedRange { inner: net("10.207.255.253/32"), local: net("10.203.9.4/32") }];
        let said = |all: &[Named], ranges: &[MappedRange]| {
            let homes = ["shop".to_owned()];
            names(LEASE, true, ranges, homes.iter(), all.iter().map(|named| ("shop", named))).api
        };
        let api = Some("10.207.255.253");
        let [told, new] = [Some("10.42.0.7"), None].map(|at| of(api, at, "Running"));
        let untold = of(None, Some("10.42.0.8"), "Running");
        assert_eq!(said(std::slice::from_ref(&untold), &mapped), None, "nobody has access");
        let odd = of(Some("forged"), Some("10.42.0.9"), "Running");
        let over = of(None, Some("10.42.0.7"), "Succeeded");
        let six = of(api, Some("fd00::7"), "Running");
        let all = said(&[told.clone(), untold, odd, over, six, new.clone()], &mapped).unwrap();
        let at = |text: &str| -> IpAddr { text.parse().unwrap() };
        assert_eq!(all.address, Some(at("10.203.9.4")));
        assert_eq!((all.guests, all.others.len()), (vec![at("10.42.0.7")], 2));
        assert_eq!(
            said(&[new], &mapped).unwrap().guests,
            [] as [IpAddr; 0],
            "it is about to begin"
        );
        assert_eq!(said(&[told], &[]).unwrap().address, None, "its range is not known yet");
    }

    #[test]
    fn too_many_are_told_in_part() {
        let headless = |name: &str| {
            let spec = json!({ "clusterIP": "None", "clusterIPs": ["None"] });
            read(ObjectKind::Service, name, json!({ "metadata": {}, "spec": spec })).unwrap()
        };
        let endpoint = json!({ "addresses": ["10.201.3.7"] });
        let half = endpoints("a", json!(vec![endpoint.clone(); NAMES_ENDPOINTS]));
        let more = endpoints("b", json!([endpoint]));
        let (a, b, c) = (headless("a"), headless("b"), headless("c"));
        let whole = said(&[a.clone(), half.clone(), c.clone()]);
        assert!(!whole.is_part);
        let part = said(&[a, b, c, half, more]);
        let told: Vec<_> = part.namespaces[1].services.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((part.is_part, told), (true, vec!["a", "c"]));
    }
}
