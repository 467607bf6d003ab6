//! What a lease costs whose pods do nothing.

use std::time::Duration;

use anyhow::Result;
use mercato_tests::daemon::PART;

use crate::lease::{self, side};
use crate::stage::on_bed;
use crate::table::{self, short};

const PODS: usize = 50;
/// What the start still causes is over by then.
const SETTLE: Duration = Duration::from_secs(20);

pub(crate) fn measure(seconds: usize) -> Result<()> {
    table::head(&format!("A lease with {PODS} pods, idle for {seconds} s"));
    on_bed(2, async |rome, turin| {
        lease::start(rome, turin, PODS).await?;
        lease::deploy(rome, PODS).await?;
        lease::ready(rome, PODS).await?;
        tokio::time::sleep(SETTLE).await;
        let sides = [rome, turin];
        let mut before = Vec::new();
        for cluster in sides {
            before.push((cluster.usage(PART)?.cpu_ms, cluster.audit_mark()?));
        }
        tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
        for (cluster, (cpu_ms, mark)) in sides.into_iter().zip(before) {
            let used = (cluster.usage(PART)?.cpu_ms - cpu_ms) as f64;
            let ours = cluster.writes_since(mark)?;
            let ours = ours.iter().filter(|(write, _)| write.by == PART);
            let ours: Vec<_> =
                ours.map(|(w, count)| format!("{count} {} {}", w.verb, w.resource)).collect();
            let percent = short(used / 10.0 / seconds as f64);
            let side = side(cluster);
            table::row(
                &format!("processor at the {side}, of a core"),
                "1 %",
                &format!("{percent} %"),
            );
            table::row(&format!("writes at the {side}"), "Leases alone", &ours.join(", "));
        }
        Ok(())
    })
}
