//! What the webhook changes of pods.

use super::*;

fn applied(strategy: Strategy, pod: &Value) -> Value {
    to(&Targets::All, strategy, pod)
}

fn to(targets: &Targets, strategy: Strategy, pod: &Value) -> Value {
    let how = OptIn { strategy, targets: targets.clone(), ..OptIn::default() };
    admitted(&how, pod.clone())
}

const REQUIRED: &str =
    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

#[test]
fn a_pod_that_waits_for_nodes_of_before_is_outdated() {
    let these = |name: &str| Targets::new(vec![name.to_owned()]);
    let (turin, slip) = (these("mercato-turin"), these("mercato-turino"));
    let pod = to(&slip, Strategy::Remote, &json!({ "spec": {} }));
    assert!(is_outdated(Strategy::Remote, &turin, &pod));
    assert!(is_outdated(Strategy::Both, &turin, &pod));
    assert!(is_outdated(Strategy::Local, &Targets::All, &pod));
    assert!(!is_outdated(Strategy::Remote, &slip, &pod));
    let bound =
        json!({ "spec": { "nodeName": "mercato-turino", "affinity": pod["spec"]["affinity"] } });
    assert!(!is_outdated(Strategy::Remote, &turin, &bound));
    // Whatever is named then, or nobody any more.
    let (all, by_id) = (&Targets::All, these(&"4f".repeat(32)));
    for strategy in [Strategy::Remote, Strategy::Both] {
        assert!(is_outdated(strategy, all, &pod), "{strategy:?}");
        let named = to(&by_id, Strategy::Remote, &json!({ "spec": {} }));
        assert!(is_outdated(strategy, all, &named), "{strategy:?}");
        assert!(!is_outdated(strategy, all, &to(all, strategy, &json!({ "spec": {} }))));
    }
    // What its template requires is not the webhook's: made again it would be the same.
    let mut own = pod.clone();
    own["metadata"] = Value::Null;
    let own = to(all, Strategy::Both, &own);
    assert!(must_leave(&own) && !is_outdated(Strategy::Both, all, &own));
    let stays = to(&slip, Strategy::Both, &json!({ "spec": {} }));
    assert!(!is_outdated(Strategy::Remote, &turin, &stays), "it does not wait: home takes it");
}

#[test]
fn a_pod_says_by_which_word_it_was_placed() {
    let turin = Targets::new(["mercato-turin".to_owned()]);
    let bare = json!({ "spec": {} });
    let placed = |strategy, targets: &Targets, pod: &Value| {
        placed_by(&to(targets, strategy, pod)).map(str::to_owned)
    };
    for (strategy, targets, word) in [
        (Strategy::Remote, &Targets::All, Some("remote")),
        (Strategy::Remote, &turin, Some("remote:mercato-turin")),
        (Strategy::Both, &turin, Some("both:mercato-turin")),
        (Strategy::Both, &Targets::All, None),
        (Strategy::Local, &Targets::All, None),
    ] {
        assert_eq!(placed(strategy, targets, &bare).as_deref(), word, "{strategy:?}");
        let copy =
            json!({ "metadata": { "annotations": { "a": "b", PLACED: "remote" } }, "spec": {} });
        let said = to(targets, strategy, &copy);
        assert_eq!(placed_by(&said), Some(&*super::word(strategy, targets)), "{strategy:?}");
        assert_eq!(said["metadata"]["annotations"]["a"], "b");
    }
}

#[test]
fn both_may_leave_and_may_stay() {
    let others = json!({ "key": "gpu", "operator": "Exists" });
    let pod = applied(Strategy::Both, &json!({ "spec": { "tolerations": [others] } }));
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert!(pod["spec"]["affinity"].is_null());
}

#[test]
fn whoever_no_provider_takes_stays_where_it_may() {
    let claim = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data" } });
    let port = json!({ "name": "web", "ports": [{ "containerPort": 80, "hostPort": 80 }] });
    let other = Targets::new(["mercato-turin".to_owned()]);
    for spec in [json!({ "volumes": [claim] }), json!({ "containers": [port] })] {
        let pod = json!({ "metadata": { "generateName": "web-" }, "spec": spec });
        for targets in [&Targets::All, &other] {
            let stays = to(targets, Strategy::Both, &pod);
            let terms = stays.pointer(REQUIRED).unwrap();
            let at_home = json!({ "key": PROVIDER, "operator": "DoesNotExist" });
            assert_eq!(terms, &json!([{ "matchExpressions": [at_home] }]));
            assert!(stays["spec"]["tolerations"].is_null());
            assert!(
                admission(Strategy::Both, targets, &Secrets::All, &stays).is_empty(),
                "a second review"
            );
        }
        assert!(must_leave(&applied(Strategy::Remote, &pod)), "it is told why over there");
        let mut chosen = pod.clone();
        chosen["spec"]["nodeSelector"] = json!({ PROVIDER: "x" });
        let tolerates = applied(Strategy::Both, &chosen);
        assert_eq!(tolerates["spec"]["tolerations"].as_array().unwrap().len(), 1);
    }
    let uses = json!({ "spec": { "volumes": [
        { "name": "tls", "secret": { "secretName": "tls" } } ] } });
    let which = |secrets| OptIn { strategy: Strategy::Both, secrets, ..OptIn::default() };
    let kept = which(Secrets::Deny(["tls".to_owned()].into()));
    assert_eq!(
        admitted(&kept, uses.clone()).pointer(REQUIRED).unwrap()[0]["matchExpressions"][0]["operator"],
        "DoesNotExist"
    );
    let goes = which(Secrets::Deny(["other".to_owned()].into()));
    assert!(admitted(&goes, uses.clone()).pointer(REQUIRED).is_none());
    let told = OptIn { strategy: Strategy::Remote, ..kept };
    assert!(must_leave(&admitted(&told, uses)), "it is told why over there");
    let empty = json!({ "spec": { "volumes": [{ "name": "tmp", "emptyDir": {} }] } });
    assert!(applied(Strategy::Both, &empty).pointer(REQUIRED).is_none());
}

#[test]
fn remote_must_leave_by_every_alternative() {
    let zone = |z: &str| json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": [z] }] });
    let mut pod = json!({ "spec": { "affinity": { "podAffinity": { "kept": true } } } });
    pod["spec"]["affinity"]["nodeAffinity"] = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [zone("a"), {}, zone("b")] } });
    let pod = applied(Strategy::Remote, &pod);
    let terms = pod.pointer(REQUIRED).unwrap();
    assert_eq!(terms[0]["matchExpressions"].as_array().unwrap().len(), 2);
    assert_eq!(terms[1], json!({}), "a term that matches nothing must not begin to match");
    assert_eq!(terms[2]["matchExpressions"][1]["operator"], "Exists");
    assert_eq!(pod["spec"]["affinity"]["podAffinity"]["kept"], true);
}

#[test]
fn a_pod_that_must_leave_is_known_again_and_one_that_may_stay_is_not() {
    let bare = json!({ "spec": {} });
    let turin = Targets::new(["mercato-turin".to_owned(), "4f".repeat(32)]);
    for (strategy, targets, must) in [
        (Strategy::Remote, &Targets::All, true),
        (Strategy::Remote, &turin, true),
        (Strategy::Both, &turin, false),
        (Strategy::Both, &Targets::All, false),
        (Strategy::Local, &Targets::All, false),
    ] {
        let mut pod = to(targets, strategy, &bare);
        assert_eq!(must_leave(&pod), must, "{strategy:?} {targets:?}");
        pod["spec"]["nodeName"] = "mercato-turin".into();
        assert!(!must_leave(&pod), "it is bound");
    }
    assert!(!must_leave(&bare));
    // An annotation that permits nobody leaves no alternative at all.
    let mut none = bare;
    none["spec"]["affinity"]["nodeAffinity"] = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [] } });
    assert!(!must_leave(&none));
}

#[test]
fn a_bare_pod() {
    let pod = applied(Strategy::Remote, &json!({ "spec": {} }));
    assert_eq!(pod.pointer(REQUIRED).unwrap()[0]["matchExpressions"][0]["operator"], "Exists");
    let pod = applied(Strategy::Local, &json!({ "spec": {} }));
    assert_eq!(
        pod.pointer(REQUIRED).unwrap()[0]["matchExpressions"][0]["operator"],
        "DoesNotExist"
    );
    assert!(pod["spec"]["tolerations"].is_null());
}

#[test]
fn a_second_review_changes_nothing() {
    let turin = Targets::new(["mercato-turin".to_owned(), "4f".repeat(32)]);
    for strategy in [Strategy::Both, Strategy::Remote, Strategy::Local] {
        for targets in [&Targets::All, &turin] {
            let once = to(targets, strategy, &json!({ "spec": {} }));
            assert!(
                admission(strategy, targets, &Secrets::All, &once).is_empty(),
                "{strategy:?} {targets:?}"
            );
        }
    }
}

#[test]
fn each_alternative_goes_to_one_of_the_targets() {
    let zone = |z: &str| json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": [z] }] });
    let mut pod = json!({ "spec": {} });
    pod["spec"]["affinity"]["nodeAffinity"] = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [zone("a"), zone("b")] } });
    let turin = Targets::new(["mercato-turin".to_owned(), "4f".repeat(32)]);
    let terms = |strategy| to(&turin, strategy, &pod).pointer(REQUIRED).unwrap().clone();
    assert_eq!(terms(Strategy::Remote).as_array().unwrap().len(), 6);
    let both = terms(Strategy::Both);
    assert_eq!(both.as_array().unwrap().len(), 8);
    let home = both[3]["matchExpressions"].as_array().unwrap();
    assert_eq!((&home[0]["key"], &home[1]["operator"]), (&json!("zone"), &json!("DoesNotExist")));
}

#[test]
fn what_is_placed_stays() {
    let daemon =
        json!({ "metadata": { "ownerReferences": [{ "kind": "DaemonSet" }] }, "spec": {} });
    let all = (Targets::All, Secrets::All);
    let stays = |pod: &Value| admission(Strategy::Remote, &all.0, &all.1, pod).is_empty();
    assert!(stays(&daemon) && stays(&json!({ "spec": { "nodeName": "n" } })));
}
