//! Which runs there are: trials by seed with faults and planted bugs, many of them at once, and
//! federations that are tried out. What happens in one is the engine's.

pub(crate) mod bug;
pub(crate) mod faults;
pub(crate) mod federation;
pub(crate) mod liars;
pub(crate) mod sabotage;
pub mod sweep;
pub(crate) mod trial;
