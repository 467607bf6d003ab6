//! A virtual node as an object, from what its contract and its provider say.

use super::super::LeavingWhy;
use super::*;
use crate::forge::labels::{LEAVING, LEAVING_CONDITION, TUNNEL_READY};

fn spec() -> NodeSpec {
    NodeSpec {
        name: "mercato-turin".into(),
        contract: ContractId([5; 16]),
        provider: ClusterId([7; 32]),
        not_after_ms: 1_798_761_599_000,
        platform: Platform { arch: "arm64".parse().unwrap(), os: "linux".parse().unwrap() },
        labels: NodeLabels {
            region: Some("eu-south-1".into()),
            others: BTreeMap::from([("kubernetes.io/arch".into(), "wrong".into())]),
            ..NodeLabels::default()
        },
        jurisdiction: Some("IT".into()),
        price: "free".into(),
        capacity: BTreeMap::from([("cpu".into(), "8".into())]),
        address: "10.0.0.1".parse().unwrap(),
        port: 10350,
        version: "v1.35.4".into(),
        taint: Taint::Tainted,
        storage: false,
        leaving: None,
        suspended: false,
        bought: false,
        reachable: true,
        tunnel: TunnelWord::Awaited,
    }
}

/// The node as it stands in the cluster once all of it was written.
fn written(spec: &NodeSpec, transitions: &mut Transitions) -> Value {
    let (mut present, applied) = (spec.created(), spec.applied());
    for part in ["labels", "annotations"] {
        present["metadata"][part] = applied["metadata"][part].clone();
    }
    present["status"] = spec.status(transitions, "t1")["status"].clone();
    present
}

#[test]
fn an_offered_label_cannot_replace_ours() {
    let object = spec().applied();
    assert_eq!(object["metadata"]["labels"]["kubernetes.io/arch"], "arm64");
    assert_eq!(object["metadata"]["labels"][REGION], "eu-south-1");
    assert_eq!(object["metadata"]["labels"][JURISDICTION], "IT");
    assert_eq!(object["metadata"]["annotations"][PRICE], "free");
}

#[test]
fn what_may_be_taken_back_is_not_part_of_the_creation() {
    let made = spec().created();
    let labels = made["metadata"]["labels"].as_object().unwrap();
    assert!(labels.contains_key(CONTRACT) && !labels.contains_key(REGION), "{labels:?}");
    assert!(!labels.contains_key(JURISDICTION), "{labels:?}");
    assert!(made["metadata"]["annotations"].get(PRICE).is_none());
}

#[test]
fn a_term_that_is_amended_moves_the_end() {
    let (mut spec, mut transitions) = (spec(), Transitions::default());
    let present = written(&spec, &mut transitions);
    assert_eq!(present["metadata"]["annotations"][NOT_AFTER], "2026-12-31T23:59:59Z");
    assert!(spec.holds(&mut transitions, &present));
    spec.not_after_ms += 3_600_000;
    assert!(!spec.holds(&mut transitions, &present));
    assert_eq!(spec.applied()["metadata"]["annotations"][NOT_AFTER], "2027-01-01T00:59:59Z");
}

#[test]
fn others_taints_stay() {
    let mut spec = spec();
    let foreign = json!({ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" });
    let mut present = vec![foreign.clone()];
    present.extend(spec.own_taints());
    assert_eq!(spec.taints(&json!(present)), None);
    spec.reachable = false;
    let written = spec.taints(&json!(present)).unwrap();
    assert_eq!(written.len(), 3);
    assert!(written.contains(&foreign));
    spec.reachable = true;
    let written = spec.taints(&json!(written)).unwrap();
    assert_eq!(written.len(), 2);
    spec.taint = Taint::Untainted;
    assert_eq!(spec.taints(&json!(written)).unwrap(), [foreign]);
}

#[test]
fn a_cordon_is_a_persons_to_undo() {
    let (mut spec, mut transitions) = (spec(), Transitions::default());
    spec.leaving = Some(LEAVES);
    let mut present = written(&spec, &mut transitions);
    present["spec"]["unschedulable"] = json!(true);
    let cordon = json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" });
    present["spec"]["taints"].as_array_mut().unwrap().push(cordon);
    present["metadata"]["annotations"]["why"] = json!("maintenance");
    assert!(spec.holds(&mut transitions, &present), "nothing is written over it");
    assert!(spec.applied()["spec"].get("unschedulable").is_none(), "nor when something is");
    present["spec"]["unschedulable"] = json!(false);
    present["spec"]["taints"].as_array_mut().unwrap().pop();
    assert!(spec.holds(&mut transitions, &present), "nor over an uncordon, though it leaves");
}

#[test]
fn what_ends_soon_or_is_suspended_is_a_taint_and_is_taken_back() {
    let (mut spec, mut transitions) = (spec(), Transitions::default());
    let keys = |taints: &[Value]| -> Vec<String> {
        taints.iter().map(|taint| taint["key"].as_str().unwrap().to_owned()).collect()
    };
    let before = written(&spec, &mut transitions);
    (spec.leaving, spec.suspended) = (Some(LEAVES), true);
    assert!(spec.is_edited(&before));
    let taints = spec.taints(&before["spec"]["taints"]).unwrap();
    assert_eq!(keys(&taints), [PROVIDER, LEAVING, SUSPENDED]);
    let status = spec.status(&mut transitions, "t2");
    let all = status["status"]["conditions"].as_array().unwrap();
    let said = all.iter().find(|one| one["type"] == LEAVING_CONDITION).unwrap();
    let read = [&said["status"], &said["reason"], &said["lastTransitionTime"]];
    assert_eq!(read, ["True", "TermEnds", "t2"]);
    (spec.leaving, spec.suspended) = (None, false);
    assert_eq!(keys(&spec.taints(&json!(taints)).unwrap()), [PROVIDER]);
}

const LEAVES: Leaving =
    Leaving { from_ms: 1_798_761_000_000, at_ms: 1_798_761_599_000, why: LeavingWhy::Expires };

#[test]
fn a_repeated_condition_keeps_its_time() {
    let (mut spec, mut transitions) = (spec(), Transitions::default());
    let reachable = |status: &Value| {
        let conditions = status["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|c| c["type"] == PEER_REACHABLE).unwrap()
    };
    spec.status(&mut transitions, "t1");
    let again = reachable(&spec.status(&mut transitions, "t2"));
    assert_eq!(
        (&again["lastTransitionTime"], &again["lastHeartbeatTime"]),
        (&json!("t1"), &json!("t2"))
    );
    spec.reachable = false;
    let down = spec.status(&mut transitions, "t3");
    assert_eq!(reachable(&down)["lastTransitionTime"], "t3");
    // The node itself stays Ready.
    assert_eq!(down["status"]["conditions"][0]["status"], "True");
}

#[test]
fn a_node_says_how_its_tunnel_is_and_is_ready_without_one() {
    let (mut spec, mut transitions) = (spec(), Transitions::default());
    let off = TunnelWord::Off { reason: "no /dev/net/tun: mercato doctor".to_owned() };
    let told = [
        (TunnelWord::Awaited, "Unknown", "Starting", "t0"),
        (off.clone(), "False", "NoTunnel", "t1"),
        (TunnelWord::Up, "True", "TunnelUp", "t2"),
        (TunnelWord::Up, "True", "TunnelUp", "t2"),
    ];
    for (n, (tunnel, status, reason, since)) in told.into_iter().enumerate() {
        spec.tunnel = tunnel;
        let written = spec.status(&mut transitions, &format!("t{n}"));
        let all = written["status"]["conditions"].as_array().unwrap();
        assert_eq!(all[0]["type"], "Ready");
        assert_eq!(all[0]["status"], "True");
        let condition = all.iter().find(|one| one["type"] == TUNNEL_READY).unwrap();
        let seen = [&condition["status"], &condition["reason"], &condition["lastTransitionTime"]];
        assert_eq!(seen, [status, reason, since]);
        assert_eq!(condition["message"], spec.tunnel.message());
    }
    let mut present = written(&spec, &mut transitions);
    present["status"] = spec.status(&mut transitions, "t4")["status"].clone();
    assert!(spec.holds(&mut transitions, &present));
    spec.tunnel = off;
    assert!(!spec.holds(&mut transitions, &present));
}

#[test]
fn a_restart_takes_over_the_times() {
    let mut transitions = Transitions::default();
    transitions.learn(&json!([
        { "type": "Ready", "status": "True", "lastTransitionTime": "t0" },
        { "type": "DiskPressure", "status": "Unknown", "lastTransitionTime": "t0" },
    ]));
    let status = spec().status(&mut transitions, "t9");
    assert_eq!(status["status"]["conditions"][0]["lastTransitionTime"], "t0");
    assert_eq!(status["status"]["conditions"][2]["lastTransitionTime"], "t9");
}

#[test]
fn what_others_change_of_it_is_seen() {
    let (spec, mut transitions) = (spec(), Transitions::default());
    let mut present = written(&spec, &mut transitions);
    // As an API server has it.
    present["spec"].as_object_mut().unwrap().remove("unschedulable");
    present["metadata"]["labels"]["another"] = json!("s");
    assert!(spec.holds(&mut transitions, &present));
    let mut late = present.clone();
    late["status"]["conditions"][0]["status"] = json!("Unknown");
    assert!(!spec.holds(&mut transitions, &late));
    present["spec"]["taints"] = json!([]);
    assert!(!spec.holds(&mut transitions, &present));
}
