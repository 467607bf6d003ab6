//! Devices of real nodes that are not there: a driver hands out ids, as the plugins of vendors do.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::control_plane::flags;
use super::{Cluster, Kind, machine};
use crate::wait;

/// Until a kubelet has found a driver, and says what it has.
const PATIENCE: Duration = Duration::from_secs(60);

impl Cluster {
    /// The name of one of its real nodes, counted from 1.
    #[must_use]
    pub fn node_name(&self, number: u8) -> String {
        machine::name(&self.layout.name, number)
    }

    /// Gives one of the real nodes, counted from 1, the labels of a kind of nodes with devices, as
    /// simulated ones have them, and a driver that hands these out; waits until pods can ask for them.
    ///
    /// # Errors
    /// When there is no such kind, or the kubelet does not find the devices within a minute.
    pub async fn equip(&self, number: u8, devices: &str) -> Result<()> {
        let traits = Kind::of(devices, 1).traits()?;
        let node = self.node_name(number);
        let labels = json!({ "metadata": { "labels": traits.labels } }).to_string();
        self.kubectl(&["patch", "node", &node, "-p", &labels]).await?.ok()?;
        for (resource, count) in traits.allocatable.iter().filter(|(name, _)| name.contains('/')) {
            let count = count.as_str().and_then(|count| count.parse().ok());
            let count: u32 =
                count.with_context(|| format!("{devices}: {resource} has no count"))?;
            let ids: Vec<_> = (0..count).map(|n| format!("GPU-{n}")).collect();
            self.plug(number, resource, &ids).await?;
        }
        Ok(())
    }

    /// Has a driver hand out these devices on one of the real nodes, counted from 1; waits until pods
    /// can ask for them. A container finds the ids of its own in `NVIDIA_VISIBLE_DEVICES` and
    /// `DEVICE_IDS`.
    ///
    /// # Errors
    /// When one of that name runs there, or the kubelet does not find it within a minute.
    pub async fn plug(&self, number: u8, resource: &str, ids: &[String]) -> Result<()> {
        let name = resource.replace(['/', '.'], "-");
        let socket = format!("node-{number}/kubelet/plugins_registry/{name}.sock");
        let flags = flags(&[
            ("socket", self.file(&socket)),
            ("resource", resource.to_owned()),
            ("ids", ids.join(",")),
        ]);
        self.start(number, &format!("{name}-{number}"), "deviceplugin", &flags)?;
        let path = resource.replace('.', "\\.");
        let path = format!("jsonpath={{.status.allocatable.{path}}}");
        let node = self.node_name(number);
        wait::until("a kubelet has found the devices", PATIENCE, || async {
            let found = self.kubectl(&["get", "node", &node, "-o", &path]).await?.ok()?;
            Ok(found.trim() == ids.len().to_string())
        })
        .await
    }
}
