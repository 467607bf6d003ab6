//! A resize for which the provider has no room, as home's pod tells of it.

use super::super::resize::out_of_room;
use super::*;

/// Home's pod, of which 700m of a processor are asked for, as its third generation.
fn asking() -> Value {
    let mut home = home_pod();
    home["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "700m" } });
    home
}

/// Its guest, which has so much, and was made of this generation.
fn guest(cpu: &str, generation: u64) -> Value {
    let size = json!({ "cpu": cpu });
    json!({ "phase": "Running", "observedGeneration": generation,
        "containerStatuses": [{ "name": "web", "restartCount": 0, "allocatedResources": size,
            "resources": { "requests": size } }] })
}

fn told(guest: &Value, home: &Value, refusal: Option<Refusal>) -> Value {
    let now = "2026-01-01T00:00:00Z".to_owned();
    let context = StatusContext { resize: refusal, now, ..StatusContext::default() };
    home_status(guest, home, None, &context)
}

fn pending(status: &Value) -> Option<&Value> {
    status["conditions"].as_array()?.iter().find(|one| one["type"] == "PodResizePending")
}

#[test]
fn what_is_refused_is_told_as_a_kubelet_does() {
    let words = "the lease has 500m of cpu, 300m is in use, 700m is asked for";
    for (may_pass, reason) in [(false, "Infeasible"), (true, "Deferred")] {
        let status = told(&guest("300m", 2), &asking(), Some(out_of_room(words, may_pass)));
        let said = json!({ "type": "PodResizePending", "status": "True", "reason": reason,
            "message": words, "observedGeneration": 3,
            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        assert_eq!(pending(&status), Some(&said));
        assert_eq!(status["observedGeneration"], 3);
        let web = &status["containerStatuses"][0];
        assert_eq!(web["allocatedResources"]["cpu"], "300m", "it has what it had");
        assert_eq!(web["resources"]["requests"]["cpu"], "300m");
    }
    let path = "spec.containers.resources".to_owned();
    let status = told(&guest("300m", 2), &asking(), Some(Refusal { path, reason: words.into() }));
    assert_eq!(pending(&status).unwrap()["reason"], "Infeasible", "earlier releases do not say");
    assert_eq!(pending(&status).unwrap()["message"], words);
}

#[test]
fn it_stays_until_the_provider_has_taken_in_what_it_is_said_of() {
    let mut home = asking();
    home["status"] = told(&guest("300m", 2), &home, Some(out_of_room("no room", true)));
    let first = pending(&home["status"]).cloned();
    // The guest says something else meanwhile, and nobody remembers the refusal.
    let mut restarted = guest("300m", 2);
    restarted["containerStatuses"][0]["restartCount"] = json!(1);
    for known in [None, Some(out_of_room("no room", true))] {
        assert_eq!(pending(&told(&restarted, &home, known)).cloned(), first);
    }
    assert_eq!(pending(&told(&Value::Null, &home, None)).cloned(), first, "nothing is known");
    // It goes through, whatever is remembered.
    for known in [None, Some(out_of_room("no room", true))] {
        assert_eq!(pending(&told(&guest("700m", 3), &home, known)), None);
    }
    let mut over = guest("300m", 2);
    over["phase"] = json!("Succeeded");
    assert_eq!(pending(&told(&over, &home, None)), None, "it is over");
}

#[test]
fn it_goes_once_it_is_taken_back() {
    let mut home = asking();
    home["status"] = told(&guest("300m", 2), &home, Some(out_of_room("no room", false)));
    home["metadata"]["generation"] = json!(4);
    assert!(pending(&told(&guest("300m", 2), &home, None)).is_some(), "still asked for");
    home["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "0.3" } });
    assert_eq!(pending(&told(&guest("300m", 2), &home, None)), None);
    assert_eq!(pending(&told(&guest("300m", 4), &home, None)), None);
}

#[test]
fn a_pod_that_asks_for_no_other_size_waits_for_none() {
    let mut home = asking();
    home["spec"]["containers"][0]["image"] = json!("web:2");
    let refused = || Some(out_of_room("no room", false));
    assert_eq!(pending(&told(&guest("700m", 2), &home, refused())), None);
    assert_eq!(pending(&told(&json!({ "phase": "Pending" }), &home, refused())), None);
    // What a kubelet over there says counts where the provider does not refuse.
    let mut deferred = guest("300m", 3);
    deferred["conditions"] = json!([{ "type": "PodResizePending", "status": "True",
        "reason": "Deferred", "observedGeneration": 3 }]);
    home["status"] = told(&deferred, &home, None);
    assert_eq!(pending(&home["status"]).unwrap()["reason"], "Deferred");
    assert_eq!(pending(&told(&guest("700m", 3), &home, None)), None);
}
