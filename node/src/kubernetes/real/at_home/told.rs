//! What people are told on a virtual node of what it does not show.

use std::collections::BTreeSet;

use mercato_kubelet::crd::EventType;
use mercato_kubelet::inventory::own_nodes;
use mercato_protocol::text::GpuModel;

use super::AtHome;
use super::facts::Lacks;

impl AtHome {
    /// Says on the virtual node what it lacks now, where that is something else than before.
    pub(super) fn tell(&self, before: &Lacks, now: &Lacks) {
        if before.gone != now.gone {
            self.tell_of_devices(&now.gone);
        }
        if before.zone != now.zone
            && let Some(zone) = &now.zone
        {
            let text = format!(
                "the provider's nodes are in zone {zone}, and so are nodes of home, where volumes and \
                 traffic go by that name: the label is not shown"
            );
            self.event(EventType::Normal, "ZoneNotShown", text);
        }
    }

    fn tell_of_devices(&self, gone: &BTreeSet<GpuModel>) {
        if gone.is_empty() {
            let text = "the provider has nodes with all devices that were bought".to_owned();
            return self.event(EventType::Normal, "DevicesBack", text);
        }
        let models: Vec<_> = gone.iter().map(GpuModel::to_string).collect();
        let text = format!(
            "the provider has no node with {} now: what runs goes on, what is new waits, and what \
             was bought is billed",
            models.join(", ")
        );
        self.event(EventType::Warning, "DevicesGone", text);
    }

    fn event(&self, kind: EventType, reason: &'static str, text: String) {
        let Some(node) = self.task.node.get().cloned() else { return };
        let cluster = self.shared.cluster.clone();
        tokio::spawn(async move {
            if let Err(failure) =
                own_nodes::tell_of_node(&cluster, &node, kind, reason, &text).await
            {
                // Once for each change.
                tracing::warn!(%failure, text, "an event that cannot be written");
            }
        });
    }
}
