//! What peers do: their messages as inputs of the agent, how much of them is dealt with, and the streams
//! that they open.

pub(crate) mod inbound;
pub(in crate::driver) mod question;
pub(in crate::driver) mod rate;
pub(in crate::driver) mod requests;
pub(in crate::driver) mod streams;
