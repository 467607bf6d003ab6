//! Where the pods of the cluster are: on which node, at which address. What is made of it, as the
//! addresses by which other clusters call them, is the tunnel's to say.

use std::net::IpAddr;

use futures::stream::BoxStream;
use mercato_offload::forge::gate::{Passage, passage};
use mercato_offload::forge::known_as;
use serde_json::Value;

use super::TAKES;
use super::settled::{Seen, told};
use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::POD;
use crate::apiserver::watch::{Selection, changes};
use crate::limits;

/// Where a pod is that is bound to a node, not over, and on the pod network.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodPlace {
    /// In which namespace it is.
    pub namespace: String,
    /// The name of the node where it runs.
    pub node: String,
    /// Its address on the pod network, once it has one.
    pub address: Option<IpAddr>,
    /// The one of the other family, in a cluster that has both.
    pub second: Option<IpAddr>,
    /// What is known of a pod that has a gate, which is a guest if its namespace is one of guests.
    pub guest: Option<GuestPlace>,
}

/// A pod that is made as a guest whose contract requires isolation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestPlace {
    /// Its own uid in this cluster.
    pub uid: String,
    /// Whether its gate is open.
    pub is_open: bool,
    /// The address by which everybody knows it, as it was made: the one that its device is to have.
    pub called: Option<IpAddr>,
}

impl GuestPlace {
    fn read(pod: &Value) -> Option<Self> {
        let is_open = match passage(pod) {
            Passage::Ungated => return None,
            Passage::Held => false,
            Passage::Open => true,
        };
        let uid = pod["metadata"]["uid"].as_str()?.to_owned();
        Some(Self { uid, is_open, called: known_as(pod) })
    }
}

impl PodPlace {
    /// None for a pod that has no place of its own: not bound yet, over, or on the host network.
    pub fn read(pod: &Value) -> Option<Self> {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        if spec["hostNetwork"] == true
            || matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"))
        {
            return None;
        }
        let node = spec["nodeName"].as_str().filter(|node| !node.is_empty())?.to_owned();
        let address = parse(&status["podIP"]);
        let second = address.and_then(|first| {
            let all = status["podIPs"].as_array().into_iter().flatten().take(limits::POD_ADDRESSES);
            let mut others = all.filter_map(|it| parse(&it["ip"]));
            others.find(|other| other.is_ipv4() != first.is_ipv4())
        });
        Some(Self {
            namespace: pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
            node,
            address,
            second,
            guest: GuestPlace::read(pod),
        })
    }
}

/// An address; none for what is something else, or for one of IPv4 in the form of IPv6.
fn parse(text: &Value) -> Option<IpAddr> {
    let address: IpAddr = text.as_str()?.parse().ok()?;
    (address.to_canonical() == address).then_some(address)
}

/// All places of pods, first when all pods are known, then whenever one differs. Ends never; an
/// API server out of reach yields nothing.
pub fn places(cluster: &Cluster) -> BoxStream<'static, Vec<PodPlace>> {
    let pods = Selection::default().fields(TAKES.to_owned());
    told(changes(cluster, POD, pods, |pod| {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        Seen { uid, told: PodPlace::read(&pod) }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({ "metadata": { "name": "web", "namespace": "shop", "uid": "u1" },
            "spec": { "nodeName": "n1", "hostNetwork": false },
            "status": { "phase": "Running", "podIP": "10.42.0.7" } })
    }

    fn place(node: &str, address: &str) -> PodPlace {
        let address = address.parse().ok();
        let (namespace, node) = ("shop".into(), node.into());
        PodPlace { namespace, node, address, second: None, guest: None }
    }

    #[test]
    fn a_pod_has_one_address_of_each_family() {
        let second = |first: &str, all: Value| {
            let mut pod = pod();
            pod["status"]["podIP"] = json!(first);
            pod["status"]["podIPs"] = all;
            PodPlace::read(&pod).unwrap().second
        };
        let (four, six) = ("10.42.0.7", "fd00::7");
        let ips = |all: &[&str]| all.iter().map(|ip| json!({ "ip": ip })).collect::<Value>();
        assert_eq!(second(four, ips(&[four, six])), six.parse().ok());
        assert_eq!(second(four, ips(&[four, "10.42.0.8", six, "fd00::8"])), six.parse().ok());
        assert_eq!(second(six, ips(&[six, four])), four.parse().ok());
        assert_eq!(second("", ips(&[six])), None, "it has none yet");
        for garbled in [json!(six), json!([six]), json!([{ "ip": 7 }, { "ip": "fd00" }, null])] {
            assert_eq!(second(four, garbled.clone()), None, "{garbled}");
        }
        assert_eq!(second(four, ips(&[four, "::ffff:10.42.0.9"])), None);
        let long: Vec<&str> = [four; limits::POD_ADDRESSES].into_iter().chain([six]).collect();
        assert_eq!(second(four, ips(&long)), None);
    }

    #[test]
    fn a_pod_with_a_gate_is_open_or_not() {
        let guest = |status: Value| {
            let mut pod = pod();
            pod["spec"]["initContainers"] = json!([{ "name": "mercato-gate" }]);
            pod["status"]["initContainerStatuses"] =
                json!([{ "name": "mercato-gate", "state": status }]);
            PodPlace::read(&pod).unwrap().guest
        };
        let place = |is_open| GuestPlace { uid: "u1".into(), is_open, called: None };
        assert_eq!(guest(json!({ "running": {} })), Some(place(false)));
        assert_eq!(guest(json!({ "terminated": { "exitCode": 0 } })), Some(place(true)));
        assert_eq!(PodPlace::read(&pod()).unwrap().guest, None);
        assert_eq!(guest(json!({ "waiting": {} })), Some(place(false)));
    }

    #[test]
    fn only_who_has_an_address_of_its_own_is_told() {
        assert_eq!(PodPlace::read(&pod()), Some(place("n1", "10.42.0.7")));
        let with = |pointer: &str, value: Value| {
            let mut pod = pod();
            *pod.pointer_mut(pointer).unwrap() = value;
            PodPlace::read(&pod)
        };
        assert_eq!(with("/status/podIP", Value::Null), Some(place("n1", "")));
        assert_eq!(with("/status/podIP", json!("fd00::7")), Some(place("n1", "fd00::7")));
        assert_eq!(with("/status/podIP", json!("forged")), Some(place("n1", "")));
        assert_eq!(with("/status/phase", json!("Pending")), Some(place("n1", "10.42.0.7")));
        for (pointer, value) in [
            ("/status/phase", json!("Succeeded")),
            ("/status/phase", json!("Failed")),
            ("/spec/hostNetwork", json!(true)),
            ("/spec/nodeName", json!("")),
            ("/spec/nodeName", Value::Null),
        ] {
            assert_eq!(with(pointer, value.clone()), None, "{pointer}: {value}");
        }
    }
}
