//! Devices of real nodes that are not there: a driver hands out ids, as the plugins of vendors do.

use std::time::Duration;

use anyhow::Result;

use super::control_plane::flags;
use super::{Cluster, machine};
use crate::wait;

/// Until a kubelet has found a driver, and says what it has.
const PATIENCE: Duration = Duration::from_secs(60);

impl Cluster {
    /// The name of one of its real nodes, counted from 1.
    #[must_use]
    pub fn node_name(&self, number: u8) -> String {
        machine::name(&self.layout.name, number)
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
