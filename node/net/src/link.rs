//! A connection, as the swarm's task knows it.

use std::time::Instant;

use libp2p::swarm::ConnectionId;
use mercato_discovery::Address;

use crate::held::Life;
use crate::limits;
use crate::run::Run;

/// A connection.
pub(crate) struct Link {
    pub(crate) connection: ConnectionId,
    /// The other end.
    pub(crate) address: Option<Address>,
    /// By us.
    pub(crate) dialled: bool,
    pub(crate) since: Instant,
    /// The run of the peer's program at its other end, once that has said so.
    pub(crate) run: Option<Run>,
    /// What began over it ends with it.
    pub(crate) life: Life,
}

/// Whether a new connection says that the peer has lost those before: who is connected does
/// not dial, unless both dial at one moment, or one dials several times in one. So it was started
/// again, or its way to us has broken; we would know of it only when a time-out has passed. Where
/// that may not be so, the peer's [`Run`] tells, a moment later.
pub(crate) fn replaced(before: &[Link], dialled: bool) -> bool {
    let lost = |link: &Link| {
        let moment = if link.dialled { limits::BOTH_DIAL } else { limits::SAME_MOMENT };
        link.since.elapsed() > moment
    };
    !dialled && !before.is_empty() && before.iter().all(lost)
}
