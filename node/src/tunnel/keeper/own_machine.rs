//! Which of the cluster's nodes this machine is, and what their network takes here: as its kernel says.

use std::net::IpAddr;
use std::time::Instant;

use mercato_machine::Marks;
use tokio::task::block_in_place;

use crate::kubernetes::NodeMachine;
use crate::limits;
use crate::tunnel::machine;
use crate::tunnel::nodes::Nodes;

/// This machine, among the nodes of the cluster.
#[derive(Default)]
pub(super) struct OwnMachine {
    /// The nodes, as the cluster has told of them last; none: it has not yet.
    told: Option<Vec<NodeMachine>>,
    /// When this machine was last compared with them; none: not yet.
    looked: Option<Instant>,
}

impl OwnMachine {
    /// Where the cluster's nodes are, on their own network and on others, as the cluster has told last.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let all = self.told.iter().flatten();
        all.flat_map(|machine| machine.addresses.iter().chain(&machine.public)).copied()
    }

    /// The cluster has these nodes from now on.
    pub(super) fn learn(&mut self, told: Vec<NodeMachine>) {
        *self = Self { told: Some(told), looked: None };
    }

    /// The kernel is asked with each word of the cluster, and now and then: its network may be another
    /// one, and which of the nodes this is may not be known yet.
    pub(super) fn mind(&mut self, marks: &Marks, nodes: &mut Nodes) {
        let is_early = |looked: Instant| looked.elapsed() < limits::TUNNEL_PROBE;
        let Some(told) = self.told.as_ref().filter(|_| !self.looked.is_some_and(is_early)) else {
            return;
        };
        if self.looked.is_none() || !nodes.is_known() {
            match block_in_place(|| machine::addresses(marks)) {
                Ok(own) => nodes.learn(told, &own),
                // The kernel does not answer, which the gateway says as well.
                Err(error) => {
                    return tracing::debug!("this machine's addresses are not known: {error:#}");
                }
            }
        }
        self.looked = Some(Instant::now());
        let of = |local| block_in_place(|| mercato_host::mtu_of(local));
        if let Some(Ok(mtu)) = nodes.local().map(of) {
            nodes.measure(mtu.unwrap_or_default());
        }
    }
}
