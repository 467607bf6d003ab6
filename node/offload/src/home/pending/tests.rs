//! Which pods are demand, and which are told that they are not.

use serde_json::json;

use super::*;
use crate::placement::export::{OptIn, Scope};
use crate::time;

const CONTRACT: &str = "2f2f2f2f2f2f2f2f2f2f2f2f2f2f2f2f";
const SINCE: &str = "2026-11-30T00:00:00Z";

fn pod(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "shop", "uid": format!("u-{name}") },
        "spec": {
            "containers": [{ "name": "app", "image": "a",
                "resources": { "requests": { "cpu": "1", "memory": "64Mi" } } }],
            "tolerations": [{ "key": "mercato.dev/provider", "operator": "Exists",
                "effect": "NoSchedule" }],
        },
        "status": { "phase": "Pending", "conditions": [{ "type": "PodScheduled",
            "status": "False", "reason": "Unschedulable", "lastTransitionTime": SINCE }] },
    })
}

fn node(name: &str, labels: &Value, ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({ "metadata": { "name": name, "labels": labels },
        "status": { "allocatable": { "cpu": "2", "memory": "1Gi", "pods": "10" },
            "conditions": [{ "type": "Ready", "status": ready }] } })
}

fn look(nodes: &[Value], pods: &[Value], how: &OptIn) -> (PendingPods, Vec<String>) {
    let nodes = nodes.iter().filter_map(Node::read).map(|it| (it.name().to_owned(), it));
    let uid = |pod: &Value| Uid(pod["metadata"]["uid"].as_str().unwrap().to_owned());
    let pods = pods.iter().filter_map(|it| Some((uid(it), RoamingPod::read(it)?))).collect();
    let leave = |namespace: &str| match namespace {
        "shop" => Leave::Now(how.clone()),
        _ => Scope::Labelled.unknown(namespace),
    };
    let Found { pending, lacking } = find(&nodes.collect(), &pods, leave);
    (pending, lacking.into_iter().map(|one| one.why.to_string()).collect())
}

fn bursts() -> OptIn {
    OptIn { burst: true, ..OptIn::default() }
}

#[test]
fn a_pod_without_room_is_demand_and_its_kind_is_that_of_homes_nodes() {
    let arm = json!({ "kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux" });
    let (pending, lacking) = look(&[node("rome-1", &arm, true)], &[pod("web")], &bursts());
    assert_eq!(lacking, Vec::<String>::new());
    let [one] = &pending.pods[..] else { panic!("{pending:?}") };
    assert_eq!((one.cpu_millis, one.memory_bytes, one.gpus), (1_000, 64 << 20, None));
    assert_eq!((one.platform.arch.as_str(), &one.to), ("arm64", &vec![Vec::new()]));
    assert_eq!((one.since_ms, one.room_on), (time::parse_ms(SINCE).unwrap(), None));
}

#[test]
fn what_does_not_count_says_why() {
    let with = |pointer: &str, value: Value| {
        let mut pod = pod("web");
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value;
        pod
    };
    let claim = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
    let at_home = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": "mercato.dev/provider", "operator": "DoesNotExist" }] }] } } });
    for (pod, field) in [
        (with("/spec/volumes", claim), "spec.volumes"),
        (with("/spec/nodeSelector", json!({ "disk": "ssd" })), "spec.nodeSelector"),
        (with("/spec/affinity", at_home), "spec.affinity"),
        (with("/spec/schedulingGates", json!([{ "name": "queue" }])), "spec.schedulingGates"),
        (with("/spec/tolerations", Value::Null), "spec.tolerations"),
        (with("/status/nominatedNodeName", "rome-1".into()), "status.nominatedNodeName"),
        (with("/spec/hostNetwork", true.into()), "hostNetwork"),
        (
            with("/spec/containers/0/resources", json!({ "limits": { "example.com/fpga": "1" } })),
            "example.com/fpga",
        ),
    ] {
        let (pending, lacking) = look(&[], std::slice::from_ref(&pod), &bursts());
        assert_eq!(pending.pods, [], "{field}");
        assert!(lacking[0].contains(field), "{field}: {lacking:?}");
    }
}

#[test]
fn nobody_is_asked_who_does_not_want_it_or_who_runs() {
    let mut bound = pod("bound");
    bound["spec"]["nodeName"] = "rome-1".into();
    let mut ends = pod("ends");
    ends["metadata"]["deletionTimestamp"] = SINCE.into();
    let mut new = pod("new");
    new["status"]["conditions"] = Value::Null;
    for (pods, how) in [
        (vec![pod("web")], OptIn::default()),
        (vec![pod("web")], OptIn { strategy: Strategy::Local, ..bursts() }),
        (vec![bound, ends, new], bursts()),
    ] {
        let (pending, lacking) = look(&[], &pods, &how);
        assert_eq!((pending.pods, lacking), (Vec::new(), Vec::new()));
    }
}

#[test]
fn room_on_a_virtual_node_is_seen_and_its_pods_are_counted() {
    let labels = json!({ "mercato.dev/contract": CONTRACT, "mercato.dev/provider": "4f4f4f4f" });
    let mut bound = pod("bound");
    bound["spec"]["nodeName"] = "mercato-turin".into();
    let pods = [bound, pod("a"), pod("b")];
    let turin = |ready| node("mercato-turin", &labels, ready);
    let (pending, _) = look(&[turin(true)], &pods, &bursts());
    let contract: ContractId = CONTRACT.parse().unwrap();
    assert_eq!(pending.nodes[&contract], VirtualNode { open: true, pods: 1 });
    let room: Vec<_> = pending.pods.iter().map(|pod| pod.room_on).collect();
    assert_eq!(room, [Some(contract), None], "two processors, of which one is taken");
    let tainted = |key: &str| {
        let mut node = turin(true);
        let taint = |key: &str| json!({ "key": key, "effect": "NoSchedule" });
        node["spec"]["taints"] = json!([taint("mercato.dev/provider"), taint(key)]);
        node
    };
    let (pending, _) = look(&[tainted("mercato.dev/provider")], &pods, &bursts());
    assert!(pending.nodes[&contract].open && pending.pods[0].room_on.is_some());
    // Of a node that is new the controllers take their taint off a moment after it is ready; after a restart its
    // provider is not reached for a moment.
    let taints = ["node.kubernetes.io/not-ready", "mercato.dev/unreachable", "example.com/mine"];
    for not_yet in taints.map(tainted).into_iter().chain([turin(false)]) {
        let (pending, _) = look(&[not_yet], &pods, &bursts());
        assert_eq!(pending.nodes[&contract], VirtualNode { open: false, pods: 1 });
        assert!(pending.pods.iter().all(|pod| pod.room_on.is_none()));
    }
}

#[test]
fn a_namespaces_choice_of_nodes_is_kept() {
    let mut chosen = pod("web");
    let of = |key: &str, word: &str| json!({ "matchExpressions": [{ "key": key, "operator": "In", "values": [word] }] });
    chosen["spec"]["affinity"] = json!({ "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            of("mercato.dev/called", "mercato-turin"), of("mercato.dev/provider", "4f4f4f4f"),
            of("kubernetes.io/arch", "s390x"), {}] } } });
    let (pending, _) = look(&[], &[chosen], &bursts());
    let ask = |of, word: &str| NodeAsk { of, among: [word.to_owned()].into(), not: false };
    let expected = vec![
        vec![ask(NodeAskOf::Name, "mercato-turin")],
        vec![ask(NodeAskOf::Provider, "4f4f4f4f")],
    ];
    assert_eq!(pending.pods[0].to, expected);
}
