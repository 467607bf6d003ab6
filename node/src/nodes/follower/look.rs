//! One look at the machine, with what has to be done there.

use std::net::IpAddr;

use super::force::Target;
use super::machine::{Machine, Trouble};

/// What came of a look at the machine.
pub(super) struct Outcome {
    /// None: not asked for, or not known.
    pub(super) mtu: Option<u32>,
    pub(super) done: Result<Done, Trouble>,
}

/// What there is on the machine now.
pub(super) enum Done {
    /// With this address of the pool, if there is one.
    Stays(Option<IpAddr>),
    /// Nobody has looked at it.
    Left,
    /// Whether there was anything to remove.
    Cleaned(bool),
    /// Whether anything has led to other clusters.
    Refused(bool),
    /// With this address; the second family, if it is wanted, or why not.
    SetUp(IpAddr, Result<bool, Trouble>),
}

/// Looks at the machine, and does what has to be done. Waits for the kernel.
pub(super) fn look(machine: &impl Machine, target: &Target) -> Outcome {
    match target {
        Target::Stay => Outcome { mtu: None, done: machine.stay().map(Done::Stays) },
        Target::Leave => Outcome { mtu: Some(0), done: Ok(Done::Left) },
        Target::Nothing => Outcome { mtu: None, done: machine.clean().map(Done::Cleaned) },
        Target::Refuse => Outcome { mtu: None, done: machine.refuse().map(Done::Refused) },
        Target::SetUp(wanted) => {
            let local = wanted.overlay.as_ref().map(|overlay| overlay.local);
            // Where it cannot be asked for, nothing can be set up, which is said.
            let mtu = local.and_then(|local| machine.mtu_of(local).ok());
            let mtu = mtu.map(Option::unwrap_or_default);
            let second = |trouble: Option<_>| trouble.map_or(Ok(wanted.second.is_some()), Err);
            let done = machine.set_up(wanted);
            Outcome { mtu, done: done.map(|trouble| Done::SetUp(wanted.node, second(trouble))) }
        }
    }
}
