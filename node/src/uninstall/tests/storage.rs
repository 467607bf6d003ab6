//! What is stored, here and elsewhere.

use super::*;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CAPACITIES: &str = "/apis/storage.k8s.io/v1/namespaces/mercato/csistoragecapacities";
const CLAIMS: &str = "/api/v1/namespaces/shop-rome/persistentvolumeclaims";

fn volume(name: &str, driver: &str) -> Value {
    json!({
        "metadata": { "name": name, "finalizers": ["mercato.dev/volume", "a.b/c"] },
        "spec": { "csi": { "driver": driver },
            "claimRef": { "namespace": "shop", "name": "data-db-0" } },
    })
}

fn capacity(name: &str, class: &str) -> Value {
    json!({ "metadata": { "name": name }, "storageClassName": class })
}

#[tokio::test]
async fn volumes_of_ours_go_and_whose_data_goes_with_them_is_said_before() {
    let (site, log) = site(|path, _| match path {
        VOLUMES => list(&[volume("mercato-1", "volumes.mercato.dev"), volume("pv-1", "ebs")]),
        CAPACITIES => list(&[capacity("mercato-07", "mercato"), capacity("ebs-1", "gp3")]),
        NAMESPACES => list(&[json!({ "metadata": { "name": "shop-rome" } })]),
        CLAIMS => list(&[json!({
            "metadata": { "name": "mercato-2", "namespace": "shop-rome" } })]),
        _ => None,
    });
    let leaving = leaving(site, Vec::new(), silent()).await.unwrap();
    let found = leaving.found().await.unwrap();
    for part in [
        "persistentvolume/mercato-1, by which data-db-0 in shop has its data: it is lost",
        "csistoragecapacity/mercato-07 in mercato",
        "persistentvolumeclaim/mercato-2 in shop-rome, with what is stored",
    ] {
        assert!(has(&found, part), "{part}: {found:?}");
    }
    leaving.perform().await.unwrap();
    let changes = log.changes();
    let of_storage = |line: &&String| line.contains(VOLUMES) || line.contains(CAPACITIES);
    let of_storage: Vec<_> = changes.iter().filter(of_storage).collect();
    let ours = [
        format!("DELETE {CAPACITIES}/mercato-07"),
        format!("DELETE {VOLUMES}/mercato-1"),
        format!("PATCH {VOLUMES}/mercato-1"),
    ];
    assert_eq!(of_storage, ours.each_ref());
}

#[test]
fn the_job_of_the_chart_may_remove_them() {
    let rights = rights_of_the_job();
    for right in [
        "list persistentvolumes ",
        "patch persistentvolumes ",
        "delete persistentvolumes ",
        "list persistentvolumeclaims ",
        "list csistoragecapacities ",
        "delete csistoragecapacities ",
    ] {
        assert!(rights.iter().any(|one| one == right), "{right}: {rights:?}");
    }
}
