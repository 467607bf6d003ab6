//! What a guest's own network cannot be made to send, whoever sends it there: another protocol, a source
//! that is not its own, the address of a neighbour. Whether it has left is seen on its node.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::capture::Capture;
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::Sender;
use mercato_tests::suite::{self, Level};
use mercato_tests::user::User;
use mercato_tests::wait;

use super::inside::{Frames, Inside};
use super::{GUESTS, LOCAL, NAMESPACE, NODE};

/// The guest that tries, at home and there.
const GUEST: &str = "rough";
/// A pod of the provider's own that does the same.
const ORDINARY: &str = "scout";
const SCTP: u8 = 132;
const UDP: u8 = 17;
/// How often each is sent: one frame may be lost.
const TIMES: usize = 5;
/// How long a guest takes to get another sandbox, and to be known by it, at most.
const SOON: Duration = Duration::from_secs(60);

/// What is sent, as whom.
#[derive(Clone, Copy, Debug)]
enum Try {
    Protocol,
    Source,
    Neighbour,
}

/// Makes a guest that serves; at level `full` the same holds for it in its second sandbox.
pub(crate) async fn fail(
    home: &Cluster,
    provider: &Cluster,
    near: IpAddr,
    neighbour: Ipv4Addr,
) -> Result<()> {
    let (user, guests) = (User::new(home, NAMESPACE), User::new(provider, GUESTS));
    user.on(NODE).serves(GUEST).await.context("a guest")?;
    let IpAddr::V4(near) = near else { anyhow::bail!("home's pod has {near}") };
    let ordinary = Inside::of(provider, &User::new(provider, LOCAL), ORDINARY).await?;
    for one in [Try::Protocol, Try::Source, Try::Neighbour] {
        wait::until(&format!("{one:?} of an ordinary pod leaves it"), SOON, || async {
            Ok(one.leaves(provider, &ordinary, neighbour, neighbour).await? > 0)
        })
        .await?;
    }
    let first = Inside::of(provider, &guests, GUEST).await?;
    nothing_leaves(provider, &first, near, neighbour).await?;
    if suite::level() == Level::Full {
        begins_again(&user, provider, &first).await?;
        let second = Inside::of(provider, &guests, GUEST).await?;
        nothing_leaves(provider, &second, near, neighbour)
            .await
            .context("in its second sandbox")?;
    }
    user.kubectl(&["delete", "pod", GUEST, "--wait=false"]).await.map(drop)
}

/// Its node gives it a second sandbox, in which home reaches it.
async fn begins_again(user: &User<'_>, provider: &Cluster, first: &Inside) -> Result<()> {
    let guests = User::new(provider, GUESTS);
    provider.loses_network_of(first.node, GUESTS, GUEST).await?;
    wait::until("the guest has another address", SOON, || async {
        Ok(guests.address_of(GUEST).await? != IpAddr::from(first.own))
    })
    .await?;
    let there = user.address_of(GUEST).await?;
    wait::until("home reaches it in its new sandbox", SOON, || async {
        Ok(Sender::Pod(*user, "near").tcp(there, 1, "closed").await.is_ok())
    })
    .await
}

async fn nothing_leaves(
    provider: &Cluster,
    guest: &Inside,
    home: Ipv4Addr,
    neighbour: Ipv4Addr,
) -> Result<()> {
    for one in [Try::Protocol, Try::Source, Try::Neighbour] {
        let left = one.leaves(provider, guest, home, neighbour).await?;
        ensure!(left == 0, "{one:?} has left a guest {left} times");
    }
    Ok(())
}

impl Try {
    /// How many frames of it are seen on the pod's node.
    async fn leaves(
        self,
        provider: &Cluster,
        pod: &Inside,
        to: Ipv4Addr,
        neighbour: Ipv4Addr,
    ) -> Result<u64> {
        let marker = format!("{self:?} of {}", pod.own);
        let capture = Capture::begin(&provider.machine(pod.node).network()?, &marker)?;
        let send = move |pod: &Inside| {
            let frames = Frames::open()?;
            let datagram = |marker: &str| {
                let length = (8 + marker.len()) as u16;
                [&[0x13, 0x88, 0x1b, 0x58][..], &length.to_be_bytes(), &[0, 0], marker.as_bytes()]
                    .concat()
            };
            for _ in 0..TIMES {
                match self {
                    Self::Protocol => frames.packet(pod.own, to, SCTP, marker.as_bytes()),
                    Self::Source => frames.packet(neighbour, to, UDP, &datagram(&marker)),
                    Self::Neighbour => frames.ask(neighbour, to, marker.as_bytes()),
                }
            }
            Ok(())
        };
        pod.does(send).await?;
        Ok(capture.end()?.values().map(|seen| seen.marked).sum())
    }
}
