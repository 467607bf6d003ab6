//! What reads well on a kubelet stream and breaks a rule of its type.

use mercato_protocol::kubelet_stream::{Ask, NodeFacts, Request, Usage, What};

use super::{Case, unchecked};
use crate::samples;

pub(super) fn cases() -> Vec<Case> {
    let request = |wanted: &str| {
        let mut requests = samples::stream_requests().into_iter();
        let Some((_, Ask::Open(request))) = requests.find(|(name, _)| *name == wanted) else {
            panic!("no request called {wanted}")
        };
        request
    };
    let port = stream(&request("logs"), What::PortForward { ports: vec![65_536] });
    let exec = request("exec");
    let What::Exec(mut no_words) = exec.what.clone() else { panic!() };
    no_words.command.clear();
    let words = stream(&exec, What::Exec(no_words));
    let What::Exec(mut many_words) = exec.what.clone() else { panic!() };
    many_words.command = vec!["x".into(); 1_025];
    let many = stream(&exec, What::Exec(many_words));

    let usage = |change: fn(&mut Usage)| {
        let mut usage = samples::usage();
        change(&mut usage);
        unchecked(&usage)
    };
    let reversed = usage(|usage| usage.pods.reverse());
    let twice = usage(|usage| usage.pods[1].uid = usage.pods[0].uid.clone());
    let endless = usage(|usage| usage.pods.clear());
    let crowd = usage(|usage| usage.pods = vec![usage.pods[1].clone(); 1_025]);

    let node = |change: fn(&mut NodeFacts)| {
        let mut facts = samples::node_facts();
        change(&mut facts);
        unchecked(&facts)
    };
    let resources = node(|facts| {
        let model = |n| (format!("x{n}").parse().unwrap(), "nvidia.com/gpu".to_owned());
        facts.resources = (0..33).map(model).collect();
    });
    let labels = node(|facts| {
        facts.labels = (0..65).map(|n| (format!("nvidia.com/x{n}"), String::new())).collect();
    });
    let resource = |name: &'static str| {
        let mut facts = samples::node_facts();
        facts.resources.insert("l4".parse().unwrap(), name.to_owned());
        unchecked(&facts)
    };
    let value = node(|facts| drop(facts.labels.insert("nvidia.com/x".into(), "x".repeat(64))));
    let key = node(|facts| drop(facts.labels.insert("nvidia.com/x y".into(), "x".into())));
    let zone = node(|facts| facts.zone = Some("a b".into()));

    vec![
        ("stream-node", "too many resources", resources, "TooLong"),
        ("stream-node", "too many labels", labels, "TooLong"),
        ("stream-node", "processors as a device", resource("cpu"), "Invalid"),
        ("stream-node", "a resource of Kubernetes' own", resource("a.kubernetes.io/b"), "Invalid"),
        ("stream-node", "a resource without a name", resource("nvidia.com/"), "Invalid"),
        ("stream-node", "a value of 64 bytes", value, "Invalid"),
        ("stream-node", "a key with a space", key, "Invalid"),
        ("stream-node", "a zone with a space", zone, "Invalid"),
        ("stream-request", "no such port", port, "Invalid"),
        ("stream-request", "no command", words, "Invalid"),
        ("stream-request", "too many words", many, "TooLong"),
        ("stream-usage", "pods out of order", reversed, "Invalid"),
        ("stream-usage", "a pod twice", twice, "Invalid"),
        ("stream-usage", "nothing, and more", endless, "Invalid"),
        ("stream-usage", "too many pods", crowd, "TooLong"),
    ]
}

fn stream(like: &Request, what: What) -> Vec<u8> {
    unchecked(&Ask::Open(Request { what, ..like.clone() }))
}
