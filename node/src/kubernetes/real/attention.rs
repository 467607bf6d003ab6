//! What a person has to do for a cluster.

use mercato_broker::Side;

use super::examine;
use super::link::Link;
use super::shared::{held, put_back};
use crate::admin::{Attention, AttentionKind};

/// All of it, by what is known of the cluster.
pub(super) fn of(link: &Link) -> Vec<Attention> {
    let trouble = link.trouble.as_ref().map(|why| {
        Attention::of(AttentionKind::ClusterUnreachable, format!("no cluster for now: {why}"))
    });
    let missing = link.missing.iter();
    let missing = missing.map(|line| Attention::of(AttentionKind::RightMissing, line));
    let named = link.called_like_ours.iter().map(|name| {
        Attention::of(AttentionKind::NodeNameTaken, examine::called_like_ours(name))
            .command("mercato doctor")
    });
    let waiting = link.shared.iter().flat_map(|shared| shared.waiting());
    let held = link.shared.iter().filter_map(|shared| held(&shared.cluster.held()));
    let held = held.map(|text| Attention::of(AttentionKind::WritesHeld, text));
    let put_back = link.shared.iter().flat_map(|shared| put_back(&shared.kept.recent()));
    let put_back = put_back.map(|text| Attention::of(AttentionKind::PutBack, text));
    let unmade = link.shared.iter().flat_map(|shared| shared.unmade().clone());
    let unmade = unmade.map(|((contract, _), why)| Attention {
        side: Some(Side::Provider),
        order: Some(contract.into()),
        contract: Some(contract),
        ..Attention::of(
            AttentionKind::NamespaceWaiting,
            format!("guests of {} wait for their namespace: {why}", contract.short()),
        )
    });
    let volumes = link.shared.iter().flat_map(|shared| shared.volumes_left());
    trouble
        .into_iter()
        .chain(volumes)
        .chain(missing)
        .chain(named)
        .chain(waiting)
        .chain(held)
        .chain(put_back)
        .chain(unmade)
        .collect()
}
