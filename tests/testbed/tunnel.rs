//! What the tunnels have set up on machines of clusters.

use std::time::Duration;

use anyhow::Result;

use crate::cluster::Cluster;
use crate::wait;

/// Two ends of all leases, and what a busy machine adds.
const PATIENCE: Duration = Duration::from_secs(60);

/// It says what is there, and fails if anything is.
const NOTHING: &str = "
    left=$(ip link show mercato0 2>/dev/null; ip link show mercato1 2>/dev/null
        for family in 4 6; do
            for table in 7475 7477; do ip -$family route show table $table 2>/dev/null; done
            ip -$family rule show | grep 747[57]
        done
        nft list tables | grep mercato) || true
    [ -z \"$left\" ] || { echo \"$left\"; exit 1; }";

/// Whoever boots a machine finds none of it: the process that kept it is dead by then.
const LOST: &str = "
    ip link del mercato1
    for family in 4 6; do
        ip -$family route flush table 7475 2>/dev/null || true
        while ip -$family rule del lookup 7475 2>/dev/null; do :; done
    done
    nft delete table ip mercato; nft delete table ip6 mercato 2>/dev/null || true";

/// Waits until nothing of tunnels is left on one of its machines, counted from 1.
///
/// # Errors
/// When something is there after a minute.
pub async fn has_no_tunnel(cluster: &Cluster, number: u8) -> Result<()> {
    let what = format!("nothing of tunnels is left on {}", cluster.machine(number).name());
    wait::until(&what, PATIENCE, || async {
        cluster.on_nth_machine(number, NOTHING).await?;
        Ok(true)
    })
    .await
}

/// Removes all that a node other than the daemon's has of tunnels, as a boot does.
///
/// # Errors
/// When it has none.
pub async fn loses_the_tunnel(cluster: &Cluster, number: u8) -> Result<()> {
    cluster.on_nth_machine(number, LOST).await
}
