//! Claims that a provider was never sent.

use anyhow::{Result, ensure};
use mercato_offload::limits::CLAIMS;
use mercato_protocol::id::Digest;
use mercato_protocol::workload::{Item, ObjectKey, ObjectKind, Refusal, Stage, ToHome};
use mercato_tests::user::User;

use super::{COUNT, Provider, running};
use crate::Scene;

/// Whatever it says of them, home makes no volume of it and takes none away, asks it for none and has none
/// removed.
pub(super) async fn of_others(
    scene: &Scene<'_>,
    lab: &User<'_>,
    provider: &mut Provider<'_>,
) -> Result<()> {
    let claim = |uid: &str| {
        let (namespace, name) = ("lab".to_owned(), uid.to_owned());
        Item::Object(ObjectKey { kind: ObjectKind::Claim, namespace, name })
    };
    let many = (0..2 * CLAIMS).map(|n| claim(&format!("u-{n}")));
    let refusal = Refusal { path: String::new(), reason: "because I like to".to_owned() };
    let lies = [claim(&scene.stored.uid)].into_iter().chain(many).flat_map(|item| {
        let have = |digest| ToHome::Have { item: item.clone(), digest, report: None };
        [
            have(Some(Digest::of(b"data"))),
            have(None),
            ToHome::Refused { item: item.clone(), refusal: refusal.clone() },
            ToHome::Missing(item.clone()),
            have(Some(Digest::of(b"data"))),
        ]
    });
    provider.puts.clear();
    for some in lies.collect::<Vec<_>>().chunks(64) {
        provider.line.say(some.to_vec(), &[]).await?;
    }
    let pod = provider.pod.clone();
    provider.says(&pod, &running("claimed", 6), Stage::Live).await?;
    provider.until(lab, "victim", COUNT, "Running 6 claimed").await?;
    ensure!(provider.puts.is_empty(), "it was sent {:?}", provider.puts);
    scene.stored.is_there(&scene.siena, &scene.milan).await?;
    let events = ["get", "events", "-A", "-o", "jsonpath={..message}"];
    let events = scene.milan.cluster.kubectl(&events).await?.ok()?;
    ensure!(!events.contains("because I like to"), "{events}");
    Ok(())
}
