//! What runs on each other node: it does there what the daemon says, and goes on with that while
//! the daemon is away.
//!
//! `places` has what the node is told of the daemon, `connection` speaks with it, `force` is what
//! should be in force by what was heard and by the clock, `keeper` keeps the `machine` so, and `names`
//! tells guests home's names. Nothing
//! of this ends by itself. What is in force outlives the process: it goes with a snapshot that says
//! so, or after a start at which nobody vouches for it.

mod connection;
mod force;
mod keeper;
mod look;
mod machine;
mod names;
mod places;
mod standing;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::watch;

use self::connection::{Follower, Hear, Pace};
use self::keeper::NodeKeeper;
use self::machine::Host;

pub(crate) use places::Places;

/// Follows the daemon that is named there, for ever.
pub(crate) async fn follow(places: Places) {
    let machine = Arc::new(Host::default());
    let (hear, heard) = watch::channel(None);
    let (tell, told) = watch::channel(None);
    let (name, named) = watch::channel(names::Zones::new());
    let (serve, served) = watch::channel(names::Served::default());
    let keeper = NodeKeeper::new(machine.clone(), heard.clone(), served, tell);
    let names = names::serve(machine.clone(), heard, named, serve);
    let hear = Hear { heard: hear, named: name };
    let follower = Follower::new(places, Pace::default(), machine, hear, told);
    tokio::join!(keeper.keep(), names, follower.follow());
}
