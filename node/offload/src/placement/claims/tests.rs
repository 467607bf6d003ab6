//! What a lease does about claims and volumes that are seen.

use serde_json::json;

use super::*;

const GIB: u64 = 1 << 30;

fn claim(uid: &str, gib: u64) -> SeenClaim {
    SeenClaim {
        key: claim_key("shop", uid),
        name: format!("data-{uid}"),
        is_ours: true,
        bytes: gib * GIB,
        chosen: Some("mercato-turin".into()),
        volume: None,
        refusal: None,
    }
}

fn bound(uid: &str, gib: u64) -> SeenClaim {
    SeenClaim { chosen: None, volume: Some(claim_name(uid)), ..claim(uid, gib) }
}

fn volume(uid: &str, is_discarded: bool) -> SeenVolume {
    SeenVolume { key: claim_key("shop", uid), is_discarded }
}

fn bought(gib: u64) -> Bought<'static> {
    Bought { node: "mercato-turin", bytes: gib * GIB, is_open: true }
}

type Steps = (BTreeMap<ObjectKey, Step>, u64);

fn steps(bought: Bought<'_>, claims: &[SeenClaim], volumes: &[SeenVolume], made: &[&str]) -> Steps {
    let claims = claims.iter().map(|claim| (claim.key.clone(), claim.clone())).collect();
    let volumes = volumes.iter().map(|volume| (volume.key.clone(), volume.clone())).collect();
    let made = made.iter().map(|uid| claim_key("shop", uid)).collect();
    bought.steps(&claims, &volumes, &UnderWay { made, ..UnderWay::default() })
}

fn of<'a>(steps: &'a Steps, uid: &str) -> Option<&'a Step> {
    steps.0.get(&claim_key("shop", uid))
}

#[test]
fn a_chosen_claim_is_made_and_takes_its_room() {
    let now = steps(bought(10), &[claim("u1", 3), bound("u2", 4)], &[volume("u2", false)], &[]);
    assert_eq!((of(&now, "u1"), of(&now, "u2")), (Some(&Step::Make), Some(&Step::Keep)));
    assert_eq!(now.1, 3 * GIB);
    let other = SeenClaim { chosen: Some("mercato-milan".into()), ..claim("u1", 3) };
    assert_eq!(of(&steps(bought(10), &[other], &[], &[]), "u1"), None, "of another lease");
    let waits = SeenClaim { chosen: None, ..claim("u1", 3) };
    assert_eq!(of(&steps(bought(10), &[waits], &[], &[]), "u1"), None, "no node is chosen");
    let foreign = SeenClaim { is_ours: false, ..claim("u1", 3) };
    assert_eq!(of(&steps(bought(10), &[foreign], &[], &[]), "u1"), None, "of another class");
}

#[test]
fn of_two_claims_that_do_not_fit_together_the_second_is_refused() {
    let now = steps(bought(4), &[claim("u1", 3), claim("u2", 3)], &[], &[]);
    assert_eq!(of(&now, "u1"), Some(&Step::Make));
    let Some(Step::Refuse(refusal)) = of(&now, "u2") else { panic!("{now:?}") };
    assert_eq!(refusal.path, "spec.resources.requests.storage");
    assert!(refusal.reason.starts_with("asks for 3Gi where 1Gi of what"), "{refusal:?}");
    assert!(refusal.reason.contains("contracts resize"), "{refusal:?}");
    assert_eq!(now.1, GIB);
    let begun = steps(bought(4), &[claim("u1", 3), claim("u2", 3)], &[], &["u2"]);
    assert!(matches!(of(&begun, "u1"), Some(Step::Refuse(_))), "{begun:?}");
    assert_eq!(of(&begun, "u2"), Some(&Step::Make), "what was begun keeps its room");
}

#[test]
fn a_lease_that_is_not_open_takes_no_claims_and_goes_on_with_what_it_has() {
    let shut = Bought { is_open: false, ..bought(10) };
    let claims = [claim("u1", 1), claim("u2", 1), bound("u3", 1)];
    let now = steps(shut, &claims, &[volume("u3", false)], &["u2"]);
    assert!(matches!(of(&now, "u1"), Some(Step::Refuse(_))), "{now:?}");
    assert_eq!((of(&now, "u2"), of(&now, "u3")), (Some(&Step::Make), Some(&Step::Keep)));
    assert_eq!(now.1, 0, "the scheduler finds no room");
}

#[test]
fn nothing_is_discarded_but_by_a_released_volume_or_before_there_is_one() {
    let gone = steps(bought(10), &[], &[volume("u1", true), volume("u2", false)], &["u3"]);
    assert_eq!(of(&gone, "u1"), Some(&Step::Discard));
    assert_eq!(of(&gone, "u2"), None, "its claim is not seen, and it is not released");
    assert_eq!(of(&gone, "u3"), Some(&Step::Discard), "no volume of it ever was");
    let lost = steps(bought(10), &[bound("u4", 1)], &[], &[]);
    assert_eq!(of(&lost, "u4"), None, "its volume was taken away by hand");
}

#[test]
fn a_claim_that_is_bound_before_its_volume_is_seen_keeps_what_is_stored() {
    let now = steps(bought(4), &[bound("u1", 3), claim("u2", 3)], &[], &["u1"]);
    assert_eq!(of(&now, "u1"), None, "nothing is discarded, and nothing is to be said yet");
    assert!(matches!(of(&now, "u2"), Some(Step::Refuse(_))), "its room is not sold again: {now:?}");
    assert_eq!(now.1, GIB);
}

#[test]
fn a_volume_is_discarded_where_it_is_released_and_says_delete() {
    let of = |phase: &str, policy: &str, driver: &str| {
        SeenVolume::read(&json!({
            "metadata": { "name": "mercato-u1" }, "status": { "phase": phase },
            "spec": { "csi": { "driver": driver }, "persistentVolumeReclaimPolicy": policy,
                "claimRef": { "namespace": "shop", "uid": "u1" } },
        }))
    };
    assert_eq!(of("Released", "Delete", DRIVER), Some(volume("u1", true)));
    assert_eq!(of("Released", "Retain", DRIVER), Some(volume("u1", false)));
    assert_eq!(of("Bound", "Delete", DRIVER), Some(volume("u1", false)));
    assert_eq!(of("Released", "Delete", "disks.example"), None);
}

#[test]
fn a_pod_calls_its_claims_as_they_are_called_there_or_stays() {
    let own = SeenClaim { is_ours: false, chosen: None, ..claim("u2", 1) };
    let elsewhere = SeenClaim { volume: Some("mercato-u3".into()), ..claim("u3", 1) };
    let scratch = SeenClaim { name: "web-tmp".into(), ..bound("u5", 1) };
    let claims = [bound("u1", 1), own, elsewhere, claim("u4", 1), scratch];
    let volumes = ["u1", "u5"].map(|uid| (claim_key("shop", uid), volume(uid, false))).into();
    let mounts = bought(9).mounts(claims.iter(), &volumes);
    let pod = |claim: &str| {
        json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": { "volumes": [
            { "name": "tmp", "emptyDir": {} },
            { "name": "data", "persistentVolumeClaim": { "claimName": claim } }] } })
    };
    let called = |name: &str, there: &str| Some(Ok([(name.to_owned(), there.to_owned())].into()));
    assert_eq!(mounts.of(&pod("data-u1")), called("data-u1", "mercato-u1"));
    for (claim, words) in [("data-u2", "storageClassName: mercato"), ("data-u3", "not with this")] {
        let Some(Err(refusal)) = mounts.of(&pod(claim)) else { panic!("{claim}") };
        assert_eq!(refusal.path, "spec.volumes[1]");
        assert!(refusal.reason.contains(words), "{refusal:?}");
    }
    assert!(mounts.of_another_class(&pod("data-u2")) && !mounts.of_another_class(&pod("data-u3")));
    for unknown in ["data-u4", "data-u9"] {
        assert_eq!(mounts.of(&pod(unknown)), None, "{unknown} is known soon");
    }
    let mut ephemeral = pod("none");
    ephemeral["spec"]["volumes"] = json!([{ "name": "tmp", "ephemeral": {} }]);
    assert_eq!(mounts.of(&ephemeral), called("web-tmp", "mercato-u5"));
    assert_eq!(Mounts::Unknown.of(&pod("data-u1")), None);
    assert!(matches!(Mounts::NoStorage.of(&pod("data-u1")), Some(Err(_))));
    let bare = json!({ "metadata": { "namespace": "shop" }, "spec": {} });
    assert_eq!(Mounts::Unknown.of(&bare), Some(Ok(BTreeMap::new())), "it mounts nothing");
}

#[test]
fn a_pod_that_is_made_is_looked_at_without_what_crosses() {
    let ephemeral = |class: &str| {
        json!({ "name": class, "ephemeral": { "volumeClaimTemplate": { "spec": {
            "storageClassName": class } } } })
    };
    let mounts =
        |claim: &str| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } });
    let pod = json!({ "spec": { "volumes": [mounts("ours"), mounts("own"), ephemeral("mercato"),
        ephemeral("disks"), { "name": "tmp", "emptyDir": {} }] } });
    assert_eq!(named(&pod).collect::<Vec<_>>(), ["ours", "own"]);
    let left = without_ours(pod, &["own".to_owned()].into());
    let names: Vec<_> = left["spec"]["volumes"].as_array().unwrap().iter().collect();
    let names: Vec<_> = names.iter().map(|volume| volume["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["own", "disks", "tmp"]);
}

#[test]
fn what_is_discarded_is_not_made_before_it_is_gone() {
    let claims = [claim("u1", 1)].map(|claim| (claim.key.clone(), claim)).into();
    let discarded = BTreeSet::from([claim_key("shop", "u1")]);
    let under_way = UnderWay { discarded, ..UnderWay::default() };
    let now = bought(10).steps(&claims, &BTreeMap::new(), &under_way);
    assert_eq!(of(&now, "u1"), Some(&Step::Discard));
}
