//! How large packets that pods send may be.

use std::net::IpAddr;

use anyhow::{Context as _, Result, ensure};
use mercato_machine::{Family, Overlay, Wanted};

use crate::both;
use crate::cluster::{DEVICE, said, set_up};
use crate::nodes::{GUEST, OVERLAY, POD};
use crate::packets::{PORT, socket};

/// What pods send before they are told of less.
const WHOLE: u32 = 1_500;

/// By another node than the gateway's, before anybody has told either end of a size.
pub(crate) fn first_datagrams_pass_between_nodes() -> Result<()> {
    for (network, mtu) in [(Family::V4, 1_450), (Family::V6, 1_430)] {
        let nodes = both::new()?;
        set_up(&nodes.gateway, &whole(both::of_gateway(network), network))?;
        set_up(&nodes.node, &whole(both::of_node(network), network))?;
        nodes.settle()?;
        for (at, device, mtu) in [
            (&nodes.gateway, DEVICE, WHOLE),
            (&nodes.gateway, OVERLAY, mtu),
            (&nodes.node, OVERLAY, mtu),
        ] {
            let link = said(at, &format!("ip -o link show {device}"))?;
            ensure!(link.contains(&format!("mtu {mtu} ")), "not {mtu}: {link}");
        }
        let pod = socket(&nodes.pod, POD, PORT)?;
        let guest = socket(&nodes.guest, GUEST, PORT)?;
        let (to_guest, to_pod) = (IpAddr::from(GUEST), IpAddr::from(POD));
        // With the headers of IP and UDP 1,428 bytes, which the kernel forbids to fragment.
        for (from, to, at) in [(&pod, &guest, to_guest), (&guest, &pod, to_pod)] {
            from.send_to(&[7; 1_400], (at, PORT))?;
            let (length, _) = to.recv_from(&mut [0; 2_000]).with_context(|| {
                format!("the first datagram to {at} is lost on a network of {network:?}")
            })?;
            ensure!(length == 1_400, "{length} bytes came to {at}");
        }
    }
    Ok(())
}

/// As the daemon wants it where the network of the nodes takes 1,500 bytes.
fn whole(mut wanted: Wanted, network: Family) -> Wanted {
    wanted.mtu = WHOLE;
    if let Some(overlay) = &mut wanted.overlay {
        overlay.mtu = WHOLE - Overlay::headers(network);
    }
    wanted
}
